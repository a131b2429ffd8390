"""The scale-down of cluster-autoscaler in simulations: nodes are tainted, drained and removed.

Sources: core/static_autoscaler.go, `scaleDown`; core/scaledown/actuation (actuator.go, drain.go).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.kubernetes.objects.fields import at
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.pod_list import is_expendable, without_expendable
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.scale_down import (
    TO_BE_DELETED,
    GroupSize,
    Removable,
    ScaleDown,
    Scene,
    pods_to_move,
)
from forewarn.policies.prediction.simulation.simulation import Simulation, evict
from forewarn.policies.questions.whatif.autoscalers import MAX_WORK, Autoscaling, RemovedNode, ScaleDowns

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.controllers.view import PodState
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.scale_down import ScaleDownSettings
    from forewarn.policies.prediction.simulation.api_server import ApiServer
    from forewarn.policies.prediction.simulation.clock import Steps

_CANDIDATE: Final = "DeletionCandidateOfClusterAutoscaler"
"""Taint of unneeded nodes; its value is the time since when. forewarn does not add it to more nodes."""
_DIGITS: Final = 12
_EVICTION_RETRY: Final = 10.0
_POLL: Final = 5.0
_HEADROOM: Final = 30.0
"""Seconds between attempts of an eviction and between checks of evicted Pods, and extra seconds for their end."""


def _drains(
    simulation: Simulation, settings: ScaleDownSettings, pods: Sequence[PodState], message: str
) -> Generator[float | None, None, str]:
    """Evict Pods, and wait until they have terminated; return why this is not possible, or ""."""
    clock, api = simulation.clock, simulation.api
    deadline, left = clock.now + settings.max_eviction_time, list(pods)
    while left := [state for state in left if _stored(api, state) and not evict(api, state, message)]:
        if clock.now >= deadline:
            return f"Pod {left[0].pod.key} not evicted"
        yield _EVICTION_RETRY
    deadline = clock.now + settings.max_grace_period + _HEADROOM
    while left := [state for state in pods if _stored(api, state)]:
        if clock.now >= deadline:
            return f"Pod {left[0].pod.key} not terminated"
        yield _POLL
    return ""


def _stored(api: ApiServer, state: PodState) -> bool:
    stored = api.pods.get((state.pod.namespace, state.pod.name))
    return stored is not None and stored.pod.uid == state.pod.uid


class Removals:
    """The scale-down of cluster-autoscaler in a simulation. `now`: seconds since 1970.

    Source: core/static_autoscaler.go, `scaleDown`.
    """

    def __init__(self, simulation: Simulation, autoscaling: Autoscaling, added: Mapping[str, str]) -> None:
        """`added`: new node -> its group; may grow."""
        self._simulation, self._settings, self._cutoff = simulation, autoscaling.settings.scale_down, autoscaling.cutoff
        self._least = {group.name: group.min_size for group in autoscaling.groups}
        members = [(name, group.name, of) for group in autoscaling.groups for name, of in (group.members or {}).items()]
        self._own, self._added = {name: group for name, group, _ in members}, added
        self._disabled = {name for name, _, of in members if of.disabled}
        self._unready = {name for name, _, of in members if not of.ready}
        self._delayed, self._halts = {name for name, _, of in members if of.delayed}, autoscaling.settings.why_halted
        self._decider = ScaleDown(self._settings, interval=autoscaling.settings.scan_interval)
        self._deleting: dict[str, bool] = {}
        self._removed: list[RemovedNode] = []
        self._failed: dict[str, str] = {}
        self._last_deletion, self._work, self.not_predicted = -inf, MAX_WORK, ""
        self._started = False
        self._next: float | None = None

    def scan(self, snapshot: Snapshot, upcoming: Mapping[str, int], last_scale_up: float, *, paused: bool) -> None:
        """Find the unneeded nodes, and start to remove those that were not needed for long enough.

        `snapshot`: see `Scene`. `upcoming`: by group, the number of nodes that are not ready. `paused`: nothing is
        removed in this scan.
        """
        try:
            with metered(lambda: False, self._work) as work:
                empty, drained = self._decided(snapshot, upcoming, last_scale_up, paused=paused)
            self._work = work.remaining
        except CutShort:
            self.not_predicted = "further removals (they take too much work)"
            return
        for name in (*empty, *drained):
            self._deleting[name] = name in drained
            self._simulation.awaited += 1
            self._simulation.clock.spawn(self._remove(name, drains=name in drained))

    def _decided(
        self, snapshot: Snapshot, upcoming: Mapping[str, int], last_scale_up: float, *, paused: bool
    ) -> tuple[Sequence[str], Sequence[str]]:
        clock, scene = self._simulation.clock, self._scene(snapshot, upcoming)
        if not self._started:
            self._started = True
            self._decider.unneeded = dict(self._marked())
        if why := self._halts(self._simulation.api.nodes):
            self._decider.unneeded, self._decider.kept, self._next = {}, dict.fromkeys(scene.groups, why), None
            return [], []
        self._decider.update(scene, self._simulation.api.seconds)
        ends = last_scale_up + self._settings.delay_after_add, self._last_deletion + self._settings.delay_after_delete
        waits = [end for end in ends if end > clock.now]
        empty, drained = ([], []) if waits or paused else self._decider.nodes_to_delete(scene)
        if empty or drained:
            self._last_deletion = clock.now
        self._next = self._decider.next_change(scene)
        if waits and self._decider.unneeded:
            self._next = max(self._next or 0.0, self._simulation.api.seconds + max(waits) - clock.now)
        return empty, drained

    def _scene(self, snapshot: Snapshot, upcoming: Mapping[str, int]) -> Scene:
        api = self._simulation.api
        groups = {name: group for name in api.nodes if (group := self._group_of(name))}
        sizes = Counter(groups.values())
        sizes.update(upcoming)
        return Scene(
            snapshot=snapshot,
            pdbs=self._simulation.cache.snapshot().pdbs,
            nodes=sorted(name for name in api.nodes if name in snapshot.rows),
            groups=groups,
            sizes={name: GroupSize(size, self._least[name]) for name, size in sizes.items()},
            disabled=self._disabled,
            unready=self._unready,
            deleting=self._deleting,
            created=self._created,
            replicas=self._replicas,
        )

    def _marked(self) -> Iterator[tuple[str, Removable]]:
        """Yield the nodes that cluster-autoscaler found unneeded before the start of the simulation, as their taint
        shows.
        """
        now = self._simulation.api.seconds
        for name, node in self._simulation.api.nodes.items():
            value = next((taint.value for taint in node.taints if taint.key == _CANDIDATE), "")
            if value.isascii() and value.isdecimal() and len(value) <= _DIGITS:
                yield name, Removable(min(float(value), now), (), risky=False, waits=False)

    def _created(self, pod: Pod) -> float | None:
        state = self._simulation.api.pods.get((pod.namespace, pod.name))
        return None if state is None else state.created

    def _replicas(self, kind: str, namespace: str, name: str) -> int | None:
        state = self._simulation.api.workloads.get((kind, namespace, name))
        if state is None:
            return None
        replicas = at(state.object, "spec", "replicas")
        return replicas if isinstance(replicas, int) else 1

    def _remove(self, name: str, *, drains: bool) -> Steps:
        """Remove a node as cluster-autoscaler does; if its Pods cannot be evicted in time, it stays.

        An annotation that delays the removal stays until upstream waits no longer.
        DaemonSet Pods leave with the node: upstream evicts them only as far as it can.
        """
        api, settings = self._simulation.api, self._settings
        node = api.nodes[name]
        cordoned = settings.cordons or node.unschedulable
        api.put_node(replace(node, unschedulable=cordoned, taints=(*node.taints, TO_BE_DELETED)))
        yield settings.delay_after_taint
        scene = self._scene(without_expendable(self._simulation.cache.snapshot(), self._cutoff), {})
        moving, problem = pods_to_move(scene, settings, name, api.seconds)
        stored = (api.pods.get((pod.namespace, pod.name)) for pod in moving)
        pods = [state for state in stored if state is not None and state.pod.node_name == name]
        if pods and not problem:
            evictions = _drains(self._simulation, settings, pods, f"scale-down of {name}")
            problem = (yield from evictions) if drains else "new Pods on the node"
        if name in self._delayed and not problem:
            yield settings.deletion_delay
        if (left := api.nodes.get(name)) is None:
            problem = "the node no longer exists"
        elif problem:  # uncordons the node, as upstream's CleanTaints does
            taints = tuple(taint for taint in left.taints if taint != TO_BE_DELETED)
            api.put_node(replace(left, unschedulable=left.unschedulable and not settings.cordons, taints=taints))
        else:
            api.remove_node(name)
        del self._deleting[name]
        self._simulation.awaited -= 1
        if problem:
            self._failed[name] = problem
            return
        self._failed.pop(name, None)
        group, now = self._group_of(name), self._simulation.clock.now
        self._removed.append(RemovedNode(name, group, now, len(pods), self._expendable_on(name)))

    def _group_of(self, name: str) -> str:
        """The group of a node; "" if unknown."""
        return self._added.get(name) or self._own.get(self._simulation.api.replaced_nodes.get(name, name), "")

    def _expendable_on(self, name: str) -> int:
        states = self._simulation.api.by_node.get(name, {}).values()
        return sum(state.active and is_expendable(state.pod, self._cutoff) for state in states)

    def next_scan(self) -> float | None:
        """Return the simulated time, in seconds, after which a scan may remove more nodes although nothing changes."""
        if self.not_predicted or self._next is None:
            return None
        return self._next - self._simulation.api.seconds + self._simulation.clock.now

    @property
    def is_limited(self) -> bool:
        """Whether the last scan stopped at a limit, so that the next one looks at more nodes."""
        return self._decider.is_limited

    def result(self) -> ScaleDowns:
        """The removed nodes, and why the others stay."""
        api, gone = self._simulation.api, {each.node for each in self._removed} | self._deleting.keys()
        kept = Counter(why for name, why in self._decider.reasons().items() if name in api.nodes and name not in gone)
        return ScaleDowns(self._removed, sorted(self._deleting), kept, self._failed, self.not_predicted)
