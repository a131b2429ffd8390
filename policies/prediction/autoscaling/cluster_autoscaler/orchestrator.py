"""One scan, and one scale-up: which node groups get how many nodes.

Sources: core/static_autoscaler.go, `RunOnce`; core/scaleup/orchestrator/orchestrator.go; for the expanders, which
choose the node group, expander/{waste,leastnodes,mostpods,priority,random}, factory/chain.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import inf, nan
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from forewarn.policies.base.findings import brief, one_line
from forewarn.policies.base.metering import charge
from forewarn.policies.inputs.manifests.documents import Fault
from forewarn.policies.inputs.manifests.reading import values
from forewarn.policies.kubernetes.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, ExactAmounts
from forewarn.policies.kubernetes.quantity import NANO
from forewarn.policies.kubernetes.scheduling.framework import PluginFault
from forewarn.policies.kubernetes.scheduling.not_predicted import is_scheduled_by_group
from forewarn.policies.prediction.autoscaling import Arrival, NotPredicted
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.estimator import (
    MAX_NODES,
    EquivalenceGroup,
    Estimate,
    group_by_scheduling_properties,
)
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.flags import Interval, Number, Share, Switch, flags_of
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import (
    IGNORED_LABELS,
    NodeGroup,
    is_daemon_pod,
    template_info,
)
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.pod_list import filter_out_schedulable
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.scale_down import ScaleDownSettings

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.releases.semantics import Semantics
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


DEFAULT: Final = "least-waste"
RANDOM: Final = "random"
PRIORITY: Final = "priority"
PRIORITIES: Final = "cluster-autoscaler-priority-expander"
"""The ConfigMap of the expander priority."""
_MAX_TEXT: Final = 1 << 16
_MAX_NESTED: Final = 10
_TOKEN: Final = re.compile(
    r"\[\^?\]?(?:\\(?:[dDsSwW]|[^\w\s])|[^\\\[\]])*\]|\\(?:[dDsSwW]|[^\w\s])|\(\?:|[^\\]", re.ASCII | re.DOTALL
)
"""A character class, an escaped character, the start of a group, or another character of a regular expression."""

_Ends = Callable[[str, set[int]], set[int]]
"""Function of a text and start positions; returns the end positions of all matches that begin at one of them."""


class Option(NamedTuple):
    """What one node group offers: `nodes` new nodes for `pods` Pods.

    `waste`: the idle share of the new nodes' cpu plus that of their memory.
    """

    group: str
    nodes: int
    pods: int
    waste: float


_PrioritiesOf = Callable[[Option], frozenset[int]]


def option_of(estimate: Estimate) -> Option:
    """Return the option of an estimate."""
    capacity, nodes = estimate.group.capacity, estimate.nodes
    requests = [pod.occupies.resource for pod, _ in estimate.placed]
    cpu, memory = -(-capacity.get(CPU, 0) * 1000 // NANO), -(-capacity.get(MEMORY, 0) // NANO)
    waste = _idle(cpu * nodes, sum(request.milli_cpu for request in requests))
    waste += _idle(memory * nodes, sum(request.memory for request in requests))
    return Option(estimate.group.name, nodes, len(estimate.placed), waste)


def _idle(available: int, requested: int) -> float:
    if available:
        return (available - requested) / available
    return -inf if requested else nan


def _least_waste(options: Sequence[Option], _: _PrioritiesOf) -> Sequence[Option]:
    best: list[Option] = []
    least = 0.0
    for option in options:
        if best and option.waste == least:
            best.append(option)
        if not best or option.waste < least:
            least, best = option.waste, [option]
    return best


def _least_nodes(options: Sequence[Option], _: _PrioritiesOf) -> Sequence[Option]:
    least = min(option.nodes for option in options)
    return [option for option in options if option.nodes == least]


def _most_pods(options: Sequence[Option], _: _PrioritiesOf) -> Sequence[Option]:
    most = max(option.pods for option in options)
    return [option for option in options if option.pods == most]


class InvalidExpression(ValueError):
    """The error for a regular expression that Go rejects."""


class Expression:
    """A regular expression of Go. The work is bounded by `charge`, unlike that of Python's module re.

    Raises InvalidExpression, and NotPredicted for syntax that is not modelled.
    """

    def __init__(self, text: str) -> None:
        self._text, self._nested = text, 0
        self._left = _TOKEN.findall(text)[::-1]
        if "".join(reversed(self._left)) != text:
            raise self._not_modelled
        self._ends = self._either()
        if self._left:
            raise InvalidExpression("unexpected )")

    def is_in(self, text: str) -> bool:
        """Report whether a part of the text matches."""
        return bool(self._ends(text, set(range(len(text) + 1))))

    @property
    def _not_modelled(self) -> NotPredicted:
        return NotPredicted(f'expression "{brief(self._text, 80)}" of ConfigMap {PRIORITIES} is not modelled')

    def _take(self, *tokens: str) -> bool:
        taken = bool(self._left) and self._left[-1] in tokens
        if taken:
            self._left.pop()
        return taken

    def _either(self) -> _Ends:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return lambda text, starts: set(chain.from_iterable(branch(text, starts) for branch in branches))

    def _sequence(self) -> _Ends:
        parts: list[_Ends] = []
        while self._left and self._left[-1] not in "|)":
            parts.append(self._repeated(self._single()))

        def ends(text: str, starts: set[int]) -> set[int]:
            charge(1 + len(starts))
            for part in parts:
                if not starts:
                    break
                charge(len(starts))
                starts = part(text, starts)
            return starts

        return ends

    def _repeated(self, once: _Ends) -> _Ends:
        repeats = next((token for token in "*+?" if self._take(token)), "")
        if repeats:
            self._take("?")  # lazy: matches the same texts

        def star(text: str, starts: set[int]) -> set[int]:
            ends, new = set(starts), starts
            while new:
                new = once(text, new) - ends
                ends |= new
            return ends

        many: dict[str, _Ends] = {
            "": once,
            "*": star,
            "+": lambda text, starts: star(text, once(text, starts)),
            "?": lambda text, starts: starts | once(text, starts),
        }
        return many[repeats]

    def _single(self) -> _Ends:
        token = self._left.pop()
        if token in ("*", "+", "?"):
            raise InvalidExpression("missing argument to repetition operator")
        if token in ("(", "(?:"):
            self._nested += 1
            if self._nested > _MAX_NESTED or (self._left and self._left[-1] == "?"):
                raise self._not_modelled
            ends = self._either()
            if not self._take(")"):
                raise InvalidExpression("missing closing )")
            self._nested -= 1
            return ends
        if token == "^":
            return lambda _, starts: starts & {0}
        if token == "$":
            return lambda text, starts: starts & {len(text)}
        if token in "[{" or any(twice in token for twice in ("--", "&&", "||", "~~")):
            raise self._not_modelled
        try:
            matches = re.compile(token if token[0] in "[\\." else re.escape(token), re.ASCII).match
        except re.error:
            raise self._not_modelled from None

        return lambda text, starts: {start + 1 for start in starts if matches(text, start)}


class Priorities:
    """The priorities of node groups in the text of a ConfigMap. Source: `parsePrioritiesYAMLString`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._of: dict[str, frozenset[int]] = {}

    def group_priorities(self, group: str) -> frozenset[int]:
        """Return the priorities of a node group by its id in the cloud provider. Raises NotPredicted."""
        if group not in self._of:
            self._of[group] = frozenset(
                priority for priority, several in self._expressions if any(item.is_in(group) for item in several)
            )
        return self._of[group]

    @cached_property
    def _expressions(self) -> list[tuple[int, list[Expression]]]:
        if len(self._text) > _MAX_TEXT:
            raise NotPredicted(f"ConfigMap {PRIORITIES} has more than {_MAX_TEXT} characters")
        try:
            document: Any = next((value.value for value in values(self._text.encode(), PRIORITIES)), {})
            return [(int(key), [Expression(text) for text in _texts(some)]) for key, some in dict(document).items()]
        except (Fault, ValueError, TypeError):
            return []  # upstream ignores all priorities


