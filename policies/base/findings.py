"""Findings about objects, with locations. Findings have a total order, so that every run prints the same report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, Final, Protocol, TypeVar

from forewarn.policies.base.documents import Always, Hidden, Sparse, in_json, optional_in_json
from forewarn.policies.base.light import NamedTuple, later

_K = TypeVar("_K")
_V = TypeVar("_V")


class Severity(IntEnum):
    """The severity of a finding. The most severe has the smallest value. `str(Severity.ERROR)` is `error`."""

    ERROR = 1
    WARNING = 2
    NOTE = 3

    def __str__(self) -> str:
        return self.name.lower()


class Action(StrEnum):
    """The webhook's action for a finding."""

    DENY = "deny"
    WARN = "warn"
    AUDIT = "audit"
    OFF = "off"


Path = tuple[str | int, ...]
"""A path in an object: keys and list indexes from its root."""


def field_path(path: Path) -> str:
    """Return the path as upstream's field.Path prints it, for example `spec.containers[0].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


class Location(NamedTuple):
    """A span in one line of a file. Lines and columns count from 1; `end_column` is exclusive.

    `line`: for a finding about a whole object, its first line; 0 without a file, as for an object of a request.
    """

    file: Hidden[str] = ""
    line: int = 0
    column: int = 0
    end_column: int = 0

    @in_json
    def file_(self) -> str:
        return printable(self.file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file or "the request"


class ObjectRef(NamedTuple):
    """A reference to an object, such as `Deployment team/web`. Fields that the object lacks are empty."""

    api_version: Always[str] = ""
    kind: Always[str] = ""
    namespace: Always[str] = ""
    name: Always[str] = ""

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace and self.name else self.name
        return f"{self.kind} {name}".strip()


NO_LOCATION: Final = Location()
NO_OBJECT: Final = ObjectRef()
NO_DETAIL: Final[Mapping[str, Any]] = {}


class Text(NamedTuple):
    """The text of a finding for one audience, in sentences without a final full stop.

    `problem`: the first sentence, in at most 120 characters, lowercase, without the name of the object, which is
    shown beside it. `shorter`: versions of the problem with fewer names and facts, the best first. `more`: further
    sentences. `caveats`: those sentences of `more` that no output omits. `fix`: an imperative. A Text with an empty
    problem is not shown.
    """

    problem: str
    fix: str = ""
    more: tuple[str, ...] = ()
    shorter: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """All sentences except the fix."""
        return joined((self.problem, *self.more)) if self.more else self.problem

    @property
    def advice(self) -> str:
        """The fix as a sentence; "" without one."""
        return self.fix and f"Fix: {self.fix}"

    def with_caveat(self, caveat: str) -> Text:
        return self._replace(more=(caveat, *self.more), caveats=(*self.caveats, caveat))

    def limited(self, limit: int) -> Text:
        """Return the text with at most `limit` characters in each sentence."""
        return Text(
            cut(self.problem, limit),
            cut(self.fix, limit),
            tuple(cut(sentence, limit) for sentence in self.more),
            self.shorter,
            tuple(cut(sentence, limit) for sentence in self.caveats),
        )


def with_fix(problem: str, fix: str) -> str:
    """Return a problem followed by its fix, if it has one."""
    return f"{problem}. Fix: {fix}" if fix else problem


def joined(sentences: Iterable[str]) -> str:
    """Return the non-empty sentences as one text, without a final full stop."""
    *others, last = [sentence for sentence in sentences if sentence] or [""]
    ended = (each if each.endswith((".", "!", "?", "…")) else f"{each}." for each in others)
    return " ".join([*ended, last])


class Details(Protocol):
    """The typed details of a problem, a NamedTuple of `policies.linting.rules.support.details`.

    `policies.linting.rules.wording` writes the text and the JSON for an audience.
    """

    def _asdict(self) -> dict[str, Any]: ...


Harm = tuple[int, int]
"""What a problem does to Pods, as a sort key, worst first: (kind of harm, negative of the highest priority)."""
EVICTIONS_FAIL: Final[Harm] = (2, 0)
NO_HARM: Final[Harm] = (3, 0)


def not_running(priorities: Iterable[int] = ()) -> Harm:
    """Return the harm if new Pods with these priorities stay Pending or are rejected."""
    return 0, -max(priorities, default=0)


def preempted(priorities: Iterable[int]) -> Harm:
    """Return the harm if Pods with these priorities are preempted."""
    return 1, -max(priorities, default=0)


class Problem(NamedTuple):
    """A problem that a rule reports. forewarn completes it to a Finding.

    `message`: the problem in at most 120 characters, without the name of the object. `remediation`: the fix, as an
    imperative. `path`: path of the wrong value; empty if the field is absent. `object`: the object with the problem
    (default: the reviewed object). `detail`: data of the message, for programs. `severity`: lowers the severity of the
    rule.
    `location`: overrides `path` for positions outside the object. `is_incomplete`: the deadline stopped a prediction;
    the finding has the id INCOMPLETE, and never denies.
    """

    # Details if the problem depends on objects other than the reviewed object and its PriorityClass, because some
    # requesters may not see their names. `remediation` is empty with Text and Details.
    message: str | Text | Details
    path: Path = ()
    remediation: str = ""
    location: Location | None = None
    object: ObjectRef | None = None
    detail: Mapping[str, Any] = NO_DETAIL
    severity: Severity | None = None
    is_incomplete: bool = False
    harm: Harm = NO_HARM
    """What the problem does to Pods. Only for problems without Details; for others, `harm_of` computes it."""


INCOMPLETE: Final = "prediction-incomplete"
"""Id of a finding that only says that a prediction did not finish in time."""


class Finding(NamedTuple):
    """A problem with one object or file, with the configured severity.

    `detail`: data of the message; the rule determines the keys. `path`: path of the wrong field, or "".
    `for_requester`: the text for the requester; None if the same.
    """

    location: Hidden[Location]
    severity: Severity
    rule: str
    object: ObjectRef
    text: Hidden[Text]
    action: Hidden[Action] = Action.WARN
    path: Hidden[str] = ""
    detail: Hidden[Mapping[str, Any]] = NO_DETAIL
    for_requester: Hidden[Text | None] = None
    not_evaluated: Sparse[bool] = False
    """True if the finding only reports that its rule was not evaluated completely."""
    harm: Hidden[Harm] = NO_HARM
    overlay: Hidden[str] = ""
    """The directory of the kustomization that patches objects, and builds the object."""
    was_error: Hidden[bool] = False
    """True if the finding is an error in other places than tests and archives."""

    @in_json
    def message(self) -> str:
        """The problem and its details, in sentences."""
        return self.text.message

    @in_json
    def remediation(self) -> str:
        """The fix."""
        return self.text.fix

    @in_json
    def field(self) -> str:
        """Path of the field."""
        return self.path

    @optional_in_json
    def detail_(self) -> dict[str, Any] | None:
        """Data of the message; the rule determines the keys."""
        return dict(self.detail) or None

    @property
    def fix(self) -> str:
        """The fix, or ""."""
        return self.text.fix

    @property
    def file(self) -> str:
        """The path of the file; "" without a file."""
        return self.location.file

    @property
    def line(self) -> int:
        """The line, from 1; 0 if unknown."""
        return self.location.line

    @property
    def column(self) -> int:
        """The column, from 1; 0 if unknown."""
        return self.location.column

    def __repr__(self) -> str:
        where = f"{self.file}:{self.line}: " if self.file else ""
        return f"<{self.severity} {where}{cut(self.message, 120)} [{self.rule}]>"

    @property
    def is_shown(self) -> bool:
        return self.for_requester is None or bool(self.for_requester.problem)

    @property
    def as_shown(self) -> Finding:
        return self._replace(text=self.for_requester) if self.for_requester else self

    @property
    def as_note(self) -> Finding:
        """The finding as a note that needs no action."""
        return self._replace(severity=Severity.NOTE, action=Action.AUDIT, was_error=self.severity is Severity.ERROR)

    def with_texts(self, change: Callable[[Text], Text]) -> Finding:
        """Return the finding with `change` applied to both texts, except to a text that is not shown."""
        shown = self.for_requester
        return self._replace(text=change(self.text), for_requester=change(shown) if shown and shown.problem else shown)

    @property
    def damage(self) -> tuple[Any, ...]:
        """The sort key of harm, the worst first. Findings with the same harm have equal keys."""
        return self.severity, self.harm

    @property
    def order(self) -> tuple[Any, ...]:
        """The sort key of a report: location, then the most severe. It is total, so that every run prints the same."""
        return (self.location, self.severity, self.rule, self.object, self.message, self.path)


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings in the order of a report."""
    return sorted(findings, key=lambda finding: finding.order)


