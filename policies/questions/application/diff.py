"""`diff`: what a change of manifests does to priorities, and to clusters that apply it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from forewarn.policies.base.documents import Document, Hidden, inlined_in_json
from forewarn.policies.base.findings import described, grouped, listed, one_line, plural
from forewarn.policies.inputs.manifests.deploy_order import FluxOrder, position_of
from forewarn.policies.inputs.manifests.destinations import Deployed, deployed, nearest
from forewarn.policies.inputs.manifests.differences import changed_fields, differences, new_objects, supporting
from forewarn.policies.inputs.sources.files import PathLike, fspath
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, key_of
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidInput,
    InvalidObject,
    at,
    group_kind,
    mapping,
)
from forewarn.policies.kubernetes.scheduling.plugins.volume_binding import (
    COPIED_VOLUMES,
    IMMEDIATE_VOLUMES,
    UNBOUND_IMMEDIATE,
)
from forewarn.policies.linting.config.model import Config
from forewarn.policies.linting.lint.input import LintRequest, is_excluded, is_in
from forewarn.policies.prediction.simulation.scenario import Arrival
from forewarn.policies.questions.application import NO_ANSWER
from forewarn.policies.questions.application.cluster import NO_AUTOSCALERS, Cluster, autoscalers_of
from forewarn.policies.questions.application.diff_answer import FIX_OF_DIRECTORIES, answer_of
from forewarn.policies.questions.application.manifests import arrivals_of
from forewarn.policies.questions.application.places import PodsRejected, Rejected, is_rejection, why_rejected
from forewarn.policies.questions.application.simulated import not_admitted
from forewarn.policies.questions.application.whatif import WhatIf, whatif
from forewarn.policies.questions.application.whatif_answer import Simulated, document_of
from forewarn.policies.questions.versions import versions
from forewarn.policies.questions.versions.rendering import RenderRequest
from forewarn.policies.questions.whatif import class_change
from forewarn.policies.questions.whatif.answer import NO_CLASS, WorkloadCount
from forewarn.policies.questions.whatif.effects import own_workloads
from forewarn.policies.questions.whatif.questions import Question, target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.base.documents.answer import AnswerDocument, Why
    from forewarn.policies.inputs.manifests.differences import ChangedObject, Difference
    from forewarn.policies.questions.application.changes import Start
    from forewarn.policies.questions.whatif.class_change import Ranked

_ORDER: Final = (
    "PriorityClass", "Namespace", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "StorageClass",
    "PersistentVolume", "PersistentVolumeClaim", "DaemonSet", "Pod", "ReplicationController", "ReplicaSet",
    "Deployment", "StatefulSet", "Job", "CronJob",
)  # fmt: skip
"""Source: helm, pkg/release/v1/util/kind_sorter.go, `InstallOrder`; Argo CD sorts alike within a wave."""


class AffectedNamespace(NamedTuple):
    """The counters of a namespace that a change affects, without placeholder Pods except in `placeholders`.

    `owner`: from the label of the Namespace, or else from CODEOWNERS. `rejected`: also Pods that are rejected when they
    are recreated. `removed`: running Pods that the change removes. `new_priority`: unchanged workloads whose new Pods
    get another priority or preemptionPolicy.
    """

    namespace: str
    owner: str
    lost: int = 0
    preempted: int = 0
    pending: int = 0
    rejected: int = 0
    removed: int = 0
    placeholders: int = 0
    new_priority: int = 0


class Reset(NamedTuple):
    """A field of a changed workload that an apply sets although the change does not edit it, or that does not last.

    `before`: in the cluster; "" without the workload. `after`: of the second version. `cause`: `drift`: the cluster
    differs from the first version; `unset`: the second version has no number of replicas; `autoscaler`: a
    HorizontalPodAutoscaler sets it again. `later`: the value then, with the name and the limits of the autoscaler.
    """

    workload: str
    field: str
    before: str
    after: str
    cause: Literal["drift", "unset", "autoscaler"]
    later: str = ""

    @property
    def removed(self) -> int:
        """By how many replicas the apply scales down the workload."""
        return int(self.before) - int(self.after) if self.field == "replicas" and self.before else 0


class Pruned(NamedTuple):
    """A PriorityClass that only a pruning tool deletes, and the number of workloads and running Pods that name it.

    After the deletion, admission rejects new Pods of these workloads. `names`: names of these workloads.
    """

    priority_class: str
    workloads: int
    running: int
    names: Sequence[str] = ()


class Passed(NamedTuple):
    """The running Pods of one PriorityClass whose order relative to new Pods of other workloads changes.

    `outranked`: Pods with a lower priority than new Pods after the change. `outranking`: Pods with a higher priority
    than new Pods after the change.
    """

    priority_class: str
    outranked: int
    outranking: int


class OnCluster(NamedTuple):
    """The effect on a cluster. `reason`: why there is no `answer`; both are absent if the cluster gets no changed
    object.

    `rejected`: objects that the API server rejects, with the reason. `rejected_pods`: objects that the API server
    accepts, but whose Pods it rejects. `unpredicted`: objects without a prediction. `namespaces`: the most affected
    first. `absent`: changed workloads that are not in the cluster, and thus not simulated. `passed`: by PriorityClass,
    most Pods first. `pruned`: PriorityClasses that only a tool that prunes deletes. `not_predicted`: workloads with new
    Pods that `answer` lacks, because the volumes that their provisioner creates are not modelled. `applied`: the
    changed objects that this cluster gets.
    """

    cluster: str
    rejected: Sequence[str]
    namespaces: Sequence[AffectedNamespace]
    absent: Sequence[str] = ()
    rejected_pods: Sequence[str] = ()
    unpredicted: Sequence[str] = ()
    resets: Sequence[Reset] = ()
    passed: Sequence[Passed] = ()
    pruned: Sequence[Pruned] = ()
    not_predicted: Sequence[WorkloadCount] = ()
    reason: str = ""
    answer: WhatIf | None = None
    applied: Hidden[Sequence[ChangedObject]] = ()
    omitted: Hidden[Sequence[ChangedObject]] = ()
    """Changes of workloads that the cluster does not have, and gets from another directory."""
    why: Hidden[Why | None] = None
    """The reasons of `faults`."""

    @property
    def faults(self) -> list[str]:
        """The rejected objects, and those whose Pods are rejected."""
        return [*self.rejected, *self.rejected_pods]

    @property
    def removed(self) -> int:
        """The number of running Pods that the change removes."""
        return sum(each.removed for each in self.answer.workloads) if self.answer else 0

    @property
    def directories(self) -> tuple[list[str], list[str]]:
        """The directories of objects of which the simulation uses one version, and of the other versions."""
        used = {changed.identity: changed.directory for changed in self.applied}
        taken = dict.fromkeys(used[changed.identity] for changed in self.omitted)
        return [*taken], [*dict.fromkeys(changed.directory for changed in self.omitted)]

    @property
    def simulated(self) -> list[ChangedObject]:
        """The applied objects, without deleted ones and those that are not simulated or predicted."""
        unknown = {of.workload for of in self.not_predicted}
        left_out = (*self.unpredicted, *(self.answer.answer.after.not_simulated if self.answer else ()))
        unknown |= {text.partition(": ")[0].partition(" ")[2] for text in left_out}
        unknown |= {pods.workload for pods in (self.answer.answer.after.left if self.answer else ())}
        applied = (each for each in self.applied if each.operation != "deleted")
        return [each for each in applied if f"{each.namespace}/{each.name}" not in unknown]


@dataclass(frozen=True, repr=False)
class Diff(Document):
    """The difference between two versions of manifests.

    `base`, `head`: names of the versions. `not_compared`: changed objects of other kinds that can change Pods.
    `notes`: what could not be read or compared. `prunes`: whether objects that the second version lacks are deleted.
    `with_clusters`: whether clusters are given; `clusters` is empty without a changed object.
    """

    base: str
    head: str
    objects: Sequence[ChangedObject]
    clusters: Sequence[OnCluster]
    notes: Sequence[str]
    not_compared: Sequence[str] = ()
    prunes: bool = False
    with_clusters: Hidden[bool] = False

    @property
    def not_simulated(self) -> set[str]:
        """The changed workloads that some clusters lack, and that no cluster has."""
        simulated = {str(changed) for cluster in self.clusters for changed in cluster.simulated}
        return {name for cluster in self.clusters for name in cluster.absent} - simulated

    @inlined_in_json
    def document(self) -> AnswerDocument:
        """The answer in the common answer format."""
        return answer_of(self).document

    def __repr__(self) -> str:
        return described(self, f"{self.base} → {self.head}: {plural(len(self.objects), 'object')}")


class DiffRequest(NamedTuple):
    """The two versions to compare.

    - `base`: a git revision or directory (default: the merge base with the main branch).
    - `head`: a git revision or directory (default: the working tree, or the current directory if `base` is a
      directory).
    - `paths`: files or directories in the versions; all if empty. `rendering`: what helm and kustomize may do; None:
      charts and kustomizations are compared without rendering.
    - `namespace`: namespace of objects that name none. `prune`: whether objects that `head` lacks are deleted.
    - `until`: simulated seconds (default: as in `whatif`).
    - `owner_label`: a label of Namespaces with their owner; CODEOWNERS of `head` has the owners of other Namespaces.
    """

    base: str | PathLike[str] = ""
    head: str | PathLike[str] = ""
    paths: Sequence[str | PathLike[str]] = ()
    namespace: str = registry.DEFAULT_NAMESPACE
    prune: bool = False
    rendering: RenderRequest | None = RenderRequest()
    config: Config = Config()
    owner_label: str = ""
    until: float | None = None


def diff(request: DiffRequest, clusters: Mapping[str, Callable[[], Cluster]] = NOTHING) -> Diff:
    """Compare two versions of manifests, and simulate the change in the clusters that it affects.

    `clusters`: name -> function that loads the cluster. Raises SourceError.
    """
    paths = [fspath(path) for path in request.paths]
    lint = LintRequest(paths, request.config, request.namespace)
    with versions.versions(fspath(request.base), fspath(request.head)) as both:
        base, head, changed = both
        versions.check_paths(paths, base, head)
        (before, notes), (after, more) = (
            versions.read_version(side, lint, request.rendering, changed) for side in (base, head)
        )
        differs = versions.may_differ(both)
        differing = [
            difference
            for difference in differences(before, after, differs)
            if clusters or not difference.changed.is_restart
        ]
        beside = [difference for difference in supporting(before, after) if differs(difference.changed.directory)]
        scalers = new_objects(after, {registry.AUTOSCALER})
        exclude = request.config.options.exclude
        others = versions.not_compared(base, head, (p for p in changed if not is_excluded(p, exclude)), paths)
        places = deployed(versions.manifests(head.root) if differing else (), clusters)
        owners = versions.Owners(after, partial(places.namespace, default=request.namespace))
    differing = [_with_namespace(difference, places, request.namespace) for difference in differing]
    beside = [_with_namespace(difference, places, request.namespace) for difference in beside]
    scalers = [_with_namespace(difference, places, request.namespace) for difference in scalers]
    results = [
        _on_cluster(name, load, (differing, beside, scalers), places, clusters, request, owners)
        for name, load in clusters.items()
    ]
    objects, notes = [difference.changed for difference in differing], [*_notes({base.name: notes, head.name: more})]
    answers, has_clusters = results if differing else [], bool(clusters)
    result = Diff(base.name, head.name, objects, answers, notes, others, request.prune, has_clusters)
    lacking = result.not_simulated
    return replace(result, clusters=[_without_empty_answer(cluster, lacking) for cluster in answers])


def _without_empty_answer(cluster: OnCluster, lacking: Container[str]) -> OnCluster:
    """Return the effect on a cluster; without an answer if this has no effects and simulates no changed workload.

    `lacking`: changed workloads that no cluster has.
    """
    absent = sum(name in lacking for name in cluster.absent)
    is_empty = cluster.answer is None or not (cluster.answer.conditions or cluster.answer.answer.new_pods)
    is_simulated = any(changed.kind in _ORDER[_ORDER.index("DaemonSet") :] for changed in cluster.simulated)
    if not absent or not is_empty or is_simulated or cluster.faults or cluster.reason:
        return cluster
    return cluster._replace(answer=None, reason=f"{plural(absent, 'changed workload')} not simulated")


def _notes(of_versions: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield each note once, with the name of the version that alone has it."""
    found = grouped((note, name) for name, notes in of_versions.items() for note in notes)
    for note, names in found.items():
        yield f"{names[0]}: {note}" if len(names) == 1 else note


