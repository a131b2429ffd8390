"""docs/internals/failure-modes.md, row by row."""

from __future__ import annotations

import json
import re
import ssl
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from socket import create_connection
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from forewarn.policies.base.findings import Action
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.linting.config.load import read_config
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.rules import RULES
from forewarn.webhook.admission import impact_annotation
from forewarn.webhook.admission.decide import NOT_EVALUATED, DefaultCandidate, Direction
from forewarn.webhook.admission.decision import COUNTS_THE_CACHE, RESTS_ON_THE_CACHE, Decision, Verdict
from forewarn.webhook.admission.lanes import DEFAULT_SECONDS, parse_timeout
from forewarn.webhook.admission.review import (
    EVERYTHING,
    MAX_DECODED,
    MAX_SMALL,
    MAX_WIRE,
    PARSED,
    AdmissionCall,
    Callers,
    Hook,
)
from forewarn.webhook.apiserver.typed_client import Forbidden
from forewarn.webhook.controllers.leases import Reserver
from forewarn.webhook.http.asgi import Limits
from forewarn.webhook.http.tls import Demands
from forewarn.webhook.metrics import Metrics
from forewarn.webhook.x509 import Authority, self_signed
from tests.policies.kueue import worlds
from tests.webhook.builders import (
    answer_now,
    body,
    cluster,
    decided,
    deployment,
    endpoint,
    namespace,
    patch_of,
    pod,
    priority_class,
    review,
)
from tests.webhook.certificates import write_client
from tests.webhook.fake_api import LEASE, FakeApi
from tests.webhook.running import QUICK, Running, answer_of, begin, is_status, read_answer, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forewarn.webhook.admission.endpoint import Endpoint

TABLE = Path(__file__).parents[3] / "docs" / "internals" / "failure-modes.md"
TESTS: dict[str, Callable[[Running], None]] = {}
DECIDED_IN: dict[str, tuple[str, ...]] = {}
"""Row -> what in the code decides it; rows about rules have nothing."""
DANGLING = pod("nothing", 7)
OLD_WEB = {**deployment("gold"), "metadata": {"name": "web", "namespace": "team"}}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team"}}
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "team"}}


def rows() -> list[str]:
    return re.findall(r"^\| `([a-z0-9-]+)` \|", TABLE.read_text(), re.MULTILINE)


def row(name: str, *decided_in: str) -> Callable[[Callable[[Running], None]], Callable[[Running], None]]:
    """Register the test of a row. `decided_in`: dotted names of what decides it."""

    def register(test: Callable[[Running], None]) -> Callable[[Running], None]:
        assert name not in TESTS
        TESTS[name] = test
        DECIDED_IN[name] = decided_in
        return test

    return register


@pytest.mark.parametrize("name", rows())
def test_every_row_of_the_table_holds(name: str, served: Running) -> None:
    TESTS[name](served)


def test_every_row_has_a_test_and_every_test_a_row() -> None:
    assert sorted(rows()) == sorted(TESTS)


def test_every_row_that_is_no_rule_says_where_it_is_decided() -> None:
    by_the_state = sum(rule.ACTION is not None and bool(rule.DEPENDS_ON.stored) for rule in RULES)
    assert {name for name, places in DECIDED_IN.items() if places} == set(rows()[:-by_the_state])
    for place in {place for places in DECIDED_IN.values() for place in places}:
        assert resolve_name(place) is not None


def test_every_direction_of_the_decision_is_a_row() -> None:
    assert {*Direction} <= set(rows())


def unreachable() -> NoReturn:
    raise ConnectionRefusedError("no route to the API server")


def passes(given: dict[str, Any]) -> None:
    """Neither hook says a word about it."""
    for hook in Hook:
        decision = decided(hook, given)
        assert decision.verdict is Verdict.ALLOWED
        assert json.loads(decision.response.to_bytes())["response"] == {"uid": given["request"]["uid"], "allowed": True}


def rules(decision: Decision) -> set[str]:
    return {finding.rule for finding in decision.findings}


# Requests


@row("create", "forewarn.webhook.admission.decide.direction_of")
def _(_: Running) -> None:
    assert decided(Hook.MUTATE, review(pod("gold"))).verdict is Verdict.PATCHED
    denied = decided(Hook.VALIDATE, review(DANGLING))
    assert denied.response.code == 403
    assert "unknown-priority-class" in denied.response.message


@row("generate-name", "forewarn.webhook.admission.decide.direction_of")
def _(_: Running) -> None:
    unnamed = pod("gold")
    unnamed["metadata"] = {"generateName": "web-", "namespace": "team"}
    assert decided(Hook.MUTATE, review(unnamed)).verdict is Verdict.PATCHED
    unnamed["spec"]["priorityClassName"] = "nothing"
    assert decided(Hook.VALIDATE, review(unnamed)).verdict is Verdict.DENIED


@row("update", "forewarn.webhook.admission.decide.direction_of")
def _(_: Running) -> None:
    given = review(pod("gold", 7), "UPDATE", oldObject=pod("gold", 1000))
    assert decided(Hook.MUTATE, given).response.patch == ()
    assert "priority-field-changed" in rules(decided(Hook.VALIDATE, given))


@row("forged-impact", "forewarn.webhook.admission.decide._annotated")
def _(_: Running) -> None:
    forged = {
        **deployment(),
        "metadata": {**deployment()["metadata"], "annotations": {impact_annotation.ANNOTATION: "{}"}},
    }
    removed = decided(Hook.MUTATE, review(forged)).response.patch
    assert [operation.op for operation in removed] == ["remove"]
    updated = review(forged, "UPDATE", oldObject=deployment())
    assert decided(Hook.MUTATE, updated).response.patch == removed
    assert decided(Hook.MUTATE, updated, state=None).response.patch == removed
    passes(review(forged, "UPDATE", oldObject=forged))
    taken_away = decided(Hook.MUTATE, review(deployment(), "UPDATE", oldObject=forged)).response.patch
    assert [operation.value for operation in taken_away] == [{impact_annotation.ANNOTATION: "{}"}]


@row("delete", "forewarn.webhook.admission.decide.direction_of")
def _(_: Running) -> None:
    given = review(None, "DELETE", oldObject=priority_class("gold", 1000))
    assert decided(Hook.MUTATE, given).verdict is Verdict.ALLOWED

    still_used = decided(Hook.VALIDATE, given, state=cluster(deployment("gold")))
    assert rules(still_used) == {"class-still-in-use"}
    assert still_used.response.allowed
    passes(review(None, "DELETE", oldObject=DANGLING))


@row("delete-without-object", "forewarn.webhook.admission.decide.direction_of")
def _(_: Running) -> None:
    passes(review(None, "DELETE"))


@row("connect", "forewarn.webhook.admission.decide.direction_of")
def _(_: Running) -> None:
    passes(review({**DANGLING, "kind": "Pod"}, "CONNECT", subResource="exec"))


@row("scale", "forewarn.webhook.admission.decide.direction_of")
def _(_: Running) -> None:

    given = review({**SCALE, "spec": {"replicas": 5}}, "UPDATE", oldObject=SCALE, subResource="scale")
    state = cluster(deployment("nothing"))
    decision = decided(Hook.VALIDATE, given, state=state)
    assert decision.verdict is Verdict.WARNED
    assert rules(decision) == {"unknown-priority-class"}
    assert decided(Hook.MUTATE, given, state=state).verdict is Verdict.ALLOWED


