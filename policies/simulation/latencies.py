"""The durations of steps in a simulation: requests to the API server, scheduling cycles and container starts.

Predictions use fixed durations; random durations reveal races.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from random import Random

WRITE: Final = 1e-3
"""Seconds of a write to the API server; up to a tenth more by its name, so that no two coincide."""
CYCLE: Final = 1e-4
"""Seconds of a scheduling cycle; up to a tenth more by the Pod's name."""
START: Final = 0.1
"""Seconds from the binding of a Pod until it runs and is ready: the minimum of a kubelet.

The actual time until a container is ready is unknown.
"""
_SLOWEST_START: Final = 30.0
"""Maximum factor of START with random latencies; it differs by run."""
_JITTER: Final = 12.0
_ASKED: Final = 6.0
"""Maximum factor for the creation of a Pod if webhooks are called: 5 to 30 ms each."""
_WEBHOOK_SECONDS: Final = 10e-3
"""Seconds for webhooks with fixed latencies, if a Pod replaces a removed one: kube-scheduler tries Pending Pods before
the replacement exists."""


class Latencies:
    """Durations of steps in seconds.

    `random`: the source of random durations; None for fixed ones. `asks_webhooks`: whether the creation of Pods may
    take longer than other writes; with random durations, by a factor that differs by run.
    """

    def __init__(self, random: Random | None = None, *, asks_webhooks: bool = False) -> None:
        self._random = random
        self._creating = 1.0 if random is None or not asks_webhooks else random.uniform(1.0, _ASKED)
        self._webhook_seconds = _WEBHOOK_SECONDS if random is None and asks_webhooks else 0.0
        self._start = START if random is None or not asks_webhooks else START * _SLOWEST_START ** (random.random() ** 2)

    def write(self, verb: str, name: str) -> float:
        """Return the seconds of a write to the API server."""
        return self._of(WRITE, verb, name, self._creating if verb == "create" else 1.0)

    def replacement(self, name: str) -> float:
        """Return the seconds to create a Pod that replaces a removed Pod."""
        return self._webhook_seconds + self.write("create", name)

    def cycle(self, name: str) -> float:
        """Return the seconds of a scheduling cycle. `name`: varies the duration a little."""
        return self._of(CYCLE, "cycle", name)

    def start(self) -> float:
        """Return the seconds from the binding of a Pod until the Pod is ready."""
        return self._start * (1.0 if self._random is None else 0.5 + self._random.random())

    def _of(self, seconds: float, verb: str, name: str, times: float = 1.0) -> float:
        share = crc32(f"{verb} {name}".encode()) % 997 / 9970
        jitter = 0.0 if self._random is None else self._random.random() * _JITTER * times
        return seconds * (1 + share + jitter)
