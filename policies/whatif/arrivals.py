"""Nodes arrive: the simulation continues with the nodes that autoscalers add for Pending Pods.

Assumes that a scan of cluster-autoscaler follows SCAN seconds after the first failed scheduling attempt, one scan for
each scale-up, that Karpenter launches all nodes BATCH seconds after this attempt, and that
nodes are ready after a fixed delay. Preemption does not change: kube-scheduler does not wait for nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from forewarn.policies.autoscaling.cluster_autoscaler.node_group import HOSTNAME, TEMPLATE
from forewarn.policies.objects.pod_spec import shared_labels
from forewarn.policies.simulation.scenario import Arrival, read_node
from forewarn.policies.simulation.simulation import Simulation
from forewarn.policies.whatif.autoscalers import Back, WithNodes
from forewarn.policies.whatif.comparison import count_by_workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.node import Node
    from forewarn.policies.simulation.scenario import World
    from forewarn.policies.simulation.summary import Names
    from forewarn.policies.whatif.answer import Answer, WorkloadCount
    from forewarn.policies.whatif.autoscalers import Autoscaling
    from forewarn.policies.whatif.comparison import Count

SCAN: Final = 10.0
"""Seconds between two scans. Source: --scan-interval."""
BATCH: Final = 10.0
"""Seconds in which Karpenter collects Pending Pods. Source: --batch-max-duration."""
MAX_NODES: Final = 2_000
"""Maximum nodes that arrive in a simulation."""


def with_new_nodes(answer: Answer, world: World, autoscaling: Autoscaling) -> WithNodes | None:
    """Simulate the event again with the nodes that autoscalers add; None without any.

    `autoscaling`: after the loss of the question. Raises ValueError.
    """
    delay = autoscaling.node_delay
    if delay is None or answer.upgrade is not None:
        return None
    added = [*_new_nodes(answer, autoscaling, delay), *_launched(answer, delay)]
    arriving = sorted(added, key=lambda each: each[2])[:MAX_NODES]
    if not arriving:
        return None
    arrivals = [
        Arrival(at, "create", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}}, node)
        for _, node, at in arriving
    ]
    simulation = Simulation(world._replace(arrivals=sorted([*world.arrivals, *arrivals], key=lambda each: each.at)))
    simulation.run()
    after, names = count_by_workload(simulation), answer.summary.names
    counts = {names.of(workload): pods for workload, pods in after.items()}
    last = _last_scheduled(simulation, names)
    return WithNodes(
        groups=dict(Counter(group for group, _, _ in arriving)),
        milli_cpu=sum(node.allocatable.milli_cpu for _, node, _ in arriving),
        first=min(at for _, _, at in arriving),
        running=sum(each.running for each in after.values()),
        pending=sum(each.pending for each in after.values()),
        settled_at=max(simulation.timeline.last, 0.0),
        workloads=[
            _back(standing, counts.get(standing.workload), last.get(standing.workload)) for standing in answer.standings
        ],
        omitted=len(added) - len(arriving),
    )


def _back(standing: WorkloadCount, after: Count | None, last: float | None) -> Back:
    running, pending = (after.running, after.pending) if after else (0, 0)
    return Back(standing.workload, standing.before, standing.after, running, pending, None if pending else last)


def _last_scheduled(simulation: Simulation, names: Names) -> dict[str, float]:
    """Return the time at which the last Pod of each workload was scheduled."""
    events = (event for event in simulation.timeline.events if event.event == "scheduled")
    return {names.of(event.origin.workload): event.t for event in events if event.origin is not None}


def _first_failure(answer: Answer) -> float:
    failed = (event.t for event in answer.simulation.timeline.events if event.event == "unschedulable")
    return min(failed, default=0.0)


def _launched(answer: Answer, delay: float) -> Iterator[tuple[str, Node, float]]:
    """Yield the nodes that Karpenter launches: NodePool, node, and seconds until it is ready."""
    launches = answer.autoscalers.launches
    at = _first_failure(answer) + BATCH + delay
    for number, arrival in enumerate(launches.arrivals if launches else (), 1):
        name = f"{arrival.group}-new-{number}"
        metadata = {**arrival.node["metadata"], "name": name}
        yield arrival.group, read_node({**arrival.node, "metadata": metadata}), at


def _new_nodes(answer: Answer, autoscaling: Autoscaling, delay: float) -> Iterator[tuple[str, Node, float]]:
    """Yield the new nodes: group, node, and seconds until it is ready."""
    plan, groups = answer.autoscalers.plan, {group.name: group for group in autoscaling.groups}
    scan, numbers = _first_failure(answer) + SCAN, count(1)
    for scale_up in plan.scale_ups if plan else ():
        for name, number in scale_up.added:
            for _ in range(number):
                node = f"{name.rpartition('/')[2]}-new-{next(numbers)}"
                labels = {key: value for key, value in groups[name].node.labels.items() if key != TEMPLATE}
                own = shared_labels({**labels, HOSTNAME: node})
                yield name, replace(groups[name].node, name=node, labels=own), scan + delay
        scan += SCAN
