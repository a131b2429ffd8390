"""What comes after a first preemption, against the simulation, which has time and all controllers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from forewarn.policies.base.disclosure import Audience, Disclose
from forewarn.policies.base.documents import to_dict
from forewarn.policies.base.findings import joined
from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.reviewed_object import ChangeSet, ReviewedObject
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import EvaluationRequest, Phase, evaluate, impact_of
from forewarn.policies.linting.rules.wording.forecasts import cascade_phrases
from forewarn.policies.prediction.forecast.forecast import Forecast
from forewarn.policies.prediction.forecast.impact import BY_CHOICE, BY_PDBS, NOT_PREDICTED, Cascade
from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.prediction.simulation.summary import summarize
from forewarn.webhook.admission.decision import warnings_of
from tests.builders import Made, MadePod, cluster, make_budget, make_node, make_pod
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

CORE = {"Node": "v1"}
DISRUPTED = [{"type": "DisruptionTarget"}]
KINDS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}


def controlled(pod: MadePod, kind: str, name: str) -> MadePod:
    reference = {
        "apiVersion": (KINDS | CORE).get(kind, "apps/v1"),
        "kind": kind,
        "name": name,
        "controller": True,
        "uid": "",
    }
    return pod.metadata(ownerReferences=[reference])


def cascade_after(made: Sequence[Made], new: Made, recreated: Sequence[str] = ()) -> Cascade:
    config = Config(options=Options(recreates_pods=tuple(recreated)))
    impact = impact_of(ReviewedObject(new.obj), cluster(*made), config)
    assert impact is not None
    assert impact.cascade is not None
    return impact.cascade


@pytest.mark.parametrize("driver", ["runs", "terminates", "succeeded", "is gone", "is a victim"])
def test_executors_are_replaced_while_their_driver_runs(driver: str) -> None:
    """As in a simulation: a Spark driver owns its executors, and only a running driver creates them again."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "driver", "controller": True, "uid": "uid-driver"}
    executor = make_pod("exec").request(cpu="2").on("n1").labels(**{"spark-role": "executor"})
    made: list[Made] = [make_node("n1"), make_node("n2").spec(unschedulable=True)]
    made.append(executor.metadata(ownerReferences=[reference]))
    owner = make_pod("driver").request(cpu="2").on("n1" if driver == "is a victim" else "n2")
    if driver == "terminates":
        owner.terminating()
    if driver == "succeeded":
        owner.status(phase="Succeeded")
    if driver != "is gone":
        made.append(owner)
    found = cascade_after(made, make_pod("new").priority(9).request(cpu="4"))
    assert (found.replaced, found.not_replaced) == (
        (1, 0) if driver == "runs" else (0, 2 if driver == "is a victim" else 1)
    )


def workload(kind: str, name: str, pods: int, spec: Any, policy: str = "Parallel") -> Made:
    made = Made(KINDS[kind], kind, name, "default")
    made.obj["spec"] = {"template": {"metadata": {"labels": {"app": name}}, "spec": spec}}
    if kind == "Job":
        return made.spec(parallelism=pods)
    return made.spec(replicas=pods, selector={"matchLabels": {"app": name}}, podManagementPolicy=policy)


@pytest.mark.parametrize(
    ("policy", "pods", "cause"), [("Parallel", 2, BY_PDBS), ("OrderedReady", 2, ""), ("Parallel", 1, "")]
)
def test_chance_decides_whether_a_pod_sees_that_a_pdb_is_used_up(policy: str, pods: int, cause: str) -> None:
    """The second Pod preempts the other Pod of the PDB, or one of higher priority. In order, it is tried later."""
    made: list[Made] = [make_node(f"n{place}").has(cpu="2") for place in range(3)]
    made += [make_pod(f"x-{place}").request(cpu="2").priority(10).labels(app="x").on(f"n{place}") for place in range(2)]
    made += [make_pod("y").request(cpu="2").priority(50).on("n2"), make_budget("x", 1, app="x")]
    spec = make_pod("").request(cpu="2").priority(100).obj["spec"]
    impact = impact_of(ReviewedObject(workload("StatefulSet", "new", pods, spec, policy).obj), cluster(*made), Config())
    assert impact is not None
    assert len(impact.preempting) == pods
    assert (impact.by_chance if impact.by_chance != BY_CHOICE else "") == cause


