"""A manifest as a member of a group, and a group: objects that belong to the same cluster."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.kinds.registry import (
    CLAIM,
    LIMIT_RANGE,
    NAMESPACE,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    WORKLOAD_PRIORITY_CLASS,
)
from forewarn.policies.objects.fields import group_kind
from forewarn.policies.objects.reviewed_object import Operation, ReviewedObject

if TYPE_CHECKING:
    from collections.abc import Sequence


CLUSTER_SCOPED: Final = (PRIORITY_CLASS, NAMESPACE, WORKLOAD_PRIORITY_CLASS)
"""Kinds that an object may refer to regardless of the directory of their definition."""
LIMITS: Final = (RESOURCE_QUOTA, LIMIT_RANGE)
DEFINITIONS: Final = frozenset((*CLUSTER_SCOPED, *LIMITS, CLAIM))
MOST_PAIRS: Final = 300_000
"""Objects that all groups together have besides their own: of more, only what limits and defines counts."""
SHARED: Final = ""
"""The branch of what is in none."""
Identity = tuple[str, str, str]
"""Kind, namespace and name."""


class Member:
    """An object and the file that it stands in. `reported`: whether findings on it are wanted, or it is context.

    `home`: the directory of the kustomization that takes it from outside, or a name of its own for what stands in
    another object, which is created apart; None: the file's own directory.
    """

    def __init__(self, subject: ReviewedObject, file: str, reported: bool = True, home: str | None = None) -> None:
        self.subject: Final = subject
        self.file: Final = file
        self.reported: Final = reported
        self.home: Final = home

    def _replace(self, **changes: Any) -> Member:
        """Return a copy with other values, as named tuples do."""
        return Member(**({name: getattr(self, name) for name in ("subject", "file", "reported", "home")} | changes))

    @classmethod
    def of(cls, subject: ReviewedObject, file: str, *, reported: bool = True) -> Member:
        """An object of a file."""
        home = f"{os.path.normpath(file)}: {subject.within.replace(os.sep, '.')}" if subject.within else None
        return cls(subject, file, reported, home)

    @property
    def directory(self) -> str:
        """The directory that it belongs to; empty for standard input."""
        return os.path.dirname(os.path.normpath(self.file)) if self.home is None else self.home

    @cached_property
    def identity(self) -> Identity:
        """Kind, namespace and name: of two objects with the same, the later one replaces the earlier one.

        Objects of templates have none: a template may be rendered for one environment at a time.
        """
        ref = self.subject.ref
        return group_kind(self.subject.object), ref.namespace, "" if self.subject.is_partial else ref.name

    @property
    def names_its_namespace(self) -> bool:
        """Whether the object itself has a namespace, and not only the command line."""
        metadata = self.subject.object.get("metadata")
        return isinstance(metadata, dict) and bool(metadata.get("namespace"))


class Group(NamedTuple):
    """One apply: its objects in order, and those that findings are wanted of. `name`: its own, or its directory's.

    Findings may also be wanted of objects of which only a part is known: what others define does not depend on these.
    """

    name: str
    subjects: tuple[ReviewedObject, ...]
    judged: tuple[ReviewedObject, ...]


def group_of(name: str, members: Sequence[Member], context: Sequence[Member] = ()) -> Group:
    """The group of the members; objects of `context` are in it, but not reported."""
    subjects = in_order([*context, *members])
    reported = {id(m.subject) for m in members if m.reported}
    judged = tuple(new for old, new in subjects if id(old) in reported)
    return Group(name, tuple(new for _, new in subjects if not new.is_partial), judged)


def in_order(members: Sequence[Member]) -> list[tuple[ReviewedObject, ReviewedObject]]:
    """The subjects, each beside what it is in this order: an update where the same object stands before it."""
    last: dict[Identity, ReviewedObject] = {}
    found = []
    for member in members:
        subject, identity = member.subject, member.identity
        before = last.get(identity) if identity[2] and not identity[2].endswith("*") else None
        if before is not None and subject.old is None:
            subject = subject._replace(operation=Operation.UPDATE, old=before.object)
        last[identity] = subject
        found.append((member.subject, subject))
    return found
