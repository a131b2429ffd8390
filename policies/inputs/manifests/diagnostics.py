"""The problems of a text: syntax errors, template braces, duplicate keys, ambiguous scalars."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Location, ObjectRef, Severity, cut, quote
from forewarn.policies.base.light import later
from forewarn.policies.inputs.manifests.documents import NOT_TEXT, Document, Fault
from forewarn.policies.inputs.manifests.yaml.nodes import UNREAD, Collection, Node, Scalar
from forewarn.policies.inputs.manifests.yaml.scalars import doubtful
from forewarn.policies.inputs.manifests.yaml.source import Repeated, YamlSource, index_by_key, scalar_value, span
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic, ReviewedObject

if TYPE_CHECKING:
    from forewarn.policies.inputs.manifests.json_text import Spans

_BRACES: Final = later(
    r"(?=[{%<@$]|^[ \t])(?:\{\{.*?(?:\}\}|$)|\{%.*?(?:%\}|$)|%\{.*?(?:\}|$)|<%.*?(?:%>|$)"
    r"|(?<![\w@])@[A-Za-z_][\w.-]{0,100}@|(?<![\w%])%%?[A-Za-z_][\w.-]{0,100}%|\$\{[^}\n]{0,100}\}"
    r"|^[ \t]{0,100}\$[A-Z_]\w{0,100}[ \t]*$|(?<![^\s\"'])\{[A-Za-z_]\w{0,100}\}(?=[\w./:-])"
    r"|^[ \t]{0,100}<[^<>\n]{1,200}>[ \t]*$)",
    re.MULTILINE,
)
"""Template syntax. The lookahead for its first character comes first, so that few positions of a text need the
alternatives.

