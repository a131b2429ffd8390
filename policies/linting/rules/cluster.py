"""Rules about the whole cluster: findings of `forewarn audit` that no single object shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import ObjectRef, Problem, Severity, grouped, not_running, plural
from forewarn.policies.kubernetes.kinds.registry import CRON_JOB, DEPLOYMENT, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import group_kind, text_at
from forewarn.policies.kubernetes.objects.namespace import DEFAULT_CLASS_ANNOTATION
from forewarn.policies.kubernetes.objects.priority_class import SYSTEM_CLASSES, SYSTEM_NAMES, PriorityClass
from forewarn.policies.linting.rules.support import details
from forewarn.policies.linting.rules.support.context import ALL_SCHEDULED, Context, Target, rule
from forewarn.policies.linting.rules.support.predictions import Restart, Restarts, is_placeholder, needs_class
from forewarn.policies.linting.rules.support.rule_text import api_text, class_names_of_workloads, naming, priorities_of
from forewarn.policies.prediction.forecast.impact import victims_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.pod import Pod
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject


@rule(Target.CLUSTER, severity=Severity.WARNING, depends_on=("classes", "pods"))
def pods_of_missing_class(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Pods have a PriorityClass that was deleted.

    Why: running Pods keep their priority. If a workload still names the class, kube-apiserver rejects its replacement
    Pods.

    Example:

        + PriorityClass gold
        + value: 1000
        + ---
          Pod team/web-1
        +   ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, controller: true}]
          spec:
            priorityClassName: gold
            priority: 1000
            nodeName: node-1

    Fix: recreate the class with the priority of these Pods as its value, or move their workloads to another class.
    """
    names = {name for name, _ in context.pod_counts_by_priority if name and not context.is_known(name)}
    for name, users in sorted(_pods_of(names, context).items()):
        ref = ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", name)
        yield Problem(details.PodsOfMissingClass(name, users), object=ref)


