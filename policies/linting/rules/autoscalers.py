"""Rules about HorizontalPodAutoscalers and ScaledObjects."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Path, Problem, Severity, cut, grouped, listed
from forewarn.policies.base.light import later
from forewarn.policies.kubernetes.kinds.class_paths import ITEMS, found_at
from forewarn.policies.kubernetes.kinds.registry import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    POD,
    ROLLOUT,
    SCALED_OBJECT,
    STATEFUL_SET,
    VERTICAL_AUTOSCALER,
    removed_version,
)
from forewarn.policies.kubernetes.objects.fields import (
    ApiObject,
    at,
    group_kind,
    list_at,
    mapping_at,
    namespace_of,
    text_at,
)
from forewarn.policies.kubernetes.objects.workload import lacks_images
from forewarn.policies.linting.rules.support.context import Context, Target, rule
from forewarn.policies.linting.rules.support.names import Lookups, Names
from forewarn.policies.linting.rules.support.rule_text import is_template_variable, is_test_file
from forewarn.policies.linting.rules.support.scalers import Scaler, scaler_of, scalers_of_workloads

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject

_SHOWN: Final = 60
_MAX_COMPARED: Final = 20
"""Maximum number of scalers of one workload that are compared with another one."""
_IDLE: Final = ("spec", "idleReplicaCount")
_SCALED: Final = (DEPLOYMENT, STATEFUL_SET, ROLLOUT)
_NOT_SCALED: Final = (CRON_JOB, DAEMON_SET, JOB, POD)


@rule(
    Target.OTHER,
    severity=Severity.WARNING,
    depends_on=("limitranges",),
    objects={Target.OTHER: "HorizontalPodAutoscalers, VerticalPodAutoscalers, ScaledObjects of KEDA"},
)
def autoscaler_without_effect(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A HorizontalPodAutoscaler or ScaledObject has no workload, shares it with another, or has limits that contradict.

    Why: the kind in `scaleTargetRef` is case-sensitive. If no workload has the kind and the name, nothing is scaled.
    Two HorizontalPodAutoscalers of one workload do not scale it either, and KEDA rejects a second one. A
    HorizontalPodAutoscaler cannot read a metric of a container that the Pods do not have, or compute the utilization of
    a resource that a container does not request. If the workload's `replicas` is not within the limits, or above the
    minimum, each apply scales the workload, and the autoscaler scales it back. A VerticalPodAutoscaler that changes
    requests also changes their utilization, to which a HorizontalPodAutoscaler reacts. Its policies for absent
    containers have no effect.

    Details: the rule reports a target only if the namespace has a workload with a similar kind or name. A name is
    similar if a letter or two differ, or if it is the only one that contains the other, unless another object scales
    this workload. If the namespace has no workload, the rule also reports the only workload of this name in the same
    directory with another namespace. `replicas` above the minimum in the manifest of the workload is a note. The rule
    does not report `replicas` if an Application of Argo CD ignores them, and sets `RespectIgnoreDifferences`. It does
    not report containers that webhooks inject, such as `istio-proxy`.

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
        +         resources:
        +           requests:
        +             cpu: 100m
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
              kind: Deployment
              name: web
            metrics:
            - type: Resource
              resource:
                name: cpu
                target:
                  type: Utilization
                  averageUtilization: 70

    Fix: write the kind and the name of the workload, or of its container, or set the request.
    """
    if group_kind(subject.object) == VERTICAL_AUTOSCALER:
        yield from _vertical_problems(subject, context)
    scaler = scaler_of(subject)
    if scaler is None:
        return
    least, most = scaler.minimum, scaler.maximum
    if group_kind(subject.object) == SCALED_OBJECT and least is not None and most is not None and least > most:
        message = f"{scaler.limits[0][-1]} {least} is above {scaler.limits[1][-1]} {most}: KEDA rejects the object"
        yield Problem(message, scaler.limits[0], "make the limits agree")
    idle = at(subject.object, *_IDLE) if group_kind(subject.object) == SCALED_OBJECT else None
    if type(idle) is int and least and idle >= least:
        message = f"{_IDLE[-1]} {idle} is not below {scaler.limits[0][-1]} {least}: KEDA rejects the object"
        yield Problem(message, _IDLE, f"remove it, or raise {scaler.limits[0][-1]}")
    for path, metric in _utilizations(subject):
        amount = at(metric, "target", "averageValue")
        if str(amount).isdigit() and at(metric, "target", "averageUtilization") is None:
            message = f"type is Utilization, but averageValue {cut(str(amount), _SHOWN)} is an amount, not a percentage"
            yield Problem(message, (*path, "target", "averageValue"), "write averageUtilization, or type: AverageValue")
    yield from _second(subject, scaler, context)
    yield from _without_target(subject, scaler, context)


