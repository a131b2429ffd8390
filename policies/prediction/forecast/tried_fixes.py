"""Fixes of a Pending Pod. Those that edit the Pod are tried before they are proposed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.metering import CutShort, charging, check_time
from forewarn.policies.kubernetes.objects.node import Toleration
from forewarn.policies.kubernetes.objects.node_selector import NodeAffinity
from forewarn.policies.kubernetes.objects.priority_class import PREEMPT_NEVER
from forewarn.policies.kubernetes.scheduling.plugins import inter_pod_affinity, node_affinity, pod_topology_spread
from forewarn.policies.kubernetes.scheduling.plugins.taint_toleration import ADD_TOLERATION
from forewarn.policies.kubernetes.scheduling.reasons import LOWER_REQUESTS, Reason
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.pod import PodSpec

OF_KUBERNETES: Final = "node.kubernetes.io/"
"""The prefix of taints that stand for a condition of the node, such as not-ready."""
_UNITS_PER_NODE: Final = 2


def with_tried_fixes(examples: Sequence[tuple[Reason, Prediction]], instead: Mapping[str, str]) -> list[Reason]:
    """Return reasons without edits of the Pod that do not help: with them, it still does not fit without preemption.

    Without any edit if time runs out. `examples`: each reason with a prediction. `instead`: fix -> text to use instead,
    which is no edit of the Pod.
    """

    def kept(helps: Callable[[Prediction, str], bool]) -> list[Reason]:
        return [
            reason.with_fixes(*(instead.get(fix, fix) for fix in reason.fixes if fix in instead or helps(example, fix)))
            for reason, example in examples
        ]

    try:
        return kept(cache(_helps))
    except CutShort:
        return kept(lambda _, fix: fix not in _EDITS)


def _helps(prediction: Prediction, fix: str) -> bool:
    if fix not in _EDITS:
        return True
    check_time()
    pod, snapshot = prediction.pod, prediction.snapshot
    if fix == LOWER_REQUESTS:  # of all Pods of the template
        infos = charging(snapshot.node_infos, _UNITS_PER_NODE)
        alike = [other for info in infos for other in info.pods if other.spec is pod.spec]
        snapshot = snapshot.with_pods((), alike)
    edited = replace(pod, spec=_EDITS[fix](prediction), preemption_policy=PREEMPT_NEVER)
    return Prediction(snapshot, edited).outcome == "fits"


def _tolerating(prediction: Prediction) -> PodSpec:
    spec, taints = prediction.pod.spec, {taint for info in prediction.snapshot.node_infos for taint in info.node.taints}
    more = {Toleration(t.key, "Exists", "", t.effect) for t in taints if not t.key.startswith(OF_KUBERNETES)}
    return replace(spec, tolerations=(*spec.tolerations, *sorted(more)))


def _on_any_node(prediction: Prediction) -> PodSpec:
    spec = prediction.pod.spec
    return spec if spec.node_affinity.only_node else replace(spec, node_affinity=NodeAffinity())


def _without_affinity(prediction: Prediction) -> PodSpec:
    spec = prediction.pod.spec
    return replace(spec, pod_affinity=replace(spec.pod_affinity, required_affinity=()))


def _without_anti_affinity(prediction: Prediction) -> PodSpec:
    spec = prediction.pod.spec
    affinity = replace(spec.pod_affinity, required_anti_affinity=(), has_required_anti_affinity=False)
    return replace(spec, pod_affinity=affinity)


def _with_least_requests(prediction: Prediction) -> PodSpec:
    """Return the spec with one unit of each resource that the Pod requests."""
    spec, request = prediction.pod.spec, prediction.pod.spec.request
    least = request._replace(
        milli_cpu=min(request.milli_cpu, 1),
        memory=min(request.memory, 1),
        ephemeral_storage=min(request.ephemeral_storage, 1),
        scalars={name: min(amount, 1) for name, amount in request.scalars.items()},
    )
    return replace(spec, request=least)


_EDITS: Final[Mapping[str, Callable[[Prediction], PodSpec]]] = {
    ADD_TOLERATION: _tolerating,
    node_affinity.CHANGE: _on_any_node,
    inter_pod_affinity.CHANGE: _without_affinity,
    inter_pod_affinity.CHANGE_ANTI: _without_anti_affinity,
    pod_topology_spread.CHANGE: lambda prediction: replace(prediction.pod.spec, topology_spread=()),
    LOWER_REQUESTS: _with_least_requests,
}
"""Fix -> the spec of the Pod after the most that the fix can mean."""
