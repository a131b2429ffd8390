"""A ResourceQuota, or a part of it, matches no Pod.

Why: the ResourceQuota limits nothing, because its class does not exist, its scopes exclude each other, or its scopes
exclude the resource. A ResourceQuota with scopes counts only Pods, so its usage of count/deployments.apps stays 0.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Bad:

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
          values: [glod]

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

Fix: use an existing class, remove one of the scopes that exclude each other, or count the resource in a ResourceQuota
without scopes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, cut
from forewarn.policies.metering import charge, each
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.details import UnknownClass
from forewarn.policies.rules.support.recommended import recommended_to
from forewarn.policies.rules.support.rule_text import MAX_CHARACTERS, is_template_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.resource_quota import ResourceQuota
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.options import ScopeSelector

ID: Final = "quota-matches-nothing"
TARGETS: Final = (Target.RESOURCE_QUOTA,)
SEVERITY: Final = Severity.NOTE
ACTION: Final = Action.AUDIT
DEPENDS_ON: Final = DependsOn(("classes",), "the class may have been created a moment ago")

_CLASS: Final = "PriorityClass"
_SUGGESTIONS: Final = 3
"""Maximum names with a suggestion, and maximum scopes in a message."""
_SHOWN: Final = 16
_LONGEST: Final = 50
_OF_CLAIMS: Final = "VolumeAttributesClass"


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield problems for missing classes, scopes that no Pod matches together, and resources that the quota never
    counts.
    """
    from forewarn.policies.rules.support.quota_scopes import placed_selectors

    quota = context.quota_of(subject)
    if not quota.scope_selectors or any(s.scope_name == _OF_CLAIMS for s in quota.scope_selectors):
        return
    unknown = 0
    for selector, path in placed_selectors(quota, subject):
        for index, name in _unknown(selector, context):
            unknown += 1
            if is_template_variable(name, subject, context):
                continue
            known = recommended_to(subject, context) if unknown <= _SUGGESTIONS else None
            fix = "create the class, or use one that exists"
            details = UnknownClass(name, "; this scope matches no Pod", known, fix, longest=_LONGEST)
            yield Problem(details, (*path, "values", index))
    if not unknown and _excludes_all(quota, context):
        selectors = [s for s in quota.scope_selectors if s.scope_name == _CLASS]
        shown = " and ".join(map(_shown, selectors[:_SUGGESTIONS])) + (" and others" * (len(selectors) > _SUGGESTIONS))
        message = cut(f"no Pod matches all of its scopes: {shown}", MAX_CHARACTERS)
        yield Problem(message, ("spec", "scopeSelector"), "remove one of them")
    yield from _never_charged(quota)


def _unknown(selector: ScopeSelector, context: Context) -> Iterator[tuple[int, str]]:
    """The indexes and names of missing classes in a selector."""
    if selector.scope_name == _CLASS and selector.operator == "In" and context.classes_known:
        for index, name in enumerate(each(selector.values, 0.1)):
            if name not in context.classes:
                yield index, name


def _excludes_all(quota: ResourceQuota, context: Context) -> bool:
    """True if the PriorityClass scopes together match no class, named or known, and no Pod without a class."""
    from forewarn.policies.rules.support.quota_scopes import is_readable

    selectors = [s for s in quota.scope_selectors if s.scope_name == _CLASS]
    if not all(map(is_readable, selectors)):
        return False  # quota-scope-invalid
    named = {value for selector in selectors for value in selector.values}
    unnamed = set() if context.classes_known else {"x"}
    while unnamed & named:
        unnamed = {name + "x" for name in unnamed}
    left = {"", *context.classes, *named, *unnamed}
    for selector in selectors:
        charge(1 + len(selector.values) // 8)
        if selector.operator == "DoesNotExist":
            left &= {""}
        elif selector.operator == "NotIn":
            left.difference_update(set(selector.values) - {""})
        elif selector.operator == "In":
            left &= {*selector.values} - {""}
        else:
            left.discard("")
    return not left


def _shown(selector: ScopeSelector) -> str:
    some = [cut(value, _LONGEST) for value in selector.values[:_SHOWN]] + ["…"] * (len(selector.values) > _SHOWN)
    values = f" [{' '.join(some)}]" if some else ""
    return f"{selector.scope_name} {selector.operator}{values}"


def _never_charged(quota: ResourceQuota) -> Iterator[Problem]:
    """Yield a problem for each resource that a quota with scopes never counts, because Pods do not use the resource.

    Skips a resource that the API server rejects in combination with one of the scopes. `quota`: must have scopes.
    """
    from forewarn.policies.kube_apiserver.quota.scopes import matching_resources
    from forewarn.policies.kube_apiserver.validation.resource_quota import is_scope_valid_for

    scopes = {selector.scope_name for selector in quota.scope_selectors}
    for name in sorted({*quota.spec_hard} - matching_resources(quota.spec_hard)):
        charge(1 + len(scopes))
        if all(is_scope_valid_for(scope, name) for scope in scopes):
            message = f"{cut(name, _LONGEST)} is never counted: a quota with scopes counts only Pods and what they use"
            yield Problem(message, ("spec", "hard", name), "limit it in a ResourceQuota without scopes")
