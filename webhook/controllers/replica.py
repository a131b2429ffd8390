"""The background tasks of a serving replica in a cluster: its certificate, the global default, and on the leader a
periodic audit at low cost, with results as metrics and objects.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event, Lock
from time import monotonic, process_time, sleep
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.policies.base.findings import Finding, Severity, brief, cut
from forewarn.policies.cli.render.openreports import MAX_LENGTH, NAME, OUTCOMES, SOURCE, not_written_lines, summary_of
from forewarn.policies.questions.application.audit import audited_within
from forewarn.webhook.admission.prediction_access import PredictionProcess, Unanswered
from forewarn.webhook.apiserver.open_reports import is_served, write_reports
from forewarn.webhook.apiserver.typed_client import Conflict, Forbidden, NotFound, ObjectApi, ObjectApiError
from forewarn.webhook.controllers import leases
from forewarn.webhook.controllers.certificate_authority import Installation, Registration
from forewarn.webhook.controllers.serving_certificate import ServingCertificate
from forewarn.webhook.health import start_loop
from forewarn.webhook.http.tls import SwappingContext, distrust
from forewarn.webhook.logs import LOGGER, log_event
from forewarn.webhook.x509 import validity_of

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.linting.config.model import Config
    from forewarn.webhook.admission.review import Grant
    from forewarn.webhook.metrics import Metrics


MAX_EVENTS: Final = 20
"""Maximum number of Events of one audit; the worst findings first."""
_EVENT_MESSAGE: Final = 1_000
"""Maximum characters of an Event's message; the API server accepts 1,024."""
_DEFAULT: Final = "default"
"""Namespace of Events about cluster-scoped objects: pkg/apis/core/validation/events.go accepts no other."""


class Published(NamedTuple):
    """The written objects: `reports` or `events`; "" without the permission. `missing`: sentences about namespaces
    without a Report.
    """

    objects: str = ""
    missing: tuple[str, ...] = ()


def publish(api: ObjectApi, audited: Audited, now: datetime, identity: str) -> Published:
    """Write the findings. Raises ObjectApiError.

    `now`: UTC. `identity`: the name of this replica.
    """
    try:
        if is_served(api):
            written = write_reports(api, audited.found, _summary(audited.counts))
            return Published("reports", tuple(not_written_lines(written)))
        for namespace, event in _events(audited.found, now, identity):
            try:
                api.create(f"/api/v1/namespaces/{namespace}/events", event)
            except (Conflict, NotFound):
                continue  # reported already, or the namespace was deleted
    except Forbidden:
        return Published()
    return Published("events")


def _summary(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """Return the number of findings by outcome, including findings that are counted but not listed in the report."""
    outcomes = {str(severity): outcome for severity, outcome in OUTCOMES.items()}
    total = Counter[str]()
    for (_, severity), count in counts.items():
        total[outcomes[severity]] += count
    return summary_of(total.elements())


def _events(findings: Sequence[Finding], now: datetime, identity: str) -> Iterator[tuple[str, dict[str, Any]]]:
    time = now.isoformat(timespec="seconds").replace("+00:00", "Z")
    serious = [one for one in findings if one.severity is not Severity.NOTE and one.object.name]
    for one in serious[:MAX_EVENTS]:
        namespace = one.object.namespace or _DEFAULT
        warning, fix = brief(one.as_shown.message, MAX_LENGTH), brief(one.as_shown.fix, MAX_LENGTH)
        text = cut(f"{warning} [{one.rule}]" + (f" Fix: {fix}" if fix else ""), _EVENT_MESSAGE)
        ref = one.object
        about = {"apiVersion": ref.api_version, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}
        mark = hashlib.sha256(json.dumps([*ref, one.rule, warning]).encode()).hexdigest()[:16]
        yield (
            namespace,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{NAME}.{mark}", "namespace": namespace},
                "type": "Warning",
                "reason": "ForewarnAudit",
                "message": text,
                "involvedObject": {key: value for key, value in about.items() if value},
                "source": {"component": SOURCE},
                "reportingComponent": SOURCE,
                "reportingInstance": identity,
                "firstTimestamp": time,
                "lastTimestamp": time,
                "count": 1,
            },
        )


