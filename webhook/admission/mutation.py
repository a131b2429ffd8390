"""The patch of `/mutate`: fields of Pods that the Priority plugin did not set, and the default class of a namespace.

The Priority plugin runs before webhooks, and again after an effective patch. Therefore the patch sets the name of the
class and removes the values of the old class: the plugin then reads the new values from the API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kinds.registry import POD
from forewarn.policies.kube_apiserver.priority import (
    Forbidden,
    Resolved,
    class_by_namespace,
    establish_priority,
    resolved_spec,
)
from forewarn.policies.objects.fields import at, string_map, text
from forewarn.policies.objects.pod import MIRROR_ANNOTATION
from forewarn.policies.objects.reviewed_object import Operation
from forewarn.webhook.admission.json_patch import PatchOperation, drop, set_value

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.webhook.admission.review import AdmissionRequest

NODE_USER_PREFIX: Final = "system:node:"
NODES_GROUP: Final = "system:nodes"
CLASS: Final = ("spec", "priorityClassName")
PRIORITY: Final = ("spec", "priority")
POLICY: Final = ("spec", "preemptionPolicy")


class Mutation(NamedTuple):
    """The patch of a Pod.

    `assigned`: the namespace's default class, if the patch assigns it. `missing`: the default class if it does not
    exist.
    """

    patch: tuple[PatchOperation, ...] = ()
    assigned: str = ""
    missing: str = ""


NO_MUTATION: Final = Mutation()


def mutate(request: AdmissionRequest, cluster: ClusterSnapshot | None, *, assign: bool = True) -> Mutation:
    """The patch for a new Pod; an empty one for other requests. Raises InvalidObject.

    `assign`: false to never assign the default class of the namespace.
    """
    if cluster is None or request.operation is not Operation.CREATE or request.kind.group_kind != POD:
        return NO_MUTATION
    wanted = _class_by_policy(request, cluster) if assign else ""
    if wanted and wanted not in cluster.priority_classes:
        return Mutation(_fill_in(request.object, text(request.object, *CLASS), cluster), missing=wanted)
    if not wanted:
        return Mutation(_fill_in(request.object, text(request.object, *CLASS), cluster))
    if at(request.object, *PRIORITY) is None:
        return Mutation(_fill_in(request.object, wanted, cluster), assigned=wanted)
    return Mutation(_assign(request.object, wanted), assigned=wanted)


def _class_by_policy(request: AdmissionRequest, cluster: ClusterSnapshot) -> str:
    """Return the default class of the namespace for a Pod without a class (or with the global default, which the
    Priority plugin sets); "" for other Pods.
    """
    if _is_mirror(request):
        return ""
    namespace = cluster.namespace(request.namespace)
    return class_by_namespace(text(request.object, *CLASS), namespace, cluster.priority_classes)


def _is_mirror(request: AdmissionRequest) -> bool:
    """Report whether the Pod is the mirror Pod of a static Pod: users may write the annotation, but only nodes create
    mirror Pods.

    Source: plugin/pkg/admission/noderestriction, and pkg/auth/nodeidentifier/default.go.
    """
    by_node = request.user.name.startswith(NODE_USER_PREFIX) and NODES_GROUP in request.user.groups
    return by_node and MIRROR_ANNOTATION in string_map(request.object, "metadata", "annotations")


def with_class(pod: ApiObject, class_name: str, cluster: ClusterSnapshot) -> ApiObject:
    """The Pod as the API server stores it with this class, including the priority.

    Raises Forbidden for an unknown class.
    """
    spec = pod.get("spec")
    return {**pod, "spec": resolved_spec(spec if isinstance(spec, dict) else {}, _resolve(class_name, cluster))}


def _resolve(class_name: str, cluster: ClusterSnapshot) -> Resolved:
    return establish_priority(class_name, cluster.priority_classes)


def _assign(pod: ApiObject, wanted: str) -> tuple[PatchOperation, ...]:
    return (set_value(pod, CLASS, wanted), *drop(pod, PRIORITY), *drop(pod, POLICY))


def _fill_in(pod: ApiObject, class_name: str, cluster: ClusterSnapshot) -> tuple[PatchOperation, ...]:
    """Return the patch with the fields that the Priority plugin sets, if the plugin did not run; empty for an unknown
    class, which `/validate` reports.
    """
    if at(pod, *PRIORITY) is not None:
        return ()
    try:
        resolved = _resolve(class_name, cluster)
    except Forbidden:
        return ()
    values = {CLASS: resolved.priority_class_name, PRIORITY: resolved.priority, POLICY: resolved.preemption_policy}
    if not isinstance(pod.get("spec"), dict):
        spec = {path[-1]: value for path, value in values.items() if value != ""}
        return (set_value(pod, ("spec",), spec),)
    absent = at(pod, *POLICY) is None
    return tuple(
        set_value(pod, path, value)
        for path, value in values.items()
        if value != (at(pod, *path) or "") and (path != POLICY or absent)
    )
