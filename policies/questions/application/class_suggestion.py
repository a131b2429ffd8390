"""`classes suggest`: PriorityClasses for the workloads without one, by fixed rules, and their effect if a zone is lost.

The rules ignore names. They use the kind of a workload, its PodDisruptionBudgets and HorizontalPodAutoscalers, and the
classes of similar workloads.
"""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, inlined_in_json
from forewarn.policies.base.documents.answer import (
    NO_CLASS,
    AnswerDocument,
    AnswerStatus,
    Cell,
    Counter,
    Effects,
    Rows,
    Table,
)
from forewarn.policies.base.findings import grouped, listed, plural
from forewarn.policies.base.process_pool import mapped
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Result
from forewarn.policies.kubernetes.controllers.own_pods import pods_of
from forewarn.policies.kubernetes.controllers.view import Key, workload_key
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.priority import is_recommended
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, ref_of, string_map, text_at
from forewarn.policies.kubernetes.objects.priority_class import (
    HIGHEST_USER_DEFINABLE_PRIORITY,
    PREEMPT_LOWER_PRIORITY,
    PREEMPT_NEVER,
    PriorityClass,
)
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.questions.application.cluster import Cluster, Progress, autoscaling_for, head_with_nodes
from forewarn.policies.questions.application.fixes import tried_fix
from forewarn.policies.questions.application.overview import MAX_LOST_PODS
from forewarn.policies.questions.application.whatif import sweep_of
from forewarn.policies.questions.whatif.class_change import is_replaced_by_restart, ranked, with_class, with_field
from forewarn.policies.questions.whatif.questions import each_lost, largest_losses, simulated_losses, target_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from forewarn.policies.base.documents.answer import Fix
    from forewarn.policies.prediction.simulation.scenario import DumpCache
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling
    from forewarn.policies.questions.whatif.sweep import Row, Sweep


class _Tier(NamedTuple):
    """A rule: its workloads, and the class to create for them if no class of the cluster is suitable."""

    rule: str
    name: str
    value: int
    preemption_policy: str = PREEMPT_LOWER_PRIORITY


AGENT: Final = _Tier("DaemonSets: their Pods run on one node only", "node-agent", 1_000_000)
STATE: Final = _Tier("StatefulSets: their Pods keep state", "stateful", 100_000)
GUARDED: Final = _Tier("with a PodDisruptionBudget or an HPA", "available", 50_000)
OTHER: Final = _Tier("other workloads", "standard", 10_000)
BATCH: Final = _Tier("Jobs and CronJobs: they can wait", "batch", 1_000, PREEMPT_NEVER)
_TIERS: Final = (AGENT, STATE, GUARDED, OTHER, BATCH)
"""The rules, by descending value."""


class SuggestedClass(NamedTuple):
    """A PriorityClass for the workloads of a rule. `new`: whether the cluster does not have it yet. `workloads`: those
    without a class that would get it, most Pods first, as `kind namespace/name`. `pods`: their running Pods.
    """

    class_: str
    value: int
    new: bool
    rule: str
    workloads: Sequence[str]
    pods: int


class DefaultedWorkload(NamedTuple):
    """A workload that names no class, so that its Pods get the global default. `pods`: the number of running ones."""

    workload: str
    class_: str
    pods: int


class ZoneLoss(NamedTuple):
    """The counters after the loss of a zone, `now` and `then`, with the suggested classes. `harmed`: of the workloads
    that get a class, those with preempted Pods or lost replicas. `lost_of`: the classes that lose other numbers of
    replicas with the suggested classes, those that lose more first.
    """

    zone: str
    now: Effects
    then: Effects
    harmed: int = 0
    harmed_then: int = 0
    lost_of: Sequence[str] = ()