@pytest.mark.parametrize(
    ("spec", "replaced"),
    [
        ({}, 1),
        ({"backoffLimit": 0}, 0),
        ({"podReplacementPolicy": "Failed"}, 1),
        ({"podFailurePolicy": {"rules": [{"action": "FailJob", "onPodConditions": DISRUPTED}]}}, 0),
        ({"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": DISRUPTED}]}, "backoffLimit": 0}, 1),
    ],
)  # fmt: skip
def test_a_job_that_fails_replaces_no_pod(spec: dict[str, Any], replaced: int) -> None:
    """As in a simulation: the Job's controller decides whether and when, and its Pod may preempt in turn."""
    pod = make_pod("").request(cpu="4").priority(5).obj["spec"]
    job = workload("Job", "job", 1, {**pod, "terminationGracePeriodSeconds": 60}).spec(**spec)
    victim = make_pod("job-0").request(cpu="4").priority(5).labels(app="job").spec(terminationGracePeriodSeconds=60)
    other = make_pod("other").request(cpu="4").on("n2", started=1)
    made = [make_node("n1"), make_node("n2"), job, controlled(victim, "Job", "job").on("n1", started=1), other]
    new = make_pod("new").priority(9).request(cpu="4").spec(nodeSelector={"kubernetes.io/hostname": "n1"})
    made[0].labels(**{"kubernetes.io/hostname": "n1"})
    found = cascade_after(made, new)
    assert (found.replaced, found.not_replaced) == (replaced, 1)
    assert (found.preempted, found.cascade_depth, found.pending) == simulated(made, new)


@pytest.mark.parametrize(("app", "replaced"), [("web", 1), ("other", 0)])
def test_a_deployment_replaces_the_pods_of_a_missing_replica_set(app: str, replaced: int) -> None:
    """As in a simulation: if the cluster state has no ReplicaSets, the Deployment that selects the Pods has them."""
    pod = make_pod("").request(cpu="4").obj["spec"]
    deployment = Made("apps/v1", "Deployment", app, "default").spec(replicas=1)
    deployment.spec(
        selector={"matchLabels": {"app": app}}, template={"metadata": {"labels": {"app": app}}, "spec": pod}
    )
    victim = make_pod("web-abc-1").request(cpu="4").labels(app="web").on("n1", started=1)
    made = [make_node("n1"), make_node("n2"), deployment, controlled(victim, "ReplicaSet", "web-abc")]
    new = make_pod("new").priority(9).request(cpu="4").spec(nodeSelector={"kubernetes.io/hostname": "n1"})
    made[0].labels(**{"kubernetes.io/hostname": "n1"})
    found = cascade_after(made, new)
    assert (found.replaced, found.not_replaced) == (replaced, 1 - replaced)
    assert (found.preempted, found.cascade_depth, found.pending) == simulated(made, new)


def test_an_unreadable_job_creates_no_pod() -> None:
    job = workload("Job", "job", 1, make_pod("").obj["spec"]).spec(backoffLimit="x")
    made = [make_node("n1"), job, controlled(make_pod("job-0").request(cpu="4"), "Job", "job").on("n1", started=1)]
    assert cascade_after(made, make_pod("new").priority(9).request(cpu="4")) == Cascade(not_replaced=1)


