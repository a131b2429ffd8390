"""Quotas match, charge and refuse as the API server's plugin does."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.base.metering import FEW
from forewarn.policies.kubernetes.kube_apiserver.quota import (
    PODS,
    FaultKind,
    InvalidScope,
    _value_errors,
    first_rejected,
    is_covered_by,
    matches_scope,
    matching_resources,
    must_specify,
    uncovered,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import MAX_FAULTS
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
from forewarn.policies.kubernetes.objects.resources import add, exceeded, subtract_to_zero, without_zeros
from forewarn.policies.kubernetes.options import LimitedResource, ScopeSelector
from forewarn.policies.kubernetes.quantity import ZERO, Quantity
from tests.cases import each
from tests.policies.kube_apiserver.quota_cases import case as quota_case
from tests.policies.recorded import load
from tests.recorded.validation import RESOURCE_QUOTAS, PodsAt, check_request

ORACLE = Path(__file__).parents[3] / ".cache" / "oracle"
CLASSES = ["", "gold", "silver", "bronze"]


def selector_of(given: dict[str, Any]) -> ScopeSelector:
    return ScopeSelector(given["scopeName"], given["operator"], tuple(given.get("values") or ()))


def matched(selector: ScopeSelector, pod: dict[str, Any]) -> bool | str:
    try:
        return matches_scope(selector, pod)
    except InvalidScope as problem:
        return str(problem)


def pod(class_name: str = "", **resources: dict[str, str]) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": resources}
    return {"metadata": {"name": "p"}, "spec": {"containers": [container], "priorityClassName": class_name}}


def quota(
    hard: dict[str, str], used: dict[str, str] | None = None, name: str = "q", scopes: tuple[ScopeSelector, ...] = ()
) -> ResourceQuota:
    expressions = [{"scopeName": s.scope_name, "operator": s.operator, "values": [*s.values]} for s in scopes]
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    spec = {"hard": hard, "scopeSelector": {"matchExpressions": expressions}}
    return ResourceQuota.from_api({"metadata": {"name": name, "namespace": "team"}, "spec": spec, "status": status})


def by_class(operator: str, *values: str) -> ScopeSelector:
    return ScopeSelector("PriorityClass", operator, values)


@each(lambda: ((case,) for case in load("pod-usage.jsonl.gz")))
def test_a_pod_is_evaluated_as_upstream_evaluates_it(case: dict[str, Any]) -> None:
    check_evaluation(case, case["expected"])


@pytest.mark.slow
@pytest.mark.skipif(not ORACLE.exists(), reason="needs `make oracle`")
def test_ten_thousand_random_pods_are_evaluated_as_upstream_evaluates_them() -> None:
    random = Random(20_260_101)
    cases = [quota_case(random, str(number)) for number in range(10_000)]
    lines = "\n".join(map(json.dumps, cases))
    answers = subprocess.run(
        [ORACLE, "quota"], input=lines, capture_output=True, text=True, check=True, timeout=500
    ).stdout
    for case, answer in zip(cases, map(json.loads, answers.splitlines()), strict=True):
        assert answer["id"] == case["id"]
        check_evaluation(case, answer)


def check_evaluation(case: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {name: str(quantity) for name, quantity in PodsAt.of(case["now"]).usage(case["pod"]).items()} == expected[
        "usage"
    ]
    assert sorted(matching_resources(case["hard"])) == expected["resources"]
    missing = PODS.constraints(case["pod"], expected["resources"])
    assert (must_specify(missing) if missing else "") == expected["constraints"]
    assert [matched(selector_of(given), case["pod"]) for given in case["selectors"]] == expected["matches"]


@given(st.sampled_from(CLASSES), st.sets(st.sampled_from(CLASSES[1:]), min_size=1))
def test_in_and_not_in_are_complements_and_so_are_exists_and_does_not_exist(name: str, values: set[str]) -> None:
    given = pod(name)
    assert matches_scope(by_class("In", *values), given) != matches_scope(by_class("NotIn", *values), given)
    assert matches_scope(by_class("Exists"), given) != matches_scope(by_class("DoesNotExist"), given)
    assert matches_scope(by_class("In", *values), given) <= matches_scope(by_class("Exists"), given)


@given(
    st.sampled_from([None, -1, 0, 1, 600]), st.sampled_from([{}, {"cpu": "0"}, {"cpu": "1"}, {"example.com/x": "1"}])
)
def test_every_pod_is_on_one_side_of_each_pair_of_scopes(deadline: int | None, requests: dict[str, str]) -> None:
    given = pod(requests=requests)
    given["spec"]["activeDeadlineSeconds"] = deadline
    for scope in ("Terminating", "BestEffort"):
        one, other = ScopeSelector(scope, "Exists"), ScopeSelector(f"Not{scope}", "Exists")
        assert matches_scope(one, given) != matches_scope(other, given)


@given(
    st.lists(st.sampled_from([by_class("In", "gold"), by_class("Exists"), by_class("NotIn", "silver")])),
    st.sampled_from(CLASSES),
)
def test_all_scopes_of_a_quota_hold_together(scopes: list[ScopeSelector], name: str) -> None:
    together = PODS.matches(quota({"pods": "1"}, scopes=tuple(scopes)), pod(name))
    assert together == all(matches_scope(scope, pod(name)) for scope in scopes)
    assert together == (len(PODS.matching_scopes(scopes, pod(name))) == len(scopes))


def test_a_request_of_zero_consumes_nothing_that_is_limited() -> None:
    """Source: resourcequota `CheckRequest`, `limitedResourceNamesSet`: only what is greater than zero."""
    limited = LimitedResource("pods", ("cpu", "memory"))
    given = pod(requests={"cpu": "0", "memory": "1Mi"})
    faults = check_request(given, [], [limited]).faults
    assert [fault.message for fault in faults] == ["insufficient quota to consume: memory,requests.memory"]
    assert not check_request(pod(requests={"cpu": "0"}), [], [limited]).faults


@pytest.mark.parametrize(("requests", "best_effort"), [({"cpu": "0", "memory": "0"}, True), ({"cpu": "1m"}, False)])
def test_a_pod_that_requests_nothing_is_best_effort(requests: dict[str, str], best_effort: bool) -> None:
    assert matches_scope(ScopeSelector("BestEffort", "Exists"), pod(requests=requests)) == best_effort


def test_a_quota_without_a_status_limits_nothing() -> None:
    new = ResourceQuota.from_api({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}})
    assert not PODS.matches(new, pod())
    assert check_request(pod(), [new]).faults == ()


def test_a_quota_about_other_things_does_not_match_pods() -> None:
    assert not PODS.matches(quota({"services": "1", "limits.nvidia.com/gpu": "1"}), pod())


def test_a_scope_with_a_class_name_that_is_no_label_value_is_an_error() -> None:
    long = quota({"pods": "1"}, scopes=(by_class("In", "x" * 64),))
    (fault,) = check_request(pod("gold"), [long]).faults
    assert fault.kind is FaultKind.INVALID_SCOPE
    assert fault.message.startswith(
        "error matching scopes of quota q, err: error on matching scope {PriorityClass In [xxx"
    )


def test_faults_come_by_the_order_of_the_quotas() -> None:
    quotas = [quota({"pods": "0"}, name="a"), quota({"pods": "0"}, name="b"), quota({"pods": "9"}, name="c")]
    assert [fault.quota for fault in check_request(pod(), quotas).faults] == ["a", "b"]


def test_what_must_be_set_comes_before_what_is_exceeded() -> None:
    quotas = [quota({"pods": "0"}, name="a"), quota({"cpu": "1"}, name="b")]
    (fault,) = check_request(pod(), quotas).faults
    assert fault.message == "failed quota: b: must specify cpu for: c"


def test_unknown_use_is_refused() -> None:
    (fault,) = check_request(pod(), [quota({"pods": "1", "count/pods": "1"}, {"pods": "0"})]).faults
    assert fault.message == "status unknown for quota: q, resources: count/pods,pods"


def test_exceeding_names_only_what_is_exceeded() -> None:
    given = pod(requests={"cpu": "500m", "memory": "1Gi"})
    (fault,) = check_request(given, [quota({"cpu": "1", "memory": "1Gi"}, {"cpu": "600m", "memory": "0"})]).faults
    assert fault.message == "exceeded quota: q, requested: cpu=500m, used: cpu=600m, limited: cpu=1"
    assert fault.resources == ("cpu",)


def test_an_accepted_pod_is_charged() -> None:
    check = check_request(pod(requests={"cpu": "500m"}), [quota({"cpu": "1", "pods": "5"})])
    assert {name: str(quantity) for name, quantity in check.quotas[0].used.items()} == {"cpu": "500m", "pods": "1"}


def test_an_update_is_charged_with_the_difference() -> None:
    quotas = [quota({"cpu": "1"}, {"cpu": "1"})]
    old, less, more = (pod(requests={"cpu": cpu}) for cpu in ("500m", "400m", "600m"))
    assert check_request(less, quotas, old=old).faults == ()
    assert check_request(more, quotas, old=old).faults[0].message.startswith("exceeded quota: q, requested: cpu=100m")


def test_what_the_api_server_limits_needs_a_quota_of_the_same_scope_name() -> None:
    limited = [LimitedResource("pods", match_scopes=(by_class("In", "gold", "silver"),))]
    (fault,) = check_request(pod("gold"), [], limited).faults
    assert fault.message == "insufficient quota to match these scopes: [{PriorityClass In [gold silver]}]"
    assert check_request(pod("bronze"), [], limited).faults == ()
    # The loophole: the quota limits nothing, and is about any class but one that nobody has.
    loophole = quota({"services": "1"}, scopes=(by_class("NotIn", "nobody"),))
    assert check_request(pod("gold"), [loophole], limited).faults == ()
    assert is_covered_by(by_class("In", "gold"), [by_class("NotIn", "nobody")])


def test_what_the_api_server_limits_by_resource_needs_a_quota_that_limits_it() -> None:
    limited = [LimitedResource("pods", match_contains=("nvidia",))]
    given = pod(requests={"nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": "1"})
    (fault,) = check_request(given, [quota({"pods": "5"})], limited).faults
    assert fault.message == "insufficient quota to consume: requests.nvidia.com/gpu"
    assert check_request(given, [quota({"requests.nvidia.com/gpu": "1"})], limited).faults == ()
    assert check_request(given, [], [LimitedResource("pods", ("nvidia",), api_group="apps")]).faults == ()


def test_the_least_request_consumes_what_is_limited() -> None:
    limited = [LimitedResource("pods", match_contains=("requests.cpu",))]
    (fault,) = check_request(pod(requests={"cpu": "1n"}), [], limited).faults
    assert fault.message == "insufficient quota to consume: requests.cpu"


def test_a_quota_whose_scopes_cannot_be_read_covers_nothing_and_one_with_another_fault_does() -> None:
    limited = [LimitedResource("pods", match_scopes=(by_class("In", "gold"),))]
    unreadable = quota({"pods": "1"}, scopes=(by_class("In", "x" * 64),))
    demanding = quota({"requests.cpu": "1"}, name="b", scopes=(by_class("Exists"),))
    assert [fault.kind for fault in uncovered(pod("gold"), [unreadable], limited)] == [FaultKind.UNCOVERED_SCOPE]
    assert uncovered(pod("gold"), [unreadable, demanding], limited) == []
    assert check_request(pod("gold"), [demanding], limited).faults[0].kind is FaultKind.MUST_SPECIFY


def test_a_limited_scope_that_cannot_be_read_switches_every_check_off() -> None:
    limited = [LimitedResource("pods", match_scopes=(by_class("In", "no label value"),))]
    assert check_request(pod(), [quota({"pods": "0"})], limited).faults == ()


def test_a_pod_past_its_end_is_only_an_object() -> None:
    given = {**pod(requests={"cpu": "1"}), "status": {"phase": "Succeeded"}}
    assert set(PODS.usage(given)) == {"count/pods"}


def test_negative_use_is_refused() -> None:
    (fault,) = check_request(pod(requests={"cpu": "-1"}), [quota({"cpu": "1"})]).faults
    assert fault.message == "quota usage is negative for resource(s): cpu,requests.cpu"


def test_quotas_count_quotas_where_they_have_no_scope() -> None:
    new: dict[str, Any] = {"metadata": {"name": "new"}}
    (one,) = check_request(new, [quota({"resourcequotas": "1"})], evaluator=RESOURCE_QUOTAS).quotas
    assert {name: str(quantity) for name, quantity in one.used.items()} == {"resourcequotas": "1"}
    counting = quota({"resourcequotas": "1"}, {"resourcequotas": "1"})
    assert check_request(new, [counting], evaluator=RESOURCE_QUOTAS).faults[0].kind is FaultKind.EXCEEDED
    scoped = quota({"resourcequotas": "1"}, {"resourcequotas": "1"}, scopes=(by_class("Exists"),))
    assert check_request(new, [scoped], evaluator=RESOURCE_QUOTAS).faults == ()


@settings(deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), st.integers(0, 3000), st.integers(0, 900), st.integers(1, 12))
def test_the_first_that_does_not_fit_is_the_one_that_asking_one_by_one_finds(
    pods: int, used: int, cpu: int, request: int, replicas: int
) -> None:
    given = pod(requests={"cpu": f"{request}m"})
    quotas = [quota({"pods": str(pods)}, {"pods": str(used)}, "a"), quota({"cpu": f"{cpu}m"}, name="b")]
    found, check = first_rejected(given, quotas, replicas=replicas)
    one_by_one = check_request(given, quotas)
    accepted = 0
    while not one_by_one.faults and accepted < replicas:
        accepted += 1
        one_by_one = check_request(given, one_by_one.quotas) if accepted < replicas else one_by_one
    assert found == (0 if accepted == replicas else accepted + 1)
    assert [fault.message for fault in check.faults] == [fault.message for fault in one_by_one.faults]
    assert [dict(q.used) for q in check.quotas] == [dict(q.used) for q in one_by_one.quotas]


def test_a_million_replicas_are_counted_at_once() -> None:
    found, check = first_rejected(pod(), [quota({"pods": "999999"})], replicas=10**6)
    assert found == 10**6
    assert check.faults[0].message == "exceeded quota: q, requested: pods=1, used: pods=999999, limited: pods=999999"


def test_where_nothing_is_limited_all_fit() -> None:
    assert first_rejected(pod(), [quota({"services": "1"})], replicas=10**9)[0] == 0
    assert first_rejected(pod(), [], replicas=0)[0] == 0


lists = st.dictionaries(st.sampled_from("abc"), st.integers(-5, 5).map(lambda n: Quantity(n * 10**9)))


@given(lists, lists)
def test_amounts_add_and_subtract_name_by_name(first: dict[str, Quantity], second: dict[str, Quantity]) -> None:
    total = add(first, second)
    assert {n: total[n] for n in total} == {n: first.get(n, ZERO) + second.get(n, ZERO) for n in {*first, *second}}
    assert all(quantity.nano >= 0 for quantity in subtract_to_zero(first, second).values())
    assert all(without_zeros(total).values())
    assert exceeded(first, first) == []
    assert set(exceeded(first, second)) == {n for n in {*first} & {*second} if first[n].nano > second[n].nano}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"hard": {"cpu": "x"}}, "quantities must match"),
        ({"scopes": [1]}, "must be a string, not number"),
        ({"scopeSelector": {"matchExpressions": ["x"]}}, "must be an object, not string"),
        ({"scopeSelector": {"matchExpressions": [{"operator": 1}]}}, "matchExpressions[0].operator: must be a string"),
    ],
)
def test_a_quota_that_cannot_be_read_says_where(spec: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidObject) as rejected:
        ResourceQuota.from_api({"kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec})
    assert problem in str(rejected.value)


def test_the_evaluator_of_pods_knows_the_time() -> None:
    deleted = pod(requests={"cpu": "1"})
    deleted["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    quotas, moment = [quota({"cpu": "0"})], 1767225600
    assert check_request(deleted, quotas, evaluator=PodsAt.of(moment + 30)).faults
    assert not check_request(deleted, quotas, evaluator=PodsAt.of(moment + 31)).faults


def test_what_no_pod_can_meet_refuses_the_first_however_much_room_there_is() -> None:
    number, check = first_rejected(pod(), [quota({"requests.cpu": "9"}, {"requests.cpu": "0"})], replicas=3)
    assert number == 1
    assert [fault.kind for fault in check.faults] == [FaultKind.MUST_SPECIFY]


LONG = tuple(f"class-{number}" for number in range(FEW + 1))


def test_a_long_selector_is_looked_at_once_and_matches_every_time() -> None:
    selector = ScopeSelector("PriorityClass", "In", LONG)
    with patch("forewarn.policies.kubernetes.kube_apiserver.quota._value_errors", wraps=_value_errors) as work:
        for _ in range(2):
            assert matches_scope(selector, pod(LONG[-1]))
            assert not matches_scope(selector, pod("gold"))
    assert work.call_count == 1


def test_without_a_time_no_pod_is_past_its_end() -> None:
    deleted = pod()
    deleted["metadata"] |= {"deletionTimestamp": "1970-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    assert check_request(deleted, [quota({"pods": "0"})]).faults
    assert first_rejected(deleted, [quota({"pods": "0"})], replicas=1)[0] == 1
    assert not check_request(deleted, [quota({"pods": "0"})], evaluator=PodsAt.of(1)).faults


def test_the_least_request_takes_a_pod_out_of_best_effort() -> None:
    asking = pod(requests={"cpu": "1n"})
    assert matches_scope(ScopeSelector("NotBestEffort", "Exists"), asking)
    assert not matches_scope(ScopeSelector("BestEffort", "Exists"), asking)


def test_of_very_many_wrong_values_a_few_are_told() -> None:
    wrong = tuple(f"-{number}" for number in range(MAX_FAULTS + FEW))
    for values in (wrong, wrong[: MAX_FAULTS + 1]):
        with pytest.raises(InvalidScope) as told:
            matches_scope(ScopeSelector("PriorityClass", "In", values), pod("gold"))
        problem = str(told.value).split("selector: ")[1]
        assert len(re.findall(r"values\[\d+\]", problem)) == MAX_FAULTS
