"""The parts of kube-scheduler's decision about a Pod that forewarn does not predict, with the reason; the assumptions
and the uncertainty of a prediction, as sentences.

Source: kubernetes `pkg/scheduler/extender.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.base.findings import plural
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kinds.registry import CLAIM, POD_GROUP, VOLUME
from forewarn.policies.kubernetes.releases.semantics import DEFAULT_SCHEDULER, Extender, Semantics
from forewarn.policies.kubernetes.scheduling.arguments import SYSTEM_DEFAULTING
from forewarn.policies.kubernetes.scheduling.configuration import configuration_of
from forewarn.policies.kubernetes.scheduling.devices.claims import not_modelled
from forewarn.policies.kubernetes.scheduling.event_handlers import is_gated
from forewarn.policies.kubernetes.scheduling.framework import (
    MAX_PERMIT_TIMEOUT,
    SKIP,
    Code,
    CycleState,
    Framework,
    Status,
    failed,
    foreign_at,
)
from forewarn.policies.kubernetes.scheduling.plugins.pod_topology_spread import DO_NOT_SCHEDULE, PodTopologySpread
from forewarn.policies.kubernetes.scheduling.preemption import Candidate, Preemption, may_be_preempted, rank_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.pod import Pod, PodSpec
    from forewarn.policies.kubernetes.objects.pod_group import PodGroup
    from forewarn.policies.kubernetes.scheduling.node_info import ClusterObjects
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot


class Binding(NamedTuple):
    """The result of a binding cycle. `failed_at`, `status`: the extension point and the reason of a failure.

    `timeouts`: plugin -> maximum seconds for which the plugin holds the Pod at Permit. The cycle ends there, because
    forewarn does not predict whether the plugins allow the Pod.
    """

    failed_at: str = ""
    status: Status | None = None
    timeouts: Mapping[str, float] = {}


def run_binding_cycle(framework: Framework, pod: Pod, node_name: str) -> Binding:
    """Run the plugins after the choice of a node, until one fails or holds the Pod.

    A failure releases the reserved resources. Source: upstream `bindingCycle`, `handleBindingCycleError`.
    """
    cycle, timeouts = (CycleState(), pod, node_name), dict[str, float]()
    failure = next(_binding_failures(framework, cycle, timeouts), None)
    if failure is None and timeouts:
        return Binding(timeouts=timeouts)
    failure = failure or next(_while_binding(framework, cycle), None)
    if failure is not None:
        for plugin in reversed(framework.reserves):
            plugin.unreserve(*cycle)
        return Binding(*failure)
    for post_bind in framework.post_binds:
        post_bind.post_bind(*cycle)
    return Binding()


def _binding_failures(
    framework: Framework, cycle: tuple[CycleState, Pod, str], timeouts: dict[str, float]
) -> Iterator[tuple[str, Status]]:
    """Yield the failures (extension point, status) of Reserve, Permit and PreBindPreFlight; the first ends the cycle.

    Adds plugins that hold the Pod to `timeouts`, and those that skip it to `skip_pre_bind` of the state. Releases that
    do not write `nominatedNodeName` before binding have no PreBindPreFlight. Source: upstream
    `RunReservePluginsReserve`, `RunPermitPlugins`, `RunPreBindPreFlights`.
    """
    for reserve in framework.reserves:
        if status := reserve.reserve(*cycle):
            yield "Reserve", _binding_status(status, "Reserve", reserve.name)
    for permit in framework.permits:
        status, timeout = permit.permit(*cycle)
        if status is not None and status.code is Code.WAIT:
            timeouts[permit.name] = min(timeout, MAX_PERMIT_TIMEOUT)
        elif status is not None:
            yield "Permit", _binding_status(status, "Permit", permit.name)
    announced = framework.snapshot.semantics.expected_bindings_are_announced
    for name, status in ((p.name, p.pre_bind_pre_flight(*cycle)) for p in framework.pre_binds if announced):
        if status is not None and status.code is Code.SKIP:
            cycle[0].skip_pre_bind.add(name)
        elif status is not None and status.code is Code.ERROR:
            yield "PreBindPreFlight", status.while_running(f'running PreBindPreFlight "{name}"', name)
        elif status is not None:
            text = f'PreBindPreFlight {name} returned "{status.code}", which is unsupported. It is supposed to '
            yield "PreBindPreFlight", failed(f"{text}return Success, Skip, or Error status")


def _while_binding(framework: Framework, cycle: tuple[CycleState, Pod, str]) -> Iterator[tuple[str, Status]]:
    """Yield the failures of PreBind and Bind, the first of which ends the cycle; SKIP if all Bind plugins skip.

    Source: upstream `RunPreBindPlugins`, which may run some in parallel, and `RunBindPlugins`.
    """
    for pre_bind in framework.pre_binds:
        if pre_bind.name not in cycle[0].skip_pre_bind and (status := pre_bind.pre_bind(*cycle)):
            yield "PreBind", _binding_status(status, "PreBind", pre_bind.name)
    skipped = SKIP
    for bind in framework.binds:
        if (status := bind.bind(*cycle)) is None:
            return
        if status.code is not Code.SKIP:
            yield "Bind", _binding_status(status, "Bind", bind.name)
        skipped = status
    yield "Bind", skipped


def _binding_status(status: Status, point: str, plugin: str) -> Status:
    if status.rejected:
        return status.with_plugin(plugin)
    return status.while_running(f'running {point} plugin "{plugin}"', plugin)


AWAITED: Final = (
    "before the pod is bound, its devices must be made ready (binding conditions): kube-scheduler waits for this, and "
    "schedules the pod again if it takes too long"
)
GATED: Final = (
    "the profile disables SchedulingGates, but kube-apiserver binds no pod with scheduling gates: the scheduler tries "
    "the pod again and again"
)


def named(extender: Extender) -> str:
    return f'the extender "{extender.url_prefix}"'


def preemption_caveats(pod: Pod, preemption: Preemption, snapshot: Snapshot, *, ties: bool = True) -> list[str]:
    """Return the caveats for a Pod that does not fit without preemption. `ties`: include those about equal choices."""
    caveats = []
    if ties and preemption.may_stop_early and preemption.candidates:
        caveats.append(
            f"chance decides on which of {preemption.potential_nodes} nodes it preempts: the number of victims may vary"
        )
    if ties and len(preemption.best_candidates) > 1:
        caveats.append(f"{len(preemption.best_candidates)} nodes tie: any of them may be nominated")
    if ties and any(victims_tie(candidate, snapshot) for candidate in preemption.best_candidates):
        caveats.append("victims tie with other pods in priority and start time: which of them go may differ")
    if any(victim.start_time is None for candidate in preemption.best_candidates for victim in candidate.victims):
        caveats.append("a victim has no start time: it counts as started now")
    stale = {
        f"{pdb.namespace}/{pdb.name}"
        for candidate in preemption.best_candidates
        for other in snapshot.node_infos[snapshot.rows[candidate.node_name]].pods
        if may_be_preempted(other, pod.effective_priority, snapshot)
        for pdb in snapshot.pdbs.get(other.namespace, ())
        if pdb.stale and pdb.matches(other.namespace, other.labels)
    }
    caveats += [f"the status of the disruption budget {name} is older than its spec" for name in sorted(stale)]
    return caveats


def victims_tie(candidate: Candidate, snapshot: Snapshot) -> bool:
    """Report whether another Pod on the node ties with a victim in priority and start time."""
    return len(without_ties(candidate, snapshot)) < len(candidate.victims)


def without_ties(candidate: Candidate, snapshot: Snapshot) -> Sequence[Pod]:
    """Return the victims with which no other Pod on the node ties in priority and start time."""
    node_info = snapshot.get(candidate.node_name)
    if node_info is None:
        return candidate.victims
    charge(len(node_info.pods) // 4)
    victims = {victim.identity for victim in candidate.victims}
    priorities = {victim.effective_priority for victim in candidate.victims}
    equal = (pod for pod in node_info.pods if pod.effective_priority in priorities and pod.identity not in victims)
    ranks = set(map(rank_of, equal))
    return [victim for victim in candidate.victims if rank_of(victim) not in ranks]


_ALWAYS: Final = (registry.NODE, registry.POD, registry.PRIORITY_CLASS)
_OF_VICTIMS: Final = (registry.DISRUPTION_BUDGET,)
_OF_CREATED: Final = (registry.RESOURCE_QUOTA, registry.LIMIT_RANGE)
"""Kinds that admission of a new Pod depends on."""
_OF_CLAIMS: Final = (
    registry.CLAIM,
    "/PersistentVolume",
    "storage.k8s.io/StorageClass",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/CSIDriver",
)
"""Kinds that the volumes of a Pod depend on. Storage capacities and attachments may be missing although these exist."""


def assumptions(
    objects: ClusterObjects, pods: Iterable[Pod] = (), *, victims: bool = False, created: bool = False
) -> tuple[str, ...]:
    """Return what the answer assumes, as clauses without names of a tenant: `no LimitRanges`. The reasons are
    missing lists that matter, missing nodes, objects stored only in part, a third-party queueSort plugin, and a preview
    release.

    `pods`: new Pods. `victims`: whether Pods are evicted. `created`: whether controllers create Pods.
    """
    absent = _absent(objects, pods, victims=victims, created=created) if objects.unlisted else []
    assumed = [f"no {kinds}" for kinds in absent]
    if unknown := objects.pods_on_unknown_nodes:
        nodes = "their node is" if len(unknown) == 1 else f"their {len(unknown)} nodes are"
        pods_run = plural(sum(unknown.values()), "Pod does", "Pods do")
        assumed.append(f"{pods_run} not run: {nodes} missing")
    if objects.omitted:
        large = plural(objects.omitted, "object is", "objects are")
        assumed.append(f"other namespaces are not affected: {large} too large to keep whole")
    if created and objects.counted_quotas:
        quotas = plural(objects.counted_quotas, "ResourceQuota")
        assumed.append(
            f"{quotas} without complete status: usage counted from requests of Pods, not limits or other objects"
        )
    if victims and objects.counted_pdbs:
        pdbs = plural(objects.counted_pdbs, "PodDisruptionBudget")
        assumed.append(f"{pdbs} without status: allowed disruptions counted from Pods")
    # All profiles of a scheduler share the queueSort plugin.
    profiles = () if objects.semantics.scheduler is None else objects.semantics.scheduler.profiles.values()
    if plugin := next((name for profile in profiles for name in foreign_at(profile, "queueSort")), ""):
        assumed.append(f"priority orders the queue, although plugin {plugin} sorts it (queueSort)")
    if objects.semantics.preview:
        assumed.append(objects.semantics.preview)
    return tuple(assumed)


def lists_storage(objects: ClusterObjects) -> bool:
    """Report whether the cluster state has all lists of storage objects that new PersistentVolumeClaims depend on."""
    return not any(kind in objects.unlisted for kind in _OF_CLAIMS if kind != registry.CLAIM)


def _absent(objects: ClusterObjects, pods: Iterable[Pod], *, victims: bool, created: bool) -> list[str]:
    """Return the kinds of missing lists that the answer depends on, as plurals."""
    wanted = [*_ALWAYS, *(_OF_VICTIMS if victims else ()), *(_OF_CREATED if created else ())]
    has_claims = has_devices = selects_namespaces = False
    for pod in pods:
        selects_namespaces = selects_namespaces or _selects_namespaces(pod)
        has_claims = has_claims or any(volume.claim_of(pod.name) for volume in pod.spec.volumes)
        has_devices = has_devices or bool(pod.device_claims)
        if has_claims and has_devices and selects_namespaces:
            break
    wanted += _OF_CLAIMS if has_claims else ()
    wanted += (registry.NAMESPACE,) if selects_namespaces else ()
    if has_devices and objects.semantics.device_taint_rules_are_served:
        wanted.append(registry.DEVICE_TAINT_RULES.group_kind)
    return [kinds_of(kind) for kind in wanted if kind in objects.unlisted]


def kinds_of(kind: str) -> str:
    """Return the plural of a `group/Kind`: `LimitRanges`."""
    name = registry.BY_GROUP_KIND[kind].kind
    return f"{name}es" if name.endswith("s") else f"{name}s"


def _selects_namespaces(pod: Pod) -> bool:
    affinity = pod.spec.pod_affinity
    terms = (*affinity.required_affinity, *affinity.required_anti_affinity)
    return any(term.namespace_selector is not None and not term.namespace_selector.empty for term in terms)


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


def group_reason(pod: Pod, snapshot: Snapshot) -> str:
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
    if profile is None or all("GangScheduling" in profile.plugins_at(point) for point in ("preEnqueue", "permit")):
        return None
    return f'the profile "{profile.scheduler_name}" disables GangScheduling, and forewarn does not model this'


def not_predicted(pod: Pod, snapshot: Snapshot) -> str:
    """Return why forewarn cannot predict the scheduling of a Pod; "" if forewarn can."""
    return not_scheduled(pod, snapshot) or unmodelled(pod, snapshot)


def unmodelled(pod: Pod, snapshot: Snapshot) -> str:
    """Return the part of kube-scheduler's decision that forewarn does not model; "" if there is none."""
    return group_reason(pod, snapshot) or claims_reason(pod, snapshot)


def claims_reason(pod: Pod, snapshot: Snapshot) -> str:
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
