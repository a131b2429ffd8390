"""Count the replicas of Pods and workloads that still fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, Inlined, in_json, inlined_in_json, optional_in_json
from forewarn.policies.base.documents.answer import AnswerDocument, AnswerStatus, Cause, Counter, Fix, Rows, Table, Why
from forewarn.policies.base.findings import brief, cut, described, grouped, listed, plural, with_fix
from forewarn.policies.inputs.sources.cluster import objects_of
from forewarn.policies.inputs.sources.files import SourceError
from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot, Result
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, check_numbers, check_one_of
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.kubernetes.quantity import Quantity, cores, format_units, gibibytes, percent
from forewarn.policies.kubernetes.scheduling.event_handlers import is_pending
from forewarn.policies.kubernetes.scheduling.reasons import shorten
from forewarn.policies.linting.rules.support.predictions import is_placeholder
from forewarn.policies.questions.application.cluster import Cluster, autoscaling_for, head_with_nodes, snapshot_of
from forewarn.policies.questions.application.manifests import Manifest, with_manifests
from forewarn.policies.questions.application.places import Places, Rejected, refs_of, rejections_of
from forewarn.policies.questions.whatif.capacity_buffers import Buffers, CapacityBuffers
from forewarn.policies.questions.whatif.headroom import Count, Headroom, OfGroup
from forewarn.policies.questions.whatif.headroom import headroom as headroom_of
from forewarn.policies.questions.whatif.node_groups import pool_of
from forewarn.policies.questions.whatif.placeholders import Placeholders, placeholders
from forewarn.policies.questions.whatif.questions import workloads_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
    from forewarn.policies.questions.whatif.autoscalers import Autoscaling

_MAX_LENGTH: Final = 40
_NEARLY_USED: Final = 90
"""Percent of a quota above which it is counted."""
_NO_POOL: Final = "(no pool)"


@dataclass(frozen=True, slots=True, repr=False)
class ObjectHeadroom:
    """The headroom for one object.

    `placeholders`: set with `--placeholders`. `capacity_buffers`: set if the cluster has CapacityBuffers.
    """

    headroom: Inlined[Headroom]
    placeholders: Placeholders | None = None
    capacity_buffers: Buffers | None = None

    def __repr__(self) -> str:
        return described(self, repr(self.headroom))


@dataclass(frozen=True, repr=False)
class HeadroomResult(Result):
    """The output of `forewarn headroom` about objects. The answer is about the one of which the fewest replicas fit.

    `objects`: of several Pods of a PodGroup, only the first. `notCounted`: objects that are left out because of errors.
    """

    cluster: Hidden[ClusterSnapshot]
    objects: Sequence[ObjectHeadroom]
    faults: Hidden[Sequence[Exception]] = ()
    at_least: Hidden[int | None] = None
    """The number of Pods (or PodGroups) that must fit; None for any."""
    preempting: Hidden[bool] = False
    """Whether Pods that fit only with preemption count for `at_least`."""
    is_stored: Hidden[bool] = True
    """Whether the object is a workload of the cluster, and not of a manifest."""

    def least(self, *, preempting: bool = False) -> Headroom:
        """The headroom of the object with the fewest fitting replicas. `preempting`: count replicas that fit with
        preemption.
        """
        return self._least(preempting).headroom

    def _least(self, preempting: bool) -> ObjectHeadroom:
        return min(self.objects, key=lambda each: each.headroom.more[preempting])

    @property
    def lacks(self) -> str:
        """The reason, if fewer fit than wanted; otherwise ""."""
        least = self.least(preempting=self.preempting)
        fitting = least.more[self.preempting]
        if self.at_least is None or fitting >= self.at_least:
            return ""
        unit = "Pods" if least.pod_group is None else "groups"
        how = "with" if self.preempting else "without"
        return f"{least.name}: {fitting} of {self.at_least} {unit} fit {how} preemption (--at-least)"

    @inlined_in_json
    def document(self) -> AnswerDocument:
        return _document_of(self, self._least(self.preempting))

    @optional_in_json
    def not_counted(self) -> list[str] | None:
        return refs_of(self.faults) or None


def _document_of(result: HeadroomResult, least: ObjectHeadroom) -> AnswerDocument:
    room, reserve = least.headroom, least.placeholders
    has_buffer = reserve is not None and reserve.capacity_buffer is not None
    return AnswerDocument(
        status=_status(result, least),
        question=_question(result, room, reserve),
        clause=f"{plural(len(result.faults), 'object')} left out; " * bool(result.faults) + _clause(room, reserve),
        shown=[*_counters(room, reserve)],
        warnings=[*_warnings(result, least)],
        why=_why(room),
        tables=[*_tables(result, least)],
        fix=[*_fixes(reserve)] if reserve else (),
        more=(
            *("-v zones, nodes and node groups", "-o html nodes as a picture"),
            "-o json a CapacityBuffer instead" if has_buffer else "forewarn predict -f FILE --replicas N",
        ),
    )


def _status(result: HeadroomResult, least: ObjectHeadroom) -> AnswerStatus:
    room, reserve = least.headroom, least.placeholders
    if result.faults:
        return AnswerStatus.REJECTED
    if result.lacks:
        return AnswerStatus.PENDING
    if reserve is not None:
        is_enough = not (reserve.create.pods or reserve.obstacle) and reserve.admitted == reserve.wanted
        return AnswerStatus.OK if is_enough else AnswerStatus.WARN
    if not any(room.more):
        return AnswerStatus.PENDING
    only_by_preemption = not room.more.without and result.at_least is None
    return AnswerStatus.WARN if only_by_preemption else AnswerStatus.OK


def _question(result: HeadroomResult, room: Headroom, reserve: Placeholders | None) -> str:
    of = f", least of {len(result.objects):,} objects" if len(result.objects) > 1 else ""
    named = f"{room.name} ({about(room.pod)}){of}"
    if reserve is not None:
        return f"{plural(reserve.wanted, 'Pod')} of {named} at once"
    return named if result.at_least is None else f"{result.at_least:,} more of {named}"


def about(pod: Pod) -> str:
    """The class or priority, and the requests of a Pod: `gold; 0.5 cpu and 6Gi memory`."""
    asks = pod.occupies.resource
    parts = [f"{cores(asks.milli_cpu)} cpu"] if asks.milli_cpu else []
    parts += [f"{gibibytes(asks.memory)} memory"] if asks.memory else []
    parts += [f"{amount} {cut(name, _MAX_LENGTH)}" for name, amount in asks.scalars.items() if amount]
    size = listed(parts) or "no cpu or memory request"
    return f"{pod.priority_class_name or f'priority {pod.effective_priority:,}'}; {size}"


def _clause(room: Headroom, reserve: Placeholders | None) -> str:
    if reserve is not None:
        if reserve.obstacle:
            return f"placeholder Pods do not help: {reserve.obstacle}"
        more, aim = reserve.create.pods, reserve.admitted
        needed = plural(more, "more placeholder Pod") if more else "no more placeholder Pods"
        limited = f" for the {aim:,} that {_quota_of(room)} admits" if aim < reserve.wanted else ""
        return f"{needed} needed{limited}" + f", {plural(reserve.create.fit_now, 'has', 'have')} room" * (more > 0)
    if (group := room.pod_group) is not None:
        of = f"of {plural(group.pods, 'Pod')}"
        groups = plural(group.without_preemption, f"more group {of} fits", f"more groups {of} fit")
        return f"{groups}, {group.with_preemption:,} with preemption"
    without, preempting = room.pods
    at_least = ["" if count.is_exact else "at least " for count in room.pods]
    more_pods = plural(without.pods, "more Pod fits", "more Pods fit") if without.pods else "no more Pods fit"
    fit = f"{at_least[0]}{more_pods}"
    if without[:2] != preempting[:2]:
        fit += f", {at_least[1]}{preempting.pods:,} with preemption"
    if not room.preempting.is_limited_by_quota:
        return fit
    return f"{fit}, as many as {_quota_of(room)} admits" if preempting.pods else f"{fit}: {_quota_of(room)} admits none"


def _quota_of(room: Headroom) -> str:
    return f"quota {cut(room.quota.quota, _MAX_LENGTH)}" if room.quota and room.quota.quota else "a quota"


def _counters(room: Headroom, reserve: Placeholders | None) -> Iterator[Counter]:
    for name, count in zip(("fit", "fit with preemption"), room.pods, strict=True):
        yield Counter(name, count.pods, more="" if count.is_exact else " or more")
    if room.preempted is not None:
        violations = room.preempted.pdb_violations
        yield Counter("Pods preempted for them", room.preempted.pods)
        yield Counter("PDB violations", violations, optional=True)
    if (best := _best_group(room)) is not None:
        of = f" (group {best.group})" if best.group else " (all groups)"
        yield Counter("fit on new nodes", best.more.admitted.pods, more=of)
    if reserve is not None:
        existing = reserve.existing
        yield Counter("placeholder Pods needed", reserve.create.pods)
        room_for = f" (room for {plural(existing.reserve, 'Pod')})" if existing.pods else ""
        yield Counter("existing placeholder Pods", existing.pods, more=room_for)


def _best_group(room: Headroom) -> OfGroup | None:
    groups = [room.all_node_groups] if room.all_node_groups is not None else room.node_groups or ()
    return max(groups, key=lambda group: group.more.admitted.pods, default=None)


def _warnings(result: HeadroomResult, least: ObjectHeadroom) -> Iterator[str]:
    room, reserve = least.headroom, least.placeholders
    rejections = rejections_of(result.faults)
    yield from (f"rejected: {each}" for each in rejections)
    if others := refs_of(result.faults)[len(rejections) :]:
        yield f"not predicted: {listed(others)}"
    yield from _quota_sentences(room)
    for name, most in room.largest.items():
        amount = cores(most) if name == "cpu" else gibibytes(most)
        yield f"no node is large enough: the largest has {amount} {name}"
    if room.preempted is None and room.pod_group is None and room.more.preempting > room.more.without:
        command = "scale" if result.is_stored else "apply -f FILE"
        fix = f"run forewarn whatif {command}, or predict --replicas N"
        yield with_fix("the Pods that they preempt are not counted here", fix)
    if room.pod.preemption_policy == "Never":
        yield "the Pods never preempt: preemptionPolicy Never"
    if reserve is not None:
        yield from _placeholder_sentences(reserve)
    if (buffers := least.capacity_buffers) is not None:
        if buffers.needed is not None:
            provided = min(buffers.provisioned, buffers.needed)
            yield f"CapacityBuffers of this object provide {provided:,} of {plural(buffers.needed, 'needed replica')}"
        if buffers.provisioned or buffers.others.provisioned:
            yield "the Pods that fit include the capacity of CapacityBuffers, which kube-scheduler ignores"
        if buffers.incomplete:
            yield "not all CapacityBuffers are read: numbers of provisioned replicas may be too low"
    yield from room.notes


def _quota_sentences(room: Headroom) -> Iterator[str]:
    """Yield how many Pods the quota admits, unless the clause already says so, or why it admits none."""
    quota = room.quota
    if quota is None or quota.pods >= room.preempting.pods:
        return
    if room.pod_group is not None or not quota.pods:
        why = "" if quota.pods else f": {shorten(quota.message)}"
        yield f"{_quota_of(room)} admits only {plural(quota.pods, 'more Pod')}{why}"


def _placeholder_sentences(reserve: Placeholders) -> Iterator[str]:
    existing = reserve.existing
    if existing.reserve < reserve.admitted and existing.reasons:
        why = [f"{shorten(reason)} ({plural(nodes, 'node')})" for reason, nodes in existing.reasons.items()]
        yield f"existing placeholder Pods have room for only {plural(existing.reserve, 'Pod')}: {listed(why)}"
    if existing.pods and existing.termination_seconds:
        yield f"existing placeholder Pods take up to {existing.termination_seconds} s to terminate"
    if existing.pending:
        pending = plural(existing.pending, "placeholder Pod is", "placeholder Pods are")
        later = "; once scheduled, they may replace some of the needed ones" if reserve.create.pods else ""
        yield f"{pending} Pending: no capacity reserved yet{later}"


def _why(room: Headroom) -> Why:
    """The reasons of the nodes that take no more Pods; none if a quota admits fewer."""
    reasons = () if room.without.is_limited_by_quota else room.reasons
    nodes = sum(count for _, count in reasons)
    causes = [Cause(count, "node", shorten(reason)) for reason, count in reasons]
    heading = f"{plural(nodes, 'NODE TAKES', 'NODES TAKE')} NO MORE WITHOUT PREEMPTION"
    return Why("nodes", nodes, heading, causes)


def _fixes(reserve: Placeholders) -> Iterator[Fix]:
    new = reserve.create
    if not new.pods or reserve.obstacle:
        return
    named = new.priority_class or "a new PriorityClass"
    size = f"{cores(new.milli_cpu)} cpu and {gibibytes(new.memory)} memory"
    at_once = reserve.admitted - new.pods + new.fit_now
    effect = f"{at_once:,} of {plural(reserve.wanted, 'Pod')} start at once"
    enough = next((group for group in reserve.node_groups if group.nodes), None)
    if at_once < reserve.admitted and enough is not None:
        effect += f", {reserve.admitted:,} with {plural(enough.nodes or 0, 'new node')} of {enough.group}"
    action = f"{plural(new.pods, 'placeholder Pod')} of {size} each, with {named} ({new.priority})"
    yield Fix(action, effect)


# Tables


def _tables(result: HeadroomResult, least: ObjectHeadroom) -> Iterator[Table]:
    if len(result.objects) > 1:
        heads = ("OBJECT", "FIT", "WITH PREEMPTION", "ON NEW NODES")
        rows = [[*_row(each.headroom)] for each in result.objects]
        yield Table(heads, sorted(rows, key=lambda row: str(row[1]).isdecimal() and int(row[1])))
    yield from _object_tables(least)
    for other in result.objects:
        if other is not least:
            yield from (each._replace(detail=1, title=other.headroom.name) for each in _object_tables(other))


def _row(room: Headroom) -> Iterator[str | int]:
    best = _best_group(room)
    yield from (room.name, *room.more, best.more.admitted.pods if best else 0)


def _object_tables(result: ObjectHeadroom) -> Iterator[Table]:
    room, reserve, buffers = result.headroom, result.placeholders, result.capacity_buffers
    heads = ("CLASS", "VALUE", "FIT WITH PREEMPTION", "NODES ADMIT", "QUOTA ADMITS", "PREEMPTS")
    yield Table(heads, [_class_row(*row) for row in room.by_class])
    if room.node_groups:
        groups = [_group_row(group, group.group) for group in room.node_groups]
        together = room.all_node_groups
        total = _group_row(together, "all together") if together is not None else ()
        yield Table(("NODE GROUP", "NEW NODES", "MORE PODS", "NODES ADMIT", "QUOTA ADMITS", "LIMIT"), groups, total)
    yield from _placeholder_tables(reserve, room.all_node_groups) if reserve is not None else ()
    if buffers is not None:
        rows: Rows = [
            [result.name_, result.replicas or 0, result.provisioned, result.problem] for result in buffers.buffers
        ]
        if buffers.others.buffers:
            rows.append([f"{buffers.others.buffers:,} of other workloads", 0, buffers.others.provisioned, ""])
        yield Table(("CAPACITYBUFFER", "REPLICAS", "PROVISIONED", "PROBLEM"), rows)
    yield from _place_tables(room)


def _placeholder_tables(reserve: Placeholders, together: OfGroup | None) -> Iterator[Table]:
    """Yield where Pods fit now, and which node groups add enough nodes for the placeholder Pods that do not."""
    if len(reserve.pools) > 1 or any(pool.pool for pool in reserve.pools):
        pools: Rows = [[pool.pool or _NO_POOL, pool.free, pool.reserved] for pool in reserve.pools]
        yield Table(("POOL", "PODS FIT NOW", "IN PLACE OF PLACEHOLDERS"), pools)
    missing = reserve.create.pods - reserve.create.fit_now
    if missing > 0 and reserve.node_groups:
        needed: Rows = [
            [group.group, "not enough" if group.nodes is None else group.nodes, group.pods]
            for group in reserve.node_groups
        ]
        if together is not None and all(group.nodes is None for group in reserve.node_groups):
            needed.append(["all together", together.nodes, together.more.pods])
        title = f"FOR THE OTHER {plural(missing, 'PLACEHOLDER POD').upper()}"
        yield Table(("NODE GROUP", "NEW NODES", "PODS"), needed, title=title)


def _class_row(name: str, value: int, preempts: bool, fitting: Count) -> list[str | int]:
    return [name, value, _number(fitting.admitted), *_limits(fitting), "yes" if preempts else "never"]


def _number(count: Count) -> str | int:
    return count.pods if count.is_exact else f"{count.pods:,} or more"


def _limits(count: Count) -> tuple[str | int, str | int]:
    """The Pods that fit on nodes and that the quota admits, if a quota applies."""
    return (_number(count), count.quota.pods) if count.quota is not None else ("", "")


def _group_row(group: OfGroup, name: str) -> list[str | int]:
    limit = group.reason or ("limit of one scale-up" if group.capped else "")
    return [
        name,
        0 if group.reason else group.nodes,
        _number(group.more.admitted),
        *_limits(group.more),
        limit,
    ]


def _place_tables(room: Headroom) -> Iterator[Table]:
    if room.stranded:
        heads = ("NODES WITH INSUFFICIENT", "NODES", "FREE CPU", "FREE MEMORY")
        rows: Rows = []
        for each in room.stranded:
            scarce = () if "pods" in each.insufficient else each.insufficient
            cpu = "" if "cpu" in scarce else cores(each.milli_cpu)
            size = "" if "memory" in scarce else gibibytes(each.memory)
            rows.append([" and ".join(each.insufficient).replace("pods", "Pod slots"), each.nodes, cpu, size])
        yield Table(heads, rows, detail=int(room.without.is_limited_by_quota))
    yield Table(("ZONE", "FIT"), [[*each] for each in room.by_zone.items()], detail=1)
    by_node = sorted((room.without.by_node or {}).items(), key=lambda item: (-item[1], item[0]))
    yield Table(("NODE", "FIT"), [each for each in by_node if each[1]], detail=1)
    if (group := room.pod_group) is not None:
        of_group = ("PODGROUP", "PODS", "MIN COUNT", "FIT", "WITH PREEMPTION")
        yield Table(of_group, [[*group]])


# Without an object


class ExtendedResource(NamedTuple):
    """The requests of Pods for a resource such as `nvidia.com/gpu`, and how much of it nodes have."""

    resource: str
    requested: int
    allocatable: int


class PoolCapacity(NamedTuple):
    """The capacity of the nodes of a pool (empty: without the label of a pool), and the requests of their Pods. CPU is
    in thousandths, memory in bytes.

    `cordoned`: number of these nodes that are cordoned. `largestFreeMilliCpu`, `largestFreeMemory`: the most that one
    node that is not cordoned has free. `placeholders`: number of placeholder Pods. `extended`: extended resources.
    """

    pool: str
    nodes: int
    cordoned: int
    pods: int
    allocatable_pods: int
    requested_milli_cpu: int
    allocatable_milli_cpu: int
    requested_memory: int
    allocatable_memory: int
    largest_free_milli_cpu: int
    largest_free_memory: int
    placeholders: int
    extended: Sequence[ExtendedResource]

    @property
    def percents(self) -> tuple[int, int, int]:
        """The requested cpu, memory and Pods in percent."""
        return (
            percent(self.requested_milli_cpu, self.allocatable_milli_cpu),
            percent(self.requested_memory, self.allocatable_memory),
            percent(self.pods, self.allocatable_pods),
        )


class QuotaUse(NamedTuple):
    """The usage of one resource of a ResourceQuota, as quantities. `percent`: 100 if nothing is allowed."""

    namespace: str
    quota: str
    resource: str
    used: Hidden[Quantity]
    hard: Hidden[Quantity]

    @in_json
    def used_(self) -> str:
        return str(self.used)

    @in_json
    def hard_(self) -> str:
        return str(self.hard)

    @in_json
    def percent(self) -> int:
        return percent(self.used.nano, self.hard.nano) if self.hard else 100


@dataclass(frozen=True, repr=False)
class Capacity(Result):
    """The output of `forewarn headroom` without an object: how full each pool of nodes is, the fullest first.

    `total`: of all nodes. `pending`: number of Pods that are Pending, without placeholder Pods.
    `pendingPlaceholders`: the number of these. `quotas`: the usage of ResourceQuotas, the highest percentage first.
    """

    pools: Sequence[PoolCapacity]
    total: PoolCapacity
    pending: int
    pending_placeholders: int = 0
    quotas: Sequence[QuotaUse] = ()

    @inlined_in_json
    def document(self) -> AnswerDocument:
        cpu, size, _ = self.total.percents
        is_full = any(max(pool.percents) >= 100 for pool in self.pools)
        exceeded, short = full_quotas(self.quotas)
        over = f"; {'a quota is' if len(exceeded) == 1 else 'quotas are'} exceeded" if exceeded else ""
        return AnswerDocument(
            status=AnswerStatus.WARN if self.pending or is_full or short or exceeded else AnswerStatus.OK,
            question=f"capacity of {plural(self.total.nodes, 'node')}",
            clause=f"{cpu} % of cpu and {size} % of memory requested{over}",
            shown=[
                Counter("Pods", self.total.pods),
                Counter("placeholder Pods", self.total.placeholders, optional=True),
                Counter("Pods Pending now", self.pending),
                Counter("placeholders Pending", self.pending_placeholders, optional=True),
                Counter("cordoned", self.total.cordoned, optional=True),
                Counter("quotas exceeded", len(exceeded), optional=True),
                Counter("quotas nearly full", len(short), optional=True),
            ],
            tables=[_pool_table(self), _extended_resource_table(self.pools), _quota_table(self.quotas)],
            more=("forewarn headroom KIND/NAME", "forewarn headroom -f FILE"),
        )


def full_quotas(quotas: Sequence[QuotaUse]) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return the exceeded ResourceQuotas, and the others that have more than 90 % of a resource in use."""
    exceeded = {(each.namespace, each.quota) for each in quotas if each.used.nano > each.hard.nano}
    short = {(each.namespace, each.quota) for each in quotas if each.percent > _NEARLY_USED and each.used}
    return exceeded, short - exceeded


