"""Controllers that work beside each other, as kube-controller-manager's do."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from forewarn.policies.kubernetes.cluster.cache import Origin
from forewarn.policies.prediction.simulation.clock import Latencies
from forewarn.policies.prediction.simulation.scenario import QUIET, Arrival, DumpCache, quiet_for, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from tests.builders import Made, make_budget, make_node, make_pod
from tests.recorded.commands import answer_scenario as answer_case

Obj = dict[str, Any]


def replica_set(name: str, replicas: int, **spec: Any) -> Obj:
    made = Made("apps/v1", "ReplicaSet", name, "default").spec(replicas=replicas, **spec)
    template = {"metadata": {"labels": {"app": name}}, "spec": make_pod("").request(cpu="100m").obj["spec"]}
    return made.spec(selector={"matchLabels": {"app": name}}, template=template).obj


def running(name: str, number: int, node: str) -> Obj:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}
    pod = make_pod(f"{name}-{number}").request(cpu="100m").labels(app=name).on(node, started=number)
    return pod.metadata(ownerReferences=[owner]).status(conditions=[{"type": "Ready", "status": "True"}]).obj


def events(
    objects: list[Obj], arrivals: list[Arrival], until: float = 600.0, time: str = ""
) -> list[tuple[float, str, str]]:
    """`time`: of the cluster state."""
    cache = DumpCache()
    cache.origin = Origin(time=time)
    for obj in objects:
        cache.add(obj)
    simulation = Simulation(world_of(cache, arrivals, until=until))
    simulation.run()
    return [(round(event.t, 3), event.event, event.pod) for event in simulation.timeline.events]


def test_pods_are_made_in_batches() -> None:
    """One, two, four: each batch when the one before it is through."""
    told = events([make_node("n1").obj], [Arrival(0.0, "create", replica_set("web", 7))], until=5.0)
    made = [time for time, what, _ in told if what == "created"]
    assert [round(time * 1000) for time in made] == [1, 2, 2, 3, 3, 3, 3]


@pytest.mark.parametrize(("existing", "at"), [(0, [0, 11, 11, 22, 22]), (3, [0, 0])])
def test_batches_of_a_stateful_set_contain_existing_pods(existing: int, at: list[int]) -> None:
    """`at`: milliseconds after the first new Pod."""
    stateful_set = {
        **replica_set("web", 5, podManagementPolicy="Parallel", ordinals={"start": 7}),
        "kind": "StatefulSet",
    }
    there = [running("web", 7 + number, "n1") for number in range(existing)]
    for pod in there:
        pod["metadata"]["ownerReferences"][0]["kind"] = "StatefulSet"
    told = events([make_node("n1").obj, stateful_set, *there], [], until=5.0)
    made = [round(time * 1000) for time, what, _ in told if what == "created"]
    assert [time - made[0] for time in made] == at


def test_two_workloads_do_not_wait_for_each_other() -> None:
    arrivals = [Arrival(0.0, "create", replica_set(name, 3)) for name in ("a", "b")]
    made = [pod.split("/")[1] for _, what, pod in events([make_node("n1").obj], arrivals, 5.0) if what == "created"]
    assert made.index("b-1") < made.index("a-3"), "b arrives a millisecond later"


def test_what_is_collected_is_made_anew_while_others_are_still_collected() -> None:
    nodes = [make_node(name).obj for name in ("n1", "n2")]
    there = [replica_set("web", 6), *(running("web", number, "n1") for number in range(6))]
    lost = Arrival(0.0, "lost", nodes[0])
    told = [(what, pod) for _, what, pod in events([*nodes, *there], [lost]) if what in ("gone", "created")]
    assert [what for what, _ in told].count("gone") == 6
    assert told.index(("created", "default/web-7")) < 3, "the collector's second pod takes two writes more"


def test_pods_that_are_not_wanted_any_more_go_together() -> None:
    there = [replica_set("web", 6), *(running("web", number, "n1") for number in range(6))]
    told = events([make_node("n1").obj, *there], [Arrival(0.0, "update", replica_set("web", 1))], 5.0)
    assert [round(time * 1000) for time, what, _ in told if what == "deleted"] == [1] * 5


def test_the_pods_of_a_cron_jobs_jobs_go_with_it() -> None:
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    cron = Made("batch/v1", "CronJob", "c", "default").spec(**spec).obj
    arrivals = [Arrival(0.0, "create", cron), Arrival(150.0, "delete", cron)]
    told = [(what, name) for _, what, name in events([make_node("n1").obj], arrivals) if what in ("created", "deleted")]
    assert [what for what, _ in told] == ["created", "created", "deleted", "deleted"]
    assert [name for _, name in told[:2]] == [name for _, name in told[2:]], "the oldest first"


def test_the_pods_of_a_deployments_replica_sets_go_with_it() -> None:
    made = replica_set("web", 2)
    web = {**made, "kind": "Deployment"}
    arrivals = [Arrival(0.0, "create", web), Arrival(10.0, "delete", web)]
    told = [what for _, what, _ in events([make_node("n1").obj], arrivals)]
    assert (told.count("created"), told.count("deleted")) == (2, 2), "and none is made in their place"


def test_a_drain_evicts_the_pods_that_are_there_at_once_and_no_others() -> None:
    """A node that is drained and comes back keeps what it is given then, while the drain waits for a budget."""
    nodes = [make_node("n1").obj]
    held = make_pod("held").request(cpu="100m").labels(app="held").on("n1", started=1)
    held.status(conditions=[{"type": "Ready", "status": "True"}])
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
    }
    budget["spec"] = {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}}
    there = [replica_set("web", 2), *(running("web", number, "n1") for number in (1, 2)), held.obj, budget]
    arrivals = [Arrival(0.0, "drain", nodes[0]), Arrival(60.0, "uncordon", nodes[0])]
    told = events([*nodes, *there], arrivals)
    evicted = [(time, pod) for time, what, pod in told if what == "deleted"]
    assert {pod for _, pod in evicted} == {"default/web-1", "default/web-2"}
    assert all(time < 0.003 for time, _ in evicted), "beside each other"
    assert [pod for _, what, pod in told if what == "scheduled"] == ["default/web-3", "default/web-4"]


def test_with_dice_pods_may_take_longer_to_be_made_than_other_writes() -> None:
    """In some runs the most: a webhook that is slow is slow about every pod."""

    def slowest(verb: str, *, asks_webhooks: bool) -> float:
        runs = (Latencies(Random(seed), asks_webhooks=asks_webhooks) for seed in range(50))
        return max(latencies.write(verb, str(number)) for latencies in runs for number in range(10))

    assert slowest("create", asks_webhooks=True) > 0.05
    assert slowest("create", asks_webhooks=False) < 0.0132
    assert slowest("delete", asks_webhooks=True) < 0.0132
    assert Latencies(asks_webhooks=True).write("create", "a") < 0.0012


def daemon_set(name: str) -> Obj:
    template = {"metadata": {"labels": {"app": name}}, "spec": make_pod("").request(cpu="3").obj["spec"]}
    made = Made("apps/v1", "DaemonSet", name, "default")
    return made.spec(selector={"matchLabels": {"app": name}}, template=template).obj


def with_a_place(case: Obj, runs: int) -> set[str]:
    """Who gets the only place, in any of these runs: the first letters of the pods' names."""
    found = answer_case({**case, "scalingDown": True}, runs=runs)["outcomes"]
    return {pod.split("/")[1][0] for outcome in found for pod, end in outcome["final"].items() if end["node"]}


