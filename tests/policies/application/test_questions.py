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
    result = ask(forewarn.load(CLUSTER), manifest)
    documents = [json.loads(json.dumps(result.to_dict()))]
    printed = command(name, "-f", TILL, "--cluster", CLUSTER, "-o", "json").stdout
    assert documents == [json.loads(line) for line in printed.splitlines()]


def test_an_error_of_one_object_leaves_the_predictions_of_the_others() -> None:
    good = yaml.safe_load(Path(TILL).read_text())
    bad = {**good, "metadata": {"name": "bad"}, "spec": {**good["spec"], "replicas": "x"}}
    result = forewarn.predict(forewarn.load(CLUSTER), [bad, good])
    assert [str(fault) for fault in result.faults] == [
        "Deployment default/bad: spec.replicas: must be an integer, not string"
    ]
    assert repr(result) == "<PredictResult 2 objects: 1 object rejected, the new Pod runs on b-2 by preemption>"


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
    verdicts = {row["name"]: row["met"] for row in json.loads(printed)["expectations"]}
    missed = [name for name, is_met in verdicts.items() if not is_met]
    assert (repr(result), len(missed)) == ("<Expectations 5 expectations: 2 failed>", 2)


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
    assert repr(result) == f"<Lint 1 file, {len(printed['findings'])} findings>"
    assert max(map(len, map(repr, result.findings))) < 400


def test_lint_selects_rules_and_names_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").mkdir()
    (tmp_path / "b.yaml").write_text("kind: Pod\napiVersion: v1\nmetadata: {name: b}\nspec: {priorityClassName: x}\n")
    file = str(tmp_path / "b.yaml")
    assert [repr(finding) for finding in forewarn.lint(file).findings] == [
        f'<note {file}:4: can\'t verify PriorityClass "x" [priority-class-not-checked]>'
    ]
    assert forewarn.lint([file], select=["unknown-priority-class"]).findings == []
    with pytest.raises(ValueError, match='no rule "unknwon-priority-class"'):
        forewarn.lint([str(tmp_path)], ignore=["unknwon-priority-class"])


def test_audit_finds_what_the_command_finds() -> None:
    cluster = "docs/examples/audit/cluster.yaml"
    result = forewarn.audit(forewarn.load(cluster))
    printed = command("audit", "--cluster", cluster, "-o", "json", "--exit-zero").stdout
    assert json.loads(json.dumps(result.to_dict())) == json.loads(printed)
    assert repr(result) == "<Audit audit of 11 objects: 1 error, unknown-priority-class>"


@pytest.mark.parametrize("version", ["1.34", "1.36"])
def test_lint_checks_for_the_version_of_the_cluster(version: str) -> None:
    cluster = forewarn.load(CLUSTER, kubernetes_version=version)
    result = forewarn.lint(TILL, cluster)
    printed = command("lint", TILL, "--cluster", CLUSTER, "--kubernetes-version", version, "-o", "json").stdout
    assert result.config.options.minor == int(version.removeprefix("1."))
    assert json.loads(json.dumps(result.to_dict())) == json.loads(printed)
