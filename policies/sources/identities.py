"""Detects two clusters in the sources of cluster state: objects of one name that are not the same object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.cluster.views import key_of
from forewarn.policies.kinds.registry import NODE
from forewarn.policies.objects.fields import at, group_kind, ref_of
from forewarn.policies.objects.resources import read_resource_list
from forewarn.policies.sources.errors import SourceError

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resources import ResourceList

_FIX: Final = "Fix: pass the objects of one cluster at one time"


class _Seen(NamedTuple):
    uid: str
    source: str
    file: str
    line: int
    allocatable: ResourceList | None


class Identities:
    """The objects read so far. A later source may replace an object that has no UID, an earlier one may not."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], _Seen] = {}

    def check(self, obj: ApiObject, source: str, file: str, line: int) -> None:
        """Raise SourceError if an earlier object of the same name has another UID, or is a Node of the same source
        with other allocatable resources.
        """
        kind = group_kind(obj)
        if not at(obj, "metadata", "name"):  # an empty list, or a version
            return
        uid = at(obj, "metadata", "uid")
        allocatable = read_resource_list(obj, ("status", "allocatable"), obj) if kind == NODE else None
        now = _Seen(uid if isinstance(uid, str) else "", source, file, line, allocatable)
        before = self._seen.setdefault((kind, *key_of(obj, kind)), now)
        if before is now:
            return
        if before.uid and now.uid and before.uid != now.uid:
            raise _mixed(obj, "has another UID", before, now)
        if before.allocatable != now.allocatable and before.source == now.source:
            raise _mixed(obj, "has other allocatable resources", before, now)


def _mixed(obj: ApiObject, how: str, before: _Seen, now: _Seen) -> SourceError:
    place = f"{before.file}:{before.line}" if before.line else before.file
    return SourceError(now.file, f"{ref_of(obj)} {how} than in {place}: these are two clusters. {_FIX}", now.line)
