"""`--cluster live[:CONTEXT]`: the objects of a running cluster, as a source of cluster state."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from policies.kinds import DEVICES, KINDS
from policies.sources import SourceError
from webhook.apiserver.client import ApiServer
from webhook.apiserver.errors import ApiError
from webhook.apiserver.transport import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.kinds import KindSpec


def live(context: str = "") -> Iterator[dict[str, Any]]:
    """Every object that plays a part, of the kubeconfig's current context or of this one. Raises SourceError."""
    api = ApiServer(partial(connect, context))
    yield from read_all(api, f"live:{context}" if context else "live")
    yield from version_of(api)


def read_all(
    api: ApiServer, name: str, tell: Callable[[KindSpec, int], None] | None = None
) -> Iterator[dict[str, Any]]:
    """Every object that plays a part, kind by kind. `tell`: the kind and how many of it are still to come.

    `name` is what errors call the source. Raises SourceError.
    """
    yield from _devices(api, name)
    for resource in KINDS:
        try:
            for page in api.pages(resource, consistent=False):
                if tell is not None:
                    tell(resource, page.remaining)
                yield from page.objects
        except ApiError as error:
            raise SourceError(name, _said(resource, error)) from None


def _devices(api: ApiServer, name: str) -> list[dict[str, Any]]:
    """What the cluster has of devices; nothing where it does not serve all of it, or one may not list it."""
    found: list[dict[str, Any]] = []
    for resource in DEVICES:
        try:
            for page in api.pages(resource, consistent=False):
                found += page.objects
        except ApiError as error:
            if error.status in (403, 404):
                return []
            raise SourceError(name, _said(resource, error)) from None
    return found


def version_of(api: ApiServer) -> Iterator[dict[str, Any]]:
    """What the API server says of its release, as `kubectl version -o json` prints it; nothing where it does not."""
    try:
        version = api.get("/version")
    except ApiError:
        return
    if version.get("gitVersion"):
        yield {"apiVersion": "forewarn.dev/v1", "kind": "Version", "serverVersion": version}


def _said(resource: KindSpec, error: ApiError) -> str:
    return f"cannot list {resource.name}: {error}" if error.status else error.problem