@dataclass(frozen=True, repr=False)
class Suggestion(Result):
    """The output of `forewarn classes suggest`.

    `classes`: the highest value first. `zones`: what the loss of each zone changes, the worst first. `without`: Pods of
    no workload that have no class. `defaulted`: the workloads that have only the global default, most Pods first.
    `restarted`: Pods of the workloads that get a class, if their rollout replaces them. `manifest`: the new
    PriorityClasses, and the workloads with their class, for `classes plan -f`. `options`: those that name the cluster.
    """

    classes: Sequence[SuggestedClass]
    zones: Sequence[ZoneLoss]
    without: int
    defaulted: Sequence[DefaultedWorkload]
    restarted: int
    manifest: Hidden[Sequence[ApiObject]]
    notes: Sequence[str]
    options: Hidden[str] = ""

    @inlined_in_json
    def document(self) -> AnswerDocument:
        given = [each for each in self.classes if each.workloads]
        workloads = sum(len(each.workloads) for each in given)
        new = sum(each.new for each in given)
        classes = plural(new, "new class", "new classes") if new else "classes that exist"
        clause = f"{plural(workloads, 'workload')} without a class, {classes} for them"
        default = f", {len(self.defaulted)} only the global default" if self.defaulted else ""
        rows: Rows = [
            [
                *(each.class_, each.value, "new" if each.new else "exists", len(each.workloads), each.pods),
                f"{each.rule}: {listed(each.workloads, 3)}",
            ]
            for each in given
        ]
        heads = "ZONE LOST", "PREEMPTED", "PENDING", "LOST", "JOBS FAILED", "LISTED WORKLOADS HARMED", "LOST BY CLASS"
        zones: Rows = [
            [
                each.zone,
                *(_changed(getattr(each.now, name), getattr(each.then, name)) for name in _OF_ZONES),
                _changed(each.harmed, each.harmed_then),
                listed(each.lost_of, 4),
            ]
            for each in self.zones
        ]
        names: Rows = [[each.class_, name] for each in given for name in each.workloads]
        return AnswerDocument(
            status=AnswerStatus.WARN if given else AnswerStatus.OK,
            question="PriorityClasses",
            clause=clause if given else f"all workloads have one{default}",
            shown=[
                Counter("workloads without a class", workloads),
                Counter("their Pods", sum(each.pods for each in given)),
                Counter("other Pods without a class", self.without, optional=True),
                Counter("workloads with only the global default", len(self.defaulted), optional=True),
            ],
            warnings=self.notes,
            tables=[
                Table(("CLASS", "VALUE", "STATE", "WORKLOADS", "PODS", "RULE AND NAMES"), rows),
                Table(heads, zones, zeros=True),
                Table(("WORKLOAD THAT NAMES NO CLASS", "GLOBAL DEFAULT", "PODS"), self.defaulted),
                Table(("CLASS", "WORKLOAD"), names, detail=1),
            ],
            fix=[*self._fixes()],
            more=("-o yaml=classes.yaml", "forewarn classes plan -f classes.yaml", "-v workloads") if given else (),
        )

    def _fixes(self) -> Iterator[Fix]:
        for each in self.zones[:1]:
            if each.now.preempted - each.then.preempted > max(each.then.pending - each.now.pending, 0):
                restart = f"; {plural(self.restarted, 'Pod restarts', 'Pods restart')}" if self.restarted else ""
                save = f"forewarn classes suggest{self.options} -o yaml=classes.yaml"
                plan = f"forewarn classes plan{self.options} -f classes.yaml"
                command = f"{save}; {plan}; then kubectl apply --server-side in the steps of the plan"
                fix = tried_fix(command, each.now, each.then, _OF_ZONES)
                yield fix._replace(effect=f"zone {each.zone} lost: {fix.effect}{restart}")


def suggest_classes(
    cluster: Cluster, *, autoscaling: Autoscaling | None = None, progress: Progress | None = None
) -> Suggestion:
    """Return PriorityClasses for the workloads without one, and their effect if a zone is lost.

    Raises SourceError and InvalidObject.
    """
    cluster.require(registry.NODE, registry.POD, registry.PRIORITY_CLASS)
    snapshot, autoscaling = cluster.snapshot, autoscaling_for(cluster, autoscaling)
    by_tier, classed, without, defaulted = _workloads(cluster)
    taken = {each.value for each in snapshot.priority_classes.values()}
    suggested, changed, manifest = list[SuggestedClass](), dict["Key", tuple[ApiObject, PriorityClass]](), list[Any]()
    restarted = 0
    for tier in _TIERS:
        known = _class_of_most(snapshot, classed[tier])
        chosen = known or _new_class(tier, snapshot, taken, autoscaling.cutoff)
        workloads = sorted(by_tier[tier], key=lambda obj: -len(pods_of(snapshot, obj)))
        pods = [pods_of(snapshot, obj) for obj in workloads]
        names = [_object_name(obj) for obj in workloads]
        running = sum(bool(pod.node_name) for own in pods for pod in own)
        restarted += sum(len(own) for obj, own in zip(workloads, pods, strict=True) if is_replaced_by_restart(obj))
        rule = tier.rule if known is None else f"{tier.rule}; most of the others have it"
        suggested.append(SuggestedClass(chosen.name, chosen.value, known is None, rule, names, running))
        if known is None and workloads:
            taken.add(chosen.value)
            manifest.append(chosen.to_api())
        changed |= {workload_key(obj): (obj, chosen) for obj in workloads}
    manifest += [_patch(obj, chosen.name) for obj, chosen in changed.values()]
    zones, notes = _losses(cluster, changed, autoscaling, progress)
    immutable = sum(key[0] == registry.JOB for key in changed)
    if immutable:
        notes.append(f"{plural(immutable, 'Job')} cannot change: only new ones get the class")
    head = head_with_nodes(snapshot, autoscaling.assumes, is_loss=bool(zones))
    return Suggestion(head, suggested, zones, without, defaulted, restarted, manifest, notes, cluster.options)


