"""The state of a cluster: one mutable Cache with one owner thread, and immutable ClusterSnapshots for all readers.

Each kind has a view, in which the cache stores its objects; the origin says where the state comes from, and when.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeVar

from forewarn.policies.base.cow_table import FrozenGroups, FrozenTable, GroupedTable, Table
from forewarn.policies.base.documents import Always, Document, Hidden, Inlined, in_json
from forewarn.policies.base.findings import Finding, described, listed
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.priority import Classes
from forewarn.policies.kubernetes.objects.extent import TooLargeToRetain, max_retained, retained_part
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, InvalidObject, at, group_kind, ref_of, text
from forewarn.policies.kubernetes.objects.priority_class import SYSTEM_CLASSES, PriorityClass
from forewarn.policies.kubernetes.objects.workload import Workload
from forewarn.policies.kubernetes.releases.release import UnknownRelease, minor_of
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from forewarn.policies.kubernetes.scheduling.cache import LazySnapshot, PodsByNode, being_bound
from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects

if TYPE_CHECKING:
    from forewarn.policies.base.documents.answer import AnswerDocument
    from forewarn.policies.kubernetes.objects.namespace import Namespace
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.resource_quota import LimitRange, ResourceQuota
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
"""The format of times in UTC, as in metav1.Time."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a cluster state.

    `cluster`: kubeconfig context or files of the cluster; empty without a cluster. `time`: time of the cluster state;
    empty if unknown. `is_read`: whether the state was read at `time`. `replaced`: a clause about objects that several
    sources define differently; or "".
    """

    cluster: Always[str] = ""
    time: Always[str] = ""
    is_read: Hidden[bool] = False
    replaced: Hidden[str] = ""

    @in_json
    def time_of(self) -> Literal["read", "newest object", ""]:
        """`read`: forewarn read the state at `time`; `newest object`: `time` is the newest timestamp in the state."""
        return "read" if self.is_read else "newest object" if self.time else ""


def seconds_of(origin: Origin) -> float:
    """Return the time of a cluster state in seconds since 1970; 0 if it is unknown."""
    return datetime.strptime(origin.time, TIME).replace(tzinfo=UTC).timestamp() if origin.time else 0.0


def age_of(origin: Origin, now: datetime) -> float | None:
    """Return the age of a cluster state in seconds; None if its time is unknown."""
    return now.timestamp() - seconds_of(origin) if origin.time else None


WORKLOADS: Final = "workloads"
"""The name of the table of all workloads; other tables have the `group/Kind` as name."""
VIEWS: Final = {
    kind: spec.view
    for kind, spec in registry.BY_GROUP_KIND.items()
    if kind != registry.PRIORITY_CLASS and not spec.template
} | {registry.KUEUE_CONFIGURATION: "kueue:Configuration"}
"""`group/Kind` of each kind with a table -> module and class of its view in policies.objects."""
_KUEUE: Final = (*(spec.group_kind for spec in registry.KUEUE), registry.KUEUE_CONFIGURATION)
SCHEDULER_TABLES: Final = {s.table: k for k, s in registry.BY_GROUP_KIND.items() if s.table} | {WORKLOADS: WORKLOADS}
"""Field of `ClusterObjects` -> the name of its table."""


@cache
def reader_of(kind: str) -> Callable[[ApiObject], object]:
    """Return the decoder of a kind in VIEWS."""
    if kind == registry.POD:
        from forewarn.policies.kubernetes.objects.pod import stored_pod  # deferred: the linter starts faster

        return stored_pod
    module, name = VIEWS[kind].split(":")
    reader: Callable[[ApiObject], object] = getattr(
        import_module(f"forewarn.policies.kubernetes.objects.{module}"), name
    ).from_api
    return reader


def decoded(kind: str, obj: ApiObject) -> object:
    """Return the view of an object of a kind in VIEWS. Raises InvalidObject with the object's name."""
    try:
        return reader_of(kind)(obj if kind == registry.POD else retained_part(dict(obj)))
    except InvalidObject as error:  # a view of a part does not know the object
        if type(error) is not InvalidObject or (error.ref and error.ref.name):
            raise
        raise error.at(error.path, ref_of(obj)) from None


