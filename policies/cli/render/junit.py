"""Results of expectations as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from forewarn.policies.base.findings import no_command_in_markup, one_line
from forewarn.policies.questions.expectations import MAX_TIMELINE, Tested

_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _counterexample(result: Tested) -> Iterator[str]:
    """The case, the violation, and the events before it, as lines."""
    yield result.case
    yield from (f"- {sentence}" for sentence in result.failures[:MAX_TIMELINE])
    if len(result.failures) > MAX_TIMELINE:
        yield f"- and {len(result.failures) - MAX_TIMELINE} more"
    yield from (f"  {line}" for line in result.timeline or ())


def junit(results: Sequence[Tested], suite: str) -> str:
    """The results as JUnit XML for Jenkins and GitLab."""
    broken = sum(bool(result.failures) for result in results)
    unanswered = sum(bool(result.not_evaluated) for result in results)
    counts = f'tests="{len(results)}" failures="{broken}" errors="{unanswered}"'
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f"<testsuites {counts}>"]
    lines.append(f"<testsuite name={_attribute(suite)} {counts}>")
    for result in results:
        lines.append(f"<testcase classname={_attribute(suite)} name={_attribute(result.name)}>")
        if result.failures:
            text = "\n".join(map(_text, _counterexample(result)))
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
