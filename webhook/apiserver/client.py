"""Requests to an API server: one object, a list in pages, a watch, a change. JSON in, JSON out.

Sources: apiserver pkg/endpoints/handlers (list, watch), kubernetes.io/docs/reference/using-api/api-concepts.
"""

from __future__ import annotations

import json
import os
import re
from codecs import iterdecode
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from os.path import exists, expanduser, isfile
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from forewarn.policies.base.findings import one_line
from forewarn.policies.cli.commands.impersonation import AS, AS_GROUPS, AS_UID, groups_of
from forewarn.policies.inputs.manifests.documents import Fault
from forewarn.policies.inputs.manifests.reading import values
from forewarn.policies.inputs.sources.json_stream import Window, scan_once
from forewarn.policies.kubernetes.objects.extent import max_memory_of
from forewarn.policies.kubernetes.objects.workload import LAST_APPLIED

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.kinds.registry import KindSpec

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
FIX_OF_CONNECTION: Final = "check kubectl cluster-info, or pass --context NAME or --kubeconfig FILE"
EXPIRED: Final = 410
_MAX_KUBECONFIG: Final = 16 << 20


class ApiError(OSError):
    """The error if there is no response, or an error response: the HTTP status (0 for no response) and the message.
    `retry_after`: seconds to wait before a retry, as the server requests. `continue_token`: continues an expired list.
    """

    def __init__(self, status: int, problem: str, retry_after: float = 0.0, continue_token: str = "") -> None:
        super().__init__(f"{problem} ({status})" if status else problem)
        self.status, self.problem = status, problem
        self.retry_after, self.continue_token = retry_after, continue_token

    @property
    def rejected(self) -> bool:
        """Whether the credentials are invalid, or lack the permission."""
        return self.status in (UNAUTHORIZED, FORBIDDEN)


class UnknownContext(ApiError):
    """The error for a context that is not in the kubeconfig."""


class ListAgain(ApiError):
    """The error if the client must list again, because its resource version does not lead to the current state."""


class Expired(ListAgain):
    """The error if the resource version or the continue token is too old."""


class Silent(ListAgain):
    """The error for a watch without events for longer than the interval of bookmarks: the connection is dead."""


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def with_type_meta(obj: dict[str, Any], resource: KindSpec, *, whole: bool = False) -> dict[str, Any]:
    """Set kind and apiVersion, which lists omit, and remove fields that forewarn does not read; return `obj`.

    Raises ListAgain for an object of another kind, unless `resource` has no kind. The removed fields (managedFields and
    the annotation of kubectl apply) are often half of the size. `whole`: keep the annotation of workloads, from which
    `applied_to` reads what the next apply removes.
    """
    expected = resource.api_version, resource.kind
    if resource.kind and (obj.get("apiVersion") or expected[0], obj.get("kind") or expected[1]) != expected:
        raise ListAgain(0, f"the API server sent an object of another kind than {resource.name}")
    obj["apiVersion"], obj["kind"] = expected
    metadata = mapping(obj.get("metadata"))
    metadata.pop("managedFields", None)
    if not (whole and resource.template):
        mapping(metadata.get("annotations")).pop(LAST_APPLIED, None)
    return obj


_LARGE: Final = 128 * 1024
_ONE: Final = Lock()


def parsing(size: int) -> AbstractContextManager[object]:
    """Return a context manager to hold while parsing `size` characters: only one large text is parsed at a time.

    Parsed text needs up to 24 times the memory of the text.
    """
    return _ONE if size > _LARGE else nullcontext()


class NoList(ValueError):
    """The error for JSON that is not a list of objects."""


class NoObject(ValueError):
    """The error for JSON that is not an object."""


