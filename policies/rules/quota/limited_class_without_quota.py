"""A pod or template uses what limitedResources limits, and no quota of its namespace covers it.

Why: "limit priority class consumption by default" is a flag of the API server that managed clusters do not offer.
Here limitedResources of the configuration, or of kube-apiserver's own file (`--admission-config`), do the same: who
may use a class is who has a quota for it. As in the API server, any quota with a scope of the same name covers, one
that says NotIn too: see limited-resources-loophole. Without a cluster, and without any quota in the input, nothing is
said.

Options:

    limitedResources:
    - resource: pods
      matchScopes:
      - scopeName: PriorityClass
        operator: In
        values: [gold]

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000

Bad:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          priorityClassName: gold

Good:

    apiVersion: v1
    kind: ResourceQuota
    metadata:
      name: gold-quota
      namespace: team
    spec:
      hard:
        pods: 10
      scopeSelector:
        matchExpressions:
        - scopeName: PriorityClass
          operator: In
          values: [gold]
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      template:
        spec:
          priorityClassName: gold

Fix: use another class, or ask for a quota of this class in the namespace.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.rules.support.context import Context, DependsOn, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.disclosure import Audience
    from policies.kube_apiserver.quota import Fault
    from policies.objects.reviewed_object import ReviewedObject

ID: Final = "limited-class-without-quota"
TARGETS: Final = (Target.POD, Target.TEMPLATE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("quotas", "classes"), "the quota that covers it may have been created")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """What is limited and not covered, in the API server's words."""
    if not context.options.limited_resources or not (context.cluster or context.defines_quotas):
        return
    from policies.kube_apiserver.quota import FaultKind
    from policies.rules.support.quota_use import uncovered_of

    template = context.template(subject)
    for fault in uncovered_of(subject, context, context.options.limited_resources):
        assert template is not None
        consequence = "its pods will be refused: " if template.is_template else ""
        by_class = fault.kind is FaultKind.UNCOVERED_SCOPE
        yield Problem(
            partial(_refused, consequence, fault),
            template.at("priorityClassName" if by_class else "containers"),
            f"{'use another class' if by_class else 'ask for less'}, or have a quota for it in namespace "
            f"{subject.effective_namespace}",
        )


_WITHHELD: Final = "insufficient quota to match the scopes that limit it"


def _refused(consequence: str, fault: Fault, audience: Audience) -> str:
    """The API server's words; the classes of its configuration beside the pod's own are not for every reader."""
    by_class = fault.kind.value == "uncovered-scope"
    return consequence + (_WITHHELD if by_class and not audience.sees_all else fault.message)
