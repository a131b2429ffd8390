"""What a change of manifests does, as text and as Markdown for a pull request."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from html import escape
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.application.diff import FIX_OF_DIRECTORIES
from forewarn.policies.disclosure import Disclose
from forewarn.policies.findings import cut, duration, listed, one_line, plural
from forewarn.policies.kinds.registry import STATEFUL_SET
from forewarn.policies.lint.versions import ALSO
from forewarn.policies.objects.fields import int32
from forewarn.policies.objects.workload import NO_EVICTION
from forewarn.policies.render import Painter, plain, whatif
from forewarn.policies.render.head import line_of
from forewarn.policies.render.markdown import text_of
from forewarn.policies.render.table import limited, markdown_table, table, titles
from forewarn.policies.scheduling.plugins.volume_binding import UNBOUND_IMMEDIATE
from forewarn.policies.scheduling.reasons import in_short
from forewarn.policies.whatif.answer import NO_CLASS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence

    from forewarn.policies.application.diff import AffectedNamespace, Diff, OnCluster
    from forewarn.policies.application.whatif import WhatIf
    from forewarn.policies.manifests.differences import ChangedObject
    from forewarn.policies.simulation.api_server import Event
    from forewarn.policies.whatif.answer import Answer, Preemption, WorkloadCount

NOTHING: Final = "no change of priorities, requests, replicas, quotas or PDBs"
MAX_BYTES: Final = 60_000
"""Of the Markdown; GitHub accepts 65,536 characters in a comment."""
_MAX_OBJECTS: Final = 50
_MAX_FIELDS: Final = 6
_FEW_ROWS: Final = 10
_NAMED: Final = 3
_EFFECTS: Final = 6
"""Maximum number of effects in a line."""
_LONGEST_REASON: Final = 300
_SIGNS: Final = {"created": "+ ", "deleted": "- ", "changed": "  "}
_LEGEND: Final = {
    "Pods lost": "they run now, and at the end neither they nor their replacements do.",
    "New Pods Pending": "Pods that the workload does not run now, and that cannot be scheduled at the end.",
    "Replaced": "preempted (deleted by kube-scheduler so that a Pod of higher priority fits on the node), and running "
    "again at the end, on this or another node.",
    "PDBs violated": "PodDisruptionBudgets that allow fewer disruptions than the preempted Pods.",
    "Unhealthy PDBs": "not violated, but with fewer healthy Pods than they ask for, so that they block node drains.",
    "Rejected": "workloads that the API server rejects, or whose new Pods it rejects.",
    "Scaled down": "running replicas beyond the number in the manifests.",
    "Workloads with new priority": "workloads that the change does not edit, but whose new Pods get another priority.",
    "Workloads with pruned class": "their new Pods are rejected if the GitOps tool deletes the PriorityClass.",
    "Placeholders preempted": "placeholder Pods, which only reserve capacity and are counted apart.",
}
_SUMS: Final = "The rows of namespaces add up the clusters. Clusters are in the order of the columns, the worst first."
_NO_ROLLOUT: Final = (
    "Not simulated: the rollout of these workloads, which would not complete. It deletes old Pods (up to "
    "maxUnavailable; all with Recreate), and no new Pod starts"
)
_FIX_OF_REPLICAS: Final = "Fix: raise spec.replicas in the manifests, or leave it out if something else sets it"
_FIX_OF_AUTOSCALED: Final = (
    "Fix: set the scale in the HorizontalPodAutoscaler, and remove spec.replicas, first with kubectl apply "
    "edit-last-applied"
)
_SURGE: Final = (
    "A rolling update creates new Pods before it deletes old ones. So for a time, it needs capacity for both, also if "
    "requests decrease"
)
_EFFECT: Final = "Effect of this change"
_EFFECT_AND_DRIFT: Final = "Effect of this change and of drift (an apply changes both)"
_AFTER: Final = "After the apply, which is simulated with the replicas of the manifests, they scale "
_AUTOSCALING: Final = "HorizontalPodAutoscalers"
_NOT_PREDICTED: Final = "Not predicted"
_NOT_CONCERNED: Final = "not concerned"
_WORKLOADS: Final = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")
_OF_WHOLE: Final = (
    "value", "globalDefault", "priorityClassName", "replicas", "requests", "hard", "minAvailable", "maxUnavailable",
    "hook",
)  # fmt: skip
"""Fields that are shown of created and deleted objects."""
_OF_NEW: Final = ("priorityClassName", "schedule", "replicas", "requests")


def for_audience(diff: Diff, disclose: Disclose) -> Diff:
    """Return the comparison with only the names in clusters that an audience may see, and without details."""
    if disclose is Disclose.NAMES:
        return diff
    own = {changed.namespace for changed in diff.objects} if disclose is Disclose.OWN_NAMESPACE else set()
    clusters = [
        cluster._replace(
            namespaces=[namespace for namespace in cluster.namespaces if namespace.namespace in own],
            differing=(),
            pruned=[item._replace(names=()) for item in cluster.pruned],
        )
        for cluster in diff.clusters
    ]
    return replace(diff, clusters=clusters)


class _Numbers(NamedTuple):
    """The numbers of a row, the worst first."""

    lost: int = 0
    pending: int = 0
    rejected: int = 0
    scaled_down: int = 0
    replaced: int = 0
    failed: int = 0
    violated: int = 0
    unhealthy: int = 0
    placeholders: int = 0


_HEADS: Final = (
    *("PODS LOST", "NEW PODS PENDING", "REJECTED", "SCALED DOWN", "REPLACED"),
    *("JOBS FAILED", "PDBS VIOLATED", "UNHEALTHY PDBS", whatif.HEADS[-1]),
)
_HEADS_OF_NAMESPACES: Final = {
    **dict(zip(_Numbers._fields[:5], _HEADS, strict=False)),
    "new_priority": "WORKLOADS WITH NEW PRIORITY",
    "pruned": "WORKLOADS WITH PRUNED CLASS",
    "placeholders": whatif.HEADS[-1],
}


def render(diff: Diff, paint: Painter = plain, *, details: bool = True) -> Iterator[str]:
    """The comparison as text lines. `details`: of each cluster, with names of Pods."""
    first = verdict(diff)
    yield paint(first, "bold")
    yield f"compared: {diff.base} → {diff.head}{f'; {_counts(diff)}' if diff.clusters else ''}"
    yield from (f"note: {note}" for note in diff.notes)
    yield from _not_compared(diff)
    objects = [*_merged(diff).items()]
    for directory, group in groupby(objects[:_MAX_OBJECTS], key=lambda item: item[1][0]):
        yield f"{directory}:"
        yield from (f"  {_SIGNS[changed.operation]}{_object(changed)}{_also(among)}" for changed, among in group)
    if (more := len(objects) - _MAX_OBJECTS) > 0:
        yield f"and {plural(more, 'more object')}; use -o json for all"
    if len(diff.clusters) > 1:
        yield from table(*_table(diff.clusters), paint, texts=_TEXTS)
    for cluster in diff.clusters:
        heading = f"{_title(cluster)}: {_effect(cluster)}"
        if len(diff.clusters) > 1 or not first.startswith(heading):
            yield paint(heading, "bold")
        explained = _explained(diff, cluster, beside_details=True) if details and not cluster.reason else {}
        for title, sentences in explained.items():
            yield from [f"  {title}:"] if title != _EFFECT else []
            yield from (f"  {'' if title == _EFFECT else '  '}{sentence}" for sentence in sentences)
        if cluster.answer is not None:
            yield from (f"  {line}" for line in _about(cluster, cluster.answer))
            if details:
                yield from (f"  {line}" for line in _details(cluster.answer, paint))


def _merged(diff: Diff) -> dict[ChangedObject, list[str]]:
    """The changed objects, and the directories of each; an object that changes alike in several of them once."""
    merged: dict[tuple[object, ...], list[ChangedObject]] = defaultdict(list)
    for changed in diff.objects:
        merged[changed.identity, changed.operation, tuple(changed.fields)].append(changed)
    return {
        alike[0]._replace(fields=tuple(alike[0].fields)): [changed.directory for changed in alike]
        for alike in merged.values()
    }


def _also(directories: Sequence[str]) -> str:
    return f" (also in {listed([*map(one_line, directories[1:])])})" if directories[1:] else ""


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
    return sum(changed.operation == "deleted" for changed in _merged(diff)) if diff.clusters and not diff.prunes else 0


def _about(cluster: OnCluster, applied: WhatIf) -> Iterator[str]:
    yield line_of(applied.head)
    yield from limited(_namespaces(cluster), len(cluster.namespaces), "namespace", "namespaces", "")
    yield from _absent(cluster)


def _absent(cluster: OnCluster) -> Iterator[str]:
    """Tell of changed objects without a state before the change, and of all with another one than in the manifests."""
    if cluster.absent:
        names = listed([one_line(name) for name in cluster.absent], _NAMED)
        yield f"{plural(len(cluster.absent), 'changed object')} not in the cluster, simulated as new: {names}"
    also = [f"applying also changes {name}" for name in cluster.differing]
    scaled = [f"then a HorizontalPodAutoscaler scales {text}" for text in _autoscaled(cluster)]
    for lines in (also, scaled):
        if len(lines) > _NAMED + 1:
            yield from limited(map(one_line, lines), len(lines), "workload", "workloads", "")
    for item in cluster.pruned:
        names = listed([*map(one_line, item.names)], _MAX_OBJECTS)
        yield from [f"workloads with PriorityClass {one_line(item.priority_class)}: {names}"] if names else []


def _details(applied: WhatIf, paint: Painter) -> Iterator[str]:
    yield from islice(whatif.render(applied.answer, None, paint), 1, None)
    yield from (f"note: {note}" for note in applied.notes_without_faults)


def _namespaces(cluster: OnCluster) -> Iterator[str]:
    for namespace in cluster.namespaces:
        owner = f" (owner {one_line(namespace.owner)})" if namespace.owner else ""
        effects = (
            _some(namespace.lost, "Pod", "lost"),
            _some(namespace.pending, "new Pod", "Pending"),
            _some(namespace.replaced, "Pod", "preempted and replaced"),
            _some(namespace.rejected, "workload", "rejected"),
            _some(namespace.scaled_down, "running replica", "scaled down"),
            f"new priority of {plural(namespace.new_priority, 'workload')}" if namespace.new_priority else "",
            _some(namespace.pruned, "workload", "with a PriorityClass that pruning deletes"),
            _some(namespace.placeholders, "placeholder Pod", "preempted"),
        )
        yield f"namespace {namespace.namespace}{owner}: {', '.join(filter(None, effects))}"


def verdict(diff: Diff) -> str:
    """Return one sentence: the effects on the most affected cluster, what else needs attention, and what is missing."""
    others = []
    if pdbs := _blocking(diff):
        others.append(f"{plural(len(pdbs), 'changed PDB never allows', 'changed PDBs never allow')} an eviction")
    absent = len({name for cluster in diff.clusters for name in cluster.absent})
    others += [f"{plural(absent, 'changed workload')} missing in a cluster (simulated as new)"] if absent else []
    lacking = len({each.identity for cluster in diff.clusters for each in _not_in(cluster)})
    others += [f"{plural(lacking, 'changed workload')} missing in a cluster (no rollout)"] if lacking else []
    if kept := _kept(diff):
        others.append(f"{plural(kept, 'deleted object stays', 'deleted objects stay')} unless the GitOps tool prunes")
    nothing = whatif.NO_EFFECT if diff.clusters and diff.objects else NOTHING
    effect = _effects(diff) if diff.clusters else _counts(diff) if diff.objects else ""
    return _qualified(_missing_in(diff), effect, others, nothing)


def _qualified(missing: Sequence[str], effect: str, others: Sequence[str], nothing: str) -> str:
    """The effect, which is a lower bound if something is `missing`, and what. `others`: further phrases."""
    bound = f"{'at least' if effect else 'as far as predicted'}: " if missing else ""
    gaps = f"incomplete: {', '.join(missing)}" if missing else ""
    return "; ".join(filter(None, (f"{bound}{effect or nothing}", ", ".join(others), gaps)))


def _missing_in(diff: Diff) -> list[str]:
    """Phrases about what the comparison and the simulations lack."""
    unanswered = [_title(cluster) for cluster in diff.clusters if cluster.reason]
    without = [f"no answer for {_all_of(unanswered, 'cluster')}"] if unanswered and diff.clusters[1:] else []
    return [*_uncompared(diff), *without, *_missing(diff.clusters)]


def _uncompared(diff: Diff) -> Iterator[str]:
    """Phrases with the numbers of changed objects that are not compared, and of files and directories not read."""
    if diff.not_compared:
        kinds = dict.fromkeys(name.rpartition(": ")[2].partition(" ")[0] for name in map(one_line, diff.not_compared))
        yield f"{plural(len(diff.not_compared), 'changed object')} not compared ({listed([*kinds])})"
    if diff.notes:
        unread = sum(1 + sum(map(int, _MORE.findall(note))) for note in diff.notes)
        yield f"{plural(unread, 'file or directory', 'files or directories')} not read"


_MORE: Final = re.compile(r"\(and (\d{1,6}) more director(?:y|ies)\)")


def _missing(clusters: Sequence[OnCluster]) -> list[str]:
    """Phrases about what simulations lack, each object once."""
    answers = [cluster.answer.answer for cluster in clusters if cluster.answer]
    unread = {text.partition(": ")[0] for answer in answers for text in answer.not_simulated}
    texts = (text for answer in answers for text in answer.not_modelled if not text.endswith(_OF_NEW_VOLUMES))
    unmodelled = dict.fromkeys(text.removeprefix("not modelled: ").partition(" (")[0] for text in texts)
    noun = "CronJob" if all(name.startswith("CronJob ") for name in unread) else "object"
    phrases = (
        _some(len(unread), noun, "not simulated"),
        _some(
            len({each.identity for cluster in clusters for each in _omitted(cluster)}),
            "object",
            "of other directories not simulated",
        ),
        *whatif.unfinished(answers),
        f"{listed([*unmodelled])} not modelled" if unmodelled else "",
        _some(sum(each.not_started for of in map(_unknown, clusters) for each in of), "new Pod", "not predicted"),
    )
    return [phrase for phrase in phrases if phrase]


def _blocking(diff: Diff) -> list[ChangedObject]:
    """The created and changed PDBs that block every drain."""
    return [
        changed
        for changed in _merged(diff)
        if any((field.name, field.after) in NO_EVICTION for field in changed.fields)
    ]


def _counts(diff: Diff) -> str:
    operations = [changed.operation for changed in _merged(diff)]
    counts = [
        plural(operations.count(operation), f"object {operation}", f"objects {operation}")
        for operation in dict.fromkeys(operations)
    ]
    return ", ".join(counts) or "no object changed"


def _title(cluster: OnCluster) -> str:
    return cluster.cluster if cluster.cluster.startswith("cluster") else f"cluster {cluster.cluster}"


def _effects(diff: Diff) -> str:
    """The effects on the most affected cluster, and the number of affected ones; "" for none."""
    affected = [cluster for cluster in _most_affected_first(diff) if _phrases(cluster)]
    if not affected:
        reasons = [cluster.reason for cluster in diff.clusters]
        return f"{_title(diff.clusters[0])}: {reasons[0]}" if any(reasons[:1]) and len(reasons) == 1 else ""
    worst, many = _joined(_phrases(affected[0])), len(affected)
    if many == 1:
        return f"{_title(affected[0])}: {worst}"
    of_all = f"{many} of {len(diff.clusters)}" if many < len(diff.clusters) else "both" if many == 2 else f"all {many}"
    if all(_joined(_phrases(cluster)) == worst for cluster in affected):
        return f"{of_all} clusters: {worst}"
    return f"worst in {_title(affected[0])}: {worst}; {of_all} clusters affected"


def _most_affected_first(diff: Diff) -> list[OnCluster]:
    """The affected clusters, first those without an answer."""

    def harmless(cluster: OnCluster) -> list[int]:
        new_pods = len(cluster.answer.answer.new_pods) if cluster.answer else 0
        pruned = sum(item.workloads for item in cluster.pruned)
        return [-bool(cluster.reason), *(-number for number in _numbers_of(cluster)), -pruned, -new_pods]

    return sorted(filter(needs_attention, diff.clusters), key=harmless)


def _joined(effects: Sequence[str]) -> str:
    most = _EFFECTS + (len(effects) == _EFFECTS + 1)  # the number of one more effect is as long as the effect
    more = len(effects) - most
    return ", ".join([*effects[:most], *([f"and {plural(more, 'more effect')}"] if more > 0 else [])])


def needs_comment(diff: Diff) -> bool:
    """Report whether a pull request should hear of a change: it affects a cluster, or not everything is compared."""
    changes = diff.objects and not diff.clusters
    unread = diff.notes or diff.not_compared
    return bool(changes or unread or _blocking(diff)) or any(map(needs_attention, diff.clusters))


def needs_attention(cluster: OnCluster) -> bool:
    """Report whether a change affects a cluster, or has no answer about it."""
    return _effect(cluster) not in (whatif.NO_EFFECT, _NOT_CONCERNED)


def _effect(cluster: OnCluster) -> str:
    if cluster.answer is None and not any(_faults(cluster)):
        return cluster.reason or _NOT_CONCERNED
    return _qualified(_missing([cluster]), _joined(_phrases(cluster)), (), whatif.NO_EFFECT)


def _phrases(cluster: OnCluster) -> list[str]:
    """The effects on a cluster, the worst first. Placeholder Pods, which only reserve capacity, come last."""
    answers = [cluster.answer.answer] if cluster.answer else []
    is_drift = all(item.base != item.before for item in cluster.scaled_down)
    count, capped = _numbers_of(cluster), sum(item.replicas > item.most for item in cluster.autoscaled)
    phrases = [
        _some(len(cluster.rejected), "changed object", "rejected"),
        f"Pods of {plural(len(cluster.rejected_pods), 'changed workload')} rejected" if cluster.rejected_pods else "",
        *whatif.on_new_pods([workload for answer in answers for workload in answer.new_pods], are_named=False),
        _losing(cluster),
        _some(0 if count.lost else count.failed, "Job", "failed"),
        _some(count.pending, "new Pod", "Pending"),
        _some(count.replaced, "other Pod" if count.lost else "Pod", "preempted and replaced"),
        _some(count.scaled_down, "running replica", f"scaled down{' because of drift' if is_drift else ''}"),
        _some(capped, "workload", "kept below the replicas of this change by HorizontalPodAutoscalers"),
        _some(count.violated, "PDB", "violated"),
        _some(count.unhealthy, "PDB", "with too few healthy Pods"),
        *whatif.other_effects([answer._replace(workloads=(), pdbs={}) for answer in answers]),
        *(
            f"pruning PriorityClass {one_line(each.priority_class)} would reject new Pods of "
            f"{plural(each.workloads, 'workload')}"
            for each in cluster.pruned
        ),
    ]
    effects = [phrase for phrase in phrases if phrase]
    return [*effects, *whatif.on_placeholders(answers, is_only=not effects)]


def _some(count: int, noun: str, what: str) -> str:
    """A phrase about a count; "" for 0."""
    return f"{plural(count, noun)} {what}" if count else ""


def _losing(cluster: OnCluster) -> str:
    """A phrase about the workloads that lose Pods; with the name of the only one, if readers may see it."""
    losing = [workload for workload in _workloads(cluster) if workload.missed]
    if not losing:
        return ""
    known = {namespace.namespace for namespace in cluster.namespaces}
    is_named = len(losing) == 1 and losing[0].namespace in known
    who = cut(one_line(losing[0].workload), _LONGEST_REASON) if is_named else plural(len(losing), "workload")
    failed = sum(bool(workload.failure) for workload in losing)
    jobs = f" ({plural(failed, 'Job fails', 'Jobs fail')})" if failed else ""
    return f"{who} {_loss(losing)}{jobs}"


def _loss(workloads: Collection[WorkloadCount]) -> str:
    lost, before = sum(each.missed for each in workloads), sum(each.before for each in workloads)
    return f"{'loses' if len({each.workload for each in workloads}) == 1 else 'lose'} {lost} of {plural(before, 'Pod')}"


def _unknown(cluster: OnCluster) -> list[WorkloadCount]:
    """The workloads with new Pods that are Pending only because their volumes are not simulated."""
    answer = cluster.answer.answer if cluster.answer else None
    new = (each for each in _workloads(cluster) if each.not_started and not each.missed)
    return [each for each in new if answer and _is_unknown(each, answer)]


def _workloads(cluster: OnCluster) -> list[WorkloadCount]:
    """Those that change or have too few Pods, without placeholder Pods."""
    workloads = cluster.answer.workloads if cluster.answer else ()
    return [workload for workload in workloads if workload.workload not in cluster.placeholders]


def _faults(cluster: OnCluster) -> tuple[Sequence[str], Sequence[str]]:
    """The rejected objects, and those whose Pods are rejected."""
    return cluster.rejected, cluster.rejected_pods


def _explained(diff: Diff, cluster: OnCluster, *, beside_details: bool = False) -> dict[str, list[str]]:
    """By heading, the effects on a cluster, each as a sentence without a full stop: causes and affected workloads.

    `beside_details`: without those that the details contain.
    """
    if not needs_attention(cluster):
        return {}
    if cluster.answer is None:
        return {_EFFECT: [*_rejected_sentences(diff, cluster)] or [_effect(cluster)]}
    answer, named = cluster.answer.answer, _named(cluster)
    placeholders = [item for item in answer.workloads if item.workload in cluster.placeholders and item.lost]
    effects = [*_before(diff, cluster, answer), _running(diff, cluster, answer)]
    absent = [str(changed) for changed in _not_in(cluster)]
    effects.append(_told("No rollout, because the cluster does not have ", absent, "changed workload"))
    if not beside_details:
        effects += [
            *_on_pods(cluster, answer, named),
            _told("PDBs: ", [*_pdbs(answer, without=cluster.drifted_pdbs)], "PDB"),
            _told("Placeholder Pods at the end: ", [_at_end(item) for item in placeholders], "workload"),
            *map(_capital, whatif.other_effects([answer._replace(workloads=(), pdbs={})])),
        ]
    effects += [*_pruned(cluster), _capital(whatif.on_new_nodes(answer))]
    explained = {
        _EFFECT_AND_DRIFT if cluster.differing else _EFFECT: effects,
        f"Drift: the cluster is not as in {diff.base}": [*_drift(diff, cluster, answer)],
        _AUTOSCALING: [
            _told(_AFTER, [*_autoscaled(cluster)], "workload"),
            _FIX_OF_AUTOSCALED if cluster.autoscaled else "",
        ],
        _NOT_PREDICTED: [
            _other_directories(cluster),
            *([] if beside_details else _unpredicted(cluster, answer, named)),
        ],
    }
    told = {title: [*filter(None, sentences)] for title, sentences in explained.items()}
    return {title: sentences for title, sentences in told.items() if sentences}


def _unpredicted(cluster: OnCluster, answer: Answer, named: dict[str, str]) -> Iterator[str]:
    yield from _ends(_unknown(cluster), answer, named)
    if whatif.unfinished([answer]):
        end = duration(answer.summary.horizon)
        yield f"Pods still change when the simulation ends after {end}: the numbers are those of this time"
    later = [text.removeprefix("CronJob ") for text in answer.not_simulated if _LATER in text]
    names = [text.partition(",")[0].replace(_LATER, " (after ") + ")" for text in later]
    yield _told("CronJobs start their next Job after the end of the simulation: ", names, "CronJob")
    fixes = sorted((text.partition(". Fix: ")[2] for text in later), key=lambda fix: (len(fix), fix))
    yield f"Fix: run forewarn diff with {fixes[-1]}" if fixes and fixes[-1] else ""
    others = [text.partition(". Fix: ")[0] for text in answer.not_simulated if _LATER not in text]
    yield _told("Not simulated: ", others, "object")
    yield _told("Not modelled: ", [text.removeprefix("not modelled: ") for text in answer.not_modelled], "part")


_LATER: Final = ": next Job after "


def _on_pods(cluster: OnCluster, answer: Answer, named: dict[str, str]) -> Iterator[str]:
    """Sentences about the Pods of each workload: first lost ones, then new Pending ones, then replaced ones."""
    losing = [workload for workload in _workloads(cluster) if workload.missed]
    waiting = [workload for workload in _workloads(cluster) if workload.not_started and not workload.missed]
    told = {workload.workload for workload in (*losing, *waiting)}
    yield from _ends(losing, answer, named)
    yield from whatif.fix_of_failures(answer)
    yield from _ends([workload for workload in waiting if not _is_unknown(workload, answer)], answer, named)
    others = [preemption for preemption in answer.preempted if preemption.workload not in told]
    yield from _preempting(others, named, cluster.placeholders)
    yield _surge(cluster, answer)


def _surge(cluster: OnCluster, answer: Answer) -> str:
    """Tell why rollouts preempt although old Pods leave; "" if none does."""
    updated = {
        f"{changed.namespace}/{changed.name}"
        for changed in cluster.applied
        if changed.is_rollout and changed.kind == "Deployment" and str(changed) not in cluster.absent
    }
    old = _old_pods(answer, updated)
    surges = any(
        preemption.by_workload in updated
        and all(preemption.t < event.t for event in old.get(preemption.by_workload, ()))
        for preemption in answer.preempted
    )
    return _SURGE if surges else ""


def _old_pods(answer: Answer, workloads: Container[str]) -> dict[str, list[Event]]:
    """By workload, the deletions of Pods that run before the change."""
    deleted: dict[str, list[Event]] = defaultdict(list)
    for event in answer.simulation.timeline.events:
        is_old = event.event == "deleted" and event.node and event.origin is not None and event.origin.before
        name = answer.summary.names.of(event.origin.workload) if is_old and event.origin else ""
        if name in workloads:
            deleted[name].append(event)
    return deleted


def _before(diff: Diff, cluster: OnCluster, answer: Answer) -> Iterator[str]:
    """Sentences about what is rejected, and new Pods with another priority; "" for none."""
    yield from _rejected_sentences(diff, cluster)
    phrases = [*map(_capital, whatif.on_new_pods(answer.new_pods))]
    yield from phrases[:-1]
    yield f"{phrases[-1]}{_passed(cluster)}" if phrases else ""
    classes = {of.before.priority_class_name for of in answer.new_pods if of.after is None and of.before}
    fix = _told("Fix: keep ", sorted(classes), "PriorityClass")
    yield f"{fix} until no workload has it" if fix else ""


def _pruned(cluster: OnCluster) -> Iterator[str]:
    """Tell what deleting a PriorityClass does to the workloads that name it."""
    for item in cluster.pruned:
        stay = plural(item.running, "running Pod stays, but is", "running Pods stay, but are")
        running = f"; their {stay} not replaced when deleted, evicted or preempted" if item.running else ""
        yield (
            f"If the GitOps tool prunes and deletes PriorityClass {one_line(item.priority_class)}, new Pods of "
            f"{plural(item.workloads, 'workload')} are rejected{running}"
        )
    if cluster.pruned:
        yield "Fix: delete a PriorityClass only when no workload names it"


def _omitted(cluster: OnCluster) -> list[ChangedObject]:
    """The changed objects that are not simulated, because the cluster gets the same objects from another directory."""
    used = {changed.identity for changed in cluster.applied}
    return [changed for changed in cluster.omitted if changed.identity in used]


def _not_in(cluster: OnCluster) -> list[ChangedObject]:
    """The workloads without a rollout, because the cluster does not have them."""
    return [changed for changed in cluster.omitted if changed not in _omitted(cluster)]


def _other_directories(cluster: OnCluster) -> str:
    others = _omitted(cluster)
    if not others:
        return ""
    used = {changed.identity: changed.directory for changed in cluster.applied}
    taken = _all_of([*dict.fromkeys(used[changed.identity] for changed in others)], "directory")
    left = _all_of([*dict.fromkeys(changed.directory for changed in others)], "directory")
    return f"Simulated: the objects of {taken}. Not simulated: the same objects in {left}. {FIX_OF_DIRECTORIES}"


def _autoscaled(cluster: OnCluster) -> Iterator[str]:
    """Name the workloads whose replicas a HorizontalPodAutoscaler changes after the apply."""
    for item in cluster.autoscaled:
        end = min(max(item.replicas, item.least), item.most)
        to = f"{end} ({'maxReplicas' if end < item.replicas else 'minReplicas'})"
        to = to if end != item.replicas else f"between {item.least} and {item.most}, by load"
        yield f"{item.workload} from {item.replicas} to {to}"


def _drift(diff: Diff, cluster: OnCluster, answer: Answer) -> Iterator[str]:
    """Sentences about effects of an apply because the cluster is not as in the first version."""
    down = [item for item in cluster.scaled_down if item.base == item.before]
    removed = [f"{item.workload} from {item.before} to {item.after}" for item in down]
    yield _told("Without spec.replicas, applying scales down ", removed, "workload")
    base = diff.base.partition(" (")[0]
    scaled = [
        f"{item.workload} from {item.before} ({base}: {'unset' if item.base is None else item.base}) to {item.after}"
        for item in cluster.scaled_down
        if item not in down
    ]
    yield _told("Live workloads have more replicas, and applying scales down ", scaled, "workload")
    autoscaled = {item.workload for item in cluster.autoscaled}
    yield _FIX_OF_REPLICAS if any(item.workload not in autoscaled for item in cluster.scaled_down) else ""
    pdbs = [f"{name} ({_health(answer, name)})" for name in cluster.drifted_pdbs]
    yield _told("PDBs of these workloads: ", pdbs, "PDB")
    yield _told("Applying also changes (live → this change) ", cluster.differing, "workload")


def _passed(cluster: OnCluster) -> str:
    """Tell which running Pods new Pods outrank after a change of PriorityClasses, and did not before; and the others
    the other way round.
    """
    text = ""
    above = [(each.outranked, each.priority_class) for each in cluster.passed if each.outranked]
    below = [(each.outranking, each.priority_class) for each in cluster.passed if each.outranking]
    for of, verb in ((above, "outrank"), (below, "rank below")):
        if of:
            names = [f"PriorityClass {one_line(name)}" if name != NO_CLASS else "no class" for _, name in of]
            counted = [f"{count} of {name}" for (count, _), name in zip(of, names, strict=True)]
            classes = _all_of(counted if of[1:] else [f"of {names[0]}"], "PriorityClass")
            pods = plural(sum(count for count, _ in of), "running Pod")
            text += f", and {'also' if text else 'now'} {verb} {pods} of others ({classes})"
    return text


def _running(diff: Diff, cluster: OnCluster, answer: Answer) -> str:
    """The sentence that changed workloads get all their Pods; "" if none does, which other sentences report."""
    names = {
        f"{changed.namespace}/{changed.name}": None
        for changed in cluster.applied
        if changed.kind in _LASTING and changed.operation != "deleted"
    }
    failing = {item.workload for item in answer.workloads if item.pending or item.missed or item.failure}
    rejected = any(any(_faults(other)) for other in diff.clusters)
    fails = rejected or answer.over_quota or answer.not_simulated or answer.not_modelled or not answer.summary.settled
    running = [one_line(name) for name in names if name not in failing]
    if fails or not running:
        return ""
    others = "the other " if len(running) < len(names) else "the "
    whose = f"{others}{len(running)} changed workloads" if len(running) > _NAMED else _all_of(running, "workload")
    return f"All Pods of {whose} run at the end"


_LASTING: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")


def _rejected_sentences(diff: Diff, cluster: OnCluster) -> Iterator[str]:
    """A sentence about each rejected object, and each whose Pods are rejected; of many, about the first ones."""
    for what, reasons in (("Rejected", cluster.rejected), ("Pods rejected", cluster.rejected_pods)):
        lines = (f"{what}: {cut(reason, _LONGEST_REASON)}" for reason in reasons)
        yield from limited(lines, len(reasons), "rejected object", "rejected objects", "")
    rejected = {reason.partition(": ")[0] for reason in cluster.rejected_pods}
    if any(str(changed) in rejected for changed in diff.objects if changed.operation == "changed"):
        yield _NO_ROLLOUT


def _told(text: str, items: Sequence[str], noun: str) -> str:
    return f"{text}{_all_of([*map(one_line, items)], noun)}" if items else ""


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _ends(workloads: Sequence[WorkloadCount], answer: Answer, named: dict[str, str]) -> Iterator[str]:
    """Yield a sentence for each of the workloads with most lost or Pending Pods, and one for all others."""
    ordered = sorted(workloads, key=lambda item: (not item.failure, -max(item.missed, item.pending)))
    count = len(ordered) if len(ordered) <= _NAMED + 1 else _NAMED
    for group in filter(None, (*([workload] for workload in ordered[:count]), ordered[count:])):
        yield _end(group, answer, named)


def _end(workloads: Sequence[WorkloadCount], answer: Answer, named: dict[str, str]) -> str:
    """How many Pods one or more workloads lose, or do not get, and why. `named`: see `_named`."""
    name, is_one = workloads[0].workload, len(workloads) == 1
    who = _name(name, named) if is_one else plural(len(workloads), "more workload")
    pending = sum(max(workload.pending - workload.pending_before, 0) for workload in workloads)
    later = _not_created(workloads[0], answer) if is_one else ""
    if is_one and _is_unknown(workloads[0], answer):
        return f"{who}: {plural(pending, 'Pod')} {_UNKNOWN}{later}"
    running = sum(workload.after for workload in workloads)
    if workloads[0].missed:
        rank = f" (priority {workloads[0].priority})" if is_one else ""
        who, waiting = f"{who}{rank} {_loss(workloads)}", f"{pending} Pending"
    else:
        waiting = f"{pending} of {pending + running} Pods Pending" if running else f"{plural(pending, 'Pod')} Pending"
    why = cut(one_line(in_short(workloads[0].message)), _LONGEST_REASON) if is_one else ""
    preempted, *others = _causes(workloads, answer, named)
    causes = (preempted, f"{waiting}{f' ({why})' if why else ''}{later}" if pending else "", *others)
    return ": ".join(filter(None, (who, "; ".join(filter(None, causes)))))


def _not_created(workload: WorkloadCount, answer: Answer) -> str:
    """A clause about the Pods that a StatefulSet creates only after its Pending one; "" for none."""
    namespace, _, name = workload.workload.partition("/")
    state = answer.simulation.api.workloads.get((STATEFUL_SET, namespace, name))
    wanted = (int32(state.object, "spec", "replicas") or 0) if state else 0
    more = wanted - workload.after - workload.pending if workload.pending else 0
    return f"; the StatefulSet creates {plural(more, 'more Pod')} only after that" if more > 0 else ""


def _causes(workloads: Sequence[WorkloadCount], answer: Answer, named: dict[str, str]) -> Iterator[str]:
    """By which workloads Pods are preempted, how many of these are replaced, and failing Jobs; "" for none."""
    names = {workload.workload for workload in workloads}
    by = Counter(preemption.by_workload for preemption in answer.preempted if preemption.workload in names)
    preemptors = [_name(name, named) for name, _ in by.most_common()]
    yield f"{by.total()} preempted by {_all_of(preemptors, 'workload')}" if by else ""
    replaced = sum(answer.replaced[name] for name in names)
    yield f"{replaced} replaced" if replaced else ""
    failed = sum(bool(workload.failure) for workload in workloads)
    if failed:
        jobs = plural(failed, "Job fails", "Jobs fail") if workloads[1:] else workloads[0].failure
        victims = Counter(preemption.workload for preemption in answer.preempted)
        others = any(workload.missed > victims[workload.workload] for workload in workloads if workload.failure)
        whose = "its" if failed == 1 else "their"
        yield f"{one_line(jobs)}{f', so {whose} other Pods are deleted' if others else ''}"


_UNKNOWN: Final = (
    "not predicted, because forewarn does not model where its volume is created; Pending only if the provisioner "
    "creates none or no node can use it"
)


def _is_unknown(workload: WorkloadCount, answer: Answer) -> bool:
    """Report whether Pods are Pending because the volumes that their provisioner creates are not simulated."""
    of_volumes = any(note.endswith(_OF_NEW_VOLUMES) for note in answer.not_modelled)
    return of_volumes and UNBOUND_IMMEDIATE.reasons[0] in workload.message


_OF_NEW_VOLUMES: Final = ("(Immediate) creates volumes", "volumes created from a snapshot or another claim")


def _name(workload: str, named: dict[str, str]) -> str:
    """The name of a workload; when it is first mentioned, with its change."""
    return named.pop(workload, "") or one_line(workload)


def _pdbs(answer: Answer, without: Iterable[str]) -> Iterator[str]:
    """`without`: PDBs whose number of healthy Pods is not reported."""
    violations, unhealthy = answer.summary.violated_pdbs, {*answer.pdbs}.difference(without)
    for name in sorted(violations.keys() | unhealthy, key=lambda name: (-violations.get(name, 0), name)):
        effects = [f"{plural(violations[name], 'Pod')} preempted beyond what it allows"] if name in violations else []
        effects += [_health(answer, name)] if name in unhealthy else []
        yield f"{one_line(name)} ({', '.join(effects)})"


def _health(answer: Answer, pdb: str) -> str:
    healthy, desired = answer.pdbs[pdb]
    return f"{healthy} of {desired} desired Pods healthy at the end"


def _all_of(items: Sequence[str], noun: str) -> str:
    """The first items, and the number of the others: `a, b, c and 4 more PDBs`."""
    if len(items) > _NAMED + 1:
        items = [*items[:_NAMED], plural(len(items) - _NAMED, f"more {noun}")]
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def _named(cluster: OnCluster) -> dict[str, str]:
    """Return workload of the change -> its name with its changes, also of drift; without `replicas` if scaled down."""
    named, scaled_down = {}, {item.workload for item in cluster.scaled_down}
    drift = dict(text.removesuffix(")").split(" (", 1) for text in cluster.differing)
    for changed in cluster.applied:
        if changed.kind in _WORKLOADS and changed.operation != "deleted":
            name = f"{changed.namespace}/{changed.name}"
            if changed.operation == "created" or str(changed) in cluster.absent:
                what = _of_new(changed)
            else:
                fields = {f.name: str(f) for f in changed.fields if f.name != "replicas" or name not in scaled_down}
                fields |= {
                    text.partition(" ")[0]: f"{text} (drift)" for text in drift.get(name, "").split(", ") if text
                }
                what = listed([*map(one_line, fields.values())], _NAMED + 1)
                what = f"rollout: {what}" if changed.is_rollout or name in drift else what
            named[name] = f"{one_line(name)} ({what})" if what else one_line(name)
    return named


def _of_new(changed: ChangedObject) -> str:
    after = {field.name: field.after for field in changed.fields}
    kind = f"new {changed.kind}"
    kind = kind if changed.operation == "created" else f"not in the cluster, simulated as {kind}"
    fields = (one_line(f"{field} {after[field]}") for field in _OF_NEW if after.get(field))
    return listed([kind, *fields], _NAMED + 1)


def _preempting(preemptions: Sequence[Preemption], named: dict[str, str], placeholders: Sequence[str]) -> Iterator[str]:
    """Yield how many Pods workloads preempt, a sentence for each changed workload. `named`: see `_named`."""
    by: dict[str, list[Preemption]] = defaultdict(list)
    for preemption in preemptions:
        by[preemption.by_workload].append(preemption)
    names = sorted(by, key=lambda name: -len(by[name]))
    in_turn = [name for name in names if all(preemption.cascade_depth > 1 for preemption in by[name])]
    names = [name for name in names if name not in in_turn]
    for group in filter(None, (*([name] for name in names[:_NAMED]), names[_NAMED:], in_turn)):
        own = [preemption for name in group for preemption in by[name]]
        preemptors = _all_of([_name(name, named) for name in group], "workload")
        first = "In turn, " if group is in_turn else ""
        yield f"{first}{preemptors} preempt{'s' if len(group) == 1 else ''} {_all_victims(own, placeholders)}"


def _all_victims(preemptions: Sequence[Preemption], placeholders: Container[str]) -> str:
    """The preempted Pods, placeholder Pods last."""
    reserving = [preemption for preemption in preemptions if preemption.workload in placeholders]
    others = [preemption for preemption in preemptions if preemption.workload not in placeholders]
    replaced = f"{_victims(others, 'Pod')}, replaced at the end" if others else ""
    return ", and ".join(filter(None, (replaced, _victims(reserving, "placeholder Pod"))))


def _victims(preemptions: Sequence[Preemption], noun: str) -> str:
    """The number of preempted Pods, and of which workloads; "" for none."""
    of = Counter(one_line(preemption.workload) for preemption in preemptions).most_common()
    if len(of) == 1:
        return f"{plural(of[0][1], noun)} of {of[0][0]}"
    shown = len(of) if len(of) == _NAMED + 1 else _NAMED
    names = [f"{count} of {name}" for name, count in of[:shown]]
    if others := of[shown:]:
        names.append(f"{sum(count for _, count in others)} in {plural(len(others), 'other workload')}")
    return f"{plural(len(preemptions), noun)} ({', '.join(names)})" if of else ""


def _at_end(workload: WorkloadCount) -> str:
    why = cut(one_line(in_short(workload.message)), _LONGEST_REASON)
    pending = f", {workload.pending} Pending{f' ({why})' if why else ''}" if workload.pending else ""
    return f"{one_line(workload.workload)}: {workload.before} → {workload.after} running{pending}"


def _object(changed: ChangedObject) -> str:
    if changed.operation == "changed":
        fields = [str(field) for field in changed.fields]
    else:
        fields = [f"{field.name} {field.after or field.before}" for field in changed.fields if field.name in _OF_WHOLE]
    return ": ".join(filter(None, (str(changed), listed([one_line(field) for field in fields], _MAX_FIELDS))))


_TEXTS: Final = ("CLUSTER", "STATE AT")


def _table(clusters: Sequence[OnCluster]) -> tuple[list[str], list[tuple[str | int, ...]]]:
    """The heads and rows of clusters, without columns in which all numbers are 0."""
    numbers = [_numbers_of(cluster) for cluster in clusters]
    shown = [column for column in range(len(_HEADS)) if any(row[column] for row in numbers)]
    rows: list[tuple[str | int, ...]] = [
        (cluster.cluster, cluster.answer.head.origin.time or "unknown", *(row[column] for column in shown))
        if cluster.answer
        else (cluster.cluster, "-", *((row[column] or "-") for column in shown))
        for cluster, row in zip(clusters, numbers, strict=True)
    ]
    return [*_TEXTS, *(_HEADS[column] for column in shown)], rows


def _numbers_of(cluster: OnCluster) -> _Numbers:
    rejected = sum(map(len, _faults(cluster)))
    if cluster.answer is None:
        return _Numbers(rejected=rejected)
    answer, workloads = cluster.answer.answer, _workloads(cluster)
    return _Numbers(
        lost=sum(workload.missed for workload in workloads),
        pending=sum(workload.not_started for workload in workloads if workload not in _unknown(cluster)),
        rejected=rejected,
        scaled_down=sum(item.before - item.after for item in cluster.scaled_down),
        replaced=sum(count for name, count in answer.replaced.items() if name not in cluster.placeholders),
        failed=sum(bool(workload.failure) for workload in workloads),
        violated=len(answer.summary.violated_pdbs),
        unhealthy=len(answer.pdbs.keys() - answer.summary.violated_pdbs),
        placeholders=sum(preemption.workload in cluster.placeholders for preemption in answer.preempted),
    )


def markdown(diff: Diff, *, details: bool = True) -> str:
    """The comparison as a comment on a pull request: the verdict, a row for each cluster, details folded.

    `details`: of each cluster, with names of Pods.
    """
    clusters = _most_affected_first(diff)
    parts = chain(
        _summary(diff, clusters, details=details), (_details_of(cluster, details=details) for cluster in clusters)
    )
    return "\n\n".join(_fitting(filter(None, parts), MAX_BYTES, "part"))


def _fitting(texts: Iterable[str], limit: int, noun: str) -> Iterator[str]:
    """Yield the texts that have room in so many bytes, and the number of the others."""
    size = more = 0
    for text in texts:
        grown = size + len(text.encode()) + 2
        if grown > limit:
            more += 1
        else:
            size = grown
            yield text
    if more:
        yield f"and {plural(more, f'more {noun}')}; use -o json for all"


def _details_of(cluster: OnCluster, *, details: bool) -> str:
    """Folded: the details of a cluster; "" without an answer, of which the sentences have all."""
    body = _body(cluster, cluster.answer, details=details) if cluster.answer else ""
    summary = f"{cluster.cluster}: {_effect(cluster)}"
    return _folded(summary, body) if body else "" if details else text_of(summary)


def _sentences(diff: Diff, clusters: Sequence[OnCluster]) -> Iterator[str]:
    """A list item for the clusters with the same effects. What all reject is in the first item alone."""
    alike = defaultdict[tuple[tuple[str, ...], ...], list[str]](list)
    answered = [cluster for cluster in clusters if not cluster.reason]
    common = set.intersection(*({*chain(*_faults(cluster))} for cluster in answered)) if answered[1:] else set[str]()
    if common:
        of_all = _with_faults(answered[0], common.__contains__)
        yield from _item([cluster.cluster for cluster in answered], [(_EFFECT, *_rejected_sentences(diff, of_all))])
    for cluster in clusters:
        left = _with_faults(cluster, lambda reason: reason not in common)
        if left == cluster or needs_attention(left):
            explained = _explained(diff, left)
            alike[tuple((title, *sentences) for title, sentences in explained.items())].append(cluster.cluster)
    for groups, names in alike.items():
        yield from _item(names, groups)


def _with_faults(cluster: OnCluster, is_kept: Callable[[str], bool]) -> OnCluster:
    rejected, of_pods = ([*filter(is_kept, reasons)] for reasons in _faults(cluster))
    return cluster._replace(rejected=rejected, rejected_pods=of_pods)


def _item(clusters: list[str], groups: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The lines about clusters. `groups`: heading and sentences."""
    who, same = text_of(listed(clusters)), " (the same in each)" if len(clusters) > 1 else ""
    if len(groups) == 1 and len(groups[0]) == 2:
        yield f"- **{who}**{same}: {_sentence(groups[0][1])}"
        return
    yield from ("", f"#### {who}{same}")
    for title, *sentences in groups:
        yield from ("", *([f"**{text_of(title)}**", ""] if len(groups) > 1 or title != _EFFECT else []))
        yield from (f"- {_sentence(sentence)}" for sentence in sentences)


