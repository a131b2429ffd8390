"""Whether later attempts of the Pods of one workload may have another result, because Pods of the same workload run, or
free quota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.metering import each
from forewarn.policies.scheduling.plugins.pod_topology_spread import DO_NOT_SCHEDULE, PodTopologySpread
from forewarn.policies.scheduling.plugins.pod_topology_spread_columns import HOSTNAME
from forewarn.policies.scheduling.responsible import framework_of

if TYPE_CHECKING:
    from forewarn.policies.forecast.impact import Impact
    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.snapshot import Snapshot


def depends_on_retries(impact: Impact, pod: Pod, snapshot: Snapshot) -> bool:
    """Report whether the first attempts of new Pods like `pod` may not decide the outcome of all of them.

    Pods that fit count for the next Pods at once. Pods that preempt count on their nominated node alone, and for all
    nodes when they run. Their victims free quota when they terminate.
    """
    preempting = impact.preempting
    if not preempting or impact.new == 1:
        return False
    if impact.rejected and any(victim.namespace == pod.namespace for p in preempting for victim in p.victims):
        return True
    return concerns_itself(pod, snapshot)


def concerns_itself(pod: Pod, snapshot: Snapshot) -> bool:
    """Report whether required constraints of a Pod are about Pods with its labels, beyond single nodes, or whether such
    Pods compete for devices, which no nomination reserves.
    """
    if pod.spec.claims_devices:
        return True
    affinity = pod.spec.pod_affinity
    apart = [term for term in each(affinity.required_anti_affinity) if term.topology_key != HOSTNAME]
    labels = snapshot.namespace_labels(pod.namespace)
    terms = (*affinity.required_affinity, *apart)
    if any(term.matches(pod.namespace, pod.namespace, pod.labels, labels) for term in each(terms)):
        return True
    framework = framework_of(snapshot, pod)
    if PodTopologySpread.name not in framework.profile.plugins:
        return False
    spread = framework.plugin(PodTopologySpread.name).constraints_of(pod, DO_NOT_SCHEDULE)
    return any(constraint.matches(pod.labels) for constraint in each(spread))
