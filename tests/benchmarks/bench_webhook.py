"""How many reviews a second the webhook answers, and how long they take: `python -m tests.benchmarks.bench_webhook`.

32 connections over TLS 1.3 post the review of a small Deployment, for 30 seconds each, to: `forewarn serve` (the ASGI
route), the same webhook behind Flask alone, and a bare Flask application on the same server that judges nothing.
The client is wrk (`apt install wrk`), which costs little beside the server. Decisions are logged to a file.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, NamedTuple

from flask import Flask, Response, request

from policies.cluster import Cache
from policies.config import Config
from tests.webhook.builders import OBJECTS, body, deployment
from webhook.app import create_app
from webhook.certificates import self_signed
from webhook.endpoint import Endpoint, Gate
from webhook.health import Health
from webhook.logs import log_to_stderr
from webhook.metrics import Metrics
from webhook.server import TlsServer, bind, from_wsgi
from webhook.tls import SwappingContext

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVERS: Final = {
    "ASGI route": ["-m", "webhook", "--health-port", "0", "--port", "0"],
    "Flask route": ["-m", "tests.benchmarks.bench_webhook", "--serve", "flask"],
    "bare Flask": ["-m", "tests.benchmarks.bench_webhook", "--serve", "bare"],
}
SCRIPT: Final = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local file = io.open("%s", "rb")
wrk.body = file:read("*a")
file:close()
"""


class Result(NamedTuple):
    """One row: a second, milliseconds, MiB."""

    name: str
    requests: float
    p50: str
    p99: str
    errors: str
    memory_idle: float
    memory_after: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, or one of its servers."""
    parser = argparse.ArgumentParser(prog="bench_webhook")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--serve", choices=["flask", "bare"], help=argparse.SUPPRESS)
    parser.add_argument("--cluster", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        return _serve(options.serve)
    if shutil.which("wrk") is None:
        print("bench_webhook: wrk is missing; `apt install wrk`", file=sys.stderr)
        return 3
    with TemporaryDirectory() as directory:
        results = [_measure(name, Path(directory), options.seconds, options.connections) for name in SERVERS]
    print(f"{options.connections} connections, {options.seconds} s each, {len(body(deployment()))} bytes a review")
    print(f"{'':12} {'requests/s':>10} {'p50':>9} {'p99':>9} {'errors':>7} {'MiB idle':>9} {'MiB after':>9}")
    for r in results:
        memory = f"{r.memory_idle:9.1f} {r.memory_after:9.1f}"
        print(f"{r.name:12} {r.requests:10.0f} {r.p50:>9} {r.p99:>9} {r.errors:>7} {memory}")
    return 0 if all(r.errors == "0" for r in results) else 1


def _measure(name: str, directory: Path, seconds: int, connections: int) -> Result:
    cluster, review, script = directory / "cluster.json", directory / "review.json", directory / "post.lua"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    review.write_bytes(body(deployment()))
    script.write_text(SCRIPT % review)
    command = [sys.executable, *SERVERS[name], "--cluster", str(cluster)]
    with (
        (directory / "log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        try:
            _wrk(url, script, 2, 1)  # warm
            idle = _resident(server.pid)
            report = _wrk(url, script, connections, seconds)
            after = _resident(server.pid)
        finally:
            server.terminate()
    return Result(name, *_read(report), idle, after)


def _wrk(url: str, script: Path, connections: int, seconds: int) -> str:
    load = ["-t", "1", "-c", str(connections), "-d", f"{seconds}s", "--latency", "-s", str(script)]
    command = ["wrk", *load, f"{url}/validate?timeout=10s"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _read(report: str) -> tuple[float, str, str, str]:
    def found(pattern: str, default: str = "?") -> str:
        match = re.search(pattern, report)
        return match[1] if match else default

    errors = int(found(r"Non-2xx or 3xx responses: (\d+)", "0"))
    errors += sum(map(int, re.findall(r"(?:connect|read|write|timeout) (\d+)", found(r"Socket errors: (.*)", ""))))
    return (
        float(found(r"Requests/sec:\s+([\d.]+)", "0")),
        found(r"\n +50% +(\S+)"),
        found(r"\n +99% +(\S+)"),
        str(errors),
    )


def _resident(pid: int) -> float:
    match = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(match[1]) / 1024 if match else 0.0


def _serve(kind: str) -> int:
    """The same server with Flask in front."""
    log_to_stderr()
    cache = Cache()
    for obj in OBJECTS:
        cache.add(obj)
    snapshot, config, health, gate = cache.snapshot(), Config(), Health(), Gate(256)
    endpoint = Endpoint(lambda: snapshot, lambda: config, Metrics(), gate)
    app = create_app(endpoint) if kind == "flask" else _bare()
    context = SwappingContext(self_signed(datetime.now(UTC))).listening
    sock = bind("127.0.0.1", 0)
    print(f"listening on https://127.0.0.1:{sock.getsockname()[1]}", flush=True)
    TlsServer(from_wsgi(app), context, gate, health).run([sock])
    return 0


def _bare() -> Flask:
    app = Flask("bare")

    @app.post("/validate")
    def validate() -> Response:
        uid = json.loads(request.get_data())["request"]["uid"]
        return Response(json.dumps({"response": {"uid": uid, "allowed": True}}), mimetype="application/json")

    return app


if __name__ == "__main__":
    sys.exit(main())
