"""Results of expectations as text, JUnit and JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from forewarn.policies.findings import no_command_in_markup, one_line, plural
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.simulation import timeline
from forewarn.policies.whatif.answer import as_dict as answer_as_dict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.expectations import Verdict

MAX_LINES: Final = 30
"""Maximum lines of a counterexample."""
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Result(NamedTuple):
    """The result of one expectation.

    `case`: the first case that violates the expectation. `broken`: sentences about the violation; empty if met.
    `timeline`: lines about the events before the violation. `answer`: the complete case as JSON. `unanswered`: parts
    of the expectation that select no Pod, so that it is neither met nor violated. `notes`: parts that may select no
    Pod.
    """

    name: str
    cases: int
    case: str = ""
    broken: Sequence[str] = ()
    timeline: Sequence[str] = ()
    answer: Mapping[str, Any] | None = None
    unanswered: Sequence[str] = ()
    notes: Sequence[str] = ()

    @property
    def is_met(self) -> bool:
        """True if the expectation was evaluated and is met."""
        return not self.broken and not self.unanswered


def result_of(verdict: Verdict, *, allow_empty: bool = False) -> Result:
    """Return the result for a verdict as text. `allow_empty`: parts of the expectation that select no Pod count as
    met.
    """
    answer, notes = verdict.answer, list(verdict.notes)
    unanswered = [] if allow_empty else list(verdict.unanswered)
    result = Result(verdict.expectation.name, verdict.cases, verdict.case, list(verdict.broken))
    if allow_empty:
        notes = [*verdict.unanswered, *notes]
    if answer is not None:
        lines = list(timeline(answer.simulation))
        more = [f"and {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
        result = result._replace(timeline=[*lines[:MAX_LINES], *more], answer=answer_as_dict(answer))
    return result._replace(unanswered=unanswered, notes=notes)


def render(results: Sequence[Result], paint: Painter = plain) -> Iterator[str]:
    """The numbers of results, and a line for each; below one that is not met, the reason with the counterexample."""
    broken, unanswered = _counts(results)
    failures = [f"{count} {what}" for count, what in ((broken, "failed"), (unanswered, "not evaluated")) if count]
    yield f"{plural(len(results), 'expectation')}: {', '.join(failures) or 'all met'}"
    for result in results:
        looked_at = f" ({plural(result.cases, 'case')})" if result.cases > 1 else ""
        mark = (
            paint("FAILED" if result.broken else "NOT EVALUATED", "error") if not result.is_met else paint("ok", "good")
        )
        yield f"{mark}  {result.name}{looked_at}"
        if result.broken:
            yield from (f"  {line}" for line in counterexample(result))
        yield from (f"  - {sentence}" for sentence in result.unanswered)
        yield from (paint(f"  note: {note}", "warning") for note in result.notes)
    if unanswered:
        yield "Fix: correct the class, namespace or workload; --allow-empty accepts expectations that select no Pod"


def _counts(results: Sequence[Result]) -> tuple[int, int]:
    """The numbers of violated expectations, and of those that were not evaluated."""
    return sum(bool(result.broken) for result in results), sum(bool(result.unanswered) for result in results)


def counterexample(result: Result) -> Iterator[str]:
    """The case, the violation, and the events before it, as lines."""
    yield result.case
    yield from (f"- {sentence}" for sentence in result.broken[:MAX_LINES])
    if len(result.broken) > MAX_LINES:
        yield f"- and {len(result.broken) - MAX_LINES} more"
    yield from (f"  {line}" for line in result.timeline)


def junit(results: Sequence[Result], suite: str) -> str:
    """The results as JUnit XML for Jenkins and GitLab."""
    broken, unanswered = _counts(results)
    counts = f'tests="{len(results)}" failures="{broken}" errors="{unanswered}"'
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f"<testsuites {counts}>"]
    lines.append(f"<testsuite name={_attribute(suite)} {counts}>")
    for result in results:
        lines.append(f"<testcase classname={_attribute(suite)} name={_attribute(result.name)}>")
        if result.broken:
            text = "\n".join(map(_text, counterexample(result)))
            lines.append(f"<failure message={_attribute(result.broken[0])}>{text}</failure>")
        if result.unanswered:
            text = "; ".join(result.unanswered)
            lines.append(f"<error message={_attribute(text)}>{_text(text)}</error>")
        if result.notes:
            lines.append(f"<system-out>{_text('; '.join(result.notes))}</system-out>")
        lines.append("</testcase>")
    return no_command_in_markup("\n".join([*lines, "</testsuite>", "</testsuites>"]))


def _text(text: str) -> str:
    return escape(_NO_XML.sub("?", one_line(text)))


def _attribute(text: str) -> str:
    return quoteattr(_NO_XML.sub("?", one_line(text)))


def as_dict(result: Result) -> dict[str, Any]:
    """The result as JSON."""
    document: dict[str, Any] = {"name": result.name, "met": result.is_met, "cases": result.cases}
    if result.broken:
        document |= {"case": result.case, "failures": list(result.broken), "timeline": list(result.timeline)}
        document |= {"answer": result.answer} if result.answer else {}
    document |= {"notEvaluated": list(result.unanswered)} if result.unanswered else {}
    return document | ({"notes": list(result.notes)} if result.notes else {})


def from_dict(document: Any) -> Result:
    """The result of `as_dict`. Raises ValueError for other input."""
    if not isinstance(document, dict):
        raise ValueError("a test result must be an object")
    name, cases, case, answer = (
        document.get("name"),
        document.get("cases"),
        document.get("case", ""),
        document.get("answer"),
    )
    parts = [document.get(key, []) for key in ("failures", "timeline", "notEvaluated", "notes")]
    texts = all(isinstance(part, list) and all(isinstance(t, str) for t in part) for part in parts)
    broken, lines, unanswered, notes = parts
    if not isinstance(name, str) or not isinstance(case, str) or not isinstance(cases, int):
        raise ValueError("a test result must have name, cases and case")
    if not texts or not isinstance(answer, dict | None) or document.get("met") is bool(broken or unanswered):
        raise ValueError("a test result must have consistent met, failures and notEvaluated")
    return Result(name, cases, case, broken, lines[: MAX_LINES + 1], answer, unanswered, notes)
