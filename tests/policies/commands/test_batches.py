"""The hidden command `forewarn dry-run --batch` answers recorded requests line by line."""

from __future__ import annotations

import gzip
import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from tests.policies.recorded import CASES, load

if TYPE_CHECKING:
    from pathlib import Path


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
