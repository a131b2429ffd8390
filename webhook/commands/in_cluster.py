"""What `forewarn serve` does of itself when it is told its namespace: webhook.upkeep, put together."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, NamedTuple

from webhook.callers import none

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.admission import Reserve
    from webhook.callers import Tokens
    from webhook.commands.state import State
    from webhook.informer.news import Changed
    from webhook.metrics import Metrics
    from webhook.settings import Settings
    from webhook.tls import SwappingContext


class InCluster(NamedTuple):
    """What a replica in a cluster adds. `fault`: why no request may be sent here; `tokens`: what API
    servers are told to bring.
    """

    reserve: Reserve | None = None
    tokens: Tokens = none
    fault: Callable[[], str] = lambda: ""
    stop: Callable[[], None] = lambda: None


def in_cluster(settings: Settings, state: State, contexts: SwappingContext, metrics: Metrics) -> InCluster:
    """Begin to look after what is in the namespace; nothing where none is given.

    Raises ValueError where there is no API server to ask.
    """
    if not settings.namespace:
        return InCluster()
    if state.api is None:
        raise ValueError("--namespace is for a cluster that is watched: leave it out, or --cluster with files")
    from webhook.place import Place
    from webhook.typed_api import TypedApi
    from webhook.upkeep import Upkeep

    place = Place(settings.namespace, settings.identity or socket.gethostname())
    own = contexts if settings.tls_cert is None else None
    upkeep = Upkeep(TypedApi(state.api), place, metrics, own, state.cluster)

    def changed(news: Changed) -> None:
        if news.resource.kind == "PriorityClass":
            upkeep.reservations.seen(news.object)

    state.listen(changed)
    return InCluster(upkeep.reservations.reserve, upkeep.tokens, upkeep.fault, upkeep.start())
