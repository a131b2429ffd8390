"""How long `forewarn lint` takes over a tree of manifests, beside what PyYAML needs merely to load it.

`python tests/benchmarks/bench_lint.py [FILES] [RUNS]`: of a tree that is made for it. `--tree DIR [--vs COMMAND]`, both
repeatable: of trees that are there, beside other linters (`--vs "kube-linter lint"`), as a table. Every line is whole
processes, start-up included, measured in turns so that a busy machine is equally busy for all; the ratio is to
CSafeLoader in the same turn, or to the other linter. Our sources are bytecode before anything is measured, as they are
where the package is installed, whatever PYTHONDONTWRITEBYTECODE says here.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
GOAL: Final = 0.28
BYTECODE: Final = ROOT / ".cache" / "pycache"

_LOAD: Final = """
import sys, yaml
for path in sys.argv[1:]:
    with open(path, 'rb') as file:
        for _ in yaml.load_all(file.read(), yaml.CSafeLoader): pass
"""
_EVENTS: Final = """
import sys
from yaml.cyaml import CParser
for path in sys.argv[1:]:
    with open(path, 'rb') as file:
        get = CParser(file.read()).get_event
    while get() is not None: pass
"""
_READ: Final = """
import gc, sys
gc.disable()
from forewarn.policies.inputs.manifests import read
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.inputs.sources.files import find_files, read_file
wanted = {*POD_TEMPLATE_PATHS, '/Pod', '/Namespace', '/ResourceQuota', 'scheduling.k8s.io/PriorityClass'}
readings = [read(read_file(path), path.path, wanted, namespace='default') for path in find_files(sys.argv[1:])]
assert sum(reading.objects for reading in readings) and not any(reading.diagnostics for reading in readings)
"""


def _programs(tree: Path) -> dict[str, list[str]]:
    """Name and command of everything that is measured."""
    files = sorted(str(path) for path in tree.rglob("*.yaml"))
    programs = {
        "CSafeLoader loads": [sys.executable, "-c", _LOAD, *files],
        "parser events alone": [sys.executable, "-c", _EVENTS, *files],
        "forewarn reads": [sys.executable, "-c", _READ, str(tree)],
    }
    if find_spec("forewarn.policies.cli.commands.lint") is not None:
        programs["forewarn lint"] = [sys.executable, "-m", "forewarn", "lint", "--fail-on", "never", str(tree)]
    return programs


def installed() -> dict[str, str]:
    """The environment of measured commands: our sources as an installed package has them, compiled once."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(BYTECODE)}


def _seconds(command: list[str], *, check: bool = True) -> float:
    environment = installed()
    start = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, check=check, cwd=ROOT, env=environment, **quiet)  # type: ignore[call-overload]
    return time.perf_counter() - start


def _taken(command: list[str]) -> tuple[float, float]:
    """Seconds by the clock, and of the processor, which a busy machine changes less."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall = _seconds(command, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(trees: list[Path], versus: list[str], runs: int) -> None:
    """Lint trees that are there, in turns with other commands; print a table: seconds, and our ratio to each.

    Each cell: least seconds by the clock, / of the processor, and in brackets ours as a part of either.
    """
    names = (shlex.split(name)[0].rpartition("/")[2] for name in versus)
    print(f"| {' | '.join(('tree', 'files', 'MB', 'forewarn', *names))} |")
    print("|---" * (4 + len(versus)) + "|")
    for tree in trees:
        lint = [sys.executable, "-m", "forewarn", "lint", "-q", "--exit-zero", str(tree)]
        commands = [lint, *([*shlex.split(name), str(tree)] for name in versus)]
        turns = [[_taken(command) for command in commands] for _ in range(runs + 1)]
        best = [tuple(map(min, zip(*times, strict=True))) for times in zip(*turns[1:], strict=True)]
        files = [path for path in tree.rglob("*") if path.suffix in (".yaml", ".yml", ".json") and path.is_file()]
        size = sum(path.stat().st_size for path in files) / 1e6
        cells = [tree.name, str(len(files)), f"{size:.1f}", f"{best[0][0]:.2f} / {best[0][1]:.2f}"]
        for wall, cpu in best[1:]:
            cells.append(f"{wall:.2f} / {cpu:.2f} ({best[0][0] / wall:.2f}, {best[0][1] / cpu:.2f})")
        print(f"| {' | '.join(cells)} |", flush=True)


def main(files: int = 1000, runs: int = 5) -> None:
    """Make the tree, measure, print the table."""
    sys.path.insert(0, str(ROOT))
    from tests.benchmarks.manifest_tree import write_tree

    with tempfile.TemporaryDirectory() as directory:
        size = write_tree(Path(directory), files)
        programs = _programs(Path(directory))
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in programs}
        for command in programs.values():
            _seconds(command)  # Bytecode and page cache are warm for all from here on.
        for _ in range(runs):
            for name, command in programs.items():
                times[name].append(_taken(command))
    print(f"{files} files, {size / 1e6:.1f} MB, {runs} runs, goal for forewarn lint: {GOAL} of CSafeLoader\n")
    print(f"{'':22}{'min s':>8}{'median s':>10}{'ratio of min':>14}{'median ratio':>14}")
    for kind, what in enumerate(("by the clock", "CPU time")):
        print(what)
        base = [taken[kind] for taken in times["CSafeLoader loads"]]
        for name, turns in times.items():
            taken = [turn[kind] for turn in turns]
            ratio = median(mine / theirs for mine, theirs in zip(taken, base, strict=True))
            print(f"  {name:20}{min(taken):8.3f}{median(taken):10.3f}{min(taken) / min(base):14.2f}{ratio:14.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, metavar="FILES RUNS")
    parser.add_argument("--tree", type=Path, action="append", default=[])
    parser.add_argument("--vs", action="append", default=[])
    given = parser.parse_args()
    if given.tree:
        compare([tree.resolve() for tree in given.tree], given.vs, (given.numbers or [5])[-1])
    else:
        main(*given.numbers[:2])