def random_world(seed: int, *, waits: bool = False) -> tuple[list[Made], Made]:
    """A few nodes, nearly full of workloads of several kinds, and a pod that comes. `waits`: pods for which there is no
    room wait, and StatefulSets may go in order."""
    dice, started = Random(seed), 1000
    free = {f"n{number}": 8 for number in range(dice.randint(2, 5))}
    made: list[Made] = [make_node(name) for name in free]
    waiting: list[Made] = []
    for number in range(dice.randint(4, 9) if waits else dice.randint(2, 6)):
        name, kind, halves = f"w{number}", dice.choice(sorted(KINDS)), dice.choice([1, 2, 3, 4])
        priority, grace, pods = dice.choice([0, 0, 10, 20, 50]), dice.choice([5, 30, 60]), 0
        policy = dice.choice(("Parallel", "OrderedReady")) if waits else "Parallel"
        for place in range(dice.randint(1, 4)):
            nodes = [node for node, left in free.items() if left >= halves]
            pod = make_pod(f"{name}-{place}").request(cpu=f"{halves * 500}m").priority(priority).labels(app=name)
            pod = controlled(pod.spec(terminationGracePeriodSeconds=grace), kind, name)
            started += 1
            if nodes:
                node, pods = dice.choice(nodes), pods + 1
                free[node] -= halves
                made.append(pod.on(node, started=started).status(conditions=[{"type": "Ready", "status": "True"}]))
            elif waits:
                pods += 1
                created = f"2026-01-{1 + started // 1440:02}T{started // 60 % 24:02}:{started % 60:02}:00Z"
                waiting.append(pod.metadata(creationTimestamp=created))
                if kind == "StatefulSet" and policy == "OrderedReady":
                    break
        spec = make_pod("").request(cpu=f"{halves * 500}m").priority(priority).obj["spec"]
        spec = {**spec, "terminationGracePeriodSeconds": grace}
        made += [workload(kind, name, pods, spec, policy)] if pods else []
    new = make_pod("new").priority(dice.choice([15, 30, 100])).request(cpu=f"{dice.choice([2, 3, 4, 5, 6]) * 500}m")
    return [*made, *waiting], new


def is_settled(made: Sequence[Made]) -> bool:
    """Whether all who wait have nothing to wait for but others' end."""
    state = cluster(*made)
    return all(predict(state, pod).outcome == "pending" for pod in state.waiting_pods.values())


def simulated(made: Sequence[Made], new: Made) -> tuple[int, int, int]:
    cache = DumpCache()
    for one in made:
        cache.add(one.obj)
    simulation = Simulation(world_of(cache, [Arrival(0.0, "create", new.obj)], until=3600))
    simulation.run()
    summary = summarize(simulation)
    more = sum(eviction.level > 1 for eviction in summary.evictions)
    return more, summary.cascade_depth - 1, sum(waiting.pods - waiting.before for waiting in summary.waiting)


def test_it_comes_to_what_a_simulation_comes_to() -> None:
    """Of 3,000 such worlds 1,265 had a preemption, and all of these agreed; budgets are where they may differ."""
    compared = 0
    for seed in range(10):
        made, new = random_world(seed)
        if predict(cluster(*made), new.obj).outcome == "preempts":
            found = cascade_after(made, new)
            assert (found.preempted, found.cascade_depth, found.pending) == simulated(made, new), seed
            compared += 1
    assert compared >= 4


def test_pods_that_wait_take_the_room_as_in_a_simulation() -> None:
    """And an ordered StatefulSet makes none while one of lower ordinal waits."""
    compared = 0
    for seed in range(20):
        made, new = random_world(seed, waits=True)
        if predict(cluster(*made), new.obj).outcome == "preempts" and is_settled(made):
            found = cascade_after(made, new)
            assert (found.preempted, found.cascade_depth, found.pending) == simulated(made, new), seed
            compared += 1
    assert compared >= 4


def test_nothing_follows_if_all_victims_are_placeholder_pods() -> None:
    assert cascade_phrases(Cascade()) == cascade_phrases(Cascade(), coarse=True) == ()


def test_the_outage_of_2019_is_told_in_a_sentence() -> None:
    cache = load_cluster("docs/examples/simulate/default-class.yaml")
    for obj in next(yaml.safe_load_all(Path("docs/examples/simulate/cluster.yaml").read_text()))["items"]:
        if obj["kind"] == "Pod":
            reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "ingester", "controller": True}
            obj["metadata"]["ownerReferences"] = [{**reference, "uid": "1"}]
        cache.add(obj)
    shown = cache.snapshot()
    (tenant,) = load_cluster("docs/examples/simulate/tenant.yaml").snapshot().workloads.values()
    impact = impact_of(ReviewedObject(tenant.object), shown, Config())
    assert impact is not None
    assert impact.cascade == Cascade(replaced=4, preempted=3, cascade_depth=3, pending=1)
    assert cascade_phrases(impact.cascade) == (
        "replacements preempt 3 more Pods in a cascade of depth 3",
        "1 replacement stays Pending",
    )


