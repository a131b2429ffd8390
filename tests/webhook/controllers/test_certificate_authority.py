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

from forewarn.webhook.apiserver.typed_client import Forbidden, ObjectApiError
from forewarn.webhook.controllers.certificate_authority import (
    ANNOUNCED_FOR,
    LEAF_LIFE,
    PATHS,
    CertificateAuthorities,
    Installation,
    Issuer,
    Registration,
)
from forewarn.webhook.controllers.replica import ReplicaControllers
from forewarn.webhook.controllers.serving_certificate import BadSecret, Served, ServingCertificate
from forewarn.webhook.http.tls import SwappingContext
from forewarn.webhook.metrics import Metrics
from forewarn.webhook.x509 import LIFE, Authority, Certificate, NoCertificate, certificates_in, self_signed, validity_of
from tests.cases import cases
from tests.webhook.fake_api import FakeApi, unreachable

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SECRET = "/api/v1/namespaces/forewarn/secrets/forewarn-ca"
LEAF = "/api/v1/namespaces/forewarn/secrets/forewarn-serving-cert"
SERVICE = {"name": "forewarn", "namespace": "forewarn"}
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


class Contexts(SwappingContext):
    """Without OpenSSL: what is served, and nothing more."""

    def __init__(self) -> None:
        self.certificate, self.rejection = self_signed(NOW), lambda _: ""

    def swap(self, certificate: Certificate | None = None, demands: object = None) -> None:
        self.certificate = certificate or self.certificate


@dataclass
class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Issuing:
    """A CA injector that is elected."""

    api: FakeApi
    clock: Clock
    issuer: Issuer = field(init=False)

    def __post_init__(self) -> None:
        self.issuer = Issuer(self.api, SECRET, LEAF, ("forewarn.forewarn.svc",), Metrics(), self.clock)

    def reconcile(self) -> None:
        """As webhook.controllers.certificate_authority does it."""
        registration = Registration(self.api)
        self.issuer.reconcile(registration.reconcile() or ())
        self.issuer.observe()
        current = self.issuer.authorities.current
        if current and current.certificate in (registration.reconcile(self.issuer.bundle()) or ()):
            self.issuer.issue()


@dataclass
class Replica:
    api: FakeApi
    clock: Clock
    contexts: Contexts = field(default_factory=Contexts)
    serving: ServingCertificate = field(init=False)

    def __post_init__(self) -> None:
        self.serving = ServingCertificate(self.api, LEAF, self.contexts, Metrics())
        self.registration = Registration(self.api)
        self.contexts.rejection = lambda certificate: self.registration.rejection(certificate, self.clock())

    def reconcile(self) -> Certificate:
        """As webhook.controllers.replica does it."""
        served = self.serving.read()
        self.registration.reconcile()
        self.serving.use(served)
        return self.contexts.certificate


@dataclass
class Installed:
    """The API server with the configurations, a CA injector and a replica; time goes by."""

    api: FakeApi = field(default_factory=lambda: cluster())
    clock: Clock = field(default_factory=Clock)
    injector: Issuing = field(init=False)
    replica: Replica = field(init=False)

    def __post_init__(self) -> None:
        self.injector, self.replica = Issuing(self.api, self.clock), Replica(self.api, self.clock)

    def reconcile(self) -> Certificate:
        """Both look, the injector first."""
        self.injector.reconcile()
        return self.replica.reconcile()


def cluster() -> FakeApi:
    api = FakeApi(SECRET, LEAF)
    for path in PATHS:
        api.put(path, {"webhooks": [{"name": "a", "clientConfig": {"service": SERVICE}}]})
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
    return not validity_of(ca).fault(now)


def test_the_injector_fills_the_empty_secrets_and_all_replicas_serve_the_same() -> None:
    installed = Installed()
    served = installed.reconcile()
    assert Replica(installed.api, installed.clock).reconcile() == served
    assert trusts(installed.api, served, NOW)
    assert installed.api.objects[SECRET]["data"].keys() == {"tls.crt", "tls.key"}
    assert installed.api.objects[LEAF]["data"].keys() == {"tls.crt", "tls.key", "ca.crt"}


