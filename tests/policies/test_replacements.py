"""Replacements whose outcome is certain are counted as by a simulation of the whole scheduling queue."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
from forewarn.policies.kubernetes.scheduling.plugins.pod_topology_spread import PodTopologySpread
from forewarn.policies.kubernetes.scheduling.recurring_cycle import RecurringCycle
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import Cycle
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.evaluation.evaluator import impact_of
from forewarn.policies.prediction.forecast import forecast, rehearsal
from forewarn.policies.prediction.forecast.forecast import Forecast
from forewarn.policies.prediction.forecast.impact import Cascade
from tests.builders import Made, cluster, make_node, make_pod
from tests.cases import cases
from tests.policies.rollouts import pdbs, with_deployments
from tests.policies.test_cascade import controlled, is_settled, workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.prediction.forecast.impact import Impact

HOST = "kubernetes.io/hostname"
TERM = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "w"}}}


def constrained(spec: dict[str, Any], selector: dict[str, Any], dice: Random) -> dict[str, Any]:
    """The spec of Pods that avoid each other's nodes, in one of two ways."""
    if dice.random() < 0.5:
        even = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        return {**spec, "topologySpreadConstraints": [even]}
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, "labelSelector": selector}]}
    return {**spec, "affinity": {"podAntiAffinity": apart}}


def random_review(seed: int) -> tuple[list[Made], Made]:
    """A nearly full cluster with workloads of low priority, and a workload whose Pods preempt them."""
    dice = Random(seed)
    free = {f"n{number}": 8 for number in range(dice.randint(2, 6))}
    made: list[Made] = [make_node(name).labels(**{HOST: name}) for name in free]
    small = [f"x{number}" for number in range(dice.choice((0, 2, 5, 9)))]
    made += [make_node(name).has(cpu=dice.choice(("1", "1500m"))).labels(**{HOST: name}) for name in small]
    started = 0
    for number in range(dice.randint(2, 9)):
        name, kind, halves = (
            f"w{number}",
            dice.choice(("ReplicaSet", "ReplicaSet", "Job")),
            dice.choice((1, 1, 2, 3, 4)),
        )
        priority, pods = dice.choice((0, 0, 0, 10)), 0
        spec = make_pod("").request(cpu=f"{halves * 500}m").priority(priority).obj["spec"]
        if dice.random() < 0.3:
            selector = {"matchLabels": {"app": name}} if dice.random() < 0.8 else {}
            spec = constrained(spec, selector, dice)
        for place in range(dice.randint(1, 4)):
            if nodes := [node for node, halves_free in free.items() if halves_free >= halves]:
                node, pods, started = dice.choice(nodes), pods + 1, started + 1
                free[node] -= halves
                pod = make_pod(f"{name}-{place}").labels(app=name).spec(**spec)
                pod = controlled(pod, kind, name).on(node, started=started)
                made.append(pod.status(conditions=[{"type": "Ready", "status": "True"}]))
        if pods:
            made.append(workload(kind, name, pods + (dice.random() < 0.05), spec))
            if kind == "Job" and dice.random() < 0.5:
                made[-1].spec(backoffLimit=dice.choice((0, 1, 3)))
    if dice.random() < 0.2:
        used = {"pods": str(dice.randint(15, 30))}
        made.append(
            Made("v1", "ResourceQuota", "q", "default").spec(hard={"pods": "30"}).status(hard={"pods": "30"}, used=used)
        )
    if dice.random() < 0.2:
        made.append(make_pod("waits").priority(dice.choice((5, 200))).request(cpu=dice.choice(("1", "4"))))
        made[-1].spec(preemptionPolicy="Never")
    made = with_deployments(made) if dice.random() < 0.7 else made
    kind, namespace = dice.choice(("Deployment", "ReplicaSet", "StatefulSet", "Job")), dice.choice(("default", "other"))
    spec = make_pod("").request(cpu=f"{dice.choice((4, 4, 5, 6, 8)) * 500}m").priority(100).obj["spec"]
    new = Made("batch/v1" if kind == "Job" else "apps/v1", kind, "new", namespace)
    new.spec(template={"metadata": {"labels": {"app": "new"}}, "spec": spec})
    if kind == "Job":
        new.spec(parallelism=dice.randint(1, 5))
    else:
        new.spec(replicas=dice.randint(1, 5), selector={"matchLabels": {"app": "new"}}, podManagementPolicy="Parallel")
    return [*made, *(pdbs(made, dice) if dice.random() < 0.3 else ())], new


