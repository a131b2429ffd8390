"""There is one global default, however many requests and replicas there are at the same time.

ROUNDS says how often eight requests are made at once; half of them create classes, half change them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import identity, path_of
from tests.e2e.racing import AT_ONCE, TTL, clear, create, creates, defaults, legal_one, race
from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import ThreadPoolExecutor

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

ROUNDS = int(os.environ.get("ROUNDS", "30"))
DOOM = "doom"


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


def test_without_forewarn_there_are_several(api: Api, pool: ThreadPoolExecutor) -> None:
    """So it is a race that the API server loses, and the other tests would see it."""
    counts = [*creates([api], pool)]
    print(f"\ne2e: defaults after {AT_ONCE} creates at once, without forewarn: {counts}")
    assert max(counts) > 1


def test_with_two_replicas_there_is_one(replicas: Webhook, api: Api, pool: ThreadPoolExecutor) -> None:
    told = race([api], pool, ROUNDS)
    print(f"\ne2e: {ROUNDS} rounds of {AT_ONCE}: {told}")
    assert told.waited < TTL
    assert told.counts["forewarn"] > 0


def test_a_reserved_class_that_never_came_frees_its_place(replicas: Webhook, api: Api) -> None:
    """Another webhook refuses it at the same time as forewarn reserves the place for it."""
    api.create(DOOMED)
    try:
        wait_until(lambda: create(api, "doomed", dryRun="All").code == 500, 10, "the other webhook refuses")
        assert create(api, "doomed").code == 500
        waited = legal_one([api], "legal")
        print(f"\ne2e: a legal default was refused for {waited:.1f} s after one that never came")
        assert waited < TTL
        assert defaults(api) == ["legal"]
    finally:
        api.delete(DOOMED)


LEASE = identity("Lease", "forewarn-global-default", "forewarn")


def test_a_deleted_lease_is_created_again_and_without_permission_its_absence_is_named(
    replicas: Webhook, api: Api
) -> None:
    api.delete(LEASE)
    wait_until(lambda: api.ask("GET", path_of(LEASE)).code == 200, 15, "a replica creates the Lease")
    legal_one([api], "legal")
    clear(api)
    role = api.get("Role", "forewarn", "forewarn")
    (rule,) = (rule for rule in role["rules"] if rule["apiGroups"] == ["coordination.k8s.io"])
    verbs, rule["verbs"] = rule["verbs"], ["get", "update"]
    api.replace(role)
    try:
        api.delete(LEASE)
        named = lambda: "forewarn may not create it" in str(create(api, "late").body)  # noqa: E731
        wait_until(named, 10, "the denial names the Lease")
    finally:
        role = api.get("Role", "forewarn", "forewarn")
        next(rule for rule in role["rules"] if rule["apiGroups"] == ["coordination.k8s.io"])["verbs"] = verbs
        api.replace(role)
        wait_until(lambda: api.ask("GET", path_of(LEASE)).code == 200, 15, "a replica creates the Lease")


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
