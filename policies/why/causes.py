"""The reasons why a Pod terminated, is terminating or still exists: from conditions and statuses first, then from
Events.

Reasons and messages are those of Kubernetes 1.36: pkg/kubelet (eviction, nodeshutdown, preemption), pkg/controller
(tainteviction, devicetainteviction, podgc, job), pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from forewarn.policies.controllers.taint_eviction import tolerated_for
from forewarn.policies.findings import cut, listed
from forewarn.policies.objects.taints import NO_EXECUTE
from forewarn.policies.why.events import DEADLINE, LONG, TAINT
from forewarn.policies.why.records import PodRecord, shown_time
from forewarn.policies.why.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.why.events import Event
    from forewarn.policies.why.evidence import Evidence
    from forewarn.policies.why.records import Container, WaitingContainer


_BY_SIGNAL: Final = (128 + 9, 128 + 15)
_PROBE: Final = re.compile(r"Container (\S{1,253}) failed ((?:liveness|startup) probe)")
_SHUTDOWN: Final = "Pod was terminated in response to imminent node shutdown."
_CRITICAL: Final = ("Pod was preempted by Kubelet", "Preempted in order to admit critical pod")
_LOW: Final = re.compile(r"The node was low on resource: ([\w.-]{1,60})\. ?"
                         r"(?:Threshold quantity: (\S{1,30}), available: (\S{1,30})\.)?")  # fmt: skip
_USAGE: Final = re.compile(r"(Container|Pod) (\S{1,253}) was using (\S{1,30}), request is (\S{1,30}), has larger")
_LIMIT: Final = re.compile(r"(?:Container \S{1,253} exceeded its local ephemeral storage limit|"
                           r"Pod ephemeral local storage usage exceeds|Usage of EmptyDir volume)")  # fmt: skip
_CONDITIONS: Final = {"memory": "MemoryPressure", "ephemeral-storage": "DiskPressure", "inodes": "DiskPressure",
                      "pids": "PIDPressure"}  # fmt: skip
_FREED: Final = {"ephemeral-storage": ", or free the node's disk", "inodes": ", or delete files on the node's disk",
                 "pids": ", or set podPidsLimit in the kubelet's configuration"}  # fmt: skip
"""How to prevent another eviction, by resource, other than by a higher priority."""
_PRESSURE_EVENTS: Final = {"MemoryPressure": "NodeHasInsufficientMemory", "DiskPressure": "NodeHasDiskPressure",
                           "PIDPressure": "NodeHasInsufficientPID"}  # fmt: skip
_REJECTED: Final = "Pod was rejected: "
"""The start of the message of every Pod that the kubelet does not admit. Source: pkg/kubelet, kubelet.go, rejectPod."""
LOST: Final = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
_SHOWN: Final = 3
_ROLLOUT: Final = 600.0
"""Seconds within which the scaling of another ReplicaSet belongs to the same rollout."""
_SAME_PRESSURE: Final = 600.0
"""Seconds within which an Event about pressure on the node belongs to an eviction."""
_UNDISRUPTED: Final = ("Succeeded", "Running", "Pending")
_SHOWN_SHUTDOWN: Final = _SHUTDOWN[:24]
_PULLED: Final = "Pulled"
_STARTING: Final = ("Pulling", _PULLED, "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")
"""Reasons of the kubelet's Events before a container is created. Source: pkg/kubelet/events, event.go."""


def of_containers(evidence: Evidence, pod: PodRecord, *, explained: bool) -> Iterator[Trouble]:
    """Yield the causes in container statuses. `explained`: the Pod's end has a cause, which explains other errors."""
    for container in pod.terminated:
        if container.reason == "OOMKilled":
            yield _oom(container)
        elif not explained and container.exit_code:
            yield _failed(evidence, pod, container)
    if not explained:
        yield from map(_waiting, pod.waiting)


def _oom(container: Container) -> Trouble:
    where = (
        f"at its memory limit of {container.limit}"
        if container.limit
        else "without a memory limit: its node ran out of memory"
    )
    more = f"; {container.restarts} restarts" if container.restarts > 1 else ""
    fix = "raise the memory limit, or use less memory" if container.limit else "set a memory request and limit"
    return Trouble("oom-killed", f"container {container.name} was OOMKilled {where}{more}", fix, container.when)


def _waiting(container: WaitingContainer) -> Trouble:
    text = f"container {container.name} does not start: {container.reason}: {cut(container.message, LONG)}"
    return Trouble("container-waiting", text.rstrip(": "))


