"""The nodes on pages as data for scripts: the whole cluster by node pool and zone, or the nodes of a prediction."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.documents import to_dict
from forewarn.policies.render.html.elements import display_text
from forewarn.policies.render.html.nodes import node_data
from forewarn.policies.render.html.pages import arrivals, preemptions_of
from forewarn.policies.whatif.node_bands import NodeBands, zone_of
from forewarn.policies.whatif.node_groups import POOL_LABELS, pool_of
from forewarn.policies.whatif.occupancy import Placed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.application.predict import PredictResult
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.forecast.apply_order import Applied
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.whatif.answer import Preemption

_MAX_NODES: Final = 60
"""In the picture of a prediction."""
_MAX_VICTIMS: Final = 500
"""As in predict.js."""


class ClassOnNode(NamedTuple):
    """The Pods of a PriorityClass on a node. An empty `priorityClass`: Pods without a class."""

    priority_class: str
    priority: int
    pods: int


class UiNode(NamedTuple):
    """A node. `milli_cpu` and `memory` (bytes): allocatable."""

    name: str
    pool: str
    zone: str
    cordoned: bool
    milli_cpu: int
    memory: int
    classes: Sequence[ClassOnNode]


class UiCluster(NamedTuple):
    """The nodes of the Cluster page of `forewarn ui`, by name."""

    nodes: Sequence[UiNode]


class UiVictim(NamedTuple):
    """A victim. `by`: the preemptor."""

    pod: str
    workload: str
    priority_class: str
    priority: int
    node: str
    by: str


def of_cluster(cluster: ClusterSnapshot) -> dict[str, Any]:
    """Return all nodes by node pool and zone, without changes over time."""
    return node_data(NodeBands(Placed(cluster, ()), ()), (), between=False) | {"frames": []}


def pools_of(cluster: ClusterSnapshot) -> list[str]:
    """Return the node pools that labels of nodes name, each as `LABEL=VALUE`."""
    labels = (node.labels for node in cluster.objects.nodes.values())
    named = (next((f"{key}={label[key]}" for key in POOL_LABELS if key in label), "") for label in labels)
    return sorted(set(named) - {""})


def of_predictions(applied: Applied, cluster: ClusterSnapshot) -> dict[str, Any]:
    """Return the nodes that get new Pods, with the victims on these nodes."""
    every = [(placement, prediction) for placement in applied.placed for prediction in placement.predictions]
    names = list(dict.fromkeys(prediction.node for _, prediction in every if prediction.node))[:_MAX_NODES]
    shown = [band for band in every if band[1].node in names]
    preemptions = list(preemptions_of(shown, cluster))
    going = {victim.identity for _, prediction in shown for victim in prediction.victims}
    bands = NodeBands(Placed(cluster, arrivals(shown), going, names), preemptions)
    return node_data(bands, preemptions, between=False)


def touched(result: PredictResult) -> list[UiVictim]:
    """Return the victims of all predictions, then those of PodGroups: at most `_MAX_VICTIMS`.

    Skips victims that are already terminating.
    """
    every = ((placement, prediction) for placement in result.applied.placed for prediction in placement.predictions)
    preemptions = preemptions_of(every, result.cluster, result.groups)
    return [_victim(preemption) for preemption in islice(preemptions, _MAX_VICTIMS)]


def _victim(preemption: Preemption) -> UiVictim:
    texts = preemption.victim, preemption.workload, preemption.priority_class, preemption.node, preemption.by
    pod, workload, priority_class, node, by = map(display_text, texts)
    return UiVictim(pod, workload, priority_class, preemption.priority, node, by)


def document_of(cluster: ClusterSnapshot) -> dict[str, Any]:
    """Return the nodes with the number of Pods of each PriorityClass, as JSON."""
    infos = sorted(cluster.scheduling.node_infos, key=lambda info: info.node.name)
    return to_dict(UiCluster([_node(info.node, info.pods) for info in infos]))


def _node(node: Node, pods: Iterable[Pod]) -> UiNode:
    counts = Counter((pod.priority_class_name, pod.effective_priority) for pod in pods)
    ordered = sorted(counts.items(), key=lambda item: (-item[0][1], item[0][0]))
    classes = [ClassOnNode(name, priority, number) for (name, priority), number in ordered]
    size = node.allocatable
    return UiNode(node.name, pool_of(node), zone_of(node), node.unschedulable, size.milli_cpu, size.memory, classes)