def _texts(entries: Any) -> list[str]:
    """Return a list of strings as upstream reads it. Raises TypeError."""
    if not isinstance(entries, list | None) or any(isinstance(entry, list | dict) for entry in entries or ()):
        raise TypeError
    return ["" if entry is None else str(entry) for entry in entries or ()]


def _highest_priority(options: Sequence[Option], priorities_of: _PrioritiesOf) -> Sequence[Option]:
    priorities = [priorities_of(option) for option in options]
    highest = max(-1, max(chain.from_iterable(priorities), default=-1))
    return [option for option, some in zip(options, priorities, strict=True) if highest in some] or options


FILTERS: Final[Mapping[str, Callable[[Sequence[Option], _PrioritiesOf], Sequence[Option]]]] = {
    DEFAULT: _least_waste,
    "least-nodes": _least_nodes,
    "most-pods": _most_pods,
    PRIORITY: _highest_priority,
    RANDOM: lambda options, _: options,
}


def best_options(
    options: Sequence[Option],
    expanders: Sequence[str],
    priorities: Priorities | None = None,
    ids: Mapping[str, str] | None = None,
) -> Sequence[Option]:
    """Return the options from which upstream chooses randomly. Raises NotPredicted.

    `expanders`: names in --expander. `priorities`: those of node groups; None if unknown. `ids`: name of a group -> its
    id.
    """

    def priorities_of(option: Option) -> frozenset[int]:
        if priorities is None:
            raise NotPredicted(f'expander "{PRIORITY}" needs the ConfigMap {PRIORITIES} of cluster-autoscaler')
        return priorities.group_priorities((ids or {}).get(option.group) or option.group)

    for name in expanders:
        if name not in FILTERS:
            raise NotPredicted(f'expander "{name}" is not modelled')
        options = FILTERS[name](options, priorities_of)
    return options


