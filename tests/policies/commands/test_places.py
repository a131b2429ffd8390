"""What is wrong with an object of a file is told with the place of its field, by every command that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from policies.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = "docs/whatif/cluster.yaml"
POD = """apiVersion: v1
kind: Pod
metadata:
  name: a
  creationTimestamp: now
spec: {containers: [{name: c}]}
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - name: c
        resources: {requests: {cpu: 1x}}
"""
TOLD = (
    (POD, '5:22: Pod default/a: metadata.creationTimestamp: "now" is no RFC 3339 time'),
    (DEPLOYMENT, "11:37: Deployment shop/web: spec.template.spec.containers[0].resources.requests.cpu: '1x'"),
)


@pytest.mark.parametrize(("text", "told"), TOLD)
@pytest.mark.parametrize(
    "command",
    [("preempt",), ("headroom",), ("simulate",), ("whatif", "apply"), ("whatif", "class", "gold", "--value", "3")],
)
def test_a_fault_has_file_line_and_column(
    command: tuple[str, ...], text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "objects.yaml"
    file.write_text(text)
    assert main([*command, "-f", str(file), "--cluster", SHOWN]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"forewarn {command[0]}: {file}:{told}")


@pytest.mark.parametrize(("text", "told"), TOLD)
@pytest.mark.parametrize(
    "entry", ["when: {apply: objects.yaml}, expect: {run: {}}", "expect: {fit: {file: objects.yaml, replicas: 1}}"]
)
def test_so_has_one_of_an_expectations_file(
    entry: str, text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "objects.yaml").write_text(text)
    (tmp_path / "promises.yaml").write_text(f"- {{name: it holds, {entry}}}\n")
    assert main(["test", str(tmp_path / "promises.yaml"), "--cluster", SHOWN]) == 3
    assert f"{tmp_path / 'objects.yaml'}:{told}" in capsys.readouterr().err


def test_a_fault_of_the_cluster_is_the_dumps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump, file = tmp_path / "dump.yaml", tmp_path / "pod.yaml"
    dump.write_text(POD)
    file.write_text(POD.replace("  creationTimestamp: now\n", ""))
    assert main(["preempt", "-f", str(file), "--cluster", str(dump)]) == 3
    assert capsys.readouterr().err.startswith(f"forewarn preempt: {dump}:1: Pod a: metadata.creationTimestamp")
