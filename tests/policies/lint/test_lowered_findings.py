"""Findings that are lowered or left out because of words: only where these words say something."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from forewarn.policies.linting.rules.support.rule_text import is_capitals, is_placeholder
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path

WRONG = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: gold
value: 2000000000
"""


def test_a_directory_above_the_files_is_no_archive(tmp_path: Path) -> None:
    file = tmp_path / "old" / "manifests" / "class.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(WRONG)
    assert forewarn("lint", file).returncode == 1


@pytest.mark.parametrize("is_in_git", [True, False])
def test_a_release_that_contains_the_whole_input_is_no_copy(tmp_path: Path, *, is_in_git: bool) -> None:
    top = tmp_path / "mesh-1.27.2"
    (top / (".git" if is_in_git else "samples")).mkdir(parents=True)
    (top / "LICENSE").write_text("Apache License")
    (top / "class.yaml").write_text(WRONG)
    assert forewarn("lint", top / "class.yaml").returncode == 1
    assert forewarn("lint", ".", cwd=top).returncode == 1


@pytest.mark.parametrize(
    ("value", "is_placeholder"),
    [("QUOTA", True), ("MAX_REPLICAS", True), ("TRUE", False), ("NONE", False), ("THREE", False), ("ALL_NODES", True)],
)
def test_literals_in_capitals_are_no_placeholders(value: str, *, is_placeholder: bool) -> None:
    assert is_capitals(value) is is_placeholder


@pytest.mark.parametrize(
    "value",
    [
        *("TASK_ID", "job-TASK_ID", "TASK_ID-web", "web_YOUR_APP-hpa", "X1_ID2", "_NAME_", "__name__", "web-__ID__"),
        *("REPLACEME", "job-TASKID", "XXXX", "web_XXX", "YOUR-NAME", "NAME-PLACEHOLDER", "APP-hpa", "NAME"),
        *("<your-namespace>", "web-<ID>", "{app}", "#{Project.Name}", "FILLED BY THE OPERATOR"),
    ],
)
def test_placeholders_have_one_of_a_few_forms(value: str) -> None:
    assert is_placeholder(value)


@pytest.mark.parametrize("value", ["WEB", "PROD-1", "MyService", "High_Priority", "web_app", "a__b", "RFC1", "", 3])
def test_other_names_are_no_placeholders(value: object) -> None:
    assert not is_placeholder(value)


@pytest.mark.parametrize("value", ["ALWAYS", "IF_NOT_PRESENT", "IFNOTPRESENT", "If_Not_Present"])
def test_a_value_that_is_meant_in_another_case_is_no_placeholder(value: str) -> None:
    assert not is_placeholder(value, 'supported values: "Always", "IfNotPresent", "Never"')


def test_an_autoscaler_does_not_raise_0_replicas(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(
        """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {minReplicas: 3, maxReplicas: 6, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 3, selector: {matchLabels: {app: web}}}
"""
    )
    assert "allows no eviction" not in forewarn("lint", tmp_path, "-v").stdout


def test_the_summary_counts_errors_that_are_notes_in_tests(tmp_path: Path) -> None:
    for name in ("tests/fixtures/class.yaml", "apps/class.yaml"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(WRONG)
    summary = forewarn("lint", ".", cwd=tmp_path).stderr
    assert "1 note would be an error outside tests, archives and other projects" in summary
