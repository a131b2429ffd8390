"""Limits on requests in flight: their number, and the memory of their bodies. Beyond them the slowest is given up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from webhook.endpoint import TOO_MANY

if TYPE_CHECKING:
    from types import TracebackType

    from webhook.endpoint import Gate, Reply


class NoRoom(Exception):
    """The bodies in flight take all the room there is."""


@dataclass(eq=False, slots=True)
class Place:
    """One request that was let in. `held`: bytes of its body."""

    came: float = field(default_factory=monotonic)
    held: int = 0
    given_away: bool = False


class Coming:
    """The time in which a body comes. Raises TimeoutError at its end, or as soon as it has to give way.

    It is an asyncio.timeout whose end is looked at now and then: most bodies are there already, and a timer for each
    costs more than to read it.
    """

    __slots__ = ("_intake", "_place", "_timeout")

    def __init__(self, intake: Intake, place: Place) -> None:
        self._intake, self._place, self._timeout = intake, place, asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._intake.wait_for(self._place, self._timeout)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._intake.no_longer(self._place)
        await self._timeout.__aexit__(kind, error, traceback)


class Intake:
    """Lets requests in up to the limits. Beyond them it gives up the request whose body has been arriving for longest,
    if that is longer than `patience` (seconds), else it refuses the new one. `room`: bytes of all bodies in flight.
    `seconds`: how long one may take.

    One event loop alone calls it.
    """

    def __init__(self, gate: Gate, room: int, patience: float, seconds: float) -> None:
        self._gate, self._room, self._patience, self._seconds = gate, room, patience, seconds
        self._coming: dict[Place, asyncio.Timeout] = {}
        self._held = 0
        self._is_looking = False

    def enter(self) -> Place | Reply:
        """A place, or why there is none. Whoever has one must leave."""
        refusal = self._gate.enter()
        if refusal is not TOO_MANY:
            return refusal or Place()
        slowest = self._cut_off_the_slowest()
        if slowest is None:
            return refusal
        slowest.given_away = True
        return Place()

    def leave(self, place: Place) -> None:
        """The request has been answered."""
        self._release(place)
        if not place.given_away:
            self._gate.leave()

    def coming(self, place: Place) -> Coming:
        """While its body comes."""
        return Coming(self, place)

    def wait_for(self, place: Place, timeout: asyncio.Timeout) -> None:
        """Its body is coming."""
        self._coming[place] = timeout
        if not self._is_looking:
            self._is_looking = True
            asyncio.get_running_loop().call_later(self._seconds, self._look)

    def no_longer(self, place: Place) -> None:
        """It has come, or is not waited for."""
        self._coming.pop(place, None)

    def _look(self) -> None:
        """End the time of those that came so long ago, and look again when the next one's ends."""
        self._is_looking = False
        now, loop = monotonic(), asyncio.get_running_loop()
        while (place := next(iter(self._coming), None)) is not None:  # they are in the order in which they came
            if (left := place.came + self._seconds - now) > 0:
                self._is_looking = True
                loop.call_later(left, self._look)
                return
            self._end(place)

    def hold(self, place: Place, size: int) -> None:
        """So many more bytes of it have come. Raises NoRoom."""
        while self._held + size > self._room:
            slowest = self._cut_off_the_slowest()
            if slowest is None or slowest is place:
                self._release(place)
                raise NoRoom
            self._release(slowest)
        self._held += size
        place.held += size

    def _cut_off_the_slowest(self) -> Place | None:
        place = next(iter(self._coming), None)
        if place is None or monotonic() - place.came < self._patience:
            return None
        self._end(place)
        return place

    def _end(self, place: Place) -> None:
        timeout = self._coming.pop(place)
        if not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time())

    def _release(self, place: Place) -> None:
        self._held -= place.held
        place.held = 0
