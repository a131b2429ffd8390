"""What recreates a Pod after its deletion: controllers of Kubernetes, of the table of owners, and of the
configuration.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from forewarn.policies.kinds.owners import role_of
from forewarn.policies.kinds.registry import NODE, POD, POD_TEMPLATE_PATHS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from forewarn.policies.objects.pod import Pod


class Recreator(StrEnum):
    """The component that recreates a Pod after its deletion."""

    CONTROLLER = "controller"
    """The controller of the Pod."""
    NOTHING = "nothing"
    """Nothing: the Pod has no controller."""
    KUBELET = "kubelet"
    """The kubelet of the node: the Pod is static."""
    NOT_LISTED = "controller is not in the cluster state"
    """A controller of a modelled kind that is missing in the cluster state."""
    NEVER = "never"
    """A known controller, which does not create this Pod again, or only under conditions of its spec."""
    UNKNOWN = "unknown"
    """A controller of a kind that forewarn does not know."""

    @property
    def is_assumption(self) -> bool:
        """Whether forewarn only assumes that nothing recreates the Pod."""
        return self in (Recreator.NOT_LISTED, Recreator.UNKNOWN)


def again(pod: Pod, recreated: Collection[str], *, is_there: bool) -> Recreator:
    """Return what recreates a Pod after its deletion.

    `recreated`: the `group/Kind`s of controllers that recreate their Pods by the configuration. `is_there`: whether the
    simulation contains the Pod's workload.
    """
    kind = pod.owner_kind
    if is_there or kind in recreated:
        return Recreator.CONTROLLER
    if not kind:
        return Recreator.NOTHING
    if kind == NODE:
        return Recreator.KUBELET
    if kind in POD_TEMPLATE_PATHS:
        return Recreator.NOT_LISTED
    role = role_of(kind, pod.labels)
    if role is None:
        return Recreator.UNKNOWN
    return Recreator.CONTROLLER if role.recreated else Recreator.NEVER


def has_lost_owner(pod: Pod, runs: Callable[[str, str], bool]) -> bool:
    """Report whether the Pod's owner is a Pod (as a Spark driver owns its executors) that no longer runs."""
    return pod.owner is not None and pod.owner_kind == POD and not runs(pod.namespace, pod.owner.name)


def sentence(what: Recreator, kind: str) -> str:
    """Return a sentence about a deleted Pod whose controller has the `group/Kind` `kind`; "" if the controller
    recreates the Pod.
    """
    name = kind.removeprefix("/")
    texts = {
        Recreator.CONTROLLER: "",
        Recreator.NOTHING: "nothing replaces it",
        Recreator.KUBELET: "a static Pod: the kubelet of its node starts it",
        Recreator.NOT_LISTED: f"its {name.rpartition('/')[2]} is not in the cluster state: assumed not to be replaced",
        Recreator.NEVER: f"its {name.rpartition('/')[2]} does not replace it",
        Recreator.UNKNOWN: f"owned by {name}, a kind unknown to forewarn: assumed not to be replaced",
    }
    return texts[what]
