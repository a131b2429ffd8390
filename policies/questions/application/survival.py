"""How many nodes let a cluster survive the loss of any zone, node or pool: none of the protected Pods preempted or
Pending. The answer is simulated: each loss, with the nodes added before.
"""

from __future__ import annotations

from collections import Counter as Tally
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, cycle
from math import comb
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import listed, quote
from forewarn.policies.kubernetes.kinds.registry import NODE, POD, PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.fields import InvalidInput
from forewarn.policies.kubernetes.objects.node import ZONE, Node
from forewarn.policies.linting.rules.support.names import suggested
from forewarn.policies.prediction.simulation.scenario import not_simulated
from forewarn.policies.prediction.simulation.summary import Levels, is_incomplete, pods_left_out
from forewarn.policies.questions.application import simulated
from forewarn.policies.questions.application.cluster import Cluster, Progress, autoscaling_for, head_with_nodes
from forewarn.policies.questions.application.counting import counted
from forewarn.policies.questions.application.survival_answer import AddedNodes, LossHarm, Survival, Trial
from forewarn.policies.questions.whatif.comparison import count_by_workload, placeholder_workloads, prepare
from forewarn.policies.questions.whatif.node_bands import zone_of
from forewarn.policies.questions.whatif.node_groups import free_names, new_node_like, pool_of
from forewarn.policies.questions.whatif.questions import Loss, Question, each_loss, question_of_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup, Price
    from forewarn.policies.prediction.simulation.clock import Origin
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling

MAX_WORK: Final = 20_000
"""Pods in all simulations of a search through all choices; beyond it, a bisection tries some."""
_MAX_SIZE: Final = 30
"""Nodes in the largest of all choices; of more, a bisection tries some."""
_BLOCK: Final = 40
"""Choices whose simulations share their start."""
_SETTLE: Final = 120.0
"""Seconds from the addition of nodes to the loss: Pending Pods and DaemonSets get their place first."""
_MAX_FAMILIES: Final = 3
"""Pools or node groups that a bisection tries."""
_UNPRICED: Final = 0


@dataclass(frozen=True, slots=True)
class SurvivalRequest:
    """What to survive. `scope`: the loss of any one `zone` or `node`, or of the `pool` with the labels `selector`.

    `protect`: the names of the PriorityClasses of protected Pods (default: all Pods with a priority above 0). `like`:
    the node group, pool or node that new nodes are like (default: any). `autoscaling`: settings with node groups.
    """

    scope: str
    selector: str = ""
    protect: Sequence[str] = ()
    like: str = ""
    autoscaling: Autoscaling | None = None


class _Kind(NamedTuple):
    """A kind of node to add: of a node group, or like those of a pool in a zone. `max_added`: None for any number."""

    family: str
    zone: str
    template: Node
    price: Price | None = None
    max_added: int | None = None


class _Harm(NamedTuple):
    """The protected Pods that are preempted, and Pending at the end; what the Pending ones request."""

    preempted: int
    pending: int
    milli_cpu: int = 0
    memory: int = 0
    incomplete: bool = False

    def beyond(self, alone: _Harm) -> _Harm:
        """The harm without that which happens anyway."""
        return _Harm(
            max(self.preempted - alone.preempted, 0),
            max(self.pending - alone.pending, 0),
            max(self.milli_cpu - alone.milli_cpu, 0),
            max(self.memory - alone.memory, 0),
            self.incomplete or alone.incomplete,
        )

    @property
    def is_none(self) -> bool:
        return not (self.preempted or self.pending or self.incomplete)


class _Protected:
    """Counts the harm to protected Pods, in simulations that share their start."""

    def __init__(
        self, simulation: Simulation, protects: Callable[[Origin], bool], others: set[tuple[str, str]]
    ) -> None:
        self._protects, self._others = protects, others
        self._before = {each: count.pending for each, count in count_by_workload(simulation).items()}

    def measure(self, simulation: Simulation, question: Question) -> _Harm:
        prepare(simulation, question)
        simulation.run()
        levels = Levels()
        victims = (found.origin for event in simulation.timeline.events if (found := levels.next(event)) is not None)
        preempted = sum(self._is_own(origin) for origin in victims)
        more = {
            workload: more
            for workload, count in count_by_workload(simulation).items()
            if self._is_own(count.origin) and (more := count.pending - self._before.get(workload, 0)) > 0
        }
        origins, amounts = simulation.timeline.origins, Tally[str]()
        for state in simulation.api.pods.values():
            if state.active and not state.pod.node_name and origins[state.pod.key].workload in more:
                requests = state.pod.occupies.resource
                amounts.update(cpu=requests.milli_cpu, memory=requests.memory)
        incomplete = is_incomplete(simulation, pods_left_out(simulation))
        return _Harm(preempted, sum(more.values()), amounts["cpu"], amounts["memory"], incomplete)

    def _is_own(self, origin: Origin) -> bool:
        return self._protects(origin) and origin.workload not in self._others


