"""forewarn cannot read a file or an object in it.

Why: kubectl rejects the object, and forewarn cannot check it. forewarn still checks the other documents of the file.

Details: the rule also reports values that kube-apiserver cannot decode, such as the quantity `128mi`. With `forewarn
lint --render`, it also reports ignored settings of `render`, and charts and kustomizations that cannot be rendered: one
warning for each cause.

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
     labels: {}

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      labels: {}

Fix: correct the syntax at the reported line and column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Problem, Severity, cut, quote
from forewarn.policies.kinds.registry import PRIORITY_CLASS
from forewarn.policies.objects.fields import at, group_kind, json_type
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.rule_text import diagnostics, is_template_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import Path
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.objects.workload import PodTemplate

ID: Final = "parse-error"
TARGETS: Final = (Target.FILE, Target.PRIORITY_CLASS, Target.POD, Target.UPDATED_POD, Target.TEMPLATE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED
_LONGEST: Final = 40
_FIELDS: Final = (
    ("priorityClassName", str, "string"),
    ("priority", int, "int32"),
    ("preemptionPolicy", str, "v1.PreemptionPolicy"),
)


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield syntax errors of files, and fields of objects that kube-apiserver cannot decode."""
    if not subject.object:
        yield from diagnostics(ID, context)
    elif group_kind(subject.object) == PRIORITY_CLASS:
        from forewarn.policies.kube_apiserver.validation.priority_class import (
            decode_error,  # only where there is a class: pods start without it
        )

        fault = decode_error(subject.object)
        if fault is not None and fault.path != ("value",):  # priority-value-invalid
            yield Problem(fault.text, fault.path, "write a value of this type")
    elif template := context.template(subject):
        for name, kind, wanted in _FIELDS:
            value = template.spec.get(name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
                text = f"cannot unmarshal {json_type(value)} into Go struct field PodSpec.{name} of type {wanted}"
                yield Problem(text, template.at(name), "write a value of this type")
        yield from _in_containers(template)
        yield from _quantities(subject, template, context)
        yield from _not_strings((), subject.object)
        if template.is_template:
            yield from _not_strings(template.path, template.object)


def _in_containers(template: PodTemplate) -> Iterator[Problem]:
    """Yield a problem for each environment variable, command or argument that is not a string."""
    for holder in ("initContainers", "containers", "ephemeralContainers"):
        containers = template.spec.get(holder)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            for path, value, field in _words(container) if isinstance(container, Mapping) else ():
                if value is not None and not isinstance(value, str):
                    text = f"cannot unmarshal {json_type(value)} into Go struct field {field} of type string"
                    yield Problem(text, template.at(holder, index, *path), "quote the value")


def _quantities(subject: ReviewedObject, template: PodTemplate, context: Context) -> Iterator[Problem]:
    """Yield a problem for each quantity that kube-apiserver cannot parse."""
    holders = [(template.at(*path), value) for path, value in _with_quantities(template.spec)]
    claims = at(subject.object, "spec", "volumeClaimTemplates")
    for index, claim in enumerate(claims if isinstance(claims, list) else ()):
        holders.append((("spec", "volumeClaimTemplates", index, *_OF_CLAIM), at(claim, *_OF_CLAIM)))
    for path, amounts in holders:
        for name, value in amounts.items() if isinstance(amounts, Mapping) else ():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield from _quantity((*path, name), value, subject, context)


_OF_CLAIM: Final = ("spec", "resources", "requests")
_AMOUNTS: Final = ("requests", "limits")


def _with_quantities(spec: ApiObject) -> Iterator[tuple[Path, object]]:
    """Yield the mappings of a Pod spec whose values are quantities."""
    yield ("overhead",), spec.get("overhead")
    if "resources" in spec:
        yield from ((("resources", kind), at(spec, "resources", kind)) for kind in _AMOUNTS)
    for holder in ("initContainers", "containers"):
        containers = spec.get(holder)
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            if isinstance(container, Mapping) and "resources" in container:
                yield from (((holder, index, "resources", kind), at(container, "resources", kind)) for kind in _AMOUNTS)
    volumes = spec.get("volumes")
    for index, volume in enumerate(volumes if isinstance(volumes, list) else ()):
        if (limit := at(volume, "emptyDir", "sizeLimit")) is not None:
            yield ("volumes", index, "emptyDir"), {"sizeLimit": limit}


def _quantity(path: Path, value: float | str, subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    if isinstance(value, int) or (isinstance(value, str) and _PLAIN.fullmatch(value)):
        return
    from forewarn.policies.quantity import InvalidQuantity, parse_quantity  # only for unusual quantities

    try:
        parse_quantity(value)
    except InvalidQuantity as fault:
        if not is_template_variable(str(value), subject, context):
            shown = cut(str(value), _LONGEST)
            yield Problem(f"{quote(shown)} is no quantity: {fault}", path, _quantity_fix(shown))


_PLAIN: Final = re.compile(r"[0-9]{1,15}(?:m|[kMGTP]|[KMGTP]i)?", re.ASCII)
_SUFFIX: Final = re.compile(r"([0-9.]{1,20}) ?(k|m|g|t)(i?)b?", re.IGNORECASE)


def _quantity_fix(text: str) -> str:
    """The fix for an invalid quantity, for example `write 128Mi`."""
    match = _SUFFIX.fullmatch(text)
    right = f"{match[1]}{match[2].upper()}{match[3].lower()}" if match else ""
    return f"write {right}" if right else "write a quantity, such as 500m or 128Mi"


def _words(container: ApiObject) -> Iterator[tuple[Path, object, str]]:
    """Yield the fields of a container that must be strings: path, value, and the field's name in Go."""
    variables = container.get("env")
    for place, variable in enumerate(variables if isinstance(variables, list) else ()):
        if isinstance(variable, Mapping):
            yield ("env", place, "value"), variable.get("value"), "EnvVar.value"
    for field in ("command", "args"):
        words = container.get(field)
        for place, word in enumerate(words if isinstance(words, list) else ()):
            yield (field, place), word, f"Container.{field}"


def _not_strings(path: Path, obj: ApiObject) -> Iterator[Problem]:
    """Yield a problem for each label or annotation that is not a string."""
    for name in ("labels", "annotations"):
        entries = at(obj, "metadata", name)
        for key, value in entries.items() if isinstance(entries, Mapping) else ():
            if value is not None and not isinstance(value, str):
                where = f"Go struct field ObjectMeta.metadata.{name} of type string"
                text = f"cannot unmarshal {json_type(value)} into {where}"
                yield Problem(text, (*path, "metadata", name, key), "quote the value")