def _without_target(subject: ReviewedObject, scaler: Scaler, context: Context) -> Iterator[Problem]:
    """Report a target that is absent or cannot be scaled."""
    by_name, names = context.once(_scalable_by_namespace).get(subject.effective_namespace, _NONE)
    named = by_name.get(scaler.name, ())
    scaled = [*filter(scaler.scales, named)]
    scalers = context.once(scalers_of_workloads).get((subject.effective_namespace, scaler.name), ())
    is_first = bool(scalers) and scalers[0].subject is subject  # many scalers of a large workload would take long
    if len(scaled) == 1 and is_first:  # of several workloads, only one is deployed
        yield from _without_container(subject, scaled[0], context)
        yield from _without_request(subject, scaled[0], context)
        yield from _replicas_set(scaled[0], scaler, context)
        yield from _scaled_vertically(subject, scaled[0], context)
    is_unread = scaler.name in context.options.unread_names
    if scaled or is_unread or is_template_variable(scaler.name, subject, context):
        return
    target = scaler.kind.rpartition("/")[2]
    if scaler.kind in _NOT_SCALED:
        message = f"{target} {cut(scaler.name, _SHOWN)} has no subresource scale: the object has no effect"
        yield Problem(message, ("spec", "scaleTargetRef"), "remove the object, or name a Deployment or StatefulSet")
        return
    near = min(named, key=lambda each: each.ref.kind.lower() != target.lower(), default=None)
    meant = names.meant(scaler.name) if near is None and len(scaler.name) >= _DISTINCT else ""
    key = subject.effective_namespace, meant
    if meant and key not in context.once(scalers_of_workloads) and context.once(_suggested)[key] == 1:
        near = next((each for each in by_name[meant] if group_kind(each.object) == scaler.kind), None)
    if near is not None:
        yield from _meant_target(near, scaler)
    elif not by_name and namespace_of(subject.object):
        yield from _other_namespace_problems(subject, scaler, context)


def _meant_target(near: ReviewedObject, scaler: Scaler) -> Iterator[Problem]:
    """Report a target that is absent. `near`: the workload that is probably meant."""
    group, _, target = scaler.kind.rpartition("/")
    who = f"{near.ref.kind} {cut(near.ref.name, _SHOWN)}"
    if (near.ref.kind, near.ref.name) == (target, scaler.name):
        if not group:
            return  # kube-apiserver rejects it
        target, who = f"{group}/{target}", group_kind(near.object)
    message = f"no {target} {cut(scaler.name, _SHOWN)} in this input. Did you mean {who}?"
    version = near.object.get("apiVersion")
    version = removed.replacement if (removed := removed_version(version, near.ref.kind)) else version
    fix = f"write apiVersion: {version}, kind: {near.ref.kind} and name: {near.ref.name}"
    wrong = "name" if near.ref.name != scaler.name else "kind" if near.ref.kind != target else "apiVersion"
    yield Problem(message, ("spec", "scaleTargetRef", wrong), fix)


