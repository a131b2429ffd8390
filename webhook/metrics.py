"""Metrics for Prometheus. The values of each label are a closed set, so that clients cannot increase memory use."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
    exposition,
)

from forewarn.policies import VERSION
from forewarn.policies.cli.main import KUBERNETES
from forewarn.policies.kubernetes.kinds.registry import BY_GROUP_KIND, CONTROLLER_REVISION
from forewarn.webhook.accuracy import Outcome
from forewarn.webhook.workload_accuracy import RESULTS, WORKLOAD_RESULTS

KINDS: Final = {kind: spec.kind for kind, spec in BY_GROUP_KIND.items() if spec.is_evaluated or spec.template} | {
    "autoscaling/Scale": "Scale",
    CONTROLLER_REVISION: "ControllerRevision",
}
"""`group/Kind` -> value of the label kind. Any other kind has the value `other`."""
OTHER: Final = "other"
AUDITS: Final = ("completed", "incomplete", "failed")
"""Values of the label outcome of `forewarn_audits_total`."""
DETAILS: Final = ("exact", "coarse", "budget", "affinity")
"""Values of the label detail of `forewarn_predictions_shown_total`."""
_SECONDS: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class RejectionReason(StrEnum):
    """The reason for an HTTP error instead of an AdmissionReview."""

    MALFORMED = "malformed"
    CLIENT = "client"
    """The client certificate or token does not belong to an API server."""
    PATH = "path"
    METHOD = "method"
    SLOW = "slow"
    BODY_SIZE = "body-size"
    MEDIA_TYPE = "media-type"
    HEADER_SIZE = "header-size"
    INTERNAL = "internal"
    OVERLOAD = "overload"
    """Too many requests in flight, or too little memory."""
    STOPPING = "stopping"
    RESERVATION = "reservation"
    """The global default could not be reserved."""
    OTHER = "other"

    @classmethod
    def from_status(cls, status: int) -> RejectionReason:
        """Return the reason for an HTTP status, if no more specific reason is known."""
        return _REJECTION_REASONS.get(status, cls.OTHER)


_REJECTION_REASONS: Final = {
    400: RejectionReason.MALFORMED,
    401: RejectionReason.CLIENT,
    403: RejectionReason.CLIENT,
    404: RejectionReason.PATH,
    405: RejectionReason.METHOD,
    408: RejectionReason.SLOW,
    413: RejectionReason.BODY_SIZE,
    415: RejectionReason.MEDIA_TYPE,
    431: RejectionReason.HEADER_SIZE,
    500: RejectionReason.INTERNAL,
    503: RejectionReason.OVERLOAD,
}


_SERVER_ERROR: Final = 500


class Described(NamedTuple):
    """A metric on the reference page, in a section of it. `type`: counter, gauge or histogram."""

    section: str
    name: str
    type: str
    labels: tuple[str, ...]
    help: str


def _seconds(name: str, help_: str, labels: Sequence[str], registry: CollectorRegistry) -> Histogram:
    return Histogram(name, help_, labels, registry=registry, buckets=_SECONDS)


class _OwnProcess(ProcessCollector):
    """The standard `process_*` metrics, with help texts that name the webhook process."""

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of this process; none without /proc."""
        for metric in super().collect():
            metric.documentation += " Webhook process only, without child processes."
            yield metric


