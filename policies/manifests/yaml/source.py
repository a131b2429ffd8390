"""The position of a field of an object in YAML text."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.manifests.documents import Fault
from forewarn.policies.manifests.yaml.construct import MappingEntry, entries
from forewarn.policies.manifests.yaml.nodes import Collection, Scalar, compose, followed
from forewarn.policies.manifests.yaml.seek import seek

if TYPE_CHECKING:
    from forewarn.policies.findings import Location, Path
    from forewarn.policies.manifests.documents import Document
    from forewarn.policies.manifests.yaml.nodes import Node

_PROPERTIES: Final = re.compile(
    r"(?:(?:!<[^>]*>|[&!][^\s,\[\]{}]*)(?:[ \t]+(?:#[^\n]*)?|(?=[\s,\[\]{}]|\Z))(?:\r?\n[ \t]*(?:#[^\n]*)?)*)*"
)
"""Anchor and tag before a value, which may stand some lines below."""


_FEW: Final = 4
"""From so many positions in one document on it pays to have all its nodes."""
_WIDE: Final = 64
"""From so many children on it pays to remember them by their keys."""


class Tree:
    """The nodes of one document: parsed again when positions are asked for, as few objects ever need one.

    `ordinary`: `quick_value` could read it, so that one field can be found without all nodes.
    """

    def __init__(self, document: Document, *, ordinary: bool = False) -> None:
        self.document = document
        self._to_seek = _FEW if ordinary else 0
        self._keys: dict[int, dict[str, MappingEntry]] = {}

    def scalar(self, path: Path) -> Scalar | None:
        """The scalar at a path, where it is found without all nodes."""
        self._to_seek -= 1
        return seek(self.document, path) if self._to_seek >= 0 else None

    @cached_property
    def root(self) -> Node | None:
        """The root node; None where there is none."""
        try:
            return compose(self.document)[0]
        except Fault:
            return None

    def child(self, node: Node, step: str | int) -> tuple[Node, MappingEntry | None] | None:
        """As `_child`; the keys of a mapping are remembered: a thousand findings may be about one that has as many."""
        parent = followed(node)
        if isinstance(step, int) or not isinstance(parent, Collection) or len(parent.children) < _WIDE:
            return _child(parent, step)
        if id(parent) not in self._keys:
            self._keys[id(parent)] = {e.key: e for e in entries(parent)} if parent.is_mapping else {}
        found = self._keys[id(parent)].get(step)
        return (found.value, found) if found else None


class YamlSource(NamedTuple):
    """An object in a YAML document; `prefix` leads to it from the document's root (an item of a List)."""

    tree: Tree
    prefix: Path = ()

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """The span of the value at `path` (of its key, if asked for); of the nearest parent where it is absent.

        Behind an alias it is the anchored value. A value of several lines is shown by its first.
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
        """A value without a position of its own: it has the position of its key."""
        return self._span(entry.key_node if entry else node)

    def _span(self, node: Node) -> Location:
        return span(self.tree.document, node)


def span(document: Document, node: Node) -> Location:
    """Return the position of a node without its anchor and tag."""
    node = followed(node)
    match = _PROPERTIES.match(document.text, node.start)
    start = match.end() if match and match.end() < node.end else node.start
    return document.location(start, node.end)


def node_at(root: Node, path: Path) -> Node | None:
    """The node at a path from the root, None where there is none."""
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
    """The node that a step leads to, and the entry where the step is a key; None where it leads nowhere."""
    parent = followed(node)
    if not isinstance(parent, Collection):
        return None
    if isinstance(step, int):
        is_item = not parent.is_mapping and step < len(parent.children)
        return (parent.children[step], None) if is_item else None
    found: MappingEntry | None = None
    if parent.is_mapping:
        for entry in entries(parent):
            if entry.key == step:
                found = entry
    return (found.value, found) if found else None
