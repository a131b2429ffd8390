"""The outline of an unrendered template: the parts of its objects that do not depend on values.

First masks the actions of the template (`{{ … }}`, `{% … %}`) so that all positions remain the same.

An action that is alone on its line, or that prints whole lines, becomes blank. Other actions become characters that
mark their scalar as unknown. Only the first branch of `if … else` remains. Text in `define` is removed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Location, ObjectRef, Path, Severity, grouped
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.diagnostics import MAX_LINES, harmless, is_in_block
from forewarn.policies.inputs.manifests.documents import as_utf8, indent_of
from forewarn.policies.inputs.manifests.object_finder import intended_type
from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.inputs.manifests.yaml.source import YamlSource
from forewarn.policies.kubernetes.kinds.registry import (
    DAEMON_SET,
    DISRUPTION_BUDGET,
    KINDS,
    LIMIT_RANGE,
    RELEASE_NAMESPACE,
    removed_version,
)
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind, list_at

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic, ReviewedObject


_OUTPUT: Final = "\ue000"
"""The replacement for each character of an action that prints."""
_CONTROL: Final = "\ue001"
"""The replacement for each character of an action that does not print."""
UNKNOWN: Final = later(f"[{_OUTPUT}{_CONTROL}]")
_OPENING: Final = later(r"\{(?:\{(?:-?\s*(/\*))?|%|(?<!\$\{)#)")
_STRING_OR_END: Final = later(r"\\\"|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"|`[^`]{0,1000}`|\}\}|[\"`]")
"""In an action of Go, whose strings may contain braces: a string, the end, or the quote of a string without an end.

