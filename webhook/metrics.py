"""What Prometheus reads. Every label's values are a closed set, so that no client can grow the memory."""

from __future__ import annotations

import platform
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    exposition,
)

from policies import VERSION
from policies.cli import KUBERNETES
from policies.kinds import BY_GROUP_KIND
from webhook.accuracy import RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client import Metric

KINDS: Final = {kind: spec.kind for kind, spec in BY_GROUP_KIND.items() if spec.is_judged or spec.template} | {
    "autoscaling/Scale": "Scale"
}
"""`group/Kind` to the value of the label kind; any other is `other`."""
OTHER: Final = "other"
AUDITS: Final = ("done", "cut-short", "failed")
"""Values of the label outcome of `forewarn_audits_total`."""
OUTCOMES: Final = ("nobody goes", "preempts", "pending", "cut-short", "shed")
"""Values of the label outcome of `forewarn_predictions_total`."""
DETAILS: Final = ("exact", "coarse", "budget", "affinity")
"""Values of the label detail of `forewarn_predictions_shown_total`."""
_SECONDS: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Refusal(StrEnum):
    """Why a request got no AdmissionReview for an answer."""

    MALFORMED = "malformed"
    CLIENT = "client"
    """The client's certificate or token is not that of an API server."""
    PATH = "path"
    METHOD = "method"
    SLOW = "slow"
    BODY_SIZE = "body-size"
    MEDIA_TYPE = "media-type"
    HEADER_SIZE = "header-size"
    INTERNAL = "internal"
    OVERLOAD = "overload"
    """There is no room for it."""
    STOPPING = "stopping"
    RESERVATION = "reservation"
    """The place of the global default could not be reserved."""
    OTHER = "other"

    @classmethod
    def of(cls, status: int) -> Refusal:
        """The reason that an HTTP status stands for, where nothing closer is known."""
        return _REFUSALS.get(status, cls.OTHER)


_REFUSALS: Final = {
    400: Refusal.MALFORMED,
    401: Refusal.CLIENT,
    403: Refusal.CLIENT,
    404: Refusal.PATH,
    405: Refusal.METHOD,
    408: Refusal.SLOW,
    413: Refusal.BODY_SIZE,
    415: Refusal.MEDIA_TYPE,
    431: Refusal.HEADER_SIZE,
    500: Refusal.INTERNAL,
    503: Refusal.OVERLOAD,
}


_SERVER_ERROR: Final = 500


class _OwnProcess(ProcessCollector):
    """The usual `process_*`, whose help says of which process they are."""

    def collect(self) -> Iterable[Metric]:
        """What there is to say of this process; nothing where there is no /proc."""
        for metric in super().collect():
            metric.documentation += " The process that answers; those that predict are not counted in."
            yield metric


