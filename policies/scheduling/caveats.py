"""Caveats of a prediction: its assumptions and its uncertainty, as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.metering import charge
from forewarn.policies.scheduling.binding_cycle import BindingCycle
from forewarn.policies.scheduling.framework import CycleState, Framework, PluginFault
from forewarn.policies.scheduling.plugin import foreign_at
from forewarn.policies.scheduling.victim import importance, may_be_preempted

if TYPE_CHECKING:
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.profiles import Extender
    from forewarn.policies.scheduling.preemption import Candidate, Preemption
    from forewarn.policies.scheduling.snapshot import Snapshot


AWAITED: Final = (
    "before the pod is bound, its devices must be made ready (binding conditions): kube-scheduler waits for this, and "
    "schedules the pod again if it takes too long"
)
GATED: Final = (
    "the profile disables SchedulingGates, but kube-apiserver binds no pod with scheduling gates: the scheduler tries "
    "the pod again and again"
)


class Facts(NamedTuple):
    """The input for the caveats of one prediction. `feasible`: names of nodes that pass all filters.

    `num_feasible_nodes_to_find`: number of feasible nodes after which kube-scheduler stops. `not_scored`: why the best
    node is unknown, or "".
    """

    pod: Pod
    framework: Framework
    feasible: list[str]
    best_nodes: list[str]
    node: str
    num_feasible_nodes_to_find: int
    not_scored: str


def named(extender: Extender) -> str:
    """Return the name of an extender in messages."""
    return f'the extender "{extender.url_prefix}"'


def of_placement(facts: Facts) -> list[str]:
    """Return the caveats for a Pod that fits."""
    caveats = []
    feasible, own = facts.feasible, facts.pod.nominated_node_name
    if own in feasible:
        caveats.append(f"the pod is nominated to {own}, which passes: the scheduler tries that node first")
    takes_first = len(feasible) > facts.num_feasible_nodes_to_find == 1
    if takes_first:
        caveats.append(f"no plugin scores nodes: the scheduler takes the first of {len(feasible)} feasible nodes")
    elif len(feasible) > facts.num_feasible_nodes_to_find:
        caveats.append(f"{len(feasible)} nodes are feasible: the scheduler scores only a part of them")
    caveats += [GATED] if facts.pod.spec.gated else _of_binding(facts)
    if facts.not_scored:
        caveats.append(f"which of {len(feasible)} nodes is not predicted: {facts.not_scored}")
    elif len(facts.best_nodes) > 1 and not takes_first:
        caveats.append(f"{len(facts.best_nodes)} nodes tie for the best score: any of them may be chosen")
    return caveats


def _of_binding(facts: Facts) -> list[str]:
    """Return caveats about third-party plugins that delay or reject the binding of a Pod."""
    framework = facts.framework
    if not any(foreign_at(framework.profile, point) for point in ("reserve", "permit", "preBind", "bind")):
        return []
    cycle, state = BindingCycle(facts.pod, facts.node), CycleState()
    try:
        while not cycle.is_done and not cycle.waiting:
            cycle = cycle.step(framework, state)
    except PluginFault as fault:
        return [f"whether it is bound to {cycle.node_name} is not predicted: {fault}"]
    if cycle.waiting:
        held = ", ".join(f"{name} (up to {seconds:g} s)" for name, seconds in sorted(cycle.timeouts.items()))
        return [f"before it is bound to {cycle.node_name} it waits for {held}"]
    if cycle.status is None:
        return []
    why = ", ".join(cycle.status.reasons)
    return [f"plugin {cycle.status.plugin} keeps it from {cycle.node_name} at {cycle.failed_at}: {why}"]


def of_preemption(pod: Pod, preemption: Preemption, snapshot: Snapshot) -> list[str]:
    """Return the caveats for a Pod that does not fit without preemption."""
    caveats = []
    if preemption.may_stop_early and preemption.candidates:
        caveats.append(
            f"preemption may help on {preemption.potential_nodes} nodes: the scheduler tries a random part of them"
        )
    if len(preemption.best_candidates) > 1:
        caveats.append(f"{len(preemption.best_candidates)} nodes tie: any of them may be nominated")
    if any(victims_tie(candidate, snapshot) for candidate in preemption.best_candidates):
        caveats.append("victims tie with other pods in priority and start time: which of them go may differ")
    if any(victim.start_time is None for candidate in preemption.best_candidates for victim in candidate.victims):
        caveats.append("a victim has no start time: it counts as started now")
    stale = {
        f"{pdb.namespace}/{pdb.name}"
        for candidate in preemption.best_candidates
        for other in snapshot.node_infos[snapshot.rows[candidate.node_name]].pods
        if may_be_preempted(other, pod.effective_priority, snapshot)
        for pdb in snapshot.pdbs.get(other.namespace, ())
        if pdb.stale and pdb.matches(other.namespace, other.labels)
    }
    caveats += [f"the status of the disruption budget {name} is older than its spec" for name in sorted(stale)]
    return caveats


def victims_tie(candidate: Candidate, snapshot: Snapshot) -> bool:
    """True if another Pod on the node ties with a victim in priority and start time."""
    node_info = snapshot.get(candidate.node_name)
    if node_info is None:
        return False
    charge(len(node_info.pods) // 4)
    victims = {victim.identity for victim in candidate.victims}
    ranks = {importance(victim) for victim in candidate.victims}
    return any(importance(pod) in ranks and pod.identity not in victims for pod in node_info.pods)
