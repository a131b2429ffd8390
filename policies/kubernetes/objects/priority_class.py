"""PriorityClass, as stored in the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.objects.fields import ApiObject, boolean, int32, mapping_at, text

if TYPE_CHECKING:
    from forewarn.policies.base.documents import Hidden, Spelled

SERVED_VERSION: Final = "scheduling.k8s.io/v1"
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"
PREEMPT_NEVER: Final = "Never"
POLICIES: Final = (PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER)
HIGHEST_USER_DEFINABLE_PRIORITY: Final = 1_000_000_000
HIGHEST_SYSTEM_PRIORITY: Final = 2_000_001_000
SYSTEM_PRIORITY_CLASS_PREFIX: Final = "system-"
OWN_CLASSES: Final = ("forewarn", "forewarn-audit-cron-job", "forewarn-sweep")
"""The classes of forewarn's own Pods (manifests/base, manifests/components, manifests/jobs)."""


class PriorityClass(NamedTuple):
    """A stored PriorityClass, and the Helm release that owns it."""

    name: str
    value: int
    global_default: Spelled[bool] = False
    preemption_policy: Spelled[str] = PREEMPT_LOWER_PRIORITY
    description: Hidden[str] = ""
    release: Hidden[str | None] = None
    """The Helm release that owns the class, as namespace/name."""

    @classmethod
    def from_api(cls, obj: ApiObject) -> PriorityClass:
        """Read an API object. Raises InvalidObject."""
        description, annotations = obj.get("description"), mapping_at(obj, "metadata", "annotations")
        release = [annotations.get(f"meta.helm.sh/release-{part}") for part in ("namespace", "name")]
        return cls(
            name=text(obj, "metadata", "name"),
            value=int32(obj, "value") or 0,
            global_default=boolean(obj, "globalDefault"),
            preemption_policy=text(obj, "preemptionPolicy", default=PREEMPT_LOWER_PRIORITY),
            description=description if isinstance(description, str) else "",
            release="/".join(map(str, release)) if all(release) else None,
        )

    def to_api(self) -> ApiObject:
        """Return the PriorityClass as an API object with these fields."""
        return {
            "apiVersion": SERVED_VERSION,
            "kind": "PriorityClass",
            "metadata": {"name": self.name},
            "value": self.value,
            "globalDefault": self.global_default,
            "preemptionPolicy": self.preemption_policy,
            "description": self.description,
        }


SYSTEM_CLASSES: Final = (
    PriorityClass("system-cluster-critical", 2_000_000_000, description="for Pods that may move to another node"),
    PriorityClass("system-node-critical", HIGHEST_SYSTEM_PRIORITY, description="for Pods that must not move"),
)
"""The classes that every API server creates at start. Source: pkg/apis/scheduling/v1/helpers.go."""
SYSTEM_NAMES: Final = frozenset(c.name for c in SYSTEM_CLASSES)
GKE: Final = "gke"
HOSTED_CLASSES: Final[Mapping[str, tuple[PriorityClass, ...]]] = {
    "aks": (),
    "eks": (),
    GKE: (),
    "openshift": (PriorityClass("openshift-user-critical", 1_000_000_000),),
}
"""The other classes of hosted clusters, by preset. Source: modules/nodes-pods-priority-about.adoc in
openshift/openshift-docs, without the class of the logging operator.
"""