def counts(impact: Impact | None) -> dict[str, object]:
    """All numbers of an impact, and whether chance decides it."""
    assert impact is not None
    victims = {victim.identity for prediction in impact.preempting for victim in prediction.victims}
    return {
        "outcomes": {name: number for name, number in impact.outcomes.items() if number},
        "victims": len(victims),
        "pdbs": sum(prediction.num_pdb_violations for prediction in impact.preempting)
        + impact.pdb_violations_in_cascade,
        "by chance": bool(impact.by_chance),
        "cascade": impact.cascade,
    }


def followed(made: Sequence[Made], new: Made) -> Impact | None:
    """The impact by a simulation."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(forecast, "pending_replacements", lambda *_: None)
        return impact_of(ReviewedObject(new.obj), cluster(*made), Config())


def without_simulation(made: Sequence[Made], new: Made) -> Impact | None:
    """The impact; None if it needs a simulation."""
    simulations = list[object]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Forecast, "_simulated_in_time", lambda *_: simulations.append(1))
        impact = impact_of(ReviewedObject(new.obj), cluster(*made), Config())
    return None if simulations else impact


PAUSE = {"name": "c", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": {"cpu": "1"}}}
"""The container of a placeholder Pod, whose replacements are in no counter."""


def test_certain_replacements_are_those_of_a_simulation() -> None:
    compared = Counter[bool]()
    for seed in range(cases(200)):
        made, new = random_review(seed)
        impact = without_simulation(made, new)
        if impact is None or impact.cascade is None or not impact.cascade.replaced or not is_settled(made):
            continue
        compared[impact.cascade.pending > 0] += 1
        assert counts(impact) == counts(followed(made, new)), seed
    assert min(compared[True], compared[False]) >= 3, compared


def test_spread_over_nodes_needs_no_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as some nodes have no such Pod, the constraint limits each node by itself."""
    found: dict[int, tuple[list[Made], Made, Impact]] = {}
    for seed in range(cases(120)):
        made, new = random_review(seed)
        made += [make_node(f"full{number}").has(cpu="100m").labels(**{HOST: f"full{number}"}) for number in range(30)]
        even = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
        template = new.obj["spec"]["template"]["spec"]
        template["topologySpreadConstraints"] = [{**even, "labelSelector": {"matchLabels": {"app": "new"}}}]
        impact = without_simulation(made, new)
        if impact is not None and len(impact.preempting) > 1 and is_settled(made):
            found[seed] = made, new, impact
    monkeypatch.setattr(PodTopologySpread, "keeps_zero", lambda *_: False)
    for seed, (made, new, impact) in found.items():
        assert without_simulation(made, new) is None
        assert counts(impact) == counts(followed(made, new)), seed
    assert len(found) >= 3


def test_rolled_out_deployments_are_those_of_a_full_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    found, victims = [], 0
    for seed in range(cases(60)):
        impact = followed(*random_review(seed))
        found.append(counts(impact))
        victims += impact.preempted if impact is not None else 0
    monkeypatch.setattr(rehearsal, "is_rolled_out", lambda *_: False)
    for seed, partly in enumerate(found):
        assert partly == counts(followed(*random_review(seed))), seed
    assert victims > cases(60)


def test_simulations_of_new_pods_compute_no_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    for cycle in (Cycle, RecurringCycle):
        monkeypatch.setattr(cycle, "unhelped", lambda _: pytest.fail("computes a text"))
    impacts = [followed(*random_review(seed)) for seed in range(8)]
    assert any(impact and impact.cascade and impact.cascade.pending for impact in impacts)