Linear time: every alternative ends on its line, and those with an end mark have a maximum length.
"""
_IN_VALUE: Final = later(r"^[^\[{]*:[ \t][^\[{]*[\w:/.\"'-]$")
"""The text of a line before a `${VARIABLE}` that is part of a value, so that the line is valid YAML."""
_ALONE: Final = later(r"[ \t]*(?:\$(?:\{[^}\n]*\}|[A-Z_]\w*)|</?#[^<>\n]*>)[ \t]*\r?\n")
"""A line that rendering replaces: a variable or a FreeMarker directive. libyaml reports its error on the next line."""
_SURE: Final = "{{"
"""Template syntax that breaks YAML everywhere except in text; others are reported only on the line of an error."""
OPENS_SCALAR: Final = later(r"(?:^|[\s:-])[|>][-+0-9]{0,2}[ \t]*(?:#.*)?\r?$")
MAX_LINES: Final = 2_000
"""The maximum number of lines above braces that are searched for the start of a block scalar."""
_FIXES: Final = {
    NOT_TEXT: "pass YAML or JSON, or exclude the file",
    UNREAD: "replace `...` with ---, or remove what follows it",
}
_RENDER_FIRST: Final = "render the template first: `helm template … | forewarn lint -`"


def broken(document: Document, fault: Fault) -> FileDiagnostic:
    """The problem of an unparsable document: `template-braces` if template syntax is the cause, else `parse-error`."""
    places = () if fault.is_own else (fault.start,) if fault.since is None else (fault.start, fault.since)
    braces = next(filter(None, (_braces(document.text, place) for place in places)), None)
    if braces is not None:
        shown = braces[0] if len(braces[0]) <= 60 else f"{braces[0][:57]}..."
        what = "template braces" if shown.startswith(_SURE) else "template syntax"
        message = f"{what} {shown}: this is a template, not a manifest"
        return FileDiagnostic("template-braces", message, document.location(*braces.span()), _RENDER_FIRST)
    if not fault.is_own and (glued := _glued(document.text, fault.start)) is not None:
        message = f"no blank after the colon of `{glued[1]}:`, so the line is plain text"
        return FileDiagnostic("parse-error", message, document.location(*glued.span(1)), f"write `{glued[1]}: …`")
    line = document.line_of(fault.start)
    since = line if fault.since is None else document.line_of(fault.since)
    message = fault.message if since == line else f"{fault.message} that begins on line {since}"
    fix = _FIXES.get(fault.message, "fix the syntax here")
    if (split := _SPLIT.match(document.text, fault.start)) is not None:
        message = f"blanks split the template braces {{ {{ {split[1]} }} }}"
        fix = f"write {{{{ {split[1]} }}}}" if "templates/" in document.file else "write the value"
    return FileDiagnostic("parse-error", message, document.location(fault.start, fault.end), fix, since=since)


def conflict_in(data: bytes, file: str) -> FileDiagnostic | None:
    """Return the problem of a text with a merge conflict that is not resolved, at its first mark; None without one."""
    marks, start = list[int](), 0
    for mark in _CONFLICT:
        if (match := mark.search(data, start)) is None:
            return None
        start = match.end()
        marks.append(match.start())
    document = Document(data, file)
    place = document.location(len(data[: marks[0]].decode("utf-8", "replace")))
    fix = f"keep the lines above or below line {document.line_of(len(data[: marks[1]].decode('utf-8', 'replace')))}"
    return FileDiagnostic("parse-error", "unresolved merge conflict", place, f"{fix}, and remove the marks")


_CONFLICT: Final = tuple(later(mark, re.MULTILINE) for mark in (rb"^<{7} [^\n]*\n", rb"^={7}\r?\n", rb"^>{7} "))
"""The marks of git in the order of the lines."""
_SPLIT: Final = later(r"\{[ ]*([.$][^{}\n]{1,100}?)[ ]*\}[ ]+\}")
"""The end of `{ { .Values.x } }`: a formatter that reads the braces of a template as mappings writes these blanks."""
_GLUED: Final = later(r"[ \t]*([A-Za-z][\w.-]{0,62}):[^\s:/][^\n]*\n", re.MULTILINE)


def _glued(text: str, fault: int) -> re.Match[str] | None:
    """Return the topmost of the consecutive lines above an error that have no space after the colon of their key."""
    glued, end = None, text.rfind("\n", 0, fault) + 1
    for _ in range(MAX_LINES):
        start = text.rfind("\n", 0, max(end - 1, 0)) + 1
        if not end or (match := _GLUED.fullmatch(text, start, end)) is None:
            break
        glued, end = match, start
    return glued


def _braces(text: str, fault: int) -> re.Match[str] | None:
    """Return the template syntax that causes an error: on the line of the error, or before it outside of strings;
    None if none.

    `fault`: position of the error.
    """
    line_start = text.rfind("\n", 0, fault) + 1
    above = text.rfind("\n", 0, max(line_start - 1, 0)) + 1
    if _ALONE.fullmatch(text[above : min(line_start, above + _A_LINE)]):
        line_start = above
    line_end = text.find("\n", fault)
    left = MAX_LINES
    for match in islice(_BRACES.finditer(text, 0, len(text) if line_end < 0 else line_end), 1000):
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if "#" in before and (before.lstrip().startswith("#") or " #" in before):
            continue
        if match.start() >= line_start and not (match[0].startswith("${") and _IN_VALUE.search(before)):
            return match
        if match[0].startswith(_SURE) and not (before.count('"') % 2 or before.count("'") % 2):
            left, is_text = is_in_block(text, match.start(), left)
            if not is_text:
                return match
    return None


def is_in_block(text: str, at: int, limit: int) -> tuple[int, bool]:
    """Report whether a position is in a block scalar (`|`, `>`), judging by the lines above it.

    `limit`: maximum number of lines to read. Returns (the remaining number, the result; true if it is 0).
    """
    start = text.rfind("\n", 0, at) + 1
    indent = len(text[start:at]) - len(text[start:at].lstrip(" "))
    while start and indent and limit:
        end, start = start - 1, text.rfind("\n", 0, start - 1) + 1
        limit -= 1
        line = text[start : min(end, start + _A_LINE)]
        depth = len(line) - len(line.lstrip(" "))
        if depth >= indent or not line.strip() or line.lstrip().startswith(("#", "{{")):
            continue
        if OPENS_SCALAR.search(line):
            return limit, True
        indent = depth
    return limit, not limit


_A_LINE: Final = 1_000
"""How many characters of a line are searched."""


def yaml_diagnostics(
    document: Document, root: Node, repeats: Sequence[Repeated], subjects: Sequence[ReviewedObject], tool: str
) -> Iterator[FileDiagnostic]:
    """Yield the problems of a YAML document that a tool reads: repeated keys everywhere, ambiguous scalars in the
    subjects.
    """
    owner_at = _yaml_owners(subjects)
    keys_of_root = {id(key) for key in root.children[::2]} if repeats and isinstance(root, Collection) else ()
    repeats_of_root = [kept.key for _, kept in repeats if id(kept.key_node) in keys_of_root]
    # In a document without separators, the first key of each further object.
    typed = repeats_of_root[0] if {"apiVersion", "kind"} <= {*repeats_of_root} else ""
    for repeated in repeats:
        lost, kept = repeated
        where, line = span(document, kept.key_node), document.line_of(lost.key_node.start)
        if typed and id(kept.key_node) in keys_of_root:
            if kept.key == typed:
                yield _not_separated(line, where, owner_at(kept.key_node.start), tool)
        elif kept.merged:
            yield _overwritten(lost.key, span(document, lost.key_node), where.line, owner_at(lost.key_node.start), tool)
        else:
            found = _duplicate(lost.key, line, where, owner_at(kept.key_node.start), tool)
            if id(kept.key_node) in keys_of_root and repeated.lost_identity:
                effect = f"{tool} drops the one on line {line}, and kube-apiserver rejects the object without a name"
                found = found._replace(rule="parse-error", effect=effect, remediation="merge them")
            yield harmless(found, line) if _is_same(lost.value, kept.value) else found
    for scalar, message in doubtful(root):
        owner = owner_at(scalar.start)
        if owner is not None:
            import json

            string, value = f'"{cut(scalar.text, _MAX_KEY_LENGTH)}"', json.dumps(scalar_value(scalar))
            fix = f"write {string}" if string == value else f"write {string} for a string, else {value}"
            yield FileDiagnostic("ambiguous-value", message, span(document, scalar), fix, owner)


def json_diagnostics(spans: Spans, start: int, subjects: Sequence[ReviewedObject]) -> Iterator[FileDiagnostic]:
    """Yield the problems of a JSON text: repeated keys in the subjects."""
    from forewarn.policies.inputs.manifests.json_text import JsonSource, repeated

    document = spans.document
    owner_at = _owners([(*s.source.extent(), s.ref) for s in subjects if isinstance(s.source, JsonSource)])
    for lost, kept in repeated(document.text, start):
        owner = owner_at(kept.key_start)
        if owner is not None:
            where = document.location(kept.key_start, kept.key_end)
            yield _duplicate(str(kept.key), document.line_of(lost.key_start), where, owner, "kubectl")


_MAX_KEY_LENGTH: Final = 40


def _is_same(one: Node, other: Node) -> bool:
    """Report whether two values are equal, mappings in any order; not for aliases and texts of several lines."""
    to_do = [(one, other)]
    while to_do:
        one, other = to_do.pop()
        if isinstance(one, Scalar) and isinstance(other, Scalar):
            if one.text != other.text or not one.text.isprintable() or _type(one) is not _type(other):
                return False
        elif not isinstance(one, Collection) or not isinstance(other, Collection) or one.is_mapping != other.is_mapping:
            return False
        elif not one.is_mapping:
            if len(one.children) != len(other.children):
                return False
            to_do += zip(one.children, other.children, strict=True)
        else:
            mine, others = index_by_key(one), index_by_key(other)
            if mine.keys() != others.keys() or not 2 * len(mine) == len(one.children) == len(other.children):
                return False
            to_do += ((value, others[key]) for key, value in mine.items())
    return True


def _type(scalar: Scalar) -> object:
    try:
        return type(scalar_value(scalar))
    except Fault:
        return scalar


def _duplicate(key: str, line: int, where: Location, owner: ObjectRef | None, tool: str) -> FileDiagnostic:
    problem = f"duplicate key {quote(cut(key, _MAX_KEY_LENGTH))}"
    effect = f"{tool} drops the value on line {line} without a warning"
    return FileDiagnostic("duplicate-key", problem, where, "keep one of them", owner, effect=effect)


def harmless(duplicate: FileDiagnostic, line: int) -> FileDiagnostic:
    """A duplicate key as a note: both keys have the same value."""
    return duplicate._replace(effect=f"the key on line {line} has the same value", severity=Severity.NOTE)


def _not_separated(line: int, where: Location, owner: ObjectRef | None, tool: str) -> FileDiagnostic:
    what, fix = "two objects in one document", "separate them with ---"
    effect = f"{tool} drops the object on line {line} without a warning"
    return FileDiagnostic("duplicate-key", what, where, fix, owner, effect=effect)


def _overwritten(key: str, where: Location, line: int, owner: ObjectRef | None, tool: str) -> FileDiagnostic:
    name = quote(cut(key, _MAX_KEY_LENGTH))
    message = f"{tool} overwrites key {name} with the << after it (line {line}); YAML 1.2 keeps it"
    return FileDiagnostic("ambiguous-value", message, where, "put << before the keys that override it", owner)


def _yaml_owners(subjects: Sequence[ReviewedObject]) -> Callable[[int], ObjectRef | None]:
    """Return a function: character position in the document -> the subject at this position, or None."""
    spans = []
    for subject in subjects:
        if isinstance(subject.source, YamlSource):
            if not subject.source.prefix:
                ref = subject.ref
                return lambda _: ref
            *_, (node, _) = subject.source.tree.way(subject.source.prefix)
            spans.append((node.start, node.end, subject.ref))
    return _owners(spans)


def _owners(spans: list[tuple[int, int, ObjectRef]]) -> Callable[[int], ObjectRef | None]:
    """Return a function: position -> the object of the span that contains it, or None. Spans must not overlap."""
    spans.sort(key=lambda span: span[0])
    starts = [start for start, _, _ in spans]

    def owner(index: int) -> ObjectRef | None:
        at = bisect_right(starts, index) - 1
        return spans[at][2] if at >= 0 and index < spans[at][1] else None

    return owner
