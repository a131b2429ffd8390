"""Recorded cases of Kueue's scheduler: the first cycle, and the end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from forewarn.policies.kubernetes.objects.fields import mapping, moment_of, objects_at, text
from forewarn.policies.kubernetes.objects.kueue import Configuration
from forewarn.policies.prediction.kueue.manager import Manager
from forewarn.policies.prediction.kueue.objects import read_objects

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
    objects = read_objects(objects_at(case, "objects"))
    configuration = Configuration.from_api(mapping(case, "configuration"))
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
