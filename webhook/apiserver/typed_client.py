"""Objects of an API server: one at a time, short timeouts, typed errors. Live PriorityClasses, to confirm denials that
depend on the watch cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND, PRIORITY_CLASS, KindSpec
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject
from forewarn.webhook.apiserver.client import ApiError, ApiServer, Timeouts, mapping
from forewarn.webhook.apiserver.client import ApiError as ServerError

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.priority_class import PriorityClass


class ObjectApiError(OSError):
    """The error for a request that failed or was rejected. The message contains the request and the reason."""


class NotFound(ObjectApiError):
    """HTTP status 404: the object does not exist."""


class Conflict(ObjectApiError):
    """HTTP status 409: the object has changed since it was read, or already exists."""


class Forbidden(ObjectApiError):
    """HTTP status 401 or 403: the service account does not have the permission."""


TIMEOUTS: Final = Timeouts(connect=1.0, read=2.0, total=3.0)
"""Timeouts of a request: callers have 5 s for a response (in the manifests), and send up to four requests."""
_WATCH_SECONDS: Final = 300.0
_SILENCE: Final = 150.0
"""Seconds without an event or bookmark after which a watch is dead; API servers send a bookmark every minute."""
_TYPES: Final[dict[int, type[ObjectApiError]]] = {401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict}


class ObjectApi:
    """Reads and writes objects of one API server. All methods raise ObjectApiError. Thread-safe.

    `path`: a URL path, for example /api/v1/namespaces/forewarn/secrets/forewarn-ca.
    """

    def __init__(self, server: ApiServer, timeouts: Timeouts = TIMEOUTS) -> None:
        self._server, self._timeouts = server, timeouts

    def get(self, path: str) -> dict[str, Any]:
        """Return the object or list at a path, read from etcd and not from a cache."""
        answer = self._ask("GET", path)
        is_list = str(answer.get("kind")).endswith("List")
        if not is_list and mapping(answer.get("metadata")).get("name") != path.rpartition("/")[2]:
            raise ObjectApiError(f"GET {path}: the API server sent another object")
        return answer

    def create(self, path: str, obj: ApiObject) -> dict[str, Any]:
        """Create an object in a collection, and return the stored object."""
        return self._ask("POST", path, obj)

    def replace(self, path: str, obj: ApiObject) -> dict[str, Any]:
        """Replace the object with the same resourceVersion, and return the stored object."""
        return self._ask("PUT", path, obj)

    def watch(self, path: str) -> Iterator[object]:
        """Yield once for the present object at a path, and for each of its changes, until the server ends the watch."""
        collection, _, name = path.rpartition("/")
        version, _, plural = collection.rpartition("/")
        kind = KindSpec(version.partition("/api")[2].partition("/")[2], "", plural, "")
        try:
            yield from self._server.watch(kind, "", _WATCH_SECONDS, _SILENCE, name)
        except ServerError as error:
            raise _typed(error, "WATCH", path) from error

    def _ask(self, method: str, path: str, obj: ApiObject | None = None) -> dict[str, Any]:
        try:
            return self._server.ask(method, path, body=obj, timeouts=self._timeouts).object
        except ServerError as error:
            raise _typed(error, method, path) from error


def _typed(error: ServerError, method: str, path: str) -> ObjectApiError:
    return _TYPES.get(error.status, ObjectApiError)(f"{method} {path}: {error}")


def get_or_none(api: ObjectApi, path: str) -> dict[str, Any] | None:
    """Return the object at a path; None if it does not exist. Raises ObjectApiError."""
    try:
        return api.get(path)
    except NotFound:
        return None


_OF_LIVE_CLASSES: Final = Timeouts(connect=1.0, read=2.0, total=2.0)
"""Timeouts that are shorter than the API server's timeout for the webhook, so that time remains for the response."""
_REST: Final = 1.0
"""Seconds without another request after a failure, so that not every denial waits for one."""


class LiveClasses:
    """Reads the live PriorityClasses by name, with one consistent LIST per call. Thread-safe."""

    def __init__(self, api: ApiServer, clock: Callable[[], float] = monotonic) -> None:
        self._api, self._clock = api, clock
        self._failed: tuple[float, ApiError] | None = None

    def __call__(self) -> Mapping[str, PriorityClass]:
        """Return the PriorityClasses by name. Raises ApiError, also shortly after a failed read."""
        failed = self._failed
        if failed is not None and self._clock() - failed[0] < _REST:
            raise failed[1]
        try:
            classes = self._read()
        except ApiError as error:
            self._failed = self._clock(), error
            raise
        self._failed = None
        return classes

    def _read(self) -> Mapping[str, PriorityClass]:
        cache = Cache()
        for page in self._api.pages(BY_GROUP_KIND[PRIORITY_CLASS], timeouts=_OF_LIVE_CLASSES):
            for obj in page.objects:
                try:
                    cache.add(obj)
                except InvalidObject as error:
                    raise ApiError(0, str(error)) from None
        return cache.snapshot().priority_classes
