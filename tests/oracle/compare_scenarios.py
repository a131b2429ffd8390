#!/usr/bin/env python3
"""Compare what forewarn simulates with what `oracle scenarios` says: compare_scenarios.py SCENARIOS EXPECTED

Files are JSON lines, gzipped or not. A scenario agrees when the run of fixed latencies comes to an end that the oracle
found, by the same events of each pod in the same order. Prints the first disagreements and how many there are by kind.

Where ties and races decide, two runs of either need not agree. `--again ORACLE` asks that program about each scenario
on which they disagree for eight runs, seven of them diced for, and forewarn for as many: `one of several` is said where
some run of one is a run of the other.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.oracle.compare import opened
from tests.policies.simulation.comparing import by_pod, final, judge, order
from tests.recorded.commands import answer_scenario as answer_case

Outcome = dict[str, Any]
AGAIN = 8
"""Runs of a scenario on which they disagree."""
SEVERAL = "one of several"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios")
    parser.add_argument("expected")
    parser.add_argument("--show", type=int, default=5, help="disagreements to print (default 5)")
    parser.add_argument("--again", metavar="ORACLE", help="the program to ask about disagreements")
    parser.add_argument("--runs", type=int, default=1, help="runs of forewarn: one that agrees will do")
    options = parser.parse_args(arguments)
    tally, shown = Counter[tuple[str, str]](), 0
    with opened(options.scenarios) as scenarios, opened(options.expected) as expected:
        for scenario_line, answer_line in zip(scenarios, expected, strict=True):
            scenario, want = json.loads(scenario_line), json.loads(answer_line)
            kind = str(scenario.get("category", "-"))
            if "error" in want:
                tally[kind, "unanswered"] += 1
                continue
            verdict, outcomes = verdict_on(scenario, want, options.runs)
            if verdict and options.again:
                several, _ = verdict_on(scenario, ask(options.again, scenario), AGAIN)
                verdict = verdict if several else SEVERAL
            tally[kind, verdict or "agree"] += 1
            if verdict not in ("", SEVERAL) and shown < options.show:
                shown += 1
                print(f"{scenario['id']}: {verdict}")
                for line in differences(want["outcomes"][0], outcomes[0], verdict):
                    print(f"   {line}")
    counts = Counter[str]()
    for (kind, verdict), count in sorted(tally.items()):
        counts[verdict] += count
        if verdict != "agree":
            print(f"{kind}: {count} {verdict}")
    print(f"{counts['agree']} agree, {counts[SEVERAL]} in one of several runs", end=", ")
    print(f"{counts['order']} in the end alone, {counts['final']} do not", end=", ")
    print(f"{counts['unanswered']} not answered by the oracle")
    return 1 if counts["order"] or counts["final"] else 0


def verdict_on(scenario: dict[str, Any], want: dict[str, Any], runs: int) -> tuple[str, list[Outcome]]:
    """(what differs: `final`, `order` or nothing; forewarn's outcomes)."""
    want["outcomes"] = [with_plain_names(each) for each in want["outcomes"]]
    outcomes = [with_plain_names(each) for each in answer_case(scenario, runs=runs)["outcomes"]]
    verdicts = [judge(want, each)[0] for each in outcomes]
    return "" if "" in verdicts else verdicts[0], outcomes


def ask(program: str, scenario: dict[str, Any]) -> dict[str, Any]:
    """The oracle's answer for several runs."""
    command, text = [program, "scenarios", "--runs", str(AGAIN)], json.dumps(scenario)
    environment = {**os.environ, "GOMAXPROCS": "1"}
    told = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=True)
    answer: dict[str, Any] = json.loads(told.stdout)
    return answer


_HASHED = re.compile(r"^(.*)-([bcdfghjklmnpqrstvwxz2456789]{5,10})(-\d+)$")


def with_plain_names(outcome: Outcome) -> Outcome:
    """A Deployment's new ReplicaSets are numbered: the letters of a hash are not the same here and there."""
    known: dict[str, list[str]] = {}

    def plain(pod: str) -> str:
        found = _HASHED.match(pod)
        if not found:
            return pod
        hashes = known.setdefault(found[1], [])
        if found[2] not in hashes:
            hashes.append(found[2])
        return f"{found[1]}-new{hashes.index(found[2])}{found[3]}"

    timeline = [
        {**event, **{key: plain(event[key]) for key in ("pod", "by") if key in event}}
        for event in outcome["timeline"] or ()
    ]
    return {**outcome, "timeline": timeline, "final": {plain(pod): end for pod, end in outcome["final"].items()}}


def differences(want: Outcome, got: Outcome, verdict: str) -> list[str]:
    """The first pods that differ from the oracle's run of fixed latencies."""
    one, other = (final(want), final(got)) if verdict == "final" else (order(by_pod(want)), order(by_pod(got)))
    pods = [pod for pod in sorted({*one, *other}) if one.get(pod) != other.get(pod)]
    return [f"{pod}: {other.get(pod)} instead of {one.get(pod)}"[:600] for pod in pods[:4]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
