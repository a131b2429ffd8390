"""Karpenter's provisioner: which Pods it takes, and the nodes that it adds for them.

Sources: pkg/controllers/provisioning/provisioner.go, pkg/apis/v1/nodeclaim_validation.go.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.autoscaling.autoscaler import NotPredicted
from forewarn.policies.autoscaling.karpenter.labels import (
    CAPACITY_TYPE,
    CAPACITY_TYPES,
    NODE_POOL,
    NORMALIZED,
    restricted,
)
from forewarn.policies.autoscaling.karpenter.pods import KarpenterPod, shuns_karpenter
from forewarn.policies.autoscaling.karpenter.scheduler import Options, Scheduler
from forewarn.policies.autoscaling.karpenter.volumes import Rejected
from forewarn.policies.metering import CutShort, metered
from forewarn.policies.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.autoscaling.karpenter.instance_types import InstanceType
    from forewarn.policies.autoscaling.karpenter.node_pools import NodePool
    from forewarn.policies.autoscaling.karpenter.scheduler import NewNodeClaim
    from forewarn.policies.autoscaling.karpenter.state import ClusterState
    from forewarn.policies.autoscaling.karpenter.topology import Choices
    from forewarn.policies.autoscaling.karpenter.volumes import Storage
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.resources import ResourceList


class Decision(NamedTuple):
    """What one round decides. `existing`: node -> Pods. `errors`: Pod -> upstream's message."""

    new: Sequence[NewNodeClaim] = ()
    existing: Sequence[tuple[str, Sequence[KarpenterPod]]] = ()
    errors: Mapping[str, str] = MappingProxyType({})


def rejection(pod: Pod, storage: Storage) -> str:
    """Return why Karpenter ignores a Pending Pod; "" if it takes the Pod. Source: `Validate`."""
    candidate = KarpenterPod.of(pod)
    problems = list(_label_problems(candidate))
    if shuns_karpenter(candidate.requirements(preferences=True)):
        requirement = f"{NODE_POOL} DoesNotExist"
        problems.insert(0, f"configured to not run on a Karpenter provisioned node (requirement={requirement})")
    try:
        storage.validate(pod)
    except Rejected as problem:
        problems.append(str(problem))
    return "; ".join(problems)


def _label_problems(pod: KarpenterPod) -> Iterator[str]:
    """Yield problems of nodeSelector and required node affinity. The API server checks the rest of them."""
    selector = pod.pod.spec.node_affinity.node_selector or {}
    for key, value in sorted(selector.items()):
        yield from _problems(key, "In", (value,))
    for term in pod.required:
        if term.fields:
            yield "node selector term with matchFields is not supported"
        for expression in term.expressions:
            yield from _problems(expression.key, expression.operator, sorted(expression.values))


def _problems(key: str, operator: str, values: Sequence[str]) -> Iterator[str]:
    """Yield why a requirement is invalid. Source: `ValidateRequirement`."""
    key = NORMALIZED.get(key, key)
    if problem := restricted(key):
        yield problem
    if key == CAPACITY_TYPE and operator == "In" and not set(values) & set(CAPACITY_TYPES):
        listed, allowed = f"[{' '.join(values)}]", " ".join(f"{known}:{{}}" for known in CAPACITY_TYPES)
        yield f"no valid values found in {listed} for {key}, expected one of: map[{allowed}], got: {listed}"
    if operator in ("Gt", "Lt") and int(values[0]) < 0:
        yield f"key {key} with operator {operator} must have a single positive integer value"


def exceeded_limit(pool: NodePool, usage: Mapping[str, ResourceList]) -> str:
    """Return why Karpenter creates no NodeClaim: the nodes of the NodePool already exceed its limits; or "".

    `usage`: NodePool -> the capacity of its nodes. Source: `ExceededBy`.
    """
    limits = pool.limits or {}
    for name, used in sorted(usage.get(pool.name, {}).items()):
        if name in limits and used > limits[name]:
            amounts = f"limit={Quantity(limits[name])}, resource-name={name}, usage={Quantity(used)}"
            return f"resource usage exceeds limit ({amounts})"
    return ""


def provision(
    state: ClusterState,
    pools: Mapping[NodePool, list[InstanceType]],
    pending: Sequence[Pod],
    options: Options,
    choices: Choices,
) -> Decision:
    """Return what one round decides for Pending Pods, and for Pods on nodes that are being deleted.

    `pools`: NodePools with their instance types, the preferred one first. Raises NotPredicted.
    """
    pods = [*pending, *state.moving]
    if not pods or not pools:
        return Decision()
    try:
        with metered(lambda: False):
            scheduler = Scheduler(state, pools, pods, options, choices)
            scheduler.solve()
    except CutShort as reason:
        raise NotPredicted(str(reason)) from None
    existing = [(node.state.name, node.pods) for node in scheduler.existing if node.pods]
    return Decision(scheduler.new, existing, {key: problem() for key, problem in scheduler.errors.items()})
