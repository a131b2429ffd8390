"""Follows an API server: a thread for each kind, and one that owns the cache."""

from __future__ import annotations

import gc
import random
from contextlib import suppress
from functools import partial
from queue import Empty, Full, Queue
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kinds.registry import KINDS, POD_TEMPLATE_PATHS
from forewarn.webhook.apiserver import ApiError
from forewarn.webhook.informer.reflector import DEFAULT_PACE, Backoff, Outlets, Reflector
from forewarn.webhook.informer.state import Changed, ClusterState, ReleaseSet, Runs
from forewarn.webhook.logs import LOGGER, log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.kinds.registry import KindSpec
    from forewarn.policies.releases.release import Release
    from forewarn.webhook.informer.reflector import ListerWatcher, Pace
    from forewarn.webhook.informer.state import Delta

_WAITING: Final = 16
"""Maximum number of queued messages; a page of a list is one. Reflectors block while the queue is full."""
_PUBLISH_SECONDS: Final = 0.005
"""Minimum seconds between two snapshots."""
_TURN_SECONDS: Final = 1.0
_RELEASE_SECONDS: Final = 60.0
"""Seconds between requests for the release of an API server."""
_SHOWN: Final = 3
"""Maximum number of missing kinds that a message names."""


def _nothing(*_: object) -> None:
    """Do nothing: the default callback."""