SHARE: Final = 0.2
"""Maximum share of one core, on average since the start."""
MAX_REPORTED: Final = 2_000
"""Maximum number of findings with texts, the worst first; the others are only counted."""
_SLICE: Final = 0.02
"""Seconds of CPU time by which the audit may exceed its share before it sleeps."""
_MAX_WORK: Final = 10**12
"""Maximum units of work: so high that only the deadline stops an audit."""
_NICE: Final = 14
"""Niceness in addition to the 5 of every forked process: 19, the lowest priority."""


class Audited(NamedTuple):
    """The result of an audit. `counts`: (rule, severity) -> number of all findings. `is_complete`: false if the time
    was used up before the end; there may be more findings.
    """

    found: tuple[Finding, ...]
    counts: Mapping[tuple[str, str], int]
    suppressed: int
    is_complete: bool
    seconds: float
    """CPU time of the audit."""


class Throttle:
    """An `expired()` callback for an audit that also sleeps whenever the process exceeds its share of CPU time."""

    def __init__(
        self,
        share: float,
        until: float,
        clock: Callable[[], float] = monotonic,
        used: Callable[[], float] = process_time,
        rest: Callable[[float], object] = sleep,
    ) -> None:
        """Start. `share`: of one core, in (0, 1]. `until`: deadline by `clock`. `used`: returns the CPU time."""
        self._share, self._until, self._clock, self._used, self._rest = share, until, clock, used, rest
        self._began, self._used_before = clock(), used()
        self.is_over = False
        """True after the deadline has passed, and a caller has noticed it."""

    def __call__(self) -> bool:
        """Sleep if the process exceeds its share; return true if the deadline has passed."""
        now = self._clock()
        ahead = (self._used() - self._used_before) / self._share - (now - self._began)
        if ahead > _SLICE:
            self._rest(max(0.0, min(ahead, self._until - now)))
            now = self._clock()
        self.is_over = now >= self._until
        return self.is_over


def scan(cluster: ClusterSnapshot, config: Config, until: float, share: float = SHARE) -> Audited:
    """Audit a cluster. `until`: deadline on the monotonic clock. `share`: maximum share of one core."""
    with suppress(OSError):
        os.nice(_NICE)
    expired, began = Throttle(share, until), process_time()
    result = audited_within(cluster, config, expired, _MAX_WORK)
    evaluated = [finding for finding in result.findings if not finding.not_evaluated]
    return Audited(
        tuple(finding._replace(detail={}) for finding in evaluated[:MAX_REPORTED]),
        dict(Counter((finding.rule, str(finding.severity)) for finding in evaluated)),
        result.suppressed,
        len(evaluated) == len(result.findings) and not expired.is_over,
        process_time() - began,
    )


_MAX_LENGTH: Final = 3_600.0
"""Maximum seconds of one audit, if the interval is not shorter; the remaining objects are not evaluated."""
_SLACK: Final = 30.0
"""Seconds after the deadline at which the audit's process is killed: it may be slow between two checks of the clock."""
_CHECK_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 30.0
"""Seconds to the next attempt after a failure; doubled after each further failure, up to the interval."""


