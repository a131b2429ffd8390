"""`forewarn why` of Pods that ended, terminate or are gone: the cause by condition, status and Event."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from tests.builders import Made, make_budget, make_node, make_pod, make_priority_class
from tests.policies.commands.test_why_command import flat

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.builders import MadePod

T0 = "2026-11-22T03:12:07Z"
"""The time of every condition."""
LOW = (
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 82Mi. "
    "Container app was using 412Mi, request is 100Mi, has larger consumption of memory. "
)


def why(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, made: Sequence[Made], about: str, *arguments: str
) -> tuple[int, str, str]:
    dump = tmp_path / "dump.json"
    dump.write_text("\n".join(json.dumps(one.obj) for one in made))
    status = main(["why", about, "--cluster", str(dump), *arguments])
    out, err = capsys.readouterr()
    return status, out if "json" in arguments else flat(out), err


def document(capsys: pytest.CaptureFixture[str], tmp_path: Path, made: Sequence[Made], about: str) -> Any:
    return json.loads(why(capsys, tmp_path, made, about, "-o", "json")[1])


def causes(document: Any) -> list[str]:
    """The reasons of a workload, with the number of Pods."""
    return [f"{each['number']} {each['reason']}" for each in document.get("why", {"causes": ()})["causes"]]


def condition(reason: str, message: str = "", kind: str = "DisruptionTarget", status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": T0}


def pod(*conditions: dict[str, str], phase: str = "Failed", **status: Any) -> MadePod:
    return make_pod("web").priority(5).on("n1").status(conditions=[*conditions], phase=phase, **status)


def owned(made: MadePod, kind: str, name: str) -> MadePod:
    return made.metadata(ownerReferences=[{"apiVersion": "x/v1", "kind": kind, "name": name, "controller": True}])


def event(reason: str, message: str, about: str = "web", kind: str = "Pod", at: str = T0) -> Made:
    made = Made("v1", "Event", f"{about}.{reason}.{at}", "default")
    regarding = {"kind": kind, "name": about, **({} if kind == "Node" else {"namespace": "default"})}
    made.obj.update(involvedObject=regarding, reason=reason, message=message, lastTimestamp=at)
    return made


def ended(reason: str, code: int, started: str | None = None) -> dict[str, Any]:
    end = {"terminated": {"reason": reason, "exitCode": code, "startedAt": started, "finishedAt": T0}}
    return {"name": "c", "restartCount": 0, "state": end}


def job(name: str, reason: str = "BackoffLimitExceeded", message: str = "", **spec: Any) -> Made:
    made = Made("batch/v1", "Job", name, "default").spec(backoffLimit=0, template={"spec": {}}, **spec)
    return made.status(conditions=[condition(reason, message, "Failed")])


MEMORY = {"limits": {"memory": "1Gi"}}
STARTED = "2026-11-22T03:12:02Z"
KILLED = pod(containerStatuses=[ended("Error", 137, STARTED)])
LOST = make_node("n1").taint("node.kubernetes.io/unreachable", effect="NoExecute")
LOST.status(conditions=[condition("NodeStatusUnknown", "Kubelet stopped posting node status.", "Ready", "Unknown")])
CORDONED = make_node("n1").spec(unschedulable=True)
UNREADY = pod(condition("", "", "Ready", "False"), phase="Running").labels(app="web")
NOT_READY = "container-not-ready: its condition Ready is not True"
PRESSED = make_node("n1").status(conditions=[condition("KubeletHasInsufficientMemory", "", "MemoryPressure")])
PROBE = "Container c failed liveness probe, will be restarted"
SCALED = "Scaled down replica set web-5f from 3 to 2"


def pressure(at: str) -> Made:
    return event("NodeHasInsufficientMemory", "Node n1 status is now: NodeHasInsufficientMemory", "n1", "Node", at)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"name": "c", "state": {"waiting": {"reason": reason, "message": message}}}


def restarted(restarts: int) -> dict[str, Any]:
    return {"name": "c", "restartCount": restarts, "state": {"running": {}}, "lastState": ended("Error", 1)["state"]}


def crashing(reason: str, code: int) -> dict[str, Any]:
    return {**waiting("CrashLoopBackOff"), "restartCount": 7, "lastState": ended(reason, code)["state"]}


def by_kubelet(message: str) -> MadePod:
    return pod(condition("TerminationByKubelet", message), reason="Evicted", message=message)


def terminating(**metadata: Any) -> MadePod:
    made = pod(phase="Running", containerStatuses=[{"name": "c", "state": {"running": {}}}])
    return made.metadata(deletionTimestamp=T0, deletionGracePeriodSeconds=30, **metadata)


@pytest.mark.parametrize(
    ("made", "state", "expected"),
    [
        ([by_kubelet(LOW), PRESSED], "ended",
         [("node-pressure-evicted: evicted by the kubelet on n1, which was low on memory (available 82Mi, threshold "
          "100Mi): container app used 412Mi and requests 100Mi"), "node-condition: n1 has MemoryPressure"]),
        ([pod(condition("TerminationByKubelet"), reason="Evicted", message="The node was low on resource: pids. "),
          make_node("n1")], "ended", ["node-pressure-evicted: evicted by the kubelet on n1, which was low on pids"]),
        ([by_kubelet("")], "ended", ["node-pressure-evicted: evicted by the kubelet on n1"]),
        ([pod(condition("SomethingNew"))], "ended", ["disrupted: disrupted on n1: SomethingNew"]),
        ([by_kubelet("The node was low on resource: ephemeral-storage. "), make_node("n1")], "ended",
         ["node-pressure-evicted: evicted by the kubelet on n1, which was low on ephemeral-storage"]),
        ([pod(reason="Evicted", message='Usage of EmptyDir volume "t" exceeds the limit "1". ')], "ended",
         ['storage-limit-exceeded: evicted by the kubelet on n1: Usage of EmptyDir volume "t" exceeds the limit "1"']),
        ([by_kubelet("Pod was terminated in response to imminent node shutdown."), make_node("n1")], "ended",
         ["node-shutdown: terminated by the kubelet: n1 shuts down (graceful node shutdown)"]),
        ([by_kubelet("Pod was preempted by Kubelet to accommodate a critical pod.")], "ended",
         ["preempted-by-kubelet: preempted by the kubelet on n1 to admit a critical Pod"]),
        ([pod(condition("DeletionByTaintManager"), phase="Running").metadata(deletionTimestamp=T0), LOST],
         "terminating",
         ["taint-evicted: deleted on n1 because of the NoExecute taint node.kubernetes.io/unreachable",
          "node-not-ready: n1 has been not ready (NodeStatusUnknown: Kubelet stopped posting node status.)",
          ("stuck-terminating: n1 is unreachable: its kubelet does not confirm that the containers stopped; "
           "deletion requested at 2026-11-22T03:12:07Z or earlier")]),
        ([pod(condition("DeletionByDeviceTaintManager"))], "ended",
         ["device-taint-evicted: deleted on n1: a device that it uses has a NoExecute taint"]),
        ([pod(condition("DeletionByPodGC", "PodGC: node no longer exists")), make_node("n2")], "ended",
         ["node-gone: deleted: its node n1 no longer exists"]),
        ([pod(condition("EvictionByEvictionAPI")), CORDONED], "ended",
         [("evicted-by-api: evicted on n1 by the eviction API; n1 is cordoned, as in a drain (kubectl drain, an "
          "upgrade, an autoscaler)")]),
        ([pod(condition("EvictionByEvictionAPI")), make_node("n1")], "ended",
         [("evicted-by-api: evicted on n1 by the eviction API; the requester is only in the API server's audit log "
          "(pods/eviction)")]),
        ([pod(condition("SomethingNew", "of a later release"))], "ended",
         ["disrupted: disrupted on n1: SomethingNew: of a later release"]),
        ([pod(reason="OutOfcpu", message="Pod was rejected: Node didn't have enough resource: cpu")], "ended",
         [("rejected-by-kubelet: not admitted by the kubelet on n1 (OutOfcpu: Node didn't have enough resource: "
          "cpu)")]),
        ([pod(reason="DeadlineExceeded")], "ended",
         ["deadline-exceeded: failed: it ran longer than activeDeadlineSeconds"]),
        ([pod(containerStatuses=[ended("OOMKilled", 137)])], "ended",
         ["oom-killed: container c was OOMKilled without a memory limit: its node ran out of memory"]),
        ([pod(containerStatuses=[ended("OOMKilled", 137)]).spec(resources=MEMORY)], "ended",
         ["oom-killed: container c was OOMKilled at its Pod's memory limit of 1Gi"]),
        ([pod(containerStatuses=[ended("OOMKilled", 137)]).spec(
            resources=MEMORY, containers=[{"name": "c", "resources": {"limits": {"memory": "64Mi"}}}])], "ended",
         ["oom-killed: container c was OOMKilled at its memory limit of 64Mi or its Pod's memory limit of 1Gi"]),
        ([pod(phase="Running", containerStatuses=[restarted(4)])], "running",
         ["container-failed: container c exited with 1; 4 restarts"]),
        ([KILLED, event("Killing", PROBE)], "ended",
         ["container-failed: container c was killed because its liveness probe failed (exit code 137)"]),
        ([KILLED, event("Killing", PROBE, at="2026-11-22T03:12:01Z")], "ended",
         ["container-failed: container c exited with 137, after its liveness probe failed in an earlier run"]),
        ([pod(containerStatuses=[ended("Error", 3, STARTED)]), event("Killing", PROBE, at="2026-11-22T03:12:01Z")],
         "ended",
         ["container-failed: container c exited with 3"]),
        ([KILLED, event("Killing", PROBE, at="2026-11-22T03:13:00Z")], "ended",
         ["container-failed: container c was killed because its liveness probe failed (exit code 137)"]),
        ([pod(containerStatuses=[ended("Error", 3)]), event("Killing", PROBE, at="2026-11-22T03:13:00Z")], "ended",
         ["container-failed: container c exited with 3"]),
        ([KILLED, event("Killing", PROBE.replace(" c ", " d "))], "ended",
         ["container-failed: container c exited with 137"]),
        ([pod(phase="Pending", containerStatuses=[waiting("ErrImagePull", "not found")])], "pending",
         ["container-waiting: container c does not start: ErrImagePull: not found"]),
        ([by_kubelet(LOW), make_node("n1"), pressure("2026-11-22T03:12:08Z")], "ended",
         [("node-pressure-evicted: evicted by the kubelet on n1, which was low on memory (available 82Mi, threshold "
          "100Mi): container app used 412Mi and requests 100Mi"), "node-condition: n1 had MemoryPressure"]),
        ([by_kubelet(LOW), make_node("n1"), pressure("2026-11-22T03:32:08Z")], "ended",
         [("node-pressure-evicted: evicted by the kubelet on n1, which was low on memory (available 82Mi, threshold "
          "100Mi): container app used 412Mi and requests 100Mi")]),
        ([terminating(), event("SuccessfulDelete", "Deleted pod: web", "we", "ReplicaSet")], "terminating",
         ["deleted: deleted by a request; the requester is only in the API server's audit log (verb delete)"]),
        ([terminating(finalizers=["batch.kubernetes.io/job-tracking"])], "terminating",
         ["deleted: deleted by a request; the requester is only in the API server's audit log (verb delete)"]),
        ([terminating(finalizers=["a.io/b"])], "terminating",
         ["deleted: deleted by a request; the requester is only in the API server's audit log (verb delete)",
          ("being-deleted: exists as long as it has finalizer a.io/b; deletion requested at 2026-11-22T03:11:37Z, its "
           "grace period ends at 2026-11-22T03:12:07Z")]),
        ([terminating(finalizers=["a.io/b"]), LOST], "terminating",
         ["deleted: deleted by a request; the requester is only in the API server's audit log (verb delete)",
          ("stuck-terminating: n1 is unreachable: its kubelet does not confirm that the containers stopped; deletion "
           "requested at 2026-11-22T03:11:37Z, its grace period ends at 2026-11-22T03:12:07Z")]),
        ([terminating(finalizers=["a.io/b"]).status(containerStatuses=[ended("Error", 137)]), make_node("n1")],
         "terminating",
         ["deleted: deleted by a request; the requester is only in the API server's audit log (verb delete)",
          "stuck-terminating: exists as long as it has finalizer a.io/b; deletion requested at 2026-11-22T03:11:37Z"]),
        ([pod(phase="Running").labels(app="web"), CORDONED, make_budget("b", 0, app="web")], "running",
         ["drain-blocked: n1 is cordoned, and PodDisruptionBudget b allows no disruption"]),
        ([pod(phase="Running").labels(app="web"), CORDONED, make_budget("b", 1, app="web"),
          make_budget("c", 1, app="web")], "running",
         ["drain-blocked: n1 is cordoned, and several PodDisruptionBudgets select the Pod: b, c"]),
        ([UNREADY, CORDONED, make_budget("b", 0, app="web")], "not-ready",
         [NOT_READY, "drain-blocked: n1 is cordoned, and PodDisruptionBudget b allows no disruption"]),
        ([UNREADY, CORDONED, make_budget("b", 0, app="web").spec(unhealthyPodEvictionPolicy="AlwaysAllow")],
         "not-ready", [NOT_READY]),
        ([UNREADY, CORDONED, make_budget("b", 0, app="web").status(currentHealthy=1, desiredHealthy=1)], "not-ready",
         [NOT_READY]),
        ([pod(condition("ContainersNotReady", "containers with unready status: [c]", "Ready", "False"),
              phase="Running", containerStatuses=[{"name": "c", "state": {"running": {}}}])], "not-ready",
         ["container-not-ready: containers with unready status: [c]"]),
        ([pod(phase="Running", containerStatuses=[crashing("OOMKilled", 137)])], "not-ready",
         [("oom-killed: container c was OOMKilled without a memory limit: its node ran out of memory; 7 restarts, "
          "CrashLoopBackOff")]),
        ([pod(phase="Running", containerStatuses=[crashing("Completed", 0)])], "not-ready",
         ["container-failed: container c exited with 0 (Completed); 7 restarts, CrashLoopBackOff"]),
        ([pod(condition("", "", "Ready", "False"), phase="Running", containerStatuses=[restarted(1)]), LOST],
         "not-ready",
         [("node-not-ready: n1 has been not ready (NodeStatusUnknown: Kubelet stopped posting node status.); the Pod "
          "does not tolerate its NoExecute taint, and is deleted"), "container-failed: container c exited with 1"]),
        ([pod(phase="Pending", initContainerStatuses=[{"name": "setup", "state": {"running": {}}}])], "pending",
         ["container-waiting: its containers have not started: init container setup runs"]),
        ([owned(by_kubelet(LOW), "Job", "web"), job("web")], "ended",
         [("node-pressure-evicted: evicted by the kubelet on n1, which was low on memory (available 82Mi, threshold "
          "100Mi): container app used 412Mi and requests 100Mi"),
          "job-failed: Job web failed: BackoffLimitExceeded (backoffLimit 0)"]),
    ],
)  # fmt: skip
def test_the_cause_is_read_from_condition_and_status(
    made: list[Made], state: str, expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = why(capsys, tmp_path, made, "default/web", "-o", "json")
    assert (status, err) == (0, "")
    answer = json.loads(out)
    assert answer["state"] == state
    assert [f"{each['id']}: {each['message']}" for each in answer["troubles"]] == expected
    status, out, err = why(capsys, tmp_path, made, "default/web", "--fail-on", state)
    assert (status, err) == (1, f"forewarn: fails on {state} (--fail-on)\n")


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (pod(phase="Running"), "OK  default/web (5): running on n1"),
        (
            pod(phase="Running", containerStatuses=[restarted(4)]),
            "WARN  default/web (5): running on n1: container failed",
        ),
        (
            pod(phase="Succeeded", containerStatuses=[ended("Completed", 0)]),
            "OK  default/web (5): ended on n1: completed",
        ),
        (pod(), "HARM  default/web (5): ended on n1, cause unknown"),
    ],
)
def test_the_first_line_of_a_pod_has_its_first_reason(
    made: MadePod, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = why(capsys, tmp_path, [made, make_node("n1")], "default/web")
    assert out.splitlines()[0] == line


@pytest.mark.parametrize(
    ("resource", "fix"),
    [
        ("memory", ""),
        ("ephemeral-storage", ", or free the node's disk"),
        ("inodes", ", or delete files on the node's disk"),
        ("pids", ", or set podPidsLimit in the kubelet's configuration"),
    ],
)
def test_the_fix_of_an_eviction_depends_on_the_resource(
    resource: str, fix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = why(capsys, tmp_path, [by_kubelet(f"The node was low on resource: {resource}. ")], "default/web")
    assert f". Fix: use a class of higher priority{fix} INPUT" in out


def test_a_container_that_starts_after_init_containers_does_not_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [pod(phase="Pending", containerStatuses=[waiting("PodInitializing")])]
    (trouble,) = json.loads(why(capsys, tmp_path, made, "default/web", "-o", "json")[1])["troubles"]
    assert trouble["message"] == "its containers have not started"


def test_a_long_cause_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = "Back-off pulling image: " + " ".join(["denied"] * 35)
    made = [pod(phase="Pending", containerStatuses=[waiting("ImagePullBackOff", message)])]
    first, rest = why(capsys, tmp_path, made, "default/web")[1].splitlines()
    assert first == "PENDING  default/web (5): on n1: ImagePullBackOff"
    assert f" container c does not start: ImagePullBackOff: {message}" in rest


def test_a_pod_that_does_not_terminate_says_why_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = terminating(finalizers=["a.io/b"]).status(phase="Succeeded", containerStatuses=[])
    out = why(capsys, tmp_path, [made], "default/web")[1]
    assert out.startswith("HARM  default/web (5): ended on n1: stuck terminating\n"), out
    assert "exists as long as it has finalizer a.io/b; deletion requested at 2026-11-22T03:11:37Z" in out
    assert " deleted at 2026-" in out


QUOTA = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
SHORT = "exceeded quota q: 1 + 1 of 1 pods"
FORBIDDEN = f'pods "web-0" is forbidden: {QUOTA}'


@pytest.mark.parametrize(
    ("replicas", "conditions", "events", "clause", "expected"),
    [
        (
            3,
            [{"type": "ReplicaFailure", "status": "True", "message": FORBIDDEN}],
            [],
            "1 of 3 Pods runs",
            [f"2 {QUOTA}"],
        ),
        (
            3,
            [],
            [event("FailedCreate", f"Error creating: {FORBIDDEN}", kind="Deployment")],
            "1 of 3 Pods runs",
            [f"2 {QUOTA}"],
        ),
        (
            3,
            [{"type": "ReplicaFailure", "status": "False", "message": FORBIDDEN}],
            [],
            "1 of 3 Pods runs",
            ["2 not created"],
        ),
        (3, [], [], "1 of 3 Pods runs", ["2 not created"]),
        (1, [], [], "1 of 1 Pod runs", []),
        (0, [], [], "scaled to 0 replicas", []),
    ],
)
def test_pods_that_do_not_exist_are_told(
    replicas: int,
    conditions: list[dict[str, str]],
    events: list[Made],
    clause: str,
    expected: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    labels = {"app": "web"}
    workload = Made("apps/v1", "Deployment", "web", "default").spec(replicas=replicas, selector={"matchLabels": labels})
    workload.spec(template={"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c"}]}})
    running = owned(make_pod("web-5f-x1").labels(**labels).on("n1"), "ReplicaSet", "web-5f")
    ready = running.status(conditions=[{"type": "Ready", "status": "True"}])
    made = [make_node("n1"), workload.status(conditions=conditions), *([ready] if replicas else []), *events]
    answer = document(capsys, tmp_path, made, "deployment/web")
    assert (answer["clause"], causes(answer)) == (clause, expected)


@pytest.mark.parametrize(
    ("spec", "status", "clause", "expected"),
    [
        ({"parallelism": 2, "completions": 3}, {"succeeded": 1}, "0 of 2 Pods run", [f"2 {QUOTA}"]),
        ({"parallelism": 2, "completions": 3}, {"succeeded": 3}, "no Pods with this owner", []),
        ({"parallelism": 2, "completions": 3, "suspend": True}, {}, "suspended", []),
    ],
)
def test_pods_of_a_job_that_do_not_exist_are_told(
    spec: dict[str, Any],
    status: dict[str, Any],
    clause: str,
    expected: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    workload = Made("batch/v1", "Job", "web", "default").status(**status)
    workload.spec(**spec, template={"metadata": {}, "spec": {"containers": [{"name": "c"}]}})
    made = [make_node("n1"), workload, event("FailedCreate", f"Error creating: {FORBIDDEN}", kind="Job")]
    answer = document(capsys, tmp_path, made, "job/web")
    assert (answer["clause"], causes(answer)) == (clause, expected)


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (event("FailedCreate", f"Error creating: {FORBIDDEN}", kind="DaemonSet"), QUOTA),
        (
            Made("v1", "LimitRange", "l", "default").spec(limits=[{"type": "Container", "min": {"cpu": "1"}}]),
            "minimum cpu usage per Container is 1, but request is 0 (LimitRange l)",
        ),
    ],
    ids=["event", "LimitRange"],
)
def test_missing_pods_of_a_daemon_set_have_a_reason(
    cause: Made, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "0"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    workload = Made("apps/v1", "DaemonSet", "web", "default").spec(template=template)
    workload.spec(selector={"matchLabels": {"app": "web"}})
    answer = document(capsys, tmp_path, [make_node("n1"), workload, cause], "ds/web")
    assert (answer["status"], causes(answer)) == ("REJECTED", [f"1 {reason}"])


READY = {"type": "Ready", "status": "True"}
NOWHERE = "fits on no node (1 node: insufficient cpu; no Pod of lower priority and 1 more reason)"
FINISHED = {"conditions": [{"type": "Complete", "status": "True"}]}
LOST_NODE = make_node("n2").status(conditions=[{"type": "Ready", "status": "Unknown"}])
LOST_NODE.taint("node.kubernetes.io/unreachable", "NoExecute")


@pytest.mark.parametrize(
    ("kind", "spec", "status", "pods", "line"),
    [
        ("apps/v1/Deployment", {"replicas": 2}, {}, 2, "2 of 2 Pods run"),
        ("apps/v1/Deployment", {"replicas": 2}, {}, 3, "3 Pods run"),
        ("apps/v1/Deployment", {"replicas": 1, "paused": True}, {}, 1, "paused, 1 of 1 Pod runs"),
        ("apps/v1/StatefulSet", {"replicas": 2}, {}, 2, "2 of 2 Pods run"),
        ("apps/v1/StatefulSet", {"replicas": 0}, {}, 0, "scaled to 0 replicas"),
        ("apps/v1/ReplicaSet", {}, {}, 1, "1 of 1 Pod runs"),
        ("apps/v1/DaemonSet", {}, {}, 1, "1 of 1 Pod runs"),
        ("apps/v1/DaemonSet", {}, {}, 0, "0 of 1 Pod runs"),
        ("apps/v1/DaemonSet", {"nodeSelector": {"disk": "ssd"}}, {}, 0, "no node needs a Pod of it"),
        ("v1/ReplicationController", {"replicas": 3}, {}, 1, "1 of 3 Pods runs"),
        ("batch/v1/Job", {"parallelism": 2, "completions": 3}, {"active": 2}, 2, "2 of 2 Pods run"),
        ("batch/v1/Job", {"parallelism": 0}, {}, 0, "parallelism 0"),
        ("batch/v1/Job", {"suspend": True}, {}, 0, "suspended"),
        ("batch/v1/Job", {}, FINISHED, 0, "complete"),
        (
            "batch/v1/Job",
            {},
            {"conditions": [{"type": "FailureTarget", "status": "True"}]},
            0,
            "failed (FailureTarget)",
        ),
        (
            "batch/v1/Job",
            {},
            {"conditions": [{"type": "Failed", "status": "True", "reason": "A\n" + "long" * 99}]},
            0,
            "failed (A " + "long" * 14 + "l…)",
        ),
        ("batch/v1/CronJob", {}, {}, 0, "no Job of it has Pods"),
        ("batch/v1/CronJob", {"suspend": True}, {}, 0, "suspended"),
    ],
)
def test_the_first_line_of_a_workload_says_how_many_pods_run(
    kind: str,
    spec: dict[str, Any],
    status: dict[str, Any],
    pods: int,
    line: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    version, _, name = kind.rpartition("/")
    of_pod = {"containers": [{"name": "c"}], "nodeSelector": spec.pop("nodeSelector", {})}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": of_pod}
    of_jobs = {"jobTemplate": {"spec": {"template": template}}, "schedule": "0 0 * * *"}
    selector = {"app": "web"} if version == "v1" else {"matchLabels": {"app": "web"}}
    workload = Made(version, name, "web", "default").spec(selector=selector, **spec)
    workload.spec(**of_jobs if name == "CronJob" else {"template": template}).status(**status)
    run = [owned(make_pod(f"web-{each}").labels(app="web").on("n1"), name, "web") for each in range(pods)]
    made = [make_node("n1"), workload, *(each.status(conditions=[READY]) for each in run)]
    answer = document(capsys, tmp_path, made, f"{name.lower()}/web")
    assert (answer["question"], answer["clause"]) == (f"{name} default/web", line)
    assert "no Events" in answer["warnings"][0]


@pytest.mark.parametrize(
    ("kind", "waiting", "pods"),
    [("ReplicaSet", 0, "2 not created"), ("ReplicaSet", 2, "2 fits nowhere"), ("StatefulSet", 1, "1 fits nowhere")],
)
def test_a_cause_names_the_lost_node_of_a_terminating_pod(
    kind: str, waiting: int, pods: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    workload = Made("apps/v1", kind, "web", "default").spec(selector={"matchLabels": {"app": "web"}}, replicas=2)
    full = make_pod("full").priority(9).request(cpu="4").on("n1")
    lost = owned(make_pod("web-1").labels(app="web").on("n2").terminating(), kind, "web")
    new = [owned(make_pod(f"web-{each}").labels(app="web").request(cpu="1"), kind, "web") for each in (0, 2)[:waiting]]
    made = [make_node("n1"), LOST_NODE, full, workload.spec(template=template), lost, *new]
    found = causes(document(capsys, tmp_path, made, f"{kind.lower()}/web"))
    assert any(each.startswith("1 deleted; n2 is unreachable") for each in found)
    assert any(each.startswith(pods) for each in found)


def in_set(name: str) -> MadePod:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
    return make_pod(name).metadata(ownerReferences=[owner])


RUNS = {"type": "Ready", "status": "True"}
FAILS = {**RUNS, "status": "False"}
WAITS = "podManagementPolicy OrderedReady waits for web-0, which is"


@pytest.mark.parametrize(
    ("pods", "spec", "end"),
    [
        ([in_set("web-0").on("n1").status(conditions=[FAILS], containerStatuses=[waiting("ImagePullBackOff")])], {},
         f"2 {WAITS} not ready (ImagePullBackOff)"),
        ([in_set("web-0").request(cpu="64")], {}, f"2 {WAITS} Pending (fits nowhere)"),
        ([in_set("web-0").on("n1").metadata(deletionTimestamp=T0)], {}, f"2 {WAITS} terminating (deleted)"),
        ([in_set("web-0").request(cpu="64")], {"podManagementPolicy": "Parallel"}, "2 not created"),
        ([in_set("web-1").request(cpu="64")], {}, "2 not created"),  # web-0 is created first
        ([in_set("web-0").on("n1").status(conditions=[RUNS])], {}, "2 not created"),
        ([in_set("web-0").on("n1").status(conditions=[RUNS])], {"class": "gold"},
         "2 no PriorityClass with name gold was found"),
    ],
)  # fmt: skip
def test_the_cause_of_pods_that_do_not_exist_is_found(
    pods: list[MadePod], spec: dict[str, str], end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"app": "web"}
    template: dict[str, Any] = {"containers": [{"name": "c"}], "priorityClassName": spec.pop("class", "")}
    workload = Made("apps/v1", "StatefulSet", "web", "default").spec(replicas=3, selector={"matchLabels": labels})
    workload.spec(template={"metadata": {"labels": labels}, "spec": template}, **spec)
    made = [make_node("n1"), make_priority_class(1), workload, *pods]
    assert end in causes(document(capsys, tmp_path, made, "statefulset/web"))
    main(["audit", "--cluster", str(tmp_path / "dump.json"), "-o", "json", "--select", "pods-not-created"])
    found = [finding["message"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    assert found == (
        [] if end == "2 not created" else [f"2 of 3 Pods not created: {end.partition(' (')[0].removeprefix('2 ')}"]
    )


def test_an_audit_reports_rejected_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    workload = Made("apps/v1", "Deployment", "web", "default").spec(replicas=1, template=template)
    workload.spec(selector={"matchLabels": {"app": "web"}})
    workload.status(conditions=[{"type": "ReplicaFailure", "status": "True", "message": "denied by a webhook"}])
    quota = Made("v1", "ResourceQuota", "q", "jobs").spec(hard={"pods": "1"}).status(hard={"pods": 1}, used={"pods": 1})
    rejected = Made("batch/v1", "Job", "report", "jobs").spec(template=template)
    suspended = Made("batch/v1", "Job", "later", "jobs").spec(template=template, suspend=True)
    of_it = Made("apps/v1", "ReplicaSet", "web-5f", "default").spec(**workload.obj["spec"])
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    of_it.metadata(ownerReferences=[owner])
    made = [make_node("n1"), make_pod("p"), make_priority_class(1), workload, of_it, quota, rejected, suspended]
    path = tmp_path / "dump.json"
    path.write_text("\n".join(json.dumps(one.obj) for one in made))
    main(["audit", "--cluster", str(path), "-o", "json", "--select", "pods-not-created"])
    assert [(each["object"]["name"], each["message"]) for each in json.loads(capsys.readouterr().out)["findings"]] == [
        ("web", "1 of 1 Pod not created: denied by a webhook"),
        ("report", f"1 of 1 Pod not created: {SHORT}"),
    ]


@pytest.mark.parametrize(
    ("spec", "job", "pods", "message"),
    [
        ({}, {}, "1", f"1 of 1 Pod of the next Job would be rejected: {SHORT}"),
        ({}, {"parallelism": 3, "completions": 9}, "2",
         "2 of 3 Pods of the next Job would be rejected: exceeded quota q: 2 + 1 of 2 pods"),
        ({}, {"class": "gold"}, "9",
         "1 of 1 Pod of the next Job would be rejected: no PriorityClass with name gold was found"),
        ({}, {}, "2", None),
        ({"suspend": True}, {}, "1", None),
        ({"running": True}, {}, "1", None),
    ],
    ids=["quota", "some", "class", "enough", "suspended", "running"],
)  # fmt: skip
def test_the_next_job_of_a_cron_job_is_evaluated(
    spec: dict[str, bool],
    job: dict[str, Any],
    pods: str,
    message: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job, is_running = {**job}, "running" in spec
    template = {"spec": {"containers": [{"name": "c"}], "priorityClassName": job.pop("class", "")}}
    nightly = Made("batch/v1", "CronJob", "nightly", "jobs").spec(schedule="0 3 * * *")
    nightly.spec(jobTemplate={"spec": {"template": template, **job}}, suspend="suspend" in spec)
    quota = Made("v1", "ResourceQuota", "q", "jobs").spec(hard={"pods": pods})
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "controller": True}
    active = Made("batch/v1", "Job", "nightly-1", "jobs").spec(template=template).metadata(ownerReferences=[owner])
    other = make_pod("other", "jobs").on("n1")
    owner = {**owner, "kind": "Job", "name": "nightly-1"}
    made = [
        make_node("n1"),
        make_priority_class(1),
        nightly,
        quota.status(hard={"pods": pods}, used={"pods": 1}),
        active,
    ]
    made.append(other.metadata(ownerReferences=[owner]) if is_running else other)
    found = causes(document(capsys, tmp_path, made, "jobs/cronjob/nightly"))
    assert found == ([f"{message[0]} {message.partition('rejected: ')[2]}"] if message else [])
    main(["audit", "--cluster", str(tmp_path / "dump.json"), "-o", "json", "--select", "pods-not-created"])
    reported = [(each["object"]["kind"], each["message"]) for each in json.loads(capsys.readouterr().out)["findings"]]
    assert reported == ([("CronJob", message)] if message else [])


DELETED_POD = "default/web-5f-x1"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([event("Evicted", LOW, "web-5f-x1")], ["node-pressure-evicted"]),
        ([event("TaintManagerEviction", "Marking for deletion Pod default/web-5f-x1", "web-5f-x1"),
          event("Scheduled", "Successfully assigned default/web-5f-x1 to n1", "web-5f-x1"), LOST],
         ["taint-evicted", "node-not-ready"]),
        ([event("TaintManagerEviction", "Cancelling deletion of Pod default/web-5f-x1", "web-5f-x1")], ["deleted"]),
        ([event("Killing", "Stopping container c", "web-5f-x1")], ["deleted"]),
        ([event("Preempting", "Preempted in order to admit critical pod", "web-5f-x1")], ["preempted-by-kubelet"]),
        ([event("SuccessfulDelete", "Deleted pod: web-5f-x1", "web-5f", "ReplicaSet")], ["deleted-by-controller"]),
        ([event("SuccessfulDelete", "(combined from similar events): Deleted pod: web-5f-x1", "web-5f", "ReplicaSet"),
          event("ScalingReplicaSet", SCALED, "web", "Deployment"),
          event("SuccessfulRescale", "New size: 2; reason: All metrics below target", "web",
                "HorizontalPodAutoscaler")], ["deleted-by-controller", "scaled", "scaled"]),
        ([event("SuccessfulDelete", "delete Pod web-5f-x1 in StatefulSet web-5f successful", "web-5f", "StatefulSet")],
         ["deleted-by-controller"]),
        ([event("Evicted", LOW, "web-5f-x1"),
          job("web-5f", "PodFailurePolicy", "Pod default/web-5f-x1 has condition DisruptionTarget matching FailJob")],
         ["node-pressure-evicted", "job-failed"]),
    ],
)  # fmt: skip
def test_of_a_pod_that_is_gone_events_name_the_cause(
    made: list[Made], expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = why(capsys, tmp_path, [make_node("n2"), *made], DELETED_POD, "-o", "json")
    answer = json.loads(out)
    assert (answer["state"], [each["id"] for each in answer["troubles"]]) == ("gone", expected)
    if expected != ["deleted"]:
        assert answer["troubles"][0]["time"] == T0


def test_a_rollout_is_told_from_a_scale_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deleted = event("SuccessfulDelete", "Deleted pod: web-5f-x1", "web-5f", "ReplicaSet")
    down = event("ScalingReplicaSet", SCALED, "web", "Deployment")
    up = event("ScalingReplicaSet", "Scaled up replica set web-9c from 0 to 1", "web", "Deployment")
    for made, expected in (([], "a scale-down of Deployment web"), ([up], "a rollout of Deployment web")):
        _, out, _ = why(capsys, tmp_path, [deleted, down, *made], DELETED_POD)
        assert f" scaled at {T0}: {expected}: {SCALED}" in out


def test_a_job_that_fails_by_its_policy_names_the_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = "Pod default/web-5f-x1 has condition DisruptionTarget matching FailJob rule at index 0"
    made = [event("Evicted", LOW, "web-5f-x1"), job("web-5f", "PodFailurePolicy", told)]
    _, out, _ = why(capsys, tmp_path, made, DELETED_POD)
    assert f"Job web-5f failed: PodFailurePolicy because of this Pod ({told})" in out


def test_what_the_snapshot_lacks_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = make_pod("web").on("n1")
    _, out, _ = why(capsys, tmp_path, [bare], "default/web")
    assert "WARN no Events in the cluster snapshot. Fix: add a cluster file with `kubectl get events -A -o json`" in out
    assert (
        "WARN no statuses of Pods and containers. Fix: add a cluster file with `kubectl get pods -n default -o json`"
        in out
    )
    _, out, _ = why(capsys, tmp_path, [pod(condition("EvictionByEvictionAPI")), event("Killing", "m")], "default/web")
    assert "cluster snapshot" not in out
    redacted = pod(condition("X", kind="Ready"), phase="Running", containerStatuses=[{"name": "c"}])
    _, out, _ = why(capsys, tmp_path, [redacted, event("Killing", "m")], "default/web")
    assert "WARN no statuses of Pods and containers" in out
    status, _, err = why(capsys, tmp_path, [bare], "default/none")
    assert status == 2
    assert "Pod not found in the cluster; known: web" in err


def of_uid(made: Made, uid: str) -> Made:
    made.obj["involvedObject"]["uid"] = uid
    return made


@pytest.mark.parametrize("scheduled", ["2026-11-22T03:00:00Z", "2026-11-22T03:12:07.437092Z"])
@pytest.mark.parametrize("reason", ["Evicted", "TaintManagerEviction"])
def test_the_earlier_pod_of_a_stateful_set_is_explained(
    reason: str, scheduled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An Event of taint eviction has no uid, and whole seconds. Both Pods were on other nodes."""
    former = event(reason, "The node was low on resource: memory. " if reason == "Evicted" else "Marking for deletion")
    made = [
        pod(phase="Running").metadata(uid="new", creationTimestamp="2026-11-22T03:13:00Z"),
        of_uid(former, "earlier") if reason == "Evicted" else former,
        of_uid(event("Scheduled", "Successfully assigned default/web to n0", at=scheduled), "earlier"),
        of_uid(event("Scheduled", "Successfully assigned default/web to n1", at="2026-11-22T03:13:00Z"), "new"),
    ]
    _, out, _ = why(capsys, tmp_path, made, "default/web")
    told = {"Evicted": "evicted by the kubelet on n0", "TaintManagerEviction": "deleted on n0 because of a NoExecute"}
    assert out.startswith("OK  default/web (5): running on n1: former ended\n")
    assert f" former ended at {T0}: the previous Pod of this name: {told[reason]}" in out
    made[0].metadata(creationTimestamp="2026-11-22T03:00:00Z")
    _, out, _ = why(capsys, tmp_path, made, "default/web")
    assert ("former ended" in out) == (reason == "Evicted")


