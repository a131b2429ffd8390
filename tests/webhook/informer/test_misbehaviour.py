"""An API server that misbehaves: what forewarn says and holds meanwhile, how often it asks, and that it recovers."""

from __future__ import annotations

import errno
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from forewarn.webhook.apiserver import client
from forewarn.webhook.apiserver.client import MAX_RETRY_AFTER, ApiError, ApiServer, Expired, ListAgain, Timeouts
from forewarn.webhook.apiserver.client import connect as by_kubeconfig
from forewarn.webhook.informer.informer import Backoff, ClusterState, Informer, Outlets, Pace, Reflector
from tests.webhook.builders import OBJECTS, deployment, pod
from tests.webhook.informer.test_informer import until
from tests.webhook.informer.test_reflector import PODS, Played, bookmark, event, page
from tests.webhook.scripted_api import BY_NAME, Handler, ScriptedApi, kubeconfig, scripted_api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NOW = Pace(watch=300, silence=0.5, least=0.001, longest=0.01, relist=0.01)
IMPATIENT = Timeouts(connect=2, read=0.3, total=0.6)
P = {f"p{number}" for number in range(5)}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.setattr(client, "MAX_LINE", 1 << 20)
    with scripted_api() as scripted:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", scripted.url)))
        for obj in (*OBJECTS, deployment(), *(pod("gold", 1000, name=name) for name in sorted(P))):
            scripted.put(obj)
        yield scripted


@contextmanager
def followed() -> Iterator[Informer]:
    informer = Informer(ApiServer(by_kubeconfig, IMPATIENT), (BY_NAME["priorityclasses"], PODS), NOW).start()
    try:
        yield informer
        assert all(thread.is_alive() for thread in informer._threads)
    finally:
        informer.stop()
        assert not any(thread.is_alive() for thread in informer._threads)


def pods(informer: Informer) -> set[str]:
    state = informer.cluster()
    return set() if state is None else {name for _, name in state.pods}


def status(code: int, body: bytes = b"", **headers: str) -> Callable[[Handler], None]:
    body = body or json.dumps({"kind": "Status", "code": code, "message": "as played"}).encode()
    return lambda handler: handler.answer(code, body, **headers)


def answer(**changes: Any) -> Callable[[Handler], None]:
    """The list of Pods, with these fields changed; `metadata` is added to."""

    def play(handler: Handler) -> None:
        full = handler.server.api.page(PODS, {})
        handler.answer(200, {**full, **changes, "metadata": {**full["metadata"], **changes.get("metadata", {})}})

    return play


