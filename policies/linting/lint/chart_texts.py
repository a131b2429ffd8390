"""Mistakes that the texts of a Helm chart prove without rendering."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

from forewarn.policies.base.findings import Location
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.inputs.manifests.templates import CLOSES, ELSE, OPENS, Action, actions_of
from forewarn.policies.inputs.sources.files import File, readable
from forewarn.policies.kubernetes.objects.reviewed_object import FileDiagnostic


class Scope(NamedTuple):
    """Actions of a template with the same dot, and the actions with which their blocks begin.

    `dot`: the keys of the dot in the root, or () if the dot may be the root. `shown`: the dot in words.
    """

    actions: list[Action]
    openings: tuple[str, ...]
    dot: tuple[str, ...]
    shown: str


class ChartText:
    """The text of a template of a chart."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text = file, text

    @cached_property
    def scopes(self) -> Sequence[Scope]:
        """The scopes in the order of their last actions."""
        return list(_scopes_of(self.text))

    def actions(self, scope: Scope) -> Iterator[tuple[int, str, str]]:
        """Yield the start and the text of each action in a scope, and the text with blanks in place of strings."""
        for action in scope.actions:
            text = self.text[action.start : action.end]
            yield action.start, text, _STRING.sub(lambda match: " " * len(match[0]), text)

    @cached_property
    def _starts(self) -> Sequence[int]:
        return list(accumulate((len(line) + 1 for line in self.text.split("\n")), initial=0))

    def place(self, start: int, end: int) -> Location:
        """The location of a part of one line."""
        line = bisect_right(self._starts, start)
        column = start - self._starts[line - 1] + 1
        return Location(self.file, line, column, column + end - start)


_STRING: Final = later(r"\"(?:[^\"\\\n]|\\.)*\"|`[^`]*`")
_OF_ROOT: Final = later(r"(?<![\w$.)\]])\.(?:Values|Release|Chart|Capabilities|Files|Template)(?:\.\w+)+")
_INCLUDE: Final = later(r"\b(?:include|template)[ \t]+\"([^\"\n]+)\"[ \t]+\.(?=[\s)|}-])")
_DEFINE: Final = later(r"\{\{-?[ \t]*define[ \t]+\"([^\"\n]+)\"")
_PIPELINE: Final = later(r"\{\{-?\s*(?:with|range)\s+(?:\$\w*\s*(?:,\s*\$\w*\s*)?:=\s*)?([^}]*?)\s*-?\}\}")
_KEYS: Final = later(r"\$?((?:\.\w+)+)")
_OPERAND: Final = later(r"\$?\.(?:Values|Release|Chart|Capabilities|Files)(?:\.\w+)+|\"[^\"]*\"|\b\d+\b")
_NEVER_ROOT: Final = later(
    r"(?:[\s()|]|\b(?:until(?:Step)?|list|tuple|split(?:List)?|keys|sortAlpha|uniq|default|int|add1?|sub|concat|index)\b)*"
)
"""What is around the operands of a pipeline whose result is not the root."""


def _scopes_of(text: str) -> Iterator[Scope]:
    """Yield the scopes of a template."""
    scope = Scope([], (), (), "")
    outer = list[Scope]()
    for action in actions_of(text):
        if action.word in ELSE | CLOSES and outer:
            yield scope
            scope = outer.pop()._replace(actions=[])
        if action.word != "!":
            scope.actions.append(action)
        if action.word in OPENS | ELSE:
            yield scope
            outer.append(scope)
            opening = text[action.start : action.end]
            dot, shown = _dot_in(opening, action.word, scope)
            scope = Scope([], (*scope.openings, opening), dot, shown)
    yield scope


