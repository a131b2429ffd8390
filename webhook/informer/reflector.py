"""Follows one kind: list, then watch; watch again when the stream ends, and list again when necessary.

Source: client-go tools/cache/reflector.go (order, times, jitter). Unlike client-go, a reflector here detects dead
streams.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from forewarn.webhook.apiserver import ApiError, Expired, Silent
from forewarn.webhook.apiserver.client import PAGE
from forewarn.webhook.informer.state import Changed, ListCompleted, Listed, ListStarted, Responded
from forewarn.webhook.logs import LOGGER, log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from forewarn.policies.kinds.registry import KindSpec
    from forewarn.webhook.apiserver import Page, Watch
    from forewarn.webhook.informer.state import Delta


class Pace(NamedTuple):
    """Timing of a reflector, in seconds. `least`: the wait after the first failure. `longest`: the maximum wait."""

    watch: float = 300.0
    """Minimum duration of a watch; the maximum is twice as long, to spread the load of API servers."""
    silence: float = 90.0
    """Maximum time without a bookmark, which arrives every minute. After it, the connection is dead: list again."""
    least: float = 0.8
    longest: float = 5.0
    """Maximum wait after failures. `least` is doubled after each further failure in a row.

    The limit is short, so that all kinds are listed again soon after an API server's restart.
    """
    calm: float = 60.0
    """Minimum duration of a watch that resets the number of failures."""


DEFAULT_PACE: Final = Pace()


@dataclass(slots=True)
class Backoff:
    """Seconds to wait after failures. `random`: returns 0 to 1, so that clients do not retry at the same time."""

    random: Callable[[], float]
    pace: Pace = DEFAULT_PACE
    failures: int = 0

    def next(self, at_least: float = 0.0) -> float:
        """Return the seconds to wait after one more failure. `at_least`: the seconds that the server requested."""
        longest = min(self.pace.longest, self.pace.least * 2.0 ** min(self.failures, 16))
        self.failures += 1
        return max(at_least, longest * (0.5 + self.random() / 2))


class ListerWatcher(Protocol):
    """The methods of an API server that a reflector needs."""

    def pages(self, resource: KindSpec, limit: int = ...) -> Iterator[Page]:
        """Yield all objects of the kind, one page at a time."""

    def watch(self, resource: KindSpec, resource_version: str, seconds: float, silence: float) -> Watch:
        """Return the watch of the kind after a resource version. `silence`: seconds without data until the watch
        fails.
        """


class Outlets(NamedTuple):
    """The callbacks of a reflector.

    `notify`: sends a message to the owner of the cache; may block while the owner is busy. `trouble`: called for each
    failure. `wait`: sleeps for a number of seconds, and returns true to stop.
    """

    notify: Callable[[Delta], None]
    trouble: Callable[[KindSpec, str, ApiError | None], None]
    wait: Callable[[float], bool]
    clock: Callable[[], float] = monotonic


LASTING_SECONDS: Final = 30.0
"""Seconds after which a rejection is an error in the log."""
_TALK: Final = {
    403: "allow it in the ClusterRole",
    401: "the API server rejects the credentials: check the service account token or kubeconfig",
}


class Reflector:
    """Follows one kind, on one thread. `fault`: the current error; any thread may read it."""

    def __init__(self, api: ListerWatcher, resource: KindSpec, outlets: Outlets, backoff: Backoff) -> None:
        self.resource = resource
        self.fault: ApiError | None = None
        self._api, self._outlets, self._backoff = api, outlets, backoff
        self._version, self._limit, self._verb = "", PAGE, "list"
        self._moved, self._listed = True, 0.0
        self._watch: Watch | None = None
        self._stopped = False
        self._since, self._level = 0.0, logging.NOTSET

    def run(self) -> None:
        """List and watch until stopped."""
        while not self._stopped:
            pause = self.step()
            if pause and self._outlets.wait(pause):
                return

    def stop(self) -> None:
        """Stop soon; callable from any thread."""
        self._stopped = True
        if self._watch is not None:
            self._watch.close()

    def step(self) -> float:
        """Run one list or one watch to its end; returns the seconds to wait before the next step."""
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
        notify, clock, resource = self._outlets.notify, self._outlets.clock, self.resource
        notify(ListStarted(resource))
        version = ""
        for page in self._api.pages(resource, self._limit):
            version = page.resource_version
            notify(Listed(resource, page.objects, clock()))
        if not version:
            raise ApiError(0, f"the list of {resource.name} has no resourceVersion")
        notify(ListCompleted(resource, clock()))
        self._version, self._limit, self._moved, self._listed = version, PAGE, False, clock()
        self._well()

    def _follow(self) -> None:
        """Watch until the server ends the watch. Raises ApiError."""
        self._verb = "watch"
        pace, clock, notify = self._backoff.pace, self._outlets.clock, self._outlets.notify
        seconds = pace.watch * (1 + self._backoff.random())
        self._watch = self._api.watch(self.resource, self._version, seconds, pace.silence)
        if self._stopped:
            self._watch.close()  # it was opened while whoever said stop saw none
        notify(Responded(self.resource, clock()))
        self._well()
        for event in self._watch:
            if event.type == "BOOKMARK":
                notify(Responded(self.resource, clock()))
            else:
                notify(Changed(self.resource, event.object, event.type == "DELETED", clock()))
            self._version, self._moved = event.resource_version or self._version, True

    def _failed(self, error: ApiError, lasted: float) -> float:
        """Record a failure that ended a list or watch after `lasted` seconds, and return the seconds to wait."""
        if lasted >= self._backoff.pace.calm:
            self._backoff.failures = 0
        if isinstance(error, Expired) and self._verb == "list":
            self._limit = 0  # so slow that pages expire: all at once
        if isinstance(error, Expired | Silent):
            self._version = ""
            self._outlets.trouble(self.resource, "expired" if isinstance(error, Expired) else "silent", error)
            old = self._outlets.clock() - self._listed >= self._backoff.pace.longest
            if self._verb == "watch" and (self._moved or old):
                return 0.0  # at once, but a list that did not help is not followed by another
        else:
            self._log_error(error)
            self._outlets.trouble(self.resource, str(error.status or "broken"), error)
        self.fault = None if isinstance(error, Expired | Silent) else error
        return self._backoff.next(error.retry_after)

    def _log_error(self, error: ApiError) -> None:
        """Log a failure, unless it equals the previous failure; as an error if the API server goes on rejecting it.

        An API server that has just started rejects requests until it has read RBAC.
        """
        now, is_new = self._outlets.clock(), self.fault is None or str(self.fault) != str(error)
        if is_new:
            self._since, self._level = now, logging.NOTSET
        level = logging.ERROR if error.rejected and now - self._since >= LASTING_SECONDS else logging.WARNING
        if level <= self._level:
            return
        self._level = level
        fields: dict[str, object] = {"verb": self._verb, "resource": self.resource.plural, "group": self.resource.group}
        fields |= {"status": error.status, "reason": error.problem}
        if error.status in _TALK:
            fields["fix"] = _TALK[error.status]
        lacks = f"RBAC does not allow forewarn to {self._verb} {self.resource.name}" if error.status == 403 else ""
        log_event(lacks or f"cannot {self._verb} {self.resource.name}", fields, level)

    def _well(self) -> None:
        if self.fault is not None:
            log_event(f"can {self._verb} {self.resource.name} again", {"resource": self.resource.name})
        self.fault = None
