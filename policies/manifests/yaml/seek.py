"""The position of one scalar in a document: parsing stops after the scalar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from forewarn.policies.manifests.yaml.nodes import Scalar
from forewarn.policies.manifests.yaml.parsing import extent, parser
from forewarn.policies.manifests.yaml.scalars import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.findings import Path
    from forewarn.policies.manifests.documents import Document


def seek(document: Document, path: Path) -> Scalar | None:
    """The scalar at a path of a document that `quick_value` can read; None if it is absent or empty."""
    next_event: Callable[[], Any] = parser(document).get_event
    next_event()
    next_event()
    event = next_event()
    for step in path:
        found = _enter(next_event, event, step)
        if found is None:
            return None
        event = found
    if type(event) is not ScalarEvent:
        return None
    start, end = extent(event)
    return Scalar(event.value, event.tag, event.implicit[0], start, end) if start < end else None


def _enter(next_event: Callable[[], Any], parent: Any, step: str | int) -> Any:
    """Return the first event of a child, after reading up to it; None if the child does not exist."""
    if isinstance(step, str) and type(parent) is MappingStartEvent:
        while type(key := next_event()) is not MappingEndEvent:
            if key_of(key.value, None, key.implicit[0]) == step:
                return next_event()
            _skip(next_event, next_event())
    elif isinstance(step, int) and type(parent) is SequenceStartEvent:
        for _ in range(step):
            event = next_event()
            if type(event) is SequenceEndEvent:
                return None
            _skip(next_event, event)
        event = next_event()
        return None if type(event) is SequenceEndEvent else event
    return None


def _skip(next_event: Callable[[], Any], event: Any) -> None:
    """Read to the end of the node that starts with this event."""
    depth = 0
    while True:
        kind = type(event)
        if kind is MappingStartEvent or kind is SequenceStartEvent:
            depth += 1
        elif kind is not ScalarEvent and kind is not AliasEvent and issubclass(kind, CollectionEndEvent):
            depth -= 1
        if depth == 0:
            return
        event = next_event()
