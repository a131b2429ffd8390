"""`kubectl forewarn`: the commands with kubectl's flags, by the rules that kubectl finds a cluster and a namespace by.

kubectl runs the program `kubectl-forewarn` of the PATH, and `kubectl_complete-forewarn` for completion, whose answer is
one of cobra's: a line for each choice, then a directive.
"""

from __future__ import annotations

import os
import sys
from collections import ChainMap
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.cli import COMMANDS, TRACEBACK
from policies.cli import main as forewarn
from policies.commands.completion import options_of
from policies.kinds import DEFAULT_NAMESPACE
from policies.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FLAGS: Final = {"--context": "context", "--kubeconfig": "kubeconfig", "--namespace": "namespace", "-n": "namespace"}
"""kubectl's flags that are its own everywhere -> what they say."""
_ASK: Final = ("preempt", "why", "simulate", "whatif", "test", "headroom", "node-pressure")
_OF_A_CLUSTER: Final = frozenset((*_ASK, "audit", "lint", "dry-run", "review", "risk", "doctor"))
"""Commands with --cluster: the one that kubectl would talk to, unless another is named."""
_OF_A_NAMESPACE: Final = frozenset((*_ASK, "lint", "dry-run", "doctor"))
_HELP: Final = frozenset(("-h", "--help"))
_NO_FILES: Final = ":4"
"""cobra's ShellCompDirectiveNoFileComp."""
_FILES: Final = ":0"
_LARGEST: Final = 8 << 20
"""Bytes of a kubeconfig that are read: those of a thousand clusters are smaller."""


class Given(NamedTuple):
    """What kubectl's own flags say, and the rest of the command line."""

    flags: Mapping[str, str]
    rest: list[str]


class WrongUsage(Exception):
    """A flag without its value."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    try:
        given = split(sys.argv[1:] if arguments is None else arguments)
    except WrongUsage as wrong:
        say(f"kubectl forewarn: {wrong}")
        return 2
    if "kubeconfig" in given.flags:
        path = os.environ["KUBECONFIG"] = given.flags["kubeconfig"]
        if path and not os.path.exists(path):
            print(f"kubectl forewarn: --kubeconfig {path}: no such file or directory", file=sys.stderr)  # noqa: T201
            return 2
    return forewarn(translated(given))


def split(arguments: Sequence[str]) -> Given:
    """kubectl's flags out of a command line, wherever they stand before a `--`. Raises WrongUsage."""
    flags: dict[str, str] = {}
    rest: list[str] = []
    left = iter(arguments)
    for argument in left:
        if argument == "--":
            rest += [argument, *left]
            break
        name, equals, value = argument.partition("=")
        if name[:2] == "-n" and name[2:3] not in ("", "-"):  # -nNAMESPACE
            name, equals, value = "-n", "=", argument[2:]
        if name not in _FLAGS:
            rest.append(argument)
            continue
        if not equals:
            following = next(left, None)
            if following is None:
                raise WrongUsage(f"{name} is the last word: its value is missing")
            value = following
        flags[_FLAGS[name]] = value
    return Given(flags, rest)


def translated(given: Given) -> list[str]:
    """The command line of `forewarn` for one of `kubectl forewarn`."""
    flags, rest = given
    if not rest or rest[0].startswith("-"):
        return list(rest)
    command, *words = rest
    context = flags.get("context", "")
    added: list[str] = []
    if command == "snapshot" and context:
        added += ["--context", context]
    files = any(word.partition("=")[0] == "--cluster" for word in words) or "--batch" in words
    if command in _OF_A_CLUSTER and not files:
        added += ["--cluster", f"live:{context}"]
    if command in _OF_A_NAMESPACE:
        added += ["--namespace", flags.get("namespace", "default") if files else _namespace(flags)]
    elif command == "risk" and "namespace" in flags:  # its flag leaves out all other workloads
        added += ["--namespace", flags["namespace"]]
    if _HELP.intersection(words):
        added = []
    end = words.index("--") if "--" in words else len(words)
    return [command, *words[:end], *added, *words[end:]]


def _namespace(flags: Mapping[str, str]) -> str:
    """That of the flag, else of the context, else `default`."""
    if "namespace" in flags:
        return flags["namespace"]
    config = kubeconfig()
    context = flags.get("context") or config.get("current-context")
    for entry in config.get("contexts", ()):
        if isinstance(entry, dict) and entry.get("name") == context:
            named = entry.get("context")
            return str((named.get("namespace") if isinstance(named, dict) else "") or DEFAULT_NAMESPACE)
    return DEFAULT_NAMESPACE


def kubeconfig() -> Mapping[str, Any]:
    """What the kubeconfig files say, the first that says something: current-context; of contexts all.

    A file that is not there or cannot be read says nothing here: the command itself then says what is wrong with it.
    """
    import yaml

    documents: list[dict[str, Any]] = []
    for path in (os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep):
        with suppress(OSError, ValueError, yaml.YAMLError, RecursionError):
            with open(os.path.expanduser(path), "rb") as file:
                read = yaml.load(file.read(_LARGEST), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            if isinstance(read, dict):
                documents.append({key: value for key, value in read.items() if value})
    contexts = [
        entry for document in documents if isinstance(document.get("contexts"), list) for entry in document["contexts"]
    ]
    merged: dict[str, Any] = {"contexts": contexts}
    return ChainMap(merged, *documents)


def complete(arguments: Sequence[str] | None = None) -> int:
    """Answer kubectl's question what may stand at the end of a command line; 0, whatever was asked."""
    words = list(sys.argv[1:] if arguments is None else arguments) or [""]
    try:
        found, directive = choices(words)
    except Exception:
        if os.environ.get(TRACEBACK):
            raise
        found, directive = [], _FILES  # a shell is no place for an error: nothing is offered
    print(*found, directive, sep="\n")  # noqa: T201
    return 0


def choices(words: Sequence[str]) -> tuple[list[str], str]:
    """The choices for the last of these words, and cobra's directive."""
    *before, word = words
    if before and before[-1] in ("--context", "--namespace", "-n", "--kubeconfig"):
        found = list(_contexts()) if before[-1] == "--context" else []
        return [name for name in found if name.startswith(word)], _FILES if before[-1] == "--kubeconfig" else _NO_FILES
    with suppress(WrongUsage):
        before = split(before).rest
    if not before:
        told = {name: command.help for name, command in COMMANDS.items() if name != "completion"}
        return [f"{name}\t{text}" for name, text in told.items() if name.startswith(word)], _NO_FILES
    name = before[0]
    if name not in COMMANDS or name == "completion":
        return [], _FILES
    options = options_of(COMMANDS[name])
    values = options.get(before[-1], ())
    if values:
        return [value for value in values if value.startswith(word)], _NO_FILES
    if word.startswith("-"):
        return [option for option in (*options, "--context", "--kubeconfig") if option.startswith(word)], _NO_FILES
    return [], _FILES


def _contexts() -> Iterator[str]:
    for entry in kubeconfig().get("contexts", ()):
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            yield entry["name"]
