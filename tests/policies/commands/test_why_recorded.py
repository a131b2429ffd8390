"""`forewarn why` of recorded clusters: the Pods that real components ended, with the Pods, Nodes and Events of then.

`tests/e2e/test_why.py` and `tests/e2e/test_why_kubelet.py` write the recordings (RECORD, see tests/e2e/README.md).
UPDATE=1 writes the answers to cases/why/expected/; compare them with the recordings before you commit them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from forewarn.policies.cli.main import main

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.fields import ApiObject

CASES: Final = Path(__file__).parents[1] / "cases" / "why"
RECORDINGS: Final = sorted(path.stem for path in CASES.glob("*.json"))


def items(recording: str) -> list[ApiObject]:
    found: list[ApiObject] = json.loads((CASES / f"{recording}.json").read_text())["items"]
    return found


def pods(recording: str) -> list[ApiObject]:
    return [obj for obj in items(recording) if obj["kind"] == "Pod"]


def names(recording: str) -> list[str]:
    """The Pods, also those of which only Events are left."""
    of_events = {obj["involvedObject"]["name"] for obj in items(recording) if is_of_pod(obj)}
    return sorted({pod["metadata"]["name"] for pod in pods(recording)} | of_events)


def is_of_pod(obj: ApiObject) -> bool:
    return bool(obj["kind"] == "Event" and obj["involvedObject"]["kind"] == "Pod")


def why(capsys: pytest.CaptureFixture[str], cluster: Path, name: str) -> Any:
    """The answer; without causes if the cluster has neither the Pod nor Events about it."""
    status = main(["why", f"default/{name}", "--cluster", str(cluster), "-o", "json"])
    out, err = capsys.readouterr()
    assert status == 0 or (status == 2 and "not found" in err), err
    return {"troubles": []} if status else json.loads(out)


def causes(answer: Any) -> list[str]:
    return [f"{each.get('time', 'no time')} {each['id']}: {each['message']}" for each in answer["troubles"]]


def without(recording: str, name: str, tmp_path: Path) -> Path:
    """The recording after the Pod of this name was removed."""
    rest = [obj for obj in items(recording) if (obj["kind"], obj["metadata"]["name"]) != ("Pod", name)]
    path = tmp_path / "rest.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": rest}))
    return path


@pytest.mark.parametrize("recording", RECORDINGS)
def test_a_recorded_end_has_its_cause(recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = {}
    for name in names(recording):
        answer = why(capsys, CASES / f"{recording}.json", name)
        gone = why(capsys, without(recording, name, tmp_path), name)
        found[name] = {"state": answer["state"], "causes": causes(answer), "causes without the Pod": causes(gone)}
    path = CASES / "expected" / f"{recording}.json"
    if os.environ.get("UPDATE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(path.read_text())


@pytest.mark.parametrize("recording", RECORDINGS)
def test_the_time_of_a_disruption_is_that_of_its_condition(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    for pod in pods(recording):
        conditions = pod["status"].get("conditions", ())
        times = [each["lastTransitionTime"] for each in conditions if each["type"] == "DisruptionTarget"]
        if times:
            answer = why(capsys, CASES / f"{recording}.json", pod["metadata"]["name"])
            assert [answer["troubles"][0]["time"]] == times


def test_the_figures_of_an_eviction_are_what_the_container_uses_and_requests(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The `args` of a container say what it uses (tests/e2e/hollow_kubelet/containers.go)."""
    for recording, resource in (("kubelet-memory", "memory"), ("kubelet-disk", "ephemeral-storage")):
        (pod,) = (each for each in pods(recording) if "condition" not in each["status"].get("message", "condition"))
        (container,) = pod["spec"]["containers"]
        (used,) = (arg.partition("=")[2] for arg in container["args"])
        figures = f"container app used {used} and requests {container['resources']['requests'][resource]}"
        answer = why(capsys, CASES / f"{recording}.json", pod["metadata"]["name"])
        assert figures in answer["troubles"][0]["message"]


def test_each_cause_by_a_kubelet_or_controller_is_recorded() -> None:
    expected = (json.loads(path.read_text()) for path in (CASES / "expected").glob("*.json"))
    found = {cause.split(": ")[0].split()[-1] for pods in expected for pod in pods.values() for cause in pod["causes"]}
    assert found == {
        "container-failed", "container-waiting", "deadline-exceeded", "deleted", "deleted-by-controller",
        "device-taint-evicted", "disrupted", "drain-blocked", "evicted-by-api", "fits-nowhere", "former-ended",
        "former-preempted", "job-failed", "node-condition", "node-gone", "node-not-ready", "node-pressure-evicted",
        "node-shutdown", "oom-killed", "preempted", "preempted-by-kubelet", "rejected-by-kubelet", "scaled",
        "storage-limit-exceeded", "stuck-terminating", "taint-evicted", "waits-for-termination",
    }  # fmt: skip
