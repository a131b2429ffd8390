"""The usage of ResourceQuotas by the Pods of a namespace, and the batches in which controllers create Pods.

Source: pkg/controller/resourcequota/resource_quota_controller.go, `syncResourceQuota`; pkg/quota/v1/evaluator/core.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.kube_apiserver.quota import PODS, Pods, counts
from forewarn.policies.kubernetes.objects.resource_list import mask
from forewarn.policies.kubernetes.quantity import ZERO, Quantity

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota

SLOW_START: Final = 1
"""Number of Pods in the first batch of a controller (`SlowStartInitialBatchSize`)."""
_COUNTING: Final = 50
"""Units of work to read a Pod and to compare it with a quota."""


def recalculated(quota: ResourceQuota, pods: Iterable[ApiObject], evaluator: Pods = PODS) -> ResourceQuota:
    """Return the quota with the usage of `pods`, which are those of its namespace, as after a full sync.

    Terminal Pods do not count.
    """
    current = replace(quota, hard=quota.spec_hard or quota.hard)
    used = dict.fromkeys(current.hard, ZERO)
    if not evaluator.matching_resources(current.hard):
        return replace(current, used=used)
    for pod, count in _equal(pods):
        charge(_COUNTING + len(quota.scope_selectors))
        for name, amount in mask(evaluator.usage(pod), used).items() if counts(current, pod) else ():
            used[name] = used[name] + Quantity(amount.nano * count, amount.format)
    return replace(current, used=used)


def _equal(pods: Iterable[ApiObject]) -> Iterable[tuple[ApiObject, int]]:
    """Return the Pods, and how often each object occurs."""
    times: dict[int, tuple[ApiObject, int]] = {}
    for pod in pods:
        times[id(pod)] = pod, times.get(id(pod), (pod, 0))[1] + 1
    return times.values()


def slow_start_batches(count: int) -> Iterator[int]:
    """Yield the batch sizes in which controllers create `count` Pods. Source: replicaset `slowStartBatch`."""
    size = min(count, SLOW_START)
    while size > 0:
        yield size
        count -= size
        size = min(2 * size, count)
