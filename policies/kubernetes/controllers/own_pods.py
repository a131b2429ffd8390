"""Find the existing Pods of a workload."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.cow_table import derived
from forewarn.policies.base.findings import grouped
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.controllers.stateful_set import ordinal_of
from forewarn.policies.kubernetes.controllers.templates import replica_set_name
from forewarn.policies.kubernetes.controllers.view import Key, controller_of
from forewarn.policies.kubernetes.kinds.registry import (
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NODE,
    POD,
    POD_TEMPLATE_PATHS,
    REPLICA_SET,
    STATEFUL_SET,
)
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, at, group_kind, ref_of, text_at
from forewarn.policies.kubernetes.objects.pod import Owner, Pod
from forewarn.policies.kubernetes.objects.pod_loss import role_of
from forewarn.policies.kubernetes.objects.workload import Workload, selector_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.selectors import LabelSelector


def pods_of(cluster: ClusterSnapshot, obj: ApiObject) -> list[Pod]:
    """Return a workload's running or Pending Pods: by owner, else by selector among Pods with unknown owners."""
    pods = [pod for pod in owned_pods_of(cluster, obj) if _is_there(pod)]
    selector = selector_of(obj)
    if pods or selector.empty:
        return pods
    namespace = ref_of(obj, "default").namespace
    groups = [same for part in derived(cluster.pods_of(namespace), _by_label) for same in part.get(selector.label, ())]
    charge(len(groups))
    matching = (same for same in groups if selector.matches(same[0].labels))
    return [pod for same in matching if not _has_owner(cluster, same[0]) for pod in same]


def owned_pods_of(cluster: ClusterSnapshot, obj: ApiObject) -> list[Pod]:
    """Return a workload's Pods, including terminal and terminating ones and those of workloads it controls."""
    ref = ref_of(obj, "default")
    of_it = {(group_kind(obj), ref.name), *(_identity(workload) for workload in controlled(cluster, obj))}
    parts = derived(cluster.pods_of(ref.namespace), _by_owner)
    pods = [pod for part in parts for owner in of_it for pod in part.get(owner, ())]
    charge(len(pods))
    return pods


def controlled(cluster: ClusterSnapshot, obj: ApiObject) -> list[Workload]:
    """Return the workloads whose controller is this object: a Deployment's ReplicaSets, a CronJob's Jobs."""
    ref, kind = ref_of(obj, "default"), group_kind(obj)
    parts = derived(cluster.workloads_of(ref.namespace), _by_controller)
    return [w for part in parts for w in part.get((kind, ref.name), ())]


_Identity = tuple[str, str]
"""(`group/Kind`, name)."""


def _by_controller(workloads: Mapping[Any, Workload]) -> dict[_Identity | None, list[Workload]]:
    """Return controller -> the workloads that it controls."""
    charge(len(workloads))
    return grouped((workload.controller, workload) for workload in workloads.values())


def _by_owner(pods: Mapping[Any, Pod]) -> dict[_Identity | None, list[Pod]]:
    """Return owner -> Pods.

    Cached for each shard of the table: a namespace may have 100,000 Pods, few of which change.
    """
    charge(len(pods))
    return grouped((_owner_of(pod), pod) for pod in pods.values())


def _by_label(pods: Mapping[Any, Pod]) -> dict[tuple[str, str] | None, list[list[Pod]]]:
    """Return label (None: any) -> running or Pending Pods, in groups with the same owner and labels.

    Pods of one controller share one labels object.
    """
    groups = grouped(((_owner_of(pod), id(pod.labels)), pod) for pod in pods.values() if _is_there(pod)).values()
    labelled = [(label, same) for same in groups for label in (None, *same[0].labels.items())]
    charge(len(pods) + len(labelled))
    return grouped(labelled)


def _owner_of(pod: Pod) -> _Identity | None:
    return None if pod.owner is None else (pod.owner.group_kind, pod.owner.name)


def _has_owner(cluster: ClusterSnapshot, pod: Pod) -> bool:
    """Report whether the Pod's controller is a workload of the cluster."""
    return pod.owner is not None and cluster.workload(pod.owner.group_kind, pod.namespace, pod.owner.name) is not None


