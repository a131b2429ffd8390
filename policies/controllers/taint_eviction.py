"""Who has to leave a node for its NoExecute taints, and when. Source: pkg/controller/tainteviction."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.controllers.actions import DeletePod
from policies.objects.taints import NO_EXECUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.controllers.view import PodState
    from policies.objects.taints import Taint, Toleration


class Eviction(NamedTuple):
    """A pod that leaves at `due`; `since`: from when it is counted. Both in seconds since 1970."""

    since: float
    due: float


def evict(
    taints: Iterable[Taint], pods: Sequence[PodState], scheduled: Mapping[str, Eviction], now: float
) -> tuple[list[DeletePod], Mapping[str, Eviction]]:
    """(the pods of one node that are told to end now, by uid who leaves when).

    `taints`: the node's; `scheduled`: what was said of it before. Whoever asks does so again at the earliest `due`.
    Source: `handleNodeUpdate`, `processPodOnNode`.
    """
    evicting = [taint for taint in taints if taint.effect == NO_EXECUTE]
    if not evicting:
        return [], {}
    left: dict[str, Eviction] = {}
    deletes: list[DeletePod] = []
    for pod in pods:
        if _hears_nothing_new(pod):
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
    """The same of a node that is not there: what was said of its pods before stays. Source: `handleNodeUpdate`."""
    known = [(pod, scheduled[pod.pod.uid]) for pod in pods if pod.pod.uid in scheduled and not _hears_nothing_new(pod)]
    deletes = [DeletePod(pod.pod.namespace, pod.pod.name) for pod, eviction in known if eviction.due <= now]
    return deletes, {pod.pod.uid: eviction for pod, eviction in known if eviction.due > now}


def _hears_nothing_new(pod: PodState) -> bool:
    """Whether a pod is as it was after upstream has said that a taint ends it, and DELETEs it: it ends already. One
    that ends for the scheduler does so for the taint from then on. Source: `addConditionAndDeletePod`."""
    return pod.pod.terminal or (pod.terminating and not pod.pod.preempted)


def tolerated_for(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> int | None:
    """For how many seconds a pod stays: None for good, -1 where it does not tolerate a taint at all, so that what was
    said of it before counts no longer. Source: `processPodOnNode`, `GetMatchingTolerations`, `getMinTolerationTime`."""
    used = [next((t for t in tolerations if t.tolerates(taint)), None) for taint in taints]
    if None in used:
        return -1
    bounded = [max(t.seconds, 0) for t in used if t is not None and t.seconds is not None]
    return min(bounded, default=None)
