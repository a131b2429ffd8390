"""The replacements of preempted Pods that have the same outcome in every order of events, so that they need no
simulation.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.cluster.admission import admitted
from forewarn.policies.kubernetes.controllers.job import JobStatus, stored_status, wanted_pods
from forewarn.policies.kubernetes.controllers.new_pods import replicas_of
from forewarn.policies.kubernetes.controllers.own_pods import owned_pods_of
from forewarn.policies.kubernetes.controllers.templates import made_of, template_of, without_hash
from forewarn.policies.kubernetes.kinds.registry import DEPLOYMENT, JOB, REPLICA_SET
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, ref_of
from forewarn.policies.kubernetes.objects.workload import backoff_limit
from forewarn.policies.kubernetes.scheduling.plugins.pod_topology_spread import DO_NOT_SCHEDULE, PodTopologySpread
from forewarn.policies.kubernetes.scheduling.responsible import framework_of, has_constraints, not_predicted
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.prediction.forecast.placement import ChargedQuotas

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.controllers.view import Key
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.plugins.pod_topology_spread import Constraints
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

_CREATING: Final = 100
"""Units of work to create a Pod from a template."""
_MAY_FAIL: Final = ("podFailurePolicy", "activeDeadlineSeconds", "backoffLimitPerIndex")
"""Fields of a Job with which it may fail before its backoffLimit is reached, or wait for terminating Pods."""


def pending_replacements(
    cluster: ClusterSnapshot,
    snapshot: Snapshot,
    emptied: Callable[[], Snapshot],
    victims: Mapping[Key | None, Sequence[Pod]],
    preemptor: Pod,
) -> int | None:
    """Return how many replacements of these victims stay Pending; None if this may depend on the order of events.
    Raises CutShort and InvalidObject.

    `snapshot`: with the preemptors, which are like `preemptor`, and their terminating victims; `emptied`: returns it
    without the victims. `victims`: by controller. kube-scheduler tries all preemptors before the replacements. Every
    replacement either fits, because it fits on as many nodes as there are such replacements, each of which uses one
    node; or fits nowhere, even after preemption and when all victims have terminated.
    """
    if preemptor.spec.pod_affinity.has_required_anti_affinity:
        return None
    replacements = _replacements(cluster, victims, preemptor)
    if replacements is None:
        return None
    for key, pod in replacements.items():
        others = [other for one, other in replacements.items() if one != key or len(victims[key]) > 1]
        if not _is_independent(pod, [preemptor, *others], snapshot):
            return None
    predictions = {key: Prediction(snapshot, pod) for key, pod in replacements.items()}
    fitting = sum(len(victims[key]) for key, prediction in predictions.items() if prediction.fits)
    if not all(p.outcome == "pending" or len(p.feasible) >= fitting for p in predictions.values()):
        return None
    pending = [key for key, prediction in predictions.items() if not prediction.fits]
    if pending:
        later = emptied()
        if any(Prediction(later, replacements[key]).outcome != "pending" for key in pending):
            return None
    return sum(len(victims[key]) for key in pending)


def _replacements(
    cluster: ClusterSnapshot, victims: Mapping[Key | None, Sequence[Pod]], preemptor: Pod
) -> dict[Key, Pod] | None:
    """Return controller -> one of the Pods that it creates; None if it is not certain that the controllers replace all
    victims, that quotas admit the replacements, and that kube-scheduler tries the preemptors before.
    """
    quotas = ChargedQuotas(cluster)
    replacements: dict[Key, Pod] = {}
    for victim in chain.from_iterable(victims.values()):
        quotas.release(victim)
    for key, pods in victims.items():
        workload = None if key is None else cluster.workload(*key)
        if key is None or workload is None or not _recreates(cluster, workload.object, len(pods)):
            return None
        charge(_CREATING)
        pod = admitted(made_of(pods[0].namespace, workload.object, template_of(workload.object)), cluster)
        is_shared = pod.namespace == preemptor.namespace and cluster.quotas_of(pod.namespace)
        if is_shared or quotas.admit(workload.object, [pod] * len(pods))[0] < len(pods):
            return None
        if pod.effective_priority >= preemptor.effective_priority:
            return None
        replacements[key] = pod
    return replacements


def _is_independent(pod: Pod, others: Sequence[Pod], snapshot: Snapshot) -> bool:
    """Report whether forewarn predicts a Pod, and other Pods exclude no node by its required constraints."""
    if not_predicted(pod, snapshot):
        return False
    affinity, framework = pod.spec.pod_affinity, framework_of(snapshot, pod)
    if not has_constraints(pod.spec, framework):
        return True
    if affinity.required_affinity or pod.spec.has_storage:
        return False
    counts = PodTopologySpread.name in framework.profile.plugins
    spread = framework.plugin(PodTopologySpread.name).constraints_of(pod, DO_NOT_SCHEDULE) if counts else ()
    return not any(_concerns(pod, spread, other, snapshot) for other in others)


def _concerns(pod: Pod, spread: Constraints, other: Pod, snapshot: Snapshot) -> bool:
    """Report whether the Pod's required anti-affinity or these constraints match another Pod."""
    terms = pod.spec.pod_affinity.required_anti_affinity
    charge(1 + len(spread) + len(terms))
    labels = snapshot.namespace_labels(other.namespace)
    counted = other.namespace == pod.namespace and any(constraint.matches(other.labels) for constraint in spread)
    return counted or any(term.matches(pod.namespace, other.namespace, other.labels, labels) for term in terms)


def _recreates(cluster: ClusterSnapshot, obj: ApiObject, victims: int) -> bool:
    """Report whether the controller of a ReplicaSet or Job replaces each of this number of victims, and only those."""
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
    return group_kind(obj) == REPLICA_SET and replicas_of(obj) == running and _is_rolled_out(cluster, obj)


def _is_rolled_out(cluster: ClusterSnapshot, replica_set: ApiObject) -> bool:
    """Report whether the Deployment of a ReplicaSet, if there is one, has no other Pods to create or delete."""
    ref = ref_of(replica_set, "default")
    stored = cluster.workload(REPLICA_SET, ref.namespace, ref.name)
    kind, name = stored.controller if stored else ("", "")
    deployment = cluster.workload(kind, ref.namespace, name) if kind == DEPLOYMENT else None
    if deployment is None:
        return True
    has_all = replicas_of(deployment.object) == replicas_of(replica_set)
    return has_all and template_of(deployment.object) == without_hash(template_of(replica_set))
