"""`forewarn webhook serve`: start the webhook and run it until it is stopped."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from threading import Event
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from forewarn.policies.base.disclosure import Disclose
from forewarn.policies.inputs.sources.files import SourceError, reason, status_of, write_file
from forewarn.policies.linting.config.load import is_empty
from forewarn.policies.linting.config.model import Config, ConfigError
from forewarn.webhook.accuracy import Accuracy, path_of, serve_table
from forewarn.webhook.admission.endpoint import Endpoint
from forewarn.webhook.admission.prediction_access import PredictionProcess, Workers
from forewarn.webhook.admission.review import BadTokens, Callers, Gate, Grants, ReadAgain, read_tokens
from forewarn.webhook.commands.state_source import StateSource, context_of, from_files, from_watches
from forewarn.webhook.health import Health, start_loop
from forewarn.webhook.http import tls
from forewarn.webhook.http.asgi import Limits, Routes
from forewarn.webhook.http.server import (
    Shares,
    TlsServer,
    TooFewDescriptors,
    address_of,
    bind,
    divide,
    handling,
    open_files,
    raise_limit,
    reserve,
    serve_health,
)
from forewarn.webhook.logs import count_dropped, log_cannot_start, log_event, use_level, with_logs
from forewarn.webhook.metrics import Metrics
from forewarn.webhook.settings import Settings, configuration, parse_settings, unknown_variables
from forewarn.webhook.x509 import Certificate, self_signed, validity_of

if TYPE_CHECKING:
    from pathlib import Path

    from forewarn.policies.kubernetes.cluster.cache import ClusterSnapshot
    from forewarn.policies.kubernetes.releases.release import Release
    from forewarn.webhook.admission.access_reviews import AccessReviews
    from forewarn.webhook.admission.admitted_pods import AdmittedPods
    from forewarn.webhook.admission.decide import Reserve
    from forewarn.webhook.informer.informer import Changed

T = TypeVar("T")
SECONDS: Final = 5.0
"""Seconds between checks: mounted ConfigMaps and Secrets change by a symlink, unseen by a watch of one file."""


class Reloaded(Generic[T]):
    """Content that `load` reads from files; without files, it never changes. Any thread may read `current`; one thread
    calls `check`.
    """

    def __init__(
        self,
        what: str,
        paths: Sequence[Path],
        load: Callable[[], T],
        metrics: Metrics,
        refuses: Callable[[T, T], str] = lambda _held, _new: "",
    ) -> None:
        self._what, self._paths, self._load, self._metrics = what, tuple(paths), load, metrics
        self._refuses, self._is_pending = refuses, False
        self._seen = self._digest()
        self.current = load()
        if paths:
            metrics.file_rejected.labels(what).set(0)

    def check(self) -> bool:
        """Load the files if they have changed; return true if new content is in use. Logs rejected content.

        Tries rejected content again at each call, because the reason may be the time, a full disk, or a lack of file
        descriptors or memory.
        """
        digest = self._digest()
        is_new, self._seen = digest != self._seen, digest
        if not is_new and not self._is_pending:
            return False
        self._is_pending = True
        try:
            new = self._load()
        except (ValueError, OSError) as error:
            why = str(error) or type(error).__name__
        else:
            why = self._refuses(self.current, new)
        if not why:
            self.current, self._is_pending = new, False
        if why and is_new:
            self._log("rejected", why)
        elif not why:
            self._log("loaded", "")
        return not why

    def checked(self) -> T:
        """Return the content in use after `check`."""
        self.check()
        return self.current

    def _digest(self) -> bytes:
        """Return a digest of the contents: times and inodes are unreliable on a mounted volume."""
        digest = hashlib.sha256()
        for path in self._paths:
            try:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
            except OSError:
                digest.update(b"away")
        return digest.digest()

    def _log(self, outcome: str, why: str) -> None:
        self._metrics.reloads.labels(self._what, outcome).inc()
        self._metrics.file_rejected.labels(self._what).set(outcome == "rejected")
        fields = {"file": self._what, "outcome": outcome, **({"reason": why} if why else {})}
        log_event("file reload", fields, logging.WARNING if why else logging.INFO)


def check_regularly(checks: Sequence[Callable[[], object]], seconds: float = SECONDS) -> Event:
    """Call each check every `seconds` on a separate thread, until the returned event is set."""
    stop = Event()

    def run() -> None:
        while not stop.wait(seconds):
            for check in checks:
                try:
                    check()
                except Exception:
                    logging.getLogger("forewarn").exception("a periodic check failed")

    start_loop("reloading", run, stop)
    return stop


class InCluster(NamedTuple):
    """The additional state of a replica in a cluster.

    `reserve`: reserves the global default. `grants`: the tokens in the webhook configurations, with their scopes.
    `read_again`: updates the tokens.
    `fault`: returns why the replica is not ready; "" if ready.
    """

    reserve: Reserve | None = None
    grants: Grants = dict
    read_again: ReadAgain | None = None
    fault: Callable[[], str] = lambda: ""
    stop: Callable[[], None] = lambda: None


def start_in_cluster(
    settings: Settings,
    state: StateSource,
    contexts: tls.SwappingContext,
    metrics: Metrics,
    config: Callable[[], Config],
    fork: Callable[[Callable[[Any], Any]], PredictionProcess],
) -> InCluster:
    """Start the background tasks of a replica; without `settings.namespace`, start nothing.

    `fork`: creates a process for the audit. Raises CannotStart if there is a namespace but no API server.
    """
    if not settings.namespace:
        return InCluster(fault=lambda: tls.distrust(contexts.rejection(contexts.certificate)))
    if state.api is None:
        raise CannotStart("--namespace needs a watched cluster. Fix: remove --namespace, or --cluster FILE", USAGE)
    from forewarn.webhook.apiserver.typed_client import ObjectApi
    from forewarn.webhook.controllers.certificate_authority import Installation
    from forewarn.webhook.controllers.replica import ReplicaControllers

    installation = Installation(settings.namespace, settings.identity or socket.gethostname())
    api, auditor = ObjectApi(state.api), None
    if settings.audit_interval:
        from forewarn.webhook.controllers.replica import Auditor

        def on_time() -> ClusterSnapshot | None:
            return None if state.staleness() else state.cluster()

        auditor = Auditor(api, installation, metrics, on_time, config, fork, settings.audit_interval)
    from_files = settings.tls_cert is not None
    upkeep = ReplicaControllers(
        api, installation, metrics, contexts, state.cluster, auditor=auditor, from_files=from_files
    )

    def changed(delta: Changed) -> None:
        if delta.resource.kind == "PriorityClass":
            upkeep.reservations.seen(delta.object)

    state.listen(changed)
    return InCluster(upkeep.reservations.reserve, upkeep.grants, upkeep.read_again, upkeep.fault, upkeep.start())


USAGE, FAILED = 2, 3
_SWITCH_SECONDS = 0.001
"""The switch interval for the evaluating thread while the event loop waits; Python's default is 5 ms."""
_ASKED_FOR_LATE = (
    "policies.kubernetes.controllers.changes",
    "policies.kubernetes.objects.extent",
    "policies.kubernetes.kube_apiserver.quota",
    "policies.linting.rules.support.quota_use",
    "policies.kubernetes.scheduling.bulk",
    "policies.prediction.forecast.forecast",
    "policies.prediction.forecast.rehearsal",
)
"""Modules that the linter imports on demand, and numpy.ma; imported at the start, so that the first request is fast."""


