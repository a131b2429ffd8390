"""Whether text can be parsed at all, without reading it: libyaml's grammar, and what kubectl's older copy refuses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from yaml.error import YAMLError
from yaml.events import CollectionEndEvent, CollectionStartEvent, ScalarEvent

from policies.manifests.documents import MAX_DEPTH, Fault
from policies.manifests.sniff import laxer_than_kubectl
from policies.manifests.yaml.parsing import fault_of, parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.manifests.documents import Document

_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)


def check(document: Document) -> None:
    """Only see whether the text can be parsed: many times faster than reading it. Raises Fault."""
    events = parser(document)
    try:
        if hasattr(events, "raw_parse"):
            events.raw_parse()
        else:
            for _ in _all(events):
                pass
    except YAMLError as error:
        raise fault_of(error, document) from None


def check_as_kubectl(document: Document) -> None:
    """Raise Fault where libyaml takes what kubectl does not: the escape `\\/`, and ? inside of flow collections."""
    if not laxer_than_kubectl(document.data):
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
    except YAMLError as error:
        raise fault_of(error, document) from None


def _check_escapes(event: Any, text: str) -> None:
    for escape in _ESCAPE.finditer(text, event.start_mark.index, event.end_mark.index):
        if escape[0] == "\\/":
            raise Fault("the escape \\/ is unknown to kubectl's YAML reader", *escape.span())


def _all(events: Any) -> Iterator[Any]:
    while (event := events.get_event()) is not None:
        yield event
