"""The view of a controller: objects with their times, as in informers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.storage import PersistentVolumeClaim
    from forewarn.policies.selectors import LabelSelector

Key = tuple[str, str, str]
"""(`group/Kind`, namespace, name)."""


@dataclass(frozen=True, slots=True)
class PodState:
    """A Pod with its times, in seconds since 1970.

    `created`: in whole seconds, as stored. `ready`: since when, None if not ready. `deleted`: the time of its DELETE,
    in whole seconds. `finished`: when its containers terminated by themselves. `gone`: no longer stored; only Jobs see
    such Pods. `disrupted`: it has the condition DisruptionTarget from a component other than kube-scheduler; `pod` has
    kube-scheduler's.

    `restarts`: the maximum for a container and for a sidecar. `template`: its template, if known.
    """

    pod: Pod
    created: float = 0.0
    ready: float | None = None
    deleted: float | None = None
    finished: float | None = None
    gone: bool = False
    disrupted: bool = False
    restarts: tuple[int, int] = (0, 0)
    deletion_cost: int = 0
    template: ApiObject | None = None

    @property
    def terminating(self) -> bool:
        """Whether the Pod has a deletion timestamp."""
        return self.pod.terminating or self.deleted is not None

    @property
    def active(self) -> bool:
        """Neither ended nor about to. Source: pkg/controller `IsPodActive`."""
        return not self.pod.terminal and not self.terminating

    def available(self, min_ready_seconds: int, now: float) -> bool:
        """Ready for so long. Source: pkg/api/v1/pod `IsPodAvailable`."""
        return self.ready is not None and (min_ready_seconds == 0 or self.ready + min_ready_seconds <= now)


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """A workload, or a budget, as it is stored. `status`: what its controller set last, None before its first sync."""

    key: Key
    object: ApiObject
    status: Any = None
    created: float = 0.0
    controller: Key | None = None


class PodCounts(NamedTuple):
    """The numbers of active and of ready Pods of a workload."""

    active: int = 0
    ready: int = 0


class Tally:
    """Pods of a namespace whose labels are the same: how many there are, how many of these are healthy, and of which
    controllers."""

    __slots__ = ("healthy", "labels", "owners", "pods")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels, self.pods, self.healthy = labels, 0, 0
        self.owners: dict[Key, int] = {}

    def count(self, state: PodState, sign: int) -> None:
        """Add (1) or remove (-1) a Pod."""
        self.pods += sign
        self.healthy += sign * (state.ready is not None and not state.terminating)
        owner = state.pod.owner
        if owner is not None:
            key = (f"{owner.api_version.rpartition('/')[0]}/{owner.kind}", state.pod.namespace, owner.name)
            left = self.owners.get(key, 0) + sign
            if left:
                self.owners[key] = left
            else:
                self.owners.pop(key, None)


class View(Protocol):
    """The state that an engine provides to controllers. Sequences are in order of creation."""

    def workload(self, key: Key, /) -> WorkloadState | None:
        """The object of this identity."""

    def owned(self, key: Key, /) -> Sequence[WorkloadState]:
        """The workloads that it controls: a Deployment's ReplicaSets, a CronJob's Jobs."""

    def pods_of(self, key: Key, /) -> Sequence[PodState]:
        """The pods that it controls, ended and terminating ones too; a Job's until they are released, gone or not."""

    def counts(self, key: Key, /) -> PodCounts | None:
        """Return the number of Pods that it controls; None without a tally."""

    def selected(self, state: WorkloadState, selector: Callable[[], LabelSelector | None], /) -> Iterable[Tally]:
        """The pods of a budget's namespace that its selector, which need not be asked for twice, matches; of nil none.
        Raises what `selector` raises."""

    def claim(self, namespace: str, name: str, /) -> PersistentVolumeClaim | None:
        """The PersistentVolumeClaim of this name."""

    def default_storage_class(self) -> str:
        """The class that admission gives to claims that name none; empty if there is none."""

    def pods_on(self, node: str, /) -> Sequence[PodState]:
        """The pods that are bound to a node, which need not exist."""

    def lot(self, name: str, /) -> float:
        """Return the sort key for upstream's iteration over a Go map, then by name: constant without randomness."""

    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name."""

    def admit(self, template: ApiObject, make: Callable[[], ApiObject], /) -> Pod:
        """Return a new Pod from `make` after admission.

        `template`: equal templates give equal Pods, so the result may be cached.

        Raises InvalidObject.
        """
