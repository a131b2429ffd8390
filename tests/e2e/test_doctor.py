"""`forewarn webhook doctor` on the real API server: an installation that works, and what it says when it does not."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.truth import wait_until
from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

MAIN = 1
"""Where validate.forewarn.dev is in its configuration."""
CONFIGURATION = ("validatingwebhookconfiguration", "forewarn")
ELSEWHERE = {"matchLabels": {"a": "b"}}
DRIFT: dict[str, dict[str, Any]] = {
    "port": {"op": "replace", "path": "clientConfig/service/port", "value": 9},
    "path": {"op": "replace", "path": "clientConfig/service/path", "value": "/mutate"},
    "namespaceSelector": {"op": "replace", "path": "namespaceSelector", "value": ELSEWHERE},
    "objectSelector": {"op": "replace", "path": "objectSelector", "value": ELSEWHERE},
    "a condition more": {"op": "add", "path": "matchConditions/-", "value": {"name": "never", "expression": "false"}},
    "another condition": {"op": "replace", "path": "matchConditions/0/expression", "value": "false"},
    "a condition less": {"op": "remove", "path": "matchConditions/2"},
    "failurePolicy": {"op": "replace", "path": "failurePolicy", "value": "Fail"},
    "matchPolicy": {"op": "replace", "path": "matchPolicy", "value": "Exact"},
    "timeoutSeconds": {"op": "replace", "path": "timeoutSeconds", "value": 29},
    "rules": {"op": "remove", "path": "rules/0"},
    "a webhook less": {"op": "remove", "path": ""},
}
"""Changes of one webhook that somebody makes, as JSON Patch."""

Lines = dict[str, list[dict[str, Any]]]


def doctor(plane: ControlPlane, user: str = "admin") -> Lines:
    """The report, its lines by check."""
    command = [sys.executable, "-m", "forewarn", "webhook", "doctor", "-o", "json", "--timeout", "120"]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig(user))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=180)
    assert done.returncode in (0, 1), done.stderr
    found: Lines = {}
    for line in json.loads(done.stdout)["checks"]:
        found.setdefault(line["check"], []).append(line)
    assert done.returncode == any(line["status"] == "problem" for lines in found.values() for line in lines)
    return found


def statuses(lines: Lines, *checks: str) -> list[str]:
    return [line["status"] for check in checks for line in lines[check]]


def test_it_finds_an_installation_well_and_then_what_is_wrong(
    plane: ControlPlane, installed: Installation, api: Api
) -> None:
    """One after the other: nothing registered, a webhook that works, one that has stopped."""
    assert statuses(doctor(plane), "ValidatingWebhookConfiguration") == ["problem"]
    webhook = Webhook(plane, installed)
    webhook.begin(api)
    try:
        lines = doctor(plane)
        registered = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
        trusted = ("CA injector", "certificate")
        asked = ("dry run of a PriorityClass", "dry run of a Deployment")
        assert statuses(lines, *registered, *trusted, *asked, "permissions", "configuration") == ["ok"] * 8, lines
        assert "[unknown-priority-class]" in lines["dry run of a Deployment"][0]["message"]
        assert {line["status"] for told in doctor(plane, "developer").values() for line in told} <= {"ok", "unknown"}
        webhook.replicas[0].stop()
        lines = doctor(plane)
        assert statuses(lines, *asked) == ["problem", "problem"], lines
        assert webhook.told
        assert not [token for token in webhook.told if token in json.dumps(lines)]
    finally:
        webhook.end(api)
    assert not [obj for obj in api.list("Deployment") if obj["metadata"]["name"].startswith("forewarn-doctor")]
    assert not [obj for obj in api.list("PriorityClass") if obj["metadata"]["name"].startswith("forewarn-doctor")]


def test_what_it_prints_repairs_each_drift_of_a_webhook(plane: ControlPlane, installed: Installation, api: Api) -> None:
    """A drift makes the dry run fail or is reported; then the printed command, or else applying again, repairs it."""
    webhook = Webhook(plane, installed)
    webhook.begin(api)
    applied = json.dumps({"apiVersion": "v1", "kind": "List", "items": installed.configurations(webhook.proxy.port)})
    try:
        assert plane.kubectl("apply", "-f", "-", stdin=applied).status == 0
        assert faults(doctor(plane)) == []
        for name, change in DRIFT.items():
            path = f"/webhooks/{MAIN}/{change['path']}".rstrip("/")
            patch = json.dumps([{**change, "path": path}])
            assert plane.kubectl("patch", *CONFIGURATION, "--type=json", "-p", patch).status == 0
            time.sleep(2)  # API servers hear of it by a watch
            found = faults(doctor(plane))
            assert found, name
            for line in found:
                _, command, rest = line["fix"].partition("kubectl patch ")
                again = "apply the manifests" in line["fix"] or not command
                done = (
                    plane.kubectl("apply", "-f", "-", stdin=applied)
                    if again
                    else plane.kubectl("patch", *shlex.split(rest))
                )
                assert done.status == 0, (name, done.err)
            wait_until(lambda: not faults(doctor(plane)), 60, f"{name} is repaired")
    finally:
        webhook.end(api)


def faults(lines: Lines) -> list[dict[str, Any]]:
    """What of the registration is not as it should be; the rest depends on what other tests leave."""
    told = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "Service", "dry run of a Deployment")
    return [line for check in told for line in lines.get(check, ()) if line["status"] in ("problem", "warning")]
