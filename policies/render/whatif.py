"""A simulated change as text and Markdown: the cluster before and after."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import (
    NAMED,
    cut,
    duration,
    first_of,
    one_line,
    plural,
)
from forewarn.policies.kinds.registry import STATEFUL_SET
from forewarn.policies.kube_apiserver.quota import QUOTAS, rejecting
from forewarn.policies.scheduling.reasons import FitError
from forewarn.policies.whatif.answer import NO_CAUSES, Answer, Causes, WorkloadCount, pairs
from forewarn.policies.whatif.effects import own_workloads
from forewarn.policies.whatif.interruptions import FAILS, MINUTE

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kube_apiserver.priority import Resolved
    from forewarn.policies.whatif.class_change import Ranked
    from forewarn.policies.whatif.interruptions import Interruption
    from forewarn.policies.whatif.upgrade import DrainBlocker

_WITHOUT: Final = "also without the change"
OR_PENDING: Final = " or newly Pending"
NO_EFFECT: Final = f"no replica lost, no Pod preempted{OR_PENDING}"
_EFFECTS: Final = 7
"""The most effects in a first line."""
_BRIEF: Final = 4
"""The most effects in a first line with fewer details."""
_FEWEST: Final = 3
"""The least effects in a first line that is too long."""
_LONGEST_NAME: Final = 100
_LONGEST_NAMES: Final = 60
"""Characters of several names."""
_TOO_FEW: Final = "with too few healthy Pods"


def _blocked_drains(blockers: Sequence[DrainBlocker], health: str = "", *, are_named: bool = True) -> str:
    """A phrase about the PDBs that block drains; "" for none. `health`: of these."""
    if not blockers:
        return ""
    which = _named_pdbs([each.budget for each in blockers]) if are_named else plural(len(blockers), "PDB")
    nodes = sorted({node for blocker in blockers for node in blocker.nodes})
    of = f"node {nodes[0]}" if are_named and len(nodes) == 1 else plural(len(nodes), "node")
    return f"{which}{health} {'blocks' if len(blockers) == 1 else 'block'} drains of {of} from now on"


def _blocking_at_end(answer: Answer) -> list[DrainBlocker]:
    """The PDBs that block drains because they have too few healthy Pods, or until more Pods are healthy."""
    blockers = () if answer.upgrade else answer.blocks.drains
    return [each for each in blockers if each.budget in answer.pdbs or not each.never]


def _unhealthy(answer: Answer, *, is_brief: bool) -> Iterator[str]:
    """Yield phrases about the PDBs with too few healthy Pods, and which of them block drains. `is_brief`: not which."""
    unhealthy = answer.pdbs.keys() - answer.summary.violated_pdbs.keys()
    blocking = [each for each in _blocking_at_end(answer) if each.budget in unhealthy and not is_brief]
    yield too_few_healthy_pods(sorted(unhealthy - {each.budget for each in blocking}), are_named=not is_brief)
    yield _blocked_drains(blocking, f" {_TOO_FEW}")


def _rejected(workloads: str, by: str, running: int) -> str:
    return f"new Pods of {workloads} rejected{by}{_not_recreated(running)}"


def _not_recreated(running: int) -> str:
    return f" ({plural(running, 'running Pod')} cannot be recreated)" if running else ""


def unfinished(answers: Sequence[Answer]) -> list[str]:
    """A phrase if a simulation ended while Pods changed."""
    ends = [each.summary.ended_at for each in answers if each.summary.is_cut_off and each.upgrade is None]
    return [f"no steady state after {duration(max(ends))}"] if ends else []


def row(answer: Answer) -> list[int]:
    """Return the numbers of preempted, more Pending and lost Pods, PDB violations, and preempted placeholder Pods,
    which are not in the first three.
    """
    reserving, others = _counts(answer, placeholders=True), _counts(answer, placeholders=False)
    return [*others, sum(answer.summary.violated_pdbs.values()), reserving[0]]


def _counts(answer: Answer, *, placeholders: bool) -> tuple[int, int, int]:
    """Return the numbers of preempted, more Pending and lost Pods: those that only reserve capacity, or the others."""
    preempted = sum((each.workload in answer.placeholders) is placeholders for each in answer.preempted)
    of = [each for each in answer.workloads if (each.workload in answer.placeholders) is placeholders]
    pending = sum(max(each.pending - each.pending_before, 0) for each in of)
    return preempted, pending, sum(each.missed for each in of)


def effects_of(answer: Answer, end: Answer | None = None, most: int = _EFFECTS) -> list[str]:
    """Phrases with the effects that need attention, the worst first. `end`: without what the answer with new nodes
    says. `most`: effects in the line, of which few are brief.
    """
    is_brief, is_shortest = most <= _BRIEF, most < _FEWEST
    own = own_workloads(answer)
    violated = answer.summary.violated_pdbs
    losers = [each.workload for each in own if each.missed]
    told = {*losers, *_blocked_by_quotas(answer)}
    rejected = Counter({name: pods for name, pods in answer.over_quota.items() if name not in told})
    whose = "" if {*rejected} == {*answer.summary.new_workloads} else of_workloads(rejected, is_brief=is_shortest)
    is_told = end is not None and (most < _FEWEST - 1 or _counts(end, placeholders=False)[2] > 0)
    effects = [
        rejected_pods(rejected, whose, rejected_by(answer)),
        _lost_and_failed(answer, own, most, is_told=is_told),
        *_unhealthy(answer, is_brief=is_shortest),
        down(answer.outages, () if answer.rivals else losers, most=most),
        f"{plural(len(violated), 'PDB')} violated" if is_brief and violated else _violated(violated),
        _preempted(answer, losers, is_brief=is_brief, are_named=most > _FEWEST),
        _starting(answer, [each for each in own if each.not_started], is_brief=is_brief),
        _blocked_drains([each for each in _blocking_at_end(answer) if each.budget not in {*answer.pdbs, *violated}]),
    ]
    return _with_placeholders(answer, [effect for effect in effects if effect], most)


def _or_others(answer: Answer, names: Sequence[str], known: Container[str]) -> str:
    """A phrase with the workloads that may lose Pods instead of those that are `known`, or more Pods of these."""
    own = [name for name in names if name not in answer.placeholders]
    return or_others(own, known, has_more=answer.has_more_rivals)


def or_others(names: Sequence[str], known: Container[str] = (), *, has_more: bool = False) -> str:
    """A phrase with what chance may choose instead of the `known`, or more of these; "" for none. `has_more`: perhaps
    more, so without their number.
    """
    others = [f"more of {name}" if name in known else name for name in names]
    return f" (or {f'{named(others[:1])} or others' if has_more else named(others)})" if names else ""


def _lost_and_failed(answer: Answer, own: Sequence[WorkloadCount], most: int, *, is_told: bool) -> str:
    """The lost replicas of these workloads, and the failed Jobs. `is_told`: the answer with new nodes names them."""
    is_shortest, losing = most < _FEWEST, [each for each in own if each.missed]
    causes = NO_CAUSES if is_told and most <= _BRIEF else answer.causes
    causes = causes._replace(pending=0, rejected=0, not_recreated=0) if is_shortest else causes
    why = _constraint(losing) if most > _BRIEF else ""
    subject, parts = _subject_of_lost(answer, losing, is_told=is_told, is_shortest=is_shortest)
    reasons = "; ".join(filter(None, (why, _lost_anyway(answer, losing))))
    lost = sum(each.missed for each in losing)
    replicas = lost_replicas(lost, subject, causes, rejected_by(answer), parts, reasons)
    failed = [each.workload for each in own if each.failure and not each.missed]
    which = "" if is_shortest else f" ({named(failed)})"
    return ", ".join(filter(None, (replicas, f"{plural(len(failed), 'Job')} failed{which}" if failed else "")))


def _subject_of_lost(
    answer: Answer, losing: Sequence[WorkloadCount], *, is_told: bool, is_shortest: bool
) -> tuple[str, str]:
    """The lost replicas as a subject, and how many each workload loses, if that names the workloads."""
    counts = {each.workload: each.missed for each in losing}
    if len(losing) > 1 and not (is_told or is_shortest or answer.rivals):
        return _lost_by_workload(losing)
    before = _wanted_of(losing[0]) if len(losing) == 1 and not answer.rivals else 0
    whose = "" if is_told else of_workloads(counts, is_brief=is_shortest)
    whose += _or_others(answer, answer.rivals, counts) if whose else ""
    return f"{_of_replicas(sum(counts.values()), before)}{whose}", ""


def _of_replicas(count: int, replicas: int) -> str:
    return f"{count} of {plural(replicas, 'replica')}" if replicas > 1 else plural(count, "replica")


def _lost_anyway(answer: Answer, losing: Sequence[WorkloadCount]) -> str:
    """How many of these replicas are also lost without the change; "" for none, and if the line says it of all."""
    lost = answer.without_change.lost if answer.without_change and not answer.is_as_without else {}
    also = sum(min(each.missed, lost.get(each.workload, 0)) for each in losing)
    return f"{also} {_WITHOUT}" if also else ""


def _constraint(losing: Sequence[WorkloadCount]) -> str:
    """Why Pods of the workload that loses the most replicas are Pending; "" if most nodes only lack resources."""
    worst_first = sorted(losing, key=lambda each: -each.missed)
    whys = [each.message.constraint if isinstance(each.message, FitError) else "" for each in worst_first]
    why = whys[0] if whys else ""
    return f"{named([worst_first[0].workload])}: {why}" if why and {*whys} != {why} else why


def rejected_by(answer: Answer) -> str:
    """What rejects Pods because of the event."""
    return quotas_of(answer, {row.group: row.message for row in answer.summary.missing if answer.over_quota[row.group]})


def quotas_of(answer: Answer, messages: Mapping[str, str]) -> str:
    """What rejects Pods. `messages`: upstream's, by workload."""
    return rejecting([(answer.summary.names.group(name).partition("/")[0], text) for name, text in messages.items()])


