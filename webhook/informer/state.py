"""The owner of the cache: processes messages one at a time, and publishes snapshots for all threads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from math import inf
from time import monotonic
from typing import Any, Final, NamedTuple

from forewarn.policies.cluster.cache import Cache, ClusterSnapshot, Key, key_of
from forewarn.policies.config.model import ConfigError
from forewarn.policies.kinds.registry import DEVICES, KINDS, POD_TEMPLATE_PATHS, KindSpec
from forewarn.policies.objects.fields import InvalidObject, ref_of
from forewarn.policies.releases.release import BadGates, Release, UnknownRelease, minor_of
from forewarn.policies.releases.semantics import Semantics
from forewarn.webhook.logs import LOGGER, log_event


class ListStarted(NamedTuple):
    """A new list of a kind starts; objects of an interrupted list no longer count."""

    resource: KindSpec


class Listed(NamedTuple):
    """A page of a list."""

    resource: KindSpec
    objects: list[dict[str, Any]]
    at: float


class ListCompleted(NamedTuple):
    """The list is complete: objects that the list does not contain are deleted."""

    resource: KindSpec
    at: float


class Changed(NamedTuple):
    """One object was created or changed; if `deleted`, it was deleted."""

    resource: KindSpec
    object: dict[str, Any]
    deleted: bool
    at: float


class Responded(NamedTuple):
    """The API server responded: a watch was opened, or a bookmark arrived."""

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
        self._missing = tuple(self._last_response)
        self._devices_missing = {spec.group_kind for spec in DEVICES}
        self._cache.devices_known = False
        self._cache.listed = {spec.group_kind for spec in KINDS}
        self._named: dict[KindSpec, set[Key]] = {}
        self._logged: set[str] = set()
        self._changed = True

    @property
    def missing(self) -> tuple[KindSpec, ...]:
        """Kinds that have not been listed yet."""
        return self._missing

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
                self._release = release
                self._settle(self._minor)
                return
            case Changed(resource, obj, deleted, heard):
                self._change(resource, obj, deleted)
            case Responded(resource, heard):
                pass
            case Listed(resource, objects, heard):
                named = self._named.setdefault(resource, set())
                for obj in objects:
                    if (key := self._change(resource, obj, deleted=False)) is not None:
                        named.add(key)
            case ListCompleted(resource, heard):
                self._complete_list(resource)
            case ListStarted(resource):
                self._named[resource] = set()
                return
        self._last_response[resource] = heard

    def publish(self) -> bool:
        """Publish a snapshot if the state has changed and all kinds have been listed; returns true if published."""
        if self._missing or not self._release_requested or not self._changed:
            return False
        self._changed = False
        self.latest = self._cache.snapshot()
        return True

    def _runs(self, version: str) -> None:
        """Set the release of the cluster from its `gitVersion`; "" retains the previous release, or the newest."""
        self._release_requested = True
        if not version or self._release is None:
            return
        try:
            minor = minor_of(version)
        except UnknownRelease as fault:
            self._warn(version, fault)
            return
        self._settle(minor, version)

    def _settle(self, minor: int | None, version: str = "") -> None:
        """Apply the configured release to a cluster of this minor version; log an unusable version."""
        assert self._release is not None
        self._minor = minor
        try:
            semantics = self._release.semantics(minor)
        except (BadGates, ConfigError) as fault:
            self._warn(version, fault)
            if minor is None or not version:  # changed options, which do not replace those in use
                return
            option = "--feature-gates" if isinstance(fault, BadGates) else "--scheduler-config"
            semantics = Semantics(minor, fault=f"{option}: {fault}")
        if semantics != self._cache.semantics:
            self._cache.semantics, self._changed = semantics, True
            log_event(semantics.unknown or semantics.preview or f"the cluster runs Kubernetes {semantics.release}", {})

    def _warn(self, version: str, fault: Exception) -> None:
        """Log a warning about a version, once for each version."""
        if version not in self._logged:
            self._logged.add(version)
            LOGGER.warning("Kubernetes %.60r: %s", version, fault)

    def _complete_list(self, resource: KindSpec) -> None:
        """Delete the objects that a complete list did not contain."""
        named = self._named.pop(resource, set())
        for key in self._cache.keys(resource.group_kind) - named:
            self._change(resource, _identity(resource, key), deleted=True)
        assert self._cache.listed is not None
        self._cache.listed.add(resource.group_kind)
        if resource.group_kind in self._devices_missing:
            self._devices_missing.remove(resource.group_kind)
            self._cache.devices_known, self._changed = not self._devices_missing, True
        if resource in self._missing:
            self._missing = tuple(missing for missing in self._missing if missing != resource)

    def _change(self, resource: KindSpec, obj: dict[str, Any], deleted: bool) -> Key | None:
        """Add or remove an object in the cache; return its key, or None without a name. Logs invalid objects."""
        key = None
        try:
            key = _named(obj)
            if deleted:
                self._cache.remove(obj)
            else:
                self._cache.add(obj)
            self._changed = True
        except InvalidObject as error:
            self._reject(resource, str(error))
        except Exception:
            LOGGER.exception("internal error while caching an object of %s", resource.name)
            self._rejected(resource)
        return key

    def _reject(self, resource: KindSpec, why: str) -> None:
        """Count an unreadable object, and log it once. An older state of the object remains in the cache."""
        self._rejected(resource)
        if why not in self._logged and len(self._logged) < _REMEMBERED:
            self._logged.add(why)
            log_event("object skipped", {"resource": resource.name, "reason": why}, logging.WARNING)


def _named(obj: dict[str, Any]) -> Key:
    """The namespace and name of an object. Raises InvalidObject without a name."""
    key = key_of(obj)
    if not key[1]:
        raise InvalidObject("is missing", ("metadata", "name"), ref_of(obj))
    return key


def _identity(resource: KindSpec, key: Key) -> dict[str, Any]:
    """Return an object with only kind, namespace and name."""
    namespace, name = key
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
