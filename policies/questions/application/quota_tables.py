"""The table of the ResourceQuotas whose usage a simulation changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.base.documents.answer import Table
from forewarn.policies.kubernetes.quantity import ZERO, in_units

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.prediction.simulation.simulation import Simulation


def quota_tables(simulation: Simulation, detail: int = 0) -> Iterator[Table]:
    """Yield a row for each resource whose usage or limit at the end differs from that at the start, the fullest quota
    first. `detail`: of the table, unless a limit differs.
    """
    rows: list[tuple[float, list[str | int]]] = []
    for before, after in simulation.api.quotas.changes() if simulation.api.quotas is not None else ():
        for resource, limit in sorted(after.hard.items()):
            used, limits = (
                [in_units(amounts.get(resource, ZERO)) for amounts in pair]
                for pair in ((before.used, after.used), (before.hard, after.hard))
            )
            if used[0] != used[1] or limits[0] != limits[1]:
                share = after.used.get(resource, ZERO).nano / limit.nano if limit.nano else 2.0
                shown = limits[1] if limits[0] == limits[1] else " → ".join(limits)
                rows.append((share, [f"{after.namespace}/{after.name}", resource, *used, shown]))
                detail = detail if limits[0] == limits[1] else 0
    rows.sort(key=lambda row: -row[0])
    yield Table(("QUOTA", "RESOURCE", "USED", "AFTER", "LIMIT"), [cells for _, cells in rows], detail=detail)
