"""One replica that gets no lists, whose stderr nobody reads, and whose files turn bad: it answers all the same."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from forewarn.webhook.logs import MAX_WAITING
from forewarn.webhook.x509 import Authority
from tests.e2e.api import identity, path_of
from tests.e2e.objects import deployment, pod, priority_class
from tests.e2e.truth import wait_until
from tests.e2e.webhook import TRUSTING, Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from forewarn.webhook.x509 import Certificate
    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

CONFIGURATION = """\
disclose: names
repeatedWarnings: full
actions: {unknown-priority-class: deny, unknown-default-class: warn}
"""
IMPACT = "forewarn.dev/preemption-impact"
LOOKS = 15
"""Seconds within which a replica has looked at its files."""
AT_ONCE = 100
"""Requests that are sent before their answers are read."""


class Files(NamedTuple):
    """What a replica is given by files."""

    config: Path
    chain: Path
    key: Path

    def serve(self, certificate: Certificate) -> None:
        """Put another certificate in place, the key first: chain and key of two certificates are refused."""
        self.key.write_bytes(certificate.key)
        self.chain.write_bytes(certificate.chain)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.make(datetime.now(UTC) - timedelta(days=30))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Files:
    home = tmp_path_factory.mktemp("files")
    made = Files(home / "config.yaml", home / "tls.crt", home / "tls.key")
    made.config.write_text(CONFIGURATION)
    made.serve(authority.sign(datetime.now(UTC)))
    return made


@pytest.fixture(scope="module")
def without_lists(
    plane: ControlPlane, installed: Installation, api: Api, files: Files, authority: Authority
) -> Iterator[Webhook]:
    """Registered and started, but the API server that it asks takes connections and never answers."""
    flags = ("--drain", "0", "--config", str(files.config), "--tls-cert", str(files.chain), "--tls-key", str(files.key))
    made = Webhook(plane, installed, flags=flags)
    replica = made.replicas[0]
    unread, replica.errors = os.pipe()
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=128) as silent:
            made.follow(silent.getsockname()[1])
            installed.register(api, made.proxy.port, "Fail", authority.certificate)
            replica.launch()
            plane.processes.wait_for(replica.name, lambda: replica.health("/livez")[0] == 200)
            made.wait_until_asked(api)
            yield made
    finally:
        made.end(api)
        os.close(unread)
        os.close(replica.errors)


@pytest.fixture(scope="module")
def webhook(without_lists: Webhook, plane: ControlPlane) -> Webhook:
    """The same, once the lists came."""
    without_lists.follow(plane.port)
    wait_until(without_lists.replicas[0].ready, 30, "the lists are in")
    return without_lists


def test_without_any_list_objects_are_judged_by_themselves(without_lists: Webhook, api: Api) -> None:
    """Everything was answered 500."""
    replica = without_lists.replicas[0]
    status, why = replica.health("/readyz")
    assert status == 503
    assert "cluster state not synced:" in why
    forged = pod("forged", priorityClassName="high")
    forged["metadata"]["annotations"] = {IMPACT: "nobody has to go"}
    objects = [
        pod("plain"),
        deployment("dangling", "missing"),
        identity("Namespace", "another"),
        {**identity("ResourceQuota", "some"), "spec": {"hard": {"pods": "3"}}},
        priority_class("another", 7),
        forged,
    ]
    for obj in objects:
        answer = api.ask("POST", path_of(obj, name="", dryRun="All"), obj)
        assert (answer.code, answer.warnings) == (201, []), (obj["kind"], answer)
        assert IMPACT not in answer.body["metadata"].get("annotations", {})
    rejected = api.ask(
        "POST", path_of(priority_class("first", 8), name=""), priority_class("first", 8, globalDefault=True)
    )
    assert rejected.code != 201
    assert replica.metric("forewarn_http_requests_rejected_total", reason="internal") == 0


def test_once_the_lists_came_they_count(webhook: Webhook, api: Api) -> None:
    assert webhook.replicas[0].ready()
    rejected = api.ask("POST", path_of(deployment("dangling", "missing"), name=""), deployment("dangling", "missing"))
    assert rejected.code == 403
    assert 'PriorityClass "missing" not found' in rejected.body["message"]


def test_stderr_that_nobody_reads_stops_nothing_and_what_is_lost_is_counted(webhook: Webhook, api: Api) -> None:
    """It stopped for good after 208 answers."""
    replica = webhook.replicas[0]
    dropped = replica.metric("forewarn_log_lines_dropped_total")
    sent = 0
    while replica.metric("forewarn_log_lines_dropped_total") == dropped:
        assert sent <= 2 * MAX_WAITING, "all lines found a place"
        _review_many(replica.port, AT_ONCE)
        sent += AT_ONCE
    assert api.create(pod("plain"), dryRun="All")["kind"] == "Pod"
    assert replica.ready()


def _review_many(port: int, count: int) -> None:
    """Ask it so many times on one connection, and read the answers."""
    kinds = {"kind": {"group": "", "version": "v1", "kind": "Secret"}}
    resources = {"resource": {"group": "", "version": "v1", "resource": "secrets"}}
    secret = {**identity("Secret", "s"), "data": {}}
    request = {"uid": "u", **kinds, **resources, "operation": "CREATE", "object": secret, "userInfo": {}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    body = json.dumps(review).encode()
    head = (
        f"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), 30) as raw, TRUSTING.wrap_socket(raw) as tls:
        for _ in range(count):  # one after the other: a server limits those that wait
            tls.sendall(head.encode() + body)
            answer = b""
            while b'"allowed":true' not in answer:
                more = tls.recv(65_536)
                assert more, answer[-1000:]
                answer += more


def test_bad_files_take_the_place_of_no_good_ones(
    webhook: Webhook, api: Api, files: Files, authority: Authority
) -> None:
    replica, good = webhook.replicas[0], _shown(webhook.replicas[0].port)
    now, dangling = datetime.now(UTC), deployment("dangling", "missing")
    try:
        files.serve(authority.sign(now - timedelta(days=9), life=timedelta(days=1)))
        files.config.write_text("")
        for file in ("certificate", "configuration"):
            rejected = lambda: replica.metric("forewarn_file_rejected", file=file) == 1  # noqa: B023, E731
            wait_until(rejected, LOOKS, f"the {file} is refused")
        assert _shown(replica.port) == good
        assert api.ask("POST", path_of(dangling, name="", dryRun="All"), dangling).code == 403
    finally:
        files.config.write_text(CONFIGURATION)
        files.serve(authority.sign(now))
    for file in ("certificate", "configuration"):
        taken = lambda: replica.metric("forewarn_file_rejected", file=file) == 0  # noqa: B023, E731
        wait_until(taken, LOOKS, f"the {file} is taken")
    assert _shown(replica.port) != good
    assert api.create(pod("plain"), dryRun="All")["kind"] == "Pod"


def _shown(port: int) -> bytes:
    """The certificate that new connections get to see."""
    with socket.create_connection(("127.0.0.1", port), 30) as raw, TRUSTING.wrap_socket(raw) as tls:
        return tls.getpeercert(binary_form=True) or b""


@pytest.mark.usefixtures("webhook")
def test_what_nobody_sees_is_made_visible_in_what_kubectl_prints(plane: ControlPlane) -> None:
    namespace = identity("Namespace", "unseen")
    namespace["metadata"]["annotations"] = {"forewarn.dev/default-priority-class": "hi\u202eg\u200bh"}
    told = plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(namespace))
    assert told.status == 0, told.err
    assert r"hi\u202eg\u200bh" in told.err
    assert told.err.isascii()


def test_a_header_of_80_kb_is_refused(webhook: Webhook, api: Api) -> None:
    context: ssl.SSLContext = TRUSTING
    replica = webhook.replicas[0]
    with closing(http.client.HTTPSConnection("127.0.0.1", replica.port, context=context, timeout=30)) as connection:
        headers = {"Content-Type": "application/json", "X-Padding": "x" * 80_000}
        connection.request("POST", "/validate", b"{}", headers)
        assert connection.getresponse().status == 431
    assert api.create(pod("plain"), dryRun="All")["kind"] == "Pod"


def test_a_full_stdout_ends_with_3_and_a_word(plane: ControlPlane, tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(json.dumps(pod("plain")))
    flags = ["-f", str(manifest), "--cluster", "webhook/sample/cluster.yaml"]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig("forewarn"))}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "forewarn", "predict", *flags],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            timeout=60,
        )
    assert done.returncode == 3, done.stderr
    assert "forewarn predict: standard output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
