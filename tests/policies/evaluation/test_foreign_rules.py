"""Rules of other packages: found by their entry points, and reported if they fail."""

from __future__ import annotations

import json
import re
import sys
from configparser import ConfigParser
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli.commands.explain import findings_of
from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import ConfigError
from forewarn.policies.linting.evaluation.foreign_rules import GROUP, Guarded

TEMPLATE = Path(__file__).parents[3] / "docs/examples/rule"
RULE = "company.class-label"
MANIFESTS = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: gold
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {priorityClassName: goold}
"""


def installed(directory: Path, entry_points: str, name: str = "company_rules", **modules: str) -> None:
    """A distribution in a directory, as pip leaves it."""
    info = directory / f"{name}-1.0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entry_points}\n")
    for name, text in modules.items():
        (directory / f"{name}.py").write_text(text)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on sys.path, and a working directory with manifests and a configuration."""
    directory = tmp_path / "packages"
    directory.mkdir()
    monkeypatch.syspath_prepend(str(directory))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(MANIFESTS)
    (tmp_path / ".forewarn.yaml").write_text(f"rules: [{RULE}]\n")
    return directory


@pytest.fixture
def template(packages: Path) -> Path:
    """The template of the guide, installed."""
    setup = ConfigParser()
    setup.read(TEMPLATE / "setup.cfg")
    installed(packages, setup["options.entry_points"][GROUP].strip())
    (packages / "company_rules").symlink_to(TEMPLATE / "company_rules")
    return packages


