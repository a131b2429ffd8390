"""Which kinds outside Kubernetes create their Pods again, and what is known of the controller of a Pod.

The kinds were read in the documentation of their projects: each replaces a Pod that is deleted or evicted, whatever
the Pod did before. Kinds of which that depends on a restart policy (SparkApplication, Volcano's Job) are not here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from forewarn.policies.kinds.registry import NODE, POD_TEMPLATE_PATHS

if TYPE_CHECKING:
    from collections.abc import Collection

RECREATED: Final = (
    # https://cloudnative-pg.io/docs/1.28/failure_modes, "Self-Healing": it comes back with its claim, or a new one.
    "postgresql.cnpg.io/Cluster",
    # https://github.com/ray-project/kuberay/issues/2125: a deleted Pod is created again; an evicted head since v1.2.0.
    "ray.io/RayCluster",
    # https://github.com/strimzi/proposals/blob/main/031-statefulset-removal.md: it does what the StatefulSet did.
    "core.strimzi.io/StrimziPodSet",
    # https://openkruise.io/docs/user-manuals/cloneset: a new Pod for one that was deleted, with its claims.
    "apps.kruise.io/CloneSet",
)
"""`group/Kind`. The configuration adds more: `recreatesPods`."""


class Again(StrEnum):
    """The controllers that recreate a Pod after its deletion."""

    CONTROLLER = "controller"
    """Its controller."""
    NOTHING = "nothing"
    """It has no controller."""
    KUBELET = "kubelet"
    """The kubelet of its node: it is a static Pod."""
    NOT_LISTED = "controller is not in the cluster state"
    """A controller that is modelled and not in the state of the cluster."""
    UNKNOWN = "unknown"
    """A controller of a kind that forewarn does not know."""


def again(kind: str, recreated: Collection[str], *, is_there: bool) -> Again:
    """Return the controller that recreates the Pods of a controller.

    `kind`: its `group/Kind`, empty for a Pod without a controller; `is_there`: whether the simulation contains the
    workload.
    """
    if is_there or kind in recreated:
        return Again.CONTROLLER
    if not kind:
        return Again.NOTHING
    if kind == NODE:
        return Again.KUBELET
    return Again.NOT_LISTED if kind in POD_TEMPLATE_PATHS else Again.UNKNOWN


def sentence(what: Again, kind: str) -> str:
    """Return the description of a lost Pod with a controller of `group/Kind`; empty if the controller recreates the
    Pod.
    """
    name = kind.removeprefix("/")
    told = {
        Again.CONTROLLER: "",
        Again.NOTHING: "nothing replaces it",
        Again.KUBELET: "a static Pod: the kubelet of its node starts it",
        Again.NOT_LISTED: f"its {name.rpartition('/')[2]} is not in the cluster state: assumed not to be replaced",
        Again.UNKNOWN: f"owned by {name}, a kind unknown to forewarn: assumed not to be replaced",
    }
    return told[what]