class CannotStart(Exception):
    """The reason why the webhook cannot start, with its exit status."""

    def __init__(self, why: object, status: int) -> None:
        super().__init__(str(why))
        self.status = status


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    return with_logs(lambda: parse_settings(arguments, os.environ), _started)


def _started(settings: Settings) -> int:
    use_level(settings.log_level)
    for name in unknown_variables(os.environ):
        fields = {"variable": name, "reason": "no flag has this name; ignored"}
        log_event("unknown environment variable", fields, logging.WARNING)
    try:
        # Before the server starts, and after it has stopped; while it runs, its own handler drains it.
        with handling(lambda *_: sys.exit(0), signal.SIGTERM):
            return _run(settings)
    except CannotStart as fault:
        log_cannot_start(fault)
        return fault.status


def _run(settings: Settings) -> int:
    for module in (*(f"forewarn.{ours}" for ours in _ASKED_FOR_LATE), "numpy.ma"):
        import_module(module)
    sys.setswitchinterval(_SWITCH_SECONDS)
    metrics, gate = Metrics(), Gate(settings.max_in_flight)
    config, look_at_config = _config(settings, metrics)
    shares = _shares(settings, config().options.pod_template_paths)
    certificates, look_at_certificate = _certificates(settings, metrics)
    tokens = _tokens(settings, metrics)
    metrics.in_flight.set_function(lambda: gate.inside)
    for mode in Disclose:
        metrics.disclosure.labels(mode.value).set_function(lambda mode=mode: config().disclose is mode)
    accuracy = Accuracy(
        partial(metrics.count, metrics.prediction_results),
        count_workload=partial(metrics.count, metrics.workload_prediction_results),
    )
    state = _state(settings, metrics, accuracy, config().options.pod_template_paths)
    with ExitStack() as stack:
        stack.callback(state.stop)
        workers = Workers(settings.prediction_processes)
        metrics.prediction_queue.set_function(lambda: workers.predictions)
        stack.callback(workers.stop)
        own = start_in_cluster(settings, state, certificates, metrics, config, workers.fork)
        stack.callback(own.stop)
        health = Health(faults=(state.fault, own.fault))
        count_dropped(metrics.log_lines_dropped.inc)
        endpoint = Endpoint(
            cluster=state.cluster,
            config=config,
            metrics=metrics,
            gate=gate,
            confirm=state.confirm,
            reserve=own.reserve,
            staleness=state.staleness,
            predictors=workers.predictors,
            give_way=workers.evaluating.give_way,
            reviews=_reviews(state),
            expect=accuracy.expect if state.api else None,
            callers=Callers(lambda: tokens.current, own.grants, own.read_again, proven=settings.client_ca is not None),
        )
        state.listen(partial(_forget_deleted, endpoint.admitted_pods))
        ports = settings.health_port, settings.port
        plain, secure = (stack.enter_context(_bound(settings.host, port)) for port in ports)
        look_at_scheduler = _scheduler(settings, state, metrics)
        looks = [look_at_config, look_at_certificate, tokens.check, accuracy.settle, look_at_scheduler]
        stack.callback(check_regularly(looks).set)
        stack.callback(serve_health(plain, health, metrics, shares.health))
        if state.api:
            _serve_accuracy(plain.getsockname()[1], accuracy, stack)
        log_event("listening", {"webhook": address_of(secure, "https"), "health": address_of(plain, "http")})
        limits = Limits(connections=shares.tls, keep_alive=settings.keep_alive, drain=settings.drain)
        routes = Routes(endpoint, health, limits, workers)
        served = routes, certificates.listening, gate, health, limits, frozenset(settings.client_names)
        TlsServer(*served, metrics.reject_by_status).run([secure])
        log_event("stopped", {"in_flight": gate.inside})
    return 0


