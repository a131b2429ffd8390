"""What holds for every rule, so that a new one cannot forget it."""

from __future__ import annotations

import pkgutil
import re
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

import policies.rules
from policies.cluster import Cache, ClusterSnapshot
from policies.commands.lint import as_update
from policies.config import Config, read_config
from policies.evaluator import Phase, evaluate
from policies.kinds import LINTED, POD_TEMPLATE_PATHS
from policies.manifests import read
from policies.objects.subject import Apply, Operation, Subject
from policies.rules import RULES
from policies.rules.context import About, Rule
from policies.rules.documentation import Example, documentation_of

SUPPORT = {"audience", "context", "documentation", "impact", "quota_scopes", "quota_use", "wording"}
WANTED = frozenset((*LINTED, *POD_TEMPLATE_PATHS))
NOW = datetime(2026, 1, 1, tzinfo=UTC)

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.ID)


def test_every_module_is_in_the_list_and_every_listed_rule_is_a_module() -> None:
    modules = {module.name for module in pkgutil.iter_modules(policies.rules.__path__)} - SUPPORT
    assert {rule.ID.replace("-", "_") for rule in RULES} == modules
    assert len({rule.ID for rule in RULES}) == len(RULES)


@each_rule
def test_a_rule_is_documented_in_a_sentence_with_why_examples_and_fix(rule: Rule) -> None:
    documentation = documentation_of(rule)
    assert re.fullmatch(r"[^\n]{10,118}\.", documentation.what)
    assert documentation.why.endswith(".")
    assert rule.ABOUT


@each_rule
def test_the_bad_example_gives_this_rule_alone(rule: Rule) -> None:
    (bad,) = [example for example in documentation_of(rule).examples if example.heading == "Bad"]
    assert {finding.rule for finding in _judge(rule, "Bad")} == {rule.ID, bad.also} - {""}


@each_rule
def test_the_good_example_gives_nothing(rule: Rule) -> None:
    assert _judge(rule, "Good") == []


@each_rule
def test_messages_are_lower_case_short_and_without_a_full_stop(rule: Rule) -> None:
    for finding in _judge(rule, "Bad"):
        first = finding.message.split(". ")[0]
        assert len(first) <= 120 or finding.action == "deny", first
        assert not finding.message.endswith("."), finding.message
        assert "\n" not in finding.message


def _judge(rule: Rule, heading: str) -> list[Any]:
    """The findings on one example of a rule, as the linter has them, or the webhook where the example says so."""
    examples = documentation_of(rule).examples
    cluster = _cluster([e for e in examples if e.heading == "Cluster"])
    (example,) = [e for e in examples if e.heading == heading]
    reading = read(example.yaml, "example.yaml", WANTED)
    if About.FILE not in rule.ABOUT:
        assert not reading.remarks
        assert reading.subjects
    phase = Phase.VALIDATE if example.mode == "validate" else Phase.LINT
    subjects = [_as(subject, example, cluster) for subject in reading.subjects]
    (config,) = [read_config(e.yaml, "f") for e in examples if e.heading == "Options"] or [Config()]
    return evaluate(Apply(tuple(subjects), reading.remarks), cluster, config, phase=phase, now=NOW)


def _as(subject: Subject, example: Example, cluster: ClusterSnapshot | None) -> Subject:
    if example.mode == "DELETE":
        return Subject({}, Operation.DELETE, old=subject.object)
    return subject if example.mode == "validate" else as_update(subject, cluster)


def _cluster(examples: list[Example]) -> ClusterSnapshot | None:
    if not examples:
        return None
    cache = Cache()
    for example in examples:
        for obj in yaml.safe_load_all(example.yaml):
            cache.add(obj)
    return cache.snapshot()
