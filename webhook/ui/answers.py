"""Answers to recent questions, bounded in number and size: a page that is opened again shows its answer immediately."""

from __future__ import annotations

import json
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.webhook.ui.links import CommandLine

MAX_ANSWERS: Final = 16
MAX_BYTES: Final = 128 << 20


class Report(NamedTuple):
    """An answer: the title, the HTML inside `main`, the scripts of the page, and the JSON document."""

    title: str
    markup: str
    scripts: Sequence[str]
    document: str

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        return len(self.markup) + len(self.document)


class Answers:
    """The answers to recent questions. Thread-safe."""

    def __init__(self) -> None:
        self._reports: OrderedDict[CommandLine, Report] = OrderedDict()
        self._lock = Lock()

    def get(self, command_line: CommandLine) -> Report | None:
        """Return the report that answers a question; None if there is no recent one."""
        with self._lock:
            if command_line in self._reports:
                self._reports.move_to_end(command_line)
            return self._reports.get(command_line)

    def put(self, command_line: CommandLine, answer: dict[str, Any]) -> Report:
        """Store an answer of a process, and remove the oldest answers above the limits."""
        document = json.dumps(answer["document"], indent=1)
        report = Report(answer["title"], answer["markup"], answer["scripts"], document)
        with self._lock:
            self._reports[command_line] = report
            self._reports.move_to_end(command_line)
            while len(self._reports) > 1 and (
                len(self._reports) > MAX_ANSWERS or sum(each.size for each in self._reports.values()) > MAX_BYTES
            ):
                self._reports.popitem(last=False)
        return report
