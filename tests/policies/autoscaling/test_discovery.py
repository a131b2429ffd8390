"""Node groups that forewarn finds in the objects of a cluster."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.discovery import (
    MAX_GROUPS,
    Discovery,
    GroupCache,
    Pool,
)
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.orchestrator import BACK_OFF, SCALE_UP_FLAGS
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.scale_down import SCALE_DOWN_FLAGS
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
    assert (pool.group.size, pool.group.max_size, pool.group.blocked, pool.group.zones) == (2, 5, None, ("z1",))
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


READ = """
    --balance-similar-node-groups --balancing-ignore-label=team --blocking-system-pod-distruption-timeout=2h
    --cloud-provider=aws --cordon-node-before-terminating=false --cores-total=0:100 --expander=random
    --expendable-pods-priority-cutoff=-5 --force-ds --frequent-loops-enabled=false --ignore-daemonsets-utilization
    --ignore-mirror-pods-utilization --ignore-taint=starting --max-drain-parallelism=2
    --max-graceful-termination-sec=30 --max-node-startup-time=1h --max-nodes-total=40 --max-pod-eviction-time=1m
    --max-scale-down-parallelism=5 --max-total-unready-percentage=33 --memory-total=0:100 --min-replica-count=2
    --namespace=autoscaler --node-delete-delay-after-taint=1s --node-deletion-delay-timeout=5m --nodes=1:9:web
    --ok-total-unready-count=0 --scale-down-delay-after-add=1m --scale-down-delay-after-delete=1m
    --scale-down-enabled=false --scale-down-gpu-utilization-threshold=0.7 --scale-down-unneeded-time=1m
    --scale-down-unready-enabled=false --scale-down-unready-time=1m --scale-down-utilization-threshold=0.7
    --scale-from-unschedulable --scan-interval=30s --skip-nodes-with-custom-controller-pods=false
    --skip-nodes-with-local-storage=false --skip-nodes-with-system-pods=false --startup-taint=starting
    --startup-taint-prefix=start --status-taint=starting --unremovable-node-recheck-timeout=1m
"""
NAMED = """
    --allowed-scheduler-names=a --async-node-groups --balancing-label=a --bypassed-scheduler-names=a
    --capacity-buffer-pod-injection-enabled --capacity-quotas-enabled --daemonset-eviction-for-empty-nodes
    --drain-priority-config=1:2 --dynamic-node-delete-delay-after-taint-enabled --enable-csi-node-aware-scheduling
    --enable-proactive-scaleup --enable-provisioning-requests --enforce-node-group-min-size --estimator=other
    --fastpath-binpacking-enabled --feature-gates=A=true --gpu-total=amd.com/gpu:0:9
    --max-allocatable-difference-ratio=0.1 --max-free-difference-ratio=0.1 --max-nodes-per-scaleup=9
    --memory-difference-ratio=0.1 --new-pod-scale-up-delay=30s --node-deletion-batcher-interval=10s
    --node-deletion-candidate-ttl=1h --salvo-scale-up --scale-down-delay-type-local --scale-up-from-zero=false
    --scheduler-config-file=a --status-config-map-name=a --of-a-later-version
"""
IRRELEVANT = """
    --address=a --aws-use-static-instance-list --bulk-mig-instances-listing-enabled
    --capacity-buffer-controller-enabled --capacity-buffer-pod-dry-run-enabled=false --check-capacity-batch-processing
    --check-capacity-processor-instance=a --check-capacity-provisioning-request-batch-timebox=1s
    --check-capacity-provisioning-request-max-batch-size=1 --cloud-config=a --cluster-name=a
    --cluster-snapshot-parallelism=1 --clusterapi-cloud-config-authoritative
    --daemonset-eviction-for-occupied-nodes=false --debugging-snapshot-enabled --emit-per-nodegroup-metrics
    --enable-dynamic-resource-allocation --force-delete-failed-nodes --force-delete-unregistered-nodes
    --gce-concurrent-refreshes=2 --gce-mig-instances-min-refresh-wait-time=1s --grpc-expander-cert=a
    --grpc-expander-url=a --initial-node-group-backoff-duration=1m --kube-api-content-type=a --kube-client-burst=1
    --kube-client-qps=1 --kubeconfig=a --kubernetes=a --max-binpacking-time=1m --max-bulk-soft-taint-count=0
    --max-bulk-soft-taint-time=1s --max-failing-time=1m --max-inactivity=1m --max-node-group-backoff-duration=1m
    --max-node-provision-time=5m --max-node-skip-eval-time-tracker-enabled --max-nodegroup-binpacking-duration=1s
    --max-startup-time=1m --node-group-auto-discovery=a --node-group-backoff-reset-timeout=1h
    --node-info-cache-expire-time=1h --node-removal-latency-tracking-enabled --parallel-scale-up
    --pod-injection-limit=1 --predicate-parallelism=1 --profiling --provisioning-request-initial-backoff-time=1s
    --provisioning-request-max-backoff-cache-size=1 --provisioning-request-max-backoff-time=1s
    --record-duplicated-events --regional --salvo-scale-up-budget=1s --scale-down-candidates-pool-min-count=1
    --scale-down-candidates-pool-ratio=1 --scale-down-delay-after-failure=1m
    --scale-down-non-empty-candidates-count=1 --scale-down-simulation-timeout=1s
    --scaleup-simulation-for-skipped-node-groups-enabled --user-agent=a --write-status-configmap=false
    --leader-elect=false --leader-elect-lease-duration=1s --logtostderr --logging-format=json --stderrthreshold=info
    --v=4 --vmodule=a=1 --new-pod-scale-up-delay=0 --scan-interval=soon --estimator=binpacking
