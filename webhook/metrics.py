"""Metrics for Prometheus. The values of each label are a closed set, so that clients cannot increase memory use."""

from __future__ import annotations

import json
import platform
from enum import StrEnum
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    exposition,
)

from forewarn.policies import VERSION
from forewarn.policies.cli import KUBERNETES
from forewarn.policies.kinds.registry import BY_GROUP_KIND, CONTROLLER_REVISION
from forewarn.webhook.accuracy import Outcome
from forewarn.webhook.workload_accuracy import RESULTS, WORKLOAD_RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client import Metric

KINDS: Final = {kind: spec.kind for kind, spec in BY_GROUP_KIND.items() if spec.is_evaluated or spec.template} | {
    "autoscaling/Scale": "Scale",
    CONTROLLER_REVISION: "ControllerRevision",
}
"""Value of the label kind, by `group/Kind`. Any other kind is `other`."""
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
    def of(cls, status: int) -> RejectionReason:
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


_TYPES: Final[Mapping[str, Callable[..., Any]]] = {
    "counter": Counter,
    "gauge": Gauge,
    "histogram": partial(Histogram, buckets=_SECONDS),
}


class _OwnProcess(ProcessCollector):
    """The standard `process_*` metrics, with help texts that name the webhook process."""

    def collect(self) -> Iterable[Metric]:
        """Metrics of this process; none without /proc."""
        for metric in super().collect():
            metric.documentation += " Webhook process only, without prediction processes."
            yield metric


class Metrics:
    """The webhook's metrics, in a separate registry: an attribute for each key in metrics.json."""

    requests: Counter
    _duration: Histogram
    in_flight: Gauge
    findings: Counter
    _rejected: Counter
    rejected_api_servers: Counter
    unauthenticated: Counter
    predictions: Counter
    predictions_shown: Counter
    prediction_results: Counter
    workload_prediction_results: Counter
    prediction_duration: Histogram
    prediction_queue: Gauge
    prediction_queue_duration: Histogram
    cache_age: Gauge
    cache_objects: Gauge
    cache_skipped: Counter
    watch_failures: Counter
    global_defaults: Gauge
    reservations: Counter
    certificate_expiry: Gauge
    ca_expiry: Gauge
    leader: Gauge
    audit_findings: Gauge
    audits: Counter
    audit_last_run: Gauge
    build: Gauge
    disclosure: Gauge
    task_failures: Counter
    reloads: Counter
    file_rejected: Gauge
    log_lines_dropped: Counter

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self.described: list[Described] = []
        """All metrics but `process_*`, for docs/reference/metrics.md."""
        self._children: dict[tuple[Counter, tuple[str, ...]], Counter] = {}
        self._durations: dict[str, Histogram] = {}
        _OwnProcess(registry=self._registry)
        for section, metrics in json.loads(
            files(__package__ or "").joinpath("metrics.json").read_text("utf-8")
        ).items():
            for attribute, metric in metrics.items():
                setattr(self, attribute, self._make(section, metric))
        closed: Mapping[Counter, Iterable[str]] = {
            self._rejected: RejectionReason,
            self.rejected_api_servers: [why for status, why in _REJECTION_REASONS.items() if status < _SERVER_ERROR],
            self.predictions: Outcome,
            self.predictions_shown: DETAILS,
            self.prediction_results: RESULTS,
            self.workload_prediction_results: WORKLOAD_RESULTS,
            self.audits: AUDITS,
        }
        for counter, values in closed.items():  # they exist from the start, so that Prometheus sees the first event
            for value in values:
                counter.labels(value)
        self.build.labels(VERSION, platform.python_version(), KUBERNETES).set(1)

    def _make(self, section: str, metric: Mapping[str, Any]) -> Counter | Gauge | Histogram:
        name, labels = f"forewarn_{metric['name']}", tuple(metric["labels"])
        exposed = f"{name}_total" if metric["type"] == "counter" else name
        self.described.append(Described(section, exposed, metric["type"], labels, metric["help"]))
        made: Counter | Gauge | Histogram = _TYPES[metric["type"]](
            name, metric["help"], labels, registry=self._registry
        )
        return made

    def reject(self, reason: RejectionReason) -> None:
        self.count(self._rejected, reason)

    def reject_by_status(self, status: int) -> None:
        self.reject(RejectionReason.of(status))

    def count(self, counter: Counter, *labels: str) -> None:
        """Add 1 to a counter with these labels. Caches the counter's child, because looking it up is slow."""
        key = (counter, labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = counter.labels(*labels)
        child.inc()

    def took(self, phase: str, seconds: float) -> None:
        """Record the duration of a response. `phase`: the webhook."""
        child = self._durations.get(phase)
        if child is None:
            child = self._durations[phase] = self._duration.labels(phase)
        child.observe(seconds)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics in the format that the client accepts, and its content type."""
        encode, content_type = exposition.choose_encoder(accept)
        return encode(self._registry), content_type
