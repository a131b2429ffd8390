"""Finds races between Pods of equal priority, in which chance decides which Pod stays Pending."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence

    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.prediction.simulation.summary import Names

    Workload = tuple[str, str]

K = TypeVar("K")
T = TypeVar("T")

_AT_ONCE: Final = 1.0
"""Seconds within which controllers create Pods in any order."""
_MAX_PAIRS: Final = 32
"""Maximum number of pairs of workloads that are evaluated: at most a second of CPU time in a large cluster."""
_FEW_PAIRS: Final = 4
"""Maximum number of such pairs in each of many simulations."""


class _Racing(NamedTuple):
    """A Pod of a workload, created at the time `at`."""

    at: float
    workload: str
    pod: Pod


def rivals(simulation: Simulation, names: Names, losers: Container[str]) -> tuple[set[str], bool]:
    """Return the workloads that may have Pending Pods, or more of them, at the end instead of other `losers`, and
    whether there are no more.
    """
    return _races(simulation, names, losers, lambda _, rival: rival, _MAX_PAIRS)


def rivals_by_loser(simulation: Simulation, names: Names, losers: Iterable[Workload]) -> dict[str, list[str]]:
    """Map each loser to the workloads that may lose replicas in its place, including owners of equal victims; losers
    without any are omitted.

    Checks at most `_FEW_PAIRS` pairs of new Pods. Equal victims must have been recorded by the scheduling algorithm.
    """
    equal, own = equal_victims(simulation, names), {*map(names.name_of, losers)}
    for loser, rival in _races(simulation, names, own, lambda *pair: pair, _FEW_PAIRS)[0]:
        equal[loser].add(rival)
    return {name: sorted(equal[name]) for name in own if equal[name]}


def _races(
    simulation: Simulation, names: Names, losers: Container[str], key: Callable[[str, str], K], max_pairs: int
) -> tuple[set[K], bool]:
    """Return the keys of (loser, rival), of which one pair each is enough, and whether there are no more.

    A new Pod of each has the priority of a Pending Pod and is created at the same time, not to replace its victim:
    chance decides which of the two kube-scheduler tries first. The Pending Pod fits without the other one, which then
    stays Pending.
    """
    snapshot, found = simulation.cache.snapshot(), set[K]()
    pairs = _pairs(simulation, names, losers, lambda loser, rival: key(loser, rival) in found)
    for number, (pending, rival) in enumerate(_alternate(pairs)):
        if number == max_pairs:
            return found, False
        if _may_swap(pending.pod, rival.pod, snapshot):
            found.add(key(pending.workload, rival.workload))
    return found, True


def equal_victims(simulation: Simulation, names: Names) -> defaultdict[str, set[str]]:
    """Return, by the workloads of victims, others with Pods that kube-scheduler may preempt on other nodes instead.

    Without Pods that it preempts anyway. The scheduling algorithm must have recorded equal candidates.
    """
    origins, found = simulation.timeline.origins, defaultdict[str, set[str]](set)
    preempted = {event.pod for event in simulation.timeline.events if event.event == "preempted"}
    for chosen, *others in simulation.scheduler.algorithm.equal or ():
        victims = {names.name_of(origins[pod.key].workload) for pod in chosen.victims}
        left = {pod.key for other in others for pod in other.victims} - preempted
        for name in victims:
            found[name] |= {names.name_of(origins[key].workload) for key in left} - victims
    return found


def _alternate(iterators: Iterable[Iterator[T]]) -> Iterator[T]:
    """Yield the first item of each iterator, then the second of each, and so on."""
    left = deque(iterators)
    while left:
        if (item := next(left[0], None)) is None:
            left.popleft()
            continue
        yield item
        left.rotate(-1)


def _pairs(
    simulation: Simulation, names: Names, losers: Container[str], is_found: Callable[[str, str], bool]
) -> Iterator[Iterator[tuple[_Racing, _Racing]]]:
    """Yield the pairs (Pending Pod, bound Pod) of each loser, for each pair of workloads once.

    Skips the pairs of workloads that are found by then.
    """
    waiting, bound = _racing(simulation, names, losers)
    preempted = {
        (names.name_of(event.by_origin.workload), names.name_of(event.origin.workload))
        for event in simulation.timeline.events
        if event.event == "preempted" and event.origin and event.by_origin
    }

    def pairs_of(pending: _Racing, others: Sequence[_Racing]) -> Iterator[tuple[_Racing, _Racing]]:
        start = bisect_left(others, pending.at - _AT_ONCE, key=_created)
        for rival in islice(others, start, bisect_right(others, pending.at + _AT_ONCE, key=_created)):
            is_other = rival.workload != pending.workload and not is_found(pending.workload, rival.workload)
            if is_other and (rival.workload, pending.workload) not in preempted:
                yield pending, rival

    for pending in waiting:
        yield pairs_of(pending, bound.get(pending.pod.effective_priority, ()))


def _racing(
    simulation: Simulation, names: Names, losers: Container[str]
) -> tuple[Collection[_Racing], dict[int, list[_Racing]]]:
    """Return a Pending Pod of each loser, and by priority a bound Pod of each workload, the oldest first."""
    created = {event.pod: event.t for event in simulation.timeline.events if event.event == "created"}
    waiting: dict[str, _Racing] = {}
    bound: dict[int, dict[str, _Racing]] = {}
    for key in sorted(created):
        namespace, _, name = key.partition("/")
        state = simulation.api.pods.get((namespace, name))
        workload = names.name_of(simulation.timeline.origins[key].workload)
        if state is None or state.terminating:
            continue
        racing = _Racing(created[key], workload, state.pod)
        if workload in losers and simulation.scheduler.is_pending(state):
            waiting.setdefault(workload, racing)
        elif state.pod.node_name:
            bound.setdefault(state.pod.effective_priority, {}).setdefault(workload, racing)
    return waiting.values(), {priority: sorted(each.values(), key=_created) for priority, each in bound.items()}


def _created(racing: _Racing) -> float:
    return racing.at


def _may_swap(pending: Pod, bound: Pod, snapshot: Snapshot) -> bool:
    """Report whether the first Pod fits without the second one, which is then Pending."""
    info = snapshot.get(bound.node_name)
    present = [pod for pod in info.pods if pod.identity == bound.identity] if info else []
    first = Prediction(snapshot.with_pods((), present), replace(pending, nominated_node_name=""))
    if not present or first.outcome != "fits":
        return False
    return Prediction(first.snapshot_after(), replace(bound, node_name="")).outcome == "pending"
