"""The events that each plugin registers for, with their queueing hints.

Source: `EventsToRegister` of kubernetes `pkg/scheduler/framework/plugins`. Of storage objects, only events of claims
and volumes exist here; of objects of devices, only events of ResourceClaims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.objects.node import (
    UNSCHEDULABLE_TAINT,
    Node,
    tolerations_tolerate_taint,
    untolerated_taint,
)
from forewarn.policies.kubernetes.scheduling.node_info import NodeInfo
from forewarn.policies.kubernetes.scheduling.plugins.inter_pod_affinity import matches_all
from forewarn.policies.kubernetes.scheduling.plugins.node_resources_fit import insufficient_resources
from forewarn.policies.kubernetes.scheduling.plugins.one_node import WantedPorts
from forewarn.policies.kubernetes.scheduling.plugins.pod_topology_spread import do_not_schedule

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.devices import ResourceClaim
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup
    from forewarn.policies.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim
    from forewarn.policies.kubernetes.releases.semantics import Semantics

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
        """Report whether this registered event includes one that occurred. Source: `MatchClusterEvents`."""
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
    if new is old:  # only a condition changed
        return [ClusterEvent(resource, UPDATE)]
    changes = (
        (new.labels != old.labels, UPDATE_POD_LABEL),
        (old.spec.gated and not new.spec.gated, UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
        (len(new.spec.tolerations) != len(old.spec.tolerations), UPDATE_POD_TOLERATION),
    )
    actions = [action for is_changed, action in changes if is_changed]
    return [ClusterEvent(resource, action) for action in actions or (UPDATE,)]


def node_scheduling_properties_change(new: Node, old: Node) -> list[ClusterEvent]:
    """Return the events of kube-scheduler for an updated node. Source: upstream `NodeSchedulingPropertiesChange`.

    Conditions and annotations are ignored: no plugin of the default profile registers for them.
    """
    changes = (
        (old.unschedulable and not new.unschedulable, UPDATE_NODE_TAINT),
        (new.allocatable != old.allocatable, UPDATE_NODE_ALLOCATABLE),
        (new.labels != old.labels, UPDATE_NODE_LABEL),
        (new.taints != old.taints, UPDATE_NODE_TAINT),
        (new.declared_features != old.declared_features, UPDATE_NODE_DECLARED_FEATURE),
    )
    return [ClusterEvent(NODE, action) for is_changed, action in changes if is_changed]


Hint = Callable[["Pod", Any, Any], bool]
"""(rejected Pod, object before, object after) -> whether to retry the Pod. None: the object did not exist, or was
deleted.
"""


def queue(_pod: Pod, _old: Any, _new: Any) -> bool:
    """Return True: an event of this kind always retries the Pod. Upstream's `defaultQueueingHintFn`."""
    return True


def skip(_pod: Pod, _old: Any, _new: Any) -> bool:
    """Return False: an event of this kind never retries the Pod."""
    return False


def _on_a_node(pod: Pod | None) -> bool:
    """Report whether a Pod is on a node or nominated to a node. True for None (no Pod)."""
    return pod is None or bool(pod.node_name or pod.nominated_node_name)


def resources_after_pod(_pod: Pod, old: Pod | None, new: Pod | None) -> bool:
    """Report whether a Pod on a node or nominated to a node was deleted. Resizes are not modelled here. Source:
    upstream `isSchedulableAfterPodEvent`.
    """
    return new is None and _on_a_node(old)


def resources_after_node(pod: Pod, old: Node | None, new: Node) -> bool:
    """Report whether the node, without its Pods, has sufficient resources for the Pod, and more of a requested resource
    than before. Source: upstream `isSchedulableAfterNodeChange` of NodeResourcesFit.
    """
    if any(True for _ in insufficient_resources(pod, NodeInfo(new))):
        return False
    return old is None or _more_of_what_is_requested(pod, old, new)


def _more_of_what_is_requested(pod: Pod, old: Node, new: Node) -> bool:
    """Report whether a requested resource has grown. Source: upstream `haveAnyRequestedResourcesIncreased`."""
    before, after, request = old.allocatable, new.allocatable, pod.spec.request
    if after.allowed_pod_number > before.allowed_pod_number:
        return True
    amounts = (
        (request.milli_cpu, before.milli_cpu, after.milli_cpu),
        (request.memory, before.memory, after.memory),
        (request.ephemeral_storage, before.ephemeral_storage, after.ephemeral_storage),
        *((n, before.scalars.get(name, 0), after.scalars.get(name, 0)) for name, n in request.scalars.items()),
    )
    return any(wanted > 0 and now > then for wanted, then, now in amounts)


