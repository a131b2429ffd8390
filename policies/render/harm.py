"""The numbers of a simulated change by which clusters are compared, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.render import whatif
from forewarn.policies.whatif.answer import Answer, rank_of_loss

if TYPE_CHECKING:
    from forewarn.policies.whatif.class_change import ClassChange


def numbers(answer: Answer, change: ClassChange | None = None, left_out: int = 0) -> dict[str, int]:
    """Return numbers by their column in a table with a row for each cluster. PRIORITY LOST: the highest of the lost
    replicas. `left_out`: number of objects that are rejected or not predicted.
    """
    answer = answer.of_upgrade
    preempted, pending, lost, violations, placeholders = whatif.row(answer)
    new_pods = change.changed if change else answer.new_pods
    rejected = [each for each in new_pods if each.after is None]
    drains = () if answer.upgrade else answer.blocks.drains
    own = [each for each in answer.workloads if each.missed and each.workload not in answer.placeholders]
    return {
        "REPLICAS LOST": lost,
        "PRIORITY LOST": max((each.priority for each in own), default=0),
        "JOBS FAILED": sum(bool(each.failure) for each in answer.workloads),
        "NODES NOT DRAINED": len(answer.not_drained),
        "REPLICAS DOWN": sum(each.down for each in answer.outages),
        "MORE PENDING": pending,
        "PODS REJECTED": answer.over_quota.total(),
        "OBJECTS LEFT OUT": left_out,
        "NOT RECREATABLE": sum(each.pods for each in answer.blocks.recreation.values())
        + sum(sum(each.running.values()) for each in rejected),
        "PDB VIOLATIONS": violations,
        "UNHEALTHY PDBS": len(answer.pdbs.keys() - answer.summary.violated_pdbs),
        "ROLLOUTS BLOCKED": len(answer.blocks.rollouts),
        "PREEMPTED": preempted,
        "DRAINS BLOCKED": len({node for blocker in drains for node in blocker.nodes}),
        "NEW PRIORITY": len(new_pods) - len(rejected),
        "PLACEHOLDERS PREEMPTED": placeholders,
        "PODS REMOVED": answer.scaled_down,
    }


def rank(answer: Answer, change: ClassChange | None = None, left_out: int = 0) -> list[int]:
    """Return numbers that are larger for a worse cluster, and equal only if those of the first line are: the highest
    priority of lost replicas first. `left_out`: as in `numbers`.
    """
    answer, end, summary = answer.of_upgrade, answer.end, answer.summary
    upgraded, arrived, added = answer.upgrade, answer.with_new_nodes, answer.new_nodes
    own = [*numbers(answer, change, left_out).values()]
    return [
        *rank_of_loss(*own[:2]),
        *own,
        *numbers(end).values(),
        int(sum(each.seconds for each in answer.outages)),
        sum(arrived.nodes.values()) if arrived else 0,
        len(upgraded.steps) - len(upgraded.done) if upgraded else 0,
        len(upgraded.done) if upgraded else len(answer.drained),
        int(upgraded.seconds) if upgraded else 0,
        len(added.nodes) if added else 0,
        *(count.total() for count in whatif.WithAddedNodes.of(answer)),
        -sum(each.before for each in answer.workloads if each.missed),
        -answer.replaced.total(),
        len(answer.blocks.drains),
        sum(each.after is None for each in (change.changed if change else answer.new_pods)),
        sum(abs(total.after - total.before) for total in change.totals) if change else 0,
        len(answer.not_simulated) + sum(answer.left.values()) + summary.is_changing,
        summary.new_pods_ended,
        summary.new_pods,
        sum(each.started for each in answer.workloads),
        -sum(numbers(answer.restart_alone).values()) if answer.restart_alone else 0,
    ]
