"""`forewarn headroom --placeholders`: the reported Pods start without waiting, and preempt placeholder Pods alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from forewarn.policies.kubernetes.cluster.cache import head_of
from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.questions.application.headroom import HeadroomResult, ObjectHeadroom
from forewarn.policies.questions.whatif.effects import total_of_placeholders
from forewarn.policies.questions.whatif.headroom import fill, headroom
from forewarn.policies.questions.whatif.placeholders import Placeholders, placeholders
from tests.builders import Made, MadePod, cluster, make_node, make_pod

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

CUTOFF = -10


def placeholder(name: str, cpu: int, node: str) -> MadePod:
    pod = make_pod(name).priority(-5).request(cpu=str(cpu)).on(node).spec(terminationGracePeriodSeconds=0)
    pod.container["image"] = "pause:3.10"
    return pod


def asked(state: ClusterSnapshot, pod: Made, wanted: int) -> Placeholders:
    return placeholders(state, pod.obj, headroom(state, pod.obj), wanted, Options(), CUTOFF)


def random_cluster(seed: int) -> list[Made]:
    dice = Random(seed)
    made: list[Made] = []
    for number in range(dice.randint(1, 4)):
        node, free = f"n{number}", 8
        made.append(make_node(node).has(cpu="8").label("pool", dice.choice("ab")))
        for index in range(dice.randint(0, 5)):
            cpu = dice.randint(1, 3)
            if cpu <= free:
                name, free = f"p{number}-{index}", free - cpu
                busy = make_pod(name).priority(dice.choice([0, 10, 20])).request(cpu=str(cpu)).on(node)
                made.append(placeholder(name, cpu, node) if dice.random() < 0.5 else busy)
    return made


@pytest.mark.parametrize("seed", range(80))
def test_as_many_pods_as_are_reported_start_and_preempt_placeholder_pods_alone(seed: int) -> None:
    state, wanted = cluster(*random_cluster(seed)), 1 + seed % 7
    new = make_pod("new").priority(10).request(cpu=str(1 + seed % 3))
    found, pod = asked(state, new, wanted), headroom(state, new.obj).pod
    assert found.create.pods == max(wanted - found.existing.reserve, 0)
    assert sum(pool.free for pool in found.pools) <= fill(state.scheduling, pod)[0].pods
    snapshot = state.scheduling
    for number in range(found.create.fit_now):  # the new placeholder Pods that fit now
        own = replace(pod, name=f"own-{number}", uid=f"own-{number}", priority=-5, priority_class_name="")
        own = replace(own, spec=replace(own.spec, images=("pause",)))
        prediction = Prediction(snapshot, own)
        assert prediction.fits
        snapshot = prediction.final_snapshot()
    for number in range(min(wanted, found.existing.reserve + found.create.fit_now)):
        prediction = Prediction(snapshot, replace(pod, name=f"new-{number}", uid=f"new-{number}"))
        assert prediction.fits or prediction.outcome == "preempts"
        assert all(is_placeholder(victim, Options()) for victim in prediction.victims)
        snapshot = prediction.final_snapshot()


def test_free_capacity_is_not_reserved() -> None:
    """One Pod fits on each node. Other Pods may take the free capacity of n1 and n2 first."""
    nodes = [make_node(name).has(cpu="8").label("kubernetes.io/hostname", name) for name in ("n1", "n2")]
    new = make_pod("new").priority(10).request(cpu="4").labels(app="new")
    term = {"labelSelector": {"matchLabels": {"app": "new"}}, "topologyKey": "kubernetes.io/hostname"}
    new.spec(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    found = asked(cluster(*nodes, placeholder("p", 4, "n1")), new, 2)
    assert (found.existing.reserve, found.create.pods, found.create.fit_now) == (1, 1, 1)
    assert found.pools == [("", 2, 1)]


def test_pending_placeholder_pods_reserve_nothing() -> None:
    state = cluster(make_node("n1").has(cpu="8"), placeholder("p", 4, "n1"), placeholder("q", 9, ""))
    found = asked(state, make_pod("new").priority(10).request(cpu="4"), 3)
    assert (found.existing[:3], found.create.pods) == ((1, 1, 1), 2)
    room = headroom(state, make_pod("new").priority(10).request(cpu="4").obj)
    enough = asked(state, make_pod("new").priority(10).request(cpu="4"), 1)
    warned = [
        HeadroomResult(head_of(state), state, [ObjectHeadroom(room, each)]).document.warnings
        for each in (found, enough)
    ]
    pending = "1 placeholder Pod is Pending: no capacity reserved yet"
    limit = "existing placeholder Pods have room for only 1 Pod: insufficient cpu (1 node)"
    assert warned == [[limit, f"{pending}; once scheduled, they may replace some of the needed ones"], [pending]]


@pytest.mark.parametrize(
    ("admitted", "create", "clause", "effects"),
    [
        (1, 0, "no more placeholder Pods needed for the 1 that quota team admits", []),
        (
            3,
            2,
            "2 more placeholder Pods needed for the 3 that quota team admits, 2 have room",
            ["3 of 9 Pods start at once"],
        ),
        (9, 8, "8 more placeholder Pods needed, 3 have room", ["4 of 9 Pods start at once"]),
    ],
)
def test_no_placeholder_pods_are_for_pods_that_a_quota_rejects(
    admitted: int, create: int, clause: str, effects: list[str]
) -> None:
    quota = Made("v1", "ResourceQuota", "team", "default").spec(hard={"pods": str(admitted)})
    quota.status(hard={"pods": str(admitted)}, used={"pods": "0"})
    state = cluster(make_node("n1").has(cpu="8"), make_node("n2").has(cpu="8"), placeholder("p", 4, "n1"), quota)
    new = make_pod("new").priority(10).request(cpu="4")
    found = asked(state, new, 9)
    document = HeadroomResult(head_of(state), state, [ObjectHeadroom(headroom(state, new.obj), found)]).document
    assert (found.admitted, found.create.pods, document.clause) == (admitted, create, clause)
    assert (document.status, [fix.effect for fix in document.fix]) == ("WARN", effects)


def test_pods_that_never_preempt_cannot_use_placeholder_pods() -> None:
    state = cluster(make_node("n1"), placeholder("p", 4, "n1"))
    found = asked(state, make_pod("new").priority(10).spec(preemptionPolicy="Never").request(cpu="1"), 2)
    assert (found.existing.pods, found.existing.reserve, found.create.pods) == (0, 0, 0)
    assert found.obstacle == "preemptionPolicy Never: the Pods cannot preempt placeholder Pods"


def test_pods_below_the_cutoff_have_no_placeholder_pods() -> None:
    found = asked(cluster(make_node("n1")), make_pod("new").priority(-10).request(cpu="1"), 1)
    assert found.obstacle.startswith("priority -10: no lower priority")


def test_the_class_of_placeholder_pods_is_proposed_first() -> None:
    classes = []
    for name, value in (("idle", -1), ("pause", -5), ("never", -20)):
        classes.append(Made("scheduling.k8s.io/v1", "PriorityClass", name))
        classes[-1].obj.update(PriorityClass(name, value).to_api())
    new = make_pod("new").request(cpu="1")
    assert asked(cluster(make_node("n1"), *classes), new, 1).create.priority_class == "idle"
    used = placeholder("p", 4, "n1").spec(priorityClassName="pause")
    assert asked(cluster(make_node("n1"), used, *classes), new, 1).create.priority_class == "pause"


def test_a_capacity_buffer_names_the_workload() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    deployment = Made("apps/v1", "Deployment", "web", "shop").spec(replicas=1, template=template)
    found = asked(cluster(make_node("n1")), deployment, 3)
    assert found.capacity_buffer is not None
    assert found.capacity_buffer["metadata"] == {"name": "web", "namespace": "shop"}
    assert found.capacity_buffer["spec"] == {
        "scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"},
        "replicas": 3,
    }
    assert asked(cluster(make_node("n1")), make_pod("bare"), 3).capacity_buffer is None


@pytest.mark.parametrize(
    ("preempted", "shown"),
    [
        (0, ({"placeholders": 60}, "")),
        (60, ({"placeholders": 60}, "")),
        (63, ({}, " (60 Pods, some recreated and preempted again)")),
    ],
)
def test_placeholder_pods_that_are_preempted_again_have_no_total(
    preempted: int, shown: tuple[dict[str, int | None], str]
) -> None:
    assert total_of_placeholders(60, preempted) == shown
