"""How long simulations of large clusters take: a cascade of three levels, and a rollout.

python tests/benchmarks/bench_simulation.py [--nodes 5000] [--pods-per-node 30] [--arrivals 1000] [--rollout 10000]
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace
from typing import Any

from policies.controllers.view import PodState, WorkloadState
from policies.objects.node import Node
from policies.objects.pod import Owner, Pod
from policies.simulation.scenario import Arrival, World, labelled_with_host
from policies.simulation.simulation import Simulation
from policies.simulation.summary import summarize

Obj = dict[str, Any]
LEVELS = (0, 100, 1000)
"""Priorities of what runs; what arrives is above all of them."""


def template(name: str, priority: int, cpu: int, image: str = "1", levels: tuple[int, ...] = ()) -> Obj:
    container = {
        "name": "c",
        "image": f"registry.example/{name}:{image}",
        "resources": {"requests": {"cpu": f"{cpu}m", "memory": "512Mi"}},
    }
    spec = {"priority": priority, "terminationGracePeriodSeconds": 30, "containers": [container]}
    if levels:
        expression = {"key": "level", "operator": "In", "values": [str(level) for level in levels]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"metadata": {"labels": {"app": name}}, "spec": spec}


def workload(kind: str, name: str, replicas: int, made_of: Obj, owner: str = "") -> WorkloadState:
    metadata: Obj = {"name": name, "namespace": "default"}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": made_of["metadata"]["labels"]["app"]}}}
    obj = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": {**spec, "template": made_of}}
    controller = ("apps/Deployment", "default", owner) if owner else None
    return WorkloadState((f"apps/{kind}", "default", name), obj, controller=controller)


def nodes(count: int, cpu: int) -> list[Node]:
    return [
        labelled_with_host(
            Node.from_api(
                {
                    "metadata": {
                        "name": f"n{number:05}",
                        "labels": {"topology.kubernetes.io/zone": "abc"[number % 3], "level": str(number % 3)},
                    },
                    "status": {"allocatable": {"cpu": f"{cpu}m", "memory": "256Gi", "pods": "250"}},
                }
            )
        )
        for number in range(count)
    ]


def pods_of(state: WorkloadState, first: int, places: list[str]) -> list[PodState]:
    """Running pods of a ReplicaSet, one for each place."""
    made_of, (_, namespace, name) = state.object["spec"]["template"], state.key
    like = Pod.from_api({"metadata": {"namespace": namespace, "labels": made_of["metadata"]["labels"]}, **made_of})
    owner = Owner("ReplicaSet", name, "", "apps/v1")
    like = replace(like, owner=owner, phase="Running")
    return [
        PodState(
            replace(like, name=f"{name}-x{first + number}", node_name=node, start_time=1_700_000_000 + first + number),
            created=1_700_000_000.0,
            ready=1_700_000_000.0,
            template=made_of,
        )
        for number, node in enumerate(places)
    ]


def cascade(node_count: int, per_node: int, arrivals: int) -> World:
    """Full nodes of three levels: what arrives fits on those of the highest alone, pods of a level on theirs and the
    next below; so each arrival pushes out one of each level."""
    every = nodes(node_count, per_node * 500)
    names = [node.name for node in every]
    workloads: list[WorkloadState] = []
    pods: list[PodState] = []
    for level, priority in enumerate(LEVELS):
        here = names[level::3]
        for part in range(20):
            places = [name for name in here[part::20] for _ in range(per_node)]
            made_of = template(f"w{level}-{part}", priority, 500, levels=(level, max(level - 1, 0)))
            state = workload("ReplicaSet", f"w{level}-{part}", len(places), made_of)
            workloads.append(state)
            pods += pods_of(state, len(pods), places)
    coming = []
    for number in range(arrivals):
        spec = template(f"new-{number % 10}", 10_000, 500, levels=(2,))
        metadata = {"name": f"new-{number}", "namespace": "default", **spec["metadata"]}
        obj = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec["spec"]}
        coming.append(Arrival(0.0, "create", obj))
    return World(every, workloads, pods, coming, horizon=3600.0)


def rollout(node_count: int, per_node: int, size: int) -> World:
    """A Deployment of many pods that gets another image, on a cluster with room for its surge."""
    every = nodes(node_count, (per_node + 6) * 500)
    names = [node.name for node in every]
    old = template("web", 100, 500)
    replica_set = workload("ReplicaSet", "web-old", size, old, "web")
    deployment = workload("Deployment", "web", size, old)
    others = workload("ReplicaSet", "others", 0, template("others", 0, 500))
    pods = pods_of(replica_set, 0, [names[number % node_count] for number in range(size)])
    rest = node_count * per_node - size
    filler = pods_of(others, size, [names[number % node_count] for number in range(max(rest, 0))])
    filler = [replace(state, pod=replace(state.pod, owner=None)) for state in filler]
    new = {**deployment.object, "spec": {**deployment.object["spec"], "template": template("web", 100, 500, "2")}}
    return World(every, [deployment, replica_set], [*pods, *filler], [Arrival(1.0, "update", new)], horizon=7200.0)


def measure(name: str, world: World) -> None:
    started = time.process_time()
    simulation = Simulation(world)
    ready = time.process_time()
    simulation.run()
    ended = time.process_time()
    told = summarize(simulation)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    attempts = sum(event.event in ("scheduled", "unschedulable") for event in simulation.timeline.events)
    print(
        f"{name}: {ended - ready:.1f} s of processor (made in {ready - started:.1f} s, {memory} MB); "
        f"{len(world.nodes)} nodes, {len(world.pods)} pods, {attempts} cycles ({attempts / (ended - ready):.0f}/s); "
        f"pushed out {len(told.evictions)} in {told.depth} levels, settled after {told.settled_at:.0f} s, "
        f"{told.new_running} of {told.new_pods} new run"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods-per-node", type=int, default=30)
    parser.add_argument("--arrivals", type=int, default=1000)
    parser.add_argument("--rollout", type=int, default=10_000)
    options = parser.parse_args()
    if options.arrivals:
        measure("cascade", cascade(options.nodes, options.pods_per_node, options.arrivals))
    if options.rollout:
        measure("rollout", rollout(options.nodes, options.pods_per_node, options.rollout))


if __name__ == "__main__":
    main()
