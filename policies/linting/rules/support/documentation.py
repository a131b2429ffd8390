"""The docstrings of rules, parsed: for `forewarn explain`, docs/reference/rules, SARIF and tests of the examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND

if TYPE_CHECKING:
    from forewarn.policies.linting.rules.support.context import Rule

_EXAMPLE: Final = re.compile(
    r"^(Options|Cluster|Bad|Good|Example)(?: \(([^)]+)\))?:\n\n((?:    .*\n|\n)+)", re.MULTILINE
)
_ABBREVIATED: Final = re.compile(r"([A-Z]\w+) (?:([\w.-]+)/)?([\w.-]+)")
_API_VERSIONS: Final = {spec.kind: spec.api_version for spec in BY_GROUP_KIND.values()}


@dataclass(frozen=True, slots=True)
class Example:
    """An example in a rule's docstring. `heading`: Options (a configuration file), Cluster, Bad or Good.

    `mode`: empty, DELETE, validate (evaluated after all mutation), or `also RULE`: the rule RULE also reports the
    example; of a Cluster: Bad or Good if it is only the cluster of this example.
    """

    heading: str
    mode: str
    yaml: str

    @property
    def also(self) -> str:
        """The id of the other rule that also reports the example; "" if there is none."""
        return self.mode.removeprefix("also ") if self.mode.startswith("also ") else ""

    def is_cluster_of(self, heading: str) -> bool:
        """Whether these are objects of the cluster for the example Bad or Good."""
        return self.heading == "Cluster" and self.mode in ("", heading)


@dataclass(frozen=True, slots=True)
class Documentation:
    """A rule's docstring, parsed. `details`: exact conditions and limits; "" if there are none."""

    what: str
    why: str
    details: str
    fix: str
    examples: tuple[Example, ...]


def documentation_of(rule: Rule) -> Documentation:
    """Parse a rule's docstring. Raises ValueError if a part is missing.

    The heading Example stands for Bad and Good: lines that begin with `-` are only in Bad, lines that begin with `+`
    only in Good. A line `Pod team/web` stands for apiVersion, kind, name and namespace of the object.
    """
    what, _, rest = (rule.__doc__ or "").strip().partition("\n")
    text = dedent(rest) + "\n"
    examples = tuple(_examples(text))
    why, fix = _paragraph("Why", text), _paragraph("Fix", text)
    if not why or not fix or not {"Bad", "Good"} <= {example.heading for example in examples}:
        raise ValueError(f"the docstring of rule {rule.ID} needs Why, Bad, Good and Fix")
    return Documentation(what, why, _paragraph("Details", text), fix, examples)


def _examples(text: str) -> Iterator[Example]:
    for heading, mode, block in _EXAMPLE.findall(text):
        lines = [line[4:] for line in block.strip("\n").splitlines()]
        if heading == "Example":
            yield Example("Bad", mode, _expanded(line[2:] for line in lines if line[0] != "+"))
            in_good = "" if mode.startswith("also ") else mode
            yield Example("Good", in_good, _expanded(line[2:] for line in lines if line[0] != "-"))
        else:
            yield Example(heading, mode, _expanded(lines))


def _expanded(lines: Iterable[str]) -> str:
    return "".join(f"{_head(line)}\n" for line in lines)


def _head(line: str) -> str:
    head = _ABBREVIATED.fullmatch(line)
    if head is None or head[1] not in _API_VERSIONS:
        return line
    kind, namespace, name = head.groups()
    within = f"\n  namespace: {namespace}" if namespace else ""
    return f"apiVersion: {_API_VERSIONS[kind]}\nkind: {kind}\nmetadata:\n  name: {name}{within}"


def _paragraph(heading: str, text: str) -> str:
    """The paragraph of the docstring that starts with a heading, on one line without the heading; "" if missing."""
    paragraph = re.search(rf"^{heading}: ((?:.+\n)+)", text, re.MULTILINE)
    return " ".join(paragraph[1].split()) if paragraph else ""
