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
_FEW: Final = 2


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
    """The path, or its last steps if it is long."""
    text, left = field_path(path), list(path)
    while len(text) > _LONGEST and len(left) > 1:
        left = left[2:] if isinstance(left[1], int) and len(left) > 2 else left[1:]
        text = f"….{field_path(tuple(left))}"
    return text


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
    right = _inside(unknown, root) or _outside(unknown.path, root)[-1:] or _anywhere(unknown.path, root)
    if not right:
        return {}, "", "remove it"
    where = " or ".join(_home(path, unknown.path) for path in right) or "the object itself"
    under = field_path(right[0]).replace("[0]", "[*]")
    return {"under": under}, f"; it belongs under {where}", f"move it to {where}"


def _home(right: Path, wrong: Path) -> str:
    """The path where a field belongs; only its end if it is below the struct that contains the field now."""
    if right[:-1] == wrong[:-1]:
        right = right[-2:] if len(right) > 1 and isinstance(right[-2], str) else right[-1:]
    return field_path(right).replace("[0]", "[*]")


def _nearest(name: str, known: frozenset[str]) -> list[str]:
    from difflib import get_close_matches  # only when something is wrong

    return get_close_matches(name[:100], sorted(known), n=1, cutoff=_NEAR)


def _has_home(name: str, root: str) -> bool:
    return next(homes(name, root), None) is not None


def _inside(unknown: Unknown, root: str) -> list[Path]:
    """Return the structs beside an unknown field that have a field of its name, if there are one or two.

    If there is one, the struct around both may also be meant.
    """
    holder, name = unknown.path[:-1], str(unknown.path[-1])
    nested = [(key, many) for key, many, kind in fields_of(unknown.type).nested if name in fields_of(kind).known]
    beside = [(*holder, key) for key, many in nested if not many]
    if not 0 < len(beside) == len(nested) <= _FEW:
        return []
    around = [path for path in _outside(unknown.path, root) if path == holder[:-1]]
    return beside if len(beside) == _FEW else [*around, *beside]


def _outside(path: Path, root: str) -> list[Path]:
    """Return the structs around an unknown field that have a field of its name, the nearest last."""
    return [holder for holder, kind in _holders(path, root) if str(path[-1]) in fields_of(kind).known]


def _holders(path: Path, root: str) -> Iterator[tuple[Path, str]]:
    """Yield the structs that contain a field, the outermost first: (path, type)."""
    kind, at = root, 0
    while kind and at < len(path) - 1:
        yield path[:at], kind
        many, kind = next(((many, inner) for key, many, inner in fields_of(kind).nested if key == path[at]), ("", ""))
        at += 2 if many else 1


def _anywhere(path: Path, root: str) -> list[Path]:
    """Return the path where a field of this name belongs: nearest to the root, preferably in containers.

    Empty if it is ambiguous, or for fields of `metadata` deep in the object.
    """
    found = list(homes(str(path[-1]), root))
    nearest = [home for home in found if len(home) == len(found[0])]
    inside = [home for home in nearest if _CONTAINERS in home]
    if nearest == [("metadata",)] and any(isinstance(step, int) for step in path):
        return []
    return (inside or nearest)[:1] if len(nearest) == 1 or inside else []