def test_controllers_begin_with_what_they_list_first() -> None:
    """Three DaemonSets and two workers: the last one by name waits, wherever a file has it."""
    case = {"nodes": [make_node("n1").obj], "workloads": [daemon_set(name) for name in "cba"], "scalingDown": True}
    (outcome,) = answer_case(case)["outcomes"]
    created = [event["pod"] for event in outcome["timeline"] if event["event"] == "created"]
    assert created[-1] == "default/c-n1"


def test_any_daemon_set_may_be_the_first_on_a_new_node() -> None:
    """Upstream goes through them in the order of a Go map (`syncNodeUpdate`); two workers leave the third to wait."""
    arrivals = [{"at": 10, "op": "create", "object": make_node("n1").obj}]
    case = {"nodes": [], "workloads": [daemon_set(name) for name in "abc"], "arrivals": arrivals}
    assert with_a_place(case, runs=24) == set("abc")


def test_any_of_many_cron_jobs_that_are_due_may_find_no_worker_free() -> None:
    """Six, and five workers: the sixth to read the clock is late, and that is not always the same one."""
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": daemon_set("")["spec"]["template"]}}}
    made = [Made("batch/v1", "CronJob", name, "default").spec(**spec).obj for name in "abcdef"]
    arrivals = [{"at": 1, "op": "create", "object": cron} for cron in made]
    case = {"nodes": [make_node("n1").obj], "arrivals": arrivals, "horizonSeconds": 65, "scalingDown": True}
    assert with_a_place(case, runs=48) == set("abcdef")
    (outcome,) = answer_case(case)["outcomes"]
    created = [event["t"] - 60.1 for event in outcome["timeline"] if event["event"] == "created"]
    late = "a Job and a status of another CronJob, then its own Job and pod: four writes"
    assert [round(time * 1000) for time in created] == [2, 2, 2, 2, 2, 4], late


