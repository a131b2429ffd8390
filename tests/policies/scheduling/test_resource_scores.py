"""What nodes are worth by their resources: a few that have changed, one by one, come to what all at once come to."""

from __future__ import annotations

import os
import random

import numpy as np

from forewarn.policies.scheduling.vectorized.resource_scores import ResourceScores
from tests.builders import cluster, make_node, make_pod

SEED = os.environ.get("FOREWARN_SEED", "1")
CPUS = ("0", "1m", "100m", "1", "7", "64", "9007199254741")
MEMORIES = ("0", "1", "1Mi", "3000001", "64Gi", "9007199254740993", "64Pi")


def test_one_by_one_as_all_at_once() -> None:
    rng = random.Random(f"{SEED} resource scores")
    nodes = [make_node(f"n{n:02}").has(cpu=rng.choice(CPUS), memory=rng.choice(MEMORIES)) for n in range(60)]
    pods = [
        make_pod(f"p{n}").request(cpu=rng.choice(CPUS[:-1]), memory=rng.choice(MEMORIES[:-2])).on(f"n{n % 50:02}")
        for n in range(150)
    ]
    snapshot = cluster(*nodes, *pods).scheduling
    rows = np.arange(len(nodes))
    told = set[int]()
    for _ in range(30):
        cpu, memory = rng.choice((0, 1, 100, 333, 4000)), rng.choice((0, 1, 2**20, 10**9, 2**40))
        balance = rng.choice((None, (cpu, memory)))
        together = ResourceScores((cpu, memory), balance, len(nodes)).of(rows, snapshot)
        apart = ResourceScores((cpu, memory), balance, len(nodes))
        assert [int(apart.of(rows[row : row + 1], snapshot)[0]) for row in rows] == together.tolist()
        told.update(together.tolist())
    assert len(told) > 30
