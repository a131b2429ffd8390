"""Decoding, defaults and validation of PodGroups and Workloads, with upstream's messages in upstream's order.

Sources: api `scheduling/v1beta1/types.go` (v1alpha3 is equal) and `scheduling/v1alpha2/types.go`; kubernetes
`pkg/apis/scheduling/validation`, `pkg/registry/scheduling/podgroup` and `workload`. Not modelled: the feature gates
CompositePodGroup, DRAWorkloadResourceClaims and TopologyAwareWorkloadScheduling. They count as off, so kube-apiserver
drops their fields from new objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kinds.registry import GROUP_TEMPLATES, POD_GROUP
from forewarn.policies.kube_apiserver.validation.declarative import (
    INT32,
    STRING,
    Form,
    Tagged,
    Tags,
    at_least,
    formed,
    maximum,
    one_of,
    validate_tags,
)
from forewarn.policies.kube_apiserver.validation.decode import OBJECT_META, Plain, Struct, decode_fault
from forewarn.policies.kube_apiserver.validation.field_errors import FieldError, invalid
from forewarn.policies.kube_apiserver.validation.names import (
    dns1123_label,
    dns1123_subdomain,
    path_segment,
    qualified_name,
)
from forewarn.policies.kube_apiserver.validation.object_meta import validate_object_meta, validate_object_meta_update
from forewarn.policies.metering import each
from forewarn.policies.objects.fields import NOTHING, group_kind
from forewarn.policies.objects.priority_class import (
    HIGHEST_USER_DEFINABLE_PRIORITY,
    PREEMPT_LOWER_PRIORITY,
    PREEMPT_NEVER,
)
from forewarn.policies.releases.minors import PREDICTED_MINORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.releases.semantics import Semantics

NEEDS_GATE: Final = "needs the feature gate GenericWorkload (Kubernetes 1.37: beta, off by default)"
PREEMPTION_POLICY_GATE: Final = "PodGroupPreemptionPolicy"
_PREEMPTION_GATE: Final = "WorkloadAwarePreemption"


@dataclass(frozen=True, slots=True)
class GroupVersion:
    """A version of the PodGroup and Workload API. `minors`: the minor versions of Kubernetes 1.x that serve it."""

    name: str
    minors: range
    group: Tags
    workload: Tags
    default_mode: Any

    def tags(self, kind: str) -> Tags:
        """The tags of the spec of a `group/Kind`."""
        return self.group if kind == POD_GROUP else self.workload


def _short_name(**tags: Any) -> Tagged:
    return Tagged(STRING, Form.VALUE, always=True, is_required=True, checks=(formed(dns1123_label),), **tags)


def _long_name(**tags: Any) -> Tagged:
    return Tagged(STRING, checks=(formed(dns1123_subdomain),), **tags)


_REQUIRED_LONG_NAME: Final = _long_name(form=Form.VALUE, always=True, is_required=True)
_SEGMENT: Final = Tagged(STRING, Form.VALUE, always=True, is_required=True, checks=(formed(path_segment),))
_REFERENCE: Final = Tags(
    "TypedLocalObjectReference", {"apiGroup": _long_name(form=Form.VALUE), "kind": _SEGMENT, "name": _SEGMENT}
)
_GANG: Final = Tags(
    "GangSchedulingPolicy",
    {"minCount": Tagged(INT32, Form.VALUE, always=True, is_required=True, checks=(at_least(1),))},
)
_CLAIM: Final = Tags(
    "PodGroupResourceClaim",
    {"name": _short_name(), "resourceClaimName": _long_name(), "resourceClaimTemplateName": _long_name()},
    ("resourceClaimName", "resourceClaimTemplateName"),
)
_CLAIMS: Final = Tagged(_CLAIM, Form.LIST, immutable=True, max_items=4, is_keyed=True)
_CONSTRAINT: Final = Tags(
    "TopologyConstraint",
    {"key": Tagged(STRING, Form.VALUE, always=True, is_required=True, checks=(formed(qualified_name),))},
)
_CONSTRAINTS: Final = Tagged(
    Tags("PodGroupSchedulingConstraints", {"topology": Tagged(_CONSTRAINT, Form.LIST, max_items=1)}), forbidden=True
)
_CLASS_NAME: Final = _long_name(form=Form.VALUE)
_PRIORITY: Final = Tagged(INT32, checks=(maximum(HIGHEST_USER_DEFINABLE_PRIORITY),))
_BASIC: Final = Tags("BasicSchedulingPolicy")


def _v1beta1(name: str) -> GroupVersion:
    policy = Tags(
        "PodGroupSchedulingPolicy",
        {"basic": Tagged(_BASIC, immutable=True), "gang": Tagged(_GANG, may_be_set=False, may_be_unset=False)},
        ("basic", "gang"),
    )
    mode = Tags(
        "DisruptionMode",
        {"single": Tagged(Tags("SingleDisruptionMode")), "all": Tagged(Tags("AllDisruptionMode"))},
        ("single", "all"),
    )
    policies = one_of(PREEMPT_NEVER, PREEMPT_LOWER_PRIORITY)
    preemption = Tagged(Plain("string", f"{name}.PreemptionPolicy"), immutable=True, checks=(policies,))
    priorities = {
        "priorityClassName": replace(_CLASS_NAME, immutable=True),
        "priority": replace(_PRIORITY, immutable=True),
        "preemptionPolicy": preemption,
    }
    template = {
        "name": _short_name(),
        "schedulingPolicy": Tagged(policy, Form.STRUCT, always=True),
        "schedulingConstraints": replace(_CONSTRAINTS, always=True, immutable=True),
        "resourceClaims": _CLAIMS,
        "disruptionMode": Tagged(mode, immutable=True),
        **priorities,
    }
    workload = {
        "controllerRef": Tagged(_REFERENCE, immutable=True),
        "podGroupTemplates": Tagged(
            Tags("PodGroupTemplate", template), Form.LIST, always=True, max_items=8, items_are_fixed=True, is_keyed=True
        ),
        "compositePodGroupTemplates": Tagged(
            Plain("object", f"{name}.CompositePodGroupTemplate"), Form.LIST, forbidden=True
        ),
    }
    reference = Tags("WorkloadReference", {"workloadName": _REQUIRED_LONG_NAME, "templateName": _short_name()})
    group = {
        "parentCompositePodGroupName": _long_name(forbidden=True, immutable=True),
        "workloadRef": Tagged(reference, immutable=True),
        "schedulingPolicy": Tagged(policy, Form.STRUCT, always=True),
        "schedulingConstraints": _CONSTRAINTS,
        "resourceClaims": _CLAIMS,
        "disruptionMode": Tagged(mode, immutable=True, is_required=True),
        **priorities,
    }
    union = ("podGroupTemplates", "compositePodGroupTemplates")
    specs = Tags("PodGroupSpec", group), Tags("WorkloadSpec", workload, union)
    return GroupVersion(name, range(37, PREDICTED_MINORS.stop), *specs, {"single": {}})


def _v1alpha2() -> GroupVersion:
    policy = Tags("PodGroupSchedulingPolicy", {"basic": Tagged(_BASIC), "gang": Tagged(_GANG)}, ("basic", "gang"))
    mode = Tagged(Plain("string", "v1alpha2.DisruptionMode"), checks=(one_of("Pod", "PodGroup"),))
    template = {
        "name": _short_name(),
        "schedulingPolicy": Tagged(policy, Form.STRUCT, always=True),
        "schedulingConstraints": replace(_CONSTRAINTS, always=True),
        "resourceClaims": _CLAIMS,
        "disruptionMode": mode,
        "priorityClassName": _CLASS_NAME,
        "priority": _PRIORITY,
    }
    templates = Tagged(
        Tags("PodGroupTemplate", template),
        Form.LIST,
        always=True,
        immutable=True,
        max_items=8,
        is_required=True,
        is_keyed=True,
    )
    workload = {"controllerRef": Tagged(_REFERENCE, immutable=True), "podGroupTemplates": templates}
    named = {"workloadName": _REQUIRED_LONG_NAME, "podGroupTemplateName": _short_name()}
    reference = Tags(
        "PodGroupTemplateReference",
        {"workload": Tagged(Tags("WorkloadPodGroupTemplateReference", named), always=True)},
        ("workload",),
    )
    group = {
        "podGroupTemplateRef": Tagged(reference, always=True, immutable=True),
        "schedulingPolicy": Tagged(policy, Form.STRUCT, always=True, immutable=True),
        "schedulingConstraints": _CONSTRAINTS,
        "resourceClaims": _CLAIMS,
        "disruptionMode": replace(mode, immutable=True, is_required=True),
        "priorityClassName": replace(_CLASS_NAME, immutable=True),
        "priority": replace(_PRIORITY, immutable=True),
    }
    return GroupVersion("v1alpha2", range(36, 37), Tags("PodGroupSpec", group), Tags("WorkloadSpec", workload), "Pod")


GROUP_VERSIONS: Final[Mapping[str, GroupVersion]] = {
    f"scheduling.k8s.io/{version.name}": version for version in (_v1alpha2(), _v1beta1("v1alpha3"), _v1beta1("v1beta1"))
}
"""apiVersion -> version of PodGroups and Workloads."""


def _struct(kind: str, version: GroupVersion) -> Struct:
    fields = {"metadata": OBJECT_META, "spec": version.tags(kind).struct(version.name)}
    return Struct(kind.rpartition("/")[2], fields, version.name)


GROUP_STRUCTS: Final[Mapping[tuple[str, str], Struct]] = {
    (api_version, kind): _struct(kind, version)
    for api_version, version in GROUP_VERSIONS.items()
    for kind in (POD_GROUP, GROUP_TEMPLATES)
}
"""(apiVersion, `group/Kind`) -> the type of the objects, for decoding."""


def group_decode_error(obj: ApiObject) -> FieldError | None:
    """Return the decoding error of a PodGroup or Workload; None if decodable. The version must be in GROUP_VERSIONS."""
    fault = decode_fault(obj, GROUP_STRUCTS[obj["apiVersion"], group_kind(obj)])
    return fault and FieldError(fault.path, fault.text.removeprefix("json: "))


def admission_gates(obj: ApiObject, semantics: Semantics) -> tuple[bool, bool]:
    """Return (whether the Priority plugin sets the priority of PodGroups, whether it sets their preemption policy)."""
    if obj["apiVersion"] == "scheduling.k8s.io/v1alpha2":
        return semantics.enabled(_PREEMPTION_GATE), False
    return True, semantics.enabled(PREEMPTION_POLICY_GATE)


def defaulted_group(obj: ApiObject, semantics: Semantics) -> dict[str, Any]:
    """The spec of a decodable PodGroup or Workload with kube-apiserver's defaults."""
    version = GROUP_VERSIONS[obj["apiVersion"]]
    spec = version.tags(group_kind(obj)).encoded(obj.get("spec") or NOTHING)
    if group_kind(obj) != POD_GROUP:
        return spec
    defaults = {"disruptionMode": version.default_mode}
    if "preemptionPolicy" in version.group.fields and semantics.enabled(PREEMPTION_POLICY_GATE):
        defaults["preemptionPolicy"] = PREEMPT_LOWER_PRIORITY
    return version.group.encoded({**defaults, **spec})


