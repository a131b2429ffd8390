"""DaemonSets whose Pods take so much of a new node that no autoscaler adds one for a Pending Pod.

Autoscalers expect the Pods of DaemonSets on each new node, and preempt none of them. kube-scheduler would preempt those
of lower priority.
"""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kubernetes.controllers.templates import made_of, template_of
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, ref_of
from forewarn.policies.kubernetes.quantity import cores, gibibytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from forewarn.policies.kubernetes.controllers.view import Key
    from forewarn.policies.kubernetes.objects.pod import Pod

_MAX_WORKLOADS: Final = 3
"""Maximum number of workloads whose overhead is computed: each takes a round of the autoscaler and one for each
DaemonSet.
"""
_MAX_DAEMON_SETS: Final = 20


class DaemonRequests(NamedTuple):
    """A DaemonSet, and what one of its Pods requests, such as `2 cpu`."""

    daemon_set: str
    priority: int
    requests: Sequence[str]


class DaemonOverhead(NamedTuple):
    """A workload for whose Pods an autoscaler would add a node without DaemonSets of lower priority."""

    workload: str
    requests: Sequence[str]
    daemon_sets: Sequence[DaemonRequests]


def overhead_of(
    pods: Mapping[str, Pod],
    daemon_sets: Mapping[Key, ApiObject],
    admission: Callable[[ApiObject], Pod],
    is_helped: Callable[[Pod, Collection[Key]], bool],
) -> list[DaemonOverhead]:
    """Return, for workloads without new nodes, the DaemonSets of lower priority that are the reason.

    `pods`: workload -> one of its Pending Pods. `admission`: converts the object of a new Pod. `is_helped`: whether an
    autoscaler adds a node for a Pod in a cluster without these DaemonSets.
    """
    found = []
    daemons = {key: pod for key, obj in daemon_sets.items() if (pod := _pod_of(obj, admission)) and _requests(pod)}
    for workload, pod in [*pods.items()][:_MAX_WORKLOADS]:
        lower = [key for key, each in daemons.items() if each.effective_priority < pod.effective_priority]
        causes = sorted(lower, key=lambda key: _size(daemons[key]))[-_MAX_DAEMON_SETS:]
        if not causes or not is_helped(pod, causes):
            continue
        for each in [*causes]:  # a DaemonSet with small requests may not be a reason
            others = [key for key in causes if key != each]
            causes = others if others and is_helped(pod, others) else causes
        rows = [("/".join(key[1:]), daemons[key].effective_priority, _requests(daemons[key])) for key in causes]
        found.append(DaemonOverhead(workload, _requests(pod), [*starmap(DaemonRequests, rows)]))
    return found


def _pod_of(daemon_set: ApiObject, admission: Callable[[ApiObject], Pod]) -> Pod | None:
    """Return a Pod of a DaemonSet; None if admission rejects it."""
    try:
        return admission(made_of(ref_of(daemon_set).namespace, daemon_set, template_of(daemon_set)))
    except InvalidObject:
        return None


def _size(pod: Pod) -> tuple[int, int]:
    request = pod.spec.request
    return request.milli_cpu, request.memory


def _requests(pod: Pod) -> list[str]:
    """The requests as phrases, such as `2 cpu`."""
    cpu, memory = _size(pod)
    return [f"{cores(cpu)} cpu"] * bool(cpu) + [f"{gibibytes(memory)} memory"] * bool(memory)
