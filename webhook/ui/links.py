"""The state of a page in its address: the question, and the command that answers the question."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_NAMES: Final = 200
_LONGEST: Final = 20_000
CHANGES: Final = {
    "lose-node": "Lose nodes",
    "lose-zone": "Lose a zone",
    "lose-pool": "Lose a pool",
    "drain": "Drain nodes",
    "class": "Change a PriorityClass",
}
"""Value of `change` -> its name on the page."""


class BadLink(Exception):
    """An address is invalid; the message gives the problem."""


class CommandLine(NamedTuple):
    """A question of a page, as a command without its options about the cluster."""

    command: str
    arguments: tuple[str, ...] = ()

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
    if page == "whatif":
        return _whatif(query)
    if page == "risk":
        chosen = (("-n", _word(query, "namespace")), ("--class", _word(query, "class")))
        most = _integer(query, "most", "the number of simulated zones and nodes")
        more = (f"--most={most}",) if most else ()
        return CommandLine("risk", (*(part for option, name in chosen if name for part in (option, name)), *more))
    return CommandLine("audit")


def is_name(word: str) -> bool:
    """Report whether a word can be a name in an address; all names of API objects can."""
    return bool(word) and word.isprintable() and not word.startswith("-")


def _whatif(query: Mapping[str, str]) -> CommandLine | None:
    change, name = query.get("change", ""), _word(query, "name")
    if not change or not name:
        return None
    if change == "class":
        return CommandLine("whatif", ("class", name, *_class_change(query)))
    if change not in CHANGES:
        raise BadLink(f"{cut(one_line(change), 40)} is not a change that can be simulated here")
    names = name.split()[:MAX_NAMES] if change in ("lose-node", "drain") else [name]
    words = change.split("-")
    for each in names:
        _check(each)
    return CommandLine("whatif", (*words, *names))


def _class_change(query: Mapping[str, str]) -> list[str]:
    value, policy = _integer(query, "value", "the value of a PriorityClass"), _word(query, "policy")
    if query.get("delete"):
        return ["--delete"]
    changes = []
    if value:
        changes.append(f"--value={value}")
    changes += [f"--preemption-policy={policy}"] if policy in ("Never", "PreemptLowerPriority") else []
    changes += ["--default"] if query.get("default") else []
    if not changes:
        raise BadLink("give a new value, a preemption policy, or delete the PriorityClass")
    return changes


def _integer(query: Mapping[str, str], key: str, what: str) -> str:
    """The text of a whole number; empty without one."""
    value = _word(query, key)
    digits = value.removeprefix("-")
    if value and not (digits.isascii() and digits.isdecimal() and len(digits) <= 11):
        raise BadLink(f"{what} must be a whole number")
    return value


def _word(query: Mapping[str, str], key: str) -> str:
    word = query.get(key, "").strip()
    _check(word)
    return word


def _check(word: str) -> None:
    """Check a word of an address. Raises BadLink for a word that a command would read as an option."""
    if word.startswith("-") and not word[1:].isdecimal():
        raise BadLink(f"{cut(one_line(word), 40)}: a name does not begin with -")
    if not word.isprintable():
        raise BadLink("a name contains a control character")
