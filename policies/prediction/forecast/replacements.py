"""The replacements of preempted Pods that have the same outcome in every order of events, so that they need no
simulation; and why an effect is not predicted: what components decide that forewarn does not simulate.

docs/guides/predict.md has the table of these components; a test compares both.
"""

from __future__ import annotations

from itertools import chain, filterfalse
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import quote
from forewarn.policies.base.metering import charge, charging
from forewarn.policies.kubernetes.cluster.admission import admitted
from forewarn.policies.kubernetes.controllers.job import JobStatus, stored_status, wanted_pods
from forewarn.policies.kubernetes.controllers.new_pods import is_rolled_out, replicas_of
from forewarn.policies.kubernetes.controllers.own_pods import owned_pods_of
from forewarn.policies.kubernetes.controllers.templates import made_of, template_of
from forewarn.policies.kubernetes.kinds.registry import (
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    LOCAL_QUEUE,
    QUEUE_LABEL,
    REPLICA_SET,
)
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, boolean, group_kind, int32, mapping, text
from forewarn.policies.kubernetes.objects.workload import Workload, backoff_limit, is_managed_elsewhere
from forewarn.policies.kubernetes.scheduling.event_handlers import responsible_for_pod
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_of
from forewarn.policies.kubernetes.scheduling.plugins.pod_topology_spread import DO_NOT_SCHEDULE, PodTopologySpread
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.controllers.view import Key
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.forecast.placement import ChargedQuotas


def unknown_replacement(
    victims: Iterable[Pod], cluster: ClusterSnapshot, *, counts_failures: bool = False
) -> str | None:
    """Return why it is not predicted what follows the preemption of these Pods; None if it is. Raises InvalidObject.

    `counts_failures`: the earlier failures of the indexes of Jobs are known.
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
    """Return the number of Pods of an object that Kueue starts, and why they are not predicted: a suspended Job, or in
    a cluster with LocalQueues another kind. None for other objects. Raises InvalidObject.
    """
    kind = group_kind(obj)
    queue = next((name for path in _QUEUE_LABELS if (name := at(obj, *path, QUEUE_LABEL))), None)
    waits = boolean(obj, "spec", "suspend") if kind == JOB else kind != DAEMON_SET and cluster.kueue.get(LOCAL_QUEUE)
    if not isinstance(queue, str) or not waits:
        return None
    running = {**obj, "spec": {**mapping(obj, "spec"), "suspend": False}}
    return replicas_of(running), f"Kueue starts the {kind.rpartition('/')[2]} by its queue {quote(queue)}"


_QUEUE_LABELS: Final = (("metadata", "labels"), ("spec", "jobTemplate", "metadata", "labels"))
"""The labels with the queue: those of an object, or of a CronJob's Jobs."""


_CREATING: Final = 100
"""Units of work to create a Pod from a template."""
_MAY_FAIL: Final = ("podFailurePolicy", "activeDeadlineSeconds", "backoffLimitPerIndex")
"""Fields of a Job with which it may fail before its backoffLimit is reached, or wait for terminating Pods."""


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

    `quotas`: with the use of the preemptors. `snapshot`: with the preemptors, which are like `preemptor`, and their
    terminating victims; `emptied`: returns it without the victims. `victims`: by controller.

    kube-scheduler tries all preemptors before the replacements. Every replacement either fits, because it fits on as
    many nodes as there are such replacements, each of which uses one node; or fits nowhere, even after preemption and
    when all victims have terminated.
    """
    predictions = _predictions(quotas, snapshot, victims, preemptor)
    if predictions is None:
        return None
    for key, one in predictions.items():
        others = [other.pod for name, other in predictions.items() if name != key or len(victims[key]) > 1]
        pairs = (preemptor, one.pod), *((one.pod, pod) for pod in (preemptor, *others))
        if any(concern(*pair, snapshot) for pair in pairs):
            return None
    fitting = sum(len(victims[key]) for key, one in predictions.items() if one.fits)
    if any(len(one.feasible) < fitting for one in predictions.values() if one.fits):
        return None
    pending = {key: one.pod for key, one in predictions.items() if not one.fits}
    if pending:
        later = emptied()
        if any(Prediction(later, pod).outcome != "pending" for pod in pending.values()):
            return None
    return len([*filterfalse(is_placeholder, chain.from_iterable(map(victims.__getitem__, pending)))])


def concern(pod: Pod, other: Pod, snapshot: Snapshot, but: str = "") -> bool:
    """Report whether required constraints of a Pod match another Pod, apart from anti-affinity of topology key `but`.
    Raises CutShort.
    """
    affinity, framework = pod.spec.pod_affinity, framework_of(snapshot, pod)
    apart = [term for term in charging(affinity.required_anti_affinity) if term.topology_key != but]
    labels = snapshot.namespace_labels(other.namespace)
    terms = charging((*affinity.required_affinity, *apart))
    if any(term.matches(pod.namespace, other.namespace, other.labels, labels) for term in terms):
        return True
    if pod.namespace != other.namespace or PodTopologySpread.name not in framework.profile.plugins:
        return False
    spread = framework.plugin(PodTopologySpread.name).constraints_of(pod, DO_NOT_SCHEDULE)
    return any(constraint.matches(other.labels) for constraint in charging(spread))


def _predictions(
    quotas: ChargedQuotas, snapshot: Snapshot, victims: Mapping[Key | None, Sequence[Pod]], preemptor: Pod
) -> dict[Key, Prediction] | None:
    """Return controller -> the prediction of one of the Pods that it creates; None if it is not certain that the
    controllers replace all victims, that quotas admit the replacements, that kube-scheduler tries the preemptors
    before, and that no replacement preempts.
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
    """Report whether the controller of a ReplicaSet or Job replaces each of this number of victims, and only those."""
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
