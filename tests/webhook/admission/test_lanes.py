"""Who waits for whom."""

from __future__ import annotations

import asyncio
from random import Random
from threading import Event, current_thread
from time import sleep
from typing import Any

from forewarn.webhook.admission.lanes import Cost, Lane, LoopLane, LoopResult


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


def test_an_event_loop_awaits_results_exceptions_and_the_end_of_the_lane() -> None:
    async def awaited() -> list[str]:
        lane, loop = Lane("test", 4), asyncio.get_running_loop()
        go = _busy(lane)
        cancelled, failed, fine, late = (LoopResult(loop) for _ in range(4))
        ran = list[str]()
        functions = [lambda: ran.append("cancelled"), lambda: 1 // 0, lambda: "fine"]
        for result, function in zip((cancelled, failed, fine), functions, strict=True):
            assert lane.queue(Cost.POD, function, result)
        cancelled.future.cancel()
        go.set()
        async with asyncio.timeout(60):
            found = [*await asyncio.gather(failed.future, fine.future, return_exceptions=True)]
            go = _busy(lane)
            assert lane.queue(Cost.POD, str, late)
            lane.stop()
            go.set()
            found += await asyncio.gather(late.future, return_exceptions=True)
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


def test_the_loop_runs_short_functions_between_its_other_callbacks() -> None:
    async def order() -> list[str]:
        lane, loop, ran = LoopLane("test", 4), asyncio.get_running_loop(), list[str]()
        results = [LoopResult(loop) for _ in range(3)]
        for number, (cost, result) in enumerate(zip((Cost.POD, Cost.RULES, Cost.POD), results, strict=True)):
            assert lane.queue_short(cost, lambda n=number: ran.append(f"{n} {current_thread().name}"), result)  # type: ignore[misc]

        def other(left: int) -> None:
            ran.append("other")
            if left:
                loop.call_soon(other, left - 1)

        loop.call_soon(other, 2)
        async with asyncio.timeout(60):
            await asyncio.gather(*(result.future for result in results))
        lane.stop()
        return ran

    assert asyncio.run(order()) == [
        *("1 MainThread", "other", "0 MainThread", "other", "2 MainThread"),
        "other",
    ]


def test_the_loop_waits_for_the_thread_and_the_thread_for_the_loop() -> None:
    """Random functions of both kinds: they never overlap, and all results arrive."""

    async def run_all(seed: int) -> int:
        random, lane, loop = Random(seed), LoopLane("test", 1000), asyncio.get_running_loop()
        running, most, results = list[int](), 0, list[LoopResult]()

        def alone() -> None:
            nonlocal most
            running.append(1)
            most = max(most, len(running))
            sleep(random.random() / 5000)
            running.pop()

        for _ in range(300):
            results.append(LoopResult(loop))
            cost = random.choice(list(Cost))
            if random.random() < 0.5:
                assert lane.queue_short(cost, alone, results[-1])
            else:
                assert lane.queue(cost, alone, results[-1])
            if random.random() < 0.5:
                await asyncio.sleep(random.random() / 2000)
        async with asyncio.timeout(60):
            await asyncio.gather(*(result.future for result in results))
        lane.stop()
        return most

    for seed in range(5):
        assert asyncio.run(run_all(seed)) == 1, f"seed {seed}"


def test_the_cheaper_of_both_kinds_goes_first() -> None:
    async def order() -> str:
        lane, loop, ran = LoopLane("test", 10), asyncio.get_running_loop(), list[str]()
        go = _busy(lane)
        results = [LoopResult(loop) for _ in range(4)]
        asked = ((lane.queue_short, Cost.POD), (lane.queue, Cost.RULES), (lane.queue, Cost.PODS), (lane.queue_short, 0))
        for name, (queue, cost), result in zip("abcd", asked, results, strict=True):
            assert queue(cost, lambda name=name: ran.append(name), result)  # type: ignore[misc]
        await asyncio.sleep(0.01)
        assert not ran
        go.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*(result.future for result in results))
        lane.stop()
        return "".join(ran)

    assert asyncio.run(order()) == "bdac"


def test_a_dear_function_of_the_thread_gives_way_to_short_ones() -> None:
    async def order() -> list[str]:
        lane, loop, ran = LoopLane("test", 10), asyncio.get_running_loop(), list[str]()
        begun, go = Event(), Event()
        dear, short = LoopResult(loop), LoopResult(loop)

        def run_dear() -> None:
            begun.set()
            go.wait(60)
            assert lane.give_way(Cost.PODS)
            ran.append("dear")

        assert lane.queue(Cost.PODS, run_dear, dear)
        assert begun.wait(60)
        assert lane.queue_short(Cost.POD, lambda: ran.append("short"), short)
        go.set()
        async with asyncio.timeout(60):
            await asyncio.gather(dear.future, short.future)
        lane.stop()
        return ran

    assert asyncio.run(order()) == ["short", "dear"]


def test_short_functions_end_with_the_lane() -> None:
    async def end() -> list[bool]:
        lane, loop = LoopLane("test", 2), asyncio.get_running_loop()
        results = [LoopResult(loop) for _ in range(3)]
        queued = [lane.queue_short(Cost.POD, str, result) for result in results]
        lane.stop()
        queued.append(lane.queue_short(Cost.POD, str, LoopResult(loop)))
        await asyncio.sleep(0.01)
        return [*queued, *(result.future.cancelled() for result in results)]

    assert asyncio.run(end()) == [True, True, False, False, True, True, False]


def test_the_loop_has_some_turns_between_two_functions_that_hold_it_up() -> None:
    """Parsing a large body keeps all other threads waiting, and a small request needs several turns of the loop."""

    async def rested() -> list[str]:
        lane, loop, ran = LoopLane("test", 10), asyncio.get_running_loop(), list[str]()
        turns, call_later = 0, loop.call_later

        def counting(delay: float, *call: Any) -> Any:
            nonlocal turns
            turns += 1
            return call_later(delay, *call)

        loop.call_later = counting  # type: ignore[method-assign,assignment]
        go = _busy(lane)
        results = [LoopResult(loop, holds_up=True) for _ in range(2)]
        for name, result in zip("ab", results, strict=True):
            assert lane.queue(Cost.PODS, lambda name=name: ran.append(f"{name} after {turns} turns"), result)  # type: ignore[misc]
        go.set()
        async with asyncio.timeout(60):
            await results[0].future
            cheaper = LoopResult(loop)
            assert lane.queue(Cost.POD, lambda: ran.append("cheaper"), cheaper)
            await cheaper.future
            await results[1].future
        lane.stop()
        return ran

    assert asyncio.run(rested()) == ["a after 0 turns", "cheaper", "b after 10 turns"]
