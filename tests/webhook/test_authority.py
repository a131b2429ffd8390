"""The shared CA and the leaves: at every moment API servers trust what replicas serve."""

from __future__ import annotations

import base64
import contextlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.webhook.fake_api import FakeApi, unreachable
from webhook.api import ApiError
from webhook.authority import ANNOUNCED_FOR, LEAF_LIFE, Authorities, BadSecret, Keeper
from webhook.certificates import LIFE, Authority, Certificate, NoCertificate, certificates_in, self_signed, validity_of
from webhook.metrics import Metrics
from webhook.registration import PATHS, Registration
from webhook.tls import SwappingContext

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECRET = "/api/v1/namespaces/forewarn/secrets/forewarn-ca"
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


class Contexts(SwappingContext):
    """Without OpenSSL: what is served, and nothing more."""

    def __init__(self) -> None:
        self.certificate = self_signed(NOW)

    def swap(self, certificate: Certificate | None = None, demands: object = None) -> None:
        self.certificate = certificate or self.certificate


@dataclass
class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Replica:
    api: FakeApi
    clock: Clock
    contexts: Contexts = field(default_factory=Contexts)
    keeper: Keeper = field(init=False)

    def __post_init__(self) -> None:
        self.keeper = Keeper(self.api, SECRET, ("forewarn.forewarn.svc",), self.contexts, Metrics(), self.clock)

    def look(self, *, writer: bool = False) -> None:
        """As upkeep does it."""
        registration = Registration(self.api)
        try:
            self.keeper.look(writer=writer, announced=registration.look() or ())
            if writer:
                registration.look(self.keeper.authorities.bundle())
        finally:
            self.keeper.renew()


def cluster() -> FakeApi:
    api = FakeApi(SECRET)
    for path in PATHS:
        api.put(path, {"webhooks": [{"name": "a", "clientConfig": {"service": {"name": "forewarn"}}}]})
    return api


def trusts(api: FakeApi, served: Certificate, now: datetime) -> bool:
    """Whether an API server, with the configurations as they are, would call: Go's verification in short."""
    leaf = x509.load_pem_x509_certificate(served.chain)
    if not leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc:
        return False
    return all(any(signed(leaf, ca, now) for ca in bundle_of(api, path)) for path in PATHS)


def bundle_of(api: FakeApi, path: str) -> list[bytes]:
    config = api.objects[path]["webhooks"][0]["clientConfig"]
    return certificates_in(base64.b64decode(config.get("caBundle", "")))


def signed(leaf: x509.Certificate, ca: bytes, now: datetime) -> bool:
    try:
        leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(ca))
    except Exception:
        return False
    return validity_of(ca).covers(now)


def test_the_first_replica_fills_the_empty_secret_and_the_second_signs_with_the_same_ca() -> None:
    api, clock = cluster(), Clock()
    first, second = Replica(api, clock), Replica(api, clock)
    first.look(writer=True)
    second.look()
    assert first.contexts.certificate.ca == second.contexts.certificate.ca
    assert first.contexts.certificate.key != second.contexts.certificate.key
    assert trusts(api, second.contexts.certificate, NOW)
    assert api.objects[SECRET]["data"].keys() == {"tls.crt", "tls.key"}


def test_the_leafs_key_is_nowhere_but_in_memory() -> None:
    api = cluster()
    replica = Replica(api, Clock())
    replica.look(writer=True)
    assert base64.b64encode(replica.contexts.certificate.key).decode() not in str(api.objects)


def test_two_that_fill_the_secret_at_once_end_with_one_ca() -> None:
    api, clock = cluster(), Clock()
    first, second = Replica(api, clock), Replica(api, clock)

    def second_is_quicker(verb: str, path: str) -> None:
        if (verb, path) == ("replace", SECRET):
            api.before = lambda _verb, _path: None
            second.look()

    api.before = second_is_quicker
    first.look()
    first.look()
    assert first.contexts.certificate.ca == second.contexts.certificate.ca


