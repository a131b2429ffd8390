r"""Checks that text is valid YAML without constructing values: libyaml's grammar, and kubectl's differences.

`leniently` rewrites text that kubectl's parser accepts and libyaml rejects. In a plain scalar in brackets or braces,
a `:` ends the scalar only before a blank (`[1.2.3.4, 001:db8::]`), `\'` is an escape in double quotes, and a byte order
mark is text except at the start of a document. These characters are masked one for one by characters that the text does
not contain, so that all positions stay the same; `nodes.Unmasking` restores them in the values. A tag continues over
commas and brackets (`!!str, x`); such a tag is unknown, so its replacement does not matter. Source: go.yaml.in/yaml/v2
scannerc.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from yaml.error import YAMLError
from yaml.events import CollectionEndEvent, CollectionStartEvent, DocumentEndEvent, ScalarEvent

from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests.documents import MAX_DEPTH, Document, Fault
from forewarn.policies.inputs.manifests.yaml.nodes import fault_of, parser, parser_of

if TYPE_CHECKING:
    T = TypeVar("T")


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
                return  # kubectl reads no further
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
    """Return the document with matches masked, or None. `what`: (pattern, the character that a mask represents)."""
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
    masked = document.like(text)
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
    ending = document.like(f"{text[: tag.start()]}{ended}{text[tag.end() :]}")
    ending.masks = document.masks
    return ending


def _with_mask(mask: str, match: re.Match[str]) -> str:
    """The matched text, with each character of its group replaced by the mask."""
    before, behind = match.start(1) - match.start(), match.end(1) - match.start()
    return f"{match[0][:before]}{mask * len(match[1])}{match[0][behind:]}"
