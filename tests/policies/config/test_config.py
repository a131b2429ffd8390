"""A configuration is read whole or refused, with the place and what would be right."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
import yaml

from forewarn.policies.base.findings import Action, Severity
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.namespace import Namespace
from forewarn.policies.kubernetes.objects.reviewed_object import User
from forewarn.policies.kubernetes.options import AllowedClasses, LimitedResource, ScopeSelector
from forewarn.policies.kubernetes.selectors import parse_label_selector
from forewarn.policies.linting.config.load import is_empty, load_config, read_config
from forewarn.policies.linting.config.model import Budget, Config, ConfigError, PredictionBudget, find_config
from forewarn.policies.linting.rules import RULES
from forewarn.policies.linting.rules.pod.classes import unknown_priority_class
from forewarn.policies.linting.rules.priority_class import global_default_not_unique
from forewarn.policies.linting.rules.support.context import Rule, Target

NOW = datetime(2026, 6, 1, tzinfo=UTC)
FULL = """\
actions:
  unknown-priority-class: audit
  priority-drift: off
severities:
  unknown-priority-class: warning
autoscalerCutoff: -5
podTemplatePaths:
  argoproj.io/Rollout: spec.template
limitedResources:
- resource: pods
  matchContains: [nvidia.com/gpu]
  matchScopes: [{scopeName: PriorityClass, operator: In, values: [gold]}]
allowedClasses:
- classes: [gold, "batch-*"]
  namespaces: [shop]
  namespaceSelector: {matchLabels: {tier: production}}
  users: [ann]
  groups: [sre]
expectations:
- name: the shop stays
  expect:
    noPreemption: {namespace: shop, class: ""}
    by: {workload: "batch/*"}
annotate: workloads
exemptions:
- reason: the platform team's own
  namespaces: [kube-system, "infra-*"]
- reason: break glass
  namespaceSelector: {matchLabels: {team: sre}}
  groups: [sre]
- reason: the installer
  users: ["system:serviceaccount:install:*"]