"""
"""The flags of cluster-autoscaler 1.36.1 (config/flags/flags.go, main.go) with values that are not the default."""


@cache
def outcome(*flags: str) -> tuple[Any, ...]:
    """All that flags can change: of two nodes, one with a taint that a flag may name, and one that is not ready."""
    first, second = node("a", "kops.k8s.io/instancegroup", "web"), node("b", "kops.k8s.io/instancegroup", "web")
    first["spec"] = {"unschedulable": True, "taints": [{"key": "starting", "effect": "NoSchedule"}]}
    second["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    priorities = {"name": "cluster-autoscaler-priority-expander", "namespace": "autoscaler"}
    groups = GroupCache()
    for obj in (first, second):
        obj["metadata"]["creationTimestamp"] = "2026-05-04T09:00:00Z"
        groups.add(obj)
    groups.add({"apiVersion": "v1", "kind": "ConfigMap", "metadata": priorities, "data": {"priorities": "1: [a]"}})
    groups.add(deployment(*flags))
    found = groups.discovery
    (pool,) = found.pools(groups.snapshot().scheduling)
    return found.settings, found.cutoff, pool, found.unready("2026-05-04T09:20:00Z")


def deployment(*args: str, command: Any = None, image: str = "r.example.com/cluster-autoscaler:v1.36.1") -> Any:
    container = {"name": "c", "image": image, "command": command or ["./cluster-autoscaler"], "args": args and [*args]}
    spec = {"template": {"spec": {"containers": [container]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "ca"}, "spec": spec}


@pytest.mark.parametrize("flag", READ.split())
def test_a_flag_is_read(flag: str) -> None:
    found = outcome(flag)
    settings = found[0]
    assert repr(found) != repr(outcome())
    assert not settings.unmodelled
    assert not settings.scale_down.not_predicted


def test_every_flag_that_a_field_of_settings_declares_is_among_them() -> None:
    assert {*SCALE_UP_FLAGS, *SCALE_DOWN_FLAGS} <= {flag[2:].partition("=")[0] for flag in READ.split()}


@pytest.mark.parametrize("flag", NAMED.split())
def test_a_flag_that_is_not_modelled_is_named(flag: str) -> None:
    settings, name = outcome(flag)[0], flag[2:].partition("=")[0]
    assert settings.unmodelled == (name,) or settings.scale_down.not_predicted == f"--{name} is not modelled"
    assert outcome(flag)[1:] == outcome()[1:]


@pytest.mark.parametrize("flag", IRRELEVANT.split())
def test_a_flag_changes_nothing(flag: str) -> None:
    assert repr(outcome(flag)) == repr(outcome())


@pytest.mark.parametrize(
    "made",
    [
        deployment("--expander", "random", "--force-ds", "--scan-interval", "30s"),
        deployment("--force_ds", "-expander=random", "--scan_interval=30s"),
        deployment("--v", "4", "--force-ds", "--expander=random", "--scan-interval=30s"),
        deployment(
            command=[
                "/bin/sh",
                "-c",
                './cluster-autoscaler --expander="random" --force-ds --scan-interval=30s 1>>/log',
            ],
            image="r.example.com/mirror",
        ),
        deployment("/cluster-autoscaler", "--expander=random", "--force-ds", "--scan-interval=30s", command=["tini"]),
    ],
    ids=["separate values", "underscores", "other flags", "shell", "another program first"],
)
def test_the_spelling_of_flags(made: Any) -> None:
    found = Discovery()
    found.take(made)
    settings = found.settings
    assert (settings.expanders, settings.force_daemon_sets, settings.scan_interval) == (("random",), True, 30)
    assert settings.unmodelled == ()


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
    assert first == "2 node groups, 1 of them may grow"
    unknown = "default flags (its Deployment is not in the cluster state)"
    assert settings == f"cluster-autoscaler: {unknown}, expander least-waste"
    assert "maximum unknown" in "\n".join(rows)
    assert main(["info", "node-groups", "--cluster", str(file), "-o", "json"]) == 0
    groups = {group["name"]: group for group in json.loads(capsys.readouterr().out)["nodeGroups"]}
    assert (groups["web"]["maxSize"], groups["web"]["notUsed"]) == (5, "")
    assert (groups["db"]["maxSize"], groups["db"]["notUsed"]) == (None, "maximum unknown")


def test_info_node_groups_names_the_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.json"
    objects = [
        node("a", "kops.k8s.io/instancegroup", "web"),
        deployment("--expander=random", "--salvo-scale-up", "--v=1"),
    ]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert main(["info", "node-groups", "--cluster", str(file)]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line == "cluster-autoscaler: expander random, not modelled: --salvo-scale-up"
    assert main(["info", "node-groups", "--cluster", str(file), "-o", "json"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert (settings["found"], settings["notModelled"]) == (True, ["--salvo-scale-up"])
