"""How each kind of object uses quotas: pods (pkg/quota/v1/evaluator/core), and what is only counted (generic)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from policies.kube_apiserver.quota.scopes import matches, matching_resources, matching_scopes
from policies.kube_apiserver.quota.usage import constraints, usage
from policies.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from policies.objects.fields import ApiObject
    from policies.objects.resource_list import ResourceList
    from policies.objects.resource_quota import ResourceQuota
    from policies.options import ScopeSelector


class Evaluator(Protocol):
    """How a kind of object uses quotas (`quota.Evaluator`)."""

    @property
    def resource(self) -> str:
        """The kind's plural, as limitedResources names it."""

    def matching_resources(self, names: Iterable[str]) -> set[str]:
        """Those of a quota's resources that this kind uses."""

    def matching_scopes(self, selectors: Iterable[ScopeSelector], obj: ApiObject) -> list[ScopeSelector]:
        """Those of the selectors that an object matches. Raises InvalidScope."""

    def matches(self, quota: ResourceQuota, obj: ApiObject) -> bool:
        """Whether a quota limits an object. Raises InvalidScope."""

    def constraints(self, obj: ApiObject, required: Collection[str]) -> str:
        """What an object must set, empty where nothing is missing."""

    def usage(self, obj: ApiObject) -> ResourceList:
        """What an object is charged with."""


@dataclass(frozen=True, slots=True)
class Pods:
    """The evaluator of pods. `now` in seconds since 1970."""

    now: float = 0
    resource: str = "pods"

    def matching_resources(self, names: Iterable[str]) -> set[str]:
        """See scopes.matching_resources."""
        return matching_resources(names)

    def matching_scopes(self, selectors: Iterable[ScopeSelector], obj: ApiObject) -> list[ScopeSelector]:
        """See scopes.matching_scopes."""
        return matching_scopes(selectors, obj)

    def matches(self, quota: ResourceQuota, obj: ApiObject) -> bool:
        """See scopes.matches."""
        return matches(quota, obj)

    def constraints(self, obj: ApiObject, required: Collection[str]) -> str:
        """See usage.constraints."""
        return constraints(obj, required)

    def usage(self, obj: ApiObject) -> ResourceList:
        """See usage.usage."""
        return usage(obj, self.now)


@dataclass(frozen=True, slots=True)
class ObjectCount:
    """The evaluator of kinds that are only counted; a quota with scopes never limits them."""

    resource: str
    names: tuple[str, ...]

    def matching_resources(self, names: Iterable[str]) -> set[str]:
        """The names under which the kind is counted."""
        return {*self.names}.intersection(names)

    def matching_scopes(
        self,
        selectors: Iterable[ScopeSelector],  # noqa: ARG002  (the protocol's signature)
        obj: ApiObject,  # noqa: ARG002
    ) -> list[ScopeSelector]:
        """None: only pods have scopes."""
        return []

    def matches(self, quota: ResourceQuota, obj: ApiObject) -> bool:  # noqa: ARG002
        """Whether a quota counts this kind."""
        return not quota.scope_selectors and bool(self.matching_resources(quota.hard))

    def constraints(self, obj: ApiObject, required: Collection[str]) -> str:  # noqa: ARG002
        """Nothing."""
        return ""

    def usage(self, obj: ApiObject) -> ResourceList:  # noqa: ARG002
        """One object."""
        return dict.fromkeys(self.names, _ONE)


_ONE: Final = Quantity(10**9)
RESOURCE_QUOTAS: Final = ObjectCount("resourcequotas", ("count/resourcequotas", "resourcequotas"))
PODS: Final = Pods()
