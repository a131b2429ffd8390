"""A replica and the CA injector, while an API server misbehaves: what they keep, and what they say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.webhook.apiserver.typed_client import ObjectApi, ObjectApiError
from forewarn.webhook.controllers.certificate_authority import PATHS
from forewarn.webhook.controllers.leases import CLASSES, ELECTION_SECONDS
from tests.webhook.controllers.test_replica import PLACE, Injecting, Replica, installed
from tests.webhook.fake_api import FakeApi
from tests.webhook.informer.test_misbehaviour import HALF, IMPATIENT, cut, hang, hang_in_the_body, status
from tests.webhook.scripted_api import Handler, ScriptedApi, client, kubeconfig, scripted_api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ANSWERS: dict[str, tuple[Callable[[Handler], None], str]] = {
    "no answer": (hang, "does not answer"),
    "no end": (hang_in_the_body, "was cut off"),
    "internal error": (status(500), "as played (500)"),
    "too many requests": (status(429, Retry_After="9" * 40), "as played (429)"),
    "gone": (status(410), "as played (410)"),
    "redirect": (status(307, b"elsewhere", Location="/"), "elsewhere (307)"),
    "half of the bytes": (cut(b"200 OK\r\nContent-Length: 999", HALF), "was cut off"),
    "half of the JSON": (status(200, HALF), "is not JSON"),
    "a Status": (status(200), "sent another object"),
    "another object": (status(200, b'{"metadata":{"name":"other"}}'), "sent another object"),
    "an empty object": (status(200, b"{}"), "sent another object"),
    "a list": (status(200, b"[]"), "is not a JSON object"),
    "nothing": (status(200, b" "), "is not JSON"),
}


def stored(fake: FakeApi, path: str, handler: Handler) -> None:
    handler.answer(200, fake.objects[path])


@pytest.fixture
def fake() -> FakeApi:
    """The objects of an installation, with a certificate."""
    made = installed()
    Injecting(made).injector.reconcile()
    return made


@pytest.fixture
def api(fake: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    with scripted_api() as scripted:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", scripted.url)))
        heal(scripted, fake)
        yield scripted


def heal(api: ScriptedApi, fake: FakeApi) -> None:
    api.routes |= {("GET", path): partial(stored, fake, path) for path in fake.objects}


def fail(api: ScriptedApi, play: Callable[[Handler], None]) -> None:
    api.routes |= dict.fromkeys([*api.routes, ("GET", CLASSES)], play)


def replica() -> Replica:
    return Replica(ObjectApi(client(IMPATIENT), IMPATIENT))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_replica_keeps_its_certificate_and_its_callers_and_a_new_one_says_why_it_waits(
    name: str, api: ScriptedApi, fake: FakeApi
) -> None:
    play, why = ANSWERS[name]
    old, new = replica(), replica()
    old.upkeep.reconcile()
    assert old.upkeep.fault() == ""
    before: tuple[Any, ...] = old.contexts.certificate, old.upkeep.grants()
    fail(api, play)
    for each in (old, new):
        each.clock.now += 3600
        each.upkeep.reconcile()
    assert (old.contexts.certificate, old.upkeep.grants()) == before
    assert old.upkeep.fault() == ""
    assert why in new.upkeep.fault()
    heal(api, fake)
    new.upkeep.reconcile()
    assert new.upkeep.fault() == ""


@pytest.mark.parametrize("name", ANSWERS)
def test_no_answer_about_classes_passes_for_one_without_a_global_default(name: str, api: ScriptedApi) -> None:
    play, why = ANSWERS[name]
    fail(api, play)
    with pytest.raises(ObjectApiError) as raised:
        list(replica().upkeep.reservations._defaults())
    assert why in str(raised.value)


@pytest.mark.parametrize("failing", [PLACE.authorities, PLACE.serving, *PATHS])
def test_the_ca_injector_says_what_fails_writes_nothing_and_goes_on(failing: str, fake: FakeApi) -> None:
    injecting = Injecting(fake)
    injecting.injector.reconcile()

    def before(verb: str, path: str) -> None:
        if path == failing:
            raise ObjectApiError(f"{verb} {path}: too many requests (429)")

    fake.before = before
    fake.calls.clear()
    for _ in range(20):
        injecting.clock.now += 5
        injecting.injector.reconcile()
    assert "too many requests (429)" in injecting.injector.fault()
    assert not [call for call in fake.calls if call[0] == "replace" and "leases" not in call[1]]
    fake.before = lambda _verb, _path: None
    injecting.clock.now += 2 * ELECTION_SECONDS
    injecting.injector.reconcile()
    assert injecting.injector.fault() == ""
