"""The answer about several clusters in each format: one table, the worst cluster first, then each report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.documents import json_of
from forewarn.policies.base.documents.answer import AnswerDocument, AnswerStatus
from forewarn.policies.base.findings import brief, one_line, plural
from forewarn.policies.cli.render import Painter, answer, fitting_prefix
from forewarn.policies.cli.render.head import merged
from forewarn.policies.cli.render.openreports import as_list, rename_for_cluster, without_answer
from forewarn.policies.cli.render.table import fitting, folded, left_out, text_of
from forewarn.policies.questions.application import several_clusters
from forewarn.policies.questions.application.several_clusters import AnswerOn, OnCluster

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import AnswerHead

MAX_BYTES: Final = 60_000
"""Maximum bytes of a comment; GitHub accepts 65,536 characters."""


def text(
    document: AnswerDocument, head: AnswerHead, clusters: Sequence[AnswerOn], paint: Painter, level: int
) -> Iterator[str]:
    """The answer about several clusters as lines of text; if `level` is above 0, followed by the answer about each."""
    yield from answer.text(document, head, paint, level)
    for each in clusters if level else ():
        yield ""
        yield paint(brief(each.cluster, _MAX_LENGTH), "bold")
        yield from answer.text(each.document, each.head, paint, level)


def comment(document: AnswerDocument, head: AnswerHead, clusters: Sequence[AnswerOn]) -> str:
    """The answer as Markdown for a comment of limited length, with folded answers about the affected clusters."""
    first = answer.markdown(document, head, 0 if clusters else 1).splitlines()
    kept = fitting_prefix(first, MAX_BYTES // 2, lambda line: len(line.encode()) + 1)
    parts = ["\n".join([*kept, *(["", *left_out(len(first), len(kept), "line")] if first[len(kept) :] else [])])]
    if details := [table for table in document.tables if clusters and table.detail == 1]:
        parts.append(folded("details of the change", "\n".join(answer.tables_as_markdown(details))))
    affected = (each for each in clusters if each.document.status is not AnswerStatus.OK)
    folded_answers = (folded(one_line(each.cluster), answer.markdown(each.document, each.head)) for each in affected)
    return "\n\n".join(fitting([*parts, *folded_answers], MAX_BYTES, "part"))


VERSION: Final = 1
"""The version of the JSON document."""
MAX_RUNS: Final = 20
"""Maximum number of runs that GitHub accepts in a SARIF file."""
_MAX_LENGTH: Final = 120
"""Maximum characters of a cluster's name in a heading."""


class Outcome(NamedTuple):
    """The result for one cluster. `source`: a context or the path of a snapshot.

    `status`: the exit status for this cluster alone. `reason`: why the command has no result; "" if there is one.
    `rank`: numbers that are larger for a worse cluster, for sorting. `row`: the cells of the cluster's table row by
    column. `report`: text or JSON data. `headline`: its first line as text. `messages`: lines for standard error.
    `head`: its input.
    """

    name: str
    source: str
    status: int
    reason: str = ""
    rank: Sequence[int] = ()
    row: Mapping[str, str | int] = {}
    report: Any = ""
    headline: str = ""
    messages: Sequence[str] = ()
    head: AnswerHead | None = None


