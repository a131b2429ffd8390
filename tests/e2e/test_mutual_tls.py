"""docs/guides/run-the-webhook.md, mutual TLS and a token: only API servers that show them are answered.

What replicas and API servers are told comes from manifests/components, with paths of this machine.
"""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from forewarn.webhook.x509 import Authority
from tests.e2e.installation import MANIFESTS, rendered
from tests.e2e.objects import deployment
from tests.e2e.processes import free_ports
from tests.e2e.racing import create
from tests.e2e.webhook import QUICK, Webhook
from tests.webhook.certificates import write_client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.api import Answer, Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("classes")]

SERVER = "kube-apiserver-that-is-known"
TOKEN = "an-api-servers-token-0123456789"


class Guard:
    """What a component wants: variables for replicas, and a user for API servers."""

    def __init__(self, plane: ControlPlane, name: str, directory: Path) -> None:
        self.directory = directory
        objects = rendered(plane, MANIFESTS / "overlays" / name)
        (found,) = (o for o in objects if o["kind"] == "Deployment" and o["metadata"]["name"] == "forewarn")
        (container,) = found["spec"]["template"]["spec"]["containers"]
        self._mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        self._env = {each["name"]: each.get("value", "") for each in container["env"]}
        self.user: dict[str, Any] = {"token": TOKEN}
        if name == "mutual-tls":
            self._certificates()
        else:
            self._mounted("client-token", "tokens", f"one-that-was-0123456789\n{TOKEN}\n".encode())

    def _certificates(self) -> None:
        clients = Authority.make(datetime.now(UTC))
        self._mounted("client-ca", "ca.crt", clients.certificate)
        both = str(write_client(clients, self.directory / "client.pem", self._env["FOREWARN_CLIENT_NAME"]))
        shipped = yaml.safe_load((MANIFESTS / "components/mutual-tls/webhooks.kubeconfig").read_text())
        (user,) = shipped["users"]
        assert user["name"] == "forewarn.forewarn.svc"
        self.user = dict.fromkeys(user["user"], both)

    def _mounted(self, volume: str, file: str, content: bytes) -> None:
        """A file of a volume, where this machine has it."""
        there, here = f"{self._mounts[volume]}/{file}", self.directory / file
        here.write_bytes(content)
        (name,) = (name for name, value in self._env.items() if value == there)
        self._env[name] = str(here)

    @property
    def flags(self) -> tuple[str, ...]:
        """The component's variables, as flags."""
        wanted = {n: v for n, v in self._env.items() if n.startswith("FOREWARN_CLIENT_")}
        assert wanted
        flags = [(f"--{n.removeprefix('FOREWARN_').lower().replace('_', '-')}", v) for n, v in wanted.items()]
        return (*QUICK, *(part for flag in flags for part in flag))

    def admission(self, port: int) -> Path:
        """The API server's files; the Service of the test is not on port 443, which alone may be left out."""
        users = [{"name": f"forewarn.forewarn.svc:{port}", "user": self.user}]
        kubeconfig, config = self.directory / "webhooks.kubeconfig", self.directory / "admission.json"
        kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "users": users}))
        shipped = yaml.safe_load((MANIFESTS / "components/mutual-tls/admission.yaml").read_text())
        for plugin in shipped["plugins"]:
            plugin["configuration"]["kubeConfigFile"] = str(kubeconfig)
        config.write_text(json.dumps(shipped))
        return config


@pytest.fixture(params=["mutual-tls", "client-token"])
def guard(request: pytest.FixtureRequest, plane: ControlPlane, tmp_path: Path) -> Guard:
    return Guard(plane, request.param, tmp_path)


@pytest.fixture
def guarded(plane: ControlPlane, installed: Installation, guard: Guard) -> Iterator[Webhook]:
    """A replica with the component; it is not started yet."""
    made = Webhook(plane, installed, flags=guard.flags)
    yield made
    made.close()


@pytest.fixture
def known(plane: ControlPlane, guarded: Webhook, guard: Guard) -> Iterator[Api]:
    """Another API server on the same etcd, which was told."""
    (port,) = free_ports(1)
    log = f"--audit-log-path={plane.home / 'known-audit.log'}"
    config = guard.admission(guarded.proxy.port)
    plane.start_api_server(SERVER, port, f"--admission-control-config-file={config}", log)
    with closing(plane.api(port=port)) as made:
        yield made
    plane.processes.stop(SERVER)


def created(api: Api) -> Answer:
    """A Deployment of a class that does not exist, by dry run."""
    return api.ask("POST", "apis/apps/v1/namespaces/default/deployments?dryRun=All", deployment("shop", "missing"))


def test_an_api_server_that_was_told_is_answered_and_one_that_was_not_is_not(
    guarded: Webhook, known: Api, api: Api
) -> None:
    try:
        guarded.begin(known, failure_policy="Fail")
        evaluated = created(known)
        assert evaluated.code == 201
        assert "[unknown-priority-class]" in " ".join(evaluated.warnings)
        second = create(known, "second")
        assert second.code == 403, "there is a default already: it was asked, and answered"
        rejected = created(api)
    finally:
        guarded.installed.unregister(api)
    assert rejected.code == 500
    assert "failed calling webhook" in rejected.body["message"]
