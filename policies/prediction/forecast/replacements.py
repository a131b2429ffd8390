"""Three subjects: replacements of preempted Pods that have the same outcome in every order of events, so that they need
no simulation; why an effect is not predicted: components decide it that forewarn does not simulate; the Pods of a
stored workload that do not exist, and why its controller cannot create them.

docs/guides/predict.md has the table of these components; a test compares both.
"""

from __future__ import annotations

from itertools import chain, filterfalse
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import quote
from forewarn.policies.base.metering import charge, charging
from forewarn.policies.kubernetes.cluster.admission import admitted
from forewarn.policies.kubernetes.controllers.job import JobStatus, only_replaces_failed, stored_status, wanted_pods
from forewarn.policies.kubernetes.controllers.own_pods import is_rolled_out, needed, owned_pods_of, pods_of, replicas_of
from forewarn.policies.kubernetes.controllers.stateful_set import blocking_ordinal, ordinal_of, requested_ordinals
from forewarn.policies.kubernetes.controllers.templates import made_of, template_of
from forewarn.policies.kubernetes.kinds.registry import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    LOCAL_QUEUE,
    PRIORITY_CLASS,
    QUEUE_LABEL,
    REPLICA_SET,
    STATEFUL_SET,
)
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    at,
    boolean,
    group_kind,
    int32,
    mapping,
    ref_of,
    text,
    text_at,
)
from forewarn.policies.kubernetes.objects.node import HOSTNAME
from forewarn.policies.kubernetes.objects.workload import Workload, backoff_limit, is_managed_elsewhere, replica_failure
from forewarn.policies.kubernetes.scheduling.event_handlers import responsible_for_pod
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.plugins.pod_topology_spread import DO_NOT_SCHEDULE, PodTopologySpread
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.prediction.forecast.placement import ChargedQuotas, new_pods_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.controllers.view import Key
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


def unknown_replacement(
    victims: Iterable[Pod], cluster: ClusterSnapshot, *, counts_failures: bool = False
) -> str | None:
    """Return why the effects of preempting these Pods are not predicted; None if they are. Raises InvalidObject.

    `counts_failures`: whether the earlier failures of the indexes of Jobs are known.
    """
    for victim in victims:
        if not responsible_for_pod(victim, cluster.semantics.scheduler_names):
            scheduler = quote(victim.spec.scheduler_name)
            return f"scheduler {scheduler} may bind the replacement of {victim.key} to its node first, again and again"
        job = None if victim.owner is None else cluster.workload(victim.owner_kind, victim.namespace, victim.owner.name)
        if job is not None and victim.owner_kind == JOB and (why := _unknown_job(job.object, counts_failures)):
            return f"Job {victim.namespace}/{job.ref.name} {why}"
    return None


def _unknown_job(job: ApiObject, counts_failures: bool) -> str | None:
    if not counts_failures and int32(job, "spec", "backoffLimitPerIndex") is not None:
        return "has backoffLimitPerIndex: its index may fail"
    return f"is managed by {text(job, 'spec', 'managedBy')}" if is_managed_elsewhere(job) else None


def started_elsewhere(obj: ApiObject, cluster: ClusterSnapshot) -> tuple[int, str] | None:
    """Return the number of Pods of an object that Kueue starts, and why forewarn does not predict them: the object is a
    suspended Job, or another kind in a cluster with LocalQueues. None for other objects. Raises InvalidObject.
    """
    kind = group_kind(obj)
    queue = next((name for path in _QUEUE_LABELS if (name := at(obj, *path, QUEUE_LABEL))), None)
    waits = boolean(obj, "spec", "suspend") if kind == JOB else kind != DAEMON_SET and cluster.kueue.get(LOCAL_QUEUE)
    if not isinstance(queue, str) or not waits:
        return None
    running = {**obj, "spec": {**mapping(obj, "spec"), "suspend": False}}
    return replicas_of(running), f"Kueue starts the {kind.rpartition('/')[2]} by its queue {quote(queue)}"


