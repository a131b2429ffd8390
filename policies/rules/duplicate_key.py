"""A mapping has the same key twice.

Why: only one of the two counts, and readers do not agree which; kubectl takes the last and says nothing of the other.

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      name: web-2

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web

Fix: keep one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Severity
from policies.rules.context import NOTHING_STORED, About, Context
from policies.rules.wording import remarks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.findings import Problem
    from policies.objects.subject import Subject

ID: Final = "duplicate-key"
ABOUT: Final = (About.FILE,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: Subject, context: Context) -> Iterator[Problem]:
    """What reading the files has found."""
    yield from remarks(ID, context)
