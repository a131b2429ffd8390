"""Finds how many nodes a cluster needs to survive the loss of any zone, node or pool, so that no protected Pod is
preempted or Pending. Each loss is simulated after the addition of the nodes.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import defaultdict
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, inf
from operator import add, mul
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.documents.answer import INCOMPLETE, Cause, Fix
from forewarn.policies.base.findings import duration, listed, plural, quote
from forewarn.policies.kubernetes.cluster.admission import exceeded_quotas
from forewarn.policies.kubernetes.kinds.registry import NODE, POD, PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.fields import InvalidInput
from forewarn.policies.kubernetes.objects.node import ZONE, Node
from forewarn.policies.kubernetes.objects.priority_class import HIGHEST_USER_DEFINABLE_PRIORITY
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.linting.rules.support.names import suggested
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import IGNORED_LABELS, NodeGroup, Price
from forewarn.policies.prediction.simulation.scenario import not_simulated
from forewarn.policies.prediction.simulation.summary import Levels, is_incomplete, pods_left_out
from forewarn.policies.questions.application import simulated
from forewarn.policies.questions.application.cluster import Cluster, Progress, autoscaling_for, head_with_nodes
from forewarn.policies.questions.application.fixes import Edit, quota_edits, with_edits
from forewarn.policies.questions.application.survival_answer import (
    AddedNodes,
    LossHarm,
    Survival,
    Trial,
    is_verified,
    nodes_text,
    why_lost,
)
from forewarn.policies.questions.whatif import DEFAULT_UNTIL, MAX_ADDED
from forewarn.policies.questions.whatif.comparison import (
    ask,
    count_by_workload,
    lost_replicas,
    more_pending,
    placeholder_workloads,
    placeholders_of,
    prepare,
)
from forewarn.policies.questions.whatif.effects import Kind
from forewarn.policies.questions.whatif.node_bands import zone_of
from forewarn.policies.questions.whatif.node_groups import free_names, new_node_like, pool_of
from forewarn.policies.questions.whatif.questions import Loss, Question, each_loss, nothing_to_lose, question_of_loss
from forewarn.policies.questions.whatif.repetition import random_runs
from forewarn.policies.questions.whatif.sweep import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.prediction.simulation.clock import Origin
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.questions.whatif.answer import Answer, WorkloadCount
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling

MAX_WORK: Final = 20_000
"""Maximum number of Pods in all simulations of cheaper choices than the one found, if all choices are to be tried."""
_BLOCK: Final = 40
"""Number of choices whose simulations share their start."""
_SETTLE: Final = 120.0
"""Seconds from the addition of nodes to the loss: Pending Pods and DaemonSets get their place first."""
_MAX_GROWN: Final = 6
"""Maximum number of choices, each with more nodes, that are simulated in random runs until one prevents harm in all."""
_MAX_NAMED: Final = 4
"""Maximum number of classes that a fix names."""
_LATE: Final = 0.75
"""Exponent of the part of the missing nodes that remains after some are added: the last ones help less."""
_NEAR: Final = 12
"""A bisection ends if its bounds differ by at most this part of a number of nodes, or by one node."""
_FIRST: Final = 2
"""Number of losses that are simulated first: those that most recently did harm. Others follow only if these do none."""


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
    """A kind of node to add: of a node group, or like those of a pool in a zone. `family`: equal for kinds that differ
    mainly in zone and price. `max_added`: None for any number. `name`: the name of the group or pool.
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


class _Missing(NamedTuple):
    """Sums of Pods that new nodes would help. `harmed`: Pending protected Pods by PriorityClass, and preempted
    ones of workloads without Pending Pods.
    """

    milli_cpu: int
    memory: int
    harmed: Tally[str]

    def nodes(self, node: Node) -> float:
        """Return how many nodes like this one the Pods fill."""
        room = node.allocatable
        return max(self.milli_cpu / max(room.milli_cpu, 1), self.memory / max(room.memory, 1))


class _Harm(NamedTuple):
    """The protected Pods that are preempted, Pending at the end, and the replicas that are lost, as by `whatif`.

    `missing`: the Pods that new nodes would help, by the numbers of their kinds: Pending ones, and preemptors.
    """

    preempted: int
    pending: int
    lost: int = 0
    missing: Mapping[tuple[int, ...], _Missing] = {}
    incomplete: bool = False

    def beyond(self, alone: _Harm) -> _Harm:
        """The harm in addition to `alone`, which happens anyway."""
        preempted, pending, lost = (max(own - other, 0) for own, other in zip(self[:3], alone[:3], strict=True))
        missing = self.missing if preempted or pending else {}
        return _Harm(preempted, pending, lost, missing, self.incomplete or alone.incomplete)

    @property
    def helped(self) -> Tally[str]:
        """The harmed Pods that new nodes would help, by PriorityClass."""
        return sum((each.harmed for each in self.missing.values()), Tally[str]())

    @property
    def is_prevented(self) -> bool:
        """Whether no new node helps any Pod that is still Pending."""
        return not (self.preempted or self.missing or self.incomplete)


