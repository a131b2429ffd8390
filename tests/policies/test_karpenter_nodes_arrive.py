"""Karpenter's nodes arrive in simulations: `whatif lose` with NodePools and instance types."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from forewarn.policies.cli.main import main
from forewarn.policies.questions.whatif import karpenter

if TYPE_CHECKING:
    from pathlib import Path

    Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.usefixtures("no_fixes")

CLUSTER = "docs/examples/whatif/cluster.yaml"


def instance_type(cpu: int) -> dict[str, Any]:
    offerings = [{"zone": zone, "capacityType": "spot", "price": cpu, "available": True} for zone in "ab"]
    capacity = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "20"}
    return {"name": f"m.{cpu}", "capacity": capacity, "offerings": offerings}


def node_pool(**spec: Any) -> dict[str, Any]:
    metadata, template = {"name": "default"}, {"spec": {"requirements": spec.pop("requirements", [])}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": metadata,
        "spec": {"template": template, **spec},
    }


@pytest.fixture
def lost(tmp_path: Path, capsys: Capture) -> Any:
    def ask(*pools: Any, text: bool = False) -> Any:
        with open(CLUSTER, encoding="utf-8") as file:
            documents = [*filter(None, yaml.safe_load_all(file)), *pools]
        (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(documents))
        (tmp_path / "types.json").write_text(json.dumps([instance_type(2), instance_type(4)]))
        files = ("--cluster", str(tmp_path / "cluster.yaml"), "--instance-types", str(tmp_path / "types.json"))
        assert main(["whatif", "lose", "zone", "a", *files, *(() if text else ("-o", "json"))]) == 0
        answer = capsys.readouterr().out
        return answer if text else json.loads(answer)

    return ask


def test_lost_replicas_run_again_on_karpenters_nodes(lost: Any) -> None:
    answer = lost(node_pool())
    (launch,) = answer["autoscalers"]["nodePools"]["launches"]
    assert (launch["nodePool"], launch["instanceType"], launch["nodes"]) == ("default", "m.4", 2)
    assert answer["head"]["assumes"][-1] == "no consolidation, drift or expiration (not predicted)"
    arrived = answer["withNewNodes"]
    assert (arrived["nodes"], arrived["running"], arrived["pending"]) == ({"default": 2}, 8, 0)
    assert "; 2 new nodes after 4 min 6 s leave no Pod Pending\n" in lost(node_pool(), text=True)


def deployment(*args: str, **environment: str) -> dict[str, Any]:
    """The Deployment of Karpenter."""
    env = [{"name": name, "value": value} for name, value in environment.items()]
    container = {"name": "c", "image": "public.ecr.aws/karpenter/controller:1.14.0", "args": [*args], "env": env}
    spec = {"replicas": 0, "selector": {}, "template": {"spec": {"containers": [container]}}}
    metadata = {"name": "karpenter", "namespace": "kube-system"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    ("made", "respected"),
    [
        (deployment(), True),
        (deployment(PREFERENCE_POLICY="Respect"), True),
        (deployment(PREFERENCE_POLICY="Ignore"), False),
        (deployment("--preference-policy=Ignore"), False),
        (deployment("--preference-policy", "Respect", PREFERENCE_POLICY="Ignore"), True),
    ],
)
def test_the_preference_policy_of_karpenter(made: Any, respected: bool, lost: Any) -> None:
    expression = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m.4"]}
    preference = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "reports"},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "nodeSelector": {"for": "p"},
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}},
        },
    }
    pool = node_pool(requirements=[{"key": "for", "operator": "In", "values": ["p"]}])
    launches = lost(pool, pod, made)["autoscalers"]["nodePools"]["launches"]
    first = next(each for each in launches if "reports/p" in [of["workload"] for of in each["workloads"]])
    assert first["instanceType"] == ("m.4" if respected else "m.2")


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (deployment(BATCH_IDLE_DURATION="5s"), "--batch-idle-duration"),
        (deployment("--batch-max-duration=1m"), "--batch-max-duration"),
        (deployment(IGNORE_DRA_REQUESTS="false"), "--ignore-dra-requests"),
        (
            deployment(FEATURE_GATES="ReservedCapacity=false,NodeOverlay=true"),
            "feature gate ReservedCapacity, feature gate NodeOverlay",
        ),
        (node_pool(replicas=2), "static NodePools"),
        (deployment(FEATURE_GATES="ReservedCapacity=true,NodeRepair=true", BATCH_IDLE_DURATION="1s"), ""),
    ],
)
def test_the_head_names_settings_of_karpenter_that_are_not_modelled(made: Any, told: str, lost: Any) -> None:
    clauses = [clause for clause in lost(node_pool(), made)["head"]["assumes"] if "no effect" in clause]
    assert clauses == ([f"no effect of {told} of Karpenter (not modelled)"] if told else [])


WITHOUT_TYPES = ["no new nodes of Karpenter (not predicted without instance types)"]


@pytest.mark.parametrize(
    ("command", "removals"),
    [
        (["whatif", "lose", "zone", "a"], True),
        (["whatif", "lose", "--each", "zone"], True),
        (["whatif", "apply", "-f", CLUSTER], True),
        (["risk"], True),
        (["audit"], False),
    ],
)
def test_heads_name_what_karpenter_does_without_instance_types(
    command: list[str], removals: bool, tmp_path: Path, capsys: Capture
) -> None:
    with open(CLUSTER, encoding="utf-8") as file:
        documents = [*filter(None, yaml.safe_load_all(file)), node_pool()]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(documents))

    def assumed(*more: str) -> list[str]:
        main([*command, "--cluster", str(tmp_path / "cluster.yaml"), "-o", "json", *more])
        return [each for each in json.loads(capsys.readouterr().out)["head"]["assumes"] if "not predicted" in each]

    assert assumed() == WITHOUT_TYPES + ["no consolidation, drift or expiration (not predicted)"] * removals
    assert assumed("--no-autoscaler") == []


def test_no_node_arrives_in_the_lost_zone(lost: Any) -> None:
    in_a = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    answer = lost(node_pool(requirements=[in_a]))
    assert "withNewNodes" not in answer
    (reason,) = answer["autoscalers"]["nodePools"]["noLaunch"]
    assert (reason["workload"], reason["pods"]) == ("reports/nightly", 4)
    assert "filtered out all available instance types" in reason["reason"]


def stateful_set(replicas: int) -> list[dict[str, Any]]:
    """A node of zone a, a StatefulSet whose Pods of 3 cpu run there, each created after the one before is ready, and
    the NodePool of their new nodes."""
    of_node = {"cpu": "16", "memory": "64Gi", "pods": "20"}
    labels = {"topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": "a-9"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a-9", "labels": labels}}
    metadata = {"name": "db", "namespace": "shop", "uid": "db"}
    spec: dict[str, Any] = {"containers": [{"name": "c", "image": "db", "resources": {"requests": {"cpu": "3"}}}]}
    spec |= {"nodeSelector": {"for": "db"}, "tolerations": [{"key": "for", "operator": "Exists"}]}
    pool = node_pool(limits={"cpu": "16"})
    taint = {"key": "for", "value": "db", "effect": "NoSchedule"}
    pool["metadata"]["name"] = "db"
    pool["spec"]["template"] = {"metadata": {"labels": {"for": "db"}}, "spec": {"requirements": [], "taints": [taint]}}
    template = {"metadata": {"labels": {"app": "db"}}, "spec": spec}
    selector = {"selector": {"matchLabels": {"app": "db"}}, "serviceName": "db", "podManagementPolicy": "OrderedReady"}
    set_ = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db", "controller": True}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"db-{number}",
                "namespace": "shop",
                "labels": {"app": "db"},
                "ownerReferences": [owner],
            },
            "spec": {**spec, "nodeName": "a-9", "priority": 100},
            "status": {"phase": "Running", "startTime": "2026-05-04T08:00:00Z"},
        }
        for number in range(replicas)
    ]
    return [
        pool,
        {**node, "status": {"capacity": of_node, "allocatable": of_node}},
        {**set_, "spec": {"replicas": replicas, "template": template, **selector}},
        *pods,
    ]


def of_stateful_set(answer: Any) -> dict[str, Any]:
    (found,) = (each for each in answer["withNewNodes"]["workloads"] if each["workload"] == "shop/db")
    return dict(found)


def test_the_next_pod_of_a_stateful_set_gets_a_node_in_the_next_round(lost: Any) -> None:
    answer = lost(*stateful_set(3))
    (launch,) = answer["autoscalers"]["nodePools"]["launches"]
    assert (launch["nodes"], launch["workloads"]) == (3, [{"workload": "shop/db", "pods": 3}])
    assert answer["withNewNodes"]["nodes"] == {"db": 3}
    found = of_stateful_set(answer)
    assert (found["before"], found["withoutNewNodes"], found["after"], found["pending"]) == (3, 0, 3, 0)
    assert found["at"] > answer["withNewNodes"]["firstNodeAt"] + 2 * 180


def test_rounds_are_bounded(lost: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(karpenter, "_MAX_LAUNCHES", 1)
    answer = lost(*stateful_set(5))
    found = of_stateful_set(answer)
    assert (found["after"], found["pending"], answer["withNewNodes"]["nodesNotSimulated"]) == (1, 1, 1)


def test_nodes_of_earlier_rounds_count_for_limits(lost: Any) -> None:
    answer = lost(*stateful_set(5))
    found = of_stateful_set(answer)
    assert (answer["withNewNodes"]["nodes"], found["after"], found["pending"]) == ({"db": 4}, 4, 1)


def test_limits_of_the_node_pool(lost: Any) -> None:
    answer = lost(node_pool(limits={"cpu": "5"}))
    assert answer["withNewNodes"]["nodes"] == {"default": 1}
    (reason,) = answer["autoscalers"]["nodePools"]["noLaunch"]
    assert reason["reason"].startswith("all available instance types exceed limits for nodepool")


def test_a_cluster_without_node_pools(lost: Any) -> None:
    (reason,) = lost()["autoscalers"]["nodePools"]["noLaunch"]
    assert (reason["pods"], reason["reason"]) == (4, "no dynamic nodepools found")


def test_what_is_not_modelled_is_named(lost: Any) -> None:
    wrong = node_pool(requirements=[{"key": "x", "operator": "Like", "values": ["y"]}])
    told = "NodePool default: operator 'Like' is not known"
    assert lost(wrong)["autoscalers"]["nodePools"]["notPredicted"] == told
    assert f"nodes of Karpenter not predicted: {told}" in lost(wrong, text=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"name": "m", "capacity": {"cpu": "x"}}]', "types.json: "),
        ("", "no instance types"),
        ("[]", "no instance types"),
    ],
)
def test_a_wrong_file_of_instance_types(text: str, message: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "types.json").write_text(text)
    with pytest.raises(SystemExit):
        main(["whatif", "lose", "zone", "a", "--cluster", CLUSTER, "--instance-types", str(tmp_path / "types.json")])
    assert message in capsys.readouterr().err


def test_a_pod_of_a_later_round_without_a_node_is_explained(lost: Any) -> None:
    reaction = lost(*stateful_set(5))["autoscalers"]
    (reason,) = (each for each in reaction["nodePools"]["noLaunch"] if each["workload"] == "shop/db")
    assert (reason["pods"], reaction["karpenter"]["considered"]) == (1, 9)
    assert reason["reason"].startswith("all available instance types exceed limits for nodepool")
    text = lost(*stateful_set(5), text=True)
    assert "; 4 new nodes after 4 min 6 s leave 5 Pending\n" in text


def test_what_a_limit_of_rounds_leaves_out_is_reported(lost: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(karpenter, "_MAX_LAUNCHES", 1)
    assert "nodes of Karpenter not predicted: further nodes (limit of nodes or rounds reached)" in lost(
        *stateful_set(5), text=True
    )
