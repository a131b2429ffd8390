"""The answer to `diff` in the form of all answers: about each cluster, and about all."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.application import several_clusters
from forewarn.policies.cluster.cache import AnswerHead, Origin
from forewarn.policies.disclosure import Disclose
from forewarn.policies.documents.answer import (
    NO_EFFECT,
    AnswerDocument,
    AnswerStatus,
    Cell,
    Counter,
    Effects,
    Table,
)
from forewarn.policies.findings import counted, cut, first_of, grouped, listed, one_line
from forewarn.policies.lint.versions import CHART_VALUES
from forewarn.policies.objects.workload import NO_EVICTION
from forewarn.policies.whatif.effects import not_created

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.application.diff import Diff, OnCluster
    from forewarn.policies.manifests.differences import ChangedObject

_NOTHING: Final = "no change of priorities, requests, replicas, quotas or PDBs"
_NOTHING_SIMULATED: Final = "nothing is simulated, so there is no statement on this change"
_KEPT: Final = "deletion is not simulated without --prune"
_NO_CLUSTER: Final = "not simulated, because no cluster is given"
_NOT_CONCERNED: Final = "gets no changed object"
FIX_OF_DIRECTORIES: Final = "Fix: map directories to clusters, or skip them (clusters and exclude in .forewarn.yaml)"
_FIX_OF_REPLICAS: Final = "Fix: raise spec.replicas in the manifests, or leave it out if something else sets it"
_FIX_OF_AUTOSCALED: Final = (
    "Fix: set the scale in the HorizontalPodAutoscaler, and remove spec.replicas; before that, also remove it with "
    "kubectl apply edit-last-applied KIND/NAME"
)
_LONGEST: Final = 300
_OF_WHOLE: Final = (
    "value", "globalDefault", "priorityClassName", "replicas", "requests", "hard", "minAvailable", "maxUnavailable",
    "hook",
)  # fmt: skip
"""Fields that are shown of created and deleted objects."""


class AnswerOn(NamedTuple):
    """The answer about one cluster, and its input."""

    cluster: str
    document: AnswerDocument
    head: AnswerHead


class DiffAnswer(NamedTuple):
    """The answer about all clusters, its input, and the answers about several clusters, the worst first."""

    document: AnswerDocument
    head: AnswerHead
    clusters: Sequence[AnswerOn] = ()


def answer_of(diff: Diff, disclose: Disclose = Disclose.NAMES) -> DiffAnswer:
    """Return the comparison in the form of all answers. `disclose`: which names from the clusters it has."""
    merged = merged_objects(diff)
    question = f"{counted(len(merged), 'object')} changed" if merged else _NOTHING
    if len(merged) == 1:
        question = " ".join((one_line(str(each := next(iter(merged)))), each.operation))
    versions = f"{diff.base} → {diff.head}"
    clusters = sorted(
        ((cluster, _on_cluster(diff, cluster, disclose, question)) for cluster in diff.clusters),
        key=lambda pair: ([-number for number in several_clusters.rank_of(pair[1])], pair[0].cluster),
    )
    several = [AnswerOn(each.cluster, document, _head(each)) for each, document in clusters]
    heads = [each.answer.head for each in diff.clusters if each.answer]
    if not clusters:
        clause = ("nothing is simulated" if diff.with_clusters else "") if not merged else _NO_CLUSTER
        status = AnswerStatus.WARN if merged else AnswerStatus.OK
        document = AnswerDocument(status, question, clause)
    elif len(clusters) == 1:
        document = several.pop().document
    else:
        rows = [several_clusters.OnCluster(*_row(*each)) for each in clusters]
        counters = several_clusters.total_of(each.document.effects for each in several)
        document = several_clusters.document_of(question, rows, counters)
    of_clusters = grouped((doubt, name) for name, doubt in _doubts_of(diff) if several)
    doubts = [*_doubts(diff), *(f"{listed(names)}: {doubt}" for doubt, names in of_clusters.items())]
    is_doubtful = document.status is AnswerStatus.OK and doubts
    first, others = document.tables[:1], document.tables[1:]
    return DiffAnswer(
        replace(
            document,
            status=AnswerStatus.WARN if is_doubtful else document.status,
            warnings=[*doubts, *_unsimulated(diff, merged), *document.warnings],
            tables=[*first, *_own_tables(diff, merged, disclose), *others],
        ),
        several_clusters.head_of(heads, versions),
        several,
    )


def merged_objects(diff: Diff) -> dict[ChangedObject, list[str]]:
    """The changed objects, and the directories of each; an object that changes alike in several of them once."""
    return grouped((each._replace(directory="", fields=tuple(each.fields)), each.directory) for each in diff.objects)


def _head(cluster: OnCluster) -> AnswerHead:
    return cluster.answer.head if cluster.answer else AnswerHead(Origin(cluster.cluster), "", "")


def _row(cluster: OnCluster, document: AnswerDocument) -> tuple[str, str, Mapping[str, Cell]]:
    cells = several_clusters.row_of(document)
    if cluster.answer is None:  # nothing is simulated
        cells = {head: cell for head, cell in cells.items() if head in ("STATUS", "BECAUSE") or cell}
    cells["BECAUSE"] = cells["BECAUSE"] or next(_notes(cluster), "").partition(". Fix: ")[0]
    return cluster.cluster, document.clause, cells


# One cluster


def _on_cluster(diff: Diff, cluster: OnCluster, disclose: Disclose, question: str) -> AnswerDocument:
    """The answer about one cluster: that of the simulated apply, and what only a comparison knows."""
    doubts, notes = [*_lacking(cluster)], [*_notes(cluster)]
    document = _simulated(cluster)
    if disclose is not Disclose.NAMES:
        own = {changed.namespace for changed in diff.objects} if disclose is Disclose.OWN_NAMESPACE else set[str]()
        document = _restricted(document, own)
    is_kept = not diff.prunes and any(each.operation == "deleted" for each in cluster.applied)
    if (doubts or is_kept) and not (cluster.simulated or cluster.faults or cluster.reason):
        document = replace(document, clause=_NOTHING_SIMULATED if doubts else _KEPT)
    elif cluster.removed and document.clause == NO_EFFECT:
        document = replace(document, clause=f"{counted(cluster.removed, 'Pod')} removed")
    is_notable = (
        doubts
        or is_kept
        or cluster.pruned
        or cluster.scaled_down
        or (cluster.answer and cluster.answer.answer.new_pods)
    )
    is_doubtful = document.status is AnswerStatus.OK and is_notable
    shown = [*document.shown, *([Counter("Pods removed", cluster.removed)] if cluster.removed else [])]
    tables = [*document.tables, *(_tables(cluster) if disclose is Disclose.NAMES else ())]
    return replace(
        document,
        status=AnswerStatus.WARN if is_doubtful else document.status,
        question=question,
        shown=shown,
        warnings=[*doubts, *notes, *document.warnings],
        tables=tables,
        more="-v workloads, namespaces and objects" + (" | -vv each preemption" if document.effects.preempted else ""),
    )


def _simulated(cluster: OnCluster) -> AnswerDocument:
    if cluster.answer is not None:
        return cluster.answer.document
    if cluster.reason:
        problem, _, fix = cluster.reason.partition(". Fix: ")
        warnings = [f"Fix: {fix}"] if fix else []
        return AnswerDocument(AnswerStatus.NO_ANSWER, "", problem, warnings=warnings)
    if cluster.faults:
        count, why = len(cluster.faults), cluster.why
        clause = f"{counted(count, 'object')} rejected"
        shown = [Counter("rejected", count)]
        return AnswerDocument(AnswerStatus.REJECTED, "", clause, Effects(rejected=count), shown, why=why)
    return AnswerDocument(AnswerStatus.OK, "", _NOT_CONCERNED)


def _restricted(document: AnswerDocument, own: Container[str]) -> AnswerDocument:
    """The answer with only names of workloads in these namespaces, and without what may contain other names."""
    hidden = len(document.warnings) + bool(document.why)
    told = [f"{counted(hidden, 'reason or warning', 'reasons and warnings')} not shown (--disclose)"] if hidden else []
    tables = [
        table._replace(rows=rows)
        for table in document.tables
        if table.columns[0] == "WORKLOAD"
        and (rows := [row for row in table.rows if str(row[0]).partition("/")[0] in own])
    ]
    return replace(document, why=None, warnings=told, tables=tables)


def _lacking(cluster: OnCluster) -> Iterator[str]:
    """Yield what the simulation of a cluster lacks."""
    if cluster.absent:
        count = counted(len(cluster.absent), "changed workload")
        yield (
            f"{count} not simulated, because the cluster state lacks {_first(cluster.absent, 'workload')}. Fix: take a "
            "new snapshot, or map directories to clusters (clusters in .forewarn.yaml)"
        )
    if cluster.unpredicted:
        count = counted(len(cluster.unpredicted), "changed object")
        yield f"{count} not predicted: {_first(cluster.unpredicted, 'object')}"
    taken, others = cluster.directories
    if others:
        count = counted(len({*taken, *others}), "directory has a version", "directories have versions")
        versions = f"{_first(taken, 'directory')} is simulated, and not {_first(others, 'directory')}"
        yield f"{count} of these workloads: {versions}. {FIX_OF_DIRECTORIES}"
    for each in cluster.not_predicted:
        pods = each.not_started + (not_created(each, cluster.answer.answer) if cluster.answer else 0)
        why = "forewarn does not model which nodes can use this workload's new volumes"
        yield f"{counted(pods, 'new Pod')} of {one_line(each.workload)} not predicted: {why}"


def _notes(cluster: OnCluster) -> Iterator[str]:
    """Yield what an apply does because the cluster differs from the first version, and what happens after it."""
    drift = [item for item in cluster.lasting if item.base != item.before]
    for items, why in (
        (drift, "because the cluster has more than the manifests (drift)"),
        ([item for item in cluster.lasting if item not in drift], "because spec.replicas is removed"),
    ):
        if pods := sum(item.before - item.after for item in items):
            yield f"the apply scales down {counted(pods, 'running replica')} {why}. {_FIX_OF_REPLICAS}"
    reduced = [item for item in cluster.scaled_down if item not in cluster.lasting]
    if pods := sum(item.before - item.after for item in reduced):
        until = "until their HorizontalPodAutoscalers act"
        yield f"outage risk: the apply scales down {counted(pods, 'replica')} {until}. {_FIX_OF_AUTOSCALED}"
    elif cluster.autoscaled:
        count = counted(len(cluster.autoscaled), "workload")
        yield f"HorizontalPodAutoscalers then scale {count}: the counters are those before that. {_FIX_OF_AUTOSCALED}"
    if cluster.differing:
        yield f"drift: the apply also resets fields of {counted(len(cluster.differing), 'workload')} in the cluster"
    if cluster.has_rejected_rollouts:
        yield "rollouts of workloads with rejected Pods are not simulated: they delete old Pods, and no new Pod starts"
    if cluster.surging:
        why = "start new Pods before they delete old ones (maxSurge), so they need more for a time"
        yield f"requests do not grow, but the rollouts of {_first(cluster.surging, 'workload')} {why}"
    for item in cluster.pruned:
        running = f", and {counted(item.running, 'running Pod')} cannot be recreated" if item.running else ""
        yield (
            f"if the GitOps tool prunes PriorityClass {one_line(item.priority_class)}, new Pods of "
            f"{counted(item.workloads, 'workload')} are rejected{running}. Fix: keep it until no workload names it"
        )


def _first(names: Iterable[str], noun: str) -> str:
    return cut(first_of([*map(one_line, names)], noun), _LONGEST)


def _tables(cluster: OnCluster) -> Iterator[Table]:
    """Yield what changes in the cluster beside the effects of the simulation."""
    if messages := [(*of.partition(": ")[::2],) for of in (*cluster.faults, *cluster.unpredicted)]:
        yield Table(("NOT SIMULATED", "MESSAGE"), messages, detail=1)
    autoscaled = {item.workload: item for item in cluster.autoscaled}
    scaled = {item.workload: item for item in cluster.scaled_down}
    replicas: list[list[Cell]] = []
    for name in {**scaled, **autoscaled}:
        down, scaler = scaled.get(name), autoscaled.get(name)
        now, applied = (down.before, down.after) if down else ("", scaler.replicas if scaler else "")
        limits = f"HorizontalPodAutoscaler {scaler.autoscaler}: {scaler.least} to {scaler.most}" if scaler else ""
        replicas.append([name, now, applied, scaler.at_last if scaler else "", limits])
    if replicas:
        yield Table(("REPLICAS OF", "NOW", "APPLIED", "LATER", "BECAUSE"), replicas)
    if cluster.differing:
        fields: list[list[Cell]] = [[item.workload, *field] for item in cluster.differing for field in item.fields]
        yield Table(("DRIFT OF", "FIELD", "NOW", "AFTER THE APPLY"), fields)
    if cluster.removing:
        removed: list[list[Cell]] = [[each.workload, each.removed, each.before] for each in cluster.removing]
        yield Table(("PODS REMOVED OF", "PODS", "RUNNING BEFORE"), removed)
    if cluster.passed:
        yield Table(("RUNNING PODS OF CLASS", "NEW PODS OUTRANK", "NEW PODS RANK BELOW"), cluster.passed)
    if pruned := [(name, item.priority_class) for item in cluster.pruned for name in item.names]:
        yield Table(("REJECTED IF PRUNED", "PRIORITYCLASS"), pruned, detail=1)


# The change


def _doubts(diff: Diff) -> Iterator[str]:
    """Yield what the comparison lacks, and PDBs that never allow an eviction."""
    yield from (f"not compared: {cut(note, 2 * _LONGEST)}" for note in diff.notes)
    if diff.not_compared:
        objects = [name.partition(": ")[2] for name in diff.not_compared]
        kinds = Tally(name if name == CHART_VALUES else name.partition(" ")[0] for name in objects)
        names = _first([f"{kind} ({count})" for kind, count in kinds.items()], "kind")
        yield f"{counted(len(diff.not_compared), 'changed object')} not compared: {names}"
    never = [each for each in merged_objects(diff) if any((of.name, of.after) in NO_EVICTION for of in each.fields)]
    if never:
        names = _first([f"{each.namespace}/{each.name}" for each in never], "PDB")
        allow = "allows no eviction and blocks" if len(never) == 1 else "allow no eviction and block"
        yield f"PDB {names} {allow} drains. Fix: maxUnavailable: 1"


def _doubts_of(diff: Diff) -> Iterator[tuple[str, str]]:
    """Yield the name of each cluster with what its simulation lacks."""
    yield from ((cluster.cluster, doubt) for cluster in diff.clusters for doubt in _lacking(cluster))


def _unsimulated(diff: Diff, objects: Iterable[ChangedObject]) -> Iterator[str]:
    """Yield the removed objects whose deletion is not simulated."""
    gone = [str(each) for each in objects if each.operation == "deleted"]
    if gone and diff.clusters and not diff.prunes:
        fix = "Fix: pass --prune if the GitOps tool prunes"
        yield f"deletion not simulated: {_first(gone, 'object')}. {fix}"


def _own_tables(diff: Diff, objects: Mapping[ChangedObject, Sequence[str]], disclose: Disclose) -> Iterator[Table]:
    """Yield the changed objects, those that are not compared, and the affected namespaces."""
    preempted = Tally(name for cluster in diff.clusters for name in cluster.preemptors)
    rows: list[list[Cell]] = [
        [str(each), listed(places), preempted[f"{each.namespace}/{each.name}"], _change(each)]
        for each, places in objects.items()
    ]
    if rows:
        yield Table(("CHANGED OBJECT", "DIRECTORY", "PREEMPTS", "CHANGE"), rows, detail=int(len(diff.clusters) > 1))
    if diff.not_compared:
        others = [(name, place) for place, _, name in (each.partition(": ") for each in diff.not_compared)]
        yield Table(("NOT COMPARED", "FILE"), others, detail=int(bool(diff.objects)))
    yield from _namespaces(diff, disclose)


def _change(changed: ChangedObject) -> str:
    if changed.operation == "changed":
        return "; ".join(map(str, changed.fields))
    whole = (f"{field.name} {field.after or field.before}" for field in changed.fields if field.name in _OF_WHOLE)
    return "; ".join([changed.operation, *whole])


def _namespaces(diff: Diff, disclose: Disclose) -> Iterator[Table]:
    """Yield the affected namespaces with their owners and the sums over the clusters, the most affected first."""
    own = {changed.namespace for changed in diff.objects}
    affected = grouped(
        ((each.namespace, each.owner), (cluster.cluster, each[2:]))
        for cluster in diff.clusters
        for each in cluster.namespaces
        if disclose is Disclose.NAMES or (disclose is Disclose.OWN_NAMESPACE and each.namespace in own)
    )
    if not affected:
        return
    rows: list[list[Cell]] = []
    for (namespace, owner), of in affected.items():
        sums = [sum(column) for column in zip(*(counts for _, counts in of), strict=True)]
        rows.append([namespace, owner, listed([name for name, _ in of]) if diff.clusters[1:] else "", *sums])
    rows.sort(key=lambda row: ([-int(cell) for cell in row[3:]], row[0]))
    heads = ("LOST", "PREEMPTED", "PENDING", "REJECTED", "REMOVED", "PLACEHOLDERS", "NEW PRIORITY")
    is_shown = disclose is not Disclose.NAMES or any(owner for _, owner in affected)
    yield Table(("NAMESPACE", "OWNER", "CLUSTERS", *heads), rows, detail=int(not is_shown))
