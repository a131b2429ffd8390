"""The reasons why a Pod is Pending or was preempted, with fixes: alone, in the queue, and of a PodGroup.

The reasons are those of the Kubernetes documentation (Pod Priority and Preemption, Troubleshooting), and further ones
for Pending Pods. kube-scheduler's internal state (queue, back-off) is unknown.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.disclosure import OPEN
from forewarn.policies.base.findings import cut, described, grouped, listed, plural
from forewarn.policies.kubernetes.controllers.own_pods import pods_of
from forewarn.policies.kubernetes.controllers.taint_eviction import tolerated_for
from forewarn.policies.kubernetes.kinds.registry import PRIORITY_CLASS
from forewarn.policies.kubernetes.kube_apiserver.priority import is_recommended
from forewarn.policies.kubernetes.kube_apiserver.quota import matching_resources
from forewarn.policies.kubernetes.kube_apiserver.validation.resources import is_extended
from forewarn.policies.kubernetes.objects.node import NO_EXECUTE, Taint, Toleration
from forewarn.policies.kubernetes.objects.pod import Pod, wait_seconds
from forewarn.policies.kubernetes.objects.pod_loss import loss_of
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.scheduling.event_handlers import is_gated, responsible_for_pod
from forewarn.policies.kubernetes.scheduling.framework import Code
from forewarn.policies.kubernetes.scheduling.not_predicted import not_predicted
from forewarn.policies.kubernetes.scheduling.preemption import Candidate, may_be_preempted, pick_nodes_for_preemption
from forewarn.policies.kubernetes.scheduling.reasons import Reason, shorten
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.linting.rules.support import predictions
from forewarn.policies.linting.rules.wording.impact import victims_text
from forewarn.policies.linting.rules.wording.phrases import violating
from forewarn.policies.prediction.forecast.placement import place_pods
from forewarn.policies.prediction.forecast.pod_groups import REMOVE_GATES, group_forecast
from forewarn.policies.prediction.forecast.why_not import (
    MAX_PENDING,
    OF_KUBERNETES,
    cause,
    common_cause,
    ending_on_nominated_node,
    on_no_node,
    pending_in_order,
    preceding_pods,
    queue_key,
    waits_for,
)
from forewarn.policies.questions.whatif.questions import kind_named
from forewarn.policies.questions.why.evidence import (
    BACK_OFF,
    DEADLINE,
    LONG,
    PREEMPTED,
    TAINT,
    Condition,
    PodRecord,
    PodState,
    Trouble,
    ids,
    shown_time,
)

if TYPE_CHECKING:
    from forewarn.policies.base.documents import Hidden, Inlined
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.questions.why.evidence import Container, Event, Evidence

_PROBE: Final = re.compile(r"Container (\S{1,253}) failed ((?:liveness|startup) probe)")
_SHUTDOWN: Final = "Pod was terminated in re"  # in response to imminent node shutdown
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
_SLACK: Final = 30
"""Seconds after the grace period in which a kubelet usually removes a Pod."""
_REMAINS: Final = ("stuck-terminating", "being-deleted")
"""Ids of reasons why a deleted Pod still exists; the answer shows the first of these that applies."""
_JOB_TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of each Pod of a Job, which the Job controller removes as soon as the Pod has ended."""
_REJECTED: Final = "Pod was rejected: "
"""The start of the message of every Pod that the kubelet does not admit. Source: pkg/kubelet, kubelet.go, rejectPod."""
LOST: Final = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
_TOLERATES: Final = {
    None: "tolerates its NoExecute taint without limit, and stays",
    -1: "does not tolerate its NoExecute taint, and is deleted",
}
"""Special result of `tolerated_for`, instead of a number of seconds -> what happens to the Pod."""
_SHOWN: Final = 3
_ROLLOUT: Final = 600.0
"""Seconds within which the scaling of another ReplicaSet belongs to the same rollout."""
_SAME_PRESSURE: Final = 600.0
"""Seconds within which an Event about pressure on the node belongs to an eviction."""
_PULLED: Final = "Pulled"
_STARTING: Final = ("Pulling", _PULLED, "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")
"""Reasons of the kubelet's Events before a container is created. Source: pkg/kubelet/events, event.go."""


def container_troubles(evidence: Evidence, pod: PodRecord, *, explained: bool) -> Iterator[Trouble]:
    """Yield the causes in container statuses. `explained`: the Pod's end has a cause, which explains other errors."""
    for container in pod.terminated:
        if container.reason == "OOMKilled":
            yield _oom(container)
        elif not explained and (container.exit_code or container.backs_off):
            yield _failed(evidence, pod, container)
    if not explained:
        for waiting in pod.waiting:
            text = _append_message(f"container {waiting.name} does not start: {waiting.reason}", waiting.message)
            yield Trouble("container-waiting", text, reason=waiting.reason)


def _oom(container: Container) -> Trouble:
    where = "without a memory limit: its node ran out of memory"
    fix = "set a memory limit, and request what the container needs"
    if container.limit:
        where, fix = f"at {container.limit}", "raise the memory limit, or use less memory"
    text = f"container {container.name} was {container.reason} {where}{container.more}"
    return Trouble("oom-killed", text, fix, container.when, container.reason)


def _failed(evidence: Evidence, pod: PodRecord, container: Container) -> Trouble:
    why = f" ({container.reason})" if container.reason not in ("", "Error") else ""
    probe, in_this_run = _failed_probe(evidence, pod, container)
    if probe:
        killed = f"was killed because its {probe} failed (exit code {container.exit_code})"
        ended = f"exited with {container.exit_code}, after its {probe} failed in an earlier run"
        text, fix = killed if in_this_run else ended, f"see the Event Unhealthy; check the {probe}"
        return Trouble("container-failed", f"container {container.name} {text}{container.more}", fix, container.when)
    text = f"container {container.name} exited with {container.exit_code}{why}{container.more}"
    fix = f"see `kubectl logs -c {container.name} --previous`"
    return Trouble("container-failed", text, fix, container.when, BACK_OFF if container.backs_off else "")


def _failed_probe(evidence: Evidence, pod: PodRecord, container: Container) -> tuple[str, bool]:
    """The probe because of which the kubelet killed the container, and whether it was in this run; ("", False) if none.

    The kubelet reports only 25 Events about a Pod, and then one every five minutes. Source: kuberuntime_manager.go;
    client-go, tools/record, events_cache.go.
    """
    earlier = ""
    for event in evidence.events.pod_events(pod.name, pod.uid):
        probe = _PROBE.match(event.message) if event.reason == "Killing" else None
        if probe is None or probe[1] != container.name:
            continue
        by_signal = container.exit_code in (128 + 9, 128 + 15)
        # The Event of repeated kills has only the time of the last one, which may be of the current run.
        if event.when >= container.started and (event.when <= container.when or by_signal):
            return probe[2], True
        earlier = probe[2] if by_signal else earlier
    return earlier, False


def causes(evidence: Evidence, pod: PodRecord, now: float | None = None) -> Iterator[Trouble]:
    """Yield why a Pod ended, terminates or restarted, the cause first. `now`: None for a snapshot of unknown age."""
    main = list(_end(evidence, pod))
    yield from main
    yield from container_troubles(evidence, pod, explained=bool(main))
    if pod.deleted is not None:
        yield from _stuck(evidence, pod, now)
    yield from _job(evidence, pod)
    if pod.phase == "Succeeded" and not main:
        yield Trouble("completed", "all its containers succeeded", "", _finished(pod))


