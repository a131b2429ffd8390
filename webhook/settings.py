"""Flags and environment of `forewarn webhook serve`, as one frozen Settings."""

from __future__ import annotations

import argparse
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.commands.parser import Parser
from policies.commands.release import KNOWN, feature_gates, release_minor
from policies.config import Config, ConfigError, load_config, load_limited_resources
from policies.config.scheduler import scheduler_source
from policies.findings import one_line
from policies.releases import BadGates, Release
from webhook.logs import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TLS_VERSIONS: Final = {"1.3": ssl.TLSVersion.TLSv1_3, "1.2": ssl.TLSVersion.TLSv1_2}
LEAST_INTERVAL: Final = 60.0
"""Seconds between two audits."""
_DAY: Final = 86_400.0
LEAST_KEEP_ALIVE: Final = 91
"""Seconds. The API server keeps an idle connection for 90 and never repeats a POST on one that was closed before."""
PREFIX: Final = "FOREWARN_"
_SERVICE_LINK: Final = re.compile(r"(tcp|udp|sctp)://\S+:\d+")
"""What the kubelet writes into FOREWARN_PORT for a Service named forewarn (pkg/kubelet/envvars, makeLinkVariables)."""
_OF_A_SERVICE: Final = re.compile(r".*_SERVICE_(HOST|PORT(_.*)?)|.*_PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?")
"""Names that nobody else thinks of; a bare `…_PORT` is the kubelet's only by its value."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the webhook is told at its start. Times in seconds; port 0 takes a free one."""

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
        """What was asked for of the cluster's release, and of its scheduler. Raises ConfigError."""
        scheduler = scheduler_source(self.scheduler_config) if self.scheduler_config else None
        return Release(self.kubernetes_version, self.feature_gates, scheduler)

    @property
    def scheduler_file(self) -> Path | None:
        """The file that the scheduler's configuration is in; None: it is in none."""
        path = Path(self.scheduler_config)
        return path if self.scheduler_config and path.exists() else None


class _Flag(NamedTuple):
    """A flag; its environment variable is FOREWARN_ and the name in capitals."""

    name: str
    read: Callable[[str], Any]
    default: str | None
    metavar: str
    help: str

    @property
    def variable(self) -> str:
        return _variable(self.name)

    @property
    def key(self) -> str:
        return self.name.replace("-", "_")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" is no whole number') from None


def port(text: str) -> int:
    """A port; 0 takes a free one. Raises argparse.ArgumentTypeError."""
    return _within(_whole(text), 0, 65_535)


