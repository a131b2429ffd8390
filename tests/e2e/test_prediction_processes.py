"""What takes long to predict has a process of its own, also in a webhook that follows an API server."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

import pytest

from tests.e2e.objects import deployment, node, pod
from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation
    from tests.e2e.staging import Stage

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

NODES = 300
CLIENTS = 4
SECONDS = 8


@pytest.fixture(scope="module")
def webhook(plane: ControlPlane, installed: Installation, api: Api, stage: Stage) -> Iterator[Webhook]:
    """forewarn on a cluster of many nodes; what it fails at fails."""
    made = Webhook(plane, installed)
    nodes = [node(f"n-{number:03}") for number in range(NODES)]
    for number, each in enumerate(nodes):
        each["metadata"]["labels"]["topology.kubernetes.io/zone"] = f"z-{number % 3}"
    try:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(stage.node, nodes))
        made.begin(api, strict=True)
        wait_until(lambda: made.replicas[0].metric("forewarn_cache_objects", kind="Node") == NODES, 30, "nodes")
        yield made
    finally:
        made.end(api)
        stage.clear()


def _spread(name: str) -> Obj:
    obj = deployment(name, replicas=40, cpu="100m")
    obj["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": obj["spec"]["selector"],
        }
        for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    ]
    return obj


def test_deployments_that_take_long_are_predicted_and_keep_no_pod_waiting(webhook: Webhook, api: Api) -> None:
    """While the cluster changes: each change makes the processes that were forked before it end."""
    replica, over, took = webhook.replicas[0], Event(), list[float]()

    def deploy(client: int) -> int:
        count = 0
        while not over.is_set():
            count += 1
            api.create(_spread(f"wide-{client}-{count}"), dryRun="All")
        return count

    with ThreadPoolExecutor(CLIENTS) as pool:
        deploying = [pool.submit(deploy, client) for client in range(CLIENTS)]
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            begun = time.monotonic()
            made = api.create(pod(f"plain-{len(took)}"))
            took.append(time.monotonic() - begun)
            if len(took) % 5 == 0:
                api.delete(made, gracePeriodSeconds="0")
            time.sleep(0.05)
        over.set()
        deployed = sum(each.result(60) for each in deploying)
    asked = replica.metric("forewarn_prediction_queue_duration_seconds_count")
    took.sort()
    p99 = took[int(len(took) * 0.99)]
    print(f"\ne2e: beside {deployed} Deployments, {asked:.0f} in processes: {len(took)} pods, p99 {1000 * p99:.0f} ms")
    assert asked > 0
    assert replica.metric("forewarn_predictions_total", outcome="no-preemption") > 0
    assert p99 < 1
