"""Remove confidential parts of a cluster snapshot. All data that predictions need remain, except image names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kinds.registry import NODE, POD, POD_TEMPLATE_PATHS
from forewarn.policies.objects.fields import at, group_kind
from forewarn.policies.objects.storage import BETA_STORAGE_CLASS, BIND_COMPLETED, MIGRATED_PLUGINS, SELECTED_NODE
from forewarn.webhook.apiserver.raw_objects import mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS: Final = "forewarn.dev/"
_READ: Final = frozenset((BETA_STORAGE_CLASS, BIND_COMPLETED, MIGRATED_PLUGINS, SELECTED_NODE))
"""Annotations that kube-scheduler reads. Their values are names of classes, nodes and plugins."""
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_OF_A_CONTAINER: Final = frozenset(
    ("env", "envFrom", "image", "command", "args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
)
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_OF_A_STATUS: Final = frozenset(("name", "resources", "allocatedResources"))


def redacted(obj: dict[str, Any]) -> dict[str, Any]:
    """Remove confidential fields in place, and return the object.

    Removes environment variables, images, commands, probes, and annotations that forewarn does not read.
    """
    for metadata in _metadata(obj):
        _redact_metadata(metadata)
    kind = group_kind(obj)
    path = () if kind == POD else POD_TEMPLATE_PATHS.get(kind)
    if path is not None:
        _redact_pod_spec(mapping(at(obj, *path, "spec")))
    if kind in (POD, NODE):
        _redact_status(mapping(obj.get("status")))
    return obj


def _metadata(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the metadata of the object and of its templates."""
    yield mapping(obj.get("metadata"))
    spec = mapping(obj.get("spec"))
    job = mapping(spec.get("jobTemplate"))
    claims = spec.get("volumeClaimTemplates")
    templates = [obj.get("template"), spec.get("template"), job, at(job, "spec", "template")]
    for template in [*templates, *(claims if isinstance(claims, list) else ())]:
        yield mapping(mapping(template).get("metadata"))


def _redact_metadata(metadata: dict[str, Any]) -> None:
    metadata.pop("managedFields", None)
    if "annotations" in metadata:
        annotations = mapping(metadata["annotations"]).items()
        metadata["annotations"] = {k: v for k, v in annotations if k.startswith(_OURS) or k in _READ}


def _redact_pod_spec(spec: dict[str, Any]) -> None:
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            for key in _OF_A_CONTAINER & mapping(container).keys():
                del container[key]
    for volume in spec.get("volumes") or ():
        if "image" in mapping(volume):
            volume["image"] = {}


def _redact_status(status: dict[str, Any]) -> None:
    status.pop("images", None)
    status.pop("message", None)
    for kind in _STATUSES:
        if kind in status:
            status[kind] = [{k: v for k, v in mapping(s).items() if k in _OF_A_STATUS} for s in status[kind] or ()]