class Informer:
    """Cluster state that follows an API server. All methods except `start` and `stop` are safe from any thread.

    `trouble`: called for each failure, with its kind. `rejected`: called for each object that the cache rejects.
    `replaced`: called for each change of the cache. `changed`: called after each change by a watch; may be set at any
    time. The callbacks must be fast. `templates`: the kinds of workloads. `release`: the configured release; if the
    release depends on the cluster, `version` is called repeatedly (returns "" if unknown; may raise ApiError).
    """

    def __init__(
        self,
        api: ListerWatcher,
        resources: Iterable[KindSpec] = KINDS,
        pace: Pace = DEFAULT_PACE,
        trouble: Callable[[KindSpec, str], None] = _nothing,
        rejected: Callable[[KindSpec], None] = _nothing,
        replaced: Callable[[str, Any, Any], object] | None = None,
        templates: Collection[str] = POD_TEMPLATE_PATHS,
        release: Release | None = None,
        version: Callable[[], str] | None = None,
    ) -> None:
        self._state = ClusterState(resources, rejected, replaced=replaced, templates=templates, release=release)
        self._version = version if release is not None and release.minor is None else None
        self._trouble = trouble
        self.changed: Callable[[Changed], None] = _nothing
        self._deltas: Queue[Delta | None] = Queue(_WAITING)
        self._stop = Event()
        self._synced = Event()
        self._api, self._pace = api, pace
        self._outlets = Outlets(self._put, self._troubled, self._stop.wait)
        self._reflectors = [self._reflector(resource) for resource in resources]
        self._threads: list[Thread] = []

    def _reflector(self, resource: KindSpec) -> Reflector:
        return Reflector(self._api, resource, self._outlets, self._backoff())

    def _backoff(self) -> Backoff:
        return Backoff(random.SystemRandom().random, self._pace)

    def start(self) -> Informer:
        """Start the threads; returns self."""
        runs = {reflector.resource.name: reflector.run for reflector in self._reflectors}
        runs["cache"] = self._own
        if self._version is not None:
            runs["release"] = partial(self._follow_release, self._version)
        self._threads = [Thread(target=run, name=name, daemon=True) for name, run in runs.items()]
        for thread in self._threads:
            thread.start()
        return self

    def follow(self, resource: KindSpec) -> None:
        """Follow one more optional kind after `start`, without waiting for its list."""
        reflector = self._reflector(resource)
        thread = Thread(target=reflector.run, name=resource.name, daemon=True)
        self._reflectors.append(reflector)
        self._threads.append(thread)
        thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Stop following, and wait up to `seconds` for the threads."""
        self._stop.set()
        with suppress(Full):
            self._deltas.put_nowait(None)  # so that the owner looks up
        for reflector in self._reflectors:
            reflector.stop()
        until = monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))

    def cluster(self) -> ClusterSnapshot | None:
        """The latest cluster state; None until every required kind has been listed."""
        return self._state.latest

    def use(self, release: Release) -> None:
        """Use this release and its scheduler configuration for predictions from now on."""
        self._put(ReleaseSet(release))

    def wait(self, seconds: float) -> bool:
        """Wait until the first prediction is prepared; returns false after `seconds`."""
        return self._synced.wait(seconds)

    def age(self) -> float:
        """Return the age in seconds of the API server's last response, for the kind with the oldest response."""
        return max(self._state.ages().values())

    def fault(self, bound: float) -> str:
        """Return why this replica is not ready; "" if ready.

        Reasons: kinds not listed yet, or a kind to which access has been denied for more than `bound` seconds.
        """
        missing, ages = self._state.missing, self._state.ages()
        faults: dict[KindSpec, ApiError | None] = {
            reflector.resource: reflector.fault
            for reflector in tuple(self._reflectors)
            if not reflector.resource.optional
            if reflector.resource in missing
            or (reflector.fault is not None and reflector.fault.rejected and ages[reflector.resource] > bound)
        }
        if not faults:
            return "" if self._synced.is_set() else "cluster state not synced yet"
        texts = [f"{r.name} ({error.problem if error else 'not listed yet'})" for r, error in faults.items()]
        more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        return f"cluster state not synced: {', '.join(texts[:_SHOWN])}{more}"

    def _follow_release(self, version: Callable[[], str]) -> None:
        """Read the Kubernetes version repeatedly, because clusters are upgraded while webhooks run; the release
        thread's main loop.

        Retries after failures with a backoff; until the first response, predictions use the newest release.
        """
        backoff, is_known, last_problem = self._backoff(), False, ""
        while not self._stop.is_set():
            logged = why = ""
            try:
                logged = version()
            except ApiError as error:
                why = str(error)
            except Exception:
                LOGGER.exception("cannot get the Kubernetes version")
            if why and why != last_problem:
                LOGGER.warning("cannot get the Kubernetes version: %s", why)
            is_known, last_problem = is_known or bool(logged), why
            self._put(Runs(logged))
            self._stop.wait(_RELEASE_SECONDS if is_known else backoff.next())

    def _put(self, delta: Delta) -> None:
        """Queue a message for the owner of the cache; block while the queue is full, until `stop`."""
        while not self._stop.is_set():
            with suppress(Full):
                self._deltas.put(delta, timeout=_TURN_SECONDS)
                return

    def _troubled(self, resource: KindSpec, word: str, _error: ApiError | None) -> None:
        self._trouble(resource, word)

    def _own(self) -> None:
        """Process messages, and publish at most every few milliseconds: the main loop of the thread that owns the
        cache.

        Errors do not end the loop.
        """
        due, fresh = 0.0, False
        while not self._stop.is_set():
            try:
                delta = self._deltas.get(timeout=max(0.0, due - monotonic()) if fresh else _TURN_SECONDS)
                fresh = True
                self._take(delta)
            except Empty:
                pass
            except Exception:
                LOGGER.exception("cannot apply a change to the cluster state")
            if fresh and monotonic() >= due:
                fresh = False
                if self._published():
                    due = monotonic() + _PUBLISH_SECONDS

    def _take(self, delta: Delta | None) -> None:
        if delta is not None:
            self._state.take(delta)
        if isinstance(delta, Changed):
            self.changed(delta)

    def _published(self) -> bool:
        """Publish the cluster state; returns true if it has changed."""
        try:
            if not self._state.publish():
                return False
        except Exception:
            LOGGER.exception("cannot publish the cluster state")
            return False
        if not self._synced.is_set() and self._state.latest is not None:
            self._settle(self._state.latest)
        return True

    def _settle(self, first: ClusterSnapshot) -> None:
        """Prepare the first prediction on the first state, then let threads in `wait` continue."""
        try:
            first.prepare()
        except Exception:
            LOGGER.exception("cannot prepare the first prediction")
        # What the state is made of stays: the collector of cycles need not look at it again.
        gc.collect()
        gc.freeze()
        self._synced.set()
        log_event("cluster state synced", {})
