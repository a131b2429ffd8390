"""Which Pods may preempt each other, by PriorityClass: each class's requests, and the Pods that it could displace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import inlined_in_json
from forewarn.policies.base.documents.answer import NO_CLASS, AnswerDocument, AnswerStatus, Counter, Rows, Table
from forewarn.policies.base.findings import plural
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Result, head_of
from forewarn.policies.kubernetes.kube_apiserver.priority import default_priority_class
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.quantity import cores, gibibytes, percent
from forewarn.policies.kubernetes.scheduling.event_handlers import is_pending

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.pod import Pod


class Requested(NamedTuple):
    """A number of Pods and the sum of their requests: CPU in thousandths, memory in bytes."""

    pods: int = 0
    milli_cpu: int = 0
    memory: int = 0

    def plus(self, other: Requested) -> Requested:
        return Requested(self.pods + other.pods, self.milli_cpu + other.milli_cpu, self.memory + other.memory)


class NewPodsOfClass(NamedTuple):
    """Whether new Pods of a PriorityClass may preempt."""

    preempt: bool


class PreemptablePods(NamedTuple):
    """The number of running Pods with a PriorityClass and value."""

    class_: str
    value: int
    pods: int


class PriorityLevel(NamedTuple):
    """A PriorityClass (empty: none) with a priority value.

    `newPods`: whether new Pods may preempt; null if new Pods do not get this value. `running`: running Pods and their
    requests. `pending`: number of Pods Pending for kube-scheduler. `couldDisplace`: running Pods of lower priority that
    a new Pod may preempt. `mayPreempt`: these Pods by class and value.
    """

    class_: str
    value: int
    global_default: bool
    new_pods: NewPodsOfClass | None
    running: Requested
    pending: int
    could_displace: Requested
    may_preempt: Sequence[PreemptablePods]


@dataclass(frozen=True)
class Classes(Result):
    """The output of `forewarn classes`. `allocatable`: the sum of all nodes. `classes`: the highest value first.
    `pendingOfOtherSchedulers`: number of Pods, which `classes` omits.
    """

    allocatable: Requested
    classes: Sequence[PriorityLevel]
    pending_of_other_schedulers: int = 0

    @property
    def percent_of_cpu(self) -> int:
        """The requested share of cpu."""
        return percent(sum(level.running.milli_cpu for level in self.classes), self.allocatable.milli_cpu)

    @property
    def percent_of_memory(self) -> int:
        """The requested share of memory."""
        return percent(sum(level.running.memory for level in self.classes), self.allocatable.memory)

    @inlined_in_json
    def document(self) -> AnswerDocument:
        old = [level for level in self.classes if level.new_pods is None]
        counts = {
            "running Pods": sum(level.running.pods for level in self.classes),
            _PENDING: sum(level.pending for level in self.classes),
            _OLD_VALUE: sum(each.running.pods + each.pending for each in old if each.class_),
            _WITHOUT: sum(each.running.pods + each.pending for each in self.classes if not each.class_),
            "Pending for other schedulers": self.pending_of_other_schedulers,
        }
        doubts = [f"{plural(counts[name], 'Pod')} {name}" for name in (_WITHOUT, _OLD_VALUE) if counts[name]]
        doubts += [f"{plural(counts[_PENDING], 'Pod')} Pending"] if counts[_PENDING] else []
        number = sum(bool(level.class_ and level.new_pods) for level in self.classes)
        return AnswerDocument(
            status=AnswerStatus.WARN if doubts else AnswerStatus.OK,
            question=plural(number, "PriorityClass", "PriorityClasses"),
            clause=", ".join(doubts) or "all Pods have one",
            shown=[*_shown(self, counts)],
            tables=[table_of(self), *_matrix(self)],
            more=("-v which class may preempt which", "forewarn predict -f FILE, for the actual victims"),
        )


# The answer

_OLD: Final = "old value"


_WITHOUT: Final = "without a class"
_OLD_VALUE: Final = "with an old value of their class"
_PENDING: Final = "Pods Pending now"


def _shown(levels: Classes, counts: Mapping[str, int]) -> Iterator[Counter]:
    yield Counter("cpu requested", levels.percent_of_cpu, more=" %")
    yield Counter("memory requested", levels.percent_of_memory, more=" %")
    new_ones = next((f" (new ones get {level.class_})" for level in levels.classes if level.global_default), "")
    for name, count in counts.items():
        more = new_ones if name == _WITHOUT else ""
        yield Counter(name, count, more=more, optional=name != "running Pods")


def table_of(levels: Classes) -> Table:
    """A row for each PriorityClass, the highest value first."""
    rows: Rows = []
    for each in levels.classes:
        own = cores(each.running.milli_cpu), gibibytes(each.running.memory)
        counts = each.running.pods, each.pending, *own, each.could_displace.pods
        notes = ["default"] if each.global_default else []
        notes += [] if each.new_pods is None or each.new_pods.preempt else ["never preempts"]
        note = _OLD if each.new_pods is None else ", ".join(notes)
        rows.append([each.class_ or NO_CLASS, each.value, *counts, note])
    return Table(("CLASS", "VALUE", "RUNNING", "PENDING", "CPU", "MEMORY", "MAY PREEMPT", "NOTE"), rows)


def _matrix(levels: Classes) -> Iterator[Table]:
    """The requests of the Pods that a new Pod of a class may preempt, and their number by class."""
    theirs: Rows = [
        [level.class_ or NO_CLASS, level.value, each.pods, cores(each.milli_cpu), gibibytes(each.memory)]
        for level in levels.classes
        if (each := level.could_displace).pods
    ]
    yield Table(("CLASS", "VALUE", "MAY PREEMPT", "THEIR CPU", "THEIR MEMORY"), theirs, detail=1)
    rows: Rows = [
        [level.class_ or NO_CLASS, level.value, lower.class_ or NO_CLASS, lower.value, lower.pods]
        for level in levels.classes
        for lower in level.may_preempt
    ]
    yield Table(("CLASS", "VALUE", "MAY PREEMPT CLASS", "OF VALUE", "PODS"), rows, detail=1)


def priority_levels(cluster: ClusterSnapshot) -> Classes:
    """Return the PriorityClasses of a cluster, and other priorities of its Pods.

    Source of what may be preempted: upstream `SelectVictimsOnNode`.
    """
    running: dict[tuple[str, int], Requested] = {}
    pending: dict[tuple[str, int], int] = {}
    unknown = cluster.objects.pods_on_unknown_nodes
    for pod in cluster.pods.values():
        key = pod.priority_class_name, pod.effective_priority
        if pod.terminal or pod.node_name in unknown:
            continue
        if pod.node_name:
            running[key] = running.get(key, Requested()).plus(_of(pod))
        elif is_pending(pod, cluster.semantics.scheduler_names):
            pending[key] = pending.get(key, 0) + 1
    default = default_priority_class(cluster.priority_classes.values())
    current = {(c.name, c.value): c.preemption_policy != PREEMPT_NEVER for c in cluster.priority_classes.values()}
    if default is None:
        current["", 0] = True
    keys, levels = sorted({*running, *pending, *current}, key=lambda key: (-key[1], key[0])), []
    for key in keys:
        preempts = current.get(key)
        lower = [other for other in keys if other in running and other[1] < key[1]] if preempts else []
        levels.append(
            PriorityLevel(
                *key,
                global_default=default is not None and key == (default.name, default.value),
                new_pods=None if preempts is None else NewPodsOfClass(preempts),
                running=running.get(key, Requested()),
                pending=pending.get(key, 0),
                could_displace=reduce(Requested.plus, (running[other] for other in lower), Requested()),
                may_preempt=[PreemptablePods(*other, running[other].pods) for other in lower],
            )
        )
    others = len(cluster.waiting_pods) - sum(pending.values())
    return Classes(head_of(cluster), _allocatable(cluster), levels, others)


def _of(pod: Pod) -> Requested:
    requests = pod.occupies.resource
    return Requested(1, requests.milli_cpu, requests.memory)


def _allocatable(cluster: ClusterSnapshot) -> Requested:
    nodes = (node.allocatable for node in cluster.objects.nodes.values())
    amounts = (Requested(node.allowed_pod_number, node.milli_cpu, node.memory) for node in nodes)
    return reduce(Requested.plus, amounts, Requested())
