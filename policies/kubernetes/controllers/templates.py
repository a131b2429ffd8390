"""Functions that create Pods from templates as controllers do, and that identify templates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.copies import replace, shared_labels
from forewarn.policies.base.metering import charge
from forewarn.policies.kubernetes.kinds.registry import POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    mapping,
    ref_of,
    string_map,
)
from forewarn.policies.kubernetes.objects.storage import BETA_STORAGE_CLASS, PersistentVolumeClaim

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.controllers.view import Key, View
    from forewarn.policies.kubernetes.objects.pod import Owner, Pod

TEMPLATE_HASH: Final = "pod-template-hash"
CONTROLLER_REVISION: Final = "controller-revision-hash"
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet of upstream's hashes (`SafeEncodeString`)."""
_HASH_LENGTH: Final = 10


def template_hash(template: ApiObject) -> str:
    """Return a hash in upstream's format; upstream hashes Go's memory, so the letters differ."""
    canonical = json.dumps(without_hash(template), sort_keys=True, separators=(",", ":"), default=dict)
    digest = sha256(canonical.encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_HASH_LENGTH])


def replica_set_name(deployment: ApiObject) -> str:
    """Return the name of the ReplicaSet that a Deployment creates. Source: `getNewReplicaSet`."""
    return f"{ref_of(deployment).name}-{template_hash(template_of(deployment))}"


def without_hash(template: ApiObject) -> ApiObject:
    """Return the template without `pod-template-hash`, which the controller adds. Source: `EqualIgnoreHash`.

    A null label is the empty string, as in the Pods of the template.
    """
    labels = at(template, "metadata", "labels")
    if not isinstance(labels, Mapping) or (TEMPLATE_HASH not in labels and None not in labels.values()):
        return template
    rest = {key: "" if value is None else value for key, value in labels.items() if key != TEMPLATE_HASH}
    return {**template, "metadata": {**mapping(template, "metadata"), "labels": rest}}


def pod_of_template(view: View, key: Key, obj: ApiObject, template: ApiObject) -> Pod:
    """Return the template's Pod without name, after admission. Raises InvalidObject. Source: `GetPodFromTemplate`."""
    return view.admit(template, lambda: made_of(key[1], obj, template))


def metadata_below(
    owner: ApiObject, namespace: str, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """Return the metadata of a new object. `owner`: its controller."""
    ref, uid = ref_of(owner), at(owner, "metadata", "uid")
    reference = {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name, "controller": True}
    return {
        "namespace": namespace,
        "name": name,
        "labels": dict(labels),
        "annotations": dict(annotations),
        "ownerReferences": [{**reference, "uid": uid} if uid else reference],
    }


def made_of(namespace: str, owner: ApiObject, template: ApiObject) -> dict[str, Any]:
    """Return a Pod of this template as an API object without a name. `owner`: its controller."""
    labels, annotations = (string_map(template, "metadata", name) for name in ("labels", "annotations"))
    metadata = metadata_below(owner, namespace, "", labels, annotations)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": at(template, "spec") or NOTHING}


def labelled(pod: Pod, labels: Mapping[str, str], name: str = "") -> Pod:
    """Return the Pod with additional labels, and with the name `name` unless ""."""
    return replace(pod, name=name or pod.name, labels=shared_labels({**pod.labels, **labels}))


def claim_of_template(
    view: View, namespace: str, name: str, template: ApiObject, owner: Owner | None
) -> PersistentVolumeClaim:
    """Return the claim `name` of a template after admission. Raises InvalidObject."""
    charge()
    metadata = {**mapping(template, "metadata"), "namespace": namespace, "name": name, "ownerReferences": []}
    spec = mapping(template, "spec")
    obj = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    return replace(admitted_claim(obj, view.default_storage_class()), owner=owner)


def admitted_claim(obj: ApiObject, default_class: str) -> PersistentVolumeClaim:
    """Return the claim after admission. Raises InvalidObject. Source: admission plugin DefaultStorageClass."""
    claim = PersistentVolumeClaim.from_api(obj)
    annotated = BETA_STORAGE_CLASS in string_map(obj, "metadata", "annotations")
    names_class = annotated or at(obj, "spec", "storageClassName") is not None
    return claim if names_class else replace(claim, storage_class=default_class)


def template_of(obj: ApiObject) -> ApiObject:
    """Return the Pod template of a workload."""
    return mapping(obj, *POD_TEMPLATE_PATHS.get(group_kind(obj), ("spec", "template")))


_MAX_DIGITS: Final = 18
"""Maximum digits of a percentage, which upstream's Atoi reads in 64 bits."""


def scaled(obj: ApiObject, path: tuple[str, ...], total: int, *, up: bool, default: int | str = 0) -> int:
    """Return the value of a field: a number, or a percentage of `total`, rounded up or down; never below 0. Raises
    InvalidObject.

    `default`: the value of an absent field. Source: `GetScaledValueFromIntOrPercent`.
    """
    value: Any = at(obj, *path)
    value = default if value is None else value
    if isinstance(value, int) and not isinstance(value, bool):
        return max(value, 0)
    number = value.removesuffix("%") if isinstance(value, str) and value.endswith("%") else ""
    number = number.lstrip("0") or number[:1]
    if not (number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS):
        raise InvalidObject("must be a whole number or a percentage", path, ref_of(obj))
    share = int(number) * total
    return -(-share // 100) if up else share // 100
