"""Searches nodes that can be removed: their drain preempts no Pod and leaves none Pending, and no PDB blocks it."""

from __future__ import annotations

from collections import Counter
from contextlib import closing, suppress
from itertools import chain, combinations, islice
from math import comb
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents.answer import Effects, label
from forewarn.policies.base.findings import listed, plural
from forewarn.policies.kubernetes.cluster.admission import exceeded_quotas
from forewarn.policies.kubernetes.kinds.registry import JOB
from forewarn.policies.kubernetes.objects.fields import InvalidObject, int32
from forewarn.policies.kubernetes.objects.workload import backoff_limit, disruption_action
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.prediction.simulation.simulation import Simulation, forbidden_by, is_skipped, remaining_on
from forewarn.policies.questions.whatif import DEFAULT_UNTIL
from forewarn.policies.questions.whatif.autoscalers import NO_GROUPS
from forewarn.policies.questions.whatif.comparison import placeholder_workloads
from forewarn.policies.questions.whatif.effects import consequences, joined
from forewarn.policies.questions.whatif.node_bands import zone_of
from forewarn.policies.questions.whatif.node_groups import pool_of
from forewarn.policies.questions.whatif.questions import (
    KeptNode,
    Question,
    Removal,
    drained,
    each_loss,
    question_of_loss,
)
from forewarn.policies.questions.whatif.repetition import random_runs, without_names
from forewarn.policies.questions.whatif.sweep import Tally, counted

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.options import Options
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup, Price
    from forewarn.policies.prediction.simulation.api_server import ApiServer
    from forewarn.policies.prediction.simulation.scenario import World

MAX_CHOICES: Final = 400
"""Up to this number, all sets of nodes are tried; if there are more, a greedy search tries some."""
_MAX_KEPT: Final = 24
"""The greedy search ends after this many nodes that cannot be removed."""
_IN_A_ROW: Final = 6
"""After this many nodes of one pool that cannot be removed, nodes of other pools are tried first."""
_MAX_DRAWN: Final = 2_400
"""Maximum number of random sets that are tried to find one more node than the greedy search, multiplied by the number
of nodes of the cluster.
"""
_NEAR: Final = 8
"""Number of the cheapest nodes; in these sets, one of them may replace a chosen node."""
_DRAINED: Final = DEFAULT_UNTIL / 2
"""Seconds after a drain began at which zones are lost."""
_MAX_ZONES: Final = 3
"""Maximum number of zones of a cluster in which the loss of every zone is simulated."""
_COSTS: Final = ("blocked", "preempted", "pending", "lost", "rejected", "jobs_failed", "pdbs_violated")


class _Cost(NamedTuple):
    """The cost of a drain. `pdbs`: the PDBs that block it."""

    effects: Effects
    pdbs: Sequence[str] = ()
    incomplete: bool = False

    def is_free(self, alone: _Cost) -> bool:
        """Report whether the drain does no more harm than happens without it."""
        return not self.incomplete and not self.cause(alone)

    def cause(self, alone: _Cost) -> str:
        """The first counter that is higher than without the drain; "" for none."""
        return next((name for name in _COSTS if getattr(self.effects, name) > getattr(alone.effects, name)), "")

    @property
    def why(self) -> str:
        """The cost as text."""
        if self.pdbs:
            which = "PDBs {} block" if self.pdbs[1:] else "PDB {} blocks"
            return f"{which.format(listed(self.pdbs, 2))} the drain"
        if self.effects.blocked:
            return "the drain does not finish"
        return joined([*islice(consequences(self.effects), 2)]) or "a limit of the simulation is reached"