MAX_PATH_LENGTH: Final = 4096
"""The maximum number of bytes of a path on Linux: messages never cut paths."""


def cut(text: str, limit: int) -> str:
    """Return the text in at most `limit` characters; an ellipsis replaces the rest."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def brief(text: str, limit: int) -> str:
    """Return a text of any length on one line, in at most `limit` characters; an ellipsis replaces the rest."""
    start = text[: 4 * limit]
    return cut(one_line(start) + "…" * (start != text), limit)


def quote(text: object) -> str:
    """Return a value in double quotes, as upstream writes values in messages."""
    return f'"{text}"'


MAX_REPR: Final = 200


def described(value: object, verdict: str) -> str:
    """Return the representation of a value: its type and its verdict, in at most MAX_REPR characters."""
    return f"<{brief(f'{type(value).__name__} {verdict}', MAX_REPR - 2)}>"


_SPACE: Final = later(r"[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]+")
_INVISIBLE: Final = later(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that count as printable but are invisible: fillers, the Braille blank, variation selectors."""


def one_line(text: str) -> str:
    r"""Return the text on one line, with invisible characters made visible, so that any output can contain the text.

    A space replaces a run of control characters, lone surrogates and line breaks. An escape such as `\u202e` replaces
    characters that change the direction of text (bidi), have no width, are tags or variation selectors, or are
    unassigned: otherwise two names could look equal, or a warning could read backwards.
    """
    text = text.strip() if text.isprintable() and "  " not in text else _SPACE.sub(" ", text).strip()
    is_visible = text.isascii() or (text.isprintable() and not _INVISIBLE.search(text))
    return text if is_visible else "".join(map(_shown, text))


