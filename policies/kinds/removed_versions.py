"""API versions that Kubernetes has removed, with their replacement.

Source: Kubernetes documentation, "Deprecated API Migration Guide".
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Removed(NamedTuple):
    """The version that replaces a removed one, and the minor version of Kubernetes 1.x without the removed one."""

    replacement: str
    minor: int


_WORKLOADS: Final = ("Deployment", "ReplicaSet", "DaemonSet")
REMOVED: Final = {
    **{f"extensions/v1beta1/{kind}": Removed("apps/v1", 16) for kind in _WORKLOADS},
    **{f"apps/v1beta1/{kind}": Removed("apps/v1", 16) for kind in ("Deployment", "StatefulSet")},
    **{f"apps/v1beta2/{kind}": Removed("apps/v1", 16) for kind in (*_WORKLOADS, "StatefulSet")},
    "batch/v1beta1/CronJob": Removed("batch/v1", 25),
    "batch/v2alpha1/CronJob": Removed("batch/v1", 21),
    "policy/v1beta1/PodDisruptionBudget": Removed("policy/v1", 25),
}
"""`apiVersion/kind` -> its replacement, for kinds that the linter reads, except PriorityClasses."""


def removed_version(api_version: object, kind: object) -> Removed | None:
    """The replacement of a removed version; None for other versions."""
    return REMOVED.get(f"{api_version}/{kind}")
