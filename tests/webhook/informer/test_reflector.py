"""One kind followed step by step: order of news, when to list anew, how long to wait."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.policies.kubernetes.kinds.registry import KindSpec
from forewarn.webhook.apiserver.client import ApiError, Event, Expired, Page, Silent
from forewarn.webhook.informer.informer import (
    Backoff,
    Changed,
    ListCompleted,
    Listed,
    ListStarted,
    Outlets,
    Pace,
    Reflector,
    Responded,
)
from tests.webhook.builders import pod
from tests.webhook.scripted_api import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.webhook.informer.informer import Delta

PODS, JOBS = BY_NAME["pods"], BY_NAME["jobs"]
Play = list[Any] | ApiError
"""What a list (pages) or a watch (events, seconds that pass, in the end perhaps an error) comes to."""


class Played:
    """An API that answers in turn, and one that tells the time."""

    def __init__(self, lists: list[Play], watches: list[Play]) -> None:
        self.lists, self.watches = deque(lists), deque(watches)
        self.now = 0.0
        self.deltas: list[Delta] = []
        self.troubles: list[str] = []
        self.calls: list[tuple[object, ...]] = []

    def pages(self, resource: KindSpec, limit: int = 0) -> Iterator[Page]:
        self.calls.append(("list", limit))
        yield from self._play(self.lists.popleft())

    def watch(self, resource: KindSpec, resource_version: str, seconds: float, silence: float) -> Any:
        self.calls.append(("watch", resource_version, seconds))
        play = self.watches.popleft()
        if isinstance(play, ApiError):
            raise play
        return self._play(play)

    def _play(self, play: Play) -> Iterator[Any]:
        for part in [play] if isinstance(play, ApiError) else play:
            if isinstance(part, ApiError):
                raise part
            if isinstance(part, float):
                self.now += part
            else:
                yield part

    def reflector(self, resource: KindSpec = PODS, chance: float = 1.0, pace: Pace = Pace()) -> Reflector:  # noqa: B008
        outlets = Outlets(
            self.deltas.append, lambda _, word: self.troubles.append(word), lambda _: False, lambda: self.now
        )
        return Reflector(self, resource, outlets, Backoff(lambda: chance, pace))


def page(*names: str, version: str = "10") -> Page:
    return Page([pod(name=name) for name in names], version)


def event(kind: str, name: str, version: str) -> Event:
    return Event(kind, pod(name=name), version)


def bookmark(version: str) -> Event:
    return event("BOOKMARK", "", version)


def test_a_list_then_a_watch_from_there_then_a_watch_from_where_that_ended() -> None:
    played = Played(
        [[page("a"), page("b", version="15")]],
        [[event("ADDED", "c", "11"), bookmark("20"), event("DELETED", "a", "21"), 80.0], [bookmark("22"), 80.0]],
    )
    reflector = played.reflector(chance=0.5)
    assert [reflector.step() for _ in range(3)] == [0.0, 0.0, 0.0]
    assert played.calls == [("list", 500), ("watch", "10", 450.0), ("watch", "21", 450.0)]
    kinds = [ListStarted, Listed, Listed, ListCompleted, Responded, Changed, Responded, Changed, Responded, Responded]
    assert [type(delta) for delta in played.deltas] == kinds
    changed = [delta for delta in played.deltas if isinstance(delta, Changed)]
    assert [(c.object["metadata"]["name"], c.deleted) for c in changed] == [("c", False), ("a", True)]
    assert played.troubles == []


@pytest.mark.parametrize(("error", "word"), [(Expired(410, "old"), "expired"), (Silent(0, "silent"), "silent")])
def test_an_expired_or_silent_watch_lists_anew_at_once_and_waits_if_that_did_not_help(
    error: ApiError, word: str
) -> None:
    seen = event("ADDED", "a", "11")
    played = Played([[page()]] * 3, [[seen, 30.0, error], [seen, error], [error]])
    reflector = played.reflector()
    pauses = [reflector.step() for _ in range(6)]
    assert pauses == [0.0, 0.0, 0.0, 0.8, 0.0, 1.6]
    assert [call[0] for call in played.calls] == ["list", "watch"] * 3
    assert played.troubles == [word] * 3
    assert reflector.fault is None


def test_a_list_so_slow_that_its_pages_expire_is_asked_for_in_one_piece() -> None:
    played = Played([[page(), Expired(410, "old")], [page()]], [[]])
    reflector = played.reflector()
    for _ in range(3):
        reflector.step()
    assert played.calls[:2] == [("list", 500), ("list", 0)]
    assert reflector._limit == 500


def test_a_watch_that_breaks_off_goes_on_from_where_it_was() -> None:
    played = Played([[page()]], [[event("ADDED", "a", "11"), ApiError(0, "cut")], ApiError(500, "no"), []])
    reflector = played.reflector()
    pauses = [reflector.step() for _ in range(4)]
    assert [call[1] for call in played.calls[1:]] == ["10", "11", "11"]
    assert pauses == [0.0, 0.8, 1.6, 3.2]
    assert played.troubles == ["broken", "500"]


def test_after_failures_an_expired_watch_lists_anew_at_once_all_the_same() -> None:
    """An API server that was restarted has forgotten old versions; who has waited for it waits no longer."""
    played = Played(
        [[page()]] * 2, [[event("ADDED", "a", "11"), 40.0, ApiError(0, "cut")], ApiError(0, "no"), Expired(410, "")]
    )
    reflector = played.reflector()
    assert [reflector.step() for _ in range(5)] == [0.0, 0.8, 1.6, 0.0, 0.0]
    assert [call[0] for call in played.calls] == ["list", "watch", "watch", "watch", "list"]


def test_a_list_that_is_old_is_made_anew_at_once_though_nothing_has_come_since() -> None:
    """The API server was away for long enough to forget, and nothing had happened before."""
    cut, gone = ApiError(0, "cut"), Expired(410, "")
    played = Played([[page()]] * 3, [[cut], [29.0, cut], [1.0, gone], [gone]])
    reflector = played.reflector()
    assert [reflector.step() for _ in range(7)] == [0.0, 0.8, 1.6, 0.0, 0.0, 0.8, 0.0]
    assert [call[0] for call in played.calls] == ["list", "watch", "watch", "watch", "list", "watch", "list"]


def test_failures_are_forgotten_after_a_calm_watch() -> None:
    rejected, cut = ApiError(500, "no"), ApiError(0, "cut")
    played = Played([[page()]], [*[rejected] * 3, [bookmark("20"), 60.0], rejected, [bookmark("30"), 60.0, cut]])
    reflector = played.reflector()
    assert [reflector.step() for _ in range(7)] == [0.0, 0.8, 1.6, 3.2, 0.0, 0.8, 0.8]


def test_watches_that_end_at_once_are_not_asked_for_in_a_loop() -> None:
    played = Played([[page()]], [[]] * 3)
    reflector = played.reflector()
    assert [reflector.step() for _ in range(4)] == [0.0, 0.8, 1.6, 3.2]


def test_a_list_without_a_version_is_a_failure() -> None:
    played = Played([[page(version="")]], [])
    assert played.reflector().step() > 0
    assert not any(isinstance(delta, ListCompleted) for delta in played.deltas)


def test_a_fault_of_ours_is_a_failure_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("a fault of ours")

    outlets = Outlets(broken, lambda *_: None, lambda _: False, lambda: 0.0)
    reflector = Reflector(Played([[page()]], []), PODS, outlets, Backoff(lambda: 1.0))
    assert reflector.step() == 0.8
    assert "a fault of ours" in caplog.text
    assert str(reflector.fault) == "internal error; see the log"


def test_a_server_that_asks_to_be_left_alone_is() -> None:
    played = Played([ApiError(429, "busy", retry_after=30.0)], [])
    assert played.reflector().step() == 30.0


def test_what_rbac_lacks_is_named_once_and_so_is_that_it_is_there(caplog: pytest.LogCaptureFixture) -> None:
    forbidden = ApiError(403, 'jobs.batch is forbidden: User "x" cannot list resource')
    played = Played([forbidden, forbidden, [page()]], [ApiError(401, "Unauthorized"), []])
    reflector = played.reflector(JOBS)
    with caplog.at_level(logging.INFO, "forewarn"):
        for _ in range(2):
            reflector.step()
        assert reflector.fault is not None
        assert reflector.fault.rejected
        for _ in range(3):
            reflector.step()
    assert reflector.fault is None
    assert [record.getMessage() for record in caplog.records] == [
        "RBAC does not allow forewarn to list jobs.batch",
        "can list jobs.batch again",
        "cannot watch jobs.batch",
        "can watch jobs.batch again",
    ]
    told = caplog.records[0].fields
    assert (told["verb"], told["resource"], told["group"], told["status"]) == ("list", "jobs", "batch", 403)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO", "WARNING", "INFO"]


def test_a_rejection_is_an_error_once_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    """An API server that has just started rejects everything for a moment."""
    times = iter([0.0] * 3 + [29.0] * 3 + [30.0] * 3 + [90.0] * 9)
    outlets = Outlets(lambda _: None, lambda *_: None, lambda _: False, lambda: next(times))
    reflector = Reflector(Played([ApiError(403, "no")] * 4, []), JOBS, outlets, Backoff(lambda: 1.0))
    for _ in range(4):
        reflector.step()
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]


def test_it_stops_where_it_waits_and_where_it_watches() -> None:
    played = Played([ApiError(500, "no")] * 3, [])
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) == 2

    outlets = Outlets(played.deltas.append, lambda *_: None, wait, lambda: 0.0)
    Reflector(played, PODS, outlets, Backoff(lambda: 1.0)).run()
    assert waits == [0.8, 1.6]

    stopped = played.reflector()
    stopped.stop()
    stopped.run()
    assert len(played.calls) == 2


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0, 100))
def test_waiting_grows_to_its_bound_with_jitter_and_never_goes_under_what_was_asked(
    chances: list[float], least: float
) -> None:
    drawn = iter(chances)
    backoff = Backoff(lambda: next(drawn))
    pace = Pace()
    for failures in range(len(chances)):
        longest = min(pace.longest, pace.least * 2.0**failures)
        seconds = backoff.next(least)
        assert max(least, longest / 2) <= seconds <= max(least, longest)
