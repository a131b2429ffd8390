"""From the text of a file to the objects in it that somebody wants to read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml

from policies.findings import Location
from policies.objects.fields import group_kind
from policies.objects.subject import Remark, Subject

if TYPE_CHECKING:
    from collections.abc import Container, Mapping


@dataclass(frozen=True, slots=True)
class Reading:
    """What one file holds: its wanted objects in order, remarks on the text, and a count of everything.

    `objects` counts all objects, wanted or not; `skipped` those of kinds that nobody wants, by kind.
    """

    subjects: tuple[Subject, ...] = ()
    remarks: tuple[Remark, ...] = ()
    objects: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)


def read(text: bytes | str, file: str, wanted: Container[str], *, namespace: str = "") -> Reading:
    """The objects of a file, YAML or JSON, as kubectl reads them; Lists are taken apart.

    `wanted` holds the `group/Kind`s to read; others are only checked for faults and counted. `namespace` stands in for
    namespaced objects that have none. Never raises for what the text holds: a fault is a remark.
    """
    subjects, skipped = [], Counter[str]()
    try:
        for obj in yaml.safe_load_all(text):
            if isinstance(obj, dict) and group_kind(obj) in wanted:
                subjects.append(Subject(obj, namespace=namespace))
            elif obj is not None:
                skipped[str(obj.get("kind")) if isinstance(obj, dict) else ""] += 1
    except yaml.YAMLError as error:
        return Reading(remarks=(Remark("parse-error", str(error), Location(file, 1, 1, 1)),))
    return Reading(tuple(subjects), (), len(subjects) + skipped.total(), skipped)
