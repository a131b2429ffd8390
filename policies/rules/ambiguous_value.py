"""kubectl reads a plain value as something else than it looks.

Why: kubectl reads YAML 1.1: yes, no, on and off are booleans, 0777 is octal, 1:30 is a number in base 60.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: low
    value: 010

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: low
    value: 8

Fix: quote the text, or write the number plainly.
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

ID: Final = "ambiguous-value"
ABOUT: Final = (About.FILE,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: Subject, context: Context) -> Iterator[Problem]:
    """What reading the files has found."""
    yield from remarks(ID, context)
