"""The additional tasks of `forewarn webhook serve` in a cluster: see webhook.controllers.replica."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from forewarn.webhook.admission.callers import no_grants
from forewarn.webhook.http.tls import distrust

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.config import Config
    from forewarn.webhook.admission.callers import Grants
    from forewarn.webhook.admission.global_default import Reserve
    from forewarn.webhook.commands.state_source import StateSource
    from forewarn.webhook.controllers.audit.auditor import Process
    from forewarn.webhook.http.tls import SwappingContext
    from forewarn.webhook.informer.deltas import Changed
    from forewarn.webhook.metrics import Metrics
    from forewarn.webhook.settings import Settings


class InCluster(NamedTuple):
    """The additional state of a replica in a cluster.

    `reserve`: reserves the global default. `grants`: the tokens in the webhook configurations, with their scopes.
    `fault`: returns why the replica is not ready; "" if ready.
    """

    reserve: Reserve | None = None
    grants: Grants = no_grants
    fault: Callable[[], str] = lambda: ""
    stop: Callable[[], None] = lambda: None


def in_cluster(
    settings: Settings,
    state: StateSource,
    contexts: SwappingContext,
    metrics: Metrics,
    config: Callable[[], Config],
    fork: Callable[[Callable[[Any], Any]], Process],
) -> InCluster:
    """Start the background tasks of a replica; without `settings.namespace`, start nothing.

    `fork`: creates a process for the audit. Raises ValueError if there is a namespace but no API server.
    """
    if not settings.namespace:
        return InCluster(fault=lambda: distrust(contexts.rejection(contexts.certificate)))
    if state.api is None:
        raise ValueError("--namespace needs a watched cluster. Fix: remove --namespace, or --cluster FILE")
    from forewarn.webhook.apiserver.typed_client import TypedApi
    from forewarn.webhook.controllers.installation import Installation
    from forewarn.webhook.controllers.replica import ReplicaControllers

    installation = Installation(settings.namespace, settings.identity or socket.gethostname())
    auditor = None
    if settings.audit_interval:
        from forewarn.webhook.controllers.audit.auditor import Auditor

        def on_time() -> ClusterSnapshot | None:
            return None if state.staleness() else state.cluster()

        api = TypedApi(state.api)
        auditor = Auditor(api, installation, metrics, on_time, config, fork, settings.audit_interval)
    upkeep = ReplicaControllers(
        TypedApi(state.api),
        installation,
        metrics,
        contexts,
        state.cluster,
        auditor=auditor,
        from_files=settings.tls_cert is not None,
    )

    def changed(delta: Changed) -> None:
        if delta.resource.kind == "PriorityClass":
            upkeep.reservations.seen(delta.object)

    state.listen(changed)
    return InCluster(upkeep.reservations.reserve, upkeep.grants, upkeep.fault, upkeep.start())
