"""Workloads that only configuration names: in dumps, watched, and looked up for their `…/scale`."""

from __future__ import annotations

import json
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.inputs.sources.cluster import load_cluster
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.kinds.registry import KINDS, POD_TEMPLATE_PATHS, KindSpec
from forewarn.policies.linting.config.load import read_config
from forewarn.webhook.admission.review import Hook
from forewarn.webhook.apiserver.client import ApiError
from forewarn.webhook.informer.custom import discover, follow_optional
from forewarn.webhook.informer.informer import Informer
from tests.webhook.builders import decided, priority_class, review
from tests.webhook.informer.test_informer import NOW, until
from tests.webhook.scripted_api import BY_NAME, ScriptedApi, client, kubeconfig, scripted_api

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATH = ("spec", "template")
TEMPLATES = {**POD_TEMPLATE_PATHS, "example.com/Proxy": PATH}
CONFIG = read_config("podTemplatePaths: {example.com/Proxy: spec.template}", "c")
PROXY = {
    "apiVersion": "example.com/v1",
    "kind": "Proxy",
    "metadata": {"name": "web", "namespace": "team"},
    "spec": {"replicas": 1, "template": {"spec": {"priorityClassName": "nobody", "containers": []}}},
}
SERVED: dict[str, dict[str, Any]] = {
    "/apis/example.com": {"preferredVersion": {"groupVersion": "example.com/v1"}},
    "/apis/example.com/v1": {
        "resources": [
            {"name": "proxies/scale", "kind": "Scale", "namespaced": True, "verbs": ["get"]},
            {"name": "proxies", "kind": "Proxy", "namespaced": True, "verbs": ["get", "list", "watch"]},
            {"name": "gates", "kind": "Gate", "namespaced": False, "verbs": ["list", "watch"]},
            {"name": "notes", "kind": "Note", "namespaced": True, "verbs": ["create"]},
        ]
    },
    "/api/v1": {"resources": [{"name": "things", "kind": "Thing", "namespaced": True, "verbs": ["list", "watch"]}]},
}


class Served:
    """What an API server says of its kinds; `lacks` is answered with 404."""

    def __init__(self) -> None:
        self.lacks: set[str] = set()
        self.asked = 0

    def get(self, path: str) -> dict[str, Any]:
        self.asked += 1
        if path in self.lacks or path not in SERVED:
            raise ApiError(404, "not found")
        return SERVED[path]


def test_a_kind_is_found_in_the_version_that_its_server_prefers() -> None:
    found = discover(Served(), "example.com/Proxy", PATH)
    assert (found.path, found.group_kind, found.template) == (
        "/apis/example.com/v1/proxies",
        "example.com/Proxy",
        PATH,
    )
    assert found.optional
    assert discover(Served(), "/Thing", PATH).path == "/api/v1/things"


@pytest.mark.parametrize("kind", ["example.com/Gate", "example.com/Note", "example.com/Nothing", "example.org/Proxy"])
def test_what_cannot_be_watched_in_namespaces_is_not_found(kind: str) -> None:
    with pytest.raises(ApiError):
        discover(Served(), kind, PATH)


def test_a_kind_that_is_installed_later_is_followed_then() -> None:
    served, stopped = Served(), Event()
    served.lacks.add("/apis/example.com")
    followed: list[KindSpec] = []
    thread = follow_optional(served, TEMPLATES, followed.append, stopped, pause=0.01)
    until(lambda: served.asked > 9)
    assert not followed
    served.lacks.clear()
    until(lambda: bool(followed))
    asked = served.asked
    until(lambda: served.asked > asked + 9)
    stopped.set()
    thread.join(10)
    assert [spec.plural for spec in followed] == ["proxies"]


def test_a_kind_that_cannot_be_followed_does_not_end_the_search_for_others() -> None:
    served, stopped = Served(), Event()
    templates = {"/Thing": PATH, "example.com/Proxy": PATH}
    followed: list[KindSpec] = []

    def follow(spec: KindSpec) -> None:
        if spec.kind == "Thing":
            raise RuntimeError("can't start new thread")
        followed.append(spec)

    thread = follow_optional(served, templates, follow, stopped, pause=0.01)
    until(lambda: bool(followed))
    stopped.set()
    thread.join(10)
    assert [spec.plural for spec in followed] == ["proxies"]


def scaled(cache: Cache) -> set[str]:
    """Which rules have something to say when the Proxy is scaled."""
    old = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "namespace": "team"}}
    given = review({**old, "spec": {"replicas": 5}}, "UPDATE", oldObject=old, subResource="scale")
    given["request"]["resource"] = {"group": "example.com", "version": "v1", "resource": "proxies"}
    decision = decided(Hook.VALIDATE, given, state=cache.snapshot(), config=CONFIG)
    return {finding.rule for finding in decision.findings}


def test_its_scale_is_judged_where_the_state_has_it(tmp_path: Path) -> None:
    objects = [PROXY, priority_class("gold", 5)]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert scaled(load_cluster(str(dump), templates=TEMPLATES)) == {"unknown-priority-class"}
    unknown = load_cluster(str(dump))
    assert not scaled(unknown)
    assert unknown.skipped == {"Proxy": 1}


def test_what_is_deleted_is_gone() -> None:
    cache = Cache(templates=TEMPLATES)
    assert cache.add(PROXY)
    assert cache.keys("example.com/Proxy") == {("team", "web")}
    cache.remove(PROXY)
    assert not cache.snapshot().workloads


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    with scripted_api() as scripted:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", scripted.url)))
        yield scripted


def test_nobody_waits_for_it_and_it_is_followed_when_it_is_there(
    api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = discover(Served(), "example.com/Proxy", PATH)
    monkeypatch.setitem(BY_NAME, "proxies", spec)
    api.objects["proxies"]["team", "web"] = PROXY
    api.script("list", "proxies", *[api.reject(403)] * 3)
    troubles: list[str] = []
    informer = Informer(client(), KINDS, NOW, trouble=lambda kind, _: troubles.append(kind.name), templates=TEMPLATES)
    informer.start()
    informer.follow(spec)
    try:
        assert informer.wait(60)
        assert informer.fault(0.0) == ""
        assert informer.age() < 10
        until(lambda: bool((state := informer.cluster()) and state.workload("example.com/Proxy", "team", "web")))
        assert troubles == ["proxies.example.com"] * 3
    finally:
        informer.stop()
