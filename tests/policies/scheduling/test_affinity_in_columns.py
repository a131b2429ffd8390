"""Required affinity to pods in columns: the nodes, victims and violations of every plugin on every node."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest

from forewarn import policies
from forewarn.policies.kubernetes.scheduling.bulk import capacity_for
from tests.builders import Made, MadePod, make_budget, make_namespace, make_node, make_pod
from tests.cases import cases
from tests.policies.scheduling.comparing import outcome_in_columns
from tests.policies.scheduling.consistency import check
from tests.policies.scheduling.profiles import args, cluster, config, point, semantics
from tests.policies.scheduling.random_pods import NAMESPACES, add_namespaces
from tests.policies.scheduling.test_fast_cycle import compare
from tests.policies.scheduling.test_vectorized import said, walked

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.releases.semantics import Semantics

SEED = os.environ.get("FOREWARN_SEED", "1")
HOST: Final = "kubernetes.io/hostname"
KEYS: Final = (HOST, "zone", "zone", "rack")
FEW: Final = args(DefaultPreemption={"minCandidateNodesAbsolute": 1, "minCandidateNodesPercentage": 40})
"""So that the number of nodes that preemption looks at decides whether all candidates are found."""
STATIC: Final = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity")
SEMANTICS: Final = {
    "the default order": semantics(config({"pluginConfig": FEW})),
    "affinity before resources": semantics(
        config({"pluginConfig": FEW, "plugins": {"filter": point(*STATIC, "InterPodAffinity", "NodeResourcesFit")}})
    ),
}


def term(rng: random.Random, app: str = "") -> dict[str, Any]:
    chosen = app or rng.choice("aab")
    made: dict[str, Any] = {"topologyKey": rng.choice(KEYS), "labelSelector": {"matchLabels": {"app": chosen}}}
    if rng.random() < 0.1:
        made["labelSelector"] = rng.choice(({}, {"matchExpressions": [{"key": "app", "operator": "Exists"}]}))
    return add_namespaces(made, rng)


def some_nodes(rng: random.Random) -> list[Made]:
    nodes: list[Made] = []
    for number in range(rng.randint(2, 6)):
        node = make_node(f"n{number}").has(cpu=str(rng.randint(1, 3)))
        if rng.random() < 0.85:
            node.label("zone", rng.choice("xyz"))
        if rng.random() < 0.6:
            node.label("rack", rng.choice("12"))
        if rng.random() < 0.1:
            node.taint("dedicated")
        nodes.append(node)
    return nodes


def some_pod(rng: random.Random, name: str, nodes: list[Made]) -> MadePod:
    """One that is there, or nominated."""
    made = make_pod(name, rng.choice(("default", "default", *NAMESPACES))).labels(app=rng.choice("abc"))
    made.priority(rng.choice((1, 1, 1, 50))).request(cpu=rng.choice(("500m", "1", "1500m")))
    where: str = rng.choice(nodes).obj["metadata"]["name"]
    if rng.random() < 0.1:
        made.affinity("podAntiAffinity", term(rng))
    if rng.random() < 0.15:
        return made.priority(rng.choice((1, 10, 50))).nominated(where)
    made.on(where, started=rng.randrange(50))
    return made.terminating(preempted=rng.random() < 0.7) if rng.random() < 0.25 else made


def question(rng: random.Random, meant: Semantics) -> tuple[ClusterSnapshot, MadePod]:
    nodes = some_nodes(rng)
    pods = [some_pod(rng, f"p{number}", nodes) for number in range(rng.choice((3, 6, 9, 12)))]
    namespaces = [make_namespace(name, **labels) for name, labels in NAMESPACES.items()]
    pdbs = [make_budget("b", 0, app="a")] if rng.random() < 0.6 else []
    asked = make_pod("new", rng.choice(("default", "default", "prod"))).labels(app=rng.choice("aab")).priority(10)
    asked.request(cpu=rng.choice(("200m", "700m", "1", "2")))
    own = asked.obj["metadata"]["labels"]["app"] if rng.random() < 0.6 else ""
    asked.affinity("podAffinity", *(term(rng, own) for _ in range(rng.choice((1, 1, 1, 2, 3)))))
    if rng.random() < 0.2:
        asked.affinity("podAntiAffinity", term(rng))
    if rng.random() < 0.25:
        asked.nominated(rng.choice(nodes).obj["metadata"]["name"])
    if rng.random() < 0.2:
        asked.port(80)
        pods[0].port(80)
    if rng.random() < 0.2:
        selector = {"matchLabels": {"app": "a"}}
        constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        asked.spec(topologySpreadConstraints=[{**constraint, "labelSelector": selector}])
    return cluster(meant, *nodes, *pods, *namespaces, *pdbs), asked


@pytest.mark.parametrize("order", SEMANTICS)
def test_it_comes_to_the_same_as_every_plugin_on_every_node(order: str) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(cases(660)):
        rng = random.Random(f"affinity {SEED}.{order}.{number}")
        state, asked = question(rng, SEMANTICS[order])
        prediction = policies.predict(state, asked.obj)
        answer = outcome_in_columns(state.scheduling, prediction.pod)
        if answer is None:
            outcomes["walked"] += 1
            continue
        one_by_one = walked(state, asked.obj)
        assert said(prediction) == said(one_by_one), (order, number)
        plain = not asked.container.get("ports") and "topologySpreadConstraints" not in asked.obj["spec"]
        if plain and order == "the default order":
            found = one_by_one.candidates
            assert answer.is_sampled == (len(found) > one_by_one.preemption.num_candidates > 0), (order, number)
        outcomes[prediction.outcome] += 1
        outcomes["with violations"] += bool(prediction.num_pdb_violations)
        outcomes["sampled"] += answer.is_sampled
        outcomes["nominated itself"] += bool(prediction.pod.nominated_node_name)
        outcomes["waits"] += not prediction.preemption.eligible and not prediction.fits
    assert outcomes["walked"] < cases(150), outcomes
    assert min(outcomes["fits"], outcomes["preempts"], outcomes["pending"]) > 40, outcomes
    assert min(outcomes["with violations"], outcomes["sampled"], outcomes["waits"]) > 0, outcomes
    assert outcomes["nominated itself"] > 20, outcomes


def test_what_is_kept_of_it_is_right_while_pods_nodes_and_namespaces_change() -> None:
    rng = random.Random(f"changing {SEED}")
    cache = policies.Cache()
    for name, labels in NAMESPACES.items():
        cache.add(make_namespace(name, **labels).obj)
    nodes = some_nodes(rng)
    for node in nodes:
        cache.add(node.obj)
    questions = [question(rng, SEMANTICS["the default order"])[1] for _ in range(4)]
    outcomes: Counter[str] = Counter()
    for number in range(cases(150)):
        chance, made = rng.random(), some_pod(rng, f"p{rng.randrange(15)}", nodes)
        if chance < 0.6:
            cache.add(made.obj)
        elif chance < 0.8:
            cache.remove(made.obj)
        elif chance < 0.95:
            node = rng.choice(nodes)
            cache.add(node.label("zone", rng.choice("xyzw")).obj)
        else:
            cache.add(make_namespace(rng.choice(("prod", "dev")), team=rng.choice("ab")).obj)
        state = cache.snapshot()
        for asked in questions:
            prediction = policies.predict(state, asked.obj)
            if outcome_in_columns(state.scheduling, prediction.pod) is not None:
                assert said(prediction) == said(walked(state, asked.obj)), number
                outcomes[prediction.outcome] += 1
        if number % 10 == 0:
            check(state.scheduling)
    assert outcomes["fits"] + outcomes["preempts"] + outcomes["pending"] > cases(250), outcomes


def test_it_says_who_rejects_a_pod_and_why_as_every_plugin_does() -> None:
    """Of pods that only resources and affinity keep away."""
    outcomes: Counter[str] = Counter()
    for number in range(150):
        rng = random.Random(f"rejected {SEED}.{number}")
        nodes = some_nodes(rng)
        cache = policies.Cache()
        pods = [some_pod(rng, f"p{place}", nodes) for place in range(rng.choice((3, 6, 9)))]
        for made in (*nodes, *pods):
            made.obj["spec"].pop("affinity", None)
            cache.add(made.obj)
        asked = make_pod("new").labels(app=rng.choice("ab")).priority(rng.choice((0, 10))).request(cpu="700m")
        asked.affinity("podAffinity", *(term(rng) for _ in range(rng.choice((1, 2)))))
        outcomes[compare(cache.snapshot(), asked.obj, number)] += 1
    assert outcomes["rejected"] > 50, outcomes
    assert not outcomes["not valid"], outcomes


NEAR: Final = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}


def near(name: str) -> MadePod:
    return make_pod(name).labels(app="a").priority(10).request(cpu="1").affinity("podAffinity", NEAR)


def test_the_last_pod_of_a_group_that_goes_makes_the_next_one_the_first() -> None:
    """Without the victim nobody matches any longer: the pod may be the first of its group there, and nowhere else."""
    nodes = [make_node(f"n{zone}").label("zone", zone).has(cpu="1") for zone in "xy"]
    pods = [make_pod("p").labels(app="a").request(cpu="1").on("nx"), make_pod("q").request(cpu="1").on("ny")]
    state = cluster(SEMANTICS["the default order"], *nodes, *pods)
    prediction = policies.predict(state, near("new").obj)
    assert outcome_in_columns(state.scheduling, prediction.pod) is not None
    assert (prediction.nominated_node, [victim.name for victim in prediction.victims]) == ("nx", ["p"])
    other = policies.predict(state, near("new").labels(app="b").obj)
    assert outcome_in_columns(state.scheduling, other.pod) is not None
    assert other.outcome == "pending"


def test_a_node_that_only_affinity_rejects_is_none_for_preemption() -> None:
    """Though its pods are of lower priority: the status says that nobody's going helps."""
    nodes = [make_node(f"n{zone}").label("zone", zone).has(cpu="1") for zone in "xy"]
    there = make_pod("p").labels(app="a").priority(50).request(cpu="1").on("nx")
    small = make_pod("q").request(cpu="100m").on("ny")
    state = cluster(SEMANTICS["the default order"], *nodes, there, small)
    asked = near("new").request(cpu="500m")
    prediction = policies.predict(state, asked.obj)
    assert outcome_in_columns(state.scheduling, prediction.pod) is not None
    assert prediction.outcome == "pending"
    assert said(prediction) == said(walked(state, asked.obj))


