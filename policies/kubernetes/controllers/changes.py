"""The effects of a change to a workload: the Pods that its controller creates, in order, and the Pods that it
deletes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.copies import replace
from forewarn.policies.kubernetes.controllers import CONTROLLERS, stateful_set
from forewarn.policies.kubernetes.controllers.daemon_set import surge_and_unavailable
from forewarn.policies.kubernetes.controllers.deployment import is_paused, is_rolling, max_surge, max_unavailable
from forewarn.policies.kubernetes.controllers.job import is_finished
from forewarn.policies.kubernetes.controllers.own_pods import (
    Chained,
    DaemonPods,
    count_daemons,
    creates_pods_later,
    has_replica_set,
    is_of_template,
    needed,
    new_pods,
    pods_of,
    replicas_of,
    without_missing_claims,
)
from forewarn.policies.kubernetes.controllers.replica_set import spec_replicas
from forewarn.policies.kubernetes.controllers.templates import made_of
from forewarn.policies.kubernetes.kinds.registry import JOB_TEMPLATE, ROLLED_OUT
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, int32, mapping, ref_of, text
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import PodTemplate, applied_to, pod_template_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod


_MAX_STEPS: Final = 500
"""The maximum number of Pods of a StatefulSet whose updates are evaluated one after the other."""


@dataclass(frozen=True, slots=True)
class PodChange:
    """The new Pods of a change to a workload or bare Pod.

    - `pods`: in order of creation. `own`: the workload's running Pods.
    - `deleted`: index in `pods` -> Pods of the workload that terminate before that Pod is created; the others are still
      on their nodes.
    - `window`: a rollout creates no more Pods while this many new Pods do not run; None: all Pods are created at once.
    - `one_by_one`: each Pod is created when the Pod before it runs.
    - `deleted_first`: number of old Pods that are deleted before the first new Pod is scheduled. `keeps_old`: old Pods
      that `pods` replace still exist at that time.
    - `workload`: the changed object, or the next Job of a CronJob, if a simulation can run its controller.
    - `rolled_out`: the object is stored, and its controller rolls out the new template. `under_way`: a rollout has
      already begun; if the workload also grows, some of the first Pods have an old template.
    - `pod_object`: the API object of each new Pod, if a simulation can run no controller that creates the Pods.
    """

    pods: Sequence[Pod] = ()
    own: tuple[Pod, ...] = ()
    deleted: Mapping[int, Sequence[Pod]] = field(default_factory=dict)
    window: int | None = None
    one_by_one: bool = False
    deleted_first: int = 0
    keeps_old: bool = False
    workload: ApiObject | None = None
    pod_object: ApiObject | None = None
    rolled_out: bool = False
    under_way: bool = False
    replaces_none: bool = False
    """Whether the updateStrategy replaces no existing Pod (OnDelete, or a partition above all ordinals)."""
    without_claims: bool = False
    """Whether to ignore volumes whose claims are created together with the Pods."""
    creates_claims: bool = False
    """Whether a simulation can create these claims."""

    @property
    def is_at_once(self) -> bool:
        """Whether all Pods are created before a new one runs or an old one terminates."""
        return not (self.one_by_one or self.rolled_out or any(self.deleted.values()))


def pod_change(
    subject: ReviewedObject,
    cluster: ClusterSnapshot,
    paths: Mapping[str, tuple[str, ...]],
    *,
    pods_defaulted: bool = False,
) -> PodChange:
    """Return the effects of a change. Raises InvalidObject.

    `paths`: paths of Pod templates by kind. `pods_defaulted`: whether LimitRanger has already set the defaults of a
    bare Pod; it sets those of Pods of a template at their creation.
    """
    metadata = mapping(subject.object, "metadata")
    obj: ApiObject = {**subject.object, "metadata": {**metadata, "namespace": subject.ref.namespace}}
    template = pod_template_of(obj, paths)
    if template is None or subject.operation not in (Operation.CREATE, Operation.UPDATE):
        return PodChange()
    if not template.is_template:
        return _single(subject, obj, cluster, pods_defaulted=pods_defaulted)
    old = subject.old or _stored(subject, cluster)
    obj = obj if old is None else _with_replicas(obj, old) if subject.old is not None else applied_to(old, obj)
    own, stored = tuple(pods_of(cluster, obj)), None if old is None else pod_template_of(old, paths)
    template = pod_template_of(obj, paths) or template
    same = stored is not None and stored.object == template.object
    if group_kind(obj) == "apps/Deployment" and is_paused(obj):
        stored = template_while_paused(cluster, obj, old, own, paths)
        if stored is None:
            return PodChange(own=own)
        template, same = stored, True
    elif group_kind(obj) == "apps/Deployment" and is_paused(old):
        same = has_replica_set(cluster, obj, template.object)
    change = _changed_workload(cluster, obj, old, template.object, own, paths, same=same)
    if not change.pods:
        return change
    if group_kind(obj) not in CONTROLLERS:
        return replace(change, pod_object=made_of(subject.ref.namespace, obj, template.object))
    return replace(change, workload=_next_run(obj) if creates_pods_later(obj) else obj)


def template_while_paused(
    cluster: ClusterSnapshot,
    obj: ApiObject,
    old: ApiObject | None,
    own: tuple[Pod, ...],
    paths: Mapping[str, tuple[str, ...]],
) -> PodTemplate | None:
    """Return the template of new Pods of a paused Deployment: the stored one; None if there are no ReplicaSets.

    Source: pkg/controller/deployment, `syncDeployment`: while it is paused only its ReplicaSets are scaled.
    """
    stored = None if old is None else pod_template_of(old, paths)
    return stored if stored and (own or has_replica_set(cluster, obj, stored.object)) else None


def _next_run(obj: ApiObject) -> ApiObject:
    """Return a Job as a CronJob creates it, without its owner."""
    ref = ref_of(obj)
    metadata = {"namespace": ref.namespace, "name": f"{ref.name}-0"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": at(obj, *JOB_TEMPLATE, "spec")}


def _with_replicas(obj: ApiObject, old: ApiObject) -> ApiObject:
    """Return the object with the stored replicas if it has none."""
    replicas, spec = at(old, "spec", "replicas"), mapping(obj, "spec")
    is_kept = replicas is not None and spec.get("replicas") is None
    return {**obj, "spec": {**spec, "replicas": replicas}} if is_kept else obj


def _changed_workload(
    cluster: ClusterSnapshot,
    obj: ApiObject,
    old: ApiObject | None,
    template: ApiObject,
    own: tuple[Pod, ...],
    paths: Mapping[str, tuple[str, ...]],
    *,
    same: bool,
) -> PodChange:
    """Return the effects of a change to a workload. `old`: the stored object. `own`: the workload's running Pods.

    `same`: whether the template is the stored one, or has a ReplicaSet.
    """
    if old is not None and (_is_over(old) or (same and replicas_of(old) == replicas_of(obj))):
        return PodChange(own=own)  # no new Pods, even if a rollout is in progress
    grows = old is not None and replicas_of(obj) > replicas_of(old)
    if own and not same:
        before = pod_template_of(old, paths) if old is not None and grows else None
        change = _rollout(cluster, obj, template, own, before.object if before else None)
        return change if old is None or group_kind(obj) not in ROLLED_OUT else replace(change, rolled_out=True)
    under_way = _scaled_while_rolled_out(cluster, obj, template, own) if grows and _rolls_out(obj) else None
    change = under_way or _scaled(cluster, obj, template, own)
    simulated = change.without_claims and group_kind(obj) in ROLLED_OUT
    return replace(change, creates_claims=True) if simulated else change


def not_yet_scheduled(
    obj: ApiObject, wanted: int, cluster: ClusterSnapshot, paths: Mapping[str, tuple[str, ...]]
) -> Sequence[Pod]:
    """Return the Pods of a newly admitted object that are not scheduled yet. `wanted`: how many Pods the object
    requests.

    For an ordered StatefulSet, only the first such Pod. Raises InvalidObject.
    """
    from forewarn.policies.kubernetes.cluster.admission import with_priority
    from forewarn.policies.kubernetes.objects.pod import Pod

    template = pod_template_of(obj, paths)
    if template is None:
        return ()
    if not template.is_template:
        ref = ref_of(obj, "default")
        stored = cluster.pods.get((ref.namespace, ref.name))
        pod = stored or without_missing_claims(with_priority(Pod.from_api(obj), cluster), cluster)
        return () if _has_a_place(pod) or pod.terminal or pod.terminating else (pod,)
    placed = [pod for pod in pods_of(cluster, obj) if _has_a_place(pod)]
    pods = new_pods(cluster, obj, template.object, wanted, placed).pods
    return pods[:1] if is_ordered(obj) else pods


def not_yet_created(
    obj: ApiObject, wanted: int, cluster: ClusterSnapshot, paths: Mapping[str, tuple[str, ...]]
) -> tuple[ApiObject, int]:
    """Return a Pod of a newly admitted object, and how many such Pods are not created yet. `wanted`: how many Pods the
    object requests.

    Raises InvalidObject.
    """
    template = pod_template_of(obj, paths)
    ref = ref_of(obj, "default")
    if template is None or not template.is_template:
        return obj, int(template is not None and (ref.namespace, ref.name) not in cluster.pods)
    missing = max(wanted - len(pods_of(cluster, obj)), 0)
    return made_of(ref.namespace, obj, template.object), min(missing, 1) if is_ordered(obj) else missing


def _has_a_place(pod: Pod) -> bool:
    return bool(pod.node_name or pod.nominated_node_name)


def _scaled(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, own: tuple[Pod, ...]) -> PodChange:
    """Return the missing Pods of a workload whose template does not change. `own`: its running Pods."""
    pods, bare = (new := new_pods(cluster, obj, template, own=own)).pods, new.without_claims
    return PodChange(arriving(cluster, obj, pods, own), own, one_by_one=is_ordered(obj), without_claims=bare)


def arriving(
    cluster: ClusterSnapshot, obj: ApiObject, missing: Sequence[Pod], own: Sequence[Pod] | None = None
) -> Sequence[Pod]:
    """Return the missing Pods without those that an ordered StatefulSet creates after its Pending Pod runs.

    `own`: the existing Pods; None: found by `pods_of`.
    """
    if not is_ordered(obj):
        return missing
    own = pods_of(cluster, obj) if own is None else own
    waits = _first_pending(obj, own)
    return missing if waits is None else _lower_ordinals(obj, own, missing, waits)


def creates_no_pods(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]], *, fewer: bool = False) -> bool:
    """Report whether an update changes neither the Pods of an object nor their number.

    `fewer`: also return True for a smaller number. For a Pod: whether kube-scheduler has nothing to do. Raises
    InvalidObject.
    """
    old = subject.old
    if subject.operation is not Operation.UPDATE or old is None:
        return False
    new, stored = pod_template_of(subject.object, paths), pod_template_of(old, paths)
    if new is None or stored is None or new.is_template != stored.is_template:
        return False
    if not new.is_template:
        return not _is_let_go(old, subject.object)
    if is_paused(old) != is_paused(subject.object) or new.object != stored.object:
        return False
    count, before = replicas_of(subject.object), replicas_of(old)
    return count == before or (fewer and count < before)


def _is_over(old: ApiObject) -> bool:
    """Report whether the object is a Job that creates no more Pods."""
    return group_kind(old) == "batch/Job" and is_finished(old)


def is_ordered(obj: ApiObject) -> bool:
    """Report whether each Pod is created after the Pod before it runs."""
    return group_kind(obj) == "apps/StatefulSet" and not stateful_set.allows_burst(obj)


def _first_pending(obj: ApiObject, own: Sequence[Pod]) -> int | None:
    """Return the ordinal of the Pending Pod for which a StatefulSet waits; None if there is no such Pod."""
    return stateful_set.blocking_ordinal(
        obj, (stateful_set.ordinal_of(pod.name, ref_of(obj).name) for pod in own if not _has_a_place(pod))
    )


def _lower_ordinals(obj: ApiObject, own: Sequence[Pod], missing: Sequence[Pod], ordinal: int) -> Sequence[Pod]:
    """Return the missing Pods whose ordinals are lower than `ordinal`."""
    name, start = ref_of(obj).name, stateful_set.start_ordinal(obj)
    present = sum(start <= stateful_set.ordinal_of(pod.name, name) < ordinal for pod in own)
    return missing[: ordinal - start - present]


def _single(subject: ReviewedObject, obj: ApiObject, cluster: ClusterSnapshot, *, pods_defaulted: bool) -> PodChange:
    """Return the effects of creating a bare Pod, or of removing its last scheduling gate."""
    from forewarn.policies.kubernetes.cluster.admission import admitted, with_priority
    from forewarn.policies.kubernetes.objects.pod import Pod

    if subject.old is not None and not _is_let_go(subject.old, obj):
        return PodChange()
    pod = with_priority(Pod.from_api(obj), cluster) if pods_defaulted else admitted(obj, cluster)
    whole = without_missing_claims(pod, cluster)
    return PodChange((whole,), without_claims=whole is not pod, pod_object=obj)


def _is_let_go(old: ApiObject, obj: ApiObject) -> bool:
    """Report whether an update removes the Pod's last scheduling gate. kube-scheduler ignores the Pod until then."""
    return bool(at(old, "spec", "schedulingGates")) and not at(obj, "spec", "schedulingGates")


