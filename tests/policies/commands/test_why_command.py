"""`forewarn why`: which trouble holds for a pod, and what would help."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.questions.why import evidence
from forewarn.policies.questions.why.evidence import IDS
from tests.builders import (
    Made,
    cluster_text,
    make_budget,
    make_claim,
    make_node,
    make_pod,
    make_storage_class,
    make_volume,
)
from tests.in_process import captured

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, made: Sequence[Made], *arguments: str
) -> tuple[int, str, str]:
    dump = tmp_path / "dump.json"
    dump.write_text(cluster_text(made))
    status, out, err = captured(capsys, "why", *arguments, "--cluster", str(dump))
    return status, out if "json" in arguments else flat(out), err


def flat(out: str) -> str:
    """The first line, and the others on one line."""
    first, end, rest = out.partition("\n")
    return f"{first}{end}{' '.join(rest.split())}"


def troubles(out: str) -> list[str]:
    return [trouble["id"] for trouble in json.loads(out)["troubles"]]


def priority_class(name: str, value: int, **fields: Any) -> Made:
    made = Made("scheduling.k8s.io/v1", "PriorityClass", name)
    made.obj.update(value=value, **fields)
    return made


PENDING = make_pod("new").priority(5).request(cpu="2")
FULL = [make_node("n1"), make_pod("old").priority(9).request(cpu="4").on("n1")]


@pytest.mark.parametrize(
    ("made", "state", "expected"),
    [
        ([PENDING, make_node("n1")], "pending", ["not-tried-yet"]),
        ([PENDING, *FULL], "pending", ["fits-nowhere"]),
        ([PENDING], "pending", ["fits-nowhere"]),
        ([make_pod("new").priority(5).request(cpu="2").spec(preemptionPolicy="Never"), *FULL], "pending",
         ["never-preempts"]),
        ([PENDING, make_node("n1"), make_pod("old").request(cpu="4").on("n1")], "pending",
         ["will-preempt"]),
        ([make_pod("new").spec(schedulingGates=[{"name": "g"}]), *FULL], "pending", ["gated"]),
        ([make_pod("new").spec(tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(2000)]), *FULL],
         "pending", ["not-predicted"]),
        ([make_pod("new").spec(schedulerName="other"), *FULL], "pending", ["other-scheduler"]),
        ([make_pod("new").terminating(), *FULL], "pending", ["being-deleted"]),
        ([make_pod("new").priority(5).spec(priorityClassName="gone"), make_node("n1"), priority_class("c", 7)],
         "pending", ["not-tried-yet", "class-gone"]),
        ([make_pod("new").priority(5).spec(priorityClassName="gone"), make_node("n1")], "pending",
         ["not-tried-yet", "class-gone"]),
        ([make_pod("new").priority(5).spec(priorityClassName="c"), make_node("n1"), priority_class("c", 7)], "pending",
         ["not-tried-yet", "class-changed"]),
        ([make_pod("new").priority(5).request(cpu="4").nominated("n1"), make_node("n1"),
          make_pod("old").request(cpu="4").on("n1").terminating(preempted=True)], "pending",
         ["waits-for-termination"]),
        ([make_pod("new").priority(5).request(cpu="4").nominated("n1"), make_node("n1"),
          make_pod("old").request(cpu="4").on("n1").terminating()], "pending",
         ["waits-for-termination"]),
        ([make_pod("new").priority(5).request(cpu="3").nominated("n1"), make_node("n1").has(cpu="4"),
          make_pod("low").request(cpu="3").on("n1"), make_pod("old").request(cpu="1").on("n1").terminating()],
         "pending", ["will-preempt"]),
        ([make_pod("new").priority(5).request(cpu="4").nominated("n1"), *FULL], "pending",
         ["overtaken", "fits-nowhere"]),
        ([make_pod("new").priority(5).nominated("n1"), make_node("n1").spec(unschedulable=True), *FULL[1:]], "pending",
         ["fits-nowhere"]),
        ([make_pod("new").priority(5).nominated("gone"), make_node("n1")], "pending",
         ["not-tried-yet"]),
        ([make_pod("new").priority(5).request(cpu="2").nominated("gone"), *FULL], "pending",
         ["nominated-node-gone", "fits-nowhere"]),
        ([make_pod("new").priority(5).request(cpu="4").nominated("n1"), make_node("n1"), make_node("n2"),
          make_pod("old").request(cpu="4").on("n1").terminating(preempted=True)], "pending",
         ["not-tried-yet"]),
        ([make_pod("new").on("n1"), make_node("n1")], "running", []),
        ([make_pod("new").on("n1").status(phase="Failed"), make_node("n1")], "ended", []),
        ([make_pod("new").on("n1").terminating(preempted=True), make_node("n1")], "preempted", ["preempted"]),
    ],
)  # fmt: skip
def test_each_trouble_is_told_by_its_id(
    made: list[Made], state: str, expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, tmp_path, made, "default/new", "-o", "json")
    assert (status, err) == (0, "")
    assert json.loads(out)["state"] == state
    assert troubles(out) == expected
    assert run(capsys, tmp_path, made, "new", "--fail-on", expected[0] if expected else state)[0] == 1


ELSEWHERE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}
WITH_CLAIM = make_pod("new").spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
IMMEDIATE = make_storage_class("fast", "Immediate")
NO_PROVISIONER = make_storage_class("local", provisioner="kubernetes.io/no-provisioner")


@pytest.mark.parametrize(
    ("made", "reason", "fix"),
    [
        ([make_claim("other")], 'PersistentVolumeClaim "data" not found', "create what is missing first"),
        (
            [make_claim("data", storageClassName="fast"), IMMEDIATE],
            "its PersistentVolumeClaims are not bound",
            "check why its claims are not bound (kubectl describe pvc)",
        ),
        (
            [make_claim("data", "pv"), make_volume("other")],
            'PersistentVolume "pv" not found',
            "create what is missing first",
        ),
        (
            [make_claim("data", "pv").metadata(deletionTimestamp="2026-01-01T00:00:00Z"), make_volume("pv")],
            'PersistentVolumeClaim "data" is being deleted',
            "recreate the claim after its deletion",
        ),
        (
            [make_claim("data", "pv"), make_volume("pv", nodeAffinity=ELSEWHERE)],
            "its PersistentVolume is not available there",
            "add nodes where its volume is available",
        ),
        (
            [make_claim("data", storageClassName="local"), NO_PROVISIONER],
            "no PersistentVolume that its claim can use",
            "create a PersistentVolume that its claim can use",
        ),
    ],
    ids=["missing", "unbound", "lost volume", "deleted", "wrong node", "no volume"],
)
def test_a_problem_of_a_claim_has_the_reason_and_fix_of_predict(
    made: list[Made], reason: str, fix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, tmp_path, [WITH_CLAIM, make_node("n1"), *made], "default/new")
    assert reason in out
    assert f". Fix: {fix}" in out
    (tmp_path / "pod.json").write_text(json.dumps({**WITH_CLAIM.obj, "metadata": {"name": "next"}}))
    (tmp_path / "cluster.json").write_text(cluster_text([make_node("n1"), *made]))
    assert main(["predict", "-f", str(tmp_path / "pod.json"), "--cluster", str(tmp_path / "cluster.json")]) == 0
    out = flat(capsys.readouterr().out)
    assert reason in out
    assert f". Fix: {fix}" in out


@pytest.mark.parametrize(
    ("latest", "finalizers", "text"),
    [
        ("2026-01-31T00:00:00Z", [], "terminate on n1 (default/old): up to 30 seconds each"),
        ("2026-02-01T00:00:01Z", [], "(default/old); default/old still exists after the grace period."),
        ("2026-02-01T00:00:01Z", ["x.io/hold"], "still exists after the grace period (finalizers: x.io/hold)."),
    ],
)
def test_no_time_is_promised_for_a_pod_that_outlived_its_grace_period(
    latest: str, finalizers: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": latest}
    old = make_pod("old").request(cpu="4").on("n1").terminating(preempted=True).metadata(finalizers=finalizers)
    node = make_node("n1").status(conditions=[heartbeat])
    new = make_pod("new").priority(5).request(cpu="4").nominated("n1")
    assert text in run(capsys, tmp_path, [new, node, old], "default/new")[1]


UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def test_a_gate_names_what_holds_the_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A profile may disable SchedulingGates; kube-apiserver still binds no gated Pod."""
    profile = {"plugins": {"preEnqueue": {"disabled": [{"name": "SchedulingGates"}]}}}
    scheduler = tmp_path / "scheduler.json"
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    scheduler.write_text(json.dumps({**header, "profiles": [profile]}))
    made = [make_node("n1"), make_pod("new").spec(schedulingGates=[{"name": "g"}])]
    for options, why in (
        ((), "kept out of the scheduling queue by 1 scheduling gate (g)"),
        (("--scheduler-config", str(scheduler)), "kube-apiserver rejects its binding because of 1 scheduling gate (g)"),
    ):
        _, out, err = run(capsys, tmp_path, made, "new", *options)
        assert why in out, err


