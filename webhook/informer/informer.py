"""Follows an API server: a thread for each kind, and one that owns the cache."""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from queue import Empty, Full, Queue
from threading import Event, Thread
from time import monotonic
from typing import Any, Final, NamedTuple, Protocol

from forewarn.policies.base.findings import listed
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot, Key, key_of
from forewarn.policies.kubernetes.kinds.registry import DEVICES, KINDS, POD_TEMPLATE_PATHS, KindSpec
from forewarn.policies.kubernetes.objects.fields import InvalidObject, ref_of
from forewarn.policies.kubernetes.releases.release import BadGates, Release, UnknownRelease, minor_of
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.linting.config.model import ConfigError
from forewarn.webhook.apiserver.client import PAGE, ApiError, Expired, ListAgain, Page, Silent, Watch
from forewarn.webhook.health import start_loop
from forewarn.webhook.logs import LOGGER, log_event


class ListStarted(NamedTuple):
    """A new list of a kind starts; objects of an interrupted list no longer count."""

    resource: KindSpec


class Listed(NamedTuple):
    """A page of a list."""

    resource: KindSpec
    objects: list[dict[str, Any]]


class ListCompleted(NamedTuple):
    """The list is complete: objects that are not in the list no longer exist."""

    resource: KindSpec
    at: float


class Changed(NamedTuple):
    """One object was created or changed; if `deleted`, it was deleted."""

    resource: KindSpec
    object: dict[str, Any]
    deleted: bool
    at: float


class Responded(NamedTuple):
    """The API server confirmed the state: a watch goes on, or a bookmark arrived."""

    resource: KindSpec
    at: float


class Runs(NamedTuple):
    """The Kubernetes version that the API server reports (`gitVersion`); "" if none."""

    version: str


class ReleaseSet(NamedTuple):
    """The release or scheduler configuration to use from now on."""

    release: Release


Delta = ReleaseSet | Runs | ListStarted | Listed | ListCompleted | Changed | Responded


_REMEMBERED: Final = 1000
"""Maximum number of remembered messages about rejected objects, which are logged only once."""


