r"""Maximum sizes of an AdmissionReview, raw and decoded, and the memory that it needs after parsing."""

from __future__ import annotations

from typing import Final

MAX_OBJECT: Final = 3 * 1024 * 1024
"""Maximum bytes of a request to the API server, and thus of one object."""
_ENVELOPE: Final = 1024 * 1024
"""Maximum bytes of an AdmissionReview besides its two objects: the user's groups, the options."""
_ESCAPED: Final = len(r"\u003c")
MAX_WIRE: Final = 2 * MAX_OBJECT * _ESCAPED + _ENVELOPE
"""Maximum bytes of a request body: `object` and `oldObject` with every character escaped."""
MAX_DECODED: Final = 2 * MAX_OBJECT + _ENVELOPE
"""Maximum bytes of a parsed body, with each `\\uXXXX` counted as one byte."""
MAX_SMALL: Final = 64 * 1024
"""Maximum bytes of a body that the event loop parses. Larger bodies wait in a queue and are parsed one at a time."""
MAX_QUICK: Final = 1024 * 1024
"""Maximum bytes of a body that takes at most some hundredths of a second to parse, without running other threads."""
HEAD: Final = 256 * 1024
"""Bytes of an unparsed body that forewarn retains: they contain the names of object, user and request."""
PARSED: Final = 32
"""Maximum bytes of memory for one byte of a parsed body: `{"":0},` needs 240."""


def decoded_size(body: bytes) -> int:
    r"""Return the size of a body in bytes; above MAX_DECODED, each `\uXXXX` counts as one byte.

    Does not decode, but ignores `\uXXXX` after an escaped backslash, which is plain text.
    """
    if len(body) <= MAX_DECODED:
        return len(body)
    return len(body) - (_ESCAPED - 1) * body.replace(rb"\\", b"  ").count(rb"\u")
