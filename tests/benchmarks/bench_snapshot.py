"""How long predictions take in the cluster of a snapshot file: one new Pod for each of its workloads.

`python -m tests.benchmarks.bench_snapshot FILE [--pods N]` prints milliseconds of CPU time until the node, or the
nominated node and the victims, are known. `as they are`: copies of the Pods with a high priority. `large`: the same
with requests that most nodes have only after preemption. The first Pod of each is not counted: it builds the tables.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from forewarn import policies
from forewarn.policies.inputs.sources.cluster import load_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT: Final = ("namespace", "labels", "annotations", "ownerReferences")
PRIORITY: Final = 2_000_000
LARGE: Final = {"requests": {"cpu": "7", "memory": "20Gi"}}


def pods_of(path: str) -> list[dict[str, Any]]:
    """One Pod of each controller, in random order, the same each time."""
    found: dict[Any, dict[str, Any]] = {}
    for obj in json.loads(Path(path).read_text())["items"]:
        if obj["kind"] == "Pod":
            metadata = obj["metadata"]
            owner = (metadata.get("ownerReferences") or [{"name": metadata["name"]}])[0]["name"]
            found.setdefault((metadata["namespace"], owner), obj)
    pods = list(found.values())
    random.Random(1).shuffle(pods)
    return pods


def new(pods: list[dict[str, Any]], *, large: bool) -> Iterator[dict[str, Any]]:
    """Copies of the Pods that are not scheduled yet."""
    for number, pod in enumerate(pods):
        metadata = {key: pod["metadata"][key] for key in KEPT if key in pod["metadata"]} | {"name": f"new-{number}"}
        spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "priorityClassName")}
        first, *others = spec["containers"]
        containers = [{**first, "resources": LARGE} if large else first, *others]
        yield {
            **pod,
            "metadata": metadata,
            "spec": {**spec, "containers": containers, "priority": PRIORITY},
            "status": {},
        }


def main() -> None:
    """Print a line for each kind of Pod."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="a cluster snapshot, a List as JSON")
    parser.add_argument("--pods", type=int, default=400)
    options = parser.parse_args()
    pods = pods_of(options.file)[: options.pods + 1]
    snapshot = load_cluster(options.file).snapshot()
    snapshot.prepare()
    for name, large in (("as they are", False), ("large", True)):
        taken, outcomes = [], Counter[str]()
        for pod in new(pods, large=large):
            begun = time.process_time()
            prediction = policies.predict(snapshot, pod)
            outcomes[prediction.outcome] += 1
            prediction.node  # noqa: B018  (computed when it is first asked for)
            taken.append(1000 * (time.process_time() - begun))
        first, *rest = taken
        rest.sort()
        p50, p99 = (rest[int(part * len(rest))] for part in (0.5, 0.99))
        print(f"{name:12} p50 {p50:.2f}  p99 {p99:.2f}  max {rest[-1]:.2f}  first {first:.0f}  {dict(outcomes)}")


if __name__ == "__main__":
    main()
