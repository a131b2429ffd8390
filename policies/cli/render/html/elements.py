"""HTML elements as a tree, so that no text of a cluster can become markup."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple
from xml.etree.ElementTree import Element, fromstring, tostring

from forewarn.policies.base.findings import brief, no_command_in_json, no_command_in_markup

MAX_LENGTH: Final = 300
"""Maximum characters of a text of the cluster."""
MAX_ROWS: Final = 500
"""Maximum number of rows of a table."""
_AS_IN_HTML: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}

Child = Element | str | None


Cell = str | int | Element


class Page(NamedTuple):
    """A page as elements. `parts`: the children of `main`."""

    title: str
    parts: Sequence[Child]
    scripts: Sequence[str] = ("tables.js", "page.js")

    def document(self) -> str:
        return document(self.title, [element("main", *self.parts)], self.scripts)

    def markup(self) -> str:
        """Return the children of `main` as HTML, for another page with the same scripts and styles."""
        parts = (part for part in self.parts if isinstance(part, Element))
        return no_command_in_markup("".join(tostring(part, encoding="unicode", method="html") for part in parts))


def element(tag: str, *children: Child, **attributes: str | float | bool) -> Element:
    """Create an element. In attribute names, a trailing underscore is removed, and other underscores become hyphens.

    An attribute with value True has no value in HTML; False omits the attribute.
    """
    created = Element(tag)
    for name, value in attributes.items():
        if value is not False:
            created.set(name.rstrip("_").replace("_", "-"), "" if value is True else str(value))
    last: Element | None = None
    for child in children:
        if isinstance(child, str):
            if last is None:
                created.text = (created.text or "") + child
            else:
                last.tail = (last.tail or "") + child
        elif child is not None:
            created.append(child)
            last = child
    return created


def template(name: str) -> Element:
    """Return the element in a file of `templates`. Ignores line breaks and indents between elements."""
    root = fromstring(_shipped(f"templates/{name}"))
    for each in root.iter():
        each.text, each.tail = ((text or "").strip() or None for text in (each.text, each.tail))
    return root


def display_text(text: str) -> str:
    """Return a text of a cluster on one line, of limited length, without invisible characters."""
    return brief(text, MAX_LENGTH)


def data(name: str, value: Any) -> Element:
    """Return a script element with JSON data for the page's script. No text in the data can end the element."""
    text = no_command_in_json(json.dumps(value, separators=(",", ":"))).translate(_AS_IN_HTML)
    return element("script", text, type="application/json", id=name)


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    count: int,
    named_by: int = 0,
    total: Sequence[Cell] = (),
) -> Element:
    """Return a table that users can sort: numbers as numbers.

    `count`: the number of all rows. `named_by`: index of the column that identifies a row. `total`: the last row, which
    stays the last.
    """
    body = element("tbody")
    for _, row in zip(range(MAX_ROWS), rows, strict=False):
        cells = enumerate(zip(row, heads, strict=True))
        body.append(element("tr", *(_cell(value, name, place == named_by) for place, (value, name) in cells)))
    head = element("thead", element("tr", *(element("th", name, scope="col") for name in heads)))
    sums = (_cell(value, name, not place) for place, (value, name) in enumerate(zip(total, heads, strict=bool(total))))
    foot = element("tfoot", element("tr", *sums)) if total else None
    shown = element("table", element("caption", caption), head, body, foot, class_="sortable")
    more = f"The first {MAX_ROWS} of {count} rows. Use -o json for all." if count > MAX_ROWS else ""
    note = element("p", more, class_="dim") if more else None
    return element("div", note, shown, class_="scroll", tabindex=0, role="group", aria_label=f"{caption}, a table")


def tiles(counters: Iterable[tuple[str, str, bool]]) -> Element:
    """Return a tile for each counter: its name, its value, and whether the value is bad."""
    shown = (
        element("div", element("dt", name), element("dd", *_value(value)), class_="tile bad" if bad else "tile")
        for name, value, bad in counters
    )
    return element("dl", *shown, class_="tiles")


def _value(text: str) -> Iterator[Child]:
    """Yield the number at the start of a text, and the rest in a smaller font."""
    number, space, more = text.partition(" ")
    yield number
    if more:
        yield from (space, element("small", more))


def listing(lines: Iterable[str], kind: str = "plain") -> Element:
    """Return a list of texts. `kind`: its class."""
    return element("ul", *(element("li", display_text(line)) for line in lines), class_=kind)


def section(title: str, name: str, *children: Element | str | None) -> Element:
    """A section of a page with its heading."""
    return element("section", element("h2", title, id=name), *children, aria_labelledby=name)


def _cell(value: Cell, head: str, names_row: bool) -> Element:
    tag = "th" if names_row else "td"
    scope: dict[str, str] = {"scope": "row"} if names_row else {"data_head": head}
    if isinstance(value, Element):
        return element(tag, value, **scope)
    if isinstance(value, int):
        return element(tag, f"{value:,}", class_="number", data_value=value, **scope)
    return element(tag, display_text(value), **scope)


def document(title: str, body: Sequence[Child], scripts: Sequence[str] = ("tables.js", "page.js")) -> str:
    """The complete HTML file."""
    style, script = _shipped("page.css"), "".join(map(_shipped, scripts))
    root = template("page.html")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    next(root.iterfind("head/meta[@http-equiv]")).set("content", f"{policy}; base-uri 'none'; form-action 'none'")
    next(root.iter("title")).text, next(root.iter("style")).text = display_text(title), style
    root.append(element("body", *body, element("script", script)))
    return "<!doctype html>\n" + no_command_in_markup(tostring(root, encoding="unicode", method="html")) + "\n"


def _shipped(name: str) -> str:
    return files("forewarn.policies.cli.render.html").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
