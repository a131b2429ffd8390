"""The fields of a Job's spec. Source: pkg/controller/job/job_controller.go, pkg/apis/batch/v1/defaults.go.

Separate from the controller, because the linter reads Jobs without the modules that create Pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.objects.fields import at, int32, text
from forewarn.policies.objects.items import items

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject

IGNORE_DISRUPTIONS: Final = "ignore DisruptionTarget in the first podFailurePolicy rule"
"""A fix for Jobs that fail because of preempted or evicted Pods."""
_DEFAULT_BACKOFF_LIMIT: Final = 6
_MAX_INT32: Final = 2**31 - 1
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
_SIGNALLED: Final = (143, 137)
"""Exit codes of containers after SIGTERM and SIGKILL."""


def disruption_action(job: ApiObject) -> str:
    """Return the action of the first podFailurePolicy rule that a disrupted Pod can match; "" without one.

    Assumes that SIGTERM or SIGKILL ends the containers.
    """
    for rule in items(job, "spec", "podFailurePolicy", "rules"):
        codes, operator = at(rule, "onExitCodes", "values"), text(rule, "onExitCodes", "operator")
        listed = [code in codes for code in _SIGNALLED] if isinstance(codes, list) else []
        if matches_disruption(rule) or (any(listed) if operator == "In" else listed and not all(listed)):
            return text(rule, "action")
    return ""


def matches_disruption(rule: ApiObject) -> bool:
    """Report whether a podFailurePolicy rule matches the condition DisruptionTarget. Source: `matchOnPodConditions`."""
    return any(
        at(pattern, "type") == "DisruptionTarget" and text(pattern, "status", default="True") == "True"
        for pattern in items(rule, "onPodConditions")
    )


def is_managed_elsewhere(job: ApiObject) -> bool:
    """Report whether another controller creates the Pods of a Job. Source: `managedByExternalController`."""
    return text(job, "spec", "managedBy", default=_JOB_CONTROLLER) != _JOB_CONTROLLER


def backoff_limit(job: ApiObject) -> int:
    """Return the number of Pod failures that a Job tolerates (backoffLimit or its default). Raises InvalidObject.

    Source: `SetDefaults_Job`.
    """
    limit = int32(job, "spec", "backoffLimit")
    if limit is not None:
        return limit
    return _DEFAULT_BACKOFF_LIMIT if int32(job, "spec", "backoffLimitPerIndex") is None else _MAX_INT32


def wanted_active(job: ApiObject, succeeded: int, active: int) -> int:
    """Return the number of Pods that a Job should run now. Source: `manageJob`. Raises InvalidObject.

    `succeeded`: number of succeeded Pods. `active`: number of active Pods.
    """
    given, completions = int32(job, "spec", "parallelism"), int32(job, "spec", "completions")
    parallelism = 1 if given is None else max(given, 0)
    if completions is None and given is None:
        completions = 1
    if completions is None:
        return active if succeeded else parallelism
    return max(min(completions - succeeded, parallelism), 0)


def fails_with_one_pod(job: ApiObject) -> bool:
    """Report whether the eviction of one Pod fails a Job that had no failures. Raises InvalidObject."""
    action = disruption_action(job)
    if action in ("FailJob", "Ignore"):
        return action == "FailJob"
    return int32(job, "spec", "backoffLimitPerIndex") is None and backoff_limit(job) == 0
