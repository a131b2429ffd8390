"""libyaml's event parser, or PyYAML's own without libyaml, and readable texts for parser errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from yaml.error import MarkedYAMLError
from yaml.reader import ReaderError

from forewarn.policies.manifests.documents import Fault

if TYPE_CHECKING:
    from yaml.error import YAMLError

    from forewarn.policies.manifests.documents import Document

_IN_OTHER_WORDS: Final = {
    "found unexpected ':'": "a ':' inside of brackets or braces needs quotes, or a space behind it",
    "could not find expected ':'": "did not find the ':' of a key",
    "mapping values are not allowed in this context": "a key cannot stand here (': ' inside a value needs quotes)",
}


def parser(document: Document) -> Any:
    """Return an event parser for a document, which restores masked characters."""
    events = parser_of(document.data)
    return Unmasking(events, document.masks) if document.masks else events


def parser_of(data: bytes) -> Any:
    """An event parser for a text."""
    try:
        from yaml.cyaml import CParser  # type: ignore[attr-defined]
    except ImportError:
        return _python_parser(data)
    return CParser(data)


def _python_parser(data: bytes) -> Any:
    """PyYAML's own parser, for installations without libyaml: the same events, much slower."""
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class PythonParser(Reader, Scanner, Parser):
        def __init__(self, stream: bytes) -> None:
            Reader.__init__(self, stream)
            Scanner.__init__(self)
            Parser.__init__(self)

    return PythonParser(data)


class Unmasking:
    """An event parser that replaces masks in values by the original characters."""

    def __init__(self, events: Any, masks: dict[str, str]) -> None:
        self._events, self._masks = events, masks

    def get_event(self) -> Any:
        """Return the next YAML event, with masked characters restored."""
        event = self._events.get_event()
        value = getattr(event, "value", None)
        if value:
            for mask, meant in self._masks.items():
                # In double quotes a backslash is an escape that libyaml does not know: what it escapes is meant.
                value = value.replace(mask, "" if (meant, event.style) == ("\\", '"') else meant)
            event.value = value
        return event

    def check_event(self) -> bool:
        """Report whether another event follows."""
        return bool(self._events.check_event())


def extent(event: Any) -> tuple[int, int]:
    """The position of an event's first character, and the position after its last."""
    return event.start_mark.index, event.end_mark.index


def fault_of(error: YAMLError, document: Document) -> Fault:
    """The Fault for an error of the parser, with positions in characters."""
    if isinstance(error, ReaderError):
        start = len(document.data[: error.position].decode("utf-8", "ignore"))
        if error.reason != "control characters are not allowed":
            return Fault(f"this is not UTF-8: {error.reason}", start, start + 1)
        return Fault(f"the control character U+{_code(error.character):04X} is not allowed", start, start + 1)
    if not isinstance(error, MarkedYAMLError):
        return Fault(str(error))
    problem = error.problem or "this is not YAML"
    start = error.problem_mark.index if error.problem_mark else 0
    if problem.startswith("found character") and document.text[start : start + 1] == "\t":
        return Fault("a tab cannot indent YAML: use spaces", start, start + 1)
    if document.text[:1] == "%":
        return Fault("kubectl reads no directives: it cuts the file at --- before it parses; remove this line")
    since = error.context_mark.index if error.context and error.context_mark else None
    context = f" {error.context}" if error.context else ""
    return Fault(f"{_IN_OTHER_WORDS.get(problem, problem)}{context}", start, None, since)


def _code(character: object) -> int:
    if isinstance(character, int):
        return character
    return (character if isinstance(character, bytes) else str(character).encode("utf-8", "replace"))[0]
