"""The outline of an unrendered template: the parts of its objects that do not depend on values.

First masks the actions of the template (`{{ … }}`, `{% … %}`) so that all positions remain the same.

An action that is alone on its line, or that prints whole lines, becomes blank. Other actions become characters that
mark their scalar as unknown. Only the first branch of `if … else` remains. Text in `define` is removed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import ObjectRef
from forewarn.policies.kinds.registry import KINDS, RELEASE_NAMESPACE, removed_version
from forewarn.policies.manifests.documents import as_utf8
from forewarn.policies.manifests.object_finder import intended_type
from forewarn.policies.manifests.reading import read
from forewarn.policies.manifests.yaml.source import YamlSource
from forewarn.policies.objects.fields import at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from forewarn.policies.findings import Location
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.reviewed_object import FileDiagnostic, ReviewedObject


_OUTPUT: Final = "\ue000"
"""The replacement for each character of an action that prints."""
_CONTROL: Final = "\ue001"
"""The replacement for each character of an action that does not print."""
UNKNOWN: Final = re.compile(f"[{_OUTPUT}{_CONTROL}]")
_OPENING: Final = re.compile(r"\{\{(?:-?\s*+(/\*))?|\{%|(?<!\$)\{#")
_WITH_STRINGS: Final = re.compile(r"(?:[^\"`}]|\"(?:[^\"\\\n]|\\.)*+\"|`[^`]{0,1000}+`|\}(?!\}))*+\}\}")
"""The rest of an action of Go, whose strings may contain braces."""
_CLOSING: Final = {"{{": "}}", "{%": "%}", "{#": "#}"}
_WORD: Final = re.compile(r"\{[{%][-+~]?\s*+([a-z]++(?![\w.])|[#^/!]|\$\w*+\s*+:?=)?")
_OPENS: Final = frozenset(("if", "range", "with", "define", "block", "for", "macro", "call", "filter", "#", "^"))
_CLOSES: Final = frozenset(("end", "endif", "endfor", "endblock", "endmacro", "endcall", "endfilter", "/"))
_ELSE: Final = frozenset(("else", "elif"))
_SILENT: Final = _OPENS | _CLOSES | _ELSE | {"!"}
_UNPRINTED: Final = frozenset(("define", "macro"))
_ALONE: Final = re.compile(rf"[ \t]*+[{_OUTPUT}{_CONTROL}][ \t{_OUTPUT}{_CONTROL}]*+(?:#.*)?\r?")
_INDENT: Final = re.compile(r"\bn?indent\s++(\d{1,3})")
_BEFORE_LINES: Final = re.compile(r"(?:.*:|[ \t]*-)?[ \t]*", re.DOTALL)
_VISIBLE: Final = re.compile(r"\S")
_CHARACTER: Final = re.compile(r"[^\r\n]")
_MAX_ACTIONS: Final = 20_000
_LONGEST: Final = 1 << 20
_DEEPEST: Final = 100
_NO_COLUMN: Final = 1 << 30


class Masked(NamedTuple):
    """A masked template. For each line: `blocks`, the numbers of the template blocks that contain the line, and
    `lost`, whether the template prints further text there.
    """

    text: str
    blocks: Sequence[tuple[int, ...]]
    lost: Sequence[bool]


class _Action(NamedTuple):
    """A template action: its position, its first word, and whether it prints (`prints`)."""

    start: int
    end: int
    word: str
    prints: bool


class _Block(NamedTuple):
    """An open block of a template.

    `is_out`: the text of the block is removed. `is_lost`: the template may print the removed text.
    """

    number: int
    is_out: bool
    is_lost: bool


def mask(text: str) -> Masked | None:
    """The text with its actions masked; None if an action has no end, or if there are too many."""
    actions = list(_actions(text)) if len(text) <= _LONGEST else None
    if actions is None or len(actions) > _MAX_ACTIONS or (actions and actions[-1].end < 0):
        return None
    pieces, position = _Pieces(), 0
    for number, action in enumerate(actions):
        pieces.text(text[position : action.start])
        pieces.action(text[action.start : action.end], action, number)
        if len(pieces.stack) > _DEEPEST:
            return None
        position = action.end
    pieces.text(text[position:])
    return pieces.masked()


def _actions(text: str) -> Iterator[_Action]:
    """Yield the actions in a text, up to the first one without an end (`end` -1), or one above the maximum."""
    position, is_jinja = 0, "{%" in text
    for _ in range(_MAX_ACTIONS + 1):
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        kind = opening[0][:2]
        if kind == "{#" and not is_jinja:
            position = opening.end()
            continue
        start = text.find("*/", opening.end()) if opening[1] else opening.end()
        whole = _WITH_STRINGS.match(text, start) if kind == "{{" and not opening[1] else None
        end = whole.end() - 2 if whole else text.find(_CLOSING[kind], start) if start >= 0 else -1
        word = _WORD.match(text, opening.start())
        name = word[1] or "" if word and not opening[1] else "!"
        position = end + 2 if end >= 0 else -1
        prints = kind == "{{" and name not in _SILENT and not name.endswith("=")
        yield _Action(opening.start(), position, name, prints)
        if end < 0:
            return


class _Pieces:
    """Builds the masked text, and tracks open blocks."""

    def __init__(self) -> None:
        self.stack: list[_Block] = []
        self._pieces: list[str] = []
        self._blocks: list[tuple[int, ...]] = [()]
        self._lost: set[int] = set()
        self._printed: dict[int, int] = {}
        """Columns of what actions print, by the lines of these."""

    def text(self, text: str) -> None:
        """Add text between actions; in a removed branch, add blanks instead."""
        if self.stack and self.stack[-1].is_out:
            if self.stack[-1].is_lost and _VISIBLE.search(text):
                self._lost.add(len(self._blocks) - 1)
            text = _CHARACTER.sub(" ", text)
        self._add(text)

    def action(self, text: str, action: _Action, number: int) -> None:
        """Add an action: its mask, and its effect on the open blocks."""
        out = self.stack[-1] if self.stack else _Block(-1, is_out=False, is_lost=False)
        if action.word in _ELSE and self.stack:
            self.stack[-1] = _Block(number, is_out=True, is_lost=out.is_lost or not out.is_out)
        elif action.word in _CLOSES:
            del self.stack[-1:]
        elif action.word in _OPENS:
            unprinted = action.word in _UNPRINTED
            self.stack.append(_Block(number, out.is_out or unprinted, out.is_lost and not unprinted))
        sign = " " if out.is_out else _OUTPUT if action.prints else _CONTROL
        if sign == _OUTPUT and (indent := _INDENT.search(text)) is not None:
            self._printed[len(self._blocks) - 1] = int(indent[1])
            if indent[0][0] == "n" and _BEFORE_LINES.fullmatch(self._pieces[-1].rpartition("\n")[2]):
                sign = " "
        first, newline, rest = text.partition("\n")
        self._add(sign * len(first) + newline + (_CHARACTER.sub(" ", rest) if rest else ""))

    def _add(self, text: str) -> None:
        self._pieces.append(text)
        if lines := text.count("\n"):
            self._blocks += [tuple([block.number for block in self.stack])] * lines

    def masked(self) -> Masked:
        """The complete masked text. Lines with only actions become blank."""
        lines, lost = "".join(self._pieces).split("\n"), [False] * len(self._blocks)
        column = _NO_COLUMN
        for number, line in enumerate(lines):
            is_alone = _ALONE.fullmatch(line) is not None
            lost[number] = number in self._lost or number in self._printed or (is_alone and _OUTPUT in line)
            if line.strip() and not is_alone:
                is_below = len(line) - len(line.lstrip()) > column
                lost[number] |= is_below
                column = column if is_below else _NO_COLUMN
                is_alone = is_below
            lines[number] = "" if is_alone else line
            column = self._printed.get(number, column)
        return Masked("\n".join(lines), self._blocks, lost)


_ON_TEXT: Final = frozenset(("duplicate-key", "ambiguous-value", "unknown-kind"))
"""Rules about text that are valid for an outline."""
_KIND: Final = re.compile(rb"^kind[\"']?[ \t]*:[ \t]*[\"']?(\w{1,100})", re.MULTILINE)
_VERSIONS: Final = {spec.kind: spec.api_version for spec in KINDS if spec.template}
_BY_CLUSTER: Final = re.compile(r"Capabilities|semverCompare|[aA][pP][iI]Version *[.(]|[kK]ubeVersion|k8s_?[vV]ersion")
"""The words of a template that chooses the version of its objects by the version of the cluster."""
_SINCE: Final = re.compile(r"that begins on line (\d+)$")
_ACTION: Final = re.compile(r"\{[{%]|[}%]\}")
_OTHER_ENGINE: Final = re.compile(r"\(@|#@|<%|%\{|@\w+@|\$[{(]")
_VALUE_ONLY: Final = re.compile(r"[ \t]*+(?:- )*[\w./\"-]++:[ \t]++(?!.*(?:indent|toYaml))(?:\{\{|[^\s\[{])")
_FAR: Final = 3
"""Minimum lines between the start of an invalid part and its error, if the start is not looked at."""
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
    given = as_utf8(data).decode("utf-8", "replace") if _may_have(data, wanted) else ""
    masked = mask(given) if given else None
    if masked is None:
        return Outline([], [], [])
    depends_on_cluster = _BY_CLUSTER.search(given) is not None
    text = _UNKNOWN_VERSION.sub(_with_version, masked.text)
    reading = read(text, file, wanted, namespace=namespace, again=True)
    objects = Outline([], [], list(_certain(reading.diagnostics, masked, given)))
    starts = {lines.start for subject in before if (lines := lines_of(subject))}
    for subject in reading.subjects:
        lines = lines_of(subject)
        if not lines or lines.start in starts:
            continue
        rest = _known(subject.object)
        if rest == subject.object and not any(masked.lost[lines.start : lines.stop]):
            objects.complete.append(subject)
        elif _has_one_type(rest, subject, masked):
            has_namespace = at(subject.object, "metadata", "namespace") is not None
            place = RELEASE_NAMESPACE if has_namespace else subject.namespace
            removed = removed_version(rest["apiVersion"], rest["kind"]) if depends_on_cluster else None
            rest = {**rest, "apiVersion": removed.replacement} if removed else rest
            objects.partial.append(subject._replace(object=rest, namespace=place, is_partial=True))
    return objects


def _may_have(data: bytes, wanted: Collection[str]) -> bool:
    kinds = {kind.decode() for kind in _KIND.findall(data)}
    ours = {kind.rpartition("/")[2] for kind in wanted}
    return not kinds.isdisjoint(ours) or any(
        "prio" in kind.lower() or kind.endswith("List") or intended_type("apps/v1", kind) for kind in kinds
    )


def _with_version(match: re.Match[str]) -> str:
    """The apiVersion of a built-in workload in place of an unknown one, padded to the same length."""
    return match[1] + _VERSIONS.get(match[3], match[2]).ljust(len(match[2]))


def _has_one_type(certain: ApiObject, subject: ReviewedObject, masked: Masked) -> bool:
    """Report whether the object's kind is known, and is the same in all branches of the template."""
    if not (certain.get("kind") and certain.get("apiVersion")):
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


