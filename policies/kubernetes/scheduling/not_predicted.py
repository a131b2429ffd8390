"""The parts of kube-scheduler's decision about a Pod that forewarn does not predict, with the reason.

Source: kubernetes `pkg/scheduler/extender.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.kubernetes.kinds.registry import CLAIM, POD_GROUP, VOLUME
from forewarn.policies.kubernetes.releases.profiles import DEFAULT_SCHEDULER
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.kubernetes.scheduling.arguments import SYSTEM_DEFAULTING
from forewarn.policies.kubernetes.scheduling.caveats import named
from forewarn.policies.kubernetes.scheduling.configuration import configuration_of
from forewarn.policies.kubernetes.scheduling.devices.claims import not_modelled
from forewarn.policies.kubernetes.scheduling.event_handlers import is_gated
from forewarn.policies.kubernetes.scheduling.plugins.pod_topology_spread import DO_NOT_SCHEDULE, PodTopologySpread

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod, PodSpec
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup
    from forewarn.policies.kubernetes.scheduling.cluster_objects import ClusterObjects
    from forewarn.policies.kubernetes.scheduling.framework import Framework
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

SCHEDULER_ERROR: Final = "SchedulerError"
"""The reason of a Pod's condition PodScheduled after a cycle that ended in an error."""
CLAIMS: Final = "kube-scheduler must bind volumes or allocate devices of its Pods"


def needs_claims(pod: Pod, snapshot: Snapshot) -> bool:
    """Report whether kube-scheduler must bind volumes or allocate devices of the Pod: Pods of a group may compete."""
    if pod.spec.claims_devices or not snapshot.extended_resources.keys().isdisjoint(pod.spec.request.scalars):
        return True
    names = [name for volume in pod.spec.volumes if (name := volume.claim_of(pod.name))]
    claims = [snapshot.objects.claims.get((pod.namespace, name)) for name in names]
    return not all(claim is not None and claim.fully_bound for claim in claims)


def is_scheduled_by_group(pod: Pod, snapshot: Snapshot) -> bool:
    """Report whether kube-scheduler schedules the Pod only together with its PodGroup."""
    return bool(pod.spec.pod_group) and snapshot.objects.has_pod_groups


def of_a_group(pod: Pod, snapshot: Snapshot) -> str:
    """Return why forewarn does not predict a Pod of a PodGroup alone; "" for Pods without a PodGroup."""
    if not is_scheduled_by_group(pod, snapshot):
        return ""
    why = why_group_not_predicted(pod, snapshot) or "kube-scheduler schedules the group as a whole"
    return f"the Pod belongs to PodGroup {pod.spec.pod_group}; {why}"


def why_group_not_predicted(pod: Pod, snapshot: Snapshot) -> str:
    """Return why forewarn does not predict the PodGroup of a Pod; "" if forewarn does."""
    objects = snapshot.objects
    if not objects.semantics.groups_are_preempted_together:
        first = Semantics.groups_are_preempted_together.first
        return f"PodGroups are predicted for Kubernetes {first} and later, not for {objects.semantics.release}"
    if why := without_gang_scheduling(pod, objects.semantics):
        return why
    group = objects.pod_groups.get((pod.namespace, pod.spec.pod_group))
    if group is None:
        if POD_GROUP in objects.unlisted:
            return "the cluster state has no list of PodGroups"
        return "the PodGroup does not exist, so kube-scheduler does not try its Pods"
    return unmodelled_fields(group)


def unmodelled_fields(group: PodGroup) -> str:
    """Return the fields of a PodGroup that forewarn does not model, as a sentence; "" without such fields."""
    fields = " and ".join(group.other_features)
    return f"the PodGroup has {fields}, which forewarn does not model" if fields else ""


def without_gang_scheduling(pod: Pod, semantics: Semantics) -> str | None:
    """Return why forewarn does not predict a PodGroup if the profile disables GangScheduling; None if it does not."""
    profile = semantics.scheduler.profile(pod.spec.scheduler_name) if semantics.scheduler is not None else None
    if profile is None or all("GangScheduling" in profile.at(point) for point in ("preEnqueue", "permit")):
        return None
    return f'the profile "{profile.scheduler_name}" disables GangScheduling, and forewarn does not model this'