def test_a_deleted_pod_has_the_cause_of_the_last_pod_of_this_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = of_uid(event("Killing", "Stopping container app", at="2026-11-22T04:00:00Z"), "last")
    _, out, _ = why(capsys, tmp_path, [of_uid(event("Evicted", LOW), "earlier"), last], "default/web")
    assert "deleted; no Event names the cause" in out
    assert f" former ended at {T0}: the previous Pod of this name: evicted by the kubelet" in out


def test_a_daemon_set_pod_names_its_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    pending = make_pod("web").priority(5).request(cpu="1").affinity("nodeAffinity", term)
    made = [owned(pending, "DaemonSet", "agent"), make_node("n1"), make_pod("x").priority(5).request(cpu="4").on("n1")]
    _, out, _ = why(capsys, tmp_path, [*made, make_node("n2")], "default/web")
    assert (
        "DaemonSet Pod pending: DaemonSet agent creates it for n1 only: 1 Pod there of equal or higher priority" in out
    )


HOSTILE: list[dict[str, Any]] = [
    {"conditions": 5}, {"conditions": [5]}, {"conditions": [{"type": {}, "status": []}]},
    {"containerStatuses": [None, {"state": {"terminated": {"exitCode": "x", "finishedAt": 5}}}]},
    {"containerStatuses": {"a": 1}}, {"reason": "Evicted", "message": "The node was low on resource: " * 10_000},
    {"reason": "Evicted", "message": "\x1b[31m::error::x\u202e"},
]  # fmt: skip


