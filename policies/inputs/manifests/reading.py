"""Decodes the objects in a file that rules read, and the values of YAML text that is data, such as a cluster snapshot.
Fast detection of the kinds in a document spares the decoding of most documents.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Path, cut, listed
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.documents import Comment, Document, Fault, as_utf8, comments_of, split
from forewarn.policies.inputs.manifests.object_finder import NO_KIND, ObjectFinder, filled_in, items_of
from forewarn.policies.inputs.manifests.yaml.nodes import check, check_as_kubectl, compose, leniently
from forewarn.policies.inputs.manifests.yaml.source import UNUSUAL, Construction, Tree, YamlSource, quick_value
from forewarn.policies.kubernetes.kinds.registry import incomplete_list
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic, ReviewedObject, Source

if TYPE_CHECKING:
    from forewarn.policies.inputs.manifests.json_text import JsonReader, Spans
    from forewarn.policies.inputs.manifests.object_finder import Place


_ROOT_LINE: Final = later(
    rb"\n(?=[^ ])(?:(kind|apiVersion)[ \t]*:([^\n]*)|[^\s#a-zA-Z-]|\.\.\.|-[^ \n\r-]|items[ \t]*:)"
)
"""Matches the lines with the type, and the lines that `_UNUSUAL_ROOT` matches."""
_PLAIN_WORD: Final = later(rb"[ \t]+([A-Za-z][\w./-]*)[ \t]*(?:[ \t]#.*)?\r?")
_CONTINUED: Final = later(rb"\s*(?<=[ \t])[^\s#]")
_UNUSUAL_ROOT: Final = later(rb"\n(?:[^\s#a-zA-Z-]|\.\.\.|-[^ \n\r-]|items[ \t]*:)")
_SEPARATOR: Final = later(rb"\n---[ \t]*\r?(?=\n)")
_BEFORE_CONTENT: Final = later(rb"\n(?![ \t]*(?:#[^\n]*)?\r?\n)")
_KEY_LINE: Final = later(rb"[A-Za-z][\w.-]*[ \t]*:(?:[ \t]|\r?\n)")
_METADATA: Final = later(r"^metadata:[ \t]*\r?\n(?=( +))((?:\1[^\n]*\n?|[ \t]*(?:#[^\n]*)?\n)+)", re.MULTILINE)
_IDENTITY: Final = later(r"(name|namespace):[ \t]+[\"']?([\w.-]+)[\"']?[ \t]*(?:#.*)?\r?")
_ITEM_LINE: Final = later(rb"-[ \n]")
_ITEM_NO_WORD: Final = later(rb"\n-(?! [A-Za-z])")
_KIND_OF_ITEM: Final = later(rb"\n[- ] (?:[^\sA-Za-z-][^\n]*)?kind")
_ESCAPED: Final = later(rb"\\[xuU]")
_BRACE_IN_BRACE: Final = later(rb"\{\s*[\[{]")
_ODD_BREAK: Final = later(rb"\r(?!\n)|\xc2\x85|\xe2\x80[\xa8\xa9]")
"""Line breaks of libyaml that the patterns here do not support."""
_MANY: Final = 4000
_LONG: Final = 1 << 20
_DEEP: Final = b" " * 200
_DEEP_LIST: Final = b"- - - -"
_ANY_KIND: Final = later(rb"kind(?<![^\s{,\"'-]kind)[\"']?[ \t]*:(?![ \t]*(?:\"\"|''))[ \t]*[\"']?([A-Za-z]\w*)?")
_ANY_VERSION: Final = later(rb"apiVersion(?<![^\s{,\"'-]apiVersion)[\"']?[ \t]*:")
_DEFINITION: Final = later(rb"^kind:[ \t]*[\"']?CustomResourceDefinition\b", re.MULTILINE)
_MAX_KINDS: Final = 1_000
_ANY_KEY: Final = later(rb"\n([ \t]*)(?:- +)*(?:[\"']?[A-Za-z][\w./-]*[\"']?)[ \t]*:(?=\s)")
_TYPE_KEY: Final = later(rb"\n([ \t]*)(?:- +)*[\"']?(?:kind|apiVersion)[\"']?[ \t]*:")
_BRACES: Final = later(rb"[\[\]{}]|(?<![\w\"'.-])[\"']?(kind|apiVersion)[\"']?\s*:|\"(?:[^\"\\\n]|\\.)*\"")
_MAX_KEYS: Final = 100_000
_NO_TYPE: Final = later(rb"\n(?:kind|apiVersion)[ \t]*:")


def type_meta(data: bytes) -> tuple[str, str] | None:
    """The (apiVersion, kind) of a document in the usual notation; None if only parsing can show them.

    The usual notation: the root is a block mapping in column 1 whose keys have no quotes, anchors or merges, and both
    keys exist once with a plain word as value.
    """
    text = b"\n" + data
    if not _KEY_LINE.match(text, _first_line(text)):
        return None
    words: dict[bytes, str] = {}
    for match in _ROOT_LINE.finditer(text):
        word = _PLAIN_WORD.fullmatch(match[2]) if match[1] else None
        if word is None or match[1] in words or _CONTINUED.match(text, match.end()):
            return None
        words[match[1]] = word[1].decode("ascii", "replace")
    return (words[b"apiVersion"], words[b"kind"]) if len(words) == 2 else None


def _first_line(text: bytes) -> int:
    """Return the start of the first line with content in a text that starts with a line feed; its end if there is none.

    A separator may precede the content.
    """
    separator = _SEPARATOR.match(text)
    before = _BEFORE_CONTENT.search(text, separator.end() if separator else 0)
    return before.end() if before else len(text)


def identities(data: bytes, file: str) -> Iterator[tuple[dict[str, Any], YamlSource]]:
    """Yield the apiVersion, kind, name and namespace of the objects in a YAML text, each with its source. Ignores
    objects in another notation than that of `type_meta`, and templates.
    """
    pieces = split(as_utf8(data), file) if b"{{" not in data else ()
    for document in (piece for piece in pieces if isinstance(piece, Document)):
        types, metadata = type_meta(document.data), _METADATA.search(document.text)
        lines = metadata[2].split("\n") if metadata else ()
        found = (_IDENTITY.fullmatch(line.removeprefix(metadata[1])) for line in lines if metadata)
        fields = {match[1]: match[2] for match in found if match}
        if types and "name" in fields:
            yield {"apiVersion": types[0], "kind": types[1], "metadata": fields}, YamlSource(Tree(document))


def may_conflict(data: bytes) -> bool:
    """Report whether a text may have a merge conflict that is not resolved."""
    return b"\n=======" in data and b"\n>>>>>>> " in data and b"<<<<<<< " in data


def named_kinds(data: bytes) -> set[str]:
    """Return the kinds in an unparsable text; "" for a kind that is not a plain word, or for an apiVersion without
    kind.

    Of very many kinds, "" replaces the rest.
    """
    kinds = [(match[1] or b"").decode() for match in islice(_ANY_KIND.finditer(data), _MAX_KINDS)]
    is_more = len(kinds) == _MAX_KINDS or (not kinds and _ANY_VERSION.search(data))
    return {*kinds, ""} if is_more else set(kinds)


def may_be_typed(data: bytes) -> bool:
    """Report whether a text may have a kind in any notation: escaped (`"k\\x69nd"`), encoded (`!!binary`) or UTF-16."""
    return any(word in data for word in (b"kind", b"\\", b"!!binary", b"\0"))


def is_definition(data: bytes) -> bool:
    """Report whether a text contains a CustomResourceDefinition in the usual notation, not only its name."""
    return b"CustomResourceDefinition" in data and bool(_DEFINITION.search(data))


def is_typed(data: bytes) -> bool:
    """Report whether an unparsable text has a kind or apiVersion at its root, or in items of a list at its root.

    In JSON-like text: at depth 1. In YAML: indented no deeper than any other key.
    """
    text = data[:_LONG]
    start = text.lstrip()[:2]
    if start[:1] in (b"{", b"[") and start not in (b"{{", b"{%", b"{#"):
        return _is_typed_in_braces(text)
    if _NO_TYPE.search(b"\n" + text):
        return True
    columns = [len(match[1]) for match in islice(_ANY_KEY.finditer(b"\n" + text), _MAX_KEYS)]
    lowest = min(columns, default=0)
    return any(len(match[1]) <= lowest for match in _TYPE_KEY.finditer(b"\n" + text))


def _is_typed_in_braces(text: bytes) -> bool:
    lists = 0
    depth = 0
    for match in _BRACES.finditer(text):
        token = match[0]
        if token in (b"[", b"{"):
            lists += token == b"[" and depth == lists
            depth += 1
        elif token in (b"]", b"}"):
            depth -= 1
            lists = min(lists, max(depth, 0))
        elif match[1] and depth - lists == 1:
            return True
    return False


def is_untyped(data: bytes) -> bool:
    """Report whether a document is certainly a mapping without apiVersion and kind, in the notation of `type_meta`.

    Also true for lists without a kind, or with kinds only inside items whose keys start at the third character. False
    for documents that may be too long or nested too deeply.
    """
    if len(data) > _LONG:
        return False
    text = b"\n" + data
    if _DEEP in text or _DEEP_LIST in text:
        return False
    first = _first_line(text)
    if _ITEM_LINE.match(text, first):
        given = b"kind" in text and (_ITEM_NO_WORD.search(text) or _KIND_OF_ITEM.search(text))
        return not (given or _ESCAPED.search(text) or _UNUSUAL_ROOT.search(text))
    if not _KEY_LINE.match(text, first):
        return False
    return not _NO_TYPE.search(text) and not _UNUSUAL_ROOT.search(text)


def matters_beyond_grammar(data: bytes) -> bool:
    """Report whether a document that seems to be of a kind that no rule reads is decoded anyway: it may be a template,
    be nested deeply, or have other line breaks.
    """
    return (
        _BRACE_IN_BRACE.search(data) is not None
        or data.count(b"[") + data.count(b"{") > _MANY
        or ((b"\r" in data or not data.isascii()) and _ODD_BREAK.search(data) is not None)
    )


MAX_FILE: Final = 64 * 1024 * 1024
"""Maximum bytes of a file of manifests; larger files need too much memory."""

MAX_DOCUMENTS: Final = 100_000
"""Maximum number of documents of one file, not counting empty ones."""
MAX_DIAGNOSTICS: Final = 10_000
"""Maximum number of problems in the text of one file; a file with more is not a manifest."""

_MAX_KIND_LENGTH: Final = 63
_ENDS_WITH_ACTION: Final = later(rb"^\{[{%][^\n]*[%}]\}\s*\Z", re.MULTILINE)
_MAX_ACTION_LENGTH: Final = 1_000
BROKEN: Final = frozenset(("parse-error", "template-braces"))
"""Rules that report an unreadable document."""
UNUSABLE: Final = BROKEN | {"unknown-kind", "removed-api-version"}
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
    kinds = sorted({cut(kind.rpartition("/")[2], _MAX_KIND_LENGTH) for kind in skipped})
    return f"; found only {listed(kinds)}" if kinds else ""


def read(text: bytes | str, file: str, wanted: Collection[str], *, namespace: str = "", again: bool = False) -> Reading:
    """Return the objects of a YAML or JSON file as kubectl reads them, with Lists split into items.

    `wanted`: the `group/Kind` of objects to return; other objects are only checked for errors and counted; with
    `again`, only counted. `namespace`: for namespaced objects without one. Never raises for invalid text: errors
    become diagnostics.
    """
    data = as_utf8(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    reader = _FileReader(file, ObjectFinder(wanted, namespace, FileTexts(file)), again=again)
    if len(data) > MAX_FILE:
        fault = Fault(f"the file has {len(data) >> 20} MiB: more than {MAX_FILE >> 20} MiB are not read", is_own=True)
        reader.fault(Document(data[:80], file), fault)
    elif not reader.has_conflict(data):
        reader.text(data)
    reading = reader.reading()
    return reading._replace(comments=comments_of(data, file)) if b"forewarn:" in data else reading


def _is_json(data: bytes, file: str) -> bool:
    """Report whether kubectl tries JSON first: `{`, or `[` in a .json file. Source: apimachinery GuessJSONStream."""
    start = data[:4096].lstrip()[:1]
    return start == b"{" or (start == b"[" and file.endswith(".json"))


class FileTexts:
    """Parses YAML and JSON text in fields of a file's objects (implements Texts)."""

    def __init__(self, file: str) -> None:
        self._file = file

    def manifests(self, text: str, source: Source, path: Path, finder: ObjectFinder) -> None:
        """Pass the objects in a text to the finder."""
        data = text.encode("utf-8", "surrogatepass")
        from forewarn.policies.inputs.manifests.object_finder import place_of

        _FileReader(self._file, finder, place_of(text, source, path)).text(data)

    def values(self, text: str, source: Source, path: Path) -> tuple[Any, Source]:
        """Parse an embedded text into its value and source; the value is None for text that is not YAML."""
        from forewarn.policies.inputs.manifests.object_finder import place_of
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
        problems = tuple(d for d in self._diagnostics if not (finder.is_of_another_product and d.is_incomplete))
        read = tuple(finder.subjects), problems, finder.objects, finder.skipped
        return Reading(*read, defined=frozenset(finder.defined), others_read=self._others_read)

    def fault(self, document: Document, fault: Fault) -> None:
        """Record the error in a document. Template braces are reported only once per file."""
        from forewarn.policies.inputs.manifests import diagnostics

        self._others_read |= fault.is_own
        diagnostic = diagnostics.broken(document, fault)
        if diagnostic.rule != "template-braces" or all(r.rule != diagnostic.rule for r in self._diagnostics):
            self._diagnostics.append(diagnostic)

    def has_conflict(self, data: bytes) -> bool:
        """Report whether a text has a merge conflict, and record it: nothing else in the file is meant."""
        if not may_conflict(data):
            return False
        from forewarn.policies.inputs.manifests.diagnostics import conflict_in

        self._diagnostics += filter(None, [conflict_in(data, self._file)])
        return bool(self._diagnostics)

    def text(self, data: bytes) -> None:
        """Read JSON or YAML."""
        (self.json if _is_json(data, self._file) else self.yaml)(data)

    def yaml(self, data: bytes, line: int = 0, column: int = 0) -> None:
        """Read YAML text that starts after `line` lines and `column` columns of the file."""
        before = b""
        for count, piece in enumerate(split(data, self._file, line, column)):
            document, fault = piece if isinstance(piece, tuple) else (piece, None)
            above, before = before, document.data
            if fault is not None and _ENDS_WITH_ACTION.search(above[-_MAX_ACTION_LENGTH:]):
                continue  # a branch of a template: the previous document reports it
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
        types = type_meta(data)
        is_unwanted = not finder.wants(*types, data) if types else is_untyped(data)
        if is_unwanted and types and types[1] == "CustomResourceDefinition":
            finder.define(data)
        if is_unwanted and (self._again or not matters_beyond_grammar(data)):
            if not self._again:
                check(document)
            finder.skip(types[1] if types else NO_KIND)
            return
        check_as_kubectl(document)
        value = UNUSUAL if b"<<: *" in data else quick_value(document)
        unwanted_kind = types[1] if is_unwanted and types else ""
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
        self._diagnostics += finder.take(construction.meant(root), lambda prefix: YamlSource(tree, prefix))
        if own := finder.subjects[before:]:
            self._diagnostics += diagnostics.yaml_diagnostics(document, root, construction.repeated, own, "kubectl")

    def json(self, data: bytes) -> None:
        """Read a stream of JSON values; if the first or second is invalid, the rest as YAML, as kubectl does."""
        from forewarn.policies.inputs.manifests.json_text import JsonReader, NotJson, Spans, skip

        document = Document(data, self._file)
        document = self._place.moved(document) if self._place else document
        text = document.text  # kubectl reads invalid UTF-8 as U+FFFD
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
            self._diagnostics += diagnostics.json_diagnostics(spans, start, finder.subjects[before:])

    def _yaml_instead(self, text: str, position: int) -> bool:
        """Read the rest as YAML. Returns false if a .json file is not valid YAML either: the caller reports the JSON
        error.
        """
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


