"""The positions of objects in files, for errors with file, line and column."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeGuard

from forewarn.policies.findings import ObjectRef, cut, field_path
from forewarn.policies.objects.fields import InvalidObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from forewarn.policies.objects.reviewed_object import ReviewedObject

API_OBJECT: Final = "API object"
"""The name of the file of an API object that is given as a `dict`."""
_LONGEST: Final = 80
"""Maximum characters of a reason."""
_Named = tuple[str, str, str]


class Rejected(InvalidObject):
    """Admission rejects all objects of a change or of manifests. `faults`: the error of each."""

    def __init__(self, faults: Sequence[Exception]) -> None:
        super().__init__(str(faults[-1]))
        self.faults = faults


class PodsRejected(InvalidObject):
    """kube-apiserver accepts the object, and the Priority plugin rejects its Pods."""


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
        """Return the error with the position of its field; unchanged if the object of the error is not from a file."""
        subject = self._subjects.get(_named(fault.ref)) if isinstance(fault, InvalidObject) and fault.ref else None
        if subject is None or not isinstance(fault, InvalidObject):
            return fault
        where = subject.locate(fault.path)
        text = ": ".join(part for part in (str(fault.ref), field_path(fault.path), fault.problem) if part)
        is_in_file = where.line and where.file != API_OBJECT
        return type(fault)(f"{where.file}:{where.line}:{where.column}: {text}") if is_in_file else fault


def is_rejection(fault: Exception) -> TypeGuard[InvalidObject]:
    """Report whether a field of an object is invalid; otherwise forewarn does not predict the object."""
    return isinstance(fault, InvalidObject) and bool(fault.path and fault.ref)


def rejections_of(faults: Iterable[Exception]) -> list[str]:
    """The objects that kube-apiserver rejects, or whose Pods it rejects, with the reason."""
    reasons = {fault: fault.problem.removeprefix("rejected: ") for fault in filter(is_rejection, faults)}
    return [
        f"{'Pods of ' * isinstance(fault, PodsRejected)}{fault.ref} "
        f"({cut(re.split('. Fix: |; known: ', why)[0], _LONGEST)})"
        for fault, why in reasons.items()
    ]


def refs_of(faults: Iterable[Exception]) -> list[str]:
    """The objects that these errors are about."""
    return [str(ref) for fault in faults if (ref := getattr(fault, "ref", None)) is not None]


def _named(ref: ObjectRef) -> _Named:
    return ref.kind, ref.namespace or "default", ref.name
