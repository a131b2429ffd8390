"""Deployments. Source: pkg/controller/deployment: deployment_controller.go, rolling.go, recreate.go, sync.go, util."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from forewarn.policies.kubernetes.controllers import templates
from forewarn.policies.kubernetes.controllers.replica_set import (
    ReplicaSetStatus,
    calculate_status,
    min_ready_seconds,
    spec_replicas,
)
from forewarn.policies.kubernetes.controllers.view import (
    Action,
    CreateWorkload,
    DeleteWorkload,
    Report,
    Requeue,
    SetStatus,
    UpdateConflict,
    UpdateWorkload,
    View,
    WorkloadState,
)
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidObject,
    at,
    boolean,
    int32,
    mapping,
    string_map,
    text,
    text_at,
)
from forewarn.policies.kubernetes.objects.workload import DEFAULT_DEADLINE, contains

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
        return self.state.key[2]

    @property
    def revision(self) -> int:
        """The revision of the ReplicaSet; 0 without one."""
        return annotation_of(self, REVISION) or 0

    @property
    def age(self) -> tuple[float, str]:
        """Sort key: the oldest ReplicaSet first. Source: `ReplicaSetsByCreationTimestamp`."""
        return self.state.created, self.name


class Rollout(NamedTuple):
    """A Deployment in one sync. `new`: the ReplicaSet with its template, or None. `old`: the others, oldest first."""

    view: View
    state: WorkloadState
    replicas: int
    new: Size | None
    old: list[Size]
    now: float

    @property
    def object(self) -> ApiObject:
        return self.state.object

    @property
    def every(self) -> list[Size]:
        """All ReplicaSets of the Deployment; the new one is last."""
        return [*self.old, *([self.new] if self.new else [])]


def is_paused(obj: ApiObject | None) -> bool:
    """Report whether a Deployment is paused; False for None. Raises InvalidObject."""
    return obj is not None and boolean(obj, "spec", "paused")


def is_rolling(obj: ApiObject) -> bool:
    return text(obj, "spec", "strategy", "type") != "Recreate"


def is_recreate(obj: ApiObject) -> bool:
    """Report whether a Deployment has the strategy Recreate. False for an invalid strategy."""
    return text_at(obj, "spec", "strategy", "type") == "Recreate"


def max_surge(obj: ApiObject, replicas: int) -> int:
    """Return the maximum number of Pods beyond `replicas`. Source: deployment util `MaxSurge`. Raises InvalidObject."""
    return templates.scaled(obj, _SURGE, replicas, up=True, default=_DEFAULT_SHARE) if is_rolling(obj) else 0


def max_unavailable(obj: ApiObject, replicas: int) -> int:
    """Return the maximum number of unavailable Pods. Raises InvalidObject.

    Source: `MaxUnavailable`, `ResolveFenceposts`.
    """
    if not is_rolling(obj) or not replicas:
        return 0
    missing = templates.scaled(obj, _UNAVAILABLE, replicas, up=False, default=_DEFAULT_SHARE)
    return min(missing if missing or max_surge(obj, replicas) else 1, replicas)


def new_rs_new_replicas(obj: ApiObject, replicas: int, every: int, new: int) -> int:
    """Return the new size of the new ReplicaSet, which is now `new`. `replicas`: the size of the Deployment. Source:
    deployment util `NewRSNewReplicas`. Raises InvalidObject.
    """
    if not is_rolling(obj):
        return replicas
    most = replicas + max_surge(obj, replicas)
    return new if every >= most else new + min(most - every, replicas - new)


def annotation_of(size: Size, name: str) -> int | None:
    """Return the number in a ReplicaSet's annotation, or None. Source: `getNonNegativeInt32FromAnnotationVerbose`."""
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
    if new.replicas >= rollout.replicas:
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
    """Return the updates that scale down old ReplicaSets. Source: `reconcileOldReplicaSets`."""
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
    return _scale_proportionally(rollout, active) if is_rolling(rollout.object) else []


def _is_saturated(rollout: Rollout, new: Size) -> bool:
    """Report whether the new ReplicaSet has all Pods, and all are available. Source: deployment util `IsSaturated`."""
    return new.replicas == annotation_of(new, DESIRED) == new.status.available == rollout.replicas


def _scale_proportionally(rollout: Rollout, active: list[Size]) -> list[Action]:
    """Return updates that scale active ReplicaSets in proportion. Source: `scale`, `GetReplicaSetProportion`."""
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