@pytest.mark.parametrize(
    ("found", "facts", "told"),
    [
        (Cascade(not_replaced=1), "not recreated", {"notReplaced": 1}),
        (Cascade(not_replaced=2), "not recreated", {"notReplaced": 2}),
        (
            Cascade(not_replaced=2, controller_unknown=2),
            "assumed not recreated",
            {"notReplaced": 2, "controllerUnknown": 2},
        ),
        (
            Cascade(replaced=1, not_replaced=3, controller_unknown=2),
            "3 not recreated (2 assumed)",
            {"replaced": 1, "notReplaced": 3, "controllerUnknown": 2},
        ),
        (
            Cascade(replaced=1, not_replaced=2, controller_unknown=2),
            "2 assumed not recreated",
            {"replaced": 1, "notReplaced": 2, "controllerUnknown": 2},
        ),
        (Cascade(replaced=1), "replacement fits", {"replaced": 1}),
        (Cascade(replaced=2), "replacements fit", {"replaced": 2}),
        (Cascade(replaced=2, not_replaced=1), "1 not recreated", {"replaced": 2, "notReplaced": 1}),
        (Cascade(replaced=1, pending=1), "replacement stays Pending", {"replaced": 1, "pending": 1}),
        (Cascade(replaced=2, pending=2), "replacements stay Pending", {"replaced": 2, "pending": 2}),
        (Cascade(replaced=3, pending=1), "1 of 3 replacements stay Pending", {"replaced": 3, "pending": 1}),
        (
            Cascade(replaced=2, preempted=1, cascade_depth=1),
            "replacements preempt 1 more Pod",
            {"replaced": 2, "preempted": 1, "cascadeDepth": 1},
        ),
        (
            Cascade(replaced=1, rejected_by_quota=1),
            "replacement rejected by a quota",
            {"replaced": 1, "rejectedByQuota": 1},
        ),
        (
            Cascade(replaced=2, rejected_by_quota=2),
            "replacements rejected by a quota",
            {"replaced": 2, "rejectedByQuota": 2},
        ),
        (
            Cascade(replaced=3, pending=1, rejected_by_quota=1),
            "1 of 3 replacements stay Pending, 1 of 3 replacements rejected by a quota",
            {"replaced": 3, "pending": 1, "rejectedByQuota": 1},
        ),
        (
            Cascade(replaced=3, preempted=1, cascade_depth=1, rejected_by_quota=2),
            "replacements preempt 1 more Pod, 2 replacements rejected by a quota",
            {"replaced": 3, "preempted": 1, "cascadeDepth": 1, "rejectedByQuota": 2},
        ),
        (NOT_PREDICTED, "cascade not predicted", {"incomplete": True}),
    ],
)
def test_it_is_a_few_facts_and_numbers(found: Cascade, facts: str, told: dict[str, object]) -> None:
    assert ", ".join(cascade_phrases(found)) == facts
    assert len(cascade_phrases(found, coarse=True)) == 1
    assert to_dict(found) == told


def full_node(name: str, *, pods: int, owner: str = "") -> list[Made]:
    made: list[Made] = [make_node(name).has(cpu=str(pods))]
    for number in range(pods):
        pod = make_pod(f"{name}-{number}").request(cpu="1").on(name, started=number)
        made.append(controlled(pod, "ReplicaSet", owner) if owner else pod)
    return made


def test_a_pod_of_nobody_and_a_static_one_are_not_made_anew() -> None:
    static = controlled(make_pod("static").request(cpu="1").on("n1"), "Node", "n1")
    made = [make_node("n1").has(cpu="2"), static, make_pod("bare").request(cpu="1").on("n1")]
    assert cascade_after(made, make_pod("new").priority(1).request(cpu="2")) == Cascade(not_replaced=2)


def test_a_pod_whose_workload_is_not_listed_is_assumed_not_to_be_recreated_as_in_a_simulation() -> None:
    made = full_node("n1", pods=1, owner="unknown")
    new = make_pod("new").priority(1).request(cpu="1")
    assert cascade_after(made, new) == Cascade(not_replaced=1, controller_unknown=1)
    assert simulated(made, new) == (0, 0, 0)


