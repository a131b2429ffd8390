"""Lists, watches and credentials, over the kubernetes client's transport, against a server that plays tricks."""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import yaml

from forewarn.policies.cli.commands.cluster_command import add_context_options, use_kubeconfig
from forewarn.policies.cli.commands.completion import options_of
from forewarn.policies.cli.commands.parser import Parser
from forewarn.policies.cli.main import COMMANDS
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.kinds.registry import KINDS
from forewarn.policies.kubernetes.objects.extent import retained_part
from forewarn.policies.kubernetes.objects.fields import InvalidObject, group_kind
from forewarn.policies.kubernetes.objects.workload import LAST_APPLIED
from forewarn.webhook.apiserver.client import (
    ApiError,
    ApiServer,
    Connection,
    Expired,
    HttpCall,
    Silent,
    Timeouts,
    connect,
    context_and_user,
)
from forewarn.webhook.apiserver.typed_client import LiveClasses
from forewarn.webhook.http.tls import Demands, server_context
from forewarn.webhook.x509 import self_signed
from tests.webhook.builders import namespace, pod, priority_class
from tests.webhook.scripted_api import BY_NAME, QUICK, Handler, ScriptedApi, client, kubeconfig, scripted_api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PODS, NODES, CLASSES = BY_NAME["pods"], BY_NAME["nodes"], BY_NAME["priorityclasses"]
SOON = Timeouts(connect=2, read=0.1, total=2)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    with scripted_api() as scripted:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", scripted.url)))
        yield scripted


def numbered(count: int) -> list[dict[str, Any]]:
    return [pod("gold", 1000, name=f"p{number}") for number in range(count)]


