"""Validation of new objects of the kinds that forewarn checks, after defaulting: metadata and `spec`; the fix of
each error.

Sources: pkg/apis/*/validation/validation.go of policy, apps, batch, autoscaling, core, scheduling and
admissionregistration. Of Pods and Pod templates, pod_fields.py names what is not checked; claim templates of
StatefulSets are not checked either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Path, field_path
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation import decode, tables
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import MAX_FAULTS, FieldError, path_segment
from forewarn.policies.kubernetes.objects.fields import ApiObject, InvalidObject, at, group_kind, ref_of, within
from forewarn.policies.kubernetes.objects.workload import lacks_images, pod_template_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.releases.semantics import Semantics


NO_FIX: Final = "correct this field"


def fix_of(fault: FieldError) -> str:
    """Return the fix of an error; NO_FIX if the error itself says what is permitted."""
    return next((fix for part, fix in _FIXES if part in fault.text), NO_FIX)


_FIXES: Final = (
    # Of several fields.
    ("cannot be both set", "remove one of them"),
    ("exactly one of url or service", "set either url or service"),
    ("when maxUnavailable is non-zero", "set maxUnavailable: 0"),
    ("when maxSurge is 0", "set maxUnavailable: 1"),
    ("when `maxSurge` is 0", "set maxUnavailable: 1"),
    ("equal to `minReplicas`", "set maxReplicas to at least minReplicas"),
    ("than minReadySeconds", "set it to more than minReadySeconds"),
    ("does not match template `labels`", "add the labels of the selector"),
    ("empty selector", "set selector.matchLabels to labels of the Pods"),
    ("allowed for updateStrategy", "remove the field"),
    ("requires indexed completion mode", "set completionMode: Indexed, or remove it"),
    ("kube-apiserver generates this label", "remove the label"),
    ("auto-generated", "remove the selector, or set manualSelector: true"),
    ("requires the backoffLimitPerIndex", "set backoffLimitPerIndex"),
    ("scaling to zero", "set minReplicas: 1, or add an Object or External metric"),
    ("when labelSelector is not set", "set a labelSelector, or remove the field"),
    ("operator must be Exists", "set a key, or operator: Exists"),
    ("effect must be 'NoExecute'", "set effect: NoExecute, or remove tolerationSeconds"),
    ("value must be empty", "remove the value, or set operator: Equal"),
    ("can only use minDomains", "set whenUnsatisfiable: DoNotSchedule, or remove minDomains"),
    ("exists in both", "remove the key from one of them"),
    ("is greater than", "make the values agree"),
    ("must equal to defaultRequest", "make the values agree"),
    ("conflicting scopes", "remove one of these scopes"),
    ("must not specify other", "remove the other entries"),
    # Of one field.
    ('only "Never"', "set restartPolicy: Never"),
    (': "OnFailure", "Never"', "set restartPolicy: Never or OnFailure"),
    ("not a valid selector operator", "use In, NotIn, Exists or DoesNotExist"),
    ("must be 'Exists'", "use operator Exists"),
    ("at least one value", "add values"),
    ("must be no value", "remove values"),
    ("single value", "write exactly one value"),
    ("only one value", "write exactly one value"),
    ("unsupported scope", "use a scope that Kubernetes has, such as PriorityClass"),
    ("percentage such as", "write a number without quotes, or a percentage"),
    ("greater than 100%", "write 100% or less"),
    ("greater than or equal to 0", "write 0 or more"),
    ("greater than or equal to 1", "write 1 or more"),
    ("cannot be 0", "write 1 or more"),
    ("must be positive", "write a number above 0"),
    ("must be from", "write a number in this range"),
    ("must be within", "write a number in this range"),
    ("less than or equal to", "write a smaller number"),
    ("32bit integer", "write an integer in quotes"),
    ("decimal integer", "write an integer in quotes"),
    ("in schedule, use timeZone", "set timeZone instead"),
    ("time zone", "write a name of the IANA database, such as Europe/Berlin"),
    ("three segments", "write a domain such as policy.example.com"),
    ("None, NoneOnDryRun", "set sideEffects: None or NoneOnDryRun"),
    ("must specify API group", "write group and version, such as apps/v1"),
    ("must include at least one of", "add v1"),
    ("valid field selector key", "write metadata.name"),
    ("must be a standard resource", "write a resource of Kubernetes, or an extended resource such as example.com/gpu"),
    ("invalid label selector", "correct the selector"),
    ("RFC 1123", "write lower-case letters, digits and dashes"),
    ("DNS-1035", "write lower-case letters, digits and dashes, a letter first"),
    ("must not contain dots", "write dashes instead of dots"),
    ("consist of alphanumeric", "write letters and digits, with '-', '_' or '.' only between them"),
    ("may not contain", "remove this character"),
    ("must be non-empty", "write a name before and after the slash"),
    ("must be no more than", "shorten it"),
    ("Too long", "shorten it"),
    ("Duplicate value", "remove the duplicate"),
    ("Unsupported value", "use a supported value"),
    ("Required value", "set the field"),
    ("Forbidden", "remove the field"),
)
"""The fix by a part of the message; the first one applies."""


def _both_amounts(spec: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        fault = "minAvailable and maxUnavailable cannot be both set"
        yield FieldError((*path, "minAvailable"), fault, field_path(path))


_STRUCTS: Final = tables.STRUCTS.extended({"both-amounts": _both_amounts})
_DISRUPTION_BUDGETS: Final = tables.Kind(_STRUCTS, "PodDisruptionBudget", name_faults=path_segment, metadata_last=True)


_MODULES: Final = {
    registry.POD: "pod_fields",
    registry.JOB: "batch",
    registry.CRON_JOB: "batch",
    registry.AUTOSCALER: "autoscaling",
    registry.LIMIT_RANGE: "resources",
    registry.REPLICATION_CONTROLLER: "apps",
    registry.REPLICA_SET: "apps",
    **dict.fromkeys(registry.ROLLED_OUT, "apps"),
    **dict.fromkeys(registry.WEBHOOK_CONFIGURATIONS, "admissionregistration"),
}
"""`group/Kind` -> the module with its table, imported on first use: the linter starts faster."""
KINDS: Final = frozenset((registry.DISRUPTION_BUDGET, *_MODULES))
"""`group/Kind` of the kinds with tables. Other modules validate PriorityClasses and ResourceQuotas."""


def _kind_of(kind: str) -> tables.Kind:
    """Return how one of KINDS is validated."""
    if kind == registry.DISRUPTION_BUDGET:
        return _DISRUPTION_BUDGETS
    found: tables.Kind = import_module(f"{__package__}.{_MODULES[kind]}").KINDS[kind]
    return found


_VERSIONS: Final = ("v1", "v2")
"""Versions of these kinds that kube-apiserver serves."""
_METADATA: Final = decode.Struct("Object", {"metadata": decode.OBJECT_META})


def validate(obj: ApiObject, semantics: Semantics) -> list[FieldError]:
    """Return the errors of a new object, at most MAX_FAULTS; none for a kind or version that is not checked.

    Raises InvalidObject for values of a wrong type.
    """
    if not _is_checked(obj):
        return []
    if (fault := decode.decode_error(obj, _METADATA)) is not None:
        raise InvalidObject(fault.text, fault.path, ref_of(obj))
    metadata = obj.get("metadata") or {}
    if not metadata.get("namespace"):
        obj = {**obj, "metadata": {**metadata, "namespace": registry.DEFAULT_NAMESPACE}}
    with within(obj):
        return list(islice(_kind_of(group_kind(obj)).validate(obj, semantics), MAX_FAULTS))


def _is_checked(obj: ApiObject) -> bool:
    return group_kind(obj) in KINDS and obj["apiVersion"].rpartition("/")[2] in _VERSIONS


def check(obj: ApiObject, semantics: Semantics, stored: ApiObject | None = None) -> None:
    """Raise InvalidObject for the first error of an object, with a fix.

    Ignores errors of the Priority plugin, names that kube-apiserver generates, missing images of a redacted object, and
    errors that the stored object has too.
    """
    template = pod_template_of(obj, registry.POD_TEMPLATE_PATHS)
    ignored = (*_OF_PRIORITY, "image") if template and lacks_images(template) else _OF_PRIORITY
    with within(obj):
        known = set(_faults_of(stored, semantics)) if stored else ()
        for fault in _faults_of(obj, semantics):
            is_generated = fault.path == ("metadata", "name") and at(obj, "metadata", "generateName")
            if not (is_generated or fault.path[-1] in ignored or is_repeated(obj, fault) or fault in known):
                raise InvalidObject(f"{without_examples(fault)}. Fix: {fix_of(fault)}", fault.path)


def is_repeated(obj: ApiObject, fault: FieldError) -> bool:
    """Report whether another error is about the same fault."""
    is_of_default = fault.path[:2] in _WITH_DEFAULTS and at(obj, *fault.path) is None
    needs_selector = _OF_SELECTOR in fault.text and at(obj, "spec", "selector") is None
    return needs_selector or (is_of_default and not fault.text.startswith("Required"))


_WITH_DEFAULTS: Final = (("metadata", "labels"), ("spec", "limits"))
"""Fields that kube-apiserver also sets from others: of Jobs and LimitRanges."""
_OF_SELECTOR: Final = "`selector` does not match"


def without_examples(fault: FieldError) -> str:
    """Return the text of an error without examples and regular expressions."""
    return fault.text.partition(" (e.g. ")[0]


def _faults_of(obj: ApiObject, semantics: Semantics) -> Iterable[FieldError]:
    if group_kind(obj) == registry.RESOURCE_QUOTA:
        from forewarn.policies.kubernetes.kube_apiserver.validation.resources import validate_quota_spec

        fault = decode.decode_error(obj, decode.RESOURCE_QUOTA_STRUCT)
        return validate_quota_spec(obj) if fault is None else [fault]
    return validate(obj, semantics)


_OF_PRIORITY: Final = ("priorityClassName", "preemptionPolicy")
