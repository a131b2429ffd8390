"""Reviews of Deployments that differ, by the webhooks of two checkouts in turns: milliseconds of CPU of each, of all
Deployments and of those that preempt.

`python -m tests.benchmarks.bench_reviews OTHER CLUSTER [--count 300]`: OTHER is a directory with the other sources.
CLUSTER is a cluster snapshot with PriorityClasses above 0.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, Final

OURS: Final = Path(__file__).resolve().parents[2]
TOPOLOGY_KEYS: Final = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")


def deployment(number: int, namespaces: list[str], classes: list[str]) -> dict[str, Any]:
    """A Deployment unlike the others, almost half of them with constraints."""
    dice, labels = Random(number), {"app": f"new-{number}"}
    requests = {"cpu": f"{dice.choice((1, 2, 4, 8, 12, 16, 24)) * 250}m", "memory": f"{dice.choice((1, 2, 8, 16))}Gi"}
    containers = [{"name": "app", "image": "registry.example/app:1", "resources": {"requests": requests}}]
    spec: dict[str, Any] = {"priorityClassName": dice.choice(classes), "containers": containers}
    term = {"topologyKey": dice.choice(TOPOLOGY_KEYS), "labelSelector": {"matchLabels": labels}}
    if dice.random() < 0.3:
        when = dice.choice(("DoNotSchedule", "ScheduleAnyway"))
        spec["topologySpreadConstraints"] = [{**term, "maxSkew": 1, "whenUnsatisfiable": when}]
    elif dice.random() < 0.2:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    template = {"metadata": {"labels": labels}, "spec": spec}
    replicas = dice.choice((1, 2, 3, 3, 4, 6, 8))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"new-{number}", "namespace": dice.choice(namespaces)},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def review(obj: dict[str, Any]) -> bytes:
    """The AdmissionReview of a new Deployment."""
    kind = {"group": "apps", "version": "v1"}
    request = {
        "uid": "u",
        "kind": {**kind, "kind": "Deployment"},
        "resource": {**kind, "resource": "deployments"},
        "operation": "CREATE",
        "name": obj["metadata"]["name"],
        "namespace": obj["metadata"]["namespace"],
        "userInfo": {"username": "user"},
        "object": obj,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def answer(root: Path, path: str) -> None:
    """Load the cluster by the sources below a directory; each line on standard input is the number of a review."""
    sys.path[:0] = [str(root), str(root / "src")]
    command: Any = import_module("forewarn.webhook.commands.review")
    is_ours = find_spec("forewarn.policies.inputs") is not None
    load_cluster = import_module(f"forewarn.policies.{'inputs.' * is_ours}sources.cluster").load_cluster
    assert Path(command.__file__).resolve().is_relative_to(root), command.__file__
    cluster = load_cluster(path).snapshot()
    cluster.prepare()
    namespaces = sorted({namespace for namespace, _ in cluster.pods})
    classes = sorted(one.name for one in cluster.priority_classes.values() if 0 < one.value < 10**9)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)  # as `webhook serve` in a cluster
    for line in sys.stdin:
        body = review(deployment(int(line), namespaces, classes))
        begun = time.process_time()
        decided = command.answers(body, command.Hook.VALIDATE, cluster, command.Config())
        taken = 1000 * (time.process_time() - begun)
        print(json.dumps([taken, "preempt" in " ".join(decided[-1].response.warnings)]), flush=True)


def main() -> None:
    """Compare, without the first tenth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("cluster")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.answer:
        answer(options.other, options.cluster)
        return
    roots = OURS, options.other.resolve()
    pipes: dict[str, Any] = {"text": True, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    commands = [[sys.executable, __file__, "--answer", root, options.cluster] for root in roots]
    children = [subprocess.Popen(command, cwd=root, **pipes) for command, root in zip(commands, roots, strict=True)]
    pairs: list[list[tuple[float, bool]]] = []
    for number in range(options.count):
        pair: list[Any] = [None, None]
        for place in (0, 1) if number % 2 else (1, 0):
            print(number, file=children[place].stdin, flush=True)
            pair[place] = json.loads(children[place].stdout.readline())  # type: ignore[union-attr]
        pairs.append(pair)
    for child in children:
        child.communicate()
    for name, is_counted in (("all", lambda _: True), ("that preempt", lambda pair: pair[0][1])):
        counted = [pair for pair in pairs[options.count // 10 :] if is_counted(pair)]
        ours, other = (sum(pair[place][0] for pair in counted) / max(len(counted), 1) for place in (0, 1))
        print(
            f"{len(counted)} Deployments {name}: {ours:.1f} ms of CPU; other {other:.1f} ms; {ours / other:.2f} times"
        )


if __name__ == "__main__":
    main()
