"""What a change of manifests does, as text and as Markdown for a pull request."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from html import escape
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.disclosure import Disclose
from forewarn.policies.findings import cut, listed, one_line, plural
from forewarn.policies.render import Painter, plain, whatif
from forewarn.policies.render.head import line_of
from forewarn.policies.render.markdown import text_of
from forewarn.policies.render.table import limited, markdown_table, table, titles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.application.diff import Diff, OnCluster
    from forewarn.policies.application.whatif import WhatIf
    from forewarn.policies.manifests.differences import ChangedObject
    from forewarn.policies.whatif.answer import Answer, Preemption, WorkloadCount

NOTHING: Final = "no change of priorities, requests, replicas, quotas or PDBs"
MAX_BYTES: Final = 60_000
"""Of the Markdown; GitHub accepts 65,536 characters in a comment."""
_MAX_OBJECTS: Final = 50
_MAX_FIELDS: Final = 6
_FEW_ROWS: Final = 10
_NAMED: Final = 3
_LONGEST: Final = 160
_HEADS: Final = ("CLUSTER", "STATE AT", *whatif.HEADS, "REJECTED")
_HEADS_OF_NAMESPACES: Final = ("CLUSTER", "NAMESPACE", "OWNER", *whatif.HEADS[:3])
_SIGNS: Final = {"created": "+ ", "deleted": "- ", "changed": "  "}
_LEGEND: Final = (
    "Preempted: kube-scheduler terminates the Pod for a Pod of higher priority. At the end of the simulation, lost "
    "replicas do not run, and Pending Pods fit on no node."
)
_WORKLOADS: Final = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")
_OF_WHOLE: Final = (
    "value", "globalDefault", "priorityClassName", "replicas", "requests", "hard", "minAvailable", "maxUnavailable",
    "hook",
)  # fmt: skip
"""Fields that are shown of created and deleted objects."""


def for_audience(diff: Diff, disclose: Disclose) -> Diff:
    """Return the comparison with only the names in clusters that an audience may see, and without details."""
    if disclose is Disclose.NAMES:
        return diff
    own = {changed.namespace for changed in diff.objects} if disclose is Disclose.OWN_NAMESPACE else set()
    clusters = [
        cluster._replace(namespaces=[namespace for namespace in cluster.namespaces if namespace.namespace in own])
        for cluster in diff.clusters
    ]
    return replace(diff, clusters=clusters)


def render(diff: Diff, paint: Painter = plain, *, details: bool = True) -> Iterator[str]:
    """The comparison as text lines. `details`: of each cluster, with names of Pods."""
    yield paint(verdict(diff), "bold")
    yield f"compared: {diff.base} → {diff.head}; {_counts(diff)}"
    yield from (f"note: {note}" for note in diff.notes)
    yield from _not_compared(diff)
    yield from _kept(diff)
    for directory, objects in groupby(diff.objects[:_MAX_OBJECTS], key=lambda changed: changed.directory):
        yield f"{directory}:"
        yield from (f"  {_SIGNS[changed.operation]}{_object(changed)}" for changed in objects)
    if (more := len(diff.objects) - _MAX_OBJECTS) > 0:
        yield f"and {plural(more, 'more object')}; use -o json for all"
    if len(diff.clusters) > 1:
        yield from table(_HEADS, [_row(cluster) for cluster in diff.clusters], paint, texts=_HEADS[:2])
    for cluster in diff.clusters:
        yield paint(f"{cluster.cluster}: {_explained(diff, cluster) if details else _effect(cluster)}", "bold")
        if cluster.answer is not None:
            yield from (f"  {line}" for line in _about(cluster, cluster.answer))
            if details:
                yield from (f"  {line}" for line in _details(cluster.answer, paint))


def _not_compared(diff: Diff) -> Iterator[str]:
    """Tell of objects that are not compared; many of one kind in a file by their number."""
    kinds = defaultdict[tuple[str, str], list[str]](list)
    for name in map(one_line, diff.not_compared):
        path, _, what = name.rpartition(": ")
        kinds[path, what.partition(" ")[0]].append(what)
    lines = [
        f"not compared: {path}: {what}"
        for (path, kind), names in kinds.items()
        for what in (names if len(names) <= _NAMED else [f"{len(names)} objects of kind {kind}"])
    ]
    return limited(lines, len(lines), "line", "lines", "")


def _kept(diff: Diff) -> Iterator[str]:
    deleted = sum(changed.operation == "deleted" for changed in diff.objects)
    if deleted and diff.clusters and not diff.prunes:
        what = plural(deleted, "object", "objects") + f" that the manifests lack {'stays' if deleted == 1 else 'stay'}"
        yield f"simulated: {what} in the clusters, as without pruning; --prune deletes them"


def _about(cluster: OnCluster, applied: WhatIf) -> Iterator[str]:
    yield line_of(applied.head)
    yield from limited(_namespaces(cluster), len(cluster.namespaces), "namespace", "namespaces", "")
    yield from (f"rejected: {reason}" for reason in cluster.rejected)
    yield from _absent(cluster)


def _absent(cluster: OnCluster) -> Iterator[str]:
    """Tell of changed objects without a state before the change."""
    if cluster.absent:
        names = listed([one_line(name) for name in cluster.absent], _NAMED)
        yield f"{plural(len(cluster.absent), 'changed object')} not in the cluster, simulated as new: {names}"


def _details(applied: WhatIf, paint: Painter) -> Iterator[str]:
    yield from islice(whatif.render(applied.answer, None, paint), 1, None)
    yield from (f"note: {note}" for note in applied.notes_without_faults)


def _namespaces(cluster: OnCluster) -> Iterator[str]:
    for namespace in cluster.namespaces:
        owner = f" (owner {one_line(namespace.owner)})" if namespace.owner else ""
        effects = (
            f"{plural(namespace.preempted, 'Pod')} preempted" if namespace.preempted else "",
            f"{plural(namespace.pending, 'more Pod')} Pending" if namespace.pending else "",
            f"{plural(namespace.lost, 'replica')} lost" if namespace.lost else "",
        )
        yield f"namespace {namespace.namespace}{owner}: {', '.join(filter(None, effects))}"


def verdict(diff: Diff) -> str:
    """Return one sentence: how many objects change, and the effects on clusters that need attention."""
    others = [plural(len(diff.not_compared), "changed object") + " not compared"] if diff.not_compared else []
    others += ["not everything could be compared"] if diff.notes else []
    if not diff.objects:
        return f"{', '.join(others)}; no other{NOTHING.removeprefix('no')}" if others else NOTHING
    absent = sum(len(cluster.absent) for cluster in diff.clusters)
    others += [f"{plural(absent, 'object')} simulated as new"] if absent else []
    effect = _effects(diff) if diff.clusters else _counts(diff)
    return "; ".join(filter(None, [effect, ", ".join(others)]))


def _counts(diff: Diff) -> str:
    operations = [changed.operation for changed in diff.objects]
    counts = [
        plural(operations.count(operation), f"object {operation}", f"objects {operation}")
        for operation in dict.fromkeys(operations)
    ]
    return ", ".join(counts) or "no object changed"


def _effects(diff: Diff) -> str:
    """The effect on the one affected cluster, or the sums of all."""
    affected = [cluster for cluster in diff.clusters if needs_attention(cluster)]
    if not affected:
        return whatif.NO_EFFECT
    if len(affected) == 1:
        return f"{affected[0].cluster}: {_effect(affected[0])}"
    answers = [cluster.answer.answer for cluster in affected if cluster.answer]
    rows = [*map(whatif.row, answers)]
    rejected = len({reason for cluster in affected for reason in cluster.rejected})
    unanswered = sum(cluster.answer is None for cluster in affected)
    sums = [
        *([plural(rejected, "object") + " rejected"] if rejected else []),
        *whatif.on_new_pods([workload for answer in answers for workload in answer.new_pods]),
        *(whatif.numbers(_sums(rows), _sums([_of_placeholders(cluster) for cluster in affected])) if rows else []),
        *([plural(unanswered, "cluster") + " without an answer"] if unanswered else []),
    ]
    return f"{', '.join(sums) or 'effects'} in {len(affected)} of {plural(len(diff.clusters), 'cluster')}"


def needs_comment(diff: Diff) -> bool:
    """Report whether a pull request should hear of a change: it affects a cluster, or not everything is compared."""
    changes = diff.objects and not diff.clusters
    return bool(changes or diff.notes or diff.not_compared) or any(map(needs_attention, diff.clusters))


def needs_attention(cluster: OnCluster) -> bool:
    """Report whether a change affects a cluster, or has no answer about it."""
    concerned = cluster.reason or cluster.answer is not None
    return bool(concerned) and _effect(cluster) != whatif.NO_EFFECT


def _effect(cluster: OnCluster) -> str:
    if cluster.answer is None:
        return cluster.reason or "not concerned"
    answer = cluster.answer.answer
    effects = [
        *_rejected(cluster.rejected),
        *whatif.on_new_pods(answer.new_pods),
        *whatif.numbers(whatif.row(answer), _of_placeholders(cluster)),
        *_others(answer),
    ]
    return ", ".join(effects) or whatif.NO_EFFECT


def _others(answer: Answer) -> list[str]:
    unread = [f"{plural(len(answer.unread), 'object')} not simulated"] if answer.unread else []
    return [*whatif.other_effects(answer), *unread]


def _sums(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _of_placeholders(cluster: OnCluster) -> list[int]:
    """The first numbers of the cluster's row for Pods that only reserve capacity."""
    if cluster.answer is None:
        return [0, 0, 0]
    answer = cluster.answer.answer
    standings = [standing for standing in answer.standings if standing.workload in cluster.placeholders]
    preemptions = [preemption for preemption in answer.preemptions if preemption.workload in cluster.placeholders]
    return whatif.row(answer._replace(standings=standings, preemptions=preemptions))[:3]


