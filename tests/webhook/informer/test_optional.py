"""Devices: followed where they are served, predicted by once all is in."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from forewarn import policies
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND, DEVICES, NODE, POD_TEMPLATE_PATHS, KindSpec
from forewarn.webhook.apiserver.client import ApiError, Page
from forewarn.webhook.apiserver.source import live, read_all
from forewarn.webhook.informer.custom import follow_optional
from forewarn.webhook.informer.informer import ClusterState, Informer
from tests.builders import make_node, make_pod
from tests.webhook.informer.test_informer import until
from tests.webhook.informer.test_state import listed
from tests.webhook.scripted_api import client, kubeconfig, scripted_api

if TYPE_CHECKING:
    from pathlib import Path

PLURALS = [spec.plural for spec in DEVICES]
CLAIMING = make_pod("p").spec(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]).obj
SLICE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "s"},
    "spec": {
        "driver": "gpu.example",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d0"}],
    },
}


class Served:
    """An API server that serves these kinds of devices; without any it has not even the group."""

    def __init__(self, *plurals: str) -> None:
        self.plurals, self.asked = plurals, 0

    def get(self, path: str) -> dict[str, Any]:
        self.asked += 1
        if path != "/apis/resource.k8s.io/v1" or not self.plurals:
            raise ApiError(404, "not found")
        return {"resources": [{"name": plural} for plural in self.plurals]}


def test_they_are_followed_once_all_are_served() -> None:
    followed: list[KindSpec] = []
    served, stopped = Served(), Event()
    thread = follow_optional(served, POD_TEMPLATE_PATHS, followed.append, stopped, pause=0.01)
    until(lambda: served.asked > 2)
    served.plurals = tuple(PLURALS[1:])
    asked = served.asked
    until(lambda: served.asked > asked + 2)
    assert not followed
    served.plurals = tuple(PLURALS)
    until(lambda: len(followed) == len(PLURALS))
    asked = served.asked
    until(lambda: served.asked > asked + 6)
    stopped.set()
    thread.join(10)
    assert [spec.plural for spec in followed] == PLURALS
    assert all(spec.optional for spec in followed), "nobody waits for them"


def test_each_is_followed_once_though_threads_cannot_be_started_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def start(_: Informer, name: str, run: object) -> None:
        starts.append(name)
        if len(starts) in (2, 4):
            raise RuntimeError("can't start new thread")
        started.append(name)

    starts: list[str] = []
    monkeypatch.setattr(Informer, "_start", start)
    informer, stopped = Informer(client(), ()), Event()
    thread = follow_optional(Served(*PLURALS), POD_TEMPLATE_PATHS, informer.follow, stopped, pause=0.01)
    until(lambda: len(started) == len(PLURALS))
    stopped.set()
    thread.join(10)
    assert started == [spec.name for spec in DEVICES]
    assert len(starts) == len(PLURALS) + 2


def test_each_other_kind_is_followed_once_it_is_served() -> None:
    followed: list[KindSpec] = []

    class OfGroups(Served):
        def get(self, path: str) -> dict[str, Any]:
            self.asked += 1
            if path != "/apis/scheduling.k8s.io/v1beta1" or not self.plurals:
                raise ApiError(404, "not found")
            return {"resources": [{"name": plural} for plural in self.plurals]}

    served, stopped = OfGroups("podgroups"), Event()
    thread = follow_optional(served, POD_TEMPLATE_PATHS, followed.append, stopped, pause=0.01)
    until(lambda: served.asked > 6)
    assert [spec.kind for spec in followed] == ["PodGroup"]
    stopped.set()
    thread.join(10)


def test_nothing_is_predicted_by_them_until_all_are_in() -> None:
    nodes = BY_GROUP_KIND[NODE]
    state = ClusterState((nodes,))
    listed(state, nodes, make_node("n1").obj)
    for spec in DEVICES:
        state.publish()
        assert state.latest is not None
        told = policies.predict(state.latest, CLAIMING)
        assert told.not_predicted == "the Pod claims devices (DRA), and the state of the cluster contains none"
        listed(state, spec, *([SLICE] if spec.kind == "ResourceSlice" else []))
    assert state.publish()
    assert state.latest is not None
    told = policies.predict(state.latest, CLAIMING)
    assert told.outcome == "pending"
    assert told.pre_filter is not None
    assert told.pre_filter.reasons == ('could not find ResourceClaim "default/gpu"',)


def test_a_dump_has_them_where_all_of_them_may_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted_api() as api:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", api.url)))
        api.put(SLICE)
        kinds = [obj["kind"] for obj in read_all(client(), "live")]
        assert [kind for kind in kinds if not kind.endswith("List")] == ["ResourceSlice"]
        assert "ResourceClaimList" in kinds
        api.script("list", "resourceclaims", api.reject(403))
        kinds = [obj["kind"] for obj in read_all(client(), "live")]
        assert not {"ResourceSlice", "ResourceClaimList"} & set(kinds), "a part of it tells nothing"


@pytest.mark.parametrize(("status", "names"), [(200, ["fleets.example.com"]), (403, []), (404, [])])
def test_definitions_are_listed_if_they_may_be(monkeypatch: pytest.MonkeyPatch, status: int, names: list[str]) -> None:
    definition = {"metadata": {"name": "fleets.example.com"}, "spec": {"group": "example.com"}}

    def pages(_: object, resource: KindSpec, **__: object) -> list[Page]:
        assert resource.path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        if status != 200:
            raise ApiError(status, "no")
        return [Page([definition], "1")]

    monkeypatch.setattr("forewarn.webhook.apiserver.client.ApiServer.pages", pages)
    assert [obj["metadata"]["name"] for obj in live.definitions("")] == names