def _extended_resource_table(pools: Sequence[PoolCapacity]) -> Table:
    rows = [
        (pool.pool or _NO_POOL, *each, percent(each.requested, each.allocatable))
        for pool in pools
        for each in pool.extended
    ]
    return Table(("POOL", "RESOURCE", "REQUESTED", "ALLOCATABLE", "%"), rows, zeros=True)


def _quota_table(quotas: Sequence[QuotaUse]) -> Table:
    rows: Rows = [
        [
            f"{each.namespace}/{each.quota}",
            each.resource,
            format_units(each.used),
            format_units(each.hard),
            each.percent,
        ]
        for each in quotas
    ]
    return Table(("QUOTA", "RESOURCE", "USED", "HARD", "%"), rows, zeros=True)


def _pool_table(capacity: Capacity) -> Table:
    heads = (
        "POOL",
        "NODES",
        "CPU %",
        "MEMORY %",
        "PODS %",
        "FREE CPU",
        "FREE MEMORY",
        "MOST ON A NODE",
        "PLACEHOLDERS",
    )

    def row(pool: PoolCapacity, name: str) -> list[str | int]:
        free_cpu = cores(max(pool.allocatable_milli_cpu - pool.requested_milli_cpu, 0))
        free_memory = gibibytes(max(pool.allocatable_memory - pool.requested_memory, 0))
        most = f"{cores(pool.largest_free_milli_cpu)} or {gibibytes(pool.largest_free_memory)}"
        return [name, pool.nodes, *pool.percents, free_cpu, free_memory, most, pool.placeholders]

    rows = [row(pool, pool.pool or _NO_POOL) for pool in capacity.pools]
    return Table(heads, rows, row(capacity.total, "total"))


