"""`whatif_each`: the effect of losing each node, or each zone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from forewarn.policies.application.cluster import counted_results
from forewarn.policies.application.losses import counted
from forewarn.policies.application.simulated import DEFAULT_UNTIL, world_with
from forewarn.policies.cluster.answer_head import head_of
from forewarn.policies.kinds.registry import NODE, POD
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.scheduling.missing_lists import assumptions
from forewarn.policies.simulation.dump import not_simulated
from forewarn.policies.whatif.autoscalers import Autoscaling
from forewarn.policies.whatif.comparison import at_rest
from forewarn.policies.whatif.questions import Question, each_node_lost, each_zone_lost
from forewarn.policies.whatif.sweep import RunningAndPending, Sweep, Tally, row_of, worst_first

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from forewarn.policies.application.cluster import Cluster, Progress
    from forewarn.policies.simulation.simulation import Simulation

    Kind = Literal["node", "zone"]

_NOTHING: Final = "nothing"
"""The name of the question about the outcome without a change."""
_MAX_NOTES: Final = 10
_NO_GROUPS: Final = Autoscaling()


def whatif_each(
    cluster: Cluster,
    kind: Kind,
    *,
    until: float = DEFAULT_UNTIL,
    autoscaling: Autoscaling = _NO_GROUPS,
    part: Callable[[Sequence[str]], Sequence[str]] = lambda names: names,
    progress: Progress | None = None,
) -> Sweep:
    """Simulate the loss of each node or each zone separately, on all CPUs; the worst case is the first row.

    `until`: simulated seconds. `part`: selects cases by name. Raises InvalidObject for a cluster without any.
    """
    cluster.require(NODE, POD, has_groups=bool(autoscaling.groups))
    cache = cluster.cache
    questions = _losses(cluster, kind)
    if not questions:
        raise InvalidObject(f"the cluster has no {kind}s")
    names, tallies, world = part([*questions]), list[Tally](), world_with(cache, [], until)

    def counting(simulation: Simulation) -> Tally:
        tallies.append(Tally(simulation, autoscaling))
        return tallies[0]

    results = counted(world, [Question(_NOTHING), *(questions[name] for name in names)], counting)
    without_change = row_of(_NOTHING, next(iter(results)))
    counts = list(counted_results(results, len(names), progress))
    rows = worst_first(row_of(name, tallied) for name, tallied in zip(names, counts, strict=True))
    limits = list(dict.fromkeys(note for tallied in counts for note in tallied["not_modelled"]))[:_MAX_NOTES]
    nothing_else = at_rest(world) and not (without_change.fewer or without_change.preempted or without_change.pending)
    snapshot, victims = cache.snapshot(), any(row.preempted or row.violated_pdbs for row in rows)
    running = (pod for pod in snapshot.pods.values() if pod.node_name)
    head = head_of(snapshot, assumptions(snapshot.objects, running, victims=victims, created=True))
    (tally,) = tallies
    before, without = RunningAndPending(tally.running, tally.pending), None if nothing_else else without_change
    return Sweep(head, kind, before, rows, without, [*not_simulated(cache), *limits])


def names_of(cluster: Cluster, kind: Kind) -> list[str]:
    """The names of all cases, for example `node a-1`."""
    return [*_losses(cluster, kind)]


def _losses(cluster: Cluster, kind: Kind) -> dict[str, Question]:
    loss = each_node_lost if kind == "node" else each_zone_lost
    return {question.title: question for question in loss(cluster.snapshot)}
