"""Do tests notice when a module is changed? `make mutants`: a sample of its mutants, each against the module's tests.

A mutant that no test notices is printed and makes the run fail, unless `explained.json` says why none can. Every mutant
is run in a process forked before anything of ours is imported; one that takes more than `--seconds` counts as noticed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import time
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.mutants.mutations import Mutant, mutants_of, mutated  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType

HERE = Path(__file__).parent
EXPLAINED = HERE / "explained.json"
TESTS = json.loads((HERE / "modules.json").read_text())
"""Module or package, as a path -> the test files that are to notice."""


class _Loader(SourceFileLoader):
    """Loads a module in its changed form."""

    def __init__(self, mutant: Mutant, path: Path) -> None:
        super().__init__(mutant.module, str(path))
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return compile(mutated(Path(path), self._mutant), path, "exec")


class _Finder(MetaPathFinder):
    """Finds one module in its changed form."""

    def __init__(self, mutant: Mutant, path: Path) -> None:
        self._mutant, self._path = mutant, path

    def find_spec(self, name: str, _path: object, _target: object = None) -> ModuleSpec | None:
        if name != self._mutant.module:
            return None
        packages = [str(self._path.parent)] if self._path.name == "__init__.py" else None
        loader = _Loader(self._mutant, self._path)
        return spec_from_file_location(name, self._path, loader=loader, submodule_search_locations=packages)


def modules() -> Iterator[tuple[str, Path, Sequence[str]]]:
    """(name, path, its test files) of every module that is listed."""
    for listed, tests in TESTS.items():
        found = sorted((ROOT / listed).rglob("*.py")) if (ROOT / listed).is_dir() else [ROOT / listed]
        for path in found:
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path, tests


def every_mutant(only: str = "") -> list[tuple[Mutant, Path, Sequence[str]]]:
    """All there are, of the modules whose name contains `only`."""
    return [(m, path, tests) for name, path, tests in modules() if only in name for m in mutants_of(path, name)]


def explained() -> dict[tuple[str, ...], str]:
    """Mutant -> why no test can notice it."""
    entries: list[dict[str, Any]] = json.loads(EXPLAINED.read_text())
    return {(e["module"], e["place"], e["line"], e["change"]): e["why"] for e in entries}


def passes(tests: Sequence[str], seconds: float, finder: _Finder | None = None) -> bool:
    """Whether these tests pass, with a changed module or as all is."""
    child = os.fork()
    if not child:
        _run(tests, finder)
    until = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        if time.monotonic() > until:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.02)


def _run(tests: Sequence[str], finder: _Finder | None) -> None:
    """Never returns."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    if finder is not None:
        sys.meta_path.insert(0, finder)
    code = 2
    try:
        import pytest

        plain = ["-p", "no:cacheprovider", "-n", "0"]
        code = int(pytest.main(["-x", "-q", "-m", "not slow and not e2e", *plain, *tests]))
    finally:
        os._exit(code)


def main() -> None:
    """Run a sample, print who survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="of the sample")
    parser.add_argument("--most", type=int, default=100, help="mutants in the sample")
    parser.add_argument("--minutes", type=float, default=30, help="no mutant is begun later than that")
    parser.add_argument("--seconds", type=float, default=120, help="after so long a mutant counts as noticed")
    parser.add_argument("--only", default="", help="modules whose name contains this")
    options = parser.parse_args()
    os.chdir(ROOT)
    import numpy as np  # noqa: F401
    import pytest  # noqa: F401

    every, known, began = every_mutant(options.only), explained(), time.monotonic()
    sample = random.Random(options.seed).sample(every, min(options.most, len(every)))
    print(f"seed {options.seed}: {len(sample)} of {len(every)} mutants", flush=True)
    for tests in {tuple(tests) for _, _, tests in sample}:
        # Tests that fail as all is would notice every mutant.
        if not passes(tests, 10 * options.seconds):
            sys.exit(f"these fail, or take too long, without any mutant: {' '.join(tests)}")
    run, unexplained = 0, 0
    for mutant, path, own in sample:
        if time.monotonic() - began > 60 * options.minutes:
            break
        run += 1
        if passes(own, options.seconds, _Finder(mutant, path)):
            why = known.get(mutant.key)
            unexplained += why is None
            print(f"survives: {mutant.module} {mutant.place}\n  {mutant.line}\n  {mutant.change}", flush=True)
            print(f"  {why or 'NOT EXPLAINED'}", flush=True)
    print(f"{run} mutants run, {unexplained} that no test notices and nothing explains")
    sys.exit(bool(unexplained))


if __name__ == "__main__":
    main()
