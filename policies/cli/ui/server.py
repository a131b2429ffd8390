"""The HTTP server of the pages, with a thread for each connection, and the access to the pages: on the loopback
address, for the user with the printed address and its token, and for no other web site.

The token of the first request becomes a cookie. A page of another site can neither send the cookie (SameSite=Strict),
nor read an answer under another name of this machine (Host), nor frame a page (Content-Security-Policy).
"""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from functools import partial
from hmac import compare_digest
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from flask import Response, abort, render_template, request
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication


PAGES: Final = {"cluster": "Cluster", "predict": "Predict", "risk": "Risk", "audit": "Audit"}
MAX_BYTES: Final = 1 << 20
"""Maximum bytes of a request."""
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
ADMIT: Final = "forewarn.admit"
"""Key of the WSGI environment: the function to call for a request of the owner, so that its connection stays."""
_NAMES: Final = ("127.0.0.1", "localhost")


def _nothing() -> None:
    """Do nothing: the server does not limit connections."""


class Access:
    """The tokens of one run, and the session cookie that requests with a token get. `port`: the port of the pages."""

    def __init__(self, port: int) -> None:
        self.token, self._session = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.once = secrets.token_urlsafe(32)
        """A token for one use: other users of the machine can read the arguments of a browser that is started."""
        self._hosts = {f"{name}:{port}" for name in _NAMES} | ({*_NAMES} if port == 80 else set())
        self._cookie = f"forewarn-ui-{port}"  # browsers share cookies between ports

    def check(self) -> Response | None:
        """Check a request. Returns None if allowed, or a response that sets the cookie; aborts with 403 otherwise."""
        if request.host not in self._hosts:
            abort(403, "this address is not the one that forewarn ui printed")
        if request.endpoint == "shipped":
            return None
        token = request.args.get("token")
        if token is not None:
            return self._enter(token)
        if not compare_digest(request.cookies.get(self._cookie, "").encode(), self._session.encode()):
            abort(403, "open the address with the token, which forewarn ui printed")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            abort(403, "this request is from another site")  # A page on another port of this machine has the cookie.
        if request.method == "POST":
            self._check_post()
        request.environ.get(ADMIT, _nothing)()
        return None

    def _enter(self, token: str) -> Response:
        """Set the cookie, with a page that opens the requested address.

        A page instead of a redirect, because browsers do not send a Strict cookie with the redirect of a link.
        """
        given = token.encode()
        is_first = compare_digest(given, self.once.encode())
        if request.method != "GET" or not (is_first or compare_digest(given, self.token.encode())):
            abort(403, "the token is not the one of this forewarn ui; open the address that it printed")
        request.environ.get(ADMIT, _nothing)()
        if is_first:
            self.once = secrets.token_urlsafe(32)
        rest = [(key, value) for key, value in request.args.items(multi=True) if key != "token"]
        path = request.path + (f"?{urlencode(rest)}" if rest else "")
        response = Response(render_template("enter.html", path=path))
        response.set_cookie(self._cookie, self._session, httponly=True, samesite="Strict", path="/")
        return response

    def _check_post(self) -> None:
        if request.headers.get("Origin", f"http://{request.host}") != f"http://{request.host}":
            abort(403, "this request is from another site")
        if request.mimetype != "application/json":
            abort(415, "the body must be application/json")
        if request.content_length is None:
            abort(411, "the length of the body is missing")


def protect(response: Response) -> Response:
    """Add the security headers to a response."""
    response.headers.update(_HEADERS)
    return response


HOST: Final = "127.0.0.1"
MAX_CONNECTIONS: Final = 64
_STRANGER_SECONDS: Final = 10.0
"""Maximum seconds without data of a connection without a request of the owner."""
_IDLE_SECONDS: Final = 60.0


class _Handler(WSGIRequestHandler):
    """Handles requests without a log, and closes connections that send nothing for some time."""

    timeout = _STRANGER_SECONDS
    server: Server

    def make_environ(self) -> dict[str, Any]:
        """Return the WSGI environment of a request, with ADMIT."""
        return {**super().make_environ(), ADMIT: partial(self.server.admit, self.connection)}

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002  (werkzeug's name)
        """Log nothing, because the first address contains the token."""


class Server(ThreadedWSGIServer):
    """A server with at most MAX_CONNECTIONS. A further connection replaces the oldest one without a request of the
    owner, because every user of the machine can open connections; if there is none, the new connection is closed.
    """

    def __init__(self, listener: socket.socket, app: WSGIApplication) -> None:
        self._lock = Lock()
        self._open: dict[socket.socket, bool] = {}
        """Connections, the oldest first -> whether they have sent a request of the owner."""
        host, port = listener.getsockname()
        super().__init__(host, port, app, _Handler, fd=listener.fileno())

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection on a new thread."""
        with self._lock:
            is_accepted = len(self._open) < MAX_CONNECTIONS or self._close_stranger()
            if is_accepted:
                self._open[request] = False
        if is_accepted:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection on the current thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)

    def admit(self, connection: socket.socket) -> None:
        """Keep a connection that has sent a request of the owner."""
        with self._lock:
            if connection in self._open:
                self._open[connection] = True
                connection.settimeout(_IDLE_SECONDS)

    def _close_stranger(self) -> bool:
        """End the oldest connection without a request of the owner; return False if there is none."""
        oldest = next((connection for connection, is_owners in self._open.items() if not is_owners), None)
        if oldest is None:
            return False
        del self._open[oldest]
        with suppress(OSError):  # its thread then closes the connection
            oldest.shutdown(socket.SHUT_RDWR)
        return True