_ITEMS: Final = later(rb"^items:[ \t]*\n(?=- )", re.MULTILINE)
_ITEM: Final = later(rb"^- .*\n(?:(?:[ \t#].*)?\n)*", re.MULTILINE)


class Value(NamedTuple):
    """A value, and the line (from 1) in which it begins."""

    value: Any
    line: int


def values(data: bytes, file: str) -> Iterator[Value]:
    """The values of a YAML text as kubectl reads them, without empty documents. A long List is split into items.

    Raises Fault with the line of the file (from 1) as `start`.
    """
    for piece in split(as_utf8(data), file):
        document, fault = piece if isinstance(piece, tuple) else (piece, None)
        try:
            if fault is not None:
                raise fault
            yield from _values(document)
        except Fault as found:
            raise Fault(found.message, document.line_of(found.start)) from None


def readable_values(data: bytes, file: str) -> Iterator[Any]:
    """The values of the readable documents of a YAML text, including documents that only kubectl rejects."""
    for piece in split(as_utf8(data), file):
        if isinstance(piece, Document):
            with suppress(Fault):
                yield from (text.value for text in _values(piece))


def sourced_values(data: bytes, file: str) -> Iterator[tuple[Any, YamlSource]]:
    """The values of the readable documents of a YAML text with their sources; of a List, the items."""
    for piece in split(as_utf8(data), file):
        if isinstance(piece, Document):
            with suppress(Fault):
                value, tree = leniently(_value, piece), Tree(piece)
                items = items_of(value)
                yield from (
                    [(value, YamlSource(tree))]
                    if items is None
                    else ((item, YamlSource(tree, ("items", number))) for number, item in enumerate(items))
                )


