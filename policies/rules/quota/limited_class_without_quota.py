"""A Pod or a template uses a limited class, and no ResourceQuota of its namespace covers this class.

Why: `limitedResources` allows a class only in namespaces with a ResourceQuota for this class. Managed clusters do not
offer this setting of kube-apiserver, so you can set `limitedResources` in forewarn's configuration.

Details: forewarn reads limitedResources from its configuration, or from kube-apiserver's own file
(`--admission-config`). As in kube-apiserver, every ResourceQuota with the scope PriorityClass covers the class if the
scope matches, even with NotIn (see limited-resources-loophole). If you pass no cluster and the input contains no
ResourceQuota, the rule reports nothing.

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

Fix: use another class, or add a ResourceQuota for this class to the namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, cut
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.rule_text import class_to_be

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "limited-class-without-quota"
TARGETS: Final = (Target.POD, Target.TEMPLATE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.DENY
DEPENDS_ON: Final = DependsOn(("quotas", "classes"), "the quota that covers it may have been created")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for each limited resource of the Pods that no ResourceQuota covers."""
    if not context.options.limited_resources or not (context.cluster or context.defines_quotas):
        return
    from forewarn.policies.kube_apiserver.quota import FaultKind
    from forewarn.policies.rules.support.quota_use import uncovered_of

    template = context.template(subject)
    for fault in uncovered_of(subject, context, context.options.limited_resources):
        assert template is not None
        by_class = fault.kind is FaultKind.UNCOVERED_SCOPE
        name = class_to_be(template, subject.effective_namespace, context)
        what = f"class {cut(name, _LONGEST) or 'of these Pods'}" if by_class else ", ".join(fault.resources)
        rejected = "Pods" if template.is_template else "the Pod"
        scope = f"with scope PriorityClass In [{name}]" if name else "with this scope"
        yield Problem(
            f"{rejected} will be rejected: no ResourceQuota in {subject.effective_namespace} covers {what}",
            template.at("priorityClassName" if by_class else "containers"),
            f"add one {scope if by_class else 'that limits it'}",
            detail={"rejection": fault.message},
        )


_LONGEST: Final = 60
