"""One scheduling cycle for one pod. Source: kubernetes `pkg/scheduler/schedule_one.go`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.metering import charge
from policies.profiles import DEFAULT_SCHEDULER
from policies.scheduling.caveats import Facts, named, of_placement, of_preemption
from policies.scheduling.columns import BASE_RESOURCES
from policies.scheduling.configuration import configuration_of
from policies.scheduling.devices.claims import not_modelled
from policies.scheduling.filtering import Filtered, Rejection, find_nodes_that_fit_pod, num_feasible_nodes_to_find
from policies.scheduling.framework import Code, CycleState, Framework, NodeToStatus, PluginFault, Status
from policies.scheduling.nomination_probabilities import nomination_probabilities
from policies.scheduling.plugin import foreign_at
from policies.scheduling.plugins.dynamic_resources import allocated_on
from policies.scheduling.plugins.node_affinity import named_nodes
from policies.scheduling.preemption import (
    Candidate,
    Preemption,
    pod_eligible_to_preempt_others,
)
from policies.scheduling.vectorized import capacity
from policies.scheduling.vectorized.node_fit import VectorizedAnswer, vectorized_answer
from policies.scheduling.vectorized.pod_matrix import pod_matrix_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.objects.pod import Pod
    from policies.profiles import Extender, SchedulerConfiguration
    from policies.scheduling.snapshot import Snapshot


class _Decision(NamedTuple):
    """Names of the nodes that can run the pod; else the candidate that would be nominated first, by name; `fault`: why
    neither can be told."""

    feasible: Sequence[str] = ()
    nominated: Candidate | None = None
    fault: str = ""


class Prediction:
    """What kube-scheduler would do with a pod. Everything is worked out when it is first asked for, then kept.

    `reasons`: whether more than the outcome will be asked for. Without, the outcome is worked out in columns where all
    plugins of the profile have them; statuses and candidates, if asked for all the same, are worked out beside it. With
    reasons every plugin is run on every node. Both come to the same.

    Scores are not needed to know who would have to go: they are worked out only for who asks where a pod would run.
    """

    def __init__(
        self, snapshot: Snapshot, pod: Pod, known: VectorizedAnswer | None = None, *, reasons: bool = False
    ) -> None:
        """`known`: the outcome, if it has been worked out."""
        self.pod = pod
        self.snapshot = snapshot
        self._reasons = reasons
        self._state = CycleState()
        self._known = known

    @cached_property
    def configuration(self) -> SchedulerConfiguration:
        """The scheduler that the cluster has."""
        return configuration_of(self.snapshot.semantics)

    @property
    def not_predicted(self) -> str:
        """Why no honest prediction can be made, empty if one can; then there are no nodes, victims or statuses."""
        return self._decision.fault

    @cached_property
    def framework(self) -> Framework:
        """The plugins of the pod's profile, over the snapshot."""
        return framework_of(self.snapshot, self.pod)

    @property
    def without_columns(self) -> str:
        """The plugin for whose sake every plugin is run on every node; empty where columns may tell the outcome."""
        return "" if self._refused else self.framework.without_columns

    @cached_property
    def _refused(self) -> str:
        return not_predicted(self.pod, self.snapshot)

    @cached_property
    def _decision(self) -> _Decision:
        if self._refused:
            return _Decision(fault=self._refused)
        try:
            held = self._held_back
            if held:
                return _Decision(fault=held)
            found = self._in_columns or self._walked_through
            return found._replace(fault=_asked_of_extenders(self._extenders, found))
        except PluginFault as fault:
            return _Decision(fault=str(fault))

    @property
    def _held_back(self) -> str:
        """Why the pod is not in the queue; kube-scheduler's own plugins are spoken of in `not_predicted`."""
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
        """Those that are asked about this pod."""
        extenders = self.configuration.extenders
        return [e for e in extenders if e.is_interested(self.pod.spec.request.scalars)] if extenders else []

    @cached_property
    def _filtered(self) -> Filtered:
        if self._refused:
            return Filtered((), NodeToStatus())
        return find_nodes_that_fit_pod(self.framework, self._state, self.pod)

    @cached_property
    def _columns(self) -> VectorizedAnswer | None:
        """The outcome without its reasons, where these are not wanted and columns can tell."""
        if self._refused or self._reasons:
            return None
        return self._known or vectorized_answer(self.framework, self.pod)

    @property
    def pre_filter(self) -> Status | None:
        """Why the pod was rejected before any node was looked at; None if it was not."""
        return self._filtered.rejected

    @property
    def feasible(self) -> list[str]:
        """The nodes that can run it now, by name."""
        return list(self._decision.feasible)

    @property
    def evaluated_nodes(self) -> int:
        """How many nodes the filters look at: those that PreFilter leaves."""
        if self._columns is not None:
            names = named_nodes(self.pod.spec.node_affinity.required)
            return len(self.snapshot.rows) if names is None else sum(name in self.snapshot.rows for name in names)
        return len(self._filtered.nodes) + len(self._filtered.statuses.by_node)

    @property
    def fits(self) -> bool:
        """Whether it would be bound without preemption."""
        return bool(self._decision.feasible)

    @property
    def statuses(self) -> Mapping[str, Status]:
        """Why each other node cannot; empty when PreFilter rejected the pod."""
        if self.not_predicted or self._filtered.rejected is not None:
            return {}
        filtered = self._filtered
        feasible = set(self.feasible)
        charge(len(self.snapshot.node_infos) // 2)
        return {i.name: filtered.statuses.get(i.name) for i in self.snapshot.node_infos if i.name not in feasible}

    def status_of(self, node: str) -> list[tuple[str, Status]]:
        """The entry of one node in `statuses`, if it is there; the others are not looked at."""
        if self.not_predicted or node not in self.snapshot.rows or self._filtered.rejected is not None:
            return []
        filtered = self._filtered
        if node in {info.name for info in filtered.nodes}:
            return []
        return [(node, filtered.statuses.get(node))]

    @property
    def rejection(self) -> Rejection:
        """Why no node can run it, as the queue and the pod's condition have it."""
        filtered = self._filtered
        if filtered.error:
            found = [filtered.rejected, *filtered.statuses.by_node.values()]
            return Rejection(error=next("; ".join(s.reasons) for s in found if s and s.code is Code.ERROR))
        rejected = filtered.rejected
        statuses = [rejected] if rejected is not None else list(self.statuses.values())
        plugins = {*filtered.restricting, *(status.plugin for status in statuses)} - {""}
        return Rejection(tuple(sorted(plugins)), tuple(statuses))

    @property
    def scores(self) -> Mapping[str, Mapping[str, int]]:
        """Weighted score by node and plugin, and `total`; empty unless several nodes are feasible, and scored."""
        return self._scored[0]

    @cached_property
    def _scored(self) -> tuple[Mapping[str, Mapping[str, int]], str]:
        """(the scores, why they are not known)."""
        feasible = self.feasible
        if len(feasible) < 2:
            return {}, ""
        asked = next((e for e in self._extenders if e.prioritize_verb), None)
        if asked is not None:
            return {}, f"{named(asked)} scores them too, and cannot be asked"
        framework, rows = self.framework, self.snapshot.rows
        nodes = [self.snapshot.node_infos[rows[name]] for name in feasible]
        state = self._state if self._columns is None else CycleState()
        try:
            status = framework.run_pre_score_plugins(state, self.pod, nodes)
            scores = status or framework.run_score_plugins(state, self.pod, nodes)
        except PluginFault as fault:
            return {}, str(fault)
        if isinstance(scores, Status):
            return {}, f"the cycle ends in an error: {', '.join(scores.reasons)}"
        return scores, ""

    @cached_property
    def preemption(self) -> Preemption:
        """What preemption comes to; nothing when the pod fits, or the cycle ends in an error."""
        if self._refused or self._filtered.error:
            return Preemption()
        framework, statuses = self.framework, self._filtered.statuses
        if self._filtered.nodes:
            reason = pod_eligible_to_preempt_others(self.pod, statuses, self.snapshot)
            return Preemption(eligible=not reason, ineligible_reason=reason)
        result, said = framework.run_post_filter_plugins(self._state, self.pod, statuses)
        found = next((r.details for r in said.values() if isinstance(r.details, Preemption)), None)
        if result.nominated_node_name and (found is None or result.details is not found):
            return Preemption(best_candidates=(Candidate(result.nominated_node_name, ()),))
        return found or Preemption(eligible=False, ineligible_reason=NO_PREEMPTION)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The nodes where preemption would help, and whom it would cost."""
        return () if self.not_predicted else self.preemption.candidates

    @cached_property
    def best_nodes(self) -> list[str]:
        """The nodes that may be chosen, by name: those of the best score, else those the tie-breaks leave."""
        if self.not_predicted:
            return []
        if not self.fits:
            if self._columns is not None:
                return self._columns.best_nodes
            return [candidate.node_name for candidate in self.preemption.best_candidates]
        scores = self.scores
        if not scores:
            return self.feasible
        best = max(row["total"] for row in scores.values())
        return sorted(name for name, row in scores.items() if row["total"] == best)

    @property
    def _nominated(self) -> Candidate | None:
        return self._decision.nominated

    @property
    def nominated_node(self) -> str:
        """The node that preemption would empty for it: the first by name where several tie; empty if there is none."""
        return self._nominated.node_name if self._nominated else ""

    @property
    def victims(self) -> tuple[Pod, ...]:
        """The pods that would be evicted on the nominated node, most important first."""
        return self._nominated.victims if self._nominated else ()

    @property
    def num_pdb_violations(self) -> int:
        """How many of them a disruption budget speaks for."""
        return self._nominated.num_pdb_violations if self._nominated else 0

    @cached_property
    def nomination_probabilities(self) -> Mapping[str, float]:
        """Node name -> probability that preemption nominates it; 1 in all for the best ones up to 100 nodes."""
        return nomination_probabilities(self.candidates, self.preemption.num_candidates)

    @property
    def sampled(self) -> bool:
        """Whether the scheduler looks at a random part of the nodes that preemption may help on."""
        return self.preemption.potential_nodes > self.preemption.num_candidates

    @property
    def looked_for(self) -> int:
        """After so many feasible nodes the scheduler stops looking for more."""
        nodes = len(self.snapshot.node_infos)
        return num_feasible_nodes_to_find(self.configuration, self.framework.profile, nodes)

    @property
    def not_scored(self) -> str:
        """Why it is not known which of several feasible nodes is the best; empty if it is."""
        return self._scored[1]

    @property
    def node(self) -> str:
        """Where it would run: a feasible node (its nomination comes first), else the nominated one; may be empty."""
        if not self.fits:
            return self.nominated_node
        own = self.pod.nominated_node_name
        return own if own in self.feasible else self.best_nodes[0]

    def snapshot_after(self) -> Snapshot:
        """The cluster as the next pod's cycle finds it: the pod in its place, or nominated to where its victims end.

        Which of many nodes is the best is a long question: ask it only where something comes after.
        """
        node = self.node
        if not node:
            return self.snapshot
        if not self.fits:
            return self.snapshot.with_preemptions([(self.pod, node, self.victims)])
        return self._with_devices(node).with_pods([self.snapshot.bound(self.pod, node)], ())

    def in_the_end(self) -> Snapshot:
        """The cluster with the pod in its place and its victims gone."""
        node = self.node
        if not node:
            return self.snapshot
        return self._with_devices(node).with_pods([self.snapshot.bound(self.pod, node)], self.victims)

    def _with_devices(self, node: str) -> Snapshot:
        """The cluster with the pod's claims allocated as on that node."""
        if not self.pod.device_claims and not self.snapshot.extended_resources:
            return self.snapshot
        return self.snapshot.with_claims(allocated_on(self._state, node))

    def settled(self, snapshot: Snapshot, with_ties: bool) -> Prediction:
        """What it comes to and no more: who keeps many does not keep the state of the cluster that each was made for.

        `snapshot`: the one to name instead; `with_ties`: keep all nodes that may be nominated, not only the first.
        """
        feasible = self.feasible if with_ties else self.feasible[:1]
        best_nodes = [] if self.fits else self.best_nodes if with_ties else self.best_nodes[:1]
        return Prediction(snapshot, self.pod, VectorizedAnswer(feasible, best_nodes, self._nominated))

    @cached_property
    def outcome(self) -> str:
        """`fits`, `preempts`, `pending` or `not-predicted`."""
        if self.not_predicted:
            return "not-predicted"
        return "fits" if self.fits else "preempts" if self._nominated else "pending"

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        """What the prediction rests on, or cannot know."""
        if self.not_predicted:
            return (f"no prediction: {self.not_predicted}",)
        if not self.fits:
            return tuple(of_preemption(self.pod, self.preemption, self.snapshot))
        facts = (self.feasible, self.best_nodes, self.node, self.looked_for, self.not_scored)
        return tuple(of_placement(Facts(self.pod, self.framework, *facts)))

    def to_dict(self) -> dict[str, Any]:
        """The answer for programs: the keys of the batch format. Works out everything."""
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
        if self.sampled and self.nomination_probabilities:
            answer["odds"] = dict(self.nomination_probabilities)
        answer["standing"] = list(self.caveats)
        return answer


NO_PREEMPTION: Final = "no plugin of the profile preempts"


def framework_of(snapshot: Snapshot, pod: Pod) -> Framework:
    """The plugins that decide about a pod, which is one of ours."""
    profile = configuration_of(snapshot.semantics).profile(pod.spec.scheduler_name)
    assert profile is not None
    return Framework(snapshot, profile)


def outcome_in_columns(snapshot: Snapshot, pod: Pod) -> VectorizedAnswer | None:
    """What it comes to, worked out in columns. None where these cannot tell."""
    return None if not_predicted(pod, snapshot) else vectorized_answer(framework_of(snapshot, pod), pod)


def room_for(snapshot: Snapshot, pod: Pod) -> capacity.Capacity | None:
    """Room for pods like this one. None where this cannot tell (see `fast.room`)."""
    return None if not_predicted(pod, snapshot) else capacity.capacity_for(framework_of(snapshot, pod), pod)


def on_each_node(snapshot: Snapshot, pod: Pod, nodes: Sequence[str]) -> Iterator[capacity.OnNode] | None:
    """What becomes of one pod for each of these nodes, one after the other. None where this cannot tell."""
    if not_predicted(pod, snapshot):
        return None
    return capacity.on_each_node(framework_of(snapshot, pod), pod, nodes)


def _asked_of_extenders(extenders: Sequence[Extender], found: _Decision) -> str:
    """What an extender may decide of an outcome, as a reason not to predict it; empty where it is not asked."""
    for extender in extenders:
        if found.feasible and extender.filter_verb:
            return f"{named(extender)} may reject the nodes that the plugins leave, and cannot be asked"
        if found.nominated is not None and extender.preempt_verb:
            return f"{named(extender)} may choose other victims, and cannot be asked"
    return ""


def not_predicted(pod: Pod, snapshot: Snapshot) -> str:
    """Why no honest prediction can be made for a pod, empty if one can."""
    semantics = snapshot.semantics
    if semantics.unknown:
        return semantics.unknown
    spec = pod.spec
    profile = configuration_of(semantics).profile(spec.scheduler_name)
    if profile is None:
        return f'the pod is for another scheduler, "{spec.scheduler_name or DEFAULT_SCHEDULER}"'
    if pod.node_name:
        return f'the pod names its node, "{pod.node_name}": the scheduler does not see it'
    if spec.gated:
        return "the pod has scheduling gates: it is not scheduled until they are removed"
    return not_modelled(pod, snapshot.objects, snapshot.extended_resources, snapshot.device_selectors)


def prepare(snapshot: Snapshot) -> None:
    """Do now what the first prediction would wait for. Raises CutShort: the next time goes on from there."""
    with snapshot.derived.taken():
        kinds = pod_matrix_of(snapshot).kinds
        kinds.priority.values()
        for resource in BASE_RESOURCES:
            kinds.amounts(resource)


def schedule_in_turn(snapshot: Snapshot, pods: Iterable[Pod]) -> Iterator[Prediction]:
    """Predictions for pods that come one after the other: each sees what the cycles before it left."""
    for pod in pods:
        prediction = Prediction(snapshot, pod)
        yield prediction
        snapshot = prediction.snapshot_after()
