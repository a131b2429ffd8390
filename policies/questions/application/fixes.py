"""Fixes for the harm of a simulated change. Each is tested: the same question is asked again with the fix applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.documents.answer import AnswerDocument, Effects, Fix, Range, label
from forewarn.policies.base.findings import grouped, listed, plural
from forewarn.policies.base.process_pool import mapped
from forewarn.policies.kubernetes.controllers.templates import made_of, template_of
from forewarn.policies.kubernetes.controllers.view import workload_key
from forewarn.policies.kubernetes.kinds.registry import (
    COUNT_PATHS,
    DAEMON_SET,
    DEFAULT_NAMESPACE,
    JOB,
    NODE,
    POD_TEMPLATE_PATHS,
)
from forewarn.policies.kubernetes.kube_apiserver.quota import ExceededQuota
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    group_kind,
    int32,
    items,
    mapping,
    mapping_at,
    ref_of,
    text_at,
)
from forewarn.policies.kubernetes.objects.node import HOSTNAME
from forewarn.policies.kubernetes.quantity import NANO, ZERO, Quantity, format_units
from forewarn.policies.prediction.simulation.summary import missing
from forewarn.policies.questions.application.removal import may_fail
from forewarn.policies.questions.whatif.autoscalers import Autoscaling, PendingPods, autoscalers
from forewarn.policies.questions.whatif.class_change import with_field
from forewarn.policies.questions.whatif.effects import own_workloads
from forewarn.policies.questions.whatif.node_bands import zone_of
from forewarn.policies.questions.whatif.node_groups import free_names, new_node_like, pool_of
from forewarn.policies.questions.whatif.questions import group_like

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
    from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import NodeGroup
    from forewarn.policies.prediction.simulation.simulation import Simulation
    from forewarn.policies.questions.application.cluster import Cluster
    from forewarn.policies.questions.whatif.answer import Answer

MAX_NODES: Final = 500
"""Maximum number of nodes of a cluster for which fixes are tried: each takes as long as the answer itself."""
_WORK: Final = 2
"""No further trial begins once all trials together have this many times the events of the answer."""
_MIN_EVENTS: Final = 50_000
"""The same limit for an answer with few events, such as a blocked upgrade, which has hardly any."""
_HEADLINE: Final = ("blocked", "lost", "jobs_failed", "preempted", "pending")
_ALSO: Final = ("pdbs_violated", "pdbs_short", "placeholders")
"""Counters, with those of `_HEADLINE`, that the effect of a fix names whenever they change."""
_MIN_SHARE: Final = 10
_RAISED: Final = ("lost", "pending", "preempted")
_MAX_HIGHER: Final = 2
_NOT_SHOWN: Final = ("down_seconds", "victims")
"""Counters that the effect of a fix does not name."""
_LOWEST: Final = -(2**31)
_APPLIES: Final = ("create", "update", "scale")
"""Operations of arrivals with a number of Pods."""
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class Edit(NamedTuple):
    """A fix to try: what to do, the changed objects, and the counter that must fall. `nodes`: new ones. `applied`:
    changed objects that the question applies or scales.
    """

    action: str
    objects: Sequence[ApiObject]
    counter: str
    nodes: Sequence[Node] = ()
    applied: Sequence[ApiObject] = ()


class Trial(NamedTuple):
    """Edits that were tried together: the counters with them, what to add next, if anything, and the
    simulated events. `ranges`: of counters that chance decides.
    """

    edits: Sequence[Edit]
    after: Effects
    others: Sequence[Edit]
    events: int
    ranges: Mapping[str, Range] = NOTHING

    def fix(self, before: Effects, ranges: Mapping[str, Range]) -> Fix:
        """Return the edits with the counters that they change."""
        action = "; ".join(each.action for each in self.edits)
        counters = [each.counter for each in self.edits]
        return tried_fix(action, before, self.after, counters, ranges=ranges, ranges_after=self.ranges)


def tested_fixes(
    cluster: Cluster,
    answer: Answer,
    effects: Effects,
    ask: Callable[[Cluster, Sequence[ApiObject]], tuple[Answer, Effects]],
) -> list[Fix]:
    """Return the fixes that leave fewer Pods lost, Pending and preempted, each with its effect, the most effective
    first: all edits of objects together, new nodes alone, both, and each edit of what the question applies. If there
    are none, return fixes that lower a counter. `ask`: asks the same question about another cluster, with these
    objects in place of those that it applies or scales.
    """
    if len(cluster.snapshot.objects.nodes) > MAX_NODES:
        return []
    most = max(_WORK * _events_of(answer), _MIN_EVENTS)
    objects, nodes = (_edits_for(edits_of(cluster, answer), effects) for edits_of in (_edits, _node_edits))

    def apply(edits: Sequence[Edit]) -> Trial:
        other, known = with_edits(cluster, edits), {each.counter for each in edits}
        again, after = ask(other, [*chain.from_iterable(each.applied for each in edits)])
        is_last = _events_of(again) >= most or bool(objects and edits is nodes) or bool(edits[0].applied)
        more = () if is_last else (_edits, _node_edits)
        others = (_edits_for(edits_of(other, again), after, known) for edits_of in more)
        return Trial(edits, after, next(filter(None, others), []), _events_of(again), _ranges_of(again))

    own = ([each] for each in _arrival_edits(answer))
    tried: list[Trial] = [*mapped([*filter(None, (objects, nodes)), *own], apply)]  # at the same time, on two CPUs
    last = tried[0] if tried else None
    while last is not None and last.others and sum(each.events for each in tried) < most:
        last = apply([*last.edits, *last.others])
        tried.append(last)
    return [*_fixes_of(tried, effects, answer)]


def with_fixes(document: AnswerDocument, fixes: Sequence[Fix], cluster: Cluster, answer: Answer) -> AnswerDocument:
    """Return the answer with its fixes; without any, for a harmful change, with the reason as the first warning, unless
    the answer names another fix.
    """
    effects, reaction = document.effects, answer.autoscalers
    if fixes or effects.rejected > answer.count_over_quota.total() or not any(_harm_of(effects, is_removal=False)):
        return replace(document, fix=fixes)
    tried = [*_edits(cluster, answer), *_node_edits(cluster, answer), *_arrival_edits(answer)]
    actions = [edit.action for edit in _edits_for(tried, effects)]
    causes = document.why.causes if document.why is not None else ()
    why = "no edit of a quota, PDB, rollout or Job applies"
    if actions:
        why = f"tried without help: {listed(actions, 2)}"
    elif len(cluster.snapshot.objects.nodes) > MAX_NODES:
        why = f"none is tried in a cluster of more than {MAX_NODES} nodes"
    elif any("Fix: " in text for text in (*document.warnings, *(cause.reason for cause in causes))):
        return document
    elif effects.pending and (reaction.node_groups or reaction.node_pools):
        why += ", and autoscalers decide about new nodes"
    return replace(document, fix=fixes, warnings=[f"no FIX: {why}", *document.warnings])


def _fixes_of(tried: Sequence[Trial], before: Effects, answer: Answer) -> Iterator[Fix]:
    """Yield the trials that do less harm, the best first; if there are none, the trials that lower a counter. A trial
    that does not lower the number of blocked nodes must not leave more Pods missing; preempted Pods run again.

    The best one that needs no new nodes and raises no counter of `_RAISED` comes first, unless it lowers the harm by
    less than `1 / _MIN_SHARE`.
    """
    ranges = _ranges_of(answer)
    is_removal = answer.removal is not None
    better, now = dict[tuple[Sequence[int], str], Trial](), _harm_of(before, is_removal=is_removal)
    for each in tried:
        then = _harm_of(each.after, is_removal=is_removal)
        if then < now and (then[0] < now[0] or missing_in(each.after) <= missing_in(before)):
            better.setdefault((then, each.edits[0].action if each.edits[0].applied else ""), each)
    ranked = sorted(better.items())
    free = [one for one in ranked if _is_free(one[1], before) and now[1] - one[0][0][1] >= now[1] / _MIN_SHARE]
    ranked = [*free[:1], *(one for one in ranked if one not in free[:1])]
    for _, each in ranked:
        yield each.fix(before, ranges)
    for each in tried if not better else ():
        if any(getattr(each.after, edit.counter) < getattr(before, edit.counter) for edit in each.edits):
            action, effect = each.fix(before, ranges)
            yield Fix(f"more harm than help: {action}", effect)


def _is_free(trial: Trial, before: Effects) -> bool:
    """Report whether the edits need no new nodes, and raise no counter of `_RAISED`."""
    raised = any(getattr(trial.after, name) > getattr(before, name) for name in _RAISED)
    return not raised and not any(edit.nodes for edit in trial.edits)


def _edits_for(edits: Iterable[Edit], effects: Effects, covered: Container[str] = ()) -> list[Edit]:
    """Return the edits for counters that are not 0, apart from `covered` ones."""
    return [each for each in edits if each.counter not in covered and getattr(effects, each.counter)]


def _events_of(answer: Answer) -> int:
    return len(answer.after.simulation.timeline.events)


def _harm_of(effects: Effects, *, is_removal: bool) -> tuple[int, ...]:
    """Return the numbers that a fix must lower, the most important first: blocked nodes (for a removal, also new
    nodes), Pods that do not run or are preempted, those that do not run, and failed Jobs.
    """
    return (
        effects.blocked + is_removal * effects.new_nodes,
        missing_in(effects) + effects.preempted,
        missing_in(effects),
        effects.jobs_failed,
    )


def missing_in(effects: Effects) -> int:
    """Return the number of Pods that do not run at the end."""
    return max(effects.lost, effects.pending + effects.rejected)


def _edits(cluster: Cluster, answer: Answer) -> list[Edit]:
    """Return the edits of objects to try; edits that help the most workloads come first."""
    kinds = _pdb_edits, quota_edits, _surge_edits, _job_edits
    edits = [each for edits_of in kinds for each in edits_of(cluster, answer)]
    if answer.removal is None or not edits:
        return edits
    objects = [*chain.from_iterable(each.objects for each in edits)]  # one trial, because each takes a whole search
    return [Edit("; ".join(each.action for each in edits), objects, "blocked")]


def tried_fix(
    action: str,
    before: Effects,
    after: Effects,
    counters: Sequence[str],
    *,
    ranges: Mapping[str, Range] = NOTHING,
    ranges_after: Mapping[str, Range] = NOTHING,
    hidden: Collection[str] = _NOT_SHOWN,
) -> Fix:
    """Return a fix with the counters that it changes, such as `blocked 40 → 0, but lost 11 → 12`.

    Names falling counters of `_HEADLINE`, `counters` and `_ALSO`, rising counters of `_HEADLINE` and `_ALSO`, and the
    two counters that rise most.

    `ranges`: of counters that depend on chance; a counter that stays in its range does not rise. `ranges_after`: with
    the fix. `hidden`: counters that are not named.
    """
    names = dict.fromkeys((*_HEADLINE, *counters, *_ALSO))
    rises = Counter({name: getattr(after, name) - getattr(before, name) for name in Effects._fields})
    by_chance = {name for name, each in ranges.items() if getattr(after, name) <= each.most}
    higher = [name for name, rise in rises.most_common() if rise > 0 and name not in (*by_chance, *hidden)]
    more = [name for place, name in enumerate(higher) if name in (*_HEADLINE, *_ALSO) or place < _MAX_HIGHER]
    lower = [name for name in names if rises[name] < 0 and name not in hidden]
    varies = {name: f" ({each.least:,} to {each.most:,})" for name, each in ranges_after.items()}
    changes = {name: f"{getattr(before, name):,} → {getattr(after, name):,}{varies.get(name, '')}" for name in rises}
    parts = (", ".join(f"{label(name)} {changes[name]}" for name in part) for part in (lower, more))
    return Fix(action, ", but ".join(filter(None, parts)))


def _ranges_of(answer: Answer) -> Mapping[str, Range]:
    """Return the ranges of the counters that chance decides."""
    return answer.typical_of.counters if answer.typical_of is not None else NOTHING


def _with_fewer_pods(obj: ApiObject, pods: int, autoscaler: ApiObject | None) -> tuple[str, ApiObject] | None:
    """Return what to change, and a workload, or the argument of its scaling, with fewer Pods; None if it has no more
    than these. `autoscaler`: the HorizontalPodAutoscaler to change, because it would scale the workload again.
    """
    path = ("replicas",) if "replicas" in obj else COUNT_PATHS.get(group_kind(obj), ())
    before = int32(obj, *path) if path else None
    if not 0 < pods < (before or 0):
        return None
    limits = {path[-1]: before}
    if autoscaler is not None:
        least = int32(autoscaler, "spec", "minReplicas") or 0
        limits = {**({"minReplicas": least} if least > pods else {}), "maxReplicas": before}
    changes = ", ".join(f"{name} {limit:,} → {pods:,}" for name, limit in limits.items())
    return f"{ref_of(autoscaler or obj, DEFAULT_NAMESPACE)}: {changes}", with_field(obj, pods, *path)


def _without_shared_nodes(obj: ApiObject) -> tuple[str, ApiObject] | None:
    """Return what to change, and a workload whose required anti-affinity excludes the same node only; None if it
    excludes no more.
    """
    path = *POD_TEMPLATE_PATHS.get(group_kind(obj), ()), "spec", "affinity", "podAntiAffinity", _REQUIRED
    terms = items(obj, *path)
    keys = dict.fromkeys(text_at(term, "topologyKey") for term in terms)
    if not keys.keys() - {HOSTNAME}:
        return None
    action = f"{ref_of(obj, DEFAULT_NAMESPACE)}: anti-affinity with topologyKey {HOSTNAME}"
    return action, with_field(obj, [{**term, "topologyKey": HOSTNAME} for term in terms], *path)


def changed_workloads(
    workloads: Iterable[tuple[ApiObject, int, bool]], autoscalers: Mapping[int, ApiObject | None]
) -> Iterator[tuple[str, Mapping[int, ApiObject]]]:
    """Yield changes with which all Pods of workloads run: as many Pods as run, and anti-affinity with Pods on the same
    node only; as text, and the changed objects by the `id` of the object. `workloads`: those with Pods that a quota
    rejects or a constraint excludes, how many run, and whether a constraint excludes any. `autoscalers`: by the `id` of
    the object, the HorizontalPodAutoscaler to change instead.
    """
    every = [*workloads]
    reduced = ((obj, _with_fewer_pods(obj, run, autoscalers.get(id(obj)))) for obj, run, _ in every)
    apart = ((obj, _without_shared_nodes(obj)) for obj, _, is_excluded in every if is_excluded)
    for changes in (reduced, apart):
        if found := {id(obj): changed for obj, changed in changes if changed is not None}:
            action = listed([text for text, _ in found.values()], 2)
            yield action, {key: changed for key, (_, changed) in found.items()}


def _arrival_edits(answer: Answer) -> Iterator[Edit]:
    """Yield edits of the workloads that the question applies or scales, if a quota rejects some of their Pods or a
    constraint excludes them.
    """
    names = answer.after.summary.names
    arrivals = grouped((workload_key(each.object), each) for each in answer.after.simulation.world.arrivals)
    affected = list[tuple[ApiObject, int, bool]]()
    for each in own_workloads(answer):
        namespace, _, name = names.group(each.workload).partition("/")
        own = arrivals.get((each.kind, namespace, name), ())
        if len(own) == 1 and own[0].op in _APPLIES and (each.constrained or answer.count_over_quota[each.workload]):
            affected.append((own[0].object, each.after, bool(each.constrained)))
    autoscalers = {id(each.object): each.autoscaler for each in answer.after.simulation.world.arrivals}
    for action, changed in changed_workloads(affected, autoscalers):
        counter = "rejected" if any(answer.count_over_quota.values()) else "pending"
        yield Edit(action, (), counter, applied=[*changed.values()])


def with_edits(cluster: Cluster, edits: Sequence[Edit]) -> Cluster:
    """The cluster with the objects of these edits in place of the stored ones, and with their nodes."""
    cache = cluster.cache.copy()
    cache.put_views({NODE: {("", node.name): node for each in edits for node in each.nodes}})
    for obj in chain.from_iterable(each.objects for each in edits):
        cache.add(obj)
    return cluster.replaced(cache)


def _pdb_edits(cluster: Cluster, answer: Answer) -> Iterator[Edit]:
    """Yield `maxUnavailable: 1` for the PDBs that block drains."""
    if answer.after.upgrade is not None:
        names = {each.budget for each in answer.after.blocks.drains}
    else:
        kept = [*answer.removal.kept, *answer.removal.untried] if answer.removal is not None else ()
        names = set[str]().union(*answer.after.eviction_blocked_by.values(), *(each.pdbs for each in kept))
    objects = [relaxed(obj) for key, obj in sorted(cluster.cache.pdbs.items()) if "/".join(key) in names]
    if objects and len(objects) == len(names):
        which = f"PDB {next(iter(names))}" if len(names) == 1 else f"the {plural(len(names), 'blocking PDB')}"
        yield Edit(f"maxUnavailable: 1 in {which}", objects, "blocked")


def relaxed(pdb: ApiObject, name: str = "maxUnavailable", value: str | int = 1) -> dict[str, Any]:
    """Return a copy of a PDB with this limit as its only one, and without status."""
    spec = {key: kept for key, kept in mapping_at(pdb, "spec").items() if key not in ("minAvailable", "maxUnavailable")}
    return {**{key: kept for key, kept in pdb.items() if key != "status"}, "spec": {**spec, name: value}}


def quota_edits(cluster: Cluster, answer: Answer) -> Iterator[Edit]:
    """Yield edits of ResourceQuotas. A quota that rejects Pods gets limits with which it admits all of them.

    An exceeded quota gets its usage as limits, if it would reject the Pods of failing Jobs or keeps nodes from being
    removed.
    """
    removal = answer.removal
    if removal is not None and all(each.cause == "blocked" for each in removal.kept):
        return
    simulation = answer.after.simulation
    new: dict[tuple[str, str], Counter[str]] = {}
    for workload, row in missing(simulation, answer.after.summary.names).items():
        if not isinstance(row.message, ExceededQuota):
            continue
        key = workload[1].partition("/")[0], row.message.quota
        usage = new.setdefault(key, Counter())
        for resource, amount in _usage_of(workload, row.message, simulation).items():
            usage[resource] += amount.nano * row.pods
    for key in _exceeded(answer):
        new.setdefault(key, Counter())
    changed = simulation.api.quotas.changes() if simulation.api.quotas is not None else ()
    at_the_end = {(each.namespace, each.name): each for _, each in changed}
    for (namespace, name), usage in sorted(new.items()):
        quota = cluster.snapshot.resource_quotas.get((namespace, name))
        if quota is None:
            continue
        used, limits = at_the_end.get((namespace, name), quota).used, dict[str, Quantity]()
        for resource, limit in quota.hard.items():
            before, after = (each.get(resource, ZERO).nano for each in (quota.used, used))
            needed = max(before, after + usage[resource])
            if needed > limit.nano:
                limits[resource] = Quantity(needed, limit.format)
        if limits:
            counter = "rejected" if removal is None else "blocked"
            yield _raised(quota, limits, counter)


def _exceeded(answer: Answer) -> Iterator[tuple[str, str]]:
    """Yield the exceeded quotas of namespaces with failed Jobs, or with Pods on nodes that cannot be removed."""
    names = answer.after.summary.names
    failing = {names.group(each.workload).partition("/")[0] for each in answer.after.workloads if each.failures}
    failing |= {pod.namespace for pod in _remaining_pods(answer)}
    for namespace, name in (exceeded.split("/") for exceeded in answer.exceeded_quotas):
        if namespace in failing:
            yield namespace, name


def _remaining_pods(answer: Answer) -> list[Pod]:
    """Return the Pods of nodes that cannot be removed."""
    removal = answer.removal
    staying = {each.node for each in (*removal.kept, *removal.untried)} if removal is not None else ()
    pods = (state.pod for state in answer.after.simulation.world.pods)
    return [pod for pod in pods if pod.node_name in staying and not pod.terminal]


def _usage_of(workload: tuple[str, str], message: ExceededQuota, simulation: Simulation) -> Mapping[str, Quantity]:
    """Return how much a new Pod of a workload uses of its quotas; if there is no such workload, exceeded amounts."""
    made, quotas = _new_pod(workload, simulation), simulation.api.quotas
    if made is None or quotas is None:
        return {"pods": Quantity(NANO), **{resource: excess.requested for resource, excess in message.amounts.items()}}
    return quotas.usage(*made)


def _new_pod(workload: tuple[str, str], simulation: Simulation) -> tuple[Pod, ApiObject] | None:
    """Return a new Pod of a workload (`group/Kind`, `namespace/name`) and its template; None if it does not exist."""
    kind, name = workload
    namespace, _, own = name.partition("/")
    state = simulation.api.workloads.get((kind, namespace, own))
    if state is None:
        return None
    template = template_of(state.object)
    return simulation.world.admission(made_of(namespace, state.object, template)), template


def _raised(quota: ResourceQuota, limits: Mapping[str, Quantity], counter: str) -> Edit:
    """Return an edit of a quota that raises these limits, in whole units."""
    limits = {
        resource: limit if limit.nano < NANO else Quantity(limit.value * NANO, limit.format)
        for resource, limit in sorted(limits.items())
    }
    hard = {resource: str(limit) for resource, limit in {**quota.hard, **limits}.items()}
    used = {resource: str(in_use) for resource, in_use in quota.used.items()}
    obj = quota.to_api()
    raised = {**obj, "spec": {**obj["spec"], "hard": hard}, "status": {"hard": hard, "used": used}}
    shown = ", ".join(
        f"{each} {format_units(quota.hard[each])} → {format_units(limit)}" for each, limit in limits.items()
    )
    return Edit(f"quota {quota.namespace}/{quota.name}: {shown}", [raised], counter)


def _surge_edits(cluster: Cluster, answer: Answer) -> Iterator[Edit]:
    """Yield a rollout without surge for the DaemonSets whose rollout is blocked: a new Pod beside the old one may need
    what the old one has, such as a host port.
    """
    blocked, names = answer.after.blocks.rollouts, answer.after.summary.names
    for (kind, *key), workload in sorted(cluster.snapshot.workloads.items()):
        if kind == DAEMON_SET and names.name_of((kind, "/".join(key))) in blocked:
            path = "spec", "updateStrategy", "rollingUpdate"
            if mapping(workload.object, *path).get("maxSurge"):
                rolling = with_field(workload.object, {"maxSurge": 0, "maxUnavailable": 1}, *path)
                yield Edit(f"maxSurge: 0 and maxUnavailable: 1 in DaemonSet {'/'.join(key)}", [rolling], "blocked")


def _job_edits(cluster: Cluster, answer: Answer) -> Iterator[Edit]:
    """Yield, for the Jobs that fail because their Pods are deleted, a policy by which these do not count as failed. If
    such Jobs keep nodes from being removed: for all with more Pods on these nodes than may fail.
    """
    failing, names = {each.workload for each in answer.after.workloads if each.failures}, answer.after.summary.names
    if answer.removal is not None and any(each.cause in ("lost", "jobs_failed") for each in answer.removal.kept):
        owners = ((pod.namespace, pod.owner) for pod in _remaining_pods(answer))
        own = Counter(f"{space}/{owner.name}" for space, owner in owners if owner is not None and owner.kind == "Job")
        limits = may_fail(cluster.snapshot)
        failing |= {names.name_of((JOB, job)) for job, pods in own.items() if pods > limits.get(job, pods)}
    ignore = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    jobs = list[ApiObject]()
    for (kind, *key), workload in sorted(cluster.snapshot.workloads.items()):
        if kind == JOB and names.name_of((kind, "/".join(key))) in failing:
            rules = [ignore, *items(workload.object, "spec", "podFailurePolicy", "rules")]
            job = with_field(workload.object, rules, "spec", "podFailurePolicy", "rules")
            jobs.append(with_field(job, "Never", "spec", "template", "spec", "restartPolicy"))
    if jobs:
        which = f"{plural(len(jobs), 'Job')} (recreated with restartPolicy: Never)"
        yield Edit(f"podFailurePolicy that ignores DisruptionTarget in {which}", jobs, "jobs_failed")


def _node_edits(cluster: Cluster, answer: Answer) -> Iterator[Edit]:
    """Yield nodes that Pods Pending at the end would need, like the remaining nodes of each pool and zone. At most as
    many as the cluster has, because a tenant's replicas have no limit.
    """
    simulation, reaction, removal = answer.after.simulation, answer.autoscalers, answer.removal
    is_known = reaction.node_groups or reaction.node_pools or reaction.are_off
    if is_known or removal is not None or not any(each.more_pending for each in answer.after.workloads):
        return
    models: dict[tuple[str, str], Node] = {}
    present = sorted(cluster.snapshot.objects.nodes.values(), key=lambda node: node.name)
    for node in present:
        if node.name in simulation.api.nodes and not node.unschedulable:
            models.setdefault((pool_of(node), zone_of(node)), node)
    groups = [_group_like(cluster, simulation, node.name) for node in models.values()]
    pending = PendingPods.from_simulation(simulation, answer.after.summary.names)
    added = autoscalers(pending, Autoscaling(cutoff=_LOWEST, groups=groups)).added
    free = free_names("new", {node.name for node in present})
    nodes = [new_node_like(node, next(free)) for node in models.values() for _ in range(added[node.name])]
    if 0 < len(nodes) <= len(present):
        many = ((node.name, " ".join(filter(None, key))) for key, node in models.items())
        like = [f"{added[name]} like {kind or name}" for name, kind in many if added[name]]
        only = " (for this loss only)" * answer.is_zone_lost  # the loss of their zone removes new nodes, too
        yield Edit(f"add nodes: {listed(like, 4)}{only}", (), "pending", nodes=nodes)


def _group_like(cluster: Cluster, simulation: Simulation, name: str) -> NodeGroup:
    """Return a group of nodes like the named one, with its DaemonSet Pods at the end, including those of new
    DaemonSets.
    """
    info = simulation.cache.snapshot().get(name)
    return group_like(cluster.snapshot, "node", name, ())._replace(example=info.pods if info else ())
