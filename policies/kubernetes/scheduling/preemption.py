"""The dry run of preemption: eligibility, candidates, their victims, and the best candidate.

Source: kubernetes `pkg/scheduler/framework/preemption/preemption.go` and `plugins/defaultpreemption`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

import numpy as np

from forewarn.policies.base.metering import charging, meter
from forewarn.policies.kubernetes.objects.pod import NOW, Pod
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.scheduling.framework import FILTERS, Code, failed, unresolvable
from forewarn.policies.kubernetes.scheduling.reasons import NO_VICTIMS_IN_SHORT, NOT_HELPFUL, Reason

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.kubernetes.releases.semantics import Semantics
    from forewarn.policies.kubernetes.scheduling.framework import (
        CycleState,
        Framework,
        NodeToStatus,
        PluginHandle,
        Status,
    )
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask, NodeInfo, Rows
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


class MissingNode(Exception):
    """The error if a Pod of a victim is on a node that no longer exists. Source: upstream `newDomainVictim`."""

    def __init__(self, node: str) -> None:
        message = f'nodeinfo not found for node name "{node}"'
        super().__init__(f'failed to get node info for node "{node}" from snapshot: {message}')


class Victim(NamedTuple):
    """Pods that preemption evicts together.

    `priority`: the priority of the Pod or of its PodGroup. `is_group`: the Pods belong to a PodGroup.
    """

    pods: tuple[Pod, ...]
    priority: int
    is_group: bool = False


_Number = TypeVar("_Number", int, "Ints")


def importance(
    priority: _Number, start: _Number, place: _Number, group: int = 0, *, now: int = NOW, in_order: bool = True
) -> tuple[_Number | int, ...]:
    """Return the sort keys of one potential victim, or as arrays of many Pods, the most important first.

    `place`: position on the node. `group`: number of Pods of a PodGroup, otherwise 0. `now`: the start of Pods that
    have not started: upstream uses the current time. Releases that read the time for each comparison reverse the order
    of these Pods; with `in_order`, the time is read once. Source: upstream `MoreImportantVictim`, `MoreImportantPod`.
    """
    return -priority, -group, start, place if in_order else place * (1 - 2 * (start == now))


def rank_of(pod: Pod) -> tuple[int, ...]:
    """Return a value that is equal for Pods of equal importance."""
    return importance(pod.effective_priority, pod.start, 0)


def pod_priority(pod: Pod, snapshot: Snapshot) -> int:
    """Return the priority by which preemption compares a Pod: the priority of its PodGroup, if preemption treats
    PodGroups as units.

    Source: upstream `GetPodPriority`.
    """
    if pod.spec.pod_group and snapshot.preempts_by_group:
        group = snapshot.objects.pod_groups.get((pod.namespace, pod.spec.pod_group))
        if group is not None:
            return group.priority
    return pod.effective_priority


def victims_on(node_infos: Iterable[NodeInfo], snapshot: Snapshot) -> list[Victim]:
    """Return all possible victims on these nodes, with their Pods on other nodes. Raises MissingNode.

    Source: upstream `getCrossNodesVictims`.
    """
    if not snapshot.preempts_by_group:
        return [Victim((pod,), pod.effective_priority) for info in node_infos for pod in info.pods]
    groups, victims = snapshot.objects.pod_groups, list[Victim]()
    keys = set[tuple[str, str]]()
    for info in node_infos:
        for pod in info.pods:
            key = pod.namespace, pod.spec.pod_group
            group = groups.get(key) if key[1] else None
            if group is None or not group.preempted_together:
                victims.append(Victim((pod,), pod_priority(pod, snapshot), bool(key[1])))
            elif key not in keys:
                keys.add(key)
                pods = snapshot.pods_of_groups[key]
                missing = next((item.node_name for item in pods if item.node_name not in snapshot.rows), "")
                if missing:
                    raise MissingNode(missing)
                victims.append(Victim(pods, group.priority, is_group=True))
    return victims


def victims_below(priority: int, node_infos: Iterable[NodeInfo], snapshot: Snapshot) -> list[Victim]:
    """Return the victims on these nodes with a priority below `priority`, including terminating ones. Raises
    MissingNode.

    Source: upstream `isPreemptionAllowed`.
    """
    return [victim for victim in victims_on(node_infos, snapshot) if victim.priority < priority]


def may_be_preempted(pod: Pod, priority: int, snapshot: Snapshot) -> bool:
    """Report whether a preemptor with this priority may preempt a Pod. Source: upstream `isPreemptionAllowed`."""
    return pod_priority(pod, snapshot) < priority


def terminating_victims(priority: int, node_info: NodeInfo, snapshot: Snapshot) -> list[Pod]:
    """Return the Pods with a priority below `priority` on this node that are terminating because of a preemption.

    Source: upstream `PodEligibleToPreemptOthers`, `isOngoingPreemption`.
    """
    return [
        pod for pod in node_info.pods if pod.terminating and pod.preempted and may_be_preempted(pod, priority, snapshot)
    ]


def victims_by_importance(victims: Sequence[Victim], semantics: Semantics) -> list[Victim]:
    """Return the victims sorted, the most important first."""
    in_order = semantics.unstarted_victims_in_order
    keys = [
        importance(
            victim.priority,
            min([pod.start for pod in victim.pods]),
            place,
            len(victim.pods) if victim.is_group else 0,
            in_order=in_order,
        )
        for place, victim in enumerate(victims)
    ]
    return [victims[place] for place in sorted(range(len(keys)), key=keys.__getitem__)]


def sort_by_importance(pods: Sequence[Pod], semantics: Semantics) -> list[Pod]:
    """Return Pods without PodGroups sorted, the most important first."""
    in_order = semantics.unstarted_victims_in_order
    keys = [importance(pod.effective_priority, pod.start, place, in_order=in_order) for place, pod in enumerate(pods)]
    return [pods[place] for place in sorted(range(len(keys)), key=keys.__getitem__)]


def matching(pod: Pod, pdbs: Sequence[PodDisruptionBudget]) -> Iterator[PodDisruptionBudget]:
    """Yield the PDBs that select the Pod. `pdbs`: those of the Pod's namespace."""
    return (pdb for pdb in charging(pdbs, 1.5) if pdb.matches(pod.namespace, pod.labels))


