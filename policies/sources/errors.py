"""What is said of an input that cannot be read."""

from __future__ import annotations


class SourceError(Exception):
    """An input that cannot be read: `file`, the `line` and `column` where they are known (else 0), what is wrong."""

    def __init__(self, file: str, problem: str, line: int = 0, column: int = 0) -> None:
        self.file, self.problem, self.line = file, problem, line
        where = f"{file}:{line}:{column}" if line and column else f"{file}:{line}" if line else file
        super().__init__(f"{where}: {problem}")