def _other_namespace_problems(subject: ReviewedObject, scaler: Scaler, context: Context) -> Iterator[Problem]:
    """Report the namespace of the only workload with the name of the target, beside an object in a namespace without
    workloads.
    """
    named = context.once(_scalable_by_name).get(scaler.name, ())
    found = [each for each in named if group_kind(each.object) == scaler.kind]
    if len(found) == 1 and namespace_of(found[0].object):
        directories = {os.path.dirname(each.locate(()).file) for each in (subject, found[0])}
        own, other = (cut(each.effective_namespace, _SHOWN) for each in (subject, found[0]))
        if len(directories) == 1 and not is_template_variable(own, subject, context):
            message = f"namespace {own} has no {found[0].ref.kind} {cut(scaler.name, _SHOWN)}; it is in {other}"
            yield Problem(message, ("metadata", "namespace"), f"set namespace: {other}")


def _replicas_set(workload: ReviewedObject, scaler: Scaler, context: Context) -> Iterator[Problem]:
    """Report a number of replicas that the scaler changes after each apply: one that is not within its limits, or above
    its minimum, a note if the workload itself sets it or values may switch the scaler off. Of 0 replicas, it scales
    nothing.
    """
    least, most = scaler.minimum, scaler.maximum
    replicas = at(workload.object, "spec", "replicas")
    if type(replicas) is not int or not replicas or least is None or most is None or context.options.keeps_replicas:
        return
    place, severity = workload.locate(("spec", "replicas")), None
    who = f"{scaler.subject.ref.kind} {cut(scaler.subject.ref.name, _SHOWN)}"
    message, fix = (
        f"replicas {replicas} undoes the scaling by {who} at each apply",
        f"remove it, or patch {scaler.limits[0][-1]}",
    )
    if not least <= replicas <= most:
        how, limit, path = ("above", most, scaler.limits[1]) if replicas > most else ("below", least, scaler.limits[0])
        message = f"replicas {replicas} is {how} {path[-1]} {limit} of {who}: each apply undoes the scaling"
        fix = f"remove replicas, or change {path[-1]}"
    elif replicas == least:
        return
    elif place.file == workload.locate(()).file:
        severity, fix = Severity.NOTE, "remove replicas"
    severity = Severity.NOTE if scaler.subject.is_optional else severity
    yield Problem(message, (), fix, location=place, object=workload.ref, severity=severity)


