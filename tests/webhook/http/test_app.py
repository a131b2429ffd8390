"""The admission routes, in process, and the Flask applications for everything else."""

from __future__ import annotations

import asyncio
import json
from threading import current_thread
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.webhook.admission.decide import evaluate_review
from forewarn.webhook.admission.endpoint import Endpoint
from forewarn.webhook.admission.review import MAX_WIRE
from forewarn.webhook.health import MAX_SILENCE, Health
from forewarn.webhook.http.app import create_health_app
from forewarn.webhook.http.asgi import Limits, Routes
from forewarn.webhook.metrics import Metrics
from tests.webhook.builders import body, deployment, endpoint, patch_of, pod, priority_class

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from forewarn.policies.objects.priority_class import PriorityClass

JSON = {"Content-Type": "application/json"}
BODIES = {
    "a pod to patch": body(pod("gold")),
    "a pod to deny": body(pod("nothing", 1)),
    "a workload to warn of": body(deployment("nothing")),
    "a class to audit": body(priority_class("low", -100)),
    "not JSON": b"{",
    "no review": b"{}",
}


def bodies() -> list[bytes]:
    """All of them, and one that is too large."""
    return [*BODIES.values(), b" " * (MAX_WIRE + 1)]


def by_asgi(
    served: Endpoint, path: str, data: bytes, headers: dict[str, str], method: str = "POST"
) -> tuple[int, dict[str, str], bytes]:
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    path, _, query = path.partition("?")
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": raw}
    asyncio.run(Routes(served, Health(), Limits())(scope, receive, send))
    start, answer = sent
    return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, answer["body"]


def test_a_full_gate_and_a_stopping_one_answer_503() -> None:
    full = endpoint(limit=0)
    status, headers, _ = by_asgi(full, "/mutate", BODIES["a pod to patch"], JSON)
    assert (status, headers["retry-after"], headers["connection"]) == (503, "0", "close")
    full.gate.stopping = True
    assert b"shutting down" in by_asgi(full, "/mutate", b"", JSON)[2]
    assert full.gate.inside == 0


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/validate", 405, "POST"),
        ("GET", "/mutate/token", 405, "POST"),
        ("GET", "/", 404, None),
        ("POST", "/elsewhere", 404, None),
    ],
)
def test_other_methods_and_paths_get_a_status(method: str, path: str, status: int, allow: str | None) -> None:
    answered, headers, data = by_asgi(endpoint(), path, b"", JSON, method)
    told = json.loads(data)
    assert (answered, told["kind"], told["code"], headers.get("allow")) == (status, "Status", status, allow)


def test_what_is_judged_is_never_judged_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[str] = []

    def decided(*given: Any) -> Any:
        evaluated.append(current_thread().name)
        return evaluate_review(*given)

    monkeypatch.setattr("forewarn.webhook.admission.endpoint.evaluate_review", decided)
    for data in (BODIES["a pod to patch"], body(deployment("nothing")), body(priority_class("a", 1))):
        by_asgi(endpoint(), "/validate", data, JSON)
    assert set(evaluated) == {"evaluate"}
    assert len(evaluated) == 3


def test_work_that_fails_on_a_worker_is_a_500() -> None:
    broken = endpoint(confirm=lambda: 1 / 0)
    status, _, answer = by_asgi(broken, "/validate", BODIES["a pod to deny"], JSON)
    assert (status, json.loads(answer)["code"]) == (500, 500)


def test_what_is_denied_or_warned_of_is_confirmed_by_one_live_request_and_silence_by_none() -> None:
    asked: list[int] = []

    def live() -> dict[str, PriorityClass]:
        asked.append(1)
        return {}

    served = endpoint(confirm=live)
    status, _, answer = by_asgi(served, "/validate", BODIES["a pod to deny"], JSON)
    assert (status, json.loads(answer)["response"]["allowed"], asked) == (200, False, [1])
    by_asgi(served, "/validate", body(deployment("nothing")), JSON)
    assert asked == [1, 1]
    by_asgi(served, "/validate", body(pod("gold", 1000)), JSON)
    by_asgi(served, "/validate", body(deployment("gold")), JSON)
    assert asked == [1, 1]


def test_the_answer_is_a_complete_admission_review() -> None:
    _, headers, answer = by_asgi(endpoint(), "/mutate", BODIES["a pod to patch"], JSON)
    read = json.loads(answer)
    assert headers["content-type"] == "application/json"
    assert (read["apiVersion"], read["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert read["response"]["uid"] == json.loads(BODIES["a pod to patch"])["request"]["uid"]
    assert read["response"]["patchType"] == "JSONPatch"
    assert {operation["path"] for operation in patch_of(answer)} == {"/spec/priority", "/spec/preemptionPolicy"}


def test_validating_never_patches() -> None:
    for data in bodies():
        assert b"patch" not in by_asgi(endpoint(), "/validate", data, JSON)[2]


def test_every_decision_is_one_log_line_with_the_uid(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "forewarn")
    by_asgi(endpoint(), "/validate", BODIES["a pod to deny"], JSON)
    [record] = caplog.records
    told = record.__dict__["fields"]
    assert told["uid"] == json.loads(BODIES["a pod to deny"])["request"]["uid"]
    assert (told["verdict"], told["operation"], told["kind"], told["name"]) == ("denied", "CREATE", "Pod", "p")
    assert told["rules"]["unknown-priority-class"] == "deny"


def test_metrics_count_by_a_closed_set_of_labels() -> None:
    served = endpoint()
    for path in ("/mutate", "/validate"):
        for data in bodies():
            by_asgi(served, path, data, JSON)
    custom = body({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    by_asgi(served, "/validate", custom, JSON)
    text = served.metrics.exposition("")[0].decode()
    requests = "forewarn_admission_requests_total{"
    assert requests + 'kind="other",operation="CREATE",phase="validate",verdict="allowed"} 1.0' in text
    assert requests + 'kind="Pod",operation="CREATE",phase="validate",verdict="denied"} 2.0' in text
    assert requests + 'kind="other",operation="other",phase="mutate",verdict="400"} 2.0' in text
    assert 'forewarn_findings_total{action="deny",rule="unknown-priority-class"} 1.0' in text
    assert "ConfigMap" not in text
    assert "_created" not in text


def test_probes_follow_the_state() -> None:
    health = Health(faults=(lambda: "", lambda: "no cluster state yet"))
    client = create_health_app(health, Metrics()).test_client()
    assert "forewarn_ready 0.0" in client.get("/metrics").text
    assert client.get("/livez").status_code == 200
    assert (client.get("/readyz").status_code, client.get("/readyz").text) == (503, "not listening yet\n")
    health.listening = True
    assert client.get("/readyz").text == "no cluster state yet\n"
    health.faults = ()
    assert (client.get("/readyz").status_code, client.get("/readyz").text) == (200, "ok\n")
    assert "forewarn_ready 1.0" in client.get("/metrics").text
    health.draining = True
    assert client.get("/readyz").text == "draining\n"
    health.beat -= MAX_SILENCE + 1
    assert client.get("/livez").status_code == 503


def test_the_health_port_serves_nothing_else() -> None:
    client = create_health_app(Health(), Metrics()).test_client()
    assert client.post("/mutate").status_code == 404
    assert client.post("/metrics").status_code == 405
    response = client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert response.content_type.startswith("application/openmetrics-text")
    assert response.data.endswith(b"# EOF\n")