class Auditor:
    """Audits every `interval` seconds while this replica is elected. `cluster`: returns None if unknown or too old."""

    def __init__(
        self,
        api: ObjectApi,
        installation: Installation,
        metrics: Metrics,
        cluster: Callable[[], ClusterSnapshot | None],
        config: Callable[[], Config],
        fork: Callable[[Callable[[Any], Any]], PredictionProcess],
        interval: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._api, self._identity, self._metrics, self._cluster = api, installation.identity, metrics, cluster
        self._config, self._fork, self._interval, self._clock = config, fork, interval, clock
        self._election = leases.Election(api, installation.audit, installation.identity, clock)
        self._due, self._failures = 0.0, 0
        self._published = False
        self._stop, self._lock = Event(), Lock()
        self._process: PredictionProcess | None = None

    def start(self) -> Callable[[], None]:
        """Start the audit's thread; return a function that stops the thread and a running audit immediately."""
        thread = start_loop("audit", self._run, self._stop)

        def end() -> None:
            self._stop.set()
            self._end_process()
            thread.join(2 * _CHECK_SECONDS)
            try:
                self._election.resign()
            except ObjectApiError as error:
                log_event("cannot release the Lease of the audit", {"reason": str(error)}, logging.WARNING)

        return end

    def elect(self) -> None:
        """Acquire or renew the Lease; if it is lost, withdraw this replica's findings. Raises ObjectApiError."""
        if self._stop.is_set():
            return
        self._election.reconcile()
        if not self._election.is_leader:
            self._withdraw()

    def reconcile(self) -> None:
        """Audit and publish the findings, if an audit is due and the replica is elected. Raises nothing."""
        if not self._election.is_leader:
            self._withdraw()
            return
        if self._clock() < self._due:
            return
        cluster = self._cluster()
        if cluster is None:
            return
        began = self._clock()
        try:
            audited = self._audited(cluster)
            published = publish(self._api, audited, datetime.now(UTC), self._identity)
        except (Unanswered, ObjectApiError, OSError) as error:
            self._failed(str(error))
        except Exception as error:
            LOGGER.exception("audit failed")
            self._failed(type(error).__name__)
        else:
            self._failures, self._due = 0, began + self._interval
            self._log(audited, published, self._clock() - began)

    def _run(self) -> None:
        while not self._stop.wait(_CHECK_SECONDS):
            self.reconcile()

    def _audited(self, cluster: ClusterSnapshot) -> Audited:
        """Audit in a forked process, which shares the cluster state. Raises Unanswered."""
        config = self._config()
        until = monotonic() + min(self._interval, _MAX_LENGTH)
        process = self._fork(lambda _: scan(cluster, config, until))
        with self._lock:
            self._process = process
        try:
            if self._stop.is_set():
                raise Unanswered("this replica is shutting down")
            answer = process.ask(None, until + _SLACK)
        finally:
            self._end_process()
        assert isinstance(answer, Audited)
        return answer

    def _end_process(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.end()

    def _log(self, audited: Audited, published: Published, seconds: float) -> None:
        self._withdraw()
        if not self._election.is_leader:
            return  # another replica became leader in the meantime
        for (rule, severity), count in audited.counts.items():
            self._metrics.audit_findings.labels(rule, severity).set(count)
        self._published = True
        self._metrics.count(self._metrics.audits, "completed" if audited.is_complete else "incomplete")
        self._metrics.audit_last_run.set(datetime.now(UTC).timestamp())
        fields = {
            "findings": sum(audited.counts.values()),
            "suppressed": audited.suppressed,
            "written": published.objects or "nothing",
            "seconds": round(seconds, 1),
            "cpu_seconds": round(audited.seconds, 1),
        }
        log_event("audit completed" if audited.is_complete else "audit incomplete", fields)
        for why in published.missing:
            log_event("audit reports missing", {"reason": why}, logging.WARNING)

    def _failed(self, why: str) -> None:
        self._failures += 1
        pause = min(_AGAIN_SECONDS * 2 ** min(self._failures - 1, 10), self._interval)
        self._due = self._clock() + pause
        if not self._stop.is_set():
            self._metrics.count(self._metrics.audits, "failed")
            log_event("audit failed", {"reason": why, "retry_in_seconds": round(pause)}, logging.WARNING)

    def _withdraw(self) -> None:
        """Remove the last findings from the metrics: this replica may no longer report them."""
        if self._published:
            self._metrics.audit_findings.clear()
            self._published = False


CERTIFICATE_SECONDS: Final = 10.0
"""The interval between two checks of the certificate."""
DISTRUST_SECONDS: Final = 30.0
"""Seconds after which a replica that API servers trusted is not ready: the CA injector restores caBundle in 5 s."""
_PENDING_SECONDS: Final = 1.0
_CERTIFICATE: Final = "certificate"


class ReplicaControllers:
    """Runs background tasks that are due, on its own thread.

    `auditor`: None without the audit. `from_files`: whether the certificate is from files instead of forewarn's Secret.
    """

    def __init__(
        self,
        api: ObjectApi,
        installation: Installation,
        metrics: Metrics,
        contexts: SwappingContext,
        cluster: Callable[[], ClusterSnapshot | None],
        clock: Callable[[], float] = monotonic,
        auditor: Auditor | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        from_files: bool = False,
    ) -> None:
        self._cluster, self._auditor, self._contexts, self._now, self._clock = cluster, auditor, contexts, now, clock
        self._tasks = leases.Tasks(metrics, clock)
        self._registration = Registration(api)
        self._serving = None if from_files else ServingCertificate(api, installation.serving, contexts, metrics)
        contexts.rejection = lambda certificate: self._registration.rejection(certificate, self._now())
        self._defaults = leases.GlobalDefaults(metrics)
        self.reservations = leases.Reserver(api, installation.default, metrics, clock)
        self._trusted: float | None = None
        self._why = "not checked yet"
        self._stop = Event()

    def fault(self) -> str:
        """Return why the replica is not ready: API servers do not trust its certificate."""
        if self._trusted is None:
            why = self._tasks.faults.get(_CERTIFICATE, self._why)
        elif self._why and self._clock() - self._trusted >= DISTRUST_SECONDS:
            why = self._why
        else:
            why = validity_of(self._contexts.certificate.chain).fault(self._now())
        return distrust(why)

    def grants(self) -> Mapping[str, Grant]:
        """Return token -> its scope, from the last read of the webhook configurations; empty without tokens."""
        return self._registration.grants if self._serving else {}

    def read_again(self) -> None:
        """Read the webhook configurations now, because of a caller without a known token. Raises ObjectApiError."""
        self._registration.reconcile()

    def start(self) -> Callable[[], None]:
        """Start the thread; return a function that stops it."""
        thread = start_loop("upkeep", self._run, self._stop)
        end_auditing = self._auditor.start() if self._auditor else None

        def end() -> None:
            self._stop.set()
            if end_auditing:
                end_auditing()
            self.reservations.wake.set()
            thread.join(2 * leases.RECONCILE_SECONDS)

        return end

    def reconcile(self) -> None:
        """Run all tasks that are due. Raises nothing."""
        self._tasks.attempt(_CERTIFICATE, 0 if self._why else CERTIFICATE_SECONDS, self._certificate)
        self._tasks.attempt("global default reservation", 0, self.reservations.reconcile)
        self._tasks.attempt("count global defaults", leases.RECONCILE_SECONDS, self._count_defaults)
        if self._auditor:
            self._tasks.attempt("audit leader election", leases.RENEWAL_SECONDS, self._auditor.elect)

    def _run(self) -> None:
        wake = self.reservations.wake
        while not self._stop.is_set():
            wake.clear()
            self.reconcile()
            wake.wait(_PENDING_SECONDS if self.reservations.pending or self._why else leases.RECONCILE_SECONDS)

    def _certificate(self) -> None:
        """Serve the certificate that the CA injector has issued, and check whether API servers trust the served one."""
        served = self._serving.read() if self._serving else None
        try:
            self._registration.reconcile()
        except Forbidden:
            if self._serving:
                raise  # the permission is optional if the certificate is from files
        finally:
            if self._serving and served:
                self._serving.use(served)
        if self._serving and not self._serving.served.certificate:
            self._why = "the Secret forewarn-serving-cert is empty; wait for forewarn-ca-injector to fill it"
            return
        self._why = self._contexts.rejection(self._contexts.certificate)
        if not self._why:
            self._trusted = self._clock()

    def _count_defaults(self) -> None:
        cluster = self._cluster()
        if cluster is not None:
            self._defaults.reconcile(cluster.priority_classes)
