"""`forewarn versions`: for which releases of Kubernetes predictions hold, and what each does otherwise."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from policies.commands.parser import Parser
from policies.minors import KNOWN_MINORS
from policies.releases import CHANGES, CHECKED_WITH, NEWEST, is_known, is_locked
from policies.semantics import FEATURE_GATES, Semantics
from policies.terminal import as_json, columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit status: 0, or 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    minors = [options.release] if options.release else list(KNOWN_MINORS)
    if options.output == "json":
        sys.stdout.write(as_json([_entry(minor) for minor in minors]))
    else:
        for minor in minors:
            for line in _lines(minor):
                print(line)  # noqa: T201
    return 0


def _entry(minor: int) -> dict[str, object]:
    changes = [{"where": change.where, "what": change.what} for change in CHANGES if change.minor == minor]
    return {
        "release": f"1.{minor}",
        "checkedWith": CHECKED_WITH[minor],
        "changes": changes,
        "featureGates": _gates(minor),
    }


def _gates(minor: int) -> dict[str, bool]:
    """The gates that change predictions and that this release knows, as they are by default."""
    return {name: Semantics(minor).enabled(name) for name in sorted(FEATURE_GATES) if is_known(name, minor)}


def _lines(minor: int) -> Iterator[str]:
    newest = ", taken where neither a cluster nor --kubernetes-version says it" if minor == NEWEST else ""
    yield f"Kubernetes 1.{minor} (checked with {CHECKED_WITH[minor]}{newest})"
    for change in CHANGES:
        if change.minor == minor:
            yield f"  {change.where}: {change.what}"
    gates = (f"{name}={str(on).lower()}{'!' if is_locked(name, minor) else ''}" for name, on in _gates(minor).items())
    yield f"  gates: {' '.join(gates)}"


def _parser() -> argparse.ArgumentParser:
    from policies.commands.release import KNOWN, release_minor

    parser = Parser(
        prog="forewarn versions",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
        description="Say for which releases of Kubernetes predictions hold, what each does otherwise than the one "
        "before it, and the feature gates that change predictions (!: they can no longer be set).",
    )
    parser.add_argument("release", nargs="?", type=release_minor, metavar=KNOWN, help="of this release alone")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    return parser
