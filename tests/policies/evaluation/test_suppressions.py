"""What is known and not told again: a rule, a reason, perhaps an end; what is of no use is told."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.base.findings import Location, Severity
from forewarn.policies.linting.evaluation.suppressions import Suppression, suppress
from forewarn.policies.linting.rules import RULES
from tests.in_process import forewarn

if TYPE_CHECKING:
    from pathlib import Path

    from forewarn.policies.linting.rules.support.context import Rule

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a%s}\nspec:\n  priorityClassName: gold%s\n  containers: []\n"
NOTE = "priority-class-not-checked"


def _lint(directory: Path, text: str, *arguments: str) -> tuple[list[str], str]:
    (directory / "pod.yaml").write_text(text)
    done = forewarn("lint", "-v", "--fail-on", "never", *arguments, cwd=directory)
    heads = [line for line in done.stdout.splitlines() if line.endswith("]") and line.startswith("./")]
    return [f"{line.split(':')[1]} {line.rsplit('[', 1)[1][:-1]}" for line in heads], done.stdout + done.stderr


IGNORED = {
    "behind the value": POD % ("", f" # forewarn: ignore[{NOTE}] made elsewhere"),
    "above it": (POD % ("", "")).replace("  priority", f"  # forewarn: ignore[{NOTE}] made elsewhere\n\n  priority"),
    "above the document": f"# forewarn: ignore[{NOTE}] made elsewhere until=2999-01-31\n" + POD % ("", ""),
    "above the second": "a: 1\n---\n# x\n# forewarn: ignore[" + NOTE + "] made elsewhere\n" + POD % ("", ""),
    "annotation": POD % (f', annotations: {{forewarn.dev/ignore: "{NOTE} made elsewhere"}}', ""),
    "several": POD % (f', annotations: {{forewarn.dev/ignore: "parse-error,{NOTE} for now until=2999-01-01"}}', ""),
}


@pytest.mark.parametrize("text", IGNORED.values(), ids=IGNORED)
def test_what_is_suppressed_is_counted_and_not_told(tmp_path: Path, text: str) -> None:
    told, printed = _lint(tmp_path, text, "--ignore", "unused-suppression")
    assert told == []
    assert "(1 suppressed)" in printed


FAULTS = {
    "no reason": (f" # forewarn: ignore[{NOTE}]", "suppression of priority-class-not-checked has no reason"),
    "no rule": (" # forewarn: ignore[priority-class-not-checkd] x", 'did you mean "priority-class-not-checked"?'),
    "no grammar": (" # forewarn: be quiet", "malformed suppression: no rule and reason"),
    "no date": (f" # forewarn: ignore[{NOTE}] x until=soon", '"soon" is not a date such as until=2027-01-31'),
    "expired": (f" # forewarn: ignore[{NOTE}] migration until=2020-01-31", "expired on 2020-01-31: migration"),
}


@pytest.mark.parametrize(("comment", "said"), FAULTS.values(), ids=FAULTS)
def test_a_suppression_that_says_too_little_or_is_over_is_a_finding(tmp_path: Path, comment: str, said: str) -> None:
    told, printed = _lint(tmp_path, POD % ("", comment))
    assert told == ["5 invalid-suppression", f"5 {NOTE}"]
    assert said in printed


def test_one_that_suppresses_nothing_is_a_finding(tmp_path: Path) -> None:
    told, printed = _lint(tmp_path, POD % ("", " # forewarn: ignore[pinned-priority] x"))
    assert told == ["5 unused-suppression", f"5 {NOTE}"]
    assert "suppresses nothing: no finding of pinned-priority here" in printed
    assert _lint(tmp_path, POD % ("", " # forewarn: ignore[fits-nowhere] needs a cluster"))[0] == [f"5 {NOTE}"]


def test_configuration_suppresses_by_path_and_object(tmp_path: Path) -> None:
    config = tmp_path / ".forewarn.yaml"
    entry = "suppressions:\n- {rules: [%s], %s, reason: known}\n"
    for condition in (
        "paths: [pod.yaml]",
        "paths: [./pod.*]",
        "objects: ['Pod default/*']",
        "paths: ['*.yaml'], objects: ['Pod */a']",
    ):
        config.write_text(entry % (NOTE, condition))
        assert _lint(tmp_path, POD % ("", ""))[0] == []
    config.write_text(entry % ("pinned-priority", "paths: [pod.yaml]"))
    printed = _lint(tmp_path, POD % ("", ""))[1]
    assert "suppresses nothing: no finding of pinned-priority here [unused-suppression]" in printed
    config.write_text("suppressions:\n- {rules: [parse-error], reason: x}\n")
    assert "suppresses the rules everywhere" in _lint(tmp_path, POD % ("", ""))[1]
    config.write_text("suppressions:\n- {rules: [parse-error], paths: [a], reason: x, until: soon}\n")
    assert "suppressions[0].until: must be a date" in _lint(tmp_path, POD % ("", ""))[1]


def test_a_baseline_knows_findings_by_rule_object_and_field_never_by_line(tmp_path: Path) -> None:
    _lint(tmp_path, POD % ("", ""), "--write-baseline", "known.json")
    told, printed = _lint(tmp_path, "# moved\n\n" + POD % ("", ""), "--baseline", "known.json")
    assert (told, "(1 suppressed)" in printed) == ([], True)
    again = POD % ("", "") + "---\n" + POD % ("b", "")
    assert _lint(tmp_path, again, "--baseline", "known.json")[0] == [f"12 {NOTE}"]
    told, printed = _lint(tmp_path, POD % ("b", ""), "--baseline", "known.json")
    assert "1 finding of the baseline no longer found; update it with --write-baseline" in printed
    _lint(tmp_path, POD % ("b", ""), "--write-baseline", "known.json")
    (entry,) = json.loads((tmp_path / "known.json").read_text())["findings"]
    assert entry["name"] == "ab"
    (tmp_path / "known.json").write_text("[]")
    assert "not a baseline" in _lint(tmp_path, POD % ("", ""), "--baseline", "known.json")[1]


MISMATCH = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  priorityClassName: gold
  priority: 7 # forewarn: ignore[priority-mismatch] resolved elsewhere
  containers: []
"""
GOLD = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 5\n"


