"""Flags and environment variables of `forewarn webhook serve`, as one frozen Settings."""

from __future__ import annotations

import argparse
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from forewarn.policies.base.findings import one_line, quote
from forewarn.policies.cli.commands.parser import Parser, any_duration, duration_between, integer_between
from forewarn.policies.cli.commands.release import KNOWN, feature_gates, release_minor
from forewarn.policies.kubernetes.releases.release import BadGates, Release
from forewarn.policies.linting.config.load import load_config, load_limited_resources
from forewarn.policies.linting.config.model import Config, ConfigError
from forewarn.policies.linting.config.scheduler import scheduler_source
from forewarn.webhook.logs import LEVELS

T = TypeVar("T")
TLS_VERSIONS: Final = {"1.3": ssl.TLSVersion.TLSv1_3, "1.2": ssl.TLSVersion.TLSv1_2}
MIN_INTERVAL: Final = 60.0
"""Minimum seconds between two audits."""
_DAY: Final = 86_400.0
MIN_KEEP_ALIVE: Final = 91
"""Minimum keep-alive in seconds: the API server keeps idle connections for 90 s, and never repeats a POST."""
PREFIX: Final = "FOREWARN_"
_SERVICE_LINK: Final = re.compile(r"(tcp|udp|sctp)://\S+:\d+")
"""Value of FOREWARN_PORT for a Service named forewarn (pkg/kubelet/envvars, makeLinkVariables)."""
_OF_A_SERVICE: Final = re.compile(r".*_SERVICE_(HOST|PORT(_.*)?)|.*_PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?")
"""Variables that only the kubelet sets. For a name that ends in `_PORT`, the value decides."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the webhook. Times in seconds; port 0 selects a free port."""

    host: str
    port: int
    health_port: int
    tls_cert: Path | None
    tls_key: Path | None
    tls_min_version: ssl.TLSVersion
    write_ca: Path | None
    client_ca: Path | None
    client_token_file: Path | None
    client_names: tuple[str, ...]
    cluster: tuple[str, ...]
    config: Path | None
    admission_config: Path | None
    kubernetes_version: int | None
    feature_gates: Mapping[str, bool]
    scheduler_config: str
    namespace: str
    identity: str
    max_cache_age: float
    max_in_flight: int
    prediction_processes: int
    audit_interval: float
    keep_alive: int
    drain: float
    log_level: str

    @property
    def release(self) -> Release:
        """The configured Kubernetes version, feature gates and scheduler. Raises ConfigError."""
        scheduler = scheduler_source(self.scheduler_config) if self.scheduler_config else None
        return Release(self.kubernetes_version, self.feature_gates, scheduler)

    @property
    def scheduler_file(self) -> Path | None:
        """The file of the scheduler's configuration; None for a preset."""
        path = Path(self.scheduler_config)
        return path if self.scheduler_config and path.exists() else None


class _Flag(NamedTuple):
    """A flag with its environment variable: FOREWARN_ and the name in capitals. `repeats`: whether the flag is
    repeatable, and the variable has comma-separated values.
    """

    name: str
    read: Callable[[str], Any]
    default: str | None
    metavar: str
    help: str
    repeats: bool = False

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace("-", "_")

    @property
    def key(self) -> str:
        return self.name.replace("-", "_")


port: Final = integer_between(0, 65_535)
"""Parses a port number; 0 selects a free port."""


def _one_of(values: Mapping[str, T]) -> Callable[[str], T]:
    """Return a type for argparse that accepts these texts, and returns their values."""

    def read(text: str) -> T:
        if text not in values:
            raise argparse.ArgumentTypeError(f"unknown value {quote(text)}; known: {', '.join(values)}")
        return values[text]

    return read


log_level: Final = _one_of({level: level for level in LEVELS})


def _interval(text: str) -> float:
    value = any_duration(text)
    if value and not MIN_INTERVAL <= value <= _DAY:
        raise argparse.ArgumentTypeError(f"must be 0, or between {MIN_INTERVAL:g}s and {_DAY:g}s, not {quote(text)}")
    return value