SCAN_INTERVAL: Final = 10.0
"""Default of --scan-interval, in seconds."""
_MEMORY_RATIO: Final = 0.015
_RATIO: Final = 0.05
"""Tolerated relative differences of memory capacity, and of allocatable and free resources."""


class Similarity:
    """Finds node groups that are similar to another one. Source: `IsCloudProviderNodeInfoSimilar`."""

    def __init__(
        self, groups: Iterable[NodeGroup], templates: Mapping[str, NodeInfo], ignored_labels: frozenset[str]
    ) -> None:
        ignored = IGNORED_LABELS[""].union(ignored_labels)
        self._free: dict[str, ExactAmounts] = {}
        self._labels: dict[str, frozenset[tuple[str, str]]] = {}
        self._by_labels: dict[frozenset[tuple[str, str]], list[NodeGroup]] = {}
        for group in groups:
            labels = frozenset((key, value) for key, value in group.node.labels.items() if key not in ignored)
            used = _requests(templates[group.name]).items()
            self._free[group.name] = {name: group.allocatable.get(name, 0) - amount for name, amount in used}
            self._labels[group.name] = labels
            self._by_labels.setdefault(labels, []).append(group)

    def similar_to(self, group: NodeGroup) -> list[NodeGroup]:
        """Return the other groups that are similar to this one."""
        others = self._by_labels[self._labels[group.name]]
        charge(len(others))
        return [other for other in others if other.name != group.name and self._are_similar(group, other)]

    def _are_similar(self, one: NodeGroup, other: NodeGroup) -> bool:
        mine, others = one.capacity, other.capacity
        return (
            mine.keys() == others.keys()
            and all(amount == others[name] for name, amount in mine.items() if name != MEMORY)
            and _is_close(mine.get(MEMORY, 0), others.get(MEMORY, 0), _MEMORY_RATIO)
            and _all_within(one.allocatable, other.allocatable)
            and _all_within(self._free[one.name], self._free[other.name])
        )