class ClusterState:
    """The cluster state. One thread calls `take` and `publish`; any thread may read `latest`, `missing` and `ages`.

    `latest`: None until all required kinds have been listed once. `rejected`: called for each object that the cache
    rejects. `replaced`: called for each change of the cache. `templates`: the kinds of workloads. `release`: the
    configured release; if the release depends on the cluster, nothing is published before the release is known.
    """

    def __init__(
        self,
        resources: Iterable[KindSpec],
        rejected: Callable[[KindSpec], None] = lambda _: None,
        clock: Callable[[], float] = monotonic,
        replaced: Callable[[str, Any, Any], object] | None = None,
        templates: Collection[str] = POD_TEMPLATE_PATHS,
        release: Release | None = None,
    ) -> None:
        self.latest: ClusterSnapshot | None = None
        self._rejected, self._clock = rejected, clock
        self._cache = Cache(replaced, templates)
        self._release = release
        self._minor: int | None = None
        self._release_requested = release is None or release.minor is not None
        if release is not None:
            self._cache.semantics = release.semantics()
        self._last_response: dict[KindSpec, float] = dict.fromkeys(resources, -inf)
        self.missing = tuple(self._last_response)
        """Kinds that have not been listed yet."""
        self._devices_missing = {spec.group_kind for spec in DEVICES}
        self._cache.devices_known = False
        self._cache.listed = {spec.group_kind for spec in KINDS}
        self._key_of: dict[KindSpec, set[Key]] = {}
        self._logged: set[str] = set()
        self._changed = True

    def ages(self) -> dict[KindSpec, float]:
        """Return kind -> seconds since the last response, infinite before the first; without optional kinds."""
        now = self._clock()
        return {
            resource: now - heard for resource, heard in tuple(self._last_response.items()) if not resource.optional
        }

    def take(self, delta: Delta) -> None:
        """Process one message."""
        match delta:
            case Runs(version):
                self._runs(version)
                return
            case ReleaseSet(release):
                self._settle(release, self._minor)
                return
            case Changed(resource, obj, deleted, heard):
                self._change(resource, obj, deleted)
            case Responded(resource, heard):
                pass
            case Listed(resource, objects):
                named = self._key_of.setdefault(resource, set())
                for obj in objects:
                    if (key := self._change(resource, obj, deleted=False)) is not None:
                        named.add(key)
                return  # an incomplete list does not say which objects were deleted
            case ListCompleted(resource, heard):
                self._complete_list(resource)
            case ListStarted(resource):
                self._key_of[resource] = set()
                return
        self._last_response[resource] = heard

    def publish(self) -> bool:
        """Publish a snapshot if the state has changed and all kinds have been listed; return whether it did."""
        if self.missing or not self._release_requested or not self._changed:
            return False
        self._changed = False
        self.latest = self._cache.snapshot()
        return True

    def _runs(self, version: str) -> None:
        """Set the release of the cluster from its `gitVersion`; "" keeps the previous release, or the newest."""
        self._release_requested = True
        if not version or self._release is None:
            return
        try:
            minor = minor_of(version)
        except UnknownRelease as fault:
            self._warn(version, fault)
            return
        self._settle(self._release, minor, version)

    def _settle(self, release: Release, minor: int | None, version: str = "") -> None:
        """Use a release for a cluster of this minor version; log why it is not usable.

        `version`: the version that the cluster reports; "" for a reloaded release, which replaces the current one only
        if it is usable.
        """
        try:
            semantics = release.semantics(minor)
        except (BadGates, ConfigError) as fault:
            self._warn(version or f"1.{minor}", fault)
            if minor is None or not version:
                return
            option = "--feature-gates" if isinstance(fault, BadGates) else "--scheduler-config"
            semantics = Semantics(minor, fault=f"{option}: {fault}")
        self._release, self._minor = release, minor
        if semantics != self._cache.semantics:
            self._cache.semantics, self._changed = semantics, True
            log_event(semantics.unknown or semantics.preview or f"the cluster runs Kubernetes {semantics.release}", {})

    def _warn(self, version: str, fault: Exception) -> None:
        """Log a warning about a version, once for each version and reason."""
        if (text := f"{version}: {fault}") not in self._logged:
            self._logged.add(text)
            LOGGER.warning("Kubernetes %.60r: %s", version, fault)

    def _complete_list(self, resource: KindSpec) -> None:
        """Delete the objects that a complete list did not contain."""
        named = self._key_of.pop(resource, set())
        for key in self._cache.keys(resource.group_kind) - named:
            self._change(resource, _identity(resource, key), deleted=True)
        assert self._cache.listed is not None
        self._cache.listed.add(resource.group_kind)
        if resource.group_kind in self._devices_missing:
            self._devices_missing.remove(resource.group_kind)
            self._cache.devices_known, self._changed = not self._devices_missing, True
        if resource in self.missing:
            self.missing = tuple(missing for missing in self.missing if missing != resource)

    def _change(self, resource: KindSpec, obj: dict[str, Any], deleted: bool) -> Key | None:
        """Add or remove an object in the cache; return its key, or None without a name. Logs invalid objects."""
        key = None
        try:
            key = _key_of(obj)
            if deleted:
                self._cache.remove(obj)
            else:
                self._cache.add(obj)
            self._changed = True
        except InvalidObject as error:
            # An older state of the unreadable object remains in the cache.
            why = str(error)
            self._rejected(resource)
            if why not in self._logged and len(self._logged) < _REMEMBERED:
                self._logged.add(why)
                log_event("object skipped", {"resource": resource.name, "reason": why}, logging.WARNING)
        except Exception:
            LOGGER.exception("internal error while caching an object of %s", resource.name)
            self._rejected(resource)
        return key


