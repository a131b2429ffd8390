"""The nodes that Karpenter removes next: recorded commands of its disruption controller, and `whatif consolidate`."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from forewarn.policies import cli
from forewarn.policies.autoscaling.karpenter import disruption
from forewarn.policies.autoscaling.karpenter.disruption import Budget
from tests.oracle.karpenter.compare import disruption_verdict
from tests.recorded.karpenter import answer_disruption

RECORDED = Path(__file__).parent / "cases" / "karpenter-disruption.jsonl.gz"
ROWS = gzip.decompress(RECORDED.read_bytes()).decode().splitlines()
EXAMPLE = Path("docs/examples/karpenter")
TYPES = ("--instance-types", str(EXAMPLE / "instance-types.yaml"))
NOON = 1_777_896_000.0  # Monday 2026-05-04T12:00:00Z
HOUR = {"schedule": "0 11 * * mon", "duration": "1h1m"}


@pytest.mark.parametrize("row", [pytest.param(row, id=json.loads(row)["case"]["id"]) for row in ROWS])
def test_the_first_command_is_karpenters(row: str) -> None:
    entry = json.loads(row)
    assert disruption_verdict(entry["answer"], answer_disruption(entry["case"])) == "agrees"


@pytest.mark.parametrize(
    ("budget", "allowed"),
    [
        ({"nodes": "10%"}, 1),
        ({"nodes": "33%"}, 4),
        ({"nodes": "0"}, 0),
        ({"nodes": "7"}, 7),
        ({"nodes": "many"}, None),
        ({"nodes": "1", **HOUR}, 1),
        ({"nodes": "1", **HOUR, "duration": "1h"}, 2**31 - 1),
        ({"nodes": "1", "schedule": "0 11 * *", "duration": "1h"}, None),
        ({"nodes": "1", "duration": "1h"}, None),
    ],
)
def test_a_budget_is_a_number_or_a_rounded_up_percentage_while_its_schedule_is_active(
    budget: dict[str, str], allowed: int | None
) -> None:
    assert Budget.of(budget, NOON).allowed(10) == allowed


@pytest.mark.parametrize(
    ("annotation", "priority", "cost"),
    [
        (None, 0, 1.0),
        ("134217728", 0, 2.0),
        ("-2147483647", 0, -10.0),
        ("many", 0, 1.0),
        ("99999999999", 0, 1.0),
        (None, 2**25, 2.0),
        (None, 1_000_000_000, 10.0),
        (None, -(2**31), -10.0),
    ],
)
def test_the_cost_of_an_eviction_depends_on_the_deletion_cost_and_the_priority(
    annotation: str | None, priority: int, cost: float
) -> None:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": annotation} if annotation else {}
    pod = {"metadata": {"annotations": annotations}, "spec": {"priority": priority}}
    assert disruption.eviction_cost(pod) == pytest.approx(cost, abs=1e-6)


class Example:
    """The example of the guide, with changes."""

    def __init__(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.objects = list(yaml.safe_load_all((EXAMPLE / "cluster.yaml").read_text()))
        self._file, self._capsys = tmp_path / "cluster.json", capsys

    def get(self, kind: str, name: str = "general") -> Any:
        return next(o for o in self.objects if o["kind"] == kind and o["metadata"]["name"] == name)

    def remove(self, *names: str) -> None:
        """Remove objects by their name or kind."""
        self.objects = [o for o in self.objects if not {*names} & {o["kind"], o.get("metadata", {}).get("name", "")}]

    def run(self, *options: str) -> tuple[int, str, str]:
        self._file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": self.objects}))
        status = cli.main(["whatif", "consolidate", "--cluster", str(self._file), *options])
        printed = self._capsys.readouterr()
        return status, printed.out, printed.err

    def answer(self, *options: str) -> Any:
        status, out, err = self.run(*TYPES, "-o", "json", *options)
        assert (status, err) == (0, "")
        return json.loads(out)


@pytest.fixture
def example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Example:
    return Example(tmp_path, capsys)


def names(answer: Any) -> list[str]:
    return [node["node"] for node in answer["removed"]]


def reasons(answer: Any) -> dict[str, str]:
    return {node["node"]: node["reason"] for node in answer["kept"]}


def test_the_first_line_names_the_removed_nodes_and_the_pods_go_to_the_named_node(example: Example) -> None:
    status, out, _ = example.run(*TYPES)
    assert status == 0
    assert out.startswith(
        "Karpenter next removes 2 underutilized nodes, 2 Pods move, "
        "saves 0.2 per hour (unit of the prices in --instance-types): a-1, b-1\n"
    )
    answer = example.answer()
    assert {(move["fromNode"], move["toNode"]) for move in answer["moves"]} == {("a-1", "a-2"), ("b-1", "a-2")}
    assert reasons(answer) == {
        "a-2": "PDB shop/db allows no disruptions",
        "b-2": "annotation karpenter.sh/do-not-disrupt of Pod shop/report-1",
        "b-3": "consolidateAfter of NodePool general ends in 8 min",
    }


def test_without_instance_types_only_empty_nodes_are_predicted(example: Example) -> None:
    status, out, _ = example.run()
    assert status == 0
    assert "not predicted: drifted and underutilized nodes (only with --instance-types)" in out.splitlines()[0]
    example.remove("web-1")
    _, out, _ = example.run()
    assert out.startswith("Karpenter next removes 1 empty node: a-1\n")


def test_a_cluster_state_without_nodeclaims_has_no_answer(example: Example) -> None:
    example.remove("NodeClaim")
    status, out, err = example.run(*TYPES)
    assert (status, out) == (3, "")
    assert "no NodeClaims of Karpenter" in err


def test_a_budget_of_zero_keeps_all_nodes(example: Example) -> None:
    example.get("NodePool")["spec"]["disruption"]["budgets"] = [{"nodes": "0", "reasons": ["Underutilized"]}]
    answer = example.answer()
    assert names(answer) == []
    assert reasons(answer)["a-1"] == "disruption budget of NodePool general"
    assert answer["budgets"] == [
        {"nodePool": "general", "nodes": 5, "empty": None, "drifted": None, "underutilized": 0}
    ]


def test_a_budget_of_one_leaves_the_choice_between_equal_nodes(example: Example) -> None:
    example.get("NodePool")["spec"]["disruption"]["budgets"] = [{"nodes": "1"}]
    answer = example.answer()
    assert sorted([names(answer), *answer["alternatives"]]) == [["a-1"], ["b-1"]]
    assert "or it removes" in example.run(*TYPES)[1]
    (other,) = {"a-1", "b-1"} - {*names(answer)}
    assert reasons(answer)[other] == "not checked, because Karpenter removes other nodes first"


@pytest.mark.parametrize(
    ("disruption", "allowed"),
    [
        ({"consolidateAfter": "0s"}, 1),
        ({"consolidateAfter": "0s", "budgets": None}, 1),
        ({"consolidateAfter": "0s", "budgets": [{"reasons": ["Underutilized"]}]}, 1),
        ({"consolidateAfter": "0s", "budgets": []}, None),
        ({"consolidateAfter": "0s", "budgets": [{"nodes": "40%"}]}, 2),
        (None, 1),
    ],
    ids=["no budgets", "null", "no nodes", "empty", "its own", "no disruption"],
)
def test_a_node_pool_of_a_file_has_the_defaults_of_kube_apiserver(
    disruption: Any, allowed: int | None, example: Example
) -> None:
    """One budget of 10 % of 5 nodes, and consolidateAfter 0s, as in pkg/apis/v1/nodepool.go."""
    spec = example.get("NodePool")["spec"]
    spec["disruption"] = disruption
    if disruption is None:
        del spec["disruption"]
    answer = example.answer()
    assert answer["budgets"][0]["underutilized"] == allowed
    assert len(names(answer)) == (allowed or 2)


def one_node_with_one_pod(example: Example) -> Any:
    """Keep only node a-2; returns its Pod."""
    example.remove("Pod", "PodDisruptionBudget")
    for name in ("a-1", "b-1", "b-2", "b-3"):
        example.remove(name, f"general-{name}")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "shop", "creationTimestamp": "2026-05-04T09:00:00Z"},
        "spec": {"nodeName": "a-2", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"},
    }
    example.objects.append(pod)
    return pod


def test_a_node_is_replaced_only_by_a_cheaper_one(example: Example) -> None:
    pod = one_node_with_one_pod(example)
    answer = example.answer()
    assert names(answer) == ["a-2"]
    assert [(new["instanceType"], new["price"], new["pods"]) for new in answer["added"]] == [
        ("m5.large", 0.1, ["shop/web-1"])
    ]
    pool = example.get("NodePool")["spec"]["template"]["spec"]
    required, pool["requirements"] = pool["requirements"], []
    assert [(new["instanceType"], new["fails"]) for new in example.answer()["added"]] == [("m5.large", True)]
    assert "the launch fails" in example.run(*TYPES)[1]
    pool["requirements"] = required
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    assert reasons(example.answer()) == {"a-2": "no cheaper node is possible"}


def test_a_removal_does_not_wait_for_a_used_up_reservation(example: Example, tmp_path: Path) -> None:
    one_node_with_one_pod(example)
    example.get("NodePool")["spec"]["template"]["spec"]["requirements"][0]["values"] = ["on-demand", "reserved"]
    types = yaml.safe_load((EXAMPLE / "instance-types.yaml").read_text())
    reserved = {"capacityType": "reserved", "reservationId": "r", "reservationCapacity": 0, "price": 0.0001}
    types[0]["offerings"].append({**types[0]["offerings"][0], **reserved})
    file = tmp_path / "types.json"
    file.write_text(json.dumps(types))
    answer = json.loads(example.run("--instance-types", str(file), "-o", "json")[1])
    assert names(answer) == ["a-2"]


def test_a_drifted_node_is_removed_and_one_of_an_older_nodepool_is_named(example: Example) -> None:
    pool = example.get("NodePool")["metadata"]
    pool["annotations"] = {"karpenter.sh/nodepool-hash": "2", "karpenter.sh/nodepool-hash-version": "v3"}
    claim = example.get("NodeClaim", "general-b-1")
    claim["metadata"]["annotations"] = {**pool["annotations"], "karpenter.sh/nodepool-hash": "1"}
    assert example.answer()["drifting"] == ["b-1"]
    claim["status"]["conditions"].append(
        {"type": "Drifted", "status": "True", "lastTransitionTime": "2026-05-04T08:50:00Z"}
    )
    answer = example.answer()
    assert (answer["reason"], names(answer), answer["drifting"]) == ("Drifted", ["b-1"], [])
    assert reasons(answer)["a-1"] == "not checked, because Karpenter removes other nodes first"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"consolidateAfter": "Never"}, "consolidateAfter of NodePool general is Never"),
        (
            {"consolidationPolicy": "WhenEmpty"},
            "consolidationPolicy of NodePool general is WhenEmpty, and the node is not empty",
        ),
    ],
)
def test_the_policy_keeps_nodes(example: Example, change: dict[str, str], reason: str) -> None:
    example.get("NodePool")["spec"]["disruption"] |= change
    answer = example.answer()
    assert (names(answer), reasons(answer)["a-1"]) == ([], reason)


def test_the_policy_balanced_is_not_predicted(example: Example) -> None:
    example.get("NodePool")["spec"]["disruption"]["consolidationPolicy"] = "Balanced"
    answer = example.answer()
    assert (names(answer), answer["notPredicted"]) == ([], "consolidationPolicy Balanced")


def test_karpenter_waits_for_a_nodeclaim_without_a_provider_id(example: Example) -> None:
    del example.get("NodeClaim", "general-b-1")["status"]["providerID"]
    answer = example.answer()
    assert (names(answer), answer["waits"]) == ([], "Karpenter waits until it knows all nodes and their NodeClaims")


def test_a_spot_node_is_not_replaced_by_a_spot_node(example: Example, tmp_path: Path) -> None:
    types = yaml.safe_load((EXAMPLE / "instance-types.yaml").read_text())
    for offering in (offering for kind in types for offering in kind["offerings"]):
        offering["capacityType"] = "spot"
    file = tmp_path / "types.json"
    file.write_text(json.dumps(types))
    example.remove("PodDisruptionBudget", "db-0")
    example.get("NodePool")["spec"]["template"]["spec"]["requirements"] = []
    for obj in example.objects:
        if obj["kind"] == "Node":
            obj["metadata"]["labels"]["karpenter.sh/capacity-type"] = "spot"
        if obj["kind"] == "NodeClaim" and obj["metadata"]["name"] != "general-a-2":
            obj["status"]["conditions"] = obj["status"]["conditions"][:1]
    for name in ("web-1", "web-2", "web-3", "report-1"):
        example.get("Pod", name)["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1900m"
    example.get("Pod", "web-1")["spec"]["nodeName"] = "a-2"
    blocker = json.loads(json.dumps(example.get("Pod", "web-2")))
    blocker["metadata"]["name"], blocker["spec"]["nodeName"] = "web-4", "a-1"
    example.objects.append(blocker)
    kept = [
        json.loads(example.run("--instance-types", str(file), "-o", "json", *more)[1])
        for more in ((), ("--spot-to-spot",))
    ]
    assert [reasons(answer)["a-2"] for answer in kept] == [
        "Karpenter replaces no spot node with a spot node (feature gate SpotToSpotConsolidation is off)",
        "SpotToSpotConsolidation needs 15 cheaper instance types, found 1",
    ]


def test_too_much_work_is_reported(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disruption, "_UNITS_OF_A_NODE", 10**8)
    answer = example.answer()
    assert "too much work" in answer["notPredicted"]


def test_too_many_budgets_are_not_predicted(example: Example) -> None:
    example.get("NodePool")["spec"]["disruption"]["budgets"] = [{"nodes": "1"}] * 51
    status, _, err = example.run(*TYPES)
    assert status != 0
    assert "51 budgets of NodePool general; forewarn evaluates at most 50" in err
