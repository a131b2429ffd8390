"""The scheduling cycle of one Pod: by plugins node by node, or by numpy for all nodes at once.

Source: kubernetes `pkg/scheduler/schedule_one.go` (`schedulingCycle`).
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.metering import charge
from forewarn.policies.scheduling.caveats import named
from forewarn.policies.scheduling.configuration import configuration_of
from forewarn.policies.scheduling.filtering import Filtered, Rejection, find_nodes_that_fit_pod
from forewarn.policies.scheduling.framework import (
    FILTERS,
    CycleState,
    Framework,
    NodeToStatus,
    PluginFault,
    Status,
)
from forewarn.policies.scheduling.full_prediction import FullPrediction
from forewarn.policies.scheduling.plugin import foreign_at
from forewarn.policies.scheduling.preemption import (
    Candidate,
    Preemption,
    pod_eligible_to_preempt_others,
)
from forewarn.policies.scheduling.responsible import (
    extender_decisions,
    framework_of,
    not_predicted,
    not_scheduled,
)
from forewarn.policies.scheduling.vectorized.node_fit import (
    NodeNames,
    VectorizedAnswer,
    vectorized_answer,
    why_not_in_columns,
)
from forewarn.policies.scheduling.vectorized.pod_matrix import pod_matrix_of
from forewarn.policies.scheduling.vectorized.problem import NotValid
from forewarn.policies.scheduling.vectorized_cycle import Cycle, num_nodes_after_pre_filter
from forewarn.policies.scheduling.vectorized_scores import Scores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.profiles import Extender, SchedulerConfiguration
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot

NO_PREEMPTION: Final = "no plugin of the profile preempts"


class _Decision(NamedTuple):
    """The names of the feasible nodes; if there are none, the first preemption candidate by name.

    `error`: the error of PreScore or Score that ends the cycle, or "". `fault`: why forewarn does not predict the
    decision.
    """

    feasible: Sequence[str] = ()
    nominated: Candidate | None = None
    fault: str = ""
    error: str = ""


class Scored(NamedTuple):
    """The scores of feasible nodes: node -> plugin -> weighted score, and the sum as `total`.

    `error`: the error that ends the cycle, or "". `unknown`: why the scores are unknown, or "".
    """

    scores: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    error: str = ""
    unknown: str = ""


class SchedulingCycle:
    """The results of the plugins of the Pod's profile. Each property is computed on first use and cached.

    `reasons`: whether the caller needs more than the outcome. Without reasons, the numpy implementation (`vectorized`)
    computes the outcome alone; statuses and candidates are computed separately if needed. With reasons, all are
    computed together. The plugins run node by node if the numpy implementation does not support the Pod. All ways have
    the same results. Victims do not depend on scores: scores are computed only if the node of the Pod is needed.
    """

    def __init__(
        self, snapshot: Snapshot, pod: Pod, known: VectorizedAnswer | None = None, *, reasons: bool = False
    ) -> None:
        """`known`: the outcome, if it has been computed already."""
        self.pod = pod
        self.snapshot = snapshot
        self._reasons = reasons
        self._state = CycleState()
        self._known = known

    @cached_property
    def configuration(self) -> SchedulerConfiguration:
        """The configuration of the cluster's scheduler."""
        return configuration_of(self.snapshot.semantics)

    @property
    def not_predicted(self) -> str:
        """The reason why forewarn cannot predict the Pod, or "".

        With a reason, there are no nodes, victims or statuses.
        """
        return self._decision.fault

    @property
    def unmodelled(self) -> str:
        """`not_predicted`, if kube-scheduler schedules the Pod, but forewarn cannot predict how; otherwise ""."""
        return "" if not_scheduled(self.pod, self.snapshot) else self.not_predicted

    @cached_property
    def framework(self) -> Framework:
        """The plugins of the Pod's profile over the Snapshot."""
        return framework_of(self.snapshot, self.pod)

    @property
    def without_columns(self) -> str:
        """The reason why every plugin runs on every node, as text after "because"; "" if numpy computes the outcome."""
        return "" if self._not_predicted else why_not_in_columns(self.framework, self.pod)

    @cached_property
    def _not_predicted(self) -> str:
        return not_predicted(self.pod, self.snapshot)

    @cached_property
    def _decision(self) -> _Decision:
        if self._not_predicted:
            return _Decision(fault=self._not_predicted)
        try:
            reason = self._pre_enqueue_reason
            if reason:
                return _Decision(fault=reason)
            found = self._in_columns or self._walked_through
            preempts = found.nominated is not None
            fault = extender_decisions(self._extenders, fits=bool(found.feasible), preempts=preempts)
            return _Decision(fault=fault) if fault else found._replace(error=self._error_of_scores(found.feasible))
        except PluginFault as fault:
            return _Decision(fault=str(fault))

    def _error_of_scores(self, feasible: Sequence[str]) -> str:
        """Return the error with which PreScore or Score ends the cycle, or "". Stores the scores.

        The Score plugins in columns return no errors. The nominated node is not scored.
        """
        own = self.pod.nominated_node_name
        if len(feasible) < 2 or self.framework.scores_in_columns or (own and own in feasible):
            return ""
        self.__dict__["_scored"] = scored = self.score(self._rows_of(feasible))
        return scored.error

    @property
    def _pre_enqueue_reason(self) -> str:
        """The reason why a third-party PreEnqueue plugin keeps the Pod out of the queue, or "".

        `not_predicted` covers the plugins of kube-scheduler.
        """
        framework = self.framework
        if not foreign_at(framework.profile, "preEnqueue"):
            return ""
        status = framework.run_pre_enqueue_plugins(self.pod)
        return "" if status is None else f"plugin {status.plugin} keeps it from the queue: {', '.join(status.reasons)}"

    @property
    def _in_columns(self) -> _Decision | None:
        answer = self._columns
        return None if answer is None else _Decision(answer.feasible, answer.candidate)

    @property
    def _walked_through(self) -> _Decision:
        nodes = self._filtered.nodes
        if nodes:
            return _Decision([info.name for info in nodes])
        return _Decision((), next(iter(self.preemption.best_candidates), None))

    @property
    def _extenders(self) -> list[Extender]:
        """The extenders that manage this Pod."""
        extenders = self.configuration.extenders
        return [e for e in extenders if e.is_interested(self.pod.spec.request.scalars)] if extenders else []

    @property
    def _prioritizer(self) -> Extender | None:
        """The first extender that scores nodes for this Pod."""
        return next((extender for extender in self._extenders if extender.prioritize_verb), None)

    @cached_property
    def _filtered(self) -> Filtered:
        if self._not_predicted:
            return Filtered((), NodeToStatus())
        try:
            if self.snapshot.may_preempt_groups(self.pod.effective_priority):
                raise NotValid
            full_prediction = FullPrediction(self.framework, self.pod)
        except NotValid:
            self._state = CycleState()
        else:
            self._state.in_columns = full_prediction
            return full_prediction.filtered
        return find_nodes_that_fit_pod(self.framework, self._state, self.pod)

    @cached_property
    def _columns(self) -> VectorizedAnswer | None:
        """The outcome by the numpy implementation; None if reasons are requested, or if the implementation does
        not support the Pod.
        """
        if self._not_predicted or self._reasons:
            return None
        return self._known or vectorized_answer(self.framework, self.pod)

    @property
    def in_columns(self) -> FullPrediction | None:
        """The complete results by the numpy implementation, if reasons are requested and the implementation
        supports the Pod; or None.
        """
        full_prediction: FullPrediction | None = self._state.in_columns
        return full_prediction

    @property
    def pre_filter(self) -> Status | None:
        """The status with which PreFilter rejected the Pod; None if PreFilter did not reject the Pod."""
        return self._filtered.rejected

    @property
    def feasible(self) -> list[str]:
        """Names of the nodes that can run the Pod without preemption."""
        return list(self._decision.feasible)

    @property
    def evaluated_nodes(self) -> int:
        """The number of nodes on which filters run, because PreFilter did not exclude them."""
        if self._columns is not None:
            return num_nodes_after_pre_filter(self.snapshot, self.pod)
        return len(self._filtered.nodes) + len(self._filtered.statuses.by_node)

    @property
    def fits(self) -> bool:
        """Whether kube-scheduler binds the Pod to a node without preemption."""
        return bool(self._decision.feasible) and not self._decision.error

    @property
    def error(self) -> str:
        """The error that ends the cycle, or "". kube-scheduler then retries the Pod, without preemption."""
        return self._decision.error or ("" if self.not_predicted else self._filtered.error)

    @property
    def statuses(self) -> Mapping[str, Status]:
        """Node -> why the Pod does not fit on the node; empty if PreFilter rejected the Pod."""
        if self.not_predicted or self._filtered.rejected is not None:
            return {}
        filtered = self._filtered
        feasible = set(self.feasible)
        charge(len(self.snapshot.node_infos) // 2)
        return {i.name: filtered.statuses.get(i.name) for i in self.snapshot.node_infos if i.name not in feasible}

    def status_of(self, node: str) -> list[tuple[str, Status]]:
        """Return [(node, status)] of one node from `statuses`; empty if `statuses` does not contain the node.

        Does not compute the statuses of other nodes.
        """
        if self.not_predicted or node not in self.snapshot.rows or self._filtered.rejected is not None:
            return []
        filtered = self._filtered
        if node in {info.name for info in filtered.nodes}:
            return []
        return [(node, filtered.statuses.get(node))]

    @property
    def rejection(self) -> Rejection:
        """The reason why no node fits, for queueing hints and for the Pod's condition PodScheduled."""
        if self.error:
            return Rejection(error=self.error)
        filtered = self._filtered
        rejected = filtered.rejected
        statuses = [rejected] if rejected is not None else list(self.statuses.values())
        plugins = frozenset((*filtered.restricting, *(status.plugin for status in statuses))) - {""}
        return Rejection(plugins, tuple(statuses))

    @property
    def rejecting_plugins(self) -> frozenset[str]:
        """The plugins that rejected an unschedulable Pod, for queueing hints; empty after an error."""
        with self.snapshot.derived.locked(), suppress(NotValid):
            return Cycle(self.snapshot, self.pod).rejection()[0]
        return self.rejection.plugins

    @property
    def scores(self) -> Mapping[str, Mapping[str, int]]:
        """Node -> plugin -> weighted score, and the sum as `total`; empty if scores are unknown, or for fewer
        than two feasible nodes.
        """
        return self._scored.scores

    @cached_property
    def _scored(self) -> Scored:
        return self.score(self._feasible_rows)

    def score(self, rows: NDArray[np.intp]) -> Scored:
        """Return the scores of these feasible nodes, given as row numbers, in their order."""
        if len(rows) < 2:
            return Scored()
        nodes = [self.snapshot.node_infos[row] for row in rows.tolist()]
        asked = f"{named(self._prioritizer)} scores them too, and cannot be asked" if self._prioritizer else ""
        if asked and self.framework.scores_in_columns:
            return Scored(unknown=asked)
        with suppress(NotValid):
            return Scored(self._scores_in_columns(rows, nodes))
        framework, extenders = self.framework, self.configuration.extenders
        prioritize = framework.prioritize_nodes if framework.scores or extenders else framework.run_score_plugins
        try:
            scores = prioritize(self._filtered_state(nodes), self.pod, nodes)
        except PluginFault as fault:
            return Scored(unknown=str(fault))
        if isinstance(scores, Status):
            return Scored(error=", ".join(scores.reasons))
        return Scored(unknown=asked) if asked else Scored(scores)

    def _filtered_state(self, nodes: Sequence[NodeInfo]) -> CycleState:
        """Return the state of the plugins after PreFilter and Filter on these feasible nodes.

        The numpy implementation runs no plugins, but the scores of some plugins depend on what their filter has found.
        """
        if self._columns is None and self.in_columns is None:
            return self._state
        state = CycleState()
        self.framework.run_pre_filter_plugins(state, self.pod)
        for node_info in nodes:
            charge(FILTERS)
            self.framework.run_filter_plugins_with_nominated_pods(state, self.pod, node_info)
        return state

    @property
    def _feasible_rows(self) -> NDArray[np.intp]:
        """Row numbers of the nodes that can run the Pod without preemption."""
        return self._rows_of(self._decision.feasible)

    def _rows_of(self, feasible: Sequence[str]) -> NDArray[np.intp]:
        rows = self.snapshot.rows
        if isinstance(feasible, NodeNames):
            return feasible.rows
        return np.fromiter((rows[name] for name in feasible), np.intp, len(feasible))

    def _scores_in_columns(self, rows: NDArray[np.intp], nodes: Sequence[NodeInfo]) -> dict[str, dict[str, int]]:
        """Return node -> plugin -> weighted score, and the sum as `total`, without plugins that score 0 on all nodes.

        Raises NotValid if the numpy implementation does not support the profile.
        """
        with self.snapshot.derived.locked():
            found = self._in_tables.by_plugin(rows)
        charge(len(rows))
        found["total"] = np.sum([np.zeros(len(rows), np.int64), *found.values()], axis=0)
        keys, values = tuple(found), zip(*(column.tolist() for column in found.values()), strict=True)
        return {node.name: dict(zip(keys, row, strict=True)) for node, row in zip(nodes, values, strict=True)}

    @property
    def _in_tables(self) -> Scores:
        """The scores by the numpy implementation. Hold the lock of the tables. Raises NotValid if the implementation
        does not support the Pod.
        """
        outcome_in_columns = self._known is None and self._columns is not None
        if self.in_columns is None and not outcome_in_columns:
            return Cycle(self.snapshot, self.pod).in_tables
        if self._prioritizer is not None:
            raise NotValid
        return Scores(self.framework, self.pod, pod_matrix_of(self.snapshot))

    @cached_property
    def preemption(self) -> Preemption:
        """The result of preemption; without candidates if the Pod fits, or if the cycle ends with an error."""
        if self._not_predicted or self._filtered.error:
            return Preemption()
        framework, statuses = self.framework, self._filtered.statuses
        if self._filtered.nodes:
            if self._decision.error:
                return Preemption()
            reason = pod_eligible_to_preempt_others(self.pod, self.snapshot, statuses.is_unresolvable)
            return Preemption(eligible=not reason, ineligible_reason=reason)
        result, post_filter_results = framework.run_post_filter_plugins(self._state, self.pod, statuses)
        found = next((r.details for r in post_filter_results.values() if isinstance(r.details, Preemption)), None)
        if result.nominated_node_name and (found is None or result.details is not found):
            return Preemption(best_candidates=(Candidate(result.nominated_node_name, ()),))
        return found or Preemption(eligible=False, ineligible_reason=NO_PREEMPTION)

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The nodes on which preemption helps, with their victims."""
        return () if self.not_predicted else self.preemption.candidates
