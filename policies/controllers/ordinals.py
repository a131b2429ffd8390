"""The ordinals of a StatefulSet's Pods, and their order. Source: pkg/controller/statefulset/stateful_set_utils.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.controllers.replica_set import spec_replicas
from forewarn.policies.controllers.scaling import scaled
from forewarn.policies.objects.fields import int32, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.releases.semantics import Semantics

_UNAVAILABLE: Final = ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
_DIGITS: Final = 9


def ordinal_of(name: str, parent: str) -> int:
    """Return the ordinal in a Pod's name; -1 if the Pod does not belong to the StatefulSet `parent`.

    Source: `getParentNameAndOrdinal`.
    """
    stem, dash, number = name.rpartition("-")
    if not dash or stem != parent or not (number.isascii() and number.isdigit()) or len(number) > _DIGITS:
        return -1
    return int(number)


def start_ordinal(obj: ApiObject) -> int:
    """Return `spec.ordinals.start`, 0 if unset. Raises InvalidObject."""
    return int32(obj, "spec", "ordinals", "start") or 0


def requested_ordinals(obj: ApiObject) -> range:
    """Return the ordinals of the Pods that a StatefulSet requests. Raises InvalidObject."""
    start = start_ordinal(obj)
    return range(start, start + spec_replicas(obj))


def allows_burst(obj: ApiObject) -> bool:
    """Report whether a StatefulSet creates and deletes Pods without waiting for others. Source: `allowsBurst`."""
    return text(obj, "spec", "podManagementPolicy") == "Parallel"


def max_unavailable_of_set(obj: ApiObject, semantics: Semantics) -> int:
    """Return how many Pods of a StatefulSet a rollout makes unavailable at most. Raises InvalidObject.

    Source: `getStatefulSetMaxUnavailable`.
    """
    if not semantics.stateful_sets_have_max_unavailable:
        return 1
    return max(scaled(obj, _UNAVAILABLE, spec_replicas(obj), up=False, default=1), 1)


def blocking_ordinal(obj: ApiObject, ordinals: Iterable[int]) -> int | None:
    """Return the ordinal of the Pod for which a StatefulSet waits; None if the StatefulSet waits for no Pod.

    `ordinals`: of its Pods that do not run. Until the Pod runs, the StatefulSet creates, deletes and replaces no Pod
    with a higher ordinal. Source: `processReplica`, which returns if `!isRunningAndReady(pod) && monotonic`.
    """
    requested = requested_ordinals(obj)
    return None if allows_burst(obj) else min((number for number in ordinals if number in requested), default=None)
