"""The reasons why a Pod is Pending or was preempted, with fixes: alone, in the queue, and of a PodGroup.

The reasons are those of the Kubernetes documentation (Pod Priority and Preemption, Troubleshooting), and further ones
for Pending Pods. kube-scheduler's internal state (queue, back-off) is unknown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import listed, plural
from forewarn.policies.forecast.placement import place_pods
from forewarn.policies.forecast.pod_groups import group_forecast
from forewarn.policies.forecast.waiting import MAX_PENDING, before_in_queue, queue_key
from forewarn.policies.kinds.registry import PRIORITY_CLASS
from forewarn.policies.objects.fields import items, text
from forewarn.policies.objects.pod import wait_seconds
from forewarn.policies.objects.pod_loss import loss_of
from forewarn.policies.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.options import Options
from forewarn.policies.recommended_classes import is_recommended
from forewarn.policies.rules.support.predictions import (
    CHECK_PROFILE,
    CLASS_FOR_DAEMONS,
    cycle_error,
    fix_of,
    is_placeholder,
    needs_class,
    reasons_of,
    volume_fix,
)
from forewarn.policies.scheduling.event_handlers import is_gated, responsible_for_pod
from forewarn.policies.scheduling.reasons import in_short, joined
from forewarn.policies.scheduling.schedule_one import Prediction
from forewarn.policies.scheduling.victim import may_be_preempted, terminating_victims
from forewarn.policies.why.causes import causes, of_bound_pod, of_former_pod
from forewarn.policies.why.causes import of_deleted_pod as causes_by_events
from forewarn.policies.why.events import PREEMPTED
from forewarn.policies.why.records import PodRecord
from forewarn.policies.why.trouble import Trouble
from forewarn.policies.why.victims import by_preemptor, class_not_listed, of_a_victim, of_where

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.documents.answers import PodState
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.why.evidence import Evidence


_BACK_OFF: Final = "wait: kube-scheduler tries a PodGroup again only when its back-off ends"
_CLASSES: Final = 10
"""Maximum classes with higher priority that are tried."""


def of_its_group(cluster: ClusterSnapshot, pod: Pod) -> Trouble | None:
    """Return the reason that the Pod's PodGroup gives; None if forewarn does not predict the PodGroup."""
    group = group_forecast(cluster.scheduling, (pod,))
    if group is None:
        return None
    name = f"PodGroup {group.group.name} ({group.policy})"
    if group.outcome == "not-predicted":
        return Trouble("not-predicted", f"{name}: {group.message}", "")
    if group.missing:
        missing = plural(group.missing, "more Pod")
        return Trouble("group-waits", f"{name} waits for {missing}", "create the missing Pods, or lower minCount")
    if group.outcome == "pending":
        remedy = "lower requests or minCount, or add nodes"
        return Trouble("group-unschedulable", f"{name} is unschedulable: {in_short(group.message)}", remedy)
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
            return f"wait: predicted alone, because it is not one of the first {MAX_PENDING} Pending Pods of the queue"
        scheduled = [prediction.pod.key for prediction in self.before if prediction.outcome in ("fits", "preempts")]
        if not scheduled:
            return ""
        are = plural(len(scheduled), "Pending Pod is", "Pending Pods are")
        return f"wait: {are} scheduled first: {listed(scheduled, 3)}"

    def as_if(self, pod: Pod) -> Prediction:
        """The prediction for the same Pod with a higher priority, which is earlier in the queue."""
        snapshots = (prediction.snapshot for prediction in self.before if queue_key(pod) < queue_key(prediction.pod))
        return Prediction(next(snapshots, self.prediction.snapshot), pod)


def predicted_in_queue(cluster: ClusterSnapshot, pod: Pod) -> InQueue:
    """The prediction for a Pending Pod, in the order of `pending_in_order`; a nominated Pod is before all others."""
    ahead = before_in_queue(cluster, pod)
    if ahead is None or pod.nominated_node_name:
        return InQueue(Prediction(cluster.scheduling, pod), is_alone=ahead is None)
    *before, prediction = place_pods(cluster, [*ahead.pods, pod])
    return InQueue(prediction, tuple(before))