A backslash before a quote outside of strings is a mistake, and begins no string.
"""
_CLOSING: Final = {"{{": "}}", "{%": "%}", "{#": "#}"}
_WORD: Final = later(r"\{[{%][-+~]?\s*([a-z]+(?![\w.])|[#^/!]|\$\w*\s*:?=)?")
OPENS: Final = frozenset(("if", "range", "with", "define", "block", "for", "macro", "call", "filter", "#", "^"))
CLOSES: Final = frozenset(("end", "endif", "endfor", "endblock", "endmacro", "endcall", "endfilter", "/"))
ELSE: Final = frozenset(("else", "elif"))
_STRUCTURE: Final = OPENS | CLOSES | ELSE
_SILENT: Final = _STRUCTURE | {"!"}
UNPRINTED: Final = frozenset(("define", "macro"))
_ALONE: Final = later(rf"[ \t]*[{_OUTPUT}{_CONTROL}][ \t{_OUTPUT}{_CONTROL}]*(?:#.*)?\r?")
_INDENT: Final = later(r"\bn?indent\s+(\d{1,3})")
_BEFORE_LINES: Final = later(r"(?:.*:|[ \t]*-)?[ \t]*", re.DOTALL)
_BETWEEN_VALUES: Final = tuple("\"']},[{")
"""The end of text after which an action that does not print separates values, instead of parts of one value."""
_INLINE: Final = later(
    rf"([ \t]*){_CONTROL}[{_CONTROL} \t]*([^{_CONTROL} \t\r][^{_CONTROL}\r]*)(?:{_CONTROL}[{_CONTROL} \t]*)?\r?"
)
"""A line whose text is within the actions of one line, such as `{{ if .x }}key: value{{ end }}`."""
_VISIBLE: Final = later(r"\S")
_CHARACTER: Final = later(r"[^\r\n]")
_MAX_ACTIONS: Final = 20_000
_MAX_ACTION_LENGTH: Final = 4_000
"""Maximum characters of an action whose strings may contain braces; a longer action ends at its first braces."""
_MAX_LENGTH: Final = 1 << 20
_DEEPEST: Final = 100
_LONG_CONDITION: Final = 200
_NOTHING: Final = 1 << 30
_AFTER_TEXT: Final = 1 << 29
"""The column for text that the template adds within a line, after other text."""


class Masked(NamedTuple):
    """A masked template. For each line: `blocks`, the numbers of the template blocks that contain the line, and
    `lost`, the column (from 0) of further text that the template prints there; _NOTHING for none. `conditions`: the
    actions with which blocks begin, by their numbers.
    """

    text: str
    blocks: Sequence[tuple[int, ...]]
    lost: Sequence[int]
    conditions: Mapping[int, str]


class Action(NamedTuple):
    """A template action: its position, its first word, and whether it prints (`prints`)."""

    start: int
    end: int
    word: str
    prints: bool


class _Block(NamedTuple):
    """An open block of a template. `is_out`: its text is removed. `is_lost`: the template may print that text."""

    number: int
    is_out: bool
    is_lost: bool


def mask(text: str, *, last: bool = False, every: bool = False) -> Masked | None:
    """The text with its actions masked; None if an action has no end, or if there are too many.

    Of `if … else`, keeps the first branch; `last`: the last one; `every`: all, which may be no YAML.
    """
    actions = actions_of(text) if len(text) <= _MAX_LENGTH else None
    if actions is None or len(actions) > _MAX_ACTIONS or (actions and actions[-1].end < 0):
        return None
    pieces, position = _Pieces(_last_branches(actions) if last else {}, every=every), 0
    for number, action in enumerate(actions):
        pieces.text(text[position : action.start])
        pieces.action(text[action.start : action.end], action, number)
        if len(pieces.stack) > _DEEPEST:
            return None
        position = action.end
    pieces.text(text[position:])
    return pieces.masked()


def _last_branches(actions: Sequence[Action]) -> dict[int, int]:
    """The last branches of blocks: number of the action that begins the block -> number of the action that begins its
    last branch.
    """
    opened, branches = list[int](), dict[int, int]()
    for number, action in enumerate(actions):
        if action.word in OPENS:
            opened.append(number)
        elif action.word in CLOSES:
            del opened[-1:]
        elif action.word in ELSE and opened:
            branches[opened[-1]] = number
    return branches


class TemplateBlock(NamedTuple):
    """A block of a template: its first action, the positions of its first and last one, and whether it has branches."""

    opening: str
    start: int
    end: int
    has_else: bool


def blocks_of(text: str) -> Iterator[TemplateBlock]:
    """Yield the blocks of a template that end, except those in many others; nothing if the text is too long."""
    actions = actions_of(text) if len(text) <= _MAX_LENGTH else ()
    opened = list[tuple[Action, bool]]()
    for action in actions:
        if action.word in OPENS:
            opened.append((action, False))
        elif action.word in ELSE and opened:
            opened[-1] = opened[-1][0], True
        elif action.word in CLOSES and opened:
            first, has_else = opened.pop()
            if len(opened) < _DEEPEST:
                yield TemplateBlock(text[first.start : first.end], first.start, action.start, has_else)


@lru_cache(maxsize=100)
def actions_of(text: str) -> Sequence[Action]:
    return list(_actions(text))


def _actions(text: str) -> Iterator[Action]:
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
        end = _end_of_go(text, start) if kind == "{{" and not opening[1] else -1
        if end < 0 <= start:
            end = text.find(_CLOSING[kind], start)
        word = _WORD.match(text, opening.start())
        name = word[1] or "" if word and not opening[1] else "!"
        position = end + 2 if end >= 0 else -1
        prints = kind == "{{" and name not in _SILENT and not name.endswith("=")
        yield Action(opening.start(), position, name, prints)
        if end < 0:
            return


def _end_of_go(text: str, start: int) -> int:
    """Return the position of the braces that end an action of Go, by the strings in it; -1 if a string has no end or
    the action is too long.
    """
    for token in _STRING_OR_END.finditer(text, start, start + _MAX_ACTION_LENGTH):
        if token[0] == "}}":
            return token.start()
        if len(token[0]) == 1:
            break
    return -1


class _Pieces:
    """Builds the masked text, and tracks open blocks. `last_branches`: those to keep instead of the first ones.
    `every`: keep all.
    """

    def __init__(self, last_branches: Mapping[int, int], *, every: bool) -> None:
        self._last_of, self._begins_last = last_branches, frozenset(last_branches.values())
        self._every = every
        self.stack: list[_Block] = []
        self._pieces: list[str] = []
        self._blocks: list[tuple[int, ...]] = [()]
        self._lost = defaultdict[int, int](lambda: _NOTHING)
        """Line where removed text begins -> the column of this text."""
        self._printed: dict[int, int] = {}
        """Line with an action -> the column of the text that the action prints."""
        self._line = ""
        """The masked text of the current line."""
        self._conditions: dict[int, str] = {}

    def text(self, text: str) -> None:
        """Add text between actions; in a removed branch, add blanks instead."""
        if self.stack and self.stack[-1].is_out:
            if self.stack[-1].is_lost and _VISIBLE.search(text):
                number = len(self._blocks) - 1
                self._lost[number] = min(self._lost[number], self._column_of(text))
            text = _blank(text)
        self._add(text)

    def action(self, text: str, action: Action, number: int) -> None:
        """Add an action: its mask, and its effect on the open blocks."""
        out = self.stack[-1] if self.stack else _Block(-1, is_out=False, is_lost=False)
        if action.word in _STRUCTURE:
            self._open_or_close(text, action, number, out)
        sign = self._sign(text, out, prints=action.prints)
        first, newline, rest = text.partition("\n")
        self._add(sign * len(first) + newline + _blank(rest) if newline else sign * len(text))

    def _open_or_close(self, text: str, action: Action, number: int, out: _Block) -> None:
        """Record the effect of an action on the open blocks. `out`: the innermost open block."""
        if action.word in OPENS:
            self._conditions[number] = text[:_LONG_CONDITION]
        elif action.word in ELSE:
            self._conditions[number] = self._conditions.get(out.number, "") + text[:_LONG_CONDITION]
        if number in self._begins_last:
            outer = self.stack[-2] if len(self.stack) > 1 else _Block(-1, is_out=False, is_lost=False)
            self.stack[-1] = outer._replace(number=number)
        elif action.word in ELSE and self.stack and self._every:
            self.stack[-1] = out._replace(number=number)
        elif action.word in ELSE and self.stack:
            self.stack[-1] = _Block(number, is_out=True, is_lost=out.is_lost or not out.is_out)
        elif action.word in CLOSES:
            del self.stack[-1:]
        elif action.word in OPENS:
            unprinted, is_other = action.word in UNPRINTED, number in self._last_of
            is_lost = (out.is_lost or (is_other and not out.is_out)) and not unprinted
            self.stack.append(_Block(number, out.is_out or unprinted or is_other, is_lost))

    def _sign(self, text: str, out: _Block, *, prints: bool) -> str:
        """Return the character that masks an action."""
        sign = " " if out.is_out else _OUTPUT if prints else _CONTROL
        if (
            sign == _CONTROL
            and self._line.rstrip(" \t").endswith(_BETWEEN_VALUES)
            and (self._line.count('"') % 2 == self._line.count("'") % 2 == 0)
        ):
            sign = " "
        if sign == _OUTPUT and "indent" in text and (indent := _INDENT.search(text)) is not None:
            self._printed[len(self._blocks) - 1] = int(indent[1])
            if indent[0][0] == "n" and _BEFORE_LINES.fullmatch(self._pieces[-1].rpartition("\n")[2]):
                sign = " "
        return sign

    def _column_of(self, removed: str) -> int:
        """The lowest column of removed text."""
        first, *others = removed.split("\n")
        columns = [indent_of(line) for line in others if line.strip()]
        if first.strip():
            columns.append(_AFTER_TEXT if _VISIBLE.search(UNKNOWN.sub(" ", self._line)) else 0)
        return min(columns)

    def _add(self, text: str) -> None:
        self._pieces.append(text)
        if (lines := text.count("\n")) == 0:
            self._line += text
            return
        self._line = text[text.rindex("\n") + 1 :]
        self._blocks += [tuple([block.number for block in self.stack])] * lines

    def masked(self) -> Masked:
        """The complete masked text. Lines with only actions become blank."""
        lines, lost = "".join(self._pieces).split("\n"), [_NOTHING] * len(self._blocks)
        column = _NOTHING
        for number, line in enumerate(lines):
            if column == _NOTHING and _OUTPUT not in line and _CONTROL not in line:
                column = self._printed.get(number, _NOTHING)
                lost[number] = min(self._lost.get(number, _NOTHING), column)
                continue
            is_alone = _ALONE.fullmatch(line) is not None
            printed = self._printed.get(number, 0 if is_alone and _OUTPUT in line else _NOTHING)
            lost[number] = min(self._lost.get(number, _NOTHING), printed)
            if line.strip() and not is_alone:
                is_below = indent_of(line) > column
                lost[number] = min(lost[number], indent_of(line)) if is_below else lost[number]
                column = column if is_below else _NOTHING
                is_alone = is_below
                if (inline := _INLINE.fullmatch(line)) is not None:
                    self._blocks[number] = (*self._blocks[number], -1 - number)
                    line = (inline[1] + inline[2]).ljust(len(line))
            lines[number] = "" if is_alone else line
            column = min(column, self._printed.get(number, _NOTHING))  # the text below is also printed
        return Masked("\n".join(lines), self._blocks, lost, self._conditions)


def _blank(text: str) -> str:
    """Blanks in place of all characters except line ends."""
    if "\r" in text:
        return _CHARACTER.sub(" ", text)
    return "\n".join([" " * len(line) for line in text.split("\n")])


_ANY_ELSE: Final = later(r"\{[{%]-?\s*el(?:se|if)\b")
_VERSION: Final = later(r"^apiVersion:[ ]+(\S+)", re.MULTILINE)
_TYPED: Final = later(r"^(?:kind|apiVersion):[ \t]", re.MULTILINE)
_ON_TEXT: Final = frozenset(("duplicate-key", "ambiguous-value", "unknown-kind"))
"""Rules about text that are valid for an outline."""
_KIND: Final = later(rb"\nkind[\"']?[ \t]*:[ \t]*[\"']?(\w{1,100})")
_BEFORE_KIND: Final = b"\nkind"
"""Precedes each `kind` at the root; many times faster to find than a pattern."""
_VERSIONS: Final = {spec.kind: spec.api_version for spec in KINDS if spec.template or spec.is_applied}
_OF_CLUSTER: Final = r"Capabilities|semverCompare|[aA][pP][iI]Version *[.(]|[kK]ubeVersion|k8s_?[vV]ersion"
_BY_CLUSTER: Final = later(_OF_CLUSTER)
"""The words of a template that chooses the version of its objects by the version of the cluster."""
_MAY_BE_BY_CLUSTER: Final = later(rf"{_OF_CLUSTER}|\$\w|\b(?:include|template)\b")
"""What a condition on the version of the cluster contains, also through a variable or an included template."""
_ACTION: Final = later(r"\{[{%]|[}%]\}")
_OTHER_ENGINE: Final = later(r"\(@|#@|<%|%\{|@\w+@|\$[{(]")
_VALUE_ONLY: Final = later(r"[ \t]*(?:- )*[\w./\"-]+:[ \t]+(?=\{\{|[^\s\[{])(?!.*(?:indent|toYaml))")
_FAR: Final = 3
"""Minimum lines between the start of an invalid part and its error if the text at the start is not considered."""
_UNKNOWN_VERSION: Final = later(
    rf"^(apiVersion:[ ]+)([{_OUTPUT}{_CONTROL}]{{10,500}})(?=[ ]*\r?\nkind:[ ]+(\w+)[ ]*\r?$)", re.MULTILINE
)
_MAX_LINE_LENGTH: Final = 500
_NEAR: Final = 500
"""How many lines above a repeated key to search for its first occurrence."""


class Outline(NamedTuple):
    """The objects that a template prints unchanged, those with unknown fields, and problems of the text."""

    complete: list[ReviewedObject]
    partial: list[ReviewedObject]
    diagnostics: list[FileDiagnostic]


def outline(
    data: bytes, file: str, wanted: frozenset[str], namespace: str, before: Sequence[ReviewedObject] = ()
) -> Outline:
    """Return the outline of a template. `before`: objects of documents that need no rendering."""
    given = as_utf8(data).decode("utf-8", "replace") if _may_have(data, wanted) else ""
    objects = Outline([], [], [])
    for text in filter(None, (given, _defined_in(given))):
        for last in (False, True) if _ANY_ELSE.search(text) else (False,):
            masked = mask(text, last=last)
            if masked is None:
                continue
            known = _UNKNOWN_VERSION.sub(_with_version, masked.text)
            reading = read(known, file, wanted, namespace=namespace, again=True)
            if reading.diagnostics and not last:
                objects.diagnostics.extend(_certain(reading.diagnostics, masked, text))
            is_first = text is given and not last
            _sort(reading.subjects, masked, text, objects if is_first else objects._replace(complete=[]), before)
    return objects


def _sort(
    subjects: Iterable[ReviewedObject], masked: Masked, text: str, objects: Outline, before: Sequence[ReviewedObject]
) -> None:
    """Add the objects of a masked template to an outline. `before`: see `outline`."""
    starts = {lines.start for subject in before if (lines := lines_of(subject))}
    known = {lines_of(subject).start: subject.object for subject in objects.partial}
    shown = masked.text.split("\n")
    by_cluster = masked if _BY_CLUSTER.search(text) else None
    for subject in subjects:
        lines = lines_of(subject)
        if not lines or lines.start in starts:
            continue
        rest = _known(subject.object, subject, by_cluster)
        if rest == subject.object and min(masked.lost[lines.start : lines.stop], default=_NOTHING) == _NOTHING:
            is_optional = bool(masked.blocks[next(_lines_of_keys(subject, ("kind",), shown))])
            objects.complete.append(subject._replace(is_optional=is_optional))
        elif known.get(lines.start) != rest and _has_one_type(rest, subject, shown, masked.blocks):
            place = RELEASE_NAMESPACE if at(subject.object, "metadata", "namespace") is not None else subject.namespace
            if by_cluster and _is_for_old_clusters(subject, masked, text):
                continue
            rest = _without_alternatives(rest, subject, masked)
            whole = (
                None if lines.start in known else _whole(subject, shown, text)
            )  # once, although both branches contain it
            objects.partial.append(subject._replace(object=rest, namespace=place, is_partial=True, whole=whole))


def _is_for_old_clusters(subject: ReviewedObject, masked: Masked, text: str) -> bool:
    """Report whether an object has a removed version that may be printed only for clusters that serve it. `text`: the
    template.
    """
    removed = removed_version(subject.object["apiVersion"], subject.object["kind"])
    return removed is not None and (
        _is_by_cluster(subject, ("kind",), masked)
        or (_is_by_cluster(subject, ("apiVersion",), masked) and removed.replacement in _VERSION.findall(text))
    )


def _is_by_cluster(subject: ReviewedObject, path: Path, masked: Masked) -> bool:
    """Report whether the version of the cluster may decide if a field is printed, and its parent is printed anyway."""
    places = [subject.source.locate(field, key=True).line - 1 for field in (path, path[:-1]) if field]
    inner, outer = masked.blocks[places[0]], masked.blocks[places[-1]] if path[1:] else ()
    return any(_MAY_BE_BY_CLUSTER.search(masked.conditions.get(number, "")) for number in {*inner}.difference(outer))


_LIMITS: Final = ("minAvailable", "maxUnavailable")


def _without_alternatives(rest: ApiObject, subject: ReviewedObject, masked: Masked) -> ApiObject:
    """Return the known fields without the limits of a PodDisruptionBudget, and the types of limits of a LimitRange,
    that the template does not print together.
    """
    if group_kind(rest) == LIMIT_RANGE:
        first, limits = dict[str, tuple[int, ...]](), [*list_at(rest, "spec", "limits")]
        for number, limit in enumerate(limits):
            block = masked.blocks[subject.source.locate(("spec", "limits", number)).line - 1]
            known = first.setdefault(str(at(limit, "type")), block)
            if known[: len(block)] != block[: len(known)] and isinstance(limit, dict):
                limits[number] = {**limit, "type": None}
        return {**rest, "spec": {**rest["spec"], "limits": limits}} if limits else rest
    paths = [("spec", limit) for limit in _LIMITS if at(rest, "spec", limit) is not None]
    blocks = {masked.blocks[subject.source.locate(path, key=True).line - 1] for path in paths}
    if len(blocks) < len(_LIMITS) or group_kind(rest) != DISRUPTION_BUDGET:
        return rest
    return {**rest, "spec": {key: value for key, value in rest["spec"].items() if key not in _LIMITS}}


_READ_WHOLE: Final = {
    DISRUPTION_BUDGET: (("spec",), "selector"),
    DAEMON_SET: (("spec", "template", "spec"), "priorityClassName"),
}
"""Kind -> the path of a mapping, and its field whose absence rules report."""


def _whole(subject: ReviewedObject, shown: Sequence[str], text: str) -> Path | None:
    """The path in _READ_WHOLE for an object, if no branch of the template prints the field or unknown fields there;
    otherwise None. `shown`: the lines of the mask that contains the object. `text`: the template.
    """
    path, field = _READ_WHOLE.get(group_kind(subject.object), ((), ""))
    fields = at(subject.object, *path) if path else None
    if not isinstance(fields, dict) or not fields or field in fields:
        return None
    column = min(subject.source.locate((*path, field), key=True).column for field in fields) - 1
    start = subject.source.locate(path, key=True).line - 1
    lines, lost = _every_branch(text)
    if lost[start] <= column:
        return None
    above = ""
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if line.strip() and indent_of(line) < column:
            return path if shown[number].strip() else None
        is_list = lost[number] == column and indent_of(above) == column and above.rstrip().endswith(":")
        key = line.partition(":")[0] if indent_of(line) == column else ""
        if (lost[number] <= column and not is_list) or field in key or UNKNOWN.search(key):
            return None
        above = line if line.strip() else above
    return path


@lru_cache(maxsize=1)
def _every_branch(text: str) -> tuple[Sequence[str], Sequence[int]]:
    """The lines of a mask with all branches, and the columns of further text."""
    masked = mask(text, every=True)
    assert masked is not None  # masking the text succeeded earlier
    return masked.text.split("\n"), masked.lost


def _defined_in(text: str) -> str:
    """The text of each `define` that contains an object, as a document that keeps its lines; "" if there are none."""
    pieces, done, start, opened, depth = list[str](), 0, 0, 0, 0
    if len(text) > _MAX_LENGTH or not any(word in text for word in UNPRINTED):
        return ""
    for action in actions_of(text):
        depth += (action.word in OPENS) - (action.word in CLOSES)
        if action.word in UNPRINTED and depth == 1:
            start, opened = action.start, action.end
        elif depth == 0 and opened:
            inside = text[opened : action.start]
            if _TYPED.search(inside) and not inside.partition("\n")[0].strip():
                pieces += ["\n" * text.count("\n", done, start), "---", inside]
                done = action.start
            opened = 0
    return "".join(pieces)


def _may_have(data: bytes, wanted: frozenset[str]) -> bool:
    text, kinds = b"\n" + data, set[str]()
    start = text.find(_BEFORE_KIND)
    while start >= 0:
        if (kind := _KIND.match(text, start)) is not None:
            kinds.add(kind[1].decode())
        start = text.find(_BEFORE_KIND, start + 1)
    return any(_may_be_meant(kind, wanted) for kind in kinds)


@lru_cache(maxsize=1_000)
def _may_be_meant(kind: str, wanted: frozenset[str]) -> bool:
    is_ours = any(one.endswith(f"/{kind}") for one in wanted)
    return is_ours or "prio" in kind.lower() or kind.endswith("List") or bool(intended_type("apps/v1", kind))


def _with_version(match: re.Match[str]) -> str:
    """The apiVersion of a built-in workload in place of an unknown one, padded to the same length."""
    return match[1] + _VERSIONS.get(match[3], match[2]).ljust(len(match[2]))


def _has_one_type(
    certain: ApiObject, subject: ReviewedObject, shown: Sequence[str], blocks: Sequence[tuple[int, ...]]
) -> bool:
    """Report whether the object's kind is known, and is the same in all branches of the template."""
    if not (certain.get("kind") and certain.get("apiVersion")):
        return False
    roots = ("kind", "metadata", *({"spec"} & certain.keys()))
    return len({blocks[line] for line in _lines_of_keys(subject, roots, shown)}) == 1


