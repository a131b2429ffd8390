"""How far aliases may swell a document: counted as kubectl's reader counts."""

from __future__ import annotations

import pytest

from forewarn.policies.inputs.manifests.documents import Document, Fault
from forewarn.policies.inputs.manifests.yaml.nodes import Alias, Collection, Node, Scalar, compose
from forewarn.policies.inputs.manifests.yaml.source import _allowed, _has_alias, check_aliasing


def tree(own: int, followed: int) -> Collection:
    """A list whose walk takes `own` steps in the text (itself and an alias among them), then `followed` behind it."""
    target, root = Collection(False, 0), Collection(False, 0)
    target.children = [Scalar("a", None, True, 0, 1) for _ in range(followed - 1)]
    here: list[Node] = [Scalar("b", None, True, 0, 1) for _ in range(own - 2)]
    root.children = [*here, Alias("a", target, 7, 9)]
    return root


@pytest.mark.parametrize(("own", "followed"), [(9, 991), (11, 1_089), (500, 5)])
def test_nearly_all_steps_may_come_of_aliases(own: int, followed: int) -> None:
    check_aliasing(tree(own, followed))


@pytest.mark.parametrize(("own", "followed"), [(9, 992), (10, 991), (11, 1_090)])
def test_of_more_than_a_thousand_steps_only_so_many(own: int, followed: int) -> None:
    with pytest.raises(Fault, match="excessive aliasing") as fault:
        check_aliasing(tree(own, followed))
    assert (fault.value.start, fault.value.end) == (7, 9)


@pytest.mark.parametrize(
    ("steps", "ratio"),
    [
        (1_001, 0.99),
        (400_000, 0.99),
        (400_001, 0.99 - 0.89 * (1 / 3_600_000)),
        (2_200_000, 0.99 - 0.89 * 0.5),
        (3_999_999, 0.99 - 0.89 * (3_599_999 / 3_600_000)),
        (4_000_000, 0.10),
        (5_000_000, 0.10),
    ],
)
def test_the_more_steps_the_fewer_may_come_of_aliases(steps: int, ratio: float) -> None:
    assert _allowed(steps) == ratio


@pytest.mark.parametrize(("text", "has"), [(b"a: [b]\n", False), (b"a: &b [c]\nd: [e, *b]\n", True)])
def test_a_text_without_aliases_is_not_walked(text: bytes, has: bool) -> None:
    root, _ = compose(Document(text, "f.yaml"))
    assert root is not None
    assert _has_alias(root) is has


def test_nesting_counts_through_aliases() -> None:
    def text(inner: int, outer: int) -> bytes:
        return b"a: &b " + b"[" * inner + b"c" + b"]" * inner + b"\nd: " + b"[" * outer + b"*b" + b"]" * outer + b"\n"

    deepest, _ = compose(Document(text(128, 127), "f.yaml"))
    assert deepest is not None
    check_aliasing(deepest)
    deeper, _ = compose(Document(text(128, 128), "f.yaml"))
    assert deeper is not None
    with pytest.raises(Fault, match="more than 256 levels deep through aliases") as fault:
        check_aliasing(deeper)
    assert fault.value.end == fault.value.start + 2
