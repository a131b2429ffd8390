"""The flavors that a Workload gets. Source: kueue pkg/scheduler/flavorassigner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.objects import kueue, node
from forewarn.policies.prediction.kueue.workload import Info, LastAssignment, PodSetResources

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.kueue import FlavorFungibility, PodSet, ResourceFlavor, ResourceGroup
    from forewarn.policies.prediction.kueue.snapshot import ClusterQueueSnapshot


class Mode(IntEnum):
    """Whether a flavor can be assigned now: `FlavorAssignmentMode`."""

    NO_FIT = 0
    PREEMPT = 1
    FIT = 2


class PreemptionMode(IntEnum):
    """Whether a flavor can be assigned now, and with which kind of preemption: upstream `preemptionMode`."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4

    @property
    def mode(self) -> Mode:
        return {PreemptionMode.NO_FIT: Mode.NO_FIT, PreemptionMode.FIT: Mode.FIT}.get(self, Mode.PREEMPT)


class GranularMode(NamedTuple):
    """How well a flavor suits. `borrowing_level`: 0 without borrowing, higher the further up the tree the quota is."""

    preemption_mode: PreemptionMode
    borrowing_level: int

    def is_preferred_to(self, other: GranularMode, fungibility: FlavorFungibility) -> bool:
        """Report whether this mode is better according to the preference of the ClusterQueue. Source: `isPreferred`."""
        if PreemptionMode.NO_FIT in (self.preemption_mode, other.preemption_mode):
            return self.preemption_mode != PreemptionMode.NO_FIT
        by_preemption = other.preemption_mode - self.preemption_mode
        by_borrowing = self.borrowing_level - other.borrowing_level
        if fungibility.preference == kueue.PREEMPTION_OVER_BORROWING:
            return (by_borrowing, by_preemption) < (0, 0)
        return (by_preemption, by_borrowing) < (0, 0)

    def should_try_next_flavor(self, fungibility: FlavorFungibility) -> bool:
        mode = self.preemption_mode
        if mode in (PreemptionMode.NO_FIT, PreemptionMode.NO_CANDIDATES):
            return True
        is_preempting = mode in (PreemptionMode.PREEMPT, PreemptionMode.RECLAIM)
        return (is_preempting and fungibility.when_can_preempt == kueue.TRY_NEXT_FLAVOR) or (
            self.borrowing_level > 0 and fungibility.when_can_borrow == kueue.TRY_NEXT_FLAVOR
        )


_WORST: Final = GranularMode(PreemptionMode.NO_FIT, 2**63 - 1)
_BEST: Final = GranularMode(PreemptionMode.FIT, 0)


class WhyNot(NamedTuple):
    """Why a flavor does not fit now: in upstream's words, and a short form. `flavor`: None if no flavor can fit.
    `resource`: the one that the ClusterQueue does not cover; "" for other reasons.
    """

    text: str
    flavor: str | None
    short: str
    resource: str = ""


@dataclass(slots=True)
class FlavorAssignment:
    """The flavor of one resource. `borrow`: see `Assignment.borrowing`."""

    name: str
    mode: Mode
    borrow: int
    tried_flavor_idx: int = 0


@dataclass(frozen=True, slots=True)
class AssignedPodSet:
    """The flavors of one PodSet by resource. `reasons`: why other flavors do not fit now."""

    name: str
    flavors: Mapping[str, FlavorAssignment]
    reasons: tuple[WhyNot, ...]
    requests: Mapping[str, kueue.Amount]
    count: int

    @property
    def representative_mode(self) -> Mode:
        if not self.reasons:
            return Mode.FIT
        return min((flavor.mode for flavor in self.flavors.values()), default=Mode.NO_FIT)


@dataclass(slots=True)
class Assignment:
    """The flavors of a Workload. `borrowing`: the height of the lowest subtree of cohorts that has enough quota."""

    generation: int
    pod_sets: list[AssignedPodSet] = field(default_factory=list)
    borrowing: int = 0
    usage: kueue.Quantities = field(default_factory=dict)

    @property
    def representative_mode(self) -> Mode:
        return min((pod_set.representative_mode for pod_set in self.pod_sets), default=Mode.NO_FIT)

    @property
    def last_assignment(self) -> LastAssignment:
        tried = ({name: flavor.tried_flavor_idx for name, flavor in each.flavors.items()} for each in self.pod_sets)
        return LastAssignment(tuple(tried), self.generation)

    @property
    def message(self) -> str:
        return "; ".join(
            f"couldn't assign flavors to pod set {each.name}: {', '.join(sorted(why.text for why in each.reasons))}"
            for each in self.pod_sets
            if each.reasons
        )

    def append(self, pod_set: AssignedPodSet) -> None:
        self.pod_sets.append(pod_set)
        for resource, flavor in pod_set.flavors.items():
            self.borrowing = max(self.borrowing, flavor.borrow)
            fr = kueue.FlavorResource(flavor.name, resource)
            self.usage[fr] = kueue.add(self.usage.get(fr, 0), pod_set.requests[resource])

    def total_requests_for(self, info: Info) -> kueue.Quantities:
        """Return what the Workload requests for the assigned counts; as in upstream, without the resource `pods`."""
        usage: kueue.Quantities = {}
        for resources, assigned in zip(info.total_requests, self.pod_sets, strict=False):
            for resource, amount in resources.scaled_to(assigned.count).requests.items():
                if amount and resource in assigned.flavors:
                    fr = kueue.FlavorResource(assigned.flavors[resource].name, resource)
                    usage[fr] = kueue.add(usage.get(fr, 0), amount)
        return usage

    @property
    def frs_need_preemption(self) -> set[kueue.FlavorResource]:
        return {
            kueue.FlavorResource(flavor.name, resource)
            for pod_set in self.pod_sets
            for resource, flavor in pod_set.flavors.items()
            if flavor.mode is Mode.PREEMPT
        }


