"""forewarn as a process, or several behind one address, registered with the API server."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import sys
import time
from base64 import b64decode
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from forewarn.webhook.commands.accuracy import read_table
from forewarn.webhook.controllers.certificate_authority import grants_of
from tests.e2e.api import PATHS, Refused
from tests.e2e.installation import CONFIGURATIONS, NAMESPACE
from tests.e2e.objects import pod
from tests.e2e.processes import free_ports
from tests.e2e.proxy import Proxy
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forewarn.webhook.admission.review import Grant
    from forewarn.webhook.x509 import Authority
    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

COUNTED = {
    "PriorityClass": ["PriorityClass"],
    "Node": ["Node"],
    "Pod": ["Pod"],
    "PodDisruptionBudget": ["PodDisruptionBudget"],
    "workload": ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "CronJob", "Job", "ReplicationController"],
}
"""Label of forewarn_cache_objects -> kinds."""
OPEN = Path(__file__).with_name("open.yaml")
QUICK = ("--drain", "0", "--config", str(OPEN))
TRUSTING = ssl.create_default_context()
"""For questions past the API server, which is the one that checks certificates."""
TRUSTING.check_hostname = False
TRUSTING.verify_mode = ssl.CERT_NONE


class Replica:
    """One process of `forewarn webhook serve`."""

    def __init__(self, plane: ControlPlane, name: str, flags: list[str], kubeconfig: Path) -> None:
        self.plane, self.name, self.flags, self.kubeconfig = plane, name, flags, kubeconfig
        self.port, self.health_port = free_ports(2)
        self.errors: int | None = None
        """Where its stderr goes, if not to its log."""

    def start(self, patience: float = 60) -> None:
        """Start it and wait until it is ready."""
        self.launch()
        self.plane.processes.wait_for(self.name, self.ready, patience)

    def launch(self) -> None:
        """Start it."""
        command = [sys.executable, "-m", "forewarn", "webhook", "serve"]
        ports = ["--port", str(self.port), "--health-port", str(self.health_port)]
        environment = {
            "PYTHONUNBUFFERED": "1",
            "KUBECONFIG": str(self.kubeconfig),
            "FOREWARN_NAMESPACE": NAMESPACE,
            "FOREWARN_IDENTITY": self.name,
        }
        self.plane.processes.start(self.name, [*command, *ports, *self.flags], environment, self.errors)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it; returns its exit status."""
        return self.plane.processes.stop(self.name, how)

    def ready(self) -> bool:
        """Whether /readyz says so."""
        return self.health("/readyz")[0] == 200

    def health(self, path: str) -> tuple[int, str]:
        """Ask its plain port; status 0 where nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.health_port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def accuracy(self) -> Obj:
        """What `forewarn webhook accuracy` prints."""
        return read_table(self.health_port)

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over those of its labels that are not given."""
        lines = self.health("/metrics")[1].splitlines()
        lines = [line for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(text in line for text in wanted))

    def resident(self) -> int:
        """Bytes of memory it holds."""
        return resident(self.plane, self.name)


class CaInjector:
    """One process of `forewarn webhook ca-injector`."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self.plane, self.name = plane, name
        (self.health_port,) = free_ports(1)

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "forewarn.policies.cli.main",
            "webhook",
            "ca-injector",
            "--health-port",
            str(self.health_port),
        ]
        environment = {"KUBECONFIG": str(self.plane.kubeconfig("ca-injector")), "FOREWARN_IDENTITY": self.name}
        self.plane.processes.start(self.name, command, environment)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it; returns its exit status."""
        return self.plane.processes.stop(self.name, how)

    def resident(self) -> int:
        """Bytes of memory it holds."""
        return resident(self.plane, self.name)