def down(outages: Sequence[Interruption], losers: Sequence[str], whose: str = "", *, most: int = _EFFECTS) -> str:
    """A phrase about the replicas that are down for a time; "" for none. `losers`: the workloads that the phrase before
    it names, which lose other replicas. `whose`: phrase with the workloads of `outages`. `most`: effects in the line,
    of which few are without details of times that do not count as fewer replicas, the fewest without their number.
    """
    if not outages:
        return ""
    whose = whose or named((each.workload for each in outages), is_counted=True)
    # all Pods of a workload first, the only one for less than a minute last
    first, *others = sorted(outages, key=lambda o: (o.longest < MINUTE and o.replicas == 1, o.down < o.replicas))
    details = "" if most <= _BRIEF and first.total < FAILS else _most(first, are_timed=most >= _FEWEST)
    lasts = f"{duration(first.seconds)}{details}"
    those = plural(first.replicas, "replica") if first.replicas > 1 else "replica"
    rest = f"{f'{first.down} of ' if first.down < first.replicas else ''}the other {those}"
    if not others and [*losers] == [first.workload]:
        return f"{rest} down for {lasts}"
    same = {(each.most, each.total, each.down == each.replicas > 1) for each in outages}
    if others and len(same) == 1 and not first.down == first.replicas > 1:
        count = plural(first.most, "replica") if first.most == first.down else f"up to {plural(first.most, 'replica')}"
        return f"{count} each of {whose} down for {duration(first.total)}"
    count = rest if first.workload in losers else _of_replicas(first.down, first.replicas)
    return ", ".join([f"{count} of {first.workload if others else whose} down for {lasts}", *_also_down(others)])