def linted(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    """The findings on the manifests; the misspelt class is always one."""
    main(["lint", "a.yaml", "-o", "json", *options])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return found


@pytest.mark.usefixtures("template")
def test_the_template_is_a_rule_like_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, other = linted(capsys)
    assert (mine["rule"], mine["severity"], mine["line"], mine["column"]) == (RULE, "warning", 4, 9)
    assert other["rule"] == "unknown-priority-class"
    assert len(linted(capsys, "--ignore", RULE)) == 1
    assert [found["rule"] for found in linted(capsys, "--select", RULE)] == [RULE]
    assert main(["explain", RULE]) == 0
    assert "must know who to ask" in capsys.readouterr().out
    assert main(["lint", "--list-rules"]) == 0
    assert RULE in capsys.readouterr().out
    assert main(["lint", "a.yaml", "-o", "sarif", "--exit-zero"]) == 0
    assert RULE in capsys.readouterr().out
    with (tmp_path / ".forewarn.yaml").open("a") as config:
        config.write(
            f"severities: {{{RULE}: error}}\nsuppressions: [{{rules: [{RULE}], reason: r, paths: [b.yaml]}}]\n"
        )
    assert linted(capsys)[0]["severity"] == "error"
    (tmp_path / "a.yaml").write_text(MANIFESTS.replace("name: gold", f"name: gold  # forewarn: ignore[{RULE}] old", 1))
    assert len(linted(capsys)) == 1


@pytest.mark.usefixtures("template")
def test_the_examples_of_the_template_are_right() -> None:
    rule: Any = import_module("company_rules.class_label")
    assert [finding.rule for finding in findings_of(rule, "Bad")] == [RULE]
    assert findings_of(rule, "Good") == []


def test_the_guide_shows_the_template() -> None:
    guide = (TEMPLATE.parents[1] / "guides/write-a-rule.md").read_text()
    assert (TEMPLATE / "company_rules/class_label.py").read_text() in guide
    entry = (TEMPLATE / "setup.cfg").read_text().partition("[options.entry_points]\n")[2]
    assert re.sub("^", " " * 8, entry.rstrip(), flags=re.MULTILINE) in guide


def rule_with(body: str, rule: str = RULE) -> str:
    """A module that is a rule, but for this."""
    text = (TEMPLATE / "company_rules/class_label.py").read_text().replace(RULE, rule)
    return text[: text.index("    labels =")] + f"    {body}\n    yield\n"


BROKEN = {
    "raises": ("1 / 0", "not evaluated: the rule failed: ZeroDivisionError: division by zero"),
    "exits": ("raise SystemExit(0)", "not evaluated: the rule failed: SystemExit: 0"),
    "nonsense": ("yield 'x'", "not evaluated: the rule failed: TypeError: check must yield Problem, not str"),
    "message": ("yield Problem(lambda _: 1 / 0)", "message and remediation must be strings"),
    "path": ("yield Problem('x', ['a'])", "path must be a tuple of keys and indexes"),
    "detail": ("yield Problem('x', detail={'x': object()})", "Object of type object is not JSON serializable"),
    "severity": ("yield Problem('x', severity='bad')", "severity must be a Severity or None"),
    "recursion": ("check(subject, context).send(None)", "RecursionError"),
    "list": ("return 1", ""),
}


@pytest.mark.parametrize(("body", "said"), list(BROKEN.values()), ids=list(BROKEN))
def test_a_rule_that_fails_is_reported_and_the_others_go_on(
    body: str, said: str, packages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(packages, f"{RULE} = broken_rule", broken_rule=rule_with(body))
    sys.modules.pop("broken_rule", None)
    found = {each["rule"]: each for each in linted(capsys)}
    assert "unknown-priority-class" in found
    if said:
        assert said in found[RULE]["message"]
        assert (found[RULE]["severity"], found[RULE]["line"]) == ("warning", 4)


def test_a_rule_cannot_change_the_object_for_other_rules_and_files(packages: Path) -> None:
    (packages / "changing_rule.py").write_text(rule_with("subject.object['metadata']['name'] = 'x'; return []"))
    sys.modules.pop("changing_rule", None)
    rule: Any = Guarded(import_module("changing_rule"))
    subject = ReviewedObject({"metadata": {"name": "gold"}})
    assert list(rule.check(subject, None)) == []
    assert subject.object["metadata"]["name"] == "gold"


UNLOADED = {
    "no module": ("gone_rule", "", "cannot be loaded: ModuleNotFoundError: No module named 'gone_rule'"),
    "fails at import": ("bad_rule", "1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
    "exits at import": ("bad_rule", "raise SystemExit(0)", "cannot be loaded: SystemExit: 0"),
    "no rule": ("bad_rule", "", "cannot be loaded: AttributeError: module 'bad_rule' has no attribute 'ID'"),
    "other id": ("bad_rule", rule_with("", "company.other"), "not 'company.other'"),
    "no documentation": ("bad_rule", rule_with("").replace("Why:", "W:"), "needs Why, Bad, Good and Fix"),
    "no targets": ("bad_rule", rule_with("").replace("(Target.PRIORITY_CLASS,)", "()"), "TARGETS must be a tuple"),
    "no severity": ("bad_rule", rule_with("").replace("Severity.WARNING", "'error'"), "SEVERITY must be a Severity"),
    "no check": ("bad_rule", rule_with("").partition("def check")[0] + "check = 1\n", "check must be a function"),
}


@pytest.mark.parametrize(("module", "text", "said"), list(UNLOADED.values()), ids=list(UNLOADED))
def test_a_rule_that_cannot_be_loaded_is_reported_once(
    module: str, text: str, said: str, packages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(packages, f"{RULE} = {module}", **({"bad_rule": text} if module == "bad_rule" else {}))
    sys.modules.pop("bad_rule", None)
    broken, other = sorted(linted(capsys), key=lambda each: str(each["rule"]))
    assert (broken["rule"], broken["severity"]) == (RULE, "warning")
    assert said in broken["message"]
    assert other["rule"] == "unknown-priority-class"
    assert main(["explain", RULE]) == 2
    assert said in capsys.readouterr().err


def test_a_rule_that_nobody_or_more_than_one_brings_is_reported(
    packages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no installed package has this rule" in linted(capsys)[0]["message"]
    main(["lint", "a.yaml", "-q", "--select", RULE])
    out = capsys.readouterr().out
    assert out.startswith(f"warning: not evaluated: no installed package has this rule [{RULE}]\n")
    assert ".forewarn.yaml" in out
    installed(packages, f"{RULE} = a_rule")
    installed(packages, f"{RULE} = other_rule", "other_rules")
    assert "2 packages have a rule of this id" in linted(capsys)[0]["message"]


def test_rules_are_named_in_the_configuration_before_they_are_configured() -> None:
    config = read_config(f"severities: {{{RULE}: note}}\nrules: [{RULE}]", "f")
    assert (config.rules, config.foreign) == ((RULE,), ())
    for text in (
        "rules: [mine]",
        "rules: [quota-exceeded]",
        f"severities: {{{RULE}: note}}",
        f"actions: {{{RULE}: warn}}",
    ):
        with pytest.raises(ConfigError):
            read_config(text, "f")
