"""Whatever comes in, a well-formed answer goes out: an AdmissionReview or a Status, and never an internal error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.kubernetes.objects.patches import PatchOperation, apply_patch, set_value
from forewarn.webhook.admission.review import API_VERSION, KIND, AdmissionCall, Hook
from tests.cases import cases
from tests.webhook.builders import (
    RESOURCES,
    answer_now,
    cluster,
    deployment,
    endpoint,
    namespace,
    patch_of,
    pod,
    priority_class,
    review,
)

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1"},
    "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
}
STATE = cluster(deployment(), NODE)
SERVED = endpoint(lambda: STATE)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(), v, max_size=3), max_leaves=8
)
OBJECTS = [pod(), pod("gold", 1000), deployment("x"), priority_class("a", 5), namespace("batch", exempt_until="soon")]


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    below: list[tuple[str | int, ...]] = []
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            below += [(*path, key), *paths_of(part, (*path, key))]
    return below


@st.composite
def damaged_reviews(draw: st.DrawFn) -> Any:
    """A good review, with a few of its values replaced by anything, or taken away."""
    obj = json.loads(json.dumps(draw(st.sampled_from(OBJECTS))))
    operation = draw(st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]))
    more = {
        "subResource": draw(st.sampled_from(["", "scale", "status"])),
        "oldObject": draw(st.sampled_from([None, obj])),
    }
    damaged = json.loads(json.dumps(review(obj, operation, **more)))
    for _ in range(draw(st.integers(0, 3))):
        places = paths_of(damaged)
        *parents, key = draw(st.sampled_from(places))
        parent = damaged
        for step in parents:
            parent = parent[step]
        if draw(st.booleans()) or isinstance(parent, list):
            parent[key] = draw(VALUES)
        else:
            del parent[key]
        if not isinstance(damaged, dict) or not damaged:
            break
    return damaged


def check(body: bytes, hook: Hook) -> None:
    reply = answer_now(SERVED, AdmissionCall(hook, body, 0.0))
    answer = json.loads(reply.body)
    assert dict(reply.headers)["content-type"] == "application/json"
    if reply.status != 200:
        assert 400 <= reply.status < 500
        assert (answer["kind"], answer["code"]) == ("Status", reply.status)
        return
    assert (answer["apiVersion"], answer["kind"]) == (API_VERSION, KIND)
    response = answer["response"]
    assert response["uid"] == json.loads(body)["request"]["uid"]
    assert isinstance(response["allowed"], bool)
    assert ("patch" in response) == ("patchType" in response)
    assert response["allowed"] or hook is Hook.VALIDATE
    assert response["allowed"] or response["status"]["code"] >= 400
    for warning in response.get("warnings", ()):
        assert warning.isprintable()
        assert len(warning) <= 256
    for key in response.get("auditAnnotations", ()):
        assert 0 < len(key) <= 63


@given(damaged_reviews(), st.sampled_from(Hook))
@settings(max_examples=cases(150), deadline=None)
def test_a_damaged_review_gets_a_well_formed_answer(damaged: Any, hook: Hook) -> None:
    check(json.dumps(damaged).encode(), hook)


@given(VALUES, st.sampled_from(Hook))
@settings(max_examples=cases(50), deadline=None)
def test_any_json_gets_a_well_formed_answer(value: Any, hook: Hook) -> None:
    check(json.dumps(value).encode(), hook)


@given(st.binary(max_size=200), st.sampled_from(Hook))
@settings(max_examples=cases(50), deadline=None)
def test_any_bytes_get_a_well_formed_answer(value: bytes, hook: Hook) -> None:
    check(value, hook)


@pytest.mark.parametrize("hook", Hook)
@pytest.mark.parametrize(
    "obj", [pod("gold", 1000), pod(namespace="batch"), deployment()], ids=["", "batch", "deployment"]
)
@pytest.mark.parametrize("path", [("zzz",), ("spec", "affinity"), ("metadata", "annotations")], ids=str)
def test_a_body_that_is_nested_deeply_gets_an_admission_review(
    path: tuple[str, ...], obj: dict[str, Any], hook: Hook
) -> None:
    for depth in (100, 300, 500, 700, 800, 850, *range(880, 1000, 3), 5_000, 300_000):
        text = json.dumps(review(apply_patch(obj, [set_value(obj, path, "@")])))
        reply = answer_now(
            SERVED, AdmissionCall(hook, text.replace('"@"', '{"a":' * depth + "1" + "}" * depth).encode(), 0.0)
        )
        assert reply.status == 200
        is_nested = "nested" in reply.body.decode()
        assert not is_nested if depth <= 300 else is_nested or depth < 5_000 or hook is Hook.MUTATE, depth


@given(damaged_reviews())
@settings(max_examples=cases(75), deadline=None)
def test_a_patch_applies_and_asking_again_changes_nothing_more(damaged: Any) -> None:
    def asked() -> list[dict[str, Any]]:
        reply = answer_now(SERVED, AdmissionCall(Hook.MUTATE, json.dumps(damaged).encode(), 0.0))
        return patch_of(reply.body) if reply.status == 200 else []

    if operations := asked():
        patch = [PatchOperation(o["op"], tuple(o["path"].split("/")[1:]), o.get("value")) for o in operations]
        damaged["request"]["object"] = apply_patch(damaged["request"]["object"], patch)
        filled_in = asked()  # a class was assigned where the plugin had run: its numbers are for the plugin to read
        assert not filled_in or operations[0]["path"] == "/spec/priorityClassName"


def test_every_kind_of_the_builders_has_a_resource() -> None:
    assert {obj["kind"] for obj in OBJECTS} <= set(RESOURCES)