def _shares(settings: Settings, kinds: Collection[str]) -> Shares:
    """Raise the limit on open files, and divide it. Raises CannotStart."""
    try:
        shares = divide(raise_limit(), open_files() + reserve(settings, kinds))
    except TooFewDescriptors as fault:
        raise CannotStart(fault, FAILED) from None
    if shares.is_low:
        log_event("limit on open files is low", {**shares._asdict()}, logging.WARNING)
    return shares


def _serve_accuracy(port: int, accuracy: Accuracy, stack: ExitStack) -> None:
    """Serve the table to `forewarn webhook accuracy`. Admission does not depend on it."""
    try:
        stack.callback(serve_table(port, accuracy.table))
    except OSError as error:
        fields = {"file": str(path_of(port)), "reason": reason(error)}
        log_event("forewarn webhook accuracy is not available", fields, logging.WARNING)


def _forget_deleted(to_come: AdmittedPods, delta: Changed) -> None:
    """Remove a deleted object from the recently admitted objects, so that the Pods of the object no longer count."""
    if delta.deleted:
        metadata = delta.object.get("metadata") or {}
        to_come.deleted((delta.resource.group_kind, metadata.get("namespace", ""), metadata.get("name", "")))


def _state(
    settings: Settings, metrics: Metrics, accuracy: Accuracy, templates: Mapping[str, tuple[str, ...]]
) -> StateSource:
    """Return the cluster state, from files or watches. Raises CannotStart. `templates`: kind -> Pod template paths."""
    try:
        context = context_of(settings.cluster)
    except ValueError as fault:
        raise CannotStart(fault, USAGE) from None
    try:
        if context is None:
            return from_files(settings.cluster, metrics, settings.release, templates)
        return from_watches(context, settings.max_cache_age, metrics, accuracy, settings.release, templates)
    except (SourceError, OSError) as fault:
        raise CannotStart(fault, status_of(fault)) from None


def _scheduler(settings: Settings, state: StateSource, metrics: Metrics) -> Callable[[], object]:
    """Return a function that reloads the scheduler's configuration if the file has changed."""
    if settings.scheduler_file is None:
        return lambda: None

    def load() -> Release:
        release = settings.release
        release.semantics()
        return release

    reloaded = Reloaded("scheduler-config", [settings.scheduler_file], load, metrics)
    return lambda: state.use(reloaded.current) if reloaded.check() else None