def _requests(info: NodeInfo) -> ExactAmounts:
    """Return the requests on a template, in billionths."""
    basic = {CPU: info.milli_cpu * NANO // 1000, MEMORY: info.memory * NANO, PODS: 0}
    scalars = {name: amount * NANO for name, amount in info.scalars.items()}
    return {**basic, EPHEMERAL_STORAGE: info.ephemeral_storage * NANO, **scalars}


def _all_within(one: ExactAmounts, other: ExactAmounts) -> bool:
    return one.keys() == other.keys() and all(_is_close(one[name], other[name], _RATIO) for name in one)


def _is_close(one: int, other: int, ratio: float) -> bool:
    larger, smaller = (-(-amount * 1000 // NANO) for amount in (max(one, other), min(one, other)))
    return larger - smaller <= larger * ratio


def balanced(groups: Sequence[NodeGroup], new_nodes: int) -> list[tuple[NodeGroup, int]]:
    """Return the number of new nodes for each group, smallest groups first. Source: `BalanceScaleUpBetweenGroups`.

    `groups`: the chosen group first. `new_nodes`: at most MAX_NODES.
    """
    growing = sorted((group for group in groups if group.max_size != group.size), key=lambda group: group.size)
    rooms = [new_nodes if group.max_added is None else min(group.max_added, new_nodes) for group in growing]
    sizes = [group.size for group in growing]
    order = list(range(len(growing)))
    start = current = 0
    left = min(new_nodes, sum(rooms))
    while left > 0:
        index = order[current]
        if sizes[index] - growing[index].size < rooms[index]:
            sizes[index] += 1
            left -= 1
        else:
            order[start], order[current] = order[current], order[start]
            start += 1
        if current < len(order) - 1 and sizes[order[current]] > sizes[order[current + 1]]:
            current += 1
        else:
            current = start
    added = ((group, size - group.size) for group, size in zip(growing, sizes, strict=True))
    return [(group, number) for group, number in added if number]


LIMITS_NOT_MODELLED: Final = "the limits --cores-total and --memory-total are not modelled"
MAX_SIZE_REACHED: Final = "max node group size reached"
BACK_OFF: Final = "in backoff after failed scale-up"
NOT_READY: Final = "not ready for scale-up"
"""Upstream's reasons for groups that do not grow. Source: orchestrator/skippedreasons.go."""


class Settings(NamedTuple):
    """Flags of cluster-autoscaler. `expanders`: --expander. `max_nodes_total`: 0 for no limit.

    `limits`: maximum cpu (cores) and memory (bytes) of all nodes. `priorities`: those that the expander priority uses.
    `scan_interval`: in seconds. `frequent_scans`: whether a scan follows a scale-up immediately. `unready`: the nodes
    that are not ready; cluster-autoscaler halts with more than `ok_unready` and more than `max_unready` percent of
    them. `unmodelled`: names of flags that have no effect here.
    """

    expanders: Sequence[str] = (DEFAULT,)
    balance_similar: Annotated[Switch, "balance-similar-node-groups"] = False
    ignored_labels: frozenset[str] = frozenset()
    max_nodes_total: Annotated[Number, "max-nodes-total"] = 0
    limits: Mapping[str, int] = {}
    force_daemon_sets: Annotated[Switch, "force-ds"] = False
    priorities: Priorities | None = None
    scale_down: ScaleDownSettings = ScaleDownSettings()
    scan_interval: Annotated[Interval, "scan-interval"] = SCAN_INTERVAL
    frequent_scans: Annotated[Switch, "frequent-loops-enabled"] = True
    unready: frozenset[str] = frozenset()
    ok_unready: Annotated[Number, "ok-total-unready-count"] = 3
    max_unready: Annotated[Share, "max-total-unready-percentage"] = 45.0
    unmodelled: Sequence[str] = ()

    @property
    def next_scan(self) -> float:
        """The maximum seconds from a scan that scales up to the next one. Source: loop/trigger.go."""
        return min(self.scan_interval, SCAN_INTERVAL) if self.frequent_scans else self.scan_interval

    def why_halted(self, nodes: Collection[str]) -> str | None:
        """Return why cluster-autoscaler neither adds nor removes nodes, or None. Source: `IsClusterHealthy`."""
        unready = sum(name in nodes for name in self.unready)
        if unready <= self.ok_unready or unready <= self.max_unready / 100 * len(nodes):
            return None
        return f"cluster-autoscaler halts while {unready} of {len(nodes)} nodes are not ready"


SCALE_UP_FLAGS: Final = flags_of(Settings)


class Decision(NamedTuple):
    """The result of one scale-up. `added`: names of groups with their numbers of nodes; empty if no group helps.

    `options`: what each group offers. `best`: the options from which upstream chooses randomly; forewarn chooses the
    first one, `chosen`. `similar`: group -> similar groups.
    """

    added: Sequence[tuple[str, int]] = ()
    options: Sequence[Option] = ()
    best: Sequence[Option] = ()
    chosen: Estimate | None = None
    similar: Mapping[str, Sequence[str]] = {}


class Orchestrator:
    """Decides on one scale-up of node groups for Pods that do not fit on the nodes of a Snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        groups: Sequence[NodeGroup],
        templates: Mapping[str, NodeInfo],
        settings: Settings,
    ) -> None:
        self._snapshot, self._groups, self._templates, self._settings = snapshot, groups, templates, settings

    def decide(self, equivalence_groups: Sequence[EquivalenceGroup]) -> Decision:
        """Return the scale-up; record why Pods do not fit. Raises NotPredicted for an unknown expander."""
        estimates = self._estimates(equivalence_groups)
        options = [option_of(estimate) for estimate in estimates if estimate.placed]
        similar = {name: [group.name for group in groups] for name, groups in self._similar.items()}
        if not options:
            return Decision(similar=similar)
        ids = {group.name: group.id for group in self._groups}
        best = best_options(options, self._settings.expanders, self._settings.priorities, ids)
        chosen = next(estimate for estimate in estimates if estimate.group.name == best[0].group)
        added = self.grown(chosen.group, min(chosen.nodes, self._most_in_cluster))
        return Decision([(group.name, nodes) for group, nodes in added], options, best, chosen, similar)

    def grown(self, group: NodeGroup, new_nodes: int) -> list[tuple[NodeGroup, int]]:
        """Return the number of new nodes for the chosen group and similar ones."""
        return balanced([group, *self._similar[group.name]], new_nodes)

    @property
    def _most_in_cluster(self) -> int:
        most = self._settings.max_nodes_total
        return max(most - len(self._snapshot.node_infos), 0) if most > 0 else MAX_NODES

    def _estimates(self, equivalence_groups: Sequence[EquivalenceGroup]) -> list[Estimate]:
        """Return an estimate for each group that may grow. Source: `prepareScaleUp`."""
        estimates: list[tuple[Estimate, list[EquivalenceGroup]]] = []
        for group in self._groups:
            if why := self.why_skipped(group):
                for equivalence_group in equivalence_groups:
                    equivalence_group.reasons[group.name] = why
                continue
            estimate = Estimate(self._snapshot, group, self._templates[group.name], MAX_NODES)
            estimates.append((estimate, list(_fitting(estimate, equivalence_groups))))
        self._similar = self._similar_groups({estimate.group.name: fitting for estimate, fitting in estimates})
        for estimate, fitting in estimates:
            rooms = [group.max_added for group in (estimate.group, *self._similar[estimate.group.name])]
            room = MAX_NODES if None in rooms else sum(filter(None, rooms))
            estimate.most = min(MAX_NODES, room, self._most_in_cluster)
            try:
                estimate.run(fitting)
            except PluginFault as fault:
                for equivalence_group in fitting:
                    equivalence_group.reasons[estimate.group.name] = str(fault)
                estimate.placed.clear()
        return [estimate for estimate, _ in estimates]

    def why_skipped(self, group: NodeGroup) -> str | None:
        """Return why a group does not grow, or None. Source: `filterValidScaleUpNodeGroups`."""
        return group.blocked or (MAX_SIZE_REACHED if group.max_added == 0 else None)

    def _similar_groups(self, fitting: Mapping[str, Sequence[EquivalenceGroup]]) -> dict[str, list[NodeGroup]]:
        """Return the similar groups that fit the same Pods, by group. Source: `ComputeSimilarNodeGroups`."""
        if not self._settings.balance_similar:
            return {name: [] for name in fitting}
        pods = {name: frozenset(map(id, some)) for name, some in fitting.items()}
        growing = [group for group in self._groups if pods.get(group.name)]
        similarity = Similarity(growing, self._templates, self._settings.ignored_labels)
        similar = {
            group.name: [other for other in similarity.similar_to(group) if pods[group.name] <= pods[other.name]]
            for group in growing
        }
        return {name: similar.get(name, []) for name in fitting}


def _fitting(estimate: Estimate, equivalence_groups: Iterable[EquivalenceGroup]) -> Iterable[EquivalenceGroup]:
    """Yield the Pods that fit on a new node; record why others do not. Source: `SchedulablePodGroups`."""
    for equivalence_group in equivalence_groups:
        if why := estimate.why_not(equivalence_group):
            equivalence_group.reasons[estimate.group.name] = why
        else:
            yield equivalence_group


_USUAL: Final = Settings()


class Scan(NamedTuple):
    """What one scan decides. `waiting`: the Pods that fit on no node, with the reasons of the groups; `fit`: the
    others. `snapshot`: the cluster with upcoming nodes, and with Pending Pods on the nodes on which they fit.
    """

    decision: Decision
    waiting: Sequence[EquivalenceGroup]
    fit: Sequence[Pod]
    snapshot: Snapshot

    @property
    def arrivals(self) -> list[Arrival]:
        """The nodes to add; the first one has all Pods of the scale-up."""
        placed = tuple(pod.key for pod, _ in self.decision.chosen.placed) if self.decision.chosen else ()
        names = [name for name, number in self.decision.added for _ in range(number)]
        return [Arrival(name, {}, () if turn else placed) for turn, name in enumerate(names)]


class ClusterAutoscaler:
    """cluster-autoscaler with its node groups. Raises InvalidObject for a DaemonSet with an invalid template."""

    def __init__(
        self,
        groups: Sequence[NodeGroup],
        daemon_sets: Iterable[ApiObject],
        semantics: Semantics,
        settings: Settings = _USUAL,
    ) -> None:
        self._groups, self._settings, daemon_sets = groups, settings, list(daemon_sets)
        self._templates = {
            group.name: template_info(group, daemon_sets, semantics, force_daemon_sets=settings.force_daemon_sets)
            for group in groups
        }

    def decide(
        self,
        pending: Sequence[Pod],
        snapshot: Snapshot,
        added: Mapping[str, int],
        upcoming: Mapping[str, int],
        hints: dict[str, str] | None = None,
    ) -> Scan:
        """Return what one scan decides. Raises NotPredicted.

        `pending`: including Pods of DaemonSets, which only use existing nodes. `added`: number of nodes that earlier
        scans added, by group; `upcoming`: how many of them are not ready yet. `hints`: as in `filter_out_schedulable`.
        """
        if self._settings.limits:
            raise NotPredicted(LIMITS_NOT_MODELLED)
        if group := next((pod.spec.pod_group for pod in pending if is_scheduled_by_group(pod, snapshot)), ""):
            raise NotPredicted(f"cluster-autoscaler with Pods of PodGroups, such as {one_line(group)}")
        halted = self._settings.why_halted(snapshot.rows)
        snapshot, left = self.packed(pending, snapshot, upcoming, hints)
        waiting, unplaced = group_by_scheduling_properties(without_daemon_pods(left)), set(map(id, left))
        fit = [pod for pod in pending if id(pod) not in unplaced and not is_daemon_pod(pod)]
        if not waiting:
            return Scan(Decision(), waiting, fit, snapshot)
        groups = [
            group._replace(size=group.size + added.get(group.name, 0), blocked=group.blocked or halted)
            for group in self._groups
        ]
        orchestrator = Orchestrator(snapshot, groups, self._templates, self._settings)
        return Scan(orchestrator.decide(waiting), waiting, fit, snapshot)

    def packed(
        self, pending: Sequence[Pod], snapshot: Snapshot, upcoming: Mapping[str, int], hints: dict[str, str] | None
    ) -> tuple[Snapshot, list[Pod]]:
        """Return (the cluster with upcoming nodes and the Pending Pods that fit, the other Pending Pods)."""
        return filter_out_schedulable(snapshot.with_nodes(list(self._upcoming(upcoming))), pending, hints)

    def _upcoming(self, numbers: Mapping[str, int]) -> Iterator[NodeInfo]:
        """Yield the upcoming nodes, built from the templates. Source: `addUpcomingNodesToClusterSnapshot`."""
        for group in self._groups:
            for number in range(numbers.get(group.name, 0)):
                info = self._templates[group.name].clone()
                info.node = group.new_node(f"upcoming-{number}")
                yield info


def without_daemon_pods(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not is_daemon_pod(pod)]