def _rejected(reasons: Sequence[str]) -> list[str]:
    reason = f" ({cut(reasons[0], _LONGEST)})" if len(reasons) == 1 else ""
    return [f"{plural(len(reasons), 'object')} rejected{reason}"] if reasons else []


def _explained(diff: Diff, cluster: OnCluster) -> str:
    """The effect on a cluster in sentences: the workloads that cause it, and the workloads with fewer Pods."""
    if cluster.answer is None or not needs_attention(cluster):
        return _effect(cluster)
    answer = cluster.answer.answer
    fewer = [standing for standing in answer.standings if standing.missed or standing.pending > standing.pending_before]
    fields = _named(diff, cluster)
    ends = [_end(item, fields) for item in sorted(fewer, key=lambda item: -max(item.missed, item.pending))]
    rest = f"; {plural(len(ends) - _NAMED, 'more workload')}" if len(ends) > _NAMED else ""
    sentences = [
        ", ".join(_rejected(cluster.rejected)),
        ", ".join(whatif.on_new_pods(answer.new_pods)),
        _preempting(answer.preemptions, fields),
        f"At the end, {'; '.join(ends[:_NAMED])}{rest}" if ends else "",
        ", ".join([*whatif.numbers([0, 0, 0, whatif.row(answer)[3]]), *_others(answer)]),
    ]
    return ". ".join(filter(None, sentences))