def raw(data: bytes) -> Callable[[Handler], None]:
    """Play these bytes, and close the connection."""

    def play(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(data)

    return play


def test_every_kind_that_the_cache_takes_is_listed_at_its_place() -> None:
    for resource in KINDS:
        obj = {"apiVersion": resource.api_version, "kind": resource.kind}
        assert group_kind(obj) == resource.group_kind
        try:
            assert Cache().add({**obj, "metadata": {"name": "x"}})
        except InvalidObject:
            assert resource.kind in ("CSIStorageCapacity", "VolumeAttachment", "Pod", "PriorityClass")
    assert PODS.path == "/api/v1/pods"
    assert CLASSES.path == "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert (PODS.name, BY_NAME["jobs"].name) == ("pods", "jobs.batch")


def test_a_list_comes_in_pages_with_kind_filled_in_and_without_what_nobody_reads(api: ScriptedApi) -> None:
    for obj in numbered(7):
        notes = {LAST_APPLIED: "{}", "forewarn.dev/x": "y"}
        obj["metadata"] |= {"managedFields": [{"manager": "kubectl"}], "annotations": notes}
        api.put(obj)
    pages = list(client().pages(PODS, 3))
    assert [len(page.objects) for page in pages] == [3, 3, 1]
    assert {page.resource_version for page in pages} == {"107"}
    for obj in (obj for page in pages for obj in page.objects):
        assert (obj["apiVersion"], obj["kind"]) == ("v1", "Pod")
        assert "managedFields" not in obj["metadata"]
        assert obj["metadata"]["annotations"] == {"forewarn.dev/x": "y"}
    assert api.asked("list", "pods") == [{"limit": "3"}, *({"limit": "3", "continue": c} for c in ("3", "6"))]


@pytest.mark.parametrize(("keep", "kept"), [(None, {LAST_APPLIED}), (retained_part, set())])
def test_the_annotation_of_kubectl_apply_is_kept_of_workloads_of_which_nothing_is_reduced(
    keep: Any, kept: set[str], api: ScriptedApi
) -> None:
    metadata = {"name": "web", "namespace": "team", "annotations": {LAST_APPLIED: "{}"}}
    api.put({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})
    (page,) = ApiServer(connect, keep=keep).pages(BY_NAME["deployments"], 3)
    assert page.objects[0]["metadata"]["annotations"].keys() == kept


def test_without_a_limit_all_comes_at_once(api: ScriptedApi) -> None:
    for obj in numbered(7):
        api.put(obj)
    [page] = client().pages(PODS, 0)
    assert len(page.objects) == 7
    assert api.asked("list", "pods") == [{}]


@pytest.mark.parametrize(("method", "repeats"), [("GET", 1), ("POST", 0), ("PUT", 0), ("PATCH", 0), ("DELETE", 0)])
def test_only_what_changes_nothing_is_sent_again(method: str, repeats: int) -> None:
    """A connection that was kept may be closed as it is used again: whether the request arrived is not known then."""
    sent: list[HttpCall] = []

    class Kept:
        def open(self, call: HttpCall) -> NoReturn:
            sent.append(call)
            raise ApiError(0, "closed")

    with pytest.raises(ApiError):
        ApiServer(Kept).ask(method, "/api/v1/pods", body={})  # type: ignore[arg-type]
    assert [call.repeats for call in sent] == [repeats]


def test_a_request_is_sent_again_as_often_as_it_says() -> None:
    import urllib3

    class Pool:
        def __init__(self) -> None:
            self.sent = 0

        def request(self, *_: object, **__: object) -> NoReturn:
            self.sent += 1
            raise urllib3.exceptions.ProtocolError("Connection aborted.")

    class Settings:
        host = "http://127.0.0.1:1"

        def auth_settings(self) -> dict[str, Any]:
            return {}

    for repeats in (0, 1):
        pool = Pool()
        with pytest.raises(ApiError):
            Connection(Settings(), pool).open(HttpCall("PUT", "/", {}, {}, QUICK, None, repeats))
        assert pool.sent == 1 + repeats


def test_an_expired_list_raises_unless_it_need_not_be_consistent(api: ScriptedApi) -> None:
    for obj in numbered(5):
        api.put(obj)
    expired = {"kind": "Status", "code": 410, "message": "too old", "metadata": {"continue": "2"}}
    first: Callable[[Handler], None] = lambda handler: handler.answer(200, api.page(PODS, {"limit": "2"}))  # noqa: E731
    gone: Callable[[Handler], None] = lambda handler: handler.answer(410, expired)  # noqa: E731
    api.script("list", "pods", first, gone)
    with pytest.raises(Expired):
        list(client().pages(PODS, 2))
    api.script("list", "pods", first, gone)
    pages = list(client().pages(PODS, 2, consistent=False))
    assert [obj["metadata"]["name"] for page in pages for obj in page.objects] == ["p0", "p1", "p2", "p3", "p4"]
    api.script("list", "pods", api.reject(410))
    with pytest.raises(Expired):
        list(client().pages(PODS, 2, consistent=False))


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (403, {"kind": "Status", "message": 'pods is forbidden: User "x" cannot list'}, "cannot list (403)"),
        (401, {"kind": "Status", "message": "Unauthorized"}, "Unauthorized (401)"),
        (404, b"404 page not found\n", "404 page not found (404)"),
        (500, b"", "no reason given (500)"),
        (502, b"<html>\n  a   proxy\xff</html>", "<html> a proxy\ufffd</html> (502)"),
        (302, b"elsewhere", "elsewhere (302)"),
        (200, b"", "the response is not JSON: b''"),
        (200, b"<html>", "the response is not JSON: b'<html>'"),
        (200, b"[" * 100_000, "the response is not JSON"),
        (200, [], "the response is not a JSON object"),
        (200, {}, "the response for pods is not a list of objects"),
        (200, {"items": {}}, "the response for pods is not a list of objects"),
        (200, {"items": [5]}, "the response for pods is not a list of objects"),
    ],
)
def test_what_is_no_list_is_an_error_that_says_what_it_is(
    status: int, body: object, says: str, api: ScriptedApi
) -> None:
    api.script("list", "pods", lambda handler: handler.answer(status, body))
    with pytest.raises(ApiError) as raised:
        list(client().pages(PODS))
    assert says in str(raised.value)
    assert raised.value.status == (status if status != 200 else 0)
    assert raised.value.rejected == (status in (401, 403))


