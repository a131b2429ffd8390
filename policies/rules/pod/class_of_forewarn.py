"""A Pod uses the PriorityClass that forewarn installs for its own Pods.

Why: the PriorityClass forewarn has the highest value that a user can define, so that forewarn's Pods also run in a full
cluster. Other Pods with this class can preempt all your workloads. Uninstalling forewarn deletes the class, and
kube-apiserver then rejects Pods that name the class.

Details: the rule also checks forewarn-sweep and forewarn-audit-cron-job, the PriorityClasses of forewarn's Jobs. A Pod
belongs to forewarn if its namespace has the same name as the class, or if it has the label
`app.kubernetes.io/part-of: forewarn`.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: forewarn
    value: 1000000000

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: web
      namespace: team
    spec:
      priorityClassName: forewarn

Good:

    apiVersion: v1
    kind: Pod
    metadata:
      name: forewarn-1
      namespace: admission
      labels: {app.kubernetes.io/part-of: forewarn}
    spec:
      priorityClassName: forewarn

Fix: use a PriorityClass of your own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity
from forewarn.policies.objects.fields import text_at
from forewarn.policies.objects.priority_class import OWN_CLASSES
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.rules.support.rule_text import class_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "class-of-forewarn"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = NOTHING_STORED
_LABEL: Final = "app.kubernetes.io/part-of"


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if a Pod that is not forewarn's names one of forewarn's classes."""
    template = context.template(subject)
    name = class_name(template) if template else ""
    if template is None or name not in OWN_CLASSES or subject.effective_namespace == name:
        return
    if text_at(template.object, "metadata", "labels", _LABEL) == "forewarn":
        return
    yield Problem(
        f"class {name} is for forewarn's own Pods and is deleted when forewarn is uninstalled",
        template.at("priorityClassName"),
        "use a class of your own",
    )
