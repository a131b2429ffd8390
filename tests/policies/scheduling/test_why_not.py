"""Why nodes do not help, in words."""

import copy
from typing import Any

import pytest

from forewarn.policies.base.metering import CutShort
from forewarn.policies.linting.rules.support.predictions import reasons_of
from forewarn.policies.prediction.forecast.placement import place
from forewarn.policies.prediction.forecast.why_not import cause, explanations, why_not
from tests.builders import (
    Made,
    MadePod,
    cluster,
    make_budget,
    make_claim,
    make_node,
    make_pod,
    make_storage_class,
    make_volume,
)

ZONE = "topology.kubernetes.io/zone"


def apart(key: str, app: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def zoned(name: str, zone: str = "a") -> Made:
    return make_node(name).label("kubernetes.io/hostname", name).label(ZONE, zone)


ACROSS = "anti-affinity with a Pod on another node of the zone; preemption does not cross nodes"
WEB = make_pod("web").labels(app="web").priority(10).affinity("podAntiAffinity", apart(ZONE, "web"))
SHY = make_pod("shy").priority(0).affinity("podAntiAffinity", apart(ZONE, "web")).on("n2")
NEAR = make_pod("near").priority(10).request(cpu="3").affinity("podAffinity", apart("kubernetes.io/hostname", "db"))


@pytest.mark.parametrize(
    ("asked", "there", "want"),
    [
        (
            WEB,
            [zoned("n1"), zoned("n2"), make_pod("other").labels(app="web").on("n2")],
            [f"{ACROSS} (default/other on n2)"],
        ),
        (  # kube-scheduler compares capacity first
            copy.deepcopy(WEB).request(cpu="9"),
            [
                make_node("n1").has(cpu="9").label(ZONE, "a"),
                make_pod("other").labels(app="web").request(cpu="9").priority(10).on("n1"),
            ],
            ["anti-affinity with a Pod there of equal or higher priority (default/other)"],
        ),
        (
            make_pod("web").labels(app="web").priority(10),
            [zoned("n1"), zoned("n2"), SHY],
            [f"{ACROSS} (default/shy on n2)"],
        ),
        (
            WEB,
            [zoned("n1"), make_pod("other").labels(app="web").priority(10).on("n1")],
            ["anti-affinity with a Pod there of equal or higher priority (default/other)"],
        ),
        (
            NEAR,
            [zoned("n1"), make_pod("db").labels(app="db").request(cpu="3").on("n1")],
            ["its Pod affinity needs a Pod of lower priority, which preemption would remove"],
        ),
        (
            make_pod("web").priority(10).request(cpu="2"),
            [zoned("n1"), make_pod("as-important").priority(10).request(cpu="3").on("n1")],
            ["insufficient cpu; no Pod of lower priority"],
        ),
        (
            make_pod("web").priority(10).request(cpu="5", memory="2Gi", **{"a.example/gpu": "1"}),
            [
                make_node("n1").has(cpu="4", memory="4Gi", pods="1", **{"a.example/gpu": "1"}),
                make_pod("other").request(cpu="1", memory="3Gi", **{"a.example/gpu": "1"}).on("n1"),
            ],
            ["too small even when empty: insufficient cpu"],
        ),
        (
            WEB,
            [zoned("n1"), make_pod("low").on("n1"), make_pod("next").labels(app="web").priority(10).nominated("n1")],
            ["anti-affinity with a Pod there of equal or higher priority (default/next)"],
        ),
    ],
    ids=[
        "its own, across the zone",
        "another pod's, across the zone",
        "a pod as important",
        "a pod as important, behind too little cpu",
        "affinity to a victim",
        "full of its like",
        "too small in one resource, full in the others",
        "a nominated Pod",
    ],
)
def test_the_pod_in_the_way_is_named(asked: Made, there: list[Made], want: list[str]) -> None:
    found = cluster(*there)
    assert [why for _, why in why_not(place(found, asked.obj).predictions[0])] == want


GPU = "nvidia.com/gpu"


def node(name: str, cpu: str = "8", gpu: str = "0", *, memory: str = "8Gi", pool: str = "b", taint: str = "") -> Made:
    made = make_node(name).has(cpu=cpu, memory=memory).has_of(GPU, gpu).label("pool", pool)
    return made.taint(taint) if taint else made


def asking(cpu: str = "1", gpu: str = "0", memory: str = "1Gi", **spec: Any) -> MadePod:
    return make_pod("web").request(cpu=cpu, memory=memory).request_of(GPU, gpu).spec(**spec)


def test_the_first_reason_is_of_nodes_that_the_pod_could_use() -> None:
    found = cluster(
        *(node(f"n{number}") for number in range(3)),
        *(node(f"t{number}", pool="a", taint="x") for number in range(2)),
        node("gpu", gpu="4", pool="a"),
        make_pod("full").request_of(GPU, "4").on("gpu"),
    )
    assert why_not(place(found, asking(gpu="1", **IN_A).obj).predictions[0]) == [
        (1, f"insufficient {GPU}; no Pod of lower priority"),
        (3, "node selector pool=a does not match"),
        (2, "untolerated taint x:NoSchedule"),
    ]


SELECTOR = "matches its node selector or affinity"
KNOWN = "(known values of pool: b)"
LONG = [f"{letter * 60}.{'x' * 60}.{'y' * 60}.{'z' * 60}/a" for letter in "bc"]
IN_A: dict[str, Any] = {"nodeSelector": {"pool": "a"}}
TERMS = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["b"]}]}]
IN_B_BY_AFFINITY: dict[str, Any] = {
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS}}}
}


