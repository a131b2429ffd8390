"""The keys in the details of findings."""

from typing import TypedDict

Detail = TypedDict(
    "Detail",
    {
        "class": str,
        "classes": list[str],
        "count": int,
        "default": str,
        "directories": list[str],
        "meant": str,
        "field": str,
        "under": str,
        "minors": list[int],
        "rejection": str,
        "given": int | None,
        "computed": int | None,
        "value": int,
        "quota": str,
        "resources": list[str],
        "pod": int,
        "replicas": int,
        "surge": int,
        "old": int,
        "new": int,
        "wanted": int | None,
        "podGroup": str,
        "priority": int,
        "groupPriority": int,
        "minCount": int,
        "pods": int | list[str],
        "workloads": list[str],
    },
    total=False,
)
"""The details of other findings: the rule determines the keys."""
