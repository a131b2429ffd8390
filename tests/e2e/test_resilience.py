"""Nobody's request fails while replicas come and go, or connections lie idle."""

from __future__ import annotations

import json
import signal
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.e2e.load import creating, load
from tests.e2e.objects import deployment
from tests.e2e.truth import wait_until
from tests.e2e.webhook import TRUSTING, Webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

REPLICAS = 2


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    """Two replicas whose failures are failures of the request."""
    made = Webhook(plane, installed, REPLICAS, flags=("--drain", "1"))
    try:
        made.begin(api, failure_policy="Fail")
        yield made
    finally:
        made.end(api)


@pytest.fixture
def apply(plane: ControlPlane) -> Callable[[int], str]:
    """Apply a Deployment; returns what went wrong."""

    def work(turn: int) -> str:
        told = plane.kubectl("apply", "-f", "-", stdin=json.dumps(deployment(f"rolling-{turn % 5}", replicas=turn)))
        return told.err

    return work


def test_replicas_are_restarted_one_after_the_other(webhook: Webhook, apply: Callable[[int], str]) -> None:
    with load(apply, per_second=6, threads=2) as made:
        for replica in webhook.replicas:
            webhook.take_out(replica)
            assert replica.stop() == 0
            replica.start()
            webhook.put_back(replica)
            time.sleep(0.5)
    print(f"\ne2e: {made.done} times kubectl apply during a rolling restart")
    assert made.faults == []
    assert made.done > 5


def test_sixty_four_idle_connections_hold_nobody_up(webhook: Webhook, api: Api) -> None:
    with ExitStack() as stack:
        for replica in webhook.replicas:
            for _ in range(64):
                raw = stack.enter_context(socket.create_connection(("127.0.0.1", replica.port)))
                stack.enter_context(TRUSTING.wrap_socket(raw))
        with load(creating(api), per_second=50, threads=8) as made:
            time.sleep(3)
    assert made.faults == []
    assert made.quantile(0.99) < 2
    assert made.done > 60


def test_all_replicas_are_killed_and_start_again(webhook: Webhook) -> None:
    """What the kubelet and its probes add comes on top."""
    seconds = []
    for _ in range(5):
        for replica in webhook.replicas:
            replica.stop(signal.SIGKILL)
        began = time.monotonic()
        for replica in webhook.replicas:
            replica.launch()
        wait_until(lambda: any(replica.ready() for replica in webhook.replicas), 30, "a replica is ready")
        seconds.append(time.monotonic() - began)
        wait_until(lambda: all(replica.ready() for replica in webhook.replicas), 30, "all replicas are ready")
    print(f"\ne2e: the first replica is ready {min(seconds):.1f} to {max(seconds):.1f} s after the start")


def test_a_replica_is_killed_and_comes_back(webhook: Webhook, api: Api, apply: Callable[[int], str]) -> None:
    """What a killed replica had in hand is lost: so for workloads the manifests say Ignore."""
    bundle = webhook.bundle(api)
    webhook.installed.unregister(api)
    webhook.installed.register(api, webhook.proxy.port, bundle=bundle)
    webhook.wait_until_asked(api)
    replica = webhook.replicas[0]
    with load(apply, per_second=6, threads=2) as made:
        time.sleep(1)
        replica.stop(signal.SIGKILL)
        webhook.take_out(replica)
        time.sleep(2)
        replica.start()
        webhook.put_back(replica)
        time.sleep(1)
    assert made.faults == []
    assert made.done > 5
