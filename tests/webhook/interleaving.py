"""Runs functions on threads of their own, one at a time: a test chooses who takes the next step."""

from __future__ import annotations

from threading import Semaphore, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Dead(BaseException):
    """Ends an actor that will not be stepped again."""


class Actor:
    """A function that stands still at every `pause` until it is stepped."""

    def __init__(self, run: Callable[[Actor], None]) -> None:
        self._go, self._stands = Semaphore(0), Semaphore(0)
        self._killed = False
        self.ended = False
        self.fault: BaseException | None = None
        self._thread = Thread(target=self._run, args=(run,), daemon=True)
        self._thread.start()

    def _run(self, run: Callable[[Actor], None]) -> None:
        try:
            self._wait()
            run(self)
        except Dead:
            pass
        except BaseException as fault:
            self.fault = fault
        self.ended = True
        self._stands.release()

    def _wait(self) -> None:
        self._go.acquire()
        if self._killed:
            raise Dead

    def pause(self) -> None:
        """Called by the function: let others go first."""
        self._stands.release()
        self._wait()

    def step(self) -> None:
        """Called by the test: run on to the next pause or the end."""
        if not self.ended:
            self._go.release()
            self._stands.acquire()
        if self.fault is not None:
            raise self.fault

    def kill(self) -> None:
        self._killed = True
        if not self.ended:
            self._go.release()
        self._thread.join(5)