REVISION: Final = "deployment.kubernetes.io/revision"
_DEFAULT_HISTORY: Final = 10


class DeploymentStatus(NamedTuple):
    """The status of a Deployment: counts over all its ReplicaSets.

    `unavailable`: how many of the requested Pods are not available. `progressed`: the time of the last progress
    (seconds since 1970). `stalled`: whether the progress deadline has passed. `paused`: whether the Paused condition is
    set. `revision`: the revision in the annotation. `observed`: the spec that the status describes (upstream
    `observedGeneration`).
    """

    replicas: int = 0
    updated: int = 0
    ready: int = 0
    available: int = 0
    unavailable: int = 0
    progressed: float = 0.0
    stalled: bool = False
    paused: bool = False
    revision: int = 0
    observed: Mapping[str, object] = NOTHING


def reconcile(view: View, state: WorkloadState, now: float) -> list[Action]:
    """Return the writes of one sync of a Deployment. Upstream `syncDeployment`. Raises InvalidObject."""
    state, actions = _pause_condition(state, now)
    sizes = sorted((_size(view, owned, now) for owned in view.owned(state.key)), key=lambda size: size.age)
    current = find_new_replica_set(templates.template_of(state.object), [size.state.object for size in sizes])
    new = next((size for size in sizes if size.state.object is current), None)
    old = [size for size in sizes if size is not new]
    rollout = Rollout(view, state, spec_replicas(state.object), new, old, now)
    rollout, updates = _annotated_new(rollout)
    paused = is_paused(state.object)
    if updates and rollout.new is not None and not paused:  # `isScalingEvent` writes it, too: a conflict
        return [*actions, *updates, UpdateConflict(rollout.new.state.key)]
    if not updates:
        rollout, updates = _rollback_revision(rollout)
    actions += updates
    if paused or _is_scaling(rollout):
        actions += scale_in_proportion(rollout)
    elif is_rolling(state.object):
        actions += _roll(rollout)
    else:
        actions += _recreate(rollout)
    return actions + _progress(rollout, actions)


def _pause_condition(state: WorkloadState, now: float) -> tuple[WorkloadState, list[Action]]:
    """Return (state, writes) of a Deployment; if it was paused or resumed, with a new status.

    The progress deadline starts again. Source: `checkPausedConditions`.
    """
    old_status, paused = _status(state), is_paused(state.object)
    if paused == old_status.paused or old_status.stalled or _deadline(state.object) == MAX_INT32:
        return state, []
    status = old_status._replace(paused=paused, progressed=now)
    return replace(state, status=status), [SetStatus(state.key, status)]


def _rollback_revision(rollout: Rollout) -> tuple[Rollout, list[Action]]:
    """Return (rollout, writes); if the Deployment rolled back to an older ReplicaSet, with the new revision in its
    status.

    Source: `getNewReplicaSet`, `SetDeploymentRevision`.
    """
    old_status = rollout.state.status
    if rollout.new is None or not isinstance(old_status, DeploymentStatus):
        return rollout, []
    if old_status.revision == rollout.new.revision:
        return rollout, []
    status = old_status._replace(revision=rollout.new.revision)
    recorded = rollout._replace(state=replace(rollout.state, status=status))
    return recorded, [SetStatus(rollout.state.key, status)]


def _status(state: WorkloadState) -> DeploymentStatus:
    return state.status if isinstance(state.status, DeploymentStatus) else DeploymentStatus()


def _size(view: View, owned: WorkloadState, now: float) -> Size:
    replica_set_status, counts = owned.status, view.counts(owned.key)
    if not isinstance(replica_set_status, ReplicaSetStatus) and counts is not None and not min_ready_seconds(owned):
        replica_set_status = ReplicaSetStatus(counts.active, counts.ready, counts.ready)
    if not isinstance(replica_set_status, ReplicaSetStatus):
        replica_set_status = calculate_status(owned, [pod for pod in view.pods_of(owned.key) if pod.active], now)
    return Size(owned, spec_replicas(owned.object), replica_set_status)


