"""Baselines, and rules by name: what `lint` and `audit` leave unsaid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.sources import SourceError
from policies.sources.output_file import write_file
from policies.terminal import complain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.findings import Finding

FAILED = 3


def read_baseline(path: str | None) -> dict[str, Any] | None:
    """What a baseline file holds. Raises ValueError."""
    if path is None:
        return None
    import json

    from policies.config.document import contents

    found = json.loads(contents(path))
    if not isinstance(found, dict):
        raise ValueError(f"{path}: not a baseline")
    return found


def write_baseline(path: str, findings: list[Finding], command: str = "lint") -> bool:
    """Write what is found now as a baseline; False, and said, where that cannot be."""
    import json

    from policies.suppressions import baseline_of

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
        from policies.rules import RULES
        from policies.rules.support.names import nearest

        known = {*(rule.ID for rule in RULES), *foreign}
        for name in sorted(names - known):
            raise ValueError(f'no rule "{name}"{nearest(name, known) or "; see `forewarn lint --list-rules`"}')
    return names
