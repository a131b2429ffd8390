"""Cluster state follows a server over HTTP, whatever that server does."""

from __future__ import annotations

import time
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
from forewarn.policies.kubernetes.kinds.registry import KINDS
from forewarn.policies.kubernetes.releases.release import Release
from forewarn.webhook.apiserver.client import ApiError, ApiServer, connect
from forewarn.webhook.informer.informer import Informer, Pace
from tests.webhook.builders import OBJECTS, deployment, namespace, pod, priority_class
from tests.webhook.scripted_api import QUICK, ScriptedApi, client, kubeconfig, scripted_api

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from forewarn.policies.kubernetes.kinds.registry import KindSpec

NOW = Pace(watch=300, silence=10, least=0.001, longest=0.01)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    with scripted_api() as scripted:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", scripted.url)))
        for obj in (*OBJECTS, deployment(), *(pod("gold", 1000, name=f"p{n}") for n in range(5))):
            scripted.put(obj)
        yield scripted


class Following:
    """An informer, and what it told."""

    def __init__(self, pace: Pace) -> None:
        self.troubles: list[tuple[str, str]] = []
        self.rejected: list[str] = []
        self.informer = Informer(
            client(),
            KINDS,
            pace,
            trouble=lambda resource, word: self.troubles.append((resource.name, word)),
            rejected=self._reject,
        )

    def _reject(self, resource: KindSpec) -> None:
        self.rejected.append(resource.name)

    def pods(self) -> set[str]:
        state = self.informer.cluster()
        assert state is not None
        return {name for _, name in state.pods}


@contextmanager
def following(pace: Pace = NOW, synced: bool = True) -> Iterator[Following]:
    followed = Following(pace)
    followed.informer.start()
    try:
        if synced:
            assert followed.informer.wait(60)
        yield followed
    finally:
        followed.informer.stop()
        assert not any(thread.is_alive() for thread in followed.informer._threads)


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def state_is_prepared(followed: Following) -> bool:
    """Whether the first prediction has nothing to wait for."""
    state = followed.informer.cluster()
    return state is not None and state.scheduling.derived.matrix is not None


P = {"p0", "p1", "p2", "p3", "p4"}


def test_every_list_is_taken_in_before_there_is_any_state(api: ScriptedApi) -> None:
    api.script("list", "cronjobs", api.hang)
    with following(synced=False) as followed:
        until(
            lambda: followed.informer.fault(60).startswith("cluster state not synced: cronjobs.batch (not listed yet)")
        )
        assert followed.informer.cluster() is None
        assert followed.informer.age() == float("inf")
        api.released.set()
        assert followed.informer.wait(60)
        assert followed.informer.fault(60) == ""
        assert followed.informer.age() < 10
        state = followed.informer.cluster()
        assert state is not None
        assert followed.pods() == P
        assert state_is_prepared(followed)
        assert {"gold", "batch-low", "system-node-critical"} <= state.priority_classes.keys()
        assert state.workload("apps/Deployment", "team", "web") is not None