def _scaled_vertically(subject: ReviewedObject, workload: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Report a utilization of requests that a VerticalPodAutoscaler changes."""
    key = subject.effective_namespace, workload.ref.kind, workload.ref.name
    for other in context.once(_vertical_autoscalers).get(key, ())[:1]:
        policies = [{}, *list_at(other.object, "spec", "resourcePolicy", "containerPolicies")]
        controlled = set.intersection(*map(_controlled_by, policies))
        for path, metric in _utilizations(subject):
            if (resource := text_at(metric, "name")) in controlled:
                who = f"VerticalPodAutoscaler {cut(other.ref.name, _SHOWN)}"
                message = f"{who} changes the requests for {resource}, and with them the utilization"
                fix = f'set updateMode: "Off", or controlledResources without {resource}'  # YAML 1.1 reads Off as false
                yield Problem(message, path, fix)


def _vertical_autoscalers(context: Context) -> Mapping[tuple[str, ...], Sequence[ReviewedObject]]:
    """Return those that change requests, by namespace, kind and name of their workload."""
    found: dict[tuple[str, ...], list[ReviewedObject]] = defaultdict(list)
    for each in context.of_kind(VERTICAL_AUTOSCALER):
        if at(each.object, "spec", "updatePolicy", "updateMode") not in ("Off", "Initial"):
            target = mapping_at(each.object, "spec", "targetRef")
            found[each.effective_namespace, text_at(target, "kind"), text_at(target, "name")].append(each)
    return found


def _controlled_by(policy: ApiObject) -> set[str]:
    """Return the resources whose requests a policy for containers changes."""
    if at(policy, "mode") == "Off":
        return set()
    return {each for each in list_at(policy, "controlledResources") if isinstance(each, str)} or {"cpu", "memory"}


def _second(subject: ReviewedObject, scaler: Scaler, context: Context) -> Iterator[Problem]:
    """Report a scaler of a workload that an earlier one scales, if both are certainly applied; others may be
    alternatives.
    """
    scalers = context.once(scalers_of_workloads).get((subject.effective_namespace, scaler.name), ())
    same = (other.subject for other in scalers if other.kind == scaler.kind and scaler.name)
    first = next((other for other in islice(same, _MAX_COMPARED) if _is_applied_with(other, subject, context)), subject)
    if first.ref == subject.ref or any(at(each.object, *_TAKES_OVER) for each in (subject, first)):
        return
    kinds = [group_kind(each.object) for each in (subject, first)]
    effect = "KEDA allows one" if SCALED_OBJECT in kinds else "neither scales (AmbiguousSelector)"
    message = f"{first.ref.kind} {cut(first.ref.name, _SHOWN)} scales the same workload: {effect}"
    yield Problem(message, ("spec", "scaleTargetRef", "name"), "remove one of both")


def _is_applied_with(other: ReviewedObject, subject: ReviewedObject, context: Context) -> bool:
    """Report whether two objects of a group are applied together: they are in one file, one kustomization builds them,
    or both name their namespace, and no directory of them is a test, an example or an alternative of another one.
    """
    files = {os.path.normpath(each.locate(()).file) for each in (other, subject)}
    if len(files) == 1 or other.builds or subject.builds:
        return len(files) == 1 or not other.builds.isdisjoint(subject.builds)
    if not all(text_at(each.object, "metadata", "namespace") for each in (other, subject)):
        return False
    if len(set(map(os.path.dirname, files))) == 1:
        return True
    alternatives = [os.path.join(each, "") for each in context.options.alternatives]
    return not (
        subject.is_left_out
        or any(map(is_test_file, files))
        or any(file.startswith(directory) for file in files for directory in alternatives)
    )


def _vertical_problems(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Report policies of the first VerticalPodAutoscaler of a workload for containers that it lacks."""
    target = mapping_at(subject.object, "spec", "targetRef")
    key = subject.effective_namespace, text_at(target, "kind"), text_at(target, "name")
    by_name, _ = context.once(_scalable_by_namespace).get(key[0], _NONE)
    workloads = [each for each in by_name.get(key[2], ()) if each.ref.kind == key[1]]
    if len(workloads) == 1 and context.once(_vertical_autoscalers).get(key, (None,))[0] is subject:
        yield from _without_container(subject, workloads[0], context)


def _without_container(subject: ReviewedObject, workload: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Report the first container that an autoscaler names and the workload lacks, unless a webhook may inject it.

    Source: pkg/controller/podautoscaler/metrics/client.go, getContainerMetrics.
    """
    template = context.template(workload)
    if template is None or workload.is_partial or lacks_images(template):
        return
    names = sorted({text_at(each, "name") for each in _containers(template.spec)})
    known = {*names, "*", ""}
    for steps, effect in _NAMES_OF_CONTAINERS:
        for path, name in found_at(subject.object, steps):
            is_metric = path[1] != "triggers" or at(subject.object, *path[:3], "type") in _RESOURCES
            if (
                not isinstance(name, str)
                or name in known
                or not is_metric
                or is_template_variable(name, subject, context)
            ):
                continue
            meant = Names(names, context.once(Lookups)).meant(name) or (names[0] if len(names) == 1 else "")
            if meant or not _INJECTED.fullmatch(name):
                who = f"{workload.ref.kind} {cut(workload.ref.name, _SHOWN)} has no container {cut(name, _SHOWN)}"
                fix = f"write {path[-1]}: {meant}" if meant else f"write the name of a container: {listed(names)}"
                yield Problem(f"{who}: {effect}", path, fix)
                return


_NO_METRIC: Final = "the metric is unknown"
_NAMES_OF_CONTAINERS: Final = (
    (("spec", "metrics", ITEMS, "containerResource", "container"), _NO_METRIC),
    (("spec", "triggers", ITEMS, "metadata", "containerName"), _NO_METRIC),
    (("spec", "scaleTargetRef", "envSourceContainerName"), "KEDA cannot read its environment"),
    (("spec", "resourcePolicy", "containerPolicies", ITEMS, "containerName"), "the policy has no effect"),
)
_RESOURCES: Final = ("cpu", "memory")
"""Triggers of KEDA with a metric of a container."""
_INJECTED: Final = later(r"daprd|envoy|otc-container|consul-dataplane|.*(?:proxy|agent|sidecar).*")
"""Names of containers that webhooks inject."""


def _containers(spec: ApiObject) -> Sequence[ApiObject]:
    """Return the containers of a Pod that run side by side."""
    sidecars = (each for each in list_at(spec, "initContainers") if at(each, "restartPolicy") == "Always")
    return [*list_at(spec, "containers"), *sidecars]


def _without_request(subject: ReviewedObject, workload: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Report the first container that lacks the request of a resource of which the utilization counts.

    Source: pkg/controller/podautoscaler/replica_calculator.go, calculatePodRequestsFromContainers.
    """
    template = context.template(workload)
    if template is None or at(template.spec, "resources") is not None:
        return
    from forewarn.policies.kubernetes.cluster.admission import with_limit_range_defaults  # few inputs have any

    ranges = context.limit_ranges_of(workload.effective_namespace)
    pod = with_limit_range_defaults({"spec": template.spec}, ranges, context.semantics)
    containers = _containers(mapping_at(pod, "spec"))
    for path, metric in _utilizations(subject):
        resource, only = text_at(metric, "name"), at(metric, "container")
        for container in containers if resource else ():
            is_requested = any(at(container, "resources", kind, resource) for kind in ("requests", "limits"))
            if not is_requested and only in (None, at(container, "name")):
                who = f"container {cut(text_at(container, 'name'), _SHOWN)} of the {workload.ref.kind}"
                message = f"{who} has no request for {cut(resource, _SHOWN)}: its utilization is unknown"
                yield Problem(message, path, f"set resources.requests.{resource} of the container")
                return


def _utilizations(subject: ReviewedObject) -> Iterator[tuple[Path, ApiObject]]:
    """Yield the metrics of a HorizontalPodAutoscaler that are percentages of requests, with their paths."""
    if at(subject.object, "spec", "targetCPUUtilizationPercentage") is not None:
        yield ("spec", "targetCPUUtilizationPercentage"), {"name": "cpu"}
    for number, metric in enumerate(list_at(subject.object, "spec", "metrics")):
        for kind in ("resource", "containerResource"):
            if at(metric, kind, "target", "type") == "Utilization":
                yield ("spec", "metrics", number, kind), mapping_at(metric, kind)


_TAKES_OVER: Final = ("metadata", "annotations", "scaledobject.keda.sh/transfer-hpa-ownership")
_DISTINCT: Final = 4
"""The minimum length of a name of which another one with a different letter is a misspelling."""


def _suggested(context: Context) -> Counter[tuple[str, str]]:
    """Count the names of absent workloads by namespace and the workload whose name is similar."""
    workloads = context.once(_scalable_by_namespace)
    absent = [
        (namespace, name, workloads[namespace][1])
        for namespace, name in context.once(scalers_of_workloads)
        if namespace in workloads and name not in workloads[namespace][0]
    ]
    return Counter((namespace, names.meant(name)) for namespace, name, names in absent)


_NONE: Final = (dict[str, list["ReviewedObject"]](), Names(()))


def _scalable_by_name(context: Context) -> Mapping[str, Sequence[ReviewedObject]]:
    """Return, by name, the workloads that can be scaled."""
    return grouped((each.ref.name, each) for kind in _SCALED for each in context.of_kind(kind))


def _scalable_by_namespace(context: Context) -> Mapping[str, tuple[Mapping[str, Sequence[ReviewedObject]], Names]]:
    """Return the workloads that can be scaled by namespace and name, and the names for lookups of similar ones."""
    scaled = grouped((each.effective_namespace, each) for kind in _SCALED for each in context.of_kind(kind))
    named = {namespace: grouped((each.ref.name, each) for each in group) for namespace, group in scaled.items()}
    return {namespace: (names, Names(names, context.once(Lookups))) for namespace, names in named.items()}
