"""Limits on requests in flight: their number, and the memory of their bodies.

A small body reserves memory while it arrives; without free memory, the response is a 503. A large body waits for
memory before forewarn reads it. Above the limits, forewarn drops the request whose body has been arriving for
longest.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

from forewarn.webhook.admission.replies import TOO_MANY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from forewarn.webhook.admission.gate import Gate
    from forewarn.webhook.admission.replies import Reply


class NoCapacity(Exception):
    """The bodies in flight use all memory for bodies."""


@dataclass(eq=False, slots=True)
class InFlightRequest:
    """An admitted request. `arrived`: when its body started to arrive. `held`: bytes reserved for a small body;
    `reserved`: for a large body. `given_away`: another request has its slot.
    """

    arrived: float = field(default_factory=monotonic)
    held: int = 0
    reserved: int = 0
    given_away: bool = False


class BodyTimeout:
    """The time limit of a body, as a context manager.

    Raises TimeoutError at the limit, or when another request gets this request's slot. Needs no timer for each body:
    the limiter checks the limits periodically, and most bodies are complete already.
    """

    __slots__ = ("_intake", "_place", "_timeout")

    def __init__(self, intake: InFlightLimiter, in_flight: InFlightRequest) -> None:
        self._intake, self._place, self._timeout = intake, in_flight, asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._intake.wait_for(self._place, self._timeout)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._intake.no_longer(self._place)
        await self._timeout.__aexit__(kind, error, traceback)


class InFlightLimiter:
    """Admits requests up to the limits, on one event loop. Above the limits, drops the request whose body has been
    arriving for longest, if for longer than `patience` (seconds); otherwise rejects the new request.

    `room`: bytes for all small bodies in flight. `large_capacity`: bytes for all large bodies. `seconds`: maximum
    time for a body.
    """

    def __init__(self, gate: Gate, room: int, large_capacity: int, patience: float, seconds: float) -> None:
        self._gate, self._capacity, self._patience, self._seconds = gate, room, patience, seconds
        self._arriving: dict[InFlightRequest, asyncio.Timeout] = {}
        self._bytes = 0
        self._is_checking = False
        self._large_capacity = large_capacity
        self._waiting: list[tuple[int, int, InFlightRequest, asyncio.Future[None]]] = []
        """A heap: the smallest body is read next, because delays matter most for small requests."""
        self._numbers = count()

    @property
    def held(self) -> int:
        """Bytes of memory reserved for bodies in flight."""
        return self._bytes

    def enter(self) -> InFlightRequest | Reply:
        """Admit a request, or return the rejection. The caller of an admitted request must call `leave`."""
        rejection = self._gate.enter()
        if rejection is not TOO_MANY:
            return rejection or InFlightRequest()
        slowest = self._cut_off_the_slowest()
        if slowest is None:
            return rejection
        slowest.given_away = True
        return InFlightRequest()

    def leave(self, in_flight: InFlightRequest) -> None:
        """Release the slot and the memory of a request that got its response."""
        self._release(in_flight)
        self._large_capacity += in_flight.reserved
        in_flight.reserved = 0
        self._grant()
        if not in_flight.given_away:
            self._gate.leave()

    def arriving_body(self, in_flight: InFlightRequest) -> BodyTimeout:
        """Return a context manager for the arrival of a body, with a time limit."""
        return BodyTimeout(self, in_flight)

    def wait_for(self, in_flight: InFlightRequest, timeout: asyncio.Timeout) -> None:
        """Start the time limit of a body. `timeout`: cancels the task that reads the body."""
        self._arriving[in_flight] = timeout
        if not self._is_checking:
            self._is_checking = True
            asyncio.get_running_loop().call_later(self._seconds, self._reconcile)

    def no_longer(self, in_flight: InFlightRequest) -> None:
        """End the time limit of a body that is complete or dropped."""
        self._arriving.pop(in_flight, None)

    def _reconcile(self) -> None:
        """Cancel bodies that exceed the time limit, and schedule the next check."""
        self._is_checking = False
        now, loop = monotonic(), asyncio.get_running_loop()
        while (in_flight := next(iter(self._arriving), None)) is not None:  # they are in the order in which they came
            if (left := in_flight.arrived + self._seconds - now) > 0:
                self._is_checking = True
                loop.call_later(left, self._reconcile)
                return
            self._end(in_flight)

    def hold(self, in_flight: InFlightRequest, size: int) -> None:
        """Reserve more bytes for a small body, dropping slower requests if necessary. Raises NoCapacity."""
        while self._bytes + size > self._capacity:
            slowest = self._cut_off_the_slowest()
            if slowest is None or slowest is in_flight:
                self._release(in_flight)
                raise NoCapacity
            self._release(slowest)
        self._bytes += size
        in_flight.held += size

    async def reserve(self, in_flight: InFlightRequest, size: int, seconds: float) -> None:
        """Wait until `size` bytes are free for a large body, and reserve them. Raises NoCapacity after `seconds`."""
        until, granted = monotonic() + seconds, asyncio.get_running_loop().create_future()
        heappush(self._waiting, (size, next(self._numbers), in_flight, granted))
        self._grant()
        try:
            while not granted.done():
                if (left := until - monotonic()) <= 0:
                    raise NoCapacity
                await asyncio.wait([granted], timeout=min(left, self._patience))
                if not granted.done():
                    self._cut_off_the_slowest(is_large=True)
        finally:
            granted.cancel()  # does nothing to one that is granted
        in_flight.arrived = monotonic()

    def _grant(self) -> None:
        """Grant memory to waiting large bodies, the smallest first, while memory is free."""
        while self._waiting:
            size, _, in_flight, granted = self._waiting[0]
            if not granted.done():
                if size > self._large_capacity:
                    return
                self._large_capacity -= size
                in_flight.reserved += size
                granted.set_result(None)
            heappop(self._waiting)

    def _cut_off_the_slowest(self, *, is_large: bool = False) -> InFlightRequest | None:
        in_flight = next((found for found in self._arriving if found.reserved or not is_large), None)
        if in_flight is None or monotonic() - in_flight.arrived < self._patience:
            return None
        self._end(in_flight)
        return in_flight

    def _end(self, in_flight: InFlightRequest) -> None:
        timeout = self._arriving.pop(in_flight)
        if not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time())

    def _release(self, in_flight: InFlightRequest) -> None:
        self._bytes -= in_flight.held
        in_flight.held = 0


class Strangers:
    """Limits requests of callers that are not API servers: one at a time.

    At most `most` of these requests wait, each for `seconds`. Only for one event loop.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._waiting = 0
        self._slot = asyncio.Lock()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Yield when the request of a caller that is not an API server may proceed; the slot is free after the block.

        Raises NoCapacity.
        """
        if self._waiting >= self._most:
            raise NoCapacity
        self._waiting += 1
        try:
            async with asyncio.timeout(self._seconds):
                await self._slot.acquire()
        except TimeoutError:
            raise NoCapacity from None
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._slot.release()