def _lines_of_keys(subject: ReviewedObject, keys: Sequence[str], shown: Sequence[str]) -> Iterator[int]:
    """Yield the lines (from 0) of keys of an object. Usually each key begins one line, so parsing the document is not
    needed.
    """
    lines, source = lines_of(subject), subject.source
    is_item = not isinstance(source, YamlSource) or source.prefix
    heads = ((shown[number].partition(":")[:2], number) for number in range(lines.start, min(lines.stop, len(shown))))
    first = grouped((key, number) for (key, colon), number in heads if colon and key in keys)
    for key in keys:
        at = first.get(key, ())
        yield at[0] if len(at) == 1 and not is_item else source.locate((key,), key=True).line - 1


def lines_of(subject: ReviewedObject) -> range:
    """The lines (from 0) of the document that contains an object."""
    if not isinstance(subject.source, YamlSource):
        return range(0)
    document = subject.source.tree.document
    return range(document.line, document.line + document.data.count(b"\n"))


def _known(value: Any, subject: ReviewedObject, masked: Masked | None, path: Path = ()) -> Any:
    """Return a value with None for unknown parts, and without unknown keys. `masked`: also without what may be printed
    only for some versions of the cluster, below the root.
    """
    if isinstance(value, dict):
        return {
            key: _known(item, subject, masked, (*path, key))
            for key, item in value.items()
            if not UNKNOWN.search(key) and not (masked and path and _is_by_cluster(subject, (*path, key), masked))
        }
    if isinstance(value, list):
        return [_known(item, subject, masked, (*path, index)) for index, item in enumerate(value)]
    return None if isinstance(value, str) and UNKNOWN.search(value) else value


