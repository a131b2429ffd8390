"""`kubectl forewarn`: forewarn's commands with kubectl's flags, cluster and namespace.

kubectl runs the program `kubectl-forewarn` of the PATH. For completion, kubectl runs `kubectl_complete-forewarn`,
which answers in cobra's format: a line for each choice, then a directive.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from forewarn.policies.cli.commands import completion
from forewarn.policies.cli.main import COMMANDS, TRACEBACK
from forewarn.policies.cli.main import main as forewarn
from forewarn.policies.cli.terminal import as_kubectl_plugin, print_notice
from forewarn.policies.inputs.manifests.reading import first_value
from forewarn.policies.kubernetes.kinds.registry import DEFAULT_NAMESPACE
from forewarn.policies.kubernetes.objects.fields import list_at, text_at

_LONG: Final = ("--context", "--kubeconfig", "--namespace", "--as", "--as-group", "--as-uid")
_FLAGS: Final = {**{name: name.removeprefix("--") for name in _LONG}, "-n": "namespace"}
"""Flags of kubectl that `kubectl forewarn` itself handles -> their names."""
_PASSED: Final = ("--context", "--as", "--as-group", "--as-uid")
_OF_A_NAMESPACE: Final = frozenset(
    ("predict", "why", "whatif", "diff", "test", "headroom", "classes plan", "lint", "webhook doctor")
)
"""Commands whose -n sets the namespace of objects without one."""
_WITHOUT_NAMESPACE: Final = (["whatif", "merge"],)
_CLUSTERS: Final = frozenset(("--cluster", "--clusters"))
_FILES_ONLY: Final = frozenset(("lint", "webhook review"))
"""Commands that by default read no cluster; `kubectl forewarn` passes them the cluster of kubectl's context."""
_NO_CLUSTER: Final = frozenset(("explain", "completion", "demo", "lsp", "info releases", "info scheduler", "policies"))
_HELP: Final = frozenset(("-h", "--help", "--help-all"))
_NO_FILES: Final = ":4"
"""The value of cobra's ShellCompDirectiveNoFileComp."""
_FILES: Final = ":0"
_MAX_SIZE: Final = 8 << 20
"""Maximum bytes of a kubeconfig; one with a thousand clusters is smaller."""


class Given(NamedTuple):
    """A command line in parts: kubectl's own flags, all values of flags that forewarn shares, and the other words."""

    flags: Mapping[str, str]
    rest: list[str]
    passed: Sequence[str] = ()


class WrongUsage(Exception):
    """The error for a flag without a value."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status. Sets KUBECONFIG if --kubeconfig is given."""
    try:
        given = split(sys.argv[1:] if arguments is None else arguments)
    except WrongUsage as wrong:
        print_notice(f"kubectl forewarn: {wrong}")
        return 2
    if "kubeconfig" in given.flags:
        path = os.environ["KUBECONFIG"] = given.flags["kubeconfig"]
        if path and not os.path.exists(path):
            print(f"kubectl forewarn: --kubeconfig {path}: no such file or directory", file=sys.stderr)  # noqa: T201
            return 2
    with as_kubectl_plugin(COMMANDS):
        return forewarn(translated(given))


def split(arguments: Sequence[str]) -> Given:
    """Split kubectl's flags, anywhere before a `--`, from the rest of a command line. Raises WrongUsage."""
    flags: dict[str, str] = {}
    rest: list[str] = []
    passed: list[str] = []
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
                raise WrongUsage(f"{name} requires a value")
            value = following
        flags[_FLAGS[name]] = value
        if name in _PASSED:
            passed += [name, value]
    return Given(flags, rest, passed)


def translated(call: Given) -> list[str]:
    """Return the command line of `forewarn` that is equivalent to one of `kubectl forewarn`."""
    rest = call[1]
    if not rest or rest[0].startswith("-"):
        return list(rest)
    two = " ".join(rest[:2])
    command = two if two in COMMANDS and rest[0] != "whatif" else rest[0]
    words = rest[len(command.split()) :]
    if _HELP.intersection(words):
        return list(rest)
    added = _added(command, words, call)
    end = words.index("--") if "--" in words else len(words)
    return [*command.split(), *words[:end], *added, *words[end:]]