def test_a_suppression_that_is_used_with_a_cluster_is_not_unused_without_it(tmp_path: Path) -> None:
    (tmp_path / "cluster").write_text(GOLD)
    only = ("--select", "priority-mismatch,unused-suppression")
    told, printed = _lint(tmp_path, MISMATCH, *only, "--cluster", "cluster")
    assert (told, "(1 suppressed)" in printed) == ([], True), printed
    assert _lint(tmp_path, MISMATCH, *only)[0] == []


def test_a_suppression_that_is_used_without_a_cluster_is_not_unused_with_it(tmp_path: Path) -> None:
    (tmp_path / "cluster").write_text(GOLD)
    only = ("--select", f"{NOTE},unused-suppression")
    suppressed = POD % ("", f" # forewarn: ignore[{NOTE}] made elsewhere")
    assert "(1 suppressed)" in _lint(tmp_path, suppressed, *only)[1]
    assert _lint(tmp_path, suppressed, *only, "--cluster", "cluster")[0] == []


def test_a_suppression_of_a_rule_that_does_not_run_is_not_unused(tmp_path: Path) -> None:
    suppressed = POD % ("", f" # forewarn: ignore[{NOTE}] made elsewhere")
    assert _lint(tmp_path, suppressed, "--ignore", NOTE)[0] == []


def test_a_suppression_of_unknown_field_is_unused_if_the_release_is_known(tmp_path: Path) -> None:
    text = POD % ("", " # forewarn: ignore[unknown-field] of 1.35")
    only = ("--select", "unknown-field,unused-suppression")
    assert _lint(tmp_path, text, *only)[0] == []
    assert _lint(tmp_path, text, *only, "--kubernetes-version", "1.36")[0] == ["5 unused-suppression"]


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.DEPENDS_ON.stored], ids=lambda rule: str(rule.ID))
def test_without_a_cluster_no_suppression_of_a_rule_that_depends_on_one_is_unused(rule: Rule) -> None:
    comment = Suppression((rule.ID,), "known", Location("a.yaml", 1, 1, 2), lines=(1, 9))

    def unused(*, with_cluster: bool) -> list[str]:
        kept = suppress([], [comment], lambda _: Severity.WARNING, date(2026, 1, 1), with_cluster=with_cluster)[0]
        return [finding.rule for finding in kept]

    assert unused(with_cluster=False) == []
    assert unused(with_cluster=True) == ["unused-suppression"]
