"""What a tenant might try to get around the rules by, over HTTP."""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.kubernetes.kube_apiserver.priority import admit_pod
from forewarn.policies.kubernetes.objects.patches import PatchOperation, apply_patch
from forewarn.policies.linting.config.load import read_config
from tests.cases import cases
from tests.webhook.builders import body, cluster, endpoint, namespace, patch_of, pod
from tests.webhook.running import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.webhook.running import Running

DEFAULT, UNTIL = "forewarn.dev/default-priority-class", "forewarn.dev/exempt-until"
TEAM = namespace("team")
GIVEN = namespace("given", default_priority_class="gold")
KIM = {"username": "kim", "groups": ["developers", "system:authenticated"]}
SRE = {"username": "lee", "groups": ["sre"]}
ADMIN = {"username": "root", "groups": ["system:masters"]}
NODE_USER = {"username": "system:node:node-1", "groups": ["system:nodes"]}
CONFIG = "allowedClasses: [{classes: [gold], groups: [sre]}]"


def soon(**more: float) -> str:
    return (datetime.now(UTC) + timedelta(**more)).isoformat()


def serve(stack: ExitStack, config: str = CONFIG, *more: dict[str, Any]) -> Running:
    state, read = cluster(GIVEN, *more), read_config(config, "c")
    return stack.enter_context(running(endpoint(lambda: state, lambda: read)))


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with ExitStack() as stack:
        yield serve(
            stack, CONFIG, namespace("open", exempt_until=soon(hours=1)), namespace("far", exempt_until="2999-01-01")
        )


def asked(server: Running, path: str, obj: dict[str, Any], operation: str = "CREATE", **request: Any) -> dict[str, Any]:
    status, _, answer = server.post(f"/{path}", body(obj, operation, **request))
    assert status == 200
    response: dict[str, Any] = json.loads(answer)["response"]
    return response | {"patch": patch_of(answer)}


def annotated(obj: dict[str, Any], **annotations: str | None) -> dict[str, Any]:
    keys = {"default": DEFAULT, "until": UNTIL}
    written = {keys[key]: value for key, value in annotations.items() if value is not None}
    return {**obj, "metadata": {**obj["metadata"], "annotations": written}}


def denied_by(response: dict[str, Any]) -> set[str]:
    return {cause["reason"] for cause in response.get("status", {}).get("details", {}).get("causes", ())}


# A default class is asked for like one that is named


@pytest.mark.parametrize("subresource", ["", "status", "finalize"])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_a_default_class_is_denied_to_whom_the_class_is(server: Running, operation: str, subresource: str) -> None:
    asks = annotated(TEAM, default="gold")
    before = TEAM if operation == "UPDATE" else None
    for user, denied in ((KIM, {"class-not-allowed"}), (SRE, set())):
        response = asked(
            server,
            "validate",
            asks,
            operation,
            oldObject=before,
            userInfo=user,
            namespace="team",
            subResource=subresource,
        )
        assert denied_by(response) == denied
        assert response["allowed"] == (not denied)
        if denied:
            (cause,) = response["status"]["details"]["causes"]
            assert cause["field"] == f"metadata.annotations.{DEFAULT}"


@pytest.mark.parametrize(
    ("before", "after"), [("gold", "gold"), ("gold", None), (None, "batch-low"), ("gold", "batch-low")], ids=str
)
def test_a_default_class_that_stays_goes_or_is_free_is_nobodys_business(
    server: Running, before: str | None, after: str | None
) -> None:
    old, new = annotated(TEAM, default=before), annotated(TEAM, default=after)
    assert asked(server, "validate", new, "UPDATE", oldObject=old, userInfo=KIM)["allowed"]


def test_a_default_class_is_judged_by_the_namespace_as_it_will_be() -> None:
    config = "allowedClasses: [{classes: [gold], namespaceSelector: {matchLabels: {tier: production}}}]"
    with ExitStack() as stack:
        server, obj = serve(stack, config), annotated(TEAM, default="gold")
        assert not asked(server, "validate", obj)["allowed"]
        obj["metadata"]["labels"] = {"tier": "production"}
        assert asked(server, "validate", obj)["allowed"]


