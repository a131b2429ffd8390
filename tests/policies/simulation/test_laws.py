"""What holds of every simulation, at every moment of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.policies.kubernetes.controllers.view import Tally
from forewarn.policies.prediction.simulation.api_server import ApiServer
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import Outcome
from tests.cases import cases
from tests.policies.scheduling.consistency import check
from tests.recorded.scenario import read_scenario

PRIORITIES = (0, 5, 10)
Obj = dict[str, Any]


def container(cpu: int) -> Obj:
    return {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}


def node(name: str, cpu: int = 3) -> Obj:
    status = {"allocatable": {"cpu": str(cpu), "pods": "9"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def arriving(name: str, kind: str, spec: Obj, count: int) -> Obj:
    """A pod of this spec, or a workload of so many."""
    metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
    version = {"Pod": "v1", "Job": "batch/v1"}.get(kind, "apps/v1")
    if kind != "Pod":
        template = {"metadata": {"labels": metadata["labels"]}, "spec": spec}
        sizes = {"parallelism": count} if kind == "Job" else {"replicas": count}
        spec = {**sizes, "selector": {"matchLabels": metadata["labels"]}, "template": template}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


@st.composite
def arrivals(draw: st.DrawFn, number: int, nodes: list[Obj]) -> Obj:
    kind = draw(st.sampled_from(("Pod", "ReplicaSet", "StatefulSet", "Job", "node", "lost")))
    at = draw(st.integers(0, 40))
    if kind == "lost":
        return {"at": at, "op": "delete", "object": draw(st.sampled_from(nodes))}
    if kind == "node":
        return {"at": at, "op": "create", "object": node(f"x{number}")}
    spec = {
        "priority": draw(st.sampled_from(PRIORITIES)),
        "terminationGracePeriodSeconds": draw(st.sampled_from((0, 1, 30))),
        "containers": [container(draw(st.integers(1, 3)))],
    }
    return {"at": at, "op": "create", "object": arriving(f"w{number}", kind, spec, draw(st.integers(1, 3)))}


@st.composite
def scenarios(draw: st.DrawFn) -> Obj:
    """A few small nodes, pods on them and on nodes that are not there or come later, and arrivals of every kind."""
    nodes = [node(f"n{n}", draw(st.integers(2, 4))) for n in range(draw(st.integers(1, 3)))]
    drawn = [draw(arrivals(number, nodes)) for number in range(draw(st.integers(1, 6)))]
    places = draw(st.lists(st.sampled_from(("n0", "x0", "x1", "gone")), max_size=2))
    spec = {"priority": 5, "containers": [container(1)]}
    pods = [arriving(f"old{n}", "Pod", {**spec, "nodeName": place}, 1) for n, place in enumerate(places)]
    return {"nodes": nodes, "pods": pods, "arrivals": drawn, "horizonSeconds": 400, "quietSeconds": 100}


def assert_tallies(api: ApiServer) -> None:
    """What is kept count of is what there is."""
    found: dict[tuple[str, int], Tally] = {}
    for state in api.pods.values():
        labels = state.pod.labels
        found.setdefault((state.pod.namespace, id(labels)), Tally(labels)).count(state, 1)
    kept = {(space, key): tally for space, by in api.tally.by_labels.items() for key, tally in by.items() if tally.pods}
    assert kept.keys() == found.keys()
    for key, tally in found.items():
        have = kept[key]
        assert (have.pods, have.healthy, have.owners) == (tally.pods, tally.healthy, tally.owners)
    lost = [s for s in api.pods.values() if s.pod.node_name and s.pod.node_name not in api.nodes]
    assert api.strays() == lost, "in the order of creation"
    for workload in api.workloads.values():
        if workload.controller is not None:
            assert workload in api.owned(workload.controller)


def run(case: Obj, seed: int | None) -> Simulation:
    """Run it, and look at every state on the way."""
    simulation = Simulation(read_scenario(case), None if seed is None else Random(seed))
    advance = simulation.clock.advance

    def checked(call: Callable[[], object]) -> None:
        call()
        snapshot = simulation.cache.snapshot()
        check(snapshot)
        for info in snapshot.node_infos:
            assert info.milli_cpu <= info.node.allocatable.milli_cpu
            assert len(info.pods) <= info.node.allocatable.allowed_pod_number
        assert_tallies(simulation.api)

    simulation.clock.advance = lambda: partial(checked, advance())  # type: ignore[method-assign]
    simulation.run()
    return simulation


@pytest.mark.parametrize("seed", [None, 7])
@settings(max_examples=cases(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=scenarios())
def test_laws(seed: int | None, case: Obj) -> None:
    simulation = run(case, seed)
    told: dict[str, float] = {}
    alive = {f"default/{pod['metadata']['name']}" for pod in case["pods"]}
    for event in simulation.timeline.events:
        if event.event == "created":
            assert event.pod not in alive
            alive.add(event.pod)
            told.pop(event.pod, None)
        elif event.event == "preempted":
            assert event.origin is not None
            assert event.by_origin is not None
            assert event.origin.priority < event.by_origin.priority, "no victim of equal or higher priority"
            told.setdefault(event.pod, event.t)
        elif event.event == "gone":
            alive.discard(event.pod)
            if event.pod in told:
                assert event.origin is not None
                early = event.t < told[event.pod] + event.origin.grace
                assert not early or not event.node or event.node not in simulation.api.nodes, "grace is respected"
    assert alive == set(simulation.final()), "every created pod is bound, pending or gone"


@settings(max_examples=cases(10), deadline=None)
@given(case=scenarios(), seed=st.integers(0, 99))
def test_a_seed_says_everything(case: Obj, seed: int) -> None:
    assert Outcome(run(case, seed)).to_dict() == Outcome(run(case, seed)).to_dict()
