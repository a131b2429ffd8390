"""The hidden command `forewarn autoscale`."""

import json
from pathlib import Path

import pytest

from forewarn.policies.cli.main import main


@pytest.mark.parametrize("autoscaler", ["karpenter", "cluster-autoscaler"])
def test_an_answer_for_each_line(autoscaler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cases").write_text('{"id": "a", "nodes": 1}\n{"id": "b", "nodes": 1}\n')
    main(["autoscale", "--autoscaler", autoscaler, "--batch", str(tmp_path / "cases")])
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["id"] for answer in answers] == ["a", "b"]
    assert all("error" in answer or "notPredicted" in answer for answer in answers)
