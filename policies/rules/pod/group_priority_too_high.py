"""A PodGroup, or a template of PodGroups, names a PriorityClass with a value above 1000000000.

Why: a Pod may use the class system-node-critical, but a PodGroup may not. kube-apiserver rejects the PodGroup, and
kube-scheduler does not schedule Pods whose PodGroup is missing. kube-apiserver accepts a Workload with a template of
such a PodGroup.

Bad:

    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata:
      name: training
      namespace: kube-system
    spec:
      priorityClassName: system-cluster-critical
      schedulingPolicy: {gang: {minCount: 4}}

Good:

    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata:
      name: training
      namespace: kube-system
    spec:
      schedulingPolicy: {gang: {minCount: 4}}

Fix: use a PriorityClass with a value of at most 1000000000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.kinds.class_paths import GROUPS
from forewarn.policies.objects.fields import group_kind
from forewarn.policies.objects.priority_class import HIGHEST_USER_DEFINABLE_PRIORITY, SYSTEM_CLASSES
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.rule_text import class_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "group-priority-too-high"
TARGETS: Final = (Target.PART,)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.WARN
DEPENDS_ON: Final = NOTHING_STORED
_TOO_HIGH: Final = {c.name: c for c in SYSTEM_CLASSES if c.value > HIGHEST_USER_DEFINABLE_PRIORITY}
"""The system classes above the limit. No other PriorityClass can have such a value."""


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a class above the limit of PodGroups."""
    template = context.template(subject)
    if template is None or group_kind(subject.object) not in GROUPS:
        return
    found = _TOO_HIGH.get(class_name(template))
    if found is not None:
        yield Problem(
            f"{found.name} has value {found.value}; a PodGroup may have {HIGHEST_USER_DEFINABLE_PRIORITY} at most",
            template.at("priorityClassName"),
            "use a lower PriorityClass",
        )