class _Protected:
    """Counts the harm to protected Pods, in simulations that share their start."""

    def __init__(
        self,
        simulation: Simulation,
        protects: Callable[[Origin | WorkloadCount], bool],
        others: set[tuple[str, str]],
        left_by: Callable[[str], Mapping[int, _Kind]],
    ) -> None:
        """`left_by`: returns the kinds of new nodes that a loss leaves, by number, the preferred ones first."""
        self._protects, self._others, self._left_by = protects, others, left_by
        self._before = count_by_workload(simulation)

    def measure(self, simulation: Simulation, question: Question) -> _Harm:
        prepare(simulation, question)
        simulation.run()
        levels, origins, after = Levels(), simulation.timeline.origins, count_by_workload(simulation)
        evictions = [found for event in simulation.timeline.events if (found := levels.next(event)) is not None]
        evictions = [each for each in evictions if self._is_own(each.origin)]
        pending, lost = more_pending(self._before, after), lost_replicas(simulation, self._before, after)
        more = {workload: count for workload, count in pending.items() if self._is_own(after[workload].origin)}
        own = sum(count for workload, count in lost.items() if self._is_own(self._before[workload].origin))
        harmed = defaultdict[str, Tally[str]](Tally)
        for eviction in evictions:
            harmed[eviction.by][eviction.origin.priority_class] += eviction.origin.workload not in more
        for state in simulation.api.pods.values():
            if state.active and not state.pod.node_name and origins[state.pod.key].workload in more:
                harmed[state.pod.key][origins[state.pod.key].priority_class] += 1
        incomplete = is_incomplete(simulation, pods_left_out(simulation))
        missing = self._missing(simulation, question, harmed)
        return _Harm(len(evictions), sum(more.values()), own, missing, incomplete)

    def _missing(
        self, simulation: Simulation, question: Question, harmed: Mapping[str, Tally[str]]
    ) -> Mapping[tuple[int, ...], _Missing]:
        """Return the Pods that new nodes would help, by kinds of nodes; adds one node of each kind to the simulation.

        `harmed`: for Pending Pods and preemptors, harmed Pods by PriorityClass. A preemptor that no longer exists may
        need nodes of any kind.
        """
        kinds, missing = self._left_by(question.title), dict[tuple[int, ...], _Missing]()
        known = dict[object, tuple[int, ...]]()
        for kind in kinds.values() if harmed else ():
            simulation.api.put_node(kind.template)
        snapshot = simulation.cache.snapshot()
        for name, classes in harmed.items():
            state = simulation.api.pods.get((name.partition("/")[0], name.partition("/")[2]))
            helping, more = tuple(kinds), _Missing(0, 0, classes)
            if state is not None:
                pod = state.pod
                more = _Missing(pod.occupies.resource.milli_cpu, pod.occupies.resource.memory, classes)
                alike = name if pod.spec.has_storage else simulation.timeline.origins[name].workload
                if alike not in known:
                    asking = replace(pod, node_name="", nominated_node_name="")
                    feasible = {*Prediction(snapshot, asking).feasible}
                    known[alike] = tuple(each for each, kind in kinds.items() if kind.template.name in feasible)
                helping = known[alike] or (tuple(kinds) if pod.node_name else ())
            if helping:
                missing[helping] = _Missing(*map(add, missing[helping], more)) if helping in missing else more
        return missing

    def _is_own(self, origin: Origin) -> bool:
        return self._protects(origin) and origin.workload not in self._others