class Webhook:
    """Replicas behind one address, the CA injector, and their registration."""

    def __init__(
        self, plane: ControlPlane, installed: Installation, count: int = 1, flags: tuple[str, ...] = QUICK
    ) -> None:
        self.plane, self.installed = plane, installed
        self.connected = True
        self.authority: Authority | None = None
        self.webhooks: list[Obj] = []
        self.told: Mapping[str, Grant] = {}
        """The tokens in the configurations; empty where API servers are told none."""
        self._failed_open: float | None = None
        self.api_ports = [plane.port]
        self.to_api = Proxy(lambda: self.api_ports if self.connected else [])
        kubeconfig = plane.kubeconfig("forewarn", self.to_api.port)
        group = f"forewarn-{time.monotonic_ns()}"
        self.replicas = [Replica(plane, f"{group}-{i}", list(flags), kubeconfig) for i in range(count)]
        self.in_service = [*self.replicas]
        self.injector = CaInjector(plane, f"{group}-ca-injector")
        self.issued = "--tls-cert" not in flags
        self.proxy = Proxy(lambda: [replica.port for replica in self.in_service])

    def start(self, patience: float = 60) -> None:
        if self.issued:
            self.injector.start()
        for replica in self.replicas:
            replica.start(patience)

    def catch_up(self, api: Api, patience: float = 10) -> None:
        """Wait until every replica knows of as many objects as there are."""
        counts = {kind: float(sum(len(api.list(name)) for name in names)) for kind, names in COUNTED.items()}
        for replica in self.replicas:
            wait_until(partial(_knows, replica, counts), patience, f"{replica.name} knows of {counts}")

    def cut_off(self) -> None:
        """Break its connections to the API server; no new ones come about until `let_through`."""
        self.connected = False
        self.to_api.cut()

    def let_through(self) -> None:
        """It can reach the API server again."""
        self.connected = True

    def follow(self, *ports: int) -> None:
        """Let it reach these API servers instead, in turn, as by the Service `kubernetes`."""
        self.api_ports = [*ports]
        self.to_api.cut()

    def review(self, obj: Obj, path: str = "/validate", user: Obj | None = None, token: str | None = None) -> Obj:
        """Ask the first replica about the creation of an object, as the API server would, but for the token."""
        group, resource, _ = PATHS[obj["kind"]]
        version = group.removeprefix("apis/").removeprefix("api/")
        group, _, version = version.rpartition("/")
        request = {
            "uid": "e2e",
            "kind": {"group": group, "version": version, "kind": obj["kind"]},
            "resource": {"group": group, "version": version, "resource": resource},
            "name": obj["metadata"]["name"],
            "namespace": obj["metadata"].get("namespace", ""),
            "operation": "CREATE",
            "userInfo": user or {"username": "alice"},
            "object": obj,
            "dryRun": True,
        }
        if token is None:
            token = next(iter(self.tokens(group, resource, path)), "")
        path = f"{path}/{token}" if token else path
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        connection = http.client.HTTPSConnection("127.0.0.1", self.replicas[0].port, context=TRUSTING, timeout=30)
        with closing(connection):
            connection.request("POST", f"{path}?timeout=5s", body, {"Content-Type": "application/json"})
            response: Obj = json.loads(connection.getresponse().read())["response"]
        return response

    def take_out(self, replica: Replica) -> None:
        """What readiness does: no new connections go to it. It takes Kubernetes a moment, as it does here."""
        self.in_service.remove(replica)

    def put_back(self, replica: Replica) -> None:
        """It is ready again."""
        self.in_service.append(replica)

    def tokens(self, group: str, resource: str, path: str = "/validate") -> list[str]:
        """The tokens of webhooks on this path that are asked about a resource, the secret ones first."""
        paths = {webhook["clientConfig"]["service"].get("path", "") for webhook in self.webhooks}
        found = [token for token, grant in self.told.items() if grant.covers(group, resource, "")]
        found = [token for token in found if f"{path}/{token}" in paths]
        return sorted(found, key=lambda token: self.told[token].is_shown)

    def begin(self, api: Api, failure_policy: str = "", bundle: bytes = b"", *, strict: bool = False) -> None:
        """Register, start, and wait until the API server asks. `bundle`: where forewarn does not write it itself.

        `strict`: `end` fails if the API server has admitted anything because a call failed.
        """
        self.installed.register(api, self.proxy.port, failure_policy, bundle)
        self.start()
        self.wait_until_asked(api)
        self.webhooks = [hook for kind in CONFIGURATIONS for hook in api.get(kind, "forewarn")["webhooks"]]
        self.told = grants_of(self.webhooks)
        self._failed_open = failed_open(api) if strict else None

    def end(self, api: Api) -> None:
        """The opposite."""
        self.installed.unregister(api)
        before, failed = self._failed_open, 0.0
        if before is not None:
            now = failed_open(api)
            failed = now - before if now >= before else now  # an API server that restarts counts from 0
        self.close()
        assert not failed, f"{failed} calls of the webhook have failed, and failurePolicy Ignore admitted the objects"

    def bundle(self, api: Api) -> bytes:
        """The CAs that the API server was told of."""
        configuration = api.get("ValidatingWebhookConfiguration", "forewarn")
        bundles = {webhook["clientConfig"].get("caBundle", "") for webhook in configuration["webhooks"]}
        assert len(bundles) == 1
        return b64decode(bundles.pop())

    def wait_until_asked(self, api: Api, patience: float = 20) -> None:
        """A change of the configurations takes the API server a moment."""
        probe = pod("probe")
        counter = "forewarn_admission_requests_total"

        def asked() -> bool:
            before = sum(replica.metric(counter) for replica in self.replicas)
            with suppress(Refused):
                api.create(probe, dryRun="All")
            return sum(replica.metric(counter) for replica in self.replicas) >= before + 2

        wait_until(asked, patience, "the API server asks the webhook")

    def close(self) -> None:
        """Stop the replicas and what is in front of them."""
        for replica in self.replicas:
            if self.plane.processes.runs(replica.name):
                replica.stop()
        if self.plane.processes.runs(self.injector.name):
            self.injector.stop()
        self.proxy.close()
        self.to_api.close()


def resident(plane: ControlPlane, name: str, field: str = "VmRSS") -> int:
    """Bytes of memory that a process holds; with VmHWM the most that it has held."""
    status = Path(f"/proc/{plane.processes.pid(name)}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def _knows(replica: Replica, counts: dict[str, float]) -> bool:
    return all(replica.metric("forewarn_cache_objects", kind=kind) == count for kind, count in counts.items())


def failed_open(api: Api) -> float:
    """How many calls of webhooks have failed, so that failurePolicy Ignore admitted the object."""
    name = "apiserver_admission_webhook_fail_open_count"
    lines = str(api.ask("GET", "metrics").body["message"]).splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name}{{"))