def _also_down(outages: Sequence[Interruption]) -> Iterator[str]:
    """Yield a phrase about the workloads that have no running Pods at a time, and one about those that have some."""
    whole = [each for each in outages if each.down == each.replicas]
    parts = [each for each in outages if each.down < each.replicas]
    if whole:
        up_to = "up to " if len({each.seconds for each in whole}) > 1 else ""
        yield f"all replicas of {_more(whole)} for {up_to}{duration(max(each.seconds for each in whole))}"
    if parts:
        yield f"{_more(parts)} short of replicas for up to {duration(max(each.total for each in parts))}"


def _more(outages: Sequence[Interruption]) -> str:
    return plural(len(outages), "more workload") if outages[1:] else outages[0].workload


def _most(each: Interruption, *, are_timed: bool = True) -> str:
    """What delays Pods, how many times, how many replicas are down at another time, and for how long any are."""
    parts = [
        f"rejected at first by {each.quota}" if each.quota else "",
        f"{each.times} times, longest {duration(each.longest)}" if are_timed and each.times > 1 else "",
        f"at worst {each.most}" if each.most > each.down else "",
        f"1 or more for {duration(each.total)}" if each.total > each.seconds else "",
    ]
    found = ", ".join(filter(None, parts))
    return f" ({found})" if found else ""