def test_the_key_of_tokens_is_kept_beside_the_certificate() -> None:
    installed = Installed()
    served = installed.reconcile()
    installed.injector.issuer.issue("ab" * 32)
    again = Issuing(installed.api, installed.clock)
    again.reconcile()
    assert again.issuer.token_key == "ab" * 32
    assert installed.replica.reconcile() == served, "for its sake no other certificate is served"
    data = installed.api.objects[LEAF]["data"]
    installed.api.put(LEAF, {"data": {**data, "token-key": base64.b64encode(b"../secrets").decode()}})
    started = Issuing(installed.api, installed.clock)
    started.reconcile()
    assert started.issuer.token_key == ""


def test_the_cas_key_is_in_its_own_secret_alone() -> None:
    installed = Installed()
    installed.reconcile()
    key = installed.api.objects[SECRET]["data"]["tls.key"]
    assert key not in str([obj for path, obj in installed.api.objects.items() if path != SECRET])
    assert installed.injector.issuer.authorities.current
    assert installed.injector.issuer.authorities.current.key != installed.replica.contexts.certificate.key


def test_a_replica_asks_for_no_more_than_its_secret_and_the_configurations() -> None:
    installed = Installed()
    installed.injector.reconcile()
    installed.api.calls.clear()
    installed.replica.reconcile()
    assert installed.api.calls == [("get", LEAF), *(("get", path) for path in PATHS)]


def test_two_injectors_that_fill_the_secret_at_once_end_with_one_ca() -> None:
    installed = Installed()
    second = Issuing(installed.api, installed.clock)

    def second_is_quicker(verb: str, path: str) -> None:
        if (verb, path) == ("replace", SECRET):
            installed.api.before = lambda _verb, _path: None
            second.reconcile()

    installed.api.before = second_is_quicker
    installed.injector.reconcile()
    assert trusts(installed.api, installed.reconcile(), NOW)
    assert installed.injector.issuer.authorities == second.issuer.authorities


def test_a_leaf_lives_a_week_and_is_renewed_at_two_thirds_by_the_wall_clock() -> None:
    installed = Installed()
    first = installed.reconcile()
    assert first.not_after == NOW + LEAF_LIFE == NOW + 7 * DAY
    installed.clock.now = NOW + 4.6 * DAY
    assert installed.reconcile() == first
    installed.clock.now = NOW + 4.7 * DAY
    second = installed.reconcile()
    assert second.not_after == installed.clock.now + LEAF_LIFE
    assert second.ca == first.ca


def test_a_machine_that_slept_has_another_certificate_after_the_first_looks() -> None:
    installed = Installed()
    first = installed.reconcile()
    installed.clock.now = NOW + 50 * DAY
    assert not trusts(installed.api, first, installed.clock.now)
    assert trusts(installed.api, installed.reconcile(), installed.clock.now)


def test_a_clock_that_was_ahead_and_goes_back_gets_a_certificate_that_holds() -> None:
    installed = Installed(clock=Clock(NOW + DAY))
    installed.reconcile()
    installed.clock.now = NOW
    assert not validity_of(installed.reconcile().chain).fault(NOW)


def test_a_certificate_is_not_put_out_before_the_configurations_name_its_ca() -> None:
    """Nor does it matter that they could not be written: what is served stays trusted."""
    installed = Installed()
    served = installed.reconcile()
    installed.clock.now = NOW + 5 * DAY
    installed.api.put(SECRET, {"data": CertificateAuthorities(Authority.make(installed.clock.now)).to_data()})

    def read_only(verb: str, path: str) -> None:
        if verb == "replace" and path in PATHS:
            raise Forbidden(path)

    installed.api.before = read_only
    with pytest.raises(Forbidden):
        installed.injector.reconcile()
    installed.api.before = lambda _verb, _path: None
    assert installed.replica.reconcile() == served
    assert trusts(installed.api, served, installed.clock.now)
    assert trusts(installed.api, installed.reconcile(), installed.clock.now)


def test_what_is_served_is_not_given_up_for_nothing_or_for_what_has_ended() -> None:
    installed = Installed()
    served = installed.reconcile()
    installed.api.put(LEAF, {})
    assert installed.replica.reconcile() == served
    old = Authority.make(NOW - 30 * DAY)
    ended = Served(old.sign(NOW - 20 * DAY, ("forewarn.forewarn.svc",), LEAF_LIFE))
    installed.api.put(LEAF, {"data": ended.to_data()})
    with pytest.raises(
        BadSecret, match=r"tls.crt: expired at 2029-12-19T.* the current certificate is valid and stays in use"
    ):
        installed.replica.reconcile()
    assert installed.replica.contexts.certificate == served
    assert installed.reconcile() != served, "the injector puts out a good one"


