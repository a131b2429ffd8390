"""kube-apiserver rejects this ResourceQuota, because its scopes conflict with its resources or with each other.

Why: a ResourceQuota with scope PriorityClass may limit only the standard resources pods, cpu and memory. Other scopes
allow other resources. The operators In and NotIn require values, and Exists and DoesNotExist forbid values. The rule
also reports invalid names and amounts.

Bad:

    apiVersion: v1
    kind: ResourceQuota
    metadata:
      name: gold-quota
      namespace: team
    spec:
      hard:
        pods: 10
        services: 5
      scopeSelector:
        matchExpressions:
        - scopeName: PriorityClass
          operator: In
          values: [gold]

Good:

    apiVersion: v1
    kind: ResourceQuota
    metadata:
      name: gold-quota
      namespace: team
    spec:
      hard:
        pods: 10
      scopeSelector:
        matchExpressions:
        - scopeName: PriorityClass
          operator: In
          values: [gold]

Fix: move resources that the scope does not support into a ResourceQuota without scopes. Add values to In and NotIn, and
remove the values of Exists and DoesNotExist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, cut
from forewarn.policies.objects.fields import at
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.rule_text import MAX_CHARACTERS, completed, naming

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import Path
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "quota-scope-invalid"
TARGETS: Final = (Target.RESOURCE_QUOTA,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each error that kube-apiserver reports."""
    # Only where there is a quota: linting starts without these.
    from forewarn.policies.kube_apiserver.validation.field_errors import MAX_FAULTS
    from forewarn.policies.kube_apiserver.validation.resource_quota import (
        validate_resource_quota,
        validate_resource_quota_update,
    )

    context.quota_of(subject)
    quota = completed(subject)
    faults = validate_resource_quota_update(quota, subject.old) if subject.old else validate_resource_quota(quota)
    reported = set[str]()
    for fault in faults[:MAX_FAULTS]:
        text = str(fault).rstrip(".")
        message, fix, path = "", "", _present(subject, fault.path)
        if text.endswith(_UNSUPPORTED):
            message, fix, path = _unsupported(subject, fault.path)
        message = cut(message or text, MAX_CHARACTERS)
        if message not in reported:
            reported.add(message)
            fix = fix or next((fix for part, fix in _FIXES if part in text), "correct this field")
            yield Problem(message, path, fix, detail={"rejection": text})


_UNSUPPORTED: Final = "unsupported scope applied to resource"
_FIXES: Final = (
    ("unsupported scope", "use a scope that Kubernetes has, such as PriorityClass"),
    ("at least one value", "add values"),
    ("must be no value", "remove values"),
    ("not a valid selector operator", "use In, NotIn, Exists or DoesNotExist"),
    ("must be 'Exists'", "use operator Exists"),
    ("conflicting scopes", "remove one of these scopes"),
)
"""The fix by a part of kube-apiserver's message."""


def _present(subject: ReviewedObject, path: Path) -> Path:
    """Return the path of an error; for an absent field, the path of the field `operator` beside it if that exists."""
    if at(subject.object, *path) is not None:
        return path
    beside = (*path[:-1], "operator")
    return beside if at(subject.object, *beside) is not None else path


def _unsupported(subject: ReviewedObject, path: Path) -> tuple[str, str, Path]:
    """Return message, fix and path for resources that a scope does not support; empty texts for other errors."""
    from forewarn.policies.kube_apiserver.validation.resource_quota import is_scope_valid_for
    from forewarn.policies.objects.fields import mapping

    found = at(subject.object, *path)
    entries = found if isinstance(found, list) else [found]
    scopes = [entry.get("scopeName") if isinstance(entry, dict) else entry for entry in entries]
    for scope in [scope for scope in scopes if isinstance(scope, str)]:
        names = [
            str(name) for name in mapping(subject.object, "spec", "hard") if not is_scope_valid_for(scope, str(name))
        ]
        if names:
            return (
                naming(f"a ResourceQuota with scope {cut(scope, _LONGEST)} cannot limit ", names, len(names)),
                "move it to a ResourceQuota without scopes"
                if len(names) == 1
                else "move them to a ResourceQuota without scopes",
                ("spec", "hard", names[0]),
            )
    return "", "", path


_LONGEST: Final = 30
