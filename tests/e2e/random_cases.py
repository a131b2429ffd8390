"""Clusters for the live control plane, of every kind that there is; SEED says which ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.oracle.generator.kinds import KINDS, make_case
from tests.policies.scheduling.random_clusters import random_case

if TYPE_CHECKING:
    from tests.e2e.api import Obj

SEED = int(os.environ.get("SEED", "1"))
# The claim of a generic ephemeral volume belongs to a pod by its uid, which the incoming one does not have yet.
NOT_STAGED = {"inline"}
MIXED = "random"
"""The smaller clusters of tests/policies/scheduling, which mix more features; every third case is one."""
SOURCES = [kind for kind in KINDS if kind not in NOT_STAGED]
for place in range(2, len(SOURCES) * 3 // 2, 3):
    SOURCES.insert(place, MIXED)


def case_of(number: int) -> Obj:
    """The next case that can be staged; mixed ones may hold what cannot."""
    source, attempt = SOURCES[number % len(SOURCES)], number
    while True:
        case = random_case(f"{SEED}/{attempt}") if source == MIXED else make_case(SEED, attempt, source)
        if not any("ephemeral" in volume for volume in case["pod"]["spec"].get("volumes", ())):
            return {**case, "id": case["id"].replace("/", "-")}
        attempt += 100_000
