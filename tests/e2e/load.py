"""Requests at a steady pace, and which of them failed."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.e2e.objects import pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.api import Api


@dataclass
class Load:
    """What became of the requests so far. `work` returns what went wrong, empty if nothing did."""

    work: Callable[[int], str]
    faults: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    elapsed: float = 0.0
    """Seconds from the first request to the last answer, once it is over."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _turn: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def done(self) -> int:
        """Requests that have been answered."""
        return len(self.seconds)

    @property
    def per_second(self) -> float:
        """Requests that were answered a second, once it is over."""
        return self.done / self.elapsed

    def quantile(self, share: float) -> float:
        """Seconds that so many requests took at most."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def run(self, interval: float) -> None:
        """Make requests, one every so many seconds, until it is stopped."""
        due = time.monotonic()
        while not self._stop.is_set():
            with self._lock:
                self._turn += 1
                turn = self._turn
            started = time.monotonic()
            try:
                fault = self.work(turn)
            except OSError as error:
                fault = repr(error)
            self.seconds.append(time.monotonic() - started)
            if fault:
                self.faults.append(fault)
            due = max(due + interval, time.monotonic() - interval)
            self._stop.wait(max(0.0, due - time.monotonic()))

    def stop(self) -> None:
        self._stop.set()


@contextmanager
def load(work: Callable[[int], str], per_second: float, threads: int) -> Iterator[Load]:
    """Keep making requests for as long as the block runs."""
    made = Load(work)
    workers = [threading.Thread(target=made.run, args=(threads / per_second,)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield made
    finally:
        made.stop()
        for worker in workers:
            worker.join()
        made.elapsed = time.monotonic() - made.started


def creating(api: Api) -> Callable[[int], str]:
    """Work that creates a pod by dry run."""

    def work(turn: int) -> str:
        answer = api.ask("POST", "api/v1/namespaces/default/pods?dryRun=All", pod(f"load-{turn}"))
        return "" if answer.code == 201 else f"{answer.code} {answer.body.get('message')}"

    return work
