"""Warnings that the object caused already before an update: only the audit log contains them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action
from forewarn.policies.objects.fields import InvalidObject, at
from forewarn.policies.objects.reviewed_object import Operation
from forewarn.policies.objects.workload import pod_template_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forewarn.policies.findings import Finding
    from forewarn.policies.objects.reviewed_object import ReviewedObject

_HOW_MANY: Final = ("replicas", "parallelism", "completions", "suspend", "paused")
"""Fields of a workload that determine the number of its Pods."""


def without_repeats(
    subject: ReviewedObject,
    findings: list[Finding],
    paths: Mapping[str, tuple[str, ...]],
    evaluate: Callable[[ReviewedObject], list[Finding]],
) -> list[Finding]:
    """Return the findings; warnings that the stored object would also get become audit annotations.

    An update that changes the Pods or their number keeps its warnings, because the update creates Pods. `evaluate`
    returns the findings on another object. Denials do not change.
    """
    if subject.operation is not Operation.UPDATE or not subject.old:
        return findings
    if all(finding.action is not Action.WARN for finding in findings) or changes_pods(subject, paths):
        return findings
    stood = {_what(finding) for finding in evaluate(subject._replace(object=subject.old))}
    return [
        finding._replace(action=Action.AUDIT) if finding.action is Action.WARN and _what(finding) in stood else finding
        for finding in findings
    ]


def _what(finding: Finding) -> tuple[str, str, str]:
    return finding.rule, finding.path, finding.message


def changes_pods(subject: ReviewedObject, paths: Mapping[str, tuple[str, ...]]) -> bool:
    """True if the update of a workload changes its Pods or their number."""
    try:
        new, old = pod_template_of(subject.object, paths), pod_template_of(subject.old or {}, paths)
    except InvalidObject:
        return True
    if new is None and old is None:
        return False
    if new is None or old is None or new.object != old.object:
        return True
    return any(at(subject.object, "spec", key) != at(subject.old or {}, "spec", key) for key in _HOW_MANY)
