"""Forecast the effects (Impact) of the objects of one apply on the cluster, in the order of the apply."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.copies import replace
from forewarn.policies.base.findings import grouped
from forewarn.policies.base.metering import CutShort, charge, charging, limited, meter, metered, never
from forewarn.policies.kubernetes.cluster.admission import counted_by_requests
from forewarn.policies.kubernetes.controllers.changes import PodChange, creates_no_pods, pod_change
from forewarn.policies.kubernetes.controllers.own_pods import (
    MAX_SEQUENTIAL,
    Adoption,
    DaemonPods,
    Recreator,
    again,
    are_equivalent,
    controller_in,
    creates_pods_later,
)
from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, JOB, POD_TEMPLATE_PATHS, STATEFUL_SET
from forewarn.policies.kubernetes.kube_apiserver.quota import PODS, FaultKind, first_rejected, given_back
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, group_kind, mapping, ref_of
from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
from forewarn.policies.kubernetes.scheduling.bulk import OnEachNode, capacity_for, on_each_node
from forewarn.policies.kubernetes.scheduling.not_predicted import (
    assumptions,
    is_scheduled_by_group,
    lists_storage,
    not_scheduled,
    unmodelled,
)
from forewarn.policies.kubernetes.scheduling.preemption import Decision
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.prediction.forecast.impact import (
    BY_CHOICE,
    BY_NODES,
    BY_PDBS,
    BY_QUEUE,
    BY_RETRIES,
    MAX_SHOWN,
    NOT_PREDICTED,
    WITHOUT_CLAIMS,
    Cascade,
    Impact,
)
from forewarn.policies.prediction.forecast.placement import Applied, ChargedQuotas, Placement, place, place_in_order
from forewarn.policies.prediction.forecast.pod_groups import (
    MAX_DAEMONS,
    MAX_PLACED,
    MAX_PREEMPTIONS,
    MAX_REHEARSAL_WORK,
    MAX_REHEARSED,
    MAX_VICTIMS,
    check_extents,
    new_pods_of,
    too_many_pods,
    too_many_preemptions,
)
from forewarn.policies.prediction.forecast.replacements import (
    concern,
    pending_replacements,
    started_elsewhere,
    unknown_replacement,
)
from forewarn.policies.prediction.forecast.why_not import Waiting, help_pending, pending_in_order, pods_ahead

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.resource_quota import ResourceQuota
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
    from forewarn.policies.prediction.forecast.rehearsal import Rehearsal
    from forewarn.policies.prediction.simulation.scenario import Arrival


class NodeOrder(NamedTuple):
    """The nodes of new Pods by outcome: `preempting` other Pods, staying `pending`, or `fitting`.

    The controller of a DaemonSet visits nodes in a random order: upstream iterates over a Go map. The order matters if
    a quota admits only some Pods, if Pending Pods stop a rollout, or if victims' replacements use the capacity of old
    Pods. Predictions then assume an order with many preemptions.
    """

    preempting: tuple[str, ...]
    pending: tuple[str, ...]
    fitting: tuple[str, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes, those with the worst outcome first."""
        return self.preempting + self.pending + self.fitting

    def counts_by_chance(self, created: int) -> bool:
        """Report whether chance decides how many Pods preempt or stay Pending if only `created` of them are created."""
        every = len(self.nodes)
        have_one_outcome = every in (len(self.preempting), len(self.pending), len(self.fitting))
        return 0 < created < every and not have_one_outcome


def order_of(snapshot: Snapshot, pods: DaemonPods) -> NodeOrder | None:
    """Return the order of the nodes of these Pods; None if their outcomes depend on each other. Raises CutShort."""
    on_each = on_each_node(snapshot, pods.anywhere, pods.nodes)
    if on_each is None:
        return None
    others = list(on_each.others)
    return NodeOrder(
        tuple(node for node, candidate in others if candidate is not None),
        tuple(node for node, candidate in others if candidate is None),
        tuple(node for node in pods.nodes if node in on_each.fits),
    )


BINDING: Final = 12
"""Units of work to create a Pod and bind it."""


def with_all(snapshot: Snapshot, pods: Sequence[Pod]) -> Snapshot:
    """Return the Snapshot after scheduling these Pods one after the other. Raises TooLarge above MAX_PLACED Pods."""
    if len(pods) > MAX_PLACED:
        raise too_many_pods(MAX_PLACED)
    for pod in pods:
        snapshot = Prediction(snapshot, pod).snapshot_after()
    return snapshot


def filled(snapshot: Snapshot, pods: Sequence[Pod], by_node: Mapping[str, int]) -> Snapshot:
    """Return the Snapshot with the Pods bound: `by_node[name]` Pods on each node. The numbers must match."""
    places = chain.from_iterable(repeat(node, count) for node, count in by_node.items())
    bound, work = [], meter()
    for pod, node in zip(pods, places, strict=True):
        work.charge(BINDING)
        bound.append(snapshot.bound(pod, node))
    return snapshot.with_pods(bound, ())


def with_daemons(
    snapshot: Snapshot, pods: DaemonPods, nodes: Sequence[str], predictions: Sequence[Prediction]
) -> Snapshot:
    """Return the Snapshot with a DaemonSet's Pods: bound on `nodes`, nominated with victims for `predictions`."""
    pushing = [p for p in predictions if p.outcome == "preempts"]
    placed = snapshot.with_pods(
        [snapshot.bound(pods.named_for(node), node) for node in charging(nodes, 2 * BINDING)], ()
    )
    return placed.with_preemptions([(p.pod, p.node, p.victims) for p in charging(pushing, BINDING)])


