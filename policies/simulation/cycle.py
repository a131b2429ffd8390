"""One scheduling cycle: where a pod goes, or why it goes nowhere and what is done about it.

Source: kubernetes `pkg/scheduler/schedule_one.go` (`schedulingAlgorithm`), `framework/types.go` (`FitError`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.scheduling.framework import Status, unresolvable
from policies.scheduling.schedule_one import Prediction
from policies.simulation.node_tree import NodeTree, top_of_heap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from policies.objects.pod import Pod
    from policies.scheduling.preemption import Candidate
    from policies.scheduling.snapshot import Snapshot

NO_NODES: Final = "no nodes available to schedule pods"
NO_CLAIMS: Final = "no new claims to deallocate"
_NOT_HELPFUL: Final = unresolvable("Preemption is not helpful for scheduling")


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

    def schedule_pod(self, snapshot: Snapshot, pod: Pod) -> Fits | Rejected:
        """What a cycle comes to."""
        if not snapshot.node_infos:
            return Rejected(NO_NODES, nominated="")
        prediction = Prediction(snapshot, pod)
        if prediction.fits:
            own = pod.nominated_node_name
            return Fits(own if own in prediction.feasible else self._host(prediction))
        if prediction.pre_filter is None:
            self._go_on(prediction)
        return self._rejected(prediction)

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
            return self._tie(prediction.selected)
        names = self._nodes.list()
        order = [name for name in (*names[start:], *names[:start]) if name in scores]
        return top_of_heap(order, {name: row["total"] for name, row in scores.items()})

    def _rejected(self, prediction: Prediction) -> Rejected:
        snapshot, rejection = prediction.snapshot, prediction.rejection
        if rejection.error:
            return Rejected(rejection.error, nominated="", error=True)
        preemption = prediction.preemption
        plugins = frozenset(rejection.plugins)
        message = fit_error(len(snapshot.node_infos), rejection.statuses, prediction.pre_filter)
        if preemption.selected:
            node = self._choose([candidate.node_name for candidate in preemption.selected])
            chosen = next(candidate for candidate in preemption.selected if candidate.node_name == node)
            return Rejected(message, plugins, node, chosen, broken=broken_budgets(snapshot, chosen))
        if preemption.ineligible_reason:
            return Rejected(f"{message} {NO_CLAIMS}, preemption: {preemption.ineligible_reason}", plugins)
        absent = len(snapshot.node_infos) - len(preemption.statuses)
        statuses = [*preemption.statuses.values(), *[_NOT_HELPFUL] * absent]
        why = fit_error(len(snapshot.node_infos), statuses, None)
        return Rejected(f"{message} {NO_CLAIMS}, preemption: {why}", plugins, nominated="")


def broken_budgets(snapshot: Snapshot, candidate: Candidate) -> tuple[tuple[str, int], ...]:
    """The budgets that allow fewer evictions than the candidate has victims of them, and how many fewer."""
    left: dict[str, int] = {}
    for victim in candidate.victims:
        for budget in snapshot.budgets.get(victim.namespace, ()):
            if not victim.terminating and budget.matches(victim.namespace, victim.labels):
                key = f"{budget.namespace}/{budget.name}"
                left[key] = left.get(key, budget.disruptions_allowed) - 1
    return tuple((name, -count) for name, count in left.items() if count < 0)


def fit_error(nodes: int, statuses: Iterable[Status], pre_filter: Status | None) -> str:
    """Upstream's message to the letter: a condition that says the same again is not written again."""
    message = f"0/{nodes} nodes are available:"
    if pre_filter is not None:
        return f"{message} {', '.join(pre_filter.reasons)}."
    reasons = Counter(reason for status in statuses for reason in status.reasons)
    told = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"{message} {', '.join(told)}." if told else message
