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
START: Final = 0.1
"""Seconds from when a pod is bound until it runs and is ready, in a cluster: what a kubelet takes at least. How long a
container takes to be ready nobody knows."""
_SLOWEST_START: Final = 30.0
"""How many times as long it may take, in one run with dice more than in another."""
_JITTER: Final = 12.0
_ASKED: Final = 6.0
"""How many times as long a pod may take to be made, where webhooks are asked about it: some 5 to 30 ms each."""
_ASKING: Final = 10e-3
"""Seconds that webhooks take at fixed latencies, if a Pod replaces one that is gone: kube-scheduler tries the Pods that
wait before the replacement is there."""


class Latencies:
    """Seconds by what is done. `random`: the dice of a run with jitter; None: fixed latencies. `asks_webhooks`: with
    dice, pods may take longer to be made than other writes, in one run more than in another."""

    def __init__(self, random: Random | None = None, *, asks_webhooks: bool = False) -> None:
        self._random = random
        self._creating = 1.0 if random is None or not asks_webhooks else random.uniform(1.0, _ASKED)
        self._asking = _ASKING if random is None and asks_webhooks else 0.0
        self._start = START if random is None or not asks_webhooks else START * _SLOWEST_START ** (random.random() ** 2)

    def write(self, verb: str, name: str) -> float:
        """Of a write to the API server."""
        return self._of(WRITE, verb, name, self._creating if verb == "create" else 1.0)

    def replacement(self, name: str) -> float:
        """Of the creation of a Pod that comes when the one before it is gone."""
        return self._asking + self.write("create", name)

    def cycle(self, name: str) -> float:
        """Of a scheduling cycle."""
        return self._of(CYCLE, "cycle", name)

    def start(self) -> float:
        """Of a kubelet, until a pod that was bound is ready."""
        return self._start * (1.0 if self._random is None else 0.5 + self._random.random())

    def _of(self, seconds: float, verb: str, name: str, times: float = 1.0) -> float:
        share = crc32(f"{verb} {name}".encode()) % 997 / 9970
        jitter = 0.0 if self._random is None else self._random.random() * _JITTER * times
        return seconds * (1 + share + jitter)
