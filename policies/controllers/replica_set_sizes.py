"""The sizes of a Deployment's ReplicaSets in one step of a rollout, and in proportional scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.controllers.actions import (
    Action,
    UpdateWorkload,
)
from forewarn.policies.controllers.replica_set import ReplicaSetStatus, spec_replicas
from forewarn.policies.controllers.scaling import scaled
from forewarn.policies.objects.fields import (
    at,
    boolean,
    mapping,
    string_map,
    text,
    text_at,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.controllers.view import View, WorkloadState
    from forewarn.policies.objects.fields import ApiObject

DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAX: Final = "deployment.kubernetes.io/max-replicas"
_SURGE: Final = ("spec", "strategy", "rollingUpdate", "maxSurge")
_UNAVAILABLE: Final = ("spec", "strategy", "rollingUpdate", "maxUnavailable")
_DEFAULT_SHARE: Final = "25%"
MAX_INT32: Final = 2**31 - 1


class Size(NamedTuple):
    """A ReplicaSet with its status and its size. `replicas`: requested number of Pods, before or after this sync."""

    state: WorkloadState
    replicas: int
    status: ReplicaSetStatus

    @property
    def name(self) -> str:
        """The ReplicaSet's name."""
        return self.state.key[2]

    @property
    def age(self) -> tuple[float, str]:
        """Sort key: the oldest ReplicaSet first. Source: `ReplicaSetsByCreationTimestamp`."""
        return self.state.created, self.name


class Rollout(NamedTuple):
    """A Deployment in one sync.

    `new`: the ReplicaSet with its template, or None. `old`: the other ReplicaSets, oldest first.
    """

    view: View
    state: WorkloadState
    new: Size | None
    old: list[Size]
    now: float

    @property
    def object(self) -> ApiObject:
        """The Deployment as an API object."""
        return self.state.object

    @property
    def replicas(self) -> int:
        """The number of requested Pods."""
        return spec_replicas(self.state.object)

    @property
    def every(self) -> list[Size]:
        """All ReplicaSets of the Deployment; the new one is last."""
        return [*self.old, *([self.new] if self.new else [])]


def is_paused(obj: ApiObject | None) -> bool:
    """Report whether a Deployment is paused; False for None. Raises InvalidObject."""
    return obj is not None and boolean(obj, "spec", "paused")


def is_rolling(obj: ApiObject) -> bool:
    """Report whether a Deployment has the strategy RollingUpdate, which is the default."""
    return text(obj, "spec", "strategy", "type") != "Recreate"


def is_recreate(obj: ApiObject) -> bool:
    """Report whether a Deployment has the strategy Recreate. False for an invalid strategy."""
    return text_at(obj, "spec", "strategy", "type") == "Recreate"


def max_surge(obj: ApiObject, replicas: int) -> int:
    """Return the maximum number of Pods beyond `replicas`. Source: deployment util `MaxSurge`. Raises InvalidObject."""
    return scaled(obj, _SURGE, replicas, up=True, default=_DEFAULT_SHARE) if is_rolling(obj) else 0


def max_unavailable(obj: ApiObject, replicas: int) -> int:
    """Return the maximum number of unavailable Pods.

    Source: `MaxUnavailable`, `ResolveFenceposts`. Raises InvalidObject.
    """
    if not is_rolling(obj) or not replicas:
        return 0
    missing = scaled(obj, _UNAVAILABLE, replicas, up=False, default=_DEFAULT_SHARE)
    return min(missing if missing or max_surge(obj, replicas) else 1, replicas)


def new_rs_new_replicas(obj: ApiObject, replicas: int, every: int, new: int) -> int:
    """Return the new size of the new ReplicaSet, which is now `new`. `replicas`: the size of the Deployment.

    `every`: the number of Pods that all ReplicaSets request now. Source: deployment util `NewRSNewReplicas`. Raises
    InvalidObject.
    """
    if not is_rolling(obj):
        return replicas
    most = replicas + max_surge(obj, replicas)
    return new if every >= most else new + min(most - every, replicas - new)


def annotation_of(size: Size, name: str) -> int | None:
    """Return the number in the annotation `name` of a ReplicaSet, or None.

    Source: `getNonNegativeInt32FromAnnotationVerbose`.
    """
    return natural(at(size.state.object, "metadata", "annotations", name))


def resized(rollout: Rollout, size: Size, replicas: int, *, force: bool = False) -> list[UpdateWorkload]:
    """Return the update that changes the size of a ReplicaSet to `replicas`; empty if nothing changes. Upstream
    `scaleReplicaSet`.

    `force`: also update outdated annotations.
    """
    desired, most = rollout.replicas, rollout.replicas + max_surge(rollout.object, rollout.replicas)
    annotated = (annotation_of(size, DESIRED), annotation_of(size, MAX)) == (desired, most)
    if size.replicas == replicas and (annotated or not force):
        return []
    obj = size.state.object
    annotations = {**string_map(obj, "metadata", "annotations"), DESIRED: str(desired), MAX: str(most)}
    metadata = {**mapping(obj, "metadata"), "annotations": annotations}
    spec = {**mapping(obj, "spec"), "replicas": replicas}
    return [UpdateWorkload(size.state.key, {**obj, "metadata": metadata, "spec": spec})]


def natural(value: object) -> int | None:
    """Return the value of an annotation as an integer, if it is a natural 32-bit number; otherwise None."""
    if not isinstance(value, str) or not (value.isascii() and value.isdigit()) or len(value) > len(str(MAX_INT32)):
        return None
    return int(value) if int(value) <= MAX_INT32 else None


