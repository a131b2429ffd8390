"""Repeated scheduling cycles, mostly of unschedulable Pods: Pods with equal specs or requests share results.

A scheduler with many Pending Pods mostly retries these, in a cluster that has changed on few nodes. So the rejections
that depend on a spec and the nodes alone are cached, Pods with equal requests share the nodes with insufficient
resources, and preemption costs are recomputed only for changed nodes. The result equals that of `Cycle` (tests compare
them). Source: kubernetes `pkg/scheduler/schedule_one.go`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from forewarn.policies.base.copies import cached_in
from forewarn.policies.kubernetes.scheduling.find_nodes import framework_in_columns
from forewarn.policies.kubernetes.scheduling.not_predicted import has_constraints
from forewarn.policies.kubernetes.scheduling.plugins.inter_pod_affinity import terms_against
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import NodeResourcesFit, reason_of
from forewarn.policies.kubernetes.scheduling.plugins.one_node import NodePorts
from forewarn.policies.kubernetes.scheduling.plugins.other_points import DefaultPreemption
from forewarn.policies.kubernetes.scheduling.plugins.volume_binding import VolumeBinding
from forewarn.policies.kubernetes.scheduling.plugins.volume_filters import (
    NodeVolumeLimits,
    VolumeRestrictions,
    VolumeZone,
)
from forewarn.policies.kubernetes.scheduling.preemption import (
    NO_VICTIMS,
    Candidate,
    Decision,
    pod_eligible_to_preempt_others,
)
from forewarn.policies.kubernetes.scheduling.reasons import NOT_HELPFUL
from forewarn.policies.kubernetes.scheduling.snapshot import Columns, NotValid, Snapshot
from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import lower_priority_pods_of
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import MAX, CapacityConstraint, nominations_of
from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import (
    NO_LIMIT,
    PodMatrix,
    pod_matrix_of,
    storage_of,
    volumes_of_kinds,
)
from forewarn.policies.kubernetes.scheduling.vectorized_cycle import (
    Cheapest,
    Cycle,
    FirstRejections,
    Found,
    Scores,
    count_rejections,
    found_in_order,
    percentage_of,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod, PodSpec
    from forewarn.policies.kubernetes.objects.storage import PersistentVolumeClaim
    from forewarn.policies.kubernetes.scheduling.arguments import DefaultPreemptionArgs
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, Mask, Rows
    from forewarn.policies.kubernetes.scheduling.vectorized.lower_priority_pods import LowerPriorityPods, Occupancy
    from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import Nominations


class Demand(NamedTuple):
    """A resource that a Pod requests.

    `row`: index of the resource in `Columns.resources`. `limit`: [node], the largest amount that other Pods may use so
    that the Pod fits.
    """

    resource: str
    row: int
    limit: Ints


class VolumeRejections(NamedTuple):
    """The rejections of nodes by VolumeBinding and VolumeZone.

    `room`: [node], see `NodeVolumeLimits.volume_room`.
    """

    found: FirstRejections
    room: Ints


class Spec(NamedTuple):
    """The results that depend on a Pod's spec and the nodes alone, not on other Pods.

    `open`: [node], bool: the node fits without other Pods. `plugins`, `reasons`: rejections by plugins, and reason ->
    number of nodes. `allowed`: [node], bool: no such rejection.
    """

    spec: PodSpec
    request: Hashable
    demands: list[Demand]
    open: Mask
    plugins: frozenset[str]
    reasons: Counter[str]
    allowed: Mask
    nominated: bool
    """Whether columns support a nominated Pod with this spec."""
    preemption: DefaultPreemptionArgs | None
    """The arguments of DefaultPreemption, if it is in the profile."""
    constrained: bool
    """Whether constraints other than resources may reject nodes for a Pod with this spec. Their filters run later."""
    reached: Mask
    """[node], bool: whether the Pod's bound volumes can be mounted there."""
    is_reached: bool
    """Whether the volumes can be mounted on one of the `open` nodes."""
    of_volumes: VolumeRejections | None
    """How VolumeBinding and VolumeZone reject the `open` nodes, if these reject all of them; None if they do not, or if
    a plugin other than NodeVolumeLimits may reject a node with enough resources earlier.
    """
    percentage: int
    """percentageOfNodesToScore of the profile."""