def _on_cluster(
    name: str,
    load: Callable[[], Cluster],
    selected: tuple[Sequence[Difference], ...],
    places: Deployed,
    clusters: Container[str],
    request: DiffRequest,
    owners: versions.Owners,
) -> OnCluster:
    concerned, beside, scalers = (
        concerning(differences, name, clusters, places.clusters, request.config.options.clusters)
        for differences in selected
    )
    if not concerned:
        return OnCluster(name, [], [])
    absent: list[str] = []
    try:
        cluster = load()
        present, omitted, lacking = _found(concerned, cluster.snapshot)
        absent = [*dict.fromkeys(str(item.changed) for item in lacking)]
        without_class = [*_without_class(lacking, concerned, cluster)]
        if not (concerned := present):
            return _with_reasons(OnCluster(name, [], [], absent), without_class)
        namespaces = cluster.cache.snapshot().namespaces
        change = _Applied(concerned, beside, request.prune, places.order)
        answer, not_predicted = _predicted(whatif(cluster, change, until=request.until, tries_fixes=False))
        labels = {key[1]: namespace.labels.get(request.owner_label, "") for key, namespace in namespaces.items()}
        live = {key_of(obj): obj for obj in autoscalers_of(cluster.cache, cluster.sources) or ()}
        of_replicas = any(field.name == "replicas" for item in concerned for field in item.changed.fields)
        if of_replicas and not live:
            answer = replace(answer, head=replace(answer.head, assumes=(*answer.head.assumes, NO_AUTOSCALERS)))
        pruned = [] if request.prune else [*_pruned(concerned, cluster)]
        effect = OnCluster(
            name,
            rejected=[],
            namespaces=[],
            absent=absent,
            resets=[*_resets(concerned, cluster.snapshot, live, scalers)],
            passed=_passed(answer.answer.new_pods, cluster.snapshot),
            pruned=pruned,
            not_predicted=not_predicted,
            answer=answer,
            applied=[item.changed for item in concerned],
            omitted=omitted,
        )
        effect = _with_reasons(effect, [*answer.faults, *without_class])
        affected = _affected(answer, lambda namespace: labels.get(namespace) or owners.first_owners(namespace))
        return effect._replace(namespaces=affected)
    except Rejected as fault:
        return _with_reasons(OnCluster(name, [], [], absent), fault.faults)
    except NO_ANSWER as fault:
        return OnCluster(name, [], [], reason=one_line(str(fault)))


