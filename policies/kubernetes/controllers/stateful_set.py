"""StatefulSets. Source: pkg/controller/statefulset/stateful_set_control.go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.controllers.replica_set import min_ready_seconds, spec_replicas
from forewarn.policies.kubernetes.controllers.templates import (
    CONTROLLER_REVISION,
    claim_of_template,
    labelled,
    pod_of_template,
    scaled,
    template_hash,
    template_of,
)
from forewarn.policies.kubernetes.controllers.view import (
    Action,
    CreateClaim,
    CreatePod,
    DeletePod,
    Requeue,
    SetClaimOwner,
    SetStatus,
)
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, int32, items, mapping, text
from forewarn.policies.kubernetes.objects.pod import Owner, Pod
from forewarn.policies.kubernetes.objects.volumes import Volume

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.controllers.view import PodState, View, WorkloadState
    from forewarn.policies.kubernetes.objects.storage import PersistentVolumeClaim
    from forewarn.policies.kubernetes.releases.semantics import Semantics


_UNAVAILABLE: Final = ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
_DIGITS: Final = 9


def ordinal_of(name: str, parent: str) -> int:
    """Return the ordinal in a Pod's name; -1 if not of `parent`. Source: upstream `getParentNameAndOrdinal`."""
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
    """Return the rollout's maximum unavailable Pods. Raises InvalidObject. Source: `getStatefulSetMaxUnavailable`."""
    if not semantics.stateful_sets_have_max_unavailable:
        return 1
    return max(scaled(obj, _UNAVAILABLE, spec_replicas(obj), up=False, default=1), 1)


def blocking_ordinal(obj: ApiObject, ordinals: Iterable[int]) -> int | None:
    """Return the ordinal of the Pod for which a StatefulSet waits; None if the StatefulSet waits for no Pod. Source:
    `processReplica`, which returns if `!isRunningAndReady(pod) && monotonic`.
    """
    requested = requested_ordinals(obj)
    return None if allows_burst(obj) else min((number for number in ordinals if number in requested), default=None)


POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
_RETRY_SECONDS: Final = 10.0
"""Seconds until a set checks again whether a claim that is being deleted exists; upstream's delay increases."""


class StatefulSetStatus(NamedTuple):
    """The status of a StatefulSet: the current and the update revision with their templates, and numbers of Pods."""

    current: str = ""
    update: str = ""
    current_template: ApiObject = NOTHING
    update_template: ApiObject = NOTHING
    replicas: int = 0
    ready: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0


class _Set(NamedTuple):
    """The input of one sync of a StatefulSet.

    `replicas`: (ordinal, its Pod or None) for the requested ordinals, see `_partitioned`. `condemned`: Pods to scale
    down, highest ordinal first. `start`: the first ordinal.
    """

    view: View
    state: WorkloadState
    status: StatefulSetStatus
    replicas: Sequence[tuple[int, PodState | None]]
    condemned: list[PodState]
    start: int
    now: float
    claim_templates: Mapping[str, ApiObject]

    @property
    def monotonic(self) -> bool:
        return not allows_burst(self.state.object)

    @property
    def rolls(self) -> bool:
        return text(self.state.object, "spec", "updateStrategy", "type") != "OnDelete"

    @property
    def partition(self) -> int | None:
        """The rolling update's partition; None with a type but no rollingUpdate. Source: `SetDefaults_StatefulSet`."""
        strategy = mapping(self.state.object, "spec", "updateStrategy")
        partition = int32(strategy, "rollingUpdate", "partition")
        is_defaulted = not text(strategy, "type") or strategy.get("rollingUpdate") is not None
        return 0 if partition is None and is_defaulted else partition

    def deletes_claims(self, when: str) -> bool:
        """Report whether the retention policy deletes claims. `when`: "whenDeleted" or "whenScaled"."""
        return text(self.state.object, "spec", "persistentVolumeClaimRetentionPolicy", when) == "Delete"

    def claims_of(self, pod_name: str) -> dict[str, PersistentVolumeClaim | None]:
        """Return name -> claim for each of the volumeClaimTemplates of the Pod; None for a missing claim."""
        charge(len(self.claim_templates))
        names = (claim_name(template, pod_name) for template in self.claim_templates)
        return {name: self.view.claim(self.state.key[1], name) for name in names}

    def available(self, pod: PodState) -> bool:
        return pod.available(min_ready_seconds(self.state), self.now)


