"""The CapacityBuffer objects of a cluster (autoscaling.x-k8s.io), and how many of their replicas serve a workload.

Source: kubernetes/autoscaler cluster-autoscaler/apis/capacitybuffer/autoscaling.x-k8s.io, v1alpha1 and v1beta1. Reading
never fails: a field of the wrong type counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from forewarn.policies.base.documents import Always, Hidden, in_json
from forewarn.policies.base.findings import brief, cut
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, ref_of, text_at

CAPACITY_BUFFER: Final = "autoscaling.x-k8s.io/CapacityBuffer"
MAX_BUFFERS: Final = 1000
_MAX_LENGTH: Final = 253
_MAX_REASON_LENGTH: Final = 100
_MAX_CONDITIONS: Final = 20


class Target(NamedTuple):
    """The workload or PodTemplate that determines the size of a CapacityBuffer's replica; empty if there is none."""

    group: Hidden[str]
    kind: str
    name: str


class Buffer(NamedTuple):
    """A CapacityBuffer. `replicas`: desired; null if only a percentage or limits are set.

    `provisioned`: number in its status. `problem`: a condition whose status is False, or "".
    """

    namespace: Hidden[str]
    name: Hidden[str]
    target: Target
    replicas: int | None
    provisioned: int
    problem: Always[str] = ""

    @in_json
    def name_(self) -> str:
        """The CapacityBuffer as `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class OtherBuffers(NamedTuple):
    """The number of CapacityBuffers of other workloads, and of their provisioned replicas."""

    buffers: int
    provisioned: int


class Buffers(NamedTuple):
    """The CapacityBuffers for an object, and their provisioned replicas. `needed`: with `--placeholders`.

    `incomplete`: present if more CapacityBuffers exist than forewarn reads.
    """

    buffers: Sequence[Buffer]
    provisioned: int
    others: OtherBuffers
    needed: int | None = None
    incomplete: Literal[True] | None = None


class CapacityBuffers:
    """The CapacityBuffers of a cluster, at most MAX_BUFFERS. `note`: why some are not read, or ""."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[str, str], Buffer] = {}
        self.omitted: Literal[True] | None = None
        self.note = ""

    def collect(self, obj: ApiObject) -> bool | None:
        """Add or replace a CapacityBuffer. Returns None for other objects (see `Cache`)."""
        if group_kind(obj) != CAPACITY_BUFFER:
            return None
        buffer = Buffer(
            _text(obj, "metadata", "namespace") or "default",
            _text(obj, "metadata", "name"),
            _target(obj),
            _count(at(obj, "spec", "replicas")),
            _count(at(obj, "status", "replicas")) or 0,
            next(_problems(obj), ""),
        )
        if len(self.buffers) < MAX_BUFFERS:
            self.buffers[buffer.namespace, buffer.name] = buffer
        else:
            self.omitted = True
        return True

    def buffers_for(self, obj: ApiObject, needed: int | None) -> Buffers | None:
        """Return the CapacityBuffers of the cluster for an object; None if the cluster has none. Raises InvalidObject.

        `needed`: see Buffers.
        """
        if not self.buffers:
            return None
        ref = ref_of(obj, "default")
        group, _, kind = group_kind(obj).partition("/")
        mine = ref.namespace, Target(group, kind, ref.name)
        own = [buffer for buffer in self.buffers.values() if (buffer.namespace, buffer.target) == mine]
        others = [buffer for buffer in self.buffers.values() if (buffer.namespace, buffer.target) != mine]
        of_others = OtherBuffers(len(others), sum(other.provisioned for other in others))
        return Buffers(own, sum(buffer.provisioned for buffer in own), of_others, needed, self.omitted)


def _target(obj: ApiObject) -> Target:
    if name := _text(obj, "spec", "podTemplateRef", "name"):
        return Target("", "PodTemplate", name)
    group, kind = (_text(obj, "spec", "scalableRef", key) for key in ("apiGroup", "kind"))
    return Target(group, kind, _text(obj, "spec", "scalableRef", "name"))


def _problems(obj: ApiObject) -> Iterator[str]:
    conditions = at(obj, "status", "conditions")
    for condition in conditions[:_MAX_CONDITIONS] if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("status") == "False":
            parts = (_text(condition, key) for key in ("type", "reason"))
            yield cut(" is false: ".join(filter(None, parts)), _MAX_REASON_LENGTH)


def _text(obj: ApiObject, *path: str) -> str:
    return brief(text_at(obj, *path), _MAX_LENGTH)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else None
