"""`forewarn webhook serve` and `forewarn webhook review` as a user runs them."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.webhook.x509 import Authority, self_signed, validity_of
from tests.builders import Made, cluster_text, make_budget, make_node, make_pod, make_priority_class
from tests.webhook.builders import OBJECTS, body, deployment, patch_of, pod, priority_class
from tests.webhook.running import ENVIRONMENT, JSON, PYTHON, answer_of, begin, client_context, read_answer
from tests.webhook.scripted_api import kubeconfig, scripted_api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.webhook.x509 import Certificate


ROOT = Path(__file__).parents[3]


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    return path


CHECKING_ON_REQUEST = """
import os, sys
from threading import Event, Thread
from forewarn.webhook.commands import serve

def check_on_request(checks):
    def run():
        while os.read(0, 1):
            for check in checks:
                check()
    Thread(target=run, daemon=True).start()
    return Event()

serve.check_regularly = check_on_request
from forewarn.policies.cli.main import main
sys.exit(main(["webhook", "serve", *sys.argv[1:]]))
"""


class Started:
    """`python -m webhook` in a process of its own."""

    program = ("-m", "webhook")

    def __init__(self, cluster: Path | str, *arguments: str, scratch: Path | None = None, **variables: str) -> None:
        self.ca = (scratch or Path(cluster).parent) / "ca.pem"
        flags = ["--cluster", str(cluster), "--port", "0", "--health-port", "0"]
        flags += [] if "--tls-cert" in arguments else ["--write-ca", str(self.ca)]
        self.process = subprocess.Popen(
            [PYTHON, *self.program, *flags, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**ENVIRONMENT, **variables},
        )
        self.before: list[str] = []
        """The lines of the log up to the one with the addresses."""
        while '"message":"listening"' not in (line := self._line()):
            self.before.append(line)
            if not line:
                raise AssertionError(f"{self.before!r}, and then {self.process.communicate(timeout=60)}")
        self.before.append(line)
        addresses = json.loads(line)
        self.port, self.health_port = (int(addresses[name].rpartition(":")[2]) for name in ("webhook", "health"))

    def _line(self) -> str:
        """The next line of the log; "" at its end. Reads no further, for `communicate` gets the rest."""
        assert self.process.stderr is not None
        read = partial(os.read, self.process.stderr.fileno(), 1)
        text = b""
        while not text.endswith(b"\n") and (character := read()):
            text += character
        return text.decode()

    def connect(self) -> http.client.HTTPSConnection:
        context = client_context(self.ca.read_bytes())
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=10)
        connection.connect()
        return connection

    def health(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=10)
        try:
            connection.request("GET", path)
            status, _, answer = answer_of(connection)
            return status, answer.decode()
        finally:
            connection.close()

    def ends(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit status, and the log."""
        _, log = self.process.communicate(timeout=20)
        return self.process.returncode, [json.loads(line) for line in (*self.before, *log.splitlines())]


class CheckedOnRequest(Started):
    """The same, but that it checks its files in `reload` alone."""

    program = ("-c", CHECKING_ON_REQUEST)

    def reload(self) -> None:
        """Let it check its files now."""
        assert self.process.stdin is not None
        self.process.stdin.write("x")
        self.process.stdin.flush()


@pytest.fixture
def started(cluster_file: Path) -> Iterator[Started]:
    server = Started(cluster_file, "--drain", "0.5")
    yield server
    if server.process.poll() is None:
        server.process.kill()
        server.process.communicate(timeout=60)


