"""Selectors and template labels in the linter: what kube-apiserver rejects, without templates and patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from forewarn.policies.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: x}}
spec:
  selector: {{matchLabels: {{app: {selector}}}}}
  template: {{metadata: {{{labels}}}, spec: {{containers: [{{name: a, image: b}}]}}}}
"""


@pytest.mark.parametrize(
    ("selector", "labels", "status"),
    [
        ("web", "labels: {app: web}", 0),
        ("web", "labels: {app: other}", 1),
        ('"not valid"', 'labels: {app: "not valid"}', 1),
        ('"${app}"', 'labels: {app: "${app}"}', 0),
        ("web", 'labels: {app: "${app}"}', 0),
        ('"$(app)"', "labels: {app: web}", 0),
        ("web", "", 1),
    ],
)
def test_selectors_and_labels_with_variables_are_not_compared(
    selector: str, labels: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "web.yaml").write_text(TEXT.format(selector=selector, labels=labels))
    assert main(["lint", str(tmp_path / "web.yaml")]) == status, capsys.readouterr().out
