"""Deployments. Source: pkg/controller/deployment: deployment_controller.go, rolling.go, recreate.go, sync.go, util."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.controllers.actions import (
    Action,
    CreateWorkload,
    DeleteWorkload,
    Report,
    Requeue,
    SetStatus,
    UpdateConflict,
    UpdateWorkload,
)
from policies.controllers.replica_set import ReplicaSetStatus, calculate_status, min_ready_seconds, replicas_of
from policies.controllers.scaling import scaled
from policies.controllers.templates import TEMPLATE_HASH, template_hash, template_of, without_hash
from policies.controllers.view import WorkloadState
from policies.objects.fields import (
    NOTHING,
    at,
    boolean,
    int32,
    mapping,
    ref_of,
    string_map,
    text,
)
from policies.objects.workload import holds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.controllers.view import Key, View
    from policies.objects.fields import ApiObject

REVISION: Final = "deployment.kubernetes.io/revision"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAX: Final = "deployment.kubernetes.io/max-replicas"
_SURGE: Final = ("spec", "strategy", "rollingUpdate", "maxSurge")
_UNAVAILABLE: Final = ("spec", "strategy", "rollingUpdate", "maxUnavailable")
_DEFAULT_SHARE: Final = "25%"
_DEFAULT_DEADLINE: Final = 600
_DEFAULT_HISTORY: Final = 10
_INT32: Final = 2**31 - 1


class DeploymentStatus(NamedTuple):
    """Counts over all ReplicaSets. `unavailable`: of the pods they ask for; `progressed`: seconds since 1970 of the
    last step that was one; `stalled`: the deadline for the next has passed; `paused`: it says that it is paused;
    `revision`: that of its template, which it says in an annotation; `observed`: the spec of which it tells (upstream
    `observedGeneration`)."""

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


class Size(NamedTuple):
    """A ReplicaSet, as it is and as this sync leaves it."""

    state: WorkloadState
    replicas: int
    status: ReplicaSetStatus

    @property
    def name(self) -> str:
        """The ReplicaSet's name."""
        return self.state.key[2]

    @property
    def age(self) -> tuple[float, str]:
        """Source: `ReplicaSetsByCreationTimestamp`."""
        return self.state.created, self.name


class Rollout(NamedTuple):
    """A Deployment in one sync. `new`: the ReplicaSet of its template, `old`: the others, oldest first."""

    view: View
    state: WorkloadState
    new: Size | None
    old: list[Size]
    now: float

    @property
    def object(self) -> ApiObject:
        """The Deployment."""
        return self.state.object

    @property
    def replicas(self) -> int:
        """How many pods it wants."""
        return replicas_of(self.state)

    @property
    def every(self) -> list[Size]:
        """All its ReplicaSets, the new one last."""
        return [*self.old, *([self.new] if self.new else [])]


def reconcile(view: View, key: Key, now: float) -> list[Action]:
    """One sync: upstream `syncDeployment`. Raises InvalidObject."""
    state = view.workload(key)
    if state is None:
        return []
    state, actions = _told_of_pause(state, now)
    sizes = sorted((_size(view, owned, now) for owned in view.owned(key)), key=lambda size: size.age)
    found = find_new_replica_set(template_of(state.object), [size.state.object for size in sizes])
    new = next((size for size in sizes if size.state.object is found), None)
    rollout = Rollout(view, state, new, [size for size in sizes if size is not new], now)
    rollout, updates = _annotated_new(rollout)
    paused = _is_paused(state.object)
    if updates and rollout.new is not None and not paused:  # `isScalingEvent` writes it, and who comes after it again
        return [*actions, *updates, UpdateConflict(rollout.new.state.key)]
    if not updates:
        rollout, updates = _told_of_revision(rollout)
    actions += updates
    if paused or _is_scaling(rollout):
        actions += _scale(rollout)
    elif _is_rolling(state.object):
        actions += _roll(rollout)
    else:
        actions += _recreate(rollout)
    return actions + _progress(rollout, actions)


def _told_of_pause(state: WorkloadState, now: float) -> tuple[WorkloadState, list[Action]]:
    """A Deployment that is paused, or goes on, says so first, and the time to the deadline begins anew.

    Source: `checkPausedConditions`.
    """
    known, paused = _status(state), _is_paused(state.object)
    if paused == known.paused or known.stalled or _deadline(state.object) == _INT32:
        return state, []
    status = known._replace(paused=paused, progressed=now)
    return replace(state, status=status), [SetStatus(state.key, status)]


