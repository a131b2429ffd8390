"""Fixes of the errors with which kube-apiserver rejects an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import FieldError


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
