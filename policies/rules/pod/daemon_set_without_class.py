"""A DaemonSet has no PriorityClass, or a lower priority than other workloads.

Why: kube-scheduler preempts Pods of a DaemonSet as it preempts all Pods. On a full node, a Pod of a DaemonSet without a
PriorityClass stays Pending, or is preempted by every Pod with a class. The node then lacks its log collector, CNI
plugin, CSI driver or device plugin.

Details: the finding is a warning for agents, by the names of the DaemonSet and its images (CNI, CSI, logs, metrics,
devices). It is a note for other DaemonSets, and in directories for tests or examples. A global default with a positive
value counts as a class. A class with a lower value than the class of another workload is a note. System classes of
other workloads do not count.

Bad:

    apiVersion: apps/v1
    kind: DaemonSet
    metadata:
      name: logs
      namespace: logging
    spec:
      selector:
        matchLabels:
          app: logs
      template:
        metadata:
          labels:
            app: logs
        spec:
          containers:
          - name: logs
            image: fluent-bit

Good:

    apiVersion: apps/v1
    kind: DaemonSet
    metadata:
      name: logs
      namespace: logging
    spec:
      selector:
        matchLabels:
          app: logs
      template:
        metadata:
          labels:
            app: logs
        spec:
          priorityClassName: system-node-critical
          containers:
          - name: logs
            image: fluent-bit

Fix: use system-node-critical if the node does not work without the DaemonSet. Otherwise, use a class of your own above
the classes of your workloads.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.findings import Problem, Severity, Text, quote
from forewarn.policies.kinds.registry import DAEMON_SET
from forewarn.policies.objects.fields import InvalidObject, at, group_kind
from forewarn.policies.objects.priority_class import PREEMPT_NEVER, SYSTEM_CLASSES
from forewarn.policies.objects.workload import is_fragment
from forewarn.policies.rules.support.context import Context, DependsOn, Phase, Target
from forewarn.policies.rules.support.rule_text import class_name, class_to_be, is_test_file, resolved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.findings import ObjectRef
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "daemon-set-without-class"
TARGETS: Final = (Target.TEMPLATE,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = None
DEPENDS_ON: Final = DependsOn(("classes", "pods"), "the Pods of higher priority may have been deleted")
_SYSTEM: Final = {c.name for c in SYSTEM_CLASSES}


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for a DaemonSet whose Pods others preempt."""
    template = context.template(subject) if group_kind(subject.object) == DAEMON_SET else None
    if template is None or context.phase is not Phase.LINT or is_fragment(subject.object):
        return
    name = class_to_be(template, subject.effective_namespace, context)
    own = resolved(template, context)
    if name and (name not in context.classes or own is None):
        return  # unknown-priority-class
    priority = own.priority if own else 0
    higher = context.once(_Highest).of_others
    is_lower = higher is not None and higher.priority > priority
    if name or priority > 0:
        if is_lower and higher is not None and name not in _SYSTEM:
            fix = f"use a class above {higher.priority}, or system-node-critical"
            message = f"priority {priority} is below class {quote(higher.name)} ({higher.priority}){higher.used_by}"
            yield Problem(Text(message, fix), template.at("priorityClassName"), severity=Severity.NOTE)
        return
    who = f"Pods of class {quote(higher.name)} ({higher.priority})" if is_lower and higher else "Pods of any class"
    yield Problem(
        Text(f"no PriorityClass: {who} preempt its Pods; on full nodes it does not start", _FIX),
        template.at(),
        severity=None if _is_agent(subject, template.spec) else Severity.NOTE,
    )


_FIX: Final = "set priorityClassName, such as system-node-critical for what a node needs"


class _Workload(NamedTuple):
    """The highest class that workloads other than DaemonSets use."""

    name: str
    priority: int
    ref: ObjectRef | None = None

    @property
    def used_by(self) -> str:
        """The workload, as the end of a sentence."""
        return f" of {self.ref}" if self.ref else ""


class _Highest:
    """The highest class that preempts, of the workloads in the change set and the Pods of the cluster."""

    def __init__(self, context: Context) -> None:
        found = [_Workload(name, value or 0) for name, value in context.pod_counts_by_priority]
        for subject in context.change_set.subjects:
            with suppress(InvalidObject):
                template = context.template(subject) if group_kind(subject.object) != DAEMON_SET else None
                if template and class_name(template) in context.classes:
                    own = context.classes[class_name(template)]
                    found.append(_Workload(own.name, own.value, subject.ref))
        classes = context.classes
        preempting = [
            each
            for each in found
            if each.name not in _SYSTEM
            and each.name in classes
            and classes[each.name].preemption_policy != PREEMPT_NEVER
        ]
        self.of_others = max(preempting, key=lambda each: (each.priority, each.ref is not None), default=None)


_AGENT: Final = re.compile(
    r"(?<![a-z])(?:agent|[ck]ni|csi|dns)(?![a-z])|driver|plugin|exporter|log|fluent|beat|vector|promtail|collector|proxy"
    r"|calico|cilium|flannel|weave|antrea|multus|speaker|monitor"
)


def _is_agent(subject: ReviewedObject, spec: ApiObject) -> bool:
    """Report whether the names of a DaemonSet and its images are those of an agent that the nodes need."""
    containers = spec.get("containers")
    images = (str(at(each, "image")) for each in (containers if isinstance(containers, list) else ()))
    names = (subject.ref.name, *(image.rpartition("/")[2] for image in images))
    return any(map(_AGENT.search, names)) and not is_test_file(subject.locate(()).file)
