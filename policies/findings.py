"""What a rule reports about an object, and where. Totally ordered, so that every run prints the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.disclosure import Audience

if TYPE_CHECKING:
    from collections.abc import Mapping


class Severity(IntEnum):
    """How severe a finding is; the smallest is the worst, so that sorting puts it first."""

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


Text = str | Callable[[Audience], str]
"""A text for everybody, or one that is written for who reads it: it then names only what the reader may be told of."""


def written(text: Text, audience: Audience) -> str:
    """A text as this reader gets it."""
    return text if isinstance(text, str) else text(audience)


class Problem(NamedTuple):
    """What a rule yields. The evaluator adds id, severity, action, object and location, and makes a Finding of it.

    `message`: what is wrong, in at most 120 characters, lowercase, without a full stop and without the name of the
    object, which is shown beside it. More sentences may follow; a kubectl warning has them only if they fit.
    `remediation`: what to do, as an imperative. `path`: the offending value; if the field is absent, leave it empty
    (the object's name is shown). `location` overrides `path` for what is not inside the subject's object. `detail`:
    the same for programs, with every name. A text that names anything but the subject and its class is written for
    its reader. `severity`: at most this, if it is lower than the rule's; a note never warns or denies.
    """

    message: Text
    path: Path = ()
    remediation: Text = ""
    location: Location | None = None
    object: ObjectRef | None = None
    detail: Mapping[str, Any] = {}
    severity: Severity | None = None


class RequesterText(NamedTuple):
    """The texts for a requester who may not see everything; an empty message shows nothing."""

    message: str
    remediation: str = ""


class Finding(NamedTuple):
    """A problem with one object, with the severity and action in force.

    `message`, `remediation` and `detail` name everything: they are for the audit log and for commands. `for_requester`
    holds the words for who made the request; None where nothing is withheld of these.
    """

    location: Location
    severity: Severity
    rule: str
    object: ObjectRef
    message: str
    remediation: str = ""
    action: Action = Action.WARN
    path: str = ""
    detail: Mapping[str, Any] = {}
    for_requester: RequesterText | None = None
    not_evaluated: bool = False
    """Whether it says only that its rule was not evaluated, or not to the end."""

    @property
    def is_shown(self) -> bool:
        """Whether the requester reads anything of it."""
        return self.for_requester is None or bool(self.for_requester.message)

    @property
    def as_told(self) -> Finding:
        """The finding in the words for the requester."""
        return (
            self._replace(message=self.for_requester.message, remediation=self.for_requester.remediation)
            if self.for_requester
            else self
        )

    @property
    def order(self) -> tuple[Any, ...]:
        """The order of the report: by place, then the worst first; total, so that every run prints the same."""
        return (self.location, self.severity, self.rule, self.object, self.message, self.path)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters; what is lost leaves an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def quote(text: object) -> str:
    """A value in a message: upstream's double quotes."""
    return f'"{text}"'


_SPACE: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]+")
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What is drawn as nothing and yet counts as printable: fillers, the blank of Braille, variation selectors."""


def one_line(text: str) -> str:
    """The text as it can be printed anywhere: on one line, and what nobody sees made visible.

    Control characters, lone surrogates and line breaks become a space, a run of them one. What turns the direction of a
    line (bidi), has no width, is a tag or a variation selector, or is no character at all becomes its escape, as
    `\\u202e`: left as it is, two names could look alike, or a warning read backwards.
    """
    if text.isascii():
        return _SPACE.sub(" ", text).strip()
    return "".join(map(_shown, _SPACE.sub(" ", text).strip()))


_NAMED_COMMAND: Final = re.compile(r"##(?=[\w.-]*\[)")
"""What begins a command anywhere in a line: GitHub's `##[`, Azure's `##vso[`, TeamCity's `##teamcity[`, and others."""
_FOLD: Final = re.compile(r"((?:travis_(?:fold|time)|section_(?:start|end))):")
"""The same of Travis and GitLab."""
_LINE_COMMAND: Final = re.compile(r"((?:\033\[[\d;]*m|\s)*)(?=::)|(?=(?:---|\+\+\+|~~~|\^\^\^)\s)")
"""What begins one where a line begins: GitHub's `::`, which may be indented, and Buildkite's groups."""

_LINE_COMMAND_IN_MARKUP: Final = re.compile(r"^([ \t]*)((?=::)[:]|(?=(?:---|\+\+\+|~~~|\^\^\^)\s)[-+~^])", re.MULTILINE)


def no_command(text: str, *, is_patch: bool = False) -> str:
    """A line without what a CI system takes for a command; carets below it stay in place.

    Where the line begins only the name of a file can begin so, and it gets `./` before it. `is_patch`: the line is one
    of a patch, whose `---` and `+++` stay.
    """
    if "##" in text:
        text = _NAMED_COMMAND.sub("# ", text)
    if ":" in text:
        text = _FOLD.sub(r"\1 :", text)
    if not is_patch and (found := _LINE_COMMAND.match(text)):
        return f"{text[: found.end()]}./{text[found.end() :]}"
    return text


def no_command_in_json(text: str) -> str:
    """The same JSON without such commands: inside of a string, where alone they can stand, as escapes."""
    return _FOLD.sub(r"\1\\u003a", _NAMED_COMMAND.sub(r"#\\u0023", text))


def no_command_in_markup(text: str) -> str:
    """The same for HTML and XML."""
    text = _FOLD.sub(r"\1&#58;", _NAMED_COMMAND.sub("#&#35;", text))
    return _LINE_COMMAND_IN_MARKUP.sub(lambda found: f"{found[1]}&#{ord(found[2])};", text)


def printable(text: str) -> str:
    """The text with all that cannot be printed, or that nobody would see, as escapes: for names of files.

    Bytes of a name that are no text (surrogates, as Python has them) are shown as `\\xff`.
    """
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):
        return text
    return "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    if char == " " or (char.isprintable() and not _INVISIBLE.match(char)):
        return char
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode()


def _shown(char: str) -> str:
    if char == " " or (char.isprintable() and not _INVISIBLE.match(char)):
        return char
    if char.isspace():
        return " "
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 pod`, `2 pods`."""
    return f"{count} {noun if count == 1 else many or noun + 's'}"


def listed(items: list[str], limit: int = 3) -> str:
    """`a, b, c and 4 more`."""
    if len(items) <= limit:
        return ", ".join(items)
    return f"{', '.join(items[:limit])} and {len(items) - limit} more"
