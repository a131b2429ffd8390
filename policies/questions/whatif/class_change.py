"""The effects of creating, changing or deleting a PriorityClass: now, and when Pods are replaced.

Running Pods keep their priority (kubernetes `plugin/pkg/admission/priority` sets it when a Pod is created). So nothing
changes now; with each recreated Pod, it changes which Pods may preempt which.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, in_json
from forewarn.policies.base.findings import ObjectRef, cut, described, grouped, quote
from forewarn.policies.kubernetes.controllers.changes import replaces_no_pods
from forewarn.policies.kubernetes.controllers.deployment import is_paused
from forewarn.policies.kubernetes.controllers.own_pods import pods_of
from forewarn.policies.kubernetes.controllers.view import Key, workload_key
from forewarn.policies.kubernetes.kinds.registry import DEPLOYMENT, POD_TEMPLATE_PATHS, ROLLED_OUT
from forewarn.policies.kubernetes.kube_apiserver.priority import Forbidden, Resolved, establish_new_priority
from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import validate_priority_class
from forewarn.policies.kubernetes.objects.fields import NOTHING, InvalidInput, InvalidObject, group_kind, mapping, text
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER, SYSTEM_NAMES, PriorityClass
from forewarn.policies.kubernetes.objects.workload import pod_template_of
from forewarn.policies.linting.rules.support.names import suggested
from forewarn.policies.linting.rules.support.predictions import restarted
from forewarn.policies.prediction.simulation.scenario import Arrival, DumpCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.fields import ApiObject

_NO_CLASS: Final = Resolved("", 0, "")
_SHOWN: Final = 80
"""Maximum characters of a name in a message."""


class Change(NamedTuple):
    """A requested change of a PriorityClass. None: the field does not change. `default`: make it the global default."""

    name: str
    value: int | None = None
    default: bool = False
    policy: str | None = None
    delete: bool = False


class NewPodPriorities(NamedTuple):
    """The priority of new Pods before and after the change; null: admission rejects the Pods."""

    before: Resolved | None
    after: Resolved | None


class Ranked(NamedTuple):
    """A workload with the priority of its new Pods before and after the change; None if admission rejects the Pods.

    `running`: the number of running Pods by priority.
    """

    workload: str
    object: Hidden[ApiObject]
    before: Hidden[Resolved | None]
    after: Hidden[Resolved | None]
    running: Mapping[int, int]

    @property
    def differs(self) -> bool:
        """Whether new Pods get another priority or preemptionPolicy."""
        return _rank(self.before) != _rank(self.after)

    @property
    def rejected(self) -> int:
        """How many Pods admission rejects when they are recreated: the running ones, and at least the next one."""
        return max(sum(self.running.values()), 1) if self.after is None else 0

    @in_json
    def new_pods(self) -> NewPodPriorities:
        return NewPodPriorities(self.before, self.after)


class MayPreempt(NamedTuple):
    """The number of running Pods of a workload that a new Pod of a PriorityClass may preempt.

    `before`: before the change. `during_rollout`: after the change, with the old Pods. `after`: after all Pods are
    recreated.
    """

    class_: str
    workload: str
    before: int
    during_rollout: int
    after: int


class PreemptionTotal(NamedTuple):
    """The number of running Pods of all workloads that a new Pod of a PriorityClass may preempt."""

    class_: str
    before: int
    during_rollout: int
    after: int


class ClassChange(NamedTuple):
    """The effect of a change of a PriorityClass, without a simulation. `before`, `after`: the PriorityClass; None if it
    does not exist.

    `taken_from`: the previous global default that the change replaces, or "". `may_preempt`: the numbers that the
    change affects. `totals`: by PriorityClass, the sums over all workloads. `templates`: the workloads whose template
    the change sets. `restarted`: whether the simulation restarts the workloads in `restarting`; false with manifests to
    apply.
    """

    before: PriorityClass | None
    after: PriorityClass | None
    taken_from: Hidden[str]
    ranked: Hidden[Sequence[Ranked]]
    may_preempt: Sequence[MayPreempt]
    totals: Sequence[PreemptionTotal]
    templates: Hidden[Mapping[Key, ApiObject]]
    restarted: Hidden[bool] = True

    def __repr__(self) -> str:
        return described(self, title(self))

    @property
    def changed(self) -> list[Ranked]:
        """The workloads whose new Pods get another priority or preemptionPolicy."""
        return [workload for workload in self.ranked if workload.differs]

    @property
    def restarting(self) -> list[Ranked]:
        """The workloads in `changed` whose Pods a restart replaces, and whose new Pods admission accepts."""
        kinds = (workload for workload in self.changed if workload.after is not None and workload.object)
        return [kind for kind in kinds if is_replaced_by_restart(kind.object)]

    @property
    def differences(self) -> Mapping[str, Counter[str]]:
        """By PriorityClass, how many more running Pods of each PriorityClass (as it is afterwards) its new Pods may
        preempt after all Pods are recreated.
        """
        names = {each.workload: (each.after or each.before or _NO_CLASS).priority_class_name for each in self.ranked}
        found = defaultdict[str, Counter[str]](Counter)
        for cell in self.may_preempt:
            found[cell.class_][names[cell.workload]] += cell.after - cell.before
        return found

    @property
    def gained(self) -> tuple[str, int] | None:
        """The PriorityClass whose new Pods may preempt most more Pods afterwards, and how many; None without one. A
        created class is left out.
        """
        created = None if self.before else self.class_
        others = [each for each in self.totals if each.class_ != created and each.after > each.before]
        worst = max(others, key=lambda each: (each.after - each.before, each.class_), default=None)
        return worst and (worst.class_, worst.after - worst.before)

    @property
    def immutable(self) -> list[str]:
        """The immutable fields that the change sets; the PriorityClass is deleted and recreated."""
        if self.before is None or self.after is None:
            return []
        is_set = {
            "value": self.before.value != self.after.value,
            "preemptionPolicy": self.before.preemption_policy != self.after.preemption_policy,
        }
        return [field for field in is_set if is_set[field]]

    @in_json
    def class_(self) -> str:
        return (self.after or self.before or PriorityClass("", 0)).name

    @in_json
    def workloads(self) -> Sequence[Ranked]:
        return self.changed


def changed_class(cluster: ClusterSnapshot, change: Change) -> tuple[PriorityClass | None, PriorityClass | None]:
    """Return the PriorityClass before and after the change; None if it does not exist.

    Raises InvalidInput if the API server rejects the change.
    """
    old = cluster.priority_classes.get(change.name)
    if change.name in SYSTEM_NAMES:
        raise InvalidInput(f"PriorityClass {quote(change.name)} is a system class and cannot be changed")
    if change.delete:
        if old is None:
            raise InvalidInput(_not_found(cluster, change.name))
        return old, None
    if old is None and change.value is None:
        raise InvalidInput(_not_found(cluster, change.name), fix="give a value to create it")
    new = old or PriorityClass(change.name, change.value or 0)
    if change.value is not None:
        new = new._replace(value=change.value)
    if change.policy is not None:
        new = new._replace(preemption_policy=change.policy)
    new = new._replace(global_default=True) if change.default else new
    for fault in validate_priority_class(new.to_api()):
        raise InvalidInput(fault.text, fault.path, ObjectRef("", "PriorityClass", "", cut(change.name, _SHOWN)))
    return old, new


def _not_found(cluster: ClusterSnapshot, name: str) -> str:
    near = suggested(name, set(cluster.priority_classes) - SYSTEM_NAMES)
    return f"PriorityClass {quote(name)} not found in the cluster{near}"


def apply_change(cache: DumpCache, change: Change) -> None:
    """Change a PriorityClass in the cache. A new global default replaces the previous one. Raises InvalidObject."""
    before = cache.snapshot()
    _, new = changed_class(before, change)
    if new is None:
        cache.remove({**PriorityClass(change.name, 0).to_api()})
        return
    for other in list(before.priority_classes.values()):
        if new.global_default and other.global_default and other.name != new.name:
            cache.add(other._replace(global_default=False).to_api())
    cache.add(new.to_api())


def effect_of(
    before: ClusterSnapshot, after: ClusterSnapshot, name: str, templates: Mapping[Key, ApiObject]
) -> ClassChange:
    """Return the effect of a change of the PriorityClass `name`, and of these workloads with their new templates."""
    old, new = before.priority_classes.get(name), after.priority_classes.get(name)
    moved = new is not None and new.global_default
    defaults = (c.name for c in before.priority_classes.values() if moved and c.global_default and c.name != name)
    rows = list(ranked(before, after, templates))
    cells = list(_cells(before, after, rows))
    differing = sorted(filter(_differs, cells), key=lambda c: (-max(c[2:]), c.class_, c.workload))
    return ClassChange(old, new, next(defaults, ""), rows, differing, _totals(cells), templates)


def with_class(workload: ApiObject, name: str) -> ApiObject:
    """Return a copy of a workload whose template names the PriorityClass `name`."""
    path = (*POD_TEMPLATE_PATHS[group_kind(workload)], "spec")
    spec = {
        key: value for key, value in mapping(workload, *path).items() if key not in ("priority", "preemptionPolicy")
    }
    return with_field(workload, {**spec, "priorityClassName": name}, *path)


def with_field(obj: ApiObject, value: object, *path: str) -> ApiObject:
    """Return a copy of an object with `value` in the field at `path`."""
    first, *rest = path
    return {**obj, first: with_field(mapping(obj, first), value, *rest) if rest else value}


def restarts(change: ClassChange) -> list[Arrival]:
    """Return the simultaneous restarts of all workloads whose new Pods change priority, as arrivals at time 0.

    Workloads whose Pods a restart does not replace only get their new template.
    """
    rolled_out = {workload_key(workload.object): workload.object for workload in change.restarting}
    objects = {**rolled_out, **change.templates}
    return [Arrival(0.0, "update", restarted(obj).object if key in rolled_out else obj) for key, obj in objects.items()]


def title(change: ClassChange) -> str:
    """Return a title, such as `PriorityClass gold deleted and recreated (value 100 → 500)`."""
    old, new = change.before, change.after
    if new is None:
        return f"PriorityClass {old.name if old else ''} deleted"
    parts = [f"value {new.value}"] if old is None else []
    if old is not None and old.value != new.value:
        parts.append(f"value {old.value} → {new.value}")
    if (old.preemption_policy if old else "PreemptLowerPriority") != new.preemption_policy:
        parts.append(f"preemptionPolicy {new.preemption_policy}")
    if new.global_default and not (old and old.global_default):
        instead = f" instead of {change.taken_from}" if change.taken_from else ""
        parts.append(f"global default{instead}")
    if not parts:
        return f"PriorityClass {new.name} unchanged"
    verb = "created" if old is None else "deleted and recreated" if change.immutable else "changed"
    return f"PriorityClass {new.name} {verb} ({', '.join(parts)})"


def is_rolled_out(obj: ApiObject) -> bool:
    """Report whether a change of the workload's template replaces its Pods."""
    return group_kind(obj) in ROLLED_OUT


