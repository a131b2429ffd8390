"""Values that kube-apiserver rejects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Location, Path, Problem, Severity, cut, quote
from forewarn.policies.base.light import later
from forewarn.policies.kubernetes.kinds.class_paths import ITEMS, VALUES, found_at
from forewarn.policies.kubernetes.kinds.registry import (
    AUTOSCALER,
    DISRUPTION_BUDGET,
    LIMIT_RANGE,
    POD,
    POD_TEMPLATE_PATHS,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    WEBHOOK_CONFIGURATIONS,
)
from forewarn.policies.kubernetes.kube_apiserver.validation.decode import (
    FIXES,
    POD_SPEC_STRUCT,
    QUOTED,
    TYPED,
    mismatches,
)
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, at, group_kind, json_type, list_at, text_at
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import PodTemplate, is_fragment, lacks_images, selector_of
from forewarn.policies.linting.rules.support.context import POD_SPECS, Context, Target, rule
from forewarn.policies.linting.rules.support.rule_text import (
    api_text,
    diagnostics,
    is_capitals,
    is_template_variable,
    shown_path,
    shown_values,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import FieldError

_CERTAIN: Final = (
    "percentage such as",
    "cannot be both set",
    "Unsupported value",
    "greater than or equal to 0",
    "].type: Duplicate value",
)
"""Parts of messages about single fields, which other fields of a template do not change."""


@rule(
    Target.PRIORITY_CLASS,
    *POD_SPECS,
    Target.UPDATED_POD,
    Target.STATIC_POD,
    Target.RESOURCE_QUOTA,
    Target.OTHER,
    Target.FILE,
    severity=Severity.ERROR,
    reads_parts=True,
    objects={
        Target.OTHER: "PodDisruptionBudgets, HorizontalPodAutoscalers, LimitRanges, admission webhook configurations"
    },
)
def value_rejected(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """kube-apiserver rejects a value, or values that do not go together.

    Why: the object is not created or changed, although kubectl can send it.

    Details: the rule has the validation of kube-apiserver for PodDisruptionBudgets, HorizontalPodAutoscalers,
    LimitRanges, admission webhook configurations, Pods and workloads. Of Pods and Pod templates, it checks labels,
    annotations, names, restarts, deadlines, priorities, and the fields for scheduling. Of containers, it checks names,
    images, ports, probes, lifecycle handlers and volumeMounts. It does not check sources of volumes, resource claims,
    security contexts, DNS and host settings, volumeClaimTemplates, CEL expressions and CA bundles. Other rules are
    about PriorityClasses and ResourceQuotas. Without a known release, the rule reports what all supported releases
    reject. It also reports many values that kube-apiserver cannot decode, such as the quantity `128mi` and
    `runAsUser: "1000"`. It accepts placeholders, such as `<name>`, `__NAME__`, `job-TASK_ID`, `YOUR-NAME` and words of
    5 or more capital letters. In Helm charts, it checks types of some values and their indentation, and limits of
    PodDisruptionBudgets and HorizontalPodAutoscalers, in each values file.

    Example:

          PodDisruptionBudget team/web
          spec:
        -   minAvailable: "2"
        +   minAvailable: 2
            selector:
              matchLabels:
                app: web

    Fix: write a value that the message permits.
    """
    obj = subject.object
    if not obj:
        yield from diagnostics("value-rejected", context)
        return
    yield from _not_decoded(subject, context)
    is_updated_pod = group_kind(obj) == POD and subject.operation is Operation.UPDATE
    if subject.part or is_updated_pod:
        return
    template = context.template(subject)
    if subject.old is obj:  # stored, so that kube-apiserver has accepted it
        selector_of(obj if template is not None and template.is_template else NOTHING)
        return
    if not _is_checked(subject) or (template is not None and (is_fragment(obj, template) or lacks_images(template))):
        return
    from forewarn.policies.kubernetes.kube_apiserver.validation.tables import without_examples  # imported late

    reported = set[str]()
    for fault in _faults(subject, context):
        is_absent = at(obj, *fault.path) is None
        if is_absent and fault.path[-2:-1] == ("labels",):  # kube-apiserver generates several
            fault = fault._replace(path=fault.path[:-1])
        text = without_examples(fault)
        message = f"{shown_path(fault.path)}: {api_text(text)}"
        if message not in reported and not is_variable_at(subject, fault.path, text, context):
            reported.add(message)
            place, fix = _patch_fix(subject, fault)
            place = place or (subject.source.locate(fault.path) if is_absent else None)
            yield Problem(message, fault.path, fix, location=place, detail={"rejection": str(fault)})


def _patch_fix(subject: ReviewedObject, fault: FieldError) -> tuple[Location | None, str]:
    """Return the fix of an error, and where a patch sets a field that does not go together with one of the patched
    object; None if there is no such patch.
    """
    from forewarn.policies.kubernetes.kube_apiserver.validation.tables import fix_of

    fix = fix_of(fault)
    if not subject.overlay:
        return None, fix
    if others := _with_images(subject, fault.path):
        return None, f"name container {' or '.join(others)} in the patch, or set the image"
    holder, words = fault.path[:-1], {*_WORD.findall(fault.text)}
    found = [each for steps in _BESIDE for each in found_at(at(subject.object, *holder), steps)]
    paths = [fault.path, *((*holder, *path) for path, _ in found if path[-1] in words)]
    places = {path: subject.source.locate(path) for path in paths}
    file = subject.source.locate(()).file
    own = [path for path, place in places.items() if place.file == file]
    place = next((place for place in places.values() if place.file != file), None)
    if not own or not place:
        return None, fix
    return place, f"write {own[0][-1]}: null in the patch" if fix.startswith("remove") else fix


_BESIDE: Final = ((VALUES,), (VALUES, VALUES))
_WORD: Final = later(r"[\w./-]+")


def _with_images(subject: ReviewedObject, path: Path) -> Sequence[str]:
    """Return the few containers with images beside one without, which a patch can have added; () for other errors."""
    if path[-1] != "image":
        return ()
    named = [text_at(each, "name") for each in list_at(subject.object, *path[:-2]) if at(each, "image")]
    return named if len(named) <= _FEW else ()


_FEW: Final = 3


def _faults(subject: ReviewedObject, context: Context) -> list[FieldError]:
    """Return the errors of an object; without a known release, those in all releases."""
    from forewarn.policies.kubernetes.kube_apiserver.validation.tables import is_repeated, validate

    obj, faults = subject.object, validate(subject.object, context.semantics)
    if subject.is_partial:
        faults = [f for f in faults if at(obj, *f.path) is not None and any(part in str(f) for part in _CERTAIN)]
    for semantics in context.possible_semantics[1:] if faults else ():
        others = {fault.path for fault in validate(obj, semantics)}  # the texts can differ, as in minimum values
        faults = [fault for fault in faults if fault.path in others]
    required = {fault.path for fault in faults if fault.text.startswith(_REQUIRES)}
    faults = [fault for fault in faults if fault.path not in required or fault.text.startswith(_REQUIRES)]
    return [fault for fault in faults if not (_is_expected(fault, subject) or is_repeated(obj, fault))]


def _is_expected(fault: FieldError, subject: ReviewedObject) -> bool:
    """Report whether another rule reports an error, or a tool corrects it, such as Jenkins, which adds a volume to Pods
    without a name.
    """
    from forewarn.policies.kubernetes.kube_apiserver.validation.tables import INVALID_SELECTOR

    if "volumeMounts" in fault.path and group_kind(subject.object) == POD and not subject.ref.name:
        return True
    return INVALID_SELECTOR in fault.text or fault.path[-1:] == (_CLASS,)


_CLASS: Final = "priorityClassName"
_REQUIRES: Final = "Required"


def _is_checked(subject: ReviewedObject) -> bool:
    """Report whether forewarn validates an object: its kind is checked, and it is complete, so no patch."""
    kind = group_kind(subject.object)
    path = _REQUIRED.get(kind, POD_TEMPLATE_PATHS.get(kind, ("spec",)))
    return (kind in _KINDS or kind in POD_TEMPLATE_PATHS) and at(subject.object, *path) is not None


_KINDS: Final = (AUTOSCALER, DISRUPTION_BUDGET, LIMIT_RANGE, POD, *WEBHOOK_CONFIGURATIONS)
_REQUIRED: Final = {AUTOSCALER: ("spec", "scaleTargetRef"), **dict.fromkeys(WEBHOOK_CONFIGURATIONS, ("webhooks",))}


def is_variable_at(subject: ReviewedObject, path: Path, text: str, context: Context) -> bool:
    """Report whether a template variable or a placeholder stands for the value; for labels even if a variable is in
    the selector. `text`: the error, which shows the value.
    """
    first = min(1, len(path) - 1)  # not the whole spec, in which a variable may stand for something else
    values = [at(subject.object, *path[: index + 1]) for index in range(first, len(path))][-2:]
    if "labels" in path[-2:]:
        values.append(at(subject.object, "spec", "selector"))
    return any(is_template_variable(value, subject, context, text) for value in (*values, *shown_values(text)))


_MAX_QUANTITY_LENGTH: Final = 40
_CONTAINERS: Final = "containers"
_AMOUNTS: Final = (
    ("overhead",),
    *(
        (*holder, "resources", kind)
        for holder in ((), ("initContainers", ITEMS), (_CONTAINERS, ITEMS))
        for kind in ("requests", "limits")
    ),
)
"""Fields of a Pod with quantities by name."""
_HOLDER: Final = later(r".* Go struct field (\w+)\.\S*?(\w+ of type .*)")


def _not_decoded(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield the values of an object that kube-apiserver cannot decode."""
    if group_kind(subject.object) == PRIORITY_CLASS:
        # Only where there is a class: pods start without it.
        from forewarn.policies.kubernetes.kube_apiserver.validation.priority_class import decode_error

        fault = decode_error(subject.object)
        value = at(subject.object, *fault.path) if fault is not None else None
        is_variable = is_template_variable(str(value), subject, context)
        if fault is not None and fault.path != ("value",) and not is_variable:  # priority-value-invalid
            yield Problem(fault.text, fault.path, TYPED)
    elif (kind := group_kind(subject.object)) in _OF_AMOUNTS:
        for path, amounts in found_at(subject.object, _OF_AMOUNTS[kind]):
            for name, value in amounts.items() if isinstance(amounts, Mapping) and path[-1] not in _RATIOS else ():
                if isinstance(value, str) and value.endswith("m"):  # others are read with the object
                    yield from _quantity((*path, name), value, subject, context)
    elif subject.part:
        yield from _quantities(subject, subject.part, context) if not subject.part.named else ()
    elif template := context.template(subject):
        yield from _undecodable(_fields(subject, template), subject, context)
        yield from _quantities(subject, template, context)
        yield from _undecodable(_metadata((), subject.object), subject, context)
        if template.is_template:
            yield from _undecodable(_metadata(template.path, template.object), subject, context)