class Request:
    """The requests of a Pod at one priority, and the nodes with insufficient resources for them.

    Arrays are [demand, node] unless stated otherwise.
    """

    def __init__(self, demands: Sequence[Demand], priority: int) -> None:
        self.resources, self._priority = tuple(demand.resource for demand in demands), priority
        self._rows = np.array([demand.row for demand in demands], np.intp)
        self.limits: Ints = np.array([demand.limit for demand in demands], np.int64)
        """The largest amounts that other Pods may use so that the Pod fits."""
        self._columns: Columns | None = None
        self._nominations: Nominations | None = None
        self._nominated = -1
        self.present: Ints = self.limits
        """The amounts in use, with all nominated Pods."""
        self.insufficient: Mask = np.zeros(self.limits.shape, np.bool_)
        self.full: Mask = np.zeros(self.limits.shape[-1], np.bool_)
        """[node], bool: whether any resource is insufficient."""

    def sync(self, columns: Columns, nominations: Nominations) -> None:
        """Update the arrays for these columns and nominations. Raises NotValid for very large amounts."""
        if self._columns is columns and self._nominations is nominations and self._nominated == nominations.version:
            return
        present = columns.requested[self._rows]  # a copy, because the next columns may use the array
        if nominations:
            present += nominations.amounts(self._priority)[self._rows]
        self.present, self.insufficient = present, present > self.limits
        self.full = np.logical_or.reduce(self.insufficient)
        self._columns, self._nominations, self._nominated = columns, nominations, nominations.version


def read_spec(snapshot: Snapshot, pod: Pod) -> Spec | None:
    """Return the results that depend on a Pod's spec and the nodes alone; None if the Pod is not supported.

    Not supported: filters before NodeResourcesFit that depend on other Pods, static filters that read more of the Pod
    than its spec, and PreFilter plugins that reject the Pod.
    """
    spec = pod.spec
    try:
        cycle = _supported_cycle(snapshot, pod)
        plugins, reasons, left = cycle.static_rejections()
    except NotValid:
        return None
    fit, names = cycle.node_fit, snapshot.columns.resources
    resources = [demand for demand in fit.demands if demand.constraint is None]
    demands = [Demand(demand.resource, names.index(demand.resource), demand.limit) for demand in resources]
    amounts = spec.request
    base = amounts.milli_cpu, amounts.memory, amounts.ephemeral_storage
    reached = _reached(snapshot, pod, cycle, len(left))
    has_default = DefaultPreemption.name in cycle.framework.profile.plugins
    preemption = cycle.framework.plugin(DefaultPreemption.name) if has_default else None
    opens = fit.static & fit.resolvable
    return Spec(
        spec,
        (base, tuple(sorted(amounts.scalars.items())), tuple(demand.resource for demand in demands)),
        demands,
        opens,
        frozenset(plugins),
        reasons,
        left,
        nominated=not any(plugin.static_filter(pod) for plugin in cycle.framework.late_static_plugins),
        preemption=preemption.args if preemption else None,
        constrained=len(resources) < len(fit.demands) or has_constraints(spec, cycle.framework),
        reached=reached,
        is_reached=bool((opens & reached).any()),
        of_volumes=_volume_rejections(snapshot, pod, cycle, opens),
        percentage=percentage_of(cycle.framework),
    )


