"""Run all checks of the webhook in order; each check uses the results of earlier checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from forewarn.webhook.doctor import answers, configuration, installation, predictions, registration, trust
from forewarn.webhook.doctor.report import bounded

if TYPE_CHECKING:
    from datetime import datetime

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.webhook.doctor.client import Client
    from forewarn.webhook.doctor.report import Line


class Now(NamedTuple):
    """The time of the API server, and the seconds by which its clock is ahead of this machine's (None if unknown)."""

    time: datetime
    ahead: float | None = None


def examine(client: Client, version: ApiObject, namespace: str, now: Now) -> list[Line]:
    """Return all lines of the report. `version`: the response of /version. `namespace`: the namespace for dry runs."""
    registered = registration.check(client)
    lines = [*registered.lines]
    installed = installation.check(client, registered)
    is_installed = bool(registered.webhooks) or not registered.is_known or installed.is_there
    if is_installed:
        lines += trust.check(client, registered, installed, now.time)
        lines += installed.lines
        read = configuration.read_configuration(client, installed)
        lines += answers.check(client, registered, namespace, read[0], now.time)
        replicas = answers.ask_replicas(client, installed)
        lines += answers.of_replicas(replicas)
        lines += answers.clocks(replicas, now.ahead)
        lines += predictions.check(client, replicas, version, now.time.timestamp())
        lines += configuration.check(client, installed, read, now.time)
    return bounded(lines)
