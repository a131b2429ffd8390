"""The webhook configurations are deleted and applied again, 20 times, while Deployments are created all the time.

Once the configurations have a CA, every Deployment gets its warning: replicas know who asks, and evaluate.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import identity, path_of
from tests.e2e.installation import CONFIGURATIONS
from tests.e2e.load import load
from tests.e2e.objects import deployment
from tests.e2e.test_gitops import token_is_there
from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

ROUNDS = 20
SETTLED = 1.0
"""Seconds until an API server calls what a configuration says."""
COMPLETE = 3.0
"""Seconds in which the CA injector fills applied configurations, also on a busy machine; without a watch it takes 5."""
STEPS = (
    ("delete both, apply both", CONFIGURATIONS, 0.0),
    ("delete and apply one", CONFIGURATIONS[:1], 0.0),
    ("delete and apply the other", CONFIGURATIONS[1:], 0.0),
    ("apply one after the other", CONFIGURATIONS, 0.7),
)
"""Name of the step, kinds of the configurations, and seconds between two of them."""


@pytest.fixture
def webhook(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    made = Webhook(plane, installed, 2)
    try:
        made.begin(api)
        yield made
    finally:
        made.end(api)


def test_every_deployment_is_evaluated_once_the_configurations_are_complete(
    webhook: Webhook, installed: Installation, api: Api
) -> None:
    asked: list[tuple[float, float, bool]] = []
    """Start, end and whether there was a warning."""
    complete: list[tuple[float, float]] = []
    """When a round's configurations were complete, and when the next one deleted them."""

    def create(turn: int) -> str:
        started = time.monotonic()
        obj = deployment(f"asked-{turn}", "no-such-class")
        answer = api.ask("POST", path_of(obj, name="", dryRun="All"), obj)
        asked.append((started, time.monotonic(), "[unknown-priority-class]" in str(answer.warnings)))
        return "" if answer.code == 201 else str(answer.body)

    shipped = {obj["kind"]: obj for obj in installed.configurations(webhook.proxy.port)}
    took = []
    with load(create, per_second=25, threads=8) as made:
        for number in range(ROUNDS):
            _, kinds, pause = STEPS[number % len(STEPS)]
            for kind in kinds:
                api.delete(identity(kind, "forewarn"))
            time.sleep(0.2 * (number % 3))  # replicas look at any time
            for kind in reversed(kinds):
                time.sleep(pause)
                api.create(shipped[kind])
            applied = time.monotonic()
            wait_until(lambda: token_is_there(api), 20, "the CA injector has written CA and token")
            took.append(time.monotonic() - applied)
            begin = time.monotonic() + SETTLED
            time.sleep(2 * SETTLED)
            complete.append((begin, time.monotonic()))
    assert made.faults == []
    within = [
        warned for started, ended, warned in asked if any(begin <= started and ended <= end for begin, end in complete)
    ]
    print(f"\ne2e: complete after {max(took):.2f} s at most; {len(within)} of {len(asked)} requests were made then")
    assert len(within) > ROUNDS
    assert within.count(False) == 0
    assert max(took) < COMPLETE
    for replica in webhook.replicas:
        assert replica.metric("forewarn_unauthenticated_requests_total") == 0
