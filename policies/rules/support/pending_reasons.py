"""kube-scheduler's reasons for Pods that stay Pending."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from forewarn.policies.kinds.registry import DAEMON_SET
from forewarn.policies.objects.fields import NOTHING
from forewarn.policies.objects.priority_class import HIGHEST_SYSTEM_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn.policies.scheduling.reasons import Reason
    from forewarn.policies.scheduling.schedule_one import Prediction

CHECK_PROFILE: Final = "check the plugins of the profile with `forewarn info scheduler`"
"""The fix for a scheduling cycle that ends in an error."""
CLASS_FOR_DAEMONS: Final = "give the DaemonSet a PriorityClass that preempts Pods on its nodes"
SHOWN_REASONS: Final = 3
_MAX_FIXES: Final = 2


def fix_of(reasons: Sequence[tuple[Reason, int]], instead: Mapping[str, str] = NOTHING) -> str:
    """Return the fix for these reasons; "" if the reasons suggest none. `instead`: fix -> text to use instead."""
    fixes = dict.fromkeys(fix for reason, _ in reasons[:SHOWN_REASONS] for fix in reason.fixes)
    return " or ".join(instead.get(fix, fix) for fix in [*fixes][:_MAX_FIXES])


def volume_fix(prediction: Prediction) -> str:
    """Return the fix for a Pending Pod that PreFilter rejects, or whose volumes exclude nodes; "" for other Pods."""
    if prediction.outcome != "pending" or prediction.error:
        return ""
    reasons = reasons_of([prediction])
    is_about_it = prediction.pre_filter is not None or any(reason.of_volumes for reason, _ in reasons)
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


def reasons_of(predictions: Sequence[Prediction]) -> list[tuple[Reason, int]]:
    """The reasons why no node fits, with the number of nodes, the most frequent first; 0 for a reason about no node.

    For Pods with one possible node, the reason of that node. Without candidates for preemption, the reasons before it.
    """
    from forewarn.policies.scheduling.preemption import NO_VICTIMS
    from forewarn.policies.scheduling.reasons import Reason, joined

    first = predictions[0]
    if first.error:
        return [(Reason(cycle_error(first)), 0)]
    if first.pre_filter is not None:
        return [(joined(first.pre_filter.reasons, "; "), 0)]
    counts: Counter[tuple[str, ...]] = Counter()
    for prediction in predictions if first.pod.spec.node_affinity.only_node else (first,):
        node = prediction.pod.spec.node_affinity.only_node
        for name, status in prediction.statuses.items() if not node else prediction.status_of(node):
            dropped = prediction.preemption.statuses.get(name, NO_VICTIMS)
            counts[(status if dropped is NO_VICTIMS else dropped).reasons] += 1
    return [(joined(reasons), nodes) for reasons, nodes in counts.most_common()]
