"""Checks that text is valid YAML without constructing values: libyaml's grammar, and kubectl's differences."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from yaml.error import YAMLError
from yaml.events import CollectionEndEvent, CollectionStartEvent, DocumentEndEvent, ScalarEvent

from forewarn.policies.manifests.documents import MAX_DEPTH, Fault
from forewarn.policies.manifests.sniff import has_doubtful_questions, slashes_in_disguise, texts_to_prove_it
from forewarn.policies.manifests.yaml.parsing import fault_of, parser, parser_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.manifests.documents import Document

_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)


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


def is_plainly_grammar(document: Document) -> bool:
    """Report whether the text is valid, and a check of its grammar suffices; proved by parsing masked copies. False:
    unknown.

    Slower than `sniff.only_grammar_matters`, which is more conservative, and much faster than construction.
    """
    texts = () if document.masks else texts_to_prove_it(document.data)
    return bool(texts) and all(map(_is_accepted, texts))


def _is_accepted(text: bytes) -> bool:
    """Report whether the parser accepts a text; false without the C parser."""
    events = parser_of(text)
    if not hasattr(events, "raw_parse"):
        return False
    try:
        events.raw_parse()
    except YAMLError:
        return False
    return True


def check_as_kubectl(document: Document) -> None:
    """Raise Fault if libyaml accepts text that kubectl rejects: the escape `\\/`, and ? inside flow collections."""
    has_slashes = b"\\/" in document.data and not _is_accepted(slashes_in_disguise(document.data))
    if not has_slashes and not has_doubtful_questions(document.data):
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
                    raise Fault(f"nested more than {MAX_DEPTH} levels deep", start, start + 1)
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
