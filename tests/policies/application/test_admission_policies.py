"""`forewarn policies`: CEL says what the rules say (tests/e2e/test_policies.py asks a real kube-apiserver)."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from random import Random
from typing import TYPE_CHECKING, Any

import celpy
import pytest

from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND
from forewarn.policies.kubernetes.objects.priority_class import SYSTEM_CLASSES
from forewarn.policies.kubernetes.options import AllowedClasses
from forewarn.policies.kubernetes.releases.minors import NEWEST
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config, ConfigError
from forewarn.policies.questions.application.admission_policies import (
    _REASONS,
    COVERED,
    NOT_COVERED,
    admission_policies,
    one_of,
    quoted,
    regular_expression,
)
from tests.cases import cases
from tests.policies.admission_requests import (
    CONFIG,
    USERS,
    Request,
    cluster,
    namespace_object,
    random_request,
    reported,
)
from tests.policies.recorded import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Obj = dict[str, Any]
re2 = pytest.importorskip("re2")  # comes with cel-python
ENVIRONMENT = celpy.Environment()
TEXTS = (
    "*",
    "?",
    "[",
    "]",
    "!",
    "-",
    "a",
    "b",
    "z",
    "^",
    "\\",
    "&",
    "|",
    "~",
    ":",
    "(",
    ")",
    "?",
    ">",
    "\n",
    "é",
    "\U0001f600",
)


def test_the_policies_check_all_covered_rules_and_other_rules_have_a_reason() -> None:
    assert NOT_COVERED.keys() > _REASONS.keys()
    assert set(admission_policies(CONFIG, NEWEST).rules) == set(COVERED)


def test_a_regular_expression_matches_what_the_shell_pattern_matches() -> None:
    random, matched = Random(5), 0
    for _ in range(cases(3000)):
        pattern = "".join(random.choices(TEXTS, k=random.randint(0, 8)))
        name = "".join(random.choices(TEXTS[2:], k=random.randint(0, 5)))
        expression, matches = regular_expression(pattern), fnmatchcase(name, pattern)
        assert bool(re2.search(expression, name)) == matches, (pattern, name, expression)
        matched += matches
    assert matched > 30


def test_a_literal_contains_only_plain_ascii_and_is_the_text() -> None:
    for text in ('") || true || ("', "a\\b", "\n\r\t\0", "\u2028é", "'", "${x}", "{{ .Values }}"):
        assert json.loads(quoted(text)) == text
        assert quoted(text).isascii()
        assert quoted(text).isprintable()
    assert quoted("\U0001f600") == r'"\U0001f600"'
    with pytest.raises(ConfigError, match="surrogate"):
        quoted("\ud800")


def test_names_of_the_configuration_occur_only_in_literals() -> None:
    hostile = ('") || true || ("', "'); //", "x\ny", 'a*") || ("b')
    config = read_config(f"allowedClasses: [{{classes: {json.dumps(hostile)}, users: {json.dumps(hostile)}}}]", "c")
    for obj in admission_policies(config, NEWEST).objects:
        for expression in _expressions(obj):
            without_literals = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
            assert "|| true" not in without_literals
            assert not re.search("//|\n|[^ -~]", without_literals)
            assert ENVIRONMENT.compile(_without_null(expression, is_update=True))
    assert one_of(hostile[:1], "x") == r'(x in ["\") || true || (\""])'


def _expressions(obj: Mapping[str, Any]) -> Iterator[str]:
    for key in ("variables", "validations", "matchConditions"):
        for entry in obj["spec"].get(key, ()):
            yield from (entry[field] for field in ("expression", "messageExpression") if field in entry)


def test_an_expression_that_kube_apiserver_would_not_compile_is_an_error() -> None:
    entries = tuple(AllowedClasses((f"class-{number:05}",), namespaces=("shop",)) for number in range(9000))
    config = CONFIG._replace(options=CONFIG.options._replace(allowed_classes=entries))
    with pytest.raises(ConfigError, match="characters, more than 100,000; list fewer names, or use patterns"):
        admission_policies(config, NEWEST)


@pytest.mark.parametrize("minor", range(34, NEWEST + 1))
def test_only_stable_versions_are_written(minor: int) -> None:
    policies = admission_policies(CONFIG, minor)
    kinds = [obj["kind"] for obj in policies.objects]
    assert {obj["apiVersion"] for obj in policies.objects} == {"admissionregistration.k8s.io/v1"}
    assert kinds.count("MutatingAdmissionPolicy") == kinds.count("MutatingAdmissionPolicyBinding") == (minor >= 36)
    assert kinds.count("ValidatingAdmissionPolicy") == kinds.count("ValidatingAdmissionPolicyBinding") > 5
    assert len({(obj["kind"], obj["metadata"]["name"]) for obj in policies.objects}) == len(policies.objects)


def test_a_rule_that_is_off_is_not_written() -> None:
    text = "{actions: {class-required: off}, requiredClasses: [{namespaces: [shop]}]}"
    assert "class-required" not in admission_policies(read_config(text, "c"), NEWEST).rules


def test_actions_and_severities_of_the_configuration_select_the_validation_actions() -> None:
    text = """
    actions: {class-not-allowed: "off", pinned-priority: deny, quota-exceeded: deny, below-autoscaler-cutoff: "off"}
    severities: {class-required: note}
    allowedClasses: [{classes: [gold], users: [a]}]
    requiredClasses: [{namespaces: [shop]}]
    limitedResources: [{resource: pods}]
    """
    policies = admission_policies(read_config(text, "c"), NEWEST)
    actions = {
        obj["spec"]["policyName"]: obj["spec"].get("validationActions")
        for obj in policies.objects
        if obj["kind"].endswith("Binding")
    }
    assert actions["forewarn-audit-pods"] == ["Audit"]
    assert actions["forewarn-deny-workloads"] == ["Deny"]
    assert "forewarn-deny-pods" not in actions
    assert "forewarn-audit-priorityclasses" not in actions
    assert list(policies.not_covered) == ["limited-class-without-quota", "quota-exceeded"]


def test_cel_reports_what_the_rules_report() -> None:
    policies, snapshot = admission_policies(CONFIG, NEWEST).objects, cluster()
    random, rules = Random(3), set[str]()
    for number in range(cases(150)):
        request = random_request(random, number)
        expected = reported(request, snapshot)
        assert evaluated(policies, request) == expected, request
        rules |= set().union(*expected.values())
    assert rules == {"class-not-allowed", "class-required", "pinned-priority", "system-class-outside-kube-system"}


RECORDED_MESSAGES = {
    "maximum allowed value of a user defined priority": "priority-value-too-high",
    "prefix are reserved for system use only": "reserved-system-name",
    "is already marked as default": "global-default-not-unique",
}


def test_recorded_answers_about_classes_are_those_of_cel() -> None:
    policies = admission_policies(Config(), NEWEST).objects
    rules = set[str]()
    for case in load("recorded.jsonl.gz"):
        if case["object"]["kind"] != "PriorityClass" or case["code"] == 400:
            continue
        obj = {**case["object"], "value": case["object"].get("value", 0)}
        request = Request("admin", obj, case.get("oldObject"))
        classes = case["cluster"]["priorityClasses"]
        message = case.get("error", {}).get("message", "")
        expected = {rule for text, rule in RECORDED_MESSAGES.items() if text in message}
        denied = evaluated(policies, request, classes).get("deny", set())
        assert expected <= denied, case
        assert message or not denied, case
        rules |= expected
    assert {"priority-value-too-high", "reserved-system-name"} <= rules


def evaluated(
    policies: tuple[Mapping[str, Any], ...], request: Request, classes: list[Obj] | None = None
) -> dict[str, set[str]]:
    """The rules whose validations fail, by action: matched and evaluated as kube-apiserver does."""
    bindings = {obj["spec"]["policyName"]: obj["spec"] for obj in policies if obj["kind"].endswith("Binding")}
    system = [c.to_api() for c in SYSTEM_CLASSES]
    failed: dict[str, set[str]] = {}
    for policy in policies:
        if policy["kind"] != "ValidatingAdmissionPolicy" or not _matches(policy, request):
            continue
        action = bindings[policy["metadata"]["name"]]["validationActions"][0].lower()
        for params in [*system, *(classes or ())] if "paramKind" in policy["spec"] else [None]:
            for rule in _failed(policy["spec"], request, params):
                failed.setdefault(action, set()).add(rule)
    return failed


def _matches(policy: Mapping[str, Any], request: Request) -> bool:
    group, _, version = request.obj["apiVersion"].rpartition("/")
    plural = BY_GROUP_KIND[f"{group}/{request.obj['kind']}"].plural
    return any(
        group in rule["apiGroups"]
        and version in rule["apiVersions"]
        and plural in rule["resources"]
        and ("UPDATE" if request.old else "CREATE") in rule["operations"]
        for rule in policy["spec"]["matchConstraints"]["resourceRules"]
    )


def _failed(spec: Mapping[str, Any], request: Request, params: Obj | None) -> Iterator[str]:
    user = USERS[request.user]
    namespaced = request.obj["kind"] not in ("Namespace", "PriorityClass")
    known: Obj = {
        "object": request.obj,
        "oldObject": request.old or {},
        "params": params or {},
        "request": {
            "userInfo": {"username": user.name, "groups": list(user.groups)},
            "kind": {"kind": request.obj["kind"]},
        },
        "variables": {},
    }
    if namespaced:
        known["namespaceObject"] = namespace_object(request.namespace)
        known["request"]["namespace"] = request.namespace
    activation = celpy.json_to_cel(known)
    variables = activation.pop(celpy.celtypes.StringType("variables"))
    for variable in spec.get("variables", ()):
        variables[celpy.celtypes.StringType(variable["name"])] = _value(
            variable["expression"], request, activation, variables
        )
    for validation in spec["validations"]:
        if not _value(validation["expression"], request, activation, variables):
            yield str(_value(validation["messageExpression"], request, activation, variables)).rpartition("[")[2][:-1]


_PROGRAMS: dict[str, Any] = {}


def _value(expression: str, request: Request, activation: Any, variables: Any) -> Any:
    text = _without_null(expression, is_update=request.old is not None)
    if text not in _PROGRAMS:
        _PROGRAMS[text] = ENVIRONMENT.program(ENVIRONMENT.compile(text))
    return _PROGRAMS[text].evaluate({**{str(key): value for key, value in activation.items()}, "variables": variables})


def _without_null(expression: str, *, is_update: bool) -> str:
    return expression.replace("oldObject != null", "true" if is_update else "false")  # cel-python cannot compare null
