"""The questions of the pages, their addresses, and the commands that answer them."""

from __future__ import annotations

import json
import shlex
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from forewarn.policies.findings import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_NAMES: Final = 200
_LONGEST: Final = 20_000


class Field(NamedTuple):
    """An input of a question. `key`: its name in the address. `field`: of the request. `option`: of the command; "" for
    an argument.

    `kind`: word, words, number, flag, policy, class, object or text. `names`: the list of suggestions.
    """

    key: str
    label: str
    field: str = ""
    option: str = ""
    kind: str = "word"
    names: str = ""
    hint: str = ""
    least: int = 0
    most: int = 10_000
    default: str = ""
    required: bool = False

    def read(self, text: str) -> tuple[list[str], Any]:
        """The words of the command and the value of the request. Raises BadLink."""
        if self.kind == "text":
            return [self.option, f"{self.key}.yaml"], text
        words = text.split()[:MAX_NAMES] if self.kind == "words" else [text.strip()]
        for word in words:
            _check(word)
        if self.kind == "flag":
            return [self.option], True
        if self.kind == "policy" and text not in POLICIES:
            raise BadLink(f"{self.label} must be one of {', '.join(POLICIES)}")
        if self.kind in ("number", "policy"):
            value = self._number(words[0]) if self.kind == "number" else text
            return [f"{self.option}={value}" if self.option else f"{value}"], value
        if not self.option:
            return words, words if self.kind == "words" else words[0]
        return [part for word in words for part in (self.option, word)], words if self.kind == "words" else words[0]

    def _number(self, word: str) -> int:
        digits = word.removeprefix("-")
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= 11
        if not is_number or not self.least <= int(word) <= self.most:
            raise BadLink(f"{self.label} must be a whole number from {self.least} to {self.most}")
        return int(word)


class Question(NamedTuple):
    """A question of the pages: its name, the words of its command, the inputs, and the request type of a change.

    `answer`: the function of `State`. `least`: the number of inputs that must be filled in.
    """

    name: str
    words: str
    fields: Sequence[Field] = ()
    request: str = ""
    answer: str = "whatif"
    least: int = 0
    group: str = "Nodes"


POLICIES: Final = ("PreemptLowerPriority", "Never")
_DATA: Final = json.loads(files(__package__ or "").joinpath("questions.json").read_text("utf-8"))
_SHARED: Final = {name: Field(**given) for name, given in _DATA["fields"].items()}


def _questions(part: str) -> dict[str, Question]:
    """The questions of a part of questions.json. A field is a name in `fields`, or the values of a Field."""
    questions = {}
    for key, given in _DATA[part].items():
        fields = (_SHARED[field] if isinstance(field, str) else Field(**field) for field in given.get("fields", ()))
        questions[key] = Question(**{**given, "fields": tuple(fields)})
    return questions


QUESTIONS: Final = _questions("questions")
"""Value of `change` -> the question."""
OTHERS: Final = _questions("others")
"""Page of one question -> the question."""
EDITS: Final = {given["key"]: Field(**given) for given in _DATA["edits"]}
"""The fields of an object that the Predict page can change, by key."""


class BadLink(Exception):
    """An address is invalid; the message gives the problem."""


class CommandLine(NamedTuple):
    """A question of a page, as a command without its options about the cluster.

    `fields`: of the request. `change`: the request type of `whatif`. `answer`: the function of `State`. `query`: of the
    address.
    """

    command: str
    arguments: tuple[str, ...] = ()
    fields: tuple[tuple[str, Any], ...] = ()
    change: str = ""
    answer: str = ""
    query: str = ""

    def line(self, cluster: Sequence[str]) -> str:
        """Return the command line with shell quoting. `cluster`: the options about the cluster and the release."""
        return shlex.join(["forewarn", self.command, *self.arguments, *cluster])


def on_standard_input(command_line: CommandLine, cluster: Sequence[str], text: str) -> str:
    """Return the command line with a text on standard input, as a here-document.

    If a shell could misread the text, the command reads the file manifest.yaml instead.
    """
    if any(not line.isprintable() for line in text.replace("\t", " ").split("\n")) or len(text) > _LONGEST:
        arguments = tuple("manifest.yaml" if word == "-" else word for word in command_line.arguments)
        return command_line._replace(arguments=arguments).line(cluster)
    end = "EOF"
    while end in text:
        end += "_"
    return f"{command_line.line(cluster)} <<'{end}'\n{text.rstrip()}\n{end}"


def command_line_of(page: str, query: Mapping[str, str]) -> CommandLine | None:
    """The question of an address; None if it has none. Raises BadLink."""
    if sum(map(len, query.values())) > _LONGEST:
        raise BadLink("the address is too long")
    question = OTHERS.get(page) or QUESTIONS.get(query.get("change", ""))
    if question is None:
        if key := query.get("change"):
            raise BadLink(f"{cut(one_line(key), 40)} is not a change that can be simulated here")
        return None
    return _asked(question, _with_namespace(question, query), "" if page in OTHERS else query["change"])


def _asked(question: Question, query: Mapping[str, str], key: str) -> CommandLine | None:
    arguments, options, fields = list[str](), list[str](), list[tuple[str, Any]]()
    used = {"change": key} if key else {}
    for field in question.fields:
        text = query.get(field.key, "")
        if text.strip():
            used[field.key] = text
        elif field.required:
            return None
        if text := text if text.strip() else field.default:
            words, value = field.read(text)
            (options if field.option else arguments).extend(words)
            fields.append((field.field, tuple(value) if isinstance(value, list) else value))
    if len([field for field in fields if field[0] != "namespace"]) < question.least:
        raise BadLink(f"fill in one more of {', '.join(field.label for field in question.fields[1:])}")
    command, *words = question.words.split()
    words = [*words, *arguments, *options]
    return CommandLine(
        command, tuple(words), tuple(fields), question.request, question.answer, urlencode(used) if key else ""
    )


def _with_namespace(question: Question, query: Mapping[str, str]) -> Mapping[str, str]:
    """The inputs; of `NAMESPACE/KIND/NAME` as a name, the namespace is an input of its own."""
    namespace, slash, name = query.get("name", "").strip().partition("/")
    if _SHARED["namespace"] in question.fields and slash and "/" in name:
        return {**query, "namespace": namespace, "name": name}
    return query


def is_name(word: str) -> bool:
    """Report whether a word can be a name in an address; all names of API objects can."""
    return bool(word) and word.isprintable() and not word.startswith("-")


def _check(word: str) -> None:
    """Check a word of an address. Raises BadLink for a word that a command would read as an option."""
    if word.startswith("-") and not word[1:].isdecimal():
        raise BadLink(f"{cut(one_line(word), 40)}: a name does not begin with -")
    if not word.isprintable():
        raise BadLink("a name contains a control character")
