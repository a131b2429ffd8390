"""Generates docs/reference/metrics.md from the code of the webhook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.disclosure import Disclose
from forewarn.policies.findings import Action, Severity
from forewarn.webhook.accuracy import RESULTS
from forewarn.webhook.admission.decision import Verdict
from forewarn.webhook.admission.review import Hook, Operation
from forewarn.webhook.metrics import AUDITS, DETAILS, OUTCOMES, Metrics, RejectionReason
from forewarn.webhook.workload_accuracy import WORKLOAD_RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Requests": (
        "forewarn_admission_requests_total",
        "forewarn_admission_duration_seconds",
        "forewarn_requests_in_flight",
        "forewarn_findings_total",
        "forewarn_http_requests_rejected_total",
        "forewarn_api_server_requests_rejected_total",
        "forewarn_unauthenticated_requests_total",
    ),
    "Predictions": (
        "forewarn_predictions_total",
        "forewarn_predictions_shown_total",
        "forewarn_prediction_results_total",
        "forewarn_workload_prediction_results_total",
        "forewarn_prediction_duration_seconds",
        "forewarn_prediction_queue_length",
        "forewarn_prediction_queue_duration_seconds",
    ),
    "Cluster state": (
        "forewarn_cache_age_seconds",
        "forewarn_cache_objects",
        "forewarn_cache_objects_skipped_total",
        "forewarn_watch_failures_total",
    ),
    "Global default": ("forewarn_global_defaults", "forewarn_global_default_reservations_total"),
    "Certificates": (
        "forewarn_certificate_expiry_timestamp_seconds",
        "forewarn_ca_expiry_timestamp_seconds",
        "forewarn_ca_injector_leader",
    ),
    "Audit": (
        "forewarn_audit_findings",
        "forewarn_audits_total",
        "forewarn_audit_last_run_timestamp_seconds",
    ),
    "Operation": (
        "forewarn_build_info",
        "forewarn_disclosure_mode",
        "forewarn_background_task_failures_total",
        "forewarn_file_reloads_total",
        "forewarn_file_rejected",
        "forewarn_log_lines_dropped_total",
    ),
}
"""Sections of the page and the metrics in each. Every metric must be in exactly one."""


def _codes(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


LABELS: Final[Mapping[str, str]] = {
    "action": _codes(action for action in Action if action is not Action.OFF),
    "detail": _codes(DETAILS),
    "file": "`configuration`, `certificate`, `client-ca`, `client-tokens`, `scheduler-config`",
    "kind": "kind of the object; `other` means a kind that no rule checks; in `forewarn_cache_objects`, "
    "`workload` means any workload",
    "kubernetes": "Kubernetes version",
    "mode": _codes(Disclose),
    "operation": f"{_codes(Operation)}; `other` if forewarn did not read the request",
    "outcome": f"for predictions {_codes(OUTCOMES)}; for audits {_codes(AUDITS)}; for file reloads `loaded`, "
    "`rejected`; for reservations `granted`, `taken` (by another request), `rejected` (another PriorityClass is the "
    "default), `failed`, `confirmed` (the request is complete), `expired`",
    "phase": _codes(Hook),
    "python": "Python version",
    "reason": f"for rejected requests {_codes(RejectionReason)}; for failed watches an HTTP status, `expired`, "
    "`silent` or `broken`",
    "resource": "plural and group of the resource, for example `nodes` or `deployments.apps`",
    "result": f"for Pods {_codes(RESULTS)}; for workloads {_codes(WORKLOAD_RESULTS)}",
    "rule": "[id of the rule](rules/index.md)",
    "severity": _codes(map(str, Severity)),
    "task": "`certificate`, `global default reservation`, `count global defaults`, `audit leader election`; for the CA "
    "injector `leader election`, `certificates`, `owner`, `resignation`",
    "verdict": f"{_codes(Verdict)}, or an HTTP status",
    "version": "forewarn version",
}
"""Values of each label."""


def metrics_page() -> str:
    """docs/reference/metrics.md. Raises ValueError for a metric or label that is missing here."""
    described = {metric.name: metric for metric in Metrics().described}
    grouped = [name for names in GROUPS.values() for name in names]
    if differing := {*described} ^ {*grouped} or (len(grouped) != len({*grouped}) and {"twice"}):
        raise ValueError(f"not in GROUPS, or not a metric: {differing}")
    labels = {label for metric in described.values() for label in metric.labels}
    if differing := labels ^ {*LABELS}:
        raise ValueError(f"not in LABELS, or not a label: {differing}")
    lines = [
        "# Metrics of the webhook",
        "",
        "Generated from the code by `make docs`.",
        "",
        "Each replica and the CA injector serve metrics at `/metrics` on `--health-port` (8080). The overlay",
        "`monitoring` adds a ServiceMonitor, a PodMonitor, [alerts](../guides/troubleshoot.md) and a dashboard.",
        "",
    ]
    for title, names in GROUPS.items():
        lines += [f"## {title}", "", "| metric | type | labels | meaning |", "|---|---|---|---|"]
        for metric in (described[name] for name in names):
            lines.append(f"| `{metric.name}` | {metric.type} | {_codes(metric.labels)} | {metric.help} |")
        lines.append("")
    lines += [
        "## Process",
        "",
        "The standard `process_*` metrics, such as `process_cpu_seconds_total` and `process_resident_memory_bytes`,",
        "describe only the webhook process, not the processes for long predictions.",
        "",
        "## Labels",
        "",
        "| label | values |",
        "|---|---|",
        *(f"| `{label}` | {values} |" for label, values in LABELS.items()),
        "",
    ]
    return "\n".join(lines)