def affinity_after_pod(pod: Pod, old: Pod | None, new: Pod | None) -> bool:
    """Report whether a change of another Pod (`old`, `new`), or of `pod` itself, may end a rejection by Pod
    (anti-)affinity.

    None: the other Pod did not exist, or was deleted. Source: upstream `isSchedulableAfterPodChange` of
    InterPodAffinity.
    """
    if old is not None and new is not None and new.identity == pod.identity:
        return True
    if not _on_a_node(old) or not _on_a_node(new):
        return False
    terms, anti_terms = pod.spec.pod_affinity.required_affinity, pod.spec.pod_affinity.required_anti_affinity
    if new is not None:
        if old is None:
            return matches_all(terms, pod, new)
        matches_now = not matches_all(terms, pod, old) and matches_all(terms, pod, new)
        return matches_now or (matches_all(anti_terms, pod, old) and not matches_all(anti_terms, pod, new))
    if old is None:
        return False
    theirs = old.spec.pod_affinity.required_anti_affinity
    return matches_all(anti_terms, pod, old) or matches_all(theirs, old, pod)


def affinity_after_node(pod: Pod, old: Node | None, new: Node) -> bool:
    """Report whether a new (`old` None) or relabelled node may satisfy the Pod's affinity or anti-affinity.

    Source: upstream `isSchedulableAfterNodeChange` of InterPodAffinity.
    """
    before, after, affinity = (old.labels if old is not None else {}), new.labels, pod.spec.pod_affinity
    domains = [
        (before.get(term.topology_key), after.get(term.topology_key)) for term in charging(affinity.required_affinity)
    ]
    if any(now is not None and now != then for then, now in domains):
        return True
    keys = [term.topology_key for term in charging(affinity.required_anti_affinity)]
    left = (key in before and after.get(key) != before[key] for key in keys)
    return bool(keys) if old is None else any(left)


def spread_after_pod(pod: Pod, old: Pod | None, new: Pod | None) -> bool:
    """Report whether a change of another Pod, or of `pod` itself, may end a rejection by topology spread constraints.

    `old`, `new` None: the Pod did not exist, or was deleted. Source: upstream `isSchedulableAfterPodChange` of
    PodTopologySpread.
    """
    if any(other is not None and not _involved(other, pod) for other in (old, new)):
        return False
    constraints = do_not_schedule(pod)
    if old is not None and new is not None:
        if (
            new.identity == pod.identity
            and new.spec.tolerations != old.spec.tolerations
            and any(c.node_taints_policy == "Honor" for c in constraints)
        ):
            return True
        return any(c.matches(old.labels) != c.matches(new.labels) for c in charging(constraints, 1))
    present = new if new is not None else old
    return present is not None and any(c.matches(present.labels) for c in charging(constraints, 1))


def _involved(other: Pod, pod: Pod) -> bool:
    """Report whether `other` can affect spread constraints. Source: upstream `involvedInTopologySpreading`."""
    return other.identity == pod.identity or (_on_a_node(other) and other.namespace == pod.namespace)


def spread_after_node(pod: Pod, old: Node | None, new: Node | None) -> bool:
    """Report whether a change of a node may end a rejection of `pod` by topology spread constraints.

    `old`, `new` None: the node is new, or was deleted. Source: upstream `isSchedulableAfterNodeChange` of
    PodTopologySpread.
    """
    keys = [constraint.topology_key for constraint in do_not_schedule(pod)]
    had, has = (node is not None and all(key in node.labels for key in keys) for node in (old, new))
    if old is None or new is None:
        return had or has
    if had != has:
        return True
    changed = any(old.labels.get(key) != new.labels.get(key) for key in keys)
    return has and (changed or old.taints != new.taints)


def taints_after_node(pod: Pod, old: Node | None, new: Node) -> bool:
    """Report whether the Pod tolerates the taints of a node now, but did not before (`old` None: the node is new).

    Source: upstream `isSchedulableAfterNodeChange` of TaintToleration.
    """
    tolerations = pod.spec.tolerations
    rejected = old is None or untolerated_taint(old.taints, tolerations) is not None
    return rejected and untolerated_taint(new.taints, tolerations) is None


def changes_own_pod(pod: Pod, _old: Pod | None, new: Pod) -> bool:
    return new.identity == pod.identity


def uncordoned(_pod: Pod, old: Node | None, new: Node) -> bool:
    """Report whether a node became schedulable. Source: NodeUnschedulable `isSchedulableAfterNodeChange`."""
    return not new.unschedulable and (old is None or old.unschedulable)


def tolerates_cordons(pod: Pod, _old: Pod | None, new: Pod) -> bool:
    """Report whether the Pod itself changed and now tolerates cordoned nodes.

    Source: upstream `isSchedulableAfterPodTolerationChange` of NodeUnschedulable.
    """
    return new.identity == pod.identity and tolerations_tolerate_taint(new.spec.tolerations, UNSCHEDULABLE_TAINT)


