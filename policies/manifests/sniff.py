"""Seeing cheaply which kind a document has, so that most documents need not be read."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
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
_BRACES: Final = re.compile(rb"\{\{")
_ESCAPED_SLASH: Final = re.compile(rb"\\/")
_AFTER_BRACKET: Final = re.compile(rb"\][ \t]*+:")
_AFTER_BRACE: Final = re.compile(rb"\}[ \t]*+:")
_QUESTION: Final = re.compile(rb"\?[ \t\r\n]")
_NOT_JSON: Final = re.compile(rb"\.(?:inf|Inf|INF|nan|NaN|NAN)(?:[\s,\]}]|\Z)")
_TILDE: Final = re.compile(rb"~[ \t]*+:\s")
_NULL: Final = re.compile(rb"ull(?<=[nN].{3})[ \t]*+:\s")
_NULL_IN_CAPITALS: Final = re.compile(rb"ULL(?<=N.{3})[ \t]*+:\s")
_EMPTY_KEY: Final = re.compile(rb":(?<=[ \t\n{,?-]:)\s")
_ANCHORED_EMPTY_KEY: Final = re.compile(rb"&[\w-]++[ \t]*+:\s")
_OPENING: Final = re.compile(rb"[\[{](?:(?<=[ \t\n,\[{].)|(?<=\A.))")
_IN_FLOW: Final = re.compile(rb"[\[\]{}\"'#?]")
_SPACE: Final = b" \t"
_NEAR: Final = 200
"""So far back it is looked; what has more blanks before it is read with care."""
_MANY: Final = 4000
_SUSPECT: Final = re.compile(
    rb"<<|\{\{|\*(?<=[ \t\n:,\[{-].)\S|!(?<=[ \t\n:,\[{-].)\S|\][ \t]*+:|\}[ \t]*+:|\?[ \t\r\n]|~[ \t]*+:\s"
)
"""What is looked at more closely, in one pass: each alternative begins with a character that is rare."""
_OPENS_BLOCK: Final = re.compile(rb"(?::|^ *-)[ ]+[|>][-+]?[ \t]*\r?\Z")
_OPENS_QUOTES: Final = re.compile(rb"[ -]*[^\s'\"#:,\[{][^'\"#:]*:[ ]+(['\"])")
_STILL_QUOTED: Final = {b"'": re.compile(rb"(?:[^']|'')*+"), b'"': re.compile(rb'(?s:[^"\\]|\\.)*+')}
_LONG_FLOW: Final = 2_000
_LINES_BACK: Final = 200
_BYTES_BACK: Final = 20_000
"""Lines and bytes that are looked at above what may stand in text."""
_LONG: Final = 1 << 20
_DEEP: Final = b" " * 200
_DEEP_LIST: Final = b"- - - -"
_ANY_TYPE: Final = re.compile(rb"(?<![^\s{,\"'-])(kind|apiVersion)[\"']?[ \t]*:[ \t]*[\"']?([A-Za-z]\w*)?")
_MOST_KINDS: Final = 1_000
_NO_TYPE: Final = re.compile(rb"\n(?:kind|apiVersion)[ \t]*:")


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


def named_kinds(data: bytes) -> set[str]:
    """What is given as a kind in a text that cannot be read; "" for no plain word, or where only apiVersion is.

    Of very many, "" stands for the rest.
    """
    found = [(match[1], match[2]) for match in islice(_ANY_TYPE.finditer(data), _MOST_KINDS)]
    kinds = {(value or b"").decode() for key, value in found if key == b"kind"}
    return kinds | ({""} if found and (not kinds or len(found) == _MOST_KINDS) else set())


def is_untyped(data: bytes) -> bool:
    """Whether a document is surely a mapping, written as `type_meta` has it, without apiVersion and without kind.

    None that may be too long or nested too deep to be read is.
    """
    if len(data) > _LONG:
        return False
    text = b"\n" + data
    if not _FIRST_LINE.match(text) or _DEEP in text or _DEEP_LIST in text:
        return False
    return not _NO_TYPE.search(text) and not _UNUSUAL_ROOT.search(text)


def laxer_than_kubectl(data: bytes) -> bool:
    """Whether libyaml may take what kubectl's older copy refuses; `grammar.check_as_kubectl` looks closer then."""
    if b"\\/" in data and _any(_ESCAPED_SLASH, data, _anywhere):
        return True
    if b"?" not in data or (b"[" not in data and b"{" not in data):
        return False
    end = looked = 0
    for opening in _OPENING.finditer(data, 0, data.rindex(b"?")):
        start = opening.start()
        if start < end or not _stands(_may_open_flow, data, start):
            continue
        looked += 1
        end = _end_of_flow(data, start)
        if end < 0:
            end = _end_of_text(data, start) if looked < _MANY else 0
            if not end:
                return True
    return False


