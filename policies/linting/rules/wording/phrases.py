"""Phrases that several texts use: numbers, ranges, and lists of names."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING

from forewarn.policies.base.findings import plural
from forewarn.policies.linting.rules.support.rule_text import naming

if TYPE_CHECKING:
    from forewarn.policies.base.disclosure import Audience, Range, ShownPods
    from forewarn.policies.kubernetes.objects.pod import Pod


def counted(count: Range, noun: str) -> str:
    """Return a number with a noun: `2 Pods`, `1 to 5 Pods`, or `more than 5 Pods`."""
    if count.is_exact:
        return plural(count.lowest or 0, noun)
    if count.highest:
        return f"{count.lowest} to {count.highest} {noun}s"
    return f"more than {(count.lowest or 0) - 1} {noun}s"


def minimum_phrase(count: Range, noun: str) -> str:
    """Return `at least 2 Pods`, with the lower end of the range."""
    return f"at least {plural(count.lowest or 0, noun)}"


def namespaces_phrase(pods: ShownPods) -> str:
    """Return the namespaces of the unnamed Pods: ` of another namespace` or ` of other namespaces`; "" to omit them."""
    return ("", " of another namespace", " of other namespaces")[pods.namespaces]


def priorities(band: Range) -> str:
    """Return `priority 100`, `priority 100 to 500`, `priority below 0`, or `priority 1000 or more`."""
    lowest, highest = band
    if lowest is None:
        return f"priority {'below 0' if highest == -1 else 'of any value' if highest is None else f'up to {highest}'}"
    if highest is None:
        return f"priority {lowest} or more"
    return f"priority {lowest}" if band.is_exact else f"priority {lowest} to {highest}"


def violating(count: int) -> str:
    """Return `1 victim violates a PDB`; "" for none."""
    return f"{plural(count, 'victim violates', 'victims violate')} a PDB" if count else ""


def pods_text(pods: Sequence[Pod], audience: Audience, after: str, *, in_namespace: bool = False) -> str:
    """A text of the form `12 Pods (team/web-1, team/web-2 and 10 more)` and `after`; only names that the audience may
    see.

    `in_namespace`: omit the namespace in names, because it is shown beside the message.
    """
    names, count = first_keys(pods, audience), plural(len(pods), "Pod")
    if in_namespace:
        names = [name.partition("/")[2] for name in names]
    return naming(f"{count} (", names, len(pods), f"){after}", 2) if names else f"{count}{after}"


def first_keys(pods: Sequence[Pod], audience: Audience) -> list[str]:
    """The first three names that the audience may see, as `namespace/name`."""
    return nsmallest(3, (pod.key for pod in pods if audience.may_name(pod.namespace)))
