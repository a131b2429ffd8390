"""Fast detection of the kinds in a document, so that most documents are not parsed."""

from __future__ import annotations

import re
from itertools import islice
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
_BRACE_IN_BRACE: Final = later(rb"\{\s*[\[{]")
_ODD_BREAK: Final = later(rb"\r(?!\n)|\xc2\x85|\xe2\x80[\xa8\xa9]")
"""Line breaks of libyaml that the patterns here do not support."""
_MANY: Final = 4000
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


def matters_beyond_grammar(data: bytes) -> bool:
    """Report whether a document that seems to be of a kind that no rule reads is decoded anyway: it may be a template,
    be nested deeply, or have other line breaks.
    """
    return (
        _BRACE_IN_BRACE.search(data) is not None
        or data.count(b"[") + data.count(b"{") > _MANY
        or ((b"\r" in data or not data.isascii()) and _ODD_BREAK.search(data) is not None)
    )