@rule(Target.CLUSTER, severity=Severity.WARNING, depends_on=("classes", "pods"))
def pods_older_than_default(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The priority of Pods without a class differs from the value of the global default.

    Why: new Pods without a class get the value of the global default. If it is higher, the new Pods can usually preempt
    the old Pods.

    Example:

          PriorityClass normal
          value: 1000
          globalDefault: true
          ---
          Pod team/web-1
          spec:
        -   priority: 0
        +   priorityClassName: normal
        +   priority: 1000
            nodeName: node-1

    Fix: restart the workloads of these Pods one after the other while nodes have free capacity.
    """
    default = context.classes.default if context.cluster else None
    if default is None or not any(_is_older(n, p, default) for n, p in context.pod_counts_by_priority):
        return
    pods = [
        pod for pod in context.pods if _is_older(pod.priority_class_name, pod.priority, default) and not pod.terminal
    ]
    above = all(pod.effective_priority < default.value for pod in pods)
    may = " and may preempt them" if above and default.preemption_policy != "Never" else ""
    keep = "keeps" if len(pods) == 1 else "keep"
    after = f" without a class {keep} priority {priorities_of(pods)}; new Pods get {default.value}{may}"
    yield Problem(
        details.PodsWithPriority(pods, after, "restart their workloads while nodes have free capacity", default.value),
        object=ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", default.name),
    )


def _is_older(class_name: str, priority: int | None, default: PriorityClass) -> bool:
    return not class_name and (priority or 0) != default.value


_LEAST: Final = min(c.value for c in SYSTEM_CLASSES)


@rule(Target.CLUSTER, severity=Severity.WARNING, depends_on=("pods", "workloads"))
def system_pods_outside_kube_system(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Pods outside kube-system have the priority of system components.

    Why: such Pods can preempt Pods without a system class, and the kubelet does not evict them under node pressure.

    Details: for workloads that name a system class, see system-class-outside-kube-system.

    Example:

        - Pod team/web-1
        + Pod kube-system/dns-1
          spec:
            priorityClassName: system-cluster-critical
            priority: 2000000000
            nodeName: node-1

    Fix: use a PriorityClass of your own, and recreate these Pods.
    """
    if not any((priority or 0) >= _LEAST for _, priority in context.pod_counts_by_priority):
        return
    from forewarn.policies.kubernetes.controllers.view import controller_of  # the linter starts without it

    naming_one = (workload for workload, name in class_names_of_workloads(context) if name in SYSTEM_NAMES)
    reported = {(group_kind(each.object), each.ref.namespace, each.ref.name) for each in naming_one}
    others = (pod for pod in context.pods if pod.namespace != "kube-system" and not pod.terminal)
    counted = (pod for pod in others if pod.effective_priority >= _LEAST and controller_of(pod) not in reported)
    for namespace, pods in sorted(grouped((pod.namespace, pod) for pod in counted).items()):
        have = "has" if len(pods) == 1 else "have"
        after = f" {have} priority {priorities_of(pods)} and can preempt all your workloads"
        fix = "use a class of your own, and restart the workload"
        problem = details.PodsWithPriority(pods, after, fix, is_in_namespace=True)
        yield Problem(problem, object=ObjectRef("v1", "Namespace", "", namespace))


@rule(Target.CLUSTER, severity=Severity.NOTE, depends_on=("classes", "workloads", "pods"))
def unused_priority_class(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A PriorityClass is unused, or only one Pod without a controller uses it.

    Why: users can select an unused class by mistake.

    Details: PodGroups and default classes of Namespaces also count as uses.

    Bad:

        PriorityClass urgent
        value: 900000

    Good:

        PriorityClass urgent
        value: 900000
        ---
        Deployment team/web
        spec:
          template:
            spec:
              priorityClassName: urgent

    Fix: delete the class, or suppress the finding and give the reason.
    """
    cluster = context.cluster
    if cluster is None:
        return
    by_workloads = (name for _, name in class_names_of_workloads(context))
    by_groups = (name for group in cluster.objects.pod_groups.values() for name in group.class_names)
    by_templates = (name for group in cluster.objects.group_templates.values() for name in group.class_names)
    by_namespaces = (each.annotations.get(DEFAULT_CLASS_ANNOTATION, "") for each in cluster.namespaces.values())
    named = {*SYSTEM_NAMES, *by_workloads, *by_groups, *by_templates, *by_namespaces}
    left = [c for name, c in sorted(cluster.priority_classes.items()) if name not in named and not c.global_default]
    pods = _pods_of({c.name for c in left}, context)
    for unused in left:
        users = pods[unused.name]
        if not users or (len(users) == 1 and users[0].owner is None):
            user = users[0] if users else None
            what = f"no Pod and no workload uses this class (value {unused.value})"
            if user is not None:
                after = f" uses this class (value {unused.value}), and no controller recreates it"
                what = naming("only Pod ", [user.key], 1, after)
            yield Problem(
                what,
                remediation="delete it, or suppress this finding with a reason",
                object=ObjectRef("scheduling.k8s.io/v1", "PriorityClass", "", unused.name),
                detail={"class": unused.name, "pods": [user.key] if user else []},
            )


def _pods_of(names: set[str], context: Context) -> Mapping[str, list[Pod]]:
    pods: dict[str, list[Pod]] = {name: [] for name in names}
    if any(name in names for name, _ in context.pod_counts_by_priority):
        for pod in context.pods:
            if pod.priority_class_name in names and not pod.terminal:
                pods[pod.priority_class_name].append(pod)
    return pods


@rule(Target.CLUSTER, severity=Severity.WARNING, depends_on=ALL_SCHEDULED)
def restart_preempts(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """If a workload restarted now, its new Pods would preempt Pods outside the workload.

    Why: the next rollout, for example of a new image, can then preempt these Pods.

    Details: forewarn simulates `kubectl rollout restart` for one Deployment, StatefulSet or DaemonSet at a time. In a
    large cluster, it leaves out some workloads, unless you pass `--all-restarts`.

    Cluster:

        Node node-1
        status:
          allocatable: {cpu: "2", memory: 4Gi, pods: "10"}
        ---
        PriorityClass gold
        value: 1000
        ---
        Pod batch/report
        spec:
          nodeName: node-1
          priority: 0
          containers:
          - name: c
            image: report
            resources: {requests: {cpu: 1200m}}
        status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}
        ---
        Pod team/web-1
          labels: {app: web}
        spec:
          nodeName: node-1
          priorityClassName: gold
          priority: 1000
          containers:
          - name: c
            image: web
            resources: {requests: {cpu: 500m}}
        status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

    Example:

          Deployment team/web
          spec:
            replicas: 1
            selector: {matchLabels: {app: web}}
            template:
              metadata: {labels: {app: web}}
              spec:
                priorityClassName: gold
                containers:
                - name: c
                  image: web
        -         resources: {requests: {cpu: 500m}}
        +         resources: {requests: {cpu: 200m}}

    Fix: free capacity before you restart the workload, use the strategy Recreate in a Deployment, or use a lower class.
    """
    of_placeholders: list[ObjectRef] = []
    most, restarts = 0, context.once(Restarts)
    for restart in restarts.computed:
        own = restart.impact.own
        preempting = tuple(p for p in restart.impact.preempting if any(v.identity not in own for v in p.victims))
        victims = [victim for victim in victims_of(preempting) if victim.identity not in own]
        if restart.impact.why_not:
            problem = details.NotPredicted(restart.impact, _NOT_PREDICTED_FIX, is_restart=True)
            yield Problem(problem, object=restart.ref, severity=Severity.NOTE)
        elif not victims:
            continue
        elif all(is_placeholder(victim, context.options) for victim in victims):
            of_placeholders.append(restart.ref)
            most = max(most, len(victims))
        else:
            ref, cluster = restart.ref, context.cluster
            stored = cluster.workload(DEPLOYMENT, ref.namespace, ref.name) if cluster else None
            is_rolling = stored is not None and text_at(stored.object, "spec", "strategy", "type") != "Recreate"
            fix = f"free capacity first{', or use strategy Recreate' if is_rolling else ''}"
            yield Problem(
                details.Preemption(details.Cause.RESTART, restart.impact, preempting, victims, fix), object=restart.ref
            )
    if of_placeholders:
        yield Problem(details.PlaceholdersPreempted(of_placeholders, most), severity=Severity.NOTE)
    restarts.require_all()


def _limits_for(restart: Restart, context: Context) -> Iterator[str]:
    """Yield the limits with which a quota admits a rollout: what is used now, and the surge; nothing if unknown."""
    from forewarn.policies.kubernetes.controllers.deployment import max_surge
    from forewarn.policies.kubernetes.kube_apiserver.quota import ExceededQuota
    from forewarn.policies.kubernetes.quantity import ZERO, Quantity, format_units

    ref, cluster, rejection = restart.ref, context.cluster, restart.rejection
    workload = cluster.workload(DEPLOYMENT, ref.namespace, ref.name) if cluster else None
    if cluster is None or workload is None or not isinstance(rejection, ExceededQuota):
        return
    used = cluster.resource_quotas[ref.namespace, rejection.quota].used
    surge = max_surge(workload.object, restart.impact.new)
    for name, each in rejection.amounts.items():
        needed = used.get(name, ZERO).nano + surge * each.requested.nano
        yield f"{format_units(Quantity(needed, each.limited.format))} {name}"


_NOT_PREDICTED_FIX: Final = "restart it while its nodes have enough free capacity for the new Pods"
_QUOTA_FIX: Final = "raise the quota, or delete other Pods of the namespace before you restart the workload"


@rule(Target.CLUSTER, severity=Severity.WARNING, depends_on=ALL_SCHEDULED)
def restart_stays_pending(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """If a workload restarted now, new Pods would stay Pending, or the rollout would not finish.

    Why: for example, nodes are cordoned or full, or a ResourceQuota would reject new Pods.

    Details: restart-preempts describes the simulation. If autoscalers would add nodes for all Pending Pods, the finding
    is a note. The rule ignores Pending Pods of Deployments whose `maxUnavailable` lets old Pods terminate first.

    Cluster:

        Node node-1
        spec: {unschedulable: true}
        status:
          allocatable: {cpu: "2", memory: 4Gi, pods: "10"}
        ---
        Pod team/db-0
          labels: {app: db}
          ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, controller: true}]
        spec:
          nodeName: node-1
          priority: 0
          containers:
          - name: c
            image: db
            resources: {requests: {cpu: 500m}}
        status: {phase: Running, startTime: "2026-01-01T00:00:00Z"}

    Example:

          StatefulSet team/db
          spec:
            replicas: 1
            selector: {matchLabels: {app: db}}
            template:
              metadata: {labels: {app: db}}
              spec:
        +       tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}]
                containers:
                - name: c
                  image: db
                  resources: {requests: {cpu: 500m}}

    Fix: uncordon nodes, free capacity or raise the quota before you restart the workload. If nodes are full, you can
    also set `maxUnavailable: 1` in a Deployment.
    """
    from forewarn.policies.kubernetes.scheduling.reasons import shorten  # the linter starts without it

    restarts = context.once(Restarts)
    for restart in restarts.computed:
        if restart.is_blocked:
            pending = next(prediction for prediction in restart.impact.predictions if prediction.outcome == "pending")
            fits, new_nodes = needs_class(pending), restart.new_nodes
            stuck = details.StaysPending(restart.impact, pending, restart.reasons, True, fits, new_nodes)
            is_helped = new_nodes is not None and new_nodes.pods >= restart.impact.pending
            yield Problem(stuck, object=restart.ref, severity=Severity.NOTE if is_helped else None)
        elif restart.rejection:
            rejection = api_text(shorten(restart.rejection))
            limits = ", ".join(_limits_for(restart, context))
            needs = f"; the rollout needs {limits}" if limits else ""
            problem = f"new Pods of a restart now would be rejected: {rejection}{needs}"
            harm = not_running([restart.impact.priority or 0])
            yield Problem(problem, remediation=_QUOTA_FIX, object=restart.ref, harm=harm)
    restarts.require_all()


@rule(Target.CLUSTER, severity=Severity.WARNING, depends_on=ALL_SCHEDULED)
def pods_not_created(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Pods of a workload do not exist, because kube-apiserver rejects them or a StatefulSet waits for another Pod.

    Why: the workload has too few replicas, although no Pod is Pending for them.

    Details: for example, a ResourceQuota is exceeded, a PriorityClass does not exist, or the first Pod of a StatefulSet
    with the `podManagementPolicy` `OrderedReady` is not ready. The rule checks Deployments, StatefulSets, ReplicaSets
    and Jobs, and the next Job of each CronJob without running Pods.

    Cluster:

        ResourceQuota batch/pods
        spec:
          hard: {pods: 10}
        status:
          hard: {pods: 10}
          used: {pods: 10}

    Example:

          Job batch/report
          spec:
        +   suspend: true
            template:
              spec:
                restartPolicy: Never
                containers:
                - name: report
                  image: report

    Fix: raise the quota or create the PriorityClass. For a Pod that is not ready, run `forewarn why NAMESPACE/POD`.
    """
    from forewarn.policies.kubernetes.scheduling.reasons import shorten  # the linter starts without both
    from forewarn.policies.prediction.forecast.replacements import all_missing

    if (cluster := context.cluster) is None:
        return
    for workload, found in all_missing(cluster):
        kind = group_kind(workload.object)
        how = "of the next Job would be rejected" if kind == CRON_JOB else "not created"
        problem = f"{found.missing} of {plural(found.wanted, 'Pod')} {how}: {api_text(shorten(found.why))}"
        pod = found.waits_for
        fix = f"see `forewarn why {pod.key}`" if pod else _CREATE_FIX
        path = (*POD_TEMPLATE_PATHS[kind], "spec", "priorityClassName")
        named = cluster.priority_classes.get(text_at(workload.object, *path))
        harm = not_running([named.value if named is not None else 0])
        yield Problem(problem, remediation=fix, object=workload.ref, harm=harm)