def _certain(diagnostics: Iterable[FileDiagnostic], masked: Masked, text: str) -> Iterator[FileDiagnostic]:
    lines, original = masked.text.split("\n"), text.split("\n")
    for diagnostic in diagnostics:
        if diagnostic.rule == "parse-error":
            found = diagnostic if _is_of_text(diagnostic, masked, text) else _unended_quote(diagnostic, masked, text)
            if found is not None:
                yield found
            continue
        if diagnostic.rule not in _ON_TEXT or UNKNOWN.search(diagnostic.message) is not None:
            continue
        if diagnostic.rule == "duplicate-key":
            above = _repeated(diagnostic.location, lines, masked)
            if above is None:
                continue
            if len(masked.blocks[above]) < len(masked.blocks[diagnostic.location.line - 1]):
                diagnostic = diagnostic._replace(
                    severity=Severity.NOTE
                )  # the value overrides the default in the line above
            both = [_ONE_ACTION.fullmatch(original[number]) for number in (above, diagnostic.location.line - 1)]
            if both[0] and both[1] and both[0].groups() == both[1].groups():
                diagnostic = harmless(diagnostic, above + 1)
        ref = diagnostic.object and ObjectRef(*("" if UNKNOWN.search(part) else part for part in diagnostic.object))
        yield diagnostic._replace(object=ref)