def _stored(subject: ReviewedObject, cluster: ClusterSnapshot) -> ApiObject | None:
    workload = cluster.workload(group_kind(subject.object), subject.ref.namespace, subject.ref.name)
    return workload.object if workload else None


def _rollout(
    cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, own: tuple[Pod, ...], before: ApiObject | None
) -> PodChange:
    """Return the effects of a changed template, as the kind's controller rolls it out.

    `before`: the template of existing Pods, if the workload also grows.
    """
    kind = group_kind(obj)
    if kind == "apps/Deployment":
        return _deployment_change(cluster, obj, template, own, before)
    if kind == "apps/StatefulSet":
        return _stateful_set_change(cluster, obj, template, own)
    if kind == "apps/DaemonSet":
        return _daemon_set_change(cluster, obj, template, own)
    return PodChange(new_pods(cluster, obj, template, own=own).pods, own)


def _deployment_change(
    cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, own: tuple[Pod, ...], before: ApiObject | None
) -> PodChange:
    """Return the effects of a changed template of a Deployment.

    New Pods are created while old ones run or are terminating; each new Pod that runs allows the next. If the
    Deployment also grows, missing Pods of the old template (`before`) are first: pkg/controller/deployment,
    `syncDeployment`, scales before it rolls out.
    """
    replicas = replicas_of(obj)
    if not is_rolling(obj):  # Pods of the old template are deleted before they are scheduled
        pods = new_pods(cluster, obj, template, len(own) + replicas, own).pods
        return PodChange(pods, own, {0: own}, replicas, deleted_first=len(own))
    missing = new_pods(cluster, obj, before, own=own).pods if before is not None else ()
    pods = new_pods(cluster, obj, template, len(own) + len(missing) + replicas, own).pods[len(missing) :]
    surge, unavailable = min(max_surge(obj, replicas), replicas), max_unavailable(obj, replicas)
    arriving = Chained(missing, pods) if missing else pods
    most = max(surge + unavailable, 1)
    return PodChange(arriving, own, {}, most, deleted_first=min(unavailable, len(own)), keeps_old=True)


