"""Decisions of Karpenter's own provisioner (core v1.14.0): a sample of recordings, and the parts of the algorithm."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.prediction.autoscaling import NotPredicted
from tests.recorded.karpenter import answer_case

ROWS = gzip.decompress((Path(__file__).parent / "cases" / "karpenter.jsonl.gz").read_bytes()).decode().splitlines()
CASES = [pytest.param(row, id=json.loads(row)["case"]["id"]) for row in ROWS]


def decision(answer: Any) -> Any:
    """What must agree with one recorded outcome, also where upstream depends on the order of a Go map."""
    claims = Counter((claim["nodepool"], tuple(claim["pods"])) for claim in answer["newNodeClaims"])
    existing = [(entry["node"], entry["pods"]) for entry in answer["existing"]]
    return claims, existing, sorted(answer["podErrors"]), sorted(answer["ignored"]), bool(answer.get("error"))


@pytest.mark.parametrize("row", CASES)
def test_the_decision_is_karpenters(row: str) -> None:
    entry = json.loads(row)
    want, got = entry["answer"], answer_case(entry["case"])
    assert decision(got) in [decision(outcome) for outcome in (want, *want.get("outcomes", ()))]
    if want["distinct"] == 1 == got["distinct"]:
        assert got["newNodeClaims"] == want["newNodeClaims"]
        assert got.get("rejected") == want.get("rejected")
        assert got["podErrors"] == want["podErrors"]


def small_case(**changes: Any) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    pool = {"metadata": {"name": "pool"}, "spec": {"template": {"spec": {"nodeClassRef": reference}}}}
    offering = {"zone": "a", "capacityType": "spot", "price": 1, "available": True}
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending", "conditions": [condition]},
    }
    types = [{"name": "big", "capacity": capacity, "offerings": [offering]}]
    return {"id": "x", "pending": [pod], "nodepools": [pool], "instanceTypes": types, **changes}


def test_a_small_case() -> None:
    answer = answer_case(small_case())
    assert [(claim["nodepool"], claim["pods"]) for claim in answer["newNodeClaims"]] == [("pool", ["p"])]


@pytest.mark.parametrize(("kind", "nodes"), [("containers", 2), ("initContainers", 1)])
def test_host_ports_of_sidecars_do_not_count(kind: str, nodes: int) -> None:
    container = {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 80, "hostPort": 80}]}
    (pod,) = small_case()["pending"]
    spec = {**pod["spec"], kind: [*pod["spec"].get(kind, ()), container]}
    pods = [{**pod, "metadata": {**pod["metadata"], "name": name, "uid": name}, "spec": spec} for name in "ab"]
    assert len(answer_case(small_case(pending=pods))["newNodeClaims"]) == nodes


EVERYWHERE = [("a", "spot"), ("b", "on-demand")]
HERE = {"topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "on-demand"}
ARM = {"kubernetes.io/arch": "arm64"}


@pytest.mark.parametrize(
    ("types", "selector", "cpu", "message"),
    [
        ([("4", {}, EVERYWHERE)], HERE, "1", "no instance type had enough resources or had a required offering"),
        ([("4", {}, EVERYWHERE)], {}, "5", "no instance type has enough resources"),
        ([("4", {}, EVERYWHERE)], ARM, "1", "no instance type met all requirements"),
        (
            [("4", {}, EVERYWHERE)],
            ARM,
            "5",
            "no instance type met the scheduling requirements or had enough resources",
        ),
        (
            [("4", {}, EVERYWHERE)],
            HERE | ARM,
            "5",
            "no instance type met the scheduling requirements or had enough resources or had a required offering",
        ),
        (
            [("1", ARM, EVERYWHERE), ("8", {}, EVERYWHERE)],
            ARM,
            "4",
            "no instance type which had enough resources and the required offering met the scheduling requirements",
        ),
    ],
)
def test_why_no_instance_type_fits(types: Any, selector: Any, cpu: str, message: str) -> None:
    """The messages are those of Karpenter for the same cases."""
    known = [
        {
            "name": f"type-{number}",
            "capacity": {"cpu": capacity, "memory": "8Gi", "pods": "10"},
            "requirements": labels,
            "offerings": [{"zone": z, "capacityType": kind, "price": 1, "available": True} for z, kind in offerings],
        }
        for number, (capacity, labels, offerings) in enumerate(types)
    ]
    case = small_case(instanceTypes=known)
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    case["pending"][0]["spec"] = {"nodeSelector": selector, "containers": [container]}
    assert answer_case(case)["podErrors"]["p"].split(", requirements=")[0] == message


@pytest.mark.parametrize(("bound", "is_ignored"), [("0", False), ("-1", True), ("many", True)])
def test_a_pod_with_an_invalid_bound_is_ignored(bound: str, is_ignored: bool) -> None:
    case = small_case()
    term = {"matchExpressions": [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": [bound]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    case["pending"][0]["spec"]["affinity"] = {"nodeAffinity": required}
    assert answer_case(case)["ignored"] == ["p"] * is_ignored


CPU = "karpenter.k8s.aws/instance-cpu"


@pytest.mark.parametrize(
    ("operator", "value", "is_large"),
    [
        ("Gt", "4", True),
        ("Gt", "-1", False),
        ("Gt", "many", False),  # compares with 0
        ("Lt", "many", False),  # compares with 0, which no instance type fulfils, and is relaxed
        ("Gt", str(2**63), False),  # matches nothing, and is relaxed
        ("Lt", str(-(2**63) - 1), False),
        ("In", "no label value!", False),
    ],
)
def test_preferred_terms_are_not_checked(operator: str, value: str, is_large: bool) -> None:
    """The answers are those of Karpenter for the same cases."""
    case = typed_case(
        {"key": CPU, "operator": operator, "values": [value]}, {"key": "example.com/x", "operator": "Exists"}
    )
    (claim,) = answer_case(case)["newNodeClaims"]
    assert ("2" in claim["instanceTypes"]) != is_large
    assert answer_case(case)["ignored"] == []


def typed_case(*preferred: dict[str, Any]) -> dict[str, Any]:
    offerings = [{"zone": "a", "capacityType": "spot", "price": 1, "available": True}]
    types = [
        {"name": cpu, "capacity": {"cpu": cpu, "memory": "8Gi", "pods": "9"}, "offerings": offerings}
        | {"requirements": {CPU: cpu}}
        for cpu in ("2", "8")
    ]
    case = small_case(instanceTypes=types)
    terms = [{"weight": 50, "preference": {"matchExpressions": [term]}} for term in preferred]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    case["pending"][0]["spec"]["affinity"] = affinity
    return case


@pytest.mark.parametrize(("value", "claims"), [("4", 1), ("-1", 2), ("many", 2)])
def test_required_terms_of_daemon_sets_are_not_checked(value: str, claims: int) -> None:
    """A DaemonSet with an invalid bound takes room on the nodes that Karpenter launches."""
    container = {"name": "d", "resources": {"requests": {"cpu": "2500m"}}}
    term = {"matchExpressions": [{"key": CPU, "operator": "Gt", "values": [value]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {"containers": [container], "affinity": {"nodeAffinity": required}}
    metadata = {"name": "agent", "namespace": "kube-system", "uid": "agent"}
    (pod,) = small_case()["pending"]
    pods = [{**pod, "metadata": {**pod["metadata"], "name": name, "uid": name}} for name in "ab"]
    case = small_case(pending=pods, daemonsets=[{"metadata": metadata, "spec": {"template": {"spec": spec}}}])
    case["instanceTypes"][0]["requirements"] = {CPU: "4"}
    assert len(answer_case(case)["newNodeClaims"]) == claims


def test_domains_fill_evenly_beyond_the_skew() -> None:
    (pod,) = small_case()["pending"]
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    container = {"name": "c", "resources": {"requests": {"cpu": "3"}}}
    spec = {"containers": [container], "topologySpreadConstraints": [constraint]}
    pods = [
        {**pod, "metadata": {**pod["metadata"], "name": name, "uid": name, "labels": {"app": "web"}}, "spec": spec}
        for name in "abcd"
    ]
    types = small_case()["instanceTypes"]
    types[0]["offerings"].append({**types[0]["offerings"][0], "zone": "b"})
    answer = answer_case(small_case(pending=pods, instanceTypes=types))
    assert Counter(zone for claim in answer["newNodeClaims"] for zone in claim["zones"]) == {"a": 2, "b": 2}


def test_daemon_pods_that_run_already_do_not_count_again() -> None:
    container = {"name": "d", "resources": {"requests": {"cpu": "200m"}}}
    metadata = {"name": "agent", "namespace": "kube-system", "uid": "agent"}
    daemon_set = {"metadata": metadata, "spec": {"template": {"spec": {"containers": [container]}}}}
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "agent", "controller": True}
    daemon = {
        "metadata": {**metadata, "name": "agent-n", "uid": "agent-n", "ownerReferences": [owner]},
        "spec": {"nodeName": "n", "containers": [container]},
    }
    amounts = {"cpu": "1200m", "memory": "1Gi", "pods": "2"}
    node = {
        "metadata": {"name": "n", "uid": "n", "labels": {}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    answer = answer_case(small_case(nodes=[node], pods=[daemon], daemonsets=[daemon_set]))
    assert answer["existing"] == [{"node": "n", "pods": ["p"]}]


def requirements(number: int, values: int = 1) -> list[dict[str, Any]]:
    case = small_case()
    listed = [{"key": f"k{i}", "operator": "In", "values": [f"v{j}" for j in range(values)]} for i in range(number)]
    case["nodepools"][0]["spec"]["template"]["spec"]["requirements"] = listed
    pools: list[dict[str, Any]] = case["nodepools"]
    return pools


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"nodepools": requirements(101)}, "101 requirements of NodePool pool; forewarn evaluates at most 100"),
        ({"nodepools": requirements(1, 5_001)}, "5001 values in requirements of NodePool pool"),
        ({"instanceTypes": [{"name": str(i)} for i in range(5_001)]}, "5001 instance types; forewarn evaluates"),
        ({"options": {"cpuRequests": 4000}}, "several workers"),
    ],
    ids=["requirements", "values", "instance types", "workers"],
)
def test_what_is_too_large_or_not_modelled_is_not_predicted(changes: Any, reason: str) -> None:
    with pytest.raises(NotPredicted, match=reason):
        answer_case(small_case(**changes))
