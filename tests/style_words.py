"""Words that no text for users may have, with what to write instead: the table of the writing style, as data."""

from __future__ import annotations

import re
from typing import Final

INSTEAD: Final = {
    r"push(?:es|ed|ing)? (?:\w+ )?out": "preempt",
    r"drives? out": "preempt",
    r"nobody|somebody|whoever|whom": "name the kind: no Pods, a user",
    r"anew": "again, recreate, replace",
    r"find(?:s|ing)? (?:no|a) (?:place|room)|fits nowhere|no node has room": "stays Pending, fits on no node",
    r"disruption budgets?|breaks? (?:the|a) budget|spent budget": "PodDisruptionBudget (PDB)",
    r"dumps?": "cluster snapshot",
    r"\d+ levels": "cascade depth",
    r"(?<!un)settled|settles": "steady state",
    r"refuse[sd]?": "reject, deny",
    r"mend(?:s|ed)?": "fix",
    r"judged?": "evaluate, check",
    r"oracle": "reference scheduler",
    r"diced?": "random seed, randomized",
    r"lacks?": "insufficient, missing",
    r"is gone|are gone|goes away|by now": "no longer exists, is deleted",
    r"left alone|passed over|let pass|looked at": "ignored, skipped, evaluated",
    r"nothing to say": "no findings",
    r"promises?|promised": "expectation",
    r"priority class": "PriorityClass",
    r"in the end": "at the end",
    r"worked out": "evaluated",
}
"""A pattern of whole words -> what to write instead."""
BANNED: Final = re.compile("|".join(rf"\b(?:{words})\b" for words in INSTEAD), re.IGNORECASE)
LOWER_CASE_KINDS: Final = re.compile(r"(?<![\w/.-])(?:new |pending |\d+ )pods?\b(?! affinity)")
"""Pods that are counted or described, in lower case: the API writes Pod."""
UPSTREAM: Final = re.compile(
    r"\d+/\d+ nodes are available[^\n]*|node\(s\) [^\n]*|Too many pods|no nodes available to schedule pods|"
    r"No preemption victims found for incoming pod"
)
"""What Kubernetes itself writes, which stays as it is."""

NAMES: Final = re.compile(r"docs/\S+|webhook/\S+|\b[\w-]+/[\w.-]+|\bfits nowhere\b|\bpods-pending\b")
"""Files and objects are called as their owners call them, and findings by their ids, also without hyphens."""


def banned_in(text: str) -> list[str]:
    """The banned words of a text for users, without what Kubernetes itself writes."""
    own = UPSTREAM.sub("", text)
    return [found.group() for pattern in (BANNED, LOWER_CASE_KINDS) for found in pattern.finditer(own)]


def banned_in_report(text: str) -> list[str]:
    """The banned words of what a command prints, without names."""
    return banned_in(NAMES.sub("", text))
