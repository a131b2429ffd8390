"""Two checkouts beside each other on rows of bench_preemption, by processor time, in turns: a busy machine slows both.

`python -m tests.benchmarks.bench_turns OTHER [NAME…] [--turns N]`: OTHER is a directory with the other sources, such
as `git worktree add OTHER 25818fd` makes. Each has a process of its own with the same cluster, and answers twenty
questions a turn. Prints milliseconds of both, and how many times those of OTHER ours are.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

OURS: Final = Path(__file__).resolve().parents[2]
A_TURN: Final = 20
WARM: Final = 1
"""Turns that are not counted."""


def answer(root: Path, row: str, path: str) -> None:
    """Load the cluster by the sources below a directory; a line with a number comes in, so many times go out."""
    sys.path.insert(0, str(root))
    import policies
    from policies.sources import load_cluster
    from tests.benchmarks.bench_preemption import SCENARIOS, Events
    from tests.benchmarks.clusters import preemptor

    if not Path(str(policies.__file__)).is_relative_to(root):
        sys.exit(f"bench_turns: these are the sources of {policies.__file__}")
    scenario = next(s for s in SCENARIOS if s.name == row)
    cache = load_cluster(path)
    cache.snapshot().prepare()
    events, asked_before = Events(scenario.size), 0
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        taken = []
        for number in range(asked_before, asked_before + int(line)):
            asked = preemptor(scenario.kind, number)
            events.happen(cache)
            begun = time.process_time()
            prediction = policies.predict(cache.snapshot(), asked)
            assert prediction.outcome != "preempts" or (prediction.nominated_node and prediction.victims)
            taken.append(1000 * (time.process_time() - begun))
        asked_before += int(line)
        print(json.dumps(taken), flush=True)


def in_turns(roots: tuple[Path, Path], row: str, path: Path, turns: int) -> list[list[float]]:
    """The times of each, sorted."""
    children = [
        subprocess.Popen(
            [sys.executable, __file__, "--answer", str(root), row, str(path)],
            cwd=root,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for root in roots
    ]
    taken: list[list[float]] = [[] for _ in children]
    for child in children:
        assert child.stdout
        assert child.stdout.readline() == "ready\n", "a child does not start"
    for turn in range(WARM + turns):
        for place in (0, 1) if turn % 2 else (1, 0):
            child = children[place]
            assert child.stdin
            assert child.stdout
            print(A_TURN, file=child.stdin, flush=True)
            found = json.loads(child.stdout.readline())
            taken[place] += found if turn >= WARM else []
    for child in children:
        child.communicate()
    return [sorted(column) for column in taken]


def main() -> None:
    """Compare row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("names", nargs="*", help="parts of the names of rows; all without one")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--answer", nargs=3, metavar=("ROOT", "ROW", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.answer:
        root, row, path = options.answer
        answer(Path(root), row, path)
        return
    if options.other is None:
        parser.error("name the directory of the other sources")
    sys.path.insert(0, str(OURS))
    from tests.benchmarks.bench_preemption import SCENARIOS, write

    print(f"{'CPU milliseconds':24}{'p50':>8}{'other':>8}{'times':>7}{'p99':>9}{'other':>8}{'times':>7}")
    for scenario in SCENARIOS:
        if options.names and not any(part in scenario.name for part in options.names):
            continue
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "cluster.json"
            write(scenario.size, path)
            ours, other = in_turns((OURS, options.other.resolve()), scenario.name, path, options.turns)
        cells = [
            f"{a:8.2f}{b:8.2f}{a / b:7.2f}"
            for a, b in ((f(ours), f(other)) for f in (median, lambda times: times[int(0.99 * len(times))]))
        ]
        print(f"{scenario.name:24}{' '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
