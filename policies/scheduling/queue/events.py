"""Events in a cluster that may allow kube-scheduler to schedule a rejected Pod.

Source: kube-scheduler `framework/types.go` (ActionType), kubernetes `pkg/scheduler/framework/events.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from forewarn.policies.objects.node import Node
    from forewarn.policies.objects.pod import Pod

ADD: Final = 1
DELETE: Final = 1 << 1
UPDATE_NODE_ALLOCATABLE: Final = 1 << 2
UPDATE_NODE_LABEL: Final = 1 << 3
UPDATE_NODE_TAINT: Final = 1 << 4
UPDATE_NODE_DECLARED_FEATURE: Final = 1 << 7
UPDATE_POD_LABEL: Final = 1 << 8
UPDATE_POD_SCALE_DOWN: Final = 1 << 9
UPDATE_POD_TOLERATION: Final = 1 << 10
UPDATE_POD_SCHEDULING_GATES_ELIMINATED: Final = 1 << 11
UPDATE_POD_GENERATED_RESOURCE_CLAIM: Final = 1 << 12
ALL: Final = (1 << 13) - 1
UPDATE: Final = ALL & ~(ADD | DELETE)
"""Bits of an event's action; upstream compares them as numbers too, so their order matters."""

POD: Final = "Pod"
ASSIGNED_POD: Final = "AssignedPod"
UNSCHEDULABLE_POD: Final = "UnschedulablePod"
NODE: Final = "Node"
CLAIM: Final = "PersistentVolumeClaim"
RESOURCE_CLAIM: Final = "ResourceClaim"
VOLUME: Final = "PersistentVolume"
POD_GROUP: Final = "PodGroup"
WILD_CARD: Final = "*"


class ClusterEvent(NamedTuple):
    """A change of an API object of kind `resource`.

    `action`: bits such as ADD or UPDATE_NODE_LABEL. `label`: the name of a wildcard event.
    """

    resource: str
    action: int
    label: str = ""

    @property
    def is_wild_card(self) -> bool:
        """Whether the event retries every rejected Pod. Source: upstream `ClusterEventIsWildCard`."""
        return self.resource == WILD_CARD and self.action == ALL

    def covers(self, incoming: ClusterEvent) -> bool:
        """Report whether this event, for which a plugin registered, includes an event that occurred.

        Source: `MatchClusterEvents`.
        """
        if self.is_wild_card:
            return True
        same = self.resource in (WILD_CARD, incoming.resource)
        if not same and not (self.resource == POD and incoming.resource in (ASSIGNED_POD, UNSCHEDULABLE_POD)):
            return False
        return bool(self.action & incoming.action) and incoming.action <= self.action


ASSIGNED_POD_ADD: Final = ClusterEvent(ASSIGNED_POD, ADD)
ASSIGNED_POD_DELETE: Final = ClusterEvent(ASSIGNED_POD, DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(UNSCHEDULABLE_POD, ADD)
UNSCHEDULED_POD_UPDATE: Final = ClusterEvent(UNSCHEDULABLE_POD, UPDATE)
NODE_ADD: Final = ClusterEvent(NODE, ADD)
NODE_DELETE: Final = ClusterEvent(NODE, DELETE)
CLAIM_ADD: Final = ClusterEvent(CLAIM, ADD)
CLAIM_UPDATE: Final = ClusterEvent(CLAIM, UPDATE)
RESOURCE_CLAIM_UPDATE: Final = ClusterEvent(RESOURCE_CLAIM, UPDATE)
VOLUME_ADD: Final = ClusterEvent(VOLUME, ADD)
VOLUME_UPDATE: Final = ClusterEvent(VOLUME, UPDATE)
POD_GROUP_ADD: Final = ClusterEvent(POD_GROUP, ADD)
POD_GROUP_UPDATE: Final = ClusterEvent(POD_GROUP, UPDATE)
POD_GROUP_DELETE: Final = ClusterEvent(POD_GROUP, DELETE)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(WILD_CARD, ALL, "UnschedulableTimeout")


def pod_scheduling_properties_change(new: Pod, old: Pod) -> list[ClusterEvent]:
    """Return the events of kube-scheduler for an updated Pod. Resizes of requests are not included.

    Source: upstream `PodSchedulingPropertiesChange`.
    """
    resource = ASSIGNED_POD if new.node_name else UNSCHEDULABLE_POD
    if new is old:  # but for a condition
        return [ClusterEvent(resource, UPDATE)]
    actions = []
    if new.labels != old.labels:
        actions.append(UPDATE_POD_LABEL)
    if old.spec.gated and not new.spec.gated:
        actions.append(UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    if len(new.spec.tolerations) != len(old.spec.tolerations):
        actions.append(UPDATE_POD_TOLERATION)
    return [ClusterEvent(resource, action) for action in actions or (UPDATE,)]


def node_scheduling_properties_change(new: Node, old: Node) -> list[ClusterEvent]:
    """Return the events of kube-scheduler for an updated node. Source: upstream `NodeSchedulingPropertiesChange`.

    Conditions and annotations are ignored: no plugin of the default profile registers for them.
    """
    actions = []
    if old.unschedulable and not new.unschedulable:
        actions.append(UPDATE_NODE_TAINT)
    if new.allocatable != old.allocatable:
        actions.append(UPDATE_NODE_ALLOCATABLE)
    if new.labels != old.labels:
        actions.append(UPDATE_NODE_LABEL)
    if new.taints != old.taints:
        actions.append(UPDATE_NODE_TAINT)
    if new.declared_features != old.declared_features:
        actions.append(UPDATE_NODE_DECLARED_FEATURE)
    return [ClusterEvent(NODE, action) for action in actions]
