"""Verdicts on expectations: for people, as JUnit, and for programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from xml.sax.saxutils import escape, quoteattr

from policies.findings import one_line, plural
from policies.render.simulation import timeline
from policies.whatif.comparison import as_dict as answer_as_dict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.expectations.judge import Verdict

MOST_LINES: Final = 30
"""Of a counterexample."""
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _plain(text: str, style: str) -> str:  # noqa: ARG001  (the signature of a painter)
    return text


def render(verdicts: Sequence[Verdict], paint: Callable[[str, str], str] = _plain) -> Iterator[str]:
    """A line for each, and below one that does not hold why, with the counterexample as it goes."""
    for verdict in verdicts:
        looked_at = f" ({plural(verdict.cases, 'case')})" if verdict.cases > 1 else ""
        mark = paint("FAILED", "error") if verdict.broken else paint("ok", "good")
        yield f"{mark}  {verdict.expectation.name}{looked_at}"
        if verdict.broken:
            yield from (f"  {line}" for line in counterexample(verdict))
    broken = sum(bool(verdict.broken) for verdict in verdicts)
    yield f"{plural(len(verdicts), 'expectation')}: {f'{broken} broken' if broken else 'all hold'}"


def counterexample(verdict: Verdict) -> Iterator[str]:
    """The case, what breaks the expectation in it, and how it comes to that."""
    yield verdict.case
    yield from (f"- {sentence}" for sentence in verdict.broken[:MOST_LINES])
    if len(verdict.broken) > MOST_LINES:
        yield f"- and {len(verdict.broken) - MOST_LINES} more"
    if verdict.answer is not None:
        lines = list(timeline(verdict.answer.simulation))
        yield from (f"  {line}" for line in lines[:MOST_LINES])
        if len(lines) > MOST_LINES:
            yield f"  and {len(lines) - MOST_LINES} more lines"


def junit(verdicts: Sequence[Verdict], suite: str) -> str:
    """As Jenkins and GitLab read it."""
    broken = sum(bool(verdict.broken) for verdict in verdicts)
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<testsuites tests="{len(verdicts)}" failures="{broken}">']
    lines.append(f'<testsuite name={_attribute(suite)} tests="{len(verdicts)}" failures="{broken}">')
    for verdict in verdicts:
        lines.append(f"<testcase classname={_attribute(suite)} name={_attribute(verdict.expectation.name)}>")
        if verdict.broken:
            text = escape(_NO_XML.sub("?", "\n".join(map(one_line, counterexample(verdict)))))
            lines.append(f"<failure message={_attribute(verdict.broken[0])}>{text}</failure>")
        lines.append("</testcase>")
    return "\n".join([*lines, "</testsuite>", "</testsuites>"])


def _attribute(text: str) -> str:
    return quoteattr(_NO_XML.sub("?", one_line(text)))


def as_dict(verdict: Verdict) -> dict[str, Any]:
    """For programs."""
    told: dict[str, Any] = {"name": verdict.expectation.name, "holds": not verdict.broken, "cases": verdict.cases}
    if verdict.broken:
        told |= {"case": verdict.case, "broken": list(verdict.broken)}
        told |= {"answer": answer_as_dict(verdict.answer)} if verdict.answer else {}
    return told
