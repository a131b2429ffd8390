"""Impacts of the reviewed objects on running Pods, and the reasons why new Pods stay Pending, shared by the rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Protocol

from forewarn.policies.kinds.registry import DAEMON_SET
from forewarn.policies.light import later
from forewarn.policies.metering import CutShort
from forewarn.policies.objects.fields import NOTHING
from forewarn.policies.objects.priority_class import HIGHEST_SYSTEM_PRIORITY
from forewarn.policies.rules.support.context import Context, Phase

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.forecast.aftermath import Waiting
    from forewarn.policies.forecast.forecast import Forecast, QuotaLimits
    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.options import Options
    from forewarn.policies.scheduling.reasons import Reason
    from forewarn.policies.scheduling.schedule_one import Prediction


class Recall(Protocol):
    """A function that returns the impact of a subject on a cluster, from a cache or by calling `work_out`."""

    def __call__(
        self, subject: ReviewedObject, cluster: ClusterSnapshot, work_out: Callable[[], Impact | None], /
    ) -> Impact | None:
        """Return the impact; None for a subject without new Pods."""


def worked_out(_: ReviewedObject, _cluster: ClusterSnapshot, work_out: Callable[[], Impact | None], /) -> Impact | None:
    """Compute the impact: a Recall without cache."""
    return work_out()


class Predicted:
    """The impacts of the objects of a change set: each prediction includes the Pods of earlier objects, those of a
    CronJob the Pods of all other kinds.
    """

    def __init__(
        self,
        context: Context,
        recall: Recall | None = None,
        aftermath: bool = True,
        before_simulation: Callable[[Impact, Waiting], object] | None = None,
    ) -> None:
        """Prepare the predictions; none is computed yet.

        `recall`: a cache, only for a change set of one object, because impacts depend on earlier objects.
        `aftermath`: include the cascade. `before_simulation`: as in `Forecast`.
        """
        self._aftermath, self._before_simulation = aftermath, before_simulation
        self._context, self._recall = context, recall or worked_out
        self._impacts: dict[int, Impact | None] = {}

    def of(self, subject: ReviewedObject) -> Impact | None:
        """The impact of an object's new Pods; None without new Pods, or if no nodes are known."""
        cluster = self._context.cluster
        if cluster is None or not cluster.objects.nodes:
            return None
        for other in self._in_order:
            if id(other) not in self._impacts:
                self._impacts[id(other)] = self._recall(other, cluster, partial(self._work_out, other))
            if other is subject:
                break
        return self._impacts.get(id(subject))

    @cached_property
    def _in_order(self) -> Sequence[ReviewedObject]:
        from forewarn.policies.controllers.new_pods import creates_pods_later

        return sorted(self._context.change_set.subjects, key=lambda subject: creates_pods_later(subject.object))

    @property
    def found(self) -> tuple[Impact, ...]:
        """The impacts computed so far, in the order in which Pods are created."""
        return tuple(impact for impact in self._impacts.values() if impact is not None)

    def _work_out(self, subject: ReviewedObject) -> Impact | None:
        try:
            forecast = self._forecast
        except CutShort as why:
            from forewarn.policies.forecast.forecast import not_read

            return not_read(subject, self._context.options.pod_template_paths, why)
        return forecast.of(subject, self._limits(subject))

    def _limits(self, subject: ReviewedObject) -> QuotaLimits | None:
        """Return how ResourceQuotas limit the Pods of a subject; None without ResourceQuotas."""
        context = self._context
        is_limited = bool(context.options.limited_resources)
        if not (is_limited or context.defines_quotas or (context.cluster and context.cluster.resource_quotas)):
            return None
        from forewarn.policies.forecast.forecast import QuotaLimits
        from forewarn.policies.rules.support.quota_use import quota_use_of

        use = quota_use_of(context)
        before, after = partial(use.before, subject), partial(use.after, subject)
        if not is_limited and not context.has_quotas(subject):
            return QuotaLimits(before=before, after=after)
        return QuotaLimits(use.let_in(subject), use.beside_old(subject) is None, before, after, not is_limited)

    @cached_property
    def _forecast(self) -> Forecast:
        from forewarn.policies.forecast.forecast import Forecast

        context = self._context
        assert context.cluster_to_be is not None
        past_limit_ranger = context.phase is Phase.VALIDATE
        paths = context.options.pod_template_paths
        return Forecast(
            context.cluster_to_be,
            paths,
            context.expired,
            pods_defaulted=past_limit_ranger,
            aftermath=self._aftermath,
            recreated=context.options.recreates_pods,
            before_simulation=self._before_simulation,
        )


def predicted_of(context: Context) -> Predicted:
    """The impacts of the reviewed objects, one instance per context."""
    return context.once(Predicted)


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
    """Report whether a Pending DaemonSet Pod would fit by preempting all but Pods of the highest system class."""
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


_PAUSE: Final = later(r"(?:.*/)?pause(?:-[a-z0-9]+)?(?:[:@].*)?", re.DOTALL)


def is_placeholder(pod: Pod, options: Options) -> bool:
    """Report whether a Pod is a placeholder: by configured labels, else by negative priority and the pause image."""
    if options.placeholder_pods is not None:
        return options.placeholder_pods.matches(pod.labels)
    images = pod.spec.images
    return pod.effective_priority < 0 and bool(images) and all(map(_PAUSE.fullmatch, images))
