"""The answer to `diff` in the common answer format: about each cluster, and about all."""

from __future__ import annotations

import re
from collections import Counter as Tally
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.base.documents.answer import (
    NO_EFFECT,
    AnswerDocument,
    AnswerStatus,
    Counter,
    Effects,
    Rows,
    Table,
)
from forewarn.policies.base.findings import cut, grouped, listed, one_line, plural
from forewarn.policies.inputs.manifests.differences import IMMUTABLE, TEMPLATE, ChangedObject
from forewarn.policies.kubernetes.cluster.cache import AnswerHead, Origin
from forewarn.policies.kubernetes.objects.workload import NO_EVICTION
from forewarn.policies.questions.application import several_clusters
from forewarn.policies.questions.versions.versions import CHART_VALUES
from forewarn.policies.questions.whatif.effects import not_created

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.questions.application.diff import Diff, OnCluster

_NOTHING: Final = "no change of priorities, requests, replicas, quotas or PDBs"
FIX_OF_DIRECTORIES: Final = "Fix: map directories to clusters, or skip them (clusters and exclude in .forewarn.yaml)"
_FIX_OF_REPLICAS: Final = "Fix: raise spec.replicas in the manifests, or leave it out if something else sets it"
_FIX_OF_AUTOSCALED: Final = (
    "Fix: set the scale in the HorizontalPodAutoscaler, and remove spec.replicas; before that, also remove it with "
    "kubectl apply edit-last-applied KIND/NAME"
)
_MAX_LENGTH: Final = 300
_MAX_FIELDS: Final = 3
"""Maximum number of names of changed fields in the status line."""
_OF_WHOLE: Final = (
    "value", "globalDefault", "priorityClassName", "replicas", "requests", "hard", "minAvailable", "maxUnavailable",
    "hook",
)  # fmt: skip
"""Fields that are shown of created and deleted objects."""


class DiffAnswer(NamedTuple):
    """The answer about all clusters, its input, and the answers about several clusters, the worst first."""

    document: AnswerDocument
    head: AnswerHead
    clusters: Sequence[several_clusters.AnswerOn] = ()


def answer_of(diff: Diff, disclose: Disclose = Disclose.NAMES) -> DiffAnswer:
    """Return the comparison in the common answer format. `disclose`: which names from the clusters it contains."""
    objects = grouped((each._replace(directory="", fields=tuple(each.fields)), each.directory) for each in diff.objects)
    question = _question(objects)
    document, several = _on_clusters(diff, disclose, question)
    if not diff.clusters:
        clause = "not simulated, because no cluster is given" if objects else "nothing is simulated"
        status = AnswerStatus.WARN if objects else AnswerStatus.OK
        document = AnswerDocument(status, question, clause if objects or diff.with_clusters else "")
    gaps = grouped((gap, cluster.cluster) for cluster in diff.clusters if several for gap in _gaps(cluster))
    doubts = [*_doubts(diff, objects), *(f"{listed(names)}: {gap}" for gap, names in gaps.items())]
    document = replace(
        document,
        status=AnswerStatus.WARN if doubts and document.status is AnswerStatus.OK else document.status,
        warnings=[*doubts, *document.warnings],
        tables=sorted([*_tables(diff, objects, disclose), *document.tables], key=lambda table: table.detail),
    )
    heads = [each.answer.head for each in diff.clusters if each.answer]
    return DiffAnswer(document, several_clusters.head_of(heads, f"{diff.base} → {diff.head}"), several)


def _question(objects: Collection[ChangedObject]) -> str:
    """The question: the changed object, or the number of objects, with the names of the changed fields."""
    if not objects:
        return _NOTHING
    changed = (field.name for each in objects for field in each.fields if field.name != IMMUTABLE)
    # For an annotation, the name without the domain; for other fields, the first part of the path.
    first = (name.rpartition("/")[2] if "/" in name else re.split(r"[.[]", name)[0] for name in changed)
    names = Tally("Pod template" if name == TEMPLATE else name for name in first)
    operations = {each.operation for each in objects}
    fields = [name for name, _ in names.most_common()] if operations == {"changed"} else []
    what = f" ({listed(fields, _MAX_FIELDS)})" if fields else ""
    verb = operations.pop() if len(objects) == 1 else "changed"
    return f"{one_line(str(*objects)) if len(objects) == 1 else plural(len(objects), 'object')} {verb}{what}"