def _end(evidence: Evidence, pod: PodRecord) -> Iterator[Trouble]:
    condition = pod.disruption
    is_shutdown = pod.reason == "Terminated" and pod.message.startswith(_SHUTDOWN)
    if condition is not None:
        message = condition.message or pod.message  # the kubelet writes the cause to the condition and the status
        yield from _condition_troubles(evidence, pod, condition.reason, message, condition.when)
    elif pod.reason and pod.message.startswith(_REJECTED):
        # A Pod is also rejected after a restart of the kubelet. Only its Event has a time.
        times = [event.when for event in evidence.events.pod_events(pod.name, pod.uid) if event.reason == pod.reason]
        yield _rejected(pod.node, pod.reason, pod.message.removeprefix(_REJECTED), max(times, default=0.0))
    elif is_shutdown or pod.reason in ("Evicted", "Preempting", "NodeLost", DEADLINE):
        yield from _condition_troubles(evidence, pod, pod.reason, pod.message, _finished(pod))
    elif pod.deleted is not None:
        yield from _deletion(evidence, pod.name, pod.deleted)


_ENDS: Final = {
    **dict.fromkeys(
        ("DeletionByDeviceTaintManager", TAINT[1]),
        Trouble("device-taint-evicted", "deleted{on}: a device that it uses has a NoExecute taint"),
    ),
    "DeletionByPodGC": Trouble("node-gone", "deleted: its node {node} no longer exists"),
    DEADLINE: Trouble("deadline-exceeded", "failed: it ran longer than activeDeadlineSeconds"),
}
"""Reason of an end -> the cause."""


def _condition_troubles(
    evidence: Evidence, pod: PodRecord, reason: str, message: str, when: float
) -> Iterator[Trouble]:
    """Yield the cause by its reason in the condition DisruptionTarget, in the status or in an Event; preemption by
    kube-scheduler is in `diagnose`.
    """
    on = _on(pod.node)
    if reason in ("TerminationByKubelet", "Evicted", "Preempting", "Terminated"):
        is_critical = reason == "Preempting" or message.startswith(_CRITICAL)
        yield from _kubelet_troubles(evidence, pod.node, message, when, is_critical=is_critical)
    elif reason == "EvictionByEvictionAPI":
        yield from _evicted(evidence, pod.node, when)
    elif reason in ("DeletionByTaintManager", TAINT[0]):
        yield from _tainted(evidence, pod.node, when)
    elif reason == "NodeLost":
        yield Trouble("node-not-ready", f"lost: {pod.node} does not respond", "", pod.deleted or 0.0)
        yield from node_health(evidence, pod.node)
    elif reason in _ENDS:
        end = _ENDS[reason]
        yield end._replace(message=end.message.format(on=on, node=pod.node), when=when)
    elif reason not in ("PreemptionByScheduler", PREEMPTED):
        yield Trouble("disrupted", _append_message(_append_message(f"disrupted{on}", reason), message), "", when)


def _kubelet_troubles(
    evidence: Evidence, node: str, message: str, when: float, *, is_critical: bool
) -> Iterator[Trouble]:
    if message.startswith(_SHUTDOWN):
        text = f"terminated by the kubelet: {node} shuts down (graceful node shutdown)"
        yield Trouble("node-shutdown", text, "", when)
        yield from node_health(evidence, node)
    elif is_critical:
        text = f"preempted by the kubelet{_on(node)} to admit a critical Pod"
        yield Trouble("preempted-by-kubelet", text, "request what static Pods need with kube-reserved", when)
    else:
        yield from _evicted_by_kubelet(evidence, node, message, when)


def _evicted_by_kubelet(evidence: Evidence, node: str, message: str, when: float) -> Iterator[Trouble]:
    low = _LOW.match(message)
    if low is None:
        text = _append_message(f"evicted by the kubelet{_on(node)}", message.rstrip(". "))
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
        why = f" ({_append_message(cut(ready.reason, 60), ready.message)})" if ready.reason else ""
        yield Trouble("node-not-ready", f"{name} has been not ready{why}", "", ready.when)
    elif events:
        yield Trouble(
            "node-not-ready", _append_message(name, events[-1].message or events[-1].reason), "", events[-1].when
        )


_REQUESTER: Final = {
    False: "the requester is only in the API server's audit log ({})",
    True: "the audit logs do not show the requester",
}
"""Texts for a requester that no Event names, by whether audit logs were given."""


def _evicted(evidence: Evidence, name: str, when: float) -> Iterator[Trouble]:
    """Yield the cause of an eviction by the Eviction API. Source: pkg/registry/core/pod/storage/eviction.go."""
    node = evidence.nodes.get(name)
    if node is not None and node.cordoned:
        by = f"{name} is cordoned, as in a drain (kubectl drain, an upgrade, an autoscaler)"
    elif node is None and name and evidence.nodes:
        by = f"{name} no longer exists, as after a drain (an upgrade, an autoscaler)"
    else:
        by = _REQUESTER[evidence.has_audit_log].format("pods/eviction")
    is_drained = node is None or node.cordoned
    fix = "use a PodDisruptionBudget to limit Pods that a drain evicts at once" if is_drained else ""
    yield Trouble("evicted-by-api", f"evicted{_on(name)} by the eviction API; {by}", fix, when)


def _rejected(node: str, reason: str, message: str, when: float) -> Trouble:
    text = cut(f"{reason}: {message}", LONG).rstrip(". :")
    return Trouble("rejected-by-kubelet", f"not admitted by the kubelet{_on(node)} ({text})", "", when)


def _deletion(evidence: Evidence, name: str, when: float) -> Iterator[Trouble]:
    """Yield the cause of a deletion: a controller, if an Event names it; otherwise a request."""
    event = evidence.events.deletion(name)
    if event is None:
        requester = _REQUESTER[evidence.has_audit_log].format("verb delete")
        yield Trouble("deleted", f"deleted by a request; {requester}", "", when)
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
    own = [event for event in scalings if event.name == scaling.name and event.message.startswith("Scaled up")]
    up = [event for event in own if abs(event.when - scaling.when) <= _ROLLOUT]
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
        yield Trouble("scaled", _append_message(f"HorizontalPodAutoscaler {last.name}", last.message), "", last.when)


def _event_troubles(evidence: Evidence, pod: PodRecord, cause: Event) -> Iterator[Trouble]:
    if cause.is_rejection:
        yield _rejected(pod.node, cause.reason, cause.message, cause.when)
    else:
        yield from _condition_troubles(evidence, pod, cause.reason, cause.message, cause.when)


def _unknown(evidence: Evidence, name: str, node_name: str) -> Iterator[Trouble]:
    """Yield the cause if no Event names one: neither API evictions nor deletions by users create Events."""
    killed = [e.when for e in evidence.events.pod_events(name) if e.reason == "Killing"]
    node = evidence.nodes.get(node_name)
    cordoned = f"; {node_name} is cordoned: probably a drain" if node is not None and node.cordoned else ""
    text = f"deleted{_on(node_name)}; no Event names the cause{cordoned}"
    fix = "search the API server's audit log for the verbs delete (pods) and create (pods/eviction)"
    yield Trouble("deleted", text, "" if evidence.has_audit_log else fix, killed[-1] if killed else 0.0)
    yield from node_health(evidence, node_name)


