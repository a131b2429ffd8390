"""An AnswerDocument as the parts of an HTML page: status, tiles, reasons, tables, fixes and input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.base.documents.answer import AnswerDocument, AnswerStatus, Table, label
from forewarn.policies.cli.render.answer import assumptions_of, counter_value, input_text, number
from forewarn.policies.cli.render.html.elements import Page, display_text, element, listing, section, table, template

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

    from forewarn.policies.kubernetes.cluster.cache import AnswerHead

_SEARCHED: Final = 10
"""Rows above which a table has a field to search."""


def page(document: AnswerDocument, head: AnswerHead, *parts: Element) -> Page:
    """Return the page of an answer. `parts`: sections before the input."""
    shown = [header(document), *body(document), *parts, footer(head)]
    return Page(document.question, shown, scripts=("tables.js", "rows.js"))


def header(document: AnswerDocument) -> Element:
    """The status, what was asked, the consequence, and a tile for each counter."""
    return element(
        "header",
        element("p", "forewarn", class_="brand"),
        element("h1", _status(document), f" {display_text(document.question)}"),
        element("p", display_text(document.clause), class_="lead") if document.clause else None,
        element("dl", *_tiles(document), class_="tiles"),
        listing(f"WARN {warning}" for warning in document.warnings) if document.warnings else None,
    )


def brief(document: AnswerDocument) -> Element:
    """The status and the consequence with the tiles, for a part of a page."""
    return element(
        "div",
        element("p", _status(document), f" {display_text(document.headline)}", class_="lead"),
        element("dl", *_tiles(document), class_="tiles"),
        listing(f"WARN {warning}" for warning in document.warnings) if document.warnings else None,
    )


def _status(document: AnswerDocument) -> Element:
    return element("span", document.status, class_=f"status {document.status.lower().replace(' ', '-')}")


def _tiles(document: AnswerDocument) -> Iterator[Element]:
    is_bad = document.status not in (AnswerStatus.OK, AnswerStatus.WARN)
    for counter in document.shown:
        bad = " bad" if is_bad and (counter.value or counter.after) else ""
        yield element(
            "div", element("dt", label(counter.name)), element("dd", counter_value(counter)), class_=f"tile{bad}"
        )


def body(document: AnswerDocument) -> Iterator[Element]:
    """Yield the reasons, all tables and the fixes."""
    if document.why is not None:
        rows = [(cause.number or "", cause.reason) for cause in document.why.causes]
        title = f"Why {document.why.heading.lower()}"
        yield section(title, "why", table(title, (document.why.counter, "reason"), rows, len(rows), named_by=1))
    for place, each in enumerate(document.tables):
        yield _section(each, f"table-{place}")
    if document.fix:
        fixes = listing(f"{fix.action} → {fix.effect}" for fix in document.fix)
        yield section("Fix", "fix", fixes)


def _section(rows: Table, name: str) -> Element:
    title = rows.title or rows.columns[0].capitalize()
    heads = [column.lower() for column in rows.columns]
    totals = [
        f"{head} {number(cell)}"
        for head, cell in zip(heads, rows.total, strict=bool(rows.total))
        if isinstance(cell, int)
    ]
    total = element("p", f"Total: {', '.join(totals)}", class_="dim") if totals else None
    shown = table(title, heads, rows.rows, len(rows.rows))
    return section(title, name, total, template("search.html") if len(rows.rows) > _SEARCHED else None, shown)


def footer(head: AnswerHead) -> Element:
    """The input and what is assumed."""
    return element("p", display_text("; ".join([f"Input: {input_text(head)}", *assumptions_of(head)])), class_="dim")
