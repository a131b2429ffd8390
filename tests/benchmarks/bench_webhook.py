"""How many reviews a second the webhook answers, and how long they take: `python -m tests.benchmarks.bench_webhook`.

32 connections over TLS 1.3 post one review after the other, for some seconds each kind, to `forewarn webhook serve` on
a cluster of 5,000 nodes and 150,000 pods, and to the pod-security-admission webhook of Kubernetes itself, which is Go
and reads no cluster: the cost of a review for which next to nothing is done. The client is wrk (`apt install wrk`), on
the same cores. Every decision is logged to a file.

Reviews differ from one another as they do on a cluster: each has a uid of its own, each pod a name. `--distinct` lets
each object differ in its labels too, so that no answer holds for the next one.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import ssl
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import create_connection
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from forewarn.webhook.x509 import self_signed
from tests.benchmarks.clusters import Size, objects
from tests.webhook.builders import review
from tests.webhook.running import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAMESPACE: Final = "team-1"
SCRIPT: Final = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local file = io.open("%s", "rb")
local parts = {}
for part in (file:read("*a") .. "@"):gmatch("(.-)@") do table.insert(parts, part) end
file:close()
local number = 0
request = function()
  number = number + 1
  return wrk.format(nil, nil, nil, table.concat(parts, string.format("%%09d", number)))
end
"""
"""Every @ in the review becomes a number of nine digits, another one each time."""


class Kind(NamedTuple):
    """A row: what is posted, and the requests a second that are the goal."""

    name: str
    body: bytes
    goal: int = 0


class Result(NamedTuple):
    """Requests a second; the server's processor time for one, in microseconds; latencies as wrk has them."""

    requests: float
    cpu: float
    p50: str
    p99: str
    errors: int


class Server(NamedTuple):
    """A webhook that runs: where it is posted to, and its process."""

    url: str
    pid: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="bench_webhook")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--cluster", type=Path, help="file with another cluster")
    parser.add_argument("--namespace", default=NAMESPACE, help=f"namespace of the objects (default: {NAMESPACE})")
    parser.add_argument("--distinct", action="store_true", help="no two objects alike")
    parser.add_argument("--without-go", action="store_true", help="leave out the webhook in Go, which takes a build")
    options = parser.parse_args(arguments)
    if shutil.which("wrk") is None:
        print("bench_webhook: wrk is missing; `apt install wrk`", file=sys.stderr)
        return 3
    load = options.connections, options.seconds
    with TemporaryDirectory() as name:
        directory = Path(name)
        peer: dict[str, Result] = {}
        if not options.without_go:
            with _pod_security(directory) as server:
                peer = {kind.name: _measured(server, kind, directory, *load) for kind in KINDS if kind.name in COMPARED}
        with _forewarn(directory, options.nodes, options.cluster) as server:
            before = _resident(server.pid)
            kinds = [_within(options.namespace, _distinct(kind) if options.distinct else kind) for kind in KINDS]
            results = {kind.name: _measured(server, kind, directory, *load) for kind in kinds}
            after = _resident(server.pid)
    _show(results, peer, options)
    print(f"resident: {before:.0f} MiB before, {after:.0f} MiB after")
    return 1 if any(result.errors for result in results.values()) else 0


def _show(results: dict[str, Result], peer: dict[str, Result], options: argparse.Namespace) -> None:
    cluster = options.cluster or f"{options.nodes} nodes"
    print(f"{options.connections} connections, {options.seconds} s each, {cluster}")
    heads = f"{'requests/s':>10} {'goal':>7} {'µs of CPU':>9} {'p50':>9} {'p99':>9} {'errors':>7} {'to Go':>6}"
    print(f"{'':26} {'bytes':>8} {heads}")
    for kind in KINDS:
        told, beside = results[kind.name], peer.get(kind.name)
        ratio = f"{told.requests / beside.requests:6.2f}" if beside else ""
        print(f"{kind.name:26} {len(kind.body):8} {_row(told, str(kind.goal or ''))} {ratio:>6}")
    for name, told in peer.items():
        print(f"{'Go: ' + name:26} {'':8} {_row(told, '')}")


def _row(told: Result, goal: str) -> str:
    return f"{told.requests:10.0f} {goal:>7} {told.cpu:9.0f} {told.p50:>9} {told.p99:>9} {told.errors:7}"


