"""Rules about fields that contradict each other, or the place of an object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.findings import Path, Problem, Severity, cut, grouped, quote
from forewarn.policies.base.light import later
from forewarn.policies.kubernetes.kinds.class_paths import ITEMS, found_at
from forewarn.policies.kubernetes.kinds.registry import (
    DAEMON_SET,
    DEPLOYMENT,
    KYVERNO_POLICIES,
    SCALED_OBJECT,
    STATEFUL_SET,
)
from forewarn.policies.kubernetes.objects.fields import (
    PREFERRED,
    REQUIRED,
    at,
    group_kind,
    list_at,
    mapping_at,
    text_at,
)
from forewarn.policies.kubernetes.objects.priority_class import HIGHEST_USER_DEFINABLE_PRIORITY
from forewarn.policies.kubernetes.objects.workload import parts_of, pod_template_of
from forewarn.policies.kubernetes.selectors import InvalidSelector, parse_label_selector
from forewarn.policies.linting.rules.support.context import POD_OR_TEMPLATE, Context, Phase, Target, rule
from forewarn.policies.linting.rules.support.names import Lookups, Names, is_misspelt
from forewarn.policies.linting.rules.support.rule_text import (
    MAX_CHARACTERS,
    class_name,
    integer,
    is_template_variable,
    resolved,
)
from forewarn.policies.linting.rules.support.scalers import scaler_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject

_OF_KUBELET: Final = ("system-node-critical", 2_000_001_000)
"""The class and the value that the kubelet expects of a static Pod. Source: kubernetes/kubernetes#136705."""
_STATIC_FIX: Final = "set priorityClassName: system-node-critical and priority: 2000001000"


