"""`forewarn dry-run` prints what kubectl would, and answers a batch line by line."""

from __future__ import annotations

import gzip
import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli import main
from tests.policies.recorded import CASES, load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GOLD = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 100\n"
OLD = "scheduling.k8s.io/v1beta1"
POD = """apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  priorityClassName: gold
  containers: [{name: c, image: x}]
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
QUOTA = """apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: default}
spec: {hard: {pods: "1"}}
status: {hard: {pods: "1"}, used: {pods: "1"}}
"""


def files(tmp_path: Path, **texts: str) -> list[str]:
    for name, text in texts.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return [str(tmp_path / f"{name}.yaml") for name in texts]


def apply(paths: Sequence[str], *flags: str) -> int:
    return main(["dry-run", *(argument for path in paths for argument in ("-f", path)), *flags])


def test_what_is_accepted_is_printed_as_kubectl_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert apply(files(tmp_path, a=f"{GOLD}---\n{POD}---\n{CONFIG_MAP}")) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        (
            "2 accepted (PriorityClass gold and Pod default/p), 1 not evaluated (ConfigMap: unsupported kind): "
            "dry run of 3 objects"
        ),
        "priorityclass.scheduling.k8s.io/gold created (dry run)",
        "pod/p created (dry run)",
    ]
    evaluated = "dry-run evaluates Pod, ResourceQuota, PriorityClass, PodGroup, Workload"
    assert err == f"forewarn dry-run: 1 object not evaluated: ConfigMap (1); {evaluated}\n"


def test_what_is_refused_is_printed_as_kubectl_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = GOLD.replace("scheduling.k8s.io/v1", OLD)
    (path,) = files(tmp_path, a=f"{POD}---\n{GOLD.replace('100', '2000000000')}---\n{old}")
    assert apply([path]) == 1
    out, err = capsys.readouterr()
    assert out == "3 rejected (Pod default/p, PriorityClass gold and PriorityClass gold): dry run of 3 objects\n"
    creating = f'error when creating "{path}"'
    too_high = "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"
    gold = 'PriorityClass.scheduling.k8s.io "gold"'
    missing = f'name: "gold" namespace: "" from "{path}"'
    assert err.splitlines() == [
        f'Error from server (Forbidden): {creating}: pods "p" is forbidden: no PriorityClass with name gold was found',
        f"Error from server (Invalid): {creating}: {gold} is invalid: {too_high}",
        f'resource mapping not found for {missing}: no matches for kind "PriorityClass" in version "{OLD}"',
    ]


def test_the_cluster_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pod, change, cluster = files(tmp_path, pod=POD, change=GOLD.replace("100", "5"), cluster=f"{GOLD}---\n{QUOTA}")
    assert apply([pod, change], "--cluster", cluster) == 1
    err = capsys.readouterr().err.splitlines()
    assert err[0].endswith("exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1")
    assert f'error when patching "{change}"' in err[1]
    assert apply([pod], "--cluster", cluster, "-n", "team") == 0


def test_the_head_says_that_usage_of_quotas_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: new}\nspec: {hard: {count/resourcequotas: 1}}\n"
    quota, cluster = files(tmp_path, quota=new.replace("name: new", "name: other"), cluster=new)
    assert apply([quota], "--cluster", cluster) == 0
    assert (
        "1 ResourceQuota without complete status: usage counted from requests of Pods, not limits or other objects"
        in (capsys.readouterr().err)
    )


def test_a_limited_class_needs_a_quota(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = files(tmp_path, gold=GOLD, pod=POD)
    config = str(CASES / "admission-config.yaml")
    assert apply(paths, "--admission-config", config) == 1
    assert "insufficient quota to match these scopes: [{PriorityClass In [" in capsys.readouterr().err


def test_the_exit_status_says_what_went_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, broken = files(tmp_path, good=GOLD, broken="kind: [\n")
    assert apply([good, broken]) == 3
    said = capsys.readouterr()
    assert "broken.yaml:" in said.err
    assert said.out.startswith(f"1 accepted (PriorityClass gold), 1 file not read ({broken}): dry run of 1 object\n")
    assert apply([good], "--admission-config", good) == 2
    assert "must be AdmissionConfiguration" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert apply([str(tmp_path / "empty")]) == 3
    assert "no objects to apply" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["-f", "a", "--batch", "b"], ["--unknown"]])
def test_wrong_usage_is_status_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["dry-run", *arguments])
    assert stopped.value.code == 2
    assert ". Fix: " in capsys.readouterr().err


def batch(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    status = main(["dry-run", "--batch", *arguments])
    return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_batch_answers_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--admission-config", str(CASES / "admission-config.yaml"))
    status, answers = batch(capsys, str(CASES / "recorded.jsonl.gz"), *flags)
    cases = load("recorded.jsonl.gz")
    assert status == 0
    assert [answer["id"] for answer in answers] == [case["id"] for case in cases]
    assert [answer["allowed"] for answer in answers] == [case["code"] < 300 for case in cases]


BAD = [
    ("{", None, "line 1: not JSON"),
    ("[1]", None, "a case must be an object"),
    ('{"id": "a", "object": NaN}', None, "not JSON: NaN is not JSON"),
    ("[" * 100_000, None, "not JSON"),
    ('{"id": "a"}', "a", "object is missing"),
    ('{"id": 7, "object": []}', 7, "object is missing"),
    ('{"id": "a", "object": 3}', "a", "object must be an object"),
    ('{"id": "a", "object": {"kind": "Pod"}, "operation": "PATCH"}', "a", "unknown operation; known: CREATE, UPDATE"),
    ('{"id": "a", "object": {"kind": "Pod"}, "operation": ["CREATE"]}', "a", "unknown operation"),
    ('{"id": "a", "object": {"kind": "Pod"}, "cluster": {"pods": {}}}', "a", "cluster.pods must be a list of objects"),
    (
        '{"id": "a", "object": {"kind": "Pod"}, "cluster": {"x": [{"apiVersion": "v1", "kind": "Pod", "spec": []}]}}',
        "a",
        "Pod: spec: must be an object, not array",
    ),
]


@pytest.mark.parametrize(("line", "identity", "problem"), BAD, ids=[problem for _, _, problem in BAD])
def test_a_line_that_is_no_case_is_answered_and_the_run_goes_on(
    line: str, identity: object, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = json.dumps(load("recorded.jsonl.gz")[0])
    (tmp_path / "cases.jsonl").write_text(f"{line}\n\n{good}\n")
    status, answers = batch(capsys, str(tmp_path / "cases.jsonl"))
    assert status == 1
    assert (answers[0]["id"], len(answers)) == (identity, 2)
    assert problem in answers[0]["error"]
    assert "error" not in answers[1]


def test_a_batch_is_read_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"id": 1, "object": {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1.0}}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    status, (answer,) = batch(capsys, "-")
    assert (status, answer["code"]) == (0, 400)
    assert "cannot unmarshal number 1.0 into Go struct field PriorityClass.value of type int32" in answer["message"]


def test_a_batch_is_unpacked_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = (CASES / "recorded.jsonl.gz").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(packed))))
    status, answers = batch(capsys, "-")
    assert (status, len(answers)) == (0, len(load("recorded.jsonl.gz")))


PACKED = gzip.compress(b'{"id": 1}\n' * 1000)


@pytest.mark.parametrize("command", ["dry-run", "preempt"])
@pytest.mark.parametrize(
    "damaged",
    [PACKED[:-20], PACKED[:-4] + b"1234", PACKED[:10] + b"\xff" * 20],
    ids=["cut off", "of another length", "not packed"],
)
def test_a_batch_that_cannot_be_read_is_status_three(
    command: str, damaged: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "damaged.jsonl.gz").write_bytes(damaged)
    for name in ("damaged.jsonl.gz", "."):
        assert main([command, "--batch", str(tmp_path / name)]) == 3
        assert f"forewarn {command}: {tmp_path / name}: " in capsys.readouterr().err