_QUEUE_LABELS: Final = (("metadata", "labels"), ("spec", "jobTemplate", "metadata", "labels"))
"""Paths of the labels that name a queue: those of an object, or of a CronJob's Jobs."""


_CREATING: Final = 100
"""Units of work to create a Pod from a template."""
_MAY_FAIL: Final = ("podFailurePolicy", "activeDeadlineSeconds", "backoffLimitPerIndex")
"""Fields of a Job that may make it fail before its backoffLimit is reached, or wait for terminating Pods."""


def pending_replacements(
    quotas: ChargedQuotas,
    snapshot: Snapshot,
    emptied: Callable[[], Snapshot],
    victims: Mapping[Key | None, Sequence[Pod]],
    preemptor: Pod,
    is_placeholder: Callable[[Pod], bool],
) -> int | None:
    """Return how many replacements of these victims stay Pending; None if this may depend on the order of events.
    Raises CutShort and InvalidObject.

    `quotas`: include the usage of the preemptors. `snapshot`: includes the preemptors, which are like `preemptor`, and
    their terminating victims; `emptied`: returns `snapshot` without the victims. `victims`: controller -> its victims.

    kube-scheduler tries all preemptors before the replacements. Every replacement either fits or fits nowhere, even
    after preemption and when all victims have terminated. All fit if each fits on as many nodes as there are such
    replacements, each of which uses one node; or if they fit in the worst order: those with the fewest nodes last.
    """
    predictions = _predictions(quotas, snapshot, victims, preemptor)
    if predictions is None:
        return None
    for key, one in predictions.items():
        others = [other.pod for name, other in predictions.items() if name != key or len(victims[key]) > 1]
        pairs = (preemptor, one.pod), *((one.pod, pod) for pod in (preemptor, *others))
        if any(concern(*pair, snapshot) for pair in pairs):
            return None
    fitting = [one for key, one in predictions.items() if one.fits for _ in victims[key]]
    is_certain = all(len(one.feasible) >= len(fitting) for one in fitting)
    for one in () if is_certain else sorted(fitting, key=lambda one: -len(one.feasible)):
        prediction = Prediction(snapshot, one.pod)
        if not prediction.fits:
            return None
        snapshot = prediction.snapshot_after()
    pending = {key: one.pod for key, one in predictions.items() if not one.fits}
    if any(Prediction(emptied(), pod).outcome != "pending" for pod in pending.values()):
        return None
    return len([*filterfalse(is_placeholder, chain.from_iterable(map(victims.__getitem__, pending)))])


def concern(pod: Pod, other: Pod, snapshot: Snapshot, moved: int | None = None) -> bool:
    """Report whether required constraints of a Pod match another Pod. Raises CutShort.

    `moved`: ignore constraints that limit each node by itself, also after this many Pods are created or evicted; None:
    consider them.
    """
    affinity, framework = pod.spec.pod_affinity, framework_of(snapshot, pod)
    apart = [t for t in charging(affinity.required_anti_affinity) if moved is None or t.topology_key != HOSTNAME]
    labels = snapshot.namespace_labels(other.namespace)
    terms = charging((*affinity.required_affinity, *apart))
    if any(term.matches(pod.namespace, other.namespace, other.labels, labels) for term in terms):
        return True
    if pod.namespace != other.namespace or PodTopologySpread.name not in framework.profile.plugins:
        return False
    plugin = framework.plugin(PodTopologySpread.name)
    matching = (c for c in charging(plugin.constraints_of(pod, DO_NOT_SCHEDULE)) if c.matches(other.labels))
    return any(moved is None or c.topology_key != HOSTNAME or not plugin.keeps_zero(pod, c, moved) for c in matching)


