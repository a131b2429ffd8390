"""A manifest as a member of a group. A group is a set of objects for the same cluster."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.kinds.registry import (
    APPLIED,
    CLAIM,
    CLAIM_TEMPLATE,
    LIMIT_RANGE,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_QUOTA,
    WORKLOAD_PRIORITY_CLASS,
    is_namespaced,
)
from forewarn.policies.objects.fields import group_kind
from forewarn.policies.objects.reviewed_object import Operation, ReviewedObject

if TYPE_CHECKING:
    from collections.abc import Sequence


CLUSTER_SCOPED: Final = (
    PRIORITY_CLASS, WORKLOAD_PRIORITY_CLASS, *(kind for kind in APPLIED if not is_namespaced(kind)),
)  # fmt: skip
"""Kinds that an object may refer to regardless of the directory of their definition."""
LIMITS: Final = (RESOURCE_QUOTA, LIMIT_RANGE)
DEFINITIONS: Final = frozenset((*CLUSTER_SCOPED, *LIMITS, CLAIM, RESOURCE_CLAIM, CLAIM_TEMPLATE))
MAX_PAIRS: Final = 300_000
"""Maximum objects of other branches in all groups together; above it, only limits and definitions are included."""
SHARED: Final = ""
"""The branch of objects outside all branches."""
Identity = tuple[str, str, str]
"""Kind, namespace and name of an object."""


class Member:
    """An object and its file. `reported`: report findings on the object; false for objects that others only refer to.

    `home`: the directory of the kustomization that includes the object from outside; for an object inside another
    object, a unique name; None: the file's directory.
    """

    def __init__(self, subject: ReviewedObject, file: str, reported: bool = True, home: str | None = None) -> None:
        self.subject: Final = subject
        self.file: Final = file
        self.reported: Final = reported
        self.home: Final = home

    def _replace(self, **changes: Any) -> Member:
        """A copy with other values, as in named tuples."""
        return Member(**({name: getattr(self, name) for name in ("subject", "file", "reported", "home")} | changes))

    @classmethod
    def of(cls, subject: ReviewedObject, file: str, *, reported: bool = True) -> Member:
        """A member for an object of a file."""
        home = f"{os.path.normpath(file)}: {subject.within.replace(os.sep, '.')}" if subject.within else None
        return cls(subject, file, reported, home)

    @property
    def directory(self) -> str:
        """The directory of the member; "" for standard input."""
        return os.path.dirname(os.path.normpath(self.file)) if self.home is None else self.home

    @cached_property
    def identity(self) -> Identity:
        """Kind, namespace and name: a later object with the same identity replaces an earlier object.

        The name of an object of a template is "", because templates may be rendered for one environment at a time.
        """
        ref = self.subject.ref
        return group_kind(self.subject.object), ref.namespace, "" if self.subject.is_partial else ref.name

    @property
    def names_its_namespace(self) -> bool:
        """Whether the manifest itself sets a namespace, instead of the command line."""
        metadata = self.subject.object.get("metadata")
        return isinstance(metadata, dict) and bool(metadata.get("namespace"))


class Group(NamedTuple):
    """A change set: its objects in order, and the objects whose findings are reported. `name`: configured, or a
    directory.

    `subjects` excludes objects that are only partially known, so that rules do not see them as definitions.
    """

    name: str
    subjects: tuple[ReviewedObject, ...]
    evaluated: tuple[ReviewedObject, ...]


def group_of(name: str, members: Sequence[Member], context: Sequence[Member] = ()) -> Group:
    """Return a group of the members. `context`: objects of the group whose findings are not reported."""
    subjects = in_order([*context, *members])
    reported = {id(m.subject) for m in members if m.reported}
    evaluated = tuple(new for old, new in subjects if id(old) in reported)
    return Group(name, tuple(new for _, new in subjects if not new.is_partial), evaluated)


def in_order(members: Sequence[Member]) -> list[tuple[ReviewedObject, ReviewedObject]]:
    """Return pairs (subject, the same subject as reviewed in this order: an update if the same object precedes)."""
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