def _with_placeholders(answer: Answer, effects: list[str], most: int) -> list[str]:
    """The effects with one on placeholder Pods, if these are concerned; in a brief line, as a part of the last one."""
    preempted, pending, lost = _counts(answer, placeholders=True)
    reserving = on_placeholders(preempted, 0 if most < _FEWEST else pending, lost)
    if reserving and most <= _BRIEF and effects:
        return [*effects[:-1], f"{effects[-1]}, {reserving}"]
    return [*effects, f"{'' if effects else 'only '}{reserving}"] if reserving else effects


def _preempted(answer: Answer, losers: Sequence[str], *, is_brief: bool, are_named: bool) -> str:
    """The preempted Pods that are no placeholder Pods, and how many of them are also preempted without the change."""
    victims = [name for (_, _, name, _), _ in pairs(answer.preempted) if name not in answer.placeholders]
    unchanged = answer.without_change.summary.by_workload if answer.without_change else Counter[str]()
    also = (Counter(each.workload for each in answer.preempted) & unchanged).total()
    count = _counts(answer, placeholders=False)[0]
    replaced = sum(pods for name, pods in answer.replaced.items() if name not in answer.placeholders)
    names = victims if are_named else []
    text = preempted_pods(count, names, losers, _or_others(answer, answer.equal_victims, names), is_brief=is_brief)
    text += " and replaced" * (0 < replaced == count)
    return f"{text} ({also} {_WITHOUT})" if text and also and not answer.is_as_without else text


def _lost_by_workload(losing: Sequence[WorkloadCount]) -> tuple[str, str]:
    """The lost replicas of several workloads as a subject; and how many each loses, of few if this differs."""
    first, lost, whose = losing[0], sum(each.missed for each in losing), of_workloads(each.workload for each in losing)
    before = _wanted_of(first) if len({*map(_wanted_of, losing)}) == 1 else 0
    are_few = len(losing) <= NAMED
    names_all = are_few and not before and any(each.missed == _wanted_of(each) for each in losing)
    if len({each.missed for each in losing}) == 1 and not names_all:
        return f"the only replicas{whose}" if before == 1 else f"{_of_replicas(first.missed, before)} each{whose}", ""
    if not are_few:
        return f"{plural(lost, 'replica')}{whose}", ""
    return plural(lost, "replica"), ", ".join(f"{_of_all(each)} of {named([each.workload])}" for each in losing)


def _of_all(losing: WorkloadCount) -> str:
    """How many replicas a workload loses, whose name follows."""
    if losing.missed < _wanted_of(losing):
        return f"{losing.missed}"
    return f"all {losing.missed}" if losing.missed > 1 else "all"


def _wanted_of(losing: WorkloadCount) -> int:
    """The running replicas at the start without those that are scaled down."""
    return losing.before - losing.scaled_down


def lost_replicas(
    lost: int, subject: str, causes: Causes, quotas: str = QUOTAS, parts: str = "", constraint: str = ""
) -> str:
    """The lost replicas, and why they are lost; "" for none. `subject`: phrase with their number and workloads.
    `quotas`: what rejects Pods. `parts`: how many each workload loses. `constraint`: why Pods are Pending.
    """
    jobs = plural(causes.failed_jobs, "failed Job")

    def those(count: int, what: str) -> str:
        every = "all " if lost > 1 else ""
        return f"{every if count == lost else f'{count} '}{what}" if count else ""

    why = [
        those(causes.pending, "Pending"),
        jobs if causes.of_failed_jobs == lost else f"{causes.of_failed_jobs} of {jobs}" if causes.failed_jobs else "",
        those(causes.rejected, f"rejected by {quotas}"),
        those(causes.not_recreated, "not recreated"),
    ]
    reasons = "; ".join(filter(None, (parts, ", ".join(filter(None, why)), constraint)))
    return f"{subject} lost{f' ({reasons})' if reasons else ''}" if lost else ""


def preempted_pods(count: int, victims: Iterable[str], losers: Iterable[str], others: str, *, is_brief: bool) -> str:
    """The number of preempted Pods and their workloads, unless these are the `losers`; "" for none. `others`: phrase
    with those that may be preempted instead.
    """
    names = list(dict.fromkeys(victims))
    are_few = len(names) <= NAMED
    of = "" if {*names} == {*losers} or (is_brief and not are_few) else of_workloads(names, is_brief=not are_few)
    return f"{plural(count, 'Pod')}{of and f'{of}{others}'} preempted" if count else ""


