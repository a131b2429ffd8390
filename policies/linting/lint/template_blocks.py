"""Finds blocks of Helm templates that never print their content, or that break YAML, without rendering them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from typing import Final

from forewarn.policies.base.findings import Location, Severity, cut
from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests.diagnostics import MAX_LINES, is_in_block
from forewarn.policies.inputs.manifests.templates import TemplateBlock, actions_of, blocks_of
from forewarn.policies.kubernetes.kinds.registry import REMOVED
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic

_HAS: Final = later(r"\{\{-?[ \t]*if\b[^}]*?\.Capabilities\.APIVersions\.Has[ \t]+\"([\w./-]{1,100})\"")
_LOOKUP: Final = later(r"\{\{-?[ \t]*if\b[^}]*?lookup[ \t]+\"scheduling\.k8s\.io/v1\"[ \t]+\"PriorityClass\"")
_NEGATED: Final = later(r"\b(?:not|empty|eq)\b")
_CHECKED: Final = later(r"riorityClass|kind:[ \t]*(?:PodDisruptionBudget|HorizontalPodAutoscaler|CronJob)")
_DEFINES: Final = later(r"^kind:[ \t]*PriorityClass\b", re.MULTILINE)
_TRIMMED: Final = later(r"[ \t]*\{\{-[ \t]*(?:if|with|range|end)\b[^}]*-\}\}[ \t]*")
_GLUED: Final = later(
    r"[ ]*(?:- )?[\w./-]+:[ ]+\{\{-[ ]*(?:(?:quote|toJson|toYaml|default [^\s{}]+)[ ]+)?\$?(?:\.\w+)+"
    r"(?:[ ]*\|[ ]*(?:s?quote|int|toString|toJson|default [^\s{}]+))*[ ]*-?\}\}[ ]*\r?"
)
"""A key whose value is one action on the same line."""
_ENTRY: Final = later(r"[ \t]*(?:- )?[\w./\"-]+:(?:[ \t].*)?")
_SHOWN: Final = 40
_MINORS: Final = {
    "scheduling.k8s.io/v1beta1": 22,
    "scheduling.k8s.io/v1alpha1": 22,
    **{name.rpartition("/")[0]: removed.minor for name, removed in REMOVED.items()},
}
"""`apiVersion` -> the minor version that removed it."""


def faults_in(text: str, file: str) -> Iterator[FileDiagnostic]:
    """Yield the faults of a template's blocks: content that is never printed, and broken YAML."""
    lines, blocks = text.split("\n"), list(blocks_of(text))
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    singles = {*_SINGLES.findall(text)}
    for block in blocks:
        row = bisect_right(starts, block.start)
        place = Location(file, row, 1, len(lines[row - 1]) + 1)
        if (fault := _fault_of(block, text, singles, place)) is not None:
            yield fault
    actions = {position for block in blocks for position in (block.start, block.end)}
    actions.update(action.start for action in actions_of(text) if action.prints)
    remaining = MAX_LINES
    for number, last, message, fix in _dashed(lines):
        column = lines[number].find("{{")
        remaining, is_text = is_in_block(text, starts[last + 1] - 1, remaining)
        if starts[number] + column in actions and not is_text:
            yield FileDiagnostic("parse-error", message, Location(file, number + 1, column + 1, column + 4), fix)


def _dashed(lines: Sequence[str]) -> Iterator[tuple[int, int, str, str]]:
    """Yield the lines with a dash that breaks YAML: the numbers (from 0) of this and of the last broken line, the
    problem and the fix.
    """
    for number, line in enumerate(lines):
        if ": {{-" in line and _GLUED.fullmatch(line):
            message = "the dash removes the blank after the colon: the key and its value are one text"
            yield number, number, message, "write {{ without the dash"
        elif "-}}" in line and 0 < number < len(lines) - 1 and _is_joined(*lines[number - 1 : number + 2]):
            whole = cut(lines[number - 1].strip() + lines[number + 1].strip(), _SHOWN)
            message = f"the dashes remove both line breaks: YAML is {whole}"
            yield number, number + 1, message, "remove the dash before the closing braces"


def _fault_of(block: TemplateBlock, text: str, singles: Collection[str], place: Location) -> FileDiagnostic | None:
    """Return the problem if a block drops its content, otherwise None. `singles`: variables with one item. `place`: the
    first line of the block.
    """
    if (fault := _never_true(block, text)) is not None:
        fix = "ask for the version that Kubernetes serves, or remove the condition"
        return FileDiagnostic("removed-api-version", fault, place, fix, severity=Severity.WARNING)
    if _is_deleted(block, text):
        message = "the PriorityClass is created only if lookup does not find it: the next helm upgrade deletes it"
        fix = "set the annotation helm.sh/resource-policy: keep, or use a value instead of lookup"
        return FileDiagnostic("class-in-hook", message, place, fix)
    loop = _LOOP.match(text, block.start, block.end)
    is_of_one = loop and (loop[1].strip() in singles or _SINGLE.fullmatch(loop[1]))
    if loop and not (is_of_one or _SEPARATES.search(text, block.start, block.end)):
        fix, effect = "begin the loop with a line of ---", "they are one document, of which the last values remain"
        return FileDiagnostic("duplicate-key", "no --- between the objects of this loop", place, fix, effect=effect)
    return None


_LOOP: Final = later(r"\{\{-?[ ]*range\b([^}]*?)[ ]*-?\}\}[ \t]*\n(?:\{\{[^}]*\}\}[ \t]*\n){0,9}(?:apiVersion|kind):")
_SINGLE: Final = later(r"[^}]*?\blist [^\s()]+[ ]*")
"""The operand of a loop over a list with one item."""
_SINGLES: Final = later(r"(\$\w+)[ ]*:?=[ ]*list [^\s()]+[ ]*-?\}\}")
"""The assignment of a list with one item to a variable."""
_SEPARATES: Final = later("---|break|include|template [^\n]")


def _is_joined(before: str, line: str, after: str) -> bool:
    """Report whether an action alone on its line removes the line breaks between two entries."""
    is_flow = before.rstrip().endswith((",", "{", "["))
    return bool(not is_flow and _TRIMMED.fullmatch(line) and _ENTRY.fullmatch(before) and _ENTRY.fullmatch(after))


def _never_true(block: TemplateBlock, text: str) -> str | None:
    """Return why the condition of a block without another branch is false in every cluster; None if it is not."""
    condition = block.opening
    match = None if block.has_else or _NEGATED.search(condition) or "or " in condition else _HAS.match(condition)
    if match is None or not _CHECKED.search(text, block.start, block.end):
        return None
    version = next((version for version in _MINORS if f"{match[1]}/".startswith(f"{version}/")), "")
    minor = _MINORS.get(version)
    return f"{version}: no cluster since Kubernetes 1.{minor} has it, so this is never set" if minor else None


def _is_deleted(block: TemplateBlock, text: str) -> bool:
    """Report whether a block defines a PriorityClass only while it does not exist, and Helm does not keep it."""
    if not _LOOKUP.match(block.opening) or not _NEGATED.search(block.opening):
        return False
    is_kept = text.find("helm.sh/resource-policy", block.start, block.end) >= 0
    return bool(_DEFINES.search(text, block.start, block.end)) and not is_kept
