"""The webhook under steady load while the cluster changes and watches break; `make soak`.

MINUTES says for how long. Memory is printed at the start, after a warm-up, and at the end, and must not have grown.
"""

from __future__ import annotations

import itertools
import os
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.api import identity
from tests.e2e.load import load
from tests.e2e.objects import deployment, pod
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation
    from tests.e2e.staging import Stage

pytestmark = pytest.mark.e2e

MINUTES = float(os.environ.get("MINUTES", "2"))
NODES, PODS = 50, 500
WARM_UP = 30
GROWTH = 1.15
"""Memory at the end, as a multiple of what it was after the warm-up."""
MEBIBYTE = 2**20


@pytest.fixture
def webhook(plane: ControlPlane, installed: Installation, api: Api, classes: None) -> Iterator[Webhook]:
    made = Webhook(plane, installed, 2)
    try:
        made.begin(api, failure_policy="Fail")
        yield made
    finally:
        made.end(api)


@pytest.fixture
def cluster(stage: Stage) -> Iterator[None]:
    """Nodes that are half full."""
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    for number in range(NODES):
        status = {"allocatable": amounts, "capacity": amounts}
        stage.node({"metadata": {"name": f"n{number}"}, "spec": {}, "status": status})
    for number in range(PODS):
        stage.api.create(running(number))
    yield
    stage.clear()


def running(number: int, run: int = 0) -> Obj:
    """A pod with a label of its own, as pods of Jobs have."""
    container = {"name": "c", "image": "img", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    made = pod(f"p{number}", nodeName=f"n{number % NODES}", containers=[container])
    made["metadata"]["labels"] = {"job-name": f"job-{number}-{run}"}
    return made


def ask(api: Api, turn: int) -> str:
    """One dry run: a pod, a harmless Deployment or a faulty one in turn; returns what went wrong."""
    obj = (pod("probe"), deployment("probe", "high"), deployment("probe", "missing"))[turn % 3]
    path = (
        "apis/apps/v1/namespaces/default/deployments"
        if obj["kind"] == "Deployment"
        else "api/v1/namespaces/default/pods"
    )
    answer = api.ask("POST", f"{path}?dryRun=All", obj)
    warned = any("unknown-priority-class" in warning for warning in answer.warnings)
    if answer.code != 201 or warned != (turn % 3 == 2):
        return f"{answer.code} {answer.body.get('message')} {answer.warnings}"
    return ""


def test_memory_stays_and_no_request_fails(webhook: Webhook, cluster: None, api: Api) -> None:
    began, seconds = time.monotonic(), MINUTES * 60
    resident_bytes(webhook, "start")
    with load(lambda turn: ask(api, turn), per_second=40, threads=8) as made:
        warm: list[int] = []
        for second in itertools.count():
            left = began + seconds - time.monotonic()
            if left <= 0:
                break
            churn(api, second)
            if second % 30 == 29:
                webhook.to_api.cut()
            if second % 60 == 59:
                resident_bytes(webhook, f"minute {second // 60 + 1}")
            if not warm and second >= min(WARM_UP, seconds / 3):
                warm = resident_bytes(webhook, "warm")
            time.sleep(max(0.0, began + second + 1 - time.monotonic()))
    end = resident_bytes(webhook, "end")
    print(f"e2e: {made.done} requests, {len(made.faults)} failed, p99 {made.quantile(0.99) * 1000:.0f} ms")
    assert made.faults == []
    for before, after in zip(warm, end, strict=True):
        assert after < before * GROWTH


def churn(api: Api, second: int) -> None:
    """Ten pods end and come again."""
    for number in range(second * 10, second * 10 + 10):
        old = identity("Pod", f"p{number % PODS}")
        api.delete(old, gracePeriodSeconds="0")
        api.create(running(number % PODS, number // PODS + 1))


def resident_bytes(webhook: Webhook, when: str) -> list[int]:
    sizes = [replica.resident() for replica in webhook.replicas]
    print(f"\ne2e: soak, {when}: resident {', '.join(f'{size / MEBIBYTE:.1f} MiB' for size in sizes)}")
    return sizes