@pytest.mark.parametrize(("days", "why"), [(-20, "expired at "), (2, "not valid before ")])
def test_a_replica_that_starts_with_a_certificate_that_is_not_valid_now_does_not_serve_it(days: int, why: str) -> None:
    installed = Installed()
    installed.reconcile()
    authority = Authority.make(NOW - 30 * DAY)
    untimely = Served(authority.sign(NOW + days * DAY, ("forewarn.forewarn.svc",), LEAF_LIFE))
    installed.api.put(LEAF, {"data": untimely.to_data()})
    started = Replica(installed.api, installed.clock)
    with pytest.raises(BadSecret, match=f"the Secret's tls.crt: {why}"):
        started.reconcile()
    assert started.serving.served.certificate is None
    installed.injector.reconcile()
    assert trusts(installed.api, started.reconcile(), NOW)


def test_a_replica_is_not_ready_while_its_certificate_is_not_valid_and_says_why() -> None:
    installed = Installed()
    installed.reconcile()
    installation = Installation("forewarn", "pod-1")
    replica = ReplicaControllers(
        installed.api, installation, Metrics(), Contexts(), lambda: None, now=installed.clock, clock=lambda: 0
    )
    replica.reconcile()
    assert replica.fault() == ""
    installed.clock.now = NOW + 8 * DAY
    assert replica.fault().startswith("API servers do not trust the certificate: expired at 2030-")
    installed.injector.reconcile()
    replica._certificate()
    assert replica.fault() == ""


def other_names(authority: Authority) -> Served:
    return Served(authority.sign(NOW, ("forewarn.another.svc",), LEAF_LIFE))


def another_ca(_: Authority) -> Served:
    return Served(Authority.make(NOW).sign(NOW, ("forewarn.forewarn.svc",), LEAF_LIFE))


def claims_the_ca(authority: Authority) -> Served:
    """ca.crt is the trusted CA, but another one has signed."""
    certificate = another_ca(authority).certificate
    assert certificate
    return Served(replace(certificate, ca=authority.certificate))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (other_names, "valid for forewarn.another.svc, not for forewarn.forewarn.svc, which API servers call"),
        (another_ca, "not signed by a CA of caBundle"),
        (claims_the_ca, "not signed by a CA of caBundle"),
    ],
)
def test_a_certificate_that_api_servers_reject_is_not_served_and_the_injector_replaces_it(
    spoil: Callable[[Authority], Served], why: str
) -> None:
    installed = Installed()
    served = installed.reconcile()
    authority = installed.injector.issuer.authorities.current
    assert authority
    installed.api.put(LEAF, {"data": spoil(authority).to_data()})
    with pytest.raises(BadSecret, match=f"tls.crt: {why}; the current certificate is valid and stays in use"):
        installed.replica.reconcile()
    with pytest.raises(BadSecret, match=f"tls.crt: {why}"):
        Replica(installed.api, installed.clock).reconcile()
    assert installed.replica.contexts.certificate == served
    assert trusts(installed.api, installed.reconcile(), NOW)
    assert installed.replica.contexts.certificate != served


def test_a_secret_that_cannot_be_parsed_is_filled_again_and_keeps_the_key_of_tokens() -> None:
    installed = Installed()
    installed.reconcile()
    installed.injector.issuer.issue("ab" * 32)
    data = installed.api.objects[LEAF]["data"]
    installed.api.put(LEAF, {"data": {**data, "tls.crt": base64.b64encode(b"nonsense").decode()}})
    assert trusts(installed.api, installed.reconcile(), NOW)
    assert installed.api.objects[LEAF]["data"]["token-key"] == data["token-key"]


def test_a_ca_secret_that_cannot_be_parsed_is_filled_with_what_api_servers_trust() -> None:
    installed = Installed()
    installed.reconcile()
    before = installed.api.objects[SECRET]["data"]
    installed.api.put(SECRET, {"data": {**before, "tls.key": base64.b64encode(b"nonsense").decode()}})
    installed.reconcile()
    assert installed.api.objects[SECRET]["data"] == before


@pytest.mark.parametrize("key", ["tls.crt", "tls.key", "ca.crt"])
def test_a_secret_without_a_certificate_or_with_another_ones_key_is_refused_and_named(key: str) -> None:
    installed = Installed()
    served = installed.reconcile()
    data = installed.api.objects[LEAF]["data"]
    other = Authority.make(NOW).sign(NOW).key if key == "tls.key" else b"nonsense"
    installed.api.put(LEAF, {"data": {**data, key: base64.b64encode(other).decode()}})
    with pytest.raises(BadSecret, match=r"tls.crt, tls.key and ca.crt: .*remove all of the Secret's data"):
        installed.replica.reconcile()
    assert installed.replica.contexts.certificate == served


