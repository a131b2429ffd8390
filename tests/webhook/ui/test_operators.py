"""The operators' pages on the webhook's health port: the process, its users, and the end of both."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
import yaml

from forewarn.policies.cli import main
from forewarn.webhook.commands.operators import _spare_memory
from forewarn.webhook.ui.processes import MORE_MEMORY
from tests.webhook.scripted_api import Handler, ScriptedApi, kubeconfig, scripted_api
from tests.webhook.ui.test_processes import is_there

MAX_SECONDS = 120.0
TOKENS = {"for-ada": "ada", "for-kim": "kim"}
CLUSTER = "docs/examples/whatif/cluster.yaml"


def review_token(handler: Handler) -> None:
    (_, review) = handler.server.api.posted[-1]
    user = TOKENS.get(review["spec"]["token"])
    status = {"authenticated": True, "user": {"username": user}} if user else {"authenticated": False}
    handler.answer(201, {**review, "status": status})


def review_access(handler: Handler) -> None:
    """ada may list everything, kim Pods and Deployments in shop."""
    (_, review) = handler.server.api.posted[-1]
    asked = review["spec"]["resourceAttributes"]
    is_own = asked.get("namespace") == "shop" and asked["resource"] in ("pods", "deployments")
    handler.answer(201, {**review, "status": {"allowed": review["spec"]["user"] == "ada" or is_own}})


class Webhook(NamedTuple):
    port: int
    process: subprocess.Popen[str]

    def get(self, path: str, token: str = "", method: str = "GET", body: str | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=MAX_SECONDS)
        more = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, body, {"Host": f"localhost:{self.port}", **more, **headers})
        response = connection.getresponse()
        found = Answer(response.status, response.read().decode(), dict(response.getheaders()))
        connection.close()
        return found


class Answer(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + MAX_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


RESTARTING_SOON = """
import sys
from forewarn.policies.cli import main
from forewarn.webhook.commands import serve