def _supported_cycle(snapshot: Snapshot, pod: Pod) -> Cycle:
    """Return the cycle of the Pod without its nomination. Raises NotValid if the Pod is not supported."""
    spec, resources = pod.spec, snapshot.columns.resources
    if snapshot.extended_resources or spec.claims_devices or spec.host_ports:
        raise NotValid
    if any(volume.ephemeral for volume in spec.volumes):
        raise NotValid
    if any(amount and resource not in resources for resource, amount in spec.request.scalars.items()):
        raise NotValid
    cycle = Cycle(snapshot, replace(pod, nominated_node_name=""))
    first = next((plugin.name for plugin in cycle.framework.column_plugins if plugin.name != NodePorts.name), "")
    if not cycle.preempts or cycle.framework.plan.reads_whole_pod or first != NodeResourcesFit.name:
        raise NotValid
    return cycle


def _reached(snapshot: Snapshot, pod: Pod, cycle: Cycle, nodes: int) -> Mask:
    """Return [node], bool: whether the Pod's bound volumes can be mounted there."""
    reached = np.ones(nodes, np.bool_)
    if all(claim is None or claim.fully_bound for claim in _claims_of(snapshot, pod)):
        for plugin in {VolumeBinding.name, VolumeZone.name}.intersection(cycle.node_fit.rejections):
            reached &= cycle.node_fit.rejections[plugin].codes < 0
    return reached


def _volume_rejections(snapshot: Snapshot, pod: Pod, cycle: Cycle, opens: Mask) -> VolumeRejections | None:
    """Return `Spec.of_volumes`. `opens`: see `Spec.open`."""
    claims = [claim for claim in _claims_of(snapshot, pod) if claim is not None]
    if not claims or not all(claim.fully_bound for claim in claims):
        return None
    passing = {NodeVolumeLimits.name}
    if not any(volume.disk for volume in pod.spec.volumes) and not any(claim.is_exclusive for claim in claims):
        passing.add(VolumeRestrictions.name)
    names = [plugin.name for plugin in cycle.framework.column_plugins]
    found, room = FirstRejections(len(opens)), np.full(len(opens), NO_LIMIT)
    for name in names[names.index(NodeResourcesFit.name) + 1 :]:
        if name in (VolumeBinding.name, VolumeZone.name):
            if name in cycle.node_fit.rejections:
                found.add(cycle.node_fit.rejections[name], name)
        elif name not in passing:
            break
    if not (found.codes[opens] >= 0).all():
        return None
    if NodeVolumeLimits.name in names:
        room = cycle.framework.plugin(NodeVolumeLimits.name).volume_room(pod, storage_of(cycle.matrix, snapshot))
    return VolumeRejections(found, room)


def _claims_of(snapshot: Snapshot, pod: Pod) -> Iterator[PersistentVolumeClaim | None]:
    claims = snapshot.objects.claims
    return (claims.get((pod.namespace, v.claim_name)) for v in pod.spec.volumes if v.claim_name is not None)


def _volumes_of(snapshot: Snapshot, pod: Pod) -> list[object]:
    """Return each PersistentVolumeClaim of a Pod and its PersistentVolume, None for missing ones, and the table of
    VolumeAttachments.
    """
    if not pod.spec.has_storage:
        return []
    volumes = snapshot.objects.volumes
    own = [
        item for claim in _claims_of(snapshot, pod) for item in (claim, claim and volumes.get(("", claim.volume_name)))
    ]
    return [*own, snapshot.objects.attachments]


_CACHE_SIZE: Final = 4096
"""Maximum number of cached specs."""
_CACHED_REQUESTS: Final = 256
"""Maximum number of cached requests, each at one priority: about 400 kB each at 5,000 nodes."""
_STATIC_TABLES: Final = "nodes", "csi_nodes", "csi_drivers", "storage_classes", "device_classes", "semantics"
"""The inputs of static results, besides the spec, its claims and their volumes."""
_static_tables: Final = attrgetter(*_STATIC_TABLES)


_storage_tables: Final = attrgetter("claims", "volumes", "attachments")


class _Known(NamedTuple):
    """The static result of a spec, which is valid as long as the same `_volumes_of` are in the `tables`."""

    spec: PodSpec
    tables: Sequence[object]
    volumes: Sequence[object]
    result: Spec | None


