"""`forewarn headroom`: the CapacityBuffers of a cluster against the replicas that are needed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.questions.whatif.capacity_buffers import MAX_BUFFERS, CapacityBuffers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SHOWN = ("headroom", "-f", "docs/examples/headroom/cache.yaml", "--cluster", "docs/examples/whatif/cluster.yaml")
CACHE = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "cache", "namespace": "shop"},
}
OWN = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "cache"}}


def buffer(name: str, spec: Any, status: Any, version: str = "v1beta1", namespace: str = "shop") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    kind = {"apiVersion": f"autoscaling.x-k8s.io/{version}", "kind": "CapacityBuffer"}
    return {**kind, "metadata": metadata, "spec": spec, "status": status}


def read(*objects: dict[str, Any]) -> CapacityBuffers:
    buffers = CapacityBuffers()
    for obj in objects:
        assert buffers.collect(obj)
    return buffers


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_buffers_of_the_workload_and_others(version: str) -> None:
    cache = read(
        buffer("one", {**OWN, "replicas": 5}, {"replicas": 3}, version),
        buffer("two", {**OWN, "percentage": 20}, {"replicas": 1}, version),
        buffer("elsewhere", {**OWN, "replicas": 5}, {"replicas": 4}, version, "other"),
        buffer("template", {"podTemplateRef": {"name": "cache"}, "replicas": 9}, {"replicas": 8}, version),
    )
    found = cache.buffers_for(CACHE, 8)
    assert found is not None
    assert [(each.name, each.replicas, each.provisioned) for each in found.buffers] == [("one", 5, 3), ("two", None, 1)]
    assert (found.provisioned, found.needed, found.others) == (4, 8, (2, 12))


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ([], []),
        ("x", 3),
        ({"scalableRef": [], "replicas": "5"}, {"replicas": -1, "conditions": [1, None, "x"]}),
        ({**OWN, "replicas": True}, {"replicas": 2**40, "conditions": {"status": "False"}}),
        ({"podTemplateRef": {"name": ["x"]}}, {"replicas": 1.5, "conditions": [{"status": "False", "type": 3}] * 99}),
    ],
)
def test_fields_of_a_wrong_type_count_as_absent(spec: Any, status: Any) -> None:
    cache = read(buffer("odd", spec, status))
    (found,) = cache.buffers.values()
    assert (found.replicas, found.provisioned) == (None, 0)


def test_hostile_sizes_are_bounded() -> None:
    long = "x" * 1_000_000
    condition = {"status": "False", "type": f"a\n{long}", "reason": long}
    cache = read(
        buffer(long, {"podTemplateRef": {"name": long}}, {"conditions": [condition]}),
        *(buffer(f"b-{number}", OWN, {"replicas": 1}) for number in range(MAX_BUFFERS)),
    )
    first = next(iter(cache.buffers.values()))
    assert max(map(len, (first.name, first.target.name, first.problem))) <= 253
    assert "\n" not in first.problem
    found = cache.buffers_for(CACHE, None)
    assert found is not None
    assert found.incomplete
    assert len(found.buffers) + found.others.buffers == MAX_BUFFERS


def test_text_and_json_show_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    not_ready = {"type": "Provisioning", "status": "False", "reason": "NotEnoughQuota"}
    one = buffer("cache", {**OWN, "replicas": 6}, {"replicas": 4, "conditions": [not_ready]})
    (tmp_path / "buffers.json").write_text(json.dumps({"items": [one]}))
    shown = (*SHOWN, "--cluster", str(tmp_path / "buffers.json"))
    assert main([*shown, "--placeholders", "8", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["clause"] == "4 more placeholder Pods needed, 0 have room"
    assert found["warnings"][0] == "CapacityBuffers of this object provide 4 of 8 needed replicas"
    output = found["objects"][0]["capacityBuffers"]
    assert (output["provisioned"], output["needed"], output["others"]) == (4, 8, {"buffers": 0, "provisioned": 0})
    assert main([*shown, "--placeholders", "3", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["status"], found["clause"]) == ("OK", "no more placeholder Pods needed")
    assert found["objects"][0]["placeholders"]["create"]["pods"] == 0
    assert main([*shown]) == 0
    out = capsys.readouterr().out
    assert ["shop/cache", "6", "4", "Provisioning", "is", "false:", "NotEnoughQuota"] in map(
        str.split, out.splitlines()
    )
    assert "needed replicas" not in out


def test_without_any_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SHOWN, "-o", "json"]) == 0
    assert "capacityBuffers" not in json.loads(capsys.readouterr().out)["objects"][0]


def test_a_source_that_may_not_list_them_leaves_a_note(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from forewarn.policies.inputs.sources.files import SourceError

    def rejected(*_: str) -> Iterator[dict[str, Any]]:
        raise SourceError("live", "cannot list capacitybuffers: 403 " + "x" * 100_000)

    monkeypatch.setattr("forewarn.policies.questions.application.headroom.objects_of", rejected)
    assert main([*SHOWN]) == 0
    out = capsys.readouterr().out
    assert "CapacityBuffers not read: live: cannot list capacitybuffers: 403" in " ".join(out.split())
    assert len(out) < 2_000
