"""The Flask application of the health port: probes, metrics and the accuracy of predictions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException

from forewarn.webhook.admission.replies import Reply, rejection
from forewarn.webhook.http.addresses import is_loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    from forewarn.webhook.accuracy import Accuracy
    from forewarn.webhook.health import Health
    from forewarn.webhook.metrics import Metrics


def create_health_app(health: Health, metrics: Metrics, accuracy: Accuracy | None = None) -> Flask:
    """The application with GET /livez, /readyz, /metrics, and /accuracy if predictions are compared.

    /accuracy answers only clients in the Pod and `kubectl port-forward`, because its examples name Pods and nodes.
    """
    app = Flask("forewarn-health", static_folder=None)

    def probe(check: Callable[[], str]) -> Callable[[], Response]:
        def view() -> Response:
            fault = check()
            return Response(f"{fault or 'ok'}\n", 503 if fault else 200, mimetype="text/plain")

        return view

    def exposition() -> Response:
        body, content_type = metrics.exposition(request.headers.get("Accept", ""))
        return Response(body, content_type=content_type)

    def predictions() -> Response:
        if not is_loopback(request.remote_addr):
            return _response(
                rejection(403, "available only from within this Pod: use kubectl exec or kubectl port-forward")
            )
        if accuracy is None:
            return _response(rejection(404, "not available: the cluster state comes from files"))
        return Response(json.dumps(accuracy.table()), mimetype="application/json")

    views = {
        "livez": probe(health.alive),
        "readyz": probe(health.ready),
        "metrics": exposition,
        "accuracy": predictions,
    }
    for path, view in views.items():
        app.add_url_rule(f"/{path}", path, view, methods=["GET"], provide_automatic_options=False)
    app.register_error_handler(HTTPException, _status)
    return app


def _response(reply: Reply) -> Response:
    return Response(reply.body, reply.status, list(reply.headers))


def _status(error: HTTPException) -> Response:
    """Convert Werkzeug's error responses (404, 405 …) to a metav1.Status."""
    headers = [(name, value) for name, value in error.get_headers() if name.lower() == "allow"]
    return _response(rejection(error.code or 500, error.description or error.name, tuple(headers)))
