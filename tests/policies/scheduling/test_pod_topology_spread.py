"""PodTopologySpread: how evenly pods lie."""

from typing import Any

import pytest

from forewarn.policies.kubernetes.scheduling.plugins.pod_topology_spread import CriticalPaths
from tests.builders import Made, MadeNode, MadePod, ask, make_node, make_pod, reasons

UNEVEN = "node(s) didn't match pod topology spread constraints"
ZONE = "topology.kubernetes.io/zone"


def constraint(**fields: Any) -> dict[str, Any]:
    base = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {**base, "labelSelector": {"matchLabels": {"app": "web"}}, **fields}


def web(name: str, node: str = "") -> MadePod:
    pod = make_pod(name).labels(app="web")
    return pod.on(node) if node else pod


def nodes(*zones: str) -> list[MadeNode]:
    return [make_node(f"n{number}").zone(zone) for number, zone in enumerate(zones, 1)]


@pytest.mark.parametrize(
    ("fields", "others", "feasible"),
    [
        ({}, [], ["n1", "n2"]),
        ({}, [web("a", "n1")], ["n2"]),
        ({"maxSkew": 2}, [web("a", "n1")], ["n1", "n2"]),
        ({}, [web("a", "n1").terminating()], ["n1", "n2"]),
        ({}, [make_pod("a", "other").labels(app="web").on("n1")], ["n1", "n2"]),
        ({"minDomains": 3}, [web("a", "n1"), web("b", "n2")], []),
        ({"labelSelector": {}}, [web("a", "n1")], ["n1", "n2"]),
        ({"labelSelector": None}, [web("a", "n1")], ["n1", "n2"]),
        ({"matchLabelKeys": ["rev"]}, [web("a", "n1").labels(rev="1")], ["n1", "n2"]),
        ({"matchLabelKeys": ["rev"]}, [web("a", "n1").labels(rev="2")], ["n2"]),
        ({"whenUnsatisfiable": "ScheduleAnyway"}, [web("a", "n1")], ["n1", "n2"]),
    ],
)
def test_the_skew_of_a_domain_is_limited(fields: dict[str, Any], others: list[Made], feasible: list[str]) -> None:
    pod = web("new").labels(rev="2").spec(topologySpreadConstraints=[constraint(**fields)])
    assert ask(pod, *nodes("a", "b"), *others).feasible == feasible


def test_a_node_without_the_key_is_out_for_good() -> None:
    pod = web("new").spec(topologySpreadConstraints=[constraint()])
    assert reasons(ask(pod, make_node("n1"))) == {"n1": f"!{UNEVEN} (missing required label)"}


@pytest.mark.parametrize(("policy", "feasible"), [("Honor", ["n1"]), ("Ignore", [])])
def test_nodes_that_the_pod_cannot_use_count_if_told_to(policy: str, feasible: list[str]) -> None:
    pod = web("new").spec(
        nodeSelector={"disk": "ssd"}, topologySpreadConstraints=[constraint(nodeAffinityPolicy=policy)]
    )
    first, second = nodes("a", "b")
    assert ask(pod, first.labels(disk="ssd"), second, web("a", "n1")).feasible == feasible


@pytest.mark.parametrize(("policy", "feasible"), [("Honor", ["n1"]), ("Ignore", [])])
def test_tainted_nodes_count_unless_told_otherwise(policy: str, feasible: list[str]) -> None:
    pod = web("new").spec(topologySpreadConstraints=[constraint(nodeTaintsPolicy=policy)])
    first, second = nodes("a", "b")
    assert ask(pod, first, second.taint("dedicated"), web("a", "n1")).feasible == feasible


def test_evicting_a_pod_of_the_domain_makes_it_even() -> None:
    pod = web("new").priority(10).request(cpu="1").spec(topologySpreadConstraints=[constraint()])
    full = make_pod("full").priority(10).request(cpu="4").on("n2")
    prediction = ask(pod, *nodes("a", "b"), web("a", "n1"), full)
    assert [v.name for v in prediction.victims] == ["a"]


def test_removing_a_terminating_pod_lowers_a_count_that_never_had_it() -> None:
    """A quirk of upstream: the count leaves terminating pods out, their removal does not."""
    pod = web("new").priority(10).request(cpu="4").spec(topologySpreadConstraints=[constraint()])
    going = web("going", "n1").request(cpu="4").terminating()
    prediction = ask(pod, *nodes("a", "b"), going, make_pod("full").priority(10).request(cpu="4").on("n2"))
    assert [v.name for v in prediction.victims] == ["going"]


def test_a_service_spreads_its_pods_by_default() -> None:
    service = Made("v1", "Service", "web", "default").spec(selector={"app": "web"})
    made = [*nodes("a", "b"), web("old", "n1")]
    assert ask(web("new"), *made, service).best_nodes == ["n2"]
    scores = ask(web("new"), *made, service).scores
    assert scores["n1"]["PodTopologySpread"] < scores["n2"]["PodTopologySpread"]
    assert "PodTopologySpread" not in ask(web("new"), *made).scores["n1"]


@pytest.mark.parametrize(
    ("kind", "api_version", "selector"),
    [
        ("ReplicaSet", "apps/v1", {"matchLabels": {"app": "web"}}),
        ("StatefulSet", "apps/v1", {"matchLabels": {"app": "web"}}),
        ("ReplicationController", "v1", {"app": "web"}),
    ],
)
def test_a_controller_spreads_its_pods_by_default(kind: str, api_version: str, selector: Any) -> None:
    owner = Made(api_version, kind, "web", "default").spec(selector=selector)
    reference = {"apiVersion": api_version, "kind": kind, "name": "web", "uid": "u", "controller": True}
    pod = web("new").metadata(ownerReferences=[reference])
    assert "PodTopologySpread" in ask(pod, *nodes("a", "b"), owner).scores["n1"]


def test_critical_paths_keep_the_least_while_one_domain_changes() -> None:
    paths = CriticalPaths()
    for value, count in (("a", 3), ("b", 1), ("c", 2)):
        paths.update(value, count)
    assert paths.least == 1
    for count, least in ((0, 0), (1, 1), (5, 1)):
        paths.update("c", count)
        assert paths.least == least
