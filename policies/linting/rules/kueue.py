"""Rules about Kueue: classes of workloads, and queues."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.findings import Problem, Severity, quote
from forewarn.policies.kubernetes.kinds.registry import CLUSTER_QUEUE, WORKLOAD_PRIORITY_CLASS
from forewarn.policies.kubernetes.objects.fields import at, group_kind, list_at, text_at
from forewarn.policies.linting.rules.support.context import POD_OR_TEMPLATE, Context, Phase, Target, rule
from forewarn.policies.linting.rules.support.rule_text import class_name, integer, name_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.node import Node
    from forewarn.policies.kubernetes.objects.reviewed_object import ReviewedObject
    from forewarn.policies.kubernetes.quantity import Quantity

_KEY: Final = "kueue.x-k8s.io/priority-class"


@rule(*POD_OR_TEMPLATE, Target.OTHER, severity=Severity.WARNING)
def workload_priority_class_misplaced(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A WorkloadPriorityClass of Kueue stands where Kueue does not read it, or is mistaken for a PriorityClass.

    Why: Kueue reads the WorkloadPriorityClass only from the label `kueue.x-k8s.io/priority-class`, and orders its queue
    by it. kube-apiserver reads the PriorityClass of the Pod template, and rejects Pods whose class does not exist.

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
    if context.phase is not Phase.LINT:
        return
    label = text_at(subject.object, "metadata", "labels", _KEY)
    if not label and text_at(subject.object, "metadata", "annotations", _KEY):
        path = ("metadata", "annotations", _KEY)
        yield Problem(f"annotation {_KEY}: Kueue reads only the label of this name", path, "make it a label")
    names = {name_of(each) for each in context.of_kind(WORKLOAD_PRIORITY_CLASS)}
    template = context.template(subject)
    if template is not None and (name := class_name(template)) in names and name not in context.classes:
        message = f"{quote(name)} is a WorkloadPriorityClass of Kueue, not a PriorityClass: its Pods are rejected"
        fix = f"set the label {_KEY}: {name} instead"
        severity = Severity.ERROR if context.classes_complete else None
        yield Problem(message, template.at("priorityClassName"), fix, severity=severity)
    if label and label not in names and label in {defined.priority_class.name for _, defined in context.defined}:
        message = f"{quote(label)} is a PriorityClass, not a WorkloadPriorityClass: Kueue creates no Workload"
        path = ("metadata", "labels", _KEY)
        yield Problem(message, path, f"create a WorkloadPriorityClass, or set priorityClassName: {label}")


@rule(Target.OTHER, severity=Severity.ERROR, objects={Target.OTHER: "WorkloadPriorityClasses"})
def workload_priority_class_invalid(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """The value of a WorkloadPriorityClass of Kueue is absent, or no integer.

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
    is_class = group_kind(subject.object) == WORKLOAD_PRIORITY_CLASS and not subject.is_partial
    if is_class and context.phase is Phase.LINT and integer(value) is None:
        what = "no value" if value is None else "value must be an integer"
        yield Problem(f"{what}: kube-apiserver rejects the class", ("value",), "write an integer without quotes")


@rule(Target.OTHER, severity=Severity.WARNING, depends_on=("nodes",), objects={Target.OTHER: "ClusterQueues"})
def cluster_queue_without_effect(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """A ClusterQueue of Kueue does not preempt although WorkloadPriorityClasses exist, or its quota exceeds the nodes.

    Why: without `preemption`, WorkloadPriorityClasses only order the queue: workloads that Kueue has admitted keep
    their quota. If the quota exceeds the nodes, Kueue admits workloads whose Pods then stay Pending.

    Details: the rule compares the quota with the nodes if you pass a cluster. The finding about `preemption` is a note.

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
        +         nominalQuota: 8

    Fix: set `preemption.withinClusterQueue: LowerPriority`, and lower `nominalQuota` to what the nodes have.
    """
    if group_kind(subject.object) != CLUSTER_QUEUE or subject.is_partial or context.phase is not Phase.LINT:
        return
    policy = text_at(subject.object, "spec", "preemption", "withinClusterQueue")
    if policy in ("", "Never") and context.of_kind(WORKLOAD_PRIORITY_CLASS):
        message = "no preemption.withinClusterQueue: WorkloadPriorityClasses only order the queue"
        fix = "set preemption.withinClusterQueue: LowerPriority"
        yield Problem(message, ("spec",), fix, severity=Severity.NOTE)
    nodes = context.cluster.objects.nodes.values() if context.cluster else ()
    for name, quota in _quotas(subject).items() if nodes else ():
        available = sum(_allocatable(node, name) for node in nodes)
        if quota.value > available:
            message = f"nominalQuota of {name} is {quota}, but the nodes have {available:g}: Pods stay Pending"
            yield Problem(message, ("spec", "resourceGroups"), f"lower nominalQuota to {available:g}")


def _allocatable(node: Node, name: str) -> float:
    """The amount of a resource that a node has for Pods."""
    amounts = {"cpu": node.allocatable.milli_cpu / 1000, "memory": node.allocatable.memory, **node.allocatable.scalars}
    return amounts.get(name, 0)


def _quotas(subject: ReviewedObject) -> dict[str, Quantity]:
    """The quota of each resource in all flavors together."""
    from forewarn.policies.kubernetes.quantity import InvalidQuantity, parse_quantity  # few inputs have queues

    totals: dict[str, Quantity] = {}
    for group in list_at(subject.object, "spec", "resourceGroups"):
        for flavor in list_at(group, "flavors"):
            for resource in list_at(flavor, "resources"):
                name = text_at(resource, "name") if isinstance(resource, dict) else ""
                with suppress(InvalidQuantity):
                    amount = parse_quantity(str(at(resource, "nominalQuota")))
                    totals[name] = totals[name] + amount if name in totals else amount
    return totals
