"""A PodDisruptionBudget never allows an eviction.

Why: the Eviction API rejects every eviction of the selected Pods, so `kubectl drain` and node upgrades wait forever.
kube-scheduler may preempt the Pods all the same.

Details: the finding is a warning if minAvailable is at least `replicas` of a selected workload, because this may be a
mistake. It is a note for `maxUnavailable: 0` and `minAvailable: 100%`, which state the intention.
The rule ignores workloads without `replicas`, which an autoscaler may scale.

Bad:

    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata:
      name: web
      namespace: team
    spec:
      minAvailable: 2
      selector:
        matchLabels:
          app: web
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: web
      namespace: team
    spec:
      replicas: 2
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

Good:

    apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata:
      name: web
      namespace: team
    spec:
      maxUnavailable: 1
      selector:
        matchLabels:
          app: web

Fix: set `maxUnavailable: 1`, or run more replicas.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Problem, Severity, Text, plural
from forewarn.policies.kinds.registry import DEPLOYMENT, DISRUPTION_BUDGET, STATEFUL_SET
from forewarn.policies.objects.fields import InvalidObject, at, group_kind, mapping
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target
from forewarn.policies.selectors import InvalidSelector, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "evictions-blocked"
TARGETS: Final = (Target.OTHER,)
SEVERITY: Final = Severity.WARNING
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED
_FIX: Final = "set maxUnavailable: 1"
_MAX_WORKLOADS: Final = 1_000
"""Maximum workloads that are compared with one PodDisruptionBudget."""


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem for limits that leave no Pod to evict."""
    if group_kind(subject.object) != DISRUPTION_BUDGET or subject.is_partial:
        return
    for field, values in (("maxUnavailable", (0, "0", "0%")), ("minAvailable", ("100%",))):
        value = at(subject.object, "spec", field)
        if value in values and not isinstance(value, bool):
            message = f"{field} {value} allows no eviction: kubectl drain waits forever"
            yield Problem(message, ("spec", field), f"{_FIX}, or suppress the finding", severity=Severity.NOTE)
    least = at(subject.object, "spec", "minAvailable")
    if not isinstance(least, int) or isinstance(least, bool) or least < 1:
        return
    for workload in _selected(subject, context):
        replicas = at(workload.object, "spec", "replicas")
        if isinstance(replicas, int) and 0 < replicas <= least:
            what = plural(replicas, "replica")
            message = (
                f"minAvailable {least} allows no eviction of the {what} of {workload.ref.kind} {workload.ref.name}"
            )
            yield Problem(Text(message, f"{_FIX}, or run more replicas"), ("spec", "minAvailable"))


def _selected(subject: ReviewedObject, context: Context) -> Iterator[ReviewedObject]:
    """Yield the workloads whose Pods a PodDisruptionBudget selects."""
    try:
        selector = parse_label_selector(mapping(subject.object, "spec", "selector"))
    except (InvalidObject, InvalidSelector):
        return
    workloads = [*context.of_kind(DEPLOYMENT), *context.of_kind(STATEFUL_SET)][:_MAX_WORKLOADS]
    for workload in workloads:
        with suppress(InvalidObject):
            template = context.template(workload)
            labels = mapping(template.object, "metadata", "labels") if template else {}
            same = workload.effective_namespace == subject.effective_namespace
            if selector and labels and same and selector.matches(labels):
                yield workload
