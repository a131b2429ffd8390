"""What a change of manifests does, as text and as Markdown for a pull request."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from html import escape
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.application.diff import FIX_OF_DIRECTORIES
from forewarn.policies.disclosure import Disclose
from forewarn.policies.findings import cut, listed, one_line, plural
from forewarn.policies.lint.versions import ALSO
from forewarn.policies.objects.workload import NO_EVICTION
from forewarn.policies.render import Painter, plain, whatif
from forewarn.policies.render.head import line_of
from forewarn.policies.render.markdown import text_of
from forewarn.policies.render.table import limited, markdown_table, table, titles
from forewarn.policies.scheduling.plugins.volume_binding import UNBOUND_IMMEDIATE
from forewarn.policies.scheduling.reasons import in_short
from forewarn.policies.whatif.answer import NO_CLASS

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Sequence

    from forewarn.policies.application.diff import Autoscaled, Diff, OnCluster
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
_EFFECTS: Final = 6
"""Maximum number of effects in a line."""
_LONGEST: Final = 160
_LONGEST_REASON: Final = 300
_EFFECTS_ON_PODS: Final = ("PODS LOST", "NEW PODS PENDING", "REPLACED", "REJECTED", "SCALED DOWN")
_HEADS: Final = (
    "CLUSTER", "STATE AT", *_EFFECTS_ON_PODS, "JOBS FAILED", "PDBS VIOLATED", "UNHEALTHY PDBS", whatif.HEADS[-1]
)  # fmt: skip
_HEADS_OF_NAMESPACES: Final = (
    "NAMESPACE", "OWNER", "CLUSTERS", *_EFFECTS_ON_PODS, "NEW PRIORITY", whatif.HEADS[-1]
)  # fmt: skip
_SIGNS: Final = {"created": "+ ", "deleted": "- ", "changed": "  "}
_LEGEND: Final = {
    "Pods lost": "they run now, and at the end neither they nor their replacements do.",
    "New Pods Pending": "Pods that the workload does not run now, and that cannot be scheduled at the end.",
    "Replaced": "preempted (deleted by kube-scheduler so that a Pod of higher priority fits on the node), and running "
    "again at the end, on this or another node.",
    "PDBs violated": "PodDisruptionBudgets that allow fewer disruptions than the preempted Pods.",
    "Unhealthy PDBs": "other PodDisruptionBudgets with fewer healthy Pods than they ask for, which block node drains.",
    "Rejected": "workloads that the API server rejects, or whose new Pods it rejects.",
    "Scaled down": "running replicas beyond the number in the manifests.",
    "New priority": "workloads that the change does not edit, but whose new Pods get another priority.",
    "Placeholders preempted": "placeholder Pods, which only reserve capacity and are counted apart.",
}
"""The meanings of heads."""
_SUMS: Final = "The first line adds up the clusters; of changed objects, it counts each once."
_NO_ROLLOUT: Final = (
    "Not simulated: the rollout of these workloads, which would not complete. It deletes old Pods (up to "
    "maxUnavailable; all with Recreate), and no new Pod starts"
)
_FIX_OF_REPLICAS: Final = (
    "Fix: if a HorizontalPodAutoscaler scales them, leave out spec.replicas; otherwise, raise it in the manifests"
)
_FIX_OF_AUTOSCALED: Final = (
    "Fix: set the scale in the HorizontalPodAutoscaler, and remove spec.replicas from the manifest (the apply that "
    "removes it may scale to 1 for a moment)"
)
_SURGE: Final = (
    " A rolling update starts new Pods beside the old ones, so it can preempt Pods even if requests decrease."
)
_WORKLOADS: Final = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")
_OF_WHOLE: Final = (
    "value", "globalDefault", "priorityClassName", "replicas", "requests", "hard", "minAvailable", "maxUnavailable",
    "hook",
)  # fmt: skip
"""Fields that are shown of created and deleted objects."""
_OF_NEW: Final = ("priorityClassName", "replicas", "requests")


def for_audience(diff: Diff, disclose: Disclose) -> Diff:
    """Return the comparison with only the names in clusters that an audience may see, and without details."""
    if disclose is Disclose.NAMES:
        return diff
    own = {changed.namespace for changed in diff.objects} if disclose is Disclose.OWN_NAMESPACE else set()
    clusters = [
        cluster._replace(
            namespaces=[namespace for namespace in cluster.namespaces if namespace.namespace in own], differing=()
        )
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
        heading = f"{cluster.cluster}: {_effect(cluster)}"
        if len(diff.clusters) > 1 or not verdict(diff).startswith(heading):
            yield paint(heading, "bold")
        sentences = _explained(diff, cluster, beside_details=True) if details and not cluster.reason else ()
        yield from (f"  {sentence}" for sentence in sentences)
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
    yield from _absent(cluster)


def _absent(cluster: OnCluster) -> Iterator[str]:
    """Tell of changed objects without a state before the change, and of all with another one than in the manifests."""
    if cluster.absent:
        names = listed([one_line(name) for name in cluster.absent], _NAMED)
        yield f"{plural(len(cluster.absent), 'changed object')} not in the cluster, simulated as new: {names}"
    if len(cluster.differing) > _NAMED + 1:
        also = (f"applying also changes {one_line(name)}" for name in cluster.differing)
        yield from limited(also, len(cluster.differing), "workload", "workloads", "")


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
            _some(namespace.placeholders, "placeholder Pod", "preempted"),
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
        return f"{', '.join(others)}; otherwise {NOTHING}" if others else NOTHING
    absent = len({name for cluster in diff.clusters for name in cluster.absent})
    others += [f"{plural(absent, 'changed workload')} missing in a cluster (simulated as new)"] if absent else []
    if kept := _kept(diff):
        others.append(f"{plural(kept, 'deleted object stays', 'deleted objects stay')} unless the GitOps tool prunes")
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


def _title(cluster: OnCluster) -> str:
    return cluster.cluster if cluster.cluster.startswith("cluster") else f"cluster {cluster.cluster}"


def _effects(diff: Diff) -> str:
    """The effect on the one affected cluster, or the sums of all."""
    affected = [cluster for cluster in diff.clusters if needs_attention(cluster)]
    if not affected:
        return whatif.NO_EFFECT
    if len(affected) == 1:
        return f"{_title(affected[0])}: {_effect(affected[0])}"
    unanswered = sum(bool(cluster.reason) for cluster in affected)
    sums = [*([plural(unanswered, "cluster") + " without an answer"] if unanswered else []), *_phrases(affected)]
    return f"{_joined(sums)}; {len(affected)} of {plural(len(diff.clusters), 'cluster')} affected"


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
    concerned = cluster.reason or cluster.answer is not None or any(_faults(cluster))
    return bool(concerned) and _effect(cluster) != whatif.NO_EFFECT


def _effect(cluster: OnCluster) -> str:
    if cluster.answer is None and not any(_faults(cluster)):
        return cluster.reason or "not concerned"
    return _joined(_phrases([cluster])) or whatif.NO_EFFECT


def _phrases(clusters: Sequence[OnCluster]) -> list[str]:
    """The effects on clusters, summed up, the worst first. Placeholder Pods, which only reserve capacity, come last."""
    answers = [cluster.answer.answer for cluster in clusters if cluster.answer]
    unread = sum(len(answer.not_simulated) for answer in answers)
    rows = [_row(cluster)[2:] for cluster in clusters if cluster.answer]
    is_drift = all(item.base != item.before for cluster in clusters for item in cluster.scaled_down)
    lost, pending, replaced, _, scaled_down, failed, violated, unhealthy, _ = _sums(rows) or [0] * len(_HEADS[2:])
    phrases = [
        _some(unread, "object", "not simulated"),
        *whatif.unfinished(answers),
        *_rejected(*({*map(_name_in, chain(*each))} for each in zip(*map(_faults, clusters), strict=True))),
        *whatif.on_new_pods([workload for answer in answers for workload in answer.new_pods], are_named=False),
        _losing(clusters),
        _some(0 if lost else failed, "Job", "failed"),
        _some(pending, "new Pod", "Pending"),
        _some(sum(map(_unknown, clusters)), "new Pod", "not predicted"),
        _some(replaced, "other Pod" if lost else "Pod", "preempted and replaced"),
        _some(scaled_down, "running replica", f"scaled down{' (not part of this change)' if is_drift else ''}"),
        _some(violated, "PDB", "violated"),
        _some(unhealthy, "PDB", "with too few healthy Pods"),
        *whatif.other_effects([answer._replace(workloads=(), pdbs={}) for answer in answers]),
    ]
    effects = [phrase for phrase in phrases if phrase]
    return [*effects, *whatif.on_placeholders(answers, is_only=not effects)]


def _some(count: int, noun: str, what: str) -> str:
    """A phrase about a count; "" for 0."""
    return f"{plural(count, noun)} {what}" if count else ""


def _losing(clusters: Sequence[OnCluster]) -> str:
    """A phrase about the workloads that lose Pods; with the name of the only one, if readers may see it."""
    losing = [workload for cluster in clusters for workload in _workloads(cluster) if workload.missed]
    if not losing:
        return ""
    names = {workload.workload for workload in losing}
    known = {namespace.namespace for cluster in clusters for namespace in cluster.namespaces}
    is_named = len(names) == 1 and losing[0].namespace in known
    who = cut(one_line(losing[0].workload), _LONGEST) if is_named else plural(len(losing), "workload")
    failed = sum(bool(workload.failure) for workload in losing)
    jobs = f" ({plural(failed, 'Job fails', 'Jobs fail')})" if failed else ""
    return f"{who} {_loss(losing)}{jobs}"


def _loss(workloads: Collection[WorkloadCount]) -> str:
    lost, before = sum(each.missed for each in workloads), sum(each.before for each in workloads)
    return f"{'loses' if len({each.workload for each in workloads}) == 1 else 'lose'} {lost} of {plural(before, 'Pod')}"


def _unknown(cluster: OnCluster) -> int:
    """The number of new Pods that are Pending only because their volumes are not simulated."""
    pending = (each for each in _workloads(cluster) if each.not_started and not each.missed)
    return sum(each.not_started for each in pending if cluster.answer and _is_unknown(each, cluster.answer.answer))


def _workloads(cluster: OnCluster) -> list[WorkloadCount]:
    """Those that change or have too few Pods, without placeholder Pods."""
    workloads = cluster.answer.workloads if cluster.answer else ()
    return [workload for workload in workloads if workload.workload not in cluster.placeholders]


def _name_in(reason: str) -> str:
    """The object of a reason, which differs by cluster."""
    return reason.partition(": ")[0]


def _scaled_down(cluster: OnCluster) -> int:
    return sum(item.before - item.after for item in cluster.scaled_down)


def _faults(cluster: OnCluster) -> tuple[Sequence[str], Sequence[str]]:
    """The rejected objects, and those whose Pods are rejected."""
    return cluster.rejected, cluster.rejected_pods


def _rejections(cluster: OnCluster) -> Iterator[str]:
    """A sentence about each rejected object, and each whose Pods are rejected; of many, about the first ones."""
    for what, reasons in (("Rejected", cluster.rejected), ("Pods rejected", cluster.rejected_pods)):
        lines = (f"{what}: {cut(reason, _LONGEST_REASON)}" for reason in reasons)
        yield from limited(lines, len(reasons), "rejected object", "rejected objects", "")


def _rejected(objects: Collection[str], of_pods: Collection[str]) -> list[str]:
    """Phrases with the number of rejected objects, and of objects whose Pods are rejected."""
    kinds = (
        (objects, plural(len(objects), "changed object")),
        (of_pods, f"Pods of {plural(len(of_pods), 'changed workload')}"),
    )
    return [f"{what} rejected" for alike, what in kinds if alike]


def _sums(rows: Sequence[Sequence[Any]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


def _explained(diff: Diff, cluster: OnCluster, *, beside_details: bool = False) -> list[str]:
    """The effects on a cluster, each as a sentence without a full stop: its causes and the affected workloads.

    `beside_details`: without those that the details contain.
    """
    if cluster.answer is None or not needs_attention(cluster):
        return ([*_rejected_sentences(diff, cluster)] or [_effect(cluster)]) if cluster.answer is None else []
    answer, named = cluster.answer.answer, _named(cluster)
    placeholders = [item for item in answer.workloads if item.workload in cluster.placeholders and item.lost]
    first = [*_before(diff, cluster, answer), _omitted(cluster), _running(diff, cluster, answer)]
    if beside_details:
        sentences = [*first, _capital(whatif.on_new_nodes(answer)), *_drift(diff, cluster)]
    else:
        sentences = [
            *first,
            *_on_pods(cluster, answer, named),
            _told("PDBs: ", [*_pdbs(answer)], "PDB"),
            _told("Placeholder Pods at the end: ", [_at_end(item) for item in placeholders], "workload"),
            *whatif.other_effects([answer._replace(workloads=(), pdbs={})]),
            _capital(whatif.on_new_nodes(answer)),
            *_drift(diff, cluster),
            _told("Not simulated: ", [text.partition(". Fix: ")[0] for text in answer.not_simulated], "object"),
            _told("Not modelled: ", [text.removeprefix("not modelled: ") for text in answer.not_modelled], "part"),
        ]
    return [sentence for sentence in sentences if sentence]


def _on_pods(cluster: OnCluster, answer: Answer, named: dict[str, str]) -> Iterator[str]:
    """Sentences about the Pods of each workload: first lost ones, then new Pending ones, then replaced ones."""
    losing = [workload for workload in _workloads(cluster) if workload.missed]
    waiting = [workload for workload in _workloads(cluster) if workload.not_started and not workload.missed]
    told = {workload.workload for workload in (*losing, *waiting)}
    yield from _ends(losing, answer, named)
    yield from whatif.fix_of_failures(answer)
    yield from _ends(waiting, answer, named)
    others = [preemption for preemption in answer.preempted if preemption.workload not in told]
    yield from _preempting(others, named, cluster.placeholders)


def _before(diff: Diff, cluster: OnCluster, answer: Answer) -> Iterator[str]:
    """Sentences about what is rejected, and new Pods with another priority; "" for none."""
    yield from _rejected_sentences(diff, cluster)
    phrases = [*map(_capital, whatif.on_new_pods(answer.new_pods))]
    yield from phrases[:-1]
    yield f"{phrases[-1]}{_passed(cluster)}" if phrases else ""
    classes = {of.before.priority_class_name for of in answer.new_pods if of.after is None and of.before}
    fix = _told("Fix: keep ", sorted(classes), "PriorityClass")
    yield f"{fix} until no workload has it" if fix else ""


def _omitted(cluster: OnCluster) -> str:
    """Tell of which of several directories with the same objects those of the cluster are; "" without such objects."""
    used = {changed[1:4]: changed.directory for changed in cluster.applied}
    others = [changed for changed in cluster.omitted if changed[1:4] in used]
    if not others:
        return ""
    taken = _all_of([*dict.fromkeys(used[changed[1:4]] for changed in others)], "directory")
    left = _all_of([*dict.fromkeys(changed.directory for changed in others)], "directory")
    return (
        f"Simulated: the objects of {taken}. Not simulated: the same objects in {left}, where only running Pods would "
        f"be replaced, which this cluster does not have. {FIX_OF_DIRECTORIES}"
    )


def _drift(diff: Diff, cluster: OnCluster) -> Iterator[str]:
    """Sentences about replicas that will not last, and about effects of an apply that are not part of the change."""
    scalers = [_autoscaled(item) for item in cluster.autoscaled]
    yield _told("Simulated with the replicas of the manifests, which will not last: ", scalers, "workload")
    yield _FIX_OF_AUTOSCALED if scalers else ""
    down = [item for item in cluster.scaled_down if item.base == item.before]
    removed = [f"{item.workload} from {item.before} to {item.after}" for item in down]
    yield _told("Without spec.replicas, applying scales down ", removed, "workload")
    drifted = [item for item in cluster.scaled_down if item not in down]
    base = diff.base.partition(" (")[0]
    scaled = [
        f"{item.workload} from {item.before} ({base}: {'unset' if item.base is None else item.base}) to {item.after}"
        for item in drifted
    ]
    yield _told(f"{_DRIFT}live workloads have more replicas, and applying scales down ", scaled, "workload")
    autoscaled = {item.workload for item in cluster.autoscaled}
    yield _FIX_OF_REPLICAS if any(item.workload not in autoscaled for item in cluster.scaled_down) else ""
    differs = f"{_DRIFT}live workloads are not as in {diff.base}, and applying changes (live → applied) "
    yield _told(differs, cluster.differing, "workload")


_DRIFT: Final = "Not part of this change: "


def _autoscaled(item: Autoscaled) -> str:
    allowed = f"{item.least} to {item.most}"
    return f"{item.workload} ({item.replicas}, but HorizontalPodAutoscaler {item.autoscaler} allows {allowed})"


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
        f"{changed.namespace}/{changed.name}"
        for changed in cluster.applied
        if changed.kind in _LASTING and changed.operation != "deleted"
    }
    changed = [standing for standing in answer.workloads if standing.workload in names]
    rejected = any(any(_faults(other)) for other in diff.clusters)
    fails = rejected or answer.over_quota or answer.not_simulated or not answer.summary.settled
    failing = {item.workload for item in changed if item.pending or item.missed or item.failure}
    if fails or not names - failing:
        return ""
    others = f"the other {plural(len(names - failing), 'changed workload')}" if failing else "the changed workloads"
    return f"All Pods that {others} ask for run at the end"


_LASTING: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")


def _rejected_sentences(diff: Diff, cluster: OnCluster) -> Iterator[str]:
    yield from _rejections(cluster)
    rejected = {*map(_name_in, cluster.rejected_pods)}
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
    if is_one and _is_unknown(workloads[0], answer):
        return f"{who}: {plural(pending, 'Pod')} {_UNKNOWN}"
    running = sum(workload.after for workload in workloads)
    if workloads[0].missed:
        rank = f" (priority {workloads[0].priority})" if is_one else ""
        who, waiting = f"{who}{rank} {_loss(workloads)}", f"{pending} Pending"
    else:
        waiting = f"{pending} of {pending + running} Pods Pending" if running else f"{plural(pending, 'Pod')} Pending"
    why = cut(_of_all_nodes(workloads[0].message), _LONGEST) if is_one else ""
    preempted, *others = _causes(workloads, answer, named)
    causes = (preempted, f"{waiting}{f' ({why})' if why else ''}" if pending else "", *others)
    return ": ".join(filter(None, (who, "; ".join(filter(None, causes)))))


def _causes(workloads: Sequence[WorkloadCount], answer: Answer, named: dict[str, str]) -> Iterator[str]:
    """By which workloads Pods are preempted, how many of these are replaced, and failing Jobs; "" for none."""
    names = {workload.workload for workload in workloads}
    by = Counter(preemption.by_workload for preemption in answer.preempted if preemption.workload in names)
    preemptors = [_name(name, named) for name, _ in by.most_common()]
    yield f"{by.total()} preempted by {_all_of(preemptors, 'workload')}" if by else ""
    replaced = sum(answer.replaced[name] for name in names)
    yield f"{replaced} replaced" if replaced else ""
    failed = sum(bool(workload.failure) for workload in workloads)
    yield (plural(failed, "Job fails", "Jobs fail") if workloads[1:] else "the Job fails") if failed else ""


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


def _pdbs(answer: Answer) -> Iterator[str]:
    violations = answer.summary.violated_pdbs
    for name in sorted(violations.keys() | answer.pdbs, key=lambda name: (-violations.get(name, 0), name)):
        effects = [f"{plural(violations[name], 'Pod')} preempted beyond what it allows"] if name in violations else []
        if name in answer.pdbs:
            healthy, desired = answer.pdbs[name]
            effects.append(f"{healthy} of {desired} desired Pods healthy at the end")
        yield f"{one_line(name)} ({', '.join(effects)})"


def _all_of(items: Sequence[str], noun: str) -> str:
    """The first items, and the number of the others: `a, b, c and 4 more PDBs`."""
    if len(items) > _NAMED + 1:
        items = [*items[:_NAMED], plural(len(items) - _NAMED, f"more {noun}")]
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def _named(cluster: OnCluster) -> dict[str, str]:
    """Return workload of the change -> its name with its changed fields; without `replicas` of those scaled down."""
    named, scaled_down = {}, {item.workload for item in cluster.scaled_down}
    for changed in cluster.applied:
        if changed.kind in _WORKLOADS and changed.operation != "deleted":
            new = changed.operation == "created"
            name = f"{changed.namespace}/{changed.name}"
            others = [field for field in changed.fields if field.name != "replicas" or name not in scaled_down]
            after = {field.name: field.after for field in changed.fields}
            of_new = (f"{field} {after[field]}" for field in _OF_NEW if field in after)
            fields = [f"new {changed.kind}", *of_new] if new else [*map(str, others)]
            what = listed([one_line(field) for field in fields], _NAMED + 1 if new else 2)
            what = f"rollout: {what}" if changed.is_rollout else what
            named[name] = f"{one_line(name)} ({what})" if what else one_line(name)
    return named


def _preempting(preemptions: Sequence[Preemption], named: dict[str, str], placeholders: Sequence[str]) -> Iterator[str]:
    """Yield how many Pods workloads preempt, a sentence for each changed workload. `named`: see `_named`."""
    by: dict[str, list[Preemption]] = defaultdict(list)
    for preemption in preemptions:
        by[preemption.by_workload].append(preemption)
    names = sorted(by, key=lambda name: -len(by[name]))
    in_turn = [name for name in names if _is_in_turn(by[name])]
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


def _is_in_turn(preemptions: Sequence[Preemption]) -> bool:
    """Report whether the preemptors were preempted themselves."""
    return all(preemption.cascade_depth > 1 for preemption in preemptions)


def _victims(preemptions: Sequence[Preemption], noun: str) -> str:
    """The number of preempted Pods, and of which workloads; "" for none."""
    of = Counter(one_line(preemption.workload) for preemption in preemptions).most_common()
    if len(of) == 1:
        return f"{plural(of[0][1], noun)} of {of[0][0]}"
    names = [f"{count} of {name}" for name, count in of[:_NAMED]]
    if others := of[_NAMED:]:
        names.append(f"{sum(count for _, count in others)} in {plural(len(others), 'other workload')}")
    return f"{plural(len(preemptions), noun)} ({', '.join(names)})" if of else ""


def _at_end(workload: WorkloadCount) -> str:
    why = cut(_of_all_nodes(workload.message), _LONGEST)
    pending = f", {workload.pending} Pending{f' ({why})' if why else ''}" if workload.pending else ""
    return f"{one_line(workload.workload)}: {workload.before} → {workload.after} running{pending}"


def _of_all_nodes(message: str) -> str:
    """The first reason of a message of kube-scheduler if it is about all nodes, otherwise all reasons."""
    short, total = one_line(in_short(message)), _ALL_NODES.match(message)
    first = short.partition("; ")[0]
    count, _, reason = first.partition(": ")
    number = count.partition(" ")[0]
    if not total or count not in (f"{number} nodes", f"{number} node"):
        return first
    if number == total[1]:
        return f"{f'all {count}' if number != '1' else count}: {reason}"
    counted = _COUNTED.sub(r"\1:", short)
    return f"of {plural(int(total[1]), 'node')}, {counted}"


_COUNTED: Final = re.compile(r"\b(\d{1,7}) nodes?:")
_ALL_NODES: Final = re.compile(r"0/(\d{1,7}) nodes are available")


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
    answer, workloads = cluster.answer.answer, _workloads(cluster)
    replaced = sum(count for name, count in answer.replaced.items() if name not in cluster.placeholders)
    return (
        cluster.cluster,
        cluster.answer.head.origin.time or "unknown",
        sum(workload.missed for workload in workloads),
        sum(workload.not_started for workload in workloads) - _unknown(cluster),
        replaced,
        sum(map(len, _faults(cluster))),
        _scaled_down(cluster),
        sum(bool(workload.failure) for workload in workloads),
        len(answer.summary.violated_pdbs),
        len(answer.pdbs.keys() - answer.summary.violated_pdbs),
        sum(preemption.workload in cluster.placeholders for preemption in answer.preempted),
    )


def markdown(diff: Diff, *, details: bool = True) -> str:
    """The comparison as a comment on a pull request: the verdict, a row for each cluster, details folded.

    `details`: of each cluster, with names of Pods.
    """
    clusters = sorted(filter(needs_attention, diff.clusters), key=_harmless)
    parts = chain(_summary(diff, details=details), (_details_of(cluster, details=details) for cluster in clusters))
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
    alike = defaultdict[tuple[str, ...], list[str]](list)
    answered = [cluster for cluster in clusters if not cluster.reason]
    common = [_in_all(of) for of in zip(*map(_faults, answered), strict=True)] if answered[1:] else [[], []]
    if any(common):
        of_all = answered[0]._replace(rejected=common[0], rejected_pods=common[1])
        yield from _item([cluster.cluster for cluster in answered], [*_rejected_sentences(diff, of_all)])
    for cluster in clusters:
        rest = [
            [reason for reason in of if reason not in shared]
            for of, shared in zip(_faults(cluster), common, strict=True)
        ]
        left = cluster._replace(rejected=rest[0], rejected_pods=rest[1])
        if left == cluster or needs_attention(left):
            alike[tuple(_explained(diff, left))].append(cluster.cluster)
    for sentences, names in alike.items():
        yield from _item(names, sentences)


def _item(clusters: list[str], sentences: Sequence[str]) -> Iterator[str]:
    who = f"- **{text_of(listed(clusters))}**{' (the same in each)' if len(clusters) > 1 else ''}"
    if len(sentences) == 1:
        yield f"{who}: {_sentence(sentences[0])}"
    else:
        yield who
        yield from (f"  - {_sentence(sentence)}" for sentence in sentences)


def _sentence(text: str) -> str:
    return text_of(text if text.endswith(("?", ".")) else f"{text}.")


def _of_class(changed: ChangedObject, *, prunes: bool) -> str:
    name, _, fields = _object(changed).partition(": ")
    if changed.operation == "deleted":
        return f"{name} deleted{'' if prunes else ' (stays unless the GitOps tool prunes)'}"
    return f"{name} {changed.operation}{f' ({fields})' if fields else ''}"


def _in_all(lists: Sequence[Sequence[str]]) -> list[str]:
    return [reason for reason in lists[0] if all(reason in others for others in lists)]


def _harmless(cluster: OnCluster) -> tuple[int, int, int]:
    """Sorts the clusters with more faults, lost replicas and preempted Pods first; those without an answer lead."""
    if cluster.answer is None:
        return -sys.maxsize, 0, 0
    answer = cluster.answer.answer
    return (
        -sum(map(len, _faults(cluster))) - _scaled_down(cluster),
        -sum(workload.missed for workload in answer.workloads),
        -len(answer.preempted),
    )


def _summary(diff: Diff, *, details: bool) -> Iterator[str]:
    title, names = verdict(diff), tuple(f"{_title(cluster)}: " for cluster in diff.clusters)
    yield f"### {text_of(title if title.startswith(names) else _capital(title))}"
    affected = sorted(filter(needs_attention, diff.clusters), key=_harmless)
    if len(diff.notes) <= _NAMED:
        notes = (note.partition(ALSO)[0] for note in diff.notes)
        yield "\n".join(f"- Not compared: {_sentence(cut(note, _LONGEST_REASON))}" for note in notes)
    if blocking := [one_line(changed.namespace + "/" + changed.name) for changed in _blocking(diff)]:
        which = text_of(_all_of(blocking, "PDB"))
        yield f"- PDBs that never allow an eviction, and so block node drains: {which}."
    answers = [cluster.answer.answer for cluster in affected if cluster.answer]
    if answers:
        yield _simulated(affected)
    changes = [_of_class(changed, prunes=diff.prunes) for changed in diff.objects if changed.kind == "PriorityClass"]
    if changes and any(answer.new_pods for answer in answers):
        yield f"- {text_of(_all_of(changes, 'PriorityClass'))}."
    if details:
        yield "\n".join(_fitting(_sentences(diff, affected), MAX_BYTES // 2, "line"))
    yield from _numbers(diff, affected, is_whole=not details)
    yield from _details_of_objects(diff)


def _simulated(clusters: Sequence[OnCluster]) -> str:
    answers = [cluster.answer.answer for cluster in clusters if cluster.answer]
    times = {cluster.answer.head.origin.time for cluster in clusters if cluster.answer}
    state = f"state of {times.pop()}" if len(times) == 1 and "" not in times else "recorded state of each cluster"
    nodes = "" if any(answer.with_new_nodes for answer in answers) else "; autoscalers add no nodes"
    applied = [changed for cluster in clusters for changed in cluster.applied]
    rolled_out = {f"{changed.namespace}/{changed.name}" for changed in applied if changed.is_rollout}
    surge = any(preemption.by_workload in rolled_out for answer in answers for preemption in answer.preempted)
    return f"Simulation: the change is applied to the {state}{nodes}.{_SURGE if surge else ''}"


def _numbers(diff: Diff, affected: Sequence[OnCluster], *, is_whole: bool) -> Iterator[str]:
    """The tables and their legend. `is_whole`: also the table of namespaces whose content the sentences have."""
    known = set[str]()
    if affected:
        heads, rows = _table(affected)
        known.update(titles(heads))
        if heads[2:] and len(diff.clusters) > 1:
            yield "\n".join(markdown_table(titles(heads), rows[:_MAX_OBJECTS]))
            yield _more(affected, "cluster")
    if rest := [cluster.cluster for cluster in diff.clusters if cluster not in affected]:
        yield text_of(f"No effect found in {listed(rest)}.")
    heads, rows = _affected(diff)
    if is_whole or "Owner" in heads or len(rows) > 1:
        known.update(heads)
        text = "\n".join([*markdown_table(heads, rows[:_MAX_OBJECTS]), "", _more(rows, "namespace")]).strip()
        yield text if len(rows) <= _FEW_ROWS else _folded(plural(len(rows), "affected namespace"), text)
    meanings = [f"{head}: {meaning}" for head, meaning in _LEGEND.items() if head in known]
    if meanings:
        yield _folded("What the numbers mean", " ".join([*meanings, *([_SUMS] if len(affected) > 1 else [])]))


def _details_of_objects(diff: Diff) -> Iterator[str]:
    """Folded: the changed objects, and what was not compared."""
    if diff.objects:
        objects = [f"- {text_of(f'{obj.directory}: {obj.operation} {_object(obj)}')}" for obj in diff.objects]
        body = "\n".join(_fitting(objects, MAX_BYTES // 4, "object"))
        yield _folded(f"{_counts(diff)} ({diff.base} → {diff.head})", body)
    others = len(diff.not_compared)
    notes = diff.notes if len(diff.notes) > _NAMED else [note for note in diff.notes if ALSO in note]
    if others or notes:
        unread = plural(others, "changed object not compared", "changed objects not compared") if others else ""
        what = ", ".join(filter(None, [unread, plural(len(notes), "note") if notes else ""]))
        yield _folded(what, "\n".join(f"- {text_of(line)}" for line in [*notes, *_not_compared(diff)]))


def _affected(diff: Diff) -> tuple[list[str], list[tuple[str | int, ...]]]:
    """The heads and rows of namespaces with their sums over the clusters: the most affected first, those of placeholder
    Pods last.
    """
    alike = defaultdict[tuple[str, str], list[tuple[str, list[int]]]](list)
    for cluster in diff.clusters:
        for each in cluster.namespaces:
            numbers = [each.lost, each.pending, each.replaced, each.rejected, each.scaled_down, each.new_priority]
            alike[each.namespace, each.owner].append((cluster.cluster, [*numbers, each.placeholders]))
    sums = {key: _sums([numbers for _, numbers in rows]) for key, rows in alike.items()}
    reserving = {name.partition("/")[0] for cluster in diff.clusters for name in cluster.placeholders}
    keys = sorted(sums, key=lambda key: (key[0] in reserving, [-number for number in sums[key]], key))
    rows: list[tuple[str | int, ...]] = [
        (*key, listed([cluster for cluster, _ in alike[key]]), *sums[key]) for key in keys
    ]
    shown = [column for column in range(len(_HEADS_OF_NAMESPACES)) if any(row[column] for row in rows)]
    if len(diff.clusters) == 1 and rows:
        shown.remove(2)
    return [titles(_HEADS_OF_NAMESPACES)[column] for column in shown], [tuple(row[n] for n in shown) for row in rows]


def _more(items: Sequence[object], noun: str) -> str:
    return f"and {plural(len(items) - _MAX_OBJECTS, f'more {noun}')}" if len(items) > _MAX_OBJECTS else ""


def _body(cluster: OnCluster, applied: WhatIf, *, details: bool) -> str:
    absent = "".join(f"- {text_of(line)}\n" for line in _absent(cluster))
    lines = whatif.markdown_body(applied.answer, applied.notes_without_faults) if details else ""
    return "\n\n".join(filter(None, (absent, text_of(line_of(applied.head)), lines.strip())))


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(cut(summary, 300), quote=False)}</summary>\n\n{body}\n\n</details>"
