"""Run all checks of the webhook in order; each check uses the results of earlier checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forewarn.webhook.doctor import answers, configuration, installation, predictions, registration, trust
from forewarn.webhook.doctor.report import bounded

if TYPE_CHECKING:
    from datetime import datetime

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.webhook.doctor.client import Client
    from forewarn.webhook.doctor.report import Line


def examine(client: Client, version: ApiObject, namespace: str, now: datetime) -> list[Line]:
    """Return all lines of the report. `version`: the response of /version. `namespace`: the namespace for dry runs."""
    registered = registration.check(client)
    lines = [*registered.lines]
    installed = installation.check(client, registered)
    is_installed = bool(registered.webhooks) or not registered.is_known or installed.is_there
    if is_installed:
        lines += trust.check(client, registered, installed, now)
        lines += installed.lines
        read = configuration.read_configuration(client, installed)
        lines += answers.check(client, registered, namespace, read[0], now)
        replicas = answers.ask_replicas(client, installed)
        lines += answers.of_replicas(replicas)
        lines += predictions.check(client, replicas, version, now.timestamp())
        lines += configuration.check(client, installed, read, now)
    return bounded(lines)