def _named(diff: Diff, cluster: OnCluster) -> dict[str, str]:
    """Return workload -> its name with its changed fields, or with the statement that its Pods are placeholders."""
    named = {name: f"{one_line(name)} (placeholder Pods)" for name in cluster.placeholders}
    for changed in diff.objects:
        fields = [one_line(str(field)) for field in changed.fields] if changed.operation == "changed" else []
        if name := f"{changed.namespace}/{changed.name}" if fields and changed.kind in _WORKLOADS else "":
            named[name] = f"{one_line(name)} ({listed(fields, 2)})"
    return named


def _preempting(preemptions: Sequence[Preemption], named: Mapping[str, str]) -> str:
    """Which workloads preempt how many Pods; "" without preemptions. `named`: see `_named`."""
    if not preemptions:
        return ""
    by, of = (
        Counter(named.get(name) or one_line(name) for name in names).most_common()
        for names in zip(*((preemption.by_workload, preemption.workload) for preemption in preemptions), strict=True)
    )
    names = [name for name, _ in by]
    victims = [f"{count} of {name}" for name, count in of[:_NAMED]]
    if others := of[_NAMED:]:
        victims.append(f"{sum(count for _, count in others)} of {plural(len(others), 'other workload')}")
    of_victims = f" of {of[0][0]}" if len(of) == 1 else f": {', '.join(victims)}"
    preemptors = " and ".join(names) if len(names) == 2 else listed(names)
    return f"{preemptors} preempt{'s' if len(by) == 1 else ''} {plural(len(preemptions), 'Pod')}{of_victims}"


def _end(workload: WorkloadCount, named: Mapping[str, str]) -> str:
    name = named.get(workload.workload) or one_line(workload.workload)
    counts = f"{workload.before} → {workload.after}" if workload.before != workload.after else workload.after
    return f"{name}: {counts} running" + (f", {workload.pending} Pending" if workload.pending else "")


def _object(changed: ChangedObject) -> str:
    if changed.operation == "changed":
        fields = [str(field) for field in changed.fields]
    else:
        fields = [f"{field.name} {field.after or field.before}" for field in changed.fields if field.name in _OF_WHOLE]
    return ": ".join(filter(None, (str(changed), listed([one_line(field) for field in fields], _MAX_FIELDS))))


def _row(cluster: OnCluster) -> tuple[str | int, ...]:
    if cluster.answer is None:
        return (cluster.cluster, *["-"] * 6)
    time = cluster.answer.head.origin.time or "unknown"
    return cluster.cluster, time, *whatif.row(cluster.answer.answer), len(cluster.rejected)


