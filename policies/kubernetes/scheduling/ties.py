"""Ties in preemption: whether the choice among equal nodes, or among equal Pods on a node, affects later Pods."""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.findings import grouped
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo, footprint
from forewarn.policies.kubernetes.scheduling.not_predicted import has_constraints, victims_tie
from forewarn.policies.kubernetes.scheduling.plugins.pod_topology_spread import DO_NOT_SCHEDULE
from forewarn.policies.kubernetes.scheduling.preemption import matching, may_be_preempted, pod_priority, rank_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.framework import Framework
    from forewarn.policies.kubernetes.scheduling.preemption import Candidate, Decision, Fewest
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

_MAX_COMPARED: Final = 10_000
"""Maximum number of Pods on nodes that are compared at once: about 30 ms of CPU time."""
_KEY: Final = 2
"""Units of work to compare a Pod."""


def fewest_victims(pod: Pod, decision: Decision, framework: Framework) -> Fewest:
    """Return the least number of Pods that a preemption deletes, if the choice among nodes and Pods affects what later
    Pods like `pod` preempt; None if the choice does not matter; "unknown" if there are too many choices to compare.

    The choice among nodes with equal Pods and equal free resources, in equal domains, affects nothing but names.
    """
    snapshot, candidate = framework.snapshot, decision.candidate
    if candidate is None or pod.spec.node_affinity.only_node:
        return None
    if decision.may_miss_best:
        return "unknown"
    tied = [snapshot.rows[name] for name in decision.best_nodes if name in snapshot.rows]
    try:
        if _are_alike(pod, tied, framework) and _Comparison(pod, snapshot).are_victims_alike(candidate):
            return None
    except _TooMuch:
        return "unknown"
    if decision.is_sampled:
        return "unknown"
    if any(other.terminating for row in tied for other in snapshot.node_infos[row].pods):
        return 0
    return len(candidate.victims)


def are_independent(pod: Pod, candidates: Sequence[Candidate], framework: Framework) -> bool:
    """Report whether preemption by Pods like `pod` on one of these nodes changes nothing on other nodes, and has the
    same effect whichever of several equal Pods it deletes.
    """
    snapshot = framework.snapshot
    comparison, priority = _Comparison(pod, snapshot), pod.effective_priority
    if _depends_on_more(pod, framework) or comparison.has_constraints or snapshot.may_preempt_groups(priority):
        return False
    infos = [snapshot.node_infos[snapshot.rows[candidate.node_name]] for candidate in candidates]
    nominated = (other for info in infos for other in snapshot.nominated_pods(info.name))
    if any(info.pods_with_required_anti_affinity for info in infos):
        return False
    if any(other.effective_priority < priority for other in nominated):
        return False  # the Pod would lose its nomination
    victims = (victim for candidate in candidates for victim in candidate.victims)
    if any(True for victim in victims for _ in matching(victim, snapshot.pdbs.get(victim.namespace, ()))):
        return False
    return all(map(comparison.are_victims_alike, candidates))


def fewest_of(numbers: Iterable[Fewest]) -> Fewest:
    """Return the least number of Pods that each of several preemptions by one Pod deletes."""
    known = [number for number in numbers if number is not None]
    return "unknown" if "unknown" in known else min((number for number in known if number != "unknown"), default=None)


def _are_alike(pod: Pod, tied: Sequence[int], framework: Framework) -> bool:
    """Report whether nodes are alike. `tied`: their row numbers. Raises _TooMuch."""
    if len(tied) < 2:
        return True
    if _depends_on_more(pod, framework):
        return False
    with framework.snapshot.derived.locked():
        return _Comparison(pod, framework.snapshot).are_alike(tied)


def _depends_on_more(pod: Pod, framework: Framework) -> bool:
    """Report whether the nodes that fit depend on more than what is compared."""
    spec = pod.spec
    is_default = not spec.topology_spread and has_constraints(spec, framework)
    has_keys = any(constraint.match_label_keys for constraint in spec.topology_spread)
    return spec.has_storage or bool(spec.host_ports) or spec.claims_devices or has_keys or is_default


class _States(NamedTuple):
    """The states of nodes, for all Snapshots whose other objects are equal.

    `inputs`, `tables`: what the states depend on besides nodes; equal, or the same objects. `by_row`: row number ->
    (serial of the NodeInfo, Pods nominated to the node, state).
    """

    inputs: tuple[Any, ...]
    tables: tuple[Any, ...]
    by_row: dict[int, tuple[int, Sequence[Pod], int]]

    def holds(self, inputs: tuple[Any, ...], tables: tuple[Any, ...]) -> bool:
        return self.inputs == inputs and all(map(is_, self.tables, tables))


