"""The routes that Flask answers: probes and metrics, and on the port of the webhooks whatever is no webhook."""

from __future__ import annotations

import json
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, NotFound

from webhook.admission.endpoint import PATHS, Reply, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.accuracy import Accuracy
    from webhook.health import Health
    from webhook.metrics import Metrics


def create_app(metrics: Metrics) -> Flask:
    """A 405 with a Status for other methods than POST of /mutate and /validate, a 404 for all other paths."""
    app = Flask("forewarn", static_folder=None)
    for path, hook in PATHS.items():
        for rule in (path, f"{path}/<token>"):
            app.add_url_rule(rule, hook.value, _not_here, methods=["POST"], provide_automatic_options=False)

    def refused(error: HTTPException) -> Response:
        metrics.refuse_by_status(error.code or 500)
        return _status(error)

    app.register_error_handler(HTTPException, refused)
    return app


def _not_here(**_: str) -> Response:
    """POST is answered by webhook.http.asgi, which hands everything else to this application."""
    raise NotFound


def create_health_app(health: Health, metrics: Metrics, accuracy: Accuracy | None = None) -> Flask:
    """GET /livez, /readyz and /metrics, and /accuracy where predictions are followed.

    Examples of predictions name pods and nodes: only who is in the pod gets them, or comes by kubectl port-forward.
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
        if not _is_loopback(request.remote_addr):
            return _response(
                refusal(403, "available only from within this Pod: use kubectl exec or kubectl port-forward")
            )
        if accuracy is None:
            return _response(refusal(404, "not available: the cluster state comes from files"))
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


def _is_loopback(address: str | None) -> bool:
    """Whether a client's address is of this machine or pod; an IPv4 one may come as an IPv6 one."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback


def _response(reply: Reply) -> Response:
    return Response(reply.body, reply.status, list(reply.headers))


def _status(error: HTTPException) -> Response:
    """Werkzeug's own answers (404, 405 …) as a Status."""
    headers = [(name, value) for name, value in error.get_headers() if name.lower() == "allow"]
    return _response(refusal(error.code or 500, error.description or error.name, tuple(headers)))
