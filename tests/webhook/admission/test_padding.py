"""Padding an object, or its namespace, past a static bound never turns a denial into anything weaker."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.extent import MAX_CHARACTERS, MAX_QUOTAS
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate
from forewarn.policies.prediction.forecast import forecast
from forewarn.webhook.admission.decision import Decision
from forewarn.webhook.admission.review import Hook
from tests.cases import cases
from tests.webhook.admission.test_failure_directions import (
    CONFIRMED,
    NODE,
    WARNS_WHILE_LATE,
    _asking,
    _doing,
    _quota,
    _running,
    denied_by,
)
from tests.webhook.builders import NOW, cluster, decided, review

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Obj = dict[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _tolerations(template: Obj, n: int) -> None:
    template["spec"]["tolerations"] = [{"key": f"k{i}", "operator": "Exists"} for i in range(n)]


def _pod_terms(template: Obj, n: int) -> None:
    term = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"no": "body"}}}}
    template["spec"]["affinity"] = {"podAffinity": {_PREFERRED: [term] * n}}


def _node_terms(template: Obj, n: int) -> None:
    term = {"weight": 1, "preference": {"matchExpressions": [{"key": "no", "operator": "Exists"}]}}
    template["spec"]["affinity"] = {"nodeAffinity": {_PREFERRED: [term] * n}}


def _values(template: Obj, n: int) -> None:
    expression = {"key": "no", "operator": "NotIn", "values": [f"v{i}" for i in range(n)]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    template["spec"]["affinity"] = {"nodeAffinity": {_REQUIRED: terms}}


def _volumes(template: Obj, n: int) -> None:
    template["spec"]["volumes"] = [{"name": f"v{i}", "emptyDir": {}} for i in range(n)]


def _ports(template: Obj, n: int) -> None:
    template["spec"]["containers"][0]["ports"] = [{"containerPort": i + 1} for i in range(n)]


def _labels(template: Obj, n: int) -> None:
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    labels |= {f"l{i}": "" for i in range(n)}


def _resources(template: Obj, n: int) -> None:
    requests = template["spec"]["containers"][0].setdefault("resources", {}).setdefault("requests", {})
    requests |= {f"example.com/r{i}": "0" for i in range(n)}


def _containers(template: Obj, n: int) -> None:
    template["spec"]["containers"] += [{"name": f"c{i}", "image": "i"} for i in range(n)]


def _spread(template: Obj, n: int) -> None:
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    template["spec"]["topologySpreadConstraints"] = [constraint] * n


def _text(template: Obj, n: int) -> None:
    template["spec"]["tolerations"] = [{"key": "k" * n, "operator": "Exists"}]


PADDING: Mapping[str, tuple[Callable[[Obj, int], None], int]] = {
    "tolerations": (_tolerations, 501),
    "terms of Pod affinity": (_pod_terms, 60),
    "terms of node affinity": (_node_terms, 101),
    "values in selectors": (_values, 5001),
    "volumes": (_volumes, 501),
    "ports": (_ports, 501),
    "labels": (_labels, 501),
    "resources": (_resources, 65),
    "containers": (_containers, 501),
    "topology spread constraints": (_spread, 17),
    "characters that count": (_text, MAX_CHARACTERS),
}
"""What the denial names -> how a template is padded with so many of it, and the number that is too many."""
CASES = {
    rule: (given, more)
    for rule, (given, more) in {**WARNS_WHILE_LATE, **{rule: case[:2] for rule, case in CONFIRMED.items()}}.items()
    if pod_template_of(given["request"]["object"] or {}, POD_TEMPLATE_PATHS) is not None
}
READING = {
    "violates-expectation", "fits-nowhere", "preempts-running-pods", "rollout-preempts-itself",
    "quota-exceeded", "quota-requirement-missing", "limited-class-without-quota",
}  # fmt: skip
"""Rules that read more of a Pod than its class and priority, in every case."""


def template_in(given: Obj) -> Obj:
    template = pod_template_of(given["request"]["object"], POD_TEMPLATE_PATHS)
    assert template is not None
    return template.object  # type: ignore[return-value]


def answered(rule: str, given: Obj, *more: Obj, action: str = "deny", state: Any = None) -> Decision:
    state = cluster(*more) if state is None else state
    return decided(Hook.VALIDATE, given, state=state, config=_doing(action, rule), expired=lambda: False)


def padded(rule: str, **sizes: int) -> Obj:
    given = copy.deepcopy(CASES[rule][0])
    for kind, size in sizes.items():
        PADDING[kind][0](template_in(given), size)
    return given


def says(decision: Decision, rule: str) -> str:
    return next(f.message for f in decision.findings if f.rule == rule and f.not_evaluated)


def test_there_are_cases_of_every_rule_that_reads_a_pod() -> None:
    assert set(CASES) >= READING


@pytest.mark.parametrize("rule", sorted(READING))
@pytest.mark.parametrize("kind", PADDING)
def test_a_padded_object_is_denied_and_told_which_bound_it_exceeds(rule: str, kind: str) -> None:
    assert denied_by(answered(rule, CASES[rule][0], *CASES[rule][1])) == {rule}
    denied = answered(rule, padded(rule, **{kind: PADDING[kind][1]}), *CASES[rule][1])
    if denied_by(denied) == {rule} and not any(f.not_evaluated for f in denied.findings if f.rule == rule):
        return  # a quota does not read it
    assert (denied_by(denied), denied.response.allowed) == ({rule}, False)
    told = says(denied, rule)
    assert told.startswith("not evaluated: the Pod")
    assert f" {kind}" in told
    assert "forewarn evaluates at most" in told
    assert told in (denied.response.message or "")


@settings(max_examples=cases(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(CASES)),
    st.dictionaries(st.sampled_from(sorted(set(PADDING) - {"characters that count"})), st.sampled_from((1, 2)),
                    min_size=1, max_size=3),
)  # fmt: skip
def test_padding_never_weakens_a_denial(rule: str, kinds: dict[str, int]) -> None:
    """Twice what is too many, and just too many."""
    assert rule in denied_by(answered(rule, CASES[rule][0], *CASES[rule][1]))
    sizes = {kind: factor * PADDING[kind][1] for kind, factor in kinds.items()}
    assert rule in denied_by(answered(rule, padded(rule, **sizes), *CASES[rule][1]))


@pytest.mark.parametrize("action", ["warn", "audit"])
def test_what_is_not_denied_is_said(action: str) -> None:
    decision = answered(
        "violates-expectation", padded("violates-expectation", tolerations=501), NODE, _running(), action=action
    )
    assert decision.response.allowed
    told = "not evaluated: the Pod has 501 tolerations; forewarn evaluates at most 500"
    assert says(decision, "violates-expectation") == told
    (finding,) = (f for f in decision.findings if f.rule == "violates-expectation")
    assert (finding.remediation, finding.action.value) == ("remove tolerations", action)


def test_the_clock_denies_nobody() -> None:
    decision = decided(
        Hook.VALIDATE, padded("violates-expectation"), state=cluster(NODE, _running()),
        config=_doing("deny", "violates-expectation"), expired=True,
    )  # fmt: skip
    assert decision.response.allowed


@pytest.mark.parametrize("rule", ["quota-exceeded", "quota-requirement-missing"])
def test_a_namespace_padded_with_quotas_gets_nothing_past_a_denial(rule: str) -> None:
    given, more = CASES[rule]
    others = [{**_quota("other"), "metadata": {"name": f"q{n}", "namespace": "team"}} for n in range(MAX_QUOTAS)]
    denied = answered(rule, given, *more, *others)
    assert denied_by(denied) == {rule}
    assert says(denied, rule) == "not evaluated: the namespace has 201 ResourceQuotas; forewarn evaluates at most 200"


@pytest.mark.parametrize("rule", ["quota-exceeded", "quota-requirement-missing"])
def test_a_quota_padded_with_resources_gets_nothing_past_a_denial(rule: str) -> None:
    given, more = CASES[rule]
    large = _quota("other", 9, **{f"count/r{n}": 1 for n in range(501)})
    denied = answered(rule, given, *more, {**large, "metadata": {"name": "large", "namespace": "team"}})
    assert denied_by(denied) == {rule}
    assert says(denied, rule) == "not evaluated: ResourceQuota large has 502 resources; forewarn evaluates at most 500"


def test_a_quota_that_is_too_large_may_be_made_smaller() -> None:
    large = _quota("nothing", 9, **{f"count/r{n}": 1 for n in range(501)})
    rule = "quota-matches-nothing"
    assert rule in denied_by(answered(rule, review(large)))
    assert says(answered(rule, review(large)), rule).startswith("not evaluated: the ResourceQuota has 502 resources")
    smaller = review(_quota("gold"), "UPDATE", oldObject=large)
    assert not denied_by(answered(rule, smaller))
    assert denied_by(answered(rule, review(_quota("nothing"), "UPDATE", oldObject=large))) == {rule}


def test_replicas_beyond_the_bound_get_nothing_past_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of them fit, and fill what is evaluated."""
    monkeypatch.setattr(forecast, "MAX_PLACED", 3)
    asking, free = _asking("100m"), {**NODE, "metadata": {"name": "node-2"}}
    for replicas, denied in ((10, set()), (11, {"violates-expectation"})):
        asking["spec"]["replicas"] = replicas
        decision = answered("violates-expectation", review(asking), NODE, free, _running())
        assert denied_by(decision) == denied