def node_affinity_after_node(pod: Pod, old: Node | None, new: Node) -> bool:
    """Report whether a node matches the Pod's node affinity now, but did not before (`old` None: the node is new).

    Source: upstream `isSchedulableAfterNodeChange` of NodeAffinity.
    """
    affinity = pod.spec.node_affinity
    if not affinity.matches(new.labels, new.name):
        return False
    return old is None or not affinity.matches(old.labels, old.name)


def ports_after_pod(pod: Pod, old: Pod | None, _new: Pod | None) -> bool:
    """Report whether a deleted Pod used a host port of the Pod. Source: NodePorts `isSchedulableAfterPodDeleted`."""
    if old is None or not _on_a_node(old) or not old.spec.host_ports:
        return False
    return bool(WantedPorts(pod.spec.host_ports).conflicts(old.spec.host_ports))


def volumes_after_pod(_pod: Pod, old: Pod | None, _new: Pod | None) -> bool:
    """Report whether a Pod with volumes was deleted. Upstream also checks which volumes the deleted Pod used."""
    return old is not None and bool(old.spec.volumes) and _on_a_node(old)


def uses_claim(pod: Pod, _old: Any, new: PersistentVolumeClaim) -> bool:
    """Report whether the Pod uses a claim. Source: upstream `isSchedulableAfterPersistentVolumeClaimChange`."""
    return pod.namespace == new.namespace and any(v.claim_of(pod.name) == new.name for v in pod.spec.volumes)


def names_claim(pod: Pod, _old: Any, new: PersistentVolumeClaim) -> bool:
    """Report whether the Pod names a claim. Source: upstream `isSchedulableAfterPersistentVolumeClaimAdded`."""
    return pod.namespace == new.namespace and any(v.claim_name == new.name for v in pod.spec.volumes)


def devices_after_claim(pod: Pod, old: ResourceClaim, new: ResourceClaim) -> bool:
    """Report whether a ResourceClaim was deallocated, or the status of a claim of the Pod changed.

    Source: upstream `isSchedulableAfterClaimChange`.
    """
    if old.allocation is not None and new.allocation is None:
        return True
    return pod.namespace == new.namespace and any(wanted.claim == new.name for wanted in pod.device_claims)


