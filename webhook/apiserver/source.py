"""`--cluster live[:CONTEXT]`: the objects of a running cluster, as a source of cluster state."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from policies.kinds import APART, DEVICES, KINDS, empty_list
from policies.sources import SourceError
from policies.sources.errors import MissingFile
from webhook.apiserver.client import ApiServer, Timeouts
from webhook.apiserver.errors import ApiError, UnknownContext
from webhook.apiserver.transport import connect, current_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.kinds import KindSpec


MOST_EVENTS: Final = 500
"""About one pod: an API server keeps them for an hour, and counts those that are alike in one."""
_SHORT: Final = Timeouts(10.0, 10.0, 20.0)
_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


class Live:
    """The source `live`."""

    def __call__(self, context: str = "") -> Iterator[dict[str, Any]]:
        """Every object that plays a part, of the kubeconfig's current context or of this one. Raises SourceError."""
        api = ApiServer(partial(connect, context))
        yield from read_all(api, _name(context))
        yield from version_of(api)

    def described(self, context: str) -> str:
        """The context, or where the cluster is found without a kubeconfig."""
        name = context or current_context()
        return f"context {name}" if name else "the cluster of this Pod"

    def events(self, context: str, namespace: str, name: str) -> Iterator[dict[str, Any]]:
        """The Events about a pod, MOST_EVENTS at most: the API server picks them. Raises SourceError.

        Needs the right to list `events` in the pod's namespace.
        """
        if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            return  # no pod has such a name
        about = f"involvedObject.kind=Pod,involvedObject.namespace={namespace},involvedObject.name={name}"
        api = ApiServer(partial(connect, context))
        query = {"fieldSelector": about, "limit": str(MOST_EVENTS)}
        try:
            page = api.get(f"/api/v1/namespaces/{namespace}/events", query, timeouts=_SHORT)
        except ApiError as error:
            raise SourceError(
                _name(context), f"cannot list events: {error}" if error.status else error.problem
            ) from None
        items = page.get("items")
        for obj in items[:MOST_EVENTS] if isinstance(items, list) else ():
            if isinstance(obj, dict):
                yield {**obj, "apiVersion": "v1", "kind": "Event"}


live: Final = Live()


def _name(context: str) -> str:
    return f"live:{context}" if context else "live"


def read_all(
    api: ApiServer, name: str, tell: Callable[[KindSpec, int], None] | None = None
) -> Iterator[dict[str, Any]]:
    """Every object that plays a part, kind by kind; an empty list of a kind of which there is none.

    `tell`: the kind and how many of it are still to come. `name` is what errors call the source. Raises SourceError.
    """
    yield from _optional(api, name, DEVICES)
    for resource in APART:
        yield from _optional(api, name, (resource,))
    for resource in KINDS:
        count = 0
        try:
            for page in api.pages(resource, consistent=False):
                if tell is not None:
                    tell(resource, page.remaining)
                count += len(page.objects)
                yield from page.objects
        except ApiError as error:
            raise _fault(name, resource, error) from None
        if not count:
            yield empty_list(resource)


def _optional(api: ApiServer, name: str, together: Sequence[KindSpec]) -> list[dict[str, Any]]:
    """The objects of kinds of which all are needed; nothing where one may not be listed, and empty lists where the API
    server does not serve one."""
    found: list[dict[str, Any]] = []
    for resource in together:
        count = len(found)
        try:
            for page in api.pages(resource, consistent=False):
                found += page.objects
        except ApiError as error:
            if error.status == 404:
                return [empty_list(each) for each in together]
            if error.status == 403:
                return []
            raise _fault(name, resource, error) from None
        if len(found) == count:
            found.append(empty_list(resource))
    return found


def version_of(api: ApiServer) -> Iterator[dict[str, Any]]:
    """What the API server says of its release, as `kubectl version -o json` prints it; nothing where it does not."""
    try:
        version = api.get("/version")
    except ApiError:
        return
    if version.get("gitVersion"):
        yield {"apiVersion": "forewarn.dev/v1", "kind": "Version", "serverVersion": version}


def _fault(name: str, resource: KindSpec, error: ApiError) -> SourceError:
    if isinstance(error, UnknownContext):
        return MissingFile("", error.problem)
    return SourceError(name, f"cannot list {resource.name}: {error}" if error.status else error.problem)
