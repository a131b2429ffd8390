"""How long the whole answer for one pod takes: why each node cannot run it, the scores of those that can, every
candidate of preemption, and the odds of each. The outcome alone is worked out in columns where these can tell.

python -m tests.benchmarks.bench_answers [--nodes 5000] [--questions 5] [--apart]

Milliseconds of the processor, the median; before them one question of each kind, which does what is kept.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from policies.objects.pod import Pod
from policies.scheduling.large_cycle import Cycle
from policies.scheduling.schedule_one import Prediction
from policies.scheduling.vectorized.problem import NotValid
from policies.simulation.dump import world_of
from policies.simulation.simulation import Simulation
from tests.benchmarks.bench_owners import filled, prefers_others
from tests.benchmarks.clusters import container

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.scheduling.snapshot import Snapshot

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


def pod_of(spec: dict[str, Any], number: int) -> Pod:
    metadata = {"name": f"new-{number}", "namespace": "team-0", "labels": LABELS}
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


def scores(snapshot: Snapshot, pod: Pod) -> None:
    with snapshot.derived.taken():
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
    return f"{median(taken[1:]):.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--questions", type=int, default=5)
    parser.add_argument("--apart", action="store_true", help="all pods prefer to be apart from their like")
    options = parser.parse_args()
    snapshot = Simulation(world_of(filled(options.nodes, apart=options.apart), [], until=1.0)).cache.snapshot()
    print(f"{options.nodes} nodes; outcome, scores of every node, whole answer")
    for name, spec in ROWS.items():
        told = (milliseconds(ask, snapshot, spec, options.questions) for ask in (outcome, scores, whole))
        print(f"{name}: {', '.join(told)}")


if __name__ == "__main__":
    main()
