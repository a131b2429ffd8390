"""Reports for CI: each in its format, with what its reader asks for, whatever the input says."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from forewarn.policies.base.findings import NO_LOCATION, NO_OBJECT, Finding, Severity, Text
from forewarn.policies.cli.commands import lint
from forewarn.policies.cli.main import main
from forewarn.policies.cli.render import sarif
from forewarn.policies.cli.render.report import ENTRIES, json_parts
from forewarn.policies.linting.lint.input import Input
from forewarn.policies.linting.rules import RULES
from forewarn.policies.questions.application.findings import Report
from forewarn.policies.questions.application.lint import SourceLines
from tests.in_process import forewarn

CLASS = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 5\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {priorityClassName: %s}\n"
PINNED = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  priority: 6\n  priorityClassName: gold\n"
WIDE = 'apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {nodeSelector: {"ä": "ö"}, priorityClassName: glod}\n'


def _lint(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GITHUB_")}
    return forewarn("lint", *arguments, cwd=directory, environment={**environment, **variables})


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "pod.yaml").write_text(WIDE)
    (tmp_path / "class.yaml").write_text(CLASS)
    (tmp_path / "hostile.json").write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a|b`c<script>\n::error::x%0A]]>\x1b\ud800"},
                "spec": {"priorityClassName": "\x00&\"'<|"},
            }
        )
    )
    return tmp_path


def _json(tree: Path, form: str) -> Any:
    return json.loads(_lint(tree, "-q", "-o", form, "--closed").stdout)


def test_several_reports_are_written_in_one_run(tree: Path) -> None:
    forms = ("json", "sarif", "junit", "gitlab", "github", "rdjson", "markdown")
    given = [argument for form in forms for argument in ("-o", f"{form}=out.{form}")]
    done = _lint(tree, "-o", "text", *given)
    assert "unknown-priority-class" in done.stdout
    assert all("unknown-priority-class" in (tree / f"out.{form}").read_text() for form in forms)
    rejected = _lint(tree, "-o", "text", "-o", "json")
    assert (rejected.returncode, "several formats on standard output" in rejected.stderr) == (2, True)
    assert 'did you mean "sarif"?' in _lint(tree, "-o", "sarfi").stderr


def test_json_is_versioned_and_findings_have_fingerprints(tree: Path) -> None:
    report = _json(tree, "json")
    assert report["version"] == 1
    marks = [finding["fingerprint"] for finding in report["findings"]]
    assert len(set(marks)) == len(marks) == 2
    (tree / "a b" / "pod.yaml").write_text("# moved\n\n" + WIDE)
    assert [finding["fingerprint"] for finding in _json(tree, "json")["findings"]] == marks


def test_sarif_has_what_code_scanning_asks_for(tree: Path) -> None:
    (run,) = _json(tree, "sarif")["runs"]
    assert run["columnKind"] == "unicodeCodePoints"
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region.keys() == {"startLine", "startColumn", "endLine", "endColumn"}
        assert result["partialFingerprints"]["primaryLocationLineHash"]
    first = run["results"][0]["locations"][0]["physicalLocation"]
    assert first["artifactLocation"]["uri"] == "a%20b/pod.yaml"
    assert first["region"]["startColumn"] == 53
    texts = [rule[key]["text"] for rule in rules for key in ("shortDescription", "fullDescription", "help")]
    assert all(0 < len(text) <= 1024 for text in texts)


def test_the_fixes_in_sarif_are_those_of_fix(tmp_path: Path) -> None:
    path = tmp_path / "a b.yaml"
    path.write_text(CLASS + "---\n" + WIDE + "---\n" + PINNED + "---\n" + POD.replace("Class", "Clas") % ("u", "gold"))
    lines = path.read_text().split("\n")
    results = _json(tmp_path, "sarif")["runs"][0]["results"]
    assert {result["ruleId"] for result in results if "fixes" in result} == {
        "unknown-priority-class",
        "priority-mismatch",
    }
    assert len(results) > 2
    changes = [fix["artifactChanges"][0] for result in results for fix in result.get("fixes", ())]
    for change in sorted(changes, key=lambda c: -c["replacements"][0]["deletedRegion"]["startLine"]):
        assert change["artifactLocation"]["uri"] == "a%20b.yaml"
        (replacement,) = change["replacements"]
        region = replacement["deletedRegion"]
        first, last = region["startLine"] - 1, region["endLine"] - 1
        text = lines[first][: region["startColumn"] - 1] + replacement["insertedContent"]["text"]
        lines[first : last + 1] = [text + lines[last][region["endColumn"] - 1 :]]
    _lint(tmp_path, "--fix", "--closed")
    assert "\n".join(lines) == path.read_text()


def test_sarif_has_the_help_of_each_rule_in_itself() -> None:
    """A page of documentation has no address yet, and a reader of SARIF may have no network."""
    found = [Finding(NO_LOCATION, Severity.ERROR, rule.ID, NO_OBJECT, Text("m")) for rule in RULES]
    report = Report(found, (), len(found), {}, lambda _file, _line: None, 0)
    (run,) = json.loads("".join(sarif.render(report, "0")))["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert sorted(rule["id"] for rule in rules) == sorted(rule.ID for rule in RULES)
    assert all("**Fix:**" in rule["help"]["markdown"] and "helpUri" not in rule for rule in rules)


def test_rdjson_counts_bytes(tree: Path) -> None:
    first = _json(tree, "rdjson")["diagnostics"][0]
    line = WIDE.splitlines()[3].encode()
    span = first["location"]["range"]
    assert line[span["start"]["column"] - 1 : span["end"]["column"] - 1] == b"glod"


def test_gitlab_has_one_entry_a_finding_that_begins_with_the_rule(tree: Path) -> None:
    entries = _json(tree, "gitlab")
    assert len({entry["fingerprint"] for entry in entries}) == 2
    for entry in entries:
        assert entry["description"].startswith(("unknown-priority-class: ", "priority-class-name-invalid: "))
        assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert entry["location"]["lines"]["begin"] >= 1


def test_junit_is_xml_with_a_case_a_finding_and_a_clean_file(tree: Path) -> None:
    root = ElementTree.fromstring(_lint(tree, "-q", "-o", "junit", "--closed").stdout.encode())
    (suite,) = root
    assert suite.attrib["failures"] == "2"
    assert int(suite.attrib["tests"]) == len(suite) == 3
    names = [(case.attrib["classname"], case.attrib["name"]) for case in suite]
    assert len(set(names)) == 3
    assert names[-1] == ("class.yaml", "lint")


def test_warnings_and_notes_are_no_failures_in_junit(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("---\n".join((CLASS, WIDE, POD % ("n", "gold"))))  # n: a boolean in YAML 1.1
    levels = [finding["severity"] for finding in _json(tmp_path, "json")["findings"]]
    assert {"error", "warning"} <= {*levels}
    (suite,) = ElementTree.fromstring(_lint(tmp_path, "-q", "-o", "junit", "--closed").stdout.encode())
    assert (suite.attrib["tests"], suite.attrib["failures"]) == (str(len(levels)), str(levels.count("error")))
    failures = [failure.attrib["type"] for failure in suite.iter("failure")]
    assert failures == ["error"] * levels.count("error")


def test_github_gets_no_more_than_it_shows_the_worst_first_and_the_rest_in_the_summary(tree: Path) -> None:
    (tree / "many.yaml").write_text("---\n".join(POD % (f"p{i}", f"none-{i}") for i in range(12)))
    summary = tree / "summary.md"
    done = _lint(tree, "--closed", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
    commands = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert len(commands) == 10
    assert all(line.startswith("::error file=") for line in commands)
    assert "file=a b/pod.yaml,line=4,col=" in commands[0]
    assert summary.read_text().count("| error |") == 14
    assert "::" not in _lint(tree, "--closed", "-q").stdout.replace("::error::x", "")


def test_text_shows_so_many_of_a_rule_and_says_how_many_more(tree: Path) -> None:
    many = [POD % (f"p{i}", f"none-{i}") for i in range(130)]
    (tree / "many.yaml").write_text("---\n".join(many))
    (tree / "more.yaml").write_text("---\n".join(many[:20]).replace("name: p", "name: q"))
    (tree / "z.yaml").write_text(POD.replace("Class", "Clas") % ("z", "gold"))
    done = _lint(tree, "--closed")
    heads = [line for line in done.stdout.splitlines() if line.startswith("./")]
    assert len(heads) == 102, "a hundred of one rule, and those of the others"
    assert done.stdout.splitlines()[-1] == (
        "and 51 more of unknown-priority-class in 2 files: --max-per-rule 0 shows all"
    )
    assert done.stderr.startswith("153 errors: ")
    for given, count in (("0", 153), ("7", 9)):
        shown = _lint(tree, "--closed", "--max-per-rule", given, "-q").stdout
        assert (len(re.findall(r"^\./", shown, re.MULTILINE)), "more of" in shown) == (count, count < 153)
    for form in ("json", "gitlab", "rdjson", "junit"):
        assert _lint(tree, "--closed", "-q", "-o", form).stdout.count("none-129") >= 1
    assert _lint(tree, "--max-per-rule", "-1").returncode == 2


def test_sarif_says_what_it_leaves_out(tree: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setattr(sarif, "MAX_RESULTS", 1)
    assert main(["lint", "--closed", "-q", "-o", "sarif", str(tree)]) == 1
    said = capfd.readouterr()
    assert len(json.loads(said.out)["runs"][0]["results"]) == 1
    assert said.err == "sarif: the worst 1 of 2 findings (the limit of GitHub)\n"


@pytest.mark.parametrize("entries", [[], [1], [{"a": []}, "b\n", {"c": {"d": ["\0"]}}]])
@pytest.mark.parametrize("document", [ENTRIES, {"a": {"b": ENTRIES}, "c": [1]}, {"a": [{"b": ENTRIES, "c": {}}]}])
@pytest.mark.parametrize("indent", [1, 2])
def test_json_in_parts_is_the_same_as_in_one(document: Any, entries: list[Any], indent: int) -> None:
    text = json.dumps(document).replace(json.dumps(ENTRIES), json.dumps(entries))
    assert "".join(json_parts(document, iter(entries), indent)) == json.dumps(json.loads(text), indent=indent)


@pytest.mark.parametrize("form", ["json", "sarif", "gitlab", "rdjson", "junit"])
def test_no_report_is_held_as_a_whole(form: str) -> None:
    """Written entry by entry: what is held of 2,000 findings is much less than what they come to as text."""
    place = NO_LOCATION._replace(file="a.yaml", line=1, column=1, end_column=2)
    found = Finding(place, Severity.ERROR, "parse-error", NO_OBJECT, Text("m" * 5_000))
    findings = [found._replace(path=str(number)) for number in range(2_000)]
    gc.collect()
    gc.freeze()  # the more objects there are, the later cycles are collected; other tests leave many
    threshold = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # other tests start the webhook, which raises it for the whole process
    tracemalloc.start()
    try:
        with open(os.devnull, "w") as stream:
            lint._print(form, Report(findings, ["a.yaml"], 1, {}, lambda *_: "a"), stream, False, 0)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()
        gc.set_threshold(*threshold)
        gc.unfreeze()


def test_lines_of_few_files_are_kept(tmp_path: Path) -> None:
    given = Input()
    given.texts = {str(number): b"a\nb" for number in range(100)}
    lines = SourceLines(given)
    assert {lines.line_of(name, 2) for name in given.texts} == {"b"}
    assert lines._lines.cache_info().currsize < 10


def test_markdown_says_nothing_that_markdown_would_take_for_its_own(tree: Path) -> None:
    report = _lint(tree, "-q", "-o", "markdown", "--closed").stdout
    rows = [line for line in report.splitlines() if line.startswith("| error")]
    assert len(rows) == 2
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows)
    assert "<script>" not in report


def test_colour_is_forced_and_forbidden(tree: Path) -> None:
    assert "\033[" in _lint(tree, FORCE_COLOR="1").stdout
    assert "\033[" not in _lint(tree, FORCE_COLOR="1", NO_COLOR="1").stdout


def test_small_flags(tree: Path) -> None:
    assert _lint(tree, "-q").stderr == ""
    assert (_lint(tree, "--closed").returncode, _lint(tree, "--closed", "--exit-zero").returncode) == (1, 0)
    listed = _lint(tree, "--list-files", "--exclude", "*.json")
    assert listed.stdout.splitlines() == ["./a b/pod.yaml", "./class.yaml"]
    assert listed.stderr == "skipped: ./hostile.json (excluded file)\n"
    assert "left out: excluded file (1)" in _lint(tree, "--exclude", "*.json").stderr
    assert _lint(tree, "--select", "parse-error", "--closed").returncode == 0
    ignored = "unknown-priority-class,priority-class-name-invalid"
    assert _lint(tree, "--ignore", ignored, "--closed").stdout == ""
    wrong = _lint(tree, "--ignore", "unknown-priority-clas")
    assert (wrong.returncode, 'did you mean "unknown-priority-class"?' in wrong.stderr) == (2, True)
    named = subprocess.run(
        [sys.executable, "-m", "forewarn", "lint", "-v", "-", "--stdin-filename", "x/pod.yaml"],
        input=WIDE, capture_output=True, text=True, check=False,
        timeout=500,
    )  # fmt: skip
    assert named.stdout.startswith("x/pod.yaml:4:")
