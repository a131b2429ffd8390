"""One scheduling cycle in a simulation: the node of a Pod, or the reason for its rejection, and the preemption.

Source: kubernetes `pkg/scheduler/schedule_one.go` (`schedulingAlgorithm`), `framework/types.go` (`FitError`).
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.scheduling.filtering import MIN_FEASIBLE_NODES
from forewarn.policies.scheduling.framework import Code, Status
from forewarn.policies.scheduling.plugin import foreign_at
from forewarn.policies.scheduling.plugins.dynamic_resources import DynamicResources
from forewarn.policies.scheduling.plugins.volume_binding import VolumeBinding
from forewarn.policies.scheduling.pod_group_cycle import NO_NODES, MemberStatus, NotModelled, place_member
from forewarn.policies.scheduling.pod_groups import without_gang_scheduling
from forewarn.policies.scheduling.reasons import FitError
from forewarn.policies.scheduling.recurring_cycle import RecurringCycle, RecurringCycles
from forewarn.policies.scheduling.responsible import framework_of, unmodelled
from forewarn.policies.scheduling.schedule_one import NO_PREEMPTION, Prediction
from forewarn.policies.scheduling.vectorized.constraints import Unsupported, attempt
from forewarn.policies.scheduling.vectorized_cycle import (
    Cycle,
    found_in_order,
    num_nodes_after_pre_filter,
    percentage_of,
)
from forewarn.policies.simulation.scheduler_cache import NodeTree, top_place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.profiles import Profile
    from forewarn.policies.scheduling.plugins.storage_score import PodVolumes
    from forewarn.policies.scheduling.preemption import Candidate
    from forewarn.policies.scheduling.snapshot import Snapshot

NO_CLAIMS: Final = "no new claims to deallocate"
_BEFORE_CYCLE: Final = (("queueSort", "sorts the queue"), ("preEnqueue", "may keep the Pod from the queue"))
_AFTER_CYCLE: Final = tuple((at, "may keep the Pod from its node") for at in ("reserve", "permit", "preBind", "bind"))
"""(extension point that simulations do not run, what its plugins may do)."""


class NotPredicted(InvalidObject):
    """The error if the result of a cycle depends on something that forewarn does not model."""


class Fits(NamedTuple):
    """The result of a cycle in which the Pod fits on a node."""

    node: str


class Rejected(NamedTuple):
    """The result of a cycle in which the Pod is unschedulable.

    `plugins`: the plugins that rejected the Pod; empty for an error. `nominated`: the node to set in the Pod's status;
    "": clear; None: no change. `candidate`: the victims to evict.
    """

    message: str
    plugins: frozenset[str] = frozenset()
    nominated: str | None = None
    candidate: Candidate | None = None
    error: bool = False
    best_nodes: Sequence[str] = ()
    """The nodes that may be nominated, by name."""
    is_sampled: bool = False
    """Whether kube-scheduler evaluates only a part of the nodes for preemption."""


class SchedulingAlgorithm:
    """The scheduling algorithm, with state from cycle to cycle.

    `choose`: selects one of several equal candidates for preemption; upstream uses the order of a Go map. `tie`:
    selects one of several nodes with the best score; None: as upstream.
    """

    def __init__(
        self,
        nodes: NodeTree,
        choose: Callable[[Sequence[str]], str],
        tie: Callable[[Sequence[str]], str] | None = None,
    ) -> None:
        self._nodes, self._choose, self._tie = nodes, choose, tie
        self._next_start = 0
        """The position in the order of nodes at which the next cycle starts (upstream `nextStartNodeIndex`)."""
        self._known: tuple[Snapshot | None, dict[Any, Rejected]] = None, {}
        """(Snapshot, equal Pods -> their result), for unschedulable Pods that preemption does not help."""
        self._order: tuple[Sequence[str], NDArray[np.intp]] | None = None
        self.recurring = RecurringCycles()

    def schedule_pod(self, snapshot: Snapshot, pod: Pod) -> Fits | Rejected:
        """Return the result of a cycle for one Pod. Raises NotPredicted."""
        why = pod.spec.too_large or unmodelled(pod, snapshot)
        if why:
            raise NotPredicted(f"not predicted: Pod {pod.key}: {why}")
        _check_plugins(snapshot, pod)
        result = self._schedule_pod(snapshot, pod)
        if isinstance(result, Fits):
            _check_plugins(snapshot, pod, fits=True)
        return result

    def _schedule_pod(self, snapshot: Snapshot, pod: Pod) -> Fits | Rejected:
        if not snapshot.node_infos:
            return Rejected(NO_NODES, nominated="")
        if pod.nominated_node_name or any(volume.ephemeral for volume in pod.spec.volumes):
            return self._decide(snapshot, pod)
        if self._known[0] is not snapshot:
            self._known = snapshot, {}
        identity = pod.effective_priority, pod.preemption_policy, pod.namespace, pod.owner, pod.device_claims
        alike = id(pod.spec), id(pod.labels), *identity
        fits = self._known[1].get(alike)
        if fits is not None:
            return fits
        result = self._decide(snapshot, pod)
        if isinstance(result, Rejected) and result.candidate is None:
            self._known[1][alike] = result
        return result

    def place(self, snapshot: Snapshot, pod: Pod) -> MemberStatus:
        """Find a node for one Pod of a PodGroup, without preemption. Raises NotPredicted."""
        _check_plugins(snapshot, pod, fits=True)
        if reason := without_gang_scheduling(pod, snapshot.semantics):
            raise NotPredicted(f"not predicted: Pod {pod.key}: {reason}")
        host = self._at_once(snapshot, pod, member=True) if snapshot.node_infos else None
        if isinstance(host, Fits):
            return MemberStatus(host.node)
        if host is not None:
            return MemberStatus(message=host.message, plugins=host.plugins)
        try:
            return place_member(snapshot, pod, self._host, _message_of)
        except NotModelled as why:
            raise NotPredicted(f"not predicted: Pod {pod.key}: {why}") from why

    def _decide(self, snapshot: Snapshot, pod: Pod) -> Fits | Rejected:
        result = self._at_once(snapshot, pod)
        if result is not None:
            return result
        prediction = Prediction(snapshot, pod)
        if prediction.not_predicted:
            raise NotPredicted(f"not predicted: Pod {pod.key}: {prediction.not_predicted}")
        node = self._host(prediction)
        return Fits(node) if node else self._rejected(prediction)

    def _at_once(self, snapshot: Snapshot, pod: Pod, *, member: bool = False) -> Fits | Rejected | None:
        """Return the result of a cycle, computed for all nodes at once; None if the plugins must run node by node.

        `member`: the Pod belongs to a PodGroup and does not preempt.
        """
        with snapshot.derived.locked():
            result = attempt(self._in_columns, snapshot, pod, member=member)
        if result is None or isinstance(result, Unsupported):
            return None
        outcome, evaluated = result
        self._go_on(snapshot, min(evaluated, num_nodes_after_pre_filter(snapshot, pod)))
        return outcome

    def _in_columns(self, snapshot: Snapshot, pod: Pod, *, member: bool) -> tuple[Fits | Rejected, int] | None:
        """Return the result and the number of evaluated nodes; None if only plugins node by node can preempt. Raises
        NotValid.
        """
        recurring = None if member else self.recurring.cycle(snapshot, pod)
        cycle = recurring or Cycle(snapshot, pod)
        if cycle.fits_on(pod.nominated_node_name):
            return Fits(pod.nominated_node_name), 0
        rows, evaluated = cycle.find(self._rows(snapshot))
        if len(rows):
            return Fits(self._best(snapshot, rows, cycle.scores)), evaluated
        if member:
            return _reject_member(cycle), evaluated
        return (self._reject_and_preempt(cycle), evaluated) if cycle.preempts else None

    def _rows(self, snapshot: Snapshot) -> NDArray[np.intp]:
        """Return the row numbers of the nodes in the order in which this cycle evaluates them. Do not modify."""
        names = self._nodes.list()
        if self._order is None or self._order[0] is not names:
            rows = np.fromiter((snapshot.rows[name] for name in names), np.intp, len(names))
            self._order = names, np.concatenate((rows, rows))
        start = self._next_start % len(names)
        return self._order[1][start : start + len(names)]

    def _best(
        self, snapshot: Snapshot, rows: NDArray[np.intp], scores: Callable[[NDArray[np.intp]], NDArray[np.int64]]
    ) -> str:
        """Return the node with the best score. `rows`: row numbers of the feasible nodes in the order of the search."""
        infos = snapshot.node_infos
        if len(rows) == 1:
            return infos[int(rows[0])].name
        totals = scores(rows)
        best = np.flatnonzero(totals == totals.max())
        if self._tie is not None and len(best) > 1:
            return self._tie(sorted(infos[row].name for row in rows[best].tolist()))
        return infos[int(rows[top_place(best)])].name

    def _reject_and_preempt(self, cycle: Cycle | RecurringCycle) -> Rejected:
        """Return the rejection and the preemption of a Pod that fits on no node. Raises NotValid."""
        snapshot = cycle.snapshot
        plugins, reasons = cycle.rejection()
        message = fit_error(len(snapshot.node_infos), reasons)
        if reason := cycle.ineligible_reason:
            return Rejected(_with_preemption(snapshot, message, reason), plugins)
        best = cycle.best_nodes()
        if not best:
            nodes = len(snapshot.node_infos)
            why: str = FitError(f"0/{nodes} nodes are available: no node is helped by it.")
            if nodes <= MIN_FEASIBLE_NODES:
                why = fit_error(nodes, cycle.unhelped())
            return Rejected(_with_preemption(snapshot, message, why), plugins, nominated="")
        node = self._choose(best)
        candidate = cycle.candidate_on(node)
        message = _with_candidate(snapshot, message, candidate)
        return Rejected(message, plugins, node, candidate, best_nodes=best, is_sampled=cycle.is_sampled)

    def _go_on(self, snapshot: Snapshot, evaluated: int) -> None:
        self._next_start = (self._next_start + evaluated) % len(snapshot.node_infos)

    def _host(self, prediction: Prediction) -> str:
        """Return the node of the Pod: its nominated node, or the best of the nodes that kube-scheduler finds before it
        stops; "" if the Pod does not fit. Raises NotPredicted if their scores are unknown.
        """
        snapshot, own = prediction.snapshot, prediction.pod.nominated_node_name
        feasible = prediction.feasible
        if not feasible:
            if prediction.pre_filter is None:
                self._go_on(snapshot, prediction.evaluated_nodes)
            return ""
        if own in feasible:
            return own
        is_feasible = np.zeros(len(snapshot.node_infos), np.bool_)
        is_feasible[[snapshot.rows[name] for name in feasible]] = True
        hosts = found_in_order(is_feasible, self._rows(snapshot), percentage_of(prediction.framework))
        self._go_on(snapshot, min(hosts.evaluated, prediction.evaluated_nodes))
        if prediction.error:
            return ""
        return self._best(snapshot, hosts.rows, partial(_total_scores, prediction))

    def _rejected(self, prediction: Prediction) -> Rejected:
        snapshot, rejection = prediction.snapshot, prediction.rejection
        if rejection.error:
            return Rejected(rejection.error, nominated="", error=True)
        preemption = prediction.preemption
        plugins = rejection.plugins
        message = _message_of(prediction)
        if preemption.best_candidates:
            best = [candidate.node_name for candidate in preemption.best_candidates]
            node = self._choose(best)
            chosen = next(candidate for candidate in preemption.best_candidates if candidate.node_name == node)
            message = _with_candidate(snapshot, message, chosen)
            is_sampled = preemption.is_sampled
            return Rejected(message, plugins, node, chosen, best_nodes=best, is_sampled=is_sampled)
        if preemption.ineligible_reason == NO_PREEMPTION:
            nominated = None if prediction.framework.profile.at("postFilter") else ""
            return Rejected(_without_preemption(prediction, message), plugins, nominated)
        if preemption.ineligible_reason:
            return Rejected(_with_preemption(snapshot, message, preemption.ineligible_reason), plugins)
        errors = [status for status in preemption.statuses.values() if status.code is Code.ERROR]
        if errors:
            return Rejected(_with_preemption(snapshot, message, errors[0].reasons[0]), plugins)
        nodes = len(snapshot.node_infos)
        why = fit_error(nodes, preemption.reasons(nodes))
        return Rejected(_with_preemption(snapshot, message, why), plugins, nominated="")


def _total_scores(prediction: Prediction, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return [index in `rows`]: the total score of a node. Raises NotPredicted if the scores are unknown."""
    scored = prediction.score(rows)
    if scored.unknown:
        raise NotPredicted(f"not predicted: Pod {prediction.pod.key}: {scored.unknown}")
    return np.array([row["total"] for row in scored.scores.values()])


