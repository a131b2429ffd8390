"""The counters of a simulated change, and the reasons of lost replicas and Pending Pods."""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents.answer import Effects
from forewarn.policies.base.findings import duration, plural
from forewarn.policies.kubernetes.controllers.job import JobStatus
from forewarn.policies.kubernetes.kinds.registry import DEFAULT_NAMESPACE, JOB, STATEFUL_SET
from forewarn.policies.kubernetes.kube_apiserver.quota import rejecting
from forewarn.policies.kubernetes.objects.fields import int32, ref_of
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import lacks_capacity
from forewarn.policies.kubernetes.scheduling.reasons import FitError, ranked
from forewarn.policies.linting.rules.support.predictions import fix_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.questions.whatif.answer import Answer, WithoutChange, WorkloadCount


def effects_of(answer: Answer, rejected: int = 0) -> Effects:
    """Count the effects of a simulated change. `rejected`: objects of the change, and Pods when they are recreated."""
    own, after = own_workloads(answer), answer.after
    victims = [each for each in after.preempted if each.workload not in answer.placeholders]
    upgrade, arrived, down = after.upgrade, answer.with_new_nodes, answer.autoscalers.scale_down
    forced = {pdb for pod in upgrade.forced for pdb in pod.pdbs} if upgrade is not None else set[str]()
    not_upgraded = len(upgrade.steps) - len(upgrade.done) if upgrade is not None else len(after.not_drained)
    not_removed = answer.removal.missing if answer.removal is not None else 0
    return Effects(
        victims=sum(each.by in after.summary.new_pod_names for each in victims) if creates_pods(answer) else 0,
        preempted=len(victims),
        pending=sum(each.more_pending for each in own),
        lost=sum(each.lost for each in own),
        down=len(answer.outages),
        down_seconds=max((each.longest for each in answer.outages), default=0),
        rejected=answer.count_over_quota.total() + rejected,
        jobs_failed=sum(len(each.failures) for each in own),
        pdbs_violated=len(forced.union(after.summary.violated_pdbs)),
        pdbs_short=len(after.pdbs),
        blocked=not_upgraded + not_removed + len(after.blocks.rollouts),
        placeholders=len(after.preempted) - len(victims),
        new_nodes=sum(arrived.nodes.values()) if arrived else 0,
        removed_nodes=len(down.removed) if down else 0,
    )


def effects_without(answer: Answer, without: WithoutChange) -> Effects:
    """Count what happens without the change: the preempted, Pending and lost Pods. `without`: of this answer."""
    summary = without.summary
    before = {each.workload: each.pending_before for each in answer.after.workloads}
    preempted = Counter(summary.names.name_of(eviction.origin.workload) for eviction in summary.evictions)
    placeholders = sum(preempted[name] for name in answer.placeholders)
    waiting = (each for each in summary.waiting if each.group not in answer.placeholders)
    return Effects(
        preempted=preempted.total() - placeholders,
        pending=sum(max(each.pods - before.get(each.group, 0), 0) for each in waiting),
        lost=sum(pods for name, pods in without.lost_by_workload.items() if name not in answer.placeholders),
        placeholders=placeholders,
    )


_PHRASES: Final = {
    "preempted": ("Pod preempted", "Pods preempted"),
    "pending": ("Pod stays Pending", "Pods stay Pending"),
    "lost": ("replica lost", "replicas lost"),
    "rejected": ("Pod rejected", "Pods rejected"),
    "jobs_failed": ("Job fails", "Jobs fail"),
    "pdbs_violated": ("PDB violated", "PDBs violated"),
    "down": ("workload down", "workloads down"),
    "pdbs_short": ("PDB with too few healthy Pods", "PDBs with too few healthy Pods"),
    "placeholders": ("placeholder Pod preempted", "placeholder Pods preempted"),
}
"""Counter -> the phrase for one and for more, in the order in which they matter to a reader."""


def left_by_new_nodes(grown: Effects, after: str = "") -> str:
    """What new nodes leave Pending, such as `2 new nodes after 3 min leave no Pod Pending`. `after`: when they run."""
    left = f"{grown.pending:,} Pending" if grown.pending else "no Pod Pending"
    return f"{plural(grown.new_nodes, f'new node{after} leaves', f'new nodes{after} leave')} {left}"


