"""An AnswerDocument as text and as Markdown, in the common answer format."""

from __future__ import annotations

from itertools import chain, groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.documents.answer import MAX_ROWS, AnswerDocument, AnswerStatus, Cell, Counter, Table, label
from forewarn.policies.base.findings import cut, listed, one_line, plural
from forewarn.policies.cli.render import Painter, plain
from forewarn.policies.cli.render.head import assumptions_of, input_text, line_of
from forewarn.policies.cli.render.table import markdown_table, text_of, titles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from forewarn.policies.kubernetes.cluster.cache import AnswerHead

WIDTH: Final = 110
"""Maximum columns of a line without -v."""
MAX_LINES: Final = 28
"""Maximum number of lines of an answer without -v."""
MAX_WARNINGS: Final = 3
"""Maximum number of warnings without -v."""
_MAX_FIXES: Final = 3
_SHORTENED: Final = ((_MAX_FIXES, 4, MAX_WARNINGS), (2, 4, 3), (2, 3, 3), (1, 3, 3), (1, 3, 2), (1, 3, 1))
"""Maximum number of fixes, rows of causes, and warnings without -v: the first with which the rows of the first table
have room. One fix and one warning stay, and so do causes of at least a quarter of the counter.
"""
_NAME_LENGTHS: Final = (44, 32, 24, 16, 12, 8)
"""Maximum characters of a text in a table, unless it is in the last column: the first with which a line has room."""
_MIN_ROWS: Final = 4
"""Rows of the first table that take precedence over fixes and causes; a table with a total takes it for all rows."""
_MIN_ROOM: Final = 32
"""Minimum characters of a wrapped column."""
_SHORTEST_NAME: Final = 32
"""Minimum characters that remain of a shortened name in the first column."""
_ICONS: Final = {
    AnswerStatus.OK: "✅",
    AnswerStatus.WARN: "⚠️",
    AnswerStatus.HARM: "🔴",
    AnswerStatus.BLOCKED: "⛔",
    AnswerStatus.REJECTED: "⛔",
    AnswerStatus.PENDING: "⏳",
    AnswerStatus.NO_ANSWER: "❔",
}
_STYLES: Final = {AnswerStatus.OK: "good", AnswerStatus.WARN: "warning", AnswerStatus.PENDING: "warning"}


def number(value: int | None) -> str:
    """A number with separators for thousands."""
    return "not predicted" if value is None else f"{value:,}"


def counter_text(counter: Counter) -> str:
    """A counter such as `lost 1,592 of 7,610` or `Pending 273 → 25`."""
    return f"{label(counter.name)} {counter_value(counter)}"


def counter_value(counter: Counter) -> str:
    """A counter without its name."""
    total = "" if counter.of is None else f" of {number(counter.of)}"
    later = "" if counter.after is None or counter.after == counter.value else f" → {number(counter.after)}"
    varies = f" ({number(counter.range.least)} to {number(counter.range.most)})" if counter.range else ""
    more = f"{varies}{counter.more}".replace(") (", ", ")
    return f"{number(counter.value)}{later}{total}{more}"


def text(document: AnswerDocument, head: AnswerHead | None, paint: Painter = plain, level: int = 0) -> Iterator[str]:
    """The answer as lines of text. `head`: None without an input. `level`: 1 with -v, 2 with -vv."""
    before = [*_status_lines(document, paint), *_counter_lines(document)]
    after = [*_input_lines(head, level)] if head is not None else []
    after += [f"MORE   {' | '.join(document.more)}"] if document.more and not level else []
    first, why, fixes = next((each for each in document.tables if each.detail <= level), None), list[str](), list[str]()
    height = _height(first, MAX_ROWS if first.total else _MIN_ROWS) if first is not None else 0
    warnings, used = list[str](), 0
    for max_fixes, max_causes, max_warnings in _SHORTENED:
        why, fixes = [*_why_lines(document, paint, level, max_causes)], [*_fix_lines(document, paint, max_fixes)]
        warnings = [*_warning_lines(document, paint, level, max_warnings)]
        used = sum(map(len, (before, warnings, why, fixes, after))) + bool(why) + bool(document.tables)
        if level or used + height <= MAX_LINES:
            break
    yield from (*before, *warnings)
    if why:
        yield from ("", *why)
    room = MAX_LINES - used
    for table, later in _with_later([each for each in document.tables if each.detail <= level], room - height):
        lines = [*table_lines(table, paint, 0)] if level else _fitted(table, paint, room - later)
        room -= len(lines) + 1
        if level or table is first or room >= 0:
            yield from ("", *lines)
    if fixes:
        yield from ("", *fixes)
    yield from after