def _told_of_revision(rollout: Rollout) -> tuple[Rollout, list[Action]]:
    """A Deployment that goes back to an older ReplicaSet says whose revision its own is now.

    Source: `getNewReplicaSet`, `SetDeploymentRevision`.
    """
    known = rollout.state.status
    if rollout.new is None or not isinstance(known, DeploymentStatus) or known.revision == _number(rollout.new):
        return rollout, []
    status = known._replace(revision=_number(rollout.new))
    told = rollout._replace(state=replace(rollout.state, status=status))
    return told, [SetStatus(rollout.state.key, status)]


def _status(state: WorkloadState) -> DeploymentStatus:
    return state.status if isinstance(state.status, DeploymentStatus) else DeploymentStatus()


def _size(view: View, owned: WorkloadState, now: float) -> Size:
    known, counts = owned.status, view.counts(owned.key)
    if not isinstance(known, ReplicaSetStatus) and counts is not None and not min_ready_seconds(owned):
        known = ReplicaSetStatus(counts.active, counts.ready, counts.ready)
    if not isinstance(known, ReplicaSetStatus):
        known = calculate_status(owned, [pod for pod in view.pods_of(owned.key) if pod.active], now)
    return Size(owned, replicas_of(owned), known)


def find_new_replica_set(template: ApiObject, sets: Sequence[ApiObject]) -> ApiObject | None:
    """The ReplicaSet of a Deployment's template, None where it is to be made. `sets`: oldest first.

    Source: deployment util `FindNewReplicaSet`. A manifest lacks the defaults that are stored: where nothing is equal,
    the latest revision will do if it says all that the manifest says.
    """
    bare = without_hash(template)
    for replica_set in sets:
        if without_hash(template_of(replica_set)) == bare:
            return replica_set
    newest = max(sets, key=revision_of, default=None)
    return newest if newest is not None and holds(template_of(newest), bare) else None


def revision_of(replica_set: ApiObject) -> tuple[int, str]:
    """The revision that a ReplicaSet carries, for comparing: numbers by length, then by text."""
    text_of = str(at(replica_set, "metadata", "annotations", REVISION) or "")
    return len(text_of), text_of


def _is_rolling(obj: ApiObject) -> bool:
    return text(obj, "spec", "strategy", "type") != "Recreate"


def max_surge(obj: ApiObject, replicas: int) -> int:
    """Pods that a rollout may have beside the wanted ones. Source: deployment util `MaxSurge`. Raises InvalidObject."""
    return scaled(obj, _SURGE, replicas, up=True, default=_DEFAULT_SHARE) if _is_rolling(obj) else 0


def max_unavailable(obj: ApiObject, replicas: int) -> int:
    """Pods that may be missing. Source: `MaxUnavailable`, `ResolveFenceposts`. Raises InvalidObject."""
    if not _is_rolling(obj) or not replicas:
        return 0
    missing = scaled(obj, _UNAVAILABLE, replicas, up=False, default=_DEFAULT_SHARE)
    return min(missing if missing or max_surge(obj, replicas) else 1, replicas)


def new_rs_new_replicas(obj: ApiObject, replicas: int, every: int, new: int) -> int:
    """How large the new ReplicaSet becomes, of `every` pods that all of them ask for now.

    Source: deployment util `NewRSNewReplicas`. Raises InvalidObject.
    """
    if not _is_rolling(obj):
        return replicas
    most = replicas + max_surge(obj, replicas)
    return new if every >= most else new + min(most - every, replicas - new)


def _is_scaling(rollout: Rollout) -> bool:
    """Source: `isScalingEvent`."""
    desired = (_annotated(size, DESIRED) for size in rollout.every if size.replicas > 0)
    return any(number is not None and number != rollout.replicas for number in desired)


def _annotated(size: Size, name: str) -> int | None:
    """A number from an annotation, None where there is none. Source: `getNonNegativeInt32FromAnnotationVerbose`."""
    return _natural(at(size.state.object, "metadata", "annotations", name))


def _resized(rollout: Rollout, size: Size, replicas: int, *, force: bool = False) -> list[UpdateWorkload]:
    """Upstream `scaleReplicaSet`."""
    desired, most = rollout.replicas, rollout.replicas + max_surge(rollout.object, rollout.replicas)
    annotated = (_annotated(size, DESIRED), _annotated(size, MAX)) == (desired, most)
    if size.replicas == replicas and (annotated or not force):
        return []
    obj = size.state.object
    annotations = {**string_map(obj, "metadata", "annotations"), DESIRED: str(desired), MAX: str(most)}
    metadata = {**mapping(obj, "metadata"), "annotations": annotations}
    spec = {**mapping(obj, "spec"), "replicas": replicas}
    return [UpdateWorkload(size.state.key, {**obj, "metadata": metadata, "spec": spec})]


