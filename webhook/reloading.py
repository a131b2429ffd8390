"""Files that are read again when they change; what cannot be used is refused and the old state stays."""

from __future__ import annotations

import hashlib
import logging
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from webhook.logs import log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from webhook.metrics import Metrics

T = TypeVar("T")
SECONDS: Final = 5.0
"""Between two looks. Mounted ConfigMaps and Secrets change by a symlink, which no watch of one file sees."""


class Reloaded(Generic[T]):
    """What `load` made of some files. `current` is safe to read from any thread; one thread checks.

    `refuses`: why what was loaded may not take the place of what is in force; empty: it may. It is asked again at each
    check, for what is not good now may be later.
    """

    def __init__(
        self,
        what: str,
        paths: Sequence[Path],
        load: Callable[[], T],
        metrics: Metrics,
        refuses: Callable[[T, T], str] = lambda _held, _new: "",
    ) -> None:
        self._what, self._paths, self._load, self._metrics = what, tuple(paths), load, metrics
        self._refuses, self._waits = refuses, False
        self._seen = self._digest()
        self.current = load()
        metrics.file_refused.labels(what).set(0)

    def get(self) -> T:
        """What is in force."""
        return self.current

    def check(self) -> bool:
        """Look whether the files have changed, and load them if so; whether there is something new in force."""
        digest = self._digest()
        is_new, self._seen = digest != self._seen, digest
        if not is_new and not self._waits:
            return False
        try:
            new = self._load()
        except ValueError as error:
            self._waits, why = False, str(error)
        else:
            why = self._refuses(self.current, new)
            self._waits = bool(why)
            if not why:
                self.current = new
        if why and is_new:
            self._tell("refused", why)
        elif not why:
            self._tell("loaded", "")
        return not why

    def _digest(self) -> bytes:
        """Of the contents: times and inodes say less on a mounted volume. A file that is away counts as empty."""
        digest = hashlib.sha256()
        for path in self._paths:
            try:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
            except OSError:
                digest.update(b"away")
        return digest.digest()

    def _tell(self, outcome: str, why: str) -> None:
        self._metrics.reloads.labels(self._what, outcome).inc()
        self._metrics.file_refused.labels(self._what).set(outcome == "refused")
        fields = {"file": self._what, "outcome": outcome, **({"why": why} if why else {})}
        log_event("reload", fields, logging.WARNING if why else logging.INFO)


def check_regularly(checks: Sequence[Callable[[], object]], seconds: float = SECONDS) -> Event:
    """Call each check every so many seconds, on a thread of its own, until the event that is returned is set."""
    stop = Event()

    def run() -> None:
        while not stop.wait(seconds):
            for check in checks:
                try:
                    check()
                except Exception:
                    logging.getLogger("forewarn").exception("a regular check failed")

    Thread(target=run, name="reloading", daemon=True).start()
    return stop
