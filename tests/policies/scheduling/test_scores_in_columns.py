"""What nodes are worth, worked out for all of them at once: the same as plugin by plugin and node by node."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from forewarn import policies
from forewarn.policies.kubernetes.scheduling.framework import CycleState
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import Cycle
from tests.builders import Made, MadePod, make_namespace, make_node, make_pod
from tests.cases import cases
from tests.policies.scheduling.consistency import check
from tests.policies.scheduling.random_pods import NAMESPACES, add_namespaces

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot

SEED = os.environ.get("FOREWARN_SEED", "1")
HOST: Final = "kubernetes.io/hostname"
KEYS: Final = (HOST, "zone", "zone", "rack", "nowhere")
TAINTS: Final = (("soft", "PreferNoSchedule"), ("other", "PreferNoSchedule"), ("hard", "NoSchedule"))


def selector(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.15:
        return rng.choice(({}, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}))
    return {"matchLabels": {"app": rng.choice("aab")}}


def term(rng: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"topologyKey": rng.choice(KEYS), "labelSelector": selector(rng)}
    return add_namespaces(made, rng)


def weighted(rng: random.Random) -> list[dict[str, Any]]:
    return [{"weight": rng.choice((1, 7, 30, 100)), "podAffinityTerm": term(rng)} for _ in range(rng.choice((1, 1, 2)))]


def some_node(rng: random.Random, name: str) -> Made:
    node = make_node(name).has(cpu=str(rng.randint(20, 30)))
    if rng.random() < 0.85:
        node.label("zone", rng.choice("xyz"))
    if rng.random() < 0.6:
        node.label("rack", rng.choice("12"))
    for key, effect in TAINTS:
        if rng.random() < 0.2:
            node.taint(key, effect=effect)
    return node


def with_terms(rng: random.Random, made: MadePod) -> MadePod:
    """Of a pod that is there: what it has for and against others."""
    if rng.random() < 0.3:
        made.affinity(rng.choice(("podAffinity", "podAntiAffinity")), *weighted(rng), preferred=True)
    if rng.random() < 0.2:
        made.affinity("podAffinity", term(rng))
    return made


def some_pod(rng: random.Random, name: str, nodes: list[str]) -> MadePod:
    made = make_pod(name, rng.choice(("default", "default", *NAMESPACES))).labels(app=rng.choice("abc"))
    made.request(cpu=rng.choice(("100m", "500m"))).on(rng.choice(nodes))
    return made.terminating() if rng.random() < 0.15 else made


def spread(rng: random.Random, when: str) -> dict[str, Any]:
    constraint: dict[str, Any] = {
        "maxSkew": rng.randint(1, 4),
        "topologyKey": rng.choice(KEYS[:4]),
        "whenUnsatisfiable": when,
    }
    if rng.random() < 0.3:
        constraint["matchLabelKeys"] = ["app"]
    if rng.random() < 0.3:
        constraint["nodeTaintsPolicy"] = "Honor"
    if rng.random() < 0.3:
        constraint["nodeAffinityPolicy"] = "Ignore"
    return {**constraint, "labelSelector": selector(rng)}


def spread_softly(rng: random.Random, asked: MadePod) -> None:
    constraints = [spread(rng, "ScheduleAnyway") for _ in range(rng.choice((1, 2, 3)))]
    if rng.random() < 0.2:
        asked.spec(nodeSelector={"zone": rng.choice("xyz")})
    asked.spec(topologySpreadConstraints=constraints)


def spread_strictly(rng: random.Random, asked: MadePod) -> None:
    constraint = {**spread(rng, "DoNotSchedule"), "maxSkew": 9}
    soft = [spread(rng, "ScheduleAnyway")] if rng.random() < 0.5 else []
    asked.spec(topologySpreadConstraints=[constraint, *soft])


def prefer_nodes(rng: random.Random, asked: MadePod) -> None:
    values = {"zone": rng.sample("xyz", 2), "rack": [rng.choice("12")]}
    expressions = [{"key": key, "operator": "In", "values": these} for key, these in values.items()]
    terms = [
        {"weight": rng.choice((1, 30, 100)), "preference": {"matchExpressions": [expression]}}
        for expression in rng.sample(expressions, rng.randint(1, 2))
    ]
    asked.affinity("nodeAffinity", *terms, preferred=True)


def prefer_pods(rng: random.Random, asked: MadePod) -> None:
    for kind in rng.sample(("podAffinity", "podAntiAffinity"), rng.randint(1, 2)):
        asked.affinity(kind, *weighted(rng), preferred=True)


def nothing(rng: random.Random, asked: MadePod) -> None:
    """Only what others have for and against it, and taints."""
    if rng.random() < 0.5:
        asked.spec(tolerations=[{"key": "soft", "operator": "Exists", "effect": rng.choice(("", "PreferNoSchedule"))}])


def everything(rng: random.Random, asked: MadePod) -> None:
    for prefer in (spread_softly, prefer_nodes, prefer_pods, nothing):
        if rng.random() < 0.7:
            prefer(rng, asked)


KINDS: Final[dict[str, Callable[[random.Random, MadePod], None]]] = {
    "spread softly": spread_softly,
    "spread strictly": spread_strictly,
    "prefers nodes": prefer_nodes,
    "prefers pods": prefer_pods,
    "nothing of its own": nothing,
    "everything": everything,
}


def some_question(rng: random.Random, kind: str) -> MadePod:
    asked = make_pod("new", rng.choice(("default", "default", "prod"))).labels(app=rng.choice("aab"))
    KINDS[kind](rng, asked.request(cpu="100m"))
    return asked


def compare(state: ClusterSnapshot, asked: MadePod, rng: random.Random, where: object) -> set[str]:
    """Which plugins told nodes apart. All feasible nodes, and some of them: what is found first is scored."""
    prediction = policies.predict(state, asked.obj, reasons=True)
    snapshot, told = state.scheduling, set[str]()
    with snapshot.derived.locked():
        cycle = Cycle(snapshot, prediction.pod)
        rows = np.flatnonzero(cycle.feasible)
        names = [snapshot.node_infos[row].name for row in rows.tolist()]
        assert names == prediction.feasible, where
        some = rng.sample(range(len(rows)), min(len(rows), 3))
        for places in (list(range(len(rows))), some):
            if len(places) < 2:
                continue
            infos = [snapshot.node_infos[rows[place]] for place in places]
            theirs = prediction.framework.prioritize_nodes(CycleState(), prediction.pod, infos)
            assert isinstance(theirs, dict)
            totals = [theirs[info.name]["total"] for info in infos]
            mine = cycle.scores(rows[places])
            assert (mine - mine[0]).tolist() == [total - totals[0] for total in totals], where
            for plugin in theirs[infos[0].name]:
                if len({row.get(plugin) for row in theirs.values()}) > 1:
                    told.add(plugin)
    return told


@pytest.mark.parametrize("kind", KINDS)
def test_it_comes_to_the_same_as_plugin_by_plugin(kind: str) -> None:
    told: Counter[str] = Counter()
    for number in range(cases(120)):
        rng = random.Random(f"scores {SEED}.{kind}.{number}")
        cache = policies.Cache()
        nodes = [f"n{place}" for place in range(rng.randint(3, 8))]
        for made in (
            *(some_node(rng, name) for name in nodes),
            *(with_terms(rng, some_pod(rng, f"p{place}", nodes)) for place in range(rng.choice((2, 8, 20)))),
            *(make_namespace(name, **labels) for name, labels in NAMESPACES.items()),
        ):
            cache.add(made.obj)
        told.update(compare(cache.snapshot(), some_question(rng, kind), rng, (kind, number)))
    assert told["InterPodAffinity"] > cases(20), told
    assert told["TaintToleration"] > cases(40), told
    assert "spread" not in kind or told["PodTopologySpread"] > cases(20), told
    assert "nodes" not in kind or told["NodeAffinity"] > cases(40), told


def test_what_is_kept_is_right_while_pods_nodes_and_namespaces_change() -> None:
    rng = random.Random(f"changing scores {SEED}")
    cache = policies.Cache()
    for name, labels in NAMESPACES.items():
        cache.add(make_namespace(name, **labels).obj)
    nodes = [f"n{place}" for place in range(7)]
    for name in nodes:
        cache.add(some_node(rng, name).obj)
    questions = [some_question(rng, kind) for kind in KINDS for _ in range(3)]
    told: Counter[str] = Counter()
    for number in range(120):
        chance, made = rng.random(), with_terms(rng, some_pod(rng, f"p{rng.randrange(20)}", nodes))
        if chance < 0.6:
            cache.add(made.obj)
        elif chance < 0.8:
            cache.remove(made.obj)
        elif chance < 0.95:
            node = some_node(rng, rng.choice(nodes)).obj
            (cache.remove if chance < 0.84 else cache.add)(node)
        else:
            cache.add(make_namespace(rng.choice(("prod", "dev")), team=rng.choice("ab")).obj)
        state = cache.snapshot()
        for asked in rng.sample(questions, 3):
            told.update(compare(state, asked, rng, number))
        if number % 10 == 0:
            check(state.scheduling)
    assert min(told[plugin] for plugin in ("InterPodAffinity", "PodTopologySpread", "NodeAffinity")) > 5, told
