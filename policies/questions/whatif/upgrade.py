"""Simulate an upgrade of nodes: each node is drained, away for some time, and returned or replaced. PDBs may block
the drains at the start."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.documents import Hidden, in_json
from forewarn.policies.base.findings import grouped
from forewarn.policies.kubernetes.controllers.disruption import PdbStatus
from forewarn.policies.kubernetes.kinds.registry import DISRUPTION_BUDGET
from forewarn.policies.prediction.simulation.clock import Latencies, Steps
from forewarn.policies.prediction.simulation.simulation import Simulation, drain, forbidden_by, is_skipped, remaining_on
from forewarn.policies.questions.whatif import MAX_UNTIL
from forewarn.policies.questions.whatif.node_groups import new_node_like, pool_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from forewarn.policies.kubernetes.controllers.view import PodState
    from forewarn.policies.kubernetes.objects.node import Node

_POLL_SECONDS: Final = 5.0
"""Seconds between two checks whether a node is empty."""
_DRAINING: Final = 600.0
"""Seconds for the drain of a node in the default horizon."""


class ForcedPod(NamedTuple):
    """A Pod (`namespace/name`) that is deleted after the drain timeout. `pdbs`: those that block its eviction."""

    pod: str
    workload: tuple[str, str]
    pdbs: Sequence[str]

    @property
    def blocked(self) -> bool:
        """Whether PDBs block its eviction."""
        return bool(self.pdbs)


@dataclass(slots=True)
class UpgradeStep:
    """The upgrade of a node, with times in seconds; null: the upgrade did not reach this event.

    `pool`: empty if the node belongs to no pool. `emptied_at`: the drain is complete. `back_at`: the node or its
    replacement is in service. `forced`: Pods that were deleted after the drain timeout.
    """

    node: str
    pool: str
    started_at: float | None
    emptied_at: float | None
    back_at: float | None
    forced: Hidden[Sequence[ForcedPod]]


@dataclass(slots=True)
class _Progress:
    """A node whose upgrade has started.

    `ready`: earliest time at which the drain may start; `draining`: time at which the drain started, None before. In
    seconds.
    """

    node: Node
    step: UpgradeStep
    ready: float
    draining: float | None = None


class UpgradedPool(NamedTuple):
    """The upgrade of a node pool. `nodes`, `upgraded`: numbers of nodes. `seconds`: duration; null if incomplete."""

    pool: str
    steps: Hidden[Sequence[UpgradeStep]]

    @in_json
    def nodes(self) -> int:
        return len(self.steps)

    @in_json
    def upgraded(self) -> int:
        return sum(step.back_at is not None for step in self.steps)

    @in_json
    def seconds(self) -> float | None:
        back = [step.back_at for step in self.steps if step.back_at is not None]
        started = [step.started_at for step in self.steps if step.started_at is not None]
        return max(back) - min(started) if back and len(back) == len(self.steps) else None


class UpgradeRun:
    """The progress of an upgrade."""

    def __init__(self, nodes: Iterable[Node], limit: int, away: float, surge: bool = False, force: float = 0.0) -> None:
        """Upgrade the nodes in their order, `limit` at a time.

        `away`: seconds from an empty node until the node is back; with `surge`, until a new node is ready, which is
        added before the old node is drained and deleted. `force`: seconds after which the drain deletes Pods regardless
        of PodDisruptionBudgets; 0: never. `extends_horizon`: the simulation goes on while nodes still drain.
        """
        self._nodes, self.max_unavailable, self.away, self.surge, self.force = list(nodes), limit, away, surge, force
        self.steps = self._new_steps()
        self.extends_horizon = False

    def _new_steps(self) -> list[UpgradeStep]:
        return [UpgradeStep(node.name, pool_of(node), None, None, None, ()) for node in self._nodes]

    @property
    def least(self) -> float:
        """The seconds that the upgrade would take if drains took no time."""
        return ceil(len(self.steps) / self.max_unavailable) * self.away

    @property
    def horizon(self) -> float:
        """The seconds after which a simulation of the upgrade is stopped by default, unless nodes still drain."""
        return self.least + len(self.steps) * self._drain_seconds

    @property
    def _drain_seconds(self) -> float:
        return _DRAINING + self.force

    @property
    def done(self) -> Sequence[UpgradeStep]:
        return [step for step in self.steps if step.back_at is not None]

    @property
    def not_reached(self) -> Sequence[UpgradeStep]:
        """The nodes whose upgrade has not started."""
        return [step for step in self.steps if step.started_at is None]

    @property
    def complete(self) -> bool:
        """Whether all nodes are upgraded."""
        return len(self.done) == len(self.steps)

    @property
    def seconds(self) -> float:
        """The time in seconds at which the last upgraded node was in service; 0 if none was."""
        return max((step.back_at for step in self.steps if step.back_at is not None), default=0.0)

    @property
    def pools(self) -> Sequence[UpgradedPool]:
        """The progress of each pool, in the order of the upgrade."""
        return [UpgradedPool(*of_pool) for of_pool in grouped((step.pool, step) for step in self.steps).items()]

    @property
    def forced(self) -> Sequence[ForcedPod]:
        """The Pods that were deleted after the drain timeout."""
        return [pod for step in self.steps for pod in step.forced]

    def start(self, simulation: Simulation) -> None:
        """Schedule the upgrade at time 0 of a simulation that has not run yet."""
        self.steps = self._new_steps()
        simulation.clock.schedule(0.0, lambda: simulation.clock.spawn(self._run(simulation)))

    def _run(self, simulation: Simulation) -> Steps:
        clock = simulation.clock
        left = deque(zip(self._nodes, self.steps, strict=True))
        under_way: list[_Progress] = []
        while left or under_way:
            for each in under_way:
                self._continue(simulation, each)
            if self.extends_horizon and self._advances(simulation, under_way):
                simulation.extend(min(clock.now + self.away + self._drain_seconds, MAX_UNTIL))
            under_way = [each for each in under_way if each.step.back_at is None]
            while left and len(under_way) < self.max_unavailable:
                node, step = left.popleft()
                step.started_at = clock.now
                under_way.append(_Progress(node, step, clock.now + (self.away if self.surge else 0.0)))
                if self.surge:
                    simulation.awaited += 1
                else:
                    self._drain(simulation, under_way[-1])
            yield _POLL_SECONDS

    @staticmethod
    def _advances(simulation: Simulation, under_way: Iterable[_Progress]) -> bool:
        """Report whether one of the nodes is empty, or has terminating Pods."""
        by_node = simulation.api.by_node
        return any(
            each.step.emptied_at is not None
            or any(state.terminating for state in by_node.get(each.step.node, {}).values())
            for each in under_way
        )

    def _continue(self, simulation: Simulation, progress: _Progress) -> None:
        """Advance a node whose upgrade has started: drain, remove or return the node when due."""
        clock, api, step = simulation.clock, simulation.api, progress.step
        if progress.draining is None:
            if clock.now >= progress.ready:
                simulation.awaited -= 1
                new = new_node_like(progress.node, f"{step.node}-new")
                api.replaced_nodes[new.name] = step.node
                api.put_node(new)
                self._drain(simulation, progress)
        elif step.emptied_at is None:
            remaining = remaining_on(api, step.node)
            if remaining and self.force and clock.now >= progress.draining + self.force and not step.forced:
                self._force(simulation, step, remaining)
            if not remaining:
                step.emptied_at = clock.now
                simulation.awaited -= bool(self.force and not step.forced)
                if self.surge:
                    step.back_at = simulation.clock.now
                    simulation.api.remove_node(step.node)
                else:
                    simulation.awaited += 1
        elif clock.now >= step.emptied_at + self.away:
            step.back_at = clock.now
            simulation.awaited -= 1
            api.put_node(replace(progress.node, unschedulable=False))

    def _drain(self, simulation: Simulation, progress: _Progress) -> None:
        progress.draining = simulation.clock.now
        simulation.awaited += bool(self.force)
        drain(simulation.clock, simulation.api, Latencies(), progress.step.node)

    def _force(self, simulation: Simulation, step: UpgradeStep, remaining: Sequence[str]) -> None:
        """Delete the remaining Pods of a node, regardless of PodDisruptionBudgets. `remaining`: their keys."""
        api = simulation.api
        keys = [(namespace, name) for namespace, _, name in (pod.partition("/") for pod in remaining)]
        origins, states = simulation.timeline.origins, [api.pods[key] for key in keys]
        step.forced = [
            ForcedPod(each.pod.key, origins[each.pod.key].workload, forbidden_by(api, each))
            for each in states
            if not each.terminating
        ]
        simulation.awaited -= bool(step.forced)
        for key in keys:
            api.delete_pod(key, "deleted", message=f"drain timeout of {step.node}")


class DrainBlocker(NamedTuple):
    """A PodDisruptionBudget that blocks evictions.

    `pods`: the protected Pods on `nodes`. `healthy`, `desired`, `expected`: numbers of Pods in the status. `overlaps`:
    another PDB selects one of these Pods, which the eviction API does not support. `never`: this, or all Pods are
    required; otherwise, drains wait until enough Pods are healthy.
    """

    budget: str
    pods: Sequence[str]
    nodes: Sequence[str]
    healthy: int
    desired: int
    expected: int
    overlaps: bool

    @in_json
    def never(self) -> bool:
        return self.overlaps or self.desired >= self.expected


def blockers_of(simulation: Simulation, nodes: Iterable[str]) -> list[DrainBlocker]:
    """Return the PDBs that block evictions from these nodes now: first those with `never`, then those that affect
    most nodes.
    """
    api, overlapping = simulation.api, set[str]()
    states_by_pdb: dict[str, list[PodState]] = {}
    for node in nodes:
        for state in api.by_node.get(node, {}).values():
            if not is_skipped(state):
                pdbs = forbidden_by(api, state)
                overlapping.update(pdbs[1:] and pdbs)
                for pdb in pdbs:
                    states_by_pdb.setdefault(pdb, []).append(state)
    blockers = [_blocker(simulation, pdb, found, overlaps=pdb in overlapping) for pdb, found in states_by_pdb.items()]
    return sorted(blockers, key=lambda item: (not item.never, -len(item.nodes), -len(item.pods), item.budget))


def _blocker(simulation: Simulation, pdb: str, states: Sequence[PodState], *, overlaps: bool) -> DrainBlocker:
    namespace, _, name = pdb.partition("/")
    status = simulation.api.workloads[DISRUPTION_BUDGET, namespace, name].status
    counts = status if isinstance(status, PdbStatus) else PdbStatus()
    pods, nodes = [each.pod.key for each in states], sorted({each.pod.node_name for each in states})
    healthy, desired, expected = counts.current_healthy, counts.desired_healthy, counts.expected_pods
    return DrainBlocker(pdb, pods, nodes, healthy, desired, expected, overlaps)