def _key_of(obj: dict[str, Any]) -> Key:
    """Return the namespace and name of an object. Raises InvalidObject without a name."""
    key = key_of(obj)
    if not key[1]:
        raise InvalidObject("is missing", ("metadata", "name"), ref_of(obj))
    return key


def _identity(resource: KindSpec, key: Key) -> dict[str, Any]:
    """Return an object with only kind, namespace and name."""
    namespace, name = key
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


class Pace(NamedTuple):
    """Timing of a reflector, in seconds. `least`: the wait after the first failure. `longest`: the maximum wait."""

    watch: float = 300.0
    """Minimum duration of a watch; the maximum is twice as long, to spread the load of API servers."""
    silence: float = 90.0
    """Maximum time without a bookmark, which arrives every minute. Then the connection counts as dead: list again."""
    least: float = 0.8
    longest: float = 5.0
    """Maximum wait after failures. `least` is doubled after each further failure in a row.

    The limit is short, so that all kinds are listed again soon after an API server's restart.
    """
    calm: float = 60.0
    """Minimum duration of a watch that resets the number of failures."""
    relist: float = 30.0
    """Maximum wait before a list if watches after several lists failed, because a list is much work for API servers."""


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
    trouble: Callable[[KindSpec, str], None]
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
        self._relisting = Backoff(backoff.random, backoff.pace._replace(longest=backoff.pace.relist))
        self._version, self._limit, self._verb = "", PAGE, "list"
        self._listed = self._heard = 0.0
        self._is_going_on = False
        """Whether the last list or watch has received something: a watch that stays empty confirms nothing."""
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
        """Run one list or one watch to its end; return the seconds to wait before the next step."""
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
            return self._failed(ListAgain(0, "internal error; see the log"), 0.0)
        if self._outlets.clock() - started >= self._backoff.pace.calm:
            self._backoff.failures = 0
            return 0.0
        return 0.0 if self._stopped else self._backoff.next()

    def _list(self) -> None:
        self._verb = "list"
        notify, clock, resource = self._outlets.notify, self._outlets.clock, self.resource
        notify(ListStarted(resource))
        versions = []
        for page in self._api.pages(resource, self._limit):
            versions.append(page.resource_version)
            notify(Listed(resource, page.objects))
        if not all(versions):
            raise ApiError(0, f"the list of {resource.name} has no resourceVersion")
        self._listed = self._heard = clock()
        notify(ListCompleted(resource, self._listed))
        self._version, self._limit, self._is_going_on = versions[0], PAGE, True
        self._well()

    def _follow(self) -> None:
        """Watch until the server ends the watch. Raises ApiError."""
        self._verb = "watch"
        pace, clock, notify = self._backoff.pace, self._outlets.clock, self._outlets.notify
        seconds = pace.watch * (1 + self._backoff.random())
        self._watch = self._api.watch(self.resource, self._version, seconds, pace.silence)
        if self._stopped:
            self._watch.close()  # `stop` ran before the watch was stored
        if self._is_going_on:
            notify(Responded(self.resource, clock()))
        self._well()
        self._is_going_on = False
        for event in self._watch:
            if _is_before(event.resource_version, self._version):
                raise ListAgain(0, f"the watch went back to resourceVersion {event.resource_version[:20]}")
            self._version, self._heard, self._is_going_on = event.resource_version or self._version, clock(), True
            if event.type == "BOOKMARK":
                notify(Responded(self.resource, self._heard))
            else:
                notify(Changed(self.resource, event.object, event.type == "DELETED", self._heard))
        if clock() - self._heard >= pace.silence:
            raise Silent(0, f"no watch event or bookmark for {pace.silence:.0f} s")

    def _failed(self, error: ApiError, lasted: float) -> float:
        """Record a failure that ended a list or watch after `lasted` seconds, and return the seconds to wait."""
        pace, now, is_watch = self._backoff.pace, self._outlets.clock(), self._verb == "watch"
        if lasted >= pace.calm:
            self._backoff.failures = 0
        if not is_watch:  # if the pages of a list expire again, request the whole list without pages
            self._limit = 0 if isinstance(error, Expired) and self._limit else PAGE
        elif isinstance(error, ListAgain) or now - self._heard >= pace.silence:
            self._version = ""
        is_routine = is_watch and isinstance(error, Expired | Silent)
        if not is_routine:
            self._log_error(error)
        self.fault = None if is_routine else error
        word = "expired" if isinstance(error, Expired) else "silent" if isinstance(error, Silent) else ""
        self._outlets.trouble(self.resource, word or str(error.status or "broken"))
        if self._version or not is_watch:
            return self._backoff.next(error.retry_after)
        if now - self._listed >= pace.relist:
            self._relisting.failures = 0
            return 0.0
        return self._relisting.next(error.retry_after)

    def _log_error(self, error: ApiError) -> None:
        """Log a new failure, as an error if it persists: an API server rejects requests until it has read RBAC."""
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


