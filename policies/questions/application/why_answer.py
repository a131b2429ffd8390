"""The answers to `why` in the common answer format: of a Pod, a workload, and all Pending Pods."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.documents.answer import (
    NO_CLASS,
    AnswerDocument,
    AnswerStatus,
    Cause,
    Counter,
    Effects,
    Rows,
    Table,
    Why,
)
from forewarn.policies.base.findings import duration, grouped, plural, with_fix
from forewarn.policies.kubernetes.kube_apiserver.quota import quota_in
from forewarn.policies.kubernetes.objects.pod import wait_seconds
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.prediction.forecast.placement import Applied, Placement, Predicted
from forewarn.policies.prediction.forecast.why_not import MAX_PENDING, common_cause, ending_on_nominated_node, why_not
from forewarn.policies.questions.application import autoscaler_tables
from forewarn.policies.questions.application.kueue import (
    clause_of,
    counters_of_jobs,
    status_of,
    tables_of_jobs,
    warnings_of_jobs,
)
from forewarn.policies.questions.application.predict import GRACE, nodes_why_not, reason_in_short, with_new_nodes
from forewarn.policies.questions.why.evidence import Trouble, shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
    from forewarn.policies.questions.application.why import ClusterWhy, NotCreated, PendingGroup, PodWhy, WorkloadWhy
    from forewarn.policies.questions.why.troubles import Diagnosis


_OTHERS_KNOW: Final = {"not-predicted", "other-scheduler", "disrupted"}
"""Ids of problems that forewarn cannot explain: the answer shows the messages of the cluster."""
_FEW_VICTIMS: Final = 5
_ROOM: Final = 50
"""Maximum characters of a cause with details in a row."""
_STATUS: Final = {
    "pending": AnswerStatus.PENDING,
    "preempted": AnswerStatus.HARM,
    "ended": AnswerStatus.HARM,
    "running": AnswerStatus.OK,
}
"""State of a Pod -> the status, if it is not WARN."""
_HARMLESS: Final = {"completed", "former-preempted", "former-ended"}
_WHAT: Final = {
    "pending": "IT IS PENDING",
    "preempted": "IT IS PREEMPTED",
    "ended": "IT ENDED",
    "gone": "IT IS GONE",
    "terminating": "IT TERMINATES",
    "not-ready": "IT IS NOT READY",
    "running": "IT NEEDS ATTENTION",
}
_BEFORE: Final = "--before FILE: how to prevent it"


def shown_state(state: str) -> str:
    """A state in words."""
    return "Pending" if state == "pending" else state.replace("-", " ")


# A Pod


def pod_document(result: PodWhy) -> AnswerDocument:
    """Return why a Pod is Pending, ended or does not end."""
    diagnosis, prediction = result.diagnosis, result.diagnosis.prediction
    effects = _effects(prediction, result.cluster) if prediction is not None else None
    if effects is not None:
        effects = with_new_nodes(result.autoscalers, effects) or effects
    tables = [*_prediction_tables(prediction)] if prediction is not None else []
    if result.autoscalers is not None:
        tables += autoscaler_tables.tables_of(result.autoscalers)
    pod = diagnosis.pod
    rank = [*filter(None, (pod.priority_class_name, f"{pod.effective_priority:,}"))] if pod is not None else []
    victims: Rows = [[each.pod, each.node, each.time, each.source] for each in result.preempted]
    tables.append(Table(("PREEMPTED BY IT", "NODE", "AT", "SOURCE"), victims))
    is_needed = not diagnosis.troubles or not _OTHERS_KNOW.isdisjoint(result.conditions)
    tables.append(Table(("REPORTED", "MESSAGE"), [*result.reported.items()], detail=int(not is_needed)))
    return AnswerDocument(
        status=_status(diagnosis),
        question=f"{result.key} ({', '.join(rank)})" if rank else result.key,
        clause=_clause(diagnosis, result.age, effects),
        counters=effects,
        shown=[*_counters(prediction, effects)] if prediction and effects else result.workload_now,
        warnings=[*result.missing, *(autoscaler_tables.warnings_of(result.autoscalers) if result.autoscalers else ())],
        why=_causes(diagnosis, effects),
        tables=tables,
        fix=result.fixes,
        more=[
            *["-v victims, messages of conditions and Events"] * any(each.detail and each.rows for each in tables),
            *[_BEFORE] * ("preempted" in result.conditions and not result.has_before),
        ],
    )


def _status(diagnosis: Diagnosis) -> AnswerStatus:
    ids = {trouble.id for trouble in diagnosis.troubles}
    if diagnosis.state == "ended" and ids and ids <= _HARMLESS:
        return AnswerStatus.OK
    if diagnosis.state == "running" and not ids <= _HARMLESS:
        return AnswerStatus.WARN
    return _STATUS.get(diagnosis.state, AnswerStatus.WARN)


def _clause(diagnosis: Diagnosis, age: float, effects: Effects | None) -> str:
    """The state, and the first cause in words. `age`: of a Pending Pod in seconds."""
    pod = diagnosis.pod
    node = pod.node_name if pod else ""
    nominated = pod.nominated_node_name if pod and not node else ""
    word = "" if diagnosis.state == "pending" else shown_state(diagnosis.state)  # the status is PENDING
    where = f"{word} on {node}".strip() if node else word
    parts = (where, f"nominated to {nominated}" if nominated else "", duration(age) if age else "")
    state = ", ".join(filter(None, parts))
    if not diagnosis.troubles:
        return f"{state}, cause unknown" if diagnosis.state == "ended" else state or shown_state(diagnosis.state)
    first = diagnosis.first
    cause = "" if first.words == word else first.words
    if first.id == "will-preempt" and effects is not None:
        cause = f"the next attempt preempts {_preempted(diagnosis, effects)}"
    return ": ".join(filter(None, (state, cause)))


def _preempted(diagnosis: Diagnosis, effects: Effects) -> str:
    """The number of victims, and the node."""
    pods = [plural(effects.victims, "Pod")] if effects.victims or not effects.placeholders else []
    pods += [plural(effects.placeholders, "placeholder Pod")] if effects.placeholders else []
    return f"{' and '.join(pods)} on {diagnosis.prediction.nominated_node if diagnosis.prediction else ''}"


def _effects(prediction: Prediction, cluster: ClusterSnapshot) -> Effects:
    """The counters of the next attempt to schedule a Pod, which is Pending already."""
    applied = Applied((Placement(prediction.pod.key, (prediction,)),))
    predicted = Predicted(applied, (), cluster, partial(is_placeholder, options=Options()))
    return predicted.effects()._replace(pending=0)


def _counters(prediction: Prediction, effects: Effects) -> Iterator[Counter]:
    nodes = len(prediction.snapshot.node_infos)
    fits = len(prediction.feasible) if prediction.fits else 0
    may_preempt = prediction.pod.preemption_policy != PREEMPT_NEVER
    policy = "" if may_preempt else "; may not preempt (preemptionPolicy Never)"
    yield Counter("fits on", fits, nodes, more=f" node{'s' * (nodes != 1)}{policy}")
    yield Counter("after preemption on", len(prediction.candidates), optional=not may_preempt)
    yield Counter("victims", effects.victims, optional=not may_preempt)
    for name in ("placeholders", "pdbs_violated", "new_nodes"):
        yield Counter(name, getattr(effects, name), optional=True)
    ending = ending_on_nominated_node(prediction) if prediction.pod.nominated_node_name else []
    yield Counter(GRACE, wait_seconds([*prediction.victims, *ending]), more=" s", optional=True)


def _causes(diagnosis: Diagnosis, effects: Effects | None) -> Why | None:
    """All causes, the main cause first; None if the clause already contains them."""
    first, *others = diagnosis.troubles or [None]
    if first is None or (first.id == "will-preempt" and not others and not first.help):
        return None
    troubles = [
        each._replace(message=f"its next scheduling attempt preempts {_preempted(diagnosis, effects)}")
        if each.id == "will-preempt" and effects is not None
        else each
        for each in diagnosis.troubles
    ]
    known = troubles[0] if diagnosis.state == "pending" else None  # the clause has its words
    following = [*(trouble.help for trouble in diagnosis.troubles[1:]), ""]
    causes = [
        Cause(0, trouble.id, _text_of(trouble, named=trouble is not known, is_last_with_fix=trouble.help != next_help))
        for trouble, next_help in zip(troubles, following, strict=True)
    ]
    return Why("", 0, _WHAT[diagnosis.state], causes)


def _text_of(trouble: Trouble, which: str = "", *, named: bool = True, is_last_with_fix: bool = True) -> str:
    when = shown_time(trouble.when)
    at = f" at {when}" if when and when not in trouble.message else ""
    message = trouble.message.rstrip(".")
    details = message.removeprefix(f"{trouble.words} ")
    text = f"{trouble.words}{at}{':' if details == message else ''} {details}{which}" if named else message
    return with_fix(text, trouble.help if is_last_with_fix else "")


def _prediction_tables(prediction: Prediction) -> Iterator[Table]:
    if not prediction.fits:
        yield from nodes_why_not(prediction)
    victims: Rows = [
        [victim.key, victim.priority_class_name or NO_CLASS, victim.effective_priority, victim.node_name]
        for victim in prediction.victims
    ]
    yield Table(("VICTIM", "CLASS", "VALUE", "NODE"), victims, detail=int(len(victims) > _FEW_VICTIMS))


# A workload


def workload_document(result: WorkloadWhy) -> AnswerDocument:
    """Return why Pods of a workload ended, or are Pending or not created."""
    timeline = result.timeline
    causes = [*_ending_causes(result), *_pending_causes(result)]
    if result.not_created:
        causes.append(Cause(result.not_created, "notCreated", result.creation_failure or "not created"))
    causes.sort(key=lambda cause: -cause.number)
    number = sum(cause.number for cause in causes)
    rows: Rows = [
        [shown_time(end.cause.when) or "unknown", end.pod.rpartition("/")[2], end.words] for end in timeline.endings
    ]
    long: Rows = [[*row, end.cause.message] for row, end in zip(rows, timeline.endings, strict=True)]
    tables = [Table(("WHEN", "POD", "CAUSE"), rows), Table(("WHEN", "POD", "CAUSE", "MESSAGE"), long, detail=1)]
    warnings = [*result.missing]
    if timeline.not_explained:
        warnings.append(f"{plural(timeline.not_explained, 'more Pod')} not explained")
    jobs = [result.kueue] if result.kueue is not None else []
    first = timeline.pending_causes[0].first.pod if timeline.pending_causes else ""
    return AnswerDocument(
        status=status_of(_status_of(result), jobs),
        question=f"{result.kind} {result.key}",
        clause=clause_of(jobs, _clause_of(result)),
        shown=[*_counts(result), *counters_of_jobs(jobs)],
        warnings=[*warnings_of_jobs(jobs), *warnings],
        why=Why("", number, plural(number, "POD ENDED OR DOES NOT RUN", "PODS ENDED OR DO NOT RUN"), causes),
        tables=[*tables_of_jobs(jobs), *tables],
        more=[*(["-v messages"] if rows else []), *([f"forewarn why {first}"] if first else [])],
    )


def _status_of(result: WorkloadWhy) -> AnswerStatus:
    states = result.timeline.states
    if states["pending"]:
        return AnswerStatus.PENDING
    if result.not_created and result.creation_failure:
        return AnswerStatus.REJECTED
    if states["ended"] or states["preempted"] or (result.inactive or "").startswith("failed"):
        return AnswerStatus.HARM
    return AnswerStatus.WARN if result.timeline.endings or result.not_created else AnswerStatus.OK


def _clause_of(result: WorkloadWhy) -> str:
    running, wanted = result.timeline.states["running"], None if result.kind == "CronJob" else result.replicas
    inactive = f"{result.inactive}, " if result.inactive else ""
    if not result.timeline.states and not result.not_created:
        none = "scaled to 0 replicas" if result.replicas == 0 else "no Pods with this owner"
        return result.inactive or _WITHOUT_PODS.get((result.kind, result.replicas), none)
    if wanted and running <= wanted:
        return f"{inactive}{running:,} of {plural(wanted, 'Pod')} {'runs' if 1 in (running, wanted) else 'run'}"
    return f"{inactive}{plural(running, 'Pod runs', 'Pods run')}"


_WITHOUT_PODS: Final = {
    ("CronJob", None): "no Job of it has Pods",
    ("Job", 0): "no Pods with this owner",
    ("DaemonSet", 0): "no node needs a Pod of it",
}
"""Kind and wanted Pods of a workload without Pods -> why it has none."""


def _counts(result: WorkloadWhy) -> Iterator[Counter]:
    states = result.timeline.states
    yield Counter("running", states["running"], result.replicas if result.kind != "CronJob" else None)
    for state in ("pending", "preempted", "terminating", "not-ready", "ended", "gone", "completed"):
        yield Counter(shown_state(state), states[state], optional=True)
    yield Counter("not created", result.not_created, optional=True)


def _ending_causes(result: WorkloadWhy) -> Iterator[Cause]:
    for (kind, words), ends in grouped(((end.cause.id, end.words), end) for end in result.timeline.endings).items():
        help_ = next((end.cause.help for end in ends if end.cause.help), "")
        yield Cause(len(ends), kind, with_fix(words, help_))


def _pending_causes(result: WorkloadWhy) -> Iterator[Cause]:
    timeline = result.timeline
    for pods, first in timeline.pending_causes:
        which = f", the first {first.pod.rpartition('/')[2]}" if pods > 1 else ""
        which += "; those of the others are not counted" * bool(which and first.cause.id == "will-preempt")
        yield Cause(pods, first.cause.id, _text_of(first.cause, which))
    if left := len(timeline.pending) - sum(pods for pods, _ in timeline.pending_causes):
        yield Cause(left, "notEvaluated", f"not among the first {MAX_PENDING} Pending Pods of the queue")


# All Pending Pods


_PENDING: Final = "CLASS", "VALUE", "PENDING", "SUCH AS", "CAUSE"


def cluster_document(result: ClusterWhy) -> AnswerDocument:
    """Return the Pods that are Pending, by class and cause, not created, and preempted according to Events."""
    pods, not_created = sum(group.pods for group in result.pending), sum(each.pods for each in result.not_created)
    by_preemptor = grouped(((pod.workload, pod.by), pod) for pod in result.preempted)
    preempted: Rows = [
        [
            *(workload, "" if own[0].priority is None else own[0].priority, len(own)),
            *(by, own[0].by_class or "", own[0].node, own[0].time),
        ]
        for (workload, by), own in sorted(by_preemptor.items(), key=lambda item: -len(item[1]))
    ]
    period = duration(result.period).upper()
    heads = f"PREEMPTED IN {period}", "VALUE", "PODS", "BY", "BY CLASS", "NODE", "LAST AT"
    every = *result.preempted, *result.preempted_placeholders
    pods_of = [(pod.pod, pod.by, pod.node, pod.time, pod.source) for pod in every]
    rows = [*map(_pending_row, result.pending)]
    pending, past = Table(_PENDING, rows, ["total", "", pods, "", ""]), Table(heads, preempted)
    tables = [
        *((past, pending) if result.has_before else (pending, past)),  # a question about an incident, or about now
        Table(("PODS NOT CREATED OF", "PODS", "OF", "CAUSE"), [_not_created_row(each) for each in result.not_created]),
        Table(("PREEMPTED POD", "BY", "NODE", "AT", "SOURCE"), pods_of, detail=1),
        Table(("OTHER POD THAT NO LONGER EXISTS", "DELETED BY", "AT"), result.gone, detail=1),
    ]
    otherwise = AnswerStatus.WARN if every or result.missing else AnswerStatus.OK
    return AnswerDocument(
        status=AnswerStatus.PENDING if pods or not_created else otherwise,
        question=f"Pods of {f'namespace {result.namespace}' if result.namespace else 'the cluster'}",
        clause=_clause_of_cluster(result, pods, not_created),
        shown=[
            *(
                Counter("Pending now", pods),
                Counter("not created", not_created, optional=True),
                *_event_counters(result),
            ),
            Counter("placeholders preempted", len(result.preempted_placeholders), optional=True),
            Counter("placeholders Pending", result.pending_placeholders, optional=True),
        ],
        warnings=result.missing,
        tables=tables,
        fix=result.fixes,
        more=[
            *(["-v all Pods"] if every else ["-v gone Pods"] if result.gone else []),
            *[_BEFORE] * bool(result.preempted and not result.has_before),
            *([f"forewarn why {result.pending[0].such_as}"] if result.pending else []),
        ],
    )


def _clause_of_cluster(result: ClusterWhy, pending: int, not_created: int) -> str:
    clause = plural(pending, "is Pending", "are Pending") if pending else "none is Pending"
    clause += f", {not_created:,} cannot be created" if not_created else ""
    if result.preempted:
        return f"{clause}, {plural(len(result.preempted), 'was', 'were')} preempted in {duration(result.period)}"
    return f"{clause}; what was preempted in {duration(result.period)} is unknown" if result.missing else clause


def _pending_row(group: PendingGroup) -> list[str | int]:
    cause = group.cause if len(group.cause) <= _ROOM else group.cause.partition(" (")[0]
    return [group.priority_class or NO_CLASS, group.priority, group.pods, group.such_as, cause]


def _not_created_row(row: NotCreated) -> list[str | int]:
    quota = quota_in(row.cause)
    return [row.workload, row.pods, row.replicas, f"exceeds ResourceQuota {quota}" if quota else row.cause]


def _event_counters(result: ClusterWhy) -> Iterator[Counter]:
    yield Counter(f"preempted in {duration(result.period)}", len(result.preempted), optional=bool(result.missing))
    unknown = sum(pod.by == "unknown" or "no longer exists" in pod.by for pod in result.preempted)
    yield Counter("by an unknown Pod", unknown, optional=True)


def cause_of(prediction: Prediction, cluster: ClusterSnapshot) -> str:
    """The cause of a Pending Pod in the queue."""
    if prediction.outcome == "pending":
        reasons = [] if prediction.error or common_cause(prediction) else why_not(prediction)
        return reasons[0][1] if reasons else reason_in_short(prediction, cluster)
    if prediction.outcome == "preempts":
        return "the next attempt preempts other Pods"
    return prediction.not_predicted or "fits on a node: not scheduled yet"
