"""docs/reference/cli.md: the help of every command, as the commands print it."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stdout, suppress
from unittest.mock import patch

from forewarn.policies.cli.commands.completion import changes
from forewarn.policies.cli.main import COMMANDS

_WIDTH = "100"


def page() -> str:
    """The page, grouped as `forewarn --help` groups the commands."""
    lines = [
        "# Command line",
        "",
        "`forewarn --help` lists the commands, and `forewarn COMMAND --help` shows the help of a command,",
        "and `--help-all` also its rare options. This page has all options.",
        "`kubectl forewarn COMMAND` takes the same arguments. By default, it uses kubectl's cluster,",
        "and kubectl's namespace for objects without one.",
        "See also [Exit statuses](exit-statuses.md).",
        "",
    ]
    for name in _names():
        lines += [f"## forewarn {name}", "", "```text", _help_of(name).rstrip(), "```", ""]
    return "\n".join(lines)


def _names() -> list[str]:
    names: list[str] = []
    for name in COMMANDS:
        names += [f"whatif {change}" for change in changes(COMMANDS["whatif"])] if name == "whatif" else [name]
    return list(dict.fromkeys(names))


def _help_of(name: str) -> str:
    command = COMMANDS.get(name) or COMMANDS[name.partition(" ")[0]]
    words = [] if name in COMMANDS else [name.partition(" ")[2]]
    printed = io.StringIO()
    with suppress(SystemExit), redirect_stdout(printed), patch.dict(os.environ, {"COLUMNS": _WIDTH}):
        command.load()([*words, "--help-all"])
    return printed.getvalue()