@pytest.mark.parametrize(
    ("recreated", "found"),
    [((), Cascade(not_replaced=1, controller_unknown=1)), (("apps/Database",), Cascade(replaced=1, pending=1))],
)
def test_unknown_controllers_recreate_pods_only_by_the_configuration(
    recreated: tuple[str, ...], found: Cascade
) -> None:
    made = [make_node("n1").has(cpu="1"), controlled(make_pod("db").request(cpu="1").on("n1"), "Database", "db")]
    new, config = make_pod("new").priority(1).request(cpu="1"), Config(options=Options(recreates_pods=recreated))
    assert cascade_after(made, new, recreated) == found
    impact = impact_of(ReviewedObject(new.obj), cluster(*made), config)
    assert impact is not None
    assert impact.cascade == found


def test_a_pod_whose_class_is_gone_cannot_be_made_anew() -> None:
    spec = make_pod("").obj["spec"] | {"priorityClassName": "gone"}
    del spec["priority"]
    made = [*full_node("n1", pods=1, owner="w"), workload("ReplicaSet", "w", 1, spec)]
    assert cascade_after(made, make_pod("new").priority(1).request(cpu="1")) == Cascade(not_replaced=1)


def daemon_set(pod: MadePod) -> Made:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {**pod.obj["spec"], "nodeName": ""}}
    return Made("apps/v1", "DaemonSet", "d", "default").spec(selector={"matchLabels": {"app": "d"}}, template=template)


def test_a_daemon_is_made_anew_on_its_node_alone() -> None:
    affinity = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    daemon = make_pod("d").request(cpu="2").on("n1").affinity("nodeAffinity", affinity)
    made: list[Made] = [make_node("n1").has(cpu="2"), make_node("n2").has(cpu="2").taint("for-daemons")]
    made += [controlled(daemon, "DaemonSet", "d"), daemon_set(daemon)]
    found = cascade_after(made, make_pod("new").priority(1).request(cpu="2"))
    assert found == Cascade(replaced=1, pending=1)


def test_a_daemon_of_another_api_group_is_recreated_at_once_on_any_node() -> None:
    daemon = controlled(make_pod("d").request(cpu="2").on("n1"), "DaemonSet", "d")
    daemon.obj["metadata"]["ownerReferences"][0]["apiVersion"] = "apps.kruise.io/v1alpha1"
    affinity = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [""]}]}
    daemon.affinity("nodeAffinity", affinity).spec(terminationGracePeriodSeconds=30)
    made: list[Made] = [make_node("n1").labels(a="b").has(cpu="2"), make_node("n2").has(cpu="2")]
    new = make_pod("new").priority(1).request(cpu="2").spec(nodeSelector={"a": "b"})
    assert cascade_after([*made, daemon], new, ("apps.kruise.io/DaemonSet",)) == Cascade(replaced=1)


def test_a_daemon_that_came_with_its_daemon_set_is_made_anew_on_its_node_alone() -> None:
    """It was put in its place without being held to it."""
    affinity = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [""]}]}
    daemon = make_pod("d").request(cpu="2").on("n1").affinity("nodeAffinity", affinity)
    made: list[Made] = [make_node("n1").labels(a="b").has(cpu="2"), make_node("n2").has(cpu="2")]
    new = make_pod("new").priority(1).request(cpu="2").spec(nodeSelector={"a": "b"})
    made += [controlled(daemon, "DaemonSet", "d"), daemon_set(daemon)]
    assert cascade_after(made, new) == Cascade(replaced=1, pending=1)


def warned(state: ClusterSnapshot, new: Made, expired: Any = lambda: False) -> list[str]:
    return [text for text in evaluated(state, new, expired) if "would preempt" in text]


def evaluated(state: ClusterSnapshot, new: Made, expired: Any = lambda: False) -> list[str]:
    from datetime import UTC, datetime

    found = evaluate(
        EvaluationRequest(
            ChangeSet((ReviewedObject(new.obj),)),
            state,
            Config(),
            phase=Phase.VALIDATE,
            now=datetime.now(UTC),
            expired=expired,
        )
    )
    assert all(len(warning) <= 150 for warning in warnings_of(found))
    return [joined((finding.message, f"Fix: {finding.remediation}")) for finding in found]