class Metrics:
    """The webhook's metrics, in a separate registry."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self.described: list[Described] = []
        """All metrics but `process_*`, for docs/reference/metrics.md."""
        self._child: Callable[..., Any] = cache(lambda metric, *labels: metric.labels(*labels))
        """Returns the child of a metric by its labels; cached, because looking it up is slow."""
        _OwnProcess(registry=self._registry)
        self._add_requests()
        self._add_predictions()
        self._add_cluster_state()
        self._add_controllers()
        self._add_operation()

    def _add_requests(self) -> None:
        self._section = "Requests"
        text = "Admission requests, by verdict."
        self.requests = self._make(Counter, "admission_requests", text, "phase", "operation", "kind", "verdict")
        text = "Time from the start of parsing to the response."
        self._duration = self._make(_seconds, "admission_duration_seconds", text, "phase")
        text = "Admission requests that forewarn is processing."
        self.in_flight = self._make(Gauge, "requests_in_flight", text)
        self.findings = self._make(Counter, "findings", "Findings for admission requests.", "rule", "action")
        text = "Requests to the HTTPS port that forewarn answered with an HTTP error."
        self._rejected = self._closed("http_requests_rejected", text, "reason", [*RejectionReason])
        text = "Requests of trusted callers, usually API servers, that forewarn answered with HTTP 4xx."
        self.rejected_api_servers = self._closed(
            "api_server_requests_rejected",
            text,
            "reason",
            [*dict.fromkeys(_REJECTION_REASONS[status] for status in _REJECTION_REASONS if status < _SERVER_ERROR)],
        )
        text = "Requests without a valid token for their resource, answered without cluster state."
        self.unauthenticated = self._make(Counter, "unauthenticated_requests", text)

    def _add_predictions(self) -> None:
        self._section = "Predictions"
        text = "Predictions for /validate, by outcome."
        self.predictions = self._closed("predictions", text, "outcome", Outcome)
        text = "Predictions, by the details that the response shows."
        self.predictions_shown = self._closed("predictions_shown", text, "detail", DETAILS)
        text = "Predictions for Pods, by comparison with the first decision of kube-scheduler."
        self.prediction_results = self._closed("prediction_results", text, "result", RESULTS)
        text = "Predictions for workloads and for Pods without a controller, by comparison with the outcome."
        self.workload_prediction_results = self._closed("workload_prediction_results", text, "result", WORKLOAD_RESULTS)
        text = "Time to evaluate the rules and to predict for /validate."
        self.prediction_duration = self._make(_seconds, "prediction_duration_seconds", text)
        text = "Predictions that wait for a process."
        self.prediction_queue = self._make(Gauge, "prediction_queue_length", text)
        text = "Time that a prediction waited for a process."
        self.prediction_queue_duration = self._make(_seconds, "prediction_queue_duration_seconds", text)

    def _add_cluster_state(self) -> None:
        self._section = "Cluster state"
        text = "Longest time since the last message from the API server about a required resource."
        self.cache_age = self._make(Gauge, "cache_age_seconds", text)
        self.cache_objects = self._make(Gauge, "cache_objects", "Objects in the watch cache.", "kind")
        text = "Times that the watch cache skipped an unreadable object."
        self.cache_skipped = self._make(Counter, "cache_objects_skipped", text, "resource")
        text = "Failed list and watch requests."
        self.watch_failures = self._make(Counter, "watch_failures", text, "resource", "reason")

    def _add_controllers(self) -> None:
        self._section = "Global default"
        text = "PriorityClasses with globalDefault: true."
        self.global_defaults = self._make(Gauge, "global_defaults", text)
        text = "Reservations of the global default and their releases, by outcome."
        self.reservations = self._make(Counter, "global_default_reservations", text, "outcome")
        self._section = "Certificates"
        text = "Expiry of the serving certificate, as a Unix timestamp; 0 if unknown."
        self.certificate_expiry = self._make(Gauge, "certificate_expiry_timestamp_seconds", text)
        text = "Expiry of the signing CA, as a Unix timestamp; 0 if unknown."
        self.ca_expiry = self._make(Gauge, "ca_expiry_timestamp_seconds", text)
        self.leader = self._make(Gauge, "ca_injector_leader", "1 while this CA injector is the leader.")
        self._section = "Audit"
        text = "Findings of the last audit. Only the replica that audits has this metric."
        self.audit_findings = self._make(Gauge, "audit_findings", text, "rule", "severity")
        text = "Audits, by outcome."
        self.audits = self._closed("audits", text, "outcome", AUDITS)
        text = "Time of the last audit of this replica that did not fail, as a Unix timestamp; 0: none."
        self.audit_last_run = self._make(Gauge, "audit_last_run_timestamp_seconds", text)

    def _add_operation(self) -> None:
        self._section = "Operation"
        text = "1. The labels are versions."
        build = self._make(Gauge, "build_info", text, "version", "python", "kubernetes")
        build.labels(VERSION, platform.python_version(), KUBERNETES).set(1)
        text = "1 for the value of the setting `disclose`, otherwise 0."
        self.disclosure = self._make(Gauge, "disclosure_mode", text, "mode")
        self.ready = self._make(Gauge, "ready", "1 while /readyz reports that the replica is ready.")
        text = "Failures of background tasks."
        self.task_failures = self._make(Counter, "background_task_failures", text, "task")
        text = "Reloads of changed files, by outcome."
        self.reloads = self._make(Counter, "file_reloads", text, "file", "outcome")
        text = "1 while forewarn rejects the content of a file."
        self.file_rejected = self._make(Gauge, "file_rejected", text, "file")
        text = "Log lines dropped because the reader of standard error was too slow."
        self.log_lines_dropped = self._make(Counter, "log_lines_dropped", text)

    def _make(self, kind: Callable[..., Any], name: str, help_: str, *labels: str) -> Any:
        word = "counter" if kind is Counter else "gauge" if kind is Gauge else "histogram"
        exposed = f"forewarn_{name}_total" if kind is Counter else f"forewarn_{name}"
        self.described.append(Described(self._section, exposed, word, labels, help_))
        return kind(f"forewarn_{name}", help_, labels, registry=self._registry)

    def _closed(self, name: str, help_: str, label: str, values: Iterable[str]) -> Any:
        """Create a counter with one label. All values exist from the start, so that Prometheus sees the first event."""
        metric = self._make(Counter, name, help_, label)
        for value in values:
            metric.labels(value)
        return metric

    def reject(self, reason: RejectionReason) -> None:
        self.count(self._rejected, reason)

    def reject_by_status(self, status: int) -> None:
        self.reject(RejectionReason.from_status(status))

    def count(self, counter: Counter, *labels: str) -> None:
        """Add 1 to a counter with these labels."""
        self._child(counter, *labels).inc()

    def took(self, phase: str, seconds: float) -> None:
        """Record the duration of a response. `phase`: the webhook."""
        self._child(self._duration, phase).observe(seconds)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return the metrics in the format that the client accepts, and its content type."""
        encode, content_type = exposition.choose_encoder(accept)
        return encode(self._registry), content_type
