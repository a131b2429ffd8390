"""Blocks of Helm templates that drop what they contain, or that break YAML: found without rendering."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forewarn.policies.base.findings import Location, Severity, cut
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.kubernetes.kinds.registry import REMOVED
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic

_ACTION: Final = later(r"\{\{-?[ \t]*(if|with|range|define|block|else|end)\b([^}]{0,500})")
_HAS: Final = later(r"\.Capabilities\.APIVersions\.Has[ \t]+\"([\w./-]{1,100})\"")
_LOOKUP: Final = later(r"lookup[ \t]+\"scheduling\.k8s\.io/v1\"[ \t]+\"PriorityClass\"")
_NEGATED: Final = later(r"\b(?:not|empty|eq)\b")
_CHECKED: Final = later(r"riorityClass|kind:[ \t]*(?:PodDisruptionBudget|HorizontalPodAutoscaler|CronJob)")
_DEFINES: Final = later(r"^kind:[ \t]*PriorityClass\b")
_TRIMMED: Final = later(r"[ \t]*\{\{-[ \t]*(?:if|with|range|else|end)\b[^}]*-\}\}[ \t]*")
_ENTRY: Final = later(r"[ \t]*(?:- )?[\w./\"-]+:(?:[ \t].*)?")
_MAX_LINES: Final = 100_000
_SHOWN: Final = 40
_MINORS: Final = {
    "scheduling.k8s.io/v1beta1": 22,
    "scheduling.k8s.io/v1alpha1": 22,
    **{name.rpartition("/")[0]: removed.minor for name, removed in REMOVED.items()},
}
"""`apiVersion` -> the minor version that removed it."""


class _Block(NamedTuple):
    """An open block: its condition, and the index of its line. `has_else`: whether it has another branch."""

    condition: str
    start: int
    has_else: bool = False


def faults_in(text: str, file: str) -> Iterator[FileDiagnostic]:
    """Yield what blocks of a template drop or break."""
    lines = text.split("\n")[:_MAX_LINES]
    for block, end in _blocks(lines):
        place = Location(file, block.start + 1, 1, len(lines[block.start]) + 1)
        body = lines[block.start + 1 : end]
        if (fault := _never_true(block, body)) is not None:
            fix = "ask for the version that Kubernetes serves, or remove the condition"
            yield FileDiagnostic("removed-api-version", fault, place, fix, severity=Severity.WARNING)
        elif _LOOKUP.search(block.condition) and _NEGATED.search(block.condition) and _is_deleted(body):
            message = "the PriorityClass is created only if lookup does not find it: the next helm upgrade deletes it"
            fix = "set the annotation helm.sh/resource-policy: keep, or use a value instead of lookup"
            yield FileDiagnostic("class-in-hook", message, place, fix)
    for number, (before, line, after) in enumerate(zip(lines, lines[1:], lines[2:], strict=False), 2):
        if "-}}" in line and _TRIMMED.fullmatch(line) and _ENTRY.fullmatch(before) and _ENTRY.fullmatch(after):
            message = f"the dashes remove both line breaks: YAML is {cut(before.strip() + after.strip(), _SHOWN)}"
            place = Location(file, number, 1, len(line) + 1)
            yield FileDiagnostic("parse-error", message, place, "remove the dash before the closing braces")


def _blocks(lines: list[str]) -> Iterator[tuple[_Block, int]]:
    """Yield each block, and the index of the line at which it ends."""
    blocks: list[_Block] = []
    for index, line in enumerate(lines):
        for match in _ACTION.finditer(line) if "{{" in line else ():
            word, rest = match[1], match[2]
            if word == "end" and blocks:
                yield blocks.pop(), index
            elif word == "else" and blocks:
                blocks[-1] = blocks[-1]._replace(has_else=True)
            elif word not in ("end", "else"):
                blocks.append(_Block(rest if word == "if" else "", index))


def _never_true(block: _Block, body: list[str]) -> str | None:
    """Return why the condition of a block without another branch is false in every cluster; None if it is not."""
    match = _HAS.search(block.condition)
    is_sure = match and not block.has_else and not _NEGATED.search(block.condition) and "or " not in block.condition
    if match is None or not is_sure or not any(map(_CHECKED.search, body)):
        return None
    version = next((version for version in _MINORS if f"{match[1]}/".startswith(f"{version}/")), "")
    minor = _MINORS.get(version)
    return f"{version}: no cluster since Kubernetes 1.{minor} has it, so this is never set" if minor else None


def _is_deleted(body: list[str]) -> bool:
    """Report whether lines define a PriorityClass that Helm does not keep."""
    return any(map(_DEFINES.search, body)) and not any("helm.sh/resource-policy" in line for line in body)