class _Left(NamedTuple):
    """Known bounds for the number of new nodes of a family that must remain after a loss.

    `few`: the largest number that is too small; `needed`: how many more nodes were needed with it. `enough`: the
    smallest number that is enough. `next`: the number to try next.
    """

    few: int = -1
    needed: float = 0.0
    enough: float = inf
    next: int = 0

    def remaining_after(self, count: int, needed: float | None) -> _Left:
        """Return what is known after a simulation with `count` nodes. `needed`: how many more; None for enough."""
        if needed is None:
            known, more = self._replace(enough=min(self.enough, count)), 0.0
        else:
            more = needed
            if 0 <= self.few < count and needed < self.needed:
                rest = (needed / self.needed) ** _LATE
                more = min((count - self.few) * rest / (1 - rest), count + ceil(needed))
            known = _Left(max(self.few, count), needed, self.enough if self.enough > count else inf)
        if known.enough < inf:
            more = known.enough - known.few
            more = more if more <= max(1, known.enough // _NEAR) else more // 2
        return known._replace(next=known.few + max(ceil(more), 1))


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
        only: str = "",
    ) -> None:
        """`only`: the one loss to survive; empty for all."""
        self._cluster, self._request, self._progress, self._only = cluster, request, progress, only
        self._world = simulated.world_with(cluster.cache, [], DEFAULT_UNTIL)
        self._protects = _protection(cluster.snapshot, request.protect)
        self._taken = {node.name for node in cluster.snapshot.objects.nodes.values()}
        free = free_names("one-more", self._taken)
        self.kinds = [kind._replace(template=new_node_like(kind.template, next(free))) for kind in kinds]
        most = max(MAX_ADDED, len(self._taken))
        self._rooms = [most if kind.max_added is None else min(kind.max_added, most) for kind in kinds]
        prices = [kind.price.cents for kind in kinds if kind.price]
        self._cents = prices if len(prices) == len(kinds) else [0] * len(kinds)
        self._done: dict[tuple[Sequence[int], str], _Harm] = {}
        self.none: Sequence[int] = (0,) * len(kinds)
        self._left: dict[str, Sequence[int]] = {}
        self._by_price, self._alone, self._end = False, _Harm(0, 0), monotonic() + limit
        self.held: dict[Sequence[int], tuple[int, int]] = {}
        """Choice -> the number of random runs of the losses, and of those in which no more nodes are needed."""
        self.before: Mapping[str, _Harm] = {}
        """The harm of the losses without new nodes, in addition to harm that happens anyway."""
        self.choice: Sequence[int] | None = None
        """The best choice that `run` found; None if it found none."""
        self.is_least = False
        """Whether all better choices were tried."""

    def run(self) -> None:
        """Search for the best choice. Raises InvalidInput if there is nothing to lose, and _TimeIsUp."""
        (self._alone,) = counted(self._world, [question_of_loss(Loss("nothing", ()))], self._counting, self._report)
        self.before = self.harms_of(self.none)
        if not self.before:
            raise nothing_to_lose(self._request.scope)
        for better in self.choices(self.before):
            self.choice, self.is_least = better
        self._by_price = any(self._cents)  # further nodes are the cheapest ones
        if self.choice is not None and (more := self.larger_choice(self.choice, [*self.before])) != self.choice:
            self.choice, self.is_least = more, False

    def _losses(self, new: Iterable[Node], names: Container[str] | None = None) -> list[Loss]:
        """The losses to survive, all or those with these names, also of new nodes. Raises InvalidInput."""
        cluster = self._cluster.snapshot
        nodes = [*cluster.objects.nodes.values(), *new]
        losses = each_loss(cluster, self._request.scope, self._request.selector, nodes)
        asked = [loss for loss in losses if self._only in ("", loss.title)]
        return [loss for loss in asked if names is None or loss.title in names]

    def questions(self, choice: Sequence[int], names: Container[str] | None = None) -> list[Question]:
        """Return the losses after the addition of nodes."""
        free, many = free_names("new", self._taken), zip(self.kinds, choice, strict=True)
        new = [new_node_like(kind.template, next(free)) for kind, count in many for _ in range(count)]
        return [question_of_loss(loss, new, _SETTLE) for loss in self._losses(new, names)]

    def _left_by(self, name: str) -> Sequence[int]:
        """Return the kinds whose nodes the loss with this name leaves."""
        if name not in self._left:
            losses = self._losses([kind.template for kind in self.kinds], [name])
            lost = {node for loss in losses for node in loss.nodes}
            self._left[name] = [number for number, kind in enumerate(self.kinds) if kind.template.name not in lost]
        return self._left[name]

    def _counting(self, simulation: Simulation) -> _Protected:
        pods, options = self._cluster.snapshot.pods.values(), self._cluster.config.options
        placeholders = placeholder_workloads(simulation, pods, options)
        return _Protected(
            simulation,
            self._protects,
            placeholders,
            lambda name: {each: self.kinds[each] for each in self._left_by(name)},
        )

    def _simulate(self, choices: Iterable[Sequence[int]], names: Container[str] | None) -> None:
        """Simulate losses with the nodes of each choice, unless this was done before."""
        pairs = [(choice, question) for choice in choices for question in self.questions(choice, names)]
        new = [(choice, question) for choice, question in pairs if (choice, question.title) not in self._done]
        with closing(counted(self._world, [each for _, each in new], self._counting, self._report)) as harms:
            for (choice, question), harm in zip(new, harms, strict=True):
                self._done[choice, question.title] = harm.beyond(self._alone)
                self._report()

    def harms_of(self, choice: Sequence[int], names: Container[str] | None = None) -> Mapping[str, _Harm]:
        """Return the harm of the losses with the nodes of a choice. `names`: only these losses; None for all."""
        self._simulate([choice], names)
        return {each.title: self._done[choice, each.title] for each in self.questions(choice, names)}

    def harmful(self, choice: Sequence[int], names: Container[str] | None = None) -> Mapping[str, _Harm]:
        """Return the harm of losses with the nodes of a choice, only where more nodes would prevent it."""
        return {name: harm for name, harm in self.harms_of(choice, names).items() if not harm.is_prevented}

    def random_harms(self, choice: Sequence[int], names: Sequence[str]) -> list[tuple[str, _Harm]]:
        """Return the name and the harm of each random run; the runs simulate these losses in turn, with the nodes of a
        choice.
        """
        questions = self.questions(choice, names)
        runs = random_runs(questions, self._world, self._counting)
        return [(questions[run % len(questions)].title, harm.beyond(self._alone)) for run, harm in enumerate(runs, 1)]

    def larger_choice(self, choice: Sequence[int], names: Sequence[str]) -> Sequence[int]:
        """Return a larger choice with which no random run of these losses does harm that nodes prevent; the same choice
        if none is found. Sets `held`.
        """
        many = choice
        while many not in self.held and len(self.held) < _MAX_GROWN:
            runs = self.random_harms(many, names)
            self.held[many] = len(runs), sum(harm.is_prevented for _, harm in runs)
            harms = [*self.harms_of(many).items(), *runs]
            if all(harm.is_prevented for _, harm in harms):
                return many
            many = self._with_more(many, harms)
        return choice

    def _with_more(self, choice: Sequence[int], harms: Iterable[tuple[str, _Harm]]) -> Sequence[int]:
        """Return a choice with the nodes that are missing after losses. `harms`: of all losses, by name."""
        wanted = Tally[tuple[str, object]]()
        for name, harm in harms:
            needed = self._needed(choice, harm, name) or {}
            for family in map(self._family, range(len(self.kinds))):
                wanted |= {(name, family): self._count(choice, name, family) + ceil(needed.get(family, 0))}
        return self._covering(wanted)

    def answer_of(self, choice: Sequence[int], name: str) -> Answer:
        """Return the answer of `whatif` about a loss with the nodes of a choice, with the protected workloads alone."""
        (question,) = self.questions(choice, [name])
        answer = ask(question, self._world._replace(arrivals=question.arrivals), without=False)
        pods, options = self._cluster.snapshot.pods.values(), self._cluster.config.options
        own = [each for each in answer.after.workloads if self._protects(each)]
        after = answer.after._replace(workloads=own)
        return answer._replace(after=after, placeholders=placeholders_of(answer, pods, options))

    def _report(self, *_: object) -> None:
        if monotonic() > self._end:
            raise _TimeIsUp
        if self._progress is not None:
            self._progress(len(self._done), 0)

    @property
    def trials(self) -> list[Trial]:
        """The simulated choices, each with its worst losses, the smallest first."""
        results = list[Trial]()
        for choice, harms in sorted(self._harm_by_choice().items(), key=lambda each: sum(each[0])):
            preempted, pending, lost = map(max, zip(*(harm[:3] for harm in harms.values()), strict=True))
            helped = {name: harm.helped.total() for name, harm in harms.items() if harm.helped}
            results.append(Trial(self._text_of(choice), preempted, pending, lost, helped))
        return results

    def _harm_by_choice(self) -> Mapping[Sequence[int], Mapping[str, _Harm]]:
        """Return the harm of the simulated losses by choice."""
        harms: dict[Sequence[int], dict[str, _Harm]] = defaultdict(dict)
        for (choice, name), harm in self._done.items():
            harms[choice][name] = harm
        return harms

    def cheaper(self, below: tuple[float, float]) -> Iterator[Fix]:
        """Yield the most helpful simulated choice with a smaller key, and the Pods that more nodes would help."""
        known = {each: many for each, many in self._harm_by_choice().items() if any(each) and self.key(each) < below}
        tried = {each: max(harm.helped.total() for harm in many.values()) for each, many in known.items()}
        cheaper = [each for each in tried if tried[each] or each in self.held]
        for best in sorted(cheaper, key=lambda each: (tried[each], self.key(each)))[:1]:
            name, harm = max(known[best].items(), key=lambda item: item[1].helped.total())
            pods = plural(harm.helped.total(), "more Pod is", "more Pods are")
            classes = listed([f"{own} {count}" for own, count in harm.helped.most_common()], 3)
            effect = f"{name} lost: {pods} Pending or preempted ({classes})"
            if harm.is_prevented and best in self.held:
                total, held = self.held[best]
                effect = f"enough in {held} of {total} random runs of the losses"
            yield Fix(f"or {self.purchase(best)}", effect)

    def explained(self, choice: Sequence[int], loss: LossHarm) -> tuple[list[Cause], list[Fix]]:
        """Return why replicas stay lost with a choice, and if quotas reject Pods, the effect of raising the quotas."""
        answer, quotas = self.answer_of(choice, loss.loss), list[Fix]()
        why = [*why_lost(answer)]
        if any(cause.kind == Kind.QUOTA for cause in why) and (edits := [*quota_edits(self._cluster, answer)]):
            quotas.append(self._with_quotas(choice, loss, edits))
        return why, quotas

    def less_protected(self) -> Iterator[Fix]:
        """Yield the protection of only those classes whose Pods no new node helps, with what stays lost."""
        helped = sum((harm.helped for harm in self.before.values()), Tally[str]())
        pods = [pod for pod in self._cluster.snapshot.pods.values() if not pod.terminal]
        values = {pod.priority_class_name: pod.effective_priority for pod in pods}
        protected = self._request.protect or [name for name, value in values.items() if name and value > 0]
        protected = [name for name in protected if values.get(name, 0) <= HIGHEST_USER_DEFINABLE_PRIORITY]
        others = sorted({*protected} - helped.keys(), key=lambda name: (-values.get(name, 0), name))
        if not helped or not 0 < len(others) <= _MAX_NAMED:
            return
        request = replace(self._request, protect=others)
        other = _Search(self._cluster, request, self.kinds, self._progress, self._end - monotonic())
        with suppress(_TimeIsUp):
            other.run()
        if other.choice == self.none:
            lost = max(harm.lost for harm in other.before.values())
            stay = f"; {plural(lost, 'replica stays', 'replicas stay')} lost" if lost else ""
            yield Fix(f"or protect fewer classes: --protect {' '.join(others)}", f"no nodes needed{stay}")

    def _with_quotas(self, choice: Sequence[int], loss: LossHarm, edits: Sequence[Edit]) -> Fix:
        """Return a fix with raised quotas, the number of nodes that then suffices, and the remaining harm of a loss.

        In a large cluster, the number is that of this loss, for all losses.
        """
        cluster = with_edits(self._cluster, edits)
        only = "" if self.is_least or self.held.get(choice, (0, 0))[0] else loss.loss  # all losses in small clusters
        other = _Search(cluster, self._request, self.kinds, self._progress, self._end - monotonic(), only)
        action = f"first {'; '.join(each.action for each in edits)}"
        with suppress(_TimeIsUp):
            other.run()
        then = choice if other.choice is None else other.choice
        try:
            harm = other.harms_of(then, [loss.loss])[loss.loss]
        except _TimeIsUp:
            return Fix(action, "no time left to simulate it. Ask again afterwards")
        effect = LossHarm(*loss[:4], *harm[:3]).effect + ("" if harm.is_prevented else "; more nodes would help then")
        about = "" if is_verified(other.held.get(then, (0, 0)), is_least=other.is_least and not only) else "about "
        if only:
            keys = [(name, self._family(number)) for name in self.before for number in range(len(self.kinds))]
            then = self._covering({key: other._count(then, only, key[1]) for key in keys})
        return Fix(f"{action}; then add {about}{self.purchase(then)}" if any(then) else action, effect)

    def purchase(self, choice: Sequence[int]) -> str:
        """A choice as text, such as `2 nodes, 40 EUR per month: 1 general a, 1 general b`."""
        cost = f", {price} per month" if (price := self.price(choice)) else ""
        return f"{plural(sum(choice), 'node')}{cost}: {self._text_of(choice)}"

    def price(self, choice: Sequence[int]) -> Price | None:
        """Return the price of a choice; None without prices."""
        (cents, _), price = self.key(choice), self.kinds[0].price
        return price._replace(cents=cents) if price is not None and cents else None

    def _text_of(self, choice: Sequence[int]) -> str:
        """A choice as text, such as `2 general a, 1 general b`."""
        return nodes_text(
            (kind.name, kind.zone, count) for kind, count in zip(self.kinds, choice, strict=True) if count
        )

    def key(self, choice: Sequence[int]) -> tuple[int, int]:
        """The sort key of a choice, lower for a better one: its price (0 if a kind has no price), then its number of
        nodes.
        """
        return sum(map(mul, self._cents, choice)), sum(choice)

    def choices(self, before: Mapping[str, _Harm]) -> Iterator[tuple[Sequence[int], bool]]:
        """Yield choices with which no loss does harm that nodes prevent, each better than the one before, and whether
        all better ones were tried. `before`: the harm without new nodes.

        Searches first by the number of nodes, then by price, with the more expensive kinds of a family apart.
        """
        names = sorted(before, key=lambda name: (-before[name].preempted - before[name].pending, name))
        names = [name for name in names if not before[name].is_prevented]
        best, rejected, grown = None, set[object](), set[object]()
        for by_price in dict.fromkeys((False, any(self._cents))):
            self._by_price, is_complete = by_price, False
            while not is_complete:
                is_complete = True
                for choice in self._enough(names):
                    enough, more = choice, self.harmful(choice)
                    if more and choice not in rejected:
                        rejected.add(choice)
                        names, is_complete = [*dict.fromkeys((*more, *names))], False
                        break
                    while more and enough not in grown and len(grown) < _MAX_GROWN:  # more nodes may also do harm
                        grown.add(enough)
                        enough = self._with_more(enough, self.harms_of(enough).items())
                        more = self.harmful(enough)
                    if not more and (best is None or self.key(enough) < self.key(best)):
                        best = enough
                        yield enough, False
        many = MAX_WORK // max(1, len(self._world.pods))
        below = (inf, inf) if best is None else self.key(best)
        cheaper = sorted(islice(self._cheaper(below), many + 1), key=self.key)
        if len(cheaper) <= many:
            best = next(self._sufficient(cheaper, names), best)
            yield from [] if best is None else [(best, True)]

    def _cheaper(self, below: tuple[float, float], first: Sequence[int] = ()) -> Iterator[Sequence[int]]:
        """Yield the choices with a smaller key that begin with these numbers, without the empty one."""
        if len(first) == len(self.kinds):
            yield from [first] if any(first) else []
            return
        for count in range(self._rooms[len(first)] + 1):
            numbers = *first, count
            if self.key((*numbers, *self.none[len(numbers) :])) >= below:
                return
            yield from self._cheaper(below, numbers)

    def _sufficient(self, choices: Sequence[Sequence[int]], names: Sequence[str]) -> Iterator[Sequence[int]]:
        """Yield the choices with which no loss does harm that nodes prevent; simulates those with these names first."""
        for start in range(0, len(choices), _BLOCK):
            block = choices[start : start + _BLOCK]
            self._simulate(block, names[:1])
            yield from (
                choice for choice in block if not (self.harmful(choice, names[:_FIRST]) or self.harmful(choice))
            )

    def _enough(self, names: Sequence[str]) -> Iterator[Sequence[int]]:
        """Yield choices with which the losses with these names do no harm that nodes prevent.

        A bisection for each loss and family, at the same time, of how many new nodes the loss has to leave.
        """
        families = dict.fromkeys(self._family(number) for number in range(len(self.kinds)))
        left = {(name, family): _Left() for name in names for family in families}
        tried, choice = set[object](), self.none
        while choice not in tried:
            tried.add(choice)
            counts = {key: self._count(choice, *key) for key in left}
            harms = self.harms_of(choice, {key[0] for key, own in left.items() if counts[key] < own.enough})
            for name, harm in harms.items():
                needed = self._needed(choice, harm, name)
                if needed is None or not (needed or harm.is_prevented):
                    return
                for key in ((name, family) for family in families):
                    left[key] = left[key].remaining_after(counts[key], needed.get(key[1]))
            if all(harm.is_prevented for harm in harms.values()):
                yield choice
            choice = self._covering({key: own.next for key, own in left.items()})

    def _family(self, number: int) -> object:
        """Return a value that is equal for kinds that share new nodes evenly; in a search by price, also by price."""
        kind = self.kinds[number]
        return (kind.family, kind.price) if self._by_price else kind.family

    def _numbers(self, name: str, family: object) -> list[int]:
        """Return the kinds of a family whose nodes the loss with this name leaves."""
        return [number for number in self._left_by(name) if self._family(number) == family]

    def _count(self, choice: Sequence[int], name: str, family: object) -> int:
        """Return how many new nodes of a family the loss with this name leaves."""
        return sum(choice[number] for number in self._numbers(name, family))

    def _covering(self, wanted: Mapping[tuple[str, object], int]) -> Sequence[int]:
        """Return a small choice of which each loss leaves as many nodes as `wanted` (by loss and family), or as many as
        are allowed. Repeatedly adds a node of the kind that helps the most losses; of equal kinds, the one with the
        fewest nodes. Then removes the nodes that no loss needs, of expensive kinds first.
        """
        choice = [*self.none]
        while True:
            wanting = [key for key, count in wanted.items() if self._count(choice, *key) < count]
            numbers = (number for key in wanting for number in self._numbers(*key))
            helped = Tally(number for number in numbers if choice[number] < self._rooms[number])
            if not helped:
                break
            choice[min(helped, key=lambda number: (-helped[number], choice[number], number))] += 1
        for number in sorted(range(len(choice)), key=lambda number: -self._cents[number]):
            involved = (key for key in wanted if number in self._numbers(*key))
            spare = [self._count(choice, *key) - wanted[key] for key in involved]
            choice[number] -= min(max(min(spare, default=0), 0), choice[number])
        return tuple(choice)

    def _needed(self, choice: Sequence[int], harm: _Harm, name: str) -> Mapping[object, float] | None:
        """Estimate how many nodes of each family are missing after a loss with the nodes of a choice; None if no more
        may be added for some Pods.
        """
        nodes = defaultdict[object, float](float)
        for numbers, more in harm.missing.items():
            families = {self._family(number) for number in numbers}
            costs = {
                number: self._by_price * self._cents[number] * ceil(more.nodes(self.kinds[number].template))
                for number in self._left_by(name)
                if choice[number] < self._rooms[number] and self._family(number) in families
            }
            if not costs:
                return None
            cheapest = min(costs, key=costs.__getitem__)
            nodes[self._family(cheapest)] += more.nodes(self.kinds[cheapest].template)
        return nodes

    def added(self, choice: Sequence[int], before: Mapping[str, _Harm]) -> list[AddedNodes]:
        """Return the nodes of a choice, each with the Pods for which the nodes of its family are added. `before`: the
        harm without new nodes.
        """
        classes = defaultdict[str, Tally[str]](Tally)
        for harm in before.values():
            harmed = defaultdict[str, Tally[str]](Tally)
            for numbers, more in harm.missing.items():
                harmed[next((self.kinds[number].family for number in numbers if choice[number]), "")] += more.harmed
            for family, many in harmed.items():
                classes[family] |= many
        return [
            AddedNodes(kind.name, kind.zone, count, kind.price and kind.price.times(count), {**classes[kind.family]})
            for kind, count in zip(self.kinds, choice, strict=True)
            if count
        ]


