"""The pods that a workload would bring, placed one after the other, each seeing those before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from policies.cluster import resolved
from policies.objects.fields import InvalidObject, at, group_kind, int32, ref_of
from policies.objects.pod import Owner, Pod
from policies.objects.workload import pod_template_of
from policies.options import POD_TEMPLATE_PATHS
from policies.selectors import InvalidSelector, LabelSelector, Requirement, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject
    from policies.scheduling.schedule_one import Prediction

IN_TURN: Final = (
    "pods are placed one after the other: one that fits is bound to the first of the tied nodes by name, "
    "after a preemption the victims are gone and the pod is bound"
)


@dataclass(frozen=True, slots=True)
class Placement:
    """What an object's new pods come to, in order. `wanted`: replicas asked for, `existing`: pods there already."""

    name: str
    predictions: tuple[Prediction, ...]
    wanted: int = 1
    existing: int = 0

    @property
    def standing(self) -> tuple[str, ...]:
        """What the placement of several pods rests on, beside what each prediction says."""
        return (IN_TURN,) if len(self.predictions) > 1 else ()


def place(cluster: ClusterSnapshot, obj: ApiObject, replicas: int | None = None) -> Placement:
    """Where the pods would go that a pod or workload would bring; `replicas` stands in for its own number.

    Raises InvalidObject: a template that cannot be read, a class that does not exist, a kind without replicas.
    """
    ref = ref_of(obj, "default")
    template = pod_template_of(obj, POD_TEMPLATE_PATHS)
    if template is None:
        raise InvalidObject("there is no pod template in it", ref=ref)
    if not template.is_template:
        return Placement(str(ref), place_pods(cluster, [resolved(Pod.from_api(obj), cluster)] * (replicas or 1)))
    if group_kind(obj) == "apps/DaemonSet":
        raise InvalidObject("a DaemonSet brings one pod for every node; this is not predicted", ref=ref)
    wanted = replicas if replicas is not None else _replicas(obj)
    existing = sum(1 for _ in pods_of(cluster, obj))
    pods = [_pod(obj, template.object, cluster, number) for number in range(existing, wanted)]
    return Placement(str(ref), place_pods(cluster, pods), wanted, min(existing, wanted))


def place_pods(cluster: ClusterSnapshot, pods: Iterable[Pod]) -> tuple[Prediction, ...]:
    """Predict pods one after the other; each sees those before it in their places, and their victims gone."""
    from policies.scheduling.schedule_one import schedule_in_turn

    return tuple(schedule_in_turn(cluster.scheduling, pods))


def pods_of(cluster: ClusterSnapshot, obj: ApiObject) -> list[Pod]:
    """The pods that a workload has already: by owner, else by selector."""
    ref = ref_of(obj, "default")
    owners = _owners(cluster, obj)
    pods = [p for p in cluster.pods.values() if p.namespace == ref.namespace and not p.terminal and not p.terminating]
    owned = [p for p in pods if p.owner is not None and (p.owner.kind, p.owner.name) in owners]
    if owned or not (selector := _selector(obj)).requirements:
        return owned
    return [p for p in pods if selector.matches(p.labels)]


def _owners(cluster: ClusterSnapshot, obj: ApiObject) -> set[tuple[str, str]]:
    """(kind, name) of what owns its pods: itself, and a Deployment's ReplicaSets or a CronJob's Jobs."""
    ref = ref_of(obj, "default")
    owners = {(ref.kind, ref.name)}
    for (_, namespace, name), workload in cluster.workloads.items():
        if namespace == ref.namespace:
            owner = Owner.from_api(workload.object)
            if owner is not None and (owner.kind, owner.name) == (ref.kind, ref.name):
                owners.add((workload.ref.kind, name))
    return owners


def _replicas(obj: ApiObject) -> int:
    """How many pods run at a time; one where the object does not say."""
    kind = group_kind(obj)
    paths: dict[str, tuple[str, ...]] = {
        "batch/Job": ("spec", "parallelism"),
        "batch/CronJob": ("spec", "jobTemplate", "spec", "parallelism"),
    }
    number = int32(obj, *paths.get(kind, ("spec", "replicas")))
    return 1 if number is None else max(number, 0)


def _selector(obj: ApiObject) -> LabelSelector:
    selector: Any = at(obj, "spec", "selector")
    if group_kind(obj) == "/ReplicationController":
        return LabelSelector(tuple(Requirement(k, "In", frozenset([v])) for k, v in (selector or {}).items()))
    try:
        return parse_label_selector(selector) or LabelSelector()
    except InvalidSelector as error:
        raise InvalidObject(str(error), ("spec", "selector"), ref_of(obj)) from None


def _pod(obj: ApiObject, template: ApiObject, cluster: ClusterSnapshot, number: int) -> Pod:
    """The pod of this number, as its controller would make it."""
    ref = ref_of(obj, "default")
    metadata: Mapping[str, Any] = {
        "namespace": ref.namespace,
        "name": f"{ref.name}-{number}",
        "labels": at(template, "metadata", "labels") or {},
        "annotations": at(template, "metadata", "annotations") or {},
        "ownerReferences": [{"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name, "controller": True}],
    }
    try:
        view = Pod.from_api(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": at(template, "spec") or {}}
        )
    except InvalidObject as error:
        path = POD_TEMPLATE_PATHS[group_kind(obj)]
        raise InvalidObject(error.problem, (*path, *error.path), ref) from None
    return resolved(view, cluster)


def outcomes(predictions: Sequence[Prediction]) -> dict[str, int]:
    """How many of them come to what, by `Prediction.outcome`."""
    counts: dict[str, int] = {}
    for prediction in predictions:
        counts[prediction.outcome] = counts.get(prediction.outcome, 0) + 1
    return counts
