"""Generates docs/reference/metrics.md from the code of the webhook."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.base.findings import Action, Severity
from forewarn.webhook.accuracy import Outcome
from forewarn.webhook.admission.decision import Verdict
from forewarn.webhook.admission.review import Hook, Operation
from forewarn.webhook.metrics import AUDITS, Metrics, RejectionReason
from forewarn.webhook.workload_accuracy import RESULTS, WORKLOAD_RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def _codes(values: Iterable[str]) -> str:
    return ", ".join(f"`{value}`" for value in values)


LABELS: Final[Mapping[str, str]] = {
    "action": _codes(action for action in Action if action is not Action.OFF),
    "detail": "`exact`: numbers; `coarse`: ranges; `budget`, `affinity`: nothing, because of `predictionBudget` or an "
    "affinity",
    "file": "`configuration`, `certificate`, `client-ca`, `client-tokens`, `scheduler-config`",
    "kind": "kind of the object; `other`: another kind, such as a custom resource, or an HTTP error; in "
    "`forewarn_cache_objects`, `workload` counts all workloads",
    "kubernetes": "newest Kubernetes release with which predictions were compared",
    "mode": _codes(Disclose),
    "operation": f"{_codes(Operation)}; `other`: an HTTP error",
    "outcome": f"for predictions {_codes(Outcome)} (the queue was too long); for audits {_codes(AUDITS)}; for file "
    "reloads `loaded`, `rejected` (forewarn uses the previous content); for reservations `granted`, `taken`, "
    "`rejected`, `failed`; for releases `confirmed`, `expired`",
    "phase": _codes(Hook),
    "python": "Python version",
    "reason": f"for rejected requests {_codes(RejectionReason)}; for failed watches an HTTP status, `expired`, "
    "`silent` or `broken`",
    "resource": "plural and group of the resource, for example `nodes` or `deployments.apps`",
    "result": "see [Results](#results)",
    "rule": "[id of the rule](rules/index.md); `prediction-incomplete`; `not-evaluated` (for example, too large)",
    "severity": _codes(map(str, Severity)),
    "task": "name of the task, such as `certificate`",
    "verdict": f"{_codes(Verdict)}, or an HTTP status",
    "version": "forewarn version",
}
"""Values of each label."""


def metrics_page() -> str:
    """docs/reference/metrics.md. Raises ValueError for a label that is missing here."""
    described = Metrics().described
    labels = {label for metric in described for label in metric.labels}
    if differing := labels ^ {*LABELS}:
        raise ValueError(f"not in LABELS, or not a label: {differing}")
    lines = [
        "# Metrics of the webhook",
        "",
        "Each replica and the CA injector serve metrics at `/metrics` on `--health-port` (8080). The overlay",
        "`monitoring` adds a ServiceMonitor, a PodMonitor, [alerts](../guides/troubleshoot.md) and a dashboard.",
        "",
    ]
    for title, metrics in groupby(described, attrgetter("section")):
        lines += [f"## {title}", "", "| metric | type | labels | meaning |", "|---|---|---|---|"]
        for metric in metrics:
            lines.append(f"| `{metric.name}` | {metric.type} | {_codes(metric.labels)} | {metric.help} |")
        lines.append("")
    lines += [
        "## Process",
        "",
        "The standard `process_*` metrics are about the main process, without its child processes, such as audits.",
        "",
        "## Labels",
        "",
        "| label | values |",
        "|---|---|",
        *(f"| `{label}` | {values} |" for label, values in LABELS.items()),
        "",
        "## Results",
        "",
        "| `result` | Pods | workloads |",
        "|---|---|---|",
        *(f"| `{result}` | {RESULTS.get(result, '-')} | {text} |" for result, text in WORKLOAD_RESULTS.items()),
        "",
    ]
    return "\n".join(lines)
