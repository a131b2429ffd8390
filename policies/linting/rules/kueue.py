"""Rules about Kueue: classes of workloads, and queues."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.base.copies import replace
from forewarn.policies.base.findings import Action, Path, Problem, Severity, Text, cut, listed, plural, quote
from forewarn.policies.kubernetes.kinds import registry
from forewarn.policies.kubernetes.kinds.class_paths import ITEMS, found_at
from forewarn.policies.kubernetes.objects.fields import (
    INT32,
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    list_at,
    mapping_at,
    namespace_of,
    text_at,
)
from forewarn.policies.kubernetes.objects.namespace import NAME_LABEL
from forewarn.policies.kubernetes.objects.reviewed_object import Operation, ReviewedObject
from forewarn.policies.kubernetes.objects.workload import parts_of
from forewarn.policies.kubernetes.selectors import parse_label_selector
from forewarn.policies.linting.rules.support.context import POD_OR_TEMPLATE, Context, Phase, Target, rule
from forewarn.policies.linting.rules.support.names import Names, is_misspelt, kueue_names, suggested, workload_classes
from forewarn.policies.linting.rules.support.rule_text import (
    autoscaler_of,
    class_name,
    integer,
    is_template_variable,
    name_of,
    resolved,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.workload import PodTemplate
    from forewarn.policies.kubernetes.quantity import Quantity
    from forewarn.policies.prediction.kueue.flavor_assigner import WhyNot
    from forewarn.policies.prediction.kueue.snapshot import Objects

_SHOWN: Final = 60
_LABEL: Final = ("metadata", "labels", registry.WORKLOAD_PRIORITY_CLASS_LABEL)
_ANNOTATION: Final = ("metadata", "annotations", registry.WORKLOAD_PRIORITY_CLASS_LABEL)
_QUEUE_LABEL: Final[Path] = ("metadata", "labels", registry.QUEUE_LABEL)


@rule(*POD_OR_TEMPLATE, Target.OTHER, severity=Severity.ERROR, depends_on=("queues",))
def unknown_workload_priority_class(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A workload names a WorkloadPriorityClass of Kueue that the input does not define.

    Why: Kueue creates no Workload for such an object, so a Job that Kueue manages stays suspended.

    Details: the rule checks the label `kueue.x-k8s.io/priority-class` if the input defines a WorkloadPriorityClass.

    Example:

          apiVersion: kueue.x-k8s.io/v1beta1
          kind: WorkloadPriorityClass
          metadata:
            name: research
          value: 1000
          ---
          Job ml/train
            labels:
              kueue.x-k8s.io/queue-name: team
        -     kueue.x-k8s.io/priority-class: reserach
        +     kueue.x-k8s.io/priority-class: research

    Fix: create the class first, or use an existing class.
    """
    name = text_at(subject.object, *_LABEL)
    names, unread = context.once(workload_classes) if name else None, context.options.unread_names
    if not names or name in names or name in unread or is_template_variable(name, subject, context):
        return
    if any(defined.priority_class.name == name for _, defined in context.defined):
        message = f"{quote(name)} is a PriorityClass, not a WorkloadPriorityClass: Kueue creates no Workload"
        fix = f"create a WorkloadPriorityClass, or set priorityClassName: {name}"
        template = context.template(subject)
        if template is not None and template.spec.get("priorityClassName") == name:
            fix = f"name a WorkloadPriorityClass; known: {listed(names.sorted)}"
        yield Problem(message, _LABEL, fix, severity=Severity.WARNING)
        return
    meant = names.nearest_name(name)
    yield Problem(
        Text(
            f"WorkloadPriorityClass {quote(name)} not found in this input{_cluster_words(context)}",
            f"create it, or use {quote(meant)}" if meant else "create it, or use one that exists",
            (f"Did you mean {quote(meant)}?",) if meant else (),
        ),
        _LABEL,
        detail={"class": name},
        severity=None if _cluster_words(context) or (meant and is_misspelt(name, meant)) else Severity.WARNING,
    )


