"""Findings that depend on the watch cache, and their texts if the cache may be out of date."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action
from forewarn.policies.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.findings import Finding
    from forewarn.policies.objects.priority_class import PriorityClass

_CACHE_RULES: Final = [rule for rule in RULES if rule.ACTION is not None and rule.DEPENDS_ON.stored]
RESTS_ON_THE_CACHE: Final = frozenset(rule.ID for rule in _CACHE_RULES if rule.DEPENDS_ON.is_confirmed)
"""Rules that depend on PriorityClasses in the cache: a live GET confirms their denials and warnings."""
COUNTS_THE_CACHE: Final = frozenset(rule.ID for rule in _CACHE_RULES) - RESTS_ON_THE_CACHE
"""Rules that depend on other objects in the cache: with a stale cache, their denials become warnings."""


def depends_on_cache(findings: tuple[Finding, ...]) -> bool:
    """Report whether a denial depends on the watch cache; without denials, whether a warning does."""
    action = Action.DENY if any(finding.action is Action.DENY for finding in findings) else Action.WARN
    return any(finding.action is action and finding.rule in RESTS_ON_THE_CACHE for finding in findings)


_UNASKED: Final = {
    Action.DENY: "Allowed: the API server did not confirm this",
    Action.WARN: "Not confirmed by the API server",
}
_STALE_LISTS: Final = {
    Action.DENY: "Allowed: the cluster state is stale",
    Action.WARN: "The cluster state is stale",
}


def unproven(finding: Finding) -> Finding:
    """Return the finding that the API server did not confirm: a denial becomes a warning; a warning gets a caveat.

    Findings that do not depend on the watch cache are unchanged.
    """
    why = _UNASKED.get(finding.action)
    return _warned(finding, why) if why and finding.rule in RESTS_ON_THE_CACHE else finding


def doubted(finding: Finding) -> Finding:
    """Return the finding if the cache is stale: a denial becomes a warning; a warning gets a caveat.

    Findings of rules that do not count cached objects are unchanged.
    """
    why = _STALE_LISTS.get(finding.action)
    return _warned(finding, why) if why and finding.rule in COUNTS_THE_CACHE else finding


def _warned(finding: Finding, why: str) -> Finding:
    """The finding as a warning, with the reason as a caveat."""
    return finding.with_texts(lambda text: text.with_caveat(why))._replace(action=Action.WARN)


def with_classes(cluster: ClusterSnapshot, classes: Mapping[str, PriorityClass]) -> ClusterSnapshot:
    """Return the cluster state with these PriorityClasses; the same object if they are equal."""
    return cluster if classes == cluster.priority_classes else replace(cluster, priority_classes=classes)