class RecurringCycles:
    """Cached results for the cycles of one scheduler, or of simulations that start from one Snapshot."""

    def __init__(self) -> None:
        self._tables: Sequence[object] = (None,) * len(_STATIC_TABLES)
        self._specs: dict[tuple[int, str], _Known] = {}
        """id of a spec, and the namespace of its claims -> its static result."""
        self._requests: dict[tuple[int, Hashable], Request] = {}

    def cycle(self, snapshot: Snapshot, pod: Pod) -> RecurringCycle | None:
        """Return the cycle of a Pod; None if this class does not support the Pod. Hold `snapshot.derived.locked()`
        while you use the cycle.

        If static filters and resources reject all nodes, no later filter runs: constraints of the Pod, and constraints
        of other Pods against the Pod, do not matter until preemption finds a node with enough resources.
        """
        tables = _static_tables(snapshot.objects)
        if any(map(is_not, tables, self._tables)):
            self._tables = tables
            self._specs.clear()
            self._requests.clear()
        matrix = pod_matrix_of(snapshot)
        spec = self._spec(snapshot, pod)
        if spec is None or pod.node_name or (pod.nominated_node_name and not spec.nominated):
            return None
        if snapshot.columns.largest >= MAX:
            return None
        request = self._request(spec, pod.effective_priority)
        nominations = nominations_of(snapshot, matrix)
        try:
            request.sync(snapshot.columns, nominations)
        except NotValid:
            return None
        cycle = RecurringCycle(snapshot, pod, matrix, spec, request, nominations)
        return None if cycle.nodes and cycle.constrained and not cycle.rejects_for_volumes() else cycle

    def _spec(self, snapshot: Snapshot, pod: Pod) -> Spec | None:
        key, tables = (id(pod.spec), pod.namespace), _storage_tables(snapshot.objects)
        known = self._specs.get(key)
        if known is None or any(map(is_not, known.tables, tables)):
            volumes = _volumes_of(snapshot, pod)
            if known is None or any(map(is_not, known.volumes, volumes)):
                if len(self._specs) >= _CACHE_SIZE:
                    self._specs.clear()
                known = _Known(pod.spec, tables, volumes, read_spec(snapshot, pod))
            self._specs[key] = known._replace(tables=tables)
        return known.result

    def _request(self, spec: Spec, priority: int) -> Request:
        key = priority, spec.request
        return cached_in(self._requests, key, lambda: Request(spec.demands, priority), _CACHED_REQUESTS)


def recurring_cycles_of(snapshot: Snapshot) -> RecurringCycles:
    """Return the cached cycles of all simulations of these nodes. Hold `snapshot.derived.locked()` meanwhile."""
    derived = snapshot.derived
    with derived.locked():
        derived.recurring = recurring_cycles = derived.recurring or RecurringCycles()
    return recurring_cycles


