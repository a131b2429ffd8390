"""`forewarn completion SHELL`: print a script for bash, zsh or fish, which asks forewarn for the possible words."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING, Final, Protocol

from forewarn.policies.cli.commands.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    class Command(Protocol):
        """An entry of `policies.cli.main.COMMANDS`."""

        @property
        def help(self) -> str:
            """The help text of the command, one line."""

        def load(self) -> Callable[[Sequence[str]], int]:
            """Import and return the function that runs the command. Raises ImportError."""

    Commands = Mapping[str, Command]

_OPTION: Final = re.compile(
    r"^  (?:(-\w), )?(--[a-z][a-z-]*)(?: (?:\{([^}]+)\}|([a-z0-9.]+(?:\|[a-z0-9.]+)+)))?",
    re.MULTILINE,
)
_ARGUMENT: Final = re.compile(r"^  ([a-z]+(?:\|[a-z]+)+)$", re.MULTILINE)
"""A positional argument with a fixed set of words."""
_OUTPUT: Final = re.compile(r"--output FORMAT\S*\s+([a-z]+(?:,\s+[a-z]+)*)")
"""The formats of `-o FORMAT[=FILE]` in the help."""
_CHANGE: Final = re.compile(r"^    ([a-z]+)  ", re.MULTILINE)
"""A kind of simulation in the help of `whatif`."""


_BASH: Final = """\
_forewarn() {
  local words="$(forewarn completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)"
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _forewarn forewarn"""
_SHELLS: Final = {
    "bash": _BASH,
    "zsh": f"autoload -U +X bashcompinit && bashcompinit\n{_BASH}",
    "fish": "complete -c forewarn -a "
    "'(forewarn completion --words (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'",
}


def main(arguments: Sequence[str], commands: Commands) -> int:
    """Run the command; return the exit status. `commands`: all commands by name."""
    if arguments[:1] == ["--words"]:  # the words that a script asks for
        print(*choices(arguments[1:] or [""], commands), sep="\n")  # noqa: T201
        return 0
    parser = Parser(
        prog="forewarn completion",
        examples=("completion bash", "completion fish"),
        description="Print a completion script. In bash, run `source <(forewarn completion bash)`. In zsh, run `source "
        "<(forewarn completion zsh)` after compinit. In fish, run `forewarn completion fish | source`.",
    )
    parser.add_argument("shell", choices=_SHELLS)
    print(_SHELLS[parser.parse_args(arguments).shell])  # noqa: T201
    return 0


def choices(words: Sequence[str], commands: Commands) -> list[str]:
    """Return the possible completions of the last of these words; empty if any word is possible, such as a file."""
    *before, word = words
    groups, is_option = first_words(commands), word.startswith("-")
    if not before:
        return [*groups]
    seconds = changes(commands["whatif"]) if before[0] == "whatif" else groups.get(before[0], [])
    if len(before) == 1 and seconds and not (is_option and before[0] in commands):
        return seconds
    if before == ["completion"] and "completion" in commands:
        return [*_SHELLS]
    if before == ["explain"] and not is_option:
        return re.findall(r"^[a-z]\S+", _output_of(commands["lint"], "--list-rules"), re.MULTILINE)
    options = _options(before, commands)
    return sorted(options) if is_option else [*_values(before, options, commands)]


def _options(before: Sequence[str], commands: Commands) -> Mapping[str, Sequence[str]]:
    """Return, by option, the possible values for the command at the start of these words; empty without a command."""
    two = " ".join(before[:2])
    if two in commands:
        return options_of(commands[two])
    words = before[1:2] if before[0] == "whatif" else ()
    return options_of(commands[before[0]], *words) if before[0] in commands else {}


def _values(before: Sequence[str], options: Mapping[str, Sequence[str]], commands: Commands) -> Sequence[str]:
    """Return the possible next words: values of the last option, or arguments of `whatif`."""
    if len(before) == 2 and before[0] == "whatif" and " ".join(before) not in commands:
        return arguments_of(commands["whatif"], before[1])
    return options.get(before[-1], ())


def changes(whatif: Command) -> list[str]:
    """The kinds of simulations of `forewarn whatif`, from its help."""
    return _CHANGE.findall(_output_of(whatif, "--help-all"))


def options_of(command: Command, *words: str) -> dict[str, tuple[str, ...]]:
    """The options of a command with their possible values, from its help; empty if a required extra is missing."""
    help_text, options = _output_of(command, *words, "--help-all"), dict[str, tuple[str, ...]]()
    formats = _OUTPUT.search(help_text)
    for short, option, listed, alternatives in _OPTION.findall(help_text):
        options[option] = tuple(listed.split(",")) if listed else tuple(filter(None, alternatives.split("|")))
        if option == "--output" and formats:
            options[option] = tuple("".join(formats[1].split()).split(","))
        if short and options[option]:
            options[short] = options[option]
    return options


def arguments_of(command: Command, *words: str) -> tuple[str, ...]:
    """The possible words of a command's first positional argument; empty if any word is possible."""
    match = _ARGUMENT.search(_output_of(command, *words, "--help-all"))
    return tuple(match[1].split("|")) if match else ()


def _output_of(command: Command, *words: str) -> str:
    output = io.StringIO()
    with suppress(SystemExit, ImportError), redirect_stdout(output):
        command.load()(words)
    return output.getvalue()


def first_words(names: Iterable[str]) -> dict[str, list[str]]:
    """Return, by first word, the second words, for commands of two words (no second words for other commands)."""
    result: dict[str, list[str]] = {}
    for name in names:
        first, _, second = name.partition(" ")
        result.setdefault(first, []).extend([second] if second else [])
    return result