def test_an_annotation_that_is_no_cost_of_deletion_costs_nothing() -> None:
    """`²` is a digit to Python, and no number."""
    there = [replica_set("web", 1), *(running("web", number, "n1") for number in range(2))]
    for value in ("²", "--5", "1_0", "9" * 5000, 7):
        there[1]["metadata"]["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": value}
        told = events([make_node("n1").obj, *there], [], 5.0)
        assert [what for _, what, _ in told] == ["deleted"]


@pytest.mark.parametrize(
    ("since", "sidecar_restarts", "time", "deleted"),
    [
        ("2026-01-01T08:03:00Z", 0, "2026-01-01T08:04:00Z", 1),  # it is ready for a shorter time
        ("2026-01-01T08:00:00Z", 1, "2026-01-01T08:04:00Z", 1),
        ("2026-01-01T08:03:00Z", 0, "2026-01-01T12:00:00Z", 0),  # equal by order of magnitude: the lower UID
    ],
    ids=["ready", "sidecar", "magnitude"],
)
def test_a_scale_down_deletes_the_pod_that_upstream_deletes(
    since: str, sidecar_restarts: int, time: str, deleted: int
) -> None:
    """Source: `ActivePodsWithRanks`."""
    pods = [running("web", number, f"n{number}") for number in range(2)]
    for number, pod in enumerate(pods):
        pod["metadata"].update(uid=f"{number}", creationTimestamp="2026-01-01T08:00:00Z")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since if number else "2026-01-01T08:00:00Z"}
        restarts = {"name": "sidecar", "restartCount": sidecar_restarts * number}
        pod["status"].update(startTime="2026-01-01T08:00:00Z", conditions=[ready], initContainerStatuses=[restarts])
        pod["spec"]["initContainers"] = [{"name": "sidecar", "image": "i", "restartPolicy": "Always"}]
    nodes = [make_node(f"n{number}").obj for number in range(2)]
    arrivals = [Arrival(0.0, "update", replica_set("web", 1))]
    told = events([*nodes, replica_set("web", 2), *pods], arrivals, 5.0, time)
    assert [pod for _, what, pod in told if what == "deleted"] == [f"default/web-{deleted}"]


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("status", {"conditions": [{"type": [], "status": "True"}]}),
        ("status", {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "x"}]}),
        ("status", {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": 5}]}),
        ("spec", {"initContainers": [{"name": [], "image": "i", "restartPolicy": "Always"}]}),
        ("status", {"initContainerStatuses": [{"name": [], "restartCount": 1}]}),
        ("status", {"initContainerStatuses": ["x"]}),
        ("status", {"containerStatuses": [{"restartCount": "x"}]}),
        ("status", {"containerStatuses": [{"restartCount": 10**30}]}),
    ],
)
def test_an_unreadable_field_that_only_orders_pods_is_as_an_absent_one(part: str, changes: Obj) -> None:
    pods = [running("web", number, f"n{number}") for number in range(2)]
    for pod in pods:
        pod[part].update(changes)
    nodes = [make_node(f"n{number}").obj for number in range(2)]
    told = events([*nodes, replica_set("web", 2), *pods], [Arrival(0.0, "update", replica_set("web", 1))], 5.0)
    assert [what for _, what, _ in told] == ["deleted"]