def reconcile(view: View, state: WorkloadState, now: float) -> list[Action]:
    """Return the writes of one sync of a StatefulSet. Upstream `updateStatefulSet`. Raises InvalidObject."""
    pods = view.pods_of(state.key)
    sts = _partitioned(view, state, _updated_status(_revisions(state, pods), pods), pods, now)
    actions = _process(sts)
    completed = _completed(sts)
    if completed != state.status:
        actions.append(SetStatus(state.key, completed))
    if seconds := min_ready_seconds(state):
        due = [pod.ready + seconds for pod in pods if pod.ready is not None and pod.ready + seconds > now]
        actions += [Requeue(state.key, min(due))] if due else []
    return actions


def _revisions(state: WorkloadState, pods: Sequence[PodState]) -> StatefulSetStatus:
    """Return the status with the current and update revisions. Upstream `getStatefulSetRevisions`.

    Before the first sync, both are the most frequent revision of the Pods.
    """
    stateful_set_status, template = state.status, template_of(state.object)
    if isinstance(stateful_set_status, StatefulSetStatus):
        if stateful_set_status.update_template is template or stateful_set_status.update_template == template:
            return stateful_set_status
        return stateful_set_status._replace(
            update=f"{state.key[2]}-{template_hash(template)}", update_template=template
        )
    carried = [revision_of(pod) for pod in pods if revision_of(pod)]
    usual = max(carried, key=carried.count, default="") or f"{state.key[2]}-{template_hash(template)}"
    return StatefulSetStatus(usual, usual, template, template)


def revision_of(pod: PodState) -> str:
    """Return the revision in a Pod's label. Source: `getPodRevision`."""
    return pod.pod.labels.get(CONTROLLER_REVISION, "")


def _is_of(pod: PodState, revision: str, stateful_set_status: StatefulSetStatus) -> bool:
    """Report whether a Pod has this revision. `stateful_set_status`: the status of the StatefulSet."""
    return (revision_of(pod) or stateful_set_status.current) == revision


def _updated_status(status: StatefulSetStatus, pods: Sequence[PodState]) -> StatefulSetStatus:
    """Return the status with the numbers of Pods. Upstream `updateStatus`."""
    staying = [pod for pod in pods if not pod.terminating]
    return status._replace(
        replicas=len(pods),
        ready=sum(pod.ready is not None for pod in pods),
        current_replicas=sum(_is_of(pod, status.current, status) for pod in staying),
        updated_replicas=sum(_is_of(pod, status.update, status) for pod in staying),
    )


def _partitioned(
    view: View, state: WorkloadState, status: StatefulSetStatus, pods: Sequence[PodState], now: float
) -> _Set:
    requested = requested_ordinals(state.object)
    by_ordinal = {ordinal_of(pod.pod.name, state.key[2]): pod for pod in pods}
    condemned = [pod for number, pod in by_ordinal.items() if number >= 0 and number not in requested]
    condemned.sort(key=lambda pod: -ordinal_of(pod.pod.name, state.key[2]))
    # The size of `places` depends neither on the number of replicas nor on an ordinal in a Pod's name: of the missing
    # ordinals, it contains the first MAX_AT_ONCE, and one for each further gap.
    places: list[tuple[int, PodState | None]] = []
    left, following = MAX_AT_ONCE, requested.start
    for ordinal in (*sorted(n for n in by_ordinal if n in requested), requested.stop):
        gap = range(following, ordinal)
        missing = gap[: max(left, 1)]
        left -= len(missing)
        places += [(number, None) for number in missing]
        if ordinal < requested.stop:
            places.append((ordinal, by_ordinal[ordinal]))
        following = ordinal + 1
    return _Set(view, state, status, places, condemned, requested.start, now, claim_templates(state.object))


def claim_templates(obj: ApiObject) -> dict[str, ApiObject]:
    """Return name (also of the Pod's volume) -> claim template of `spec.volumeClaimTemplates`. Raises InvalidObject."""
    return {text(template, "metadata", "name"): template for template in items(obj, "spec", "volumeClaimTemplates")}


def claim_name(template: str, pod_name: str) -> str:
    """Return the name of a Pod's claim from a claim template. Source: `getPersistentVolumeClaimName`."""
    return f"{template}-{pod_name}"


MAX_AT_ONCE: Final = 500
"""Maximum number of Pods that one sync of a Parallel set creates; upstream limits its batches too."""


