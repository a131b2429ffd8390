"""The value of an ordinary document, straight from the parser's events: what most documents are, at twice the speed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from yaml.error import YAMLError
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from policies.manifests.documents import MAX_DEPTH
from policies.manifests.yaml.ambiguous import may_surprise
from policies.manifests.yaml.parsing import parser
from policies.manifests.yaml.scalars import STARTS, Unreadable, key_of, value_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.manifests.documents import Document

UNUSUAL: Final = object()
"""What `quick_value` answers where the document has to be read with care."""

_LONG: Final = 100_000
_CACHED: Final = 64


def quick_value(document: Document) -> Any:
    """The JSON value of a document, or UNUSUAL.

    UNUSUAL: a fault, an anchor, a tag, a merge, a key given twice, a key that is no string, deep nesting, a very long
    scalar, or a scalar that deserves a remark. Reading by nodes is right for all of them, and for all others too.
    """
    next_event: Callable[[], Any] = parser(document).get_event
    try:
        next_event()
        if type(next_event()) is not DocumentStartEvent:
            return UNUSUAL
        value = _build(next_event)
        return value if value is UNUSUAL or type(next_event()) is StreamEndEvent else UNUSUAL
    except YAMLError:
        return UNUSUAL


def _build(next_event: Callable[[], Any]) -> Any:  # noqa: C901, PLR0912  (functions cost a call for every token)
    """The value of the root node; one loop without calls, as it runs for every token of every wanted document."""
    top: list[Any] = []
    current: Any = top
    parents: list[tuple[Any, bool]] = []
    in_mapping, key = False, None
    while True:
        event = next_event()
        kind = type(event)
        if kind is ScalarEvent:
            value = event.value
            if event.tag is not None or event.anchor is not None or len(value) > _LONG:
                return UNUSUAL
            if event.implicit[0] and (not value or value[0] in STARTS):
                convert = _plain_key if in_mapping and key is None else _plain
                value = convert(value) if len(value) < _CACHED else convert.__wrapped__(value)
                if value is UNUSUAL:
                    return UNUSUAL
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            if event.anchor is not None or (in_mapping and key is None) or len(parents) == MAX_DEPTH:
                return UNUSUAL
            value = {} if kind is MappingStartEvent else []
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            current, in_mapping = parents.pop()
            continue
        else:
            return top[0] if kind is DocumentEndEvent else UNUSUAL
        if not in_mapping:
            current.append(value)
        elif key is None:
            if value == "<<" or value in current:
                return UNUSUAL
            key = value
            continue
        else:
            current[key], key = value, None
        if kind is not ScalarEvent:
            parents.append((current, in_mapping))
            current, in_mapping = value, kind is MappingStartEvent


@lru_cache(maxsize=8192)
def _plain(text: str) -> Any:
    """The value of a scalar without quotes."""
    if may_surprise(text):
        return UNUSUAL
    try:
        return value_of(text, None, True)
    except Unreadable:
        return UNUSUAL


@lru_cache(maxsize=8192)
def _plain_key(text: str) -> Any:
    """The key that a scalar without quotes becomes."""
    try:
        return UNUSUAL if may_surprise(text) else key_of(text, None, True)
    except Unreadable:
        return UNUSUAL