def _flags() -> Iterator[_Flag]:
    """Yield the flags in the order of the help."""
    text = (
        "cluster snapshot in YAML or JSON, or live[:CONTEXT] to watch an API server; by default, the current "
        "kubeconfig context, or the cluster of the Pod"
    )
    yield _Flag("cluster", str, None, "SOURCE", text, repeats=True)
    text = "common name, DNS name or URI that the client certificate must have; requires --client-ca"
    yield _Flag("client-name", str, None, "NAME", text, repeats=True)
    yield _Flag("host", str, "127.0.0.1", "ADDRESS", "address to listen on; use :: in a Pod (IPv4 and IPv6)")
    yield _Flag("port", port, "8443", "PORT", "TLS port of /mutate and /validate; 0 for a free port")
    yield _Flag("health-port", port, "8080", "PORT", "HTTP port of /livez, /readyz and /metrics; 0 for a free port")
    text = (
        "file with the PEM certificate chain, reloaded when it changes (default: a self-signed certificate, or with "
        "--namespace, the one in forewarn's Secret)"
    )
    yield _Flag("tls-cert", Path, None, "FILE", text)
    yield _Flag("tls-key", Path, None, "FILE", "file with the PEM key of --tls-cert")
    yield _Flag("tls-min-version", _one_of(TLS_VERSIONS), "1.3", "1.2|1.3", "minimum TLS version")
    yield _Flag("write-ca", Path, None, "FILE", "file to which forewarn writes the CA of its generated certificate")
    text = "PEM file with CAs, reloaded when it changes; clients must present a certificate from one of these CAs"
    yield _Flag("client-ca", Path, None, "FILE", text)
    text = (
        "file with one token on each line, reloaded when it changes; clients must send a token as a bearer token or as "
        "the last part of the path (/validate/TOKEN)"
    )
    yield _Flag("client-token-file", Path, None, "FILE", text)
    yield _Flag("config", Path, None, "FILE", "configuration file, reloaded when it changes")
    text = "file with kube-apiserver's AdmissionConfiguration, reloaded when it changes"
    yield _Flag("admission-config", Path, None, "FILE", text)
    text = "Kubernetes release of the predictions (default: that of the API server, or the newest)"
    yield _Flag("kubernetes-version", release_minor, None, KNOWN, text)
    yield _Flag("feature-gates", feature_gates, "", "A=true,B=false", "feature gates set on the cluster's components")
    text = (
        "file with the KubeSchedulerConfiguration of the scheduler, reloaded when it changes, or the name of a preset"
    )
    yield _Flag("scheduler-config", str, "", "FILE|PRESET", text)
    text = "namespace of forewarn's Secret and Leases; if not set, forewarn uses no Secret and no Leases"
    yield _Flag("namespace", str, "", "NAME", text)
    yield _Flag("identity", str, "", "NAME", "name of this replica (host name if not set)")
    text = (
        "age at which the cluster state is stale; forewarn then marks responses, and does not deny because of this "
        "state alone"
    )
    yield _Flag("max-cache-age", duration_between(0, 3_600), "120", "DURATION", text)
    text = "maximum number of concurrent requests; forewarn answers further requests with 503"
    yield _Flag("max-in-flight", integer_between(1, 100_000), "256", "N", text)
    text = "maximum number of processes for long predictions; with 0, the webhook process itself makes all predictions"
    yield _Flag("prediction-processes", integer_between(0, 64), "1", "N", text)
    text = "time between two audits of the cluster, at least 60; 0 for no audits; requires --namespace"
    yield _Flag("audit-interval", _interval, "0", "DURATION", text)
    text = f"time for which an idle connection stays open, at least {MIN_KEEP_ALIVE}"
    yield _Flag("keep-alive", integer_between(MIN_KEEP_ALIVE, 86_400), "120", "SECONDS", text)
    text = "time for which forewarn still accepts requests after SIGTERM"
    yield _Flag("drain", duration_between(0, 3_600), "5", "DURATION", text)
    yield _Flag("log-level", log_level, "info", "|".join(LEVELS), "minimum level of log lines")