def _found(
    concerned: Sequence[Difference], snapshot: ClusterSnapshot
) -> tuple[list[Difference], list[ChangedObject], list[Difference]]:
    """Return (the differences that a cluster can get; the changes of workloads that it lacks and another directory
    creates; the other differences of workloads that it lacks).
    """
    gone = [difference for difference in concerned if _is_absent(difference, snapshot)]
    found = _distinct(difference for difference in concerned if difference not in gone)
    used = {item.changed.identity for item in found}
    omitted = [item.changed for item in gone if item.changed.identity in used]
    return found, omitted, [item for item in gone if item.changed.identity not in used]


def _without_class(
    lacking: Iterable[Difference], changed: Iterable[Difference], cluster: Cluster
) -> Iterator[InvalidObject]:
    """Yield the error of each workload that the cluster lacks, if kube-apiserver rejects it or its Pods."""
    cache = cluster.cache.copy()
    for item in changed:
        if item.after is not None and group_kind(item.after.object) == registry.PRIORITY_CLASS:
            cache.add(item.after.object)
    for item in lacking:
        obj = _placed(item.after.object, item.changed.namespace) if item.after else NOTHING
        fault = not_admitted(cache.snapshot(), obj)
        yield from [fault] if fault else []


def _distinct(differences: Iterable[Difference]) -> list[Difference]:
    """Return the differences; if several directories create equal objects, only the first of these."""
    distinct: list[Difference] = []
    seen: dict[tuple[str, ...], list[ApiObject]] = defaultdict(list)
    for difference in differences:
        changed, after = difference.changed, difference.after
        content = _content(after.object) if after else NOTHING
        alike = seen[changed.identity]
        if content not in alike:
            alike.append(content)
            distinct.append(difference)
    return distinct


