#!/usr/bin/env python3
"""Compare forewarn's scale-ups, or scans of scale-down, with cluster-autoscaler: campaign.py SEED COUNT [--scale-down].

A case agrees if the answer is one of those of upstream's runs; scans of scale-down, in which upstream chooses again and
again, also if each scan is one of some run in which forewarn chose the nodes removed before. If not, upstream runs ten
times as often, because its answer depends on the order of Go maps. Prints the counts, and the ids of the cases that
differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TOP))
from forewarn.policies.prediction.autoscaling import NotPredicted  # noqa: E402
from tests.oracle.cluster_autoscaler.generate import ScaleDownWorld, World  # noqa: E402
from tests.recorded.cluster_autoscaler import answer_case  # noqa: E402
from tests.recorded.scale_down import answer_scans  # noqa: E402

ORACLE = TOP / ".cache" / "oracle-cluster-autoscaler"


def ups(scale_ups: Any) -> frozenset[tuple[str, int]]:
    return frozenset((up["group"], up["nodes"]) for up in scale_ups)


def outcomes(cases: list[Any], repeat: int, *, scale_down: bool) -> list[Any]:
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    command = ["nice", str(ORACLE), "-repeat", str(repeat), f"-scale-down={str(scale_down).lower()}"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def verdict(answer: Any, outcome: Any) -> str:
    if outcome.get("error"):
        return f"upstream fails: {outcome['error'][:60]}"
    if answer is None:
        return "not predicted"
    if isinstance(answer, list):
        runs = outcome["outcomesAnyOrder"]
        by_scan = all(scan in [run[number] for run in runs] for number, scan in enumerate(answer))
        return "agrees" if answer in runs else "agrees scan by scan" if by_scan else "differs"
    return "agrees" if ups(answer["scaleUps"]) in map(ups, outcome["outcomesAnyOrder"]) else "differs"


def told(answer: Any) -> Any:
    return answer if isinstance(answer, list) else answer["scaleUps"]


def answered(case: Any) -> Any:
    try:
        return answer_scans(case) if "scans" in case else answer_case(case)
    except NotPredicted:
        return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seed")
    parser.add_argument("count", type=int)
    parser.add_argument("--repeat", type=int, default=40)
    parser.add_argument("--scale-down", action="store_true")
    options = parser.parse_args()
    world, run = ScaleDownWorld if options.scale_down else World, partial(outcomes, scale_down=options.scale_down)
    cases = [world(f"{options.seed}-{number:05}").made() for number in range(options.count)]
    answers = [answered(case) for case in cases]
    if options.scale_down:  # so that each scan of upstream follows the scans of forewarn
        cases = [{**case, "follow": answer or []} for case, answer in zip(cases, answers, strict=True)]
    verdicts = [verdict(*pair) for pair in zip(answers, run(cases, options.repeat), strict=True)]
    open_cases = [index for index, found in enumerate(verdicts) if not found.startswith("agrees")]
    again = run([cases[index] for index in open_cases], 10 * options.repeat)
    for index, outcome in zip(open_cases, again, strict=True):
        verdicts[index] = verdict(answers[index], outcome)
        if verdicts[index] == "differs":
            wanted = outcome["outcomesAnyOrder"]
            print(cases[index]["id"], "want", wanted, "got", told(answers[index]))
    print(Counter(verdicts))


if __name__ == "__main__":
    main()
