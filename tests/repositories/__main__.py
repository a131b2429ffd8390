"""Precision and recall of `forewarn lint` on repositories of other people.

`python -m tests.repositories DIRECTORY… [--findings FILE]`: each DIRECTORY is a checkout. It is copied,
linted as it is, and linted with mistakes planted into it (`planting`). The tables show the findings by rule, the
mistakes that were found, and how many class names that were replaced by nonsense were seen. `--findings` writes each
finding of the unchanged repositories as one line of JSON, for a person who marks it as true, noise or false.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from forewarn.policies.inputs.manifests.kustomizations import read_kustomization
from tests.benchmarks.bench_lint import installed
from tests.repositories.planting import Site, rounds, with_nonsense

_MANIFESTS: Final = (".yaml", ".yml")


class Result(NamedTuple):
    """What came of one repository."""

    name: str
    status: int
    findings: list[dict[str, Any]]
    found: list[tuple[Site, bool]]
    names: list[str]
    seen: set[str]


def _lint(tree: Path, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    command = [sys.executable, "-m", "forewarn", "lint", "-o", "json", *arguments, "."]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False, env=installed(), timeout=500)
    try:
        findings = [{**f, "file": _real(tree, f["file"])} for f in json.loads(done.stdout)["findings"]]
    except ValueError:
        findings = []
    return done.returncode, findings, done.stderr


def _real(tree: Path, file: str) -> str:
    """The path of a file in the tree without links, as `_copy` names it."""
    path = tree / file
    return (
        str(path.resolve().relative_to(tree.resolve()))
        if path.is_file() and path.resolve().is_relative_to(tree.resolve())
        else file
    )


def _copy(repository: Path, tree: Path) -> dict[str, str]:
    """Copy a checkout; returns the texts of manifests and templates."""
    texts = {}
    shutil.copytree(repository, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    for path in sorted(tree.rglob("*")):
        inside = path.relative_to(tree)
        if path.name.endswith(_MANIFESTS) and path.is_file() and not path.is_symlink() and not _is_hidden(inside):
            with suppress(UnicodeDecodeError):
                texts[str(inside)] = path.read_bytes().decode()
    patches = _patches(tree, texts)
    return {file: text for file, text in texts.items() if file not in patches}


def _patches(tree: Path, texts: dict[str, str]) -> set[str]:
    """The files that kustomizations merge into others: what they hold is no object."""
    known = (read_kustomization(t.encode(), str(tree / f)) for f, t in texts.items() if Path(f).stem == "kustomization")
    return {os.path.relpath(patch, tree.resolve()) for found in known if found for patch in found.patches}


def _is_hidden(path: Path) -> bool:
    return any(step.startswith(".") or step == "testdata" for step in path.parts)


def measured(repository: Path, *, seed: int) -> Result:
    """Lint one repository as it is, with plants, and with nonsense."""
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "tree"
        texts = _copy(repository, tree)
        status, findings, _ = _lint(tree)
        known = {f["fingerprint"] for f in findings}
        found = []
        for planted in rounds(texts, seed):
            _write(tree, {site.file: site.text for site in planted})
            _, after, _ = _lint(tree)
            new = [f for f in after if f["fingerprint"] not in known]
            found += [(site, _is_found(site, new)) for site in planted]
            _write(tree, {site.file: texts[site.file] for site in planted})
        changed, names = with_nonsense(texts)
        _write(tree, changed)
        _, after, _ = _lint(tree)
        said = json.dumps(after)
        seen = {name for name in names if f'{name}"' in said or f'{name}\\"' in said}
    return Result(repository.name, status, findings, found, names, seen)


def _write(tree: Path, texts: dict[str, str]) -> None:
    for file, text in texts.items():
        (tree / file).write_text(text, encoding="utf-8", newline="")


def _is_found(site: Site, new: list[dict[str, Any]]) -> bool:
    """Whether a new finding of the right rule is in the changed file, or in its chart."""
    counts = ("error", "warning", "note") if "note" in site.plant else ("error", "warning")
    told = [f for f in new if f["rule"] in site.plant["rules"] and f["severity"] in counts]
    if "anywhere" in site.plant:
        return bool(told)
    for finding in told:
        file = finding["file"].removeprefix("./")
        is_of_values = Path(site.file).name.startswith("values") and str(Path(site.file).parent / "templates") in file
        if file == site.file or is_of_values:
            return True
    return False


_HEAD: Final = (
    "| repository | exit status | findings | notes | plants found | nonsense seen |\n|---|---|---|---|---|---|"
)


def _row(result: Result) -> str:
    plants = f"{sum(found for _, found in result.found)} of {len(result.found)}"
    told, notes = _by_rule(result, notes=False), _by_rule(result, notes=True)
    seen = f"{len(result.seen)} of {len(result.names)}"
    return f"| {result.name} | {result.status} | {told} | {notes} | {plants} | {seen} |"


def _by_rule(result: Result, *, notes: bool) -> str:
    counts = Counter(f["rule"] for f in result.findings if (f["severity"] == "note") is notes)
    return ", ".join(f"{rule} {count}" for rule, count in counts.items())


def report(results: list[Result]) -> None:
    """Print the plants that were found, and the sums."""
    found = [(site, ok) for result in results for site, ok in result.found]
    print("\n| plant | found | found in files without template braces |\n|---|---|---|")
    for name in (*dict.fromkeys(site.plant["name"] for site, _ in found), ""):
        of = [(site, ok) for site, ok in found if name in ("", site.plant["name"])]
        cells = [
            f"{sum(ok for _, ok in part)} of {len(part)}" for part in (of, [s for s in of if not s[0].is_template])
        ]
        print(f"| {name or 'all'} | {' | '.join(cells)} |")
    seen, names = sum(len(r.seen) for r in results), sum(len(r.names) for r in results)
    found_all, notes = sum(len(r.findings) for r in results), sum(_notes(r) for r in results)
    print(f"\n{len(results)} repositories, {found_all - notes} findings, {notes} notes, ", end="")
    print(f"{seen} of {names} nonsense names seen")


def _notes(result: Result) -> int:
    return sum(finding["severity"] == "note" for finding in result.findings)


def main() -> None:
    """Measure each repository, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="+", type=Path, metavar="DIRECTORY")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, metavar="FILE")
    parser.add_argument("--missed", action="store_true", help="list the plants that were not found")
    given = parser.parse_args()
    results = []
    print(_HEAD)
    with given.findings.open("w") if given.findings else nullcontext() as stream:
        for directory in given.directories:
            results.append(result := measured(directory.resolve(), seed=given.seed))
            print(_row(result), flush=True)
            for site in (site for site, ok in result.found if given.missed and not ok):
                print(f"missed: {result.name}/{site.file}: {site.plant['name']}", file=sys.stderr, flush=True)
            if stream is not None:
                stream.writelines(json.dumps({"repository": result.name, **f}) + "\n" for f in result.findings)
    report(results)


if __name__ == "__main__":
    main()