def test_a_pod_is_not_given_a_class_that_its_requester_may_not_have(server: Running) -> None:
    asks_for_none = pod(priority=0, namespace="given")
    response = asked(server, "mutate", asks_for_none, userInfo=KIM)
    assert response["patch"] == []
    (warning,) = response["warnings"]
    assert 'class "gold" is not allowed' in warning
    assert warning.endswith("[class-not-allowed]")
    assert (
        response["auditAnnotations"]["priority-class-not-assigned"]
        == "gold, the default of namespace given: not allowed for this Pod"
    )
    assert asked(server, "validate", asks_for_none, userInfo=KIM)["allowed"]
    given = asked(server, "mutate", asks_for_none, userInfo=SRE)
    assert given["patch"][0] == {"op": "add", "path": "/spec/priorityClassName", "value": "gold"}


def test_a_pod_without_numbers_gets_those_of_the_default_that_it_may_have(server: Running) -> None:
    patch = asked(server, "mutate", pod(namespace="given"), userInfo=KIM)["patch"]
    assert {operation["path"]: operation["value"] for operation in patch} == {
        "/spec/priority": 0,
        "/spec/preemptionPolicy": "PreemptLowerPriority",
    }


CONFIGURATIONS = (
    CONFIG,
    "{}",
    "allowedClasses: [{classes: [gold], namespaces: [given]}]",
    "allowedClasses: [{classes: [go*], namespaces: [shop]}]",
    "allowedClasses: [{classes: [gold], users: [system:*]}]",
    "limitedResources: [{resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [gold]}]}]",
    "{actions: {class-not-allowed: warn}, allowedClasses: [{classes: [gold], namespaces: [shop]}]}",
)


@pytest.fixture(scope="module")
def configured() -> Iterator[list[Running]]:
    with ExitStack() as stack:
        yield [serve(stack, config) for config in CONFIGURATIONS]


@given(
    number=st.integers(0, len(CONFIGURATIONS) - 1),
    user=st.sampled_from([KIM, SRE, ADMIN, NODE_USER]),
    class_name=st.sampled_from([None, "gold", "batch-low"]),
    where=st.sampled_from(["given", "team", "batch", "kube-system"]),
    priority=st.sampled_from([None, 0]),
)
@settings(max_examples=cases(60), deadline=None)
def test_no_class_is_assigned_that_validate_denies(
    configured: list[Running],
    number: int,
    user: dict[str, Any],
    class_name: str | None,
    where: str,
    priority: int | None,
) -> None:
    server, obj = configured[number], pod(class_name, None if class_name else priority, namespace=where)
    patched = apply_patch(obj, [_operation(told) for told in asked(server, "mutate", obj, userInfo=user)["patch"]])
    if patched["spec"].get("priorityClassName") == class_name:
        return
    resolved = admit_pod(patched["spec"], cluster().priority_classes)
    patched["spec"] |= {"priority": resolved.priority, "preemptionPolicy": resolved.preemption_policy}
    assert asked(server, "validate", patched, userInfo=user)["allowed"]


def _operation(told: dict[str, Any]) -> PatchOperation:
    return PatchOperation(told["op"], tuple(told["path"].split("/")[1:]), told.get("value"))


def test_only_a_node_shows_mirror_pods(server: Running) -> None:
    """Anybody may write the annotation; upstream it frees a pod from other plugins only where a node asks."""
    mirror = pod(priority=0, namespace="batch", annotations={"kubernetes.io/config.mirror": "x"})
    for user in (KIM, {**NODE_USER, "groups": []}, {**NODE_USER, "username": "kim"}):
        assert asked(server, "mutate", mirror, userInfo=user)["patch"][0]["value"] == "batch-low"
    assert asked(server, "mutate", mirror, userInfo=NODE_USER)["patch"] == []