def consequences(effects: Effects) -> Iterator[str]:
    """Yield a phrase for each counter of a simulation that is not 0, the worst first: lost replicas, with the Jobs that
    fail, unless preempted and Pending Pods explain all of them.
    """
    explains_all = effects.preempted + effects.pending >= effects.lost and not effects.jobs_failed
    more = {"down": f" for up to {duration(effects.down_seconds)}"} if effects.down_seconds else {}
    if effects.jobs_failed and effects.lost:
        more["lost"] = f" ({plural(effects.jobs_failed, *_PHRASES['jobs_failed'])})"
        effects = effects._replace(jobs_failed=0)
    for name in _PHRASES if explains_all else dict.fromkeys(("lost", *_PHRASES)):
        if number := getattr(effects, name):
            yield plural(number, *_PHRASES[name]) + more.get(name, "")


def joined(phrases: Sequence[str]) -> str:
    """Join phrases with commas; if the first has the word "Pod", omit the word from the others."""
    first, *others = phrases or [""]
    if " Pod" in first:
        others = [re.sub(r" Pods? (stays?) ", r" \1 ", other) for other in others]
    return ", ".join([first, *others])


def new_pods_clause(effects: Effects) -> str:
    """The text after the number of preempted Pods: how many of them the new Pods preempt, unless all or none."""
    return f" ({effects.victims:,} by new Pods)" if 0 < effects.victims < effects.preempted else ""


def total_of_placeholders(total: int, preempted: int) -> tuple[dict[str, int | None], str]:
    """Return the total of placeholder Pods for their counter, and the text after the number of preempted ones: if
    recreated ones are preempted again, there are more than exist, and no total.
    """
    if preempted > total > 0:
        return {}, f" ({total:,} Pods, some recreated and preempted again)"
    return {"placeholders": total or None}, ""


def creates_pods(answer: Answer) -> bool:
    """Report whether the change itself creates Pods, unlike a loss or a drain."""
    is_loss = all(arrival.op in ("lost", "cordon", "drain") for arrival in answer.after.simulation.world.arrivals)
    return answer.after.upgrade is None and not is_loss and answer.after.new_nodes is None


class NewPods(NamedTuple):
    """The Pods that a change creates: how many run at the end, how many end without a preemption, and the total with
    rejected and not created Pods.
    """

    run: int
    ended: int
    total: int


def new_pods_of(answer: Answer) -> NewPods | None:
    """Return the numbers of new Pods; None if the change creates none.

    Pods that a StatefulSet creates only after a Pending or rejected one, and those of a rollout that does not finish,
    count as new Pods too. If workloads are scaled up, those run that are more than before: a new Pod that replaces
    a preempted one of its workload is none.
    """
    summary = answer.after.summary
    arrivals = answer.after.simulation.world.arrivals
    changed = {"/".join(ref_of(arrival.object, DEFAULT_NAMESPACE)[2:]) for arrival in arrivals}
    rejected = [name for name in answer.count_over_quota if summary.names.group(name) in changed]
    names = {*summary.new_workloads, *rejected} or answer.count_over_quota
    if not creates_pods(answer) or not names:
        return None
    own = [each for each in answer.after.workloads if each.workload in names]
    later = sum(not_created(each, answer) for each in own)
    missing = sum(answer.count_over_quota[name] for name in names)
    rollouts = sum(desired(each, answer) for each in own if each.workload in answer.after.blocks.rollouts)
    total = max(summary.new_pods + later + missing, rollouts)
    run = max(summary.new_pods - summary.new_pods_pending - summary.new_pods_ended, 0)
    ended = summary.new_pods_ended - summary.new_pods_preempted
    if is_scaled(answer) and any(desired(each, answer) > each.before for each in own):  # an HPA may delete old Pods too
        run = min(sum(max(each.after - each.before, 0) for each in own), total)
        ended = max(summary.new_pods - summary.new_pods_pending - run, 0) if ended else 0
    return NewPods(run, ended, total)