def _on_clusters(
    diff: Diff, disclose: Disclose, question: str
) -> tuple[AnswerDocument, Sequence[several_clusters.AnswerOn]]:
    """Return the answer about all clusters, and those about each of several, the worst first."""
    answers = [(cluster, _on_cluster(diff, cluster, disclose, question)) for cluster in diff.clusters]
    answers.sort(key=lambda pair: ([-rank for rank in several_clusters.rank_of(pair[1])], pair[0].cluster))
    if len(answers) <= 1:
        return next((own for _, own in answers), AnswerDocument(AnswerStatus.OK, question, "")), []
    document = several_clusters.document_of(question, [_row(*each) for each in answers])
    document = replace(document, counters=several_clusters.total_of(own.effects for _, own in answers))
    return document, [several_clusters.AnswerOn(each.cluster, own, _head(each)) for each, own in answers]


def _head(cluster: OnCluster) -> AnswerHead:
    return cluster.answer.head if cluster.answer else AnswerHead(Origin(cluster.cluster), "", "")


def _row(cluster: OnCluster, document: AnswerDocument) -> several_clusters.OnCluster:
    cells = several_clusters.row_of(document)
    if document.why is None and (told := next(chain(_gaps(cluster), _notes(cluster)), "")):
        cells["BECAUSE"] = told.partition(". Fix: ")[0]
    if cluster.answer is None:  # nothing is simulated
        cells = {head: cell for head, cell in cells.items() if head in ("STATUS", "BECAUSE") or cell}
    return several_clusters.OnCluster(cluster.cluster, document.clause, cells)


# One cluster


def _on_cluster(diff: Diff, cluster: OnCluster, disclose: Disclose, question: str) -> AnswerDocument:
    """The answer about one cluster: that of the simulated apply, and what only a comparison can tell."""
    gaps, document = [*_gaps(cluster)], _simulated(cluster)
    if disclose is not Disclose.NAMES:
        document = _restricted(document, {changed.namespace for changed in diff.objects}, disclose)
    clause, lacking = _clause_on(diff, cluster, document.clause), diff.not_simulated.intersection(cluster.absent)
    if lacking and cluster.answer is not None and not cluster.answer.conditions:
        clause = f"{plural(len(lacking), 'changed workload')} not simulated; {clause}"
    has_new_priorities = cluster.answer is not None and bool(cluster.answer.answer.new_pods)
    is_notable = gaps or cluster.pruned or has_new_priorities or any(each.removed for each in cluster.resets)
    return replace(
        document,
        status=AnswerStatus.WARN if is_notable and document.status is AnswerStatus.OK else document.status,
        question=question,
        clause=clause,
        shown=[*document.shown, Counter("Pods removed", cluster.removed, optional=True)],
        warnings=[*gaps, *_notes(cluster), *document.warnings],
        tables=[*document.tables, *(_live_state_tables(cluster) if disclose is Disclose.NAMES else ())],
        more=("-v workloads, namespaces and objects", "-vv each preemption")[: 1 + bool(document.effects.preempted)],
    )


def _clause_on(diff: Diff, cluster: OnCluster, clause: str) -> str:
    """The consequence for one cluster, from the simulation, or the reason why there is none."""
    gaps, is_kept = [*_gaps(cluster)], not diff.prunes and any(each.operation == "deleted" for each in cluster.applied)
    if (gaps or is_kept) and not (cluster.simulated or cluster.faults or cluster.reason):
        nothing = "nothing is simulated, so there is no statement on this change"
        return nothing if gaps else "deletion is not simulated without --prune"
    return f"{plural(cluster.removed, 'Pod')} removed" if cluster.removed and clause == NO_EFFECT else clause


def _simulated(cluster: OnCluster) -> AnswerDocument:
    if cluster.answer is not None:
        return cluster.answer.document
    if cluster.reason:
        problem, _, fix = cluster.reason.partition(". Fix: ")
        return AnswerDocument(AnswerStatus.NO_ANSWER, "", problem, warnings=[f"Fix: {fix}"] if fix else [])
    if number := len(cluster.faults):
        clause, shown = f"{plural(number, 'object')} rejected", [Counter("rejected", number)]
        return AnswerDocument(AnswerStatus.REJECTED, "", clause, Effects(rejected=number), shown, why=cluster.why)
    return AnswerDocument(AnswerStatus.OK, "", "gets no changed object")