def test_sigterm_fails_readiness_finishes_what_is_in_flight_and_exits_with_0(started: Started) -> None:
    data = body(deployment("nothing"))
    connection = started.connect()
    try:
        until(lambda: started.health("/readyz") == (200, "ok\n"))
        assert started.health("/livez") == (200, "ok\n")
        begin(connection.sock, data, 100)
        until(lambda: "forewarn_requests_in_flight 1.0" in started.health("/metrics")[1])
        started.process.send_signal(signal.SIGTERM)
        until(lambda: started.health("/readyz") == (503, "draining\n"))
        time.sleep(0.8)  # past the draining
        assert started.process.poll() is None
        connection.sock.sendall(data[100:])
        status, headers, answer = read_answer(connection.sock)
    finally:
        connection.close()
    assert (status, headers["connection"]) == (200, "close")
    assert json.loads(answer)["response"]["warnings"]
    code, log = started.ends()
    assert code == 0
    [decision] = [line for line in log if line["message"] == "decision"]
    assert decision["uid"] == json.loads(data)["request"]["uid"]
    assert (decision["verdict"], decision["rules"]) == ("warned", {"unknown-priority-class": "warn"})


def test_a_second_signal_cuts_the_draining_short(cluster_file: Path) -> None:
    server = Started(cluster_file, "--drain", "600")
    until(lambda: server.health("/readyz")[0] == 200)
    server.process.send_signal(signal.SIGTERM)
    until(lambda: server.health("/readyz") == (503, "draining\n"))
    server.process.send_signal(signal.SIGINT)
    assert server.ends()[0] == 0


def _unnamed(answer: bytes | str) -> Any:
    """The answer with the start of each warning, without the name of the object, which review omits."""
    document = json.loads(answer)
    warnings = document["response"].get("warnings", [])
    document["response"]["warnings"] = [warning.removeprefix("Deployment team/web: ")[:60] for warning in warnings]
    return document