def _measured(server: Server, kind: Kind, directory: Path, connections: int, seconds: int) -> Result:
    given, script = directory / "review", directory / "post.lua"
    given.write_bytes(kind.body)
    script.write_text(SCRIPT % given)
    _wrk(server.url, script, connections, 1)  # warm
    before = _cpu_seconds(server.pid)
    report = _wrk(server.url, script, connections, seconds)
    spent = _cpu_seconds(server.pid) - before
    count = int(_found(report, r"(\d+) requests in", "0"))
    errors = int(_found(report, r"Non-2xx or 3xx responses: (\d+)", "0"))
    errors += sum(
        map(int, re.findall(r"(?:connect|read|write|timeout) (\d+)", _found(report, r"Socket errors: (.*)", "")))
    )
    return Result(
        float(_found(report, r"Requests/sec:\s+([\d.]+)", "0")),
        spent / max(count, 1) * 1e6,
        _found(report, r"\n +50% +(\S+)"),
        _found(report, r"\n +99% +(\S+)"),
        errors,
    )


def _found(report: str, pattern: str, default: str = "?") -> str:
    match = re.search(pattern, report)
    return match[1] if match else default


def _wrk(url: str, script: Path, connections: int, seconds: int) -> str:
    load = ["-t", "1", "-c", str(connections), "-d", f"{seconds}s", "--latency", "-s", str(script)]
    command = ["wrk", *load, f"{url}?timeout=10s"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _cpu_seconds(pid: int) -> float:
    """Of the process and of those that it has waited for: the forked ones."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(fields[place]) for place in (11, 12, 13, 14)) / 100


def _resident(pid: int) -> float:
    return int(_found(Path(f"/proc/{pid}/status").read_text(), r"VmRSS:\s+(\d+) kB", "0")) / 1024


@contextmanager
def _forewarn(directory: Path, nodes: int, cluster: Path | None) -> Iterator[Server]:
    dump, config = directory / "cluster.json", directory / "forewarn.yaml"
    with dump.open("w") as file:
        file.write('{"apiVersion":"v1","kind":"List","items":[')
        file.writelines(f"{json.dumps(obj)},\n" for obj in ([] if cluster else objects(Size(nodes))))
        file.write(json.dumps(_priority_class("gold", 100_000)) + "]}")
    config.write_text("exemptions: [{reason: by the benchmark, namespaces: [exempt]}]\n")
    command = [sys.executable, "-m", "webhook", "--health-port", "0", "--port", "0"]
    command += ["--cluster", str(dump), "--config", str(config)]
    command += ["--cluster", str(cluster)] if cluster else []
    with (directory / "log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield Server(f"{address_of(process, directory / 'log')}/validate", process.pid)
        finally:
            process.terminate()


@contextmanager
def _pod_security(directory: Path) -> Iterator[Server]:
    """The webhook in Go, with an API server that knows one namespace."""
    from tests.e2e.build import POD_SECURITY, binaries

    program = binaries(POD_SECURITY) / "webhook"
    api = ThreadingHTTPServer(("127.0.0.1", 0), _Namespaces)
    Thread(target=api.serve_forever, daemon=True).start()
    kubeconfig, config = directory / "kubeconfig", directory / "podsecurity.yaml"
    kubeconfig.write_text(KUBECONFIG % api.server_port)
    config.write_text("apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n")
    chain, key, made = directory / "tls.crt", directory / "tls.key", self_signed(datetime.now(UTC))
    chain.write_bytes(made.chain)
    key.write_bytes(made.key)
    with _free_port() as port, (directory / "go.log").open("w") as log:
        command = [str(program), "--kubeconfig", str(kubeconfig), "--config", str(config)]
        command += ["--tls-cert-file", str(chain), "--tls-private-key-file", str(key)]
        process = subprocess.Popen([*command, "--secure-port", str(port), "--bind-address", "127.0.0.1"], stderr=log)
    try:
        _wait(port)
        yield Server(f"https://127.0.0.1:{port}/", process.pid)
    finally:
        process.terminate()
        process.wait()
        _Namespaces.over.set()
        api.shutdown()
        api.server_close()


@contextmanager
def _free_port() -> Iterator[int]:
    """A port that is free at this moment."""
    from socket import create_server

    with create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
    yield port


def _wait(port: int) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    until = monotonic() + 30
    while True:
        try:
            with context.wrap_socket(create_connection(("127.0.0.1", port), timeout=5)):
                return
        except OSError:
            if monotonic() > until:
                raise
            sleep(0.1)


KUBECONFIG: Final = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:%d"}}]
contexts: [{name: c, context: {cluster: c, user: ""}}]
current-context: c
"""


class _Namespaces(BaseHTTPRequestHandler):
    """Lists one namespace, and tells watches nothing."""

    over = Event()

    def do_GET(self) -> None:
        """Answer a list or a watch."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        labels = {"pod-security.kubernetes.io/enforce": "baseline"}
        kind = {"apiVersion": "v1", "kind": "Namespace"}
        found = {**kind, "metadata": {"name": NAMESPACE, "resourceVersion": "1", "labels": labels}}
        if "watch=" in self.path:
            done = {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}
            for event, obj in (("ADDED", found), ("BOOKMARK", {**kind, "metadata": done})):
                self.wfile.write(json.dumps({"type": event, "object": obj}).encode() + b"\n")
            self.wfile.flush()
            self.over.wait(600)
            return
        told = {"apiVersion": "v1", "kind": "NamespaceList", "metadata": {"resourceVersion": "1"}, "items": [found]}
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


def _priority_class(name: str, value: int) -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": value}


def _spec(cpu: str, env: int) -> dict[str, Any]:
    container = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}},
        "env": [{"name": f"VARIABLE_{number}", "value": "v" * 40} for number in range(env)],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True},
    }
    return {"priorityClassName": "gold", "containers": [container]}


def _pod(cpu: str = "100m", env: int = 40) -> dict[str, Any]:
    settled = {"priority": 100_000, "preemptionPolicy": "PreemptLowerPriority"}
    metadata = {
        "generateName": "web-5d89c7c6f-",
        "name": "web-5d89c7c6f-@",
        "namespace": NAMESPACE,
        "labels": {"app": "web"},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**_spec(cpu, env), **settled}}


def _deployment(cpu: str) -> dict[str, Any]:
    labels = {"app": "shop"}
    template = {"metadata": {"labels": labels}, "spec": _spec(cpu, 10)}
    metadata = {"name": "shop", "namespace": NAMESPACE}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def _secret(namespace: str = NAMESPACE) -> dict[str, Any]:
    metadata = {"name": "shop", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": "v" * 300}}


def _body(obj: dict[str, Any], **request: Any) -> bytes:
    given = {"uid": "705ab4f5-6393-11e8-b7cc-@", **request}
    return json.dumps(review(obj, **given), separators=(",", ":")).encode()


def _as_secret() -> bytes:
    """A kind that nobody judges."""
    kind = {"kind": {"group": "", "version": "v1", "kind": "Secret"}}
    resource = {"resource": {"group": "", "version": "v1", "resource": "secrets"}}
    return _body({**_secret(), "kind": "ConfigMap"}, **kind, **resource)


def _exempt() -> bytes:
    obj = _pod()
    obj["metadata"]["namespace"] = "exempt"
    return _body(obj)


KINDS: Final = (
    Kind("Secret", _as_secret(), 10_000),
    Kind("exempt pod", _exempt(), 10_000),
    Kind("Pod that fits", _body(_pod()), 5_000),
    Kind("Pod of 1 MB", _body(_pod(env=13_000))),
    Kind("Deployment with a warning", _body(_deployment("6")), 3_000),
    Kind("PriorityClass", _body(_priority_class("silver", 10_000))),
)
COMPARED: Final = ("Pod that fits", "Pod of 1 MB", "Secret")
"""What the webhook in Go is asked as well."""


def _distinct(kind: Kind) -> Kind:
    """The same with a label of its own in each object."""
    return kind._replace(body=kind.body.replace(b'"app":"web"', b'"app":"w@"').replace(b'"app":"shop"', b'"app":"s@"'))


def _within(namespace: str, kind: Kind) -> Kind:
    """The same in another namespace."""
    return kind._replace(body=kind.body.replace(f'"{NAMESPACE}"'.encode(), json.dumps(namespace).encode()))


if __name__ == "__main__":
    sys.exit(main())