def _failed(evidence: Evidence, pod: PodRecord, container: Container) -> Trouble:
    why = f" ({container.reason})" if container.reason not in ("", "Error") else ""
    more = f"; {container.restarts} restarts" if container.restarts > 1 else ""
    probe, in_this_run = _failed_probe(evidence, pod, container)
    if probe:
        text = (
            f"was killed because its {probe} failed (exit code {container.exit_code})"
            if in_this_run
            else f"exited with {container.exit_code}, after its {probe} failed in an earlier run"
        )
        fix = f"see the Event Unhealthy; check the {probe}"
        return Trouble("container-failed", f"container {container.name} {text}{more}", fix, container.when)
    text = f"container {container.name} exited with {container.exit_code}{why}{more}"
    return Trouble("container-failed", text, f"see `kubectl logs -c {container.name} --previous`", container.when)


def _failed_probe(evidence: Evidence, pod: PodRecord, container: Container) -> tuple[str, bool]:
    """The probe because of which the kubelet killed the container, and whether it was in this run; ("", False) if none.

    The kubelet reports only 25 Events about a Pod, and then one in five minutes. Source: kuberuntime_manager.go;
    client-go, tools/record, events_cache.go.
    """
    earlier = ""
    for event in evidence.events.of_pod(pod.name, pod.uid):
        probe = _PROBE.match(event.message) if event.reason == "Killing" else None
        if probe is None or probe[1] != container.name:
            continue
        by_signal = container.exit_code in _BY_SIGNAL
        # The Event of repeated kills has only the time of the last one, which may be of the current run.
        if event.when >= container.started and (event.when <= container.when or by_signal):
            return probe[2], True
        earlier = probe[2] if by_signal else earlier
    return earlier, False


def causes(evidence: Evidence, pod: PodRecord, now: float | None = None) -> Iterator[Trouble]:
    """Yield the reasons why a Pod ended, terminates or restarted, the cause first.

    `now`: None for a snapshot of unknown age.
    """
    end = _end(evidence, pod)
    main = list(end)
    yield from main
    yield from of_containers(evidence, pod, explained=bool(main))
    if pod.deleted is not None:
        yield from _stuck(evidence, pod, now)
    yield from _job(evidence, pod)
    if pod.phase == "Succeeded" and not main:
        yield Trouble("completed", "the phase of the Pod is Succeeded", "", _finished(pod))


def _end(evidence: Evidence, pod: PodRecord) -> Iterator[Trouble]:
    condition = pod.disruption
    if condition is not None:
        yield from _disruption(evidence, pod, condition.reason, condition.message, condition.when)
    elif pod.reason:
        yield from _by_status(evidence, pod)
    elif pod.deleted is not None:
        yield from _deletion(evidence, pod.name, pod.deleted)


def _disruption(evidence: Evidence, pod: PodRecord, reason: str, message: str, when: float) -> Iterator[Trouble]:
    """Yield the cause of a disruption, by the reason of the condition DisruptionTarget.

    Nothing for preemption by kube-scheduler, which `troubles` reports.
    """
    on = _on(pod.node)
    if reason == "TerminationByKubelet":
        yield from _by_kubelet(evidence, pod, message, when)
    elif reason == "EvictionByEvictionAPI":
        yield from _evicted(evidence, pod.node, when)
    elif reason == "DeletionByTaintManager":
        yield from _tainted(evidence, pod.node, when)
    elif reason == "DeletionByDeviceTaintManager":
        yield Trouble("device-taint-evicted", f"deleted{on}: a device that it uses has a NoExecute taint", "", when)
    elif reason == "DeletionByPodGC":
        yield Trouble("node-gone", f"deleted: its node {pod.node} no longer exists", "", when)
    elif reason != "PreemptionByScheduler":
        yield Trouble("disrupted", f"disrupted{on}: {cut(f'{reason}: {message}', LONG)}", "", when)


def _by_kubelet(evidence: Evidence, pod: PodRecord, message: str, when: float) -> Iterator[Trouble]:
    if message.startswith(_SHUTDOWN):
        message = f"terminated by the kubelet: {pod.node} shuts down (graceful node shutdown)"
        yield Trouble("node-shutdown", message, "", when)
        yield from node_health(evidence, pod.node)
    elif message.startswith(_CRITICAL):
        text = f"preempted by the kubelet{_on(pod.node)} to admit a critical Pod"
        yield Trouble("preempted-by-kubelet", text, "request what static Pods need with kube-reserved", when)
    else:
        yield from _evicted_by_kubelet(evidence, pod.node, message, when)


