"""`forewarn doctor` on the real API server: an installation that works, and what it says when it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.webhook import Webhook

if TYPE_CHECKING:
    from tests.e2e.api import Api
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.installation import Installation

pytestmark = pytest.mark.e2e

Lines = dict[str, list[dict[str, Any]]]


def doctor(plane: ControlPlane, user: str = "admin") -> Lines:
    """The report, its lines by check."""
    command = [sys.executable, "-m", "policies.cli", "doctor", "-o", "json", "--timeout", "120"]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig(user))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=180)
    assert done.returncode in (0, 1), done.stderr
    found: Lines = {}
    for line in json.loads(done.stdout)["lines"]:
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
        assert statuses(lines, *registered, *trusted, *asked, "rights", "configuration") == ["ok"] * 8, lines
        assert "[unknown-priority-class]" in lines["dry run of a Deployment"][0]["told"]
        assert {line["status"] for told in doctor(plane, "developer").values() for line in told} <= {"ok", "unknown"}
        webhook.replicas[0].stop()
        lines = doctor(plane)
        assert statuses(lines, *asked) == ["problem", "warning"], lines
        assert webhook.told
        assert not [token for token in webhook.told if token in json.dumps(lines)]
    finally:
        webhook.end(api)
    assert not [obj for obj in api.list("Deployment") if obj["metadata"]["name"].startswith("forewarn-doctor")]
    assert not [obj for obj in api.list("PriorityClass") if obj["metadata"]["name"].startswith("forewarn-doctor")]
