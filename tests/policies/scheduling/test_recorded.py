"""Answers of the real kube-scheduler 1.36.3: a sample of recordings, and of wider random cases, all parts of them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.releases.minors import KNOWN_MINORS
from forewarn.policies.releases.release import known_minor
from forewarn.policies.releases.semantics import Semantics
from forewarn.policies.scheduling.schedule_one import NO_PREEMPTION
from tests.builders import make_node, make_pod
from tests.policies.scheduling.comparing import scores_given
from tests.recorded.commands import answer_case

CASES = Path(__file__).parent / "cases"


def rows_of(name: str) -> list[str]:
    """Cases with their answers, as JSON text: as parameters, parsed ones would need 20 times the memory."""
    return gzip.decompress((CASES / name).read_bytes()).decode().splitlines()


def recorded(name: str) -> list[Any]:
    return [pytest.param(row, id=json.loads(row)["case"]["id"]) for row in rows_of(name)]


def entry_of(row: str) -> tuple[Any, Any]:
    """Case and answer."""
    entry = json.loads(row)
    return entry["case"], entry["answer"]


def statuses(answer: Any, key: str) -> dict[str, Any]:
    found = answer.get(key) or {}
    return {node: (s["code"], s.get("plugin", ""), sorted(s["reasons"])) for node, s in found.items()}


def victims(case: Any, answer: Any) -> dict[str, Any]:
    """Pods that tie in priority and start time are interchangeable: their order cannot be seen."""
    pods = {f"{p['metadata']['namespace']}/{p['metadata']['name']}": p for p in case["pods"]}
    ranks = {name: (p["spec"].get("priority"), p["status"].get("startTime")) for name, p in pods.items()}
    tied = case["id"].startswith("ties")
    return {
        node: ([ranks[v] for v in c["victims"]] if tied else c["victims"], c["pdbViolations"])
        for node, c in answer["candidates"].items()
    }


def compare(case: Any, want: Any, got: Any) -> None:
    assert sorted(got["feasible"]) == sorted(want["feasible"]), "a set, as upstream has it"
    assert statuses(got, "statuses") == statuses(want, "statuses")
    assert got.get("preFilter") == want.get("preFilter")
    assert {n: s["total"] for n, s in got.get("scores", {}).items()} == {
        n: s["total"] for n, s in (want.get("scores") or {}).items()
    }
    assert victims(case, got) == victims(case, want)
    assert statuses(got, "dryRunStatuses") == statuses(want, "dryRunStatuses")
    assert got["selected"] == (want["selected"] or [])
    if not want["feasible"]:
        assert got["eligible"] == want["eligible"]
        assert got.get("ineligibleReason") == want.get("ineligibleReason")


@pytest.mark.parametrize("row", recorded("recorded.jsonl.gz"))
def test_recorded_answers_are_met(row: str) -> None:
    case, answer = entry_of(row)
    compare(case, answer, answer_case(case, count_nominated=True))


@pytest.mark.parametrize("row", recorded("profiles.jsonl.gz"))
def test_answers_under_other_configurations_are_met(row: str) -> None:
    """Each case brings a KubeSchedulerConfiguration; what kube-scheduler does not start with is refused."""
    case, answer = entry_of(row)
    compare_all(case, answer, answer_case(case, count_nominated=True))


def compare_all(case: Any, answer: Any, got: Any) -> None:
    """As `compare`, every plugin's score but 0, and what belongs to a configuration."""
    if answer.get("configError"):
        assert got["configError"]
        return
    preempts = answer.get("ineligibleReason") != "DefaultPreemption is off"
    compare(case, {**answer, "ineligibleReason": answer.get("ineligibleReason") if preempts else NO_PREEMPTION}, got)
    assert got.get("numCandidates") == answer.get("numCandidates")
    assert scores_given(dict(got)) == scores_given(answer), "every plugin's score"


@pytest.mark.parametrize("row", recorded("wide.jsonl.gz"))
def test_answers_to_wider_random_cases_are_met(row: str) -> None:
    case, answer = entry_of(row)
    got = answer_case(case, count_nominated=True)
    compare(case, answer, got)
    assert scores_given(dict(got)) == scores_given(answer), "every plugin's score"


def of_releases() -> list[Any]:
    return [
        pytest.param(row, release, id=f"{entry['case']['id']}-{release}")
        for row, entry in ((row, json.loads(row)) for row in rows_of("releases.jsonl.gz"))
        for release in entry["answers"]
    ]


@pytest.mark.parametrize(("row", "release"), of_releases())
def test_the_answers_of_every_release_are_met(row: str, release: str) -> None:
    entry, semantics = json.loads(row), Semantics(known_minor(release))
    case, answer = entry["case"], entry["answers"][release]
    compare(case, answer, answer_case(case, count_nominated=True, semantics=semantics))


def test_since_1_37_an_infeasible_resize_that_no_container_tells_of_counts_as_nothing() -> None:
    """Upstream's sums leave the spec out where it cannot be had, and have nothing else to add up."""
    pods = [make_pod("p").request(cpu="3").on("n").obj]
    pods[0]["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    case = {"nodes": [make_node("n").obj], "pods": pods, "pod": make_pod("new").request(cpu="2").obj}
    fits = {m: answer_case(case, count_nominated=True, semantics=Semantics(m))["feasible"] for m in KNOWN_MINORS}
    assert fits == {34: [], 35: [], 36: [], 37: ["n"]}


def of_each_release() -> list[Any]:
    """Cases with configurations and devices; releases that say the same share an answer."""
    return [
        pytest.param(row, release, number, id=f"{entry['case']['id']}-{release}")
        for row, entry in ((row, json.loads(row)) for row in rows_of("each-release.jsonl.gz"))
        for number, found in enumerate(entry["answers"])
        for release in found["releases"]
    ]


@pytest.mark.parametrize(("row", "release", "number"), of_each_release())
def test_each_release_is_met_with_configurations_and_devices(row: str, release: str, number: int) -> None:
    entry = json.loads(row)
    case, answer = entry["case"], entry["answers"][number]["answer"]
    got = answer_case(case, count_nominated=True, semantics=Semantics(known_minor(release)))
    compare_all(case, answer, got)
