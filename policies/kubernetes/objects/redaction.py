"""Redaction: an object with only the fields that forewarn reads, so that new fields are omitted by default.

read_fields.json has the fields by kind and type. A field is followed by the type of its object or of the objects in its
list, by `{}` if it is a map of values, or by `{Type` if it is a map of objects. A field without a type is a value or a
list of values. `tests/policies/objects/test_redaction.py` checks that forewarn reads no other field.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Final

from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS, listed_as_empty
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, group_kind

OMITTED: Final = "forewarn.dev/omitted"
"""Annotation of a redacted Pod template. Templates of one snapshot have the same value if their omitted fields are
equal, so that the ReplicaSet of a Deployment's template is found.
"""
_ANNOTATION_GROUPS: Final = (
    *("forewarn.dev/", "deployment.kubernetes.io/"),
    *("cluster.x-k8s.io/cluster-api-autoscaler-", "machine.openshift.io/cluster-api-autoscaler-"),
    *("capacity.cluster-autoscaler.kubernetes.io/", "cluster-autoscaler.kubernetes.io/"),
    *("delay-deletion.cluster-autoscaler.kubernetes.io/", "karpenter.sh/do-not-"),
)
"""Prefixes of annotations that forewarn reads: its own, and those of Deployments and autoscalers."""
_ANNOTATIONS: Final = frozenset(
    (
        *("batch.kubernetes.io/job-completion-index", "controller.kubernetes.io/pod-deletion-cost"),
        *("kubernetes.io/config.mirror", "kubernetes.io/config.source"),
        *("pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node"),
        *("resource.kubernetes.io/extended-resource-claim", "storage.alpha.kubernetes.io/migrated-plugins"),
        *("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"),
        *("machine.openshift.io/memoryMb", "machine.openshift.io/vCPU", "machine.openshift.io/GPU"),
        "volume.beta.kubernetes.io/storage-class",
    )
)
"""Annotations that Kubernetes' components read. Their values are names of classes, nodes and plugins, or numbers."""
_FORBIDDEN: Final = r"pods \"[^\"]*\" is forbidden: (exceeded quota|failed quota|maximum|minimum)"
_PREEMPTING: Final = r"[\w.-]{1,63}: preempting to accommodate a higher priority pod$"
_MESSAGES: Final = re.compile(rf"0/\d+ nodes are available|no nodes available|{_PREEMPTING}|{_FORBIDDEN}")
"""The beginnings of messages of conditions that forewarn reads: those of kube-scheduler, quotas and LimitRanges."""
_IDENTITIES: Final = ("volumeHandle", "diskURI", "monitors")
"""Fields of volumes that forewarn only compares, and that may contain a token: redaction writes a digest instead."""
_SALT: Final = secrets.token_bytes(16)
"""The salt of this process: digests of one snapshot are comparable, and those of two are not."""
_KINDS_OF_CONFIG_MAPS: Final = ("cluster-autoscaler-status", "cluster-autoscaler-priority-expander")
_VALUES: Final = (str, int, float, bool, type(None))

_Fields = Mapping[str, str | None]
"""Field -> its type, with `{` in front if the field is a map; None for a value."""


def _load() -> tuple[Mapping[str, str], Mapping[str, _Fields]]:
    with open(os.path.join(os.path.dirname(__file__), "read_fields.json"), encoding="utf-8") as file:
        data = json.load(file)
    types = {
        name: {field: of or None for field, _, of in (each.partition(":") for each in fields.split())}
        for name, fields in data["types"].items()
    }
    return data["kinds"], types


_KINDS, _TYPES = _load()
_NAMES: Final = frozenset(field for fields in _TYPES.values() for field in fields) - {"image"}
"""The names of all fields that a redacted Pod template may have; `image` only in volumes."""
_MAPS: Final = frozenset(field for fields in _TYPES.values() for field, of in fields.items() if of == "{}")
"""The names of fields that are maps of values."""
_OBJECT: Final = {"metadata": "ObjectMeta"}


def redacted(obj: ApiObject) -> dict[str, Any]:
    """Return an object of a cluster with only the fields that forewarn reads."""
    head = {key: obj[key] for key in ("apiVersion", "kind") if isinstance(obj.get(key), str)}
    if listed_as_empty(obj):
        return head | {"items": []}
    kind = group_kind(obj)
    result = head | _fields_of(obj, _TYPES[_KINDS[kind]] if kind in _KINDS else _OBJECT)
    if kind == "/ConfigMap" and at(obj, "metadata", "name") not in _KINDS_OF_CONFIG_MAPS:
        result.pop("data", None)
    path = POD_TEMPLATE_PATHS.get(kind)
    if path is not None and isinstance(template := at(result, *path), dict):
        _mark(template, at(obj, *path))
    return result


def is_omitted(name: str, key: str) -> bool:
    """Report whether redaction omits the field `key` of the object in the field `name` of a Pod template."""
    return name == "annotations" or (name not in _MAPS and key not in _NAMES)


def redacted_template(template: ApiObject) -> dict[str, Any]:
    """Return a Pod template with only the fields that forewarn reads."""
    return _fields_of(template, _TYPES["Template"])


def _fields_of(obj: ApiObject, fields: _Fields) -> dict[str, Any]:
    return dict(_redacted_items(obj, fields))


def _redacted_items(obj: ApiObject, fields: _Fields) -> Iterator[tuple[str, Any]]:
    for key, value in obj.items():
        if key == "annotations" and fields is _TYPES["ObjectMeta"]:
            yield key, dict(filter(_is_read, value.items())) if isinstance(value, Mapping) else {}
        elif key in fields and key in _IDENTITIES:
            yield key, _digest(value)
        elif key in fields and not (key == "message" and not _is_known(value)):
            yield key, _value(value, fields[key])


def _digest(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_digest, value)]
    return _digest_of(value) if isinstance(value, str) else None


def _digest_of(text: str) -> str:
    return hmac.new(_SALT, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()[:32]


def _is_read(annotation: tuple[str, Any]) -> bool:
    name, value = annotation
    return isinstance(value, str) and (name.startswith(_ANNOTATION_GROUPS) or name in _ANNOTATIONS)


def _is_known(message: Any) -> bool:
    return isinstance(message, str) and _MESSAGES.match(message) is not None


def _value(value: Any, kind: str | None) -> Any:
    """Return the value of a field of this type; an empty value if the type is wrong."""
    if isinstance(value, list):
        return [_value(item, kind) for item in value if isinstance(item, _VALUES) == (kind is None)]
    if isinstance(value, Mapping):
        if kind is None:
            return {}
        if kind.startswith("{"):
            return {key: _value(item, kind[1:].strip("}") or None) for key, item in value.items()}
        return _fields_of(value, _TYPES[kind])
    return value if kind is None or value is None else {}


def _mark(template: dict[str, Any], original: ApiObject) -> None:
    """Set the annotation OMITTED of a template, if fields are omitted."""
    about = [at(original, "metadata", "annotations"), at(original, "spec")]
    if about != [at(template, "metadata", "annotations"), at(template, "spec")]:
        metadata = template["metadata"] = dict(template.get("metadata") or {})
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            OMITTED: _digest_of(json.dumps(about, sort_keys=True)),
        }
