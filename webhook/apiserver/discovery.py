"""Discover the API version and path of custom kinds that the configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from forewarn.policies.kinds.registry import KindSpec
from forewarn.webhook.apiserver.errors import ApiError
from forewarn.webhook.apiserver.raw_objects import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

_WATCHED = frozenset(("list", "watch"))


class Getter(Protocol):
    """The methods of an API server that discovery needs."""

    def get(self, path: str) -> dict[str, Any]:
        """The object at this path. Raises ApiError."""


def discover(api: Getter, kind: str, template: tuple[str, ...]) -> KindSpec:
    """Return the KindSpec of a custom workload `group/Kind`, in the API server's preferred version.

    `template`: path of the Pod template. Raises ApiError, with status 404 if the kind is not served or cannot be
    watched.
    """
    group, _, name = kind.rpartition("/")
    served = mapping(api.get(f"/apis/{group}").get("preferredVersion")) if group else {"groupVersion": "v1"}
    version = str(served.get("groupVersion") or "")
    for resource in _resources(api.get(f"/{'apis' if group else 'api'}/{version}")):
        plural = str(resource.get("name") or "")
        if resource.get("kind") == name and "/" not in plural and _is_watched(resource):
            return KindSpec(version, name, plural, "workload:Workload", template=template, optional=True)
    raise ApiError(404, f"{version} has no namespaced kind {name} that can be watched")


def _resources(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    resources = found.get("resources")
    return map(mapping, resources if isinstance(resources, list) else ())


def _is_watched(resource: dict[str, Any]) -> bool:
    verbs = resource.get("verbs")
    return bool(resource.get("namespaced")) and isinstance(verbs, list) and set(map(str, verbs)) >= _WATCHED
