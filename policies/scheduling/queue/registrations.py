"""The events that each plugin registers for, with their queueing hints.

Source: `EventsToRegister` of kubernetes `pkg/scheduler/framework/plugins`. Of storage objects, only events of claims
and volumes exist here; of objects of devices, only events of ResourceClaims.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.scheduling.queue import hints
from forewarn.policies.scheduling.queue.events import (
    ADD,
    ALL,
    ASSIGNED_POD,
    CLAIM,
    DELETE,
    NODE,
    POD,
    POD_GROUP,
    RESOURCE_CLAIM,
    UNSCHEDULABLE_POD,
    UPDATE,
    UPDATE_NODE_ALLOCATABLE,
    UPDATE_NODE_DECLARED_FEATURE,
    UPDATE_NODE_LABEL,
    UPDATE_NODE_TAINT,
    UPDATE_POD_GENERATED_RESOURCE_CLAIM,
    UPDATE_POD_LABEL,
    UPDATE_POD_SCALE_DOWN,
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    UPDATE_POD_TOLERATION,
    VOLUME,
    WILD_CARD,
    ClusterEvent,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from forewarn.policies.releases.semantics import Semantics
    from forewarn.policies.scheduling.queue.hints import Hint


class Registration(NamedTuple):
    """An event that a plugin registered for, and the plugin's hint."""

    event: ClusterEvent
    hint: Hint


_POD_DELETE: Final = ClusterEvent(POD, DELETE)
_NODE_ADD: Final = ClusterEvent(NODE, ADD)
_NODE_OR_LABELS: Final = ClusterEvent(NODE, ADD | UPDATE_NODE_LABEL)

EVENTS_TO_REGISTER: Final[Mapping[str, tuple[Registration, ...]]] = {
    "SchedulingGates": (Registration(ClusterEvent(POD, UPDATE_POD_SCHEDULING_GATES_ELIMINATED), hints.its_own),),
    "NodeUnschedulable": (
        Registration(ClusterEvent(NODE, ADD | UPDATE_NODE_TAINT), hints.uncordoned),
        Registration(ClusterEvent(POD, UPDATE_POD_TOLERATION), hints.tolerates_cordons),
    ),
    "NodeName": (Registration(_NODE_ADD, hints.queue),),
    "TaintToleration": (
        Registration(ClusterEvent(NODE, ADD | UPDATE_NODE_TAINT), hints.taints_after_node),
        Registration(ClusterEvent(POD, UPDATE_POD_TOLERATION), hints.its_own),
    ),
    "NodeAffinity": (Registration(_NODE_OR_LABELS, hints.node_affinity_after_node),),
    "NodePorts": (Registration(_POD_DELETE, hints.ports_after_pod), Registration(_NODE_ADD, hints.queue)),
    "NodeResourcesFit": (
        Registration(ClusterEvent(POD, DELETE | UPDATE_POD_SCALE_DOWN), hints.resources_after_pod),
        Registration(ClusterEvent(NODE, ADD | UPDATE_NODE_ALLOCATABLE), hints.resources_after_node),
    ),
    "VolumeRestrictions": (
        Registration(_POD_DELETE, hints.volumes_after_pod),
        Registration(_NODE_ADD, hints.queue),
        Registration(ClusterEvent(CLAIM, ADD), hints.of_a_claim_by_name),
    ),
    "NodeVolumeLimits": (
        Registration(_POD_DELETE, hints.volumes_after_pod),
        Registration(ClusterEvent(CLAIM, ADD), hints.of_its_claim),
    ),
    "VolumeBinding": (
        Registration(_NODE_OR_LABELS, hints.queue),
        Registration(ClusterEvent(CLAIM, ADD | UPDATE), hints.of_its_claim),
        Registration(ClusterEvent(VOLUME, ADD | UPDATE), hints.queue),
    ),
    "VolumeZone": (
        Registration(_NODE_OR_LABELS, hints.queue),
        Registration(ClusterEvent(CLAIM, ADD | UPDATE), hints.of_its_claim),
        Registration(ClusterEvent(VOLUME, ADD | UPDATE), hints.new_or_moved_volume),
    ),
    "PodTopologySpread": (
        Registration(
            ClusterEvent(POD, ADD | UPDATE_POD_LABEL | UPDATE_POD_TOLERATION | DELETE),
            hints.spread_after_pod,
        ),
        Registration(ClusterEvent(NODE, ADD | DELETE | UPDATE_NODE_LABEL | UPDATE_NODE_TAINT), hints.spread_after_node),
    ),
    "InterPodAffinity": (
        Registration(ClusterEvent(POD, ADD | UPDATE_POD_LABEL | DELETE), hints.affinity_after_pod),
        Registration(_NODE_OR_LABELS, hints.affinity_after_node),
    ),
    "DynamicResources": (
        Registration(ClusterEvent(NODE, ADD | UPDATE_NODE_LABEL | UPDATE_NODE_ALLOCATABLE), hints.queue),
        Registration(ClusterEvent(RESOURCE_CLAIM, ADD | UPDATE), hints.devices_after_claim),
        Registration(ClusterEvent(POD, UPDATE_POD_GENERATED_RESOURCE_CLAIM), hints.queue),
    ),
    "DefaultPreemption": (Registration(_POD_DELETE, hints.skip),),
    "GangScheduling": (
        Registration(ClusterEvent(UNSCHEDULABLE_POD, ADD), hints.member_added),
        Registration(ClusterEvent(ASSIGNED_POD, ADD), hints.member_added),
        Registration(ClusterEvent(POD_GROUP, ADD), hints.group_added),
        Registration(ClusterEvent(POD_GROUP, UPDATE), hints.fewer_members_suffice),
    ),
    "NodeDeclaredFeatures": (
        Registration(ClusterEvent(NODE, ADD | UPDATE_NODE_DECLARED_FEATURE), hints.queue),
        Registration(ClusterEvent(POD, UPDATE), hints.its_own),
    ),
}
"""Plugin of the default profile -> its registrations."""


