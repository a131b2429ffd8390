"""cluster-autoscaler: one scan, and the nodes that it adds. Source: core/static_autoscaler.go, `RunOnce`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.autoscaling.autoscaler import Arrival, NotPredicted
from forewarn.policies.autoscaling.cluster_autoscaler.estimator import EquivalenceGroup, group_by_scheduling_properties
from forewarn.policies.autoscaling.cluster_autoscaler.node_group import NodeGroup, is_daemon_pod, template_info
from forewarn.policies.autoscaling.cluster_autoscaler.orchestrator import (
    LIMITS_NOT_MODELLED,
    Decision,
    Orchestrator,
    Settings,
)
from forewarn.policies.autoscaling.cluster_autoscaler.pod_list import filter_out_schedulable

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.node_info import NodeInfo
    from forewarn.policies.scheduling.snapshot import Snapshot

_USUAL: Final = Settings()


class Scan(NamedTuple):
    """What one scan decides. `waiting`: the Pods that fit on no node, with the reasons of the groups; `fit`: the
    others. `snapshot`: the cluster with nodes on their way, and with Pending Pods on the nodes on which they fit.
    """

    decision: Decision
    waiting: Sequence[EquivalenceGroup]
    fit: Sequence[Pod]
    snapshot: Snapshot

    @property
    def arrivals(self) -> list[Arrival]:
        """The nodes. All Pods of the scale-up are those of its first node."""
        placed = tuple(pod.key for pod, _ in self.decision.chosen.placed) if self.decision.chosen else ()
        names = [name for name, number in self.decision.added for _ in range(number)]
        return [Arrival(name, {}, () if turn else placed) for turn, name in enumerate(names)]


class ClusterAutoscaler:
    """cluster-autoscaler with its node groups. Raises InvalidObject for a DaemonSet with an invalid template."""

    def __init__(
        self,
        groups: Sequence[NodeGroup],
        daemon_sets: Iterable[ApiObject],
        semantics: Semantics,
        settings: Settings = _USUAL,
    ) -> None:
        self._groups, self._settings, daemon_sets = groups, settings, list(daemon_sets)
        self._templates = {
            group.name: template_info(group, daemon_sets, semantics, force_daemon_sets=settings.force_daemon_sets)
            for group in groups
        }

    def scan(
        self,
        pending: Sequence[Pod],
        snapshot: Snapshot,
        now: float,  # noqa: ARG002  (of the interface)
        upcoming: Sequence[Arrival] = (),
    ) -> list[Arrival]:
        """Return the nodes that one scan adds. See `Autoscaler.scan`."""
        added = Counter(arrival.group for arrival in upcoming)
        return self.decide(pending, snapshot, added, added).arrivals

    def decide(
        self,
        pending: Sequence[Pod],
        snapshot: Snapshot,
        added: Mapping[str, int],
        upcoming: Mapping[str, int],
        hints: dict[str, str] | None = None,
    ) -> Scan:
        """Return what one scan decides. Raises NotPredicted.

        `pending`: including Pods of DaemonSets, which only use existing nodes. `added`: number of nodes that earlier
        scans added, by group; `upcoming`: of which are on their way. `hints`: of `filter_out_schedulable`.
        """
        if self._settings.limits:
            raise NotPredicted(LIMITS_NOT_MODELLED)
        halted = self._settings.why_halted(snapshot.rows)
        snapshot, left = self.packed(pending, snapshot, upcoming, hints)
        waiting, unplaced = group_by_scheduling_properties(without_daemon_pods(left)), set(map(id, left))
        fit = [pod for pod in pending if id(pod) not in unplaced and not is_daemon_pod(pod)]
        if not waiting:
            return Scan(Decision(), waiting, fit, snapshot)
        groups = [
            group._replace(size=group.size + added.get(group.name, 0), blocked=group.blocked or halted)
            for group in self._groups
        ]
        orchestrator = Orchestrator(snapshot, groups, self._templates, self._settings, {}, {})
        return Scan(orchestrator.decide(waiting), waiting, fit, snapshot)

    def packed(
        self, pending: Sequence[Pod], snapshot: Snapshot, upcoming: Mapping[str, int], hints: dict[str, str] | None
    ) -> tuple[Snapshot, list[Pod]]:
        """Return (the cluster with nodes on their way and Pending Pods that fit, the other Pending Pods)."""
        return filter_out_schedulable(snapshot.with_nodes(list(self._upcoming(upcoming))), pending, hints)

    def _upcoming(self, numbers: Mapping[str, int]) -> Iterator[NodeInfo]:
        """Yield the nodes on their way, made of the templates. Source: `addUpcomingNodesToClusterSnapshot`."""
        for group in self._groups:
            for number in range(numbers.get(group.name, 0)):
                info = self._templates[group.name].clone()
                info.node = group.new_node(f"upcoming-{number}")
                yield info


def without_daemon_pods(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if not is_daemon_pod(pod)]
