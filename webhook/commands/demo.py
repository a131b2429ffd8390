"""`forewarn demo`: the webhook on a sample cluster, and its answers to a few manifests as kubectl shows them."""

from __future__ import annotations

import json
import shlex
import ssl
import subprocess
import sys
import tempfile
from base64 import b64decode
from contextlib import contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from policies import WITHIN
from policies.cli import main as forewarn
from policies.commands.parser import Parser
from policies.kinds import NAMESPACE, POD, POD_TEMPLATE_PATHS, PRIORITY_CLASS
from policies.manifests import read
from policies.objects.fields import at, group_kind
from policies.terminal import painter, wants_color
from webhook.admission import impact_annotation
from webhook.admission.json_patch import PatchOperation, apply_patch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SAMPLE: Final = Path(__file__).resolve().parent.parent / "sample"
MANIFESTS: Final = ("banner.yaml", "search.yaml", "checkout.yaml", "standard.yaml", "mutated.yaml")
_KINDS: Final = frozenset((POD, NAMESPACE, PRIORITY_CLASS, *POD_TEMPLATE_PATHS))
_PLURALS: Final = {"PriorityClass": "priorityclasses"}
_RESPONSE_SECONDS: Final = 10
_IN_A_CHECKOUT: Final = not WITHIN
_NEXT: Final = (
    "Next: `. .venv/bin/activate` puts forewarn on the PATH, then" if _IN_A_CHECKOUT else "Next:",
    "`forewarn lint DIRECTORY` checks manifests of yours,",
    "`forewarn audit --cluster live` the cluster of your kubeconfig; `kubectl forewarn audit` is the same.",
    "`make cluster` makes a control plane to try the webhook on: docs/install.md puts it there, or on yours."
    if _IN_A_CHECKOUT
    else "docs/install.md of the repository puts the webhook on a cluster.",
)


class Answer(NamedTuple):
    """What the API server would hand to kubectl: warnings, the refusal if there is one, and the object as stored."""

    warnings: list[str]
    refusal: str
    stored: dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Run the demonstration; 0 when every manifest was answered and the linter has said the same."""
    parser = Parser(prog="forewarn demo", description="The webhook at work on a small sample cluster.")
    parser.parse_args(arguments)
    paint = painter(wants_color("auto", sys.stdout))
    cluster, manifests = _shown(SAMPLE / "cluster.yaml"), _shown(SAMPLE / "manifests")
    about = "The webhook runs over TLS on this machine; kubectl's lines are as kubectl would print them."
    _say(paint(f"The cluster: {cluster}. {about}", "dim"))
    with _serving() as connection:
        for name in MANIFESTS:
            _say("", paint(f"$ kubectl apply -f {name}", "bold"))
            for line in _applied(name, connection):
                style = {"Warning:": "warning", "Error": "error", "$": "bold"}.get(line.split(" ", 1)[0], "")
                _say(paint(line, style) if style else line)
    command = ["lint", "--cluster", cluster, manifests]
    _say("", paint("$ forewarn " + shlex.join(command), "bold"))
    status = forewarn(command)
    _say("", *(paint(line, "dim") for line in _NEXT))
    return 0 if status == 1 else 1  # the linter has found what the webhook has found


@contextmanager
def _serving() -> Iterator[HTTPSConnection]:
    """The webhook in a process of its own, stopped at the end; a connection to it."""
    with tempfile.TemporaryDirectory() as scratch:
        ca = Path(scratch) / "ca.pem"
        serve = ["webhook", "serve", "--cluster", str(SAMPLE / "cluster.yaml"), "--port", "0", "--health-port", "0"]
        command = [sys.executable, "-P", "-m", f"{WITHIN}policies.cli", *serve, "--write-ca", str(ca), "--drain", "0"]
        log = Path(scratch) / "log"
        with (
            log.open("w") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            try:
                announced = process.stdout.readline() if process.stdout else ""
                if not announced:
                    raise SystemExit(f"forewarn demo: the webhook did not start\n{log.read_text()}")
                address = urlsplit(announced.split()[-1])
                trust = ssl.create_default_context(cafile=str(ca))
                connection = HTTPSConnection(
                    address.hostname or "", address.port, context=trust, timeout=_RESPONSE_SECONDS
                )
                yield connection
                connection.close()
            finally:
                process.terminate()


def _applied(name: str, connection: HTTPSConnection) -> Iterator[str]:
    """What kubectl prints for each object of a manifest."""
    for subject in read((SAMPLE / "manifests" / name).read_bytes(), name, _KINDS).subjects:
        ref = subject.ref
        answer = _admitted(dict(subject.object), connection)
        yield from (f"Warning: {warning}" for warning in answer.warnings)
        if answer.refusal:
            yield f'Error from server (Forbidden): error when creating "{name}": {answer.refusal}'
        else:
            group = group_kind(subject.object).split("/")[0]
            yield f"{ref.kind.lower()}{'.' + group if group else ''}/{ref.name} created"
        if told := at(answer.stored, *impact_annotation.PATH):
            yield ""
            yield rf"$ kubectl get -f {name} -o jsonpath='{{.metadata.annotations.forewarn\.dev/preemption-impact}}'"
            yield told


def _admitted(obj: dict[str, Any], connection: HTTPSConnection) -> Answer:
    """The part of the API server: call the mutating webhook, apply its patch, call the validating one."""
    warnings: list[str] = []
    for phase in ("mutate", "validate"):
        connection.request("POST", f"/{phase}?timeout=5s", _review(obj), {"Content-Type": "application/json"})
        response = json.load(connection.getresponse())["response"]
        warnings += [w for w in response.get("warnings", ()) if w not in warnings]
        if not response["allowed"]:
            message = response["status"]["message"]
            return Answer(warnings, f'admission webhook "{phase}.forewarn.dev" denied the request: {message}', {})
        if "patch" in response:
            obj = apply_patch(obj, map(_operation, json.loads(b64decode(response["patch"]))))
    return Answer(warnings, "", obj)


def _operation(written: dict[str, Any]) -> PatchOperation:
    """A patch operation as it comes over the wire."""
    steps = written["path"].split("/")[1:]
    path = tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)
    return PatchOperation(written["op"], path, written.get("value"))


def _review(obj: dict[str, Any]) -> bytes:
    """An AdmissionReview as kube-apiserver sends it on CREATE."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind, metadata = obj["kind"], obj["metadata"]
    resource = _PLURALS.get(kind, kind.lower() + "s")
    request = {
        "uid": f"demo-{metadata['name']}",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": resource},
        "name": metadata["name"],
        "namespace": metadata.get("namespace", ""),
        "operation": "CREATE",
        "userInfo": {"username": "you"},
        "object": obj,
        "dryRun": False,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def _shown(path: Path) -> str:
    """A path as seen from here, where that is shorter."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201
