"""A request as the API server has it once its object is decoded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from policies import kinds
from policies.kube_apiserver.dry_run.answer import Refused
from policies.kube_apiserver.validation.decode import decode_fault
from policies.kube_apiserver.validation.field_errors import FieldError, aggregate, go_quote
from policies.kube_apiserver.validation.names import worded
from policies.kube_apiserver.validation.schema import POD_STRUCT, PRIORITY_CLASS_STRUCT, RESOURCE_QUOTA_STRUCT, Struct
from policies.kube_apiserver.validation.strict import strict_error
from policies.objects.fields import NOTHING, at, group_kind
from policies.objects.reviewed_object import Operation

if TYPE_CHECKING:
    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject
    from policies.objects.resource_quota import ResourceQuota
    from policies.objects.reviewed_object import ReviewedObject
    from policies.options import Options

_GENERATED: Final = "xxxxx"
_LONGEST_PREFIX: Final = 58


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind that is judged, under its names in the API server's texts."""

    struct: Struct
    api_version: str
    resource: str
    kind: str
    namespaced: bool = True


PODS: Final = Kind(POD_STRUCT, "v1", "pods", "Pod")
QUOTAS: Final = Kind(RESOURCE_QUOTA_STRUCT, "v1", "resourcequotas", "ResourceQuota")
CLASSES: Final = Kind(
    PRIORITY_CLASS_STRUCT,
    "scheduling.k8s.io/v1",
    "priorityclasses.scheduling.k8s.io",
    "PriorityClass.scheduling.k8s.io",
    namespaced=False,
)
_KINDS: Final = {kinds.POD: PODS, kinds.RESOURCE_QUOTA: QUOTAS, kinds.PRIORITY_CLASS: CLASSES}


def kind_of(obj: ApiObject) -> Kind | None:
    """The kind of an object, None where it is not judged."""
    return _KINDS.get(group_kind(obj))


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """A request whose object decodes. `obj` has its namespace and its name, generated if need be.

    `given_name`: what the Priority plugin's refusals call the object, for it runs before a name is generated.
    """

    kind: Kind
    obj: ApiObject
    old: ApiObject | None
    name: str
    given_name: str
    namespace: str
    cluster: ClusterSnapshot
    options: Options
    now: float

    @property
    def is_update(self) -> bool:
        """Whether something is replaced."""
        return self.old is not None

    @property
    def quotas(self) -> list[ResourceQuota]:
        """The quotas of its namespace, by name."""
        return self.cluster.quotas_of(self.namespace)

    def forbid(self, problem: str, name: str = "") -> Refused:
        """The refusal of an admission plugin (`admission.NewForbidden`)."""
        return Refused(403, f"{self.kind.resource} {go_quote(name or self.name)} is forbidden: {problem}")

    def check(self, errors: list[FieldError]) -> None:
        """Raises Refused if there are faults (`errors.NewInvalid`)."""
        if errors:
            errors = [replace(error, text=worded(error.text, self.options.minor)) for error in errors]
            message = f"{self.kind.kind} {go_quote(self.name)} is invalid: {aggregate(errors)}"
            raise Refused(422, message, errors)


def decode(
    kind: Kind, subject: ReviewedObject, cluster: ClusterSnapshot, options: Options, now: float, *, strict: bool = False
) -> DecodedRequest:
    """Read a request. Raises Refused where its object cannot be decoded, or there is nothing to update."""
    obj = subject.object
    plain = kind.struct.name
    if obj.get("apiVersion") != kind.api_version:
        raise Refused(404, f"no matches for kind {go_quote(plain)} in version {go_quote(str(obj.get('apiVersion')))}")
    fault = decode_fault(obj, kind.struct)
    if fault:
        raise Refused(400, f'{plain} in version "v1" cannot be handled as a {plain}: {fault.text}')
    if strict:
        check_fields(subject, options.minor)
    metadata: ApiObject = obj.get("metadata") or NOTHING
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    namespace = (metadata.get("namespace") or subject.namespace or kinds.DEFAULT_NAMESPACE) if kind.namespaced else ""
    old, given_name = None, name or prefix or "Unknown"
    if subject.operation is Operation.UPDATE:
        old = _old(kind, subject, cluster, name, namespace)
    elif prefix and not name:
        name = f"{prefix[:_LONGEST_PREFIX]}{_GENERATED}"
    completed = {**obj, "metadata": {**metadata, "name": name, "namespace": namespace}}
    return DecodedRequest(kind, completed, old, name, given_name, namespace, cluster, options, now)


def check_fields(subject: ReviewedObject, minor: int | None) -> None:
    """Raises Refused where there are fields that its kind does not have. Source: handlers/create.go and patch.go."""
    error = strict_error(subject.object, minor)
    if error and subject.operation is Operation.UPDATE:
        raise Refused(422, f' "" is invalid: patch: Invalid value: "map[...]": {error}')
    if error:
        kind, version = subject.object["kind"], subject.object["apiVersion"].rpartition("/")[2]
        raise Refused(400, f"{kind} in version {go_quote(version)} cannot be handled as a {kind}: {error}")


def _old(kind: Kind, subject: ReviewedObject, cluster: ClusterSnapshot, name: str, namespace: str) -> ApiObject:
    old = subject.old if subject.old is not None else _in_cluster(kind, cluster, name, namespace)
    if old is None:
        raise Refused(404, f"{kind.resource} {go_quote(name)} not found")
    fault = decode_fault(old, kind.struct)
    if fault:
        raise Refused(400, f"the old object cannot be read: {fault}")
    old_name = at(old, "metadata", "name") or ""
    if not name:
        problem = f"the name of the object ({old_name} based on URL) was undeterminable: name must be provided"
        raise Refused(400, problem)
    if name != old_name:
        raise Refused(400, f"the name of the object ({name}) does not match the name on the URL ({old_name})")
    if kind is PODS and not at(old, "spec", "containers"):
        # Only its priority is known: the rest counts as unchanged.
        known = {key: at(old, "spec", key) for key in ("priorityClassName", "priority", "preemptionPolicy")}
        return {**subject.object, "spec": {**(subject.object.get("spec") or NOTHING), **known}}
    return old


def _in_cluster(kind: Kind, cluster: ClusterSnapshot, name: str, namespace: str) -> ApiObject | None:
    """What is known of the stored object."""
    if kind is CLASSES:
        found = cluster.priority_classes.get(name)
        return None if found is None else found.to_api()
    if kind is QUOTAS:
        quota = cluster.resource_quotas.get((namespace, name))
        return None if quota is None else quota.to_api()
    pod = cluster.pods.get((namespace, name))
    return None if pod is None else pod.to_api()
