"""caBundle in both webhook configurations."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from forewarn.webhook.apiserver.typed_client import ObjectApiError
from forewarn.webhook.controllers.certificate_authority import PATHS, Registration, token_of
from forewarn.webhook.x509 import Authority
from tests.webhook.fake_api import FakeApi, unreachable

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


KEY = "ab" * 32
OTHER_KEY = "cd" * 32
NAMES = (("/mutate", "0"), ("/validate", "0"), ("/validate", "1"))


def tokens(key: str = KEY) -> list[str]:
    return [token_of(key, path, name) for path, name in NAMES]


def told(key: str = KEY) -> list[str]:
    """The paths that API servers are told."""
    return [f"{path}/{token_of(key, path, name)}" for path, name in NAMES]


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


def test_a_token_of_its_own_is_written_at_the_end_of_every_path() -> None:
    api = called()
    looks = Registration(api)
    assert looks.reconcile() == frozenset()
    assert not looks.grants
    looks.reconcile(CA, KEY)
    assert paths(api) == told()
    assert len({*tokens()}) == len(NAMES)
    assert [*looks.grants] == tokens()
    api.calls.clear()
    looks.reconcile(CA, KEY)
    assert {verb for verb, _ in api.calls} == {"get"}


def test_a_token_of_another_key_is_replaced_and_without_a_key_the_path_is_left() -> None:
    api = called(*(f"{path}/{'cd' * 32}" for path in ("/mutate", "/validate")))
    looks = Registration(api)
    looks.reconcile(CA)
    assert paths(api) == [f"{path}/{'cd' * 32}" for path, _ in NAMES]
    looks.reconcile(CA, KEY)
    assert paths(api) == told()
    looks.reconcile(CA, OTHER_KEY)
    assert paths(api) == told(OTHER_KEY)
    api = called()
    Registration(api).reconcile(CA)
    assert paths(api) == ["/mutate", "/validate", "/validate"]


def test_where_there_is_no_path_it_is_written_with_the_token_or_before_there_is_one() -> None:
    """The manifests name none, so that to apply them again changes nothing."""
    api = called("", "")
    looks = Registration(api)
    looks.reconcile()
    assert (paths(api), looks.grants) == (["", "", ""], {})
    looks.reconcile(CA)
    assert paths(api) == ["/mutate", "/validate", "/validate"]
    for given in ("", None):
        for configuration in PATHS:
            for webhook in api.objects[configuration]["webhooks"]:
                webhook["clientConfig"]["service"] = {"name": "forewarn"} | ({} if given is None else {"path": given})
        looks.reconcile(CA, KEY)
        assert paths(api) == told()
        assert [*looks.grants] == tokens()


def test_where_a_webhook_has_no_token_none_is_asked_for() -> None:
    looks = Registration(called(validate=f"/validate/{'cd' * 32}"))
    looks.reconcile()
    assert not looks.grants


@pytest.mark.parametrize(
    ("policy", "resource", "is_shown"),
    [
        ("Ignore", "namespaces", False),
        ("Fail", "namespaces", True),
        (None, "pods", True),
        ("Fail", "priorityclasses", False),
    ],
)
def test_a_token_that_requesters_can_read_is_good_for_less(policy: str | None, resource: str, is_shown: bool) -> None:
    api = called()
    group = "scheduling.k8s.io" if resource == "priorityclasses" else ""
    for path in PATHS:
        for webhook in api.objects[path]["webhooks"]:
            webhook |= {"rules": [{"apiGroups": [group], "resources": [resource]}]}
            webhook |= {"failurePolicy": policy} if policy else {}
    looks = Registration(api)
    looks.reconcile(CA, KEY)
    for grant in looks.grants.values():
        assert grant.is_shown is is_shown
        assert grant.covers(group, resource, "")
        assert grant.covers(group, resource, "status") is (policy == "Ignore"), "what its rules gain later, too"


def test_a_webhook_that_is_called_by_its_url_or_by_another_path_gets_no_token() -> None:
    api = registered("")
    hooks = [{"url": "https://example.com/validate"}, {"service": {"name": "x", "path": "/x/validate"}}]
    api.put(PATHS[1], {"webhooks": [{"name": str(n), "clientConfig": config} for n, config in enumerate(hooks)]})
    looks = Registration(api)
    looks.reconcile(CA, KEY)
    assert not looks.grants
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


@pytest.mark.parametrize("uid", [None, "", 5])
def test_a_namespace_without_a_uid_is_no_owner(uid: Any) -> None:
    api = registered("")
    Registration(api).own({"metadata": {"name": "forewarn", "uid": uid}})
    assert not api.calls


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