def _reviews(state: StateSource) -> AccessReviews | None:
    """Return the access reviews; None without an API server."""
    if state.api is None:
        return None
    from time import monotonic

    from forewarn.webhook.admission.access_reviews import TIMEOUTS, AccessReviews
    from forewarn.webhook.apiserver.client import Timeouts
    from forewarn.webhook.apiserver.typed_client import ObjectApi

    return AccessReviews(ObjectApi(state.api, Timeouts(*TIMEOUTS)), monotonic)


def _config(settings: Settings, metrics: Metrics) -> tuple[Callable[[], Config], Callable[[], object]]:
    """Return a function that returns the current configuration, and one that reloads the files if they have changed."""
    config, admission = settings.config, settings.admission_config
    paths = [path for path in (config, admission) if path]

    def load() -> _Read:
        return _Read(configuration(config, admission), config is None or is_empty(config))

    def refuses(current: _Read, new: _Read) -> str:
        is_emptied = new.is_empty and not current.is_empty  # perhaps truncated by mistake
        return "the configuration is empty and was not before. Fix: write {} to use the defaults" * is_emptied

    try:
        reloaded = Reloaded("configuration", paths, load, metrics, refuses=refuses)
    except ConfigError as fault:
        raise CannotStart(fault, USAGE) from None
    return lambda: reloaded.current.config, reloaded.check


class _Read(NamedTuple):
    """The configuration in a file. `is_empty`: whether the file is empty."""

    config: Config
    is_empty: bool


def _certificates(settings: Settings, metrics: Metrics) -> tuple[tls.SwappingContext, Callable[[], object]]:
    """Return the TLS contexts, and a function that reloads the certificate and the client CAs. Raises CannotStart."""
    authorities, minimum = settings.client_ca, settings.tls_min_version

    def read_demands() -> tls.Demands:
        return tls.Demands(minimum, tls.read_authorities(authorities) if authorities else b"")

    try:
        of_clients = Reloaded("client-ca", [authorities] if authorities else (), read_demands, metrics)
        own = _certificate(settings, metrics, lambda new: contexts.worse(new))
        certificate, demands = own.current, of_clients.current
        contexts = tls.SwappingContext(certificate, demands)
    except tls.TlsError as fault:
        raise CannotStart(fault, status_of(fault.__cause__)) from None
    metrics.certificate_expiry.set_function(lambda: contexts.certificate.not_after.timestamp())

    def reconcile() -> None:
        nonlocal certificate, demands
        new, needed = own.checked(), of_clients.checked()
        if (new, needed) != (certificate, demands):
            contexts.swap(None if new == certificate else new, needed)  # None keeps the certificate of the Secret
            certificate, demands = new, needed

    return contexts, reconcile


def _certificate(settings: Settings, metrics: Metrics, refuses: Callable[[Certificate], str]) -> Reloaded[Certificate]:
    """Return the certificate to serve: from files, or generated."""
    chain, key = settings.tls_cert, settings.tls_key
    if chain is None or key is None:
        generated = self_signed(datetime.now(UTC))
        _write_ca(settings, generated.ca)
        return Reloaded("certificate", (), lambda: generated, metrics)
    load = partial(tls.read_certificate, chain, key)
    reloaded = Reloaded("certificate", [chain, key], load, metrics, refuses=lambda _held, new: refuses(new))
    if why := validity_of(reloaded.current.chain).fault(datetime.now(UTC)):
        message = f"{why}; forewarn serves it until the files change"
        log_event("serving certificate not valid", {"file": str(chain), "reason": message}, logging.WARNING)
    return reloaded


def _tokens(settings: Settings, metrics: Metrics) -> Reloaded[tuple[str, ...]]:
    """Return the tokens, one of which every client must send. Raises CannotStart."""
    path = settings.client_token_file
    try:
        return Reloaded("client-tokens", [path] if path else (), lambda: read_tokens(path) if path else (), metrics)
    except BadTokens as fault:
        raise CannotStart(f"--client-token-file {fault}", status_of(fault.__cause__)) from None


def _write_ca(settings: Settings, ca: bytes) -> None:
    if settings.write_ca is None:
        return
    try:
        write_file(str(settings.write_ca), ca)
    except SourceError as fault:
        raise CannotStart(f"--write-ca {fault}", FAILED) from None


def _bound(host: str, port: int) -> socket.socket:
    try:
        return bind(host, port)
    except OSError as error:
        raise CannotStart(f"cannot listen on {host} port {port}: {error.strerror or error}", FAILED) from None
