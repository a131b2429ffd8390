"""Requests to an API server: one object, a list in pages, a watch, a change. JSON in, JSON out.

Sources: apiserver pkg/endpoints/handlers (list, watch), kubernetes.io/docs/reference/using-api/api-concepts.
"""

from __future__ import annotations

import json
import re
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.webhook.apiserver.errors import UNAUTHORIZED, ApiError, error_of
from forewarn.webhook.apiserver.list_stream import NoList, NoObject, read_list
from forewarn.webhook.apiserver.raw_objects import mapping, with_type_meta
from forewarn.webhook.apiserver.transport import HttpCall
from forewarn.webhook.apiserver.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from forewarn.policies.kinds.registry import KindSpec
    from forewarn.webhook.apiserver.transport import Connection
    from forewarn.webhook.apiserver.watch import Keep

USER_AGENT: Final = "forewarn"
PAGE: Final = 500
"""Objects in a page, as in client-go's pager."""
_RECONNECT_SECONDS: Final = 10.0
"""Seconds between two reads of the kubeconfig after a 401: the kubeconfig's exec plugin may ask a user to log in."""
SMALL: Final = 64 * 1024
"""Maximum bytes of memory of an object that is not reduced by `keep`."""
_BLOCK: Final = 1 << 16
_MAX_BODY: Final = 1 << 30
_MAX_PAGE_BYTES: Final = 64 << 20
"""Maximum bytes of a page; a larger page is requested again with fewer objects."""
_FEWER: Final = 8
_MAX_ERROR: Final = 1 << 16


class Timeouts(NamedTuple):
    """Timeouts in seconds: to connect, between two reads of a response, and for the whole response."""

    connect: float = 10.0
    read: float = 60.0
    total: float = 120.0


DEFAULT_TIMEOUTS: Final = Timeouts()
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
"""A `Warning` header as an API server writes it (RFC 7234, 5.5): a quoted string with escapes."""


class Answer(NamedTuple):
    """The object or text in a response, the warnings that kubectl would print, and the header `Date`."""

    object: dict[str, Any]
    warnings: tuple[str, ...] = ()
    text: str = ""
    date: str = ""


class Page(NamedTuple):
    """A part of a list. `remaining`: number of further objects, if the server reports it."""

    objects: list[dict[str, Any]]
    resource_version: str
    remaining: int


def _complete_object(obj: dict[str, Any]) -> dict[str, Any]:
    return obj


