"""`forewarn explain RULE`: what a rule means, why, and what to do."""

from __future__ import annotations

from difflib import get_close_matches
from textwrap import fill, indent
from typing import TYPE_CHECKING

from policies.commands.parser import Parser
from policies.rules import RULES
from policies.rules.support.documentation import documentation_of
from policies.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.rules.support.context import Rule


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, or 2 where there is no such rule."""
    parser = Parser(prog="forewarn explain", description="What a rule means, why, and what to do.")
    parser.add_argument("rule", metavar="RULE", help="a rule's id (`forewarn lint --list-rules` has them all)")
    name = parser.parse_args(arguments).rule
    known = {rule.ID: rule for rule in RULES}
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; see `forewarn lint --list-rules`"
        say(f"forewarn explain: no rule {name!r}{hint}")
        return 2
    print("\n".join(_explanation(known[name])))  # noqa: T201
    return 0


def _explanation(rule: Rule) -> Iterator[str]:
    documentation = documentation_of(rule)
    about = ", ".join(rule.TARGETS)
    yield f"{rule.ID}  (about {about}; linter: {rule.SEVERITY or '-'}; webhook: {rule.ACTION or '-'})"
    yield ""
    yield fill(documentation.what, 100)
    yield ""
    yield fill(f"Why: {documentation.why}", 100)
    for example in documentation.examples:
        mode = f" ({example.mode})" if example.mode else ""
        yield ""
        yield f"{example.heading}{mode}:"
        yield ""
        yield indent(example.yaml.rstrip(), "    ")
    yield ""
    yield fill(f"Fix: {documentation.fix}", 100)
