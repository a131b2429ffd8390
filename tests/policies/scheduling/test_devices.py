"""Devices (DRA): recorded allocations, and what nobody predicts past."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from policies.cluster import Cache, ClusterSnapshot, admitted, predict
from policies.commands.recorded_cases import answer_case
from policies.metering import CutShort, metered
from policies.objects.devices import Device
from policies.releases import known_minor
from policies.scheduling.devices import selectors
from policies.scheduling.devices.selectors import NotModelled, SelectorError, evaluate
from policies.scheduling.schedule_one import Prediction
from policies.scheduling.snapshot import Snapshot
from policies.semantics import Semantics
from tests.builders import make_node, make_pod
from tests.policies.scheduling.profiles import args, config, point, semantics
from tests.policies.scheduling.test_recorded import compare

CASES = Path(__file__).parent / "cases" / "devices.jsonl.gz"
GPU = Device(
    "d",
    {"model": "a100", "cores": 4, "healthy": True, "version": ("version", "1.3.0-rc.1"), "other.example/slot": 1},
    {"memory": 16 * 2**30 * 10**9},
)


def recorded() -> list[Any]:
    entries = map(json.loads, gzip.decompress(CASES.read_bytes()).splitlines())
    return [pytest.param(e["case"], e["release"], e["answer"], id=f"{e['case']['id']}-{e['release']}") for e in entries]


@pytest.mark.parametrize(("case", "release", "answer"), recorded())
def test_recorded_allocations_are_met(case: Any, release: str, answer: Any) -> None:
    semantics = Semantics(known_minor(release))
    compare(case, answer, answer_case(case, count_nominated=True, semantics=semantics))


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ('device.driver == "gpu.example"', True),
        ('device.attributes["gpu.example"].model == "h100"', False),
        ('device.attributes["gpu.example"].model == 3', False),
        ('device.attributes["gpu.example"].cores >= 4 && device.attributes["gpu.example"].healthy', True),
        ('device.attributes["other.example"].slot == 1', True),
        ('has(device.attributes["nobody.example"].slot)', False),
        ('device.capacity["gpu.example"].memory.compareTo(quantity("16Gi")) == 0', True),
        ('device.attributes["gpu.example"].version.isLessThan(semver("1.3.0"))', True),
        ('["t4", "a100"].exists(m, m == device.attributes["gpu.example"].model)', True),
    ],
)
def test_selectors(expression: str, matches: bool) -> None:
    assert evaluate(expression, "gpu.example", GPU) is matches


@pytest.mark.parametrize(
    "expression", ["cel.bind(d, device.attributes, true)", 'device.attributes["a"].?b.orValue(true)', "(", "x" * 20_000]
)
def test_what_is_not_known_of_cel_is_said(expression: str) -> None:
    with pytest.raises(NotModelled):
        evaluate(expression, "gpu.example", GPU)


def test_an_attribute_that_is_not_there_is_an_error_as_upstream() -> None:
    with pytest.raises(SelectorError, match="no such member"):
        evaluate('device.attributes["gpu.example"].nothing == 1', "gpu.example", GPU)


def test_what_selectors_make_of_a_device_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(expression: str, driver: str, device: Device) -> bool:
        asked.append(device.name)
        return evaluate(expression, driver, device)

    monkeypatch.setattr(selectors, "evaluate", counted)
    slices, other = object(), Device("e", {"model": "h100"})
    for _ in range(2):
        known = selectors.selectors_of(slices)
        assert known.match(('device.attributes["gpu.example"].model == "a100"',), "gpu.example", GPU)
        assert not known.match(('device.attributes["gpu.example"].model == "a100"',), "gpu.example", other)
        with pytest.raises(SelectorError, match="no such member"):
            known.match(('device.attributes["gpu.example"].nothing == 1',), "gpu.example", GPU)
    assert asked == ["d", "e", "d"]
    monkeypatch.setattr(selectors, "MOST_KEPT", 0)
    for _ in range(2):
        assert selectors.selectors_of(object()).match(("true",), "gpu.example", GPU)
    assert asked == ["d", "e", "d", "d", "d"]


NESTED = "[1,2,3,4,5,6,7,8,9].all(a, " * 6 + "true" + ")" * 6


def test_a_hostile_expression_ends_by_its_steps_and_by_the_clock() -> None:
    with pytest.raises(NotModelled, match="too many steps"):
        evaluate(NESTED, "gpu.example", GPU)
    with metered(lambda: True), pytest.raises(CutShort):
        evaluate(NESTED + " || false", "gpu.example", GPU)


def named(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, **rest}


def request(**more: Any) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **more}}]}}


def cluster(*objects: dict[str, Any], devices: int = 2, **device: Any) -> ClusterSnapshot:
    """Two nodes, of which n1 has devices; a template for claims on one."""
    cache = Cache()
    made = [{"name": f"d{number}", **device} for number in range(devices)]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    part = named("ResourceSlice", "s", spec={"driver": "gpu.example", "nodeName": "n1", "pool": pool, "devices": made})
    template = named("ResourceClaimTemplate", "one", spec={"spec": request()})
    for obj in (
        make_node("n1").obj,
        make_node("n2").obj,
        named("DeviceClass", "gpu", spec={}),
        part,
        template,
        *objects,
    ):
        cache.add(obj)
    return cache.snapshot()


def claiming(name: str, **claim: str) -> dict[str, Any]:
    return make_pod(name).spec(resourceClaims=[{"name": "c", **(claim or {"resourceClaimTemplateName": "one"})}]).obj


def test_pods_one_after_the_other_do_not_get_the_same_device() -> None:
    snapshot = cluster()
    first = predict(snapshot, claiming("a"))
    assert first.feasible == ["n1"]
    from policies.scheduling.schedule_one import Prediction

    second = Prediction(first.snapshot_after(), predict(snapshot, claiming("b")).pod)
    assert second.feasible == ["n1"]
    third = Prediction(second.snapshot_after(), predict(snapshot, claiming("c")).pod)
    assert third.feasible == []
    assert {s.reasons for s in third.statuses.values()} == {("cannot allocate all claims",)}


def test_preemption_frees_no_device() -> None:
    result = {"request": "r", "driver": "gpu.example", "pool": "n1", "device": "d0"}
    taken = named("ResourceClaim", "taken", spec=request(), status={"allocation": {"devices": {"results": [result]}}})
    prediction = predict(cluster(taken, devices=1), make_pod("p").priority(9).obj | claiming("p"))
    assert prediction.outcome == "pending"


@pytest.mark.parametrize(
    ("device", "why"),
    [
        ({"consumesCounters": [{"counterSet": "a", "counters": {}}]}, "DRAPartitionableDevices"),
        ({"allowMultipleAllocations": True}, "DRAConsumableCapacity"),
    ],
)
def test_what_is_not_modelled_is_named(device: dict[str, Any], why: str) -> None:
    prediction = predict(cluster(**device), claiming("p"))
    assert prediction.outcome == "not-predicted"
    assert why in prediction.not_predicted


def test_without_a_word_on_devices_nothing_is_predicted() -> None:
    cache = Cache()
    cache.add(make_node("n").obj)
    assert "tells of none" in predict(cache.snapshot(), claiming("p")).not_predicted


def test_a_claim_that_is_not_there_keeps_the_pod_waiting() -> None:
    prediction = predict(cluster(), claiming("p", resourceClaimName="nothing"))
    assert prediction.outcome == "pending"
    assert prediction.pre_filter is not None
    assert "nothing" in prediction.pre_filter.reasons[0]


@pytest.mark.parametrize(
    ("base", "scores"),
    [
        (Semantics(36), {"n1": 66, "n2": 50}),
        (Semantics(35).with_gates(DRAExtendedResource=True), {"n1": 66, "n2": 50}),
        (Semantics(34).with_gates(DRAExtendedResource=True), {"n1": 0, "n2": 0}),
    ],
)
def test_resources_that_a_class_provides_are_scored_by_its_devices(base: Semantics, scores: dict[str, int]) -> None:
    """Of three devices one is in use and one is asked for; n2 has two. Up to 1.34 they count as nothing."""
    resources = [{"name": "example.com/gpu", "weight": 1}]
    given = args(NodeResourcesFit={"scoringStrategy": {"type": "MostAllocated", "resources": resources}})
    cache = Cache(semantics=semantics(config({"pluginConfig": given}), base=base))
    result = {"request": "r", "driver": "gpu.example", "pool": "n1", "device": "d0"}
    taken = named("ResourceClaim", "taken", spec=request(), status={"allocation": {"devices": {"results": [result]}}})
    cel = {"cel": {"expression": 'device.driver == "gpu.example"'}}
    provides = named("DeviceClass", "gpu", spec={"extendedResourceName": "example.com/gpu", "selectors": [cel]})
    for obj in (make_node("n1").obj, make_node("n2").obj, provides, taken, offer("n1", 3), offer("n2", 2)):
        cache.add(obj)
    prediction = predict(cache.snapshot(), make_pod("p").request(**{"example.com/gpu": "1"}).obj)
    assert {node: row["NodeResourcesFit"] for node, row in prediction.to_dict()["scores"].items()} == scores


def test_columns_are_not_for_resources_that_a_class_provides_whatever_the_profile_leaves_out() -> None:
    """Without NodeResourcesFit nothing else in columns looks at what the pod requests."""
    given = config({"plugins": {"multiPoint": point(disabled=("NodeResourcesFit",))}})
    cache = Cache(semantics=semantics(given))
    provides = named("DeviceClass", "gpu", spec={"extendedResourceName": "example.com/gpu"})
    for obj in (make_node("n1").obj, make_node("n2").obj, provides, offer("n2", 2)):
        cache.add(obj)
    prediction = predict(cache.snapshot(), make_pod("p").request(**{"example.com/gpu": "1"}).obj)
    assert prediction.feasible == ["n2"]


def offer(node: str, count: int) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"d{number}"} for number in range(count)]
    spec = {"driver": "gpu.example", "nodeName": node, "pool": pool, "devices": devices}
    return named("ResourceSlice", node, spec=spec)


def rule(effect: str = "NoSchedule", selector: dict[str, str] | None = None) -> dict[str, Any]:
    selects = {} if selector is None else {"deviceSelector": selector}
    return named("DeviceTaintRule", "rule", spec={**selects, "taint": {"key": "broken", "effect": effect}})


@pytest.mark.parametrize(
    ("selector", "effect", "outcome"),
    [
        ({}, "NoSchedule", "pending"),
        ({}, "NoExecute", "pending"),
        ({}, "None", "fits"),
        (None, "NoSchedule", "fits"),
        ({"driver": "gpu.example", "pool": "n1", "device": "d0"}, "NoSchedule", "pending"),
        ({"pool": "n1"}, "NoSchedule", "pending"),
        ({"driver": "other.example"}, "NoSchedule", "fits"),
        ({"pool": "n2"}, "NoSchedule", "fits"),
        ({"device": "d1"}, "NoSchedule", "fits"),
    ],
)
def test_a_device_taint_rule_taints_the_devices_it_selects(
    selector: dict[str, str] | None, effect: str, outcome: str
) -> None:
    assert predict(cluster(rule(effect, selector), devices=1), claiming("a")).outcome == outcome


def test_a_request_tolerates_the_taint_of_a_rule() -> None:
    tolerating = request(tolerations=[{"key": "broken", "operator": "Exists"}])
    template = named("ResourceClaimTemplate", "tolerating", spec={"spec": tolerating})
    pod = claiming("a", resourceClaimTemplateName="tolerating")
    assert predict(cluster(rule(selector={}), template, devices=1), pod).fits


def test_a_device_taint_rule_is_ignored_where_its_gate_is_off() -> None:
    cache = Cache()
    for gate in ("DRADeviceTaintRules", "DRADeviceTaints"):
        snapshot = cluster(rule(selector={}), devices=1)
        off = replace(snapshot.objects, semantics=Semantics(36).with_gates(**{gate: False}))
        assert Prediction(Snapshot.build(off), admitted(claiming("a"), cache.snapshot())).fits
