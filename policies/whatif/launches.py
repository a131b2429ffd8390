"""The nodes that Karpenter launches for Pending Pods."""

from __future__ import annotations

from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.autoscaling.autoscaler import Arrival, NotPredicted
from forewarn.policies.findings import cut, one_line
from forewarn.policies.objects.fields import at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from forewarn.policies.autoscaling.karpenter.autoscaler import Karpenter
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot

MAX_ROUNDS: Final = 20
"""Maximum rounds: limits let Karpenter launch fewer nodes in a round than needed."""
_LONGEST: Final = 300
"""Maximum characters of Karpenter's reason for a Pod without a node."""


class Launch(NamedTuple):
    """Equal nodes: their NodePool and instance type. `workloads`: workload -> number of Pods that need these nodes."""

    node_pool: str
    instance_type: str
    nodes: int
    workloads: dict[str, int]


class Launches(NamedTuple):
    """The nodes that Karpenter launches. `left`: (workload, reason) -> number of Pods without a place.

    `not_predicted`: what forewarn does not model, or "".
    """

    launches: Sequence[Launch] = ()
    left: Mapping[tuple[str, str], int] = MappingProxyType({})
    arrivals: Sequence[Arrival] = ()
    not_predicted: str = ""


def launch(
    karpenter: Karpenter, pods: Sequence[Pod], snapshot: Snapshot, workload_of: Callable[[Pod], str]
) -> Launches:
    """Return the nodes that Karpenter launches until no further node helps."""
    arrivals: list[Arrival] = []
    errors: dict[str, str] = {}
    try:
        for _ in range(MAX_ROUNDS):
            more, errors = karpenter.decide(pods, snapshot, arrivals)
            arrivals += more
            if not more:
                break
    except NotPredicted as reason:
        return Launches(not_predicted=str(reason))
    workloads = {pod.key: workload_of(pod) for pod in pods}
    left = Counter((workloads[key], cut(one_line(why), _LONGEST)) for key, why in errors.items())
    return Launches(_merged(arrivals, workloads), dict(left), arrivals)


def _merged(arrivals: Sequence[Arrival], workloads: dict[str, str]) -> list[Launch]:
    counts: Counter[tuple[str, str]] = Counter()
    pods: dict[tuple[str, str], Counter[str]] = {}
    for arrival in arrivals:
        kind = arrival.group, str(at(arrival.node, "metadata", "labels", "node.kubernetes.io/instance-type"))
        counts[kind] += 1
        pods.setdefault(kind, Counter()).update(workloads[key] for key in arrival.pods)
    return [Launch(*kind, nodes, dict(pods[kind])) for kind, nodes in counts.items()]


def launches_as_dict(launches: Launches) -> dict[str, Any]:
    """Return the nodes as a JSON object."""
    return {
        "launches": [
            {
                "nodePool": each.node_pool,
                "instanceType": each.instance_type,
                "nodes": each.nodes,
                "workloads": [{"workload": name, "pods": pods} for name, pods in each.workloads.items()],
            }
            for each in launches.launches
        ],
        "noLaunch": [
            {"workload": workload, "pods": pods, "reason": why} for (workload, why), pods in launches.left.items()
        ],
        "notPredicted": launches.not_predicted,
    }