def _with_later(tables: Sequence[Table], room: int) -> Iterator[tuple[Table, int]]:
    """Yield each table with the lines that the first rows of later tables take, if they have room. `room`: the lines
    beside those of the first table that take precedence.
    """
    later = list[int]()
    for table in tables[1:]:
        height = _height(table, 2)
        later.append(height if sum(later) + height <= room else 0)
    yield from ((table, sum(later[place:])) for place, table in enumerate(tables))


def _fitted(table: Table, paint: Painter, room: int) -> list[str]:
    """Return the lines of a table and its first rows that have room, but at least two; a row may take several lines."""
    for limit in range(min(MAX_ROWS, max(room - _height(table, 0), 2)), 1, -1):
        lines = [*table_lines(table, paint, limit)]
        if len(lines) < room:
            break
    return lines


def _height(table: Table, rows: int) -> int:
    """Return how many lines a table of up to `rows` rows takes, with an empty line, its head, and a count of others."""
    return 2 + bool(table.title) + bool(table.total) + min(len(table.rows), rows + 1)


def _status_lines(document: AnswerDocument, paint: Painter) -> Iterator[str]:
    indent = " " * (len(document.status) + 2)
    first, *others = _wrapped(
        f"{document.question}: {document.clause}" if document.clause else document.question, indent
    )
    yield f"{paint(document.status, _STYLES.get(document.status, 'error'))}  {paint(first, 'bold')}"
    yield from (f"{indent}{paint(line, 'bold')}" for line in others)


def _wrapped(text: str, indent: str) -> list[str]:
    """The text wrapped to lines that fit beside an indent; a word that is too long stays on one line."""
    return _wrap_text(one_line(text), WIDTH - len(indent))


def _wrap_text(text: str, width: int) -> list[str]:
    whole = text.replace(" → ", "\xa0→\xa0")  # a change of a number stays on one line
    lines = wrap(whole, width, break_long_words=False, break_on_hyphens=False) or [""]
    return [line.replace("\xa0→\xa0", " → ") for line in lines]


def _counter_lines(document: AnswerDocument) -> Iterator[str]:
    indent, line = " " * (len(document.status) + 2), ""
    for part in map(counter_text, document.shown):
        longer = f"{line} | {part}" if line else part
        if len(indent) + len(longer) > WIDTH:
            yield f"{indent}{line}"
            line = part
        else:
            line = longer
    yield from [f"{indent}{line}"] if line else []


def _warning_lines(document: AnswerDocument, paint: Painter, level: int, limit: int) -> Iterator[str]:
    """Yield at most `limit` warnings, and the number of others; with -v, all."""
    shown = [*(document.warnings if level else document.warnings[:limit])]
    if hidden := len(document.warnings) - len(shown):
        more = f"{plural(hidden, 'more warning', 'more warnings')}: -v"
        last = f"{shown[-1]}; {more}"
        has_room = len(_wrapped(last, "WARN  ")) == len(_wrapped(shown[-1], "WARN  "))
        shown[-1:] = [last] if has_room else [shown[-1], more]
    for warning in shown:
        first, *others = _wrapped(warning, "WARN  ")
        yield f"{paint('WARN', 'warning')}  {first}"
        yield from (f"      {line}" for line in others)


def _why_lines(document: AnswerDocument, paint: Painter, level: int, limit: int) -> Iterator[str]:
    if document.why is None:
        return
    causes = document.why.causes
    limit = max(limit, 1 + sum(4 * cause.number >= max(document.why.number, 1) for cause in causes))
    yield paint(f"WHY {document.why.heading}", "bold")
    shown = [(cause.number, cause.reason) for cause in causes]
    if not level and len(shown) > limit:
        rest = causes[limit - 1 :]
        names = listed([f"{cause.number:,} {cause.reason.partition(': ')[0]}" for cause in rest], 2)
        shown[limit - 1 :] = [(sum(cause.number for cause in rest), f"other reasons, -v: {names}")]
    width = max(len(number(count)) for count, _ in shown) + 4
    for count, reason in shown:
        first, *others = _wrapped(reason, " " * (width + 2))
        yield f"{number(count) if count else '':>{width}}  {first}"
        yield from (f"{'':{width}}  {line}" for line in others)