def is_scaled(answer: Answer) -> bool:
    """Report whether the change does nothing but set the replicas of workloads."""
    return {arrival.op for arrival in answer.after.simulation.world.arrivals} == {"scale"}


def not_created(workload: WorkloadCount, answer: Answer) -> int:
    """Return how many Pods a StatefulSet creates only after its Pending or rejected one."""
    first = workload.pending + answer.after.rejected_by_quota.get(workload.workload, 0)
    waits = first and workload.kind == STATEFUL_SET
    return max(desired(workload, answer) - workload.after - first, 0) if waits else 0


def desired(workload: WorkloadCount, answer: Answer) -> int:
    """Return the desired replicas of a workload; the number of its Pods before the change, if it has no such field."""
    namespace, _, name = answer.after.summary.names.group(workload.workload).partition("/")
    state = answer.after.simulation.api.workloads.get((workload.kind, namespace, name))
    replicas = int32(state.object, "spec", "replicas") if state else None
    return workload.before + workload.pending_before if replicas is None else replicas


def helped_by_added_nodes(answer: Answer) -> int:
    """Return how many Pods run only because of the nodes that the change adds: Pods that are otherwise Pending at the
    end. For a StatefulSet, this includes the Pod after which it creates the next ones.
    """
    if answer.after.new_nodes is None or answer.without_change is None:
        return 0
    waiting = Counter({each.group: each.pods for each in answer.without_change.summary.waiting})
    staying = waiting & Counter({each.workload: each.pending for each in answer.after.workloads})
    not_replaced = waiting & Counter({each.workload: each.unreplaced for each in answer.after.workloads})
    there = {each.workload for each in answer.after.new_nodes.scheduled} & waiting.keys()
    next_ones = (
        each.workload for each in answer.after.workloads if each.kind == STATEFUL_SET and each.workload in there
    )
    return (waiting - staying - not_replaced | Counter(next_ones)).total()


_LONG: Final = 60
"""Seconds up to which the duration of some of the random runs is not worth a sentence."""


def run_sentences(answer: Answer) -> Iterator[str]:
    """Yield a sentence about the random runs, if chance decides; this answer is their most frequent outcome."""
    if (runs := answer.typical_of) is None:
        return
    if runs.counters:
        ranges = "; in parentheses, those of all runs" if answer.with_new_nodes is None else ", without new nodes"
        shown = "random runs, the most frequent outcome, have these counters"
        yield f"chance decides: {runs.alike} of {runs.total} {shown}{ranges}"
    if runs.alike < runs.total and runs.others > max(2 * runs.longest, _LONG):
        alike, others = duration(runs.longest), duration(runs.others)
        yield f"{runs.alike} of {runs.total} random runs take at most {alike}, the others up to {others}"


def own_workloads(answer: Answer) -> list[WorkloadCount]:
    """The affected workloads without those of placeholder Pods."""
    return [each for each in answer.after.workloads if each.workload not in answer.placeholders]


class Kind(StrEnum):
    """The kind of reason why a replica is lost, or a Pod Pending."""

    BACKOFF_LIMIT = "backoffLimit"
    JOB_FAILED = "jobFailed"
    QUOTA = "quota"
    CAPACITY = "capacity"
    VOLUME = "volume"
    CONSTRAINT = "constraint"
    PENDING = "pending"
    NO_CONTROLLER = "noController"
    NOT_RECREATED = "notRecreated"


class Reason(NamedTuple):
    """A reason that several workloads share. `what`: the quota, the volume's zone, the unmet constraint, or "". `fix`:
    if one cause keeps the Pods off all nodes.
    """

    kind: Kind
    what: str = ""
    fix: str = ""


class Share(NamedTuple):
    """What a reason explains: `pods` by PriorityClass, the workloads, and the failed Jobs."""

    pods: Counter[str]
    workloads: dict[str, None]
    jobs: int = 0


def reasons_of_loss(answer: Answer) -> Mapping[Reason, Share]:
    """The lost replicas by reason; the numbers add up to the counter `lost`."""
    return _shares(answer, lambda workload: reasons_of_loss_of(workload, answer) if workload.lost else ())


def reasons_of_pending(answer: Answer) -> Mapping[Reason, Share]:
    """The additional Pending Pods by reason; the numbers add up to the counter `pending`."""
    return _shares(answer, lambda workload: _reasons_of_pending_of(workload, workload.more_pending))