@row("scale-unknown", "forewarn.webhook.admission.decide._scaled")
def _(_: Running) -> None:
    passes(review({**SCALE, "spec": {"replicas": 5}}, "UPDATE", oldObject=SCALE, subResource="scale"))


@row("namespace-subresource", "forewarn.webhook.admission.decide._changes_a_namespace")
def _(_: Running) -> None:
    plain, asks = namespace("team"), namespace("team", default_priority_class="nothing")
    for subresource in ("status", "finalize"):
        given = review(asks, "UPDATE", oldObject=plain, subResource=subresource)
        assert rules(decided(Hook.VALIDATE, given)) == {"unknown-default-class"}
        assert decided(Hook.MUTATE, given).verdict is Verdict.ALLOWED
        passes(review(asks, "UPDATE", oldObject=asks, subResource=subresource))


@row("other-subresource", "forewarn.webhook.admission.decide.direction_of")
def _(_: Running) -> None:
    for subresource in ("status", "binding", "eviction", "resize", "ephemeralcontainers", "to-come"):
        passes(review(DANGLING, "UPDATE", oldObject=DANGLING, subResource=subresource))


@row("unknown-kind", "forewarn.webhook.admission.decide.is_evaluated")
def _(_: Running) -> None:
    passes(review(CONFIG_MAP))


REVISION: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "ControllerRevision",
    "metadata": {"name": "web-1", "namespace": "team"},
    "data": {"spec": {"template": {"$patch": "replace", "spec": {"priorityClassName": "gold"}}}},
    "revision": 1,
}
AUDIT_ONLY = Config(dict.fromkeys((rule.ID for rule in RULES), Action.AUDIT))
ONLY_SRE = "{allowedClasses: [{classes: [gold], groups: [sre]}], actions: {class-not-allowed: deny}}"


@row("revision", "forewarn.webhook.admission.decide.direction_of")
def _(_: Running) -> None:
    config = read_config(ONLY_SRE, "c")
    denied = decided(Hook.VALIDATE, review(REVISION), config=config)
    assert rules(denied) == {"class-not-allowed"}
    assert decided(Hook.VALIDATE, review(REVISION), config=read_config("{}", "c")).verdict is Verdict.ALLOWED
    allowed = review(REVISION, userInfo={"username": "lee", "groups": ["sre"]})
    assert decided(Hook.VALIDATE, allowed, config=config).verdict is Verdict.ALLOWED
    for name in ("spec", "template", "priorityClassName"):
        for alias in (name.capitalize(), name.replace("s", "\u017f"), name.upper()):
            text = json.dumps(REVISION["data"])
            data = json.loads(text[0] + text[1:].replace(json.dumps(name), json.dumps(alias)))
            for given in (data, {**data, **REVISION["data"]}):
                hidden = decided(Hook.VALIDATE, review({**REVISION, "data": given}), config=config)
                assert hidden.verdict is Verdict.DENIED or alias == name
    hidden = decided(Hook.VALIDATE, review({**REVISION, "data": {"Spec": {}}}), config=AUDIT_ONLY)
    assert (hidden.verdict, hidden.response.warnings, rules(hidden)) == (Verdict.ALLOWED, (), {NOT_EVALUATED})
    for data in (None, "text", [], {"spec": 5}, {"spec": {"template": None}}, {"spec": {"template": {"spec": []}}}):
        assert decided(Hook.VALIDATE, review({**REVISION, "data": data}), config=config).response.allowed


@row("revision-of-controller", "forewarn.webhook.admission.decide.subject_of")
def _(_: Running) -> None:
    config = read_config(ONLY_SRE.replace("groups: [sre]", "namespaces: [shop]"), "c")
    by_controller = {"username": "system:serviceaccount:kube-system:statefulset-controller"}
    assert not decided(Hook.VALIDATE, review(REVISION), config=config).response.allowed
    assert decided(Hook.VALIDATE, review(REVISION, userInfo=by_controller), config=config).verdict is Verdict.ALLOWED
    changed = review(REVISION, "UPDATE", oldObject=REVISION)
    assert decided(Hook.VALIDATE, changed, config=config).verdict is Verdict.ALLOWED


@row("undecodable-object", "forewarn.webhook.admission.decide.decide_mutation")
def _(_: Running) -> None:
    specs: tuple[object, ...] = ("text", 5, [], {"priorityClassName": {}}, {"priorityClassName": 5, "priority": "x"})
    for spec in specs:
        given = review({**pod(), "spec": spec})
        assert decided(Hook.MUTATE, given).response.allowed
        assert rules(decided(Hook.VALIDATE, given)) <= {"final-priority-mismatch"}
    passes(review({**deployment(), "spec": {"template": "text"}}))


@row("contradicts-request", "forewarn.webhook.admission.decide.evaluate_review")
def _(_: Running) -> None:
    config = read_config("allowedClasses: [{classes: [gold], namespaces: [shop]}]", "c")
    for about, denied in ((pod("gold", 1000), True), (deployment(), False)):
        elsewhere = {**about, "metadata": {**about["metadata"], "namespace": "shop"}}
        for objects in ({"object": elsewhere}, {"oldObject": elsewhere, "operation": "UPDATE"}):
            given = review(about)
            given["request"] |= objects
            decision = decided(Hook.VALIDATE, given, config=config)
            assert decision.response.allowed is not denied
            (said,) = [decision.response.message] if denied else decision.response.warnings
            assert said.startswith('not evaluated: its namespace "shop" is not that of the request. Fix: remove')
            assert decided(Hook.MUTATE, given, config=config).response.allowed
    for fields in ({"kind": "ConfigMap"}, {"kind": 5}, {"apiVersion": "apps/v1"}):
        given = review(pod("gold", 1000), object={**pod("gold", 1000), **fields})
        assert "its kind is not that of the request" in decided(Hook.VALIDATE, given).response.message


@row("dry-run", "forewarn.webhook.admission.decide.default_candidate_of")
def _(_: Running) -> None:
    for hook in Hook:
        given = body(pod("gold")), body(pod("gold"), dryRun=True)
        plain, dry = (answer_now(endpoint(), _call(hook, data)) for data in given)
        assert plain == dry


@row("exempt", "forewarn.policies.linting.config.model.Config.exemption")
def _(_: Running) -> None:
    config = read_config("exemptions: [{reason: the operators, groups: [developers]}]", "c")
    for hook, obj in ((Hook.MUTATE, pod("gold")), (Hook.VALIDATE, DANGLING)):
        _is_exempt(decided(hook, review(obj), config=config), "the operators")


@row("break-glass", "forewarn.policies.linting.config.model.Config.exemption")
def _(_: Running) -> None:
    for hook, obj in ((Hook.MUTATE, pod("gold")), (Hook.VALIDATE, DANGLING)):
        _is_exempt(decided(hook, review(obj, namespace="broken-glass")), "2030-01-02")
    own = namespace("broken-glass", exempt_until="2030-01-03T00:00:00Z", default_priority_class="nothing")
    evaluated = decided(Hook.VALIDATE, review(own, namespace="broken-glass"))
    assert rules(evaluated) == {"exemption-not-allowed", "unknown-default-class"}