def _dot_in(opening: str, word: str, around: Scope) -> tuple[tuple[str, ...], str]:
    """Return the dot in a block, and the dot in words."""
    if word == "if" or (word == "else" and "with" not in opening):
        return around.dot, around.shown
    unknown = (), ""
    if (pipeline := _PIPELINE.fullmatch(opening)) is None:
        return unknown
    value = pipeline[1]
    item, shown = ((), value) if word == "with" else (("*",), f"an item of {value}")
    if (keys := _KEYS.fullmatch(value)) is not None:
        is_inner = bool(around.dot) and value[0] != "$"
        path = (*(around.dot if is_inner else ()), *keys[1].split(".")[1:], *item)
        return (path, shown) if is_inner or _OPERAND.fullmatch(value) else unknown
    rest = _OPERAND.sub("", value)
    return (("*",), shown) if rest != value and _NEVER_ROOT.fullmatch(rest) else unknown


def faults_in_chart(texts: Mapping[str, str], values: Sequence[File]) -> Iterator[FileDiagnostic]:
    """Yield the mistakes in a chart. `texts`: its templates by their files. `values`: its files with values."""
    templates = [ChartText(file, text) for file, text in texts.items()]
    suspects = [template for template in templates if _may_read_in_blocks(template.text)]
    if suspects and not any(_KEY_OF_ROOT.search(readable(file)) for file in values):
        yield from _wrong_dots(templates, suspects)


_KEY_OF_ROOT: Final = later(rb"^[ -]*(?:Values|Release|Chart|Capabilities|Files|Template):", re.MULTILINE)


def _wrong_dots(templates: Sequence[ChartText], suspects: Sequence[ChartText]) -> Iterator[FileDiagnostic]:
    """Yield the fields of the root that suspects read in the dot of `with` or `range`, which has no such fields."""
    inner = [(template, scope) for template in suspects for scope in template.scopes if scope.dot]
    codes = [(template, scope, *action) for template, scope in inner for action in template.actions(scope)]
    called = {name for _, _, _, text, _ in codes for name in _INCLUDE.findall(text)}
    of_root = _fields_of_root(
        [template for template in templates if any(f'"{name}"' in template.text for name in called)]
    )
    for template, scope, begin, text, code in codes:
        reads = [(match.span(), match[0], f"write ${match[0]}") for match in _OF_ROOT.finditer(code)]
        reads += (
            (match.span(), f'{of_root[match[1]]} for "{match[1]}"', "write $ in place of the dot")
            for match in _INCLUDE.finditer(text)
            if match[1] in of_root
        )
        for (start, end), field, fix in reads:
            message = f"no {field} in the dot, which is {scope.shown} here: Helm cannot render the template"
            place = template.place(begin + start, begin + end)
            yield FileDiagnostic("parse-error", message, place, fix)


_OTHER_DOT: Final = later(r"\{\{-?\s*(?:with|range)\b[^}]*?(?:\.(?:Values|Release|Chart|Files)\.|\buntil)")
_BLOCK: Final = later(
    r"\{\{-?\s*(?:(end)|(?:with|range)\b[^}]*?(\.(?:Values|Release|Chart|Files)\.|\buntil)|(?:if|with|range|define|block))\b"
)


def _may_read_in_blocks(text: str) -> bool:
    """Report whether a block with another dot may read the root: fast, because most templates have no such block."""
    opened, start = [False], 0
    for match in _BLOCK.finditer(text) if _OTHER_DOT.search(text) else ():
        if opened[-1] and (_OF_ROOT.search(text, start, match.start()) or _INCLUDE.search(text, start, match.start())):
            return True
        start = match.end()
        if match[1]:
            opened = opened[:-1] or [False]
        else:
            opened.append(bool(match[2]) or opened[-1])
    return False


def _fields_of_root(templates: Sequence[ChartText]) -> Mapping[str, str]:
    """Return a field of the root for each template that is defined once, and always reads such a field in its dot."""
    defined, fields = Counter[str](), dict[str, str]()
    for template in templates:
        defined.update(_DEFINE.findall(template.text))
        for scope in template.scopes:
            if len(scope.openings) == 1 and (name := _DEFINE.match(scope.openings[0])) is not None:
                for field in filter(None, (_OF_ROOT.search(code) for _, _, code in template.actions(scope))):
                    fields.setdefault(name[1], field[0])
    return {name: field for name, field in fields.items() if defined[name] == 1}
