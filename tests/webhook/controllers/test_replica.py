"""What is looked after in a cluster, all together: by replicas and by the CA injector."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.objects.priority_class import PriorityClass
from forewarn.webhook.admission.decide import DefaultCandidate
from forewarn.webhook.admission.review import Callers
from forewarn.webhook.apiserver.typed_client import Forbidden
from forewarn.webhook.controllers.certificate_authority import (
    MAX_REACTIONS,
    PATHS,
    CaInjector,
    Installation,
    Registration,
)
from forewarn.webhook.controllers.leases import CLASSES, GlobalDefaults
from forewarn.webhook.controllers.replica import ReplicaControllers
from forewarn.webhook.http.asgi import Rereads
from forewarn.webhook.http.tls import SwappingContext
from forewarn.webhook.metrics import Metrics
from forewarn.webhook.x509 import Authority, self_signed
from tests.webhook.builders import body, cluster, deployment, endpoint, pod, priority_class
from tests.webhook.commands.test_reloading import value_of
from tests.webhook.fake_api import LEASE, WRITER, FakeApi, unreachable
from tests.webhook.running import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.webhook.x509 import Certificate

PLACE = Installation("forewarn", "replica-0")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Replica:
    def __init__(self, api: FakeApi, state: ClusterSnapshot | None = None) -> None:
        self.contexts, self.clock, self.metrics = SwappingContext(self_signed(datetime.now(UTC))), Clock(), Metrics()
        self.upkeep = ReplicaControllers(api, PLACE, self.metrics, self.contexts, lambda: state, self.clock)

    def value(self, name: str) -> str:
        return value_of(self.metrics, name)


class Injecting:
    """A CA injector."""

    def __init__(self, api: FakeApi, identity: str = "ca-injector-0") -> None:
        self.clock, self.metrics, self.beats = Clock(), Metrics(), 0
        self.injector = CaInjector(api, Installation("forewarn", identity), self.metrics, self._beat, self.clock)

    def _beat(self) -> None:
        self.beats += 1

    def value(self, name: str) -> str:
        return value_of(self.metrics, name)


def installed() -> FakeApi:
    api = FakeApi(LEASE, WRITER, PLACE.authorities, PLACE.serving)
    api.put(PLACE.path, {}, "uid-of-the-namespace")
    for path in PATHS:
        api.put(path, {"webhooks": [{"name": "a", "clientConfig": {}}]})
    return api


def reachable(_verb: str, _path: str) -> None:
    """As always."""


def test_a_replica_is_ready_once_api_servers_trust_it_and_not_before() -> None:
    api = installed()
    first, second = Replica(api), Replica(api)
    assert "not trust the certificate: not checked yet" in first.upkeep.fault()
    api.before = unreachable
    first.upkeep.reconcile()
    assert "connection refused" in first.upkeep.fault()
    api.before = reachable
    first.upkeep.reconcile()
    assert "forewarn-serving-cert is empty; wait for forewarn-ca-injector" in first.upkeep.fault()
    Injecting(api).injector.reconcile()
    for replica in (first, second):
        replica.upkeep.reconcile()
        assert replica.upkeep.fault() == ""
        assert replica.contexts.certificate.ca in (Registration(api).reconcile() or ())
    assert first.contexts.certificate == second.contexts.certificate
    assert float(first.value("forewarn_ca_expiry_timestamp_seconds")) > time.time()


def test_a_replica_whose_ca_is_not_in_the_configurations_says_so() -> None:
    api = installed()
    Injecting(api).injector.reconcile()
    api.put(PATHS[1], {"webhooks": [{"name": "a", "clientConfig": {}}]})
    replica = Replica(api)
    replica.upkeep.reconcile()
    assert "do not contain its CA" in replica.upkeep.fault()


def test_a_replica_writes_nothing_but_the_lease_of_the_default() -> None:
    api = installed()
    Injecting(api).injector.reconcile()
    api.calls.clear()
    replica = Replica(api, cluster(*(priority_class(n, 1, globalDefault=True) for n in "ab")))
    assert replica.upkeep.reservations.reserve(DefaultCandidate("normal", "create u"), 3) == ""
    replica.upkeep.reconcile()
    assert {path for verb, path in api.calls if verb != "get"} == {LEASE}


def test_a_ready_replica_stays_ready_while_the_injector_and_the_api_server_are_away() -> None:
    api = installed()
    Injecting(api).injector.reconcile()
    replica = Replica(api)
    replica.upkeep.reconcile()
    api.before = unreachable
    replica.clock.now += 11
    replica.upkeep.reconcile()
    assert replica.upkeep.fault() == ""
    assert replica.value('forewarn_background_task_failures_total{task="certificate"}') == "1.0"


def test_of_two_injectors_one_is_elected_and_the_other_takes_over_after_silence() -> None:
    api = installed()
    first, second = Injecting(api), Injecting(api, "ca-injector-1")
    assert first.injector.fault() == "not checked yet"
    first.injector.reconcile()
    api.calls.clear()
    second.injector.reconcile()
    assert {path for _, path in api.calls} == {WRITER}
    assert (first.value("forewarn_ca_injector_leader"), second.value("forewarn_ca_injector_leader")) == ("1.0", "0.0")
    assert first.injector.fault() == second.injector.fault() == ""
    second.clock.now += 31
    second.injector.reconcile()
    assert second.value("forewarn_ca_injector_leader") == "1.0"
    assert first.beats == 3


def test_a_bundle_that_somebody_overwrites_is_written_again_at_the_next_look() -> None:
    api = installed()
    injecting = Injecting(api)
    injecting.injector.reconcile()
    before = Registration(api).reconcile()
    api.put(PATHS[1], {"webhooks": [{"name": "a", "clientConfig": {}}, {"name": "b", "clientConfig": {}}]})
    injecting.clock.now += 5
    injecting.injector.reconcile()
    assert Registration(api).reconcile() == before != frozenset()


def called() -> FakeApi:
    """An installation whose webhooks are called by paths."""
    api = installed()
    apply(api, *PATHS)
    return api


def apply(api: FakeApi, *paths: str) -> None:
    """As an installer applies configurations that do not exist: without a CA and token."""
    for path in paths:
        service = {"name": "forewarn", "path": "/mutate" if path == PATHS[0] else "/validate"}
        api.put(path, {"webhooks": [{"name": "a", "failurePolicy": "Ignore", "clientConfig": {"service": service}}]})


def reset(api: FakeApi) -> None:
    """As an installer does it: the paths are what is shipped."""
    for path in PATHS:
        service = api.objects[path]["webhooks"][0]["clientConfig"]["service"]
        service["path"] = "/" + service["path"].split("/")[1]


def token_of(api: FakeApi) -> str:
    return str(api.objects[PATHS[1]]["webhooks"][0]["clientConfig"]["service"]["path"])[len("/validate/") :]


def test_a_new_installation_tells_api_servers_a_token_at_once_and_replicas_know_it() -> None:
    api = called()
    Injecting(api).injector.reconcile()
    replica = Replica(api)
    replica.upkeep.reconcile()
    assert re.fullmatch("[0-9a-f]{64}", token_of(api))
    assert token_of(api) in replica.upkeep.grants()
    assert len(replica.upkeep.grants()) == 2, "each webhook has its own"


def test_replicas_of_a_version_without_tokens_are_not_called_by_one_while_an_upgrade_may_last() -> None:
    api = called()
    Injecting(api).injector.reconcile()
    reset(api)
    del api.objects[PLACE.serving]["data"]["token-key"]
    api.put(WRITER, {})
    upgraded = Injecting(api, "upgraded")
    for seconds, told in ((100, False), (190, False), (20, True)):
        upgraded.clock.now += seconds
        upgraded.injector.reconcile()
        assert bool(token_of(api)) is told


@pytest.mark.parametrize("restarted", [False, True])
def test_a_token_that_an_installer_took_out_is_written_in_again_and_is_the_same(restarted: bool) -> None:
    """An upgrade does both: it writes the path that is shipped, and starts another injector."""
    api = called()
    injecting = Injecting(api)
    injecting.injector.reconcile()
    token = token_of(api)
    reset(api)
    if restarted:
        injecting = Injecting(api)
        injecting.injector.reconcile()
    injecting.injector.reconcile()
    assert token_of(api) == token
    after = Injecting(api)
    after.injector.reconcile()
    assert token_of(api) == token, "another injector keeps what is there"


def test_the_namespace_is_made_the_owner_of_the_configurations() -> None:
    api = installed()
    Injecting(api).injector.reconcile()
    for path in PATHS:
        (owner,) = api.objects[path]["metadata"]["ownerReferences"]
        assert owner == {"apiVersion": "v1", "kind": "Namespace", "name": "forewarn", "uid": "uid-of-the-namespace"}


def test_an_injector_that_may_not_set_an_owner_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """OwnerReferencesPermissionEnforcement wants the right to delete, which it has not."""
    api = installed()

    injecting = Injecting(api)

    def enforced(verb: str, path: str) -> None:
        if verb == "get" and path == PLACE.path:
            api.before = forbidden

    def forbidden(verb: str, _path: str) -> None:
        if verb == "replace":
            raise Forbidden("cannot set an ownerRef on a resource you can't delete")

    api.before = enforced
    injecting.injector.reconcile()
    api.before = reachable
    assert injecting.injector.fault() == ""
    assert "cannot set the owner" in caplog.text
    assert Registration(api).reconcile()


def test_an_injector_sets_the_ca_as_soon_as_a_configuration_is_applied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then, API servers cannot call the webhook: `x509: certificate signed by unknown authority`."""
    monkeypatch.setattr("forewarn.webhook.controllers.certificate_authority.CHECK_SECONDS", 3600)
    api = called()
    injecting = Injecting(api)
    thread = Thread(target=injecting.injector.run)
    thread.start()
    try:
        for _ in range(3):
            _until(lambda: all("caBundle" in api.objects[path]["webhooks"][0]["clientConfig"] for path in PATHS))
            for path in PATHS:
                api.delete(path)
            apply(api, *PATHS)
    finally:
        injecting.injector.stop()
        thread.join(5)