_LONG: Final = 200


@dataclass(frozen=True, slots=True)
class HeadroomRequest:
    """Manifests of Pods and workloads, or a workload of the cluster.

    `namespace`: namespace of objects that name none. `workload`: `KIND/NAME`, instead of manifests. `placeholders`: the
    number of Pods that must start without waiting for new nodes. `autoscaling`: settings of autoscalers (default: those
    of the cluster). `options`: those of rules, which select placeholder Pods. `at_least`: the number that must fit,
    with preemption if `preempting`.
    """

    manifests: Manifest | Sequence[Manifest] = ()
    namespace: str = "default"
    placeholders: int | None = None
    autoscaling: Autoscaling | None = None
    workload: str = ""
    options: Options = field(default_factory=Options)
    at_least: int | None = None
    preempting: bool = False


def headroom(
    cluster: Cluster | ClusterSnapshot,
    request: HeadroomRequest | Manifest | Sequence[Manifest],
    buffers: CapacityBuffers | None = None,
) -> HeadroomResult:
    """Count the replicas that fit. `request`: a HeadroomRequest, or its manifests alone.

    `buffers`: the CapacityBuffers of the cluster. Raises SourceError and InvalidObject.
    """
    if not isinstance(request, HeadroomRequest):
        request = HeadroomRequest(request)
    check_numbers(0, placeholders=request.placeholders)
    check_one_of(workload=request.workload, manifests=request.manifests)
    autoscaling = autoscaling_for(cluster, request.autoscaling)
    cluster, places, buffers = snapshot_of(cluster), Places(), buffers or CapacityBuffers()
    faults = list[Exception]()
    with places.locating():
        if request.workload:
            objects: Sequence[ApiObject] = workloads_of(cluster, [request.workload], request.namespace)
        else:
            objects, cluster = with_manifests(cluster, request.manifests, request.namespace, places, faults)
        faults = [places.located(fault) for fault in faults]
        if not objects:
            raise Rejected(faults)
        objects = _one_of_each_group(objects)
        rooms = [headroom_of(cluster, obj, autoscaling) for obj in objects]
        notes = [*places.warnings(), *([buffers.note] if buffers.note else [])]
        rooms = [room._replace(notes=[*room.notes, *notes]) for room in rooms] if notes else rooms
        results = []
        for obj, room in zip(objects, rooms, strict=True):
            own = buffers.buffers_for(obj, request.placeholders)
            buffered, reserve = own.provisioned if own else 0, None
            if wanted := request.placeholders:
                reserve = placeholders(cluster, obj, room, wanted, request.options, autoscaling.cutoff, buffered)
            results.append(ObjectHeadroom(room, reserve, own))
    head = head_with_nodes(cluster, (clause for room in rooms for clause in room.assumes))
    return HeadroomResult(head, cluster, results, faults, request.at_least, request.preempting, bool(request.workload))