def _predictions(
    quotas: ChargedQuotas, snapshot: Snapshot, victims: Mapping[Key | None, Sequence[Pod]], preemptor: Pod
) -> dict[Key, Prediction] | None:
    """Return controller -> the prediction of one of its replacement Pods; None if the outcome is not certain.

    It is certain if the controllers replace all victims, quotas admit the replacements, kube-scheduler tries the
    preemptors first, and no replacement preempts.
    """
    predictions: dict[Key, Prediction] = {}
    cluster = quotas.cluster
    for victim in chain.from_iterable(victims.values()):
        quotas.release(victim)
    # Those of the highest priority are the first to preempt.
    for key, pods in sorted(victims.items(), key=lambda item: -item[1][0].effective_priority):
        workload = None if key is None else cluster.workload(*key)
        if key is None or workload is None or not _recreates(cluster, workload, len(pods)):
            return None
        charge(_CREATING)
        pod = admitted(made_of(pods[0].namespace, workload.object, template_of(workload.object)), cluster)
        depends = pod.spec.pod_affinity.required_affinity or pod.spec.has_storage
        if depends or pod.effective_priority >= preemptor.effective_priority:
            return None
        if quotas.admit(workload.object, [pod] * len(pods))[0] < len(pods):
            return None
        predictions[key] = Prediction(snapshot, pod)
        if predictions[key].outcome not in ("fits", "pending"):
            return None
    return predictions


def _recreates(cluster: ClusterSnapshot, workload: Workload, victims: int) -> bool:
    """Report whether the controller of a ReplicaSet or Job replaces these victims, and creates no other Pods."""
    obj = workload.object
    own = owned_pods_of(cluster, obj)
    running = sum(not pod.terminal and not pod.terminating for pod in own)
    if at(obj, "metadata", "deletionTimestamp") or any(pod.terminating for pod in own):
        return False
    if group_kind(obj) == JOB:
        if any(at(obj, "spec", field) is not None for field in _MAY_FAIL) or (
            len(own) > running and not at(obj, "status")
        ):
            return False
        status = stored_status(obj, ()) or JobStatus()
        may_go_on = not (status.finished or status.failure) and status.failed + victims <= backoff_limit(obj)
        return may_go_on and wanted_pods(obj, status._replace(active=running - victims)) == running
    if group_kind(obj) != REPLICA_SET or replicas_of(obj) != running:
        return False
    kind, name = workload.controller
    deployment = cluster.workload(kind, workload.ref.namespace, name) if kind == DEPLOYMENT else None
    return deployment is None or is_rolled_out(cluster, deployment.object, obj)


_KINDS: Final = (DEPLOYMENT, STATEFUL_SET, REPLICA_SET, "/ReplicationController", JOB)


class MissingPods(NamedTuple):
    """How many Pods of a workload do not exist: `missing` out of `wanted`.

    `why`: the reason, such as kube-apiserver's message; "" if unknown. `waits_for`: the Pod for which a StatefulSet
    waits.
    """

    wanted: int
    missing: int
    why: str = ""
    waits_for: Pod | None = None


def missing_pods(
    cluster: ClusterSnapshot, obj: ApiObject, existing: int | None = None, reported: str = ""
) -> MissingPods | None:
    """Return the desired Pods of a workload that do not exist; None for kinds without a desired number of Pods, and for
    unreadable workloads, which the rule parse-error reports.

    For a CronJob without running Pods: the Pods that kube-apiserver would reject if the next Job started now; None for
    other CronJobs.

    `existing`: number of its Pods that the controller counts (default: by the cluster state). `reported`: the message
    of an Event about a rejected Pod.
    """
    kind = group_kind(obj)
    if kind not in (*_KINDS, CRON_JOB) or at(obj, "metadata", "deletionTimestamp"):
        return None
    try:
        return _next_job_pods(cluster, obj) if kind == CRON_JOB else _missing_pods(cluster, obj, existing, reported)
    except InvalidObject:
        return None