def _process(sts: _Set) -> list[Action]:
    """Return the writes for the requested and the condemned Pods, and for the rollout. Source: `updateStatefulSet`."""
    actions: list[Action] = []
    for ordinal, pod in sts.replicas:
        if pod is None and len(actions) >= MAX_AT_ONCE:
            continue
        if _process_replica(sts, ordinal, pod, actions) and sts.monotonic:
            return actions
    for pod in sts.condemned if sts.claim_templates else ():
        actions += _owners_to_set(sts, pod.pod.name, pod.pod.uid)
    first_unavailable = _first_unavailable(sts)
    for pod in sts.condemned:
        if not pod.terminating and not _is_awaited(sts, pod, first_unavailable):
            actions.append(DeletePod(pod.pod.namespace, pod.pod.name, sts.state.key))
        if sts.monotonic:
            return actions
    if sts.rolls:
        _update(sts, actions)
    return actions


def _process_replica(sts: _Set, ordinal: int, pod: PodState | None, actions: list[Action]) -> bool:
    """Add the writes for a requested Pod to `actions`; return whether an ordered StatefulSet stops at this Pod.

    Source: `processReplica`.
    """
    if pod is None:
        _create(sts, ordinal, actions)
        return True
    if pod.pod.terminal:
        if not pod.terminating:
            actions.append(DeletePod(pod.pod.namespace, pod.pod.name, sts.state.key))
        return True
    if sts.claim_templates and pod.pod.phase in ("", "Pending"):
        missing = _missing_claims(sts, pod.pod.name)
        actions += [*map(CreateClaim, missing), *_owners_to_set(sts, pod.pod.name, pod.pod.uid, creates=True)]
    if pod.terminating or pod.ready is None or not sts.available(pod):
        return True
    if sts.claim_templates:
        actions += _owners_to_set(sts, pod.pod.name, pod.pod.uid)
    return False


def _create(sts: _Set, ordinal: int, actions: list[Action]) -> None:
    """Add the writes that create a Pod and its claims, unless a claim is being deleted or still belongs to the previous
    Pod.

    Source: `CreateStatefulPod`, `PodClaimIsStale`.
    """
    name = f"{sts.state.key[2]}-{ordinal}"
    claims = [claim for claim in sts.claims_of(name).values() if claim is not None]
    if sts.deletes_claims("whenScaled") and any(_is_owned_by_pod(claim, name) for claim in claims):
        return
    if any(claim.deleting for claim in claims):
        actions.append(Requeue(sts.state.key, sts.now + _RETRY_SECONDS))
        return
    owners = _owners_to_set(sts, name, "", creates=True)
    actions.append(_new_pod(sts, ordinal)._replace(claims=_missing_claims(sts, name), claim_owners=owners))


def _missing_claims(sts: _Set, pod_name: str) -> list[PersistentVolumeClaim]:
    """Return the missing claims of a Pod, to be created. Source: `createPersistentVolumeClaims`."""
    view, (_, namespace, _) = sts.view, sts.state.key
    missing = (name for name, claim in sts.claims_of(pod_name).items() if claim is None)
    templates = {claim_name(name, pod_name): template for name, template in sts.claim_templates.items()}
    return [claim_of_template(view, namespace, name, templates[name], None) for name in missing]


def _is_owned_by_pod(claim: PersistentVolumeClaim, name: str) -> bool:
    return claim.owner is not None and claim.owner[:2] == ("Pod", name)


def _owners_to_set(sts: _Set, pod_name: str, uid: str, *, creates: bool = False) -> list[SetClaimOwner]:
    """Return the changes of owner for a Pod's claims. `creates`: include missing claims, which are created first.

    Source: `isClaimOwnerUpToDate`, `updateClaimOwnerRefForSetAndPod`.
    """
    is_scaled_down = ordinal_of(pod_name, sts.state.key[2]) not in requested_ordinals(sts.state.object)
    wanted: Owner | None = None
    if is_scaled_down and sts.deletes_claims("whenScaled"):
        wanted = Owner("Pod", pod_name, uid, "v1")
    elif sts.deletes_claims("whenDeleted"):
        wanted = Owner("StatefulSet", sts.state.key[2], text(sts.state.object, "metadata", "uid"), "apps/v1")
    ours = {("StatefulSet", sts.state.key[2]), ("Pod", pod_name)}
    owners = []
    for name, claim in sts.claims_of(pod_name).items():
        if claim is None and not creates:
            continue
        owner = None if claim is None else claim.owner
        is_stale = claim is not None and _is_owned_by_pod(claim, pod_name) and claim.owner_uid != uid
        is_strange = owner is not None and owner[:2] not in ours
        if not is_stale and not is_strange and (owner and owner[:2]) != (wanted and wanted[:2]):
            owners.append(SetClaimOwner(sts.state.key[1], name, wanted))
    return owners