def without(snapshot: Snapshot, deleted: Sequence[Pod]) -> Snapshot:
    """Return the Snapshot without these Pods, found by identity and node."""
    gone = {(pod.node_name, pod.identity) for pod in deleted}
    infos = [info for name in {name for name, _ in gone} if (info := snapshot.get(name)) is not None]
    return snapshot.with_pods((), [pod for info in infos for pod in info.pods if (pod.node_name, pod.identity) in gone])


def depends_on_retries(impact: Impact, pod: Pod, snapshot: Snapshot, *, freed: int) -> bool:
    """Report whether later attempts to schedule new Pods like `pod` may change their outcome.

    kube-scheduler considers a Pod that fits for all later Pods. It considers a Pod that preempts only on its nominated
    node, until the Pod runs. `freed`: see `freed_by_victims`.
    """
    victims = sum(victim.namespace == pod.namespace for one in impact.preempting for victim in one.victims)
    are_several = bool(impact.preempting) and impact.new > 1
    return are_several and (freed > 0 or concerns_itself(pod, snapshot, impact.new + victims))


def freed_by_victims(impact: Impact, pod: Pod, quotas: Sequence[ResourceQuota]) -> int:
    """Return how many new Pods like `pod` quotas reject at first, but may admit once the victims terminate.

    `quotas`: those of the namespace, without the new Pods. If the quotas depend on more than requests: all rejected
    Pods.
    """
    victims = {v.identity: v for p in impact.preempting for v in p.victims if v.namespace == pod.namespace}
    if not impact.rejected or not victims:
        return 0
    for counted in map(counted_by_requests, victims.values()):
        quotas = given_back(quotas, counted, PODS.usage(counted))
    first, check = first_rejected(counted_by_requests(pod), quotas, replicas=impact.new)
    if any(fault.kind is not FaultKind.EXCEEDED for fault in check.faults):
        return impact.rejected
    return impact.rejected - (impact.new - first + 1 if first else 0)


def concerns_itself(pod: Pod, snapshot: Snapshot, moved: int) -> bool:
    """Report whether required constraints of a Pod select Pods with the same labels, beyond single nodes, or whether
    such Pods compete for devices, which no nomination reserves. `moved`: see `concern`.
    """
    return pod.spec.claims_devices or concern(pod, pod, snapshot, moved)


class QuotaLimits(NamedTuple):
    """How ResourceQuotas limit the new Pods of one object.

    `most`: the number of new Pods that they admit at first; None for all. `beside_old`: whether they admit all new Pods
    while all old Pods exist. `before`: returns the quotas of a namespace without the object's Pods; None: those of the
    cluster. `is_known`: whether only quotas limit the Pods, which a simulation can update.
    """

    most: int | None = None
    beside_old: bool = True
    before: Callable[[str], Sequence[ResourceQuota]] | None = None
    is_known: bool = True


def not_read(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]], why: CutShort) -> Impact | None:
    """Return the impact of an object whose evaluation stopped before its Pods were read; None without new Pods."""
    new = new_pods_of(subject, paths)
    return Impact((), new, None).stopped(why) if new else None


def arrivals_of(change: PodChange, limit: int | None) -> list[Arrival]:
    """Return the arrivals of a simulation: the changed workload; without one, at most `limit` of the new Pods."""
    from forewarn.policies.prediction.simulation.scenario import Arrival

    if change.workload is not None:
        is_new = not change.rolled_out and not change.own  # otherwise, the stored object is needed
        return [Arrival(0.0, "create" if is_new else "update", change.workload)]
    obj, pods = change.pod_object or {}, change.pods[:limit]
    names = [f"{pod.name}+{number}" if number else pod.name for number, pod in enumerate(charging(pods))]
    metadata = {**mapping(obj, "metadata"), "namespace": pods[0].namespace}
    return [Arrival(0.0, "create", {**obj, "kind": "Pod", "metadata": {**metadata, "name": name}}) for name in names]


def _agree(simulated: Impact, done: Impact) -> bool:
    """Report whether a simulation and a prediction Pod by Pod have the same outcomes."""
    victims, others = ({v.identity for p in one.preempting for v in p.victims} for one in (simulated, done))
    return victims == others and (simulated.pending, simulated.rejected) == (done.pending, done.rejected)