def _protection(cluster: ClusterSnapshot, protect: Sequence[str]) -> Callable[[Origin | WorkloadCount], bool]:
    """Return the function that reports whether a Pod is protected. Raises InvalidInput for an unknown class."""
    for name in protect:
        if name not in cluster.priority_classes:
            raise InvalidInput(f"PriorityClass {quote(name)} not found{suggested(name, cluster.priority_classes)}")
    names = {*protect}
    return lambda origin: origin.priority_class in names if names else origin.priority > 0


def _kinds(cluster: ClusterSnapshot, groups: Sequence[NodeGroup], like: str) -> list[_Kind]:
    """Return the kinds of nodes to add: the node groups, or else the pools in each zone. Raises InvalidInput. Kinds on
    whose nodes the most Pods with a priority above 0 run come first.
    """
    nodes = sorted(cluster.objects.nodes.values(), key=lambda node: node.name)
    model = cluster.objects.nodes.get(("", like))
    if model is not None:
        zones = sorted({zone_of(node) for node in nodes})
        return [
            _Kind(like, zone, replace(model, labels={**model.labels, ZONE: zone}) if zone else model) for zone in zones
        ]
    kinds = _kinds_of_groups(groups) or _kinds_of_pools(nodes)
    chosen = [kind for kind in kinds if like in ("", kind.name, pool_of(kind.template))]
    if not chosen:
        names = {*(kind.name for kind in kinds), *(pool_of(kind.template) for kind in kinds)} - {""}
        raise InvalidInput(f"no node, pool or node group is named {quote(like)}{suggested(like, names)}")
    pools = {node.name: pool_of(node) for node in nodes}
    used = Tally(pools.get(pod.node_name) for pod in cluster.pods.values() if pod.effective_priority > 0)
    return sorted(chosen, key=lambda kind: (-used[pool_of(kind.template)], kind.family, kind.zone))


