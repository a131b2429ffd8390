"""Tables of the fields of Pods and Pod templates that determine scheduling, names, restarts and times.

Source: pkg/apis/core/validation/validation.go, `ValidatePodSpec`, `ValidatePodTemplateSpec`. In containers, only names,
images, ports, probes, lifecycle handlers, volumeMounts and sources of variables are checked. Not checked: sources of
volumes, resource claims, security contexts, DNS and host settings, and resources (pod.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Path, field_path
from forewarn.policies.base.light import later
from forewarn.policies.base.metering import charging
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kube_apiserver.validation import tables
from forewarn.policies.kubernetes.kube_apiserver.validation.object_meta import (
    FieldError,
    dns1123_label,
    dns1123_subdomain,
    duplicate,
    forbidden,
    invalid,
    keyed,
    label_value,
    not_found,
    not_supported,
    port_name,
    qualified_name,
    required,
    validate_annotations,
    validate_labels,
)
from forewarn.policies.kubernetes.objects.fields import (
    NOTHING,
    ApiObject,
    at,
    int64,
    list_at,
    mapping_at,
    objects_at,
    string_map,
    text_at,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.resources import ResourceList
    from forewarn.policies.kubernetes.releases.semantics import Semantics

_NO_EXECUTE: Final = "NoExecute"
_DECIMAL: Final = later(r"0|-?[1-9][0-9]*", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)
_INT64_DIGITS: Final = 20


def _toleration(toleration: ApiObject, path: Path, semantics: Semantics) -> Iterator[FieldError]:
    """Yield the errors of a toleration (`ValidateTolerations`)."""
    key, operator, value, effect = (toleration.get(name) or "" for name in ("key", "operator", "value", "effect"))
    field = field_path((*path, "operator"))
    if key:
        yield from tables.on_each(qualified_name)((*path, "key"), key)
    elif operator != "Exists":
        fault = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid((*path, "operator"), operator, fault)
    if toleration.get("tolerationSeconds") is not None and effect != _NO_EXECUTE:
        yield invalid((*path, "effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("", "Equal"):
        yield from (invalid((*path, "value"), value, fault, field) for fault in label_value(value))
    elif operator == "Exists":
        if value:
            yield invalid((*path, "value"), value, "value must be empty when `operator` is 'Exists'", field)
    elif operator not in ("Lt", "Gt") or not semantics.tolerations_compare:
        yield not_supported((*path, "operator"), operator, ("Equal", "Exists"))
    elif _DECIMAL.fullmatch(value) is None or len(value) > _INT64_DIGITS or int(value) not in _INT64:
        yield invalid((*path, "value"), value, "must be a decimal integer of 64 bits")
    if effect:
        yield from tables.supported("NoSchedule", "PreferNoSchedule", _NO_EXECUTE)((*path, "effect"), effect)


def _node_values(requirement: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    return tables.validate_label_values(requirement, path)


def _node_field(requirement: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    """Yield the errors of a requirement in matchFields (`ValidateNodeFieldSelectorRequirement`)."""
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield invalid((*path, "operator"), operator, "not a valid selector operator")
    elif len(values) != 1:
        fault = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required((*path, "values"), fault)
    if (key := requirement.get("key") or "") != "metadata.name":
        yield invalid((*path, "key"), key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from tables.on_each(dns1123_subdomain)((*path, "values", index), value or "")


def _node_selector(selector: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    if not selector.get("nodeSelectorTerms"):
        yield required((*path, "nodeSelectorTerms"), "must have at least one node selector term")


def _affinity_term(term: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    """Yield the errors of one term of Pod affinity (`validatePodAffinityTerm`)."""
    for index, namespace in enumerate(term.get("namespaces") or ()):
        field = field_path((*path, "namespace"))
        faults = dns1123_label(namespace or "")
        yield from (invalid((*path, "namespaces", index), namespace, fault, field) for fault in faults)
    yield from _label_keys(term, path)


def _label_keys(term: ApiObject, path: Path) -> Iterator[FieldError]:
    """Yield the errors of matchLabelKeys and mismatchLabelKeys (`ValidateMatchLabelKeysAndMismatchLabelKeys`)."""
    selector: ApiObject | None = term.get("labelSelector")
    matching, other = ([key or "" for key in term.get(name) or ()] for name in _LABEL_KEYS)
    for name, keys in zip(_LABEL_KEYS, (matching, other), strict=True):
        if keys and selector is None:
            yield forbidden((*path, name), "must not be specified when labelSelector is not set")
        for index, key in enumerate(keys if selector is not None else ()):
            yield from tables.on_each(qualified_name)((*path, name, index), key)
    yield from _repeated_keys(matching, selector or {}, path)
    others = {*other}
    for index, key in enumerate(matching):
        if key in others:
            yield invalid((*path, "matchLabelKeys", index), key, "exists in both matchLabelKeys and mismatchLabelKeys")


def _repeated_keys(keys: Sequence[str], selector: ApiObject, path: Path) -> Iterator[FieldError]:
    """Yield the errors of matchLabelKeys that a selector contains twice: as given, and as merged."""
    positions, seen = {key: index for index, key in enumerate(keys)}, {*string_map(selector, "matchLabels")}
    for expression in selector.get("matchExpressions") or ():
        key = (expression or {}).get("key") or ""
        if key in positions and key in seen:
            index = positions[key]
            fault = "exists in both matchLabelKeys and labelSelector"
            yield invalid((*path, "matchLabelKeys", index), key, fault, field_path((*path, index)))
        seen.add(key)


_LABEL_KEYS: Final = ("matchLabelKeys", "mismatchLabelKeys")


def _spread_constraint(constraint: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    action = constraint.get("whenUnsatisfiable") or ""
    if (domains := constraint.get("minDomains")) is not None and action != "DoNotSchedule":
        fault = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid((*path, "minDomains"), domains, fault)
    yield from _label_keys({**constraint, "mismatchLabelKeys": None}, path)


def _pod_spec(spec: ApiObject, path: Path, semantics: Semantics) -> Iterator[FieldError]:
    """Yield the errors of lists in a Pod spec."""
    if not spec.get("containers"):
        yield required((*path, "containers"))
    yield from _containers(spec, path)
    yield from _running_containers(spec, path, semantics)
    here, gates = (*path, "schedulingGates"), spec.get("schedulingGates") or ()
    for index, gate in enumerate(gates):
        name = (gate or {}).get("name") or ""
        yield from tables.validate_key((*here, index, "name"), name, field_path((*here, index)))
    yield from (duplicate((*here, index), name) for index, name in tables.repeated(gates, "name"))
    yield from _repeated_constraints(spec.get("topologySpreadConstraints") or (), (*path, "topologySpreadConstraints"))


def _containers(spec: ApiObject, path: Path) -> Iterator[FieldError]:
    """Yield the errors of container names that conflict, and of missing images."""
    names, volumes = set[str](), {text_at(volume, "name") for volume in list_at(spec, "volumes")}
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(charging(objects_at(spec, kind))):
            here, name = (*path, kind, index), text_at(container, "name")
            if container.get("image") is None:  # tools fill in an empty image
                yield required((*here, "image"))
            if name in names:
                yield duplicate((*here, "name"), name)
            names.add(name)
            for position, mount in enumerate(objects_at(container, "volumeMounts")):
                if (volume := text_at(mount, "name")) and volume not in volumes:
                    yield not_found((*here, "volumeMounts", position, "name"), volume)


def _running_containers(spec: ApiObject, path: Path, semantics: Semantics) -> Iterator[FieldError]:
    """Yield the errors of probes and lifecycle handlers, which other init containers than sidecars must not have."""
    period = int64(spec, "terminationGracePeriodSeconds")
    period = _GRACE_PERIOD if period is None else 1 if period < 0 and path == _OF_PODS else period
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(charging(list_at(spec, kind))):
            here, fields = (*path, kind, index), [name for name in _RUNNING.fields if at(container, name) is not None]
            faults = [*tables.validate_struct(_RUNNING, container, here, semantics)] if fields else ()
            if kind == "containers" or at(container, "restartPolicy") == "Always":
                yield from faults
                yield from _sleeps(
                    mapping_at(container, "lifecycle") if fields else NOTHING, period, (*here, "lifecycle")
                )
            else:
                fault = "may not be set for init containers without restartPolicy=Always"
                yield from (forbidden((*here, name), fault) for name in fields)


_GRACE_PERIOD: Final = 30
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_OF_PODS: Final = ("spec",)
"""The path of the spec of Pods, in which kube-apiserver sets a negative period to 1; not in templates."""


def _sleeps(lifecycle: ApiObject, period: int, path: Path) -> Iterator[FieldError]:
    """Yield the errors of handlers that sleep (`validateSleepAction`)."""
    for name in ("postStart", "preStop"):
        handler = mapping_at(lifecycle, name)
        seconds = at(handler, "sleep", "seconds") or 0
        if [each for each in _HANDLERS if handler.get(each) is not None] == ["sleep"] and not 0 <= seconds <= period:
            fault = f"must be non-negative and less than terminationGracePeriodSeconds ({period})"
            place = (*path, name, "sleep")
            yield invalid((*place, "seconds"), seconds, fault, field_path(place))


def _running_container(container: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    for probe in ("livenessProbe", "startupProbe"):
        if (threshold := at(container, probe, "successThreshold") or 1) != 1:
            yield invalid((*path, probe, "successThreshold"), threshold, "must be 1")
    if (period := at(container, "readinessProbe", "terminationGracePeriodSeconds")) is not None:
        place = (*path, "readinessProbe", "terminationGracePeriodSeconds")
        yield invalid(place, period, "must not be set for readinessProbes")


def _container(container: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    """Yield the errors of a container's ports, mounts and variables."""
    for index, name in tables.repeated(container.get("ports") or (), "name"):
        yield duplicate((*path, "ports", index, "name"), name)
    for index, place in tables.repeated(container.get("volumeMounts") or (), "mountPath"):
        yield invalid((*path, "volumeMounts", index, "mountPath"), place, "must be unique")
    for index, variable in enumerate(container.get("env") or ()):
        if at(variable, "value") and at(variable, "valueFrom"):
            yield invalid((*path, "env", index, "valueFrom"), "", "may not be specified when `value` is not empty")


