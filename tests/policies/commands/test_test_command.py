"""`forewarn test`: expectations, whether they hold, and what is wrong with those that cannot be read."""

from __future__ import annotations

import json
import os
import random
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.cli.main import main
from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.kubernetes.selectors import PodPattern
from forewarn.policies.questions.application import expectations
from forewarn.policies.questions.application.expectations import read_expectations
from tests.builders import Made, make_pod
from tests.in_process import captured, forewarn
from tests.policies.commands.test_one_counter import cluster as random_cluster
from tests.policies.commands.test_one_counter import question

CLUSTER = ("--cluster", "docs/examples/whatif/cluster.yaml")
CLASS = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: new-default}
value: 1000000
globalDefault: true
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: large}
spec: {containers: [{name: c, image: c, resources: {requests: {cpu: "2"}}}]}
"""
SHOWN = ("docs/examples/test/expectations.yaml", *CLUSTER)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return captured(capsys, "test", *arguments)


def evaluated(
    capsys: pytest.CaptureFixture[str], path: Path, *expectations: Any, more: tuple[str, ...] = ()
) -> list[Any]:
    (path / "expectations.json").write_text(json.dumps(expectations))
    status, out, err = run(capsys, str(path / "expectations.json"), *CLUSTER, *more, "-o", "json")
    assert err == ""
    told: list[Any] = json.loads(out)["expectations"]
    assert status == (
        3 if any("notEvaluated" in each for each in told) else 1 if any("failures" in each for each in told) else 0
    )
    return told


def test_junit_has_the_counterexample(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *SHOWN, "-o", "junit")
    suites = ElementTree.fromstring(out)
    assert (status, suites.get("tests"), suites.get("failures")) == (1, "5", "2")
    failures = [failure.text or "" for failure in suites.iter("failure")]
    assert failures[0].startswith("drain of node a-1\n")
    assert "preempts 1 Pod of reports/nightly" in failures[1]


def no_fork() -> int:
    raise BlockingIOError("no more processes")


@pytest.mark.forks
@pytest.mark.parametrize("forks", [True, False])
def test_a_cluster_is_read_once_and_no_expectation_sees_the_class_of_another(
    forks: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not forks:
        monkeypatch.setattr(os, "fork", no_fork)
    reads: list[tuple[str, ...]] = []

    def counted(*sources: str, into: Any) -> Any:
        reads.append(sources)
        return load_cluster(*sources, into=into)

    import_module("forewarn.policies.questions.application.why")  # a later import would keep `counted` for other tests
    monkeypatch.setattr("forewarn.policies.inputs.sources.cluster.load_cluster", counted)
    (tmp_path / "class.yaml").write_text(CLASS)
    (tmp_path / "pod.yaml").write_text(POD)
    lost = {"name": "lost", "when": {"lost": {"node": "any"}}, "expect": {"noPreemption": {"class": "gold"}}}
    with_class = {"name": "a", "when": {"apply": "class.yaml"}, "expect": {"noPending": {}}}
    without = {"name": "b", "when": {"apply": "pod.yaml"}, "expect": {"noPreemption": {}}}
    assert [each["met"] for each in evaluated(capsys, tmp_path, lost, with_class, without, lost)] == [True] * 4
    assert len(reads) == 1


@pytest.mark.parametrize(
    ("when", "expect", "broken"),
    [
        (None, {"noPending": {}}, False),
        ({"lost": {"zone": "a"}}, {"noPending": {"namespace": "shop"}}, False),
        ({"lost": {"zone": "a"}}, {"noPending": {"namespace": "rep*"}}, True),
        ({"lost": {"zone": "a"}}, {"run": {"class": "gold"}, "within": "10m"}, False),
        ({"lost": {"zone": "a"}}, {"run": {"class": "gold"}, "within": 10}, True),
        ({"lost": {"zone": "a"}}, {"noPreemption": {}, "by": {"class": "batch"}}, False),
        ({"lost": {"zone": "a"}}, {"noPreemption": {"workload": "reports/*"}}, True),
        ({"lost": {"pool": "pool=web"}}, {"run": {"namespace": "shop"}}, True),
        ({"lost": {"node": "b-1"}}, {"run": {"namespace": "shop"}}, False),
        ({"drain": {"zone": "b"}}, {"run": {"namespace": "shop"}}, False),
        ({"scale": {"workload": "deploy/nightly", "namespace": "reports", "replicas": 9}}, {"noPending": {}}, True),
        ({"scale": {"workload": "deploy/nightly", "namespace": "reports", "replicas": 9}}, {"run": {}}, False),
        (
            {"scale": {"workload": "deploy/nightly", "namespace": "reports", "replicas": 9}},
            {"run": {}, "within": "10m"},
            True,
        ),
        (None, {"fit": {"file": str(Path("docs/examples/headroom/cache.yaml").absolute()), "replicas": 5}}, True),
        (
            None,
            {
                "fit": {
                    "file": str(Path("docs/examples/headroom/cache.yaml").absolute()),
                    "replicas": 8,
                    "preempting": True,
                }
            },
            False,
        ),
        (
            {"apply": str(Path("docs/examples/headroom/cache.yaml").absolute())},
            {"noPreemption": {}, "noPending": {}},
            False,
        ),
        ({"delete": "web.yaml"}, {"run": {"namespace": "reports"}}, False),
        ({"delete": "web.yaml"}, {"run": {}}, True),
    ],
)
def test_whether_it_holds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, when: Any, expect: Any, broken: bool
) -> None:
    named = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n"
    (tmp_path / "web.yaml").write_text(named)
    (told,) = evaluated(capsys, tmp_path, {"name": "it", "when": when, "expect": expect})
    assert told["met"] is not broken
    assert bool(told.get("failures")) is broken


def test_a_workload_to_scale_without_a_namespace_is_in_that_of_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    scale = {"workload": "deploy/nightly", "replicas": 9}
    one = {"name": "it", "when": {"scale": scale}, "expect": {"noPending": {}}}
    (told,) = evaluated(capsys, tmp_path, one, more=("-n", "reports"))
    assert told["case"].startswith("Deployment reports/nightly scaled to 9 replicas")


def test_gates_are_the_reason_of_a_gated_pod(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gated = make_pod("gated").spec(schedulingGates=[{"name": "quota"}])
    (tmp_path / "gated.json").write_text(json.dumps(gated.obj))
    one = {"name": "it", "when": {"apply": str(tmp_path / "gated.json")}, "expect": {"noPending": {}}}
    (told,) = evaluated(capsys, tmp_path, one)
    assert told["failures"] == ["default/gated: 1 Pod Pending: kept out of the scheduling queue by scheduling gates"]


def test_fewer_pods_fit_if_a_quota_admits_fewer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    quota = Made("v1", "ResourceQuota", "pods", "shop").spec(hard={"pods": "6"})
    (tmp_path / "quota.json").write_text(json.dumps(quota.status(hard={"pods": "6"}, used={"pods": "4"}).obj))
    fit = {"fit": {"file": str(Path("docs/examples/headroom/cache.yaml").absolute()), "replicas": 3}}
    expectation = {"name": "it", "expect": fit}
    assert evaluated(capsys, tmp_path, expectation)[0]["met"]
    (told,) = evaluated(capsys, tmp_path, expectation, more=("--cluster", str(tmp_path / "quota.json")))
    assert "2 more Pods fit without preemption, expected 3 (exceeded quota: pods" in str(told["failures"])


def test_of_any_the_first_that_breaks_it_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (told,) = evaluated(
        capsys, tmp_path, {"name": "it", "when": {"lost": {"zone": "any"}}, "expect": {"noPending": {}}}
    )
    assert (told["cases"], told["case"]) == (1, "zone a lost (2 of 4 nodes)")


def test_the_number_of_violations_stands_beside_the_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    expectation = {"name": "it", "when": {"drain": {"zone": "any"}}, "expect": {"run": {}, "noPending": {}}}
    (tmp_path / "given.yaml").write_text(json.dumps([expectation]))
    main(["test", str(tmp_path / "given.yaml"), *CLUSTER])
    lines = capsys.readouterr().out.splitlines()
    assert "1 more: -v" in " ".join(lines[lines.index("WHY 2 VIOLATIONS") :])


@pytest.mark.parametrize(
    ("expect", "unanswered"),
    [
        ({"run": {"class": "glod"}}, ["run: no Pod of class glod exists"]),
        ({"run": {"namespace": ""}}, ['run: no Pod in namespace "" exists']),
        ({"noPending": {"workload": "web"}}, ["noPending: no Pod of workload web exists"]),
        ({"noPreemption": {"class": ""}}, ["noPreemption: no Pod without a class exists"]),
        (
            {"noPreemption": {"namespace": "shop"}, "by": {"class": "x" * 99, "namespace": "y\x1b"}},
            ["by: no Pod of class " + "x" * 79 + "… in namespace y\x1b exists"],
        ),
        ({"run": {"namespace": "sh*"}, "noPreemption": {"class": "gold"}, "by": {"namespace": "shop"}}, []),
    ],
)
def test_an_expectation_that_selects_no_pod_has_no_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, expect: Any, unanswered: list[str]
) -> None:
    promise = {"name": "it", "when": {"lost": {"zone": "any"}}, "expect": expect}
    (told,) = evaluated(capsys, tmp_path, promise)
    assert (told.get("notEvaluated", []), told.get("notes", [])) == (unanswered, [])
    assert told["met"] is not bool(unanswered)
    path = str(tmp_path / "expectations.json")
    status, out, _ = run(capsys, path, *CLUSTER, "--allow-empty", "-o", "json")
    assert (status, json.loads(out)["expectations"][0].get("notes", [])) == (0, unanswered)
    if unanswered:
        status, out, _ = run(capsys, path, *CLUSTER, "-o", "json")
        found = json.loads(out)
        assert (status, found["status"], found["clause"]) == (3, "NO ANSWER", "1 not evaluated")
        assert [cause["reason"] for cause in found["why"]["causes"]] == [f"it: {unanswered[0]}"]
        errors = [
            each.get("message")
            for each in ElementTree.fromstring(run(capsys, path, *CLUSTER, "-o", "junit")[1]).iter("error")
        ]
        assert len(errors) == 1


def test_a_typo_beside_a_failure_has_no_answer_and_both_are_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    when = {"lost": {"zone": "a"}}
    typo, failure = {"run": {"class": "glod"}}, {"noPending": {"namespace": "reports"}}
    entries = [{"name": "it", "when": when, "expect": each} for each in (typo, failure, {**typo, **failure})]
    told = evaluated(capsys, tmp_path, *entries)
    assert [("failures" in each, "notEvaluated" in each) for each in told] == [
        (False, True),
        (True, False),
        (True, True),
    ]
    status, out, _ = run(capsys, str(tmp_path / "expectations.json"), *CLUSTER)
    assert (status, out.splitlines()[0]) == (3, "NO ANSWER  3 expectations: 2 failed, 2 not evaluated")


def test_by_may_select_no_pod_if_its_class_exists(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    expect = {"noPreemption": {"namespace": "shop"}, "by": {"class": "gold", "namespace": "elsewhere"}}
    (told,) = evaluated(capsys, tmp_path, {"name": "it", "when": {"lost": {"zone": "any"}}, "expect": expect})
    assert (told["met"], told["notes"]) == (True, ["by: no Pod of class gold in namespace elsewhere exists"])
    path = str(tmp_path / "expectations.json")
    warning = "WARN  it: by: no Pod of class gold in namespace elsewhere exists"
    assert warning in run(capsys, path, *CLUSTER)[1].splitlines()
    assert ElementTree.fromstring(run(capsys, path, *CLUSTER, "-o", "junit")[1]).find(".//system-out") is not None
    whole, parts = run(capsys, path, *CLUSTER)[1], [str(tmp_path / f"part-{number}.json") for number in range(2)]
    for number, part in enumerate(parts):
        run(capsys, path, *CLUSTER, "--shard", f"{number}/2", "-o", f"json={part}")
    assert main(["whatif", "merge", *parts]) == 0
    assert capsys.readouterr().out == whole
    (tmp_path / "config.yaml").write_text("recreatesPods: [example.com/App]")
    run(capsys, path, *CLUSTER, "--config", str(tmp_path / "config.yaml"), "--shard", "1/2", "-o", f"json={parts[1]}")
    assert main(["whatif", "merge", *parts]) == 3
    assert "is from another run: configuration was" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (3, "an expectation must be an object, not number"),
        ({}, "name must be a string, not null"),
        ({"name": True}, "name must be a string, not bool"),
        ({"name": ""}, "name must have 1 to 1000 characters"),
        ({"name": "x" * 1000}, f"expectation 1 ({'x' * 79}…): expect must be an object, not null"),
        ({"name": "x"}, "(x): expect must be an object, not null"),
        ({"name": "x", "expect": {}}, "expect must have one of run, noPending, noPreemption, fit"),
        ({"name": "x", "expect": {"runs": {}}}, 'unknown key "runs" in expect; known: run, within'),
        (
            {"name": "x", "expect": {"noPending": {"ns": "a"}}},
            'unknown key "ns" in noPending; known: namespace, class, workload',
        ),
        ({"name": "x", "expect": {"noPending": {}, "within": "1m"}}, "within needs run"),
        ({"name": "x", "expect": {"run": {}, "by": {"class": "a"}}}, "by needs noPreemption"),
        ({"name": "x", "when": {"lost": {}}, "expect": {"run": {}}}, "lost must have one of zone, node, pool"),
        ({"name": "x", "when": {"lost": {"zone": "a"}, "drain": {}}, "expect": {"run": {}}}, "when must have one of"),
        (
            {"name": "x", "when": {"lose": 1}, "expect": {"run": {}}},
            'unknown key "lose" in when; known: lost, drain',
        ),
        (
            {"name": "x", "expect": {"fit": {"file": "f", "replicas": -1}}},
            "replicas must be a whole number from 0 to 2147483647",
        ),
        ({"name": "x", "expect": {"k" * 1000: 1}}, 'unknown key "' + "k" * 79 + '…" in expect'),
        (
            {"name": "x", "when": {"lost": {"zone": "a"}}, "expect": {"fit": {"file": "f", "replicas": 1}}},
            "remove when",
        ),
    ],
)
def test_what_is_written_wrongly_is_wrong_usage(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, entry: Any, said: str
) -> None:
    (tmp_path / "e.json").write_text(json.dumps([entry]))
    status, _, err = run(capsys, str(tmp_path / "e.json"), *CLUSTER)
    assert status == 2
    assert said in err
    assert "e.json" in err


@pytest.mark.parametrize(
    ("entry", "options", "said"),
    [
        ({"when": {"lost": {"zone": "z"}}}, (), "no node matches zone z"),
        ({"when": {"lost": {"node": "any"}}}, ("--most", "3"), "any node: 4 exist, more than --most 3"),
        ({"when": {"lost": {"pool": "any"}}}, (), "pool must be a selector"),
    ],
)
def test_what_is_not_there_cannot_be_done(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, entry: Any, options: tuple[str, ...], said: str
) -> None:
    (tmp_path / "e.json").write_text(json.dumps([{"name": "it", "expect": {"run": {}}, **entry}]))
    status, _, err = run(capsys, str(tmp_path / "e.json"), *CLUSTER, *options)
    assert status == 3
    assert said in err


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "when", "expect", "run", "lost", "zone", "fit", "by"]), children)
    ),
    max_leaves=8,
)


@given(JSON)
def test_anything_may_be_written(value: Any) -> None:
    with suppress(ValueError):
        list(read_expectations([(value, 1)]))


def test_a_selector_of_no_class_is_not_one_of_any() -> None:
    assert PodPattern(priority_class="").matches("a", "", "a/b")
    assert not PodPattern(priority_class="").matches("a", "gold", "a/b")
    assert PodPattern().matches("a", "gold", "a/b")


def test_objects_that_admission_rejects_are_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"priorityClassName": "nope", "containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}, "spec": spec}
    (tmp_path / "api.json").write_text(json.dumps(deployment))
    expectation = {"name": "a", "when": {"apply": "api.json"}, "expect": {"noPending": {}}}
    (tmp_path / "expectations.json").write_text(json.dumps([expectation]))
    status, out, err = run(capsys, str(tmp_path / "expectations.json"), *CLUSTER)
    assert (status, out) == (3, "")
    assert "spec.template.spec.priorityClassName: no PriorityClass with name nope was found; known: batch, " in err
    changed = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "gold"}, "value": 5}
    (tmp_path / "api.json").write_text(json.dumps(changed))
    status, out, err = run(capsys, str(tmp_path / "expectations.json"), *CLUSTER)
    assert (status, out) == (3, "")
    assert "PriorityClass gold: value: rejected: immutable, stays 100000" in err


@pytest.mark.parametrize(("runs", "is_met"), [(24, False), (1, True)])
def test_where_chance_decides_several_runs_must_meet_the_expectation(
    runs: int, is_met: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one run, a note says that another one may violate it."""
    dice = random.Random(1068)
    words = question(dice, random_cluster(dice, tmp_path / "cluster.json"), tmp_path)
    expectation = {"name": "kept", "when": {"lost": {words[2]: words[3]}}, "expect": {"noPreemption": {}}}
    (tmp_path / "kept.json").write_text(json.dumps([expectation]))
    monkeypatch.setattr(expectations, "RUNS", runs)
    done = forewarn("test", tmp_path / "kept.json", "--cluster", tmp_path / "cluster.json", "-o", "json")
    (found,) = json.loads(done.stdout)["expectations"]
    assert found["met"] is is_met
    note = "chance decides in 1 case of one run: another run may violate the expectation"
    assert found.get("notes", []) == ([note] if is_met else [])