def test_an_injector_reacts_to_a_program_that_reverts_its_writes_at_a_bounded_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = installed()
    injecting = Injecting(api)
    injector = injecting.injector

    class Stop(Event):
        """Instead of waiting, time passes, and the other program reverts the write, which the watch reports."""

        def wait(self, timeout: float | None = None) -> bool:
            injecting.clock.now += timeout or 0.0
            apply(api, *PATHS)
            if injecting.clock.now > 120:
                injector.stop()
            return False

    def reported(verb: str, _: str) -> None:
        if verb == "replace":
            injector._changes.put(None)

    injector._stop, api.before = Stop(), reported
    injector._changes.put(None)
    monkeypatch.setattr("forewarn.webhook.controllers.certificate_authority.watch", lambda *_: None)
    injector.run()
    assert 100 < sum(call == ("replace", PATHS[0]) for call in api.calls) < 3 * MAX_REACTIONS


def test_an_injector_that_is_told_to_stop_resigns() -> None:
    api = installed()
    injecting = Injecting(api)
    thread = Thread(target=injecting.injector.run)
    thread.start()
    _until(lambda: "holderIdentity" in api.objects[WRITER].get("spec", {}))
    injecting.injector.stop()
    thread.join(5)
    assert "holderIdentity" not in api.objects[WRITER]["spec"]


