"""Baselines, earlier reports, and rules by name: what `lint` and `audit` do not report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forewarn.policies.sources import SourceError
from forewarn.policies.sources.output_file import write_file
from forewarn.policies.terminal import complain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.findings import Finding

FAILED = 3


def read_baseline(path: str | None) -> dict[str, Any] | None:
    """Read a baseline file. Raises ValueError."""
    return None if path is None else _read(path, "a baseline")


def read_report(path: str | None) -> dict[str, Any] | None:
    """An earlier report of `-o json`. Raises ValueError."""
    return None if path is None else _read(path, "a report of -o json")


def _read(path: str, what: str) -> dict[str, Any]:
    import json

    from forewarn.policies.config.document import contents

    try:
        found = json.loads(contents(path))
    except (json.JSONDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"{path}: not {what}")
    return found


def write_baseline(path: str, findings: list[Finding], command: str = "lint") -> bool:
    """Write the current findings as a baseline; False, with an error message, if that fails."""
    import json

    from forewarn.policies.evaluation.suppressions import baseline_of

    try:
        write_file(path, (json.dumps(baseline_of(findings), indent=1) + "\n").encode())
    except SourceError as fault:
        complain(command, fault, FAILED)
        return False
    return True


def named_rules(given: list[str], foreign: Sequence[str] = ()) -> frozenset[str]:
    """The rules that are named; `foreign`: those of other packages. Raises ValueError."""
    names = frozenset(name for item in given for name in item.split(",") if name)
    if names:
        from forewarn.policies.rules import RULES
        from forewarn.policies.rules.support.names import nearest

        known = {*(rule.ID for rule in RULES), *foreign}
        for name in sorted(names - known):
            raise ValueError(f'no rule "{name}"{nearest(name, known) or "; see `forewarn lint --list-rules`"}')
    return names
