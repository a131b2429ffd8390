"""Pods, or pods of a template, will not fit into a ResourceQuota of their namespace.

Why: the API server refuses such a pod. A workload is accepted, and some of its pods silently never appear: only an
event on its ReplicaSet says why. Counted are the pods that come, in the order of the apply, so that earlier objects
use up the quota: the replicas of a Deployment, and what maxSurge adds to them in a rollout; the replicas of a
StatefulSet, ReplicaSet or ReplicationController; what runs at a time of a Job; one run of a CronJob, beside the
present one unless concurrencyPolicy forbids that; of a DaemonSet a pod for each node that lets it in, where nodes are
known. The pods that a workload has already are part of what is used: only what comes new counts, and maxSurge where
the template changes. What containers leave out and a LimitRange of the namespace, or of the same input, fills in is
asked for too. A quota without a status, as in files alone, limits what its spec says, and only the use of the same
input is counted; the message says so. The API server stays the authority: it counts by compare-and-swap, after every
webhook.

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

Fix: run fewer replicas, let the pods ask for less, or raise the quota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.findings import Action, Problem, Severity
from policies.objects.fields import group_kind
from policies.rules.support.context import Context, DependsOn, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.findings import Path
    from policies.kube_apiserver.quota import Fault
    from policies.objects.reviewed_object import ReviewedObject
    from policies.rules.support.quota_use import Use

ID: Final = "quota-exceeded"
TARGETS: Final = (Target.POD, Target.TEMPLATE)
SEVERITY: Final = Severity.ERROR
ACTION: Final = Action.WARN
DEPENDS_ON: Final = DependsOn(
    ("quotas", "classes", "pods", "workloads", "nodes"), "the quota may have been raised, or be in use by fewer"
)

_COUNTS: Final[dict[str, Path]] = {
    "batch/Job": ("spec", "parallelism"),
    "batch/CronJob": ("spec", "jobTemplate", "spec", "parallelism"),
}
_PODS: Final = ("pods", "count/pods")


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The first pod that does not fit, by the first quota that refuses it."""
    if not context.has_quotas(subject):
        return
    from policies.rules.support.quota_use import quota_use_of

    use = quota_use_of(context).of(subject)
    if use is None or not use.first or not use.faults:
        return
    fault = use.faults[0]
    if fault.kind == "must-specify":
        return  # quota-requirement-missing
    yield Problem(
        f"{_which(subject, use)}will be refused: {_why(subject, context, use, fault)}",
        _COUNTS.get(group_kind(subject.object), ("spec", "replicas")) if use.template.is_template else (),
        _remedy(use, fault),
        detail={"quota": fault.quota, "resources": list(fault.resources), "pod": use.first, **use.arrivals._asdict()},
    )


def _which(subject: ReviewedObject, use: Use) -> str:
    if not use.template.is_template:
        return ""
    replicas, surge = use.arrivals
    if use.first > replicas:
        return f"in a rollout, surge pod {use.first - replicas} of {surge} "
    noun = "pod" if subject.ref.kind in ("Job", "CronJob", "DaemonSet") else "replica"
    return f"{noun} {use.first} of {replicas} "


def _why(subject: ReviewedObject, context: Context, use: Use, fault: Fault) -> str:
    quota = use.found(fault.quota)
    if quota is None or not fault.resources:
        return fault.message
    name = next((count for count in _PODS if count in fault.resources), fault.resources[0])
    hard, used = quota.hard[name], quota.used[name]
    if name in _PODS:
        text = f"quota {quota.name} allows {hard} {'pod' if str(hard) == '1' else 'pods'}, {used} are used"
    else:
        text = f"quota {quota.name} allows {hard} of {name}, {used} is used, {_asked(use, name)} asked for"
    return text + _where_from(subject, context, use, quota.name, name)


def _asked(use: Use, name: str) -> str:
    from policies.kube_apiserver.quota import usage

    amount, given = usage(use.pod, 0)[name], usage({"spec": use.template.spec}, 0)
    whose = "" if not use.template.is_template else " by each pod"
    return f"{amount}{whose}{'' if given.get(name) == amount else ' (with LimitRange defaults)'} is"


def _where_from(subject: ReviewedObject, context: Context, use: Use, quota: str, resource: str) -> str:
    """What the use consists of, as far as it is not simply the cluster's word."""
    from policies.rules.support.quota_use import quota_use_of

    earlier = use.earlier(quota, resource)
    notes = []
    if not quota_use_of(context).has_status(subject.effective_namespace, quota):
        notes.append("Its status is not known: only this input is counted")
    elif earlier.nano > 0:
        notes.append(f"Objects before this one take {earlier} of it")
    if use.present:
        notes.append(f"{use.present} of its pods are there already")
    return "".join(f". {note}" for note in notes)


def _remedy(use: Use, fault: Fault) -> str:
    if not fault.quota or not fault.resources:
        return "correct the quota"
    fitting = use.first - 1
    if use.template.is_template and fitting >= use.arrivals.replicas:
        return f"set maxSurge to {fitting - use.arrivals.replicas}, or raise quota {fault.quota}"
    if use.template.is_template and 0 < fitting < use.arrivals.replicas:
        return f"run at most {fitting}, or raise quota {fault.quota}"
    return f"ask for less, or raise quota {fault.quota}"
