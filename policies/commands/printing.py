"""Print an answer in the chosen format, with its head."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn.policies.terminal import as_json, as_markdown, clean, painter, wants_color

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.render.html.elements import Page

    Lines = Callable[[Callable[[str, str], str]], Iterable[str]]


class Output(NamedTuple):
    """The format of an answer, and the value of `--color`."""

    form: str
    color: str


def print_lines(output: Output, lines: Lines) -> None:
    """Print lines of text. `lines`: returns them for a painter."""
    color = wants_color(output.color, sys.stdout)
    sys.stdout.writelines(clean(line, color) + "\n" for line in lines(painter(color)))


def print_answer(
    output: Output,
    head: AnswerHead,
    lines: Lines,
    documents: Callable[[], Iterable[Mapping[str, Any]]],
    markdown: Callable[[], str] = str,
    page: Callable[[], Page] | None = None,
) -> None:
    """Print an answer: as lines, JSON documents, Markdown or an HTML page. Only `documents` have a head already."""
    from forewarn.policies.render.head import after_verdict, below_title, on_page

    if output.form == "json":
        sys.stdout.writelines(map(as_json, documents()))
    elif output.form == "markdown":
        sys.stdout.write(as_markdown(below_title(markdown(), head)))
    elif output.form == "html" and page is not None:
        sys.stdout.write(on_page(page(), head).document())
    else:
        print_lines(output, lambda paint: after_verdict(lines(paint), head))