@pytest.mark.parametrize("status", HOSTILE)
def test_a_malformed_status_stops_nothing_and_prints_nothing_unprintable(
    status: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_pod("web").on("n1").metadata(finalizers=[5, "a\x1b"], deletionTimestamp=T0).status(**status)
    found, out, _ = why(capsys, tmp_path, [made, event("Evicted", "x\x1b[0m" * 1000)], "default/web")
    assert found in (0, 3)
    assert "\x1b" not in out


def deployment() -> list[Made]:
    owner = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}]
    template: dict[str, Any] = {"template": {"spec": {"containers": []}}}
    return [
        Made("apps/v1", "Deployment", "web", "default").spec(replicas=3, **template),
        Made("apps/v1", "ReplicaSet", "web-5f", "default").spec(**template).metadata(ownerReferences=owner),
    ]


def unscheduled(message: str, **spec: Any) -> MadePod:
    return (
        make_pod("web").spec(**spec).status(conditions=[condition("Unschedulable", message, "PodScheduled", "False")])
    )


CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
NO_CLAIMS = 'not predicted: the cluster state has no list of PersistentVolumeClaims, and the Pod uses "data"'
OTHER = "spec.schedulerName is other, no known profile of kube-scheduler"


@pytest.mark.parametrize(
    ("made", "line"),
    [
        (
            unscheduled('0/1 nodes are available: persistentvolumeclaim "data" not found.', **CLAIM),
            f'its scheduler reports: 0/1 nodes are available: persistentvolumeclaim "data" not found ({NO_CLAIMS})',
        ),
        (unscheduled("0/1 nodes are available.", **CLAIM), NO_CLAIMS),
        (unscheduled("", **CLAIM), NO_CLAIMS),
        (unscheduled("queue is full.", schedulerName="other"), f"its scheduler reports: queue is full ({OTHER})"),
        (make_pod("web").spec(schedulerName="other"), OTHER),
    ],
)
def test_the_scheduler_explains_what_forewarn_does_not_predict(
    made: MadePod, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = why(capsys, tmp_path, [made, make_node("n1")], "default/web")
    assert f" IT IS PENDING {line} " in out.replace(". Fix", " Fix")


@pytest.mark.parametrize(
    ("cpus", "pending", "expected"),
    [
        ([2, 2], "aaab", {"fits-nowhere": 2, "will-preempt": 2}),
        ([2, 2], "ab", {"will-preempt": 2}),
        ([2], "ag", {"gated": 1, "will-preempt": 1}),
    ],
)
def test_pending_pods_of_a_workload_are_counted_by_cause(
    cpus: list[int], pending: str, expected: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Pod that kube-scheduler tries last is the one that stays Pending."""
    nodes = [make_node(f"n{place}").has(cpu=str(cpu)) for place, cpu in enumerate(cpus)]
    low = [make_pod(f"low-{place}").request(cpu="2").on(f"n{place}") for place in range(len(cpus))]
    gate = {"schedulingGates": [{"name": "g"}]}
    pods = [
        make_pod(f"web-5f-{kind}{place}").priority(5).request(cpu="2").spec(**(gate if kind == "g" else {}))
        for place, kind in enumerate(pending)
    ]
    made = [*deployment(), *nodes, *low, *(owned(each, "ReplicaSet", "web-5f") for each in pods)]
    answer = document(capsys, tmp_path, made, "deploy/web")
    texts = {each["kind"]: each["reason"] for each in answer["why"]["causes"]}
    several = "; those of the others are not counted"
    assert (several in texts["will-preempt"]) is (expected["will-preempt"] > 1)
    found = {each["kind"]: each["number"] for each in answer["why"]["causes"]}
    assert found == expected | ({"notCreated": found["notCreated"]} if "notCreated" in found else {})


@pytest.mark.parametrize(("latest", "is_stuck"), [("2026-11-22T03:12:08Z", False), ("2026-11-22T03:12:38Z", True)])
def test_a_pod_is_stuck_only_some_time_after_its_grace_period(
    latest: str, is_stuck: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = make_node("n1").status(conditions=[{"type": "Ready", "status": "True", "lastHeartbeatTime": latest}])
    answer = json.dumps(document(capsys, tmp_path, [terminating(), node], "web"))
    assert ("stuck-terminating" in answer) is is_stuck


@pytest.mark.parametrize("zones", ["ab", "a"])
def test_the_reason_of_one_pending_pod_is_not_said_of_others(
    zones: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    selecting = [make_pod(f"web-5f-{zone}").request(cpu="1").spec(nodeSelector={"zone": zone}) for zone in zones]
    own = [owned(each, "ReplicaSet", "web-5f") for each in (*selecting, make_pod("web-5f-z").request(cpu="400"))]
    found = causes(document(capsys, tmp_path, [*deployment(), make_node("n1").has(cpu="4"), *own], "deploy/web"))
    for zone in zones:
        assert any(each.startswith(f"1 fits nowhere: no node has label zone={zone}") for each in found)
    assert any(each.startswith("1 fits nowhere: requests 400 cpu, more than any node has (4)") for each in found)


@pytest.mark.parametrize(("others", "left"), [(0, 2), (100, 102)])
def test_pods_behind_the_first_of_the_queue_are_not_evaluated(
    others: int, left: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As if it were alone, each would fit."""
    pods = [make_pod(f"web-5f-{place:03}").priority(5).request(cpu="2") for place in range(102)]
    ahead = [make_pod(f"ahead-{place}").priority(9).request(cpu="2") for place in range(others)]
    made = [
        *deployment(),
        make_node("n1").has(cpu="2"),
        *ahead,
        *(owned(each, "ReplicaSet", "web-5f") for each in pods),
    ]
    found = causes(document(capsys, tmp_path, made, "deploy/web"))
    assert f"{left} not among the first 100 Pending Pods of the queue" in found


def test_a_workload_gets_a_timeline_of_its_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def of(name: str, made: MadePod) -> MadePod:
        return owned(made.metadata(name=name), "ReplicaSet", "web-5f")

    made = [
        *deployment(), make_node("n1"),
        of("web-5f-a", pod(phase="Running")), of("web-5f-b", by_kubelet(LOW)),
        of("web-5f-c", make_pod("c").priority(5)),
        of("web-5f-f", pod(phase="Pending", containerStatuses=[waiting("ImagePullBackOff")])),
        of("web-5f-g", pod(phase="Running", containerStatuses=[crashing("Error", 1)])),
        event("SuccessfulDelete", "Deleted pod: web-5f-d", "web-5f", "ReplicaSet", "2026-11-22T04:00:00Z"),
        event("Evicted", LOW, "web-5f-e", at="2026-11-22T03:30:00Z"),
        event("Evicted", LOW, "web-api-5f-e"),
        owned(pod(condition("EvictionByEvictionAPI")).metadata(name="web-api-5f-x"), "ReplicaSet", "web-api-5f"),
    ]  # fmt: skip
    status, out, _ = why(capsys, tmp_path, made, "deploy/web", "--fail-on", "node-pressure-evicted")
    assert status == 1
    assert out.startswith("PENDING  Deployment default/web: 1 of 3 Pods runs\n")
    assert "\nrunning 1 of 3 | Pending 2 | not ready 1 | ended 1 | gone 2 " in out
    assert "MORE -v messages | forewarn why default/web-5f-c" in out
    assert "web-api" not in out
    _, out, _ = why(capsys, tmp_path, made, "default/deployments.apps/web", "-o", "json")
    assert [each["pod"] for each in json.loads(out)["endings"]] == [
        "default/web-5f-e", "default/web-5f-b", "default/web-5f-g", "default/web-5f-f", "default/web-5f-d",
    ]  # fmt: skip


def test_a_timeline_is_at_most_a_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = [event("Evicted", LOW, f"web-5f-{number:05}") for number in range(300)]
    assert "and 290 more: -v" in why(capsys, tmp_path, [*deployment(), *many], "deploy/web")[1]


def test_of_too_many_events_the_latest_count_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [event(f"R{number}", "m", at=f"2026-11-22T03:{number % 60:02}:00Z") for number in range(300)]
    _, out, _ = why(capsys, tmp_path, [pod(phase="Running"), *many], "default/web")
    assert "WARN only the latest 100 Events about Pods, and about their owners and nodes, count" in out


def test_a_namespace_may_have_the_name_of_a_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = [make_node("n1"), make_pod("web").metadata(namespace="jobs").on("n1"), event("Evicted", LOW, "web")]
    _, out, _ = why(capsys, tmp_path, made, "jobs/web")
    assert out.startswith("OK  jobs/web (0): running on n1\n")
    _, out, _ = why(capsys, tmp_path, [*made, Made("batch/v1", "Job", "web")], "jobs/web")
    assert "  Job default/web: " in out.splitlines()[0]
    status, _, err = why(capsys, tmp_path, made, "jobs/other")
    assert status == 2
    both = "Job default/other not found, and no Event names its Pods; jobs/other: Pod not found in the cluster"
    assert f"{both}; known: web. Fix: pass -n NAMESPACE, or write pod/other\n" in err


def test_a_deleted_pod_is_found_in_a_namespace_with_the_name_of_a_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = event("Preempted", "Preempted by pod u1 on node n1")
    about.obj["involvedObject"]["namespace"] = "jobs"
    made = [make_node("n1"), make_pod("other").metadata(namespace="jobs").on("n1"), about]
    _, out, _ = why(capsys, tmp_path, made, "jobs/web")
    assert out.startswith("WARN  jobs/web: gone: preempted\n")


def test_an_unknown_workload_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = why(capsys, tmp_path, [make_node("n1")], "sts/none")
    assert status == 2
    assert "StatefulSet default/none not found, and no Event names its Pods" in err


def test_a_pod_that_succeeded_is_completed_and_no_end_of_its_workload(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = owned(pod(phase="Succeeded", containerStatuses=[ended("Completed", 0)]), "Job", "report")
    status, out, _ = why(capsys, tmp_path, [made, job("report")], "web", "--fail-on", "completed")
    assert (status, f" completed at {T0}: " in out) == (1, True)
    answer = document(capsys, tmp_path, [made, job("report")], "job/report")
    assert (answer["counts"], causes(answer)) == ({"running": 0, "completed": 1}, [])
    assert answer["clause"].startswith("failed (BackoffLimitExceeded), ")


def test_an_id_of_a_pod_that_is_no_end_meets_fail_on_for_its_workload(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def of(made: MadePod, name: str) -> MadePod:
        return owned(made.metadata(name=name), "ReplicaSet", "web-5f")

    pending, later = of(make_pod("a"), "web-5f-a"), of(make_pod("z").spec(schedulingGates=[{"name": "g"}]), "web-5f-z")
    blocked = of(pod(phase="Running").labels(app="web"), "web-5f-b")
    ended_pod = of(pod(phase="Succeeded", containerStatuses=[ended("Completed", 0)]), "web-5f-c")
    made = [*deployment(), CORDONED, make_budget("b", 0, app="web"), pending, blocked, ended_pod, later]
    for what in ("fits-nowhere", "gated", "drain-blocked", "completed"):
        assert why(capsys, tmp_path, made, "deploy/web", "--fail-on", what)[0] == 1, what
    assert why(capsys, tmp_path, made, "deploy/web", "--fail-on", "oom-killed")[0] == 0
