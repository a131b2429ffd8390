"""`forewarn webhook ca-injector`: issues the webhook's certificate, and writes caBundle in the webhook
configurations.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import Final

from forewarn.policies.cli.commands.parser import Parser
from forewarn.webhook.apiserver.client import ApiError, ApiServer, connect
from forewarn.webhook.apiserver.typed_client import ObjectApi
from forewarn.webhook.controllers.certificate_authority import CaInjector, Installation
from forewarn.webhook.health import Health
from forewarn.webhook.http.server import address_of, bind, handling, serve_health
from forewarn.webhook.logs import LEVELS, log_cannot_start, log_event, use_level, with_logs
from forewarn.webhook.metrics import Metrics
from forewarn.webhook.settings import log_level, port

DONE, FAILED = 0, 3
_HOST: Final = "127.0.0.1"
_SETTINGS: Final = ("namespace", "identity", "host", "health_port", "log_level")


def main(arguments: Sequence[str]) -> int:
    """Run the command until a signal stops it; return the exit status."""
    return with_logs(lambda: _parser().parse_args(arguments), _run)


def _run(options: argparse.Namespace) -> int:
    use_level(options.log_level)
    installation = Installation(options.namespace, options.identity or socket.gethostname())
    metrics, health = Metrics(), Health(listening=True)

    def beat() -> None:
        health.beat = monotonic()

    try:
        api = ApiServer(partial(connect, options.context)).open()
        listening = bind(options.host, options.health_port)
    except (ApiError, OSError) as fault:
        log_cannot_start(fault)
        return FAILED
    injector = CaInjector(ObjectApi(api), installation, metrics, beat)
    with listening, handling(lambda *_: injector.stop(), signal.SIGTERM, signal.SIGINT):
        health.faults = (injector.fault,)
        end = serve_health(listening, health, metrics)
        log_event("listening", {"health": address_of(listening, "http")})
        try:
            injector.run()
        finally:
            end()
    log_event("stopped", {})
    return DONE


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="forewarn webhook ca-injector",
        description="Keep the CAs of the webhook in the Secret forewarn-ca, and sign the certificate in the Secret "
        "forewarn-serving-cert. Set caBundle in the webhook configurations named forewarn.",
        epilog="You can also set flags by the environment variables FOREWARN_NAMESPACE, FOREWARN_IDENTITY, "
        "FOREWARN_HOST, FOREWARN_HEALTH_PORT and FOREWARN_LOG_LEVEL. Exit status: 0: stopped. 2: wrong usage. 3: the "
        "injector cannot start.",
        examples=("webhook ca-injector", "webhook ca-injector --namespace forewarn --health-port 9090"),
    )
    given = {name: os.environ.get(f"FOREWARN_{name.upper()}") for name in _SETTINGS}
    add = parser.add_argument
    add("--context", default="", metavar="NAME", help="kubeconfig context (default: current context)")
    help_text = "namespace of the Secrets and Leases (default: forewarn)"
    add("--namespace", default=given["namespace"] or "forewarn", metavar="NAME", help=help_text)
    help_text = "name of this replica (default: the host name)"
    add("--identity", default=given["identity"] or "", metavar="NAME", help=help_text)
    help_text = f"address to listen on; use :: in a Pod (default: {_HOST})"
    add("--host", default=given["host"] or _HOST, metavar="ADDRESS", help=help_text)
    help_ = "HTTP port of /livez, /readyz and /metrics; 0 for a free port (default: 8080)"
    add("--health-port", type=port, default=given["health_port"] or "8080", metavar="PORT", help=help_)
    help_text = "minimum level of log lines (default: info)"
    add("--log-level", type=log_level, default=given["log_level"] or "info", metavar="|".join(LEVELS), help=help_text)
    return parser
