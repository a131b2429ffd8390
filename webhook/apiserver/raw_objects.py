"""Conversion of objects from an API server for the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from forewarn.policies.kinds.registry import KindSpec

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def with_type_meta(obj: dict[str, Any], resource: KindSpec) -> dict[str, Any]:
    """Set kind and apiVersion, which lists omit, and remove fields that forewarn does not read; return `obj`.

    The removed fields (managedFields and the annotation of kubectl apply) are often half of the size.
    """
    obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
    metadata = mapping(obj.get("metadata"))
    metadata.pop("managedFields", None)
    mapping(metadata.get("annotations")).pop(_LAST_APPLIED, None)
    return obj
