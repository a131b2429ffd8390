"""`forewarn why` of Pods that a real kubelet ends, with containers that are only data (hollow_kubelet/).

The tests run in this order on one node, n1: 2 CPUs, 1Gi of memory, of which the node itself uses 200Mi, 10Gi of disk,
1000 processes.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.api import identity
from tests.e2e.build import DEFAULT, HOLLOW_KUBELET, MINOR, binaries
from tests.e2e.explaining import delete_events, messages, record, why
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.api import Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.whole,
    pytest.mark.skipif(MINOR != DEFAULT, reason="the kubelet is that of the default minor"),
    pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kubelet reads /dev/kmsg"),
]

KUBELET = "kubelet-n1"
CONTROLLERS = ("node-lifecycle", "taint-eviction", "pod-garbage-collector", "job")
GRACE = ("--node-monitor-grace-period=8s", "--node-monitor-period=1s")
PATIENCE = 90
PIDS = 1000
OWN_PROC = """for each in loadavg sys/kernel/pid_max
do mount --bind "$0/$(basename $each)" "/proc/$each" || exit
done
exec "$@\""""
"""Runs a command with the files of the directory $0 as those of the kernel."""


def start_kubelet(plane: ControlPlane, stage: Stage, name: str = "n1") -> None:
    program, root = binaries(HOLLOW_KUBELET) / "hollow-kubelet", plane.home / f"kubelet-{name}-files"
    root.mkdir(exist_ok=True)
    (root / "loadavg").write_text("0 0 0 1/1 1\n")
    (root / "pid_max").write_text(f"{PIDS}\n")
    flags = [f"--kubeconfig={plane.kubeconfig()}", f"--name={name}", f"--root={root}", f"--loadavg={root}/loadavg"]
    command = ["unshare", "--mount", "sh", "-c", OWN_PROC, str(root), str(program), *flags]
    plane.processes.start(f"kubelet-{name}", command)
    wait_until(lambda: condition(stage, "Ready", name) == "True", PATIENCE, f"the kubelet reports that {name} is ready")


def condition(stage: Stage, kind: str, name: str = "n1") -> str:
    nodes = [node for node in stage.api.list("Node") if node["metadata"]["name"] == name]
    conditions = [each for node in nodes for each in node["status"].get("conditions", ())]
    return "".join(each["status"] for each in conditions if each["type"] == kind)


def has_no(stage: Stage, kind: str) -> None:
    wait_until(lambda: condition(stage, kind) == "False", PATIENCE, f"n1 has no {kind}")


def running(stage: Stage) -> set[str]:
    pods = stage.api.list("Pod", "default")
    return {each["metadata"]["name"] for each in pods if each["status"]["phase"] == "Running"}


@pytest.fixture(scope="module", autouse=True)
def node(plane: ControlPlane, stage: Stage) -> Iterator[None]:
    plane.start_controllers(*(f"{name}-controller" for name in CONTROLLERS), flags=GRACE)
    start_kubelet(plane, stage)
    yield
    for name in (KUBELET, "kubelet-n2"):
        if plane.processes.runs(name):
            plane.processes.stop(name, signal.SIGKILL)
    plane.processes.stop("kube-controller-manager")
    stage.clear()


@pytest.fixture(autouse=True)
def emptied(stage: Stage) -> Iterator[None]:
    delete_events(stage.api)
    yield
    for kind in ("Job", "Pod"):
        for obj in stage.api.list(kind, "default"):
            stage.api.delete(obj, gracePeriodSeconds="0", propagationPolicy="Background")


def pod(name: str, *args: str, container: Obj | None = None, **spec: Any) -> Obj:
    """A Pod whose container does what `args` say (hollow_kubelet/containers.go)."""
    app = {"name": "app", "image": "img", "args": [*args], **(container or {})}
    return {**identity("Pod", name), "spec": {"containers": [app], **spec}}


def resources(limits: bool = False, **amounts: str) -> Obj:
    named = {key.replace("_", "-"): amount for key, amount in amounts.items()}
    return {"resources": {"limits" if limits else "requests": named}}


