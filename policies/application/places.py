"""The positions of objects in files, for errors with file, line and column."""

from __future__ import annotations

import re
from contextlib import contextmanager
from copy import copy
from itertools import filterfalse
from typing import TYPE_CHECKING, Final, TypeGuard

from forewarn.policies.findings import ObjectRef, cut, field_path, first_line, first_of, one_line, plural
from forewarn.policies.objects.fields import InvalidObject
from forewarn.policies.objects.workload import LAST_APPLIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from forewarn.policies.objects.reviewed_object import ReviewedObject

API_OBJECT: Final = "API object"
"""The name of the file of an API object that is given as a `dict`."""
_LONGEST: Final = 100
"""Maximum characters of a reason."""
_LONGEST_NAME: Final = 200
_Named = tuple[str, str, str]


class Rejected(InvalidObject):
    """Admission rejects all objects of a change or of manifests. `faults`: the error of each."""

    def __init__(self, faults: Sequence[Exception]) -> None:
        super().__init__(str(faults[-1]))
        self.faults = faults


class PodsRejected(InvalidObject):
    """kube-apiserver accepts the object, and rejects its Pods, for example by the Priority plugin."""


class Places:
    """The objects that a command has read from files. Of several objects with the same name, the first one counts."""

    def __init__(self) -> None:
        self._subjects: dict[_Named, ReviewedObject] = {}

    def add(self, subject: ReviewedObject) -> None:
        self._subjects.setdefault(_named(subject.ref), subject)

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Raise the errors of the block with the positions of their fields."""
        try:
            yield
        except InvalidObject as fault:
            raise self.located(fault) from None

    def located(self, fault: Exception) -> Exception:
        """Return the error with the position of its field; unchanged if the object of the error is not from a file.

        The last apply is that of the stored object, whatever the file has.
        """
        if not isinstance(fault, InvalidObject) or fault.ref is None or LAST_APPLIED in fault.path:
            return fault
        subject = self._subjects.get(_named(fault.ref))
        if subject is None:
            return fault
        where = subject.locate(fault.path)
        text = ": ".join(part for part in (str(fault.ref), field_path(fault.path), fault.problem) if part)
        is_in_file = where.line and where.file != API_OBJECT
        located = copy(fault)
        located.args = (f"{where.file}:{where.line}:{where.column}: {text}",) if is_in_file else fault.args
        return located


def is_rejection(fault: Exception) -> TypeGuard[InvalidObject]:
    """Report whether a field of an object is invalid; otherwise forewarn does not predict the object."""
    return isinstance(fault, InvalidObject) and bool(fault.path and fault.ref)


def verdict_on(fault: Exception) -> str:
    """The first line of an answer that leaves out all objects; "" for another error."""
    if not isinstance(fault, Rejected):
        return ""
    return first_line("", *("; ".join(filter(None, both)) for both in _left_out(fault.faults)))


def left_out(faults: Sequence[Exception], updates: Sequence[Exception] = ()) -> list[tuple[str, str]]:
    """The start of a first line about the objects that are rejected, and its end about those that are not predicted:
    with reasons, with names, with numbers. `updates`: the errors of updates.
    """
    return [(start and f"{start}; ", end and f"; {end}") for start, end in _left_out(faults, updates)]


def _left_out(faults: Sequence[Exception], updates: Sequence[Exception] = ()) -> Iterator[tuple[str, str]]:
    refused, others = [*filter(is_rejection, faults)], [*filterfalse(is_rejection, faults)]
    return zip(_forms("rejected", refused, updates), _forms("not predicted", others), strict=True)


def _forms(what: str, faults: Sequence[Exception], updates: Sequence[Exception] = ()) -> tuple[str, str, str]:
    if not (names := [f"{_part(fault, updates)}{ref}" for fault in faults for ref in refs_of([fault])]):
        return "", "", ""
    reasons, named = ("".join(naming(what, items)) for items in (_with_reasons(faults, updates), names))
    return reasons, named, f"{plural(len(names), 'object')} {what}"


def _part(fault: Exception, updates: Sequence[Exception]) -> str:
    """What of an object is rejected; "" for the object."""
    return "Pods of " if isinstance(fault, PodsRejected) else "update of " * (fault in updates)


def naming(what: str, objects: Iterable[str]) -> Iterator[str]:
    """Yield a clause with the names of objects, if there are any."""
    if names := [cut(one_line(name), _LONGEST_NAME) for name in objects]:
        yield f"{what}: {first_of(names, 'object')}"


def rejections_of(faults: Iterable[Exception]) -> list[str]:
    """The objects that kube-apiserver rejects, or whose Pods it rejects, with the field and the reason."""
    return _with_reasons(filter(is_rejection, faults))


def _with_reasons(faults: Iterable[Exception], updates: Sequence[Exception] = ()) -> list[str]:
    return [
        f"{_part(fault, updates)}{fault.ref} ({_why(fault)})"
        for fault in faults
        if isinstance(fault, InvalidObject) and fault.ref
    ]


def _why(fault: InvalidObject) -> str:
    why = re.split(". Fix: |; known: ", re.sub("^(rejected|not predicted): ", "", fault.problem))[0]
    field = field_path(fault.path[-1:])
    is_named = field.removesuffix("Name").lower() in why.lower()
    return cut(why if is_named else f"{field}: {why}", _LONGEST)


def refs_of(faults: Iterable[Exception]) -> list[str]:
    """The objects that these errors are about."""
    return [str(ref) for fault in faults if (ref := getattr(fault, "ref", None)) is not None]


def _named(ref: ObjectRef) -> _Named:
    return ref.kind, ref.namespace or "default", ref.name
