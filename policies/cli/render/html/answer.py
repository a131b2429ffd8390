"""An AnswerDocument as an HTML page: status, tiles, reasons, tables, fixes, nodes and input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.documents.answer import AnswerDocument, AnswerStatus, Table, label
from forewarn.policies.cli.render.answer import MAX_WARNINGS, counter_value
from forewarn.policies.cli.render.head import line_of
from forewarn.policies.cli.render.html.elements import (
    Page,
    data,
    display_text,
    element,
    listing,
    section,
    table,
    template,
    tiles,
)
from forewarn.policies.cli.render.html.nodes import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

    from forewarn.policies.kubernetes.cluster.cache import AnswerHead

_SEARCHED: Final = 10
"""A table with more rows than this gets a search field."""


def page(document: AnswerDocument, head: AnswerHead, *parts: Element, drawn: dict[str, Any] | None = None) -> Page:
    """Return the page of an answer. `drawn`: data of the drawing of nodes. `parts`: sections before the input."""
    picture = [] if drawn is None else [nodes(drawn), data("nodes-data", drawn)]
    shown = [header(document), *body(document), *picture, *parts, footer(head)]
    scripts = ("tables.js", "rows.js", *(["page.js"] if picture else []))
    return Page(document.question, shown, scripts=scripts)


def header(document: AnswerDocument, title: str = "h1") -> Element:
    """Return the status, the question, the consequence, and a tile for each counter. `title`: the tag of the question's
    element.
    """
    is_bad = document.status not in (AnswerStatus.OK, AnswerStatus.WARN)
    counters = (
        (label(counter.name), counter_value(counter), is_bad and bool(counter.value or counter.after))
        for counter in document.shown
    )
    status = element("span", document.status, class_=f"status {document.status.lower().replace(' ', '-')}")
    return element(
        "header",
        element(title, status, f" {display_text(document.question)}", class_="question"),
        element("p", display_text(document.clause), class_="lead") if document.clause else None,
        tiles(counters),
        *_warnings(document),
    )


def _warnings(document: AnswerDocument) -> Iterator[Element]:
    lines = [f"WARN {warning}" for warning in document.warnings]
    if lines:
        yield listing(lines[:MAX_WARNINGS], "warnings")
    if more := lines[MAX_WARNINGS:]:
        yield element("details", element("summary", f"{len(more):,} more warnings"), listing(more, "warnings"))


def body(document: AnswerDocument) -> Iterator[Element]:
    """Yield the reasons, the tables and the fixes. Tables that text has only with -v are folded."""
    if document.why is not None:
        rows = [(cause.number or "", cause.reason) for cause in document.why.causes]
        title = f"Why {document.why.heading.lower()}"
        yield section(title, "why", table(title, (document.why.counter, "reason"), rows, len(rows), named_by=1))
    folded = []
    for each in document.tables:
        title = each.title or each.columns[0].capitalize()
        if each.detail:
            folded.append(element("details", element("summary", f"{title}: {len(each.rows):,}"), *_table(each, title)))
        else:
            yield element("section", element("h2", title), *_table(each, title))
    if folded:
        yield section("Details", "details-title", *folded)
    if document.fix:
        fixes = listing(f"{fix.action} → {fix.effect}" for fix in document.fix)
        yield section("Fix", "fix", fixes)


def _table(rows: Table, title: str) -> Iterator[Element]:
    if len(rows.rows) > _SEARCHED:
        yield template("search.html")
    columns = [column.lower() for column in rows.columns]
    yield table(title, columns, rows.rows, len(rows.rows), total=rows.total)


def footer(head: AnswerHead) -> Element:
    """Return the input and the assumptions."""
    return element("p", display_text(line_of(head)), class_="dim")