def _annotated_new(rollout: Rollout) -> tuple[Rollout, list[Action]]:
    """The new ReplicaSet brought up to date: the latest revision is its. Source: `getNewReplicaSet`."""
    new, seconds = rollout.new, min_ready_seconds(rollout.state)
    if new is None:
        return rollout, []
    obj, revision = new.state.object, max(_number(new), _next_revision(rollout))
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
    return max(map(_number, rollout.old), default=0) + 1


def _number(size: Size) -> int:
    """The revision of a ReplicaSet, 0 where it has none."""
    return _revision(size.state.object)


def _revision(replica_set: ApiObject) -> int:
    return _natural(at(replica_set, "metadata", "annotations", REVISION)) or 0


def _natural(value: object) -> int | None:
    """What an annotation says, where that is a number of 32 bits."""
    if not isinstance(value, str) or not (value.isascii() and value.isdigit()) or len(value) > len(str(_INT32)):
        return None
    return int(value) if int(value) <= _INT32 else None


def _new_replica_set(rollout: Rollout) -> CreateWorkload:
    """The ReplicaSet of the Deployment's template, in its first size. Source: `getNewReplicaSet`."""
    obj, key = rollout.object, rollout.state.key
    template = template_of(obj)
    name_hash = template_hash(template)
    labels = {**string_map(template, "metadata", "labels"), TEMPLATE_HASH: name_hash}
    selector = mapping(obj, "spec", "selector")
    match = {**string_map(selector, "matchLabels"), TEMPLATE_HASH: name_hash}
    replicas = new_rs_new_replicas(obj, rollout.replicas, sum(size.replicas for size in rollout.old), 0)
    most = rollout.replicas + max_surge(obj, rollout.replicas)
    ref = ref_of(obj)
    made = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "namespace": key[1],
            "name": f"{key[2]}-{name_hash}",
            "labels": labels,
            "annotations": {REVISION: str(_next_revision(rollout)), DESIRED: str(rollout.replicas), MAX: str(most)},
            "ownerReferences": [
                {"apiVersion": ref.api_version, "kind": "Deployment", "name": ref.name, "controller": True}
            ],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": min_ready_seconds(rollout.state),
            "selector": {**selector, "matchLabels": match},
            "template": {**template, "metadata": {**mapping(template, "metadata"), "labels": labels}},
        },
    }
    return CreateWorkload(made, key)


def _roll(rollout: Rollout) -> list[Action]:
    """Upstream `rolloutRolling`."""
    created: list[Action] = []
    if rollout.new is None:
        rollout, created = _created(rollout)
    assert rollout.new is not None
    grown = _reconcile_new(rollout, rollout.new)
    return [*created, *(grown or _reconcile_old(rollout, rollout.new) or _clean_up(rollout))]


def _created(rollout: Rollout) -> tuple[Rollout, list[Action]]:
    """The rollout with the new ReplicaSet, which has no pods yet."""
    made = _new_replica_set(rollout)
    name = text(made.object, "metadata", "name")
    state = WorkloadState(("apps/ReplicaSet", rollout.state.key[1], name), made.object, None, rollout.now)
    told = _status(rollout.state)._replace(progressed=rollout.now, stalled=False, revision=_revision(made.object))
    with_new = rollout._replace(new=Size(state, replicas_of(state), ReplicaSetStatus()))
    return with_new, [made, SetStatus(rollout.state.key, told)]


def _reconcile_new(rollout: Rollout, new: Size) -> list[UpdateWorkload]:
    """Source: `reconcileNewReplicaSet`."""
    if new.replicas == rollout.replicas:
        return []
    if new.replicas > rollout.replicas:
        return _resized(rollout, new, rollout.replicas)
    every = sum(size.replicas for size in rollout.every)
    return _resized(rollout, new, new_rs_new_replicas(rollout.object, rollout.replicas, every, new.replicas))


def _reconcile_old(rollout: Rollout, new: Size) -> list[UpdateWorkload]:
    """Source: `reconcileOldReplicaSets`: first what is not healthy, then as many as may be missing."""
    old = [size for size in rollout.old if size.replicas > 0]
    least = rollout.replicas - max_unavailable(rollout.object, rollout.replicas)
    every = sum(size.replicas for size in rollout.every)
    room = every - least - (new.replicas - new.status.available)
    if not old or room <= 0:
        return []
    shrunk = _without_unhealthy(old, room)
    writes = _shrinks(rollout, old[: len(shrunk)], shrunk)
    if len(shrunk) < len(old):
        return writes
    spare = max(sum(size.status.available for size in (*old, new)) - least, 0)
    left: list[Size] = []
    for size in shrunk:
        away = min(size.replicas, spare)
        spare -= away
        left.append(size._replace(replicas=size.replicas - away))
    return writes + _shrinks(rollout, shrunk, left)


