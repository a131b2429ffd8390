"""The nodes on pages as data for scripts: the whole cluster by node pool and zone, or the nodes of a prediction."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.render.html.elements import display_text
from forewarn.policies.render.html.node_data import node_data
from forewarn.policies.render.html.preempt import arrivals, preemptions_of
from forewarn.policies.whatif.node_bands import NodeBands, zone_of
from forewarn.policies.whatif.node_groups import POOL_LABELS, pool_of
from forewarn.policies.whatif.occupancy import Placed

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.documents.ui import UiCluster, UiVictim
    from forewarn.policies.forecast.apply_order import Applied

_MAX_NODES: Final = 60
"""In the picture of a prediction."""
_MAX_VICTIMS: Final = 500


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


def touched(applied: Applied, cluster: ClusterSnapshot) -> list[UiVictim]:
    """Return the victims of all predictions, in the order of `applied.placed`: at most `_MAX_VICTIMS`.

    Skips victims that are already terminating. `cluster`: provides the workload of each victim.
    """
    every = ((placement, prediction) for placement in applied.placed for prediction in placement.predictions)
    victims: list[UiVictim] = [
        {
            "pod": display_text(preemption.victim),
            "workload": display_text(preemption.workload),
            "priorityClass": display_text(preemption.priority_class),
            "priority": preemption.priority,
            "node": display_text(preemption.node),
            "by": display_text(preemption.by),
        }
        for preemption in preemptions_of(every, cluster)
    ]
    return victims[:_MAX_VICTIMS]


def document_of(cluster: ClusterSnapshot) -> UiCluster:
    """Return the nodes with the number of Pods of each PriorityClass."""
    return {
        "nodes": [
            {
                "name": info.node.name,
                "pool": pool_of(info.node),
                "zone": zone_of(info.node),
                "cordoned": info.node.unschedulable,
                "milliCpu": info.node.allocatable.milli_cpu,
                "memory": info.node.allocatable.memory,
                "classes": [
                    {"priorityClass": name, "priority": priority, "pods": pods}
                    for (name, priority), pods in sorted(
                        Counter((pod.priority_class_name, pod.effective_priority) for pod in info.pods).items(),
                        key=lambda item: (-item[0][1], item[0][0]),
                    )
                ],
            }
            for info in sorted(cluster.scheduling.node_infos, key=lambda info: info.node.name)
        ]
    }
