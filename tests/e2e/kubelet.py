"""The kubelets and kube-proxies of `make cluster`, played: no container runs.

A pod whose image is called forewarn is a process of this checkout with the arguments, variables, mounted ConfigMaps and
Secrets and the service account that its specification gives it. Any other pod is said to run, and does nothing.
"""

from __future__ import annotations

import base64
import http.client
import json
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tests.e2e.api import Refused, identity
from tests.e2e.processes import free_ports

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane

PROGRAM = "forewarn"
MOUNTED = ("configMap", "secret")
TICK = 0.5
A_DAY = 86400


class Running:
    """The process that stands for a pod."""

    def __init__(self, name: str, ports: dict[int, int], files: dict[str, Path]) -> None:
        self.name, self.ports, self.files = name, ports, files
        self.health = 0

    def ready(self) -> bool:
        """Whether its /readyz says so."""
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.health, timeout=2)
            try:
                connection.request("GET", "/readyz")
                return connection.getresponse().status == 200
            finally:
                connection.close()
        return False


def healthy(version: str) -> Obj:
    """What a kubelet of this version tells of its node, as much as `kubectl get nodes` shows."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "played: no container runs"}
    told = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion")
    info = dict.fromkeys(told, "") | {"kubeProxyVersion": version, "operatingSystem": "linux", "architecture": "amd64"}
    return {
        "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
        "nodeInfo": {**info, "kubeletVersion": version},
    }


class Kubelets:
    """All nodes' at once. One thread calls `turn`; `port` may be asked from any."""

    def __init__(self, plane: ControlPlane, api: Api) -> None:
        self._plane, self._api = plane, api
        self._running: dict[str, Running] = {}
        self._addresses: dict[str, str] = {}
        self._pods: list[Obj] = []
        self._services: list[Obj] = []
        self._made = 0

    def turn(self) -> None:
        """Look once at what is on the nodes, and do what kubelets would."""
        self._services = self._api.list("Service")
        pods = [pod for pod in self._api.list("Pod") if pod["spec"].get("nodeName")]
        self._pods = pods
        there = {pod["metadata"]["uid"] for pod in pods}
        for uid in [uid for uid in self._running if uid not in there]:
            self._end(uid)
        for pod in pods:
            with suppress(Refused):  # changed or gone since: the next turn sees it
                self._look_after(pod)

    def port(self, host: str, port: int) -> int | None:
        """The port of this machine behind an address of the cluster; one of this machine stands for itself."""
        if host in ("127.0.0.1", "localhost", "::1"):
            return port
        for service in self._services:
            if service["spec"].get("clusterIP") == host:
                return self._behind(service, port)
        uid = next((uid for uid, address in self._addresses.items() if address == host), "")
        return self._running[uid].ports.get(port) if uid in self._running else None

    def _behind(self, service: Obj, port: int) -> int | None:
        """The port of a ready pod of a Service, as kube-proxy would choose one."""
        (target, *_) = [entry["targetPort"] for entry in service["spec"]["ports"] if entry["port"] == port] or [None]
        selector = (service["spec"].get("selector") or {}).items()
        ready = [
            pod
            for pod in self._pods
            if pod["metadata"]["namespace"] == service["metadata"]["namespace"]
            and selector <= pod["metadata"].get("labels", {}).items()
            and any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", ()))
            and pod["metadata"]["uid"] in self._running
        ]
        if not ready or target is None:
            return None
        pod = ready[int(time.monotonic() * 1000) % len(ready)]
        named = {p.get("name"): p["containerPort"] for c in pod["spec"]["containers"] for p in c.get("ports", ())}
        return self._running[pod["metadata"]["uid"]].ports.get(named.get(target, target))

    def _look_after(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            if uid in self._running:
                self._end(uid)
            gone = identity("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
            self._api.delete(gone, gracePeriodSeconds="0")
            return
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return
        ours = pod["spec"]["containers"][0]["image"].rpartition("/")[2].partition(":")[0] == PROGRAM
        if ours and uid not in self._running:
            self._start(pod)
        if ours:
            self._mount(pod, self._running[uid].files)
        self._tell(pod, not ours or self._running[uid].ready())

    def _tell(self, pod: Obj, ready: bool) -> None:
        """Write the pod's status, where it changes."""
        status = pod.get("status", {})
        conditions = {condition["type"]: condition["status"] for condition in status.get("conditions", ())}
        if status.get("phase") == "Running" and conditions.get("Ready") == str(ready):
            return
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        kinds = {"Initialized": True, "ContainersReady": ready, "Ready": ready, "PodScheduled": True}
        address = self._address(pod["metadata"]["uid"])
        told = {
            "phase": "Running",
            "startTime": status.get("startTime") or now,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [
                {"type": kind, "status": str(value), "lastTransitionTime": now} for kind, value in kinds.items()
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": ready,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                }
                for container in pod["spec"]["containers"]
            ],
        }
        pod["status"] = self._api.patch(pod, {"status": told}, "status")["status"]  # so that `port` leads there at once

    def _address(self, uid: str) -> str:
        if uid not in self._addresses:
            self._made += 1
            self._addresses[uid] = f"10.244.{self._made // 250}.{self._made % 250 + 1}"
        return self._addresses[uid]

    def _start(self, pod: Obj) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        (container,) = spec["containers"]
        home = self._plane.home / "pods" / metadata["name"]
        home.mkdir(parents=True, exist_ok=True)
        mounted = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", ())}
        files = {
            mounted[volume["name"]]: home / volume["name"]
            for volume in spec.get("volumes", ())
            if volume["name"] in mounted and any(kind in volume for kind in MOUNTED)
        }
        self._mount(pod, files)
        ports = [port["containerPort"] for port in container.get("ports", ())]
        running = Running(f"pod-{metadata['name']}", dict(zip(ports, free_ports(len(ports)), strict=True)), files)
        named = {port.get("name"): running.ports[port["containerPort"]] for port in container.get("ports", ())}
        running.health = named.get("health", 0)
        environment = {env["name"]: self._value(env, pod, files) for env in container.get("env", ())}
        environment |= {"FOREWARN_HOST": "127.0.0.1", "KUBECONFIG": str(self._account(pod, home))}
        flags = ["--health-port", str(running.health)]
        if "webhook" in named:
            flags += ["--port", str(named["webhook"])]
        command = [sys.executable, "-m", "forewarn", *container.get("args", ()), *flags]
        self._plane.processes.start(running.name, command, environment)
        self._running[metadata["uid"]] = running

    def _end(self, uid: str) -> None:
        running = self._running.pop(uid)
        self._addresses.pop(uid, None)
        self._plane.processes.stop(running.name)

    def _value(self, env: Obj, pod: Obj, files: dict[str, Path]) -> str:
        field = env.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        if field:
            return str(pod["metadata"][field.rpartition(".")[2]])
        value = str(env.get("value", ""))
        for path, directory in files.items():
            if value.startswith(f"{path}/"):
                return str(directory) + value.removeprefix(path)
        return value

    def _mount(self, pod: Obj, files: dict[str, Path]) -> None:
        """Write mounted ConfigMaps and Secrets, again where they have changed."""
        by_directory = {path.name: path for path in files.values()}
        for volume in pod["spec"].get("volumes", ()):
            directory = by_directory.get(volume["name"])
            kind = next((kind for kind in MOUNTED if kind in volume), "")
            if directory is None or not kind:
                continue
            name = volume[kind].get("name") or volume[kind].get("secretName")
            resource = "configmaps" if kind == "configMap" else "secrets"
            found = self._api.do("GET", f"api/v1/namespaces/{pod['metadata']['namespace']}/{resource}/{name}")
            directory.mkdir(exist_ok=True)
            for key, text in (found.get("data") or {}).items():
                data = base64.b64decode(text) if kind == "secret" else text.encode()
                if not (directory / key).exists() or (directory / key).read_bytes() != data:
                    (directory / key).write_bytes(data)

    def _account(self, pod: Obj, home: Path) -> Path:
        """A kubeconfig with a token of the pod's service account."""
        namespace, account = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": A_DAY},
        }
        path = f"api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        token = self._api.do("POST", path, request)["status"]["token"]
        config = json.loads(self._plane.kubeconfig().read_text())
        config["users"][0]["user"] = {"token": token}
        written = home / "kubeconfig"
        written.write_text(json.dumps(config))
        written.chmod(0o600)
        return written
