"""Many pods of one workload at once: the same as one after the other, each predicted after those before it."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from forewarn import policies
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
from forewarn.policies.kubernetes.scheduling.bulk import capacity_for, on_each_node
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.snapshot import charged_pdbs
from forewarn.policies.prediction.forecast.forecast import Forecast
from forewarn.policies.prediction.forecast.impact import Impact
from tests.builders import Made, cluster, make_budget, make_node, make_pod
from tests.cases import cases
from tests.policies.scheduling.random_changes import objects_of
from tests.policies.scheduling.random_clusters import random_case

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

SEED = os.environ.get("FOREWARN_SEED", "1")
SELF = {"matchLabels": {"app": "w"}}


def one_by_one(forecast: Forecast, monkeypatch: pytest.MonkeyPatch) -> Forecast:
    monkeypatch.setattr(forecast, "_common_prediction", lambda *_: None)
    return forecast


def forecast_of(state: ClusterSnapshot) -> Forecast:
    return Forecast(state, POD_TEMPLATE_PATHS, lambda: False)


def workload(kind: str, template: Any, replicas: int) -> ReviewedObject:
    labels = {"app": "w", **template["metadata"].get("labels", {})}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": template["spec"]}}
    made = Made("apps/v1", kind, "w", template["metadata"].get("namespace", "default")).spec(**spec)
    return ReviewedObject(object=made.obj if kind == "DaemonSet" else made.spec(replicas=replicas).obj)


def told(impact: Impact | None) -> Any:
    """What an impact says, whatever was worked out at once: of pods that fit only how many, of others all."""
    if impact is None:
        return None
    others = [p for p in impact.predictions if p.outcome != "fits"]
    return {
        "fit": impact.fitting + len(impact.predictions) - len(others),
        "others": [
            (p.outcome, p.nominated_node, p.best_nodes, [v.key for v in p.victims], p.num_pdb_violations)
            for p in others
        ],
        "pending": impact.pending,
        "dict": {k: v for k, v in impact.to_dict().items() if k != "predicted"},
    }


def taken(forecast: Forecast) -> Any:
    """What is taken of every node afterwards."""
    return forecast._state.snapshot.columns.requested.tolist()


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_random_clusters(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    for number in range(cases(65)):
        name = f"many {SEED}.{number}"
        case, replicas = random_case(name), random.Random(name).randint(2, 9)
        cache = policies.Cache()
        for obj in objects_of(case):
            cache.add(obj)
        state = cache.snapshot()
        if number % 2:
            for container in case["pod"]["spec"]["containers"]:  # else few fit: the pods are made to preempt
                container["resources"] = {"requests": {"cpu": "100m", "memory": "16Mi"}}
        subject = workload(kind, case["pod"], replicas)
        at_once, in_turn = forecast_of(state), one_by_one(forecast_of(state), monkeypatch)
        have, want = at_once.predict_impact(subject), in_turn.predict_impact(subject)
        assert told(have) == told(want), name
        if have is not None and have.rest != "pending":
            assert taken(at_once) == taken(in_turn), name
        if have is not None:
            seen["at once" if have.fitting else "in turn"] += 1
            seen["preempting"] += bool(have.preempting and have.fitting)
    assert seen["at once"] > cases(15), seen
    assert seen["preempting"] > cases(2), seen


def test_what_an_earlier_object_brings_may_have_to_go_for_a_later_one() -> None:
    """A daemon takes the place of a replica that the same apply brings, and then a third object is asked about."""
    forecast = forecast_of(cluster(make_node("n1").has(cpu="2")))
    small, large = (make_pod("p").request(cpu="2").priority(priority).obj for priority in (1, 5))
    impacts = [
        forecast.predict_impact(workload("Deployment", small, 2)),
        forecast.predict_impact(workload("DaemonSet", large, 0)),
        forecast.predict_impact(workload("Deployment", small, 1)),
    ]
    assert [(i.fitting, len(i.preempting), i.pending) for i in impacts if i] == [(1, 0, 1), (0, 1, 0), (0, 0, 1)]


def test_places_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made, snapshot_after = list[str](), Prediction.snapshot_after

    def counted(prediction: Prediction) -> Snapshot:
        made.append(prediction.pod.name)
        return snapshot_after(prediction)

    monkeypatch.setattr(Prediction, "snapshot_after", counted)
    forecast = forecast_of(cluster(make_node("n1"), make_node("n2")))
    for _ in range(3):
        forecast.predict_impact(workload("Deployment", make_pod("p").obj, 5))
    assert len(made) == 10


SPECS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "alone": lambda _: {},
    "apart by one key": lambda rng: apart(rng.choice(("zone", "host"))),
    "apart by two": lambda _: apart("zone", "host"),
    "spread": lambda rng: spread(
        whenUnsatisfiable="DoNotSchedule",
        topologyKey=rng.choice(("zone", "zone", "host")),
        maxSkew=rng.randint(1, 3),
        minDomains=rng.randint(1, 4),
        nodeTaintsPolicy=rng.choice(("Honor", "Ignore")),
        labelSelector=rng.choice((SELF, SELF, SELF, {})),
    ),
    "spread over zones and hosts": lambda rng: spread_over(
        ("zone", rng.randint(1, 2)), ("host", rng.choice((1, 1, 1, 2, 3)))
    ),
    "spread over regions, zones and hosts": lambda rng: spread_over(
        ("region", rng.randint(1, 3)), ("zone", rng.randint(1, 3)), ("host", rng.randint(1, 2))
    ),
    "apart by zone, spread over hosts": lambda _: apart("zone") | spread_over(("host", 1)),
    "apart by zone, spread over regions": lambda rng: apart("zone") | spread_over(("region", rng.randint(1, 2))),
    "apart by host, spread over zones": lambda rng: apart("host") | spread_over(("zone", rng.randint(1, 2))),
    "near pods of one key": lambda rng: near(rng, "zone"),
    "near pods of two": lambda rng: near(rng, "zone", "host"),
    "near and spread": lambda rng: {
        **near(rng, "zone"),
        **spread(topologyKey="host", whenUnsatisfiable="DoNotSchedule"),
    },
}


@pytest.mark.parametrize("kind", SPECS)
def test_as_many_fit_as_find_a_place_one_after_the_other_in_whatever_order(kind: str) -> None:
    """What counting at once rests on: a pod shuts no place elsewhere, or, where they are spread, only for a while.

    Each time any of the nodes that fit takes the next pod, not the best. The order that is named is one of them.
    """
    seen: Counter[object] = Counter()
    for number in range(cases(80)):
        rng = random.Random(f"room {SEED}.{kind}.{number}")
        state, pod = random_world(rng, SPECS[kind](rng))
        found = capacity_for(state.scheduling, policies.predict(state, pod).pod)
        if found is not None:
            by_node = placed(state, pod, rng)
            assert found.total == sum(by_node.values()), (number, pod["spec"])
            assert found.by_node is None or found.by_node == by_node, (number, pod["spec"])
            assert placed(state, pod, rng, found.example_order()) == found.example_order(), (number, pod["spec"])
        seen["unknown" if found is None else bool(found.total)] += 1
    assert seen[True] > 1, seen


@pytest.mark.parametrize("kind", [kind for kind in SPECS if not kind.startswith("near")])
def test_as_many_preempt_as_fit_without_those_that_they_may_push_out(kind: str) -> None:
    """Each time any node takes the next pod where it fits, or else, where preemption helps, in the place of others."""
    seen: Counter[object] = Counter()
    for number in range(cases(80)):
        rng = random.Random(f"pushed {SEED}.{kind}.{number}")
        state, pod = random_world(rng, SPECS[kind](rng), full=True)
        pod["spec"]["priority"] = 5
        found = capacity_for(state.scheduling, policies.predict(state, pod).pod, preempting=True)
        if found is not None:
            by_node = placed(state, pod, rng, preempting=True)
            assert found.total == sum(by_node.values()), (number, pod["spec"])
            assert found.by_node is None or found.by_node == by_node, (number, pod["spec"])
        seen["unknown" if found is None else "more" if found.total > sum(placed(state, pod, rng).values()) else ""] += 1
    assert seen["more"] > 1, seen


def test_candidates_that_are_worked_out_ahead_are_those_of_one_node_after_the_other() -> None:
    """As long as no budget that earlier evictions charged decides: then they are worked out anew."""
    seen: Counter[int] = Counter()
    for number in range(20):
        rng = random.Random(f"ahead {SEED}.{number}")
        names = [f"n{place}" for place in range(rng.randint(30, 45))]
        old = [
            make_pod(f"{name}-{part}")
            .labels(app=rng.choice("abc"))
            .request(cpu="2")
            .on(name, started=rng.randint(0, 9))
            for name in names
            for part in range(2)
        ]
        pdbs = [make_budget(app, rng.randint(0, 20), app=app) for app in "ab"]
        state = cluster(*(make_node(name) for name in names), *old, *pdbs)
        pod = policies.predict(state, make_pod("new").priority(9).request(cpu="2").obj).pod
        ahead = on_each_node(state.scheduling, pod, names)
        assert ahead is not None
        snapshot = state.scheduling
        for node, have in ahead.others:
            alone = on_each_node(snapshot, pod, [node])
            assert alone is not None
            ((_, want),) = alone.others
            assert have == want, (number, node)
            assert want is not None
            seen[want.num_pdb_violations] += 1
            snapshot = snapshot.with_pdbs(charged_pdbs(snapshot.pdbs, want.victims))
    assert min(seen[0], seen[1]) > 20, seen


def random_world(
    rng: random.Random, spec: dict[str, Any], *, full: bool = False
) -> tuple[ClusterSnapshot, dict[str, Any]]:
    """Up to six nodes with pods, some like the one that is asked about. `full`: nodes are, mostly of priority 0."""
    nodes = [random_node(rng, place) for place in range(rng.randint(1, 6))]
    there = [
        make_pod(f"old{place}")
        .labels(app=rng.choice("wxxxxxxxx" if full else "wx"))
        .priority(rng.choice((0, 0, 0, 5)) if full else 0)
        .request(cpu=str(int(full)))
        .on(rng.choice(nodes).obj["metadata"]["name"])
        for place in range(rng.randint(0, 18 if full else 5))
    ]
    return cluster(*nodes, *there), make_pod("p").labels(app="w").request(cpu="1").spec(**spec).obj


def random_node(rng: random.Random, place: int) -> Made:
    node = make_node(f"n{place}").has(cpu=str(rng.randint(0, 4)), pods="9").label("host", f"n{place}")
    if rng.random() < 0.9:
        zone = rng.choice("abc")
        node.label("zone", zone)
        if rng.random() < 0.9:
            node.label("region", "east" if zone == "a" else "west")
    return node.taint("no") if rng.random() < 0.1 else node


def placed(
    state: ClusterSnapshot,
    pod: Any,
    rng: random.Random,
    most: dict[str, int] | None = None,
    *,
    preempting: bool = False,
) -> dict[str, int]:
    """How many like it each node has when they are bound one after the other until one does not fit.

    `most`: how many each node may get; `preempting`: where none fits, pods of lower rank leave one that has enough of
    them.
    """
    one, count = policies.predict(state, pod), Counter[str]()
    while True:
        names = [name for name in one.feasible if most is None or count[name] < most.get(name, 0)]
        gone = {} if names or not preempting else {c.node_name: c.victims for c in one.candidates}
        if not names and not gone:
            return dict(count)
        name = rng.choice(names or list(gone))
        count[name] += 1
        where = one.snapshot.node_infos[one.snapshot.rows[name]].node
        identity = f"p{count.total()}"
        bound = replace(one.pod, name=identity, uid=identity).bound_to(where.name, where.labels)
        one = Prediction(one.snapshot.with_pods([bound], gone.get(name, ())), one.pod)


def spread(**more: Any) -> dict[str, Any]:
    return {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "labelSelector": SELF, **more}]}


def spread_over(*keys: tuple[str, int]) -> dict[str, Any]:
    """`keys`: each with its skew."""
    made = [spread(whenUnsatisfiable="DoNotSchedule", topologyKey=key, maxSkew=skew) for key, skew in keys]
    return {"topologySpreadConstraints": [each["topologySpreadConstraints"][0] for each in made]}


def near(rng: random.Random, *keys: str) -> dict[str, Any]:
    """Near pods of its own label, or of another."""
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": rng.choice("wwx")}}} for key in keys]
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def apart(*keys: str) -> dict[str, Any]:
    terms = [{"topologyKey": key, "labelSelector": SELF} for key in keys]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(
    ("spec", "total"),
    [
        ({}, 3 * 4 * 4),
        ({"containers": [{"name": "c", "image": "i"}]}, 3 * 4 * 10),
        ({"hostNetwork": True, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}, 12),
        (apart("kubernetes.io/hostname"), 12),
        (apart("zone"), 3),
        (apart("zone", "kubernetes.io/hostname"), 3),
        (apart("zone", "rack"), None),
        (spread(whenUnsatisfiable="ScheduleAnyway"), 48),
        (spread(whenUnsatisfiable="DoNotSchedule"), 48),
        (spread(whenUnsatisfiable="DoNotSchedule", minDomains=4), 3),
        (spread(whenUnsatisfiable="DoNotSchedule", topologyKey="kubernetes.io/hostname"), 48),
        (apart("rack") | spread(whenUnsatisfiable="DoNotSchedule"), None),
        (spread_over(("zone", 1), ("kubernetes.io/hostname", 1)), 48),
        (spread_over(("zone", 1), ("kubernetes.io/hostname", 2)), None),
        (spread_over(("zone", 1), ("rack", 1)), None),
        (apart("zone") | spread_over(("kubernetes.io/hostname", 1)), None),
        (apart("kubernetes.io/hostname") | spread(whenUnsatisfiable="DoNotSchedule"), 12),
        (spread(whenUnsatisfiable="DoNotSchedule", labelSelector={"matchLabels": {"app": "other"}}), 48),
    ],
)
def test_how_many_fit_on_equal_nodes(spec: dict[str, Any], total: int | None) -> None:
    """Three zones of four nodes that take four of the pods each."""
    nodes = [
        make_node(f"n{number}").has(cpu="4", pods="10").label("zone", f"z{number % 3}").label("rack", f"r{number % 4}")
        for number in range(12)
    ]
    for node in nodes:
        node.label("kubernetes.io/hostname", node.obj["metadata"]["name"])
    pod = make_pod("p").labels(app="w").request(cpu="1").spec(**spec).obj
    state = cluster(*nodes)
    found = capacity_for(state.scheduling, policies.predict(state, pod).pod)
    assert (found.total if found else None) == total


@pytest.mark.parametrize(("skew", "total"), [(1, 2 + 3 + 3), (2, 2 + 4 + 4), (5, 2 + 7 + 7), (100, 2 + 8 + 20)])
def test_the_smallest_zone_says_how_many_fit_in_the_others(skew: int, total: int) -> None:
    nodes = [make_node(f"z{size}").has(cpu=str(size), pods="99").label("zone", f"z{size}") for size in (2, 8, 20)]
    constraint = spread(whenUnsatisfiable="DoNotSchedule", maxSkew=skew)
    pod = make_pod("p").labels(app="w").request(cpu="1").spec(**constraint).obj
    state = cluster(*nodes)
    found = capacity_for(state.scheduling, policies.predict(state, pod).pod)
    assert found is not None
    assert found.total == total