_OF_AMOUNTS: Final = {RESOURCE_QUOTA: ("spec", "hard"), LIMIT_RANGE: ("spec", "limits", ITEMS, VALUES)}
_RATIOS: Final = ("maxLimitRequestRatio",)
_Field = tuple[Path, object, str, str]
"""A value of a wrong type: path, value, name and type in Go, fix."""


def _undecodable(fields: Iterable[_Field], subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    for path, value, field, fix in fields:
        is_replaced = is_template_variable(str(value), subject, context) or is_capitals(value)
        if fix == QUOTED or not is_replaced:
            yield Problem(f"cannot unmarshal {json_type(value)} into Go struct field {field}", path, fix)


def _is_wrong(value: object, kind: type) -> bool:
    return value is not None and (not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)))


def _fields(subject: ReviewedObject, template: PodTemplate) -> Iterator[_Field]:
    """Yield fields of a Pod or workload with a wrong type, except quantities and metadata."""
    replicas: Path = ("spec", "replicas")
    if template.path == ("spec", "template") and _is_wrong(value := at(subject.object, *replicas), int):
        yield replicas, value, "Spec.replicas of type int32", FIXES["int32"]
    for fault in mismatches(template.spec, POD_SPEC_STRUCT):
        yield template.at(*fault.path), at(template.spec, *fault.path), _HOLDER.sub(r"\1.\2", fault.text), fault.fix