@pytest.mark.parametrize(
    ("asked", "nodes", "want"),
    [
        (asking("12"), [node("n1", "7920m"), node("n2", "1")], "requests 12 cpu, more than any node has (7.92)"),
        (
            asking("12", memory="256Gi"),
            [node("n1", memory="262043Mi")],
            "requests 12 cpu and 256Gi memory, more than any node has (8 and 255.901Gi)",
        ),
        (
            asking("40", memory="12Gi"),
            [node("n1", "8", memory="10Gi"), node("n2", "32", taint="gpu")],
            "requests 40 cpu and 12Gi memory, more than any eligible node has (8 and 10Gi)",
        ),
        (asking(gpu="8"), [node("n1", gpu="4"), node("n2")], f"requests 8 {GPU}, more than any node has (4)"),
        (asking(gpu="8"), [node("n1")], f"no node has {GPU}"),
        (asking("12", "8"), [node("n1", "16"), node("n2", gpu="8")], f"no node has enough cpu and {GPU}"),
        (asking(**IN_A), [node("n1"), node("n2", taint="other")], f"no node has label pool=a {KNOWN}"),
        (
            asking("4", **IN_A),
            [node("n1"), node("n2", "2", pool="a")],
            "no node with enough cpu has label pool=a",
        ),
        (asking(**IN_A, **IN_B_BY_AFFINITY), [node("n1")], f"no node {SELECTOR} {KNOWN}"),
        (asking(), [node("n1").spec(unschedulable=True)], "fits on no node: cordoned"),
        (asking(), [node("n1", taint="x"), node("n2", taint="x")], "fits on no node: untolerated taint x:NoSchedule"),
        (asking(), [node("n1", taint="x"), node("n2", taint="y")], "fits on no node: untolerated taint"),
        (
            asking(gpu="1"),
            [node("n1"), node("n2", gpu="4", taint="x"), node("n3", taint="y")],
            f"fits on no node with enough {GPU}: untolerated taint x:NoSchedule",
        ),
        (
            asking(**IN_A),
            [node("n1"), node("n2", taint="x", pool="a")],
            f"fits on no node that {SELECTOR}: untolerated taint x:NoSchedule",
        ),
        (asking(), [node("n1", taint="x"), node("n2").spec(unschedulable=True)], ""),
        (asking("4"), [node("n1", taint="x"), node("n2", "4"), make_pod("a").request(cpu="1").on("n2")], ""),
        (
            asking().request_of(LONG[0], "1").request_of(LONG[1], "1"),
            [node("n1")],
            f"no node has {LONG[0]}, {LONG[1][:140]}…",
        ),
    ],
)
def test_one_cause_for_all_nodes_is_named(asked: Made, nodes: list[Made], want: str) -> None:
    found = cluster(*nodes)
    assert cause(place(found, asked.obj).predictions[0]).short == want


FULL_NODE = make_pod("full").request(cpu="8").on("n1")
WITH_VOLUME = make_pod("db").request(cpu="1").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}])
FULL = [zoned("n1"), zoned("n2", "b"), *(make_pod(f"on-{n}").priority(9).request(cpu="4").on(n) for n in ("n1", "n2"))]


def needing(*values: str, key: str = ZONE) -> list[Made]:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]} for value in values]
    return [make_claim("v", "pv"), make_volume("pv", nodeAffinity={"required": {"nodeSelectorTerms": terms}})]


def provisioned(*values: str) -> list[Made]:
    late = make_storage_class("late")
    late.obj["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": [*values]}]}]
    return [late, make_claim("v", storageClassName="late")]


@pytest.mark.parametrize(
    ("storage", "want"),
    [
        (needing("c"), "no node is in its volume's zone (c)"),
        (needing("d", "c"), "no node is in its volume's zone (c, d)"),
        (needing("n3", key="kubernetes.io/hostname"), "no node has its volume's hostname (n3)"),
        (provisioned("c"), "no node is in its volume's zone (c)"),
        ([make_claim("v", storageClassName="x"), make_storage_class("x", provisioner="kubernetes.io/no-provisioner")],
         "fits on no node: no PersistentVolume that its claim can use"),
        (needing("b", "c"), ""),
        (provisioned("b", "c"), ""),
        ([make_claim("v", "pv"), make_volume("pv")], ""),
    ],
)  # fmt: skip
def test_a_volume_that_no_node_reaches_is_the_cause_on_full_nodes_too(storage: list[Made], want: str) -> None:
    found = cause(place(cluster(*FULL, *storage), WITH_VOLUME.obj).predictions[0])
    assert found.short == want
    assert not {"(c)", "(n3)"} & {*found.split()}


