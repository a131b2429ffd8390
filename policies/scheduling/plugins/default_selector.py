"""The selector of default topology spread constraints. Source: upstream `plugins/helper/spread.go`,
`DefaultSelector`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.objects.fields import at
from forewarn.policies.selectors import InvalidSelector, LabelSelector, Requirement, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.objects.pod import Pod
    from forewarn.policies.scheduling.cluster_objects import ClusterObjects

_GROUPS: Final = {"v1": "", "apps/v1": "apps"}


def default_selector(pod: Pod, objects: ClusterObjects) -> LabelSelector:
    """Return the combined selector of the Pod's Services and controller (ReplicationController, ReplicaSet,
    StatefulSet).
    """
    labels: dict[str, str] = {}
    for service in objects.services.values():
        if service.namespace == pod.namespace and service.matches(pod.labels):
            labels.update(service.selector or {})
    kind, selector = _of_controller(pod, objects)
    if kind == "/ReplicationController" and isinstance(selector, dict):
        labels.update(selector)
    more: tuple[Requirement, ...] = ()
    if kind in ("apps/ReplicaSet", "apps/StatefulSet"):
        try:
            parsed = parse_label_selector(selector)
        except InvalidSelector:
            parsed = None
        more = parsed.requirements if parsed else ()
    return LabelSelector((*_exactly(labels), *more))


def _exactly(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    return tuple(Requirement(key, "In", frozenset([value])) for key, value in labels.items())


def _of_controller(pod: Pod, objects: ClusterObjects) -> tuple[str, Any]:
    """Return the `group/Kind` of the Pod's controller and its `spec.selector`; ("", None) if it is unknown."""
    group = None if pod.owner is None else _GROUPS.get(pod.owner.api_version)
    if pod.owner is None or group is None:
        return "", None
    kind = f"{group}/{pod.owner.kind}"
    workload = objects.workloads.get((kind, pod.namespace, pod.owner.name))
    return ("", None) if workload is None else (kind, at(workload.object, "spec", "selector"))