class Diagnosis(NamedTuple):
    """The explanation of a Pod's state. `pod`: None for a Pod that no longer exists.

    `prediction`: the result of the next scheduling cycle; None without one.
    """

    pod: Pod | None
    state: PodState
    troubles: tuple[Trouble, ...]
    prediction: Prediction | None = None


def diagnose(cluster: ClusterSnapshot, pod: Pod, evidence: Evidence, now: float | None = None) -> Diagnosis:
    """Explain a Pod of the cluster. `now`: None for a snapshot of unknown age."""
    events = evidence.events
    record = evidence.pods.get(pod.name) or PodRecord(pod.namespace, pod.name, pod.uid)
    preempted = events.preempted(pod.name, pod.uid)
    when = record.disruption.when if record.disruption is not None else 0.0
    ends = (*causes(evidence, record, now), *_of_its_owner(pod))
    if pod.terminal:
        by = f"preempted on {pod.node_name}{by_preemptor(cluster, preempted)}"
        return Diagnosis(pod, "ended", (Trouble("preempted", by, "", when), *ends) if pod.preempted else ends)
    if pod.node_name and pod.preempted:
        victim = (
            trouble._replace(when=when) if trouble.id == "preempted" else trouble
            for trouble in of_a_victim(cluster, pod, preempted)
        )
        return Diagnosis(pod, "preempted", (*victim, *ends))
    before = tuple(_before_it(cluster, evidence, pod.name, pod.uid, record.created))
    if pod.node_name:
        if pod.terminating:
            return Diagnosis(pod, "terminating", (*ends, *before))
        return Diagnosis(pod, "running", (*ends, *of_bound_pod(cluster, evidence, pod, record), *before))
    held = tuple(_gates(cluster, pod, evidence.pod))
    if held:
        stuck = (trouble for trouble in ends if trouble.id == "stuck-terminating")
        return Diagnosis(pod, "pending", (*held, *stuck, *before))
    if grouped := of_its_group(cluster, pod):
        return Diagnosis(pod, "pending", (*_of_its_class(cluster, pod), grouped, *before))
    queued = predicted_in_queue(cluster, pod)
    prediction = queued.prediction
    waiting = _waiting(cluster, queued, evidence, now)
    reasons = (*_of_its_class(cluster, pod), *waiting, *_of_a_daemon_set(prediction, record))
    return Diagnosis(pod, "pending", (*reasons, *before), prediction)


def of_deleted_pod(cluster: ClusterSnapshot, evidence: Evidence, name: str) -> Diagnosis | None:
    """Explain by Events why a Pod no longer exists; None without Events about the Pod."""
    uid, since = evidence.events.last(name)
    preemption, rest = evidence.events.preempted(name, uid), causes_by_events(evidence, name)
    if preemption is not None:
        text = f"preempted{of_where(preemption)}{by_preemptor(cluster, preemption)}"
        rest = [Trouble("preempted", text, "", preemption.when), *rest]
    rest += _before_it(cluster, evidence, name, uid, since)
    return Diagnosis(None, "gone", tuple(rest)) if rest else None


def _of_its_owner(pod: Pod) -> Iterator[Trouble]:
    """Yield what fails or is interrupted because the Pod terminates. Jobs are in `causes`."""
    is_ending = pod.terminating or pod.preempted or pod.phase == "Failed"
    loss = loss_of(pod, lambda *_: None) if is_ending else None
    if loss is not None:
        effect = f"the loss of this Pod {loss.sentence}"
        yield Trouble("workload-fails", effect) if loss.fails else Trouble("workload-interrupted", effect)


def _of_a_daemon_set(prediction: Prediction, record: PodRecord) -> Iterator[Trouble]:
    """Yield the reason for a Pending DaemonSet Pod: it fits on one node only, and preempts no Pod of equal priority."""
    if record.owner[0] != "DaemonSet" or not record.target_node or prediction.outcome != "pending":
        return
    mine, snapshot = prediction.pod.effective_priority, prediction.snapshot
    info = snapshot.get(record.target_node)
    equal = sum(not may_be_preempted(other, mine, snapshot) for other in info.pods) if info else 0
    others = f": {plural(equal, 'Pod')} there of equal or higher priority" if equal else ""
    yield Trouble(
        "daemonset-pod-pending",
        f"DaemonSet {record.owner[1]} creates it for {record.target_node} only{others}",
        CLASS_FOR_DAEMONS if needs_class(prediction) else "",
    )


