"""There is one global default, however many requests and replicas there are at the same time.

ROUNDS says how often eight requests are made at once; half of the rounds create classes, half change them.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import Answer, identity, path_of
from tests.e2e.objects import priority_class
from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

ROUNDS = int(os.environ.get("ROUNDS", "30"))
AT_ONCE = 8
TTL = 40
"""Seconds after which a place that was reserved for nothing is free: webhook.reservation.LEASE_SECONDS."""
MERGE = "application/merge-patch+json"
DOOM = "doom"


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(AT_ONCE) as made:
        yield made


@pytest.fixture(autouse=True)
def no_default(api: Api) -> Iterator[None]:
    """No class but the built-in ones, before and after."""
    clear(api)
    yield
    clear(api)


@pytest.fixture(scope="module")
def replicas(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    made = Webhook(plane, installed, 2)
    try:
        made.begin(api)
        yield made
    finally:
        made.end(api)


def clear(api: Api) -> None:
    for found in api.list("PriorityClass"):
        if not found["metadata"]["name"].startswith(("system-", "forewarn")):
            api.delete(found)


def defaults(api: Api) -> list[str]:
    return [found["metadata"]["name"] for found in api.list("PriorityClass") if found.get("globalDefault")]


def create(api: Api, name: str) -> Answer:
    obj = priority_class(name, 1, globalDefault=True)
    return api.ask("POST", path_of(obj, name=""), obj)


def change(api: Api, name: str) -> Answer:
    return api.ask("PATCH", path_of(identity("PriorityClass", name)), {"globalDefault": True}, MERGE)


def at_once(pool: ThreadPoolExecutor, work: Callable[[str], Answer], turn: int) -> list[Answer]:
    return [*pool.map(work, [f"round-{turn}-{number}" for number in range(AT_ONCE)])]


def test_without_forewarn_there_are_several(api: Api, pool: ThreadPoolExecutor) -> None:
    """So it is a race that the API server loses, and the other tests would see it."""
    counts = []
    for turn in range(5):
        at_once(pool, lambda name: create(api, name), turn)
        counts.append(len(defaults(api)))
        clear(api)
    print(f"\ne2e: defaults after {AT_ONCE} creates at once, without forewarn: {counts}")
    assert max(counts) > 1


def test_with_two_replicas_there_is_one(replicas: Webhook, api: Api, pool: ThreadPoolExecutor) -> None:
    waits, told = [], Counter[str]()
    for turn in range(ROUNDS):
        work = create if turn % 2 == 0 else change
        if work is change:
            for number in range(AT_ONCE):
                api.create(priority_class(f"round-{turn}-{number}", number))
        answers = at_once(pool, lambda name: work(api, name), turn)  # noqa: B023
        won = [answer for answer in answers if answer.code in (200, 201)]
        told.update(by_whom(answer) for answer in answers)
        assert len(defaults(api)) == len(won) <= 1, [answer.body for answer in won]
        waits.append(0.0 if won else legal_one(api, f"late-{turn}"))
        assert len(defaults(api)) == 1
        clear(api)
    print(f"\ne2e: {ROUNDS} rounds of {AT_ONCE}: {dict(told)}; a legal one waited at most {max(waits):.1f} s")
    assert max(waits) < TTL
    assert told["forewarn"] > 0


def by_whom(answer: Answer) -> str:
    """Who refused, if anybody did."""
    message = str(answer.body.get("message"))
    if answer.code in (200, 201):
        return "stored"
    if 'admission webhook "classes.validate.forewarn.dev" denied the request' in message:
        return "forewarn"
    return "API server" if "already marked as default" in message else message


def legal_one(api: Api, name: str) -> float:
    """Seconds until a class can be made the default when nobody else tries to."""
    started = time.monotonic()
    wait_until(lambda: create(api, name).code == 201, TTL + 5, "a legal default is stored")
    return time.monotonic() - started


def test_a_reserved_class_that_never_came_frees_its_place(replicas: Webhook, api: Api) -> None:
    """Another webhook refuses it at the same time as forewarn reserves the place for it."""
    api.create(DOOMED)
    wait_until(lambda: create(api, "doomed").code == 500, 10, "the other webhook refuses")
    try:
        waited = legal_one(api, "legal")
        print(f"\ne2e: a legal default was refused for {waited:.1f} s after one that never came")
        assert waited < TTL
        assert defaults(api) == ["legal"]
    finally:
        api.delete(DOOMED)


DOOMED: Obj = {
    **identity("ValidatingWebhookConfiguration", DOOM),
    "webhooks": [
        {
            "name": "doom.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [
                {
                    "apiGroups": ["scheduling.k8s.io"],
                    "apiVersions": ["v1"],
                    "resources": ["priorityclasses"],
                    "operations": ["CREATE"],
                }
            ],
            "matchConditions": [{"name": "doomed", "expression": 'object.metadata.name == "doomed"'}],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"],
        }
    ],
}
