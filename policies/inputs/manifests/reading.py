"""Decodes the objects in a file that rules read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Path, cut, listed
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests import sniff
from forewarn.policies.inputs.manifests.documents import Comment, Document, Fault, as_utf8, comments_of, split
from forewarn.policies.inputs.manifests.object_finder import NO_KIND, ObjectFinder
from forewarn.policies.inputs.manifests.yaml.grammar import check, check_as_kubectl, leniently
from forewarn.policies.inputs.manifests.yaml.source import UNUSUAL, Tree, YamlSource, quick_value
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic, ReviewedObject, Source

if TYPE_CHECKING:
    from forewarn.policies.inputs.manifests.embedded import Place
    from forewarn.policies.inputs.manifests.json_text import JsonReader, Spans

MAX_FILE: Final = 64 * 1024 * 1024
"""Maximum bytes of a file of manifests; larger files need too much memory."""

MAX_DOCUMENTS: Final = 100_000
"""Maximum documents of one file, not counting empty ones."""
MAX_DIAGNOSTICS: Final = 10_000
"""Maximum problems in the text of one file; a file with more is not a manifest."""

_LONGEST_KIND: Final = 63
_ENDS_WITH_ACTION: Final = later(rb"^\{[{%][^\n]*[%}]\}\s*\Z", re.MULTILINE)
_LONGEST_ACTION: Final = 1_000
BROKEN: Final = frozenset(("parse-error", "template-braces"))
"""Rules that report an unreadable document."""
UNUSABLE: Final = BROKEN | {"unknown-kind"}
"""Rules that report a document without which predictions would be wrong."""


class Reading(NamedTuple):
    """The contents of one file: its objects in order, problems of the text, and counts.

    `objects`: number of all objects. `skipped`: number of objects of other kinds, by kind. `defined`: the
    `group/Kind` of CustomResourceDefinitions that may have fields for PriorityClasses; "" for an unknown kind.
    `others_read`: whether other tools may read a document that is a problem here.
    """

    subjects: tuple[ReviewedObject, ...] = ()
    diagnostics: tuple[FileDiagnostic, ...] = ()
    objects: int = 0
    skipped: Mapping[str, int] = {}
    comments: tuple[Comment, ...] = ()
    defined: frozenset[str] = frozenset()
    others_read: bool = False


def only_found(skipped: Mapping[str, int]) -> str:
    """Return a phrase with the kinds of skipped objects, such as `; found only Deploymnet`; "" if there are none."""
    kinds = sorted({cut(kind.rpartition("/")[2], _LONGEST_KIND) for kind in skipped})
    return f"; found only {listed(kinds)}" if kinds else ""


def read(text: bytes | str, file: str, wanted: Collection[str], *, namespace: str = "", again: bool = False) -> Reading:
    """Return the objects of a YAML or JSON file as kubectl reads them, with Lists split into items.

    `wanted`: the `group/Kind` of objects to return; other objects are only checked for errors and counted; with
    `again`, only counted. `namespace`: for namespaced objects without one. Never raises for invalid text: errors
    become diagnostics.
    """
    data = as_utf8(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    reader = _FileReader(file, ObjectFinder(wanted, namespace, _Texts(file)), again=again)
    if len(data) > MAX_FILE:
        fault = Fault(f"the file has {len(data) >> 20} MiB: more than {MAX_FILE >> 20} MiB are not read", is_own=True)
        reader.fault(Document(data[:80], file), fault)
    else:
        reader.text(data)
    reading = reader.reading()
    return reading._replace(comments=comments_of(data, file)) if b"forewarn:" in data else reading


def _is_json(data: bytes, file: str) -> bool:
    """Report whether kubectl tries JSON first: `{`, or `[` in a .json file. Source: apimachinery GuessJSONStream."""
    start = data[:4096].lstrip()[:1]
    return start == b"{" or (start == b"[" and file.endswith(".json"))


class _Texts:
    """Parses YAML and JSON text in fields of a file's objects (implements Texts)."""

    def __init__(self, file: str) -> None:
        self._file = file

    def manifests(self, text: str, source: Source, path: Path, finder: ObjectFinder) -> None:
        """Pass the objects in a text to the finder."""
        data = text.encode("utf-8", "surrogatepass")
        from forewarn.policies.inputs.manifests.embedded import place_of

        _FileReader(self._file, finder, place_of(text, source, path)).text(data)

    def values(self, text: str, source: Source, path: Path) -> tuple[Any, Source]:
        """Parse an embedded text into its value and source; the value is None for text that is not YAML."""
        from forewarn.policies.inputs.manifests.embedded import place_of
        from forewarn.policies.inputs.manifests.yaml.nodes import compose
        from forewarn.policies.inputs.manifests.yaml.source import Construction

        document = place_of(text, source, path).moved(
            Document(f"{text}\n".encode("utf-8", "surrogatepass"), self._file)
        )
        try:
            root, _ = compose(document)
            return Construction(root).value, YamlSource(Tree(document))
        except Fault:
            return None, source


