"""Yields the values of YAML text one by one: for data, such as a cluster snapshot."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.documents import Document, Fault, as_utf8, split
from forewarn.policies.inputs.manifests.object_finder import filled_in, items_of
from forewarn.policies.inputs.manifests.yaml.grammar import check_as_kubectl, leniently
from forewarn.policies.inputs.manifests.yaml.nodes import compose
from forewarn.policies.inputs.manifests.yaml.source import UNUSUAL, Construction, quick_value
from forewarn.policies.kubernetes.kinds.registry import incomplete_list

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Path

_ITEMS: Final = later(rb"^items:[ \t]*\n(?=- )", re.MULTILINE)
_ITEM: Final = later(rb"^- .*\n(?:(?:[ \t#].*)?\n)*", re.MULTILINE)
_LONG: Final = 1 << 20


class Value(NamedTuple):
    """A value, and the line (from 1) in which it begins."""

    value: Any
    line: int


def values(data: bytes, file: str) -> Iterator[Value]:
    """The values of a YAML text as kubectl reads them, without empty documents. A long List is split into items.

    Raises Fault with the line of the file (from 1) as `start`.
    """
    for piece in split(as_utf8(data), file):
        document, fault = piece if isinstance(piece, tuple) else (piece, None)
        try:
            if fault is not None:
                raise fault
            yield from _values(document)
        except Fault as found:
            raise Fault(found.message, document.line_of(found.start)) from None


def readable_values(data: bytes, file: str) -> Iterator[Any]:
    """The values of the documents of a YAML text that can be read, also of those that only kubectl rejects."""
    for piece in split(as_utf8(data), file):
        if isinstance(piece, Document):
            with suppress(Fault):
                yield from (text.value for text in _values(piece))


def first_value(data: bytes, file: str) -> Any:
    """The value of the first document of a YAML text; None if there is none, or if the document is invalid."""
    with suppress(Fault):
        documents = (piece for piece in split(as_utf8(data), file) if isinstance(piece, Document))
        return next((text.value for document in documents for text in _values(document)), None)
    return None


def _values(document: Document) -> Iterator[Value]:
    if len(document.data) > _LONG and (cut := _cut(document)) is not None:
        try:
            parent = _value(cut[0])
            is_split = items_of(parent) is not None and not incomplete_list(parent)
            for item in cut[1] if is_split else ():
                yield Value(filled_in(leniently(_value, item), parent), item.line + 1)
        except Fault:
            pass  # An anchor in another item, or a fault indeed: the whole document will tell. What came, comes again.
        else:
            if is_split:
                return
    value = leniently(_value, document)
    if value is not None:
        yield Value(value, document.line + 1)


def _cut(document: Document) -> tuple[Document, Iterator[Document]] | None:
    """Return a List without its items, and the items; None if not in kubectl's notation, with dashes in column 1."""
    match = _ITEMS.search(document.data)
    if match is None:
        return None
    end = match.end()
    while (item := _ITEM.match(document.data, end)) is not None:
        end = item.end()
    rest = document.data[: match.start()] + b"items: []\n" + document.data[end:]
    return Document(rest, document.file), _items(document, match.end())


def _value(document: Document) -> Any:
    check_as_kubectl(document)
    value = quick_value(document)
    if value is not UNUSUAL:
        return value
    root, unread = compose(document)
    if unread is not None:
        raise unread
    return Construction(root).value


def _items(document: Document, start: int) -> Iterator[Document]:
    line = document.line + document.data.count(b"\n", 0, start)
    while (match := _ITEM.match(document.data, start)) is not None:
        yield Document(b"  " + match[0][2:], document.file, line)
        line += match[0].count(b"\n")
        start = match.end()


def scalars_in(value: Any, limit: int) -> Iterator[tuple[Path, Any]]:
    """Yield (path, value) of the scalars in a value of YAML. Reads at most `limit` scalars and collections."""
    to_do: list[tuple[Path, Any]] = [((), value)]
    for _ in range(limit):
        if not to_do:
            return
        path, inner = to_do.pop()
        if isinstance(inner, dict | list):
            entries = inner.items() if isinstance(inner, dict) else enumerate(inner)
            to_do += (((*path, key), entry) for key, entry in entries)
        else:
            yield path, inner
