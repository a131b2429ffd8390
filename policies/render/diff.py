"""What a change of manifests does, as text and as Markdown for a pull request."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.application.diff import FIX_OF_DIRECTORIES, OF_NEW_VOLUMES, AffectedNamespace, Diff, OnCluster
from forewarn.policies.disclosure import Disclose
from forewarn.policies.findings import (
    LONGEST_LINE,
    NAMED,
    capital,
    cut,
    equal_to,
    first_line,
    first_of,
    grouped,
    listed,
    one_line,
    plural,
)
from forewarn.policies.kube_apiserver.quota import QUOTAS
from forewarn.policies.lint.versions import ALSO, CHART_VALUES
from forewarn.policies.objects.workload import NO_EVICTION
from forewarn.policies.render import Painter, autoscalers, harm, plain, whatif
from forewarn.policies.render.head import line_of
from forewarn.policies.render.simulation import missing
from forewarn.policies.render.table import first_rows, fitting, folded, limited, not_empty, table, text_of, titles
from forewarn.policies.scheduling.reasons import TOO_SMALL, FitError, in_short
from forewarn.policies.whatif.answer import NO_CLASS, Answer, Preemption, WorkloadCount, rank_of_loss
from forewarn.policies.whatif.effects import not_created

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.application.diff import Autoscaled
    from forewarn.policies.manifests.differences import ChangedObject

NOTHING: Final = "no change of priorities, requests, replicas, quotas or PDBs"
MAX_BYTES: Final = 60_000
"""Of the Markdown; GitHub accepts 65,536 characters in a comment."""
_MAX_OBJECTS: Final = 50
_FEW_ROWS: Final = 10
_EFFECTS: Final = 4
"""Maximum number of effects in a line."""
_BRIEF: Final = 2
"""The least effects in a line that is too long."""
_LONGEST_REASON: Final = 300
_SUMS: Final = "The rows of namespaces add up the clusters. Rows are sorted by the numbers, the first column first."
_NO_ROLLOUT: Final = (
    "Rollouts of workloads with rejected Pods are not simulated: they delete old Pods (up to maxUnavailable; with "
    "Recreate, all), and no new Pod can start. These are not in the lost Pods"
)
_FIX_OF_REPLICAS: Final = ". Fix: raise spec.replicas in the manifests, or leave it out if something else sets it"
_FIX_OF_AUTOSCALED: Final = (
    ". Fix: set the scale in the HorizontalPodAutoscaler, and remove spec.replicas; before that, also remove it with "
    "kubectl apply edit-last-applied KIND/NAME"
)
_FIX_OF_ABSENT: Final = ". Fix: take a new snapshot, or map directories to clusters (clusters in .forewarn.yaml)"
_TOO_LARGE: Final = ", so preemption does not help. Fix: lower the requests, or add larger nodes"
_INCOMPLETE: Final = " (incomplete)"
_GAPS: Final = "incomplete (effects can be missing)"
_SURGE: Final = (
    "Requests do not grow, but the rollouts start new Pods before they delete old ones (maxSurge), so they need "
    "more resources for a time: "
)
_RESCALED: Final = "HorizontalPodAutoscalers then change replicas; the other numbers are those before that: "
_REDUCED: Final = "Outage risk: the apply scales down workloads until their HorizontalPodAutoscalers act: "
_DRIFT: Final = "Drift: changed in the cluster, not by this change; an apply resets it (now → after the apply)"
_EFFECT: Final = "Effect of this change"
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
            rejections=(),
            pruned=[item._replace(names=()) for item in cluster.pruned],
        )
        for cluster in diff.clusters
    ]
    return replace(diff, clusters=clusters)


_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "lost": (
        "PODS LOST",
        "they run now and are still required, but neither they nor their replacements run at the end.",
    ),
    "down": ("REPLICAS DOWN", "for 2 minutes or longer (all replicas: 30 seconds), and running again at the end."),
    "pending": ("NEW PODS PENDING", "Pods that the workload does not run now, and that fit on no node."),
    "rejected": ("OBJECTS REJECTED", "by the API server, or the new Pods of workloads are."),
    "over_quota": ("PODS REJECTED", "by ResourceQuotas."),
    "not_recreated": ("NOT RECREATABLE", "running Pods whose replacements are rejected."),
    "rollouts": ("ROLLOUTS BLOCKED", ""),
    "drains": ("DRAINS BLOCKED", "nodes with Pods of a PDB that no longer allows an eviction."),
    "scaled_down": ("SCALED DOWN", "running replicas beyond the number in the manifests."),
    "removed": ("PODS REMOVED", "of workloads that the change deletes or scales down."),
    "replaced": ("REPLACED", "preempted, and running again at the end."),
    "failed": ("JOBS FAILED", ""),
    "violated": ("PDBS VIOLATED", ""),
    "unhealthy": ("UNHEALTHY PDBS", "with fewer healthy Pods than they require, so that they block node drains."),
    "pruned": ("WORKLOADS WITH PRUNED CLASS", "their new Pods are rejected if a tool deletes the PriorityClass."),
    "new_priority": ("WORKLOADS WITH NEW PRIORITY", "not changed, but their new Pods get another priority."),
}
"""Numbers of a row, the worst first: name -> the head of its column, and what it means."""


def render(diff: Diff, paint: Painter = plain, *, details: bool = True) -> Iterator[str]:
    """The comparison as text lines. `details`: of each cluster."""
    first = verdict(diff)
    yield paint(first, "bold")
    if gaps := _gaps(diff):
        yield f"{_GAPS}:"
        yield from (f"  {gap.full if details else gap.brief or gap.full}" for gap in gaps)
    yield f"compared: {diff.base} → {diff.head}{f'; {_counts(diff)}' if diff.clusters else ''}"
    yield from limited([*_objects(diff)], "object", indent="")
    yield from (f"not compared: {one_line(name)}" for name in diff.not_compared[:_MAX_OBJECTS])
    yield from (sentence.full for sentence in _on_all(diff))
    if len(diff.clusters) > 1:
        yield from table(*_table(diff.clusters), paint, texts=_TEXTS)
    for cluster in diff.clusters:
        heading = f"{_heading(cluster)}: {_effect(diff, cluster)}"
        if len(diff.clusters) > 1 or not first.startswith(heading):
            yield paint(heading, "bold")
        explained = _explained(diff, cluster) if details and not cluster.reason else {}
        for title, sentences in explained.items():
            yield from [f"  {title}:"] if title != _EFFECT else []
            yield from (f"  {'' if title == _EFFECT else '  '}{sentence.full}" for sentence in sentences)
        if cluster.answer is not None:
            yield f"  {line_of(cluster.answer.head)}"
    heads, rows = _affected(diff, is_whole=not details)
    yield from table(heads, rows, paint, texts=_TEXTS) if rows else ()


def _merged(diff: Diff) -> dict[ChangedObject, list[str]]:
    """The changed objects, and the directories of each; an object that changes alike in several of them once."""
    return grouped((each._replace(directory="", fields=tuple(each.fields)), each.directory) for each in diff.objects)


def _objects(diff: Diff) -> Iterator[str]:
    for changed, (directory, *others) in _merged(diff).items():
        also = f" (also in {listed([*map(one_line, others)])})" if others else ""
        yield f"{directory}: {changed.operation} {_object(changed)}{also}"


def _object(changed: ChangedObject) -> str:
    return ": ".join(filter(None, (str(changed), _fields(changed))))


def verdict(diff: Diff) -> str:
    """Return one sentence: the effects on the most affected cluster, what else needs attention, and if it is all."""
    is_told = any(cluster.answer and cluster.answer.answer.blocks.drains for cluster in diff.clusters)
    pdbs = 0 if is_told else len(_blocking(diff))
    blocking = f"{plural(pdbs, 'changed PDB never allows', 'changed PDBs never allow')} an eviction" if pdbs else ""
    is_whole, is_simulated = not _gaps(diff), bool(diff.clusters and diff.objects)
    unchanged = f"{NOTHING}, nothing simulated" if diff.with_clusters else NOTHING
    nothing = _nothing(diff, diff.clusters, _merged(diff), is_whole=is_whole) if is_simulated else unchanged
    where, effect = _effects(diff) if diff.clusters else ("", _changes(diff) if diff.objects else "")
    where = _title(diff.clusters[0]) if is_simulated and not (effect or diff.clusters[1:]) else where
    parts = dict.fromkeys(filter(None, (effect or nothing, blocking, _kept(diff, _merged(diff)))))
    start = f"{where}: " if where else ""  # the rest does not depend on the length of names and paths
    return start + first_line("; ".join(parts), "" if is_whole else _INCOMPLETE)


def _nothing(diff: Diff, clusters: Sequence[OnCluster], objects: Collection[ChangedObject], *, is_whole: bool) -> str:
    """The phrase for a change of these objects that has no effect on these clusters. `is_whole`: there are no gaps."""
    kept = _kept(diff, objects)
    if kept and all(each.operation == "deleted" for each in objects):
        return kept
    return whatif.NO_EFFECT if is_whole else _no_effect(clusters)


def _kept(diff: Diff, objects: Iterable[ChangedObject]) -> str:
    """A phrase about the objects that only a tool that prunes deletes, and whose effect no other phrase has; or ""."""
    told = {f"PriorityClass {each.priority_class}" for cluster in diff.clusters for each in cluster.pruned}
    kept = [str(each) for each in objects if each.operation == "deleted" and str(each) not in told]
    is_kept = kept and diff.clusters and not diff.prunes
    return f"deletion of {whatif.named(kept, 'object')} not simulated without --prune" if is_kept else ""


class _Told(NamedTuple):
    """A sentence without a full stop: a text, a list, and the rest. `brief`: the sentence without names."""

    text: str
    items: tuple[str, ...] = ()
    noun: str = ""
    rest: str = ""
    brief: str = ""

    @property
    def short(self) -> str:
        """The sentence with the first items, and the number of the others."""
        return f"{self.text}{first_of([*map(one_line, self.items)], self.noun)}{self.rest}"

    @property
    def is_cut(self) -> bool:
        return len(self.items) > NAMED + 1

    @property
    def full(self) -> str:
        return f"{self.text}{listed([*map(one_line, self.items)], _MAX_OBJECTS)}{self.rest}"


def _told(text: str, items: Iterable[str], noun: str, rest: str = "") -> Iterator[_Told]:
    """Yield a sentence about items, if there are any."""
    if given := tuple(items):
        yield _Told(text, given, noun, rest)


def _gaps(diff: Diff) -> list[_Told]:
    """What the comparison and the simulations lack, each once, with the names of the clusters if not of all."""
    gaps = [_Told(f"not compared: {cut(note.partition(ALSO)[0], 2 * _LONGEST_REASON)}") for note in diff.notes[:NAMED]]
    if more := diff.notes[NAMED:]:
        gaps.append(_Told(f"not compared: {plural(len(more), 'more file or directory', 'more files or directories')}"))
    objects = [one_line(name).rpartition(": ")[2] for name in diff.not_compared]
    kinds = Counter(name if name == CHART_VALUES else name.partition(" ")[0] for name in objects)
    names = [f"{name} ({count})" for name, count in kinds.items()]
    gaps += _told(f"{plural(len(diff.not_compared), 'changed object')} not compared: ", names, "kind")
    unanswered = [_title(cluster) for cluster in diff.clusters if cluster.reason]
    gaps += _told("no answer for ", unanswered if diff.clusters[1:] else (), "cluster")
    of_clusters = grouped((gap, cluster.cluster) for cluster in diff.clusters for gap in _lacking(cluster))
    for gap, clusters in of_clusters.items():
        where = f"{listed(clusters)}: " if len(clusters) < len(diff.clusters) else ""
        gaps.append(gap._replace(text=where + gap.text, brief=where + gap.brief))
    return gaps


def _lacking(cluster: OnCluster) -> Iterator[_Told]:
    """Yield what the simulation of a cluster lacks."""

    def gap(count: str, text: str, items: Iterable[str] = (), noun: str = "", rest: str = "") -> _Told:
        return _Told(count + text, tuple(items), noun, rest, count)

    if absent := [one_line(name) for name in cluster.absent]:
        count = f"{plural(len(absent), 'changed workload')} not simulated"
        yield gap(count, ", because the snapshot does not have ", absent, "workload", _FIX_OF_ABSENT)
    if cluster.unpredicted:
        count = f"{plural(len(cluster.unpredicted), 'changed object')} not predicted"
        yield gap(count, ": ", map(one_line, cluster.unpredicted), "object")
    taken, others = cluster.directories
    if others:
        count = f"{plural(len({*taken, *others}), 'directory', 'directories')} have versions of these workloads"
        versions = f"{first_of(taken, 'directory')} is simulated, and not {first_of(others, 'directory')}"
        yield gap(count, f": {versions}. If the cluster gets these, the numbers do not hold. {FIX_OF_DIRECTORIES}")
    if cluster.answer is None:
        return
    answer = cluster.answer.answer
    for each in cluster.not_predicted:
        pods = plural(each.not_started + not_created(each, answer), "new Pod")
        why = f" ({one_line(each.workload)}): forewarn does not model which nodes can use this workload's new volumes"
        yield gap(f"{pods} not predicted", why)
    for phrase in whatif.unfinished([answer]):
        yield gap(phrase, ": Pods still change, and the numbers are the state at that time")
    unread = [text.partition(". Fix: ")[0].partition(", the simulation ends")[0] for text in answer.not_simulated]
    fixes = sorted((text.partition(". Fix: ")[2] for text in answer.not_simulated), key=lambda fix: (len(fix), fix))
    fix = f". Fix: run forewarn diff with {fixes[-1]}" if fixes and fixes[-1].startswith("--") else ""
    if unread:
        yield gap(f"{plural(len(unread), 'object')} not simulated", ": ", unread, "object", fix)
    for text in answer.not_modelled:
        count, names, why = text.removeprefix("not modelled: ").partition(" (")
        if not (cluster.not_predicted and text.endswith(OF_NEW_VOLUMES)):
            yield gap(f"{count} not modelled", f"{names}{why}")


def _on_all(diff: Diff) -> Iterator[_Told]:
    """Yield sentences about the change itself that matter in all clusters."""
    blocking = [f"{changed.namespace}/{changed.name}" for changed in _blocking(diff)]
    yield from _told("PDBs that allow no eviction and block drains: ", blocking, "PDB", ". Fix: maxUnavailable: 1")
    classes = (changed for changed in _merged(diff) if changed.kind == "PriorityClass")
    if any(cluster.answer and cluster.answer.answer.new_pods for cluster in diff.clusters):
        yield from _told("", [f"{each} {each.operation} ({_fields(each)})" for each in classes], "PriorityClass")
    gone = [str(each) for each in _merged(diff) if each.operation == "deleted"]
    if diff.clusters and not diff.prunes:
        rest = ". Fix: pass --prune if the GitOps tool prunes"
        yield from _told("Removed from the manifests, deletion not simulated: ", gone, "object", rest)


def _blocking(diff: Diff) -> list[ChangedObject]:
    return [each for each in _merged(diff) if any((field.name, field.after) in NO_EVICTION for field in each.fields)]


def _changes(diff: Diff) -> str:
    """The change of the only object, or the numbers of changed objects with the first names."""
    first, *others = _merged(diff)
    if not others and first.operation == "changed":
        return cut(_object(first), _LONGEST_REASON)
    names = first_of([one_line(str(each)) for each in (first, *others)], "object")
    return f"{_counts(diff)}: {cut(names, _LONGEST_REASON)}"


def _counts(diff: Diff) -> str:
    counts = Counter(changed.operation for changed in _merged(diff))
    phrases = (plural(count, f"object {operation}", f"objects {operation}") for operation, count in counts.items())
    return ", ".join(phrases) or "no object changed"


def _title(cluster: OnCluster) -> str:
    return cluster.cluster if cluster.cluster.startswith("cluster") else f'cluster "{cluster.cluster}"'


def _heading(cluster: OnCluster) -> str:
    taken, _ = cluster.directories
    return f"if {_title(cluster)} gets {first_of(taken, 'directory')}" if taken else _title(cluster)


def _no_effect(clusters: Sequence[OnCluster]) -> str:
    simulated = [of for cluster in clusters for of in cluster.simulated]
    names = dict.fromkeys(f"{of.namespace}/{one_line(of.name)}" for of in simulated if of.kind in _WORKLOADS)
    effect = f"no effect of {first_of([*names], 'workload') if names else 'what is simulated'}"
    return effect if simulated else "nothing simulated, so no statement on this change"


def _effects(diff: Diff) -> tuple[str, str]:
    """The number of affected clusters with the most affected one, and the effects on this one; "" for none."""
    affected = [cluster for cluster in _most_affected_first(diff) if _phrases(cluster)]
    minor = ("only placeholder Pods", _AFTER)
    affected = [each for each in affected if not all(text.startswith(minor) for text in _phrases(each))] or affected
    if not affected:
        first, *others = diff.clusters
        return (_title(first), first.reason) if first.reason and not others else ("", "")
    many, heading = len(affected), _heading(affected[0])
    if many == 1:
        is_only = diff.clusters[1:] and len(_most_affected_first(diff)) == 1
        heading = f"{f'1 of {len(diff.clusters)} clusters affected, ' if is_only else ''}{heading}"
        return heading, _worst(affected[0])
    of_all = f"{many} of {len(diff.clusters)}" if many < len(diff.clusters) else "both" if many == 2 else f"all {many}"
    is_alike = all(_worst(cluster) == _worst(affected[0]) for cluster in affected)
    equal = [each.cluster for each in affected[1:] if _rank(each) == _rank(affected[0])]
    most = f" affected, {affected[0].cluster} most{equal_to(equal, 'cluster')}"
    return f"{of_all} clusters{'' if is_alike else most}", _worst(affected[0])


def _worst(cluster: OnCluster) -> str:
    """The worst effects on a cluster that fit in a line; at least some."""
    phrases, room = _phrases(cluster), LONGEST_LINE - len(_INCOMPLETE)
    texts = [whatif.joined(_phrases(cluster, reasons=True), _EFFECTS)]
    texts += [whatif.joined(phrases, most) for most in range(_EFFECTS, _BRIEF - 1, -1)]
    return next((text for text in texts if len(text) <= room), texts[-1])


def _most_affected_first(diff: Diff) -> list[OnCluster]:
    """The affected clusters, first those without an answer; of equal ones, by name."""
    affected = filter(needs_attention, sorted(diff.clusters, key=lambda each: each.cluster))
    return sorted(affected, key=lambda each: (bool(each.reason), _rank(each)), reverse=True)


def _rank(cluster: OnCluster) -> list[int]:
    """Numbers that are larger for a more affected cluster, and equal only if those of the phrases are."""
    numbers, answer = _numbers_of(cluster), cluster.answer.answer if cluster.answer else None
    loss = rank_of_loss(numbers["lost"], max((each.priority for each in _workloads(cluster) if each.missed), default=0))
    return [*loss, *(numbers[name] for name in (*_COLUMNS, "placeholders")), *(harm.rank(answer) if answer else ())]


def needs_comment(diff: Diff) -> bool:
    """Report whether a pull request should hear of a change: it affects a cluster, or not everything is compared."""
    changes = diff.objects and not diff.clusters
    return bool(changes or _blocking(diff) or _gaps(diff)) or any(map(needs_attention, diff.clusters))


def needs_attention(cluster: OnCluster) -> bool:
    """Report whether a change affects a cluster, or has no answer about it."""
    return bool(cluster.reason or _phrases(cluster))


def _effect(diff: Diff, cluster: OnCluster) -> str:
    gaps = any(_lacking(cluster))
    is_concerned = gaps or cluster.answer
    nothing = _nothing(diff, [cluster], cluster.applied, is_whole=not gaps) if is_concerned else "not concerned"
    return cluster.reason or f"{_worst(cluster) or nothing}{_INCOMPLETE if gaps else ''}"


def _phrases(cluster: OnCluster, *, reasons: bool = False) -> list[str]:
    """The effects on a cluster, the worst first. Placeholder Pods, which only reserve capacity, come last. `reasons`:
    with the reason of new Pending Pods.
    """
    answers = [cluster.answer.answer] if cluster.answer else []
    is_drift = all(item.base != item.before for item in cluster.lasting)
    count = _numbers_of(cluster)
    losing, of_placeholders = _losing(cluster), _preemptions(cluster, placeholders=True)
    phrases = [
        *_rejections(cluster),
        *(_rollouts(cluster, answer) for answer in answers if answer.has_blocked_rollouts),
        *whatif.on_new_pods([workload for answer in answers for workload in answer.new_pods], are_named=False),
        *(phrase for answer in answers for phrase in whatif.dangers(answer, are_named=False)),
        losing,
        _down(cluster),
        *(phrase for answer in answers for phrase in whatif.on_new_pods(answer.reprioritized)),
        _by_autoscalers(cluster.autoscaled),
        *(_rollouts(cluster, answer) for answer in answers if not answer.has_blocked_rollouts),
        _some(0 if count["lost"] else count["failed"], "Job", "failed"),
        _some(count["pending"], "new Pod", f"Pending{_common_reason(cluster, answers) if reasons else ''}"),
        _replaced(cluster, losing),
        _some(count["reduced"], "replica", "scaled down until HorizontalPodAutoscalers act"),
        _some(count["scaled_down"], "running replica", f"scaled down{' because of drift' if is_drift else ''}"),
        _removed(cluster),
        _some(count["violated"], "PDB", "violated"),
        _some(count["unhealthy"], "PDB", "with too few healthy Pods"),
        _over_quota(cluster),
        *(
            f"pruning PriorityClass {one_line(each.priority_class)} would reject new Pods of "
            f"{plural(each.workloads, 'workload')}"
            for each in cluster.pruned
        ),
    ]
    effects = [phrase for phrase in phrases if phrase]
    return effects or [f"only placeholder Pods {_preempted_by(cluster, of_placeholders)}"] * bool(of_placeholders)


def _rollouts(cluster: OnCluster, answer: Answer) -> str:
    """A phrase about the rollouts that do not complete, and how many of these only drift causes; "" for none."""
    own = {f"{changed.namespace}/{changed.name}" for changed in cluster.applied if changed.is_rollout}
    of_drift = {item.workload for item in cluster.differing} - own
    some = len(of_drift.intersection(names := answer.blocks.rollouts))
    why = "because of drift" if some == len(names) else f"({some} because of drift)"
    return f"{whatif.rollouts(answer, _rejected_by(cluster, answer))}{f' {why}' if some else ''}"


def _by_autoscalers(autoscaled: Sequence[Autoscaled]) -> str:
    """What HorizontalPodAutoscalers do after the apply; "" for nothing."""
    if len(autoscaled) != 1:
        return f"{_AFTER} scale {plural(len(autoscaled), 'workload')}" if autoscaled else ""
    (one,) = autoscaled
    back = f"from {one.replicas} to {plural(one.at_last, 'replica')}" if one.at_last != one.replicas else "by load"
    return f"{_AFTER} scale {one_line(one.workload)} {back}"


_AFTER: Final = "HorizontalPodAutoscalers then"


def _rejections(cluster: OnCluster) -> Iterator[str]:
    """Yield phrases about the rejected objects, and about those whose Pods are rejected; with the reason of one."""
    if len(cluster.faults) == 1 == len(cluster.rejections):
        name, _, why = one_line(cluster.rejections[0]).partition(" (")
        yield f"{name} rejected ({why}"
        return
    yield _some(len(cluster.rejected), "changed object", "rejected")
    yield f"Pods of {plural(len(cluster.rejected_pods), 'changed workload')} rejected" * bool(cluster.rejected_pods)


def _some(count: int, noun: str, what: str) -> str:
    """A phrase about a count; "" for 0."""
    return f"{plural(count, noun)} {what}" if count else ""


def _common_reason(cluster: OnCluster, answers: Sequence[Answer]) -> str:
    """A phrase why new Pods are Pending; "" if the reasons differ."""
    pending = (each for answer in answers for each in _workloads(cluster) if answer.new_pending(each))
    (why, *others) = {*map(_reason, pending)} or {""}
    return f" ({one_line(why)})" if why and not others else ""


def _losing(cluster: OnCluster) -> str:
    """A phrase about the workloads that lose Pods, and their preemptors; "" for none."""
    losing = [workload for workload in _workloads(cluster) if workload.missed]
    if not losing:
        return ""
    names = {workload.workload for workload in losing}
    of_losing = [each for each in _preemptions(cluster) if each.workload in names]
    by = Counter(each.workload for each in of_losing)
    count = sum(min(workload.missed, by[workload.workload]) for workload in losing)
    some = "" if count == sum(workload.missed for workload in losing) else f"{count} "
    failed = sum(bool(workload.failure) for workload in losing)
    causes = [plural(failed, "Job fails", "Jobs fail")] if failed else []
    causes += [f"{some}{_preempted_by(cluster, of_losing)}"] if count else []
    who = _visible(cluster, [(workload.workload, workload.namespace) for workload in losing])
    why = "; ".join(causes)
    return f"{who} {_loss(losing)}{why and f' ({why})'}"


def _over_quota(cluster: OnCluster) -> str:
    """A phrase about the Pods that ResourceQuotas reject, and the other new Pods of their workloads; "" for none."""
    if cluster.answer is None or not (pods := (answer := cluster.answer.answer).over_quota):
        return ""
    workloads = [(name, name.partition("/")[0]) for name in pods]
    rejected = whatif.rejected_pods(pods, f" of {_visible(cluster, workloads)}", _rejected_by(cluster, answer))
    created = sum(answer.summary.new_workloads.get(name, 0) for name in pods)
    run = created - sum(each.not_started for each in answer.workloads if each.workload in pods)
    is_simple = created and not (answer.blocks.rollouts or answer.summary.new_pods_ended)
    return f"{rejected} ({run} of {created + pods.total()} new Pods run)" if is_simple else rejected


def _rejected_by(cluster: OnCluster, answer: Answer) -> str:
    """What rejects Pods. A quota is named only if its namespace is visible: that of a changed workload may not be."""
    known = {namespace.namespace for namespace in cluster.namespaces}
    is_visible = known.issuperset(name.partition("/")[0] for name in answer.over_quota)
    return whatif.rejected_by(answer) if is_visible else QUOTAS


def _down(cluster: OnCluster) -> str:
    """A phrase about the replicas that are down for a time; "" for none."""
    outages = cluster.answer.answer.outages if cluster.answer else ()
    whose = _visible(cluster, [(each.workload, each.workload.partition("/")[0]) for each in outages])
    return whatif.down(outages, (), whose)


def _replaced(cluster: OnCluster, losing: str) -> str:
    """A phrase about the preempted Pods that run again, and what `losing` does not say of these; "" for none."""
    count, names = _numbers_of(cluster)["replaced"], {each.workload for each in _workloads(cluster) if each.missed}
    replaced = cluster.answer.answer.replaced if cluster.answer else Counter[str]()
    of = [each for each in _preemptions(cluster) if replaced[each.workload]]
    whose = f" of {_visible(cluster, [(each.workload, each.namespace) for each in of])}"
    whose, by = "" if all(each.workload in names for each in of) else whose, _preempted_by(cluster, of)
    by = "preempted" if f"{by})" in losing else by
    return f"{plural(count, 'more Pod' if losing else 'Pod')}{whose} {by} and replaced" if count else ""


def _removed(cluster: OnCluster) -> str:
    """A phrase about the Pods that the change itself removes; "" for none."""
    whose = _visible(cluster, [(each.workload, each.namespace) for each in cluster.removing])
    return _some(sum(each.removed for each in cluster.removing), "Pod", f"of {whose} removed")


def _preemptions(cluster: OnCluster, *, placeholders: bool = False) -> list[Preemption]:
    """The preemptions of placeholder Pods, or of others."""
    preempted = cluster.answer.answer.preempted if cluster.answer else ()
    return [each for each in preempted if (each.workload in cluster.placeholders) is placeholders]


def _preempted_by(cluster: OnCluster, preemptions: Iterable[Preemption]) -> str:
    return f"preempted by {_visible(cluster, [(each.by_workload, each.by_namespace) for each in preemptions])}"


def _visible(cluster: OnCluster, workloads: Collection[tuple[str, str]]) -> str:
    """The names of workloads with their namespaces, or the number if readers may not see all names."""
    if _are_visible(cluster, workloads):
        return whatif.named(name for name, _ in workloads)
    return plural(len({*workloads}), "workload")


def _are_visible(cluster: OnCluster, workloads: Iterable[tuple[str, str]]) -> bool:
    """Whether readers may see the names of these workloads, which are with their namespaces."""
    known = {namespace.namespace for namespace in cluster.namespaces}
    known_names = {f"{changed.namespace}/{changed.name}" for changed in cluster.applied}
    return all(namespace in known or name in known_names for name, namespace in workloads)


def _lacks_pods(workload: WorkloadCount) -> bool:
    return bool(workload.pending or workload.missed or workload.failure or not workload.after)


def _loss(workloads: Collection[WorkloadCount]) -> str:
    lost, before = sum(each.missed for each in workloads), sum(each.before for each in workloads)
    return f"{'loses' if len({each.workload for each in workloads}) == 1 else 'lose'} {lost} of {plural(before, 'Pod')}"


def _workloads(cluster: OnCluster) -> list[WorkloadCount]:
    """Those that change or have too few Pods, without placeholder Pods."""
    workloads = cluster.answer.workloads if cluster.answer else ()
    return [workload for workload in workloads if workload.workload not in cluster.placeholders]


def _explained(diff: Diff, cluster: OnCluster, *, rejections: bool = True) -> dict[str, list[_Told]]:
    """By heading, sentences about the effects on a cluster. `rejections`: also those about rejected objects."""
    rejected = [*_rejected(diff, cluster)] if rejections else []
    if cluster.answer is None:
        return {_EFFECT: rejected or [_Told(cluster.reason)]} if rejected or cluster.reason else {}
    of = _Explanation(diff, cluster, cluster.answer.answer)
    groups = {
        f"{_EFFECT}{' and of the drift below' if of.drift else ''}": chain(rejected, of.effects()),
        _DRIFT: of.of_drift(),
    }  # in this order, because only the first mention of a workload has its change
    found = {
        title: [each if isinstance(each, _Told) else _Told(each) for each in sentences if each]
        for title, sentences in groups.items()
    }
    return {title: sentences for title, sentences in found.items() if sentences}


def _rejected(diff: Diff, cluster: OnCluster) -> Iterator[_Told]:
    """A sentence about each rejected object, and each whose Pods are rejected; of many, about the first ones."""
    for what, reasons in (("Rejected", cluster.rejected), ("Pods rejected", cluster.rejected_pods)):
        lines = [f"{what}: {cut(reason, _LONGEST_REASON)}" for reason in reasons]
        yield from map(_Told, limited(lines, "rejected object", indent=""))
    rejected = {reason.partition(": ")[0] for reason in cluster.rejected_pods}
    if any(str(changed) in rejected for changed in diff.objects if changed.operation == "changed"):
        yield _Told(_NO_ROLLOUT)


class _Explanation:
    """Sentences about the effects on a cluster: causes and affected workloads."""

    def __init__(self, diff: Diff, cluster: OnCluster, answer: Answer) -> None:
        self.diff, self.cluster, self.answer = diff, cluster, answer
        self.rejected = {reason.partition(": ")[0] for each in diff.clusters for reason in each.faults}
        rejected = {name.partition(" ")[2] for name in self.rejected}
        self.drift = {item.workload: item.fields for item in cluster.differing if item.workload not in rejected}
        again = {each.workload for each in answer.preempted} & {each.by_workload for each in answer.preempted}
        self.named = {name: f"{one_line(name)} (preempted itself)" for name in again} | dict(self._changes())
        self.owners = {each.namespace: each.owner for each in cluster.namespaces if each.owner}

    def effects(self) -> Iterator[_Told | str]:
        cluster, answer = self.cluster, self.answer
        yield from self._autoscaled()
        yield from self._scaled_down("Without spec.replicas, an apply scales down ", is_drift=False)
        removed = [f"{each.workload} ({each.removed} of {each.before})" for each in self.cluster.removing]
        yield from _told("Pods of deleted or scaled-down workloads removed: ", removed, "workload")
        phrases = [*map(capital, whatif.on_new_pods(answer.new_pods))]
        yield from phrases[:-1]
        yield f"{phrases[-1]}{_passed(cluster)}" if phrases else ""
        classes = {of.before.priority_class_name for of in answer.new_pods if of.after is None and of.before}
        yield f"Fix: keep {first_of(sorted(classes), 'PriorityClass')} until no workload has it" if classes else ""
        yield self._running()
        losing = [workload for workload in _workloads(cluster) if workload.missed]
        waiting = [workload for workload in _workloads(cluster) if workload.not_started and not workload.missed]
        told = {workload.workload for workload in (*losing, *waiting)} | {*cluster.placeholders}
        yield from self._ends(losing)
        yield from self._ends(waiting)
        yield from self._preempting([each for each in answer.preempted if each.workload not in told])
        yield from self._surging(is_pending=any(workload.pending for workload in losing))
        yield from _told("PDBs: ", self._pdbs(), "PDB")
        yield from _told("Placeholder Pods, which only reserve capacity: ", self._placeholders(), "workload")
        yield from map(capital, whatif.dangers(answer))
        yield from filter(None, [_over_quota(cluster)])
        yield from _told("Quotas: ", missing(answer.summary), "workload")
        yield from whatif.affected(answer.pod_losses)
        for item in cluster.pruned:
            pods = plural(item.running, "running Pod is", "running Pods are")
            running = f", and their {pods} not replaced when deleted, evicted or preempted" if item.running else ""
            name, count = one_line(item.priority_class), plural(item.workloads, "workload")
            text = f"If the GitOps tool prunes PriorityClass {name}, new Pods of {count} are rejected{running}: "
            rest = ". Fix: delete a PriorityClass only when no workload names it"
            yield _Told(text, tuple(item.names), "workload", rest)
        yield from self._reactions()
        yield capital(whatif.on_new_nodes(answer))

    def _reactions(self) -> Iterator[_Told]:
        answer = self.answer
        limit = "" if answer.with_new_nodes else " (new nodes are not simulated)"
        reserved = sum(each.pending for each in answer.workloads if each.workload in self.cluster.placeholders)
        large = sum(each.pending for each in answer.workloads if _IS_TOO_LARGE in _reason(each))
        of = {"placeholder Pods": reserved, "too large for every node": large}
        rest = "".join(f"; {name}: {count}" for name, count in of.items() if count)
        text = f"Autoscalers, if the cluster has any{limit}: "
        yield from _told(text, autoscalers.lines_of(answer), "reaction", rest)

    def _surging(self, *, is_pending: bool) -> Iterator[_Told]:
        """Yield a sentence about rollouts that preempt only because they delete no old Pod first."""
        updated = {
            f"{changed.namespace}/{changed.name}"
            for changed in self.cluster.applied
            if changed.is_rollout and changed.kind == "Deployment" and not any(field.grows for field in changed.fields)
        }
        by = [(each.by_workload, each.t) for each in self.answer.preempted if each.by_workload in updated]
        names, first = self.answer.summary.names, dict[str, float]()
        for event in self.answer.simulation.timeline.events if by else ():
            if event.event == "deleted" and event.node and event.origin and event.origin.before:
                first.setdefault(names.of(event.origin.workload), event.t)
        surging = dict.fromkeys(name for name, t in by if t < first.get(name, inf))
        rest = "; the deleted old Pods free too little for the Pending Pods, which stay Pending" if is_pending else ""
        yield from _told(_SURGE, surging, "workload", rest)

    def _autoscaled(self) -> Iterator[_Told]:
        """Yield a sentence about the numbers of replicas that HorizontalPodAutoscalers set after the apply."""
        now = {
            f"{changed.namespace}/{changed.name}": field.before
            for changed in self.cluster.applied
            for field in changed.fields
            if field.name == "replicas" and field.before
        } | {item.workload: str(item.before) for item in self.cluster.scaled_down}
        reduced = {item.workload for item in self.cluster.scaled_down}
        scaled: dict[str, list[str]] = {_REDUCED: [], _RESCALED: []}
        for item in self.cluster.autoscaled:
            end, current = item.at_last, now.get(item.workload)
            limit = "maxReplicas" if end < item.replicas else "minReplicas"
            last = f"{end} by {limit}" if end != item.replicas else f"between {item.least} and {item.most}, by load"
            start = f"{current} now → " if current else ""
            text = _REDUCED if item.workload in reduced else _RESCALED
            scaled[text].append(f"{item.workload} ({start}{item.replicas} applied → {last})")
        for text, items in scaled.items():
            yield from _told(text, items, "workload", _FIX_OF_AUTOSCALED)

    def of_drift(self) -> Iterator[_Told]:
        """Effects of an apply because the cluster is not as in the first version."""
        text = "Scaled down, because the cluster has more replicas than the manifests: "
        yield from self._scaled_down(text, is_drift=True)
        pdbs = [f"{name} ({_health(self.answer, name)})" for name in self.cluster.drifted_pdbs]
        yield from _told("PDBs of these workloads: ", pdbs, "PDB")
        also = [f"{name} ({', '.join(map(str, fields))})" for name, fields in self.drift.items()]
        yield from _told("The apply also resets: ", also, "workload")

    def _scaled_down(self, text: str, *, is_drift: bool) -> Iterator[_Told]:
        of = [item for item in self.cluster.lasting if (item.base != item.before) is is_drift]
        items = [f"{item.workload} from {item.before} to {item.after}" for item in of]
        yield from _told(text, items, "workload", _FIX_OF_REPLICAS)

    def _running(self) -> str:
        """The sentence how many changed workloads get all their Pods; "" for none."""
        lasting = [changed for changed in self.cluster.simulated if changed.kind in _LASTING]
        names = {f"{changed.namespace}/{changed.name}": str(changed) in self.rejected for changed in lasting}
        failing = {each.workload for each in self.answer.workloads if _lacks_pods(each)}
        running = [one_line(name) for name, fails in names.items() if not fails and name not in failing]
        if not running or self.answer.over_quota:
            return ""
        kinds = {changed.kind for changed in lasting}
        count = f"the {len(running)}" if len(running) == len(names) else f"{len(running)} of the {len(names)}"
        many = f"{count} simulated {kinds.pop() if len(kinds) == 1 else 'workload'}s"
        who = first_of(running, "workload") if len(running) <= NAMED else many
        pods = "As far as simulated, all Pods" if _gaps(self.diff) and who != many else "All Pods"
        return f"{pods} of {who} run{' before HorizontalPodAutoscalers act' if self.cluster.autoscaled else ''}"

    def _ends(self, workloads: Iterable[WorkloadCount]) -> Iterator[str]:
        """Yield a sentence for the workloads with the same causes; if these are many, for Jobs and for others."""
        of = sorted(workloads, key=lambda item: -max(item.missed, item.pending))
        kinds = [(bool(each.failure), each.kind.endswith("Job"), _IS_TOO_LARGE in _reason(each)) for each in of]
        preemptors = grouped((each.workload, each.by_workload) for each in self.answer.preempted)
        causes = [
            (*kind, each.priority, _reason(each), *sorted({*preemptors.get(each.workload, ())}))
            for kind, each in zip(kinds, of, strict=True)
        ]
        keys: Sequence[tuple[object, ...]] = causes if len({*causes}) <= NAMED + 1 else kinds
        groups = grouped(zip(keys, of, strict=True))
        yield from map(self._end, sorted(groups.values(), key=lambda of: -sum(max(w.missed, w.pending) for w in of)))

    def _end(self, group: Sequence[WorkloadCount]) -> str:
        """How many Pods one or more workloads lose, or do not get, and why."""
        first, is_one = group[0], len(group) == 1
        if first.missed:
            return f"{self._whose(group)} {_loss(group)}: {'; '.join(self._causes(group))}{self._fix(group)}"
        pending, running = sum(each.pending for each in group), sum(each.after for each in group)
        count = f"{pending} of {pending + running} Pods" if running else plural(pending, "Pod")
        more = not_created(first, self.answer) if is_one else 0
        later = f"; the StatefulSet creates {plural(more, 'more Pod')} only when this one is ready" if more else ""
        return f"{self._whose(group)}: {count} {_unfit(group, pending)}{later}{self._fix(group)}"

    def _whose(self, group: Sequence[WorkloadCount]) -> str:
        """A workload with its priority and owner, or the number of workloads with the names of the first ones."""
        first, is_one = group[0], len(group) == 1
        ranks, owner = {each.priority for each in group}, self.owners.get(first.namespace, "")
        about = [f"priority {first.priority}"] if first.missed and len(ranks) == 1 else []
        if is_one:
            about += [f"owner {one_line(owner)}"] if about and owner else []
            ranked = f" ({'; '.join(about)})" if about else ""
            return f"{self._name(first.workload)}{ranked}"
        kinds = {each.kind.rpartition("/")[2] for each in group}
        noun = kinds.pop() if len(kinds) == 1 and first.kind.endswith("Job") else "workload"
        counts = [f"{each.missed} of {each.before}" if each.missed else f"{each.pending}" for each in group]
        names = [f"{one_line(each.workload)}: {count}" for each, count in zip(group, counts, strict=True)]
        about.append(cut(first_of(names, noun), _LONGEST_REASON))
        return f"{plural(len(group), noun)} ({'; '.join(about)})"

    def _causes(self, group: Sequence[WorkloadCount]) -> Iterator[str]:
        """By which workloads Pods are preempted, failing Jobs, and what becomes of replacements."""
        names, lost = {workload.workload for workload in group}, sum(workload.missed for workload in group)
        by = Counter(preemption.by_workload for preemption in self.answer.preempted if preemption.workload in names)
        preemptors = first_of([self._name(name) for name, _ in by.most_common()], "workload")
        yield from [f"{by.total()} preempted by {preemptors}"] if by else []
        replaced = sum(self.answer.replaced[name] for name in names)
        if failure := group[0].failure:
            why = one_line(failure).removeprefix("the Job fails: ")
            jobs, whose = ("the Job fails", "its") if len(group) == 1 else ("the Jobs fail", "their")
            others = max(lost - by.total() + replaced, 0)
            pods = "other Pod is" if others == 1 else f"other {others} Pods are"
            yield f"{jobs} ({why}){f', so {whose} {pods} deleted' if others else ''}"
        waiting = sum(max(workload.pending - workload.pending_before, 0) for workload in group)
        whose = f"{plural(replaced, 'replacement runs', 'replacements run')}, {waiting}"
        if not replaced:
            whose = "its replacement" if waiting == 1 else f"the {waiting} replacements"
        if waiting:
            yield f"{plural(waiting, 'Pod') if waiting > lost else whose} {_unfit(group, waiting)}"
        elif replaced:
            yield plural(replaced, "replacement runs", "replacements run")

    def _fix(self, group: Sequence[WorkloadCount]) -> str:
        fixes = [*whatif.fix_of_failures(self.answer)] if group[0].failure else []
        return f". {fixes[0]}" if fixes else _TOO_LARGE if _IS_TOO_LARGE in _reason(group[0]) else ""

    def _name(self, workload: str) -> str:
        """The name of a workload; when it is first mentioned, with its change."""
        return self.named.pop(workload, "") or one_line(workload)

    def _pdbs(self) -> Iterator[str]:
        violations = self.answer.summary.violated_pdbs
        unhealthy = {*self.answer.pdbs}.difference(self.cluster.drifted_pdbs)
        for name in sorted(violations.keys() | unhealthy, key=lambda name: (-violations.get(name, 0), name)):
            effects = (
                f"{plural(violations[name], 'Pod')} preempted beyond what the PDB allows" if name in violations else "",
                _health(self.answer, name) if name in unhealthy else "",
            )
            yield f"{name} ({', '.join(filter(None, effects))})"

    def _placeholders(self) -> Iterator[str]:
        counts = {each.workload: each for each in self.answer.workloads if each.lost}
        for name in self.cluster.placeholders:
            preempted = [each for each in self.answer.preempted if each.workload == name]
            by = [self._name(name) for name, _ in Counter(each.by_workload for each in preempted).most_common()]
            of = counts.get(name)
            end = f"{of.before} → {of.after} running" if of else f"{plural(len(preempted), 'replacement')} running"
            if preempted or of:
                yield f"{name} ({end}, preempted by {first_of(by, 'workload')})"

    def _changes(self) -> Iterator[tuple[str, str]]:
        """Workload of the change -> its name with what changes in the cluster."""
        edited = {
            (*changed.identity, field.name): field.before or "unset"
            for changed in self.diff.objects
            for field in changed.fields
        }
        for changed in self.cluster.applied:
            if changed.kind in _WORKLOADS and changed.operation != "deleted":
                name = f"{changed.namespace}/{changed.name}"
                after = {field.name: field.after for field in changed.fields}
                fields = []
                for field in changed.fields:
                    base, now = edited.get((*changed.identity, field.name)), field.before or "unset"
                    differs = base not in (None, now)
                    fields.append(str(field).replace(" → ", f" (base {base}) → ", 1) if differs else str(field))
                fields += ["reset of drift"] if self.drift.get(name) else []
                if is_new := changed.operation == "created":
                    fields = [f"new {changed.kind}", *(f"{key} {after[key]}" for key in _OF_NEW if after.get(key))]
                rollout = "rollout: " if not is_new and (changed.is_rollout or name in self.drift) else ""
                what = listed([*map(one_line, fields)], NAMED + 1)
                yield name, f"{one_line(name)} ({rollout}{what})" if what else one_line(name)

    def _preempting(self, preemptions: Sequence[Preemption]) -> Iterator[str]:
        """Yield how many Pods, which are all replaced, workloads preempt: a sentence for each changed workload."""
        by = grouped((preemption.by_workload, preemption) for preemption in preemptions)
        names = sorted(by, key=lambda name: -len(by[name]))
        in_turn = [name for name in names if all(preemption.cascade_depth > 1 for preemption in by[name])]
        names = [name for name in names if name not in in_turn]
        for group in filter(None, (*([name] for name in names[:NAMED]), names[NAMED:], in_turn)):
            own = [preemption for name in group for preemption in by[name]]
            preemptors = first_of([self._name(name) for name in group], "workload")
            first = "In turn, " if group is in_turn else ""
            verb = "preempts" if len(group) == 1 else "preempt"
            yield f"{first}{preemptors} {verb} {_victims(own, 'Pod')}, whose replacements run"


_IS_TOO_LARGE: Final = TOO_SMALL.removesuffix(": ")
_ALL_NODES: Final = re.compile(r"0/(\d+) nodes")
_LASTING: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")


def _reason(workload: WorkloadCount) -> str:
    """Why Pending Pods fit on no node, without the numbers of nodes, of which one can have several reasons."""
    message = workload.message if workload.pending else ""
    return message.without_counts if isinstance(message, FitError) else in_short(message)


def _unfit(group: Sequence[WorkloadCount], pods: int) -> str:
    """A clause that so many Pods are Pending, and why they fit on no node."""
    reasons = Counter[str]()
    for each in group:
        reasons[_reason(each)] += each.pending
    (why, _), *others = (+reasons).most_common()
    of = next(filter(None, (_ALL_NODES.match(each.message) for each in group)), None)
    fit = f" and {'fits' if pods == 1 else 'fit'} on none of {plural(int(of[1]), 'node')}" if of else ""
    text = cut(one_line(why), _LONGEST_REASON)
    why = f"{fit} ({'mostly: ' if others else ''}{text})" if text else ""
    return f"{'is' if pods == 1 else 'are'} Pending{why}"


def _passed(cluster: OnCluster) -> str:
    """Tell which running Pods new Pods outrank after a change of PriorityClasses, and did not before; and the others
    the other way round.
    """
    text = ""
    for field, verb in (("outranked", "outrank"), ("outranking", "rank below")):
        of = [(getattr(each, field), each.priority_class) for each in cluster.passed if getattr(each, field)]
        names = ["no class" if name == NO_CLASS else f"PriorityClass {one_line(name)}" for _, name in of]
        counted = [f"{f'{count} ' if of[1:] else ''}of {name}" for (count, _), name in zip(of, names, strict=True)]
        pods = f"{plural(sum(count for count, _ in of), 'running Pod')} of other workloads"
        also = f", and {'also' if text else 'now'} {verb} {pods} ({first_of(counted, 'PriorityClass')})"
        text += also if of else ""
    return text


def _health(answer: Answer, pdb: str) -> str:
    healthy, desired = answer.pdbs[pdb]
    return f"requires {plural(desired, 'healthy Pod')}, has {healthy} at the end"


def _victims(preemptions: Sequence[Preemption], noun: str) -> str:
    """The number of preempted Pods, and of which workloads; "" for none."""
    of = Counter(one_line(preemption.workload) for preemption in preemptions).most_common()
    if len(of) == 1:
        return f"{plural(of[0][1], noun)} of {of[0][0]}"
    shown = len(of) if len(of) == NAMED + 1 else NAMED
    names = [f"{count} of {name}" for name, count in of[:shown]]
    if others := of[shown:]:
        names.append(f"{sum(count for _, count in others)} in {plural(len(others), 'other workload')}")
    return f"{plural(len(preemptions), noun)} ({', '.join(names)})" if of else ""


def _fields(changed: ChangedObject) -> str:
    is_whole = changed.operation != "changed"
    whole = (f"{field.name} {field.after or field.before}" for field in changed.fields if field.name in _OF_WHOLE)
    return listed([*map(one_line, whole if is_whole else map(str, changed.fields))], 6)


_TEXTS: Final = ("CLUSTER", "SNAPSHOT", "NAMESPACE", "OWNER", "CLUSTERS")


def _table(clusters: Sequence[OnCluster]) -> tuple[list[str], list[tuple[str | int, ...]]]:
    """The heads and rows of clusters, without columns in which all numbers are 0."""
    numbers = [_numbers_of(cluster) for cluster in clusters]
    shown = [name for name in _COLUMNS if any(row[name] for row in numbers)]
    rows: list[tuple[str | int, ...]] = []
    for cluster, row in zip(clusters, numbers, strict=True):
        time, none = (cluster.answer.head.origin.time or "unknown", 0) if cluster.answer else ("-", "-")
        rows.append((cluster.cluster, time, *((row[name] or none) for name in shown)))
    return [*_TEXTS[:2], *(_COLUMNS[name][0] for name in shown)], rows


def _numbers_of(cluster: OnCluster) -> Counter[str]:
    """By name of `_COLUMNS`."""
    numbers = Counter(rejected=len(cluster.faults))
    if cluster.answer is None:
        return numbers
    answer, workloads = cluster.answer.answer, _workloads(cluster)
    of = harm.numbers(answer)
    own = {
        "lost": sum(workload.missed for workload in workloads),
        "pending": sum(map(answer.new_pending, workloads)),
        "scaled_down": sum(item.before - item.after for item in cluster.lasting),
        "replaced": sum(count for name, count in answer.replaced.items() if name not in cluster.placeholders),
        "reduced": sum(item.before - item.after for item in cluster.scaled_down if item not in cluster.lasting),
        "removed": sum(each.removed for each in cluster.removing),
        "failed": sum(bool(workload.failure) for workload in workloads),
        "violated": len(answer.summary.violated_pdbs),
        "pruned": sum(item.workloads for item in cluster.pruned),
        "new_priority": sum(ranked.after is not None for ranked in answer.new_pods),
        "placeholders": sum(preemption.workload in cluster.placeholders for preemption in answer.preempted),
    }
    return numbers + Counter({name: of[head] for name, (head, _) in _COLUMNS.items() if head in of} | own)


def markdown(diff: Diff, *, details: bool = True) -> str:
    """The comparison as a comment on a pull request: the verdict, a row for each cluster, details folded.

    `details`: of each cluster, with names.
    """
    clusters = _most_affected_first(diff)
    of_each = (_details_of(diff, cluster, details=details) for cluster in clusters)
    parts = chain(_summary(diff, clusters, details=details), of_each)
    return "\n\n".join(fitting(filter(None, parts), MAX_BYTES, "part"))


def _details_of(diff: Diff, cluster: OnCluster, *, details: bool) -> str:
    """Folded: lists that sentences cut, and all workloads; "" if the sentences have all."""
    if not details:
        return text_of(f"{cluster.cluster}: {_effect(diff, cluster)}")
    if cluster.answer is None:
        return ""
    cuts = [f"- {text_of(told.full)}" for told in chain(*_explained(diff, cluster).values()) if told.is_cut]
    notes = [f"- {text_of(note)}" for note in cluster.answer.document.warnings]
    rows = sum(map(whatif.is_affected, cluster.answer.answer.workloads))
    if not (cuts or notes or rows > NAMED + 1):
        return ""
    tables = whatif.counts_and_tables(cluster.answer.answer, _MAX_OBJECTS)
    body = "\n\n".join(filter(None, ("\n".join(tables).strip(), "\n".join([*cuts, *notes]))))
    return folded(f"{cluster.cluster}: all affected workloads", body)


def _sentences(diff: Diff, clusters: Sequence[OnCluster]) -> Iterator[str]:
    """A list item for the clusters with the same effects; of several clusters, first about what they reject."""
    several = len(clusters) > 1
    rejected = [(cluster, {_EFFECT: [*_rejected(diff, cluster)]}) for cluster in clusters if several]
    others = [(cluster, _explained(diff, cluster, rejections=not several)) for cluster in clusters]
    for part in (rejected, others):
        alike = grouped(
            (tuple((title, *(each.short for each in told)) for title, told in explained.items() if told), of.cluster)
            for of, explained in part
        )
        for groups, names in alike.items():
            yield from _item(names, groups, is_only=not diff.clusters[1:]) if groups else ()


def _item(clusters: list[str], groups: Sequence[tuple[str, ...]], *, is_only: bool) -> Iterator[str]:
    """The lines about clusters. `groups`: heading and sentences. `is_only`: there is no other cluster."""
    who, same = text_of(listed(clusters)), " (the same in each)" if len(clusters) > 1 else ""
    if not is_only and len(groups) == 1 and len(groups[0]) == 2:
        yield f"- **{who}**{same}: {_sentence(groups[0][1])}"
        return
    yield from () if is_only else ("", f"#### {who}{same}")
    for title, *sentences in groups:
        yield from ("", *([f"**{text_of(title)}**", ""] if len(groups) > 1 or title != _EFFECT else []))
        yield from (f"- {_sentence(sentence)}" for sentence in sentences)


def _sentence(text: str) -> str:
    return text_of(text if text.endswith(("?", ".")) else f"{text}.")


def _summary(diff: Diff, affected: Sequence[OnCluster], *, details: bool) -> Iterator[str]:
    title, names = verdict(diff), tuple(name for name in map(_title, diff.clusters) if not name.startswith("cluster "))
    yield f"### {text_of(title if title.startswith(names) else capital(title))}"
    if affected and diff.clusters[1:]:
        yield first_rows(*_table(affected), _MAX_OBJECTS, "cluster")
    yield "\n".join(f"- {_sentence(sentence.short)}" for sentence in _on_all(diff))
    if details:
        shown = affected if diff.clusters[1:] else diff.clusters
        yield "\n".join(fitting(_sentences(diff, shown), MAX_BYTES // 2, "line")).strip("\n")
    if gaps := _gaps(diff):
        told = [capital(gap.short if details else gap.brief or gap.short) for gap in gaps]
        lines = fitting((f"- {_sentence(text)}" for text in told), MAX_BYTES // 8, "line")
        yield "\n".join([f"**{capital(_GAPS)}**\n", *lines])
    yield from _namespaces(diff, affected, is_whole=not details)
    yield _simulated(diff)
    yield from _details_of_objects(diff)


def _simulated(diff: Diff) -> str:
    heads = [cluster.answer.head for cluster in diff.clusters if cluster.answer]
    if not heads:
        return ""
    states = {(head.origin.time, head.origin.is_read) for head in heads}
    time, is_read = states.pop() if len(states) == 1 else ("", True)
    newest = "" if is_read or not time else " (time of the newest object in it)"
    whose = f" of {time}{newest}" if time else " of each cluster" if heads[1:] else ", whose time is unknown"
    assumed = listed([*dict.fromkeys(text for head in heads for text in head.assumes)], _MAX_OBJECTS)
    lacking = f" Assumed, because the snapshot lacks this information: {assumed}." if assumed else ""
    rest = [cluster.cluster for cluster in diff.clusters[1:] and diff.clusters if not needs_attention(cluster)]
    nothing = f" No effect found in {listed(rest)}." if rest else ""
    return text_of(f"Simulated on the snapshot{whose}.{lacking}{nothing}")


def _namespaces(diff: Diff, affected: Sequence[OnCluster], *, is_whole: bool) -> Iterator[str]:
    """The table of namespaces, and the legend. `is_whole`: also a table whose content the sentences have."""
    known = {*_table(affected)[0]} if affected and diff.clusters[1:] else set[str]()
    heads, rows = _affected(diff, is_whole=is_whole)
    if rows:
        known.update(heads)
        text = first_rows(heads, rows, _MAX_OBJECTS, "namespace")
        text = f"#### Namespaces in all clusters\n\n{text}" if diff.clusters[1:] and len(rows) <= _FEW_ROWS else text
        yield text if len(rows) <= _FEW_ROWS else folded(plural(len(rows), "affected namespace"), text)
    meanings = [f"{titles([head])[0]}: {meaning}" for head, meaning in _COLUMNS.values() if head in known and meaning]
    if meanings:
        yield folded("What the numbers mean", " ".join([*meanings, *([_SUMS] if len(affected) > 1 else [])]))


def _details_of_objects(diff: Diff) -> Iterator[str]:
    """The changed objects, folded if there are clusters, and folded what was not compared."""
    if diff.objects:
        objects = [f"- {text_of(line)}" for line in _objects(diff)]
        body = "\n".join(fitting(objects, MAX_BYTES // 4, "object"))
        versions = f"{diff.base} → {diff.head}"
        text = f"{_counts(diff) if diff.clusters else 'Changed objects'} ({versions})"
        is_open = len(objects) <= _FEW_ROWS and not diff.clusters
        yield f"{text_of(text)}:\n\n{body}" if is_open else folded(text, body)
    notes = diff.notes if len(diff.notes) > NAMED else [note for note in diff.notes if ALSO in note]
    if lines := [*notes, *limited(diff.not_compared, "object", indent="")]:
        yield folded("Not compared", "\n".join(f"- {text_of(line)}" for line in lines))


def _affected(diff: Diff, *, is_whole: bool) -> tuple[list[str], list[tuple[str | int, ...]]]:
    """The heads and rows of namespaces with their sums over the clusters, the most affected first. `is_whole`: also a
    single one without an owner, which sentences name.
    """
    alike = grouped(
        ((each.namespace, each.owner), (cluster.cluster, each))
        for cluster in diff.clusters
        for each in cluster.namespaces
    )
    if not is_whole and len(alike) == 1 and not any(owner for _, owner in alike):
        return [], []
    names = [name for name in _COLUMNS if name in AffectedNamespace._fields]
    sums = {key: [sum(getattr(each, name) for _, each in of) for name in names] for key, of in alike.items()}
    keys = sorted((key for key in sums if any(sums[key])), key=lambda key: ([-number for number in sums[key]], key))
    clusters = {key: listed([name for name, _ in of]) if diff.clusters[1:] else "" for key, of in alike.items()}
    rows = [(*key, clusters[key], *sums[key]) for key in keys]
    return not_empty([*_TEXTS[2:], *(_COLUMNS[name][0] for name in names)], rows)
