"""Errors about inputs that cannot be read, and the exit status for them."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import Final

from forewarn.policies.objects.fields import ForewarnError, InvalidInput

_FIXES: Final = {
    errno.EACCES: "allow this user to read it",
    errno.EISDIR: "pass a file",
    errno.ELOOP: "pass the target of the link",
}
USAGE: Final = 2
FAILED: Final = 3


class SourceError(ForewarnError):
    """An input cannot be read: `file`, the `line` and `column` (0 if unknown), and the problem.

    `file` is empty for an input that the user has not named.
    """

    def __init__(self, file: str, problem: str, line: int = 0, column: int = 0) -> None:
        self.file, self.problem, self.line = file, problem, line
        where = f"{file}:{line}:{column}" if line and column else f"{file}:{line}" if line else file
        super().__init__(f"{where}: {problem}" if where else problem)


class MissingFile(SourceError):
    """A file, directory or kubeconfig context that the user named does not exist."""


def status_of(fault: BaseException | None) -> int:
    """Return the exit status of a command that ends with this error, or with an error caused by it."""
    usage = isinstance(fault, (MissingFile, InvalidInput, FileNotFoundError, NotADirectoryError))
    return USAGE if usage else FAILED


def unreadable(path: str, error: Exception, *, named: bool = True) -> SourceError:
    """The error for a file that cannot be opened or read. `named`: the user has given exactly this path."""
    if named and status_of(error) == USAGE:
        return MissingFile(path, no_such_file(path))
    fix = _FIXES.get(error.errno or 0, "") if isinstance(error, OSError) else ""
    return SourceError(path, reason(error) + (f". Fix: {fix}" if fix else ""))


def no_such_file(path: str) -> str:
    """The problem of a path that does not exist, with a similar name in the directory."""
    from difflib import get_close_matches

    if "://" in path:
        return "forewarn reads no URLs. Fix: download the file, or pipe it to forewarn and pass -"
    directory, name = os.path.split(path.rstrip("/"))
    if os.path.isfile(directory):
        return "not a directory. Fix: pass the file"
    with suppress(OSError):
        for near in get_close_matches(name, os.listdir(directory or os.curdir), 1, 0.75):
            return f'no such file or directory; did you mean "{os.path.join(directory, near)}"?'
    return "no such file or directory. Fix: pass the path of an existing file or directory"


def reason(error: Exception) -> str:
    """The system's error message without the path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return str(error)
