#!/usr/bin/env python3
"""Compare forewarn with the oracles on whole clusters: one scheduling cycle each for new Pods of their workloads.

clusters.py [--minors 1.34,1.36] [--count 50] [--seed 1] FILE…

Each file is a List of objects. A new Pod is a copy of one of the cluster's Pods, at random with more requests or
another priority, and at random after half of the Pods of a node have gone. Prints the counts, and each disagreement.
Ends with 1 if there is any.
"""

import argparse
import copy
import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from forewarn.policies.kubernetes.quantity import parse_quantity
from forewarn.policies.kubernetes.releases.minors import KNOWN_MINORS
from forewarn.policies.kubernetes.releases.release import Release, known_minor
from tests.oracle.campaign import AGAIN, TOP, ask, oracle
from tests.oracle.compare import disagreements
from tests.recorded.commands import CASE_KINDS, cache_of_case

LISTS = {kind: key for key, (_, kind) in CASE_KINDS.items()}
NOT_READ = "limitRanges", "resourceClaimTemplates", "deviceTaintRules"
"""Lists that the oracle does not read."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--minors", default=",".join(f"1.{minor}" for minor in KNOWN_MINORS))
    parser.add_argument("--count", type=int, default=50, help="Pods of each cluster (default 50)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    lacking: set[str] = set()
    found = {minor: oracle(TOP / ".cache", minor, lacking) for minor in options.minors.split(",")}
    tally = Counter[tuple[str, str]]()
    for path in options.files:
        cases = list(cases_of(read(path), path.name, random.Random(f"{options.seed} {path.name}"), options.count))
        for minor, program in found.items():
            for what in () if program is None else compared(minor, program, cases):
                tally[minor, what] += 1
    for (minor, what), count in sorted(tally.items()):
        print(f"{minor}: {count} {what}")
    return 1 if any(what == "do not agree" for _, what in tally) or not tally else 0


def read(path: Path) -> list[Any]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        items: list[Any] = json.load(file)["items"]
    return items


def cases_of(items: list[Any], name: str, rng: random.Random, count: int) -> Iterator[Any]:
    """Cases with the objects of a cluster, and a new Pod each."""
    lists: dict[str, list[Any]] = {key: [] for key in CASE_KINDS if key not in NOT_READ}
    for item in items:
        if LISTS.get(item["kind"]) in lists:
            lists[LISTS[item["kind"]]].append(item)
    priorities = {each["value"] for each in items if each["kind"] == "PriorityClass"}
    bound = [pod for pod in lists["pods"] if pod["spec"].get("nodeName")]
    for number in range(count):
        pod = new_pod(rng.choice(bound), rng, sorted(priorities))
        kept = lists["pods"]
        if rng.random() < 0.3:
            node = rng.choice(bound)["spec"]["nodeName"]
            kept = [each for each in kept if each["spec"].get("nodeName") != node or rng.random() < 0.5]
        yield {"id": f"{name}-{number:05}", **lists, "pods": kept, "pod": pod}


def new_pod(like: Any, rng: random.Random, priorities: list[int]) -> Any:
    """A copy of a Pod without node and status, with a random change."""
    pod = copy.deepcopy(like)
    pod.pop("status", None)
    pod["spec"].pop("nodeName")
    kept = {key: value for key, value in pod["metadata"].items() if key in ("namespace", "labels", "ownerReferences")}
    pod["metadata"] = {**kept, "name": "new", "uid": "new"}
    if rng.random() < 0.8:
        times = rng.choice((2, 4, 8, 16, 30, 60))
        requests = [container.get("resources", {}).get("requests", {}) for container in pod["spec"]["containers"]]
        for request in requests:
            for resource in set(request) & {"cpu", "memory"}:
                request[resource] = f"{parse_quantity(request[resource]).milli_value * times}m"
        for container in pod["spec"]["containers"]:
            container.get("resources", {}).pop("limits", None)
    if rng.random() < 0.5 and priorities:
        pod["spec"]["priority"] = rng.choice(priorities)
        pod["spec"].pop("priorityClassName", None)
    return pod


def compared(minor: str, program: Path, cases: list[Any]) -> Iterator[str]:
    """The outcome of each comparison."""
    semantics = Release(known_minor(minor), {}, None).semantics()
    for case, want in zip(cases, ask(program, cases), strict=True):
        wrong = next(disagreements(case, want, semantics, cache_of_case(case, count_nominated=True)), None)
        if wrong is None:
            yield f"agree: {outcome(want)}"
        elif any(next(disagreements(case, again, semantics), None) is None for again in ask(program, [case] * AGAIN)):
            yield "agree with one of several answers"
        else:
            part, expects, has = wrong
            print(f"{minor} {case['id']}: {part}\n   want {json.dumps(expects)[:800]}\n   got  {json.dumps(has)[:800]}")
            yield "do not agree"


def outcome(want: Any) -> str:
    if "error" in want:
        return "error"
    return "fit" if want["feasible"] else "preempt" if want["selected"] else "stay Pending"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