def _before_it(cluster: ClusterSnapshot, evidence: Evidence, name: str, uid: str, created: float) -> Iterator[Trouble]:
    """Yield the reason why the earlier Pod with the same name terminated. `uid`, `created`: of the later Pod."""
    former = evidence.events.former(name, uid, created)
    if former is not None and former.reason == PREEMPTED:
        text = f"the previous Pod of this name was preempted{of_where(former)}{by_preemptor(cluster, former)}"
        yield Trouble("former-preempted", text, "", former.when)
    elif former is not None and (cause := of_former_pod(evidence, name, former)) is not None:
        yield Trouble("former-ended", f"the previous Pod of this name: {cause.message}", cause.help, cause.when)


def _gates(cluster: ClusterSnapshot, pod: Pod, obj: ApiObject) -> Iterator[Trouble]:
    """Yield the reason why kube-scheduler does not try to schedule the Pod, if any."""
    if pod.terminating:
        yield Trouble("being-deleted", "being deleted; kube-scheduler ignores it")
    elif pod.spec.gated:
        gates = [text(gate, "name") for gate in items(obj, "spec", "schedulingGates")]
        named = f" ({listed(gates, 5)})" if any(gates) else ""
        by = f"{plural(len(gates) or 1, 'scheduling gate')}{named}"
        what = f"kept out of the scheduling queue by {by}"
        if not is_gated(pod, cluster.semantics):
            what = f"kube-apiserver rejects its binding because of {by}; its profile disables SchedulingGates"
        yield Trouble("gated", what, "the controller that set a gate must remove it")
    elif not responsible_for_pod(pod, cluster.semantics.scheduler_names):
        yield Trouble(
            "other-scheduler",
            f"spec.schedulerName is {pod.spec.scheduler_name}",
            "check that this scheduler runs; pass --scheduler-config if it is a profile of kube-scheduler",
        )


def _of_its_class(cluster: ClusterSnapshot, pod: Pod) -> Iterator[Trouble]:
    name = pod.priority_class_name
    priority_class = cluster.priority_classes.get(name) if name else None
    if name and priority_class is None and PRIORITY_CLASS in cluster.objects.unlisted:
        yield class_not_listed(name)
    elif name and priority_class is None:
        yield Trouble(
            "class-gone",
            f"PriorityClass {name} does not exist: the Pod keeps priority {pod.effective_priority}; admission will "
            "reject a replacement Pod",
            "recreate the PriorityClass, or change the template",
        )
    elif priority_class is not None and priority_class.value != pod.effective_priority:
        yield Trouble(
            "class-changed",
            f"PriorityClass {name} now has value {priority_class.value}; the Pod keeps priority "
            f"{pod.effective_priority}",
            "recreate the Pod",
        )


def _waiting(cluster: ClusterSnapshot, queued: InQueue, evidence: Evidence, now: float | None) -> Iterator[Trouble]:
    prediction = queued.prediction
    pod = prediction.pod
    if prediction.outcome == "not-predicted":
        yield Trouble("not-predicted", prediction.not_predicted)
        return
    if pod.nominated_node_name:
        yield from _nominated(prediction, evidence, now)
    if prediction.outcome == "fits":
        yield Trouble(
            "not-tried-yet",
            f"fits on {prediction.node} now: it waits in the scheduling queue, or kube-scheduler does not run",
            queued.note,
        )
    elif prediction.outcome == "preempts" and not all(victim.terminating for victim in prediction.victims):
        going = listed([victim.key for victim in prediction.victims], 5)
        yield Trouble("will-preempt", f"its next scheduling attempt preempts {going} on {prediction.node}", queued.note)
    elif prediction.error:
        yield Trouble("cycle-error", cycle_error(prediction), CHECK_PROFILE)
    elif prediction.outcome == "pending" and not _ending_on_nominated_node(prediction):
        yield _fits_nowhere(cluster, queued)