class _Search:
    """The search in one cluster. A choice is the number of nodes of each kind."""

    def __init__(self, cluster: Cluster, request: SurvivalRequest, kinds: Sequence[_Kind], progress: Progress | None):
        self.kinds, self._cluster, self._request, self._progress = kinds, cluster, request, progress
        self._world = simulated.world_with(cluster.cache, [], simulated.DEFAULT_UNTIL)
        self._protects = _protection(cluster.snapshot, request.protect)
        self._limit = max(simulated.MAX_ADDED, len(cluster.snapshot.objects.nodes))
        self.trials: list[Trial] = []
        self._not_helped: Mapping[str, _Harm] = {}
        ((self._alone,),) = self._harms([((0,) * len(kinds), [Loss("nothing", ())])])

    def _nodes(self, choice: Sequence[int]) -> list[Node]:
        taken = {node.name for node in self._cluster.snapshot.objects.nodes.values()}
        free = free_names("new", taken)
        many = zip(self.kinds, choice, strict=True)
        return [new_node_like(kind.template, next(free)) for kind, count in many for _ in range(count)]

    def losses(self, choice: Sequence[int]) -> list[Loss]:
        """The losses to survive, also of new nodes. Raises InvalidInput."""
        nodes = [*self._cluster.snapshot.objects.nodes.values(), *self._nodes(choice)]
        return each_loss(self._cluster.snapshot, self._request.scope, self._request.selector, nodes)

    def _harms(self, trials: Sequence[tuple[Sequence[int], Sequence[Loss]]]) -> Generator[list[_Harm]]:
        """Yield for each choice the harm of each of its losses."""
        asked = []
        for choice, losses in trials:
            nodes = self._nodes(choice)
            asked += [question_of_loss(loss, nodes, _SETTLE) for loss in losses]
        pods, options = self._cluster.snapshot.pods.values(), self._cluster.config.options

        def counting(simulation: Simulation) -> _Protected:
            return _Protected(simulation, self._protects, placeholder_workloads(simulation, pods, options))

        with closing(counted(self._world, asked, counting, self._report)) as results:
            for _, losses in trials:
                yield [next(results) for _ in losses]

    def _report(self, *_: object) -> None:
        if self._progress is not None:
            self._progress(len(self.trials), 0)

    def harms_of(self, choice: Sequence[int], names: Sequence[str] | None = None) -> dict[str, _Harm]:
        """Simulate the losses with the nodes of a choice, all or those with these names; return the harm by loss."""
        losses = [loss for loss in self.losses(choice) if names is None or loss.title in names]
        (harms,) = self._harms([(choice, losses)])
        return self._tried(choice, [loss.title for loss in losses], harms)

    def _tried(self, choice: Sequence[int], names: Sequence[str], harms: Sequence[_Harm]) -> dict[str, _Harm]:
        beyond = {name: harm.beyond(self._alone) for name, harm in zip(names, harms, strict=True)}
        worst = max(beyond.values(), key=lambda harm: (harm.pending, harm.preempted), default=_Harm(0, 0))
        trial = Trial(self.text_of(choice), worst.preempted, worst.pending)
        self.trials += [trial] if trial not in self.trials[-1:] else []
        return beyond

    def try_many(self, names: Sequence[str]) -> int:
        """Simulate these losses with as many new nodes of each pool in each zone as it has in its largest zone; what
        then remains, such as Pods with volumes in a lost zone, is not to be prevented. Returns the number of new nodes;
        0 without such harm, and for node groups.
        """
        there = Tally((pool_of(node), zone_of(node)) for node in self._cluster.snapshot.objects.nodes.values())
        pools = [pool_of(kind.template) for kind in self.kinds]
        nodes = [max((count for (name, _), count in there.items() if name == pool), default=0) + 1 for pool in pools]
        if all((pool, kind.zone) in there for pool, kind in zip(pools, self.kinds, strict=True)):
            harms = self.harms_of(nodes, names)
            self._not_helped = {name: harm for name, harm in harms.items() if not harm.is_none}
        return sum(nodes) if self._not_helped else 0

    def is_prevented(self, harms: Mapping[str, _Harm]) -> bool:
        """Report whether losses do only the harm that nodes do not prevent."""
        return all(harm.beyond(self._not_helped.get(name, _Harm(0, 0))).is_none for name, harm in harms.items())

    def text_of(self, choice: Sequence[int]) -> str:
        """A choice as text, such as `2 general a, 1 general b`."""
        many = [(kind, count) for kind, count in zip(self.kinds, choice, strict=True) if count]
        return ", ".join(" ".join(filter(None, (f"{count}", kind.family, kind.zone))) for kind, count in many) or "none"

    def cents(self, choice: Sequence[int]) -> int:
        """The price of a choice; 0 if a kind has none."""
        prices = [kind.price.cents if kind.price else None for kind in self.kinds]
        if None in prices:
            return _UNPRICED
        return sum(price * count for price, count in zip(prices, choice, strict=True) if price is not None)

    def key(self, choice: Sequence[int]) -> tuple[int, int]:
        """What a better choice has less of: its price, then its nodes."""
        return self.cents(choice), sum(choice)

    # All choices

    def sizes_within(self, trials: int) -> tuple[int, bool]:
        """Return the largest size so that all choices of up to this size are at most so many, and whether these are
        all that are allowed.
        """
        size, number, largest = 0, 0, self._room(self.kinds)
        while size < min(_MAX_SIZE, largest) and number <= trials:
            number += comb(len(self.kinds) + size, size + 1)
            size += number <= trials
        return size, size == largest

    def best_of_all(self, limit: int, names: Sequence[str]) -> Sequence[int] | None:
        """Return the best choice of up to `limit` nodes after which the losses with these names do no harm, of all
        choices; None if there is none.
        """
        numbers = range(len(self.kinds))
        sets = (each for size in range(1, limit + 1) for each in combinations_with_replacement(numbers, size))
        choices = [tuple(Tally(each)[number] for number in numbers) for each in sets]
        choices = sorted((each for each in choices if self._is_allowed(each)), key=self.key)
        for first in range(0, len(choices), _BLOCK):
            block = choices[first : first + _BLOCK]
            trials = [(each, [loss for loss in self.losses(each) if loss.title in names]) for each in block]
            with closing(self._harms(trials)) as found:
                for (choice, losses), harms in zip(trials, found, strict=True):
                    harm_of = self._tried(choice, [each.title for each in losses], harms)
                    if self.is_prevented(harm_of):
                        return choice
        return None

    def _is_allowed(self, choice: Sequence[int]) -> bool:
        return all(
            kind.max_added is None or count <= kind.max_added for kind, count in zip(self.kinds, choice, strict=True)
        )

    # Bisection

    def _room(self, kinds: Iterable[_Kind]) -> int:
        """Return how many nodes of these kinds may be added."""
        rooms = [kind.max_added for kind in kinds]
        return min(self._limit, sum(self._limit if room is None else room for room in rooms))

    def spread(self, family: str, count: int) -> Sequence[int]:
        """Return a choice of so many nodes of a family, divided among its zones. `count`: at most their maximum."""
        choice = [0] * len(self.kinds)
        for number in cycle(number for number, kind in enumerate(self.kinds) if kind.family == family):
            if sum(choice) >= count:
                break
            room = self.kinds[number].max_added
            choice[number] += room is None or choice[number] < room
        return tuple(choice)

    def bisected(self, family: str, names: Sequence[str], below: int, first: int) -> Sequence[int] | None:
        """Return the fewest nodes of a family that bisection finds; None if none help.

        `below`: a number that does not suffice. `first`: the number to begin with. It does not assume that more nodes
        always help: smaller numbers are tried afterwards, and then each kind with a node less.
        """

        def suffices(choice: Sequence[int]) -> bool:
            return self.is_prevented(self.harms_of(choice, names))

        own = [kind for kind in self.kinds if kind.family == family]
        most, lower = self._room(own), below
        if most <= below:
            return None
        count = min(max(first, below + 1), most)
        while not suffices(self.spread(family, count)):
            larger = min(2 * count, most) if most < self._limit else 2 * count
            if larger == count or larger > self._limit:
                return None
            lower, count = count, larger
        while count - lower > 1:
            middle = (lower + count) // 2
            lower, count = (lower, middle) if suffices(self.spread(family, middle)) else (middle, count)
        for smaller in sorted({below + 1, count // 2, count - 2} - {count, count - 1}):
            if below < smaller < count and suffices(self.spread(family, smaller)):
                count = smaller
                break
        choice = self.spread(family, count)
        while (less := next(filter(suffices, _with_one_less(choice)), None)) is not None:
            choice = less
        return choice


def _with_one_less(choice: Sequence[int]) -> Iterator[Sequence[int]]:
    for number, count in enumerate(choice):
        if count and sum(choice) > 1:
            yield (*choice[:number], count - 1, *choice[number + 1 :])


def _protection(cluster: ClusterSnapshot, protect: Sequence[str]) -> Callable[[Origin], bool]:
    """Return the function that reports whether a Pod is protected. Raises InvalidInput for an unknown class."""
    for name in protect:
        if name not in cluster.priority_classes:
            raise InvalidInput(f"PriorityClass {quote(name)} not found{suggested(name, cluster.priority_classes)}")
    names = {*protect}
    return lambda origin: origin.priority_class in names if names else origin.priority > 0


def _kinds(cluster: ClusterSnapshot, groups: Sequence[NodeGroup], like: str) -> list[_Kind]:
    """Return the kinds of nodes to add: the node groups, or else the pools in each zone. Raises InvalidInput."""
    nodes = sorted(cluster.objects.nodes.values(), key=lambda node: node.name)
    kinds = {
        (group.name, zone_of(group.node)): _Kind(
            group.name, zone_of(group.node), group.real_node("new"), group.price, group.max_added
        )
        for group in groups
        if not group.blocked
    }
    pools: dict[tuple[str, str], _Kind] = {}
    for node in nodes:
        key = pool_of(node) or "no pool", zone_of(node)
        if not node.unschedulable:
            pools.setdefault(key, _Kind(*key, node))
    kinds = kinds or pools
    model = cluster.objects.nodes.get(("", like))
    if model is not None:
        zones = sorted({zone_of(node) for node in nodes})
        return [_Kind(like, zone, _in_zone(model, zone)) for zone in zones]
    chosen = [kind for kind in kinds.values() if like in ("", kind.family)]
    if not chosen:
        names = {*(kind.family for kind in kinds.values()), *(node.name for node in nodes)}
        raise InvalidInput(f"no node, pool or node group is named {quote(like)}{suggested(like, names)}")
    return sorted(chosen, key=lambda kind: (kind.family, kind.zone))


def _in_zone(node: Node, zone: str) -> Node:
    return replace(node, labels={**node.labels, ZONE: zone}) if zone else node


def survive(cluster: Cluster, request: SurvivalRequest, *, progress: Progress | None = None) -> Survival:
    """Return the fewest nodes, or with prices the cheapest, with which no loss harms protected Pods.

    Raises SourceError, InvalidInput and InvalidObject.
    """
    cluster.require(NODE, POD, PRIORITY_CLASS)
    snapshot, autoscaling = cluster.snapshot, autoscaling_for(cluster, request.autoscaling)
    kinds = _kinds(snapshot, autoscaling.groups, request.like)
    search = _Search(cluster, request, kinds, progress)
    before = search.harms_of((0,) * len(kinds))
    choice, after, notes = _found(search, snapshot, request.scope, before)
    added = _added(kinds, choice) if choice is not None else []
    losses = [
        LossHarm(name, *before.get(name, _Harm(0, 0))[:2], *(after[name][:2] if choice is not None else harm[:2]))
        for name, harm in (after if choice is not None else before).items()
    ]
    is_cut = any(harm.incomplete for harm in after.values())
    unpriced = sorted({kind.family for kind in kinds if kind.price is None})
    if any(kind.price for kind in kinds) and unpriced:
        notes = [*notes, f"no pricePerMonth of {listed(unpriced)}: the fewest nodes, not the cheapest"]
    notes = [*notes, *not_simulated(cluster.cache)]
    head = head_with_nodes(snapshot, (), is_loss=True)
    question = request.scope, request.selector, [*request.protect]
    worst = sorted(losses, key=lambda loss: (-loss.pending, -loss.preempted, loss.loss))
    price = _sum_of(kinds, search.cents(choice)) if choice is not None else None
    survives = choice is not None and all(harm.is_none for harm in after.values())
    return Survival(head, *question, added, survives, worst, search.trials, price, notes, is_incomplete=is_cut)


def _found(
    search: _Search, cluster: ClusterSnapshot, scope: str, before: Mapping[str, _Harm]
) -> tuple[Sequence[int] | None, Mapping[str, _Harm], list[str]]:
    """Return the best choice of nodes that is found, None for none; the harm with it; and what the search leaves out.
    `before`: the harm of all losses without new nodes.
    """
    failing, notes, more = [name for name, harm in before.items() if not harm.is_none], list[str](), list[str]()
    if failing and scope != "pool" and (many := search.try_many(failing)):
        notes.append(
            f"Pods that stay Pending even with {many} more nodes, such as with volumes in the lost zone, do not count"
        )
        failing = [name for name in failing if not search.is_prevented({name: before[name]})]
    choice: Sequence[int] | None = (0,) * len(search.kinds)
    after = before
    while failing:
        choice, more = _choice(search, cluster, failing, before)
        if choice is None:
            break
        after = search.harms_of(choice)
        others = [name for name, harm in after.items() if not search.is_prevented({name: harm}) and name not in failing]
        if not others:
            break
        failing += others
    return choice, after, [*notes, *more]


def _choice(
    search: _Search, cluster: ClusterSnapshot, failing: Sequence[str], before: Mapping[str, _Harm]
) -> tuple[Sequence[int] | None, list[str]]:
    """Return the best choice of nodes that is found, None for none, and what the search does not cover."""
    size, is_all = search.sizes_within(MAX_WORK // max(1, len(cluster.pods) * len(failing)))
    if size and (choice := search.best_of_all(size, failing)) is not None:
        least = min((kind.price.cents for kind in search.kinds if kind.price), default=_UNPRICED)
        is_cheapest = is_all or search.cents(choice) <= least * (size + 1)
        return choice, [] if is_cheapest else [f"more than {size} nodes were not tried: they may be cheaper"]
    if is_all:
        return None, []
    found, tried = list["Sequence[int]"](), list[str]()
    for family in _families(search.kinds, cluster)[:_MAX_FAMILIES]:
        tried.append(family)
        cpu, memory = (
            max(getattr(before[name], what) for name in failing if name in before) for what in ("milli_cpu", "memory")
        )
        node = next(kind.template for kind in search.kinds if kind.family == family).allocatable
        first = max(-(-cpu // max(node.milli_cpu, 1)), -(-memory // max(node.memory, 1)), 1)
        if (choice := search.bisected(family, failing, size, first)) is not None:
            found.append(choice)
            if not search.cents(choice):
                break
    which = f"all choices of up to {size} nodes were tried, then only" if size else "not all choices were tried, only"
    note = f"{which} nodes like {listed(tried)}; others may need fewer. Fix: --like NAME"
    return min(found, key=search.key, default=None), [note]


def _families(kinds: Sequence[_Kind], cluster: ClusterSnapshot) -> list[str]:
    """The pools or node groups, those first on whose nodes most Pods with a priority above 0 run."""
    pools = {node.name: pool_of(node) for node in cluster.objects.nodes.values()}
    on = Tally(pools.get(pod.node_name, "") for pod in cluster.pods.values() if pod.effective_priority > 0)
    labels = {kind.family: pool_of(kind.template) for kind in kinds}
    return sorted(labels, key=lambda family: (-on[labels[family]], family))


def _added(kinds: Sequence[_Kind], choice: Sequence[int]) -> list[AddedNodes]:
    many = ((kind, count) for kind, count in zip(kinds, choice, strict=True) if count)
    return [AddedNodes(kind.family, kind.zone, count, kind.price and kind.price.times(count)) for kind, count in many]


def _sum_of(kinds: Sequence[_Kind], cents: int) -> Price | None:
    price = kinds[0].price
    return price._replace(cents=cents) if price is not None and cents else None
