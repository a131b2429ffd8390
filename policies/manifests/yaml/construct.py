"""Converts nodes to JSON values as kubectl sends them, within its limit for aliases.

Source: go.yaml.in/yaml/v2 decode.go (`allowedAliasRatio`), sigs.k8s.io/yaml yaml.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from forewarn.policies.light import NamedTuple
from forewarn.policies.manifests.documents import MAX_DEPTH, Fault
from forewarn.policies.manifests.yaml.nodes import Alias, Collection, Node, Scalar, followed
from forewarn.policies.manifests.yaml.scalars import STARTS, Unreadable, key_of, value_of

_LOW: Final = 400_000
_HIGH: Final = 4_000_000


def check_aliasing(root: Node) -> None:
    """Raise Fault if following aliases would make the document too large or nest it too deeply, or would never end.

    Visits nodes in the order of kubectl's decoder; the limit stops the check after at most some hundred thousand
    steps.
    """
    if not _has_alias(root):
        return
    steps = aliased = 0
    stack: list[tuple[Node | None, int]] = [(root, 0)]
    followed: dict[int, Alias] = {}
    while stack:
        node, depth = stack.pop()
        if node is None:
            followed.popitem()
            continue
        steps += 1
        aliased += bool(followed)
        if aliased > 100 and steps > 1000 and aliased / steps > _allowed(steps):
            raise Fault("document contains excessive aliasing", *_outermost(followed, node))
        if depth > MAX_DEPTH:
            raise Fault(f"nested more than {MAX_DEPTH} levels deep through aliases", *_outermost(followed, node))
        if type(node) is Alias:
            if id(node) in followed:
                raise Fault(f"anchor {node.name!r} contains itself", node.start, node.end)
            followed[id(node)] = node
            stack += ((None, 0), (node.target, depth))
        elif type(node) is Collection:
            stack.extend((child, depth + 1) for child in reversed(node.children))


def _outermost(followed: dict[int, Alias], node: Node) -> tuple[int, int]:
    """Return the span of the outermost alias that is followed; if none is, the span of the node."""
    alias = next(iter(followed.values()), node)
    return alias.start, alias.end


def _allowed(steps: int) -> float:
    if steps <= _LOW:
        return 0.99
    if steps >= _HIGH:
        return 0.10
    return 0.99 - 0.89 * ((steps - _LOW) / (_HIGH - _LOW))


def _has_alias(root: Node) -> bool:
    stack = [root]
    while stack:
        node = stack.pop()
        if type(node) is Alias:
            return True
        if type(node) is Collection:
            stack.extend(node.children)
    return False


MAX_SCALAR: Final = 3 * 1024 * 1024
"""Maximum bytes of a scalar: the API server rejects requests above 3 MiB."""


class MappingEntry(NamedTuple):
    """One entry of a mapping. `merged`: added by a merge key (`<<`)."""

    key: str
    key_node: Node
    value: Node
    merged: bool = False


class Repeated(NamedTuple):
    """A key that occurs twice: `lost` is the entry that kubectl ignores, `kept` the entry that kubectl uses."""

    lost: MappingEntry
    kept: MappingEntry


class Construction:
    """The value of one document, and its repeated keys."""

    def __init__(self, root: Node | None) -> None:
        """Construct the value. Raises Fault if kubectl rejects the document."""
        self.repeated: list[Repeated] = []
        self._shared: dict[int, Any] = {}
        if root is not None:
            check_aliasing(root)
        self.value: Any = None if root is None else self._value(root)

    def _value(self, node: Node) -> Any:
        if type(node) is Scalar:
            text = node.text
            if node.tag is None and text and text[0] not in STARTS and len(text) < MAX_SCALAR:
                return text
            return scalar_value(node)
        if type(node) is Alias:
            target = node.target
            if id(target) not in self._shared:
                self._shared[id(target)] = self._value(target)
            return self._shared[id(target)]
        assert type(node) is Collection
        return self._mapping(node) if node.is_mapping else [self._value(child) for child in node.children]

    def _mapping(self, node: Collection) -> dict[str, Any]:
        result: dict[str, Any] = {}
        children = node.children
        for index in range(0, len(children), 2):
            key = children[index]
            if type(key) is not Scalar or key.text == "<<":
                return self._unusual(node)
            name = key_text(key)
            if name in result:
                return self._unusual(node)
            result[name] = self._value(children[index + 1])
        return result

    def _unusual(self, node: Collection) -> dict[str, Any]:
        """Return the value of a mapping with merge keys, aliases as keys, or repeated keys."""
        kept: dict[str, MappingEntry] = {}
        for entry in entries(node):
            before = kept.get(entry.key)
            if before is not None and not before.merged:
                self.repeated.append(Repeated(before, entry))
            kept[entry.key] = entry
        return {key: self._value(entry.value) for key, entry in kept.items()}


def scalar_value(node: Scalar) -> Any:
    """The JSON value of a scalar. Raises Fault."""
    if len(node.text) > MAX_SCALAR:
        raise Fault(f"a value of {len(node.text)} characters: the API server takes 3 MiB in all", node.start)
    try:
        return value_of(node.text, node.tag, node.plain)
    except Unreadable as error:
        raise Fault(str(error), node.start, node.end) from None


def key_text(node: Scalar) -> str:
    """The JSON key for a scalar. Raises Fault."""
    try:
        return key_of(node.text, node.tag, node.plain)
    except Unreadable as error:
        raise Fault(str(error), node.start, node.end) from None


def entries(node: Collection) -> Iterator[MappingEntry]:
    """Yield the entries of a mapping in order; for equal keys, the last entry counts. Raises Fault.

    kubectl's parser does not prefer explicit entries over merged entries: a later `<<` overwrites earlier entries.
    """
    children = iter(node.children)
    for key, value in zip(children, children, strict=True):
        if _is_merge(key):
            for mapping in _merged(value):
                for entry in entries(mapping):
                    yield entry._replace(merged=True)
            continue
        target = followed(key)
        if isinstance(target, Collection):
            what = "a mapping" if target.is_mapping else "a list"
            raise Fault(f"{what} cannot be a key", key.start, key.end)
        yield MappingEntry(key_text(target), key, value)


def _is_merge(key: Node) -> bool:
    return isinstance(key, Scalar) and key.text == "<<" and (key.plain or key.tag == "tag:yaml.org,2002:merge")


def _merged(value: Node) -> Iterator[Collection]:
    """Yield the mappings that a merge key merges; a list in reverse, so that its first mapping counts."""
    target = followed(value)
    if isinstance(target, Collection) and target.is_mapping:
        yield target
        return
    is_list = isinstance(value, Collection)
    for part in reversed(value.children) if is_list else (value,):  # type: ignore[union-attr]
        target = followed(part)
        if not isinstance(target, Collection) or not target.is_mapping:
            raise Fault("map merge requires map or sequence of maps as the value", part.start, part.end)
        yield target