def _evicted_by_kubelet(evidence: Evidence, node: str, message: str, when: float) -> Iterator[Trouble]:
    low = _LOW.match(message)
    if low is None:
        text = f"evicted by the kubelet{_on(node)}: {cut(message, LONG).rstrip('. ')}"
        if _LIMIT.match(message):
            yield Trouble("storage-limit-exceeded", text, "raise the limit, or write less", when)
        else:
            yield Trouble("node-pressure-evicted", text, "", when)
        return
    resource, threshold, available = low.groups()
    figures = f" (available {available}, threshold {threshold})" if threshold else ""
    used = [
        f"{kind.lower()} {name} used {usage} and requests {request}"
        for kind, name, usage, request in _USAGE.findall(message)
    ]
    by = f": {listed(used, _SHOWN)}" if used else ""
    text = f"evicted by the kubelet{_on(node)}, which was low on {resource}{figures}{by}"
    raised = f"request as much {resource} as the Pod uses: the kubelet first evicts Pods that exceed their requests"
    ranked = f"use a class of higher priority{_FREED.get(resource, '')}"
    yield Trouble("node-pressure-evicted", text, raised if used else ranked, when)
    yield from _pressure(evidence, node, _CONDITIONS.get(resource, ""), when)


def _pressure(evidence: Evidence, name: str, kind: str, when: float) -> Iterator[Trouble]:
    """The node's condition at an eviction; after the condition ended, according to an Event."""
    node = evidence.nodes.get(name)
    for condition in node.conditions if node is not None else ():
        if (condition.type, condition.status) == (kind, "True"):
            yield Trouble("node-condition", f"{name} has {kind}", "", condition.when)
            return
    for event in evidence.events.others("Node", name):
        if event.reason == _PRESSURE_EVENTS.get(kind) and abs(event.when - when) <= _SAME_PRESSURE:
            yield Trouble("node-condition", f"{name} had {kind}", "", event.when)


def _tainted(evidence: Evidence, name: str, when: float) -> Iterator[Trouble]:
    """Yield the cause of an eviction by taint. Source: pkg/controller/tainteviction, taint_eviction.go."""
    node = evidence.nodes.get(name)
    taints = [key for key, _ in node.taints] if node is not None else []
    named = f"the NoExecute taint {listed(taints, _SHOWN)}" if taints else "a NoExecute taint"
    since = ", which was removed since" if node is not None and not taints else ""
    fix = "tolerate the taint for longer (tolerationSeconds)" if set(taints) & {*LOST} else ""
    yield Trouble("taint-evicted", f"deleted{_on(name)} because of {named}{since}", fix, when)
    yield from node_health(evidence, name)


def node_health(evidence: Evidence, name: str) -> Iterator[Trouble]:
    """Yield the problem of a node, if any: the node does not exist, is not ready, or has an Event about this."""
    node = evidence.nodes.get(name)
    events = [e for e in evidence.events.others("Node", name) if e.reason in ("NodeNotReady", "Shutdown", "Rebooted")]
    if node is None:
        if name and evidence.nodes:
            yield Trouble("node-gone", f"{name} no longer exists")
    elif (ready := node.not_ready) is not None:
        why = f" ({cut(ready.reason, 60)}: {cut(ready.message, LONG)})" if ready.reason else ""
        yield Trouble("node-not-ready", f"{name} has been not ready{why}", "", ready.when)
    elif events:
        yield Trouble("node-not-ready", f"{name}: {cut(events[-1].message, LONG)}", "", events[-1].when)


def _evicted(evidence: Evidence, name: str, when: float) -> Iterator[Trouble]:
    """Yield the cause of an eviction by the Eviction API. Source: pkg/registry/core/pod/storage/eviction.go."""
    node = evidence.nodes.get(name)
    if node is not None and node.cordoned:
        by = f"{name} is cordoned, as in a drain (kubectl drain, an upgrade, an autoscaler)"
    elif node is None and name and evidence.nodes:
        by = f"{name} no longer exists, as after a drain (an upgrade, an autoscaler)"
    else:
        by = "the requester is only in the API server's audit log (pods/eviction)"
    fix = (
        ""
        if node is not None and not node.cordoned
        else "use a PodDisruptionBudget to limit Pods that a drain evicts at once"
    )
    yield Trouble("evicted-by-api", f"evicted{_on(name)} by the eviction API; {by}", fix, when)


