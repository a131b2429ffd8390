"""Predict an in-place resize of Pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.cluster.answer_head import head_of
from forewarn.policies.controllers.own_pods import pods_of
from forewarn.policies.objects.fields import InvalidInput, group_kind
from forewarn.policies.sources import SourceError
from forewarn.policies.whatif.questions import pod_not_found, scaled
from forewarn.policies.whatif.resize import GATE, Wanted
from forewarn.policies.whatif.resize import resize as results_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forewarn.policies.cluster.answer_head import AnswerHead
    from forewarn.policies.whatif.resize import Resized, StoredPods

_POD: Final = ("pod", "pods", "po")
_NOT_CHECKED: Final = "ResourceQuotas, LimitRanges and resizes that are already pending are not evaluated"


@dataclass(frozen=True, slots=True)
class ResizeRequest:
    """A Pod or workload (`KIND/NAME`), and the new resources of a container, or of all containers.

    `preempts`: true if the feature gate InPlacePodVerticalScalingSchedulerPreemption is on.
    """

    name: str
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    container: str = ""
    namespace: str = "default"
    preempts: bool = False


@dataclass(frozen=True, slots=True)
class ResizeResult:
    """The result for each Pod, in the order in which the kubelet evaluates resizes."""

    head: AnswerHead
    pods: Sequence[Resized]
    preempts: bool
    notes: Sequence[str] = (_NOT_CHECKED,)

    def to_dict(self) -> dict[str, Any]:
        """The JSON document of `-o json`."""
        pods = [pod.to_dict(preempts=self.preempts) for pod in self.pods]
        return {"head": self.head.to_dict(), "pods": pods, "notes": list(self.notes)}


def resize(pods: StoredPods, request: ResizeRequest) -> ResizeResult:
    """Predict a resize; changes `pods`. Raises SourceError, InvalidInput and InvalidObject."""
    semantics = pods.cache.semantics
    if semantics.unknown:
        raise SourceError("--kubernetes-version", semantics.unknown)
    if request.preempts and not semantics.resizes_can_preempt:
        raise SourceError("--feature-gates", f"{GATE} came with Kubernetes 1.37")
    wanted = Wanted(request.container, request.requests, request.limits)
    results = list(results_of(pods, _names(request, pods), wanted, preempts=request.preempts))
    return ResizeResult(head_of(pods.cache.snapshot()), results, request.preempts)


def _names(request: ResizeRequest, pods: StoredPods) -> list[str]:
    """Return the names of the Pods to resize: of the named Pod, or of a workload's Pods."""
    kind, slash, name = request.name.rpartition("/")
    cluster = pods.cache.snapshot()
    if not slash or kind.lower() in _POD:
        if name not in pods.stored:
            raise InvalidInput(f"{request.namespace}/{name}: {pod_not_found(cluster, request.namespace, name)}")
        return [name]
    (arrival,) = scaled(cluster, request.name, 0, request.namespace).arrivals
    stored = cluster.workload(group_kind(arrival.object), request.namespace, name)
    assert stored is not None
    names = sorted(pod.name for pod in pods_of(cluster, stored.object) if pod.name in pods.stored)
    if not names:
        raise SourceError(request.name, "has no Pods")
    return names
