"""A Deployment's rollout goes through, whatever its strategy: its ReplicaSets' counts wake its controller."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from tests.builders import Made, make_node, make_pod
from tests.recorded.commands import answer_scenario as answer_case


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


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_randomized_runs_draw_the_time_of_an_arrival_that_may_come_sooner(seed: int | None) -> None:
    cache = DumpCache()
    cache.add(make_node("n").obj)
    created, scaled = deployment("old", {}), {"apiVersion": "apps/v1", "kind": "Deployment", "replicas": 1}
    arrivals = [
        Arrival(1.0, "create", created),
        Arrival(60.0, "scale", {**scaled, "metadata": created["metadata"]}, sooner=15.0),
    ]
    simulation = Simulation(world_of(cache, arrivals, until=300.0), None if seed is None else Random(seed))
    simulation.run()
    times = {round(event.t) for event in simulation.timeline.events if event.event == "deleted"}
    assert times == {{None: 60, 1: 56, 2: 59, 3: 51}[seed]}


@pytest.mark.parametrize(
    ("surge", "cpu", "changes", "expected"),
    [
        (
            2,
            "7",
            [{"image": "new"}],
            [("created", 2.1), ("created", 3.2), ("deleted", 4.1), ("created", 8.7)],
        ),
        (1, "4", [{"image": "new"}, {"paused": True}, {}], [("deleted", 3.1), ("deleted", 3.2), ("created", 5.3)]),
    ],
    ids=["a size is refused, as a status came before", "goes on and goes back"],
)
def test_when_the_pods_of_a_rollout_come_and_go(
    surge: int, cpu: str, changes: list[dict[str, Any]], expected: list[tuple[str, float]]
) -> None:
    """The first of them, in milliseconds after the last change: each write takes one. As `oracle scenarios` has it."""

    def changed(image: str = "old", **spec: Any) -> dict[str, Any]:
        rolling = {"maxSurge": surge, "maxUnavailable": 1}
        obj = deployment(image, {"type": "RollingUpdate", "rollingUpdate": rolling})
        pod = obj["spec"]["template"]["spec"]
        pod["terminationGracePeriodSeconds"] = 0
        pod["containers"][0]["resources"]["requests"]["cpu"] = "3" if image == "new" else "1"
        return {**obj, "spec": {**obj["spec"], "replicas": 3 + surge, **spec}}

    at = [10 * (place + 1) for place in range(len(changes))]
    arrivals = [{"at": t, "op": "update", "object": changed(**change)} for t, change in zip(at, changes, strict=True)]
    node = make_node("n1").has(cpu=cpu).obj
    case = {"nodes": [node], "workloads": [changed()], "arrivals": arrivals, "scalingDown": True}
    (outcome,) = answer_case(case)["outcomes"]
    told = [(event["event"], 1000 * (event["t"] - at[-1])) for event in outcome["timeline"]]
    found = [(what, t) for what, t in told if what in ("created", "deleted") and t > 0][: len(expected)]
    assert [what for what, _ in found] == [what for what, _ in expected]
    assert [t for _, t in found] == pytest.approx([t for _, t in expected], abs=0.4)


def daemons(label: str) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 5}
    template = {"metadata": {"labels": {"app": "d", "version": label}}, "spec": pod}
    return (
        Made("apps/v1", "DaemonSet", "d", "default").spec(selector={"matchLabels": {"app": "d"}}, template=template).obj
    )


def test_daemons_that_surge_come_beside_the_old_ones() -> None:
    """Old and new pod of a node have names of their own: the API server draws them."""
    surging = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    old, new = daemons("old"), daemons("new")
    for obj in (old, new):
        obj["spec"]["updateStrategy"] = surging
    cache = DumpCache()
    for name in ("n1", "n2"):
        cache.add(make_node(name).obj)
    arrivals = [Arrival(1.0, "create", old), Arrival(60.0, "update", new)]
    simulation = Simulation(world_of(cache, arrivals, until=300.0), None)
    simulation.run()
    assert {pod: entry["node"] for pod, entry in simulation.final().items()} == {
        "default/d-n1-2": "n1",
        "default/d-n2-2": "n2",
    }
    assert {state.pod.labels["version"] for state in simulation.api.pods.values()} == {"new"}


def rolling_daemons(runs: int) -> dict[str, Any]:
    """Four nodes, each with a daemon that does not name its revision, and a template that changes."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
    nodes = [make_node(f"n{n}").obj for n in range(4)]
    pods = [make_pod(f"d-n{n}").labels(app="d").on(f"n{n}").metadata(ownerReferences=[owner]).obj for n in range(4)]
    arrival = {"at": 10, "op": "update", "object": daemons("new")}
    case = {"nodes": nodes, "pods": pods, "workloads": [daemons("old")], "arrivals": [arrival], "scalingDown": True}
    return dict(answer_case(case, runs=runs))


def test_daemons_that_name_no_revision_are_of_the_first() -> None:
    (outcome,) = rolling_daemons(1)["outcomes"]
    deleted = [event["pod"] for event in outcome["timeline"] if event["event"] == "deleted"]
    assert deleted == [f"default/d-n{n}" for n in range(4)]
    assert all(entry["node"] for entry in outcome["final"].values())


def test_which_daemon_is_ended_first_is_drawn_in_further_runs() -> None:
    outcomes = rolling_daemons(12)["outcomes"]
    first = {next(e["pod"] for e in outcome["timeline"] if e["event"] == "deleted") for outcome in outcomes}
    assert len(first) > 1


