"""kube-apiserver rejects this PodGroup, Workload or schedulingGroup.

Why: a PodGroup needs exactly one scheduling policy and at most one disruption mode. The minCount of a gang is at least
1, and is the only field that an update may change. All templates of a Workload have one priority.

Details: the rule checks `scheduling.k8s.io/v1beta1` of Kubernetes 1.37 and `v1alpha2` of Kubernetes 1.36. PodGroups
need the feature gate GenericWorkload (Kubernetes 1.37: beta, off by default). Other rules report missing classes and
classes with a value above 1000000000. The rule does not check Workloads with `compositePodGroupTemplates`.

Bad:

    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata:
      name: model
      namespace: team
    spec:
      schedulingPolicy: {gang: {minCount: 0}}

Good:

    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata:
      name: model
      namespace: team
    spec:
      schedulingPolicy: {gang: {minCount: 4}}

Fix: correct the field. To change a field that is immutable, delete the PodGroup and create it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.findings import Action, Problem, Severity, cut
from forewarn.policies.kinds.registry import POD_GROUP
from forewarn.policies.objects.fields import group_kind, mapping
from forewarn.policies.releases.minors import NEWEST
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.rule_text import MAX_CHARACTERS, completed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from forewarn.policies.kube_apiserver.validation.field_errors import FieldError
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.objects.workload import PodTemplate
    from forewarn.policies.releases.semantics import Semantics

ID: Final = "pod-group-invalid"
TARGETS: Final = (Target.POD_GROUP, Target.POD, Target.TEMPLATE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("classes",), "a class may have been deleted and created with another value")
_FIXES: Final = (
    ("immutable", "restore the field, or delete the object and create it again"),
    ("cannot be", "restore the field, or delete the object and create it again"),
    ("may not be", "restore the templates, or delete the object and create it again"),
    ("exactly one", "remove all but one"),
    ("one of", "add one"),
    ("multiple priority", "use one PriorityClass in all templates"),
    ("Required", "add this field"),
)
"""The fix by a part of kube-apiserver's message."""


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each error that kube-apiserver reports."""
    template = context.template(subject)
    found = _faults(subject, context) if template is None else _of_template(template)
    for message in dict.fromkeys((str(fault), fault.path) for fault in found):
        text, path = message
        fix = next((fix for part, fix in _FIXES if part in text), "correct this field")
        yield Problem(cut(text, MAX_CHARACTERS), path, fix, detail={"rejection": text})


def _of_template(template: PodTemplate) -> Iterable[FieldError]:
    """The errors in a Pod's `schedulingGroup`. Raises InvalidObject."""
    if template.spec.get("schedulingGroup") is None:
        return ()
    from forewarn.policies.kube_apiserver.validation.pod import (
        validate_scheduling_group,  # the linter starts without it
    )

    mapping(template.object, "spec", "schedulingGroup")
    spec = {"schedulingGroup": _texts(template.spec["schedulingGroup"])}
    where = len(("spec",))
    faults = validate_scheduling_group(spec)
    return [type(f)(template.at(*f.path[where:]), f.text) for f in faults]


def _texts(group: Any) -> dict[str, str]:
    return {key: value for key, value in group.items() if isinstance(value, str)}


def _faults(subject: ReviewedObject, context: Context) -> list[FieldError]:
    """Return the errors of a PodGroup or Workload, without errors that other rules report."""
    from forewarn.policies.kube_apiserver.priority import Forbidden, admit_pod_group
    from forewarn.policies.kube_apiserver.validation.field_errors import FieldError
    from forewarn.policies.kube_apiserver.validation.pod_group import (
        GROUP_VERSIONS,
        admission_gates,
        defaulted_group,
        group_decode_error,
        validate_group,
    )

    if subject.object.get("apiVersion") not in GROUP_VERSIONS:
        return []
    if fault := group_decode_error(subject.object):
        return [fault]
    old = subject.old and {**subject.old, "apiVersion": subject.object["apiVersion"], "kind": subject.object["kind"]}
    if old and group_decode_error(old):
        return []
    semantics = _semantics(context)
    spec = defaulted_group(subject.object, semantics)
    if spec.get("compositePodGroupTemplates"):
        return []
    name, given = spec.get("priorityClassName") or "", spec.get("priority")
    is_known = name in context.classes if name else context.cluster is not None or context.classes_known
    is_on, with_policy = admission_gates(subject.object, semantics)
    if is_known and is_on and old is None and group_kind(subject.object) == POD_GROUP:
        try:
            spec = admit_pod_group(spec, context.classes, with_policy=with_policy)
        except Forbidden as rejection:
            return [FieldError(rejection.path, str(rejection))]
    faults, _ = validate_group(completed(subject), spec, old, semantics)
    by_class = given is None and old is None
    return [fault for fault in faults if not (by_class and fault.path == ("spec", "priority"))]


def _semantics(context: Context) -> Semantics:
    """The semantics of the cluster; without a cluster, of the configured release and feature gates."""
    if context.cluster is not None:
        return context.cluster.semantics
    from forewarn.policies.releases.semantics import Semantics

    return Semantics(context.minor or NEWEST, context.options.gates)