def new_or_moved_volume(_pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> bool:
    """Report whether a volume is new or relabelled. Source: VolumeZone `isSchedulableAfterPersistentVolumeChange`."""
    return old is None or old.labels != new.labels


def member_added(pod: Pod, _old: Pod | None, new: Pod) -> bool:
    """Report whether a new Pod belongs to the Pod's group. Source: GangScheduling `isSchedulableAfterPodAdded`."""
    return bool(pod.spec.pod_group) and (pod.namespace, pod.spec.pod_group) == (new.namespace, new.spec.pod_group)


def group_added(pod: Pod, _old: PodGroup | None, new: PodGroup) -> bool:
    """Report whether the Pod's PodGroup was added. Source: upstream `isSchedulableAfterPodGroupAdded`."""
    return (pod.namespace, pod.spec.pod_group) == (new.namespace, new.name)


def fewer_members_suffice(pod: Pod, old: PodGroup, new: PodGroup) -> bool:
    """Report whether minCount of the Pod's group decreased. Source: `isSchedulableAfterPodGroupUpdated`."""
    return group_added(pod, old, new) and 0 < new.min_count < old.min_count


Registrations = Mapping[ClusterEvent, Hint]
"""The events that a plugin registered for, with its hints."""

_POD_DELETE: Final = ClusterEvent(POD, DELETE)
_NODE_OR_LABELS: Final = ClusterEvent(NODE, ADD | UPDATE_NODE_LABEL)

EVENTS_TO_REGISTER: Final[Mapping[str, Registrations]] = {
    "SchedulingGates": {ClusterEvent(POD, UPDATE_POD_SCHEDULING_GATES_ELIMINATED): changes_own_pod},
    "NodeUnschedulable": {
        ClusterEvent(NODE, ADD | UPDATE_NODE_TAINT): uncordoned,
        ClusterEvent(POD, UPDATE_POD_TOLERATION): tolerates_cordons,
    },
    "NodeName": {NODE_ADD: queue},
    "TaintToleration": {
        ClusterEvent(NODE, ADD | UPDATE_NODE_TAINT): taints_after_node,
        ClusterEvent(POD, UPDATE_POD_TOLERATION): changes_own_pod,
    },
    "NodeAffinity": {_NODE_OR_LABELS: node_affinity_after_node},
    "NodePorts": {_POD_DELETE: ports_after_pod, NODE_ADD: queue},
    "NodeResourcesFit": {
        ClusterEvent(POD, DELETE | UPDATE_POD_SCALE_DOWN): resources_after_pod,
        ClusterEvent(NODE, ADD | UPDATE_NODE_ALLOCATABLE): resources_after_node,
    },
    "VolumeRestrictions": {_POD_DELETE: volumes_after_pod, NODE_ADD: queue, CLAIM_ADD: names_claim},
    "NodeVolumeLimits": {_POD_DELETE: volumes_after_pod, CLAIM_ADD: uses_claim},
    "VolumeBinding": {
        _NODE_OR_LABELS: queue,
        ClusterEvent(CLAIM, ADD | UPDATE): uses_claim,
        ClusterEvent(VOLUME, ADD | UPDATE): queue,
    },
    "VolumeZone": {
        _NODE_OR_LABELS: queue,
        ClusterEvent(CLAIM, ADD | UPDATE): uses_claim,
        ClusterEvent(VOLUME, ADD | UPDATE): new_or_moved_volume,
    },
    "PodTopologySpread": {
        ClusterEvent(POD, ADD | UPDATE_POD_LABEL | UPDATE_POD_TOLERATION | DELETE): spread_after_pod,
        ClusterEvent(NODE, ADD | DELETE | UPDATE_NODE_LABEL | UPDATE_NODE_TAINT): spread_after_node,
    },
    "InterPodAffinity": {
        ClusterEvent(POD, ADD | UPDATE_POD_LABEL | DELETE): affinity_after_pod,
        _NODE_OR_LABELS: affinity_after_node,
    },
    "DynamicResources": {
        ClusterEvent(NODE, ADD | UPDATE_NODE_LABEL | UPDATE_NODE_ALLOCATABLE): queue,
        ClusterEvent(RESOURCE_CLAIM, ADD | UPDATE): devices_after_claim,
        ClusterEvent(POD, UPDATE_POD_GENERATED_RESOURCE_CLAIM): queue,
    },
    "DefaultPreemption": {_POD_DELETE: skip},
    "DeferredPodScheduling": {NODE_ADD: skip},
    "GangScheduling": {
        ClusterEvent(UNSCHEDULABLE_POD, ADD): member_added,
        ClusterEvent(ASSIGNED_POD, ADD): member_added,
        ClusterEvent(POD_GROUP, ADD): group_added,
        ClusterEvent(POD_GROUP, UPDATE): fewer_members_suffice,
    },
    "NodeDeclaredFeatures": {
        ClusterEvent(NODE, ADD | UPDATE_NODE_DECLARED_FEATURE): queue,
        ClusterEvent(POD, UPDATE): changes_own_pod,
    },
}
"""Plugin of the default profile -> its registrations."""


class QueueingHints:
    """The events that plugins registered for, with their queueing hints. Source: upstream `buildQueueingHintMap`."""

    def __init__(self, plugins: Mapping[str, Registrations] = EVENTS_TO_REGISTER) -> None:
        self._by_plugin = {name: {**given, **_taint_registration(given)} for name, given in plugins.items()}
        self._interested = lru_cache(maxsize=256)(self._look_up)

    @classmethod
    def from_profiles(cls, semantics: Semantics) -> QueueingHints:
        """Return the registrations for all profiles of a scheduler. Source: upstream `defaultEnqueueExtension`."""
        profiles = semantics.scheduler.profiles.values() if semantics.scheduler is not None else ()
        names = dict.fromkeys(name for profile in profiles for name in profile.plugin_names)
        everything = {ClusterEvent(WILD_CARD, ALL): queue}
        return cls({**EVENTS_TO_REGISTER, **{n: everything for n in names if n not in EVENTS_TO_REGISTER}})

    def hints_for(self, event: ClusterEvent) -> Mapping[str, tuple[Hint, ...]]:
        """Return plugin -> its hints, for the plugins that registered for an event."""
        return self._interested(event)

    def events_of(self, plugin: str) -> tuple[ClusterEvent, ...]:
        return tuple(self._by_plugin.get(plugin, ()))

    def _look_up(self, event: ClusterEvent) -> dict[str, tuple[Hint, ...]]:
        by_plugin = self._by_plugin.items()
        hints = {name: tuple(hint for known, hint in given.items() if known.covers(event)) for name, given in by_plugin}
        return {name: value for name, value in hints.items() if value}


def _taint_registration(events: Iterable[ClusterEvent]) -> Registrations:
    """Return a registration for changes of taints, if a plugin registered for new nodes but not for such changes; or
    nothing.

    Upstream adds this registration as a fix of issue 109437.
    """
    actions = [event.action for event in events if event.resource == NODE]
    if any(action & ADD for action in actions) and not any(action & UPDATE_NODE_TAINT for action in actions):
        return {ClusterEvent(NODE, UPDATE_NODE_TAINT): queue}
    return {}
