"""A Job can fail if its Pods are evicted or preempted.

Why: a Pod that is preempted, drained or evicted counts as failed. A Job with `backoffLimit: 0` fails with the first
failed Pod. If a Job runs more Pods at once than its backoffLimit (6 by default) and loses all of these Pods, the Job
fails and is not retried.

Details: if a rule of the podFailurePolicy has `action: Ignore` for the Pod condition DisruptionTarget, preempted and
evicted Pods do not count as failed. If an earlier rule fails the Job for the exit codes of terminated containers (137,
143), the earlier rule takes precedence.

Bad:

    apiVersion: batch/v1
    kind: Job
    metadata:
      name: report
      namespace: team
    spec:
      backoffLimit: 0
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: c
            image: report

Good:

    apiVersion: batch/v1
    kind: Job
    metadata:
      name: report
      namespace: team
    spec:
      backoffLimit: 0
      podFailurePolicy:
        rules:
        - action: Ignore
          onPodConditions:
          - type: DisruptionTarget
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: c
            image: report

Fix: add a rule with `action: Ignore` for the Pod condition DisruptionTarget as the first rule of the podFailurePolicy.
A podFailurePolicy needs `restartPolicy: Never` in the Pod template.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.findings import Problem, Severity
from forewarn.policies.objects.fields import InvalidObject, at, group_kind, int32, text
from forewarn.policies.rules.support.context import NOTHING_STORED, Context, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.reviewed_object import ReviewedObject

ID: Final = "job-fails-on-eviction"
TARGETS: Final = (Target.TEMPLATE,)
SEVERITY: Final = Severity.NOTE
ACTION: Final = None
DEPENDS_ON: Final = NOTHING_STORED
_JOBS: Final = {"batch/Job": (), "batch/CronJob": ("spec", "jobTemplate")}
"""Kind -> path of the Job in an object of this kind."""


def check(subject: ReviewedObject, context: Context) -> Iterator[Problem]:
    """Yield a problem if an eviction can fail the Job."""
    path = _JOBS.get(group_kind(subject.object))
    job = None if path is None else at(subject.object, *path) if path else subject.object
    if path is None or not isinstance(job, dict):
        return
    from forewarn.policies.objects.job import IGNORE_DISRUPTIONS as FIX  # the linter starts without it

    try:
        found = _fault(job)
    except InvalidObject:
        return  # the API server rejects it
    if found:
        message, field = found
        never = text(job, "spec", "template", "spec", "restartPolicy") == "Never"
        yield Problem(message, (*path, "spec", field), FIX if never else f"{FIX}, with restartPolicy: Never")


def _fault(job: ApiObject) -> tuple[str, str] | None:
    """Return the problem and the field of the Job's spec to report; None if there is none. Raises InvalidObject."""
    from forewarn.policies.objects.job import (  # the linter starts without it
        backoff_limit,
        disruption_action,
        wanted_active,
    )

    action, per_index = disruption_action(job), int32(job, "spec", "backoffLimitPerIndex")
    if action == "FailJob":
        return (
            "eviction or preemption of one Pod fails the Job: a podFailurePolicy rule matches",
            "podFailurePolicy",
        )
    if action == "Ignore":
        return None
    if per_index is not None:
        fault = "eviction or preemption of one Pod fails its index: backoffLimitPerIndex is 0"
        return None if per_index else (fault, "backoffLimitPerIndex")
    limit, at_once = backoff_limit(job), wanted_active(job, 0, 0)
    if limit == 0:
        return "eviction or preemption of one Pod fails the Job: backoffLimit is 0", "backoffLimit"
    if at_once > limit:
        return (
            f"eviction or preemption of all {at_once} Pods at once fails the Job: backoffLimit is {limit}",
            "parallelism",
        )
    return None
