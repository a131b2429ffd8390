"""Parses files of expectations: lists of `{name, when, expect}` in YAML or JSON; see docs/guides/test-a-cluster.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import cut
from forewarn.policies.objects.fields import json_type
from forewarn.policies.selectors import PodPattern
from forewarn.policies.simulation.events_file import EntryFault, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ANY: Final = "any"
MAX: Final = 10_000
"""Maximum expectations of one run."""
_LONGEST: Final = 1000
"""Maximum characters of a text."""
_SHOWN: Final = 80
"""Maximum characters of a text in a message."""
_WHEN: Final = {
    "lost": ("zone", "node", "pool"),
    "drain": ("node", "zone"),
    "scale": ("workload", "namespace", "replicas"),
    "apply": (),
    "delete": (),
}
_SELECTOR: Final = ("namespace", "class", "workload")


class When(NamedTuple):
    """The event of an expectation: `operation` on `what` (`zone`, `node`, `pool`, `workload`, `file`) with a `name`,
    or `any`.
    """

    operation: str = ""
    what: str = ""
    name: str = ""
    namespace: str = "default"
    replicas: int = 0


class Fit(NamedTuple):
    """The expectation that `replicas` more Pods like those of a file fit."""

    file: str
    replicas: int
    preempting: bool = False


class Expectation(NamedTuple):
    """An expectation.

    `run`: these Pods run at the end as before, `within` a number of seconds. `pending`: none of these Pods is
    Pending. `preempted`: none of these Pods is preempted by a Pod of `by`. `fit`: see Fit.
    """

    name: str
    line: int
    when: When = When()
    run: PodPattern | None = None
    within: float | None = None
    pending: PodPattern | None = None
    preempted: PodPattern | None = None
    by: PodPattern = PodPattern()
    fit: Fit | None = None


def read_expectations(values: Iterable[tuple[Any, int]]) -> Iterator[Expectation]:
    """Yield the expectations of a file, whose documents are lists or single entries. Raises ValueError, which names
    the entry.
    """
    number = 0
    for value, line in values:
        for entry in value if isinstance(value, list) else [value]:
            number += 1
            if number > MAX:
                raise ValueError(f"more than {MAX} expectations")
            try:
                yield _expectation(entry, line)
            except ValueError as fault:
                name = entry.get("name") if isinstance(entry, dict) else None
                named = f" ({cut(name, _SHOWN)})" if isinstance(name, str) else ""
                raise EntryFault(number, f"expectation {number}{named}: {fault}") from None


def _expectation(entry: Any, line: int) -> Expectation:
    fields = _object(entry, "an expectation", ("name", "when", "expect"))
    name = _text(fields.get("name"), "name")
    when = _when(_object(fields.get("when") or {}, "when", tuple(_WHEN)))
    expected = _object(fields.get("expect"), "expect", ("run", "within", "noPending", "noPreemption", "by", "fit"))
    expectation = Expectation(name, line, when)
    if "run" in expected:
        expectation = expectation._replace(run=_selector(expected["run"], "run"))
    if "within" in expected:
        expectation = expectation._replace(within=seconds(expected["within"], "within"))
    if "noPending" in expected:
        expectation = expectation._replace(pending=_selector(expected["noPending"], "noPending"))
    if "noPreemption" in expected:
        expectation = expectation._replace(preempted=_selector(expected["noPreemption"], "noPreemption"))
    if "by" in expected:
        expectation = expectation._replace(by=_selector(expected["by"], "by"))
    if "fit" in expected:
        expectation = expectation._replace(fit=_fit(expected["fit"]))
    return _checked(expectation)


def _checked(expectation: Expectation) -> Expectation:
    if (
        expectation.run is None
        and expectation.pending is None
        and expectation.preempted is None
        and expectation.fit is None
    ):
        raise ValueError("expect must have one of run, noPending, noPreemption, fit")
    if expectation.within is not None and expectation.run is None:
        raise ValueError("within needs run")
    if expectation.by != PodPattern() and expectation.preempted is None:
        raise ValueError("by needs noPreemption")
    if expectation.fit is not None and expectation.when.operation:
        raise ValueError("fit is evaluated on the current cluster; remove when")
    return expectation


def _when(condition: Mapping[str, Any]) -> When:
    if not condition:
        return When()
    if len(condition) > 1:
        raise ValueError(f"when must have one of {', '.join(_WHEN)}")
    ((operation, value),) = condition.items()
    if operation in ("apply", "delete"):
        return When(operation, "file", _text(value, operation))
    fields = _object(value, operation, _WHEN[operation])
    if operation == "scale":
        workload, namespace = _text(fields.get("workload"), "workload"), fields.get("namespace", "default")
        return When(operation, "workload", workload, _text(namespace, "namespace"), _count(fields, "replicas"))
    if len(fields) != 1:
        raise ValueError(f"{operation} must have one of {', '.join(_WHEN[operation])}")
    ((what, name),) = fields.items()
    return When(operation, what, _text(name, what))


def _fit(value: Any) -> Fit:
    fields = _object(value, "fit", ("file", "replicas", "preempting"))
    preempting = fields.get("preempting", False)
    if not isinstance(preempting, bool):
        raise ValueError("preempting must be true or false")
    return Fit(_text(fields.get("file"), "file"), _count(fields, "replicas"), preempting)


def _selector(value: Any, what: str) -> PodPattern:
    fields = _object(value, what, _SELECTOR)
    return PodPattern(*(None if name not in fields else _text(fields[name], name, empty=True) for name in _SELECTOR))


def _object(value: Any, what: str, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be an object, not {json_type(value)}")
    extra = sorted(str(key) for key in value if key not in known)
    if extra:
        raise ValueError(f'unknown key "{cut(extra[0], _SHOWN)}" in {what}: allowed are {", ".join(known)}')
    return value


def _text(value: Any, what: str, *, empty: bool = False) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a string, not {json_type(value)}")
    if not (value or empty) or len(value) > _LONGEST:
        raise ValueError(f"{what} must have {0 if empty else 1} to {_LONGEST} characters")
    return value


def _count(fields: Mapping[str, Any], what: str) -> int:
    value = fields.get(what)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError(f"{what} must be a whole number from 0 to {2**31 - 1}")
    return value
