"""How long a prediction takes over every node of a large cluster, one pod event before each question.

`python tests/benchmarks/bench_preemption.py [--json FILE] [--questions N] [NAME…]` prints a table. Each row is a
process of its own: the cluster is written as JSON, read as a stream, and asked. Seeded: every run asks the same.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.clusters import Size, objects, pod, preemptor, workload  # noqa: E402

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import Cache


@dataclass(frozen=True)
class Scenario:
    """A cluster and a kind of question, and what it may take (milliseconds)."""

    name: str
    size: Size
    kind: str = "plain"
    goals: dict[str, float] = field(default_factory=dict)


FIRST: Final = {"first_ms": 100.0}
SCENARIOS: Final = (
    Scenario("1,000 nodes", Size(1000), goals={"p99_ms": 1}),
    Scenario("5,000 nodes", Size(5000), goals={"p99_ms": 5, "load_s": 10, "rss_mb": 400, **FIRST}),
    Scenario("5,000, anti-affinity", Size(5000), "anti-affinity", {"p99_ms": 25}),
    Scenario("5,000, spread", Size(5000), "spread", {"p99_ms": 25}),
    Scenario("5,000, four constraints", Size(5000), "constrained", {"p99_ms": 5}),
    Scenario("5,000, no two alike", Size(5000), "varied"),
    Scenario("5,000, pods of 4 kB", Size(5000, large_pods=True)),
    Scenario("15,000 nodes", Size(15000), goals={"p99_ms": 15}),
)


def write(size: Size, path: Path) -> int:
    """Write the cluster as one List; returns its number of bytes."""
    with path.open("w") as file:
        file.write('{"apiVersion": "v1", "kind": "List", "items": [')
        for number, obj in enumerate(objects(size)):
            file.write((",\n" if number else "\n") + json.dumps(obj))
        file.write("]}\n")
    return path.stat().st_size


def resident_mb() -> float:
    """The resident set of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Events:
    """One pod comes or goes at a time, on any node."""

    def __init__(self, size: Size) -> None:
        self._rng = random.Random(7)
        self._apps = [workload(number, self._rng) for number in range(20)]
        self._size, self._count = size, 0
        self._added: list[dict[str, Any]] = []

    def happen(self, cache: Cache) -> None:
        """The next event."""
        self._count += 1
        if self._added and self._rng.random() < 0.5:
            cache.remove(self._added.pop(self._rng.randrange(len(self._added))))
            return
        name = f"n{self._rng.randrange(self._size.nodes):05}"
        made = pod(self._rng.choice(self._apps), name, 10**7 + self._count, self._rng)
        self._added.append(made)
        cache.add(made)


def measure(scenario: Scenario, path: Path, questions: int, minor: int | None) -> dict[str, Any]:
    """Load the cluster, ask, and say how long each took. `minor`: the Kubernetes release; None: the newest."""
    from forewarn import policies
    from forewarn.policies.cli.commands.release import settle
    from forewarn.policies.inputs.sources.cluster import load_cluster
    from forewarn.policies.kubernetes.releases.release import Release

    start, started = time.perf_counter(), time.process_time()
    cache = settle(load_cluster(str(path)), Release(minor))
    cache.snapshot().prepare()
    loaded, load_cpu = time.perf_counter() - start, time.process_time() - started
    rss = resident_mb()

    taken: list[tuple[float, float, float]] = []
    outcomes: dict[str, int] = {}
    events = Events(scenario.size)
    gc.freeze()
    for number in range(questions + 1):
        asked = preemptor(scenario.kind, number)
        events.happen(cache)
        begin, begun = time.perf_counter(), time.process_time()
        snapshot = cache.snapshot()
        snapshot.scheduling  # noqa: B018  (built when it is first asked for)
        between = time.perf_counter()
        prediction = policies.predict(snapshot, asked)
        found = prediction.nominated_node, prediction.victims, prediction.num_pdb_violations
        end, ended = time.perf_counter(), time.process_time()
        taken.append((1000 * (end - begin), 1000 * (ended - begun), 1000 * (between - begin)))
        outcomes[prediction.outcome] = outcomes.get(prediction.outcome, 0) + 1
        assert prediction.outcome != "preempts" or (found[0] and found[1])
    wall, cpu, parts = (sorted(column) for column in zip(*taken[1:], strict=True))
    return {
        "name": scenario.name,
        "min_ms": wall[0],
        "p50_ms": median(wall),
        "p99_ms": wall[int(0.99 * len(wall))],
        "max_ms": wall[-1],
        "cpu_p50_ms": median(cpu),
        "cpu_p99_ms": cpu[int(0.99 * len(cpu))],
        "snapshot_p50_ms": median(parts),
        "first_ms": taken[0][0],
        "first_cpu_ms": taken[0][1],
        "load_s": loaded,
        "load_cpu_s": load_cpu,
        "rss_mb": rss,
        "rss_after_mb": resident_mb(),
        "outcomes": outcomes,
        "goals": scenario.goals,
    }


def main() -> None:
    """Run every scenario in a process of its own and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of scenarios; all without one")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--minor", type=int, help="Kubernetes release, such as 36 for 1.36 (default: the newest)")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, path = options.measure
        scenario = next(s for s in SCENARIOS if s.name == name)
        print(json.dumps(measure(scenario, Path(path), options.questions, options.minor)))
        return
    wanted = [s for s in SCENARIOS if not options.names or any(part in s.name for part in options.names)]
    results = []
    print(HEAD)
    for scenario in wanted:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "cluster.json"
            size = write(scenario.size, path)
            command = [sys.executable, __file__, "--questions", str(options.questions)]
            command += ["--minor", str(options.minor)] if options.minor else []
            done = subprocess.run(
                [*command, "--measure", scenario.name, str(path)], check=True, stdout=subprocess.PIPE, cwd=ROOT
            )
        result = {**json.loads(done.stdout), "json_mb": size / 1e6}
        results.append(result)
        print(line(result), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


HEAD: Final = (
    f"{'milliseconds':22}{'min':>7}{'p50':>7}{'p99':>8}{'max':>8}{'cpu50':>7}{'cpu99':>7}{'first':>8}{'cpu':>6}"
    f"{'load s':>8}{'cpu':>6}{'MB':>6}{'JSON MB':>9}  missed"
)


def line(result: dict[str, Any]) -> str:
    """A row of the table; `missed`: the goals that were not met. `cpu`: of this process alone."""
    missed = [f"{key} > {goal:g}" for key, goal in result["goals"].items() if result[key] > goal]
    return (
        f"{result['name']:22}{result['min_ms']:7.2f}{result['p50_ms']:7.2f}{result['p99_ms']:8.2f}"
        f"{result['max_ms']:8.2f}{result['cpu_p50_ms']:7.2f}{result['cpu_p99_ms']:7.2f}{result['first_ms']:8.1f}"
        f"{result['first_cpu_ms']:6.0f}{result['load_s']:8.2f}{result['load_cpu_s']:6.1f}{result['rss_mb']:6.0f}"
        f"{result['json_mb']:9.0f}  {', '.join(missed) or '-'}"
    )


if __name__ == "__main__":
    main()
