"""The name of a PriorityClass is not a DNS subdomain.

Why: kube-apiserver rejects a PriorityClass with an invalid name.

Bad:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: Very_High
    value: 1000

Good:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: very-high
    value: 1000

Fix: use at most 253 lowercase letters, digits, "-" and ".". Begin and end the name with a letter or digit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, cut, quote
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.rule_text import is_template_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "priority-class-name-invalid"
TARGETS: Final = (Target.PRIORITY_CLASS,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = NOTHING_STORED


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each error in the name that kube-apiserver reports."""
    metadata = subject.object.get("metadata") or {}
    if subject.old is not None or not isinstance(metadata, Mapping) or metadata.get("generateName"):
        return
    name = metadata.get("name") or ""
    from forewarn.policies.kube_apiserver.validation.priority_class import (
        name_faults,  # only where there is a class: pods start without it
    )

    if not isinstance(name, str):
        return
    path = ("metadata", "name")
    if not name and subject.is_partial:
        return
    if not name:
        yield Problem("no name", path, "set metadata.name")
    elif len(name) > _LONGEST:
        yield Problem(f"name too long: at most {_LONGEST} characters", path, "shorten it")
    elif name_faults(name) and not is_template_variable(name, subject, context):
        shown = quote(cut(name, _SHOWN))
        yield Problem(f'invalid name {shown}: use lowercase letters, digits, "-", "."', path, _valid(name))


def _valid(name: str) -> str:
    """Return a similar valid name; if there is none, a description of valid names."""
    near = _NOT_IN_A_NAME.sub("-", name.lower()).strip("-.")
    return near if near and not _EMPTY_PART.search(near) else "begin and end each part between dots with a-z or 0-9"


_LONGEST: Final = 253
_SHOWN: Final = 40
_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9.-]+")
_EMPTY_PART: Final = re.compile(r"[-.]\.|\.-")