def _stuck(evidence: Evidence, pod: PodRecord, now: float | None) -> Iterator[Trouble]:
    """Yield why a deleted Pod still exists: also while its grace period continues, if its node is lost or the Pod has
    finalizers.

    Without a grace period, only finalizers keep the Pod.
    """
    late, has_grace = now is not None and now > pod.deadline + _SLACK, pod.deadline > (pod.deleted or 0.0)
    has_terminated = pod.phase in ("Succeeded", "Failed") or (pod.terminated and not pod.still_running)
    has_ended = has_terminated or late or not (pod.node and has_grace)
    finalizers = [name for name in pod.finalizers if has_ended or name != _JOB_TRACKING]
    lost = "" if has_terminated else _lost(evidence, pod.node)
    if finalizers and not (lost and has_grace):
        yield _held(pod, finalizers, has_ended=has_ended)
    elif lost:
        text = f"{pod.node} {lost}: its kubelet does not confirm that the containers stopped"
        fix = "delete the Node object, or set the taint node.kubernetes.io/out-of-service, if the node is shut down"
        yield _stuck_since(pod, text, "ended" if late else "ends", fix)
    elif late and not has_terminated:
        running = f": containers still run ({listed([*pod.still_running], _SHOWN)})" if pod.still_running else ""
        yield _stuck_since(pod, f"still exists after its grace period{running}", "ended")


def _held(pod: PodRecord, finalizers: Sequence[str], *, has_ended: bool) -> Trouble:
    text = f"exists as long as it has finalizer{'s' * (len(finalizers) > 1)} {listed([*finalizers], _SHOWN)}"
    fix = "the controller that set a finalizer must remove it"
    trouble = _stuck_since(pod, text, "" if has_ended else "ends", fix)
    return trouble if has_ended else trouble._replace(id="being-deleted")


def _lost(evidence: Evidence, name: str) -> str:
    """The problem of a Pod's node that does not exist or is not ready; "" if the Pod has no node, or no Nodes are
    known.
    """
    node = evidence.nodes.get(name)
    if node is None:
        return "no longer exists" if name and evidence.nodes else ""
    if node.not_ready is None:
        return ""
    return "is unreachable" if node.not_ready.status == "Unknown" else "is not ready"


def _stuck_since(pod: PodRecord, text: str, ends: str, fix: str = "") -> Trouble:
    """The reason of a Pod that does not terminate, with the time of the deletion request. `ends`: "" to omit the end of
    the grace period.

    A request without grace period sets deletionTimestamp to its own time, even if an earlier one had a grace period.
    Source: apiserver, pkg/registry/rest/delete.go, `BeforeDelete`.
    """
    since = pod.deleted or 0.0
    has_grace = pod.deadline > since
    until = f", its grace period {ends} at {shown_time(pod.deadline)}" if ends and has_grace else ""
    earlier = "" if has_grace else " or earlier"
    requested = f"; deletion requested at {shown_time(since)}{earlier}{until}" if shown_time(since) else ""
    return Trouble("stuck-terminating", f"{text}{requested}", fix, since)


def _job(evidence: Evidence, pod: PodRecord) -> Iterator[Trouble]:
    """Yield the failure of the Job that owns the Pod, if the Job has failed.

    Source: pkg/controller/job, job_controller.go, pod_failure_policy.go.
    """
    job = evidence.jobs.get(pod.owner[1]) if pod.owner[0] == "Job" else None
    if job is None or job.failed is None or pod.phase in ("Succeeded", "Running", "Pending"):
        return
    failure = job.failed
    is_cause = pod.key in failure.message.replace(",", " ").split()
    because = f" because of this Pod ({cut(failure.message, LONG)})" if is_cause else ""
    is_limited = failure.reason == "BackoffLimitExceeded" and job.backoff_limit is not None
    limit = f" (backoffLimit {job.backoff_limit})" if is_limited else ""
    fix = "" if job.ignores else "add a podFailurePolicy with the action Ignore for the condition DisruptionTarget"
    is_disrupted = pod.disruption is not None or pod.reason == "Evicted"
    text = f"Job {job.name} failed: {failure.reason}{limit}{because}"
    yield Trouble("job-failed", text, fix if is_disrupted else "", failure.when)


def _finished(pod: PodRecord) -> float:
    """Return the time at which the Pod's last container finished, in seconds since 1970; 0 if unknown."""
    return max((container.when for container in pod.terminated), default=0.0)


def _append_message(text: str, message: str) -> str:
    """The text followed by a message of the cluster; only the text if the message is empty."""
    return f"{text}: {cut(message, LONG)}" if message else text


def _on(node: str) -> str:
    return f" on {node}" if node else ""


def _unready(state: PodState, record: PodRecord) -> Trouble:
    """The reason of a Pod that is not ready although no problem of its containers and node is known."""
    if state == "pending":
        text, init = "its containers have not started", listed([*record.still_running], _SHOWN)
        return Trouble("container-waiting", f"{text}: init container {init} runs" if init else text)
    ready = next((each for each in record.conditions if each.type == "Ready"), Condition("Ready", ""))
    text = cut(ready.message, LONG) or "its condition Ready is not True"
    return Trouble("container-not-ready", text, "", ready.when, ready.reason)


def _creating(evidence: Evidence, record: PodRecord) -> Iterator[Trouble]:
    """Yield the step in which the kubelet is before it creates the containers, according to its last Event."""
    if not record.creating:
        return
    message = f"container {listed([*record.creating], 3)} is not created yet (ContainerCreating)"
    events = [event for event in evidence.events.pod_events(record.name, record.uid) if event.reason in _STARTING]
    last = events[-1] if events and events[-1].reason != _PULLED else None
    text = message if last is None else _append_message(f"{message}: {last.reason}", last.message)
    yield Trouble("container-waiting", text, "", 0.0 if last is None else last.when)


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
    stored = cluster.objects.nodes.get(("", pod.node_name))
    taints = [each for each in stored.taints if each.effect == NO_EXECUTE] if stored is not None else []
    seconds = tolerated_for(taints, pod.spec.tolerations)
    verdict = _TOLERATES.get(seconds, f"is deleted {seconds} seconds after the NoExecute taint{added}")
    then = f"; the Pod {verdict}" if taints else ""
    yield from (problem._replace(message=f"{problem.message}{then}") for problem in problems)


def _drain_blocked(cluster: ClusterSnapshot, pod: Pod) -> Iterator[Trouble]:
    """Yield the reason why a Pod on a cordoned node is not evicted: a PDB allows no disruption, or there are several.

    Source: pkg/registry/core/pod/storage/eviction.go.
    """
    node = cluster.objects.nodes.get(("", pod.node_name))
    if node is None or not node.unschedulable or pod.terminating or pod.phase in ("Pending", "Succeeded", "Failed"):
        return
    pdbs = [pdb for pdb in cluster.objects.pdbs.values() if pdb.namespace == pod.namespace and pdb.selects(pod.labels)]
    cordoned = f"{pod.node_name} is cordoned, and"
    if len(pdbs) > 1:
        names = listed(sorted(pdb.name for pdb in pdbs), _SHOWN)
        message = f"{cordoned} several PodDisruptionBudgets select the Pod: {names}"
        yield Trouble("drain-blocked", message, "change selectors so that one PodDisruptionBudget selects the Pod")
    elif pdbs and not pdbs[0].disruptions_allowed and (pod.ready or not pdbs[0].evicts_unhealthy):
        message = f"{cordoned} PodDisruptionBudget {pdbs[0].name} allows no disruption"
        yield Trouble("drain-blocked", message, "start replacement Pods, or change the PodDisruptionBudget")


_LOWER: Final = 3
"""Maximum number of nodes with Pods of lower priority that are explained."""


def preemptor_phrase(cluster: ClusterSnapshot, event: Event | None) -> str:
    """Return a phrase such as ` by shop/web (gold, priority 1,000)`; "" if no Event names the preemptor."""
    if event is None or not any(event.by):
        return ""
    words, preemptor = named_by(cluster, event)
    return f" by {words}{f' ({_rank(preemptor)})' if preemptor else ''}"