@pytest.mark.parametrize(
    ("free", "spec", "cascade"),
    [
        (2, {}, Cascade(replaced=2)),
        (1, {}, None),  # which of the two fits depends on the order
        (0, {}, Cascade(replaced=2, pending=2)),
        (0, {"priority": -1, "containers": [PAUSE]}, Cascade()),  # placeholder Pods
        (0, {"priority": 1}, None),  # replacements preempt the Pod of another workload
        (2, {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}, None),
    ],
)
def test_only_replacements_whose_outcome_depends_on_the_order_are_simulated(
    free: int, spec: dict[str, Any], cascade: Cascade | None
) -> None:
    """`free`: nodes with room for one replacement."""
    made: list[Made] = [make_node("n").has(cpu="2"), *(make_node(f"x{place}").has(cpu="1") for place in range(free))]
    template = make_pod("").request(cpu="1").spec(**spec).labels(app="w")
    made.append(workload("ReplicaSet", "w", 2, template.obj["spec"]))
    for place in range(2):
        victim = make_pod(f"w-{place}").request(cpu="1").spec(**spec).labels(app="w")
        made.append(controlled(victim, "ReplicaSet", "w").on("n", started=place + 1))
    if spec.get("priority"):
        made += [make_node("y").has(cpu="1"), make_pod("low").request(cpu="1").on("y")]
    new = make_pod("new").priority(9).request(cpu="2")
    impact = without_simulation(made, new)
    assert (impact and impact.cascade) == cascade


@pytest.mark.parametrize(("cpu", "cascade"), [("5", Cascade(replaced=2)), ("4", None)])
def test_replacements_that_a_quota_admits_beside_new_pods_need_no_simulation(cpu: str, cascade: Cascade | None) -> None:
    """`cpu`: limit of the quota. Replacements request more than the victims."""
    made: list[Made] = [make_node("n").has(cpu="2"), make_node("x").has(cpu="2"), make_node("y").has(cpu="2")]
    made.append(workload("ReplicaSet", "w", 2, make_pod("").request(cpu="1500m").obj["spec"]))
    made += [controlled(make_pod(f"w-{at}").request(cpu="1"), "ReplicaSet", "w").on("n", started=at) for at in (1, 2)]
    made += [make_pod(f"z-{node}").request(cpu="500m").priority(9).on(node) for node in ("x", "y")]
    quota = Made("v1", "ResourceQuota", "q", "default").spec(hard={"requests.cpu": cpu})
    made.append(quota.status(hard={"requests.cpu": cpu}, used={"requests.cpu": "2"}))
    impact = without_simulation(made, make_pod("new").priority(9).request(cpu="2"))
    assert (impact and impact.cascade) == cascade


@pytest.mark.parametrize(("cpu", "cascade"), [("4", Cascade(replaced=3)), ("3", None)])
def test_replacements_that_fit_in_the_worst_order_need_no_simulation(cpu: str, cascade: Cascade | None) -> None:
    """`cpu`: of the only node that has room for the large replacement, and that suits the small ones best."""
    made: list[Made] = [make_node("n").has(cpu="4"), make_node("best").has(cpu=cpu)]
    made += [make_node(name).has(cpu="1") for name in ("x", "y")]
    for place, (name, request) in enumerate({"large": "2", "small": "1", "tiny": "1"}.items(), 1):
        made.append(workload("ReplicaSet", name, 1, make_pod("").request(cpu=request).obj["spec"]))
        victim = make_pod(f"{name}-0").request(cpu=request)
        made.append(controlled(victim, "ReplicaSet", name).on("n", started=place))
    new = make_pod("new").priority(9).request(cpu="4")
    new.spec(nodeSelector={HOST: "n"})
    made[0].labels(**{HOST: "n"})
    impact = without_simulation(made, new)
    assert (impact and impact.cascade) == cascade
    assert impact is None or counts(impact) == counts(followed(made, new))
