"""Node groups that forewarn finds in the objects of a cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.autoscaling.cluster_autoscaler.discovery import (
    MAX_GROUPS,
    Discovery,
    GroupCache,
    Pool,
)
from forewarn.policies.autoscaling.cluster_autoscaler.orchestrator import BACK_OFF
from forewarn.policies.cli import main
from tests.builders import make_node

if TYPE_CHECKING:
    from pathlib import Path

UUID = "0a1b2c3d-0000-1111-2222-0123456789ab"


def node(name: str, label: str = "", value: str = "", zone: str = "z1", **annotations: str) -> Any:
    made = make_node(name).has(cpu="4", memory="8Gi", pods="10").zone(zone)
    made.obj["metadata"]["annotations"] = {
        key.replace("__", "/").replace("_", "-"): text for key, text in annotations.items()
    }
    return (made.label(label, value) if label else made).obj


def status(*groups: tuple[str, int, int, int], state: str = "NoActivity", health: str = "Healthy") -> Any:
    """The status ConfigMap with groups (name, target, minimum, maximum)."""
    entries = [
        {
            "name": name,
            "health": {"status": health, "cloudProviderTarget": target, "minSize": least, "maxSize": most},
            "scaleUp": {"status": state},
        }
        for name, target, least, most in groups
    ]
    data = {"status": json.dumps({"autoscalerStatus": "Running", "nodeGroups": entries})}
    metadata = {"name": "cluster-autoscaler-status", "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pools(*objects: Any) -> list[Pool]:
    cache = GroupCache()
    for obj in objects:
        cache.add(obj)
    return cache.discovery.pools(cache.snapshot().scheduling)


@pytest.mark.parametrize(
    ("made", "name", "told"),
    [
        (
            node("gke-c-pool-1-0a1b2c3d-x1y2", "cloud.google.com/gke-nodepool", "pool-1"),
            "gke-c-pool-1-0a1b2c3d-grp",
            "https://g/zones/z/gke-c-pool-1-0a1b2c3d-grp",
        ),
        (node("ip-10", "eks.amazonaws.com/nodegroup", "web-a"), "web-a", f"eks-web-a-{UUID}"),
        (node("ip-10", "alpha.eksctl.io/nodegroup-name", "ng-1"), "ng-1", "eksctl-c-nodegroup-ng-1-NodeGroup-1ABC"),
        (
            node("aks-pool1-12345678-vmss00000a", "kubernetes.azure.com/agentpool", "pool1"),
            "aks-pool1-12345678-vmss",
            "aks-pool1-12345678-vmss",
        ),
        (node("n", "kops.k8s.io/instancegroup", "nodes-a"), "nodes-a", "nodes-a.c.example.com"),
        (
            node("n", machine_openshift_io__machine="openshift-machine-api/c-worker-a-x1y2z"),
            "MachineSet/openshift-machine-api/c-worker-a",
            "MachineSet/openshift-machine-api/c-worker-a",
        ),
    ],
    ids=["gke", "eks", "eksctl", "aks", "kops", "openshift"],
)
def test_groups_by_labels_get_their_sizes_from_the_status(made: Any, name: str, told: str) -> None:
    if annotations := made["metadata"]["annotations"]:
        made["metadata"]["annotations"] = {
            key.replace("machine-openshift-io", "machine.openshift.io"): text for key, text in annotations.items()
        }
    (pool,) = pools(made, status((told, 2, 1, 5)))
    assert pool.group is not None
    assert (pool.name, pool.group.name, pool.nodes) == (told, name, 1)
    assert (pool.group.size, pool.group.max_size, pool.group.blocked, pool.group.zones) == (2, 5, "", ("z1",))
    assert pool.template == f"node {made['metadata']['name']}"


def test_without_limits_the_maximum_is_unknown() -> None:
    (pool,) = pools(
        node("a", "eks.amazonaws.com/nodegroup", "web"), node("b", "eks.amazonaws.com/nodegroup", "web", "z2")
    )
    assert (pool.nodes, pool.zones, pool.sizes.size, pool.sizes.max_size, pool.limits) == (2, ("z1", "z2"), 2, None, "")


def test_a_group_in_backoff_does_not_grow() -> None:
    (pool,) = pools(node("a", "kops.k8s.io/instancegroup", "web"), status(("web", 1, 0, 5), state="Backoff"))
    assert pool.group is not None
    assert pool.group.blocked == BACK_OFF


def test_a_group_without_nodes_has_a_template_only_by_annotations() -> None:
    prefix = "capacity.cluster-autoscaler.kubernetes.io"
    annotations = {
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "0",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "7",
        f"{prefix}/cpu": "4",
        f"{prefix}/memory": "8Gi",
        f"{prefix}/labels": "disk=ssd,a=b",
        f"{prefix}/taints": "dedicated=x:NoSchedule",
    }
    metadata = {"name": "md-0", "namespace": "default", "annotations": annotations}
    machines = {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "MachineDeployment",
        "metadata": metadata,
        "spec": {"replicas": 0},
    }
    (empty, annotated) = sorted(pools(machines, status(("asg", 0, 0, 3))), key=lambda pool: pool.name, reverse=True)
    assert (empty.name, empty.group, empty.template) == ("asg", None, "")
    assert annotated.group is not None
    assert (annotated.name, annotated.template) == ("MachineDeployment/default/md-0", "annotations")
    assert (annotated.group.size, annotated.group.max_size) == (0, 7)
    assert annotated.group.node.labels["disk"] == "ssd"
    assert [(taint.key, taint.value, taint.effect) for taint in annotated.group.node.taints] == [
        ("dedicated", "x", "NoSchedule")
    ]
    del annotations["cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"]
    assert [pool.sizes.min_size for pool in pools(machines)] == [0]


def test_the_flags_of_cluster_autoscaler() -> None:
    flags = [
        "--expander=priority,least-waste",
        "--balance-similar-node-groups",
        "--max-nodes-total=40",
        "--cores-total=0:100",
    ]
    flags += [
        "--nodes=1:9:web",
        "--expendable-pods-priority-cutoff=-5",
        "--balancing-ignore-label=team",
        "--cloud-provider=aws",
    ]
    container = {"name": "c", "image": "registry.example.com/autoscaling/cluster-autoscaler:v1.36.1", "args": flags}
    spec = {"template": {"spec": {"containers": [container]}}}
    discovery = Discovery()
    assert not discovery.take({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ca"}, "spec": spec})
    settings = discovery.settings
    assert settings.expanders == ("priority", "least-waste")
    assert (settings.balance_similar, settings.max_nodes_total, settings.limits) == (True, 40, {"cpu": 100})
    assert {"team", "eks.amazonaws.com/nodegroup"} <= settings.ignored_labels
    assert discovery.cutoff == -5


@pytest.mark.parametrize(
    "obj",
    [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "cluster-autoscaler-status"},
            "data": {"status": "{[}"},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "cluster-autoscaler-status"},
            "data": {"status": 1},
        },
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-autoscaler-status"}},
        status(("g", 2**40, -1, 2**70)),
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": {"template": {"spec": {"containers": [1, {"args": [2]}]}}},
        },
        {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineSet", "metadata": {"annotations": ["x"]}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"kops.k8s.io/instancegroup": 3}}},
    ],
)
def test_what_cannot_be_read_counts_as_absent(obj: Any) -> None:
    discovery, cache = Discovery(), GroupCache()
    discovery.take(obj)
    assert all(pool.sizes.max_size is None for pool in discovery.pools(cache.snapshot().scheduling))


def test_the_number_of_groups_is_bounded() -> None:
    named = [(f"g{number}", 1, 0, 2) for number in range(3 * MAX_GROUPS)]
    nodes = [node(f"n{number}", "kops.k8s.io/instancegroup", f"h{number}") for number in range(MAX_GROUPS + 5)]
    assert len(pools(*nodes, status(*named))) == MAX_GROUPS


def test_info_node_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.json"
    objects = [node("a", "kops.k8s.io/instancegroup", "web"), node("b", "kops.k8s.io/instancegroup", "db")]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects, status(("web", 1, 0, 5))]}))
    assert main(["info", "node-groups", "--cluster", str(file)]) == 0
    first, settings, *rows = capsys.readouterr().out.splitlines()
    assert (first, settings) == ("2 node groups, 1 of them may grow", "cluster-autoscaler: expander least-waste")
    assert "maximum unknown" in "\n".join(rows)
    assert main(["info", "node-groups", "--cluster", str(file), "-o", "json"]) == 0
    groups = {group["name"]: group for group in json.loads(capsys.readouterr().out)["nodeGroups"]}
    assert (groups["web"]["maxSize"], groups["web"]["notUsed"]) == (5, "")
    assert (groups["db"]["maxSize"], groups["db"]["notUsed"]) == (None, "maximum unknown")