def test_null_items_are_an_empty_list(api: ScriptedApi) -> None:
    api.script("list", "pods", lambda handler: handler.answer(200, {"items": None, "metadata": {}}))
    [page] = client().pages(PODS)
    assert page.objects == []


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", "the response was cut off: ProtocolError"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", "the response was cut off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n\r\nabc", "the response was cut off"),
        (b"nonsense\r\n\r\n", "does not answer"),
        (b"", "does not answer: ('Connection aborted.'"),
    ],
)
def test_an_answer_that_breaks_off_is_an_error(head: bytes, says: str, api: ScriptedApi) -> None:
    api.script("list", "pods", *[raw(head)] * 2)
    with pytest.raises(ApiError) as raised:
        list(client().pages(PODS))
    assert says in str(raised.value)
    assert "0x" not in str(raised.value)


def test_a_connection_that_was_closed_meanwhile_is_no_error(api: ScriptedApi) -> None:
    api.script("list", "pods", raw(b""))
    assert next(iter(client().pages(PODS))).objects == []


def test_a_server_that_hangs_is_not_waited_for(api: ScriptedApi) -> None:
    api.script("list", "pods", api.hang)
    with pytest.raises(ApiError, match="does not answer: timed out"):
        list(client(SOON).pages(PODS))
    assert len(api.asked("list", "pods")) == 1


def test_an_answer_that_drips_is_not_waited_for(api: ScriptedApi) -> None:
    def drip(handler: Handler) -> None:
        handler.start_chunks()
        for _ in range(100):
            handler.chunk(b" ")

    api.script("list", "pods", drip)
    seconds = iter(range(0, 10_000, 10))
    slow = ApiServer(connect, Timeouts(5, 5, 60), lambda: float(next(seconds)))
    with pytest.raises(ApiError, match="the response is too slow"):
        list(slow.pages(PODS))


def test_nobody_there_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", "http://127.0.0.1:1")))
    with pytest.raises(ApiError, match=r"^http://127.0.0.1:1 does not answer: .*Connection refused$"):
        client().get("/version")


def test_a_server_may_ask_to_be_left_alone(api: ScriptedApi) -> None:
    api.script("list", "pods", api.reject(429, Retry_After="7"), api.reject(429, Retry_After="soon"))
    for seconds in (7, 0):
        with pytest.raises(ApiError) as raised:
            list(client().pages(PODS))
        assert raised.value.retry_after == seconds


def test_a_change_is_sent_as_json_with_the_content_type_that_was_asked_for(api: ScriptedApi) -> None:
    answer = client().ask("PATCH", "/api/v1/x", body={"a": 1}, content_type="application/merge-patch+json")
    assert answer.object == {"patched": {"a": 1}}
    assert api.requests[0][3]["Content-Type"] == "application/merge-patch+json"


# Watches


def watching(api: ScriptedApi, silence: float = 5, clock: Callable[[], float] | None = None) -> Any:
    server = ApiServer(connect, QUICK, clock) if clock else client()
    return server.watch(PODS, "100", 30, silence)


def test_events_come_as_they_are_sent_and_the_end_is_the_end(api: ScriptedApi) -> None:
    watch = watching(api)
    stream = api.stream("pods")
    assert stream.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "100",
        "timeoutSeconds": "30",
    }
    one = pod(name="one", resourceVersion="101", managedFields=[{}])
    stream.send("ADDED", one)
    stream.lines.put(b"\n\r\n")
    two = json.dumps({"type": "DELETED", "object": pod(name="zwö", resourceVersion="102")}, ensure_ascii=False).encode()
    both = two + b"\n" + two
    for start in range(0, len(both), 7):
        stream.lines.put(both[start : start + 7])
    stream.lines.put(b"\n")
    stream.bookmark("200")
    stream.end()
    added, *deleted, bookmark = list(watch)
    assert added.type == "ADDED"
    assert added.object["metadata"]["name"] == "one"
    assert "managedFields" not in added.object["metadata"]
    assert [event.object["metadata"]["name"] for event in deleted] == ["zwö", "zwö"]
    assert [event.resource_version for event in (added, *deleted, bookmark)] == ["101", "102", "102", "200"]


