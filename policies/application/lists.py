"""The lists without which a question has no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.findings import listed
from forewarn.policies.kinds.registry import NODE, POD, PRIORITY_CLASS
from forewarn.policies.scheduling.missing_lists import kinds_of
from forewarn.policies.sources import SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.cluster.cache import ClusterSnapshot


def require_lists(
    cluster: ClusterSnapshot, required: Sequence[str], sources: Sequence[str], *, has_groups: bool = False
) -> None:
    """Raise SourceError if the cluster state lacks a list of a required kind. An empty list is a list.

    For other kinds, the answer says what it assumes (`missing_lists.assumptions`). PriorityClasses are also required if
    Pods of the cluster name some; Nodes are not if there are node groups (`has_groups`).
    """
    absent = [kind for kind in required if kind in cluster.objects.unlisted and not (has_groups and kind == NODE)]
    named = {name for name, _ in cluster.pod_counts_by_priority if name} - {*cluster.priority_classes}
    if POD in required and named and PRIORITY_CLASS in cluster.objects.unlisted:
        absent = [*dict.fromkeys((*absent, PRIORITY_CLASS))]
    if absent:
        names = listed(list(map(kinds_of, absent)))
        empty = listed([f"an empty {kind.rpartition('/')[2]}List" for kind in absent])
        fix = f"pass a whole snapshot (forewarn snapshot), or add {empty} if the cluster has none"
        raise SourceError(", ".join(sources), f"no list of {names}, which the answer depends on. Fix: {fix}")
