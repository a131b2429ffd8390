"""A file still holds template braces.

Why: what {{ … }} becomes is not known before the chart is rendered; the API server never sees these files.

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: {{ .Release.Name }}-web

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: prod-web

Fix: lint what is rendered: helm template CHART | forewarn lint -
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

ID: Final = "template-braces"
ABOUT: Final = (About.FILE,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: Subject, context: Context) -> Iterator[Problem]:
    """What reading the files has found."""
    yield from remarks(ID, context)