def _violated(pdbs: Mapping[str, int]) -> str:
    """A phrase with the number of violations of each of these PDBs; "" for none."""
    return f"{plural(sum(pdbs.values()), 'violation')} of {_named_pdbs(sorted(pdbs))}" if pdbs else ""


def too_few_healthy_pods(pdbs: Sequence[str], *, are_named: bool = True) -> str:
    """A phrase about these PDBs; "" for none. `are_named`: with the name of the only one."""
    which = f"PDB {named(pdbs)}" if len(pdbs) == 1 and are_named else plural(len(pdbs), "PDB")
    return f"{which} {_TOO_FEW}" if pdbs else ""


def _starting(answer: Answer, pending: Sequence[WorkloadCount], *, is_brief: bool) -> str:
    """The other Pending Pods of these workloads, without those that `_created` and `_on_added_nodes` count; "" for
    none. `is_brief`: not how many of them are Pending without the change as well.
    """
    created = _new_pending(answer)
    left = Counter({each.workload: each.not_started for each in pending}) - WithAddedNodes.of(answer).staying
    more = left.total() - created
    known = {*answer.summary.new_workloads} if created else ()
    others = [each for each in pending if each.workload in left and each.workload not in known]
    without = answer.without_change.summary.pending if answer.without_change and not answer.is_as_without else {}
    also = sum(min(left[each.workload], max(without.get(each.workload, 0) - each.pending_before, 0)) for each in others)
    anyway = f" ({f'{also} ' if also < more else ''}{_WITHOUT})" if also and not is_brief else ""
    whose = of_workloads(each.workload for each in others)
    return f"{plural(more, 'more Pod')}{whose} Pending{anyway}" if more > 0 else ""


def named(names: Iterable[str], noun: str = "workload", *, is_counted: bool = False, most: int = NAMED) -> str:
    """The different names, of many the first and the number of the others; "" without any. `is_counted`: after another
    number, of many their number and the first. `most`: so many names are few.
    """
    shown = [cut(one_line(name), _LONGEST_NAME) for name in dict.fromkeys(names)]
    are_few = len(shown) <= min(2, most) or (len(shown) <= most and sum(map(len, shown[1:])) <= _LONGEST_NAMES)
    if is_counted and not are_few:
        return f"{plural(len(shown), noun)} such as {shown[0]}"
    return first_of(shown if are_few else [shown[0], plural(len(shown) - 1, f"more {noun}")], noun)


def of_workloads(names: Iterable[str], *, is_brief: bool = False) -> str:
    """A phrase with the workloads of a number of Pods, of many their number and the first; "" without any. `is_brief`:
    the same of several.
    """
    text = named(names, is_counted=True, most=1 if is_brief else NAMED)
    return f" of {text}" if text else ""


def joined(effects: Sequence[str], most: int, left_out: int = 2) -> str:
    """The first effects, and the number of the others. `left_out`: the least number of these."""
    more = len(effects) - most
    return ", ".join(effects if more < left_out else [*effects[:most], f"and {plural(more, 'more effect')}"])


def on_placeholders(preempted: int, pending: int, lost: int) -> str:
    """A phrase about placeholder Pods, which only reserve capacity; "" if none is concerned."""
    at_end = f" ({pending} Pending at the end)" if pending else ""
    if preempted:
        return f"{plural(preempted, 'placeholder Pod')} preempted{at_end}"
    return f"{plural(lost, 'placeholder Pod')} lost{at_end}" if lost else ""


def on_new_pods(changed: Sequence[Ranked], *, are_named: bool = True, class_: str = "") -> list[str]:
    """Phrases about the workloads whose new Pods change priority. `are_named`: with names. `class_`: that of
    all, instead of the names.
    """
    rejected = [ranked for ranked in changed if ranked.after is None]
    others = [ranked for ranked in changed if ranked.after is not None]
    effects = []

    def whose(workloads: Sequence[Ranked]) -> str:
        return named(each.workload for each in workloads) if are_named else plural(len(workloads), "workload")

    if rejected:
        count = sum(sum(ranked.running.values()) for ranked in rejected)
        classes = {ranked.before.priority_class_name for ranked in rejected if ranked.before} if are_named else {""}
        of_class = f" with PriorityClass {one_line(classes.pop())}" if len(classes) == 1 and classes != {""} else ""
        effects.append(_rejected(f"{whose(rejected)}{of_class}", "", count))
    if others:
        steps = {_step(ranked.before, ranked.after) for ranked in others}
        what = steps.pop() if len(steps) == 1 else f"get a {_direction(others)} priority"
        effects.append(f"new Pods {f'with PriorityClass {class_}' if class_ else f'of {whose(others)}'} {what}")
    return effects