def cut(head: bytes, body: bytes) -> Callable[[Handler], None]:
    """These bytes, and the end of the connection."""

    def play(handler: Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 " + head + b"\r\n\r\n" + body)

    return play


def hang(handler: Handler) -> None:
    handler.server.api.hang(handler)


def hang_in_the_body(handler: Handler) -> None:
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"kind": ')
    hang(handler)


def pages_without_end(handler: Handler) -> None:
    answer(metadata={"continue": "5"})(handler)


def expires_after_the_first_page(handler: Handler) -> None:
    first = "continue" not in handler.path and "limit" in handler.path
    (answer(metadata={"continue": "5"}) if first else status(410))(handler)


HALF = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"p0"'
LISTS = {
    "gone": (status(410), "as played"),
    "gone after the first page": (expires_after_the_first_page, "as played"),
    "too many requests": (status(429, Retry_After="0"), "as played"),
    "internal error": (status(500), "as played"),
    "internal error, explained at length": (status(500, b"<p>" * 100_000), "no reason given"),
    "internal error, explanation cut off": (cut(b"500 Oops\r\nContent-Length: 99", b"oh"), "no reason given"),
    "gone, explained at length": (status(410, b"<p>" * 100_000), "no reason given"),
    "redirect": (status(302, b"elsewhere", Location="/api/v1/pods"), "elsewhere"),
    "no answer": (hang, "does not answer: "),
    "no end": (hang_in_the_body, "the response was cut off: ReadTimeoutError"),
    "no status line": (cut(b"", b""), "does not answer"),
    "half of the JSON": (status(200, HALF), "the response is not JSON"),
    "half of the bytes": (cut(b"200 OK\r\nContent-Length: 999", HALF), "the response was cut off"),
    "half a chunk": (cut(b"200 OK\r\nTransfer-Encoding: chunked", b"fff\r\n" + HALF), "the response was cut off"),
    "half of the pages": (answer(metadata={"remainingItemCount": 7}), "ended before its last page"),
    "the same page again and again": (pages_without_end, "does not go on after a page"),
    "empty pages": (answer(items=[], metadata={"continue": "1"}), "does not go on after a page"),
    "no version": (answer(metadata={"resourceVersion": ""}), "has no resourceVersion"),
    "a list of another kind": (answer(kind="NodeList"), "is a list of another kind"),
    "objects of another kind": (answer(items=[{"kind": "Node", "metadata": {"name": "n"}}]), "object of another kind"),
    "objects of another group": (answer(items=[{"apiVersion": "metrics.k8s.io/v1", "kind": "Pod"}]), "another kind"),
    "a Status": (status(200), "is not a list of objects"),
    "no list": (status(200, b"[]"), "is not a JSON object"),
    "no items": (answer(items={}), "is not a list of objects"),
    "garbage": (status(200, b"\0\xff<html>"), "the response is not JSON"),
    "nothing": (status(200, b" "), "the response is not JSON"),
    "nested deeply": (status(200, b'{"items":' + b"[" * 100_000), "the response is not JSON"),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_fails_keeps_a_replica_unready_and_readyz_says_why(name: str, api: ScriptedApi) -> None:
    play, why = LISTS[name]
    api.always["list", "pods"] = play
    with followed() as informer:
        until(lambda: "not listed yet" not in informer.fault(60) and len(api.asked("list", "pods")) > 3)
        assert informer.fault(60).startswith("cluster state not synced: pods (")
        assert why in informer.fault(60)
        assert len(informer.fault(60)) < 1_500
        assert informer.cluster() is None
        del api.always["list", "pods"]
        assert informer.wait(60)
        assert informer.fault(60) == ""
        assert pods(informer) == P


def lines(*parts: bytes | dict[str, Any], is_complete: bool = True) -> Callable[[Handler], None]:
    """A watch with these lines, which the server then ends; `is_complete`: in order."""

    def play(handler: Handler) -> None:
        handler.start_chunks()
        for part in parts:
            handler.chunk(part if isinstance(part, bytes) else json.dumps(part).encode() + b"\n")
        if is_complete:
            handler.wfile.write(b"0\r\n\r\n")
        handler.close_connection = True

    return play


def sent(kind: str, obj: object) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def silent(handler: Handler) -> None:
    handler.start_chunks()
    hang(handler)


OLD = sent("DELETED", pod(name="p1", resourceVersion="3"))
NEW = sent("ADDED", pod(name="p0", resourceVersion="5000"))
WATCHES = {
    "gone": status(410),
    "gone, explained at length": status(410, b"<p>" * 100_000),
    "gone at once": lines(sent("ERROR", {"code": 410, "message": "too old resource version"})),
    "gone after an event": lines(NEW, sent("ERROR", {"code": 410, "message": "too old resource version"})),
    "internal error": status(500),
    "internal error at once": lines(sent("ERROR", {"code": 500, "message": "mvcc: revision has been compacted"})),
    "invalid version": status(400),
    "not found": status(404),
    "too many requests": status(429, Retry_After="0"),
    "redirect": status(301, Location="/"),
    "no answer": hang,
    "no events": silent,
    "empty": lines(),
    "blank lines": lines(b"\n\n \n"),
    "cut off": lines(is_complete=False),
    "an old event": lines(OLD),
    "an event, then an old one": lines(NEW, OLD),
    "an old bookmark": lines(sent("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "1"}})),
    "another kind": lines(sent("DELETED", {**pod(name="p1", resourceVersion="5000"), "kind": "Node"})),
    "a Status": lines({"kind": "Status", "code": 500}),
    "an unknown type": lines(sent("GONE", pod(name="p1", resourceVersion="5000"))),
    "no object": lines(sent("DELETED", None)),
    "no JSON": lines(b"\0\xff<html>\n"),
    "half a line": lines(json.dumps(NEW).encode()[:50]),
    "a huge line": lines(*[b"x" * 65_536] * 40),
    "nested deeply": lines(b"[" * 100_000 + b"\n"),
}


@pytest.mark.parametrize("name", WATCHES)
def test_while_a_watch_fails_lists_keep_the_state_right(name: str, api: ScriptedApi) -> None:
    with followed() as informer:
        opened = api.stream("pods")
        assert informer.wait(60)
        api.always["watch", "pods"] = WATCHES[name]
        del api.objects["pods"]["team", "p3"]
        api.put(pod(name="fresh"))
        opened.end()
        until(lambda: pods(informer) == (P | {"fresh"}) - {"p3"})
        assert informer.fault(60) == ""
        api.put(pod(name="fresher"))
        until(lambda: pods(informer) == (P | {"fresh", "fresher"}) - {"p3"})
        before = len(api.streams["pods"])
        del api.always["watch", "pods"]
        api.stream("pods", before).send("ADDED", api.put(pod(name="freshest")))
        until(lambda: "freshest" in pods(informer))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EADDRNOTAVAIL])
def test_without_sockets_the_state_stays_and_with_them_it_follows_again(
    number: int, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with followed() as informer:
        opened = api.stream("pods")
        assert informer.wait(60)
        reflector = next(item for item in informer._reflectors if item.resource == PODS)
        with monkeypatch.context() as patch:
            patch.setattr("urllib3.util.connection.create_connection", connect)
            opened.cut()
            until(lambda: os.strerror(number) in str(reflector.fault))
            assert pods(informer) == P
        api.put(pod(name="fresh"))
        until(lambda: pods(informer) == P | {"fresh"})


class Server(Played):
    """An API server that answers every list and every watch alike, on a virtual clock."""

    def __init__(self, of_lists: list[Any], of_watches: list[Any]) -> None:
        super().__init__([], [])
        self._of_lists, self._of_watches = of_lists, of_watches

    def pages(self, resource: object, limit: int = 0) -> Iterator[Any]:
        self.lists.append(self._of_lists)
        return super().pages(resource, limit)  # type: ignore[arg-type]

    def watch(self, *arguments: Any) -> Any:
        self.watches.append(self._of_watches)
        return super().watch(*arguments)

    def run(self, seconds: float) -> ClusterState:
        """Follow the Pods for so long; returns the state."""
        state = ClusterState((PODS,), clock=lambda: self.now)
        outlets = Outlets(state.take, lambda *_: None, self._pass, lambda: self.now)
        reflector = Reflector(self, PODS, outlets, Backoff(lambda: 1.0))
        until_ = self.now + seconds
        while self.now < until_:
            self._pass(reflector.step())
            self.now += 0.01
        return state

    def _pass(self, seconds: float) -> bool:
        self.now += seconds
        return False


class Rate(NamedTuple):
    """What an API server answers for an hour, and what it may cost and result in."""

    lists: list[Any]
    watches: list[Any]
    most_lists: int
    most_watches: int
    is_stale: bool


CUT, BUSY, GONE = ApiError(0, "cut"), ApiError(500, "busy"), Expired(410, "gone")
ODD = ListAgain(0, "garbage")
OK = [page("a")]
HOUR = 3600.0
RATES = {
    "lists fail": Rate([BUSY], [], 750, 0, True),
    "lists expire": Rate([page("a"), GONE], [], 750, 0, True),
    "lists break off": Rate([page("a"), CUT], [], 750, 0, True),
    "lists take a minute and break off": Rate([page("a"), 60.0, CUT], [], 60, 0, True),
    "watches expire": Rate(OK, [GONE], 130, 130, False),
    "watches expire after an event": Rate(OK, [event("ADDED", "a", "11"), GONE], 130, 130, False),
    "watches expire after a second": Rate(OK, [event("ADDED", "a", "11"), 1.0, GONE], 130, 130, False),
    "watches go backwards": Rate(OK, [event("DELETED", "a", "2")], 130, 130, False),
    "watches bring garbage": Rate(OK, [ODD], 130, 130, False),
    "watches fail": Rate(OK, [BUSY], 45, 800, False),
    "watches break off": Rate(OK, [CUT], 45, 800, False),
    "watches are empty": Rate(OK, [], 45, 800, False),
    "watches are empty for a while": Rate(OK, [10.0], 45, 300, False),
    "watches bring bookmarks": Rate(OK, [bookmark("11"), 59.0, bookmark("11"), 59.0], 1, 35, False),
}


@pytest.mark.parametrize("name", RATES)
def test_an_api_server_that_fails_for_an_hour_is_asked_at_a_bounded_rate(name: str) -> None:
    rate = RATES[name]
    server = Server(rate.lists, rate.watches)
    state = server.run(HOUR)
    counts = [sum(call[0] == verb for call in server.calls) for verb in ("list", "watch")]
    assert counts[0] <= rate.most_lists
    assert counts[1] <= rate.most_watches
    assert (state.ages()[PODS] > 120) is rate.is_stale


def test_a_state_that_lists_and_watches_no_longer_confirm_becomes_stale() -> None:
    """Both answer: lists with their first page, watches with nothing."""
    server = Server(OK, [])
    server.run(1.0)
    state = ClusterState((PODS,), clock=lambda: server.now)
    outlets = Outlets(state.take, lambda *_: None, lambda _: False, lambda: server.now)
    reflector = Reflector(server, PODS, outlets, Backoff(lambda: 1.0))
    reflector.step()
    server._of_lists = [page("a"), CUT]
    while server.now < 300:
        server.now += reflector.step() + 0.01
    assert state.ages()[PODS] > 200


@pytest.mark.parametrize(
    "header", ["1", "30", "31", "86400", "9" * 30, "9" * 5_000, "-1", "1.5", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"]
)
def test_a_server_may_delay_a_retry_by_half_a_minute_at_most(header: str, api: ScriptedApi) -> None:
    api.always["list", "pods"] = status(429, Retry_After=header)
    with pytest.raises(ApiError) as raised:
        list(ApiServer(by_kubeconfig, IMPATIENT).pages(PODS))
    assert raised.value.retry_after == (min(float(header), MAX_RETRY_AFTER) if header.isdecimal() else 0.0)


def test_a_connection_whose_answer_was_not_read_to_its_end_is_not_used_again(api: ScriptedApi) -> None:
    """Otherwise, the rest of an answer could pass for the next one."""
    fake = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    api.script("list", "pods", status(200, b"not JSON" + fake * 10_000))
    server = ApiServer(by_kubeconfig, IMPATIENT)
    with pytest.raises(ApiError, match="is not JSON"):
        list(server.pages(PODS))
    assert [len(part.objects) for part in server.pages(BY_NAME["nodes"])] == [
        len(api.objects["nodes"]),
    ]