def test_a_leaf_lives_a_day_and_is_renewed_at_two_thirds_by_the_wall_clock() -> None:
    api, clock = cluster(), Clock()
    replica = Replica(api, clock)
    replica.look(writer=True)
    first = replica.contexts.certificate
    assert first.not_after == NOW + LEAF_LIFE
    clock.now = NOW + timedelta(hours=15)
    replica.look(writer=True)
    assert replica.contexts.certificate == first
    clock.now = NOW + timedelta(hours=16)
    replica.look(writer=True)
    assert replica.contexts.certificate.not_after == clock.now + LEAF_LIFE
    assert replica.contexts.certificate.ca == first.ca


def test_a_machine_that_slept_renews_at_its_first_look() -> None:
    api, clock = cluster(), Clock()
    replica = Replica(api, clock)
    replica.look(writer=True)
    clock.now = NOW + 5 * DAY
    assert not trusts(api, replica.contexts.certificate, clock.now)
    replica.look()
    assert trusts(api, replica.contexts.certificate, clock.now)


def test_a_clock_that_was_ahead_and_goes_back_gets_a_certificate_that_holds() -> None:
    api, clock = cluster(), Clock(NOW + DAY)
    replica = Replica(api, clock)
    replica.look(writer=True)
    clock.now = NOW
    replica.look()
    assert validity_of(replica.contexts.certificate.chain).covers(NOW)


def test_without_the_api_server_the_leaf_is_renewed_all_the_same() -> None:
    api, clock = cluster(), Clock()
    replica = Replica(api, clock)
    replica.look(writer=True)
    api.before = unreachable
    clock.now = NOW + 2 * DAY
    with pytest.raises(ApiError):
        replica.look()
    api.before = lambda _verb, _path: None
    assert trusts(api, replica.contexts.certificate, clock.now)


def test_a_leaf_never_outlives_its_ca() -> None:
    authority = Authority.make(NOW, timedelta(hours=3))
    assert authority.sign(NOW, ("a",), LEAF_LIFE).not_after == authority.validity.not_after


def test_the_ca_is_succeeded_by_one_that_was_announced_for_an_hour_and_trusted_until_it_ends() -> None:
    first = Authorities().advanced(NOW, ())
    assert first.current is not None
    old = first.current
    assert first.advanced(NOW + LIFE * 0.6, ()) == first
    at = NOW + LIFE * 0.7
    second = first.advanced(at, ())
    assert second.current == old
    assert second.coming is not None
    new = second.coming
    assert second.bundle() == new.certificate.join([old.certificate, b""])
    announced = {old.certificate, new.certificate}
    noted = second.advanced(at, announced)
    assert noted == replace(second, announced_at=at)
    assert noted.advanced(at + ANNOUNCED_FOR - MINUTE, announced) == noted
    assert noted.advanced(at + ANNOUNCED_FOR + MINUTE, {old.certificate}) == second
    third = noted.advanced(at + ANNOUNCED_FOR, announced)
    assert (third.current, third.coming, third.former) == (new, None, (old.certificate,))
    assert third.advanced(NOW + LIFE - DAY, announced) == third
    assert third.advanced(NOW + LIFE, announced).former == ()


def test_the_hour_begins_when_the_configurations_name_the_coming_ca_and_not_when_it_was_made() -> None:
    api, clock = cluster(), Clock()
    Replica(api, clock).look(writer=True)
    first, clock.now = api.objects[SECRET]["data"]["tls.crt"], NOW + LIFE * 0.7
    kept = {path: api.objects[path] for path in PATHS}
    Replica(api, clock).look(writer=True)  # makes the coming one, and then cannot announce it
    for path in PATHS:
        api.put(path, kept[path])
    clock.now += 2 * HOUR
    Replica(api, clock).look(writer=True)
    clock.now += MINUTE
    seen = clock.now

    def signs() -> bool:
        """The writer has looked; each time it is another replica, which knows what is in the Secret."""
        Replica(api, clock).look(writer=True)
        return bool(api.objects[SECRET]["data"]["tls.crt"] != first)

    assert not signs()
    clock.now = seen + ANNOUNCED_FOR - MINUTE
    assert not signs()
    for path in PATHS:
        api.put(path, kept[path])  # by somebody's old copy: the hour begins anew
    assert not signs()
    clock.now = seen + ANNOUNCED_FOR
    assert not signs()
    clock.now += ANNOUNCED_FOR
    assert signs()
    assert "next.announced" not in api.objects[SECRET]["data"]