def _rank(pod: Pod) -> str:
    return ", ".join(filter(None, (pod.priority_class_name, f"priority {pod.effective_priority:,}")))


def named_by(cluster: ClusterSnapshot, event: Event) -> tuple[str, Pod | None]:
    """Return the preemptor of an Event in words, "" without one, and its Pod; None if that Pod no longer exists."""
    namespace, name, uid = event.by
    same_uid = (pod for pod in cluster.pods.values() if uid and pod.uid == uid)
    pod = cluster.pods.get((namespace, name)) if name else next(same_uid, None)
    if pod is not None and uid in ("", pod.uid):
        return pod.key, pod
    gone = f"{namespace}/{name}, which no longer exists" if name else "a Pod that no longer exists"
    return gone if any(event.by) else "", None


def victim_troubles(cluster: ClusterSnapshot, victim: Pod, event: Event | None) -> Iterator[Trouble]:
    """Yield the reasons for a victim of kube-scheduler. `event`: about its preemption."""
    preemptor = preemptor_of(cluster, victim, event)
    if preemptor is None:
        by = preemptor_phrase(cluster, event)
        text = f"kube-scheduler preempts it on {victim.node_name}{by or '; the preemptor is unknown'}"
        yield Trouble("preempted", text, f"use a class of higher priority than {victim.effective_priority:,}")
        return
    priorities = f"{_rank(preemptor)}; its own is {victim.effective_priority:,}"
    yield Trouble("preempted", f"preempted on {victim.node_name} by {preemptor.key} ({priorities})")
    yield from _unnecessarily(cluster, preemptor)
    if not preemptor.node_name:
        yield from _spared_lower_troubles(cluster, victim, preemptor)


def preemptor_of(cluster: ClusterSnapshot, victim: Pod, event: Event | None) -> Pod | None:
    """Return the preemptor of a victim; None if unknown.

    This is the Pod that an Event names, otherwise the Pod with the highest priority that is nominated to the victim's
    node.
    """
    named, snapshot = named_by(cluster, event)[1] if event is not None else None, cluster.scheduling
    if named is not None and may_be_preempted(victim, named.effective_priority, snapshot):
        return named
    nominated = snapshot.nominated_pods(victim.node_name)
    higher = [pod for pod in nominated if may_be_preempted(victim, pod.effective_priority, snapshot)]
    return min(higher, key=lambda pod: (-pod.effective_priority, pod.key), default=None)


def _unnecessarily(cluster: ClusterSnapshot, preemptor: Pod) -> Iterator[Trouble]:
    """Yield a reason if the preemptor's priority is probably unintended.

    Source: the documentation, "Pods are preempted unnecessarily".
    """
    name = preemptor.priority_class_name
    priority_class = cluster.priority_classes.get(name) if name else None
    if priority_class is not None and priority_class.global_default:
        text = f"{preemptor.key} has the priority of {name}, the default class of Pods without priorityClassName"
        fix = "set a low value or preemptionPolicy Never on the default class"
        yield Trouble("preempted-for-the-default", text, fix)
    elif name and priority_class is None and PRIORITY_CLASS in cluster.objects.unlisted:
        yield class_not_listed(name)
    elif name and priority_class is None:
        yield Trouble("preempted-for-a-class-that-is-gone", f"PriorityClass {name} of {preemptor.key} no longer exists")


def _spared_lower_troubles(cluster: ClusterSnapshot, victim: Pod, preemptor: Pod) -> Iterator[Trouble]:
    """Yield the reasons why kube-scheduler did not preempt Pods of lower priority instead.

    Source: the documentation, "Higher-priority Pods are preempted before lower-priority Pods".
    """
    snapshot = cluster.scheduling
    lower: dict[str, int] = {}
    for info in snapshot.node_infos:
        priorities = [pod.effective_priority for pod in info.pods if not pod.terminating]
        if priorities and min(priorities) < victim.effective_priority:
            lower[info.name] = min(priorities)
    if not lower:
        return
    prediction = _as_it_was(cluster, victim.node_name, preemptor)
    candidates = {candidate.node_name: candidate for candidate in prediction.candidates}
    chosen = candidates.get(victim.node_name)
    if chosen is not None and victim.key not in {pod.key for pod in chosen.victims}:
        others = listed([f"{pod.key} ({_rank(pod)})" for pod in chosen.victims])
        now = f"kube-scheduler would now preempt {others} on {chosen.node_name} instead"
        yield Trouble("preempted-before-lower", f"{now}: the cluster has changed since")
        return
    for node in sorted(lower, key=lambda name: (lower[name], name))[:_LOWER]:
        why = _why_not_there(prediction, chosen, candidates.get(node), node)
        text = f"a Pod of priority {lower[node]:,} on {node} is not preempted: {why}"
        fix = "check PDBs and constraints, which come first: only among candidate nodes, priorities are compared"
        yield Trouble("preempted-before-lower", text, fix)


def _as_it_was(cluster: ClusterSnapshot, node: str, preemptor: Pod) -> Prediction:
    """Return the preemptor's scheduling cycle repeated, as if the victims on the node were not terminating yet."""
    snapshot = cluster.scheduling
    info = snapshot.get(node)
    ending = [pod for pod in info.pods if pod.terminating and pod.preempted] if info else []
    back = [replace(pod, terminating=False, preempted=False) for pod in ending]
    return Prediction(snapshot.with_pods(back, ending), replace(preemptor, nominated_node_name=""), reasons=True)


def _why_not_there(prediction: Prediction, chosen: Candidate | None, other: Candidate | None, node: str) -> str:
    if other is None:
        status = prediction.preemption.statuses.get(node) or prediction.statuses.get(node)
        reasons = "; ".join(status.reasons[:3]) if status is not None else ""
        return f"that node is no candidate for {prediction.pod.key} ({reasons or 'not evaluated'})"
    going = plural(len(other.victims), "Pod")
    if chosen is None:
        return f"{going} would be preempted there"
    if other.num_pdb_violations > chosen.num_pdb_violations:
        return "preempting it would violate a PDB"
    highest = other.victims[0].effective_priority if other.victims else 0
    if chosen.victims and highest > chosen.victims[0].effective_priority:
        return f"a Pod of priority {highest:,} would be preempted there too"
    if node == chosen.node_name:
        return f"preempting {going} without it is enough"
    is_cheaper = chosen.victims and other.victims and chosen not in pick_nodes_for_preemption((chosen, other))
    cost = "a lower cost; the node changed, or was not evaluated then" if is_cheaper else "no lower cost"
    return f"{going} would be preempted there, at {cost}"


def class_not_listed(name: str) -> Trouble:
    """Return the reason for an unknown PriorityClass if the cluster state has no list of PriorityClasses."""
    text = f"PriorityClass {name} is not in the cluster snapshot, which has no PriorityClasses: it may still exist"
    return Trouble("missing-lists", text, "add a cluster file with `kubectl get priorityclasses -o json`")


_BACK_OFF: Final = "wait: kube-scheduler tries a PodGroup again only when its back-off ends"
_CLASSES: Final = 10
"""Maximum number of classes with higher priority that are tried."""


