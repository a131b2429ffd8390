"""How long the impact of a whole workload takes on a large cluster, one pod event before each question.

`python -m tests.benchmarks.bench_workloads [--nodes N] [--questions N]`: 20 pods a node, so that 100 replicas fit.
"""

from __future__ import annotations

import argparse
import gc
import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from forewarn import policies
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import impact_of
from tests.benchmarks.bench_preemption import Events
from tests.benchmarks.clusters import Size, objects
from tests.builders import Obj

if TYPE_CHECKING:
    from collections.abc import Iterator

SELF: Final = {"matchLabels": {"app": "bench"}}
SECONDS: Final = 3.75
"""What an admission call of 5 s leaves for predictions."""


def spread(*keys: str) -> Obj:
    """Spread evenly over each of these."""
    common = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELF}
    return {"topologySpreadConstraints": [{**common, "topologyKey": key} for key in keys]}


ONE_PER_NODE: Final[Obj] = {
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
    "100 replicas, each on a node of its own": workload("Deployment", 100, "100m", **ONE_PER_NODE),
    "100 replicas, spread over zones": workload("Deployment", 100, "100m", **spread(ZONE)),
    "10 replicas, spread over zones and nodes": workload(
        "Deployment", 10, "100m", **spread(ZONE, "kubernetes.io/hostname")
    ),
    "30 replicas that preempt": workload("Deployment", 30, "15"),
    "a DaemonSet": workload("DaemonSet", 0, "100m"),
    "a DaemonSet that preempts": workload("DaemonSet", 0, "8"),
    "nothing changes": workload("Deployment", 100, "100m"),
}


ROLLED: Final = 10
"""Pods of the workload that is rolled out, each on a node of its own."""
WAITING: Final = 100
TIRED: Final = "while 100 pods wait"


def rolled(cpu: str, priority: int, **spec: Any) -> Obj:
    """The Deployment that is rolled out."""
    made = workload("Deployment", ROLLED, cpu)
    made["metadata"] = {"name": "rolled", "namespace": "default"}
    made["spec"] |= {**spec, "selector": {"matchLabels": {"app": "rolled"}}}
    made["spec"]["template"]["metadata"] = {"labels": {"app": "rolled"}}
    made["spec"]["template"]["spec"]["priority"] = priority
    return made


ROLLOUTS: Final = {
    "a rollout of 10 that fit": rolled("100m", 1000),
    "a rollout of 10 that preempt": rolled("15", 1000),
    "a rollout of 10 that preempt, Recreate": rolled("15", 1000, strategy={"type": "Recreate"}),
}


def replica_set(of: Obj, pods: int) -> Iterator[Obj]:
    """The ReplicaSet of a Deployment, and its pods, which wait."""
    metadata, spec = of["metadata"], of["spec"]
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "controller": True}
    named = {"name": metadata["name"], "namespace": metadata["namespace"], "uid": f"uid-{metadata['name']}"}
    yield {**of, "kind": "ReplicaSet", "metadata": {**named, "ownerReferences": [owner]}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": metadata["name"], "controller": True}
    for number in range(pods):
        name = f"{metadata['name']}-{number}"
        about = {"namespace": metadata["namespace"], "labels": spec["template"]["metadata"]["labels"]}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**about, "name": name, "uid": f"uid-{name}", "ownerReferences": [owner]},
            "spec": dict(spec["template"]["spec"]),
        }


def what_is_rolled() -> Iterator[Obj]:
    """The Deployment as it is, its ReplicaSet, and its pods on the first nodes."""
    old = rolled("100m", 500)
    yield old
    for number, obj in enumerate(replica_set(old, ROLLED), -1):
        if obj["kind"] == "Pod":
            obj["spec"]["nodeName"] = f"n{number:05}"
            ready = {"type": "Ready", "status": "True"}
            obj["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [ready]}
        yield obj


def who_waits() -> Iterator[Obj]:
    """Pods of ten Deployments that fit nowhere and may preempt nobody who is there, but for a rollout's old pods."""
    for number in range(10):
        waiting = workload("Deployment", WAITING // 10, "16")
        waiting["metadata"] = {"name": f"waiting-{number}", "namespace": "default"}
        waiting["spec"]["template"]["spec"] |= {"priority": 400, "preemptionPolicy": "Never"}
        yield waiting
        yield from replica_set(waiting, WAITING // 10)


def subject_of(name: str) -> ReviewedObject:
    """What is asked about."""
    if name in ROLLOUTS:
        return ReviewedObject(object=ROLLOUTS[name], operation=Operation.UPDATE, old=rolled("100m", 500))
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
    print(f"{'milliseconds of the processor':62}{'p50':>9}{'max':>9}  pods, predicted, preempting")
    ask = partial(measure, cache, events, options.questions)
    for name in SCENARIOS:
        ask(name)
    for obj in what_is_rolled():
        cache.add(obj)
    for name in ROLLOUTS:
        ask(name)
    for obj in who_waits():
        cache.add(obj)
    for name in ("1 replica", "30 replicas that preempt", *ROLLOUTS):
        ask(name, TIRED)


def measure(cache: policies.Cache, events: Events, questions: int, name: str, when: str = "") -> None:
    """Ask one of them so many times, and print its line."""
    subject, taken, told = subject_of(name), [], ""
    for _ in range(questions):
        events.happen(cache)
        began, at_work = time.monotonic(), time.process_time()
        impact = impact_of(subject, cache.snapshot(), Config(), partial(expired, began))
        taken.append(1000 * (time.process_time() - at_work))
        told = f"{impact.new}, {impact.predicted}, {len(impact.preempting)}" if impact else "no new pod"
    print(f"{f'{name} {when}':62}{median(taken):>9.1f}{max(taken):>9.1f}  {told}", flush=True)


if __name__ == "__main__":
    main()
