"""A mutation can write a priority after the Priority plugin has had its last say. Nothing but forewarn looks again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.objects import BINDING, SMUGGLER, pod
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.webhook import Webhook

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

HIGHEST = 2**31 - 1


@pytest.fixture(scope="module")
def smuggler(api: Api) -> Iterator[None]:
    for obj in (SMUGGLER, BINDING):
        api.create(obj)
    wait_until(lambda: created(api)["spec"]["priority"] == HIGHEST, 20, "the policy is in force")
    yield
    for obj in (BINDING, SMUGGLER):
        api.delete(obj)


def marked() -> Obj:
    found = pod("smuggled")
    found["metadata"]["labels"] = {"smuggle": "first"}
    return found


def created(api: Api) -> Obj:
    return api.create(marked(), dryRun="All")


def test_the_api_server_alone_stores_it(api: Api, smuggler: None) -> None:
    assert created(api)["spec"]["priority"] == HIGHEST


def test_forewarn_refuses_it(plane: ControlPlane, webhook: Webhook, smuggler: None) -> None:
    told = plane.kubectl("apply", "-f", "-", stdin=json.dumps(marked()))
    assert told.status == 1
    assert told.err.startswith(
        'Error from server (Forbidden): error when creating "STDIN": admission webhook "validate.forewarn.dev" denied '
        'the request: spec.priority is 2147483647; class "usual" is 10'
    )
    assert "[final-priority-mismatch" in told.err
