"""Devices (DRA): recorded allocations, and what nobody predicts past."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.kubernetes.cluster.admission import admitted, predict
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.objects.devices import Device, RequestPolicy
from forewarn.policies.kubernetes.releases.release import known_minor
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.kubernetes.scheduling.devices import selectors
from forewarn.policies.kubernetes.scheduling.devices.claims import NotRepresentable, has_capacity, shares_of
from forewarn.policies.kubernetes.scheduling.devices.selectors import NotModelled, SelectorError, evaluate
from forewarn.policies.kubernetes.scheduling.foreign_plugins import guarded
from forewarn.policies.kubernetes.scheduling.framework import Plugin
from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction
from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot
from tests.builders import make_node, make_pod
from tests.cases import each
from tests.policies.scheduling.comparing import node_by_node
from tests.policies.scheduling.profiles import args, config, point, semantics
from tests.policies.scheduling.test_recorded import compare, rows_of
from tests.recorded.commands import cache_of_case, prediction_of_case

if TYPE_CHECKING:
    from collections.abc import Iterator

CASES = Path(__file__).parent / "cases"
FILES = ("devices.jsonl.gz", "device-shares.jsonl.gz")
GPU = Device(
    "d",
    {"model": "a100", "cores": 4, "healthy": True, "version": ("version", "1.3.0-rc.1"), "other.example/slot": 1},
    {"memory": 16 * 2**30 * 10**9},
)


def recorded() -> Iterator[tuple[str, Any, Any]]:
    return ((row["release"], row["case"], row["answer"]) for name in FILES for row in rows_of(name))


@each(recorded)
def test_recorded_allocations_are_met(release: str, case: Any, answer: Any) -> None:
    semantics, cache = Semantics(known_minor(release)), cache_of_case(case, count_nominated=True)
    compare(case, answer, prediction_of_case(case, count_nominated=True, semantics=semantics, cache=cache).to_dict())
    with node_by_node():
        prediction = prediction_of_case(case, count_nominated=True, semantics=semantics, cache=cache)
        compare(case, answer, prediction.to_dict())
        assert prediction.in_columns is None


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


def test_without_cel_python_selectors_are_not_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "celpy", None)
    with pytest.raises(NotModelled, match=r"need cel-python \(forewarn's extra `devices`\)"):
        evaluate("device.driver == 'not.evaluated.before'", "gpu.example", GPU)


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
    monkeypatch.setattr(selectors, "MAX_RETAINED", 0)
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
    from forewarn.policies.kubernetes.scheduling.schedule_one import Prediction

    second = Prediction(first.snapshot_after(), predict(snapshot, claiming("b")).pod)
    assert second.feasible == ["n1"]
    third = Prediction(second.snapshot_after(), predict(snapshot, claiming("c")).pod)
    assert third.feasible == []
    assert {s.reasons for s in third.statuses.values()} == {("cannot allocate all claims",)}


def test_columns_support_pods_with_claims() -> None:
    snapshot = cluster(make_pod("low").request(cpu="3").on("n1").obj)
    small = predict(snapshot, claiming("a"))
    assert (small.without_columns, small.node, small.outcome) == ("", "n1", "fits")
    wants = make_pod("b").request(cpu="3").priority(9).obj
    large = predict(snapshot, {**wants, "spec": {**claiming("b")["spec"], **wants["spec"]}})
    assert (large.without_columns, large.node, large.outcome) == ("", "n1", "preempts")
    assert large.statuses["n2"].reasons == ("cannot allocate all claims",)


def test_preemption_frees_no_device() -> None:
    result = {"request": "r", "driver": "gpu.example", "pool": "n1", "device": "d0"}
    taken = named("ResourceClaim", "taken", spec=request(), status={"allocation": {"devices": {"results": [result]}}})
    prediction = predict(cluster(taken, devices=1), make_pod("p").priority(9).obj | claiming("p"))
    assert prediction.outcome == "pending"


COUNTERS = {"consumesCounters": [{"counterSet": "a", "counters": {}}]}
LARGE = [{"counterSet": "a", "counters": {"memory": {"value": "9Ti"}}}]
RANGE = {"memory": {"value": "8Gi", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "0"}}}}


@pytest.mark.parametrize(
    ("base", "device", "why"),
    [
        (Semantics(35).with_gates(DRAPartitionableDevices=True), COUNTERS, "DRAPartitionableDevices"),
        (Semantics(36).with_gates(DRAPartitionableDevices=False), COUNTERS, "DRAPartitionableDevices"),
        (Semantics(35), {"allowMultipleAllocations": True}, "DRAConsumableCapacity"),
        (Semantics(37).with_gates(DRAConsumableCapacity=False), {"allowMultipleAllocations": True}, "DRAConsumable"),
        (Semantics(36), {"consumesCounters": LARGE}, "amounts of devices of this size"),
        (Semantics(37), {"capacity": RANGE}, "request policies without usable steps"),
        (Semantics(37), {"nodeAllocatableResources": {"cpu": {}}}, "DRANodeAllocatableResources"),
        (Semantics(37), {"attributes": {"links": {"ints": [1, 2]}}}, "DRAListTypeAttributes"),
        (Semantics(37), {"consumesCounters": [{"compatibilityGroups": ["a"]}]}, "DRADeviceCompatibilityGroups"),
    ],
)
def test_what_is_not_modelled_is_named(base: Semantics, device: dict[str, Any], why: str) -> None:
    snapshot = cluster(**device)
    objects = replace(snapshot.objects, semantics=base)
    prediction = Prediction(Snapshot.build(objects), admitted(claiming("p"), snapshot))
    assert prediction.outcome == "not-predicted"
    assert why in prediction.not_predicted


def test_a_search_without_end_is_not_predicted() -> None:
    """All but the last two devices agree; upstream tries every choice of seven of them before it knows."""
    devices = [{"name": f"d{n:03}", "attributes": {"half": {"int": n % 2}}} for n in range(60)]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    part = named(
        "ResourceSlice", "s", spec={"driver": "gpu.example", "nodeName": "n1", "pool": pool, "devices": devices}
    )
    exactly = {"deviceClassName": "gpu", "count": 8}
    requests = [{"name": name, "exactly": exactly} for name in ("a", "b")]
    constraints = [{"matchAttribute": "gpu.example/half"}, {"distinctAttribute": "gpu.example/half", "requests": ["b"]}]
    spec = {"spec": {"devices": {"requests": requests, "constraints": constraints}}}
    snapshot = cluster(part, named("ResourceClaimTemplate", "many", spec=spec))
    prediction = predict(snapshot, claiming("p", resourceClaimTemplateName="many"))
    assert prediction.not_predicted == "plugin DynamicResources tries more than 20000 devices on one node"


def test_the_next_pod_with_a_claim_goes_where_its_devices_are() -> None:
    snapshot = cluster(named("ResourceClaim", "ours", spec=request()))
    first = predict(snapshot, claiming("a", resourceClaimName="ours"))
    assert first.feasible == ["n1"]
    second = Prediction(first.snapshot_after(), predict(snapshot, claiming("b", resourceClaimName="ours")).pod)
    assert second.feasible == ["n1"]
    assert second.statuses["n2"].reasons == ("resourceclaim not available on the node",)


SHARE = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "8Gi"}}}


def test_pods_one_after_the_other_share_a_device_until_it_is_full() -> None:
    template = named("ResourceClaimTemplate", "part", spec={"spec": request(capacity={"requests": {"memory": "3Gi"}})})
    pods = [claiming(name, resourceClaimTemplateName="part") for name in "abc"]
    state = cluster(template, devices=1, **SHARE)
    snapshot, outcomes = Snapshot.build(state.objects), []
    for pod in pods:
        prediction = Prediction(snapshot, admitted(pod, state))
        outcomes.append(prediction.outcome)
        snapshot = prediction.snapshot_after()
    assert outcomes == ["fits", "fits", "pending"]


@pytest.mark.parametrize(
    ("conditions", "more", "outcome"),
    [
        ({"ready": "True"}, {}, "fits"),
        ({}, {}, "fits"),
        ({"ready": "True", "failed": "True"}, {}, "pending"),
        ({"ready": "True"}, {"allocationTimestamp": "2026-01-01T00:00:00Z"}, "fits"),
        ({"ready": "False"}, {"allocationTimestamp": "2026-01-01T00:00:00Z"}, "not-predicted"),
        ({"ready": "False"}, {}, "fits"),
    ],
)
def test_devices_that_are_made_ready(conditions: dict[str, str], more: dict[str, str], outcome: str) -> None:
    device = {"driver": "gpu.example", "pool": "n1", "device": "d0"}
    result = {"request": "r", **device, "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    told = [{**device, "conditions": [{"type": name, "status": status} for name, status in conditions.items()]}]
    status = {"allocation": {"devices": {"results": [result]}, **more}, "devices": told}
    snapshot = cluster(named("ResourceClaim", "ours", spec=request(), status=status))
    assert predict(snapshot, claiming("p", resourceClaimName="ours")).outcome == outcome


def test_slices_and_claims_of_v1beta1() -> None:
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "d", "basic": {"attributes": {"model": {"string": "a100"}}}}]
    part = named(
        "ResourceSlice", "s", spec={"driver": "gpu.example", "nodeName": "n1", "pool": pool, "devices": devices}
    )
    selectors = [{"cel": {"expression": 'device.attributes["gpu.example"].model == "a100"'}}]
    spec = {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu", "selectors": selectors}]}}
    claim = named("ResourceClaim", "ours", spec=spec)
    older = [{**each, "apiVersion": "resource.k8s.io/v1beta1"} for each in (part, claim)]
    assert predict(cluster(*older), claiming("p", resourceClaimName="ours")).feasible == ["n1"]


def test_a_pod_whose_devices_are_not_ready_yet_has_a_caveat() -> None:
    awaited = predict(cluster(bindingConditions=["ready"]), claiming("p"))
    assert awaited.outcome == "fits"
    assert any("must be made ready" in caveat for caveat in awaited.caveats)
    assert not any("ready" in caveat for caveat in predict(cluster(), claiming("p")).caveats)


@pytest.mark.parametrize(("users", "outcome"), [(255, "fits"), (256, "pending")])
def test_a_claim_has_so_many_users_at_most(users: int, outcome: str) -> None:
    result = {"request": "r", "driver": "gpu.example", "pool": "n1", "device": "d0"}
    reserved = [{"resource": "pods", "name": f"p{n}", "uid": f"u{n}"} for n in range(users)]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    snapshot = cluster(named("ResourceClaim", "ours", spec=request(), status=status))
    assert predict(snapshot, claiming("p", resourceClaimName="ours")).outcome == outcome


GI = 2**30 * 10**9


@pytest.mark.parametrize(
    ("wanted", "policy", "fractional", "takes"),
    [
        (None, None, False, 8 * GI),
        (None, RequestPolicy(default=GI), False, GI),
        (3 * GI, None, False, 3 * GI),
        (3 * GI, RequestPolicy(GI, values=(GI, 4 * GI)), False, 4 * GI),
        (1, RequestPolicy(GI, least=GI), False, GI),
        (GI + 1, RequestPolicy(GI, least=GI, step=2 * GI), False, 3 * GI),
        (600_000_000, RequestPolicy(0, least=0, step=500_000_000), True, 10**9),
        (600_000_000, RequestPolicy(0, least=0, step=500_000_000), False, 10**9),
        (1_200_000_000, RequestPolicy(0, least=0, step=500_000_000), True, 1_500_000_000),
        (1_200_000_000, RequestPolicy(0, least=0, step=500_000_000), False, 2 * 10**9),
    ],
)
def test_what_a_request_takes_of_a_capacity(
    wanted: int | None, policy: RequestPolicy | None, fractional: bool, takes: int
) -> None:
    device = Device("d", capacity={"memory": 8 * GI}, shared=True, policies={"memory": policy} if policy else {})
    asked = {} if wanted is None else {"memory": wanted}
    assert shares_of(device, asked, fractional=fractional) == {"memory": takes}
    assert has_capacity(device, asked, [{"memory": 8 * GI - takes}], fractional=fractional)
    assert not has_capacity(device, asked, [{"memory": 8 * GI - takes + 1}], fractional=fractional)


def test_a_share_that_cannot_be_counted_in_steps_is_an_error() -> None:
    policy = RequestPolicy(0, least=0, step=10**9)
    device = Device("d", capacity={"memory": 2**80}, shared=True, policies={"memory": policy})
    with pytest.raises(NotRepresentable):
        has_capacity(device, {"memory": 1}, [], fractional=True)
    with pytest.raises(NotRepresentable):
        has_capacity(device, {"memory": 2**63 * 10**9}, [], fractional=False)


def test_without_a_word_on_devices_nothing_is_predicted() -> None:
    cache = Cache()
    cache.add(make_node("n").obj)
    assert "contains none" in predict(cache.snapshot(), claiming("p")).not_predicted


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


def test_a_foreign_score_plugin_leaves_the_scores_of_alternatives() -> None:
    """Columns filter, but the plugins score node by node: by the devices that their own filter allocates."""

    class Mine(Plugin):
        name: ClassVar[str] = "Mine"

        def score(self, state: Any, pod: Any, node_info: Any) -> int:
            return 0

    alternatives = [{"name": name, "deviceClassName": name} for name in ("large", "small")]
    template = {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": alternatives}]}}}
    cache = Cache(semantics=semantics(config({"plugins": {"score": point("Mine")}}), guarded(Mine)))
    classes = [
        named("DeviceClass", name, spec={"selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}]})
        for name, driver in (("large", "gpu.example"), ("small", "cpu.example"))
    ]
    small = offer("n2", 1)
    small["spec"]["driver"] = "cpu.example"
    nodes = make_node("n1").obj, make_node("n2").obj
    for obj in (*nodes, *classes, offer("n1", 1), small, named("ResourceClaimTemplate", "either", spec=template)):
        cache.add(obj)
    prediction = predict(cache.snapshot(), claiming("p", resourceClaimTemplateName="either"))
    assert prediction.without_columns == ""
    assert prediction.best_nodes == ["n1"]
    assert prediction.scores["n1"]["DynamicResources"] > prediction.scores["n2"]["DynamicResources"]


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
