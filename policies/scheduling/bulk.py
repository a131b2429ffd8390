"""Predict outcomes for many Pods or many nodes at once, and prepare values that many predictions share."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from forewarn.policies.scheduling.columns import BASE_RESOURCES
from forewarn.policies.scheduling.responsible import framework_of, not_predicted
from forewarn.policies.scheduling.vectorized import capacity
from forewarn.policies.scheduling.vectorized.lower_priority_pods import CACHE_SIZE, lower_priority_pods_of
from forewarn.policies.scheduling.vectorized.node_fit import attempt
from forewarn.policies.scheduling.vectorized.pod_matrix import node_constraints_of, pod_matrix_of
from forewarn.policies.scheduling.vectorized_cycle import Cycle

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.capacity import Capacity
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix

_MAX_TRIED: Final = 16


def capacity_for(snapshot: Snapshot, pod: Pod, *, preempting: bool = False) -> Capacity | None:
    """Return how many Pods equal to `pod` fit, or None if the numpy implementation (`vectorized`) does not support the
    Pod.

    `preempting`: count Pods that fit after preemption.
    """
    if not_predicted(pod, snapshot):
        return None
    return capacity.capacity_for(framework_of(snapshot, pod), pod, preempting=preempting)


def on_each_node(snapshot: Snapshot, pod: Pod, nodes: Sequence[str]) -> capacity.OnEachNode | None:
    """Return the outcome of one Pod for each named node; None if the numpy implementation (`vectorized`) does not
    support the Pod.
    """
    if not_predicted(pod, snapshot) or snapshot.may_preempt_groups(pod.effective_priority):
        return None
    return capacity.on_each_node(framework_of(snapshot, pod), pod, nodes)


def prepare(snapshot: Snapshot) -> None:
    """Compute the values that the first prediction needs.

    Raises CutShort if the work exceeds its limit; the next call continues.
    """
    with snapshot.derived.locked():
        kinds = pod_matrix_of(snapshot).kinds
        kinds.priority.values()
        for resource in BASE_RESOURCES:
            kinds.amounts(resource)


def prepare_for_all(snapshot: Snapshot) -> None:
    """Compute the values that predictions for Pods similar to those on the nodes need, including preemption by
    frequent priorities.
    """
    prepare(snapshot)
    with snapshot.derived.locked():
        matrix = pod_matrix_of(snapshot)
        for pod in islice(_with_distinct_node_constraints(matrix), _MAX_TRIED):
            attempt(lambda pod: Cycle(snapshot, pod).scores(np.arange(len(matrix.serials))), pod)
        priorities, pods = np.unique(matrix.kinds.priority.values()[matrix.kind[matrix.kind > 0]], return_counts=True)
        for _, priority in sorted(zip(pods.tolist(), priorities.tolist(), strict=True))[-CACHE_SIZE:]:
            if snapshot.may_preempt_groups(priority):
                continue
            lower = lower_priority_pods_of(matrix, snapshot, priority)
            lower.settle(np.arange(len(matrix.serials)), matrix, snapshot)
            for resource in BASE_RESOURCES:
                if (snapshot.columns.requested[snapshot.columns.resources.index(resource)] > 0).any():
                    lower.amounts(resource, matrix)


def _with_distinct_node_constraints(matrix: PodMatrix) -> Iterator[Pod]:
    """Yield one Pod, without its node, for each distinct set of node constraints (node selector, affinity,
    tolerations) of the Pods on nodes.
    """
    keys: set[Hashable] = set()
    for pod in matrix.kinds.members:
        constraints = None if pod is None else node_constraints_of(pod.spec)
        if pod is not None and constraints is not None and constraints not in keys:
            keys.add(constraints)
            yield replace(pod, node_name="")