def test_what_an_injector_cannot_do_is_said_and_ends() -> None:
    api = installed()
    kept = api.put(PLACE.authorities, {"data": {"tls.crt": "!"}})
    injecting = Injecting(api)
    injecting.injector.reconcile()
    assert "certificates: the Secret's tls.crt: " in injecting.injector.fault()
    assert injecting.value('forewarn_background_task_failures_total{task="certificates"}') == "1.0"
    api.put(PLACE.authorities, {**kept, "data": {}})
    injecting.injector.reconcile()
    assert injecting.injector.fault() == ""


def test_one_task_that_fails_does_not_keep_others_from_being_done() -> None:
    api = installed()

    def without_lease(verb: str, path: str) -> None:
        if path == LEASE:
            unreachable(verb, path)

    api.before = without_lease
    api.put(PLACE.serving, {"data": {"tls.crt": "!"}})
    replica = Replica(api, state=cluster(priority_class("a", 1, globalDefault=True)))
    replica.upkeep.reconcile()
    assert "remove all of the Secret's data" in replica.upkeep.fault()
    assert replica.value('forewarn_background_task_failures_total{task="global default reservation"}') == "1.0"
    assert replica.value('forewarn_background_task_failures_total{task="certificate"}') == "1.0"
    assert replica.value("forewarn_global_defaults") == "1.0"


def test_a_defect_in_a_task_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    api = installed()

    def broken(_verb: str, _path: str) -> None:
        raise RuntimeError("a fault of ours")

    api.before = broken
    replica = Replica(api)
    replica.upkeep.reconcile()
    assert "a fault of ours" in caplog.text
    assert "RuntimeError" in replica.upkeep.fault()


