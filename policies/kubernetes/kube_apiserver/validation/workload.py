"""Validation of an update of a workload (`ValidateStatefulSetUpdate` and similar functions in pkg/apis/apps/validation,
`ValidateJobSpecUpdate` in pkg/apis/batch/validation), limited to immutable fields.

Two workloads are compared after defaulting (defaults.go in pkg/apis/core/v1, apps/v1 and batch/v1). Fields that
redaction removes from a cluster snapshot are not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.kinds.registry import DAEMON_SET, DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import FieldError
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    InvalidObject,
    at,
    boolean,
    group_kind,
    int32,
    items,
    mapping,
)
from forewarn.policies.kubernetes.objects.workload import OF_QUANTITIES, contains

if TYPE_CHECKING:
    from forewarn.policies.base.findings import ObjectRef, Path
    from forewarn.policies.kubernetes.releases.semantics import Semantics

IMMUTABLE: Final = "field is immutable"
_IMMUTABLE_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys((DEPLOYMENT, DAEMON_SET, REPLICA_SET), ("selector",)),
    STATEFUL_SET: ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"),
}
_DEFAULTS: Final[Mapping[str, object]] = {
    "completionMode": "NonIndexed",
    "status": "True",  # of onPodConditions
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "hostNetwork": False,
    "hostPID": False,
    "hostIPC": False,
    "schedulerName": "default-scheduler",
    "spec.terminationGracePeriodSeconds": 30,  # that of a probe has no default
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "stdin": False,
    "stdinOnce": False,
    "tty": False,
    "readOnly": False,
    "protocol": "TCP",
    "scheme": "HTTP",
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    "initialDelaySeconds": 0,
    "defaultMode": 0o644,
    "apiVersion": "v1",  # of fieldRef
    "divisor": "0",
    "path": "/",  # of httpGet
    "expirationSeconds": 3600,
    "iscsiInterface": "default",
    "azureDisk.cachingMode": "ReadWrite",
    "azureDisk.fsType": "ext4",
    "azureDisk.kind": "Shared",
    "rbd.pool": "rbd",
    "rbd.user": "admin",
    "rbd.keyring": "/etc/ceph/keyring",
    "scaleIO.storageMode": "ThinProvisioned",
    "scaleIO.fsType": "xfs",
    "fileKeyRef.optional": False,
    "volumeMode": "Filesystem",
    "podManagementPolicy": "OrderedReady",
    "spec.restartPolicy": "Always",  # that of a container has no default
    ".kind": "PersistentVolumeClaim",  # of volumeClaimTemplates
    "status.phase": "Pending",
}
"""The defaults of fields of a workload's spec, by field name, or by names of struct ("" in a list) and field."""
_OF_USERS: Final = ("labels", "annotations", "nodeSelector", "matchLabels")
"""Fields whose keys are chosen by users, and which have no defaults."""
_OF_JOB: Final = (
    "completions",
    "completionMode",
    "selector",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_COMPLETIONS: Final = ("spec", "completions")
_PARALLELISM: Final = ("spec", "parallelism")


def check_workload_update(new: ApiObject, old: ApiObject, ref: ObjectRef, semantics: Semantics) -> None:
    """Raise InvalidObject for the first immutable field that an update changes."""
    for fault in validate_workload_update(new, old, semantics):
        raise InvalidObject(fault.text, fault.path, ref, fix_of(ref.kind))


def fix_of(kind: str) -> str:
    """Return how to change immutable fields."""
    kept = "" if kind == "Job" else " (--cascade=orphan keeps its Pods)"
    return f"delete the {kind} first{kept}, or name it differently"


def validate_workload_update(new: ApiObject, old: ApiObject, semantics: Semantics) -> Iterator[FieldError]:
    """Yield an error for each immutable field that differs. Raises InvalidObject.

    Not compared: the order of lists that kubectl merges by name, and workloads without a selector, which are partial.
    """
    if group_kind(old) == JOB:
        yield from _validate_job_update(new, old, semantics)
    elif at(old, "spec", "selector") and at(new, "spec", "selector"):
        names = _IMMUTABLE_FIELDS.get(group_kind(old), ())
        before, after = (_defaulted({name: at(each, "spec", name) for name in names}) for each in (old, new))
        hidden = "annotations" if _is_redacted(old) else ""
        changed = dict.fromkeys(path[:2] for path in _changes(before, after, ("spec",)) if hidden not in path)
        yield from (FieldError(path, IMMUTABLE) for path in changed)


def _validate_job_update(new: ApiObject, old: ApiObject, semantics: Semantics) -> Iterator[FieldError]:
    directives, resources = _mutable(old, semantics)
    is_redacted = _is_redacted(old)
    before, after = (
        _compared(job, directives=directives, resources=resources, is_redacted=is_redacted) for job in (old, new)
    )
    completions, is_indexed = at(new, *_COMPLETIONS), at(new, "spec", "completionMode") == "Indexed"
    is_scaled = is_indexed and completions == at(new, *_PARALLELISM)
    is_default = completions == 1 and at(old, *_COMPLETIONS) is None and at(old, *_PARALLELISM) is None
    for path in _changes(before, after, ("spec",)):
        if path != _COMPLETIONS or not (is_scaled or is_default):
            yield FieldError(path, IMMUTABLE)


def is_same_template(stored: ApiObject, template: ApiObject) -> bool:
    """Report whether two Pod templates are equal after defaulting. Raises InvalidObject."""
    before, after = (_defaulted(_template(each)) for each in (stored, template))
    return not any(_changes(before, after, ()))


def _is_redacted(old: ApiObject) -> bool:
    return not any("image" in container for container in items(old, "spec", "template", "spec", "containers"))


def _mutable(old: ApiObject, semantics: Semantics) -> tuple[bool, bool]:
    """Return (whether scheduling directives of the Pod template may change, whether requests and limits may). Source:
    pkg/registry/batch/job/strategy.go, `validationOptionsForJob`.
    """
    if not boolean(old, "spec", "suspend"):
        return False, False
    has_not_started, conditions = at(old, "status", "startTime") is None, items(old, "status", "conditions")
    is_idle = not int32(old, "status", "active") and (
        any((at(each, "type"), at(each, "status")) == ("Suspended", "True") for each in conditions)
        or (has_not_started and semantics.jobs_that_never_started_are_idle)
    )
    directives = is_idle if semantics.idle_jobs_have_mutable_directives else has_not_started
    return directives, is_idle and semantics.idle_jobs_have_mutable_resources


def _compared(job: ApiObject, *, directives: bool, resources: bool, is_redacted: bool) -> Any:
    """Return the immutable fields of a Job's spec, without defaults."""
    spec = mapping(job, "spec")
    template = mapping(spec, "template")
    template = _template(_without_annotations(template) if is_redacted else template, resources=resources)
    pod = template["spec"]
    if directives or resources:
        template["metadata"] = None
    if directives:
        affinity = {key: value for key, value in mapping(pod, "affinity").items() if key != "nodeAffinity"}
        pod |= {**dict.fromkeys(("nodeSelector", "tolerations", "schedulingGates")), "affinity": affinity}
    return _defaulted({**{key: spec.get(key) for key in _OF_JOB}, "template": template})


def _without_annotations(template: ApiObject) -> ApiObject:
    """Return a Pod template with only the fields that redacted cluster snapshots have, and without annotations."""
    from forewarn.policies.kubernetes.objects.redaction import redacted_template

    template = redacted_template(template)
    return {**template, "metadata": {**mapping(template, "metadata"), "annotations": None}}


def _template(template: ApiObject, *, resources: bool = False) -> dict[str, Any]:
    """Return the compared fields of a Pod template."""
    pod = dict(mapping(template, "spec"))
    for kind in ("containers", "initContainers"):
        pod[kind] = [_container(each, resources=resources) for each in items(pod, kind)]
    images = ((each, mapping(each, "image")) for each in items(pod, "volumes"))
    pod["volumes"] = [{**each, "image": _container(image)} for each, image in images]
    pod["serviceAccount"] = None  # the old name of serviceAccountName
    metadata = {key: at(template, "metadata", key) for key in ("labels", "annotations")}
    return {"metadata": metadata, "spec": pod}


def _container(container: ApiObject, *, resources: bool = False) -> ApiObject:
    """Return the compared fields of a container, or of a volume's image."""
    hidden = {"resources"} if resources else set[str]()
    image = str(at(container, "image") or at(container, "reference") or "").rpartition("/")[2]
    default = "IfNotPresent" if "@" in image or (":" in image and not image.endswith(":latest")) else "Always"
    hidden |= {name for name in ("imagePullPolicy", "pullPolicy") if at(container, name) == default}
    return {key: value for key, value in container.items() if key not in hidden}


def _defaulted(value: Any, name: str = "") -> Any:
    """Return the value of the field `name` without fields that are empty or have their default."""
    if isinstance(value, Mapping) and name not in _OF_USERS:
        fields = {key: _defaulted(field, key) for key, field in value.items()}
        empty: tuple[object, ...] = (None, "", [], {})
        return {k: v for k, v in fields.items() if v not in (*empty, _DEFAULTS.get(k), _DEFAULTS.get(f"{name}.{k}"))}
    return [*map(_defaulted, value)] if isinstance(value, list) else value


def _changes(old: Any, new: Any, path: Path) -> Iterator[Path]:
    """Yield the paths of the values that differ."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in {**old, **new}:
            yield from _changes(old.get(key), new.get(key), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(before, after, (*path, index))
    elif old != new and not (old and contains(old, new, is_quantity=not OF_QUANTITIES.isdisjoint(path))):
        yield path