def _by_status(evidence: Evidence, pod: PodRecord) -> Iterator[Trouble]:
    """The cause by status.reason, which the kubelet and the node lifecycle controller set."""
    when = _finished(pod)
    if pod.message.startswith(_REJECTED):
        yield _rejection(evidence, pod)
    elif pod.reason == "Evicted":
        yield from _evicted_by_kubelet(evidence, pod.node, pod.message, when)
    elif pod.reason == "Terminated" and pod.message.startswith(_SHOWN_SHUTDOWN):
        yield from _by_kubelet(evidence, pod, _SHUTDOWN, when)
    elif pod.reason == "Preempting":
        yield from _by_kubelet(evidence, pod, _CRITICAL[0], when)
    elif pod.reason == "NodeLost":
        yield Trouble("node-not-ready", f"lost: {pod.node} does not respond", "", pod.deleted or 0.0)
        yield from node_health(evidence, pod.node)
    elif pod.reason == DEADLINE:
        yield _deadline(when)
    elif pod.deleted is not None:
        yield from _deletion(evidence, pod.name, pod.deleted)


def _deadline(when: float) -> Trouble:
    return Trouble("deadline-exceeded", "failed: it ran longer than activeDeadlineSeconds", "", when)


def _rejection(evidence: Evidence, pod: PodRecord) -> Trouble:
    """The cause of a Pod that the kubelet does not admit, also again after a restart. Only its Event has a time."""
    times = [event.when for event in evidence.events.of_pod(pod.name, pod.uid) if event.reason == pod.reason]
    return _rejected(pod.node, pod.reason, pod.message.removeprefix(_REJECTED), max(times, default=0.0))


def _rejected(node: str, reason: str, message: str, when: float) -> Trouble:
    text = cut(f"{reason}: {message}", LONG).rstrip(". :")
    return Trouble("rejected-by-kubelet", f"not admitted by the kubelet{_on(node)} ({text})", "", when)


def _deletion(evidence: Evidence, name: str, when: float) -> Iterator[Trouble]:
    """Yield the cause of a deletion: a controller, if an Event names it; otherwise a request."""
    event = evidence.events.deletion(name)
    if event is None:
        text = "deleted by a request; the requester is only in the API server's audit log (verb delete)"
        yield Trouble("deleted", text, "", when)
        return
    yield Trouble("deleted-by-controller", f"deleted by {event.kind} {event.name}", "", event.when or when)
    yield from _scaled(evidence, event)


def _scaled(evidence: Evidence, deletion: Event) -> Iterator[Trouble]:
    """Yield why a controller deleted the Pod, by Events of the Deployment and of HorizontalPodAutoscalers.

    Source: pkg/controller/deployment/sync.go, pkg/controller/podautoscaler/horizontal.go.
    """
    scalings = [event for event in evidence.events.others("Deployment") if event.reason == "ScalingReplicaSet"]
    down = [event for event in scalings if event.message.startswith(f"Scaled down replica set {deletion.name} from")]
    before = [event for event in down if event.when <= deletion.when + 1] or down
    if not before:
        return
    scaling = before[-1]
    up = [
        event
        for event in scalings
        if event.message.startswith("Scaled up")
        and abs(event.when - scaling.when) <= _ROLLOUT
        and event.name == scaling.name
    ]
    others = [event for event in up if f"replica set {deletion.name} " not in event.message]
    why = "a rollout" if others else "a scale-down"
    yield Trouble("scaled", f"{why} of Deployment {scaling.name}: {cut(scaling.message, LONG)}", "", scaling.when)
    if not others:
        yield from _rescaled(evidence, scaling.when)


def _rescaled(evidence: Evidence, before: float) -> Iterator[Trouble]:
    """Yield the last change of a size by a HorizontalPodAutoscaler until this time."""
    rescaled = [e for e in evidence.events.others("HorizontalPodAutoscaler") if e.reason == "SuccessfulRescale"]
    sizes = [e for e in rescaled if e.when <= before + 1]
    if sizes:
        last = sizes[-1]
        yield Trouble("scaled", f"HorizontalPodAutoscaler {last.name}: {cut(last.message, LONG)}", "", last.when)