def capacity(cluster: Cluster | ClusterSnapshot, options: Options | None = None) -> Capacity:
    """Return how full each pool of nodes is. `options`: the options of rules, which select placeholder Pods."""
    snapshot, options = snapshot_of(cluster), options or Options()
    pools = grouped((pool_of(info.node), info) for info in snapshot.scheduling.node_infos)
    rows = [_capacity_of(name, infos, options) for name, infos in pools.items()]
    total = _capacity_of("", snapshot.scheduling.node_infos, options)
    names = snapshot.semantics.scheduler_names
    waiting = [is_placeholder(pod, options) for pod in snapshot.waiting_pods.values() if is_pending(pod, names)]
    pending = waiting.count(False), waiting.count(True)
    ordered = sorted(rows, key=lambda pool: (-max(pool.percents), pool.pool))
    return Capacity(head_with_nodes(snapshot), ordered, total, *pending, quota_uses(snapshot))


def quota_uses(cluster: ClusterSnapshot) -> list[QuotaUse]:
    """Return the usage of each ResourceQuota, the highest percentage first."""
    namespaces = sorted({quota.namespace for quota in cluster.resource_quotas.values()})
    uses = [
        QuotaUse(quota.namespace, quota.name, resource, quota.used[resource], limit)
        for namespace in namespaces
        for quota in cluster.quotas_of(namespace)
        for resource, limit in sorted(quota.hard.items())
        if resource in quota.used
    ]
    return sorted(uses, key=lambda use: (-use.percent, use[:3]))