def _content(obj: ApiObject) -> ApiObject:
    """The content by which objects are compared: their fields without metadata (of Pods, with labels and annotations),
    and the order in which they are applied.
    """
    kept = ("labels", "annotations") if group_kind(obj) == registry.POD else ()
    return {**obj, "metadata": {key: at(obj, "metadata", key) for key in kept}, "order": position_of(obj)}


def _with_reasons(cluster: OnCluster, faults: Sequence[Exception]) -> OnCluster:
    """Add the errors of rejected objects, of objects whose Pods are rejected, and of objects without a prediction."""
    reasons: tuple[list[str], list[str], list[str]] = [], [], []
    for fault in faults:
        number = 1 if isinstance(fault, PodsRejected) else 0 if is_rejection(fault) else 2
        reasons[number].append(one_line(str(fault)))
    rejected, of_pods, unpredicted = reasons
    rejections = [*filter(is_rejection, faults)]
    why = why_rejected(rejections) if rejections else None
    if (answer := cluster.answer) is not None:
        answer = replace(answer, document=document_of(Simulated(answer.answer, None, rejections, answer.others)))
    return cluster._replace(rejected=rejected, rejected_pods=of_pods, unpredicted=unpredicted, why=why, answer=answer)


def _predicted(applied: WhatIf) -> tuple[WhatIf, list[WorkloadCount]]:
    """Return an answer without the workloads whose new Pods are Pending only because forewarn does not simulate volumes
    that a provisioner creates, and without reactions to these Pods; and these workloads.
    """
    answer, after = applied.answer, applied.answer.after
    has_new_volumes = any(note.endswith(OF_NEW_VOLUMES) for note in after.not_modelled)
    unknown = [
        each
        for each in (after.workloads if has_new_volumes else ())
        if each.not_started and not each.lost and UNBOUND_IMMEDIATE.reasons[0] in each.message
    ]
    if not unknown:
        return applied, []
    of, count = answer.autoscalers, sum(workload.pending for workload in unknown)
    ca, karpenter = (
        each._replace(considered=max(each.considered - count, 0), pending=max(each.pending - count, 0))
        for each in (of.cluster_autoscaler, of.karpenter)
    )
    left = after._replace(workloads=[workload for workload in after.workloads if workload not in unknown])
    reactions = of._replace(cluster_autoscaler=ca, karpenter=karpenter)
    return replace(applied, answer=answer._replace(after=left, autoscalers=reactions)), unknown


