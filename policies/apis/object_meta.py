"""Validation of metadata (apimachinery `api/validation/objectmeta.go`). Objects must decode (apis/decode.py).

Map entries are checked by key; upstream's order is Go's random one. Not checked: managedFields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from policies.apis.field_errors import FieldError, forbidden, go_quote, invalid, required, too_long
from policies.apis.names import (
    dns1123_label,
    dns1123_subdomain,
    label_value,
    mask_trailing_dash,
    path_segment,
    qualified_name,
)
from policies.objects.fields import NOTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.findings import Path
    from policies.objects.fields import ApiObject

NameFaults = Callable[[str, bool], list[str]]
"""Name, whether it is a prefix (generateName) -> complaints."""

_ANNOTATION_BYTES: Final = 256 * 1024
_META: Final[Path] = ("metadata",)
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_IMMUTABLE: Final = ("name", "namespace", "uid")


def name_is_dns_subdomain(name: str, prefix: bool) -> list[str]:
    """Upstream `NameIsDNSSubdomain`."""
    return dns1123_subdomain(mask_trailing_dash(name) if prefix else name)


def name_is_path_segment(name: str, prefix: bool) -> list[str]:
    """Upstream `validatePathSegment`."""
    return path_segment(name, prefix=prefix)


def validate_object_meta(obj: ApiObject, *, namespaced: bool, name_faults: NameFaults) -> list[FieldError]:
    """All faults of an object's metadata (`ValidateObjectMeta`). A generated name counts as absent nowhere."""
    metadata: ApiObject = obj.get("metadata") or NOTHING
    errors = []
    generate_name: str = metadata.get("generateName") or ""
    name: str = metadata.get("name") or ""
    if generate_name:
        errors += [invalid((*_META, "generateName"), generate_name, f) for f in name_faults(generate_name, True)]
    if name:
        errors += [invalid((*_META, "name"), name, fault) for fault in name_faults(name, False)]
    elif not generate_name:
        errors.append(required((*_META, "name"), "name or generateName is required"))
    if namespaced:
        errors += _namespace(metadata.get("namespace") or "")
    generation = metadata.get("generation") or 0
    if generation < 0:
        errors.append(invalid((*_META, "generation"), generation, "must be greater than or equal to 0"))
    return errors + _common(metadata) + _finalizers(metadata.get("finalizers") or [])


def validate_object_meta_update(new: ApiObject, old: ApiObject) -> list[FieldError]:
    """All faults of a change of metadata (`ValidateObjectMetaUpdate`).

    Not checked: what the server itself fills in when it is absent (resourceVersion, times, generation).
    """
    metadata: ApiObject = new.get("metadata") or NOTHING
    before: ApiObject = old.get("metadata") or NOTHING
    errors = []
    if before.get("deletionTimestamp"):
        errors += _no_new_finalizers(metadata.get("finalizers") or [], before.get("finalizers") or [])
    for key in _IMMUTABLE:
        given, stored = metadata.get(key) or "", before.get(key) or ""
        if given and stored and given != stored:
            errors.append(invalid((*_META, key), given, "field is immutable"))
    return errors + _common(metadata)


def validate_labels(labels: Mapping[str, str], path: Path) -> list[FieldError]:
    """Faults of labels, or of a nodeSelector (`ValidateLabels`)."""
    errors = []
    for key, value in sorted(labels.items()):
        errors += [invalid(path, key, fault) for fault in qualified_name(key)]
        errors += [invalid(path, value, fault) for fault in label_value(value or "")]
    return errors


def _common(metadata: ApiObject) -> list[FieldError]:
    errors = validate_labels(metadata.get("labels") or {}, (*_META, "labels"))
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    path = (*_META, "annotations")
    for key in sorted(annotations):
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
    errors, controller = [], ""
    path = (*_META, "ownerReferences")
    for reference in references:
        errors += _owner(reference or {}, path)
        if (reference or {}).get("controller"):
            current = f"{reference.get('kind') or ''}/{reference.get('name') or ''}"
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {current}"
                )
                errors.append(invalid(path, [_owner_as_go(r or {}) for r in references], detail))
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
    errors = [invalid(path, name, fault) for name in finalizers for fault in qualified_name(name)]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        errors.append(invalid(path, finalizers, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"))
    return errors


def _no_new_finalizers(new: list[str], old: list[str]) -> list[FieldError]:
    extra = sorted(set(new) - set(old))
    if not extra:
        return []
    shown = ", ".join(map(go_quote, extra))
    detail = "no new finalizers can be added if the object is being deleted, found new finalizers []string{"
    return [forbidden((*_META, "finalizers"), f"{detail}{shown}}}")]