def _capacity_of(name: str, infos: Sequence[NodeInfo], options: Options) -> PoolCapacity:
    sizes, usable = [info.node.allocatable for info in infos], [info for info in infos if not info.node.unschedulable]
    return PoolCapacity(
        name,
        len(infos),
        len(infos) - len(usable),
        sum(len(info.pods) for info in infos),
        sum(size.allowed_pod_number for size in sizes),
        sum(info.milli_cpu for info in infos),
        sum(size.milli_cpu for size in sizes),
        sum(info.memory for info in infos),
        sum(size.memory for size in sizes),
        max((max(info.node.allocatable.milli_cpu - info.milli_cpu, 0) for info in usable), default=0),
        max((max(info.node.allocatable.memory - info.memory, 0) for info in usable), default=0),
        sum(is_placeholder(pod, options) for info in infos for pod in info.pods),
        [
            ExtendedResource(
                resource,
                sum(info.scalars.get(resource, 0) for info in infos),
                sum(size.scalars.get(resource, 0) for size in sizes),
            )
            for resource in sorted({resource for size in sizes for resource, amount in size.scalars.items() if amount})
        ],
    )


def _one_of_each_group(objects: Sequence[ApiObject]) -> list[ApiObject]:
    """Return the objects, with only the first of several Pods of a PodGroup."""
    groups: dict[object, ApiObject] = {}
    for number, obj in enumerate(objects):
        name = at(obj, "spec", "schedulingGroup", "podGroupName")
        groups.setdefault((at(obj, "metadata", "namespace"), name) if isinstance(name, str) else number, obj)
    return list(groups.values())


def read_buffers(sources: Sequence[str], buffers: CapacityBuffers) -> CapacityBuffers:
    """Add the CapacityBuffers of running clusters, or the note that they cannot be read."""
    try:
        for source in sources:
            for obj in objects_of(source, "capacity_buffers"):
                buffers.collect(obj)
    except SourceError as fault:
        buffers.note = f"CapacityBuffers not read: {brief(str(fault), _LONG)}"
    return buffers