def explained(plane: ControlPlane, stage: Stage, recording: str, expected: dict[str, str]) -> dict[str, Obj]:
    """The answers once each Pod has its cause; they are recorded."""
    found: dict[str, Obj] = {}

    def complete() -> bool:
        for name, cause in expected.items():
            if name not in found and cause in messages(answer := why(plane, name)):
                found[name] = answer
        return len(found) == len(expected)

    wait_until(complete, PATIENCE, lambda: f"causes of { ({*expected} - {*found}) }")
    record(plane, stage, recording)
    return {name: why(plane, name) for name in expected}


def test_containers_that_end(plane: ControlPlane, stage: Stage) -> None:
    probe = {
        "exec": {"command": ["check"]},
        "periodSeconds": 1,
        "failureThreshold": 2,
        "terminationGracePeriodSeconds": 1,
    }
    cache = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
    limited = {"volumes": [{"name": "cache", "emptyDir": {"sizeLimit": "1Mi"}}]}
    for made in (
        pod("oom", "memory=300Mi", container=resources(True, memory="200Mi"), restartPolicy="Never"),
        pod("oom-restarts", "memory=300Mi", container=resources(True, memory="200Mi")),
        pod("failed", "exit=3", restartPolicy="Never"),
        pod("crash", "exit=3"),
        pod("init", initContainers=[{"name": "setup", "image": "img", "args": ["exit=4"]}], restartPolicy="Never"),
        pod("deadline", activeDeadlineSeconds=3),
        pod("probe", "unhealthy", "stubborn", container={"livenessProbe": probe}),
        pod("image", container={"image": "missing"}),
        pod("volume", "file=/cache/a:2Mi", container=cache, **limited),
        pod("layer", "disk=200Mi", container=resources(True, ephemeral_storage="100Mi")),
    ):
        stage.api.create(made)
    expected = {
        "oom": "oom-killed",
        "oom-restarts": "oom-killed",
        "failed": "container-failed",
        "crash": "container-failed",
        "init": "container-failed",
        "deadline": "deadline-exceeded",
        "probe": "container-failed",
        "image": "container-waiting",
        "volume": "storage-limit-exceeded",
        "layer": "storage-limit-exceeded",
    }
    answers = explained(plane, stage, "kubelet-containers", expected)
    assert "its liveness probe failed" in messages(answers["probe"])["container-failed"]


def test_pods_that_the_kubelet_rejects(plane: ControlPlane, stage: Stage) -> None:
    sysctls = {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}
    profile = {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}
    strict = {"supplementalGroupsPolicy": "Strict"}
    label = {"labels": {"kubernetes.io/os": "windows"}}
    for made in (
        pod("cpu", container=resources(cpu="3")),
        pod("memory", container=resources(memory="2Gi")),
        pod("affinity", nodeSelector={"disk": "hdd"}),
        pod("sysctl", securityContext=sysctls),
        pod("apparmor", container=profile),
        pod("groups", securityContext=strict),
        pod("windows", os={"name": "windows"}),
        {**pod("label"), "metadata": {"name": "label", "namespace": "default", **label}},
        pod("port", container={"ports": [{"containerPort": 80, "hostPort": 80}]}),
        pod("port-again", container={"ports": [{"containerPort": 80, "hostPort": 80}]}),
    ):
        made["spec"]["nodeName"] = "n1"
        stage.api.create(made)
    # Whether the kubelet admits `apparmor` depends on the machine; one of the two Pods with a port is admitted.
    rejected = ("cpu", "memory", "affinity", "sysctl", "groups", "windows", "label")
    explained(plane, stage, "kubelet-rejects", dict.fromkeys(rejected, "rejected-by-kubelet"))


def test_a_critical_pod_preempts(plane: ControlPlane, stage: Stage) -> None:
    stage.api.create(pod("low", container=resources(cpu="1500m")))
    wait_until(lambda: "low" in running(stage), PATIENCE, "low runs")
    critical = pod("critical", container=resources(cpu="1"), priorityClassName="system-node-critical", nodeName="n1")
    stage.api.create(critical)
    explained(plane, stage, "kubelet-preempts", {"low": "preempted-by-kubelet"})


