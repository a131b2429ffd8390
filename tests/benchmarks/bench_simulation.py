"""How long simulations of large clusters take: a cascade of three levels, a rollout, and pods that all fit.

python tests/benchmarks/bench_simulation.py [--nodes 5000] [--pods-per-node 30] [--arrivals 1000] [--rollout 10000]
    [--fits 1200]
python tests/benchmarks/bench_simulation.py --arrivals 100 --beside .cache/oracle

`--beside` runs the cascade, and 20 times as many pods that fit, by kube-scheduler's own code too (`make oracle`): a
scenario of both programs, in processor time, less what either takes for the same cluster with one pod that comes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from forewarn.policies.kubernetes.controllers.view import PodState, WorkloadState
from forewarn.policies.kubernetes.objects.node import Node
from forewarn.policies.kubernetes.objects.pod import Owner, Pod
from forewarn.policies.prediction.simulation.scenario import Arrival, World, labelled_with_host
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import summarize

Obj = dict[str, Any]
LEVELS = (0, 100, 1000)
"""Priorities of what runs; what arrives is above all of them."""

FIT: Final = 20
"""How many times as many pods arrive where all fit as where they preempt: they take that much less."""


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


def fitting(node_count: int, per_node: int, arrivals: int) -> World:
    """The nodes and pods of the cascade, with room for all that arrives on those of the highest level."""
    full = cascade(node_count, per_node, arrivals)
    room = 2 + 3 * arrivals // node_count
    return full._replace(nodes=nodes(node_count, (per_node + room) * 500))


def as_scenario(name: str, world: World) -> Obj:
    """A world as a line of a batch, which both programs read."""
    stored = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node.name, "labels": dict(node.labels)},
            "status": {
                key: {"cpu": f"{node.allocatable.milli_cpu}m", "memory": "256Gi", "pods": "250"}
                for key in ("capacity", "allocatable")
            },
        }
        for node in world.nodes
    ]
    return {
        "id": name,
        "category": name,
        "nodes": stored,
        "pods": [stored_pod(state) for state in world.pods],
        "workloads": [state.object for state in world.workloads],
        "arrivals": [{"at": one.at, "op": one.op, "object": one.object} for one in world.arrivals],
        "horizonSeconds": world.horizon,
        "quietSeconds": world.quiet,
    }


def stored_pod(state: PodState) -> Obj:
    pod, made_of = state.pod, state.template or {}
    metadata = {"name": pod.name, "namespace": pod.namespace, **made_of["metadata"]}
    if pod.owner is not None:
        owner = {"apiVersion": "apps/v1", "kind": pod.owner.kind, "name": pod.owner.name, "uid": "", "controller": True}
        metadata["ownerReferences"] = [owner]
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(pod.start_time))
    spec = {**made_of["spec"], "nodeName": pod.node_name}
    status = {"phase": "Running", "startTime": started}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


class Run(NamedTuple):
    """A program's answer to a scenario: seconds of the processor, and cycles of its scheduler."""

    seconds: float
    cycles: int


def run(command: list[str], case: Obj) -> Run:
    with tempfile.TemporaryDirectory() as folder:
        asked, told = Path(folder, "case.jsonl"), Path(folder, "answer.jsonl")
        asked.write_text(json.dumps(case) + "\n")
        with asked.open() as stdin, told.open("w") as stdout:
            process = subprocess.Popen(command, stdin=stdin, stdout=stdout, env={**os.environ, "GOMAXPROCS": "1"})
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{command[0]} ended with {process.returncode}")
        timeline = json.loads(told.read_text())["outcomes"][0]["timeline"]
    cycles = sum(event["event"] in ("scheduled", "unschedulable") for event in timeline)
    return Run(used.ru_utime + used.ru_stime, cycles)


def beside(oracle: str, name: str, world: World) -> None:
    ours = [sys.executable, "-m", "forewarn", "simulate", "--batch", "-"]
    theirs = [oracle, "scenarios", "-workers", "1"]
    rates = []
    for program, command in (("forewarn", ours), ("kube-scheduler", theirs)):
        some = run(command, as_scenario(name, world._replace(arrivals=world.arrivals[:1])))
        every = run(command, as_scenario(name, world))
        seconds, cycles = every.seconds - some.seconds, every.cycles - some.cycles
        rates.append(cycles / seconds)
        print(
            f"{name}, {program}: {cycles} cycles in {seconds:.1f} s of processor ({cycles / seconds:.0f}/s), "
            f"less {some.seconds:.1f} s for the cluster and one pod; {len(world.nodes)} nodes, {len(world.pods)} pods"
        )
    print(f"{name}: {rates[0] / rates[1]:.1f} times as many")


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
        f"{len(told.evictions)} Pods preempted in {told.cascade_depth} levels, "
        f"steady state after {told.steady_at:.0f} s, {told.new_pods_running} of {told.new_pods} new run"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods-per-node", type=int, default=30)
    parser.add_argument("--arrivals", type=int, default=1000)
    parser.add_argument("--rollout", type=int, default=10_000)
    parser.add_argument("--fits", type=int, default=1200, help="pods that come where all have room")
    parser.add_argument("--beside", metavar="ORACLE", help="run the cascade by kube-scheduler's own code as well")
    options = parser.parse_args()
    if options.beside:
        beside(options.beside, "fit", fitting(options.nodes, options.pods_per_node, FIT * options.arrivals))
        beside(options.beside, "cascade", cascade(options.nodes, options.pods_per_node, options.arrivals))
        return
    if options.arrivals:
        measure("cascade", cascade(options.nodes, options.pods_per_node, options.arrivals))
    if options.rollout:
        measure("rollout", rollout(options.nodes, options.pods_per_node, options.rollout))
    if options.fits:
        measure("fits", fitting(options.nodes, options.pods_per_node, options.fits))


if __name__ == "__main__":
    main()