"""


def test_everything_that_can_be_said_is_read() -> None:
    config = read_config(FULL, "f")
    assert config.actions == {"unknown-priority-class": Action.AUDIT, "priority-drift": Action.OFF}
    assert config.severity(unknown_priority_class) is Severity.WARNING
    assert config.action(unknown_priority_class, Target.POD) is Action.AUDIT
    assert config.options.autoscaler_cutoff == -5
    assert config.options.pod_template_paths["argoproj.io/Rollout"] == ("spec", "template")
    assert config.options.pod_template_paths.items() >= POD_TEMPLATE_PATHS.items()
    gold = ScopeSelector("PriorityClass", "In", ("gold",))
    assert config.options.limited_resources == (LimitedResource("pods", ("nvidia.com/gpu",), (gold,)),)
    production = parse_label_selector({"matchLabels": {"tier": "production"}})
    allowed = AllowedClasses(("gold", "batch-*"), ("shop",), production, ("ann",), ("sre",))
    assert config.options.allowed_classes == (allowed,)
    assert config.annotate == "workloads"


def test_an_empty_file_is_the_default_configuration() -> None:
    assert read_config("", "f") == read_config("# nothing\n", "f") == Config()


@pytest.mark.parametrize("name", ["class-without-description", "equal-class-values"])
def test_a_rule_that_is_off_by_default_runs_if_the_configuration_names_it(name: str) -> None:
    rule = {rule.ID: rule for rule in RULES if rule.ON_REQUEST}[name]
    assert not Config().runs(rule)
    assert Config(severities={name: Severity.NOTE}).runs(rule)
    assert Config(actions={name: Action.DENY}).runs(rule)
    assert Config(selected=frozenset((name,))).runs(rule)
    assert not Config(actions={name: Action.DENY}, disabled_rules=frozenset((name,))).runs(rule)


VALIDATOR = jsonschema.Draft202012Validator(json.loads(Path("policies/linting/config/schema.json").read_text()))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.ID)
def test_the_configuration_can_disable_every_rule(rule: Rule) -> None:
    text = f"actions: {{{rule.ID}: off}}"
    assert read_config(text, "f").linter_severity(rule) is None
    VALIDATOR.validate(yaml.safe_load(text))


def test_a_denial_becomes_a_warning_on_a_template_unless_configured() -> None:
    assert Config().action(unknown_priority_class, Target.POD) is Action.DENY
    assert Config().action(unknown_priority_class, Target.TEMPLATE) is Action.WARN
    strict = read_config("actions: {unknown-priority-class: deny}", "f")
    assert strict.action(unknown_priority_class, Target.TEMPLATE) is Action.DENY
    assert Config().action(global_default_not_unique, Target.PRIORITY_CLASS) is Action.DENY


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("action: {}", 'f:1:1: unknown key "action"; did you mean "actions"?', id="key"),
        pytest.param(
            "actions:\n  unknown-priorityclass: warn",
            'f:2:3: actions: unknown rule "unknown-priorityclass"; did you mean "unknown-priority-class"?',
            id="rule",
        ),
        pytest.param(
            "actions:\n  priority-drift: wran",
            'f:2:19: actions.priority-drift: unknown action "wran"; did you mean "warn"?',
            id="action",
        ),
        pytest.param(
            "actions: {parse-error: deny}",
            'f:1:24: actions.parse-error: a linter-only rule has no action except "off". Fix: use severities',
            id="linter only",
        ),
        pytest.param(
            "severities: {final-priority-mismatch: note}",
            "f:1:39: severities.final-priority-mismatch: a webhook-only rule has no severity. Fix: use actions",
            id="webhook only",
        ),
        pytest.param("autoscalerCutoff: low", 'f:1:19: autoscalerCutoff: must be a whole number, not "low"', id="int"),
        pytest.param("annotate: [pods]", "f:1:11: annotate: must be a string", id="text"),
        pytest.param("exemptions: {}", "f:1:13: exemptions: must be a list", id="list"),
        pytest.param("- a", "f:1:1: must be a mapping", id="mapping"),
        pytest.param("annotate: all\nannotate: off", 'f:2:1: "annotate" is duplicated', id="twice"),
        pytest.param(
            "exemptions:\n- reason: r",
            "f:2:3: exemptions[0]: exempts everything. Fix: set namespaces, a namespaceSelector, users or groups",
            id="everything",
        ),
        pytest.param(
            "exemptions:\n- users: [a]",
            "f:2:3: exemptions[0]: reason is missing. Fix: add one; it is logged with every exempt request",
            id="no reason",
        ),
        pytest.param(
            "exemptions:\n- reason: r\n  namespaceSelector: {}",
            "f:3:22: exemptions[0].namespaceSelector: selects everything. Fix: set at least one label",
            id="empty selector",
        ),
        pytest.param(
            "podTemplatePaths: {Rollout: spec.template}",
            'f:1:29: podTemplatePaths.Rollout: "Rollout" must be group/Kind, such as argoproj.io/Rollout',
            id="kind",
        ),
        pytest.param(
            "exemptions:\n- reason: r\n  users: []",
            "f:3:10: exemptions[0].users: must not be empty. Fix: list at least one, or remove the key",
            id="empty list",
        ),
        pytest.param(
            "limitedResources:\n- matchScopes: []",
            "f:2:3: limitedResources[0]: resource is missing. Fix: set the limited resource, such as pods",
            id="limited nothing",
        ),
        pytest.param(
            "allowedClasses:\n- namespaces: [a]",
            "f:2:3: allowedClasses[0]: classes is missing. Fix: list the PriorityClasses",
            id="no classes",
        ),
        pytest.param(
            "allowedClasses:\n- classes: []\n  namespaces: [a]",
            "f:2:3: allowedClasses[0]: classes is missing. Fix: list the PriorityClasses",
            id="empty classes",
        ),
        pytest.param(
            "allowedClasses:\n- classes: [gold]",
            "f:2:3: allowedClasses[0]: allows them to all. Fix: set namespaces, a namespaceSelector, users or groups",
            id="allowed to everybody",
        ),
        pytest.param(
            "requiredClasses:\n- classes: [gold]",
            "f:2:3: requiredClasses[0]: applies to all Pods. Fix: set namespaces or kinds",
            id="required of everybody",
        ),
        pytest.param(
            "expectations:\n- expect: {noPreemption: {}}", "f:2:3: expectations[0]: name is missing", id="no name"
        ),
        pytest.param("expectations:\n- name: a", "f:2:3: expectations[0]: expect is missing", id="no promise"),
        pytest.param(
            "expectations:\n- name: a\n  when: {lost: {zone: a}}\n  expect: {noPreemption: {}}",
            "f:3:9: expectations[0].when: not supported in the configuration. Fix: use `forewarn test`",
            id="a promise for an event",
        ),
        pytest.param(
            "expectations:\n- name: a\n  expect: {run: {}}",
            "f:3:17: expectations[0].expect.run: not supported in the configuration. Fix: use `forewarn test`",
            id="a promise that takes a simulation",
        ),
        pytest.param(
            "expectations:\n- name: a\n  expect: {by: {}}",
            "f:3:11: expectations[0].expect: noPreemption is missing",
            id="a promise of nothing",
        ),
        pytest.param(
            "expectations:\n- name: a\n  expect: {noPreemption: {ns: a}}",
            'f:3:27: expectations[0].expect.noPreemption: unknown key "ns"; known: class, namespace, workload',
            id="a promise to nobody",
        ),
        pytest.param(
            "rules: {x: &a {}, y: *a}",
            "f:1:22: a configuration has no aliases. Fix: write the value of the anchor here",
            id="an alias",
        ),
        pytest.param(
            "rules:\n  <<: {x: {}}",
            "f:2:3: a configuration has no merge keys (<<). Fix: write the entries here",
            id="a merge key",
        ),
        pytest.param("{[a]: {}}", "f:1:2: a mapping or a list cannot be a key", id="a list as a key"),
        pytest.param("a: [", "f:2:1: did not find expected node content while parsing a flow node", id="syntax"),
        pytest.param(
            "a: 1\n---\nb: 2", "f:3:1: more than one YAML document; a configuration is one", id="two documents"
        ),
    ],
)
def test_a_fault_is_told_with_its_place_and_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(text, "f")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("user", "namespace", "reason"),
    [
        (User("ann"), Namespace("infra-dns", {}, {}), "the platform team's own"),
        (User("ann", ("sre",)), Namespace("web", {"team": "sre"}, {}), "break glass"),
        (User("ann", ("dev",)), Namespace("web", {"team": "sre"}, {}), None),
        (User("system:serviceaccount:install:helm"), None, "the installer"),
        (User("ann"), None, None),
        (None, Namespace("web", {}, {}), None),
    ],
)
def test_an_exemption_covers_what_meets_all_that_it_names(
    user: User | None, namespace: Namespace | None, reason: str | None
) -> None:
    assert read_config(FULL, "f").exemption(user, namespace, NOW) == reason


@pytest.mark.parametrize(
    ("until", "exempt"),
    [("2026-06-02", True), ("2026-05-31T23:59:59Z", False), ("2026-06-01T02:00:00+01:00", True), ("soon", False)],
)
def test_the_break_glass_annotation_ends_by_itself(until: str, exempt: bool) -> None:
    namespace = Namespace("web", {}, {"forewarn.dev/exempt-until": until})
    assert (Config().exemption(None, namespace, NOW) is not None) is exempt


@pytest.mark.parametrize(
    ("duration", "until", "exempt"),
    [("30m", "2026-06-01T00:30:00Z", True), ("30m", "2026-06-01T00:31:00Z", False), ("48h", "2026-06-03", True)],
)
def test_the_break_glass_annotation_is_honoured_for_a_while(duration: str, until: str, exempt: bool) -> None:
    config = read_config(f"breakGlass: {{maxDuration: {duration}}}", "f")
    namespace = Namespace("web", {}, {"forewarn.dev/exempt-until": until})
    assert (config.exemption(None, namespace, NOW) is not None) is exempt
    assert bool(config.not_honoured(namespace, NOW)) is not exempt


@pytest.mark.parametrize("duration", ["30", "-1d", "1w", "1.5h", "9999999d", "[]", "''"])
def test_how_long_glass_is_broken_is_a_number_of_days_hours_or_minutes(duration: str) -> None:
    with pytest.raises(ConfigError, match=r"f:1:\d+: breakGlass.maxDuration: must be"):
        read_config(f"breakGlass: {{maxDuration: {duration}}}", "f")


@pytest.mark.parametrize(
    ("text", "nothing"),
    [
        ("", True),
        ("# a\n", True),
        ("---\n", True),
        ("\n\n", True),
        ("{}", False),
        ("annotate: all", False),
        ("~", False),
    ],
)
def test_a_file_without_content_says_nothing(tmp_path: Path, text: str, nothing: bool) -> None:
    (tmp_path / "c").write_text(text)
    assert is_empty(tmp_path / "c") is nothing
    if text != "annotate: all":
        assert load_config(tmp_path / "c") == Config()


def test_the_file_is_searched_upward_to_the_root_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".forewarn.yaml").write_text("annotate: all")
    inner = tmp_path / "repository" / "a" / "b"
    inner.mkdir(parents=True)
    assert find_config(str(inner)) == str(tmp_path / ".forewarn.yaml")
    (tmp_path / "repository" / ".git").mkdir()
    assert find_config(str(inner)) is None
    (tmp_path / "repository" / ".forewarn.yaml").write_text("annotate: off")
    assert find_config(str(inner)) == str(tmp_path / "repository" / ".forewarn.yaml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: no such file or directory"):
        load_config(tmp_path / "none.yaml")


def test_a_configuration_is_at_most_256_kib(tmp_path: Path) -> None:
    (path := tmp_path / ".forewarn.yaml").write_text("#" * (256 * 1024 + 1))
    with pytest.raises(ConfigError, match="larger than 256 KiB"):
        load_config(path)


@pytest.mark.parametrize(
    "text",
    [
        "exclude: [%s]",
        "groups: [{name: a, paths: [%s]}]",
        "knownClasses: [%s]",
        "suppressions: [%s]",
        "allowedClasses: [%s]",
    ],
)
def test_a_list_has_at_most_1000_entries(text: str) -> None:
    with pytest.raises(ConfigError, match="has more than 1000 entries"):
        read_config(text % ",".join("a" * 1001), "f")


@pytest.mark.parametrize(
    "text",
    [
        "annotate: %s",
        "autoscalerCutoff: %s",
        "placeholderPods: {matchLabels: {a: %s!}}",
        "%s: 1",
        "limitedResources: [{resource: a, matchScopes: [{scopeName: a, operator: %s}]}]",
    ],
)
def test_a_long_value_is_cut_in_a_message(text: str) -> None:
    with pytest.raises(ConfigError) as rejected:
        read_config(text % ("a" * 900), "f")
    assert len(str(rejected.value)) < 1_000


BROKEN = (
    "limitedResources: [{}]",
    "allowedClasses: [{classes: [gold]}]",
    "allowedClasses: [{classes: [], users: [a]}]",
    "allowedClasses: [{users: [a]}]",
    "expectations: [{name: a}]",
    "expectations: [{name: a, expect: {noPending: {}}}]",
    "expectations: [{name: a, expect: {noPreemption: {ns: a}}}]",
    "expectations: [{name: '', expect: {noPreemption: {}}}]",
    "breakGlass: {maxDuration: 1w}",
    "predictionBudget: {user: {exact: 1}}",
    "predictionBudget: {user: {exact: -1, coarse: 1}}",
    "predictionBudget: {namespace: {exact: 1, coarse: 1000001}}",
    "predictionBudget: {group: {exact: 1, coarse: 1}}",
    "breakGlass: {users: [a]}",
)


def test_the_shipped_schema_accepts_what_the_reader_accepts() -> None:
    VALIDATOR.check_schema(VALIDATOR.schema)
    VALIDATOR.validate(yaml.safe_load(FULL))
    for broken in (
        "action: {}",
        "annotate: some",
        "exemptions: [{reason: r}]",
        "actions: {x: deny}",
        "actions: {parse-error: deny}",
        *BROKEN,
    ):
        with pytest.raises(jsonschema.ValidationError):
            VALIDATOR.validate(yaml.safe_load(broken))


def test_a_part_of_the_prediction_budget_leaves_the_other_one_at_its_default() -> None:
    config = read_config("predictionBudget: {user: {exact: 0, coarse: 7}}", "f")
    assert config.prediction_budget == PredictionBudget(user=Budget(0, 7))
    assert Config().prediction_budget == PredictionBudget(Budget(100, 400), Budget(200, 800))