class ApiServer:
    """A client of one API server. Thread-safe. Every error is an ApiError, and thus an OSError."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        clock: Callable[[], float] = monotonic,
        keep: Keep = _complete_object,
    ) -> None:
        """Create the client; `connect` runs at the first request.

        `keep`: reduces each listed or watched object of more than SMALL bytes of memory, before the next object is
        parsed.
        """
        self._keep = keep
        self._connect, self._timeouts, self._clock = connect, timeouts, clock
        self._lock = Lock()
        self._connection: Connection | None = None
        self._connected_at = -_RECONNECT_SECONDS

    def open(self) -> ApiServer:
        """Find the address and credentials now instead of at the first request; returns self. Raises ApiError."""
        self._current()
        return self

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeouts: Timeouts | None = None,
    ) -> Answer:
        """Send a request, and return the response with its warnings. Only GET is repeated after a connection error.

        `content_type`: of the body; for PATCH, the patch type.
        """
        times = timeouts or self._timeouts
        headers = {"Accept-Encoding": "gzip"}
        if body is not None:
            headers["Content-Type"] = content_type
        repeats = 1 if method == "GET" else 0
        data = None if body is None else json.dumps(body).encode()
        response = self._open(method, path, query or {}, headers, times, data, repeats)
        try:
            parsed = _object(_read_body(response, _MAX_BODY, self._clock() + times.total, self._clock))
        finally:
            response.release_conn()
        headers_ = response.headers
        return Answer(parsed, _warnings(headers_.getlist("Warning")), date=headers_.get("Date", ""))

    def text(self, path: str, limit: int, times: Timeouts, query: Mapping[str, str] | None = None) -> Answer:
        """The text at a path, for example a Pod's response through the API server; at most `limit` bytes."""
        headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
        response = self._open("GET", path, query or {}, headers, times, repeats=1)
        try:
            text = _read_body(response, limit, self._clock() + times.total, self._clock).decode(errors="replace")
        finally:
            response.release_conn()
        return Answer({}, text=text, date=response.headers.get("Date", ""))

    def get(
        self, path: str, query: Mapping[str, str] | None = None, timeouts: Timeouts | None = None
    ) -> dict[str, Any]:
        return self.ask("GET", path, query, timeouts=timeouts).object

    def pages(
        self, resource: KindSpec, limit: int = PAGE, *, consistent: bool = True, timeouts: Timeouts | None = None
    ) -> Iterator[Page]:
        """Yield all objects of a kind in pages (`limit` 0: all at once), with kind and apiVersion filled in.

        `consistent`: raise Expired if the continue token is too old; false: continue with a newer list.
        """
        query = {"limit": str(limit)} if limit else {}
        while True:
            try:
                objects, page = self._page(resource, query, timeouts, _MAX_PAGE_BYTES if limit > 1 else _MAX_BODY)
            except _PageTooLarge:
                limit = max(limit // _FEWER, 1)
                query["limit"] = str(limit)
                continue
            except ApiError as error:
                if consistent or not error.continue_token:
                    raise
                query["continue"] = error.continue_token
                continue
            metadata = mapping(page.get("metadata"))
            yield Page(
                objects,
                str(metadata.get("resourceVersion") or ""),
                metadata.get("remainingItemCount") or 0,
            )
            if not metadata.get("continue"):
                return
            query["continue"] = str(metadata["continue"])

    def _page(
        self, resource: KindSpec, query: Mapping[str, str], timeouts: Timeouts | None, most: int
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The objects of one page, and the other fields of the list. Raises ApiError."""
        times = timeouts or self._timeouts
        response = self._open("GET", resource.path, query, {"Accept-Encoding": "gzip"}, times, repeats=1)
        until, begun = self._clock() + times.total, b""

        def blocks() -> Iterator[bytes]:
            nonlocal begun
            for block in _blocks(response, most, until, self._clock):
                begun = begun or block[:60]
                yield block

        try:
            return read_list(blocks(), lambda obj, most: self._bounded(with_type_meta(obj, resource), most))
        except NoObject:
            raise ApiError(0, "the response is not a JSON object") from None
        except NoList:
            raise ApiError(0, f"the response for {resource.name} is not a list of objects") from None
        except (ValueError, RecursionError):
            raise ApiError(0, f"the response is not JSON: {begun!r}") from None
        finally:
            response.release_conn()

    def _bounded(self, obj: dict[str, Any], most: int) -> dict[str, Any]:
        return obj if most <= SMALL else self._keep(obj)

    def watch(self, resource: KindSpec, resource_version: str, seconds: float, silence: float) -> Watch:
        """Watch a kind from this resource version, for about `seconds`.

        The watch raises Silent after `silence` seconds without an event or a bookmark.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        times = self._timeouts._replace(read=silence)
        response = self._open("GET", resource.path, query, {"Accept-Encoding": "identity"}, times)
        return Watch(response, resource, silence, self._clock, self._keep)

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        times: Timeouts,
        body: bytes | None = None,
        repeats: int = 0,
    ) -> Any:
        """Send a request, and return the successful response. Raises ApiError."""
        connection = self._current()
        all_headers = {"Accept": "application/json", "User-Agent": USER_AGENT, **headers}
        response = connection.open(HttpCall(method, path, query, all_headers, times.connect, times.read, body, repeats))
        if response.status < 300:
            return response
        if response.status == UNAUTHORIZED:
            self._forget(connection)
        try:
            error_body = _read_body(response, _MAX_ERROR, self._clock() + times.read, self._clock)
        finally:
            response.release_conn()
        raise _rejection(response.status, error_body, response.headers.get("Retry-After", ""))

    def _current(self) -> Connection:
        with self._lock:
            if self._connection is None:
                self._connected_at = self._clock()
                self._connection = self._connect()
            return self._connection

    def _forget(self, used: Connection) -> None:
        """Drop the credentials, so that the next request reads the kubeconfig again, which may have a new token."""
        with self._lock:
            if self._connection is used and self._clock() - self._connected_at >= _RECONNECT_SECONDS:
                self._connection = None


class _PageTooLarge(ApiError):
    """A page exceeds the maximum number of bytes."""


def _read_body(response: Any, limit: int, until: float, clock: Callable[[], float]) -> bytes:
    """Return the body of a response. Raises ApiError if the body is incomplete, too large, or too slow."""
    return b"".join(_blocks(response, limit, until, clock))


def _blocks(response: Any, limit: int, until: float, clock: Callable[[], float]) -> Iterator[bytes]:
    """Yield the body of a response in parts. Raises ApiError if the body is incomplete, too large, or too slow."""
    parts, size = response.stream(_BLOCK, decode_content=True), 0
    while True:
        try:
            part = next(parts, None)
        except Exception as error:  # urllib3's, ssl's, zlib's and http.client's errors have no common root but this
            response.close()
            raise ApiError(0, f"the response was cut off: {type(error).__name__}") from None
        if part is None:
            return
        size += len(part)
        if size > limit or clock() > until:
            response.close()
            raise (
                _PageTooLarge(0, "the response is too large")
                if size > limit
                else ApiError(0, "the response is too slow")
            )
        yield part


def _warnings(headers: list[str]) -> tuple[str, ...]:
    """The texts of all Warning headers; a header may have several."""
    return tuple(re.sub(r"\\(.)", r"\1", text) for header in headers for text in _WARNING.findall(header))


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise ApiError(0, f"the response is not JSON: {data[:60]!r}") from None
    if not isinstance(value, dict):
        raise ApiError(0, "the response is not a JSON object")
    return value


def _rejection(status: int, body: bytes, retry_after: str) -> ApiError:
    """Return the ApiError for an unsuccessful response. `body`: its body, a Status or the page of a proxy."""
    try:
        answer = _object(body)
    except ApiError:
        answer = {}
    message = answer.get("message") or body[:200].decode(errors="replace").strip() or "no reason given"
    seconds = float(retry_after) if retry_after.isdecimal() else 0.0
    token = mapping(answer.get("metadata")).get("continue") or ""
    return error_of(status, " ".join(str(message).split()), seconds, str(token))