def read_list(
    blocks: Iterator[bytes], take: Callable[[dict[str, Any], int], dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Parse a list; return the results of `take` for each of `items`, and the other fields.

    `take`: called with an object, and the maximum memory that the object needs. Raises ValueError, RecursionError, and
    the errors of `blocks`.
    """

    def item(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
        with parsing(len(text) - start):
            obj, end = scan_once(text, start)
            return take(obj, max_memory_of(text, start, end)) if isinstance(obj, dict) else None, end

    window = Window(_Received(blocks), _BLOCK)
    if window.next_character() != "{":
        window.value()
        raise NoObject
    objects: list[dict[str, Any]] = []
    fields: dict[str, Any] = {}
    for key in window.names():
        if key == "items" and window.next_character() == "[":
            objects, fields[key] = [window.scan(item) for _ in window.entries("[", "]")], None
        else:
            fields[key] = window.value()
    if window.next_character():
        raise ValueError("more than one value")
    if fields.get("items", ()) is not None or None in objects:
        raise NoList
    return objects, fields


class _Received:
    """The text of received blocks, as a stream."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._texts = iterdecode(blocks, "utf-8", "surrogatepass")

    def read(self, size: int) -> str:
        """Return at least `size` characters, or fewer at the end of the text."""
        parts = list[str]()
        while size > 0 and (text := next(self._texts, None)) is not None:
            parts.append(text)
            size -= len(text)
        return "".join(parts)


if TYPE_CHECKING:
    Keep = Callable[[dict[str, Any]], dict[str, Any]]
    """Reduces an object to the needed part."""

MAX_LINE: Final = 32 << 20
"""Maximum bytes of a line: an object has at most 3 MiB in etcd, but its JSON is larger."""
_WATCH_BLOCK: Final = 1 << 16


EVENT_TYPES: Final = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
"""The types of watch events. BOOKMARK: no change up to a resource version."""


class Event(NamedTuple):
    """One event, and the resource version of the kind after it. `type`: one of EVENT_TYPES."""

    type: str
    object: dict[str, Any]
    resource_version: str


class Watch:
    """The events of one kind. The iteration ends if the server ends the watch; any other end raises an ApiError.

    Raises Expired if the server no longer has the resource version, and Silent after too long without events.
    """

    def __init__(
        self, response: Any, resource: KindSpec, silence: float, clock: Callable[[], float], keep: Keep
    ) -> None:
        self._keep = keep
        self._response, self._resource, self._silence, self._clock = response, resource, silence, clock
        self._closed = False

    def __iter__(self) -> Iterator[Event]:
        """Yield the events in order."""
        try:
            for line in self._lines():
                with parsing(len(line)):
                    event = _event(line, self._resource, self._keep)
                yield event
        finally:
            self._response.close()

    def close(self) -> None:
        """End the watch and its iteration; callable from any thread."""
        self._closed = True
        shutdown = getattr(self._response, "shutdown", None)
        try:
            (shutdown or self._response.close)()
        except (OSError, ValueError, RuntimeError):
            self._response.close()

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines that are not empty. Raises ApiError."""
        rest, heard = bytearray(), self._clock()
        for block in self._blocks():
            first, *others = block.split(b"\n")
            rest += first
            if others:
                heard = self._clock()
                lines = [bytes(rest), *others[:-1]]
                rest = bytearray(others[-1])
                yield from (line for line in lines if line.strip())
            elif self._clock() - heard > self._silence:
                raise Silent(0, f"no complete watch event for {self._silence:.0f} s")
            elif len(rest) > MAX_LINE:
                raise ListAgain(0, f"the watch sent an event of more than {MAX_LINE} bytes")
        if rest.strip() and not self._closed:
            raise ApiError(0, "the watch was cut off in the middle of an event")

    def _blocks(self) -> Iterator[bytes]:
        import urllib3

        blocks = self._response.stream(_WATCH_BLOCK, decode_content=True)
        while not self._closed:
            try:
                block = next(blocks, None)
            except (urllib3.exceptions.ReadTimeoutError, TimeoutError):
                raise Silent(0, f"no watch event or bookmark for {self._silence:.0f} s") from None
            except Exception as error:  # errors of urllib3, ssl and http.client have no other common base class
                if self._closed:
                    return
                raise ApiError(0, f"the watch was cut off: {type(error).__name__}") from None
            if block is None:
                return
            yield block


def _event(line: bytes, resource: KindSpec, keep: Keep) -> Event:
    """Parse one line. Raises ListAgain for invalid lines and for ERROR events, with their message."""
    try:
        event = json.loads(line)
        kind, obj = event["type"], event["object"]
        version = mapping(obj.get("metadata")).get("resourceVersion") or ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ListAgain(0, f"the watch sent an invalid event: {line[:60]!r}") from None
    if kind == "ERROR":
        code = obj.get("code")
        why = one_line(str(obj.get("message") or "the watch failed"))[:_MAX_PROBLEM]
        raise (Expired if code == EXPIRED else ListAgain)(code if isinstance(code, int) else 0, why)
    if kind not in EVENT_TYPES:
        raise ListAgain(0, f"the watch sent an event of an unknown type: {str(kind)[:60]!r}")
    return Event(kind, keep(with_type_meta(obj, resource)), str(version))


USER_AGENT: Final = "forewarn"
PAGE: Final = 500
"""Maximum number of objects in a page, as in client-go's pager."""
_RECONNECT_SECONDS: Final = 10.0
"""Seconds between two reads of the kubeconfig after a 401: the kubeconfig's exec plugin may ask a user to log in."""
SMALL: Final = 64 * 1024
"""Maximum bytes of memory of an object to which `keep` does not apply."""
_BLOCK: Final = 1 << 16
_MAX_BODY: Final = 1 << 30
_MAX_PAGE_BYTES: Final = 64 << 20
"""Maximum bytes of a response; a larger page of a list is requested again with fewer objects."""
_FEWER: Final = 8
_MAX_ERROR: Final = 1 << 16
_MAX_PROBLEM: Final = 1_000
"""Maximum characters of the API server's reason in an error."""
MAX_RETRY_AFTER: Final = 30.0
"""Maximum seconds for which a `Retry-After` header may delay a retry."""


class Timeouts(NamedTuple):
    """Timeouts in seconds: to connect, between two reads of a response, and for its body.

    `total` counts from the end of the header, and is compared after each read. It does not limit a watch.
    """

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
    """A part of a list."""

    objects: list[dict[str, Any]]
    resource_version: str


class ApiServer:
    """A client of one API server. Thread-safe. Every error is an ApiError, and thus an OSError."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        clock: Callable[[], float] = monotonic,
        keep: Keep | None = None,
    ) -> None:
        """Create the client; `connect` runs at the first request.

        `keep`: reduces each listed or watched object of more than SMALL bytes of memory, before the next object is
        parsed. None: keeps objects whole.
        """
        self._keep = keep
        self._connect, self._timeouts, self._clock = connect, timeouts, clock
        self._lock = Lock()
        self._connection: Connection | None = None
        self._connected_at = -_RECONNECT_SECONDS

    def open(self) -> ApiServer:
        """Find the address and credentials now instead of at the first request; return self. Raises ApiError."""
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

        `content_type`: that of the body; for PATCH, the patch type.
        """
        times = timeouts or self._timeouts
        headers = {"Accept-Encoding": "gzip"}
        if body is not None:
            headers["Content-Type"] = content_type
        repeats = 1 if method == "GET" else 0
        data = None if body is None else json.dumps(body).encode()
        call = HttpCall(method, path, query or {}, headers, times, data, repeats)
        received, answered = self._exchange(call, _MAX_PAGE_BYTES)
        return Answer(_object(received), _warnings(answered.getlist("Warning")), date=answered.get("Date", ""))

    def text(self, path: str, limit: int, times: Timeouts, query: Mapping[str, str] | None = None) -> Answer:
        """Return the text at a path, for example a Pod's response through the API server; at most `limit` bytes."""
        headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
        received, answered = self._exchange(HttpCall("GET", path, query or {}, headers, times, repeats=1), limit)
        return Answer({}, text=received.decode(errors="replace"), date=answered.get("Date", ""))

    def get(
        self, path: str, query: Mapping[str, str] | None = None, timeouts: Timeouts | None = None
    ) -> dict[str, Any]:
        return self.ask("GET", path, query, timeouts=timeouts).object

    def pages(
        self, resource: KindSpec, limit: int = PAGE, *, consistent: bool = True, timeouts: Timeouts | None = None
    ) -> Iterator[Page]:
        """Yield all objects of a kind in pages (`limit` 0: all at once), with kind and apiVersion filled in.

        `consistent`: raise Expired if the continue token is too old; false: continue with a newer list.

        Raises ApiError, also for a list that ends too early or never ends.
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
            token = str(metadata.get("continue") or "")
            if not token and metadata.get("remainingItemCount"):
                raise ApiError(0, f"the list of {resource.name} ended before its last page")
            if token and (not objects or token == query.get("continue")):
                raise ApiError(0, f"the list of {resource.name} does not go on after a page")
            yield Page(objects, str(metadata.get("resourceVersion") or ""))
            if not token:
                return
            query["continue"] = token

    def _page(
        self, resource: KindSpec, query: Mapping[str, str], timeouts: Timeouts | None, limit: int
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the objects of one page, and the other fields of the list. Raises ApiError."""
        times = timeouts or self._timeouts
        response = self._open(HttpCall("GET", resource.path, query, {"Accept-Encoding": "gzip"}, times, repeats=1))
        until, begun = self._clock() + times.total, b""

        def blocks() -> Iterator[bytes]:
            nonlocal begun
            for block in _blocks(response, limit, until, self._clock):
                begun = begun or block[:60]
                yield block

        try:
            objects, page = read_list(blocks(), lambda obj, limit: self._bounded(obj, resource, limit))
        except NoObject:
            raise ApiError(0, "the response is not a JSON object") from None
        except NoList:
            raise ApiError(0, f"the response for {resource.name} is not a list of objects") from None
        except (ValueError, RecursionError):
            raise ApiError(0, f"the response is not JSON: {begun!r}") from None
        finally:
            response.close()  # a connection is reused only if its response was read completely
        if not resource.optional and page.get("kind", f"{resource.kind}List") != f"{resource.kind}List":
            raise ApiError(0, f"the response for {resource.name} is a list of another kind")
        return objects, page

    def _bounded(self, obj: dict[str, Any], resource: KindSpec, limit: int) -> dict[str, Any]:
        kept = with_type_meta(obj, resource, whole=self._keep is None)
        return kept if limit <= SMALL or self._keep is None else self._keep(kept)

    def watch(self, resource: KindSpec, resource_version: str, seconds: float, silence: float, name: str = "") -> Watch:
        """Watch a kind for about `seconds`. It raises Silent after `silence` seconds without an event or bookmark.

        `resource_version`: "" to report present objects, too. `name`: of the only object to watch.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, int(seconds))),
            **({"fieldSelector": f"metadata.name={name}"} if name else {}),
        }
        times = self._timeouts._replace(read=silence)
        response = self._open(HttpCall("GET", resource.path, query, {"Accept-Encoding": "identity"}, times))
        return Watch(response, resource, silence, self._clock, self._keep or dict)

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    def _exchange(self, call: HttpCall, limit: int) -> tuple[bytes, Any]:
        """Send a request; return the body (at most `limit` bytes) and the headers of the response. Raises ApiError."""
        response = self._open(call)
        try:
            until = self._clock() + call.times.total
            return b"".join(_blocks(response, limit, until, self._clock)), response.headers
        finally:
            response.close()

    def _open(self, call: HttpCall) -> Any:
        """Send a request, and return the successful response. Raises ApiError."""
        connection = self._current()
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT, **call.headers}
        response = connection.open(call._replace(headers=headers))
        if response.status < 300:
            return response
        if response.status == UNAUTHORIZED:
            # The next request reads the kubeconfig again, which may have a new token.
            with self._lock:
                if self._connection is connection and self._clock() - self._connected_at >= _RECONNECT_SECONDS:
                    self._connection = None
        error_body = b""
        with suppress(ApiError):  # the status is enough if the body is incomplete
            error_body = b"".join(_blocks(response, _MAX_ERROR, self._clock() + call.times.read, self._clock))
        response.close()
        # The body is a Status, or the page of a proxy.
        retry_after = response.headers.get("Retry-After", "")
        try:
            answer = _object(error_body)
        except ApiError:
            answer = {}
        message = answer.get("message") or error_body[:200].decode(errors="replace").strip() or "no reason given"
        seconds = min(float(retry_after), MAX_RETRY_AFTER) if retry_after.isdecimal() else 0.0
        token = mapping(answer.get("metadata")).get("continue") or ""
        error = Expired if response.status == EXPIRED else ApiError
        raise error(response.status, one_line(str(message))[:_MAX_PROBLEM], seconds, str(token))

    def _current(self) -> Connection:
        with self._lock:
            if self._connection is None:
                self._connected_at = self._clock()
                self._connection = self._connect()
            return self._connection


class _PageTooLarge(ApiError):
    """The error for a page that exceeds the maximum number of bytes."""


def _blocks(response: Any, limit: int, until: float, clock: Callable[[], float]) -> Iterator[bytes]:
    """Yield the body of a response in parts. Raises ApiError if the body is incomplete, too large, or too slow."""
    parts, size = response.stream(_BLOCK, decode_content=True), 0
    while True:
        try:
            part = next(parts, None)
        except Exception as error:  # errors of urllib3, ssl, zlib and http.client have no other common base class
            response.close()
            raise ApiError(0, f"the response was cut off: {type(error).__name__}") from None
        if part is None:
            return
        size += len(part)
        if size > limit or clock() > until:
            response.close()
            fault, why = (_PageTooLarge, "large") if size > limit else (ApiError, "slow")
            raise fault(0, f"the response is too {why}")
        yield part


def _warnings(headers: list[str]) -> tuple[str, ...]:
    """Return the texts of Warning headers. API servers write UTF-8; http.client decodes latin-1."""
    texts = (text for header in headers for text in _WARNING.findall(header))
    return tuple(re.sub(r"\\(.)", r"\1", text.encode("latin-1").decode(errors="replace")) for text in texts)


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise ApiError(0, f"the response is not JSON: {data[:60]!r}") from None
    if not isinstance(value, dict):
        raise ApiError(0, "the response is not a JSON object")
    return value


_TOKEN: Final = "!#$&'*+-.^_`|~"
"""Characters, besides letters and digits, that Go does not escape in the name of a header. `%` is escaped."""


def headers_of(user: Any) -> list[tuple[str, str]]:
    """Return the headers that impersonate a user, in order; none if nothing is to be impersonated.

    `user`: the `user` of the kubeconfig's context. Options replace its fields one by one. Raises ApiError for fields
    of a wrong type, and for groups, uid or extra without a user, as kubectl does.
    """
    fields = user if isinstance(user, dict) else {}
    name = os.environ.get(AS) or fields.get("as") or ""
    uid = os.environ.get(AS_UID) or fields.get("as-uid") or ""
    groups = groups_of(os.environ.get(AS_GROUPS, "")) or fields.get("as-groups") or []
    extra = fields.get("as-user-extra") or {}
    if not any((name, uid, groups, extra)):
        return []
    if not (isinstance(extra, dict) and all(map(_are_texts, ([name, uid], groups, [*extra], *extra.values())))):
        raise ApiError(0, "the kubeconfig's as, as-uid, as-groups or as-user-extra has a wrong type")
    if not name:
        fix = "Fix: add --as, or `as` in the kubeconfig"
        raise ApiError(0, f"groups, uid or extra to impersonate without a user. {fix}")
    headers = [("Impersonate-User", name)]
    headers += [("Impersonate-Uid", uid)] if uid else []
    headers += [("Impersonate-Group", group) for group in groups]
    for key, several in extra.items():
        headers += [(f"Impersonate-Extra-{quote(key, safe=_TOKEN)}", value) for value in several]
    return [(key, value.encode().decode("latin-1")) for key, value in headers]


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


_POOL: Final = 32
"""Maximum number of idle connections: one for each watched kind, and a few for other requests."""


class HttpCall(NamedTuple):
    """One HTTP request."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    times: Timeouts
    body: bytes | None = None
    repeats: int = 0
    """Maximum number of retries if an idle connection was closed."""


class Connection:
    """A connection pool to one API server, with credentials that the kubernetes client renews. Thread-safe."""

    def __init__(self, configuration: Any, pool: Any, impersonation: Sequence[tuple[str, str]] = ()) -> None:
        self._configuration, self._pool, self._impersonation = configuration, pool, impersonation
        self._base = str(configuration.host).rstrip("/")
        self._lock = Lock()

    def open(self, call: HttpCall) -> Any:
        """Send a request; return the urllib3 response with its body unread. Raises ApiError without a response."""
        import urllib3

        try:
            return self._send(call)
        except urllib3.exceptions.ProtocolError as error:
            # The server closed an idle connection while it was reused.
            if not call.repeats:
                raise self._unanswered(error) from None
            return self.open(call._replace(repeats=call.repeats - 1))
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._unanswered(error) from None

    def _send(self, call: HttpCall) -> Any:
        import urllib3

        headers = urllib3.HTTPHeaderDict({**call.headers, **self._credentials()})
        for name, value in self._impersonation:
            headers.add(name, value)
        return self._pool.request(
            call.method,
            f"{self._base}{call.path}" + (f"?{urlencode(call.query)}" if call.query else ""),
            body=call.body,
            headers=headers,
            timeout=urllib3.Timeout(connect=call.times.connect, read=call.times.read),
            retries=False,
            redirect=False,
            preload_content=False,
        )

    def _unanswered(self, error: Exception) -> ApiError:
        return error if isinstance(error, ApiError) else ApiError(0, f"{self._base} does not answer: {_reason(error)}")

    def close(self) -> None:
        self._pool.clear()

    def _credentials(self) -> dict[str, str]:
        """Return the Authorization header with a bearer token, renewed if it expires soon. Raises ApiError."""
        with self._lock:
            try:
                settings = self._configuration.auth_settings().values()
            except Exception as error:  # a credential plugin or an identity provider may raise any exception
                raise ApiError(0, f"cannot renew the credentials: {error}") from None
        return {str(s["key"]): str(s["value"]).strip() for s in settings if s.get("in") == "header" and s.get("value")}


def connect(context: str = "") -> Connection:
    """Connect with the kubeconfig (KUBECONFIG, else ~/.kube/config), or as a Pod if there is none.

    `context`: "" for the current context. Raises ApiError if a package, file or context is missing.
    """
    try:
        import urllib3
        from kubernetes import client, config
    except ModuleNotFoundError as missing:
        raise ApiError(0, f"{missing.name} is not installed; install forewarn with the extra `live`") from None
    configuration = client.Configuration()
    user = None
    if context or _kubeconfig() or "KUBERNETES_SERVICE_HOST" not in os.environ:
        user = _read_kubeconfig(config, configuration, context)
    else:
        try:
            config.load_incluster_config(client_configuration=configuration)
        except Exception as error:
            why = f"cannot use the Pod's service account: {_reason(error).rstrip('.')} (automountServiceAccountToken?)"
            raise ApiError(0, why) from None
    configuration.connection_pool_maxsize = _POOL
    if not configuration.verify_ssl:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # the kubeconfig disables verification
    return Connection(configuration, client.ApiClient(configuration).rest_client.pool_manager, headers_of(user))


def contexts() -> list[str]:
    """Return the names of the kubeconfig's contexts, sorted. Raises ApiError."""
    path = _required_kubeconfig("")
    try:
        return sorted({str(context["name"]) for context in _merged_kubeconfig(path)["contexts"]})
    except ModuleNotFoundError as missing:
        raise ApiError(0, f"{missing.name} is not installed; install forewarn with the extra `live`") from None
    except Exception:  # the kubernetes client may raise any exception for a malformed kubeconfig
        raise ApiError(0, f"cannot read the contexts of the kubeconfig {path}") from None


def _required_kubeconfig(otherwise: str) -> str:
    path = _kubeconfig()
    if not path:
        given = os.environ.get("KUBECONFIG")
        where = f"$KUBECONFIG: {given}" if given else "$KUBECONFIG, ~/.kube/config"
        raise ApiError(0, f"no kubeconfig found ({where}){otherwise}")
    return path


def _read_kubeconfig(config: Any, configuration: Any, context: str) -> Any:
    """Fill the configuration from the kubeconfig, and return the fields of the context's user."""
    path = _required_kubeconfig(" and not running in a cluster")
    try:
        config.load_kube_config(config_file=path, context=context or None, client_configuration=configuration)
        return _user_of(path, context)
    except Exception as error:  # the kubernetes client may raise any exception for a malformed kubeconfig
        entries = None
        with suppress(ApiError):
            entries = contexts()
        if context and entries is not None and context not in entries:
            why = f'context "{context}" not found in {path}; known: {", ".join(entries) or "none"}'
            raise UnknownContext(0, why) from None
        raise ApiError(0, f"cannot use the kubeconfig {path}: {_reason(error)}") from None


def _merged_kubeconfig(path: str) -> Any:
    """Return the merged kubeconfig. Raises any exception if it is missing or malformed."""
    from kubernetes import config

    return config.kube_config.KubeConfigMerger(path).config.value


def _user_of(path: str, context: str) -> Any:
    """Return the fields of a context's user. Raises any exception if the kubeconfig is missing or malformed."""
    value = _merged_kubeconfig(path)
    context = context or value["current-context"]
    name = next(entry for entry in value["contexts"] if entry["name"] == context).value["context"].get("user")
    return next((entry.value.get("user") for entry in value.get("users") or () if entry["name"] == name), None)


def context_and_user(context: str) -> tuple[str, str]:
    """Return the name of a context ("" for the current one), and the user that its requests impersonate; "" if there
    is none, or if the kubeconfig is missing or malformed.
    """
    user = None
    with suppress(Exception):  # missing or malformed
        path = _kubeconfig()
        name = context or _merged_kubeconfig(path)["current-context"]
        user, context = _user_of(path, name), name
    with suppress(ApiError):
        names = (value for key, value in headers_of(user) if key == "Impersonate-User")
        return context, next(names, "").encode("latin-1").decode(errors="replace")
    return context, ""


def _kubeconfig() -> str:
    """Return the existing kubeconfig files, separated as in KUBECONFIG; "" if none exists."""
    given = os.environ.get("KUBECONFIG") or "~/.kube/config"
    # os.path keeps ~ if there is no home directory, while pathlib raises.
    paths = [path for path in given.split(os.pathsep) if path and exists(expanduser(path))]
    for path in filter(isfile, map(expanduser, paths)):
        _check_aliases(path)
    return os.pathsep.join(paths)


def _check_aliases(path: str) -> None:
    """Raise ApiError for a kubeconfig that is too large, or has too many aliases, which the client would expand."""
    with open(path, "rb") as file:
        text = file.read(_MAX_KUBECONFIG + 1)
    try:
        if len(text) > _MAX_KUBECONFIG:
            raise Fault(f"larger than {_MAX_KUBECONFIG >> 20} MiB")
        if b"&" in text:
            deque(values(text, path), 0)
    except Fault as fault:
        raise ApiError(0, f"cannot use the kubeconfig {path}: {fault.message}") from None


def _reason(error: BaseException) -> str:
    """Return the root cause of an error in one line, without urllib3's texts about the pool."""
    cause = getattr(error, "reason", None)
    if isinstance(cause, BaseException):
        return _reason(cause)
    cause = error.__cause__ or error
    text = str(getattr(cause, "strerror", None) or cause) or type(error).__name__
    return " ".join(text.rpartition(">: ")[2].split())