def test_the_warning_has_it_and_loses_names_before_it() -> None:
    names = [f"a-pod-with-quite-a-long-name-{'x' * 30}-{number}" for number in range(3)]
    made: list[Made] = [make_node("n1").has(cpu="3")]
    made += [controlled(make_pod(name).request(cpu="1").on("n1"), "ReplicaSet", "w") for name in names]
    new = make_pod("new").priority(1).request(cpu="3")
    (unlisted,) = warned(cluster(*made), new)
    assert "-0 and 2 more. Priority 0, assumed not recreated, up to 30s grace. Fix: lower requests" in unlisted
    made.append(workload("ReplicaSet", "w", 3, make_pod("").request(cpu="1").obj["spec"]))
    (warning,) = warned(cluster(*made), new)
    assert "n1: default/a-pod-with" in warning
    assert "-0 and 2 more. Priority 0, replacements stay Pending, up to 30s grace. Fix: lower requests" in warning


def test_a_hostile_template_does_not_make_it_late() -> None:
    """Whoever may write a workload may write a large one: what is not read in time is not worked out."""
    spec = {"containers": [{"name": f"c{number}", "image": "i"} for number in range(5000)]}
    made = [*full_node("n1", pods=1, owner="w"), workload("ReplicaSet", "w", 1, spec)]
    (warning,) = warned(cluster(*made), make_pod("new").priority(1).request(cpu="1"))
    assert "cascade not predicted" in warning


def test_where_time_is_up_the_first_preemption_is_told_and_that_no_more_was_worked_out() -> None:
    made = full_node("n1", pods=80, owner="w")
    for number, one in enumerate(made[1:]):
        one.spec(terminationGracePeriodSeconds=number)
    made.append(workload("ReplicaSet", "w", 80, make_pod("").request(cpu="1").obj["spec"]))
    new = make_pod("new").priority(1).request(cpu="80")
    told: list[str] = []
    for enough in range(1, 20):
        looks = iter([False] * enough)
        told += evaluated(cluster(*made), new, partial(next, looks, True))
    late = [text for text in told if "cascade not predicted" in text]
    assert late
    assert all("would preempt 80 Pods" in text for text in late)


def quota(hard: dict[str, str], used: dict[str, str], *classes: str) -> Made:
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": list(classes)}
    scoped: Any = {"scopeSelector": {"matchExpressions": [scope]}} if classes else {}
    return Made("v1", "ResourceQuota", "q", "default").spec(hard=hard, **scoped).status(hard=hard, used=used)


def gold(value: int) -> Made:
    made = Made("scheduling.k8s.io/v1", "PriorityClass", "gold")
    made.obj["value"] = value
    return made


def one_victim(grace: int = 30, kind: str = "ReplicaSet", **template: Any) -> list[Made]:
    """A node that one pod of 1 cpu fills, and another that is empty and too small for what comes."""
    victim = controlled(make_pod("w-0").request(cpu="1").on("n1"), kind, "w")
    victim.spec(terminationGracePeriodSeconds=grace)
    spec = {**make_pod("").request(cpu="1").obj["spec"], "terminationGracePeriodSeconds": grace, **template}
    nodes = [make_node("n1").has(cpu="2"), make_node("n2").has(cpu="1500m")]
    return [*nodes, victim, workload(kind, "w", 1, spec)]


NEW = make_pod("new").priority(1).request(cpu="2").metadata(namespace="elsewhere")


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job"])
@pytest.mark.parametrize(("used", "rejected"), [("1", 0), ("2", 0), ("3", 1)])
def test_a_quota_that_has_less_than_is_used_refuses_the_replacement(kind: str, used: str, rejected: int) -> None:
    """Its victim counts until it is gone: only then there is room for another one."""
    made = [*one_victim(kind=kind), quota({"pods": "2"}, {"pods": used})]
    assert cascade_after(made, NEW) == Cascade(replaced=1, rejected_by_quota=rejected)


def test_the_quota_of_a_class_refuses_whoever_has_come_to_it() -> None:
    some = [gold(0), quota({"pods": "0"}, {"pods": "0"}, "gold")]
    assert cascade_after([*one_victim(), *some], NEW) == Cascade(replaced=1)
    classed = one_victim(priorityClassName="gold", priority=None)
    assert cascade_after([*classed, *some], NEW) == Cascade(replaced=1, rejected_by_quota=1)


