"""Who gets a free slot for the operators' pages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from forewarn.webhook.http.server import MAX_OF_A_CLIENT, MAX_REQUESTS, Client, NoSlot, Slot, Slots

CROWD, OTHER = Client(False, "10.0.0.1"), Client(False, "10.0.0.2")
ADA, KIM = Client(True, "ada"), Client(True, "kim")


def with_slots(test: Callable[[Slots], Awaitable[None]]) -> None:
    async def run() -> None:
        await test(Slots())

    asyncio.run(run())


async def fill(slots: Slots, client: Client, number: int) -> list[Slot]:
    return [await slots.enter(client) for _ in range(number)]


async def asked(slots: Slots, *clients: Client) -> list[asyncio.Task[Slot]]:
    tasks = [asyncio.create_task(slots.enter(client)) for client in clients]
    await asyncio.sleep(0)
    return tasks


async def granted(tasks: list[asyncio.Task[Slot]]) -> list[int]:
    """The positions of those with a slot."""
    for _ in range(5):
        await asyncio.sleep(0)
    return [position for position, task in enumerate(tasks) if task.done()]


@pytest.mark.parametrize(
    ("waiting", "order"),
    [
        ((CROWD, CROWD, OTHER), [2, 0]),
        ((OTHER, CROWD, OTHER), [0, 2]),
        ((CROWD, CROWD), [0, 1]),
        ((CROWD, OTHER, ADA), [2, 1]),
    ],
)
def test_the_client_with_the_fewest_slots_is_next(waiting: tuple[Client, ...], order: list[int]) -> None:
    async def test(slots: Slots) -> None:
        used = await fill(slots, CROWD, MAX_OF_A_CLIENT)
        await fill(slots, KIM, MAX_REQUESTS - MAX_OF_A_CLIENT)
        tasks = await asked(slots, *waiting)
        assert await granted(tasks) == []
        for number in range(1, 3):
            slots.leave(used.pop())
            assert await granted(tasks) == sorted(order[:number])
        for task in tasks:
            task.cancel()

    with_slots(test)


def test_users_share_all_slots_and_no_user_has_more_than_half() -> None:
    async def test(slots: Slots) -> None:
        await fill(slots, ADA, MAX_OF_A_CLIENT)
        (more, other) = tasks = await asked(slots, ADA, KIM)
        assert await granted(tasks) == [1]
        await fill(slots, KIM, MAX_REQUESTS - MAX_OF_A_CLIENT - 1)
        slots.leave(other.result())
        assert await granted(tasks) == [1]
        more.cancel()

    with_slots(test)


def test_a_request_that_ends_while_it_waits_takes_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.webhook.http.server._SLOT_SECONDS", 0.01)

    async def test(slots: Slots) -> None:
        used = await fill(slots, CROWD, MAX_OF_A_CLIENT)
        with pytest.raises(NoSlot):
            await slots.enter(OTHER)
        (cancelled,) = await asked(slots, OTHER)
        slots.leave(used.pop())
        cancelled.cancel()  # in the same turn as its slot
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await fill(slots, OTHER, 1)
        for slot in used:
            slots.prove(slot, ADA)
        await fill(slots, OTHER, MAX_OF_A_CLIENT - 1)

    with_slots(test)
