"""What predictions cost the webhook: 20 a second over 5,000 nodes, and what the requests beside them feel.

`python -m tests.benchmarks.bench_admission [--seconds N] [--rate N]`: a real server over TLS on a cluster of 150,000
pods, one client that asks for predictions at a fixed rate, one that asks for a class (rules alone) 50 times a second.
"""

from __future__ import annotations

import argparse
import json
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.benchmarks.bench_preemption import write
from tests.benchmarks.clusters import Size, preemptor

CLASSES_A_SECOND: Final = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=20, help="predictions a second")
    parser.add_argument("--nodes", type=int, default=5000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        dump, ca = Path(directory) / "cluster.json", Path(directory) / "ca.pem"
        write(Size(options.nodes), dump)
        command = [sys.executable, "-m", "policies.cli", "serve", "--cluster", str(dump), "--port", "0"]
        command += ["--health-port", "0", "--write-ca", str(ca), "--drain", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            try:
                assert server.stdout is not None
                address = urlsplit(server.stdout.readline().split()[-1])
                trust = ssl.create_default_context(cafile=str(ca))
                _report(lambda: HTTPSConnection("127.0.0.1", address.port, context=trust), options)
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
    for name, times in (
        (f"predictions ({len(predictions)})", predictions),
        ("classes beside them", beside),
        ("classes alone", alone),
    ):
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
