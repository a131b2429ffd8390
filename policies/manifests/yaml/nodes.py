"""A YAML document as a tree of nodes with positions, built from the parser's events without recursion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from forewarn.policies.manifests.documents import MAX_DEPTH, Fault
from forewarn.policies.manifests.yaml.parsing import fault_of, parser

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.manifests.documents import Document

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
    """The target of an alias, or the node itself."""
    return node.target if isinstance(node, Alias) else node


def compose(document: Document) -> tuple[Node | None, Fault | None]:
    """Return the root node (None for an empty document), and the error of text after the document's end. Raises
    Fault.
    """
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
    """Build the nodes up to the end of the root node."""
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
                raise Fault(f"nested more than {MAX_DEPTH} levels deep", inner.start, inner.start + 1)
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