def not_predicted(pod: Pod, snapshot: Snapshot) -> str:
    """Return why forewarn cannot predict the scheduling of a Pod; "" if forewarn can."""
    return not_scheduled(pod, snapshot) or unmodelled(pod, snapshot)


def unmodelled(pod: Pod, snapshot: Snapshot) -> str:
    """Return the part of kube-scheduler's decision that forewarn does not model; "" if there is none."""
    return of_a_group(pod, snapshot) or of_claims(pod, snapshot)


def of_claims(pod: Pod, snapshot: Snapshot) -> str:
    """Return why forewarn does not predict a Pod with its volumes and devices; "" if forewarn does."""
    objects = snapshot.objects
    if CLAIM in objects.unlisted and (claim := missing_claim(pod, objects)):
        return f'the cluster state has no list of PersistentVolumeClaims, and the Pod uses "{claim}"'
    if VOLUME in objects.unlisted and (claim := _claim_without_volume(pod, objects)):
        return f'the cluster state has no list of PersistentVolumes, and the Pod uses claim "{claim}", which is bound'
    return not_modelled(pod, objects, snapshot.extended_resources)


def missing_claim(pod: Pod, objects: ClusterObjects) -> str:
    """Return a PersistentVolumeClaim of the Pod that does not exist and that no controller creates; "" without one."""
    names = (volume.claim_of(pod.name) for volume in pod.spec.volumes if not volume.ephemeral)
    return next((name for name in names if name and (pod.namespace, name) not in objects.claims), "")


def _claim_without_volume(pod: Pod, objects: ClusterObjects) -> str:
    """Return a claim of the Pod that is bound to a volume that the cluster state does not have; "" without one."""
    names = (volume.claim_of(pod.name) for volume in pod.spec.volumes)
    claims = [objects.claims.get((pod.namespace, name)) for name in names if name]
    bound = (claim for claim in claims if claim is not None and claim.volume_name)
    return next((claim.name for claim in bound if ("", claim.volume_name) not in objects.volumes), "")


def not_scheduled(pod: Pod, snapshot: Snapshot) -> str:
    """Return why kube-scheduler, with the known profiles, does not schedule a Pod; "" if kube-scheduler does."""
    semantics = snapshot.semantics
    if semantics.unknown:
        return semantics.unknown
    spec = pod.spec
    if spec.too_large:
        return spec.too_large
    if configuration_of(semantics).profile(spec.scheduler_name) is None:
        return f'the Pod is for another scheduler, "{spec.scheduler_name or DEFAULT_SCHEDULER}"'
    if pod.node_name:
        return f'the Pod names its node, "{pod.node_name}": kube-scheduler ignores it'
    if is_gated(pod, semantics):
        return "the Pod has scheduling gates: it is not scheduled until they are removed"
    return ""


def extender_decisions(pod: Pod, snapshot: Snapshot, *, fits: bool, preempts: bool) -> str:
    """Return why an extender may change a decision, as a reason not to predict; "" if none may.

    `fits`, `preempts`: the decision of the plugins.
    """
    for extender in configuration_of(snapshot.semantics).extenders_for(pod.spec.request.scalars):
        if fits and extender.filter_verb:
            return f"{named(extender)} may reject the nodes that the plugins leave, and cannot be asked"
        if preempts and extender.preempt_verb:
            return f"{named(extender)} may choose other victims, and cannot be asked"
    return ""


def has_constraints(spec: PodSpec, framework: Framework) -> bool:
    """Report whether filters after NodeResourcesFit may reject nodes for this spec, besides those by demands."""
    affinity = spec.pod_affinity
    if affinity.required_affinity or affinity.required_anti_affinity or spec.has_storage:
        return True
    spread = framework.profile.args.get(PodTopologySpread.name)
    defaults = () if spread is None or spread.defaulting_type == SYSTEM_DEFAULTING else spread.default_constraints
    return any(item.when_unsatisfiable == DO_NOT_SCHEDULE for item in spec.topology_spread or defaults)
