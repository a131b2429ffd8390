"""The election of one writer among replicas."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.webhook.apiserver.typed_client import Forbidden
from forewarn.webhook.controllers.leases import ELECTION_SECONDS, RENEWAL_SECONDS, Election, LeaseMissing
from tests.cases import cases
from tests.webhook.fake_api import WRITER, FakeApi


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def electorate(count: int = 2) -> tuple[FakeApi, Clock, list[Election]]:
    api, clock = FakeApi(WRITER), Clock()
    return api, clock, [Election(api, WRITER, f"replica-{number}", clock) for number in range(count)]


def test_the_first_wins_and_keeps_the_place_by_renewing_it() -> None:
    api, clock, (first, second) = electorate()
    assert first.reconcile()
    for _ in range(20):
        clock.now += RENEWAL_SECONDS
        assert first.reconcile()
        assert not second.reconcile()
    spec = api.objects[WRITER]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("replica-0", 30, 1)


def test_a_silent_writer_is_succeeded_and_knows_by_then() -> None:
    api, clock, (first, second) = electorate()
    first.reconcile()
    second.reconcile()
    clock.now += ELECTION_SECONDS - 0.1
    assert first.is_leader
    assert not second.reconcile()
    clock.now += 0.2
    assert not first.is_leader
    assert second.reconcile()
    assert not first.reconcile()
    assert api.objects[WRITER]["spec"]["leaseTransitions"] == 2


def test_a_writer_that_resigns_is_succeeded_at_once() -> None:
    _, _, (first, second) = electorate()
    first.reconcile()
    second.resign()
    assert not second.reconcile()
    first.resign()
    assert not first.is_leader
    assert second.reconcile()


def test_who_has_been_restarted_under_its_own_name_goes_on() -> None:
    api, clock, (first, _) = electorate()
    first.reconcile()
    assert Election(api, WRITER, "replica-0", clock).reconcile()


def test_a_missing_lease_is_created_by_the_quicker_of_two_replicas() -> None:
    api, _, (first, second) = electorate()
    api.delete(WRITER)

    def quicker(verb: str, _path: str) -> None:
        if verb == "replace":
            api.before = lambda _verb, _path: None
            assert second.reconcile()

    api.before = quicker
    assert not first.reconcile()
    assert (first.is_leader, second.is_leader) == (False, True)
    assert api.objects[WRITER]["spec"]["holderIdentity"] == "replica-1"


def test_a_missing_lease_that_forewarn_may_not_create_is_named() -> None:
    api, _, (first, _) = electorate()
    api.delete(WRITER)

    def forbidden(verb: str, path: str) -> None:
        if verb == "replace":
            raise Forbidden(path)

    api.before = forbidden
    with pytest.raises(LeaseMissing, match="the Lease forewarn-ca-injector is missing, and forewarn may not create it"):
        first.reconcile()
    assert not first.is_leader


@settings(max_examples=cases(100), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0.0, 1.0, 10.0, 25.0, 31.0])), max_size=40))
def test_two_are_never_writers_at_once(history: list[tuple[int, float]]) -> None:
    _, clock, replicas = electorate(3)
    for which, wait in history:
        clock.now += wait
        replicas[which].reconcile()
        assert sum(replica.is_leader for replica in replicas) <= 1