def table_lines(table: Table, paint: Painter, limit: int = 0) -> Iterator[str]:
    """Yield a table as lines. `limit`: maximum number of rows; 0 for all. Columns without a value are left out."""
    if table.subheads:
        yield from _subhead_lines(table, paint)
        return
    used = [at for at in range(len(table.columns)) if table.zeros or any(row[at] for row in table.rows)]
    shown = _shown_rows(table, limit)
    has_zeros = [table.zeros or "VALUE" in column.upper() for column in table.columns]
    rows = [[_cell_text(row[at], zeros=has_zeros[at]) for at in used] for row in shown]
    total = [[_cell_text(table.total[at]) if table.total[at] != "" else "" for at in used]] if table.total else []
    head = [table.columns[at].upper() for at in used]
    is_number = [any(isinstance(row[at], int) for row in table.rows) for at in used]
    is_brief = bool(limit) and not f"{head[0]}, {head[-1]}".endswith(("NAMES", "NOW", "STEP, CHANGE"))
    lines = _aligned([head, *rows, *total], is_number, is_brief=is_brief, is_counted=head[-1] == "CHANGE")
    yield from (paint(line, "bold") for line in filter(None, _wrapped(table.title, "")))
    yield from (paint(line, "dim") for line in lines[0])
    yield from chain(*lines[1 : len(rows) + 1])
    if more := len(table.rows) - len(rows):
        yield f"and {number(more)} more: -v"
    yield from chain(*lines[len(rows) + 1 :])


def _shown_rows(table: Table, limit: int) -> Sequence[Sequence[Cell]]:
    """The rows up to `limit`; all rows if only one more exists, because a line about it would take the same space."""
    has_room = not limit or len(table.rows) <= min(limit + 1, MAX_ROWS)
    return table.rows if has_room else table.rows[:limit]


def _subhead_lines(table: Table, paint: Painter) -> Iterator[str]:
    count = table.subheads
    for place, (cells, rows) in enumerate(groupby(table.rows, key=lambda row: tuple(row[:count]))):
        first, *others = [text for text in map(str, cells) if text]
        title = f"{first} {': '.join(others)}"
        yield from [""] if place else []
        yield from table_lines(Table(table.columns[count:], [row[count:] for row in rows], title=title), paint, 0)


def _aligned(
    rows: Sequence[list[str]], is_number: Sequence[bool], *, is_brief: bool, is_counted: bool
) -> list[list[str]]:
    """The lines of each row, with numbers to the right and the last column wrapped. `is_brief`: only its clauses that
    have room on one line, at least one, with the number of missing clauses if `is_counted`.
    """
    rows = _narrowed(rows) if is_brief else rows
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = WIDTH - sum(widths[:-1]) - 2 * (len(widths) - 1)

    def lines(row: Sequence[str]) -> list[str]:
        cells = zip(row[:-1], widths, is_number, strict=False)
        first = [cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells]
        if is_number[-1]:
            return ["  ".join([*first, row[-1].rjust(widths[-1])])]
        text = _first_clauses(row[-1], room, is_counted) if is_brief else row[-1]
        texts = _wrap_text(text, max(room, _MIN_ROOM))
        others = [[" " * sum(widths[:-1], 2 * len(first) - 2)] if first else []] * len(texts[1:])
        return ["  ".join([*start, text]).rstrip() for start, text in zip((first, *others), texts, strict=True)]

    return [lines(row) for row in rows]


