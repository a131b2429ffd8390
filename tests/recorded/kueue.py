"""Recorded cases of Kueue's scheduler: the first cycle, and the end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from forewarn.policies.kubernetes.kinds.registry import LIMIT_RANGE, NAMESPACE
from forewarn.policies.kubernetes.objects import kueue
from forewarn.policies.kubernetes.objects.fields import group_kind, mapping, moment_of, objects_at, string_map, text
from forewarn.policies.kubernetes.objects.resource_quota import LimitRange
from forewarn.policies.prediction.kueue.forecast import Manager
from forewarn.policies.prediction.kueue.snapshot import TABLES, Objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.prediction.kueue.scheduler import Entry


def answer_case(case: ApiObject, *, is_reversed: bool = False) -> ApiObject:
    """Return what Kueue decides. `configuration` of a case: of Kueue's manager. `is_reversed`: as for `Manager`.

    Raises InvalidObject, ValueError.
    """
    now = moment_of(text(case, "now"))
    if now is None:
        raise ValueError("now is no RFC 3339 time")
    objects = _read(objects_at(case, "objects"))
    configuration = kueue.Configuration.from_api(mapping(case, "configuration"))
    objects.configuration = replace(configuration, is_fair_sharing=case.get("fairSharing") is True)
    manager = Manager(objects, now.timestamp(), is_reversed=is_reversed)
    cycles = [*manager.cycles()]
    entries = cycles[0] if cycles else []
    admitted = {
        key: {"clusterQueue": info.cluster_queue, "podSets": _pod_sets(info.obj.admission.pod_sets)}
        for key, info in sorted(manager.holders.items())
        if info.obj.admission is not None
    }
    return {
        "id": text(case, "id"),
        "first": [_head(entry) for entry in sorted(entries, key=lambda entry: entry.info.key)],
        "final": {"admitted": admitted, "evicted": sorted(manager.evicted), "quiet": manager.is_quiet},
    }


def _read(objects: Iterable[ApiObject]) -> Objects:
    """Return Kueue's objects and the Namespaces among these objects. Raises InvalidObject."""
    found = Objects()
    for obj in objects:
        kind = group_kind(obj)
        if kind == NAMESPACE:
            found.namespaces[text(obj, "metadata", "name")] = string_map(obj, "metadata", "labels")
        elif kind == LIMIT_RANGE:
            limit_range = LimitRange.from_api(obj)
            found.limit_ranges.setdefault(limit_range.namespace, []).append(limit_range)
        elif kind in TABLES:
            view = getattr(kueue, kind.rpartition("/")[2]).from_api(obj)
            getattr(found, TABLES[kind])[getattr(view, "key", view.name)] = view
    return found


def _head(entry: Entry) -> ApiObject:
    preempted: list[Mapping[str, Any]] = [
        {"workload": info.key, "reason": "ongoing" if info.obj.is_evicted else reason}
        for info, reason in sorted(entry.targets, key=lambda target: target.info.key)
    ]
    pod_sets = [
        {"name": each.name, "count": each.count, "flavors": {r: flavor.name for r, flavor in each.flavors.items()}}
        for each in entry.assignment.pod_sets
    ]
    return {
        "workload": entry.info.key,
        "clusterQueue": entry.cq.name,
        "outcome": entry.outcome,
        "borrowing": entry.assignment.borrowing,
        "podSets": pod_sets,
        "preempted": preempted,
        "requeue": entry.requeue_reason,
        "message": entry.message,
    }


def _pod_sets(pod_sets: Iterable[Any]) -> list[ApiObject]:
    return [{"name": each.name, "count": each.count, "flavors": dict(each.flavors)} for each in pod_sets]
