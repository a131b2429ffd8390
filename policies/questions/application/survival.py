"""How many nodes let a cluster survive the loss of any zone, node or pool: none of the protected Pods preempted or
Pending. The answer is simulated: each loss, with the nodes added before.
"""

from __future__ import annotations

from collections import Counter as Tally
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, cycle
from math import ceil, comb, inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.documents.answer import INCOMPLETE
from forewarn.policies.base.findings import duration, listed, plural, quote
from forewarn.policies.base.process_pool import mapped
from forewarn.policies.kubernetes.cluster.admission import exceeded_quotas
from forewarn.policies.kubernetes.kinds.registry import NODE, POD, PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.fields import InvalidInput
from forewarn.policies.kubernetes.objects.node import ZONE, Node
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.linting.rules.support.names import suggested
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import IGNORED_LABELS, NodeGroup, Price
from forewarn.policies.prediction.simulation.scenario import not_simulated
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import Levels, is_incomplete, pods_left_out, random_of
from forewarn.policies.questions.application import simulated
from forewarn.policies.questions.application.cluster import Cluster, Progress, autoscaling_for, head_with_nodes
from forewarn.policies.questions.application.counting import counted
from forewarn.policies.questions.application.removal import RUNS
from forewarn.policies.questions.application.survival_answer import AddedNodes, LossHarm, Survival, Trial
from forewarn.policies.questions.whatif import DEFAULT_UNTIL, MAX_ADDED
from forewarn.policies.questions.whatif.comparison import (
    Losses,
    count_by_workload,
    is_repeated,
    placeholder_workloads,
    prepare,
)
from forewarn.policies.questions.whatif.node_bands import zone_of
from forewarn.policies.questions.whatif.node_groups import free_names, new_node_like, pool_of
from forewarn.policies.questions.whatif.questions import Loss, Question, each_loss, nothing_to_lose, question_of_loss

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.prediction.simulation.clock import Origin
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling

MAX_WORK: Final = 20_000
"""Pods in all simulations of a search through all choices; beyond it, a bisection tries some."""
_MAX_SIZE: Final = 30
"""Nodes in the largest of all choices; of more, a bisection tries some. Of so many, also each with a node less."""
_BLOCK: Final = 40
"""Choices whose simulations share their start."""
_SETTLE: Final = 120.0
"""Seconds from the addition of nodes to the loss: Pending Pods and DaemonSets get their place first."""
_FEW: Final = 2
"""Missing nodes of a family that are added one by one."""
_FIRST: Final = 2
"""Losses that are simulated first, those that did harm last; the others only if these do none."""
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
    """A kind of node to add: of a node group, or like those of a pool in a zone. `family`: of those that differ in
    little but the zone. `max_added`: None for any number. `name`: of the group or pool.
    """

    family: str
    zone: str
    template: Node
    price: Price | None = None
    max_added: int | None = None
    group: str = ""

    @property
    def name(self) -> str:
        return self.group or self.family


class _Requests(NamedTuple):
    """Sums of Pods."""

    pods: int = 0
    milli_cpu: int = 0
    memory: int = 0

    def plus(self, pod: Pod | None) -> _Requests:
        """Return the sums with one more Pod; None for one with unknown requests."""
        if pod is None:
            return self._replace(pods=self.pods + 1)
        more = pod.occupies.resource
        return _Requests(self.pods + 1, self.milli_cpu + more.milli_cpu, self.memory + more.memory)

    def nodes(self, node: Node) -> float:
        """Return how many nodes like this one the Pods fill."""
        room = node.allocatable
        return max(self.milli_cpu / max(room.milli_cpu, 1), self.memory / max(room.memory, 1))


class _Harm(NamedTuple):
    """The protected Pods that are preempted, and Pending at the end. `missing`: the Pods that new nodes would help, by
    the families of these nodes: Pending ones, and preemptors of protected Pods. `gone`: protected replicas that are not
    created again, for example of failed Jobs. `helpless`: workloads of Pending Pods that no new node helps.
    """

    preempted: int
    pending: int
    missing: Mapping[tuple[str, ...], _Requests] = {}
    incomplete: bool = False
    gone: int = 0
    helpless: Sequence[str] = ()

    def beyond(self, alone: _Harm) -> _Harm:
        """The harm without that which happens anyway."""
        preempted, pending = max(self.preempted - alone.preempted, 0), max(self.pending - alone.pending, 0)
        missing = self.missing if preempted or pending else {}
        gone = max(self.gone - alone.gone, 0)
        return _Harm(preempted, pending, missing, self.incomplete or alone.incomplete, gone, self.helpless)

    @property
    def is_none(self) -> bool:
        return not (self.preempted or self.pending or self.incomplete)

    @property
    def is_prevented(self) -> bool:
        """Whether only Pods are Pending that no new node helps."""
        return not (self.preempted or self.missing or self.incomplete)


