"""The results of a Pod's scheduling cycle that depend on its spec and the nodes alone, for `recurring_cycle`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from forewarn.policies.scheduling.arguments import SYSTEM_DEFAULTING
from forewarn.policies.scheduling.plugins.default_preemption import DefaultPreemption
from forewarn.policies.scheduling.plugins.node_ports import NodePorts
from forewarn.policies.scheduling.plugins.node_resources_fit import NodeResourcesFit
from forewarn.policies.scheduling.plugins.pod_topology_spread import DO_NOT_SCHEDULE, PodTopologySpread
from forewarn.policies.scheduling.plugins.volume_binding import VolumeBinding
from forewarn.policies.scheduling.plugins.volume_zone import VolumeZone
from forewarn.policies.scheduling.recurring_requests import Demand, Spec
from forewarn.policies.scheduling.vectorized.constraints import Unsupported, attempt
from forewarn.policies.scheduling.vectorized_cycle import Cycle, percentage_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from numpy.typing import NDArray

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.objects.pod_spec import PodSpec
    from forewarn.policies.objects.storage import PersistentVolumeClaim
    from forewarn.policies.scheduling.framework import Framework
    from forewarn.policies.scheduling.snapshot import Snapshot


def read_spec(snapshot: Snapshot, pod: Pod, numbers: dict[Hashable, int]) -> Spec | None:
    """Return the results that depend on a Pod's spec and the nodes alone; None if the Pod is not supported.

    Not supported: filters before NodeResourcesFit that depend on other Pods, Filter plugins that are not part of
    kube-scheduler (they may read labels), and PreFilter plugins that reject the Pod.
    `numbers`: static result for all nodes -> `Spec.leaves`; extended here.
    """
    spec = pod.spec
    cycle = attempt(_supported_cycle, snapshot, pod)
    if cycle is None or isinstance(cycle, Unsupported):
        return None
    static = attempt(cycle.static_rejections)
    if isinstance(static, Unsupported):
        return None
    plugins, reasons, left = static
    fit, known = cycle.node_fit, snapshot.columns.resources
    resources = [demand for demand in fit.demands if demand.constraint is None]
    demands = [Demand(demand.resource, known.index(demand.resource), demand.limit) for demand in resources]
    amounts = spec.request
    base = amounts.milli_cpu, amounts.memory, amounts.ephemeral_storage
    reached = _reached(snapshot, pod, cycle, len(left))
    has_default = DefaultPreemption.name in cycle.framework.profile.plugins
    preemption = cycle.framework.plugin(DefaultPreemption.name) if has_default else None
    opens = fit.static & fit.resolvable
    said = opens.tobytes(), left.tobytes(), frozenset(plugins), frozenset(reasons.items())
    return Spec(
        spec,
        (base, tuple(sorted(amounts.scalars.items())), tuple(demand.resource for demand in demands)),
        demands,
        opens,
        frozenset(plugins),
        reasons,
        left,
        numbers.setdefault(said, len(numbers)),
        nominated=not any(plugin.static_filter(pod) for plugin in cycle.framework.late_static_plugins),
        preemption=preemption.args if preemption else None,
        constrained=len(resources) < len(fit.demands) or has_constraints(spec, cycle.framework),
        reached=reached,
        is_reached=bool((opens & reached).any()),
        percentage=percentage_of(cycle.framework),
    )


def _supported_cycle(snapshot: Snapshot, pod: Pod) -> Cycle | None:
    spec, known = pod.spec, snapshot.columns.resources
    if snapshot.extended_resources or spec.claims_devices or spec.host_ports:
        return None
    if any(volume.ephemeral for volume in spec.volumes):
        return None
    if any(amount and resource not in known for resource, amount in spec.request.scalars.items()):
        return None
    cycle = Cycle(snapshot, replace(pod, nominated_node_name=""))
    framework = cycle.framework
    return cycle if cycle.preempts and not framework.has_foreign_columns and _resources_are_first(framework) else None


def _resources_are_first(framework: Framework) -> bool:
    """Report whether NodeResourcesFit runs before all filters that read Pods, except NodePorts."""
    names = (plugin.name for plugin in framework.column_plugins)
    return next((name for name in names if name != NodePorts.name), "") == NodeResourcesFit.name


def has_constraints(spec: PodSpec, framework: Framework) -> bool:
    """Report whether filters after NodeResourcesFit, besides those by demands, may reject nodes for a Pod with this
    spec and any labels.
    """
    affinity = spec.pod_affinity
    if affinity.required_affinity or affinity.required_anti_affinity or spec.has_storage:
        return True
    spread = framework.profile.args.get(PodTopologySpread.name)
    defaults = () if spread is None or spread.defaulting_type == SYSTEM_DEFAULTING else spread.default_constraints
    return any(each.when_unsatisfiable == DO_NOT_SCHEDULE for each in spec.topology_spread or defaults)


def _reached(snapshot: Snapshot, pod: Pod, cycle: Cycle, nodes: int) -> NDArray[np.bool_]:
    """Return [node], bool: whether the Pod's bound volumes can be mounted there."""
    reached = np.ones(nodes, np.bool_)
    if all(claim is None or claim.fully_bound for claim in _claims_of(snapshot, pod)):
        for plugin in {VolumeBinding.name, VolumeZone.name}.intersection(cycle.node_fit.rejections):
            reached &= cycle.node_fit.rejections[plugin].codes < 0
    return reached


def _claims_of(snapshot: Snapshot, pod: Pod) -> Iterator[PersistentVolumeClaim | None]:
    """Yield the PersistentVolumeClaims that a Pod names; None for a missing one."""
    claims = snapshot.objects.claims
    return (claims.get((pod.namespace, v.claim_name)) for v in pod.spec.volumes if v.claim_name is not None)


def storage_of(snapshot: Snapshot, pod: Pod) -> list[object]:
    """Return each PersistentVolumeClaim of a Pod and its PersistentVolume; None for missing ones."""
    volumes = snapshot.objects.volumes
    return [
        each for claim in _claims_of(snapshot, pod) for each in (claim, claim and volumes.get(("", claim.volume_name)))
    ]
