"""Objects with values of the wrong type anywhere, over HTTP: answered or refused, and never an internal error."""

from __future__ import annotations

import copy
import http.client
import json
import logging
import os
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.policies.kubernetes.kinds.registry import (
    BY_GROUP_KIND,
    CONTROLLER_REVISION,
    GROUP_TEMPLATES,
    POD_GROUP,
    POD_TEMPLATE_PATHS,
)
from forewarn.policies.kubernetes.objects.fields import at, group_kind
from forewarn.policies.linting.config.load import read_config
from forewarn.webhook.admission.review import AdmissionCall, Hook
from tests.cases import cases
from tests.webhook.builders import answer_now, cluster, deployment, endpoint, priority_class, review
from tests.webhook.running import JSON, answer_of, running
from tests.webhook.samples import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.webhook.admission.decide import DefaultCandidate
    from forewarn.webhook.admission.endpoint import Endpoint
    from tests.webhook.running import Running

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1"},
    "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
}
CONFIG = read_config(
    """
    allowedClasses: [{classes: [gold], namespaces: [shop], groups: [sre]}]
    limitedResources:
    - {resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [gold]}]}
    exemptions: [{reason: x, namespaces: [x], namespaceSelector: {matchLabels: {x: z}}}]
    """,
    "c",
)
DELETED, TWICE = object(), object()
_SCALARS: tuple[Any, ...] = (None, True, 0, -1, 2**31, 2**63, 10**40, 1.5, 1e300, "", "x", "-5", "\x00", "\ud800")
_LONG = ("a" * 300, "9" * 5000, "2999-13-01", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59")
_NESTED: tuple[Any, ...] = ([], ["x"], [1], [None], [[]], [{}], {}, {"x": "y"}, {"x": 1}, {"": None}, {"x": {}})
_WRONG: tuple[Any, ...] = (*_SCALARS, *_LONG, *_NESTED, {"name": 5}, DELETED, TWICE)
WRONG: st.SearchStrategy[Any] = st.sampled_from(_WRONG)


def _reserve(claim: DefaultCandidate, _seconds: float) -> str:
    assert isinstance(claim.name, str)
    assert claim.name
    return ""


@pytest.fixture(scope="module")
def faults() -> Iterator[list[str]]:
    """What the log says of internal errors."""
    told: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                told.append(self.format(record))

    handler, logger = Listening(), logging.getLogger("forewarn")
    logger.addHandler(handler)
    yield told
    logger.removeHandler(handler)


@pytest.fixture(scope="module")
def knowing() -> Iterator[Running]:
    """A server with nodes, a configuration, and an API server to ask."""
    state = cluster(deployment(), NODE)
    live = dict(state.priority_classes)
    with running(endpoint(lambda: state, lambda: CONFIG, confirm=lambda: live, reserve=_reserve)) as server:
        yield server


@pytest.fixture(scope="module")
def connection(knowing: Running) -> Iterator[http.client.HTTPSConnection]:
    with knowing.connect() as connected:
        yield connected


def asked(connection: http.client.HTTPSConnection, given: dict[str, Any], hook: Hook) -> tuple[int, dict[str, Any]]:
    connection.request("POST", f"/{hook}?timeout=10s", json.dumps(given).encode(), JSON)
    status, _, answer = answer_of(connection)
    return status, json.loads(answer)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, part in steps for found in ((*path, key), *_paths(part, (*path, key)))]


def _set(obj: Any, path: tuple[str | int, ...], value: Any) -> Any:
    obj = copy.deepcopy(obj)
    *parents, key = path
    parent = obj
    for step in parents:
        parent = parent[step]
    if value is TWICE and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[int(key)]))
    elif value is DELETED or value is TWICE:
        del parent[key]
    else:
        parent[key] = value
    return obj


SEED = os.environ.get("FOREWARN_SEED", "1")
PATHS_OF_CLASSES: dict[str, tuple[str | int, ...]] = {
    **{kind: (*path, "spec", "priorityClassName") for kind, path in POD_TEMPLATE_PATHS.items()},
    "/Pod": ("spec", "priorityClassName"),
    CONTROLLER_REVISION: ("data", "spec", "template", "spec", "priorityClassName"),
    POD_GROUP: ("spec", "priorityClassName"),
    GROUP_TEMPLATES: ("spec", "podGroupTemplates", 0, "priorityClassName"),
}
GOLD = [good for good in SAMPLES if at(good, *PATHS_OF_CLASSES.get(group_kind(good), ("none",))) == "gold"]


def test_every_kind_that_is_evaluated_is_among_the_samples() -> None:
    evaluated = {spec.group_kind for spec in BY_GROUP_KIND.values() if spec.is_evaluated or spec.template}
    assert {group_kind(good) for good in SAMPLES} == evaluated | {"autoscaling/Scale", CONTROLLER_REVISION}
    assert {group_kind(good) for good in GOLD} == {*PATHS_OF_CLASSES}


def _damaged(random: Random, good: Any) -> Any:
    for _ in range(random.randint(1, 2)):
        if places := _paths(good):
            good = _set(good, random.choice(places), random.choice(_WRONG))
    return good


def _answer(asked: Endpoint, given: dict[str, Any], hook: Hook) -> tuple[int, dict[str, Any]]:
    reply = answer_now(asked, AdmissionCall(hook, json.dumps(given).encode(), monotonic()))
    return reply.status, json.loads(reply.body)


