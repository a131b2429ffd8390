"""A Deployment's rollout goes through, whatever its strategy: its ReplicaSets' counts wake its controller."""

from __future__ import annotations

from typing import Any

import pytest

from policies.simulation.dump import DumpCache, world_of
from policies.simulation.scenario import Arrival
from policies.simulation.simulation import Simulation
from tests.builders import Made, make_node


def deployment(image: str, strategy: dict[str, Any]) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": "1"}}}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {**pod, "terminationGracePeriodSeconds": 5}}
    made = Made("apps/v1", "Deployment", "web", "default")
    return made.spec(replicas=3, selector={"matchLabels": {"app": "web"}}, template=template, strategy=strategy).obj


@pytest.mark.parametrize(
    "strategy",
    [
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        {"type": "Recreate"},
    ],
    ids=["surge", "no surge", "recreate"],
)
def test_a_rollout_goes_through(strategy: dict[str, Any]) -> None:
    cache = DumpCache()
    for name in ("n1", "n2"):
        cache.add(make_node(name).obj)
    arrivals = [
        Arrival(1.0, "create", deployment("old", strategy)),
        Arrival(60.0, "update", deployment("new", strategy)),
    ]
    simulation = Simulation(world_of(cache, arrivals, until=300.0), None)
    simulation.run()
    final = simulation.final()
    assert len(final) == 3
    assert all(entry["node"] for entry in final.values())
    hashes = {state.pod.labels["pod-template-hash"] for state in simulation.api.pods.values()}
    created = {event.pod for event in simulation.timeline.events if event.event == "created"}
    assert len(hashes) == 1
    assert len(created) == 6
