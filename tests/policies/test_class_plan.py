"""`forewarn classes plan`: the order of a change of PriorityClasses, against single simulations and laws."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.base.documents.answer import AnswerDocument, AnswerStatus
from forewarn.policies.inputs.sources.cluster import adopt_pods
from forewarn.policies.kubernetes.cluster.cache import head_of
from forewarn.policies.kubernetes.objects.fields import InvalidInput
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.prediction.simulation.scenario import DumpCache, world_of
from forewarn.policies.prediction.simulation.simulation import Simulation
from forewarn.policies.questions.application.classes import ClassPlan
from forewarn.policies.questions.whatif.class_change import Change, apply_change, effect_of, ranked, restarts
from forewarn.policies.questions.whatif.class_plan import _Run, _with_classes, plan, steps_of, wanted
from forewarn.policies.questions.whatif.comparison import ask
from forewarn.policies.questions.whatif.questions import Question
from tests.builders import Made, make_node, make_pod
from tests.cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.questions.whatif.class_plan import Plan, Step

UNTIL = 100_000.0
NAMES = ("gold", "iron", "tin")


def answer(found: Plan) -> AnswerDocument:
    return ClassPlan(head_of(DumpCache().snapshot()), found).document


def deployment(name: str, replicas: int, cpu: str, class_name: str = "", surge: int = 0) -> Made:
    spec: dict[str, Any] = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    if class_name:
        spec["priorityClassName"] = class_name
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 0 if surge else 1}}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    labels = {"matchLabels": {"app": name}}
    made = Made("apps/v1", "Deployment", name, "default")
    return made.spec(replicas=replicas, selector=labels, template=template, strategy=strategy)


def running(name: str, nodes: Iterable[str], cpu: str, priority: int, class_name: str = "") -> list[Made]:
    made: list[Made] = []
    for number, node in enumerate(nodes):
        pod = make_pod(f"{name}-{number}").labels(app=name).priority(priority).request(cpu=cpu).on(node)
        made.append(pod.spec(priorityClassName=class_name) if class_name else pod)
    return made


def cache_of(classes: Iterable[PriorityClass], made: Iterable[Made]) -> DumpCache:
    cache = DumpCache()
    for each in classes:
        cache.add(each.to_api())
    for one in made:
        cache.add(one.obj)
    adopt_pods(cache)
    return cache


def planned(cache: DumpCache, new: Sequence[PriorityClass], workloads: Sequence[Made] = (), *deleted: str) -> Plan:
    change = wanted(cache.snapshot(), new, [made.obj for made in workloads], deleted)
    return plan(cache.snapshot(), world_of(cache, (), until=UNTIL), change)


def random_cluster(seed: int) -> tuple[DumpCache, list[PriorityClass], list[str]]:
    """A nearly full cluster, new classes for it, and classes to delete."""
    dice = Random(seed)
    classes = [PriorityClass(name, dice.choice([-5, 10, 20, 30])) for name in NAMES if dice.random() < 0.7]
    if classes and dice.random() < 0.4:
        classes[0] = classes[0]._replace(global_default=True)
    values = {c.name: c.value for c in classes} | {"": next((c.value for c in classes if c.global_default), 0)}
    nodes = {f"n{number}": 4 for number in range(dice.randint(2, 4))}
    made: list[Made] = [make_node(name) for name in nodes]
    for number in range(dice.randint(1, 5)):
        name, cpu = f"app-{number}", dice.randint(1, 3)
        places: list[str] = []
        for node in dice.sample(sorted(nodes), len(nodes)):
            if nodes[node] >= cpu and dice.random() < 0.8:
                nodes[node] -= cpu
                places.append(node)
        if places:
            used = dice.choice(sorted(values))
            made.append(deployment(name, len(places), str(cpu), used, dice.choice([0, 0, 1])))
            made += running(name, places, str(cpu), values[used], used)
    default = dice.choice([None, *NAMES])
    new = [
        PriorityClass(
            name, dice.choice([-5, 10, 20, 30]), name == default, dice.choice(["PreemptLowerPriority"] * 3 + ["Never"])
        )
        for name in NAMES
        if name == default or dice.random() < 0.6
    ]
    given = {c.name for c in new}
    return cache_of(classes, made), new, [c.name for c in classes if c.name not in given and dice.random() < 0.3]


def states(cluster: ClusterSnapshot, steps: Iterable[Step]) -> Iterable[dict[str, PriorityClass]]:
    """The classes after each step."""
    classes = dict(cluster.priority_classes)
    for step in steps:
        for each in step.classes:
            classes.pop(each.name, None)
            if step.action != "delete":
                classes[each.name] = each
        yield dict(classes)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("careful", [False, True])
def test_the_steps_lead_to_the_requested_classes_and_the_api_server_accepts_each(seed: int, careful: bool) -> None:
    cache, new, deleted = random_cluster(seed)
    cluster = cache.snapshot()
    change = wanted(cluster, new, (), deleted)
    after = _with_classes(cluster, change.classes)
    affected = [each for each in ranked(cluster, after, change.workloads) if each.differs and each.object]
    steps = [*steps_of(cluster, change, affected, careful=careful)]
    before = dict(cluster.priority_classes)
    for step, classes in zip(steps, states(cluster, steps), strict=True):
        for each in step.classes:
            old = before.get(each.name)
            assert (old is None) == (step.action == "create"), (step, before)
            if step.action == "default":
                assert old is not None
                assert (old.value, old.preemption_policy) == (each.value, each.preemption_policy)
        assert sum(each.global_default for each in classes.values()) <= 1
        before = classes
    assert before == dict(change.classes)


@pytest.mark.parametrize("seed", range(40))
def test_rolled_out_pods_have_the_priority_of_the_final_classes(seed: int) -> None:
    cache, new, deleted = random_cluster(seed)
    cluster, change = cache.snapshot(), wanted(cache.snapshot(), new, (), deleted)
    after = _with_classes(cluster, change.classes)
    affected = [each for each in ranked(cluster, after) if each.differs and each.object]
    simulation = Simulation(world_of(cache, (), until=UNTIL))
    run = _Run(simulation, cluster, [*steps_of(cluster, change, affected, careful=bool(seed % 2))])
    simulation.run()
    unfinished = {name for result in run.results for name in result.unfinished}
    expected = {each.workload: each.after for each in affected if each.after and each.workload not in unfinished}
    for state in simulation.api.pods.values():
        resolved = expected.get(simulation.timeline.origins[state.pod.key].group)
        assert resolved is None or state.pod.effective_priority == resolved.priority


@pytest.mark.parametrize("seed", range(40))
def test_with_never_first_no_pod_of_a_new_class_preempts(seed: int) -> None:
    cache, new, deleted = random_cluster(seed)
    cluster, change = cache.snapshot(), wanted(cache.snapshot(), new, (), deleted)
    affected = [each for each in ranked(cluster, _with_classes(cluster, change.classes)) if each.differs]
    affected = [each for each in affected if each.object]
    simulation = Simulation(world_of(cache, (), until=UNTIL))
    _Run(simulation, cluster, [*steps_of(cluster, change, affected, careful=True)])
    simulation.run()
    created = {c.name for c in new if cluster.priority_classes.get(c.name) != c}
    preemptors = {e.by_origin.priority_class for e in simulation.timeline.events if e.by_origin is not None}
    assert not preemptors & created


def test_a_plan_for_one_workload_preempts_what_a_simulation_of_its_restart_predicts() -> None:
    compared = preempted = 0
    for seed in range(cases(80)):
        _, new, _ = random_cluster(seed)
        for each in new:
            one, other = random_cluster(seed)[0], random_cluster(seed)[0]
            before = one.snapshot()
            apply_change(one, Change(each.name, each.value, policy=each.preemption_policy))
            told = effect_of(before, one.snapshot(), each.name, {})
            if len(told.restarting) != 1 or told.after is None or told.taken_from:
                continue
            alone = ask(Question(""), world_of(one, restarts(told), until=UNTIL), without=False)
            found = planned(other, [told.after])
            careful = found.alternative is not None and not found.alternative.never_first
            direct = found.alternative.preempted if careful and found.alternative else found.preempted
            compared, preempted = compared + 1, preempted + len(alone.after.preempted)
            assert direct == len(alone.after.preempted), (seed, each)
    assert compared > cases(16)
    assert preempted > cases(5)


OUTAGE: list[Made] = [make_node(f"n{number}") for number in (1, 2, 3)]
OUTAGE += [deployment("ingester", 3, "3"), *running("ingester", ("n1", "n2", "n3"), "3", 0)]


def test_the_highest_new_priority_comes_first_and_lowered_priorities_before_it() -> None:
    made: list[Made] = [make_node("n1").has(cpu="20")]
    for name, class_name, priority in (("db", "high", 100), ("web", "mid", 50), ("job", "low", 10)):
        made += [deployment(name, 1, "1", class_name), *running(name, ["n1"], "1", priority, class_name)]
    classes = [PriorityClass("high", 100), PriorityClass("mid", 50), PriorityClass("low", 10)]
    new = [PriorityClass("high", 300), PriorityClass("mid", 200), PriorityClass("low", 5)]
    found = planned(cache_of(classes, made), new)
    rollouts = [result.step.objects[0]["metadata"]["name"] for result in found.steps if result.step.objects]
    assert rollouts == ["job", "db", "web"]
    assert (found.preempted, found.complete, found.alternative) == (0, True, None)


def test_never_comes_first_if_the_direct_order_preempts() -> None:
    made: list[Made] = [*OUTAGE, deployment("web", 1, "1", surge=1), *running("web", ["n1"], "1", 0)]
    found = planned(cache_of([], made), [PriorityClass("medium", 1000, True)])
    assert found.preempted == 0
    assert found.alternative is None or not found.alternative.never_first


def test_pods_that_pending_pods_preempt_before_the_first_step_are_counted_apart() -> None:
    pending = make_pod("high").priority(100).request(cpu="3")
    node, low = make_node("n1").has(cpu="4", memory="8Gi", pods="10"), running("low", ["n1"], "3", 0)
    found = planned(cache_of([], [node, deployment("low", 1, "3"), *low, pending]), [PriorityClass("gold", 1000)])
    assert (found.pending_before, found.preempted_before, found.preempted) == (1, 1, 0)
    assert found.steps[0].new_pods == 0  # the replacement of the victim
    document = answer(found)
    assert any("before step 1, Pending Pods preempt 1 Pod:" in warning for warning in document.warnings)
    assert (document.status, document.clause) == (AnswerStatus.WARN, "no Pod preempted, newly Pending or lost")


def test_the_counters_have_all_effects_of_the_steps() -> None:
    node, low = make_node("n1").has(cpu="4", memory="8Gi", pods="10"), running("low", ["n1"], "2", 0)
    web = [*running("web", ["n1"], "2", 0), make_pod("web-2").labels(app="web").request(cpu="2")]
    made = [node, deployment("low", 1, "2"), *low, deployment("web", 2, "2"), *web]
    found = planned(cache_of([PriorityClass("gold", 1000)], made), [], [deployment("web", 2, "2", "gold")])
    document = answer(found)
    assert document.clause == "1 min 5 s, 2 Pods preempted, 1 stays Pending"
    assert (document.effects.preempted, document.effects.lost, document.effects.down) == (2, 1, 1)
    assert found.lost == {"default/low": 1}


def test_pending_pods_of_another_scheduler_are_not_counted() -> None:
    pending = make_pod("high").priority(100).request(cpu="3").spec(schedulerName="volcano")
    low = [deployment("low", 1, "3", "gold"), *running("low", ["n1"], "3", 0, "gold")]
    found = planned(cache_of([PriorityClass("gold", 0)], [*OUTAGE[:1], *low, pending]), [PriorityClass("gold", 1000)])
    assert (found.pending_before, {step.pending for step in found.steps}) == (0, {0})


def test_the_cascade_of_a_pending_pod_counts_before_the_first_step() -> None:
    """`high` preempts the Pod of `middle` on n1, and the replacement Pod preempts `low` on n2 after time 0."""
    made: list[Made] = [make_node(name).has(cpu="4", memory="8Gi", pods="10").label("n", name) for name in ("n1", "n2")]
    made += [deployment("middle", 1, "3", "middle"), *running("middle", ["n1"], "3", 50, "middle")]
    made += [
        *running("low", ["n2"], "3", 0),
        make_pod("high").priority(100).request(cpu="3").spec(nodeSelector={"n": "n1"}),
    ]
    found = planned(cache_of([PriorityClass("middle", 50)], made), [PriorityClass("gold", 1000)])
    assert (found.preempted_before, found.preempted) == (2, 0)


def test_pods_of_jobs_keep_their_priority() -> None:
    job = Made("batch/v1", "Job", "report", "default").spec(
        parallelism=1, template={"spec": {"containers": [{"name": "c"}]}}
    )
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "report", "controller": True, "uid": "uid-report"}
    pod = make_pod("report-1").on("n1").metadata(ownerReferences=[reference])
    found = planned(cache_of([], [make_node("n1"), job, pod]), [PriorityClass("medium", 1000, True)])
    assert [each.workload for each in found.keep_priority] == ["default/report"]
    assert [result.step.action for result in found.steps] == ["create", "default"]


def test_a_deleted_class_that_is_used_is_reported() -> None:
    made: list[Made] = [make_node("n1"), deployment("web", 1, "1", "gold"), *running("web", ["n1"], "1", 10, "gold")]
    found = planned(cache_of([PriorityClass("gold", 10)], made), [], [], "gold")
    assert [each.workload for each in found.rejected] == ["default/web"]
    assert not found.complete
    assert any("Fix: pass them with another class (-f)" in warning for warning in answer(found).warnings)


@pytest.mark.parametrize("value", [10, 20], ids=["same", "other"])
def test_a_workload_that_moves_to_another_class_keeps_its_other_fields(value: int) -> None:
    made: list[Made] = [
        make_node("n1"),
        deployment("web", 2, "1", "old"),
        *running("web", ["n1", "n1"], "1", 10, "old"),
    ]
    found = planned(
        cache_of([PriorityClass("old", 10)], made),
        [PriorityClass("new", value)],
        [deployment("web", 5, "3", "new")],
        "old",
    )
    assert [result.step.action for result in found.steps] == ["create", "apply", "delete"]
    (moved,) = found.steps[1].step.objects
    assert moved["spec"]["replicas"] == 2
    assert moved["spec"]["template"]["spec"]["priorityClassName"] == "new"
    assert (found.steps[1].new_pods, found.complete) == (2, True)


def test_the_priorities_omit_workloads_that_move_to_a_class_of_the_same_value() -> None:
    made: list[Made] = [make_node("n1").has(cpu="9")]
    for name, class_name, priority in (("db", "top", 50), ("web", "mid", 10)):
        made += [deployment(name, 1, "1", class_name), *running(name, ["n1"], "1", priority, class_name)]
    moved = [deployment("db", 1, "1", "core"), deployment("web", 1, "1", "high")]
    new = [PriorityClass("core", 50), PriorityClass("high", 20)]
    found = planned(cache_of([PriorityClass("top", 50), PriorityClass("mid", 10)], made), new, moved, "top", "mid")
    assert [len(result.step.objects) for result in found.steps] == [0, 1, 1, 0]
    (priorities,) = (table for table in answer(found).tables if table.columns[0] == "NEW PODS OF")
    assert [*priorities.rows] == [("default/web", 10, 20, 1)]


@pytest.mark.parametrize(
    ("new", "deleted", "problem"),
    [
        ([PriorityClass("a", 1), PriorityClass("a", 2)], [], 'PriorityClass "a" is given twice'),
        ([PriorityClass("a", 1, True), PriorityClass("b", 2, True)], [], "several global defaults"),
        ([PriorityClass("a", 2_000_000_000)], [], "maximum allowed value"),
        ([PriorityClass("system-node-critical", 5)], [], "system class"),
        ([PriorityClass("gold", 5)], ["gold"], "in the files and to be deleted"),
        ([], ["silver"], 'PriorityClass "silver" not found'),
    ],
)
def test_changes_that_the_api_server_rejects(new: list[PriorityClass], deleted: list[str], problem: str) -> None:
    cluster = cache_of([PriorityClass("gold", 10)], []).snapshot()
    with pytest.raises(InvalidInput, match=problem):
        wanted(cluster, new, (), deleted)
