"""The answer to `whatif` in the common answer format: status, consequence, counters, reasons and tables."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents.answer import (
    INCOMPLETE,
    MAX_ROWS,
    NO_CLASS,
    NO_EFFECT,
    AnswerDocument,
    AnswerStatus,
    Cause,
    Cell,
    Counter,
    Effects,
    Rows,
    Table,
    Why,
    counters_of,
    why_of,
)
from forewarn.policies.base.findings import duration, grouped, listed, plural, with_fix
from forewarn.policies.kubernetes.kinds.registry import CRON_JOB, JOB
from forewarn.policies.kubernetes.kube_apiserver.quota import ExceededQuota
from forewarn.policies.kubernetes.objects.fields import ref_of
from forewarn.policies.kubernetes.quantity import ZERO, cores, format_units, gibibytes
from forewarn.policies.kubernetes.scheduling.reasons import shorten
from forewarn.policies.prediction.forecast.impact import BY_TIMING, ESTIMATE
from forewarn.policies.prediction.simulation.summary import in_vain_sentences, unsettled
from forewarn.policies.questions.application import autoscaler_tables
from forewarn.policies.questions.application.places import why_rejected
from forewarn.policies.questions.whatif.answer import Answer, Ending, NotRecreated, Preemption, WorkloadCount, pairs
from forewarn.policies.questions.whatif.effects import (
    Kind,
    consequences,
    creates_pods,
    desired,
    effects_of,
    effects_without,
    helped_by_added_nodes,
    is_scaled,
    joined,
    left_by_new_nodes,
    new_pods_clause,
    new_pods_of,
    own_workloads,
    quota_of,
    reasons_of_loss,
    reasons_of_loss_of,
    reasons_of_pending,
    run_sentences,
    total_of_placeholders,
)
from forewarn.policies.questions.whatif.node_bands import zone_of
from forewarn.policies.questions.whatif.node_groups import pool_of
from forewarn.policies.questions.whatif.repetition import count_runs, group_by_frequency

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.resources import Resource
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.questions.whatif.class_change import ClassChange, Ranked
    from forewarn.policies.questions.whatif.effects import NewPods, Reason, Share
    from forewarn.policies.questions.whatif.interruptions import Interruption
    from forewarn.policies.questions.whatif.questions import Queueing, Removal


_SIZES: Final = ("CPU", "MEMORY", "EXTENDED RESOURCES")
_MAX_NAMES: Final = 20
"""Maximum number of names of nodes in a row of a table."""
_MAX_KEPT: Final = 4
"""If more nodes than this cannot be removed, the first table has a row for each cause instead of each node."""


class Simulated(NamedTuple):
    """A simulated change. `faults`: the errors of objects that are not simulated. `notes`: without those. `outcomes`:
    of several runs. `queueing`: None without Jobs that Kueue manages.
    """

    answer: Answer
    class_change: ClassChange | None
    faults: Sequence[Exception]
    notes: Sequence[str]
    outcomes: Sequence[Ending] = ()
    queueing: Queueing | None = None


def document_of(result: Simulated) -> AnswerDocument:
    """Return the answer to a simulated change in the common answer format."""
    answer = result.answer.upgrade_answer
    effects = effects_of(answer, len(result.faults) + sum(each.rejected for each in _ranked(result)))
    has_grown = result.answer.with_new_nodes is not None and result.answer.after.upgrade is None
    grown = effects_of(result.answer.end) if has_grown else None
    harm = [*consequences(effects._replace(rejected=answer.count_over_quota.total()))]
    first = [*_wanted(answer), *_new_pod_sentences(result)]
    status, clause = _status(result, effects), _clause(result, first, harm, grown)
    if (queueing := result.queueing) is not None:
        status = min(status, queueing.status, key=lambda each: each.rank)
        clause = queueing.clause if clause == NO_EFFECT else f"{queueing.clause}; {clause}"
    why = _why(result, answer, effects)
    if why is not None and grown is not None and grown.new_nodes:
        why = why._replace(heading=f"{why.heading} BEFORE NEW NODES")
    return AnswerDocument(
        status=status,
        question=result.answer.title,
        clause=clause,
        counters=effects,
        shown=[*_counters(result, answer, effects, grown), *_own_counters(answer)],
        counters_with_new_nodes=grown,
        warnings=[*_warnings(result)],
        why=why,
        tables=[*_tables(result, answer)],
        priority=max((each.priority for each in own_workloads(answer) if each.lost), default=None),
        more=[*_more(result)],
    )


def _status(result: Simulated, effects: Effects) -> AnswerStatus:
    answer = result.answer.upgrade_answer
    rejects_new_pods = bool(_rejecting(result))
    if result.faults:
        return AnswerStatus.REJECTED
    if result.answer.incomplete or answer.after.is_cut_short:
        return AnswerStatus.NO_ANSWER
    if effects.blocked:
        return AnswerStatus.BLOCKED
    if effects.harm or rejects_new_pods:
        is_same = answer.is_as_without or effects == result.answer.restart_alone
        in_part = not effects._replace(down=0, down_seconds=0).harm and not any(map(_is_complete, answer.outages))
        if (is_same or in_part) and not rejects_new_pods:
            return AnswerStatus.WARN
        return AnswerStatus.HARM if rejects_new_pods else _harm_status(answer, effects)
    signs = (
        *(answer.after.not_simulated, answer.after.summary.is_unfinished, any(answer.after.blocks)),
        *(effects.placeholders, effects.pdbs_short, _removed_placeholders(answer)),
        answer.removal is not None and answer.removal.weaker,
        result.class_change is not None and result.class_change.gained,
    )
    return AnswerStatus.WARN if any(signs) else AnswerStatus.OK


def _harm_status(answer: Answer, effects: Effects) -> AnswerStatus:
    """Return the status of a harmful change; if it only affects new Pods, the status is the same as for `predict`."""
    new = new_pods_of(answer)
    if new is None or effects._replace(pending=0, rejected=0).harm:
        return AnswerStatus.HARM
    if effects.rejected:
        return AnswerStatus.HARM if new.run else AnswerStatus.REJECTED
    return AnswerStatus.PENDING


def _clause(result: Simulated, first: Sequence[str], harm: Sequence[str], grown: Effects | None) -> str:
    """The consequence in one clause with at most two numbers; with new nodes, also their effect."""
    answer, arrived = result.answer.upgrade_answer, result.answer.with_new_nodes
    if result.faults:
        first = [f"{plural(len(result.faults), 'object')} rejected", *first]
    elif result.answer.incomplete:
        return INCOMPLETE
    if grown is not None and grown.new_nodes and arrived is not None:
        after = f" after {duration(arrived.first_node_at)}" if arrived.first_node_at is not None else ""
        now = f"{(harm or first)[0]} at once; " if harm or first else ""
        return now + left_by_new_nodes(grown, after)
    if answer.after.upgrade is not None and not answer.after.upgrade.complete and first:
        return first[0]
    if harm and answer.is_as_without:
        return f"nothing beyond what happens without it: {harm[0]}"
    return joined([*first, *harm][:2]) or NO_EFFECT


def _wanted(answer: Answer) -> Iterator[str]:
    """Yield the intended results of the change: nodes that can be removed, are drained, upgraded or added, and new
    Pods.
    """
    after, removal, new = answer.after, answer.removal, new_pods_of(answer)
    if removal is not None:
        stops = f"; {removal.kept[0].node} stops the next" if removal.missing and removal.kept else ""
        saved = f", {removal.saved} per month less" if removal.saved else ""
        number = f"{'at least ' if removal.notes else ''}{len(removal.nodes):,}" if removal.missing else "all"
        yield f"{number} can go{saved}{'' if removal.notes else stops}"
    if after.upgrade is not None and after.upgrade.complete:
        yield f"all nodes upgraded in {duration(after.upgrade.seconds)}"
    elif after.upgrade is not None or after.not_drained:
        yield from _progress(answer)
    if after.new_nodes is not None:
        helped = helped_by_added_nodes(answer)
        it = "it" if len(after.new_nodes.nodes) == 1 else "them"
        because = f"{plural(helped, 'Pod runs', 'Pods run')} only because of {it}"
        yield because if helped else f"no Pending Pod needs {it}"
    if after.blocks.rollouts:
        yield plural(len(after.blocks.rollouts), "rollout does not finish", "rollouts do not finish")
    if new is not None:
        yield _fate_of(new)


def _fate_of(new: NewPods) -> str:
    """Return how many new Pods run."""
    if not new.run and new.ended == new.total:
        return f"{plural(new.total, 'new Pod is', 'new Pods are')} removed again"
    again = f" ({new.ended:,} removed again)" if new.ended else ""
    return f"{new.run:,} of {plural(new.total, 'new Pod')} run{'s' * (new.total == 1)}{again}"


def _progress(answer: Answer) -> Iterator[str]:
    """Yield how many nodes are drained or upgraded, or where an upgrade stops."""
    after, upgrade = answer.after, answer.after.upgrade
    done, total = (counter := _drained(answer)).value or 0, counter.of or 0
    nodes = f"{done:,} of {plural(total, 'node')} {counter.name}"
    if after.is_cut_short:
        yield f"not finished: {nodes} after {duration(after.summary.ended_at)}"
    elif upgrade is None:
        yield nodes
    else:
        blocked, pdbs = _nodes_blocked_by_pdbs(answer), plural(len(after.blocks.drains), "PDB blocks", "PDBs block")
        node = next(step.node for step in upgrade.steps if step.back_at is None)
        yield f"stops at {node} (node {done + 1})" + (f"; {pdbs} {plural(len(blocked), 'node')}" if blocked else "")


def _drained(answer: Answer) -> Counter:
    """Return how many of the nodes are upgraded, or drained."""
    if (upgrade := answer.after.upgrade) is not None:
        return Counter("upgraded", len(upgrade.done), len(upgrade.steps))
    drained = len(answer.after.drained)
    return Counter("drained", drained - len(answer.after.not_drained), drained)


def _new_pod_sentences(result: Simulated) -> Iterator[str]:
    """Yield how many unchanged workloads have new Pods that are rejected, or change priority."""
    changed = result.class_change.changed if result.class_change else result.answer.new_pods
    if rejected := _rejecting(result):
        yield f"new Pods of {plural(rejected, 'workload')} rejected"
    if result.class_change and (gained := result.class_change.gained):
        name, pods = gained
        yield f"{name or 'Pods without a class'} may preempt {plural(pods, 'more running Pod')}"
    elif others := len(changed) - rejected:
        yield f"new Pods of {plural(others, 'workload')} change priority"


def _ranked(result: Simulated) -> Sequence[Ranked]:
    """The workloads whose new Pods change priority."""
    change, answer = result.class_change, result.answer
    return change.changed if change else [*answer.new_pods, *answer.reprioritized]


def _rejecting(result: Simulated) -> int:
    """The number of workloads whose new Pods kube-apiserver rejects because of a PriorityClass."""
    return sum(each.after is None for each in _ranked(result))


def _counters(result: Simulated, answer: Answer, effects: Effects, grown: Effects | None) -> list[Counter]:
    later, arrived = grown or effects, answer.with_new_nodes
    not_counted = answer.placeholder_pods + answer.after.daemon_pods_of_lost_nodes
    totals, placeholders = _placeholders(answer, effects.placeholders)
    totals |= {"lost": answer.after.running_before - not_counted} if effects.lost else {}
    by_pdbs = _nodes_blocked_by_pdbs(answer) if answer.after.upgrade else ()
    in_vain = f" ({number:,} in vain)" if (number := _in_vain(answer)) else ""
    victims = Tally(each.priority_class for each in answer.after.preempted if each.workload not in answer.placeholders)
    by_class = f" ({listed(_by_class(victims), 3)})" if victims and result.class_change is not None else ""
    groups = [f"{nodes:,} {group}" for group, nodes in Tally(arrived.nodes).most_common()] if arrived else ()
    return counters_of(
        effects,
        answer.typical_of.counters if answer.typical_of is not None and grown is None else {},
        later,
        without=["victims"],
        totals=totals,
        preempted=new_pods_clause(effects) + by_class + in_vain,
        rejected=" (when they are recreated)" if _rejecting(result) else "",
        down=_down_of(answer.end if grown else answer, later),
        blocked=f" ({len(by_pdbs):,} by PDBs)" if by_pdbs else "",
        placeholders=placeholders,
        new_nodes=f" ({listed(groups, 2)})" if later.new_nodes else "",
    )


def _in_vain(answer: Answer) -> int:
    """Return how many Pods are preempted although no Pod of higher priority then runs in their place."""
    summary = answer.after.summary
    return sum(summary.names.name_of(each.origin.workload) not in answer.placeholders for each in summary.in_vain)


def _down_of(answer: Answer, effects: Effects) -> str:
    """Return the text after the number of workloads that are down, such as ` workloads completely, up to 5 s`."""
    complete, down = sum(map(_is_complete, answer.outages)), f" workload{'s' * (effects.down != 1)}"
    if not effects.down:
        return down
    how = {0: " in part", effects.down: " completely"}.get(complete, f" ({complete:,} completely)")
    return f"{down}{how}, up to {duration(effects.down_seconds)}"


def _is_loss(answer: Answer) -> bool:
    return {arrival.op for arrival in answer.after.simulation.world.arrivals} == {"lost"}


def _placeholders(answer: Answer, preempted: int) -> tuple[dict[str, int | None], str]:
    """Return the total of placeholder Pods, and the text after the number of preempted ones: how many stay Pending."""
    pending = sum(each.more_pending for each in answer.after.workloads if each.workload in answer.placeholders)
    totals, again = total_of_placeholders(answer.placeholder_pods, preempted)
    return totals, again or (f" ({pending:,} stay Pending)" if pending and preempted else "")


def _own_counters(answer: Answer) -> Iterator[Counter]:
    if answer.after.upgrade is not None or answer.after.drained:
        yield _drained(answer)
    yield Counter("Pods evicted", answer.after.simulation.api.evictions, optional=True)
    if _is_loss(answer) and answer.with_new_nodes is None:
        times = [event.t for event in answer.after.simulation.timeline.events if event.event == "scheduled"]
        more = f" within {duration(max(times, default=0))}"
        yield Counter("replacements scheduled", len(times), more=more, optional=True)
    yield Counter("PDBs blocking", len(_blocking(answer)), optional=True)
    if scaled := _scaled(answer):
        objects = {ref_of(arrival.object, "") for arrival in answer.after.simulation.world.arrivals}
        yield Counter("fully scaled", sum(each.after >= wanted for each, wanted in scaled), len(objects))
    if answer.after.new_nodes is not None:
        yield Counter("run only with new nodes", helped_by_added_nodes(answer))
    else:
        yield Counter("Pending Pods that now run", sum(each.started for each in own_workloads(answer)), optional=True)


def _nodes_blocked_by_pdbs(answer: Answer) -> set[str]:
    return {node for each in answer.after.blocks.drains for node in each.nodes}


def _blocking(answer: Answer) -> set[str]:
    if answer.after.upgrade is not None:
        return {each.budget for each in answer.after.blocks.drains}
    return {each.budget for each in answer.after.drains_blocked_by}.union(*answer.after.eviction_blocked_by.values())


def _warnings(result: Simulated) -> Iterator[str]:
    answer = result.answer.upgrade_answer
    yield from _state_before_sentences(result, answer)
    yield from result.notes
    arrived = result.answer.with_new_nodes
    yield from autoscaler_tables.warnings_of(answer.autoscalers, arrived, answer.placeholders)
    yield from _without_replicas(answer)
    yield from _time_after_sentences(answer)
    yield from _doubts(answer)
    if arrived is not None and arrived.nodes_not_simulated:
        more = plural(arrived.nodes_not_simulated, "more new node does", "more new nodes do")
        yield f"limit of the simulation: {more} not arrive"
    yield from (f"not simulated: {each}" for each in answer.after.not_simulated)
    yield from answer.after.not_modelled
    if answer.removal is not None and answer.removal.weaker:
        yield f"after the removal, losses cost more: {answer.removal.weaker}"
    yield from _extended_resource_sentences(answer)
    yield from _restarted_job_sentences(answer)


def _state_before_sentences(result: Simulated, answer: Answer) -> Iterator[str]:
    """Yield problems that also exist without the change; exceeded quotas only of namespaces whose Pods are rejected."""
    without, names = answer.without_change, answer.after.summary.names
    if creates_pods(answer) and (by_quota := _rejected_by(answer)):
        yield listed([f"{quota} rejects {plural(pods, 'Pod')}" for quota, pods in by_quota.most_common()], 2)
    rejecting = {names.group(row.group).partition("/")[0] for row in answer.after.summary.missing}
    exceeded = {name: quota for name, quota in answer.exceeded_quotas.items() if name.partition("/")[0] in rejecting}
    for name, quota in exceeded.items():
        yield f"before the change: quota {name} is exceeded ({quota})"
    if waiting := sum(each.pending_before for each in own_workloads(answer)):
        yield f"before the change: {plural(waiting, 'Pod is', 'Pods are')} Pending"
    if without is not None and (harm := [*consequences(effects_without(answer, without))]):
        yield f"without the change: {joined(harm[:2])}"
    if result.answer.restart_alone is not None:
        harm = [*consequences(result.answer.restart_alone)][:2]
        yield f"the same restart without the change: {joined(harm) or NO_EFFECT}"


def _is_complete(outage: Interruption) -> bool:
    """Report whether the workload has no running replica for some time."""
    return outage.most >= outage.replicas


def _without_replicas(answer: Answer) -> Iterator[str]:
    """Yield which workloads have no replica for some time, or at the end, if they are too many for one row each."""
    *_, workloads = workload_tables(answer)
    if not workloads.detail:
        return
    down = [(-each.priority, -each.longest, each.workload) for each in answer.outages if _is_complete(each)]
    lasting = (each for each in own_workloads(answer) if each.lost and not each.after and not each.failure)
    gone = [(-each.priority, -each.lost, each.workload) for each in lasting]  # WHY names the failed Jobs
    for when, names in (("for a time", down), ("at the end", gone)):
        if names:
            yield f"no replica runs {when}: {listed([name for *_, name in sorted(names)], 3)}"


def _time_after_sentences(answer: Answer) -> Iterator[str]:
    """Yield sentences about operations that the change delays, blocks or forces."""
    summary = answer.after.summary
    if summary.quotas and summary.all_run_at is not None:
        quotas = listed(summary.quotas)
        yield f"new Pods are rejected at first by {quotas}: all run after {duration(summary.all_run_at)}"
    if removed := _removed_placeholders(answer):
        which = "all" if removed == answer.placeholder_pods else f"{removed:,} of"
        placeholders = plural(answer.placeholder_pods, "placeholder Pod is", "placeholder Pods are")
        yield f"{which} {placeholders} removed: their reserve is gone at the next loss, drain or scale-up"
    yield from _recreation_sentences(answer.after.blocks.recreation)
    if answer.after.upgrade is not None and (forced := answer.after.upgrade.forced):
        blocked = sum(pod.blocked for pod in forced)
        which = " in spite of PDBs" if blocked == len(forced) else f", {blocked} of them in spite of PDBs"
        yield f"{plural(len(forced), 'Pod is', 'Pods are')} deleted after --drain-timeout{which if blocked else ''}"
    if answer.after.upgrade is None and (drains := answer.after.blocks.drains):
        nodes = _nodes_blocked_by_pdbs(answer)
        blocks = plural(len(drains), "more PDB blocks", "more PDBs block")
        yield f"from now on, {blocks} drains of {plural(len(nodes), 'node')}"


def _recreation_sentences(recreation: Mapping[str, NotRecreated]) -> Iterator[str]:
    """Yield how many running Pods ResourceQuotas or LimitRanges reject, and by how much the usage must fall first."""
    if not recreation:
        return
    pods, by = sum(each.pods for each in recreation.values()), {each.by for each in recreation.values()}
    over = {
        (name.partition("/")[0], each.message.quota, resource): f"usage of {resource} falls by {format_units(amount)}"
        for name, each in recreation.items()
        if each.pods and isinstance(each.message, ExceededQuota)
        for resource, amount in each.message.excess.items()
    }
    quotas = {key[:2] for key in over}
    falls = " and ".join(over.values()) if len(quotas) == 1 else f"usage of {len(quotas)} quotas falls"
    is_temporary = all(isinstance(each.message, ExceededQuota) for each in recreation.values())
    until = f" until {falls}" if over and is_temporary else ""
    running = f"{plural(pods, 'running Pod')} cannot be recreated{until}"
    yield f"a {' or '.join(sorted(by))} rejects new Pods of {plural(len(recreation), 'workload')}: {running}"


def _removed_placeholders(answer: Answer) -> int:
    """Return how many placeholder Pods the change itself removes."""
    return sum(each.scaled_down for each in answer.after.workloads if each.workload in answer.placeholders)


def _doubts(answer: Answer) -> Iterator[str]:
    """Yield reasons for doubts about the counters."""
    summary = answer.after.summary
    if summary.is_unfinished and not summary.stopped and (names := _cron_jobs(answer)):
        jobs = f"CronJob{'s' * (len(names) > 1)} {listed(names, 2)} create{'s' * (len(names) == 1)} Jobs"
        after = f"the numbers are those after {duration(summary.horizon)}"
        yield f"{jobs} at each scheduled time, so the simulation has no steady state: {after}"
    elif summary.is_unfinished:
        what, fix = unsettled(summary.stopped, summary.horizon)
        yield f"simulation {what}: the numbers are those of this moment. Fix: {fix}"
    yield from run_sentences(answer)
    yield from _chance_sentences(answer)
    if answer.after.has_more_rivals and summary.evictions:
        yield ESTIMATE
    if answer.after.by_timing:
        yield BY_TIMING.format("Pods")
    yield from in_vain_sentences(_in_vain(answer))


def _cron_jobs(answer: Answer) -> list[str]:
    events = answer.after.simulation.timeline.events
    created = (event.origin.workload for event in events if event.event == "created" and event.origin)
    return sorted({name for kind, name in created if kind == CRON_JOB})


def _chance_sentences(answer: Answer) -> Iterator[str]:
    """Yield which workloads may lose replicas, or have preempted Pods, in place of other workloads."""
    after = answer.after
    every = (after.rivals, after.equal_victims, after.may_stay_pending)
    rivals, equal, pending = ([name for name in names if name not in answer.placeholders] for names in every)
    instead = []
    if rivals:
        names = f"{', '.join(rivals[:2])} or others" if after.has_more_rivals else listed(rivals, 2)
        instead.append(f"{names} may lose replicas instead")
    if others := [name for name in equal if name not in rivals]:
        instead.append(f"{'' if rivals else 'Pods of '}{listed(others, 2)} may be preempted instead")
    if pending:
        instead.append(f"Pods of {listed(pending, 2)} may stay Pending instead")
    if instead:
        yield f"chance decides between equal Pods: {'; '.join(instead)}"


# Reasons


def _why(result: Simulated, answer: Answer, effects: Effects) -> Why | None:
    """The reasons for the most important counter: rejected objects, blocked nodes, lost replicas or Pending Pods."""
    if result.faults:
        return why_rejected(result.faults)
    if effects.blocked and (answer.after.upgrade or answer.after.not_drained):
        return _why_blocked(answer) if answer.after.not_drained else None
    if effects.lost and (effects.lost >= effects.pending or not creates_pods(answer)):
        causes = [cause_of(*each) for each in reasons_of_loss(answer).items()]
        return why_of("lost", effects.lost, "REPLICA IS LOST", "REPLICAS ARE LOST", causes)
    if effects.pending:
        causes = [cause_of(*each) for each in reasons_of_pending(answer).items()]
        return why_of("pending", effects.pending, "POD STAYS PENDING", "PODS STAY PENDING", causes)
    if number := answer.count_over_quota.total():
        return _why_over_quota(answer, number)
    if effects.preempted:
        return _why_preempted(answer, effects.preempted)
    return None


def _why_blocked(answer: Answer) -> Why:
    """The nodes that are not drained, each with the PDB that blocks its drain."""
    nodes = Tally[str]()
    for pods in answer.after.not_drained.values():
        pdbs = sorted({pdb for pod in pods for pdb in answer.after.eviction_blocked_by.get(pod, ())})
        what = f"{'PDBs' if pdbs[1:] else 'PDB'} {listed(pdbs, 6)} allow{'' if pdbs[1:] else 's'} no disruptions"
        nodes[what if pdbs else "the drain has not finished"] += 1
    causes = [Cause(count, "pdb", reason) for reason, count in nodes.items()]
    return why_of("blocked", len(answer.after.not_drained), "NODE IS NOT DRAINED", "NODES ARE NOT DRAINED", causes)


def _why_preempted(answer: Answer, number: int) -> Why:
    """The preempted Pods by preemptor, if other Pods replace them all."""
    by = Tally(each.by_workload for each in answer.after.preempted if each.workload not in answer.placeholders)
    again = "" if answer.after.not_simulated else "; all run again"
    causes = [Cause(count, "preemption", f"by {name}{again}") for name, count in by.items()]
    return why_of("preempted", number, "POD IS PREEMPTED", "PODS ARE PREEMPTED", causes)


def _why_over_quota(answer: Answer, number: int) -> Why:
    causes = [Cause(pods, Kind.QUOTA, f"by {quota}") for quota, pods in _rejected_by(answer).items()]
    return why_of("rejected", number, "POD IS REJECTED", "PODS ARE REJECTED", causes)


def _rejected_by(answer: Answer) -> Tally[str]:
    by_quota = Tally[str]()
    for workload, pods in answer.count_over_quota.items():
        by_quota[quota_of(workload, answer) or "ResourceQuotas"] += pods
    return by_quota


def cause_of(reason: Reason, share: Share) -> Cause:
    """Return a row of reasons."""
    return Cause(share.pods.total(), reason.kind, _text_of(reason, share))


_REASONS: Final = {
    Kind.BACKOFF_LIMIT: "more of their Pods are deleted than backoffLimit allows",
    Kind.QUOTA: "{} rejects new Pods",
    Kind.NO_CONTROLLER: "no controller recreates them",
}
"""Kind of reason -> its text, which the object in question completes; other reasons contain their text."""


def _text_of(reason: Reason, share: Share) -> str:
    """The reason with the affected workloads; for failed Jobs, their number; for capacity, the classes."""
    if reason.kind is Kind.CAPACITY:
        return f"no capacity: {listed(_by_class(share.pods), 3)}"
    what = _without_workloads(reason)
    if reason.kind in (Kind.BACKOFF_LIMIT, Kind.JOB_FAILED):
        return f"{plural(share.jobs, 'Job fails', 'Jobs fail')}: {what}"
    return with_fix(f"{what}: {listed([*share.workloads], 1)}", reason.fix)


def _by_class(pods: Tally[str]) -> list[str]:
    """Return how many Pods of which PriorityClass, such as `3 of class batch` and `1 without a class`."""
    return [f"{number:,} {f'of class {name}' if name else 'without a class'}" for name, number in pods.most_common()]


def _without_workloads(reason: Reason) -> str:
    if template := _REASONS.get(reason.kind):
        return template.format(reason.what)
    return reason.what or f"not {'recreated' if reason.kind is Kind.NOT_RECREATED else 'scheduled'} yet"


# Tables


def _tables(result: Simulated, answer: Answer) -> Iterator[Table]:
    if len(result.outcomes) > 1:
        yield _run_table(result.outcomes)
    if answer.removal is not None:
        yield from _removal_tables(answer.removal, answer)
    if answer.after.upgrade is not None:
        yield from _upgrade_tables(answer)
    if (change := result.class_change) is not None:
        yield from _class_change_tables(change)
    elif ranked := _ranked(result):
        yield from _priorities(ranked)
    if answer.after.not_drained and answer.after.upgrade is None:
        yield _not_drained(answer)
    yield from workload_tables(answer)
    yield from _scaled_tables(answer)
    is_limited = creates_pods(answer) and any(answer.count_over_quota.values())
    is_moved = result.class_change is not None or bool(_ranked(result))
    yield from quota_tables(answer.after.simulation, detail=0 if is_limited or is_moved else 1)
    yield from _details(answer)
    yield _pairs(answer.after.preempted)
    heads = ("AFTER", "PREEMPTOR POD", "VICTIM POD", "NODE", "CASCADE DEPTH")
    pods = [(duration(each.t), each.by, each.victim, each.node, each.cascade_depth) for each in answer.after.preempted]
    yield Table(heads, pods, detail=2)


def _removal_tables(removal: Removal, answer: Answer) -> Iterator[Table]:
    """Yield the nodes that can be removed, with their Pods and price, and the nodes that cannot, with the reason."""
    nodes = {node.name: node for node in answer.after.simulation.world.nodes}
    chosen = sorted((nodes[name] for name in removal.nodes), key=pool_of)
    rows: Rows = []
    if is_long := len(chosen) > MAX_ROWS:
        for pool, own in grouped((pool_of(node), node) for node in chosen).items():
            rows.append([pool, len(own), *_size_of(own), listed([each.name for each in own], _MAX_NAMES)])
        total: list[Cell] = ["total", len(chosen), *_size_of(chosen), ""]
        yield Table(("POOL", "NODES THAT CAN GO", *_SIZES, "NAMES"), rows, total)
    if chosen:
        rows = [[node.name, pool_of(node), zone_of(node), *_size_of([node])] for node in chosen]
        yield Table(("NODE THAT CAN GO", "POOL", "ZONE", *_SIZES), rows, detail=int(is_long))
    detail = int(not removal.missing)
    staying = [*removal.kept, *removal.untried]
    if len(staying) > _MAX_KEPT:
        causes = grouped((each.cause or each.why, each) for each in staying)
        most_first = sorted(causes.values(), key=len, reverse=True)
        rows = [[len(alike), alike[0].node, alike[0].why] for alike in most_first]
        yield Table(("NODES THAT STAY", "SUCH AS", "ITS REMOVAL COSTS"), rows, [len(staying), "total", ""], detail)
        detail = 1
    if staying:
        rows = [[each.node, each.why] for each in staying]
        yield Table(("NODE THAT STAYS", "BECAUSE ITS REMOVAL COSTS"), rows, detail=detail)


def _size_of(nodes: Sequence[Node]) -> list[str]:
    sizes = [node.allocatable for node in nodes]
    devices = _extended_resources(sizes)
    shown = ", ".join(f"{name} {amount:,}" for name, amount in sorted(devices.items()))
    return [cores(sum(each.milli_cpu for each in sizes)), gibibytes(sum(each.memory for each in sizes)), shown]


def _extended_resources(amounts: Iterable[Resource]) -> Tally[str]:
    """Return the sums of extended resources, such as devices."""
    found = Tally[str]()
    for each in amounts:
        found.update({name: amount for name, amount in each.scalars.items() if "/" in name})
    return found


def _extended_resource_sentences(answer: Answer) -> Iterator[str]:
    """Yield how much of the extended resources of removed nodes Pods on the other nodes request."""
    removed = {*(answer.removal.nodes if answer.removal is not None else ())}
    nodes, states = answer.after.simulation.world.nodes, answer.after.simulation.api.pods.values()
    others = {node.name: node.allocatable for node in nodes if node.name not in removed}
    left = _extended_resources(others.values())
    gone = _extended_resources(node.allocatable for node in nodes if node.name in removed)
    pods = (state.pod for state in states if state.pod.node_name in others and not state.pod.terminal)
    used = _extended_resources(pod.occupies.resource for pod in pods)
    for name in sorted(gone):
        yield f"afterwards, Pods request {used[name]:,} of {left[name]:,} {name}"


def _restarted_job_sentences(answer: Answer) -> Iterator[str]:
    """Yield which Jobs lose the work of running Pods if nodes are removed."""
    if answer.removal is None:
        return
    ended = {state.pod.key for state in answer.after.simulation.world.pods if state.pod.terminal}
    jobs = Tally(
        event.origin.workload
        for event in answer.after.simulation.timeline.events
        if event.event == "deleted" and event.message.startswith("drain of ") and event.pod not in ended
        if event.origin is not None and event.origin.workload[0] in (JOB, CRON_JOB)
    )
    if jobs:
        names = [f"{answer.after.summary.names.name_of(job)} {pods}" for job, pods in jobs.most_common()]
        pods = plural(jobs.total(), "Pod of a Job starts again", "Pods of Jobs start again")
        yield f"{pods}, and what was done so far is lost: {listed(names, 3)}"


def _run_table(outcomes: Sequence[Ending]) -> Table:
    """The different outcomes of several runs, the most frequent first."""
    cells: Rows = []
    for group in group_by_frequency(outcomes):
        summary = group[0].summary
        preempted = [f"{name} ({count})" for name, count in summary.by_workload.most_common()]
        pending = [f"{row.group} ({row.pods})" for row in summary.waiting]
        rejected = [f"{row.group} ({row.pods})" for row in summary.missing]
        effects = [listed(names, 2) for names in (preempted, pending, rejected, sorted(summary.violated_pdbs))]
        cells.append([count_runs(group), *effects])
    return Table(("RUNS", "PREEMPTED", "PENDING", "REJECTED", "PDBS VIOLATED"), cells)


def _scaled(answer: Answer) -> list[tuple[WorkloadCount, int]]:
    """Return the workloads that the change scales up, with their replicas, the highest priority first; [] for only
    one.
    """
    summary = answer.after.summary
    found: list[tuple[WorkloadCount, int]] = []
    for each in own_workloads(answer) if is_scaled(answer) else ():
        is_new = each.workload in summary.new_workloads or answer.count_over_quota[each.workload]
        if is_new and (wanted := desired(each, answer)) > each.before:
            found.append((each, wanted))
    found.sort(key=lambda item: (-item[0].priority, item[0].after - item[1], item[0].workload))
    return found if len(found) > 1 else []


def _scaled_tables(answer: Answer) -> Iterator[Table]:
    """Yield the workloads that do not reach their new number of replicas; those that shrink instead come first. With
    -v, also the workloads that reach it.
    """
    heads = ("WORKLOAD", "CLASS", "VALUE", "BEFORE", "AFTER", "WANTED")
    tables: dict[str, Rows] = {"SHRINKS INSTEAD: ITS PODS ARE PREEMPTED": [], "SCALED ONLY IN PART": [], "SCALED": []}
    shrinks, in_part, reached = tables.values()
    for each, wanted in _scaled(answer):
        rows = shrinks if each.after < each.before else in_part if each.after < wanted else reached
        name = each.priority_class or NO_CLASS
        rows.append([each.workload, name, each.priority, each.before, each.after, wanted])
    for title, rows in tables.items():
        yield Table(heads, rows, title=title, zeros=True, detail=int(rows is reached))


def _not_drained(answer: Answer) -> Table:
    """The nodes that are not drained, with the Pods that are left and the PDBs that block their eviction."""
    cells: Rows = []
    for node, pods in sorted(answer.after.not_drained.items(), key=lambda item: (-len(item[1]), item[0])):
        pdbs = sorted({pdb for pod in pods for pdb in answer.after.eviction_blocked_by.get(pod, ())})
        cells.append([node, len(pods), listed(list(pods), 1), listed(pdbs, 2)])
    return Table(
        ("NODE", "PODS LEFT", "SUCH AS", "BLOCKED BY PDB"), cells, detail=int(len(cells) == 1 and bool(cells[0][-1]))
    )


def _details(answer: Answer) -> Iterator[Table]:
    """Yield the effects of lost Pods; with -v also outages, PDBs, rejected Pods and new nodes."""
    yield Table(("LOST POD", "EFFECT"), [[each.pod, each.sentence] for each in answer.after.pod_losses])
    outages: Rows = [
        [
            each.workload,
            each.replicas,
            each.down,
            duration(each.since),
            duration(each.seconds),
            each.times,
            each.most,
            duration(each.longest),
        ]
        for each in answer.outages
    ]
    heads = ("DOWN", "REPLICAS", "DOWN FOR LONG", "AFTER", "FOR", "TIMES", "AT WORST", "MAX_LENGTH")
    yield Table(heads, outages, detail=1)
    pdbs = [(name, *counts) for name, counts in sorted(answer.after.pdbs.items())]
    yield Table(("PDB SHORT", "HEALTHY", "DESIRED"), pdbs, detail=1)
    yield violated_pdbs(answer)
    rejected: Rows = [[row.group, row.pods, shorten(row.message)] for row in answer.after.summary.missing]
    rejected += [[name, each.pods, shorten(each.message)] for name, each in answer.after.blocks.recreation.items()]
    yield Table(("REJECTED PODS OF", "PODS", "MESSAGE"), rejected, detail=1)
    if answer.after.new_nodes is not None or answer.after.pending_daemon_sets:
        yield from _on_new_nodes(answer)
    yield from autoscaler_tables.tables_of(answer.autoscalers, answer.with_new_nodes)


def _on_new_nodes(answer: Answer) -> Iterator[Table]:
    """Yield which Pods are scheduled on added nodes, and the DaemonSets whose Pods are not."""
    added = answer.after.new_nodes
    starved = added.pending_daemon_sets if added is not None else answer.after.pending_daemon_sets
    cells: Rows = [
        [each.workload, each.priority, each.pods, "no Pod on a node has a lower priority" if each.ranks_too_low else ""]
        for each in starved
    ]
    yield Table(("PENDING DAEMONSET PODS", "VALUE", "PODS", "REASON"), cells)
    if added is not None and added.scheduled:
        rows: Rows = [[each.workload, each.priority, each.pods, duration(each.last)] for each in added.scheduled]
        yield Table(("SCHEDULED ON NEW NODES", "VALUE", "PODS", "AFTER"), rows, detail=1)


def workload_tables(answer: Answer) -> Iterator[Table]:
    """Yield a row for each affected workload; if there are many, a row for each class, and with -v the workloads."""
    outages = {each.workload: each for each in answer.outages}
    rows = [*_workload_rows(answer, outages)]
    only_down = outages.keys() - {row[0] for row in rows}
    others: Rows = [
        [name, each.priority_class or NO_CLASS, each.priority, "", 0, 0, 0, _down(each)]
        for name, each in outages.items()
        if name in only_down
    ]
    heads = ("WORKLOAD", "CLASS", "VALUE", "RUNNING", "LOST", "PENDING", "PREEMPTED", "REASON")
    table = Table(heads, sorted([*rows, *others], key=lambda row: -int(row[2])))
    if len(table.rows) <= MAX_ROWS:
        yield table
        return
    of_classes = _class_table(rows)
    label = "total before new nodes" if answer.with_new_nodes is not None else "total"
    yield of_classes._replace(total=[label, *of_classes.total[1:]])
    yield table._replace(detail=1)


def _workload_rows(answer: Answer, outages: Mapping[str, Interruption]) -> Iterator[list[Cell]]:
    """Yield a row for each workload that loses replicas, or whose Pods are Pending or preempted."""
    own = own_workloads(answer)
    preempted = Tally(each.workload for each in answer.after.preempted if each.workload not in answer.placeholders)
    for each in own:
        counts = each.lost, each.more_pending, preempted[each.workload]
        if any(counts) or each.failure:
            why = "; ".join(_why_lost(each, answer)) or each.failure or _down(outages.get(each.workload))
            name = each.priority_class or NO_CLASS
            yield [each.workload, name, each.priority, f"{each.before} → {each.after}", *counts, why]
    victims = {each.workload: each for each in answer.after.preempted}
    names = {each.workload for each in own}
    for name in (name for name in preempted if name not in names):
        why, value = _down(outages.get(name)) or "all run again", victims[name].priority
        yield [name, victims[name].priority_class or NO_CLASS, value, "", 0, 0, preempted[name], why]


def _why_lost(workload: WorkloadCount, answer: Answer) -> Iterator[str]:
    """Yield why replicas are rejected or not recreated, and why Pods are Pending: a constraint that more capacity does
    not lift, and for others kube-scheduler's message.
    """
    kinds = (Kind.QUOTA, Kind.NO_CONTROLLER, Kind.NOT_RECREATED)
    for reason, _ in reasons_of_loss_of(workload, answer) if workload.lost else ():
        if reason.kind in kinds:
            yield _without_workloads(reason)
    if workload.constrained:
        yield workload.constraint
    if workload.message and workload.constrained < workload.pending:
        yield shorten(workload.message)


def _down(outage: Interruption | None) -> str:
    """Return how many replicas are down, for how long in total, and the longest time; -v shows how often."""
    if outage is None:
        return ""
    total = f"{duration(outage.seconds)}{' in all' * (outage.times > 1)}"
    longest = f", {'1 or more for ' * (outage.down > 1)}up to {duration(outage.longest)}"
    return f"{outage.down} of {outage.replicas} down for {total}{longest * (outage.longest != outage.seconds)}"


def _class_table(rows: Rows) -> Table:
    """A row for each PriorityClass with its worst workload, in the order of the largest of its three counters, so that
    rows behind -v are never larger. `rows`: by workload.
    """
    cells: Rows = []
    classes = grouped(((-int(row[2]), row[1]), row) for row in rows)
    for (value, name), own in sorted(classes.items()):
        worst = max(own, key=lambda row: (row[4], row[5]))
        shown = (worst[0], worst[3]) if worst[4] else ("", "")
        sums = (sum(int(row[column]) for row in own) for column in (4, 5, 6))
        cells.append([name, -value, *sums, len(own), *shown])
    cells.sort(key=lambda row: -max(map(int, row[2:5])))  # of equal ones, the highest value first
    totals = [sum(int(row[column]) for row in cells) for column in range(2, 6)]
    heads = ("CLASS", "VALUE", "LOST", "PENDING", "PREEMPTED", "WORKLOADS", "WORST", "RUNNING")
    return Table(heads, cells, ["total", "", *totals, "", ""])


def quota_tables(simulation: Simulation, detail: int = 0, least: float = 0) -> Iterator[Table]:
    """Yield a row for each resource whose usage or limit at the end differs from that at the start, the fullest quota
    first. `detail`: of the table, unless a limit differs. `least`: minimum share of the limit for a row.
    """
    rows: list[tuple[float, list[str | int]]] = []
    for before, after in simulation.api.quotas.changes() if simulation.api.quotas is not None else ():
        for resource, limit in sorted(after.hard.items()):
            used, limits = (
                [format_units(amounts.get(resource, ZERO)) for amounts in pair]
                for pair in ((before.used, after.used), (before.hard, after.hard))
            )
            if used[0] != used[1] or limits[0] != limits[1]:
                share = after.used.get(resource, ZERO).nano / limit.nano if limit.nano else 2.0
                shown = limits[1] if limits[0] == limits[1] else " → ".join(limits)
                rows.append((share, [f"{after.namespace}/{after.name}", resource, *used, shown]))
                detail = detail if limits[0] == limits[1] else 0
    rows.sort(key=lambda row: -row[0])
    full: Rows = [cells for share, cells in rows if share >= least]
    if hidden := len(rows) - len(full):
        full.append([f"{hidden} below {100 * least:.0f} % of the limit: -v", "", "", "", ""])
    yield Table(("QUOTA", "RESOURCE", "USED", "AFTER", "LIMIT"), full, detail=detail)


def violated_pdbs(answer: Answer) -> Table:
    """Return the PDBs with more disruptions than allowed."""
    rows = sorted(answer.after.summary.violated_pdbs.items())
    return Table(("PDB VIOLATED", "DISRUPTIONS TOO MANY"), rows, detail=1)


def _pairs(preemptions: Sequence[Preemption]) -> Table:
    cells: Rows = [
        [by, by_value, victim, value, len(found)] for (by, by_value, victim, value), found in pairs(preemptions)
    ]
    return Table(("PREEMPTOR", "VALUE", "VICTIM", "VICTIM VALUE", "PODS"), cells, detail=2)


def _upgrade_tables(answer: Answer) -> Iterator[Table]:
    upgrade = answer.after.upgrade
    assert upgrade is not None
    blocked = _nodes_blocked_by_pdbs(answer)
    cells: Rows = []
    for pool in upgrade.pools:
        own = {step.node for step in pool.steps}
        pdbs = Tally({each.budget: len(own.intersection(each.nodes)) for each in answer.after.blocks.drains})
        names = listed([f"{name} {nodes}" for name, nodes in pdbs.most_common() if nodes], 2)
        takes = "" if pool.seconds is None else duration(pool.seconds)
        cells.append([pool.pool or "(no pool)", pool.nodes, pool.upgraded, len(own & blocked), names, takes])
    takes = duration(upgrade.seconds) if upgrade.complete else ""
    total: list[str | int] = ["total", *(sum(int(row[column]) for row in cells) for column in (1, 2, 3)), "", takes]
    heads = ("POOL", "NODES", "UPGRADED", "PDBS BLOCK", "PDBS WITH THEIR NODES", "TAKES")
    yield Table(heads, cells, total)
    if blockers := answer.after.blocks.drains:
        rows: Rows = []
        for each in blockers:
            why = "another PDB selects the same Pods" if each.overlaps else ""
            rows.append([each.budget, each.healthy, each.desired, len(each.pods), len(each.nodes), why])
        yield Table(("BLOCKING PDB", "HEALTHY", "DESIRED", "PODS", "NODES", "BECAUSE"), rows)
        free: Rows = [[step.node] for step in upgrade.steps if step.node not in blocked]
        yield Table(("NODE WITHOUT A BLOCKING PDB",), free, detail=1)


def _priorities(ranked: Sequence[Ranked]) -> Iterator[Table]:
    """Yield a row for each change of the priority of new Pods, with how many workloads and Pods it concerns; of many
    workloads also a row for each namespace, and with -v for each workload.
    """
    groups = grouped(((_value(each, after=False), _value(each, after=True)), each) for each in ranked)
    cells: Rows = []
    for (before, after), alike in groups.items():
        pods = sum(map(_running, alike))
        first = alike[0].workload + (f" and {len(alike) - 1:,} more" if alike[1:] else "")
        cells.append([first, before, after, len(alike), pods])
    yield Table(("NEW PODS OF", "VALUE BEFORE", "VALUE AFTER", "WORKLOADS", "RUNNING PODS"), cells, zeros=True)
    if len(ranked) == len(groups):
        return
    namespaces = grouped((each.workload.partition("/")[0], _running(each)) for each in ranked)
    in_order = sorted(namespaces.items(), key=lambda item: (-sum(item[1]), item[0]))
    rows: Rows = [[name, len(pods), sum(pods)] for name, pods in in_order]
    yield Table(("NAMESPACE", "WORKLOADS", "RUNNING PODS"), rows, detail=int(len(ranked) <= MAX_ROWS), zeros=True)
    yield new_priorities(ranked)


def new_priorities(ranked: Sequence[Ranked]) -> Table:
    """Return a row for each workload whose new Pods change priority."""
    rows = [(each.workload, _value(each, after=False), _value(each, after=True), _running(each)) for each in ranked]
    return Table(("NEW PODS OF", "VALUE BEFORE", "VALUE AFTER", "RUNNING PODS"), rows, detail=1, zeros=True)


def _running(ranked: Ranked) -> int:
    return sum(ranked.running.values())


def _value(ranked: Ranked, *, after: bool) -> Cell:
    resolved = ranked.after if after else ranked.before
    if resolved is None:
        return "rejected"
    return f"{resolved.priority:,}, never preempts" if resolved.preemption_policy == "Never" else resolved.priority


def _class_change_tables(change: ClassChange) -> Iterator[Table]:
    if change.changed:
        yield from _priorities(change.changed)
    if change.totals and any(each.after for each in change.changed):
        differences = change.differences
        cells: Rows = []
        for each in change.totals:
            more = [f"{pods:+,} {name or NO_CLASS}" for name, pods in differences[each.class_].most_common() if pods]
            cells.append(
                [each.class_ or NO_CLASS, each.before, each.during_rollout, each.after, listed(more, 2) or "none"]
            )
        title = "RUNNING PODS THAT A NEW POD OF A CLASS MAY PREEMPT"
        yield Table(("NEW POD OF", "BEFORE", "DURING ROLLOUT", "AFTER", "CHANGE"), cells, title=title, zeros=True)


def _more(result: Simulated) -> Iterator[str]:
    answer, reaction = result.answer, result.answer.autoscalers
    pdbs_block = bool(answer.after.upgrade is not None and answer.after.blocks.drains)
    has_groups = reaction.are_off or reaction.node_groups or reaction.node_pools
    is_short = reaction.cluster_autoscaler.pending > 0 or bool(answer.after.preempted)
    options = {
        "--assume-pdbs maxUnavailable=1": pdbs_block,
        "-v workloads": True,
        "-vv each preemption": bool(answer.after.preempted),
        "forewarn classes plan": bool(_rejecting(result)),
        "--node-templates FILE": reaction.cluster_autoscaler.pending > 0 and not has_groups,
        "--timeline": not pdbs_block,
        f"headroom --survive{' zone' * answer.is_zone_lost}": _is_loss(answer) and is_short,
        "after the removal: forewarn whatif lose --each zone": bool(answer.removal and answer.removal.nodes),
    }
    yield from (option for option, leads_on in options.items() if leads_on)