_ONE_ACTION: Final = later(r"[ -]*([\w./-]+): +(\"?\{\{[^{}]{1,300}\}\}\"?)\s*")
"""A key whose value is one template action."""
_UNENDED: Final = later(r"([ ]*(?:- +)*)[\w.-]+:[ ]+(\"[^\"{}\\]*|'[^'{}\\]*)$")
_KEY: Final = later(r"([ ]*(?:- +)*)[\w./-]+:(?:\s|$)")


def _unended_quote(diagnostic: FileDiagnostic, masked: Masked, text: str) -> FileDiagnostic | None:
    """Convert a syntax error to an error about the unclosed quote above it that causes it; None if there is none.

    The next key is no deeper than the key with the quote, so it cannot belong to the quoted text.
    """
    lines, shown, last = text.split("\n"), masked.text.split("\n"), diagnostic.location.line - 1
    following = ""
    for number in range(last, max(last - _NEAR, -1), -1):
        line = lines[number].rstrip("\r")
        opened = _UNENDED.match(line) if len(line) <= _MAX_LINE_LENGTH else None
        key = _KEY.match(following) if opened and masked.lost[number] == _NOTHING else None
        if opened and key and len(key[1]) <= len(opened[1]):
            at = sum(map(len, lines[:number])) + number
            if is_in_block(text, at + len(opened[1]), MAX_LINES)[1]:
                return None
            place = diagnostic.location._replace(line=number + 1, column=opened.start(2) + 1, end_column=len(line) + 1)
            return diagnostic._replace(problem="the quote that begins here has no end", location=place)
        following = shown[number] if shown[number].strip() else following
    return None