serve._RESTART_SECONDS = 0.5
sys.exit(main())
"""


@contextmanager
def webhook(api: ScriptedApi, scratch: Path, program: tuple[str, str] = ("-m", "forewarn")) -> Iterator[Webhook]:
    for obj in yaml.safe_load_all(Path(CLUSTER).read_text()):
        for each in obj.get("items", [obj]):
            if each["kind"] != "Version":
                api.put(each)
    version = {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
    api.routes["GET", "/version"] = lambda handler: handler.answer(200, version)
    api.routes["POST", "/apis/authentication.k8s.io/v1/tokenreviews"] = review_token
    api.routes["POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews"] = review_access
    config = kubeconfig(scratch / "kubeconfig", api.url)
    serve = ["webhook", "serve", "--ui", "--port", "0", "--health-port", "0", "--drain", "0"]
    with (
        (scratch / "log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-P", *program, *serve],
            env={**os.environ, "KUBECONFIG": str(config)},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            lines = [process.stdout.readline() for _ in range(2)]
            ports = {line.split()[0]: int(line.rpartition(":")[2]) for line in lines}
            made = Webhook(ports["health"], process)
            until(lambda: made.get("/static/ui.css").status == 200)
            yield made
        finally:
            process.terminate()
            process.wait(MAX_SECONDS)


@pytest.fixture(scope="module")
def api() -> Iterator[ScriptedApi]:
    with scripted_api() as found:
        yield found


@pytest.fixture(scope="module")
def running(api: ScriptedApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    with webhook(api, tmp_path_factory.mktemp("operators")) as found:
        yield found


def test_probes_need_no_token_and_pages_do(running: Webhook) -> None:
    assert running.get("/livez").status == 200
    for path in ("/", "/warnings", "/api/cluster", "/events/risk", "/none"):
        answer = running.get(path)
        assert answer.status == 401
        assert "a-1" not in answer.text


def test_accuracy_has_no_address_and_the_command_reads_it(running: Webhook, capsys: pytest.CaptureFixture[str]) -> None:
    assert running.get("/accuracy").status == 401, "of the pages"
    assert running.get("/accuracy", "for-ada").status == 404
    assert main(["webhook", "accuracy", "--health-port", str(running.port), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["open"] == 0


def test_an_operator_sees_the_cluster_and_asks(running: Webhook) -> None:
    page = running.get("/", "for-ada")
    assert page.status == 200
    assert "4 nodes" in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    path = "/whatif?change=lose-zone&name=a"
    assert "event: done" in running.get(f"/events{path}", "for-ada").text
    assert "zone a lost: 2 nodes" in running.get(path, "for-ada").text
    manifest = Path("docs/examples/headroom/cache.yaml").read_text()
    body, kind = json.dumps({"manifest": manifest}), {"Content-Type": "application/json"}
    answer = running.get("/api/predict", "for-ada", "POST", body, **kind)
    assert json.loads(answer.text)["outcomes"] == {"fits": 2}
    assert running.get("/api/reload", "for-ada", "POST", "{}", **kind).status == 200


def test_a_tenant_sees_no_page_of_the_whole_cluster(running: Webhook) -> None:
    for path in ("/", "/predict", "/whatif", "/risk", "/audit", "/api/cluster", "/events/risk", "/api/risk"):
        answer = running.get(path, "for-kim")
        assert answer.status == 403, path
        assert "kim may not list" in answer.text
        assert "a-1" not in answer.text
    page = running.get("/warnings", "for-kim")
    assert page.status == 200
    assert "4 nodes" not in page.text


def test_port_forward_gets_a_session_for_a_token(running: Webhook) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    first = running.get("/risk?namespace=shop")
    assert 'value="/risk?namespace=shop"' in first.text
    body = urlencode({"token": "for-ada", "path": "/risk?namespace=shop"})
    entered = running.get("/enter", "", "POST", body, **form)
    assert (entered.status, entered.headers["location"]) == (303, "/risk?namespace=shop")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "for-ada" not in cookie
    assert running.get("/", Cookie=cookie.partition(";")[0]).status == 200
    assert running.get("/enter", "", "POST", urlencode({"token": "wrong"}), **form).status == 401


def test_few_invalid_tokens_of_an_address_reach_the_api_server(running: Webhook, api: ScriptedApi) -> None:
    assert running.get("/warnings", "for-ada").status == 200
    statuses = []
    for number in range(60):
        address = ("127.0.0.9", 0)
        connection = http.client.HTTPConnection("127.0.0.1", running.port, MAX_SECONDS, source_address=address)
        connection.request("GET", "/", headers={"Authorization": f"Bearer invalid-{number}"})
        statuses.append(connection.getresponse().status)
        connection.close()
    assert statuses[:10] == [401] * 10
    assert set(statuses) == {401, 429}
    reviewed = [posted for path, posted in api.posted if path.endswith("/tokenreviews")]
    assert sum(review["spec"]["token"].startswith("invalid-") for review in reviewed) == statuses.count(401)
    assert running.get("/warnings", "for-ada").status == 200


def _niceness(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[16])


def test_the_pages_start_again_and_end_with_the_webhook(tmp_path: Path) -> None:
    with scripted_api() as api, webhook(api, tmp_path, ("-c", RESTARTING_SOON)) as running:
        pid = running.process.pid
        (child,) = _children(pid)
        until(lambda: _niceness(child) == min(_niceness(pid) + 19, 19))
        os.kill(child, signal.SIGKILL)
        until(lambda: running.get("/static/ui.css").status == 503)
        assert running.get("/livez").status == 200
        until(lambda: running.get("/static/ui.css").status == 200)
        (child,) = _children(pid)
    until(lambda: not is_there(child))


@pytest.mark.parametrize(
    ("files", "spare"),
    [
        ({"memory.max": "1000\n", "memory.current": "400\n"}, 300),
        ({"memory.max": "1000", "memory.current": "1400"}, 0),
        ({"memory.max": "max", "memory.current": "400"}, 4 * MORE_MEMORY),
        ({"memory/memory.limit_in_bytes": "1000", "memory/memory.usage_in_bytes": "400"}, 300),
        ({}, 4 * MORE_MEMORY),
    ],
)
def test_the_pages_leave_half_of_the_memory_to_the_webhook(tmp_path: Path, files: dict[str, str], spare: int) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert _spare_memory(tmp_path) == spare


def _children(pid: int) -> list[int]:
    """The processes whose parent is this one."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if stat.read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append(int(stat.parent.name))
        except OSError:
            continue
    return found
