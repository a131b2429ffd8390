"""Fast detection of the kinds in a document, so that most documents are not parsed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice, takewhile
from typing import Final

from forewarn.policies.base.light import later

_ROOT_LINE: Final = later(
    rb"\n(?=[^ ])(?:(kind|apiVersion)[ \t]*:([^\n]*)|[^\s#a-zA-Z-]|\.\.\.|-[^ \n\r-]|items[ \t]*:)"
)
"""One pattern for the lines that give the type, and for those that `_UNUSUAL_ROOT` finds."""
_PLAIN_WORD: Final = later(rb"[ \t]+([A-Za-z][\w./-]*)[ \t]*(?:[ \t]#.*)?\r?")
_CONTINUED: Final = later(rb"\s*(?<=[ \t])[^\s#]")
_UNUSUAL_ROOT: Final = later(rb"\n(?:[^\s#a-zA-Z-]|\.\.\.|-[^ \n\r-]|items[ \t]*:)")
_SEPARATOR: Final = later(rb"\n---[ \t]*\r?(?=\n)")
_BEFORE_CONTENT: Final = later(rb"\n(?![ \t]*(?:#[^\n]*)?\r?\n)")
_KEY_LINE: Final = later(rb"[A-Za-z][\w.-]*[ \t]*:(?:[ \t]|\r?\n)")
_ITEM_LINE: Final = later(rb"-[ \n]")
_ITEM_NO_WORD: Final = later(rb"\n-(?! [A-Za-z])")
_KIND_OF_ITEM: Final = later(rb"\n[- ] (?:[^\sA-Za-z-][^\n]*)?kind")
_ESCAPED: Final = later(rb"\\[xuU]")

# What follows begins with the character that is rare, and looks back from there: many times faster than the other way.
_NOT_JSON: Final = later(rb"\.(?:inf|Inf|INF|nan|NaN|NAN)(?:[\s,\]}]|\Z)")
_NULL: Final = later(rb"ull(?<=[nN].{3})(?:[ \t]*:\s|\s*[,}])")
_NULL_IN_CAPITALS: Final = later(rb"ULL(?<=N.{3})(?:[ \t]*:\s|\s*[,}])")
_EMPTY_KEY: Final = later(rb":(?<=[ \t\n{,?-]:)\s")
_ANCHORED_EMPTY_KEY: Final = later(rb"&[\w-]+(?:[ \t]*(?:~|<<|[nN]ull|NULL))?(?:[ \t]*:\s|\s*[,}])")
_LONE_RETURN: Final = later(rb"\r(?!\n)")
_ODD_BREAKS: Final = ((b"\xc2", later(rb"\xc2\x85")), (b"\xe2", later(rb"\xe2\x80[\xa8\xa9]")))
"""Line breaks of libyaml other than line feeds, each after its first byte: rare, and not supported by the patterns
here.
"""
_OPENINGS: Final = {sign: later(rb"\%b(?:(?<=[ \t\n,\[{].)|(?<=\A.))" % sign) for sign in (b"[", b"{")}
_SLASH: Final = later(rb"\\/")
_IN_FLOW: Final = later(rb"[\[\]{}\"'#?]")
_SPACE: Final = b" \t"
_BLANKS: Final = (b" ", b"\t")
_ANCHOR: Final = later(rb"&[\w-]+\Z")
_NEAR: Final = 200
"""Maximum characters to search backwards; text with more blanks is parsed carefully."""
_MANY: Final = 4000
_IN_PLAIN: Final = later(rb"(?:.*\s)?[A-Za-z][\w./:@-]*[\[{][^\s'\"]*", re.DOTALL)
"""Text whose last word contains a bracket that opens nothing."""
_OPENS_BLOCK: Final = later(rb"(?::|^ *-)[ ]+[|>][-+]?[ \t]*\r?\Z")
_ITEM_OPENS_BLOCK: Final = later(rb" *-[ ]+[|>]")
_OPENS_QUOTES: Final = later(rb"[ -]*[^\s'\"#:,\[{][^'\"#:]*:[ ]+(['\"])")
_PLAIN_VALUE: Final = later(rb" *(?:- +)*[A-Za-z][\w./$-]*: +[A-Za-z0-9(]")
_UNENDED: Final = later(rb"[^'\"#,\[\]{}&*!]*")
_UNENDED_VALUE: Final = later(rb" *(?:- +)*[A-Za-z][\w./$-]*:(?=\s|\Z)")
_FEW_LINES: Final = 4
_IN_QUOTES: Final = {b"'": later(rb"''?"), b'"': later(rb'\\.?|"', re.DOTALL)}
"""By quote: an escape, of two characters, or one character that ends the text or is half of an escape."""
_LONG_FLOW: Final = 2_000
_BYTES_BACK: Final = 20_000
_A_LINE: Final = 100
"""Bytes of a short document that are searched beyond the limit for text, and the cost of a line."""
_LONG: Final = 1 << 20
_DEEP: Final = b" " * 200
_DEEP_LIST: Final = b"- - - -"
_ANY_KIND: Final = later(rb"kind(?<![^\s{,\"'-]kind)[\"']?[ \t]*:[ \t]*[\"']?([A-Za-z]\w*)?")
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
    """Report whether a text contains a CustomResourceDefinition in the usual notation, and does not only name one."""
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


def laxer_than_kubectl(data: bytes) -> bool:
    """Whether libyaml may accept text that kubectl's older copy rejects (then `grammar.check_as_kubectl` decides)."""
    return any(True for _ in _at(b"\\", _SLASH, data)) or has_doubtful_questions(data)