def _is_exempt(decision: Decision, reason: str) -> None:
    assert decision.verdict is Verdict.EXEMPT
    assert decision.response.allowed
    assert decision.response.patch == ()
    assert reason in decision.exemption
    assert reason in decision.response.audit["exempt"]


@row("break-glass-over", "forewarn.policies.linting.config.model.Config.exemption")
def _(_: Running) -> None:
    assert decided(Hook.VALIDATE, review(DANGLING, namespace="glass-again")).verdict is Verdict.DENIED


@row("break-glass-too-long", "forewarn.policies.linting.config.model.Config.not_honoured")
def _(_: Running) -> None:
    state = cluster(namespace("far", exempt_until="2999-01-01T00:00:00Z"))
    decision = decided(Hook.VALIDATE, review(DANGLING, namespace="far"), state=state)
    assert decision.verdict is Verdict.DENIED
    assert "720 hours" in decision.response.audit["not-exempt"]


@row("default-class-not-allowed", "forewarn.webhook.admission.decide._denials_of")
def _(_: Running) -> None:
    config = read_config("allowedClasses: [{classes: [batch-low], namespaces: [shop]}]", "c")
    given = review(pod(priority=0), namespace="batch")
    decision = decided(Hook.MUTATE, given, config=config)
    assert (decision.response.patch, rules(decision)) == ((), {"class-not-allowed"})
    assert "The Pod is admitted without this default" in decision.response.warnings[0]
    assert decided(Hook.VALIDATE, given, config=config).verdict is Verdict.ALLOWED


@row("default-class-unknown", "forewarn.webhook.admission.decide._missing_default")
def _(_: Running) -> None:
    decision = decided(Hook.MUTATE, review(pod(priority=0), namespace="odd"))
    assert decision.verdict is Verdict.WARNED
    assert decision.response.patch == ()
    assert '"missing"' in decision.response.warnings[0]
    assert decided(Hook.VALIDATE, review(pod(priority=0), namespace="odd")).verdict is Verdict.ALLOWED


@row("default-class-unconfirmed", "forewarn.webhook.admission.prediction_access.read_classes")
def _(_: Running) -> None:
    given = review(pod(priority=0), namespace="odd")
    decision = decided(Hook.MUTATE, given, confirm=unreachable)
    assert decision.response.patch == ()
    assert " Not confirmed by the API server. " in decision.response.warnings[0]


@row("default-class-just-created", "forewarn.webhook.admission.decide.decide_mutation")
def _(_: Running) -> None:
    given, live = review(pod(priority=0), namespace="odd"), {"missing": PriorityClass("missing", 7)}
    for action in Action:
        config = read_config(f"actions: {{unknown-default-class: '{action}'}}", "c")
        assigned = decided(Hook.MUTATE, given, config=config, confirm=lambda: live)
        assert assigned.findings == ()
        assert assigned.response.warnings == ()
        assert assigned.response.audit == {"assigned-priority-class": "missing, the default of namespace odd"}
        asked = replace(endpoint(confirm=lambda: live), config=partial(lambda given: given, config))
        assert patch_of(answer_now(asked, _call(Hook.MUTATE, json.dumps(given).encode())).body)[0]["value"] == "missing"
    assert decided(Hook.MUTATE, given, confirm=dict).verdict is Verdict.WARNED


@row("mirror-pod", "forewarn.webhook.admission.decide._is_mirror")
def _(_: Running) -> None:
    mirror = pod(priority=0, annotations={"kubernetes.io/config.mirror": "x"})
    by_node = {"username": "system:node:node-1", "groups": ["system:nodes"]}
    passes(review(mirror, namespace="batch", userInfo=by_node))
    assert decided(Hook.MUTATE, review(mirror, namespace="batch")).verdict is Verdict.PATCHED
    assert decided(Hook.MUTATE, review(pod(priority=0), namespace="batch")).verdict is Verdict.PATCHED


@row("stale-denial", "forewarn.webhook.admission.decision.depends_on_cache")
def _(_: Running) -> None:
    live = {"nothing": PriorityClass("nothing", 7)}
    assert decided(Hook.VALIDATE, review(DANGLING), confirm=lambda: live).verdict is Verdict.ALLOWED
    assert decided(Hook.VALIDATE, review(DANGLING), confirm=dict).verdict is Verdict.DENIED


@row("unconfirmed-denial", "forewarn.webhook.admission.decision.unproven")
def _(_: Running) -> None:
    decision = decided(Hook.VALIDATE, review(DANGLING), confirm=unreachable)
    assert decision.verdict is Verdict.WARNED
    assert "Allowed: the API server did not confirm this." in decision.response.warnings[0]


@row("stale-warning", "forewarn.webhook.admission.decision.depends_on_cache")
def _(_: Running) -> None:
    live = {"nothing": PriorityClass("nothing", 7)}
    workload = review(deployment("nothing"))
    assert decided(Hook.VALIDATE, workload, confirm=lambda: live).verdict is Verdict.ALLOWED
    assert decided(Hook.VALIDATE, workload, confirm=dict).verdict is Verdict.WARNED


@row("unconfirmed-warning", "forewarn.webhook.admission.decision.unproven")
def _(_: Running) -> None:
    decision = decided(Hook.VALIDATE, review(deployment("nothing")), confirm=unreachable)
    assert decision.verdict is Verdict.WARNED
    assert " Not confirmed by the API server. " in decision.response.warnings[0]


@row(
    "no-cluster-state",
    "forewarn.webhook.admission.decide.mutate",
    "forewarn.policies.linting.evaluation.evaluator.evaluate",
)
def _(_: Running) -> None:
    for hook in Hook:
        decision = decided(hook, review(pod("gold", 1000)), state=None)
        assert decision.response.allowed
        assert decision.response.patch == ()


@row(
    "late-cluster-state",
    "forewarn.webhook.admission.decide.evaluate_review",
    "forewarn.webhook.admission.decision.doubted",
)
def _(_: Running) -> None:
    said = "no message from the API server for 121 s (--max-cache-age 120)"
    stale = endpoint(staleness=lambda: said)
    for hook, obj in ((Hook.MUTATE, pod("gold")), (Hook.VALIDATE, DANGLING), (Hook.VALIDATE, deployment("nothing"))):
        response, fresh = (
            json.loads(answer_now(e, _call(hook, body(obj))).body)["response"] for e in (stale, endpoint())
        )
        audit = response.pop("auditAnnotations")
        assert audit.pop("stale-cache") == said
        assert {**response, **({"auditAnnotations": audit} if audit else {})} == fresh
    assert (
        "auditAnnotations" not in json.loads(answer_now(stale, _call(Hook.VALIDATE, body(CONFIG_MAP))).body)["response"]
    )
    assert decided(Hook.MUTATE, review(pod("gold")), state=None, staleness=said).response.audit == {}


