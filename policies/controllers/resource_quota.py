"""The quota usage of a namespace's Pods, and the reaction of controllers to a rejection.

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
"""Pods of a controller's first batch (`SlowStartInitialBatchSize`)."""


def recalculated(quota: ResourceQuota, pods: Iterable[ApiObject], now: float) -> ResourceQuota:
    """The quota with what these pods of its namespace use, as one full sync finds it.

    A pod that has ended is not counted, nor one that is past its grace period.
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
    """The sizes of the batches in which controllers make pods: when one of a batch is refused, no other batch is begun.

    Source: pkg/controller/replicaset `slowStartBatch`.
    """
    size = min(count, SLOW_START)
    while size > 0:
        yield size
        count -= size
        size = min(2 * size, count)