def _added(command: str, words: Sequence[str], call: Given) -> list[str]:
    """Return the options of `forewarn` for the flags of kubectl."""
    flags, rest, passed = call
    added: list[str] = []
    has_cluster = any(word.partition("=")[0] in _CLUSTERS for word in words) or "--batch" in words
    if command not in (*_NO_CLUSTER, "webhook accuracy"):
        added += passed
    if has_cluster and flags.get("kubeconfig"):
        added += ["--kubeconfig", flags["kubeconfig"]]
    if command in _FILES_ONLY and not has_cluster:
        added += ["--cluster", "live"]
    if command in _OF_A_NAMESPACE and rest[:2] not in _WITHOUT_NAMESPACE:
        added += ["--namespace", flags.get("namespace", "default") if has_cluster else _namespace(flags)]
    elif "namespace" in flags:  # a command without this option reports an error
        added += ["--namespace", flags["namespace"]]
    return added


def _namespace(flags: Mapping[str, str]) -> str:
    """Return the namespace of the flag, otherwise of the context, otherwise `default`."""
    if "namespace" in flags:
        return flags["namespace"]
    config = kubeconfig()
    return config.namespaces.get(flags.get("context") or config.current) or DEFAULT_NAMESPACE


class Kubeconfig(NamedTuple):
    """The current context, and the namespaces of all contexts by name; "" for a context without one."""

    current: str
    namespaces: Mapping[str, str]


def kubeconfig() -> Kubeconfig:
    """Return the kubeconfig files, merged as kubectl merges them: for each name, the first file with it decides.

    Missing and unreadable files are skipped: the command itself reports the error.
    """
    current, namespaces = "", dict[str, str]()
    for path in (os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep):
        with suppress(OSError, ValueError):
            with open(os.path.expanduser(path), "rb") as file:
                read = first_value(file.read(_MAX_SIZE), path)
            current = current or text_at(read, "current-context")
            for entry in list_at(read, "contexts"):
                if name := text_at(entry, "name"):
                    namespaces.setdefault(name, text_at(entry, "context", "namespace"))
    return Kubeconfig(current, namespaces)


def complete(arguments: Sequence[str] | None = None) -> int:
    """Print the completions of a command line in cobra's format. Always returns 0."""
    words = list(sys.argv[1:] if arguments is None else arguments) or [""]
    try:
        completions, directive = choices(words)
    except Exception:
        if os.environ.get(TRACEBACK):
            raise
        completions, directive = [], _FILES  # a shell cannot show an error, so there are no completions
    print(*completions, directive, sep="\n")  # noqa: T201
    return 0


def choices(words: Sequence[str]) -> tuple[list[str], str]:
    """Return the completions of the last word, and cobra's directive."""
    *before, word = words
    if before and before[-1] in _FLAGS:
        names = list(kubeconfig().namespaces) if before[-1] == "--context" else []
        return [name for name in names if name.startswith(word)], _FILES if before[-1] == "--kubeconfig" else _NO_FILES
    with suppress(WrongUsage):
        before = split(before).rest
    commands = {name: command for name, command in COMMANDS.items() if name != "completion"}
    names = completion.choices([*before, word], commands)
    directive = _NO_FILES if names else _FILES
    if names and before and word.startswith("-"):
        names = sorted({*names, "--context", "--kubeconfig"})
    names = [name for name in names if name.startswith(word)]
    return names if before else [*map(_described, names)], directive


def _described(name: str) -> str:
    """Return a first word and its meaning."""
    seconds = (each.partition(" ")[2] for each in COMMANDS if each.startswith(f"{name} "))
    return f"{name}\t{COMMANDS[name].help if name in COMMANDS else ', '.join(seconds)}"