def _new_pod(sts: _Set, ordinal: int) -> CreatePod:
    """Return the write of a Pod of the current or update revision. Source: `newVersionedStatefulSetPod`."""
    status, key = sts.status, sts.state.key
    bound = status.current_replicas if sts.partition is None else sts.partition
    is_current = (sts.rolls or sts.partition is not None) and ordinal < sts.start + bound
    template = status.current_template if is_current else status.update_template
    name = f"{key[2]}-{ordinal}"
    labels = {
        POD_NAME: name,
        POD_INDEX: str(ordinal),
        CONTROLLER_REVISION: status.current if is_current else status.update,
    }
    pod = pod_of_template(sts.view, key, sts.state.object, template)
    return CreatePod(key, with_claims(labelled(pod, labels, name), sts.claim_templates), template)


def with_claims(pod: Pod, templates: Iterable[str]) -> Pod:
    """Return the Pod with a volume for each claim template, replacing one of its name. Source: `updateStorage`."""
    claims = {name: Volume(name, claim_name=claim_name(name, pod.name)) for name in templates}
    if not claims:
        return pod
    volumes = (*claims.values(), *(volume for volume in pod.spec.volumes if volume.name not in claims))
    return replace(pod, spec=replace(pod.spec, volumes=volumes))


def _first_unavailable(sts: _Set) -> PodState | None:
    """Return the unavailable Pod with the lowest ordinal, requested Pods before condemned ones; or None."""
    every = (*(pod for _, pod in sts.replicas), *reversed(sts.condemned))
    return next((pod for pod in every if pod is not None and (pod.terminating or not sts.available(pod))), None)


def _is_awaited(sts: _Set, pod: PodState, first: PodState | None) -> bool:
    """Report whether an ordered StatefulSet deletes a condemned Pod only once the Pod is available.

    `first`: the result of `_first_unavailable`. Source: `processCondemned`.
    """
    return sts.monotonic and pod is not first and not (pod.ready is not None and sts.available(pod))


def _update(sts: _Set, actions: list[Action]) -> None:
    """Add the deletion of the Pod with the highest ordinal among those of an old revision, if all Pods with higher
    ordinals are available; with `maxUnavailable`, the deletions of several such Pods.
    """
    if sts.view.semantics.stateful_sets_have_max_unavailable:
        actions += [DeletePod(pod.pod.namespace, pod.pod.name, sts.state.key) for pod in _replaced(sts)]
        return
    for ordinal, pod in reversed(sts.replicas):
        if pod is None or ordinal < sts.start + (sts.partition or 0):  # None: created in this sync
            return
        if not _is_of(pod, sts.status.update, sts.status) and not pod.terminating:
            actions.append(DeletePod(pod.pod.namespace, pod.pod.name, sts.state.key))
            return
        if pod.terminating or not sts.available(pod):
            return


def _replaced(sts: _Set) -> list[PodState]:
    """Return the Pods that a rollout with `maxUnavailable` deletes. Source:
    `updateStatefulSetAfterInvariantEstablished`.
    """
    pods = [(ordinal, pod) for ordinal, pod in reversed(sts.replicas) if pod is not None and not pod.terminating]
    available = sum(sts.available(pod) for _, pod in pods)
    left = max(max_unavailable_of_set(sts.state.object, sts.view.semantics) - (len(sts.replicas) - available), 0)
    first = sts.start + (sts.partition or 0)
    old = [pod for number, pod in pods if number >= first and not _is_of(pod, sts.status.update, sts.status)]
    if sts.monotonic or not sts.view.semantics.unavailable_pods_are_replaced_first:
        return old[:left]
    running = [pod for pod in old if sts.available(pod)]
    return [*(pod for pod in old if not sts.available(pod)), *running[:left]]


def _completed(sts: _Set) -> StatefulSetStatus:
    """Return the status; a complete rollout makes the update revision current. Upstream `completeRollingUpdate`."""
    status, wanted = sts.status, spec_replicas(sts.state.object)
    if sts.rolls and status.updated_replicas == status.ready == status.replicas == wanted:
        return status._replace(
            current=status.update, current_template=status.update_template, current_replicas=status.updated_replicas
        )
    return status