def _end_of_flow(data: bytes, start: int) -> int:
    """Where brackets that open here are closed; -1 where a question mark, quote or comment, or too much, is there."""
    depth = 0
    for mark in _IN_FLOW.finditer(data, start, start + _LONG_FLOW):
        sign = mark[0]
        if sign in b"[{":
            depth += 1
        elif sign in b"]}":
            depth -= 1
            if depth == 0:
                return mark.end()
        else:
            return -1
    return -1


def only_grammar_matters(data: bytes) -> bool:
    """Whether a document that the parser takes is one that kubectl takes.

    Not so where there are aliases, merges, tags, complex keys, infinities, template braces, or very deep nesting.
    """
    if data[:1] in (b"*", b"!", b"&") or (_SUSPECT.search(data) and _is_suspect(data)):
        return False
    return not (
        data.count(b"[") + data.count(b"{") > _MANY
        or _NOT_JSON.search(data)
        or (b"ull" in data and _any(_NULL, data, _null_begins_entry))
        or (b"ULL" in data and _any(_NULL_IN_CAPITALS, data, _null_begins_entry))
        or _any(_EMPTY_KEY, data, _begins_entry)
        or (b"&" in data and _any(_ANCHORED_EMPTY_KEY, data, _may_be_node))
    )


def _is_suspect(data: bytes) -> bool:
    """Whether anything that `_SUSPECT` finds is more than text."""
    return (
        b"<<" in data
        or (b"{{" in data and _any(_BRACES, data, _may_open_flow))
        or (b"*" in data and _any(_ALIAS, data, _may_be_node))
        or (b"!" in data and _any(_TAG, data, _may_be_node))
        or (b"]" in data and _any(_AFTER_BRACKET, data, _anywhere))
        or (b"}" in data and _any(_AFTER_BRACE, data, _anywhere))
        or (b"?" in data and _any(_QUESTION, data, _may_be_complex_key))
        or (b"~" in data and _any(_TILDE, data, _begins_entry))
    )


def _any(pattern: re.Pattern[bytes], data: bytes, is_it: Callable[[bytes], bool]) -> bool:
    """Whether any match is what it may be, by what stands before it; of very many it is taken for granted."""
    end = looked = 0
    for match in pattern.finditer(data):
        start = match.start()
        if start < end or not _stands(is_it, data, start):
            continue
        looked += 1
        end = _end_of_text(data, start) if looked < _MANY else 0
        if not end:
            return True
    return False


def _stands(is_it: Callable[[bytes], bool], data: bytes, at: int) -> bool:
    """Whether a place is what it may be, by what stands before it."""
    before = data[max(at - _NEAR, 0) : at].rstrip(_SPACE)
    return is_it(before) or (not before and at > 0)


def _end_of_text(data: bytes, at: int) -> int:
    """Where the text ends that a place is surely in, behind `|` or `>` or in quotes; 0 where it may be in none.

    Of the lines above it, each less indented, one opens it.
    """
    start = data.rfind(b"\n", 0, at) + 1
    if at - start > _BYTES_BACK:
        return 0
    above = data[start:at]
    indent = len(above) - len(above.lstrip(b" "))
    for _ in range(_LINES_BACK):
        if not start or not indent or at - start > _BYTES_BACK:
            return 0
        end, start = start - 1, data.rfind(b"\n", 0, start - 1) + 1
        line = data[start:end]
        text = line.lstrip(b" ")
        if not text.strip() or len(line) - len(text) >= indent:
            continue
        key = len(line) - len(line.lstrip(b" -"))
        if key < indent:
            if b"#" not in line and _OPENS_BLOCK.search(line):
                return _block(key).match(data, end + 1).end()  # type: ignore[union-attr]  # it matches nothing, too
            if (quote := _OPENS_QUOTES.match(line)) and _STILL_QUOTED[quote[1]].fullmatch(
                data, start + quote.end(), at
            ):
                return at + 1
        indent = len(line) - len(text)
    return 0


@lru_cache(maxsize=100)
def _block(key: int) -> re.Pattern[bytes]:
    """The lines of a block scalar whose key stands behind so many characters."""
    return re.compile(rb"(?:(?: {%d}[^\n]*|[ \t\r]*)\n)*+" % (key + 1))


def _may_be_node(before: bytes) -> bool:
    """Whether an alias or a tag may stand behind this text, an anchor between them or not."""
    return not before or before[-1:] in b"\n:,[{-" or b"&" in before.rsplit(None, 1)[-1]


def _may_open_flow(before: bytes) -> bool:
    """Whether a collection in brackets or braces may begin behind this text, an anchor or tag between them or not."""
    return not before or before[-1:] in b"\n:,[{-?" or before.rsplit(None, 1)[-1][:1] in b"&!"


def _anywhere(_: bytes) -> bool:
    return True


def _may_be_complex_key(before: bytes) -> bool:
    return before.rstrip(b" \t-")[-1:] in b"\n,{["


def _begins_entry(before: bytes) -> bool:
    return before[-1:] in b"\n{,?-"


def _null_begins_entry(before: bytes) -> bool:
    """The same before `ull`, the rest of a null."""
    return _begins_entry(before[:-1].rstrip(_SPACE))
