"""Large reviews at the same time, as API servers may send them: memory of the replica, and how long a small one waits.

`python -m tests.benchmarks.bench_floods`, on an idle machine: `forewarn webhook serve` in a process of its own, clients
in others. A body of empty objects takes the most memory for its size; one of escapes is the largest on the wire.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from multiprocessing import Event, Process, SimpleQueue
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from forewarn.webhook.admission.review import MAX_OBJECT
from tests.webhook.builders import deployment, pod, review

if TYPE_CHECKING:
    from collections.abc import Iterator

CLUSTER: Final = "webhook/sample/cluster.yaml"
EMPTY_OBJECTS: Final = 2_400_000
PAUSE: Final = 0.02
"""Seconds between two small requests."""


def main() -> None:
    """Print a row for each flood."""
    with served() as (port, process):
        post(port, small())
        print(f"resident before: {peak(process)} MiB")
        print(f"{'bodies':>30} {'MiB':>6} {'all, s':>7} {'small request, at most, s':>26} {'peak, MiB':>10}")
        for name, body in (("empty objects", empty_objects()), ("escapes", escapes())):
            for count in (9, 40):
                seconds, longest = flood(port, body, count)
                size = len(body) / 2**20
                print(f"{count:>15} of {name:<11} {size:>6.1f} {seconds:>7.1f} {longest:>26.2f} {peak(process):>10}")


@contextmanager
def served() -> Iterator[tuple[int, int]]:
    """The port of the webhook and its process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "forewarn", "webhook", "serve", "--cluster", CLUSTER, "--host", "127.0.0.1"]
    with subprocess.Popen([*command, "--port", str(port), "--health-port", "0"], stderr=subprocess.DEVNULL) as process:
        try:
            while not _listens(port):
                time.sleep(PAUSE)
            yield port, process.pid
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def flood(port: int, body: bytes, count: int) -> tuple[float, float]:
    """Seconds until all are answered, and the longest that a small request took meanwhile, on a kept connection."""
    waits: SimpleQueue[float] = SimpleQueue()
    stop = Event()
    probe = Process(target=ask_again, args=(port, waits, stop))
    probe.start()
    began = time.monotonic()
    with ThreadPoolExecutor(count) as pool:
        statuses = set(pool.map(lambda _: post(port, body), range(count)))
    seconds = time.monotonic() - began
    stop.set()
    probe.join()
    assert statuses == {200}, statuses
    return seconds, waits.get()


def ask_again(port: int, waits: SimpleQueue[float], stop: Any) -> None:
    """Post small reviews until told to stop; then tell the longest that one took."""
    longest = 0.0
    with closing(connection(port)) as client:
        while not stop.is_set():
            began = time.monotonic()
            client.request("POST", "/validate?timeout=10s", small(), {"Content-Type": "application/json"})
            client.getresponse().read()
            longest = max(longest, time.monotonic() - began)
            time.sleep(PAUSE)
    waits.put(longest)


def post(port: int, body: bytes) -> int:
    """The status of one answer."""
    with closing(connection(port)) as client:
        client.request("POST", "/validate?timeout=10s", body, {"Content-Type": "application/json"})
        return client.getresponse().status


def connection(port: int) -> http.client.HTTPSConnection:
    """To a certificate that nobody has signed."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection("127.0.0.1", port, context=trusting, timeout=60)


def small() -> bytes:
    """A Pod."""
    return json.dumps(review(pod("gold", 1000)), separators=(",", ":")).encode()


def empty_objects() -> bytes:
    """Three bytes each on the wire, 72 in memory."""
    obj = deployment()
    terms: list[dict[str, Any]] = [{}] * EMPTY_OBJECTS
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    obj["spec"]["template"]["spec"]["affinity"] = affinity
    return json.dumps(review(obj), separators=(",", ":")).encode()


def escapes() -> bytes:
    """Two objects of 3 MiB, each byte of which is six on the wire."""
    obj = deployment()
    obj["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "a", "value": "<" * (2 * MAX_OBJECT)}]
    return json.dumps(review(obj), separators=(",", ":")).replace("<", r"\u003c").encode()


def peak(process: int) -> int:
    """The most memory that it has had, in MiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found
    return int(found[1]) >> 10


if __name__ == "__main__":
    main()
