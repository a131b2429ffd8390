"""DynamicResources: ResourceClaims for devices, and the extended resources that a DeviceClass provides.

Preemption frees no device: the devices in use are determined once, before the nodes are filtered.
Source: upstream `plugins/dynamicresources/dynamicresources.go`, `extendeddynamicresources.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from forewarn.policies.kubernetes.objects.devices import Allocation, DeviceRequest, Readiness, ResourceClaim
from forewarn.policies.kubernetes.scheduling.devices.allocator import (
    AllocationError,
    Allocator,
    Node,
    NodeFailure,
    NotWorkedOut,
    World,
)
from forewarn.policies.kubernetes.scheduling.devices.claims import (
    ClaimProblem,
    claim_of_an_earlier_cycle,
    claims_of,
    extended_resources_of,
    requests_of,
)
from forewarn.policies.kubernetes.scheduling.devices.selectors import SelectorError
from forewarn.policies.kubernetes.scheduling.framework import (
    NOT_FOUND,
    SKIP,
    Code,
    CycleState,
    FilterInColumns,
    NodeToStatus,
    Plugin,
    PluginFault,
    PostFilterResult,
    PreFilterResult,
    Status,
    default_normalize_score,
    failed,
    run_score_plugin,
    unresolvable,
    unschedulable,
)
from forewarn.policies.kubernetes.scheduling.snapshot import NotValid
from forewarn.policies.kubernetes.scheduling.vectorized.node_fit import PASSES, NodeFit, Rejections

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.releases.semantics import Semantics
    from forewarn.policies.kubernetes.scheduling.devices.claims import Pools
    from forewarn.policies.kubernetes.scheduling.node_info import Ints, NodeInfo, Rows
    from forewarn.policies.kubernetes.scheduling.vectorized.pod_matrix import PodMatrix

MAX_ALTERNATIVES: Final = 8
"""The score of the first alternative of a request. Upstream `FirstAvailableDeviceRequestMaxSize`."""
NOT_AVAILABLE: Final = unresolvable("resourceclaim not available on the node")
NOT_ALL: Final = unresolvable("cannot allocate all claims")
OF_AN_EARLIER_CYCLE: Final = unresolvable("cannot schedule extended resource claim")
MAX_USERS: Final = 256
"""Maximum number of Pods that use one claim. Upstream `ResourceClaimReservedForMaxSize`."""


@dataclass(slots=True)
class _State:
    """The Pod's ResourceClaims, and the allocations that Filter found.

    `extended`: the Pod's extended resources that a DeviceClass provides. `tried`: an earlier cycle created a claim for
    `extended`. `allocations`: node name -> (claims to allocate, their allocations).
    """

    claims: tuple[ResourceClaim, ...]
    extended: Mapping[str, int]
    tried: bool = False
    world: World | None = None
    pools: Pools | None = None
    allocations: dict[str, tuple[Sequence[ResourceClaim], Sequence[Allocation]]] = field(default_factory=dict)


class DynamicResources(Plugin, FilterInColumns):
    """Rejects nodes on which the Pod's claims are not allocated or cannot be allocated.

    Scores earlier alternatives of requests higher.
    """

    name: ClassVar[str] = "DynamicResources"
    needs_pre_filter: ClassVar[str] = NOT_FOUND
    scores_what_pre_filter_found = NOT_FOUND
    frees_capacity_in_columns: ClassVar[bool | None] = False

    @classmethod
    def not_in(cls, semantics: Semantics) -> frozenset[str]:
        """Return "score" for releases before 1.35, which have no Score."""
        return frozenset() if semantics.devices_are_scored else frozenset({"score"})

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Reject a Pod until its ResourceClaims exist. Upstream `PreEnqueue`."""
        try:
            claims_of(pod, self.snapshot.objects)
        except ClaimProblem as problem:
            return unresolvable(*problem.args)
        return None

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> PreFilterResult:  # noqa: ARG002
        """Find the Pod's claims and check their requests. Upstream `PreFilter`."""
        objects, semantics = self.snapshot.objects, self.semantics
        try:
            claims = claims_of(pod, objects)
        except ClaimProblem as problem:
            return PreFilterResult(status=unresolvable(*problem.args))
        extended = extended_resources_of(pod, self.snapshot.extended_resources)
        if not claims and not extended:
            return PreFilterResult(status=SKIP)
        earlier = claim_of_an_earlier_cycle(pod, objects) if extended else None
        if any(_is_in_use(pod, claim) for claim in (*claims, *([earlier] if earlier else ()))):
            return PreFilterResult(status=unresolvable("resourceclaim in use"))
        state.data[self.name] = own = _State(claims, extended, earlier is not None)
        unallocated = [claim for claim in claims if claim.allocation is None]
        for claim in unallocated:
            for request in claim.requests:
                reason = self._problem(claim, request)
                if reason:
                    return PreFilterResult(status=unresolvable(reason))
        if unallocated or extended:
            in_use, matches = self.snapshot.devices_in_use, self.snapshot.device_selectors.match
            rules = tuple(objects.device_taint_rules.values()) if semantics.device_taint_rules_apply else ()
            own.world = World(objects.device_classes, in_use, matches, semantics, rules)
            own.pools = self.snapshot.device_pools
        return PreFilterResult()

    def _problem(self, claim: ResourceClaim, request: DeviceRequest) -> str | None:
        """Return why no node can satisfy a request; None if a node may. Source: upstream `validateDeviceClass`."""
        if request.alternatives and not self.semantics.enabled("DRAPrioritizedList"):
            where = f"resource claim {claim.key}, request {request.name}"
            return f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
        for alternative in request.alternatives or (request,):
            name = f"{request.name}/{alternative.name}" if request.alternatives else request.name
            if ("", alternative.device_class) not in self.snapshot.objects.device_classes:
                return f"request {name}: device class {alternative.device_class} does not exist"
        return None

    def filter(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> Status | None:
        """Allocate the claims on the node, and check that the node can use claims that are allocated already. Upstream
        `Filter`.

        The result does not depend on the Pods of the node.
        """
        state_data: _State = state.data[self.name]
        node = node_info.node
        to_allocate = [claim for claim in state_data.claims if claim.allocation is None]
        if state_data.tried:
            return OF_AN_EARLIER_CYCLE
        if state_data.extended:
            requests = requests_of(pod, state_data.extended, node.allocatable.scalars, self.snapshot.extended_resources)
            if not requests and not state_data.claims:
                return None
            if requests:
                to_allocate.append(_special_claim(pod, requests))
        conditions = self.semantics.device_binding_conditions_are_awaited
        allocated = [claim.allocation for claim in state_data.claims if claim.allocation is not None]
        elsewhere = any(
            (allocation.nodes is not None and not allocation.nodes.matches(node.labels, node.name))
            or (conditions and allocation.readiness is Readiness.FAILED)
            for allocation in allocated
        )
        if state_data.world is not None and state_data.pools is not None:
            status = self._allocate(state_data, state_data.world, state_data.pools, node_info, to_allocate)
            if status is not None:
                return status
        return NOT_AVAILABLE if elsewhere else None

    def _allocate(
        self, state_data: _State, world: World, pools: Pools, node_info: NodeInfo, claims: Sequence[ResourceClaim]
    ) -> Status | None:
        node = node_info.node
        allocation = state_data.allocations.get(node.name)
        if allocation is not None and list(allocation[0]) == list(claims):
            return None
        place = Node(node.name, node.labels, pools.node_pools(node.labels, node.name))
        try:
            allocations = Allocator(world, place, claims).allocate()
        except NodeFailure as failure:
            return unresolvable(str(failure))
        except NotWorkedOut as why:
            raise PluginFault(self.name, str(why)) from None
        except (AllocationError, SelectorError) as error:
            return failed(str(error))
        if allocations is None:
            return NOT_ALL
        state_data.allocations[node.name] = claims, allocations
        return None

    def in_columns(self, problem: NodeFit) -> None:
        """Add the nodes that cannot provide the Pod's devices to `problem`: no other Pod changes the result.

        Raises NotValid if PreFilter rejects the Pod, if a DeviceClass provides an extended resource of the Pod, or if
        upstream may return an error.
        """
        pod, infos = problem.pod, problem.snapshot.node_infos
        if extended_resources_of(pod, problem.snapshot.extended_resources):
            raise NotValid
        state = CycleState()
        status = self.pre_filter(state, pod, ()).status if pod.spec.claims_devices else SKIP
        if status is not None:
            if status.code is Code.SKIP:
                return
            raise NotValid("whose PreFilter rejects the pod")
        codes = np.full(len(infos), PASSES, np.int64)
        statuses: dict[Status, int] = {}
        for rows in self._alike(state.data[self.name], problem):
            try:
                status = self.filter(state, pod, infos[rows[0]])
            except PluginFault:
                raise NotValid("which cannot allocate devices of a node") from None
            if status is not None:
                if not status.rejected:
                    raise NotValid("which returns an error for a node")
                codes[rows] = statuses.setdefault(status, len(statuses))
        problem.narrow(self.name, Rejections(codes, list(statuses)))

    def _alike(self, state_data: _State, problem: NodeFit) -> Iterator[Rows]:
        """Yield the row numbers of open nodes with the same result together: nodes without device pools are alike."""
        rows = np.flatnonzero(problem.open)
        names = None if state_data.pools is None else state_data.pools.only_nodes
        if names is None or any(claim.allocation is not None for claim in state_data.claims):
            yield from rows[:, None]
            return
        indices = problem.snapshot.rows
        with_pools = np.isin(rows, [indices[name] for name in names if name in indices])
        yield from rows[with_pools][:, None]
        if not with_pools.all():
            yield rows[~with_pools]

    def has_alternatives(self, pod: Pod) -> bool:
        """Report whether a request of the Pod's claims has alternatives; otherwise the plugin scores 0 on all nodes."""
        return any(request.alternatives for c in claims_of(pod, self.snapshot.objects) for request in c.requests)

    def allocate_on(self, pod: Pod, nodes: Iterable[NodeInfo]) -> CycleState:
        """Return the state after PreFilter and Filter on these nodes."""
        state = CycleState()
        if self.pre_filter(state, pod, ()).status is None:
            for node_info in nodes:
                self.filter(state, pod, node_info)
        return state

    def post_filter(self, state: CycleState, pod: Pod, statuses: NodeToStatus) -> PostFilterResult:  # noqa: ARG002
        """Return an unschedulable result. Upstream may deallocate an idle claim, which affects later cycles only."""
        return PostFilterResult(unschedulable())

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Do nothing: upstream `Reserve` writes to the API server; `allocated_on` returns the result."""
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Do nothing: upstream `Unreserve` writes to the API server."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Skip PreBind: upstream `PreBindPreFlight` and `PreBind` write to the API server."""
        return SKIP

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:  # noqa: ARG002
        """Do nothing: upstream `PreBind` writes to the API server; `allocated_on` returns the result."""
        return None

    def score(self, state: CycleState, pod: Pod, node_info: NodeInfo) -> int:  # noqa: ARG002
        """Return the sum of the scores of the allocated alternatives. Upstream `Score`, `computeScore`."""
        state_data: _State | None = state.data.get(self.name)
        if state_data is None or not self.semantics.enabled("DRAPrioritizedList"):
            return 0
        allocated = state_data.allocations.get(node_info.name)
        if allocated is None:
            return 0
        chosen = list(zip(*allocated, strict=True))
        chosen += [(claim, claim.allocation) for claim in state_data.claims if claim.allocation is not None]
        return sum(_allocation_score(claim, allocation) for claim, allocation in chosen)

    def scores_in_columns(self, pod: Pod, rows: Rows, matrix: PodMatrix) -> Ints | int:  # noqa: ARG002
        """Return 0 without alternatives; otherwise allocate devices on each node. See `Plugin.scores_in_columns`."""
        if not pod.spec.claims_devices or not self.has_alternatives(pod):
            return 0
        nodes = [self.snapshot.node_infos[row] for row in rows.tolist()]
        scores = run_score_plugin(self, self.allocate_on(pod, nodes), pod, nodes)
        return np.fromiter(scores.values(), np.int64, len(nodes))

    def normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:  # noqa: ARG002
        default_normalize_score(scores, reverse=False)


def allocated_on(state: CycleState, node: str) -> list[ResourceClaim]:
    """Return the Pod's unallocated claims with the allocations that Filter found on a node."""
    state_data: _State | None = state.data.get(DynamicResources.name)
    claims, allocations = state_data.allocations.get(node, ((), ())) if state_data else ((), ())
    return [replace(claim, allocation=allocation) for claim, allocation in zip(claims, allocations, strict=True)]


def claims_on(state: CycleState, node: str) -> list[ResourceClaim]:
    """Return the Pod's claims, with the allocations that Filter found on a node."""
    state_data: _State | None = state.data.get(DynamicResources.name)
    allocated = (claim for claim in state_data.claims if claim.allocation is not None) if state_data else ()
    return [*allocated, *allocated_on(state, node)]


def awaits_devices(state: CycleState, node: str) -> bool:
    """Report whether the binding of the Pod to a node waits until drivers have prepared its devices."""
    state_data: _State | None = state.data.get(DynamicResources.name)
    claims = (*state_data.claims, *allocated_on(state, node)) if state_data else ()
    return any(claim.allocation and claim.allocation.readiness is Readiness.AWAITED for claim in claims)


def _is_in_use(pod: Pod, claim: ResourceClaim) -> bool:
    """Report whether the claim already has the maximum number of users, and the Pod is not one of them."""
    full = claim.allocation is not None and len(claim.reserved_for) >= MAX_USERS
    return full and pod.uid not in claim.reserved_for


def _allocation_score(claim: ResourceClaim, allocation: Allocation) -> int:
    chosen = {device.request for device in allocation.devices}
    return sum(
        MAX_ALTERNATIVES - place
        for request in claim.requests
        for place, alternative in enumerate(request.alternatives)
        if f"{request.name}/{alternative.name}" in chosen
    )


def _special_claim(pod: Pod, requests: Sequence[DeviceRequest]) -> ResourceClaim:
    name = f"{pod.name}-extended-resources"
    return ResourceClaim(pod.namespace, name, uid=f"extended/{pod.key}", requests=tuple(requests))
