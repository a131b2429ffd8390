"""A YAML document as a tree of nodes with positions, and the events of its parser: libyaml, or PyYAML's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import yaml
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)
from yaml.reader import ReaderError

from forewarn.policies.inputs.manifests.documents import MAX_DEPTH, NOT_TEXT, Document, Fault

_IN_OTHER_WORDS: Final = {
    "found unexpected ':'": "a ':' inside of brackets or braces needs quotes, or a space behind it",
    "could not find expected ':'": "did not find the ':' of a key",
    "mapping values are not allowed in this context": (
        "a key cannot stand here (check the indentation; ': ' inside a value needs quotes)"
    ),
}


def parser(document: Document) -> Any:
    """Return an event parser for a document, which restores masked characters."""
    events = parser_of(document.data)
    return Unmasking(events, document.masks) if document.masks else events


def parser_of(data: bytes) -> Any:
    """An event parser for a text."""
    try:
        from yaml.cyaml import CParser  # type: ignore[attr-defined]
    except ImportError:
        return _python_parser(data)
    return CParser(data)


def _python_parser(data: bytes) -> Any:
    """PyYAML's own parser, for installations without libyaml: the same events, much slower."""
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class PythonParser(Reader, Scanner, Parser):
        def __init__(self, stream: bytes) -> None:
            Reader.__init__(self, stream)
            Scanner.__init__(self)
            Parser.__init__(self)

    return PythonParser(data)


class Unmasking:
    """An event parser that replaces masks in values by the original characters."""

    def __init__(self, events: Any, masks: dict[str, str]) -> None:
        self._events, self._masks = events, masks

    def get_event(self) -> Any:
        """Return the next YAML event, with masked characters restored."""
        event = self._events.get_event()
        value = getattr(event, "value", None)
        if value:
            for mask, meant in self._masks.items():
                # In double quotes a backslash is an escape that libyaml does not know: what it escapes is meant.
                value = value.replace(mask, "" if (meant, event.style) == ("\\", '"') else meant)
            event.value = value
        return event


def fault_of(error: YAMLError, document: Document) -> Fault:
    """The Fault for an error of the parser, with positions in characters."""
    if isinstance(error, ReaderError):
        start = len(document.data[: error.position].decode("utf-8", "ignore"))
        if document.data.count(b"\0") > 1 or document.data[: error.position].count("\ufffd".encode()) > 1:
            return Fault(NOT_TEXT)
        if error.reason != "control characters are not allowed":
            return Fault(f"this is not UTF-8: {error.reason}", start, start + 1)
        return Fault(f"the control character U+{_code(error.character):04X} is not allowed", start, start + 1)
    if not isinstance(error, MarkedYAMLError):
        return Fault(str(error))
    problem = error.problem or "this is not YAML"
    start = error.problem_mark.index if error.problem_mark else 0
    if problem.startswith("found character") and document.text[start : start + 1] == "\t":
        return Fault("a tab cannot indent YAML: use spaces", start, start + 1)
    if document.text[:1] == "%":
        return Fault("kubectl reads no directives: it cuts the file at --- before it parses; remove this line")
    since = error.context_mark.index if error.context and error.context_mark else None
    context = f" {error.context}" if error.context else ""
    return Fault(f"{_IN_OTHER_WORDS.get(problem, problem)}{context}", start, None, since)


def _code(character: object) -> int:
    if isinstance(character, int):
        return character
    return (character if isinstance(character, bytes) else str(character).encode("utf-8", "replace"))[0]


UNREAD: Final = "kubectl reads nothing behind the end marker `...`"


class Scalar:
    """A scalar: its text and explicit tag. `plain`: without quotes."""

    __slots__ = ("end", "plain", "start", "tag", "text")

    def __init__(self, text: str, tag: str | None, plain: bool, start: int, end: int) -> None:
        self.text, self.tag, self.plain, self.start, self.end = text, tag, plain, start, end


class Collection:
    """A mapping (alternating keys and values) or a sequence."""

    __slots__ = ("children", "end", "is_mapping", "start")

    def __init__(self, is_mapping: bool, start: int) -> None:
        self.is_mapping, self.start, self.end = is_mapping, start, start
        self.children: list[Node] = []


class Alias:
    """A reference to an anchored node."""

    __slots__ = ("end", "name", "start", "target")

    def __init__(self, name: str, target: Scalar | Collection, start: int, end: int) -> None:
        self.name, self.target, self.start, self.end = name, target, start, end


Node = Scalar | Collection | Alias


def followed(node: Node) -> Scalar | Collection:
    return node.target if isinstance(node, Alias) else node


def compose(document: Document) -> tuple[Node | None, Fault | None]:
    """The root node (None for an empty document), and the error of text after the document's end. Raises Fault."""
    next_event: Callable[[], Any] = parser(document).get_event
    root: Node | None = None
    last: Any = None
    try:
        next_event()
        if type(next_event()) is DocumentStartEvent:
            root = _compose(next_event)
            last = next_event()
            last = next_event()
    except yaml.YAMLError as error:
        if not isinstance(last, DocumentEndEvent):
            raise fault_of(error, document) from None
    more = isinstance(last, DocumentStartEvent | DocumentEndEvent)
    return root, Fault(UNREAD, last.end_mark.index) if more else None


def _compose(next_event: Callable[[], Any]) -> Node:
    top = Collection(False, 0)
    open_nodes: list[Collection] = []
    current, anchors = top, dict[str, Scalar | Collection]()
    while True:
        event = next_event()
        kind = type(event)
        if kind is ScalarEvent:
            start, end = event.start_mark.index, event.end_mark.index
            node = Scalar(event.value, event.tag, event.implicit[0], start, end)
            current.children.append(node)
            if event.anchor is not None:
                anchors[event.anchor] = node
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            inner = Collection(kind is MappingStartEvent, event.start_mark.index)
            current.children.append(inner)
            open_nodes.append(current)
            current = inner
            if event.anchor is not None:
                anchors[event.anchor] = inner
            if len(open_nodes) > MAX_DEPTH:
                raise Fault(f"nested more than {MAX_DEPTH} levels deep", inner.start, inner.start + 1, is_own=True)
        elif kind is AliasEvent:
            current.children.append(_alias(event, anchors))
        else:
            current.end = event.end_mark.index
            current = open_nodes.pop()
        if current is top:
            return top.children[0]


def _alias(event: Any, anchors: dict[str, Scalar | Collection]) -> Alias:
    start, end = event.start_mark.index, event.end_mark.index
    target = anchors.get(event.anchor)
    if target is None:
        raise Fault(f"unknown anchor {event.anchor!r}", start, end)
    return Alias(event.anchor, target, start, end)