class _Comparison:
    """Compares nodes and their Pods by what preemption by Pods like `pod` reads, without names."""

    def __init__(self, pod: Pod, snapshot: Snapshot) -> None:
        self._pod, self._snapshot = pod, snapshot
        affinity = pod.spec.pod_affinity
        self._terms = (*affinity.required_affinity, *affinity.required_anti_affinity)
        self._spread = [each for each in pod.spec.topology_spread if each.when_unsatisfiable == DO_NOT_SCHEDULE]
        self._keys = sorted({each.topology_key for each in self._terms} | {each.topology_key for each in self._spread})
        self.has_constraints = bool(self._keys)
        """Whether required constraints are about other Pods."""

    def are_alike(self, rows: Sequence[int]) -> bool:
        """Report whether Pods like `pod` preempt as many Pods, also on other nodes, after the choice of any node.

        Hold `snapshot.derived.locked()` meanwhile. Raises _TooMuch.
        """
        charge(len(rows) // 4)
        if any(self._snapshot.node_infos[row].pods_with_required_anti_affinity for row in rows):
            return False  # the effects on other Pods are not compared
        self._check_size(rows)
        states = self._shared().by_row
        first, *others = rows
        state = self._state_number(first, states)
        return all(self._state_number(row, states) == state for row in others) and all(
            self._are_domains_alike(key, rows, states) for key in self._keys
        )

    def _shared(self) -> _States:
        """Return the states from earlier comparisons that are valid for this one."""
        derived, objects, pdbs = self._snapshot.derived, self._snapshot.objects, self._snapshot.pdbs
        charge(sum(map(len, pdbs.values())) // 4)
        of_pdbs = [(pdb.namespace, pdb.name, pdb.selector, pdb.disrupted_pods) for own in pdbs.values() for pdb in own]
        inputs = self._pod.namespace, self._pod.effective_priority, self._pod.spec, of_pdbs
        tables = objects.namespaces, objects.pod_groups
        if derived.states is None or not derived.states.holds(inputs, tables):
            derived.states = _States(inputs, tables, {})
        states: _States = derived.states
        return states

    def _state_number(self, row: int, states: dict[int, tuple[int, Sequence[Pod], int]]) -> int:
        info = self._snapshot.node_infos[row]
        nominated, known = self._snapshot.objects.nominated.get(info.name, ()), states.get(row)
        if known is None or known[0] != info.serial or known[1] is not nominated:
            known = states[row] = info.serial, nominated, hash(self._state(info))
        return known[2]

    def _are_domains_alike(
        self, key: str, rows: Sequence[int], states: dict[int, tuple[int, Sequence[Pod], int]]
    ) -> bool:
        """Report whether the domains of these nodes contain equal nodes."""
        infos = self._snapshot.node_infos
        domains = {infos[row].node.labels.get(key, "") for row in rows}
        if len(domains) == 1:
            return True
        charge(len(infos) // 4)
        of_nodes = ((info.node.labels.get(key, ""), row) for row, info in enumerate(infos))
        by_domain = grouped((domain, row) for domain, row in of_nodes if domain in domains)
        every = [row for own in by_domain.values() for row in own]
        if any(infos[row].pods_with_required_anti_affinity for row in every):
            return False
        self._check_size(every)
        first, *others = (sorted(self._state_number(row, states) for row in own) for own in by_domain.values())
        return all(other == first for other in others)

    def _check_size(self, rows: Iterable[int]) -> None:
        """Raise _TooMuch for too many Pods on nodes. Nodes with known states count too: answers are repeatable."""
        if sum(len(self._snapshot.node_infos[row].pods) for row in rows) > _MAX_COMPARED:
            raise _TooMuch

    def are_victims_alike(self, candidate: Candidate) -> bool:
        """Report whether Pods on the node that tie with victims, but are not victims, are equal to them.

        Of Pods that tie, terminating ones are last, because an update moves a Pod to the end of the node's Pods.
        """
        if not victims_tie(candidate, self._snapshot):
            return True
        info, keys = self._snapshot.get(candidate.node_name), dict[tuple[int, ...], Any]()
        ranks = {rank_of(victim) for victim in candidate.victims}
        for other in info.pods if info else ():
            rank = rank_of(other)
            if not other.terminating and rank in ranks and keys.setdefault(rank, key := self._key(other)) != key:
                return False
        return True

    def _state(self, info: NodeInfo) -> str:
        charge(_KEY * len(info.pods))
        snapshot, node = self._snapshot, info.node
        lower = (pod for pod in info.pods if may_be_preempted(pod, self._pod.effective_priority, snapshot))
        amounts = info.milli_cpu, info.memory, info.ephemeral_storage, len(info.pods)
        scalars = sorted((name, amount) for name, amount in info.scalars.items() if amount)
        pods = (sorted(map(self._key, others)) for others in (lower, snapshot.nominated_pods(node.name)))
        matched = sorted(map(self._matched, info.pods)) if self._keys else ()
        included = [each.includes(node, self._pod.spec) for each in self._spread]
        return repr((node.allocatable, amounts, scalars, *pods, matched, included))

    def _key(self, pod: Pod) -> tuple[Any, ...]:
        """Return what preemption reads of a Pod on a node."""
        snapshot, pdbs = self._snapshot, self._snapshot.pdbs.get(pod.namespace, ())
        resource = footprint(pod, snapshot.semantics).resource
        budgets = [(pdb.namespace, pdb.name, pod.name in pdb.disrupted_pods) for pdb in matching(pod, pdbs)]
        amounts = resource.milli_cpu, resource.memory, resource.ephemeral_storage, sorted(resource.scalars.items())
        is_ending = pod.terminating, pod.preempted, pod.healthy
        group, matched = pod.spec.pod_group, self._matched(pod)
        return pod_priority(pod, snapshot), pod.start, *amounts, *is_ending, group, budgets, matched

    def _matched(self, pod: Pod) -> list[bool]:
        """Return which constraints of new Pods count a Pod."""
        own, labels = self._pod.namespace, self._snapshot.namespace_labels(pod.namespace)
        of_terms = [term.matches(own, pod.namespace, pod.labels, labels) for term in self._terms]
        return of_terms + [own == pod.namespace and each.matches(pod.labels) for each in self._spread]


class _TooMuch(Exception):
    """The error if there is too much to compare."""
