"""The state of a cluster: one mutable Cache with one owner, immutable ClusterSnapshots for everybody else."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from policies.objects.fields import group_kind, text
from policies.objects.namespace import Namespace
from policies.objects.pod import Pod
from policies.objects.priority_class import SYSTEM_CLASSES, PriorityClass
from policies.objects.resource_quota import ResourceQuota
from policies.objects.workload import Workload
from policies.options import POD_TEMPLATE_PATHS
from policies.tables import FrozenTable, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.objects.fields import ApiObject

Key = tuple[str, str]
"""(namespace, name); the namespace is empty for what has none."""

_SYSTEM: Final = {c.name: c for c in SYSTEM_CLASSES}


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at one moment. Immutable and safe to read from any thread."""

    priority_classes: Mapping[str, PriorityClass] = field(default_factory=lambda: _SYSTEM)
    namespaces: Mapping[Key, Namespace] = field(default_factory=FrozenTable)
    resource_quotas: Mapping[Key, ResourceQuota] = field(default_factory=FrozenTable)
    pods: Mapping[Key, Pod] = field(default_factory=FrozenTable)
    workloads: Mapping[tuple[str, str, str], Workload] = field(default_factory=FrozenTable)

    def namespace(self, name: str) -> Namespace | None:
        """The namespace of this name, None where it is not known."""
        return self.namespaces.get(("", name))

    def quotas_of(self, namespace: str) -> list[ResourceQuota]:
        """The quotas of a namespace, by name."""
        return sorted((q for q in self.resource_quotas.values() if q.namespace == namespace), key=lambda q: q.name)

    def workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        """The workload of this `group/Kind`, namespace and name."""
        return self.workloads.get((kind, namespace, name))


class Cache:
    """Takes API objects in and out, one at a time; `snapshot()` is what they amount to. One owner writes it."""

    def __init__(self) -> None:
        self._classes: Mapping[str, PriorityClass] = _SYSTEM
        self._tables: dict[str, Table[Any, Any]] = {kind: Table() for kind in (*_VIEWS, _WORKLOADS)}
        self.skipped: Counter[str] = Counter()
        """Kinds that play no part, and how many of each were offered."""

    def add(self, obj: ApiObject) -> bool:
        """Take an API object in; it replaces the one of the same identity. False: its kind plays no part.

        Raises InvalidObject where the API server would not have stored it.
        """
        kind = group_kind(obj)
        if kind in _VIEWS:
            self._tables[kind].put(_key(obj, kind), _VIEWS[kind](obj))
        elif kind in POD_TEMPLATE_PATHS:
            self._tables[_WORKLOADS].put((kind, *_key(obj, kind)), Workload.from_api(obj))
        elif kind == _CLASS:
            added = PriorityClass.from_api(obj)
            self._classes = {**self._classes, added.name: added}
        else:
            self.skipped[str(obj.get("kind") or "objects without a kind")] += 1
            return False
        return True

    def remove(self, obj: ApiObject) -> None:
        """Take an API object out, by its identity. What is not there is no error; the system classes stay."""
        kind = group_kind(obj)
        if kind in _VIEWS:
            self._tables[kind].pop(_key(obj, kind))
        elif kind in POD_TEMPLATE_PATHS:
            self._tables[_WORKLOADS].pop((kind, *_key(obj, kind)))
        elif kind == _CLASS:
            _, name = _key(obj, kind)
            self._classes = {n: c for n, c in self._classes.items() if n != name or n in _SYSTEM}

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it is now. Cheap after a small change."""
        return ClusterSnapshot(
            priority_classes=self._classes,
            namespaces=self._tables["/Namespace"].freeze(),
            resource_quotas=self._tables["/ResourceQuota"].freeze(),
            pods=self._tables["/Pod"].freeze(),
            workloads=self._tables[_WORKLOADS].freeze(),
        )


_CLASS: Final = "scheduling.k8s.io/PriorityClass"
_WORKLOADS: Final = "workloads"
_VIEWS: Final[dict[str, Callable[[ApiObject], object]]] = {
    "/Namespace": Namespace.from_api,
    "/Pod": Pod.from_api,
    "/ResourceQuota": ResourceQuota.from_api,
}
_CLUSTER_SCOPED: Final = {"/Namespace", "/Node", _CLASS}


def _key(obj: ApiObject, kind: str) -> Key:
    namespace = "" if kind in _CLUSTER_SCOPED else text(obj, "metadata", "namespace", default="default")
    return namespace, text(obj, "metadata", "name")