def _restricted(document: AnswerDocument, own: Container[str], disclose: Disclose) -> AnswerDocument:
    """The answer without text that may contain names from the cluster, except of workloads in the namespaces `own`."""
    hidden = len(document.warnings) + bool(document.why)
    told = [f"{plural(hidden, 'reason or warning', 'reasons and warnings')} not shown (--disclose)"] if hidden else []
    is_shown = disclose is Disclose.OWN_NAMESPACE
    tables = [
        table._replace(rows=rows)
        for table in document.tables
        if is_shown
        and table.columns[0] == "WORKLOAD"
        and (rows := [row for row in table.rows if str(row[0]).partition("/")[0] in own])
    ]
    return replace(document, why=None, warnings=told, tables=tables)


def _gaps(cluster: OnCluster) -> Iterator[str]:
    """Yield sentences about changes that the simulation of a cluster does not cover."""
    if cluster.absent:
        count, names = plural(len(cluster.absent), "changed workload"), _first(cluster.absent)
        fix = "Fix: take a new snapshot, or map directories to clusters (clusters in .forewarn.yaml)"
        yield f"{count} not simulated, because the cluster state lacks {names}. {fix}"
    if cluster.unpredicted:
        names = _first(cluster.unpredicted)
        yield f"{plural(len(cluster.unpredicted), 'changed object')} not predicted: {names}"
    taken, others = cluster.directories
    if others:
        count = plural(len({*taken, *others}), "directory has a version", "directories have versions")
        versions = f"{listed(taken)} is simulated, and not {listed(others)}"
        yield f"{count} of these workloads: {versions}. {FIX_OF_DIRECTORIES}"
    for each in cluster.not_predicted:
        pods = each.not_started + (not_created(each, cluster.answer.answer) if cluster.answer else 0)
        why = "forewarn does not model which nodes can use this workload's new volumes"
        yield f"{plural(pods, 'new Pod')} of {one_line(each.workload)} not predicted: {why}"


def _notes(cluster: OnCluster) -> Iterator[str]:
    """Yield sentences about effects of an apply that depend on the state of the cluster, and about later effects."""
    of = {cause: [each for each in cluster.resets if each.cause == cause] for cause in ("drift", "unset", "autoscaler")}
    removed = {cause: sum(each.removed for each in resets) for cause, resets in of.items()}
    down = {cause: f"the apply scales down {plural(number, 'replica')}" for cause, number in removed.items()}
    if removed["autoscaler"]:
        until = "until their HorizontalPodAutoscalers act"
        yield f"outage risk: {down['autoscaler']} {until}. {_FIX_OF_AUTOSCALED}"
    elif number := len(of["autoscaler"]):
        before = "the counters are those before that"
        yield f"HorizontalPodAutoscalers then scale {plural(number, 'workload')}: {before}. {_FIX_OF_AUTOSCALED}"
    if removed["unset"]:
        yield f"{down['unset']}, because spec.replicas is removed. {_FIX_OF_REPLICAS}"
    if removed["drift"]:
        yield f"drift: {down['drift']}, because the cluster has more than the manifests. {_FIX_OF_REPLICAS}"
    if number := sum(not each.removed for each in of["drift"]):
        yield f"drift: the apply also resets {plural(number, 'field')} of workloads in the cluster"
    if cluster.rejected_pods:
        yield "workloads with rejected Pods are not simulated; their rollouts delete old Pods, and start no new ones"
    for item in cluster.pruned:
        running = f", and {plural(item.running, 'running Pod')} cannot be recreated" if item.running else ""
        rejected = f"new Pods of {plural(item.workloads, 'workload')} are rejected{running}"
        name, fix = one_line(item.priority_class), "Fix: keep it until no workload names it"
        yield f"if the GitOps tool prunes PriorityClass {name}, {rejected}. {fix}"


def _first(names: Iterable[str]) -> str:
    return cut(listed([*map(one_line, names)]), _MAX_LENGTH)


