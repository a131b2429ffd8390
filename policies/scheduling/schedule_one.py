"""Predict one scheduling cycle of a Pod. Source: kubernetes `pkg/scheduler/schedule_one.go`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from forewarn.policies.copies import replace
from forewarn.policies.scheduling.caveats import AWAITED, Facts, of_placement, of_preemption, victims_tie
from forewarn.policies.scheduling.filtering import num_feasible_nodes_to_find
from forewarn.policies.scheduling.missing_lists import assumptions
from forewarn.policies.scheduling.nomination_probabilities import nomination_probabilities
from forewarn.policies.scheduling.plugins.dynamic_resources import DynamicResources, allocated_on, awaits_devices
from forewarn.policies.scheduling.scheduling_cycle import NO_PREEMPTION, SchedulingCycle
from forewarn.policies.scheduling.vectorized.node_fit import VectorizedAnswer
from forewarn.policies.scheduling.vectorized.problem import NotValid
from forewarn.policies.scheduling.vectorized_cycle import percentage_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.preemption import Candidate
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.status import CycleState

__all__ = ["NO_PREEMPTION", "Prediction"]


class Prediction(SchedulingCycle):
    """The predicted decision of kube-scheduler about a Pod. Each property is computed on first use and cached."""

    @cached_property
    def best_nodes(self) -> list[str]:
        """Names of the nodes that kube-scheduler may select: the nodes with the best score, or the best
        preemption candidates.
        """
        if self.not_predicted:
            return []
        if not self.fits:
            if self._columns is not None:
                return self._columns.best_nodes
            return [candidate.node_name for candidate in self.preemption.best_candidates]
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
        if len(self._decision.feasible) < 2 or "_scored" in self.__dict__:  # the scores of all plugins are known
            return []
        rows, infos = self._feasible_rows, self.snapshot.node_infos
        with self.snapshot.derived.locked():
            try:
                totals = self._in_tables.of(rows)
            except NotValid:
                return []
        return sorted(infos[row].name for row in rows[totals == totals.max()].tolist())

    @property
    def _nominated(self) -> Candidate | None:
        return self._decision.nominated

    @property
    def nominated_node(self) -> str:
        """The node that preemption nominates, the first by name if several tie; "" without preemption."""
        return self._nominated.node_name if self._nominated else ""

    @property
    def victims(self) -> tuple[Pod, ...]:
        """The Pods that preemption evicts, most important first."""
        return self._nominated.victims if self._nominated else ()

    @property
    def num_pdb_violations(self) -> int:
        """Number of victims whose PDB is violated."""
        return self._nominated.num_pdb_violations if self._nominated else 0

    @cached_property
    def nomination_probabilities(self) -> Mapping[str, float]:
        """Node name -> probability that preemption nominates the node.

        With at most 100 nodes, the best nodes share a probability of 1.
        """
        return nomination_probabilities(self.candidates, self.preemption.num_candidates)

    @property
    def num_feasible_nodes_to_find(self) -> int:
        """Number of feasible nodes after which kube-scheduler stops searching."""
        nodes = len(self.snapshot.node_infos)
        return num_feasible_nodes_to_find(nodes, percentage_of(self.framework))

    @property
    def not_scored(self) -> str:
        """The reason why the best of several feasible nodes is unknown; "" if the best node is known."""
        return "" if self._best_in_columns else self._scored.unknown

    @property
    def node(self) -> str:
        """The node of the Pod: the best feasible node (its nominated node first), otherwise the node that
        preemption nominates, or "".
        """
        if not self.fits:
            return self.nominated_node
        own = self.pod.nominated_node_name
        return own if own and own in self.feasible else self.best_nodes[0]

    @property
    def clears_nomination(self) -> bool:
        """Whether the Pod loses its nomination, because preemption no longer helps, or no PostFilter plugin runs.

        Source: upstream `schedulingCycle`, `Preempt`.
        """
        if not self.pod.nominated_node_name or self.outcome != "pending":
            return False
        return self.preemption.eligible or not self.framework.profile.at("postFilter")

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
            return self.snapshot.without_nomination(self.pod) if self.clears_nomination else self.snapshot
        if not self.fits:
            return self.snapshot.with_preemptions([(self.pod, node, self.victims)])
        return self._with_devices(node).with_pods([self.snapshot.bound(self.pod, node)], ())

    def in_the_end(self) -> Snapshot:
        """Return the Snapshot after all victims have terminated, with the Pod on its node."""
        node = self.node
        if not node:
            return self.snapshot
        return self._with_devices(node).with_pods([self.snapshot.bound(self.pod, node)], self.victims)

    def _with_devices(self, node: str) -> Snapshot:
        """Return the Snapshot with the Pod's ResourceClaims allocated for the node."""
        return self.snapshot.with_claims(allocated_on(self._device_state(node), node))

    def _device_state(self, node: str) -> CycleState:
        """Return a state with the devices that DynamicResources allocates on the node."""
        needs_devices = self.pod.device_claims or self.snapshot.extended_resources
        info, name = self.snapshot.get(node), DynamicResources.name
        if not needs_devices or info is None or name in self._state.data or name not in self.framework.profile.plugins:
            return self._state
        plugin: DynamicResources = self.framework.plugin(name)
        return plugin.allocate_on(self.pod, (info,))

    def settled(self, snapshot: Snapshot, with_ties: bool) -> Prediction:
        """Return a prediction with the same outcome that does not keep the cluster state in memory.

        `snapshot`: replaces the Snapshot. `with_ties`: keep all nodes that may be nominated, not only the first.
        """
        names = self._decision.feasible
        feasible = names if with_ties and snapshot is self.snapshot else list(names if with_ties else names[:1])
        best_nodes = [] if self.fits else self.best_nodes if with_ties else self.best_nodes[:1]
        by_chance = with_ties and self.may_be_others
        answer = VectorizedAnswer(feasible, best_nodes, self._nominated, self._is_sampled, by_chance)
        settled = Prediction(snapshot, self.pod, answer)
        settled.__dict__["_decision"] = self._decision._replace(feasible=feasible)
        return settled

    @property
    def _is_sampled(self) -> bool:
        """Whether kube-scheduler evaluates only a part of the nodes for preemption."""
        if self.fits or self._nominated is None:
            return False
        if self._columns is not None:
            return self._columns.is_sampled
        return self.preemption.is_sampled

    @property
    def may_be_others(self) -> bool:
        """Whether the victims are random: nodes or Pods on the node tie, or kube-scheduler evaluates a random
        part of the nodes.
        """
        if self.fits or self._nominated is None:
            return False
        if self._columns is not None and self._columns.by_chance is not None:
            return self._columns.by_chance
        return self.may_be_elsewhere or victims_tie(self._nominated, self.snapshot)

    @property
    def may_be_elsewhere(self) -> bool:
        """Whether the node that preemption nominates is random."""
        return not self.fits and (len(self.best_nodes) > 1 or self._is_sampled)

    @cached_property
    def outcome(self) -> str:
        """The outcome: `fits`, `preempts`, `pending` or `not-predicted`."""
        if self.not_predicted:
            return "not-predicted"
        return "fits" if self.fits else "preempts" if self._nominated else "pending"

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        """The assumptions and the uncertainty of the prediction."""
        if self.not_predicted:
            return (f"not predicted: {self.not_predicted}",)
        is_new = not self.pod.uid
        assumed = assumptions(self.snapshot.objects, (self.pod,), victims=bool(self.victims), created=is_new)
        if not self.fits:
            return *of_preemption(self.pod, self.preemption, self.snapshot), *assumed
        facts = (self.feasible, self.best_nodes, self.node, self.num_feasible_nodes_to_find, self.not_scored)
        awaited = (AWAITED,) if awaits_devices(self._device_state(self.node), self.node) else ()
        return *of_placement(Facts(self.pod, self.framework, *facts)), *awaited, *assumed

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as a JSON object in the format of recorded answers. Computes all properties."""
        answer: dict[str, Any] = {"outcome": self.outcome}
        if self.not_predicted:
            nothing: dict[str, Any] = {
                "feasible": [],
                "statuses": {},
                "eligible": True,
                "candidates": {},
                "selected": [],
            }
            return {**answer, **nothing, "nominatedNode": "", "standing": list(self.caveats)}
        if self.pre_filter is not None:
            answer["preFilter"] = self.pre_filter.to_dict()
        answer["feasible"] = self.feasible
        answer["statuses"] = {name: status.to_dict() for name, status in self.statuses.items()}
        if self.scores:
            answer["scores"] = {name: dict(row) for name, row in self.scores.items()}
        answer["eligible"] = self.preemption.eligible
        if self.preemption.ineligible_reason:
            answer["ineligibleReason"] = self.preemption.ineligible_reason
        answer["candidates"] = {
            c.node_name: {"victims": [v.key for v in c.victims], "pdbViolations": c.num_pdb_violations}
            for c in self.candidates
        }
        if self.preemption.statuses:
            answer["dryRunStatuses"] = {n: s.to_dict() for n, s in self.preemption.statuses.items()}
        if self.preemption.num_candidates:
            answer["numCandidates"] = self.preemption.num_candidates
        answer["selected"] = self.best_nodes
        answer["nominatedNode"] = self.nominated_node
        if self.preemption.may_stop_early and self.nomination_probabilities:
            answer["odds"] = dict(self.nomination_probabilities)
        answer["standing"] = list(self.caveats)
        return answer