def filter_victims_with_pdb_violation(
    victims: Iterable[Victim],
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]],
    *,
    first_ends_the_count: bool = False,
) -> tuple[list[tuple[Victim, int]], list[Victim]]:
    """Return ((victim, number of its Pods whose eviction violates a PDB) for violating victims, other victims), in the
    given order.

    `pdbs`: namespace -> PDBs. `first_ends_the_count`: PDBs after the first violated one are not reduced. Source:
    upstream `FilterVictimsWithPDBViolation`.
    """
    victims = list(victims)
    pods = (pod for victim in victims for pod in victim.pods)
    matched = ((pod, matching(pod, pdbs.get(pod.namespace, ()))) for pod in pods)
    numbers = violations(matched, first_ends_the_count=first_ends_the_count)
    counts = [sum(bool(violated) for _, violated in islice(numbers, len(victim.pods))) for victim in victims]
    violating = [(victim, count) for victim, count in zip(victims, counts, strict=True) if count]
    return violating, [victim for victim, count in zip(victims, counts, strict=True) if not count]


def violations(
    pods: Iterable[tuple[Pod, Iterable[PodDisruptionBudget]]], *, first_ends_the_count: bool = False
) -> Iterator[tuple[Pod, Sequence[PodDisruptionBudget]]]:
    """Yield (Pod, the PDBs that the eviction of the Pod violates after the evictions of the Pods before).

    `pods`: each Pod with the PDBs that select it. Every Pod reduces the allowed disruptions of all its PDBs, even if
    the Pod is reprieved later or is terminating. A Pod in `status.disruptedPods` does not: the API server has already
    accepted its eviction. `first_ends_the_count`: PDBs after the first violated one are not reduced. Upstream has no
    order of PDBs, so its result may vary for a Pod with several PDBs. Here PDBs are sorted by name.
    """
    allowed: dict[tuple[str, str], int] = {}
    for pod, pdbs in pods:
        violated: Sequence[PodDisruptionBudget] = ()
        for pdb in pdbs:
            if pod.name not in pdb.disrupted_pods:
                key = pdb.namespace, pdb.name
                left = allowed[key] = allowed.get(key, pdb.disruptions_allowed) - 1
                if left < 0:
                    violated = (*violated, pdb)
                if violated and first_ends_the_count:
                    break
        yield pod, violated


