"""Reviewed objects: objects with an operation, in the order of one apply."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from forewarn.policies.findings import NOWHERE, Location, ObjectRef, Path
from forewarn.policies.kinds.registry import DEFAULT_NAMESPACE
from forewarn.policies.objects.fields import NOTHING, ref_of

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.workload import PodTemplate


class Operation(StrEnum):
    """The operation of a request."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class Source(Protocol):
    """The source of an object: finds the position of any field."""

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """The span of the value at `path` (of its key, if asked for); of the nearest parent where it is absent."""


class NoSource:
    """The source of what came over the network."""

    def locate(self, path: Path, *, key: bool = False) -> Location:  # noqa: ARG002  (the protocol's signature)
        """Nowhere."""
        return NOWHERE


NO_SOURCE: Final = NoSource()


class User(NamedTuple):
    """The requester (`request.userInfo`)."""

    name: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class ReviewedObject(NamedTuple):
    """One object and what is done with it. `object` is empty on DELETE; `old` is what the request replaces.

    `part`: the one pod template of several in it that is judged. `within`: what creates it, where it stands in another
    object of its file. `is_partial`: it is a template's, and has more fields than are known.
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

    @property
    def ref(self) -> ObjectRef:
        """Which object this is."""
        return ref_of(self.object or self.old or NOTHING, self.namespace)

    @property
    def effective_namespace(self) -> str:
        """The namespace that the object, or the judged part of it, is in, of a kind that is in one."""
        return (self.part.namespace if self.part else "") or self.ref.namespace or DEFAULT_NAMESPACE

    def locate(self, path: Path) -> Location:
        """The place of the value at `path`; of the object's name where it is absent."""
        found: object = self.object
        for step in path:
            if isinstance(found, Mapping) or (isinstance(found, list) and isinstance(step, int) and step < len(found)):
                found = found.get(step) if isinstance(found, Mapping) else found[step]  # type: ignore[index]
            else:
                found = None
        if path and found is not None:
            return self.source.locate(path)
        return self.source.locate(("metadata", "name"))


class FileDiagnostic(NamedTuple):
    """A problem found while a file was read: `rule` is the id of its file rule."""

    rule: str
    message: str
    location: Location
    remediation: str = ""
    object: ObjectRef | None = None


class ChangeSet(NamedTuple):
    """Objects that come together and see each other, in order; the webhook's has one. `diagnostics`: on the files."""

    subjects: tuple[ReviewedObject, ...] = ()
    diagnostics: tuple[FileDiagnostic, ...] = ()
