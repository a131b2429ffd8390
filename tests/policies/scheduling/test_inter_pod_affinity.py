"""InterPodAffinity: pods that want to be near or far from others."""

from types import SimpleNamespace
from typing import Any

import pytest

from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.scheduling.plugins import inter_pod_affinity
from tests.builders import Made, MadePod, ask, cluster, make_namespace, make_node, make_pod, reasons

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NODES = [make_node("n1").zone("a"), make_node("n2").zone("a"), make_node("n3").zone("b")]
WEB = make_pod("web").labels(app="web").on("n1")


def term(key: str = ZONE, **fields: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}, **fields}


def weighted(weight: int, **fields: Any) -> dict[str, Any]:
    return {"weight": weight, "podAffinityTerm": term(**fields)}


NEW = make_pod("new")


@pytest.mark.parametrize(("terms", "units"), [(1, 4), (50, 154)])
def test_each_term_of_running_pods_is_counted_as_work(terms: int, units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """3 Pods on a node, of which the anti-affinity to the new Pod may have many terms."""
    charged: list[int] = []
    monkeypatch.setattr(inter_pod_affinity, "meter", lambda: SimpleNamespace(charge=charged.append))
    repelling = [term(f"key-{number}") for number in range(terms)]
    pods = [make_pod(f"p{number}").affinity("podAntiAffinity", *repelling).on("n1") for number in range(3)]
    new = Pod.from_api(make_pod("new").labels(app="web").obj)
    state = inter_pod_affinity._FilterState(new, {}, (), ())
    state.count_existing(cluster(make_node("n1").zone("a"), *pods).scheduling.node_infos)
    assert sum(charged) == units


@pytest.mark.parametrize(
    ("kind", "terms", "feasible"),
    [
        ("podAffinity", [term()], ["n1", "n2"]),
        ("podAffinity", [term(HOST)], ["n1"]),
        ("podAffinity", [term("rack")], []),
        ("podAffinity", [term(labelSelector=None)], []),
        ("podAffinity", [term(labelSelector={})], ["n1", "n2"]),
        ("podAffinity", [term(), term(labelSelector={"matchLabels": {"app": "db"}})], []),
        ("podAntiAffinity", [term()], ["n3"]),
        ("podAntiAffinity", [term(HOST)], ["n2", "n3"]),
        ("podAntiAffinity", [term("rack")], ["n1", "n2", "n3"]),
        ("podAntiAffinity", [term(namespaces=["other"])], ["n1", "n2", "n3"]),
        ("podAntiAffinity", [term(namespaces=["default", "other"])], ["n3"]),
        ("podAntiAffinity", [term(namespaceSelector={})], ["n3"]),
        ("podAntiAffinity", [term(namespaceSelector={"matchLabels": {"team": "a"}})], ["n3"]),
        ("podAntiAffinity", [term(namespaceSelector={"matchLabels": {"team": "b"}})], ["n1", "n2", "n3"]),
    ],
)
def test_terms_select_topologies(kind: str, terms: list[Any], feasible: list[str]) -> None:
    pod = make_pod("new").affinity(kind, *terms)
    assert ask(pod, *NODES, WEB, make_namespace("default", team="a")).feasible == feasible


OLD, OTHER = make_pod("old").labels(app="web", rev="1").on("n1"), make_pod("other").labels(app="web", rev="2").on("n3")


def unstored() -> MadePod:
    return make_pod("new").metadata(uid="")


@pytest.mark.parametrize("preferred", [False, True])
@pytest.mark.parametrize(
    ("kind", "fields", "labels", "nodes"),
    [
        ("podAffinity", {"matchLabelKeys": ["rev"]}, {"rev": "1"}, ["n1", "n2"]),
        ("podAffinity", {"matchLabelKeys": ["rev"]}, {"rev": "2"}, ["n3"]),
        ("podAffinity", {"matchLabelKeys": ["rev"]}, {}, ["n1", "n2", "n3"]),
        ("podAffinity", {"mismatchLabelKeys": ["rev"]}, {"rev": "1"}, ["n3"]),
        ("podAntiAffinity", {"matchLabelKeys": ["rev"]}, {"rev": "1"}, ["n3"]),
        ("podAntiAffinity", {"matchLabelKeys": ["rev"]}, {"rev": "2"}, ["n1", "n2"]),
        ("podAntiAffinity", {"mismatchLabelKeys": ["rev"]}, {"rev": "2"}, ["n3"]),
        ("podAntiAffinity", {"matchLabelKeys": ["app"], "mismatchLabelKeys": ["rev"]}, {"rev": "2"}, ["n3"]),
        ("podAntiAffinity", {"matchLabelKeys": ["rev"], "labelSelector": None}, {"rev": "2"}, ["n1", "n2", "n3"]),
    ],
)
def test_a_new_pod_puts_its_own_labels_into_its_terms(
    kind: str, fields: dict[str, Any], labels: dict[str, str], nodes: list[str], preferred: bool
) -> None:
    entry = weighted(9, **fields) if preferred else term(**fields)
    new = unstored().labels(app="web", **labels).affinity(kind, entry, preferred=preferred)
    prediction = ask(new, *NODES, OLD, OTHER)
    if preferred:
        scores = {name: plugins.get("InterPodAffinity", 0) for name, plugins in prediction.scores.items()}
        assert [name for name, score in scores.items() if score == max(scores.values())] == nodes
    else:
        assert prediction.feasible == nodes


def test_pods_that_differ_in_a_label_alone_have_terms_of_their_own() -> None:
    new = unstored().affinity("podAffinity", term(matchLabelKeys=["rev"]))
    for rev, nodes in (("1", ["n1", "n2"]), ("2", ["n3"]), ("1", ["n1", "n2"])):
        assert ask(new.labels(rev=rev), *NODES, OLD, OTHER).feasible == nodes


def test_what_the_api_server_has_stored_is_taken_as_it_is() -> None:
    """It has put the labels in already; a pod's labels may change later."""
    merged = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "rev", "operator": "In", "values": ["1"]}]}
    stored = unstored().affinity("podAffinity", term(labelSelector=merged, matchLabelKeys=["rev"]))
    assert ask(stored.labels(rev="1"), *NODES, OLD, OTHER).feasible == ["n1", "n2"]
    assert ask(stored.labels(rev="2").metadata(uid="u"), *NODES, OLD, OTHER).feasible == ["n1", "n2"]


