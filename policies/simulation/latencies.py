"""How long things take. The outcome that is told is that of fixed latencies; jitter shows which races there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from random import Random

WRITE: Final = 1e-3
"""Seconds that a write to the API server takes, and up to a tenth more, by what is written: no two coincide."""
CYCLE: Final = 1e-4
"""Seconds that a scheduling cycle takes, likewise."""
_JITTER: Final = 12.0


class Latencies:
    """Seconds by what is done. `random`: the dice of a run with jitter; None: fixed latencies."""

    def __init__(self, random: Random | None = None) -> None:
        self._random = random

    def write(self, verb: str, name: str) -> float:
        """Of a write to the API server."""
        return self._of(WRITE, verb, name)

    def cycle(self, name: str) -> float:
        """Of a scheduling cycle."""
        return self._of(CYCLE, "cycle", name)

    def _of(self, seconds: float, verb: str, name: str) -> float:
        share = crc32(f"{verb} {name}".encode()) % 997 / 9970
        jitter = 0.0 if self._random is None else self._random.random() * _JITTER
        return seconds * (1 + share + jitter)
