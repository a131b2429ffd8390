"""Decides which replica audits, and when; publishes the findings."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from forewarn.webhook.admission.prediction_process import Unanswered
from forewarn.webhook.apiserver.object_api import ObjectApiError
from forewarn.webhook.controllers.audit.reports import publish
from forewarn.webhook.controllers.audit.scan import Audited, scan
from forewarn.webhook.controllers.leader import Election
from forewarn.webhook.logs import LOGGER, log_event

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.webhook.apiserver.object_api import ObjectApi
    from forewarn.webhook.controllers.audit.reports import Published
    from forewarn.webhook.controllers.installation import Installation
    from forewarn.webhook.metrics import Metrics

_LONGEST: Final = 3_600.0
"""Maximum seconds of one audit, if the interval is not shorter; the remaining objects are not evaluated."""
_SLACK: Final = 30.0
"""Seconds after the deadline at which the audit's process is killed: steps between two clock checks may be slow."""
_CHECK_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 30.0
"""Seconds to the next attempt after a failure; doubled after each further failure, up to the interval."""


class Process(Protocol):
    """A forked process that answers a question, as webhook.admission.prediction_process.PredictionProcess."""

    def ask(self, question: object, until: float) -> Any:
        """The answer to a question. `until`: deadline on the monotonic clock. Raises Unanswered."""

    def end(self) -> None:
        """Kill the process."""


class Auditor:
    """Audits every `interval` seconds while this replica is elected. `cluster`: returns None if unknown or too old."""

    def __init__(
        self,
        api: ObjectApi,
        installation: Installation,
        metrics: Metrics,
        cluster: Callable[[], ClusterSnapshot | None],
        config: Callable[[], Config],
        fork: Callable[[Callable[[Any], Any]], Process],
        interval: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._api, self._identity, self._metrics, self._cluster = api, installation.identity, metrics, cluster
        self._config, self._fork, self._interval, self._clock = config, fork, interval, clock
        self._election = Election(api, installation.audit, installation.identity, clock)
        self._due, self._failures = 0.0, 0
        self._published = False
        self._stop, self._lock = Event(), Lock()
        self._process: Process | None = None

    def start(self) -> Callable[[], None]:
        """Start the audit's thread; return a function that stops the thread and a running audit immediately."""
        thread = Thread(target=self._run, name="audit", daemon=True)
        thread.start()

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
        """Acquire or renew the Lease; withdraw the findings of a replica that has lost the Lease. Raises
        ObjectApiError.
        """
        if self._stop.is_set():
            return
        self._election.reconcile()
        if not self._election.is_leader:
            self._withdraw()

    def reconcile(self) -> None:
        """If an audit is due and the replica is elected, audit and publish the findings. Raises nothing."""
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
        until = monotonic() + min(self._interval, _LONGEST)
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
        if not self._election.is_leader:
            self._withdraw()  # it took so long that another replica is elected
            return
        self._withdraw()
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