@row("past-deadline", "forewarn.webhook.admission.lanes.Deadline.expired")
def _(_: Running) -> None:
    assert decided(Hook.VALIDATE, review(DANGLING), expired=True).verdict is Verdict.DENIED
    too_big, state = review(_asking("64")), cluster(NODE)
    warnings = decided(Hook.VALIDATE, too_big, state=state, expired=True).response.warnings
    assert ["time ran out: " in warning for warning in warnings].count(True) == 1
    assert not any("Pending" in warning for warning in warnings)
    (operation,) = decided(Hook.MUTATE, too_big, state=state, expired=True).response.patch
    assert '"incomplete":true,"newPods":1,"predicted":0' in str(operation)
    for hook, obj in ((Hook.MUTATE, pod(namespace="odd")), (Hook.VALIDATE, DANGLING)):
        stale = decided(hook, review(obj), confirm=pytest.fail, expired=True)
        assert "confirm" in stale.response.warnings[0]
    reply = answer_now(endpoint(), _call(Hook.VALIDATE, body(DANGLING), received=-1e6))
    assert not json.loads(reply.body)["response"]["allowed"]


@row(
    "takes-long",
    "forewarn.webhook.admission.endpoint.Evaluation.attempt",
    "forewarn.webhook.admission.prediction_access.Predictors.ask",
)
def _(_: Running) -> None:
    for state, outcome in (("same", False), ("nobody", True)):
        assert _spread_by(state) is outcome


def _spread_by(process: str) -> bool:
    """Whether a Deployment that takes longer than one attempt is cut short: by a process, or where there is none."""
    from tests.webhook.admission.test_prediction_process import serving, spread

    made, workers = serving(1)
    if process == "nobody":
        assert made.predictors
        made.predictors.lane.stop()
    with running(made, workers=workers) as served:
        answer = served.post(
            "/mutate?timeout=30s", json.dumps(review(spread(6 if process == "same" else 200))).encode()
        )
    workers.stop()
    return "incomplete" in str(patch_of(answer[2]))


@row("too-much", "forewarn.policies.linting.evaluation.evaluator._unevaluated_action")
def _(_: Running) -> None:
    obj, state = _asking("64"), cluster(NODE)
    obj["spec"]["template"]["spec"]["tolerations"] = [{"key": f"k{n}", "operator": "Exists"} for n in range(501)]
    (operation,) = decided(Hook.MUTATE, review(obj), state=state, expired=lambda: False).response.patch
    assert '"incomplete":true,"newPods":1,"predicted":0' in str(operation)
    warnings = decided(Hook.VALIDATE, review(obj), state=state, expired=lambda: False).response.warnings
    told = "not evaluated: the Pod has 501 tolerations; forewarn evaluates at most 500"
    assert [told in warning for warning in warnings].count(True) == 1
    asked, full, config = review(obj), cluster(NODE, _running()), _doing("deny", "violates-expectation")
    assert denied_by(decided(Hook.VALIDATE, asked, state=full, config=config, expired=lambda: False))
    denied = {**DANGLING, "spec": {**DANGLING["spec"], "tolerations": [{"operator": "Exists"}] * 501}}
    assert decided(Hook.VALIDATE, review(denied), state=state, expired=lambda: False).verdict is Verdict.DENIED


@row("too-much-stored", "forewarn.policies.linting.evaluation.evaluator._adds_nothing")
def _(_: Running) -> None:
    obj, state = (
        _asking("1"),
        cluster(
            NODE,
            _quota("other"),
            *({**_quota("other"), "metadata": {"name": f"q{n}", "namespace": "team"}} for n in range(200)),
        ),
    )
    config = _doing("deny", "quota-exceeded")
    for given, denied in ((review(obj), {"quota-exceeded"}), (review(obj, "UPDATE", oldObject=obj), set())):
        decision = decided(Hook.VALIDATE, given, state=state, config=config, expired=lambda: False)
        assert denied_by(decision) == denied
        assert any("forewarn evaluates at most 200" in f.message for f in decision.findings)


@row(
    "too-large-to-keep",
    "forewarn.policies.kubernetes.objects.extent.bounded",
    "forewarn.policies.kubernetes.cluster.cache.ClusterSnapshot.check_retained",
)
def _(_: Running) -> None:
    stored = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "team"}}
    large = {**stored, "spec": {"selector": {f"k{n}": "v" for n in range(9000)}}}
    asked, config = review(_asking("0")), _doing("deny", "violates-expectation")
    for more, denied in ((stored, set()), (large, {"violates-expectation"})):
        state = cluster(NODE, _running(), more)
        decision = decided(Hook.VALIDATE, asked, state=state, config=config, expired=lambda: False)
        assert denied_by(decision) == denied
    (operation,) = decided(Hook.MUTATE, asked, state=state, expired=lambda: False).response.patch
    assert '"incomplete":true' in str(operation)


@row("expectation-not-evaluated", "forewarn.policies.linting.rules.pod.scheduling.violates_expectation")
def _(_: Running) -> None:
    asked, state, config = review(_asking("1")), cluster(NODE, _running()), _doing("deny", "violates-expectation")
    assert denied_by(decided(Hook.VALIDATE, asked, state=state, config=config)) == {"violates-expectation"}
    stale = decided(Hook.VALIDATE, asked, state=state, config=config, expired=True)
    assert stale.response.allowed
    assert "expectation not checked" in stale.response.audit["violates-expectation"]


@row("expectation-with-fewer-replicas", "forewarn.policies.linting.rules.pod.scheduling._scales_down")
def _(_: Running) -> None:
    fewer, state, config = _asking("1"), cluster(NODE, _running()), _doing("deny", "violates-expectation")
    stored = {**fewer, "spec": {**fewer["spec"], "replicas": 3}}
    assert denied_by(decided(Hook.VALIDATE, review(stored, "UPDATE", oldObject=fewer), state=state, config=config))
    taken = decided(Hook.VALIDATE, review(fewer, "UPDATE", oldObject=stored), state=state, config=config)
    assert taken.response.allowed
    assert "violates expectation" in taken.response.audit["violates-expectation"]


@row("bad-timeout", "forewarn.webhook.admission.lanes.parse_timeout")
def _(served: Running) -> None:
    for text in ("", "soon", "-1s", "10", "0s", "1s?"):
        assert parse_timeout(text) == DEFAULT_SECONDS
    assert served.post("/validate?timeout=soon&&=%ff", body(pod("gold", 1000)))[0] == 200


NEW_DEFAULT = priority_class("normal", 100, globalDefault=True)


@row("default-reserved", "forewarn.webhook.admission.decide.deny_default")
def _(_: Running) -> None:
    taken = endpoint(reserve=lambda _claim, _seconds: 'PriorityClass "other" has the place')
    answer = json.loads(answer_now(taken, _call(Hook.VALIDATE, body(NEW_DEFAULT))).body)["response"]
    assert not answer["allowed"]
    assert '"other"' in answer["status"]["message"]
    assert json.loads(answer_now(taken, _call(Hook.MUTATE, body(NEW_DEFAULT))).body)["response"]["allowed"]


