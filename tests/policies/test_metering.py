"""The meter: when it asks whether time is up, what ends it, whom it concerns."""

from __future__ import annotations

from threading import Thread

import pytest

from forewarn.policies.base.metering import (
    CHECK_INTERVAL,
    FEW,
    CutShort,
    charge,
    charging,
    holding,
    holding_lock,
    meter,
    metered,
    never,
)


def test_without_a_limit_nothing_is_counted() -> None:
    charge(10**12)
    with metered(never), holding_lock():
        charge(10**12)
        assert not holding()


def test_it_asks_every_so_many_units_and_stops_when_time_is_up() -> None:
    asked = []

    def expired() -> bool:
        asked.append(1)
        return len(asked) > 3

    with metered(expired):
        for _ in range(3 * CHECK_INTERVAL):
            charge()
        assert len(asked) == 3
        with pytest.raises(CutShort, match="time is up"):
            charge(50 * CHECK_INTERVAL)
        assert len(asked) == 4
        with pytest.raises(CutShort):
            charge(CHECK_INTERVAL)
    charge(10**12)


def test_work_has_a_bound_of_its_own() -> None:
    with metered(lambda: False, limit=10 * CHECK_INTERVAL):
        for _ in range(9):
            charge(CHECK_INTERVAL)
        with pytest.raises(CutShort, match="too much"):
            charge(CHECK_INTERVAL)


def test_few_things_are_not_counted_and_many_are_counted_as_they_are_looked_at() -> None:
    with metered(lambda: True):
        assert list(charging(range(FEW), 10**6)) == list(range(FEW))
        some = iter(charging(range(10**6), 1))
        assert [next(some) for _ in range(FEW)] == list(range(FEW))
        with pytest.raises(CutShort):
            list(some)


def test_another_thread_has_another_meter() -> None:
    found = []
    with metered(lambda: True) as mine:
        thread = Thread(target=lambda: found.append(meter()))
        thread.start()
        thread.join()
        with holding_lock():
            assert holding()
        assert not holding()
        assert meter() is mine is not found[0]
