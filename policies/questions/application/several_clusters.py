"""The answer about several clusters, in the common answer format: a row for each cluster, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from forewarn.policies.base.documents.answer import (
    AnswerDocument,
    AnswerStatus,
    Cell,
    Counter,
    Effects,
    Rows,
    Table,
    label,
)
from forewarn.policies.base.findings import brief, one_line, plural
from forewarn.policies.kubernetes.cluster.cache import AnswerHead, Origin

_STATUS: Final = "STATUS"
_BECAUSE: Final = "BECAUSE"
_ALWAYS: Final = ("REJECTED", "PREEMPTED", "LOST", "PENDING")
"""Columns that the table has even if all numbers are 0."""
_SECOND: Final = ("PDBS VIOLATED", "PDBS SHORT", "PLACEHOLDERS", "NEW NODES", "REMOVED NODES")
"""Columns of a second table, with -v."""
_ORDER: Final = ("rejected", "preempted", "lost", "jobs_failed", "pending")
_MAX_NAME_LENGTH: Final = 40


class AnswerOn(NamedTuple):
    """The answer about one of several clusters, and its input."""

    cluster: str
    document: AnswerDocument
    head: AnswerHead


class OnCluster(NamedTuple):
    """An answer as a row: the name of its cluster, its consequence, and its cells by column head."""

    name: str
    clause: str
    cells: Mapping[str, Cell]

    @property
    def status(self) -> AnswerStatus:
        return AnswerStatus(str(self.cells[_STATUS]))


def row_of(document: AnswerDocument) -> dict[str, Cell]:
    """Return the row of one answer, by column: its status, its counters (or the numbers that it shows, if it has none)
    and its first reason.
    """
    shown = [(each.name, each.value or 0) for each in document.shown]
    if document.counters:
        counters = document.counters._asdict()
        others = (name for name in counters if name not in (*_ORDER, "victims", "down_seconds"))
        shown = [(name, counters[name]) for name in (*_ORDER, *others)]
    numbers = {label(name).upper(): number for name, number in shown}
    return {_STATUS: str(document.status), **numbers, _BECAUSE: _reason_of(document)}


def _reason_of(document: AnswerDocument) -> str:
    """Return the first reason, without its fix."""
    reasons = [cause.reason_first or cause.reason for cause in document.why.causes] if document.why else []
    if document.status in (AnswerStatus.NO_ANSWER, AnswerStatus.WARN):
        reasons += [*document.warnings[:1], document.clause]
    return reasons[0].partition(". Fix: ")[0] if reasons else ""


def rank_of(document: AnswerDocument) -> list[int]:
    """The sort key of an answer: numbers that are larger for a worse answer, the most important first."""
    effects = document.effects
    later = document.counters_with_new_nodes or effects
    loss = int(effects.lost > 0), document.priority or 0
    return [len(AnswerStatus) - document.status.rank, *loss, *later, *effects]


def document_of(question: str, clusters: Sequence[OnCluster]) -> AnswerDocument:
    """Return the answer about several clusters, without the sums of their counters. `clusters`: the worst first."""
    first, *others = clusters
    name = brief(first.name, _MAX_NAME_LENGTH)
    is_alike = all(each.clause == first.clause for each in others)
    clause = f"{'all alike' if is_alike else f'worst is {name}'}: {one_line(first.clause)}"
    affected = sum(each.status is not AnswerStatus.OK for each in clusters)
    return AnswerDocument(
        status=min((each.status for each in clusters), key=lambda status: status.rank),
        question=question,
        clause=clause if others else one_line(first.clause),
        shown=[Counter("clusters", len(clusters)), Counter("affected", affected)],
        tables=_tables(clusters),
        more=["-v the answer about each cluster"],
    )


def _tables(clusters: Sequence[OnCluster]) -> list[Table]:
    """The table of clusters, and with -v one of further counters. Counters that a cluster does not have are empty."""
    heads = dict.fromkeys(head for each in clusters for head in each.cells if head not in (_STATUS, _BECAUSE))
    shown = [head for head in heads if head in _ALWAYS or any(each.cells.get(head) for each in clusters)]
    first, second = ([head for head in shown if (head in _SECOND) is is_second] for is_second in (False, True))
    tables = [_table([_STATUS, *first, _BECAUSE], clusters)]
    return [*tables, _table(second, clusters)._replace(detail=1)] if second else tables


def _table(heads: Sequence[str], clusters: Sequence[OnCluster]) -> Table:
    rows: Rows = [[each.name, *(each.cells.get(head, "") for head in heads)] for each in clusters]
    return Table(("CLUSTER", *heads), rows, zeros=True)


def total_of(counters: Iterable[Effects]) -> Effects:
    """The sums of counters; for the time that workloads are down, the maximum."""
    every = [*counters]
    sums = Effects(*map(sum, zip(*every, strict=True))) if every else Effects()
    return sums._replace(down_seconds=max((each.down_seconds for each in every), default=0))


def head_of(heads: Iterable[AnswerHead], source: str = "") -> AnswerHead:
    """The input of several answers: the number of clusters, the oldest time, all releases and assumptions.

    `source`: what is named before the clusters.
    """
    every = [*heads]
    if not every:
        return AnswerHead(Origin(source or "no cluster with an answer"), "", "")
    releases = sorted({each.release for each in every})
    times = sorted(each.origin.time for each in every)
    assumes = dict.fromkeys(clause for each in every for clause in each.assumes)
    clusters = every[0].origin.cluster if len(every) == 1 else plural(len(every), "cluster")
    origin = Origin(", ".join(filter(None, (source, clusters))), times[0])
    return AnswerHead(origin, " and ".join(releases), every[0].profile, tuple(assumes))
