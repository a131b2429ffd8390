"""Do tests notice when a module is changed? `make mutants`: a sample of its mutants, each against the module's tests.

A mutant that no test notices is printed and makes the run fail, unless `explained.json` says why none can. Mutants are
made by exchanging a function's code where tests are collected already (`swapping.py`). Those that cannot be made so,
and those that no test seems to notice, are run in a process forked before anything of ours is imported, with every
test of the module. One that takes more processor time than `--seconds` counts as noticed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
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
from tests.mutants.swapping import ended_well, silent, verdicts  # noqa: E402

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
    source_root = ROOT / "src"
    for listed, tests in TESTS.items():
        listed_path = source_root / "forewarn" / listed
        for path in sorted(listed_path.rglob("*.py")) if listed_path.is_dir() else [listed_path]:
            parts = path.relative_to(source_root).with_suffix("").parts
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
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds),) * 2)
        _run(tests, finder)
    return ended_well(child, 10 * seconds)


def _run(tests: Sequence[str], finder: _Finder | None) -> None:
    """Never returns."""
    os.setsid()
    silent()
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
    parser.add_argument("--seconds", type=float, default=120, help="of processor time; of more a mutant is noticed")
    parser.add_argument("--only", default="", help="modules whose name contains this")
    parser.add_argument("--both", action="store_true", help="every mutant both ways; those that come out differently")
    options = parser.parse_args()
    os.chdir(ROOT)
    import numpy as np  # noqa: F401
    import pytest  # noqa: F401

    every = every_mutant(options.only)
    sample = random.Random(options.seed).sample(every, min(options.most, len(every)))
    print(f"seed {options.seed}: {len(sample)} of {len(every)} mutants", flush=True)
    sys.exit(_run_all(sample, options.seconds, time.monotonic() + 60 * options.minutes, options.both))


def _run_all(sample: list[tuple[Mutant, Path, Sequence[str]]], seconds: float, until: float, both: bool) -> bool:
    """Whether any survives without a reason, or comes out differently in the two ways."""
    known = explained()
    run = surviving = unexplained = differ = anew = 0
    for tests in sorted({tuple(tests) for _, _, tests in sample}):
        own = [(number, m, path) for number, (m, path, its) in enumerate(sample) if tuple(its) == tests]
        for number, passed in verdicts(own, tests, seconds, until):
            if number == "fails":
                # Tests that fail as all is would notice every mutant.
                sys.exit(f"these fail, or take too long, without any mutant: {' '.join(tests)}")
            mutant, path, _ = sample[number]
            why, run = known.get(mutant.key), run + 1
            survives = passed
            if passed is None or both or (passed and why is None):
                anew += 1
                survives = passes(tests, seconds, _Finder(mutant, path))
                if both and passed not in (None, survives):
                    differ += 1
                    print(f"seems to {'survive' if passed else 'be noticed'}: {mutant}", flush=True)
            if survives:
                surviving += 1
                unexplained += why is None
                print(f"survives: {mutant.module} {mutant.place}\n  {mutant.line}\n  {mutant.change}", flush=True)
                print(f"  {why or 'NOT EXPLAINED'}", flush=True)
    print(f"{run} mutants run, {anew} of them in a process of their own; {run - surviving} noticed")
    print(f"{surviving} survive; {unexplained} that no test notices and nothing explains")
    if both:
        print(f"{differ} come out differently")
    return bool(unexplained or differ)


if __name__ == "__main__":
    main()
