"""`forewarn …` in the process of the test: milliseconds instead of the start of an interpreter.

What a process does with its standard streams, signals and imports, tests/policies/commands/test_cli.py checks.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from subprocess import CompletedProcess
from typing import TYPE_CHECKING
from unittest import mock

from forewarn.policies.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def without_head(text: str) -> str:
    """The text of an answer without the line of its head."""
    return re.sub(r"^cluster: .*\n", "", text, flags=re.MULTILINE)


def forewarn(
    *arguments: str | Path,
    cwd: Path | str = ".",
    stdin: str = "",
    environment: dict[str, str] | None = None,
    merged: bool = False,
) -> CompletedProcess[str]:
    """What a command prints, and its exit status.

    `environment`: all variables (default: those of this process). `merged`: standard error in `stdout`, in the order of
    a pipe, which gets standard output only when the command flushes it.
    """
    printed = io.BytesIO()
    said = printed if merged else io.BytesIO()
    out = io.TextIOWrapper(printed, "utf-8", errors="backslashreplace")
    err = io.TextIOWrapper(said, "utf-8", errors="backslashreplace", write_through=True)
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    words = [str(argument) for argument in arguments]
    with (
        mock.patch.object(sys, "stdin", given),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, os.environ if environment is None else environment, clear=True),
    ):
        try:
            status = main(words)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    out.detach()
    err.detach()
    return CompletedProcess(words, status, printed.getvalue().decode(), "" if merged else said.getvalue().decode())


def captured(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The exit status of a command, and what pytest captures of its standard output and standard error."""
    try:
        status = main([*words])
    except SystemExit as ended:
        status = int(str(ended.code))
    return status, *capsys.readouterr()
