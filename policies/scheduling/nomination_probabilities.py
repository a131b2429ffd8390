"""How likely each node is to be nominated, where the scheduler looks at a random part of the nodes.

Source: upstream `GetOffsetAndNumCandidates`, `DryRunPreemption`. The order of nodes counts as a uniform permutation;
the few dry runs that are under way when the search stops are left out.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from policies.scheduling.preemption import cost

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.scheduling.preemption import Candidate


def nomination_probabilities(candidates: Iterable[Candidate], num_candidates: int) -> dict[str, float]:
    """Node name -> probability that it is nominated, the likeliest first; they sum to 1 (no candidate: empty).

    `num_candidates`: how many end the search (`DefaultPreemptionArgs.num_candidates`).
    """
    ranked = sorted(((cost(candidate), candidate.node_name) for candidate in candidates), key=lambda item: item[0])
    classes = [[name for _, name in group] for _, group in groupby(ranked, key=lambda item: item[0])]
    harmless = sum(candidate_cost[0] == 0 for candidate_cost, _ in ranked)
    chances = class_probabilities([len(names) for names in classes], harmless, num_candidates)
    found = {name: chance / len(names) for names, chance in zip(classes, chances, strict=True) for name in names}
    return {name: chance for name, chance in sorted(found.items(), key=lambda item: -item[1]) if chance > 0}


def class_probabilities(sizes: Sequence[int], harmless: int, candidates: int) -> list[float]:
    """The probability of each class of equal candidates. `sizes`: their numbers of nodes, best class first.

    `harmless`: how many nodes break no budget (they are the best ones). The first `candidates` nodes of a random order
    are compared; where none of them is harmless the search goes on to the first one that is.
    """
    total = sum(sizes)
    seen = min(candidates, total)
    missed = _missing(total, seen)
    only_harmful = missed[harmless] if harmless else 0.0
    found, before = [], 0
    for size in sizes:
        if harmless and before >= harmless:
            found.append(0.0)
            continue
        later = only_harmful * size / harmless if harmless else 0.0
        found.append(missed[before] - missed[before + size] + later)
        before += size
    return found


def _missing(total: int, seen: int) -> list[float]:
    """For every number of nodes from 0 to all: the probability that none of so many is among the ones seen."""
    missed = [1.0]
    for index in range(total):
        missed.append(missed[-1] * max(total - seen - index, 0) / (total - index))
    return missed