def group_trouble(cluster: ClusterSnapshot, pod: Pod) -> Trouble | None:
    """Return the reason that the Pod's PodGroup gives; None if forewarn does not predict the PodGroup."""
    group = group_forecast(cluster.scheduling, (pod,))
    if group is None:
        return None
    name = f"PodGroup {group.group.name} ({group.policy})"
    if group.outcome == "not-predicted":
        return Trouble("not-predicted", f"{name}: {group.message}", "")
    if group.missing:
        return Trouble("group-waits", f"{name} waits for {plural(group.missing, 'more Pod')}", group.fix)
    if group.outcome == "pending":
        remedy = group.fix or "lower requests or minCount, or add nodes"
        return Trouble("group-unschedulable", f"{name} is unschedulable: {shorten(group.message)}", remedy)
    if group.outcome == "preempts":
        victims = f"{plural(len(group.victims), 'Pod')}: {listed([victim.key for victim in group.victims])}"
        return Trouble("group-will-preempt", f"{name} will preempt {victims}", _BACK_OFF)
    return Trouble("group-not-tried-yet", f"{name} fits, and kube-scheduler has not tried it since", _BACK_OFF)


class InQueue(NamedTuple):
    """The prediction for a Pod, and those for the Pods before it in the queue.

    `is_alone`: the Pod is not among the first MAX_PENDING, so no Pod before it is included.
    """

    prediction: Prediction
    before: tuple[Prediction, ...] = ()
    is_alone: bool = False

    @property
    def note(self) -> str:
        """The Pods before the Pod that affect its prediction; "" without such Pods."""
        if self.is_alone:
            return f"predicted alone, because it is not one of the first {MAX_PENDING} Pending Pods of the queue"
        competing = [each.pod.key for each in self._competing]
        are = plural(len(competing), "Pending Pod is", "Pending Pods are")
        return f"{are} scheduled first: {listed(competing)}" if competing else ""

    @property
    def _competing(self) -> Sequence[Prediction]:
        """The predictions of the Pods before the Pod on nodes that it could use without these; of all that run, if they
        exclude it in another way.
        """
        scheduled = [each for each in self.before if each.outcome in _RUNS]
        if not scheduled:
            return scheduled
        alone = Prediction(scheduled[0].snapshot, self.prediction.pod)
        candidates = {each.node_name for each in alone.candidates}
        competing = [each for each in scheduled if each.node not in alone.statuses or each.node in candidates]
        is_changed = self.prediction.outcome != alone.outcome
        return scheduled if is_changed and not competing else competing

    @property
    def help(self) -> str:
        """The advice to wait for these Pods; "" without such Pods."""
        return self.note and f"wait: {self.note}"

    def as_if(self, pod: Pod) -> Prediction:
        """The prediction for the same Pod with a higher priority, which is earlier in the queue."""
        snapshots = (prediction.snapshot for prediction in self.before if queue_key(pod) < queue_key(prediction.pod))
        return Prediction(next(snapshots, self.prediction.snapshot), pod)


def predicted_in_queue(cluster: ClusterSnapshot, pod: Pod) -> InQueue:
    """The prediction for a Pending Pod, in the order of `pending_in_order`; a nominated Pod is before all others."""
    ahead = preceding_pods(cluster, pod)
    if ahead is None or pod.nominated_node_name:
        return InQueue(Prediction(cluster.scheduling, pod), is_alone=ahead is None)
    *before, prediction = place_pods(cluster, [*ahead.pods, pod])
    return InQueue(prediction, tuple(before))


def _predict_queue(cluster: ClusterSnapshot, pods: Sequence[Pod]) -> dict[str, InQueue]:
    """The predictions, by identity, for those of `pods` that are among the first MAX_PENDING in the queue."""
    own, queue = {pod.identity for pod in pods}, pending_in_order(cluster).pods
    last = max((place for place, pod in enumerate(queue, 1) if pod.identity in own), default=0)
    placed = place_pods(cluster, queue[:last])
    return {each.pod.identity: InQueue(each, placed[:place]) for place, each in enumerate(placed)}


class Diagnosis(NamedTuple):
    """The explanation of a Pod's state. `pod`: None for a Pod that no longer exists. `state`: the phase of a "pending"
    Pod is Pending, with or without a node; "not-ready" means Running, but not ready; "ended" means Succeeded or Failed,
    and "gone" means deleted.

    `troubles`: causes and problems, the cause first. `prediction`: the predicted result of the next scheduling
    cycle; None if no cycle is predicted.
    """

    pod: Hidden[Pod | None]
    state: PodState
    troubles: tuple[Trouble, ...]
    prediction: Hidden[Prediction | None] = None

    @property
    def first(self) -> Trouble:
        """The reason to show first: why the Pod does not terminate, otherwise the cause."""
        ordered = (each for kind in _REMAINS for each in self.troubles if each.id == kind)
        return next(ordered, self.troubles[0])

    def __repr__(self) -> str:
        return described(self, ": ".join([self.state, *(trouble.message for trouble in self.troubles[:1])]))


def diagnose(
    cluster: ClusterSnapshot,
    pod: Pod,
    evidence: Evidence,
    now: float | None = None,
    queued: InQueue | None = None,
) -> Diagnosis:
    """Explain a Pod of the cluster. `now`: None for a snapshot of unknown age. `queued`: its prediction, if known."""
    events = evidence.events
    record = evidence.pods.get(pod.name) or PodRecord(pod.namespace, pod.name, pod.uid)
    preempted = events.preempted(pod.name, pod.uid)
    when = record.disruption.when if record.disruption is not None else 0.0
    ends = (*causes(evidence, record, now), *_owner_troubles(pod))
    if pod.terminal:
        by = f"preempted on {pod.node_name}{preemptor_phrase(cluster, preempted)}"
        return Diagnosis(pod, "ended", (Trouble("preempted", by, "", when), *ends) if pod.preempted else ends)
    if pod.node_name and pod.preempted:
        victim = (
            trouble._replace(when=when) if trouble.id == "preempted" else trouble
            for trouble in victim_troubles(cluster, pod, preempted)
        )
        return Diagnosis(pod, "preempted", (*victim, *ends))
    before = tuple(_earlier_pod_troubles(cluster, evidence, pod.name, pod.uid, record.created))
    if pod.node_name:
        if pod.terminating:
            return Diagnosis(pod, "terminating", (*ends, *before))
        bound = _bound_pod_diagnosis(cluster, evidence, pod, record, ends)
        return bound._replace(troubles=(*bound.troubles, *before))
    held = tuple(_gates(cluster, pod, record))
    if held:
        terminating = (trouble for trouble in ends if trouble.id == "stuck-terminating")
        return Diagnosis(pod, "pending", (*held, *terminating, *before))
    if grouped := group_trouble(cluster, pod):
        return Diagnosis(pod, "pending", (*_class_troubles(cluster, pod), grouped, *before))
    queued = queued or predicted_in_queue(cluster, pod)
    prediction = queued.prediction
    waiting = _waiting(cluster, queued, evidence, record, now)
    reasons = (*waiting, *_daemon_set_troubles(prediction, record), *_class_troubles(cluster, pod))
    return Diagnosis(pod, "pending", (*reasons, *before), prediction)


def _bound_pod_diagnosis(
    cluster: ClusterSnapshot, evidence: Evidence, pod: Pod, record: PodRecord, ends: Sequence[Trouble]
) -> Diagnosis:
    """Explain a Pod that has a node and is neither terminating nor preempted. `ends`: of its containers."""
    is_running = pod.ready and not record.is_waiting
    state: PodState = "pending" if pod.phase == "Pending" else "running" if is_running else "not-ready"
    now = (*_creating(evidence, record), *_on_lost_node(cluster, evidence, pod))
    # A container that runs again does not explain a Pod on a lost node.
    problems = (*ends, *now) if is_running or record.is_waiting else (*now, *ends)
    if state != "running" and not problems:
        problems = (_unready(state, record),)
    return Diagnosis(pod, state, (*problems, *_drain_blocked(cluster, pod)))