def violated_by(victims: Sequence[Victim], snapshot: Snapshot) -> dict[str, Sequence[PodDisruptionBudget]]:
    """Return Pod identity -> the PDBs that the eviction of the Pod violates, only for Pods that violate any.

    `victims`: all that kube-scheduler considered; also those that it reprieved use up disruptions.
    """
    pods = [pod for victim in victims_by_importance(victims, snapshot.semantics) for pod in victim.pods]
    matched = ((pod, matching(pod, snapshot.pdbs.get(pod.namespace, ()))) for pod in pods)
    numbers = violations(matched, first_ends_the_count=snapshot.semantics.pdb_count_ends_at_first_violation)
    return {pod.identity: violated for pod, violated in numbers if violated}


def violated_pdbs(evicted: Sequence[Pod], victims: Sequence[Victim], snapshot: Snapshot) -> list[str]:
    """Return the PDBs (`namespace/name`) that the eviction of these Pods violates. At least one Pod must violate one.

    `victims`: see `violated_by`.
    """
    violated = violated_by(victims, snapshot)
    found = [pdb for pod in evicted for pdb in violated.get(pod.identity, ())]
    selecting = found or [pdb for pod in evicted for pdb in matching(pod, snapshot.pdbs.get(pod.namespace, ()))]
    return sorted({f"{pdb.namespace}/{pdb.name}" for pdb in selecting})


