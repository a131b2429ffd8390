"""Follows one kind: list, then watch from there; watch again when the stream ends, list again when it must.

Source: client-go tools/cache/reflector.go (order, times, jitter); a dead stream is noticed here, where it is not there.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from forewarn.webhook.apiserver import ApiError, Expired, Silent
from forewarn.webhook.apiserver.client import PAGE
from forewarn.webhook.informer.deltas import Changed, Heard, ListBegins, Listed, ListEnds
from forewarn.webhook.logs import LOGGER, log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forewarn.policies.kinds.registry import KindSpec
    from forewarn.webhook.apiserver import Page, Watch
    from forewarn.webhook.informer.deltas import Delta


class Pace(NamedTuple):
    """Times in seconds."""

    watch: float = 300.0
    """Minimum duration of a watch; the maximum is twice as long, to spread the load of API servers."""
    silence: float = 90.0
    """Bookmarks arrive every minute. After so many seconds without one, the connection is dead; list the kind again."""
    least: float = 0.8
    most: float = 5.0
    """Waiting after the first failure in a row, doubled after each further one, and the longest: after an API server's
    restart everything is there again within that."""
    calm: float = 60.0
    """A watch that lived so long makes up for the failures before it."""


DEFAULT_PACE: Final = Pace()


@dataclass(slots=True)
class Backoff:
    """Waiting times after failures. `random`: between 0 and 1, so that clients do not retry at the same time."""

    random: Callable[[], float]
    pace: Pace = DEFAULT_PACE
    failures: int = 0

    def next(self, at_least: float = 0.0) -> float:
        """Seconds to wait after one more failure; at least the time that the server requested."""
        longest = min(self.pace.most, self.pace.least * 2.0 ** min(self.failures, 16))
        self.failures += 1
        return max(at_least, longest * (0.5 + self.random() / 2))


class ListerWatcher(Protocol):
    """The methods of an API server that a reflector needs."""

    def pages(self, resource: KindSpec, limit: int = ...) -> Iterator[Page]:
        """Every object, a page at a time."""

    def watch(self, resource: KindSpec, resource_version: str, seconds: float, silence: float) -> Watch:
        """Events of the kind after a resource version."""


class Outlets(NamedTuple):
    """The callbacks of a reflector.

    `tell` may block while the owner is busy. `wait` sleeps for a number of seconds, and returns true to stop.
    """

    tell: Callable[[Delta], None]
    trouble: Callable[[KindSpec, str, ApiError | None], None]
    wait: Callable[[float], bool]
    clock: Callable[[], float] = monotonic


_TALK: Final = {
    403: "allow it in the ClusterRole",
    401: "the API server rejects the credentials: check the service account token or kubeconfig",
}


class Reflector:
    """One kind, on one thread. `fault`: the current error; safe to read from any thread."""

    def __init__(self, api: ListerWatcher, resource: KindSpec, outlets: Outlets, backoff: Backoff) -> None:
        self.resource = resource
        self.fault: ApiError | None = None
        self._api, self._outlets, self._backoff = api, outlets, backoff
        self._version, self._limit, self._verb = "", PAGE, "list"
        self._moved, self._listed = True, 0.0
        self._watch: Watch | None = None
        self._stopped = False

    def run(self) -> None:
        """List and watch until stopped."""
        while not self._stopped:
            pause = self.step()
            if pause and self._outlets.wait(pause):
                return

    def stop(self) -> None:
        """Stop soon, from any thread."""
        self._stopped = True
        if self._watch is not None:
            self._watch.close()

    def step(self) -> float:
        """One list or watch, to its end; how many seconds to wait before the next."""
        started = self._outlets.clock()
        try:
            if self._version:
                self._follow()
            else:
                self._list()
                return 0.0
        except ApiError as error:
            return 0.0 if self._stopped else self._failed(error, self._outlets.clock() - started)
        except Exception:
            LOGGER.exception("internal error while watching %s", self.resource.name)
            return self._failed(ApiError(0, "internal error; see the log"), 0.0)
        if self._outlets.clock() - started >= self._backoff.pace.calm:
            self._backoff.failures = 0
            return 0.0
        return 0.0 if self._stopped else self._backoff.next()

    def _list(self) -> None:
        self._verb = "list"
        tell, clock, resource = self._outlets.tell, self._outlets.clock, self.resource
        tell(ListBegins(resource))
        version = ""
        for page in self._api.pages(resource, self._limit):
            version = page.resource_version
            tell(Listed(resource, page.objects, clock()))
        if not version:
            raise ApiError(0, f"the list of {resource.name} has no resourceVersion")
        tell(ListEnds(resource, clock()))
        self._version, self._limit, self._moved, self._listed = version, PAGE, False, clock()
        self._well()

    def _follow(self) -> None:
        """Watch until the server ends it. Raises ApiError."""
        self._verb = "watch"
        pace, clock, tell = self._backoff.pace, self._outlets.clock, self._outlets.tell
        seconds = pace.watch * (1 + self._backoff.random())
        self._watch = self._api.watch(self.resource, self._version, seconds, pace.silence)
        if self._stopped:
            self._watch.close()  # it was opened while whoever said stop saw none
        tell(Heard(self.resource, clock()))
        self._well()
        for event in self._watch:
            if event.type == "BOOKMARK":
                tell(Heard(self.resource, clock()))
            else:
                tell(Changed(self.resource, event.object, event.type == "DELETED", clock()))
            self._version, self._moved = event.resource_version or self._version, True

    def _failed(self, error: ApiError, lasted: float) -> float:
        """Note what went wrong; the seconds to wait."""
        if lasted >= self._backoff.pace.calm:
            self._backoff.failures = 0
        if isinstance(error, Expired) and self._verb == "list":
            self._limit = 0  # so slow that pages expire: all at once
        if isinstance(error, Expired | Silent):
            self._version = ""
            self._outlets.trouble(self.resource, "expired" if isinstance(error, Expired) else "silent", error)
            old = self._outlets.clock() - self._listed >= self._backoff.pace.most
            if self._verb == "watch" and (self._moved or old):
                return 0.0  # at once, but a list that did not help is not followed by another
        else:
            self._say(error)
            self._outlets.trouble(self.resource, str(error.status or "broken"), error)
        self.fault = None if isinstance(error, Expired | Silent) else error
        return self._backoff.next(error.retry_after)

    def _say(self, error: ApiError) -> None:
        """Log a failure once for as long as it stays the same."""
        if self.fault is not None and str(self.fault) == str(error):
            return
        fields: dict[str, object] = {"verb": self._verb, "resource": self.resource.plural, "group": self.resource.group}
        fields |= {"status": error.status, "reason": error.problem}
        if error.status in _TALK:
            fields["fix"] = _TALK[error.status]
        lacks = f"RBAC does not allow forewarn to {self._verb} {self.resource.name}" if error.status == 403 else ""
        log_event(
            lacks or f"cannot {self._verb} {self.resource.name}",
            fields,
            logging.ERROR if error.refused else logging.WARNING,
        )

    def _well(self) -> None:
        if self.fault is not None:
            log_event(f"can {self._verb} {self.resource.name} again", {"resource": self.resource.name})
        self.fault = None
