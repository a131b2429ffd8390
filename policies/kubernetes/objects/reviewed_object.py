"""Reviewed objects: API objects with an operation, in the order of a change set."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from forewarn.policies.base.findings import NO_LOCATION, Location, ObjectRef, Path, Severity
from forewarn.policies.base.light import NamedTuple
from forewarn.policies.kubernetes.kinds.registry import DEFAULT_NAMESPACE
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, namespace_of, ref_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.workload import PodTemplate


class Operation(StrEnum):
    """The operation of an admission request."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class Source(Protocol):
    """The origin of an object in a file. Finds the position of a field in the file."""

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """Return the position of the value at `path` (with `key`, of its key); if absent, of the nearest parent."""


class NoSource:
    """The source of objects from the network, which have no positions."""

    def locate(self, path: Path, *, key: bool = False) -> Location:  # noqa: ARG002  (the protocol's signature)
        return NO_LOCATION


NO_SOURCE: Final = NoSource()


class User(NamedTuple):
    """The requester of an admission request (`request.userInfo`)."""

    name: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class ReviewedObject(NamedTuple):
    """One object with its operation. `object`: empty on DELETE. `old`: the object before the operation, if any.

    `part`: the Pod template to evaluate, if the object has several. `within`: the creator of the object, if the object
    is part of another object in its file. `is_partial`: whether the object is part of a template, and may have further,
    unknown fields, except at the path `whole`. `is_optional`: whether a template has the object in a block, so that
    values may switch it off. `is_patch`: whether the object is a patch of an object that is not read.
    `overlay`: the directory of the kustomization that patches objects, and builds this one. `is_left_out`: whether the
    input has kustomizations, but none lists the file of the object. `builds`: the directories of the kustomizations
    whose output contains the object, without those that other kustomizations list. `moved`: the namespace in the file
    and the file of a kustomization that replaces this namespace; () if none does.
    """

    object: ApiObject
    operation: Operation = Operation.CREATE
    old: ApiObject | None = None
    namespace: str = ""
    subresource: str = ""
    user: User | None = None
    source: Source = NO_SOURCE
    part: PodTemplate | None = None
    within: str = ""
    is_partial: bool = False
    whole: Path | None = None
    is_optional: bool = False
    is_patch: bool = False
    overlay: str = ""
    is_left_out: bool = False
    builds: frozenset[str] = frozenset()
    moved: tuple[str, ...] = ()

    @property
    def ref(self) -> ObjectRef:
        obj = self.object or self.old or NOTHING
        return ref_of(obj, self.namespace if obj.get("kind") != "Namespace" else "")  # the namespace of its request

    @property
    def effective_namespace(self) -> str:
        """The namespace of the object, or of its evaluated part; the default namespace if it has none."""
        own = self.part.namespace if self.part else ""
        return own or namespace_of(self.object or self.old or NOTHING) or self.namespace or DEFAULT_NAMESPACE

    def locate(self, path: Path) -> Location:
        """Return the position of the value at `path`; of the object's name if the value is absent."""
        value: object = self.object
        for step in path:
            if isinstance(value, Mapping) or (isinstance(value, list) and isinstance(step, int) and step < len(value)):
                value = value.get(step) if isinstance(value, Mapping) else value[step]  # type: ignore[index]
            else:
                value = None
        if path and value is not None:
            return self.source.locate(path)
        return self.source.locate(("metadata", "name"))


class FileDiagnostic(NamedTuple):
    """A problem found while reading a file. `rule`: the id of the rule about files that reports the problem.
    `severity`: lowers the severity of the rule. `effect`: the second part of the message, if the tool that reads the
    file determines it. `since`: the line on which the unparsable part begins; 0 if unknown. `is_incomplete`: whether
    only `apiVersion` or `kind` is missing: the object may be a patch, or no Kubernetes object.
    """

    rule: str
    problem: str
    location: Location
    remediation: str = ""
    object: ObjectRef | None = None
    severity: Severity | None = None
    effect: str = ""
    since: int = 0
    is_incomplete: bool = False

    @property
    def message(self) -> str:
        """The problem and its effect."""
        return f"{self.problem}: {self.effect}" if self.effect else self.problem

    @property
    def to_line(self) -> str:
        """The message with the fix."""
        return f"{self.message}. Fix: {self.remediation}".replace("?. ", "? ") if self.remediation else self.message


class ChangeSet(NamedTuple):
    """Objects that are applied together, in order; in the webhook, one object. `diagnostics`: problems of the files."""

    subjects: tuple[ReviewedObject, ...] = ()
    diagnostics: tuple[FileDiagnostic, ...] = ()
