"""Requests to the cluster with the user's permissions, in bounded time. A rejected request is a result, not an
error.
"""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from forewarn.policies.findings import cut, one_line
from forewarn.webhook.apiserver.client import ApiError, ApiServer, Timeouts

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject

_CONNECT, _READ = 4.0, 8.0
"""Timeout of one request in seconds: API servers wait up to 30 s for a webhook, 5 s for forewarn."""
_LARGEST: Final = 4 << 20
"""Maximum bytes of metrics to read."""
PAGE: Final = 500
PAGES: Final = 4
"""Maximum pages of a list to read."""


class Seen(NamedTuple):
    """The result of one request. `why`: why there is no object; "" if there is one.

    `status`: HTTP status of an error (0: no response). `warnings`: warnings that kubectl would print. `text`: a
    response that is not an object, or the error message. `ahead`: seconds by which the responder's clock is ahead of
    this machine's; None if unknown.
    """

    object: dict[str, Any]
    why: str = ""
    status: int = 200
    warnings: tuple[str, ...] = ()
    text: str = ""
    ahead: float | None = None

    @property
    def is_missing(self) -> bool:
        """True if the API server responded with 404."""
        return self.status == 404

    @property
    def exists(self) -> bool:
        """True if the request returned an object."""
        return not self.why


class Listed(NamedTuple):
    """The objects of a list. `is_complete`: all pages were read. `why`: why the list failed; "" if it did not."""

    objects: list[dict[str, Any]]
    is_complete: bool
    why: str = ""
    status: int = 200


class Client:
    """Sends requests to an API server until the time limit. Raises nothing."""

    def __init__(self, api: ApiServer, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._api, self._clock = api, clock
        self._until = clock() + seconds
        self._lists: dict[str, Listed] = {}

    @property
    def remaining(self) -> float:
        """Remaining seconds, at least 0."""
        return max(0.0, self._until - self._clock())

    def get(self, path: str, what: str) -> Seen:
        """Return the object at a path. `what`: its name in messages."""
        return self._asked("GET", path, what)

    def create(self, path: str, obj: ApiObject, what: str, *, dry_run: bool = False) -> Seen:
        """Create an object. `what`: its name in messages. Only for dry runs and reviews, which are not stored."""
        return self._asked("POST", path, what, obj, {"dryRun": "All"} if dry_run else None)

    def text(self, path: str, what: str, query: dict[str, str] | None = None) -> Seen:
        """Return the text at a path that is not an object. `what`: its name in messages."""

        def read(times: Timeouts) -> Seen:
            answer = self._api.text(path, _LARGEST, times, query)
            return Seen({}, text=answer.text, ahead=seconds_ahead(answer.date))

        return self._within_limit(read, what)

    def all(self, path: str, what: str, query: dict[str, str] | None = None) -> Listed:
        """Return the objects of a list, at most PAGES pages, read once. `what`: the name of the list in messages."""
        key = f"{path} {query}"
        if key not in self._lists:
            self._lists[key] = self._all(path, what, query)
        return self._lists[key]

    def _all(self, path: str, what: str, query: dict[str, str] | None) -> Listed:
        objects: list[dict[str, Any]] = []
        token = ""
        for _ in range(PAGES):
            query_ = {**(query or {}), "limit": str(PAGE), **({"continue": token} if token else {})}
            seen = self._asked("GET", path, what, query=query_)
            if not seen.exists:
                return Listed(objects, False, seen.why, seen.status)
            items, metadata = seen.object.get("items"), seen.object.get("metadata")
            objects += [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
            token = str((metadata.get("continue") if isinstance(metadata, dict) else "") or "")
            if not token:
                return Listed(objects, True)
        return Listed(objects, False)

    def _asked(
        self, method: str, path: str, what: str, body: ApiObject | None = None, query: dict[str, str] | None = None
    ) -> Seen:
        def ask(times: Timeouts) -> Seen:
            answer = self._api.ask(method, path, query, body, timeouts=times)
            return Seen(answer.object, warnings=answer.warnings)

        return self._within_limit(ask, what)

    def _within_limit(self, ask: Callable[[Timeouts], Seen], what: str) -> Seen:
        left = self.remaining
        if not left:
            return Seen({}, f"no time left to read {what}", 0)
        try:
            return ask(Timeouts(min(_CONNECT, left), min(_READ, left), min(_READ, left)))
        except ApiError as error:
            if error.rejected:
                return Seen({}, f"no permission to read {what} ({error.status})", error.status, text=error.problem)
            problem = cut(one_line(error.problem), 250)
            message = f"{what}: {problem}" + (f" ({error.status})" if error.status else "")
            return Seen({}, message, error.status, text=error.problem)


def seconds_ahead(date: str) -> float | None:
    """Return by how many seconds the clock behind a `Date` header is ahead of this machine's; None if invalid."""
    try:
        return parsedate_to_datetime(date).timestamp() - time()
    except (ValueError, TypeError):
        return None


def part(name: str) -> str:
    """A name, escaped for a URL path."""
    return quote(name, safe="")
