"""How long `forewarn lint` takes over a tree of manifests, beside what PyYAML needs merely to load it.

`python tests/benchmarks/bench_lint.py [FILES] [RUNS]`: of a tree that is made for it. `--tree DIR [--vs COMMAND]`: of
one that is there, beside another linter (`--vs "kube-linter lint"`). Every line is whole processes, start-up included,
measured in turns so that a busy machine is equally busy for all; the ratio is to CSafeLoader in the same turn, or to
the other linter.
"""

from __future__ import annotations

import argparse
import os
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
GOAL: Final = 0.55

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
from policies.manifests import read
from policies.kinds import POD_TEMPLATE_PATHS
from policies.sources import find_files, read_file
wanted = {*POD_TEMPLATE_PATHS, '/Pod', '/Namespace', '/ResourceQuota', 'scheduling.k8s.io/PriorityClass'}
readings = [read(read_file(path), path.path, wanted, namespace='default') for path in find_files(sys.argv[1:])]
assert sum(reading.objects for reading in readings) and not any(reading.remarks for reading in readings)
"""


def _programs(tree: Path) -> dict[str, list[str]]:
    """Name and command of everything that is measured."""
    files = sorted(str(path) for path in tree.rglob("*.yaml"))
    programs = {
        "CSafeLoader loads": [sys.executable, "-c", _LOAD, *files],
        "parser events alone": [sys.executable, "-c", _EVENTS, *files],
        "forewarn reads": [sys.executable, "-c", _READ, str(tree)],
    }
    if find_spec("policies.commands.lint") is not None:
        programs["forewarn lint"] = [sys.executable, "-m", "policies.cli", "lint", "--fail-on", "never", str(tree)]
    return programs


def _seconds(command: list[str], *, check: bool = True) -> float:
    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command, check=check, cwd=ROOT, env=environment, **quiet)  # type: ignore[call-overload]
    return time.perf_counter() - start


def compare(tree: Path, versus: str, runs: int) -> None:
    """Lint a tree that is there, in turns with another command; print seconds and the ratio to each."""
    lint = [sys.executable, "-m", "policies.cli", "lint", "-q", "--exit-zero", str(tree)]
    commands = {"forewarn lint": lint}
    if versus:
        commands[versus] = [*shlex.split(versus), str(tree)]
    for command in commands.values():
        _seconds(command, check=False)
    turns = [{name: _seconds(command, check=False) for name, command in commands.items()} for _ in range(runs)]
    times = {name: [turn[name] for turn in turns] for name in commands}
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.suffix in (".yaml", ".yml", ".json"))
    print(f"{tree.name}: {size / 1e6:.1f} MB, {runs} runs")
    for name, taken in times.items():
        print(f"  {name:28}{min(taken):8.3f} s at least, {min(times['forewarn lint']) / min(taken):.2f}")


def main(files: int = 1000, runs: int = 5) -> None:
    """Make the tree, measure, print the table."""
    sys.path.insert(0, str(ROOT))
    from tests.benchmarks.manifest_tree import write_tree

    with tempfile.TemporaryDirectory() as directory:
        size = write_tree(Path(directory), files)
        programs = _programs(Path(directory))
        times: dict[str, list[float]] = {name: [] for name in programs}
        for command in programs.values():
            _seconds(command)  # Bytecode and page cache are warm for all from here on.
        for _ in range(runs):
            for name, command in programs.items():
                times[name].append(_seconds(command))
    base = times["CSafeLoader loads"]
    print(f"{files} files, {size / 1e6:.1f} MB, {runs} runs, goal for forewarn lint: {GOAL} of CSafeLoader\n")
    print(f"{'':22}{'min s':>8}{'median s':>10}{'ratio of min':>14}{'median ratio':>14}")
    for name, taken in times.items():
        ratio = median(mine / theirs for mine, theirs in zip(taken, base, strict=True))
        print(f"{name:22}{min(taken):8.3f}{median(taken):10.3f}{min(taken) / min(base):14.2f}{ratio:14.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numbers", nargs="*", type=int, metavar="FILES RUNS")
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--vs", default="")
    given = parser.parse_args()
    if given.tree:
        compare(given.tree.resolve(), given.vs, (given.numbers or [5])[-1])
    else:
        main(*given.numbers[:2])
