"""etcd, kube-apiserver and kube-scheduler on the loopback interface, with certificates and tokens of their own.

There is no kubelet: tests play it. Controllers run where a test starts them, else tests play them too.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import socket
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass, field
from signal import SIGKILL
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.e2e.api import Api
from tests.e2e.build import POLICIES_ARE_STABLE
from tests.e2e.processes import Processes, free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.e2e.api import Obj

# ServiceAccount wants a controller that makes accounts; StorageObjectInUseProtection one that takes finalizers away.
WITHOUT = "ServiceAccount,StorageObjectInUseProtection"
BETA_POLICIES = (
    "--feature-gates=MutatingAdmissionPolicy=true",
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
)
USERS = {
    "admin": ("admin", "system:masters"),
    "scheduler": ("system:kube-scheduler", "system:authenticated"),
    "forewarn": (
        "system:serviceaccount:forewarn:forewarn",
        "system:serviceaccounts,system:serviceaccounts:forewarn",
    ),
    "ca-injector": (
        "system:serviceaccount:forewarn:forewarn-ca-injector",
        "system:serviceaccounts,system:serviceaccounts:forewarn",
    ),
    "audit-cron-job": (
        "system:serviceaccount:forewarn:forewarn-audit-cron-job",
        "system:serviceaccounts,system:serviceaccounts:forewarn",
    ),
    "developer": ("alice", "developers"),
}
"""Token's owner -> user name, groups."""


class Told(NamedTuple):
    """What a kubectl command came to."""

    status: int
    out: str
    err: str


@dataclass
class ControlPlane:
    """A running control plane; `boot` makes one."""

    bin: Path
    home: Path
    processes: Processes
    port: int = 0
    etcd_port: int = 0
    tokens: dict[str, str] = field(default_factory=dict)

    def api(self, user: str = "admin", port: int | None = None) -> Api:
        """A client of the API server; of another one by its port."""
        return Api(port or self.port, self.ca, self.tokens[user])

    @property
    def ca(self) -> bytes:
        return (self.home / "certs" / "apiserver.crt").read_bytes()

    def kubeconfig(self, user: str = "admin", port: int | None = None) -> Path:
        """A kubeconfig of this user; of another port where a proxy is between."""
        path = self.home / f"{user}-{port or self.port}.kubeconfig"
        if path.exists():
            return path
        cluster = {
            "server": f"https://127.0.0.1:{port or self.port}",
            "certificate-authority": str(self.home / "certs" / "apiserver.crt"),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
        }
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path

    def kubectl(self, *arguments: str, stdin: str = "", user: str = "admin", port: int | None = None) -> Told:
        """Run kubectl as people do; a terminal is not there, so nothing is coloured."""
        command = [str(self.bin / "kubectl"), "--kubeconfig", str(self.kubeconfig(user, port)), *arguments]
        cache = {**os.environ, "KUBECACHEDIR": str(self.home / "kubectl"), "HOME": str(self.home)}
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=cache, timeout=120)
        return Told(done.returncode, done.stdout, done.stderr)

    def audited(self, resource: str, name: str, key: str, log: str = "audit.log") -> list[str]:
        """An annotation of the requests about an object in an API server's audit log."""
        events = map(json.loads, (self.home / log).read_text().splitlines())
        about = [event for event in events if event.get("objectRef", {}).get("resource") == resource]
        found = [event.get("annotations", {}) for event in about if event["objectRef"].get("name") == name]
        return [annotations[key] for annotations in found if key in annotations]

    def start_etcd(self) -> None:
        client = f"http://127.0.0.1:{self.etcd_port}"
        peer = f"http://127.0.0.1:{free_ports(1)[0]}"
        self.processes.start(
            "etcd",
            [
                str(self.bin / "etcd"),
                f"--data-dir={self.home / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
        )
        self.processes.wait_for("etcd", lambda: listens(self.etcd_port))

    def start_api_server(self, name: str = "kube-apiserver", port: int | None = None, *flags: str) -> None:
        """Start kube-apiserver and wait until it is ready; another one on the same etcd by its name and port."""
        key, port = self.home / "accounts.key", port or self.port
        self.processes.start(
            name,
            [
                str(self.bin / "kube-apiserver"),
                f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
                f"--secure-port={port}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                f"--cert-dir={self.home / 'certs'}",
                f"--token-auth-file={self.home / 'tokens.csv'}",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://localhost",
                f"--service-account-key-file={key}",
                f"--service-account-signing-key-file={key}",
                "--service-cluster-ip-range=10.0.0.0/16",
                f"--disable-admission-plugins={WITHOUT}",
                "--allow-privileged=true",
                "--shutdown-delay-duration=0s",
                f"--audit-policy-file={self.home / 'audit.yaml'}",
                f"--audit-log-path={self.home / 'audit.log'}",
                *([] if POLICIES_ARE_STABLE else BETA_POLICIES),
                *flags,
            ],
        )
        certificate = self.home / "certs" / "apiserver.crt"
        self.processes.wait_for(name, lambda: certificate.exists() and listens(port))
        with closing(self.api(port=port)) as api:
            self.processes.wait_for(name, api.ready)

    def compact(self) -> int:
        """Let etcd forget all but the newest revision of everything; returns that revision."""
        revision = int(self._etcd("kv/range", {"key": "AA=="})["header"]["revision"])
        self._etcd("kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def _etcd(self, method: str, body: Obj) -> Obj:
        with closing(http.client.HTTPConnection("127.0.0.1", self.etcd_port, timeout=30)) as connection:
            connection.request("POST", f"/v3/{method}", json.dumps(body))
            response = connection.getresponse()
            answer: Obj = json.loads(response.read())
        assert response.status == 200, answer
        return answer

    def start_scheduler(self, program: Path | None = None, *flags: str) -> None:
        """Start kube-scheduler with its default profile. `program`: another one than that of the control plane."""
        port, kubeconfig = free_ports(1)[0], str(self.kubeconfig("scheduler"))
        self.processes.start(
            "kube-scheduler",
            [
                str(program or self.bin / "kube-scheduler"),
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--authentication-skip-lookup=true",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={self.home / 'scheduler'}",
                "--kube-api-qps=1000",
                "--kube-api-burst=1000",
                "-v=2",
                *flags,
            ],
        )
        self.processes.wait_for("kube-scheduler", lambda: listens(port))

    def scheduler_config(self, *profiles: Obj) -> Path:
        """A KubeSchedulerConfiguration of these profiles; kube-scheduler takes its connection from it too."""
        path = self.home / "scheduler.yaml"
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.kubeconfig("scheduler")), "qps": 1000, "burst": 1000},
            "leaderElection": {"leaderElect": False},
            "profiles": [*profiles],
        }
        path.write_text(json.dumps(config))
        return path

    def start_controllers(self, *names: str, flags: Sequence[str] = ()) -> None:
        """Start kube-controller-manager with these controllers alone, and with these flags."""
        port, kubeconfig = free_ports(1)[0], str(self.kubeconfig("admin"))
        self.processes.start(
            "kube-controller-manager",
            [
                str(self.bin / "kube-controller-manager"),
                f"--controllers={','.join(names)}",
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--authentication-skip-lookup=true",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={self.home / 'controllers'}",
                "-v=2",
                *flags,
            ],
        )
        self.processes.wait_for("kube-controller-manager", lambda: listens(port))

    def restart_scheduler(self) -> None:
        """For who comes after an outage of the API server: its watches would come back one by one, some after 20 s."""
        self.processes.stop("kube-scheduler", SIGKILL)
        self.start_scheduler()


AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Request
  verbs: [create, update, patch, delete]
  users: ["system:kube-scheduler"]
  resources: [{group: "", resources: [pods, pods/binding, pods/status]}]
- {level: Metadata, verbs: [create, update, patch, delete]}
- {level: None}
"""


def boot(binaries: Path, home: Path, *flags: str, has_scheduler: bool = True) -> ControlPlane:
    """Start all three, kube-apiserver with these flags too; fails with the log of the one that does not come up."""
    started = time.monotonic()
    home.mkdir(parents=True, exist_ok=True)
    port, etcd_port = free_ports(2)
    plane = ControlPlane(binaries, home, Processes(home), port, etcd_port)
    plane.tokens = {user: secrets.token_hex(16) for user in USERS}
    lines = [f'{plane.tokens[user]},{name},{user}-uid,"{groups}"' for user, (name, groups) in USERS.items()]
    (home / "tokens.csv").write_text("\n".join(lines) + "\n")
    (home / "audit.yaml").write_text(AUDIT_POLICY)
    key = ec.generate_private_key(ec.SECP256R1())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    (home / "accounts.key").write_bytes(key.private_bytes(*form))
    try:
        plane.start_etcd()
        plane.start_api_server("kube-apiserver", None, *flags)
        if has_scheduler:
            plane.start_scheduler()
    except BaseException:
        plane.processes.stop_all()
        raise
    print(f"\ne2e: etcd, kube-apiserver and kube-scheduler are up after {time.monotonic() - started:.1f} s")
    return plane


def listens(port: int) -> bool:
    """Whether somebody takes connections on this port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def answers(url: str) -> bool:
    """Whether a GET has status 200."""
    try:
        with urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False