class _Protected:
    """Counts the harm to protected Pods, in simulations that share their start."""

    def __init__(
        self,
        simulation: Simulation,
        protects: Callable[[Origin], bool],
        others: set[tuple[str, str]],
        examples: Callable[[str], Sequence[tuple[str, Node]]],
    ) -> None:
        """`examples`: returns for a loss a new node of each kind that it leaves, with the family."""
        self._protects, self._others, self._examples = protects, others, examples
        self._before, self._losses = count_by_workload(simulation), Losses(simulation)

    def measure(self, simulation: Simulation, question: Question) -> _Harm:
        prepare(simulation, question)
        simulation.run()
        levels, origins, api = Levels(), simulation.timeline.origins, simulation.api
        evictions = [found for event in simulation.timeline.events if (found := levels.next(event)) is not None]
        evictions = [each for each in evictions if self._is_own(each.origin)]
        more = {
            workload: more
            for workload, count in count_by_workload(simulation).items()
            if self._is_own(count.origin) and (more := count.pending - self._pending_before(workload)) > 0
        }
        lost = self._losses.by_workload(simulation)
        gone = (
            max(lost[workload] - more.get(workload, 0), 0)
            for workload, count in self._before.items()
            if self._is_own(count.origin)
        )
        waiting = [each.pod for each in api.pods.values() if each.active and not each.pod.node_name]
        waiting = [pod for pod in waiting if origins[pod.key].workload in more]
        names = dict.fromkeys(each.by for each in evictions)
        states = [api.pods.get((name.partition("/")[0], name.partition("/")[2])) for name in names]
        incomplete = is_incomplete(simulation, pods_left_out(simulation))
        missing, helpless = self._missing(
            simulation, question, waiting, [state.pod if state else None for state in states]
        )
        return _Harm(len(evictions), sum(more.values()), missing, incomplete, sum(gone), helpless)

    def _pending_before(self, workload: tuple[str, str]) -> int:
        return self._before[workload].pending if workload in self._before else 0

    def _missing(
        self, simulation: Simulation, question: Question, waiting: Sequence[Pod], preemptors: Sequence[Pod | None]
    ) -> tuple[Mapping[tuple[str, ...], _Requests], Sequence[str]]:
        """Return the Pods that new nodes would help, by families of nodes, and the workloads of those that none helps;
        adds one node of each kind to the simulation.

        `preemptors`: None for a Pod that no longer exists; nodes of any family may help it.
        """
        examples, missing = self._examples(question.title), dict[tuple[str, ...], _Requests]()
        helpless = set[str]()
        every, known = tuple(dict.fromkeys(family for family, _ in examples)), dict[object, tuple[str, ...]]()
        for _, node in examples if waiting or preemptors else ():
            simulation.api.put_node(node)
        snapshot = simulation.cache.snapshot()
        for pod in (*waiting, *preemptors):
            families = every
            if pod is not None:
                alike = pod.key if pod.spec.has_storage else simulation.timeline.origins[pod.key].workload
                if alike not in known:
                    asking = replace(pod, node_name="", nominated_node_name="")
                    feasible = {*Prediction(snapshot, asking).feasible}
                    suitable = (family for family, node in examples if node.name in feasible)
                    known[alike] = tuple(dict.fromkeys(suitable))
                families = known[alike] or (every if pod.node_name else ())
            if families:
                missing[families] = missing.get(families, _Requests()).plus(pod)
            elif pod is not None:
                helpless.add(simulation.timeline.origins[pod.key].workload[1])
        return missing, sorted(helpless)

    def _is_own(self, origin: Origin) -> bool:
        return self._protects(origin) and origin.workload not in self._others


class _TimeIsUp(Exception):
    """The search takes too long."""