def test_what_one_victim_leaves_of_a_quota_another_ones_replacement_may_take() -> None:
    """The larger one is refused until the smaller one, which nobody makes anew, is gone."""
    made = one_victim(grace=5, containers=[{"name": "c", "resources": {"requests": {"cpu": "1200m"}}}])
    bare = make_pod("bare").request(cpu="500m").on("n1").spec(terminationGracePeriodSeconds=60)
    full = quota({"requests.cpu": "1500m"}, {"requests.cpu": "1500m"})
    assert cascade_after([*made, bare, full], NEW) == Cascade(replaced=1, not_replaced=1)
    fuller = quota({"requests.cpu": "1500m"}, {"requests.cpu": "1800m"})
    assert cascade_after([*made, bare, fuller], NEW) == Cascade(replaced=1, not_replaced=1)
    fullest = quota({"requests.cpu": "1500m"}, {"requests.cpu": "1900m"})
    assert cascade_after([*made, bare, fullest], NEW) == Cascade(replaced=1, not_replaced=1, rejected_by_quota=1)


def test_what_the_new_pods_take_of_a_quota_is_not_left_for_replacements() -> None:
    made = one_victim(containers=[{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}])
    state = cluster(*made, quota({"requests.cpu": "3"}, {"requests.cpu": "1"}))
    (warning,) = warned(state, make_pod("new").priority(1).request(cpu="2"))
    assert "replacement rejected by a quota" in warning
    (other,) = warned(state, make_pod("new").priority(1).request(cpu="2").metadata(namespace="elsewhere"))
    assert "replacement fits" in other


def test_nobody_is_told_to_go_for_pods_that_a_quota_refuses() -> None:
    made: list[Made] = [make_node("n1").has(cpu="2"), gold(1)]
    for number in range(2):
        victim = make_pod(f"w-{number}").request(cpu="1").on("n1").metadata(namespace="other")
        made.append(controlled(victim, "ReplicaSet", "w"))
    pod = make_pod("").spec(priorityClassName="gold", priority=None).request(cpu="1")
    wanted = workload("ReplicaSet", "new", 2, pod.obj["spec"])
    (both,) = warned(cluster(*made), wanted)
    assert "both new Pods would preempt 2 Pods on n1" in both
    (one,) = warned(cluster(*made, quota({"pods": "1"}, {"pods": "0"})), wanted)
    assert "1 of 2 new Pods would preempt 1 Pod on n1" in one
    assert not warned(cluster(*made, quota({"pods": "1"}, {"pods": "1"})), wanted)


def test_many_that_a_quota_refuses_are_not_asked_about_one_by_one() -> None:
    """Of those that are alike one is asked for, each time that somebody is gone."""
    made = full_node("n1", pods=100, owner="w")
    for number, one in enumerate(made[1:]):
        one.spec(terminationGracePeriodSeconds=number)
    made += [quota({"pods": "1"}, {"pods": "300"})]
    made.append(workload("ReplicaSet", "w", 100, make_pod("").request(cpu="1").obj["spec"]))
    new = make_pod("new").priority(1).request(cpu="100").metadata(namespace="elsewhere")
    found = cascade_after(made, new)
    assert found == Cascade(replaced=100, rejected_by_quota=100)


@pytest.mark.parametrize(
    ("field", "number"),
    [("terminationGracePeriodSeconds", 2**63 - 1), ("activeDeadlineSeconds", 2**63 - 1), ("replicas", 2**31 - 1)],
)
def test_numbers_that_somebody_wrote_make_nothing_grow(field: str, number: int) -> None:
    made = one_victim()
    for one in made[2:]:
        one.spec(**{field: number})
    state, new = cluster(*made), make_pod("new").priority(1).request(cpu="2")
    (warning,) = warned(state, new)
    assert len(warning) <= 256
    assert ("cascade not predicted" if field == "replicas" else "replacement fits") in warning


def test_ten_thousand_budgets_do_not_keep_it_past_its_time() -> None:
    """Who asks is asked whether time is up while budgets are gone through, and it says so where it is."""
    made = full_node("n1", pods=100, owner="w")
    for number, one in enumerate(made[1:]):
        one.labels(app="web").spec(terminationGracePeriodSeconds=number)
    for number in range(10_000):
        budget = Made("policy/v1", "PodDisruptionBudget", f"b{number}", "default")
        made.append(budget.spec(selector={"matchLabels": {"app": "web"}}, maxUnavailable=1))
    state, new = cluster(*made), make_pod("new").priority(1).request(cpu="100")
    asked = 0

    def expired() -> bool:
        nonlocal asked
        asked += 1
        return asked > 20

    started = process_time()
    assert any("time ran out" in text for text in evaluated(state, new, expired))
    assert process_time() - started < 2


