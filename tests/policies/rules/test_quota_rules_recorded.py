"""The quota rules say what a real kube-apiserver v1.36.3 answered, with its limitedResources."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from forewarn.policies.base.findings import Finding
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, Operation, ReviewedObject
from forewarn.policies.linting.config.load import load_limited_resources
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from tests.cases import each
from tests.policies.recorded import CASES, load

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RECORDED = [
    (case, Config().limiting(load_limited_resources(CASES / flags)))
    for name, flags in (("limited.jsonl.gz", "limited-config.yaml"), ("recorded.jsonl.gz", "admission-config.yaml"))
    for case in load(name)
]
NAMED = [
    ("insufficient quota", "limited-class-without-quota"),
    ("must specify", "quota-requirement-missing"),
    ("exceeded quota", "quota-exceeded"),
    ("error matching scopes", "quota-exceeded"),
]


def found_by(case: dict[str, Any], config: Config) -> list[Finding]:
    cache = Cache()
    for objects in case["cluster"].values():
        for obj in objects:
            cache.add(obj)
    subject = ReviewedObject(case["object"], Operation(case["operation"]), case.get("oldObject"), "default")
    return evaluate(EvaluationRequest(ChangeSet((subject,)), cache.snapshot(), config, phase=Phase.VALIDATE, now=NOW))


def rejection(case: dict[str, Any]) -> str:
    return str(case["error"]["message"]) if case["code"] >= 400 else ""


def of_kind(kind: str) -> Iterator[tuple[dict[str, Any], Config]]:
    return ((c, config) for c, config in RECORDED if c["object"]["kind"] == kind and c["operation"] == "CREATE")


def test_every_kind_of_refusal_is_among_the_cases() -> None:
    messages = [rejection(case) for case, _ in RECORDED]
    assert all(any(text in message for message in messages) for text, _ in NAMED[:3])


@each(lambda: of_kind("Pod"))
def test_a_pod_that_quotas_refuse_is_told_by_the_rule_that_is_about_it(case: dict[str, Any], config: Config) -> None:
    found = found_by(case, config)
    rules = {finding.rule for finding in found} & {rule for _, rule in NAMED}
    expected = [rule for text, rule in NAMED if text in rejection(case)]
    if expected or case["code"] == 201:
        assert rules >= set(expected)
        assert bool(rules) is bool(expected)
    if "limited-class-without-quota" in expected:
        words = [finding.detail["rejection"] for finding in found if finding.rule == "limited-class-without-quota"]
        assert any(text in rejection(case) for text in words)


@each(lambda: of_kind("ResourceQuota"))
def test_a_quota_is_told_to_be_invalid_where_it_was_refused_as_such(case: dict[str, Any], config: Config) -> None:
    told = [f.detail["rejection"] for f in found_by(case, config) if f.rule == "quota-scope-invalid"]
    assert bool(told) is (case["code"] == 422)
    assert all(text in rejection(case) for text in told)