def of_deleted_pod(evidence: Evidence, name: str) -> list[Trouble]:
    """Return the causes, by Events, for a Pod that no longer exists; without preemption by kube-scheduler."""
    events = evidence.events
    if not events.of_pod(name) and events.deletion(name) is None:
        return []
    (uid, since), owner = events.last(name), name.rpartition("-")[0]
    kind, node = "Job" if owner in evidence.jobs else "", events.node_of(name, uid)
    pod = PodRecord(evidence.namespace, name, uid, node, owner=(kind, owner), created=since, phase="Failed")
    return [*_of_deleted_pod(evidence, pod), *_job(evidence, pod)]


def _of_deleted_pod(evidence: Evidence, pod: PodRecord) -> Iterator[Trouble]:
    cause = evidence.events.decisive(pod.name, pod.uid, pod.created)
    if cause is not None:
        yield from _by_event(evidence, pod, cause)
    elif evidence.events.deletion(pod.name) is not None:
        yield from _deletion(evidence, pod.name, 0.0)
    else:
        yield from _unknown(evidence, pod.name, pod.node)


def of_former_pod(evidence: Evidence, name: str, cause: Event) -> Trouble | None:
    """Return the cause of the termination of an earlier Pod with this name, by the Event that names the cause."""
    node = evidence.events.node_of(name, cause.uid) if cause.uid else ""
    return next(_by_event(evidence, PodRecord(evidence.namespace, name, cause.uid, node, phase="Failed"), cause), None)


def _by_event(evidence: Evidence, pod: PodRecord, cause: Event) -> Iterator[Trouble]:
    if cause.is_rejection:
        yield _rejected(pod.node, cause.reason, cause.message, cause.when)
    elif cause.reason == "Evicted":
        yield from _evicted_by_kubelet(evidence, pod.node, cause.message, cause.when)
    elif cause.reason == DEADLINE:
        yield _deadline(cause.when)
    elif cause.reason == "Preempting":
        yield from _by_kubelet(evidence, pod, _CRITICAL[0], cause.when)
    elif cause.reason in TAINT:
        kind = "DeletionByTaintManager" if cause.reason == TAINT[0] else "DeletionByDeviceTaintManager"
        yield from _disruption(evidence, pod, kind, "", cause.when)


def _unknown(evidence: Evidence, name: str, node_name: str) -> Iterator[Trouble]:
    """Yield the cause if no Event names one: neither API evictions nor deletions by users create Events."""
    killed = [e.when for e in evidence.events.of_pod(name) if e.reason == "Killing"]
    node = evidence.nodes.get(node_name)
    cordoned = f"; {node_name} is cordoned: probably a drain" if node is not None and node.cordoned else ""
    text = f"deleted{_on(node_name)}; no Event names the cause{cordoned}"
    fix = "search the API server's audit log for the verbs delete (pods) and create (pods/eviction)"
    yield Trouble("deleted", text, fix, killed[-1] if killed else 0.0)
    yield from node_health(evidence, node_name)


def _stuck(evidence: Evidence, pod: PodRecord, now: float | None) -> Iterator[Trouble]:
    """Yield why a deleted Pod still exists, unless its grace period continues."""
    late = now is not None and now > pod.deadline
    until = f"its grace period ends at {shown_time(pod.deadline)}"
    has_terminated = pod.phase in ("Succeeded", "Failed") or (pod.terminated and not pod.still_running)
    node = evidence.nodes.get(pod.node)
    if pod.finalizers and (has_terminated or late or not pod.node):
        what = "finalizer" if len(pod.finalizers) == 1 else "finalizers"
        text = f"still exists because of {what} {listed([*pod.finalizers], _SHOWN)}"
        yield Trouble(
            "stuck-terminating", text, "the controller that set a finalizer must remove it", pod.deleted or 0.0
        )
    elif pod.node and not has_terminated and (node is None or node.not_ready is not None) and evidence.nodes:
        text = f"the kubelet on {pod.node} does not confirm that its containers stopped"
        fix = "delete the Node object, or set the taint node.kubernetes.io/out-of-service, if the node is shut down"
        yield Trouble("stuck-terminating", text, fix, pod.deleted or 0.0)
    elif late and not has_terminated:
        running = f": containers still run ({listed([*pod.still_running], _SHOWN)})" if pod.still_running else ""
        yield Trouble(
            "stuck-terminating",
            f"still exists although {until.replace('ends', 'ended')}{running}",
            "",
            pod.deleted or 0.0,
        )


