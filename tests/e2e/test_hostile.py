"""What a tenant may send by dry runs: each is answered in its time, and the replica goes on as before."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.api import path_of
from tests.e2e.objects import deployment, node, pod
from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook
from tests.hostile.attacks import HUGE, affinity, node_terms, quota, resources, scoped, spread, term

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Answer, Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation
    from tests.e2e.staging import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

NODES = 200
SECONDS = 10.0
"""`timeoutSeconds` of the shipped configurations, with what the API server itself needs."""
MAX_MEGABYTES = 160


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, installed: Installation, api: Api, stage: Stage) -> Iterator[Webhook]:
    """forewarn on some nodes; what it fails at fails."""
    made = Webhook(plane, installed)
    try:
        for number in range(NODES):
            stage.node(node(f"h-{number:03}"))
        made.begin(api, strict=True)
        wait_until(lambda: made.replicas[0].metric("forewarn_cache_objects", kind="Node") == NODES, 30, "nodes")
        yield made
    finally:
        made.end(api)
        stage.clear()


def _huge() -> Obj:
    return deployment("huge", replicas=HUGE, cpu="100m")


def _pod(name: str, **spec: Any) -> Obj:
    return pod(name, priorityClassName="high", **spec)


def _asking(count: int) -> Obj:
    obj = _pod("resources")
    amounts = resources(count)
    obj["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return obj


def _quota() -> Obj:
    found = quota(**scoped([f"class-{number}" for number in range(100_000)]))
    return {**found, "metadata": {"name": "many", "namespace": "default"}}


ATTACKS = {
    "a Deployment of 2,000,000,000": _huge,
    "100 pod affinity terms": lambda: _pod("terms", affinity=affinity([term(number) for number in range(100)])),
    "10,000 node affinity terms": lambda: _pod("node-terms", affinity=node_terms(10_000)),
    "200 spread constraints": lambda: _pod("spread", topologySpreadConstraints=spread(200)),
    "20,000 extended resources": lambda: _asking(20_000),
    "a quota of 100,000 classes": _quota,
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_expensive_object_is_answered_in_its_time_and_harms_nobody(name: str, webhook: Webhook, api: Api) -> None:
    replica, obj = webhook.replicas[0], ATTACKS[name]()
    before, count = replica.resident(), replica.metric("process_start_time_seconds")
    answer, took = _dry_run(api, obj)
    assert answer.code in (201, 400, 403, 422), answer.body
    assert "failed calling webhook" not in str(answer.body)
    assert took < SECONDS
    plain, took = _dry_run(api, pod("plain"))
    assert plain.code == 201, plain.body
    assert took < 1
    assert replica.ready()
    assert replica.metric("process_start_time_seconds") == count, "it has been restarted"
    assert replica.resident() - before < MAX_MEGABYTES << 20


def test_so_is_one_that_is_scaled_to_a_huge_number(webhook: Webhook, api: Api) -> None:
    api.create(deployment("scaled", cpu="100m"))
    try:
        webhook.catch_up(api)
        path = path_of(deployment("scaled"), subresource="scale", dryRun="All")
        began = time.monotonic()
        answer = api.ask("PATCH", path, {"spec": {"replicas": HUGE}}, "application/merge-patch+json")
        assert answer.code == 200, answer.body
        assert time.monotonic() - began < SECONDS
        assert webhook.replicas[0].ready()
    finally:
        api.delete(deployment("scaled"))


def _dry_run(api: Api, obj: Obj) -> tuple[Answer, float]:
    """The answer, and seconds that it took."""
    began = time.monotonic()
    answer = api.ask("POST", path_of(obj, name="", dryRun="All"), obj)
    return answer, time.monotonic() - began
