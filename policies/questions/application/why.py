"""Explain why a Pod is Pending, ended or does not end, and which Pods of a workload ended."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, starmap
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, in_json, inlined_in_json, optional_in_json
from forewarn.policies.base.documents.answer import AnswerDocument, Fix
from forewarn.policies.base.documents.answer import Counter as Shown
from forewarn.policies.base.findings import brief, cut, grouped, listed, plural, with_fix
from forewarn.policies.inputs.sources.cluster import has_events, load_cluster, objects_of
from forewarn.policies.inputs.sources.files import SourceError, WrongFile
from forewarn.policies.inputs.sources.json_stream import audit_events
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot, Result, head_of
from forewarn.policies.kubernetes.controllers.job import is_finished
from forewarn.policies.kubernetes.controllers.own_pods import count_daemons
from forewarn.policies.kubernetes.kinds.registry import CRON_JOB, DAEMON_SET, JOB, POD, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, establish_new_priority
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidInput, InvalidObject, at, group_kind
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.scheduling.reasons import shorten
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.prediction.forecast.replacements import (
    all_missing,
    counts_terminating,
    missing_pods,
    next_rejection,
    rejection_in,
)
from forewarn.policies.prediction.forecast.why_not import why_not
from forewarn.policies.questions.application import why_answer
from forewarn.policies.questions.application.cluster import Cluster, pod_key
from forewarn.policies.questions.application.kueue import QueuedJob, suspended_job
from forewarn.policies.questions.whatif.autoscalers import Autoscalers, Autoscaling, PendingPods, explained
from forewarn.policies.questions.whatif.questions import elsewhere, kind_named, pod_not_found, unknown_namespace
from forewarn.policies.questions.why.evidence import (
    LONG,
    NO_EVENTS,
    WITHOUT_EVENTS,
    Evidence,
    PreemptionEvents,
    Trouble,
    ids,
    job_record,
    seconds,
    shown_time,
)
from forewarn.policies.questions.why.post_mortem import PostMortem, Request, preventions
from forewarn.policies.questions.why.troubles import (
    Diagnosis,
    Timeline,
    all_pending,
    deleted_pod_diagnosis,
    diagnose,
    meanings,
    named_by,
    preemptor_of,
    quota_hint,
    timeline,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.pod import Pod


@dataclass(frozen=True, slots=True)
class CountedReason:
    """A reason, and the number of nodes with this reason."""

    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class WhyRequest:
    """A Pod or workload. `name`: `POD`, `NAMESPACE/POD`, `KIND/NAME` or `NAMESPACE/KIND/NAME`; "" for all Pending Pods.
    `namespace`: for a name without one ("": `default`); without a name, list only its Pods ("": all).

    `since`: without a name, the seconds before now in which Pods were preempted. `audit_logs`: files of kube-apiserver.
    `before`: a file with an earlier snapshot of the cluster.
    """

    name: str = ""
    namespace: str = ""
    since: float = 86_400.0
    audit_logs: Sequence[str] = ()
    before: str = ""

    @property
    def default_namespace(self) -> str:
        """The namespace of a name that has none."""
        return self.namespace or "default"

    def includes(self, namespace: str) -> bool:
        """Report whether Pods of a namespace are listed without a name."""
        return self.namespace in ("", namespace)

    def post_mortem(self) -> PostMortem | None:
        """Read the audit logs and the earlier snapshot; None if neither is given. Raises SourceError."""
        if not (self.before or self.audit_logs):
            return None
        records = PostMortem(
            load_cluster(self.before).snapshot() if self.before else None, self.name.rpartition("/")[2]
        )
        for path in self.audit_logs:
            try:
                records.read(audit_events(path))
            except SourceError as fault:
                raise WrongFile(fault.file, fault.problem, fix=fault.fix) from None
        return records

    def evidence(self) -> Evidence:
        """Return empty Evidence for the Pod or workload. Raises InvalidInput."""
        first, *others = (_evidence(rest, namespace) for namespace, rest in meanings(self.name, self.default_namespace))
        first.otherwise = others[0] if others else None
        return first


def _evidence(name: str, namespace: str) -> Evidence:
    kind, _, own = name.rpartition("/")
    of_kind = kind_named(kind) if namespace and own else ""
    return Evidence(namespace, own, of_kind) if of_kind else Evidence(*pod_key(f"{namespace}/{name}", namespace))


@dataclass(frozen=True, repr=False)
class PodWhy(Result):
    """The output of `forewarn why` for a Pod. `key`: `namespace/name`. `nodes`: for a Pending Pod, why nodes do not
    fit.

    `reported`: type of a condition, or reason of an Event -> its message. `missing`: what the answer lacks, for example
    Events. `preempted`: the Pods that it preempted, according to Events, conditions and audit logs. `autoscalers`:
    their reaction to a Pod that fits on no node. `age`: seconds since a Pending Pod was created.
    """

    key: Hidden[str]
    cluster: Hidden[ClusterSnapshot]
    diagnosis: Inlined[Diagnosis]
    nodes: Sequence[CountedReason]
    reported: Mapping[str, str]
    missing: Sequence[str]
    preempted: Sequence[PreemptedPod] = ()
    autoscalers: Autoscalers | None = None
    age: Hidden[float] = 0.0
    fixes: Hidden[Sequence[Fix]] = ()
    workload_now: Hidden[Sequence[Shown]] = ()
    has_before: Hidden[bool] = False
    """Whether an earlier snapshot was passed."""

    @inlined_in_json
    def document(self) -> AnswerDocument:
        return why_answer.pod_document(self)

    @property
    def conditions(self) -> set[str]:
        """The state, and each `id` of `troubles`."""
        return {self.diagnosis.state, *ids(self.diagnosis.troubles)}

    @in_json
    def id(self) -> str:
        return self.key

    @optional_in_json
    def priority(self) -> int | None:
        return None if (pod := self.diagnosis.pod) is None else pod.effective_priority

    @optional_in_json
    def node(self) -> str | None:
        return None if (pod := self.diagnosis.pod) is None else pod.node_name

    @optional_in_json
    def nominated_node(self) -> str | None:
        return None if (pod := self.diagnosis.pod) is None else pod.nominated_node_name


@dataclass(frozen=True, repr=False)
class WorkloadWhy(Result):
    """The output of `forewarn why` for a workload. `missing`: what the answer lacks, for example Events.

    `replicas`: how many Pods a Deployment, StatefulSet, ReplicaSet, DaemonSet or Job wants, or the next Job of a
    CronJob if some of its Pods would be rejected. `notCreated`: how many of these do not exist, or would be rejected.
    `creationFailure`: why these are not created; empty if unknown. `inactive`: why the controller creates no Pods or
    no new ones, such as `suspended`; absent if it does. `kueue`: what Kueue decides about a suspended Job; absent if it
    does not manage it.
    """

    namespace: Hidden[str]
    name: Hidden[str]
    kind: str
    timeline: Inlined[Timeline]
    missing: Sequence[str]
    replicas: int | None = None
    not_created: int = 0
    creation_failure: str = ""
    inactive: str | None = None
    kueue: QueuedJob | None = None

    @inlined_in_json
    def document(self) -> AnswerDocument:
        return why_answer.workload_document(self)

    @property
    def key(self) -> str:
        """The workload as `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def conditions(self) -> set[str]:
        """The states of Pods, and each `id` of their `troubles`; of Pending Pods, only of the first."""
        return {*self.timeline.states, *self.timeline.ids}

    @in_json
    def id(self) -> str:
        return self.key


class PendingGroup(NamedTuple):
    """Pending Pods of a class with the same cause. `suchAs`: the first of them. `pods`: their number."""

    priority_class: str
    priority: int
    pods: int
    such_as: str
    cause: str


class NotCreated(NamedTuple):
    """Pods of a workload that its controller cannot create: `pods` of `replicas`. `cause`: why."""

    workload: str
    pods: int
    replicas: int
    cause: str


class PreemptedPod(NamedTuple):
    """A Pod that was preempted. `workload`: of a Pod that no longer exists, by its name.
    `by`: the preemptor. `byClass`: its PriorityClass, if known. `time`: in UTC. `source`: where it is from, `Event`,
    `audit log` or `condition`.
    """

    pod: str
    workload: str
    priority: int | None
    by: str
    node: str
    time: str
    source: str = "Event"
    by_class: str | None = None


@dataclass(frozen=True, repr=False)
class ClusterWhy(Result):
    """The output of `forewarn why` without a name.

    `pending`: the Pending Pods by class and cause, the highest priority first. `notCreated`: the Pods that controllers
    cannot create, by workload, most first. `preempted`: in the period (default: 24
    hours), according to Events, conditions and audit logs. Placeholder Pods are only in `preemptedPlaceholders`.
    `pendingPlaceholders`: the number of Pending placeholder Pods. `missing`: what the answer lacks, such as Events.
    """

    pending: Sequence[PendingGroup]
    not_created: Sequence[NotCreated]
    preempted: Sequence[PreemptedPod]
    pending_placeholders: int
    preempted_placeholders: Sequence[PreemptedPod]
    missing: Sequence[str]
    period: Hidden[float] = 86_400.0
    """The seconds before now in which Pods were preempted."""
    oldest: Hidden[float] = 0.0
    """The time of the oldest Event, if nothing else is missing, and earlier preemptions are unknown."""
    fixes: Hidden[Sequence[Fix]] = ()
    gone: Hidden[Sequence[tuple[str, str, str]]] = ()
    """Other Pods that no longer exist, with the user who deleted them and the time, if known."""
    namespace: Hidden[str] = ""
    has_before: Hidden[bool] = False
    """Whether an earlier snapshot was passed."""

    @inlined_in_json
    def document(self) -> AnswerDocument:
        return why_answer.cluster_document(self)

    @property
    def conditions(self) -> set[str]:
        """The conditions of `--fail-on` that are met."""
        return {"pending"} if self.pending else set()


def why(cluster: Cluster, request: WhyRequest | str = "") -> PodWhy | WorkloadWhy | ClusterWhy:
    """Explain the state of a Pod or workload, with Events from the sources of the cluster, or list Pending Pods.

    Returns a PodWhy for a Pod, a WorkloadWhy for a workload, and a ClusterWhy without a name. `request`: a WhyRequest,
    or its name alone. Raises SourceError, InvalidObject and InvalidInput.
    """
    request = WhyRequest(request) if isinstance(request, str) else request
    evidence = request.evidence() if request.name else PreemptionEvents()
    cache = load_cluster(*cluster.sources, into=Cache(collect=evidence.collect))
    cache.semantics = cluster.cache.semantics
    return explain(cache.snapshot(), request, evidence, cluster.sources, lambda: cluster.autoscaling)


_NO_REQUEST: Final = WhyRequest()


def explain_all(
    cluster: ClusterSnapshot,
    events: PreemptionEvents,
    sources: Sequence[str],
    request: WhyRequest = _NO_REQUEST,
    records: PostMortem | None = None,
) -> ClusterWhy:
    """List the Pending Pods of a cluster, and the Pods that were preempted according to Events and `records`. Raises
    InvalidInput for an unknown namespace.
    """
    if request.namespace and (unknown := unknown_namespace(cluster, request.namespace)):
        raise InvalidInput(unknown.removeprefix("; "))
    missing = _read_preemptions(sources, events)
    if not events.read and not any(has_events(source, "preemptions") for source in sources):
        missing.append(NO_EVENTS)
    now = max(events.latest, seconds(cluster.origin.time))
    found = preempted_since(cluster, events, now - request.since, now, records)
    victims, placeholders = _listed(found, request, _placeholder_workloads(cluster, records))
    fixes: Sequence[Fix] = ()
    gone = list[tuple[str, str, str]]()
    if records is not None:
        fixes, untried = _preventions(cluster, victims, records)
        missing += [*untried, *records.notes]
        gone = records.disappeared(cluster, (each.pod for each in found))
        gone = [each for each in gone if request.includes(each[0].partition("/")[0])]
        if more := sum(not by for _, by, _ in gone):
            pods = plural(more, "Pod no longer exists", "Pods no longer exist")
            missing.append(f"{pods} since {request.before}, and nothing shows why")
    oldest = 0.0
    if events.read and (records is None or not records.has_audit_log) and events.earliest > now - request.since:
        oldest = 0.0 if missing else events.earliest
        earlier = f"the oldest Event is of {shown_time(events.earliest)}: earlier preemptions are unknown"
        missing.append(f"{earlier}. Fix: --audit-log FILE")
    pending, pending_placeholders = _pending_groups(cluster, request)
    return ClusterWhy(
        *(head_of(cluster), pending, _all_not_created(cluster, request), victims),
        *(pending_placeholders, placeholders, missing),
        request.since,
        oldest,
        fixes,
        gone,
        request.namespace,
        bool(request.before),
    )


def _read_preemptions(sources: Sequence[str], events: PreemptionEvents) -> list[str]:
    """Read Events about preemptions from running clusters; return why that fails, and how many are left out."""
    try:
        for source in sources:
            for obj in objects_of(source, "preemptions"):
                events.collect(obj)
    except SourceError as fault:
        return [f"Events not read: {brief(str(fault), LONG)}"]
    return [f"{plural(events.left_out, 'Event')} about more preempted Pods not shown"] * bool(events.left_out)


def _listed(
    preempted: Iterable[PreemptedPod], request: WhyRequest, of_placeholders: Collection[str]
) -> tuple[Sequence[PreemptedPod], Sequence[PreemptedPod]]:
    """Return the preempted Pods of a request, and the placeholder Pods among them."""
    included = (each for each in preempted if request.includes(each.pod.partition("/")[0]))
    by_kind = grouped((each.workload in of_placeholders, each) for each in included)
    return by_kind.get(False, []), by_kind.get(True, [])


def _placeholder_workloads(cluster: ClusterSnapshot, records: PostMortem | None) -> set[str]:
    """Return the workloads of placeholder Pods, including those in the earlier snapshot."""
    pods = [*cluster.pods.values(), *(records.before.pods.values() if records and records.before else ())]
    return {cluster.top_workload_of(pod) for pod in pods if is_placeholder(pod, Options())}


def _all_not_created(cluster: ClusterSnapshot, request: WhyRequest) -> list[NotCreated]:
    rows = (
        NotCreated(str(workload.ref), found.missing, found.wanted, shorten(found.why))
        for workload, found in all_missing(cluster)
        if group_kind(workload.object) != CRON_JOB and request.includes(workload.ref.namespace)
    )
    return sorted(rows, key=lambda row: -row.pods)


def _pending_groups(cluster: ClusterSnapshot, request: WhyRequest) -> tuple[Sequence[PendingGroup], int]:
    """Return the Pending Pods by class and cause, and the number of placeholder Pods, which are not among them."""
    pods: dict[tuple[int, str, str], list[str]] = {}
    placeholders = 0
    for pod, known, prediction in all_pending(cluster):
        if not request.includes(pod.namespace):
            continue
        if is_placeholder(pod, Options()):
            placeholders += 1
            continue
        why = why_answer.cause_of(prediction, cluster) if prediction is not None else known
        pods.setdefault((-pod.effective_priority, pod.priority_class_name, why), []).append(pod.key)
    return [
        PendingGroup(name, -negative, len(keys), min(keys), cause)
        for (negative, name, cause), keys in sorted(pods.items(), key=lambda each: (each[0][0], -len(each[1]), each[0]))
    ], placeholders


def preempted_since(
    cluster: ClusterSnapshot, events: PreemptionEvents, since: float, now: float, records: PostMortem | None
) -> list[PreemptedPod]:
    """Return the Pods that were preempted between two times, the newest first: of Events, and then those that only
    conditions or audit logs show.
    """
    found: dict[str, tuple[float, PreemptedPod]] = {}
    for key, event in events.recent_victims(now - since, now):
        by, preemptor = named_by(cluster, event)
        if records is not None and by and preemptor is None and not event.by[1]:
            by = records.preemptor(event.by[2], event.node, event.when) or by
        found[key] = (event.when, _preempted(cluster, records, key, by, event.node, event.when))
    for pod in cluster.pods.values():
        if pod.preempted and pod.key not in found:
            preemptor = preemptor_of(cluster, pod, None)
            when, by = events.conditions.get(pod.key, 0.0), preemptor.key if preemptor else ""
            of_pod = _preempted(cluster, records, pod.key, by, pod.node_name, when)
            found[pod.key] = (when or now, of_pod._replace(source="condition"))
    for each in records.deletions(cluster, since) if records is not None else ():
        _, known = found.get(each.pod, (0.0, _NOT_RECORDED))
        if not known.time or (each.by and known.by == UNKNOWN):
            of_log = _preempted(cluster, records, each.pod, each.by or known.by, each.node, each.when)
            found[each.pod] = (each.when, of_log._replace(source=known.source))
    return [pod for _, pod in sorted(found.values(), key=lambda each: (-each[0], each[1].pod))]


UNKNOWN: Final = "unknown"
"""The preemptor of a Pod if nothing names it."""
_NOT_RECORDED: Final = PreemptedPod("", "", None, "", "", "", source="audit log")
"""A Pod that only audit logs show."""


def _preempted(
    cluster: ClusterSnapshot, records: PostMortem | None, key: str, by: str, node: str, when: float
) -> PreemptedPod:
    namespace, _, name = key.partition("/")
    pod = _pod_of(cluster, records, key)
    workload, priority = _former_workload(cluster, namespace, name)
    if pod is not None:
        workload, priority = cluster.top_workload_of(pod), pod.effective_priority
    preemptor = _pod_of(cluster, records, by)
    of_class = preemptor.priority_class_name if preemptor is not None else ""
    return PreemptedPod(key, workload, priority, by or UNKNOWN, node, shown_time(when), by_class=of_class or None)


def _former_workload(cluster: ClusterSnapshot, namespace: str, name: str) -> tuple[str, int | None]:
    """Return the workload of a Pod that no longer exists, by its name, and the priority of its new Pods if known."""
    own = [key for key in cluster.workloads if key[1] == namespace and name.startswith(f"{key[2]}-")]
    workload, priority = min(own, key=lambda key: len(key[2]), default=("", namespace, name)), None
    with suppress(Forbidden, InvalidObject):
        if own and (template := pod_template_of(cluster.workloads[workload].object, POD_TEMPLATE_PATHS)) is not None:
            given = template.spec.get("priorityClassName") or ""
            priority = establish_new_priority(given, cluster.namespace(namespace), cluster.priority_classes).priority
    return f"{namespace}/{workload[2]}", priority


def _pod_of(cluster: ClusterSnapshot, records: PostMortem | None, key: str) -> Pod | None:
    """Return the Pod `namespace/name` from the cluster, or else from the earlier snapshot."""
    namespace, _, name = key.partition("/")
    return cluster.pods.get((namespace, name)) or (records.former(namespace, name) if records is not None else None)


_MAX_PREVENTED: Final = 20
"""Maximum number of preemptors whose scheduling cycles are repeated."""


def _preventions(
    cluster: ClusterSnapshot,
    victims: Sequence[PreemptedPod],
    records: PostMortem,
    workloads: Collection[str] | None = None,
) -> tuple[Sequence[Fix], Sequence[str]]:
    """Return what would have prevented preemptions, by simulation of the earlier snapshot with the first preemptors,
    and why that is missing. `workloads`: count only victims of these (default: all).
    """
    in_order = sorted(victims, key=lambda victim: (victim.time, victim.by))
    workloads = {victim.workload for victim in victims} if workloads is None else workloads
    if records.before is None or not workloads:
        return [], []
    keys = islice(dict.fromkeys(victim.by for victim in in_order if victim.by != UNKNOWN), _MAX_PREVENTED)
    preemptors = [pod for key in keys if (pod := _pod_of(cluster, records, key)) is not None]
    if not preemptors:
        return [], ["no fix was tried: the preemptors are unknown"]
    fixes = [*preventions(records.before, preemptors, workloads, len(victims))]
    other = f"no fix was tried: in the earlier snapshot, the preemptors preempt none of {listed(sorted(workloads), 2)}"
    return fixes, [] if fixes else [other]


def explain(
    cluster: ClusterSnapshot,
    request: WhyRequest,
    evidence: Evidence | PreemptionEvents,
    sources: Sequence[str],
    autoscaling: Callable[[], Autoscaling],
) -> PodWhy | WorkloadWhy | ClusterWhy:
    """Explain a Pod or workload. `evidence`: what the load of the cluster collected. `sources`: of the cluster.
    `autoscaling`: returns the settings of autoscalers, for a Pod that fits on no node. Raises SourceError.
    """
    records = request.post_mortem()
    names = [cluster.origin.cluster, *request.audit_logs, *([f"{request.before} (before)"] if request.before else [])]
    origin = replace(cluster.origin, cluster=", ".join(names))
    cluster = replace(cluster, origin=origin)
    if isinstance(evidence, PreemptionEvents):
        return explain_all(cluster, evidence, sources, request, records)
    evidence.records = records
    if evidence.otherwise is not None:
        evidence.otherwise.records = records
    result = _explain(cluster, request, evidence, sources)
    prediction = result.diagnosis.prediction if isinstance(result, PodWhy) else None
    if isinstance(result, PodWhy) and prediction is not None and prediction.outcome == "pending":
        pending = PendingPods.from_predictions([prediction], cluster)
        return replace(result, autoscalers=explained(pending, autoscaling()))
    return result


def _explain(
    cluster: ClusterSnapshot, request: WhyRequest, evidence: Evidence, sources: Sequence[str]
) -> PodWhy | WorkloadWhy:
    """Explain a Pod or workload."""
    pod = evidence.otherwise
    if pod is None or evidence.exists or unknown_namespace(cluster, pod.namespace):
        return _explained(cluster, request, evidence, sources)
    if (pod.namespace, pod.name) in cluster.pods:
        return _explained(cluster, request, pod, sources)
    try:
        return _explained(cluster, request, evidence, sources)
    except InvalidInput as no_workload:
        try:
            return _explained(cluster, request, pod, sources)
        except InvalidInput as no_pod:
            fix = no_pod.fix or f"pass -n NAMESPACE, or write pod/{pod.name}"
            raise InvalidInput(f"{no_workload.reason}; {no_pod.problem}", fix=fix) from None


def _explained(
    cluster: ClusterSnapshot, request: WhyRequest, evidence: Evidence, sources: Sequence[str]
) -> PodWhy | WorkloadWhy:
    """Explain the Pod or workload of `evidence`."""
    evidence.forget()
    _read_events(sources, evidence)
    now = time.time() if evidence.is_live else evidence.latest or None
    if evidence.kind == POD:
        return _pod(cluster, request, evidence, sources, now)
    return _workload(cluster, evidence, now)


def _pod(
    cluster: ClusterSnapshot, request: WhyRequest, evidence: Evidence, sources: Sequence[str], now: float | None
) -> PodWhy:
    namespace, name = evidence.namespace, evidence.name
    pod, key = cluster.pods.get((namespace, name)), f"{namespace}/{name}"
    diagnosis = (
        _gone_pod_diagnosis(cluster, evidence, name) if pod is None else _pod_diagnosis(cluster, pod, evidence, now)
    )
    if diagnosis is None:
        raise _not_found(cluster, request, evidence)
    prediction = diagnosis.prediction
    reasons = why_not(prediction) if prediction is not None and prediction.outcome == "pending" else ()
    is_bound = pod is not None and bool(pod.node_name)
    missing = evidence.missing() if diagnosis.state != "pending" or is_bound or evidence.not_read else []
    if pod is None or pod.effective_priority > 0:  # other Pods preempt hardly any Pod
        missing = [*dict.fromkeys([*missing, *_read_preemptions(sources, evidence.preemptions)])]
    messages = _messages(evidence, pod.uid if pod is not None else "")
    head = head_of(cluster, prediction.assumes if prediction is not None else ())
    age = now - pod.created if now and pod is not None and pod.created and diagnosis.state == "pending" else 0.0
    nodes, counts = list(starmap(CountedReason, reasons)), [*_workload_now(cluster, evidence)]
    victims, fixes, untried = _own_preemptions(cluster, evidence, key)
    missing += untried
    records = head, key, cluster, diagnosis, nodes, messages, missing, victims
    return PodWhy(*records, None, max(age, 0.0), fixes, counts, bool(request.before))


_KINDS: Final = ", ".join(sorted(kind.rpartition("/")[2].lower() for kind in POD_TEMPLATE_PATHS))


def _not_found(cluster: ClusterSnapshot, request: WhyRequest, evidence: Evidence) -> Exception:
    """Return the error for a Pod that is not in the cluster and has no records."""
    namespace, name = evidence.namespace, evidence.name
    key, (problem, fix) = f"{namespace}/{name}", pod_not_found(cluster, namespace, name)
    if namespace != request.default_namespace and unknown_namespace(cluster, namespace):
        fix = f"for a workload, write KIND/NAME; known: {_KINDS}"
    problem += quota_hint(cluster, namespace)
    if evidence.not_read:  # these could show that the Pod was deleted
        return SourceError(key, "; ".join([with_fix(problem, fix), *evidence.missing()]))
    if evidence.lacks_events and not fix:
        why, fix = WITHOUT_EVENTS
        problem += f"; nothing is known of deleted Pods: {why}"
    return InvalidInput(f"{key}: {problem}", fix=fix)


def _own_preemptions(
    cluster: ClusterSnapshot, evidence: Evidence, key: str
) -> tuple[Sequence[PreemptedPod], Sequence[Fix], Sequence[str]]:
    """Return the Pods that a Pod preempted, what would have prevented its own preemption, and why this is missing."""
    events, records = evidence.preemptions, evidence.records
    preempted = preempted_since(cluster, events, 0.0, events.latest, records)
    of_it = [each for each in preempted if each.by == key]
    if records is None:
        return of_it, [], []
    placeholders = _placeholder_workloads(cluster, records)
    others = [each for each in preempted if each.workload not in placeholders]
    own = {each.workload for each in others if each.pod == key}
    return of_it, *_preventions(cluster, others, records, own)


def _gone_pod_diagnosis(cluster: ClusterSnapshot, evidence: Evidence, name: str) -> Diagnosis | None:
    """Explain why a Pod no longer exists, by Events, audit logs and an earlier snapshot; None without any of these."""
    diagnosis, records = deleted_pod_diagnosis(cluster, evidence, name), evidence.records
    if records is None:
        return diagnosis
    troubles = diagnosis.troubles if diagnosis is not None else ()
    deletions = {each.pod: each for each in records.deletions(cluster, 0.0)}
    deletion, former = deletions.get(f"{evidence.namespace}/{name}"), records.former(evidence.namespace, name)
    if deletion is not None and not (troubles and troubles[0].id == "preempted" and deletion.by == ""):
        on = f" on {deletion.node}" if deletion.node else ""
        by = f" by {deletion.by}" if deletion.by else "; the log does not name the preemptor"
        preempted = Trouble("preempted", f"preempted{on}{by} (audit log)", "", deletion.when)
        troubles = (preempted, *(each for each in troubles if each.id != "preempted"))
    elif request := records.request(evidence.namespace, name, former.created if former is not None else None):
        troubles = _add_user(troubles or (Trouble("deleted", ""),), request)
    elif diagnosis is None and former is not None:
        was = f"it ran on {former.node_name}" if former.node_name else "it was Pending"
        text = f"{was} in the earlier snapshot (priority {former.effective_priority:,}); nothing shows what deleted it"
        fix = "" if records.has_audit_log else "pass --audit-log FILE: Events live an hour by default"
        troubles = (Trouble("deleted", text, fix),)
    return Diagnosis(former, "gone", troubles) if troubles else None


def _pod_diagnosis(cluster: ClusterSnapshot, pod: Pod, evidence: Evidence, now: float | None) -> Diagnosis:
    """Explain a Pod of the cluster, by audit logs, too."""
    diagnosis, records = diagnose(cluster, pod, evidence, now), evidence.records
    request = records.request(pod.namespace, pod.name, pod.created) if records is not None else None
    return diagnosis._replace(troubles=_add_user(diagnosis.troubles, request)) if request is not None else diagnosis


def _add_user(troubles: Iterable[Trouble], request: Request) -> tuple[Trouble, ...]:
    """Return the troubles, with the user of a request that deleted or evicted the Pod."""
    kind, did = ("evicted-by-api", "evicted") if request.evicts else ("deleted", "deleted")
    words = f"{did} by {request.user}"
    return tuple(
        Trouble(kind, f"{words} (audit log)", each.help, request.when, words)
        if each.id in ("deleted", "evicted-by-api")
        else each
        for each in troubles
    )


def _workload_now(cluster: ClusterSnapshot, evidence: Evidence) -> Iterator[Shown]:
    """Yield the running and Pending Pods, earlier and now, of the workload of a Pod that no longer exists."""
    before, key = evidence.records.before if evidence.records is not None else None, (evidence.namespace, evidence.name)
    if before is None or key not in before.pods or key in cluster.pods:
        return
    workload = before.top_workload_of(before.pods[key])
    then, now = (
        [each for each in state.pods.values() if not each.terminal and state.top_workload_of(each) == workload]
        for state in (before, cluster)
    )
    running, after = (sum(bool(each.node_name) for each in pods) for pods in (then, now))
    yield Shown(f"{workload}: running", running, after=after)
    yield Shown("Pending", len(then) - running, after=len(now) - after)


def _workload(cluster: ClusterSnapshot, evidence: Evidence, now: float | None) -> WorkloadWhy:
    pods, kind = timeline(cluster, evidence, now), evidence.kind.rpartition("/")[2]
    if not evidence.workload and not pods.states:
        near, fix = elsewhere(cluster, evidence.kind, evidence.namespace, evidence.name)
        problem = f"{kind} {evidence.namespace}/{evidence.name} not found, and no Event names its Pods"
        raise InvalidInput(f"{problem}{near}", fix=fix, reason=problem)
    replicas, not_created, failure = _not_created(cluster, evidence, pods, now)
    return WorkloadWhy(
        *(head_of(cluster), evidence.namespace, evidence.name, kind, pods, evidence.missing()),
        replicas=replicas,
        not_created=not_created,
        creation_failure=failure,
        inactive=_inactive(evidence.workload),
        kueue=suspended_job(cluster, evidence.workload),
    )


_MAX_REASON_LENGTH: Final = 60
_STOPPED: Final = {"suspend": "suspended", "paused": "paused"}
"""Boolean field in the spec of a workload -> the word for a workload in which it is true."""


def _inactive(obj: ApiObject) -> str | None:
    """Return why a workload's controller creates no Pods, or no new ones; None if it creates them."""
    job = job_record(obj) if group_kind(obj) == JOB else None
    if job is not None and job.failed is not None:
        return f"failed ({brief(job.failed.reason or job.failed.type, _MAX_REASON_LENGTH)})"
    if job is not None and is_finished(obj):
        return "complete"
    if job is not None and at(obj, "spec", "parallelism") == 0:
        return "parallelism 0"
    return next((word for field, word in _STOPPED.items() if at(obj, "spec", field) is True), None)


_COUNTED: Final = ("running", "not-ready", "pending")


def _not_created(
    cluster: ClusterSnapshot, evidence: Evidence, pods: Timeline, now: float | None
) -> tuple[int | None, int, str]:
    """Return the wanted replicas, how many of these do not exist, and why they are not created."""
    obj = evidence.workload
    states = (*_COUNTED, *(("terminating", "preempted") if counts_terminating(obj) else ()))
    existing = sum(pods.states[state] for state in states) + pods.not_explained
    if evidence.kind == DAEMON_SET:
        wanted = _wanted_daemons(cluster, obj)
        missing = max((wanted or 0) - existing, 0)
        why = (
            shorten(rejection_in(evidence.events.creation_failure() or next_rejection(cluster, obj))) if missing else ""
        )
        return wanted, missing, brief(why, LONG)
    found = missing_pods(cluster, obj, existing, evidence.events.creation_failure()) if obj else None
    if found is None:
        return None, 0, ""
    why = shorten(found.why)
    if found.waits_for is not None and (causes := diagnose(cluster, found.waits_for, evidence, now)).troubles:
        why += f" ({causes.first.words})"
    return found.wanted, found.missing, brief(why, LONG)


def _wanted_daemons(cluster: ClusterSnapshot, obj: ApiObject) -> int | None:
    """Return the number of nodes that should run a Pod of a DaemonSet; None if unknown."""
    with suppress(InvalidObject):
        template = pod_template_of(obj, POD_TEMPLATE_PATHS)
        return count_daemons(cluster, obj, template.object) if template and cluster.objects.nodes else None
    return None


def _read_events(sources: Sequence[str], evidence: Evidence) -> None:
    """Read Events about the Pod, its owners and its node from running clusters into the evidence.

    If reading fails, `evidence.not_read` gives the reason.
    """
    try:
        for source in filter(has_events, sources):
            evidence.is_live = True
            for name in evidence.event_names():
                _add_events(source, evidence.namespace, name, evidence)
            if node := evidence.node():
                _add_events(source, "", node, evidence)
    except SourceError as fault:
        evidence.not_read = brief(str(fault), LONG)


def _add_events(source: str, namespace: str, name: str, evidence: Evidence) -> None:
    for obj in objects_of(source, "events", namespace, name):
        evidence.events.add(obj)


def _messages(evidence: Evidence, uid: str) -> dict[str, str]:
    """Return the messages of the Pod's conditions by type, and of its Events by reason."""
    record = evidence.pods.get(evidence.name)
    conditions = {
        condition.type: cut(condition.message, LONG)
        for condition in (record.conditions if record is not None else ())
        if condition.type in ("PodScheduled", "DisruptionTarget") and condition.message
    }
    return {**conditions, **evidence.events.messages_of(evidence.name, uid)}
