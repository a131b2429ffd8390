"""The rules, one a module. `RULES` is the list: no decorators, no registration by import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.rules import (
    ambiguous_value,
    below_autoscaler_cutoff,
    class_not_allowed,
    class_still_in_use,
    default_not_retroactive,
    duplicate_key,
    exemption_not_allowed,
    exemption_without_effect,
    final_priority_mismatch,
    fits_nowhere,
    global_default_not_unique,
    immutable_field_changed,
    limited_class_without_quota,
    limited_resources_loophole,
    non_preempting_above_preempting,
    parse_error,
    pinned_priority,
    preemption_policy_invalid,
    preemption_policy_mismatch,
    preempts_running_pods,
    priority_class_name_invalid,
    priority_class_not_checked,
    priority_drift,
    priority_field_changed,
    priority_mismatch,
    priority_value_invalid,
    priority_value_missing,
    priority_value_too_high,
    quota_exceeded,
    quota_matches_nothing,
    quota_requirement_missing,
    quota_scope_invalid,
    removed_api_version,
    reserved_system_name,
    rollout_preempts_itself,
    system_class_blocked_by_quota,
    system_class_outside_kube_system,
    template_braces,
    unknown_default_class,
    unknown_priority_class,
)

if TYPE_CHECKING:
    from policies.rules.context import Rule

RULES: Final[tuple[Rule, ...]] = (
    # PriorityClass
    priority_class_name_invalid,
    reserved_system_name,
    priority_value_invalid,
    priority_value_too_high,
    preemption_policy_invalid,
    immutable_field_changed,
    removed_api_version,
    priority_value_missing,
    global_default_not_unique,
    default_not_retroactive,
    class_still_in_use,
    priority_drift,
    below_autoscaler_cutoff,
    non_preempting_above_preempting,
    # Pod and pod template
    unknown_priority_class,
    priority_mismatch,
    preemption_policy_mismatch,
    priority_class_not_checked,
    priority_field_changed,
    final_priority_mismatch,
    system_class_outside_kube_system,
    pinned_priority,
    preempts_running_pods,
    fits_nowhere,
    rollout_preempts_itself,
    quota_exceeded,
    quota_requirement_missing,
    limited_class_without_quota,
    class_not_allowed,
    system_class_blocked_by_quota,
    # ResourceQuota
    quota_scope_invalid,
    limited_resources_loophole,
    quota_matches_nothing,
    # Namespace
    unknown_default_class,
    exemption_not_allowed,
    exemption_without_effect,
    # file
    parse_error,
    template_braces,
    duplicate_key,
    ambiguous_value,
)
