"""The reasons why kube-scheduler preempted a Pod, and why it did not preempt Pods of lower priority instead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import listed, plural
from forewarn.policies.kinds.registry import PRIORITY_CLASS
from forewarn.policies.scheduling.preemption import pick_nodes_for_preemption
from forewarn.policies.scheduling.schedule_one import Prediction
from forewarn.policies.scheduling.victim import may_be_preempted
from forewarn.policies.why.trouble import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.preemption import Candidate
    from forewarn.policies.why.events import Event

_LOWER: Final = 3
"""Maximum nodes with Pods of lower priority that are explained."""


def of_where(event: Event) -> str:
    """Return the node of an Event as a phrase, such as ` on n1`; "" if unknown."""
    return f" on {event.node}" if event.node else ""


def by_preemptor(cluster: ClusterSnapshot, event: Event | None) -> str:
    """Return a phrase with the preemptor, such as ` by shop/web (priority 1000)`; "" if no Event names the
    preemptor.
    """
    if event is None or not any(event.by):
        return ""
    preemptor = _named_by(cluster, event)
    if preemptor is not None:
        return f" by {preemptor.key} (priority {preemptor.effective_priority})"
    namespace, name, _ = event.by
    return f" by {namespace}/{name}, which no longer exists" if name else " by a Pod that no longer exists"


def _named_by(cluster: ClusterSnapshot, event: Event) -> Pod | None:
    """Return the preemptor that an Event names; None if that Pod no longer exists."""
    namespace, name, uid = event.by
    if name:
        pod = cluster.pods.get((namespace, name))
        return pod if pod is not None and uid in ("", pod.uid) else None
    return next((pod for pod in cluster.pods.values() if pod.uid == uid), None) if uid else None


def of_a_victim(cluster: ClusterSnapshot, victim: Pod, event: Event | None) -> Iterator[Trouble]:
    """Yield the reasons for a victim of kube-scheduler. `event`: about its preemption."""
    preemptor = _preemptor(cluster, victim, event)
    if preemptor is None:
        by = by_preemptor(cluster, event)
        yield Trouble(
            "preempted",
            f"kube-scheduler preempts it on {victim.node_name}{by or '; the preemptor is unknown'}",
            f"use a class of higher priority than {victim.effective_priority}",
        )
        return
    yield Trouble(
        "preempted",
        f"preempted on {victim.node_name} by {preemptor.key} (priority {preemptor.effective_priority}; its own is "
        f"{victim.effective_priority})",
    )
    yield from _unnecessarily(cluster, preemptor)
    if not preemptor.node_name:
        yield from _before_lower(cluster, victim, preemptor)


def _preemptor(cluster: ClusterSnapshot, victim: Pod, event: Event | None) -> Pod | None:
    """Return the preemptor of a victim; None if unknown.

    This is the Pod that an Event names, otherwise the Pod with the highest priority that is nominated to the victim's
    node.
    """
    named, snapshot = _named_by(cluster, event) if event is not None else None, cluster.scheduling
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
        yield Trouble(
            "preempted-for-the-default",
            f"{preemptor.key} has the priority of {name}, the default class of Pods without priorityClassName",
            "set a low value or preemptionPolicy Never on the default class",
        )
    elif name and priority_class is None and PRIORITY_CLASS in cluster.objects.unlisted:
        yield class_not_listed(name)
    elif name and priority_class is None:
        yield Trouble(
            "preempted-for-a-class-that-is-gone", f"PriorityClass {name} of {preemptor.key} no longer exists", ""
        )


def _before_lower(cluster: ClusterSnapshot, victim: Pod, preemptor: Pod) -> Iterator[Trouble]:
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
        others = listed([f"{pod.key} (priority {pod.effective_priority})" for pod in chosen.victims])
        yield Trouble(
            "preempted-before-lower",
            f"kube-scheduler would now preempt {others} on {chosen.node_name} instead: the cluster has changed since",
        )
        return
    for node in sorted(lower, key=lambda name: (lower[name], name))[:_LOWER]:
        why = _why_not_there(prediction, chosen, candidates.get(node), node)
        yield Trouble(
            "preempted-before-lower",
            f"a Pod of priority {lower[node]} on {node} is not preempted: {why}",
            "check PDBs and constraints, which come first: only among candidate nodes, priorities are compared",
        )


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
        return f"a Pod of priority {highest} would be preempted there too"
    if node == chosen.node_name:
        return f"preempting {going} without it is enough"
    if chosen.victims and other.victims and chosen not in pick_nodes_for_preemption((chosen, other)):
        return f"{going} would be preempted there, at a lower cost; the node changed, or was not evaluated then"
    return f"{going} would be preempted there, at no lower cost"


def class_not_listed(name: str) -> Trouble:
    """Return the reason for an unknown PriorityClass if the cluster state has no list of PriorityClasses."""
    return Trouble(
        "missing-lists",
        f"PriorityClass {name} is not in the cluster snapshot, which has no PriorityClasses: it may still exist",
        "add --cluster FILE with `kubectl get priorityclasses -o json`",
    )
