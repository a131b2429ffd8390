"""Whatever an API server can send is evaluated, or denied where a rule could deny it: never answered with a 4xx."""

from __future__ import annotations

import gc
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.linting.config.load import read_config
from forewarn.webhook.admission.review import (
    EVERYTHING,
    MAX_DECODED,
    MAX_OBJECT,
    MAX_SMALL,
    MAX_WIRE,
    AdmissionCall,
    BadReview,
    Callers,
    Hook,
    decoded_size,
    parse_head,
)
from tests.webhook.builders import answer_now, body, cluster, deployment, endpoint, pod, priority_class, review
from tests.webhook.running import QUICK, Running, running

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.priority_class import PriorityClass

CONFIG = read_config(
    "actions: {class-not-allowed: deny}\nallowedClasses:\n- {namespaces: [other], classes: [gold]}\n", "config.yaml"
)
PATIENT = replace(QUICK, body=30)
TOKEN = "t" * 32
JSON = {"Content-Type": "application/json"}


def go(given: dict[str, Any]) -> bytes:
    """JSON as Go writes it."""
    text = json.dumps(given, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026").encode()


def padded(obj: dict[str, Any], text: str) -> dict[str, Any]:
    spec = obj["spec"]["template"]["spec"] if "template" in obj["spec"] else obj["spec"]
    spec["containers"][0]["env"] = [{"name": "A", "value": text}]
    return obj


def answered(server: Running, data: bytes, path: str = "/validate?timeout=10s") -> dict[str, Any]:
    status, _, answer = server.post(path, data, **JSON)
    assert status == 200, answer
    found: dict[str, Any] = json.loads(answer)["response"]
    assert found["uid"]
    return found


@pytest.mark.parametrize("character", ["<", ">", "&", "\\", "a"])
def test_an_object_of_any_characters_is_denied_as_a_small_one_is(character: str) -> None:
    large, small = pod("gold", 1000), pod("gold", 1000)
    data = go(review(padded(large, character * 1_250_000)))
    with running(endpoint(config=lambda: CONFIG), PATIENT) as server:
        found, expected = answered(server, data), answered(server, go(review(small)))
        assert not found["allowed"]
        assert found["status"]["message"] == expected["status"]["message"]
        assert answered(server, data, "/mutate")["allowed"]
        update = go(review(padded(pod("gold", 1000), "<" * MAX_OBJECT), "UPDATE", oldObject=large))
        assert len(update) > 4 * MAX_OBJECT
        answered(server, update)
        template = go(review(padded(deployment("gold"), "<" * 1_250_000)))
        assert "class-not-allowed" in json.dumps(answered(server, template))


@pytest.mark.parametrize(
    ("obj", "operation", "allowed"),
    [
        (pod("gold", 1000), "CREATE", False),
        (pod("gold", 1000), "DELETE", True),
        (priority_class("new", 5), "CREATE", False),
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team"}}, "CREATE", True),
    ],
    ids=["Pod", "deleted Pod", "PriorityClass", "ConfigMap"],
)
def test_what_is_too_large_is_denied_where_a_rule_could_deny_it(
    obj: dict[str, Any], operation: str, allowed: bool
) -> None:
    held = {**obj, "data": "x" * MAX_DECODED}
    about = {"obj": None, "oldObject": held} if operation == "DELETE" else {"obj": held}
    with running(endpoint(config=lambda: CONFIG), PATIENT) as server:
        found = answered(server, go(review(**about, operation=operation)))
        assert found["allowed"] is allowed
        if not allowed:
            assert "not evaluated" in found["status"]["message"]
            assert "not-evaluated" in found["status"]["message"]
        metrics = server.endpoint.metrics.exposition("")[0].decode()
        assert 'forewarn_api_server_requests_rejected_total{reason="body-size"} 0.0' in metrics


def test_a_body_beyond_what_is_read_is_denied_by_its_first_bytes() -> None:
    data = go(review(padded(pod("gold", 1000), "x" * (MAX_WIRE + 1))))
    with running(endpoint(config=lambda: CONFIG), PATIENT) as server:
        assert not answered(server, data)["allowed"]


def test_without_a_rule_that_denies_it_is_a_warning() -> None:
    config = read_config("actions: {unknown-priority-class: warn}", "config.yaml")
    data = go(review(padded(deployment("gold"), "x" * MAX_DECODED)))
    with running(endpoint(config=lambda: config), PATIENT) as server:
        found = answered(server, data)
    assert found["allowed"]
    assert "not evaluated" in found["warnings"][0]


def test_each_rejection_of_an_api_server_is_counted() -> None:
    with running(endpoint(callers=Callers(grants=lambda: {TOKEN: EVERYTHING}))) as server:
        assert server.post(f"/validate/{TOKEN}", b"{", **JSON)[0] == 400
        assert server.post("/validate", b"{", **JSON)[0] == 400
        text = server.endpoint.metrics.exposition("")[0].decode()
    assert 'forewarn_api_server_requests_rejected_total{reason="malformed"} 1.0' in text


def test_a_stranger_sends_little_and_waits_for_the_others() -> None:
    state = cluster()
    served = endpoint(lambda: state, callers=Callers(grants=lambda: {TOKEN: EVERYTHING}))
    large = body(pod("gold", uid="x" * MAX_SMALL))
    with running(served, PATIENT) as server, server.tls() as slow:
        status, headers, _ = server.post("/validate", large, **JSON)
        assert (status, headers["connection"]) == (413, "close")
        assert server.post(f"/validate/{TOKEN}", large, **JSON)[0] == 200
        slow.sendall(b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n1")
        begun = time.monotonic()
        while not served.gate.inside:
            assert time.monotonic() - begun < 60
        assert server.post("/validate", body(pod("gold", 1000)), **JSON)[0] in (200, 503)
        assert server.post(f"/validate/{TOKEN}", body(pod("gold", 1000)), **JSON)[0] == 200


def test_the_objects_of_a_large_request_are_gone_while_it_waits() -> None:
    state, seen = cluster(), list[bool]()

    def live() -> dict[str, PriorityClass]:
        gc.collect()
        seen.append(any(isinstance(found, dict) and "forewarn-marker" in found for found in gc.get_objects()))
        return {}

    held = padded(deployment("nothing"), "x" * MAX_SMALL)
    held["spec"]["template"]["spec"]["forewarn-marker"] = {}
    data = go(review(held))
    held.clear()
    served = endpoint(lambda: state, confirm=live)
    assert answer_now(served, AdmissionCall(Hook.VALIDATE, data, time.monotonic())).status == 200
    assert seen == [False]


ANY = st.text(st.characters(codec="utf-8"), max_size=20)


@given(
    pad=st.text('<>&\\"a\u2028 {}[],:', max_size=200),
    extra=st.dictionaries(st.sampled_from(["object", "a", "oldObject"]) | ANY, st.lists(ANY, max_size=2), max_size=3),
)
def test_the_first_bytes_of_a_review_name_the_request(pad: str, extra: dict[str, list[str]]) -> None:
    user = {"username": pad, "groups": ["g", pad], "extra": extra}
    data = go(review(padded(pod(name=pad or "p"), pad), userInfo=user))
    read, whole = parse_head(data), json.loads(data)["request"]
    assert (read.uid, read.name, read.user.name) == (whole["uid"], whole["name"], pad)
    assert dict(read.user.extra) == {key: tuple(values) for key, values in extra.items()}
    assert not read.object


@given(st.binary(max_size=300) | st.just(b'{"request":{"uid":"u","operation":"CREATE","object":{}}}'))
def test_anything_else_names_none(data: bytes) -> None:
    with pytest.raises(BadReview):
        parse_head(data)


@given(st.text('\\<u003c"\n\u2028', max_size=2_000))
def test_the_decoded_size_counts_each_escape_once(text: str) -> None:
    unit = go({"a": text})
    data = unit * (MAX_DECODED // len(unit) + 1)
    escapes = sum(character == "<" for character in text)
    assert decoded_size(data) == (len(unit) - 5 * escapes) * (len(data) // len(unit))