def test_a_node_that_nominated_pods_make_fit_for_affinity_and_then_refuse_is_one_for_preemption() -> None:
    """It is no candidate, but of how many nodes a share is tried depends on it: of four both, of two one."""
    full = [make_node(f"x{place}").label("zone", "x").has(cpu="1") for place in "12"]
    there = [make_pod(f"p{place}").labels(app="a").request(cpu="1").on(f"x{place}") for place in "12"]
    other = [make_node(name).label("zone", name).has(cpu="1") for name in "yz"]
    apart = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "b"}}}
    unnominated = [make_pod(f"to-{n}").labels(app="a").priority(50).affinity("podAntiAffinity", apart) for n in "yz"]
    nominated = [pod.nominated(name) for pod, name in zip(unnominated, "yz", strict=True)]
    half = args(DefaultPreemption={"minCandidateNodesAbsolute": 1, "minCandidateNodesPercentage": 50})
    state = cluster(semantics(config({"pluginConfig": half})), *full, *there, *other, *nominated)
    prediction = policies.predict(state, near("new").labels(app="b").obj)
    answer = outcome_in_columns(state.scheduling, prediction.pod)
    one_by_one = walked(state, near("new").labels(app="b").obj)
    assert [len(one_by_one.candidates), one_by_one.preemption.potential_nodes] == [2, 4]
    assert answer is not None
    assert not answer.is_sampled


def test_a_namespace_that_gets_a_label_is_selected_from_then_on() -> None:
    cache = policies.Cache()
    for made in (make_node("nx").label("zone", "x"), make_pod("p", "prod").labels(app="a").on("nx")):
        cache.add(made.obj)
    asked = make_pod("new").affinity("podAffinity", {**NEAR, "namespaceSelector": {"matchLabels": {"team": "a"}}})
    for team, outcome in (("b", "pending"), ("a", "fits"), ("b", "pending")):
        cache.add(make_namespace("prod", team=team).obj)
        state = cache.snapshot()
        prediction = policies.predict(state, asked.obj)
        assert outcome_in_columns(state.scheduling, prediction.pod) is not None
        assert prediction.outcome == outcome


def test_room_for_the_first_of_a_group_and_those_after_it_is_left_to_the_walk() -> None:
    state = cluster(SEMANTICS["the default order"], make_node("nx").label("zone", "x"))
    pod = policies.predict(state, near("new").obj).pod
    assert capacity_for(state.scheduling, pod) is None
    other = policies.predict(state, near("new").labels(app="b").obj).pod
    found = capacity_for(state.scheduling, other)
    assert found is not None
    assert found.total == 0
