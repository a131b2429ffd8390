"""Limits on requests for the operators' pages: strangers leave room for clients that have proven who they are.

Clients behind a proxy or a sidecar share an address, so no limit rejects an address. A free slot goes to a proven
client first, then to the client with the fewest slots. Only for one event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_REQUESTS: Final = 16
"""Requests at a time, also those that wait for the progress of a question."""
MAX_OF_A_CLIENT: Final = MAX_REQUESTS // 2
"""Requests of one client at a time, and of all strangers together."""
MAX_BODIES: Final = 16
"""Requests with a body that have no slot yet."""
_SLOT_SECONDS: Final = 5.0
_BODY_SECONDS: Final = 10.0


class NoSlot(Exception):
    """All slots are in use, or a newer request has the place of this one."""


class Client(NamedTuple):
    """A client: the credentials that the pages accepted, or the address of a stranger."""

    is_proven: bool
    name: str


class Slot:
    """A slot in use."""

    def __init__(self, client: Client) -> None:
        self.client = client


class Slots:
    """The slots of requests."""

    def __init__(self) -> None:
        self._used: Counter[Client] = Counter()
        self._waiting: list[tuple[Client, asyncio.Future[None]]] = []

    async def enter(self, client: Client) -> Slot:
        """Wait for a slot. The caller must call `leave`. Raises NoSlot."""
        waiting = client, asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._grant()
        slot = Slot(client)
        try:
            async with asyncio.timeout(_SLOT_SECONDS):
                await waiting[1]
        except BaseException as error:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            else:
                self.leave(slot)
            if isinstance(error, TimeoutError):
                raise NoSlot from None
            raise
        return slot

    def leave(self, slot: Slot) -> None:
        """Free a slot."""
        self._used[slot.client] -= 1
        self._used += Counter()  # drops clients without slots
        self._grant()

    def prove(self, slot: Slot, client: Client) -> None:
        """Charge a slot to the proven client."""
        self._used[client] += 1
        self.leave(slot)
        slot.client = client

    def _may_enter(self, client: Client) -> bool:
        strangers = sum(used for other, used in self._used.items() if not other.is_proven)
        return (
            self._used.total() < MAX_REQUESTS
            and self._used[client] < MAX_OF_A_CLIENT
            and (client.is_proven or strangers < MAX_OF_A_CLIENT)
        )

    def _grant(self) -> None:
        while allowed := [waiting for waiting in self._waiting if self._may_enter(waiting[0])]:
            first = min(allowed, key=lambda waiting: (not waiting[0].is_proven, self._used[waiting[0]]))
            self._waiting.remove(first)
            self._used[first[0]] += 1
            first[1].set_result(None)


class Bodies:
    """The bodies of requests without a slot. One too many ends the oldest of the address with the most bodies."""

    def __init__(self) -> None:
        self._arriving: dict[asyncio.Timeout, str] = {}

    @asynccontextmanager
    async def arriving(self, address: str) -> AsyncIterator[None]:
        """Limit the time of the block. Raises TimeoutError, or NoSlot if a newer body has the place of this one."""
        if len(self._arriving) >= MAX_BODIES:
            self._end_one()
        try:
            async with asyncio.timeout(_BODY_SECONDS) as timeout:
                self._arriving[timeout] = address
                yield
        except TimeoutError:
            if timeout not in self._arriving:
                raise NoSlot from None
            raise
        finally:
            self._arriving.pop(timeout, None)

    def _end_one(self) -> None:
        crowd = Counter(self._arriving.values()).most_common(1)[0][0]
        oldest = next(timeout for timeout, address in self._arriving.items() if address == crowd)
        del self._arriving[oldest]
        if not oldest.expired():
            oldest.reschedule(asyncio.get_running_loop().time())