class _Search:
    """The search in one cluster. A choice is the number of nodes of each kind."""

    def __init__(
        self,
        cluster: Cluster,
        request: SurvivalRequest,
        kinds: Sequence[_Kind],
        progress: Progress | None,
        limit: float,
    ) -> None:
        self.kinds, self._cluster, self._request, self._progress = kinds, cluster, request, progress
        self._world = simulated.world_with(cluster.cache, [], DEFAULT_UNTIL)
        self._protects = _protection(cluster.snapshot, request.protect)
        self._limit = max(MAX_ADDED, len(cluster.snapshot.objects.nodes))
        self._taken = {node.name for node in cluster.snapshot.objects.nodes.values()}
        self.families = _families(kinds, cluster.snapshot)
        self._done: dict[tuple[Sequence[int], str], _Harm] = {}
        self.none: Sequence[int] = (0,) * len(kinds)
        self._examples: dict[str, Sequence[tuple[str, Node]]] = {}
        self._alone, self._end = _Harm(0, 0), monotonic() + limit

    def count_alone(self) -> None:
        """Count what happens without a loss; losses do not count it."""
        nothing = Loss("nothing", ())
        self._simulate([(self.none, nothing)])
        self._alone = self._done.pop((self.none, nothing.title))

    def _nodes(self, choice: Sequence[int]) -> list[Node]:
        free = free_names("new", self._taken)
        many = zip(self.kinds, choice, strict=True)
        return [new_node_like(kind.template, next(free)) for kind, count in many for _ in range(count)]

    def losses(self, choice: Sequence[int]) -> list[Loss]:
        """The losses to survive, also of new nodes. Raises InvalidInput."""
        nodes = [*self._cluster.snapshot.objects.nodes.values(), *self._nodes(choice)]
        losses = each_loss(self._cluster.snapshot, self._request.scope, self._request.selector, nodes)
        if not losses:
            raise nothing_to_lose(self._request.scope)
        return losses

    def left_by(self, title: str) -> Sequence[tuple[str, Node]]:
        """Return a new node of each kind that is not lost itself, with the family, the preferred families first."""
        if title not in self._examples:
            free = free_names("one-more", self._taken)
            nodes = [(kind.family, new_node_like(kind.template, next(free))) for kind in self.kinds]
            nodes.sort(key=lambda each: self.families.index(each[0]))
            lost = each_loss(
                self._cluster.snapshot,
                self._request.scope,
                self._request.selector,
                [*self._cluster.snapshot.objects.nodes.values(), *(node for _, node in nodes)],
            )
            names = {name for loss in lost if loss.title == title for name in loss.nodes}
            self._examples[title] = [each for each in nodes if each[1].name not in names]
        return self._examples[title]

    def _simulate(self, trials: Iterable[tuple[Sequence[int], Loss]]) -> None:
        """Simulate losses with the nodes of a choice, unless this was done before."""
        pairs = {(choice, loss.title): (choice, loss) for choice, loss in trials}
        new = [pair for key, pair in pairs.items() if key not in self._done]
        asked = [question_of_loss(loss, self._nodes(choice), _SETTLE) for choice, loss in new]
        with closing(counted(self._world, asked, self._counting, self._report)) as harms:
            for (choice, loss), harm in zip(new, harms, strict=True):
                self._done[choice, loss.title] = harm.beyond(self._alone)
                self._report()

    def _counting(self, simulation: Simulation) -> _Protected:
        pods, options = self._cluster.snapshot.pods.values(), self._cluster.config.options
        placeholders = placeholder_workloads(simulation, pods, options)
        return _Protected(simulation, self._protects, placeholders, self.left_by)

    def by_chance(self, choice: Sequence[int], name: str) -> list[_Harm]:
        """Return the harm of the loss with this name in random runs, with the nodes of a choice; [] in clusters so
        large that `whatif` shows one run.
        """
        if not is_repeated(self._world.pods, self._world.nodes):
            return []
        (loss,) = (loss for loss in self.losses(choice) if loss.title == name)
        question = question_of_loss(loss, self._nodes(choice), _SETTLE)

        def run(number: int) -> _Harm:
            simulation = Simulation(self._world._replace(arrivals=question.arrivals), random_of(0, number))
            return self._counting(simulation).measure(simulation, question).beyond(self._alone)

        return [*mapped(range(1, 1 + RUNS), run)]

    def _report(self, *_: object) -> None:
        if monotonic() > self._end:
            raise _TimeIsUp
        if self._progress is not None:
            self._progress(len(self._done), 0)

    def harms_of(
        self, choices: Sequence[Sequence[int]], names: Container[str] | None = None
    ) -> list[Mapping[str, _Harm]]:
        """Simulate the losses with the nodes of each choice, all or those with these names; return the harm by loss."""
        losses = [[loss for loss in self.losses(each) if names is None or loss.title in names] for each in choices]
        self._simulate((choice, loss) for choice, many in zip(choices, losses, strict=True) for loss in many)
        return [
            {loss.title: self._done[choice, loss.title] for loss in many}
            for choice, many in zip(choices, losses, strict=True)
        ]

    @property
    def trials(self) -> list[Trial]:
        """The simulated choices, each with its worst loss."""
        worst: dict[Sequence[int], _Harm] = {}
        for (choice, _), harm in self._done.items():
            worst[choice] = max(worst.get(choice, harm), harm, key=lambda each: (each.pending, each.preempted))
        return [Trial(self.text_of(choice), harm.preempted, harm.pending) for choice, harm in worst.items()]

    def suffices(self, choice: Sequence[int], names: Sequence[str]) -> bool:
        """Report whether no loss with these names does harm that nodes prevent, the first one first."""
        return all(harm.is_prevented for name in names for harm in self.harms_of([choice], {name})[0].values())

    def text_of(self, choice: Sequence[int]) -> str:
        """A choice as text, such as `2 general a, 1 general b`."""
        many = [(kind, count) for kind, count in zip(self.kinds, choice, strict=True) if count]
        return ", ".join(" ".join(filter(None, (f"{count}", kind.name, kind.zone))) for kind, count in many) or "none"

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
        """Return the best choice of up to `limit` nodes after which the losses with these names do no harm that nodes
        prevent, of all choices; None if there is none.
        """
        numbers = range(len(self.kinds))
        sets = (each for size in range(1, limit + 1) for each in combinations_with_replacement(numbers, size))
        choices = [tuple(Tally(each)[number] for number in numbers) for each in sets]
        choices = sorted((each for each in choices if self._is_allowed(each)), key=self.key)
        for first in range(0, len(choices), _BLOCK):
            block = choices[first : first + _BLOCK]
            self.harms_of(block, names[:1])
            for choice in block:
                if self.suffices(choice, names):
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

    def _kinds_of(self, family: str) -> list[_Kind]:
        return [kind for kind in self.kinds if kind.family == family]

    def _spread(self, counts: Mapping[str, int]) -> Sequence[int]:
        """Return a choice of so many nodes of each family, divided among its zones."""
        choice = [0] * len(self.kinds)
        for family, count in counts.items():
            left = count
            for number in cycle(number for number, kind in enumerate(self.kinds) if kind.family == family):
                if not left:
                    break
                room = self.kinds[number].max_added
                more = room is None or choice[number] < room
                choice[number] += more
                left -= more
        return tuple(choice)

    def _needed(self, counts: Mapping[str, int], harm: _Harm, name: str) -> Mapping[str, float]:
        """Estimate how many nodes of each family are missing beyond `counts`; of the family "" if no more may be added.

        `name`: the loss, which takes a share of the new nodes with it.
        """
        missing = dict[str, _Requests]()
        for families, requests in harm.missing.items():
            free = [each for each in families if counts.get(each, 0) < self._room(self._kinds_of(each))]
            family = min(free, key=lambda each: self._cents_for(each, requests), default="")
            before = missing.get(family, _Requests())
            missing[family] = _Requests(*map(sum, zip(before, requests, strict=True)))
        nodes, examples = dict[str, float](), Tally(family for family, _ in self.left_by(name))
        for family, requests in missing.items():
            kinds = self._kinds_of(family)
            nodes[family] = requests.nodes(kinds[0].template) * len(kinds) / examples[family] if kinds else 0.0
        return nodes

    def _cents_for(self, family: str, requests: _Requests) -> float:
        """Return the price of the share of nodes that Pods fill; without a price, of families the first counts."""
        kind = self._kinds_of(family)[0]
        return kind.price.cents * requests.nodes(kind.template) if kind.price else _UNPRICED

    def _harmful(self, choice: Sequence[int], names: Sequence[str]) -> Mapping[str, _Harm]:
        """Return the harm that nodes prevent of the losses with these names."""
        (harms,) = self.harms_of([choice], names)
        return {name: harm for name, harm in harms.items() if not harm.is_prevented}

    def bisected(self, names: Sequence[str], below: int) -> Sequence[int] | None:
        """Return the fewest nodes that bisection finds for the losses with these names; None if none help.

        `below`: a number of nodes that does not suffice. It does not assume that more nodes always help: of small
        choices, each with a node less is tried afterwards.
        """
        counts, choice = dict[str, int](), self.none
        while True:
            harmful = self._harmful(choice, names[:_FIRST]) or self._harmful(choice, names[_FIRST:])
            if not harmful:
                break
            worst = max(harmful, key=lambda name: (sum(each.pods for each in harmful[name].missing.values()), name))
            needed = [self._needed(counts, harm, name) for name, harm in harmful.items()]
            if counts and all(each and "" not in each and max(each.values()) <= _FEW for each in needed):
                counts = {**counts, **{family: counts.get(family, 0) + 1 for each in needed for family in each}}
            elif (found := self._grown(counts, worst, harmful[worst])) is not None:
                counts = found
            else:
                return None
            choice = self._spread(counts)
            names = sorted(names, key=lambda name: name not in harmful)
        while below + 1 < sum(choice) <= _MAX_SIZE:
            less = next((less for less in _with_one_less(choice) if self.suffices(less, names)), None)
            if less is None:
                break
            choice = less
        return choice

    def _grown(self, counts: Mapping[str, int], name: str, harm: _Harm) -> dict[str, int] | None:
        """Return larger numbers of nodes of families with which a loss does no harm; None if none help.

        `counts`: numbers with which it does this harm. Two choices are simulated at a time. The families are searched
        at the same time: the missing Pods of one are not those of another.
        """
        lower, upper = dict(counts), dict[str, int]()
        tried: dict[str, list[tuple[int, float]]] = {}
        while True:
            needed = self._needed(lower, harm, name)
            if "" in needed or not (needed or upper):
                return None
            pair = dict[str, int](), dict[str, int]()
            for family in {**lower, **needed}:
                low, high = lower.setdefault(family, 0), upper.get(family)
                tried.setdefault(family, []).append((low, needed.get(family, 0.0)))
                steps = _thirds(high - low) if high is not None else _first_steps(tried[family])
                for numbers, step in zip(pair, steps, strict=True):
                    numbers[family] = min(low + step, self._room(self._kinds_of(family)))
            if all(family in upper and upper[family] <= low + 1 for family, low in lower.items()):
                return upper
            found = self.harms_of([*map(self._spread, pair)], {name})
            failed = [self._needed(numbers, harms[name], name) for numbers, harms in zip(pair, found, strict=True)]
            for family, low in lower.items():
                few, more = (numbers[family] for numbers in pair)
                if family in upper and upper[family] <= low + 1:
                    continue
                if family not in failed[0]:
                    upper[family] = few
                elif family not in failed[1]:
                    lower[family], upper[family] = few, more
                else:
                    lower[family] = more
            harm = found[1][name]