class PreemptionOracle(Protocol):
    """Simulates preemption for one resource."""

    def simulate_preemption(
        self, info: Info, fr: kueue.FlavorResource, amount: kueue.Amount
    ) -> tuple[PreemptionMode, int]:
        """Return the kind of preemption that provides the amount, and the borrowing level after it."""


class FlavorAssigner:
    """Assigns flavors to one Workload."""

    def __init__(
        self,
        info: Info,
        cq: ClusterQueueSnapshot,
        flavors: Mapping[str, ResourceFlavor],
        oracle: PreemptionOracle,
        *,
        is_fair_sharing: bool,
    ) -> None:
        self._info, self._cq, self._flavors, self._oracle = info, cq, flavors, oracle
        preemption = cq.spec.preemption
        self._can_preempt_while_borrowing = preemption.borrow_within_cohort != kueue.NEVER or (
            is_fair_sharing and preemption.reclaim_within_cohort != kueue.NEVER
        )

    def assign(self, counts: Sequence[int] | None = None) -> Assignment:
        """Return the assignment for these counts of Pods (None: all Pods). Source: `assignFlavors`."""
        last = self._info.last_assignment
        if last is not None and self._cq.generation > last.generation:
            self._info.last_assignment = None
        assignment = Assignment(self._cq.generation)
        for index, resources in enumerate(self._info.total_requests):
            wanted = resources if counts is None else resources.scaled_to(counts[index])
            assigned = self._assign_pod_set(index, wanted, assignment.usage)
            assignment.append(assigned)
            if assigned.requests and not assigned.flavors:
                break
        return assignment

    def _assign_pod_set(self, index: int, resources: PodSetResources, usage: kueue.Quantities) -> AssignedPodSet:
        requests = dict(resources.requests)
        if self._cq.resource_group_of(kueue.PODS) is not None:
            requests[kueue.PODS] = resources.count
        flavors: dict[str, FlavorAssignment] = {}
        reasons: list[WhyNot] = []
        for resource, amount in sorted(requests.items()):
            group = self._cq.resource_group_of(resource)
            if resource in flavors or (group is None and amount == 0):
                continue
            if group is None:
                text = f"resource {resource} unavailable in ClusterQueue"
                flavors, reasons = {}, [WhyNot(text, None, f"the ClusterQueue has no quota for {resource}", resource)]
                break
            best, why = self._find_flavor(index, requests, resource, group, usage)
            if not best:
                flavors, reasons = {}, why
                break
            flavors |= best
            reasons += why
        return AssignedPodSet(resources.name, flavors, tuple(reasons), requests, resources.count)

    def _find_flavor(
        self,
        index: int,
        requests: Mapping[str, kueue.Amount],
        resource: str,
        group: ResourceGroup,
        usage: kueue.Quantities,
    ) -> tuple[dict[str, FlavorAssignment], list[WhyNot]]:
        """Return the best flavor for all resources of a group (empty if none fits), and why it does not fit now.

        Source: `findFlavorForPodSets`.
        """
        requests = {name: requests[name] for name in sorted(requests) if name in group.covered_resources}
        fungibility = self._cq.spec.flavor_fungibility
        last = self._info.last_assignment
        reasons: list[WhyNot] = []
        best: dict[str, FlavorAssignment] = {}
        best_mode, attempted = _WORST, -1
        for attempted in range(last.next_flavor_to_try(index, resource) if last else 0, len(group.flavors)):
            charge(2)
            name = group.flavors[attempted]
            if why := self._mismatch(name, self._info.obj.pod_sets[index]):
                reasons.append(why)
                continue
            mode, assignments = self._try_flavor(name, requests, usage, reasons)
            if not mode.should_try_next_flavor(fungibility):
                best, best_mode = assignments, mode
                break
            if mode.is_preferred_to(best_mode, fungibility):
                best, best_mode = assignments, mode
        for assignment in best.values():
            assignment.tried_flavor_idx = -1 if attempted == len(group.flavors) - 1 else attempted
        return best, [] if best_mode.preemption_mode is PreemptionMode.FIT else reasons

    def _try_flavor(
        self, name: str, requests: Mapping[str, kueue.Amount], usage: kueue.Quantities, reasons: list[WhyNot]
    ) -> tuple[GranularMode, dict[str, FlavorAssignment]]:
        """Return the worst mode of a flavor for these requests, and its assignments. Appends faults to `reasons`."""
        representative = _BEST
        assignments: dict[str, FlavorAssignment] = {}
        for resource, amount in requests.items():
            fr = kueue.FlavorResource(name, resource)
            preemption_mode, borrow, why = self._fits_resource_quota(fr, usage.get(fr, 0), amount)
            reasons.extend(why)
            mode = GranularMode(preemption_mode, borrow)
            if representative.is_preferred_to(mode, self._cq.spec.flavor_fungibility):
                representative = mode
            if representative.preemption_mode is PreemptionMode.NO_FIT:
                break
            assignments[resource] = FlavorAssignment(name, preemption_mode.mode, borrow)
        return representative, assignments

    def _mismatch(self, name: str, pod_set: PodSet) -> WhyNot | None:
        """Return why Pods may not use a flavor; None if they may. Source: `checkFlavorForPodSets`."""
        flavor = self._flavors.get(name)
        if flavor is None:
            return WhyNot(f"flavor {name} not found", name, "does not exist")
        if flavor.topology:
            text = f'Flavor "{name}" supports only TopologyAwareScheduling'
            return WhyNot(text, name, "only for topology-aware scheduling")
        pod = {"spec": pod_set.spec}
        taint = node.untolerated_taint(
            flavor.taints, (*node.read_tolerations(pod, "spec", "tolerations"), *flavor.tolerations)
        )
        if taint is not None:
            text = f"untolerated taint {{{taint.key} {taint.value} {taint.effect} <nil>}} in flavor {name}"
            return WhyNot(text, name, f"taint {taint.key}={taint.value}:{taint.effect}")
        if not _flavor_selector(node.NodeAffinity.from_api(pod), flavor.labels).matches(flavor.labels, ""):
            return WhyNot(
                f"flavor {name} doesn't match node affinity", name, "node selector or affinity does not match"
            )
        return None

    def _fits_resource_quota(
        self, fr: kueue.FlavorResource, assumed_usage: kueue.Amount, request: kueue.Amount
    ) -> tuple[PreemptionMode, int, tuple[WhyNot, ...]]:
        """Return how a flavor could provide a resource, the borrowing level, and why the request does not fit now."""
        available, capacity = self._cq.available(fr), self._cq.potential_available(fr)
        amount = kueue.add(assumed_usage, request)
        if amount > capacity:
            texts = [kueue.amount_as_text(fr.resource, each) for each in (assumed_usage, request, capacity)]
            text = (
                f"insufficient quota for {fr.resource} in flavor {fr.flavor}, previously considered podsets requests"
                f" ({texts[0]}) + current podset request ({texts[1]}) > maximum capacity ({texts[2]})"
            )
            short = f"{kueue.amount_as_text(fr.resource, amount)} {fr.resource} requested, at most {texts[2]} possible"
            return PreemptionMode.NO_FIT, 0, (WhyNot(text, fr.flavor, short),)
        borrow, may_reclaim_in_hierarchy = self._cq.lowest_subtree_that_fits(fr, amount)
        if amount <= available:
            return PreemptionMode.FIT, borrow, ()
        needed = kueue.amount_as_text(fr.resource, kueue.sub(amount, available))
        text = f"insufficient unused quota for {fr.resource} in flavor {fr.flavor}, {needed} more needed"
        why = WhyNot(text, fr.flavor, f"{needed} more {fr.resource} needed")
        is_within_nominal = self._cq.quota_for(fr).nominal >= amount
        if is_within_nominal or may_reclaim_in_hierarchy or self._can_preempt_while_borrowing:
            return *self._oracle.simulate_preemption(self._info, fr, amount), (why,)
        return PreemptionMode.NO_FIT, borrow, (why,)


def _flavor_selector(affinity: node.NodeAffinity, labels: Mapping[str, str]) -> node.NodeAffinity:
    """Return the node affinity without conditions on labels that the flavor does not have. A term without any others
    matches every flavor. Source: `flavorSelector`.
    """
    selector = {key: value for key, value in (affinity.node_selector or {}).items() if key in labels}
    terms = [
        node.NodeSelectorTerm(tuple(each for each in term.expressions if each.key in labels), error=term.error)
        for term in (affinity.required.terms if affinity.required else ())
    ]
    if not all(term.expressions or term.error for term in terms):
        terms = []
    return node.NodeAffinity(selector, node.NodeSelector(tuple(terms)) if terms else None)
