"""What is said of an input that cannot be read."""

from __future__ import annotations


class SourceError(Exception):
    """An input that cannot be read: `file`, the `line` where there is one (else 0), and what is wrong."""

    def __init__(self, file: str, problem: str, line: int = 0) -> None:
        self.file, self.problem, self.line = file, problem, line
        super().__init__(f"{file}:{line}: {problem}" if line else f"{file}: {problem}")
