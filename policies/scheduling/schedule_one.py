"""One scheduling cycle for one pod. Source: kubernetes `pkg/scheduler/schedule_one.go`."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.metering import charge, meter
from policies.scheduling.cache import DEFAULT_SCHEDULER
from policies.scheduling.columns import BASE_RESOURCES
from policies.scheduling.fast.answer import FastAnswer, fast_answer
from policies.scheduling.fast.tables import tables_of
from policies.scheduling.framework import FILTERS, Code, CycleState, Handle, NodeToStatus, Status, unresolvable
from policies.scheduling.odds import odds
from policies.scheduling.plugins.node_affinity import named_nodes
from policies.scheduling.plugins.registry import DEFAULT_PROFILE
from policies.scheduling.preemption import (
    Candidate,
    Preemption,
    importance,
    pod_eligible_to_preempt_others,
    potential_victims,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.objects.pod import Pod
    from policies.scheduling.node_info import NodeInfo
    from policies.scheduling.snapshot import Snapshot

SAMPLED_ABOVE: Final = 100
"""Up to so many nodes the scheduler looks at all of them; above, at a part. Source: minFeasibleNodesToFind and
minCandidateNodesAbsolute."""


class Prediction:
    """What kube-scheduler would do with a pod. Everything is worked out when it is first asked for, then kept.

    Scores are not needed to know who would have to go: they are worked out only for who asks where a pod would run.
    """

    def __init__(self, snapshot: Snapshot, pod: Pod, known: FastAnswer | None = None) -> None:
        """`known`: the outcome, if it has been worked out."""
        self.pod = pod
        self.snapshot = snapshot
        self._state = CycleState()
        self._known = known

    @cached_property
    def _handle(self) -> Handle:
        return Handle(self.snapshot, DEFAULT_PROFILE)

    @cached_property
    def not_predicted(self) -> str:
        """Why no honest prediction can be made, empty if one can; then there are no nodes, victims or statuses."""
        return not_predicted(self.pod)

    @cached_property
    def _filtered(self) -> _Filtered:
        if self.not_predicted:
            return _Filtered((), NodeToStatus())
        return find_nodes_that_fit_pod(self._handle, self._state, self.pod)

    @cached_property
    def _fast(self) -> FastAnswer | None:
        """The outcome without its reasons, where a fast path is valid and the slow one was not gone already."""
        if self.not_predicted or "_filtered" in self.__dict__:
            return None
        return self._known or fast_answer(self.snapshot, self.pod)

    @property
    def pre_filter(self) -> Status | None:
        """Why the pod was rejected before any node was looked at; None if it was not."""
        return self._filtered.rejected

    @property
    def feasible(self) -> list[str]:
        """The nodes that can run it now, by name."""
        if self._fast is not None:
            return self._fast.feasible
        return [info.name for info in self._filtered.nodes]

    @property
    def evaluated_nodes(self) -> int:
        """How many nodes the filters look at: those that PreFilter leaves."""
        if self._fast is not None:
            names = named_nodes(self.pod.spec.node_affinity.required)
            return len(self.snapshot.rows) if names is None else sum(name in self.snapshot.rows for name in names)
        return len(self._filtered.nodes) + len(self._filtered.statuses.by_node)

    @property
    def fits(self) -> bool:
        """Whether it would be bound without preemption."""
        return bool(self.feasible)

    @property
    def statuses(self) -> Mapping[str, Status]:
        """Why each other node cannot; empty when PreFilter rejected the pod."""
        filtered = self._filtered
        if filtered.rejected is not None or self.not_predicted:
            return {}
        feasible = set(self.feasible)
        charge(len(self.snapshot.node_infos) // 2)
        return {i.name: filtered.statuses.get(i.name) for i in self.snapshot.node_infos if i.name not in feasible}

    def status_of(self, node: str) -> list[tuple[str, Status]]:
        """The entry of one node in `statuses`, if it is there; the others are not looked at."""
        filtered = self._filtered
        if filtered.rejected is not None or self.not_predicted or node not in self.snapshot.rows:
            return []
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

    @cached_property
    def scores(self) -> Mapping[str, Mapping[str, int]]:
        """Weighted score by node and plugin, and `total`; empty unless several nodes are feasible."""
        nodes = self._filtered.nodes
        if len(nodes) < 2:
            return {}
        framework = self._handle.framework
        if framework.run_pre_score_plugins(self._state, self.pod, nodes) is not None:
            return {}
        return framework.run_score_plugins(self._state, self.pod, nodes)

    @cached_property
    def preemption(self) -> Preemption:
        """What preemption comes to; nothing when the pod fits, or the cycle ends in an error."""
        filtered = self._filtered
        if self.not_predicted or filtered.error:
            return Preemption()
        if filtered.nodes:
            reason = pod_eligible_to_preempt_others(self.pod, filtered.statuses, self.snapshot)
            return Preemption(eligible=not reason, ineligible_reason=reason)
        result: Preemption = self._handle.framework.run_post_filter_plugins(self._state, self.pod, filtered.statuses)
        return result

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The nodes where preemption would help, and whom it would cost."""
        return self.preemption.candidates

    @cached_property
    def selected(self) -> list[str]:
        """The nodes that may be chosen, by name: those of the best score, else those the tie-breaks leave."""
        if not self.fits:
            if self._fast is not None:
                return self._fast.selected
            return [candidate.node_name for candidate in self.preemption.selected]
        scores = self.scores
        if not scores:
            return self.feasible
        best = max(row["total"] for row in scores.values())
        return sorted(name for name, row in scores.items() if row["total"] == best)

    @cached_property
    def _nominated(self) -> Candidate | None:
        if self._fast is not None:
            return self._fast.candidate
        return next(iter(self.preemption.selected), None) if not self.fits else None

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
    def odds(self) -> Mapping[str, float]:
        """Node name -> probability that preemption nominates it; 1 in all for the best ones up to 100 nodes."""
        return odds(self.candidates, self.preemption.potential_nodes)

    @property
    def sampled(self) -> bool:
        """Whether the scheduler looks at a random part of the nodes that preemption may help on."""
        return self.preemption.potential_nodes > SAMPLED_ABOVE

    @property
    def node(self) -> str:
        """Where it would run: a feasible node (its nomination comes first), else the nominated one; may be empty."""
        if not self.fits:
            return self.nominated_node
        own = self.pod.nominated_node_name
        return own if own in self.feasible else self.selected[0]

    def afterwards(self) -> Snapshot:
        """The cluster as the next pod's cycle finds it: the pod in its place, or nominated to where its victims end.

        Which of many nodes is the best is a long question: ask it only where something comes after.
        """
        node = self.node
        if not node:
            return self.snapshot
        if not self.fits:
            return self.snapshot.with_preemptions([(self.pod, node, self.victims)])
        return self.snapshot.with_pods([self.snapshot.bound(self.pod, node)], ())

    def in_the_end(self) -> Snapshot:
        """The cluster with the pod in its place and its victims gone."""
        node = self.node
        return self.snapshot.with_pods([self.snapshot.bound(self.pod, node)], self.victims) if node else self.snapshot

    def settled(self, snapshot: Snapshot, with_ties: bool) -> Prediction:
        """What it comes to and no more: who keeps many does not keep the state of the cluster that each was made for.

        `snapshot`: the one to name instead; `with_ties`: keep all nodes that may be nominated, not only the first.
        """
        feasible = self.feasible if with_ties else self.feasible[:1]
        selected = [] if self.fits else self.selected if with_ties else self.selected[:1]
        return Prediction(snapshot, self.pod, FastAnswer(feasible, selected, self._nominated))

    @cached_property
    def outcome(self) -> str:
        """`fits`, `preempts`, `pending` or `not-predicted`."""
        if self.not_predicted:
            return "not-predicted"
        return "fits" if self.fits else "preempts" if self._nominated else "pending"

    @cached_property
    def standing(self) -> tuple[str, ...]:
        """What the prediction rests on, or cannot know."""
        if self.not_predicted:
            return (f"no prediction: {self.not_predicted}",)
        return tuple(_of_placement(self) if self.fits else _of_preemption(self, self.snapshot))

    def to_dict(self) -> dict[str, Any]:
        """The answer for programs: the keys of the batch format. Works out everything."""
        answer: dict[str, Any] = {"outcome": self.outcome}
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
        answer["selected"] = self.selected
        answer["nominatedNode"] = self.nominated_node
        if self.sampled and self.odds:
            answer["odds"] = dict(self.odds)
        answer["standing"] = list(self.standing)
        return answer


