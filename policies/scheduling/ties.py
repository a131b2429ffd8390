"""Ties in preemption: whether the choice among equal nodes, or among equal Pods on a node, affects later Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.metering import charge
from forewarn.policies.scheduling.caveats import victims_tie
from forewarn.policies.scheduling.node_info import footprint
from forewarn.policies.scheduling.plugins.pod_topology_spread import DO_NOT_SCHEDULE
from forewarn.policies.scheduling.preemption import matching, may_be_preempted, pod_priority, rank_of
from forewarn.policies.scheduling.responsible import has_constraints

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.framework import Framework
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.preemption import Candidate, Decision
    from forewarn.policies.scheduling.snapshot import Snapshot

_MAX_COMPARED: Final = 2_000
"""Maximum number of Pods on nodes that are compared: some milliseconds."""
_KEY: Final = 2
"""Units of work to compare a Pod."""


def fewest_victims(pod: Pod, decision: Decision, framework: Framework) -> int | None:
    """Return the least number of Pods that a preemption deletes, if the choice among nodes and Pods affects what later
    Pods like `pod` preempt; None if it does not.

    The choice among nodes with equal Pods and equal free resources, in equal domains, affects nothing but names.
    """
    snapshot, candidate = framework.snapshot, decision.candidate
    if candidate is None or pod.spec.node_affinity.only_node:
        return None
    tied, comparison = [name for name in decision.best_nodes if name in snapshot.rows], _Comparison(pod, snapshot)
    are_alike = len(tied) <= 1 or (not _depends_on_more(pod, framework) and comparison.are_alike(tied))
    if not decision.is_sampled and are_alike and comparison.are_victims_alike(candidate):
        return None
    if any(other.terminating for name in tied for other in snapshot.node_infos[snapshot.rows[name]].pods):
        return 0
    return 1 if decision.is_sampled else len(candidate.victims)


def _depends_on_more(pod: Pod, framework: Framework) -> bool:
    """Report whether the nodes that fit depend on more than what is compared."""
    spec = pod.spec
    is_default = not spec.topology_spread and has_constraints(spec, framework)
    has_keys = any(constraint.match_label_keys for constraint in spec.topology_spread)
    return spec.has_storage or bool(spec.host_ports) or spec.claims_devices or has_keys or is_default


class _Comparison:
    """Compares nodes and their Pods by what preemption by Pods like `pod` reads, without names."""

    def __init__(self, pod: Pod, snapshot: Snapshot) -> None:
        self._pod, self._snapshot, self._left = pod, snapshot, _MAX_COMPARED
        affinity = pod.spec.pod_affinity
        self._terms = (*affinity.required_affinity, *affinity.required_anti_affinity)
        self._spread = [each for each in pod.spec.topology_spread if each.when_unsatisfiable == DO_NOT_SCHEDULE]
        self._keys = sorted({each.topology_key for each in self._terms} | {each.topology_key for each in self._spread})
        self._domains: dict[tuple[str, str], list[str]] = {}

    def are_alike(self, names: Sequence[str]) -> bool:
        """Report whether Pods like `pod` preempt as many Pods, also on other nodes, after the choice of any node.

        False if there are too many Pods to compare.
        """
        infos = [self._snapshot.node_infos[self._snapshot.rows[name]] for name in names]
        try:
            first, *others = (self._with_domains(info) for info in infos)
        except _TooMuch:
            return False
        return all(state == first for state in others)

    def are_victims_alike(self, candidate: Candidate) -> bool:
        """Report whether Pods on the node that tie with victims, without being victims, equal them.

        Terminating Pods are the last of Pods that tie: an update adds a Pod to the end of the node's Pods again.
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

    def _with_domains(self, info: NodeInfo) -> list[str]:
        """Return the state of a node, and those of the nodes in each of its domains."""
        labels = info.node.labels
        return [self._state(info), *(each for key in self._keys for each in self._domain(key, labels.get(key, "")))]

    def _domain(self, key: str, value: str) -> list[str]:
        if (key, value) not in self._domains:
            charge(len(self._snapshot.node_infos) // 4)
            infos = (info for info in self._snapshot.node_infos if info.node.labels.get(key, "") == value)
            self._domains[key, value] = sorted(map(self._state, infos))
        return self._domains[key, value]

    def _state(self, info: NodeInfo) -> str:
        self._left -= len(info.pods)
        if self._left < 0 or info.pods_with_required_anti_affinity:
            raise _TooMuch
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
    """There is too much to compare."""