OF_NEW_VOLUMES: Final = (IMMEDIATE_VOLUMES, COPIED_VOLUMES)


def _resets(
    concerned: Iterable[Difference],
    snapshot: ClusterSnapshot,
    live: Mapping[tuple[str, str], ApiObject],
    scalers: Iterable[Difference],
) -> Iterator[Reset]:
    """Yield the fields that an apply sets in addition to the change, and replicas that do not last. `live`: the
    autoscalers of the cluster. `scalers`: those of the manifests.
    """
    found = {**live, **{item.changed.identity[1:]: item.after.object for item in scalers if item.after}}
    by_target = {target_of(namespace, obj): (name, obj) for (namespace, name), obj in found.items()}
    for changed, before, after in concerned:
        if after is None:
            continue
        kind, name = group_kind(after.object), f"{changed.namespace}/{changed.name}"
        stored = snapshot.workloads.get((kind, changed.namespace, changed.name)) if kind in _WORKLOADS else None
        now = stored.object if before is not None and stored is not None else NOTHING
        replicas = _scaled_down(name, before.object if before else NOTHING, after.object, now)
        if replicas or any(field.name == "replicas" for field in changed.fields):
            scaler = by_target.get((kind, changed.namespace, changed.name), ("", NOTHING))
            replicas = _autoscaled(name, after.object, *scaler, replicas) or replicas
        yield from [replicas] if replicas else []
        edited = ["replicas"] * (replicas is not None) + [field.name for field in changed.fields]
        for field in changed_fields(now, after.object) if now else ():
            if field.after and _is_drift(field.name, edited):
                yield Reset(name, *field, "drift")


