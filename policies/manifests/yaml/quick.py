"""The value of a document in the usual notation, built directly from the parser's events, at twice the speed."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

from yaml.error import YAMLError
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from forewarn.policies.manifests.documents import MAX_DEPTH, Document
from forewarn.policies.manifests.yaml.nodes import parser
from forewarn.policies.manifests.yaml.scalars import FILE_MODES, STARTS, Unreadable, key_of, may_surprise, value_of

UNUSUAL: Final = object()
"""The result of `quick_value` for a document that needs the complete parser."""
_ITEM: Final = object()
"""The place of the next value in a sequence: its end."""

_LONG: Final = 100_000
_CACHED: Final = 64
_MAX_ALIASED: Final = 400
"""Maximum nodes that all aliases of a document may add; with so few, kubectl rejects none (`aliasing`)."""


def quick_value(document: Document) -> Any:
    """Return the JSON value of a document, or UNUSUAL.

    UNUSUAL: an error, a key with an anchor, many aliases, a tag, a merge key, a repeated key, a key that is not a
    string, deep nesting, a very long scalar, or an ambiguous scalar. `Construction` supports all documents, including
    these.
    """
    next_event: Callable[[], Any] = parser(document).get_event
    try:
        next_event()
        if type(next_event()) is not DocumentStartEvent:
            return UNUSUAL
        value = _build(next_event)
        return value if type(next_event()) is StreamEndEvent else UNUSUAL
    except (YAMLError, _Unusual):
        return UNUSUAL


class _Unusual(Exception):
    """The error if a document needs the complete parser."""


def _build(next_event: Callable[[], Any]) -> Any:
    """Return the value of the root node. Raises YAMLError and _Unusual.

    One loop without calls for scalars, because the loop runs for every token of every wanted document. `slot`: where
    the next value belongs in `current`: the key of a mapping, None if the value is a key, or _ITEM.
    """
    top: list[Any] = []
    current: Any = top
    slot: Any = _ITEM
    open_nodes = _OpenNodes()
    while (kind := type(event := next_event())) is not DocumentEndEvent:
        if kind is ScalarEvent:
            value = event.value
            if event.tag is not None or len(value) > _LONG:
                raise _Unusual
            if event.implicit[0] and (not value or value[0] in STARTS):
                convert = _plain_key if slot is None else _plain_mode if slot in FILE_MODES else _plain
                value = convert(value) if len(value) < _CACHED else convert.__wrapped__(value)
            if event.anchor is not None:
                open_nodes.add_anchor(event.anchor, value, slot)
            if slot is None:
                if value == "<<" or value in current:
                    raise _Unusual
                slot = value
            elif slot is _ITEM:
                current.append(value)
            else:
                current[slot], slot = value, None
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            current, slot = open_nodes.parents.pop()
        else:
            current, slot = open_nodes.enter(event, current, slot)
    return top[0]


class _OpenNodes:
    """The collections that contain the current one, with their slots; the anchored nodes before."""

    def __init__(self) -> None:
        self.parents: list[tuple[Any, Any]] = []
        self._anchored, self._aliased = dict[str, Any](), 0

    def add_anchor(self, anchor: str, value: Any, slot: Any) -> None:
        """Store the value of an anchored node. Raises _Unusual for a key."""
        if slot is None:
            raise _Unusual
        self._anchored[anchor] = value

    def enter(self, event: Any, current: Any, slot: Any) -> tuple[Any, Any]:
        """Put an event's alias or collection into `current`; return the next `current` and slot. Raises _Unusual."""
        kind = type(event)
        if slot is None or len(self.parents) == MAX_DEPTH:
            raise _Unusual
        if kind is AliasEvent:
            value = self._value_of_alias(event.anchor, current)
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            value = {} if kind is MappingStartEvent else []
            if event.anchor is not None:
                self._anchored[event.anchor] = value
        else:
            raise _Unusual
        if slot is _ITEM:
            current.append(value)
        else:
            current[slot], slot = value, None
        if kind is AliasEvent:
            return current, slot
        self.parents.append((current, slot))
        return value, None if kind is MappingStartEvent else _ITEM

    def _value_of_alias(self, anchor: str, current: Any) -> Any:
        value = self._anchored.get(anchor, UNUSUAL)
        nodes = _count_nodes(value)
        self._aliased += nodes
        is_open = value is current or any(value is parent for parent, _ in self.parents)
        is_deep = len(self.parents) + nodes > MAX_DEPTH  # there are no more levels than nodes
        if value is UNUSUAL or is_open or is_deep or self._aliased > _MAX_ALIASED:
            raise _Unusual
        return value


def _count_nodes(value: Any) -> int:
    """Return the number of nodes of a value, including keys; stop soon after `_MAX_ALIASED`."""
    to_do, count = [value], 0
    while to_do and count <= _MAX_ALIASED:
        current = to_do.pop()
        count += 1
        if isinstance(current, dict):
            count += len(current)
            to_do += current.values()
        elif isinstance(current, list):
            to_do += current
    return count


def _unquoted(decode: Callable[[str, None, bool], Any], text: str, *, is_mode: bool = False) -> Any:
    """Return `decode` of an unquoted scalar. Raises _Unusual if ambiguous or unreadable. `is_mode`: may be octal."""
    if may_surprise(text) and not (is_mode and text.isdigit()):
        raise _Unusual
    try:
        return decode(text, None, True)
    except Unreadable:
        raise _Unusual from None


_plain: Final = lru_cache(maxsize=8192)(partial(_unquoted, value_of))
_plain_mode: Final = lru_cache(maxsize=100)(partial(_unquoted, value_of, is_mode=True))
_plain_key: Final = lru_cache(maxsize=8192)(partial(_unquoted, key_of))
