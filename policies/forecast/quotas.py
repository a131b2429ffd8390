"""The ResourceQuotas of a cluster while the Pods of one apply are created."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from forewarn.policies.cluster.admission import counted_by_quotas
from forewarn.policies.controllers.templates import made_of
from forewarn.policies.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kube_apiserver.quota import InvalidScope, Pods, first_rejected, matches
from forewarn.policies.objects.extent import check_quota_extent, check_quotas
from forewarn.policies.objects.fields import ref_of
from forewarn.policies.objects.resource_list import add, mask
from forewarn.policies.objects.workload import pod_template_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.resource_quota import ResourceQuota


class ChargedQuotas:
    """The quotas of each namespace, with the use of all Pods so far."""

    def __init__(self, cluster: ClusterSnapshot) -> None:
        self._cluster = cluster
        self._now: dict[str, Sequence[ResourceQuota]] = {}

    def admit(self, obj: ApiObject, pods: Sequence[Pod], *, charge: bool = True) -> tuple[int, str]:
        """Return the number of an object's new Pods that all quotas admit, and upstream's message for the next Pod, or
        "". Raises InvalidObject.

        `charge`: charge the quotas for these Pods.
        """
        if not pods or (pods[0].namespace, pods[0].name) in self._cluster.pods:  # which counts already
            return len(pods), ""
        namespace = pods[0].namespace
        quotas = self._now.get(namespace)
        if quotas is None:
            quotas = self._now[namespace] = self._stored(namespace)
        if not quotas:
            return len(pods), ""
        template = pod_template_of(obj, POD_TEMPLATE_PATHS)
        is_template = template is not None and template.is_template
        made = made_of(namespace, obj, template.object) if template is not None and is_template else obj
        counted = counted_by_quotas(made, pods[0].priority_class_name, self._cluster)
        later = () if is_template else self._cluster.later_quotas.get((namespace, ref_of(obj).name), ())
        in_force = [quota for quota in quotas if quota.name not in later]
        first, check = first_rejected(counted, in_force, replicas=len(pods))
        if first == 1:
            return 0, check.faults[0].message
        if charge:
            others = [_charged(quota, counted) for quota in quotas if quota.name in later]
            self._now[namespace] = sorted((*check.quotas, *others), key=lambda quota: quota.name)
        return (first - 1, check.faults[0].message) if first else (len(pods), "")

    def _stored(self, namespace: str) -> list[ResourceQuota]:
        stored = self._cluster.quotas_of(namespace)
        check_quotas(len(stored))
        for quota in stored:
            check_quota_extent(quota.spec, quota.name)
        return [quota.in_force() for quota in stored]


def _charged(quota: ResourceQuota, pod: ApiObject) -> ResourceQuota:
    """Return the quota with the use of a Pod that the quota does not limit."""
    try:
        counts = matches(quota, pod)
    except InvalidScope:
        counts = False
    return replace(quota, used=add(quota.used, mask(Pods().usage(pod), quota.hard))) if counts else quota