@pytest.mark.parametrize(("used", "pods"), [("2", ""), ("1", "a new Pod"), ("0", "each of 2 new Pods")])
def test_pods_that_a_quota_rejects_preempt_nothing_if_time_runs_out(used: str, pods: str) -> None:
    made = [*full_node("n1", pods=4), gold(9), quota({"pods": "2"}, {"pods": used})]
    spec = make_pod("").spec(priorityClassName="gold", priority=None).request(cpu="1").obj["spec"]
    new = workload("ReplicaSet", "new", 3, spec)
    told = [text for text in evaluated(cluster(*made), new, lambda: True) if "time ran out" in text]
    assert [text.partition(" may")[0] for text in told] == ([f"time ran out: {pods}"] if pods else [])


def test_all_victims_of_new_pods_are_those_of_a_simulation() -> None:
    """Also if Pending Pods of a higher class, which may never preempt, take the capacity of the first victims."""
    compared = overtaken = 0
    for seed in range(cases(80)):
        made, new = random_world(seed, waits=True)
        for one in made[::2]:
            if isinstance(one, MadePod) and not one.obj["spec"].get("nodeName"):
                one.spec(preemptionPolicy="Never")
                one.priority(200)
        if predict(cluster(*made), new.obj).outcome != "preempts" or not is_settled(made):
            continue
        impact = impact_of(ReviewedObject(new.obj), cluster(*made), Config())
        assert impact is not None
        victims = {victim.key for prediction in impact.preempting for victim in prediction.victims}
        assert victims == victims_in_simulation(made, new), seed
        compared += 1
        overtaken += len({victim.node_name for p in impact.preempting for victim in p.victims}) > 1
    assert compared >= 4
    assert overtaken


def victims_in_simulation(made: Sequence[Made], new: Made) -> set[str]:
    cache = DumpCache()
    for one in made:
        cache.add(one.obj)
    simulation = Simulation(world_of(cache, [Arrival(0.0, "create", new.obj)], until=3600))
    simulation.run()
    return {eviction.victim for eviction in summarize(simulation).evictions if eviction.by == "default/new"}


def test_a_component_that_decides_has_no_name_in_ranges() -> None:
    found = NOT_PREDICTED._replace(not_predicted='scheduler "mine" decides')
    assert found.coarse == NOT_PREDICTED
    assert Cascade(replaced=7, preempted=2, cascade_depth=2).coarse == Cascade(replaced=6, preempted=1)


@pytest.mark.parametrize("disclose", Disclose)
def test_only_readers_of_all_names_see_which_object_decides_the_cascade(disclose: Disclose) -> None:
    cluster_state = [make_node("n").has(cpu="2"), make_pod("a", "payroll").request(cpu="2").on("n")]
    impact = impact_of(
        ReviewedObject(make_pod("new").priority(9).request(cpu="2").obj), cluster(*cluster_state), Config()
    )
    assert impact is not None
    decided = impact._replace(
        cascade=NOT_PREDICTED._replace(not_predicted="Job payroll/salaries has backoffLimitPerIndex")
    )
    told = str(decided.to_dict(Audience(disclose, "default")))
    assert ("payroll/salaries" in told) == (disclose is Disclose.NAMES)


@pytest.mark.parametrize("steps", range(40))
def test_victims_are_known_when_time_is_over_in_the_cascade(steps: int) -> None:
    """Whatever step is the last, the result has the victims, or none at all."""
    waiting = [make_pod(f"w{number}").priority(5).request(cpu="9") for number in range(300)]
    made: list[Made] = [make_node("n").has(cpu="2"), *waiting]
    made += [make_pod(name).request(cpu="1").on("n") for name in "ab"]
    calls = iter(range(steps))
    forecast = Forecast(cluster(*made), POD_TEMPLATE_PATHS, lambda: next(calls, None) is None)
    impact = forecast.predict_impact(ReviewedObject(make_pod("new").priority(9).request(cpu="2").obj))
    assert impact is not None
    assert len(impact.preempting) == 1 or impact.rest == "unknown"
    assert steps < 5 or impact.preempting