def validate_group(
    obj: ApiObject, spec: ApiObject, old: ApiObject | None, semantics: Semantics
) -> tuple[list[FieldError], dict[str, Any]]:
    """Return all errors of a PodGroup or Workload in upstream's order, and the spec that kube-apiserver stores.

    `spec`: with defaults and resolved priority. `old`: the stored object, None on CREATE; both objects must be
    decodable.
    """
    kind, version = group_kind(obj), GROUP_VERSIONS[obj["apiVersion"]]
    before = None if old is None else defaulted_group({**old, "apiVersion": obj["apiVersion"]}, semantics)
    tags, dropped = version.tags(kind), _dropped(version, kind, spec, before, semantics)
    encoded = tags.encoded(dropped)
    if old is None:
        errors = validate_object_meta(obj, namespaced=True)
    else:
        errors = validate_object_meta_update(obj, old, namespaced=True)
    if kind != POD_GROUP and "compositePodGroupTemplates" in tags.fields:
        errors += _validate_priorities(encoded)
    required = _with_gates(version, kind, semantics)
    return errors + validate_tags(required, encoded, before, ("spec",), is_update=old is not None), encoded


def _validate_priorities(spec: ApiObject) -> list[FieldError]:
    """The error of a Workload whose templates have different priorities (`validateWorkloadPriority`)."""
    given = [(t.get("priorityClassName"), t.get("priority")) for t in each(spec["podGroupTemplates"])]
    several = any(priority != given[0] for priority in given)
    return [invalid(("spec",), None, "detected multiple priority configurations")] if several else []