def test_much_work_denies_whatever_the_time() -> None:
    rule, given = "violates-expectation", padded("violates-expectation", tolerations=400)
    found = evaluate(EvaluationRequest(
        ChangeSet((ReviewedObject(given["request"]["object"]),)), cluster(NODE, _running()), _doing("deny", rule),
        phase=Phase.VALIDATE, now=NOW, expired=lambda: False, max_work=1,
    ))  # fmt: skip
    (finding,) = (f for f in found if f.rule == rule)
    assert (finding.action.value, finding.not_evaluated) == ("deny", True)
    assert finding.message == "not evaluated: its evaluation takes too much work, whatever the time"


STORED = _asking("1")
_tolerations(STORED["spec"]["template"], 501)


def changed(**spec: Any) -> Obj:
    return {**STORED, "spec": {**STORED["spec"], **spec}}


@pytest.mark.parametrize("rule", sorted(READING - {"limited-class-without-quota"}))
def test_a_padded_object_that_is_stored_can_be_annotated_scaled_down_and_deleted(rule: str) -> None:
    state = cluster(*CASES[rule][1])
    stored = changed(replicas=3)
    annotated = {**stored, "metadata": {**stored["metadata"], "annotations": {"a": "b"}, "finalizers": []}}
    for asked in (
        review(annotated, "UPDATE", oldObject=stored),
        review(changed(replicas=3, minReadySeconds=9), "UPDATE", oldObject=stored),
        review(changed(replicas=2), "UPDATE", oldObject=stored),
        review(None, "DELETE", oldObject=stored),
        review(stored, "UPDATE", oldObject=stored, subResource="status"),
    ):
        decision = answered(rule, asked, state=state)
        assert decision.response.allowed, decision.response.message


