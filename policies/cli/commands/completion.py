"""`forewarn completion SHELL`: print a script for bash, zsh or fish, generated from the help of the commands."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout, suppress
from typing import TYPE_CHECKING, Final, Protocol

from forewarn.policies.cli.commands.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    class Command(Protocol):
        """An entry of `policies.cli.main.COMMANDS`."""

        @property
        def help(self) -> str:
            """The help text of the command, one line."""

        def load(self) -> Callable[[Sequence[str]], int]:
            """Import and return the function that runs the command. Raises ImportError."""

    Commands = Mapping[str, Command]
    Options = Mapping[str, Mapping[str, tuple[str, ...]]]
    """Command -> option -> the values that it may have, none where any will do."""

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


def main(arguments: Sequence[str], commands: Commands) -> int:
    """Run the command; return the exit status. `commands`: all commands by name."""
    parser = Parser(
        prog="forewarn completion",
        examples=("completion bash", "completion fish"),
        description="Print a completion script. In bash, run `source <(forewarn completion bash)`. In zsh, run `source "
        "<(forewarn completion zsh)` after compinit. In fish, run `forewarn completion fish | source`.",
    )
    parser.add_argument("shell", choices=_SHELLS)
    print(_SHELLS[parser.parse_args(arguments).shell](commands, _options(commands)))  # noqa: T201
    return 0


def _options(commands: Commands) -> Options:
    options = {name: options_of(command) for name, command in commands.items() if name not in ("completion", "whatif")}
    whatif = commands["whatif"]
    for change in changes(whatif):
        options.setdefault(f"whatif {change}", options_of(whatif, change))
    return options


def changes(whatif: Command) -> list[str]:
    """The kinds of simulations of `forewarn whatif`, from its help."""
    return _CHANGE.findall(_help_of(whatif))


def options_of(command: Command, *words: str) -> dict[str, tuple[str, ...]]:
    """The options of a command with their possible values, from its help; empty if a required extra is missing."""
    help_text, options = _help_of(command, *words), dict[str, tuple[str, ...]]()
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
    match = _ARGUMENT.search(_help_of(command, *words))
    return tuple(match[1].split("|")) if match else ()


def _help_of(command: Command, *words: str) -> str:
    output = io.StringIO()
    with suppress(SystemExit, ImportError), redirect_stdout(output):
        command.load()([*words, "--help-all"])
    return output.getvalue()


def first_words(names: Iterable[str]) -> dict[str, list[str]]:
    """Return first word -> second words, for commands of two words (no second words for other commands)."""
    result: dict[str, list[str]] = {}
    for name in names:
        first, _, second = name.partition(" ")
        result.setdefault(first, []).extend([second] if second else [])
    return result


def _arguments(commands: Commands) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the kinds of simulations of `whatif` whose first argument has fixed values, with these values."""
    for change in changes(commands["whatif"]):
        if f"whatif {change}" not in commands and (arguments := arguments_of(commands["whatif"], change)):
            yield f"whatif {change}", arguments


def _bash(commands: Commands, options: Options) -> str:
    groups = first_words(dict.fromkeys([*commands, *options]))
    lines = [
        "_forewarn() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
        '  local command="${COMP_WORDS[1]}"',
        '  case "$command" in',
        f'  {"|".join(name for name, seconds in groups.items() if seconds)}) command="$command ${{COMP_WORDS[2]}}" ;;',
        "  esac",
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f'    words="{" ".join(groups)}"',
        "  else",
        '    case "$COMP_CWORD ${COMP_WORDS[1]}" in',
    ]
    lines += [f'    "2 {name}") words="{" ".join(seconds)}" ;;' for name, seconds in groups.items() if seconds]
    lines += [
        '    "2 completion") words="bash zsh fish" ;;',
        '    "2 explain") words="$(forewarn lint --list-rules 2>/dev/null | cut -d" " -f1)" ;;',
        '    *) case "$command $before" in',
    ]
    for name, choice in options.items():
        valued = ((option, values) for option, values in choice.items() if values)
        lines += [f'      "{name} {option}") words="{" ".join(values)}" ;;' for option, values in valued]
    for name, values in _arguments(commands):
        either = f'-*) words="{" ".join(options[name])}" ;; *) words="{" ".join(values)}" ;;'
        lines += [f'      "{name} {name.split()[-1]}") case "$word" in {either} esac ;;']
    lines += ['      *) case "$word" in', '        -*) case "$command" in']
    lines += [f'          "{name}") words="{" ".join(found)}" ;;' for name, found in options.items() if found]
    lines += ["          esac ;;", "        esac ;;", "      esac ;;", "    esac", "  fi"]
    lines += ['  COMPREPLY=($(compgen -W "$words" -- "$word"))', "}", "complete -o default -F _forewarn forewarn"]
    return "\n".join(lines)


def _fish(commands: Commands, options: Options) -> str:
    groups = first_words(dict.fromkeys([*commands, *options]))
    lines = []
    for name, seconds in groups.items():
        description = commands[name].help if name in commands else ", ".join(seconds)
        quoted = description.replace(chr(39), "")
        lines.append(f"complete -c forewarn -n __fish_use_subcommand -f -a {name} -d '{quoted}'")
        if seconds:
            lines.append(f"complete -c forewarn -n '__fish_seen_subcommand_from {name}' -f -a '{' '.join(seconds)}'")
    lines.append("complete -c forewarn -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'")
    for name, values in _arguments(commands):
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        lines.append(f"complete -c forewarn -n '{seen}' -f -a '{' '.join(values)}'")
    for name, words in options.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        for option, values in words.items():
            choices = f" -x -a '{' '.join(values)}'" if values else ""
            named = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            lines.append(f"complete -c forewarn -n '{seen}' {named}{choices}")
    return "\n".join(lines)


_ZSH: Final = "autoload -U +X bashcompinit && bashcompinit\n"
_SHELLS: Final = {"bash": _bash, "zsh": lambda *parts: _ZSH + _bash(*parts), "fish": _fish}