def not_predicted(pod: Pod) -> str:
    """Why no honest prediction can be made for a pod, empty if one can."""
    spec = pod.spec
    if spec.scheduler_name not in ("", DEFAULT_SCHEDULER):
        return f'the pod is for another scheduler, "{spec.scheduler_name}"'
    if pod.node_name:
        return f'the pod names its node, "{pod.node_name}": the scheduler does not see it'
    if spec.gated:
        return "the pod has scheduling gates: it is not scheduled until they are removed"
    if spec.claims_devices:
        return "the pod claims devices (DRA), which are not modelled"
    return ""


class Rejection(NamedTuple):
    """Which plugins rejected a pod, each node's status (PreFilter's alone where it rejected it), and the error that
    ended the cycle, empty where none did. Source: kube-scheduler `Diagnosis`."""

    plugins: tuple[str, ...] = ()
    statuses: tuple[Status, ...] = ()
    error: str = ""


class _Filtered:
    """What the filters leave: nodes that pass, why the others do not, and why none was looked at (`rejected`).

    `restricting`: the plugins whose PreFilter left some nodes only.
    """

    def __init__(
        self,
        nodes: Sequence[NodeInfo],
        statuses: NodeToStatus,
        rejected: Status | None = None,
        restricting: Sequence[str] = (),
    ) -> None:
        self.nodes, self.statuses, self.rejected, self.restricting = nodes, statuses, rejected, restricting

    @property
    def error(self) -> bool:
        """Whether upstream would end the cycle with an error."""
        rejected = self.rejected is not None and self.rejected.code is Code.ERROR
        return rejected or any(status.code is Code.ERROR for status in self.statuses.by_node.values())