@pytest.mark.parametrize(
    ("seconds", "quiet"),
    [(0, QUIET), (1000, 1060), (10**401, 3600), (-(10**401), QUIET)],
    ids=["none", "long", "huge", "negative"],
)
def test_a_run_without_events_is_as_long_as_the_longest_min_ready_seconds(seconds: int, quiet: float) -> None:
    assert quiet_for([{"spec": {"minReadySeconds": seconds}}]) == quiet


def test_any_node_may_get_the_first_pod_of_a_daemon_set() -> None:
    """Upstream lists nodes in the order of a Go map, and makes one pod, then two. Of four the last by name would never
    be the first."""
    nodes = [make_node(f"n{number}").obj for number in range(4)]
    arrivals = [Arrival(0.0, "create", daemon_set("d"))]
    first = set()
    for seed in range(24):
        cache = DumpCache()
        for node in nodes:
            cache.add(node)
        simulation = Simulation(world_of(cache, arrivals, until=5.0), Random(seed))
        simulation.run()
        first.add(next(event.pod for event in simulation.timeline.events if event.event == "created"))
    assert first == {f"default/d-n{number}" for number in range(4)}


def test_a_daemon_that_waits_for_a_node_that_goes_stays_until_its_controller_has_another_reason_to_look() -> None:
    """Upstream's hears of nodes that come and change, not of those that go. A node without the pod is a reason."""
    nodes = [make_node(name).has(cpu=cpu).obj for name, cpu in (("n1", "4"), ("full", "1"), ("n2", "4"))]
    arrivals = [
        Arrival(0.0, "create", daemon_set("d")),
        Arrival(30.0, "lost", nodes[1]),
        Arrival(50.0, "create", nodes[2]),
    ]
    told = events(nodes[:2], arrivals, 90.0)
    assert [round(time) for time, what, pod in told if (what, pod) == ("deleted", "default/d-full")] == [50]


def test_the_collectors_rounds_begin_a_period_after_the_end_of_the_one_before() -> None:
    """One that has deleted something is late, and so is the next: a node that was missed by the one is gone for 40 s by
    the second after it, not only by the third. Source: `wait.UntilWithContext`."""
    nodes = [make_node(name).obj for name in ("n1", "n2", "n3")]
    there = [replica_set("web", 2), running("web", 1, "n1"), running("web", 2, "n2")]
    lost = [Arrival(1.0, "lost", nodes[0]), Arrival(50.0, "lost", nodes[1])]
    gone = {pod: time for time, what, pod in events([*nodes, *there], lost) if what == "gone"}
    alone = {pod: time for time, what, pod in events([*nodes, *there], lost[1:]) if what == "gone"}
    assert {pod: round(time, 1) for pod, time in gone.items()} == {"default/web-1": 65.7, "default/web-2": 105.7}
    assert {pod: round(time, 1) for pod, time in alone.items()} == {"default/web-2": 125.7}


def test_the_status_of_a_pdb_keeps_the_evictions_during_its_sync() -> None:
    """The controller's status is rejected after an eviction: otherwise 3 evictions would be allowed."""
    nodes = [make_node(f"n{number}").obj for number in range(4)]
    there = [replica_set("web", 4), *(running("web", number, f"n{number}") for number in range(4))]
    pdb = make_budget("web", 2, app="web").spec(maxUnavailable=2).obj
    drains = [Arrival(0.0, "drain", node) for node in nodes]
    told = events([*nodes, *there, pdb], drains, until=4.0)
    assert sum(what == "deleted" for _, what, _ in told) == 2
