"""Nobody's request fails while certificates change, replicas come and go, or connections lie idle."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from tests.e2e.load import load
from tests.e2e.objects import deployment, pod
from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage

pytestmark = pytest.mark.e2e

REPLICAS = 2
RUNNING = ("--drain", "1")


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, stage: Stage) -> Iterator[Webhook]:
    """Two replicas whose failures are failures of the request."""
    with closing(Webhook(plane, REPLICAS, RUNNING)) as made:
        made.start()
        made.register(stage.api)
        yield made
        made.unregister(stage.api)


@pytest.fixture
def create(api: Api) -> Callable[[int], str]:
    """Create a pod by dry run; returns what went wrong."""

    def work(turn: int) -> str:
        answer = api.ask("POST", "api/v1/namespaces/default/pods?dryRun=All", pod(f"load-{turn}"))
        return "" if answer.code == 201 else f"{answer.code} {answer.body.get('message')}"

    return work


@pytest.fixture
def apply(plane: ControlPlane) -> Callable[[int], str]:
    """Apply a Deployment; returns what went wrong."""

    def work(turn: int) -> str:
        told = plane.kubectl("apply", "-f", "-", stdin=json.dumps(deployment(f"rolling-{turn % 5}", replicas=turn)))
        return told.err

    return work


def served(webhook: Webhook, port: int) -> bytes:
    """The certificate that a new connection is shown."""
    context = ssl.create_default_context(cadata=webhook.authority.pem.decode())
    with (
        socket.create_connection(("127.0.0.1", port)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as tls,
    ):
        return tls.getpeercert(binary_form=True) or b""


def test_certificates_change_under_a_hundred_requests_a_second(webhook: Webhook, create: Callable[[int], str]) -> None:
    rotations = 3
    with load(create, per_second=100, threads=32) as made:
        for _ in range(rotations):
            before = {replica.port: served(webhook, replica.port) for replica in webhook.replicas}
            webhook.rotate()
            changed = lambda: all(served(webhook, port) != old for port, old in before.items())  # noqa: B023, E731
            wait_until(changed, 30, "both replicas show the new certificate")
            time.sleep(1)
    print(f"\ne2e: {made.done} requests during {rotations} rotations, p99 {made.quantile(0.99) * 1000:.0f} ms")
    assert made.faults == []
    assert made.done > 300


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


def test_sixty_four_idle_connections_hold_nobody_up(webhook: Webhook, create: Callable[[int], str]) -> None:
    context = ssl.create_default_context(cadata=webhook.authority.pem.decode())
    with ExitStack() as stack:
        for replica in webhook.replicas:
            for _ in range(64):
                raw = stack.enter_context(socket.create_connection(("127.0.0.1", replica.port)))
                stack.enter_context(context.wrap_socket(raw, server_hostname="localhost"))
        with load(create, per_second=50, threads=8) as made:
            time.sleep(3)
    assert made.faults == []
    assert made.quantile(0.99) < 2
    assert made.done > 60


def test_a_replica_is_killed_and_comes_back(webhook: Webhook, api: Api, apply: Callable[[int], str]) -> None:
    """What a killed replica had in hand is lost: so for workloads the configuration says Ignore."""
    webhook.unregister(api)
    webhook.register(api, failure_policy="Ignore")
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
