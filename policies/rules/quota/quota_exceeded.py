"""New Pods exceed a ResourceQuota of their namespace.

Why: kube-apiserver rejects Pods that exceed the quota. kube-apiserver accepts a workload, but rejects some of its Pods.
For a Deployment, only an Event of the ReplicaSet shows the reason.

Details: the rule counts new Pods in the order in which kubectl applies the objects. Earlier objects use the quota
first. The rule counts replicas of a Deployment, StatefulSet, ReplicaSet or ReplicationController, and maxSurge in a
rollout of a Deployment. For a Job, it counts the parallel Pods. For a CronJob, it counts the Pods of one run, and also
of the current run unless concurrencyPolicy forbids concurrent runs. For a DaemonSet, it counts one Pod for each node
that accepts the Pod, if forewarn knows the nodes. The used resources include existing Pods of the workload. If old
Pods use the quota that new Pods need, the rule reports only rollouts that stop, and after how many new Pods. If a
LimitRange sets default requests, these requests count. If a ResourceQuota has no status, the rule compares the limits
in its spec with the objects of the input, and the message reports this. kube-apiserver checks the quota after all
webhooks, and only its check is binding.

Cluster:

    apiVersion: scheduling.k8s.io/v1
    kind: PriorityClass
    metadata:
      name: gold
    value: 1000
    ---
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
    status:
      hard:
        pods: 10
      used:
        pods: 4

Bad:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      replicas: 10
      template:
        spec:
          priorityClassName: gold

Good:

    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      replicas: 4
      template:
        spec:
          priorityClassName: gold

Fix: run fewer replicas, lower the requests, or raise the quota.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Action, Problem, Severity, Text, cut, plural
from forewarn.policies.kinds.registry import DAEMON_SET
from forewarn.policies.objects.fields import group_kind
from forewarn.policies.rules.support.context import Context, DependsOn, Target
from forewarn.policies.rules.support.predictions import predicted_of
from forewarn.policies.rules.support.rule_text import MAX_CHARACTERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import Path
    from forewarn.policies.kube_apiserver.quota import Fault
    from forewarn.policies.objects.reviewed_object import ReviewedObject
    from forewarn.policies.rules.support.quota_use import Use

ID: Final = "quota-exceeded"
TARGETS: Final = (Target.POD, Target.TEMPLATE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(
    ("quotas", "classes", "pods", "workloads", "nodes"), "the quota may have been raised, or less of it may be used"
)

_COUNTS: Final[dict[str, Path]] = {
    "batch/Job": ("spec", "parallelism"),
    "batch/CronJob": ("spec", "jobTemplate", "spec", "parallelism"),
    DAEMON_SET: ("spec", "template"),
}
_REPLICAS: Final[Path] = ("spec", "replicas")
_PODS: Final = ("pods", "count/pods")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for the first Pod that a ResourceQuota rejects."""
    if not context.has_quotas(subject):
        return
    from forewarn.policies.rules.support.quota_use import quota_use_of

    use = quota_use_of(context).of(subject)
    if use is not None and not use.first and (beside_old := quota_use_of(context).beside_old(subject)) is not None:
        impact = predicted_of(context).of(subject)
        if impact is not None and impact.rejected:
            use = beside_old._replace(stops_after=impact.new - impact.rejected, present=0)
    if use is None or not use.first or not use.faults:
        return
    fault = use.faults[0]
    if fault.kind == "must-specify":
        return  # quota-requirement-missing
    problem = _message(use, fault, _noun(subject))
    text = Text(
        problem,
        _fix(use, fault, group_kind(subject.object)),
        tuple(_notes(subject, context, use, fault)),
        (_USED.sub("", problem), _USED.sub("", problem).partition(", ")[0]),
    )
    yield Problem(
        text,
        _COUNTS.get(group_kind(subject.object), _REPLICAS) if use.template.is_template else (),
        detail={"quota": fault.quota, "resources": list(fault.resources), "pod": use.first, **use.arrivals._asdict()},
    )


def _noun(subject: ReviewedObject) -> str:
    return "Pods" if subject.ref.kind in ("Job", "CronJob", "DaemonSet") else "replicas"


def _message(use: Use, fault: Fault, noun: str) -> str:
    """The message, for example `ResourceQuota gold-quota (pods: 10, used: 4) admits 6 of 10 replicas`."""
    quota = use.found(fault.quota)
    if quota is None or not fault.resources:
        rejected = "Pods" if use.template.is_template else "the Pod"
        return cut(f"{rejected} will be rejected: {fault.message}", MAX_CHARACTERS)
    name = next((count for count in _PODS if count in fault.resources), fault.resources[0])
    subject = f"ResourceQuota {cut(quota.name, _LONGEST)} ({name}: {quota.hard[name]}, used: {quota.used[name]})"
    requested = "" if name in _PODS else _requested(use, name)
    if not use.template.is_template:
        return f"{subject} rejects the Pod{requested}"
    replicas, surge = use.arrivals
    if use.stops_after is not None:
        return f"{subject} stops the rollout after {use.stops_after} of {replicas} new Pods"
    if use.first > replicas:
        return f"{subject} admits {use.first - replicas - 1} of {surge} surge Pods in a rollout{requested}"
    return f"{subject} admits {use.first - 1} of {replicas} {noun}{requested}"


_LONGEST: Final = 40
_USED: Final = re.compile(r" \([^)]*, used: [^)]*\)")


def _requested(use: Use, name: str) -> str:
    """A phrase with the amount that one Pod requests, for example `, each requests 2`."""
    from forewarn.policies.kube_apiserver.quota import usage

    amount, given = usage(use.pod, 0)[name], usage({"spec": use.template.spec}, 0)
    by_default = "" if given.get(name) == amount else " by LimitRange default"
    return f", {'each' if use.template.is_template else 'it'} requests {amount}{by_default}"


def _notes(subject: ReviewedObject, context: Context, use: Use, fault: Fault) -> Iterator[str]:
    """Yield sentences that explain the used amount, if it differs from the amount in the cluster."""
    from forewarn.policies.rules.support.quota_use import quota_use_of

    quota = use.found(fault.quota)
    if quota is None or not fault.resources:
        return
    name = next((count for count in _PODS if count in fault.resources), fault.resources[0])
    earlier = use.earlier(quota.name, name)
    if not quota_use_of(context).has_status(subject.effective_namespace, quota.name):
        yield "Its status is unknown: only this input is counted"
    elif earlier.nano > 0:
        yield f"Earlier objects of the input use {earlier}"
    if use.present:
        yield f"{use.present} of its Pods already run"


def _fix(use: Use, fault: Fault, kind: str) -> str:
    if not fault.quota or not fault.resources:
        return "correct the quota"
    fitting = use.first - 1
    if use.stops_after is not None:
        return "raise it, or free a part"
    if use.template.is_template and fitting >= use.arrivals.replicas:
        return f"maxSurge ≤ {fitting - use.arrivals.replicas}, or raise it"
    if use.template.is_template and fitting:
        if kind == DAEMON_SET:
            return f"select at most {plural(fitting, 'node')}, or raise it"
        return f"{_COUNTS.get(kind, _REPLICAS)[-1]} ≤ {fitting}, or raise it"
    return "lower requests, or raise it"
