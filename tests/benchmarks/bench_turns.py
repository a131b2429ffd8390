"""Two checkouts beside each other on rows of bench_preemption or bench_workloads, or by a command, by processor time,
in turns: a busy machine slows both.

`python -m tests.benchmarks.bench_turns OTHER [NAME…] [--workloads [NODES]] [--turns N]`: OTHER is a directory with the
other sources, such as `git worktree add OTHER 25818fd` makes. Each has a process of its own with the same cluster, and
answers twenty questions a turn. Prints milliseconds of both, and how many times those of OTHER ours are.

`python -m tests.benchmarks.bench_turns OTHER --turns 5 --command "whatif lose zone a --cluster b.json -o json"` runs a
command of the `.venv` of each in turns instead, and also prints their memory. Unset PYTHONDONTWRITEBYTECODE: with it,
every start compiles all sources.

With `--goal 0.95`, the exit status is 1 if ours takes more than 0.95 times as long as OTHER.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

OURS: Final = Path(__file__).resolve().parents[2]
A_TURN: Final = 20
WARM: Final = 1
"""Turns that are not counted."""


def answer(root: Path, row: str, path: str, nodes: int) -> None:
    """Load the cluster by the sources below a directory; a line with a number comes in, so many times go out."""
    sys.path[:0] = [str(root), str(root / "src")]
    from forewarn import policies
    from forewarn.policies.inputs.sources.cluster import load_cluster
    from tests.benchmarks.bench_preemption import Events
    from tests.benchmarks.clusters import Size

    if not Path(str(policies.__file__)).is_relative_to(root):
        sys.exit(f"bench_turns: these are the sources of {policies.__file__}")
    cache = load_cluster(path)
    cache.snapshot().prepare()
    ask = question(row)
    events, asked_before = Events(Size(nodes)), 0
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        taken = []
        for number in range(asked_before, asked_before + int(line)):
            ready = ask(number)
            events.happen(cache)
            begun = time.process_time()
            ready(cache)
            taken.append(1000 * (time.process_time() - begun))
        asked_before += int(line)
        print(json.dumps(taken), flush=True)


def question(row: str) -> Callable[[int], Callable[[Any], None]]:
    """What a row asks: made ready by its number, then asked of a cache."""
    from forewarn import policies
    from forewarn.policies.linting.config.model import Config
    from forewarn.policies.linting.evaluation.evaluator import impact_of
    from tests.benchmarks import bench_workloads
    from tests.benchmarks.bench_preemption import SCENARIOS
    from tests.benchmarks.clusters import preemptor

    def predicts(number: int) -> Callable[[Any], None]:
        asked = preemptor(kind, number)

        def ask(cache: Any) -> None:
            prediction = policies.predict(cache.snapshot(), asked)
            assert prediction.outcome != "preempts" or (prediction.nominated_node and prediction.victims)

        return ask

    def foresees(_: int) -> Callable[[Any], None]:
        subject = bench_workloads.subject_of(row)

        def ask(cache: Any) -> None:
            began = time.monotonic()
            impact_of(subject, cache.snapshot(), Config(), partial(bench_workloads.expired, began))

        return ask

    if row in bench_workloads.SCENARIOS:
        return foresees
    kind = next(s.kind for s in SCENARIOS if s.name == row)
    return predicts


def in_turns(roots: tuple[Path, Path], row: str, path: Path, turns: int, nodes: int) -> list[list[float]]:
    """The times of each, sorted."""
    children = [
        subprocess.Popen(
            [sys.executable, root / Path(__file__).relative_to(OURS), "--answer", root, row, path, str(nodes)],
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


def run_in_turns(roots: tuple[Path, Path], command: str, turns: int) -> float:
    """Print the processor seconds and the memory of a forewarn command, with its child processes. Return how many times
    those of the other our seconds are.
    """
    seconds: list[list[float]] = [[], []]
    memory = [0, 0]
    for turn in range(turns):
        for place in (0, 1) if turn % 2 else (1, 0):
            root = roots[place]
            child = subprocess.Popen(
                [root / ".venv/bin/forewarn", *shlex.split(command)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            _, child.returncode, used = os.wait4(child.pid, 0)
            seconds[place].append(used.ru_utime + used.ru_stime)
            memory[place] = max(memory[place], used.ru_maxrss // 1024)
    ours, other = map(median, seconds)
    print(
        f"{command}: {ours:.2f} s of CPU, {memory[0]} MB; other {other:.2f} s, {memory[1]} MB; {ours / other:.2f} times"
    )
    return ours / other


def main() -> None:
    """Compare row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, nargs="?")
    parser.add_argument("names", nargs="*", help="parts of the names of rows; all without one")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument(
        "--workloads", type=int, nargs="?", const=5000, metavar="NODES", help="ask for those of bench_workloads (5000)"
    )
    parser.add_argument("--goal", type=float, default=float("inf"), help="exit with 1 if a ratio is greater")
    parser.add_argument("--command", help="arguments of forewarn: compare this command")
    parser.add_argument("--answer", nargs=4, metavar=("ROOT", "ROW", "FILE", "NODES"), help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if options.answer:
        root, row, path, nodes = options.answer
        answer(Path(root), row, path, int(nodes))
        return
    if options.other is None:
        parser.error("name the directory of the other sources")
    if options.command:
        times = run_in_turns((OURS, options.other.resolve()), options.command, options.turns)
        sys.exit(times > options.goal)
    sys.path.insert(0, str(OURS))
    from tests.benchmarks import bench_workloads
    from tests.benchmarks.bench_preemption import SCENARIOS, write
    from tests.benchmarks.clusters import Size

    rows = {scenario.name: scenario.size for scenario in SCENARIOS}
    if options.workloads:
        rows = dict.fromkeys(bench_workloads.SCENARIOS, Size(options.workloads, pods_per_node=20))
    missed = False
    print(f"{'CPU milliseconds':44}{'p50':>8}{'other':>8}{'times':>7}{'p99':>9}{'other':>8}{'times':>7}")
    for name, size in rows.items():
        if options.names and not any(part in name for part in options.names):
            continue
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "cluster.json"
            write(size, path)
            roots = (OURS, options.other.resolve())
            ours, other = in_turns(roots, name, path, options.turns, size.nodes)
        pairs = [(f(ours), f(other)) for f in (median, lambda times: times[int(0.99 * len(times))])]
        cells = [f"{a:8.2f}{b:8.2f}{a / b:7.2f}" for a, b in pairs]
        missed |= any(a > options.goal * b for a, b in pairs)
        print(f"{name:44}{' '.join(cells)}", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