def _shrinks(rollout: Rollout, before: Sequence[Size], after: Sequence[Size]) -> list[UpdateWorkload]:
    """Where one of these is refused, those after it are not written, and the status is. Source:
    `reconcileOldReplicaSets`."""
    pairs = zip(before, after, strict=True)
    writes = [write for size, less in pairs for write in _resized(rollout, size, less.replicas)]
    return [write._replace(may_fail=True) for write in writes]


def _without_unhealthy(old: Sequence[Size], room: int) -> list[Size]:
    """The old ReplicaSets, less pods that are not available; up to one whose status is late and tells of more available
    ones than it asks for: upstream takes that for a mistake. Source: `cleanupUnhealthyReplicas`."""
    shrunk: list[Size] = []
    for size in old:
        if room > 0 and size.replicas < size.status.available:
            break
        away = min(room, size.replicas - size.status.available) if room > 0 else 0
        room -= away
        shrunk.append(size._replace(replicas=size.replicas - away))
    return shrunk


def _clean_up(rollout: Rollout) -> list[Action]:
    """Old ReplicaSets beyond the history that is kept. Source: `cleanupDeployment`."""
    new = rollout.new
    if new is None or not (new.replicas == new.status.available == new.status.replicas == rollout.replicas):
        return []
    given = int32(rollout.object, "spec", "revisionHistoryLimit")
    limit = _DEFAULT_HISTORY if given is None else given
    by_revision = sorted(rollout.old, key=lambda size: revision_of(size.state.object))
    doomed = by_revision[: max(len(by_revision) - limit, 0)]
    return [DeleteWorkload(s.state.key) for s in doomed if not s.replicas and not s.status.replicas]


def _recreate(rollout: Rollout) -> Sequence[Action]:
    """Upstream `rolloutRecreate`: the new pods come when the old ones have ended."""
    shrunk = [write for size in rollout.old if size.replicas for write in _resized(rollout, size, 0)]
    if shrunk or _old_pods_running(rollout):
        return shrunk
    if rollout.new is None:
        return list(_created(rollout)[1])
    return _resized(rollout, rollout.new, rollout.replicas) or _clean_up(rollout)


def _old_pods_running(rollout: Rollout) -> bool:
    """Source: `oldPodsRunning`: a pod that is ending runs still."""
    pods = (pod for size in rollout.old for pod in rollout.view.pods_of(size.state.key))
    return any(size.status.replicas > 0 for size in rollout.old) or any(not pod.pod.terminal for pod in pods)


def _scale(rollout: Rollout) -> list[Action]:
    """All ReplicaSets in proportion, before any rollout goes on. Source: `sync`, `scale`."""
    active = [size for size in rollout.every if size.replicas > 0]
    if len(active) <= 1:
        latest = active or ([rollout.new] if rollout.new else sorted(rollout.old, key=lambda s: s.age)[-1:])
        return [write for size in latest for write in _resized(rollout, size, rollout.replicas)]
    if rollout.new is not None and _is_saturated(rollout, rollout.new):
        return [w for size in rollout.old if size.replicas for w in _resized(rollout, size, 0)]
    if not _is_rolling(rollout.object):
        return []
    return _in_proportion(rollout, active)


def _is_saturated(rollout: Rollout, new: Size) -> bool:
    """Source: deployment util `IsSaturated`."""
    return new.replicas == _annotated(new, DESIRED) == new.status.available == rollout.replicas


def _in_proportion(rollout: Rollout, active: list[Size]) -> list[Action]:
    """Source: `scale`, `GetReplicaSetProportion`."""
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
    return [write for size, replicas in pairs for write in _resized(rollout, size, replicas, force=True)]


def proportion(rollout: Rollout, size: Size, to_add: int, added: int) -> int:
    """How many of `to_add` pods one ReplicaSet gets. Source: `GetReplicaSetProportion`, `getReplicaSetFraction`."""
    if not size.replicas or not to_add or to_add == added:
        return 0
    share = _fraction(rollout, size)
    return min(share, to_add - added) if to_add > 0 else max(share, to_add - added)