def _rolls_out(obj: ApiObject) -> bool:
    return group_kind(obj) == "apps/Deployment" and is_rolling(obj) and not is_paused(obj)


def _scaled_while_rolled_out(
    cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, own: tuple[Pod, ...]
) -> PodChange | None:
    """Return the effects of raising the replicas of a Deployment during its rollout; None if it has no old Pods, or no
    ReplicaSet for the template yet.

    All its ReplicaSets grow. The Deployment may already have as many Pods as requested, or more, because of surge Pods.
    Source: pkg/controller/deployment, `scale`.
    """
    new = sum(is_of_template(cluster, obj, template, own))
    if new == len(own) or not has_replica_set(cluster, obj, template):
        return None
    surge, unavailable = max_surge(obj, replicas_of(obj)), max_unavailable(obj, replicas_of(obj))
    missing = max(replicas_of(obj) - new, replicas_of(obj) + surge - len(own), 0)
    pods = new_pods(cluster, obj, template, len(own) + missing, own).pods
    return PodChange(pods, own, window=max(surge + unavailable, 1), keeps_old=True, rolled_out=True, under_way=True)


def replaces_no_pods(obj: ApiObject) -> bool:
    """Report whether an updateStrategy replaces no existing Pod: OnDelete, or a partition above all ordinals."""
    strategy = mapping(obj, "spec", "updateStrategy")
    partition = int32(strategy, "rollingUpdate", "partition") or 0
    return text(strategy, "type") == "OnDelete" or partition >= max(spec_replicas(obj), 1)