def _losses(
    cluster: Cluster,
    changed: Mapping[Key, tuple[ApiObject, PriorityClass]],
    autoscaling: Autoscaling,
    progress: Progress | None,
) -> tuple[list[ZoneLoss], list[str]]:
    """Return the effect of losing each zone, now and with the classes, and what the simulations leave out."""
    every = each_lost(cluster.snapshot, "zone")
    if not changed or not every:
        return [], []
    losses = largest_losses(cluster.snapshot, every, MAX_LOST_PODS)

    def sweep(subject: Cluster) -> Sweep:
        return sweep_of(subject, "zone", losses, autoscaling=autoscaling)

    def report() -> None:
        if progress is not None:
            progress(0, 0)

    both = mapped([cluster, cluster.replaced(_with_classes(cluster, changed))], sweep, waiting=report)
    now, then = both
    pairs = [(row, next(other for other in then.cases if other.case == row.case)) for row in now.cases]
    names = {part for obj, _ in changed.values() for part in (_object_name(obj), _object_name(obj).partition(" ")[2])}
    zones = [
        ZoneLoss(
            pair[0].name,
            *(row.counters for row in pair),
            *(len(names.intersection([*row.victims, *row.workloads])) for row in pair),
        )._replace(lost_of=moved_losses(*pair))
        for pair in pairs
    ]
    return zones, [*simulated_losses(losses, every, "zone"), *then.notes]


_OF_ZONES: Final = ("preempted", "pending", "lost", "jobs_failed")
"""The counters of the table of zones."""


def _changed(now: int, then: int) -> Cell:
    return f"{now:,} → {then:,}" if now != then else now


def moved_losses(now: Row, then: Row) -> list[str]:
    """Return the classes whose workloads lose more or fewer replicas than now, the largest increase first.

    `then`: with the suggested classes, by which the workloads are counted in both rows.
    """
    before, after = lost = Tally[str](), Tally[str]()
    for counts, row in zip(lost, (now, then), strict=True):
        for name, loss in row.lost.items():
            counts[then.lost.get(name, loss).priority_class] += loss.replicas
    changed = sorted(name for name in before | after if before[name] != after[name])
    changed.sort(key=lambda name: before[name] - after[name])
    return [f"{name or NO_CLASS} {before[name]:,} → {after[name]:,}" for name in changed]


def _object_name(obj: ApiObject) -> str:
    return f"{group_kind(obj).rpartition('/')[2]} {'/'.join(ref_of(obj, 'default')[2:])}"


def _workloads(
    cluster: Cluster,
) -> tuple[Mapping[_Tier, list[ApiObject]], Mapping[_Tier, Tally[str]], int, list[DefaultedWorkload]]:
    """Return, by rule, the workloads without a class and the classes of the others with their numbers of workloads; the
    number of Pods without class and workload; and the workloads with only the global default.
    """
    snapshot, options = cluster.snapshot, cluster.config.options
    scaled = {target_of(key[0], obj) for key, obj in cluster.cache.autoscalers.items()}
    without: dict[_Tier, list[ApiObject]] = {tier: [] for tier in _TIERS}
    classed: dict[_Tier, Tally[str]] = {tier: Tally() for tier in _TIERS}
    alone, defaulted = 0, list[DefaultedWorkload]()
    for each in ranked(snapshot, snapshot):
        if each.before is None:
            continue
        name, kind = each.before.priority_class_name, group_kind(each.object)
        if kind == registry.POD or kind not in registry.POD_TEMPLATE_PATHS:
            alone += 0 if name else sum(each.running.values())
            continue
        if any(is_placeholder(pod, options) for pod in pods_of(snapshot, each.object)):
            continue
        tier = _tier_of(snapshot, each.object, is_scaled=workload_key(each.object) in scaled)
        template = pod_template_of(each.object, registry.POD_TEMPLATE_PATHS)
        if name:
            classed[tier][name] += 1
            if template is not None and not text_at(template.object, "spec", "priorityClassName"):
                defaulted.append(DefaultedWorkload(_object_name(each.object), name, sum(each.running.values())))
        else:
            without[tier].append(each.object)
    return without, classed, alone, sorted(defaulted, key=lambda each: (-each.pods, each.workload))


