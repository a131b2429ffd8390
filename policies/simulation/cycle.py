"""One scheduling cycle: where a pod goes, or why it goes nowhere and what is done about it.

Source: kubernetes `pkg/scheduler/schedule_one.go` (`schedulingAlgorithm`), `framework/types.go` (`FitError`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from policies.objects.fields import InvalidObject
from policies.objects.priority_class import PREEMPT_NEVER
from policies.scheduling.filtering import MIN_FEASIBLE_NODES
from policies.scheduling.framework import Status, unresolvable
from policies.scheduling.large_cycle import Cycle, Found
from policies.scheduling.pdb_violations import violations
from policies.scheduling.plugins.volume_binding import VolumeBinding
from policies.scheduling.pod_groups import of_a_group, taken_by
from policies.scheduling.preemption import NEVER, TERMINATING
from policies.scheduling.recurring_cycle import RecurringCycle, RecurringCycles
from policies.scheduling.responsible import framework_of
from policies.scheduling.schedule_one import Prediction
from policies.scheduling.vectorized.problem import NotValid
from policies.simulation.node_tree import NodeTree, top_of_heap, top_place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from policies.objects.pod import Pod
    from policies.scheduling.plugins.storage_score import PodVolumes
    from policies.scheduling.preemption import Candidate
    from policies.scheduling.snapshot import Snapshot

NO_NODES: Final = "no nodes available to schedule pods"
NO_CLAIMS: Final = "no new claims to deallocate"
_NOT_HELPFUL: Final = unresolvable("Preemption is not helpful for scheduling")


class NotPredicted(InvalidObject):
    """What comes next depends on what is not modelled."""


class Fits(NamedTuple):
    """The pod goes to a node."""

    node: str


class Rejected(NamedTuple):
    """The pod goes nowhere. `plugins`: who rejected it, nobody where there was an error. `nominated`: the node to set
    in its status, empty to clear it, None to leave it. `candidate`: whom to evict."""

    message: str
    plugins: frozenset[str] = frozenset()
    nominated: str | None = None
    candidate: Candidate | None = None
    error: bool = False
    broken: tuple[tuple[str, int], ...] = ()
    """Disruption budgets, as `namespace/name`, that the victims break, and how many pods too many each."""


class SchedulingAlgorithm:
    """Cycles one after the other. `choose`: which of several candidates for preemption is taken; upstream goes by the
    order of a Go map. `tie`: which of several nodes with the best score; None: as upstream."""

    def __init__(
        self,
        nodes: NodeTree,
        choose: Callable[[Sequence[str]], str],
        tie: Callable[[Sequence[str]], str] | None = None,
    ) -> None:
        self._nodes, self._choose, self._tie = nodes, choose, tie
        self._next_start = 0
        """Where in the order of nodes the next cycle begins (upstream `nextStartNodeIndex`)."""
        self._known: tuple[Snapshot | None, dict[Any, Rejected]] = None, {}
        """What was found of pods that are alike, as long as nothing changes: no place for them, and no help."""
        self._order: tuple[Sequence[str], NDArray[np.intp]] | None = None
        self._recurring = RecurringCycles()

    def schedule_pod(self, snapshot: Snapshot, pod: Pod) -> Fits | Rejected:
        """What a cycle comes to. Raises NotPredicted: it goes by what is not modelled."""
        why = of_a_group(pod, snapshot)
        result = Rejected("") if why else self._schedule_pod(snapshot, pod)
        why = why or (taken_by(pod, snapshot) if isinstance(result, Rejected) else "")
        if why:
            raise NotPredicted(f"not predicted: Pod {pod.key}: {why}")
        return result

    def _schedule_pod(self, snapshot: Snapshot, pod: Pod) -> Fits | Rejected:
        if not snapshot.node_infos:
            return Rejected(NO_NODES, nominated="")
        if pod.nominated_node_name or any(volume.ephemeral for volume in pod.spec.volumes):
            return self._decide(snapshot, pod)
        if self._known[0] is not snapshot:
            self._known = snapshot, {}
        alike = id(pod.spec), pod.effective_priority, pod.preemption_policy, pod.namespace, id(pod.labels), pod.owner
        known = self._known[1].get(alike)
        if known is not None:
            return known
        result = self._decide(snapshot, pod)
        if isinstance(result, Rejected) and result.candidate is None:
            self._known[1][alike] = result
        return result

    def _decide(self, snapshot: Snapshot, pod: Pod) -> Fits | Rejected:
        if len(snapshot.node_infos) > MIN_FEASIBLE_NODES:
            result = self._at_once(snapshot, pod)
            if result is not None:
                return result
        prediction = Prediction(snapshot, pod)
        if prediction.fits:
            own = pod.nominated_node_name
            return Fits(own if own in prediction.feasible else self._host(prediction))
        if prediction.pre_filter is None:
            self._go_on(prediction)
        return self._rejected(prediction)

    def _at_once(self, snapshot: Snapshot, pod: Pod) -> Fits | Rejected | None:
        """All nodes at once, where there are many; None where the plugins must be asked one by one."""
        with snapshot.derived.taken():
            try:
                cycle = self._recurring.cycle(snapshot, pod) or Cycle(snapshot, pod)
                if cycle.fits_on(pod.nominated_node_name):
                    return Fits(pod.nominated_node_name)
                found = cycle.find(self._rows(snapshot))
                result = self._best(cycle, found) if len(found.rows) else self._nowhere(cycle)
            except NotValid:
                return None
        self._next_start = (self._next_start + found.evaluated) % len(snapshot.node_infos)
        return result

    def _rows(self, snapshot: Snapshot) -> NDArray[np.intp]:
        """The nodes in the order in which this cycle goes through them. Not to be changed."""
        names = self._nodes.list()
        if self._order is None or self._order[0] is not names:
            rows = np.fromiter((snapshot.rows[name] for name in names), np.intp, len(names))
            self._order = names, np.concatenate((rows, rows))
        start = self._next_start % len(names)
        return self._order[1][start : start + len(names)]

    def _best(self, cycle: Cycle | RecurringCycle, found: Found) -> Fits:
        infos, rows = cycle.snapshot.node_infos, found.rows
        if len(rows) == 1:
            return Fits(infos[rows[0]].name)
        scores = cycle.scores(rows)
        best = np.flatnonzero(scores == scores.max())
        if len(best) == 1:
            return Fits(infos[rows[best[0]]].name)
        if self._tie is not None:
            return Fits(self._tie([infos[row].name for row in rows[best].tolist()]))
        return Fits(infos[rows[top_place(best)]].name)

    def _nowhere(self, cycle: Cycle | RecurringCycle) -> Rejected:
        snapshot, pod = cycle.snapshot, cycle.pod
        plugins, reasons = cycle.rejection()
        message = fit_error(len(snapshot.node_infos), reasons)
        if pod.preemption_policy == PREEMPT_NEVER:
            return Rejected(f"{message} {NO_CLAIMS}, preemption: {NEVER}", plugins)
        if cycle.waits():
            return Rejected(f"{message} {NO_CLAIMS}, preemption: {TERMINATING}", plugins)
        best = cycle.best_nodes()
        if not best:
            why = f"0/{len(snapshot.node_infos)} nodes are available: no node is helped by it."
            return Rejected(f"{message} {NO_CLAIMS}, preemption: {why}", plugins, nominated="")
        node = self._choose(best)
        candidate = cycle.candidate_on(node)
        return Rejected(message, plugins, node, candidate, broken=broken_budgets(snapshot, candidate))

    def _go_on(self, prediction: Prediction) -> None:
        total = len(prediction.snapshot.node_infos)
        self._next_start = (self._next_start + prediction.evaluated_nodes) % total

    def _host(self, prediction: Prediction) -> str:
        """The best node."""
        start, scores = self._next_start, prediction.scores
        self._go_on(prediction)
        if not scores:
            return prediction.feasible[0]
        if self._tie is not None:
            return self._tie(prediction.best_nodes)
        names = self._nodes.list()
        order = [name for name in (*names[start:], *names[:start]) if name in scores]
        return top_of_heap(order, {name: row["total"] for name, row in scores.items()})

    def _rejected(self, prediction: Prediction) -> Rejected:
        snapshot, rejection = prediction.snapshot, prediction.rejection
        if rejection.error:
            return Rejected(rejection.error, nominated="", error=True)
        preemption = prediction.preemption
        plugins = frozenset(rejection.plugins)
        reasons = Counter(reason for status in rejection.statuses for reason in status.reasons)
        message = fit_error(len(snapshot.node_infos), reasons, prediction.pre_filter)
        if preemption.best_candidates:
            node = self._choose([candidate.node_name for candidate in preemption.best_candidates])
            chosen = next(candidate for candidate in preemption.best_candidates if candidate.node_name == node)
            return Rejected(message, plugins, node, chosen, broken=broken_budgets(snapshot, chosen))
        if preemption.ineligible_reason:
            return Rejected(f"{message} {NO_CLAIMS}, preemption: {preemption.ineligible_reason}", plugins)
        absent = len(snapshot.node_infos) - len(preemption.statuses)
        statuses = [*preemption.statuses.values(), *[_NOT_HELPFUL] * absent]
        why = fit_error(len(snapshot.node_infos), Counter(r for status in statuses for r in status.reasons))
        return Rejected(f"{message} {NO_CLAIMS}, preemption: {why}", plugins, nominated="")


def volumes_on(snapshot: Snapshot, pod: Pod, node: str) -> PodVolumes | None:
    """What has to be bound or provisioned before a pod is bound to its node; None if nothing has."""
    info = snapshot.get(node)
    if info is None or not pod.spec.has_storage:
        return None
    for plugin in framework_of(snapshot, pod).pre_filters:
        if isinstance(plugin, VolumeBinding):
            return plugin.volumes_on(pod, info)
    return None


def broken_budgets(snapshot: Snapshot, candidate: Candidate) -> tuple[tuple[str, int], ...]:
    """The budgets that the eviction of the candidate's victims violates, and how many victims violate each."""
    first_ends = snapshot.semantics.first_violated_budget_ends_the_count
    found = violations(candidate.victims, snapshot.budgets, first_ends_the_count=first_ends)
    return tuple(Counter(f"{budget.namespace}/{budget.name}" for _, violated in found for budget in violated).items())


def fit_error(nodes: int, reasons: Mapping[str, int], pre_filter: Status | None = None) -> str:
    """Upstream's message to the letter: a condition that says the same again is not written again.

    `reasons`: of how many nodes each is told.
    """
    message = f"0/{nodes} nodes are available:"
    if pre_filter is not None:
        return f"{message} {', '.join(pre_filter.reasons)}."
    told = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"{message} {', '.join(told)}." if told else message