def _is_drift(field: str, edited: Iterable[str]) -> bool:
    """Report whether to show a field that differs in the cluster: it is relevant, and the change does not edit it."""
    is_edited = any(f"{name}.".startswith(f"{field}.") or f"{field}.".startswith(f"{name}.") for name in edited)
    return not is_edited and field.partition(".")[0] in ("priorityClassName", "replicas", "requests")


def _scaled_down(name: str, before: ApiObject, after: ApiObject, now: ApiObject) -> Reset | None:
    """The replicas of a workload that something else has scaled up, such as a HorizontalPodAutoscaler, or whose
    manifest has no number of replicas any more, so that it gets the default.
    """
    old, new, running = (at(obj, "spec", "replicas") for obj in (before, after, now))
    base = old if isinstance(old, int) else None
    if base is not None and new is None:
        old, new = 1, 1
    is_more = isinstance(running, int) and isinstance(new, int) and running > new
    if not is_more or (isinstance(old, int) and running <= old) or group_kind(after) == registry.DAEMON_SET:
        return None
    return Reset(name, "replicas", str(running), str(new), "unset" if base == running else "drift")


def _autoscaled(name: str, after: ApiObject, scaler: str, obj: ApiObject, reduced: Reset | None) -> Reset | None:
    """The replicas of a workload that its HorizontalPodAutoscaler changes, because the apply has `reduced` them or they
    are beyond its limits.
    """
    replicas, (least, most) = (
        at(after, "spec", "replicas"),
        (at(obj, "spec", f"{end}Replicas") for end in ("min", "max")),
    )
    replicas, least = 1 if replicas is None else replicas, 1 if least is None else least
    is_valid = isinstance(replicas, int) and isinstance(least, int) and isinstance(most, int) and replicas
    if not is_valid or (reduced is None and least <= replicas <= most):
        return None
    later = f"{min(max(replicas, least), most)} (HorizontalPodAutoscaler {scaler}: {least} to {most})"
    return Reset(name, "replicas", reduced.before if reduced else "", str(replicas), "autoscaler", later)


