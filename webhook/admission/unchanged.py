"""Warnings about what an update leaves as it is: an object that is applied again says nothing anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action
from policies.objects.fields import InvalidObject, at
from policies.objects.reviewed_object import Operation
from policies.objects.workload import pod_template_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.findings import Finding
    from policies.objects.reviewed_object import ReviewedObject

_HOW_MANY: Final = ("replicas", "parallelism", "completions", "suspend", "paused")
"""Fields of a workload's spec that decide how many pods come, and whether any do."""


def without_repeats(
    subject: ReviewedObject,
    findings: list[Finding],
    paths: Mapping[str, tuple[str, ...]],
    judge: Callable[[ReviewedObject], list[Finding]],
) -> list[Finding]:
    """The findings on a subject; a warning that an update would get if it changed nothing goes to the audit log alone.

    A workload that asks for other pods, or another number of them, is warned all the same: its pods are to come.
    `judge` gives the findings on another subject. Denials stay.
    """
    if subject.operation is not Operation.UPDATE or not subject.old:
        return findings
    if all(finding.action is not Action.WARN for finding in findings) or asks_for_pods(subject, paths):
        return findings
    stood = {_what(finding) for finding in judge(subject._replace(object=subject.old))}
    return [
        finding._replace(action=Action.AUDIT) if finding.action is Action.WARN and _what(finding) in stood else finding
        for finding in findings
    ]


def _what(finding: Finding) -> tuple[str, str, str]:
    return finding.rule, finding.path, finding.message


def asks_for_pods(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether the update of a workload changes its pods, or how many there are to be."""
    try:
        new, old = pod_template_of(subject.object, paths), pod_template_of(subject.old or {}, paths)
    except InvalidObject:
        return True
    if new is None and old is None:
        return False
    if new is None or old is None or new.object != old.object:
        return True
    return any(at(subject.object, "spec", key) != at(subject.old or {}, "spec", key) for key in _HOW_MANY)