def test_each_pod_of_a_workload_that_goes_ends_by_itself() -> None:
    """They are told one after the other, and are gone in the same distances: no kubelet waits for the next DELETE."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    web = Made("apps/v1", "ReplicaSet", "web", "default").spec(
        replicas=5, selector={"matchLabels": {"app": "web"}}, template=template
    )
    pods = [make_pod(f"w{n}").labels(app="web").on("n1").metadata(ownerReferences=[owner]).obj for n in range(5)]
    gone = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "namespace": "default"}}
    case = {"nodes": [make_node("n1").obj], "pods": pods, "workloads": [web.obj], "scalingDown": True}
    (outcome,) = answer_case({**case, "arrivals": [{"at": 1, "op": "delete", "object": gone}]})["outcomes"]
    times = {kind: [e["t"] for e in outcome["timeline"] if e["event"] == kind] for kind in ("deleted", "gone")}
    assert len(times["gone"]) == 5
    assert all(30 < end - told < 30.01 for told, end in zip(times["deleted"], times["gone"], strict=True))


def test_which_pod_goes_of_a_replica_set_on_its_own_does_not_depend_on_what_its_nodes_hold() -> None:
    """Upstream counts related pods by the Deployment that controls a ReplicaSet; without one, the youngest goes."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    web = Made("apps/v1", "ReplicaSet", "web", "default").spec(
        replicas=3, selector={"matchLabels": {"app": "web"}}, template=template
    )
    places = {
        "a": ("n1", "2026-05-30T00:00:00Z"),
        "b": ("n1", "2026-05-30T00:00:00Z"),
        "c": ("n2", "2026-05-31T23:59:00Z"),
    }
    pods = [
        make_pod(name).labels(app="web").on(node).metadata(ownerReferences=[owner]).status(startTime=start).obj
        for name, (node, start) in places.items()
    ]
    smaller = {**web.obj, "spec": {**web.obj["spec"], "replicas": 2}}
    case = {"nodes": [make_node("n1").obj, make_node("n2").obj], "pods": pods, "workloads": [web.obj]}
    arrivals = [{"at": 1, "op": "update", "object": smaller}]
    (outcome,) = answer_case({**case, "arrivals": arrivals, "scalingDown": True})["outcomes"]
    assert [event["pod"] for event in outcome["timeline"] if event["event"] == "deleted"] == ["default/c"]


def stateful(cpu: str, strategy: dict[str, Any]) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {**pod, "terminationGracePeriodSeconds": 1}}
    made = Made("apps/v1", "StatefulSet", "db", "default")
    return made.spec(replicas=3, selector={"matchLabels": {"app": "db"}}, template=template, **strategy).obj


@pytest.mark.parametrize(
    ("strategy", "cpu"),
    [
        ({}, 9000),
        ({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {}}}, 9000),
        ({"updateStrategy": {"type": "RollingUpdate"}}, 1000),
    ],
    ids=["as defaulted", "no partition", "type alone"],
)
def test_a_pod_that_goes_in_a_rollout_that_is_stuck_comes_again_of_the_new_revision(
    strategy: dict[str, Any], cpu: int
) -> None:
    """Unless the strategy has a type and no rollingUpdate, which an API server keeps as it is."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    pods = [
        make_pod(f"db-{n}").request(cpu="1").labels(app="db").on("n1").metadata(ownerReferences=[owner]).obj
        for n in range(3)
    ]
    gone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": "default"}}
    cache = DumpCache()
    for obj in (make_node("n1").obj, stateful("1", strategy), *pods):
        cache.add(obj)
    arrivals = [Arrival(1.0, "update", stateful("9", strategy)), Arrival(60.0, "delete", gone)]
    simulation = Simulation(world_of(cache, arrivals, until=300.0), None)
    simulation.run()
    made_again = simulation.api.pod("default", "db-0")
    assert made_again is not None
    assert made_again.spec.request.milli_cpu == cpu


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_what_is_changed_at_once_is_rolled_out(kind: str) -> None:
    """As `whatif class` does it: the pods that are there are of the template before the change."""

    def made(label: str) -> dict[str, Any]:
        obj = daemons(label)
        return obj if kind == "DaemonSet" else {**obj, "kind": kind, "spec": {**obj["spec"], "replicas": 1}}

    cache = DumpCache()
    name = {"DaemonSet": "d-n1", "StatefulSet": "d-0"}[kind]
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "d", "uid": "1", "controller": True}
    ready = [{"type": "Ready", "status": "True"}]
    pod = make_pod(name).labels(app="d").on("n1").metadata(ownerReferences=[owner]).status(conditions=ready).obj
    for obj in (make_node("n1").obj, made("old"), pod):
        cache.add(obj)
    simulation = Simulation(world_of(cache, [Arrival(0.0, "update", made("new"))], until=100.0))
    simulation.run()
    events = [event.event for event in simulation.timeline.events if event.pod == f"default/{name}"]
    assert events == ["deleted", "gone", "created", "scheduled"]
    assert [state.pod.labels["version"] for state in simulation.api.pods.values()] == ["new"]


def test_nodes_go_in_their_turn_whatever_controllers_are_at() -> None:
    cache = DumpCache()
    names = [f"n{number}" for number in range(5)]
    for obj in (*(make_node(name).obj for name in names), daemons("new")):
        cache.add(obj)
    lost = [Arrival(0.0, "lost", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}) for name in names]
    simulation = Simulation(world_of(cache, lost, until=1.0))
    simulation.run()
    gone = {event.node: round(event.t, 4) for event in simulation.timeline.events if event.event == "nodeRemoved"}
    assert gone == {name: round(0.001 * place, 4) for place, name in enumerate(names)}