def _pruned(concerned: Iterable[Difference], cluster: Cluster) -> Iterator[Pruned]:
    before, templates = cluster.snapshot, {}
    for changed, _, after in concerned:
        if after is not None:
            templates[group_kind(after.object), changed.namespace, changed.name] = after.object
    for changed, old, _ in concerned:
        if changed.operation == "deleted" and old is not None and group_kind(old.object) == registry.PRIORITY_CLASS:
            cache = cluster.cache.copy()
            cache.remove(old.object)
            ranked = class_change.ranked(before, cache.snapshot(), templates)
            if left := [of for of in ranked if of.before and of.after is None]:
                running = sum(sum(of.running.values()) for of in left)
                yield Pruned(changed.name, len(left), running, [of.workload for of in left])


def _passed(new_pods: Sequence[Ranked], snapshot: ClusterSnapshot) -> list[Passed]:
    ranked = [(of.workload, of.before.priority, of.after.priority) for of in new_pods if of.before and of.after]
    own, steps = {name for name, *_ in ranked}, {(before, after) for _, before, after in ranked}
    above, below = Counter[str](), Counter[str]()
    for pod in snapshot.pods.values() if steps else ():
        priority = pod.effective_priority
        up = any(before <= priority < after for before, after in steps)
        down = any(after < priority <= before for before, after in steps)
        if (up or down) and pod.node_name and not pod.terminal and snapshot.top_workload_of(pod) not in own:
            (above if up else below)[pod.priority_class_name or NO_CLASS] += 1
    names = sorted(above.keys() | below, key=lambda name: (-above[name] - below[name], name))
    return [Passed(name, above[name], below[name]) for name in names]


def _is_absent(difference: Difference, snapshot: ClusterSnapshot) -> bool:
    changed, after = difference.changed, difference.after
    if changed.operation != "changed" or after is None or group_kind(after.object) not in _WORKLOADS:
        return False
    return (group_kind(after.object), changed.namespace, changed.name) not in snapshot.workloads


_WORKLOADS: Final = ("apps/Deployment", "apps/StatefulSet", "apps/DaemonSet")


def _affected(applied: WhatIf, owner: Callable[[str], str]) -> list[AffectedNamespace]:
    """Return the counters of each affected namespace, by the definitions of `Effects`."""
    answer, reserving = applied.answer, applied.answer.placeholders
    own, new_pods = own_workloads(answer), answer.new_pods
    counts: dict[str, Iterable[tuple[str, int]]] = {
        "lost": ((each.namespace, each.lost) for each in own),
        "preempted": ((each.victim, 1) for each in applied.preemptions if each.workload not in reserving),
        "pending": ((each.namespace, each.more_pending) for each in own),
        "rejected": _rejected(applied),
        "removed": ((each.namespace, each.removed) for each in applied.workloads),
        "placeholders": ((each.victim, 1) for each in applied.preemptions if each.workload in reserving),
        "new_priority": ((each.workload, 1) for each in new_pods if each.after is not None),
    }
    sums = defaultdict[str, Counter[str]](Counter)
    for field, numbers in counts.items():
        for name, number in numbers:
            sums[name.partition("/")[0]][field] += number
    affected = [AffectedNamespace(name, owner(name), **dict(+of)) for name, of in sums.items() if name and +of]
    return sorted(affected, key=lambda item: ([-number for number in item[2:]], item.namespace))


def _rejected(applied: WhatIf) -> Iterator[tuple[str, int]]:
    """Yield the rejected Pods and objects by a name that begins with the namespace."""
    answer = applied.answer
    yield from ((answer.after.summary.names.group(name), pods) for name, pods in answer.count_over_quota.items())
    for fault in applied.faults:
        if isinstance(fault, InvalidObject) and fault.ref is not None:
            yield fault.ref.namespace, 1
    yield from ((each.workload, each.rejected) for each in answer.new_pods)


