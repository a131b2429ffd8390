"""The routes, as Flask applications: one for admission, one for probes and metrics."""

from __future__ import annotations

import json
from ipaddress import IPv6Address, ip_address
from time import monotonic
from typing import TYPE_CHECKING

from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from webhook.admission.callers import bearer
from webhook.admission.endpoint import MAX_BODY, NO_TOKEN, PATHS, TOO_LARGE, AdmissionCall, Reply, refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.accuracy import Accuracy
    from webhook.admission.decision import Hook
    from webhook.admission.endpoint import Endpoint
    from webhook.health import Health
    from webhook.metrics import Metrics


def create_app(endpoint: Endpoint) -> Flask:
    """POST /mutate and /validate; anything else is a 404 or 405 with a Status."""
    app = Flask("forewarn", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    for path, hook in PATHS.items():
        view = _view(endpoint, hook)
        for rule in (path, f"{path}/<token>"):
            app.add_url_rule(rule, hook.value, view, methods=["POST"], provide_automatic_options=False)

    def refused(error: HTTPException) -> Response:
        endpoint.metrics.refuse_by_status(error.code or 500)
        return _status(error)

    app.register_error_handler(HTTPException, refused)
    return app


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
            return _response(refusal(403, "told to this pod alone: use kubectl exec or kubectl port-forward"))
        if accuracy is None:
            return _response(refusal(404, "the cluster state is read from files: nothing is known of what happens"))
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


def _view(endpoint: Endpoint, hook: Hook) -> Callable[..., Response]:
    def answered(token: str) -> Reply:
        received = monotonic()
        headers = request.headers
        reply = endpoint.refuse(
            headers.get("Content-Type", ""), headers.get("Content-Encoding", ""), headers.get("Content-Length", "")
        )
        if reply is not None:
            return endpoint.refused(hook, reply)
        tokens = (token, bearer(headers.get("Authorization", "")))
        if not endpoint.callers.may_ask(tokens):
            return endpoint.refused(hook, NO_TOKEN)
        try:
            body = request.get_data(cache=False)
        except RequestEntityTooLarge:
            return endpoint.refused(hook, TOO_LARGE)
        return endpoint.answer_now(AdmissionCall(hook, body, received, request.args.get("timeout", ""), tokens=tokens))

    def view(token: str = "") -> Response:
        if (full := endpoint.gate.enter()) is not None:
            return _response(endpoint.refused(hook, full))
        try:
            return _response(answered(token))
        finally:
            endpoint.gate.leave()

    return view


def _response(reply: Reply) -> Response:
    return Response(reply.body, reply.status, list(reply.headers))


def _status(error: HTTPException) -> Response:
    """Werkzeug's own answers (404, 405 …) as a Status."""
    headers = [(name, value) for name, value in error.get_headers() if name.lower() == "allow"]
    return _response(refusal(error.code or 500, error.description or error.name, tuple(headers)))