def key_of(obj: ApiObject, kind: str = "") -> tuple[str, str]:
    """Return the (namespace, name) of an API object. `kind`: its `group/Kind`, if known. Raises InvalidObject."""
    is_global = not registry.is_namespaced(kind or group_kind(obj))
    namespace = "" if is_global else text(obj, "metadata", "namespace", default=registry.DEFAULT_NAMESPACE)
    return namespace, text(obj, "metadata", "name")


G = TypeVar("G", bound=tuple[str, ...])
V = TypeVar("V")
Key = tuple[str, str]
"""(namespace, name) of an object; the namespace is empty for cluster-scoped kinds."""

_SYSTEM: Final = Classes({c.name: c for c in SYSTEM_CLASSES})


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster at one moment. Immutable and safe to read from any thread."""

    priority_classes: Mapping[str, PriorityClass] = field(default_factory=lambda: _SYSTEM)
    namespaces: Mapping[Key, Namespace] = field(default_factory=FrozenTable)
    resource_quotas: Mapping[Key, ResourceQuota] = field(default_factory=FrozenTable)
    charged_quotas: Mapping[str, Sequence[ResourceQuota]] = field(default_factory=dict)
    """Namespace -> its ResourceQuotas with the use of Pods that will be created, by name."""
    limit_ranges: Mapping[Key, LimitRange] = field(default_factory=FrozenTable)
    pods: Mapping[Key, Pod] = field(default_factory=FrozenTable)
    waiting_pods: Mapping[Key, Pod] = field(default_factory=FrozenTable)
    """Pending Pods that are not terminating."""
    workloads: Mapping[tuple[str, str, str], Workload] = field(default_factory=FrozenTable)
    pod_counts_by_priority: Mapping[tuple[str, int | None], int] = field(default_factory=dict)
    """(PriorityClass name, priority) -> number of Pods that are not terminal."""
    pending_claims: frozenset[Key] = frozenset()
    """Keys of PersistentVolumeClaims that are created together with the predicted Pods, and whose volumes are not
    known.
    """
    later_quotas: Mapping[Key, frozenset[str]] = field(default_factory=dict)
    """Pod of the apply that is predicted -> names of the ResourceQuotas of its namespace that are created after it."""
    kueue: Mapping[str, Mapping[Key, Any]] = field(default_factory=dict)
    """`group/Kind` of Kueue -> its objects."""
    origin: Origin = field(default_factory=Origin)
    omitted: frozenset[tuple[str, str, str]] = frozenset()
    """(`group/Kind`, namespace, name) of objects that are too large to keep, wholly or in part."""
    _scheduling: LazySnapshot = field(default_factory=lambda: LazySnapshot(ClusterObjects()))

    @property
    def objects(self) -> ClusterObjects:
        """The objects that the scheduler reads: Nodes, PDBs, volumes and others."""
        return self._scheduling.objects

    @property
    def scheduling(self) -> Snapshot:
        """The scheduler's Snapshot, built on first use (which also imports numpy)."""
        return self._scheduling.get()

    @property
    def semantics(self) -> Semantics:
        return self.objects.semantics

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare` has finished."""
        return self._scheduling.is_prepared

    def prepare(self) -> None:
        """Compute data for the first prediction now. Raises CutShort; the next call continues."""
        from forewarn.policies.kubernetes.scheduling.bulk import prepare

        prepare(self.scheduling)
        self._scheduling.is_prepared = True

    def scheduled_as(self, snapshot: Snapshot) -> ClusterSnapshot:
        """Return the cluster with another scheduling Snapshot, for example with Pods that will be created."""
        return replace(self, _scheduling=LazySnapshot.from_snapshot(snapshot))

    def with_objects(self, objects: ClusterObjects) -> ClusterSnapshot:
        """Return the cluster with these objects for the scheduler; nodes and Pods must be the same."""
        built = self._scheduling.built
        lazy = LazySnapshot(objects) if built is None else LazySnapshot(objects, built, frozenset())
        return replace(self, _scheduling=lazy)

    def restrict_to(self, namespace: str) -> ClusterSnapshot:
        """Return the cluster with only the Pods and workloads of one namespace; scheduling still uses all Pods."""
        return replace(self, pods=self.pods_of(namespace), workloads=self.workloads_of(namespace))

    def pods_of(self, namespace: str) -> Mapping[Key, Pod]:
        return _group(self.pods, namespace, 0)

    def workloads_of(self, namespace: str) -> Mapping[tuple[str, str, str], Workload]:
        return _group(self.workloads, namespace, 1)

    def check_retained(self, namespace: str, *kinds: str) -> None:
        """Raise TooLargeToKeep if an object of the namespace and these kinds (default: all) is not stored whole."""
        missing = [(kind, name) for kind, of, name in self.omitted if of == namespace and (kind in kinds or not kinds)]
        if missing:
            kind, name = min(missing)
            raise TooLargeToRetain(f"{kind.rpartition('/')[2]} {namespace}/{name}", max_retained(kind))

    def namespace(self, name: str) -> Namespace | None:
        return self.namespaces.get(("", name))

    def lacks_namespace(self, name: str, created: Collection[str] = ()) -> bool:
        """Report whether kube-apiserver rejects objects of a namespace, because no Namespace has this name.

        `created`: names of the Namespaces that an apply creates. False if the state has no Namespaces except these, or
        has objects in this namespace. Source: apiserver, pkg/admission/plugin/namespace/lifecycle.
        """
        if name in (*created, *registry.SYSTEM_NAMESPACES, registry.RELEASE_NAMESPACE) or self.namespace(name):
            return False
        if not any(key[1] not in created for key in self.namespaces):
            return False
        others = (key[0] == name for table in (self.resource_quotas, self.limit_ranges) for key in table)
        return not (self.pods_of(name) or self.workloads_of(name) or any(others))

    def node_of(self, pod: Pod) -> str:
        """Return the node whose capacity a Pod uses: its own, or the nominated one while it is being bound; or ""."""
        return pod.node_name or (pod.nominated_node_name if being_bound(pod, self.objects.claims) else "")

    def stored(self, kind: str, namespace: str, name: str) -> ApiObject | None:
        """Return a PriorityClass, Pod, ResourceQuota, PodGroup or Workload (`group/Kind`) as API object; None if
        unknown.
        """
        key = (namespace, name)
        found = (
            (kind == registry.PRIORITY_CLASS and self.priority_classes.get(name))
            or (kind == registry.POD and self.pods.get(key))
            or (kind == registry.RESOURCE_QUOTA and self.resource_quotas.get(key))
            or (kind == registry.POD_GROUP and self.objects.pod_groups.get(key))
            or (kind == registry.GROUP_TEMPLATES and self.objects.group_templates.get(key))
        )
        return found.to_api() if found else None

    def quotas_of(self, namespace: str) -> list[ResourceQuota]:
        """Return the ResourceQuotas of a namespace, sorted by name. Raises TooLargeToRetain."""
        self.check_retained(namespace, registry.RESOURCE_QUOTA)
        if (charged := self.charged_quotas.get(namespace)) is not None:
            return list(charged)
        return sorted(_group(self.resource_quotas, namespace, 0).values(), key=lambda q: q.name)

    def limit_ranges_of(self, namespace: str) -> list[LimitRange]:
        """Return the LimitRanges of a namespace, sorted by name. Raises TooLargeToRetain."""
        self.check_retained(namespace, registry.LIMIT_RANGE)
        return sorted(_group(self.limit_ranges, namespace, 0).values(), key=lambda r: r.name)

    def workload(self, kind: str, namespace: str, name: str) -> Workload | None:
        return self.workloads.get((kind, namespace, name))

    def top_workload_of(self, pod: Pod) -> str:
        """Return `namespace/name` of a Pod's topmost workload: the Deployment, not its ReplicaSet.

        For a Pod without a controller, and for a static Pod, the name is that of the Pod.
        """
        owner = pod.owner
        if owner is None or pod.owner_kind == registry.NODE:
            return pod.key
        workload, name = self.workload(pod.owner_kind, pod.namespace, owner.name), owner.name
        if workload is not None:
            name = workload.controller[1] or name
        elif pod.owner_kind == registry.REPLICA_SET:  # many snapshots contain Deployments without their ReplicaSets
            deployment = self.workload(registry.DEPLOYMENT, pod.namespace, name.rpartition("-")[0])
            name = deployment.ref.name if deployment else name
        return f"{pod.namespace}/{name}"


class Cache:
    """The mutable state of a cluster: add and remove API objects one at a time; `snapshot()` returns the state.

    Only one thread may change the cache. `replaced`: called with `group/Kind`, the previous and the new view (None:
    absent), for each change, PriorityClasses excepted. `templates`: the `group/Kind` of workloads
    (`Options.pod_template_paths`). `semantics`: of the cluster's release; may change. `collect`: called first with each
    object that `add` gets; if the result is not None, `add` returns it and stores nothing.
    """

    def __init__(
        self,
        replaced: Callable[[str, Any, Any], object] | None = None,
        templates: Collection[str] = registry.POD_TEMPLATE_PATHS,
        semantics: Semantics = DEFAULT,
        collect: Callable[[ApiObject], bool | None] | None = None,
    ) -> None:
        self.origin = Origin()
        self._collect = collect
        self.reported_minor: int | None = None
        """The minor version that the cluster reports; None: unknown."""
        self.listed: set[str] | None = None
        """The `group/Kind`s that were listed, even if empty; None: all of them.

        A missing object of another kind may still exist in the cluster.
        """
        self._unlisted: frozenset[str] = frozenset()
        self._on_unknown_nodes: Mapping[str, int] = NOTHING
        self.devices_known: bool | None = None
        """Whether all device objects of the cluster are present; None: present if there are any."""
        self._replaced, self._templates = replaced, templates
        self._classes = _SYSTEM
        self._tables: dict[str, Table[Any, Any] | GroupedTable[Any, Any]] = {kind: Table() for kind in VIEWS}
        self._tables |= {
            kind: GroupedTable(place=0) for kind in (registry.POD, registry.RESOURCE_QUOTA, registry.LIMIT_RANGE)
        }
        self._tables[WORKLOADS] = GroupedTable(place=1)
        self._waiting: Table[Key, Pod] = Table()
        self._omitted: frozenset[tuple[str, str, str]] = frozenset()
        self.counted_quotas = self.counted_pdbs = 0
        """Numbers of stored ResourceQuotas and PDBs without a status, for which the Pods were counted."""
        self._grouped: Table[Key, Pod] = Table()
        self._pods_by_node = PodsByNode()
        self.semantics = semantics
        self._pod_counts: dict[tuple[str, int | None], int] = {}
        self._pod_counts_are_shared = False
        self.skipped: Counter[str] = Counter()
        """Kind -> number of objects that `add` ignored."""

    def copy(self) -> Self:
        """Return a cache with the same objects; later changes of one do not affect the other."""
        cache = copy(self)
        names = ("_waiting", "_grouped", "_pods_by_node", "_pod_counts", "skipped")
        vars(cache).update({name: vars(self)[name].copy() for name in names})
        vars(cache).update(_tables={kind: table.copy() for kind, table in self._tables.items()})
        return cache

    @property
    def semantics(self) -> Semantics:
        """The semantics of the cluster's release, with the profiles of its scheduler."""
        return self._semantics

    @semantics.setter
    def semantics(self, semantics: Semantics) -> None:
        self._semantics = semantics
        self._pods_by_node.set_schedulers(semantics.scheduler_names, self._tables[registry.POD].freeze().values())

    def check_release(self) -> None:
        """Raise InvalidObject if forewarn does not predict the cluster's release."""
        if why := self.semantics.unknown:
            raise InvalidObject(
                f"not predicted: {why}", fix="set a Kubernetes version to predict it as another release"
            )

    def add(self, obj: ApiObject) -> bool:
        """Add an API object, replacing the one of the same identity. Return False if the kind is ignored.

        Raises InvalidObject for an object that the API server would reject.
        """
        if self._collect is not None and (collected := self._collect(obj)) is not None:
            return collected
        kind = group_kind(obj)
        if kind in VIEWS:
            self._take(kind, key_of(obj, kind), obj)
        elif kind in self._templates:
            self._set(WORKLOADS, kind, (kind, *key_of(obj, kind)), Workload.from_api(obj))
        elif kind == registry.PRIORITY_CLASS:
            added = PriorityClass.from_api(obj)
            self._classes = Classes({**self._classes, added.name: added})
        elif isinstance(version := at(obj, "serverVersion", "gitVersion"), str):
            self._read_minor(version)
        elif empty := registry.listed_as_empty(obj):
            self.listed = None if self.listed is None else self.listed | {empty}
        elif not registry.is_snapshot_version(obj):
            self.skipped[str(obj.get("kind") or "objects without a kind")] += 1
            return False
        return True

    def put_views(self, views: Mapping[str, Mapping[Key, Any]]) -> None:
        """Add views of kinds with a table: `group/Kind` -> key -> view. Each replaces the one with the same key."""
        for kind, named in views.items():
            for key, view in named.items():
                self._put(kind, key, view)

    def _take(self, kind: str, key: Key, obj: ApiObject) -> None:
        """Decode and store an object; of a namespaced object that is too large, only the name. Raises InvalidObject."""
        try:
            view: Any = decoded(kind, obj)
            is_kept = kind != registry.POD or view.terminal or not view.spec.hides
        except TooLargeToRetain:
            if not key[0]:
                raise
            view, is_kept = None, False
        if self._omitted or not is_kept:
            self._note(kind, key, is_kept=is_kept)
        self._put(kind, key, view)

    def _note(self, kind: str, key: Key, *, is_kept: bool) -> None:
        """Record whether an object is stored whole. Earlier snapshots do not change."""
        if is_kept == ((kind, *key) in self._omitted):
            others = (name for name in self._omitted if name != (kind, *key))
            self._omitted = frozenset(others) if is_kept else self._omitted | {(kind, *key)}

    def _read_minor(self, version: str) -> None:
        """Read the minor from the `gitVersion` of a version or cluster snapshot. Raises InvalidObject."""
        try:
            self.reported_minor = minor_of(version)
        except UnknownRelease as error:
            raise InvalidObject(str(error), ("serverVersion", "gitVersion")) from None

    @property
    def kubelet_minor(self) -> int | None:
        """The minor version of the newest kubelet, which is at most that of kube-apiserver; None if none is known."""
        minors = set[int]()
        for version in {node.kubelet_version for node in self._tables[registry.NODE].freeze().values()}:
            with suppress(UnknownRelease):
                minors.add(minor_of(version))
        return max(minors, default=None)

    def remove(self, obj: ApiObject) -> None:
        """Remove an API object by its identity. Ignores missing objects and built-in PriorityClasses."""
        kind = group_kind(obj)
        if kind in VIEWS:
            self._note(kind, key_of(obj, kind), is_kept=True)
            self._put(kind, key_of(obj, kind), None)
        elif kind in self._templates:
            self._set(WORKLOADS, kind, (kind, *key_of(obj, kind)), None)
        elif kind == registry.PRIORITY_CLASS:
            _, name = key_of(obj, kind)
            self._classes = Classes({n: c for n, c in self._classes.items() if n != name or n in _SYSTEM})

    def keys(self, kind: str) -> set[Key]:
        """Return the (namespace, name) of all objects of a `group/Kind`, including built-in PriorityClasses."""
        if kind == registry.PRIORITY_CLASS:
            return {("", name) for name in self._classes}
        if kind in self._templates:
            return {(namespace, name) for other, namespace, name in self._tables[WORKLOADS] if other == kind}
        return {*self._tables[kind], *((namespace, name) for of, namespace, name in self._omitted if of == kind)}

    def snapshot(self) -> ClusterSnapshot:
        """Return the current cluster as an immutable snapshot. Cheap after a small change."""
        objects = self._objects()
        self._pod_counts_are_shared = True
        return ClusterSnapshot(
            pod_counts_by_priority=self._pod_counts,
            priority_classes=self._classes,
            namespaces=objects.namespaces,
            resource_quotas=self._tables[registry.RESOURCE_QUOTA].freeze(),
            limit_ranges=self._tables[registry.LIMIT_RANGE].freeze(),
            pods=self._tables[registry.POD].freeze(),
            waiting_pods=self._waiting.freeze(),
            workloads=objects.workloads,
            kueue={kind: self._tables[kind].freeze() for kind in _KUEUE},
            origin=self.origin,
            omitted=self._omitted,
            _scheduling=self._pods_by_node.next_snapshot(objects),
        )

    def _put(self, kind: str, key: Key, view: Any) -> None:
        """Set a view, or remove the view (None); update the scheduler's tables."""
        before = self._set(kind, kind, key, view)
        if kind == registry.NODE:
            self._pods_by_node.change_node(key[1])
        elif kind == registry.POD:
            self._pods_by_node.change_pod(before, view)
            self._count(before, -1)
            self._count(view, 1)
            waits = view is not None and not (view.node_name or view.terminal or view.terminating)
            is_grouped = view is not None and view.spec.pod_group and not view.terminal
            for table, is_in in ((self._waiting, waits), (self._grouped, is_grouped)):
                if is_in or before is not None:
                    _set(table, key, view if is_in else None)

    def _set(self, name: str, kind: str, key: Any, view: Any) -> Any:
        """Set a view in the table `name`, or remove the view (None); call `replaced`. Return the previous view."""
        before = self._tables[name].get(key)
        if self._replaced is not None:
            self._replaced(kind, before, view)
        _set(self._tables[name], key, view)
        return before

    def _count(self, pod: Pod | None, difference: int) -> None:
        """Add `difference` to the number of Pods with the Pod's class and priority. Earlier snapshots do not change."""
        if pod is None or pod.terminal:
            return
        if self._pod_counts_are_shared:
            self._pod_counts, self._pod_counts_are_shared = dict(self._pod_counts), False
        key = (pod.priority_class_name, pod.priority)
        count = self._pod_counts.get(key, 0) + difference
        if count:
            self._pod_counts[key] = count
        else:
            self._pod_counts.pop(key, None)

    def _objects(self) -> ClusterObjects:
        pods_by_node, nominated = self._pods_by_node.tables(self._tables[registry.CLAIM].freeze())
        tables = {name: self._tables[kind].freeze() for name, kind in SCHEDULER_TABLES.items()}
        return ClusterObjects(
            pods_by_node=pods_by_node,
            nominated=nominated,
            semantics=self.semantics,
            devices_known=self.devices_known,
            grouped_pods=self._grouped.freeze(),
            omitted=len(self._omitted),
            counted_quotas=self.counted_quotas,
            counted_pdbs=self.counted_pdbs,
            unlisted=self._not_listed(),
            pods_on_unknown_nodes=self._without_node(pods_by_node),
            **tables,
        )

    def _without_node(self, pods_by_node: Mapping[str, tuple[Pod, ...]]) -> Mapping[str, int]:
        """Return node name -> the number of Pods, for nodes that are not in the cache.

        Equal results are the same object. Costs nothing for nodes that did not change since the last snapshot.
        """
        nodes, before = self._tables[registry.NODE], self._on_unknown_nodes
        changed = {
            name: len(pods_by_node.get(name, ())) if nodes.get(("", name)) is None else 0
            for name in self._pods_by_node.since_last
        }
        if any(count != before.get(name, 0) for name, count in changed.items()):
            counts = sorted({**before, **changed}.items())
            self._on_unknown_nodes = {name: count for name, count in counts if count}
        return NOTHING if self.listed is None else self._on_unknown_nodes

    def _not_listed(self) -> frozenset[str]:
        """Return the `group/Kind` of objects not listed and not in the cache. Equal results are the same object."""
        absent = set[str]()
        if self.listed is not None:
            kinds = VIEWS.keys() - self.listed - {registry.KUEUE_CONFIGURATION}  # only in files, not in the API server
            absent = {kind for kind in kinds if not self._tables[kind]}
            absent |= {registry.PRIORITY_CLASS} - self.listed if self._classes is _SYSTEM else set()
        unlisted = frozenset(absent)
        self._unlisted = self._unlisted if unlisted == self._unlisted else unlisted
        return self._unlisted


def _set(table: Table[G, V] | GroupedTable[G, V], key: G, view: V | None) -> None:
    """Set a view in a table, or remove the view (None)."""
    if view is None:
        table.pop(key)
    else:
        table.put(key, view)


def _group(table: Mapping[G, V], namespace: str, place: int) -> Mapping[G, V]:
    """Return the entries of a namespace. `place`: index of the namespace in the keys."""
    if isinstance(table, FrozenGroups):
        return table.group(namespace)
    return {key: value for key, value in table.items() if key[place] == namespace}


@dataclass(frozen=True, slots=True)
class AnswerHead(Document):
    """The head of an answer about a cluster.

    `release`: Kubernetes release of the predictions, such as 1.36. `profile`: profiles of kube-scheduler. `assumes`:
    what the answer assumes, such as `no LimitRanges`.
    """

    origin: Inlined[Origin]
    release: str
    profile: str
    assumes: Always[tuple[str, ...]] = ()


@dataclass(frozen=True, repr=False)
class Result(Document):
    """The answer to a question about a cluster; a subclass adds its fields, which are also its JSON document."""

    head: AnswerHead

    if TYPE_CHECKING:

        @property
        def document(self) -> AnswerDocument: ...

    def __repr__(self) -> str:
        return described(self, self.document.headline)


def head_of(cluster: ClusterSnapshot, assumes: Iterable[str] = ()) -> AnswerHead:
    """Return the head of an answer about a cluster. `assumes`: in addition to what every answer assumes."""
    from forewarn.policies.kubernetes.scheduling.not_predicted import assumptions

    semantics = cluster.semantics
    profile = listed(sorted(semantics.scheduler_names))
    release = f"Kubernetes {semantics.release}" if semantics.assumed else ""
    given = filter(None, (release, cluster.origin.replaced))
    assumed = dict.fromkeys((*given, *assumptions(cluster.objects), *assumes))
    return AnswerHead(cluster.origin, semantics.release, profile, tuple(assumed))


def head_of_findings(cluster: ClusterSnapshot, findings: Iterable[Finding] = ()) -> AnswerHead:
    """Return the head of findings and cascades, which depend on all lists."""
    from forewarn.policies.kubernetes.scheduling.not_predicted import assumptions

    assumed = (clause for finding in findings for clause in finding.detail.get("assumes", ()))
    return head_of(cluster, (*assumptions(cluster.objects, victims=True, created=True), *assumed))