def test_a_leaf_never_outlives_its_ca() -> None:
    authority = Authority.make(NOW, timedelta(hours=3))
    assert authority.sign(NOW, ("a",), LEAF_LIFE).not_after == authority.validity.not_after


def test_the_ca_is_succeeded_by_one_that_was_announced_for_an_hour_and_trusted_until_it_ends() -> None:
    first = CertificateAuthorities().advanced(NOW, ())
    assert first.current is not None
    old = first.current
    assert first.advanced(NOW + LIFE * 0.6, ()) == first
    at = NOW + LIFE * 0.7
    second = first.advanced(at, ())
    assert second.current == old
    assert second.successor is not None
    new = second.successor
    assert second.certificates == [old.certificate, new.certificate]
    announced = {old.certificate, new.certificate}
    noted = second.advanced(at, announced)
    assert noted == replace(second, announced_at=at)
    assert noted.advanced(at + ANNOUNCED_FOR - MINUTE, announced) == noted
    assert noted.advanced(at + ANNOUNCED_FOR + MINUTE, {old.certificate}) == second
    third = noted.advanced(at + ANNOUNCED_FOR, announced)
    assert (third.current, third.successor, third.retired) == (new, None, (old.certificate,))
    assert third.advanced(NOW + LIFE - DAY, announced) == third
    assert third.advanced(NOW + LIFE, announced).retired == ()


def test_the_hour_begins_when_the_configurations_name_the_coming_ca_and_not_when_it_was_made() -> None:
    installed = Installed()
    installed.reconcile()
    api, clock = installed.api, installed.clock
    first, clock.now = api.objects[SECRET]["data"]["tls.crt"], NOW + LIFE * 0.7
    kept = {path: api.objects[path] for path in PATHS}
    Issuing(api, clock).reconcile()  # makes the coming one, and then cannot announce it
    for path in PATHS:
        api.put(path, kept[path])
    clock.now += 2 * HOUR
    Issuing(api, clock).reconcile()
    clock.now += MINUTE
    seen = clock.now

    def signs() -> bool:
        """The injector has looked; each time it is another one, which knows what is in the Secret."""
        Issuing(api, clock).reconcile()
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
    current, upcoming = Authority.make(NOW), Authority.make(NOW)
    found = CertificateAuthorities(current, upcoming, (), NOW + 10 * DAY).advanced(NOW + DAY, {upcoming.certificate})
    assert found.advanced(NOW + DAY + ANNOUNCED_FOR, {upcoming.certificate}).current == upcoming


def test_a_ca_that_ended_while_everything_was_off_is_replaced_at_once() -> None:
    installed = Installed()
    installed.reconcile()
    installed.clock.now = NOW + 2 * LIFE
    assert trusts(installed.api, installed.reconcile(), installed.clock.now)


def test_an_emptied_secret_is_filled_with_what_api_servers_trust() -> None:
    installed = Installed()
    installed.reconcile()
    before = installed.api.objects[SECRET]["data"]
    installed.api.put(SECRET, {})
    installed.reconcile()
    assert installed.api.objects[SECRET]["data"] == before


@pytest.mark.parametrize(
    "secret", [{}, {"data": CertificateAuthorities(Authority.make(NOW)).to_data()}], ids=["emptied", "restored"]
)
def test_another_ca_is_trusted_beside_that_of_the_certificate_that_replicas_still_serve(
    secret: dict[str, dict[str, str]],
) -> None:
    """For a minute, in which every replica reads its Secret."""
    installed = Installed()
    old = installed.reconcile()
    installed.api.put(SECRET, secret)
    installed.injector = Issuing(installed.api, installed.clock)
    installed.injector.reconcile()
    assert trusts(installed.api, old, NOW), "no replica has looked yet"
    new = installed.replica.reconcile()
    assert new.ca != old.ca
    for seconds in (50, 5):
        installed.clock.now += timedelta(seconds=seconds)
        installed.injector.reconcile()
        assert trusts(installed.api, old, installed.clock.now)
        assert trusts(installed.api, new, installed.clock.now)
    installed.clock.now += timedelta(seconds=5)
    installed.injector.reconcile()
    assert not trusts(installed.api, old, installed.clock.now)
    assert trusts(installed.api, new, installed.clock.now)


