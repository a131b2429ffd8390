"""The direction of a request (allow, evaluate, look up), chosen before its object is read.

The rows are the table in docs/internals/failure-modes.md.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.kinds.registry import BY_GROUP_KIND, CONTROLLER_REVISION, NAMESPACE, plurals
from forewarn.policies.metering import TooLarge
from forewarn.policies.objects.fields import NOTHING, at
from forewarn.policies.objects.namespace import DEFAULT_CLASS_ANNOTATION, EXEMPT_UNTIL_ANNOTATION, Namespace
from forewarn.policies.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.rules.support.allowed_classes import CONTROLLERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.webhook.admission.review import AdmissionRequest


class Direction(Enum):
    """The next step for a request."""

    PASS = "pass"
    """Allow the request without reading its object."""
    EVALUATE = "evaluate"
    """Evaluate the object in the request."""
    LOOK_UP = "look up"
    """Evaluate another object: the stored workload of a `scale` object, the Pod template of a ControllerRevision."""


class DirectionRow(NamedTuple):
    """One row of docs/internals/failure-modes.md."""

    id: str
    applies: Callable[[AdmissionRequest, Config], bool]
    direction: Direction


_EVALUATED: Final = frozenset(spec.group_kind for spec in BY_GROUP_KIND.values() if spec.is_evaluated)


def is_evaluated(request: AdmissionRequest, config: Config) -> bool:
    """True if a rule exists for the object's kind."""
    kind = request.kind.group_kind
    return kind in _EVALUATED or kind == CONTROLLER_REVISION or kind in config.options.pod_template_paths


def _changes_a_namespace(request: AdmissionRequest) -> bool:
    """True if a subresource request changes forewarn's annotations of a Namespace.

    The subresources `status` and `finalize` also store metadata. Source: pkg/registry/core/namespace/strategy.go.
    """
    if request.kind.group_kind != NAMESPACE or request.subresource not in ("status", "finalize"):
        return False
    new, old = (
        [
            at(obj or NOTHING, "metadata", "annotations", key)
            for key in (DEFAULT_CLASS_ANNOTATION, EXEMPT_UNTIL_ANNOTATION)
        ]
        for obj in (request.object, request.old)
    )
    return new != old


def _is_scale(request: AdmissionRequest) -> bool:
    return request.subresource == "scale" and request.operation is not Operation.CONNECT


def _is_revision(request: AdmissionRequest) -> bool:
    return request.kind.group_kind == CONTROLLER_REVISION


ROWS: Final = (
    DirectionRow("connect", lambda request, _: request.operation is Operation.CONNECT, Direction.PASS),
    DirectionRow("scale", lambda request, _: _is_scale(request), Direction.LOOK_UP),
    DirectionRow("namespace-subresource", lambda request, _: _changes_a_namespace(request), Direction.EVALUATE),
    DirectionRow("other-subresource", lambda request, _: bool(request.subresource), Direction.PASS),
    DirectionRow("unknown-kind", lambda request, config: not is_evaluated(request, config), Direction.PASS),
    DirectionRow("revision", lambda request, _: _is_revision(request), Direction.LOOK_UP),
    DirectionRow("delete-without-object", lambda request, _: not (request.object or request.old), Direction.PASS),
    DirectionRow("delete", lambda request, _: request.operation is Operation.DELETE, Direction.EVALUATE),
    DirectionRow("update", lambda request, _: request.operation is Operation.UPDATE, Direction.EVALUATE),
    DirectionRow("create", lambda _request, _config: True, Direction.EVALUATE),
)
"""The rows in order; the first row that applies to a request decides."""


def row_of(request: AdmissionRequest, config: Config) -> DirectionRow:
    """Return the first row of the table in docs/internals/failure-modes.md that applies to the request."""
    return next(row for row in ROWS if row.applies(request, config))


def exemption_of(
    request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config, now: datetime
) -> str | None:
    """Return the exemption why forewarn does not evaluate the request: "" without a named exemption, None if
    evaluated.
    """
    if row_of(request, config).direction is Direction.PASS:
        return ""
    return config.exemption(request.user, namespace_of(request, cluster), now) or None


def namespace_of(request: AdmissionRequest, cluster: ClusterSnapshot | None) -> Namespace | None:
    """Return the stored Namespace of the object; None for cluster-scoped objects.

    For a request about a Namespace, the result has no annotations: a request must not exempt itself.
    """
    if not request.namespace:
        return None
    namespace = cluster.namespace(request.namespace) if cluster else None
    namespace = namespace or Namespace(request.namespace, {}, {})
    return namespace._replace(annotations={}) if request.kind.group_kind == NAMESPACE else namespace


def subject_of(request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config) -> ReviewedObject | None:
    """The object to evaluate: the request's object, the workload of a `scale` request, or the Pod template of a
    ControllerRevision; None if unknown.
    """
    if _is_revision(request):
        return _template_in(request)
    return _scaled(request, cluster, config) if _is_scale(request) else request.subject


def _template_in(request: AdmissionRequest) -> ReviewedObject | None:
    """The Pod template in a new ControllerRevision, as a PodTemplate; None without one.

    None for requests of controllers, which copy templates that were admitted: a denial would stop the workload.
    """
    template = at(request.object, *_REVISED)
    if template is None or request.operation is not Operation.CREATE or request.user.name in CONTROLLERS:
        return None
    obj = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": request.object.get("metadata"), "template": template}
    return request.subject._replace(object=obj)


_REVISED: Final = ("data", "spec", "template")
_CLASS_PATH: Final = (*_REVISED[1:], "spec", "priorityClassName")


def misspelled_in(request: AdmissionRequest) -> str:
    """A key in the data of a ControllerRevision that differs only in case from one on the path to the class; "" if
    there is none.

    The StatefulSet controller would read it: it applies the data as a patch (`ApplyRevision`), and decodes the result
    with Go's encoding/json, which ignores case.
    """
    data = request.object.get("data") if _is_revision(request) else None
    for name in _CLASS_PATH:
        if not isinstance(data, dict):
            break
        for key in data:
            if key != name and key.casefold() == name.casefold():
                return str(key)
        data = data.get(name)
    return ""


def _scaled(request: AdmissionRequest, cluster: ClusterSnapshot | None, config: Config) -> ReviewedObject | None:
    """The stored workload of a `scale` request, with the requested replicas; None if the workload is unknown."""
    resource = request.resource
    for kind in config.options.pod_template_paths if cluster else ():
        group = kind.rpartition("/")[0]
        if group == resource.group and resource.resource in plurals(kind):
            assert cluster is not None
            workload = cluster.workload(kind, request.namespace, request.name)
            if workload is None:
                return None
            try:
                spec = {**(at(workload.object, "spec") or {}), "replicas": at(request.object, "spec", "replicas")}
            except TooLarge:  # The cache has no content of this object: each rule reports that it was not evaluated.
                return request.subject._replace(object=workload.object, old=None, subresource="")
            return request.subject._replace(
                object={**workload.object, "spec": spec}, old=workload.object, subresource=""
            )
    return None