FLAGS: Final = tuple(_flags())


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Parse the flags, and environment variables for flags that are not set. Exits with 2 on wrong usage."""
    environment = _without_service_links(environment)
    parser = _parser()
    given = vars(parser.parse_args(arguments))
    for flag in FLAGS:
        if given[flag.key] is None:
            given[flag.key] = _from_environment(flag, environment, parser)
    cluster, names = (tuple(given.pop(name)) for name in ("cluster", "client_name"))
    settings = Settings(**given, cluster=cluster, client_names=names)
    try:
        settings.release.semantics()
    except BadGates as fault:
        parser.error(f"--feature-gates: {fault}")
    except ConfigError as fault:
        parser.error(one_line(f"--scheduler-config: {fault}"))
    if (settings.tls_cert is None) != (settings.tls_key is None):
        parser.error("--tls-cert and --tls-key go together. Fix: set both, or neither for a self-signed certificate")
    if settings.write_ca and settings.tls_cert:
        parser.error("--write-ca requires the self-signed certificate. Fix: remove it, or --tls-cert and --tls-key")
    if settings.client_names and not settings.client_ca:
        parser.error("--client-name requires --client-ca")
    if settings.audit_interval and not settings.namespace:
        parser.error("--audit-interval requires --namespace. Fix: outside a cluster, use forewarn audit")
    if settings.namespace and settings.write_ca:
        parser.error("--write-ca can't be combined with --namespace: the CA is in the Secret forewarn-ca")
    return settings


def _without_service_links(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that the kubelet sets for Services."""
    return {k: v for k, v in environment.items() if not (k.endswith("_PORT") and _SERVICE_LINK.fullmatch(v))}


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the FOREWARN_ variables that match no flag, except those that the kubelet sets for Services."""
    names = {flag.variable for flag in FLAGS}
    ours = {name for name in _without_service_links(environment) if name.startswith(PREFIX)}
    return sorted(name for name in ours - names if not _OF_A_SERVICE.fullmatch(name))


def _from_environment(flag: _Flag, environment: Mapping[str, str], parser: argparse.ArgumentParser) -> Any:
    """Return the value of a flag from the environment, or its default. On an error, exits with the variable's name."""
    text = environment.get(flag.variable) or flag.default
    if flag.repeats:
        return [part for part in (text or "").split(",") if part]
    try:
        return None if text is None else flag.read(text)
    except argparse.ArgumentTypeError as fault:
        parser.error(f"{flag.variable}: {fault}")


def configuration(config: Path | None, admission_config: Path | None) -> Config:
    """Return the configuration of these files, with the API server's limitedResources. Raises ConfigError."""
    read = load_config(config) if config else Config()
    return read.limiting(load_limited_resources(admission_config)) if admission_config else read


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn webhook serve",
        description="Run the admission webhook. Each flag can also be set by an environment variable, for example "
        "FOREWARN_HOST for --host.",
        epilog="On SIGTERM, forewarn still accepts requests for the time --drain, then completes the requests in "
        "flight. A second SIGTERM stops it immediately. Exit status: 0: stopped. 2: wrong usage. 3: the webhook "
        "cannot start.",
        examples=("webhook serve --cluster cluster.yaml", "webhook serve --cluster live --config .forewarn.yaml"),
    )
    for flag in FLAGS:
        names = [f"--{flag.name}", *(["-c"] if flag.name == "config" else [])]
        note = "repeatable; comma-separated in the environment" if flag.repeats else f"default: {flag.default}"
        shown = f"{flag.help} ({note})" if flag.repeats or flag.default else flag.help
        action = "append" if flag.repeats else "store"
        parser.add_argument(*names, action=action, type=flag.read, metavar=flag.metavar, help=shown)
    return parser
