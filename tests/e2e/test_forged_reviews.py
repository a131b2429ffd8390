"""A pod posts reviews of new default classes as fast as it can, and legal defaults are stored all the same."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import cycle
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from forewarn.webhook.x509 import Authority
from tests.e2e.api import identity, path_of
from tests.e2e.installation import NAMESPACE
from tests.e2e.objects import deployment, priority_class
from tests.e2e.racing import by_whom, clear, create, defaults
from tests.e2e.truth import wait_until
from tests.e2e.webhook import QUICK, TRUSTING, Webhook

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

LEGAL = 12
OWN = "own"
RBAC = "rbac.authorization.k8s.io"


def forged() -> bytes:
    """A review as an API server would send it of a default class that is about to be created."""
    name = f"evil-{uuid4()}"
    obj = priority_class(name, 1, globalDefault=True)
    obj["metadata"]["uid"] = str(uuid4())
    request: Obj = {
        "uid": str(uuid4()),
        "kind": {"group": "scheduling.k8s.io", "version": "v1", "kind": "PriorityClass"},
        "resource": {"group": "scheduling.k8s.io", "version": "v1", "resource": "priorityclasses"},
        "name": name,
        "operation": "CREATE",
        "userInfo": {"username": "system:admin", "groups": ["system:masters"]},
        "object": obj,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def outcome(status: int, body: Obj) -> str:
    """What a forger was told. A default that is stored already is denied to him as to everybody."""
    if status != 200:
        return str(status)
    return "allowed" if body["response"]["allowed"] else "denied"


@contextmanager
def forging(webhook: Webhook, token: str = "") -> Iterator[Counter[str]]:
    """Post forged reviews to all replicas, over connections that are kept; how many came out how."""
    from collections import Counter

    stop, statuses = threading.Event(), Counter[str]()
    path = f"/validate/{token}?timeout=5s" if token else "/validate?timeout=5s"

    def run() -> None:
        ports = cycle(replica.port for replica in webhook.replicas)
        clients = {p.port: http.client.HTTPSConnection("127.0.0.1", p.port, context=TRUSTING) for p in webhook.replicas}
        while not stop.is_set():
            client = clients[next(ports)]
            try:
                client.request("POST", path, forged(), {"Content-Type": "application/json"})
                answer = client.getresponse()
                body = json.loads(answer.read())
                statuses[outcome(answer.status, body)] += 1
            except (OSError, http.client.HTTPException):
                client.close()

        for client in clients.values():
            client.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield statuses
    finally:
        stop.set()
        thread.join(30)


@pytest.fixture(autouse=True)
def no_default(api: Api, installed: Installation) -> Iterator[None]:
    """No class is the default, and the place is free: a reservation that was forged would stand for 40 s."""
    clear(api)
    lease = api.get("Lease", "forewarn-global-default", NAMESPACE)
    api.replace({**lease, "spec": {}})
    yield
    clear(api)


@pytest.fixture
def shipped(plane: ControlPlane, installed: Installation, api: Api) -> Iterator[Webhook]:
    made = Webhook(plane, installed, 2)
    try:
        made.begin(api)
        yield made
    finally:
        made.end(api)


@pytest.fixture
def without_tokens(plane: ControlPlane, installed: Installation, api: Api, tmp_path: Path) -> Iterator[Webhook]:
    """A certificate by files, and no CA injector: API servers bring nothing."""
    authority = Authority.make(datetime.now(UTC))
    made, flags = authority.sign(datetime.now(UTC)), list[str](QUICK)
    for flag, content in (("--tls-cert", made.chain), ("--tls-key", made.key)):
        (tmp_path / flag).write_bytes(content)
        flags += [flag, str(tmp_path / flag)]
    webhook = Webhook(plane, installed, 1, tuple(flags))
    try:
        webhook.begin(api, bundle=authority.certificate)
        yield webhook
    finally:
        webhook.end(api)


def test_without_a_token_a_forger_keeps_legal_defaults_out(without_tokens: Webhook, api: Api) -> None:
    """So the next test would see it if one did."""
    with forging(without_tokens) as statuses:
        time.sleep(1)
        assert create(api, "legal").code == 403
    assert statuses["allowed"]


def test_legal_defaults_are_stored_at_once_while_somebody_forges_reviews(shipped: Webhook, api: Api) -> None:
    waits = []
    with forging(shipped) as statuses:
        time.sleep(1)
        for number in range(LEGAL):
            started = time.monotonic()
            answer = create(api, f"legal-{number}")
            while by_whom(answer) == "API server":  # whose own cache still has the one that was deleted
                answer = create(api, f"legal-{number}")
            waits.append(time.monotonic() - started)
            assert answer.code == 201, answer.body
            assert defaults(api) == [f"legal-{number}"]
            clear(api)
    told = f"{LEGAL} of {LEGAL} legal defaults stored, the slowest after {max(waits):.2f} s"
    print(f"\ne2e: {told}, beside {sum(statuses.values())} forged reviews")
    assert statuses["503"]
    assert statuses.keys() <= {"503", "denied"}
    assert max(waits) < 5


def test_a_review_that_says_it_is_an_administrators_is_told_nothing_of_the_cluster(shipped: Webhook, api: Api) -> None:
    """Not in the audit annotations either, which the API server keeps to itself."""
    asked = deployment("shop", "missing")
    assert "unknown-priority-class" in str(shipped.review(asked)), "so an API server is told"
    for path in ("/validate", "/mutate"):
        answer = shipped.review(asked, path, {"username": "admin", "groups": ["system:masters"]}, "another")
        assert answer.keys() == {"uid", "allowed"}


def test_no_token_is_in_a_log(shipped: Webhook) -> None:
    assert {len(token) for token in shipped.told} == {64}
    names = [*(replica.name for replica in shipped.replicas), shipped.injector.name]
    logs = [shipped.plane.processes.log(name).read_text() for name in names]
    assert not [token for token in shipped.told for log in logs if token in log]


@pytest.fixture
def tenant(api: Api) -> Iterator[str]:
    """A namespace whose owner may patch it, and nothing else."""
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "owns-its-namespace"},
        "rules": [{"apiGroups": [""], "resources": ["namespaces"], "resourceNames": [OWN], "verbs": ["get", "patch"]}],
    }
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "owns-its-namespace"},
        "subjects": [{"kind": "Group", "apiGroup": RBAC, "name": "developers"}],
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "owns-its-namespace"},
    }
    api.create(identity("Namespace", OWN))
    api.do("POST", f"apis/{RBAC}/v1/clusterroles", role)
    api.do("POST", f"apis/{RBAC}/v1/clusterrolebindings", binding)
    yield OWN
    for plural in ("clusterrolebindings", "clusterroles"):
        api.do("DELETE", f"apis/{RBAC}/v1/{plural}/owns-its-namespace")
    api.delete(identity("Namespace", OWN))


def test_a_token_that_an_error_shows_is_worth_nothing(shipped: Webhook, api: Api, tenant: str) -> None:
    """An API server names the URL of a webhook that fails closed to whoever made the request."""
    replicas = [*shipped.in_service]
    with closing(shipped.plane.api("developer")) as developer:
        path = path_of(identity("Namespace", tenant))
        # The authorizer sees new roles with a delay; before, the answer is 403 and names no webhook.
        wait_until(lambda: developer.ask("GET", path).code == 200, 30, "the developer has the new role")
        for replica in replicas:
            shipped.take_out(replica)
        shipped.proxy.cut()  # The API server keeps connections open, and would use them.
        change = {"metadata": {"annotations": {"forewarn.dev/exempt-until": "2030-01-01T00:00:00Z"}}}
        answer = developer.ask("PATCH", path, change, "application/merge-patch+json")
    for replica in replicas:
        shipped.put_back(replica)
    assert answer.code >= 400
    shown = [token for token in shipped.told if token in answer.body["message"]]
    assert len(shown) == 1, answer.body["message"]
    (token,) = shown
    administrator = {"username": "admin", "groups": ["system:masters"]}
    asked = deployment("shop", "missing")
    assert "unknown-priority-class" in str(shipped.review(asked)), "so an API server is told"
    for path in ("/validate", "/mutate"):
        assert shipped.review(asked, path, administrator, token).keys() == {"uid", "allowed"}
    with forging(shipped, token) as statuses:
        time.sleep(1)
        assert create(api, "legal").code == 201
    assert statuses.keys() <= {"503", "denied"}