def is_replaced_by_restart(obj: ApiObject) -> bool:
    """Report whether `kubectl rollout restart` replaces the workload's Pods; it rejects a paused Deployment."""
    is_stopped = group_kind(obj) == DEPLOYMENT and is_paused(obj)
    return is_rolled_out(obj) and not (is_stopped or replaces_no_pods(obj))


def ranked(
    before: ClusterSnapshot, after: ClusterSnapshot, changed: Mapping[tuple[str, str, str], ApiObject] | None = None
) -> Iterator[Ranked]:
    """Yield all workloads, and running Pods without workload, with the priorities of their Pods before and after the
    change.

    `changed`: workloads that have another template afterwards.
    """
    counted, changed = set[str](), changed or {}
    for key, workload in sorted(before.workloads.items()):
        _, namespace, name = key
        if any(workload.controller):
            continue
        try:
            template = pod_template_of(workload.object, POD_TEMPLATE_PATHS)
            later = pod_template_of(changed[key], POD_TEMPLATE_PATHS) if key in changed else template
        except InvalidObject:
            continue
        if template is not None and later is not None:
            named, renamed = (text(item.spec, "priorityClassName") for item in (template, later))
            pods = [pod for pod in pods_of(before, workload.object) if pod.node_name]
            counted.update(pod.key for pod in pods)
            running = Counter(pod.effective_priority for pod in pods)
            resolved = (_resolved(named, namespace, before), _resolved(renamed, namespace, after))
            yield Ranked(f"{namespace}/{name}", workload.object, *resolved, running)
    yield from _others(before, counted)


