"""The advice of every rule holds: its fix removes the finding, and brings no other one of the same severity."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from forewarn.policies.cli.commands import explain
from forewarn.policies.cli.commands.explain import findings_of
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.support.context import Rule, Target
from forewarn.policies.linting.rules.support.documentation import Example, documentation_of
from tests.cases import each

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Finding

each_rule = each(lambda: ((rule,) for rule in RULES if rule.SEVERITY is not None))


def _all_on(rule: Rule, text: str, heading: str = "Bad") -> list[Finding]:
    """All findings on a text in the place of an example of a rule."""
    examples = [replace(e, yaml=text) if e.heading == heading else e for e in documentation_of(rule).examples]
    (example,) = [e for e in examples if e.heading == heading]
    return explain._all_on(rule, example, examples)


def _example(rule: Rule, heading: str) -> Example:
    (example,) = [e for e in documentation_of(rule).examples if e.heading == heading]
    return example


@each_rule
def test_the_good_example_brings_no_other_finding_of_the_same_severity(rule: Rule) -> None:
    if Target.CLUSTER in rule.TARGETS:
        return  # the example is a whole cluster
    bad, good = (_all_on(rule, _example(rule, heading).yaml, heading) for heading in ("Bad", "Good"))
    severity = min(finding.severity for finding in bad if finding.rule == rule.ID)
    before = {finding.rule for finding in bad}
    assert [f for f in good if f.severity <= severity and f.rule not in before | {rule.ID}] == []


_SET = re.compile(r"(?:set|write) ([\w./-]+): ([\w./-]+)(?: and ([\w./-]+): ([\w./-]+))?")


def _applied(text: str, finding: Finding) -> str:
    """The text after a fix that names what to write or remove beside the field; "" for other fixes."""
    steps = [int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", finding.path)]
    match = _SET.fullmatch(finding.fix)
    is_removal = finding.fix in ("remove it", "remove the field", "remove priority", "remove preemptionPolicy")
    if not steps or not (match or is_removal):
        return ""
    documents = list(yaml.safe_load_all(text))
    names = (finding.object.kind, finding.object.name)
    for document in documents:
        if document and (document.get("kind"), document.get("metadata", {}).get("name", "")) == names:
            holder: Any = document
            for step in steps[:-1]:
                holder = holder[step]
            if is_removal:
                del holder[steps[-1]]
            elif match is not None:
                holder |= {key: yaml.safe_load(value) for key, value in (match.groups()[:2], match.groups()[2:]) if key}
    return yaml.safe_dump_all(documents, sort_keys=False)


APPLIED = 8
"""How many rules have a fix that this module can apply; more is better."""


def test_fixes_that_name_the_value_remove_the_finding() -> None:
    applied = set()
    for rule in (rule for rule in RULES if rule.SEVERITY is not None and Target.CLUSTER not in rule.TARGETS):
        text = _example(rule, "Bad").yaml
        for finding in (f for f in findings_of(rule, "Bad") if f.rule == rule.ID):
            if fixed := _applied(text, finding):
                applied.add(rule.ID)
                before = {f.rule for f in _all_on(rule, text)}
                left = [f for f in _all_on(rule, fixed) if (f.rule, f.message) == (rule.ID, finding.message)]
                assert left == [], (rule.ID, finding.fix)
                new = [f for f in _all_on(rule, fixed) if f.rule not in before and f.severity <= finding.severity]
                assert new == [], (rule.ID, finding.fix)
    assert len(applied) >= APPLIED, applied


POD = """apiVersion: v1
kind: Pod
metadata: {name: a, namespace: kube-system%s}
spec:
  containers: [{name: c, image: i}]
%s"""
STATIC = ", annotations: {kubernetes.io/config.source: file}"
DAEMON_SET = """apiVersion: apps/v1
kind: DaemonSet
metadata: {name: a, namespace: cost}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      priorityClassName: placeholder
      containers: [{name: c, image: pause}]
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: placeholder%s}
value: -5
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: web}
value: 1000
"""


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        pytest.param(POD % (STATIC, "  priority: 2000001000\n"), "remove", id="number of a static Pod"),
        pytest.param(POD % (STATIC, "  priorityClassName: system-node-critical\n"), "requests", id="static Pod"),
        pytest.param(POD % ("", "  priority: 2000001000\n"), "remove", id="number of a system class"),
        pytest.param(DAEMON_SET % "", "above|higher", id="placeholders"),
        pytest.param(
            POD % ("", "  priorityClassName: system-node-critical\n  priority: 2000001000\n"),
            "own class|remove",
            id="system class in a system namespace",
        ),
    ],
)
def test_advice_holds_for_special_objects(text: str, forbidden: str) -> None:
    fixes = [finding.fix for finding in _all_on(_RULE, text)]
    assert [fix for fix in fixes if re.search(forbidden, fix)] == []


(_RULE,) = [rule for rule in RULES if rule.ID == "priority-mismatch"]
