"""Questions from Python: the answers are those of the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import forewarn
from tests.in_process import forewarn as command

if TYPE_CHECKING:
    from collections.abc import Callable

CLUSTER = "docs/examples/whatif/cluster.yaml"
TILL = "docs/examples/test/till.yaml"


@pytest.mark.parametrize("name", ["predict", "headroom"])
@pytest.mark.parametrize("as_object", [False, True])
def test_a_manifest_is_a_path_or_an_object(name: str, as_object: bool) -> None:
    ask: Callable[..., Any] = getattr(forewarn, name)
    manifest = yaml.safe_load(Path(TILL).read_text()) if as_object else TILL
    documents = list(ask(forewarn.load(CLUSTER), manifest).documents())
    printed = command(name, "-f", TILL, "--cluster", CLUSTER, "-o", "json").stdout
    assert documents == [json.loads(line) for line in printed.splitlines()]


def test_an_error_of_one_object_leaves_the_predictions_of_the_others() -> None:
    good = yaml.safe_load(Path(TILL).read_text())
    bad = {**good, "metadata": {"name": "bad"}, "spec": {**good["spec"], "replicas": "x"}}
    result = forewarn.predict(forewarn.load(CLUSTER), [bad, good])
    assert [str(fault) for fault in result.faults] == [
        "Deployment default/bad: spec.replicas: must be an integer, not string"
    ]
    assert repr(result) == "<PredictResult {'preempts': 1}>"


def test_classes_and_a_plan_of_a_change() -> None:
    options = ("--cluster", "docs/examples/classes/cluster.yaml", "-o", "json")
    files = "docs/examples/classes/classes.yaml"
    cluster = forewarn.load(options[1])
    assert forewarn.classes(cluster).to_dict() == json.loads(command("classes", *options).stdout)
    plan = forewarn.plan_classes(cluster, forewarn.ClassPlanRequest([files]))
    assert json.loads(json.dumps(plan.to_dict())) == json.loads(
        command("classes", "plan", "-f", files, *options).stdout
    )


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("shop/web", ("cluster", "events")),
        ("batch/nightly", ("cluster", "events")),
        ("shop/deployment/web", ("ended",)),
    ],
)
def test_why(name: str, files: tuple[str, ...]) -> None:
    sources = [f"docs/examples/why/{file}.yaml" for file in files]
    options = [word for source in sources for word in ("--cluster", source)]
    printed = command("why", name, *options, "-o", "json").stdout
    assert forewarn.why(forewarn.load(*sources), name).to_dict() == json.loads(printed)


def test_expectations() -> None:
    path = "docs/examples/test/expectations.yaml"
    result = forewarn.test(forewarn.load(CLUSTER), [path])
    printed = command("test", path, "--cluster", CLUSTER, "-o", "json").stdout
    assert json.loads(json.dumps(result.to_dict())) == json.loads(printed)
    assert repr(result).startswith("<Expectations {'")


@pytest.mark.parametrize("cluster", ["", CLUSTER])
def test_lint_finds_what_the_command_finds(cluster: str) -> None:
    files, options = "docs/examples/audit", ("--cluster", cluster) if cluster else ()
    result = forewarn.lint(files, forewarn.load(cluster) if cluster else None)
    printed = json.loads(command("lint", files, "-o", "json", "--exit-zero", *options).stdout)
    assert json.loads(json.dumps(result.to_dict())) == printed
    assert [(f.rule, str(f.severity), f.file, f.line, f.column, f.message, f.fix) for f in result.findings] == [
        tuple(finding[key] for key in ("rule", "severity", "file", "line", "column", "message", "remediation"))
        for finding in printed["findings"]
    ]
    assert len(repr(result)) < 100 > max(map(len, map(repr, result.findings))) - 300


def test_lint_selects_rules_and_names_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").mkdir()
    (tmp_path / "b.yaml").write_text("kind: Pod\napiVersion: v1\nmetadata: {name: b}\nspec: {priorityClassName: x}\n")
    result = forewarn.lint([str(tmp_path / "b.yaml")], select=["unknown-priority-class"])
    assert {finding.rule for finding in result.findings} <= {"unknown-priority-class"}
    with pytest.raises(ValueError, match='no rule "unknwon-priority-class"'):
        forewarn.lint([str(tmp_path)], ignore=["unknwon-priority-class"])


def test_audit_finds_what_the_command_finds() -> None:
    cluster = "docs/examples/audit/cluster.yaml"
    result = forewarn.audit(forewarn.load(cluster))
    printed = command("audit", "--cluster", cluster, "-o", "json", "--exit-zero").stdout
    assert json.loads(json.dumps(result.to_dict())) == json.loads(printed)
    assert repr(result) == "<Audit: 11 objects, 7 findings>"