def _kinds_of_groups(groups: Sequence[NodeGroup]) -> list[_Kind]:
    families = dict[object, str]()
    return [
        _Kind(
            families.setdefault(_likeness(group), group.name),
            zone_of(group.node),
            group.real_node("new"),
            group.price,
            group.max_added,
            group.name,
        )
        for group in groups
        if not group.blocked
    ]


def _kinds_of_pools(nodes: Sequence[Node]) -> list[_Kind]:
    pools: dict[tuple[str, str], _Kind] = {}
    for node in nodes:
        key = pool_of(node) or "no pool", zone_of(node)
        if not node.unschedulable:
            pools.setdefault(key, _Kind(*key, node))
    return [*pools.values()]


def _likeness(group: NodeGroup) -> object:
    """Return a value that is equal for node groups among which cluster-autoscaler spreads new nodes evenly."""
    ignored = frozenset[str]().union(*IGNORED_LABELS.values())
    labels = frozenset((key, value) for key, value in group.node.labels.items() if key not in ignored)
    return group.node.taints, labels, frozenset(group.allocatable.items())


def survive(
    cluster: Cluster,
    request: SurvivalRequest,
    *,
    progress: Progress | None = None,
    limit: float = inf,
) -> Survival:
    """Return the fewest nodes, or with prices the cheapest, that are found and with which no loss harms protected Pods.

    `limit`: seconds after which the search ends; the status is NO ANSWER if it has found nothing. Raises SourceError,
    InvalidInput and InvalidObject.
    """
    cluster.require(NODE, POD, PRIORITY_CLASS)
    snapshot, autoscaling = cluster.snapshot, autoscaling_for(cluster, request.autoscaling)
    kinds = _kinds(snapshot, autoscaling.groups, request.like)
    search = _Search(cluster, request, kinds, progress, limit)
    unknown, late = "", list[str]()
    try:
        search.run()
    except _TimeIsUp:
        late = [f"the search ended after {duration(limit)}. Fix: pass --like NAME, or use a machine with more CPUs"]
        if search.choice is None:
            unknown = f"not found within {duration(limit)}, in which {plural(len(search.trials), 'choice')} were tried"
    is_found, choice, before = search.choice is not None, search.choice or search.none, search.before
    cheaper = list[Fix]()
    with suppress(_TimeIsUp):
        cheaper += search.cheaper(search.key(choice) if is_found else (inf, inf))
        cheaper += search.less_protected() if any(choice) else ()
    after = search.harms_of(choice) if before else before
    if any(harm.incomplete for harm in after.values()):
        unknown = INCOMPLETE
    losses = [LossHarm(name, *before.get(name, _Harm(0, 0))[:3], *harm[:3]) for name, harm in after.items()]
    worst = sorted(losses, key=lambda loss: (-loss.lost_then, -loss.pending, -loss.preempted, loss.loss))
    why, quotas = search.explained(choice, worst[0]) if worst and worst[0].lost_then else ([], [])
    notes = [*late, *_cluster_sentences(cluster, kinds, request.protect)]
    states: dict[str, Any] = {
        "unknown": unknown,
        "is_found": is_found,
        "runs": search.held.get(choice, (0, 0)),
        "why": why,
        "quotas": quotas,
        "cheaper": cheaper,
        "is_least": search.is_least,
    }
    head = head_with_nodes(snapshot, (), is_loss=True)
    added, question = search.added(choice, before), (request.scope, request.selector, [*request.protect])
    survives = is_found and not any(any(harm[:3]) or harm.incomplete for harm in after.values())
    return Survival(head, *question, added, survives, worst, search.trials, search.price(choice), notes, **states)


def _cluster_sentences(cluster: Cluster, kinds: Sequence[_Kind], protect: Sequence[str]) -> Iterator[str]:
    """Yield exceeded quotas, which Pods are not protected, missing prices, and what is not simulated."""
    exceeded = [f"quota {name} is exceeded ({usage})" for name, usage in exceeded_quotas(cluster.snapshot).items()]
    if exceeded and not protect:
        yield f"{listed(exceeded, 3)}: rejected Pods need no nodes until the quota is raised. Fix: raise it first"
    zero = sum(pod.effective_priority == 0 and not pod.terminal for pod in cluster.snapshot.pods.values())
    if zero and not protect:
        are = plural(zero, "Pod of priority 0 is", "Pods of priority 0 are")
        yield f"{are} not protected. Fix: name their classes with --protect, or give them one"
    unpriced = sorted({kind.name for kind in kinds if kind.price is None})
    if any(kind.price for kind in kinds) and unpriced:
        yield f"no pricePerMonth of {listed(unpriced)}: the fewest nodes, not the cheapest"
    yield from not_simulated(cluster.cache)
