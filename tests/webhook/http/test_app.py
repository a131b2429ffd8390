"""The applications of both ports, without a server."""

from __future__ import annotations

import json
from threading import current_thread
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.webhook.admission.decide import evaluate_review
from forewarn.webhook.admission.endpoint import Endpoint
from forewarn.webhook.admission.review import MAX_WIRE
from forewarn.webhook.health import MAX_SILENCE, Health
from forewarn.webhook.http.asgi import Routes
from forewarn.webhook.http.server import HealthPaths
from forewarn.webhook.metrics import Metrics
from tests.webhook.builders import body, deployment, endpoint, patch_of, pod, priority_class
from tests.webhook.running import by_asgi

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.priority_class import PriorityClass

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


def reviewed(served: Endpoint, path: str, data: bytes) -> tuple[int, dict[str, str], bytes]:
    return by_asgi(Routes(served, Health()), "POST", path, data, content_type="application/json")


def test_a_full_gate_and_a_stopping_one_answer_503() -> None:
    full = endpoint(limit=0)
    status, headers, _ = reviewed(full, "/mutate", BODIES["a pod to patch"])
    assert (status, headers["retry-after"], headers["connection"]) == (503, "0", "close")
    full.gate.stopping = True
    assert b"shutting down" in reviewed(full, "/mutate", b"")[2]
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
    answered, headers, data = by_asgi(Routes(endpoint(), Health()), method, path)
    told = json.loads(data)
    assert (answered, told["kind"], told["code"], headers.get("allow")) == (status, "Status", status, allow)


def test_what_is_judged_is_never_judged_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[str] = []

    def decided(*given: Any) -> Any:
        evaluated.append(current_thread().name)
        return evaluate_review(*given)

    monkeypatch.setattr("forewarn.webhook.admission.endpoint.evaluate_review", decided)
    for data in (BODIES["a pod to patch"], body(deployment("nothing")), body(priority_class("a", 1))):
        reviewed(endpoint(), "/validate", data)
    assert set(evaluated) == {"evaluate"}
    assert len(evaluated) == 3


def test_work_that_fails_on_a_worker_is_a_500() -> None:
    broken = endpoint(confirm=lambda: 1 / 0)
    status, _, answer = reviewed(broken, "/validate", BODIES["a pod to deny"])
    assert (status, json.loads(answer)["code"]) == (500, 500)


def test_what_is_denied_or_warned_of_is_confirmed_by_one_live_request_and_silence_by_none() -> None:
    asked: list[int] = []

    def live() -> dict[str, PriorityClass]:
        asked.append(1)
        return {}

    served = endpoint(confirm=live)
    status, _, answer = reviewed(served, "/validate", BODIES["a pod to deny"])
    assert (status, json.loads(answer)["response"]["allowed"], asked) == (200, False, [1])
    reviewed(served, "/validate", body(deployment("nothing")))
    assert asked == [1, 1]
    reviewed(served, "/validate", body(pod("gold", 1000)))
    reviewed(served, "/validate", body(deployment("gold")))
    assert asked == [1, 1]


def test_the_answer_is_a_complete_admission_review() -> None:
    _, headers, answer = reviewed(endpoint(), "/mutate", BODIES["a pod to patch"])
    read = json.loads(answer)
    assert headers["content-type"] == "application/json"
    assert (read["apiVersion"], read["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert read["response"]["uid"] == json.loads(BODIES["a pod to patch"])["request"]["uid"]
    assert read["response"]["patchType"] == "JSONPatch"
    assert {operation["path"] for operation in patch_of(answer)} == {"/spec/priority", "/spec/preemptionPolicy"}


def test_validating_never_patches() -> None:
    for data in bodies():
        assert b"patch" not in reviewed(endpoint(), "/validate", data)[2]


def test_every_decision_is_one_log_line_with_the_uid(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "forewarn")
    reviewed(endpoint(), "/validate", BODIES["a pod to deny"])
    [record] = caplog.records
    told = record.__dict__["fields"]
    assert told["uid"] == json.loads(BODIES["a pod to deny"])["request"]["uid"]
    assert (told["verdict"], told["operation"], told["kind"], told["name"]) == ("denied", "CREATE", "Pod", "p")
    assert told["rules"]["unknown-priority-class"] == "deny"


def test_metrics_count_by_a_closed_set_of_labels() -> None:
    served = endpoint()
    for path in ("/mutate", "/validate"):
        for data in bodies():
            reviewed(served, path, data)
    custom = body({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    reviewed(served, "/validate", custom)
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
    port = HealthPaths(health, Metrics())

    def answer(path: str) -> tuple[int, str]:
        status, _, data = by_asgi(port, "GET", path)
        return status, data.decode()

    assert "forewarn_ready 0.0" in answer("/metrics")[1]
    assert answer("/livez") == (200, "ok\n")
    assert answer("/readyz") == (503, "not listening yet\n")
    health.listening = True
    assert answer("/readyz") == (503, "no cluster state yet\n")
    health.faults = ()
    assert answer("/readyz") == (200, "ok\n")
    assert "forewarn_ready 1.0" in answer("/metrics")[1]
    health.draining = True
    assert answer("/readyz") == (503, "draining\n")
    health.beat -= MAX_SILENCE + 1
    assert answer("/livez")[0] == 503


def test_the_health_port_serves_nothing_else() -> None:
    port = HealthPaths(Health(), Metrics())
    for path in ("/", "/mutate", "/accuracy", "/warnings", "/livez/"):
        assert by_asgi(port, "GET", path)[0] == 404
    status, headers, _ = by_asgi(port, "POST", "/metrics")
    assert (status, headers["allow"], headers["connection"]) == (405, "GET, HEAD", "close")
    _, headers, data = by_asgi(port, "GET", "/metrics", accept="application/openmetrics-text")
    assert headers["content-type"].startswith("application/openmetrics-text")
    assert data.endswith(b"# EOF\n")