def test_pods_already_there_keep_others_away() -> None:
    guard = make_pod("guard").affinity("podAntiAffinity", term()).on("n1")
    prediction = ask(make_pod("new").labels(app="web"), *NODES, guard)
    assert prediction.feasible == ["n3"]
    assert reasons(prediction)["n2"] == "node(s) didn't satisfy existing pods anti-affinity rules"


@pytest.mark.parametrize(("team", "feasible"), [("a", ["n3"]), ("b", ["n1", "n2", "n3"])])
def test_the_namespace_of_the_incoming_pod_is_looked_up(team: str, feasible: list[str]) -> None:
    selected = term(namespaceSelector={"matchLabels": {"team": "a"}})
    guard = make_pod("guard", "other").affinity("podAntiAffinity", selected).on("n1")
    pod = make_pod("new").labels(app="web")
    assert ask(pod, *NODES, guard, make_namespace("default", team=team)).feasible == feasible


def test_the_first_of_a_group_that_wants_to_be_together_may_go_anywhere() -> None:
    pod = make_pod("new").labels(app="web").affinity("podAffinity", term())
    assert ask(pod, *NODES).feasible == ["n1", "n2", "n3"]
    assert ask(make_pod("new").affinity("podAffinity", term()), *NODES).feasible == []


def test_preemption_never_helps_affinity_to_a_pod_that_would_go() -> None:
    pod = make_pod("new").priority(10).request(cpu="4").affinity("podAffinity", term(HOST))
    web = make_pod("web").labels(app="web").request(cpu="4").on("n1")
    prediction = ask(pod, make_node("n1"), web)
    assert prediction.outcome == "pending"
    assert prediction.preemption.statuses["n1"].reasons == ("node(s) didn't match pod affinity rules",)


def test_preemption_evicts_the_pod_that_is_in_the_way_and_no_other() -> None:
    pod = make_pod("new").priority(10).affinity("podAntiAffinity", term(HOST))
    prediction = ask(pod, make_node("n1"), WEB, make_pod("db").on("n1"))
    assert [victim.name for victim in prediction.victims] == ["web"]


def test_preemption_does_not_cross_nodes() -> None:
    pod = make_pod("new").priority(10).affinity("podAntiAffinity", term())
    prediction = ask(pod, NODES[1], make_node("n1").zone("a"), WEB, make_pod("db").on("n2"))
    assert [candidate.node_name for candidate in prediction.candidates] == ["n1"]


@pytest.mark.parametrize(
    ("pod", "others", "best"),
    [
        (make_pod("new").affinity("podAffinity", weighted(10), preferred=True), [WEB], ["n1", "n2"]),
        (make_pod("new").affinity("podAntiAffinity", weighted(10), preferred=True), [WEB], ["n3"]),
        (
            make_pod("new").labels(app="web"),
            [make_pod("o").affinity("podAffinity", weighted(10), preferred=True).on("n3")],
            ["n3"],
        ),
        (
            make_pod("new").labels(app="web"),
            [make_pod("o").affinity("podAntiAffinity", weighted(10), preferred=True).on("n3")],
            ["n1", "n2"],
        ),
        (make_pod("new").labels(app="web"), [make_pod("o").affinity("podAffinity", term()).on("n3")], ["n3"]),
    ],
)
def test_preferences_of_either_side_score(pod: MadePod, others: list[Made], best: list[str]) -> None:
    scores = {node: row["InterPodAffinity"] for node, row in ask(pod, *NODES, *others).scores.items()}
    assert sorted(node for node, score in scores.items() if score == 200) == best
    assert set(scores.values()) == {0, 200}
