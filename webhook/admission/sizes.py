r"""Maximum sizes of a review, on the wire and decoded, and the memory that it needs after parsing.

Sources: apiserver pkg/server/config.go (MaxRequestBodyBytes), Go's encoding/json (`<`, `>`, `&`, U+2028, U+2029 and
invalid UTF-8 are written as six bytes, `\u003c`).
"""

from __future__ import annotations

from typing import Final

MAX_OBJECT: Final = 3 * 1024 * 1024
"""Bytes of a request to the API server, and so of an object in it."""
_ENVELOPE: Final = 1024 * 1024
"""Bytes of a review beside its two objects: the user's groups, the options."""
_ESCAPED: Final = len(r"\u003c")
MAX_WIRE: Final = 2 * MAX_OBJECT * _ESCAPED + _ENVELOPE
"""Bytes of a body that is read: `object` and `oldObject` with every character escaped."""
MAX_DECODED: Final = 2 * MAX_OBJECT + _ENVELOPE
"""Bytes of a body that is parsed, each `\\uXXXX` counted as one."""
MAX_SMALL: Final = 64 * 1024
"""Bytes of a body that the event loop parses itself. A larger one is parsed in its turn, one at a time."""
HEAD: Final = 256 * 1024
"""Bytes of an unparsed body that forewarn keeps: they contain the names of object, user and request."""
PARSED: Final = 32
"""Maximum bytes of memory for one byte of a parsed body: `{"":0},` needs 240."""


def decoded_size(body: bytes) -> int:
    """The size of a body in bytes, where each `\\uXXXX` counts as one byte; exact above MAX_DECODED alone.

    Nothing is decoded: an escaped backslash (two bytes) is blanked first, so that `\\\\u003c`, which is text, is no
    escape.
    """
    if len(body) <= MAX_DECODED:
        return len(body)
    return len(body) - (_ESCAPED - 1) * body.replace(rb"\\", b"  ").count(rb"\u")