def _quantities(subject: ReviewedObject, template: PodTemplate, context: Context) -> Iterator[Problem]:
    holders = [(template.at(*path), value) for steps in _AMOUNTS for path, value in found_at(template.spec, steps)]
    sizes = found_at(template.spec, ("volumes", ITEMS, "emptyDir", "sizeLimit"))
    holders += ((template.at(*path[:-1]), {"sizeLimit": limit}) for path, limit in sizes)
    holders += found_at(subject.object, ("spec", "volumeClaimTemplates", ITEMS, "spec", "resources", "requests"))
    for path, amounts in holders:
        for name, value in amounts.items() if isinstance(amounts, Mapping) else ():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield from _quantity((*path, name), value, subject, context)


def _quantity(path: Path, value: float | str, subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    is_plain = isinstance(value, int) or (isinstance(value, str) and _PLAIN.fullmatch(value) is not None)
    if is_plain and not (str(value).endswith("m") and _is_of_bytes(path)):
        return
    from forewarn.policies.kubernetes.quantity import InvalidQuantity, parse_quantity  # only for unusual quantities

    try:
        amount = parse_quantity(value)
        if _is_of_bytes(path) and 0 < amount.nano < _SMALLEST:
            message = f"{quote(str(value))} is accepted, but the suffix m means thousandths of a byte"
            yield Problem(message, path, quantity_fix(path, str(value)), severity=Severity.WARNING)
    except InvalidQuantity as fault:
        if not is_template_variable(str(value), subject, context) and not is_capitals(value):
            shown = cut(str(value), _MAX_QUANTITY_LENGTH)
            yield Problem(f"{quote(shown)} is no quantity: {fault}", path, quantity_fix(path, shown))


_BYTES: Final = ("memory", "ephemeral-storage", "storage", "sizeLimit")
_SMALLEST: Final = 10**6 * 10**9
"""The amount in nano-bytes below which a quantity with the suffix m is a mistake; autoscalers write larger ones."""
_PLAIN: Final = later(r"[0-9]{1,15}(?:m|[kMGTP]|[KMGTP]i)?", re.ASCII)
_OF_BYTES: Final = later(r"([0-9]{1,15}(?:\.[0-9]{1,9}|,[0-9]{1,2})?)(k(?!i)|)([kmgt]i?|)(?:b|bytes?|)", re.IGNORECASE)
_OF_CPU: Final = later(r"([0-9]{1,15}(?:\.[0-9]{1,9}|,[0-9]{1,2})?)(m?)()(?:v?cpus?|cores?|)", re.IGNORECASE)


def _is_of_bytes(path: Path) -> bool:
    name = str(path[-1])
    return name.rpartition(".")[2] in _BYTES or "hugepages-" in name


def quantity_fix(path: Path, text: str) -> str:
    """The fix for an invalid quantity, for example `write 128Mi`; the suffix m is right for CPUs alone."""
    form = _OF_BYTES if _is_of_bytes(path) else _OF_CPU if str(path[-1]).rpartition(".")[2] == "cpu" else None
    if form is None or (match := form.fullmatch("".join(text.split()))) is None:
        return "write a quantity, such as 500m or 128Mi"
    unit = "Mi" if match[3] == "m" == text[-1] else match[3].capitalize()  # who writes 512m, has seen 512Mi
    return f"write {match[1].replace(',', '.')}{match[2].lower()}{unit}"


def _metadata(path: Path, obj: ApiObject) -> Iterator[_Field]:
    for name in ("labels", "annotations"):
        for place, value in found_at(obj, ("metadata", name, VALUES)):
            if _is_wrong(value, str):
                fix = TYPED if isinstance(value, dict | list) else QUOTED
                yield (*path, *place), value, f"ObjectMeta.metadata.{name} of type string", fix
