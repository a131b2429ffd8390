"""The owner of the cache: takes news in one at a time, and publishes snapshots for everybody else."""

from __future__ import annotations

import logging
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from policies.cluster import Cache, key_of
from policies.kinds import POD_TEMPLATE_PATHS
from policies.objects.fields import InvalidObject, ref_of
from webhook.informer.news import Changed, Heard, ListBegins, Listed, ListEnds
from webhook.logs import LOGGER, say

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from policies.cluster import ClusterSnapshot, Key
    from policies.kinds import KindSpec
    from webhook.informer.news import News

_REMEMBERED: Final = 1000
"""Refusals that are not logged a second time."""


class ClusterState:
    """One thread calls `take` and `publish`; `latest`, `missing` and `ages` are safe to read from any.

    `latest` is None until every kind has been listed once. `refused`: told of each object that the cache does not take;
    `replaced`: of each change of the cache; `templates`: what is a workload (both: policies.cluster.Cache).
    """

    def __init__(
        self,
        resources: Iterable[KindSpec],
        refused: Callable[[KindSpec], None] = lambda _: None,
        clock: Callable[[], float] = monotonic,
        replaced: Callable[[str, Any, Any], object] | None = None,
        templates: Collection[str] = POD_TEMPLATE_PATHS,
    ) -> None:
        self.latest: ClusterSnapshot | None = None
        self._refused, self._clock = refused, clock
        self._cache = Cache(replaced, templates)
        self._heard: dict[KindSpec, float] = dict.fromkeys(resources, -inf)
        self._missing = tuple(self._heard)
        self._named: dict[KindSpec, set[Key]] = {}
        self._told: set[str] = set()
        self._changed = True

    @property
    def missing(self) -> tuple[KindSpec, ...]:
        """Kinds that have not been listed yet."""
        return self._missing

    def ages(self) -> dict[KindSpec, float]:
        """Seconds since the API server was last heard of, kind by kind; infinite before that. None that is optional."""
        now = self._clock()
        return {resource: now - heard for resource, heard in tuple(self._heard.items()) if not resource.optional}

    def take(self, news: News) -> None:
        """Take news in."""
        match news:
            case Changed(resource, obj, gone, heard):
                self._change(resource, obj, gone)
            case Heard(resource, heard):
                pass
            case Listed(resource, objects, heard):
                named = self._named.setdefault(resource, set())
                for obj in objects:
                    if (key := self._change(resource, obj, gone=False)) is not None:
                        named.add(key)
            case ListEnds(resource, heard):
                self._list_ends(resource)
            case ListBegins(resource):
                self._named[resource] = set()
                return
        self._heard[resource] = heard

    def publish(self) -> bool:
        """Make what was taken in the latest state, once every kind has been listed; whether there was any news."""
        if self._missing or not self._changed:
            return False
        self._changed = False
        self.latest = self._cache.snapshot()
        return True

    def _list_ends(self, resource: KindSpec) -> None:
        """What a whole list did not name is gone."""
        named = self._named.pop(resource, set())
        for key in self._cache.keys(resource.group_kind) - named:
            self._change(resource, _identity(resource, key), gone=True)
        if resource in self._missing:
            self._missing = tuple(missing for missing in self._missing if missing != resource)

    def _change(self, resource: KindSpec, obj: dict[str, Any], gone: bool) -> Key | None:
        """Take an object in or out; its identity, None where it has none."""
        key = None
        try:
            key = _named(obj)
            if gone:
                self._cache.remove(obj)
            else:
                self._cache.add(obj)
            self._changed = True
        except InvalidObject as error:
            self._refuse(resource, str(error))
        except Exception:
            LOGGER.exception("the cache failed on an object of %s", resource.name)
            self._refused(resource)
        return key

    def _refuse(self, resource: KindSpec, why: str) -> None:
        """What cannot be read is left out (an older state of it stays): logged once, counted always."""
        self._refused(resource)
        if why not in self._told and len(self._told) < _REMEMBERED:
            self._told.add(why)
            say("object left out", {"resource": resource.name, "why": why}, logging.WARNING)


def _named(obj: dict[str, Any]) -> Key:
    """The identity of an object. Raises InvalidObject."""
    key = key_of(obj)
    if not key[1]:
        raise InvalidObject("is missing", ("metadata", "name"), ref_of(obj))
    return key


def _identity(resource: KindSpec, key: Key) -> dict[str, Any]:
    """An object that is no more than its identity."""
    namespace, name = key
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
