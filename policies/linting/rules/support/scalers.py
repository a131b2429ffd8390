"""HorizontalPodAutoscalers and ScaledObjects of KEDA: the workload that they scale, and its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from forewarn.policies.base.findings import Path, grouped
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.kinds.registry import AUTOSCALER, SCALED_OBJECT
from forewarn.policies.kubernetes.objects.fields import at, group_kind, text_at

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
    from forewarn.policies.linting.rules.support.context import Context


class Scaler(NamedTuple):
    """A scaler. `kind`: the `group/Kind` of its workload. `limits`: the paths of the minimum and the maximum."""

    subject: ReviewedObject
    kind: str
    name: str
    limits: tuple[Path, Path]
    default: int

    @property
    def minimum(self) -> int | None:
        """The minimum of replicas; None if it is not readable."""
        return self._limit(self.limits[0], self.default)

    @property
    def maximum(self) -> int | None:
        """The maximum of replicas; None if it is absent or not readable."""
        return self._limit(self.limits[1], None)

    def _limit(self, path: Path, default: int | None) -> int | None:
        value = at(self.subject.object, *path)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return value if is_number else default if value is None else None

    def scales(self, workload: ReviewedObject) -> bool:
        """Report whether it scales a workload."""
        is_named = (group_kind(workload.object), workload.ref.name) == (self.kind, self.name)
        return is_named and workload.effective_namespace == self.subject.effective_namespace


_FIELDS = {
    AUTOSCALER: (("spec", "minReplicas"), ("spec", "maxReplicas"), 1),
    SCALED_OBJECT: (("spec", "minReplicaCount"), ("spec", "maxReplicaCount"), 0),
}


def scaler_of(subject: ReviewedObject) -> Scaler | None:
    """Return the scaler that an object is; None for other objects, and for those of which a part is unknown."""
    kind = group_kind(subject.object)
    if kind not in _FIELDS or subject.is_partial:
        return None
    least, most, default = _FIELDS[kind]
    version = text_at(subject.object, "spec", "scaleTargetRef", "apiVersion") or "apps/v1" * (kind == SCALED_OBJECT)
    target = text_at(subject.object, "spec", "scaleTargetRef", "kind") or "Deployment" * (kind == SCALED_OBJECT)
    name = text_at(subject.object, "spec", "scaleTargetRef", "name")
    return Scaler(subject, f"{version.rpartition('/')[0]}/{target}", name, (least, most), default)


def scalers_of_workloads(context: Context) -> Mapping[tuple[str, str], Sequence[Scaler]]:
    """Return the scalers of the change set by namespace and name of the workload."""
    subjects = (subject for kind in _FIELDS for subject in context.of_kind(kind))
    scalers = filter(None, map(scaler_of, subjects))
    return grouped(((scaler.subject.effective_namespace, scaler.name), scaler) for scaler in scalers)
