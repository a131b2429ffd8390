"""Files that are reloaded when they change. Invalid content is rejected, and the previous content stays in use."""

from __future__ import annotations

import hashlib
import logging
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from forewarn.webhook.logs import log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from forewarn.webhook.metrics import Metrics

T = TypeVar("T")
SECONDS: Final = 5.0
"""Interval of checks. Mounted ConfigMaps and Secrets change by a symlink, which a watch of one file does not see."""


class Reloaded(Generic[T]):
    """Content that `load` reads from files. Any thread may read `current`; one thread calls `check`."""

    def __init__(
        self,
        what: str,
        paths: Sequence[Path],
        load: Callable[[], T],
        metrics: Metrics,
        refuses: Callable[[T, T], str] = lambda _held, _new: "",
    ) -> None:
        self._what, self._paths, self._load, self._metrics = what, tuple(paths), load, metrics
        self._refuses, self._is_pending = refuses, False
        self._seen = self._digest()
        self.current = load()
        metrics.file_rejected.labels(what).set(0)

    def get(self) -> T:
        return self.current

    def check(self) -> bool:
        """Load the files if they have changed; return true if new content is in use. Logs rejected content."""
        digest = self._digest()
        is_new, self._seen = digest != self._seen, digest
        if not is_new and not self._is_pending:
            return False
        try:
            new = self._load()
        except ValueError as error:
            self._is_pending, why = False, str(error)
        else:
            why = self._refuses(self.current, new)
            self._is_pending = bool(why)
            if not why:
                self.current = new
        if why and is_new:
            self._log("rejected", why)
        elif not why:
            self._log("loaded", "")
        return not why

    def _digest(self) -> bytes:
        """Return a digest of the contents of the files (times and inodes are unreliable on a mounted volume), also of
        missing files.
        """
        digest = hashlib.sha256()
        for path in self._paths:
            try:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
            except OSError:
                digest.update(b"away")
        return digest.digest()

    def _log(self, outcome: str, why: str) -> None:
        self._metrics.reloads.labels(self._what, outcome).inc()
        self._metrics.file_rejected.labels(self._what).set(outcome == "rejected")
        fields = {"file": self._what, "outcome": outcome, **({"reason": why} if why else {})}
        log_event("file reload", fields, logging.WARNING if why else logging.INFO)


def check_regularly(checks: Sequence[Callable[[], object]], seconds: float = SECONDS) -> Event:
    """Call each check every `seconds` on a separate thread, until the returned event is set."""
    stop = Event()

    def run() -> None:
        while not stop.wait(seconds):
            for check in checks:
                try:
                    check()
                except Exception:
                    logging.getLogger("forewarn").exception("a periodic check failed")

    Thread(target=run, name="reloading", daemon=True).start()
    return stop
