"""What the pages show of a cluster, until the cluster is read again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from forewarn.policies.render.html.elements import Page, data
from forewarn.policies.render.html.nodes import nodes
from forewarn.webhook.ui.answers import Answers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarn.policies.documents.ui import UiCluster
    from forewarn.webhook.ui.processes import Processes


class Shown(NamedTuple):
    """The cluster of the pages, as JSON data. `source`: its description; `named`: the options that name it for a
    command; `head`: the head of all answers.
    """

    source: str
    counts: str
    named: Sequence[str]
    picture: dict[str, Any]
    document: UiCluster
    classes: Sequence[tuple[str, int]]
    pools: Sequence[str] = ()
    """Each as `LABEL=VALUE`."""
    head: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A cluster with the answers to questions about it."""

    shown: Shown
    markup: Markup
    document: str
    answers: Answers = field(default_factory=Answers)


class Cluster:
    """The latest view. Without a view, the first call reads the cluster. Safe from any thread."""

    def __init__(self, processes: Processes, shown: Shown | None) -> None:
        self._processes, self._lock = processes, Lock()
        self._view = None if shown is None else _view(shown)

    def view(self) -> View:
        """The latest view. Raises Unanswered."""
        return self._view or self.load(None)

    def load(self, before: View | None) -> View:
        """Read the cluster again, unless another thread has done so since `before`. Raises Unanswered."""
        with self._lock:
            if self._view is None or self._view is before:
                self._view = _view(Shown(**self._processes.load()))
            return self._view


def markup_of(*parts: Any) -> Markup:
    """Elements of a report as markup."""
    return Markup(Page("", parts).markup())


def _view(shown: Shown) -> View:
    return View(shown, markup_of(nodes(shown.picture), data("nodes-data", shown.picture)), json.dumps(shown.document))
