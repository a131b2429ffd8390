"""Seeing cheaply which kind a document has, so that most documents need not be read."""

from __future__ import annotations

import re
from typing import Final

_TYPE_META: Final = re.compile(rb"\n(kind|apiVersion)[ \t]*:([^\n]*)")
_PLAIN_WORD: Final = re.compile(rb"[ \t]+([A-Za-z][\w./-]*)[ \t]*(?:[ \t]#.*)?\r?")
_CONTINUED: Final = re.compile(rb"\s*+(?<=[ \t])[^#]")
_UNUSUAL_ROOT: Final = re.compile(rb"\n(?:[^\s#a-zA-Z-]|\.\.\.|-[^ \n\r-]|items[ \t]*:)")
_FIRST_LINE: Final = re.compile(
    rb"\n(?:---[ \t]*\r?\n)?(?:[ \t]*(?:#[^\n]*)?\r?\n)*([A-Za-z][\w.-]*[ \t]*:(?:[ \t]|\r?\n))"
)

_ALIAS_OR_TAG: Final = re.compile(rb"[\n:,\[{-][ \t]*(?:&[\w.-]+[ \t]+)?[*!]\S")
_COMPLEX_KEY: Final = re.compile(rb"[\]}][ \t]*:|\n[ \t-]*\?[ \t\r\n]|[,{\[][ \t]*\?[ \t]")
_NOT_JSON: Final = re.compile(rb"\.(?:inf|Inf|INF|nan|NaN|NAN)(?:[\s,\]}]|\Z)")
_NULL_KEY: Final = re.compile(rb"[\n{,?-][ \t]*(?:~|null|Null|NULL|)[ \t]*:[\s]")
_OPENING: Final = re.compile(rb"(?:\A|[:-][ \t]+|[\n,\[{][ \t]*)(?:[&!]\S{0,99}[ \t]+)*[\[{]")
_QUESTION: Final = re.compile(rb"\?")
_NEAR: Final = 1000
_MANY_BRACKETS: Final = 4000


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
    """Whether libyaml may take what kubectl's older copy of it refuses; `nodes.compose` looks closer then."""
    if b"\\/" in data:
        return True
    if b"?" not in data or (b"[" not in data and b"{" not in data):
        return False
    looked = 0
    for count, mark in enumerate(_QUESTION.finditer(data)):
        start = max(0, mark.start() - _NEAR)
        line = max(data.rfind(b"\n", start, mark.start()), start)
        opened = max(data.rfind(b"[", start, mark.start()), data.rfind(b"{", start, mark.start()))
        closed = max(data.rfind(b"]", start, mark.start()), data.rfind(b"}", start, mark.start()))
        if opened == closed:  # no bracket is near: look for one from the beginning, at each part of the text once
            begin, looked = max(looked - _NEAR, 0), mark.start()
        else:
            begin = line if opened < closed else min(line, max(opened - 100, 0))
        if _OPENING.search(data, begin, mark.start()) or count > _MANY_BRACKETS:
            return True
    return False


def only_grammar_matters(data: bytes) -> bool:
    """Whether a document that the parser takes is one that kubectl takes.

    Not so where there are aliases, merges, tags, complex keys, infinities, template braces, or very deep nesting.
    """
    risky = (
        b"<<" in data
        or b"{{" in data
        or data.count(b"[") + data.count(b"{") > _MANY_BRACKETS
        or ((b"*" in data or b"!" in data) and _ALIAS_OR_TAG.search(data))
        or ((b"?" in data or b"]" in data or b"}" in data) and _COMPLEX_KEY.search(data))
        or _NOT_JSON.search(data)
        or ((b"~" in data or b"ull:" in data or b"ULL:" in data or b" :" in data) and _NULL_KEY.search(data))
        or b"\n:" in data
        or (b"{" in data and (b"{:" in data or b",:" in data))
    )
    return not risky
