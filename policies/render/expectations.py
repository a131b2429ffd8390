"""Results of expectations as text and JUnit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from forewarn.policies.expectations import MAX_TIMELINE, Tested
from forewarn.policies.findings import cut, first_line, first_of, listed, no_command_in_markup, one_line, plural, quote
from forewarn.policies.render import Painter, plain

_LONGEST_REASON: Final = 100
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(results: Sequence[Tested], paint: Painter = plain) -> Iterator[str]:
    """The numbers of results, and a line for each; below one that is not met, the reason with the counterexample."""
    yield _verdict(results)
    for result in results:
        looked_at = f" ({plural(result.cases, 'case')})" if result.cases > 1 else ""
        failed = "FAILED" if result.failures else "NOT EVALUATED"
        mark = paint("ok", "good") if result.met else paint(failed, "error")
        yield f"{mark}  {result.name}{looked_at}"
        if result.failures:
            yield from (f"  {line}" for line in counterexample(result))
        yield from (f"  - {sentence}" for sentence in result.not_evaluated)
        yield from (paint(f"  note: {note}", "warning") for note in result.notes)
    if any(result.not_evaluated for result in results):
        yield "Fix: correct the class, namespace or workload; --allow-empty accepts expectations that select no Pod"


def _verdict(results: Sequence[Tested]) -> str:
    """The numbers of results, and why expectations are not evaluated."""
    broken, unanswered = _counts(results)
    total = plural(len(results), "expectation")
    not_met = [quote(result.name) for result in results if result.failures]
    others = [quote(result.name) for result in results if result.not_evaluated]
    counts = [f"{broken} of {total} failed: {first_of(not_met, 'expectation')}"] if broken else []
    reasons = dict.fromkeys(reason for result in results for reason in result.not_evaluated)
    why = cut(listed([*map(one_line, reasons)], 1), _LONGEST_REASON)
    named = first_of(others, "expectation")
    counts += [f"{unanswered} of {total} not evaluated: {named} ({why})"] if unanswered else []
    met = sum(result.met for result in results)
    return first_line("; ".join([*counts, f"{met} met"] if met else counts) if counts else f"{total}: all met")


def _counts(results: Sequence[Tested]) -> tuple[int, int]:
    return sum(bool(result.failures) for result in results), sum(bool(result.not_evaluated) for result in results)


def counterexample(result: Tested) -> Iterator[str]:
    """The case, the violation, and the events before it, as lines."""
    yield result.case
    yield from (f"- {sentence}" for sentence in result.failures[:MAX_TIMELINE])
    if len(result.failures) > MAX_TIMELINE:
        yield f"- and {len(result.failures) - MAX_TIMELINE} more"
    yield from (f"  {line}" for line in result.timeline or ())


def junit(results: Sequence[Tested], suite: str) -> str:
    """The results as JUnit XML for Jenkins and GitLab."""
    broken, unanswered = _counts(results)
    counts = f'tests="{len(results)}" failures="{broken}" errors="{unanswered}"'
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f"<testsuites {counts}>"]
    lines.append(f"<testsuite name={_attribute(suite)} {counts}>")
    for result in results:
        lines.append(f"<testcase classname={_attribute(suite)} name={_attribute(result.name)}>")
        if result.failures:
            text = "\n".join(map(_text, counterexample(result)))
            lines.append(f"<failure message={_attribute(result.failures[0])}>{text}</failure>")
        if result.not_evaluated:
            text = "; ".join(result.not_evaluated)
            lines.append(f"<error message={_attribute(text)}>{_text(text)}</error>")
        if result.notes:
            lines.append(f"<system-out>{_text('; '.join(result.notes))}</system-out>")
        lines.append("</testcase>")
    return no_command_in_markup("\n".join([*lines, "</testsuite>", "</testsuites>"]))


def _text(text: str) -> str:
    return escape(_NO_XML.sub("?", one_line(text)))


def _attribute(text: str) -> str:
    return quoteattr(_NO_XML.sub("?", one_line(text)))
