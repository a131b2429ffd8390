"""LimitRange, with the default requests and limits of containers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forewarn.policies.objects.fields import items, text, within
from forewarn.policies.objects.resource_list import ResourceList, resource_list

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject


@dataclass(frozen=True, slots=True)
class LimitRange:
    """The default requests and limits that a LimitRange sets in containers, by resource name."""

    namespace: str
    name: str
    default_requests: ResourceList = field(default_factory=dict)
    default_limits: ResourceList = field(default_factory=dict)

    @classmethod
    def from_api(cls, obj: ApiObject) -> LimitRange:
        """Read the items of type Container of an API object. Raises InvalidObject.

        A later item overrides an earlier item. Source: plugin LimitRanger, `defaultContainerResourceRequirements`.
        """
        requests: ResourceList = {}
        limits: ResourceList = {}
        for index, item in enumerate(items(obj, "spec", "limits")):
            with within(obj, "spec", "limits", index):
                if text(item, "type") == "Container":
                    own_requests, own_limits = _defaults(item)
                    requests, limits = {**requests, **own_requests}, {**limits, **own_limits}
        return cls(
            namespace=text(obj, "metadata", "namespace", default="default"),
            name=text(obj, "metadata", "name"),
            default_requests=requests,
            default_limits=limits,
        )


def _defaults(item: ApiObject) -> tuple[ResourceList, ResourceList]:
    """Return the default (requests, limits) of an item. A default limit is the item's default, otherwise its maximum.

    A default request is the item's defaultRequest, otherwise the default limit, otherwise the minimum. Source:
    pkg/apis/core/v1/defaults.go `SetDefaults_LimitRangeItem`; stored objects have these values already.
    """
    limits = resource_list(item, "max") | resource_list(item, "default")
    requests = resource_list(item, "min") | limits | resource_list(item, "defaultRequest")
    return requests, limits