def test_a_clock_that_was_ahead_does_not_put_the_coming_ca_off_for_longer_than_an_hour() -> None:
    current, coming = Authority.make(NOW), Authority.make(NOW)
    found = Authorities(current, coming, (), NOW + 10 * DAY).advanced(NOW + DAY, {coming.certificate})
    assert found.advanced(NOW + DAY + ANNOUNCED_FOR, {coming.certificate}).current == coming


def test_a_ca_that_ended_while_everything_was_off_is_replaced_at_once() -> None:
    api, clock = cluster(), Clock()
    Replica(api, clock).look(writer=True)
    clock.now = NOW + 2 * LIFE
    replica = Replica(api, clock)
    replica.look(writer=True)
    assert trusts(api, replica.contexts.certificate, clock.now)


def test_an_emptied_secret_is_filled_with_what_api_servers_trust() -> None:
    api, clock = cluster(), Clock()
    replica = Replica(api, clock)
    replica.look(writer=True)
    before = api.objects[SECRET]["data"]
    api.put(SECRET, {})
    replica.look()
    assert api.objects[SECRET]["data"] == before


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"tls.crt": "!"}, r"tls.crt: .*take everything out of its data"),
        ({"tls.crt": base64.b64encode(b"x").decode()}, r"tls.crt and tls.key: no certificate in PEM"),
        ({"former.crt": base64.b64encode(b"x").decode()}, r"former.crt: no certificates in PEM"),
        (
            {"next.announced": base64.b64encode(b"soon").decode()},
            r"next.announced: \"soon\" is no date with time and zone",
        ),
        ({"next.announced": base64.b64encode(b"2030-01-01T00:00:00").decode()}, r"next.announced: .* no date with"),
    ],
)
def test_a_secret_that_holds_something_else_is_left_alone_and_named(data: dict[str, str], says: str) -> None:
    api = cluster()
    api.put(SECRET, {"data": data})
    with pytest.raises(BadSecret, match=says):
        Replica(api, Clock()).look(writer=True)
    assert api.objects[SECRET]["data"] == data


def test_a_key_of_another_certificate_and_a_leaf_in_place_of_a_ca_are_refused() -> None:
    one, two = Authority.make(NOW), Authority.make(NOW)
    with pytest.raises(NoCertificate, match="not the certificate's"):
        Authority.read(one.certificate, two.key)
    leaf = one.sign(NOW)
    with pytest.raises(NoCertificate, match="not one of a CA"):
        Authority.read(leaf.chain, leaf.key)
    with pytest.raises(NoCertificate, match="no private key"):
        Authority.read(one.certificate, b"x")


def test_what_was_written_is_read() -> None:
    whole = Authorities(Authority.make(NOW), Authority.make(NOW), (Authority.make(NOW).certificate,))
    for some in (whole, replace(whole, announced_at=NOW), Authorities(whole.current), Authorities()):
        assert Authorities.from_secret({"data": some.to_data()}) == some


steps = st.sampled_from([MINUTE, HOUR, 8 * HOUR, 10 * DAY, 100 * DAY])
acts = st.tuples(st.integers(0, 2), st.sampled_from(["look", "look", "write", "restart", "away"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(steps, st.lists(acts, max_size=4)), max_size=12))
def test_api_servers_trust_every_replica_that_looks(
    history: list[tuple[timedelta, list[tuple[int, str]]]],
) -> None:
    """Whatever the steps of the writer and of restarts; the API server may be away for single looks."""
    api, clock = cluster(), Clock()
    replicas = [Replica(api, clock) for _ in range(3)]
    replicas[0].look(writer=True)
    for step, happens in history:
        clock.now += step
        for number, act in happens:
            if act == "restart":
                replicas[number] = Replica(api, clock)
            api.before = unreachable if act == "away" else lambda _verb, _path: None
            _quietly(lambda number=number, act=act: replicas[number].look(writer=act == "write"))  # type: ignore[misc]
        api.before = lambda _verb, _path: None
        for number in range(3):
            replicas[number].look(writer=number == 0)
        assert all(trusts(api, replica.contexts.certificate, clock.now) for replica in replicas)


def _quietly(run: Callable[[], None]) -> None:
    with contextlib.suppress(ApiError):
        run()
