"""The report on several clusters: one table, the worst cluster first, then the report of each cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from forewarn.policies.documents.answer import AnswerStatus
from forewarn.policies.findings import cut, equal_to, first_line, one_line, plural
from forewarn.policies.render import Painter, answer, within
from forewarn.policies.render.openreports import as_list, of_cluster, without_answer
from forewarn.policies.render.table import fitting, folded, left_out, markdown_table, page_table, text_of, titles

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import AnswerHead
    from forewarn.policies.documents.answer import AnswerDocument

MAX_BYTES: Final = 60_000
"""Of a comment; GitHub accepts 65,536 characters."""


class OneAnswer(Protocol):
    """The answer about one of several clusters, and its input."""

    @property
    def cluster(self) -> str: ...
    @property
    def document(self) -> AnswerDocument: ...
    @property
    def head(self) -> AnswerHead: ...


def text(
    document: AnswerDocument, head: AnswerHead, clusters: Sequence[OneAnswer], paint: Painter, level: int
) -> Iterator[str]:
    """The answer about several clusters as lines of text, with `level` followed by that about each."""
    yield from answer.text(document, head, paint, level)
    for each in clusters if level else ():
        yield ""
        yield paint(cut(one_line(each.cluster), _LONGEST), "bold")
        yield from answer.text(each.document, each.head, paint, level)


def comment(document: AnswerDocument, head: AnswerHead, clusters: Sequence[OneAnswer]) -> str:
    """The answer as Markdown for a comment of limited length, with folded answers about the affected clusters."""
    first = answer.markdown(document, head, 0 if clusters else 1).splitlines()
    kept = within(first, MAX_BYTES // 2, lambda line: len(line.encode()) + 1)
    parts = ["\n".join([*kept, *(["", *left_out(len(first), len(kept), "line")] if first[len(kept) :] else [])])]
    affected = (each for each in clusters if each.document.status is not AnswerStatus.OK)
    folded_answers = (folded(one_line(each.cluster), answer.markdown(each.document, each.head)) for each in affected)
    return "\n\n".join(fitting([*parts, *folded_answers], MAX_BYTES, "cluster"))


VERSION: Final = 1
"""Of the JSON document."""
MAX_RUNS: Final = 20
"""GitHub accepts no more runs in a SARIF file."""
_LONGEST: Final = 120
"""Characters of a cluster's name in a heading."""
_LONGEST_REASON: Final = 150
_HARMFUL: Final = ("HARM", "BLOCKED", "REJECTED")


class Outcome(NamedTuple):
    """The result for one cluster. `source`: a context or the path of a snapshot.

    `status`: the exit status for this cluster alone. `reason`: why the command has no result; "" if there is one.
    `rank`: numbers that are larger for a worse cluster, for sorting. `cells`: the cluster's table row without the
    name. `report`: text or JSON data. `verdict`: its first line as text. `messages`: lines for standard error.
    """

    name: str
    source: str
    status: int
    reason: str = ""
    rank: Sequence[int] = ()
    row: Mapping[str, str | int] = {}
    report: Any = ""
    verdict: str = ""
    messages: Sequence[str] = ()


