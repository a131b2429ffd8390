"""Races between Pods of equal priority: which of them stays Pending is not certain."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.copies import replace
from forewarn.policies.scheduling.schedule_one import Prediction
from forewarn.policies.simulation.summary import Names, touched

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.simulation.simulation import Simulation

_AT_ONCE: Final = 1.0
"""Seconds within which controllers create Pods in any order."""
_MAX_PAIRS: Final = 32
"""Maximum number of pairs of workloads that are evaluated: at most a second of CPU time in a large cluster."""


def rivals(simulation: Simulation, names: Names, losers: Container[str]) -> list[str]:
    """Return the workloads that may have Pending Pods at the end instead of `losers`, all by their names in `names`.

    A new Pod of each has the priority of a Pending Pod and is created at the same time, not to replace its victim:
    chance decides which of the two kube-scheduler tries first. The Pending Pod fits without the other one, which then
    stays Pending.
    """
    snapshot, found = simulation.cache.snapshot(), set[str]()
    for pending, bound, rival in islice(_pairs(simulation, names, losers), _MAX_PAIRS):
        if rival not in found and _may_swap(pending, bound, snapshot):
            found.add(rival)
    return sorted(found)


def _pairs(simulation: Simulation, names: Names, losers: Container[str]) -> Iterator[tuple[Pod, Pod, str]]:
    """Yield (Pending Pod, bound Pod, the workload of the latter), for each pair of workloads once."""
    created = {event.pod: event.t for event in simulation.timeline.events if event.event == "created"}
    waiting: dict[str, tuple[float, Pod]] = {}
    bound: dict[tuple[int, str], tuple[float, Pod]] = {}
    for key in sorted(touched(simulation) & created.keys()):
        namespace, _, name = key.partition("/")
        state = simulation.api.pods.get((namespace, name))
        workload = names.of(simulation.timeline.origins[key].workload)
        if state is None or state.terminating:
            continue
        if workload in losers and simulation.scheduler.is_pending(state):
            waiting.setdefault(workload, (created[key], state.pod))
        elif workload not in losers and state.pod.node_name:
            bound.setdefault((state.pod.effective_priority, workload), (created[key], state.pod))
    preempted = {
        (names.of(event.by_origin.workload), names.of(event.origin.workload))
        for event in simulation.timeline.events
        if event.event == "preempted" and event.origin and event.by_origin
    }
    for loser, (at, pending) in waiting.items():
        for (priority, workload), (time, pod) in bound.items():
            is_race = abs(time - at) <= _AT_ONCE and (workload, loser) not in preempted
            if is_race and priority == pending.effective_priority:
                yield pending, pod, workload


def _may_swap(pending: Pod, bound: Pod, snapshot: Snapshot) -> bool:
    """Report whether the first Pod fits without the second one, which is then Pending."""
    info = snapshot.get(bound.node_name)
    present = [pod for pod in info.pods if pod.identity == bound.identity] if info else []
    first = Prediction(snapshot.with_pods((), present), replace(pending, nominated_node_name=""))
    if not present or first.outcome != "fits":
        return False
    return Prediction(first.snapshot_after(), replace(bound, node_name="")).outcome == "pending"
