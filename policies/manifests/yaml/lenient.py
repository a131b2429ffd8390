"""What kubectl's YAML reader takes and libyaml does not: rewritten, so that libyaml takes it too.

Source: go.yaml.in/yaml/v2 scannerc.go. In a plain scalar inside of brackets or braces a `:` ends nothing unless a blank
follows (`[1.2.3.4, 001:db8::]`), and `\\'` is an escape in double quotes. Both are masked by characters that the text
does not hold, one for one, so that every position stays; `parsing.Unmasking` puts them back into the values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policies.manifests.documents import Document, Fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")

_FAULTS: Final = ("a ':' inside of brackets or braces", "found unknown escape character")
_COLON: Final = re.compile(r"""(?<=[^\s,\[\]{}?:'"]):+(?=[,\[\]{}])""")
_QUOTE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\'")
_PRIVATE: Final = [chr(code) for code in range(0xE000, 0xE040)]


def leniently(read: Callable[[Document], T], document: Document) -> T:
    """What `read` makes of a document; where libyaml alone objects, of the same text masked. Raises Fault."""
    try:
        return read(document)
    except Fault as fault:
        masked = None if document.masks or not fault.message.startswith(_FAULTS) else _masked(document)
        if masked is None:
            raise
        try:
            return read(masked)
        except Fault:
            raise fault from None


def _masked(document: Document) -> Document | None:
    """The document with its masks; None where there is nothing to mask, or no character is left for it."""
    text = document.text
    free = [character for character in _PRIVATE if character not in text][:2]
    if len(free) < 2:
        return None
    masked = _COLON.sub(lambda colons: free[0] * len(colons[0]), text)
    masked = _QUOTE.sub(rf"\g<1>{free[1]}'", masked)
    if masked == text:
        return None
    found = Document(masked.encode(), document.file, document.line, document.column)
    found.masks = "".join(free)
    return found
