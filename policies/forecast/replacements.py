"""Predict the Pods that controllers create to replace evicted Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.cluster.admission import admitted
from forewarn.policies.controllers.daemon_set import on_node
from forewarn.policies.controllers.job import only_replaces_failed
from forewarn.policies.controllers.own_pods import selector_of
from forewarn.policies.controllers.recreated import Recreator, again, has_lost_owner
from forewarn.policies.controllers.templates import made_of, template_of
from forewarn.policies.controllers.view import controller_of
from forewarn.policies.copies import replace
from forewarn.policies.kinds.registry import DAEMON_SET, DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET
from forewarn.policies.kube_apiserver.defaults import with_limit_range_defaults
from forewarn.policies.metering import CutShort, charge
from forewarn.policies.objects.extent import check_extent, check_metadata_extent
from forewarn.policies.objects.fields import NOTHING, InvalidObject, at, mapping
from forewarn.policies.objects.workload import fails_with_one_pod

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.controllers.view import Key
    from forewarn.policies.kube_apiserver.quota import RemainingQuota
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.workload import Workload


_AFTER_TERMINATION: Final = (STATEFUL_SET, DAEMON_SET)
"""Kinds whose controllers create the new Pod, under the same name, after the old one has terminated."""
_MAKING: Final = 100
"""Units of work to create a Pod from a template."""


def recreator_of(pod: Pod, cluster: ClusterSnapshot, recreated: Collection[str]) -> Recreator:
    """Return what recreates a deleted Pod. `recreated`: see `again`."""
    owner = controller_in(cluster, pod)
    return again(pod, recreated, is_there=owner is not None and owner in cluster.workloads)


def controller_in(cluster: ClusterSnapshot, pod: Pod) -> Key | None:
    """Return the controller of a Pod; if it is a ReplicaSet that the cluster state does not have, the Deployment that
    selects the Pod and has no other ReplicaSet.
    """
    owner = controller_of(pod)
    if owner is None or owner[0] != REPLICA_SET or owner in cluster.workloads:
        return owner
    workloads = cluster.workloads_of(pod.namespace)
    charge(len(workloads))
    complete = {workload.controller for workload in workloads.values()}
    deployments = ((key, workload.object) for key, workload in workloads.items() if key[0] == DEPLOYMENT)
    selecting = (key for key, obj in deployments if (key[0], key[2]) not in complete and _selects(obj, pod))
    return next(selecting, owner)


def _selects(deployment: ApiObject, pod: Pod) -> bool:
    try:
        selector = selector_of(deployment)
    except InvalidObject:
        return False
    return not selector.empty and selector.matches(pod.labels)


def is_recreated(pod: Pod, cluster: ClusterSnapshot, recreated: Collection[str], evicted: Collection[str]) -> bool:
    """True if a controller recreates a deleted Pod. `evicted`: identities of Pods that no longer run."""

    def runs(namespace: str, name: str) -> bool:
        found = cluster.pods.get((namespace, name))
        return found is not None and not found.terminating and not found.terminal and found.identity not in evicted

    return recreator_of(pod, cluster, recreated) is Recreator.CONTROLLER and not has_lost_owner(pod, runs)


class _Made(NamedTuple):
    """A Pod of a template. `spec`: the Pod spec as quotas count it; empty if the namespace has no quota."""

    pod: Pod
    spec: ApiObject


class Replacements:
    """The replacement Pods of one cascade. `numbers`: sequence numbers for unique names. `recreated`: see `again`."""

    def __init__(
        self,
        cluster: ClusterSnapshot,
        remaining_quota: RemainingQuota,
        numbers: Iterator[int],
        recreated: Collection[str],
    ) -> None:
        self._cluster, self._remaining_quota, self._numbers, self._recreated = (
            cluster,
            remaining_quota,
            numbers,
            recreated,
        )
        self._templates: dict[Key, _Made | None] = {}
        self._counted: dict[tuple[int, int], ApiObject] = {}
        """(milli CPU, bytes of memory) -> a Pod spec with these requests."""
        self.evicted: set[str] = set()
        """Identities of the victims so far, which recreate no Pods."""

    def of(self, victim: Pod) -> Pod | None:
        """Return the replacement of a victim; None if no controller creates one, the Job fails, or admission rejects
        it. Raises CutShort, and InvalidObject for an unreadable Job.
        """
        if not is_recreated(victim, self._cluster, self._recreated, self.evicted):
            return None
        if (job := self._job(victim)) is not None and fails_with_one_pod(job.object):
            return None
        try:
            new_pod = self._made(controller_in(self._cluster, victim))
        except CutShort:
            raise
        except InvalidObject:
            return None
        number = next(self._numbers)
        name, uid = f"{victim.name}+{number}", f"{victim.identity}+{number}"
        if new_pod is not None and victim.owner_kind not in _AFTER_TERMINATION:
            return replace(new_pod.pod, name=name, uid=uid)
        same = replace(victim, name=name, uid=uid, node_name="", nominated_node_name="", start_time=None, ready=False)
        if victim.owner_kind == DAEMON_SET and same.spec.node_affinity.required is not None:
            same = on_node(same, victim.node_name)
        if new_pod is None:
            if same.spec.too_large:
                raise CutShort(same.spec.too_large)
            return same
        return replace(
            same,
            priority=new_pod.pod.priority,
            preemption_policy=new_pod.pod.preemption_policy,
            priority_class_name=new_pod.pod.priority_class_name,
        )

    def follows_termination(self, victim: Pod) -> bool:
        """Report whether the controller creates the replacement only after the victim has terminated.

        Raises InvalidObject.
        """
        job = self._job(victim)
        return victim.owner_kind in _AFTER_TERMINATION or (job is not None and only_replaces_failed(job.object))

    def _job(self, victim: Pod) -> Workload | None:
        key = controller_of(victim)
        return self._cluster.workload(*key) if key is not None and victim.owner_kind == JOB else None

    def _made(self, key: Key | None) -> _Made | None:
        """Return a Pod of the workload's template after admission, which may set a newer default PriorityClass.

        None if the workload is unknown. Raises InvalidObject and CutShort.
        """
        if key is None:
            return None
        if key not in self._templates:
            workload = self._cluster.workload(*key)
            charge(_MAKING)
            self._templates[key] = None if workload is None else self._of_template(key[1], workload.object)
        return self._templates[key]

    def _of_template(self, namespace: str, owner: ApiObject) -> _Made:
        template = template_of(owner)
        check_extent(at(template, "spec"))
        check_metadata_extent(at(template, "metadata"))
        obj = made_of(namespace, owner, template)
        pod = admitted(obj, self._cluster)
        if not self._remaining_quota.limits(namespace):
            return _Made(pod, NOTHING)
        ranges = self._cluster.limit_ranges_of(namespace)
        return _Made(pod, mapping(with_limit_range_defaults(obj, ranges, self._cluster.semantics), "spec"))

    def as_counted(self, pod: Pod) -> ApiObject:
        """Return a Pod as an API object for quotas: the template of its workload with the PriorityClass of the Pod.

        If the workload is unknown, or its template now has other requests, the object has the requests that
        kube-scheduler counts and no limits.
        """
        try:
            new_pod = self._made(controller_in(self._cluster, pod))
        except InvalidObject:
            new_pod = None
        if new_pod is None or new_pod.pod.occupies != pod.occupies:
            counted = pod.occupies.resource.milli_cpu, pod.occupies.resource.memory
            requests = {"cpu": f"{counted[0]}m", "memory": str(counted[1])}
            made_up: ApiObject = {"containers": [{"name": "", "resources": {"requests": requests}}]}
            spec = self._counted.setdefault(counted, made_up)
        else:
            spec = new_pod.spec
        return {
            "metadata": {"namespace": pod.namespace},
            "spec": {**spec, "priorityClassName": pod.priority_class_name},
        }
