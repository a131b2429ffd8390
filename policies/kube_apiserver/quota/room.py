"""What quotas have room for while pods come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from policies.kube_apiserver.quota.admission import FaultKind, check_request
from policies.kube_apiserver.quota.scopes import InvalidScope, matches
from policies.kube_apiserver.quota.usage import usage
from policies.metering import charge
from policies.objects.resource_list import mask, subtract_to_zero

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.objects.fields import ApiObject
    from policies.objects.resource_quota import ResourceQuota

_CHECKING: Final = 50
"""Units that it costs to hold a pod against a quota."""


class QuotaRoom:
    """The quotas of namespaces, charged with whoever comes and relieved of whoever goes.

    `quotas_of`: a namespace's, by name, as they are at first; asked once of each namespace. A pod is charged until it
    is gone: upstream `QuotaV1Pod` counts one that is ending until its grace period is over.
    """

    def __init__(self, quotas_of: Callable[[str], Sequence[ResourceQuota]]) -> None:
        self._quotas_of = quotas_of
        self._now: dict[str, tuple[ResourceQuota, ...]] = {}

    def limits(self, namespace: str) -> bool:
        """Whether the namespace has any quota."""
        return bool(self._of(namespace))

    def take(self, namespace: str, pod: ApiObject) -> bool:
        """Charge a pod; False where a quota refuses it. Raises InvalidObject.

        A quota without a status is not known to refuse anything.
        """
        return not self.refusal(namespace, pod)

    def refusal(self, namespace: str, pod: ApiObject) -> str:
        """Charge a pod, or say in upstream's words why a quota refuses it; else empty. Raises InvalidObject."""
        charge(_CHECKING * len(self._of(namespace)))
        check = check_request(pod, self._of(namespace))
        refused = next((fault for fault in check.faults if fault.kind is not FaultKind.STATUS_UNKNOWN), None)
        if refused is not None:
            return refused.message
        self._now[namespace] = check.quotas
        return ""

    def give_back(self, namespace: str, pod: ApiObject) -> None:
        """A pod is gone. Raises InvalidObject."""
        charge(_CHECKING * len(self._of(namespace)))
        used = usage(pod, 0)
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