def first_value(data: bytes, file: str) -> Any:
    """The value of the first document of a YAML text; None if there is none, or if the document is invalid."""
    with suppress(Fault):
        documents = (piece for piece in split(as_utf8(data), file) if isinstance(piece, Document))
        return next((text.value for document in documents for text in _values(document)), None)
    return None


def _values(document: Document) -> Iterator[Value]:
    if len(document.data) > _LONG and (cut := _cut(document)) is not None:
        try:
            parent = _value(cut[0])
            is_split = items_of(parent) is not None and not incomplete_list(parent)
            for item in cut[1] if is_split else ():
                yield Value(filled_in(leniently(_value, item), parent), item.line + 1)
        except Fault:
            # An anchor in another item, or a real error: reading the whole document decides. Items are yielded again.
            pass
        else:
            if is_split:
                return
    value = leniently(_value, document)
    if value is not None:
        yield Value(value, document.line + 1)


def _cut(document: Document) -> tuple[Document, Iterator[Document]] | None:
    """Return a List without its items, and the items; None if not in kubectl's notation, with dashes in column 1."""
    match = _ITEMS.search(document.data)
    if match is None:
        return None
    end = match.end()
    while (item := _ITEM.match(document.data, end)) is not None:
        end = item.end()
    rest = document.data[: match.start()] + b"items: []\n" + document.data[end:]
    return Document(rest, document.file), _items(document, match.end())


def _value(document: Document) -> Any:
    check_as_kubectl(document)
    value = quick_value(document)
    if value is not UNUSUAL:
        return value
    root, unread = compose(document)
    if unread is not None:
        raise unread
    return Construction(root).value


def _items(document: Document, start: int) -> Iterator[Document]:
    line = document.line + document.data.count(b"\n", 0, start)
    while (match := _ITEM.match(document.data, start)) is not None:
        yield Document(b"  " + match[0][2:], document.file, line)
        line += match[0].count(b"\n")
        start = match.end()


def scalars_in(value: Any, limit: int) -> Iterator[tuple[Path, Any]]:
    """Yield (path, value) of the scalars in a value of YAML. Reads at most `limit` scalars and collections."""
    to_do: list[tuple[Path, Any]] = [((), value)]
    for _ in range(limit):
        if not to_do:
            return
        path, inner = to_do.pop()
        if isinstance(inner, dict | list):
            entries = inner.items() if isinstance(inner, dict) else enumerate(inner)
            to_do += (((*path, key), entry) for key, entry in entries)
        else:
            yield path, inner