def test_no_wrong_type_in_object_or_old_object_is_an_internal_error(faults: list[str]) -> None:
    """7,000 reviews, two of each object: the same ones for a seed (FOREWARN_SEED)."""
    random, state = Random(SEED), cluster(deployment(), NODE)
    live = dict(state.priority_classes)
    asked = endpoint(lambda: state, lambda: CONFIG, confirm=lambda: live, reserve=_reserve)
    faults.clear()
    for _ in range(cases(3_500)):
        good = random.choice(SAMPLES)
        old, new = (random.choice((good, _damaged(random, good))) for _ in range(2))
        operation = random.choice(("CREATE", "UPDATE", "DELETE"))
        objects = {
            "object": new if operation != "DELETE" else None,
            "oldObject": old if operation != "CREATE" else None,
        }
        more = {"subResource": "scale"} if good["kind"] == "Scale" else {}
        for hook in Hook:
            status, _ = _answer(asked, review(good, operation, **objects, **more), hook)
            assert (status, faults) == (200, []) or (status == 400 and not any(objects.values())), (SEED, objects)


def test_an_object_of_a_denied_class_is_denied_whatever_else_is_wrong_with_it() -> None:
    """Also with another kind or namespace than that of the request, as no API server sends it."""
    config = read_config(
        "{allowedClasses: [{classes: [gold], namespaces: [shop]}], actions: {class-not-allowed: deny}}", "c"
    )
    random, state = Random(SEED), cluster(NODE)
    asked = endpoint(lambda: state, lambda: config)
    for _ in range(cases(1_000)):
        good = random.choice(GOLD)
        bad = _damaged(random, good)
        if at(bad, *PATHS_OF_CLASSES[group_kind(good)]) != "gold":
            continue
        silver = json.loads(json.dumps(good).replace('"gold"', '"silver"'))
        operation, old = random.choice((("CREATE", None), ("UPDATE", silver)))
        if good["kind"] == "ControllerRevision":
            operation, old = "CREATE", None  # its data is immutable
        status, answer = _answer(asked, review(good, operation, object=bad, oldObject=old), Hook.VALIDATE)
        assert (status, answer["response"]["allowed"]) == (200, False), (SEED, bad)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A sample, and the same with one or two values of the wrong type."""
    good = draw(st.sampled_from(SAMPLES))
    bad = good
    for _ in range(draw(st.integers(1, 2))):
        if places := _paths(bad):
            bad = _set(bad, draw(st.sampled_from(places)), draw(WRONG))
    return good, bad


@given(
    objects=damaged(),
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE"]),
    which=st.sampled_from(["object", "oldObject", "both"]),
    named=st.booleans(),
    hook=st.sampled_from(Hook),
)
@settings(max_examples=cases(500), deadline=None)
def test_an_object_with_a_wrong_type_is_answered_over_http(
    connection: http.client.HTTPSConnection,
    faults: list[str],
    objects: tuple[dict[str, Any], dict[str, Any]],
    operation: str,
    which: str,
    named: bool,
    hook: Hook,
) -> None:
    faults.clear()
    good, bad = objects
    obj = None if operation == "DELETE" else good if which == "oldObject" and operation == "UPDATE" else bad
    old = None if operation == "CREATE" else good if which == "object" and operation == "UPDATE" else bad
    more = {"subResource": "scale"} if good["kind"] == "Scale" else {}
    name = good["metadata"]["name"] if named else ""
    given = review(good, operation, **{"object": obj, "oldObject": old, "name": name, **more})
    status, answer = asked(connection, given, hook)
    assert (status, faults) == (200, []) or (status == 400 and not (obj or old))
    if status == 200:
        assert answer["response"]["uid"] == given["request"]["uid"]


PREFERENCE = ("spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution", 0, "preference")
REQUIRED = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
POD, CLASS = SAMPLES[0], priority_class("a", 5, globalDefault=True)


ONCE: list[tuple[dict[str, Any], tuple[str | int, ...], list[Any]]] = [
    (POD, PREFERENCE, [5, "x", True, [[]], 1.5]),
    (POD, (*REQUIRED, "nodeSelectorTerms", 0, "matchExpressions", 0, "values", 0), ["9" * 5000]),
    (CLASS, ("metadata",), [[], "x", 5, {"name": None}, {"name": {"x": "y"}}, {"name": [{}]}]),
    (CLASS, ("metadata", "labels"), [{"x": 1}, [], "x", {"x": {}}]),
    (CLASS, ("metadata", "uid"), [{}, [1], 7]),
]


@pytest.mark.parametrize(("obj", "path", "values"), ONCE, ids=["preference", "Gt", "metadata", "labels", "uid"])
def test_what_was_an_internal_error_once_is_answered(
    knowing: Running, faults: list[str], obj: dict[str, Any], path: tuple[str | int, ...], values: list[Any]
) -> None:
    faults.clear()
    with knowing.connect() as connection:
        for value in values:
            given = review(obj, name="", object=_set(_whole(obj), path, value))
            assert [asked(connection, given, hook)[0] for hook in Hook] == [200, 200]
    assert faults == []


def _whole(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {"uid": "u", "labels": {}, **obj["metadata"]}
    return {**obj, "metadata": metadata}
