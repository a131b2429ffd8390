"""Remaining quota while Pods are created and deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.kube_apiserver.quota.admission import FaultKind, check_request
from forewarn.policies.kube_apiserver.quota.evaluators import PODS
from forewarn.policies.kube_apiserver.quota.scopes import InvalidScope, matches
from forewarn.policies.metering import charge
from forewarn.policies.objects.resource_list import mask, subtract_to_zero

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forewarn.policies.kube_apiserver.quota.evaluators import Evaluator
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resource_quota import ResourceQuota

_CHECKING: Final = 50
"""Units of work to compare a Pod with a quota."""


class RemainingQuota:
    """The ResourceQuotas of namespaces while a simulation creates and deletes Pods.

    `quotas_of`: the initial quotas of a namespace, by name; called once for each namespace. A Pod counts until its
    deletion: upstream `QuotaV1Pod` counts a terminating Pod until its grace period ends.
    """

    def __init__(self, quotas_of: Callable[[str], Sequence[ResourceQuota]], evaluator: Evaluator = PODS) -> None:
        self._quotas_of, self._evaluator = quotas_of, evaluator
        self._now: dict[str, tuple[ResourceQuota, ...]] = {}

    def limits(self, namespace: str) -> bool:
        """True if the namespace has a quota."""
        return bool(self._of(namespace))

    def take(self, namespace: str, pod: ApiObject) -> bool:
        """Add a Pod to the used amounts; return false, and add nothing, if a quota rejects the Pod. Raises
        InvalidObject.

        A quota without a status rejects nothing.
        """
        return not self.rejection(namespace, pod)

    def rejection(self, namespace: str, pod: ApiObject) -> str:
        """Add a Pod to the used amounts, and return ""; if a quota rejects the Pod, return upstream's message. Raises
        InvalidObject.
        """
        charge(_CHECKING * len(self._of(namespace)))
        check = check_request(pod, self._of(namespace), evaluator=self._evaluator)
        rejected = next((fault for fault in check.faults if fault.kind is not FaultKind.STATUS_UNKNOWN), None)
        if rejected is not None:
            return rejected.message
        self._now[namespace] = check.quotas
        return ""

    def put(self, quota: ResourceQuota) -> None:
        """Add a quota, or replace the one with the same name."""
        others = (each for each in self._of(quota.namespace) if each.name != quota.name)
        self._now[quota.namespace] = tuple(sorted((*others, quota), key=lambda each: each.name))

    def give_back(self, namespace: str, pod: ApiObject) -> None:
        """Subtract the usage of a deleted Pod. Raises InvalidObject."""
        charge(_CHECKING * len(self._of(namespace)))
        used = self._evaluator.usage(pod)
        self._now[namespace] = tuple(
            replace(quota, used=subtract_to_zero(quota.used, mask(used, quota.hard))) if _counts(quota, pod) else quota
            for quota in self._of(namespace)
        )

    def _of(self, namespace: str) -> tuple[ResourceQuota, ...]:
        known = self._now.get(namespace)
        if known is None:
            known = self._now[namespace] = tuple(self._quotas_of(namespace))
        return known


def _counts(quota: ResourceQuota, pod: ApiObject) -> bool:
    try:
        return matches(quota, pod)
    except InvalidScope:
        return False