_CREATE_FIX: Final = "correct what the message names, so that kube-apiserver admits the Pods"


@rule(Target.CLUSTER, severity=Severity.WARNING, depends_on=("quotas", "pods"))
def quota_above_limit(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The usage of a ResourceQuota is above its limit.

    Why: kube-apiserver rejects all new Pods that the quota counts, also the replacements of lost Pods, until the usage
    is below the limit.

    Details: the usage exceeds the limit if the limit was lowered. The message has the current usage.

    Example:

          ResourceQuota batch/pods
          spec:
        -   hard: {pods: 10}
        +   hard: {pods: 20}
          status:
        -   hard: {pods: 10}
        +   hard: {pods: 20}
            used: {pods: 12}

    Fix: raise the limit, or scale workloads of the namespace down.
    """
    from forewarn.policies.kubernetes.cluster.admission import exceeded_quotas  # the linter starts without it

    if context.cluster is None:
        return
    for key, usage in exceeded_quotas(context.cluster).items():
        namespace, name = key.split("/")
        ref = ObjectRef("v1", "ResourceQuota", namespace, name)
        problem = f"{usage} used: kube-apiserver rejects all new Pods that this quota counts"
        yield Problem(problem, remediation=_LIMIT_FIX, object=ref, harm=not_running())


_LIMIT_FIX: Final = "raise the limit, or scale workloads down"


@rule(Target.CLUSTER, severity=Severity.WARNING, depends_on=ALL_SCHEDULED)
def pods_pending(_: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Pods are Pending.

    Why: the workload has fewer running Pods than it needs.

    Details: placeholder Pods, and Pods of other schedulers do not count.

    Bad:

        Pod team/web-1
        spec:
          priority: 0

    Good:

        Pod team/web-1
        spec:
          priority: 0
          nodeName: node-1

    Fix: run `forewarn why NAMESPACE/POD`.
    """
    from forewarn.policies.kubernetes.scheduling.event_handlers import is_pending  # the linter starts without it

    cluster = context.cluster
    if cluster is None:
        return
    names = cluster.semantics.scheduler_names
    pods = (pod for pod in cluster.waiting_pods.values() if is_pending(pod, names))
    waiting = grouped((_owner(pod, cluster), pod) for pod in pods if not is_placeholder(pod, context.options))
    for ref, found in sorted(waiting.items()):
        first = min(pod.key for pod in found)
        problem = f"{plural(len(found), 'Pod')} Pending"
        harm = not_running(pod.effective_priority for pod in found)
        yield Problem(problem, remediation=f"see `forewarn why {first}`", object=ref, harm=harm)


def _owner(pod: Pod, cluster: ClusterSnapshot) -> ObjectRef:
    """The workload of a Pod; the Pod if no stored workload controls it."""
    from forewarn.policies.kubernetes.controllers.view import controller_of  # the linter starts without it

    key = controller_of(pod)
    while key is not None and (workload := cluster.workloads.get(key)) is not None:
        above = workload.controller[0], key[1], workload.controller[1]
        if above not in cluster.workloads:
            return workload.ref
        key = above
    return ObjectRef("v1", "Pod", pod.namespace, pod.name)
