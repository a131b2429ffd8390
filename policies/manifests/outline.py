"""The outline of an unrendered template: the parts of its objects that do not depend on values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import ObjectRef
from forewarn.policies.kinds.registry import KINDS, RELEASE_NAMESPACE
from forewarn.policies.manifests.documents import as_utf8
from forewarn.policies.manifests.reading import read
from forewarn.policies.manifests.template_mask import UNKNOWN, mask
from forewarn.policies.manifests.yaml.source import YamlSource
from forewarn.policies.objects.fields import at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from forewarn.policies.findings import Location
    from forewarn.policies.manifests.template_mask import Masked
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.reviewed_object import FileDiagnostic, ReviewedObject

_ON_TEXT: Final = frozenset(("duplicate-key", "ambiguous-value", "unknown-kind"))
"""Rules about text that are valid for an outline."""
_KIND: Final = re.compile(rb"^kind[\"']?[ \t]*:[ \t]*[\"']?(\w{1,100})", re.MULTILINE)
_VERSIONS: Final = {spec.kind: spec.api_version for spec in KINDS if spec.template}
_UNKNOWN_VERSION: Final = re.compile(
    rf"^(apiVersion:[ ]+)({UNKNOWN.pattern}{{10,500}})(?=[ ]*\r?\nkind:[ ]+(\w+)[ ]*\r?$)", re.MULTILINE
)
_NEAR: Final = 500
"""Maximum lines above a repeated key in which the first one is searched."""


class Outline(NamedTuple):
    """The objects that a template prints unchanged, those with unknown fields, and problems of the text."""

    complete: list[ReviewedObject]
    partial: list[ReviewedObject]
    diagnostics: list[FileDiagnostic]


def outline(
    data: bytes, file: str, wanted: Collection[str], namespace: str, before: Sequence[ReviewedObject] = ()
) -> Outline:
    """Return the outline of a template. `before`: objects of documents that need no rendering."""
    masked = mask(as_utf8(data).decode("utf-8", "replace")) if _may_have(data, wanted) else None
    if masked is None:
        return Outline([], [], [])
    text = _UNKNOWN_VERSION.sub(_with_version, masked.text)
    reading = read(text, file, wanted, namespace=namespace, again=True)
    found = Outline([], [], list(_certain(reading.diagnostics, masked)))
    known = {lines.start for subject in before if (lines := lines_of(subject))}
    for subject in reading.subjects:
        lines = lines_of(subject)
        if not lines or lines.start in known:
            continue
        rest = _known(subject.object)
        if rest == subject.object and not any(masked.lost[lines.start : lines.stop]):
            found.complete.append(subject)
        elif _has_one_type(rest, subject, masked):
            has_namespace = at(subject.object, "metadata", "namespace") is not None
            place = RELEASE_NAMESPACE if has_namespace else subject.namespace
            found.partial.append(subject._replace(object=rest, namespace=place, is_partial=True))
    return found


def _may_have(data: bytes, wanted: Collection[str]) -> bool:
    """True if a template names a wanted kind, or a misspelled one."""
    kinds = {kind.decode() for kind in _KIND.findall(data)}
    ours = {kind.rpartition("/")[2] for kind in wanted}
    return not kinds.isdisjoint(ours) or any("prio" in kind.lower() or kind.endswith("List") for kind in kinds)


def _with_version(found: re.Match[str]) -> str:
    """The apiVersion of a built-in workload in place of an unknown one, padded to the same length."""
    return found[1] + _VERSIONS.get(found[3], found[2]).ljust(len(found[2]))


def _has_one_type(known: ApiObject, subject: ReviewedObject, masked: Masked) -> bool:
    """Report whether the object's kind is known, and is the same in all branches of the template."""
    if not (known.get("kind") and known.get("apiVersion")):
        return False
    kind, metadata = (subject.source.locate((field,), key=True).line - 1 for field in ("kind", "metadata"))
    return masked.blocks[kind] == masked.blocks[metadata]


def lines_of(subject: ReviewedObject) -> range:
    """The lines (from 0) of the document that contains an object."""
    if not isinstance(subject.source, YamlSource):
        return range(0)
    document = subject.source.tree.document
    return range(document.line, document.line + document.data.count(b"\n"))


def _known(value: Any) -> Any:
    """A value with None for unknown parts, and without unknown keys."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items() if not UNKNOWN.search(key)}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return None if isinstance(value, str) and UNKNOWN.search(value) else value


def _certain(diagnostics: Iterable[FileDiagnostic], masked: Masked) -> Iterator[FileDiagnostic]:
    """Yield the problems that do not depend on the values of the template."""
    lines = masked.text.split("\n")
    for found in diagnostics:
        is_certain = found.rule in _ON_TEXT and UNKNOWN.search(found.message) is None
        if is_certain and (found.rule != "duplicate-key" or _is_repeated(found.location, lines, masked.blocks)):
            known = found.object and ObjectRef(*("" if UNKNOWN.search(part) else part for part in found.object))
            yield found._replace(object=known)


def _is_repeated(kept: Location, lines: Sequence[str], blocks: Sequence[tuple[int, ...]]) -> bool:
    """Report whether a key and an earlier equal key are printed together: the block of one contains the block of the
    other.

    `blocks`: of each line, the numbers of the template blocks that contain it.
    """
    start, end = kept.column - 1, kept.end_column - 1
    number = kept.line - 1
    for above in range(number - 1, max(number - _NEAR, -1), -1):
        line = lines[above]
        if line[start:end] == lines[number][start:end] and not line[:start].strip(" -"):
            shorter = min(len(blocks[above]), len(blocks[number]))
            return blocks[above][:shorter] == blocks[number][:shorter]
    return False