def _identity(workload: Workload) -> _Identity:
    return group_kind(workload.object), workload.ref.name


def _is_there(pod: Pod) -> bool:
    return not pod.terminal and not pod.terminating


_ADOPTING: Final = ("/ReplicationController", REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB)


_ByLabel = Mapping["tuple[str, str] | None", "list[tuple[int, LabelSelector, Owner]]"]
"""A label that the selector requires (None: unknown) -> place in the order of workloads, selector and owner."""


class Adoption:
    """The adoption of Pods without a controller.

    A Deployment without ReplicaSets adopts as the ReplicaSet that it creates. Source: pkg/controller `ClaimObject`; for
    StatefulSets also `isMemberOf`.
    """

    def __init__(self, cluster: ClusterSnapshot) -> None:
        self._cluster = cluster
        self._by_namespace: dict[str, _ByLabel] = {}

    def adopt(self, pod: Pod) -> Pod:
        """Return the Pod, with the workload that adopts it as its owner."""
        if pod.owner is not None or pod.terminal or pod.terminating:
            return pod
        if (by_label := self._by_namespace.get(pod.namespace)) is None:
            adopting = enumerate(_adopting(self._cluster.workloads_of(pod.namespace)))
            by_label = grouped((selector.label, (place, selector, owner)) for place, (selector, owner) in adopting)
            self._by_namespace[pod.namespace] = by_label
        found = [each for label in (None, *pod.labels.items()) for each in by_label.get(label, ())]
        charge(len(found))
        for _, selector, owner in sorted(found, key=lambda each: each[0]):
            is_member = owner.group_kind != STATEFUL_SET or ordinal_of(pod.name, owner.name) >= 0
            if is_member and selector.matches(pod.labels):
                return replace(pod, owner=owner)
        return pod


def _adopting(workloads: Mapping[tuple[str, str, str], Workload]) -> Iterator[tuple[LabelSelector, Owner]]:
    charge(len(workloads))
    controlling = {workload.controller for workload in workloads.values()}
    for (kind, _, name), workload in sorted(workloads.items()):
        obj = workload.object
        creates = kind == DEPLOYMENT and (kind, name) not in controlling
        if not (creates or kind in _ADOPTING) or at(obj, "metadata", "deletionTimestamp"):
            continue
        with suppress(InvalidObject):
            if not (selector := selector_of(obj)).empty:
                version, uid = text_at(obj, "apiVersion"), text_at(obj, "metadata", "uid")
                of_kind = Owner(kind.rpartition("/")[2], name, uid, version)
                yield selector, Owner("ReplicaSet", replica_set_name(obj), "", version) if creates else of_kind


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


def controller_in(cluster: ClusterSnapshot, pod: Pod) -> Key | None:
    """Return the controller of a Pod; if it is a ReplicaSet that the cluster state does not have, the Deployment that
    selects the Pod and has no other ReplicaSet.
    """
    owner = controller_of(pod)
    if owner is None or owner[0] != REPLICA_SET or owner in cluster.workloads:
        return owner
    workloads = cluster.workloads_of(pod.namespace)
    charge(len(workloads))
    complete = {workload.controller for workload in workloads.values()}
    deployments = ((key, workload.object) for key, workload in workloads.items() if key[0] == DEPLOYMENT)
    selecting = (key for key, obj in deployments if (key[0], key[2]) not in complete and _selects(obj, pod))
    return next(selecting, owner)


def _selects(deployment: ApiObject, pod: Pod) -> bool:
    try:
        selector = selector_of(deployment)
    except InvalidObject:
        return False
    return not selector.empty and selector.matches(pod.labels)


def has_lost_owner(pod: Pod, runs: Callable[[str, str], bool]) -> bool:
    """Report whether the Pod's owner is a Pod (as a Spark driver owns its executors) that no longer runs."""
    return pod.owner is not None and pod.owner_kind == POD and not runs(pod.namespace, pod.owner.name)


def sentence(what: Recreator, kind: str) -> str:
    """Return a sentence about a deleted Pod of a controller of this `group/Kind`; "" if it recreates the Pod."""
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
