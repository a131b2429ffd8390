#!/usr/bin/env python3
"""Is what `forewarn headroom` counts without preemption what kube-scheduler comes to, pod after pod?

headroom.py [--seed 1] [--count 1000] [--kinds spread,antiaffinity] [--preempting]

As cluster-capacity does it, one pod after the other is scheduled until none fits any more, here by the oracle's cycles
(.cache/oracle): each is bound to one of the nodes of the best score, drawn at random. With `--preempting`, a pod that
fits nowhere is bound to a node that preemption selects, and its victims are deleted. Where a first such run comes to
another number, more are made: which of tied nodes is taken may decide how many fit, and then any of them will do.
"""

import argparse
import copy
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.questions.whatif.headroom import Headroom, headroom
from tests.oracle.generator.kinds import make_case
from tests.recorded.commands import cache_of_case

ORACLE = Path(__file__).resolve().parents[2] / ".cache" / "oracle"
KINDS = [
    "fit",
    "big",
    "score",
    "score-affinity",
    "antiaffinity",
    "affinity_pod",
    "affinity_pod-first",
    "spread",
    "labelled",
    "taints",
    "affinity_node",
    "names",
    "ports",
    "containers",
    "sidecars",
    "overhead",
    "podlevel",
    "extended",
    "hugepages",
    "ephemeral",
    "terminating",
    "never",
    "images",
]
MAX = 60
"""Clusters in which more fit are made anew with a pod that asks for more."""
AGAIN = 12
TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--chunk", type=int, default=250)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=KINDS, help="of pods, in turn")
    parser.add_argument("--preempting", action="store_true", help="count with preemption")
    parser.add_argument("--oracle", type=Path, default=ORACLE)
    options = parser.parse_args(arguments)
    tally = Counter[str]()
    for first in range(0, options.count, options.chunk):
        asked = [
            clusters(options.seed, n, options.kinds, options.preempting)
            for n in range(first, min(first + options.chunk, options.count))
        ]
        cases = [case for case, _ in asked]
        ours = [found for _, found in asked]
        counts = one_after_another(options.oracle, cases, random.Random(f"{options.seed}/{first}"))
        other = [place for place, found in enumerate(ours) if found != counts[place]]
        seen = {place: {counts[place]} for place in other}
        for again in range(AGAIN if other else 0):
            draw = random.Random(f"{options.seed}/{first}/{again}")
            for place, count in zip(
                other, one_after_another(options.oracle, [cases[p] for p in other], draw), strict=True
            ):
                seen[place].add(count)
        tally["the same"] += len(cases) - len(other)
        for place in other:
            mine = ours[place]
            kind = "one of several" if mine in seen[place] else "otherwise"
            tally[kind] += 1
            if kind == "otherwise":
                print(f"{cases[place]['id']}: forewarn {mine}, kube-scheduler {sorted(seen[place])}", flush=True)
        print(f"{first + len(cases)}: {dict(tally)}", flush=True)
    return 1 if tally["otherwise"] else 0


def clusters(seed: int, number: int, kinds: list[str], preempting: bool = False) -> tuple[dict[str, Any], int]:
    """A random case whose pod never preempts, or may preempt, and what forewarn counts; in few more than MAX fit."""
    for kind in (kinds[number % len(kinds)], "fit", "big"):
        case = make_case(seed, number, kind)
        case["pod"]["spec"]["preemptionPolicy"] = "PreemptLowerPriority" if preempting else "Never"
        case["pod"]["spec"].pop("nodeName", None)
        try:
            told = counted(case)
        except InvalidObject:
            continue
        found = (told.preempting if preempting else told.without).pods
        if found <= MAX:
            return case, found
    return case, found


def counted(case: dict[str, Any]) -> Headroom:
    """What forewarn says. Raises InvalidObject."""
    cache = cache_of_case(case, count_nominated=True)
    return headroom(cache.snapshot(), {"apiVersion": "v1", "kind": "Pod", **case["pod"]})


def one_after_another(oracle: Path, cases: list[dict[str, Any]], draw: random.Random) -> list[int]:
    """How many pods find a node, in each case, until one finds none."""
    filled, counts = [copy.deepcopy(case) for case in cases], [0] * len(cases)
    open_ = list(range(len(cases)))
    while open_:
        answers = ask(oracle, [filled[place] for place in open_])
        left = []
        for place, answer in zip(open_, answers, strict=True):
            nodes = answer.get("selected") or answer.get("feasible")
            if not nodes:
                continue
            pod = copy.deepcopy(cases[place]["pod"])
            counts[place] += 1
            pod["metadata"] |= {"name": f"{pod['metadata']['name']}-{counts[place]}", "uid": f"more-{counts[place]}"}
            pod["spec"]["nodeName"] = draw.choice(sorted(nodes))
            if not answer.get("feasible"):
                victims = answer["candidates"][pod["spec"]["nodeName"]]["victims"]
                filled[place]["pods"] = [each for each in filled[place]["pods"] if key_of(each) not in victims]
            bound_to = next(
                n["metadata"] for n in cases[place]["nodes"] if n["metadata"]["name"] == pod["spec"]["nodeName"]
            )
            pod["metadata"]["labels"] = pod["metadata"].get("labels", {}) | topology_of(bound_to)
            filled[place]["pods"].append(pod)
            left.append(place)
        open_ = left
    return counts


def key_of(pod: dict[str, Any]) -> str:
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def topology_of(node: dict[str, Any]) -> dict[str, str]:
    """What the API server's plugin PodTopologyLabels copies to a pod that is bound, on by default since 1.35."""
    return {key: value for key, value in node.get("labels", {}).items() if key in TOPOLOGY}


def ask(oracle: Path, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The oracle's answers."""
    text = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([oracle, "preemption", "-"], input=text, capture_output=True, text=True, check=False)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(cases):
        sys.exit(f"the oracle: {done.stderr[-2000:]}")
    return answers


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
