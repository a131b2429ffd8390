"""What predictions cost the webhook: 20 a second over 5,000 nodes, and what the requests beside them feel.

`python -m tests.benchmarks.bench_admission [--seconds N] [--rate N] [--dear N]`: a real server over TLS on a cluster of
150,000 pods, one client that asks for predictions at a fixed rate, one that asks for a class (rules alone) 50 times a
second. Then clients that post Deployments of 10 replicas spread over zones and nodes, each as soon as the last one was
answered, and beside them plain pods and classes, 50 a second of each: what ordinary deploys cost everybody else.
"""

from __future__ import annotations

import argparse
import base64
import json
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.benchmarks.bench_preemption import write
from tests.benchmarks.clusters import Size, preemptor
from tests.webhook.running import address_of

CLASSES_A_SECOND: Final = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=20, help="predictions a second")
    parser.add_argument("--dear", type=int, default=8, help="clients with spread Deployments")
    parser.add_argument("--nodes", type=int, default=5000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        dump, ca, log = (Path(directory) / name for name in ("cluster.json", "ca.pem", "log"))
        write(Size(options.nodes), dump)
        command = [sys.executable, "-m", "forewarn", "webhook", "serve", "--cluster", str(dump), "--port", "0"]
        command += ["--health-port", "0", "--write-ca", str(ca), "--drain", "0"]
        with log.open("w") as errors, subprocess.Popen(command, stderr=errors) as server:
            try:
                address = urlsplit(address_of(server, log))
                trust = ssl.create_default_context(cafile=str(ca))

                def connect() -> HTTPSConnection:
                    return HTTPSConnection("127.0.0.1", address.port, context=trust, timeout=30)

                _report(connect, options)
                _beside_dear_ones(connect, options, server.pid)
            finally:
                server.terminate()
    return 0


def _report(connect: Any, options: argparse.Namespace) -> None:
    warm: list[float] = []
    _ask(connect, lambda n: _review(preemptor("plain", n)), 5, 2, warm)
    alone: list[float] = []
    _ask(connect, lambda n: _review(_class(n)), CLASSES_A_SECOND, options.seconds, alone)
    predictions: list[float] = []
    beside: list[float] = []
    threads = [
        threading.Thread(
            target=_ask,
            args=(connect, lambda n: _review(preemptor("plain", n)), options.rate, options.seconds, predictions),
        ),
        threading.Thread(
            target=_ask, args=(connect, lambda n: _review(_class(n)), CLASSES_A_SECOND, options.seconds, beside)
        ),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{options.nodes} nodes, {options.rate} predictions a second for {options.seconds} s; ms with TLS and client")
    _print(
        {
            f"predictions ({len(predictions)})": predictions,
            "classes beside them": beside,
            "classes alone": alone,
        }
    )


def _beside_dear_ones(connect: Any, options: argparse.Namespace, pid: int) -> None:
    """Plain pods and classes beside Deployments that take long."""
    alone = _proportional_memory(pid)
    pods: list[float] = []
    classes: list[float] = []
    dear: list[float] = []
    cut: list[bool] = []
    most = [alone]
    over = time.perf_counter() + options.seconds

    def deploy(client: int) -> None:
        connection, number = connect(), 0
        while time.perf_counter() < over:
            number += 1
            started = time.perf_counter()
            body = _review(_spread(f"w-{client}-{number}"))
            connection.request("POST", "/mutate?timeout=5s", body, {"Content-Type": "application/json"})
            response = json.load(connection.getresponse())["response"]
            dear.append(time.perf_counter() - started)
            cut.append(b"incomplete" in base64.b64decode(response.get("patch", "")))
        connection.close()

    def watch() -> None:
        while time.perf_counter() < over:
            most[0] = max(most[0], _proportional_memory(pid))
            time.sleep(0.2)

    def plain(number: int) -> bytes:
        return _review(_plain(number))

    threads = [threading.Thread(target=deploy, args=(client,)) for client in range(options.dear)]
    threads.append(threading.Thread(target=watch))
    for body, times in ((plain, pods), (lambda n: _review(_class(n)), classes)):
        threads.append(threading.Thread(target=_ask, args=(connect, body, CLASSES_A_SECOND, options.seconds, times)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"beside {options.dear} clients with Deployments of 10 replicas, spread over zones and nodes")
    _print({"plain pods": pods, "classes": classes, f"Deployments ({len(dear)}, {sum(cut)} cut short)": dear})
    print(f"  memory of all processes together {alone:.0f} MiB before, {most[0]:.0f} at most: {most[0] / alone:.2f}")


def _proportional_memory(pid: int) -> float:
    """MiB of the process and its children; what they share is counted once."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    total = 0
    for process in (str(pid), *_threads_children(pid), *children):
        with suppress(OSError):
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
            total += int(text.split("Pss:", 1)[1].split()[0])
    return total / 1024


def _threads_children(pid: int) -> set[str]:
    """What other threads than the first have forked."""
    found: set[str] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        if task.name != str(pid):
            with suppress(OSError):
                found |= set((task / "children").read_text().split())
    return found


def _print(rows: dict[str, list[float]]) -> None:
    for name, times in rows.items():
        times.sort()
        p50, p99 = times[len(times) // 2] * 1000, times[int(len(times) * 0.99)] * 1000
        print(f"  {name:22} p50 {p50:6.1f}  p99 {p99:6.1f}  max {times[-1] * 1000:6.1f}")


def _ask(connect: Any, body: Any, rate: int, seconds: int, times: list[float]) -> None:
    """Ask at a fixed rate on one connection: a late answer delays nobody's due time, so waiting is counted."""
    connection = connect()
    started = time.perf_counter()
    for number in range(rate * seconds):
        due = started + number / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        connection.request("POST", "/validate?timeout=5s", body(number), {"Content-Type": "application/json"})
        answer = json.load(connection.getresponse())
        assert "response" in answer, answer
        times.append(time.perf_counter() - due)
    connection.close()


def _plain(number: int) -> dict[str, Any]:
    """A pod that fits, unlike the one before."""
    metadata = {"name": f"p-{number}", "namespace": "team-1", "labels": {"app": f"p-{number}"}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"priority": 0, "containers": [container]}}


def _spread(name: str) -> dict[str, Any]:
    """A Deployment whose pods are spread over zones and over nodes."""
    labels = {"app": name}
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }
        for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    ]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    template = {
        "metadata": {"labels": labels},
        "spec": {"topologySpreadConstraints": spread, "containers": [container]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team-1"},
        "spec": {"replicas": 10, "selector": {"matchLabels": labels}, "template": template},
    }


def _class(number: int) -> dict[str, Any]:
    metadata = {"name": f"new-{number}"}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": 5}


def _review(obj: dict[str, Any]) -> bytes:
    group, _, version = obj["apiVersion"].rpartition("/")
    request = {
        "uid": obj["metadata"]["name"],
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "resource": {"group": group, "version": version, "resource": obj["kind"].lower() + "s"},
        "name": obj["metadata"]["name"],
        "namespace": obj["metadata"].get("namespace", ""),
        "operation": "CREATE",
        "userInfo": {"username": "bench"},
        "object": obj,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


if __name__ == "__main__":
    sys.exit(main())