def deleted_pod_diagnosis(cluster: ClusterSnapshot, evidence: Evidence, name: str) -> Diagnosis | None:
    """Explain by Events why a Pod no longer exists; None without Events about the Pod."""
    events, deletion = evidence.events, evidence.events.deletion(name)
    if not events.pod_events(name) and deletion is None:
        return None
    (uid, since), owner = events.last(name), name.rpartition("-")[0]
    kind, node = "Job" if owner in evidence.jobs else "", events.node_of(name, uid)
    pod = PodRecord(evidence.namespace, name, uid, node, owner=(kind, owner), created=since, phase="Failed")
    preemption, cause = events.preempted(name, uid), events.decisive(name, uid, since)
    troubles = list[Trouble]()
    if preemption is not None:
        text = f"preempted{_on(preemption.node)}{preemptor_phrase(cluster, preemption)}"
        troubles.append(Trouble("preempted", text, "", preemption.when))
    if cause is not None:
        troubles += _event_troubles(evidence, pod, cause)
    else:
        troubles += _deletion(evidence, name, 0.0) if deletion else _unknown(evidence, name, node)
    troubles += (*_job(evidence, pod), *_earlier_pod_troubles(cluster, evidence, name, uid, since))
    return Diagnosis(None, "gone", tuple(troubles)) if troubles else None


def _owner_troubles(pod: Pod) -> Iterator[Trouble]:
    """Yield other objects that fail or are interrupted because the Pod terminates; for Jobs, see `causes`."""
    is_ending = pod.terminating or pod.preempted or pod.phase == "Failed"
    loss = loss_of(pod, lambda *_: None) if is_ending else None
    if loss is not None:
        effect = f"the loss of this Pod {loss.sentence}"
        yield Trouble("workload-fails", effect) if loss.fails else Trouble("workload-interrupted", effect)


def _daemon_set_troubles(prediction: Prediction, record: PodRecord) -> Iterator[Trouble]:
    """Yield the reason for a Pending DaemonSet Pod: it fits on one node only, and preempts no Pod of equal priority."""
    if record.owner[0] != "DaemonSet" or not record.target_node or prediction.outcome != "pending":
        return
    mine, snapshot = prediction.pod.effective_priority, prediction.snapshot
    info = snapshot.get(record.target_node)
    equal = sum(not may_be_preempted(other, mine, snapshot) for other in info.pods) if info else 0
    others = f": {plural(equal, 'Pod')} there of equal or higher priority" if equal else ""
    text = f"DaemonSet {record.owner[1]} creates it for {record.target_node} only{others}"
    fix = predictions.CLASS_FOR_DAEMONS if predictions.needs_class(prediction) else ""
    yield Trouble("daemonset-pod-pending", text, fix)


def _earlier_pod_troubles(
    cluster: ClusterSnapshot, evidence: Evidence, name: str, uid: str, created: float
) -> Iterator[Trouble]:
    """Yield the reason why the earlier Pod with the same name terminated. `uid`, `created`: of the later Pod."""
    former = evidence.events.former(name, uid, created)
    if former is None:
        return
    if former.reason == PREEMPTED:
        text = f"the previous Pod of this name was preempted{_on(former.node)}{preemptor_phrase(cluster, former)}"
        yield Trouble("former-preempted", text, "", former.when)
    node = evidence.events.node_of(name, former.uid) if former.uid else ""
    record = PodRecord(evidence.namespace, name, former.uid, node, phase="Failed")
    for end in islice(_event_troubles(evidence, record, former), 1):
        yield Trouble("former-ended", f"the previous Pod of this name: {end.message}", end.help, end.when)


def _gates(cluster: ClusterSnapshot, pod: Pod, record: PodRecord) -> Iterator[Trouble]:
    """Yield the reason why kube-scheduler does not try to schedule the Pod, if any."""
    if pod.terminating:
        yield Trouble("being-deleted", "being deleted; kube-scheduler ignores it")
    elif pod.spec.too_large and not record.gates:
        yield Trouble("not-predicted", pod.spec.too_large)
    elif pod.spec.gated:
        gates = record.gates
        named = f" ({listed([*gates], 5)})" if any(gates) else ""
        by = f"{plural(len(gates) or 1, 'scheduling gate')}{named}"
        what = f"kept out of the scheduling queue by {by}"
        if not is_gated(pod, cluster.semantics):
            what = f"kube-apiserver rejects its binding because of {by}; its profile disables SchedulingGates"
        yield Trouble("gated", what, REMOVE_GATES)
    elif not responsible_for_pod(pod, cluster.semantics.scheduler_names):
        fix = "check that this scheduler runs; add its configuration if it is a profile of kube-scheduler"
        text = f"spec.schedulerName is {pod.spec.scheduler_name}, no known profile of kube-scheduler"
        yield Trouble("other-scheduler", _as_reported(record, text), fix)


def _as_reported(record: PodRecord, text: str) -> str:
    """The reason in the Pod's condition PodScheduled, followed by the text; the text alone without a reason."""
    told = next((c.message for c in record.conditions if (c.type, c.status) == ("PodScheduled", "False")), "")
    has_reason = told and not told.endswith("nodes are available.")
    return f"its scheduler reports: {cut(told, LONG).rstrip('. ')} ({text})" if has_reason else text


def _class_troubles(cluster: ClusterSnapshot, pod: Pod) -> Iterator[Trouble]:
    name = pod.priority_class_name
    priority_class = cluster.priority_classes.get(name) if name else None
    keeps = f"the Pod keeps priority {pod.effective_priority:,}"
    if name and priority_class is None and PRIORITY_CLASS in cluster.objects.unlisted:
        yield class_not_listed(name)
    elif name and priority_class is None:
        text = f"PriorityClass {name} does not exist: {keeps}; admission will reject a replacement Pod"
        yield Trouble("class-gone", text, "recreate the PriorityClass, or change the template")
    elif priority_class is not None and priority_class.value != pod.effective_priority:
        text = f"PriorityClass {name} now has value {priority_class.value}; {keeps}"
        yield Trouble("class-changed", text, "recreate the Pod")


def _waiting(
    cluster: ClusterSnapshot, queued: InQueue, evidence: Evidence, record: PodRecord, now: float | None
) -> Iterator[Trouble]:
    prediction = queued.prediction
    pod = prediction.pod
    if prediction.outcome == "not-predicted":
        yield Trouble("not-predicted", _as_reported(record, f"not predicted: {prediction.not_predicted}"))
        return
    if prediction.outcome == "fits":
        text = f"fits on {prediction.node} now: it waits in the scheduling queue, or kube-scheduler does not run"
        yield Trouble("not-tried-yet", text, queued.help)
        return
    if pod.nominated_node_name:
        yield from _nominated(prediction, evidence, now)
    if prediction.outcome == "preempts" and not all(victim.terminating for victim in prediction.victims):
        going = [victim for victim in prediction.victims if not victim.terminating]
        text = victims_text("its next scheduling attempt preempts", (prediction,), going, OPEN).problem
        text = ", ".join(filter(None, (text, violating(prediction.num_pdb_violations))))
        yield Trouble("will-preempt", text, queued.help)
    elif prediction.error:
        yield Trouble("cycle-error", predictions.cycle_error(prediction), predictions.CHECK_PROFILE)
    elif prediction.outcome == "pending" and not ending_on_nominated_node(prediction):
        nowhere = _fits_nowhere(cluster, queued)
        must_recreate = pod.owner is None and _IMMUTABLE.match(nowhere.help)
        yield nowhere._replace(help=f"recreate the Pod: {nowhere.help}") if must_recreate else nowhere