def find_new_replica_set(template: ApiObject, sets: Sequence[ApiObject]) -> ApiObject | None:
    """Return the ReplicaSet with a Deployment's template, or None if the controller must create it. `sets`: oldest
    first. Source: deployment util `FindNewReplicaSet`.
    """
    bare = templates.without_hash(template)
    for replica_set in sets:
        if templates.without_hash(templates.template_of(replica_set)) == bare:
            return replica_set
    newest = max(sets, key=revision_of, default=None)
    if newest is None or not contains(templates.template_of(newest), bare):
        return None
    from forewarn.policies.kubernetes.kube_apiserver.validation.workload import (
        is_same_template,  # imported only if needed
    )

    with suppress(InvalidObject):  # an unreadable template counts as different
        if is_same_template(templates.without_hash(templates.template_of(newest)), bare):
            return newest
    return None


def revision_of(replica_set: ApiObject) -> tuple[int, str]:
    """Return the revision of a ReplicaSet as a sort key, equal to the order of numbers: (length, text)."""
    text_of = str(at(replica_set, "metadata", "annotations", REVISION) or "")
    return len(text_of), text_of


def _is_scaling(rollout: Rollout) -> bool:
    """Report whether the Deployment was scaled since the last sync. Source: `isScalingEvent`."""
    desired = (annotation_of(size, DESIRED) for size in rollout.every if size.replicas > 0)
    return any(number is not None and number != rollout.replicas for number in desired)


def _annotated_new(rollout: Rollout) -> tuple[Rollout, list[Action]]:
    """Return (rollout, writes), with the new ReplicaSet at the latest revision. Source: `getNewReplicaSet`."""
    new, seconds = rollout.new, min_ready_seconds(rollout.state)
    if new is None:
        return rollout, []
    obj, revision = new.state.object, max(new.revision, _next_revision(rollout))
    annotations = string_map(obj, "metadata", "annotations")
    if annotations.get(REVISION) == str(revision) and min_ready_seconds(new.state) == seconds:
        return rollout, []
    metadata = {**mapping(obj, "metadata"), "annotations": {**annotations, REVISION: str(revision)}}
    written = {**obj, "metadata": metadata}
    if min_ready_seconds(new.state) != seconds:
        written["spec"] = {**mapping(obj, "spec"), "minReadySeconds": seconds}
    renewed = new._replace(state=replace(new.state, object=written))
    return rollout._replace(new=renewed), [UpdateWorkload(new.state.key, written)]


def _next_revision(rollout: Rollout) -> int:
    return max((size.revision for size in rollout.old), default=0) + 1


def _roll(rollout: Rollout) -> list[Action]:
    """Return the writes of a rolling update. Upstream `rolloutRolling`."""
    created: list[Action] = []
    if rollout.new is None:
        rollout, created = _created(rollout)
    assert rollout.new is not None
    grown = reconcile_new(rollout, rollout.new)
    return [*created, *(grown or reconcile_old(rollout, rollout.new) or _clean_up(rollout))]


def _created(rollout: Rollout) -> tuple[Rollout, list[Action]]:
    """Return (rollout with a new ReplicaSet, which has no Pods yet; the writes that create it).

    Source: `getNewReplicaSet`.
    """
    obj, key = rollout.object, rollout.state.key
    template = templates.template_of(obj)
    name_hash = templates.template_hash(template)
    labels = {**string_map(template, "metadata", "labels"), templates.TEMPLATE_HASH: name_hash}
    selector = mapping(obj, "spec", "selector")
    match = {**string_map(selector, "matchLabels"), templates.TEMPLATE_HASH: name_hash}
    replicas = new_rs_new_replicas(obj, rollout.replicas, sum(size.replicas for size in rollout.old), 0)
    most, name = rollout.replicas + max_surge(obj, rollout.replicas), f"{key[2]}-{name_hash}"
    annotations = {REVISION: str(_next_revision(rollout)), DESIRED: str(rollout.replicas), MAX: str(most)}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": templates.metadata_below(obj, key[1], name, labels, annotations),
        "spec": {
            "replicas": replicas,
            "minReadySeconds": min_ready_seconds(rollout.state),
            "selector": {**selector, "matchLabels": match},
            "template": {**template, "metadata": {**mapping(template, "metadata"), "labels": labels}},
        },
    }
    state = WorkloadState(("apps/ReplicaSet", key[1], name), replica_set, None, rollout.now)
    new = Size(state, spec_replicas(replica_set), ReplicaSetStatus())
    status = _status(rollout.state)._replace(progressed=rollout.now, stalled=False, revision=new.revision)
    return rollout._replace(new=new), [CreateWorkload(replica_set, key), SetStatus(key, status)]


