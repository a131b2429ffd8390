"""Nodes arrive: the simulation continues with the nodes that cluster-autoscaler adds for Pending Pods.

Assumes that a scan follows SCAN seconds after the first failed scheduling attempt, one scan for each scale-up, and that
nodes are ready after a fixed delay. Preemption does not change: kube-scheduler does not wait for nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count, islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.autoscaling.cluster_autoscaler.node_group import HOSTNAME, TEMPLATE
from forewarn.policies.objects.pod_spec import shared_labels
from forewarn.policies.simulation.scenario import Arrival
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
MAX_NODES: Final = 2_000
"""Maximum nodes that arrive in a simulation."""


def with_new_nodes(answer: Answer, world: World, autoscaling: Autoscaling) -> WithNodes | None:
    """Simulate the event again with the nodes that cluster-autoscaler adds; None without any.

    `autoscaling`: after the loss of the question. Raises ValueError.
    """
    plan, delay = answer.autoscalers.plan, autoscaling.node_delay
    if plan is None or not plan.scale_ups or delay is None or answer.upgrade is not None:
        return None
    arriving = list(islice(_new_nodes(answer, autoscaling, delay), MAX_NODES))
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
        omitted=sum(number for each in plan.scale_ups for _, number in each.added) - len(arriving),
    )


def _back(standing: WorkloadCount, after: Count | None, last: float | None) -> Back:
    running, pending = (after.running, after.pending) if after else (0, 0)
    return Back(standing.workload, standing.before, standing.after, running, pending, None if pending else last)


def _last_scheduled(simulation: Simulation, names: Names) -> dict[str, float]:
    """Return the time at which the last Pod of each workload was scheduled."""
    events = (event for event in simulation.timeline.events if event.event == "scheduled")
    return {names.of(event.origin.workload): event.t for event in events if event.origin is not None}


def _new_nodes(answer: Answer, autoscaling: Autoscaling, delay: float) -> Iterator[tuple[str, Node, float]]:
    """Yield the new nodes: group, node, and seconds until it is ready."""
    plan, groups = answer.autoscalers.plan, {group.name: group for group in autoscaling.groups}
    failed = [event.t for event in answer.simulation.timeline.events if event.event == "unschedulable"]
    scan, numbers = min(failed, default=0.0) + SCAN, count(1)
    for scale_up in plan.scale_ups if plan else ():
        for name, number in scale_up.added:
            for _ in range(number):
                node = f"{name.rpartition('/')[2]}-new-{next(numbers)}"
                labels = {key: value for key, value in groups[name].node.labels.items() if key != TEMPLATE}
                own = shared_labels({**labels, HOSTNAME: node})
                yield name, replace(groups[name].node, name=node, labels=own), scan + delay
        scan += SCAN
