"""Node, with the fields that kube-scheduler reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from forewarn.policies.base.copies import shared_labels
from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    boolean,
    integer,
    items,
    string_map,
    strings,
    text,
    within,
)
from forewarn.policies.kubernetes.objects.resources import Resource, as_resource, read_resource_list

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"


class Taint(NamedTuple):
    """A taint of a node or a device. `added`: of a device, the time of addition in seconds since 1970."""

    key: str
    value: str
    effect: str
    added: int | None = None

    def __str__(self) -> str:
        return f"{self.key}{self.value and f'={self.value}'}:{self.effect}"

    @property
    def repels_pods(self) -> bool:
        return self.effect in (NO_SCHEDULE, NO_EXECUTE)


UNSCHEDULABLE_TAINT: Final = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


class Toleration(NamedTuple):
    """A toleration of a Pod or of a device request; "" as key or effect matches all keys or effects.

    `seconds` None: tolerates without limit.
    """

    key: str
    operator: str
    value: str
    effect: str
    seconds: int | None = None

    def tolerates(self, taint: Taint) -> bool:
        """Report whether it tolerates the taint; False for the alpha operators Gt and Lt. Source: `ToleratesTaint`."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        return self.operator == "Exists"


def tolerations_tolerate_taint(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    return any(toleration.tolerates(taint) for toleration in charging(tolerations, 0.2))


def untolerated_taint(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first untolerated taint except PreferNoSchedule, or None. Source: `FindMatchingUntoleratedTaint`."""
    for taint in taints:
        if taint.repels_pods and not tolerations_tolerate_taint(tolerations, taint):
            return taint
    return None


def read_taints(obj: ApiObject, *path: str) -> tuple[Taint, ...]:
    """Parse the taints at a path. Raises InvalidObject."""
    return tuple(Taint(text(t, "key"), text(t, "value"), text(t, "effect")) for t in items(obj, *path))


def read_tolerations(obj: ApiObject, *path: str) -> tuple[Toleration, ...]:
    """Parse the tolerations at a path. Raises InvalidObject."""
    return tuple(map(_toleration, items(obj, *path)))


def _toleration(entry: ApiObject) -> Toleration:
    key, operator, value, effect = (text(entry, name) for name in ("key", "operator", "value", "effect"))
    return Toleration(key, operator, value, effect, integer(entry, "tolerationSeconds"))


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
    kubelet_version: str = ""

    def with_taint_of_cordon(self) -> Node:
        """Return the node with UNSCHEDULABLE_TAINT if it is unschedulable, otherwise without."""
        cordon = (UNSCHEDULABLE_TAINT.key, UNSCHEDULABLE_TAINT.effect)
        taints = tuple(taint for taint in self.taints if (taint.key, taint.effect) != cordon)
        if self.unschedulable == (len(taints) < len(self.taints)):
            return self
        return replace(self, taints=(*taints, UNSCHEDULABLE_TAINT) if self.unschedulable else taints)

    def has_taints(self) -> bool:
        return bool(self.taints)

    def has_prefer_no_schedule(self) -> bool:
        """Report whether it has PreferNoSchedule taints."""
        return any(taint.effect == PREFER_NO_SCHEDULE for taint in self.taints)

    def has_images(self) -> bool:
        return bool(self.images)

    @classmethod
    def from_api(cls, obj: ApiObject) -> Node:
        """Read an API object. Raises InvalidObject."""
        with within(obj, "spec", "taints"):
            taints = read_taints(obj, "spec", "taints")
        labels = shared_labels(string_map(obj, "metadata", "labels"))
        images: dict[str, int] = {}
        with within(obj, "status", "images"):
            for image in items(obj, "status", "images"):
                size = image.get("sizeBytes")
                for name in strings(image, "names"):
                    images.setdefault(name, size if isinstance(size, int) else 0)
        return cls(
            name=text(obj, "metadata", "name"),
            labels=labels,
            taints=taints,
            unschedulable=boolean(obj, "spec", "unschedulable"),
            allocatable=as_resource(read_resource_list(obj, "status", "allocatable")),
            images=images,
            declared_features=frozenset(strings(obj, "status", "declaredFeatures")),
            operating_system=text(obj, "status", "nodeInfo", "operatingSystem") or labels.get(LABEL_OS, _LINUX),
            supplemental_groups_policy=boolean(obj, "status", "features", "supplementalGroupsPolicy"),
            kubelet_version=text(obj, "status", "nodeInfo", "kubeletVersion"),
        )
