"""Tables in text and Markdown."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import cut, one_line, plural
from forewarn.policies.render import Painter, plain
from forewarn.policies.render.markdown import text_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    Rows = Sequence[Sequence[str | int]]


class TitledTable(NamedTuple):
    """A table of text and Markdown. `texts`: heads of columns aligned to the left. `more`: a line below it, or ""."""

    title: str
    heads: Sequence[str]
    rows: Rows
    texts: Sequence[str]
    more: str = ""

    def lines(self, paint: Painter = plain) -> Iterator[str]:
        yield self.title
        yield from table(self.heads, self.rows, paint, texts=self.texts) if self.rows else ()
        yield from [f"  {self.more}"] if self.more else []

    def markdown(self) -> Iterator[str]:
        yield from (text_of(self.title), "")
        yield from [*markdown_table(self.heads, self.rows), ""] if self.rows else []
        yield from [text_of(self.more), ""] if self.more else []


LONGEST: Final = 48
"""Maximum characters of a cell of `page_table` on a terminal that is not in the last column."""
_LONGEST_IN_FILES: Final = 1_000
"""Maximum characters of a cell of `page_table` in a file or pipe."""


def table(
    heads: Sequence[str],
    rows: Rows,
    paint: Painter = plain,
    *,
    texts: Collection[str] = (),
    longest: int = 200,
) -> Iterator[str]:
    """The lines of a table with aligned columns, indented by two spaces.

    `texts`: heads of columns aligned to the left. `longest`: maximum characters of a cell.
    """
    cells = [[cut(f"{cell}", longest) for cell in row] for row in rows]
    for number, line in enumerate(_aligned([heads, *cells], [head in texts for head in heads])):
        yield f"  {line}" if number else paint(f"  {line}", "dim")


def page_table(heads: Sequence[str], rows: Rows, width: int = 0) -> Iterator[str]:
    """The lines of a table: numbers aligned to the right, texts to the left.

    `width`: maximum characters of a line of a terminal; 0 for a file or pipe, without such cuts.
    """
    longest = LONGEST if width else _LONGEST_IN_FILES
    texts = [[cut(one_line(str(cell)), longest) for cell in row[:-1]] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads[:-1], *texts, strict=True)]
    left = [not any(isinstance(row[index], int) for row in rows) for index in range(len(widths))]
    rest = max(width - sum(item + 2 for item in widths), longest)
    last = [heads[-1], *(cut(one_line(str(row[-1])), rest) for row in rows)]
    cells = [[*row, end] for row, end in zip([heads[:-1], *texts], last, strict=True)]
    yield from _aligned(cells, [*left, True])


def titles(heads: Iterable[str]) -> list[str]:
    """Column heads of a text table for Markdown."""
    return [
        head.capitalize()
        .replace("Pdb", "PDB")
        .replace("pdbs", "PDBs")
        .replace("pods", "Pods")
        .replace("pending", "Pending")
        .replace("maxreplicas", "maxReplicas")
        for head in heads
    ]


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str | int]], *, longest: int = 200) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(text_of(cut(one_line(str(cell)), longest)) for cell in row)} |"


def _aligned(rows: Sequence[Sequence[str]], left: Sequence[bool]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(row, widths, left, strict=True)
        )
        yield "  ".join(cells).rstrip()


MAX_LINES: Final = 20
"""Maximum lines of one kind."""


def limited(lines: Iterable[str], count: int, one: str, many: str, indent: str = "  ") -> Iterator[str]:
    """Yield the first MAX_LINES lines, and the number of the others. `one`, `many`: the noun for lines."""
    yield from (f"{indent}{line}" for line in islice(lines, MAX_LINES))
    yield from left_out(count, MAX_LINES, one, indent, many)


def left_out(count: int, most: int, noun: str = "", indent: str = "", many: str = "") -> Iterator[str]:
    """A line with the number of items above `most`, if there are more."""
    if (more := count - most) > 0:
        what = plural(more, f"more {noun}", many and f"more {many}") if noun else f"{more} more"
        yield f"{indent}and {what}; use -o json for all"


def fitting(texts: Iterable[str], limit: int, noun: str) -> Iterator[str]:
    """Yield the texts that have room in so many bytes, and the number of the others."""
    size = more = 0
    for text in texts:
        grown = size + len(text.encode()) + 2
        if grown > limit:
            more += 1
        else:
            size = grown
            yield text
    yield from left_out(more, 0, noun)


def not_empty(heads: list[str], rows: list[tuple[str | int, ...]]) -> tuple[list[str], list[tuple[str | int, ...]]]:
    """The columns that are not empty."""
    shown = [column for column in range(len(heads)) if any(row[column] for row in rows)]
    return [heads[column] for column in shown], [tuple(row[column] for column in shown) for row in rows]


def first_rows(heads: Sequence[str], rows: Rows, most: int, noun: str) -> str:
    """A Markdown table of the first rows, and the number of the others."""
    more = f"\n\nand {plural(len(rows) - most, f'more {noun}')}" if len(rows) > most else ""
    return "\n".join(markdown_table(titles(heads), rows[:most])) + more


def folded(summary: str, body: str) -> str:
    """Markdown that GitHub and GitLab show only after a click on the summary."""
    return f"<details><summary>{escape(cut(summary, 300), quote=False)}</summary>\n\n{body}\n\n</details>"
