"""Node, with the fields that kube-scheduler reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from forewarn.policies.objects.fields import boolean, items, string_map, strings, text, within
from forewarn.policies.objects.pod_spec import shared_labels
from forewarn.policies.objects.resources import Resource, as_resource, read_resource_list
from forewarn.policies.objects.taints import Taint, read_taints

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.objects.fields import ApiObject

LABEL_OS: Final = "kubernetes.io/os"
_LINUX: Final = "linux"


@dataclass(frozen=True, slots=True)
class Node:
    """A stored Node. `images`: name -> size in bytes. `allocatable`: resources in kube-scheduler's units.

    `operating_system`: as the kubelet reports it (upstream `runtime.GOOS`). `supplemental_groups_policy`: whether the
    container runtime supports the policy Strict.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Resource
    images: Mapping[str, int]
    declared_features: frozenset[str] = frozenset()
    operating_system: str = _LINUX
    supplemental_groups_policy: bool = False

    @classmethod
    def from_api(cls, obj: ApiObject) -> Node:
        """Read an API object. Raises InvalidObject."""
        with within(obj, "spec", "taints"):
            taints = read_taints(obj)
        labels = shared_labels(string_map(obj, "metadata", "labels"))
        return cls(
            name=text(obj, "metadata", "name"),
            labels=labels,
            taints=taints,
            unschedulable=boolean(obj, "spec", "unschedulable"),
            allocatable=as_resource(read_resource_list(obj, ("status", "allocatable"), obj)),
            images=_images(obj),
            declared_features=frozenset(strings(obj, "status", "declaredFeatures")),
            operating_system=text(obj, "status", "nodeInfo", "operatingSystem") or labels.get(LABEL_OS, _LINUX),
            supplemental_groups_policy=boolean(obj, "status", "features", "supplementalGroupsPolicy"),
        )


def _images(node: ApiObject) -> dict[str, int]:
    images: dict[str, int] = {}
    with within(node, "status", "images"):
        for image in items(node, "status", "images"):
            size = image.get("sizeBytes")
            for name in strings(image, "names"):
                images.setdefault(name, size if isinstance(size, int) else 0)
    return images