def _narrowed(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows with texts cut so that a line has room beside a last column of some length."""
    for longest in _NAME_LENGTHS:
        cut_rows = [
            [
                *(cut(cell, max(longest, 0 if place else _SHORTEST_NAME)) for place, cell in enumerate(row[:-1])),
                *row[-1:],
            ]
            for row in rows
        ]
        widths = [max(map(len, column)) for column in zip(*cut_rows, strict=True)]
        if sum(widths[:-1]) + 2 * len(widths) + min(widths[-1], longest) <= WIDTH:
            break
    return cut_rows


def _first_clauses(text: str, limit: int, is_counted: bool) -> str:
    """Return as many clauses of a text as have room; at least the first, if need be without parentheses at its end.
    `is_counted`: and the number of the others.
    """
    first, *others = text.split("; ")
    if len(first) > limit and first.endswith(")"):
        first = first.rpartition(" (")[0] or first
    for place, clause in enumerate(others):
        more, rest = (f"; {len(others) - count} more: -v" if is_counted else "" for count in (place, place + 1))
        if len(first) + len(clause) + 2 + len(rest) * (place + 1 < len(others)) > limit:
            return first + more
        first += f"; {clause}"
    return first


def _cell_text(cell: Cell, *, zeros: bool = False) -> str:
    is_shown = cell or (zeros and cell == 0)
    return (number(cell) if isinstance(cell, int) else one_line(cell)) if is_shown else "-"


def _fix_lines(document: AnswerDocument, paint: Painter, limit: int) -> Iterator[str]:
    """Yield the heading and at most `limit` fixes; nothing without a fix."""
    fixes = document.fix[:limit]
    if not document.fix:
        return
    more = min(len(document.fix), _MAX_FIXES) - len(fixes)
    yield paint(f"FIX ({more} more: -v)" if more else "FIX", "bold")
    width = max((len(one_line(fix.action)) for fix in fixes), default=0)
    for place, fix in enumerate(fixes, 1):
        beside = f"  {place}  {one_line(fix.action):{width}}  → {fix.effect}"
        if len(beside) <= WIDTH:
            yield beside
            continue
        for text, mark, indent in ((fix.action, f"  {place}  ", " " * 5), (fix.effect, "     → ", " " * 7)):
            first, *others = _wrapped(text, indent)
            yield from (f"{mark}{first}", *(f"{indent}{line}" for line in others))


def _input_lines(head: AnswerHead, level: int) -> Iterator[str]:
    """Yield one line with the source (the end of a long path) and the assumptions that fit; with -v, all of them."""
    label, source = "INPUT  ", input_text(head)
    if (more := len(source) + len(label) - WIDTH) > 0:
        source = f"…{source[more + 1 :]}"
    line, clauses = f"{label}{source}", assumptions_of(head)
    if level:
        yield line
        yield from (f"       {text}" for clause in clauses for text in _wrapped(clause, label))
        return
    for place, clause in enumerate(clauses):
        rest = f"; {len(clauses) - place - 1} more: -v" if place + 1 < len(clauses) else ""
        if len(line) + len(clause) + 2 + len(rest) > WIDTH:
            hidden = len(clauses) - place
            more_text = f"; {f'{hidden} more' if place else plural(hidden, 'assumption')}: -v"
            line += more_text if len(line) + len(more_text) <= WIDTH else ""
            break
        line += f"; {clause}"
    yield line


# Markdown


def markdown(document: AnswerDocument, head: AnswerHead, level: int = 1) -> str:
    """The answer as Markdown for a pull request, with the tables of `level` and below."""
    lines = [f"### {_ICONS[document.status]} {document.status}: {text_of(document.headline)}", ""]
    lines += [text_of(" | ".join(map(counter_text, document.shown))), ""] if document.shown else []
    lines += [*_bullets(f"WARN: {warning}" for warning in document.warnings)]
    if document.why is not None:
        rows = [(number(cause.number) if cause.number else "", cause.reason) for cause in document.why.causes]
        lines += [*markdown_table(("", f"Why {document.why.heading.lower()}"), rows), ""]
    lines += tables_as_markdown(table for table in document.tables if table.detail <= level)
    fixes = [f"{place}. {text_of(f'{fix.action} → {fix.effect}')}" for place, fix in enumerate(document.fix, 1)]
    lines += ["Fix:", "", *fixes, ""] if fixes else []
    return "\n".join([*lines, text_of(line_of(head)), ""])


_MAX_IN_MARKDOWN: Final = 50
"""Maximum number of rows of a table."""


def tables_as_markdown(tables: Iterable[Table]) -> list[str]:
    """The lines of tables."""
    return [line for table in tables for line in (*_markdown_of(table), "")]


def _bullets(texts: Iterable[str]) -> list[str]:
    lines = [f"- {text_of(text)}" for text in texts]
    return [*lines, ""] if lines else []


def _markdown_of(table: Table) -> Iterator[str]:
    yield from [text_of(table.title), ""] if table.title else []
    has_zeros = [table.zeros or "VALUE" in column.upper() for column in table.columns]
    shown = (*table.rows[:_MAX_IN_MARKDOWN], *([table.total] if table.total else []))
    rows = [[_cell_text(cell, zeros=zeros) for cell, zeros in zip(row, has_zeros, strict=True)] for row in shown]
    yield from markdown_table(titles(table.columns), rows)
    if (more := len(table.rows) - _MAX_IN_MARKDOWN) > 0:
        yield from ("", f"and {number(more)} more rows")