_IMMUTABLE: Final = re.compile(r"(?:lower its|use (?:a )?class|use topologyKey|change) ")
"""The start of fixes that change immutable fields of a Pod. Tolerations can be added."""


def _nominated(prediction: Prediction, evidence: Evidence, now: float | None) -> Iterator[Trouble]:
    """Yield the reason why a nominated Pod is not scheduled yet."""
    node = prediction.pod.nominated_node_name
    if node not in prediction.snapshot.rows:
        yield Trouble("nominated-node-gone", f"nominated to {node}, which no longer exists")
        return
    ending = ending_on_nominated_node(prediction)
    if ending:
        yield _termination_trouble(ending, node, evidence, now)
    elif (status := prediction.statuses.get(node)) and status.code is Code.UNSCHEDULABLE:
        yield from _overtaken(prediction)


def _termination_trouble(ending: Sequence[Pod], node: str, evidence: Evidence, now: float | None) -> Trouble:
    """The reason of a Pod that waits for terminating Pods. No time is promised if a grace period has ended."""
    text = waits_for(ending, node)
    records = [evidence.ending[victim.key] for victim in ending if victim.key in evidence.ending]
    late = [record for record in records if now is not None and record.deadline < now]
    if not late:
        fix = "set a shorter terminationGracePeriodSeconds on Pods that may be preempted"
        return Trouble("waits-for-termination", f"{text}: up to {plural(wait_seconds(ending), 'second')} each", fix)
    held = list(dict.fromkeys(name for record in late for name in record.finalizers))
    by = f" (finalizers: {listed(held, 3)})" if held else ""
    overdue = f"{listed([record.key for record in late], 3)} still {'exists' if len(late) == 1 else 'exist'}"
    fix = f"run `forewarn why {late[0].key}`" + ("; the controller that set a finalizer must remove it" if held else "")
    return Trouble("waits-for-termination", f"{text}; {overdue} after the grace period{by}", fix)


def _overtaken(prediction: Prediction) -> Iterator[Trouble]:
    """Yield the reason if Pods that it may not preempt use its nominated node."""
    pod, snapshot, node = prediction.pod, prediction.snapshot, prediction.pod.nominated_node_name
    info, mine = snapshot.get(node), pod.effective_priority
    higher = [other for other in (info.pods if info else ()) if not may_be_preempted(other, mine, snapshot)]
    nominated = snapshot.nominated_pods(node)
    higher += [other for other in nominated if other.effective_priority >= mine and other.key != pod.key]
    newest = sorted(higher, key=lambda other: (other.start_time is not None, -(other.start_time or 0), other.key))
    if newest:
        by = listed([other.key for other in newest], 5)
        text = f"nominated to {node}, but Pods of equal or higher priority use the capacity: {by}"
        yield Trouble("overtaken", text, "use a higher class, or free capacity on another node")


def _fits_nowhere(cluster: ClusterSnapshot, queued: InQueue) -> Trouble:
    then = f"; {queued.note}" if queued.note else ""
    prediction, pod = queued.prediction, queued.prediction.pod
    fix_of_all = predictions.fix_of(predictions.fixable_reasons(prediction))
    if found := common_cause(prediction):  # at any queue position
        return Trouble("fits-nowhere", found, fix_of_all or ("" if prediction.pre_filter else "add nodes"))
    nowhere = on_no_node(prediction, named=True)
    reserves = predictions.is_placeholder(pod, Options())  # a higher class would prevent its preemption
    taints = _tolerated_with_effect(queued)
    edits = [f"add a toleration for {taint}, with which it fits on {plural(nodes, 'node')}" for taint, nodes in taints]
    if not reserves:
        edits += (f"lower its {what}, with which it {_effect_of(tried)}" for what, tried in _smaller_request(queued))
        edits.append(_class_that_helps(cluster, queued))
    never = ", and its preemptionPolicy is Never" if pod.preemption_policy == PREEMPT_NEVER else ""
    others = [(Reason("", "", "add nodes"), 0), *predictions.reasons_of([prediction])]
    fix = ", or ".join(filter(None, edits)) or fix_of_all or predictions.fix_of(others)
    return Trouble("never-preempts" if never else "fits-nowhere", f"{nowhere}{never}{then}", fix)


def _tolerated_with_effect(queued: InQueue) -> list[tuple[Taint, int]]:
    """Return the taint whose toleration lets the Pod run on the most nodes without preemption, and their number; [] if
    none does. Ignores taints of nodes with devices that the Pod does not request.
    """
    pod, fits = queued.prediction.pod, Counter[Taint]()
    nodes, own = (info.node for info in queued.prediction.snapshot.node_infos), pod.spec.request.scalars.keys()
    usual = [node for node in nodes if not any(map(is_extended, node.allocatable.scalars.keys() - own))]
    for taint in {taint for node in usual for taint in node.taints if taint.repels_pods}:
        if not taint.key.startswith(OF_KUBERNETES):
            more = Toleration(taint.key, "Exists", "", taint.effect)
            spec = replace(pod.spec, tolerations=(*pod.spec.tolerations, more))
            with_it = queued.as_if(replace(pod, spec=spec, preemption_policy=PREEMPT_NEVER))
            fits[taint] = len(with_it.feasible)
    return sorted((+fits).items(), key=lambda item: (-item[1], item[0]))[:1]