def _tier_of(cluster: ClusterSnapshot, obj: ApiObject, *, is_scaled: bool) -> _Tier:
    of_kind = {
        registry.DAEMON_SET: AGENT,
        registry.STATEFUL_SET: STATE,
        registry.JOB: BATCH,
        registry.CRON_JOB: BATCH,
    }.get(group_kind(obj))
    if of_kind is not None:
        return of_kind
    template, namespace = pod_template_of(obj, registry.POD_TEMPLATE_PATHS), ref_of(obj, "default").namespace
    labels = string_map(template.object, "metadata", "labels") if template is not None else {}
    pdbs = (pdb for pdb in cluster.objects.pdbs.values() if pdb.namespace == namespace and pdb.selector is not None)
    guarded = is_scaled or any(pdb.selector is not None and pdb.selector.matches(labels) for pdb in pdbs)
    return GUARDED if guarded else OTHER


def _class_of_most(cluster: ClusterSnapshot, classed: Tally[str]) -> PriorityClass | None:
    """Return the class that more than half of a rule's workloads with a class name; None if there is no such class."""
    for name, count in sorted(classed.items(), key=lambda each: (-each[1], each[0]))[:1]:
        found = cluster.priority_classes.get(name)
        if found is not None and 2 * count > classed.total() and is_recommended(found):
            return found
    return None


def _new_class(tier: _Tier, cluster: ClusterSnapshot, taken: set[int], cutoff: int) -> PriorityClass:
    """Return a class with the value of a rule, or the next higher free one, and a free name.

    `cutoff`: below it, cluster-autoscaler adds no nodes for Pods.
    """
    value = max(tier.value, min(cutoff, HIGHEST_USER_DEFINABLE_PRIORITY // 2))
    while value in taken:
        value += max(tier.value // 10, 1)
    name, number = tier.name, 2
    while name in cluster.priority_classes:
        name, number = f"{tier.name}-{number}", number + 1
    return PriorityClass(name, value, preemption_policy=tier.preemption_policy, description=tier.rule)


def _patch(obj: ApiObject, name: str) -> ApiObject:
    """Return a patch that only sets a workload's class, for `kubectl apply --server-side`."""
    metadata = {key: at(obj, "metadata", key) for key in ("name", "namespace")}
    named = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    return with_field(named, name, *registry.POD_TEMPLATE_PATHS[group_kind(obj)], "spec", "priorityClassName")


def _with_classes(cluster: Cluster, changed: Mapping[Key, tuple[ApiObject, PriorityClass]]) -> DumpCache:
    """Return the cluster after all Pods of these workloads were replaced by Pods with the classes."""
    cache, snapshot = cluster.cache.copy(), cluster.snapshot
    for chosen in {chosen for _, chosen in changed.values()}:
        cache.add(chosen.to_api())
    views: dict[tuple[str, str], Any] = {}
    for obj, chosen in changed.values():
        cache.add(with_class(obj, chosen.name))
        for pod in pods_of(snapshot, obj):
            views[pod.namespace, pod.name] = replace(
                pod,
                priority=chosen.value,
                priority_class_name=chosen.name,
                preemption_policy=chosen.preemption_policy,
            )
    owned = grouped(
        (workload.controller[1], key) for key, workload in snapshot.workloads.items() if workload.controller[1]
    )
    for (_, namespace, name), (_, chosen) in changed.items():
        for key in owned.get(name, ()):
            if key[1] == namespace:
                cache.add(with_class(snapshot.workloads[key].object, chosen.name))
    cache.put_views({registry.POD: views})
    return cache