def test_memory_pressure(plane: ControlPlane, stage: Stage) -> None:
    stage.api.create(pod("small", "memory=50Mi", container=resources(memory="100Mi")))
    stage.api.create(pod("hog", "memory=700Mi", container=resources(memory="100Mi")))
    wait_until(lambda: condition(stage, "MemoryPressure") == "True", PATIENCE, "n1 has MemoryPressure")
    wait_until(lambda: "node-pressure-evicted" in messages(why(plane, "hog")), PATIENCE, "hog is evicted")
    stage.api.create(pod("rejected", nodeName="n1"))
    explained(plane, stage, "kubelet-memory", {"hog": "node-pressure-evicted", "rejected": "rejected-by-kubelet"})


def test_disk_pressure_fails_a_job(plane: ControlPlane, stage: Stage) -> None:
    has_no(stage, "MemoryPressure")
    spec = pod("writer", "disk=8500Mi", container=resources(ephemeral_storage="1Gi"), restartPolicy="Never")["spec"]
    stage.api.create({**identity("Job", "writer"), "spec": {"backoffLimit": 0, "template": {"spec": spec}}})
    wait_until(lambda: stage.api.list("Pod", "default"), PATIENCE, "the Pod of the Job is created")
    (name,) = (each["metadata"]["name"] for each in stage.api.list("Pod", "default"))
    explained(plane, stage, "kubelet-disk", {name: "job-failed"})


def test_pressure_by_a_soft_threshold(plane: ControlPlane, stage: Stage) -> None:
    has_no(stage, "DiskPressure")
    stage.api.create(pod("steady", "memory=690Mi", container=resources(memory="100Mi")))
    answers = explained(plane, stage, "kubelet-soft", {"steady": "node-pressure-evicted"})
    assert "(available 134Mi, threshold 150Mi)" in messages(answers["steady"])["node-pressure-evicted"]


def test_pressure_by_files(plane: ControlPlane, stage: Stage) -> None:
    has_no(stage, "MemoryPressure")
    stage.api.create(pod("files", "inodes=500000"))
    answers = explained(plane, stage, "kubelet-inodes", {"files": "node-condition"})
    assert messages(answers["files"])["node-condition"] == "n1 has DiskPressure"
    assert "node-pressure-evicted" in messages(answers["files"])


def test_pressure_by_processes(plane: ControlPlane, stage: Stage) -> None:
    has_no(stage, "DiskPressure")
    stage.api.create(pod("forks", "processes=850"))
    answers = explained(plane, stage, "kubelet-pids", {"forks": "node-condition"})
    assert messages(answers["forks"])["node-condition"] == "n1 has PIDPressure"
    assert "node-pressure-evicted" in messages(answers["forks"])


def test_a_shutdown_of_the_node(plane: ControlPlane, stage: Stage) -> None:
    has_no(stage, "PIDPressure")
    stage.api.create(pod("web"))
    wait_until(lambda: "web" in running(stage), PATIENCE, "web runs")
    os.kill(plane.processes.pid(KUBELET), signal.SIGUSR1)
    wait_until(lambda: "node-shutdown" in messages(why(plane, "web")), PATIENCE, "web is terminated")
    stage.api.create(pod("late", nodeName="n1"))
    explained(plane, stage, "kubelet-shutdown", {"web": "node-shutdown", "late": "rejected-by-kubelet"})
    plane.processes.stop(KUBELET, signal.SIGKILL)


def test_a_node_that_is_lost_and_then_deleted(plane: ControlPlane, stage: Stage) -> None:
    start_kubelet(plane, stage)
    start_kubelet(plane, stage, "n2")  # The node lifecycle controller evicts nothing if all nodes are lost.
    away = [
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    ]
    stage.api.create(pod("web", tolerations=away, nodeName="n1"))
    stage.api.create(pod("patient", nodeName="n1"))
    wait_until(lambda: running(stage) >= {"web", "patient"}, PATIENCE, "web and patient run")
    plane.processes.stop(KUBELET, signal.SIGKILL)
    answers = explained(plane, stage, "kubelet-lost", {"web": "stuck-terminating"})
    assert {"taint-evicted", "node-not-ready"} <= {*messages(answers["web"])}
    stage.api.delete(stage.api.get("Node", "n1"))
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    stage.api.patch(stage.api.get("Pod", "patient"), hold)
    explained(plane, stage, "kubelet-node-deleted", {"patient": "node-gone"})
    stage.api.patch(stage.api.get("Pod", "patient"), {"metadata": {"finalizers": None}})
