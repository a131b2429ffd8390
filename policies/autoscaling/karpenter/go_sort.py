"""Go's sort.Slice, which is not stable: what it does with equal elements decides which NodeClaim gets a Pod.

Source: Go 1.26, src/sort/zsortfunc.go (pdqsort_func).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_INSERTION: Final = 12


def sort_slice(items: list[Any], less: Callable[[Any, Any], bool]) -> None:
    """Sort a list in place as Go does."""
    if len(items) > 1:
        _Sort(items, less).pdqsort(0, len(items), len(items).bit_length())


class _Sort:
    def __init__(self, items: list[Any], less: Callable[[Any, Any], bool]) -> None:
        self._items, self._compare = items, less

    def _less(self, i: int, j: int) -> bool:
        return self._compare(self._items[i], self._items[j])

    def _swap(self, i: int, j: int) -> None:
        self._items[i], self._items[j] = self._items[j], self._items[i]

    def _insertion_sort(self, a: int, b: int) -> None:
        for i in range(a + 1, b):
            j = i
            while j > a and self._less(j, j - 1):
                self._swap(j, j - 1)
                j -= 1

    def pdqsort(self, a: int, b: int, limit: int) -> None:
        """Sort from a to b. `limit`: bad pivots before Go sorts in another way (here: by insertion)."""
        was_balanced = was_partitioned = True
        while True:
            length = b - a
            if length <= _INSERTION or limit == 0:
                return self._insertion_sort(a, b)
            if not was_balanced:
                self._break_patterns(a, b)
                limit -= 1
            pivot, hint = self._choose_pivot(a, b)
            if hint < 0:
                for i in range(length // 2):
                    self._swap(a + i, b - 1 - i)
                pivot, hint = (b - 1) - (pivot - a), 1
            if was_balanced and was_partitioned and hint > 0 and self._partial_insertion_sort(a, b):
                return None
            if a > 0 and not self._less(a - 1, pivot):
                a = self._partition_equal(a, b, pivot)
                continue
            middle, was_partitioned = self._partition(a, b, pivot)
            left, right = middle - a, b - middle
            was_balanced = min(left, right) >= length // 8
            if left < right:
                self.pdqsort(a, middle, limit)
                a = middle + 1
            else:
                self.pdqsort(middle + 1, b, limit)
                b = middle

    def _partition(self, a: int, b: int, pivot: int) -> tuple[int, bool]:
        self._swap(a, pivot)
        i, j, swapped = a + 1, b - 1, False
        while True:
            while i <= j and self._less(i, a):
                i += 1
            while i <= j and not self._less(j, a):
                j -= 1
            if i > j:
                self._swap(j, a)
                return j, not swapped
            self._swap(i, j)
            i, j, swapped = i + 1, j - 1, True

    def _partition_equal(self, a: int, b: int, pivot: int) -> int:
        self._swap(a, pivot)
        i, j = a + 1, b - 1
        while True:
            while i <= j and not self._less(a, i):
                i += 1
            while i <= j and self._less(a, j):
                j -= 1
            if i > j:
                return i
            self._swap(i, j)
            i, j = i + 1, j - 1

    def _partial_insertion_sort(self, a: int, b: int) -> bool:
        i = a + 1
        for _ in range(5):
            while i < b and not self._less(i, i - 1):
                i += 1
            if i == b:
                return True
            if b - a < 50:
                return False
            self._swap(i, i - 1)
            if i - a >= 2:
                for j in range(i - 1, 0, -1):
                    if not self._less(j, j - 1):
                        break
                    self._swap(j, j - 1)
            if b - i >= 2:
                for j in range(i + 1, b):
                    if not self._less(j, j - 1):
                        break
                    self._swap(j, j - 1)
        return False

    def _break_patterns(self, a: int, b: int) -> None:
        length = b - a
        if length < 8:
            return
        random, modulus = length, 1 << length.bit_length()
        index = a + (length // 4) * 2 - 1
        for i in range(3):
            random ^= (random << 13) & _UINT64
            random ^= random >> 7
            random ^= (random << 17) & _UINT64
            other = random & (modulus - 1)
            self._swap(index + i, a + (other - length if other >= length else other))

    def _choose_pivot(self, a: int, b: int) -> tuple[int, int]:
        length, swaps = b - a, [0]
        i, j, k = a + length // 4, a + length // 4 * 2, a + length // 4 * 3
        if length >= 8:
            if length >= 50:
                i, j, k = (self._median(x - 1, x, x + 1, swaps) for x in (i, j, k))
            j = self._median(i, j, k, swaps)
        return j, {0: 1, 12: -1}.get(swaps[0], 0)

    def _median(self, a: int, b: int, c: int, swaps: list[int]) -> int:
        def ordered(x: int, y: int) -> tuple[int, int]:
            if not self._less(y, x):
                return x, y
            swaps[0] += 1
            return y, x

        a, b = ordered(a, b)
        b, c = ordered(b, c)
        a, b = ordered(a, b)
        return b


_UINT64: Final = 2**64 - 1
