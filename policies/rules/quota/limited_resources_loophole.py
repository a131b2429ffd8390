"""A ResourceQuota covers a limited class, but sets no limit for it or does not name it.

Why: limitedResources compares only the names of scopes. A ResourceQuota with the scope PriorityClass NotIn [batch]
covers every other class. A ResourceQuota without limits for Pod resources covers a class, but does not limit it. Users
who may create one of these ResourceQuotas can use the class.

Options:

    limitedResources:
    - resource: pods
      matchScopes:
      - scopeName: PriorityClass
        operator: In
        values: [gold]

Bad:

    apiVersion: v1
    kind: ResourceQuota
    metadata:
      name: all-but-batch
      namespace: team
    spec:
      hard:
        pods: 1000
      scopeSelector:
        matchExpressions:
        - scopeName: PriorityClass
          operator: NotIn
          values: [batch]

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

Fix: list the classes in a scope with `operator: In`, limit pods, cpu or memory, and use no other scope in the same
ResourceQuota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.metering import charge
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.details import UncoveredClass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import Path
    from forewarn.policies.objects.resource_quota import ResourceQuota
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.options import ScopeSelector

ID: Final = "limited-resources-loophole"
TARGETS: Final = (Target.RESOURCE_QUOTA,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = NOTHING_STORED

_CLASS: Final = "PriorityClass"
_MAX_SELECTORS: Final = 16
_MAX_NAMES: Final = 500
"""Maximum scopes of a quota, and classes in them, that are checked."""
_ANY_OTHER: Final = "any-class.that-nobody-names"
"""A placeholder for the classes that neither limitedResources nor the quota names."""


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each selector of the quota, with the first limited class that it should not cover."""
    limited = [s for entry in context.options.limited_resources for s in entry.match_scopes if s.scope_name == _CLASS]
    if not limited:
        return
    from forewarn.policies.rules.support.quota_scopes import placed_selectors

    quota = context.quota_of(subject)
    selectors = [(s, path) for s, path in placed_selectors(quota, subject) if s.scope_name == _CLASS]
    if len(selectors) > _MAX_SELECTORS or sum(len(s.values) for s, _ in selectors) > _MAX_NAMES:
        message = "too many PriorityClass scopes to check all of them for loopholes"
        yield Problem(message, ("spec", "scopeSelector"), f"name at most {_MAX_NAMES} classes in one ResourceQuota")
    names = 0
    for selector, path in selectors[:_MAX_SELECTORS]:
        names += len(selector.values)
        if names <= _MAX_NAMES:
            yield from _covered(quota, selector, path, limited)


def _covered(
    quota: ResourceQuota, selector: ScopeSelector, path: Path, limited: list[ScopeSelector]
) -> Iterator[Problem]:
    from forewarn.policies.rules.support.quota_scopes import matches

    ours = [scope for scope in quota.scope_selectors if len(scope.values) <= _MAX_NAMES][:_MAX_SELECTORS]
    named = {value for scope in (*limited, *ours) for value in scope.values}
    for name in (*sorted(named), _ANY_OTHER):
        charge(2 * len(limited))
        if not any(matches(scope, name) for scope in limited) or not matches(selector, name):
            continue
        for why, remedy in _how(quota, selector, name):
            is_in_quota = any(name in scope.values for scope in quota.scope_selectors)
            yield Problem(UncoveredClass("" if name == _ANY_OTHER else name, is_in_quota, why, remedy), path)
            return


def _how(quota: ResourceQuota, selector: ScopeSelector, name: str) -> Iterator[tuple[str, str]]:
    """Yield the reasons and fixes why this quota should not cover this class. `selector`: the scope that covers the
    class.
    """
    from forewarn.policies.kube_apiserver.quota.scopes import matching_resources
    from forewarn.policies.rules.support.quota_scopes import matches

    if not matching_resources(quota.spec_hard):
        yield "but limits nothing that Pods use", "limit pods, cpu or memory in spec.hard"
    elif selector.operator == "NotIn":
        yield (
            f"without naming it ({selector.operator} [{' '.join(selector.values)}])",
            "list the classes with operator: In",
        )
    elif any(other.scope_name != _CLASS or not matches(other, name) for other in quota.scope_selectors):
        others = ", ".join(s.scope_name for s in quota.scope_selectors if s is not selector)
        yield f"but limits only some of its Pods, or none ({others})", "use one scope in this quota"
