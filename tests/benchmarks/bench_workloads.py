"""How long the impact of a whole workload takes on a large cluster, one pod event before each question.

`python -m tests.benchmarks.bench_workloads [--nodes N] [--questions N]`: 20 pods a node, so that 100 replicas fit.
"""

from __future__ import annotations

import argparse
import gc
import time
from functools import partial
from statistics import median
from typing import Any, Final

import policies
from policies.config import Config
from policies.evaluator import impact_of
from policies.objects.reviewed_object import Operation, ReviewedObject
from tests.benchmarks.bench_preemption import Events
from tests.benchmarks.clusters import Size, objects
from tests.builders import Obj

SELF: Final = {"matchLabels": {"app": "bench"}}
SECONDS: Final = 3.75
"""What an admission call of 5 s leaves for predictions."""


def spread(*keys: str) -> Obj:
    """Spread evenly over each of these."""
    common = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELF}
    return {"topologySpreadConstraints": [{**common, "topologyKey": key} for key in keys]}


APART: Final[Obj] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": SELF}
            ]
        }
    }
}
ZONE: Final = "topology.kubernetes.io/zone"


def workload(kind: str, replicas: int, cpu: str, **spec: Any) -> Obj:
    """A workload of the priority of the benchmark's preemptors."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    template = {"metadata": {"labels": {"app": "bench"}}, "spec": {"priority": 1000, "containers": [container], **spec}}
    made: Obj = {"selector": SELF, "template": template}
    if kind != "DaemonSet":
        made["replicas"] = replicas
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "bench", "namespace": "default"},
        "spec": made,
    }


SCENARIOS: Final = {
    "1 replica": workload("Deployment", 1, "100m"),
    "10 replicas": workload("Deployment", 10, "100m"),
    "100 replicas": workload("Deployment", 100, "100m"),
    "100 replicas, each on a node of its own": workload("Deployment", 100, "100m", **APART),
    "100 replicas, spread over zones": workload("Deployment", 100, "100m", **spread(ZONE)),
    "10 replicas, spread over zones and nodes": workload(
        "Deployment", 10, "100m", **spread(ZONE, "kubernetes.io/hostname")
    ),
    "30 replicas that preempt": workload("Deployment", 30, "15"),
    "a DaemonSet": workload("DaemonSet", 0, "100m"),
    "a DaemonSet that preempts": workload("DaemonSet", 0, "8"),
    "nothing changes": workload("Deployment", 100, "100m"),
}


def subject_of(name: str) -> ReviewedObject:
    """What is asked about."""
    obj = SCENARIOS[name]
    if name == "nothing changes":
        return ReviewedObject(object=obj, operation=Operation.UPDATE, old=obj)
    return ReviewedObject(object=obj)


def expired(began: float) -> bool:
    """Whether the time of an admission call is used up."""
    return time.monotonic() - began >= SECONDS


def main() -> None:
    """Load one cluster, ask every question, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--questions", type=int, default=20)
    options = parser.parse_args()
    size, cache = Size(nodes=options.nodes, pods_per_node=20), policies.Cache()
    for obj in objects(size):
        cache.add(obj)
    cache.snapshot().prepare()
    gc.freeze()
    events = Events(size)
    print(f"{'milliseconds':44}{'p50':>9}{'max':>9}  pods, predicted, preempting")
    for name in SCENARIOS:
        subject, taken, told = subject_of(name), [], ""
        for _ in range(options.questions):
            events.happen(cache)
            began = time.monotonic()
            impact = impact_of(subject, cache.snapshot(), Config(), partial(expired, began))
            taken.append(1000 * (time.monotonic() - began))
            told = f"{impact.new}, {impact.predicted}, {len(impact.preempting)}" if impact else "no new pod"
        print(f"{name:44}{median(taken):>9.1f}{max(taken):>9.1f}  {told}", flush=True)


if __name__ == "__main__":
    main()
