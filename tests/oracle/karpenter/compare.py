"""Compare forewarn's answers on random cases with those of Karpenter's own provisioner (.cache/karpenter-oracle).

A case agrees if one of forewarn's outcomes is one of Karpenter's. If Karpenter had another outcome in almost every run,
forewarn must agree in what all these outcomes share: errors, Pods on existing nodes, the number of NodeClaims.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from forewarn.policies.prediction.autoscaling import NotPredicted
from tests.oracle.karpenter.generate import Case
from tests.recorded.karpenter import answer_case

ORACLE = Path(__file__).parents[3] / ".cache" / "karpenter-oracle"


def decision(answer: Any) -> dict[str, Any]:
    claims = sorted((claim["nodepool"], tuple(claim["pods"])) for claim in answer["newNodeClaims"])
    existing = sorted((entry["node"], tuple(entry["pods"])) for entry in answer["existing"])
    return {
        "claims": claims,
        "count": len(claims),
        "existing": existing,
        "errors": sorted(answer["podErrors"]),
        "ignored": sorted(answer["ignored"]),
        "error": bool(answer.get("error")),
    }


def details(answer: Any) -> list[Any]:
    """What else must agree if there is a single outcome."""
    keys = ("instanceTypes", "instanceTypeCount", "zones", "capacityTypes", "requests", "createError")
    return [[claim.get(key) for key in keys] for claim in sorted(answer["newNodeClaims"], key=lambda c: c["pods"])]


def verdict(want: Any, got: Any) -> str:
    wanted = [decision(outcome) for outcome in want.get("outcomes") or [want]]
    given = [decision(outcome) for outcome in got.get("outcomes") or [got]]
    if any(outcome in wanted for outcome in given):
        single = want["distinct"] == 1 == got["distinct"]
        return "details differ" if single and details(want) != details(got) else "agrees"
    shared = {key for key, value in wanted[0].items() if all(outcome[key] == value for outcome in wanted)}
    rare = 2 * want["distinct"] > want["runs"]
    if rare and any(all(outcome[key] == wanted[0][key] for key in shared) for outcome in given):
        return "agrees in what all outcomes share"
    return "differs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=8, help="runs of each case (default 8)")
    parser.add_argument("--cases", type=Path, help="cases as JSON lines (default: random ones)")
    parser.add_argument("--answers", type=Path, help="Karpenter's answers, if they are known already")
    options = parser.parse_args()
    if options.cases:
        cases = [json.loads(line) for line in options.cases.read_text().splitlines()]
    else:
        cases = [Case(f"{options.seed}-{n}").build(f"{options.seed}-{n:04}") for n in range(options.count)]
    if options.answers:
        answers = options.answers.read_text()
    else:
        given = "".join(json.dumps(case) + "\n" for case in cases)
        command = [str(ORACLE), "-repeat", str(options.repeat)]
        answers = subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout
    counts: Counter[str] = Counter()
    for case, line in zip(cases, answers.splitlines(), strict=False):
        want = json.loads(line)
        try:
            result = verdict(want, answer_case(case))
        except NotPredicted as reason:
            result = f"not predicted ({reason})"
        counts[result] += 1
        if not result.startswith(("agrees", "not predicted")):
            print(f"{case['id']}: {result}")
    print(", ".join(f"{result}: {count}" for result, count in counts.most_common()))
    return int(any(not result.startswith(("agrees", "not predicted")) for result in counts))


if __name__ == "__main__":
    sys.exit(main())