def markdown(diff: Diff, *, details: bool = True) -> str:
    """The comparison as a comment on a pull request: the verdict, a row for each cluster, details folded.

    `details`: of each cluster, with names of Pods.
    """
    parts = list(_summary(diff, details=details))
    size = sum(len(part.encode()) for part in parts)
    for cluster in filter(needs_attention, diff.clusters):
        summary = f"{cluster.cluster}: {_effect(cluster)}"
        body = _body(cluster, cluster.answer, details=details) if cluster.answer else ""
        part = _folded(summary, body) if body else text_of(summary)
        size += len(part.encode())
        parts.append(part if size < MAX_BYTES else text_of(f"{summary} (details: -o json)"))
    return "\n\n".join(filter(None, parts))


def _sentences(diff: Diff, clusters: Sequence[OnCluster]) -> Iterator[str]:
    """A list item for the clusters with the same effects. What all reject is in the first item alone."""
    alike = defaultdict[str, list[str]](list)
    rejected = [cluster.rejected for cluster in clusters if cluster.answer]
    common = [reason for reason in rejected[0] if all(reason in others for others in rejected)] if rejected[1:] else []
    if common:
        sentence = text_of(", ".join(_rejected(common)))
        yield f"- **{text_of(listed([cluster.cluster for cluster in clusters if cluster.answer]))}**: {sentence}."
    for cluster in clusters:
        left = cluster._replace(rejected=[reason for reason in cluster.rejected if reason not in common])
        alike[_explained(diff, left)].append(cluster.cluster)
    for sentence, names in islice(alike.items(), _MAX_OBJECTS):
        yield f"- **{text_of(listed(names))}**: {text_of(sentence)}."


def _summary(diff: Diff, *, details: bool) -> Iterator[str]:
    yield f"### {text_of(verdict(diff))}"
    affected = [cluster for cluster in diff.clusters if needs_attention(cluster)]
    if details:
        yield "\n".join(_sentences(diff, affected))
    if affected:
        yield "\n".join(markdown_table(titles(_HEADS), [*map(_row, affected[:_MAX_OBJECTS])]))
        yield _more(affected, "cluster")
    if rest := [cluster.cluster for cluster in diff.clusters if cluster not in affected]:
        yield text_of(f"No effect: {listed(rest)}") if affected else ""
    yield from _affected(diff)
    yield _LEGEND if any(cluster.namespaces for cluster in affected) else ""
    if diff.objects:
        objects = [f"- {text_of(f'{obj.directory}: {obj.operation} {_object(obj)}')}" for obj in diff.objects]
        body = "\n".join([*objects[:_MAX_OBJECTS], _more(objects, "object")])
        yield _folded(f"{_counts(diff)} ({diff.base} → {diff.head})", body.strip())
    others, notes = len(diff.not_compared), [*diff.notes, *_kept(diff)]
    if others or notes:
        unread = plural(others, "changed object not compared", "changed objects not compared") if others else ""
        what = ", ".join(filter(None, [unread, plural(len(notes), "note") if notes else ""]))
        yield _folded(what, "\n".join(f"- {text_of(line)}" for line in [*notes, *_not_compared(diff)]))


def _affected(diff: Diff) -> Iterator[str]:
    """The table of namespaces, with owners if any is known."""
    affected = [(cluster.cluster, *namespace) for cluster in diff.clusters for namespace in cluster.namespaces]
    if affected:
        has_owner = any(owner for _, _, owner, *_ in affected)
        heads = [head for head in titles(_HEADS_OF_NAMESPACES) if has_owner or head != "Owner"]
        rows = [row if has_owner else (*row[:2], *row[3:]) for row in affected[:_MAX_OBJECTS]]
        lines = [*markdown_table(heads, rows), "", _more(affected, "namespace")]
        text = "\n".join(lines).strip()
        yield text if len(affected) <= _FEW_ROWS else _folded(plural(len(affected), "affected namespace"), text)


def _more(items: Sequence[object], noun: str) -> str:
    return f"and {plural(len(items) - _MAX_OBJECTS, f'more {noun}')}" if len(items) > _MAX_OBJECTS else ""


def _body(cluster: OnCluster, applied: WhatIf, *, details: bool) -> str:
    rejected = "".join(f"- rejected: {text_of(reason)}\n" for reason in cluster.rejected)
    rejected += "".join(f"- {text_of(line)}\n" for line in _absent(cluster))
    lines = whatif.markdown_body(applied.answer, applied.notes_without_faults) if details else ""
    return "\n\n".join(filter(None, (rejected, text_of(line_of(applied.head)), lines.strip())))


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(cut(summary, 300), quote=False)}</summary>\n\n{body}\n\n</details>"
