"""The positions of objects in files, for errors with file, line and column."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Final, TypeGuard

from forewarn.policies.base.findings import ObjectRef, Path, cut, field_path, grouped, listed, plural
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.kubernetes.objects.workload import LAST_APPLIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from forewarn.policies.base.documents.answer import AnswerDocument, Why
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject

API_OBJECT: Final = "API object"
"""The name of the file of an API object that is given as a `dict`."""
_BY_CONTROLLER: Final = "its controller creates the Pods"
_MAX_LENGTH: Final = 300
"""Maximum characters of a reason."""
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
        self._of_creators: list[ObjectRef] = []
        self._repeated: dict[str, None] = {}
        self.notes: list[str] = []
        """Sentences about effects of objects that are not simulated."""

    def leave_out(self, subject: ReviewedObject) -> None:
        """Note an object whose controller creates Pods that forewarn does not predict."""
        self.add(subject)
        self._of_creators.append(subject.ref)

    @property
    def left_out(self) -> list[Exception]:
        """The errors of the objects that are left out."""
        what, fix = f"not predicted: {_BY_CONTROLLER}", "pass one of these Pods"
        return [InvalidObject(what, (), ref, fix, _BY_CONTROLLER) for ref in self._of_creators]

    def warnings(self) -> Iterator[str]:
        """Yield sentences about objects that are left out, and about objects that are given several times."""
        if self._repeated:
            yield f"given several times: {listed([*self._repeated])}; the last one counts, as for kubectl apply"
        if self._of_creators:
            yield f"not predicted: {listed([*map(str, self._of_creators)])} ({_BY_CONTROLLER})"
        yield from self.notes

    def add(self, subject: ReviewedObject) -> None:
        known = self._subjects.setdefault(_place_name(subject.ref), subject)
        if known is not subject and not subject.ref.name.endswith("*"):
            self._repeated[str(subject.ref)] = None

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Return a context manager that adds the positions of the fields to errors that its block raises."""
        try:
            yield
        except InvalidObject as fault:
            raise self.located(fault) from None

    def located(self, fault: Exception) -> Exception:
        """Return the error with the position of its field; unchanged if the object of the error is not from a file.
        Errors in the last-applied annotation are about the stored object, so they get no position.
        """
        if not isinstance(fault, InvalidObject) or fault.ref is None or LAST_APPLIED in fault.path:
            return fault
        subject = self._subjects.get(_place_name(fault.ref))
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


def document_of_rejected(faults: Sequence[Exception]) -> AnswerDocument:
    """Return the answer if all objects are rejected or not predicted: with the reason of a single object, otherwise
    WHY.
    """
    from forewarn.policies.base.documents.answer import (  # slow to import for the linter
        AnswerDocument,
        AnswerStatus,
        Effects,
    )

    counters = Effects(rejected=sum(map(is_rejection, faults)))
    status = AnswerStatus.REJECTED if any(map(is_rejection, faults)) else AnswerStatus.NO_ANSWER
    if len(faults) == 1 and (reasons := _with_reasons(faults)):
        return AnswerDocument(status, *reasons[0], counters)
    clause = "rejected" if status is AnswerStatus.REJECTED else "not predicted"
    return AnswerDocument(status, plural(len(faults), "object"), clause, counters, why=why_rejected(faults))


def why_rejected(faults: Sequence[Exception]) -> Why:
    """Return the distinct reasons why kube-apiserver rejects objects, or forewarn does not predict them."""
    from forewarn.policies.base.documents.answer import Cause, Why

    rejected = [*filter(is_rejection, faults)]
    reasons = grouped((reason, name) for name, reason in _with_reasons(rejected or faults))
    kind = "rejected" if rejected else "notPredicted"
    causes = list[Cause]()
    for why, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        what = f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}"
        causes.append(Cause(len(names), kind, f"{what} ({why})", f"{why}: {what}"))
    if missing := len(faults) - sum(cause.number for cause in causes):
        causes.append(Cause(missing, "notPredicted", "not predicted; see the errors"))
    are = "REJECTED" if rejected else "NOT PREDICTED"
    return Why("rejected", len(faults), f"{plural(len(faults), 'OBJECT IS', 'OBJECTS ARE')} {are}", causes)


def verdict_on(fault: Exception) -> str:
    """The reasons in an error that leaves out all objects; "" for other errors."""
    if not isinstance(fault, Rejected):
        return ""
    what = "rejected" if any(map(is_rejection, fault.faults)) else "not predicted"
    return f"{what}: {listed([cause.reason for cause in why_rejected(fault.faults).causes])}"


def rejections_of(faults: Iterable[Exception]) -> list[str]:
    """The objects that kube-apiserver rejects, or whose Pods it rejects, with the field and the reason."""
    return [f"{name} ({reason})" for name, reason in _with_reasons(filter(is_rejection, faults))]


def _with_reasons(faults: Iterable[Exception]) -> list[tuple[str, str]]:
    """Return the name and the reason of each object."""
    pairs = []
    for fault in faults:
        if isinstance(fault, InvalidObject) and fault.ref:
            field, why = last_field(fault.path), fault.reason
            is_named = field.removesuffix("Name").lower() in why.lower()
            why = cut(why if is_named else f"{field}: {why}", _MAX_LENGTH)
            pairs.append((f"{'Pods of ' if isinstance(fault, PodsRejected) else ''}{fault.ref}", why))
    return pairs


def last_field(path: Path) -> str:
    """Return the last step of a path, of an amount with its holder: `requests.cpu`."""
    return field_path(path[-2:] if path[-2:-1] in (("requests",), ("limits",)) else path[-1:])


def refs_of(faults: Iterable[Exception]) -> list[str]:
    """The objects that these errors are about."""
    return [str(ref) for fault in faults if (ref := getattr(fault, "ref", None)) is not None]


def _place_name(ref: ObjectRef) -> _Named:
    return ref.kind, ref.namespace or "default", ref.name