def _is_of_text(diagnostic: FileDiagnostic, masked: Masked, text: str) -> bool:
    """Report whether a syntax error is in lines that are printed together, without template actions except values."""
    lines, last = text.split("\n"), diagnostic.location.line - 1
    first = diagnostic.since - 1 if diagnostic.since else last
    is_tab = "\t" in lines[last][: len(lines[last]) - len(lines[last].lstrip())]
    if is_tab or last - first > _FAR:
        first = last
    while not is_tab and first > 0 and (first == last or not lines[first].strip()):
        first -= 1
    part = lines[first : last + 1]
    is_text = not any(
        _OTHER_ENGINE.search(line) or (_ACTION.search(line) and not _VALUE_ONLY.match(line)) for line in part
    )
    return is_text and min(masked.lost[first : last + 1]) == _NOTHING and len(set(masked.blocks[first : last + 1])) == 1


def _repeated(kept: Location, lines: Sequence[str], masked: Masked) -> int | None:
    """Return the line (from 0) of an earlier equal key that is printed together with a key: the block of one contains
    the block of the other. None if there is no such line, or if lines between the keys may begin another item of a
    list.
    """
    start, end = kept.column - 1, kept.end_column - 1
    number, blocks = kept.line - 1, masked.blocks
    for above in range(number - 1, max(number - _NEAR, -1), -1):
        line = lines[above]
        if line[start:end] == lines[number][start:end] and not line[:start].strip(" -"):
            shorter = min(len(blocks[above]), len(blocks[number]))
            is_together = blocks[above][:shorter] == blocks[number][:shorter]
            return above if is_together and min(masked.lost[above + 1 : number], default=start) >= start else None
    return None
