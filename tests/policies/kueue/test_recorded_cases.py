"""Answers of Kueue v0.19.0's scheduler: the first cycle, and the end, of clusters with random queues and Workloads."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli.main import main
from tests.recorded.kueue import answer_case

CASES = Path(__file__).parent / "cases"


@cache
def cases() -> list[dict[str, Any]]:
    lines = (gzip.decompress(path.read_bytes()).decode().splitlines() for path in sorted(CASES.glob("*.jsonl.gz")))
    return [json.loads(line) for several in lines for line in several]


@cache
def answers() -> dict[str, Mapping[str, Any]]:
    """Id of a case -> its answer."""
    return {case["id"]: answer_case(case) for case in cases()}


def pod_sets(entry: dict[str, Any]) -> list[Any]:
    return sorted((each["name"], each["count"], sorted(each["flavors"].items())) for each in entry["podSets"])


def comparable(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> object:
    """What is compared of an answer: not the flavors of heads that stay inadmissible, and not the quota if preemption
    goes round in circles. Reasons that are not recorded count as equal.
    """
    reasons = {
        (head["workload"], target["workload"]): bool(target["reason"])
        for head in expected["first"]
        for target in head["preempted"]
    }
    heads = {}
    for head in answer["first"]:
        heads[head["workload"]] = compared = [head["outcome"]]
        if head["outcome"] != "inadmissible":
            targets = {
                target["workload"]: reasons.get((head["workload"], target["workload"]), True) and target["reason"]
                for target in head["preempted"]
            }
            compared += [pod_sets(head), head["borrowing"], targets]
    final = answer["final"]
    admitted = {key: (each["clusterQueue"], pod_sets(each)) for key, each in final["admitted"].items()}
    return heads, final["quiet"], sorted(final["evicted"]), admitted if expected["final"]["quiet"] else None


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_answers_are_those_of_kueue(case: dict[str, Any]) -> None:
    answer = answers()[case["id"]]
    outcomes = [case["expected"], *case["expected"].get("outcomes", [])]
    assert comparable(answer, case["expected"]) in [comparable(outcome, case["expected"]) for outcome in outcomes]


@pytest.mark.parametrize("case", cases()[::5], ids=lambda case: case["id"])
def test_the_order_of_objects_changes_nothing(case: dict[str, Any]) -> None:
    objects = list(case["objects"])
    random.Random(case["id"]).shuffle(objects)
    assert answer_case({**case, "objects": objects}) == answers()[case["id"]]


def is_by_chance(case: dict[str, Any]) -> bool:
    """Whether the order of equal ClusterQueues changes the answer."""
    answer, other = answers()[case["id"]], answer_case(case, is_reversed=True)
    return comparable(answer, answer) != comparable(other, other)


@pytest.mark.parametrize("kind", ["ResourceFlavor", "ClusterQueue", "Cohort", "Workload"])
@pytest.mark.parametrize("case", cases()[::5], ids=lambda case: case["id"])
def test_names_change_nothing_else(case: dict[str, Any], kind: str) -> None:
    """The new names have the opposite order."""
    names = sorted(each["metadata"]["name"] for each in case["objects"] if each["kind"] == kind)
    text, answer = json.dumps(case["objects"]), json.dumps(answers()[case["id"]])
    for number, name in enumerate(reversed(names)):
        new = f"{number:02}-{name}"
        text, answer = (part.replace(f'"{name}"', f'"{new}"') for part in (text, answer))
        answer = answer.replace(f'/{name}"', f'/{new}"')
    renamed = {**case, "objects": json.loads(text)}
    found, expected = answer_case(renamed), json.loads(answer)
    assert comparable(found, found) == comparable(expected, expected) or is_by_chance(case)


def test_chance_decides_only_where_kueue_has_several_outcomes() -> None:
    by_chance = {case["id"] for case in cases() if is_by_chance(case)}
    assert by_chance <= {case["id"] for case in cases() if "outcomes" in case["expected"]}


def test_an_answer_for_each_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.dumps(each) for each in cases()[:2]]
    (tmp_path / "cases").write_text("\n".join([*lines, '{"id": "a"}']))
    assert main(["kueue", "--batch", str(tmp_path / "cases")]) == 1
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["id"] for answer in answers] == [*(each["id"] for each in cases()[:2]), "a"]
    assert "error" in answers[2]