def test_the_answers_over_tls_are_those_of_review(
    started: Started, cluster_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "review.json"
    masters = {"username": "root", "groups": ["system:masters"]}  # who sees all, as whoever runs a command does
    for obj in (pod("gold"), pod("nothing", 1), deployment("nothing")):
        data = body(obj, userInfo=masters)
        file.write_bytes(data)
        for phase in ("mutate", "validate"):
            main(["webhook", "review", "-f", str(file), "--cluster", str(cluster_file), "--phase", phase, "-o", "json"])
            connection = started.connect()
            try:
                connection.request("POST", f"/{phase}", data, JSON)
                printed = json.dumps(json.loads(capsys.readouterr().out)["review"])
                assert _unnamed(answer_of(connection)[2]) == _unnamed(printed)
            finally:
                connection.close()


@pytest.mark.parametrize(
    ("obj", "namespace", "code"), [(pod("gold"), "team", 0), (pod("nothing"), "team", 1), (pod(priority=0), "batch", 0)]
)
def test_review_mutates_applies_the_patch_and_validates(
    obj: Any, namespace: str, code: int, cluster_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "review.json"
    file.write_bytes(body(obj, namespace=namespace))
    assert main(["webhook", "review", "-f", str(file), "--cluster", str(cluster_file), "-o", "json"]) == code
    answers = [json.loads(line)["review"] for line in capsys.readouterr().out.splitlines()]
    mutated, validated = map(json.dumps, answers)
    assert bool(patch_of(mutated.encode())) == (code == 0)
    assert json.loads(validated)["response"]["allowed"] == (code == 0)
    assert "patch" not in validated


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["webhook", "review", "-f", "{tmp}/c.yaml"], 3, "c.yaml: the body is not JSON"),
        (["webhook", "review", "-f", "{tmp}/cluster.json"], 3, "expected apiVersion admission.k8s.io/v1"),
        (["webhook", "review", "-f", "{tmp}/cluster.json", "-c", "{tmp}/c.yaml"], 2, 'c.yaml:1:1: unknown key "x"'),
        (["webhook", "review", "-f", "{tmp}/c.yaml", "--cluster", "{tmp}/none"], 2, "none: no such file"),
        (
            ["webhook", "review", "-f", "{tmp}/cluster.json", "--admission-config", "{tmp}/c.yaml"],
            2,
            "c.yaml:1:1: kind is missing",
        ),
        (
            ["webhook", "serve", "--cluster", "{tmp}/cluster.json", "--admission-config", "{tmp}/none"],
            2,
            "none: no such file",
        ),
        (
            ["webhook", "serve"],
            3,
            "no kubeconfig found ($KUBECONFIG: ",
        ),
        (["webhook", "serve", "--cluster", "live:x"], 3, "no kubeconfig found"),
        (
            ["webhook", "serve", "--cluster", "live", "--cluster", "{tmp}/cluster.json"],
            2,
            "--cluster live can't be combined",
        ),
        (["webhook", "serve", "--cluster", "{tmp}/none"], 2, "none: no such file"),
        (
            ["webhook", "serve", "--cluster", "{tmp}/cluster.json", "--namespace", "x"],
            2,
            "--namespace needs a watched cluster",
        ),
        (
            ["webhook", "serve", "--cluster", "{tmp}/cluster.json", "-c", "{tmp}/c.yaml"],
            2,
            'c.yaml:1:1: unknown key "x"',
        ),
        (
            ["webhook", "serve", "--cluster", "{tmp}/cluster.json", "--write-ca", "{tmp}/no/ca"],
            3,
            "no/ca: no such file",
        ),
        (
            ["webhook", "serve", "--cluster", "{tmp}/cluster.json", "--host", "192.0.2.1"],
            3,
            "cannot listen on 192.0.2.1",
        ),
        (
            ["webhook", "serve", "--cluster", "{tmp}/cluster.json", "--tls-cert", "{tmp}/a", "--tls-key", "{tmp}/b"],
            2,
            "a: No such",
        ),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str],
    code: int,
    says: str,
    cluster_file: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("forewarn.webhook.logs.log_to_stderr", lambda _: lambda: None)
    monkeypatch.setenv("KUBECONFIG", str(cluster_file.parent / "no-kubeconfig"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    (cluster_file.parent / "c.yaml").write_text("x: 1\n")
    assert main([argument.replace("{tmp}", str(cluster_file.parent)) for argument in arguments]) == code
    error = capsys.readouterr().err + caplog.text
    assert says in error
    assert "Traceback" not in error


def test_a_changed_configuration_takes_effect_while_serving(cluster_file: Path) -> None:
    config = cluster_file.parent / "c.yaml"
    config.write_text("actions: {unknown-priority-class: 'off'}\n")
    server = Started(cluster_file, "-c", str(config), "--drain", "0")
    try:
        connection = server.connect()

        def warned() -> bool:
            connection.request("POST", "/validate", body(deployment("nothing")), JSON)
            return "warnings" in json.loads(answer_of(connection)[2])["response"]

        assert not warned()
        config.write_text("actions: {unknown-priority-class: warn}\n")
        until(warned, 15)
        connection.close()
    finally:
        server.process.terminate()
        assert server.ends()[0] == 0


def test_a_metric_tells_what_is_disclosed(cluster_file: Path) -> None:
    config = cluster_file.parent / "c.yaml"
    config.write_text("disclose: counts\n")
    server = Started(cluster_file, "-c", str(config), "--drain", "0")
    try:
        shown = re.findall(r'forewarn_disclosure_mode{mode="(.*)"} (.*)', server.health("/metrics")[1])
        assert dict(shown) == {"names": "0.0", "own-namespace": "0.0", "counts": "1.0"}
        assert server.health("/accuracy")[0] == 404
    finally:
        server.process.send_signal(signal.SIGTERM)
        assert server.ends()[0] == 0


def test_an_emptied_configuration_is_not_the_defaults(cluster_file: Path) -> None:
    config = cluster_file.parent / "c.yaml"
    config.write_text("actions: {unknown-priority-class: 'off'}\n")
    server = CheckedOnRequest(cluster_file, "-c", str(config), "--drain", "0")
    try:
        connection = server.connect()

        def warned() -> bool:
            connection.request("POST", "/validate", body(deployment("nothing")), JSON)
            return "warnings" in json.loads(answer_of(connection)[2])["response"]

        config.write_text("")
        server.reload()
        until(lambda: 'forewarn_file_rejected{file="configuration"} 1.0' in server.health("/metrics")[1], 15)
        assert not warned()
        config.write_text("{}")
        server.reload()
        until(warned, 15)
        assert 'forewarn_file_rejected{file="configuration"} 0.0' in server.health("/metrics")[1]
        connection.close()
    finally:
        server.process.terminate()
        code, log = server.ends()
    assert code == 0
    [rejected] = [line for line in log if line.get("outcome") == "rejected"]
    assert "write {} to use the defaults" in rejected["reason"]


def test_an_empty_configuration_at_the_start_is_the_defaults(cluster_file: Path) -> None:
    config = cluster_file.parent / "c.yaml"
    config.write_text("# nothing\n")
    server = Started(cluster_file, "-c", str(config), "--drain", "0")
    server.process.terminate()
    assert server.ends()[0] == 0


def _write_certificate(folder: Path, certificate: Certificate) -> None:
    (folder / "tls.crt").write_bytes(certificate.chain)
    (folder / "tls.key").write_bytes(certificate.key)


def _served_end(server: Started) -> str:
    """When the certificate ends that a client is shown, as a metric would have it."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", server.port), 10) as plain, context.wrap_socket(plain) as connection:
        shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    return validity_of(ssl.DER_cert_to_PEM_cert(shown).encode()).not_after.isoformat()


def test_an_expired_certificate_does_not_replace_a_good_one(cluster_file: Path) -> None:
    now, day, folder = datetime.now(UTC), timedelta(days=1), cluster_file.parent
    authority = Authority.make(now - 9 * day, 100 * day)
    good, expired, better = (authority.sign(now + begins * day, life=5 * day) for begins in (0, -8, -1))
    ends = [certificate.not_after.replace(microsecond=0).isoformat() for certificate in (good, expired, better)]
    _write_certificate(folder, good)
    files = ["--tls-cert", str(folder / "tls.crt"), "--tls-key", str(folder / "tls.key")]
    server = CheckedOnRequest(cluster_file, *files, "--drain", "0")
    try:
        _write_certificate(folder, expired)
        server.reload()
        until(lambda: 'forewarn_file_rejected{file="certificate"} 1.0' in server.health("/metrics")[1], 15)
        assert _served_end(server) == ends[0]
        _write_certificate(folder, better)
        server.reload()
        until(lambda: _served_end(server) == ends[2], 15)
    finally:
        server.process.terminate()
        code, log = server.ends()
    assert code == 0
    why = [line["reason"] for line in log if line.get("outcome") == "rejected"]
    assert any(f"expired at {ends[1]}; the current certificate is valid and stays in use" in told for told in why)


def test_a_start_with_an_expired_certificate_says_so_and_serves_it_until_there_is_a_good_one(
    cluster_file: Path,
) -> None:
    now, day, folder = datetime.now(UTC), timedelta(days=1), cluster_file.parent
    expired, good = Authority.make(now - 9 * day).sign(now - 9 * day, life=day), self_signed(now)
    _write_certificate(folder, expired)
    files = ["--tls-cert", str(folder / "tls.crt"), "--tls-key", str(folder / "tls.key")]
    server = CheckedOnRequest(cluster_file, *files, "--drain", "0")
    try:
        assert _served_end(server) == expired.not_after.replace(microsecond=0).isoformat()
        status, why = server.health("/readyz")
        assert (status, why.startswith("API servers do not trust the certificate: expired at ")) == (503, True)
        _write_certificate(folder, good)
        server.reload()
        until(lambda: _served_end(server) == good.not_after.replace(microsecond=0).isoformat(), 15)
        assert server.health("/readyz")[0] == 200
    finally:
        server.process.terminate()
        code, log = server.ends()
    assert code == 0
    [told] = [line for line in log if line["message"] == "serving certificate not valid"]
    assert told["reason"].startswith("expired at ")
    assert told["level"] == "warning"


def test_tokens_are_asked_for_and_read_again_while_serving(cluster_file: Path) -> None:
    tokens, one, two = cluster_file.parent / "tokens", "a" * 32, "b" * 32
    tokens.write_text(one)
    server = CheckedOnRequest(cluster_file, "--drain", "0", "--client-token-file", str(tokens))

    def asked(token: str) -> int:
        connection = server.connect()
        try:
            connection.request("POST", "/validate", body(pod("gold")), {**JSON, "Authorization": f"Bearer {token}"})
            return answer_of(connection)[0]
        finally:
            connection.close()

    try:
        until(lambda: server.health("/readyz")[0] == 200)
        assert [asked(one), asked(two), asked("")] == [200, 401, 401]
        tokens.write_text(f"{one}\n{two}\n")
        server.reload()
        until(lambda: asked(two) == 200)
        assert asked(one) == 200
        tokens.write_text("")
        server.reload()
        until(lambda: 'forewarn_file_rejected{file="client-tokens"} 1.0' in server.health("/metrics")[1])
        assert [asked(one), asked("")] == [200, 401], "an emptied file does not let everybody in"
    finally:
        server.process.terminate()
    _, log = server.ends()
    assert not any(one in json.dumps(line) for line in log)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--health-port", "x"], 2, 'must be a whole number, not "x"'),
        (["--health-port", "0"], 3, '"level":"error","message":"cannot start: '),
    ],
)
def test_a_ca_injector_that_cannot_start_says_why(arguments: list[str], status: int, says: str, tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}
    command = [PYTHON, "-m", "forewarn", "webhook", "ca-injector", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert (done.returncode, says in done.stderr) == (status, True), done.stderr
    assert "Traceback" not in done.stderr


def test_serving_by_watches_it_is_ready_once_every_list_is_in_and_denials_are_confirmed(tmp_path: Path) -> None:
    with scripted_api() as api:
        config = kubeconfig(tmp_path / "config", api.url)
        for obj in OBJECTS:
            api.put(obj)
        api.script("list", "nodes", *[api.reject(403, "nodes is forbidden")] * 1000)
        server = Started("live:here", "--drain", "0", scratch=tmp_path, KUBECONFIG=str(config))
        try:
            lacking = (503, "cluster state not synced: nodes (nodes is forbidden)\n")
            until(lambda: server.health("/readyz") == lacking)
            assert "forewarn_cache_age_seconds +Inf" in server.health("/metrics")[1]
            assert server.health("/livez")[0] == 200
            _answers_by_the_object_alone(server)
            api.scripts["list", "nodes"].clear()
            until(lambda: server.health("/readyz") == (200, "ok\n"))
            connection = server.connect()

            def verdict() -> tuple[bool, list[str]]:
                connection.request("POST", "/validate", body(pod("late", 7)), JSON)
                response = json.loads(answer_of(connection)[2])["response"]
                return response["allowed"], response.get("warnings", [])

            assert verdict() == (False, [])
            assert len(api.asked("list", "priorityclasses")) == 2  # taken in, and asked again before the denial
            api.put(priority_class("late", 7))
            assert verdict() == (True, [])  # the watch has not told of it
            api.objects["priorityclasses"].clear()
            api.script("list", "priorityclasses", api.reject(500))
            allowed, warnings = verdict()
            assert allowed
            assert "did not confirm" in warnings[0]
            api.stream("priorityclasses").send("ADDED", priority_class("late", 7))
            until(lambda: verdict() == (True, []))
            metrics = server.health("/metrics")[1]
            assert 'forewarn_cache_objects{kind="Namespace"} 5.0' in metrics
            assert 'forewarn_watch_failures_total{reason="403",resource="nodes"}' in metrics
            connection.close()
        finally:
            server.process.terminate()
            code, log = server.ends()
        assert code == 0
        [told] = [line for line in log if line["message"] == "RBAC does not allow forewarn to list nodes"]
        assert (told["level"], told["verb"], told["resource"], told["group"]) == ("warning", "list", "nodes", "")


def _answers_by_the_object_alone(server: Started) -> None:
    """Without any cluster state yet: nothing is patched, nothing is late, and what needs no cluster is still judged."""
    connection = server.connect()
    for hook, obj in (("mutate", pod("gold")), ("validate", pod("gold", 1000)), ("validate", deployment("nothing"))):
        connection.request("POST", f"/{hook}", body(obj), JSON)
        status, _, answer = answer_of(connection)
        assert status == 200
        assert json.loads(answer)["response"] == {"uid": json.loads(body(obj))["request"]["uid"], "allowed": True}
    connection.request("POST", "/validate", body(priority_class("x", 5, preemptionPolicy="Sometimes")), JSON)
    assert "preemption-policy-invalid" in json.loads(answer_of(connection)[2])["response"]["status"]["message"]
    connection.close()


def test_a_variable_that_does_nothing_is_told(cluster_file: Path) -> None:
    server = Started(cluster_file, "--drain", "0", FOREWARN_MAX_INFLIGHT="3", FOREWARN_SERVICE_PORT="443")
    server.process.terminate()
    _, log = server.ends()
    assert [line["variable"] for line in log if line["message"] == "unknown environment variable"] == [
        "FOREWARN_MAX_INFLIGHT"
    ]


def test_serving_by_watches_answers_say_when_the_state_is_late(tmp_path: Path) -> None:
    with scripted_api() as api:
        config = kubeconfig(tmp_path / "config", api.url)
        for obj in OBJECTS:
            api.put(obj)
        variables = {"KUBECONFIG": str(config), "FOREWARN_MAX_CACHE_AGE": "0.1"}
        server = Started("live", "--drain", "0", scratch=tmp_path, **variables)
        try:
            until(lambda: server.health("/readyz") == (200, "ok\n"))
            connection = server.connect()

            def audit() -> dict[str, str]:
                connection.request("POST", "/validate", body(pod("gold", 1000)), JSON)
                found: dict[str, str] = json.loads(answer_of(connection)[2])["response"].get("auditAnnotations", {})
                return found

            said = re.compile(r"no message from the API server for \d+ s \(--max-cache-age 0.1\)")
            until(lambda: said.fullmatch(audit().get("stale-cache", "")))
            connection.close()
        finally:
            server.process.terminate()
            assert server.ends()[0] == 0


@pytest.mark.parametrize(
    ("obj", "lines"),
    [
        (pod("gold"), ["Pod team/p: allowed", "Input: ", "  mutate: allowed", "  validate: allowed"]),
        (pod("nothing"), ["Pod team/p: denied", "Input: ", "  mutate: allowed", "  validate: denied, code 403: "]),
        (pod("gold", 7), ['Pod team/p: denied: spec.priority is 7; class "gold" is 1000. Fix: ']),
        (deployment("nothing"), ["Deployment team/web: allowed with 1 warning", "Input: ", "  mutate: allowed"]),
    ],
)
def test_the_text_of_review_begins_with_the_answer(
    obj: Any, lines: list[str], cluster_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "review.json"
    file.write_bytes(body(obj))
    main(["webhook", "review", "-f", str(file), "--cluster", str(cluster_file)])
    printed = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("    ")]
    for line, expected in zip(printed, lines, strict=False):
        assert line.startswith(expected)


def until(condition: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_review_needs_none_of_the_libraries_of_the_server(cluster_file: Path) -> None:
    (cluster_file.parent / "r.json").write_bytes(body(pod("gold")))
    program = """
import sys
from forewarn.policies.cli.main import main
main(["webhook", "review", "-f", "r.json", "--cluster", "cluster.json"])
print({"flask", "werkzeug", "uvicorn", "cryptography", "prometheus_client"} & set(sys.modules))
"""
    environment = {**ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    command = [PYTHON, "-c", program]
    run = subprocess.run(
        command, cwd=cluster_file.parent, env=environment, capture_output=True, text=True, check=True, timeout=30
    )
    assert run.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize(("command", "status"), [("webhook serve", 0), ("lint", 128 + signal.SIGTERM)])
def test_a_command_that_is_still_starting_ends_at_once_when_it_is_told_to(
    command: str, status: int, tmp_path: Path
) -> None:
    """By a handler of its own: in a container it is the first process, to which a signal without one says nothing."""
    cluster = tmp_path / "cluster.json"
    os.mkfifo(cluster)
    arguments = [PYTHON, "-m", "forewarn", *command.split(), "--cluster", str(cluster)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(arguments, cwd=ROOT, text=True, env=ENVIRONMENT, **pipes) as process:  # type: ignore[call-overload]
        with open(_read_by(process, cluster), "w"):
            told = _told_until_it_ends(process)
        assert (process.returncode, told) == (status, ("", ""))


def _told_until_it_ends(process: subprocess.Popen[str]) -> tuple[str, str]:
    """More than once: of a signal just before read(), Python hears after it, and here nothing is ever read."""
    for _ in range(4):
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=10)
    process.kill()
    raise AssertionError(f"it does not end: {process.communicate(timeout=60)}")


def _read_by(process: subprocess.Popen[str], pipe: Path) -> int:
    """The end of a pipe to write into, as soon as a process reads it; a process that ended never will."""
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads yet
            time.sleep(0.02)
    process.kill()
    raise AssertionError(f"it does not read: {process.communicate(timeout=60)}")


def test_a_missing_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from forewarn.policies.cli.main import main; sys.exit(main(['webhook', 'serve']))"
    )
    run = subprocess.run([PYTHON, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    assert run.returncode == 3
    assert run.stderr == "forewarn webhook serve: uvicorn is not installed; install forewarn with the extra `webhook`\n"


def test_a_long_warning_names_the_workload_and_what_its_pods_lose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bulk = deployment()
    bulk["spec"]["replicas"] = 4
    bulk["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    pdb = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "status": {"disruptionsAllowed": 1}}
    pdb["metadata"] = {"name": "nightly", "namespace": "reports"}
    pdb["spec"] = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "nightly"}}}
    file, pdbs = tmp_path / "review.json", tmp_path / "pdb.json"
    file.write_bytes(body(bulk))
    pdbs.write_text(json.dumps(pdb))
    cluster = str(ROOT / "docs/examples/whatif/cluster.yaml")
    main(["webhook", "review", "-f", str(file), "--cluster", cluster, "--cluster", str(pdbs), "--phase", "validate"])
    facts = "3 violate a PDB, replacements stay Pending"
    warning = f"would preempt 4 Pods of reports/nightly ({facts}). Fix: lower requests or priority"
    assert capsys.readouterr().out.splitlines()[0].endswith(f": {warning} [preempts-running-pods]")


@pytest.mark.parametrize(
    ("workloads", "starts", "replicas", "warning"),
    [
        ("ab", (0, 5), 1, "would preempt 2 Pods of reports/b (2 violate a PDB, assumed not recreated)"),
        ("ab", (5, 5), 1, "would preempt 2 Pods: possibly reports/pod-0-0 and 1 more (priority 0, 2 violate a PDB)"),
        ("aabb", (5, 5, 5, 5), 2, "at least 1 of 2 new Pods would preempt at least 2 Pods"),
    ],
)
def test_a_long_warning_names_no_workload_if_nodes_tie(
    workloads: str,
    starts: tuple[int, ...],
    replicas: int,
    warning: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made: list[Made] = [make_priority_class(1000, "gold")]
    made += [make_budget(name, 0, "reports", app=name) for name in sorted({*workloads})]
    for place, (name, start) in enumerate(zip(workloads, starts, strict=True)):
        made.append(make_node(node := f"worker-node-of-a-pool-with-a-long-name-{place}").has(cpu="2"))
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": name, "controller": True}
        for number in range(2):
            one = make_pod(f"pod-{place}-{number}", "reports").request(cpu="1").labels(app=name)
            made.append(one.on(node, started=start).metadata(ownerReferences=[owner]))
    bulk = deployment()
    bulk["spec"]["replicas"] = replicas
    bulk["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    file, cluster = tmp_path / "review.json", tmp_path / "cluster.json"
    file.write_bytes(body(bulk))
    cluster.write_text(cluster_text(made))
    main(["webhook", "review", "-f", str(file), "--cluster", str(cluster), "--phase", "validate"])
    line = capsys.readouterr().out.splitlines()[0]
    assert line.endswith(f": {warning}. Fix: lower requests or priority [preempts-running-pods]")
