"""`pip install` that says every few seconds how far it is: `installing.py ARGUMENTS`.

pip's own lines are dozens, and quiet it says nothing for a minute or two. They are shown where it fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import deque
from threading import Thread
from typing import Final

EVERY: Final = 5.0
"""Seconds between two looks at pip."""
QUIET: Final = 30.0
"""Seconds without news until the same line is repeated."""
SHOWN: Final = 30
"""The last lines of pip that are shown where it fails."""
_FOUND: Final = re.compile(r"\s*(?:Collecting|Processing|Requirement already satisfied:) +([\w.-]+)")
_LOADED: Final = re.compile(r"\s*(?:Downloading|Using cached) (?:\S*/)?([\w.-]+)")


class Progress:
    """What pip has told of so far."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.now = "asking the index"
        self.lines: deque[str] = deque(maxlen=SHOWN)

    def take(self, line: str) -> None:
        """A line of pip."""
        self.lines.append(line)
        if match := _FOUND.match(line):
            self.found.add(match[1])
            self.now = f"now {match[1]}"
        elif match := _LOADED.match(line):
            self.now = f"now fetching {match[1].partition('-')[0]}"
        elif line.startswith("Installing collected packages:"):
            self.now = f"now writing {line.count(',') + 1} of them into place"

    def line(self, seconds: float) -> str:
        """How far it is."""
        return f"  {seconds:3.0f} s, {len(self.found)} packages looked at, {self.now}"


class Shown:
    """What standard error shows: one line on a terminal; elsewhere a line if there is news, and twice a minute."""

    def __init__(self) -> None:
        self._last, self._at = "", 0.0

    def show(self, progress: Progress, seconds: float) -> None:
        """Show how far it is."""
        line = progress.line(seconds)
        if sys.stderr.isatty():
            self._last = line
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)  # noqa: T201
        elif progress.now != self._last or seconds - self._at >= QUIET:
            self._last, self._at = progress.now, seconds
            print(line, file=sys.stderr, flush=True)  # noqa: T201

    def wipe(self) -> None:
        """Clear the line of a terminal."""
        if self._last and sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)  # noqa: T201


def main(arguments: list[str]) -> int:
    """Run pip; its exit status."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off"]
    started, progress, shown = time.monotonic(), Progress(), Shown()
    with subprocess.Popen([*pip, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:

        def read() -> None:
            for line in process.stdout or ():
                progress.take(line)

        reader = Thread(target=read, daemon=True)
        reader.start()
        while True:
            try:
                status = process.wait(EVERY)
                break
            except subprocess.TimeoutExpired:
                shown.show(progress, time.monotonic() - started)
        reader.join(EVERY)
    shown.wipe()
    if status:
        sys.stderr.writelines(progress.lines)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