def worst_first(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Sort clusters: those without a result first, then by rank, then by name."""

    def place(outcome: Outcome) -> tuple[bool, bool, list[int], str]:
        is_rejected = outcome.reason.startswith(_REJECTED)
        return not outcome.reason, is_rejected, [-number for number in outcome.rank], outcome.name

    return sorted(outcomes, key=place)


def document_of(outcomes: Sequence[Outcome]) -> AnswerDocument:
    """The answer about all clusters."""
    rows = []
    for outcome in outcomes:
        is_rejected = outcome.reason.startswith(_REJECTED)
        reason = outcome.reason.removeprefix(_REJECTED).removeprefix(f"{outcome.source}: ")
        status = AnswerStatus.REJECTED if is_rejected else AnswerStatus.NO_ANSWER
        cells = {"STATUS": str(status), "BECAUSE": reason} if reason else outcome.row
        rows.append(OnCluster(outcome.name, reason.partition(". Fix: ")[0] or outcome.headline, cells))
    return several_clusters.document_of(plural(len(outcomes), "cluster"), rows)


_REJECTED: Final = "rejected: "
"""The start of a reason that is an answer of its own, not an error."""


def head_of(outcomes: Iterable[Outcome]) -> AnswerHead:
    """The input of the answers about all clusters."""
    return several_clusters.head_of(outcome.head for outcome in outcomes if outcome.head is not None)


def lines(outcomes: Sequence[Outcome], paint: Painter, level: int) -> Iterator[str]:
    """The answer as lines of text; if `level` is above 0, followed by the report on each cluster."""
    yield from answer.text(document_of(outcomes), head_of(outcomes), paint, level)
    for outcome in outcomes if level else ():
        yield ""
        yield paint(brief(outcome.name, _MAX_LENGTH), "bold")
        yield from (outcome.reason or str(outcome.report)).splitlines() or ["no findings"]


def markdown(outcomes: Sequence[Outcome], *, in_full: bool = True) -> str:
    """Return the answer as Markdown; with `in_full`, followed by the report on each cluster below its name."""
    answered = (outcome for outcome in outcomes if in_full and not outcome.reason)
    reports = (f"## {text_of(brief(each.name, _MAX_LENGTH))}\n\n{str(each.report).strip()}\n" for each in answered)
    return "\n".join([answer.markdown(document_of(outcomes), head_of(outcomes), 0), *reports])


def as_dict(command: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    document = json_of(document_of(outcomes)) if outcomes else {}
    return {**document, "version": VERSION, "command": command, "clusters": [*map(_cluster, outcomes)]}


def _cluster(outcome: Outcome) -> dict[str, Any]:
    document: dict[str, Any] = {"cluster": outcome.name, "source": outcome.source, "status": outcome.status}
    if outcome.reason:
        return {**document, "reason": outcome.reason}
    row = {"headline": one_line(outcome.headline), "rank": [*outcome.rank], "row": outcome.row}
    return {**document, **row, "report": outcome.report}


def from_dict(document: dict[str, Any]) -> tuple[str, list[Outcome]]:
    """The command and the results in a document of `as_dict`. Raises ValueError."""
    return str(document.get("command")), [*map(_outcome, document["clusters"])]


def _outcome(value: Any) -> Outcome:
    """Return the outcome of one cluster from its JSON value. Raises ValueError."""
    document = value if isinstance(value, dict) else {}
    name, source, status, reason = (document.get(key) for key in ("cluster", "source", "status", "reason"))
    if not (isinstance(name, str) and isinstance(source, str) and status in (0, 1, 2, 3)):
        raise ValueError("not the report of forewarn on several clusters")
    if isinstance(reason, str) and reason:
        return Outcome(name, source, status, reason)
    headline, row, rank = document.get("headline"), document.get("row"), document.get("rank")
    is_named = isinstance(headline, str) and "report" in document
    if not (is_named and isinstance(row, dict) and row and isinstance(rank, list)):
        raise ValueError(f"{brief(name, _MAX_LENGTH)}: incomplete report. Fix: write it again with -o json")
    is_clean = all(type(cell) in (str, int) and one_line(head) == head for head, cell in row.items())
    if not (is_clean and row.get("STATUS") in [*AnswerStatus] and all(type(number) is int for number in rank)):
        raise ValueError(f"{brief(name, _MAX_LENGTH)}: not a report of forewarn")
    report, head = document["report"], None
    with suppress(ValueError):  # a report without a head, such as SARIF
        head = merged([report])
    return Outcome(name, source, status, "", rank, row, report, str(headline), head=head)


def sarif(outcomes: Sequence[Outcome], version: str) -> str:
    """Return SARIF with one run for each cluster, the worst first. The id of the run contains the name of the
    cluster.
    """
    from forewarn.policies.cli.render.sarif import SCHEMA  # imports all rules

    driver = {"driver": {"name": "forewarn", "semanticVersion": version}}
    runs, document = list[Any](), {"$schema": SCHEMA, "version": "2.1.0"}
    for outcome in outcomes:
        name = {"automationDetails": {"id": f"forewarn/{brief(outcome.name, _MAX_LENGTH)}/"}}
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
    return as_list([rename_for_cluster(report, each.name) for report, each in zip(reports, outcomes, strict=True)])