def conditions(diff: Diff) -> set[str]:
    """Return the conditions of `--fail-on` that are met: the counters that are not 0, and `change`."""
    met = {"change"} if any(not changed.is_restart for changed in diff.objects) else set[str]()
    for cluster in diff.clusters:
        met |= {"rejected"} if cluster.faults else set()
        met |= cluster.answer.conditions if cluster.answer else set()
    return met


@dataclass(frozen=True)
class _Applied:
    """The change of manifests is applied, in the order of Flux, Argo CD and Helm.

    `beside`: objects that the Pods of `found` may need. `prune`: delete objects that the new version lacks. `order`: of
    Flux Kustomizations.
    """

    found: Sequence[Difference]
    beside: Sequence[Difference]
    prune: bool
    order: FluxOrder

    def question(self, start: Start) -> Question:
        """Return the question. Raises InvalidInput if two directories define one object."""
        for several in grouped((difference.changed.identity, difference) for difference in self.found).values():
            if len(several) > 1:
                places = listed([item.changed.directory for item in several])
                problem = f"{several[0].changed} changes in several directories ({places})"
                raise InvalidInput(f"{problem}. {FIX_OF_DIRECTORIES}")
        needed = {item.changed.identity: item for item in self.beside}.values()

        def position(difference: Difference) -> tuple[bool, int, tuple[int, int], int]:
            """Return the sort key of the applies; deletions come last, as with Argo CD and Helm."""
            obj, kind = (difference.after or difference.before), difference.changed.kind
            step = position_of(obj.object) if obj else None
            depth = self.order.depth(self.order.nearest(difference.changed.directory))
            return (
                difference.after is None,
                depth,
                step or (0, 0),
                _ORDER.index(kind) if kind in _ORDER else len(_ORDER),
            )

        ordered = sorted([*self.found, *needed], key=position)
        return Question("change applied", list(_arrivals(ordered, start.cluster, prune=self.prune)))


def concerning(
    changed: Iterable[Difference],
    cluster: str,
    clusters: Container[str],
    deployed: Mapping[str, set[str]],
    configured: Iterable[tuple[str, Sequence[str]]] = (),
) -> list[Difference]:
    """Return the differences that concern a cluster.

    `configured`: clusters and the patterns of their directories. `deployed`: directory -> its clusters, see `Deployed`,
    for directories without a pattern. The objects of other directories concern all clusters,
    unless a directory above them has the name of one.
    """

    def concerns(difference: Difference) -> bool:
        directory = difference.changed.directory
        if named := {name for name, patterns in configured if is_in(directory, patterns)}:
            return cluster in named
        if (among := nearest(directory, deployed)) is not None:
            return cluster in among
        steps = directory.split("/")
        return cluster in steps or not any(step in clusters for step in steps)

    return [difference for difference in changed if concerns(difference)]


def _with_namespace(difference: Difference, places: Deployed, default: str) -> Difference:
    """Return a difference in the namespace in which its tool applies the object."""
    subject, changed = difference.after or difference.before, difference.changed
    if subject is None or not registry.is_namespaced(group_kind(subject.object)):
        return difference
    namespace = places.namespace(subject.object, changed.directory, default)
    return difference._replace(changed=changed._replace(namespace=namespace))


def _arrivals(changed: Iterable[Difference], cluster: ClusterSnapshot, *, prune: bool) -> Iterator[Arrival]:
    for difference in changed:
        before, after, namespace = difference.before, difference.after, difference.changed.namespace
        if after is not None and position_of(after.object) is not None:
            yield from arrivals_of(cluster, _placed(after.object, namespace), before.object if before else NOTHING)
        elif after is None and prune and before is not None:
            yield Arrival(0.0, "delete", _placed(before.object, namespace))


def _placed(obj: ApiObject, namespace: str) -> ApiObject:
    return {**obj, "metadata": {**mapping(obj, "metadata"), "namespace": namespace}} if namespace else obj
