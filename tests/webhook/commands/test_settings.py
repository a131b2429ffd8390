"""Flags, environment, and what wrong usage says."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import pytest

from forewarn.policies.base.findings import Action
from forewarn.policies.kubernetes.releases.release import Release
from forewarn.policies.linting.config.model import Config, ConfigError
from forewarn.webhook.http.asgi import Limits
from forewarn.webhook.settings import FLAGS, MIN_KEEP_ALIVE, configuration, parse_settings, unknown_variables


def test_defaults() -> None:
    settings = parse_settings([], {})
    assert (settings.host, settings.port, settings.health_port) == ("127.0.0.1", 8443, 8080)
    assert settings.tls_min_version is ssl.TLSVersion.TLSv1_3
    assert (settings.keep_alive, settings.drain) == (Limits().keep_alive, Limits().drain)
    assert settings.cluster == ()


def test_every_flag_may_come_from_the_environment() -> None:
    values = {"tls-min-version": "1.2", "port": "1", "health-port": "2", "max-in-flight": "3", "keep-alive": "100"}
    values |= {"drain": "0.5", "write-ca": "", "max-cache-age": "7", "prediction-processes": "4"}
    values |= {"kubernetes-version": "v1.35.8", "feature-gates": "DRAExtendedResource=true"}
    values |= {"scheduler-config": "openshift-no-scoring", "audit-interval": "600", "log-level": "error"}
    environment = {flag.variable: values.get(flag.name, f"/{flag.name}") for flag in FLAGS}
    environment |= {"FOREWARN_CLUSTER": "live:here", "FOREWARN_CLIENT_NAME": "kube-apiserver,x.example"}
    settings = parse_settings([], environment)
    assert settings.cluster == ("live:here",)
    assert parse_settings([], {"FOREWARN_CLUSTER": "a.json,b.yaml.gz"}).cluster == ("a.json", "b.yaml.gz")
    assert (settings.client_ca, settings.client_names) == (Path("/client-ca"), ("kube-apiserver", "x.example"))
    assert (settings.port, settings.health_port, settings.max_in_flight) == (1, 2, 3)
    assert (settings.keep_alive, settings.drain, settings.max_cache_age) == (100, 0.5, 7)
    assert (settings.prediction_processes, settings.audit_interval) == (4, 600)
    assert settings.release._replace(scheduler=None) == Release(35, {"DRAExtendedResource": True})
    assert settings.release.scheduler is not None
    assert settings.tls_min_version is ssl.TLSVersion.TLSv1_2
    assert (settings.host, settings.config) == ("/host", Path("/config"))
    assert (settings.tls_cert, settings.tls_key, settings.write_ca) == (Path("/tls-cert"), Path("/tls-key"), None)


def test_a_flag_wins_over_the_environment() -> None:
    environment = {"FOREWARN_PORT": "1", "FOREWARN_CLUSTER": "a"}
    settings = parse_settings(["--port", "2", "--cluster", "b", "--cluster", "c"], environment)
    assert (settings.port, settings.cluster) == (2, ("b", "c"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--port", "x"], 'argument --port: must be a whole number, not "x"'),
        (["--drain", "soon"], "must be seconds, or a duration in s, m or h such as 90s, 5m or 1h"),
        (["--max-in-flight", "many"], 'must be a whole number, not "many"'),
        (["--port", "70000"], "must be between 0 and 65535"),
        (["--keep-alive", "90"], f"must be between {MIN_KEEP_ALIVE} and"),
        (["--drain", "-1"], "must be seconds, or a duration"),
        (["--drain", "2h"], 'must be between 0s and 3600s, not "2h"'),
        (["--max-in-flight", "0"], "must be between 1 and"),
        (["--namespace", "a", "--audit-interval", "59"], 'must be 0, or between 60s and 86400s, not "59"'),
        (
            ["--namespace", "a", "--audit-interval", "nan"],
            'must be seconds, or a duration in s, m or h such as 90s, 5m or 1h, not "nan"',
        ),
        (["--audit-interval", "hourly"], "must be seconds, or a duration"),
        (["--audit-interval", "60"], "--audit-interval requires --namespace"),
        (["--tls-min-version", "1.1"], 'unknown value "1.1"; known: 1.3, 1.2'),
        (["--tls-cert", "a"], "--tls-cert and --tls-key go together"),
        (
            ["--tls-cert", "a", "--tls-key", "b", "--write-ca", "c"],
            "--write-ca requires the self-signed certificate",
        ),
        (["--client-name", "kube-apiserver"], "--client-name requires --client-ca"),
        (["--namespace", "a", "--write-ca", "b"], "--write-ca can't be combined with --namespace"),
        (["--hots", "x"], "unrecognized arguments: --hots x"),
        (["--tls-c", "x"], "unrecognized arguments: --tls-c x"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_what_would_be_right(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse_settings(arguments, {})
    assert exit_.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("PORT", "x", ': FOREWARN_PORT: must be a whole number, not "x"'),
        ("HEALTH_PORT", "70000", ": FOREWARN_HEALTH_PORT: must be between 0 and 65535"),
        ("DRAIN", "5x", ": FOREWARN_DRAIN: must be seconds, or a duration in s, m or h such as 90s, 5m or 1h"),
        ("TLS_MIN_VERSION", "1.1", ': FOREWARN_TLS_MIN_VERSION: unknown value "1.1"; known: 1.3, 1.2'),
    ],
)
def test_the_environment_is_checked_too_and_the_variable_is_named(
    name: str, value: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse_settings([], {f"FOREWARN_{name}": value})
    assert exit_.value.code == 2
    assert says in capsys.readouterr().err


def test_a_bad_variable_says_nothing_where_the_flag_is_given() -> None:
    assert parse_settings(["--port", "1"], {"FOREWARN_PORT": "x"}).port == 1


@pytest.mark.parametrize("address", ["tcp://10.96.0.17:443", "tcp://[fd00::17]:443", "udp://10.0.0.1:53"])
def test_what_the_kubelet_says_of_services_is_no_port_of_ours(address: str) -> None:
    settings = parse_settings([], {"FOREWARN_PORT": address, "FOREWARN_HEALTH_PORT": address})
    assert (settings.port, settings.health_port) == (8443, 8080)


def test_no_other_variable_can_be_one_that_the_kubelet_makes_for_a_service() -> None:
    named = {flag.variable for flag in FLAGS}
    made = re.compile(r".*_SERVICE_HOST|.*_SERVICE_PORT(_.*)?|.*_PORT|.*_PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?")
    assert {name for name in named if made.fullmatch(name)} == {"FOREWARN_PORT", "FOREWARN_HEALTH_PORT"}


def test_variables_that_look_like_ours_and_stand_for_no_flag_are_named() -> None:
    made = {
        "FOREWARN_SERVICE_HOST": "10.96.0.17",
        "FOREWARN_SERVICE_PORT": "443",
        "FOREWARN_SERVICE_PORT_WEBHOOK": "443",
    }
    made |= {"FOREWARN_PORT": "tcp://10.96.0.17:443", "FOREWARN_PORT_443_TCP": "tcp://10.96.0.17:443"}
    made |= {"FOREWARN_PORT_443_TCP_ADDR": "10.96.0.17", "FOREWARN_PORT_443_TCP_PROTO": "tcp"}
    made |= {"FOREWARN_PORT_443_TCP_PORT": "443", "FOREWARN_METRICS_PORT": "tcp://10.96.0.18:80"}
    ours = {"FOREWARN_HOST": "::", "FOREWARN_CLUSTER": "live", "FOREWARN_CLIENT_NAME": "a", "FOREWARN_PORT": "1"}
    assert unknown_variables({**made, "PATH": "/bin"}) == []
    wrong = {"FOREWARN_MAX_INFLIGHT": "3", "FOREWARN_LOG": "", "FOREWARN_HELTH_PORT": "8081", "FOREWARN_TLS_PORT": ""}
    assert unknown_variables({**made, **ours, **wrong}) == sorted(wrong)


def test_the_configuration_and_the_api_servers_are_read_together(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.yaml", tmp_path / "theirs.yaml"
    ours.write_text("actions: {pinned-priority: deny}\n")
    theirs.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\n"
        "kind: AdmissionConfiguration\n"
        "plugins:\n"
        "- name: ResourceQuota\n"
        "  configuration:\n"
        "    apiVersion: apiserver.config.k8s.io/v1\n"
        "    kind: ResourceQuotaConfiguration\n"
        "    limitedResources:\n"
        "    - resource: pods\n"
        "      matchScopes: [{scopeName: PriorityClass, operator: In, values: [gold]}]\n"
    )
    read = configuration(ours, theirs)
    assert read.actions == {"pinned-priority": Action.DENY}
    assert [limited.resource for limited in read.options.limited_resources] == ["pods"]
    assert configuration(None, None) == Config()
    theirs.write_text("kind: Pod\n")
    with pytest.raises(ConfigError, match=r"theirs\.yaml:1"):
        configuration(None, theirs)
