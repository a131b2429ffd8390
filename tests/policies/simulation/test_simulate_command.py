"""`forewarn whatif events`: a cluster's dump, what arrives, and what is said of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.commands.whatif import main
from forewarn.policies.kubernetes.objects.node import Taint
from forewarn.policies.prediction.simulation.scenario import OPERATIONS, Operation, read_events, to_node, to_workload
from tests.builders import Made, cluster_text, make_node, make_pod, make_priority_class

if TYPE_CHECKING:
    from collections.abc import Callable

Obj = dict[str, Any]
Run = tuple[int, str, str]


def workload(kind: str, name: str, replicas: int, cpu: str, priority: int = 0, **spec: Any) -> Obj:
    """Of Pods with the class of this priority, or without a class for priority 0."""
    template = make_pod(name).request(cpu=cpu).labels(app=name).spec(**spec)
    if priority:
        template.of_class(priority)
    del template.obj["metadata"]["uid"]
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template.obj["spec"]},
        },
    }


def running(name: str, app: str, cpu: str, node: str, priority: int = 0) -> Made:
    return make_pod(name).priority(priority).request(cpu=cpu).labels(app=app).on(node)


@pytest.fixture
def simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Run]:
    def run(cluster: list[Any], new: list[Any], *options: str, events: list[Any] | None = None) -> Run:
        written = {"cluster": cluster, "new": new, "events": events or []}
        for name, objects in written.items():
            items = [obj.obj if isinstance(obj, Made) else obj for obj in objects]
            text = json.dumps(items if name == "events" else {"kind": "List", "apiVersion": "v1", "items": items})
            (tmp_path / f"{name}.json").write_text(cluster_text([*CLASSES, *cluster]) if name == "cluster" else text)
        arguments = ["events", "--cluster", str(tmp_path / "cluster.json"), *options]
        arguments += [] if "-o" in options else ["--timeline"]
        arguments += ["-f", str(tmp_path / "new.json")] if new else []
        arguments += ["--events", str(tmp_path / "events.json")] if events else []
        status = main(arguments)
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


CLASSES = [make_priority_class(value) for value in (1, 9, 10, 100, 1000)]
NODES = [make_node("n1"), make_node("n2")]


def test_a_replacement_that_pushes_out_the_next_is_a_level_deeper(simulate: Callable[..., Run]) -> None:
    mid = [workload("ReplicaSet", "mid", 1, "4", priority=10), running("mid-a", "mid", "4", "n1", priority=10)]
    low = [workload("ReplicaSet", "low", 1, "4", priority=1), running("low-a", "low", "4", "n2", priority=1)]
    only_n1 = make_pod("high").of_class(100).request(cpu="4").spec(nodeSelector={"kubernetes.io/hostname": "n1"})
    status, out, _ = simulate([*NODES, *mid, *low], [only_n1], "-vv")
    assert status == 0
    assert "default/high (priority 100) preempts 1 Pod of default/mid (priority 10) on n1, grace period 30 s" in out
    assert "default/mid (priority 10) preempts 1 Pod of default/low (priority 1) on n2" in out
    assert "\n      preempted 2 (1 by new Pods) | Pending 1 | lost 1 of 2 | " in out
    words = " ".join(out.split())
    assert "default/low class-1 1 1 → 0 1 1 1 2 nodes: insufficient cpu" in words
    assert re.search(r" default/mid-\w+ default/low-a n2 2 ", words), "cascade depth 2"


def test_fail_on_tells_what_happens(simulate: Callable[..., Run]) -> None:
    low = [workload("ReplicaSet", "low", 1, "3", priority=1), running("low-a", "low", "3", "n1", priority=1)]
    high = make_pod("high").of_class(100).request(cpu="4")
    status, _, err = simulate([NODES[0], *low], [high], "--fail-on", "preempted", "--fail-on", "pdbs-violated")
    assert (status, err) == (1, "forewarn: fails on preempted (--fail-on)\n")
    both = ("--fail-on", "pending", "--fail-on", "preempted")
    status, _, err = simulate([NODES[0], *low], [high], *both)
    assert (status, err) == (1, "forewarn: fails on pending, preempted (--fail-on)\n")
    status, _, err = simulate([*NODES, *low], [high], *both)
    assert (status, err) == (0, "")


def test_json_is_the_recordings_format_with_a_summary(simulate: Callable[..., Run]) -> None:
    _, out, _ = simulate([NODES[0]], [make_pod("a").request(cpu="1")], "-o", "json", "--runs", "3")
    answer = json.loads(out)
    (outcome,) = answer["outcomes"]
    assert answer["runs"] == outcome["count"] == 3
    assert outcome["final"] == {"default/a": {"node": "n1"}}
    assert outcome["summary"]["newPodsRunning"] == 1
    assert [event["event"] for event in outcome["timeline"]] == ["created", "scheduled"]


def test_a_deployment_without_its_replica_set_has_the_pods_that_it_selects(simulate: Callable[..., Run]) -> None:
    web = workload("Deployment", "web", 2, "1")
    pods = [running(f"web-{n}", "web", "1", "n1") for n in range(2)]
    _, out, _ = simulate([NODES[0], web, *pods], [make_pod("a").request(cpu="1")])
    assert "default/web" not in out


def test_pods_of_a_workload_that_is_not_there_are_not_replaced_and_a_note_says_so(simulate: Callable[..., Run]) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "controller": True}
    lost = running("lost", "gone", "4", "n1").metadata(ownerReferences=[owner])
    _, out, _ = simulate([NODES[0], lost], [make_pod("high").of_class(9).request(cpu="4")])
    assert "| Pending 0 |" in out
    assert "1 Pod is not replaced: 1 workload missing from the cluster snapshot" in out


def test_a_class_or_namespace_that_goes_is_told_as_passed_over(simulate: Callable[..., Run]) -> None:
    gone = [
        {"at": 1, "delete": {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "a"}}},
        {"at": 1, "delete": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}},
        {"at": 2, "delete": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}},
        {"at": 3, "update": {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"}}},
    ]
    notes = [
        "1 update of a LimitRange ignored: existing objects apply for the whole simulation",
        "2 deletes of Namespace ignored: existing objects apply for the whole simulation",
        "1 delete of a PriorityClass ignored: existing objects apply for the whole simulation",
    ]
    _, out, _ = simulate([NODES[0]], [], events=gone)
    assert [line.removeprefix("WARN  ") for line in out.splitlines() if "ignored" in line] == notes
    assert json.loads(simulate([NODES[0]], [], "-o", "json", events=gone)[1])["notes"] == notes


def test_a_limit_range_that_is_applied_counts(simulate: Callable[..., Run]) -> None:
    limits = Made("v1", "LimitRange", "l", "default").spec(
        limits=[{"type": "Container", "defaultRequest": {"cpu": "9"}}]
    )
    _, out, _ = simulate([NODES[0]], [limits, make_pod("a").metadata(uid="")])
    assert out.startswith("PENDING  2 objects applied: 0 of 1 new Pod runs, 1 stays Pending\n")


def test_a_deployment_whose_template_changes_rolls_out(simulate: Callable[..., Run]) -> None:
    old, new = workload("Deployment", "web", 2, "1"), workload("Deployment", "web", 2, "2")
    pods = [running(f"web-{n}", "web", "1", "n1") for n in range(2)]
    _, out, _ = simulate([*NODES, old, *pods], [new], "-o", "json")
    (outcome,) = json.loads(out)["outcomes"]
    assert len([pod for pod in outcome["final"] if pod.startswith("default/web-")]) == 2
    assert not {"default/web-0", "default/web-1"} & set(outcome["final"])


def test_a_drain_waits_for_the_budget(simulate: Callable[..., Run]) -> None:
    web = workload("ReplicaSet", "web", 2, "1", terminationGracePeriodSeconds=0)
    pods = [running(f"web-{n}", "web", "1", "n1").spec(terminationGracePeriodSeconds=0) for n in range(2)]
    budget = Made("policy/v1", "PodDisruptionBudget", "b", "default")
    budget.spec(minAvailable=1, selector={"matchLabels": {"app": "web"}})
    _, out, _ = simulate([*NODES, web, *pods, budget], [], "-o", "json", events=[{"at": "1m", "drain": "n1"}])
    (outcome,) = json.loads(out)["outcomes"]
    deleted = [event["t"] for event in outcome["timeline"] if event["event"] == "deleted"]
    assert len(deleted) == 2
    assert {state["node"] for state in outcome["final"].values()} == {"n2"}
    assert 60 <= deleted[0] <= deleted[1] < 70


def test_a_drain_charges_the_budget_in_the_call_itself(simulate: Callable[..., Run]) -> None:
    """Two evictions within milliseconds: the second one finds the budget spent, and is tried again after 5 seconds."""
    web = workload("ReplicaSet", "web", 2, "1")
    pods = [running(f"web-{n}", "web", "1", "n1") for n in range(2)]
    budget = Made("policy/v1", "PodDisruptionBudget", "b", "default")
    budget.spec(minAvailable=1, selector={"matchLabels": {"app": "web"}})
    _, out, _ = simulate([*NODES, web, *pods, budget], [], "-o", "json", events=[{"drain": "n1"}])
    (outcome,) = json.loads(out)["outcomes"]
    deleted = [event["t"] for event in outcome["timeline"] if event["event"] == "deleted"]
    assert len(deleted) == 2
    assert 5 <= deleted[1] - deleted[0] < 6


@pytest.mark.parametrize(("policy", "evicted"), [(None, 0), ("AlwaysAllow", 1)])
def test_a_drain_asks_the_budget_about_pods_that_are_not_ready(
    simulate: Callable[..., Run], policy: str | None, evicted: int
) -> None:
    web = workload("ReplicaSet", "web", 1, "1")
    pod = running("web-0", "web", "1", "n1").status(conditions=[{"type": "Ready", "status": "False"}])
    budget = Made("policy/v1", "PodDisruptionBudget", "b", "default")
    budget.spec(minAvailable=1, selector={"matchLabels": {"app": "web"}}, unhealthyPodEvictionPolicy=policy)
    _, out, _ = simulate([*NODES, web, pod, budget], [], "-o", "json", events=[{"drain": "n1"}])
    (outcome,) = json.loads(out)["outcomes"]
    assert sum(event["event"] == "deleted" for event in outcome["timeline"]) == evicted


def test_pods_of_a_lost_node_are_collected_and_made_anew(simulate: Callable[..., Run]) -> None:
    web = [workload("ReplicaSet", "web", 1, "1"), running("web-0", "web", "1", "n1")]
    _, out, _ = simulate([*NODES, *web], [], events=[{"at": 10, "lost": "n1"}])
    assert "10 s  node n1 removed" in out
    assert "default/web: 1 Pod deleted (pod garbage collector)" in out
    assert "default/web: 1 Pod bound to n2" in out


@pytest.mark.parametrize(("op", "nodes"), [("update", ["n1"]), ("create", ["n1", "n2"])])
def test_who_changes_a_node_that_is_gone_finds_none(simulate: Callable[..., Run], op: str, nodes: list[str]) -> None:
    high = make_pod("high").of_class(9).request(cpu="4")
    events = [
        {"at": 10, "lost": "n2"},
        {"at": 20, op: make_node("n2").has(cpu="9").obj},
        {"at": 30, "create": high.obj},
    ]
    full = [running(f"full-{name}", "full", "4", name, priority=10) for name in ("n1", "n2")]
    _, out, _ = simulate([*NODES, *full], [], "-o", "json", events=events)
    (outcome,) = json.loads(out)["outcomes"]
    assert outcome["final"]["default/high"]["node"] == ("n2" if "n2" in nodes else "")


def test_what_is_scaled_down_ends(simulate: Callable[..., Run]) -> None:
    web = [workload("ReplicaSet", "web", 2, "1"), *(running(f"web-{n}", "web", "1", "n1") for n in range(2))]
    scale = {"at": "5s", "scale": {"kind": "ReplicaSet", "name": "web", "replicas": 1}}
    _, out, _ = simulate([*NODES, *web], [], events=[scale])
    assert "5 s  default/web: 1 Pod deleted (ReplicaSet web)" in out


def test_a_run_that_is_cut_off_says_so(simulate: Callable[..., Run]) -> None:
    low = [workload("ReplicaSet", "low", 1, "4", priority=1), running("low-a", "low", "4", "n1", priority=1)]
    high = make_pod("high").of_class(100).request(cpu="4")
    _, out, _ = simulate([NODES[0], *low], [high], "--until", "10s")
    what = "simulation without a steady state after 10 s: the numbers are those of this moment."
    assert f"WARN {what} Fix: increase the simulated time (until)" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cluster", "x"], "no events given. Fix: pass -f, --events or both"),
        (["--cluster", "x", "-f", "README.md", "--runs", "0"], "between 1 and"),
        (["--cluster", "x", "-f", "README.md", "--until", "soon"], "seconds, or a duration"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["events", *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (1, "event 1: must be an object, not number"),
        ({"at": 1}, "no operation in an event; known: at, and one of"),
        ({"at": 1, "drain": "n", "lost": "m"}, "several operations in an event; known: at, and one of"),
        ({"drain": "n", "now": 1}, 'unknown key "now" in an event'),
        ({"at": "later", "drain": "n"}, "at must be seconds"),
        ({"at": -1, "drain": "n"}, "at must be seconds"),
        ({"drain": 3}, "drain must be the name of a node"),
        ({"create": "pod"}, "create must be an object, not string"),
        ({"create": {"apiVersion": "v1", "kind": "Pod", "metadata": {}}}, "create needs metadata.name"),
        ({"delete": {"apiVersion": "v1", "kind": "Pod", "name": "a"}}, "delete needs metadata.name"),
        ({"delete": {"kind": "Pod", "metadata": {"name": "a"}}}, "delete needs apiVersion"),
        ({"update": {"apiVersion": "v1", "metadata": {"name": "a"}}}, "update needs kind"),
        ({"scale": {"kind": "ReplicaSet", "name": "a"}}, "scale needs replicas"),
        ({"scale": {"kind": "Pod", "name": "a", "replicas": 1}}, "scale needs kind"),
    ],
)
def test_an_event_that_cannot_be_read_is_named(event: Any, said: str) -> None:
    with pytest.raises(ValueError, match="event 1") as raised:
        list(read_events([[event]]))
    assert said in str(raised.value)


def test_an_operation_of_a_node_is_its_declaration(
    simulate: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    taint = Operation(
        lambda _, value: {"apiVersion": "v1", "kind": "Node", "metadata": {"name": value["node"]}, "key": value["key"]},
        to_node(lambda node, event: replace(node, taints=(Taint(event["key"], "", "NoExecute"),))),
    )
    monkeypatch.setitem(OPERATIONS, "taint", taint)
    low = [workload("ReplicaSet", "low", 1, "3", priority=1), running("low-a", "low", "3", "n1", priority=1)]
    _, out, _ = simulate([NODES[0], *low], [], events=[{"at": "1m", "taint": {"node": "n1", "key": "dead"}}])
    assert "1 min  node n1 is tainted" in out
    assert "default/low class-1 1 1 → 0 1 1 fits on no node: untolerated taint dead:NoExecute" in " ".join(out.split())


def test_an_operation_without_a_node_is_its_declaration(
    simulate: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
    stop = Operation(
        lambda _, name: {**typed, "metadata": {"namespace": "default", "name": name}},
        to_workload(lambda stored, _: {**stored, "spec": {**stored["spec"], "replicas": 0}}),
    )
    monkeypatch.setitem(OPERATIONS, "stop", stop)
    low = [workload("ReplicaSet", "low", 1, "3", priority=1), running("low-a", "low", "3", "n1", priority=1)]
    _, out, _ = simulate([NODES[0], *low], [], events=[{"at": "1m", "stop": "low"}])
    assert "1 min  default/low: 1 Pod deleted (ReplicaSet low)" in out


def test_an_unreadable_workload_of_the_dump_stops_nothing(simulate: Callable[..., Run]) -> None:
    broken = workload("ReplicaSet", "broken", 1, "1")
    broken["spec"]["replicas"] = "many"
    status, out, _ = simulate([NODES[0], broken], [make_pod("a").request(cpu="1")])
    assert status == 0
    assert out.startswith("WARN  Pod default/a applied: 1 of 1 new Pod runs\n")
    assert "not simulated: ReplicaSet default/broken: spec.replicas" in out


def test_the_schedulers_configuration_decides(simulate: Any, tmp_path: Path) -> None:
    low = [workload("ReplicaSet", "low", 1, "3", priority=1), running("low-a", "low", "3", "n1", priority=1)]
    high = make_pod("high").of_class(100).request(cpu="4")
    config = tmp_path / "scheduler.yaml"
    profile = {"schedulerName": "default-scheduler", "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [profile],
            }
        )
    )
    assert simulate([NODES[0], *low], [high], "--fail-on", "preempted", "--scheduler-config", str(config))[0] == 0
    status, out, _ = simulate([NODES[0], *low], [high], "--kubernetes-version", "1.35", "--fail-on", "preempted")
    assert status == 1, out


def of_scheduler(directory: Path, **fields: Any) -> str:
    """The file of a KubeSchedulerConfiguration."""
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    (directory / "scheduler.yaml").write_text(json.dumps({**header, **fields}))
    return str(directory / "scheduler.yaml")


UNKNOWN = "plugin Mine is not one of kube-scheduler's own, and no Python plugin of that name is given"
SORT = "plugin Mine of the profile sorts the queue (queueSort), and is not simulated"
QUEUE = "plugin Mine of the profile may keep the Pod from the queue (preEnqueue), and is not simulated"
NODE = "plugin Mine of the profile may keep the Pod from its node ({}), and is not simulated"


@pytest.mark.parametrize(
    ("point", "fits", "full"),
    [
        ("queueSort", SORT, SORT),
        ("preEnqueue", QUEUE, QUEUE),
        ("filter", UNKNOWN, ""),
        ("postFilter", "", UNKNOWN),
        *((point, NODE.format(point), "") for point in ("reserve", "permit", "preBind", "bind")),
        ("postBind", "", ""),
    ],
)
def test_a_plugin_that_is_not_simulated_is_named(
    simulate: Any, tmp_path: Path, point: str, fits: str, full: str
) -> None:
    disabled = [{"name": "*"}] if point in ("queueSort", "bind", "postFilter") else []
    plugins = {point: {"enabled": [{"name": "Mine"}], "disabled": disabled}}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    option = "--scheduler-config", of_scheduler(tmp_path, profiles=[profile])
    for cpu, why in (("1", fits), ("5", full)):
        status, out, err = simulate([NODES[0]], [make_pod("new").request(cpu=cpu)], *option)
        assert status == (3 if why else 0)
        assert f"not predicted: Pod default/new: {why}" in err if why else "new Pod" in out


def test_a_profile_without_scheduling_gates_preempts_for_gated_pods(simulate: Any, tmp_path: Path) -> None:
    plugins = {"preEnqueue": {"disabled": [{"name": "SchedulingGates"}]}}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    option = "--scheduler-config", of_scheduler(tmp_path, profiles=[profile])
    low = make_pod("low").request(cpu="4").on("n1").spec(terminationGracePeriodSeconds=5)
    gated = make_pod("new").of_class(1000).request(cpu="4").spec(schedulingGates=[{"name": "g"}])
    assert "preempted 0 | Pending 1 | " in simulate([NODES[0], low], [gated])[1]
    out = simulate([NODES[0], low], [gated], *option, "-v")[1]
    assert "default/new (priority 1000) preempts default/low (priority 0) on n1" in out
    assert "applied: 0 of 1 new Pod runs" in out
    assert "binding rejected: pod default/new has non-empty .spec.schedulingGates" in " ".join(out.split())


def test_a_plugin_after_the_default_binder_does_nothing(simulate: Any, tmp_path: Path) -> None:
    profile = {"schedulerName": "default-scheduler", "plugins": {"bind": {"enabled": [{"name": "Mine"}]}}}
    option = "--scheduler-config", of_scheduler(tmp_path, profiles=[profile])
    assert ": 1 of 1 new Pod runs\n" in simulate([NODES[0]], [make_pod("new")], *option)[1]


def test_an_extender_that_filters_is_named(simulate: Any, tmp_path: Path) -> None:
    extender = {"urlPrefix": "http://x/", "filterVerb": "filter"}
    option = "--scheduler-config", of_scheduler(tmp_path, extenders=[extender])
    status, _, err = simulate([NODES[0]], [make_pod("new")], *option)
    assert (status, "may reject the nodes that the plugins leave" in err) == (3, True)


def test_pods_of_another_profile_are_scheduled_too(simulate: Any, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "second"}]
    config.write_text(
        json.dumps(
            {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles}
        )
    )
    pod = make_pod("other").request(cpu="1").spec(schedulerName="second")
    assert "for another scheduler" in simulate([NODES[0]], [pod])[1]
    assert ": 1 of 1 new Pod runs\n" in simulate([NODES[0]], [pod], "--scheduler-config", str(config))[1]


@pytest.mark.parametrize(
    "option", [("--kubernetes-version", "1.20"), ("--feature-gates", "x"), ("--scheduler-config", "no.yaml")]
)
def test_a_release_that_is_not_known(simulate: Any, option: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as ended:
        simulate([NODES[0]], [make_pod("p")], *option)
    assert ended.value.code == 2


def test_the_jobs_of_a_cron_job_leave_each_others_pods_alone(simulate: Callable[..., Run]) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    cron = Made("batch/v1", "CronJob", "c", "default").spec(
        schedule="*/10 * * * *", jobTemplate={"spec": {"template": template}}
    )
    _, out, _ = simulate([NODES[0]], [cron], "--until", "35m", "-o", "json")
    (outcome,) = json.loads(out)["outcomes"]
    assert [event["event"] for event in outcome["timeline"]] == ["created", "scheduled"] * 3
    assert len(outcome["final"]) == 3


def test_how_often_a_pod_that_waits_was_tried_before_differs_between_runs(simulate: Callable[..., Run]) -> None:
    """A snapshot does not have it, and it decides who is tried first when room is free: a replacement or not."""
    soon = {"terminationGracePeriodSeconds": 1}
    low = [workload("ReplicaSet", "low", 1, "2"), running("low-a", "low", "2", "n1").spec(**soon)]
    late = (
        running("late-a", "late", "2", "n1", priority=50)
        .spec(**soon)
        .metadata(creationTimestamp="2026-01-01T01:00:00Z")
    )
    waits = make_pod("waits").request(cpu="2").status(phase="Pending")
    waits.metadata(creationTimestamp="2026-01-01T00:00:00Z")
    high = make_pod("high").of_class(100).request(cpu="2")
    gone = {"at": "4s", "delete": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late-a"}}}
    _, out, _ = simulate([NODES[0], *low, late, waits], [high], "-o", "json", "--runs", "24", events=[gone])
    pending = {str(outcome["summary"]["pending"]) for outcome in json.loads(out)["outcomes"]}
    assert pending == {"{'default/low': 1}", "{'default/waits': 1}"}


def test_of_pods_that_started_in_one_second_either_may_go(simulate: Callable[..., Run]) -> None:
    """Whatever the second in which they were created: it depends on when they were bound."""
    pods = []
    for name, second in (("a", 18), ("b", 19)):
        pod = running(name, name, "2", "n1").status(startTime="2026-01-01T00:00:19Z")
        pod.metadata(creationTimestamp=f"2026-01-01T00:00:{second}Z")
        pods += [workload("ReplicaSet", name, 1, "2"), pod]
    high = make_pod("high").of_class(100).request(cpu="2")
    _, out, _ = simulate([NODES[0], *pods], [high], "-o", "json", "--runs", "24")
    assert {*(name for o in json.loads(out)["outcomes"] for name in o["summary"]["byWorkload"])} == {
        "default/a",
        "default/b",
    }
