"""caBundle in both webhook configurations."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.webhook.fake_api import FakeApi, unreachable
from webhook.apiserver.object_api import ObjectApiError
from webhook.controllers.registration import PATHS, Registration
from webhook.x509 import Authority

CA = Authority.make(datetime(2030, 1, 1, tzinfo=UTC)).certificate
OTHER = Authority.make(datetime(2030, 1, 1, tzinfo=UTC)).certificate


def registered(*bundles: str) -> FakeApi:
    api = FakeApi()
    webhooks: list[dict[str, Any]] = [
        {"name": f"{number}.forewarn.dev", "failurePolicy": "Ignore", "clientConfig": {"service": {}, "caBundle": text}}
        for number, text in enumerate(bundles)
    ]
    for path in PATHS:
        api.put(path, {"webhooks": webhooks})
    return api


def encoded(*certificates: bytes) -> str:
    return base64.b64encode(b"".join(certificates)).decode()


def test_the_bundle_is_written_into_every_webhook_and_nothing_else_is_changed() -> None:
    api = registered("", "bm9uc2Vuc2U=", "?")
    assert Registration(api).reconcile() == frozenset()
    assert Registration(api).reconcile(CA + OTHER) == frozenset({CA, OTHER})
    for path in PATHS:
        for number, webhook in enumerate(api.objects[path]["webhooks"]):
            assert webhook == {
                "name": f"{number}.forewarn.dev",
                "failurePolicy": "Ignore",
                "clientConfig": {"service": {}, "caBundle": encoded(CA, OTHER)},
            }


def test_what_is_right_is_not_written_again() -> None:
    api = registered(encoded(CA))
    assert Registration(api).reconcile(CA) == frozenset({CA})
    assert {verb for verb, _ in api.calls} == {"get"}


def test_what_all_trust_is_what_each_of_them_trusts() -> None:
    assert Registration(registered(encoded(CA, OTHER), encoded(CA))).reconcile() == frozenset({CA})


def test_configurations_that_were_taken_away_are_let_be() -> None:
    assert Registration(FakeApi()).reconcile(CA) is None
    api = registered("")
    api.delete(PATHS[0])
    assert Registration(api).reconcile(CA) == frozenset({CA})
    assert PATHS[0] not in api.objects


TOKEN = "ab" * 32


def called(mutate: str = "/mutate", validate: str = "/validate") -> FakeApi:
    api = registered("")
    for path, each in zip(PATHS, ((mutate,), (validate, validate)), strict=True):
        hooks = [
            {"name": str(number), "clientConfig": {"service": {"name": "forewarn", "path": called}}}
            for number, called in enumerate(each)
        ]
        api.put(path, {"webhooks": hooks})
    return api


def paths(api: FakeApi) -> list[str]:
    return [webhook["clientConfig"]["service"]["path"] for path in PATHS for webhook in api.objects[path]["webhooks"]]


def test_the_token_is_written_at_the_end_of_every_path() -> None:
    api = called()
    looks = Registration(api)
    assert looks.reconcile() == frozenset()
    assert not looks.tokens
    looks.reconcile(CA, TOKEN)
    assert paths(api) == [f"/mutate/{TOKEN}", f"/validate/{TOKEN}", f"/validate/{TOKEN}"]
    assert looks.tokens == (TOKEN,)
    api.calls.clear()
    looks.reconcile(CA, TOKEN)
    assert {verb for verb, _ in api.calls} == {"get"}


def test_a_token_that_is_there_stays_and_without_one_to_write_the_path_is_left() -> None:
    other = "cd" * 32
    api = called(f"/mutate/{other}", f"/validate/{other}")
    looks = Registration(api)
    looks.reconcile(CA, TOKEN)
    assert looks.tokens == (other,)
    api = called()
    Registration(api).reconcile(CA)
    assert paths(api) == ["/mutate", "/validate", "/validate"]


def test_where_there_is_no_path_it_is_written_with_the_token_or_before_there_is_one() -> None:
    """The manifests name none, so that to apply them again changes nothing."""
    api = called("", "")
    looks = Registration(api)
    looks.reconcile()
    assert (paths(api), looks.tokens) == (["", "", ""], ())
    looks.reconcile(CA)
    assert paths(api) == ["/mutate", "/validate", "/validate"]
    for given in ("", None):
        for configuration in PATHS:
            for webhook in api.objects[configuration]["webhooks"]:
                webhook["clientConfig"]["service"] = {"name": "forewarn"} | ({} if given is None else {"path": given})
        looks.reconcile(CA, TOKEN)
        assert paths(api) == [f"/mutate/{TOKEN}", f"/validate/{TOKEN}", f"/validate/{TOKEN}"]
        assert looks.tokens == (TOKEN,)


def test_where_not_all_webhooks_tell_the_same_token_none_is_asked_for() -> None:
    for api in (called(validate=f"/validate/{TOKEN}"), called(f"/mutate/{TOKEN}", f"/validate/{'cd' * 32}")):
        looks = Registration(api)
        looks.reconcile()
        assert not looks.tokens


def test_a_webhook_that_is_called_by_its_url_or_by_another_path_gets_no_token() -> None:
    api = registered("")
    hooks = [{"url": "https://example.com/validate"}, {"service": {"name": "x", "path": "/x/validate"}}]
    api.put(PATHS[1], {"webhooks": [{"name": str(n), "clientConfig": config} for n, config in enumerate(hooks)]})
    looks = Registration(api)
    looks.reconcile(CA, TOKEN)
    assert not looks.tokens
    first, second = (webhook["clientConfig"] for webhook in api.objects[PATHS[1]]["webhooks"])
    assert first.keys() == {"url", "caBundle"}
    assert second["service"]["path"] == "/x/validate"


NAMESPACE = {"metadata": {"name": "forewarn", "uid": "n-1"}}
OWNER = {"apiVersion": "v1", "kind": "Namespace", "name": "forewarn", "uid": "n-1"}
OTHER_OWNER = {"apiVersion": "example.com/v1", "kind": "Platform", "name": "forewarn", "uid": "p-1"}


def test_the_namespace_becomes_the_owner_beside_others_and_once() -> None:
    api = registered("")
    api.put(PATHS[0], {**api.objects[PATHS[0]], "metadata": {"ownerReferences": [OTHER_OWNER]}})
    Registration(api).own(NAMESPACE)
    assert api.objects[PATHS[0]]["metadata"]["ownerReferences"] == [OTHER_OWNER, OWNER]
    assert api.objects[PATHS[1]]["metadata"]["ownerReferences"] == [OWNER]
    api.calls.clear()
    Registration(api).own(NAMESPACE)
    assert {verb for verb, _ in api.calls} == {"get"}


def test_a_namespace_that_was_made_anew_takes_the_place_of_the_former_one() -> None:
    api = registered("")
    Registration(api).own({"metadata": {"name": "forewarn", "uid": "n-0"}})
    Registration(api).own(NAMESPACE)
    assert api.objects[PATHS[0]]["metadata"]["ownerReferences"] == [OWNER]


def test_configurations_that_were_taken_away_get_no_owner() -> None:
    api = registered("")
    api.delete(PATHS[0])
    Registration(api).own(NAMESPACE)
    assert PATHS[0] not in api.objects
    assert api.objects[PATHS[1]]["metadata"]["ownerReferences"] == [OWNER]


def test_a_change_in_between_is_not_overwritten() -> None:
    api = registered("")

    def meddled(verb: str, path: str) -> None:
        if verb == "replace":
            api.before = lambda _verb, _path: None
            api.put(path, {"webhooks": [{"name": "new", "clientConfig": {}}]})

    api.before = meddled
    assert Registration(api).reconcile(CA) == frozenset()
    assert Registration(api).reconcile(CA) == frozenset({CA})
    assert "new" in {api.objects[path]["webhooks"][0]["name"] for path in PATHS}


def test_an_api_server_that_cannot_be_asked_is_an_error() -> None:
    api = registered("")
    api.before = unreachable
    with pytest.raises(ObjectApiError):
        Registration(api).reconcile(CA)
