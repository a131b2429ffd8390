"""Limits on requests in flight: their number, and the memory of their bodies. Beyond them the slowest is given up."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from webhook.endpoint import TOO_MANY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from webhook.endpoint import Gate, Reply


class NoRoom(Exception):
    """The bodies in flight take all the room there is."""


@dataclass(eq=False, slots=True)
class Place:
    """One request that was let in. `held`: bytes of its body."""

    came: float = field(default_factory=monotonic)
    held: int = 0
    given_away: bool = False


class Intake:
    """Lets requests in up to the limits. Beyond them it gives up the request whose body has been arriving for longest,
    if that is longer than `patience` (seconds), else it refuses the new one. `room`: bytes of all bodies in flight.

    One event loop alone calls it.
    """

    def __init__(self, gate: Gate, room: int, patience: float) -> None:
        self._gate, self._room, self._patience = gate, room, patience
        self._coming: dict[Place, asyncio.Timeout] = {}
        self._held = 0

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

    @asynccontextmanager
    async def coming(self, place: Place, seconds: float) -> AsyncIterator[None]:
        """While its body comes. Raises TimeoutError after so many seconds, or as soon as it has to give way."""
        async with asyncio.timeout(seconds) as timeout:
            self._coming[place] = timeout
            try:
                yield
            finally:
                self._coming.pop(place, None)

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
        place = next(iter(self._coming), None)  # they are in the order in which they came
        if place is None or monotonic() - place.came < self._patience:
            return None
        timeout = self._coming.pop(place)
        if not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time())
        return place

    def _release(self, place: Place) -> None:
        self._held -= place.held
        place.held = 0
