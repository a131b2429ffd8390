"""The docstrings of rules, parsed: for `forewarn explain`, docs/reference/rules, SARIF and tests of the examples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from forewarn.policies.rules.support.context import Rule

_EXAMPLE: Final = re.compile(r"^(Options|Cluster|Bad|Good)(?: \(([^)]+)\))?:\n\n((?:    .*\n|\n)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """An example in a rule's docstring. `heading`: Options (a configuration file), Cluster, Bad or Good.

    `mode`: empty, DELETE, validate (evaluated after all mutation), or `also RULE`: the rule RULE also reports the
    example.
    """

    heading: str
    mode: str
    yaml: str

    @property
    def also(self) -> str:
        """The id of the other rule that also reports the example; "" if there is none."""
        return self.mode.removeprefix("also ") if self.mode.startswith("also ") else ""


@dataclass(frozen=True, slots=True)
class Documentation:
    """A rule's docstring, parsed. `details`: exact conditions and limits; "" if there are none."""

    what: str
    why: str
    details: str
    fix: str
    examples: tuple[Example, ...]


def documentation_of(rule: Rule) -> Documentation:
    """Parse a rule's docstring. Raises ValueError if a part is missing."""
    text = (rule.__doc__ or "").strip() + "\n"
    examples = tuple(Example(m[1], m[2] or "", dedent(m[3]).strip() + "\n") for m in _EXAMPLE.finditer(text))
    why, fix = _paragraph("Why", text), _paragraph("Fix", text)
    if not why or not fix or not {"Bad", "Good"} <= {example.heading for example in examples}:
        raise ValueError(f"the docstring of rule {rule.ID} needs Why, Bad, Good and Fix")
    return Documentation(text.splitlines()[0], why, _paragraph("Details", text), fix, examples)


def _paragraph(heading: str, text: str) -> str:
    """Return the paragraph of the docstring that starts with a heading, on one line without the heading; "" if
    missing.
    """
    found = re.search(rf"^{heading}: ((?:.+\n)+)", text, re.MULTILINE)
    return " ".join(found[1].split()) if found else ""