def test_a_replica_whose_certificate_expires_while_it_cannot_be_checked_is_not_ready() -> None:
    api, clock = FakeApi(LEASE), Clock()
    upkeep = from_files(api, self_signed(datetime.now(UTC)), clock)
    upkeep.reconcile()
    api.before = unreachable
    clock.now, upkeep._now = 3600.0, lambda: datetime.now(UTC) + timedelta(days=4000)
    upkeep.reconcile()
    assert upkeep.fault().startswith("API servers do not trust the certificate: expired at ")


def from_files(api: FakeApi, certificate: Certificate, clock: Clock) -> ReplicaControllers:
    contexts = SwappingContext(certificate)
    return ReplicaControllers(api, PLACE, Metrics(), contexts, lambda: None, clock, from_files=True)


def test_where_certificates_are_somebody_elses_matter_no_secret_is_read() -> None:
    api = FakeApi(LEASE)
    upkeep = from_files(api, self_signed(datetime.now(UTC)), Clock())
    upkeep.reconcile()
    assert upkeep.fault() == ""
    assert {path for _, path in api.calls} == {LEASE, *PATHS}


@pytest.mark.parametrize(
    ("names", "bundle", "service", "why"),
    [
        (("forewarn.forewarn.svc",), "its own", True, ""),
        (("*.forewarn.svc",), "its own", True, ""),
        (("forewarn.forewarn.svc",), "", True, ""),
        (("forewarn.forewarn.svc",), "another", True, "not signed by a CA of caBundle"),
        (("forewarn.forewarn.svc",), "another", False, ""),
        (("a.example",), "its own", True, "valid for a.example, not for forewarn.forewarn.svc, which API servers call"),
    ],
)
def test_a_replica_with_a_certificate_from_files_is_ready_if_api_servers_trust_it(
    names: tuple[str, ...], bundle: str, service: bool, why: str
) -> None:
    """An empty caBundle and a URL prove nothing: a system CA, or a proxy that terminates TLS."""
    now, api, clock = datetime.now(UTC), FakeApi(LEASE), Clock()
    authority = Authority.make(now)
    ca = {"its own": authority, "another": Authority.make(now)}.get(bundle)
    client: dict[str, Any] = {"caBundle": base64.b64encode(ca.certificate).decode()} if ca else {}
    client |= {"service": {"name": "forewarn", "namespace": "forewarn"}} if service else {"url": "https://a.example"}
    for path in PATHS:
        api.put(path, {"webhooks": [{"name": "a", "clientConfig": client}]})
    upkeep = from_files(api, replace(authority.sign(now, names), ca=b""), clock)
    upkeep.reconcile()
    assert upkeep.fault() == (f"API servers do not trust the certificate: {why}" if why else "")


def test_a_replica_with_files_is_ready_without_permission_to_read_the_configurations() -> None:
    api = FakeApi(LEASE)

    def forbidden(_verb: str, path: str) -> None:
        if path in PATHS:
            raise Forbidden(path)

    api.before = forbidden
    upkeep = from_files(api, self_signed(datetime.now(UTC)), Clock())
    upkeep.reconcile()
    assert upkeep.fault() == ""


def test_a_ready_replica_that_api_servers_no_longer_trust_is_not_ready_once_no_injector_repairs_it() -> None:
    api = installed()
    Injecting(api).injector.reconcile()
    replica = Replica(api)
    replica.upkeep.reconcile()
    kept = api.objects[PATHS[1]]
    api.put(PATHS[1], {"webhooks": [{"name": "a", "clientConfig": {}}]})
    told = []
    for seconds in (11, 11, 11):
        replica.clock.now += seconds
        replica.upkeep.reconcile()
        told.append(replica.upkeep.fault())
    assert told[:2] == ["", ""], "an injector restores the CA within seconds"
    assert told[2] == "API servers do not trust the certificate: the webhook configurations do not contain its CA"
    api.put(PATHS[1], kept)
    replica.upkeep.reconcile()
    assert replica.upkeep.fault() == ""


