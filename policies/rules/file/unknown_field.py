"""An object has a field that its kind does not define, or that belongs to another place in the object.

Why: kubectl and server-side apply reject the object. If the client does not validate fields (Helm, older kubectl),
kube-apiserver drops the field without an error. A misspelled `priorityClassName` then leaves Pods at priority 0.

Details: by default, the rule accepts the fields of every Kubernetes release that forewarn supports. With
`--kubernetes-version`, it accepts only the fields of the given release.

Bad:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: gold
      template:
        spec:
          priorityClass: gold

Good:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec: {}

Fix: correct the spelling, or move the field to the correct place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import Problem, Severity, field_path, listed, quote
from forewarn.policies.kube_apiserver.validation.strict import (
    Unknown,
    fields_of,
    homes,
    minors_of,
    type_of,
    unknown_fields,
)
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import Path
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "unknown-field"
TARGETS: Final = (
    Target.POD_GROUP,
    Target.OTHER,
    Target.PRIORITY_CLASS,
    Target.POD,
    Target.UPDATED_POD,
    Target.TEMPLATE,
    Target.NAMESPACE,
    Target.RESOURCE_QUOTA,
)
SEVERITY: Final = Severity.ERROR
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED
_NEAR: Final = 0.75
_LONGEST: Final = 50
_CONTAINERS: Final = "containers"


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each field that strict decoding rejects."""
    for unknown in unknown_fields(subject.object, context.minor):
        path = unknown.path
        detail, hint, fix = _advice(unknown, type_of(subject.object))
        yield Problem(
            f"unknown field {quote(_shown(path))}: kubectl rejects it{hint}",
            path,
            fix,
            location=subject.source.locate(path, key=True),
            detail={"field": str(path[-1]), **detail},
        )


def _shown(path: Path) -> str:
    """The path, or its end if it is long."""
    text = field_path(path)
    return text if len(text) <= _LONGEST else f"…{text[1 - _LONGEST :]}"


def _advice(unknown: Unknown, root: str) -> tuple[dict[str, Any], str, str]:
    """Return the suggestion for an unknown field: as JSON, as the end of the message, and as the fix."""
    name = str(unknown.path[-1])
    known = fields_of(unknown.type).known
    minors = minors_of(unknown)
    if minors:
        releases = listed([f"1.{minor}" for minor in minors], len(minors))
        return {"minors": list(minors)}, f" in this release; {releases} has it", "remove it"
    same = [other for other in known if other.lower() == name.lower()]
    near = same or _nearest(name, known)
    if near and (same or not _has_home(name, root)):
        return {"meant": near[0]}, f"; did you mean {quote(near[0])}?", f"write {near[0]}"
    home = _home(unknown.path, root)
    if home is None:
        return {}, "", "remove it"
    under = field_path(home).replace("[0]", "[*]")
    where = under or "the object itself"
    return {"under": under}, f"; it belongs under {where}", f"move it to {where}"


def _nearest(name: str, known: frozenset[str]) -> list[str]:
    from difflib import get_close_matches  # only when something is wrong

    return get_close_matches(name[:100], sorted(known), n=1, cutoff=_NEAR)


def _has_home(name: str, root: str) -> bool:
    return next(homes(name, root), None) is not None


def _home(path: Path, root: str) -> Path | None:
    """Return the path where a field of this name belongs: nearest to the root, preferably in containers; None if
    ambiguous.

    `root`: the type of the object.
    """
    found = list(homes(str(path[-1]), root))
    if not found:
        return None
    nearest = [home for home in found if len(home) == len(found[0])]
    inside = [home for home in nearest if _CONTAINERS in home]
    return (inside or nearest)[0] if len(nearest) == 1 or inside else None