class QueueingHints:
    """The events that plugins registered for, with their queueing hints. Source: upstream `buildQueueingHintMap`."""

    def __init__(self, plugins: Mapping[str, Iterable[Registration]] = EVENTS_TO_REGISTER) -> None:
        self._by_plugin = {name: (*given, *_with_node_taint_events(given)) for name, given in plugins.items()}
        self._interested = lru_cache(maxsize=256)(self._look_up)

    @classmethod
    def of_profiles(cls, semantics: Semantics) -> QueueingHints:
        """Return the registrations for all profiles of a scheduler. Source: upstream `defaultEnqueueExtension`.

        A plugin that is not part of kube-scheduler registers for every event.
        """
        profiles = semantics.scheduler.profiles.values() if semantics.scheduler is not None else ()
        names = dict.fromkeys(name for profile in profiles for name in profile.plugin_names)
        everything = (Registration(ClusterEvent(WILD_CARD, ALL), hints.queue),)
        return cls({**EVENTS_TO_REGISTER, **{n: everything for n in names if n not in EVENTS_TO_REGISTER}})

    def of(self, event: ClusterEvent) -> Mapping[str, tuple[Hint, ...]]:
        """Return plugin -> hints, for the plugins that registered for an event."""
        return self._interested(event)

    def events_of(self, plugin: str) -> tuple[ClusterEvent, ...]:
        """Return the events that a plugin registered for."""
        return tuple(registration.event for registration in self._by_plugin.get(plugin, ()))

    def _look_up(self, event: ClusterEvent) -> dict[str, tuple[Hint, ...]]:
        found = {name: tuple(r.hint for r in given if r.event.covers(event)) for name, given in self._by_plugin.items()}
        return {name: each for name, each in found.items() if each}


def _with_node_taint_events(given: Iterable[Registration]) -> tuple[Registration, ...]:
    """Return a registration for changes of taints, if a plugin registered for new nodes but not for such changes; or
    nothing.

    Upstream adds this registration as a fix of issue 109437.
    """
    actions = [r.event.action for r in given if r.event.resource == NODE]
    if any(action & ADD for action in actions) and not any(action & UPDATE_NODE_TAINT for action in actions):
        return (Registration(ClusterEvent(NODE, UPDATE_NODE_TAINT), hints.queue),)
    return ()