def _port(path: Path, port: int | str) -> Iterable[FieldError]:
    """Return the errors of a port number or name (`ValidatePortNumOrName`)."""
    return (tables.on_each(port_name) if isinstance(port, str) else tables.check_range(1, 65_535))(path, port)


def _handler(names: Sequence[str], holder: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    """Yield the errors of handlers, of which a probe or a lifecycle event has one (`validateHandler`)."""
    handlers = [name for name in names if holder.get(name) is not None]
    if not handlers:
        yield required(path, "must specify a handler type")
    yield from (forbidden((*path, name), "may not specify more than 1 handler type") for name in handlers[1:])


def _repeated_constraints(constraints: Sequence[ApiObject | None], path: Path) -> Iterator[FieldError]:
    """Yield the errors of constraints that a later one repeats (`ValidateSpreadConstraintNotRepeat`)."""
    keys = [
        tuple((each or {}).get(name) or "" for name in ("topologyKey", "whenUnsatisfiable")) for each in constraints
    ]
    last = {key: index for index, key in enumerate(keys)}
    for index, key in enumerate(keys):
        if last[key] > index:
            here = (*path, index)
            text = f"Duplicate value: {key[0]} with whenUnsatisfiable {key[1]}"
            yield FieldError(here, text, f"{field_path(here)}.{{topologyKey, whenUnsatisfiable}}")


def _overhead(path: Path, amounts: ResourceList) -> list[FieldError]:
    """Return the errors of a Pod's overhead, which must be valid as limits (`validateOverhead`)."""
    # Imported here, so that the linter starts faster: few Pods have an overhead.
    from forewarn.policies.kubernetes.kube_apiserver.validation.resources import validate_requirements

    return validate_requirements(amounts, {}, path)


def _template(template: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    """Yield the errors of labels and annotations. Upstream's names of these fields omit `metadata`."""
    for name, validate in (("labels", validate_labels), ("annotations", validate_annotations)):
        entries, here = string_map(template, "metadata", name), (*path, "metadata", name)
        yield from (fault._replace(field=field_path((*path, name))) for fault in validate(entries, here))
    annotations, node = string_map(template, "metadata", "annotations"), at(template, "spec", "nodeName")
    yield from _pod_annotations(annotations, node, (*path, "metadata", "annotations"), (*path, "annotations"))


_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_MIRROR: Final = "kubernetes.io/config.mirror"
_INT32_DIGITS: Final = 20


def _pod_annotations(annotations: Mapping[str, str], node: str | None, path: Path, field: Path) -> Iterator[FieldError]:
    """Yield the errors of annotations with a meaning (`ValidatePodSpecificAnnotations`). `field`: upstream's name."""
    if (mirror := annotations.get(_MIRROR)) is not None and not node:
        fault = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid((*path, _MIRROR), mirror, fault, keyed(field, _MIRROR))
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_int32(cost):
        yield invalid((*path, _DELETION_COST), cost, "must be a 32bit integer", keyed(field, _DELETION_COST))


def _is_int32(cost: str) -> bool:
    is_number = re.fullmatch(r"0|-[0-9]+|[1-9][0-9]*", cost, re.ASCII) is not None
    return is_number and len(cost) <= _INT32_DIGITS and -(2**31) <= int(cost) < 2**31


def _pod(pod: ApiObject, path: Path, _: Semantics) -> Iterator[FieldError]:
    """Yield the errors of a new Pod (`ValidatePodCreate`)."""
    annotations = (*path, "metadata", "annotations")
    yield from _pod_annotations(
        string_map(pod, "metadata", "annotations"), at(pod, "spec", "nodeName"), annotations, annotations
    )
    if at(pod, "spec", "nodeName") and at(pod, "spec", "schedulingGates"):
        yield forbidden((*path, "spec", "nodeName"), "cannot be set until all schedulingGates have been cleared")


STRUCTS: Final = tables.STRUCTS.extended(
    {
        "affinity-term": _affinity_term,
        "container": _container,
        "container-name": tables.required_text(tables.on_each(dns1123_label)),
        "container-port": tables.required_text(tables.check_range(1, 65_535)),
        "lifecycle-handler": partial(_handler, _HANDLERS),
        "node-field": _node_field,
        "node-requirement": tables.validate_node_requirement,
        "node-selector": _node_selector,
        "node-values": _node_values,
        "overhead": _overhead,
        "pod": _pod,
        "pod-spec": _pod_spec,
        "pod-template": _template,
        "port": _port,
        "probe": partial(_handler, ("exec", "httpGet", "tcpSocket", "grpc")),
        "required": tables.required_text(),
        "running-container": _running_container,
        "spread-constraint": _spread_constraint,
        "toleration": _toleration,
        "topology-key": tables.required_text(detail="can not be empty"),
    }
)
_RUNNING: Final = STRUCTS["RunningContainer"]
TEMPLATE: Final = STRUCTS["PodTemplateSpec"]._replace(is_value=True)
_SPEC: Final = STRUCTS["PodSpec"]._replace(is_value=True)
_OF_STATEFUL_SETS: Final = _SPEC._replace(
    fields={**_SPEC.fields, **dict.fromkeys(("hostname", "subdomain"), tables.TEXT)}
)
"""The spec without the checks of fields that the StatefulSet controller sets."""
STATEFUL_SET_TEMPLATE: Final = TEMPLATE._replace(fields={**TEMPLATE.fields, "spec": _OF_STATEFUL_SETS})


def _with_label_keys(pod: ApiObject) -> ApiObject:
    """Return a Pod whose label selectors have the requirements of matchLabelKeys and mismatchLabelKeys.

    Source: pkg/registry/core/pod/strategy.go, `mutatePodAffinity`, `mutateTopologySpreadConstraints`.
    """
    labels, spec = at(pod, "metadata", "labels"), at(pod, "spec")
    if not isinstance(labels, dict) or not isinstance(spec, dict):
        return pod
    return {
        **pod,
        "spec": {**spec, **{name: _merged(spec[name], labels) for name in _WITH_TERMS if name in spec}},
    }


_WITH_TERMS: Final = ("affinity", "topologySpreadConstraints")


def _merged(value: Any, labels: Mapping[str, Any]) -> Any:
    """Return a part of a Pod spec with merged selectors."""
    if isinstance(value, list):
        return [_merged(item, labels) for item in value]
    if not isinstance(value, dict):
        return value
    merged = {key: _merged(item, labels) for key, item in value.items()}
    if isinstance(selector := value.get("labelSelector"), dict):
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for name, operator in zip(_LABEL_KEYS, ("In", "NotIn"), strict=True)
            for key in list_at(value, name)
            if isinstance(key, str) and key in labels
        ]
        if added:
            merged["labelSelector"] = {**selector, "matchExpressions": [*list_at(selector, "matchExpressions"), *added]}
    return merged


KINDS: Final = {registry.POD: tables.Kind(STRUCTS, "Pod", prepared=_with_label_keys)}