def _certain(diagnostics: Iterable[FileDiagnostic], masked: Masked, text: str) -> Iterator[FileDiagnostic]:
    lines = masked.text.split("\n")
    for diagnostic in diagnostics:
        if diagnostic.rule == "parse-error" and _is_of_text(diagnostic, masked, text):
            yield diagnostic
            continue
        is_certain = diagnostic.rule in _ON_TEXT and UNKNOWN.search(diagnostic.message) is None
        if is_certain and (
            diagnostic.rule != "duplicate-key" or _is_repeated(diagnostic.location, lines, masked.blocks)
        ):
            ref = diagnostic.object and ObjectRef(*("" if UNKNOWN.search(part) else part for part in diagnostic.object))
            yield diagnostic._replace(object=ref)


def _is_of_text(diagnostic: FileDiagnostic, masked: Masked, text: str) -> bool:
    """Report whether a syntax error is in lines that are printed together, without template actions except values."""
    lines, last = text.split("\n"), diagnostic.location.line - 1
    since = _SINCE.search(diagnostic.message)
    first = int(since[1]) - 1 if since else last
    is_tab = "\t" in lines[last][: len(lines[last]) - len(lines[last].lstrip())]
    if is_tab or last - first > _FAR:
        first = last
    while not is_tab and first > 0 and (first == last or not lines[first].strip()):
        first -= 1
    part = lines[first : last + 1]
    is_text = not any(
        _OTHER_ENGINE.search(line) or (_ACTION.search(line) and not _VALUE_ONLY.match(line)) for line in part
    )
    return is_text and not any(masked.lost[first : last + 1]) and len(set(masked.blocks[first : last + 1])) == 1


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