@dataclass(frozen=True)
class _State:
    """The cluster after some objects. `compute`: returns the scheduler's Snapshot.

    `placed`: identities of Pending Pods that were scheduled or preempt, for all objects so far. `in_groups`: new Pods
    of each PodGroup that are not bound.
    """

    compute: Callable[[], Snapshot]
    placed: frozenset[str] = frozenset()
    in_groups: Mapping[tuple[str, str], tuple[Pod, ...]] = field(default_factory=dict)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The Snapshot, computed once, when the next object needs it."""
        return self.compute()

    def ended_before(self, place: int, change: PodChange) -> _State:
        """Return the state without the old Pods that terminate before the new Pod with index `place`.

        In contrast to a simulation, Pending Pods do not use their capacity.
        """
        deleted = change.deleted.get(place)
        return replace(self, compute=partial(without, self.snapshot, deleted)) if deleted else self


_Predicted = tuple[Impact, _State]
"""The impact of an object, and the cluster after it."""


class Forecast:
    """The impacts of the objects of one apply.

    Each impact starts from the cluster with the Pods of the preceding objects.
    """

    def __init__(
        self,
        cluster: ClusterSnapshot,
        paths: Mapping[str, tuple[str, ...]],
        expired: Callable[[], bool],
        *,
        pods_defaulted: bool = False,
        recreated: Collection[str] = (),
        before_simulation: Callable[[Impact, Waiting], object] | None = None,
        explains: bool = False,
        is_placeholder: Callable[[Pod], bool] = lambda _: False,
    ) -> None:
        """Set the cluster and the options.

        `expired`: returns True once time is up. `recreated`: see `again`. `before_simulation`: called with the initial
        impact and the Pending Pods before a rollout is simulated; an exception prevents the simulation. `explains`: see
        `rehearse`. `is_placeholder`: reports whether a Pod only reserves capacity; no counter includes it.
        """
        self._is_placeholder = is_placeholder
        self._recreated, self._before_simulation = recreated, before_simulation
        self._explains = explains
        self._cluster, self._paths, self._expired, self._pods_defaulted = cluster, paths, expired, pods_defaulted
        self._adoption = Adoption(cluster)
        self._state = _State(lambda: cluster.scheduling)
        """The cluster with the objects predicted so far."""

    def predict_impact(self, subject: ReviewedObject, quotas: QuotaLimits | None = None) -> Impact | None:
        """Return the impact of the next object; None without new Pods, or for an object that rules report as invalid.

        `quotas`: None if only the cluster's quotas limit a rollout.
        """
        quotas = quotas or QuotaLimits()
        try:
            if creates_no_pods(subject, self._paths):
                return None
            check_extents(subject, self._paths)
            change = pod_change(subject, self._cluster, self._paths, pods_defaulted=self._pods_defaulted)
            if change.pods:
                self._cluster.check_retained(change.pods[0].namespace)
        except CutShort as why:
            return not_read(subject, self._paths, why)
        except InvalidObject:
            return None  # other rules report the error
        if not change.pods or not_scheduled(change.pods[0], self._state.snapshot):
            return None
        impact, after = self._predict_pods(change, quotas)
        if not creates_pods_later(subject.object):
            self._state = after
        return impact

    def _predict_pods(self, change: PodChange, quotas: QuotaLimits) -> _Predicted:
        pod, own = change.pods[0], frozenset(pod.identity for pod in change.own)
        impact = Impact((), len(change.pods), change.pods[-1].effective_priority, own)
        impact = impact._replace(keeps_old=change.keeps_old, deleted_first=change.deleted_first)
        why_not = unmodelled(pod, self._state.snapshot)
        is_grouped = is_scheduled_by_group(pod, self._state.snapshot)
        if why_not and not is_grouped:
            return impact._replace(rest="not-predicted", why_not=why_not), self._state
        if self._expired():
            rejected = 0 if quotas.most is None or change.deleted_first else max(impact.new - quotas.most, 0)
            return impact._replace(rejected=rejected, rest="unknown" if rejected < impact.new else ""), self._state
        try:
            if is_grouped:
                return self._predict_group(change, impact, quotas.most, why_not)
            done, after = self._full_impact(change, impact, quotas)
            done = self._without_guesses(done)
        except CutShort as why:
            return impact.stopped(why), self._state
        done = done._replace(by_chance=done.by_chance or BY_CHOICE * bool(done.least))
        assumed = assumptions(self._cluster.objects, (pod,), victims=bool(done.preempting or done.by_waiting))
        return done._replace(assumes=(*assumed, *done.assumes)) if assumed else done, after

    def _without_guesses(self, impact: Impact) -> Impact:
        """Return the impact without the cascade if a component that is not modelled decides it, or time is up."""
        direct = [victim for each in (*impact.preempting, *impact.by_waiting) for victim in each.victims]
        try:
            why = unknown_replacement(charging([*direct, *impact.evicted]), self._cluster)
        except InvalidObject:
            return impact
        except CutShort:
            return impact._replace(cascade=impact.cascade and NOT_PREDICTED)
        if why is None:
            return impact
        return impact._replace(cascade=NOT_PREDICTED._replace(not_predicted=why), evicted=(), num_pdb_violations=0)

    def _predict_group(self, change: PodChange, impact: Impact, limit: int | None, why_not: str) -> _Predicted:
        """Return the impact of new Pods that kube-scheduler schedules with their PodGroup.

        `limit`: maximum number of Pods, None for all. `why_not`: why the Pods are not predicted one by one. Raises
        CutShort.
        """
        from forewarn.policies.prediction.forecast.pod_groups import group_forecast

        arriving = change.pods[: 1 if change.one_by_one else limit]
        state = self._state
        if not arriving:
            return impact._replace(rejected=impact.new), state
        if len(arriving) > MAX_SEQUENTIAL:
            raise too_many_pods(MAX_SEQUENTIAL)
        is_rollout = change.rolled_out or any(change.deleted.values()) or change.creates_claims
        before = state.in_groups.get((arriving[0].namespace, arriving[0].spec.pod_group), ())
        group = None if is_rollout else group_forecast(state.snapshot, (*before, *arriving))
        if group is None or group.outcome == "not-predicted":
            why_not = f"{why_not.partition(';')[0]}; {group.message}" if group else why_not
            return impact._replace(rest="not-predicted", why_not=why_not), state
        bound = group.places.keys() if group.outcome == "fits" else ()
        left = tuple(pod for pod in (*before, *arriving) if pod.identity not in bound)
        in_groups = {**state.in_groups, (group.group.namespace, group.group.name): left}
        after = replace(state, compute=partial(group.snapshot_after, state.snapshot), in_groups=in_groups)
        fitting = sum(pod.identity in bound for pod in arriving)
        rest = "" if fitting == impact.new else "group"
        return impact._replace(group=group, fitting=fitting, rest=rest, assumes=group.assumes), after

    def _full_impact(self, change: PodChange, impact: Impact, quotas: QuotaLimits) -> _Predicted:
        """Return the impact: by a simulation for a rollout, for Pods with new claims, and if later attempts preempt
        others; otherwise Pod by Pod, with the cascade as far as it is known in time.

        If a simulation is too large, only the first Pods are predicted, and `first_only` is set. Raises CutShort.
        """
        too_many = limited() and max(len(change.pods), len(change.own)) > MAX_REHEARSED
        try:
            simulated = None if too_many else self._rehearsed(change, impact, quotas)
        except CutShort:
            if self._expired():
                raise
            simulated, too_many = None, True
        if simulated is not None:
            return simulated
        done, after = self._one_by_one(change, impact, quotas.most)
        if (done.preempting or done.by_waiting) and done.rest not in ("unknown", "not-predicted"):
            try:
                done, after = self._followed(change, impact, quotas, done, after, too_many=too_many)
            except CutShort:
                done = done._replace(cascade=NOT_PREDICTED)
        if change.rolled_out:
            done = done._replace(first_only=too_many and done.fitting < done.new)
        return done, after

    def _one_by_one(self, change: PodChange, impact: Impact, limit: int | None) -> _Predicted:
        done, after = self._limited(change, impact, limit)
        return done._replace(assumes=(*done.assumes, WITHOUT_CLAIMS)) if change.without_claims else done, after

    def _followed(
        self, change: PodChange, impact: Impact, quotas: QuotaLimits, done: Impact, after: _State, *, too_many: bool
    ) -> _Predicted:
        """Return `done` with what follows the preemptions, or the impact of a simulation in its place.

        `after`: the cluster with the new Pods. Raises CutShort.
        """
        pod = change.pods[0]
        # True if each Pod runs before the next is created, or if the rollout was too large for a simulation.
        in_turn = change.rolled_out or (change.one_by_one and not done.rejected)
        freed = freed_by_victims(done, pod, (quotas.before or self._cluster.quotas_of)(pod.namespace))
        retries = not in_turn and depends_on_retries(done, pod, self._state.snapshot, freed=freed)
        if not retries and (cascade := self._without_cascade(change, done, after, quotas)) is not None:
            return done._replace(cascade=cascade), after
        impact = impact._replace(by_chance=self._chance_of_retries(change, done)) if retries else impact
        found = None if too_many or change.rolled_out else self._simulated_in_time(change, impact, quotas)
        if found is not None:
            simulated, after_simulation = found
            is_other = not _agree(simulated, done)
            if retries or is_other:
                by_chance = simulated.by_chance or done.by_chance or (self._chance_of_queue(impact) if is_other else "")
                return simulated._replace(by_chance=by_chance), after_simulation
            violations = simulated.num_pdb_violations
            done = done._replace(cascade=simulated.cascade, evicted=simulated.evicted, num_pdb_violations=violations)
            return done, after
        cascade = self._without_cascade(change, done, after, quotas) if retries else None
        done = done._replace(cascade=cascade or self._not_simulated(done))
        if not retries:
            return done, after
        if self._expired():
            return done._replace(rest="unknown"), after
        rejected = done.rejected - freed
        first = done._replace(predictions=done.preempting, rejected=rejected, rest="unknown", first_only=True)
        return first._replace(after_rejected=min(first.after_rejected, max(rejected - 1, 0))), after

    def _simulated_in_time(self, change: PodChange, impact: Impact, quotas: QuotaLimits) -> _Predicted | None:
        """Return the impact of a simulation; None if the simulation cannot decide it, or if work or time is used up.

        The simulation omits Pending Pods that preempt even without the new Pods.
        """
        is_simulated = change.workload is not None or (change.pod_object is not None and not change.without_claims)
        if not is_simulated or not (quotas.most is None or quotas.is_known):
            return None
        try:
            with metered(self._expired, MAX_REHEARSAL_WORK):
                waiting = pending_in_order(self._cluster, impact.own | self._state.placed)
                simulated = self._simulated(change, impact, waiting, quotas)
                if simulated is None or not simulated[0].by_waiting or change.rolled_out:
                    return simulated
                # These Pods are perhaps only just created, or wait for something that forewarn does not model.
                waiting = waiting.without({prediction.pod.identity for prediction in simulated[0].by_waiting})
                return self._simulated(change, impact, waiting, quotas)
        except (CutShort, InvalidObject):
            return None

    def _without_cascade(self, change: PodChange, impact: Impact, after: _State, quotas: QuotaLimits) -> Cascade | None:
        """Return the cascade if no Pending Pod may use the capacity of the victims, and if no order of events changes
        the outcome of their replacements; otherwise None. `after`: the cluster with the new Pods.
        """
        preemptions = (*impact.preempting, *impact.by_waiting)
        evicted = {v.identity: v for p in preemptions for v in p.victims if not v.terminating}
        own = impact.own | impact.let_in
        victims = [victim for identity, victim in evicted.items() if identity not in own]
        recreators = [self._recreator_of(victim) for victim in victims]
        replaced = [
            victim for victim, recreator in zip(victims, recreators, strict=True) if recreator is Recreator.CONTROLLER
        ]
        pending: int | None = 0
        try:
            with metered(self._expired, MAX_REHEARSAL_WORK):
                waiting, freed = pending_in_order(self._cluster, impact.own | after.placed), [*evicted.values()]
                emptied = cache(partial(without, after.snapshot, freed))
                if (waiting.pods or waiting.omitted) and help_pending(waiting, emptied(), freed):
                    return None
                if replaced:
                    charged = ChargedQuotas(self._cluster, quotas.before)
                    if not self._are_first(change, impact, charged):
                        return None
                    owned = grouped((controller_in(self._cluster, self._adoption.adopt(pod)), pod) for pod in replaced)
                    first, snapshot = change.pods[0], after.snapshot
                    pending = pending_replacements(charged, snapshot, emptied, owned, first, self._is_placeholder)
        except (CutShort, InvalidObject):
            return None
        if pending is None:
            return None
        counted = [each for each, pod in zip(recreators, victims, strict=True) if not self._is_placeholder(pod)]
        again = counted.count(Recreator.CONTROLLER)
        unknown = sum(recreator.is_assumption for recreator in counted)
        return Cascade(again, len(counted) - again, pending=pending, controller_unknown=unknown)

    def _are_first(self, change: PodChange, impact: Impact, charged: ChargedQuotas) -> bool:
        """Report whether kube-scheduler tries all new Pods before the replacements of their victims, which have a lower
        priority. Charges the quotas for the new Pods. Raises CutShort and InvalidObject.
        """
        charge(len(self._cluster.waiting_pods) // 4)
        nominates = any(pod.nominated_node_name for pod in self._cluster.waiting_pods.values())
        is_slow = change.workload is not None and group_kind(change.workload) in (DAEMON_SET, STATEFUL_SET)
        are_at_once = change.is_at_once and are_equivalent(change.pods) and not impact.rejected
        if nominates or is_slow or impact.by_waiting or not are_at_once:
            return False
        return charged.admit(change.workload or change.pod_object or {}, change.pods)[0] == len(change.pods)

    def _recreator_of(self, pod: Pod) -> Recreator:
        owner = controller_in(self._cluster, self._adoption.adopt(pod))
        return again(pod, self._recreated, is_there=owner is not None and owner in self._cluster.workloads)

    def _not_simulated(self, impact: Impact) -> Cascade:
        """Return a cascade marked as not predicted, with the number of Pending Pods that may use the victims' capacity
        before the new Pods do.
        """
        charge(len(self._cluster.waiting_pods))
        ahead = [pod for pod in pods_ahead(self._cluster, impact.priority or 0) if pod.identity not in impact.own]
        return NOT_PREDICTED._replace(pending_not_evaluated=len(ahead))

    def _chance_of_retries(self, change: PodChange, first: Impact) -> str:
        """Return what decides which Pods use the quota that victims free; "" if only the new Pods wait for it.

        `first`: the impact of the Pods that the quota admits at first.
        """
        if not first.rejected:
            return ""
        if isinstance(change.pods, DaemonPods):
            return BY_NODES
        victims = [v for p in first.preempting for v in p.victims if v.namespace == change.pods[0].namespace]
        others = any(self._recreator_of(victim) is Recreator.CONTROLLER for victim in victims)
        return BY_RETRIES if others else ""

    def _chance_of_queue(self, impact: Impact) -> str:
        """Return BY_QUEUE if Pods of equal priority but different kinds compete for the capacity of victims: the new
        Pods, and Pending Pods ahead of them; otherwise "".
        """
        pods = pending_in_order(self._cluster, impact.own | self._state.placed).pods
        own = impact.priority or 0
        kinds = {(pod.effective_priority, id(pod.spec)) for pod in pods if pod.effective_priority >= own} | {(own, 0)}
        return BY_QUEUE if len(kinds) > len({priority for priority, _ in kinds}) else ""

    def _rehearsed(self, change: PodChange, impact: Impact, quotas: QuotaLimits) -> _Predicted | None:
        """Return the impact of a rollout or of Pods with new claims by simulation; None for others. Raises CutShort."""
        if not (change.rolled_out or change.creates_claims) or (quotas.most is not None and not quotas.is_known):
            return None
        if change.creates_claims and not lists_storage(self._cluster.objects):
            return None
        try:
            with metered(self._expired, MAX_REHEARSAL_WORK):
                waiting = pending_in_order(self._cluster, impact.own | self._state.placed)
                limited = quotas.most is not None or not quotas.beside_old
                if not (limited or change.under_way or change.without_claims) and self._all_fit(change.pods):
                    emptied = partial(without, self._state.snapshot, change.own)
                    if not (waiting.pods or waiting.omitted) or not help_pending(waiting, emptied(), change.own):
                        after = replace(self._state, compute=lambda: with_all(emptied(), change.pods))
                        return impact._replace(fitting=impact.new), after
                if self._before_simulation is not None:
                    self._before_simulation(impact, waiting)
                return self._simulated(change, impact, waiting, quotas)
        except InvalidObject:
            return None

    def _simulated(self, change: PodChange, impact: Impact, waiting: Waiting, quotas: QuotaLimits) -> _Predicted | None:
        """Return the impact of a change by simulation; None if the simulation cannot decide it. Raises CutShort and
        InvalidObject.

        If Pods of a DaemonSet preempt, a second simulation reverses the order in which its controller visits nodes. The
        result is the simulation with more victims; if equal, the one with fewer preempted replacements.
        """
        from forewarn.policies.prediction.forecast.rehearsal import rehearse

        simulate = partial(
            rehearse,
            self._cluster,
            self._state.snapshot,
            arrivals_of(change, quotas.most),
            waiting,
            quotas_of=quotas.before,
            by_chance=bool(impact.by_chance),
            explains=self._explains,
            recreated=self._recreated,
            is_placeholder=self._is_placeholder,
        )
        if not isinstance(change.pods, DaemonPods):
            return self._predict_rehearsal(simulate(), change, impact)
        before = self._state.snapshot if change.keeps_old else without(self._state.snapshot, change.own)
        order = order_of(before, change.pods)
        nodes = order.nodes if order else change.pods.nodes
        rehearsal, is_by_chance = simulate(nodes=nodes), False
        if rehearsal.preempting or rehearsal.by_waiting:
            with suppress(CutShort):
                other = simulate(nodes=nodes[::-1])
                is_by_chance = other.outcome != rehearsal.outcome
                rehearsal = max(rehearsal, other, key=lambda one: (len(one.victims), -len(one.evicted)))
        return self._predict_rehearsal(rehearsal, change, impact, by_chance=BY_NODES * is_by_chance)

    def _predict_rehearsal(
        self, rehearsal: Rehearsal, change: PodChange, impact: Impact, by_chance: str = ""
    ) -> _Predicted | None:
        """Return the impact; None if only the end of the simulation or an unknown provisioner keeps a Pod Pending."""
        if change.creates_claims and rehearsal.has_unknown_volumes:
            return None
        if any(prediction.outcome != "pending" for prediction in rehearsal.pending):
            return None
        placed = self._state.placed | rehearsal.let_in
        after = replace(self._state, compute=lambda: rehearsal.snapshot, placed=placed)
        by_chance = by_chance or impact.by_chance
        quota = rehearsal.quota
        others = len({one.pod.uid for one in (*rehearsal.preempting, *rehearsal.pending)})
        if change.under_way:  # the number of new Pods with the old template is unknown
            impact = impact._replace(new=max(impact.new, rehearsal.created, others))
        fitting = max(min(rehearsal.created, impact.new) - others, 0)
        missing = max(impact.new - fitting - others, 0)
        gone = min(rehearsal.deleted_again, missing)  # Pods with the old template of a Deployment that also grows
        missing -= gone
        impact = impact._replace(
            new=max(impact.new - gone, others),  # a Deployment that also grows may keep Pods of its old template
            predictions=(*rehearsal.preempting, *rehearsal.pending),
            by_old_template=rehearsal.by_old_template,
            fitting=fitting,
            evicted=rehearsal.evicted,
            num_pdb_violations=rehearsal.num_pdb_violations,
            rejected=missing if quota.rejected else 0,
            rejection=quota.message,
            delay="" if quota.rejected else quota.delay,
            after_rejected=max(missing - quota.rejected, 0) if quota.rejected else 0,
            rest="later" if missing and not quota.rejected else "",
            by_waiting=rehearsal.by_waiting,
            let_in=rehearsal.let_in,
            is_simulated=True,
            by_chance=by_chance or BY_RETRIES * quota.is_contested or BY_PDBS * rehearsal.depends_on_pdbs,
            is_close=rehearsal.is_close and bool(rehearsal.preempting or rehearsal.by_old_template),
            cascade=rehearsal.cascade if rehearsal.victims else None,
        )
        return impact, after

    def _all_fit(self, pods: Sequence[Pod]) -> bool:
        """Report whether all these Pods fit in addition to all current Pods, including the old Pods of the workload."""
        if not are_equivalent(pods):
            return False
        capacity = capacity_for(self._state.snapshot, pods[0])
        return capacity is not None and capacity.total >= len(pods)

    def _limited(self, change: PodChange, impact: Impact, limit: int | None) -> _Predicted:
        """Return the impact of at most `limit` new Pods. A quota rejects the others, unless old Pods terminate first.

        `limit`: None for all. Raises CutShort.
        """
        rejected = 0 if limit is None or change.deleted_first else max(len(change.pods) - limit, 0)
        arriving = change.pods[:limit] if rejected else change.pods
        if not arriving:
            return impact._replace(rejected=rejected), self._state
        impact = impact._replace(
            rejected=rejected, after_rejected=(rejected - 1) * (change.one_by_one and rejected > 0)
        )
        state = self._state.ended_before(0, change)
        if rejected and isinstance(change.pods, DaemonPods):
            impact = impact._replace(by_chance=BY_NODES)
            found = _on_some_nodes(change.pods, len(arriving), impact, state)
        else:
            found = self._common_prediction(arriving, impact, change, state) if not any(change.deleted) else None
        done, after = found or self._sequentially(arriving, impact, change, state)
        return done._replace(rejected=0, after_rejected=0) if done.rest == "later" else done, after

    def _common_prediction(
        self, arriving: Sequence[Pod], impact: Impact, change: PodChange, state: _State
    ) -> _Predicted | None:
        """Return the impact if all Pods fit, or a DaemonSet has one per node; None if each Pod needs a prediction."""
        if isinstance(arriving, DaemonPods):
            on_each = on_each_node(state.snapshot, arriving.anywhere, arriving.nodes)
            return None if on_each is None else _on_each_node(arriving, impact, on_each, state)
        if len(arriving) == 1 or not are_equivalent(arriving):
            return None
        capacity = capacity_for(state.snapshot, arriving[0])
        if capacity is None or (capacity.total < len(arriving) and capacity.by_node is None):
            return None
        if capacity.total >= len(arriving):
            after = replace(state, compute=partial(with_all, state.snapshot, arriving))
            return impact._replace(fitting=len(arriving)), after
        assert capacity.by_node is not None
        if capacity.total > MAX_PLACED:
            return impact._replace(fitting=capacity.total).stopped(too_many_pods(MAX_PLACED)), state
        full = partial(filled, state.snapshot, arriving[: capacity.total], capacity.by_node)
        impact = impact._replace(fitting=capacity.total)
        return self._sequentially(arriving[capacity.total :], impact, change, replace(state, compute=full))

    def _sequentially(self, arriving: Sequence[Pod], impact: Impact, change: PodChange, state: _State) -> _Predicted:
        """Predict the Pods one by one, each after the preceding ones."""
        predictions: list[Prediction] = []
        begun, preempting, victims, waiting = state.snapshot, 0, 0, 0

        def done(rest: str, why_not: str = "") -> _Predicted:
            return impact._replace(predictions=tuple(predictions), rest=rest, why_not=why_not), state

        try:
            for place, pod in enumerate(arriving[:MAX_SEQUENTIAL]):
                if predictions and self._expired():
                    return done("unknown")
                if place:
                    state = state.ended_before(place, change)
                prediction = Prediction(state.snapshot, pod)
                preempts, is_pending = prediction.outcome == "preempts", prediction.outcome == "pending"
                if why_not := prediction.unmodelled:
                    return done("not-predicted", why_not)
                impact = _with_race(impact, prediction, begun, change)
                compute = prediction.final_snapshot if change.one_by_one else prediction.snapshot_after
                state = replace(state, compute=compute)
                settled = partial(prediction.settled, begun, len(predictions) < MAX_SHOWN, change.is_at_once)
                predictions.append(prediction if is_pending else settled())
                preempting, victims = preempting + preempts, victims + len(prediction.victims)
                waiting += is_pending or (preempts and not change.one_by_one)
                if limited() and (preempting >= MAX_PREEMPTIONS or victims >= MAX_VICTIMS):
                    raise too_many_preemptions(MAX_PREEMPTIONS)
                if rest := _rest_after(waiting, change, arriving, is_pending=is_pending):
                    is_last = len(predictions) == len(arriving) and not (impact.rejected and change.one_by_one)
                    return done("" if is_last else rest)
            if len(predictions) < len(arriving):
                raise too_many_pods(MAX_SEQUENTIAL)
        except CutShort as why:
            return impact._replace(predictions=tuple(predictions)).stopped(why), state
        return done("")


def _on_some_nodes(pods: DaemonPods, created: int, impact: Impact, state: _State) -> _Predicted | None:
    """Return the impact of `created` Pods of a DaemonSet on random nodes; None if they affect each other."""
    order = order_of(state.snapshot, pods)
    if order is None:
        return None
    arriving = DaemonPods(pods.anywhere, order.nodes[:created])
    on_each = on_each_node(state.snapshot, arriving.anywhere, arriving.nodes)
    assert on_each is not None
    impact = impact._replace(by_chance=BY_NODES if order.counts_by_chance(created) else "")
    return _on_each_node(arriving, impact, on_each, state, is_elsewhere=len(order.preempting) > created)


def _on_each_node(
    arriving: DaemonPods, impact: Impact, on_each_node: OnEachNode, state: _State, *, is_elsewhere: bool = False
) -> _Predicted:
    """Return the impact of a DaemonSet's Pods, which affect each other only by the PDBs of their victims.

    `is_elsewhere`: whether the Pods may preempt on other nodes instead.
    """
    snapshot, work = state.snapshot, meter()
    predictions: list[Prediction] = []
    placed = [node for node in arriving.nodes if node in on_each_node.fits]
    victims = 0
    for node, candidate in on_each_node.others:
        if limited() and (len(predictions) >= MAX_DAEMONS or victims >= MAX_VICTIMS):
            before = arriving.nodes.index(node) - len(predictions)
            found_so_far = impact._replace(predictions=tuple(predictions), fitting=before)
            return found_so_far.stopped(too_many_preemptions(MAX_DAEMONS)), state
        work.charge(1 + BINDING)
        by_chance = True if is_elsewhere or impact.by_chance else None
        decision = Decision([], [node] if candidate else [], candidate, is_elsewhere, by_chance)
        predictions.append(Prediction(snapshot, arriving.pod_on(node), decision))
        victims += len(candidate.victims) if candidate else 0
    after = replace(state, compute=partial(with_daemons, snapshot, arriving, placed, predictions))
    return impact._replace(predictions=tuple(predictions), fitting=len(placed)), after


def _with_race(impact: Impact, prediction: Prediction, begun: Snapshot, change: PodChange) -> Impact:
    """Return the impact, with a note if chance (the state of PDBs) decides which Pods this Pod preempts."""
    if change.one_by_one or isinstance(change.pods, DaemonPods):  # `_on_each_node` has no races either
        return impact
    may_race = prediction.outcome == "preempts" and not impact.by_chance and prediction.depends_on_pdbs_since(begun)
    return impact._replace(by_chance=BY_PDBS) if may_race else impact


def _rest_after(waiting: int, change: PodChange, arriving: Sequence[Pod], *, is_pending: bool) -> str:
    """Return the outcome of the next Pods if the last one determines it, else "". `waiting`: Pods without a node."""
    if change.window is not None and waiting >= change.window:
        return "later"
    if not is_pending or not are_equivalent(arriving):
        return ""
    # An ordered StatefulSet creates no further Pod until the Pending Pod is ready.
    return "later" if change.one_by_one else "pending"


def place_rollout(
    cluster: ClusterSnapshot,
    obj: ApiObject,
    replicas: int | None = None,
    is_placeholder: Callable[[Pod], bool] = lambda _: False,
    *,
    is_alone: bool = True,
) -> Placement | None:
    """Predict an object as the linter and the webhook do; None if `place` or `place_in_order` predicts it.

    Those two predict an object that starts no rollout, unless a Pod needs a retry or quota that victims free, or a
    later attempt of a new Pod preempts other Pods. `replicas`: as in `place_all`. `is_alone`: no other object uses the
    quotas. Raises InvalidObject.
    """
    subject = ReviewedObject(obj if replicas is None else _scaled(obj, replicas))
    change = pod_change(subject, cluster, POD_TEMPLATE_PATHS)
    is_rollout = change.rolled_out and replicas is None
    admitted, rejection = ChargedQuotas(cluster).admit(subject.object, change.pods)
    has_one_order = is_alone or isinstance(change.pods, DaemonPods)  # the nodes of a DaemonSet are random
    is_limited = has_one_order and not is_rollout and admitted < len(change.pods)
    has_retries = is_limited or _has_retries(change, cluster)
    if not (is_rollout or has_retries or is_alone):
        return None
    limits = QuotaLimits(admitted) if is_limited else QuotaLimits(beside_old=admitted == len(change.pods))
    forecast = Forecast(cluster, POD_TEMPLATE_PATHS, never, explains=True, is_placeholder=is_placeholder)
    impact = forecast.predict_impact(subject, limits)
    # Otherwise, no Pod preempts, and no Pod with new claims stays Pending.
    if not is_rollout and not (impact and (impact.predictions if change.creates_claims else impact.preempting)):
        return None
    if impact is not None and not (is_rollout or has_retries or impact.is_simulated):
        return replace(place(cluster, obj, replicas), following=impact)
    impact = (impact or _without_impact(cluster, change))._replace(replaces_none=change.replaces_none)
    return _placement_of(subject, impact, rejection)


def _placement_of(subject: ReviewedObject, impact: Impact, rejection: str) -> Placement:
    """Return an impact as a Placement. `rejection`: the message of a quota that rejects Pods at the start."""
    rejection = impact.rejection or (rejection if impact.rejected else "")
    return Placement(str(subject.ref), impact.predictions, impact.new, rejection=rejection, rollout=impact)


def _without_impact(cluster: ClusterSnapshot, change: PodChange) -> Impact:
    """Return the impact of a rollout that creates no new Pods yet, or Pods of another scheduler."""
    why = not_scheduled(change.pods[0], cluster.scheduling) if change.pods else ""
    return Impact((), len(change.pods), None, rest="not-predicted" if why else "", why_not=why)


def _scaled(obj: ApiObject, replicas: int) -> ApiObject:
    fields = {"parallelism": replicas, "completions": replicas} if group_kind(obj) == JOB else {"replicas": replicas}
    return {**obj, "spec": {**mapping(obj, "spec"), **fields}}


def _has_retries(change: PodChange, cluster: ClusterSnapshot) -> bool:
    """Report whether kube-scheduler may try Pods of the change again after others of the workload run."""
    if change.workload is None or change.rolled_out or change.one_by_one or len(change.pods) < 2:
        return False
    pod, snapshot = change.pods[0], cluster.scheduling
    return (
        not pod.spec.pod_group and not not_scheduled(pod, snapshot) and concerns_itself(pod, snapshot, len(change.pods))
    )


def place_all(
    cluster: ClusterSnapshot,
    objects: Sequence[ApiObject],
    replicas: int | None = None,
    is_placeholder: Callable[[Pod], bool] = lambda _: False,
) -> Applied:
    """Predict the new Pods of all objects: rollouts and Pods with retries by a simulation, all others by `place` or
    `place_in_order`.

    `replicas`: the number of Pods for each object; None: as specified in the objects. With a number, no object counts
    as a rollout. `is_placeholder`: as in `Forecast`.
    """
    rollouts: dict[int, Placement | InvalidObject] = {}
    rolled_out, is_alone = partial(place_rollout, is_placeholder=is_placeholder), len(objects) == 1
    for index, obj in enumerate(objects):
        try:
            if (started := started_elsewhere(obj, cluster)) is not None and replicas is None:
                impact = Impact((), started[0], None, rest="not-predicted", why_not=started[1])
                rollouts[index] = Placement(str(ref_of(obj, "default")), (), started[0], rollout=impact)
            elif (placement := rolled_out(cluster, obj, replicas, is_alone=is_alone)) is not None:
                rollouts[index] = placement
        except InvalidObject as fault:
            rollouts[index] = fault
    others = [obj for index, obj in enumerate(objects) if index not in rollouts]
    applied = _place(cluster, others, replicas)
    rest = iter(applied.placements)
    return replace(applied, placements=tuple(rollouts.get(index) or next(rest) for index in range(len(objects))))


def _place(cluster: ClusterSnapshot, objects: Sequence[ApiObject], replicas: int | None) -> Applied:
    if len(objects) != 1:
        return place_in_order(cluster, objects, replicas)
    try:
        return Applied((place(cluster, objects[0], replicas),))
    except InvalidObject as fault:
        return Applied((fault,))
