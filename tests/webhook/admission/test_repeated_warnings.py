"""Warnings that say nothing new, and too many of them."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.config import Config, RepeatedWarnings
from forewarn.policies.findings import Action
from forewarn.policies.rules import RULES
from forewarn.webhook.admission.call import AdmissionCall, Hook
from forewarn.webhook.admission.decision import Decision, Verdict
from forewarn.webhook.admission.repeated_warnings import (
    EACH,
    FULL,
    MAX_SHORT,
    REMEMBERED,
    SECONDS,
    SHORT,
    WarningLimiter,
)
from forewarn.webhook.admission.review import parse_review
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
        decision = decided(Hook.VALIDATE, given, state=STATE, config=self.config)
        return self.patience.with_limited_warnings(parse_review(json.dumps(given).encode()), decision, self.config)


def test_thirty_objects_at_once_are_a_few_warnings_short_ones_and_a_count() -> None:
    told = Told()
    answers = [
        told.about({**STARVING, "metadata": {**STARVING["metadata"], "name": f"web-{number}"}}) for number in range(30)
    ]
    lines = [warning for answer in answers for warning in answer.response.warnings]
    assert [len(answer.response.warnings) for answer in answers[: FULL + SHORT]] == [1] * (FULL + SHORT)
    assert len(lines) == FULL + SHORT + (30 - FULL - SHORT) // EACH
    full = "would preempt 2 Pods: shop/report, 1 Pod of another namespace (priority 100 to 200"
    assert lines[FULL - 1].startswith(full)
    assert lines[FULL] == ("Pod web-3: would preempt 2 Pods (see its annotation) [preempts-running-pods]")
    assert all(len(line) <= MAX_SHORT for line in lines[FULL:])
    assert lines[-1] == "20 more warnings of this rule not shown [preempts-running-pods]"
    for answer in answers:
        assert answer.response.allowed
        assert answer.verdict is Verdict.WARNED
        assert "node-7" in answer.response.audit["preempts-running-pods"]


def test_after_a_minute_warnings_are_told_in_full_again() -> None:
    told = Told()
    first = told.about(STARVING).response.warnings
    for _ in range(FULL + SHORT):
        told.about(STARVING)
    told.now = SECONDS + 0.1
    assert told.about(STARVING).response.warnings == first


def test_the_time_slides() -> None:
    told = Told()
    full = told.about(STARVING).response.warnings
    heard = []
    for told.now in range(31, 400, 31):  # two within any minute
        heard.append(told.about(STARVING).response.warnings)
    assert heard == [full] * len(heard)


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
    denials = {told.about(STARVING).response.message for _ in range(FULL + SHORT + 5)}
    assert len(denials) == 1
    assert "shop/report, 1 Pod of another namespace" in denials.pop()


def test_configuration_can_have_every_warning_in_full() -> None:
    told = Told(Config(repeated_warnings=RepeatedWarnings.FULL))
    assert len({told.about(STARVING).response.warnings for _ in range(30)}) == 1


def test_no_number_of_users_makes_it_grow() -> None:
    patience = WarningLimiter(lambda: 0.0)
    for number in range(3 * REMEMBERED):
        patience.count(f"user-{number}", "rule")
    assert len(patience._last_warned) == REMEMBERED


@given(st.lists(st.floats(0, 30), max_size=60))
def test_as_many_are_told_or_counted_as_there_were(pauses: list[float]) -> None:
    """Within any minute there are at most so many full ones and short ones; of each ten others one line is told."""
    now = [0.0]
    patience = WarningLimiter(lambda: now[0])
    full: list[float] = []
    spoken: list[float] = []
    heard: list[float] = []
    suppressed = 0
    for pause in pauses:
        now[0] += pause
        suppressed *= any(time > now[0] - SECONDS for time in heard)
        heard.append(now[0])
        turn = patience.count("kim", "rule")
        if turn.is_full or turn.is_short:
            spoken.append(now[0])
            full += [now[0]] if turn.is_full else []
        else:
            suppressed += 1
            assert turn.suppressed == suppressed
            assert turn.is_count is (suppressed % EACH == 0)
    for times, most in ((full, FULL), (spoken, FULL + SHORT)):
        assert all(later - earlier >= SECONDS for earlier, later in zip(times, times[most:], strict=False))


def test_the_webhook_counts_each_request_once_though_it_may_be_judged_twice() -> None:
    """What rests on the cache is judged on the event loop, and again on a worker with the live classes."""
    asked = endpoint(lambda: STATE, confirm=lambda: STATE.priority_classes)
    answers = [
        json.loads(answer_now(asked, AdmissionCall(Hook.VALIDATE, body(deployment("nothing")), 1e12)).body)["response"][
            "warnings"
        ]
        for _ in range(FULL + 1)
    ]
    assert answers[0] == answers[FULL - 1] != answers[FULL]