def _stateful_set_change(
    cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, own: tuple[Pod, ...]
) -> PodChange:
    """Return the effects of a changed template of a StatefulSet.

    Missing ordinals are created first, then Pods are replaced, from the highest ordinal to the lowest, `maxUnavailable`
    at a time.
    """
    missing = new_pods(cluster, obj, template, own=own).pods
    if (waits := _first_pending(obj, own)) is not None:
        return PodChange(_lower_ordinals(obj, own, missing, waits), own, one_by_one=True)
    if replaces_no_pods(obj):
        return PodChange(missing, own, one_by_one=is_ordered(obj), replaces_none=True)
    name, requested = ref_of(obj).name, stateful_set.requested_ordinals(obj)
    least = requested.start + (int32(obj, "spec", "updateStrategy", "rollingUpdate", "partition") or 0)
    ordinals = {stateful_set.ordinal_of(pod.name, name): pod for pod in own}
    due = sorted((n for n in ordinals if n >= least and n in requested), reverse=True)[:_MAX_STEPS]
    if not due:
        return PodChange(missing, own, replaces_none=True)
    limit = stateful_set.max_unavailable_of_set(obj, cluster.semantics)
    ended: dict[int, Sequence[Pod]] = {}
    successors: list[Pod] = []
    for first in range(0, len(due), limit):
        together = due[first : first + limit]
        ended[len(missing) + len(successors)] = tuple(ordinals[number] for number in together)
        successors += (_ordinal(cluster, obj, template, number) for number in reversed(together))
    deleted_first = min(limit, len(due))
    return PodChange(Chained(missing, successors), own, ended, 1, one_by_one=True, deleted_first=deleted_first)