class RecurringCycle:
    """The scheduling cycle of one Pod on one Snapshot, for a profile with preemption.

    Results are valid within the limits of `__init__`.
    """

    preempts = True

    def __init__(
        self, snapshot: Snapshot, pod: Pod, matrix: PodMatrix, spec: Spec, request: Request, nominations: Nominations
    ) -> None:
        """Update the results that the cycles of several Pods share, for this Snapshot.

        The cycle is valid if no node has enough resources (`nodes` is 0), or if no other constraint exists (see
        `constrained`).
        """
        self.snapshot, self.pod = snapshot, pod
        self._matrix, self._spec, self._request, self._nominations = matrix, spec, request, nominations
        self._present, self._insufficient, self._full = request.present, request.insufficient, request.full
        if (own := nominations.nomination_of(pod)) is not None:  # its own nomination does not count
            self._present = request.present.copy()
            self._present[:, own.row] -= [matrix.kinds.amounts(resource)[own.kind] for resource in request.resources]
            self._insufficient = self._present > request.limits
            self._full = np.logical_or.reduce(self._insufficient)
        self._out_of_reach: Mask | None = None
        """[node], bool: the nodes with enough resources, if the Pod's volumes reject all of them; otherwise None."""
        self.feasible: Mask = spec.open & ~self._full
        """[node], bool: whether the node can run the Pod now."""
        self.nodes = int(np.count_nonzero(self.feasible))
        """Number of feasible nodes."""

    def rejects_for_volumes(self) -> bool:
        """Report whether VolumeBinding or VolumeZone reject all nodes with enough resources, and no plugin before. If
        so, `nodes` becomes 0.
        """
        of_volumes = self._spec.of_volumes
        if of_volumes is None or self.pod.nominated_node_name:
            return False
        here = self.feasible
        if not self._are_within_volume_limits(here, of_volumes.room):
            return False
        self._out_of_reach, self.feasible, self.nodes = here, np.zeros_like(here), 0
        return True

    def _are_within_volume_limits(self, nodes: Mask, room: Ints) -> bool:
        """Report whether NodeVolumeLimits certainly rejects none of these nodes ([node], bool) for the volumes of other
        Pods. `room`: see `VolumeRejections`.
        """
        storage = storage_of(self._matrix, self.snapshot)
        users = storage.users(self._matrix)
        if storage.limited.any() and (users.faulty or users.ephemeral):
            return False
        nominated = self._nominations.total(volumes_of_kinds(self._matrix), self.pod.effective_priority)
        return not (nodes & (storage.used(self._matrix) + nominated > room)).any()

    @cached_property
    def constrained(self) -> bool:
        """Whether filters after NodeResourcesFit may reject nodes, by constraints of the Pod or against it."""
        return self._spec.constrained or bool(terms_against(self.pod, self._matrix, self.snapshot))

    @cached_property
    def _cycle(self) -> Cycle:
        """The cycle of the Pod evaluated without shared results, with all constraints. Raises NotValid."""
        return Cycle(self.snapshot, self.pod)

    def fits_on(self, name: str) -> bool:
        """Report whether the Pod fits on the node with this name; False if the node does not exist."""
        row = self.snapshot.rows.get(name)
        return row is not None and bool(self.feasible[row])

    def find(self, order: Rows) -> Found:
        """Return the feasible nodes that kube-scheduler finds before it stops."""
        if not self.nodes:
            return Found(order[:0], len(order))
        return found_in_order(self.feasible, order, self._spec.percentage)

    def scores(self, rows: Rows) -> Ints:
        """Return [index in `rows`]: the total scores. `rows`: row numbers of the nodes to score. Raises NotValid."""
        return Scores(framework_in_columns(self.snapshot, self.pod), self.pod, self._matrix).total_scores(rows)

    def rejection(self) -> tuple[frozenset[str], Counter[str]]:
        """Return (plugins that reject the Pod, reason -> number of nodes)."""
        spec = self._spec
        counts = np.count_nonzero(spec.allowed & self._insufficient, axis=1)
        plugins, reasons = set(spec.plugins), spec.reasons.copy()
        for demand, count in zip(spec.demands, counts.tolist(), strict=True):
            if count:
                reasons[reason_of(demand.resource)] += count
                plugins.add(NodeResourcesFit.name)
        if self._out_of_reach is not None and spec.of_volumes is not None:
            count_rejections(spec.of_volumes.found, self._out_of_reach, plugins, reasons)
        return frozenset(plugins), reasons

    @property
    def ineligible_reason(self) -> str:
        """Why the Pod may not preempt, or ""."""
        rows = self.snapshot.rows
        return pod_eligible_to_preempt_others(self.pod, self.snapshot, lambda name: not self._spec.open[rows[name]])

    @cached_property
    def helped_nodes(self) -> Rows:
        """Row numbers of the nodes with enough resources if all Pods of lower priority were removed; none if the Pod's
        volumes can be mounted on none of them. Raises NotValid.
        """
        matrix, snapshot, priority = self._matrix, self.snapshot, self.pod.effective_priority
        if snapshot.may_preempt_groups(priority):  # the priority of a PodGroup may be lower than that of its Pods
            raise NotValid("of Pods that belong to PodGroups")
        if matrix.kinds.lowest_priority >= priority or not self._spec.is_reached:
            return np.zeros(0, np.intp)
        nodes = self._helped(lower_priority_pods_of(matrix, snapshot, priority))
        return nodes if self._spec.reached[nodes].any() else nodes[:0]

    @cached_property
    def decision(self) -> Decision:
        """The decision over all nodes, for a Pod that fits on none. Without a candidate, if `candidate_on` finds one.
        Raises NotValid.
        """
        matrix, snapshot, nodes = self._matrix, self.snapshot, self.helped_nodes
        if not len(nodes):
            return Decision()
        if self.constrained:
            return self._cycle.decision
        lower = lower_priority_pods_of(matrix, snapshot, self.pod.effective_priority)
        lower.settle(nodes, matrix, snapshot)
        args, potential = self._spec.preemption, int(np.count_nonzero(self._spec.open))
        most = len(nodes) if args is None else args.num_candidates(potential)
        is_sampled = len(nodes) > most
        self._cheapest = Cheapest(snapshot, lower, self._occupancy(lower), nodes, matrix)
        names = self._cheapest.names
        return Decision((), names, None, is_sampled, may_miss_best=is_sampled and len(nodes) - len(names) >= most)

    def unhelped(self) -> Mapping[str, int]:
        """Return why preemption helps on no node: reason -> number of nodes. Raises NotValid.

        Filters after resources do not matter if every node lacks resources even without Pods of lower priority, or if
        the Pod's volumes can be mounted on none.
        """
        lower, volumes = lower_priority_pods_of(self._matrix, self.snapshot, self.pod.effective_priority), None
        helped = len(self._helped(lower))
        if self._out_of_reach is not None or helped:
            volumes = None if self.pod.nominated_node_name else self._spec.of_volumes
            if volumes is None or not self._are_within_volume_limits(self._spec.open, volumes.room):
                return self._cycle.unhelped()
        potential = self._spec.open if self._out_of_reach is None else self._spec.open & ~self._out_of_reach
        tried = potential & (lower.count > 0)
        fits, victims = tried.copy(), int(np.count_nonzero(tried))
        reasons = Counter[str]({NOT_HELPFUL: len(tried) - int(np.count_nonzero(potential))})
        reasons[NO_VICTIMS.reasons[0]] = int(np.count_nonzero(potential)) - victims
        for resource, lacks in zip(self._request.resources, tried & self._lacking_without(lower), strict=True):
            reasons[reason_of(resource)] = int(np.count_nonzero(lacks))
            fits &= ~lacks
        if volumes is not None:
            count_rejections(volumes.found, fits, set(), reasons)
        return {reason: nodes for reason, nodes in reasons.items() if nodes}

    def _helped(self, lower: LowerPriorityPods) -> Rows:
        """Return the row numbers of the nodes with enough resources if all Pods of lower priority were removed."""
        return np.flatnonzero(self._spec.open & (lower.count > 0) & ~self._lacking_without(lower).any(axis=0))

    def _lacking_without(self, lower: LowerPriorityPods) -> Mask:
        """Return [demand, node]: whether the resource is insufficient even without all Pods of lower priority."""
        totals = np.array([lower.total(resource, self._matrix) for resource in self._request.resources])
        lacking: Mask = self._present - totals > self._request.limits
        return lacking

    def _occupancy(self, lower: LowerPriorityPods) -> list[Occupancy]:
        """Return the amounts of the request's resources, without the nomination of the Pod itself."""
        rows = zip(self._present, self._request.limits, self._request.resources, strict=True)
        return [lower.occupancy(CapacityConstraint(*row), self._matrix) for row in rows]

    def candidate_on(self, name: str) -> Candidate:
        """Return the candidate on the node `name`, one of `decision.best_nodes`, with victims."""
        if self.constrained:
            return self._cycle.candidate_on(name)
        return self._cheapest.candidate(self._cheapest.names.index(name))
