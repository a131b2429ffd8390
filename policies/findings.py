"""What a rule says about an object, and where: totally ordered, so that output is the same on every run."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Severity(IntEnum):
    """How bad it is; the smaller the worse, so that sorting puts the worst first."""

    ERROR = 1
    WARNING = 2
    NOTE = 3

    def __str__(self) -> str:
        return self.name.lower()


class Action(StrEnum):
    """What the webhook does with a finding."""

    DENY = "deny"
    WARN = "warn"
    AUDIT = "audit"
    OFF = "off"


Path = tuple[str | int, ...]
"""Where in an object: keys and list indexes from its root."""


def field_path(path: Path) -> str:
    """The path as upstream's field.Path prints it: `spec.containers[0].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


class Location(NamedTuple):
    """A span in one line of a file; lines and columns count from 1, `end_column` is the first one behind it.

    `line` 0: there is no text to point at (an object that came over the network or out of a cluster dump).
    """

    file: str = ""
    line: int = 0
    column: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file or "the request"


class ObjectRef(NamedTuple):
    """Which object: `Deployment team/web`."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}".strip()


NOWHERE: Final = Location()
NO_OBJECT: Final = ObjectRef()


class Problem(NamedTuple):
    """What a rule yields. The evaluator adds id, severity, action, object and location, and makes a Finding of it.

    `message`: what is wrong, values quoted, then why; lower case, no full stop. The first sentence fits a kubectl
    warning (120 characters). `path`: the offending value; where a field is absent, leave it empty (the object's name
    is shown). `location` overrides `path` for what is not inside the subject's object. `detail`: the same for programs.
    """

    message: str
    path: Path = ()
    remediation: str = ""
    location: Location | None = None
    object: ObjectRef | None = None
    detail: Mapping[str, Any] = {}


class Finding(NamedTuple):
    """One rule's statement on one object, in force."""

    location: Location
    severity: Severity
    rule: str
    object: ObjectRef
    message: str
    remediation: str = ""
    action: Action = Action.WARN
    path: str = ""
    detail: Mapping[str, Any] = {}

    @property
    def order(self) -> tuple[Any, ...]:
        """The order of the report: by place, then the worst first; total, so that every run prints the same."""
        return (self.location, self.severity, self.rule, self.object, self.message, self.path)


def quote(text: object) -> str:
    """A value in a message: upstream's double quotes."""
    return f'"{text}"'


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 pod`, `2 pods`."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"


def listed(items: list[str], limit: int = 3) -> str:
    """`a, b, c and 4 more`."""
    if len(items) <= limit:
        return ", ".join(items)
    return f"{', '.join(items[:limit])} and {len(items) - limit} more"
