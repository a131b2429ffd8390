"""Texts about stored Pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forewarn.policies.base.findings import Text, plural
from forewarn.policies.linting.rules.support.rule_text import naming, priorities_of
from forewarn.policies.linting.rules.wording.phrases import first_keys, pods_text

if TYPE_CHECKING:
    from forewarn.policies.base.disclosure import Audience
    from forewarn.policies.linting.rules.support.details import (
        PlaceholdersPreempted,
        PodsOfMissingClass,
        PodsWithPriority,
    )


def with_priority(details: PodsWithPriority, audience: Audience) -> Text:
    """The text, for example `1 Pod (team/web-1) of this class has priority 7, not 1000`."""
    return Text(pods_text(details.pods, audience, details.after, in_namespace=details.is_in_namespace), details.fix)


def priority_document(details: PodsWithPriority) -> dict[str, Any]:
    return {"pods": len(details.pods), **({} if details.expected is None else {"value": details.expected})}


def of_missing_class(details: PodsOfMissingClass, audience: Audience) -> Text:
    """The text for a deleted class that Pods still use."""
    pods, names = details.pods, first_keys(details.pods, audience)
    if len(pods) == 1:
        after = " still uses it; a replacement with this class will be rejected"
        problem = naming("deleted, but ", names, 1, after) if names else f"deleted, but 1 Pod{after}"
    else:
        after = " still use it; replacements with this class will be rejected"
        problem = f"deleted, but {pods_text(pods, audience, after)}"
    return Text(problem, f"recreate with value {priorities_of(pods)}, or change the template")


def placeholders_preempted(details: PlaceholdersPreempted, audience: Audience) -> Text:
    """The text: `restarts of 2 workloads (team/a, team/b) would preempt at most 3 placeholder Pods each`."""
    count, most = len(details.workloads), plural(details.most, "placeholder Pod")
    named = [f"{ref.namespace}/{ref.name}" for ref in details.workloads if audience.may_name(ref.namespace)]
    before, after = f"restarts of {plural(count, 'workload')}", f" would preempt {most}"
    if count > 1:
        after = f" would preempt at most {most} each"
    problem = naming(f"{before} (", named, count, f"){after}") if named else f"{before}{after}"
    return Text(problem, "none needed: placeholder Pods reserve this capacity")
