"""The ResourceQuota plugin for Pods: the quotas that apply, the usage of a Pod, and the check of both.

`usage`, `matches`, `constraints` and `check_request` correspond to upstream's functions of these names. All are pure.
"""

from forewarn.policies.kube_apiserver.quota.admission import (
    Check,
    Fault,
    FaultKind,
    check_request,
    first_rejected,
    uncovered,
)
from forewarn.policies.kube_apiserver.quota.evaluators import RESOURCE_QUOTAS, ObjectCount, Pods
from forewarn.policies.kube_apiserver.quota.remaining import RemainingQuota
from forewarn.policies.kube_apiserver.quota.scopes import (
    InvalidScope,
    is_covered_by,
    is_terminating,
    matches,
    matching_scopes,
)
from forewarn.policies.kube_apiserver.quota.usage import constraints, usage

__all__ = [
    "RESOURCE_QUOTAS",
    "Check",
    "Fault",
    "FaultKind",
    "InvalidScope",
    "ObjectCount",
    "Pods",
    "RemainingQuota",
    "check_request",
    "constraints",
    "first_rejected",
    "is_covered_by",
    "is_terminating",
    "matches",
    "matching_scopes",
    "uncovered",
    "usage",
]