def _smaller_request(queued: InQueue) -> Iterator[tuple[str, Prediction]]:
    """Yield the largest cpu or memory request, at least half of the Pod's, with which it would run, if there is one."""
    pod = queued.prediction.pod

    def with_request(name: str, amount: int) -> Prediction:
        changed: dict[str, Any] = {name: amount}
        spec = replace(pod.spec, request=pod.spec.request._replace(**changed))
        return queued.as_if(replace(pod, spec=spec))

    for resource, name, unit, step, suffix in _SHRUNK:
        whole = getattr(pod.spec.request, name)
        amounts = range(whole // 2 // step * step, whole, step)
        if helping := bisect_left(amounts, True, key=lambda amount: with_request(name, amount).outcome not in _RUNS):
            amount = amounts[helping - 1]
            yield f"{resource} requests to {amount // unit}{suffix}", with_request(name, amount)
            return


_SHRUNK: Final = (("cpu", "milli_cpu", 1, 10, "m"), ("memory", "memory", 1 << 20, 1 << 20, "Mi"))
"""Resource, its field, the size of its unit in bytes or thousandths, the step between tried amounts, and the suffix."""
_RUNS: Final = ("fits", "preempts")


def _effect_of(tried: Prediction) -> str:
    effect = f"would preempt {plural(len(tried.victims), 'Pod')}" if tried.victims else "fits"
    return f"{effect} on {tried.node}"


def _class_that_helps(cluster: ClusterSnapshot, queued: InQueue) -> str:
    """The lowest recommendable class with which the Pod would preempt, a higher one unless its own class never
    preempts; the advice for a new class if none of the first ones helps, but preemption does; "" if it does not.
    """
    pod = queued.prediction.pod
    least = pod.effective_priority + (pod.preemption_policy != PREEMPT_NEVER)
    higher = [c for c in cluster.priority_classes.values() if least <= c.value and is_recommended(c, to_preempt=True)]
    for c in sorted(higher, key=lambda c: (c.value, c.name))[:_CLASSES]:
        with_it = queued.as_if(replace(pod, priority=c.value, preemption_policy=c.preemption_policy))
        if with_it.outcome == "preempts":
            return f'use class "{c.name}" ({c.value}), with which it {_effect_of(with_it)}'
    may_preempt = queued.as_if(replace(pod, preemption_policy=PREEMPT_LOWER_PRIORITY))
    return f"use a class that may preempt, with which it {_effect_of(may_preempt)}" if may_preempt.victims else ""


def quota_hint(cluster: ClusterSnapshot, namespace: str) -> str:
    """Return a phrase about used-up ResourceQuotas, which may explain a missing Pod; "" if there are none."""
    full = sorted(
        f"{quota.name} ({name})"
        for quota in cluster.resource_quotas.values()
        if quota.namespace == namespace
        for name in matching_resources(quota.hard)
        if name in quota.used and quota.used[name] >= quota.hard[name]
    )
    return f"; its namespace has used up ResourceQuota {listed(full, 3)}, which rejects new Pods" if full else ""


_MAX_PODS: Final = 2000
"""Maximum number of Pods for which reasons are computed."""
_BY_CONTROLLERS: Final = frozenset(("deleted-by-controller", "scaled", "deleted"))
"""Ids of terminations that a user or controller requested; they are listed last."""
_COMPLETED: Final = "completed"
_NOT_ENDINGS: Final = frozenset((_COMPLETED, "drain-blocked", "former-preempted", "former-ended"))


class PodEnd(NamedTuple):
    """A Pod of a workload, as `namespace/name`: it terminated, restarted, or has another problem."""

    pod: str
    diagnosis: Inlined[Diagnosis]

    @property
    def cause(self) -> Trouble:
        return self.diagnosis.troubles[0]

    @property
    def words(self) -> str:
        """The cause in words, followed by the reason why the Pod does not terminate, if any."""
        first = self.diagnosis.first
        return self.cause.words if first is self.cause else f"{self.cause.words}; {re.split('[:;]', first.message)[0]}"

    @property
    def order(self) -> tuple[bool, float, str]:
        """The sort key: causes in controllers last, then the latest first."""
        return self.cause.id in _BY_CONTROLLERS, -self.cause.when, self.pod


class PendingPods(NamedTuple):
    """Pending Pods with the same predicted outcome and cause. `pods`: their number. `first`: why the first of them is
    Pending.
    """

    pods: int
    first: PodEnd


_WORST_FIRST: Final = ("pending", "not-predicted", "", "preempts", "fits")
"""Outcomes of Pending Pods; "" for a Pod that is not in the queue or not predicted."""


class Timeline(NamedTuple):
    """The Pods of a workload. `states`: number of Pods by state. `pending`: names of Pending Pods without a node.
    `firstPending`: why the first one is Pending. `pendingCauses`: the Pending Pods by outcome, worst first, without
    those that are not among the first of the queue.

    `endings`: Pods that terminated, restarted, or have another problem; the newest first, requested terminations last.
    `notExplained`: number of Pods beyond the limit of 2,000. `ids`: of all troubles; of Pending Pods with the same
    outcome, only the first.
    """

    states: Counter[str]
    pending: list[str]
    endings: list[PodEnd]
    not_explained: int
    first_pending: PodEnd | None = None
    pending_causes: Sequence[PendingPods] = ()
    ids: Hidden[frozenset[str]] = frozenset()


def meanings(name: str, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield namespace and rest of POD, NAMESPACE/POD, KIND/NAME or NAMESPACE/KIND/NAME. A name that begins with a kind
    has two meanings, because a namespace may be called `jobs`. The second meaning counts if no object matches the
    first.
    """
    first, slash, rest = name.partition("/")
    if not slash or ("/" not in rest and kind_named(first)):
        yield namespace, name
    if slash:
        yield first, rest


def timeline(cluster: ClusterSnapshot, evidence: Evidence, now: float | None = None) -> Timeline:
    """Return the terminations of the workload's Pods: those that no user or controller requested first, then the
    newest.

    `now`: seconds since 1970; None for a cluster snapshot of unknown age.
    """
    states: Counter[str] = Counter()
    endings, pending, found = [], list[str](), set[str]()
    selected = pods_of(cluster, evidence.workload) if evidence.workload and not evidence.pods else ()
    names = [
        *evidence.pods,
        *(pod.name for pod in selected),
        *(name for name in evidence.events.pods() if name not in evidence.pods and evidence.owns(name)),
    ]
    for name in names[:_MAX_PODS]:
        pod = cluster.pods.get((evidence.namespace, name))
        if pod is not None and not pod.node_name and not pod.terminal:
            states["pending"] += 1
            pending.append(name)
            continue
        diagnosis = (
            deleted_pod_diagnosis(cluster, evidence, name) if pod is None else diagnose(cluster, pod, evidence, now)
        )
        if diagnosis is not None:
            kinds = ids(diagnosis.troubles)
            states[_COMPLETED if (diagnosis.state, kinds) == ("ended", [_COMPLETED]) else diagnosis.state] += 1
            found.update(kinds)
            if not _NOT_ENDINGS.issuperset(kinds):
                endings.append(PodEnd(f"{evidence.namespace}/{name}", diagnosis))
    endings.sort(key=lambda ending: ending.order)
    causes = _pending(cluster, evidence, [cluster.pods[evidence.namespace, name] for name in sorted(pending)], now)
    found.update(each for of in causes for each in ids(of.first.diagnosis.troubles))
    first = min((of.first for of in causes), key=lambda end: end.pod, default=None)
    left = max(0, len(names) - _MAX_PODS)
    return Timeline(states, sorted(pending), endings, left, first, causes, frozenset(found))


def all_pending(cluster: ClusterSnapshot) -> Iterator[tuple[Pod, str, Prediction | None]]:
    """Yield each Pending Pod with the cause in words, or with its prediction in the order of the queue."""
    pods = list(cluster.waiting_pods.values())
    queued = _predict_queue(cluster, pods) if pods else {}
    for pod in pods:
        held = next(_gates(cluster, pod, PodRecord(pod.namespace, pod.name, pod.uid)), None)
        found, nominated = queued.get(pod.identity), pod.nominated_node_name
        if held is not None:
            yield pod, held.words, None
        elif found is not None:
            yield pod, "", found.prediction
        elif nominated:
            yield pod, "nominated to a node", None
        elif why := not_predicted(pod, cluster.scheduling):
            yield pod, why, None
        else:
            yield pod, f"not among the first {MAX_PENDING} Pending Pods of the queue", None


def _pending(cluster: ClusterSnapshot, evidence: Evidence, pods: Sequence[Pod], now: float | None) -> list[PendingPods]:
    """Return the Pending Pods by outcome and cause, except those after the first MAX_PENDING of the queue, which would
    seem to fit if evaluated alone. `pods`: sorted by name.
    """
    queued = _predict_queue(cluster, pods) if pods else {}

    def outcome(pod: Pod) -> tuple[str, str, bool, bool, bool]:
        found = queued.get(pod.identity)
        what = found.prediction.outcome if found else ""
        why = cause(found.prediction).short if found and what == "pending" else ""
        return what, why, bool(pod.nominated_node_name), pod.spec.gated, pod.terminating

    def explained(pod: Pod) -> PodEnd:
        return PodEnd(pod.key, diagnose(cluster, pod, evidence, now, queued.get(pod.identity)))

    outcomes = ((outcome(pod), pod) for pod in pods)
    known = ((found, pod) for found, pod in outcomes if any(found) or not_predicted(pod, cluster.scheduling))
    alike = sorted(grouped(known).items(), key=lambda item: _WORST_FIRST.index(item[0][0]))
    return [PendingPods(len(those), explained(those[0])) for _, those in alike]
