"""One object at a time from an API server, and what goes wrong by type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from forewarn.webhook.apiserver.client import Answer, ApiServer
from forewarn.webhook.apiserver.client import ApiError as ServerError
from forewarn.webhook.apiserver.typed_client import TIMEOUTS, Conflict, Forbidden, NotFound, ObjectApi, ObjectApiError
from tests.webhook.scripted_api import Stream, client, kubeconfig, scripted_api

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Server(ApiServer):
    """Answers with what it was asked, or with a fault."""

    def __init__(self, fault: ServerError | None = None) -> None:
        self.fault = fault

    def ask(  # type: ignore[override]
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None, **more: Any
    ) -> Answer:
        assert more == {"timeouts": TIMEOUTS}
        if self.fault:
            raise self.fault
        return Answer({"metadata": {"name": "a"}, "asked": (method, path, body)})


def test_each_verb_is_its_method() -> None:
    api: ObjectApi = ObjectApi(Server())
    assert api.get("/a")["asked"] == ("GET", "/a", None)
    assert api.create("/a", {"b": 1})["asked"] == ("POST", "/a", {"b": 1})
    assert api.replace("/a", {"b": 1})["asked"] == ("PUT", "/a", {"b": 1})


@pytest.mark.parametrize(
    ("status", "type_"),
    [(401, Forbidden), (403, Forbidden), (404, NotFound), (409, Conflict), (500, ObjectApiError), (0, ObjectApiError)],
)
def test_errors_have_types_and_say_which_request(status: int, type_: type[ObjectApiError]) -> None:
    with pytest.raises(ObjectApiError, match="GET /a: out of order") as raised:
        ObjectApi(Server(ServerError(status, "out of order"))).get("/a")
    assert type(raised.value) is type_


def test_an_object_is_watched_by_its_path_whatever_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group, resource = "admissionregistration.k8s.io", "validatingwebhookconfigurations"
    with scripted_api() as api:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", api.url)))
        stream = Stream({})
        stream.send("ADDED", {"apiVersion": f"{group}/v1", "kind": "ValidatingWebhookConfiguration"})
        stream.end()
        api.script("watch", resource, lambda handler: handler.play(stream))
        assert len(list(ObjectApi(client()).watch(f"/apis/{group}/v1/{resource}/forewarn"))) == 1
        [query] = api.asked("watch", resource)
        assert query["fieldSelector"] == "metadata.name=forewarn"