def _clean_up(rollout: Rollout) -> list[Action]:
    """Return deletions beyond revisionHistoryLimit, if the rollout is complete. Source: `cleanupDeployment`."""
    new = rollout.new
    if new is None or not (new.replicas == new.status.available == new.status.replicas == rollout.replicas):
        return []
    given = int32(rollout.object, "spec", "revisionHistoryLimit")
    limit = _DEFAULT_HISTORY if given is None else given
    by_revision = sorted(rollout.old, key=lambda size: revision_of(size.state.object))
    doomed = by_revision[: max(len(by_revision) - limit, 0)]
    return [DeleteWorkload(s.state.key) for s in doomed if not s.replicas and not s.status.replicas]


def _recreate(rollout: Rollout) -> Sequence[Action]:
    """Return the writes for Recreate: new Pods after the old ones have terminated. Source: `rolloutRecreate`."""
    shrunk = [write for size in rollout.old if size.replicas for write in resized(rollout, size, 0)]
    if shrunk or _old_pods_running(rollout):
        return shrunk
    if rollout.new is None:
        return list(_created(rollout)[1])
    return resized(rollout, rollout.new, rollout.replicas) or _clean_up(rollout)


def _old_pods_running(rollout: Rollout) -> bool:
    """Report whether Pods of old ReplicaSets run, including terminating ones. Source: `oldPodsRunning`."""
    pods = (pod for size in rollout.old for pod in rollout.view.pods_of(size.state.key))
    return any(size.status.replicas > 0 for size in rollout.old) or any(not pod.pod.terminal for pod in pods)


def _progress(rollout: Rollout, actions: Sequence[Action]) -> list[Action]:
    """Return the write of the status if it changed, and a report or requeue for the progress deadline.

    `actions`: the other writes of the sync. Source: progress.go `syncRolloutStatus`.
    """
    obj, now = rollout.object, rollout.now
    statuses = [action.status for action in actions if isinstance(action, SetStatus)]
    state = replace(rollout.state, status=statuses[-1]) if statuses else rollout.state
    old, status = _status(state), _updated_status(rollout, state, actions)
    if _progressed(old, status):
        status = status._replace(progressed=now, stalled=False)
    deadline = _deadline(obj)
    further: list[Action] = []
    if not _is_complete(rollout.replicas, status) and deadline < MAX_INT32 and not is_paused(obj):
        if now >= status.progressed + deadline and not status.stalled:
            status = status._replace(stalled=True)
            further.append(Report(state.key, "ProgressDeadlineExceeded", f"no progress for {deadline} seconds"))
        elif not status.stalled:
            further.append(Requeue(state.key, status.progressed + deadline))
    return further if status == old else [SetStatus(state.key, status), *further]


def _updated_status(rollout: Rollout, state: WorkloadState, actions: Sequence[Action]) -> DeploymentStatus:
    """Return the status with the counts of all ReplicaSets. `actions`: other writes. Source: `calculateStatus`."""
    old, statuses = _status(state), [size.status for size in rollout.every]
    new = rollout.new.status if rollout.new else ReplicaSetStatus()
    created = [action.object for action in actions if isinstance(action, CreateWorkload)]
    requested = sum(size.replicas for size in rollout.every) + sum(map(spec_replicas, created))
    available = sum(status.available for status in statuses)
    return DeploymentStatus(
        sum(status.replicas for status in statuses),
        new.replicas,
        sum(status.ready for status in statuses),
        available,
        max(requested - available, 0),
        old.progressed or rollout.now,
        old.stalled,
        old.paused,
        old.revision if rollout.new is None else rollout.new.revision,
        mapping(state.object, "spec"),
    )


def _deadline(obj: ApiObject) -> int:
    """Return progressDeadlineSeconds or its default. Raises InvalidObject."""
    given = int32(obj, "spec", "progressDeadlineSeconds")
    return DEFAULT_DEADLINE if given is None else given


def _progressed(deployment_status: DeploymentStatus, status: DeploymentStatus) -> bool:
    """Report whether a status shows progress since `deployment_status`. Source: `DeploymentProgressing`."""
    pairs = ((s.updated, s.updated - s.replicas, s.ready, s.available) for s in (deployment_status, status))
    return any(after > before for before, after in zip(*pairs, strict=True))


def _is_complete(replicas: int, status: DeploymentStatus) -> bool:
    """Report whether the rollout is complete. Source: `DeploymentComplete`."""
    return status.updated == status.replicas == status.available == replicas
