"""What holds for every rule, so that a new one cannot forget it."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from forewarn.policies.base.findings import Action, Problem, Severity
from forewarn.policies.base.metering import never
from forewarn.policies.cli.commands.explain import cluster_of, findings_of, reviewed
from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, ReviewedObject
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation import evaluator
from forewarn.policies.linting.evaluation.evaluator import _CLUSTER, Phase, _target
from forewarn.policies.linting.lint.fixes import FIXED, edits_of
from forewarn.policies.linting.lint.input import wanted_kinds
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.support.context import Context, Rule, Target, rule
from forewarn.policies.linting.rules.support.documentation import documentation_of
from forewarn.policies.linting.rules.support.rule_text import MAX_CHARACTERS
from forewarn.webhook.admission.decision import BEST, is_shortened, warnings_of
from tests.cases import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WANTED = wanted_kinds(Config())
NOW = datetime(2026, 1, 1, tzinfo=UTC)

each_rule = each(lambda: ((rule,) for rule in RULES))


def test_every_rule_is_a_function_of_its_name_and_is_found_once() -> None:
    decorated = sum(path.read_text().count("\n@rule(") for path in Path("policies/linting/rules").rglob("*.py"))
    assert all(getattr(import_module(rule.__module__), rule.ID.replace("-", "_")) is rule for rule in RULES)
    assert len({rule.ID for rule in RULES}) == len(RULES) == decorated >= 40


def test_an_example_stands_for_bad_and_good_and_abbreviates_heads() -> None:
    @rule(Target.POD)
    def sample(_: ReviewedObject, __: Context) -> Iterator[Problem]:
        """A rule.

        Why: a reason.

        Cluster:

            Namespace team
            ---
            Unknown kind

        Example (also other-rule):

              Pod team/web
              spec:
            -   a: 1
            +   b:
            +   - 2

        Fix: a fix.
        """
        yield from ()

    cluster, bad, good = documentation_of(sample).examples
    assert cluster.yaml == "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: team\n---\nUnknown kind\n"
    head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: team\nspec:\n"
    assert (bad.heading, bad.also, bad.yaml) == ("Bad", "other-rule", f"{head}  a: 1\n")
    assert (good.heading, good.also, good.yaml) == ("Good", "", f"{head}  b:\n  - 2\n")


class Looked(ClusterSnapshot):
    """A cluster that notes what anybody asks it for, but for its release, which is no stored object."""

    asked: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        asked = {*Looked.asked} if name.startswith("__") or name == "semantics" else {*Looked.asked, name}
        value = super().__getattribute__(name)
        Looked.asked = asked
        return value


def _looking(heading: str, shown: Rule) -> Callable[[Rule], set[str]]:
    """What of the cluster a rule asks for when it judges an example of `shown`."""
    examples = documentation_of(shown).examples
    whole = Target.CLUSTER in shown.TARGETS
    cluster = (
        cluster_of([e for e in examples if e.is_cluster_of(heading) or (whole and e.heading == heading)])
        or Cache().snapshot()
    )
    looked = Looked(**{field.name: getattr(cluster, field.name) for field in fields(cluster)})
    (config,) = [read_config(e.yaml, "f") for e in examples if e.heading == "Options"] or [Config()]
    (example,) = [e for e in examples if e.heading == heading]
    reading = read(example.yaml, "example.yaml", WANTED)
    phase = Phase.VALIDATE if example.mode == "validate" else Phase.LINT
    apply = ChangeSet(tuple(reviewed(subject, example, cluster) for subject in reading.subjects), reading.diagnostics)
    context = Context(apply, looked, config.options, phase, NOW, never)

    def looks_at(rule: Rule) -> set[str]:
        Looked.asked.clear()
        for subject in (_CLUSTER,) if whole else apply.subjects:
            if _target(subject, context) in rule.TARGETS:
                list(rule.check(subject, context))
        return {*Looked.asked}

    return looks_at


@each_rule
def test_a_rule_says_whether_it_goes_by_the_stored_cluster(shown: Rule) -> None:
    """Only whether: which objects it reads depends on the path through the rule."""
    if shown.DEPENDS_ON.stored:
        assert _looking("Bad", shown)(shown)
    for heading in ("Bad", "Good"):
        looks_at = _looking(heading, shown)
        assert [rule.ID for rule in RULES if not rule.DEPENDS_ON.stored and looks_at(rule)] == []


@each_rule
def test_a_rule_is_documented_in_a_sentence_with_why_examples_and_fix(rule: Rule) -> None:
    documentation = documentation_of(rule)
    assert re.fullmatch(r"[^\n]{10,118}\.", documentation.what)
    assert documentation.why.endswith(".")
    assert rule.TARGETS


@each_rule
def test_the_bad_example_gives_this_rule_and_no_other_error(rule: Rule) -> None:
    (bad,) = [example for example in documentation_of(rule).examples if example.heading == "Bad"]
    assert {finding.rule for finding in findings_of(rule, "Bad")} == {rule.ID, bad.also} - {""}


@each_rule
def test_the_bad_example_shows_the_default_severity(rule: Rule) -> None:
    severities = {finding.severity for finding in findings_of(rule, "Bad") if finding.rule == rule.ID}
    assert rule.SEVERITY in {*severities, None}


@each_rule
def test_the_good_example_gives_neither_this_rule_nor_an_error(rule: Rule) -> None:
    assert findings_of(rule, "Good") == []


@each_rule
def test_the_page_says_whether_lint_fix_changes_the_bad_example(rule: Rule) -> None:
    examples = documentation_of(rule).examples
    (bad,) = [example for example in examples if example.heading == "Bad"]
    cluster = cluster_of([e for e in examples if e.is_cluster_of("Bad")])
    found = findings_of(rule, "Bad") if rule.SEVERITY else []
    edits = edits_of(found, bad.yaml.encode(), cluster.priority_classes if cluster else ())
    assert any(edit.is_safe for _, edit in edits) == (rule.ID in FIXED)


class AlwaysANote(Rule):
    """A rule that has a note on everything."""

    ID = "always-a-note"
    TARGETS = tuple(Target)
    SEVERITY = Severity.NOTE
    ACTION = Action.AUDIT

    def check(self, subject: ReviewedObject, context: Context) -> Iterator[Problem]:
        """A note."""
        yield Problem("a note on everything")


def test_a_new_rule_with_notes_changes_no_example_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    more = {target: (*rules, AlwaysANote()) for target, rules in evaluator._RULES_BY_TARGET.items()}
    monkeypatch.setattr(evaluator, "_RULES_BY_TARGET", more)
    test_the_bad_example_gives_this_rule_and_no_other_error()
    test_the_good_example_gives_neither_this_rule_nor_an_error()


STYLE = json.loads((Path(__file__).parent / "style.json").read_text())
"""`banned`: pattern of a word -> what to write instead."""


def _faults_of_style(text: str) -> list[str]:
    """The banned words in a text, outside of code and of names."""
    prose = re.sub(r"`[^`]*`|\"[^\"]*\"|\([^)]*/[^)]*\)", "", text)
    return [
        f"{found[0]}: write {right}" for wrong, right in STYLE["banned"].items() if (found := re.search(wrong, prose))
    ]


@each_rule
def test_a_message_is_short_and_has_a_fix(rule: Rule) -> None:
    findings = [finding for finding in findings_of(rule, "Bad") if finding.rule == rule.ID]
    assert findings
    for finding in findings:
        assert 0 < len(finding.text.problem) <= MAX_CHARACTERS, finding.message
        assert 0 < len(finding.remediation) <= MAX_CHARACTERS, finding.remediation
        assert not finding.message.endswith("."), finding.message
        assert not finding.remediation.endswith("."), finding.remediation
        assert "\n" not in finding.message + finding.remediation
        assert str(finding.object).partition(" ")[2] not in finding.message.split()
        assert _faults_of_style(finding.message) == []
        assert _faults_of_style(finding.remediation) == []


@each_rule
def test_a_warning_has_the_problem_and_the_whole_fix(rule: Rule) -> None:
    for finding in findings_of(rule, "Bad"):
        (warning,) = warnings_of([finding])
        text = warning.removesuffix(f" [{finding.rule}]")
        problem, _, fix = text.rpartition(" Fix: ")
        assert fix == finding.remediation
        assert len(text) <= BEST
        assert is_shortened(finding) or problem.rstrip(".") == finding.message
        versions = (finding.message, finding.text.problem, *finding.text.shorter)
        assert any(version.startswith(problem.rstrip(".…")) for version in versions)


@each_rule
def test_the_documentation_has_no_banned_words(rule: Rule) -> None:
    documentation = documentation_of(rule)
    for text in (documentation.what, documentation.why, documentation.details, documentation.fix):
        assert _faults_of_style(text) == []
    for sentence in re.split(r"(?<=[.:;]) ", re.sub(r"`[^`]*`", "x", documentation.why)):
        assert len(sentence.split()) <= MAX_WORDS, sentence


MAX_WORDS = 30
