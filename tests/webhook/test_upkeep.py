"""What is looked after in a cluster, all together."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from policies.objects.priority_class import PriorityClass
from tests.webhook.builders import cluster, priority_class
from tests.webhook.fake_api import LEASE, WRITER, FakeApi, unreachable
from tests.webhook.test_reloading import value_of
from webhook.admission import Claim
from webhook.certificates import certificates_in, self_signed
from webhook.global_defaults import EVENTS, GlobalDefaults
from webhook.metrics import Metrics
from webhook.registration import PATHS, Registration
from webhook.reservation import CLASSES
from webhook.tls import SwappingContext
from webhook.upkeep import Place, Upkeep

if TYPE_CHECKING:
    from policies.cluster import ClusterSnapshot

PLACE = Place("forewarn", "replica-0")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Replica:
    def __init__(self, api: FakeApi, identity: str = "replica-0", state: ClusterSnapshot | None = None) -> None:
        self.contexts, self.clock, self.metrics = SwappingContext(self_signed(datetime.now(UTC))), Clock(), Metrics()
        place = Place("forewarn", identity)
        self.upkeep = Upkeep(api, place, self.metrics, self.contexts, lambda: state, self.clock)

    def value(self, name: str) -> str:
        return value_of(self.metrics, name)


def installed() -> FakeApi:
    api = FakeApi(LEASE, WRITER, PLACE.secret)
    for path in PATHS:
        api.put(path, {"webhooks": [{"name": "a", "clientConfig": {}}]})
    return api


def test_a_replica_is_ready_once_api_servers_trust_it_and_not_before() -> None:
    api = installed()
    first, second = Replica(api), Replica(api, "replica-1")
    assert "not trust the certificate yet: not looked yet" in first.upkeep.fault()
    api.before = unreachable
    first.upkeep.look()
    assert "connection refused" in first.upkeep.fault()
    api.before = lambda _verb, _path: None
    for replica in (first, second):
        replica.upkeep.look()
        assert replica.upkeep.fault() == ""
        assert replica.contexts.certificate.ca in (Registration(api).look() or ())
    assert (first.value("forewarn_writer"), second.value("forewarn_writer")) == ("1.0", "0.0")
    assert float(first.value("forewarn_authority_expiry_timestamp_seconds")) > time.time()


def test_a_replica_that_is_no_writer_waits_for_the_writer() -> None:
    api = installed()
    api.put(WRITER, {"spec": {"holderIdentity": "somebody"}})
    replica = Replica(api)
    replica.upkeep.look()
    assert "the writer has not written" in replica.upkeep.fault()
    assert api.objects[PATHS[0]]["webhooks"][0]["clientConfig"] == {}
    replica.clock.now += 31
    replica.upkeep.look()
    assert replica.upkeep.fault() == ""


def test_a_bundle_that_somebody_overwrites_is_written_again_within_a_minute() -> None:
    api = installed()
    replica = Replica(api)
    replica.upkeep.look()
    api.put(PATHS[1], {"webhooks": [{"name": "a", "clientConfig": {}}, {"name": "b", "clientConfig": {}}]})
    for _ in range(13):
        replica.clock.now += 5
        replica.upkeep.look()
    trusted = Registration(api).look()
    assert trusted == frozenset(certificates_in(replica.contexts.certificate.ca))


def test_one_task_that_fails_does_not_keep_others_from_being_done() -> None:
    api = installed()
    api.delete(WRITER)
    api.put(PLACE.secret, {"data": {"tls.crt": "!"}})
    replica = Replica(api, state=cluster(priority_class("a", 1, globalDefault=True)))
    replica.upkeep.look()
    assert "take everything out of its data" in replica.upkeep.fault()
    assert replica.value('forewarn_upkeep_failures_total{task="election"}') == "1.0"
    assert replica.value('forewarn_upkeep_failures_total{task="certificates"}') == "1.0"
    assert replica.value("forewarn_global_defaults") == "1.0"


def test_a_defect_in_a_task_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    api = installed()

    def broken(_verb: str, _path: str) -> None:
        raise RuntimeError("a fault of ours")

    api.before = broken
    replica = Replica(api)
    replica.upkeep.look()
    assert "a fault of ours" in caplog.text
    assert "RuntimeError" in replica.upkeep.fault()


def test_where_certificates_are_somebody_elses_matter_no_secret_is_read() -> None:
    api = FakeApi(LEASE, WRITER)
    upkeep = Upkeep(api, PLACE, Metrics(), None, lambda: None, Clock())
    upkeep.look()
    assert upkeep.fault() == ""
    assert {path for _, path in api.calls} == {LEASE, WRITER}


def test_the_thread_frees_the_place_soon_after_the_class_came_by_the_watch_and_resigns_at_the_end() -> None:
    api = installed()
    upkeep = Replica(api).upkeep
    end = upkeep.start()
    try:
        _until(lambda: not upkeep.fault())
        assert upkeep.reservations.reserve(Claim("normal", "create u"), 3) == ""
        stored = api.put(f"{CLASSES}/normal", {"globalDefault": True}, "u")
        upkeep.reservations.seen(stored)
        _until(lambda: "holderIdentity" not in api.objects[LEASE]["spec"], 0.9)
    finally:
        end()
    assert "holderIdentity" not in api.objects[WRITER]["spec"]


def _until(condition: object, seconds: float = 5) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_defaults_are_counted_and_told_once_with_an_event_on_each() -> None:
    api, metrics = FakeApi(f"{CLASSES}/a", f"{CLASSES}/b"), Metrics()
    two = {name: PriorityClass(name, value, True) for name, value in (("a", 5), ("b", 3))}
    looks = GlobalDefaults(api, metrics)
    for _ in range(2):
        looks.look(two, writer=True)
    assert value_of(metrics, "forewarn_global_defaults") == "2.0"
    events = [obj for path, obj in api.objects.items() if path.startswith(EVENTS)]
    assert [event["involvedObject"]["name"] for event in events] == ["a", "b"]
    assert all(event["involvedObject"]["uid"] and event["reason"] == "TwoGlobalDefaults" for event in events)
    assert "a, b are all marked as the global default; b counts" in events[0]["message"]
    looks.look({"a": two["a"]}, writer=True)
    looks.look(two, writer=True)
    assert len([path for path in api.objects if path.startswith(EVENTS)]) == 4


def test_only_the_writer_makes_events() -> None:
    api = FakeApi(f"{CLASSES}/a", f"{CLASSES}/b")
    GlobalDefaults(api, Metrics()).look({n: PriorityClass(n, 1, True) for n in "ab"}, writer=False)
    assert api.calls == []
