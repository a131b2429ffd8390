"""YAML text to JSON values as kubectl sends them, with the positions of fields.

Source of the limit for aliases: go.yaml.in/yaml/v2 decode.go (`allowedAliasRatio`), sigs.k8s.io/yaml yaml.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

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

from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.documents import MAX_DEPTH, Document, Fault
from forewarn.policies.inputs.manifests.yaml.nodes import Alias, Collection, Node, Scalar, compose, followed, parser
from forewarn.policies.inputs.manifests.yaml.scalars import (
    FILE_MODES,
    STARTS,
    Unreadable,
    key_of,
    may_surprise,
    value_of,
)

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Location, Path


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
            raise Fault(
                f"nested more than {MAX_DEPTH} levels deep through aliases", *_outermost(followed, node), is_own=True
            )
        if type(node) is Alias:
            if id(node) in followed:
                raise Fault(f"anchor {node.name!r} contains itself", node.start, node.end)
            followed[id(node)] = node
            stack += ((None, 0), (node.target, depth))
        elif type(node) is Collection:
            stack.extend((child, depth + 1) for child in reversed(node.children))


def _outermost(followed: dict[int, Alias], node: Node) -> tuple[int, int]:
    """Return the span of the outermost alias that leads to the node; without one, the span of the node itself."""
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


def index_by_key(mapping: Collection) -> dict[str, Node]:
    """Return the values of a mapping by the texts of their keys, without keys that are no scalars."""
    pairs = zip(mapping.children[::2], mapping.children[1::2], strict=True)
    return {key.text: value for key, value in pairs if isinstance(key, Scalar)}


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

    @property
    def lost_identity(self) -> dict[str, str]:
        """The name and namespace in the first of two keys `metadata` if the second one has no name; else empty."""
        nodes = [each.value for each in self]
        fields = [index_by_key(node) for node in nodes if isinstance(node, Collection) and node.is_mapping]
        if self.kept.key != "metadata" or len(fields) < len(nodes) or "name" not in fields[0].keys() - fields[1].keys():
            return {}
        texts = {key: fields[0].get(key) for key in ("name", "namespace")}
        return {key: node.text for key, node in texts.items() if isinstance(node, Scalar)}


class Construction:
    """The value of one document, and its repeated keys."""

    def __init__(self, root: Node | None) -> None:
        """Construct the value. Raises Fault if kubectl rejects the document."""
        self.repeated: list[Repeated] = []
        self._shared: dict[int, Any] = {}
        if root is not None:
            check_aliasing(root)
        self.value: Any = None if root is None else self._value(root)

    def meant(self, root: Node) -> Any:
        """Return the value, with the name and namespace of a first `metadata` that a second one without a name drops.

        Rules then see the object as it is meant; the repeated key is reported. `root`: the node of the value.
        """
        keys = {*map(id, root.children[::2])} if self.repeated and isinstance(root, Collection) else set()
        for repeated in self.repeated:
            if id(repeated.kept.key_node) in keys and (identity := repeated.lost_identity):
                return {**self.value, "metadata": {**identity, **self.value["metadata"]}}
        return self.value

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
        raise Fault(
            f"a value of {len(node.text)} characters: the API server takes 3 MiB in all", node.start, is_own=True
        )
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
        if is_merge(key):
            for mapping in _merge_keys(value):
                for entry in entries(mapping):
                    yield entry._replace(merged=True)
            continue
        target = followed(key)
        if isinstance(target, Collection):
            what = "a mapping" if target.is_mapping else "a list"
            raise Fault(f"{what} cannot be a key", key.start, key.end)
        yield MappingEntry(key_text(target), key, value)


def is_merge(key: Node) -> bool:
    """Report whether a key is a merge key (`<<`)."""
    return isinstance(key, Scalar) and key.text == "<<" and (key.plain or key.tag == "tag:yaml.org,2002:merge")


def _merge_keys(value: Node) -> Iterator[Collection]:
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


UNUSUAL: Final = object()
"""The result of `quick_value` for a document that needs the complete parser."""
_ITEM: Final = object()
"""The slot of a sequence: the next value is appended."""

_LONG: Final = 100_000
_CACHED: Final = 64
_MAX_ALIASED: Final = 400
"""Maximum number of nodes that all aliases of a document may add; with so few, kubectl rejects none (`aliasing`)."""


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
    """The collections that contain the current one, with their slots, and the anchored nodes that precede it."""

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
        is_deep = len(self.parents) + nodes > MAX_DEPTH  # the number of nodes also limits the depth
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
    """Decode an unquoted scalar with `decode`. Raises _Unusual if ambiguous or unreadable. `is_mode`: allow octal."""
    if may_surprise(text) and not (is_mode and text.isdigit()):
        raise _Unusual
    try:
        return decode(text, None, True)
    except Unreadable:
        raise _Unusual from None


_plain: Final = lru_cache(maxsize=8192)(partial(_unquoted, value_of))
_plain_mode: Final = lru_cache(maxsize=100)(partial(_unquoted, value_of, is_mode=True))
_plain_key: Final = lru_cache(maxsize=8192)(partial(_unquoted, key_of))


_PROPERTIES: Final = later(
    r"(?:(?:!<[^>]*>|[&!][^\s,\[\]{}]*)(?:[ \t]+(?:#[^\n]*)?|(?=[\s,\[\]{}]|\Z))(?:\r?\n[ \t]*(?:#[^\n]*)?)*)*"
)
"""Anchor and tag before a value, which may be on earlier lines."""


class Tree:
    """The nodes of one document, parsed only if positions are needed, which is rare."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._entries: dict[int, dict[str, MappingEntry]] = {}
        """Cached entries, by the `id` of the mapping: a large mapping may have thousands of findings."""

    @cached_property
    def root(self) -> Node | None:
        """The root node; None for an empty or invalid document."""
        try:
            return compose(self.document)[0]
        except Fault:
            return None

    def way(self, path: Path) -> Iterator[tuple[Node, MappingEntry | None]]:
        """Yield the nodes on a path from the root, as far as they exist, each with its entry if it is in a mapping."""
        found: tuple[Node, MappingEntry | None] | None = (self.root, None) if self.root else None
        for step in path:
            if not found:
                return
            yield found
            found = self._child(found[0], step)
        if found:
            yield found

    def _child(self, node: Node, step: str | int) -> tuple[Node, MappingEntry | None] | None:
        parent = followed(node)
        if not isinstance(parent, Collection):
            return None
        if isinstance(step, int):
            is_item = not parent.is_mapping and step < len(parent.children)
            return (parent.children[step], None) if is_item else None
        if id(parent) not in self._entries:
            self._entries[id(parent)] = {entry.key: entry for entry in entries(parent)} if parent.is_mapping else {}
        entry = self._entries[id(parent)].get(step)
        return entry and (entry.value, entry)


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
        nodes = [*self.tree.way(full)]
        if not nodes:
            return self.tree.document.location(0)
        node, entry = nodes[-1]
        is_present = len(nodes) > len(full) and not (
            isinstance(node, Scalar) and not node.text and node.start == node.end
        )
        return span(self.tree.document, entry.key_node if entry and (key or not is_present) else node)


def span(document: Document, node: Node) -> Location:
    """The position of a node, without its anchor and tag."""
    node = followed(node)
    match = _PROPERTIES.match(document.text, node.start)
    start = match.end() if match and match.end() < node.end else node.start
    return document.location(start, node.end)