def test_no_request_may_come_before_the_first_prediction_is_prepared(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = Event(), Event()

    def slow(_: ClusterSnapshot) -> None:
        begun.set()
        assert go_on.wait(60)

    monkeypatch.setattr(ClusterSnapshot, "prepare", slow)
    with following(synced=False) as followed:
        assert begun.wait(60)
        assert followed.informer.fault(60) == "cluster state not synced yet"
        go_on.set()
        assert followed.informer.wait(60)
        assert followed.informer.fault(60) == ""


def test_what_cannot_be_prepared_keeps_no_request_away(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ClusterSnapshot, "prepare", lambda _: 1 / 0)
    with following() as followed:
        assert followed.informer.fault(60) == ""
        assert followed.pods() == P
    assert "ZeroDivisionError" in caplog.text


def test_what_changes_is_there_at_once(api: ScriptedApi) -> None:
    with following() as followed:
        stream = api.stream("pods")
        stream.send("ADDED", pod(name="new", resourceVersion="201"))
        stream.send("DELETED", pod(name="p0", resourceVersion="202"))
        until(lambda: followed.pods() == (P | {"new"}) - {"p0"})
        stream.send("MODIFIED", pod("gold", 7, name="p1", resourceVersion="203"))

        def priority() -> object:
            state = followed.informer.cluster()
            return state and state.pods["team", "p1"].priority

        until(lambda: priority() == 7)
        assert followed.troubles == []


def test_a_cut_stream_goes_on_from_the_last_version_and_loses_nothing(api: ScriptedApi) -> None:
    with following() as followed:
        api.stream("pods").send("ADDED", pod(name="before", resourceVersion="201"))
        api.stream("pods").bookmark("250")
        api.stream("pods").cut()
        again = api.stream("pods", 1)
        assert again.query["resourceVersion"] == "250"
        again.send("ADDED", pod(name="after", resourceVersion="251"))
        until(lambda: followed.pods() == P | {"before", "after"})
        assert followed.troubles == [("pods", "broken")]
        assert len(api.asked("list", "pods")) == 1


@pytest.mark.parametrize("by", ["an event", "a status", "silence"])
def test_a_version_too_old_or_a_dead_stream_lists_anew_and_what_vanished_goes(by: str, api: ScriptedApi) -> None:
    pace = NOW._replace(silence=0.3) if by == "silence" else NOW
    with following(pace) as followed:
        stream = api.stream("pods")
        del api.objects["pods"]["team", "p3"]
        api.put(pod(name="fresh"))
        if by == "an event":
            stream.error(410)
        elif by == "a status":
            api.script("watch", "pods", api.reject(410))
            stream.end()
        until(lambda: followed.pods() == (P | {"fresh"}) - {"p3"})
        assert ("pods", "silent" if by == "silence" else "expired") in followed.troubles


def test_bookmarks_keep_a_stream_on_which_nothing_changes(api: ScriptedApi) -> None:
    with following() as followed:
        for _ in range(3):
            began = time.monotonic()
            for resource in KINDS:
                api.stream(resource.plural).bookmark("300")
            until(lambda began=began: followed.informer.age() < time.monotonic() - began)  # type: ignore[misc]
        assert followed.troubles == []


def test_garbage_on_a_stream_or_an_object_that_is_refused_stops_nothing(api: ScriptedApi) -> None:
    with following() as followed:
        stream = api.stream("pods")
        stream.send("ADDED", {"metadata": {"name": "bad", "namespace": "team", "resourceVersion": "201"}, "spec": 5})
        stream.send("ADDED", pod(name="good", resourceVersion="202"))
        until(lambda: followed.pods() == P | {"good"})
        assert followed.rejected == ["pods"]
        api.put(pod(name="good"))
        stream.lines.put(b"\0\xff garbage\n")
        api.stream("pods", 1).send("ADDED", pod(name="later", resourceVersion="203"))
        until(lambda: followed.pods() == P | {"good", "later"})
        assert followed.troubles == [("pods", "broken")]


def test_a_listener_that_fails_does_not_stop_the_owner(api: ScriptedApi, caplog: pytest.LogCaptureFixture) -> None:
    with following() as followed:

        def broken(_: object) -> None:
            raise RuntimeError("a fault of ours")

        followed.informer.changed = broken
        for name in ("one", "two"):
            api.stream("pods").send("ADDED", pod(name=name, resourceVersion="201"))
        until(lambda: followed.pods() == P | {"one", "two"})
        assert "a fault of ours" in caplog.text


def test_the_owner_goes_on_though_its_fault_cannot_be_logged(api: ScriptedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without memory, both may fail."""

    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("forewarn.webhook.health._AGAIN_SECONDS", 0.01)
    with following() as followed:
        with monkeypatch.context() as patch:
            patch.setattr("logging.Logger.exception", fails)
            followed.informer.changed = fails
            for name in ("one", "two"):
                api.stream("pods").send("ADDED", pod(name=name, resourceVersion="201"))
            until(lambda: followed.pods() == P | {"one", "two"})
        assert all(thread.is_alive() for thread in followed.informer._threads)


def test_lists_that_fail_are_tried_again(api: ScriptedApi) -> None:
    def page_then_expired(handler: Any) -> None:
        handler.answer(410, {"kind": "Status", "code": 410, "message": "the continue token is too old"})

    api.script("list", "pods", api.reject(500), api.reject(429, Retry_After="0"), page_then_expired)
    api.script("list", "nodes", lambda handler: handler.answer(200, b"<html>"))
    with following() as followed:
        assert followed.pods() == P
        assert {("pods", "500"), ("pods", "429"), ("pods", "expired"), ("nodes", "broken")} <= set(followed.troubles)


def test_a_kind_that_may_not_be_listed_makes_it_unready_and_is_named(api: ScriptedApi) -> None:
    api.script("list", "nodes", *[api.reject(403, "nodes is forbidden")] * 1000)
    with following(synced=False) as followed:
        until(lambda: followed.informer.fault(60) == "cluster state not synced: nodes (nodes is forbidden)")
        assert ("nodes", "403") in followed.troubles
        api.scripts["list", "nodes"].clear()
        assert followed.informer.wait(60)
        assert followed.informer.fault(60) == ""


def test_of_many_kinds_that_are_lacking_a_few_are_named(api: ScriptedApi) -> None:
    for resource in KINDS:
        api.script("list", resource.plural, *[api.reject(401, "Unauthorized")] * 100)
    with following(synced=False) as followed:
        until(lambda: len({name for name, _ in followed.troubles}) == len(KINDS))
        fault = followed.informer.fault(60)
        assert fault.startswith(
            "cluster state not synced: priorityclasses.scheduling.k8s.io (Unauthorized), namespaces ("
        )
        assert fault.endswith(f"and {len(KINDS) - 3} more")


def test_a_kind_that_is_refused_later_makes_it_unready_once_the_state_is_too_old(api: ScriptedApi) -> None:
    with following() as followed:
        stream = api.stream("pods")
        api.script("watch", "pods", *[api.reject(401, "Unauthorized")] * 1000)
        stream.end()
        until(lambda: ("pods", "401") in followed.troubles)
        assert followed.informer.fault(60) == ""
        until(lambda: followed.informer.fault(0.01) == "cluster state not synced: pods (Unauthorized)")
        assert followed.informer.cluster() is not None


def test_the_age_grows_while_the_server_is_away_and_falls_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(config))
    with scripted_api() as first:
        kubeconfig(config, first.url)
        informer = Informer(ApiServer(connect, QUICK), pace=NOW)
        informer.start()
        assert informer.wait(60)
    try:
        until(lambda: informer.age() > 0.3)
        assert informer.cluster() is not None
        assert informer.fault(0) == ""  # an old state is better than none: answers say so
    finally:
        informer.stop()


def test_a_flood_of_events_ends_in_the_right_state(api: ScriptedApi) -> None:
    with following() as followed:
        stream = api.stream("pods")
        for number in range(3000):
            stream.send(
                "MODIFIED" if number % 3 else "DELETED", pod(name=f"p{number % 7}", resourceVersion=f"{300 + number}")
            )
        stream.send("ADDED", pod(name="last", resourceVersion="9999"))
        until(lambda: "last" in followed.pods())
        expected = {f"p{n}" for n in range(7)}
        for number in range(3000 - 7, 3000):
            expected -= {f"p{number % 7}"} if number % 3 == 0 else set()
        assert followed.pods() == expected | {"last"}


def test_classes_and_namespaces_that_come_later_count(api: ScriptedApi) -> None:
    with following() as followed:
        api.stream("priorityclasses").send("ADDED", priority_class("late", 5))
        api.stream("namespaces").send("ADDED", namespace("late", default_priority_class="late"))

        def there() -> bool:
            state = followed.informer.cluster()
            return state is not None and "late" in state.priority_classes and state.namespace("late") is not None

        until(there)


def test_a_release_that_is_not_told_at_first_is_soon_asked_for_again(
    api: ScriptedApi, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[ApiError | str] = [ApiError(503, "starting"), ApiError(503, "starting"), "", "v1.35.8"]

    def version() -> str:
        answer = answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    informer = Informer(client(), KINDS, NOW, release=Release(), version=version).start()
    try:
        until(lambda: (state := informer.cluster()) is not None and state.semantics.minor == 35)
        assert not answers
        assert caplog.text.count("cannot get the Kubernetes version: ") == 1
    finally:
        informer.stop()