def _nominated(prediction: Prediction, evidence: Evidence, now: float | None) -> Iterator[Trouble]:
    """Yield the reason why a Pod that has preempted other Pods is not scheduled yet."""
    node = prediction.pod.nominated_node_name
    if node not in prediction.snapshot.rows:
        yield Trouble("nominated-node-gone", f"nominated to {node}, which no longer exists")
        return
    ending = _ending_on_nominated_node(prediction)
    if ending:
        yield _for_termination(ending, node, evidence, now)
    elif node not in prediction.feasible:
        yield from _overtaken(prediction)


def _for_termination(ending: Sequence[Pod], node: str, evidence: Evidence, now: float | None) -> Trouble:
    """The reason of a Pod that waits for terminating Pods. No time is promised if a grace period has ended."""
    pods = f"{plural(len(ending), 'Pod')} of lower priority to terminate on {node}"
    text = f"waits for {pods} ({listed([victim.key for victim in ending], 5)})"
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


def _ending_on_nominated_node(prediction: Prediction) -> list[Pod]:
    """Return the terminating Pods that keep a nominated Pod from its node: victims of a preemption, or if there are
    none, Pods that terminate anyway and would be victims.
    """
    snapshot, pod = prediction.snapshot, prediction.pod
    info = snapshot.get(pod.nominated_node_name)
    ending = terminating_victims(pod.effective_priority, info, snapshot) if info else []
    if ending or prediction.node != pod.nominated_node_name or not all(v.terminating for v in prediction.victims):
        return ending
    return [*prediction.victims]


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
        yield Trouble(
            "overtaken",
            f"Pods on {node} were preempted for it, but Pods of equal or higher priority took the capacity: {by}",
            "use a higher class, or free capacity on another node",
        )


def _fits_nowhere(cluster: ClusterSnapshot, queued: InQueue) -> Trouble:
    then = f"; {queued.note}" if queued.note else ""
    prediction, pod = queued.prediction, queued.prediction.pod
    if prediction.pre_filter is not None:
        why = joined(prediction.pre_filter.reasons, "; ").short
        return Trouble("fits-nowhere", f"fits on no node: {why}{then}", fix_of(reasons_of([prediction])))
    reserves = is_placeholder(pod, Options())  # with a higher class, it would no longer be preempted
    volumes = volume_fix(prediction)
    if pod.preemption_policy == PREEMPT_NEVER:
        return Trouble(
            "never-preempts",
            f"fits on no node, and its preemptionPolicy is Never: it waits for free capacity{then}",
            volumes or ("add nodes" if reserves else "add nodes, or use a class that may preempt"),
        )
    return Trouble(
        "fits-nowhere",
        f"fits on no node, even after preempting Pods of lower priority{then}",
        ("" if reserves else _class_that_helps(cluster, queued))
        or volumes
        or "add nodes, lower the requests or relax the constraints (see nodes)",
    )


def _class_that_helps(cluster: ClusterSnapshot, queued: InQueue) -> str:
    """The lowest recommendable class of higher priority with which the Pod would preempt; "" if none of the next
    ones.
    """
    pod = queued.prediction.pod
    higher = [
        c
        for c in cluster.priority_classes.values()
        if pod.effective_priority < c.value and is_recommended(c, to_preempt=True)
    ]
    for c in sorted(higher, key=lambda c: (c.value, c.name))[:_CLASSES]:
        with_it = queued.as_if(replace(pod, priority=c.value, preemption_policy=c.preemption_policy))
        if with_it.outcome == "preempts":
            victims = plural(len(with_it.victims), "Pod")
            return f'use class "{c.name}" ({c.value}), with which it would preempt {victims} on {with_it.node}'
    return ""


def quota_hint(cluster: ClusterSnapshot, namespace: str) -> str:
    """Return a phrase about used-up ResourceQuotas, which may explain a missing Pod; "" if there are none."""
    full = sorted(
        f"{quota.name} ({name})"
        for quota in cluster.resource_quotas.values()
        if quota.namespace == namespace
        for name, most in quota.hard.items()
        if name in quota.used and quota.used[name] >= most
    )
    return f"; its namespace has used up ResourceQuota {listed(full, 3)}, which rejects new Pods" if full else ""
