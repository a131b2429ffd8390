"""Seeded chance, in the words that the features need."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

Obj = dict[str, Any]
T = TypeVar("T")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Dice:
    """A random source; everything that is drawn in a case comes from one of these."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return self._random.randint(low, high)

    def share(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def pick(self, values: Sequence[T]) -> T:
        return self._random.choice(values)

    def some(self, values: Sequence[T], low: int, high: int) -> list[T]:
        """Between low and high different values, in random order."""
        high = min(high, len(values))
        return self._random.sample(list(values), self.number(min(low, high), high))

    def weighted(self, weights: dict[T, int]) -> T:
        return self._random.choices(list(weights), list(weights.values()))[0]

    def shuffled(self, values: Sequence[T]) -> list[T]:
        return self._random.sample(list(values), len(values))


def timestamp(seconds: int) -> str:
    """An API timestamp so many seconds after the first moment of the simulated time."""
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def cpu_text(dice: Dice, milli: int) -> str:
    """One of the spellings of an amount of CPU that the API accepts."""
    if milli % 1000 == 0 and dice.chance(0.6):
        return str(milli // 1000)
    if milli % 10 == 0 and dice.chance(0.15):
        return f"{milli / 1000:g}"
    return f"{milli}m"


def memory_text(dice: Dice, mebibytes: int) -> str:
    """One of the spellings of an amount of memory that the API accepts."""
    if mebibytes % 1024 == 0 and dice.chance(0.6):
        return f"{mebibytes // 1024}Gi"
    spelling = dice.weighted({"Mi": 12, "Ki": 2, "bytes": 2, "M": 1})
    if spelling == "Ki":
        return f"{mebibytes * 1024}Ki"
    if spelling == "bytes":
        return str(mebibytes * 1024 * 1024)
    if spelling == "M":
        return f"{mebibytes}M"
    return f"{mebibytes}Mi"


_MEMORY_SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 10**3, "M": 10**6, "G": 10**9}


def milli_of(text: str) -> int:
    """The amount of CPU that cpu_text wrote."""
    return int(text[:-1]) if text.endswith("m") else round(float(text) * 1000)


def bytes_of(text: str) -> int:
    """The amount of memory that memory_text wrote."""
    for suffix, factor in _MEMORY_SUFFIXES.items():
        if text.endswith(suffix):
            return int(text.removesuffix(suffix)) * factor
    return int(text)
