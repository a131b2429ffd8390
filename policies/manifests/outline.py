"""The outline of a template that is not rendered: what stands in its objects whatever its values are."""

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
"""Rules on text that hold for an outline."""
_KIND: Final = re.compile(rb"^kind[\"']?[ \t]*:[ \t]*[\"']?(\w{1,100})", re.MULTILINE)
_VERSIONS: Final = {spec.kind: spec.api_version for spec in KINDS if spec.template}
_UNKNOWN_VERSION: Final = re.compile(
    rf"^(apiVersion:[ ]+)({UNKNOWN.pattern}{{10,500}})(?=[ ]*\r?\nkind:[ ]+(\w+)[ ]*\r?$)", re.MULTILINE
)
_NEAR: Final = 500
"""Lines above a repeated key in which the first one is searched."""


class Outline(NamedTuple):
    """The objects that a template prints as they are, those of which fields are unknown, and diagnostics."""

    whole: list[ReviewedObject]
    partial: list[ReviewedObject]
    diagnostics: list[FileDiagnostic]


def outline(
    data: bytes, file: str, wanted: Collection[str], namespace: str, before: Sequence[ReviewedObject] = ()
) -> Outline:
    """The outline of a template. `before`: objects in documents that were read as they are."""
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
            found.whole.append(subject)
        elif _has_one_type(rest, subject, masked):
            has_namespace = at(subject.object, "metadata", "namespace") is not None
            place = RELEASE_NAMESPACE if has_namespace else subject.namespace
            found.partial.append(subject._replace(object=rest, namespace=place, is_partial=True))
    return found


def _may_have(data: bytes, wanted: Collection[str]) -> bool:
    """Report whether a template names a kind that is read, or a misspelt kind."""
    kinds = {kind.decode() for kind in _KIND.findall(data)}
    ours = {kind.rpartition("/")[2] for kind in wanted}
    return not kinds.isdisjoint(ours) or any("prio" in kind.lower() or kind.endswith("List") for kind in kinds)


def _with_version(found: re.Match[str]) -> str:
    """An unknown apiVersion of a built-in workload as the one that it has, with the same length."""
    return found[1] + _VERSIONS.get(found[3], found[2]).ljust(len(found[2]))


def _has_one_type(known: ApiObject, subject: ReviewedObject, masked: Masked) -> bool:
    """Report whether the kind is known and does not depend on a branch."""
    if not (known.get("kind") and known.get("apiVersion")):
        return False
    kind, metadata = (subject.source.locate((field,), key=True).line - 1 for field in ("kind", "metadata"))
    return masked.blocks[kind] == masked.blocks[metadata]


def lines_of(subject: ReviewedObject) -> range:
    """The lines, from 0, of the document that an object is in."""
    if not isinstance(subject.source, YamlSource):
        return range(0)
    document = subject.source.tree.document
    return range(document.line, document.line + document.data.count(b"\n"))


def _known(value: Any) -> Any:
    """A value with null for what is unknown in it, and without unknown keys."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items() if not UNKNOWN.search(key)}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return None if isinstance(value, str) and UNKNOWN.search(value) else value


def _certain(diagnostics: Iterable[FileDiagnostic], masked: Masked) -> Iterator[FileDiagnostic]:
    """The diagnostics that hold whatever the values are."""
    lines = masked.text.split("\n")
    for found in diagnostics:
        is_certain = found.rule in _ON_TEXT and UNKNOWN.search(found.message) is None
        if is_certain and (found.rule != "duplicate-key" or _is_repeated(found.location, lines, masked.blocks)):
            known = found.object and ObjectRef(*("" if UNKNOWN.search(part) else part for part in found.object))
            yield found._replace(object=known)


def _is_repeated(kept: Location, lines: Sequence[str], blocks: Sequence[tuple[int, ...]]) -> bool:
    """Report whether a key and an earlier equal key are printed together: the block of one contains the block of the
    other.
    """
    start, end = kept.column - 1, kept.end_column - 1
    number = kept.line - 1
    for above in range(number - 1, max(number - _NEAR, -1), -1):
        line = lines[above]
        if line[start:end] == lines[number][start:end] and not line[:start].strip(" -"):
            shorter = min(len(blocks[above]), len(blocks[number]))
            return blocks[above][:shorter] == blocks[number][:shorter]
    return False
