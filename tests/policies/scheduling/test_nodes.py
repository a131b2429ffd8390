"""The plugins that look at a node alone: NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, NodePorts."""

from typing import Any

import pytest

from tests.builders import MadePod, ask, make_node, make_pod, reasons

NODE = make_node("n1").labels(disk="ssd", gen="3").taint("dedicated", "gpu").taint("soft", effect="PreferNoSchedule")
CORDONED = "node.kubernetes.io/unschedulable"
UNTOLERATED = "!node(s) had untolerated taint(s)"
UNMATCHED = "!node(s) didn't match Pod's node affinity/selector"


def tolerating(**fields: str) -> MadePod:
    return make_pod("p").spec(tolerations=[fields])


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (make_pod("p"), UNTOLERATED),
        (tolerating(operator="Exists"), None),
        (tolerating(key="dedicated", operator="Exists"), None),
        (tolerating(key="dedicated", value="gpu"), None),
        (tolerating(key="dedicated", operator="Equal", value="cpu"), UNTOLERATED),
        (tolerating(key="dedicated", operator="Exists", effect="NoExecute"), UNTOLERATED),
        (tolerating(key="dedicated", operator="Gt", value="1"), UNTOLERATED),
    ],
)
def test_taints_keep_pods_away_that_do_not_tolerate_them(pod: MadePod, reason: str | None) -> None:
    assert reasons(ask(pod, NODE)).get("n1") == reason


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (make_pod("p"), "!node(s) were unschedulable"),
        (tolerating(key=CORDONED, operator="Exists"), None),
        (tolerating(key=CORDONED, operator="Exists", effect="NoExecute"), "!node(s) were unschedulable"),
    ],
)
def test_cordoned_nodes_take_only_pods_that_tolerate_it(pod: MadePod, reason: str | None) -> None:
    assert reasons(ask(pod, make_node("n1").spec(unschedulable=True))).get("n1") == reason


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([expression("disk", "In", "ssd", "hdd")], True),
        ([expression("disk", "NotIn", "ssd")], False),
        ([expression("none", "NotIn", "ssd")], True),
        ([expression("disk", "Exists")], True),
        ([expression("disk", "DoesNotExist")], False),
        ([expression("gen", "Gt", "2")], True),
        ([expression("gen", "Lt", "3")], False),
        ([expression("disk", "Gt", "2")], False),
        ([expression("disk", "In", "hdd"), expression("gen", "In", "3")], True),
        ([], False),
        ([{}], False),
        ([expression("disk", "Maybe")], False),
        ([expression("disk", "Maybe"), expression("gen", "Exists")], True),
        ([expression("gen", "Gt", "two")], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}], False),
    ],
)
def test_node_affinity_needs_one_term_to_match(terms: list[Any], matches: bool) -> None:
    pod = tolerating(operator="Exists").affinity("nodeAffinity", *terms)
    assert ask(pod, NODE).fits is matches


def test_a_node_selector_must_match_as_well() -> None:
    pod = tolerating(operator="Exists").spec(nodeSelector={"disk": "hdd"})
    assert reasons(ask(pod, NODE)) == {"n1": UNMATCHED}


def named(*names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}


def test_nodes_that_no_term_names_are_not_looked_at() -> None:
    prediction = ask(make_pod("p").affinity("nodeAffinity", named("n2")), make_node("n1"), make_node("n2"))
    assert prediction.feasible == ["n2"]
    assert reasons(prediction) == {"n1": "!node(s) didn't satisfy plugin(s) [NodeAffinity]"}


def test_terms_that_name_no_common_node_conflict() -> None:
    prediction = ask(make_pod("p").affinity("nodeAffinity", named("n1", "n2")), make_node("n1"))
    assert prediction.pre_filter is not None
    assert prediction.pre_filter.reasons == ("pod affinity terms conflict",)


@pytest.mark.parametrize(
    ("wanted", "taken", "free"),
    [
        (("", "TCP"), ("", "TCP"), False),
        (("", "UDP"), ("", "TCP"), True),
        (("10.0.0.1", "TCP"), ("10.0.0.2", "TCP"), True),
        (("10.0.0.1", "TCP"), ("0.0.0.0", "TCP"), False),
        (("", "TCP"), ("10.0.0.2", "TCP"), False),
        (("10.0.0.1", ""), ("10.0.0.1", "TCP"), False),
    ],
)
def test_a_host_port_is_taken_once(wanted: tuple[str, str], taken: tuple[str, str], free: bool) -> None:
    prediction = ask(make_pod("p").port(80, *wanted), make_node("n1"), make_pod("old").port(80, *taken).on("n1"))
    assert prediction.fits is free


def test_two_pods_with_one_host_port_free_it_when_one_goes() -> None:
    """Upstream's ports are a set: of two pods with the same port, the removal of either frees it."""
    stays = make_pod("stays").priority(10).port(80).on("n1")
    goes = make_pod("goes").priority(1).port(80).on("n1")
    prediction = ask(make_pod("p").priority(5).port(80), make_node("n1"), stays, goes)
    assert [victim.name for victim in prediction.victims] == ["goes"]


def test_declared_features_are_asked_for() -> None:
    pod = make_pod("p").spec(hostNetwork=True, hostUsers=False)
    able = make_node("n2").status(declaredFeatures=["UserNamespacesHostNetworkSupport"])
    prediction = ask(pod, make_node("n1"), able)
    assert prediction.feasible == ["n2"]
    assert reasons(prediction) == {"n1": "!node(s) didn't match Pod's required features"}