def _sentence(text: str) -> str:
    return text_of(text if text.endswith(("?", ".")) else f"{text}.")


def _of_class(changed: ChangedObject, *, prunes: bool) -> str:
    name, _, fields = _object(changed).partition(": ")
    if changed.operation == "deleted":
        return f"{name} deleted{'' if prunes else ' (stays unless the GitOps tool prunes)'}"
    return f"{name} {changed.operation}{f' ({fields})' if fields else ''}"


def _summary(diff: Diff, affected: Sequence[OnCluster], *, details: bool) -> Iterator[str]:
    title, names = verdict(diff), tuple(name for name in map(_title, diff.clusters) if not name.startswith("cluster "))
    yield f"### {text_of(title if title.startswith(names) else _capital(title))}"
    if len(diff.notes) <= _NAMED:
        notes = (note.partition(ALSO)[0] for note in diff.notes)
        yield "\n".join(f"- Not compared: {_sentence(cut(note, 2 * _LONGEST_REASON))}" for note in notes)
    if blocking := [one_line(changed.namespace + "/" + changed.name) for changed in _blocking(diff)]:
        which = text_of(_all_of(blocking, "PDB"))
        yield f"- PDBs that never allow an eviction, and so block node drains: {which}. Fix: maxUnavailable: 1."
    answers = [cluster.answer.answer for cluster in affected if cluster.answer]
    if answers:
        yield _simulated(affected)
    changes = [_of_class(changed, prunes=diff.prunes) for changed in _merged(diff) if changed.kind == "PriorityClass"]
    if changes and any(answer.new_pods for answer in answers):
        yield f"- {text_of(_all_of(changes, 'PriorityClass'))}."
    if details:
        yield "\n".join(_fitting(_sentences(diff, affected), MAX_BYTES // 2, "line")).strip("\n")
    yield from _numbers(diff, affected, is_whole=not details)
    yield from _details_of_objects(diff)


def _simulated(clusters: Sequence[OnCluster]) -> str:
    heads = [cluster.answer.head for cluster in clusters if cluster.answer]
    times = {head.origin.time for head in heads}
    state = f"state of {times.pop()}" if len(times) == 1 and "" not in times else "recorded state of each cluster"
    lacking = dict.fromkeys(text[3:] for head in heads for text in head.assumes if text.startswith("no "))
    assumed = f" Not in the snapshot, and assumed not to exist: {listed([*lacking], 10)}." if lacking else ""
    return text_of(f"Simulation: the change is applied to the {state}.{_on_pending(clusters)}{assumed}")


def _on_pending(clusters: Sequence[OnCluster]) -> str:
    answers = [_predicted(cluster, cluster.answer.answer) for cluster in clusters if cluster.answer]
    if not any(workload.pending for answer in answers for workload in answer.workloads):
        return ""
    reacting = any(each.autoscalers.cluster_autoscaler.considered and not each.with_new_nodes for each in answers)
    nodes = " New nodes, which an autoscaler may add for them (see the details), are not simulated." if reacting else ""
    return f" In the reasons of Pending Pods, a node can count several times.{nodes}"


def _numbers(diff: Diff, affected: Sequence[OnCluster], *, is_whole: bool) -> Iterator[str]:
    """The tables and their legend. `is_whole`: also the table of namespaces whose content the sentences have."""
    known = set[str]()
    if affected:
        heads, rows = _table(affected)
        known.update(titles(heads))
        if heads[2:] and len(diff.clusters) > 1:
            yield "\n".join(markdown_table(titles(heads), rows[:_MAX_OBJECTS]))
            yield _more(affected, "cluster")
    if rest := [_without_effect(cluster) for cluster in diff.clusters if not needs_attention(cluster)]:
        yield text_of(f"No effect found in {listed(rest)}.")
    heads, rows = _affected(diff)
    if is_whole or "Owner" in heads or len(rows) > 1:
        known.update(heads)
        text = "\n".join([*markdown_table(heads, rows[:_MAX_OBJECTS]), "", _more(rows, "namespace")]).strip()
        yield text if len(rows) <= _FEW_ROWS else _folded(plural(len(rows), "affected namespace"), text)
    meanings = [f"{head}: {meaning}" for head, meaning in _LEGEND.items() if head in known]
    if meanings:
        yield _folded("What the numbers mean", " ".join([*meanings, *([_SUMS] if len(affected) > 1 else [])]))


def _without_effect(cluster: OnCluster) -> str:
    time = cluster.answer.head.origin.time if cluster.answer else ""
    return f"{cluster.cluster}{f' (state of {time})' if time else ''}"


def _details_of_objects(diff: Diff) -> Iterator[str]:
    """Folded: the changed objects, and what was not compared."""
    if diff.objects:
        objects = [
            f"- {text_of(f'{among[0]}: {changed.operation} {_object(changed)}{_also(among)}')}"
            for changed, among in _merged(diff).items()
        ]
        body = "\n".join(_fitting(objects, MAX_BYTES // 4, "object"))
        versions = f"{diff.base} → {diff.head}"
        if diff.clusters or len(objects) > _FEW_ROWS:
            yield _folded(f"{_counts(diff) if diff.clusters else 'Changed objects'} ({versions})", body)
        else:
            yield f"{text_of(f'Changed objects ({versions}):')}\n\n{body}"
    notes = diff.notes if len(diff.notes) > _NAMED else [note for note in diff.notes if ALSO in note]
    if notes or diff.not_compared:
        body = "\n".join(f"- {text_of(line)}" for line in [*notes, *_not_compared(diff)])
        yield _folded(_capital(", ".join(_uncompared(diff))), body)


def _affected(diff: Diff) -> tuple[list[str], list[tuple[str | int, ...]]]:
    """The heads and rows of namespaces with their sums over the clusters: the most affected first, those of placeholder
    Pods last.
    """
    alike: dict[tuple[str, str], list[tuple[str, AffectedNamespace]]] = defaultdict(list)
    for cluster in diff.clusters:
        for each in cluster.namespaces:
            alike[each.namespace, each.owner].append((cluster.cluster, each))
    sums = {
        key: [sum(getattr(each, field) for _, each in of) for field in _HEADS_OF_NAMESPACES]
        for key, of in alike.items()
    }
    reserving = {name.partition("/")[0] for cluster in diff.clusters for name in cluster.placeholders}
    keys = sorted(sums, key=lambda key: (key[0] in reserving, [-number for number in sums[key]], key))
    heads = ["NAMESPACE", "OWNER", "CLUSTERS", *_HEADS_OF_NAMESPACES.values()]
    rows: list[tuple[str | int, ...]] = [
        (*key, listed([cluster for cluster, _ in alike[key]]) if diff.clusters[1:] else "", *sums[key]) for key in keys
    ]
    shown = [column for column in range(len(heads)) if any(row[column] for row in rows)]
    return titles(heads[column] for column in shown), [tuple(row[column] for column in shown) for row in rows]


def _more(items: Sequence[object], noun: str) -> str:
    return f"and {plural(len(items) - _MAX_OBJECTS, f'more {noun}')}" if len(items) > _MAX_OBJECTS else ""


def _body(cluster: OnCluster, applied: WhatIf, *, details: bool) -> str:
    absent = "".join(f"- {text_of(line)}\n" for line in _absent(cluster))
    lines = whatif.markdown_body(_predicted(cluster, applied.answer), applied.notes_without_faults) if details else ""
    return "\n\n".join(filter(None, (absent, text_of(line_of(applied.head)), lines.strip())))


def _predicted(cluster: OnCluster, answer: Answer) -> Answer:
    """The answer without workloads and reactions to Pods that are Pending only because volumes are not simulated."""
    if not (unknown := _unknown(cluster)):
        return answer
    workloads = [workload for workload in answer.workloads if workload not in unknown]
    of, count = answer.autoscalers, sum(workload.pending for workload in unknown)
    ca, karpenter = (
        each._replace(considered=max(each.considered - count, 0), pending=max(each.pending - count, 0))
        for each in (of.cluster_autoscaler, of.karpenter)
    )
    return answer._replace(workloads=workloads, autoscalers=of._replace(cluster_autoscaler=ca, karpenter=karpenter))


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(cut(summary, 300), quote=False)}</summary>\n\n{body}\n\n</details>"