@pytest.mark.parametrize("rule", ["violates-expectation", "preempts-running-pods", "fits-nowhere"])
def test_a_padded_object_that_is_stored_passes_no_denial_once_it_asks_for_pods(rule: str) -> None:
    state = cluster(*CASES[rule][1])
    other = changed(template={**STORED["spec"]["template"], "metadata": {"labels": {"app": "web", "v": "2"}}})
    paused = changed(paused=True)
    for new, old in (
        (changed(replicas=2), STORED),
        (other, STORED),
        (STORED, changed(replicas=0)),
        (STORED, paused),
    ):
        assert denied_by(answered(rule, review(new, "UPDATE", oldObject=old), state=state)) == {rule}


def test_a_padded_pod_that_is_stored_can_be_changed_until_its_gates_are_removed() -> None:
    stored = {**_running(), "spec": {**template_in(review(STORED))["spec"], "priority": 2_000_000_000}}
    gated = {**stored, "spec": {**stored["spec"], "schedulingGates": [{"name": "g"}]}}
    labelled = {**gated, "metadata": {**gated["metadata"], "labels": {"a": "b"}}}
    state, rule = cluster(NODE, _running(name="victim")), "violates-expectation"
    for new, old, denied in (
        (labelled, gated, set()),
        ({**labelled, "metadata": {**labelled["metadata"], "finalizers": []}}, gated, set()),
        (stored, gated, {rule}),
    ):
        assert denied_by(answered(rule, review(new, "UPDATE", oldObject=old), state=state)) == denied
