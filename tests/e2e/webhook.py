"""forewarn as a process, or several behind one address, registered with the API server."""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import sys
import time
from base64 import b64encode
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.api import PATHS, identity
from tests.e2e.certificates import Authority
from tests.e2e.processes import free_ports
from tests.e2e.proxy import Proxy
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane

WORKLOADS = [
    {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments", "statefulsets", "daemonsets"]},
    {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs", "cronjobs"]},
    {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale", "statefulsets/scale"]},
]
COUNTED = {
    "PriorityClass": ["PriorityClass"],
    "Node": ["Node"],
    "Pod": ["Pod"],
    "PodDisruptionBudget": ["PodDisruptionBudget"],
    "workload": ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"],
}
"""Label of forewarn_cache_objects -> kinds."""
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE", "UPDATE"]}
CLASSES = {
    "apiGroups": ["scheduling.k8s.io"],
    "apiVersions": ["v1"],
    "resources": ["priorityclasses"],
    "operations": ["CREATE", "UPDATE", "DELETE"],
}


class Replica:
    """One process of `forewarn serve`."""

    def __init__(self, plane: ControlPlane, name: str, flags: list[str], kubeconfig: Path) -> None:
        self.plane, self.name, self.flags, self.kubeconfig = plane, name, flags, kubeconfig
        self.port, self.health_port = free_ports(2)

    def start(self, patience: float = 60) -> None:
        """Start it and wait until it is ready."""
        command = [sys.executable, "-m", "policies.cli", "serve"]
        ports = ["--port", str(self.port), "--health-port", str(self.health_port)]
        environment = {"PYTHONUNBUFFERED": "1", "KUBECONFIG": str(self.kubeconfig)}
        self.plane.processes.start(self.name, [*command, *ports, *self.flags], environment)
        self.plane.processes.wait_for(self.name, self.ready, patience)

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

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric over those of its labels that are not given."""
        lines = self.health("/metrics")[1].splitlines()
        lines = [line for line in lines if line.startswith((f"{name} ", f"{name}{{"))]
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(text in line for text in wanted))

    def resident(self) -> int:
        """Bytes of memory it holds."""
        status = Path(f"/proc/{self.plane.processes.pid(self.name)}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024


class Webhook:
    """Replicas behind one address, and their registration."""

    def __init__(self, plane: ControlPlane, count: int = 1, flags: tuple[str, ...] = ("--drain", "0")) -> None:
        self.plane = plane
        home = plane.home / f"webhook-{time.monotonic_ns()}"
        home.mkdir()
        self.home, self.authority = home, Authority()
        self.rotate()
        self.connected = True
        self.to_api = Proxy(lambda: [plane.port] if self.connected else [])
        kubeconfig = plane.kubeconfig("forewarn", self.to_api.port)
        own = ["--tls-cert", str(home / "tls.crt"), "--tls-key", str(home / "tls.key")]
        self.replicas = [Replica(plane, f"{home.name}-{i}", [*own, *flags], kubeconfig) for i in range(count)]
        self.in_service = [*self.replicas]
        self.proxy = Proxy(lambda: [replica.port for replica in self.in_service])

    def rotate(self) -> None:
        """Give it a new certificate by the same authority."""
        self.authority.issue(self.home / "tls.crt", self.home / "tls.key")

    def start(self, patience: float = 60) -> None:
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

    def review(self, obj: Obj) -> Obj:
        """Ask /validate of the first replica about the creation of an object, as the API server would."""
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
            "userInfo": {"username": "alice"},
            "object": obj,
            "dryRun": True,
        }
        body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        connection = http.client.HTTPSConnection("127.0.0.1", self.replicas[0].port, context=context, timeout=30)
        with closing(connection):
            connection.request("POST", "/validate?timeout=5s", body, {"Content-Type": "application/json"})
            response: Obj = json.loads(connection.getresponse().read())["response"]
        return response

    def take_out(self, replica: Replica) -> None:
        """What readiness does: no new connections go to it. It takes Kubernetes a moment, as it does here."""
        self.in_service.remove(replica)

    def put_back(self, replica: Replica) -> None:
        """It is ready again."""
        self.in_service.append(replica)

    def register(self, api: Api, failure_policy: str = "Fail") -> None:
        """Tell the API server about it, and wait until it is asked."""
        for obj in self._configurations(failure_policy):
            api.create(obj)
        wait_until_asked(api, self)

    def unregister(self, api: Api) -> None:
        for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
            api.delete(identity(kind, "forewarn"))

    def close(self) -> None:
        """Stop the replicas and what is in front of them."""
        for replica in self.replicas:
            if self.plane.processes.runs(replica.name):
                replica.stop()
        self.proxy.close()
        self.to_api.close()

    def _configurations(self, failure_policy: str) -> list[Obj]:
        workloads = [{**rule, "operations": ["CREATE", "UPDATE"]} for rule in WORKLOADS]
        quotas = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces", "resourcequotas"]}
        rules = [CLASSES, PODS, {**quotas, "operations": ["CREATE", "UPDATE"]}, *workloads]
        validating = {**identity("ValidatingWebhookConfiguration", "forewarn")}
        validating["webhooks"] = [self._webhook("validate", rules, failure_policy)]
        mutating = {**identity("MutatingWebhookConfiguration", "forewarn")}
        pods = {**PODS, "operations": ["CREATE"]}
        mutating["webhooks"] = [{**self._webhook("mutate", [pods], failure_policy), "reinvocationPolicy": "IfNeeded"}]
        return [mutating, validating]

    def _webhook(self, path: str, rules: list[Obj], failure_policy: str) -> Obj:
        url, bundle = f"https://127.0.0.1:{self.proxy.port}/{path}", b64encode(self.authority.pem).decode()
        return {
            "name": f"{path}.forewarn.dev",
            "clientConfig": {"url": url, "caBundle": bundle},
            "rules": rules,
            "failurePolicy": failure_policy,
            "timeoutSeconds": 5,
            "sideEffects": "NoneOnDryRun",
            "admissionReviewVersions": ["v1"],
        }


def _knows(replica: Replica, counts: dict[str, float]) -> bool:
    return all(replica.metric("forewarn_cache_objects", kind=kind) == count for kind, count in counts.items())


def wait_until_asked(api: Api, webhook: Webhook, patience: float = 10) -> None:
    """Wait until the API server asks both webhooks: a change of their configuration takes it a moment."""
    counter = "forewarn_admission_requests_total"
    probe = {**identity("Pod", "probe"), "spec": {"containers": [{"name": "c", "image": "img"}]}}
    deadline = time.monotonic() + patience
    while True:
        before = sum(replica.metric(counter) for replica in webhook.replicas)
        api.create(probe, dryRun="All")
        if sum(replica.metric(counter) for replica in webhook.replicas) >= before + 2:
            return
        assert time.monotonic() < deadline, "the API server does not ask the webhook"
        time.sleep(0.05)
