"""A request in the API server after its object is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from forewarn.policies.dry_run.answer import RequestRejected
from forewarn.policies.kinds import registry as kinds
from forewarn.policies.kube_apiserver.priority import Forbidden
from forewarn.policies.kube_apiserver.validation.decode import decode_fault
from forewarn.policies.kube_apiserver.validation.field_errors import FieldError, aggregate, go_quote
from forewarn.policies.kube_apiserver.validation.names import worded
from forewarn.policies.kube_apiserver.validation.pod_group import GROUP_STRUCTS, GROUP_VERSIONS
from forewarn.policies.kube_apiserver.validation.schema import (
    POD_STRUCT,
    PRIORITY_CLASS_STRUCT,
    RESOURCE_QUOTA_STRUCT,
    Struct,
)
from forewarn.policies.kube_apiserver.validation.strict import strict_error
from forewarn.policies.objects.fields import NOTHING, at, group_kind
from forewarn.policies.objects.reviewed_object import Operation
from forewarn.policies.releases.semantics import Semantics

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resource_quota import ResourceQuota
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.options import Options

T = TypeVar("T")
_GENERATED: Final = "xxxxx"
_LONGEST_PREFIX: Final = 58


@dataclass(frozen=True, slots=True)
class Kind:
    """A modelled kind, with its names in kube-apiserver's messages.

    `minors`: the minor versions that serve this version of the kind; None for all.
    """

    struct: Struct
    api_version: str
    resource: str
    kind: str
    namespaced: bool = True
    minors: range | None = None

    @property
    def is_group(self) -> bool:
        """Whether the kind is PodGroup or Workload, which are served only with the feature gate GenericWorkload."""
        return self.minors is not None


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
_GROUPS: Final = {
    (version, kind): Kind(
        struct,
        version,
        f"{kinds.BY_GROUP_KIND[kind].plural}.{kinds.BY_GROUP_KIND[kind].group}",
        f"{struct.name}.{kinds.BY_GROUP_KIND[kind].group}",
        minors=GROUP_VERSIONS[version].minors,
    )
    for (version, kind), struct in GROUP_STRUCTS.items()
}


def kind_of(obj: ApiObject) -> Kind | None:
    """Return the kind of an object; None if not modelled. PodGroups and Workloads have a Kind for each version."""
    kind = group_kind(obj)
    return _KINDS.get(kind) or _GROUPS.get((str(obj.get("apiVersion")), kind))


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """A request with a decoded object. `obj` has its namespace, and a name, which may be generated.

    `given_name`: the name in messages of the Priority plugin, which runs before a name is generated.
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
        """True if the request replaces an object."""
        return self.old is not None

    @property
    def drops_scheduling_groups(self) -> bool:
        """True if kube-apiserver is known to drop `spec.schedulingGroup` from Pods (`dropDisabledSchedulingGroup`)."""
        minor = self.options.minor
        is_unknown = minor is not None and not Semantics(minor).pods_have_scheduling_groups
        return is_unknown or self.cluster.semantics.pods_are_grouped is False

    @property
    def quotas(self) -> list[ResourceQuota]:
        """The ResourceQuotas of the request's namespace, by name."""
        return self.cluster.quotas_of(self.namespace)

    def forbid(self, problem: str, name: str = "") -> RequestRejected:
        """The rejection by an admission plugin (`admission.NewForbidden`)."""
        return RequestRejected(403, f"{self.kind.resource} {go_quote(name or self.name)} is forbidden: {problem}")

    def admit(self, plugin: Callable[[], T]) -> T:
        """Return the result of `plugin`, the Priority plugin's mutation, which runs before a name is generated.

        Raises RequestRejected.
        """
        try:
            return plugin()
        except Forbidden as rejection:
            raise self.forbid(str(rejection), self.given_name) from None

    def check(self, errors: list[FieldError]) -> None:
        """Raise RequestRejected if there are errors (`errors.NewInvalid`)."""
        if errors:
            errors = [error._replace(text=worded(error.text, self.options.minor)) for error in errors]
            message = f"{self.kind.kind} {go_quote(self.name)} is invalid: {aggregate(errors)}"
            raise RequestRejected(422, message, errors)


