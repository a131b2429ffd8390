"""YAML text in a field of an object: its documents, with their positions in the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.policies.base.light import NamedTuple
from forewarn.policies.inputs.manifests.documents import Document
from forewarn.policies.inputs.manifests.yaml.source import YamlSource

if TYPE_CHECKING:
    from forewarn.policies.base.findings import Location, Path
    from forewarn.policies.kubernetes.objects.reviewed_object import Source


class Place(NamedTuple):
    """The position of an embedded text: offsets of its lines and columns; or `at`, one location for the whole text."""

    line: int = 0
    indent: int = 0
    at: Location | None = None

    def moved(self, document: Document) -> Document:
        """A document of the embedded text, at its position in the file."""
        return Document(document.data, document.file, document.line + self.line, document.column, self.indent, self.at)


class ExpandedSource(NamedTuple):
    """The source of an object whose embedded texts have been replaced by their parsed values."""

    outer: Source
    texts: dict[Path, Source]

    def locate(self, path: Path, *, key: bool = False) -> Location:
        """The position of the value at `path`, inside or outside an embedded text."""
        for end in range(len(path) - 1, 0, -1):
            if (inner := self.texts.get(path[:end])) is not None:
                return inner.locate(path[end:], key=key)
        return self.outer.locate(path, key=key)


def place_of(text: str, source: Source, path: Path) -> Place:
    """Return the position of an embedded text at a path.

    Only lines of a literal block (`|`) in YAML are lines of the file; for other text, `at` is the location of the
    value.
    """
    at = source.locate(path)
    if not isinstance(source, YamlSource) or source.tree.document.at is not None:
        return Place(at=at)
    document = source.tree.document
    lines, header = document.lines, at.line - document.line - 1
    begin = at.column - 1 - document.indent - (document.column if header == 0 else 0)
    own = text.split("\n")
    first = next((number for number, line in enumerate(own) if line.strip()), 0)
    number = header + 1 + first
    if number >= len(lines) or lines[header][begin : begin + 1] != "|":
        return Place(at=at)
    line = lines[number].rstrip("\r")
    blank = line[: len(line) - len(own[first])]
    if blank.strip(" ") or not line.endswith(own[first]):
        return Place(at=at)
    return Place(at.line, document.indent + len(blank))
