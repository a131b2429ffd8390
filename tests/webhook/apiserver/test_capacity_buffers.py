"""The CapacityBuffers of a live cluster: of the version that the API server serves, and none if it serves neither."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.questions.whatif.capacity_buffers import MAX_BUFFERS
from forewarn.webhook.apiserver.client import ApiError, Page
from forewarn.webhook.apiserver.source import live

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.kubernetes.kinds.registry import KindSpec

OLD, NEW = (f"/apis/autoscaling.x-k8s.io/{version}/capacitybuffers" for version in ("v1alpha1", "v1beta1"))


@pytest.mark.parametrize(
    ("served", "asked"), [({NEW: 200}, [NEW]), ({NEW: 404, OLD: 200}, [NEW, OLD]), ({NEW: 404, OLD: 404}, [NEW, OLD])]
)
def test_the_served_version_is_listed(
    monkeypatch: pytest.MonkeyPatch, served: dict[str, int], asked: list[str]
) -> None:
    requests: list[str] = []

    def pages(_: object, resource: KindSpec, **__: object) -> Iterator[Page]:
        requests.append(resource.path)
        if served[resource.path] != 200:
            raise ApiError(served[resource.path], "no")
        yield Page([{"metadata": {"name": "b"}}], "1")

    monkeypatch.setattr("forewarn.webhook.apiserver.client.ApiServer.pages", pages)
    assert len(list(live.capacity_buffers(""))) == (200 in served.values())
    assert requests == asked


def test_a_denied_list_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def pages(_: object, resource: KindSpec, **__: object) -> Iterator[Page]:
        raise ApiError(403, f"cannot list {resource.plural}")

    monkeypatch.setattr("forewarn.webhook.apiserver.client.ApiServer.pages", pages)
    with pytest.raises(SourceError, match="capacitybuffers"):
        list(live.capacity_buffers(""))


def test_no_more_than_a_limit_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pages_read = []

    def pages(_: object, __: KindSpec, **___: object) -> Iterator[Page]:
        for number in range(100):
            pages_read.append(number)
            yield Page([{"metadata": {"name": f"{number}-{n}"}} for n in range(500)], "1")

    monkeypatch.setattr("forewarn.webhook.apiserver.client.ApiServer.pages", pages)
    assert len(list(live.capacity_buffers(""))) == MAX_BUFFERS + 1
    assert len(pages_read) == 3