def _others(before: ClusterSnapshot, counted: set[str]) -> Iterator[Ranked]:
    """Yield the running Pods without a known workload, whose priority does not change.

    `counted`: keys of all other Pods.
    """
    left = Counter[tuple[str, int]]()
    for pod in before.pods.values():
        if pod.node_name and not pod.terminal and pod.key not in counted:
            left[before.top_workload_of(pod), pod.effective_priority] += 1
    for (name, priority), count in sorted(left.items()):
        same = Resolved("", priority, "")
        yield Ranked(name, NOTHING, same, same, {priority: count})


def _resolved(name: str, namespace: str, cluster: ClusterSnapshot) -> Resolved | None:
    try:
        return establish_new_priority(name, cluster.namespace(namespace), cluster.priority_classes)
    except Forbidden:
        return None


def _rank(resolved: Resolved | None) -> tuple[int, bool] | None:
    return None if resolved is None else (resolved.priority, resolved.preemption_policy == PREEMPT_NEVER)


def _cells(before: ClusterSnapshot, after: ClusterSnapshot, ranked: Sequence[Ranked]) -> Iterator[MayPreempt]:
    for name in sorted({*before.priority_classes, *after.priority_classes, ""} - SYSTEM_NAMES):
        old, new = _level(name, before), _level(name, after)
        for workload in ranked:
            count = sum(workload.running.values())
            one, other = _count_below(workload.running, old), _count_below(workload.running, new)
            last = count if new is not None and workload.after is not None and workload.after.priority < new else 0
            yield MayPreempt(name, workload.workload, one, other, last)


def _differs(cell: MayPreempt) -> bool:
    return not cell.before == cell.during_rollout == cell.after


def _totals(cells: Iterable[MayPreempt]) -> list[PreemptionTotal]:
    """Return, for the classes with a changed number, the sums over all workloads; the largest sums come first."""
    by_class = grouped((cell.class_, cell) for cell in cells)
    sums = {name: map(sum, zip(*(cell[2:] for cell in each), strict=True)) for name, each in by_class.items()}
    totals = [PreemptionTotal(name, *sums[name]) for name, each in by_class.items() if any(map(_differs, each))]
    return sorted(totals, key=lambda total: (-max(total[1:]), total.class_))


def _count_below(running: Mapping[int, int], level: int | None) -> int:
    return 0 if level is None else sum(count for priority, count in running.items() if priority < level)


def _level(name: str, cluster: ClusterSnapshot) -> int | None:
    """Return the priority below which a new Pod of this PriorityClass ("": none) may preempt; None if it must
    not, or is rejected.
    """
    resolved = _resolved(name, "", cluster)
    return None if resolved is None or resolved.preemption_policy == PREEMPT_NEVER else resolved.priority