def _live_state_tables(cluster: OnCluster) -> Iterator[Table]:
    """Yield tables of changes in the cluster that the simulation does not show."""
    if messages := [(*of.partition(": ")[::2],) for of in (*cluster.faults, *cluster.unpredicted)]:
        yield Table(("NOT SIMULATED", "MESSAGE"), messages, detail=1)
    yield Table(("RESET IN THE CLUSTER", "FIELD", "NOW", "APPLIED", "BECAUSE OF", "LATER"), cluster.resets)
    yield Table(("RUNNING PODS OF CLASS", "NEW PODS OUTRANK", "NEW PODS RANK BELOW"), cluster.passed)


# The change


def _doubts(diff: Diff, objects: Iterable[ChangedObject]) -> Iterator[str]:
    """Yield sentences about what the comparison and all simulations do not cover, and about PDBs that block all
    evictions.
    """
    yield from (f"not compared: {cut(note, 2 * _MAX_LENGTH)}" for note in diff.notes)
    if diff.not_compared:
        names = [name.partition(": ")[2] for name in diff.not_compared]
        kinds = Tally(name if name == CHART_VALUES else name.partition(" ")[0] for name in names)
        which = _first(f"{kind} ({count})" for kind, count in kinds.items())
        yield f"{plural(len(names), 'changed object')} not compared: {which}"
    never = [each for each in objects if any((of.name, of.after) in NO_EVICTION for of in each.fields)]
    if never:
        which = _first(f"{each.namespace}/{each.name}" for each in never)
        allow = "allows no eviction and blocks" if len(never) == 1 else "allow no eviction and block"
        yield f"PDB {which} {allow} drains. Fix: maxUnavailable: 1"
    gone = [str(each) for each in objects if each.operation == "deleted"]
    if gone and diff.clusters and not diff.prunes:
        yield f"deletion not simulated: {_first(gone)}. Fix: pass --prune if the GitOps tool prunes"


def _tables(diff: Diff, objects: Mapping[ChangedObject, Sequence[str]], disclose: Disclose) -> Iterator[Table]:
    """Yield the changed objects, those that are not compared, and the affected namespaces."""
    answers = [cluster.answer.answer for cluster in diff.clusters if cluster.answer]
    preempted = Tally(
        each.by_workload for of in answers for each in of.after.preempted if each.workload not in of.placeholders
    )
    rows: Rows = []
    for each, places in objects.items():
        whole = (f"{field.name} {field.after or field.before}" for field in each.fields if field.name in _OF_WHOLE)
        fields = sorted(each.fields, key=lambda field: "requests" not in field.name)  # -v shows all, not only the first
        change = map(str, fields) if each.operation == "changed" else (each.operation, *whole)
        rows.append([str(each), listed(places), preempted[f"{each.namespace}/{each.name}"], "; ".join(change)])
    yield Table(("CHANGED OBJECT", "DIRECTORY", "PREEMPTS", "CHANGE"), rows, detail=int(len(diff.clusters) > 1))
    if diff.not_compared:
        others = [(name, place) for place, _, name in (each.partition(": ") for each in diff.not_compared)]
        yield Table(("NOT COMPARED", "FILE"), others, detail=int(bool(diff.objects)))
    yield from _namespaces(diff, disclose)


def _namespaces(diff: Diff, disclose: Disclose) -> Iterator[Table]:
    """Yield the affected namespaces with their owners and the sums over the clusters, the most affected first."""
    own = {changed.namespace for changed in diff.objects if disclose is Disclose.OWN_NAMESPACE}
    every = [(cluster.cluster, each) for cluster in diff.clusters for each in cluster.namespaces]
    shown = [(name, each) for name, each in every if disclose is Disclose.NAMES or each.namespace in own]
    rows: Rows = []
    for (namespace, owner), of in grouped(
        ((each.namespace, each.owner), (name, each[2:])) for name, each in shown
    ).items():
        sums = [sum(column) for column in zip(*(counts for _, counts in of), strict=True)]
        rows.append([namespace, owner, listed([name for name, _ in of]) if diff.clusters[1:] else "", *sums])
    rows.sort(key=lambda row: ([-int(cell) for cell in row[3:]], row[0]))
    heads = ("LOST", "PREEMPTED", "PENDING", "REJECTED", "REMOVED", "PLACEHOLDERS", "NEW PRIORITY")
    is_detail = disclose is Disclose.NAMES and not any(row[1] for row in rows)
    yield Table(("NAMESPACE", "OWNER", "CLUSTERS", *heads), rows, detail=int(is_detail))
