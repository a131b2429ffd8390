"""What a live cluster says about node groups: the status ConfigMap, and objects of kinds that are served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.inputs.sources.files import SourceError
from forewarn.webhook.apiserver.client import ApiError, Page
from forewarn.webhook.apiserver.source import live

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.kubernetes.kinds.registry import KindSpec


def serve(monkeypatch: pytest.MonkeyPatch, configmap: int, machines: int) -> None:
    """An API server that answers with these statuses."""

    def get(_: object, path: str, *__: object, **___: object) -> dict[str, Any]:
        if configmap != 200:
            raise ApiError(configmap, "no")
        folder, _, name = path.rpartition("/")
        assert folder == "/api/v1/namespaces/kube-system/configmaps"
        return {"metadata": {"name": name}}

    def pages(_: object, resource: KindSpec, **__: object) -> Iterator[Page]:
        if machines != 200:
            raise ApiError(machines, "no")
        yield Page([{"kind": resource.kind, "metadata": {"name": "m"}}], "1")

    monkeypatch.setattr("forewarn.webhook.apiserver.client.ApiServer.get", get)
    monkeypatch.setattr("forewarn.webhook.apiserver.client.ApiServer.pages", pages)


@pytest.mark.parametrize(
    ("configmap", "machines", "kinds"),
    [
        (200, 404, ["ConfigMap", "ConfigMap"]),
        (403, 403, []),
        (404, 200, ["MachineDeployment", "MachineSet", "NodePool"]),
        (200, 200, ["ConfigMap", "ConfigMap", "MachineDeployment", "MachineSet", "NodePool"]),
    ],
)
def test_what_is_served_and_allowed_is_read(
    configmap: int, machines: int, kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(monkeypatch, configmap, machines)
    assert [obj["kind"] for obj in live.node_groups("")] == kinds


@pytest.mark.parametrize(("configmap", "machines"), [(500, 404), (404, 500)])
def test_another_error_is_reported(configmap: int, machines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, configmap, machines)
    with pytest.raises(SourceError):
        list(live.node_groups(""))


def test_autoscalers_are_read_or_the_reason_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, 200, 200)
    assert [obj["kind"] for obj in live.autoscalers("")] == ["HorizontalPodAutoscaler"]
    serve(monkeypatch, 200, 403)
    with pytest.raises(SourceError, match="horizontalpodautoscalers"):
        list(live.autoscalers(""))
