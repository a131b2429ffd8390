"""The state of a page in its address: the question, and the command that answers the question."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.findings import cut, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_NAMES: Final = 200
_LONGEST: Final = 20_000


class Change(NamedTuple):
    """A change on the page: its name, the request type, and the field with what is selected.

    `hint`: what the name on the page is. `number`: the field with a number; "" without one.
    """

    name: str
    request: str
    field: str
    hint: str
    number: str = ""


CHANGES: Final = {
    "lose-node": Change("Lose nodes", "LoseNodes", "names", "nodes"),
    "lose-zone": Change("Lose a zone (outage)", "LoseZone", "zone", "zone"),
    "lose-pool": Change("Lose a pool", "LosePool", "selector", "LABEL=VALUE"),
    "drain": Change("Drain nodes", "Drain", "names", "nodes"),
    "upgrade": Change("Upgrade the nodes of a pool", "Upgrade", "pool", "LABEL=VALUE"),
    "add-node": Change("Add nodes", "Add", "node", "node like which the new ones are", "count"),
    "restart": Change("Restart a workload", "Restart", "workload", "KIND/NAME"),
    "scale": Change("Scale a workload", "Scale", "workload", "KIND/NAME", "replicas"),
    "class": Change("Change a PriorityClass", "ChangeClass", "name", "PriorityClass"),
}
"""Value of `change` -> the change."""
_IN_NAMESPACE: Final = ("restart", "scale")
_SEVERAL: Final = "names"
"""The field for several names."""


class BadLink(Exception):
    """An address is invalid; the message gives the problem."""


class CommandLine(NamedTuple):
    """A question of a page, as a command without its options about the cluster.

    `fields`: of the request. `change`: the request type of `whatif`.
    """

    command: str
    arguments: tuple[str, ...] = ()
    fields: tuple[tuple[str, Any], ...] = ()
    change: str = ""

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
        names = [(option, field, _word(query, key)) for option, field, key in _OF_RISK]
        most = _integer(query, "most", "the number of simulated zones and nodes", range(100_001))
        words = [part for option, _, name in names if name for part in (option, name)]
        fields: list[tuple[str, Any]] = [(field, name) for _, field, name in names if name]
        if most is not None:
            words, fields = [*words, f"--most={most}"], [*fields, ("most", most)]
        return CommandLine("risk", tuple(words), tuple(fields))
    return CommandLine("audit")


_OF_RISK: Final = (("-n", "namespace", "namespace"), ("--class", "priority_class", "class"))
"""Option, field of the request, and key in the address."""


def is_name(word: str) -> bool:
    """Report whether a word can be a name in an address; all names of API objects can."""
    return bool(word) and word.isprintable() and not word.startswith("-")


def _whatif(query: Mapping[str, str]) -> CommandLine | None:
    key, name = query.get("change", ""), _word(query, "name")
    if not key or not name:
        return None
    if key not in CHANGES:
        raise BadLink(f"{cut(one_line(key), 40)} is not a change that can be simulated here")
    change = CHANGES[key]
    if key == "class":
        words, fields = _class_change(query)
        return CommandLine("whatif", ("class", name, *words), ((change.field, name), *fields), change.request)
    names = tuple(name.split()[:MAX_NAMES]) if change.field == _SEVERAL else (name,)
    for word in names:
        _check(word)
    value = names if change.field == _SEVERAL else name
    words, fields = [*key.split("-"), *names], [(change.field, value)]
    if key == "upgrade":
        words.insert(1, "--pool")
    if change.number:
        number = _integer(query, "number", f"the number of {_COUNTED[key]}", range(10_001))
        number = 1 if number is None else number
        words += [f"{number}"] if key == "scale" else [f"--count={number}"]
        fields.append((change.number, number))
    if key in _IN_NAMESPACE and (namespace := _word(query, "namespace")):
        words += ["-n", namespace]
        fields.append(("namespace", namespace))
    return CommandLine("whatif", tuple(words), tuple(fields), change.request)


_COUNTED: Final = {"add-node": "nodes", "scale": "replicas"}


def _class_change(query: Mapping[str, str]) -> tuple[list[str], list[tuple[str, Any]]]:
    """The arguments of a command, and the fields of a request."""
    policy = _word(query, "policy")
    value = _integer(query, "value", "the value of a PriorityClass", range(-(2**31), 2**31))
    if query.get("delete"):
        return ["--delete"], [("delete", True)]
    words, fields = list[str](), list[tuple[str, Any]]()
    if value is not None:
        words, fields = [f"--value={value}"], [("value", value)]
    if policy in ("Never", "PreemptLowerPriority"):
        words, fields = [*words, f"--preemption-policy={policy}"], [*fields, ("preemption_policy", policy)]
    if query.get("default"):
        words, fields = [*words, "--default"], [*fields, ("default", True)]
    if not words:
        raise BadLink("give a new value, a preemption policy, or delete the PriorityClass")
    return words, fields


def _integer(query: Mapping[str, str], key: str, what: str, allowed: range) -> int | None:
    value = _word(query, key)
    digits = value.removeprefix("-")
    if not value:
        return None
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 11) or int(value) not in allowed:
        raise BadLink(f"{what} must be a whole number from {allowed.start} to {allowed.stop - 1}")
    return int(value)


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