class Metrics:
    """The webhook's metrics, in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._children: dict[tuple[Counter, tuple[str, ...]], Counter] = {}
        self._durations: dict[str, Histogram] = {}
        _OwnProcess(registry=self._registry)
        build = self._make(
            Gauge,
            "build_info",
            "Always 1. The versions of forewarn, of Python, and of the Kubernetes whose scheduler predictions are of.",
            "version",
            "python",
            "kubernetes",
        )
        build.labels(VERSION, platform.python_version(), KUBERNETES).set(1)
        self.requests = self._make(
            Counter, "admission_requests", "Requests, by how they came out.", "phase", "operation", "kind", "verdict"
        )
        self._duration = Histogram(
            "forewarn_admission_duration_seconds",
            "From the last byte of a request to its answer.",
            ["phase"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._refused = self._closed(
            Counter, "requests_refused", "Requests that got no AdmissionReview, by why not.", "reason", [*Refusal]
        )
        self.refused_api_servers = self._closed(
            Counter,
            "api_server_requests_rejected",
            "API servers' requests that got an HTTP 4xx instead of an AdmissionReview: failurePolicy decides on them.",
            "reason",
            [*dict.fromkeys(_REFUSALS[status] for status in _REFUSALS if status < _SERVER_ERROR)],
        )
        self.in_flight = self._make(Gauge, "in_flight", "Requests that have not been answered yet.")
        self.findings = self._make(Counter, "findings", "What rules said of requests.", "rule", "action")
        self.prediction_duration = Histogram(
            "forewarn_prediction_duration_seconds",
            "Time of a prediction for /validate.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.predictions = self._closed(
            Counter,
            "predictions",
            "Predictions for /validate, by what came of them; shed: not begun, for want of a place in the queue.",
            "outcome",
            OUTCOMES,
        )
        self.predictions_shown = self._closed(
            Counter,
            "predictions_shown",
            "Predictions by how much of them the answer shows: all that its readers may know (exact), ranges (coarse), "
            "or nothing, because the budget is used up (budget) or the Pod's affinity refers to namespaces that they "
            "cannot read (affinity). An object that is created counts twice, once for each webhook.",
            "detail",
            DETAILS,
        )
        self.prediction_queue = self._make(Gauge, "prediction_queue", "Predictions that wait for a process.")
        self.prediction_queue_duration = Histogram(
            "forewarn_prediction_queue_seconds",
            "How long a prediction waited for a process.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.prediction_results = self._closed(
            Counter,
            "prediction_results",
            "Predictions by what kube-scheduler then did: as predicted (matched), something else after a change "
            "(explained) or without one (wrong), or nothing that was seen (unknown).",
            "result",
            RESULTS,
        )
        self.disclose = self._make(
            Gauge, "disclose", "1 for the mode in force: what users are told of other namespaces' pods.", "mode"
        )
        self.log_lines_dropped = self._make(
            Counter, "log_lines_dropped", "Lines of the log that were given up because nobody reads it fast enough."
        )
        self.certificate_expiry = self._make(
            Gauge, "certificate_expiry_timestamp_seconds", "When the serving certificate ends, in seconds since 1970."
        )
        self.cache_age = self._make(
            Gauge, "cache_age_seconds", "Since the API server was last heard of, by the kind for which that is longest."
        )
        self.cache_objects = self._make(Gauge, "cache_objects", "Objects in the cluster state.", "kind")
        self.cache_refused = self._make(
            Counter, "cache_refused", "Objects that the cluster state had to leave out.", "resource"
        )
        self.watch_failures = self._make(
            Counter, "watch_failures", "Lists and watches that failed: HTTP status or a word.", "resource", "reason"
        )
        self.reservations = self._make(
            Counter, "reservations", "Reservations of the place of the global default, by what came of them.", "outcome"
        )
        self.global_defaults = self._make(Gauge, "global_defaults", "Classes that are the global default; at most 1.")
        self.unknown_callers = self._make(
            Counter, "unknown_callers", "Requests without the token that API servers are told to bring."
        )
        self.leader = self._make(Gauge, "writer", "1 while this CA injector is the one that is elected.")
        self.upkeep_failures = self._make(
            Counter, "upkeep_failures", "Regular tasks that failed and will be tried again.", "task"
        )
        self.authority_expiry = self._make(
            Gauge, "authority_expiry_timestamp_seconds", "When the CA that signs ends, in seconds since 1970."
        )
        self.audit_findings = self._make(
            Gauge,
            "audit_findings",
            "What the last audit found in the cluster; told by the replica that is elected.",
            "rule",
            "severity",
        )
        self.audits = self._closed(
            Counter,
            "audits",
            "Audits, by what came of them; cut-short: time was up before everything was looked at.",
            "outcome",
            AUDITS,
        )
        self.audit_timestamp = self._make(
            Gauge, "audit_timestamp_seconds", "When this replica last ended an audit, in seconds since 1970; 0: never."
        )
        self.reloads = self._make(
            Counter, "reloads", "Files read again because they changed; refused: the old one stays.", "file", "outcome"
        )
        self.file_refused = self._make(
            Gauge, "file_refused", "1 while what is in the file is refused, and an older state of it is used.", "file"
        )

    def _make(self, kind: Callable[..., Any], name: str, help_: str, *labels: str) -> Any:
        return kind(f"forewarn_{name}", help_, labels, registry=self._registry)

    def _closed(self, kind: Callable[..., Any], name: str, help_: str, label: str, values: Iterable[str]) -> Any:
        """A metric by one label whose values are all there from the start: nothing is missed that happens once."""
        made = self._make(kind, name, help_, label)
        for value in values:
            made.labels(value)
        return made

    def refuse(self, reason: Refusal) -> None:
        """Count a request that got no AdmissionReview."""
        self.count(self._refused, reason)

    def refuse_by_status(self, status: int) -> None:
        """The same, where no more is known than the HTTP status."""
        self.refuse(Refusal.of(status))

    def count(self, counter: Counter, *labels: str) -> None:
        """Add one under these labels. Finding a counter's child is dear, so each is found once."""
        key = (counter, labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = counter.labels(*labels)
        child.inc()

    def took(self, phase: str, seconds: float) -> None:
        """Note how long an answer took."""
        child = self._durations.get(phase)
        if child is None:
            child = self._durations[phase] = self._duration.labels(phase)
        child.observe(seconds)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics in the format that the client accepts, and its content type."""
        encode, content_type = exposition.choose_encoder(accept)
        return encode(self._registry), content_type