def test_both_secrets_emptied_while_no_injector_ran_lead_to_a_new_ca() -> None:
    """docs/guides/run-the-webhook.md: replace the CA."""
    installed = Installed()
    old = installed.reconcile()
    for secret in (SECRET, LEAF):
        installed.api.put(secret, {})
    installed.injector = Issuing(installed.api, installed.clock)
    new = installed.reconcile()
    assert new.ca != old.ca
    assert not trusts(installed.api, old, NOW)
    assert trusts(installed.api, new, NOW)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"tls.crt": "!"}, r"tls.crt: .*remove all of the Secret's data"),
        ({"tls.crt": base64.b64encode(b"x").decode()}, r"tls.crt and tls.key: no PEM certificate"),
        ({"former.crt": base64.b64encode(b"x").decode()}, r"former.crt: no PEM certificates"),
        (
            {"next.announced": base64.b64encode(b"soon").decode()},
            r"next.announced: \"soon\" is not a date with time and time zone",
        ),
        ({"next.announced": base64.b64encode(b"2030-01-01T00:00:00").decode()}, r"next.announced: .* not a date with"),
    ],
)
def test_a_secret_that_holds_something_else_is_left_alone_and_named(data: dict[str, str], says: str) -> None:
    api = cluster()
    api.put(SECRET, {"data": data})
    with pytest.raises(BadSecret, match=says):
        Issuing(api, Clock()).reconcile()
    assert api.objects[SECRET]["data"] == data


def test_a_key_of_another_certificate_and_a_leaf_in_place_of_a_ca_are_refused() -> None:
    one, two = Authority.make(NOW), Authority.make(NOW)
    with pytest.raises(NoCertificate, match="does not match the certificate"):
        Authority.read(one.certificate, two.key)
    leaf = one.sign(NOW)
    with pytest.raises(NoCertificate, match="not a CA certificate"):
        Authority.read(leaf.chain, leaf.key)
    with pytest.raises(NoCertificate, match="no PEM private key"):
        Authority.read(one.certificate, b"x")


def test_what_was_written_is_read() -> None:
    whole = CertificateAuthorities(Authority.make(NOW), Authority.make(NOW), (Authority.make(NOW).certificate,))
    for some in (
        whole,
        replace(whole, announced_at=NOW),
        CertificateAuthorities(whole.current),
        CertificateAuthorities(),
    ):
        assert CertificateAuthorities.from_secret({"data": some.to_data()}) == some


steps = st.sampled_from([MINUTE, HOUR, 8 * HOUR, 10 * DAY, 100 * DAY])
acts = st.tuples(st.integers(0, 2), st.sampled_from(["look", "look", "write", "restart", "away", "cut"]))


@settings(max_examples=cases(30), deadline=None)
@given(st.lists(st.tuples(steps, st.lists(acts, max_size=4)), max_size=12))
def test_api_servers_trust_every_replica_that_looks(
    history: list[tuple[timedelta, list[tuple[int, str]]]],
) -> None:
    """Whatever the steps of injectors (two may think that they are elected), of restarts and of lost connections."""
    installed = Installed()
    installed.reconcile()
    api, clock = installed.api, installed.clock
    replicas, injectors = [Replica(api, clock) for _ in range(3)], [installed.injector, Issuing(api, clock)]
    for step, happens in history:
        clock.now += step
        for number, act in happens:
            if act == "restart":
                replicas[number] = Replica(api, clock)
                injectors[number % 2] = Issuing(api, clock)
            writes = number % 2 if act in ("write", "away", "cut") else None
            api.before = {"away": unreachable, "cut": after(number + 2)}.get(act, lambda _verb, _path: None)
            _quietly(replicas[number].reconcile if writes is None else injectors[writes].reconcile)
        api.before = lambda _verb, _path: None
        injectors[0].reconcile()
        injectors[0].reconcile()  # the second one, where two were at it at once
        assert all(trusts(api, replica.reconcile(), clock.now) for replica in replicas)


def after(requests: int) -> Callable[[str, str], None]:
    """The API server is away after so many requests."""
    left = [requests]

    def before(verb: str, path: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            unreachable(verb, path)

    return before


def _quietly(run: Callable[[], object]) -> None:
    with contextlib.suppress(ObjectApiError, BadSecret):
        run()