def _ordinal(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, number: int) -> Pod:
    """Return the Pod with the ordinal `number`, with the volumes of its existing claims."""
    only = {**obj, "spec": {**mapping(obj, "spec"), "ordinals": {"start": number}}}
    return new_pods(cluster, only, template, 1, ()).pods[0]


def _daemon_set_change(
    cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, own: tuple[Pod, ...]
) -> PodChange:
    """Return the effects of a changed template of a DaemonSet.

    Nodes without a Pod get a Pod. On other nodes, the old Pod terminates first, unless the DaemonSet surges.
    """
    everywhere = new_pods(cluster, obj, template, own=()).pods
    on_delete = replaces_no_pods(obj)
    if on_delete or not isinstance(everywhere, DaemonPods):
        return PodChange(new_pods(cluster, obj, template, own=own).pods, own, replaces_none=on_delete)
    surge, unavailable = surge_and_unavailable(obj, len(everywhere))
    nodes = frozenset(everywhere.nodes)
    if surge:
        return PodChange(everywhere, own, keeps_old=True)
    ended = tuple(pod for pod in own if pod.node_name in nodes)
    return PodChange(everywhere, own, {0: ended}, deleted_first=min(unavailable, len(ended)))


class Arrivals(NamedTuple):
    """The number of Pods that a workload requests. `surge`: further Pods during a rollout."""

    replicas: int = 1
    surge: int = 0


def arrivals(obj: ApiObject, template: ApiObject, old: ApiObject | None, cluster: ClusterSnapshot | None) -> Arrivals:
    """Return the number of Pods that an object with a Pod template requests. `old`: the stored object, for missing
    fields.

    A Job counts its parallelism, or the Pods that the stored Job still needs; a CronJob, one run; a DaemonSet, one Pod
    for each node that should run it, or one Pod if no nodes are known. Raises InvalidObject.
    """
    kind = group_kind(obj)
    if kind == "apps/DaemonSet":
        replicas = count_daemons(cluster, obj, template) if cluster and cluster.objects.nodes else 1
        return Arrivals(replicas, min(surge_and_unavailable(obj, replicas)[0], replicas))
    given = at(obj, "spec", "replicas") is not None
    is_own = given or kind in ("batch/Job", "batch/CronJob")
    replicas = replicas_of(obj) if old is None else needed(obj if is_own else old, old)
    surge = min(max_surge(obj, replicas), replicas) if kind == "apps/Deployment" else 0
    return Arrivals(replicas, surge)


def present(obj: ApiObject, old: ApiObject, template: ApiObject, cluster: ClusterSnapshot | None) -> int:
    """Return how many of the Pods that an object requests exist already. `old`: the stored object.

    The number is in the status of `old`, or is counted in the cluster state; if neither has Pods, it is the number that
    `old` requests. A CronJob creates its next run in addition to active runs, unless its concurrencyPolicy forbids
    this. Raises InvalidObject.
    """
    if group_kind(obj) == "batch/CronJob" and text(obj, "spec", "concurrencyPolicy", default="Allow") == "Allow":
        return 0
    replicas = int32(old, "status", _STATUS.get(group_kind(old), "replicas"))
    if replicas is not None:
        return max(replicas, 0)
    if at(old, "status", "observedGeneration") is not None:
        return 0  # the controller omits a count of 0
    if cluster is not None and cluster.pods_of(ref_of(obj, "default").namespace):
        return len(pods_of(cluster, obj))
    return arrivals(old, template, None, cluster).replicas


_STATUS: Final = {"apps/DaemonSet": "currentNumberScheduled", "batch/Job": "active"}
