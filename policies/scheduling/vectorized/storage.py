"""Storage as arrays over nodes: CSINodes, attachments, and the equivalence classes that use claims and disks.

Values derived from a table of objects are cached until the table changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from forewarn.policies.metering import FEW, VECTOR, charge, each, meter
from forewarn.policies.scheduling.vectorized.constraints import NotValid

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence, Sized

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.storage import CSINode
    from forewarn.policies.objects.volumes import Disk, Volume
    from forewarn.policies.scheduling.snapshot import Snapshot
    from forewarn.policies.scheduling.vectorized.equivalence_classes import EquivalenceClasses
    from forewarn.policies.scheduling.vectorized.pod_matrix import PodMatrix

T = TypeVar("T")
_CACHE_SIZE: Final = 64
"""Maximum number of cached columns, and of cached values of each table."""
_TABLES: Final = 4
"""Maximum number of tables with cached values."""
_CACHED_ENTRIES: Final = 2**18
_MIN_CACHED: Final = 4
"""Number of values that are cached even for a very large table: each may be as long as the table."""
NO_LIMIT: Final = 2**62
MANY: Final = 10_000
"""Maximum number of exactly counted volumes of one Pod: the sums have two bytes for each Pod."""


class Users:
    """The Pods that use each PersistentVolumeClaim and each disk, as numbers of their equivalence classes."""

    def __init__(self) -> None:
        self._claims: dict[str, list[int]] = {}
        """Name of a claim -> the classes that use it, once for each of their volumes."""
        self._disks: dict[tuple[str, tuple[str, ...]], list[tuple[int, Disk]]] = {}
        """The identity of a disk -> (equivalence class, its disk)."""
        self.ephemeral: list[int] = []
        """Classes with ephemeral claims, whose names contain the name of the Pod."""
        self.faulty: list[int] = []
        """Classes with a volume for which NodeVolumeLimits may return an error."""
        self._known = 1

    def learn(self, kinds: EquivalenceClasses) -> None:
        """Evaluate the classes that were added since the last call. Raises CutShort; the next call continues."""
        members, work = kinds.members, meter()
        while self._known < len(members):
            pod = members[self._known]
            volumes = () if pod is None else pod.spec.volumes
            work.charge(1 + len(volumes))
            if volumes:
                self._learn(self._known, volumes)
            self._known += 1

    def _learn(self, kind: int, volumes: Sequence[Volume]) -> None:
        ephemeral, faulty = False, False
        for volume in volumes:
            if volume.claim_name is not None:
                self._claims.setdefault(volume.claim_name, []).append(kind)
            if volume.disk:
                self._disks.setdefault((volume.disk.kind, volume.disk.id), []).append((kind, volume.disk))
            ephemeral = ephemeral or volume.ephemeral
            faulty = faulty or volume.claim_name == "" or bool(volume.migrated and not volume.migrated.handle)
        if ephemeral:
            self.ephemeral.append(kind)
        if faulty:
            self.faulty.append(kind)

    def of_claims(self, matrix: PodMatrix, names: Iterable[str]) -> NDArray[np.int64]:
        """Return [class]: the number of volumes of a Pod with claims of these names, in any namespace.

        Raises NotValid for more volumes than can be summed up.
        """
        mask = np.zeros(len(matrix.kinds), np.int64)
        for name in each(tuple(names), 1):
            kinds = self._claims.get(name, ())
            charge(len(kinds) // 4)
            for kind in kinds:
                mask[kind] += 1
        if mask.max() > MANY:
            raise NotValid
        return mask

    def in_use(self, matrix: PodMatrix, namespace: str, names: Iterable[str]) -> int:
        """Return how many claims of a namespace with these names are used by Pods on nodes."""
        members = matrix.kinds.members
        own_kinds, of_claim = set[int](), []
        for name in each(tuple(names), 1):
            kinds = self._claims.get(name, ())
            charge(len(kinds) // 4)
            own = [kind for kind in kinds if (pod := members[kind]) is not None and pod.namespace == namespace]
            own_kinds.update(own)
            of_claim.append(own)
        if len(own_kinds) <= FEW:
            charge(len(own_kinds) * (matrix.kind.size // VECTOR))
            present = {kind for kind in own_kinds if (matrix.kind == kind).any()}
        else:
            charge(2 * matrix.kind.size // VECTOR)
            mask = np.zeros(len(members), np.bool_)
            mask[list(own_kinds)] = True
            present = set(matrix.kind[mask[matrix.kind]].tolist())
        return sum(not present.isdisjoint(own) for own in of_claim)

    def with_disks(self, matrix: PodMatrix, disks: Iterable[Disk]) -> NDArray[np.int64]:
        """Return [class]: 1 if a Pod of the class has a disk that conflicts with one of `disks` on the same node;
        otherwise 0.
        """
        amounts = np.zeros(len(matrix.kinds), np.int64)
        for disk in each(tuple(disks), 1):
            same = self._disks.get((disk.kind, disk.id), ())
            charge(len(same) // 2)
            for kind, other in same:
                if disk.conflicts(other):
                    amounts[kind] = 1
        return amounts


class StorageColumns:
    """The CSINodes of the nodes of a Snapshot, and the volumes in use on the nodes, as arrays."""

    def __init__(self) -> None:
        self._table: object = None
        self.csi_nodes: list[CSINode | None] = []
        """[node]: its CSINode, or None."""
        self.has_csi_node: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """[node], bool: whether the node has a CSINode."""
        self.limited: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """[node], bool: whether the CSINode has a limit for any driver."""
        self._columns: dict[tuple[str, str], NDArray[np.int64]] = {}
        self._users = Users()
        self._serials: NDArray[np.int64] = np.zeros(0, np.int64)
        self._used: NDArray[np.int64] = np.zeros(0, np.int64)
        self._cached: dict[int, tuple[object, dict[Hashable, object]]] = {}
        """id of a table -> (the table, values that depend on it)."""

    def sync(self, snapshot: Snapshot) -> None:
        """Update the columns to the CSINodes of a Snapshot. Raises CutShort."""
        table = snapshot.objects.csi_nodes
        if table is self._table:
            return
        charge(len(snapshot.rows) // 2)
        self._table = None
        self.csi_nodes = [table.get(("", name)) for name in snapshot.rows] if table else [None] * len(snapshot.rows)
        self._columns = {}
        self.has_csi_node = self._of_csi_nodes(lambda _: 1, 0) > 0
        self.limited = self._of_csi_nodes(lambda node: bool(node.limits), 0) > 0
        self._table = table

    def migrated(self, plugin: str) -> NDArray[np.bool_]:
        """Return [node], bool: whether the CSINode lists the in-tree plugin as migrated."""
        return self._column(("migrated", plugin), lambda node: plugin in node.migrated_plugins, 0) > 0

    def installed(self, driver: str) -> NDArray[np.bool_]:
        """Return [node], bool: whether the CSINode lists the driver."""
        return self._column(("installed", driver), lambda node: driver in node.drivers, 0) > 0

    def limit(self, driver: str) -> NDArray[np.int64]:
        """Return [node]: the maximum number of volumes of a driver; NO_LIMIT if the CSINode has no limit."""
        return self._column(("limit", driver), lambda node: node.limits.get(driver, NO_LIMIT), NO_LIMIT)

    def _column(self, key: tuple[str, str], of: Callable[[CSINode], int], without: int) -> NDArray[np.int64]:
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= _CACHE_SIZE:
                self._columns.clear()
            column = self._columns[key] = self._of_csi_nodes(of, without)
        return column

    def _of_csi_nodes(self, of: Callable[[CSINode], int], without: int) -> NDArray[np.int64]:
        values = (without if node is None else of(node) for node in each(self.csi_nodes, 0.2))
        return np.fromiter(values, np.int64, len(self.csi_nodes))

    def attached(self, snapshot: Snapshot, driver: str) -> NDArray[np.int64]:
        """Return [node]: the number of VolumeAttachments of a driver for the node."""
        table = snapshot.objects.attachments

        def compute() -> NDArray[np.int64]:
            totals = np.zeros(len(snapshot.rows), np.int64)
            for attachment in each(tuple(table.values()), 0.2):
                row = snapshot.rows.get(attachment.node_name) if attachment.attacher == driver else None
                if row is not None:
                    totals[row] += 1
            return totals

        return self.cached(table, driver, compute)

    def users(self, matrix: PodMatrix) -> Users:
        """Return the classes that use claims and disks, up to date. Raises CutShort."""
        self._users.learn(matrix.kinds)
        return self._users

    def used(self, matrix: PodMatrix) -> NDArray[np.int64]:
        """Return [node]: the number of volumes of the node's Pods that may be attached. Do not modify."""
        if len(self._serials) != len(matrix.serials):
            self._serials, self._used = np.full(len(matrix.serials), -1), np.zeros(len(matrix.serials), np.int64)
        rows, per_kind = np.flatnonzero(self._serials != matrix.serials), volumes_of_kinds(matrix)
        if len(rows):
            charge(len(matrix.kind) * len(rows) // VECTOR)
            self._used[rows] = per_kind[matrix.kind[:, rows]].sum(axis=0)
            self._serials[rows] = matrix.serials[rows]
        return self._used

    def cached(self, table: Sized, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result of `compute`, which depends only on a table and a key; cached."""
        if id(table) not in self._cached and len(self._cached) >= _TABLES:
            self._cached.clear()
        _, answers = self._cached.setdefault(id(table), (table, {}))
        if key not in answers:
            answer = compute()
            if len(answers) >= min(max(_CACHED_ENTRIES // max(len(table), 1), _MIN_CACHED), _CACHE_SIZE):
                answers.clear()
            answers[key] = answer
        result: T = answers[key]  # type: ignore[assignment]
        return result


def volumes_of_kinds(matrix: PodMatrix) -> NDArray[np.int64]:
    """Return [class]: the number of volumes of a Pod of the class that may be attached."""
    return matrix.cached("volumes", None, _volumes_of)


def _volumes_of(pod: Pod) -> int:
    return sum(v.claim_name is not None or v.ephemeral or v.migrated is not None for v in pod.spec.volumes)


def storage_of(matrix: PodMatrix, snapshot: Snapshot) -> StorageColumns:
    """Return the storage of the Snapshot's nodes, up to date. Raises CutShort."""
    if matrix.storage is None:
        matrix.storage = StorageColumns()
    storage_columns: StorageColumns = matrix.storage
    storage_columns.sync(snapshot)
    return storage_columns
