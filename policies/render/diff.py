"""What a change of manifests does, as text and as Markdown for a pull request."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from html import escape
from itertools import chain
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.application.diff import FIX_OF_DIRECTORIES, AffectedNamespace
from forewarn.policies.disclosure import Disclose
from forewarn.policies.findings import capital, cut, duration, listed, one_line, plural
from forewarn.policies.kinds.registry import STATEFUL_SET
from forewarn.policies.lint.versions import ALSO
from forewarn.policies.objects.fields import int32
from forewarn.policies.objects.workload import NO_EVICTION
from forewarn.policies.render import Painter, autoscalers, plain, whatif
from forewarn.policies.render.head import line_of
from forewarn.policies.render.markdown import text_of
from forewarn.policies.render.simulation import missing
from forewarn.policies.render.table import limited, markdown_table, table, titles
from forewarn.policies.scheduling.reasons import in_short
from forewarn.policies.whatif.answer import NO_CLASS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.application.diff import Autoscaled, Diff, OnCluster
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
_LONGEST_REASON: Final = 300
_SUMS: Final = "The rows of namespaces add up the clusters. Rows are sorted by the numbers, the first column first."
_NO_ROLLOUT: Final = (
    "Not simulated: rollouts of workloads with rejected Pods. They delete old Pods (up to maxUnavailable; all with "
    "Recreate), and no new Pod starts"
)
_FIX_OF_REPLICAS: Final = "Fix: raise spec.replicas in the manifests, or leave it out if something else sets it"
_FIX_OF_AUTOSCALED: Final = (
    "Fix: set the scale in the HorizontalPodAutoscaler, and remove spec.replicas, first with kubectl apply "
    "edit-last-applied"
)
_INCOMPLETE: Final = " (incomplete)"
_NO_EFFECT_OF_THE_REST: Final = "no effect of what is simulated"
_GAPS: Final = "incomplete (effects can be missing)"
_ABSENT: Final = "missing in a cluster, so not simulated there"
_FIX_OF_ABSENT: Final = "Fix: take a new snapshot, or map directories to clusters (clusters in .forewarn.yaml)"
_EFFECT: Final = "Effect of this change"
_EFFECT_AND_DRIFT: Final = "Effect of this change and of the drift below"
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


_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "lost": ("PODS LOST", "they run now, and at the end neither they nor their replacements do."),
    "pending": ("NEW PODS PENDING", "Pods that the workload does not run now, and that are unschedulable at the end."),
    "rejected": ("OBJECTS REJECTED", "by the API server, or the new Pods of workloads are."),
    "scaled_down": ("SCALED DOWN", "running replicas beyond the number in the manifests."),
    "replaced": ("REPLACED", "preempted so that a Pod of higher priority fits, and running again at the end."),
    "failed": ("JOBS FAILED", ""),
    "violated": ("PDBS VIOLATED", "PodDisruptionBudgets that allow fewer disruptions than the preempted Pods."),
    "unhealthy": ("UNHEALTHY PDBS", "with fewer healthy Pods than they ask for, so that they block node drains."),
    "above": ("ABOVE MAXREPLICAS", "replicas in the manifests that HorizontalPodAutoscalers then remove."),
    "pruned": ("WORKLOADS WITH PRUNED CLASS", "their new Pods are rejected if a tool deletes the PriorityClass."),
    "new_priority": ("WORKLOADS WITH NEW PRIORITY", "not changed, but their new Pods get another priority."),
    "placeholders": (whatif.HEADS[-1], "Pods that only reserve capacity. Preempted replacements count again."),
}
"""Numbers of a row, the worst first: name -> the head of its column, and what it means."""


def render(diff: Diff, paint: Painter = plain, *, details: bool = True) -> Iterator[str]:
    """The comparison as text lines. `details`: of each cluster."""
    first = verdict(diff)
    yield paint(first, "bold")
    if gaps := ", ".join(_missing_in(diff)):
        yield f"{_GAPS}: {gaps}"
    yield f"compared: {diff.base} → {diff.head}{f'; {_counts(diff)}' if diff.clusters else ''}"
    yield from (f"note: {note}" for note in diff.notes)
    yield from _not_compared(diff)
    yield from limited(_objects(diff), len(_merged(diff)), "object", "objects", "")
    if len(diff.clusters) > 1:
        yield from table(*_table(diff.clusters), paint, texts=_TEXTS)
    for cluster in diff.clusters:
        heading = f"{_title(cluster)}: {_effect(cluster)}"
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
    merged: dict[ChangedObject, list[str]] = defaultdict(list)
    for changed in diff.objects:
        merged[changed._replace(directory="", fields=tuple(changed.fields))].append(changed.directory)
    return merged


def _objects(diff: Diff) -> Iterator[str]:
    for changed, (directory, *others) in _merged(diff).items():
        also = f" (also in {listed([*map(one_line, others)])})" if others else ""
        yield f"{directory}: {changed.operation} {_object(changed)}{also}"


def _not_compared(diff: Diff) -> Iterator[str]:
    lines = (f"not compared: {one_line(name)}" for name in diff.not_compared)
    return limited(lines, len(diff.not_compared), "object", "objects", "")


def verdict(diff: Diff) -> str:
    """Return one sentence: the effects on the most affected cluster, what else needs attention, and if it is all."""
    pdbs = len(_blocking(diff))
    gone = [one_line(str(each)) for each in _merged(diff) if each.operation == "deleted"]
    kept = cut(_all_of(gone, "object"), _LONGEST_REASON) if gone and diff.clusters and not diff.prunes else ""
    others = (
        f"{plural(pdbs, 'changed PDB never allows', 'changed PDBs never allow')} an eviction" if pdbs else "",
        f"deletion of {kept} only if the GitOps tool prunes" if kept else "",
    )
    is_whole, is_simulated = not _missing_in(diff), bool(diff.clusters and diff.objects)
    nothing = NOTHING if not is_simulated else whatif.NO_EFFECT if is_whole else _NO_EFFECT_OF_THE_REST
    effect = _effects(diff) if diff.clusters else _counts(diff) if diff.objects else ""
    known = "; ".join(filter(None, (effect or nothing, *others)))
    return f"{known}{'' if is_whole else _INCOMPLETE}"


def _missing_in(diff: Diff) -> list[str]:
    """Phrases about what the comparison and the simulations lack."""
    unanswered = [_title(cluster) for cluster in diff.clusters if cluster.reason]
    without = [f"no answer for {_all_of(unanswered, 'cluster')}"] if unanswered and diff.clusters[1:] else []
    absent = [*dict.fromkeys(one_line(name) for cluster in diff.clusters for name in cluster.absent)]
    names = f"{_ABSENT} ({cut(_all_of(absent, 'workload'), _LONGEST_REASON)}). {_FIX_OF_ABSENT}" if absent else ""
    lacking = filter(None, [_some(len(absent), "changed workload", names)])
    return [*_uncompared(diff), *without, *_missing(diff.clusters), *lacking]


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
    texts = (text for answer in answers for text in answer.not_modelled)
    unmodelled = dict.fromkeys(text.removeprefix("not modelled: ").partition(" (")[0] for text in texts)
    among = max((len({*chain(*_directories(cluster))}) for cluster in clusters), default=0)
    phrases = (
        f"unknown which of {among} directories {'a' if clusters[1:] else 'the'} cluster gets" if among else "",
        _some(len(unread), "object", "not simulated"),
        *whatif.unfinished(answers),
        f"{listed([*unmodelled])} not modelled" if unmodelled else "",
        _some(sum(each.not_started for of in clusters for each in of.not_predicted), "new Pod", "not predicted"),
    )
    return [phrase for phrase in phrases if phrase]


def _blocking(diff: Diff) -> list[ChangedObject]:
    """The created and changed PDBs that block every drain."""
    return [each for each in _merged(diff) if any((field.name, field.after) in NO_EVICTION for field in each.fields)]


def _counts(diff: Diff) -> str:
    counts = Counter(changed.operation for changed in _merged(diff))
    phrases = (plural(count, f"object {operation}", f"objects {operation}") for operation, count in counts.items())
    return ", ".join(phrases) or "no object changed"


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
    numbers = [(cluster, _numbers_of(cluster)) for cluster in diff.clusters if needs_attention(cluster)]
    numbers.sort(key=lambda item: [not item[0].reason, *(-item[1][name] for name in _COLUMNS)])
    return [cluster for cluster, _ in numbers]


def _joined(effects: Sequence[str]) -> str:
    more = len(effects) - _EFFECTS
    return ", ".join(effects if more < 2 else [*effects[:_EFFECTS], f"and {more} more effects"])


def needs_comment(diff: Diff) -> bool:
    """Report whether a pull request should hear of a change: it affects a cluster, or not everything is compared."""
    changes = diff.objects and not diff.clusters
    unread = diff.notes or diff.not_compared
    return bool(changes or unread or _blocking(diff)) or any(map(needs_attention, diff.clusters))


def needs_attention(cluster: OnCluster) -> bool:
    """Report whether a change affects a cluster, or has no answer about it."""
    return _effect(cluster) not in (whatif.NO_EFFECT, _NOT_CONCERNED)


def _effect(cluster: OnCluster) -> str:
    if cluster.answer is None and not _faults(cluster):
        return cluster.reason or _NOT_CONCERNED
    return f"{_joined(_phrases(cluster)) or whatif.NO_EFFECT}{_INCOMPLETE if _missing([cluster]) else ''}"


def _phrases(cluster: OnCluster) -> list[str]:
    """The effects on a cluster, the worst first. Placeholder Pods, which only reserve capacity, come last."""
    answers = [cluster.answer.answer] if cluster.answer else []
    is_drift = all(item.base != item.before for item in cluster.scaled_down)
    count = _numbers_of(cluster)
    phrases = [
        _some(len(cluster.rejected), "changed object", "rejected"),
        f"Pods of {plural(len(cluster.rejected_pods), 'changed workload')} rejected" if cluster.rejected_pods else "",
        *whatif.on_new_pods([workload for answer in answers for workload in answer.new_pods], are_named=False),
        _losing(cluster),
        _some(0 if count["lost"] else count["failed"], "Job", "failed"),
        _some(count["pending"], "new Pod", "Pending"),
        _some(count["replaced"], "other Pod" if count["lost"] else "Pod", "preempted and replaced"),
        _some(count["scaled_down"], "running replica", f"scaled down{' because of drift' if is_drift else ''}"),
        _some(count["violated"], "PDB", "violated"),
        _some(count["unhealthy"], "PDB", "with too few healthy Pods"),
        _rescaled(cluster),
        *whatif.other_effects([answer._replace(workloads=(), pdbs={}) for answer in answers]),
        *(
            f"pruning PriorityClass {one_line(each.priority_class)} would reject new Pods of "
            f"{plural(each.workloads, 'workload')}"
            for each in cluster.pruned
        ),
    ]
    effects = [phrase for phrase in phrases if phrase]
    return [*effects, *_reserve(cluster, count["placeholders"], is_only=not effects)]


def _reserve(cluster: OnCluster, preempted: int, *, is_only: bool) -> Iterator[str]:
    """A phrase about preempted placeholder Pods, if any."""
    workloads = cluster.answer.workloads if cluster.answer else ()
    own = [each for each in workloads if each.workload in cluster.placeholders]
    before, pending = sum(each.before for each in own), sum(each.pending for each in own)
    count = plural(min(preempted, before or preempted), "placeholder Pod")
    times = f" {preempted} times" if preempted > before > 0 else ""
    at_end = f" ({pending} Pending at the end)" if pending else ""
    only = "only " if is_only else ""
    yield from [f"{only}{count} preempted{times}{at_end}"] if preempted else []


def _rescaled(cluster: OnCluster) -> str:
    """A phrase about the workloads that HorizontalPodAutoscalers scale after the apply; "" without any."""
    items = [item for item in cluster.autoscaled if _at_last(item) != item.replicas]
    return _some(len(items), "workload", "then rescaled by HorizontalPodAutoscalers")


def _at_last(item: Autoscaled) -> int:
    """The replicas within the limits of the HorizontalPodAutoscaler."""
    return min(max(item.replicas, item.least), item.most)


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


def _workloads(cluster: OnCluster) -> list[WorkloadCount]:
    """Those that change or have too few Pods, without placeholder Pods."""
    workloads = cluster.answer.workloads if cluster.answer else ()
    return [workload for workload in workloads if workload.workload not in cluster.placeholders]


def _faults(cluster: OnCluster) -> list[str]:
    """The rejected objects, and those whose Pods are rejected."""
    return [*cluster.rejected, *cluster.rejected_pods]


def _directories(cluster: OnCluster) -> tuple[list[str], list[str]]:
    """The directories of objects of which the simulation uses one version, and of the other versions."""
    used = {changed.identity: changed.directory for changed in cluster.applied}
    taken = dict.fromkeys(used[changed.identity] for changed in cluster.omitted)
    return [*taken], [*dict.fromkeys(changed.directory for changed in cluster.omitted)]


class _Told(NamedTuple):
    """A sentence without a full stop: a text that ends with a list."""

    text: str
    items: Sequence[str] = ()
    noun: str = ""

    @property
    def short(self) -> str:
        """The sentence with the first items, and the number of the others."""
        return f"{self.text}{_all_of([*map(one_line, self.items)], self.noun)}" if self.items else self.text

    @property
    def is_cut(self) -> bool:
        return len(self.items) > _NAMED + 1

    @property
    def full(self) -> str:
        return f"{self.text}{listed([*map(one_line, self.items)], _MAX_OBJECTS)}"


def _told(text: str, items: Sequence[str], noun: str) -> _Told | None:
    """A sentence about items; None without any."""
    return _Told(text, items, noun) if items else None


def _explained(diff: Diff, cluster: OnCluster, *, rejections: bool = True) -> dict[str, list[_Told]]:
    """By heading, sentences about the effects on a cluster. `rejections`: also those about rejected objects."""
    rejected = [*_rejected(diff, cluster)] if rejections else []
    if cluster.answer is None:
        return {_EFFECT: rejected or [_Told(cluster.reason)]} if rejected or cluster.reason else {}
    of = _Explanation(diff, cluster, cluster.answer.answer)
    groups = {
        "HorizontalPodAutoscalers": of.of_autoscalers(),
        _EFFECT_AND_DRIFT if of.drift else _EFFECT: chain(rejected, of.effects()),
        f"Drift: other differences of the cluster from {diff.base} (running now → after the apply)": of.of_drift(),
        "Not predicted": of.unpredicted(),
    }  # in this order, because only the first mention of a workload has its change
    found = {title: [_as_told(each) for each in sentences if each] for title, sentences in groups.items()}
    return {title: sentences for title, sentences in found.items() if sentences}


def _as_told(sentence: str | _Told) -> _Told:
    return _Told(sentence) if isinstance(sentence, str) else sentence


def _rejected(diff: Diff, cluster: OnCluster) -> Iterator[_Told]:
    """A sentence about each rejected object, and each whose Pods are rejected; of many, about the first ones."""
    for what, reasons in (("Rejected", cluster.rejected), ("Pods rejected", cluster.rejected_pods)):
        lines = (f"{what}: {cut(reason, _LONGEST_REASON)}" for reason in reasons)
        yield from map(_Told, limited(lines, len(reasons), "rejected object", "rejected objects", ""))
    rejected = {reason.partition(": ")[0] for reason in cluster.rejected_pods}
    if any(str(changed) in rejected for changed in diff.objects if changed.operation == "changed"):
        yield _Told(_NO_ROLLOUT)


class _Explanation:
    """Sentences about the effects on a cluster: causes and affected workloads."""

    def __init__(self, diff: Diff, cluster: OnCluster, answer: Answer) -> None:
        self.diff, self.cluster, self.answer = diff, cluster, answer
        self.rejected = {reason.partition(": ")[0] for each in diff.clusters for reason in _faults(each)}
        rejected = {name.partition(" ")[2] for name in self.rejected}
        self.drift = {item.workload: item.fields for item in cluster.differing if item.workload not in rejected}
        self.named = dict(self._changes())
        self.owners = {each.namespace: each.owner for each in cluster.namespaces if each.owner}

    def effects(self) -> Iterator[_Told | str | None]:
        cluster, answer = self.cluster, self.answer
        phrases = [*map(capital, whatif.on_new_pods(answer.new_pods))]
        yield from phrases[:-1]
        yield f"{phrases[-1]}{_passed(cluster)}" if phrases else ""
        classes = {of.before.priority_class_name for of in answer.new_pods if of.after is None and of.before}
        yield f"Fix: keep {_all_of(sorted(classes), 'PriorityClass')} until no workload has it" if classes else ""
        yield self._running()
        losing = [workload for workload in _workloads(cluster) if workload.missed]
        waiting = [workload for workload in _workloads(cluster) if workload.not_started and not workload.missed]
        told = {workload.workload for workload in (*losing, *waiting)}
        yield from self._ends(losing)
        yield from whatif.fix_of_failures(answer)
        yield from self._ends(waiting)
        yield from self._preempting([each for each in answer.preempted if each.workload not in told])
        yield _told("PDBs: ", [*self._pdbs()], "PDB")
        reserving = [each for each in answer.workloads if each.workload in cluster.placeholders and each.lost]
        at_end = [
            f"{each.workload}: {each.before} → {each.after} running, {each.pending} Pending" for each in reserving
        ]
        yield _told("Placeholder Pods at the end: ", at_end, "workload")
        yield from map(capital, whatif.other_effects([answer._replace(workloads=(), pdbs={})]))
        yield _told("Quotas: ", [*missing(answer.summary)], "workload")
        yield from whatif.affected(answer.pod_losses)
        yield from self._pruned()
        has_new_nodes = answer.with_new_nodes is not None
        reactions = [*autoscalers.lines(answer.autoscalers, over_time=has_new_nodes)]
        limit = "" if has_new_nodes else " (new nodes are not simulated)"
        yield _told(f"Autoscalers{limit}: ", reactions, "reaction")
        yield capital(whatif.on_new_nodes(answer))

    def unpredicted(self) -> Iterator[_Told | str | None]:
        answer = self.answer
        taken, others = _directories(self.cluster)
        if others:
            yield (
                f"forewarn does not know whether the cluster gets the objects of {_all_of(taken, 'directory')} "
                f"(simulated) or {_all_of(others, 'directory')} (then these numbers do not hold). {FIX_OF_DIRECTORIES}"
            )
        for each in self.cluster.not_predicted:
            later = _not_created(each, answer)
            yield f"{self._name(each.workload)}: {plural(each.not_started, 'Pod')} {_UNKNOWN}{later}"
        if whatif.unfinished([answer]):
            end = duration(answer.summary.horizon)
            yield f"Pods still change when the simulation ends after {end}: the numbers are those of this time"
        texts = [text.partition(". Fix: ")[0].partition(", the simulation ends")[0] for text in answer.not_simulated]
        yield _told("Not simulated: ", texts, "object")
        fixes = sorted((text.partition(". Fix: ")[2] for text in answer.not_simulated), key=lambda fix: (len(fix), fix))
        yield f"Fix: run forewarn diff with {fixes[-1]}" if fixes and fixes[-1].startswith("--") else ""
        yield _told("Not modelled: ", [text.removeprefix("not modelled: ") for text in answer.not_modelled], "part")

    def _surging(self) -> set[str]:
        """Return the Deployments that preempt before their rollout deletes an old Pod."""
        updated = {
            f"{changed.namespace}/{changed.name}"
            for changed in self.cluster.applied
            if changed.is_rollout and changed.kind == "Deployment"
        }
        by = [(each.by_workload, each.t) for each in self.answer.preempted if each.by_workload in updated]
        names, first = self.answer.summary.names, dict[str, float]()
        for event in self.answer.simulation.timeline.events if by else ():
            if event.event == "deleted" and event.node and event.origin and event.origin.before:
                first.setdefault(names.of(event.origin.workload), event.t)
        return {name for name, t in by if t < first.get(name, inf)}

    def _pruned(self) -> Iterator[str | _Told]:
        """Tell what deleting a PriorityClass does to the workloads that name it."""
        for item in self.cluster.pruned:
            pods = plural(item.running, "running Pod is", "running Pods are")
            running = f", and their {pods} not replaced when deleted, evicted or preempted" if item.running else ""
            name, count = one_line(item.priority_class), plural(item.workloads, "workload")
            text = f"If the GitOps tool prunes PriorityClass {name}, new Pods of {count} are rejected{running}: "
            yield _Told(text, item.names, "workload")
        if self.cluster.pruned:
            yield "Fix: delete a PriorityClass only when no workload names it"

    def of_autoscalers(self) -> Iterator[_Told | str | None]:
        items = self.cluster.autoscaled
        now = {
            f"{changed.namespace}/{changed.name}": field.before
            for changed in self.cluster.applied
            for field in changed.fields
            if field.name == "replicas"
        } | {item.workload: str(item.before) for item in self.cluster.scaled_down}
        ends = [
            f"{_at_last(item)} ({'maxReplicas' if _at_last(item) < item.replicas else 'minReplicas'})"
            if _at_last(item) != item.replicas
            else f"between {item.least} and {item.most}, by load"
            for item in items
        ]
        starts = [f"{now[item.workload]} running → " if now.get(item.workload) else "" for item in items]
        scaled = [
            f"{item.workload}: {start}{item.replicas} (manifest) → {end}"
            for item, start, end in zip(items, starts, ends, strict=True)
        ]
        yield _told("The numbers of Pods in this comment are those before the last step: ", scaled, "workload")
        yield _FIX_OF_AUTOSCALED if items else ""

    def of_drift(self) -> Iterator[_Told | str | None]:
        """Effects of an apply because the cluster is not as in the first version."""
        autoscaled = {item.workload for item in self.cluster.autoscaled}
        items = [item for item in self.cluster.scaled_down if item.workload not in autoscaled]
        for text, is_unset in (
            ("Without spec.replicas, applying scales down ", True),
            ("Applying scales down workloads with more replicas than in the manifests: ", False),
        ):
            of = [item for item in items if (item.base == item.before) is is_unset]
            yield _told(text, [f"{item.workload} from {item.before} to {item.after}" for item in of], "workload")
        yield _FIX_OF_REPLICAS if items else ""
        pdbs = [f"{name} ({_health(self.answer, name)})" for name in self.cluster.drifted_pdbs]
        yield _told("PDBs of these workloads: ", pdbs, "PDB")
        also = [f"{name} ({', '.join(map(str, fields))})" for name, fields in self.drift.items()]
        yield _told("Applying also changes: ", also, "workload")

    def _running(self) -> str:
        """The sentence that changed workloads get all their Pods; "" if not, or if something is missing."""
        names = {
            f"{changed.namespace}/{changed.name}": str(changed) in self.rejected
            for changed in self.cluster.applied
            if changed.kind in _LASTING and changed.operation != "deleted"
        }
        failing = {item.workload for item in self.answer.workloads if item.pending or item.missed or item.failure}
        failing |= {of.workload for of in self.cluster.not_predicted} | {of.workload for of in self.cluster.scaled_down}
        running = [one_line(name) for name, fails in names.items() if not fails and name not in failing]
        if not running or self.answer.over_quota:
            return ""
        others = "the other " if len(running) < len(names) else "the "
        whose = f"{others}{len(running)} changed workloads" if len(running) > _NAMED else _all_of(running, "workload")
        return f"{'As far as simulated, all' if _missing_in(self.diff) else 'All'} Pods of {whose} run at the end"

    def _ends(self, workloads: Sequence[WorkloadCount]) -> Iterator[str]:
        """Yield a sentence for each of the workloads with most lost or Pending Pods, and one for all others."""
        ordered = sorted(workloads, key=lambda item: (not item.failure, -max(item.missed, item.pending)))
        count = len(ordered) if len(ordered) <= _NAMED + 1 else _NAMED
        for group in filter(None, (*([workload] for workload in ordered[:count]), ordered[count:])):
            yield self._end(group)

    def _end(self, workloads: Sequence[WorkloadCount]) -> str:
        """How many Pods one or more workloads lose, or do not get, and why."""
        first, is_one = workloads[0], len(workloads) == 1
        names = cut(_all_of([one_line(each.workload) for each in workloads], "workload"), _LONGEST_REASON)
        who = self._name(first.workload) if is_one else f"{len(workloads)} more workloads ({names})"
        pending = sum(max(workload.pending - workload.pending_before, 0) for workload in workloads)
        later = _not_created(first, self.answer) if is_one else ""
        running = sum(workload.after for workload in workloads)
        if first.missed:
            owner = self.owners.get(first.namespace)
            rank = f" (priority {first.priority}{f', owner {one_line(owner)}' if owner else ''})" if is_one else ""
            who, waiting = f"{who}{rank} {_loss(workloads)}", f"{pending} Pending"
        else:
            waiting = (
                f"{pending} of {pending + running} Pods Pending" if running else f"{plural(pending, 'Pod')} Pending"
            )
        why = cut(one_line(in_short(first.message)), _LONGEST_REASON) if is_one else ""
        of_nodes = _ALL_NODES.match(first.message)
        why = f"fits on 0 of {plural(int(of_nodes[1]), 'node')}: {why}" if of_nodes and why else why
        preempted, *others = self._causes(workloads)
        causes = (preempted, f"{waiting}{f' ({why})' if why else ''}{later}" if pending else "", *others)
        return ": ".join(filter(None, (who, "; ".join(filter(None, causes)))))

    def _causes(self, workloads: Sequence[WorkloadCount]) -> Iterator[str]:
        """By which workloads Pods are preempted, how many of these are replaced, and failing Jobs; "" for none."""
        names, preempted = {workload.workload for workload in workloads}, self.answer.preempted
        by = Counter(preemption.by_workload for preemption in preempted if preemption.workload in names)
        preemptors = [self._name(name) for name, _ in by.most_common()]
        yield f"{by.total()} preempted by {_all_of(preemptors, 'workload')}" if by else ""
        replaced = sum(self.answer.replaced[name] for name in names)
        yield f"{replaced} replaced" if replaced else ""
        failed = sum(bool(workload.failure) for workload in workloads)
        if failed:
            jobs = plural(failed, "Job fails", "Jobs fail") if workloads[1:] else workloads[0].failure
            victims = Counter(preemption.workload for preemption in preempted)
            others = any(workload.missed > victims[workload.workload] for workload in workloads if workload.failure)
            whose = "its" if failed == 1 else "their"
            yield f"{one_line(jobs)}{f', so {whose} other Pods are deleted' if others else ''}"

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

    def _changes(self) -> Iterator[tuple[str, str]]:
        """Workload of the change -> its name with what changes in the cluster."""
        surging = self._surging()
        for changed in self.cluster.applied:
            if changed.kind in _WORKLOADS and changed.operation != "deleted":
                name = f"{changed.namespace}/{changed.name}"
                after = {field.name: field.after for field in changed.fields}
                fields = [*map(str, changed.fields), *(f"{field} (drift)" for field in self.drift.get(name, ()))]
                if is_new := changed.operation == "created":
                    fields = [f"new {changed.kind}", *(f"{key} {after[key]}" for key in _OF_NEW if after.get(key))]
                rollout = "rollout: " if not is_new and (changed.is_rollout or name in self.drift) else ""
                rollout = "rollout, new Pods first: " if name in surging else rollout
                what = listed([*map(one_line, fields)], _NAMED + 1)
                yield name, f"{one_line(name)} ({rollout}{what})" if what else one_line(name)

    def _preempting(self, preemptions: Sequence[Preemption]) -> Iterator[str]:
        """Yield how many Pods workloads preempt, a sentence for each changed workload."""
        by: dict[str, list[Preemption]] = defaultdict(list)
        for preemption in preemptions:
            by[preemption.by_workload].append(preemption)
        names = sorted(by, key=lambda name: -len(by[name]))
        in_turn = [name for name in names if all(preemption.cascade_depth > 1 for preemption in by[name])]
        names = [name for name in names if name not in in_turn]
        for group in filter(None, (*([name] for name in names[:_NAMED]), names[_NAMED:], in_turn)):
            own = [preemption for name in group for preemption in by[name]]
            preemptors = _all_of([self._name(name) for name in group], "workload")
            first = "In turn, " if group is in_turn else ""
            yield f"{first}{preemptors} preempt{'s' if len(group) == 1 else ''} {self._all_victims(own)}"

    def _all_victims(self, preemptions: Sequence[Preemption]) -> str:
        """The preempted Pods, placeholder Pods last."""
        reserving = [each for each in preemptions if each.workload in self.cluster.placeholders]
        others = [each for each in preemptions if each.workload not in self.cluster.placeholders]
        replaced = f"{_victims(others, 'Pod')}, replaced at the end" if others else ""
        names = {each.workload for each in reserving}
        existing = sum(each.before for each in self.answer.workloads if each.workload in names)
        placeholders = _victims(reserving, "placeholder Pod")
        placeholders += " (replacements count again)" if len(reserving) > existing > 0 else ""
        return ", and ".join(filter(None, (replaced, placeholders)))


_ALL_NODES: Final = re.compile(r"0/(\d+) nodes")
_LASTING: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
_UNKNOWN: Final = "not predicted: forewarn does not model which nodes can use its new volume"


def _passed(cluster: OnCluster) -> str:
    """Tell which running Pods new Pods outrank after a change of PriorityClasses, and did not before; and the others
    the other way round.
    """
    text = ""
    above = [(each.outranked, each.priority_class) for each in cluster.passed if each.outranked]
    below = [(each.outranking, each.priority_class) for each in cluster.passed if each.outranking]
    for of, verb in ((above, "outrank"), (below, "rank below")):
        if of:
            names = ["no class" if name == NO_CLASS else f"PriorityClass {one_line(name)}" for _, name in of]
            counted = [f"{f'{count} ' if of[1:] else ''}of {name}" for (count, _), name in zip(of, names, strict=True)]
            pods = f"{plural(sum(count for count, _ in of), 'running Pod')} of others"
            text += f", and {'also' if text else 'now'} {verb} {pods} ({_all_of(counted, 'PriorityClass')})"
    return text


def _not_created(workload: WorkloadCount, answer: Answer) -> str:
    """A clause about the Pods that a StatefulSet creates only after its Pending one; "" for none."""
    namespace, _, name = workload.workload.partition("/")
    state = answer.simulation.api.workloads.get((STATEFUL_SET, namespace, name))
    wanted = (int32(state.object, "spec", "replicas") or 0) if state else 0
    more = wanted - workload.after - workload.pending if workload.pending else 0
    return f"; the StatefulSet creates {plural(more, 'more Pod')} only when this one is ready" if more > 0 else ""


def _health(answer: Answer, pdb: str) -> str:
    healthy, desired = answer.pdbs[pdb]
    return f"requires {plural(desired, 'healthy Pod')}, has {healthy} at the end"


def _all_of(items: Sequence[str], noun: str) -> str:
    """The first items, and the number of the others: `a, b, c and 4 more PDBs`."""
    if len(items) > _NAMED + 1:
        items = [*items[:_NAMED], plural(len(items) - _NAMED, f"more {noun}")]
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


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


def _object(changed: ChangedObject) -> str:
    return ": ".join(filter(None, (str(changed), _fields(changed))))


def _fields(changed: ChangedObject) -> str:
    is_whole = changed.operation != "changed"
    whole = (f"{field.name} {field.after or field.before}" for field in changed.fields if field.name in _OF_WHOLE)
    return listed([*map(one_line, whole if is_whole else map(str, changed.fields))], _MAX_FIELDS)


_TEXTS: Final = ("CLUSTER", "STATE AT", "NAMESPACE", "OWNER", "CLUSTERS")


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
    numbers = Counter(rejected=len(_faults(cluster)))
    if cluster.answer is None:
        return numbers
    answer, workloads = cluster.answer.answer, _workloads(cluster)
    return numbers + Counter(
        lost=sum(workload.missed for workload in workloads),
        pending=sum(workload.not_started for workload in workloads),
        scaled_down=sum(item.before - item.after for item in cluster.scaled_down),
        above=sum(max(item.replicas - item.most, 0) for item in cluster.autoscaled),
        replaced=sum(count for name, count in answer.replaced.items() if name not in cluster.placeholders),
        failed=sum(bool(workload.failure) for workload in workloads),
        violated=len(answer.summary.violated_pdbs),
        unhealthy=len(answer.pdbs.keys() - answer.summary.violated_pdbs),
        pruned=sum(item.workloads for item in cluster.pruned),
        new_priority=sum(ranked.after is not None for ranked in answer.new_pods),
        placeholders=sum(preemption.workload in cluster.placeholders for preemption in answer.preempted),
    )


def markdown(diff: Diff, *, details: bool = True) -> str:
    """The comparison as a comment on a pull request: the verdict, a row for each cluster, details folded.

    `details`: of each cluster, with names.
    """
    clusters = _most_affected_first(diff)
    parts = chain(
        _summary(diff, clusters, details=details), (_details_of(diff, cluster, details=details) for cluster in clusters)
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


def _details_of(diff: Diff, cluster: OnCluster, *, details: bool) -> str:
    """Folded: lists that sentences cut, and the workloads; "" without an answer, of which the sentences have all."""
    summary = f"{cluster.cluster}: {_effect(cluster)}"
    if not details:
        return text_of(summary)
    if cluster.answer is None:
        return ""
    told = chain(*_explained(diff, cluster).values())
    cuts = [f"- {text_of(sentence.full)}" for sentence in told if sentence.is_cut]
    notes = [f"- {text_of(note)}" for note in cluster.answer.notes_without_faults]
    tables = whatif.counts_and_tables(cluster.answer.answer, _MAX_OBJECTS)
    return _folded(summary, "\n\n".join(filter(None, ("\n".join(tables).strip(), "\n".join([*cuts, *notes])))))


def _sentences(diff: Diff, clusters: Sequence[OnCluster]) -> Iterator[str]:
    """A list item for the clusters with the same effects; of several clusters, first about what they reject."""
    several = len(clusters) > 1
    rejected = [(cluster, {_EFFECT: [*_rejected(diff, cluster)]}) for cluster in clusters if several]
    others = [(cluster, _explained(diff, cluster, rejections=not several)) for cluster in clusters]
    for part in (rejected, others):
        alike = defaultdict[tuple[tuple[str, ...], ...], list[str]](list)
        for cluster, explained in part:
            told = ((title, *(each.short for each in sentences)) for title, sentences in explained.items() if sentences)
            alike[tuple(told)].append(cluster.cluster)
        for groups, names in alike.items():
            yield from _item(names, groups) if groups else ()


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


def _summary(diff: Diff, affected: Sequence[OnCluster], *, details: bool) -> Iterator[str]:
    title, names = verdict(diff), tuple(name for name in map(_title, diff.clusters) if not name.startswith("cluster "))
    yield f"### {text_of(title if title.startswith(names) else capital(title))}"
    if gaps := ", ".join(_missing_in(diff)):
        yield f"**{capital(_GAPS)}:** {_sentence(gaps)}"
    if len(diff.notes) <= _NAMED:
        notes = (note.partition(ALSO)[0] for note in diff.notes)
        yield "\n".join(f"- Not compared: {_sentence(cut(note, 2 * _LONGEST_REASON))}" for note in notes)
    if blocking := [one_line(changed.namespace + "/" + changed.name) for changed in _blocking(diff)]:
        which = text_of(_all_of(blocking, "PDB"))
        yield f"- PDBs that never allow an eviction, and so block node drains: {which}. Fix: maxUnavailable: 1."
    answers = [cluster.answer.answer for cluster in diff.clusters if cluster.answer]
    if answers:
        yield _simulated(diff.clusters)
    classes = (changed for changed in _merged(diff) if changed.kind == "PriorityClass")
    changes = [f"{changed} {changed.operation} ({_fields(changed)})" for changed in classes]
    if changes and any(answer.new_pods for answer in answers):
        yield f"- {text_of(_all_of(changes, 'PriorityClass'))}."
    if details:
        yield "\n".join(_fitting(_sentences(diff, affected), MAX_BYTES // 2, "line")).strip("\n")
    yield from _numbers(diff, affected, is_whole=not details)
    yield from _details_of_objects(diff)


def _simulated(clusters: Sequence[OnCluster]) -> str:
    heads = [cluster.answer.head for cluster in clusters if cluster.answer]
    states = {(head.origin.time, head.origin.is_read) for head in heads}
    time, is_read = states.pop() if len(states) == 1 else ("", True)
    state = f"state of {time}" if time else "recorded state of each cluster"
    newest = "" if is_read or not time else " (time of the newest object in it)"
    assumed = listed([*dict.fromkeys(text for head in heads for text in head.assumes)], _MAX_OBJECTS)
    lacking = f" Assumed, because the state lacks this information: {assumed}." if assumed else ""
    return text_of(f"Simulation: the change is applied to the {state}{newest}.{lacking}")


def _numbers(diff: Diff, affected: Sequence[OnCluster], *, is_whole: bool) -> Iterator[str]:
    """The tables and their legend. `is_whole`: also the table of namespaces whose content the sentences have."""
    known = set[str]()
    if affected:
        heads, rows = _table(affected)
        known.update(heads)
        if heads[2:] and len(diff.clusters) > 1:
            yield _rows(heads, rows, "cluster")
    if rest := [cluster.cluster for cluster in diff.clusters if not needs_attention(cluster)]:
        yield text_of(f"No effect found in {listed(rest)}.")
    heads, rows = _affected(diff, is_whole=is_whole)
    if rows:
        known.update(heads)
        text = _rows(heads, rows, "namespace")
        yield text if len(rows) <= _FEW_ROWS else _folded(plural(len(rows), "affected namespace"), text)
    meanings = [f"{titles([head])[0]}: {meaning}" for head, meaning in _COLUMNS.values() if head in known and meaning]
    if meanings:
        yield _folded("What the numbers mean", " ".join([*meanings, *([_SUMS] if len(affected) > 1 else [])]))


def _details_of_objects(diff: Diff) -> Iterator[str]:
    """Folded: the changed objects, and what was not compared."""
    if diff.objects:
        objects = [f"- {text_of(line)}" for line in _objects(diff)]
        body = "\n".join(_fitting(objects, MAX_BYTES // 4, "object"))
        versions = f"{diff.base} → {diff.head}"
        is_open = len(objects) <= _FEW_ROWS
        text = f"{_counts(diff) if diff.clusters else 'Changed objects'} ({versions})"
        yield f"{text_of(text)}:\n\n{body}" if is_open else _folded(text, body)
    notes = diff.notes if len(diff.notes) > _NAMED else [note for note in diff.notes if ALSO in note]
    if notes or diff.not_compared:
        body = "\n".join(f"- {text_of(line)}" for line in [*notes, *_not_compared(diff)])
        yield _folded(capital(", ".join(_uncompared(diff))), body)


def _affected(diff: Diff, *, is_whole: bool) -> tuple[list[str], list[tuple[str | int, ...]]]:
    """The heads and rows of namespaces with their sums over the clusters: the most affected first, those of placeholder
    Pods last. `is_whole`: also a single one without an owner, which sentences name.
    """
    alike: dict[tuple[str, str], list[tuple[str, AffectedNamespace]]] = defaultdict(list)
    for cluster in diff.clusters:
        for each in cluster.namespaces:
            alike[each.namespace, each.owner].append((cluster.cluster, each))
    if not is_whole and len(alike) == 1 and not any(owner for _, owner in alike):
        return [], []
    names = [name for name in _COLUMNS if name in AffectedNamespace._fields]
    sums = {key: [sum(getattr(each, name) for _, each in of) for name in names] for key, of in alike.items()}
    reserving = {name.partition("/")[0] for cluster in diff.clusters for name in cluster.placeholders}
    keys = sorted(sums, key=lambda key: (key[0] in reserving, [-number for number in sums[key]], key))
    clusters = {key: listed([name for name, _ in of]) if diff.clusters[1:] else "" for key, of in alike.items()}
    return _shown(
        [*_TEXTS[2:], *(_COLUMNS[name][0] for name in names)], [(*key, clusters[key], *sums[key]) for key in keys]
    )


def _shown(heads: list[str], rows: list[tuple[str | int, ...]]) -> tuple[list[str], list[tuple[str | int, ...]]]:
    """The columns that are not empty."""
    shown = [column for column in range(len(heads)) if any(row[column] for row in rows)]
    return [heads[column] for column in shown], [tuple(row[column] for column in shown) for row in rows]


def _rows(heads: Sequence[str], rows: Sequence[tuple[str | int, ...]], noun: str) -> str:
    more = f"\n\nand {plural(len(rows) - _MAX_OBJECTS, f'more {noun}')}" if len(rows) > _MAX_OBJECTS else ""
    return "\n".join(markdown_table(titles(heads), rows[:_MAX_OBJECTS])) + more


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{escape(cut(summary, 300), quote=False)}</summary>\n\n{body}\n\n</details>"