def slashes_in_disguise(data: bytes) -> bytes:
    r"""Return the text with each `\/` replaced by the invalid escape `\@`, which the parser rejects where `\/` is an
    escape.
    """
    return data.replace(b"\\/", b"\\@")


def has_doubtful_questions(data: bytes) -> bool:
    """True if an unquoted question mark may be inside brackets or braces."""
    if b"?" not in data or (b"[" not in data and b"{" not in data):
        return False
    last = data.rindex(b"?")
    openings = (takewhile(last.__gt__, _at(sign, pattern, data)) for sign, pattern in _OPENINGS.items())
    return any(_any_of(starts, data, _may_open_flow, _end_of_flow) for starts in openings)


def _end_of_flow(data: bytes, start: int) -> int:
    """Return the position after the closing bracket; 0 if a question mark, quote or comment is before, or too far."""
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
            return 0
    return 0


def only_grammar_matters(data: bytes) -> bool:
    """Report whether kubectl accepts the document if the parser does, so that only the grammar must be checked.

    Always false with aliases, merges, tags, complex keys, infinities, template braces, or very deep nesting.
    """
    if data[:1] in (b"*", b"!", b"&") or not _has_plain_keys(data):
        return False
    return not any(_any_of(_at(sign, what, data), data, is_it) for sign, what, is_it in _SUSPECTS)


def _has_plain_keys(data: bytes) -> bool:
    """True if no key is empty or null, no number is infinite, and there are not too many brackets."""
    return not (
        (len(data) > _MANY and data.count(b"[") + data.count(b"{") > _MANY)
        or _NOT_JSON.search(data)
        or _any(_NULL, data, _null_begins_entry)
        or _any_of(_at(b"U", _NULL_IN_CAPITALS, data), data, _null_begins_entry)
        or _any(_EMPTY_KEY, data, _begins_entry)
        or _any_of(_at(b"&", _ANCHORED_EMPTY_KEY, data), data, _may_be_node)
        or (b"\r" in data and _LONE_RETURN.search(data))
        or (not data.isascii() and any(odd.search(data) for first, odd in _ODD_BREAKS if first in data))
    )


def _any(pattern: re.Pattern[bytes], data: bytes, is_it: Callable[[bytes, int], bool]) -> bool:
    return _any_of((match.start() for match in pattern.finditer(data)), data, is_it)


def _at(sign: bytes, pattern: re.Pattern[bytes], data: bytes) -> Iterator[int]:
    """Yield the positions of matches that start with a character: many times faster than a search if it is rare."""
    at = data.find(sign)
    for _ in range(_MANY):
        if at < 0:
            return
        if pattern.match(data, at):
            yield at
        at = data.find(sign, at + 1)
    if at >= 0:
        yield from (match.start() for match in pattern.finditer(data, at))


def _any_of(
    starts: Iterable[int],
    data: bytes,
    is_it: Callable[[bytes, int], bool],
    end_of: Callable[[bytes, int], int] = lambda *_: 0,
) -> bool:
    """Report whether one of these constructs is outside of text (quotes, block scalars), by the characters before it.

    Assumed if there are very many. `is_it`: whether the construct may start at a position. `end_of`: returns the end of
    a construct that is harmless; 0 if unknown.
    """
    end = looked = 0
    texts = _Texts(data)
    for start in starts:
        if start < end or not is_it(data, start):
            continue
        looked += 1
        end = end_of(data, start) or (texts.end(start) if looked < _MANY else 0)
        if not end:
            return True
    return False


def _before(data: bytes, at: int) -> bytes:
    """The text before a position without trailing blanks; "" if there are only blanks nearby."""
    return data[max(at - _NEAR, 0) : at].rstrip(_SPACE)


