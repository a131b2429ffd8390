"""A quota, or a part of it, is about no pod at all.

Why: it looks like a limit and is none: its class does not exist, its scopes exclude each other, or it counts what its
scopes never charge. A quota with scopes counts pods alone, so count/deployments.apps in it stays at zero.

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

Fix: name a class that exists, take out the scope that excludes the others, or count the resource in a quota without
scopes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity, quote
from policies.rules.context import About, Context
from policies.rules.wording import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.disclosure import Audience
    from policies.objects.resource_quota import ResourceQuota
    from policies.objects.subject import Subject
    from policies.options import ScopeSelector

ID: Final = "quota-matches-nothing"
ABOUT: Final = (About.RESOURCE_QUOTA,)
SEVERITY: Final = Severity.NOTE
ACTION: Final = Action.AUDIT

_CLASS: Final = "PriorityClass"
_OF_CLAIMS: Final = "VolumeAttributesClass"


def check(subject: Subject, context: Context) -> Iterator[Problem]:
    """Classes that do not exist, scopes that no pod meets together, resources that are never charged."""
    from policies.rules.quota_scopes import placed_selectors, quota_of

    quota = quota_of(subject)
    if not quota.scope_selectors or any(s.scope_name == _OF_CLAIMS for s in quota.scope_selectors):
        return
    unknown = []
    for selector, path in placed_selectors(quota, subject):
        found = list(_unknown(selector, context))
        unknown += found
        for index, name in found:
            yield Problem(
                partial(_no_class, name, context), (*path, "values", index), "create the class, or name one that exists"
            )
    if not unknown and _excludes_all(quota, context):
        shown = " and ".join(_shown(s) for s in quota.scope_selectors if s.scope_name == _CLASS)
        yield Problem(f"no pod is in all of its scopes: {shown}", ("spec", "scopeSelector"), "take one of them out")
    yield from _never_charged(quota)


def _no_class(name: str, context: Context, audience: Audience) -> str:
    return f"there is no class {quote(name)}{nearest(name, context.classes, audience)}"


def _unknown(selector: ScopeSelector, context: Context) -> Iterator[tuple[int, str]]:
    """The classes that a selector wants and that do not exist."""
    if selector.scope_name == _CLASS and selector.operator == "In" and context.classes_known:
        for index, name in enumerate(selector.values):
            if name not in context.classes:
                yield index, name


def _excludes_all(quota: ResourceQuota, context: Context) -> bool:
    """Whether no class, known or only named, nor its absence is in all PriorityClass scopes."""
    from policies.rules.quota_scopes import holds, is_readable

    selectors = [s for s in quota.scope_selectors if s.scope_name == _CLASS]
    if not all(map(is_readable, selectors)):
        return False  # quota-scope-invalid
    named = {value for selector in selectors for value in selector.values}
    unnamed = set() if context.classes_known else {"x"}
    while unnamed & named:
        unnamed = {name + "x" for name in unnamed}
    return not any(all(holds(s, name) for s in selectors) for name in ("", *context.classes, *named, *unnamed))


def _shown(selector: ScopeSelector) -> str:
    values = f" [{' '.join(selector.values)}]" if selector.values else ""
    return f"{selector.scope_name} {selector.operator}{values}"


def _never_charged(quota: ResourceQuota) -> Iterator[Problem]:
    """Resources of a scoped quota that pods do not use; what the API server refuses is not told again."""
    from policies.apis.resource_quota import is_scope_valid_for
    from policies.quota.scopes import matching_resources

    for name in sorted({*quota.spec_hard} - matching_resources(quota.spec_hard)):
        if all(is_scope_valid_for(selector.scope_name, name) for selector in quota.scope_selectors):
            message = f"{name} is never counted here: a quota with scopes counts pods and what they use"
            yield Problem(message, ("spec", "hard", name), "limit it in a quota without scopes")
