#!/usr/bin/env python3
"""Compare forewarn's scale-ups with cluster-autoscaler's own loop: campaign.py SEED COUNT [--repeat 40].

A case agrees if the answer is one of those of upstream's runs. If not, upstream runs ten times as often, because its
answer depends on the order of Go maps. Prints the counts, and the ids of the cases that differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TOP))
from forewarn.policies.autoscaling.autoscaler import NotPredicted  # noqa: E402
from tests.oracle.cluster_autoscaler.generate import World  # noqa: E402
from tests.recorded.cluster_autoscaler import answer_case  # noqa: E402

ORACLE = TOP / ".cache" / "oracle-cluster-autoscaler"


def ups(scale_ups: Any) -> frozenset[tuple[str, int]]:
    return frozenset((up["group"], up["nodes"]) for up in scale_ups)


def outcomes(cases: list[Any], repeat: int) -> list[Any]:
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    command = ["nice", str(ORACLE), "-repeat", str(repeat)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def verdict(answer: Any, outcome: Any) -> str:
    if outcome.get("error"):
        return f"upstream fails: {outcome['error'][:60]}"
    if answer is None:
        return "not predicted"
    return "agrees" if ups(answer["scaleUps"]) in map(ups, outcome["outcomesAnyOrder"]) else "differs"


def answered(case: Any) -> Any:
    try:
        return answer_case(case)
    except NotPredicted:
        return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seed")
    parser.add_argument("count", type=int)
    parser.add_argument("--repeat", type=int, default=40)
    options = parser.parse_args()
    cases = [World(f"{options.seed}-{number:05}").made() for number in range(options.count)]
    answers = [answered(case) for case in cases]
    verdicts = [verdict(*pair) for pair in zip(answers, outcomes(cases, options.repeat), strict=True)]
    open_cases = [index for index, told in enumerate(verdicts) if told == "differs"]
    again = outcomes([cases[index] for index in open_cases], 10 * options.repeat)
    for index, outcome in zip(open_cases, again, strict=True):
        verdicts[index] = verdict(answers[index], outcome)
        if verdicts[index] == "differs":
            wanted = [sorted(ups(each)) for each in outcome["outcomesAnyOrder"]]
            print(cases[index]["id"], "want", wanted, "got", sorted(ups(answers[index]["scaleUps"])))
    print(Counter(verdicts))


if __name__ == "__main__":
    main()
