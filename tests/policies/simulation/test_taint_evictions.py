"""NoExecute taints: who leaves a node, and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.controllers.taint_eviction import eviction_time, taints_of_devices
from forewarn.policies.kubernetes.objects.devices import DeviceTaintRule, ResourceClaim, ResourceSlice
from forewarn.policies.kubernetes.objects.pod import Pod
from tests.builders import make_node, make_pod
from tests.recorded.commands import answer_scenario as answer_case

Obj = dict[str, Any]


def gone_at(tolerations: list[Obj], taints: list[Obj], *more: Obj) -> float | None:
    """When a pod of a node is deleted that gets these taints at 10 s; its grace is over a second later."""
    pod = make_pod("a").on("n1").spec(tolerations=tolerations, terminationGracePeriodSeconds=1).obj
    tainted = {"at": 10, "op": "update", "object": make_node("n1").spec(taints=taints).obj}
    case = {"nodes": [make_node("n1").obj], "pods": [pod], "arrivals": [tainted, *more], "scalingDown": True}
    (outcome,) = answer_case(case)["outcomes"]
    times = {event["event"]: event["t"] for event in outcome["timeline"]}
    if "deleted" not in times:
        return None
    assert 1 <= times["gone"] - times["deleted"] < 1.01
    return float(times["deleted"])


TAINT = {"key": "own", "effect": "NoExecute"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
EXISTS = {"key": "own", "operator": "Exists"}


@pytest.mark.parametrize(
    ("tolerations", "taints", "when"),
    [
        ([], [TAINT], 10.0),
        ([], [{"key": "own", "effect": "NoSchedule"}], None),
        ([EXISTS], [TAINT], None),
        ([{**EXISTS, "tolerationSeconds": 60}], [TAINT], 70.0),
        ([{**EXISTS, "tolerationSeconds": 60}], [TAINT, {"key": "other", "effect": "NoExecute"}], 10.0),
        ([{**EXISTS, "tolerationSeconds": -1}], [TAINT], 10.0),
        ([], [UNREACHABLE], 310.0),
        ([{**UNREACHABLE, "operator": "Equal", "value": "x"}], [UNREACHABLE], 10.0),
        ([{"operator": "Exists", "effect": "NoSchedule"}], [UNREACHABLE], 310.0),
        ([{"operator": "Exists", "tolerationSeconds": 5}], [UNREACHABLE], 15.0),
    ],
    ids=[
        *("none", "no-schedule", "for good", "a minute", "one of two", "negative", "as admission has it"),
        *("of another value", "of another effect", "of every key"),
    ],
)
def test_a_pod_leaves_when_it_tolerates_no_longer(
    tolerations: list[Obj], taints: list[Obj], when: float | None
) -> None:
    found = gone_at(tolerations, taints)
    assert (found is None) == (when is None)
    assert found is None or when is None or when <= found < when + 0.01


def test_a_taint_that_goes_in_time_lets_it_stay() -> None:
    again = {"at": 30, "op": "update", "object": make_node("n1").obj}
    assert gone_at([{**EXISTS, "tolerationSeconds": 60}], [TAINT], again) is None


HALF_A_MINUTE = {**EXISTS, "tolerationSeconds": 30}
AT_ONCE = {"key": "other", "operator": "Exists", "tolerationSeconds": 0}
LOST = {"at": 20, "op": "delete", "object": make_node("n1").obj}


@pytest.mark.parametrize(
    ("arrivals", "when"),
    [
        ([{"op": "update", "object": make_node("n1").spec(taints=[TAINT, {**TAINT, "key": "other"}]).obj}], 40.0),
        ([{"op": "update", "object": make_node("n1").spec(taints=[TAINT, {**TAINT, "key": "third"}]).obj}], 25.0),
        ([], 40.0),
        ([{"op": "create", "object": make_node("n1").obj}], None),
        ([{"op": "create", "object": make_node("n1").spec(taints=[TAINT]).obj}], 40.0),
    ],
    ids=["a taint tolerated for no time", "one not tolerated", "a lost node", "back without", "back with its taint"],
)
def test_what_was_arranged_stays_until_no_taint_is_left_or_one_is_not_tolerated(
    arrivals: list[Obj], when: float | None
) -> None:
    """The times are those of `oracle scenarios`. Source: upstream `processPodOnNode`, `handleNodeUpdate`."""
    lost = [] if arrivals and arrivals[0]["op"] == "update" else [LOST]
    found = gone_at([HALF_A_MINUTE, AT_ONCE], [TAINT], *lost, *({"at": 25, **arrival} for arrival in arrivals))
    assert (found is None) == (when is None)
    assert found is None or when is None or when <= found < when + 0.01


def test_a_pod_that_comes_later_counts_from_when_it_is_bound() -> None:
    pod = make_pod("a").spec(tolerations=[{**EXISTS, "tolerationSeconds": 60}]).obj
    node = make_node("n1").spec(taints=[TAINT]).obj
    case = {"nodes": [node], "arrivals": [{"at": 20, "op": "create", "object": pod}], "scalingDown": True}
    (outcome,) = answer_case(case)["outcomes"]
    (deleted,) = [event["t"] for event in outcome["timeline"] if event["event"] == "deleted"]
    assert 80 <= deleted < 80.02


@pytest.mark.parametrize(
    ("arrivals", "waits"),
    [
        ([], True),
        ([{"op": "update", "object": make_node("n1").spec(taints=[TAINT]).obj}], False),
        ([{"op": "drain", "object": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}}], False),
    ],
    ids=["for the pod alone", "for a taint too", "for a drain too"],
)
def test_a_victim_that_ends_for_another_reason_too_is_not_waited_for(arrivals: list[Obj], waits: bool) -> None:
    """Whoever evicts it last writes the condition DisruptionTarget, and the pod that preempted it looks for victims
    again. The answers are those of `oracle scenarios`. Source: upstream `podTerminatingByPreemption`."""
    victim = make_pod("victim").on("n1").request(cpu="4").spec(tolerations=[{**EXISTS, "tolerationSeconds": 30}]).obj
    victim["spec"]["terminationGracePeriodSeconds"] = 300
    other, stays = (make_pod(name).on("n2").request(cpu="2").priority(9).obj for name in ("other", "stays"))
    high = make_pod("high").request(cpu="3").priority(9).spec(tolerations=[{"operator": "Exists"}]).obj
    case = {
        "nodes": [make_node("n1").obj, make_node("n2").obj],
        "pods": [victim, other, stays],
        "arrivals": [
            {"at": 1, "op": "create", "object": high},
            *({"at": 10, **arrival} for arrival in arrivals),
            {"at": 50, "op": "delete", "object": other},
        ],
        "scalingDown": True,
    }
    (outcome,) = answer_case(case)["outcomes"]
    assert "default/victim" in {event.get("pod") for event in outcome["timeline"] if event["event"] == "preempted"}
    (again,) = [e["message"] for e in outcome["timeline"] if e["event"] == "unschedulable" and e["t"] > 80]
    assert ("not eligible due to a terminating pod" in again) == waits


def test_in_the_world_of_the_recordings_nobody_leaves() -> None:
    pod, tainted = make_pod("a").on("n1").obj, make_node("n1").spec(taints=[TAINT]).obj
    arrivals = [{"at": 10, "op": "update", "object": tainted}]
    case = {"nodes": [make_node("n1").obj], "pods": [pod], "arrivals": arrivals, "scalingDown": False}
    assert not [e for e in answer_case(case)["outcomes"][0]["timeline"] if e["event"] == "deleted"]


DEVICE = {"driver": "gpu.example", "pool": "n1", "device": "d0"}
BROKEN = {"key": "broken", "effect": "NoExecute", "timeAdded": "1970-01-01T00:16:40Z"}
TOLERATES = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}


def claiming() -> Obj:
    pod = make_pod("train").on("n1").spec(resourceClaims=[{"name": "c", "resourceClaimName": "ours"}]).obj
    pod["metadata"]["uid"] = "u1"
    return pod


def claim(tolerations: list[Obj], uid: str = "u1") -> Obj:
    results = [{"request": "r", **DEVICE, "tolerations": tolerations}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": uid}]}
    return named("ResourceClaim", "ours", status=status)


def rule(**selector: str) -> Obj:
    return named("DeviceTaintRule", "rule", spec={"deviceSelector": selector, "taint": BROKEN})


def named(kind: str, name: str, **rest: Any) -> Obj:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, **rest}


@pytest.mark.parametrize(
    ("tolerations", "taints", "rules", "when"),
    [
        ([], [BROKEN], [], 1000),
        ([], [{**BROKEN, "effect": "NoSchedule"}], [], None),
        ([], [], [rule(driver="gpu.example")], 1000),
        ([], [], [rule(driver="nic.example")], None),
        ([TOLERATES], [BROKEN], [], None),
        ([{**TOLERATES, "effect": ""}], [BROKEN], [], 1000),
        ([{**TOLERATES, "tolerationSeconds": 60}], [BROKEN], [], 1060),
        ([{**TOLERATES, "tolerationSeconds": -9}], [BROKEN], [], 1000),
        ([TOLERATES, {**TOLERATES, "tolerationSeconds": 60}], [BROKEN], [], None),
        ([{**TOLERATES, "tolerationSeconds": 60}], [{**BROKEN, "key": "other"}], [rule()], 1000),
    ],
)
def test_when_a_pod_leaves_for_the_taints_of_its_devices(
    tolerations: list[Obj], taints: list[Obj], rules: list[Obj], when: int | None
) -> None:
    pool = {"name": "n1", "generation": 2, "resourceSliceCount": 1}
    old = {"driver": "gpu.example", "pool": {**pool, "generation": 1}, "devices": [{"name": "d0", "taints": [BROKEN]}]}
    new = {"driver": "gpu.example", "pool": pool, "devices": [{"name": "d0", "taints": taints}]}
    slices = [ResourceSlice.from_api(named("ResourceSlice", "s", spec=spec)) for spec in (old, new)]
    claims = {("default", "ours"): ResourceClaim.from_api(claim(tolerations))}
    found = [DeviceTaintRule.from_api(each) for each in rules]
    assert eviction_time(Pod.from_api(claiming()), claims, taints_of_devices(slices), found) == when


def test_a_pod_without_a_share_in_the_claim_stays() -> None:
    claims = {("default", "ours"): ResourceClaim.from_api(claim([], uid="another"))}
    assert eviction_time(Pod.from_api(claiming()), claims, {}, [DeviceTaintRule.from_api(rule())]) is None


@pytest.mark.parametrize(("tolerations", "running"), [([], 0), ([TOLERATES], 1)])
def test_a_simulation_evicts_for_a_device_taint_rule(
    tolerations: list[Obj], running: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [make_node("n1").obj, make_node("n2").obj]
    items = [*nodes, claiming(), claim(tolerations), rule(), named("DeviceClass", "gpu", spec={})]
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    main(["whatif", "lose", "node", "n2", "--cluster", str(tmp_path / "cluster.json"), "-o", "json"])
    assert json.loads(capsys.readouterr().out)["running"] == {"before": 1, "after": running}
