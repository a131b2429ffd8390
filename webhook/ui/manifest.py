"""Changes of a manifest on the Predict page: replicas, class and requests of one of its objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import yaml

from forewarn.policies.kinds.registry import POD, POD_TEMPLATE_PATHS
from forewarn.policies.manifests import Fault, items_of, values
from forewarn.policies.objects.fields import at, group_kind
from forewarn.webhook.ui.processes import Unanswered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from forewarn.policies.documents.ui import EditableObject

STDIN: Final = "<stdin>"
NEW_CLASS: Final = "forewarn-ui-new-class"
"""The name of a PriorityClass that only the page has."""
_REPLICAS: Final = {"Deployment": "replicas", "StatefulSet": "replicas", "ReplicaSet": "replicas", "Job": "parallelism"}


def edited(text: str, edits: Mapping[str, Any]) -> tuple[str, list[EditableObject]]:
    """The manifest with the changes, and the objects that can be changed. Raises Unanswered.

    `edits`: `object` (number of an object), `replicas`, `priorityClass`, `value` and `policy` (of a new PriorityClass),
    `cpu` and `memory`; a missing one changes nothing. A manifest without changes stays as it is written; otherwise it
    loses its comments.
    """
    try:
        documents = [value for value, _ in values(text.encode(), STDIN)]
    except Fault as fault:
        raise Unanswered(f"line {fault.start}: {fault.message}") from None
    except (ValueError, RecursionError) as fault:
        raise Unanswered(str(fault)) from None
    found = list(_objects(documents))
    place = edits.get("object", 0)
    changes = {key: value for key, value in edits.items() if key != "object" and value not in (None, "")}
    if changes and isinstance(place, int) and 0 <= place < len(found):
        documents = json.loads(json.dumps(documents, default=str))  # plain, and without aliases
        found = list(_objects(documents))
        _change(found[place], changes)
        if "value" in changes:
            documents.append(_new_class(changes["value"], changes.get("policy", "PreemptLowerPriority")))
        text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)
    return text, [_editable(obj) for obj in found]


def _objects(documents: list[Any]) -> Iterator[dict[str, Any]]:
    for document in documents:
        members = items_of(document)
        if members is not None:
            yield from _objects(list(members))
        elif isinstance(document, dict) and _spec_path(document) is not None:
            yield document


def _spec_path(obj: dict[str, Any]) -> tuple[str, ...] | None:
    kind = group_kind(obj)
    if kind == POD:
        return ("spec",)
    path = POD_TEMPLATE_PATHS.get(kind)
    return None if path is None else (*path, "spec")


def _spec(obj: dict[str, Any]) -> dict[str, Any]:
    found = at(obj, *(_spec_path(obj) or ()))
    return found if isinstance(found, dict) else {}


def _container(obj: dict[str, Any]) -> dict[str, Any]:
    found = _spec(obj).get("containers")
    first = found[0] if isinstance(found, list) and found else None
    return first if isinstance(first, dict) else {}


def _new_class(value: int, policy: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": NEW_CLASS},
        "value": value,
        "preemptionPolicy": policy,
    }


def _change(obj: dict[str, Any], changes: dict[str, Any]) -> None:
    spec, field = _spec(obj), _REPLICAS.get(str(obj.get("kind")))
    if "replicas" in changes and field and isinstance(obj.get("spec"), dict):
        obj["spec"][field] = changes["replicas"]
    name = NEW_CLASS if "value" in changes else changes.get("priorityClass")
    if name:
        spec.pop("priority", None)
        spec["priorityClassName"] = name
    container = _container(obj)
    for name in ("cpu", "memory"):
        if name in changes and container:
            resources = container.setdefault("resources", {})
            if isinstance(resources, dict) and isinstance(resources.setdefault("requests", {}), dict):
                resources["requests"][name] = changes[name]


def _editable(obj: dict[str, Any]) -> EditableObject:
    field = _REPLICAS.get(str(obj.get("kind")))
    replicas = at(obj, "spec", field) if field else None
    requests = at(_container(obj), "resources", "requests")
    requests = requests if isinstance(requests, dict) else {}
    return {
        "kind": str(obj.get("kind")),
        "namespace": str(at(obj, "metadata", "namespace") or "default"),
        "name": str(at(obj, "metadata", "name") or at(obj, "metadata", "generateName") or ""),
        "replicas": (replicas if isinstance(replicas, int) else 1) if field else None,
        "priorityClass": str(_spec(obj).get("priorityClassName") or ""),
        "container": str(_container(obj).get("name") or ""),
        "cpu": str(requests.get("cpu", "")),
        "memory": str(requests.get("memory", "")),
    }