def _within(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{value} is not within {low} and {high}")
    return value


def log_level(text: str) -> str:
    """The name of a level of the log. Raises argparse.ArgumentTypeError."""
    if text not in LEVELS:
        raise argparse.ArgumentTypeError(f'"{text}" is none of {", ".join(LEVELS)}')
    return text


def _keep_alive(text: str) -> int:
    return _within(_whole(text), LEAST_KEEP_ALIVE, 86_400)


def _in_flight(text: str) -> int:
    return _within(_whole(text), 1, 100_000)


def _processes(text: str) -> int:
    return _within(_whole(text), 0, 64)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" is no number of seconds') from None
    if not 0 <= value <= 3_600:
        raise argparse.ArgumentTypeError(f"{text} is not within 0 and 3600 seconds")
    return value


def _interval(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'"{text}" is no number of seconds') from None
    if value and not LEAST_INTERVAL <= value <= _DAY:
        raise argparse.ArgumentTypeError(f"{text} is neither 0 nor within {LEAST_INTERVAL:g} and {_DAY:g} seconds")
    return value


def _tls_version(text: str) -> ssl.TLSVersion:
    if text not in TLS_VERSIONS:
        raise argparse.ArgumentTypeError(f"{text} is none of {', '.join(TLS_VERSIONS)}")
    return TLS_VERSIONS[text]


FLAGS: Final = (
    _Flag("host", str, "127.0.0.1", "ADDRESS", "address to listen on; in a pod :: (IPv4 too)"),
    _Flag("port", port, "8443", "PORT", "TLS port of /mutate and /validate; 0: a free one"),
    _Flag("health-port", port, "8080", "PORT", "plain port of /livez, /readyz and /metrics; 0: a free one"),
    _Flag("tls-cert", Path, None, "FILE", "certificate chain in PEM, read again when it changes; without: self-signed"),
    _Flag("tls-key", Path, None, "FILE", "its key"),
    _Flag("tls-min-version", _tls_version, "1.3", "1.2|1.3", "least TLS version"),
    _Flag("write-ca", Path, None, "FILE", "write the CA of the self-signed certificate here"),
    _Flag("client-ca", Path, None, "FILE", "CAs in PEM: only clients with a certificate by one of them are answered"),
    _Flag(
        "client-token-file",
        Path,
        None,
        "FILE",
        "tokens, one a line, read again when it changes: only who has one of them is answered, as a bearer token or as "
        "the last part of the path (/validate/TOKEN)",
    ),
    _Flag("config", Path, None, "FILE", "configuration, read again when it changes"),
    _Flag("admission-config", Path, None, "FILE", "kube-apiserver's AdmissionConfiguration, read again likewise"),
    _Flag(
        "kubernetes-version",
        release_minor,
        None,
        KNOWN,
        "the release whose scheduler decides; without it what the API server says, asked again now and then",
    ),
    _Flag("feature-gates", feature_gates, "", "A=true,B=false", "of the cluster's components, as they take them"),
    _Flag(
        "scheduler-config",
        str,
        "",
        "FILE|PRESET",
        "the KubeSchedulerConfiguration of the cluster's scheduler, read again when it changes, or a preset",
    ),
    _Flag("namespace", str, "", "NAME", "where forewarn's Secret and Lease are; without it they are not asked for"),
    _Flag("identity", str, "", "NAME", "of this replica among the others; without it the host's name"),
    _Flag(
        "max-cache-age",
        _seconds,
        "120",
        "SECONDS",
        "without news from the API server for longer, what goes by it says so, and denies less",
    ),
    _Flag("max-in-flight", _in_flight, "256", "N", "requests at a time; more are told to come again at once"),
    _Flag(
        "prediction-processes",
        _processes,
        "1",
        "N",
        "predictions that take long, each in a process of its own, at a time; 0: where requests are answered",
    ),
    _Flag(
        "audit-interval",
        _interval,
        "0",
        "SECONDS",
        "with --namespace: how often the replica that is elected audits the cluster, 60 or more; 0: never",
    ),
    _Flag(
        "keep-alive", _keep_alive, "120", "SECONDS", f"how long an idle connection is kept, {LEAST_KEEP_ALIVE} or more"
    ),
    _Flag("drain", _seconds, "5", "SECONDS", "how long requests are still taken after SIGTERM"),
    _Flag("log-level", log_level, "info", "|".join(LEVELS), "least level of log lines"),
)
_LISTS: Final = {
    "cluster": (
        "SOURCE",
        (
            "cluster state: a dump in YAML or JSON, or live[:CONTEXT] (kubeconfig) to watch an API server; without: "
            "the current context, or the cluster that this pod runs in"
        ),
    ),
    "client-name": ("NAME", "with --client-ca: a common name, DNS name or URI that the client's certificate must have"),
}
"""Flags that may be given several times; in the environment their values are separated by commas."""


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read flags, and the environment where a flag is not given. Exits with 2 on wrong usage."""
    environment = _without_service_links(environment)
    parser = _parser()
    given = vars(parser.parse_args(arguments))
    for flag in FLAGS:
        if given[flag.key] is None:
            given[flag.key] = _from_environment(flag, environment, parser)
    cluster, names = (tuple(given.pop(name) or _listed(name, environment)) for name in ("cluster", "client_name"))
    settings = Settings(**given, cluster=cluster, client_names=names)
    try:
        settings.release.semantics()
    except BadGates as fault:
        parser.error(f"--feature-gates: {fault}")
    except ConfigError as fault:
        parser.error(one_line(f"--scheduler-config: {fault}"))
    if (settings.tls_cert is None) != (settings.tls_key is None):
        parser.error("--tls-cert and --tls-key belong together: give both, or neither for a self-signed certificate")
    if settings.write_ca and settings.tls_cert:
        parser.error("--write-ca is for the self-signed certificate: leave it out, or --tls-cert and --tls-key")
    if settings.client_names and not settings.client_ca:
        parser.error(
            "--client-name says nothing without --client-ca: name the CAs that clients' certificates come from"
        )
    if settings.audit_interval and not settings.namespace:
        parser.error("--audit-interval is for replicas in a cluster: give --namespace, or use forewarn audit")
    if settings.namespace and settings.write_ca:
        parser.error(
            "--write-ca is for the self-signed certificate: with --namespace the CA is in the Secret forewarn-ca"
        )
    return settings


def _without_service_links(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment but for what the kubelet says of Services, which nobody meant for us."""
    return {name: value for name, value in environment.items() if not _is_service_link(name, value)}


def _is_service_link(name: str, value: str) -> bool:
    return name.endswith("_PORT") and _SERVICE_LINK.fullmatch(value) is not None


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables that begin as ours do and stand for no flag, but for those that the kubelet makes of Services."""
    known = {_variable(name) for name in _LISTS} | {flag.variable for flag in FLAGS}
    ours = {name for name in _without_service_links(environment) if name.startswith(PREFIX)}
    return sorted(name for name in ours - known if not _OF_A_SERVICE.fullmatch(name))


def _from_environment(flag: _Flag, environment: Mapping[str, str], parser: argparse.ArgumentParser) -> Any:
    """What the environment says of a flag, else its default; an error names the variable."""
    text = environment.get(flag.variable) or flag.default
    try:
        return None if text is None else flag.read(text)
    except argparse.ArgumentTypeError as fault:
        parser.error(f"{flag.variable}: {fault}")


def _listed(name: str, environment: Mapping[str, str]) -> list[str]:
    return [part for part in environment.get(_variable(name), "").split(",") if part]


def _variable(name: str) -> str:
    return PREFIX + name.upper().replace("-", "_")


def configuration(config: Path | None, admission_config: Path | None) -> Config:
    """What these files amount to: the configuration, with the API server's limitedResources. Raises ConfigError."""
    read = load_config(config) if config else Config()
    return read.limiting(load_limited_resources(admission_config)) if admission_config else read


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn webhook serve",
        description="Run the admission webhook. The environment stands in for flags, as FOREWARN_HOST for --host; a "
        "FOREWARN_PORT of the form tcp://… is the kubelet's, of a Service named forewarn, and says nothing.",
        epilog="SIGTERM: not ready any more, but requests are answered for as long as --drain says; then what is in "
        "flight ends, and others get a 503. A second SIGTERM cuts that short. Exit status 0; 2: wrong usage, 3: cannot "
        "start.",
        examples=(
            "webhook serve --cluster cluster.yaml",
            "webhook serve --cluster live --config .forewarn.yaml",
        ),
    )
    for name, (metavar, help_) in _LISTS.items():
        help_ += " (repeatable; in the environment separated by commas)"
        parser.add_argument(f"--{name}", action="append", metavar=metavar, help=help_)
    for flag in FLAGS:
        names = [f"--{flag.name}", *(["-c"] if flag.name == "config" else [])]
        shown = f"{flag.help} (default: {flag.default})" if flag.default else flag.help
        parser.add_argument(*names, type=flag.read, metavar=flag.metavar, help=shown)
    return parser
