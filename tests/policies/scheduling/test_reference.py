"""The reference answers as kube-scheduler 1.36.3 did, before anything is held to it."""

from pathlib import Path

import pytest

from tests.cases import cases
from tests.policies.scheduling.comparing import differences, recorded, told
from tests.policies.scheduling.random_clusters import random_case
from tests.policies.scheduling.reference import answer

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("recorded.jsonl.gz", id="recordings"),
        pytest.param("wide.jsonl.gz", id="answers of the scheduler's own framework"),
        pytest.param("disagreements.jsonl", id="cases that were got wrong before"),
    ],
)
def test_the_reference_gives_the_answers_of_the_real_scheduler(name: str) -> None:
    rows = recorded(CASES / name)
    assert rows
    for case, want in rows:
        wrong = differences(case, want, answer(case))
        assert not wrong, f"{case['id']}:\n{told(wrong)}"


def test_random_cases_are_the_same_for_the_same_seed() -> None:
    assert random_case("seed") == random_case("seed")
    assert random_case("seed") != random_case("other")


def test_random_cases_end_in_every_way() -> None:
    """A generator that no longer reaches preemption would make the comparisons with it worthless."""
    ends = {"candidates": 0, "several": 0, "feasible": 0, "scores": 0, "ineligible": 0, "violations": 0, "dropped": 0}
    for seed in range(cases(400)):
        found = answer(random_case(seed))
        candidates = found["candidates"]
        ends["candidates"] += bool(candidates)
        ends["several"] += len(candidates) > 1
        ends["feasible"] += bool(found["feasible"])
        ends["scores"] += "scores" in found
        ends["ineligible"] += not found["eligible"]
        ends["violations"] += any(c["pdbViolations"] for c in candidates.values())
        ends["dropped"] += "dryRunStatuses" in found
    assert ends["candidates"] > cases(160), ends
    assert ends["several"] > cases(110), ends
    assert min(ends["feasible"], ends["scores"], ends["dropped"]) > cases(20), ends
    assert min(ends["ineligible"], ends["violations"]) > cases(5), ends
