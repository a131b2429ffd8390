r"""A YAML document as a tree of nodes with positions, and the events of its parser, libyaml or PyYAML. Also checks that
text is valid YAML for libyaml and for kubectl, which differ, without constructing values.

`leniently` rewrites text that kubectl's parser accepts and libyaml rejects. In a plain scalar in brackets or braces,
a `:` ends the scalar only before a blank (`[1.2.3.4, 001:db8::]`), `\'` is an escape in double quotes, and a byte order
mark is text except at the start of a document. These characters are masked one for one by characters that the text does
not contain, so that all positions stay the same; `Unmasking` restores them in the values. A tag continues over
commas and brackets (`!!str, x`); such a tag is unknown, so its replacement does not matter. Source: go.yaml.in/yaml/v2
scannerc.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import yaml
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)
from yaml.reader import ReaderError

from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests.documents import MAX_DEPTH, NOT_TEXT, Document, Fault

if TYPE_CHECKING:
    T = TypeVar("T")


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
                # In double quotes, a masked backslash begins an escape that libyaml does not know: drop it.
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
    more = isinstance(last, DocumentStartEvent | DocumentEndEvent) and not isinstance(root, Scalar)
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


_ESCAPE: Final = later(r"\\.", re.DOTALL)


def check(document: Document) -> None:
    """Check the grammar of a document, many times faster than parsing. Raises Fault."""
    events = parser(document)
    try:
        if hasattr(events, "raw_parse"):
            events.raw_parse()
        else:
            for _ in _all(events):
                pass
    except YAMLError as error:
        raise fault_of(error, document) from None


def _is_accepted(text: bytes) -> bool:
    """Report whether the parser accepts a text; false without the C parser."""
    with suppress(AttributeError, YAMLError):
        parser_of(text).raw_parse()
        return True
    return False


def check_as_kubectl(document: Document) -> None:
    """Raise Fault if libyaml accepts text that kubectl rejects: the escape `\\/`, and ? inside flow collections."""
    data = document.data
    # The parser rejects the invalid escape `\\@` where `\\/` is an escape.
    has_slashes = b"\\/" in data and not _is_accepted(data.replace(b"\\/", b"\\@"))
    has_questions = b"?" in data and (b"[" in data or b"{" in data)
    if not has_slashes and not has_questions:
        return
    flow = 0
    try:
        for event in _all(parser(document)):
            kind = type(event)
            if kind is ScalarEvent:
                if event.style == '"':
                    _check_escapes(event, document.text)
                elif flow and not event.style and "?" in event.value:
                    mark = document.text.index("?", event.start_mark.index)
                    raise Fault(
                        "a ? inside of brackets or braces needs quotes in kubectl's YAML reader", mark, mark + 1
                    )
            elif issubclass(kind, CollectionStartEvent):
                flow += bool(flow or event.flow_style)
                if flow > MAX_DEPTH:
                    # libyaml's time grows with the square of the depth of brackets.
                    start = event.start_mark.index
                    raise Fault(f"nested more than {MAX_DEPTH} levels deep", start, start + 1, is_own=True)
            elif flow and issubclass(kind, CollectionEndEvent):
                flow -= 1
            elif kind is DocumentEndEvent:
                return  # kubectl stops here, too
    except YAMLError as error:
        raise fault_of(error, document) from None


def _check_escapes(event: Any, text: str) -> None:
    for escape in _ESCAPE.finditer(text, event.start_mark.index, event.end_mark.index):
        if escape[0] == "\\/":
            raise Fault("the escape \\/ is unknown to kubectl's YAML reader", *escape.span())


def _all(events: Any) -> Iterator[Any]:
    while (event := events.get_event()) is not None:
        yield event


_FAULTS: Final = ("a ':' inside of brackets or braces", "found unknown escape character")
_TAG_FAULTS: Final = ("did not find expected whitespace or line break", "did not find expected tag URI")
_TAG: Final = later(r"![-\w;/?:@&=+$.,!~*'()\[\]%]*", re.ASCII)
_MAX_TAGS: Final = 20
"""The maximum number of rewritten tags in one document; real documents have none."""
_IN_TAG: Final = str.maketrans(",[]", ";;;")
_COLON: Final = later(r"""(?<=[^\s,\[\]{}?:'"])(:+)(?=[,\[\]{}])""")
_QUOTE: Final = later(r"(?<!\\)(?:\\\\)*(\\)'")
_MARK: Final = later("\n(\ufeff)")
_MARK_IN_TEXT: Final = "\n\ufeff".encode()
_PRIVATE: Final = [chr(code) for code in range(0xE000, 0xE040)]


def leniently(read: Callable[[Document], T], document: Document) -> T:
    """The result of `read` for a document; if only libyaml rejects the document, for its masked text. Raises Fault."""
    if _MARK_IN_TEXT in document.data:
        document = _masked(document, ((_MARK, "\ufeff"),)) or document
    first: Fault | None = None
    for _ in range(_MAX_TAGS):
        try:
            return _read_masked(read, document)
        except Fault as fault:
            first = first or fault
            completed = _with_a_tag_that_ends(document, fault)
            if completed is None:
                break
            document = completed
    assert first is not None
    raise first


def _read_masked(read: Callable[[Document], T], document: Document) -> T:
    try:
        return read(document)
    except Fault as fault:
        masked = _masked(document, ((_COLON, ":"), (_QUOTE, "\\"))) if fault.message.startswith(_FAULTS) else None
        if masked is None:
            raise
        try:
            return read(masked)
        except Fault:
            raise fault from None


def _masked(document: Document, what: Sequence[tuple[re.Pattern[str], str]]) -> Document | None:
    """Return the document with matches masked; None if nothing matches. `what`: (pattern, masked character)."""
    text, masks = document.text, dict(document.masks)
    free = (character for character in _PRIVATE if character not in document.text)
    for pattern, meant in what:
        mask = next(free, "")
        if not mask:
            return None
        text = pattern.sub(partial(_with_mask, mask), text)
        masks[mask] = meant
    if text == document.text:
        return None
    masked = document.create_like(text)
    masked.masks = masks
    return masked


def _with_a_tag_that_ends(document: Document, fault: Fault) -> Document | None:
    """Return the document with the invalid tag ended where libyaml requires; None if no tag is the cause."""
    if fault.since is None or not fault.message.startswith(_TAG_FAULTS):
        return None
    text = document.text
    tag = _TAG.match(text, fault.since)
    if tag is None or (ended := tag[0].translate(_IN_TAG)) == tag[0]:
        return None
    ending = document.create_like(f"{text[: tag.start()]}{ended}{text[tag.end() :]}")
    ending.masks = document.masks
    return ending


def _with_mask(mask: str, match: re.Match[str]) -> str:
    """The matched text, with each character of its group replaced by the mask."""
    before, behind = match.start(1) - match.start(), match.end(1) - match.start()
    return f"{match[0][:before]}{mask * len(match[1])}{match[0][behind:]}"
