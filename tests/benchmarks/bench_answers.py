"""How long the whole answer for one pod takes: why each node cannot run it, the scores of those that can, every
candidate of preemption, and the odds of each.

python -m tests.benchmarks.bench_answers [--nodes 5000] [--questions 5] [--apart]

Milliseconds of the processor, the median; before them one question of each kind, which does what is kept, and takes
what stands in brackets. Last all of the answer as JSON, with every victim of every candidate.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import Cycle
from forewarn.policies.prediction.simulation.scenario import world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from tests.benchmarks.bench_owners import filled, prefers_others
from tests.benchmarks.clusters import ZONES, Obj, container

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.simulation.scenario import DumpCache


def claim(name: str) -> Obj:
    """A volume of a pod."""
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


NAMESPACE: Final = "team-0"
LABELS: Final = {"app": "app-0"}
"""Those of a workload that is there."""
TOPOLOGIES: Final = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
SELECTOR: Final = {"matchLabels": LABELS}
TERM: Final = {"topologyKey": TOPOLOGIES[0], "labelSelector": SELECTOR}
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
SSD: Final = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
SMALL, LARGE = container("c", "500m", "1Gi"), container("c", "12", "40Gi")
"""What fits beside others, and what somebody has to go for."""
ROWS: Final[dict[str, dict[str, Any]]] = {
    "fits": {"containers": [SMALL]},
    "preempts": {"containers": [LARGE]},
    "fits, spread over zones and nodes": {
        "containers": [SMALL],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
            for key in TOPOLOGIES
        ],
    },
    "fits, should be spread over zones and nodes": {
        "containers": [SMALL],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": SELECTOR}
            for key in TOPOLOGIES
        ],
    },
    "fits, prefers nodes, and to be apart from its like": {
        "containers": [SMALL],
        "affinity": {**prefers_others(LABELS["app"]), "nodeAffinity": {PREFERRED: [{"weight": 1, "preference": SSD}]}},
    },
    "fits, required affinity to pods": {
        "containers": [SMALL],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
    },
    "preempts, required affinity to pods": {
        "containers": [LARGE],
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}},
    },
}

ZONE: Final = TOPOLOGIES[0]
DRIVER: Final = "csi.example.com"
STORAGE_ROWS: Final[dict[str, dict[str, Any]]] = {
    "fits, a bound claim": {"containers": [SMALL], "volumes": [claim("bound")]},
    "preempts, a bound claim": {"containers": [LARGE], "volumes": [claim("bound")]},
    "fits, a claim that waits for its node": {"containers": [SMALL], "volumes": [claim("late")]},
    "preempts, a claim that waits for its node": {"containers": [LARGE], "volumes": [claim("late")]},
    "fits, a claim on a local volume": {"containers": [SMALL], "volumes": [claim("local")]},
    "preempts, a claim of one pod": {"containers": [LARGE], "volumes": [claim("alone")]},
}
"""On nodes with limits, beside two pods each that have a claim of their own."""


def stored(nodes: int) -> Iterator[Obj]:
    """What there is of storage: claims in zones, two on each node, one volume of each node that nobody has."""
    for name, provisioner in (("late", DRIVER), ("local", "kubernetes.io/no-provisioner")):
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        yield {**kind, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    yield from volume_and_claim("bound", "a", "ReadWriteOnce")
    yield from volume_and_claim("alone", "a", "ReadWriteOncePod")
    for name in ("late", "local"):
        spec: Obj = {"storageClassName": name, "accessModes": ["ReadWriteOnce"]}
        spec["resources"] = {"requests": {"storage": "1Gi"}}
        metadata = {"name": name, "namespace": NAMESPACE}
        yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    for number in range(nodes):
        node = f"n{number:05}"
        driver = {"name": DRIVER, "nodeID": node, "allocatable": {"count": 25}}
        metadata = {"name": node}
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode"}
        yield {**kind, "metadata": metadata, "spec": {"drivers": [driver]}}
        local = {"storageClassName": "local", "nodeAffinity": only("kubernetes.io/hostname", node)}
        yield volume(f"local-{number}", **local, accessModes=["ReadWriteOnce"], status="Available")
        for place in range(2):
            name = f"db-{number}-{place}"
            yield from volume_and_claim(name, ZONES[number % len(ZONES)], "ReadWriteOnce")
            running = {"priority": 100, "containers": [container("c", "10m", "16Mi")], "volumes": [claim(name)]}
            metadata = {"name": name, "namespace": NAMESPACE, "uid": name}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**running, "nodeName": node}}
            spec = {"attacher": DRIVER, "nodeName": node, "source": {"persistentVolumeName": name}}
            kind = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment"}
            yield {**kind, "metadata": {"name": name}, "spec": spec}
    running = {"priority": 100, "containers": [container("c", "10m", "16Mi")], "volumes": [claim("alone")]}
    metadata = {"name": "holder", "namespace": NAMESPACE, "uid": "holder"}
    yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**running, "nodeName": "n00000"}}


def only(key: str, value: str) -> Obj:
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def volume(name: str, *, status: str = "Bound", **spec: Any) -> Obj:
    filled_in: Obj = {"capacity": {"storage": "1Gi"}, **spec}
    state = {"phase": status}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": filled_in,
        "status": state,
    }


def volume_and_claim(name: str, zone: str, mode: str) -> Iterator[Obj]:
    """A claim that is bound, and its volume."""
    csi = {"driver": DRIVER, "volumeHandle": name}
    meant = {"namespace": NAMESPACE, "name": name}
    yield volume(name, storageClassName="late", csi=csi, nodeAffinity=only(ZONE, zone), claimRef=meant)
    spec = {"volumeName": name, "storageClassName": "late", "accessModes": [mode]}
    metadata: Obj = {"name": name, "namespace": NAMESPACE}
    metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Bound"},
    }


def pod_of(spec: dict[str, Any], number: int) -> Pod:
    metadata = {"name": f"new-{number}", "namespace": NAMESPACE, "labels": LABELS}
    return Pod.from_api({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"priority": 5000, **spec}})


def outcome(snapshot: Snapshot, pod: Pod) -> None:
    prediction = Prediction(snapshot, pod)
    assert prediction.fits or prediction.nominated_node


def whole(snapshot: Snapshot, pod: Pod) -> None:
    prediction = Prediction(snapshot, pod, reasons=True)
    assert len(prediction.statuses) + len(prediction.feasible) == len(snapshot.rows)
    assert prediction.scores or prediction.candidates
    assert prediction.best_nodes
    assert prediction.fits or sum(prediction.nomination_probabilities.values()) > 0


def as_json(snapshot: Snapshot, pod: Pod) -> None:
    json.dumps(Prediction(snapshot, pod, reasons=True).to_dict())


def scores(snapshot: Snapshot, pod: Pod) -> None:
    with snapshot.derived.locked():
        Cycle(snapshot, pod).scores(np.arange(len(snapshot.rows)))


def milliseconds(ask: Callable[[Snapshot, Pod], None], snapshot: Snapshot, spec: dict[str, Any], count: int) -> str:
    """The median of so many questions."""
    taken = []
    for number in range(count + 1):
        pod = pod_of(spec, number)
        started = time.process_time()
        try:
            ask(snapshot, pod)
        except NotValid:
            return "not in columns"
        taken.append(1000 * (time.process_time() - started))
    return f"{median(taken[1:]):.1f} ms ({taken[0]:.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--questions", type=int, default=5)
    parser.add_argument("--apart", action="store_true", help="all pods prefer to be apart from their like")
    options = parser.parse_args()
    cache = filled(options.nodes, apart=options.apart)
    print(f"{options.nodes} nodes; whole answer, outcome, scores of every node, as JSON")
    measure(cache, ROWS, options.questions)
    for obj in stored(options.nodes):
        cache.add(obj)
    measure(cache, STORAGE_ROWS, options.questions)


def measure(cache: DumpCache, rows: dict[str, dict[str, Any]], questions: int) -> None:
    """Print a line for each."""
    snapshot = Simulation(world_of(cache, [], until=1.0)).cache.snapshot()
    gc.collect()
    gc.freeze()
    for name, spec in rows.items():
        told = (milliseconds(ask, snapshot, spec, questions) for ask in (whole, outcome, scores, as_json))
        print(f"{name}: {', '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
