"""`forewarn demo`: the webhook, the linter and a prediction on a sample cluster. The output fits one screen."""

from __future__ import annotations

import json
import shlex
import ssl
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from forewarn.policies.cli.commands.parser import Parser
from forewarn.policies.cli.main import main as forewarn
from forewarn.policies.cli.terminal import painter, wants_color
from forewarn.policies.inputs.manifests.reading import read
from forewarn.policies.kubernetes.kinds.registry import NAMESPACE, POD, POD_TEMPLATE_PATHS
from forewarn.policies.kubernetes.objects.fields import group_kind
from forewarn.policies.kubernetes.objects.patches import PatchOperation, apply_patch

SAMPLE: Final = Path(__file__).resolve().parent.parent / "sample"
WARNED: Final = "checkout.yaml"
"""A Pod that preempts another one."""
MISSPELT: Final = "search.yaml"
"""A workload whose PriorityClass does not exist."""
_KINDS: Final = frozenset((POD, NAMESPACE, *POD_TEMPLATE_PATHS))
_RESPONSE_SECONDS: Final = 10
_IN_A_CHECKOUT: Final = Path("webhook/sample").is_dir()
_NEXT: Final = (
    "Next: `. .venv/bin/activate`, `forewarn ui --cluster webhook/sample/cluster.yaml`, `forewarn lint DIRECTORY`; "
    "`make cluster` and docs/get-started/tutorial.md"
    if _IN_A_CHECKOUT
    else "Next: `forewarn ui` shows your cluster in the browser, `forewarn lint DIRECTORY` checks your manifests"
)


def main(arguments: Sequence[str]) -> int:
    """Run the demonstration; return 0 if the webhook warns, the linter finds an error and the prediction works."""
    parser = Parser(
        prog="forewarn demo", description="Run the webhook, the linter and a prediction on a sample cluster."
    )
    parser.parse_args(arguments)
    paint = painter(wants_color("auto", sys.stdout))
    cluster = _shown(SAMPLE / "cluster.yaml")
    about = "The webhook runs without an API server; the output is in kubectl's form."
    _print(paint(f"Sample cluster: {cluster}. {about}", "dim"))
    with _serving() as connection:
        warned = [_apply(name, connection, paint) for name in (WARNED, MISSPELT)]
    lint = ["lint", "--cluster", cluster, _shown(SAMPLE / "manifests" / MISSPELT)]
    predict = ["predict", "-f", _shown(SAMPLE / "manifests" / WARNED), "--cluster", cluster]
    statuses = []
    for command in (lint, predict):
        _print("", paint("$ forewarn " + shlex.join(command), "bold"))
        statuses.append(forewarn(command))
    _print("", paint(_NEXT, "dim"))
    return 0 if all(warned) and statuses == [1, 0] else 1


@contextmanager
def _serving() -> Iterator[HTTPSConnection]:
    """Run the webhook in its own process until the end of the block; yield a connection to the webhook."""
    with tempfile.TemporaryDirectory() as scratch:
        ca = Path(scratch) / "ca.pem"
        serve = ["webhook", "serve", "--cluster", str(SAMPLE / "cluster.yaml"), "--port", "0", "--health-port", "0"]
        command = [sys.executable, "-P", "-m", "forewarn", *serve, "--write-ca", str(ca), "--drain", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                address = urlsplit(_listening(process.stderr or ()))
                trust = ssl.create_default_context(cafile=str(ca))
                connection = HTTPSConnection(
                    address.hostname or "", address.port, context=trust, timeout=_RESPONSE_SECONDS
                )
                yield connection
                connection.close()
            finally:
                process.terminate()


def _listening(log: Iterable[str]) -> str:
    """Return the address of the webhook from its log. Exits if the webhook ends."""
    lines = []
    for line in log:
        lines.append(line)
        if line.startswith("{") and "webhook" in (fields := json.loads(line)):
            return str(fields["webhook"])
    raise SystemExit(f"forewarn demo: the webhook did not start\n{''.join(lines)}")


def _apply(name: str, connection: HTTPSConnection, paint: Callable[[str, str], str]) -> list[str]:
    """Send the object of a manifest to the webhook, print what kubectl prints, and return the warnings."""
    _print("", paint(f"$ kubectl apply -f {name}", "bold"))
    (subject,) = read((SAMPLE / "manifests" / name).read_bytes(), name, _KINDS).subjects
    warnings = _admit(dict(subject.object), connection)
    for warning in warnings:
        _print(paint(f"Warning: {warning}", "warning"))
    group = group_kind(subject.object).split("/")[0]
    _print(f"{subject.ref.kind.lower()}{'.' + group if group else ''}/{subject.ref.name} created")
    return warnings


def _admit(obj: dict[str, Any], connection: HTTPSConnection) -> list[str]:
    """Act as the API server: call the mutating webhook, apply its patch, call the validating webhook; return the
    warnings.
    """
    warnings: list[str] = []
    for phase in ("mutate", "validate"):
        connection.request("POST", f"/{phase}?timeout=5s", _review(obj), {"Content-Type": "application/json"})
        response = json.load(connection.getresponse())["response"]
        warnings += [w for w in response.get("warnings", ()) if w not in warnings]
        if not response["allowed"]:
            raise SystemExit(f"forewarn demo: the webhook denied the request: {response['status']['message']}")
        if "patch" in response:
            obj = apply_patch(obj, map(_operation, json.loads(b64decode(response["patch"]))))
    return warnings


def _operation(written: dict[str, Any]) -> PatchOperation:
    """Parse an operation of a JSON Patch."""
    steps = written["path"].split("/")[1:]
    path = tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)
    return PatchOperation(written["op"], path, written.get("value"))


def _review(obj: dict[str, Any]) -> bytes:
    """Return the AdmissionReview that kube-apiserver sends on CREATE of the object."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind, metadata = obj["kind"], obj["metadata"]
    request = {
        "uid": f"demo-{metadata['name']}",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": f"{kind.lower()}s"},
        "name": metadata["name"],
        "namespace": metadata.get("namespace", ""),
        "operation": "CREATE",
        "userInfo": {"username": "you"},
        "object": obj,
        "dryRun": False,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def _shown(path: Path) -> str:
    """Return a path as text, relative to the working directory if it is inside."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _print(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201