_NAMED_COMMAND: Final = later(r"##(?=[\w.-]*\[)")
"""The start of a command anywhere in a line: `##[` (GitHub), `##vso[` (Azure), `##teamcity[`, and others."""
_FOLD: Final = later(r"((?:travis_(?:fold|time)|section_(?:start|end))):")
"""The start of a command for Travis and GitLab."""
_LINE_COMMAND: Final = later(r"((?:\033\[[\d;]*m|\s)*)(?=::)|(?=(?:---|\+\+\+|~~~|\^\^\^)\s)")
"""The start of a command at the start of a line: GitHub `::`, which may be indented, and Buildkite groups."""

_LINE_COMMAND_IN_MARKUP: Final = later(r"^([ \t]*)((?=::)[:]|(?=(?:---|\+\+\+|~~~|\^\^\^)\s)[-+~^])", re.MULTILINE)


def no_command(text: str, *, is_patch: bool = False) -> str:
    """Return a line without commands of CI systems (such as `::error::`); carets on the next line remain aligned.

    Only a file name can start a line with a command, so `./` is added before it. `is_patch`: whether the line belongs
    to a patch, whose `---` and `+++` remain.
    """
    if "##" in text:
        text = _NAMED_COMMAND.sub("# ", text)
    if ":" in text:
        text = _FOLD.sub(r"\1 :", text)
    if not is_patch and (match := _LINE_COMMAND.match(text)):
        return f"{text[: match.end()]}./{text[match.end() :]}"
    return text


def no_command_in_json(text: str) -> str:
    """Return JSON without commands of CI systems: escapes replace commands in strings, the only place for them."""
    return _FOLD.sub(r"\1\\u003a", _NAMED_COMMAND.sub(r"#\\u0023", text))


def no_command_in_markup(text: str) -> str:
    """Return HTML or XML without commands of CI systems."""
    text = _FOLD.sub(r"\1&#58;", _NAMED_COMMAND.sub("#&#35;", text))
    return _LINE_COMMAND_IN_MARKUP.sub(lambda item: f"{item[1]}&#{ord(item[2])};", text)


def printable(text: str) -> str:
    r"""A file name with escapes for all characters that are unprintable or invisible.

    Bytes that are not text (surrogates in Python) become `\xff`.
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


_IN_MINUTES: Final = 600
"""From this number of seconds on, durations are shown in whole minutes."""


def duration(seconds: float) -> str:
    """Return a duration in at most two units, for example `3 min 20 s` or `2 h 5 min`; from 10 minutes on in whole
    minutes.
    """
    whole = int(seconds) if seconds < _IN_MINUTES else 60 * round(seconds / 60)
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def capital(text: str) -> str:
    """Return the text with a capital as its first letter."""
    return f"{text[:1].upper()}{text[1:]}"


def nearest_word(word: str, words: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the word that is most similar to another; "" if none is. `cutoff`: the minimum similarity, from 0 to 1."""
    from difflib import get_close_matches  # only when something is wrong

    return next(iter(get_close_matches(word[:300], [*words], 1, cutoff)), "")


def plural(count: int, noun: str, many: str = "") -> str:
    """Return a count with its noun in the singular or plural: `1 Pod`, `2,000 Pods`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def listed(items: Sequence[str], limit: int = 3, count: int = 0) -> str:
    """Return the first `limit` items and the number of the others: `a, b, c and 4 more`; if only one is left and not
    longer, its name. `count`: the number of all, if `items` is incomplete.
    """
    shown = items[:limit]
    more = max(count, len(items)) - len(shown)
    brief = ", ".join(shown) + (f" and {more} more" if more else "")
    every = ", ".join(items) if more == 1 and len(items) >= count else ""
    return every if every and len(every) <= len(brief) else brief


def reachable(start: Iterable[_K], following: Callable[[_K], Iterable[_K]]) -> Iterator[_K]:
    """Yield each thing reachable from the start, the nearest first. `following`: returns the direct successors."""
    seen = dict.fromkeys(start)
    to_do = list(seen)
    for current in to_do:  # the list grows
        yield current
        new = dict.fromkeys(one for one in following(current) if one not in seen)
        seen |= new
        to_do += new


def grouped(pairs: Iterable[tuple[_K, _V]]) -> dict[_K, list[_V]]:
    """Return key -> its values, in their order."""
    groups: dict[_K, list[_V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
