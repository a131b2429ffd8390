"""Quota usage by kind: Pods (pkg/quota/v1/evaluator/core), and kinds of which quotas only count the objects
(generic).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from forewarn.policies.kube_apiserver.quota.scopes import matches, matching_resources, matching_scopes
from forewarn.policies.kube_apiserver.quota.usage import constraints, usage
from forewarn.policies.kube_apiserver.validation.pod_resources import read_pod_resources
from forewarn.policies.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from forewarn.policies.kube_apiserver.validation.pod_resources import PodResources
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resource_list import ResourceList
    from forewarn.policies.objects.resource_quota import ResourceQuota
    from forewarn.policies.options import ScopeSelector


class Evaluator(Protocol):
    """The quota usage of a kind (`quota.Evaluator`)."""

    @property
    def resource(self) -> str:
        """The plural of the kind, as in limitedResources."""

    def matching_resources(self, names: Iterable[str]) -> set[str]:
        """Return the resources among `names` (of a quota) that this kind uses."""

    def matching_scopes(self, selectors: Iterable[ScopeSelector], obj: ApiObject) -> list[ScopeSelector]:
        """The selectors that an object matches. Raises InvalidScope."""

    def matches(self, quota: ResourceQuota, obj: ApiObject) -> bool:
        """Report whether a quota applies to an object. Raises InvalidScope."""

    def constraints(self, obj: ApiObject, required: Collection[str]) -> str:
        """Return a text about required fields that are missing in an object; "" if there are none."""

    def usage(self, obj: ApiObject) -> ResourceList:
        """The amounts that an object uses."""


@dataclass(frozen=True, slots=True)
class Pods:
    """The Evaluator of Pods. `now`: seconds since 1970. `read`: returns the resources of a Pod."""

    now: float = 0
    resource: str = "pods"
    read: Callable[[ApiObject], PodResources] = read_pod_resources

    def matching_resources(self, names: Iterable[str]) -> set[str]:
        """Return the resource names that apply to Pods (`scopes.matching_resources`)."""
        return matching_resources(names)

    def matching_scopes(self, selectors: Iterable[ScopeSelector], obj: ApiObject) -> list[ScopeSelector]:
        """Return the selectors that the Pod matches (`scopes.matching_scopes`). Raises InvalidScope."""
        return matching_scopes(selectors, obj)

    def matches(self, quota: ResourceQuota, obj: ApiObject) -> bool:
        """Report whether the quota applies to the Pod (`scopes.matches`). Raises InvalidScope."""
        return matches(quota, obj)

    def constraints(self, obj: ApiObject, required: Collection[str]) -> str:
        """Return a text about required fields that are missing in the Pod (`usage.constraints`); "" if there are
        none.
        """
        return constraints(obj, required, self.read)

    def usage(self, obj: ApiObject) -> ResourceList:
        """Return the amounts that the Pod uses (`usage.usage`). Raises InvalidObject."""
        return usage(obj, self.now, self.read)


@dataclass(frozen=True, slots=True)
class ObjectCount:
    """The Evaluator of kinds of which quotas only count the objects. A quota with scopes never applies to them.

    `names`: the names of the count in quotas.
    """

    resource: str
    names: tuple[str, ...]

    def matching_resources(self, names: Iterable[str]) -> set[str]:
        """The resource names under which a quota counts the kind."""
        return {*self.names}.intersection(names)

    def matching_scopes(
        self,
        selectors: Iterable[ScopeSelector],  # noqa: ARG002  (the protocol's signature)
        obj: ApiObject,  # noqa: ARG002
    ) -> list[ScopeSelector]:
        """Return an empty list: only Pods have scopes."""
        return []

    def matches(self, quota: ResourceQuota, obj: ApiObject) -> bool:  # noqa: ARG002
        """True if a quota counts this kind."""
        return not quota.scope_selectors and bool(self.matching_resources(quota.hard))

    def constraints(self, obj: ApiObject, required: Collection[str]) -> str:  # noqa: ARG002
        """Return "": no fields are required."""
        return ""

    def usage(self, obj: ApiObject) -> ResourceList:  # noqa: ARG002
        """Return 1 under each resource name of the kind."""
        return dict.fromkeys(self.names, _ONE)


_ONE: Final = Quantity(10**9)
RESOURCE_QUOTAS: Final = ObjectCount("resourcequotas", ("count/resourcequotas", "resourcequotas"))
PODS: Final = Pods()
