"""What is not told by the watch cache alone: which findings go by it, and what they say where it may be wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action
from policies.rules import RULES

if TYPE_CHECKING:
    from policies.findings import Finding

_HEARD: Final = [rule for rule in RULES if rule.ACTION is not None and rule.DEPENDS_ON.stored]
RESTS_ON_THE_CACHE: Final = frozenset(rule.ID for rule in _HEARD if rule.DEPENDS_ON.is_confirmed)
"""Rules that go by the classes in the watch cache. What they deny or warn of is told only if the live ones agree."""
COUNTS_THE_CACHE: Final = frozenset(rule.ID for rule in _HEARD) - RESTS_ON_THE_CACHE
"""Rules that go by other objects in the cache, which no single GET confirms: late, they deny nobody, and say why."""


def rests_on_the_cache(findings: tuple[Finding, ...]) -> bool:
    """Whether a denial rests on the cache; where nothing is denied, whether a warning does."""
    told = Action.DENY if any(finding.action is Action.DENY for finding in findings) else Action.WARN
    return any(finding.action is told and finding.rule in RESTS_ON_THE_CACHE for finding in findings)


_UNASKED: Final = {
    Action.DENY: "Allowed: the API server did not confirm this.",
    Action.WARN: "Not confirmed by the API server.",
}
_LATE: Final = {
    Action.DENY: "Allowed: the cluster state is stale.",
    Action.WARN: "The cluster state is stale.",
}
CAVEATS: Final = frozenset((*_UNASKED.values(), *_LATE.values()))
"""What a warning must keep, whatever else of it does not fit."""


def unproven(finding: Finding) -> Finding:
    """A denial that could not be confirmed is a warning; a warning that could not be says so too."""
    why = _UNASKED.get(finding.action)
    return _warned(finding, why) if why and finding.rule in RESTS_ON_THE_CACHE else finding


def doubted(finding: Finding) -> Finding:
    """A denial that counts objects in a late cache is a warning; a warning that does says so too."""
    why = _LATE.get(finding.action)
    return _warned(finding, why) if why and finding.rule in COUNTS_THE_CACHE else finding


def _warned(finding: Finding, why: str) -> Finding:
    """A denial or warning as a warning; why comes right after the first sentence, where no client cuts it off."""
    told = (
        finding.for_requester._replace(message=_with(why, finding.for_requester.message))
        if finding.for_requester
        else None
    )
    return finding._replace(action=Action.WARN, message=_with(why, finding.message), for_requester=told)


def _with(why: str, message: str) -> str:
    first, _, rest = message.partition(". ")
    return f"{first.rstrip('.')}. {why} {rest}".rstrip()
