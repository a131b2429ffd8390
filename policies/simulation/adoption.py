"""Complete cluster snapshots with missing objects: the ReplicaSet of a Deployment, or the owner of a Pod.

As upstream's controllers do, a workload adopts matching Pods without a controller. A Deployment without a ReplicaSet
gets a ReplicaSet with the Pods that its selector matches; otherwise, the Deployment would recreate all of them.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.controllers.job import stored_status
from forewarn.policies.controllers.templates import template_hash, template_of
from forewarn.policies.controllers.view import WorkloadState, controller_of
from forewarn.policies.kinds.registry import DEPLOYMENT, JOB, REPLICA_SET
from forewarn.policies.objects.fields import InvalidObject, at
from forewarn.policies.objects.pod import Owner
from forewarn.policies.selectors import InvalidSelector, LabelSelector, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.controllers.view import Key, PodState
    from forewarn.policies.objects.fields import ApiObject

_ADOPTING: Final = (REPLICA_SET, "apps/StatefulSet", "apps/DaemonSet")


def completed(
    workloads: Iterable[WorkloadState], pods: Iterable[PodState]
) -> tuple[list[WorkloadState], list[PodState]]:
    """Return all workloads and Pods, with missing objects added.

    Adds a missing ReplicaSet to each Deployment, sets the owner of Pods without a controller, and reads the stored
    status of Jobs.
    """
    every, states = {state.key: state for state in workloads}, list(pods)
    by_namespace: dict[str, list[PodState]] = {}
    for pod in states:
        if not pod.pod.terminal:
            by_namespace.setdefault(pod.pod.namespace, []).append(pod)
    controlled = {state.controller for state in every.values()}
    for key in [key for key in every if key[0] == DEPLOYMENT and key not in controlled]:
        workload_state = _missing_replica_set(every[key], by_namespace.get(key[1], ()), every)
        if workload_state is not None:
            every[workload_state.key] = workload_state
    _read_job_statuses(every, states)
    owners = _Owners([state for state in every.values() if state.key[0] in _ADOPTING])
    return list(every.values()), [owners.adopt(pod) for pod in states]


def _read_job_statuses(every: dict[Key, WorkloadState], pods: Sequence[PodState]) -> None:
    """Read the stored status of Jobs without one in `every`.

    The Pods do not suffice, because most terminated Pods no longer exist.
    """
    jobs = [state for state in every.values() if state.key[0] == JOB and state.status is None]
    ended: dict[Key, list[str]] = {}
    for pod in pods if jobs else ():
        owner = controller_of(pod.pod)
        if owner is not None and owner[0] == JOB and pod.pod.terminal:
            ended.setdefault(owner, []).append(pod.pod.uid)
    for state in jobs:
        with suppress(InvalidObject):  # without it the pods are counted that are there
            every[state.key] = replace(state, status=stored_status(state.object, ended.get(state.key, ())))


def selector_of(obj: ApiObject) -> LabelSelector | None:
    """Return the selector of a workload; None if it is missing, invalid or empty."""
    try:
        selector = parse_label_selector(at(obj, "spec", "selector"))
    except InvalidSelector:
        return None
    return None if selector is None or selector.empty else selector


def _missing_replica_set(
    deployment: WorkloadState, pods: Sequence[PodState], every: dict[Key, WorkloadState]
) -> WorkloadState | None:
    """Return a ReplicaSet for the Pods that match a Deployment's selector and whose controller does not exist;
    None without such Pods.
    """
    selector = selector_of(deployment.object)
    if selector is None:
        return None
    lost = [pod for pod in pods if selector.matches(pod.pod.labels) and controller_of(pod.pod) not in every]
    if not lost:
        return None
    _, namespace, name = deployment.key
    named = Counter(pod.pod.owner.name for pod in lost if pod.pod.owner is not None)
    template = template_of(deployment.object)
    called = named.most_common(1)[0][0] if named else f"{name}-{template_hash(template)}"
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "controller": True}
    metadata = {"name": called, "namespace": namespace, "ownerReferences": [reference]}
    spec = {"replicas": len(lost), "selector": at(deployment.object, "spec", "selector"), "template": template}
    obj = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
    return WorkloadState((REPLICA_SET, namespace, called), obj, created=deployment.created, controller=deployment.key)


class _Owners:
    """The workloads that adopt Pods without a controller."""

    def __init__(self, workloads: Iterable[WorkloadState]) -> None:
        self._by_namespace: dict[str, list[tuple[LabelSelector, Owner]]] = {}
        for state in workloads:
            selector = selector_of(state.object)
            if selector is not None:
                group_kind, namespace, name = state.key
                owner = Owner(group_kind.rpartition("/")[2], name, "", "apps/v1")
                self._by_namespace.setdefault(namespace, []).append((selector, owner))

    def adopt(self, state: PodState) -> PodState:
        """Return the Pod with the workload that adopts it as its owner, or unchanged."""
        pod = state.pod
        if pod.owner is not None or pod.terminal:
            return state
        owners = self._by_namespace.get(pod.namespace, ())
        owner = next((owner for selector, owner in owners if selector.matches(pod.labels)), None)
        return state if owner is None else replace(state, pod=replace(pod, owner=owner))
