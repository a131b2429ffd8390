"""`forewarn explain RULE`: what a rule means, why, and what to do."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any

from policies.commands.cluster_command import add_output_option, output_of
from policies.commands.parser import Parser
from policies.findings import cut
from policies.rules import RULES
from policies.rules.support.documentation import documentation_of
from policies.terminal import as_json, complain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.rules.support.context import Rule


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns 0, or 2 where there is no such rule."""
    parser = Parser(
        prog="forewarn explain",
        description="Show what a rule checks, why, and how to fix what it reports.",
        examples=("explain unknown-priority-class", "explain quota-exceeded -o json"),
    )
    parser.add_argument("rule", metavar="RULE", help="id of a rule (`forewarn lint --list-rules` lists them)")
    add_output_option(parser.add_argument)
    options = parser.parse_args(arguments)
    name = options.rule
    known = {rule.ID: rule for rule in RULES}
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; see `forewarn lint --list-rules`"
        return complain("explain", f"no rule {cut(name, 80)!r}{hint}", 2)
    with output_of(options):
        if options.output == "json":
            sys.stdout.write(as_json(_as_dict(known[name])))
        else:
            print("\n".join(_explanation(known[name])))  # noqa: T201
    return 0


def _as_dict(rule: Rule) -> dict[str, Any]:
    documentation = documentation_of(rule)
    examples = [{"heading": each.heading, "manifest": each.yaml} for each in documentation.examples]
    return {
        "rule": rule.ID,
        "kinds": list(rule.TARGETS),
        "severity": str(rule.SEVERITY or ""),
        "action": str(rule.ACTION or ""),
        "what": documentation.what,
        "why": documentation.why,
        "fix": documentation.fix,
        "examples": examples,
    }


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
