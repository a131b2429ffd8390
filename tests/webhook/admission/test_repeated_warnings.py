"""Warnings that say nothing new, and too many of them."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.base.findings import Action
from forewarn.policies.linting.config.model import Config, RepeatedWarnings
from forewarn.policies.linting.rules import RULES
from forewarn.webhook.admission.decision import BEST, Decision, Verdict
from forewarn.webhook.admission.endpoint import FULL, REMEMBERED, SECONDS, TOGETHER, WarningLimiter
from forewarn.webhook.admission.review import AdmissionCall, Hook, parse_review
from tests.webhook.admission.test_disclosure import STARVING, STATE, _named, _pod_spec, _running
from tests.webhook.builders import (
    OBJECTS,
    answer_now,
    body,
    cluster,
    decided,
    deployment,
    endpoint,
    namespace,
    pod,
    priority_class,
    review,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Obj = dict[str, Any]
ALL_WARN = Config(actions={rule.ID: Action.WARN for rule in RULES if rule.ACTION is not None})


def _touched(obj: Obj) -> Obj:
    """The object with other metadata, as a second apply of it may have."""
    metadata = {**obj["metadata"], "labels": {"touched": "yes"}, "resourceVersion": "2"}
    return {**obj, "metadata": metadata}


FULL_QUOTA = _named(
    "ResourceQuota",
    "v1",
    "few",
    "team",
    spec={"hard": {"pods": "1"}},
    status={"hard": {"pods": "1"}, "used": {"pods": "1"}},
)
CROWDED = cluster(
    *(obj for obj in OBJECTS if obj["metadata"]["name"] != "team"),
    namespace("team"),
    FULL_QUOTA,
    _named("Node", "v1", "node-7", status={"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "20"}}),
    _running("nightly", "payroll", 1),
    _running("drifted", "payroll", 7) | {"spec": _pod_spec("1", "gold", nodeName="node-7", priority=7)},
)


def _workload(class_name: str, **spec: Any) -> Obj:
    obj = deployment(class_name)
    obj["spec"]["template"]["spec"] = _pod_spec("2", class_name, priority=7)
    obj["spec"].update(spec)
    return obj


QUOTA = _named(
    "ResourceQuota",
    "v1",
    "q",
    "team",
    spec={
        "hard": {"services": "1"},
        "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["gald"]}]},
    },
)
STANDING = {
    "Deployment": _workload("gald"),
    "a Deployment that does not fit": _workload("gold", replicas=3),
    "ResourceQuota": QUOTA,
    "PriorityClass": priority_class("gold", 1000, preemptionPolicy="Never"),
    "Namespace": namespace("team", default_priority_class="gald"),
    "Pod": pod("gald", 7),
}


@pytest.mark.parametrize("obj", STANDING.values(), ids=STANDING.keys())
def test_an_object_that_is_applied_again_says_nothing_anew(obj: Obj) -> None:
    created = decided(Hook.VALIDATE, review(obj), state=CROWDED, config=ALL_WARN)
    assert created.response.warnings
    for new in (deepcopy(obj), _touched(obj)):
        again = decided(Hook.VALIDATE, review(new, "UPDATE", oldObject=obj), state=CROWDED, config=ALL_WARN)
        assert again.response.warnings == ()
        assert again.verdict is Verdict.ALLOWED


@pytest.mark.parametrize("obj", [STANDING["Deployment"], QUOTA], ids=["Deployment", "ResourceQuota"])
def test_what_an_update_leaves_as_it_is_stands_in_the_audit_log(obj: Obj) -> None:
    warned = decided(Hook.VALIDATE, review(obj), state=CROWDED, config=ALL_WARN)
    again = decided(Hook.VALIDATE, review(_touched(obj), "UPDATE", oldObject=obj), state=CROWDED, config=ALL_WARN)
    rules = {finding.rule for finding in warned.findings} & {finding.rule for finding in again.findings}
    assert rules
    assert rules <= again.response.audit.keys()


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 2},
        {"template": {"metadata": {"labels": {"app": "web"}}, "spec": _pod_spec("1", "gald")}},
        {"paused": True},
    ],
    ids=["replicas", "template", "paused"],
)
def test_an_update_that_brings_other_pods_is_warned_of_what_stood_before(change: Obj) -> None:
    old = _workload("gald")
    new = _touched({**old, "spec": {**old["spec"], **change}})
    answer = decided(Hook.VALIDATE, review(new, "UPDATE", oldObject=old), state=CROWDED)
    assert 'PriorityClass "gald" not found' in " ".join(answer.response.warnings)


def test_an_update_is_warned_of_what_it_changes_alone() -> None:
    old, new = (priority_class("gold", 1000, globalDefault=is_default) for is_default in (False, True))
    warnings = decided(Hook.VALIDATE, review(new, "UPDATE", oldObject=old), state=CROWDED).response.warnings
    assert "[default-not-retroactive]" in warnings[0]
    assert "priority-drift" not in " ".join(warnings)


@pytest.mark.parametrize("obj", [STANDING["Deployment"], QUOTA], ids=["Deployment", "ResourceQuota"])
def test_a_denial_of_an_unchanged_object_stands(obj: Obj) -> None:
    deny = Config(actions=dict.fromkeys(ALL_WARN.actions, Action.DENY))
    assert not decided(Hook.VALIDATE, review(obj, "UPDATE", oldObject=obj), state=CROWDED, config=deny).response.allowed


class Told:
    """One user after the other with the same warning, on a clock of its own."""

    def __init__(self, config: Config | None = None) -> None:
        self.now, self.config = 0.0, config or Config()
        self.patience = WarningLimiter(lambda: self.now)

    def about(self, obj: Obj, user: str = "kim", **more: Any) -> Decision:
        given = review(obj, userInfo={"username": user}, **more)
        return self.limited(given, decided(Hook.VALIDATE, given, state=STATE, config=self.config))

    def limited(self, given: Obj, decision: Decision) -> Decision:
        return self.patience.with_limited_warnings(parse_review(json.dumps(given).encode()), decision, self.config)


def _applied(told: Told, decision: Decision, obj: Obj, count: int) -> Iterator[list[str]]:
    """The warnings about each of several objects of one apply, as kubectl prints them: an equal line only once."""
    printed: set[str] = set()
    for number in range(count):
        new = {**obj, "metadata": {**obj["metadata"], "name": f"{NAME}-{number}"}}
        named = tuple(f._replace(object=f.object._replace(name=f"{NAME}-{number}")) for f in decision.findings)
        warnings = told.limited(review(new), replace(decision, findings=named)).response.warnings
        yield [line for line in warnings if line not in printed]
        printed.update(warnings)


NAME = "payments-of-the-northern-region"
WILL_NOT_RUN = {
    "a missing class": (
        deployment("gald"),
        "unknown-priority-class",
        'PriorityClass "gald" not found; Pods will be rejected',
    ),
    "a quota": (_workload("gold", replicas=3), "quota-exceeded", "ResourceQuota few"),
    "no node": (
        {**STARVING, "spec": {**STARVING["spec"], "nodeSelector": {"no": "node"}}},
        "fits-nowhere",
        "stays Pending",
    ),
}


@pytest.mark.parametrize("count", [1, 15, 500])
@pytest.mark.parametrize("case", WILL_NOT_RUN.values(), ids=WILL_NOT_RUN.keys())
def test_no_object_that_will_not_run_is_hidden_from_its_user(case: tuple[Obj, str, str], count: int) -> None:
    obj, rule, words = case
    told = Told()
    for image in ("one", "two"):  # within a minute
        new = deepcopy(obj)
        pod_spec = new["spec"]["template"]["spec"] if "template" in new["spec"] else new["spec"]
        pod_spec["containers"][0]["image"] = image
        decision = decided(Hook.VALIDATE, review(new), state=CROWDED)
        for number, lines in enumerate(_applied(told, decision, new, count)):
            (line,) = (line for line in lines if line.endswith(f"[{rule}]"))
            assert re.match(rf"{obj['kind']} (team|shop)/p.*-{number}: ", line)
            assert words in line
            assert len(line) <= BEST + len(f" [{rule}]")


@pytest.mark.parametrize("count", [1, 15, 500])
def test_other_warnings_are_shortened_and_never_to_nothing(count: int) -> None:
    told = Told()
    decision = decided(Hook.VALIDATE, review(STARVING), state=STATE)
    for _ in range(2):
        applied = [*_applied(told, decision, STARVING, count)]
        assert [len(lines) for lines in applied] == [1] * count
        assert all(
            re.match(rf"Pod shop/payments.*-{number}: would preempt 2 Pods", lines[0])
            for number, lines in enumerate(applied)
            if number
        )
        assert all(len(line) <= BEST + len(" [preempts-running-pods]") for lines in applied[1:] for line in lines)
    hidden = max(0, 2 * count - FULL)
    assert (f"({hidden} shortened; see annotation)" in applied[-1][0]) is bool(hidden)


def test_objects_with_equal_long_names_but_for_their_end_have_different_warnings() -> None:
    told = Told()
    names = [f"{'n' * 61}-{letter}" for letter in "abc"]
    warnings = [told.about({**STARVING, "metadata": {**STARVING["metadata"], "name": name}}) for name in names]
    assert len({warning.response.warnings for warning in warnings}) == len(names)


def test_one_object_is_not_named_and_one_of_several_is() -> None:
    told = Told()
    another = {**STARVING, "metadata": {**STARVING["metadata"], "name": "another"}}
    one, other = (told.about(obj).response.warnings[0] for obj in (STARVING, another))
    assert one.startswith("would preempt 2 Pods: shop/report, 1 Pod of another namespace (priority 100 to 200")
    assert other.startswith("Pod shop/another: would preempt 2 Pods")
    told.now = TOGETHER
    assert told.about(STARVING).response.warnings == (one,)


def test_audit_annotations_of_short_warnings_are_full() -> None:
    told = Told()
    for _ in range(FULL + 1):
        answer = told.about(STARVING)
        assert answer.response.allowed
        assert answer.verdict is Verdict.WARNED
        assert "node-7" in answer.response.audit["preempts-running-pods"]


def test_short_warnings_do_not_extend_the_minute() -> None:
    now = [0.0]
    patience = WarningLimiter(lambda: now[0])
    full = []
    for now[0] in range(1, 200):
        full += [now[0]] * (patience.count("kim", "rule") == 0)
    assert full == [1, 2, 3, 61, 62, 63, 121, 122, 123, 181, 182, 183]


def test_another_user_another_rule_and_a_dry_run_are_told_in_full() -> None:
    told = Told()
    full = told.about(STARVING).response.warnings
    for _ in range(FULL):
        told.about(STARVING)
    assert told.about(STARVING).response.warnings != full
    assert told.about(STARVING, user="robin").response.warnings == full
    assert told.about(STARVING, dryRun=True).response.warnings == full
    (unknown,) = told.about(deployment("nothing")).response.warnings
    assert unknown.endswith("[unknown-priority-class]")
    assert "Fix: " in unknown


def test_a_denial_is_always_told_whole() -> None:
    told = Told(Config(actions={"preempts-running-pods": Action.DENY}))
    denials = {told.about(STARVING).response.message for _ in range(FULL + 5)}
    assert len(denials) == 1
    assert "shop/report, 1 Pod of another namespace" in denials.pop()


def test_configuration_can_have_every_warning_in_full() -> None:
    told = Told(Config(repeated_warnings=RepeatedWarnings.FULL))
    assert len({told.about(STARVING).response.warnings for _ in range(30)}) == 1


def test_no_number_of_users_makes_it_grow() -> None:
    patience = WarningLimiter(lambda: 0.0)
    for number in range(3 * REMEMBERED):
        patience.count(f"user-{number}", "rule")
    assert len(patience._counts) == REMEMBERED


@given(st.lists(st.floats(0, 30), max_size=60))
def test_a_minute_has_at_most_so_many_full_warnings_and_each_short_one_is_counted(pauses: list[float]) -> None:
    now = [0.0]
    patience = WarningLimiter(lambda: now[0])
    full: list[float] = []
    before = 0
    for pause in pauses:
        now[0] += pause
        count = patience.count("kim", "rule")
        assert count in (0, before + 1)
        full += [] if count else [now[0]]
        before = count
    assert all(later - earlier >= SECONDS for earlier, later in zip(full, full[FULL:], strict=False))


def test_the_webhook_counts_each_request_once_though_it_may_be_judged_twice() -> None:
    """What rests on the cache is judged on the event loop, and again on a worker with the live classes."""
    asked = endpoint(lambda: STATE, confirm=lambda: STATE.priority_classes)
    answers = [
        json.loads(answer_now(asked, AdmissionCall(Hook.VALIDATE, body(STARVING), 1e12)).body)["response"]["warnings"]
        for _ in range(FULL + 1)
    ]
    assert answers[0] == answers[FULL - 1] != answers[FULL]


def test_a_prediction_for_a_cron_job_is_about_a_run_now() -> None:
    template = {"spec": {**STARVING["spec"], "restartPolicy": "Never"}}
    nightly = {
        **STARVING,
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": template}}},
    }
    warnings = decided(Hook.VALIDATE, review(nightly), state=STATE).response.warnings
    (warning,) = (warning for warning in warnings if warning.endswith("[preempts-running-pods]"))
    assert warning.startswith("if it ran now, would preempt 2 Pods: ")
