"""The docstrings of rules, taken apart: for `forewarn explain`, docs/rules.md and the test that runs every example."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from policies.rules.support.context import Rule

_EXAMPLE: Final = re.compile(r"^(Options|Cluster|Bad|Good)(?: \(([^)]+)\))?:\n\n((?:    .*\n|\n)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """One example: `heading` Options (a configuration file), Cluster, Bad or Good.

    `mode`: empty, DELETE, validate (judged after all mutation), or `also RULE`: that rule has something to say too.
    """

    heading: str
    mode: str
    yaml: str

    @property
    def also(self) -> str:
        """The other rule that fires on it, empty where there is none."""
        return self.mode.removeprefix("also ") if self.mode.startswith("also ") else ""


@dataclass(frozen=True, slots=True)
class Documentation:
    """What a rule's docstring says."""

    what: str
    why: str
    fix: str
    examples: tuple[Example, ...]


def documentation_of(rule: Rule) -> Documentation:
    """Take a rule's docstring apart. Raises ValueError where a part is missing."""
    text = (rule.__doc__ or "").strip() + "\n"
    examples = tuple(Example(m[1], m[2] or "", dedent(m[3]).strip() + "\n") for m in _EXAMPLE.finditer(text))
    why = re.search(r"^Why: ((?:.+\n)+)", text, re.MULTILINE)
    fix = re.search(r"^Fix: ((?:.+\n)+)", text, re.MULTILINE)
    if why is None or fix is None or not {"Bad", "Good"} <= {example.heading for example in examples}:
        raise ValueError(f"the docstring of rule {rule.ID} lacks Why, Bad, Good or Fix")
    return Documentation(text.splitlines()[0], _flowed(why[1]), _flowed(fix[1]), examples)


def _flowed(text: str) -> str:
    return " ".join(text.split())