NEVER: Final = Reason("not eligible due to preemptionPolicy=Never.", "preemptionPolicy is Never")
TERMINATING: Final = Reason(
    "not eligible due to a terminating pod on the nominated node.", "a Pod on the nominated node terminates"
)
NO_VICTIMS: Final = unresolvable(Reason("No preemption victims found for incoming pod", NO_VICTIMS_IN_SHORT))
_LOWEST: Final = -(2**62)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which preemption helps. `victims`: most important first."""

    node_name: str
    victims: tuple[Pod, ...]
    num_pdb_violations: int = 0


Fewest = int | Literal["unknown"] | None


class Decision(NamedTuple):
    """kube-scheduler's decision about a Pod: the nodes on which it fits, or the result of preemption without any.

    `feasible`: their names. `best_nodes`: nodes that may be nominated. `candidate`: the victims on the first of them.
    `is_sampled`: kube-scheduler evaluates only a part of the nodes for preemption. `by_chance`: the victims depend on
    that or on a tie; None: not evaluated. `certain`: the victims that do not; None: not evaluated. `fewest`,
    `takes_ties_in_turn`: see `Prediction`. `error`: the error of PreScore or Score that ends the cycle, or "". `fault`:
    why forewarn does not predict the decision, or "". `is_final`: `error` and `fault` are evaluated. `may_miss_best`:
    the evaluated part of the nodes may contain none of `best_nodes`. Of a simulation: `bound`: the Pod's node at the
    end, "" for none, and `in_vain`: the victims whose preemption helps no Pod.
    """

    feasible: Sequence[str] = ()
    best_nodes: Sequence[str] = ()
    candidate: Candidate | None = None
    is_sampled: bool = False
    by_chance: bool | None = None
    certain: Sequence[Pod] | None = None
    fewest: Fewest = None
    takes_ties_in_turn: bool = False
    error: str = ""
    fault: str = ""
    is_final: bool = False
    may_miss_best: bool = False
    bound: str | None = None
    in_vain: Sequence[Pod] = ()


@dataclass(frozen=True, slots=True)
class Preemption:
    """The result of preemption for one Pod.

    `statuses`: node -> why preemption does not help on the node. `best_candidates`: the candidates that tie for the
    lowest cost, by name; kube-scheduler may nominate any of these nodes. `potential_nodes`: number of nodes on which
    preemption was tried.
    """

    eligible: bool = True
    ineligible_reason: str = ""
    candidates: Sequence[Candidate] = ()
    statuses: Mapping[str, Status] = field(default_factory=dict)
    best_candidates: tuple[Candidate, ...] = ()
    potential_nodes: int = 0
    num_candidates: int = 0
    """Number of candidates after which the search stops."""

    @property
    def may_stop_early(self) -> bool:
        """Whether kube-scheduler may try only a random part of the potential nodes."""
        return self.potential_nodes > self.num_candidates

    @property
    def is_sampled(self) -> bool:
        """Whether kube-scheduler evaluates only a part of the nodes for preemption."""
        return len(self.candidates) > self.num_candidates > 0

    @property
    def may_miss_best(self) -> bool:
        """Whether the evaluated part of the nodes may contain none of the best candidates."""
        return self.is_sampled and len(self.candidates) - len(self.best_candidates) >= self.num_candidates

    @property
    def decision(self) -> Decision:
        """The decision about a Pod that fits on no node, with the victims on the first of the best nodes."""
        names, candidate = [best.node_name for best in self.best_candidates], next(iter(self.best_candidates), None)
        return Decision((), names, candidate, self.is_sampled, may_miss_best=self.may_miss_best)

    def reasons(self, nodes: int) -> Counter[str]:
        """Return reason -> number of nodes on which preemption does not help for this reason."""
        statuses = Counter(reason for status in self.statuses.values() for reason in status.reasons)
        statuses[NOT_HELPFUL] += nodes - len(self.statuses)
        return +statuses


def pod_eligible_to_preempt_others(pod: Pod, snapshot: Snapshot, is_unresolvable: Callable[[str], bool]) -> str:
    """Return why the Pod may not preempt; "" if the Pod may. Source: upstream `PodEligibleToPreemptOthers`.

    `is_unresolvable`: reports whether preemption cannot help on the node with this name.
    """
    if pod.preemption_policy == PREEMPT_NEVER:
        return NEVER
    name = pod.nominated_node_name
    node_info = snapshot.get(name)
    if node_info is None or not terminating_victims(pod.effective_priority, node_info, snapshot):
        return ""
    return "" if is_unresolvable(name) else TERMINATING


def preempt(handle: PluginHandle, state: CycleState, pod: Pod, statuses: NodeToStatus) -> Preemption:
    """Run a dry run of preemption on every node where the Pod may fit if other Pods are removed.

    Upstream evaluates a random part of more than 100 nodes; this function evaluates all. Source: upstream `Preempt`,
    `DryRunPreemption`.
    """
    if state.in_columns is not None:
        preemption: Preemption = state.in_columns.preempt()
        return preemption
    snapshot = handle.snapshot
    looked_at: Sequence[NodeInfo] = snapshot.node_infos
    if statuses.absent.code is not Code.UNSCHEDULABLE:
        looked_at = [snapshot.node_infos[snapshot.rows[name]] for name in statuses.by_node]
    potential = [node for node in looked_at if statuses.get(node.name).code is Code.UNSCHEDULABLE]
    candidates: list[Candidate] = []
    dropped: dict[str, Status] = {}
    work = meter()
    for node_info in potential:
        work.charge(FILTERS)
        victims = select_victims_on_node(handle, state, pod, node_info)
        if isinstance(victims, Candidate):
            candidates.append(victims)
        else:
            dropped[node_info.name] = victims
    return Preemption(
        candidates=tuple(candidates),
        statuses=dropped,
        best_candidates=pick_nodes_for_preemption(candidates),
        potential_nodes=len(potential),
    )


class Assignment(NamedTuple):
    """A Pod of the preemptor (a Pod or PodGroup) and the Pod's proposed node (upstream `ProposedAssignment`).

    `state`: the state of the plugins after PreFilter, without the potential victims.
    """

    pod: Pod
    node_name: str
    state: CycleState
    framework: Framework


class Domain:
    """The nodes on which the Pods of a preemptor (a Pod or PodGroup) must fit. Source: upstream `domain`.

    `nodes`: copies, which this object changes. Victims' Pods on other nodes affect only the states of the plugins.
    """

    def __init__(self, snapshot: Snapshot, nodes: Mapping[str, NodeInfo], assignments: Sequence[Assignment]) -> None:
        self._snapshot, self._nodes, self._assignments = snapshot, nodes, assignments
        self._is_local = all(
            plugin.name in assignment.state.skip_filter
            for assignment in assignments
            for plugin in assignment.framework.extensions
        )
        """True if each Pod depends only on the Pods of its own node."""
        self._here = {assignment.node_name for assignment in assignments}

    def change(self, victim: Victim, sign: int) -> None:
        """Add (`sign` 1) or remove (-1) the Pods of the victim on the nodes and in the states of the plugins."""
        for pod in victim.pods:
            info = self._nodes.get(pod.node_name)
            if info is not None:
                (info.add_pod if sign > 0 else info.remove_pod)(pod)
            for assignment in () if self._is_local else self._assignments:
                node_info = info or self._snapshot.node_infos[self._snapshot.rows[pod.node_name]]
                assignment.framework.run_extensions(assignment.state, assignment.pod, pod, node_info, sign)

    def rejection(self, nodes: AbstractSet[str] | None = None) -> Status | None:
        """Return why one of the preemptor's Pods does not fit on its node; None if all fit.

        `nodes`: check only Pods on these nodes; None: all.
        """
        added: list[tuple[NodeInfo, Pod]] = []
        status = None
        for number, (pod, name, state, framework) in enumerate(self._assignments, 1):
            if nodes is not None and name not in nodes:
                continue
            info = self._nodes[name]
            status = framework.run_filter_plugins_with_nominated_pods(state, pod, info)
            if status is not None:
                break
            if number < len(self._assignments):
                info.add_pod(pod)
                added.append((info, pod))
        for info, pod in reversed(added):
            info.remove_pod(pod)
        return status

    def reprieve(self, victims: Sequence[Victim]) -> tuple[list[Victim], int]:
        """Return (the victims that must be evicted, the number of PDB violations). Source: `SelectVictimsOnNode`.

        Remove all victims first. They are added again, one by one, as long as all Pods of the preemptor
        still fit: first victims that violate a PDB, the most important first.
        """
        work, semantics = meter(), self._snapshot.semantics
        violating, others = filter_victims_with_pdb_violation(
            victims_by_importance(victims, semantics),
            self._snapshot.pdbs,
            first_ends_the_count=semantics.pdb_count_ends_at_first_violation,
        )
        evicted: list[Victim] = []

        def fits_with(victim: Victim) -> bool:
            work.charge(FILTERS)
            self.change(victim, 1)
            here = None
            if self._is_local:
                here = self._here.intersection(pod.node_name for pod in victim.pods)
            if (here is not None and not here) or self.rejection(here) is None:
                return True
            self.change(victim, -1)
            evicted.append(victim)
            return False

        num_violating = sum(count for victim, count in violating if not fits_with(victim))
        for victim in others:
            fits_with(victim)
        return victims_by_importance(evicted, semantics) if violating and others else evicted, num_violating


def select_victims_on_node(
    handle: PluginHandle, state: CycleState, pod: Pod, node_info: NodeInfo
) -> Candidate | Status:
    """Return the candidate on this node with its victims; a Status if preemption does not help on the node.

    First, all Pods of lower priority are removed. Then each is reprieved if the new Pod still fits: first the Pods of
    violated PDBs, the most important first. Source: `SelectVictimsOnNode`.
    """
    snapshot = handle.snapshot
    try:
        lower = victims_below(pod.effective_priority, (node_info,), snapshot)
    except MissingNode as fault:
        return failed(str(fault))
    if not lower:
        return NO_VICTIMS
    meter().charge(10 + 3 * len(lower))
    name = node_info.name
    domain = Domain(snapshot, {name: node_info.clone()}, [Assignment(pod, name, state.clone(), handle.framework)])
    for victim in lower:
        domain.change(victim, -1)
    status = domain.rejection()
    if status is not None:
        return status
    victims, num_violating = domain.reprieve(lower)
    if not victims:
        return failed(f'expected at least one victim pod on node "{name}"')
    return Candidate(name, tuple(evicted for victim in victims for evicted in victim.pods), num_violating)


def pick_nodes_for_preemption(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates that tie for the lowest cost, sorted by node name; upstream selects any of them.

    Source: upstream `pickOneNodeForPreemption`.
    """
    if not candidates:
        return ()
    best = least(costs_of_candidates(candidates), np.arange(len(candidates)))
    return tuple(sorted((candidates[place] for place in best.tolist()), key=lambda c: c.node_name))


