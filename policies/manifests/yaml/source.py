"""Positions of an object's fields in YAML text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from forewarn.policies.light import NamedTuple, later
from forewarn.policies.manifests.documents import Document, Fault
from forewarn.policies.manifests.yaml.construct import MappingEntry, entries
from forewarn.policies.manifests.yaml.nodes import Collection, Node, Scalar, compose, extent, followed, parser
from forewarn.policies.manifests.yaml.scalars import key_of

if TYPE_CHECKING:
    from forewarn.policies.findings import Location, Path


def seek(document: Document, path: Path) -> Scalar | None:
    """The scalar at a path of a document that `quick_value` can read; None if it is absent or empty."""
    next_event: Callable[[], Any] = parser(document).get_event
    next_event()
    next_event()
    event = next_event()
    for step in path:
        entered = _enter(next_event, event, step)
        if entered is None:
            return None
        event = entered
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


_PROPERTIES: Final = later(
    r"(?:(?:!<[^>]*>|[&!][^\s,\[\]{}]*)(?:[ \t]+(?:#[^\n]*)?|(?=[\s,\[\]{}]|\Z))(?:\r?\n[ \t]*(?:#[^\n]*)?)*)*"
)
"""Anchor and tag before a value, which may be on earlier lines."""


_FEW: Final = 4
"""Number of lookups in one document from which parsing all its nodes is faster."""
_WIDE: Final = 64
"""Number of children from which an index by key is faster."""


class Tree:
    """The nodes of one document, parsed only if positions are needed, which is rare.

    `ordinary`: `quick_value` can read the document, so that one field can be found without all nodes.
    """

    def __init__(self, document: Document, *, ordinary: bool = False) -> None:
        self.document = document
        self._to_seek = _FEW if ordinary else 0
        self._keys: dict[int, dict[str, MappingEntry]] = {}

    def scalar(self, path: Path) -> Scalar | None:
        """Return the scalar at a path if found without all nodes. After many calls None: reading all is faster."""
        self._to_seek -= 1
        return seek(self.document, path) if self._to_seek >= 0 else None

    @cached_property
    def root(self) -> Node | None:
        """The root node; None for an empty or invalid document."""
        try:
            return compose(self.document)[0]
        except Fault:
            return None

    def child(self, node: Node, step: str | int) -> tuple[Node, MappingEntry | None] | None:
        """Find a child as `_child`, with a cached index for large mappings, which may have thousands of findings."""
        parent = followed(node)
        if isinstance(step, int) or not isinstance(parent, Collection) or len(parent.children) < _WIDE:
            return _child(parent, step)
        if id(parent) not in self._keys:
            self._keys[id(parent)] = {e.key: e for e in entries(parent)} if parent.is_mapping else {}
        entry = self._keys[id(parent)].get(step)
        return (entry.value, entry) if entry else None


class YamlSource(NamedTuple):
    """The source of an object in a YAML document. `prefix`: path from the document's root to the object (an item of a
    List).
    """

    tree: Tree
    prefix: Path = ()

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """Return the position of the value at `path` (with `key`, of its key); of the nearest parent if absent.

        For an alias, the position of the anchored value. For a value of several lines, its first line.
        """
        full = (*self.prefix, *path)
        scalar = None if key else self.tree.scalar(full)
        if scalar is not None:
            return self._span(scalar)
        node, entry = self.tree.root, None
        if node is None:
            return self.tree.document.location(0)
        for depth, step in enumerate(full):
            child = self.tree.child(node, step)
            if child is None:
                return self._parent(node, entry)
            node, entry = child
            if key and entry and depth == len(full) - 1:
                return self._span(entry.key_node)
        return self._parent(node, entry) if _is_empty(node) else self._span(node)

    def _parent(self, node: Node, entry: MappingEntry | None) -> Location:
        """The position of an entry's key, for a value without a position; without `entry`, the position of the node."""
        return self._span(entry.key_node if entry else node)

    def _span(self, node: Node) -> Location:
        return span(self.tree.document, node)


def span(document: Document, node: Node) -> Location:
    """The position of a node, without its anchor and tag."""
    node = followed(node)
    match = _PROPERTIES.match(document.text, node.start)
    start = match.end() if match and match.end() < node.end else node.start
    return document.location(start, node.end)


def node_at(root: Node, path: Path) -> Node | None:
    """The node at a path from the root; None if there is none."""
    node: Node = root
    for step in path:
        child = _child(node, step)
        if child is None:
            return None
        node = child[0]
    return node


def _is_empty(node: Node) -> bool:
    return isinstance(node, Scalar) and not node.text and node.start == node.end


def _child(node: Node, step: str | int) -> tuple[Node, MappingEntry | None] | None:
    """The child of a node at a key or index, and its entry if the node is a mapping; None if there is no such child."""
    parent = followed(node)
    if not isinstance(parent, Collection):
        return None
    if isinstance(step, int):
        is_item = not parent.is_mapping and step < len(parent.children)
        return (parent.children[step], None) if is_item else None
    mapping_entry: MappingEntry | None = None
    if parent.is_mapping:
        for entry in entries(parent):
            if entry.key == step:
                mapping_entry = entry
    return (mapping_entry.value, mapping_entry) if mapping_entry else None