@row("default-not-reservable", "forewarn.webhook.admission.endpoint.Evaluation._reserved")
def _(_: Running) -> None:
    def unreachable(_claim: DefaultCandidate, _seconds: float) -> NoReturn:
        raise ConnectionRefusedError("no route to the API server")

    with running(endpoint(reserve=unreachable)) as cut_off:
        answer = cut_off.post("/validate", body(NEW_DEFAULT))
        is_status(answer, 503)
        assert answer[1]["retry-after"] == "1"
        for harmless in (body(NEW_DEFAULT, dryRun=True), body(priority_class("normal", 100)), body(pod("gold", 1000))):
            assert cut_off.post("/validate", harmless)[0] == 200
        assert cut_off.post("/mutate", body(NEW_DEFAULT))[0] == 200


@row("default-lease-missing", "forewarn.webhook.controllers.leases.read_lease")
def _(_: Running) -> None:
    api = FakeApi()

    def forbidden(verb: str, path: str) -> None:
        if verb == "replace":
            raise Forbidden(path)

    api.before = forbidden
    denies = endpoint(reserve=Reserver(api, LEASE, Metrics()).reserve)
    answer = json.loads(answer_now(denies, _call(Hook.VALIDATE, body(NEW_DEFAULT))).body)["response"]
    assert not answer["allowed"]
    assert "the Lease forewarn-global-default is missing" in answer["status"]["message"]


@row("unknown-caller", "forewarn.webhook.admission.review.Callers.are_known")
def _(_: Running) -> None:
    reserved = list[str]()

    def reserve(claim: DefaultCandidate, _seconds: float) -> str:
        reserved.append(claim.name)
        return ""

    token = "0123456789abcdef" * 4
    callers = Callers(grants=lambda: {token: EVERYTHING})
    with running(endpoint(reserve=reserve, callers=callers)) as told:
        by_it = told.post(f"/validate/{token}", body(deployment("nothing")))
        assert "warnings" in json.loads(by_it[2])["response"]
        for path in ("/validate", "/validate/another"):
            told_nothing = told.post(path, body(deployment("nothing")))
            assert json.loads(told_nothing[2])["response"].keys() == {"uid", "allowed"}
            answer = told.post(path, body(NEW_DEFAULT))
            assert "only API servers" in is_status(answer, 503)["message"]
            assert answer[1]["retry-after"] == "1"
            for harmless in (body(NEW_DEFAULT, dryRun=True), body(priority_class("normal", 100)), body(pod("gold", 1))):
                assert told.post(path, harmless)[0] == 200
        assert reserved == []
        assert told.post(f"/validate/{token}", body(NEW_DEFAULT))[0] == 200
        assert reserved == ["normal"]


@row("caller-not-verified", "forewarn.webhook.http.asgi.Rereads")
def _(_: Running) -> None:
    def unreachable() -> NoReturn:
        raise ConnectionRefusedError("no route to the API server")

    token = "0123456789abcdef" * 4
    callers = Callers(grants=lambda: {token: EVERYTHING}, read_again=unreachable)
    with running(endpoint(callers=callers)) as cut_off:
        assert cut_off.post(f"/validate/{token}", body(pod("gold", 1000)))[0] == 200
        answer = cut_off.post("/validate/another", body(pod("gold", 1000)))
        assert "cannot verify the caller" in is_status(answer, 503)["message"]
        assert answer[1]["retry-after"] == "1"


def _call(hook: Hook, data: bytes, received: float | None = None) -> AdmissionCall:

    return AdmissionCall(hook, data, time.monotonic() if received is None else received, "10s")


# Transport


@row("no-content-type", "forewarn.webhook.admission.endpoint.Endpoint.unsupported_headers")
def _(served: Running) -> None:
    data = body(pod("gold"))
    with served.connect() as connection:
        connection.putrequest("POST", "/mutate")
        connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        status, _headers, answer = answer_of(connection)
    assert status == 200
    assert patch_of(answer)


@row("wrong-content-type", "forewarn.webhook.admission.endpoint.Endpoint.unsupported_headers")
def _(served: Running) -> None:
    for given in ("text/html", "application/yaml", "application/jsonx", "x" * 500):
        is_status(served.post("/mutate", b"{}", **{"Content-Type": given}), 415)
    assert served.post("/mutate", body(pod()), **{"Content-Type": "Application/JSON; charset=utf-8"})[0] == 200


@row("content-encoding", "forewarn.webhook.admission.endpoint.Endpoint.unsupported_headers")
def _(served: Running) -> None:
    is_status(served.post("/mutate", b"x", **{"Content-Encoding": "gzip"}), 415)


def reviewed(answer: tuple[int, dict[str, str], bytes]) -> dict[str, Any]:
    """The response in an answer that is an AdmissionReview."""
    assert answer[0] == 200
    found: dict[str, Any] = json.loads(answer[2])["response"]
    return found


@row("body-too-large", "forewarn.webhook.admission.endpoint.Endpoint.not_evaluated")
def _(_: Running) -> None:
    with running(endpoint(), PATIENT) as patient:
        _bodies_that_are_too_large(patient)


