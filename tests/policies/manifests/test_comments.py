"""Comments that speak to forewarn: which there are, and what each is about."""

from __future__ import annotations

import pytest

from forewarn.policies.base.findings import Location
from forewarn.policies.inputs.manifests.documents import MAX_COMMENTS, Comment, comments_of


def about(text: str) -> list[tuple[str, int, int, int]]:
    """(its text, its line, the first and last line that it is about) of each."""
    return [(c.text, c.location.line or 0, c.first, c.last) for c in comments_of(text.encode(), "f.yaml")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2 # forewarn: t\nc: 3\n", [("t", 2, 2, 2)]),
        ("a: 1\n# forewarn: t\nb: 2\nc: 3\n", [("t", 2, 3, 3)]),
        ("a: 1\n  # forewarn: t  \r\n\n# other\n\r\nb: 2\nc: 3\n", [("t", 2, 6, 6)]),
        ("a: 1\n#forewarn:t", [("t", 2, 3, 3)]),
        ("a: 1\n# forewarn: t\n\n", [("t", 2, 5, 5)]),
        ("a: 1 # forewarn: t\n# forewarn: u\nb: 2\n", [("t", 1, 1, 1), ("u", 2, 3, 3)]),
        ("a: 1 # other\nb: 2\n# forewarn: t\nc: 3\n", [("t", 3, 4, 4)]),
        ("a: x# forewarn: t\n", []),
        ("a: forewarn: t\nb: 2 # forewarn: u\n", [("u", 2, 2, 2)]),
        ("a: 1\n", []),
    ],
)
def test_a_comment_is_about_its_line_or_the_next_that_says_something(
    text: str, expected: list[tuple[str, int, int, int]]
) -> None:
    assert about(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# forewarn: t\na: 1\nb: 2\n---\nc: 3", [("t", 1, 2, 3)]),
        ("# licence\n\n# forewarn: t\na: 1\nb: 2", [("t", 3, 4, 5)]),
        ("a: 1\n---\n# forewarn: t\nb: 2\nc: 3", [("t", 3, 4, 5)]),
        ("a: 1\n--- # next\n# forewarn: t\nb: 2\nc: 3\n---\nd: 4", [("t", 3, 4, 5)]),
        ("# forewarn: t\n---\na: 1\nb: 2\n---\nc: 3", [("t", 1, 3, 4)]),
        ("# forewarn: t", [("t", 1, 2, 2)]),
        ("# forewarn: t\na: 1\n# forewarn: u\nb: 2", [("t", 1, 2, 4), ("u", 3, 4, 4)]),
        ("---\na: 1\n# forewarn: t\nb: 2\nc: 3", [("t", 3, 4, 4)]),
    ],
)
def test_a_comment_at_the_head_of_a_document_is_about_all_of_it(
    text: str, expected: list[tuple[str, int, int, int]]
) -> None:
    assert about(text) == expected


def test_a_comment_says_where_it_stands() -> None:
    (comment,) = comments_of(b"a: 1\nb: 2 # forewarn: t  ", "f.yaml")
    assert comment == Comment("t", Location("f.yaml", 2, 6, 19), 2, 2)


def test_of_very_many_comments_so_many_are_read() -> None:
    assert MAX_COMMENTS == 10_000
    assert len(comments_of(b"a: 1 # forewarn: t\n" * (MAX_COMMENTS + 2), "f.yaml")) == MAX_COMMENTS
