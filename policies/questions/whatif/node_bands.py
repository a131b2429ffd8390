"""The requests on each node, in bands (ranges) of priorities, at any time of a simulation."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.base.findings import grouped
from forewarn.policies.kubernetes.objects.node import ZONE, Node
from forewarn.policies.questions.whatif.occupancy import BEFORE, SCHEDULABLE, Occupancy, Placed, PodInterval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.questions.whatif.answer import Preemption

MAX_BANDS: Final = 8
"""Maximum number of bands for priorities above 0."""
WHOLE: Final = 200
"""The value of a complete share in a frame; shares above 1.275 are cut."""
CPU, MEMORY = range(2)
LASTS, DOOMED = range(2)
_MAX_CLASSES: Final = 4


class Band(NamedTuple):
    """A range of priorities, from `least` to `highest`.

    `classes`: the PriorityClasses of the Pods in the range ("" for none), most Pods first.
    """

    least: int
    highest: int
    classes: Sequence[str]


class Frame(NamedTuple):
    """The nodes at `t` seconds.

    `shares` [node, band, LASTS or DOOMED, CPU or MEMORY]: requests as a share of the node's allocatable amount, in
    units of 1 / WHOLE; DOOMED Pods will be preempted. `states` [node]: SCHEDULABLE, CORDONED or REMOVED.
    """

    t: float
    shares: NDArray[np.uint8]
    states: NDArray[np.uint8]


class NodeBands:
    """The nodes of a simulation, sorted by zone and name, and the bands of priorities, lowest first."""

    def __init__(self, occupancy: Occupancy | Placed, preemptions: Iterable[Preemption]) -> None:
        intervals = occupancy.intervals
        self.nodes = sorted(occupancy.nodes.values(), key=lambda node: (zone_of(node), node.name))
        places = {node.name: place for place, node in enumerate(self.nodes)}
        self.intervals = [interval for interval in intervals if interval.node in places]
        self.doomed = _preempted(self.intervals, preemptions)
        self.bands = _bands(self.intervals)
        self._least = np.array([band.least for band in self.bands], dtype=np.int64)
        self._where = np.array([places[interval.node] for interval in self.intervals], dtype=np.int64)
        priorities = np.array([interval.priority for interval in self.intervals], dtype=np.int64)
        self._band = np.searchsorted(self._least, priorities, "right") - 1
        self._start = np.array([interval.start for interval in self.intervals])
        self._end = np.array([interval.end for interval in self.intervals])
        # The share of a node's allocatable amount that each Pod requests: [interval, CPU or MEMORY].
        allocatable = [(max(n.allocatable.milli_cpu, 1), max(n.allocatable.memory, 1)) for n in self.nodes]
        on_nodes = ((interval, allocatable[places[interval.node]]) for interval in self.intervals)
        shares = [(pod.milli_cpu / whole[CPU], pod.memory / whole[MEMORY]) for pod, whole in on_nodes]
        self._shares = np.array(shares).reshape(-1, 2)
        self._changes = [(c.t, places[c.node], c.state) for c in occupancy.node_changes]

    def frame(self, t: float) -> Frame:
        """Return the state of all nodes at `t` seconds; BEFORE is the start, infinity the end of the simulation."""
        on_node = (self._start <= t) & ((self._end > t) | (self._end == inf))
        cells = (self._where[on_node] * max(len(self.bands), 1) + self._band[on_node]) * 2 + self.doomed[on_node]
        size = len(self.nodes) * len(self.bands) * 2
        summed = [np.bincount(cells, self._shares[on_node, what], size) for what in (CPU, MEMORY)]
        shares = np.minimum(np.rint(np.stack(summed, axis=-1) * WHOLE), 255).astype(np.uint8)
        states = np.full(len(self.nodes), SCHEDULABLE, dtype=np.uint8)
        for moment, place, state in self._changes:
            if moment <= t:
                states[place] = state
        return Frame(t, shares.reshape(len(self.nodes), len(self.bands), 2, 2), states)

    def moments(self, limit: int) -> list[float]:
        """Return the times of changes on nodes in whole seconds: at most `limit`, with about equally many changes
        between two.
        """
        times = np.concatenate([self._start, self._end, [t for t, _, _ in self._changes]])
        seconds, counts = np.unique(np.ceil(times[(times != BEFORE) & (times != inf)]), return_counts=True)
        if len(seconds) > limit > 0:
            reached = np.cumsum(counts)
            wanted = np.searchsorted(reached, reached[-1] * np.arange(1, limit + 1) / limit)
            seconds = seconds[np.unique(wanted)]
        return [float(second) for second in seconds[:limit]]


def zone_of(node: Node) -> str:
    return node.labels.get(ZONE, "")


def _preempted(intervals: Sequence[PodInterval], preemptions: Iterable[Preemption]) -> NDArray[np.bool_]:
    """Return [interval]: true if the Pod's time on the node ended by preemption."""
    moments = grouped((preemption.victim, preemption.t) for preemption in preemptions)
    is_preempted = [
        any(interval.start <= t <= interval.end for t in moments.get(interval.pod, ())) for interval in intervals
    ]
    return np.array(is_preempted, dtype=bool)


def _bands(intervals: Sequence[PodInterval]) -> list[Band]:
    """Return the bands, lowest first: one for priorities below 0 (placeholder Pods), one for 0 (Pods without a class),
    and at most MAX_BANDS for priorities above 0.
    """
    counts = defaultdict[int, Counter[str]](Counter)
    for interval in intervals:
        counts[interval.priority][interval.priority_class] += 1
    ordered = sorted(counts)
    zero, above = bisect_left(ordered, 0), bisect_right(ordered, 0)
    parts = (ordered[:zero], 1), (ordered[zero:above], 1), (ordered[above:], MAX_BANDS)
    return [_band(group, counts) for part, limit in parts for group in _merge_bands(part, counts, limit)]


def _merge_bands(priorities: Sequence[int], counts: Mapping[int, Counter[str]], limit: int) -> list[list[int]]:
    """Return the priorities in at most `limit` groups of neighbours, with about equal numbers of Pods."""
    total, seen = sum(counts[priority].total() for priority in priorities), 0
    groups: list[list[int]] = []
    for priority in priorities:
        if len(priorities) <= limit or seen * limit // total >= len(groups):
            groups.append([])
        groups[-1].append(priority)
        seen += counts[priority].total()
    return groups


def _band(group: Sequence[int], counts: Mapping[int, Counter[str]]) -> Band:
    classes = sum((counts[priority] for priority in group), Counter[str]())
    named = sorted(classes, key=lambda name: (-classes[name], name))
    return Band(group[0], group[-1], named[:_MAX_CLASSES])
