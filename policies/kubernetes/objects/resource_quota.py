"""ResourceQuota, with the fields that the admission plugin ResourceQuota and the rules read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    InvalidObject,
    items,
    json_type,
    mapping,
    ref_of,
    sequence,
    text,
    within,
)
from forewarn.policies.kubernetes.objects.resources import ResourceList, resource_list
from forewarn.policies.kubernetes.objects.view import NAME, NAMESPACE, View, by
from forewarn.policies.kubernetes.options import ScopeSelector

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path
    from forewarn.policies.kubernetes.objects.fields import ApiObject


@dataclass(frozen=True, slots=True)
class ResourceQuota(View):
    """A stored ResourceQuota. `spec`: as stored; `spec_hard`: its limits. `hard`, `used`: of the status, which
    admission uses.

    A new quota has no effect until its controller writes the status: until then, `hard` and `used` are empty.
    """

    namespace: str = field(metadata=NAMESPACE)
    name: str = field(metadata=NAME)
    spec: ApiObject = field(default_factory=dict, metadata=by(mapping, "spec"))
    scope_selectors: tuple[ScopeSelector, ...] = field(default=(), metadata=by(lambda obj: scope_selectors(obj)))
    spec_hard: ResourceList = field(default_factory=dict, metadata=by(resource_list, "spec", "hard"))
    hard: ResourceList = field(default_factory=dict, metadata=by(resource_list, "status", "hard"))
    used: ResourceList = field(default_factory=dict, metadata=by(resource_list, "status", "used"))

    def to_api(self) -> ApiObject:
        """Return the quota as an API object, without status."""
        metadata = {"namespace": self.namespace, "name": self.name}
        return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": self.spec}


def scope_selectors(obj: ApiObject) -> tuple[ScopeSelector, ...]:
    """Return `spec.scopes` and `spec.scopeSelector` as one list, all of which must match. Raises InvalidObject.

    Source: upstream `getScopeSelectorsFromQuota`.
    """
    scopes: Path = ("spec", "scopes")
    expressions: Path = ("spec", "scopeSelector", "matchExpressions")
    selectors = [ScopeSelector(scope, "Exists") for scope in _strings(obj, sequence(obj, *scopes), scopes)]
    for index, expression in enumerate(charging(sequence(obj, *expressions), 2)):
        selectors.append(_scope_selector(obj, expression or NOTHING, (*expressions, index)))
    return tuple(selectors)


def _scope_selector(obj: ApiObject, expression: ApiObject, path: Path) -> ScopeSelector:
    with within(obj, *path):
        if not hasattr(expression, "get"):
            raise InvalidObject(f"must be an object, not {json_type(expression)}")
        return ScopeSelector(
            scope_name=text(expression, "scopeName"),
            operator=text(expression, "operator"),
            values=_strings(expression, sequence(expression, "values"), ("values",)),
        )


def _strings(obj: ApiObject, values: object, path: Path) -> tuple[str, ...]:
    assert isinstance(values, list | tuple)
    for index, value in enumerate(charging(values, 0.1)):
        if value is not None and not isinstance(value, str):
            raise InvalidObject(f"must be a string, not {json_type(value)}", (*path, index), ref_of(obj))
    return tuple(value or "" for value in values)


class LimitRangeItem(NamedTuple):
    """The amounts that an item of a LimitRange requires of each Container or Pod, by resource name."""

    type: str
    min: ResourceList
    max: ResourceList
    max_limit_request_ratio: ResourceList


@dataclass(frozen=True, slots=True)
class LimitRange:
    """The default requests and limits that a LimitRange sets in containers, by resource name, and its items."""

    namespace: str
    name: str
    default_requests: ResourceList = field(default_factory=dict)
    default_limits: ResourceList = field(default_factory=dict)
    limits: tuple[LimitRangeItem, ...] = ()

    @classmethod
    def from_api(cls, obj: ApiObject) -> LimitRange:
        """Read an API object. Raises InvalidObject.

        Defaults are those of items of type Container, a later one overrides an earlier one. Source: plugin LimitRanger,
        `defaultContainerResourceRequirements`.
        """
        requests: ResourceList = {}
        limits: ResourceList = {}
        read = []
        for index, item in enumerate(items(obj, "spec", "limits")):
            with within(obj, "spec", "limits", index):
                amounts = (resource_list(item, key) for key in ("min", "max", "maxLimitRequestRatio"))
                read.append(LimitRangeItem(text(item, "type"), *amounts))
                if read[-1].type == "Container":
                    own_requests, own_limits = _defaults(item, read[-1])
                    requests, limits = {**requests, **own_requests}, {**limits, **own_limits}
        return cls(
            namespace=text(obj, "metadata", "namespace", default="default"),
            name=text(obj, "metadata", "name"),
            default_requests=requests,
            default_limits=limits,
            limits=tuple(read),
        )


def _defaults(item: ApiObject, bounds: LimitRangeItem) -> tuple[ResourceList, ResourceList]:
    """Return the default (requests, limits) of an item. A default limit is the item's default, otherwise its maximum.

    A default request is the item's defaultRequest, otherwise the default limit, otherwise the minimum. Source:
    pkg/apis/core/v1/defaults.go `SetDefaults_LimitRangeItem`; stored objects have these values already.
    """
    limits = {**bounds.max, **resource_list(item, "default")}
    requests = {**bounds.min, **limits, **resource_list(item, "defaultRequest")}
    return requests, limits
