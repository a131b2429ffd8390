"""empty-selector: what {} and an absent selector select, by kind and release."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from tests.builders import make_budget, make_pod

if TYPE_CHECKING:
    from pathlib import Path

ABSENT: Any = object()
CONSTRAINT = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
SPREAD = [
    (ABSENT, [], "1.37", "warning", "without labelSelector"),
    (ABSENT, [], "1.38", "warning", "without labelSelector"),
    (None, [], "1.37", "warning", "without labelSelector"),
    ({}, [], "", "warning", "counts no Pod up to Kubernetes 1.37"),
    ({"matchLabels": {}}, [], "1.37", "warning", "counts no Pod up to Kubernetes 1.37"),
    ({}, [], "1.38", "note", "counts all Pods of the namespace"),
    ({}, ["pod-template-hash"], "1.37", "", ""),
    ({"matchLabels": {"app": "web"}}, [], "1.37", "", ""),
    ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, [], "1.37", "", ""),
]
BUDGETS = [
    (ABSENT, "", "warning", "selects no Pod"),
    (None, "1.38", "warning", "selects no Pod"),
    ({}, "", "note", "selects all Pods of the namespace; preemption up to Kubernetes 1.37 ignores it"),
    ({}, "1.38", "note", "selects all Pods of the namespace"),
    ({"matchLabels": {"app": "web"}}, "", "", ""),
]


def linted(objects: list[dict[str, Any]], minor: str, path: Path, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    file = path / "all.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    version = ["--kubernetes-version", minor] if minor else []
    main(["lint", str(file), "--select", "empty-selector", "-o", "json", *version])
    found: list[Any] = json.loads(capsys.readouterr().out)["findings"]
    return found


@pytest.mark.parametrize("workload", [False, True])
@pytest.mark.parametrize(("selector", "keys", "minor", "severity", "message"), SPREAD)
def test_spread_constraints(
    selector: Any,
    keys: list[str],
    minor: str,
    severity: str,
    message: str,
    workload: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = {} if selector is ABSENT else {"labelSelector": selector}
    constraint = CONSTRAINT | given | ({"matchLabelKeys": keys} if keys else {})
    obj = make_pod("p").labels(app="web").spec(topologySpreadConstraints=[constraint]).obj
    if workload:
        template = {"metadata": {"labels": {"app": "web"}}, "spec": obj["spec"]}
        metadata = {"name": "w", "namespace": "default"}
        obj = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template}}
    found = linted([obj], minor, tmp_path, capsys)
    assert [each["severity"] for each in found] == ([severity] if severity else [])
    assert all(message in each["message"] and "{app: web}" in each["remediation"] for each in found)


@pytest.mark.parametrize(("selector", "minor", "severity", "message"), BUDGETS)
def test_budgets(
    selector: Any,
    minor: str,
    severity: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    budget = make_budget("all", 0, "team").obj
    budget["spec"] = {"maxUnavailable": 1} | ({} if selector is ABSENT else {"selector": selector})
    found = linted([budget], minor, tmp_path, capsys)
    assert [each["severity"] for each in found] == ([severity] if severity else [])
    assert all(message in each["message"] for each in found)
