"""Findings and predictions as text, for users and for programs."""

from collections.abc import Callable

Painter = Callable[[str, str], str]
"""Applies a style to a text."""


def plain(text: str, style: str) -> str:  # noqa: ARG001  (the signature of a Painter)
    return text
