"""The usage of ResourceQuotas by the Pods of a namespace, and the batches in which controllers create Pods.

Source: pkg/controller/resourcequota/resource_quota_controller.go, `syncResourceQuota`; pkg/quota/v1/evaluator/core.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.kube_apiserver.quota import Pods, matches
from forewarn.policies.kube_apiserver.quota.scopes import InvalidScope
from forewarn.policies.objects.resource_list import add, mask
from forewarn.policies.quantity import ZERO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resource_quota import ResourceQuota

SLOW_START: Final = 1
"""Number of Pods in the first batch of a controller (`SlowStartInitialBatchSize`)."""


def recalculated(quota: ResourceQuota, pods: Iterable[ApiObject], now: float) -> ResourceQuota:
    """Return the quota with the usage of `pods`, which are those of its namespace, as after a full sync.

    Terminal Pods and Pods past their grace period do not count. `now`: seconds since 1970.
    """
    evaluator = Pods(now)
    current = replace(quota, hard=quota.spec_hard or quota.hard)
    used = dict.fromkeys(current.hard, ZERO)
    for pod in pods:
        try:
            counts = matches(current, pod)
        except InvalidScope:
            counts = False
        if counts:
            used = {**used, **add(used, mask(evaluator.usage(pod), used))}
    return replace(current, used=used)


def slow_start_batches(count: int) -> Iterator[int]:
    """Yield the sizes of the batches in which controllers create `count` Pods.

    After a batch with a rejected Pod, controllers start no further batch. Source: pkg/controller/replicaset
    `slowStartBatch`.
    """
    size = min(count, SLOW_START)
    while size > 0:
        yield size
        count -= size
        size = min(2 * size, count)
