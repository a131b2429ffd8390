"""Seeing cheaply which kind a document has, so that most documents need not be read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_TYPE_META: Final = re.compile(rb"\n(kind|apiVersion)[ \t]*:([^\n]*)")
_PLAIN_WORD: Final = re.compile(rb"[ \t]+([A-Za-z][\w./-]*)[ \t]*(?:[ \t]#.*)?\r?")
_CONTINUED: Final = re.compile(rb"\s*+(?<=[ \t])[^#]")
_UNUSUAL_ROOT: Final = re.compile(rb"\n(?:[^\s#a-zA-Z-]|\.\.\.|-[^ \n\r-]|items[ \t]*:)")
_FIRST_LINE: Final = re.compile(
    rb"\n(?:---[ \t]*\r?\n)?(?:[ \t]*(?:#[^\n]*)?\r?\n)*([A-Za-z][\w.-]*[ \t]*:(?:[ \t]|\r?\n))"
)

# What follows begins with the character that is rare, and looks back from there: many times faster than the other way.
_ALIAS: Final = re.compile(rb"\*(?<=[ \t\n:,\[{-].)\S")
_TAG: Final = re.compile(rb"!(?<=[ \t\n:,\[{-].)\S")
_AFTER_BRACKET: Final = re.compile(rb"\][ \t]*+:")
_AFTER_BRACE: Final = re.compile(rb"\}[ \t]*+:")
_QUESTION: Final = re.compile(rb"\?[ \t\r\n]")
_NOT_JSON: Final = re.compile(rb"\.(?:inf|Inf|INF|nan|NaN|NAN)(?:[\s,\]}]|\Z)")
_TILDE: Final = re.compile(rb"~[ \t]*+:\s")
_NULL: Final = re.compile(rb"ull(?<=[nN].{3})[ \t]*+:\s")
_NULL_IN_CAPITALS: Final = re.compile(rb"ULL(?<=N.{3})[ \t]*+:\s")
_EMPTY_KEY: Final = re.compile(rb":(?<=[ \t\n{,?-]:)\s")
_OPENING: Final = re.compile(rb"[\[{](?:(?<=[ \t\n,\[{].)|(?<=\A.))")
_IN_FLOW: Final = re.compile(rb"[\[\]{}\"'#?]")
_SPACE: Final = b" \t"
_NEAR: Final = 200
"""So far back it is looked; what has more blanks before it is read with care."""
_MANY: Final = 4000
_OPENS_BLOCK: Final = re.compile(rb"(?::|^ *-)[ ]+[|>][-+]?[ \t]*\r?\Z")
_LINES_BACK: Final = 200
"""Lines that are looked at above what may stand in a block scalar."""


def type_meta(data: bytes) -> tuple[str, str] | None:
    """(apiVersion, kind) of a document written in the usual way; None where only reading it will tell.

    The usual way: the root is a block mapping in column 1 whose keys have no quotes, anchors or merges, and each
    of the two stands there once with a plain word as its value.
    """
    text = b"\n" + data
    if not _FIRST_LINE.match(text) or _UNUSUAL_ROOT.search(text):
        return None
    found: dict[bytes, str] = {}
    for match in _TYPE_META.finditer(text):
        word = _PLAIN_WORD.fullmatch(match[2])
        if word is None or match[1] in found or _CONTINUED.match(text, match.end()):
            return None
        found[match[1]] = word[1].decode("ascii", "replace")
    return (found[b"apiVersion"], found[b"kind"]) if len(found) == 2 else None


def laxer_than_kubectl(data: bytes) -> bool:
    """Whether libyaml may take what kubectl's older copy refuses; `grammar.check_as_kubectl` looks closer then."""
    if b"\\/" in data:
        return True
    if b"?" not in data or (b"[" not in data and b"{" not in data):
        return False
    end = 0
    for opening in _OPENING.finditer(data):
        if opening.start() >= end:
            end = _end_of_flow(data, opening.start())
            if end < 0:
                return True
    return False


def _end_of_flow(data: bytes, start: int) -> int:
    """Where brackets that open here are closed; -1 where a question mark, a quote or a comment stands in them."""
    depth = 0
    for mark in _IN_FLOW.finditer(data, start):
        sign = mark[0]
        if sign in b"[{":
            depth += 1
        elif sign in b"]}":
            depth -= 1
            if depth == 0:
                return mark.end()
        else:
            return -1
    return len(data)


def only_grammar_matters(data: bytes) -> bool:
    """Whether a document that the parser takes is one that kubectl takes.

    Not so where there are aliases, merges, tags, complex keys, infinities, template braces, or very deep nesting.
    """
    return not (
        b"<<" in data
        or b"{{" in data
        or data.count(b"[") + data.count(b"{") > _MANY
        or (b"*" in data and _any(_ALIAS, data, _may_be_node))
        or (b"!" in data and _any(_TAG, data, _may_be_node))
        or (b"]" in data and _AFTER_BRACKET.search(data))
        or (b"}" in data and _AFTER_BRACE.search(data))
        or (b"?" in data and _any(_QUESTION, data, _may_be_complex_key))
        or _NOT_JSON.search(data)
        or (b"~" in data and _any(_TILDE, data, _begins_entry))
        or (b"ull" in data and _any(_NULL, data, _null_begins_entry))
        or (b"ULL" in data and _any(_NULL_IN_CAPITALS, data, _null_begins_entry))
        or (
            (b" :" in data or b"\t:" in data or b"\n:" in data or b"{:" in data or b",:" in data)
            and _any(_EMPTY_KEY, data, _begins_entry)
        )
    )


def _any(pattern: re.Pattern[bytes], data: bytes, is_it: Callable[[bytes], bool]) -> bool:
    """Whether any match is what it may be, by what stands before it; of very many it is taken for granted."""
    for count, match in enumerate(pattern.finditer(data)):
        start = match.start()
        before = data[max(start - _NEAR, 0) : start].rstrip(_SPACE)
        if count > _MANY or ((is_it(before) or (not before and start)) and not _in_block_scalar(data, start)):
            return True
    return False


def _in_block_scalar(data: bytes, at: int) -> bool:
    """Whether a place is surely in text behind `|` or `>`: of the lines above it, each less indented, one opens it."""
    start = data.rfind(b"\n", 0, at) + 1
    above = data[start:at]
    indent = len(above) - len(above.lstrip(b" "))
    for _ in range(_LINES_BACK):
        if not start or not indent:
            return False
        end, start = start - 1, data.rfind(b"\n", 0, start - 1) + 1
        line = data[start:end]
        text = line.lstrip(b" ")
        if text.strip() and len(line) - len(text) < indent:
            if b"#" not in line and _OPENS_BLOCK.search(line):
                return True
            indent = len(line) - len(text)
    return False


def _may_be_node(before: bytes) -> bool:
    """Whether an alias or a tag may stand behind this text, an anchor between them or not."""
    return not before or before[-1:] in b"\n:,[{-" or b"&" in before.rsplit(None, 1)[-1]


def _may_be_complex_key(before: bytes) -> bool:
    return before.rstrip(b" \t-")[-1:] in b"\n,{["


def _begins_entry(before: bytes) -> bool:
    return before[-1:] in b"\n{,?-"


def _null_begins_entry(before: bytes) -> bool:
    """The same before `ull`, the rest of a null."""
    return _begins_entry(before[:-1].rstrip(_SPACE))
