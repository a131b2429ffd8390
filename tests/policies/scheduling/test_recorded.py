"""Answers of the real kube-scheduler 1.36.3: a sample of recordings, and of wider random cases, all parts of them."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.releases.minors import KNOWN_MINORS
from forewarn.policies.kubernetes.releases.release import known_minor
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from forewarn.policies.kubernetes.scheduling.configuration import InvalidConfiguration
from forewarn.policies.kubernetes.scheduling.schedule_one import NO_PREEMPTION
from tests.builders import make_node, make_pod
from tests.policies.scheduling.comparing import scores_given
from tests.recorded.commands import answer_case, cache_of_case, prediction_of_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forewarn.policies.kubernetes.cluster.cache import Cache

CASES = Path(__file__).parent / "cases"


def rows_of(name: str) -> Iterator[Any]:
    """Cases with their answers."""
    return map(json.loads, gzip.decompress((CASES / name).read_bytes()).splitlines())


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


def compare_scores(case: Any, want: Any, got: Any) -> None:
    """As `compare`, and every plugin's score but 0."""
    compare(case, want, got)
    assert scores_given(dict(got)) == scores_given(want), "every plugin's score"


def compare_all(case: Any, want: Any, got: Any) -> None:
    """As `compare_scores`, and what belongs to a configuration."""
    off = want.get("ineligibleReason") == "DefaultPreemption is off"
    compare_scores(case, {**want, "ineligibleReason": NO_PREEMPTION} if off else want, got)
    assert got.get("numCandidates") == want.get("numCandidates")


def is_met_in_columns(
    case: Any,
    answer: Any,
    comparing: Callable[[Any, Any, Any], None],
    semantics: Semantics = DEFAULT,
    cache: Cache | None = None,
) -> bool:
    """Compare an answer; return whether columns gave it. What kube-scheduler does not start with is rejected."""
    try:
        prediction = prediction_of_case(case, count_nominated=True, semantics=semantics, cache=cache)
    except InvalidConfiguration:
        assert answer.get("configError")
        return False
    assert not answer.get("configError")
    comparing(case, answer, dict(prediction.to_dict()))
    return prediction.in_columns is not None


@pytest.mark.parametrize(
    ("name", "comparing"), [("recorded", compare), ("wide", compare_scores), ("profiles", compare_all)]
)
def test_recorded_answers_are_met(name: str, comparing: Callable[[Any, Any, Any], None]) -> None:
    """Each case of "profiles" has a KubeSchedulerConfiguration."""
    told = Counter(is_met_in_columns(row["case"], row["answer"], comparing) for row in rows_of(f"{name}.jsonl.gz"))
    assert told[True] >= 80, told


def test_the_answers_of_every_release_are_met() -> None:
    told = Counter(
        is_met_in_columns(row["case"], answer, compare, Semantics(known_minor(release)))
        for row in rows_of("releases.jsonl.gz")
        for release, answer in row["answers"].items()
    )
    assert told[True] > told[False], told


def test_each_release_is_met_with_configurations_and_devices() -> None:
    """Releases with the same answer share it."""
    told = Counter[bool]()
    for row in rows_of("each-release.jsonl.gz"):
        cache = cache_of_case(row["case"], count_nominated=True)
        for found in row["answers"]:
            for release in found["releases"]:
                semantics = Semantics(known_minor(release))
                told[is_met_in_columns(row["case"], found["answer"], compare_all, semantics, cache)] += 1
    assert told[True] > told[False], told


def test_since_1_37_an_infeasible_resize_that_no_container_tells_of_counts_as_nothing() -> None:
    """Upstream's sums leave the spec out where it cannot be had, and have nothing else to add up."""
    pods = [make_pod("p").request(cpu="3").on("n").obj]
    pods[0]["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    case = {"nodes": [make_node("n").obj], "pods": pods, "pod": make_pod("new").request(cpu="2").obj}
    fits = {m: answer_case(case, count_nominated=True, semantics=Semantics(m))["feasible"] for m in KNOWN_MINORS}
    assert fits == {34: [], 35: [], 36: [], 37: ["n"]}
