"""What the pages show of a cluster, until the cluster is read again."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markupsafe import Markup

from forewarn.policies.cli.render.html.elements import Page, data, section, table, tiles
from forewarn.policies.cli.render.html.nodes import nodes
from forewarn.policies.cli.ui.questions import CommandLine, links
from forewarn.policies.kubernetes.objects.fields import NOTHING
from forewarn.policies.kubernetes.objects.priority_class import SYSTEM_PRIORITY_CLASS_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

    from forewarn.policies.cli.ui.processes import Processes


MAX_ANSWERS: Final = 16
MAX_BYTES: Final = 128 << 20


class Report(NamedTuple):
    """An answer: the title, the HTML inside `main`, the scripts of the page, and the JSON document."""

    title: str
    markup: str
    scripts: Sequence[str]
    document: str
    command: str = ""
    """If it is longer than that of the address."""

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
        report = Report(answer["title"], answer["markup"], answer["scripts"], document, answer.get("command", ""))
        with self._lock:
            self._reports[command_line] = report
            self._reports.move_to_end(command_line)
            while len(self._reports) > 1 and (
                len(self._reports) > MAX_ANSWERS or sum(item.size for item in self._reports.values()) > MAX_BYTES
            ):
                self._reports.popitem(last=False)
        return report


class Shown(NamedTuple):
    """The cluster of the pages, as JSON data. `source`: its description; `named`: the options that name it for a
    command; `head`: the head of all answers.
    """

    source: str
    counts: str
    named: Sequence[str]
    picture: dict[str, Any]
    document: dict[str, Any]
    classes: Sequence[tuple[str, int]]
    names: Mapping[str, Sequence[str]] = NOTHING
    """The suggestions for inputs: `zones`, `pools`, `nodes`, `pods` …"""
    head: str = ""
    totals: Mapping[str, str] = NOTHING
    levels: Sequence[Sequence[str | int]] = ()
    """The column heads and the rows of `forewarn classes`."""


@dataclass(frozen=True, slots=True)
class View:
    """A cluster with the answers to questions about it."""

    shown: Shown
    markup: Markup
    totals: Markup
    levels: Markup
    document: str
    answers: Answers = field(default_factory=Answers)


class Cluster:
    """The latest view. Safe from any thread."""

    def __init__(self, processes: Processes, shown: Shown) -> None:
        self._processes, self._lock, self._view = processes, Lock(), _view(shown)

    def view(self) -> View:
        return self._view

    def load(self, before: View) -> None:
        """Read the cluster again, unless another thread has done so since `before`. Raises Unanswered."""
        with self._lock:
            if self._view is before:
                self._view = _view(Shown(**self._processes.load()))


def markup_of(*parts: Any) -> Markup:
    return Markup(Page("", parts).markup())


def _changes(name: str) -> Element:
    of_class = {"change": "class", "name": name}
    return links(name, {"Delete": {**of_class, "delete": 1}, "Make global default": {**of_class, "default": 1}})


def _view(shown: Shown) -> View:
    counters = ((name, value, name == "Pending" and value[:2] != "0 ") for name, value in shown.totals.items())
    known = {name for name, _ in shown.classes if not name.startswith(SYSTEM_PRIORITY_CLASS_PREFIX)}
    heads, *of_classes = shown.levels or [()]
    rows = ((*row, _changes(str(row[0])) if row[0] in known else "-") for row in of_classes)
    columns = [*(str(head).lower() for head in heads), "simulate"]
    levels = table("PriorityClasses", columns, rows, len(of_classes))
    return View(
        shown,
        markup_of(nodes(shown.picture), data("nodes-data", shown.picture)),
        markup_of(tiles(counters)),
        markup_of(section("PriorityClasses", "levels", levels)),
        json.dumps(shown.document),
    )
