"""How many more Pods the ResourceQuotas of a namespace admit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.cluster.admission import counted_by_quotas
from forewarn.policies.kube_apiserver.quota import first_rejected
from forewarn.policies.objects.extent import check_quota_extent, check_quotas

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.fields import ApiObject

_MOST: Final = 2**31 - 1
"""Maximum replicas of a workload: quotas that admit more limit nothing."""


class QuotaRoom(NamedTuple):
    """The number of further Pods that all quotas admit, the quota that rejects the next Pod, and upstream's message."""

    pods: int
    quota: str
    message: str


def quota_room(cluster: ClusterSnapshot, pod: ApiObject, namespace: str, class_name: str) -> QuotaRoom | None:
    """Return the room in the quotas for Pods like `pod`; None if no quota limits them. Raises InvalidObject, TooLarge.

    `pod`: the API object before admission. `class_name`: its PriorityClass after admission; "" without.
    """
    if not (stored := cluster.quotas_of(namespace)):
        return None
    check_quotas(len(stored))
    for quota in stored:
        check_quota_extent(quota.spec, quota.name)
    counted = counted_by_quotas(pod, class_name, cluster)
    first, check = first_rejected(counted, [quota.in_force() for quota in stored], replicas=_MOST)
    if not first:
        return None
    fault = check.faults[0]
    return QuotaRoom(first - 1, fault.quota, fault.message)


def without_status(cluster: ClusterSnapshot, namespace: str) -> tuple[str, ...]:
    """Return a sentence for each quota of which the usage is unknown."""
    names = [quota.name for quota in cluster.quotas_of(namespace) if not quota.used]
    return tuple(f"nothing of ResourceQuota {name} is used: it has no status" for name in names)