class _FileReader:
    """Reads one file; collects objects and problems."""

    def __init__(self, file: str, finder: ObjectFinder, place: Place | None = None, *, again: bool = False) -> None:
        self._file, self._finder, self._place, self._again = file, finder, place, again
        self._diagnostics: list[FileDiagnostic] = []
        self._others_read = False

    def reading(self) -> Reading:
        """The collected result."""
        finder = self._finder
        read = tuple(finder.subjects), tuple(self._diagnostics), finder.objects, finder.skipped
        return Reading(*read, defined=frozenset(finder.defined), others_read=self._others_read)

    def fault(self, document: Document, fault: Fault) -> None:
        """Record the error in a document. Template braces are reported only once per file."""
        from forewarn.policies.inputs.manifests import diagnostics

        self._others_read |= fault.is_own
        diagnostic = diagnostics.broken(document, fault)
        if diagnostic.rule != "template-braces" or all(r.rule != diagnostic.rule for r in self._diagnostics):
            self._diagnostics.append(diagnostic)

    def text(self, data: bytes) -> None:
        """Read JSON or YAML."""
        (self.json if _is_json(data, self._file) else self.yaml)(data)

    def yaml(self, data: bytes, line: int = 0, column: int = 0) -> None:
        """Read YAML text that starts after `line` lines and `column` columns of the file."""
        before = b""
        for count, piece in enumerate(split(data, self._file, line, column)):
            document, fault = piece if isinstance(piece, tuple) else (piece, None)
            above, before = before, document.data
            if fault is not None and _ENDS_WITH_ACTION.search(above[-_LONGEST_ACTION:]):
                continue  # a branch of a template, which the document above reports
            document = self._place.moved(document) if self._place else document
            if self._exceeds_limit(document, count):
                return
            try:
                if fault is not None:
                    raise fault
                leniently(self._document, document)
            except Fault as found:
                self.fault(document, found)

    def _exceeds_limit(self, document: Document, count: int, start: int = 0) -> bool:
        """Report whether the file exceeds a limit from here on, and record it. `count`: documents before."""
        if count >= MAX_DOCUMENTS:
            what = f"more than {MAX_DOCUMENTS} documents"
        elif len(self._diagnostics) >= MAX_DIAGNOSTICS:
            what = f"more than {MAX_DIAGNOSTICS} errors and warnings"
        else:
            return False
        message = f"the file has {what}: forewarn skips the rest"
        where, fix = document.location(start), "split the file into several"
        self._diagnostics.append(FileDiagnostic("parse-error", message, where, fix))
        return True

    def _document(self, document: Document) -> None:
        data, finder = document.data, self._finder
        type_meta = sniff.type_meta(data)
        is_unwanted = not finder.wants(*type_meta, data) if type_meta else sniff.is_untyped(data)
        if is_unwanted and type_meta and type_meta[1] == "CustomResourceDefinition":
            finder.define(data)
        if is_unwanted and (self._again or not sniff.matters_beyond_grammar(data)):
            if not self._again:
                check(document)
            finder.skip(type_meta[1] if type_meta else NO_KIND)
            return
        check_as_kubectl(document)
        value = UNUSUAL if b"<<: *" in data else quick_value(document)
        unwanted_kind = type_meta[1] if is_unwanted and type_meta else ""
        if value is UNUSUAL:
            self._careful(document, unwanted_kind)
        elif unwanted_kind:
            finder.skip(unwanted_kind)
        elif value is not None:
            tree = Tree(document)
            self._diagnostics += finder.take(value, lambda prefix: YamlSource(tree, prefix))

    def _careful(self, document: Document, unwanted_kind: str) -> None:
        """Read a document as a tree of nodes, and record its objects and the problems in them. Slower than
        `quick_value`. `unwanted_kind`: the document contains only an object of this kind, which no rule reads.
        """
        from forewarn.policies.inputs.manifests import diagnostics
        from forewarn.policies.inputs.manifests.yaml.nodes import compose
        from forewarn.policies.inputs.manifests.yaml.source import Construction

        finder = self._finder
        root, unread = compose(document)
        if unread is not None:
            self.fault(document, unread)
        construction = Construction(root)
        if unwanted_kind:
            finder.skip(unwanted_kind)
            return
        if root is None or construction.value is None:
            return
        tree = Tree(document)
        tree.root = root
        before = len(finder.subjects)
        self._diagnostics += finder.take(construction.value, lambda prefix: YamlSource(tree, prefix))
        if len(finder.subjects) > before:
            self._diagnostics += diagnostics.of_yaml(document, root, construction.repeated, finder.subjects[before:])

    def json(self, data: bytes) -> None:
        """Read a stream of JSON values; if the first or second is invalid, the rest as YAML, as kubectl does."""
        from forewarn.policies.inputs.manifests.json_text import JsonReader, NotJson, Spans, skip

        document = Document(data, self._file)
        document = self._place.moved(document) if self._place else document
        text = document.text  # what is no UTF-8 is U+FFFD to kubectl
        values, spans = JsonReader(text), Spans(document)
        position, count = skip(text, 0), 0
        while position < len(text):
            if self._exceeds_limit(document, count, position):
                return
            try:
                value, end = values.value(position)
            except Fault as fault:
                may_be_yaml = isinstance(fault, NotJson) and count < 2
                if not may_be_yaml or not self._yaml_instead(text, position):
                    self.fault(document, fault)
                return
            self._value(value, spans, position, values)
            position, count = skip(text, end), count + 1

    def _value(self, value: object, spans: Spans, start: int, values: JsonReader) -> None:
        from forewarn.policies.inputs.manifests import diagnostics
        from forewarn.policies.inputs.manifests.json_text import JsonSource

        finder = self._finder
        before = len(finder.subjects)
        self._diagnostics += finder.take(value, lambda prefix: JsonSource(spans, start, prefix))
        if len(finder.subjects) > before and values.repeats(start):
            self._diagnostics += diagnostics.of_json(spans, start, finder.subjects[before:])

    def _yaml_instead(self, text: str, position: int) -> bool:
        """Read the rest as YAML; false if a .json file's text is invalid YAML, too, to report the JSON error."""
        space = re.compile(r"[^\S\n]*\n").match(text, position)
        start = space.end() if space else position
        other = _FileReader(self._file, self._finder.fork(), self._place)
        other.yaml(text[start:].encode(), text.count("\n", 0, start), start - text.rfind("\n", 0, start) - 1)
        if self._file.endswith(".json") and any(diagnostic.rule in BROKEN for diagnostic in other._diagnostics):
            return False
        self._diagnostics += other._diagnostics
        self._others_read |= other._others_read
        self._finder.merge(other._finder)
        return True
