"""Finds limits in the values of a chart that contradict each other, without rendering: of replicas and evictions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Location, Path, Severity, field_path, grouped, plural
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.templates import blocks_of
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic
from forewarn.policies.kubernetes.objects.workload import NO_EVICTION, evictable_from
from forewarn.policies.linting.lint.chart_texts import (
    MAX_BLOCKS,
    MAX_READ,
    OF_VALUES,
    Chart,
    ChartText,
    ChartValues,
    Scope,
)
from forewarn.policies.linting.rules.support.rule_text import PRODUCTION, is_test_file

if TYPE_CHECKING:
    import re

_TEST: Final = later(r"\{\{-?\s*(?:if|with)\s+(not\s+)?\$?\.Values\.([\w.]+)\s*-?\}\}")
"""The opening of a block that tests one value, or that it is false."""
_LIMITS: Final = ("minAvailable", "maxUnavailable", "minReplicas", "maxReplicas")


def contradicting_limits(chart: Chart) -> Iterator[FileDiagnostic]:
    """Yield the values of a chart whose limits contradict each other, or with which no Pod can be evicted."""
    files = chart.files[:MAX_READ] if chart.defaults else ()
    yield from _contradicting_limits(chart.templates, files)
    yield from _undone_scaling(chart.templates, files)
    yield from _blocked_evictions(chart.templates, files)


def _contradicting_limits(templates: Sequence[ChartText], settings: Sequence[ChartValues]) -> Iterator[FileDiagnostic]:
    """Yield the values with which kube-apiserver rejects a PodDisruptionBudget or HorizontalPodAutoscaler."""
    for template in templates:
        limits = [entry for entry in template.entries if entry["key"] in _LIMITS]
        objects = grouped((template.kind_before(entry.start()), entry) for entry in limits)
        for own in [each for each in objects.values() if len(each) > 1]:
            paths = {entry["key"]: template.path_at(entry.start("value"), entry["value"]) for entry in own}
            required = _conditions_of(template, own) if len(own) == len(paths) and all(paths.values()) else None
            for each in settings:
                if _holds(required, each) and any(each.setting(path) is each for path in paths.values()):
                    yield from _contradiction(paths, each)


_Conditions = Sequence[tuple[Path, bool]]
"""Paths of values, each with whether the value must be true, or else false."""


def _conditions_of(template: ChartText, entries: Sequence[re.Match[str]]) -> _Conditions | None:
    """Return the conditions with which a template prints all entries; None if unknown."""
    blocks = [(template.scope_at(entry.start("value")) or Scope()).openings for entry in entries]
    return None if max(map(len, blocks)) == MAX_BLOCKS else _tested(chain.from_iterable(blocks))


def _tested(openings: Iterable[str]) -> _Conditions | None:
    """Return the conditions of blocks that test one value each; None if a block tests something else."""
    tested = [*map(_TEST.fullmatch, openings)]
    return None if None in tested else [(tuple(test[2].split(".")), not test[1]) for test in tested if test is not None]


def _holds(conditions: _Conditions | None, values: ChartValues) -> bool:
    return conditions is not None and all(bool(values.get(path)) is wanted for path, wanted in conditions)


def _contradiction(paths: Mapping[str, Path], values: ChartValues) -> Iterator[FileDiagnostic]:
    """Yield the contradiction between the limits at these paths, if there is one."""
    given = {key: values.get(path) for key, path in paths.items()}
    least, most = given.get("minReplicas"), given.get("maxReplicas")
    message = ""
    if given.keys() == {"minAvailable", "maxUnavailable"} and not {None, ""}.intersection(given.values()):
        message = "minAvailable and maxUnavailable are both set: kube-apiserver rejects the PodDisruptionBudget"
    elif isinstance(least, int) and isinstance(most, int) and least > most:
        message = f"minReplicas {least} is above maxReplicas {most}: kube-apiserver rejects the HorizontalPodAutoscaler"
    for path in [path for path in paths.values() if message and values.setting(path) is values][:1]:
        fix = "make the limits agree" if least else "empty one of them"
        yield FileDiagnostic("value-rejected", message, values.source.locate(path), fix)


_NAME: Final = later(r"\n  name:[ ]*(\S[^\n]*)")
_TARGET: Final = later(r"\n  scaleTargetRef:(?:\n    \w+:[^\n]*){0,2}?\n    name:[ ]*(\S[^\n]*)")


def _undone_scaling(templates: Sequence[ChartText], settings: Sequence[ChartValues]) -> Iterator[FileDiagnostic]:
    """Yield the locations at which templates set `replicas` although values enable a HorizontalPodAutoscaler; notes if
    these are only values of tests and examples.
    """
    scaled: dict[str, _Conditions] = {}
    for template in templates:
        for target, limit in template.entries_with("maxReplicas", _TARGET):
            if required := _conditions_of(template, [limit]):
                scaled[target] = required
    for template in templates if scaled else ():
        for name, entry in template.entries_with("replicas", _NAME):
            enabling, required = scaled.get(name), _conditions_of(template, [entry])
            path = template.path_at(entry.start("value"), entry["value"])
            if not enabling or not path or required is None:
                continue
            conditions = [*enabling, *required, (path, True)]
            found = [each for each in settings if _holds(conditions, each)]
            for name in sorted((os.path.basename(each.file.name) for each in found), key=is_test_file)[:1]:
                enabled, where = field_path(enabling[-1][0]), "" if name in OF_VALUES else f" in {name}"
                message = f"helm upgrade undoes the scaling by the HorizontalPodAutoscaler: {enabled} is set{where}"
                fix = f"write replicas in {{{{- if not .Values.{enabled} }}}}"
                place = template.place(*entry.span("key"))
                severity = Severity.NOTE if is_test_file(name) else Severity.WARNING
                yield FileDiagnostic("update-without-effect", message, place, fix, severity=severity)


_LITERAL: Final = later(
    r"\n  (?P<key>minAvailable|maxUnavailable|replicas|minReplicas):[ ]+(?P<value>[0-9]{1,9}%?)[ ]*(?=\n)"
)
_SELECTOR: Final = later(r"\n  selector:\n    matchLabels:([^\n]*\n(?:      [^\n]*\n)*)")
_LAYOUT: Final = later(r"\{\{-?[ ]*|[ ]*-?\}\}|[ ]*\|[ ]*n?indent[ ]+\d+|\s+")


class _Number(NamedTuple):
    """A number of an object in a template: the path of its value, or the number. `required`: see `_conditions_of`.
    `name`: of the object, as the template writes it.
    """

    place: Location
    name: str
    path: Path
    literal: str
    required: _Conditions | None

    def number(self, values: ChartValues) -> Any:
        """Return the number; a percentage as text."""
        value = values.get(self.path) if self.path else self.literal
        return int(value) if isinstance(value, str) and value.isdecimal() else value


def _numbers(templates: Sequence[ChartText], key: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, _Number]]:
    """Yield the numbers at a key in objects that a pattern matches, each with the matched text without its layout."""
    for template in templates:
        literals = [match for match in _LITERAL.finditer(template.text) if match["key"] == key]
        for text, entry in (*template.entries_with(key, pattern), *template.matches_with(literals, pattern)):
            path: Path = ()
            if entry["value"][0] in ".$":
                path = template.path_at(entry.start("value"), entry["value"])
                required = _conditions_of(template, [entry]) if path else None
            else:
                blocks = [block for block in blocks_of(template.text) if block.start < entry.start() < block.end]
                required = None if any(block.has_else for block in blocks) else _tested(b.opening for b in blocks)
            name = next((name for name, _ in template.matches_with([entry], _NAME)), "")
            place = template.place(*entry.span("value"))
            yield _LAYOUT.sub("", text), _Number(place, _LAYOUT.sub("", name), path, entry["value"], required)


def _blocked_evictions(templates: Sequence[ChartText], settings: Sequence[ChartValues]) -> Iterator[FileDiagnostic]:
    """Yield the values with which a PodDisruptionBudget allows no eviction: notes if these are not for production."""
    budgets = [(key, *found) for key in _LIMITS[:2] for found in _numbers(templates, key, _SELECTOR)]
    if not budgets:
        return
    workloads, scalers = (
        grouped(_numbers(templates, key, pattern))
        for key, pattern in (("replicas", _SELECTOR), ("minReplicas", _TARGET))
    )
    production = [values for values in settings if PRODUCTION.search(os.path.basename(values.file.name))]
    for key, selector, budget in budgets:
        found = dict[ChartValues, tuple[str, str, Location | None]]()
        for values in [values for values in settings if _holds(budget.required, values)]:
            counted = _counted(workloads.get(selector, ()), scalers, values)
            if (fault := _fault_of(key, budget, counted, values)) is not None:
                found[values] = (*fault, _place_in(values, budget, counted))
        is_deployed = not found.keys().isdisjoint(production)
        for values, (message, fix, place) in found.items():
            is_default = values is settings[0]
            severity = None if values in (production or settings[:1]) or (is_default and is_deployed) else Severity.NOTE
            if place is not None or is_default:
                yield FileDiagnostic("evictions-blocked", message, place or budget.place, fix, severity=severity)


def _place_in(values: ChartValues, budget: _Number, counted: _Number | None) -> Location | None:
    """Return where a file of values sets a number, or decides whether it is printed; None if only its base does."""
    numbers = [budget, counted] if counted else [budget]
    paths = [*(number.path for number in numbers), *(path for number in numbers for path, _ in number.required or ())]
    own = (path for path in paths if path and values.setting(path) is values)
    return next((values.source.locate(path) for path in own), None)


def _counted(
    workloads: Sequence[_Number], scalers: Mapping[str, Sequence[_Number]], values: ChartValues
) -> _Number | None:
    """Return what decides the number of replicas of the only workload: the minimum of its autoscaler, or the workload
    itself; None if unknown.
    """
    scaling = scalers.get(workloads[0].name, ()) if len(workloads) == 1 else ()
    is_known = len(workloads) == 1 and all(number.required is not None for number in scaling)
    printed = (number for number in (*scaling, *workloads) if _holds(number.required, values))
    return next(printed, None) if is_known else None


def _fault_of(key: str, budget: _Number, counted: _Number | None, values: ChartValues) -> tuple[str, str] | None:
    """Return why a PodDisruptionBudget allows no eviction, and the fix; None if it allows one, or if unknown."""
    limit, count = budget.number(values), counted.number(values) if counted else None
    if (key, str(limit)) in NO_EVICTION:
        return f"{key} {limit} allows no eviction: kubectl drain retries without end", "set maxUnavailable: 1"
    enough = evictable_from(limit) if key == "minAvailable" else None
    if counted is None or enough is None or type(count) is not int or not 0 < count < enough:
        return None
    shown = f"{limit}, rounded up," if isinstance(limit, str) else limit
    where = field_path(counted.path) if counted.path else "the number of replicas"
    message = f"minAvailable {shown} allows no eviction of the {plural(count, 'replica')}"
    return (
        f"{message} ({where})" if counted.path else message,
        f"set {where} to at least {enough}, or use maxUnavailable: 1",
    )