@pytest.mark.parametrize(
    "line",
    [
        b"garbage\n",
        b"\xff\xfe\n",
        b"null\n",
        b"[]\n",
        b"{}\n",
        b'{"type": "ADDED"}\n',
        b'{"type": "ADDED", "object": []}\n',
        b'{"type": "ADDED", "object": null}\n',
        b'{"type": ["ADDED"], "object": {}}\n',
        b'{"type": "CHANGED", "object": {}}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_garbage_on_a_watch_is_an_error(line: bytes, api: ScriptedApi) -> None:
    watch = watching(api)
    api.stream("pods").lines.put(line)
    with pytest.raises(ApiError, match="the watch sent"):
        next(iter(watch))


def test_metadata_of_the_wrong_type_is_left_to_whoever_reads_the_object(api: ScriptedApi) -> None:
    watch = watching(api)
    api.stream("pods").send("ADDED", {"metadata": []})
    assert next(iter(watch)).resource_version == ""


def test_an_error_event_is_raised_as_what_it_tells(api: ScriptedApi) -> None:
    for code, kind in ((410, Expired), (500, ApiError)):
        watch = watching(api)
        api.stream("pods", len(api.streams["pods"]) - 1).error(code)
        with pytest.raises(kind) as raised:
            list(watch)
        assert raised.value.status == code
    api.script("watch", "pods", api.reject(410))
    with pytest.raises(Expired):
        watching(api)


def test_a_stream_that_is_cut_is_an_error_and_one_cut_in_a_line_too(api: ScriptedApi) -> None:
    watch = watching(api)
    api.stream("pods").cut()
    with pytest.raises(ApiError, match="the watch was cut off"):
        list(watch)
    watch = watching(api)
    api.stream("pods", 1).lines.put(b'{"type": "ADDED", "obj')
    api.stream("pods", 1).end()
    with pytest.raises(ApiError, match="in the middle of an event"):
        list(watch)


def test_a_stream_on_which_nothing_comes_is_dead(api: ScriptedApi) -> None:
    with pytest.raises(Silent):
        list(watching(api, silence=0.1))


def test_a_stream_that_drips_without_ever_ending_a_line_is_dead(api: ScriptedApi) -> None:
    seconds = iter(range(0, 10_000, 10))
    watch = watching(api, 60, lambda: float(next(seconds)))
    for _ in range(100):
        api.stream("pods").lines.put(b" ")
    with pytest.raises(Silent, match="no complete watch event"):
        list(watch)


def test_an_endless_line_is_not_kept(api: ScriptedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.webhook.apiserver.client.MAX_LINE", 100)
    watch = watching(api)
    for _ in range(30):
        api.stream("pods").lines.put(b"x" * 10)
    with pytest.raises(ApiError, match="more than 100 bytes"):
        list(watch)


def test_a_watch_is_ended_from_another_thread(api: ScriptedApi) -> None:
    watch = watching(api, silence=20)
    seen: list[Any] = []
    thread = Thread(target=lambda: seen.extend(watch))
    thread.start()
    api.stream("pods").send("ADDED", pod(resourceVersion="1"))
    watch.close()
    thread.join(5)
    assert not thread.is_alive()
    assert len(seen) <= 1


# Who asks, and whom


def bearer(api: ScriptedApi) -> list[str]:
    return [headers["Authorization"] for *_, headers in api.requests]


def test_the_token_is_sent(api: ScriptedApi) -> None:
    list(client().pages(PODS))
    assert bearer(api) == ["Bearer secret"]
    assert api.requests[0][3]["User-Agent"] == "forewarn"


def test_after_a_401_the_kubeconfig_is_read_again_but_not_all_the_time(
    api: ScriptedApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    server = ApiServer(connect, QUICK, lambda: now[0]).open()
    kubeconfig(tmp_path / "config", api.url, {"token": "renewed"})
    api.script("list", "pods", *[api.reject(401)] * 2)
    for now[0] in (1, 11):
        with pytest.raises(ApiError, match="401"):
            list(server.pages(PODS))
    list(server.pages(PODS))
    assert bearer(api) == ["Bearer secret", "Bearer secret", "Bearer renewed"]


AS_DEV = {
    "as": "dév",
    "as-uid": "7",
    "as-groups": ["a", "b"],
    "as-user-extra": {"example.org/Reason%": ["x", "y"]},
}


def _impersonation(api: ScriptedApi) -> list[tuple[str, str]]:
    """The headers as bytes on the wire, in UTF-8."""
    list(ApiServer(connect, QUICK).pages(PODS))
    items = api.requests[-1][3].items()
    return [(key, value.encode("latin-1").decode()) for key, value in items if key.startswith("Impersonate-")]


@pytest.mark.parametrize(
    ("user", "line", "headers"),
    [
        ({}, "", []),
        (
            AS_DEV,
            "",
            [
                *[("User", "dév"), ("Uid", "7"), ("Group", "a"), ("Group", "b")],
                *[("Extra-example.org%2FReason%25", "x"), ("Extra-example.org%2FReason%25", "y")],
            ],
        ),
        ({"as": "dev"}, "--as ops --as-group a,b --as-group c --as-uid 8",
         [("User", "ops"), ("Uid", "8"), ("Group", "a,b"), ("Group", "c")]),
        ({"as": "dev", "as-groups": ["a"]}, "--as ops", [("User", "ops"), ("Group", "a")]),
        ({"as": "dev"}, "--as-group a", [("User", "dev"), ("Group", "a")]),
    ],
)  # fmt: skip
def test_the_user_of_the_kubeconfig_or_the_options_is_impersonated(
    user: dict[str, Any], line: str, headers: list[tuple[str, str]], api: ScriptedApi, tmp_path: Path
) -> None:
    kubeconfig(tmp_path / "config", api.url, {"token": "secret", **user})
    with _impersonating(line):
        assert _impersonation(api) == [(f"Impersonate-{key}", value) for key, value in headers]
    assert bearer(api) == ["Bearer secret"]


@contextmanager
def _impersonating(line: str) -> Iterator[None]:
    parser = Parser()
    add_context_options(parser.add_argument)
    use_kubeconfig(parser.parse_args(line.split()))
    try:
        yield
    finally:
        use_kubeconfig(parser.parse_args([]))


@pytest.mark.parametrize(
    ("user", "says"),
    [
        ({"as-groups": ["a"]}, "without a user"),
        ({"as-uid": "7"}, "without a user"),
        ({"as": ["dev"]}, "has a wrong type"),
        ({"as": "dev", "as-groups": "a"}, "has a wrong type"),
        ({"as": "dev", "as-user-extra": {"a": "b"}}, "has a wrong type"),
    ],
)
def test_nobody_else_is_asked_as_if_the_user_to_impersonate_is_invalid(
    user: dict[str, Any], says: str, api: ScriptedApi, tmp_path: Path
) -> None:
    kubeconfig(tmp_path / "config", api.url, {"token": "secret", **user})
    with pytest.raises(ApiError, match=says):
        list(ApiServer(connect, QUICK).pages(PODS))
    assert api.requests == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_with_a_kubeconfig_impersonates(name: str) -> None:
    options = options_of(COMMANDS[name])
    assert ("--kubeconfig" in options) is ("--as" in options)


def test_another_context_is_another_server(api: ScriptedApi) -> None:
    assert connect("there")._base == "http://127.0.0.1:1"
    assert connect("here")._base == connect()._base == api.url


@pytest.mark.parametrize("current", [None, "", "gone"])
def test_a_named_context_needs_no_current_one(current: str | None, api: ScriptedApi, tmp_path: Path) -> None:
    document = yaml.safe_load((tmp_path / "config").read_text()) | {"current-context": current}
    if current is None:
        del document["current-context"]
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    assert context_and_user("") == ("", "")
    assert connect("here")._base == api.url
    with pytest.raises(ApiError, match=r'context "nowhere" not found in .*; known: here, there'):
        connect("nowhere")


def test_without_a_home_there_is_no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as a user of whom nothing is known."""

    def nobody(*_: object) -> NoReturn:
        raise KeyError("getpwuid(): uid not found")

    for variable in ("KUBECONFIG", "HOME", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    monkeypatch.setattr("pwd.getpwnam", nobody)
    for given in ("", "~/config", "~nobody-of-that-name/config"):
        monkeypatch.setenv("KUBECONFIG", given)
        with pytest.raises(ApiError, match="no kubeconfig found"):
            connect()


def test_a_kubeconfig_with_excessive_aliases_is_not_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    (path := tmp_path / "config").write_text(f"a0: &a0 [x]\n{levels}kind: Config\nclusters: *a8\n")
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(ApiError, match=r"cannot use the kubeconfig .*: document contains excessive aliasing"):
        connect()


@pytest.mark.parametrize(
    ("context", "document", "says"),
    [
        ("nowhere", None, 'context "nowhere" not found in {path}; known: here, there'),
        ("", "", "cannot use the kubeconfig {path}"),
        ("", "[", "cannot use the kubeconfig {path}"),
        ("", "a: b", "cannot use the kubeconfig {path}"),
        ("", "junk", "cannot use the kubeconfig {path}"),
        ("", "{contexts: 5, clusters: [], users: {}}", "cannot use the kubeconfig {path}"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(
    context: str, document: str | None, says: str, api: ScriptedApi, tmp_path: Path
) -> None:
    if document is not None:
        (tmp_path / "config").write_text(document)
    with pytest.raises(ApiError) as raised:
        connect(context)
    assert says.replace("{path}", str(tmp_path / "config")) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_without_a_kubeconfig_and_outside_of_a_pod_there_is_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ApiError, match="no kubeconfig found"):
        connect()


def test_a_pod_without_its_service_account_is_not_told_of_a_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", "/nowhere/token")
    with pytest.raises(ApiError) as raised:
        connect()
    assert str(raised.value).startswith("cannot use the Pod's service account: Service token file does not exist")
    assert "automountServiceAccountToken" in str(raised.value)


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "kubernetes", None)
    with pytest.raises(ApiError, match=r"kubernetes is not installed; install forewarn with the extra `live`"):
        connect()


def test_tls_is_verified_by_the_ca_of_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, other = self_signed(datetime.now(UTC)), self_signed(datetime.now(UTC))
    with scripted_api(server_context(certificate)) as api:
        path = tmp_path / "config"
        monkeypatch.setenv("KUBECONFIG", str(path))
        given: tuple[dict[str, Any], ...] = (
            {"certificate-authority-data": b64encode(certificate.ca).decode()},
            {"insecure-skip-tls-verify": True},
        )
        for cluster in given:
            kubeconfig(path, api.url, cluster=cluster)
            assert next(iter(client().pages(PODS))).objects == []
        kubeconfig(path, api.url, cluster={"certificate-authority-data": b64encode(other.ca).decode()})
        with pytest.raises(ApiError, match=r"does not answer: .*certificate verify failed"):
            list(client().pages(PODS))


def test_a_pod_asks_the_cluster_it_runs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = self_signed(datetime.now(UTC))
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("of the account")
    ca.write_bytes(certificate.ca)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    for name, path in (("TOKEN", token), ("CERT", ca)):
        monkeypatch.setattr(f"kubernetes.config.incluster_config.SERVICE_{name}_FILENAME", str(path))
    with scripted_api(server_context(certificate, Demands(ssl.TLSVersion.TLSv1_2))) as api:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", api.url.rpartition(":")[2])
        list(client().pages(PODS))
        assert bearer(api) == ["bearer of the account"]


# Live classes


def test_the_live_classes_are_asked_for_anew_each_time(api: ScriptedApi) -> None:
    live = LiveClasses(client())
    assert live().keys() == {"system-cluster-critical", "system-node-critical"}
    api.put(priority_class("gold", 1000))
    assert live()["gold"].value == 1000
    assert len(api.asked("list", "priorityclasses")) == 2


def test_after_a_failure_the_live_classes_are_left_alone_for_a_second(api: ScriptedApi) -> None:
    now = [0.0]
    live = LiveClasses(client(), lambda: now[0])
    api.script("list", "priorityclasses", api.reject(500))
    for now[0] in (0, 0.9):
        with pytest.raises(ApiError, match="500"):
            live()
    assert len(api.asked("list", "priorityclasses")) == 1
    now[0] = 1.0
    assert live()


def test_a_class_that_cannot_be_read_confirms_nothing(api: ScriptedApi) -> None:
    api.put({**priority_class("gold", 1000), "value": "much"})
    with pytest.raises(ApiError, match="value: must be an integer"):
        LiveClasses(client())()


def test_objects_of_every_page_are_those_of_the_server(api: ScriptedApi) -> None:
    api.put(namespace("team"))
    [page] = client().pages(BY_NAME["namespaces"])
    assert page.objects[0]["kind"] == "Namespace"
