"""Errors about inputs that cannot be read, and the exit status for them."""

from __future__ import annotations

from typing import Final

from forewarn.policies.objects.fields import ForewarnError, InvalidInput

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
    missing = named and status_of(error) == USAGE
    return (MissingFile if missing else SourceError)(path, reason(error))


def reason(error: Exception) -> str:
    """The system's error message without the path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return str(error)
