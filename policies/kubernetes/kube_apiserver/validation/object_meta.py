"""Validation of metadata (apimachinery `api/validation/objectmeta.go`). The object must be decodable (decode.py).

Map entries are checked by key; upstream's order is random. managedFields are not checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from forewarn.policies.base.findings import Path, cut, field_path
from forewarn.policies.base.light import NamedTuple, later
from forewarn.policies.base.metering import charge, charging, meter
from forewarn.policies.kubernetes.objects.fields import NOTHING, ApiObject, at

_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_ESCAPES |= {"\\": r"\\", '"': r"\""}


class FieldError(NamedTuple):
    """One error of an object; `str()` is the text of upstream's field.Error.

    `field`: upstream's name of the field if it differs from `path` (map keys: `spec.hard[cpu]`). `fix`: forewarn's
    advice, or "".
    """

    path: Path
    text: str
    field: str = ""
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.field or field_path(self.path)}: {self.text}"


class Named(str):
    """A text whose Go type is not string (`core.ResourceName`); field errors print it as JSON, not in quotes."""

    __slots__ = ()


def keyed(path: Path, key: str) -> str:
    """Return the path of an entry in a map, for example `spec.hard[cpu]`."""
    return f"{field_path(path)}[{key}]"


def required(path: Path, detail: str = "", field: str = "") -> FieldError:
    return FieldError(path, _append_detail("Required value", detail), field)


def forbidden(path: Path, detail: str) -> FieldError:
    """Return the error of a value that is well-formed, but not permitted here."""
    return FieldError(path, _append_detail("Forbidden", detail))


MAX_FAULTS: Final = 100
"""Maximum number of errors that are reported about one part of an object."""
_CHARACTERS: Final = 2_048
"""Maximum characters of a value in a message; upstream shows the whole value."""


def invalid(path: Path, value: object, detail: str, field: str = "") -> FieldError:
    """Return the error of a malformed value. Text is printed as Go quotes it, other values as JSON."""
    return FieldError(path, _append_detail(f"Invalid value: {_shown(value)}", detail), field)


def duplicate(path: Path, value: object) -> FieldError:
    return FieldError(path, f"Duplicate value: {_shown(value)}")


def not_found(path: Path, value: object) -> FieldError:
    return FieldError(path, f"Not found: {_shown(value)}")


def not_supported(path: Path, value: str, supported: Sequence[str], field: str = "") -> FieldError:
    """Return the error of a value that is not in the enumeration."""
    detail = f"supported values: {', '.join(go_quote(v) for v in supported)}"
    return FieldError(path, _append_detail(f"Unsupported value: {go_json(value)}", detail), field)


def too_many(path: Path, count: int, limit: int) -> FieldError:
    return FieldError(path, f"Too many: {count}: must have at most {limit} {'item' if limit == 1 else 'items'}")


def too_long(path: Path, limit: int) -> FieldError:
    """Return the error of a text with too many bytes."""
    return FieldError(path, f"Too long: may not be more than {limit} bytes")


def aggregate(errors: Iterable[FieldError | str]) -> str:
    """Return the errors as one text without duplicates; several are in brackets (`utilerrors.NewAggregate`)."""
    texts = list(dict.fromkeys(map(str, islice(errors, MAX_FAULTS))))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def go_quote(text: str) -> str:
    return f'"{"".join(map(_escaped, text))}"'


def go_json(value: object) -> str:
    """Return a value as Go's json.Marshal prints it, cut to the maximum length in a message."""
    text = ""
    for part in _ENCODER.iterencode(value):
        text += part
        if len(text) > _CHARACTERS:
            break
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return cut(text, _CHARACTERS)


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)


def _shown(value: object) -> str:
    charge(4)
    if isinstance(value, str) and not isinstance(value, Named):
        return go_quote(cut(value, _CHARACTERS))
    return go_json(value)


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _append_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_PORT: Final = "[-a-z0-9]+"
_MATCH: Final = {form: later(form, re.ASCII) for form in (_LABEL, _SUBDOMAIN, _KEY, _VALUE, _PORT)}

_LABEL_WORDS: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_WORDS: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_WORDS: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_WORDS: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_EXAMPLES: Final = ("MyName", "my.name", "123-abc")