def _bodies_that_are_too_large(served: Running) -> None:
    large = body(pod("gold", uid="x" * MAX_DECODED))
    assert not reviewed(served.post("/validate", large))["allowed"]
    assert reviewed(served.post("/mutate", large))["allowed"]
    is_status(served.post("/mutate", b" " * (MAX_WIRE + 1)), 413)
    chunks = (b" " * 65_536 for _ in range(MAX_WIRE // 65_536 + 2))
    with served.connect() as connection:
        connection.request("POST", "/mutate", chunks, {"Content-Type": "application/json"}, encode_chunked=True)
        answer = answer_of(connection)
    is_status(answer, 413)
    assert answer[1]["connection"] == "close"


@row("no-memory", "forewarn.webhook.http.asgi.InFlightLimiter.reserve")
def _(_: Running) -> None:
    large = body(pod("gold", 1000, uid="x" * 2 * MAX_SMALL))
    with running(endpoint(), replace(PATIENT, large_capacity=3 * MAX_SMALL)) as busy, busy.tls() as first:
        begin(first, large, 10)
        _until(lambda: busy.endpoint.gate.inside == 1)
        denied = reviewed(busy.post("/validate?timeout=1s", large))
        assert "no memory" in denied["status"]["message"]
        assert busy.post("/validate", body(pod("gold", 1000)))[0] == 200
        first.sendall(large[10:])
        assert read_answer(first)[0] == 200
        assert reviewed(busy.post("/validate", large))["allowed"]


@row("no-time", "forewarn.webhook.admission.endpoint.Endpoint")
def _(_: Running) -> None:
    late = _call(Hook.VALIDATE, body(pod("gold", 1000, uid="x" * 2 * MAX_SMALL)), received=-1e6)
    denied = json.loads(answer_now(endpoint(), late).body)["response"]
    assert "no time" in denied["status"]["message"]
    assert json.loads(answer_now(endpoint(), late._replace(hook=Hook.MUTATE)).body)["response"]["allowed"]


@row("nested-too-deeply", "forewarn.webhook.admission.decide.decide_unread")
def _(served: Running) -> None:
    nested = body(pod("gold", deep=0)).replace(b'"deep":0', b'"deep":' + b"[" * 50_000 + b"]" * 50_000)
    assert "nested" in reviewed(served.post("/validate", nested))["status"]["message"]
    assert reviewed(served.post("/mutate", nested))["allowed"]


@row("slow-body", "forewarn.webhook.http.asgi.InFlightLimiter.arriving")
def _(served: Running) -> None:
    with served.tls() as connection:
        begin(connection, body(pod()), 10)
        is_status(read_answer(connection), 408)
        assert connection.recv(1) == b""


@row("not-json", "forewarn.webhook.admission.review._load")
def _(served: Running) -> None:
    for given in (b"", b"{", b"\xff\xfe", b"[1,]", b"[" * 60_000, b'{"request": NaN}', b"9" * 5000, b"[]", b"null"):
        for path in ("/mutate", "/validate"):
            is_status(served.post(path, given), 400)


@row("v1beta1", "forewarn.webhook.admission.review.parse_review")
def _(served: Running) -> None:
    given = review(pod())
    for key, value in (("apiVersion", "admission.k8s.io/v1beta1"), ("kind", "Review"), ("apiVersion", None)):
        status = is_status(served.post("/validate", json.dumps({**given, key: value}).encode()), 400)
        assert "admission.k8s.io/v1" in status["message"]


@row("no-uid", "forewarn.webhook.admission.review.parse_review")
def _(served: Running) -> None:
    wrong: tuple[tuple[str, Any], ...] = (
        ("uid", None),
        ("uid", ""),
        ("uid", 5),
        ("kind", None),
        ("kind", {}),
        ("resource", 1),
        ("operation", "PATCH"),
        ("operation", None),
        ("userInfo", []),
        ("userInfo", {"groups": "x"}),
        ("namespace", {}),
        ("oldObject", []),
    )
    for key, value in wrong:
        status = is_status(served.post("/mutate", body(pod(), **{key: value})), 400)
        assert f"request.{key}" in status["message"]


@row("no-object", "forewarn.webhook.admission.review.parse_review")
def _(served: Running) -> None:
    for operation in ("CREATE", "UPDATE"):
        is_status(served.post("/validate", body(None, operation)), 400)


@row("too-many", "forewarn.webhook.admission.review.Gate.enter")
def _(_: Running) -> None:
    with running(endpoint(limit=1), Limits(drain=0)) as busy, busy.tls() as first:
        data = body(pod("gold", 1000))
        begin(first, data, 10)
        _until(lambda: busy.endpoint.gate.inside == 1)
        answer = busy.post("/validate", data)
        is_status(answer, 503)
        assert answer[1]["retry-after"] == "0"
        assert answer[1]["connection"] == "close"
        first.sendall(data[10:])
        assert read_answer(first)[0] == 200
        assert busy.post("/validate", data)[0] == 200


PATIENT = replace(QUICK, patience=30, body=30)
IMPATIENT = replace(PATIENT, patience=0.2)


@contextmanager
def _with_slow_bodies(endpoint: Endpoint, limits: Limits, data: bytes, sent: int) -> Iterator[tuple[Running, Any, Any]]:
    """A server, and two connections on which no more of a body than this comes."""
    with running(endpoint, limits) as busy, busy.tls() as first, busy.tls() as second:
        for number, connection in enumerate((first, second), 1):
            begin(connection, data, sent)
            _until(lambda number=number: (busy.endpoint.gate.inside, busy.held) == (number, number * sent * PARSED))  # type: ignore[misc]
        yield busy, first, second


@row("crowded", "forewarn.webhook.http.asgi.InFlightLimiter.enter")
def _(_: Running) -> None:
    data = body(pod("gold", 1000))
    with _with_slow_bodies(endpoint(limit=2), PATIENT, data, 10) as (busy, _first, _second):
        is_status(busy.post("/validate", data), 503)
    with _with_slow_bodies(endpoint(limit=2), IMPATIENT, data, 10) as (busy, first, second):
        time.sleep(IMPATIENT.patience)
        assert busy.post("/validate", data)[0] == 200
        is_status(read_answer(first), 408)
        second.sendall(data[10:])
        assert read_answer(second)[0] == 200
        _until(lambda: busy.endpoint.gate.inside == 0)


@row("no-memory-for-small-bodies", "forewarn.webhook.http.asgi.InFlightLimiter.hold")
def _(_: Running) -> None:
    data, room = body(pod("gold", 1000)), 150_000 * PARSED
    padded = data + b" " * (60_000 - len(data))
    with _with_slow_bodies(endpoint(), replace(PATIENT, capacity=room), padded, 54_000) as (busy, _first, _second):
        is_status(busy.post("/validate", padded), 503)
        assert busy.post("/validate", data)[0] == 200
    with _with_slow_bodies(endpoint(), replace(IMPATIENT, capacity=room), padded, 54_000) as (busy, first, second):
        time.sleep(IMPATIENT.patience)
        assert busy.post("/validate", padded)[0] == 200
        is_status(read_answer(first), 408)
        second.sendall(padded[54_000:])
        assert read_answer(second)[0] == 200
    with ExitStack() as stack:
        busy = stack.enter_context(running(endpoint(), replace(IMPATIENT, capacity=room, body=2)))
        slow = [stack.enter_context(busy.tls()) for _ in range(12)]
        for connection in slow:
            begin(connection, padded, 54_000)
            time.sleep(IMPATIENT.patience / 4)
        statuses = {read_answer(connection)[0] for connection in slow}
        assert 408 in statuses
        assert statuses <= {408, 503}
        _until(lambda: (busy.endpoint.gate.inside, busy.held) == (0, 0))
        for _again in range(4):  # what was held has been let go
            assert busy.post("/validate", padded)[0] == 200


@row("internal-error", "forewarn.webhook.admission.endpoint.Endpoint._broken")
def _(_: Running) -> None:
    def broken() -> NoReturn:
        raise RuntimeError("a fault of ours")

    with running(endpoint(config=broken)) as faulty:
        for path in ("/mutate", "/validate"):
            status = is_status(faulty.post(path, body(pod())), 500)
            assert "a fault of ours" not in status["message"]


@row("wrong-method", "forewarn.webhook.http.asgi.Routes._not_a_webhook")
def _(served: Running) -> None:
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        with served.connect() as connection:
            connection.request(method, "/mutate")
            answer = answer_of(connection)
        is_status(answer, 405)
        assert answer[1]["allow"] == "POST"


@row("wrong-path", "forewarn.webhook.http.asgi.Routes._not_a_webhook", "forewarn.webhook.admission.review.route")
def _(served: Running) -> None:
    for path in ("/", "/mutate/", "/Mutate", "/metrics", "/validate/", "/validate/x/y"):
        is_status(served.post(path, b"{}"), 404)


@row("not-http", "forewarn.webhook.http.protocol.Protocol.send_400_response")
def _(served: Running) -> None:
    with served.tls() as connection:
        connection.sendall(b"\0\1\2 nonsense\r\n\r\n")
        is_status(read_answer(connection), 400)
        assert connection.recv(1) == b""


@row("slow-header", "forewarn.webhook.http.protocol.Protocol._too_slow")
def _(served: Running) -> None:
    with served.tls() as connection:
        connection.sendall(b"POST /mutate HTTP/1.1\r\nHost: x")
        is_status(read_answer(connection), 408)
        assert connection.recv(1) == b""


@row(
    "large-header",
    "forewarn.webhook.http.protocol.Protocol.data_received",
    "forewarn.webhook.http.protocol.Protocol.on_headers_complete",
)
def _(served: Running) -> None:
    with served.tls() as connection:
        connection.sendall(b"POST /mutate HTTP/1.1\r\nX: " + b"x" * 100_000)
        is_status(read_answer(connection), 431)
    with served.tls() as connection:
        connection.sendall(b"POST /mutate HTTP/1.1\r\n" + b"a: b\r\n" * 300)
        is_status(read_answer(connection), 431)
    for name, size, code in (("X-Long", 80_000, 431), ("X-Long", 60_000, 200)):
        with served.connect() as connected:
            connected.request(
                "POST", "/mutate", body(pod("gold")), {"Content-Type": "application/json", name: "x" * size}
            )
            answer = answer_of(connected)
            assert answer[0] == code
            assert code == 200 or is_status(answer, 431)


@row("pipelined", "forewarn.webhook.http.protocol.Protocol.on_message_begin")
def _(served: Running) -> None:
    with served.tls() as connection:
        connection.sendall(b"POST /mutate HTTP/1.1\r\nContent-Length: 0\r\n\r\n" * 4)
        is_status(read_answer(connection), 429)


@row("silent-handshake", "forewarn.webhook.http.server.Server._open")
def _(served: Running) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(create_connection(("127.0.0.1", served.port), 10)) for _ in range(64)]
        _answers_at_once(served)
        assert silent[0].recv(1) == b""  # closed after a second in this test


@row("idle-tls", "forewarn.webhook.http.protocol.Protocol._start_idle_timer")
def _(served: Running) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(served.tls()) for _ in range(64)]
        _answers_at_once(served)
        data = body(pod("gold", 1000))
        begin(idle[-1], data, len(data))
        assert read_answer(idle[-1])[0] == 200
    with running(limits=Limits(keep_alive=1, drain=0)) as impatient, impatient.tls() as connection:
        assert connection.recv(1) == b""


