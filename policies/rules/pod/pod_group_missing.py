"""A Pod or a template names a PodGroup that does not exist.

Why: kube-apiserver accepts the Pod. kube-scheduler does not try to schedule the Pod before the PodGroup exists. The Pod
gets no condition and no Event.

Details: the rule needs a cluster whose PodGroups are listed, or the option `--closed`. PodGroups need the feature gate
GenericWorkload (Kubernetes 1.37: beta, off by default). Without this gate, kube-apiserver drops the field.

Cluster:

    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata:
      name: model
      namespace: other-team
    spec:
      schedulingPolicy: {gang: {minCount: 1}}

Bad:

    apiVersion: v1
    kind: Pod
    metadata:
      name: worker
      namespace: team
    spec:
      schedulingGroup: {podGroupName: model}
      containers:
      - name: worker
        image: worker

Good:

    apiVersion: scheduling.k8s.io/v1beta1
    kind: PodGroup
    metadata:
      name: model
      namespace: team
    spec:
      schedulingPolicy: {gang: {minCount: 1}}
    ---
    apiVersion: v1
    kind: Pod
    metadata:
      name: worker
      namespace: team
    spec:
      schedulingGroup: {podGroupName: model}
      containers:
      - name: worker
        image: worker

Fix: create the PodGroup in the namespace of the Pod, or correct the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, Text, quote
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.pod_groups import GATE, group_name, is_known_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "pod-group-missing"
TARGETS: Final = (Target.POD, Target.TEMPLATE, Target.PART)
SEVERITY: Final = Severity.NOTE
ACTION: Final[Action | None] = None
DEPENDS_ON: Final = DependsOn(("podgroups",), "the PodGroup may have been created")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if the named PodGroup does not exist."""
    template = context.template(subject)
    if template is not None and is_known_missing(template, subject, context):
        name, pods = group_name(template), "Pods are" if template.is_template else "the Pod is"
        yield Problem(
            Text(
                f"PodGroup {quote(name)} not found; {pods} not scheduled",
                "create it, or correct the name",
                (GATE,),
            ),
            template.at("schedulingGroup", "podGroupName"),
            detail={"podGroup": name},
        )