def _is_before(version: str, other: str) -> bool:
    """Report whether one resourceVersion is older than another. False if one of them is not a number."""
    if version.isdecimal() and other.isdecimal():
        return (len(version), version) < (len(other), other)
    return False


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
        self.changed: Callable[[Changed], None] = _nothing
        self._deltas: Queue[Delta | None] = Queue(_WAITING)
        self._stop = Event()
        self._synced = Event()
        self._api, self._pace = api, pace
        self._outlets = Outlets(self._put, trouble, self._stop.wait)
        self._reflectors = [self._reflector(resource) for resource in resources]
        self._threads: list[Thread] = []

    def _reflector(self, resource: KindSpec) -> Reflector:
        return Reflector(self._api, resource, self._outlets, self._backoff())

    def _backoff(self) -> Backoff:
        return Backoff(random.SystemRandom().random, self._pace)

    def start(self) -> Informer:
        """Start the threads; return self."""
        runs = {reflector.resource.name: reflector.run for reflector in self._reflectors}
        runs["cache"] = self._own
        if self._version is not None:
            runs["release"] = partial(self._follow_release, self._version)
        for name, run in runs.items():
            self._start(name, run)
        return self

    def follow(self, resource: KindSpec) -> None:
        """Follow one more optional kind after `start`, without waiting for its list.

        Raises RuntimeError if no thread can be started; the next call tries again.
        """
        if all(reflector.resource != resource for reflector in self._reflectors):
            reflector = self._reflector(resource)
            self._start(resource.name, reflector.run)
            self._reflectors.append(reflector)

    def _start(self, name: str, run: Callable[[], object]) -> None:
        self._threads.append(start_loop(name, run, self._stop))

    def stop(self, seconds: float = 5.0) -> None:
        """Stop following, and wait up to `seconds` for the threads."""
        self._stop.set()
        with suppress(Full):
            self._deltas.put_nowait(None)  # wakes the owner, which checks `_stop`
        for reflector in self._reflectors:
            reflector.stop()
        until = monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - monotonic()))

    def cluster(self) -> ClusterSnapshot | None:
        """Return the latest cluster state; None until every required kind has been listed."""
        return self._state.latest

    def use(self, release: Release) -> None:
        """Use this release and its scheduler configuration for predictions from now on."""
        self._put(ReleaseSet(release))

    def wait(self, seconds: float) -> bool:
        """Wait until the first prediction is prepared; return false after `seconds`."""
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
        return f"cluster state not synced: {listed(texts, _SHOWN)}"

    def _follow_release(self, version: Callable[[], str]) -> None:
        """Read the Kubernetes version repeatedly, because clusters are upgraded while webhooks run: the main loop of
        the release thread.

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
        """Publish the cluster state; return whether it has changed."""
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
        # The state stays in memory, so the garbage collector can skip it.
        gc.collect()
        gc.freeze()
        self._synced.set()
        log_event("cluster state synced", {})
