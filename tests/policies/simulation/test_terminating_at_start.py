"""Pods that terminate at time 0, in the snapshot or preempted by Pods that are Pending in the snapshot, end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from tests.builders import make_node, make_pod

if TYPE_CHECKING:
    from pathlib import Path

GRACE = 30.0


def simulated(path: Path, capsys: pytest.CaptureFixture[str], *pods: dict[str, Any]) -> dict[str, Any]:
    """The document of `whatif lose node n2`: n1 has 4 cpus."""
    items = [make_node("n1").has(cpu="4").obj, make_node("n2").has(cpu="1").obj, *pods]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["whatif", "lose", "node", "n2", "--cluster", str(path), "--timeline", "-o", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def low(**metadata: Any) -> dict[str, Any]:
    pod = make_pod("low").priority(10).request(cpu="3").on("n1").metadata(**metadata).obj
    pod["spec"]["terminationGracePeriodSeconds"] = int(GRACE)
    return pod


def high() -> Any:
    return make_pod("high").priority(1000).request(cpu="3")


def times(document: dict[str, Any], event: str) -> list[float]:
    return [entry["t"] for entry in document["timeline"] if entry["event"] == event]


def test_a_victim_of_a_pending_pod_ends_after_its_grace_period(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = simulated(tmp_path / "cluster.json", capsys, low(), high().obj)
    assert times(found, "preempted") == [pytest.approx(0, abs=1)]
    assert times(found, "gone") == [pytest.approx(GRACE, abs=1)]
    assert times(found, "scheduled") == [pytest.approx(GRACE, abs=1)]


def test_a_pod_that_terminates_in_the_snapshot_ends_after_its_grace_period(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pending = high().nominated("n1").obj
    found = simulated(tmp_path / "cluster.json", capsys, low(deletionTimestamp="2026-01-01T00:00:30Z"), pending)
    assert times(found, "preempted") == []
    assert times(found, "gone") == [pytest.approx(GRACE, abs=1)]
    assert times(found, "scheduled") == [pytest.approx(GRACE, abs=1)]
    assert "1 terminating Pod assumed to end within the grace period" in found["notes"]
