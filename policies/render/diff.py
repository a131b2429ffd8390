"""What a change of manifests does, as text and as Markdown for a pull request."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from html import escape
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.disclosure import Disclose
from forewarn.policies.findings import cut, listed, one_line, plural
from forewarn.policies.objects.workload import NO_EVICTION
from forewarn.policies.render import Painter, plain, whatif
from forewarn.policies.render.head import line_of
from forewarn.policies.render.markdown import text_of
from forewarn.policies.render.table import limited, markdown_table, table, titles
from forewarn.policies.scheduling.reasons import in_short

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

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
_HEADS: Final = ("CLUSTER", "STATE AT", *whatif.HEADS, "PLACEHOLDERS PREEMPTED", "REJECTED")
_HEADS_OF_NAMESPACES: Final = ("CLUSTER", "NAMESPACE", "OWNER", *whatif.HEADS[:3])
_SIGNS: Final = {"created": "+ ", "deleted": "- ", "changed": "  "}
_LEGEND: Final = (
    "Preempted: kube-scheduler deletes the Pod so that a Pod of higher priority fits on its node.",
    "More Pending: at the end of the simulation, the Pods cannot be scheduled.",
    "Replicas lost: they run now, but not at the end.",
    "PDB violations: Pods preempted although their PodDisruptionBudget allows no disruption.",
)
"""The meanings of `whatif.HEADS`."""
_RESERVED: Final = "The table of clusters does not count placeholder Pods, which only reserve capacity."
_WORKLOADS: Final = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")
_OF_WHOLE: Final = (
    "value", "globalDefault", "priorityClassName", "replicas", "requests", "hard", "minAvailable", "maxUnavailable",
    "hook",
)  # fmt: skip
"""Fields that are shown of created and deleted objects."""
_OF_NEW: Final = ("replicas", "requests")


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
    for directory, objects in groupby(diff.objects[:_MAX_OBJECTS], key=lambda changed: changed.directory):
        yield f"{directory}:"
        yield from (f"  {_SIGNS[changed.operation]}{_object(changed)}" for changed in objects)
    if (more := len(diff.objects) - _MAX_OBJECTS) > 0:
        yield f"and {plural(more, 'more object')}; use -o json for all"
    if len(diff.clusters) > 1:
        yield from table(*_table(diff.clusters), paint, texts=_HEADS[:2])
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


def _kept(diff: Diff) -> int:
    """The number of objects that the second version lacks and that stay in the clusters, as without pruning."""
    return sum(changed.operation == "deleted" for changed in diff.objects) if diff.clusters and not diff.prunes else 0


def _about(cluster: OnCluster, applied: WhatIf) -> Iterator[str]:
    yield line_of(applied.head)
    yield from limited(_namespaces(cluster), len(cluster.namespaces), "namespace", "namespaces", "")
    yield from _rejections(cluster)
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
    kinds = dict.fromkeys(name.rpartition(": ")[2].partition(" ")[0] for name in map(one_line, diff.not_compared))
    others = [f"{plural(len(diff.not_compared), 'changed object')} not compared ({listed([*kinds])})"] if kinds else []
    others += ["not everything could be compared"] if diff.notes else []
    if pdbs := _blocking(diff):
        others.insert(0, f"{plural(len(pdbs), 'changed PDB never allows', 'changed PDBs never allow')} an eviction")
    if not diff.objects:
        return f"{', '.join(others)}; no other{NOTHING.removeprefix('no')}" if others else NOTHING
    absent = len({name for cluster in diff.clusters for name in cluster.absent})
    others += [f"{plural(absent, 'changed workload')} missing in a cluster (simulated as new)"] if absent else []
    if kept := _kept(diff):
        others.append(f"{plural(kept, 'deleted object stays', 'deleted objects stay')} (--prune simulates deletion)")
    effect = _effects(diff) if diff.clusters else _counts(diff)
    if others and effect == whatif.NO_EFFECT:
        return f"{', '.join(others)}; otherwise {effect}"
    return "; ".join(filter(None, [effect, ", ".join(others)]))


def _blocking(diff: Diff) -> list[ChangedObject]:
    """The created and changed PDBs that block every drain."""
    return [changed for changed in diff.objects if any(field[::2] in NO_EVICTION for field in changed.fields)]


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
    unanswered = sum(cluster.answer is None for cluster in affected)
    sums = [*_phrases(affected), *([plural(unanswered, "cluster") + " without an answer"] if unanswered else [])]
    return f"{', '.join(sums)} in {len(affected)} of {plural(len(diff.clusters), 'cluster')}"


def needs_comment(diff: Diff) -> bool:
    """Report whether a pull request should hear of a change: it affects a cluster, or not everything is compared."""
    changes = diff.objects and not diff.clusters
    unread = diff.notes or diff.not_compared
    return bool(changes or unread or _blocking(diff)) or any(map(needs_attention, diff.clusters))


def needs_attention(cluster: OnCluster) -> bool:
    """Report whether a change affects a cluster, or has no answer about it."""
    concerned = cluster.reason or cluster.answer is not None
    return bool(concerned) and _effect(cluster) != whatif.NO_EFFECT


def _effect(cluster: OnCluster) -> str:
    if cluster.answer is None:
        return cluster.reason or "not concerned"
    return ", ".join(_phrases([cluster])) or whatif.NO_EFFECT


def _phrases(clusters: Sequence[OnCluster]) -> list[str]:
    """The effects on clusters, summed up. Placeholder Pods, which only reserve capacity, come last."""
    answers = [cluster.answer.answer for cluster in clusters if cluster.answer]
    placeholders = _sums([_placeholders(cluster) for cluster in clusters])
    counts = _sums([_counts_of(cluster) for cluster in clusters])
    scaled_down = sum(item.before - item.after for cluster in clusters for item in cluster.scaled_down)
    unread = sum(len(answer.unread) for answer in answers)
    phrases = [
        *_rejected(
            *({reason: None for of in each for reason in of} for each in zip(*map(_faults, clusters), strict=True))
        ),
        f"{plural(scaled_down, 'running replica')} scaled down" if scaled_down else "",
        *whatif.on_new_pods([workload for answer in answers for workload in answer.new_pods], are_named=False),
        *whatif.numbers(counts),
        *whatif.other_effects(answers),
        f"{plural(placeholders[0], 'placeholder Pod')} preempted" if placeholders[0] else "",
        f"{plural(placeholders[1], 'placeholder Pod')} Pending" if placeholders[1] else "",
        f"{plural(unread, 'object')} not simulated" if unread else "",
    ]
    return [phrase for phrase in phrases if phrase]


def _faults(cluster: OnCluster) -> tuple[Sequence[str], Sequence[str]]:
    """The rejected objects, and those whose Pods are rejected."""
    return cluster.rejected, cluster.rejected_pods


def _rejections(cluster: OnCluster) -> Iterator[str]:
    yield from (f"rejected: {reason}" for reason in cluster.rejected)
    yield from (f"Pods rejected: {reason}" for reason in cluster.rejected_pods)


def _rejected(objects: Collection[str], of_pods: Collection[str], *, explained: bool = False) -> list[str]:
    """Phrases with the number of rejected objects, and of objects whose Pods are rejected."""
    kinds = (objects, plural(len(objects), "object")), (of_pods, f"Pods of {plural(len(of_pods), 'workload')}")
    return [
        f"{what} rejected" + (f" ({cut(next(iter(alike)), _LONGEST)})" if explained and len(alike) == 1 else "")
        for alike, what in kinds
        if alike
    ]


def _sums(rows: Sequence[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _counts_of(cluster: OnCluster) -> list[int]:
    """The numbers below `whatif.HEADS`, without placeholder Pods."""
    if cluster.answer is None:
        return [0, 0, 0, 0]
    numbers = whatif.row(cluster.answer.answer)
    return [all_ - reserved for all_, reserved in zip(numbers, [*_placeholders(cluster), 0], strict=True)]


def _placeholders(cluster: OnCluster) -> list[int]:
    """The first numbers below `whatif.HEADS` of Pods that only reserve capacity."""
    if cluster.answer is None:
        return [0, 0, 0]
    answer = cluster.answer.answer
    standings = [standing for standing in answer.standings if standing.workload in cluster.placeholders]
    preemptions = [preemption for preemption in answer.preemptions if preemption.workload in cluster.placeholders]
    return whatif.row(answer._replace(standings=standings, preemptions=preemptions))[:3]


def _explained(diff: Diff, cluster: OnCluster) -> str:
    """The effect on a cluster in sentences: the workloads that cause it, and the workloads with fewer Pods."""
    if cluster.answer is None or not needs_attention(cluster):
        return _effect(cluster)
    answer, named = cluster.answer.answer, _named(diff)
    scaled = [f"{one_line(item.workload)} from {item.before} to {item.after}" for item in cluster.scaled_down]
    down = "The cluster has more replicas than both versions, and applying scales down "
    sentences = [
        ", ".join(_rejected(*_faults(cluster), explained=True)),
        down + _all_of(scaled, "workload") if scaled else "",
        ", ".join(whatif.on_new_pods(answer.new_pods)),
        _preempting(answer.preemptions, named, cluster.placeholders),
        _ends(answer, named),
        *_harm(answer),
        ", ".join(whatif.other_effects([answer._replace(standings=(), pdbs={})])),
        f"{plural(len(answer.unread), 'object')} not simulated" if answer.unread else "",
    ]
    return ". ".join(filter(None, sentences))


def _ends(answer: Answer, named: Mapping[str, str]) -> str:
    """The workloads with fewer Pods at the end; the changes of `named` are shown where nothing else mentions them."""
    fewer = [standing for standing in answer.standings if standing.missed or standing.pending > standing.pending_before]
    mentioned = {name for preemption in answer.preemptions for name in (preemption.workload, preemption.by_workload)}
    once = {name: text for name, text in named.items() if name not in mentioned}
    ends = [_end(item, once) for item in sorted(fewer, key=lambda item: -max(item.missed, item.pending))]
    more = len(ends) - _NAMED
    rest = f"; {plural(more, 'more workload runs', 'more workloads run')} fewer Pods" if more > 0 else ""
    return f"At the end, {'; '.join(ends[:_NAMED])}{rest}" if ends else ""


def _harm(answer: Answer) -> Iterator[str]:
    """Sentences about PDBs and Jobs."""
    violations = sorted(answer.summary.violated_pdbs.items(), key=lambda item: -item[1])
    healthy = sorted(answer.pdbs.items())
    failed = [one_line(standing.workload) for standing in answer.standings if standing.failure]
    if violations:
        yield f"PDB violations: {_all_of([f'{one_line(name)} ({count})' for name, count in violations], 'PDB')}"
    if healthy:
        pdbs = [f"{one_line(name)} ({count} of {desired})" for name, (count, desired) in healthy]
        yield f"Fewer healthy Pods than the PDB asks for: {_all_of(pdbs, 'PDB')}"
    if failed:
        yield f"Failed: {_all_of(failed, 'Job')}"


def _all_of(items: Sequence[str], noun: str) -> str:
    """The first items, and the number of the others: `a, b, c and 4 more PDBs`."""
    more = [f"{plural(len(items) - _NAMED, f'more {noun}')}"] if len(items) > _NAMED else []
    *first, last = [*items[:_NAMED], *more]
    return f"{', '.join(first)} and {last}" if first else last


def _named(diff: Diff) -> dict[str, str]:
    """Return workload of the change -> its name with its changed fields."""
    named = {}
    for changed in diff.objects:
        if changed.kind in _WORKLOADS and changed.operation != "deleted":
            new = changed.operation == "created"
            fields = [f"{field.name} {field.after}" for field in changed.fields if field.name in _OF_NEW]
            fields = ["new", *fields] if new else [str(field) for field in changed.fields]
            name = f"{changed.namespace}/{changed.name}"
            named[name] = f"{one_line(name)} ({listed([one_line(field) for field in fields], _NAMED if new else 2)})"
    return named


def _preempting(preemptions: Sequence[Preemption], named: Mapping[str, str], placeholders: Sequence[str]) -> str:
    """Which workloads preempt how many Pods; "" without preemptions. `named`: see `_named`."""
    if not preemptions:
        return ""
    by = Counter(preemption.by_workload for preemption in preemptions)
    of = Counter(one_line(preemption.workload) for preemption in preemptions).most_common()
    changed = [named[name] for name, _ in by.most_common() if name in named]
    in_turn = [one_line(name) for name, _ in by.most_common() if name not in named]
    if changed and in_turn:
        preemptors = f"{_all_of(changed, 'changed workload')}, and in turn {plural(len(in_turn), 'other workload')},"
    else:
        preemptors = _all_of(changed or in_turn, "workload")
    victims = [f"{count} of {name}" for name, count in of[:_NAMED]]
    if others := of[_NAMED:]:
        victims.append(f"{sum(count for _, count in others)} of {plural(len(others), 'other workload')}")
    of_victims = f" of {of[0][0]}" if len(of) == 1 else f": {', '.join(victims)}"
    reserving = sum(preemption.workload in placeholders for preemption in preemptions)
    pods = len(preemptions) - reserving
    counts = [plural(pods, "Pod")] if pods else []
    counts += [plural(reserving, "placeholder Pod")] if reserving else []
    return f"{preemptors} preempt{'s' if len(by) == 1 else ''} {' and '.join(counts)}{of_victims}"


def _end(workload: WorkloadCount, named: Mapping[str, str]) -> str:
    name = named.get(workload.workload) or one_line(workload.workload)
    counts = f"{workload.before} → {workload.after}" if workload.before != workload.after else workload.after
    why = cut(one_line(in_short(workload.message)).partition(";")[0], _LONGEST)
    return f"{name}: {counts} running" + (
        f", {workload.pending} Pending{f' ({why})' if why else ''}" if workload.pending else ""
    )


def _object(changed: ChangedObject) -> str:
    if changed.operation == "changed":
        fields = [str(field) for field in changed.fields]
    else:
        fields = [f"{field.name} {field.after or field.before}" for field in changed.fields if field.name in _OF_WHOLE]
    return ": ".join(filter(None, (str(changed), listed([one_line(field) for field in fields], _MAX_FIELDS))))


def _table(clusters: Sequence[OnCluster]) -> tuple[list[str], list[tuple[str | int, ...]]]:
    """The heads and rows of clusters, without columns in which all numbers are 0."""
    rows = [_row(cluster) for cluster in clusters]
    shown = [n for n in range(len(_HEADS)) if n < 2 or any(row[n] for row in rows if row[n] != "-")]
    return [_HEADS[n] for n in shown], [tuple(row[n] for n in shown) for row in rows]


def _row(cluster: OnCluster) -> tuple[str | int, ...]:
    if cluster.answer is None:
        return (cluster.cluster, *["-"] * (len(_HEADS) - 1))
    time = cluster.answer.head.origin.time or "unknown"
    return cluster.cluster, time, *_counts_of(cluster), _placeholders(cluster)[0], sum(map(len, _faults(cluster)))


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
    answered = [cluster for cluster in clusters if cluster.answer]
    common = [_in_all(of) for of in zip(*map(_faults, answered), strict=True)] if answered[1:] else [[], []]
    if any(common):
        sentence = text_of(", ".join(_rejected(*common, explained=True)))
        yield f"- **{text_of(listed([cluster.cluster for cluster in answered]))}**: {sentence}."
    for cluster in clusters:
        rest = [
            [reason for reason in of if reason not in shared]
            for of, shared in zip(_faults(cluster), common, strict=True)
        ]
        left = cluster._replace(rejected=rest[0], rejected_pods=rest[1])
        if left == cluster or needs_attention(left):
            alike[_explained(diff, left)].append(cluster.cluster)
    for sentence, names in islice(alike.items(), _MAX_OBJECTS):
        yield f"- **{text_of(listed(names))}**{' (each)' if len(names) > 1 else ''}: {text_of(sentence)}."


def _in_all(lists: Sequence[Sequence[str]]) -> list[str]:
    return [reason for reason in lists[0] if all(reason in others for others in lists)]


def _summary(diff: Diff, *, details: bool) -> Iterator[str]:
    yield f"### {text_of(verdict(diff))}"
    affected = [cluster for cluster in diff.clusters if needs_attention(cluster)]
    if blocking := [one_line(changed.namespace + "/" + changed.name) for changed in _blocking(diff)]:
        which = text_of(_all_of(blocking, "PDB"))
        yield f"- PDBs that never allow an eviction, and so block node drains: {which}."
    if details:
        yield "\n".join(_sentences(diff, affected))
    yield from _numbers(diff, affected, is_whole=not details)
    yield from _details_of_objects(diff)


def _numbers(diff: Diff, affected: Sequence[OnCluster], *, is_whole: bool) -> Iterator[str]:
    """The tables and their legend. `is_whole`: see `_affected`."""
    if affected:
        heads, rows = _table(affected)
        if heads[2:]:
            yield "\n".join(markdown_table(titles(heads), rows[:_MAX_OBJECTS]))
            yield _more(affected, "cluster")
    if rest := [cluster.cluster for cluster in diff.clusters if cluster not in affected]:
        yield text_of(f"No effect found in {listed(rest)}.")
    yield from _affected(diff, is_whole=is_whole)
    sums = _sums([_counts_of(cluster) for cluster in affected]) if affected else []
    meanings = [meaning for meaning, count in zip(_LEGEND, sums, strict=False) if count]
    yield " ".join([*meanings, *([_RESERVED] if any(cluster.placeholders for cluster in affected) else [])])


def _details_of_objects(diff: Diff) -> Iterator[str]:
    """Folded: the changed objects, and what was not compared."""
    if diff.objects:
        objects = [f"- {text_of(f'{obj.directory}: {obj.operation} {_object(obj)}')}" for obj in diff.objects]
        body = "\n".join([*objects[:_MAX_OBJECTS], _more(objects, "object")])
        yield _folded(f"{_counts(diff)} ({diff.base} → {diff.head})", body.strip())
    others, notes = len(diff.not_compared), diff.notes
    if others or notes:
        unread = plural(others, "changed object not compared", "changed objects not compared") if others else ""
        what = ", ".join(filter(None, [unread, plural(len(notes), "note") if notes else ""]))
        yield _folded(what, "\n".join(f"- {text_of(line)}" for line in [*notes, *_not_compared(diff)]))


def _affected(diff: Diff, *, is_whole: bool) -> Iterator[str]:
    """The table of namespaces, with owners if any is known. `is_whole`: also if the sentences have all of it."""
    affected = [(cluster.cluster, *namespace) for cluster in diff.clusters for namespace in cluster.namespaces]
    if affected:
        has_owner = any(owner for _, _, owner, *_ in affected)
        heads = [head for head in titles(_HEADS_OF_NAMESPACES) if has_owner or head != "Owner"]
        rows = [row if has_owner else (*row[:2], *row[3:]) for row in affected[:_MAX_OBJECTS]]
        lines = [*markdown_table(heads, rows), "", _more(affected, "namespace")]
        text = "\n".join(lines).strip()
        namespaces = len({namespace for _, namespace, *_ in affected})
        if is_whole or has_owner or len(affected) > len(diff.clusters):
            yield text if len(affected) <= _FEW_ROWS else _folded(plural(namespaces, "affected namespace"), text)


def _more(items: Sequence[object], noun: str) -> str:
    return f"and {plural(len(items) - _MAX_OBJECTS, f'more {noun}')}" if len(items) > _MAX_OBJECTS else ""


def _body(cluster: OnCluster, applied: WhatIf, *, details: bool) -> str:
    rejected = "".join(f"- {text_of(line)}\n" for line in _rejections(cluster))
    rejected += "".join(f"- {text_of(line)}\n" for line in _absent(cluster))
    lines = whatif.markdown_body(applied.answer, applied.notes_without_faults) if details else ""
    return "\n\n".join(filter(None, (rejected, text_of(line_of(applied.head)), lines.strip())))


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(cut(summary, 300), quote=False)}</summary>\n\n{body}\n\n</details>"
