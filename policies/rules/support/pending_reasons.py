"""kube-scheduler's reasons for Pods that stay Pending."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from forewarn.policies.kinds.registry import DAEMON_SET
from forewarn.policies.objects.fields import NOTHING
from forewarn.policies.objects.priority_class import HIGHEST_SYSTEM_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn.policies.scheduling.schedule_one import Prediction


CHECK_PROFILE: Final = "check the plugins of the profile with `forewarn info scheduler`"
"""The fix for a scheduling cycle that ends in an error."""

CLASS_FOR_DAEMONS: Final = "give the DaemonSet a PriorityClass that preempts Pods on its nodes"


_FIXES: Final = (
    ("Insufficient ", "lower requests"),
    ("not found", "create what is missing first"),
    ("is being deleted", "recreate the claim after its deletion"),
    ("non-existent", "restore the PersistentVolume, or recreate the claim"),
    ("unbound immediate PersistentVolumeClaims", "check why its claims are not bound (kubectl describe pvc)"),
    ("PersistentVolume's node affinity", "add nodes where its volume is available"),
    ("no available volume zone", "add nodes where its volume is available"),
    ("available persistent volumes to bind", "create a PersistentVolume that its claim can use"),
    ("Too many pods", "add nodes"),
    ("node(s) were unschedulable", "uncordon the node"),
    ("node(s) had untolerated taint", "add a toleration"),
    ("node(s) didn't match Pod's node affinity/selector", "change nodeSelector or nodeAffinity"),
    ("node(s) didn't match pod affinity", "change podAffinity"),
    ("node(s) didn't match pod anti-affinity", "change podAntiAffinity"),
    ("node(s) didn't match pod topology spread", "change topologySpreadConstraints"),
)
"""A part of a reason of kube-scheduler -> the fix."""
_MAX_FIXES: Final = 2
SHOWN_REASONS: Final = 3


def fix_of(reasons: Sequence[tuple[str, int]], instead: Mapping[str, str] = NOTHING) -> str:
    """Return the fix for these reasons; "" if the reasons suggest none. `instead`: fix -> text to use instead."""
    shown = [reason for reason, _ in reasons[:SHOWN_REASONS]]
    found = dict.fromkeys(fix for part, fix in _FIXES if any(part in reason for reason in shown))
    return " or ".join(instead.get(fix, fix) for fix in [*found][:_MAX_FIXES])


def volume_fix(prediction: Prediction) -> str:
    """Return the fix for a Pending Pod that PreFilter rejects, or whose volumes exclude nodes; "" for other Pods."""
    if prediction.outcome != "pending" or prediction.error:
        return ""
    reasons = reasons_of([prediction])
    is_about_it = prediction.pre_filter is not None or any("olume" in reason for reason, _ in reasons)
    return fix_of(reasons) if is_about_it else ""


def needs_class(prediction: Prediction) -> bool:
    """Report whether a Pending Pod of a DaemonSet would fit on its node if it could preempt all Pods there, except
    those of the highest system class.
    """
    from forewarn.policies.scheduling.schedule_one import Prediction

    pod, snapshot = prediction.pod, prediction.snapshot
    info = snapshot.get(pod.spec.node_affinity.only_node)
    if prediction.outcome != "pending" or pod.owner_kind != DAEMON_SET or info is None:
        return False
    lower = [other for other in info.pods if other.effective_priority < HIGHEST_SYSTEM_PRIORITY]
    return Prediction(snapshot.with_pods((), lower), pod).fits


def cycle_error(prediction: Prediction) -> str:
    """The reason of a Pod whose scheduling cycle ends in an error."""
    return f"kube-scheduler's cycle ends in an error: {prediction.error}"


def reasons_of(predictions: Sequence[Prediction]) -> list[tuple[str, int]]:
    """The reasons why no node fits, with the number of nodes, the most frequent first; 0 for a reason about no node.

    For Pods with one possible node, the reason of that node. Without candidates for preemption, the reasons before it.
    """
    from forewarn.policies.scheduling.preemption import NO_VICTIMS

    first = predictions[0]
    if first.error:
        return [(cycle_error(first), 0)]
    if first.pre_filter is not None:
        return [("; ".join(first.pre_filter.reasons), 0)]
    counts: Counter[str] = Counter()
    for prediction in predictions if first.pod.spec.node_affinity.only_node else (first,):
        node = prediction.pod.spec.node_affinity.only_node
        for name, status in prediction.statuses.items() if not node else prediction.status_of(node):
            dropped = prediction.preemption.statuses.get(name, NO_VICTIMS)
            counts[" and ".join((status if dropped is NO_VICTIMS else dropped).reasons)] += 1
    return counts.most_common()
