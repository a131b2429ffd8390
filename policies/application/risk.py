"""`risk`: the risks of each workload."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.application.cluster import counted_results
from forewarn.policies.application.losses import counted
from forewarn.policies.application.simulated import DEFAULT_UNTIL, world_with
from forewarn.policies.cluster.answer_head import head_of
from forewarn.policies.kinds.registry import NODE, POD
from forewarn.policies.objects.fields import InvalidInput, InvalidObject
from forewarn.policies.rules.support.names import suggested
from forewarn.policies.simulation.dump import unknown_owners
from forewarn.policies.whatif.questions import namespace_not_found
from forewarn.policies.whatif.risk import Risks, Tried, risks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.application.cluster import Cluster, Progress
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.simulation.scenario import World
    from forewarn.policies.whatif.questions import Question


@dataclass(frozen=True)
class Workloads:
    """The workloads of a namespace, or of a PriorityClass ("": workloads without a class); None: all."""

    namespace: str | None = None
    priority_class: str | None = None

    def __str__(self) -> str:
        """A phrase, for example ` of class gold in namespace shop`."""
        name = self.priority_class
        of_class = "" if name is None else f" of class {name}" if name else " without a class"
        return of_class if self.namespace is None else f"{of_class} in namespace {self.namespace}"

    def has(self, namespace: str, priority_class: str) -> bool:
        """Report whether a workload is one of these."""
        return self.namespace in (None, namespace) and self.priority_class in (None, priority_class)

    def require(self, cluster: ClusterSnapshot) -> None:
        """Check the names. Raises InvalidInput for an unknown namespace or class, and InvalidObject for names without a
        running workload.
        """
        unknown = namespace_not_found(cluster, self.namespace) if self.namespace is not None else ""
        if (name := self.priority_class) and name not in cluster.priority_classes:
            unknown += f"; PriorityClass {name} not found{suggested(name, cluster.priority_classes)}"
        if unknown:
            raise InvalidInput(unknown.removeprefix("; "))
        if str(self):
            raise InvalidObject(f"no running workload{self}")


_ALL: Final = Workloads()


def risk(
    cluster: Cluster,
    workloads: Workloads = _ALL,
    *,
    most: int = 100,
    until: float = DEFAULT_UNTIL,
    progress: Progress | None = None,
) -> Risks:
    """List the PriorityClasses that can preempt each workload, and the nodes and zones that it cannot lose.

    `most`: maximum number of simulated zones, and of nodes. `until`: simulated seconds. Raises InvalidInput for unknown
    names.
    """

    def lose(world: World, questions: Sequence[Question]) -> Iterator[Mapping[str, Any]]:
        return counted_results(counted(world, questions, Tried), len(questions), progress)

    cluster.require(NODE, POD)
    snapshot = cluster.snapshot
    running = (pod for pod in snapshot.pods.values() if pod.node_name)
    if not any(workloads.has(pod.namespace, pod.priority_class_name) for pod in running):
        workloads.require(snapshot)
    answer = risks(snapshot, world_with(cluster.cache, [], until), most, lose)
    selected = [entry for entry in answer.workloads if workloads.has(entry.namespace, entry.priority_class)]
    if not selected:
        workloads.require(snapshot)
    head = head_of(snapshot, (*answer.head.assumes, *unknown_owners(cluster.cache)))
    return replace(answer, workloads=selected, head=head)