def _direction(changed: Iterable[Ranked]) -> str:
    """How the priorities of new Pods change, which run both before and after the change."""
    signs = {each.after.priority > each.before.priority for each in changed if each.before and each.after}
    return "different" if len(signs) != 1 else "higher" if signs.pop() else "lower"


def _step(before: Resolved | None, after: Resolved | None) -> str:
    if before and after and before.priority == after.priority:
        verb = "can no longer" if after.preemption_policy == "Never" else "can then"
        return f"{verb} preempt Pods below priority {after.priority}"
    return f"get priority {_rank(after)} instead of {_rank(before)}"


def rejected_pods(over_quota: Counter[str], whose: str, quotas: str = QUOTAS) -> str:
    """A phrase with the Pods that ResourceQuotas reject; "" for none. `whose`: phrase with their workloads. `quotas`:
    what rejects Pods.
    """
    return f"{plural(over_quota.total(), 'Pod')}{whose} rejected by {quotas}" if over_quota else ""


class WithAddedNodes(NamedTuple):
    """By workload, the Pods that are Pending at the end without added nodes: how many run or stay Pending with these,
    or are not replaced. `later`: Pods that run too, and that no controller creates before the first of these run.
    """

    helped: Counter[str]
    staying: Counter[str]
    gone: Counter[str]
    later: Counter[str]

    @classmethod
    def of(cls, answer: Answer) -> WithAddedNodes:
        without = _waiting_without(answer) if answer.until_scheduled or answer.new_nodes else Counter[str]()
        staying = without & Counter({each.workload: each.pending for each in answer.workloads})
        gone = without & Counter({each.workload: each.unreplaced for each in answer.workloads})
        there = {each.workload for each in (answer.new_nodes.scheduled if answer.new_nodes else ())} & without.keys()
        # A StatefulSet creates its next Pod once the Pending one runs.
        next_ones = (each.workload for each in answer.workloads if each.kind == STATEFUL_SET and each.workload in there)
        helped = without - staying - gone | Counter(next_ones)
        anyway = answer.without_change.summary.new_workloads if answer.without_change else {}
        later = Counter(answer.summary.new_workloads) - Counter(anyway) - staying
        return cls(helped, staying, gone, Counter({name: later[name] for name in helped & later}))


def _waiting_without(answer: Answer) -> Counter[str]:
    """By workload, the Pods that are Pending at the end without the change."""
    waiting = answer.without_change.summary.waiting if answer.without_change else ()
    return Counter({each.group: each.pods for each in waiting})


def _named_pdbs(pdbs: Sequence[str]) -> str:
    return f"PDB{'s' * (len(pdbs) > 1)} {named(pdbs, 'PDB')}"


def _creates(answer: Answer) -> bool:
    """Report whether `_created` counts new Pods."""
    is_loss = all(arrival.op in ("lost", "cordon", "drain") for arrival in answer.simulation.world.arrivals)
    return not is_loss and answer.new_nodes is None and bool(answer.summary.new_pods)


def _new_pending(answer: Answer) -> int:
    """The number of Pending Pods that `_created` counts, also of those that a new Pod's preemption leaves Pending."""
    summary = answer.summary
    own = sum(each.not_started for each in answer.workloads if each.workload in summary.new_workloads)
    return min(max(summary.new_pods_pending, own), summary.new_pods) if _creates(answer) else 0


def _blocked_by_quotas(answer: Answer) -> Sequence[str]:
    """The workloads with blocked rollouts, if only ResourceQuotas block these, and no replica is lost."""
    others = {each.workload for each in answer.workloads if each.pending or each.missed}
    names = answer.blocks.rollouts if answer.has_blocked_rollouts else ()
    return names if {*names} <= {*answer.over_quota} - others else ()


# A class that changes


def _rank(resolved: Resolved | None) -> str:
    if resolved is None:
        return "rejected"
    return f"{resolved.priority}{' (never preempts)' if resolved.preemption_policy == 'Never' else ''}"


# Markdown
