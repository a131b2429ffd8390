"""YAML with positions, for forewarn's own files: each error has a file, line and column."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import yaml

from forewarn.policies.config.model import ConfigError
from forewarn.policies.findings import cut, listed
from forewarn.policies.sources.errors import unreadable

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST: Final = 4 << 20
_DEEPEST: Final = 50
_SHOWN: Final = 300
"""Maximum characters of a path in a message."""
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """A value in a configuration file, with its position. The methods that read the value raise ConfigError."""

    file: str
    node: yaml.Node | None
    path: str = ""

    def fault(self, problem: str) -> ConfigError:
        """A ConfigError at this position."""
        mark = self.node.start_mark if self.node else None
        where = f"{self.file}:{mark.line + 1}:{mark.column + 1}" if mark else self.file
        return ConfigError(f"{where}: {cut(self.path, _SHOWN) + ': ' if self.path else ''}{problem}")

    @property
    def is_list(self) -> bool:
        return isinstance(self.node, yaml.SequenceNode)

    @property
    def is_empty(self) -> bool:
        return self.node is None or (isinstance(self.node, yaml.ScalarNode) and self.node.value == "")

    def items(self, names: Collection[str] | None = None, what: str = "key") -> Iterator[tuple[str, ConfigNode]]:
        """Yield the entries of a mapping. Raises ConfigError for an unknown key, with the most similar known key.

        `names`: the valid keys; None: any. `what`: the name of a key in errors.
        """
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
            if names is not None and key not in names:
                raise entry.fault(f'unknown {what} "{key}"{_suggestion(key, names)}')
            seen.add(key)
            yield key, ConfigNode(self.file, value_node, f"{self.path}.{key}".lstrip("."))

    def fields(self, names: Collection[str], required: Collection[str] = ()) -> dict[str, ConfigNode]:
        """The entries of a mapping by key. Raises ConfigError for an unknown key, and if a required one is missing."""
        given = dict(self.items(names))
        for key in required:
            if key not in given:
                raise self.fault(f"{key} is missing")
        return given

    def elements(self) -> Iterator[ConfigNode]:
        """The entries of a list."""
        if self._empty():
            return
        if not isinstance(self.node, yaml.SequenceNode):
            raise self.fault("must be a list")
        for index, node in enumerate(self.node.value):
            yield ConfigNode(self.file, node, f"{self.path}[{index}]")

    def text(self) -> str:
        """Return the value as text; booleans and numbers as written."""
        if not isinstance(self.node, yaml.ScalarNode) or self._empty():
            raise self.fault("must be a string")
        return str(self.node.value)

    def texts(self) -> tuple[str, ...]:
        return tuple(element.text() for element in self.elements())

    def integer(self) -> int:
        """The value as a whole number."""
        try:
            return int(self.text())
        except ValueError:
            raise self.fault(f'must be a whole number, not "{self.text()}"') from None

    def boolean(self) -> bool:
        """The value as a boolean: `true` or `false`."""
        text = self.text()
        if text not in ("true", "false"):
            raise self.fault(f'must be true or false, not "{text}"')
        return text == "true"

    def date(self) -> str:
        """The value as a date, for example 2027-01-31."""
        try:
            return date.fromisoformat(self.text()).isoformat()
        except ValueError:
            raise self.fault(f'must be a date such as 2027-01-31, not "{self.text()[:80]}"') from None

    @property
    def line(self) -> int:
        """The line of the value, from 1; 0 without a value."""
        return self.node.start_mark.line + 1 if self.node else 0

    def word(self, words: Collection[str], what: str) -> str:
        """Return the value, which must be one of `words`. `what`: the name of the value in errors."""
        text = self.text()
        if text not in words:
            raise self.fault(f'unknown {what} "{text}"{_suggestion(text, words)}')
        return text

    def plain(self) -> Any:
        """Return the value as plain Python types (dict, list, str …)."""
        if self.node is None:
            return None
        loader = _Loader("")
        try:
            return loader.construct_document(self.node)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise self.fault(str(error)) from None
        finally:
            loader.dispose()

    def _empty(self) -> bool:
        return self.node is None or (isinstance(self.node, yaml.ScalarNode) and self.node.tag.endswith(":null"))


def contents(path: Path | str, most: int = _LONGEST) -> bytes:
    """The bytes of a configuration file. Raises ConfigError, also for a file of more than `most` bytes."""
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ConfigError(str(unreadable(str(path), error))) from None
    if len(data) > most:
        raise ConfigError(f"{path}: larger than {most >> 20} MiB, the limit for a configuration file")
    return data


def parse(text: str | bytes, file: str) -> ConfigNode:
    """Parse the only document of a file. Raises ConfigError."""
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
    """Return line and column of the entry with this number; all count from 1. (0, 0) if there is no such entry.

    Each YAML document is a list of entries, or one entry; empty documents do not count. `data` must be valid YAML.
    """
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
    return isinstance(event, yaml.ScalarEvent) and event.value == "" and not event.style


def _check_depth(text: str | bytes, file: str) -> None:
    """Raise ConfigError if the text is nested too deeply: libyaml would crash the process."""
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


def _suggestion(word: str, words: Collection[str]) -> str:
    near = get_close_matches(word, list(words), n=1)
    return f'; did you mean "{near[0]}"?' if near else f"; known: {listed(sorted(words), 12)}"
