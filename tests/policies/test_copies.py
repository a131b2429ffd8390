"""Sequences whose values are created on access."""

from __future__ import annotations

import pytest

from forewarn.policies.base.copies import MadeOnAccess


class _Unmade(MadeOnAccess[int]):
    def _made(self, place: int) -> int:
        raise IndexError(place)


def test_an_index_error_does_not_end_an_iteration() -> None:
    with pytest.raises(IndexError):
        list(_Unmade(range(2)))
