"""Results of checks, each with its fix, and the requests behind them, with the permissions of the user."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import cache
from importlib.resources import files
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from forewarn.policies.base.findings import brief, grouped, plural
from forewarn.policies.kubernetes.objects.fields import ApiObject, list_at, text_at
from forewarn.webhook.apiserver.client import Answer, ApiError, ApiServer, Timeouts

if TYPE_CHECKING:
    from forewarn.policies.base.documents import Always


MAX_PER_CHECK: Final = 10
"""Maximum number of lines of one check in the report; the last one gives the number of omitted lines."""
AGAIN: Final = "apply the manifests or the chart again (docs/guides/run-the-webhook.md)"
"""Fix for missing objects."""
MAX_LENGTH: Final = 400
"""Maximum characters of a message, which can quote texts of the cluster."""
_MAX_FIX_LENGTH: Final = 1_000
"""Maximum characters of a fix. It is longer, because a truncated command is useless."""


class Status(StrEnum):
    """Result of a check. Only a problem makes the command fail."""

    OK = "ok"
    PROBLEM = "problem"
    WARNING = "warning"
    UNKNOWN = "unknown"
    """Not checked: no permission, no response, or no time left."""


class Line(NamedTuple):
    """One line of the report. `check`: a fixed name, the same on every cluster."""

    area: str
    check: str
    status: Status
    message: str
    fix: Always[str] = ""


class Checks(NamedTuple):
    """The output of `forewarn webhook doctor`."""

    checks: Sequence[Line]


class Area(NamedTuple):
    """Creates the lines of one part of the report. Texts are limited to one line and a maximum length."""

    name: str

    def ok(self, check: str, message: str) -> Line:
        return self._line(check, Status.OK, message, "")

    def problem(self, check: str, message: str, fix: str) -> Line:
        """Return a line for an error or a misleading setting."""
        return self._line(check, Status.PROBLEM, message, fix)

    def warning(self, check: str, message: str, fix: str) -> Line:
        """Return a line for a setting that may be intended."""
        return self._line(check, Status.WARNING, message, fix)

    def unknown(self, check: str, message: str, fix: str = "") -> Line:
        return self._line(check, Status.UNKNOWN, message, fix)

    def absent(self, check: str, seen: Seen, problem: str, fix: str) -> Line:
        """Return a line for an object that was not read: a problem if the object does not exist."""
        return self.problem(check, problem, fix) if seen.is_missing else self.unknown(check, seen.why)

    def _line(self, check: str, status: Status, message: str, fix: str) -> Line:
        return Line(self.name, check, status, brief(message, MAX_LENGTH), brief(fix, _MAX_FIX_LENGTH))


def kubectl_patch(what: str, *changes: object) -> str:
    """Return the kubectl command that applies these changes (JSON Patch) to an object."""
    return f"kubectl patch {what} --type=json -p {shlex.quote(json.dumps(changes))}"


def bounded(lines: Iterable[Line]) -> list[Line]:
    """Return the lines, with at most MAX_PER_CHECK for each check and status; the last line counts the omitted ones."""
    kept = list[Line]()
    for alike in grouped((line[:3], line) for line in lines).values():
        kept += alike[:MAX_PER_CHECK]
        if (more := len(alike) - MAX_PER_CHECK) > 0:
            message = f"{kept[-1].message} (and {plural(more, 'more check')} like this)"
            kept[-1] = kept[-1]._replace(message=message)
    return kept


def summary(lines: Sequence[Line]) -> str:
    """Return a summary of the results in one line."""
    words = {Status.PROBLEM: "problem", Status.WARNING: "warning"}
    counts = {status: sum(line.status is status for line in lines) for status in Status}
    phrases = [plural(counts[status], word) for status, word in words.items() if counts[status]] or ["no problems"]
    if counts[Status.UNKNOWN]:
        phrases.append(f"{counts[Status.UNKNOWN]} not checked")
    return f"{', '.join(phrases)}: {plural(len(lines), 'check')}"


_CONNECT, _READ = 4.0, 8.0
"""Timeouts of one request in seconds: API servers wait up to 30 s for a webhook, and 5 s for forewarn."""
_MAX_SIZE: Final = 4 << 20
"""Maximum bytes of metrics to read."""
PAGE: Final = 500
PAGES: Final = 4
"""Maximum number of pages of a list to read."""


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
        return self._ask_bounded(lambda times: self._api.text(path, _MAX_SIZE, times, query), what)

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
            objects += [item for item in list_at(seen.object, "items") if isinstance(item, dict)]
            token = text_at(seen.object, "metadata", "continue")
            if not token:
                return Listed(objects, True)
        return Listed(objects, False)

    def _asked(
        self, method: str, path: str, what: str, body: ApiObject | None = None, query: dict[str, str] | None = None
    ) -> Seen:
        return self._ask_bounded(lambda times: self._api.ask(method, path, query, body, timeouts=times), what)

    def _ask_bounded(self, ask: Callable[[Timeouts], Answer], what: str) -> Seen:
        left = self.remaining
        if not left:
            return Seen({}, f"no time left to read {what}", 0)
        try:
            answer = ask(Timeouts(min(_CONNECT, left), min(_READ, left), min(_READ, left)))
        except ApiError as error:
            if error.rejected:
                return Seen({}, f"no permission to read {what} ({error.status})", error.status, text=error.problem)
            problem = brief(error.problem, 250)
            message = f"{what}: {problem}" + (f" ({error.status})" if error.status else "")
            return Seen({}, message, error.status, text=error.problem)
        return Seen(answer.object, "", 200, answer.warnings, answer.text, seconds_ahead(answer.date))


def seconds_ahead(date: str) -> float | None:
    """Return by how many seconds the clock behind a `Date` header is ahead of this machine's; None if invalid."""
    try:
        return parsedate_to_datetime(date).timestamp() - time()
    except (ValueError, TypeError):
        return None


@cache
def packaged(name: str) -> dict[str, Any]:
    """Return the contents of a JSON file of this package, which callers must not modify."""
    contents: dict[str, Any] = json.loads(files(__package__ or "").joinpath(name).read_text("utf-8"))
    return contents


def part(name: str) -> str:
    """Return a name with escapes for a part of a URL path."""
    return quote(name, safe="")