def _message_of(prediction: Prediction) -> FitError:
    """Return upstream's message for a Pod that fits on no node."""
    reasons = Counter(reason for status in prediction.rejection.statuses for reason in status.reasons)
    return fit_error(len(prediction.snapshot.node_infos), reasons, prediction.pre_filter)


def _check_plugins(snapshot: Snapshot, pod: Pod, *, fits: bool = False) -> None:
    """Raise NotPredicted if the Pod's profile has third-party plugins at extension points that are not simulated.

    `fits`: check also the extension points after the selection of a node.
    """
    configuration = snapshot.semantics.scheduler
    profile = None if configuration is None else configuration.profile(pod.spec.scheduler_name)
    if profile is not None:
        what = _not_simulated(profile, _BEFORE_CYCLE) or (_not_simulated(profile, _AFTER_CYCLE) if fits else "")
        if what:
            raise NotPredicted(f"not predicted: Pod {pod.key}: {what}")


@lru_cache(64)
def _not_simulated(profile: Profile, points: Sequence[tuple[str, str]]) -> str:
    """Return the first third-party plugin of a profile at these extension points, as a sentence; "" without one.

    `points`: extension point, and what its plugins may do. DefaultBinder binds every Pod, so only the first Bind plugin
    matters.
    """
    for point, effect in points:
        names = profile.at(point)[:1] if point == "bind" else profile.at(point)
        foreign = [name for name in foreign_at(profile, point) if name in names]
        if foreign:
            return f"plugin {foreign[0]} of the profile {effect} ({point}), and is not simulated"
    return ""


