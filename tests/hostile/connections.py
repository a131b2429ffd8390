"""A search for floods of connections that keep an API server or a probe from its answer."""

from __future__ import annotations

import random
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final

from tests.hostile.floods import HEALTH_PORT, TLS_PORT, TOKEN, Flood, Serving, open_many, serving

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parents[2]
LIMITS: Final = (200, 256, 400, 1_024, 4_096)
MOST: Final = 600
STEPS: Final = 4
SECONDS: Final = 1.0
"""The time for an answer."""
MAX_GROWTH: Final = {"health": 50, "tls": 450}
"""MiB that the process may grow by in a flood of this port."""
RELOADED: Final = 'forewarn_file_reloads_total{file="configuration",outcome="loaded"} 1.0'
RELOAD_SECONDS: Final = 20.0


class FloodSearch:
    """What has been found so far. `more`: seconds that an answer may take beside the others."""

    def __init__(self, more: float = 0.0) -> None:
        self._most = SECONDS + more
        self.count = 0
        self.latest = 0.0
        """Seconds for an answer, at most."""
        self.growth = dict.fromkeys(MAX_GROWTH, 0.0)
        self.problems: list[str] = []

    def round(self, number: int) -> None:
        """Some floods of one server, one after the other and beside each other, and a reload."""
        dice = random.Random(number)
        limit, port = dice.choice(LIMITS), dice.choice(list(MAX_GROWTH))
        open_many(STEPS * MOST)
        with TemporaryDirectory() as scratch, ExitStack() as stack:
            config, tokens = Path(scratch) / "config", Path(scratch) / "tokens"
            config.write_text("annotate: pods")
            tokens.write_text(TOKEN)
            flags = ("--cluster", str(ROOT / "webhook/sample/cluster.yaml"), "--config", str(config))
            server = stack.enter_context(serving((limit, limit), *flags, "--client-token-file", str(tokens)))
            for _ in range(5):
                self._answers(server)
            before, told = server.peak, f"seed {number}, limit {limit}, {port} port"
            for _ in range(dice.randint(1, STEPS)):
                kinds: Any = TLS_PORT if port == "tls" else HEALTH_PORT
                names = dice.sample(list(kinds), dice.randint(1, 3))
                addresses, count = dice.choice((1, 2, 30, 100)), dice.randint(50, MOST)
                told += f"; {count} of {addresses} addresses: {', '.join(names)}"
                flood = Flood(server.port if port == "tls" else server.health_port, is_tls=port == "tls")
                (stack if dice.random() < 0.7 else ExitStack()).enter_context(flood)
                flood.open(
                    count, [kinds[name] for name in names], [f"127.0.0.{part}" for part in range(1, addresses + 1)]
                )
                self.count += count
                if not self._check(server, limit, told):
                    return
            config.write_text("annotate: 'off'")
            if not _becomes(lambda: RELOADED in server.health("/metrics")[1]):
                self._report(told, "the configuration was not reloaded")
            growth = server.peak - before
            self.growth[port] = max(self.growth[port], growth)
            if growth > MAX_GROWTH[port]:
                self._report(told, f"memory grew by {growth:.0f} MiB")

    def _answers(self, server: Serving) -> float:
        """The longest that a review and a probe took."""
        began = monotonic()
        assert server.health("/livez")[0] == 200
        return max(monotonic() - began, *server.seconds(1))

    def _check(self, server: Serving, limit: int, told: str) -> bool:
        """Report late answers; false if there is none."""
        for _ in range(10):
            try:
                seconds = self._answers(server)
                for _ in range(3):  # others have the machine too
                    if seconds > self._most:
                        seconds = min(seconds, self._answers(server))
            except (OSError, AssertionError) as error:
                self._report(told, f"no answer: {error!r}")
                return False
            self.latest = max(self.latest, seconds)
            if seconds > self._most:
                self._report(told, f"an answer took {seconds:.2f} s")
        if server.descriptors >= limit:
            self._report(told, "no descriptor is left")
        return True

    def _report(self, told: str, problem: str) -> None:
        self.problems.append(f"{told}: {problem}")
        print(f"{told}: {problem}", file=sys.stderr, flush=True)


def _becomes(condition: Callable[[], bool]) -> bool:
    end = monotonic() + RELOAD_SECONDS
    while True:
        with suppress(OSError):
            if condition():
                return True
        if monotonic() > end:
            return False
        sleep(0.2)
