"""YAML with positions, for forewarn's own files: every error has a file, line and column."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import yaml

from forewarn.policies.config.model import ConfigError
from forewarn.policies.findings import cut, listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_LONGEST: Final = 4 << 20
_DEEPEST: Final = 50
_SHOWN: Final = 300
"""Characters of a path in a message."""
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """A value of the file, with its place. Its readers raise ConfigError."""

    file: str
    node: yaml.Node | None
    path: str = ""

    def fault(self, problem: str) -> ConfigError:
        """Return an error about this position with the message `problem`."""
        mark = self.node.start_mark if self.node else None
        where = f"{self.file}:{mark.line + 1}:{mark.column + 1}" if mark else self.file
        return ConfigError(f"{where}: {cut(self.path, _SHOWN) + ': ' if self.path else ''}{problem}")

    @property
    def is_list(self) -> bool:
        """Whether the value is a list."""
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_empty(self) -> bool:
        """Whether there is no document, or only one without content."""
        return self.node is None or (isinstance(self.node, yaml.ScalarNode) and self.node.value == "")

    def items(self, known: Collection[str] | None = None, what: str = "key") -> Iterator[tuple[str, ConfigNode]]:
        """The entries of a mapping; a key that is not known is a fault, with the nearest one offered."""
        if self._empty():
            return
        if not isinstance(self.node, yaml.MappingNode):
            raise self.fault("must be a mapping")
        seen = set()
        for key_node, value_node in self.node.value:
            key = str(key_node.value)
            entry = ConfigNode(self.file, key_node, self.path)
            if key in seen:
                raise entry.fault(f'"{key}" is duplicated')
            if known is not None and key not in known:
                raise entry.fault(f'unknown {what} "{key}"{_suggestion(key, known)}')
            seen.add(key)
            yield key, ConfigNode(self.file, value_node, f"{self.path}.{key}".lstrip("."))

    def elements(self) -> Iterator[ConfigNode]:
        """The entries of a list."""
        if self._empty():
            return
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.fault("must be a list")
        for index, node in enumerate(self.node.value):
            yield ConfigNode(self.file, node, f"{self.path}[{index}]")

    def text(self) -> str:
        """Text; what YAML takes for a boolean or a number is taken as it is written."""
        if not isinstance(self.node, yaml.ScalarNode) or self._empty():
            raise self.fault("must be a string")
        return str(self.node.value)

    def texts(self) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(element.text() for element in self.elements())

    def integer(self) -> int:
        """A whole number."""
        try:
            return int(self.text())
        except ValueError:
            raise self.fault(f'must be a whole number, not "{self.text()}"') from None

    def boolean(self) -> bool:
        """`true` or `false`."""
        text = self.text()
        if text not in ("true", "false"):
            raise self.fault(f'must be true or false, not "{text}"')
        return text == "true"

    def date(self) -> str:
        """A day, as 2027-01-31."""
        try:
            return date.fromisoformat(self.text()).isoformat()
        except ValueError:
            raise self.fault(f'must be a date such as 2027-01-31, not "{self.text()[:80]}"') from None

    @property
    def line(self) -> int:
        """The line, from 1."""
        return self.node.start_mark.line + 1 if self.node else 0

    def word(self, known: Collection[str], what: str) -> str:
        """One of several words."""
        text = self.text()
        if text not in known:
            raise self.fault(f'unknown {what} "{text}"{_suggestion(text, known)}')
        return text

    def plain(self) -> Any:
        """The value as YAML's plain types."""
        loader = _Loader("")
        try:
            return loader.construct_document(self.node)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise self.fault(str(error)) from None
        finally:
            loader.dispose()

    def _empty(self) -> bool:
        return self.node is None or (isinstance(self.node, yaml.ScalarNode) and self.node.tag.endswith(":null"))


def contents(path: Path | str) -> bytes:
    """The bytes of a file of ours. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if len(data) > _LONGEST:
        raise ConfigError(f"{path}: larger than {_LONGEST >> 20} MiB, the limit for a configuration file")
    return data


def parse(text: str | bytes, file: str) -> ConfigNode:
    """The one document of a file. Raises ConfigError."""
    try:
        _check_depth(text, file)
        documents = list(yaml.compose_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
        raise ConfigError(f"{where}: {error.problem}") from None
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None
    if len(documents) > 1:
        raise ConfigNode(file, documents[1]).fault("more than one YAML document; a configuration is one")
    return ConfigNode(file, documents[0] if documents else None)


def place_of_entry(data: bytes, number: int) -> tuple[int, int]:
    """Line and column of the entry of this number in a text that has been read: its documents are lists, or entries
    themselves. (0, 0) where there is none."""
    depth, in_list = 0, False
    try:
        for event in yaml.parse(data, Loader=_Loader):
            if isinstance(event, yaml.NodeEvent):
                is_list = isinstance(event, yaml.SequenceStartEvent)
                if depth == 0:
                    in_list = is_list
                if depth == in_list and not (depth == 0 and _is_nothing(event)):
                    number -= 1
                    if number == 0 and event.start_mark is not None:
                        return event.start_mark.line + 1, event.start_mark.column + 1
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
    except yaml.YAMLError:
        pass
    return 0, 0


def _is_nothing(event: Any) -> bool:
    """Whether the document has no content."""
    return isinstance(event, yaml.ScalarEvent) and event.value == "" and not event.style


def _check_depth(text: str | bytes, file: str) -> None:
    """Raises ConfigError where it nests deeper than libyaml composes: it would take the process with it."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                mark = event.start_mark
                where = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
                raise ConfigError(f"{where}: nested deeper than {_DEEPEST} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _suggestion(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f'; did you mean "{near[0]}"?' if near else f"; known: {listed(sorted(known), 12)}"