def _thirds(gap: int) -> tuple[int, int]:
    """Return what to add to a number that is too small; `gap`: up to one that suffices."""
    return (max(gap // 3, 1), max(2 * gap // 3, 1)) if gap > 1 else (gap, gap)


def _first_steps(tried: Sequence[tuple[int, float]]) -> tuple[int, int]:
    """Return what to add to a number of nodes that is too small, if none is known that suffices.

    `tried`: numbers, and how many nodes are then missing by the sum of requests. Other Pods use a part of the new
    nodes, so the second numbers follow the secant.
    """
    count, needed = tried[-1]
    if not needed:
        return 0, 0
    if len(tried) == 1:
        return max(ceil(needed), 1), max(ceil(2 * needed), 2)
    before, needed_before = tried[-2]
    gained = needed_before - needed
    more = ceil(needed * (count - before) / gained) if gained > 0 else count - before
    more = max(more, 1)
    return (max(more - 1, 1), more) if len(tried) == 2 and more > 1 else (more, 2 * more)


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
    kinds, families = dict[tuple[str, str], _Kind](), dict[object, str]()
    for group in (group for group in groups if not group.blocked):
        family, key = families.setdefault(_likeness(group), group.name), (group.name, zone_of(group.node))
        kinds[key] = _Kind(family, key[1], group.real_node("new"), group.price, group.max_added, group.name)
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
    chosen = [kind for kind in kinds.values() if like in ("", kind.name)]
    if not chosen:
        names = {*(kind.name for kind in kinds.values()), *(node.name for node in nodes)}
        raise InvalidInput(f"no node, pool or node group is named {quote(like)}{suggested(like, names)}")
    return sorted(chosen, key=lambda kind: (kind.family, kind.zone))


def _likeness(group: NodeGroup) -> object:
    """What node groups have in common among which new nodes are spread evenly."""
    ignored = frozenset[str]().union(*IGNORED_LABELS.values())
    labels = frozenset((key, value) for key, value in group.node.labels.items() if key not in ignored)
    return group.price, group.node.taints, labels, frozenset(group.allocatable.items())


def _in_zone(node: Node, zone: str) -> Node:
    return replace(node, labels={**node.labels, ZONE: zone}) if zone else node


def survive(
    cluster: Cluster,
    request: SurvivalRequest,
    *,
    progress: Progress | None = None,
    limit: float = inf,
) -> Survival:
    """Return the fewest nodes, or with prices the cheapest, that are found and with which no loss harms protected Pods.

    `limit`: seconds after which the status is NO ANSWER. Raises SourceError, InvalidInput and InvalidObject.
    """
    cluster.require(NODE, POD, PRIORITY_CLASS)
    snapshot, autoscaling = cluster.snapshot, autoscaling_for(cluster, request.autoscaling)
    kinds = _kinds(snapshot, autoscaling.groups, request.like)
    search = _Search(cluster, request, kinds, progress, limit)
    choice, notes, unknown = None, list[str](), ""
    before: Mapping[str, _Harm] = {}
    after: Mapping[str, _Harm] = {}
    try:
        search.count_alone()
        (before,) = search.harms_of([search.none])
        choice, after, notes = _found(search, len(snapshot.pods), before)
    except _TimeIsUp:
        unknown = f"not found within {duration(limit)}, in which {plural(len(search.trials), 'choice')} were tried"
        notes = ["the search takes too long. Fix: pass --like NAME, or use a machine with more CPUs"]
    added = _added(kinds, choice) if choice is not None else []
    losses = [
        LossHarm(name, *before.get(name, _Harm(0, 0))[:2], *(after[name][:2] if choice is not None else harm[:2]))
        for name, harm in (after if choice is not None else before).items()
    ]
    if any(harm.incomplete for harm in after.values()):
        unknown = INCOMPLETE
    if choice is not None:
        notes = [*_of_choice(search, choice, before, after, notes)]
    notes = [*notes, *_of_cluster(cluster, kinds)]
    head = head_with_nodes(snapshot, (), is_loss=True)
    question = request.scope, request.selector, [*request.protect]
    worst = sorted(losses, key=lambda loss: (-loss.pending, -loss.preempted, loss.loss))
    price = _sum_of(kinds, search.cents(choice)) if choice is not None else None
    survives = choice is not None and all(harm.is_none for harm in after.values())
    found = choice is not None
    states: dict[str, Any] = {"unknown": unknown, "is_found": found, "loses": any(each.gone for each in after.values())}
    return Survival(head, *question, added, survives, worst, search.trials, price, notes, **states)


def _of_choice(
    search: _Search,
    choice: Sequence[int],
    before: Mapping[str, _Harm],
    after: Mapping[str, _Harm],
    notes: Sequence[str],
) -> Iterator[str]:
    """Yield the harm that no node prevents, what the search leaves out, and what chance decides."""
    worst = max(after, key=lambda each: after[each].pending)
    if never := after[worst].pending:
        which, names = plural(never, "Pod that is", "Pods that are"), listed(after[worst].helpless, 3)
        yield f"no new node helps {which} Pending if {worst} is lost, as with volumes there{names and ': '}{names}"
    name = max(after, key=lambda each: after[each].gone)
    if gone := after[name].gone:
        replicas = plural(gone, "protected replica is", "protected replicas are")
        yield f"{replicas} not created again if {name} is lost: failed Jobs, quotas, StatefulSets with a Pending Pod"
    yield from notes
    yield from _by_chance(search, choice, before, after)


def _of_cluster(cluster: Cluster, kinds: Sequence[_Kind]) -> Iterator[str]:
    """Yield the prices that are missing, exceeded quotas, and what is not simulated."""
    unpriced = sorted({kind.name for kind in kinds if kind.price is None})
    if any(kind.price for kind in kinds) and unpriced:
        yield f"no pricePerMonth of {listed(unpriced)}: the fewest nodes, not the cheapest"
    if exceeded := [f"quota {name} is exceeded ({usage})" for name, usage in exceeded_quotas(cluster.snapshot).items()]:
        yield f"{listed(exceeded, 3)}: rejected Pods need no nodes until the quota is raised"
    yield from not_simulated(cluster.cache)


def _by_chance(
    search: _Search, choice: Sequence[int], before: Mapping[str, _Harm], after: Mapping[str, _Harm]
) -> Iterator[str]:
    """Yield what the worst loss does in random runs, now and with the nodes of a choice, if chance decides."""
    name = max(before, key=lambda each: (before[each].pending, before[each].preempted))
    now, then = [before[name], *search.by_chance(search.none, name)], [after[name], *search.by_chance(choice, name)]
    if len({each[:2] for each in now}) > 1 or len({each[:2] for each in then}) > 1:
        yield f"chance decides, {len(now)} runs of {name}: {_ranges(now)} now; {_ranges(then)} with the nodes"


def _ranges(runs: Sequence[_Harm]) -> str:
    values = {"preempted": {each.preempted for each in runs}, "Pending": {each.pending for each in runs}}
    ends = {what: sorted({min(counts), max(counts)}) for what, counts in values.items()}
    return ", ".join(f"{' to '.join(map(str, numbers))} {what}" for what, numbers in ends.items())


def _found(
    search: _Search, pods: int, before: Mapping[str, _Harm]
) -> tuple[Sequence[int] | None, Mapping[str, _Harm], list[str]]:
    """Return the best choice of nodes that is found, None for none; the harm with it; and what the search leaves out.
    `before`: the harm of all losses without new nodes.
    """
    choice: Sequence[int] | None = search.none
    after, notes, failing = before, list[str](), list[str]()
    while more := [name for name, harm in after.items() if not harm.is_prevented and name not in failing]:
        failing = sorted(more, key=lambda name: (-after[name].preempted - after[name].pending, name)) + failing
        choice, notes = _choice(search, pods, failing)
        if choice is None:
            return None, before, notes
        (after,) = search.harms_of([choice])
    return choice, after, notes


def _choice(search: _Search, pods: int, failing: Sequence[str]) -> tuple[Sequence[int] | None, list[str]]:
    """Return the best choice of nodes that is found, None for none, and what the search does not cover."""
    size, is_all = search.sizes_within(MAX_WORK // max(1, pods * len(failing)))
    if size and (choice := search.best_of_all(size, failing)) is not None:
        least = min((kind.price.cents for kind in search.kinds if kind.price), default=_UNPRICED)
        is_cheapest = is_all or search.cents(choice) <= least * (size + 1)
        return choice, [] if is_cheapest else [f"more than {size} nodes were not tried: they may be cheaper"]
    if is_all:
        return None, []
    choice = search.bisected(failing, size)
    tried = sorted({kind.family for kind, count in zip(search.kinds, choice or (), strict=False) if count})
    which = f"all choices of up to {size} nodes were tried, then only" if size else "not all choices were tried, only"
    return choice, [f"{which} nodes like {listed(tried or search.families)}; others may need fewer. Fix: --like NAME"]


def _families(kinds: Sequence[_Kind], cluster: ClusterSnapshot) -> list[str]:
    """The pools or node groups, those first on whose nodes most Pods with a priority above 0 run."""
    pools = {node.name: pool_of(node) for node in cluster.objects.nodes.values()}
    on = Tally(pools.get(pod.node_name, "") for pod in cluster.pods.values() if pod.effective_priority > 0)
    labels = {kind.family: pool_of(kind.template) for kind in kinds}
    return sorted(labels, key=lambda family: (-on[labels[family]], family))


def _added(kinds: Sequence[_Kind], choice: Sequence[int]) -> list[AddedNodes]:
    many = ((kind, count) for kind, count in zip(kinds, choice, strict=True) if count)
    return [AddedNodes(kind.name, kind.zone, count, kind.price and kind.price.times(count)) for kind, count in many]


def _sum_of(kinds: Sequence[_Kind], cents: int) -> Price | None:
    price = kinds[0].price
    return price._replace(cents=cents) if price is not None and cents else None
