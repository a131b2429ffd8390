"""NodePools, and the template of the nodes that Karpenter adds for one.

Sources: pkg/apis/v1/nodepool.go, pkg/utils/nodepool, provisioning/scheduling/nodeclaimtemplate.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from forewarn.policies.kubernetes.objects.fields import ApiObject, at, int32, items, mapping, string_map, strings, text
from forewarn.policies.kubernetes.objects.node import Taint
from forewarn.policies.kubernetes.objects.resources import ResourceList, read_resource_list
from forewarn.policies.prediction.autoscaling import NotPredicted
from forewarn.policies.prediction.autoscaling.karpenter.instance_types import limited
from forewarn.policies.prediction.autoscaling.karpenter.requirements import (
    NODE_POOL,
    SIMULATED,
    Requirement,
    Requirements,
)

NODES: Final = "nodes"
"""The resource that limits the number of nodes."""
MAX_NODE_POOLS: Final = 500
MAX_REQUIREMENTS: Final = 100
"""Maximum requirements of a NodePool, as in Karpenter's CustomResourceDefinition."""
MAX_VALUES: Final = 5_000
"""Maximum values of a requirement."""
MAX_TAINTS: Final = 500


@dataclass(frozen=True, slots=True, eq=False)
class NodePool:
    """A NodePool. `requirements`: of its nodes, with labels. `template`: these with the labels that Karpenter adds.

    `limits`: None without limits.
    """

    name: str
    weight: int
    requirements: Requirements
    template: Requirements
    taints: tuple[Taint, ...]
    limits: ResourceList | None


def read_node_pools(node_pools: Iterable[ApiObject]) -> list[NodePool]:
    """Return the NodePools that may add nodes, the preferred one first. Raises InvalidObject and NotPredicted."""
    usable = [read_node_pool(obj) for obj in limited(list(node_pools), MAX_NODE_POOLS, "NodePools") if _usable(obj)]
    return sorted(sorted(usable, key=lambda pool: pool.name, reverse=True), key=lambda pool: -pool.weight)


def _usable(obj: ApiObject) -> bool:
    """Report whether a NodePool is ready, dynamic and not deleted. One without conditions counts as ready."""
    conditions = list(items(obj, "status", "conditions"))
    ready = [condition.get("status") == "True" for condition in conditions if condition.get("type") == "Ready"]
    dynamic = at(obj, "spec", "replicas") is None
    return dynamic and (not conditions or any(ready)) and at(obj, "metadata", "deletionTimestamp") is None


def read_node_pool(obj: ApiObject) -> NodePool:
    """Read a NodePool. Raises InvalidObject and NotPredicted."""
    name, template = text(obj, "metadata", "name"), mapping(obj, "spec", "template")
    labels = string_map(template, "metadata", "labels")
    requirements = Requirements(_requirements(template, name))
    requirements.add(Requirements.of_labels(labels).values())
    own = Requirements(requirements.values())
    reference = {key: text(template, "spec", "nodeClassRef", key) for key in ("group", "kind", "name")}
    class_label = f"{reference['group']}/{reference['kind'].lower()}"
    own.add(Requirements.of_labels({NODE_POOL: name, class_label: reference["name"]}).values())
    own.add(Requirement.from_entry(key, "In", ("true",)) for key in SIMULATED)
    taints = limited(list(items(template, "spec", "taints")), MAX_TAINTS, f"taints of NodePool {name}")
    return NodePool(
        name=name,
        weight=int32(obj, "spec", "weight") or 0,
        requirements=requirements,
        template=own,
        taints=tuple(Taint(text(t, "key"), text(t, "value"), text(t, "effect")) for t in taints),
        limits=None if at(obj, "spec", "limits") is None else read_resource_list(obj, "spec", "limits"),
    )


def _requirements(template: ApiObject, name: str) -> Iterator[Requirement]:
    what = f"requirements of NodePool {name}"
    for entry in limited(list(items(template, "spec", "requirements")), MAX_REQUIREMENTS, what):
        operator = text(entry, "operator")
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"):
            raise NotPredicted(f"NodePool {name}: operator {operator!r} is not known")
        values = limited(strings(entry, "values"), MAX_VALUES, f"values in {what}")
        yield Requirement.from_entry(text(entry, "key"), operator, values, int32(entry, "minValues"))
