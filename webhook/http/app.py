"""The Flask application of the health port: probes and metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from forewarn.webhook.admission.replies import rejection

if TYPE_CHECKING:
    from forewarn.webhook.health import Health
    from forewarn.webhook.metrics import Metrics


def create_health_app(health: Health, metrics: Metrics) -> Flask:
    """The application with GET /livez, /readyz and /metrics."""
    app = Flask("forewarn-health", static_folder=None)

    def probe(check: Callable[[], str]) -> Callable[[], Response]:
        def view() -> Response:
            fault = check()
            return Response(f"{fault or 'ok'}\n", 503 if fault else 200, mimetype="text/plain")

        return view

    def exposition() -> Response:
        body, content_type = metrics.exposition(request.headers.get("Accept", ""))
        return Response(body, content_type=content_type)

    metrics.ready.set_function(lambda: not health.ready())
    views = {"livez": probe(health.alive), "readyz": probe(health.ready), "metrics": exposition}
    for path, view in views.items():
        app.add_url_rule(f"/{path}", path, view, methods=["GET"], provide_automatic_options=False)
    app.register_error_handler(HTTPException, _status)
    return app


def _status(error: HTTPException) -> Response:
    """Convert Werkzeug's error responses (404, 405 …) to a metav1.Status."""
    headers = [(name, value) for name, value in error.get_headers() if name.lower() == "allow"]
    reply = rejection(error.code or 500, error.description or error.name, tuple(headers))
    return Response(reply.body, reply.status, list(reply.headers))