def reconcile_new(rollout: Rollout, new: Size) -> list[UpdateWorkload]:
    """Return the update that changes the size of the new ReplicaSet, or nothing. Source: `reconcileNewReplicaSet`."""
    if new.replicas == rollout.replicas:
        return []
    if new.replicas > rollout.replicas:
        return resized(rollout, new, rollout.replicas)
    every = sum(size.replicas for size in rollout.every)
    return resized(rollout, new, new_rs_new_replicas(rollout.object, rollout.replicas, every, new.replicas))


def reconcile_old(rollout: Rollout, new: Size) -> list[UpdateWorkload]:
    """Return the updates that change the sizes of old ReplicaSets. Source: `reconcileOldReplicaSets`.

    Removes unavailable Pods first, then as many available Pods as may be unavailable.
    """
    old = [size for size in rollout.old if size.replicas > 0]
    least = rollout.replicas - max_unavailable(rollout.object, rollout.replicas)
    every = sum(size.replicas for size in rollout.every)
    max_scale_down = every - least - (new.replicas - new.status.available)
    if not old or max_scale_down <= 0:
        return []
    shrunk = _without_unhealthy(old, max_scale_down)
    writes = _shrinks(rollout, old[: len(shrunk)], shrunk)
    if len(shrunk) < len(old):
        return writes
    spare = max(sum(size.status.available for size in (*old, new)) - least, 0)
    scaled_down: list[Size] = []
    for size in shrunk:
        away = min(size.replicas, spare)
        spare -= away
        scaled_down.append(size._replace(replicas=size.replicas - away))
    return writes + _shrinks(rollout, shrunk, scaled_down)


def _shrinks(rollout: Rollout, before: Sequence[Size], after: Sequence[Size]) -> list[UpdateWorkload]:
    """Return the updates that scale down old ReplicaSets. Source: `reconcileOldReplicaSets`.

    If the API server rejects a write, the later writes are skipped, but not the status.
    """
    pairs = zip(before, after, strict=True)
    writes = [write for size, less in pairs for write in resized(rollout, size, less.replicas)]
    return [write._replace(may_fail=True) for write in writes]


def _without_unhealthy(old: Sequence[Size], max_scale_down: int) -> list[Size]:
    """Return the old ReplicaSets with sizes reduced by up to `max_scale_down` unavailable Pods. Source:
    `cleanupUnhealthyReplicas`.

    Stops at a ReplicaSet whose outdated status reports more available Pods than requested, an error in upstream.
    """
    shrunk: list[Size] = []
    for size in old:
        if max_scale_down > 0 and size.replicas < size.status.available:
            break
        away = min(max_scale_down, size.replicas - size.status.available) if max_scale_down > 0 else 0
        max_scale_down -= away
        shrunk.append(size._replace(replicas=size.replicas - away))
    return shrunk


def scale_in_proportion(rollout: Rollout) -> list[Action]:
    """Return the updates that scale all ReplicaSets of a Deployment in proportion. Source: `sync`, `scale`."""
    active = [size for size in rollout.every if size.replicas > 0]
    if len(active) <= 1:
        latest = active or ([rollout.new] if rollout.new else sorted(rollout.old, key=lambda s: s.age)[-1:])
        return [write for size in latest for write in resized(rollout, size, rollout.replicas)]
    if rollout.new is not None and _is_saturated(rollout, rollout.new):
        return [w for size in rollout.old if size.replicas for w in resized(rollout, size, 0)]
    if not is_rolling(rollout.object):
        return []
    return _in_proportion(rollout, active)


def _is_saturated(rollout: Rollout, new: Size) -> bool:
    """Report whether the new ReplicaSet has all requested Pods, and all are available.

    Source: deployment util `IsSaturated`.
    """
    return new.replicas == annotation_of(new, DESIRED) == new.status.available == rollout.replicas


def _in_proportion(rollout: Rollout, active: list[Size]) -> list[Action]:
    """Return the updates that scale several active ReplicaSets in proportion.

    Source: `scale`, `GetReplicaSetProportion`.
    """
    allowed = rollout.replicas + max_surge(rollout.object, rollout.replicas) if rollout.replicas else 0
    to_add = allowed - sum(size.replicas for size in active)
    ordered = sorted(active, key=lambda size: size.age, reverse=to_add > 0)
    ordered.sort(key=lambda size: -size.replicas)
    added = 0
    sizes: list[int] = []
    for size in ordered:
        share = proportion(rollout, size, to_add, added)
        sizes.append(size.replicas + share)
        added += share
    if to_add:
        sizes[0] = max(sizes[0] + to_add - added, 0)
    pairs = zip(ordered, sizes, strict=True)
    return [write for size, replicas in pairs for write in resized(rollout, size, replicas, force=True)]


def proportion(rollout: Rollout, size: Size, to_add: int, added: int) -> int:
    """Return how many of `to_add` Pods (negative: to remove) one ReplicaSet gets. `added`: how many others got already.

    Source: `GetReplicaSetProportion`, `getReplicaSetFraction`.
    """
    if not size.replicas or not to_add or to_add == added:
        return 0
    share = _fraction(rollout, size)
    return min(share, to_add - added) if to_add > 0 else max(share, to_add - added)


def _fraction(rollout: Rollout, size: Size) -> int:
    if not rollout.replicas:
        return -size.replicas
    most = rollout.replicas + max_surge(rollout.object, rollout.replicas)
    before = annotation_of(size, MAX) or sum(s.status.replicas for s in rollout.every)
    if not before:
        return 0
    exact = size.replicas * most / before
    return (int(exact - 0.5) if exact < 0 else int(exact + 0.5)) - size.replicas