def _fraction(rollout: Rollout, size: Size) -> int:
    if not rollout.replicas:
        return -size.replicas
    most = rollout.replicas + max_surge(rollout.object, rollout.replicas)
    before = _annotated(size, MAX) or sum(s.status.replicas for s in rollout.every)
    if not before:
        return 0
    exact = size.replicas * most / before
    return (int(exact - 0.5) if exact < 0 else int(exact + 0.5)) - size.replicas


class Settled(NamedTuple):
    """A Deployment whose only ReplicaSet is as it should be: as long as both are these objects, a sync tells of counts
    and deadlines alone."""

    deployment: ApiObject
    replica_set: ApiObject
    replicas: int
    deadline: int
    paused: bool


def settled(state: WorkloadState, owned: Sequence[WorkloadState], actions: Sequence[Action]) -> Settled | None:
    """What a sync has shown that came to these actions; None where the next may have to do more. Raises InvalidObject.

    Without old ReplicaSets no decision goes by counts.
    """
    if len(owned) != 1 or not all(isinstance(action, SetStatus | Requeue | Report) for action in actions):
        return None
    only = owned[0].object
    if find_new_replica_set(template_of(state.object), [only]) is not only:
        return None
    return Settled(state.object, only, replicas_of(state), _deadline(state.object), _is_paused(state.object))


def settled_sync(known: Settled, state: WorkloadState, owned: WorkloadState, now: float) -> list[Action] | None:
    """The same as `reconcile`; None where it has to be asked. `owned`: the only ReplicaSet."""
    if known.deployment is not state.object or known.replica_set is not owned.object:
        return None
    if not isinstance(owned.status, ReplicaSetStatus):
        return None
    return _report(state, known, [owned.status], owned.status, known.replicas, now)


def _progress(rollout: Rollout, actions: Sequence[Action]) -> list[Action]:
    """The status, and the report when nothing has progressed for so long. Source: progress.go `syncRolloutStatus`."""
    obj = rollout.object
    about = Settled(obj, obj, rollout.replicas, _deadline(obj), _is_paused(obj))
    statuses = [size.status for size in rollout.every]
    new = rollout.new.status if rollout.new else ReplicaSetStatus()
    made = [int32(action.object, "spec", "replicas") or 0 for action in actions if isinstance(action, CreateWorkload)]
    asked = sum(size.replicas for size in rollout.every) + sum(made)
    told = [action.status for action in actions if isinstance(action, SetStatus)]
    state = replace(rollout.state, status=told[-1]) if told else rollout.state
    revision = None if rollout.new is None else _number(rollout.new)
    return _report(state, about, statuses, new, asked, rollout.now, revision)


def _report(
    state: WorkloadState,
    about: Settled,
    statuses: Sequence[ReplicaSetStatus],
    new: ReplicaSetStatus,
    asked: int,
    now: float,
    revision: int | None = None,
) -> list[Action]:
    """`statuses`: of all ReplicaSets; `asked`: for how many pods they ask; `revision`: of the new one, None where it is
    as it was."""
    known = _status(state)
    available = sum(status.available for status in statuses)
    counts = (
        sum(status.replicas for status in statuses),
        new.replicas,
        sum(status.ready for status in statuses),
        available,
        max(asked - available, 0),
    )
    said, spec = known.revision if revision is None else revision, mapping(state.object, "spec")
    status = DeploymentStatus(*counts, known.progressed or now, known.stalled, known.paused, said, spec)
    if _progressed(known, status):
        status = status._replace(progressed=now, stalled=False)
    deadline = about.deadline
    further: list[Action] = []
    if not _is_complete(about.replicas, status) and deadline < _INT32 and not about.paused:
        if now >= status.progressed + deadline and not status.stalled:
            status = status._replace(stalled=True)
            further.append(Report(state.key, "ProgressDeadlineExceeded", f"no progress for {deadline} seconds"))
        elif not status.stalled:
            further.append(Requeue(state.key, status.progressed + deadline))
    return further if status == known else [SetStatus(state.key, status), *further]


def _deadline(obj: ApiObject) -> int:
    """Seconds. Raises InvalidObject."""
    given = int32(obj, "spec", "progressDeadlineSeconds")
    return _DEFAULT_DEADLINE if given is None else given


def _is_paused(obj: ApiObject) -> bool:
    return boolean(obj, "spec", "paused")


def _progressed(known: DeploymentStatus, status: DeploymentStatus) -> bool:
    """Source: `DeploymentProgressing`."""
    old = status.replicas - status.updated < known.replicas - known.updated
    return status.updated > known.updated or old or status.ready > known.ready or status.available > known.available


def _is_complete(replicas: int, status: DeploymentStatus) -> bool:
    """Source: `DeploymentComplete`."""
    return status.updated == status.replicas == status.available == replicas
