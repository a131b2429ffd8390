"""The health port under floods: few connections, no bodies, and probes that wait only for other probes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from forewarn.webhook.admission.replies import rejection
from forewarn.webhook.http.asgi import send_reply

if TYPE_CHECKING:
    from forewarn.webhook.http.asgi import Application, Message, Receive, Send

MAX_HEALTH_CONNECTIONS: Final = 128
RECEIVE_BUFFER: Final = 32 * 1024
"""Bytes of a client that the kernel buffers (Linux: twice as many), and so forewarn reads at once."""
_PROBES: Final = ("/livez", "/readyz")
_METHODS: Final = ("GET", "HEAD")
_NOT_ALLOWED: Final = rejection(405, "only the method GET is allowed", (("allow", "GET, HEAD"),))


class HealthPaths:
    """An ASGI application for requests without bodies: `probes` for probes, `others` for all other paths."""

    def __init__(self, probes: Application, others: Application) -> None:
        self._probes, self._others = _OneAtATime(probes), _OneAtATime(others)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] not in _METHODS:
            await send_reply(_NOT_ALLOWED, send, close=True)  # at once, because a body may follow
            return
        await (self._probes if scope["path"] in _PROBES else self._others)(scope, receive, send)


class _OneAtATime:
    def __init__(self, app: Application) -> None:
        self._app, self._slot = app, asyncio.Lock()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        async with self._slot:
            if (await receive())["type"] == "http.request":  # else the client is gone
                await self._app(scope, receive, collect)
        for message in messages:  # a client that does not read does not delay others
            await send(message)