@pytest.mark.parametrize(
    ("tolerations", "then"),
    [
        ([{"key": UNREACHABLE["key"], "operator": "Exists", "tolerationSeconds": 300}],
         "the Pod is deleted 300 seconds after the NoExecute taint (added at 2026-01-01T00:00:00Z)"),
        ([{"operator": "Exists"}], "the Pod tolerates its NoExecute taint without limit, and stays"),
        ([], "the Pod does not tolerate its NoExecute taint, and is deleted"),
    ],
)  # fmt: skip
def test_a_running_pod_on_a_lost_node_shows_its_toleration(
    tolerations: list[dict[str, Any]], then: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [make_pod("new").on("n1").spec(tolerations=tolerations), make_node("n1").spec(taints=[UNREACHABLE])]
    _, out, _ = run(capsys, tmp_path, made, "default/new", "-o", "json")
    (trouble,) = json.loads(out)["troubles"]
    assert (trouble["id"], trouble["message"]) == (
        "node-not-ready",
        f"n1 has the NoExecute taint {UNREACHABLE['key']}; {then}",
    )


@pytest.mark.parametrize(
    ("reasons", "cause"),
    [
        ([], "(ContainerCreating)"),
        (["Pulling"], "(ContainerCreating): Pulling: m"),
        (["Pulling", "Pulled"], "(ContainerCreating)"),
        (["Pulled", "FailedMount"], "(ContainerCreating): FailedMount: m"),
    ],
)
def test_a_container_that_is_not_created_shows_the_last_step(
    reasons: list[str], cause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = {"name": "app", "state": {"waiting": {"reason": "ContainerCreating"}}}
    made = [make_pod("new").on("n1").status(phase="Pending", containerStatuses=[status]), make_node("n1")]
    for minute, reason in enumerate(reasons):
        event = Made("v1", "Event", f"e{minute}", "default")
        about = {"kind": "Pod", "namespace": "default", "name": "new"}
        event.obj.update(reason=reason, message="m", involvedObject=about, lastTimestamp=f"2026-01-01T00:0{minute}:00Z")
        made.append(event)
    _, out, _ = run(capsys, tmp_path, made, "default/new", "-o", "json")
    (trouble,) = json.loads(out)["troubles"]
    assert (trouble["id"], trouble["message"]) == (
        "container-waiting",
        f"container app is not created yet {cause}",
    )


def victim_world(budget: int | None, *, elsewhere: str = "4") -> list[Made]:
    """`new` is pushed out of n1, and one of lower priority stays on n2."""
    stays = make_pod("lower").request(cpu=elsewhere).on("n2").labels(app="lower")
    return [
        make_node("n1"),
        make_node("n2"),
        make_pod("new").priority(3).request(cpu="4").on("n1").terminating(preempted=True),
        stays,
        make_pod("high").priority(9).request(cpu="4").nominated("n1"),
        *([] if budget is None else [make_budget("b", budget, app="lower")]),
    ]


def test_a_victim_reads_for_whom_and_why_no_lower_one_went(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, tmp_path, victim_world(0), "default/new")
    assert "preempted on n1 by default/high (priority 9; its own is 3)" in out
    assert "a Pod of priority 0 on n2 is not preempted: preempting it would violate a PDB" in out
    _, out, _ = run(capsys, tmp_path, victim_world(None), "default/new")
    assert (
        "a Pod of priority 0 on n2 is not preempted: 1 Pod would be preempted there, at a lower cost; the node " in out
    )
    equal = make_pod("equal").priority(3).request(cpu="2").on("n2")
    _, out, _ = run(capsys, tmp_path, [*victim_world(None, elsewhere="2"), equal], "default/new")
    assert "a Pod of priority 0 on n2 is not preempted: 2 Pods would be preempted there, at no lower cost" in out
    made = victim_world(None)
    made[1].spec(unschedulable=True)
    _, out, _ = run(capsys, tmp_path, made, "default/new")
    assert "that node is no candidate for default/high (node(s) were unschedulable)" in out
    made = [*victim_world(None, elsewhere="2"), make_pod("other").priority(5).request(cpu="2").on("n2")]
    _, out, _ = run(capsys, tmp_path, made, "default/new")
    assert "a Pod of priority 5 would be preempted there too" in out


def test_a_victim_that_the_cluster_no_longer_explains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`new` was preempted, but now the preemption of `lowest` on its node is enough."""
    made = [*victim_world(None), make_pod("lowest").request(cpu="4").on("n1")]
    made[0].status(allocatable={"cpu": "8", "memory": "8Gi", "pods": "110"})
    _, out, _ = run(capsys, tmp_path, made, "default/new")
    reason = "kube-scheduler would now preempt default/lowest (priority 0) on n1 instead: the cluster has changed since"
    assert f"preempted before lower: {reason}" in out
    assert out.count("preempted before lower") == 1


def test_equal_fixes_are_printed_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lower = [make_pod(f"lower-{number}").request(cpu="4").on(f"n{number}") for number in (3, 4)]
    made = [*victim_world(None), make_node("n3"), make_node("n4"), *lower]
    _, out, _ = run(capsys, tmp_path, made, "default/new")
    assert out.count("preempted before lower") == 3
    assert out.count(". Fix: check PDBs and constraints") == 1


@pytest.mark.parametrize(
    ("classes", "trouble"),
    [
        ([priority_class("c", 9, globalDefault=True)], ["preempted-for-the-default"]),
        ([priority_class("c", 9)], []),
        ([priority_class("other", 9)], ["preempted-for-a-class-that-is-gone"]),
        ([], ["preempted-for-a-class-that-is-gone"]),
    ],
)
def test_a_priority_that_nobody_may_have_meant_is_told(
    classes: list[Made], trouble: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [*victim_world(None), *classes]
    made[4].spec(priorityClassName="c")
    made = [one for one in made if one.obj["metadata"]["name"] != "lower"]
    _, out, _ = run(capsys, tmp_path, made, "default/new", "-o", "json")
    assert troubles(out) == ["preempted", *trouble]


@pytest.mark.parametrize("made", [[make_node("n1"), PENDING], victim_world(None)], ids=["pending", "preempted"])
def test_a_class_that_was_not_listed_may_exist(
    made: list[Made], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = json.loads(json.dumps([one.obj for one in made]))
    objects[-1]["spec"]["priorityClassName"] = "c"
    (tmp_path / "dump.json").write_text(json.dumps(objects))
    main(["why", "default/new", "--cluster", str(tmp_path / "dump.json")])
    text = flat(capsys.readouterr().out)
    assert "PriorityClass c is not in the cluster snapshot, which has no PriorityClasses" in text


def test_the_class_with_which_it_would_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = [PENDING, *FULL, priority_class("seven", 7), priority_class("ten", 10)]
    _, out, _ = run(capsys, tmp_path, made, "default/new")
    assert '. Fix: recreate the Pod: use class "ten" (10), with which it would preempt 1 Pod on n1 ' in out
    assert "NODES WHY NOT 1 insufficient cpu" in out


@pytest.mark.parametrize(
    ("policy", "help_text"), [("PreemptLowerPriority", "add nodes NODES"), ("Never", "add nodes NODES")]
)
def test_no_higher_class_is_suggested_for_a_placeholder_pod(
    policy: str, help_text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reserve = make_pod("new").priority(-5).request(cpu="1").spec(preemptionPolicy=policy)
    reserve.container["image"] = "registry.k8s.io/pause:3.10"
    _, out, _ = run(capsys, tmp_path, [reserve, *FULL, priority_class("ten", 10)], "default/new")
    assert f". Fix: {help_text}" in out
    assert "class" not in out
    _, out, _ = run(capsys, tmp_path, [reserve, *FULL, priority_class("ten", 10)])
    assert "none is Pending" in out.splitlines()[0]
    assert "Pending now 0 | placeholders Pending 1 " in out


def test_pods_before_it_in_the_queue_are_scheduled_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = [PENDING, make_node("n1"), make_pod("ahead").priority(9)]
    _, out, _ = run(capsys, tmp_path, made, "default/new")
    assert ". Fix: wait: 1 Pending Pod is scheduled first: default/ahead" in out
    full = [*FULL, make_node("n2").has(cpu="1"), make_pod("ahead").priority(9).request(cpu="1")]
    _, out, _ = run(capsys, tmp_path, [copy.deepcopy(PENDING).spec(preemptionPolicy="Never"), *full], "default/new")
    assert "and its preemptionPolicy is Never. Fix: " in out, "the Pod ahead uses a node that is too small for it"


@pytest.mark.parametrize(
    ("cpu", "spec", "line"),
    [
        ("9", {}, "requests 9 cpu, more than any node has (4)"),
        ("1", {"nodeSelector": {"disk": "ssd"}}, "no node has label disk=ssd (known values of disk: none)"),
    ],
)
def test_no_pods_before_it_are_named_if_no_position_in_the_queue_helps(
    cpu: str, spec: dict[str, Any], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = make_pod("new").priority(5).request(cpu=cpu).spec(**spec)
    made = [new, make_node("n1").has(cpu="4"), make_pod("ahead").priority(9).request(cpu="1")]
    _, out, _ = run(capsys, tmp_path, made, "default/new")
    assert out.startswith("PENDING  default/new (5): fits nowhere\n")
    assert f"WHY IT IS PENDING {line}. Fix: " in out


def test_a_pod_that_may_not_preempt_gets_the_nearest_class_that_may(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The numbers of preemption, which its policy makes 0, would hide that another class helps."""
    new = copy.deepcopy(PENDING).spec(preemptionPolicy="Never", priorityClassName="never")
    classes = [priority_class("never", 5, preemptionPolicy="Never"), priority_class("never-too", 6)]
    classes[1].obj["preemptionPolicy"] = "Never"
    classes += [priority_class("low", 4), priority_class("ten", 10), priority_class("twenty", 20)]
    full = [make_node("n1"), make_pod("old").priority(3).request(cpu="4").on("n1")]
    _, out, _ = run(capsys, tmp_path, [new, *full, *classes], "default/new")
    first, rest = out.splitlines()
    assert first == "PENDING  default/new (never, 5): fits on no node, never preempts"
    assert rest.startswith("fits on 0 of 1 node; may not preempt (preemptionPolicy Never) WHY IT IS PENDING ")
    assert 'Fix: recreate the Pod: use class "ten" (10), with which it would preempt 1 Pod on n1' in rest


def test_a_pod_that_may_not_preempt_needs_a_new_class_if_none_helps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only if preemption helps."""
    new = copy.deepcopy(PENDING).spec(preemptionPolicy="Never")
    for value, helps in ((3, True), (5, False)):
        full = [make_node("n1"), make_pod("old").priority(value).request(cpu="4").on("n1")]
        _, out, _ = run(capsys, tmp_path, [new, *full], "default/new")
        fix = "recreate the Pod: use a class that may preempt, with which it would preempt 1 Pod on n1"
        assert (fix in out) == helps


def test_a_toleration_with_which_it_fits_comes_before_a_class_with_which_it_preempts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = copy.deepcopy(PENDING).spec(preemptionPolicy="Never", priorityClassName="never")
    classes = [priority_class("never", 5, preemptionPolicy="Never"), priority_class("ten", 10)]
    classes[0].obj["preemptionPolicy"] = "Never"
    spot = [make_node(f"spot-{number}").label("pool", "spot").taint("spot", "true") for number in (1, 2)]
    gpu = [make_node(f"g{number}").has(cpu="4", **{"nvidia.com/gpu": "1"}).taint("gpu", "") for number in range(3)]
    full = [make_node("n1"), make_pod("old").priority(3).request(cpu="4").on("n1"), *spot, *gpu]
    _, out, _ = run(capsys, tmp_path, [new, *full, *classes], "default/new")
    toleration = "Fix: add a toleration for spot=true:NoSchedule, with which it fits on 2 nodes"
    assert f'{toleration}, or use class "ten" (10), with which it would preempt 1 Pod on n1' in out
    _, out, _ = run(capsys, tmp_path, [new.spec(nodeSelector={"pool": "gpu"}), *full, *classes], "default/new")
    assert "6 node selector pool=gpu does not match" in out
    assert "toleration" not in out
    _, out, _ = run(capsys, tmp_path, [copy.deepcopy(PENDING), *full[:2], *gpu], "default/new")
    assert "toleration" not in out, "nodes with devices are for Pods that request them"


def test_each_of_several_pending_pods_preempts_other_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [make_node(name).has(cpu="1") for name in ("n1", "n2")]
    low = [make_pod(f"low-{name}").priority(1).request(cpu="1").on(name) for name in ("n1", "n2")]
    new = [make_pod(f"new-{number}").priority(5).request(cpu="1") for number in (1, 2, 3)]
    victims = []
    for number in (1, 2):
        _, out, _ = run(capsys, tmp_path, [*nodes, *low, *new], f"default/new-{number}")
        victims += re.findall(r"VICTIM CLASS VALUE NODE (\S+) ", out)
    assert sorted(victims) == ["default/low-n1", "default/low-n2"]
    _, out, _ = run(capsys, tmp_path, [*nodes, *low, *new, priority_class("ten", 10)], "default/new-3")
    assert "2 Pending Pods are scheduled first: default/new-1, default/new-2" in out
    assert 'use class "ten" (10), with which it would preempt 1 Pod on n1' in out, (
        "it would then be the first of the queue"
    )


def test_far_behind_in_the_queue_a_pod_is_predicted_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = [make_pod(f"ahead-{number}").priority(9) for number in range(101)]
    _, out, _ = run(capsys, tmp_path, [make_node("n1"), PENDING, *before], "default/new")
    assert "Fix: wait: predicted alone, because it is not one of the first 100 Pending Pods" in out


@pytest.mark.parametrize("given", [("shop/web",), ("web", "-n", "shop")])
def test_the_name_of_a_workload_is_answered_with_the_command_for_it(
    given: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    web = Made("apps/v1", "Deployment", "web", "shop").spec(
        selector={"matchLabels": {"a": "b"}},
        template={"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    )
    status, out, err = run(capsys, tmp_path, [make_node("n1"), web], *given)
    assert (status, out) == (2, "")
    assert "shop/web: Pod not found in the cluster. Fix: for the Deployment, write shop/deployment/web" in err


def event(reason: str, message: str, name: str = "new", uid: str = "", **fields: Any) -> Made:
    made = Made("v1", "Event", f"{name}.{reason}", "default")
    about = {"kind": "Pod", "namespace": "default", "name": name, "uid": uid}
    made.obj.update(involvedObject=about, reason=reason, message=message, **fields)
    return made


def preempted_by(name: str, uid: str = "", of: str = "") -> Made:
    """As kube-scheduler writes it of a victim."""
    related = {"kind": "Pod", "namespace": "default", "name": name, "uid": uid}
    return event("Preempted", f"Preempted by pod {uid or f'uid-{name}'} on node n1", uid=of, related=related)


def preempted_by_uid(uid: str) -> Made:
    """As kube-scheduler 1.36 writes it: its Event is related to nothing."""
    return event("Preempted", f"Preempted by pod {uid} on node n1", related={})


@pytest.mark.parametrize(
    ("made", "by_name", "by_uid"),
    [
        ([], "default/high, which no longer exists", "a Pod that no longer exists"),
        ([make_pod("high").priority(9).on("n1")], "default/high (priority 9)", "default/high (priority 9)"),
        ([make_pod("high").priority(9).on("n1").metadata(uid="another")], "default/high, which no longer exists",
         "a Pod that no longer exists"),
    ],
)  # fmt: skip
def test_of_a_victim_that_is_gone_an_event_says_for_whom_it_went(
    made: list[Made], by_name: str, by_uid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for said, expected in ((preempted_by("high", "uid-high"), by_name), (preempted_by_uid("uid-high"), by_uid)):
        cluster = [make_node("n1"), *made, said]
        status, out, _ = run(capsys, tmp_path, cluster, "default/new", "--fail-on", "preempted")
        assert status == 1
        assert out.startswith("WARN  default/new: gone: preempted\n")
        assert f" preempted on n1 by {expected}" in out
        shown = run(capsys, tmp_path, cluster, "default/new", "-v")[1]
        assert "REPORTED MESSAGE Preempted Preempted by pod uid-high on node n1" in shown
        _, out, _ = run(capsys, tmp_path, cluster, "default/new", "-o", "json")
        answer = json.loads(out)
        assert (answer["id"], answer["state"], answer["nodes"], answer["missing"]) == ("default/new", "gone", [], [])
        assert answer["troubles"] == [{"id": "preempted", "message": f"preempted on n1 by {expected}"}]
        assert answer["reported"] == {"Preempted": "Preempted by pod uid-high on node n1"}


def test_preemptions_beyond_the_maximum_are_counted_for_a_pod_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forewarn.policies.questions.why.evidence._MAX_WORKLOAD_EVENTS", 1)
    victims = [preempted_by("high", of=uid) for uid in "ab"]
    _, out, _ = run(
        capsys, tmp_path, [make_node("n1"), make_pod("high").priority(9).on("n1"), *victims], "default/high"
    )
    assert "1 Event about more preempted Pods not shown" in out


def test_without_events_the_oldest_one_is_not_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, tmp_path, [make_node("n1")])
    assert "no Events in the cluster snapshot" in out
    assert "the oldest Event" not in out


def test_an_event_says_for_whom_a_pod_ends_when_the_other_is_bound_already(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = make_pod("new").priority(3).on("n1").terminating(preempted=True)
    high = make_pod("high").priority(9).on("n2")
    nodes = [make_node("n1"), make_node("n2")]
    _, out, _ = run(capsys, tmp_path, [*nodes, victim, high], "default/new")
    assert "kube-scheduler preempts it on n1; the preemptor is unknown" in out
    _, out, _ = run(capsys, tmp_path, [*nodes, victim, high, preempted_by("high")], "default/new")
    assert "preempted on n1 by default/high (priority 9; its own is 3)" in out
    _, out, _ = run(capsys, tmp_path, [*nodes, victim, preempted_by("high")], "default/new")
    assert "kube-scheduler preempts it on n1 by default/high, which no longer exists" in out


def test_a_pod_that_failed_as_it_was_preempted_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = make_pod("new").priority(3).on("n1").terminating(preempted=True).status(phase="Failed")
    _, out, _ = run(capsys, tmp_path, [make_node("n1"), victim, preempted_by("high")], "default/new")
    assert out.startswith("HARM  default/new (3): ended on n1: preempted\n")
    assert " preempted on n1 by default/high, which no longer exists" in out


def test_what_became_of_the_pod_of_the_same_name_before_is_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [make_node("n1"), PENDING, preempted_by("high", of="the one before")]
    _, out, _ = run(capsys, tmp_path, made, "default/new", "-o", "json")
    answer = json.loads(out)
    assert troubles(out) == ["not-tried-yet", "former-preempted"]
    assert answer["troubles"][1]["message"] == (
        "the previous Pod of this name was preempted on n1 by default/high, which no longer exists"
    )
    assert answer["reported"] == {}


def test_the_last_events_are_quoted_of_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def at(minute: int) -> str:
        return f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z"

    made = [make_node("n1"), PENDING]
    made += [event(f"R{number}", "x", lastTimestamp=at(number)) for number in range(300, 0, -1)]
    made += [event("R300", "before", lastTimestamp=at(5)), event("R1", "again", eventTime=at(400))]
    _, out, _ = run(capsys, tmp_path, made, "default/new", "-o", "json")
    said = json.loads(out)["reported"]
    assert [*said] == ["R297", "R298", "R299", "R300", "R1"]
    assert (said["R300"], said["R1"]) == ("x", "again")


@pytest.mark.parametrize("odd", [{"why": 5}, {"message": {}}, {"related": "x"}, {"lastTimestamp": "soon"},
                                 {"series": {"lastObservedTime": "0001-01-01T00:00:00+14:00"}}])  # fmt: skip
def test_an_event_that_is_not_as_it_should_be_stops_nothing(
    odd: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = event("Preempted", "m")
    broken.obj.update(odd)
    status, out, err = run(capsys, tmp_path, [make_node("n1"), PENDING, broken], "default/new")
    assert (status, err) == (0, "")
    assert "fits now, not scheduled yet" in out


def test_events_and_conditions_are_quoted_and_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1 \x1b[31mnodes"}
    pending = make_pod("new").status(conditions=[condition])
    many = [event(f"Reason{number}", "x" * 1000) for number in range(50)]
    other = event("FailedScheduling", "of another pod", "other")
    status, out, _ = run(capsys, tmp_path, [pending, make_node("n1"), *many, other], "default/new", "-v", "-o", "json")
    quoted = json.loads(out)["reported"]
    assert status == 0
    assert len(quoted) == 6
    assert all(len(message) < 330 for message in quoted.values())
    assert "\x1b" not in out
    assert "of another pod" not in out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["default/none"], 2, "forewarn why: default/none: Pod not found in the cluster"),
        (
            ["none", "-n", "team"],
            2,
            "team/none: Pod not found in the cluster; its namespace has used up ResourceQuota q (pods),",
        ),
        (["a/b", "--fail-on", "x"], 2, "--fail-on x: no state or cause; known: being-deleted, class-changed, "),
        (["a/b", "--fail-on", "pnding"], 2, '--fail-on pnding: no state or cause; did you mean "pending"?'),
    ],
)
def test_what_cannot_be_answered_is_said(
    arguments: list[str], status: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    amounts = {"pods": "2", "services": "0"}
    quota = Made("v1", "ResourceQuota", "q", "team").status(hard=amounts, used=amounts)
    found, _, err = run(capsys, tmp_path, [make_node("n1"), quota], *arguments)
    assert found == status
    assert message in err


def test_without_a_cluster_there_is_nothing_to_look_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "a/b"]) == 3
    assert "no kubeconfig found" in capsys.readouterr().err


def test_every_finding_id_can_fail_the_run() -> None:
    source = "".join(path.read_text() for path in Path("policies/questions/why").glob("*.py"))
    of_groups = {*re.findall(r'\(\("(group-[a-z-]+)"', source)}
    assert {*re.findall(r'Trouble\(\s*"([a-z-]+)"', source)} | of_groups == {*IDS}


def test_predict_why_and_whatif_word_one_cause_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    full = [make_node(name) for name in ("n1", "n2")] + [
        make_pod(f"old-{name}").priority(9).request(cpu="4").on(name) for name in ("n1", "n2")
    ]
    raw = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available: 2 Insufficient cpu."}
    _, why, _ = run(capsys, tmp_path, [PENDING.status(conditions=[raw]), *full], "default/new")
    shown = [why]
    (tmp_path / "pod.json").write_text(json.dumps(make_pod("next").request(cpu="2").obj))
    for command in ("predict",), ("whatif", "apply"):
        main([*command, "-f", str(tmp_path / "pod.json"), "--cluster", str(tmp_path / "dump.json")])
        shown.append(capsys.readouterr().out)
    for out in shown:
        assert "2 nodes: insufficient cpu" in out
        assert "Insufficient cpu" not in out


def test_without_events_a_cluster_without_pending_pods_is_not_ok(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [make_node("n1").has(cpu="4"), make_pod("web").request(cpu="1").on("n1")]
    assert run(capsys, tmp_path, made)[1].startswith(
        "WARN  Pods of the cluster: none is Pending; what was preempted in 24 h is unknown\n"
    )


def test_without_a_name_pending_pods_are_listed_by_class_and_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [make_node("n1").has(cpu="4"), priority_class("gold", 5)]
    made += [make_pod(f"big-{number}").priority(5).request(cpu="9").spec(priorityClassName="gold") for number in (1, 2)]
    made += [make_pod("gated").priority(1).spec(schedulingGates=[{"name": "g"}]), make_pod("small").request(cpu="1")]
    status, out, _ = run(capsys, tmp_path, made, "--fail-on", "pending", "-o", "json")
    document = json.loads(out)
    assert (status, document["clause"]) == (1, "4 are Pending; what was preempted in 24 h is unknown")
    assert document["pending"] == [
        {
            "priorityClass": "gold",
            "priority": 5,
            "pods": 2,
            "suchAs": "default/big-1",
            "cause": "requests 9 cpu, more than any node has (4)",
        },
        {"priorityClass": "", "priority": 1, "pods": 1, "suchAs": "default/gated", "cause": "gated"},
        {
            "priorityClass": "",
            "priority": 0,
            "pods": 1,
            "suchAs": "default/small",
            "cause": "fits on a node: not scheduled yet",
        },
    ]
    assert "no Events in the cluster snapshot" in document["warnings"][0]
    assert run(capsys, tmp_path, made)[1].endswith("MORE forewarn why default/big-1")


@pytest.mark.parametrize(
    ("cpu", "fix"),
    [("3", "Fix: recreate the Pod: lower its cpu requests to 2500m, with which it fits on n1"), ("9", "")],
)
def test_the_largest_request_that_fits_is_a_fix(
    cpu: str, fix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [make_node("n1").has(cpu="4"), make_node("n2").has(cpu="20")]
    pods = [
        make_pod("old").priority(9).request(cpu="1500m").on("n1"),
        make_pod("full").priority(9).request(cpu="19").on("n2"),
    ]
    out = run(capsys, tmp_path, [*nodes, *pods, make_pod("new").request(cpu=cpu)], "default/new")[1]
    assert fix in out
    assert ("lower its" in out) == bool(fix)


def test_without_a_name_pods_that_are_not_created_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    web = Made("apps/v1", "Deployment", "web").spec(replicas=3, selector={"matchLabels": {"app": "web"}})
    web.spec(template={"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}})
    quota = Made("v1", "ResourceQuota", "few").spec(hard={"pods": "1"}).status(hard={"pods": 1}, used={"pods": 1})
    made = [make_node("n1"), web, quota]
    _, out, _ = run(capsys, tmp_path, made)
    assert out.startswith("PENDING  Pods of the cluster: none is Pending, 3 cannot be created;")
    assert "Deployment default/web 3 3 exceeded quota few: 1 + 1 of 1 pods" in out
    document = json.loads(run(capsys, tmp_path, made, "-o", "json")[1])
    (row,) = document["notCreated"]
    assert row["cause"] == "exceeded quota few: 1 + 1 of 1 pods"


def test_without_a_name_a_namespace_limits_what_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = [make_pod("web", namespace).request(cpu="9") for namespace in ("shop", "team")]
    made = [make_node("n1").has(cpu="4"), *waiting, event("Preempted", "Preempted by pod u on node n1", "old")]
    assert run(capsys, tmp_path, made)[1].startswith("PENDING  Pods of the cluster: 2 are Pending, 1 was preempted")
    assert run(capsys, tmp_path, made, "-n", "shop")[1].startswith(
        "PENDING  Pods of namespace shop: 1 is Pending; what"
    )
    status, _, err = run(capsys, tmp_path, made, "-n", "shpo")
    assert (status, 'namespace "shpo" not found; did you mean "shop"?' in err) == (2, True)


def test_without_a_name_events_tell_what_was_preempted_in_24_hours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (event("Preempted", "Preempted by pod uid-high on node n1", name) for name in ("old", "new"))
    old.obj["lastTimestamp"], new.obj["lastTimestamp"] = "2026-01-01T00:00:00Z", "2026-01-02T01:00:00Z"
    made = [make_node("n1"), make_pod("high").priority(9).on("n1").metadata(uid="uid-high"), old, new]
    _, out, _ = run(capsys, tmp_path, made, "-o", "json")
    document = json.loads(out)
    assert (document["status"], document["pending"]) == ("WARN", [])
    assert [(each["pod"], each["by"], each["node"], each["time"]) for each in document["preempted"]] == [
        ("default/new", "default/high", "n1", "2026-01-02T01:00:00Z")
    ]


def test_events_beyond_the_maximum_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "_MAX_WORKLOAD_EVENTS", 1)
    events = [event("Preempted", "Preempted by pod u on node n1", name) for name in "abc"]
    assert "WARN 2 Events about more preempted Pods not shown" in run(capsys, tmp_path, [*FULL, *events])[1]