def all_missing(cluster: ClusterSnapshot) -> Iterator[tuple[Workload, MissingPods]]:
    """Yield the workloads without a controller whose Pods are not created, and why, by kind and name."""
    for key, workload in sorted(cluster.workloads.items()):
        if (workload.controller[0], key[1], workload.controller[1]) in cluster.workloads:
            continue  # a ReplicaSet of a Deployment, or a Job of a CronJob
        found = missing_pods(cluster, workload.object)
        if found is not None and found.why:
            yield workload, found


def _next_job_pods(cluster: ClusterSnapshot, obj: ApiObject) -> MissingPods | None:
    wanted = needed(obj, obj)
    created, why = (wanted, "") if not wanted or pods_of(cluster, obj) else _rejection(cluster, obj)
    return MissingPods(wanted, wanted - created, why) if why else None


def _missing_pods(cluster: ClusterSnapshot, obj: ApiObject, existing: int | None, reported: str) -> MissingPods:
    wanted = needed(obj, obj)
    if not wanted:
        return MissingPods(0, 0)
    own = [pod for pod in owned_pods_of(cluster, obj) if not pod.terminal] or pods_of(cluster, obj)
    if existing is None:
        existing = sum(not pod.terminating or counts_terminating(obj) for pod in own)
    missing = max(wanted - existing, 0)
    if not missing:
        return MissingPods(wanted, 0)
    waits_for = _waits_for(obj, own)
    if waits_for is not None:
        return MissingPods(wanted, missing, _waiting(waits_for), waits_for)
    why = text_at(replica_failure(obj) or {}, "message") or reported or next_rejection(cluster, obj)
    return MissingPods(wanted, missing, rejection_in(why))


def rejection_in(message: str) -> str:
    """Return why kube-apiserver rejects a Pod, from the message of a controller."""
    return message.rpartition(" is forbidden: ")[2]


def counts_terminating(obj: ApiObject) -> bool:
    """Report whether the controller replaces a terminating Pod only after the Pod no longer exists.

    Source: `IsPodActive` in pkg/controller/controller_utils.go; pkg/controller/statefulset, `processReplica`.
    """
    return group_kind(obj) == STATEFUL_SET or (group_kind(obj) == JOB and only_replaces_failed(obj))


def _waits_for(obj: ApiObject, own: Sequence[Pod]) -> Pod | None:
    """Return the Pod for which a StatefulSet waits before it creates further Pods. Source: `processReplica`."""
    if group_kind(obj) != STATEFUL_SET:
        return None
    pods = {ordinal_of(pod.name, ref_of(obj).name): pod for pod in own}
    first = next((number for number in requested_ordinals(obj) if number not in pods), 0)
    blocking = blocking_ordinal(obj, (number for number, pod in pods.items() if not (pod.healthy and pod.node_name)))
    return pods[blocking] if blocking is not None and blocking < first else None


def _waiting(pod: Pod) -> str:
    is_pending = not pod.node_name or pod.phase == "Pending"
    state = "terminating" if pod.terminating else "Pending" if is_pending else "not ready"
    return f"podManagementPolicy OrderedReady waits for {pod.name}, which is {state}"


def next_rejection(cluster: ClusterSnapshot, obj: ApiObject) -> str:
    """Return why kube-apiserver would reject the next Pod; "" if it would not."""
    created, why = _rejection(cluster, obj)
    return "" if created else why


def _rejection(cluster: ClusterSnapshot, obj: ApiObject) -> tuple[int, str]:
    """Return how many of the next Pods kube-apiserver would create, and why it would reject the one after them; "" if
    it would not.
    """
    try:
        return ChargedQuotas(cluster).admit(obj, new_pods_of(cluster, obj)[0].pods)
    except InvalidObject as fault:
        is_unknown = fault.path[-1:] == ("priorityClassName",) and PRIORITY_CLASS in cluster.objects.unlisted
        return 0, "" if is_unknown else fault.problem