def test_the_thread_frees_the_place_soon_after_the_class_came_by_the_watch() -> None:
    api = installed()
    Injecting(api).injector.reconcile()
    upkeep = Replica(api).upkeep
    end = upkeep.start()
    try:
        _until(lambda: not upkeep.fault())
        assert upkeep.reservations.reserve(DefaultCandidate("normal", "create u"), 3) == ""
        stored = api.put(f"{CLASSES}/normal", {"globalDefault": True}, "u")
        upkeep.reservations.seen(stored)
        _until(lambda: "holderIdentity" not in api.objects[LEASE]["spec"], 0.9)
    finally:
        end()


def _until(condition: object, seconds: float = 60) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_two_defaults_are_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    metrics, told = Metrics(), "multiple global default PriorityClasses"
    two = {name: PriorityClass(name, value, True) for name, value in (("a", 5), ("b", 3))}
    looks = GlobalDefaults(metrics)
    for _ in range(2):
        looks.reconcile(two)
    assert value_of(metrics, "forewarn_global_defaults") == "2.0"
    (record,) = [record for record in caplog.records if told in record.getMessage()]
    assert record.levelname == "ERROR"
    looks.reconcile({"a": two["a"]})
    looks.reconcile(two)
    assert len([record for record in caplog.records if told in record.getMessage()]) == 2


def deleted(api: FakeApi, injecting: Injecting, look: Callable[[], None], path: str) -> None:
    """A configuration is deleted and applied again, and the replica looks in between."""
    api.delete(path)
    look()
    apply(api, path)
    injecting.injector.reconcile()


def applied_in_turn(api: FakeApi, injecting: Injecting, look: Callable[[], None], path: str) -> None:
    """Both are deleted; one of them is applied and complete when the replica looks, the other one comes then."""
    for other in PATHS:
        api.delete(other)
    apply(api, *{*PATHS} - {path})
    injecting.injector.reconcile()
    look()
    apply(api, path)
    injecting.injector.reconcile()


def other_key(api: FakeApi, injecting: Injecting, look: Callable[[], None], path: str) -> None:
    """The Secret with the key of the tokens is emptied while no injector runs."""
    look()
    api.put(PLACE.serving, {})
    api.put(WRITER, {})
    for other in PATHS:
        api.delete(other)
    apply(api, *PATHS)
    Injecting(api, "restarted").injector.reconcile()


def overwritten(api: FakeApi, injecting: Injecting, look: Callable[[], None], path: str) -> None:
    """An installer writes the path without its token, and no injector runs."""
    look()
    reset(api)


@pytest.mark.parametrize("path", PATHS, ids=["mutating", "validating"])
@pytest.mark.parametrize("change", [deleted, applied_in_turn, other_key, overwritten])
def test_no_request_is_answered_without_the_rules_whatever_became_of_the_configurations(
    change: Callable[[FakeApi, Injecting, Callable[[], None], str], None], path: str
) -> None:
    """A Deployment preempted two Pods without a warning: the replica did not know the caller's token yet."""
    api = called()
    injecting = Injecting(api)
    injecting.injector.reconcile()
    upkeep = Replica(api).upkeep
    upkeep.reconcile()
    change(api, injecting, upkeep.read_again, path)
    callers = Callers(grants=upkeep.grants, read_again=upkeep.read_again)
    with running(endpoint(callers=callers)) as server:
        for given in PATHS:
            address = api.objects[given]["webhooks"][0]["clientConfig"]["service"]["path"]
            obj, evaluated = (pod("gold"), "patch") if given == PATHS[0] else (deployment("nothing"), "warnings")
            assert evaluated in json.loads(server.post(address, body(obj))[2])["response"]
        assert value_of(server.endpoint.metrics, "forewarn_unauthenticated_requests_total") == "0.0"


def test_unknown_callers_share_a_read_that_begins_after_their_requests() -> None:
    async def ask() -> None:
        reads = list[asyncio.Future[bool]]()

        async def read() -> bool:
            reads.append(asyncio.get_running_loop().create_future())
            return await reads[-1]

        async def begun(count: int) -> list[asyncio.Task[bool]]:
            asked = [asyncio.create_task(rereads.next()) for _ in range(5)]
            for _ in range(10):
                await asyncio.sleep(0)
            assert len(reads) == count
            return asked

        rereads = Rereads(read, 0)
        early, late = await begun(1), await begun(1)
        reads[0].set_result(True)
        assert await asyncio.gather(*early) == [True] * 5
        assert await begun(2)
        assert not any(task.done() for task in late)
        reads[1].set_result(False)
        assert await asyncio.gather(*late) == [False] * 5
        reads[2].cancel()

    asyncio.run(ask())
