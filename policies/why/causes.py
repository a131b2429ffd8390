"""The reasons why a Pod terminated, is terminating or still exists: from conditions and statuses first, then from
Events.

Reasons and messages are those of Kubernetes 1.36: pkg/kubelet (eviction, nodeshutdown, preemption), pkg/controller
(tainteviction, devicetainteviction, podgc, job), pkg/registry/core/pod/storage/eviction.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import cut, listed
from forewarn.policies.why.containers import of_containers
from forewarn.policies.why.events import DEADLINE, LONG, TAINT
from forewarn.policies.why.records import PodRecord, shown_time
from forewarn.policies.why.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.why.events import Event
    from forewarn.policies.why.evidence import Evidence

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
    found = pod.disruption
    if found is not None:
        yield from _disruption(evidence, pod, found.reason, found.message, found.when)
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
    found = _LOW.match(message)
    if found is None:
        text = f"evicted by the kubelet{_on(node)}: {cut(message, LONG).rstrip('. ')}"
        if _LIMIT.match(message):
            yield Trouble("storage-limit-exceeded", text, "raise the limit, or write less", when)
        else:
            yield Trouble("node-pressure-evicted", text, "", when)
        return
    resource, threshold, available = found.groups()
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
    for each in node.conditions if node is not None else ():
        if (each.type, each.status) == (kind, "True"):
            yield Trouble("node-condition", f"{name} has {kind}", "", each.when)
            return
    for event in evidence.events.others("Node", name):
        if event.reason == _PRESSURE_EVENTS.get(kind) and abs(event.when - when) <= _SAME_PRESSURE:
            yield Trouble("node-condition", f"{name} had {kind}", "", event.when)


def _tainted(evidence: Evidence, node: str, when: float) -> Iterator[Trouble]:
    """Yield the cause of an eviction by taint. Source: pkg/controller/tainteviction, taint_eviction.go."""
    found = evidence.nodes.get(node)
    taints = [key for key, _ in found.taints] if found is not None else []
    named = f"the NoExecute taint {listed(taints, _SHOWN)}" if taints else "a NoExecute taint"
    since = ", which was removed since" if found is not None and not taints else ""
    fix = "tolerate the taint for longer (tolerationSeconds)" if set(taints) & {*LOST} else ""
    yield Trouble("taint-evicted", f"deleted{_on(node)} because of {named}{since}", fix, when)
    yield from node_health(evidence, node)


def node_health(evidence: Evidence, node: str) -> Iterator[Trouble]:
    """Yield the problem of a node, if any: the node does not exist, is not ready, or has an Event about this."""
    found = evidence.nodes.get(node)
    events = [e for e in evidence.events.others("Node", node) if e.reason in ("NodeNotReady", "Shutdown", "Rebooted")]
    if found is None:
        if node and evidence.nodes:
            yield Trouble("node-gone", f"{node} no longer exists")
    elif (ready := found.not_ready) is not None:
        why = f" ({cut(ready.reason, 60)}: {cut(ready.message, LONG)})" if ready.reason else ""
        yield Trouble("node-not-ready", f"{node} has been not ready{why}", "", ready.when)
    elif events:
        yield Trouble("node-not-ready", f"{node}: {cut(events[-1].message, LONG)}", "", events[-1].when)


def _evicted(evidence: Evidence, node: str, when: float) -> Iterator[Trouble]:
    """Yield the cause of an eviction by the Eviction API. Source: pkg/registry/core/pod/storage/eviction.go."""
    found = evidence.nodes.get(node)
    if found is not None and found.cordoned:
        by = f"{node} is cordoned, as in a drain (kubectl drain, an upgrade, an autoscaler)"
    elif found is None and node and evidence.nodes:
        by = f"{node} no longer exists, as after a drain (an upgrade, an autoscaler)"
    else:
        by = "the requester is only in the API server's audit log (pods/eviction)"
    fix = (
        ""
        if found is not None and not found.cordoned
        else "use a PodDisruptionBudget to limit Pods that a drain evicts at once"
    )
    yield Trouble("evicted-by-api", f"evicted{_on(node)} by the eviction API; {by}", fix, when)


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


_SHOWN_SHUTDOWN: Final = _SHUTDOWN[:24]


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
    scalings = [e for e in evidence.events.others("Deployment") if e.reason == "ScalingReplicaSet"]
    down = [e for e in scalings if e.message.startswith(f"Scaled down replica set {deletion.name} from")]
    before = [e for e in down if e.when <= deletion.when + 1] or down
    if not before:
        return
    found = before[-1]
    up = [
        e
        for e in scalings
        if e.message.startswith("Scaled up") and abs(e.when - found.when) <= _ROLLOUT and e.name == found.name
    ]
    others = [e for e in up if f"replica set {deletion.name} " not in e.message]
    why = "a rollout" if others else "a scale-down"
    yield Trouble("scaled", f"{why} of Deployment {found.name}: {cut(found.message, LONG)}", "", found.when)
    if not others:
        yield from _rescaled(evidence, found.when)


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


def _unknown(evidence: Evidence, name: str, node: str) -> Iterator[Trouble]:
    """Yield the cause if no Event names one: neither API evictions nor deletions by users create Events."""
    killed = [e.when for e in evidence.events.of_pod(name) if e.reason == "Killing"]
    found = evidence.nodes.get(node)
    cordoned = f"; {node} is cordoned: probably a drain" if found is not None and found.cordoned else ""
    text = f"deleted{_on(node)}; no Event names the cause{cordoned}"
    fix = "search the API server's audit log for the verbs delete (pods) and create (pods/eviction)"
    yield Trouble("deleted", text, fix, killed[-1] if killed else 0.0)
    yield from node_health(evidence, node)


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
    found = job.failed
    because = (
        f" because of this Pod ({cut(found.message, LONG)})"
        if pod.key in found.message.replace(",", " ").split()
        else ""
    )
    limit = (
        f" (backoffLimit {job.backoff_limit})"
        if found.reason == "BackoffLimitExceeded" and job.backoff_limit is not None
        else ""
    )
    fix = "" if job.ignores else "add a podFailurePolicy with the action Ignore for the condition DisruptionTarget"
    is_disrupted = pod.disruption is not None or pod.reason == "Evicted"
    yield Trouble(
        "job-failed", f"Job {job.name} failed: {found.reason}{limit}{because}", fix if is_disrupted else "", found.when
    )


def _finished(pod: PodRecord) -> float:
    """Return the time at which the Pod's last container finished, in seconds since 1970; 0 if unknown."""
    return max((each.when for each in pod.terminated), default=0.0)


def _on(node: str) -> str:
    return f" on {node}" if node else ""