@pytest.mark.parametrize(
    ("asked", "there", "fixes"),
    [
        (asking("12"), [node("n1")], ["add such nodes", "lower requests"]),
        (asking("12"), [node("n1"), FULL_NODE], ["add such nodes"]),
        (asking(**IN_A), [node("n1")], ["change nodeSelector or nodeAffinity"]),
        (asking(**IN_A), [node("n1"), FULL_NODE], []),
        (asking(), [node("n1", taint="x")], ["add a toleration"]),
        (asking(), [node("n1", taint="x"), FULL_NODE], []),
        (asking(), [node("n1", taint="node.kubernetes.io/not-ready")], []),
        (asking(), [node("n1").spec(unschedulable=True)], ["uncordon the node"]),
    ],
)
def test_the_fixes_of_the_cause_help_without_preemption(asked: MadePod, there: list[Made], fixes: list[str]) -> None:
    found = cluster(*there)
    assert [*cause(place(found, asked.priority(10).obj).predictions[0]).fixes] == fixes


LARGE = node("large", "32", taint="x")
TOO_LARGE = "requests 20 cpu, more than any eligible node has (8)"


@pytest.mark.parametrize(
    ("used", "want", "fixes"),
    [
        ("12", "fits on no node with enough cpu: untolerated taint x:NoSchedule", ["add a toleration"]),
        ("13", TOO_LARGE, ["add such nodes", "lower requests"]),
    ],
)
def test_a_taint_is_the_cause_only_if_a_toleration_helps(used: str, want: str, fixes: list[str]) -> None:
    training = make_pod("training").request(cpu=used).on("large")
    there = cluster(node("n1"), node("n2", "4"), LARGE, training)
    found = cause(place(there, asking("20").priority(10).obj).predictions[0])
    assert (found.short, [*found.fixes]) == (want, fixes)
    assert "20" not in found


def said(asked: Made, *there: Made) -> list[str]:
    found = cluster(*there)
    return list(explanations(place(found, asked.obj).predictions[0], found))


def small(name: str) -> Made:
    return make_node(name).has(cpu="1")


def test_a_dearer_victim_is_explained_by_the_budget_of_the_others() -> None:
    cheap = make_pod("cheap").labels(app="a").request(cpu="1").on("n1")
    dear = make_pod("dear").priority(5).request(cpu="1").on("n2")
    asked = make_pod("web").priority(10).request(cpu="1")
    there = small("n1"), small("n2"), cheap, dear
    assert said(asked, *there) == []
    assert said(asked, *there, make_budget("b", 0, app="a")) == [
        (
            "preempts a Pod of priority 5 although Pods of lower priority run: PDBs with no disruptions allowed "
            "protect those"
        )
    ]


def test_a_dearer_victim_on_the_same_node_too() -> None:
    cheap = make_pod("cheap").labels(app="a").request(cpu="500m").on("n1")
    dear = make_pod("dear").priority(5).request(cpu="500m").on("n1")
    asked = make_pod("web").priority(10).request(cpu="500m")
    (line,) = said(asked, small("n1"), cheap, dear, make_budget("b", 0, app="a"))
    assert line.startswith("preempts a Pod of priority 5 although Pods of lower priority run")


def test_pods_ahead_in_the_queue_are_named() -> None:
    full = make_pod("full").request(cpu="1").on("n1")
    ahead = make_pod("ahead").priority(50)
    others = make_pod("equal").priority(10), make_pod("done").priority(50).status(phase="Succeeded")
    asked = make_pod("web").priority(10).request(cpu="1")
    assert said(asked, small("n1"), full, ahead, *others) == [
        "2 Pending Pods ahead in the queue may use the capacity first: default/ahead, default/equal"
    ]


def test_reasons_remain_without_untried_fixes_if_time_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    tainted = [node(f"n{number}", taint="x") for number in range(3)]
    stuck = place(cluster(*tainted), asking(cpu="20").obj).predictions[0]
    monkeypatch.setattr("forewarn.policies.prediction.forecast.why_not.Prediction", cut_short)
    assert [(reason.short, reason.fixes, nodes) for reason, nodes in reasons_of([stuck])] == [
        ("untolerated taint", (), 3)
    ]
    assert cause(stuck).short == "requests 20 cpu, more than any node has (8)"


def cut_short(*_: object) -> None:
    raise CutShort("time is up")
