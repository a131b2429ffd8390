"""Print an answer in the chosen format, with its head."""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

from forewarn.policies.light import NamedTuple
from forewarn.policies.sources.files import write_file
from forewarn.policies.terminal import as_json, as_markdown, clean, painter, wants_color

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from forewarn.policies.cluster.cache import AnswerHead
    from forewarn.policies.render.html.elements import Page

    Lines = Callable[[Callable[[str, str], str]], Iterable[str]]


class Output(NamedTuple):
    """Where an answer goes. `width`: maximum characters in a line of a table (0: any). `file`: "" for standard output.

    `is_given`: the command line names the format.
    """

    form: str
    color: str = "never"
    width: int = 0
    file: str = ""
    is_given: bool = False

    @contextmanager
    def redirected(self) -> Iterator[None]:
        """Redirect standard output to the file, if there is one; a failed block writes nothing. Raises SourceError."""
        if not self.file:
            yield
            return
        with redirect_stdout(io.StringIO()) as printed:
            yield
        write_file(self.file, printed.getvalue().encode())


class Printed(NamedTuple):
    """An answer in a format, in parts, and as JSON data: text, or the documents of the format.

    `verdict`: its first line as text.
    """

    parts: Iterable[str] = ()
    data: Callable[[], Any] = str
    verdict: Callable[[], str] = str

    def print(self) -> None:
        sys.stdout.writelines(self.parts)


def print_lines(output: Output, lines: Lines) -> None:
    """Print lines of text. `lines`: returns them for a painter."""
    sys.stdout.writelines(cleaned(output, lines))


def cleaned(output: Output, lines: Lines) -> Iterator[str]:
    """Yield printable lines of text, each with its end."""
    color = wants_color(output.color, sys.stdout)
    return (clean(line, color) + "\n" for line in lines(painter(color)))


def answer_in(
    output: Output,
    head: AnswerHead,
    lines: Lines,
    documents: Callable[[], Iterable[Mapping[str, Any]]],
    markdown: Callable[[], str] = str,
    page: Callable[[], Page] | None = None,
) -> Printed:
    """An answer as lines, JSON documents, Markdown or an HTML page. Only `documents` have a head already."""
    from forewarn.policies.render.head import after_verdict, below_title, on_page

    def verdict() -> str:
        return next(iter(lines(painter(False))), "")

    if output.form == "json":
        rows = list(documents())
        return Printed(list(map(as_json, rows)), lambda: rows, verdict)
    if output.form == "markdown":
        text = as_markdown(below_title(markdown(), head))
    elif output.form == "html" and page is not None:
        text = on_page(page(), head).document()
    else:
        text = "".join(cleaned(output, lambda paint: after_verdict(lines(paint), head)))
    return Printed([text], lambda: text, verdict)
