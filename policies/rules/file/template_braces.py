"""A file is a template that is not rendered.

Why: forewarn does not know the values of a template until an engine such as Helm renders it. kube-apiserver receives
only the rendered manifests.

Details: the linter reports one finding for each directory, and names the engine. In the template, it checks only the
fields that do not depend on values.

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

Fix: lint the rendered manifests: `helm template CHART | forewarn lint -`, or `forewarn lint --render`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Severity
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.rule_text import diagnostics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import Problem
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "template-braces"
TARGETS: Final = (Target.FILE,)
SEVERITY: Final = Severity.NOTE
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield the problems that parsing the files has found."""
    yield from diagnostics(ID, context)
