"""docs/install.md, mutual TLS: who has the client's certificate is answered, and nobody else."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from tests.e2e.objects import deployment
from tests.e2e.processes import free_ports
from tests.e2e.webhook import Webhook
from tests.webhook.certificates import write_client
from webhook.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.api import Answer, Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

NAME = "kube-apiserver"
SERVER = "kube-apiserver-with-certificate"


@pytest.fixture
def clients() -> Authority:
    """The CA of clients' certificates; it is no CA of API servers or of forewarn."""
    return Authority.make(datetime.now(UTC))


@pytest.fixture
def guarded(plane: ControlPlane, installed: Installation, clients: Authority, tmp_path: Path) -> Iterator[Webhook]:
    """A replica that wants a certificate by this CA and for this name; it is not started yet."""
    ca = tmp_path / "clients.crt"
    ca.write_bytes(clients.certificate)
    flags = ("--drain", "0", "--client-ca", str(ca), "--client-name", NAME)
    made = Webhook(plane, installed, flags=flags)
    yield made
    made.close()


@pytest.fixture
def certified(plane: ControlPlane, guarded: Webhook, clients: Authority, tmp_path: Path) -> Iterator[Api]:
    """Another API server on the same etcd, which shows the certificate; by files as docs/install.md has them."""
    both = write_client(clients, tmp_path / "client.pem", NAME)
    user = {"client-certificate": str(both), "client-key": str(both)}
    # The Service of the test is not on port 443, which alone may be left out.
    users = [{"name": f"forewarn.forewarn.svc:{guarded.proxy.port}", "user": user}]
    kubeconfig, config = tmp_path / "webhooks.kubeconfig", tmp_path / "admission.json"
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": users}))
    group = "apiserver.config.k8s.io/v1"
    own = {"apiVersion": group, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": str(kubeconfig)}
    names = ("ValidatingAdmissionWebhook", "MutatingAdmissionWebhook")
    plugins = [{"name": name, "configuration": own} for name in names]
    config.write_text(json.dumps({"apiVersion": group, "kind": "AdmissionConfiguration", "plugins": plugins}))
    (port,) = free_ports(1)
    log = f"--audit-log-path={plane.home / 'certified-audit.log'}"
    plane.start_api_server(SERVER, port, f"--admission-control-config-file={config}", log)
    with closing(plane.api(port=port)) as made:
        yield made
    plane.processes.stop(SERVER)


def created(api: Api) -> Answer:
    """A Deployment of a class that does not exist, by dry run."""
    return api.ask("POST", "apis/apps/v1/namespaces/default/deployments?dryRun=All", deployment("shop", "missing"))


def test_an_api_server_with_the_certificate_is_answered_and_one_without_is_not(
    guarded: Webhook, certified: Api, api: Api
) -> None:
    try:
        guarded.begin(certified, failure_policy="Fail")
        judged = created(certified)
        assert judged.code == 201
        assert "[unknown-priority-class]" in " ".join(judged.warnings)
        refused = created(api)
    finally:
        guarded.installed.unregister(api)
    assert refused.code == 500
    assert "failed calling webhook" in refused.body["message"]
