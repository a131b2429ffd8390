"""What Prometheus reads. Every label's values are a closed set, so that no client can grow the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, exposition

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: Final = {
    "scheduling.k8s.io/PriorityClass": "PriorityClass",
    "autoscaling/Scale": "Scale",
    "/Namespace": "Namespace",
    "/Pod": "Pod",
    "/ResourceQuota": "ResourceQuota",
    "/ReplicationController": "ReplicationController",
    "/PodTemplate": "PodTemplate",
    "apps/Deployment": "Deployment",
    "apps/ReplicaSet": "ReplicaSet",
    "apps/StatefulSet": "StatefulSet",
    "apps/DaemonSet": "DaemonSet",
    "batch/Job": "Job",
    "batch/CronJob": "CronJob",
}
"""`group/Kind` to the value of the label kind; any other is `other`."""
OTHER: Final = "other"
_SECONDS: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The webhook's metrics, in a registry of their own."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._children: dict[tuple[Counter, tuple[str, ...]], Counter] = {}
        self.requests = self._make(
            Counter, "admission_requests", "Requests, by how they came out.", "phase", "operation", "kind", "verdict"
        )
        self.duration = Histogram(
            "forewarn_admission_duration_seconds",
            "From the last byte of a request to its answer.",
            ["phase"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.in_flight = self._make(Gauge, "in_flight", "Requests that have not been answered yet.")
        self.findings = self._make(Counter, "findings", "What rules said of requests.", "rule", "action")
        self.prediction_duration = Histogram(
            "forewarn_prediction_duration_seconds",
            "Time of a prediction for /validate.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.predictions = self._make(
            Counter, "predictions", "Predictions for /validate, by what came of them.", "outcome"
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
        self.writer = self._make(Gauge, "writer", "1 while this replica writes what only one writes.")
        self.upkeep_failures = self._make(
            Counter, "upkeep_failures", "Regular tasks that failed and will be tried again.", "task"
        )
        self.authority_expiry = self._make(
            Gauge, "authority_expiry_timestamp_seconds", "When the CA that signs ends, in seconds since 1970."
        )
        self.reloads = self._make(
            Counter, "reloads", "Files read again because they changed; refused: the old one stays.", "file", "outcome"
        )
        self.file_refused = self._make(
            Gauge, "file_refused", "1 while what is in the file is refused, and an older state of it is used.", "file"
        )

    def _make(self, kind: Callable[..., Any], name: str, help_: str, *labels: str) -> Any:
        return kind(f"forewarn_{name}", help_, labels, registry=self._registry)

    def count(self, counter: Counter, *labels: str) -> None:
        """Add one under these labels. Finding a counter's child is dear, so each is found once."""
        key = (counter, labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = counter.labels(*labels)
        child.inc()

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The metrics in the format that the client accepts, and its content type."""
        encode, content_type = exposition.choose_encoder(accept)
        return encode(self._registry), content_type