@rule(*POD_OR_TEMPLATE, Target.OTHER, severity=Severity.WARNING, depends_on=("queues",))
def unknown_queue(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A workload, LocalQueue or ClusterQueue of Kueue names a queue or ResourceFlavor that does not exist.

    Why: Kueue does not admit workloads of an unknown queue, or of a ClusterQueue with an unknown flavor, so the Job
    stays suspended.

    Details: without a cluster that has Kueue, the rule checks the names of LocalQueues and ClusterQueues if the input
    defines queues of this kind in the namespace. It checks a ResourceFlavor if its name is similar to one in the input.

    Example:

          apiVersion: kueue.x-k8s.io/v1beta1
          kind: LocalQueue
          metadata:
            name: research
            namespace: ml
          spec:
            clusterQueue: all
          ---
          Job ml/train
            labels:
        -     kueue.x-k8s.io/queue-name: reserach
        +     kueue.x-k8s.io/queue-name: research

    Fix: write the name of an existing object.
    """
    for kind, namespace, name, path in _references(subject):
        names = context.once(kueue_names).get((kind, namespace), Names(()))
        if name in names or name in context.options.unread_names or is_template_variable(name, subject, context):
            continue
        near, in_cluster = names.meant(name), _cluster_words(context)
        if kind == registry.LOCAL_QUEUE and not near and (elsewhere := _elsewhere(name, namespace, subject, context)):
            yield Problem(f"no LocalQueue {quote(name)} in namespace {namespace}: {elsewhere[0]}", path, elsewhere[1])
        elif near or in_cluster or (names.sorted and kind != registry.RESOURCE_FLAVOR):
            hint = f". Did you mean {quote(near)}?" if near else ""
            fix = f"write {near}" if near else "create it, or write the name of another one"
            yield Problem(f"no {kind.rpartition('/')[2]} {quote(name)} in this input{in_cluster}{hint}", path, fix)


def _elsewhere(name: str, namespace: str, subject: ReviewedObject, context: Context) -> tuple[str, str] | None:
    """Return what else has the name of a LocalQueue, and the fix; None if nothing has it."""
    queues, places = context.once(_local_queues)
    if name in context.once(kueue_names).get((registry.CLUSTER_QUEUE, ""), ()):
        own = queues.get((namespace, name))
        return "this is a ClusterQueue", f"write {own}" if own else "create a LocalQueue of it, and write its name"
    place = places.get(name)
    if not place or not namespace_of(subject.object):
        return None
    return f"it is in {place}", f"create one in {namespace}, or write the name of another one"


def _local_queues(context: Context) -> tuple[Mapping[tuple[str, str], str], Mapping[str, str]]:
    """Return the first LocalQueue of each (namespace, ClusterQueue), and the first namespace of each LocalQueue's name;
    "" if a LocalQueue with this name has none in its file.
    """
    own, places = dict[tuple[str, str], str](), dict[str, str]()
    for each in context.of_kind(registry.LOCAL_QUEUE):
        name, place = each.ref.name, namespace_of(each.object)
        own.setdefault((each.effective_namespace, text_at(each.object, "spec", "clusterQueue")), name)
        places[name] = places.get(name, place) if place else ""
    return own, places


def _cluster_words(context: Context) -> str:
    """Return words for a cluster whose objects of Kueue are known; "" without one."""
    return " or the cluster" if context.cluster is not None and context.cluster.kueue.get(registry.LOCAL_QUEUE) else ""


_NAMED: Final = {
    registry.LOCAL_QUEUE: (registry.CLUSTER_QUEUE, ""),
    registry.CLUSTER_QUEUE: (registry.RESOURCE_FLAVOR, ""),
}


def _references(subject: ReviewedObject) -> Iterator[tuple[str, str, str, Path]]:
    """Yield the kind, namespace ("" for none) and name of objects of Kueue that an object names, and the field."""
    kind = group_kind(subject.object)
    paths: list[Path] = [_QUEUE_LABEL]
    if kind == registry.LOCAL_QUEUE:
        paths = [("spec", "clusterQueue")]
    elif kind == registry.CLUSTER_QUEUE:
        paths = [(*path, "name") for path, _ in _flavors(subject)]
    named, namespace = _NAMED.get(kind, (registry.LOCAL_QUEUE, subject.effective_namespace))
    names = ((at(subject.object, *path), path) for path in paths)
    yield from ((named, namespace, name, path) for name, path in names if isinstance(name, str))


@rule(*POD_OR_TEMPLATE, Target.OTHER, severity=Severity.WARNING)
def workload_priority_class_misplaced(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A WorkloadPriorityClass of Kueue has no effect, is mistaken for a PriorityClass, or contradicts it.

    Why: Kueue reads the WorkloadPriorityClass only from the label `kueue.x-k8s.io/priority-class`, and orders its queue
    by it; kube-scheduler does not read it. kube-apiserver reads the PriorityClass of the Pod template, and rejects Pods
    whose class does not exist.

    Example:

          apiVersion: kueue.x-k8s.io/v1beta1
          kind: WorkloadPriorityClass
          metadata:
            name: research
          value: 1000
          ---
          Job ml/train
            labels:
              kueue.x-k8s.io/queue-name: team
        +     kueue.x-k8s.io/priority-class: research
        -   annotations:
        -     kueue.x-k8s.io/priority-class: research

    Fix: set the label `kueue.x-k8s.io/priority-class` to the WorkloadPriorityClass, and `priorityClassName` to a
    PriorityClass.
    """
    if not text_at(subject.object, *_LABEL) and text_at(subject.object, *_ANNOTATION):
        message = f"annotation {_ANNOTATION[-1]}: Kueue reads only the label of this name"
        yield Problem(message, _ANNOTATION, "make it a label")
    template, names = context.template(subject), context.once(_values)
    if template is not None and names and (name := class_name(template)) in names and not context.is_known(name):
        consequence = "its Pods are rejected" if context.classes_complete else "no PriorityClass of this input"
        message = f"{quote(name)} is a WorkloadPriorityClass of Kueue, not a PriorityClass: {consequence}"
        fix = f"set the label {registry.WORKLOAD_PRIORITY_CLASS_LABEL}: {name} instead"
        yield Problem(message, template.at("priorityClassName"), fix)
    if template is not None and names:
        yield from _contradiction(subject, template, context)


def _contradiction(subject: ReviewedObject, template: PodTemplate, context: Context) -> Iterator[Problem]:
    """Yield a workload that Kueue puts first and kube-scheduler behind Pods without a class."""
    label = text_at(subject.object, *_LABEL)
    value, computed = context.once(_values).get(label), resolved(template, context)
    if value is not None and computed is not None and computed.priority < 0 < value:
        which = f"those of priority {computed.priority}"
        message = f"Kueue orders by {quote(label)} ({value}), but other Pods can preempt {which}"
        fix = "set a PriorityClass of 0 or more, or none"
        yield Problem(message, template.at("priorityClassName"), fix, severity=Severity.NOTE)


def _values(context: Context) -> Mapping[str, int | None]:
    """Return the values of the WorkloadPriorityClasses of the input by name; None for an invalid value."""
    classes = context.of_kind(registry.WORKLOAD_PRIORITY_CLASS)
    return {name_of(each): integer(each.object.get("value")) for each in classes}


@rule(Target.OTHER, severity=Severity.ERROR, objects={Target.OTHER: "WorkloadPriorityClasses"})
def workload_priority_class_invalid(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The value of a WorkloadPriorityClass of Kueue is absent, or no integer of 32 bits.

    Why: the schema of the kind requires an integer of 32 bits, so kube-apiserver rejects the object.

    Bad:

        apiVersion: kueue.x-k8s.io/v1beta1
        kind: WorkloadPriorityClass
        metadata:
          name: research
        value: "1000"

    Good:

        apiVersion: kueue.x-k8s.io/v1beta1
        kind: WorkloadPriorityClass
        metadata:
          name: research
        value: 1000

    Fix: write an integer without quotes.
    """
    value = subject.object.get("value")
    if group_kind(subject.object) != registry.WORKLOAD_PRIORITY_CLASS or integer(value) is not None:
        return
    if not is_template_variable(str(value), subject, context):
        numbers = f"an integer from {INT32[0]} to {INT32[-1]}"
        what = "no value" if value is None else f"value must be {numbers}"
        yield Problem(f"{what}: kube-apiserver rejects the class", ("value",), f"write {numbers}, without quotes")


def _flavors(subject: ReviewedObject) -> Iterator[tuple[Path, Any]]:
    """Yield the flavors of a ClusterQueue or Cohort, each with its path."""
    for group_index, group in enumerate(list_at(subject.object, "spec", "resourceGroups")):
        for index, flavor in enumerate(list_at(group, "flavors")):
            yield ("spec", "resourceGroups", group_index, "flavors", index), flavor


@rule(
    Target.OTHER,
    severity=Severity.ERROR,
    depends_on=("nodes",),
    objects={Target.OTHER: "ClusterQueues and Cohorts of Kueue"},
)
def cluster_queue_without_effect(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A ClusterQueue of Kueue does not preempt, its quota is invalid or exceeds the nodes, or its Cohorts form a cycle.

    Why: without `preemption`, WorkloadPriorityClasses only order the queue: workloads that Kueue has admitted keep
    their quota. If the quota exceeds the nodes, Kueue admits workloads whose Pods then stay Pending. Kueue rejects
    negative quotas and unknown policies, and a ClusterQueue below a cycle of Cohorts admits nothing: these findings are
    errors.

    Details: the rule compares the quota with the nodes if you pass a cluster. This finding is a warning, or a note if
    the cluster has an autoscaler. The finding about `preemption` is a note. The rule ignores resources that no node
    has.

    Cluster:

        Node gpu-1
        status:
          allocatable:
            nvidia.com/gpu: 8

    Example:

          apiVersion: kueue.x-k8s.io/v1beta1
          kind: ClusterQueue
          metadata:
            name: team
          spec:
            resourceGroups:
            - coveredResources: [nvidia.com/gpu]
              flavors:
              - name: default
                resources:
                - name: nvidia.com/gpu
        -         nominalQuota: 16
        -         borrowingLimit: -1
        +         nominalQuota: 8
        +         borrowingLimit: 0

    Fix: set `preemption.withinClusterQueue: LowerPriority`, and lower `nominalQuota` to what the nodes have.
    """
    kind = group_kind(subject.object)
    if kind not in (registry.CLUSTER_QUEUE, registry.COHORT):
        return
    yield from _invalid_quotas(subject)
    yield from _invalid_policies(subject, context)
    if kind == registry.COHORT:
        if name_of(subject) in context.once(_cohorts_in_cycles):
            message = "the parents of this Cohort form a cycle: Kueue admits nothing in its ClusterQueues"
            yield Problem(message, ("spec", "parentName"), "remove the parentName of one of them")
        return
    policy = text_at(subject.object, "spec", "preemption", "withinClusterQueue")
    if policy in ("", "Never") and context.of_kind(registry.WORKLOAD_PRIORITY_CLASS):
        message = "no preemption.withinClusterQueue: WorkloadPriorityClasses only order the queue"
        yield Problem(message, ("spec",), "set preemption.withinClusterQueue: LowerPriority", severity=Severity.NOTE)
    nodes = context.cluster.objects.nodes.values() if context.cluster else ()
    severity = Severity.NOTE if context.cluster and autoscaler_of(context.cluster) else Severity.WARNING
    for name, quota, available in _resources_above_nodes(subject, nodes) if nodes else ():
        message = f"nominalQuota of {name} is {quota}, but the nodes have {available}: Pods stay Pending"
        yield Problem(message, ("spec", "resourceGroups"), f"lower nominalQuota to {available}", severity=severity)


_POLICIES: Final[Mapping[tuple[str, ...], Sequence[str]]] = {
    ("preemption", "withinClusterQueue"): ("LowerOrNewerEqualPriority", "LowerPriority", "Never"),
    ("preemption", "reclaimWithinCohort"): ("Any", "LowerPriority", "Never"),
    ("preemption", "borrowWithinCohort", "policy"): ("LowerPriority", "Never"),
    ("queueingStrategy",): ("BestEffortFIFO", "StrictFIFO"),
    ("stopPolicy",): ("Hold", "HoldAndDrain", "None"),
}
"""Field of a ClusterQueue -> its values. Source: kueue apis/kueue/v1beta2/clusterqueue_types.go."""


def _invalid_policies(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield the policies that the schema of a ClusterQueue does not have."""
    for field, values in _POLICIES.items():
        path = ("spec", *field)
        value = at(subject.object, *path)
        is_variable = is_template_variable(value, subject, context, str(values))
        if value is not None and value not in values and not is_variable:
            message = (
                f"{'.'.join(field)}: unsupported value {quote(cut(str(value), _SHOWN))}{suggested(str(value), values)}"
            )
            yield Problem(message, path, f"write {', '.join(values[:-1])} or {values[-1]}")


def _invalid_quotas(subject: ReviewedObject) -> Iterator[Problem]:
    from forewarn.policies.kubernetes.quantity import ZERO, InvalidQuantity, parse_quantity  # few inputs have queues

    for path, flavor in _flavors(subject):
        for index, resource in enumerate(list_at(flavor, "resources")):
            for limit in ("nominalQuota", "borrowingLimit", "lendingLimit"):
                if (value := at(resource, limit)) is None:
                    continue
                try:
                    is_valid = parse_quantity(value) >= ZERO
                except InvalidQuantity:
                    is_valid = False
                if not is_valid:
                    message = f"{limit} must be a quantity of 0 or more: kube-apiserver or Kueue rejects the object"
                    place = (*path, "resources", index, limit)
                    yield Problem(message, place, "write a quantity such as 4")


def _cohorts_in_cycles(context: Context) -> Collection[str]:
    """Return the names of Cohorts in or below a cycle, in the input and the cluster together."""
    from forewarn.policies.kubernetes.objects.kueue import Cohort  # few inputs have Cohorts
    from forewarn.policies.prediction.kueue.snapshot import cohorts_with_cycle

    stored = context.cluster.kueue.get(registry.COHORT, {}) if context.cluster is not None else {}
    cohorts = {each.name: each for each in stored.values()}
    for each in context.of_kind(registry.COHORT):
        parent = text_at(each.object, "spec", "parentName") or text_at(each.object, "spec", "parent")
        cohorts[name_of(each)] = Cohort(name_of(each), parent)
    return cohorts_with_cycle(cohorts)


def _resources_above_nodes(
    subject: ReviewedObject, nodes: Collection[Node]
) -> Iterator[tuple[str, Quantity, Quantity]]:
    """Yield the resources of which all flavors together have more than the nodes, both amounts.

    Skips resources that no node has.
    """
    from forewarn.policies.kubernetes.quantity import (  # few inputs have queues
        MILLI,
        NANO,
        ZERO,
        InvalidQuantity,
        Quantity,
        parse_quantity,
    )

    totals: dict[str, Quantity] = {}
    for resource in (each for _, flavor in _flavors(subject) for each in list_at(flavor, "resources")):
        with suppress(InvalidQuantity):
            amount = parse_quantity(str(at(resource, "nominalQuota")))
            name = text_at(resource, "name")
            totals[name] = totals.get(name, ZERO) + amount
    for name, quota in totals.items():
        unit = MILLI if name == "cpu" else NANO
        available = Quantity(unit * sum(_allocatable(node, name) for node in nodes), quota.format)
        if ZERO < available < quota:
            yield name, quota, available


def _allocatable(node: Node, name: str) -> int:
    """Return the amount of a resource that a node has for Pods: cpu in thousandths, others in units."""
    has = node.allocatable
    amounts = {
        "cpu": has.milli_cpu,
        "memory": has.memory,
        "ephemeral-storage": has.ephemeral_storage,
        "pods": has.allowed_pod_number,
    }
    return amounts.get(name, has.scalars.get(name, 0))


@rule(
    Target.TEMPLATE,
    Target.POD,
    Target.OTHER,
    severity=Severity.WARNING,
    action=Action.WARN,
    depends_on=("queues",),
    objects={
        Target.TEMPLATE: "workloads in LocalQueues of Kueue",
        Target.POD: "Pods in LocalQueues of Kueue",
        Target.OTHER: "custom resources in LocalQueues of Kueue",
    },
)
def kueue_admission(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Kueue would preempt Workloads for a new Job, or the Job would wait for quota, or never start.

    Why: Kueue creates a Job suspended, and starts it when its ClusterQueue has quota for all resources that it
    requests. Preempted Workloads lose all their Pods, and their Jobs are suspended.

    Details: the linter compares workloads with the queues of the input, and of the cluster if you pass one. A workload
    never starts if its ClusterQueue does not cover a resource, or has less quota than the workload requests. The same
    holds if no ResourceFlavor suits its Pods, or the ClusterQueue does not select its namespace. If cpu, memory or
    ephemeral-storage are not covered, the finding is a note, because the configuration of Kueue may exclude them. The
    rest of the rule is about Jobs, and needs `--cluster`. `forewarn predict` names the Workloads, and what is not
    predicted.

    Cluster:

        ResourceFlavor default
        spec: {}
        ---
        ClusterQueue team
        spec:
          namespaceSelector: {}
          resourceGroups:
          - coveredResources: [cpu]
            flavors:
            - name: default
              resources:
              - name: cpu
                nominalQuota: 4
        ---
        LocalQueue ml/team
        spec:
          clusterQueue: team

    Example:

          Job ml/train
            labels:
              kueue.x-k8s.io/queue-name: team
          spec:
            template:
              spec:
                restartPolicy: Never
                containers:
                - name: train
                  image: train
                  resources:
        -           requests: {cpu: 8}
        +           requests: {cpu: 4}

    Fix: request less, lower the priority of the Job, or raise the quota of the ClusterQueue.
    """
    if not at(subject.object, *_QUEUE_LABEL):
        return
    never = next(_never(subject, context), None) if context.phase is Phase.LINT else None
    if never is not None:
        yield never
    elif (
        context.cluster is not None
        and subject.operation is Operation.CREATE
        and context.cluster.kueue.get(registry.LOCAL_QUEUE)
    ):
        yield from _decided(subject, context.cluster, context.phase)


def _never(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield why Kueue never starts a workload, even without other ones."""
    from forewarn.policies.prediction.kueue.forecast import forecast_alone  # few inputs have queues
    from forewarn.policies.prediction.kueue.workload import smallest_workload, workload_from_job

    objects, obj, namespace = context.once(_queues), subject.object, subject.effective_namespace
    whole = context.template(subject)
    templates = [whole] if whole else [*parts_of(obj, context.options.class_paths)]
    queue = objects.local_queues.get(f"{namespace}/{text_at(obj, *_QUEUE_LABEL)}")
    cluster_queue = objects.cluster_queues.get(queue.cluster_queue) if queue else None
    if cluster_queue is None or not templates or any(each.named for each in templates):
        return
    own = {**obj, "metadata": {**mapping_at(obj, "metadata"), "namespace": namespace}}
    is_job = group_kind(obj) == registry.JOB
    workload = workload_from_job(own, None, 0) if is_job else smallest_workload(own, templates)
    result = forecast_alone(_objects_for_namespace(objects, namespace, context), workload)
    who = f"ClusterQueue {cut(cluster_queue.name, _SHOWN)}"
    if result.admission is not None or result.not_predicted is not None:
        return
    if result.message and "selector" in result.message:
        message = f"Kueue never starts it: {who} does not select namespace {cut(namespace, _SHOWN)}"
        yield Problem(message, _QUEUE_LABEL, "set namespaceSelector: {} in the ClusterQueue, or label the namespace")
    elif resource := next((each.resource for each in result.reasons if each.resource), ""):
        path = next(_requests_of(resource, templates), _QUEUE_LABEL)
        is_excludable = resource in _OFTEN_EXCLUDED and not _cluster_words(context)
        severity = Severity.NOTE if is_excludable else None
        fix = f"add {resource} to coveredResources, with a nominalQuota"
        yield Problem(f"Kueue never starts it: {who} has no quota for {resource}", path, fix, severity=severity)
    elif result.reasons and (_cluster_words(context) or not cluster_queue.cohort):  # others may lend to it
        yield _flavor_problem(result.reasons)


def _flavor_problem(reasons: Sequence[WhyNot]) -> Problem:
    """Return the problem of a workload for which no flavor suits."""
    shorts = listed([f"{each.short}{f' (flavor {each.flavor})' * bool(each.flavor)}" for each in reasons], 2)
    is_quota = any("possible" in each.short for each in reasons)
    fix = "request less, or raise the quota" if is_quota else "change the constraints of the Pods, or the flavor"
    return Problem(f"Kueue never starts it: {shorts}", _QUEUE_LABEL, fix)


def _requests_of(resource: str, templates: Sequence[PodTemplate]) -> Iterator[Path]:
    """Yield where containers request a resource."""
    for template in templates:
        for kind in ("requests", "limits"):
            for path, amounts in found_at(template.spec, ("containers", ITEMS, "resources", kind)):
                if resource in amounts:
                    yield template.at(*path, resource)


_OFTEN_EXCLUDED: Final = ("cpu", "memory", "ephemeral-storage")


def _queues(context: Context) -> Objects:
    """Return Kueue's objects after the change set, with empty flavors for those that the input lacks."""
    from forewarn.policies.kubernetes.objects import kueue
    from forewarn.policies.prediction.kueue.snapshot import TABLES, Objects, objects_of

    objects = (objects_of(context.cluster) if context.cluster is not None else None) or Objects()
    views: Mapping[str, Callable[[ApiObject], Any]] = {
        registry.RESOURCE_FLAVOR: kueue.ResourceFlavor.from_api,
        registry.CLUSTER_QUEUE: kueue.ClusterQueue.from_api,
        registry.COHORT: kueue.Cohort.from_api,
        registry.LOCAL_QUEUE: kueue.LocalQueue.from_api,
    }
    for kind, view in views.items():
        for subject in context.of_kind(kind):
            with suppress(InvalidObject):
                new = view(subject.object)
                if kind == registry.LOCAL_QUEUE:
                    new = replace(new, namespace=subject.effective_namespace)
                getattr(objects, TABLES[kind])[getattr(new, "key", new.name)] = new
    for queue in objects.cluster_queues.values():
        for name in queue.flavors if not _cluster_words(context) else ():
            objects.flavors.setdefault(name, kueue.ResourceFlavor(name, {}, (), (), ""))
    return objects


def _objects_for_namespace(objects: Objects, namespace: str, context: Context) -> Objects:
    """Return the objects with the labels and LimitRanges of a namespace; if it is unknown, each selector selects it."""
    is_stored = context.cluster is not None and context.cluster.namespace(namespace) is not None
    known = context.namespace(namespace) if is_stored or namespace in context.new_namespaces else None
    labels = dict(known.labels) if known is not None else {NAME_LABEL: namespace}
    queues = objects.cluster_queues
    if known is None:
        selecting = [(name, queue) for name, queue in queues.items() if queue.namespace_selector is not None]
        queues = {**queues, **{k: replace(q, namespace_selector=parse_label_selector({})) for k, q in selecting}}
    ranges = {namespace: [*context.limit_ranges_of(namespace)]}
    return replace(objects, cluster_queues=queues, namespaces={namespace: labels}, limit_ranges=ranges)


def _decided(subject: ReviewedObject, cluster: ClusterSnapshot, phase: Phase) -> Iterator[Problem]:
    """Yield what Kueue decides about a new Job, without names of other objects."""
    from forewarn.policies.prediction.kueue.forecast import (
        QueueForecast,  # few clusters have Kueue
        count_pods,
        forecast_alone,
        forecast_jobs,
    )
    from forewarn.policies.prediction.kueue.snapshot import objects_of
    from forewarn.policies.prediction.kueue.workload import is_managed_by_kueue

    objects = objects_of(cluster) if is_managed_by_kueue(subject.object) else None
    if objects is None:
        return
    path = _QUEUE_LABEL
    (result,) = forecast_jobs(cluster, objects, [subject.object])
    if not isinstance(result, QueueForecast) or result.cluster_queue is None:
        if phase is Phase.VALIDATE:  # files may define the queue, too
            yield Problem("Kueue does not start it: its queue or class does not exist", path, "check both labels")
    elif result.targets:
        pods = sum(count_pods(target.info.obj, cluster) for target in result.targets)
        workloads = plural(len(result.targets), "Workload")
        message = f"Kueue would preempt {workloads} ({plural(pods, 'Pod')}) for this Job"
        yield Problem(message, path, "lower its priority, or request less")
    elif result.admission is None and result.not_predicted is None:
        if result.reasons and forecast_alone(objects, result.workload).admission is None:
            fix = "request less, or change the ClusterQueue"
            yield Problem("Kueue never starts it, even without other Workloads", path, fix)
            return
        behind = f" behind {plural(len(result.ahead), 'Workload')}" if result.ahead else ""
        yield Problem(f"Kueue starts it later: it waits for quota{behind}", path, "request less, or raise the quota")