def _job(evidence: Evidence, pod: PodRecord) -> Iterator[Trouble]:
    """Yield the failure of the Job that owns the Pod, if the Job has failed.

    Source: pkg/controller/job, job_controller.go, pod_failure_policy.go.
    """
    job = evidence.jobs.get(pod.owner[1]) if pod.owner[0] == "Job" else None
    if job is None or job.failed is None or pod.phase in _UNDISRUPTED:
        return
    failure = job.failed
    because = (
        f" because of this Pod ({cut(failure.message, LONG)})"
        if pod.key in failure.message.replace(",", " ").split()
        else ""
    )
    limit = (
        f" (backoffLimit {job.backoff_limit})"
        if failure.reason == "BackoffLimitExceeded" and job.backoff_limit is not None
        else ""
    )
    fix = "" if job.ignores else "add a podFailurePolicy with the action Ignore for the condition DisruptionTarget"
    is_disrupted = pod.disruption is not None or pod.reason == "Evicted"
    yield Trouble(
        "job-failed",
        f"Job {job.name} failed: {failure.reason}{limit}{because}",
        fix if is_disrupted else "",
        failure.when,
    )


def _finished(pod: PodRecord) -> float:
    """Return the time at which the Pod's last container finished, in seconds since 1970; 0 if unknown."""
    return max((container.when for container in pod.terminated), default=0.0)


def _on(node: str) -> str:
    return f" on {node}" if node else ""


def of_bound_pod(cluster: ClusterSnapshot, evidence: Evidence, pod: Pod, record: PodRecord) -> Iterator[Trouble]:
    """Yield the problems of a Pod that has a node and is neither terminating nor preempted."""
    yield from _creating(evidence, record)
    yield from _on_lost_node(cluster, evidence, pod)
    yield from _drain_blocked(cluster, pod)


def _creating(evidence: Evidence, record: PodRecord) -> Iterator[Trouble]:
    """Yield what the kubelet does before it creates the containers, by its last Event."""
    if not record.creating:
        return
    message = f"container {listed([*record.creating], 3)} is not created yet (ContainerCreating)"
    events = [event for event in evidence.events.of_pod(record.name, record.uid) if event.reason in _STARTING]
    last = events[-1] if events and events[-1].reason != _PULLED else None
    if last is None:
        yield Trouble("container-waiting", message)
    else:
        yield Trouble("container-waiting", f"{message}: {last.reason}: {cut(last.message, LONG)}", "", last.when)


def _on_lost_node(cluster: ClusterSnapshot, evidence: Evidence, pod: Pod) -> Iterator[Trouble]:
    """Yield the problem of a node that does not exist or is not ready, and when taint eviction deletes the Pod."""
    node = evidence.nodes.get(pod.node_name)
    taint = next(((key, when) for key, when in node.taints if key in LOST), None) if node is not None else None
    if node is None or node.not_ready is not None:
        problems = list(node_health(evidence, pod.node_name))
    elif taint is not None:
        problems = [Trouble("node-not-ready", f"{node.name} has the NoExecute taint {taint[0]}", "", taint[1])]
    else:
        return
    added = f" (added at {shown_time(taint[1])})" if taint is not None and taint[1] else ""
    then = _eviction(cluster, pod, added)
    yield from (problem._replace(message=f"{problem.message}; {then}") if then else problem for problem in problems)


def _eviction(cluster: ClusterSnapshot, pod: Pod, added: str) -> str:
    """Return when taint eviction deletes the Pod as a phrase; "" if the node has no NoExecute taint."""
    node = cluster.objects.nodes.get(("", pod.node_name))
    taints = [taint for taint in node.taints if taint.effect == NO_EXECUTE] if node is not None else []
    if not taints:
        return ""
    seconds = tolerated_for(taints, pod.spec.tolerations)
    if seconds is None:
        return "the Pod tolerates its NoExecute taint without limit, and stays"
    if seconds < 0:
        return "the Pod does not tolerate its NoExecute taint, and is deleted"
    return f"the Pod is deleted {seconds} seconds after the NoExecute taint{added}"


def _drain_blocked(cluster: ClusterSnapshot, pod: Pod) -> Iterator[Trouble]:
    """Yield the reason why a Pod on a cordoned node is not evicted: a PDB allows no disruption."""
    node = cluster.objects.nodes.get(("", pod.node_name))
    if node is None or not node.unschedulable:
        return
    for pdb in cluster.objects.pdbs.values():
        if pdb.namespace == pod.namespace and pdb.disruptions_allowed <= 0 and pdb.selects(pod.labels):
            yield Trouble(
                "drain-blocked",
                f"{pod.node_name} is cordoned, and PodDisruptionBudget {pdb.name} allows no disruption",
                "start replacement Pods, or change the PodDisruptionBudget",
            )
