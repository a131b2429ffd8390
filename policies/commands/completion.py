"""`forewarn completion SHELL`: a script for bash, zsh or fish, made of what the commands' own help says."""

from __future__ import annotations

import argparse
import io
import re
from contextlib import redirect_stdout, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from policies.commands.parser import Parser
from policies.terminal import columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    class Command(Protocol):
        """An entry of `policies.cli.COMMANDS`."""

        @property
        def help(self) -> str:
            """A line on it."""

        def load(self) -> Callable[[Sequence[str]], int]:
            """The function that runs it. Raises ImportError."""

    Commands = Mapping[str, Command]
    Options = Mapping[str, Mapping[str, tuple[str, ...]]]
    """Command -> option -> the values that it may have, none where any will do."""

_OPTION: Final = re.compile(r"^  (?:-\w(?: (?:\{[^}]*\}|[^ ,]+))?, )?(--[a-z][a-z-]*)(?: \{([^}]+)\})?", re.MULTILINE)


def main(arguments: Sequence[str], commands: Commands) -> int:
    """Run the command; returns the exit status."""
    parser = Parser(
        prog="forewarn completion",
        formatter_class=partial(argparse.HelpFormatter, width=columns()),
        description="Print a completion script. bash: `source <(forewarn completion bash)`; zsh: the same, behind "
        "compinit; fish: `forewarn completion fish | source`.",
    )
    parser.add_argument("shell", choices=_SHELLS)
    print(_SHELLS[parser.parse_args(arguments).shell](commands, _options(commands)))  # noqa: T201
    return 0


def _options(commands: Commands) -> Options:
    return {name: options_of(command) for name, command in commands.items() if name != "completion"}


def options_of(command: Command) -> dict[str, tuple[str, ...]]:
    """Its options -> the values that each may have, by its help; nothing where an extra that it needs is missing."""
    said = io.StringIO()
    with suppress(SystemExit, ImportError), redirect_stdout(said):
        command.load()(["--help"])
    found = _OPTION.findall(said.getvalue())
    return {option: tuple(values.split(",")) if values else () for option, values in found}


def _bash(commands: Commands, options: Options) -> str:
    lines = [
        "_forewarn() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f'    words="{" ".join(commands)}"',
        "  else",
        '    case "${COMP_WORDS[1]} $before" in',
        '    "completion completion") words="bash zsh fish" ;;',
        '    "explain explain") words="$(forewarn lint --list-rules 2>/dev/null | cut -d" " -f1)" ;;',
    ]
    for name, found in options.items():
        valued = ((option, values) for option, values in found.items() if values)
        lines += [f'    "{name} {option}") words="{" ".join(values)}" ;;' for option, values in valued]
    lines += ['    *) case "$word" in', '      -*) case "${COMP_WORDS[1]}" in']
    lines += [f'        {name}) words="{" ".join(found)}" ;;' for name, found in options.items() if found]
    lines += ["        esac ;;", "      esac ;;", "    esac", "  fi"]
    lines += ['  COMPREPLY=($(compgen -W "$words" -- "$word"))', "}", "complete -o default -F _forewarn forewarn"]
    return "\n".join(lines)


def _zsh(commands: Commands, options: Options) -> str:
    return "autoload -U +X bashcompinit && bashcompinit\n" + _bash(commands, options)


def _fish(commands: Commands, options: Options) -> str:
    lines = [
        f"complete -c forewarn -n __fish_use_subcommand -f -a {name} -d '{command.help.replace(chr(39), '')}'"
        for name, command in commands.items()
    ]
    lines.append("complete -c forewarn -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'")
    for name, found in options.items():
        for option, values in found.items():
            choices = f" -x -a '{' '.join(values)}'" if values else ""
            lines.append(f"complete -c forewarn -n '__fish_seen_subcommand_from {name}' -l {option[2:]}{choices}")
    return "\n".join(lines)


_SHELLS: Final = {"bash": _bash, "zsh": _zsh, "fish": _fish}