@rule(Target.STATIC_POD, severity=Severity.WARNING, depends_on=("classes",))
def static_pod_priority(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A static Pod does not set both the class system-node-critical and its value.

    Why: no API server completes a static Pod, so the kubelet reads only `priority`: without it, the Pod has priority 0,
    and a graceful shutdown of the node stops it first. kube-apiserver rejects the mirror Pod if `priority` is set
    that is not the value of its class. Evictions of a mirror Pod of another class have no effect.

    Details: static Pods are Pods in a directory of the kubelet, such as `etc/kubernetes/manifests` or `static-pods`,
    and Pods with the annotation `kubernetes.io/config.source: file`.

    Example:

          Pod kube-system/proxy
            annotations:
              kubernetes.io/config.source: file
          spec:
            priorityClassName: system-node-critical
        +   priority: 2000001000
            containers:
            - name: proxy
              image: proxy

    Fix: set `priorityClassName: system-node-critical` and `priority: 2000001000`.
    """
    template = context.template(subject)
    if template is None or subject.is_partial:
        return
    name, value = class_name(template), integer(template.spec.get("priority"))
    if (name, value) == _OF_KUBELET:
        return
    computed = resolved(template, context)
    if computed is not None and value not in (None, computed.priority):
        by = f"class {quote(name)}" if name else "the default class"
        message = f"static Pod: kube-apiserver rejects its mirror Pod: priority {value}, {by} has {computed.priority}"
    elif value is None and name:
        message = f"static Pod: the kubelet does not resolve class {quote(name)}, so its priority is 0"
    elif not value and not name:
        message = "static Pod without priority: a graceful shutdown of the node stops it first"
    elif not name:
        unless = "" if (value or 0) > HIGHEST_USER_DEFINABLE_PRIORITY else ", unless it is that of the default class"
        message = (
            f"static Pod: kube-apiserver rejects its mirror Pod: priority {value} without priorityClassName{unless}"
        )
    else:
        message = f"static Pod of class {quote(name)} with priority {value}: evictions of its mirror Pod have no effect"
    field = "priorityClassName" if name else "priority"
    yield Problem(message, template.at(*([field] if name or value is not None else [])), _STATIC_FIX)


@rule(Target.TEMPLATE, severity=Severity.WARNING, objects={Target.TEMPLATE: "DaemonSets"})
def host_port_with_surge(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A DaemonSet with a host port has maxSurge, so its rollout never ends.

    Why: with `maxSurge`, the new Pod of a node starts before the old one stops. The old Pod holds the host port, so the
    new Pod stays Pending, whatever its PriorityClass is.

    Example:

          DaemonSet edge/proxy
          spec:
            updateStrategy:
              rollingUpdate:
        -       maxSurge: 1
        -       maxUnavailable: 0
        +       maxSurge: 0
        +       maxUnavailable: 1
            selector:
              matchLabels:
                app: proxy
            template:
              metadata:
                labels:
                  app: proxy
              spec:
                priorityClassName: system-node-critical
                containers:
                - name: proxy
                  image: proxy
                  ports:
                  - containerPort: 80
                    hostPort: 80
                  resources:
                    requests:
                      cpu: 100m

    Fix: set `maxSurge: 0` and `maxUnavailable: 1`.
    """
    if group_kind(subject.object) != DAEMON_SET:
        return
    template = context.template(subject)
    strategy = at(subject.object, "spec", "updateStrategy")
    surge = at(strategy, "rollingUpdate", "maxSurge")
    if template is None or surge in (None, 0, "0", "0%") or at(strategy, "type") == "OnDelete":
        return
    if port := next(_host_ports(template.spec), 0):
        message = f"host port {port} and maxSurge {surge}: a new Pod cannot start beside the old one on its node"
        path = ("spec", "updateStrategy", "rollingUpdate", "maxSurge")
        yield Problem(message, path, "set maxSurge: 0 and maxUnavailable: 1")


def _host_ports(spec: ApiObject) -> Iterator[int]:
    """Yield the ports of the node that a Pod uses; with hostNetwork, also those of its containers."""
    fields = ("hostPort", "containerPort") if spec.get("hostNetwork") is True else ("hostPort",)
    sidecars = (c for c in list_at(spec, "initContainers") if text_at(c, "restartPolicy") == "Always")
    for container in (*list_at(spec, "containers"), *sidecars):
        for port in list_at(container, "ports"):
            number = next(filter(None, (integer(at(port, field)) for field in fields)), None)
            if number:
                yield number


_CONTROLLERS: Final = {
    "argoproj.io/Workflow": "workflow-controller",
    "argoproj.io/WorkflowTemplate": "workflow-controller",
    "argoproj.io/CronWorkflow": "workflow-controller",
    "batch.volcano.sh/Job": "volcano-controllers",
    "jobset.x-k8s.io/JobSet": "jobset-controller-manager",
    "kubeflow.org/PyTorchJob": "training-operator",
    "leaderworkerset.x-k8s.io/LeaderWorkerSet": "lws-controller-manager",
    "ray.io/RayCluster": "kuberay-operator",
    "ray.io/RayJob": "kuberay-operator",
    "sparkoperator.k8s.io/SparkApplication": "spark-operator-controller",
    "tekton.dev/PipelineRun": "tekton-pipelines-controller",
}
"""Kind -> how the name of the Deployment of its controller ends, after the name of a Helm release."""


@rule(
    Target.OTHER,
    severity=Severity.NOTE,
    depends_on=("classes", "workloads"),
    objects={Target.OTHER: "custom resources"},
)
def class_above_controller(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Pods of a custom resource have a higher priority than the controller that creates them.

    Why: on a full cluster, the Pods can preempt their own controller. Then nothing starts or ends them.

    Details: the rule knows the controllers of Argo Workflows, JobSet, Kubeflow, KubeRay, LeaderWorkerSet, Spark, Tekton
    and Volcano by their names, in the input and in the cluster.

    Example:

          PriorityClass steps
          value: 100
          ---
        + PriorityClass controllers
        + value: 1000
        + ---
          Deployment argo/workflow-controller
          spec:
            selector:
              matchLabels:
                app: controller
            template:
              metadata:
                labels:
                  app: controller
              spec:
        +       priorityClassName: controllers
                containers:
                - name: controller
                  image: controller
          ---
          apiVersion: argoproj.io/v1alpha1
          kind: Workflow
          metadata:
            name: etl
            namespace: jobs
          spec:
            podPriorityClassName: steps

    Fix: give the controller a PriorityClass of at least the same value.
    """
    end = _CONTROLLERS.get(group_kind(subject.object)) if context.phase is Phase.LINT else None
    if end is None or subject.is_partial:
        return
    controllers = {name: priority for name, priority in context.once(_priorities).items() if name.endswith(end)}
    for part in parts_of(subject.object, context.options.class_paths) if controllers else ():
        computed = resolved(part, context) if class_name(part) else None
        name, priority = min(controllers.items(), key=itemgetter(1))
        if computed is not None and computed.priority > priority:
            message = f"its Pods ({computed.priority}) can preempt their controller {cut(name, _SHOWN)} ({priority})"
            fix = f"set a PriorityClass of {computed.priority} or more at the controller"
            yield Problem(message, part.at("priorityClassName"), fix)


_SHOWN: Final = 60


def _priorities(context: Context) -> Mapping[str, int]:
    """Return the priority of each Deployment of a controller, by namespace and name."""
    objects = [workload.object for workload in (context.cluster.workloads.values() if context.cluster else ())]
    objects += [subject.object for subject in context.of_kind(DEPLOYMENT) if not subject.is_partial]
    ends, priorities = tuple({*_CONTROLLERS.values()}), dict[str, int]()
    for obj in objects:
        name, namespace = text_at(obj, "metadata", "name"), text_at(obj, "metadata", "namespace")
        if group_kind(obj) == DEPLOYMENT and name.endswith(ends):
            template = pod_template_of(obj, context.options.pod_template_paths)
            computed = resolved(template, context, namespace) if template else None
            if computed is not None:
                priorities[f"{namespace}/{name}".removeprefix("/")] = computed.priority
    return priorities


_SETS_CLASS: Final = later(r"path[\"']?:[ \t]{0,9}[\"']?/spec/priorityClassName\b")


@rule(Target.OTHER, severity=Severity.WARNING, objects={Target.OTHER: "policies of Kyverno"})
def class_set_at_pods(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A policy of Kyverno sets the PriorityClass of Pods, after kube-apiserver has computed their priority.

    Why: kube-apiserver computes the priority before it calls Kyverno, and rejects the Pod if the priority is not that
    of the new class. If the policy also removes `priority`, the Pod can run with the priority 0.

    Details: the rule reads `patchesJson6902`, which Kyverno applies only to Pods, not to their controllers.

    Example:

          apiVersion: kyverno.io/v1
          kind: ClusterPolicy
          metadata:
            name: add-class
          spec:
            rules:
            - name: add-class
              match:
                any:
                - resources:
        -           kinds: [Pod]
        +           kinds: [Deployment]
              mutate:
                patchesJson6902: |-
                  - op: add
        -           path: /spec/priorityClassName
        +           path: /spec/template/spec/priorityClassName
                    value: batch

    Fix: change the Pod templates of workloads.
    """
    if group_kind(subject.object) not in KYVERNO_POLICIES or subject.is_partial:
        return
    for number, each in enumerate(list_at(subject.object, "spec", "rules")):
        if _SETS_CLASS.search(text_at(each, "mutate", "patchesJson6902")):
            path = ("spec", "rules", number, "mutate", "patchesJson6902")
            message = "sets the class of Pods after kube-apiserver has computed their priority"
            yield Problem(message, path, "change the Pod templates of workloads instead")


@rule(*POD_OR_TEMPLATE, severity=Severity.WARNING)
def constraint_without_effect(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A scheduling constraint of a Pod matches no Pod or node, or not the Pod itself.

    Why: kube-scheduler accepts such constraints. A topology spread constraint counts only Pods that its selector
    matches, so it must match the Pods that it spreads. A term of an affinity without selector matches no Pod.

    Example:

          Deployment team/web
          spec:
            selector:
              matchLabels:
                app: web
            template:
              metadata:
                labels:
                  app: web
              spec:
                topologySpreadConstraints:
                - maxSkew: 1
                  topologyKey: topology.kubernetes.io/zone
                  whenUnsatisfiable: DoNotSchedule
                  labelSelector:
                    matchLabels:
        -             app: frontend
        +             app: web
                containers:
                - name: web
                  image: web

    Fix: write labels of the Pods into the selector, or an integer as the value of `Gt` and `Lt`.
    """
    template = context.template(subject)
    if template is None or subject.is_partial or subject.is_patched or context.phase is not Phase.LINT:
        return
    if template.spec.keys().isdisjoint(("topologySpreadConstraints", "affinity")):
        return
    labels = {key: str(value) for key, value in mapping_at(template.object, "metadata", "labels").items()}
    for path, selector in found_at(template.spec, ("topologySpreadConstraints", ITEMS, "labelSelector")):
        if not _may_match(selector, labels, subject, context):
            message = "the labelSelector does not match the labels of the Pod: its Pods are not spread"
            yield Problem(message, template.at(*path), "write labels of the Pod")
    for path, term in _pod_terms(template.spec):
        if at(term, "labelSelector") is None and not list_at(term, "matchLabelKeys"):
            message = f"a term of {path[1]} without labelSelector matches no Pod"
            yield Problem(message, template.at(*path), "set labelSelector.matchLabels")
    for path, expression in _node_expressions(template.spec):
        operator, values = at(expression, "operator"), list_at(expression, "values")
        wrong = next((value for value in values if not _INTEGER.fullmatch(str(value))), None)
        if operator in ("Gt", "Lt") and wrong is not None and not is_template_variable(str(wrong), subject, context):
            message = f"{operator} {quote(cut(str(wrong), _SHOWN))} matches no node: it compares integers"
            yield Problem(message, template.at(*path), "write an integer in quotes")


_INTEGER: Final = later(r"[+-]?[0-9]{1,19}")


def _pod_terms(spec: ApiObject) -> Iterator[tuple[Path, ApiObject]]:
    """Yield the terms of the affinities of a Pod to other Pods."""
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from found_at(spec, ("affinity", kind, REQUIRED, ITEMS))
        yield from found_at(spec, ("affinity", kind, PREFERRED, ITEMS, "podAffinityTerm"))


def _node_expressions(spec: ApiObject) -> Iterator[tuple[Path, ApiObject]]:
    """Yield the expressions about labels of nodes in the node affinity of a Pod."""
    for terms in ((REQUIRED, "nodeSelectorTerms", ITEMS), (PREFERRED, ITEMS, "preference")):
        yield from found_at(spec, ("affinity", "nodeAffinity", *terms, "matchExpressions", ITEMS))


def _may_match(selector: Any, labels: Mapping[str, str], subject: ReviewedObject, context: Context) -> bool:
    """Report whether a selector matches labels, or is unknown or empty (empty-selector)."""
    texts = (str(value) for value in (*labels.values(), *mapping_at(selector, "matchLabels").values()))
    if not labels or not isinstance(selector, Mapping) or any(is_template_variable(t, subject, context) for t in texts):
        return True
    try:
        parsed = parse_label_selector(selector)
    except InvalidSelector:
        return True
    return parsed is None or not mapping_at(selector, "matchLabels") or parsed.matches(labels)


@rule(
    Target.OTHER,
    severity=Severity.WARNING,
    objects={Target.OTHER: "HorizontalPodAutoscalers, ScaledObjects of KEDA"},
)
def autoscaler_without_effect(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A HorizontalPodAutoscaler or ScaledObject names no workload of the input, or its minimum is above its maximum.

    Why: the kind in `scaleTargetRef` is case-sensitive. If no workload has the kind and the name, nothing is scaled.

    Details: the rule reports a target only if the namespace has a workload whose kind or name is similar.

    Example:

          Deployment team/web
          spec:
            selector:
              matchLabels:
                app: web
            template:
              metadata:
                labels:
                  app: web
              spec:
                containers:
                - name: web
                  image: web
          ---
          apiVersion: autoscaling/v2
          kind: HorizontalPodAutoscaler
          metadata:
            name: web
            namespace: team
          spec:
            maxReplicas: 4
            scaleTargetRef:
              apiVersion: apps/v1
        -     kind: deployment
        +     kind: Deployment
              name: web

    Fix: write the kind and the name of the workload.
    """
    scaler = scaler_of(subject) if context.phase is Phase.LINT else None
    if scaler is None:
        return
    least, most = scaler.minimum, scaler.maximum
    if group_kind(subject.object) == SCALED_OBJECT and least is not None and most is not None and least > most:
        message = f"{scaler.limits[0][-1]} {least} is above {scaler.limits[1][-1]} {most}: KEDA rejects the object"
        yield Problem(message, scaler.limits[0], "make the limits agree")
    by_name, names = context.once(_by_namespace).get(subject.effective_namespace, _NONE)
    named = by_name.get(scaler.name, ())
    if any(map(scaler.scales, named)) or is_template_variable(scaler.name, subject, context):
        return
    target = scaler.kind.rpartition("/")[2]
    near = next((each for each in named if each.ref.kind.lower() == target.lower()), None)
    if not named and len(scaler.name) >= _DISTINCT and is_misspelt(scaler.name, names.nearest_name(scaler.name)):
        meant = by_name[names.nearest_name(scaler.name)]
        near = next((each for each in meant if group_kind(each.object) == scaler.kind), None)
    if near is not None:
        who = f"{near.ref.kind} {cut(near.ref.name, _SHOWN)}"
        message = f"no {target} {cut(scaler.name, _SHOWN)} in this input. Did you mean {who}?"
        fix = f"write apiVersion: {near.object.get('apiVersion')}, kind: {near.ref.kind} and name: {near.ref.name}"
        yield Problem(message, ("spec", "scaleTargetRef"), cut(fix, MAX_CHARACTERS))


_DISTINCT: Final = 4
"""The minimum length of a name of which another one with a different letter is a misspelling."""


_NONE: Final = (dict[str, list["ReviewedObject"]](), Names(()))


def _by_namespace(context: Context) -> Mapping[str, tuple[Mapping[str, Sequence[ReviewedObject]], Names]]:
    """Return the workloads that can be scaled by namespace and name, and the names for lookups of similar ones."""
    kinds = (DEPLOYMENT, STATEFUL_SET)
    scaled = grouped((each.effective_namespace, each) for kind in kinds for each in context.of_kind(kind))
    named = {namespace: grouped((each.ref.name, each) for each in group) for namespace, group in scaled.items()}
    return {namespace: (names, Names(names, context.once(Lookups))) for namespace, names in named.items()}
