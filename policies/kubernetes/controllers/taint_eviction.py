"""Controllers that delete Pods because of their node: taint eviction, which may be delayed by tolerations, and the
garbage collection of Pods on nodes that no longer exist.

Source: pkg/controller/tainteviction, pkg/controller/podgc/gc_controller.go.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kubernetes.controllers.view import DeletePod, PodState
from forewarn.policies.kubernetes.objects import devices
from forewarn.policies.kubernetes.objects.node import NO_EXECUTE, Taint, Toleration

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod


class Eviction(NamedTuple):
    """A scheduled eviction. `since`: start of the tolerated time. `due`: its end. In seconds since 1970."""

    since: float
    due: float


def evict(
    taints: Iterable[Taint], pods: Sequence[PodState], scheduled: Mapping[str, Eviction], now: float
) -> tuple[list[DeletePod], Mapping[str, Eviction]]:
    """Return the deletions of Pods of one node now, and the scheduled evictions by uid.

    `taints`: of the node. `pods`: on the node. `scheduled`: the previous result. The caller has to call this function
    again at the earliest `due`. Source: `handleNodeUpdate`, `processPodOnNode`.
    """
    evicting = [taint for taint in taints if taint.effect == NO_EXECUTE]
    if not evicting:
        return [], {}
    left: dict[str, Eviction] = {}
    deletes: list[DeletePod] = []
    for pod in pods:
        if _is_unaffected(pod):
            continue
        seconds = tolerated_for(evicting, pod.pod.spec.tolerations)
        if seconds is None:
            continue
        eviction = scheduled.get(pod.pod.uid) or Eviction(now, now + seconds)
        if seconds < 0 or eviction.due <= now:
            deletes.append(DeletePod(pod.pod.namespace, pod.pod.name))
        else:
            left[pod.pod.uid] = eviction
    return deletes, left


def evict_scheduled(
    pods: Iterable[PodState], scheduled: Mapping[str, Eviction], now: float
) -> tuple[list[DeletePod], Mapping[str, Eviction]]:
    """Return the deletions now, and the remaining scheduled evictions by uid, for the Pods of a node that no longer
    exists.

    Source: `handleNodeUpdate`.
    """
    evictions = [(pod, scheduled[pod.pod.uid]) for pod in pods if pod.pod.uid in scheduled and not _is_unaffected(pod)]
    deletes = [DeletePod(pod.pod.namespace, pod.pod.name) for pod, eviction in evictions if eviction.due <= now]
    return deletes, {pod.pod.uid: eviction for pod, eviction in evictions if eviction.due > now}


def _is_unaffected(pod: PodState) -> bool:
    """Report whether a Pod is terminal, or terminates without preemption. Source: `addConditionAndDeletePod`."""
    return pod.pod.terminal or (pod.terminating and not pod.pod.preempted)


def tolerated_for(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int | None:
    """Return how many seconds a Pod may stay on a node with these taints: None: forever; -1: it does not tolerate a
    taint.

    Source: `processPodOnNode`, `GetMatchingTolerations`, `getMinTolerationTime`.
    """
    used = [next((t for t in tolerations if t.tolerates(taint)), None) for taint in taints]
    if None in used:
        return -1
    return min((max(t.seconds, 0) for t in used if t is not None and t.seconds is not None), default=None)


def taints_of_devices(slices: Iterable[devices.ResourceSlice]) -> dict[devices.DeviceId, tuple[Taint, ...]]:
    """Return device -> its taints, from the newest generation of each pool."""
    newest: dict[tuple[str, str], int] = {}
    parts = tuple(slices)
    for part in parts:
        key = part.driver, part.pool
        newest[key] = max(part.generation, newest.get(key, part.generation))
    return {
        devices.DeviceId(part.driver, part.pool, device.name): device.taints
        for part in parts
        if part.generation == newest[part.driver, part.pool]
        for device in part.devices
        if device.taints
    }


def eviction_time(
    pod: Pod,
    claims: Mapping[tuple[str, str], devices.ResourceClaim],
    taints: Mapping[devices.DeviceId, Sequence[Taint]],
    rules: Iterable[devices.DeviceTaintRule],
) -> int | None:
    """Return the time at which taints of devices evict the Pod, in seconds since 1970; None if they do not.

    `claims`: by (namespace, name). Source: upstream `podEvictionTime`, `claimEvictionTime`.
    """
    evicting = [rule for rule in rules if rule.taint.effect == NO_EXECUTE]
    due: list[int] = []
    for wanted in pod.device_claims:
        claim = claims.get((pod.namespace, wanted.claim or ""))
        if claim is None or claim.allocation is None or pod.uid not in claim.reserved_for:
            continue
        if wanted.template and claim.owner_uid != pod.uid:
            continue
        for device in claim.allocation.devices:
            due += _times(device, taints.get(device.id, ()), evicting)
    return min(due, default=None)


def _times(
    device: devices.AllocatedDevice, taints: Sequence[Taint], rules: Sequence[devices.DeviceTaintRule]
) -> Iterator[int]:
    of_rules = (rule.taint for rule in rules if rule.taints(device.id))
    for taint in (*taints, *of_rules):
        if taint.effect != NO_EXECUTE:
            continue
        used = [t for t in device.tolerations if t.effect == NO_EXECUTE and t.tolerates(taint)]
        seconds = [max(t.seconds, 0) for t in used if t.seconds is not None]
        if len(seconds) == len(used):
            yield (taint.added or 0) + min(seconds, default=0)


CHECK_PERIOD: Final = 20.0
"""Seconds between two rounds of garbage collection."""
QUARANTINE: Final = 40.0
"""Seconds for which a node must be missing before its Pods are deleted."""
_SAME_TIME: Final = 1e-5
"""Seconds within which two times are equal, because floats since 1970 are not more exact."""


def collect(
    pods: Iterable[PodState], nodes: Container[str], quarantine: Mapping[str, float], now: float
) -> tuple[list[DeletePod], Mapping[str, float]]:
    """Return the Pods that one round deletes by force, and the quarantine for the next round.

    `pods`: all Pods in order of creation, or only the Pods without an existing node. `nodes`: names of the existing
    nodes. `quarantine`: missing node -> the time after which the node counts as deleted. So the deletion happens in the
    third round after the round that first missed the node, or in the second if a round was slow. Source: `gcOrphaned`,
    `discoverDeletedNodes`, `gcUnscheduledTerminating`.
    """
    every = list(pods)
    missing = {name for pod in every if (name := pod.pod.node_name) and name not in nodes}
    due = {**dict.fromkeys(sorted(missing), now + QUARANTINE), **quarantine}
    ripe = frozenset(name for name, at in due.items() if at + _SAME_TIME < now)
    lost = {name for name in ripe if name not in nodes}
    doomed = [pod for pod in every if pod.pod.node_name in lost]
    doomed += [pod for pod in every if pod.terminating and not pod.pod.node_name]
    deletes = [DeletePod(pod.pod.namespace, pod.pod.name, force=True) for pod in doomed]
    return deletes, {name: at for name, at in due.items() if name not in ripe}