def find_nodes_that_fit_pod(handle: Handle, state: CycleState, pod: Pod) -> _Filtered:
    """PreFilter, then Filter on every node it leaves. Source: upstream `findNodesThatFitPod`, with every node."""
    framework, node_infos = handle.framework, handle.snapshot.node_infos
    result, plugins = framework.run_pre_filter_plugins(state, pod)
    if result.status is not None:
        return _Filtered((), NodeToStatus(result.status), result.status, plugins)
    statuses = NodeToStatus()
    if result.names is not None:
        statuses.absent = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]")
        rows, names = handle.snapshot.rows, result.names
        node_infos = [node_infos[row] for row in sorted(rows[name] for name in names if name in rows)]
    feasible, work = [], meter()
    for node_info in node_infos:
        work.charge(FILTERS)
        status = framework.run_filter_plugins_with_nominated_pods(state, pod, node_info)
        if status is None:
            feasible.append(node_info)
        else:
            statuses.by_node[node_info.name] = status
    if any(status.code is Code.ERROR for status in statuses.by_node.values()):
        feasible = []
    return _Filtered(feasible, statuses, restricting=plugins)


def _of_placement(prediction: Prediction) -> list[str]:
    standing = []
    feasible, own = prediction.feasible, prediction.pod.nominated_node_name
    if own in feasible:
        standing.append(f"the pod is nominated to {own}, which passes: the scheduler tries that node first")
    if len(feasible) > SAMPLED_ABOVE:
        standing.append(f"{len(feasible)} nodes are feasible: the scheduler scores only a part of them")
    if len(prediction.selected) > 1:
        standing.append(f"{len(prediction.selected)} nodes tie for the best score: any of them may be chosen")
    return standing


def _of_preemption(prediction: Prediction, snapshot: Snapshot) -> list[str]:
    standing = []
    preemption = prediction.preemption
    if prediction.sampled and preemption.candidates:
        standing.append(
            f"preemption may help on {preemption.potential_nodes} nodes: the scheduler tries a random part of them"
        )
    if len(preemption.selected) > 1:
        standing.append(f"{len(preemption.selected)} nodes tie: any of them may be nominated")
    if any(_victims_tie(candidate, snapshot) for candidate in preemption.selected):
        standing.append("victims tie with other pods in priority and start time: which of them go may differ")
    if any(victim.start_time is None for candidate in preemption.selected for victim in candidate.victims):
        standing.append("a victim has no start time: it counts as started now")
    stale = {
        f"{budget.namespace}/{budget.name}"
        for candidate in preemption.selected
        for other in potential_victims(prediction.pod, snapshot.node_infos[snapshot.rows[candidate.node_name]])
        for budget in snapshot.budgets.get(other.namespace, ())
        if budget.stale and budget.matches(other.namespace, other.labels)
    }
    standing += [f"the status of the disruption budget {name} is older than its spec" for name in sorted(stale)]
    return standing


def _victims_tie(candidate: Candidate, snapshot: Snapshot) -> bool:
    """Whether another pod on the node might be in a victim's place."""
    node_info = snapshot.get(candidate.node_name)
    if node_info is None:
        return False
    victims = {victim.identity for victim in candidate.victims}
    ranks = {importance(victim) for victim in candidate.victims}
    return any(importance(pod) in ranks and pod.identity not in victims for pod in node_info.pods)


def prepare(snapshot: Snapshot) -> None:
    """Do now what the first prediction would wait for. Raises CutShort: the next time goes on from there."""
    with snapshot.shelf.taken():
        kinds = tables_of(snapshot).kinds
        kinds.priority.values()
        for resource in BASE_RESOURCES:
            kinds.amounts(resource)


def schedule_in_turn(snapshot: Snapshot, pods: Iterable[Pod]) -> Iterator[Prediction]:
    """Predictions for pods that come one after the other: each sees what the cycles before it left."""
    for pod in pods:
        prediction = Prediction(snapshot, pod)
        yield prediction
        snapshot = prediction.afterwards()
