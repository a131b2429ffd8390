"""Predict one scheduling cycle of a Pod.

A cycle runs in one of three ways. Their results are equal, and tests compare them:

- `Cycle` (`vectorized_cycle.py`) evaluates all nodes at once with numpy. It runs unless the Pod or its profile is not
  supported (`Plan` in `framework.py`, `NotValid`).
- `RecurringCycle` (`recurring_cycle.py`) is a `Cycle` that reuses results of earlier cycles. Only simulations run it,
  which retry many Pending Pods with equal requests. Without it, a lost zone of 400 nodes takes twice as long.
- Otherwise, the plugins run node by node, as in upstream (`find_nodes_that_fit_pod` in `find_nodes.py`).

`bulk.py` predicts many equal Pods, or one Pod for many nodes, from the tables of one `Cycle`.
Source: kubernetes `pkg/scheduler/schedule_one.go` (`schedulingCycle`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from forewarn.policies.base.copies import replace
from forewarn.policies.base.documents import Always, Exact, to_dict
from forewarn.policies.base.findings import described, grouped, listed
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.scheduling import find_nodes, not_predicted
from forewarn.policies.kubernetes.scheduling.configuration import configuration_of
from forewarn.policies.kubernetes.scheduling.framework import (
    FILTERS,
    CycleState,
    Framework,
    NodeToStatus,
    PluginFault,
    Status,
    foreign_at,
    run_pre_enqueue_plugins,
)
from forewarn.policies.kubernetes.scheduling.not_predicted import (
    AWAITED,
    GATED,
    assumptions,
    named,
    preemption_caveats,
    run_binding_cycle,
    victims_tie,
    without_ties,
)
from forewarn.policies.kubernetes.scheduling.plugins.dynamic_resources import (
    DynamicResources,
    allocated_on,
    awaits_devices,
)
from forewarn.policies.kubernetes.scheduling.preemption import (
    VIOLATIONS,
    Candidate,
    Decision,
    MissingNode,
    Preemption,
    costs_of_candidates,
    pod_eligible_to_preempt_others,
    victims_below,
    violated_by,
    violated_pdbs,
)
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid, Snapshot
from forewarn.policies.kubernetes.scheduling.ties import are_independent, fewest_victims
from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import changed_pdbs
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import pod_matrix_of
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import (
    Candidates,
    Cycle,
    NodeNames,
    Scores,
    decide,
    num_nodes_after_pre_filter,
    percentage_of,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.releases.semantics import Extender, SchedulerConfiguration
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, NodeInfo, Rows
    from forewarn.policies.kubernetes.scheduling.preemption import Fewest, Victim

_NONE: Final[Mapping[str, Any]] = {}


def nomination_probabilities(candidates: Sequence[Candidate], num_candidates: int) -> dict[str, float]:
    """Return node name -> probability of its nomination, highest first; the sum is 1. Empty without candidates.

    `num_candidates`: number of candidates after which the search stops (`DefaultPreemptionArgs.num_candidates`).
    """
    if not candidates:
        return {}
    names = candidates.names if isinstance(candidates, Candidates) else [each.node_name for each in candidates]
    costs = costs_of_candidates(candidates)
    order = np.lexsort(costs[::-1])
    ranked = costs[:, order]
    ends = [*(np.flatnonzero((ranked[:, 1:] != ranked[:, :-1]).any(axis=0)) + 1).tolist(), len(order)]
    sizes = np.diff(ends, prepend=0).tolist()
    chances = class_probabilities(sizes, int(np.count_nonzero(ranked[VIOLATIONS] == 0)), num_candidates)
    probabilities = []
    for size, end, chance in zip(sizes, ends, chances, strict=True):
        if chance > 0:
            probabilities += [(names[number], chance / size) for number in order[end - size : end].tolist()]
    return dict(sorted(probabilities, key=lambda item: -item[1]))


def class_probabilities(sizes: Sequence[int], harmless: int, candidates: int) -> list[float]:
    """Return [class]: the probability that the nominated node is in this class of equally good candidates.

    `sizes`: [class], number of nodes, best class first. `harmless`: the number of nodes without PDB violations, which
    are the best nodes. The search compares the first `candidates` nodes of a random order; if all of them have
    violations, the search continues to the first node without violations.
    """
    total = sum(sizes)
    # [n], for n from 0 to `total`: the probability that `seen` random nodes include none of n given nodes.
    seen = min(candidates, total)
    missed = [1.0]
    for index in range(total):
        missed.append(missed[-1] * max(total - seen - index, 0) / (total - index))
    only_harmful = missed[harmless] if harmless else 0.0
    result, before = [], 0
    for size in sizes:
        if harmless and before >= harmless:
            result.append(0.0)
            continue
        later = only_harmful * size / harmless if harmless else 0.0
        result.append(missed[before] - missed[before + size] + later)
        before += size
    return result


NO_PREEMPTION: Final = "no plugin of the profile preempts"


class Scored(NamedTuple):
    """The scores of feasible nodes: node -> plugin -> weighted score, and the sum as `total`.

    `error`: the error that ends the cycle, or "". `unknown`: why the scores are unknown, or "".
    """

    scores: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    error: str = ""
    unknown: str = ""


PredictedOutcome = Literal["fits", "preempts", "pending", "not-predicted"]


class Evicted(NamedTuple):
    """Preemption on one node; the most important victim first."""

    victims: Sequence[str]
    pdb_violations: int


class PredictionDocument(NamedTuple):
    """A prediction in JSON.

    `preFilter`: the status of PreFilter, if it rejected the Pod. `feasible`: nodes that pass all filters. `statuses`:
    the other nodes, with the plugin and reasons. `scores`: of several feasible nodes, the weighted scores by plugin,
    and the `total`. `eligible`, `ineligibleReason`: whether the Pod may preempt, and why not. `candidates`: nodes on
    which preemption helps. `dryRunStatuses`: nodes on which preemption does not help, with the reason.
    `numCandidates`: number of candidates after which the search stops. `selected`: nodes that kube-scheduler may
    choose. `nominatedNode`: the first of these by name, if the Pod preempts. `odds`: with more than 100 nodes, their
    probabilities. `standing`: why the prediction is uncertain. `inVain`: node -> victims whose preemption helps no Pod.
    """

    outcome: PredictedOutcome
    pre_filter: Status | None = None
    feasible: Always[Sequence[str]] = ()
    statuses: Always[Mapping[str, Status]] = _NONE
    scores: Mapping[str, Mapping[str, int]] = _NONE
    eligible: bool = True
    ineligible_reason: str = ""
    candidates: Always[Mapping[str, Evicted]] = _NONE
    dry_run_statuses: Mapping[str, Status] = _NONE
    num_candidates: int | None = None
    selected: Always[Sequence[str]] = ()
    nominated_node: Always[str] = ""
    odds: Mapping[str, float] = _NONE
    standing: Always[Sequence[str]] = ()
    in_vain: Mapping[str, Sequence[str]] = _NONE


class Prediction:
    """The predicted decision of kube-scheduler about a Pod, computed on first use of a property."""

    pod: Pod
    after_victims = False
    """True if victims of other predictions must terminate first."""

    def __init__(
        self, snapshot: Snapshot, pod: Pod, decision: Decision | None = None, *, reasons: bool = False
    ) -> None:
        """`decision`: the decision, if it has been computed already. `reasons`: whether the caller needs more than the
        outcome.

        Without reasons, the numpy implementation (`vectorized`) computes the outcome alone; statuses and candidates are
        computed separately if needed. With reasons, all are computed together. The plugins run node by node if the
        numpy implementation does not support the Pod. All ways have the same results. Victims do not depend on scores:
        scores are computed only if the node of the Pod is needed.
        """
        self.pod = pod
        self.snapshot = snapshot
        self._reasons = reasons
        self._state = CycleState()
        self._known = decision

    def __repr__(self) -> str:
        victims = f" {listed([victim.key for victim in self.victims])} on {self.nominated_node}" if self.victims else ""
        why = f": {self.not_predicted}" if self.not_predicted else ""
        return described(self, f"{self.pod.key}: {self.outcome}{victims}{why}")

    @cached_property
    def configuration(self) -> SchedulerConfiguration:
        return configuration_of(self.snapshot.semantics)

    @property
    def not_predicted(self) -> str:
        """The reason why forewarn cannot predict the Pod, or ""."""
        return self._decision.fault

    @property
    def unmodelled(self) -> str:
        """`not_predicted`, if kube-scheduler schedules the Pod, but forewarn cannot predict how; otherwise ""."""
        return "" if not_predicted.not_scheduled(self.pod, self.snapshot) else self.not_predicted

    @cached_property
    def framework(self) -> Framework:
        return find_nodes.framework_of(self.snapshot, self.pod)

    @property
    def without_columns(self) -> str:
        """The reason why every plugin runs on every node, as text after "because"; "" if numpy computes the outcome."""
        if self._not_predicted:
            return ""
        try:
            decide(self.framework, self.pod)
        except NotValid as fault:
            return str(fault) or "of the pod"
        return ""

    @cached_property
    def _not_predicted(self) -> str:
        return not_predicted.not_predicted(self.pod, self.snapshot)

    @cached_property
    def _decision(self) -> Decision:
        if self._known is not None and self._known.is_final:
            return self._known
        if self._not_predicted:
            return Decision(fault=self._not_predicted)
        try:
            if self._pre_enqueue_reason:
                return Decision(fault=self._pre_enqueue_reason)
            decision = self._filter_decision
            preempts = decision.candidate is not None
            fits = bool(decision.feasible)
            fault = not_predicted.extender_decisions(self.pod, self.snapshot, fits=fits, preempts=preempts)
            return Decision(fault=fault) if fault else decision._replace(error=self._error_of_scores)
        except PluginFault as fault:
            return Decision(fault=str(fault))

    @cached_property
    def _filter_decision(self) -> Decision:
        """The decision of the filters and of preemption, without the scores."""
        if self._without_reasons is not None:
            return self._without_reasons
        nodes = self._filtered.nodes
        return Decision([info.name for info in nodes]) if nodes else self.preemption.decision

    @property
    def _error_of_scores(self) -> str:
        """The error with which PreScore or Score ends the cycle, or ""."""
        feasible, own = self._filter_decision.feasible, self.pod.nominated_node_name
        if len(feasible) < 2 or self.framework.plan.scores or (own and own in feasible):
            return ""
        return self._scored.error

    @property
    def _pre_enqueue_reason(self) -> str:
        """Why a third-party PreEnqueue plugin holds the Pod, or "". `not_predicted` covers the others."""
        framework = self.framework
        if not foreign_at(framework.profile, "preEnqueue"):
            return ""
        status = run_pre_enqueue_plugins(framework.pre_enqueues, self.pod)
        return "" if status is None else f"plugin {status.plugin} keeps it from the queue: {', '.join(status.reasons)}"

    @property
    def _prioritizer(self) -> Extender | None:
        extenders = self.configuration.extenders_for(self.pod.spec.request.scalars)
        return next((extender for extender in extenders if extender.prioritize_verb), None)

    @cached_property
    def _filtered(self) -> find_nodes.Filtered:
        if self._not_predicted:
            return find_nodes.Filtered((), NodeToStatus())
        self._state.in_columns = self.in_columns
        if self.in_columns is not None:
            return self.in_columns.filtered
        return find_nodes.find_nodes_that_fit_pod(self.framework, self._state, self.pod)

    @cached_property
    def _without_reasons(self) -> Decision | None:
        """The known decision or that of numpy; None if reasons are requested or numpy does not support the Pod."""
        if self._not_predicted or self._reasons:
            return None
        with suppress(NotValid):
            return self._known or decide(self.framework, self.pod)
        return None

    @cached_property
    def in_columns(self) -> Cycle | None:
        """The cycle by the numpy implementation with the rejections of all nodes; None if plugins run node by node."""
        if self._not_predicted or self.snapshot.may_preempt_groups(self.pod.effective_priority):
            return None
        with self.snapshot.derived.locked(), suppress(NotValid):
            cycle = Cycle(self.snapshot, self.pod, self.framework)
            _ = cycle.rejections  # raises NotValid now, not later
            return cycle
        return None

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
        if self._without_reasons is not None:
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
        """Node -> why the Pod does not fit on the node; empty without prediction, or if PreFilter rejected the Pod."""
        if self.not_predicted or self._filtered.rejected is not None:
            return {}
        filtered = self._filtered
        feasible = set(self.feasible)
        charge(len(self.snapshot.node_infos) // 2)
        return {name: filtered.statuses.get(name) for name in self.snapshot.rows if name not in feasible}

    def status_of(self, node: str) -> list[tuple[str, Status]]:
        """Return [(node, status)] of one node from `statuses`; empty if `statuses` does not contain the node.

        Does not compute the statuses of other nodes.
        """
        if self.not_predicted or node not in self.snapshot.rows or self._filtered.rejected is not None:
            return []
        filtered = self._filtered
        fits = any(info.name == node for info in filtered.nodes)
        return [] if fits else [(node, filtered.statuses.get(node))]

    @property
    def rejection(self) -> find_nodes.Rejection:
        """The reason why no node fits, for queueing hints and for the Pod's condition PodScheduled."""
        if self.error:
            return find_nodes.Rejection(error=self.error)
        filtered = self._filtered
        rejected = filtered.rejected
        statuses = [rejected] if rejected is not None else list(self.statuses.values())
        plugins = frozenset((*filtered.restricting, *(status.plugin for status in statuses))) - {""}
        return find_nodes.Rejection(plugins, tuple(statuses))

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
        return {} if self.not_predicted else self._scored.scores

    @cached_property
    def _scored(self) -> Scored:
        return self.score(self._rows_of(self._filter_decision.feasible))

    def score(self, rows: Rows) -> Scored:
        """Return the scores of these feasible nodes, given as row numbers, in their order."""
        if len(rows) < 2:
            return Scored()
        nodes = [self.snapshot.node_infos[row] for row in rows.tolist()]
        asked = f"{named(self._prioritizer)} scores them too, and cannot be asked" if self._prioritizer else ""
        if asked and self.framework.plan.scores:
            return Scored(unknown=asked)
        with self.snapshot.derived.locked(), suppress(NotValid):
            return Scored(_scores_by_node(self._column_scores().scores_by_plugin(rows), nodes))
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
        if self._without_reasons is None and self.in_columns is None:
            return self._state
        state = CycleState()
        self.framework.run_pre_filter_plugins(state, self.pod)
        for node_info in nodes:
            charge(FILTERS)
            self.framework.run_filter_plugins_with_nominated_pods(state, self.pod, node_info)
        return state

    def _rows_of(self, feasible: Sequence[str]) -> Rows:
        rows = self.snapshot.rows
        if isinstance(feasible, NodeNames):
            return feasible.rows
        return np.fromiter((rows[name] for name in feasible), np.intp, len(feasible))

    def _column_scores(self) -> Scores:
        """Return the scores by the numpy implementation. Hold the lock meanwhile. Raises NotValid."""
        if self._known is None and (self._without_reasons is not None or self.in_columns is not None):
            if self._prioritizer is not None:
                raise NotValid
            return Scores(self.framework, self.pod, pod_matrix_of(self.snapshot))
        return Cycle(self.snapshot, self.pod).column_scores

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
        detail = next((r.details for r in post_filter_results.values() if isinstance(r.details, Preemption)), None)
        if result.nominated_node_name and (detail is None or result.details is not detail):
            return Preemption(best_candidates=(Candidate(result.nominated_node_name, ()),))
        return detail or Preemption(eligible=False, ineligible_reason=NO_PREEMPTION)

    @property
    def candidates(self) -> Sequence[Candidate]:
        """The nodes on which preemption helps, each with its victims."""
        return () if self.not_predicted else self.preemption.candidates

    @cached_property
    def best_nodes(self) -> list[str]:
        """Names of the nodes that kube-scheduler may select: the nodes with the best score, or the best
        preemption candidates.
        """
        if self.not_predicted:
            return []
        if not self.fits:
            return [*self._decision.best_nodes]
        if self._best_in_columns:
            return self._best_in_columns
        scores = self.scores
        if not scores:
            return self.feasible
        best = max(row["total"] for row in scores.values())
        return sorted(name for name, row in scores.items() if row["total"] == best)

    @cached_property
    def _best_in_columns(self) -> list[str]:
        """Names of the nodes with the best score, by the numpy implementation; empty for unsupported profiles."""
        if len(self._decision.feasible) < 2 or not self.framework.plan.scores:
            return []
        rows, infos = self._rows_of(self._decision.feasible), self.snapshot.node_infos
        with self.snapshot.derived.locked(), suppress(NotValid):
            totals = self._column_scores().total_scores(rows)
            return sorted(infos[row].name for row in rows[totals == totals.max()].tolist())
        return []

    @property
    def nominated_node(self) -> str:
        """The node that preemption nominates, the first by name if several tie; "" without preemption."""
        return self._decision.candidate.node_name if self._decision.candidate else ""

    @property
    def victims(self) -> tuple[Pod, ...]:
        """The Pods that kube-scheduler preempts, most important first."""
        return self._decision.candidate.victims if self._decision.candidate else ()

    @cached_property
    def num_pdb_violations(self) -> int:
        """The number of victims whose preemption violates a PodDisruptionBudget, without those already terminating."""
        candidate = self._decision.candidate
        number = candidate.num_pdb_violations if candidate else 0
        is_settled = self._known is not None and self._known.is_final
        if not number or is_settled or len(self._newly_preempted) == len(self.victims):
            return number
        return len(self.violating)

    @property
    def violating(self) -> list[Pod]:
        """The victims that `num_pdb_violations` counts. `snapshot` must be that of the cycle."""
        violated = violated_by(self._considered, self.snapshot)
        return [victim for victim in self._newly_preempted if victim.identity in violated]

    @property
    def violated_pdbs(self) -> list[str]:
        """The PodDisruptionBudgets that the preemption violates, as `namespace/name`."""
        if not self.num_pdb_violations:
            return []
        return violated_pdbs(self._newly_preempted, self._considered, self.snapshot)

    @property
    def _newly_preempted(self) -> list[Pod]:
        return [victim for victim in self.victims if not victim.terminating]

    @property
    def _considered(self) -> list[Victim]:
        """The Pods on the nominated node that the Pod may preempt."""
        info = self.snapshot.get(self.nominated_node)
        with suppress(MissingNode):
            return victims_below(self.pod.effective_priority, (info,), self.snapshot) if info else []
        return []

    @cached_property
    def nomination_probabilities(self) -> Mapping[str, float]:
        return nomination_probabilities(self.candidates, self.preemption.num_candidates)

    @property
    def num_feasible_nodes_to_find(self) -> int:
        """Number of feasible nodes after which kube-scheduler stops searching."""
        nodes = len(self.snapshot.node_infos)
        return find_nodes.num_feasible_nodes_to_find(nodes, percentage_of(self.framework))

    @property
    def not_scored(self) -> str:
        """The reason why the best of several feasible nodes is unknown; "" if the best node is known."""
        return "" if self.not_predicted or self._best_in_columns else self._scored.unknown

    @property
    def node(self) -> str:
        """The node of the Pod: at the end of a simulation, or its nominated node if feasible, otherwise the best
        feasible node, otherwise the node that preemption nominates, or "".
        """
        if not self.fits:
            return self.nominated_node if self._decision.bound is None else self._decision.bound
        own = self.pod.nominated_node_name
        return own if own and own in self.feasible else self.best_nodes[0]

    @property
    def clears_nomination(self) -> bool:
        """Whether the Pod loses its nomination, because preemption no longer helps, or no PostFilter plugin runs.

        Source: upstream `schedulingCycle`, `Preempt`.
        """
        if not self.pod.nominated_node_name or self.outcome != "pending":
            return False
        return self.preemption.eligible or not self.framework.profile.plugins_at("postFilter")

    @property
    def pod_after(self) -> Pod:
        """The Pod after a cycle that does not bind it: the cycle may set or clear its nomination."""
        is_changed = self.outcome == "preempts" or self.clears_nomination
        return replace(self.pod, nominated_node_name=self.nominated_node) if is_changed else self.pod

    def snapshot_after(self) -> Snapshot:
        """Return the Snapshot for the next Pod's cycle: with the Pod on its node, or nominated while its victims
        terminate.

        Selecting the best of many nodes is expensive: call this only if another Pod follows.
        """
        node = self.node
        if not node:
            return self.snapshot.without_nominations([self.pod]) if self.clears_nomination else self.snapshot
        if not self.fits:
            return self.snapshot.with_preemptions([(self.pod, node, self.victims)])
        return self._with_devices(node).with_pods([self.snapshot.bound(self.pod, node)], ())

    def final_snapshot(self) -> Snapshot:
        """Return the Snapshot after all victims have terminated, with the Pod on its node."""
        node = self.node
        if not node:
            return self.snapshot
        return self._with_devices(node).with_pods([self.snapshot.bound(self.pod, node)], self.victims)

    def _with_devices(self, node: str) -> Snapshot:
        return self.snapshot.with_claims(allocated_on(self._device_state(node), node))

    def _device_state(self, node: str) -> CycleState:
        """Return a state with the devices that DynamicResources allocates on the node."""
        needs_devices = self.pod.device_claims or self.snapshot.extended_resources
        info, name = self.snapshot.get(node), DynamicResources.name
        is_allocated = self._without_reasons is None and name in self._state.data
        if not needs_devices or info is None or is_allocated or name not in self.framework.profile.plugins:
            return self._state
        plugin: DynamicResources = self.framework.plugin(name)
        return plugin.allocate_on(self.pod, (info,))

    def settled(self, snapshot: Snapshot, with_ties: bool, is_repeated: bool = False) -> Prediction:
        """Return a prediction with the same outcome that does not keep the cluster state in memory.

        `snapshot`: replaces the Snapshot. `with_ties`: keep all nodes that may be nominated, not only the first.
        `is_repeated`: Pods like this one follow, while its victims terminate.
        """
        names = self._decision.feasible
        feasible = names if with_ties and snapshot is self.snapshot else list(names if with_ties else names[:1])
        best_nodes = [] if self.fits else self.best_nodes if with_ties else self.best_nodes[:1]
        by_chance, fewest = with_ties and self.may_be_others, self.fewest
        certain = self.certain_victims if by_chance else None
        decision, number = self._decision, self.num_pdb_violations
        candidate = decision.candidate and replace(decision.candidate, num_pdb_violations=number)
        decision = decision._replace(
            feasible=feasible,
            best_nodes=best_nodes,
            candidate=candidate,
            by_chance=by_chance,
            certain=certain,
            fewest=fewest,
            takes_ties_in_turn=with_ties and is_repeated and self.takes_ties_in_turn,
            is_final=True,
        )
        return Prediction(snapshot, self.pod, decision)

    @property
    def may_be_others(self) -> bool:
        """Whether the victims are random: nodes or Pods on the node tie, or kube-scheduler evaluates a random
        part of the nodes.
        """
        if self.fits or self._decision.candidate is None:
            return False
        if self._decision.by_chance is not None:
            return self._decision.by_chance
        return self.may_be_elsewhere or victims_tie(self._decision.candidate, self.snapshot)

    @property
    def victims_in_vain(self) -> Sequence[Pod]:
        """The victims whose preemption helps no Pod, in a simulation."""
        return self._decision.in_vain

    def depends_on_pdbs_since(self, begun: Snapshot) -> bool:
        """Report whether preemption differs as long as kube-scheduler does not see that a PDB, which allowed
        disruptions in the Snapshot `begun`, no longer allows any.
        """
        if self.snapshot.objects.pdbs is begun.objects.pdbs:
            return False
        changed = changed_pdbs(self.snapshot.pdbs, begun.pdbs)
        used_up = {(pdb.namespace, pdb.name): pdb for least, pdb in changed if least <= 0 < pdb.disruptions_allowed}
        if not used_up:
            return False
        stale = Prediction(self.snapshot.with_pdbs(used_up), self.pod)
        return (stale.best_nodes, stale.victims) != (self.best_nodes, self.victims)

    @property
    def certain_victims(self) -> Sequence[Pod]:
        """The victims that kube-scheduler selects whichever of equal nodes, and of equal Pods on the node, it takes."""
        decision, is_of_daemon = self._decision, self.pod.spec.node_affinity.only_node
        if decision.certain is not None or decision.candidate is None or not self.may_be_others:
            return self.victims if decision.certain is None else decision.certain
        if decision.by_chance or self.may_be_elsewhere or is_of_daemon or self.fewest is not None:
            return ()
        return without_ties(decision.candidate, self.snapshot)

    @cached_property
    def fewest(self) -> Fewest:
        """The least number of Pods that this Pod preempts, or "unknown", if chance also decides how many Pods the Pods
        after it preempt; otherwise None.
        """
        if self._known is not None or self.not_predicted:
            return self._decision.fewest
        return fewest_victims(self.pod, self._decision, self.framework)

    @cached_property
    def takes_ties_in_turn(self) -> bool:
        """Whether Pods like this one preempt on each of the tied nodes once before they preempt at a higher cost: then
        the order affects nothing but names.
        """
        if self._known is not None or self.fewest in (None, 0, "unknown"):
            return self._decision.takes_ties_in_turn
        best = self.preemption.best_candidates
        if not are_independent(self.pod, best, self.framework):
            return False
        others = (replace(self.pod, uid=f"{self.pod.identity}/{number}") for number in range(len(best)))
        cycles = [(other, one.node_name, one.victims) for other, one in zip(others, best, strict=True)]
        after = Prediction(self.snapshot.with_preemptions(cycles), self.pod)
        if after.outcome != "preempts":
            return after.outcome == "pending"
        before, then = costs_of_candidates([best[0], after.preemption.best_candidates[0]]).T.tolist()
        return bool(before < then)

    @property
    def may_be_elsewhere(self) -> bool:
        """Whether the node that preemption nominates is random."""
        return not self.fits and (len(self.best_nodes) > 1 or self.is_sampled)

    @property
    def is_sampled(self) -> bool:
        """Whether the preemption evaluates only some of the candidates."""
        return not self.fits and self._decision.is_sampled

    @cached_property
    def outcome(self) -> PredictedOutcome:
        """The outcome: `fits`, `preempts`, `pending` or `not-predicted`."""
        if self.not_predicted:
            return "not-predicted"
        return "fits" if self.fits else "preempts" if self._decision.candidate else "pending"

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        """The reasons why the prediction is uncertain."""
        return (f"not predicted: {self.not_predicted}",) if self.not_predicted else tuple(self._caveats(ties=True))

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """The caveats other than a choice among nodes or Pods that are equal (see `may_be_others`)."""
        return () if self.not_predicted else tuple(self._caveats(ties=False))

    def _caveats(self, *, ties: bool) -> list[str]:
        if not self.fits:
            return preemption_caveats(self.pod, self.preemption, self.snapshot, ties=ties)
        awaited = [AWAITED] if awaits_devices(self._device_state(self.node), self.node) else []
        feasible, own, unknown = self.feasible, self.pod.nominated_node_name, self.not_scored
        not_scored = [f"which of {len(feasible)} nodes is not predicted: {unknown}"] if unknown else []
        of_binding = [GATED] if self.pod.spec.gated else _binding_caveats(self)
        if not ties:
            return [*of_binding, *not_scored, *awaited]
        caveats = ["fits only after the victims of other Pods have terminated"] if self.after_victims else []
        most, best = self.num_feasible_nodes_to_find, self.best_nodes
        if own in feasible:
            caveats.append(f"the Pod is nominated to {own}, where it fits: kube-scheduler tries that node first")
        takes_first = len(feasible) > most == 1
        if takes_first:
            caveats.append(f"no plugin scores nodes: the scheduler takes the first of {len(feasible)} feasible nodes")
        elif len(feasible) > most:
            caveats.append(f"{len(feasible)} nodes are feasible: the scheduler scores only a part of them")
        if not not_scored and len(best) > 1 and not takes_first:
            not_scored = [f"{len(best)} nodes tie for the best score: any of them may be chosen"]
        return [*caveats, *of_binding, *not_scored, *awaited]

    @cached_property
    def assumes(self) -> tuple[str, ...]:
        """What the prediction assumes, as clauses."""
        is_new = not self.pod.uid
        return assumptions(self.snapshot.objects, (self.pod,), victims=bool(self.victims), created=is_new)

    @property
    def document(self) -> PredictionDocument:
        """The prediction in JSON. Computes all properties."""
        outcome, standing = self.outcome, list(self.caveats)
        if self.not_predicted:
            return PredictionDocument(outcome, standing=standing)
        preemption = self.preemption
        candidates = {c.node_name: Evicted([v.key for v in c.victims], c.num_pdb_violations) for c in self.candidates}
        in_vain = grouped((victim.node_name, victim.key) for victim in self.victims_in_vain)
        if self._decision.candidate is not None:
            own = [victim.key for victim in self.victims if victim.key not in in_vain.get(victim.node_name, ())]
            candidates[self.nominated_node] = Evicted(own, self._decision.candidate.num_pdb_violations)
        may_stop_early = preemption.may_stop_early and self.nomination_probabilities
        return PredictionDocument(
            outcome=outcome,
            pre_filter=self.pre_filter,
            feasible=self.feasible,
            statuses=self.statuses,
            scores=self.scores,
            eligible=preemption.eligible,
            ineligible_reason=preemption.ineligible_reason,
            candidates=candidates,
            dry_run_statuses=preemption.statuses,
            num_candidates=preemption.num_candidates or None,
            selected=self.best_nodes,
            nominated_node=self.nominated_node,
            odds={name: Exact(chance) for name, chance in (may_stop_early or {}).items()},
            standing=standing,
            in_vain=in_vain,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as a JSON object in the format of recorded answers."""
        return to_dict(self.document)


def _scores_by_node(scores: dict[str, Ints], nodes: Sequence[NodeInfo]) -> dict[str, dict[str, int]]:
    """Return node -> plugin -> weighted score, with their sum as `total`, without plugins that score 0 everywhere."""
    charge(len(nodes))
    scores["total"] = np.sum([np.zeros(len(nodes), np.int64), *scores.values()], axis=0)
    keys, values = tuple(scores), zip(*(column.tolist() for column in scores.values()), strict=True)
    return {node.name: dict(zip(keys, row, strict=True)) for node, row in zip(nodes, values, strict=True)}


def foreign_after_choice(framework: Framework) -> list[str]:
    """Return the third-party plugins that may delay or reject a Pod after the choice of its node."""
    points = ("reserve", "permit", "preBind", "bind")
    return [name for point in points for name in foreign_at(framework.profile, point)]


def _binding_caveats(prediction: Prediction) -> list[str]:
    """Return caveats about third-party plugins that delay or reject the binding of a Pod."""
    framework = prediction.framework
    if not foreign_after_choice(framework):
        return []
    node = prediction.node
    try:
        failed_at, status, timeouts = run_binding_cycle(framework, prediction.pod, node)
    except PluginFault as fault:
        return [f"whether it is bound to {node} is not predicted: {fault}"]
    if timeouts:
        held = ", ".join(f"{name} (up to {seconds:g} s)" for name, seconds in sorted(timeouts.items()))
        return [f"before it is bound to {node} it waits for {held}"]
    if status is None:
        return []
    return [f"plugin {status.plugin} keeps it from {node} at {failed_at}: {', '.join(status.reasons)}"]