class _Texts:
    """Finds ends of quoted texts and block scalars in a document by searching backwards.

    The total search is limited to a small multiple of the document's length.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._remaining = 2 * len(data) + _BYTES_BACK

    def end(self, at: int) -> int:
        """Return the end of the block scalar or quoted text that contains a position; 0 if none is found.

        One of the less indented lines above the position starts such a text.
        """
        data = self._data
        if self._remaining <= 0:
            return 0
        start = data.rfind(b"\n", 0, at) + 1
        above = data[start:at]
        self._remaining -= len(above)
        if (quote := _OPENS_QUOTES.match(above)) and _is_quoted(quote[1], above, quote.end(), len(above)):
            return at
        if _PLAIN_VALUE.match(above) and self._is_below_a_key(start):
            return data.find(b"\n", at) + 1 or len(data)
        indent = len(above) - len(above.lstrip(b" "))
        while start and indent and self._remaining > 0:
            end, start = start - 1, data.rfind(b"\n", 0, start - 1) + 1
            line = data[start:end]
            self._remaining -= len(line) + _A_LINE
            text = line.lstrip(b" ")
            if len(line) - len(text) >= indent or not text.strip():
                continue
            key = line.find(b"-") if _ITEM_OPENS_BLOCK.match(line) else len(line) - len(line.lstrip(b" -"))
            if key < indent:
                if b"#" not in line and _OPENS_BLOCK.search(line):
                    following = _below_block(key).search(data, end)
                    return following.end() if following else len(data)
                if quote := _OPENS_QUOTES.match(line):
                    self._remaining -= at - start
                    if _is_quoted(quote[1], data, start + quote.end(), at):
                        return at
            indent = len(line) - len(text)
        return 0

    def _is_below_a_key(self, start: int) -> bool:
        """Report whether the parser rejects a document in which the line at `start`, with a key, is inside of brackets
        or braces: the key of a line before it has a value that nothing ends.
        """
        data = self._data
        for _ in range(_FEW_LINES):
            end, start = start - 1, data.rfind(b"\n", 0, max(start - 1, 0)) + 1
            self._remaining -= end - start
            if end < 0 or not _UNENDED.fullmatch(data, start, end):
                return False
            if _UNENDED_VALUE.match(data, start, end):
                return True
        return False


def _is_quoted(quote: bytes, data: bytes, start: int, end: int) -> bool:
    """Report whether the text in quotes that starts at a position has no end before another one."""
    return all(len(mark[0]) == 2 for mark in _IN_QUOTES[quote].finditer(data, start, end))


@lru_cache(maxsize=100)
def _below_block(key: int) -> re.Pattern[bytes]:
    """The line end before the first line that is not in a block scalar, by the column of the scalar's key."""
    return later(rb"\n(?! {%d}|[ \t\r]*\n)" % (key + 1))


def _may_be_node(data: bytes, at: int) -> bool:
    """Report whether an alias or tag may start at this position, with or without an anchor before it."""
    before = _before(data, at)
    last = before[-1:]
    if last in (b"[", b"{"):
        return _may_open(before[:-1])
    is_entry = last == b"-" and data[at - 1 : at] in _BLANKS and before.rstrip(b" \t-")[-1:] in b"\n:?"
    return is_entry or last in b"\n:," or _ANCHOR.search(before) is not None


def _may_open_flow(data: bytes, at: int) -> bool:
    """Report whether a flow collection may start here, with or without an anchor or tag before it."""
    return _may_open(_before(data, at))


def _may_open(before: bytes) -> bool:
    before = before.rstrip(b" \t[{")
    return before[-1:] in b"\n:,-?" or _last_word(before)[:1] in b"&!"


def _may_end_flow(data: bytes, at: int) -> bool:
    """Report whether a collection may end at this bracket: the bracket is not part of a word (`a[0]:`)."""
    return not _IN_PLAIN.fullmatch(data, max(at - _NEAR, 0), at)


def _last_word(before: bytes) -> bytes:
    """Return the text after the last blank; if all characters are blank, `&`, as if there were an anchor."""
    return (before.rsplit(None, 1) or (b"&",))[-1]


def _may_be_complex_key(data: bytes, at: int) -> bool:
    return _before(data, at).rstrip(b" \t-")[-1:] in b"\n,{["


def _begins_entry(data: bytes, at: int) -> bool:
    return _before(data, at)[-1:] in b"\n{[,?-"


def _null_begins_entry(data: bytes, at: int) -> bool:
    """Report whether an entry may begin with the null whose `ull` is at this position."""
    return _begins_entry(data, at - 1)


_SUSPECTS: Final = (
    (b"<", later(rb"<<(?:[ \t]*:\s|\s*[,}])"), _begins_entry),
    (b"{", later(rb"\{\s*[\[{]"), _may_open_flow),
    (b"*", later(rb"\*(?<=[ \t\n:,\[{-].)\S"), _may_be_node),
    (b"!", later(rb"!(?<=[ \t\n:,\[{-].)\S"), _may_be_node),
    (b"]", later(rb"\][ \t]*:"), _may_end_flow),
    (b"}", later(rb"\}[ \t]*:"), _may_end_flow),
    (b"?", later(rb"\?[ \t\r\n]"), _may_be_complex_key),
    (b"~", later(rb"~(?:[ \t]*:\s|\s*[,}])"), _begins_entry),
)
"""A rare character, what follows it in a construct of YAML, and whether it may start the construct at a position."""
