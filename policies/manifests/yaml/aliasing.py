"""The limit of kubectl's YAML parser for aliases. Source: go.yaml.in/yaml/v2 decode.go, allowedAliasRatio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.manifests.documents import MAX_DEPTH, Fault
from forewarn.policies.manifests.yaml.nodes import Alias, Collection

if TYPE_CHECKING:
    from forewarn.policies.manifests.yaml.nodes import Node

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