def worst_first(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Sort clusters: those without a result first, then those that fail, then by rank, then by name."""
    return sorted(outcomes, key=lambda item: (*_badness(item), item.name))


def _badness(outcome: Outcome) -> tuple[bool, bool, list[int]]:
    return not outcome.reason, outcome.status != 1, [-number for number in outcome.rank]


def render(
    command: str,
    outcomes: Sequence[Outcome],
    paint: Callable[[str, str], str],
    clean: Callable[[str], str],
    *,
    width: int = 0,
    in_full: bool = True,
) -> Iterator[str]:
    """The text, line by line; reports are complete lines. `clean`: makes a line printable. `in_full`: with the reports
    of clusters below the table, and reasons that the table cuts. `width`: as in `page_table`.
    """
    yield paint(clean(verdict(command, outcomes)), "warning" if any(item.status for item in outcomes) else "good")
    head, *rows = page_table(*_table(command, outcomes), width)
    yield paint(head, "bold")
    for outcome, row in zip(outcomes, rows, strict=True):
        yield paint(clean(row), "error") if outcome.reason else clean(row)
    for outcome, row in zip(outcomes, rows, strict=True) if in_full else ():
        if outcome.reason and row.endswith(one_line(outcome.reason)):
            continue
        yield ""
        yield paint(clean(name_of(outcome)), "bold")
        if outcome.reason:
            yield clean(_why(outcome))
        else:
            yield str(outcome.report).removesuffix("\n") or "no findings"


def verdict(command: str, outcomes: Sequence[Outcome]) -> str:
    """Return the verdict on the first cluster, or on all if it is the same, with the numbers of clusters, of those
    without a result, and of those that fail (exit status 1).
    """
    known = [outcome for outcome in outcomes if not outcome.reason]
    failed, unknown = sum(outcome.status == 1 for outcome in known), len(outcomes) - len(known)
    if not known:
        return f"{plural(unknown, 'cluster')}{_without_answer(outcomes)}"
    parts = [f"{unknown} more{_without_answer(outcomes[:unknown])}"] if unknown else []
    parts += [plural(failed, "fails", "fail")] if failed else []
    harmed = sum(_is_harmed(outcome) for outcome in known) if command == "whatif" and known[1:] else 0
    parts += [f"{harmed} harmed"] if harmed else []
    others = f" ({', '.join(parts)})" if parts else ""
    which = f"{name_of(known[0])}{others}"
    if known[1:]:
        is_same = all(outcome.verdict == known[0].verdict for outcome in known)
        equal = equal_to([name_of(each) for each in known[1:] if _badness(each) == _badness(known[0])], "cluster")
        first = f"most affected of {len(known)} clusters{others}: {name_of(known[0])}{equal}"
        every = "both" if len(known) == 2 else f"all {len(known)}"
        which = f"{every} clusters{others}" if is_same else first
    return first_line(f"{which}: {one_line(known[0].verdict)}")


def _is_harmed(outcome: Outcome) -> bool:
    """Whether a simulated change, or a case of `--each`, does harm in a cluster."""
    row = outcome.row
    return bool(row.get("HARMFUL")) or row.get("STATUS") in _HARMFUL


def _without_answer(outcomes: Sequence[Outcome]) -> str:
    """Why clusters have no result, as a clause: the reason of all, or of the first one with its name."""
    first, *others = outcomes
    reason = first.reason.removeprefix(f"{first.source}: ").partition(". Fix: ")[0]
    reason = cut(one_line(reason), _LONGEST_REASON)
    if any(other.reason != first.reason for other in others):
        reason = f"{name_of(first)}: {reason}"
    return f": {reason}" if all(map(_is_rejection, outcomes)) else f" without an answer: {reason}"


def _is_rejection(outcome: Outcome) -> bool:
    """Whether the reason is an answer by itself; read from its text, because reports to merge contain no more."""
    return outcome.reason.startswith("rejected: ")


def _why(outcome: Outcome) -> str:
    return outcome.reason if _is_rejection(outcome) else f"no answer: {outcome.reason}"


def name_of(outcome: Outcome) -> str:
    """The name of the cluster in a heading or message."""
    return cut(one_line(outcome.name[: 4 * _LONGEST]), _LONGEST)


def _table(command: str, outcomes: Sequence[Outcome]) -> tuple[list[str], list[list[str | int]]]:
    """The heads and rows of the table; of `whatif` without columns in which all numbers are 0."""
    rows = [outcome.row for outcome in outcomes if not outcome.reason]
    every = [*rows[0]] if rows else ["RESULT"]
    heads = [head for head in every if command != "whatif" or any(row[head] for row in rows)] or every[:1]
    unknown: list[str | int] = ["-"] * (len(heads) - 1)
    cells = (
        [*unknown, _why(outcome)] if outcome.reason else [outcome.row[head] for head in heads] for outcome in outcomes
    )
    return ["CLUSTER", *heads], [[name_of(outcome), *row] for outcome, row in zip(outcomes, cells, strict=True)]


def markdown(command: str, outcomes: Sequence[Outcome], *, in_full: bool = True) -> str:
    """The same table, and with `in_full` the report of each cluster below its name."""
    lines = [first_line(f"## forewarn {command}: {text_of(verdict(command, outcomes))}"), ""]
    heads, rows = _table(command, outcomes)
    lines += markdown_table(titles(heads), rows)
    for outcome in outcomes if in_full else ():
        if not outcome.reason:
            lines += ["", f"## {text_of(name_of(outcome))}", "", str(outcome.report).strip("\n")]
    return "\n".join(lines) + "\n"


def as_dict(command: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {"version": VERSION, "command": command, "clusters": [*map(_cluster, outcomes)]}


def _cluster(outcome: Outcome) -> dict[str, Any]:
    document: dict[str, Any] = {"cluster": outcome.name, "source": outcome.source, "status": outcome.status}
    if outcome.reason:
        return {**document, "reason": outcome.reason}
    row = {"verdict": one_line(outcome.verdict), "rank": [*outcome.rank], "row": outcome.row}
    return {**document, **row, "report": outcome.report}


def from_dict(document: dict[str, Any]) -> tuple[str, list[Outcome]]:
    """The command and the results in a document of `as_dict`. Raises ValueError."""
    return str(document.get("command")), [*map(_outcome, document["clusters"])]


def _outcome(value: Any) -> Outcome:
    """Raises ValueError."""
    document = value if isinstance(value, dict) else {}
    name, source, status, reason = (document.get(key) for key in ("cluster", "source", "status", "reason"))
    if not (isinstance(name, str) and isinstance(source, str) and status in (0, 1, 2, 3)):
        raise ValueError("not the report of forewarn on several clusters")
    if isinstance(reason, str) and reason:
        return Outcome(name, source, status, reason)
    verdict, row, rank = document.get("verdict"), document.get("row"), document.get("rank")
    is_named = isinstance(verdict, str) and "report" in document
    if not (is_named and isinstance(row, dict) and row and isinstance(rank, list)):
        raise ValueError(f"{cut(one_line(name), _LONGEST)}: incomplete report. Fix: write it again with -o json")
    is_clean = all(type(cell) in (str, int) and one_line(head) == head for head, cell in row.items())
    if not (is_clean and all(type(number) is int for number in rank)):
        raise ValueError(f"{cut(one_line(name), _LONGEST)}: not a report of forewarn")
    return Outcome(name, source, status, "", rank, row, document["report"], str(verdict))


def sarif(outcomes: Sequence[Outcome], version: str) -> str:
    """Return SARIF with one run for each cluster, the worst first. The id of the run contains the name of the
    cluster.
    """
    from forewarn.policies.render.sarif import SCHEMA  # imports all rules

    driver = {"driver": {"name": "forewarn", "semanticVersion": version}}
    runs, document = list[Any](), {"$schema": SCHEMA, "version": "2.1.0"}
    for outcome in outcomes:
        name = {"automationDetails": {"id": f"forewarn/{name_of(outcome)}/"}}
        if outcome.reason:
            parts = {"level": "error", "message": {"text": outcome.reason}}
            failed = {"executionSuccessful": False, "toolExecutionNotifications": [parts]}
            runs.append({"tool": driver, **name, "invocations": [failed], "results": []})
        else:
            runs += [{**run, **name} for run in outcome.report["runs"]]
    return json.dumps({**document, "runs": runs}, indent=1) + "\n"


def openreports(outcomes: Sequence[Outcome]) -> str:
    """Return a List with a ClusterReport for each cluster, as JSON."""
    reports = (without_answer(each.reason) if each.reason else each.report["items"][0] for each in outcomes)
    return as_list([of_cluster(report, each.name) for report, each in zip(reports, outcomes, strict=True)])
