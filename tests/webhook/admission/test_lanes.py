"""Who waits for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from threading import Event
from time import monotonic, sleep

from forewarn.webhook.admission.lanes import Cost, Lane


def _busy(lane: Lane) -> Event:
    """Keep the lane's thread until the event is set."""
    begun, go = Event(), Event()

    def wait() -> None:
        begun.set()
        go.wait(60)

    lane.submit(Cost.RULES, wait)
    assert begun.wait(60)
    return go


def test_the_cheapest_goes_first_and_the_oldest_of_those() -> None:
    lane, ran = Lane("test", 10), list[str]()
    go = _busy(lane)
    asked = [(Cost.PODS, "a"), (Cost.POD, "b"), (Cost.RULES, "c"), (Cost.PODS, "d"), (Cost.RULES, "e")]
    waiting = [lane.submit(cost, lambda name=name: ran.append(name)) for cost, name in asked]  # type: ignore[misc]
    go.set()
    for future in waiting:
        assert future is not None
        future.result(60)
    assert "".join(ran) == "cebad"
    lane.stop()


def test_what_is_dear_gives_way_to_what_is_cheaper_and_to_nothing_else() -> None:
    lane, ran, come = Lane("test", 10), list[str](), Event()

    def dear() -> None:
        come.wait(60)
        ran.append("begins")
        assert lane.give_way(Cost.POD)
        assert not lane.give_way(Cost.POD)
        ran.append("ends")

    waiting = [lane.submit(Cost.POD, dear)]
    while lane.length:
        sleep(0.01)  # until it has begun
    waiting += [lane.submit(cost, lambda name=name: ran.append(name)) for cost, name in asked]  # type: ignore[misc]
    come.set()
    for future in waiting:
        assert future is not None
        future.result(60)
    assert ran == ["begins", "rules", "class", "ends", "pod", "pods"]
    lane.stop()


asked = [(Cost.PODS, "pods"), (Cost.RULES, "rules"), (Cost.POD, "pod"), (Cost.RULES, "class")]


def test_more_than_the_most_is_refused() -> None:
    lane = Lane("test", 2)
    go = _busy(lane)
    assert [lane.submit(Cost.POD, str) is None for _ in range(4)] == [False, False, True, True]
    go.set()
    lane.stop()


def test_what_would_wait_past_its_time_is_refused_at_once() -> None:
    lane = Lane("test", 100)
    for _ in range(4):
        slow = lane.submit(Cost.POD, lambda: sleep(0.1))
        assert slow is not None
        slow.result(60)
    go = _busy(lane)
    assert lane.submit(Cost.POD, str, within=0.0) is not None  # nobody waits before it
    assert lane.submit(Cost.POD, str, within=0.01) is None
    assert lane.submit(Cost.POD, str, within=10) is not None
    go.set()
    lane.stop()


def _futures(lane: Lane, *functions: Callable[[], object], holds_up: bool = False) -> list[asyncio.Future[object]]:
    """What an event loop awaits of functions that are queued. Those that hold up are dear."""
    cost = Cost.PODS if holds_up else Cost.POD
    submitted = [lane.submit(cost, function, holds_up=holds_up) for function in functions]
    return [asyncio.wrap_future(future) for future in submitted if future is not None]


def test_an_event_loop_awaits_results_exceptions_and_the_end_of_the_lane() -> None:
    async def awaited() -> list[str]:
        lane, ran = Lane("test", 4), list[str]()
        go = _busy(lane)
        cancelled, failed, fine = _futures(lane, lambda: ran.append("cancelled"), lambda: 1 // 0, lambda: "fine")
        cancelled.cancel()
        await asyncio.sleep(0)  # asyncio cancels the function in the next turn of the loop
        go.set()
        async with asyncio.timeout(60):
            found = [*await asyncio.gather(failed, fine, return_exceptions=True)]
            go = _busy(lane)
            late = _futures(lane, str)
            lane.stop()
            go.set()
            found += await asyncio.gather(*late, return_exceptions=True)
        return ran + [str(each) if isinstance(each, str) else type(each).__name__ for each in found]

    assert asyncio.run(awaited()) == ["ZeroDivisionError", "fine", "CancelledError"]


def test_what_raises_tells_who_asked_and_the_next_one_is_run() -> None:
    lane = Lane("test", 2)
    failed, fine = lane.submit(Cost.POD, lambda: 1 // 0), lane.submit(Cost.POD, lambda: 7)
    assert failed is not None
    assert isinstance(failed.exception(5), ZeroDivisionError)
    assert fine is not None
    assert fine.result(60) == 7
    lane.stop()


def test_a_lane_that_stops_gives_up_what_waits_and_says_that_it_is_idle() -> None:
    idle = Event()
    lane = Lane("test", 2, idle=idle.set)
    go = _busy(lane)
    waiting = lane.submit(Cost.POD, str)
    lane.stop()
    go.set()
    assert waiting is not None
    assert waiting.cancelled()
    assert lane.submit(Cost.POD, str) is None
    assert idle.wait(60)


def test_a_small_function_does_not_wait_for_two_that_hold_it_up() -> None:
    """Parsing a large body keeps all other threads waiting, and a small request needs several turns of the loop."""

    async def rested() -> list[str]:
        lane, ran = Lane("test", 10), list[str]()
        ended = list[float]()

        def hold_up(name: str) -> None:
            ran.append(name)
            ended.append(monotonic())

        go = _busy(lane)
        one, other = _futures(lane, *(partial(hold_up, name) for name in "ab"), holds_up=True)
        go.set()
        async with asyncio.timeout(60):
            await one
            (cheaper,) = _futures(lane, lambda: ran.append("cheaper"))
            await cheaper
            await other
        lane.stop()
        assert ended[1] - ended[0] >= 0.04
        return ran

    assert asyncio.run(rested()) == ["a", "cheaper", "b"]
