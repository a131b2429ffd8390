"""kube-apiserver probably rejects Pods of a system class in this namespace.

Why: GKE admits Pods of system-cluster-critical and system-node-critical only in namespaces with a ResourceQuota for
these classes, and creates such a ResourceQuota only in kube-system. In other namespaces, Pods with a system class, for
example from a Helm chart, are rejected.

Details: the rule assumes GKE if there is a ResourceQuota named gcp-critical-pods, or a node with the label
cloud.google.com/gke-nodepool. If forewarn does not know the ResourceQuotas, the rule also reports system classes that
limitedResources limits. If forewarn knows the ResourceQuotas, limited-class-without-quota reports these classes.

Cluster:

    apiVersion: v1
    kind: ResourceQuota
    metadata:
      name: gcp-critical-pods
      namespace: kube-system
    spec:
      hard:
        pods: 1G
      scopeSelector:
        matchExpressions:
        - scopeName: PriorityClass
          operator: In
          values: [system-node-critical, system-cluster-critical]
    ---
    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: infrastructure
    value: 1000000

Bad (also system-class-outside-kube-system):

    apiVersion: apps/v1
    kind: DaemonSet
    metadata:
      name: agent
      namespace: monitoring
    spec:
      template:
        spec:
          priorityClassName: system-node-critical

Good:

    apiVersion: apps/v1
    kind: DaemonSet
    metadata:
      name: agent
      namespace: monitoring
    spec:
      template:
        spec:
          priorityClassName: infrastructure

Fix: use a PriorityClass of your own, or add a ResourceQuota for the system class to the namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, cut
from forewarn.policies.objects.priority_class import SYSTEM_CLASSES
from forewarn.policies.options import LimitedResource, ScopeSelector
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.rule_text import class_to_be

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "system-class-blocked-by-quota"
TARGETS: Final = (Target.POD, Target.TEMPLATE)
SEVERITY: Final = Severity.WARNING
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(("quotas", "nodes"), "the quota that covers it may have been created")

_SYSTEM: Final = tuple(c.name for c in SYSTEM_CLASSES)
_GKE: Final = (LimitedResource("pods", match_scopes=(ScopeSelector("PriorityClass", "In", _SYSTEM),)),)
"""The limitedResources of GKE's API servers, which create a matching quota in kube-system."""
_GKE_QUOTA: Final = ("kube-system", "gcp-critical-pods")
_LONGEST: Final = 24
_GKE_LABEL: Final = "cloud.google.com/gke-nodepool"


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a system class outside kube-system that is limited and that no known quota covers."""
    template = context.template(subject)
    name = class_to_be(template, subject.effective_namespace, context) if template else ""
    if template is None or name not in _SYSTEM or subject.ref.namespace == "kube-system":
        return
    limited, is_gke = context.options.limited_resources, _is_gke(context)
    if not limited and not is_gke:
        return
    from forewarn.policies.rules.support.quota_use import uncovered_of

    quotas_known = context.cluster is not None or context.defines_quotas
    by_configuration = bool(limited) and bool(uncovered_of(subject, context, limited))
    if by_configuration and quotas_known:
        return  # limited-class-without-quota
    by_gke = is_gke and bool(uncovered_of(subject, context, _GKE))
    if by_configuration or by_gke:
        who = "limitedResources require" if by_configuration else "GKE requires"
        what = "Pods are" if template.is_template else "the Pod is"
        namespace = cut(subject.ref.namespace or "default", _LONGEST)
        yield Problem(
            f"{who} a ResourceQuota for {name}; {what} rejected unless namespace {namespace} has one",
            template.at("priorityClassName"),
            "use another class, or add a ResourceQuota for this one",
        )


def _is_gke(context: Context) -> bool:
    cluster = context.cluster
    if cluster is None:
        return False
    nodes = cluster.objects.nodes.values()
    return _GKE_QUOTA in cluster.resource_quotas or any(_GKE_LABEL in node.labels for node in nodes)