def decode(
    kind: Kind, subject: ReviewedObject, cluster: ClusterSnapshot, options: Options, now: float, *, strict: bool = False
) -> DecodedRequest:
    """Decode a request. Raises RequestRejected if the object cannot be decoded, or the object to update does not
    exist.
    """
    obj = subject.object
    plain = kind.struct.name
    if obj.get("apiVersion") != kind.api_version or not _is_served(kind, cluster, options):
        message = f"no matches for kind {go_quote(plain)} in version {go_quote(str(obj.get('apiVersion')))}"
        raise RequestRejected(404, message, is_unknown_kind=True)
    fault = decode_fault(obj, kind.struct)
    if fault:
        version = kind.api_version.rpartition("/")[2]
        raise RequestRejected(
            400, f"{plain} in version {go_quote(version)} cannot be handled as a {plain}: {fault.text}"
        )
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


def _is_served(kind: Kind, cluster: ClusterSnapshot, options: Options) -> bool:
    """True if kube-apiserver serves the kind, or if the version and the feature gate are unknown."""
    if kind.minors is None:
        return True
    is_known = options.minor is None or options.minor in kind.minors
    return is_known and cluster.semantics.pods_are_grouped is not False


def check_fields(subject: ReviewedObject, minor: int | None) -> None:
    """Raise RequestRejected if the object has fields that its kind does not define. Source: handlers/create.go and
    patch.go.
    """
    error = strict_error(subject.object, minor)
    if error and subject.operation is Operation.UPDATE:
        raise RequestRejected(422, f' "" is invalid: patch: Invalid value: "map[...]": {error}')
    if error:
        kind, version = subject.object["kind"], subject.object["apiVersion"].rpartition("/")[2]
        raise RequestRejected(400, f"{kind} in version {go_quote(version)} cannot be handled as a {kind}: {error}")


def _old(kind: Kind, subject: ReviewedObject, cluster: ClusterSnapshot, name: str, namespace: str) -> ApiObject:
    old = subject.old if subject.old is not None else stored_of(kind, cluster, name, namespace)
    if old is None:
        raise RequestRejected(404, f"{kind.resource} {go_quote(name)} not found")
    fault = decode_fault(old, kind.struct)
    if fault:
        raise RequestRejected(400, f"the old object cannot be read: {fault}")
    old_name = at(old, "metadata", "name") or ""
    if not name:
        problem = f"the name of the object ({old_name} based on URL) was undeterminable: name must be provided"
        raise RequestRejected(400, problem)
    if name != old_name:
        raise RequestRejected(400, f"the name of the object ({name}) does not match the name on the URL ({old_name})")
    if kind is PODS and not at(old, "spec", "containers"):
        # Only its priority and its group are known: the rest counts as unchanged.
        known = {key: at(old, "spec", key) for key in ("priorityClassName", "priority", "preemptionPolicy")}
        known |= {key: value for key, value in (at(old, "spec") or {}).items() if key == "schedulingGroup"}
        return {**subject.object, "spec": {**(subject.object.get("spec") or NOTHING), **known}}
    return old


def stored_of(kind: Kind, cluster: ClusterSnapshot, name: str, namespace: str) -> ApiObject | None:
    """Return the stored object as an API object; None if unknown."""
    if kind is CLASSES:
        found = cluster.priority_classes.get(name)
        return None if found is None else found.to_api()
    if kind is QUOTAS:
        quota = cluster.resource_quotas.get((namespace, name))
        return None if quota is None else quota.to_api()
    if kind.is_group:
        groups = cluster.objects.pod_groups if kind.struct.name == "PodGroup" else cluster.objects.group_templates
        group = groups.get((namespace, name))
        return None if group is None else group.to_api()
    pod = cluster.pods.get((namespace, name))
    return None if pod is None else pod.to_api()
