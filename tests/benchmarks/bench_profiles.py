#!/usr/bin/env python3
"""What other profiles cost beside the default one: CPU time of a prediction: its outcome, and where the pod would run.

    bench_profiles.py [--nodes 1000] [--runs 15]

The last row is a profile with a filter that has no columns: every plugin is run on every node.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from forewarn import policies
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.releases.semantics import DEFAULT
from forewarn.policies.kubernetes.scheduling.configuration import scheduler_configuration
from forewarn.policies.kubernetes.scheduling.framework import Plugin
from forewarn.policies.kubernetes.scheduling.plugins.registry import IN_TREE
from tests.builders import make_node, make_pod

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
SPREAD = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
SSD = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}


class Passes(Plugin):
    """A filter without columns, which rejects nothing."""

    name: ClassVar[str] = "Passes"

    def filter(self, state: Any, pod: Any, node_info: Any) -> None:
        """Every node passes."""


def fit(kind: str, **more: Any) -> dict[str, Any]:
    return {"NodeResourcesFit": {"scoringStrategy": {"type": kind, **more}}}


PROFILES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "default": ({}, {}),
    "MostAllocated": (fit("MostAllocated"), {}),
    "RequestedToCapacityRatio": (fit("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": SHAPE}), {}),
    "addedAffinity": (
        {
            "NodeAffinity": {
                "addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [SSD]}}
            }
        },
        {},
    ),
    "default constraints": ({"PodTopologySpread": {"defaultingType": "List", "defaultConstraints": [SPREAD]}}, {}),
    "without columns": ({}, {"filter": {"enabled": [{"name": "Passes"}]}}),
}


def cluster(nodes: int, args: dict[str, Any], plugins: dict[str, Any]) -> ClusterSnapshot:
    given = [{"name": name, "args": value} for name, value in args.items()]
    profile = {"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": given}
    known = {**IN_TREE, "Passes": Passes}
    cache = Cache(
        semantics=DEFAULT._replace(scheduler=scheduler_configuration({**HEADER, "profiles": [profile]}, DEFAULT, known))
    )
    for number in range(nodes):
        cache.add(make_node(f"n{number}").labels(disk="ssd" if number % 3 else "hdd").obj)
        for place in range(4 if number % 10 else 2):
            pod = make_pod(f"p{number}-{place}").priority(place).request(cpu="1", memory="1Gi")
            cache.add(pod.labels(app=f"a{number % 20}").on(f"n{number}").obj)
    return cache.snapshot()


def milliseconds(snapshot: ClusterSnapshot, pod: Any, asked: str, runs: int) -> float:
    times = []
    for _ in range(runs + 1):
        began = time.process_time()
        getattr(policies.predict(snapshot, pod), asked)
        times.append((time.process_time() - began) * 1000)
    return min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    fits = make_pod("fits").priority(10).request(cpu="1").labels(app="a1").obj
    preempts = make_pod("preempts").priority(10).request(cpu="3").labels(app="a1").obj
    print(f"{options.nodes} nodes; CPU time, and how often that of the default profile")
    first: list[float] = []
    for name, (args, plugins) in PROFILES.items():
        snapshot = cluster(options.nodes, args, plugins)
        runs = 3 if plugins else options.runs
        found = [
            milliseconds(snapshot, pod, asked, runs)
            for pod, asked in ((fits, "outcome"), (fits, "best_nodes"), (preempts, "outcome"))
        ]
        first = first or found
        cells = (
            f"{what} {ms:.2f} ms (x{ms / base:.2f})"
            for what, ms, base in zip(("fits", "where", "preempts"), found, first, strict=True)
        )
        print(f"{name:25} {'   '.join(cells)}")


if __name__ == "__main__":
    main()