# An exemption is for who may give it, and for a while


@pytest.mark.parametrize("subresource", ["", "status", "finalize"])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_an_exemption_is_set_by_administrators_alone(server: Running, operation: str, subresource: str) -> None:
    before, asks = TEAM if operation == "UPDATE" else None, annotated(TEAM, until=soon(hours=2))
    for user, denied in ((KIM, {"exemption-not-allowed"}), (SRE, {"exemption-not-allowed"}), (ADMIN, set())):
        request = {"oldObject": before, "userInfo": user, "namespace": "team", "subResource": subresource}
        response = asked(server, "validate", asks, operation, **request)
        assert denied_by(response) == denied
        assert response["allowed"] == (not denied)


def test_an_exemption_cannot_be_made_longer_from_within(server: Running) -> None:
    """The namespace is exempt at this moment; a request about the Namespace itself is not."""
    stored = namespace("open", exempt_until=soon(hours=1))
    longer = annotated(stored, until=soon(hours=9))
    response = asked(server, "validate", longer, "UPDATE", oldObject=stored, userInfo=KIM, namespace="open")
    assert denied_by(response) == {"exemption-not-allowed"}


@pytest.mark.parametrize(
    "change",
    [
        lambda until: (until, until),
        lambda until: (until, None),
        lambda _: (None, "2001-01-01T00:00:00Z"),
        lambda _: (None, "9999-99-99"),
    ],
    ids=["kept", "taken away", "over", "no time"],
)
def test_what_exempts_nothing_more_is_free_to_all(
    server: Running, change: Callable[[str], tuple[str | None, str | None]]
) -> None:
    before, after = (annotated(TEAM, until=text) for text in change(soon(hours=1)))
    assert asked(server, "validate", after, "UPDATE", oldObject=before, userInfo=KIM)["allowed"]


def test_configuration_says_who_may_and_for_how_long() -> None:
    with ExitStack() as stack:
        server = serve(stack, "breakGlass: {groups: ['dev*'], maxDuration: 90m}")
        allowed = asked(server, "validate", annotated(TEAM, until=soon(hours=1)), userInfo=KIM)
        assert (allowed["allowed"], allowed.get("warnings")) == (True, None)
        (warning,) = asked(server, "validate", annotated(TEAM, until=soon(hours=2)), userInfo=KIM)["warnings"]
        assert "exempts nothing" in warning
        assert not asked(server, "validate", annotated(TEAM, until=soon(hours=1)), userInfo=ADMIN)["allowed"]


@pytest.mark.parametrize("until", ["2999-01-01", "9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59+23:59", "tomorrow"])
def test_whoever_sets_an_end_that_is_not_honoured_is_told(server: Running, until: str) -> None:
    (warning,) = asked(server, "validate", annotated(TEAM, until=until), userInfo=ADMIN)["warnings"]
    assert "exempts nothing" in warning
    assert warning.endswith("[exemption-without-effect]")
    again = annotated(TEAM, until=until)
    assert "warnings" not in asked(server, "validate", again, "UPDATE", oldObject=again, userInfo=KIM)


def test_an_end_too_far_away_exempts_nothing_and_audit_and_log_say_so(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    dangling = pod("nothing", 7, namespace="open")
    assert asked(server, "validate", dangling)["auditAnnotations"]["exempt"]
    with caplog.at_level(logging.INFO, "forewarn"):
        response = asked(server, "validate", pod("nothing", 7, namespace="far"))
    assert denied_by(response) >= {"unknown-priority-class"}
    said = f"{UNTIL} on namespace far exempts nothing: it ends in more than 720 hours"
    assert response["auditAnnotations"]["not-exempt"] == said
    # The log may also have the line of the first request: the level that another test set decides.
    logged = [r.__dict__["fields"]["exemption"] for r in caplog.records if r.getMessage() == "decision"]
    assert [line for line in logged if "namespace far" in line] == [f"not applied: {said}"]