def dns1123_label(name: str) -> list[str]:
    """Return the errors of a DNS label (namespaces, containers)."""
    faults = _too_long(name, 63)
    if not _MATCH[_LABEL].fullmatch(name):
        has_dots = _MATCH[_SUBDOMAIN].fullmatch(name)
        faults.append("must not contain dots" if has_dots else _form(_LABEL_WORDS, _LABEL, "my-name", "123-abc"))
    return faults


def dns1123_subdomain(name: str, unit: str = "characters") -> list[str]:
    """Return the errors of a DNS subdomain (most objects). `unit`: see `_too_long`."""
    faults = _too_long(name, 253, unit)
    if not _MATCH[_SUBDOMAIN].fullmatch(name):
        faults.append(_form(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com"))
    return faults


def qualified_name(key: str) -> list[str]:
    """Return the errors of a label key, resource name or finalizer: `[prefix/]name`."""
    prefix, slash, name = key.rpartition("/")
    if key.count("/") > 1:
        return [f"a valid label key {KEY_FORM}"]
    faults = []
    if slash:
        faults = [f"prefix part {f}" for f in (dns1123_subdomain(prefix, "bytes") if prefix else ["must be non-empty"])]
    if not name:
        faults.append("name part must be non-empty")
    faults += [f"name part {fault}" for fault in _too_long(name, 63, "bytes")]
    if not _MATCH[_KEY].fullmatch(name):
        faults.append("name part " + _form(_KEY_WORDS, _KEY, *_KEY_EXAMPLES))
    return faults


def label_value(value: str) -> list[str]:
    """Return the errors of a label value."""
    faults = _too_long(value, 63, "bytes")
    if not _MATCH[_VALUE].fullmatch(value):
        faults.append(_form(_VALUE_WORDS, _VALUE, "MyValue", "my_value", "12345"))
    return faults


def port_name(name: str) -> list[str]:
    """Return the errors of the name of a port (`IsValidPortName`)."""
    faults = _too_long(name, 15)
    if not _MATCH[_PORT].fullmatch(name):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= char <= "z" for char in name):
        faults.append("must contain at least one letter (a-z)")
    if "--" in name:
        faults.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return faults


def path_segment(name: str, *, prefix: bool = False) -> list[str]:
    """Return the errors of a name as part of a URL path."""
    if name in (".", "..") and not prefix:
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


def mask_trailing_dash(prefix: str) -> str:
    """Return a generateName as upstream validates it: without a trailing dash, which upstream replaces by a letter."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _too_long(text: str, limit: int, unit: str = "characters") -> list[str]:
    """Return the error of a text with too many bytes. `unit`: "characters" in names, "bytes" in labels, as upstream."""
    too_long = len(text.encode(errors="surrogatepass")) > limit
    return [f"must be no more than {limit} {unit}"] if too_long else []


def _form(words: str, form: str, *examples: str) -> str:
    valid = " or ".join(f"{example!r}, " for example in examples)
    return f"{words} (e.g. {valid}regex used for validation is '{form}')"


KEY_FORM: Final = _form(_KEY_WORDS, _KEY, *_KEY_EXAMPLES) + (
    " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)


_ANNOTATION_BYTES: Final = 256 * 1024
_META: Final[Path] = ("metadata",)
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS: Final = ("kubernetes", _ORPHAN, _FOREGROUND)


def validate_object_meta(
    obj: ApiObject,
    *,
    namespaced: bool,
    own_generation: bool = False,
    name_faults: Callable[[str], list[str]] = dns1123_subdomain,
) -> list[FieldError]:
    """Return all errors in a new object's metadata (`ValidateObjectMeta`).

    `own_generation`: whether to check the generation that the client sends, because the server does not set it.
    `name_faults`: returns the errors of a name.
    """
    errors = _validate(obj, namespaced, name_faults, lambda prefix: name_faults(mask_trailing_dash(prefix)))
    generation = at(obj, "metadata", "generation") or 0
    if own_generation and generation < 0:
        errors.append(invalid((*_META, "generation"), generation, "must be greater than or equal to 0"))
    metadata: ApiObject = obj.get("metadata") or NOTHING
    return errors + _common(metadata) + _finalizers(metadata.get("finalizers") or []) + _kube_finalizers(metadata)


def validate_object_meta_update(new: ApiObject, old: ApiObject, *, namespaced: bool) -> list[FieldError]:
    """Return all errors of a change of metadata (registry/rest `validateCommonFields`, `ValidateObjectMetaUpdate`).

    Not checked: absent fields that the server sets itself (resourceVersion, times, generation).
    """
    metadata: ApiObject = new.get("metadata") or NOTHING
    before: ApiObject = old.get("metadata") or NOTHING
    errors = _validate(new, namespaced, path_segment, lambda prefix: path_segment(prefix, prefix=True))
    errors += _common(metadata) + _finalizers(metadata.get("finalizers") or [])
    if before.get("deletionTimestamp"):
        errors += _no_new_finalizers(metadata.get("finalizers") or [], before.get("finalizers") or [])
    for key in ("name", "namespace", "uid"):
        given, stored = metadata.get(key) or "", before.get(key) or ""
        if given and stored and given != stored:
            errors.append(invalid((*_META, key), given, "field is immutable"))
    return errors + _kube_finalizers(metadata)


def validate_labels(labels: Mapping[str, str], path: Path) -> list[FieldError]:
    """Return the errors of labels, or of a nodeSelector (`ValidateLabels`)."""
    errors: list[FieldError] = []
    work = meter()
    for key, value in sorted(labels.items()):
        if len(errors) >= MAX_FAULTS:
            break
        work.charge(3)
        here, field = (*path, key), field_path(path)
        errors += [invalid(here, key, fault, field) for fault in qualified_name(key)]
        errors += [invalid(here, value, fault, field) for fault in label_value(value or "")]
    return errors


def _validate(
    obj: ApiObject, namespaced: bool, name_faults: Callable[[str], list[str]], prefix_faults: Callable[[str], list[str]]
) -> list[FieldError]:
    """Return the errors of names and namespace.

    `name_faults`, `prefix_faults`: check the name, and generateName. A missing name is not an error if there is a
    generateName, because the server generates the name.
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
    errors += validate_annotations(metadata.get("annotations") or {}, (*_META, "annotations"))
    return errors + _owners(metadata.get("ownerReferences") or [])


def validate_annotations(annotations: Mapping[str, str], path: Path) -> list[FieldError]:
    """Return the errors of annotations (`ValidateAnnotations`)."""
    errors = [
        invalid(path, key, fault) for key in charging(sorted(annotations), 2) for fault in qualified_name(key.lower())
    ]
    size = sum(len((text or "").encode(errors="surrogatepass")) for entry in annotations.items() for text in entry)
    return errors + ([too_long(path, _ANNOTATION_BYTES)] if size > _ANNOTATION_BYTES else [])


def _namespace(namespace: str) -> list[FieldError]:
    path = (*_META, "namespace")
    if not namespace:
        return [required(path)]
    return [invalid(path, namespace, fault) for fault in dns1123_label(namespace)]


def _owners(references: list[Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = ""
    path = (*_META, "ownerReferences")
    for reference in charging(references, 3):
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
        errors.append(invalid((*path, "apiVersion"), reference.get("apiVersion") or "", "version must not be empty"))
    errors += [invalid((*path, k), "", "must not be empty") for k in ("kind", "name", "uid") if not reference.get(k)]
    if (group, version, reference.get("kind")) == ("", "v1", "Event") and not slash:
        errors.append(invalid(path, _owner_as_go(reference), "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _owner_as_go(reference: ApiObject) -> dict[str, Any]:
    """Return an owner reference with its fields in the order of the Go type."""
    always = {key: reference.get(key) or "" for key in ("apiVersion", "kind", "name", "uid")}
    given = {k: reference[k] for k in ("controller", "blockOwnerDeletion") if reference.get(k) is not None}
    return always | given


def _finalizers(finalizers: list[str]) -> list[FieldError]:
    path = (*_META, "finalizers")
    errors = [
        invalid(path, name or "", fault) for name in charging(finalizers, 2) for fault in qualified_name(name or "")
    ]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        errors.append(invalid(path, finalizers, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"))
    return errors


def _kube_finalizers(metadata: ApiObject) -> list[FieldError]:
    """Return the additional errors of finalizers (pkg/apis/core/validation `validateKubeFinalizerName`)."""
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
