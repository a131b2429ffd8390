"""One scheduling cycle for one case, in the form of the recorded answers."""

from typing import Any

from tests.policies.scheduling.reference.framework import CannotAnswer, Cycle, Plugin
from tests.policies.scheduling.reference.node_info import Cluster, NodeInfo, PodInfo
from tests.policies.scheduling.reference.objects import Obj, Status, status, unresolvable
from tests.policies.scheduling.reference.plugins.inter_pod_affinity import InterPodAffinity
from tests.policies.scheduling.reference.plugins.node import (
    ImageLocality,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeUnschedulable,
    TaintToleration,
)
from tests.policies.scheduling.reference.plugins.resources import (
    DynamicResources,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
)
from tests.policies.scheduling.reference.plugins.spread import PodTopologySpread
from tests.policies.scheduling.reference.plugins.volume_binding import VolumeBinding
from tests.policies.scheduling.reference.plugins.volumes import NodeVolumeLimits, VolumeRestrictions, VolumeZone
from tests.policies.scheduling.reference.preemption import dry_run, pick_one_node, why_not_eligible

# The default profile, in the order of getDefaultPlugins.
PLUGINS: tuple[type[Plugin], ...] = (
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    NodeDeclaredFeatures,
)


def _described(found: Status) -> dict[str, Any]:
    described: dict[str, Any] = {"code": found.code}
    if found.plugin:
        described["plugin"] = found.plugin
    return {**described, "reasons": list(found.reasons)}


def _filter(cycle: Cycle, result: dict[str, Any]) -> tuple[list[NodeInfo], dict[str, Status]]:
    """findNodesThatFitPod without the stop at enough nodes."""
    why, names, plugins = cycle.run_pre_filter()
    nodes = cycle.cluster.nodes
    if not why.ok:
        result["preFilter"] = _described(why)
        return [], {node.name: why for node in nodes}
    feasible, statuses = [], {}
    for node in nodes:
        if names is not None and node.name not in names:
            statuses[node.name] = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}]")
            continue
        why = cycle.run_filter_with_nominated_pods(node)
        if why.code == "Error":
            raise CannotAnswer(f"filter on {node.name}: {why.reasons}")
        if why.ok:
            feasible.append(node)
        else:
            statuses[node.name] = why
    if statuses:
        result["statuses"] = {name: _described(why) for name, why in statuses.items()}
    return feasible, statuses


def answer(case: Obj) -> dict[str, Any]:
    """What kube-scheduler would do with case["pod"]; CannotAnswer where its cycle would fail."""
    cluster = Cluster.of(case)
    cycle = Cycle(cluster, PodInfo(case["pod"]), [plugin(cluster) for plugin in PLUGINS])
    result: dict[str, Any] = {"id": case.get("id", "")}
    feasible, statuses = _filter(cycle, result)
    result["feasible"] = [node.name for node in feasible]
    nominated = status(case["pod"]).get("nominatedNodeName") or ""
    reason = why_not_eligible(cycle, statuses.get(nominated, unresolvable()))
    result.update(eligible=reason is None, candidates={}, selected=[])
    if reason is not None:
        result["ineligibleReason"] = reason
    if len(feasible) == 1:
        result["selected"] = result["feasible"]
    elif feasible:
        scores = cycle.run_score(feasible)
        result["scores"] = scores
        best = max(row["total"] for row in scores.values())
        result["selected"] = sorted(name for name, row in scores.items() if row["total"] == best)
    elif reason is None:
        _preempt(cycle, statuses, result)
    return result


def _preempt(cycle: Cycle, statuses: dict[str, Status], result: dict[str, Any]) -> None:
    potential = [n for n in cycle.cluster.nodes if n.name in statuses and statuses[n.name].code == "Unschedulable"]
    candidates, dropped = dry_run(cycle, potential)
    result["candidates"] = {
        name: {"victims": [pod.key for pod in c.victims], "pdbViolations": c.violations}
        for name, c in candidates.items()
    }
    if dropped:
        result["dryRunStatuses"] = {name: _described(why) for name, why in dropped.items()}
    result["selected"] = pick_one_node(candidates)