def _with_preemption(snapshot: Snapshot, message: FitError, why: str) -> str:
    """Return the message with the reason (`why`) why preemption does not help."""
    claims = "" if snapshot.semantics.successful_preemptions_are_reported else f"{NO_CLAIMS}, "
    return FitError(f"{message} {claims}preemption: {why}", message.reasons, why)


def _without_preemption(prediction: Prediction, message: FitError) -> str:
    """Return the message for a profile without a plugin that preempts."""
    returns_claims = DynamicResources.name in prediction.framework.profile.at("postFilter")
    is_silent = prediction.snapshot.semantics.successful_preemptions_are_reported
    return FitError(f"{message} {NO_CLAIMS}", message.reasons) if returns_claims and not is_silent else message


def _with_candidate(snapshot: Snapshot, message: FitError, candidate: Candidate) -> FitError:
    """Return the message with the result of preemption; unchanged in releases that do not report this result."""
    if not snapshot.semantics.successful_preemptions_are_reported:
        return message
    text = f"found a potential placement for pod on node {candidate.node_name}"
    return FitError(f"{message} preemption: {text}, preempting {len(candidate.victims)} victims", message.reasons)


def _reject_member(cycle: Cycle | RecurringCycle) -> Rejected:
    """Return the rejection of a Pod that does not preempt and fits on no node."""
    plugins, reasons = cycle.rejection()
    return Rejected(fit_error(len(cycle.snapshot.node_infos), reasons), plugins)


def volumes_on(snapshot: Snapshot, pod: Pod, node: str) -> PodVolumes | None:
    """Return the volumes to bind or provision before a Pod is bound to its node; None if there are none."""
    info = snapshot.get(node)
    if info is None or not pod.spec.has_storage:
        return None
    for plugin in framework_of(snapshot, pod).pre_filters:
        if isinstance(plugin, VolumeBinding):
            return plugin.volumes_on(pod, info)
    return None


def fit_error(nodes: int, reasons: Mapping[str, int], pre_filter: Status | None = None) -> FitError:
    """Return upstream's exact message for an unschedulable Pod. `reasons`: reason -> number of nodes.

    `nodes`: number of all nodes. `pre_filter`: the status with which PreFilter rejected the Pod, if it did. The text
    matters because kube-scheduler does not write a condition again if the message is the same.
    """
    message = f"0/{nodes} nodes are available:"
    if pre_filter is not None:
        return FitError(f"{message} {', '.join(pre_filter.reasons)}.", dict.fromkeys(pre_filter.reasons, 0))
    counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return FitError(f"{message} {', '.join(counted)}." if counted else message, reasons)