_OF_OTHER_GATES: Final = (
    "schedulingConstraints", "resourceClaims", "parentCompositePodGroupName", "compositePodGroupTemplates",
)  # fmt: skip
_OF_PREEMPTION: Final = ("disruptionMode", "priorityClassName", "priority")


def _gated(version: GroupVersion, semantics: Semantics) -> tuple[str, ...]:
    policy = () if semantics.enabled(PREEMPTION_POLICY_GATE) else ("preemptionPolicy",)
    preemption = () if version.name != "v1alpha2" or semantics.enabled(_PREEMPTION_GATE) else _OF_PREEMPTION
    return (*_OF_OTHER_GATES, *policy, *preemption)


def _dropped(
    version: GroupVersion, kind: str, spec: ApiObject, old: ApiObject | None, semantics: Semantics
) -> ApiObject:
    """Return the spec without fields of disabled feature gates, unless the stored object uses them (`dropDisabled…`).

    Templates are compared by their position in the list.
    """
    gated = _gated(version, semantics)
    kept = {key: value for key, value in spec.items() if key not in gated or (old or NOTHING).get(key) is not None}
    if kind == POD_GROUP or not isinstance(templates := spec.get("podGroupTemplates"), list):
        return kept
    before = (old or NOTHING).get("podGroupTemplates") or []
    stored = [*before[: len(templates)], *[NOTHING] * (len(templates) - len(before))]
    kept["podGroupTemplates"] = [
        {key: value for key, value in template.items() if key not in gated or was.get(key) is not None}
        for template, was in zip(templates, stored, strict=True)
    ]
    return kept


def _with_gates(version: GroupVersion, kind: str, semantics: Semantics) -> Tags:
    """The tags of a spec with the feature gates applied: fields of disabled gates are forbidden."""
    gated = {*_gated(version, semantics)} - {*_OF_OTHER_GATES}

    def off(name: str, tagged: Tagged) -> Tagged:
        immutable = tagged.immutable and name not in _OF_PREEMPTION
        return replace(tagged, forbidden=True, is_required=False, immutable=immutable)

    def with_gates(tags: Tags) -> Tags:
        fields = {name: off(name, tagged) if name in gated else tagged for name, tagged in tags.fields.items()}
        return replace(tags, fields=fields)

    gated_tags = with_gates(version.tags(kind))
    templates = gated_tags.fields.get("podGroupTemplates")
    if templates is None or not isinstance(templates.value_type, Tags):
        return gated_tags
    fields = {**gated_tags.fields, "podGroupTemplates": replace(templates, value_type=with_gates(templates.value_type))}
    return replace(gated_tags, fields=fields)
