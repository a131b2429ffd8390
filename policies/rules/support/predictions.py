"""Impacts of the reviewed objects on running Pods, shared by the rules."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

from forewarn.policies.metering import CutShort
from forewarn.policies.rules.support.context import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.forecast.forecast import Forecast, QuotaLimits
    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.forecast.waiting import Waiting
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.rules.support.context import Context


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
        """The objects in the order in which their Pods are created."""
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
