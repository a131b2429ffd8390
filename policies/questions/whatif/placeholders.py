"""Placeholder Pods that reserve capacity, so that a number of Pods can start without waiting for new nodes.

A placeholder Pod reserves capacity until a Pod of higher priority preempts the placeholder. Sources: cluster-autoscaler
FAQ, "How can I configure overprovisioning with Cluster Autoscaler?"; autoscaling.x-k8s.io/v1beta1 CapacityBuffer.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kubernetes.objects.fields import ApiObject, group_kind, ref_of
from forewarn.policies.kubernetes.objects.pod import Pod, PodResource
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.objects.resources import Resource
from forewarn.policies.kubernetes.scheduling.preemption import MissingNode, victims_below
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.questions.whatif.headroom import Count, Headroom, fill, reasons_of
from forewarn.policies.questions.whatif.node_groups import pool_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.options import Options
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

_SCALABLE: Final = ("apps/Deployment", "apps/StatefulSet", "apps/ReplicaSet")
_USUAL: Final = -5
"""Priority for placeholder Pods if no PriorityClass is suitable: lower than that of Pods without a class."""


class ExistingPlaceholders(NamedTuple):
    """Placeholder Pods of the cluster. `pods`: number of running placeholder Pods that the Pods may preempt. `pending`:
    number of Pending placeholder Pods. `reserve`: number of Pods that fit in place of placeholder Pods, without free
    capacity, which other Pods may take first. `reasons`: why the nodes of placeholder Pods take no more, with the
    number of nodes. `termination_seconds`: the longest termination grace period.
    """

    pods: int
    pending: int
    reserve: int
    reasons: Mapping[str, int]
    termination_seconds: int


class NewPlaceholders(NamedTuple):
    """Placeholder Pods to create, with the requests of each: CPU in thousandths, memory in bytes.

    `fit_now`: number of these Pods that fit on the existing nodes. `priority_class`: empty if no suitable class exists.
    `priority`: the value of this class; without one, the value for a new class.
    """

    pods: int
    fit_now: int
    milli_cpu: int
    memory: int
    priority_class: str
    priority: int


class PlaceholderPool(NamedTuple):
    """Pods that fit in a node pool: in `free` capacity, and in capacity `reserved` by placeholder Pods."""

    pool: str
    free: int
    reserved: int


class PlaceholderNodes(NamedTuple):
    """New nodes of a node group for the placeholder Pods that do not fit. `nodes`: number of nodes for all of them;
    null if the group cannot add enough. `pods`: number of these Pods that fit on new nodes of this group alone.
    """

    group: str
    nodes: int | None
    pods: int


class Placeholders(NamedTuple):
    """Placeholder Pods for `wanted` Pods, or for the `admitted` ones of them if quotas reject the others.

    `obstacle`: why placeholder Pods do not help; empty if they help. `existing`: placeholder Pods of the cluster.
    `create`: placeholder Pods to create. `pools`: by node pool, the Pods that fit. `node_groups`: new nodes for the
    placeholder Pods that do not fit. `capacity_buffer`: a CapacityBuffer instead of placeholder Pods, for a Deployment,
    StatefulSet or ReplicaSet; otherwise null.
    """

    wanted: int
    admitted: int
    existing: ExistingPlaceholders
    create: NewPlaceholders
    pools: Sequence[PlaceholderPool]
    node_groups: Sequence[PlaceholderNodes]
    obstacle: str
    capacity_buffer: ApiObject | None


_NEVER: Final = "preemptionPolicy Never: the Pods cannot preempt placeholder Pods"


def placeholders(
    cluster: ClusterSnapshot,
    obj: ApiObject,
    headroom: Headroom,
    wanted: int,
    options: Options,
    cutoff: int,
    buffered: int = 0,
) -> Placeholders:
    """Return the placeholder Pods for an object.

    `headroom`: the headroom of the object. `cutoff`: the lowest priority for which cluster-autoscaler scales up.
    `buffered`: number of Pods for which CapacityBuffers of the object reserve capacity.
    """
    pod, snapshot = headroom.pod, cluster.scheduling
    never = pod.preemption_policy == PREEMPT_NEVER
    alive = [other for other in cluster.pods.values() if _reserves(other, options)]
    all_of_them = [other for other in alive if other.node_name]
    usable = [] if never else _usable(snapshot, pod.effective_priority, options)
    reserve, full = (
        fill(snapshot.with_pods(_taking_free_capacity(snapshot), usable), pod) if usable else (Count(0), None)
    )
    admitted = min(wanted, headroom.quota.pods) if headroom.quota is not None else wanted
    more = 0 if never else max(admitted - reserve.pods - buffered, 0)
    fit = min(more, max(headroom.without.pods - buffered, 0))
    name, priority = _class_for(cluster, pod, all_of_them, cutoff)
    too_low = f"priority {pod.effective_priority:,}: no lower priority at or above the autoscaler cutoff {cutoff:,}"
    grace = max((other.spec.termination_grace_period for other in usable), default=0)
    requests = pod.occupies.resource
    return Placeholders(
        wanted,
        admitted,
        ExistingPlaceholders(
            len(usable),
            len(alive) - len(all_of_them),
            reserve.pods,
            dict(reasons_of(full, pod, {other.node_name for other in usable})) if full is not None else {},
            grace,
        ),
        NewPlaceholders(more, fit, requests.milli_cpu, requests.memory, name, priority),
        _pools(cluster, headroom.without.by_node or {}, reserve.by_node or {}),
        _groups(headroom, more - fit),
        _NEVER if never else too_low if priority >= pod.effective_priority else "",
        _buffer(obj, admitted),
    )


def _taking_free_capacity(snapshot: Snapshot) -> Iterator[Pod]:
    """Yield a Pod for each node that requests all of its free resources."""
    for info in snapshot.node_infos:
        has = info.node.allocatable
        free = Resource(
            max(has.milli_cpu - info.milli_cpu, 0),
            max(has.memory - info.memory, 0),
            max(has.ephemeral_storage - info.ephemeral_storage, 0),
            scalars={name: max(most - info.scalars.get(name, 0), 0) for name, most in has.scalars.items()},
        )
        yield Pod("", f"free-{info.name}", node_name=info.name, occupies=PodResource(free, free.milli_cpu, free.memory))


def _usable(snapshot: Snapshot, priority: int, options: Options) -> list[Pod]:
    """Return the placeholder Pods that a preemptor with this priority may preempt.

    Without Pods of PodGroups that preemption evicts together with other Pods.
    """
    usable: dict[str, Pod] = {}
    for info in snapshot.node_infos:
        with suppress(MissingNode):  # kube-scheduler then preempts no Pods on this node
            for victim in victims_below(priority, (info,), snapshot):
                if all(is_placeholder(pod, options) for pod in victim.pods):
                    usable |= {pod.identity: pod for pod in victim.pods if _reserves(pod, options)}
    return list(usable.values())


def _reserves(pod: Pod, options: Options) -> bool:
    return not pod.terminal and not pod.terminating and is_placeholder(pod, options)


def _class_for(cluster: ClusterSnapshot, pod: Pod, existing: Sequence[Pod], cutoff: int) -> tuple[str, int]:
    """Return the class for placeholder Pods, and its priority: lower than that of `pod`, and at least `cutoff`.

    Prefers a class of `existing` placeholder Pods, then the highest negative priority. Without a suitable class,
    returns "" and a priority for a new class.
    """
    most = min(pod.effective_priority, 0)
    classes = [c for c in cluster.priority_classes.values() if cutoff <= c.value < most]
    used = {other.priority_class_name for other in existing}
    chosen = max(classes, key=lambda c: (c.name in used, c.value, c.name), default=None)
    return ("", max(min(_USUAL, most - 1), cutoff)) if chosen is None else (chosen.name, chosen.value)


def _pools(cluster: ClusterSnapshot, free: Mapping[str, int], reserved: Mapping[str, int]) -> list[PlaceholderPool]:
    nodes = {node.name: node for node in cluster.objects.nodes.values()}
    now, in_place = Counter[str](), Counter[str]()
    for counts, total in ((free, now), (reserved, in_place)):
        for name, count in counts.items():
            total[pool_of(nodes[name])] += count
    return [PlaceholderPool(pool, now[pool], in_place[pool]) for pool in sorted(+(now | in_place))]


def _groups(headroom: Headroom, missing: int) -> list[PlaceholderNodes]:
    """Return the nodes to add, for each node group in which a placeholder Pod fits.

    `missing`: number of Pods without a place.
    """
    groups = [group for group in headroom.node_groups or () if group.nodes and group.more.pods]
    if not missing:
        return []
    return [
        PlaceholderNodes(group.group, _nodes(missing, group.more.pods, group.nodes), min(group.more.pods, missing))
        for group in groups
    ]


def _nodes(missing: int, pods: int, nodes: int) -> int | None:
    """Return the minimum number of equal nodes for `missing` Pods, if `nodes` nodes accept `pods`; None if that
    is too few.
    """
    return -(-missing * nodes // pods) if missing <= pods else None


def _buffer(obj: ApiObject, replicas: int) -> ApiObject | None:
    """Return a CapacityBuffer for Pods of an object; None for no Pods, and without a scale subresource."""
    kind, ref = group_kind(obj), ref_of(obj, "default")
    if kind not in _SCALABLE or not replicas:
        return None
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": ref.name, "namespace": ref.namespace},
        "spec": {"scalableRef": {"apiGroup": "apps", "kind": ref.kind, "name": ref.name}, "replicas": replicas},
    }
