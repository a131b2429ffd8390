"""The probability that each node is nominated, if kube-scheduler tries preemption only on a random part of the nodes.

Source: upstream `GetOffsetAndNumCandidates`, `DryRunPreemption`. The order of nodes counts as a uniform permutation;
the few dry runs that are in progress when the search stops are ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from forewarn.policies.scheduling.preemption import costs_of_candidates
from forewarn.policies.scheduling.vectorized.candidates import Candidates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.scheduling.preemption import Candidate


def nomination_probabilities(candidates: Sequence[Candidate], num_candidates: int) -> dict[str, float]:
    """Return node name -> probability of its nomination, the highest first; the sum is 1 (empty without candidates).

    `num_candidates`: number of candidates after which the search stops (`DefaultPreemptionArgs.num_candidates`).
    """
    if not candidates:
        return {}
    if isinstance(candidates, Candidates):
        names, costs = candidates.names, candidates.costs
    else:
        names = [candidate.node_name for candidate in candidates]
        costs = costs_of_candidates(candidates)
    order = np.lexsort(costs[::-1])
    ranked = costs[:, order]
    ends = [*(np.flatnonzero((ranked[:, 1:] != ranked[:, :-1]).any(axis=0)) + 1).tolist(), len(order)]
    sizes = np.diff(ends, prepend=0).tolist()
    chances = class_probabilities(sizes, int(np.count_nonzero(ranked[0] == 0)), num_candidates)
    found = []
    for size, end, chance in zip(sizes, ends, chances, strict=True):
        if chance > 0:
            found += [(names[number], chance / size) for number in order[end - size : end].tolist()]
    return dict(sorted(found, key=lambda item: -item[1]))


def class_probabilities(sizes: Sequence[int], harmless: int, candidates: int) -> list[float]:
    """Return [class]: the probability that the nominated node is in this class of equally good candidates.

    `sizes`: [class], number of nodes, best class first. `harmless`: the number of nodes without PDB violations, which
    are the best nodes. The search compares the first `candidates` nodes of a random order; if all of them have
    violations, the search continues to the first node without violations.
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
    """Return [n], for n from 0 to `total`: the probability that `seen` random nodes include none of n given nodes."""
    missed = [1.0]
    for index in range(total):
        missed.append(missed[-1] * max(total - seen - index, 0) / (total - index))
    return missed
