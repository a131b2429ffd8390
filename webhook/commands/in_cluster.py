"""What `forewarn webhook serve` does beyond answering if it is given its namespace: see webhook.controllers.replica."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from webhook.admission.callers import no_grants

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cluster import ClusterSnapshot
    from policies.config import Config
    from webhook.admission.callers import Grants
    from webhook.admission.decision import Reserve
    from webhook.commands.state_source import StateSource
    from webhook.controllers.audit.auditor import Process
    from webhook.http.tls import SwappingContext
    from webhook.informer.deltas import Changed
    from webhook.metrics import Metrics
    from webhook.settings import Settings


class InCluster(NamedTuple):
    """What a replica in a cluster adds. `fault`: why no request may be sent here; `grants`: the
    tokens that API servers are told to bring.
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
    """Begin to look after what is in the namespace; nothing where none is given.

    `fork` gives a process for the audit. Raises ValueError where there is no API server to ask.
    """
    if not settings.namespace:
        return InCluster()
    if state.api is None:
        raise ValueError("--namespace needs a watched cluster. Fix: remove --namespace, or --cluster FILE")
    from webhook.apiserver.typed_client import TypedApi
    from webhook.controllers.installation import Installation
    from webhook.controllers.replica import ReplicaControllers

    installation = Installation(settings.namespace, settings.identity or socket.gethostname())
    own = contexts if settings.tls_cert is None else None
    auditor = None
    if settings.audit_interval:
        from webhook.controllers.audit.auditor import Auditor

        def on_time() -> ClusterSnapshot | None:
            return None if state.late() else state.cluster()

        api = TypedApi(state.api)
        auditor = Auditor(api, installation, metrics, on_time, config, fork, settings.audit_interval)
    upkeep = ReplicaControllers(TypedApi(state.api), installation, metrics, own, state.cluster, auditor=auditor)

    def changed(delta: Changed) -> None:
        if delta.resource.kind == "PriorityClass":
            upkeep.reservations.seen(delta.object)

    state.listen(changed)
    return InCluster(upkeep.reservations.reserve, upkeep.grants, upkeep.fault, upkeep.start())
