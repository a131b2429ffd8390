"""A watch on an API server: one line of JSON per event, until the connection ends."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.webhook.apiserver.errors import ApiError, Silent, error_of
from forewarn.webhook.apiserver.list_stream import parsing
from forewarn.webhook.apiserver.raw_objects import mapping, with_type_meta

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forewarn.policies.kinds.registry import KindSpec

    Keep = Callable[[dict[str, Any]], dict[str, Any]]
    """Reduces an object to the needed part."""

MAX_LINE: Final = 32 << 20
"""Maximum bytes of a line: an object has at most 3 MiB in etcd, but its JSON is larger."""
_BLOCK: Final = 1 << 16


class EventType(StrEnum):
    """The type of a watch event. BOOKMARK: no change up to a resource version."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Event(NamedTuple):
    """One event, and the kind's resource version after it."""

    type: EventType
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
        rest, heard = b"", self._clock()
        for block in self._blocks():
            *lines, rest = (rest + block).split(b"\n")
            if lines:
                heard = self._clock()
            elif self._clock() - heard > self._silence:
                raise Silent(0, f"no complete watch event for {self._silence:.0f} s")
            elif len(rest) > MAX_LINE:
                raise ApiError(0, f"the watch sent an event of more than {MAX_LINE} bytes")
            yield from (line for line in lines if line.strip())
        if rest.strip() and not self._closed:
            raise ApiError(0, "the watch was cut off in the middle of an event")

    def _blocks(self) -> Iterator[bytes]:
        import urllib3

        blocks = self._response.stream(_BLOCK, decode_content=True)
        while not self._closed:
            try:
                block = next(blocks, None)
            except (urllib3.exceptions.ReadTimeoutError, TimeoutError):
                raise Silent(0, f"no watch event or bookmark for {self._silence:.0f} s") from None
            except Exception as error:  # urllib3's, ssl's and http.client's errors have no common root but this
                if self._closed:
                    return
                raise ApiError(0, f"the watch was cut off: {type(error).__name__}") from None
            if block is None:
                return
            yield block


def _event(line: bytes, resource: KindSpec, keep: Keep) -> Event:
    """Parse one line. Raises ApiError for invalid lines and for ERROR events, with their message."""
    try:
        event = json.loads(line)
        kind, obj = event["type"], event["object"]
        version = mapping(obj.get("metadata")).get("resourceVersion") or ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ApiError(0, f"the watch sent an invalid event: {line[:60]!r}") from None
    if kind == "ERROR":
        code = obj.get("code")
        raise error_of(code if isinstance(code, int) else 0, str(obj.get("message") or "the watch failed"))
    if not isinstance(kind, str) or kind not in EventType.__members__:
        raise ApiError(0, f"the watch sent an event of an unknown type: {str(kind)[:60]!r}")
    return Event(EventType(kind), keep(with_type_meta(obj, resource)), str(version))