def _shares(
    answer: Answer, reasons_of: Callable[[WorkloadCount], Iterable[tuple[Reason, int]]]
) -> Mapping[Reason, Share]:
    shares: dict[Reason, Share] = {}
    for workload in own_workloads(answer):
        for reason, pods in reasons_of(workload):
            if answer.is_zone_lost and reason.kind is Kind.VOLUME:
                reason = reason._replace(fix="")  # the lost zone has no new nodes
            share = shares.setdefault(reason, Share(Counter(), {}))
            share.pods[workload.priority_class] += pods
            share.workloads[workload.workload] = None
            failed = len(workload.failures) if reason.kind in (Kind.BACKOFF_LIMIT, Kind.JOB_FAILED) else 0
            shares[reason] = share._replace(jobs=share.jobs + failed)
    return shares


def reasons_of_loss_of(workload: WorkloadCount, answer: Answer) -> Iterator[tuple[Reason, int]]:
    """Yield the reasons of a workload's lost replicas: first those that kube-apiserver rejects. Pods that a StatefulSet
    does not create after a Pending Pod have the reason of this Pod.
    """
    if workload.failures:
        is_limit = {*workload.failures} == {"BackoffLimitExceeded"}
        what = "" if is_limit else min(workload.failures)
        yield Reason(Kind.BACKOFF_LIMIT if is_limit else Kind.JOB_FAILED, what), workload.lost
        return
    rejected = min(workload.lost, answer.count_over_quota[workload.workload])
    if rejected:
        yield Reason(Kind.QUOTA, quota_of(workload.workload, answer)), rejected
    if left := workload.lost - rejected:
        if workload.more_pending:
            yield from _reasons_of_pending_of(workload, left)
        elif rejected:
            yield Reason(Kind.QUOTA, quota_of(workload.workload, answer)), left
        elif not workload.is_recreated:
            yield Reason(Kind.NO_CONTROLLER), left
        else:
            why = "backoffLimitPerIndex fails their indexes" if _has_failed_indexes(workload, answer) else ""
            yield Reason(Kind.NOT_RECREATED, why), left


def _has_failed_indexes(workload: WorkloadCount, answer: Answer) -> bool:
    """Report whether indexes of a Job have failed."""
    namespace, _, name = answer.after.summary.names.group(workload.workload).partition("/")
    state = answer.after.simulation.api.workloads.get((JOB, namespace, name))
    return state is not None and isinstance(state.status, JobStatus) and bool(state.status.failed_indexes)


def quota_of(workload: str, answer: Answer) -> str:
    """The object that rejects Pods of a workload, such as `quota shop/q`."""
    namespace = answer.after.summary.names.group(workload).partition("/")[0]
    return rejecting([(namespace, row.message) for row in answer.after.summary.missing if row.group == workload])


def _reasons_of_pending_of(workload: WorkloadCount, pods: int) -> Iterator[tuple[Reason, int]]:
    """Yield why these Pods of a workload are Pending: first a constraint that more capacity does not lift."""
    constrained = min(workload.constrained, pods)
    if constrained:
        yield Reason(Kind.CONSTRAINT, workload.constraint), constrained
    if left := pods - constrained:
        yield _reason_of_pending(workload), left


def _reason_of_pending(workload: WorkloadCount) -> Reason:
    """Why Pods of a workload are Pending: capacity, if any node has too little of it."""
    message = workload.message
    if not isinstance(message, FitError):
        return Reason(Kind.PENDING, message)
    if message.cause is not None:
        kind = Kind.VOLUME if message.cause.of_volumes else Kind.CONSTRAINT
        return Reason(kind, message.cause.short, fix_of([(message.cause, 0)]))
    reasons = ranked(message.reasons)
    if not reasons:
        return Reason(Kind.PENDING)
    if lacks_capacity(message):
        return Reason(Kind.CAPACITY)
    first, nodes = reasons[0]
    fix = "" if nodes else fix_of([(first, 0)])
    return Reason(Kind.VOLUME if first.of_volumes else Kind.CONSTRAINT, first.short, fix)