@row("many-connections", "forewarn.webhook.http.wire.Connections.evict")
def _(_: Running) -> None:
    with ExitStack() as stack:
        served = stack.enter_context(running(limits=replace(QUICK, connections=8, keep_alive=60)))
        idle = [stack.enter_context(served.tls()) for _ in range(12)]
        _answers_at_once(served)
        with suppress(ConnectionResetError):
            assert idle[0].recv(1) == b""  # on which nothing was ever asked
        assert served.server.connections.count <= 8


def _answers_at_once(served: Running) -> None:
    """Idle connections stay open for longer than a client waits for its response."""
    for _ in range(8):
        assert served.post("/validate", body(pod("gold", 1000)))[0] == 200


@row("old-tls", "forewarn.webhook.http.tls.server_context")
def _(served: Running) -> None:
    context = served.client
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with create_connection(("127.0.0.1", served.port), 10) as raw, pytest.raises(ssl.SSLError):
        context.wrap_socket(raw, server_hostname="localhost")


@row("no-client-certificate", "forewarn.webhook.http.tls.server_context")
def _(_: Running) -> None:
    with running(demands=Demands(client_ca=self_signed(datetime.now(UTC)).ca)) as guarded:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            guarded.post("/validate", body(pod("gold", 1000)))
        assert guarded.endpoint.gate.inside == 0


@row("wrong-client-name", "forewarn.webhook.http.protocol.Protocol.connection_made")
def _(_: Running) -> None:
    authority = Authority.make(datetime.now(UTC))
    with TemporaryDirectory() as directory:
        client = write_client(authority, Path(directory) / "client.pem", "somebody")
        demands = Demands(client_ca=authority.certificate)
        with (
            running(demands=demands, client_names=frozenset({"kube-apiserver"})) as guarded,
            guarded.tls(client) as tls,
        ):
            begin(tls, body(pod("gold", 1000)), 10)
            assert '"somebody"' in is_status(read_answer(tls), 403)["message"]
            assert tls.recv(1) == b""


@row("no-token", "forewarn.webhook.admission.review.Callers.may_ask")
def _(_: Running) -> None:
    token = "0123456789abcdef"
    with running(endpoint(callers=Callers(required=lambda: ("another-" * 4, token)))) as guarded:
        for path, header in (("/validate", {}), ("/mutate/x", {}), ("/validate", {"Authorization": f"Basic {token}"})):
            is_status(guarded.post(path, body(pod("gold", 1000)), **header), 401)
        assert guarded.post(f"/validate/{token}", body(pod("gold", 1000)))[0] == 200
        assert guarded.post("/mutate", body(pod("gold", 1000)), Authorization=f"Bearer {token}")[0] == 200
        assert guarded.post("/validate/told", body(pod("gold", 1000)), Authorization=f"Bearer {token}")[0] == 200
        assert token not in guarded.endpoint.metrics.exposition("")[0].decode()


@row("draining", "forewarn.webhook.http.server.TlsServer.handle_exit", "forewarn.webhook.http.asgi.Routes.__call__")
def _(_: Running) -> None:
    with running(limits=Limits(drain=1)) as server:
        assert server.post("/validate", body(pod("gold", 1000)))[1].get("connection") is None
        assert server.health.ready() == ""
        stopping = Thread(target=server.stop)
        stopping.start()
        _until(lambda: server.health.draining)
        assert server.health.ready() == "draining"
        status, headers, _body = server.post("/validate", body(pod("gold", 1000)))
        assert (status, headers["connection"]) == (200, "close")
        stopping.join()


@row("in-flight-at-stop", "forewarn.webhook.http.server.TlsServer.shutdown")
def _(_: Running) -> None:
    with running(limits=Limits(goodbye=0.2, drain=0)) as server, server.tls() as connection:
        data = body(pod("gold", 1000))
        begin(connection, data, 10)
        _until(lambda: server.endpoint.gate.inside == 1)
        stopping = Thread(target=server.stop)
        stopping.start()
        _until(lambda: server.endpoint.gate.stopping)
        assert server.thread.is_alive()
        connection.sendall(data[10:])
        status, headers, _body = read_answer(connection)
        assert (status, headers["connection"]) == (200, "close")
        stopping.join()


@row("stopping", "forewarn.webhook.admission.review.Gate.enter")
def _(_: Running) -> None:
    with running() as server:
        server.endpoint.gate.stopping = True
        answer = server.post("/validate", body(pod()))
        is_status(answer, 503)
        assert answer[1]["retry-after"] == "0"
        assert answer[1]["connection"] == "close"


# Rules that go by the cluster state


def _in_template(**fields: object) -> dict[str, Any]:
    workload = deployment("gold")
    workload["spec"]["template"]["spec"] |= fields
    return workload


def _default(name: str, value: int) -> dict[str, Any]:
    return priority_class(name, value, globalDefault=True)


def _never(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "spec": {**obj["spec"], "preemptionPolicy": "Never"}}


def _quota(class_name: str, pods: int = 0, **hard: int) -> dict[str, Any]:
    """A quota in namespace team that has no room left."""
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": [class_name]}
    limits = {"pods": pods, **hard}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "spec": {"hard": limits, "scopeSelector": {"matchExpressions": [scope]}},
        "status": {"hard": limits, "used": dict.fromkeys(limits, 0)},
    }