def costs_of_candidates(candidates: Sequence[Candidate]) -> Ints:
    """Return [criterion, candidate]: the preemption cost of each candidate; see `costs_of`."""
    known: Ints | None = getattr(candidates, "costs", None)
    if known is not None:
        return known
    counts = np.array([len(candidate.victims) for candidate in candidates])
    shape = int(counts.max(initial=0)), len(candidates)
    priorities, starts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for column, candidate in enumerate(candidates):
        for rank, victim in enumerate(candidate.victims):
            priorities[rank, column], starts[rank, column] = victim.effective_priority, victim.start
    violations = np.array([candidate.num_pdb_violations for candidate in candidates])
    return costs_of(np.arange(len(priorities))[:, None] < counts, violations, priorities, starts, priorities[0])


VIOLATIONS, HIGHEST, TOTAL, VICTIMS, OLDEST = CRITERIA = range(5)
"""The criteria of `costs_of` in order."""


def costs_of(victims: Mask, violations: Ints, priorities: Ints, starts: Ints, first: Ints | None = None) -> Ints:
    """Return [criterion, node]: the preemption cost of each node, smaller is better.

    The criteria: PDB violations, the priority `first` of the most important victim, the sum of priorities, the number
    of victims, and the negative start time of the oldest victim of the highest priority. `violations`, `first`: [node].
    `victims`, `priorities`, `starts`: [rank, node]; only entries where `victims` is true count. `first` None: the
    highest priority. With PodGroups, the priorities of the Pods count, and the most important victim may not have the
    highest priority. Source: upstream `pickOneNodeForPreemption`.
    """
    highest = priorities.max(axis=0, where=victims, initial=_LOWEST)
    costs = {
        VIOLATIONS: violations,
        HIGHEST: highest if first is None else first,
        TOTAL: ((priorities + 2**31) * victims).sum(axis=0),  # as upstream counts it
        VICTIMS: victims.sum(axis=0),
        OLDEST: -np.where(victims & (priorities == highest), starts, NOW + 1).min(axis=0),
    }
    return np.array([costs[criterion] for criterion in CRITERIA], np.int64)


def least(costs: Ints, places: Rows) -> Rows:
    """Return those of `places` (columns of `costs`) with the lowest cost.

    `costs`: [criterion, place], see `costs_of`.
    """
    for criterion in costs:
        cost = criterion[places]
        places = places[cost == cost.min()]
        if len(places) == 1:
            break
    return places