class _Drains:
    """Counts the cost of drains, in simulations that share their start."""

    def __init__(self, simulation: Simulation, pods: Sequence[Pod], options: Options) -> None:
        self._tally = Tally(simulation, NO_GROUPS, placeholder_workloads(simulation, pods, options))

    def measure(self, simulation: Simulation, question: Question) -> _Cost:
        row, api = self._tally.measure(simulation, question).row, simulation.api
        nodes = {arrival.object["metadata"]["name"] for arrival in question.arrivals}
        stuck = [name for name in sorted(nodes) if remaining_on(api, name)]
        states = (state for name in stuck for state in api.by_node.get(name, {}).values() if not is_skipped(state))
        pdbs = sorted({pdb for state in states for pdb in forbidden_by(api, state)})
        effects = row.counters._replace(blocked=len(stuck), rejected=sum(row.rejections.values()))
        return _Cost(effects, pdbs, bool(row.incomplete))


class _Search:
    """The search in one cluster."""

    def __init__(
        self,
        cluster: ClusterSnapshot,
        world: World,
        nodes: Sequence[Node],
        options: Options,
        groups: Sequence[NodeGroup],
    ) -> None:
        """`nodes`: the candidates. `groups`: with their prices."""
        prices = {node.name: price_of([node], groups) for node in nodes}
        self._cents = {name: price.cents if price is not None else 0 for name, price in prices.items()}
        self._cluster, self._world, self._options = cluster, world, options
        self._unnamed = without_names(world)
        self._pods = [pod for pod in cluster.pods.values() if not pod.terminal]
        (self._alone,) = self._drain_cost([Question("nothing")])
        all_nodes = cluster.objects.nodes.values()
        self._pools = {node.name: pool_of(node) for node in all_nodes}
        self._zones = {node.name: zone_of(node) for node in all_nodes}
        self._total = Counter[str]()
        for node in all_nodes:
            self._total.update(cpu=node.allocatable.milli_cpu, memory=node.allocatable.memory)
        self._moved: dict[str, list[Pod]] = {node.name: [] for node in nodes}
        """Candidate -> the Pods that other nodes must run if it is removed."""
        self._of_jobs: dict[str, Counter[str]] = {node.name: Counter() for node in nodes}
        """Candidate -> the number of its Pods of each Job, `namespace/name`."""
        for pod in self._pods:
            if pod.node_name in self._moved and self._is_moved(pod):
                self._moved[pod.node_name].append(pod)
            elif pod.node_name in self._moved and pod.owner is not None and pod.owner.kind == "Job":
                self._of_jobs[pod.node_name][f"{pod.namespace}/{pod.owner.name}"] += 1
        self._may_fail = may_fail(cluster)
        self._pdbs = dict[str, list[str]]()
        """Candidate -> the PDBs that forbid the eviction of its Pods now."""
        self._obstacles = self._find_obstacles(Simulation(world).api)

    def _find_obstacles(self, api: ApiServer) -> dict[str, tuple[bool, bool]]:
        """Return, by candidate, whether a PDB blocks the drain, and whether an exceeded quota rejects its Pods."""
        exceeded, found = {name.partition("/")[0] for name in exceeded_quotas(self._cluster)}, {}
        for name, pods in self._moved.items():
            states = [state for state in api.by_node.get(name, {}).values() if not is_skipped(state)]
            self._pdbs[name] = sorted({pdb for state in states for pdb in forbidden_by(api, state)})
            found[name] = bool(self._pdbs[name]), any(pod.namespace in exceeded for pod in pods)
        return found

    def _drain_cost(self, asked: Sequence[Question]) -> Generator[_Cost]:
        return counted(self._world, asked, self._counting)

    def _counting(self, simulation: Simulation) -> _Drains:
        return _Drains(simulation, self._pods, self._options)

    def greedy(self, candidates: Sequence[str], wanted: int) -> tuple[list[str], list[KeptNode]]:
        """Return nodes that can be removed together, and nodes that cannot. Of each block of candidates, takes as many
        as possible.
        """
        chosen, left, kept, block = list[str](), [*candidates], list[KeptNode](), wanted
        while left and len(chosen) < wanted and len(kept) < _MAX_KEPT:
            block = min(block, wanted - len(chosen), len(left))
            if block == 1:
                failed = Counter(self._pools[each.node] for each in kept)
                left.sort(key=lambda name: failed[self._pools[name]] // _IN_A_ROW)
                groups = [[name] for name in left[: min(_IN_A_ROW, _MAX_KEPT - len(kept))]]
            else:
                groups = [left[: block >> power] for power in range(block.bit_length())]
            taken, stays = list[str](), set[str]()
            with closing(self._drain_cost([drained(self._cluster, [*chosen, *group]) for group in groups])) as costs:
                for group, cost in zip(groups, costs, strict=False):
                    why = cost.why
                    if cost.is_free(self._alone):
                        by_chance = self._random_cost([*chosen, *group])
                        if by_chance is None:
                            taken = group
                            break
                        cost, why = by_chance, f"{by_chance.why}, in some runs"
                    if len(group) == 1:
                        stays.add(group[0])
                        kept.append(KeptNode(group[0], why, cost.cause(self._alone), cost.pdbs))
            chosen, left = [*chosen, *taken], [name for name in left if name not in stays.union(taken)]
            block = 2 * len(taken) or 1  # after a node that cannot be removed, larger sets rarely succeed
        return chosen, kept

    def first_free(self, choices: Iterable[Sequence[str]]) -> list[str]:
        """Return the first of these sets that can be removed; empty if there is none."""
        choices = [names for names in choices if self._may_fit(names)]
        with closing(self._drain_cost([drained(self._cluster, names) for names in choices])) as costs:
            for names, cost in zip(choices, costs, strict=True):
                if cost.is_free(self._alone) and self._random_cost(names) is None:
                    return [*names]
        return []

    def grown(
        self, candidates: Sequence[str], wanted: int, chosen: list[str], kept: list[KeptNode]
    ) -> tuple[list[str], list[KeptNode]]:
        """Return more nodes that can be removed, and those that cannot, by replacing one of `chosen` with two other
        nodes.
        """
        random, blocked, more = Random(0), {each.node for each in kept if each.pdbs}, chosen
        while more and len(chosen) < wanted:
            others = [name for name in candidates if name not in blocked.union(chosen)][:_NEAR]
            draws = range(_MAX_DRAWN // len(self._pools) if len(others) > 1 else 0)
            more = self.first_free([*random.sample(chosen, len(chosen) - 1), *random.sample(others, 2)] for _ in draws)
            if more:
                replaced = next(name for name in chosen if name not in more)
                chosen, kept = more, [*kept, KeptNode(replaced, "two other nodes go in its place", "")]
        return chosen, kept

    def _random_cost(self, names: Sequence[str]) -> _Cost | None:
        """Return the cost of a drain in the first random run in which it is not free; None if it is always free."""
        with closing(random_runs([drained(self._cluster, names)], self._unnamed, self._counting)) as costs:
            return next((cost for cost in costs if not cost.is_free(self._alone)), None)

    def weaker(self, chosen: Sequence[str]) -> Iterator[str]:
        """Yield the counters of zone losses that are higher after the removal: for all zones if they are few, otherwise
        for the zone whose loss leaves the least capacity on the other nodes.
        """
        losses = every = each_loss(self._cluster, "zone", "", self._cluster.objects.nodes.values())
        if len(every) > _MAX_ZONES:
            losses = sorted(every, key=lambda loss: self._room({*loss.nodes, *chosen}))[:1]
        others = f" (1 of {plural(len(every), 'zone')} simulated)" if losses is not every else ""
        removed = drained(self._cluster, chosen)
        asked = list[Question]()
        for loss in losses:
            later = question_of_loss(loss._replace(nodes=[*{*loss.nodes, *chosen}]))
            arrivals = [arrival._replace(at=_DRAINED) for arrival in later.arrivals]
            asked += [question_of_loss(loss), removed._replace(arrivals=[*removed.arrivals, *arrivals])]
        effects = [cost.effects for cost in self._drain_cost(asked)]
        for loss, before, after in zip(losses, effects[::2], effects[1::2], strict=True):
            higher = [name for name in reversed(_COSTS) if getattr(after, name) > getattr(before, name)]
            counters = (f"{label(name)} {getattr(before, name):,} → {getattr(after, name):,}" for name in higher)
            if higher:
                yield f"{loss.title}{others}: {', '.join(counters)}"

    def _may_fit(self, names: Sequence[str]) -> bool:
        """Report whether the sum of requests fits on the other nodes; if not, Pods stay Pending or are preempted."""
        return len(names) < len(self._pools) and self._room(names) >= 0

    def _room(self, names: Iterable[str]) -> float:
        """Return the share of all nodes that stays free on the other nodes once they run the Pods of these nodes."""
        gone = set(names)
        infos = [info for info in self._cluster.scheduling.node_infos if info.node.name not in gone]
        moved = [pod for pod in self._pods if pod.node_name in gone and self._is_moved(pod)]
        free_cpu = sum(max(info.node.allocatable.milli_cpu - self._used(info.pods)[0], 0) for info in infos)
        free_memory = sum(max(info.node.allocatable.memory - self._used(info.pods)[1], 0) for info in infos)
        cpu, memory = self._used(moved)
        total = self._total
        return min((free_cpu - cpu) / max(total["cpu"], 1), (free_memory - memory) / max(total["memory"], 1))

    def _used(self, pods: Sequence[Pod]) -> tuple[int, int]:
        own = [pod.occupies.resource for pod in pods if not is_placeholder(pod, self._options)]
        return sum(each.milli_cpu for each in own), sum(each.memory for each in own)

    def _is_moved(self, pod: Pod) -> bool:
        kind = pod.owner.kind if pod.owner is not None else ""
        return kind not in ("DaemonSet", "Node", "Job") and not is_placeholder(pod, self._options)

    def sorted_by_cost(self) -> list[str]:
        """Return the names of the nodes in the order in which they are tried.

        The most expensive nodes are first. Equally expensive ones are ordered by: no replica is down during the drain;
        the zone with most nodes that are not yet removed; the shortest time for which replicas are down; the fewest
        restarted Pods, of which those of Jobs count twice, because their work is lost.

        Last are nodes with more Pods of a Job than may fail after the drains before, then nodes whose drain a PDB
        blocks, or whose Pods an exceeded quota rejects when they are recreated.
        """
        ranks = dict[str, tuple[object, ...]]()
        for name, obstacles in self._obstacles.items():
            restarted = len(self._moved[name]) + 2 * self._of_jobs[name].total()
            ranks[name] = obstacles, -self._cents[name], self._seconds_down(name), restarted, self._share(name), name
        may_fail, left, order = self._may_fail.copy(), Counter(self._zones.values()), dict[str, tuple[object, ...]]()
        for name in sorted(ranks, key=ranks.__getitem__):
            fails = any(pods > may_fail.get(job, pods) for job, pods in self._of_jobs[name].items())
            if not fails:
                may_fail.subtract(self._of_jobs[name])
            is_down, zone = self._seconds_down(name) > 0, self._zones[name]
            order[name] = self._obstacles[name], fails, -self._cents[name], is_down, -left[zone], ranks[name]
            left[zone] -= 1
        return sorted(order, key=order.__getitem__)

    def sorted_by_requests(self, names: Sequence[str]) -> list[str]:
        """Return the names of the nodes, sorted by the requests of their Pods: small ones first, because more of them
        fit.
        """
        return sorted(names, key=lambda name: (self._obstacles[name], self._share(name)))

    def _seconds_down(self, name: str) -> int:
        """Return the total downtime of StatefulSet replicas in seconds: they are recreated only after they have
        terminated.
        """
        owned = (pod for pod in self._moved[name] if pod.owner is not None and pod.owner.kind == "StatefulSet")
        return sum(pod.spec.termination_grace_period for pod in owned)

    def _share(self, name: str) -> float:
        """Return the share of all nodes that the Pods of a node request."""
        cpu, memory = self._used(self._moved[name])
        return max(cpu / max(self._total["cpu"], 1), memory / max(self._total["memory"], 1))

    def dearer(self, untried: Iterable[str], chosen: Iterable[str]) -> Iterator[str]:
        """Yield how many untried nodes, which no PDB or quota blocks, have a higher price than a chosen node."""
        least = min(self._cents[name] for name in chosen)
        dearer = sum(self._cents[name] > least and not any(self._obstacles[name]) for name in untried)
        if dearer:
            yield f"{plural(dearer, 'dearer node was', 'dearer nodes were')} not tried: others may save more"

    def untried(self, names: Sequence[str], kept: Sequence[KeptNode]) -> list[KeptNode]:
        """Return the nodes that the search did not reach, with known reasons against their removal. `kept`: the tried
        nodes.
        """
        reasons = {
            (True, True): "not tried: a PDB forbids evictions now, and a quota is exceeded",
            (True, False): "not tried: a PDB forbids evictions now",
            (False, True): "not tried: an exceeded quota rejects new Pods",
            (False, False): f"not tried: {plural(len(kept), 'other')} cannot go",
        }
        return [KeptNode(name, reasons[self._obstacles[name]], "", self._pdbs[name]) for name in names]


def may_fail(cluster: ClusterSnapshot) -> Counter[str]:
    """Return, by `namespace/name` of a Job, how many Pods may fail; omits Jobs whose podFailurePolicy decides."""
    found = Counter[str]()
    for (kind, namespace, name), job in cluster.workloads.items():
        with suppress(InvalidObject):
            if kind == JOB and disruption_action(job.object) is None:
                failed = int32(job.object, "status", "failed") or 0
                found[f"{namespace}/{name}"] = max(backoff_limit(job.object) - failed, 0)
    return found


def removal(
    cluster: ClusterSnapshot,
    world: World,
    nodes: Sequence[Node],
    wanted: int,
    options: Options,
    groups: Sequence[NodeGroup],
) -> Removal:
    """Return which `wanted` of these nodes can be removed, or as many as possible, and their price.

    `world`: the cluster without arrivals. `options`: the options of rules, which select placeholder Pods. `groups`:
    node groups with prices.
    """
    search = _Search(cluster, world, nodes, options, groups)
    candidates = search.sorted_by_cost()
    chosen, kept = search.greedy(candidates, wanted)
    sizes = range(wanted, len(chosen), -1)
    is_complete = not sizes or sum(comb(len(candidates), size) for size in sizes) <= MAX_CHOICES
    if sizes and is_complete:
        chosen = search.first_free(chain.from_iterable(combinations(candidates, size) for size in sizes)) or chosen
    elif sizes:
        smallest_first = search.greedy(search.sorted_by_requests(candidates), wanted)
        if len(smallest_first[0]) > len(chosen):
            chosen, kept = smallest_first
        chosen, kept = search.grown(candidates, wanted, chosen, kept)
    kept = [each for each in kept if each.node not in chosen]
    known = {*chosen, *(each.node for each in kept)}
    untried, notes = [name for name in candidates if name not in known], list[str]()
    if len(chosen) == wanted:
        notes, untried = [*search.dearer(untried, chosen)], []
    elif not is_complete:
        notes = [f"not all sets of {plural(len(candidates), 'node')} were tried: others may allow more"]
    weaker = "; ".join(search.weaker(chosen)) if chosen else ""
    saved = price_of([node for node in nodes if node.name in chosen], groups)
    return Removal(wanted, chosen, kept, search.untried(untried, kept), notes, weaker, saved)


def price_of(nodes: Sequence[Node], groups: Sequence[NodeGroup]) -> Price | None:
    """Return the price per month of nodes, by the node groups whose labels and extended resources they have; None if
    that of a node is unknown.
    """
    prices: list[Price] = []
    for node in nodes:
        alike = {group.price for group in groups if group.has(node)}
        price = alike.pop() if len(alike) == 1 else None
        if price is None:
            return None
        prices.append(price)
    return prices[0]._replace(cents=sum(price.cents for price in prices)) if prices else None