def _pod_group(name: str, priority: int) -> dict[str, Any]:
    header = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
    spec = {"priorityClassName": name, "priority": priority, "schedulingPolicy": {"gang": {"minCount": 2}}}
    return {**header, "metadata": {"name": "g", "namespace": "team"}, "spec": spec}


def _grouped() -> dict[str, Any]:
    """A Pod of class gold in the PodGroup."""
    grouped = pod("gold", 1000)
    grouped["spec"] |= {"schedulingGroup": {"podGroupName": "g"}}
    return grouped


CONFIRMED: dict[str, tuple[dict[str, Any], tuple[dict[str, Any], ...], dict[str, PriorityClass]]] = {
    "unknown-priority-class": (review(DANGLING), (), {"nothing": PriorityClass("nothing", 7)}),
    "priority-mismatch": (review(_in_template(priority=7)), (), {"gold": PriorityClass("gold", 7)}),
    "preemption-policy-mismatch": (
        review(_never(pod("gold", 1000))),
        (),
        {"gold": PriorityClass("gold", 1000, preemption_policy="Never")},
    ),
    "final-priority-mismatch": (review(pod("gold", 7)), (), {"gold": PriorityClass("gold", 7)}),
    "global-default-not-unique": (review(_default("two", 5)), (_default("one", 6),), {}),
    "unknown-default-class": (
        review(namespace("x", default_priority_class="nothing")),
        (),
        {"nothing": PriorityClass("nothing", 7)},
    ),
    "non-preempting-above-preempting": (review(priority_class("high", 2000, preemptionPolicy="Never")), (), {}),
    "quota-matches-nothing": (review(_quota("nothing")), (), {"nothing": PriorityClass("nothing", 7)}),
    "pod-group-invalid": (review(_pod_group("gold", 7)), (), {"gold": PriorityClass("gold", 7)}),
}
"""Rule -> what it denies by the state (OBJECTS and these), and the live classes by which it does not."""
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1"},
    "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
}


def _asking(cpu: str) -> dict[str, Any]:
    """A Deployment whose pods ask for so much."""
    asking = deployment("system-node-critical")
    asking["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return asking


def _running(**metadata: Any) -> dict[str, Any]:
    """A pod that has all of the node's cpu."""
    running = pod(priority=0, **metadata)
    running["spec"] |= {"nodeName": "node-1"}
    running["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return running


_LIMIT_RANGE = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "low", "namespace": "team"},
    "spec": {"limits": [{"type": "Container", "default": {"cpu": "2"}}]},
}
WARNS_WHILE_LATE = {
    "default-not-retroactive": (review(_default("two", 5)), (pod(priority=0),)),
    "class-still-in-use": (review(None, "DELETE", oldObject=priority_class("gold", 1000)), (deployment("gold"),)),
    "priority-drift": (review(priority_class("gold", 1000)), (pod("gold", 7),)),
    "preempts-running-pods": (review(_asking("1")), (NODE, _running())),
    "violates-expectation": (review(_asking("1")), (NODE, _running())),
    "fits-nowhere": (review(_asking("2")), (NODE,)),
    "rollout-preempts-itself": (review(_asking("1")), (NODE, _running(labels={"app": "web"}))),
    "quota-exceeded": (review(pod("gold", 1000)), (_quota("gold"),)),
    "quota-requirement-missing": (review(pod("gold", 1000)), (_quota("gold", 9, cpu=9),)),
    "limit-range-default-too-low": (review(_asking("3")), (_LIMIT_RANGE,)),
    "limited-class-without-quota": (review(pod("gold", 1000)), ()),
    "class-not-allowed": (review(pod("gold", 1000)), ()),
    "pod-group-priority-mismatch": (review(_grouped()), (_pod_group("gold", 7),)),
    "system-class-blocked-by-quota": (
        review(deployment("system-node-critical")),
        ({**NODE, "metadata": {"name": "node-1", "labels": {"cloud.google.com/gke-nodepool": "one"}}},),
    ),
    "kueue-admission": (review(worlds.suspended("ml", "urgent", 4, "2", "high"), namespace="ml"), (*worlds.objects(),)),
}


OPTIONS = {
    "limited-class-without-quota": """
limitedResources:
- {resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [gold]}]}
""",
    "violates-expectation": """
expectations:
- {name: nobody goes, expect: {noPreemption: {}}}
""",
    "class-not-allowed": """
allowedClasses:
- {classes: [gold], namespaceSelector: {matchLabels: {tier: production}}}
""",
}


def _doing(action: str, rule: str) -> Any:
    return read_config(f"actions: {{{rule}: {action}}}{OPTIONS.get(rule, '')}", "c")


def _is_confirmed(rule: str) -> None:
    given, more, refuting = CONFIRMED[rule]

    def answer(state: Any, config: Any = None, **how: Any) -> Decision:
        return decided(Hook.VALIDATE, given, state=state, config=config or _doing("deny", rule), **how)

    held = cluster(*more)
    assert rule in denied_by(answer(held))
    assert rule in denied_by(answer(held, confirm=lambda: held.priority_classes))
    assert rule not in rules(answer(held, confirm=lambda: refuting))
    unconfirmed = answer(held, confirm=unreachable)
    assert unconfirmed.response.allowed
    assert "did not confirm" in " ".join(unconfirmed.response.warnings)
    assert rule not in denied_by(answer(None))
    warning = _doing("warn", rule)
    assert rule in rules(answer(held, confirm=lambda: held.priority_classes, config=warning))
    assert rule not in rules(answer(held, confirm=lambda: refuting, config=warning))


def _warns_while_late(rule: str) -> None:
    given, more = WARNS_WHILE_LATE[rule]

    def answer(state: Any, stale: str = "") -> Decision:
        return decided(
            Hook.VALIDATE, given, state=state, config=_doing("deny", rule), confirm=lambda: OTHERS, staleness=stale
        )

    assert rule in denied_by(answer(cluster(*more)))
    stale = answer(cluster(*more), "no news")
    assert stale.response.allowed
    assert "the cluster state is stale" in " ".join(stale.response.warnings)
    assert rule not in rules(answer(None))


OTHERS = {"system-node-critical": PriorityClass("system-node-critical", 2_000_001_000)}


def denied_by(decision: Decision) -> set[str]:
    return {finding.rule for finding in decision.findings if finding.action is Action.DENY}


_BY_STATE = [rule for rule in RULES if rule.ACTION is not None and rule.DEPENDS_ON.stored]
for _rule in (rule.ID for rule in _BY_STATE if rule.DEPENDS_ON.is_confirmed):
    row(_rule)(lambda _, rule=_rule: _is_confirmed(rule))  # type: ignore[misc]
for _rule in (rule.ID for rule in _BY_STATE if not rule.DEPENDS_ON.is_confirmed):
    row(_rule)(lambda _, rule=_rule: _warns_while_late(rule))  # type: ignore[misc]


def test_every_rule_that_goes_by_the_cluster_state_has_a_case() -> None:
    assert set(CONFIRMED) == RESTS_ON_THE_CACHE
    assert set(WARNS_WHILE_LATE) == COUNTS_THE_CACHE


def _until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
