"""The PodDisruptionBudgets of a Snapshot by namespace. After a change, only namespaces with changes are read again."""

from __future__ import annotations

import operator
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from forewarn.policies.cow_table import replaced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn.policies.objects.disruption_budget import PodDisruptionBudget
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.cluster_objects import ClusterObjects


class OlderPdbs(NamedTuple):
    """The PDBs of an older Snapshot. `table`: by (namespace, name). `pdbs`: see `pdbs_by_namespace`."""

    semantics: Semantics
    table: Mapping[tuple[str, str], PodDisruptionBudget]
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]]


def pdbs_by_namespace(
    objects: ClusterObjects, older: OlderPdbs | None
) -> Mapping[str, tuple[PodDisruptionBudget, ...]]:
    """Return namespace -> PDBs, sorted by name. Namespaces without changes have the same tuple object as in `older`."""
    honours_empty = objects.semantics.empty_selectors_count

    def counted(pdb: PodDisruptionBudget) -> PodDisruptionBudget:
        return replace(pdb, honours_empty=True) if honours_empty else pdb

    changed = replaced(older.table, objects.pdbs) if older and older.semantics == objects.semantics else None
    if older and changed is not None:
        return with_replaced(older.pdbs, {key: counted(pdb) for key, pdb in changed.items()})
    found: dict[str, list[PodDisruptionBudget]] = {}
    for (namespace, _), pdb in sorted(objects.pdbs.items(), key=itemgetter(0)):
        found.setdefault(namespace, []).append(counted(pdb))
    before: Mapping[str, tuple[PodDisruptionBudget, ...]] = older.pdbs if older else {}
    return {name: _unless_the_same(before.get(name, ()), pdbs) for name, pdbs in found.items()}


def with_replaced(
    pdbs: Mapping[str, tuple[PodDisruptionBudget, ...]], changed: Mapping[tuple[str, str], PodDisruptionBudget]
) -> Mapping[str, tuple[PodDisruptionBudget, ...]]:
    """Return namespace -> PDBs with changed PDBs replaced. `changed`: (namespace, name) -> PDB."""
    found = dict(pdbs)
    for namespace in {namespace for namespace, _ in changed}:
        found[namespace] = tuple(changed.get((namespace, pdb.name), pdb) for pdb in found[namespace])
    return found


def _unless_the_same(
    before: tuple[PodDisruptionBudget, ...], now: Sequence[PodDisruptionBudget]
) -> tuple[PodDisruptionBudget, ...]:
    if len(before) == len(now) and all(map(operator.is_, before, now)):
        return before
    return tuple(now)
