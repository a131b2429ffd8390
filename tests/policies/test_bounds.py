"""What one object may lead to is bounded: counts, findings, messages, suggestions, numbers."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.base.copies import Labels, Shared
from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.kubernetes.controllers.changes import arrivals
from forewarn.policies.kubernetes.controllers.own_pods import FreeNumbers, NumberedPods, new_pods
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.extent import MAX_POD_TERMS, check_extent, check_quota_extent
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.kubernetes.objects.pod import NO_SPEC, Pod
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.kubernetes.quantity import InvalidQuantity, parse_quantity
from forewarn.policies.kubernetes.releases.semantics import DEFAULT
from forewarn.policies.kubernetes.scheduling.vectorized.equivalence_classes import EquivalenceClasses
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import MAX_PROBLEMS, EvaluationRequest, Phase, evaluate
from forewarn.policies.linting.rules.support.names import nearest
from forewarn.policies.linting.rules.wording.forecasts import placement_notes
from forewarn.policies.prediction.forecast.placement import place
from tests.builders import Made, cluster, make_node, make_pod
from tests.work import cpu_seconds

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HUGE = 2_000_000_000


def workload(kind: str = "Deployment", **spec: Any) -> Any:
    template = {"metadata": {"labels": {"app": "w"}}, "spec": make_pod("x").request(cpu="1").obj["spec"]}
    selector = {"matchLabels": {"app": "w"}}
    return Made("apps/v1", kind, "w", "default").spec(**{"selector": selector, "template": template, **spec}).obj


def template_of(obj: Any) -> Any:
    template = pod_template_of(obj, POD_TEMPLATE_PATHS)
    assert template is not None
    return template.object


def quota(values: list[str]) -> ReviewedObject:
    expression = {"scopeName": "PriorityClass", "operator": "In", "values": values}
    spec = {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [expression]}}
    metadata = {"name": "q", "namespace": "team"}
    return ReviewedObject({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec})


def test_two_thousand_million_pods_are_no_list() -> None:
    state, obj = cluster(make_node("n1")), workload(replicas=HUGE)
    new = new_pods(state, obj, template_of(obj))
    assert (new.wanted, len(new.pods)) == (HUGE, HUGE)
    assert isinstance(new.pods, NumberedPods)
    assert new.pods.is_uniform
    assert [new.pods[0].name, new.pods[-1].name] == ["w-0", f"w-{HUGE - 1}"]
    assert [pod.name for pod in new.pods[5:][:2]] == ["w-5", "w-6"]


@given(st.sets(st.integers(0, 30)), st.integers(0, 5), st.integers(0, 40))
def test_names_are_those_that_nobody_has(taken: set[int], first: int, index: int) -> None:
    present = [*(f"w-{number}" for number in taken), "w-01", "w-x", "v-3", "w-" + "9" * 99]
    free = [number for number in range(first, 200) if number not in taken]
    assert FreeNumbers("w", first, present).name(index) == f"w-{free[index]}"


def test_the_preempt_command_places_so_many_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.policies.prediction.forecast.placement.MAX_SEQUENTIAL", 4)
    found = place(cluster(make_node("n1")), workload(replicas=HUGE))
    assert (len(found.predictions), found.omitted, found.existing) == (4, HUGE - 4, 0)
    assert f"only the first 4 new Pods are evaluated, {HUGE - 4} more are not" in placement_notes(found)
    many = place(cluster(make_node("n1")), make_pod("p").request(cpu="1").obj, HUGE)
    assert (len(many.predictions), many.omitted) == (4, HUGE - 4)


@pytest.mark.parametrize("surge", ["9" * 5000 + "%", "9" * 19 + "%", "x%", "²%", True, 1.5])
def test_a_surge_that_is_no_number_is_refused(surge: Any) -> None:
    obj = workload(replicas=HUGE, strategy={"rollingUpdate": {"maxSurge": surge}})
    with pytest.raises(InvalidObject, match="maxSurge"):
        arrivals(obj, template_of(obj), None, None)


@pytest.mark.parametrize(
    ("surge", "is_worth"), [("0" * 5000 + "50%", HUGE // 2), ("999999999999999999%", HUGE), (10**99, HUGE)]
)
def test_a_surge_of_any_size_is_counted(surge: Any, is_worth: int) -> None:
    obj = workload(replicas=HUGE, strategy={"rollingUpdate": {"maxSurge": surge}})
    assert arrivals(obj, template_of(obj), None, None) == (HUGE, is_worth)


@pytest.mark.parametrize(
    "text", ["0" * 100_000 + "!", "9" * 100_000 + "x", "1" + "e" * 100_000, "+" * 9999, "0" * 99_999]
)
def test_a_long_quantity_is_read_at_once(text: str) -> None:
    def read() -> None:
        if text.strip("0"):
            with pytest.raises(InvalidQuantity):
                parse_quantity(text)
        else:
            assert not parse_quantity(text)

    assert cpu_seconds(read, 0.1) < 0.1


def test_findings_of_one_rule_about_one_object_are_a_handful_and_a_count() -> None:
    found = evaluate(
        EvaluationRequest(
            ChangeSet((quota([f"c{n}" for n in range(300)]),)), cluster(), Config(), phase=Phase.LINT, now=NOW
        )
    )
    ours = [finding for finding in found if finding.rule == "quota-matches-nothing"]
    assert len(ours) == MAX_PROBLEMS + 1
    assert f"{300 - MAX_PROBLEMS} more like these in this object" in {finding.message for finding in ours}
    others = [quota(["a"]), quota(["b"])]
    assert (
        len(evaluate(EvaluationRequest(ChangeSet(tuple(others)), cluster(), Config(), phase=Phase.LINT, now=NOW))) == 2
    )


def test_messages_are_cut() -> None:
    found = evaluate(
        EvaluationRequest(ChangeSet((quota(["x" * 100_000]),)), cluster(), Config(), phase=Phase.LINT, now=NOW)
    )
    assert found
    assert all(len(finding.message) <= 2000 for finding in found)


def test_what_may_be_meant_is_looked_for_among_a_hundred_names_and_never_for_a_long_one() -> None:
    known = ["golden", *(f"class-{number:05}" for number in range(50_000))]
    assert nearest("goldn", known) == '; did you mean "golden"?'
    assert nearest("class-12346x", known) != ""
    assert nearest("g" * 254, ["g" * 253]) == ""
    assert cpu_seconds(lambda: nearest("goldn", known), 0.5) < 0.5


def test_a_pod_with_too_much_is_not_begun_where_work_is_metered_and_is_where_it_is_not() -> None:
    terms = [{"topologyKey": "zone"}] * (MAX_POD_TERMS + 1)
    spec = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
    check_extent(spec)
    with metered(lambda: False):
        check_extent({**spec, "affinity": {}})
        with pytest.raises(CutShort, match=f"{MAX_POD_TERMS + 1} terms of Pod affinity; forewarn evaluates at most"):
            check_extent(spec)
        with pytest.raises(CutShort, match="names of classes"):
            check_quota_extent(quota([f"c{n}" for n in range(100_000)]).object["spec"])


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=9
    )
)
def test_whatever_a_spec_is_its_extent_can_be_told(value: Any) -> None:
    with metered(lambda: False):
        for key in ("containers", "affinity", "topologySpreadConstraints", "nodeSelector", "overhead", "resources"):
            check_extent({key: value})
        check_extent({"affinity": {"podAffinity": value, "nodeAffinity": value}, "containers": [value]})
        check_extent(value)
        check_quota_extent(value)
        check_quota_extent({"scopeSelector": value, "hard": value, "scopes": value})


def test_of_large_texts_nothing_is_kept() -> None:
    shared: Shared[str, Labels] = Shared()
    shared.get("small", lambda: Labels(a="b"), 100)
    shared.get("large", lambda: Labels(a="c"), 10**6)
    assert len(shared) == 1
    for number in range(1000):
        shared.get(str(number), lambda: Labels(a="d"), 8000)
    assert len(shared) <= 131, "a million characters of texts that nobody holds"


def test_a_hundred_large_pods_leave_little_behind() -> None:
    state, template = cluster(make_node("n1")), workload()["spec"]["template"]
    values = [f"v{number}" for number in range(4000)]

    def judge(number: int) -> None:
        terms = [{"matchExpressions": [{"key": f"k{number}", "operator": "In", "values": values}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec = {**template["spec"], "affinity": {"nodeAffinity": required}}
        change_set = ChangeSet((ReviewedObject(workload(replicas=1, template={**template, "spec": spec})),))
        evaluate(EvaluationRequest(change_set, state, Config(), phase=Phase.VALIDATE, now=NOW, expired=lambda: False))

    judge(-1)  # what is imported with the first
    tracemalloc.start()
    for number in range(100):
        judge(number)
    gc.collect()
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < 4 * 1024 * 1024


def test_large_kinds_of_pods_are_let_go_sooner() -> None:
    kinds = EquivalenceClasses(DEFAULT)
    for number, size in enumerate((0, 100, 64 * 1024)):
        pod = Pod("team", f"p{number}", spec=replace(NO_SPEC, size=size), labels={})
        kinds.number(pod)
    assert (len(kinds), kinds.weight) == (4, 36)
