"""Validation of metadata (apimachinery `api/validation/objectmeta.go`). The object must be decodable (decode.py).

Map entries are checked by key; upstream's order is random. managedFields are not checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kube_apiserver.validation.field_errors import (
    MAX_FAULTS,
    FieldError,
    forbidden,
    go_quote,
    invalid,
    required,
    too_long,
)
from forewarn.policies.kube_apiserver.validation.names import (
    dns1123_label,
    dns1123_subdomain,
    label_value,
    mask_trailing_dash,
    path_segment,
    qualified_name,
)
from forewarn.policies.metering import each, meter
from forewarn.policies.objects.fields import NOTHING, at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from forewarn.policies.findings import Path
    from forewarn.policies.objects.fields import ApiObject

_ANNOTATION_BYTES: Final = 256 * 1024
_META: Final[Path] = ("metadata",)
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS: Final = ("kubernetes", _ORPHAN, _FOREGROUND)
_IMMUTABLE: Final = ("name", "namespace", "uid")


def validate_object_meta(obj: ApiObject, *, namespaced: bool, own_generation: bool = False) -> list[FieldError]:
    """All errors in a new object's metadata; the name must be a DNS subdomain (`ValidateObjectMeta`).

    `own_generation`: the generation that the client sends is checked, because the server does not set it.
    """
    errors = _validate(obj, namespaced, dns1123_subdomain, lambda prefix: dns1123_subdomain(mask_trailing_dash(prefix)))
    generation = at(obj, "metadata", "generation") or 0
    if own_generation and generation < 0:
        errors.append(invalid((*_META, "generation"), generation, "must be greater than or equal to 0"))
    metadata: ApiObject = obj.get("metadata") or NOTHING
    return errors + _common(metadata) + _finalizers(metadata.get("finalizers") or []) + _kube_finalizers(metadata)


def validate_object_meta_update(new: ApiObject, old: ApiObject, *, namespaced: bool) -> list[FieldError]:
    """All errors of a change of metadata (registry/rest `validateCommonFields`, `ValidateObjectMetaUpdate`).

    Not checked: absent fields that the server sets itself (resourceVersion, times, generation).
    """
    metadata: ApiObject = new.get("metadata") or NOTHING
    before: ApiObject = old.get("metadata") or NOTHING
    errors = _validate(new, namespaced, path_segment, lambda prefix: path_segment(prefix, prefix=True))
    errors += _common(metadata) + _finalizers(metadata.get("finalizers") or [])
    if before.get("deletionTimestamp"):
        errors += _no_new_finalizers(metadata.get("finalizers") or [], before.get("finalizers") or [])
    for key in _IMMUTABLE:
        given, stored = metadata.get(key) or "", before.get(key) or ""
        if given and stored and given != stored:
            errors.append(invalid((*_META, key), given, "field is immutable"))
    return errors + _kube_finalizers(metadata)


def validate_labels(labels: Mapping[str, str], path: Path) -> list[FieldError]:
    """The errors of labels, or of a nodeSelector (`ValidateLabels`)."""
    errors: list[FieldError] = []
    work = meter()
    for key, value in sorted(labels.items()):
        if len(errors) >= MAX_FAULTS:
            break
        work.charge(3)
        errors += [invalid(path, key, fault) for fault in qualified_name(key)]
        errors += [invalid(path, value, fault) for fault in label_value(value or "")]
    return errors


def _validate(
    obj: ApiObject, namespaced: bool, name_faults: Callable[[str], list[str]], prefix_faults: Callable[[str], list[str]]
) -> list[FieldError]:
    """Return the errors of names and namespace.

    `name_faults`, `prefix_faults`: check the name, and generateName. A generateName without a name is no error,
    because the server generates the name.
    """
    metadata: ApiObject = obj.get("metadata") or NOTHING
    prefix, name = metadata.get("generateName") or "", metadata.get("name") or ""
    errors = [invalid((*_META, "generateName"), prefix, fault) for fault in (prefix_faults(prefix) if prefix else ())]
    errors += [invalid((*_META, "name"), name, fault) for fault in (name_faults(name) if name else ())]
    if not name and not prefix:
        errors.append(required((*_META, "name"), "name or generateName is required"))
    return errors + (_namespace(metadata.get("namespace") or "") if namespaced else [])


def _common(metadata: ApiObject) -> list[FieldError]:
    errors = validate_labels(metadata.get("labels") or {}, (*_META, "labels"))
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    path = (*_META, "annotations")
    for key in each(sorted(annotations), 2):
        errors += [invalid(path, key, fault) for fault in qualified_name(key.lower())]
    if sum(len(text.encode(errors="surrogatepass")) for text in _texts(annotations)) > _ANNOTATION_BYTES:
        errors.append(too_long(path, _ANNOTATION_BYTES))
    return errors + _owners(metadata.get("ownerReferences") or [])


def _texts(annotations: Mapping[str, str]) -> Iterable[str]:
    for key, value in annotations.items():
        yield key
        yield value or ""


def _namespace(namespace: str) -> list[FieldError]:
    path = (*_META, "namespace")
    if not namespace:
        return [required(path)]
    return [invalid(path, namespace, fault) for fault in dns1123_label(namespace)]


def _owners(references: list[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = ""
    path = (*_META, "ownerReferences")
    for reference in each(references, 3):
        if len(errors) >= MAX_FAULTS:
            break
        errors += _owner(reference or {}, path)
        if (reference or {}).get("controller"):
            current = f"{reference.get('kind') or ''}/{reference.get('name') or ''}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {current}"
                )
                errors.append(invalid(path, [_owner_as_go(r or {}) for r in references[:MAX_FAULTS]], detail))
            controller = controller or current
    return errors


def _owner(reference: ApiObject, path: Path) -> list[FieldError]:
    errors = []
    group, slash, version = (reference.get("apiVersion") or "").rpartition("/")
    if not version or "/" in group:
        detail = "version must not be empty"
        errors.append(invalid((*path, "apiVersion"), reference.get("apiVersion") or "", detail))
    errors += [invalid((*path, k), "", "must not be empty") for k in ("kind", "name", "uid") if not reference.get(k)]
    if (group, version, reference.get("kind")) == ("", "v1", "Event") and not slash:
        value = _owner_as_go(reference)
        errors.append(invalid(path, value, "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _owner_as_go(reference: ApiObject) -> dict[str, Any]:
    """An owner reference with its fields in the order of the Go type."""
    always = {key: reference.get(key) or "" for key in ("apiVersion", "kind", "name", "uid")}
    given = {k: reference[k] for k in ("controller", "blockOwnerDeletion") if reference.get(k) is not None}
    return always | given


def _finalizers(finalizers: list[str]) -> list[FieldError]:
    path = (*_META, "finalizers")
    errors = [invalid(path, name or "", fault) for name in each(finalizers, 2) for fault in qualified_name(name or "")]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        errors.append(invalid(path, finalizers, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"))
    return errors


def _kube_finalizers(metadata: ApiObject) -> list[FieldError]:
    """The additional errors of finalizers (pkg/apis/core/validation `validateKubeFinalizerName`)."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid((*_META, "finalizers", index), name or "", detail)
        for index, name in enumerate(metadata.get("finalizers") or [])
        if "/" not in (name or "") and name not in _STANDARD_FINALIZERS
    ]


def _no_new_finalizers(new: list[str], old: list[str]) -> list[FieldError]:
    extra = sorted({name or "" for name in new} - set(old))
    if not extra:
        return []
    shown = ", ".join(map(go_quote, extra))
    detail = "no new finalizers can be added if the object is being deleted, found new finalizers []string{"
    return [forbidden((*_META, "finalizers"), f"{detail}{shown}}}")]
