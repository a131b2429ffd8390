"""`forewarn whatif upgrade`: new nodes first, drain timeouts, pools, and the PDBs that block."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.objects.node import HOSTNAME
from forewarn.policies.kubernetes.options import Options
from forewarn.policies.prediction.simulation.scenario import DumpCache, world_of
from forewarn.policies.questions.application.changes import Start, Upgrade
from forewarn.policies.questions.application.places import Places
from forewarn.policies.questions.application.whatif_answer import Simulated, _class_table, _down, document_of
from forewarn.policies.questions.whatif.comparison import ask
from forewarn.policies.questions.whatif.interruptions import Interruption
from forewarn.policies.questions.whatif.upgrade import blockers_of
from tests.builders import Made, make_node, make_pod
from tests.in_process import forewarn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.questions.whatif.answer import Answer

SHOWN = ("--cluster", "docs/examples/whatif/cluster.yaml")
HOUR = 3600.0


def budget(name: str, least: int) -> Made:
    made = Made("policy/v1", "PodDisruptionBudget", name, "default")
    return made.spec(minAvailable=least, selector={"matchLabels": {"app": name}})


def objects_of(replicas: int, least: int, nodes: int = 3, cpu: str = "4") -> list[ApiObject]:
    """Nodes in two pools, and a ReplicaSet with a PDB."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    labels = {"matchLabels": {"app": "web"}}
    made: list[Made] = [make_node(f"n{n}").has(cpu=cpu).label("pool", "ba"[n % 2]) for n in range(nodes)]
    made.append(
        Made("apps/v1", "ReplicaSet", "web", "default").spec(replicas=replicas, selector=labels, template=template)
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    ready = [{"type": "Ready", "status": "True"}]
    for n in range(replicas):
        pod = make_pod(f"web-{n}").labels(app="web").request(cpu="1").on(f"n{n % nodes}")
        made.append(pod.metadata(ownerReferences=[owner]).status(conditions=ready))
    return [one.obj for one in (*made, budget("web", least))]


def with_replicas(replicas: int, objects: list[ApiObject]) -> list[ApiObject]:
    """The objects with this number in the ReplicaSet, and the same Pods."""
    return [
        {**each, "spec": {**each["spec"], "replicas": replicas}} if each["kind"] == "ReplicaSet" else each
        for each in objects
    ]


def cluster_of(replicas: int, least: int) -> DumpCache:
    cache = DumpCache()
    for obj in objects_of(replicas, least):
        cache.add(obj)
    return cache


def answer_of(cache: DumpCache, **options: Any) -> Answer:
    question = Upgrade(**options).question(Start(cache, (), Places(), Options()))
    return ask(question, world_of(cache, (), until=10 * HOUR), without=False)


@pytest.mark.parametrize("change", ["events", "upgrade"])
def test_an_uncordoned_node_loses_the_taint_of_its_cordon(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    cordoned = make_node("n1").has(cpu="4").spec(unschedulable=True, taints=[taint])
    cluster, events = tmp_path / "cluster.json", tmp_path / "events.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": [cordoned.obj, make_pod("p").request(cpu="1").obj]}))
    events.write_text("- {at: 0, uncordon: n1}")
    options = ["--events", str(events)] if change == "events" else []
    main(["whatif", change, *options, "--cluster", str(cluster)])
    assert " | Pending Pods that now run 1\n" in capsys.readouterr().out


@pytest.mark.parametrize(("policy", "lost"), [("Honor", 0), ("Ignore", 1)])
def test_topology_spread_honors_the_taint_of_a_drained_node(
    policy: str, lost: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {"matchLabels": {"app": "web"}}
    spread = {"topologyKey": HOSTNAME, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": labels}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "topologySpreadConstraints": [{**spread, "nodeTaintsPolicy": policy}]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    made: list[Made] = [
        Made("apps/v1", "ReplicaSet", "web", "default").spec(replicas=2, selector=labels, template=template),
        *(make_node(f"n{n}").label(HOSTNAME, f"n{n}") for n in range(2)),
        *(make_pod(f"web-{n}").labels(app="web").on(f"n{n}").metadata(ownerReferences=[owner]) for n in range(2)),
    ]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "items": [each.obj for each in made]}))
    main(["whatif", "drain", "n1", "--cluster", str(cluster), "-o", "json"])
    assert json.loads(capsys.readouterr().out)["counters"]["lost"] == lost


@pytest.mark.parametrize(
    ("away", "seconds", "lasts"), [("1h", 3635, "1 h 1 min"), ("4m", 275, "4 min 35 s"), ("20s", 55, "55 s")]
)
def test_replicas_that_are_down_for_a_time_are_counted(
    away: str, seconds: int, lasts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "items": objects_of(3, 0, nodes=1)}))
    command = ("whatif", "upgrade", "--away", away, "--cluster", str(cluster), "--fail-on", "down")
    assert main([*command]) == 1
    assert f"| down 1 workload completely, up to {lasts} | upgraded 1 of 1\n" in capsys.readouterr().out
    main([*command, "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    assert [each["down"] for each in answer["interruptions"]] == [3]
    assert (answer["counters"]["down"], answer["counters"]["downSeconds"]) == (1, seconds)


def test_an_interruption_is_the_worst_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One replica is down for longer than both, or both for a short time of it."""
    cluster, events = tmp_path / "cluster.json", tmp_path / "events.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": objects_of(2, 0, nodes=2, cpu="1")}))
    worst = {}
    for until in (10.5, 13, 20, 100):
        at = {0: {"drain": "n0"}, 10: {"drain": "n1"}, until: {"uncordon": "n1"}, until + 10: {"uncordon": "n0"}}
        events.write_text(json.dumps([{"at": 60 * minute, **event} for minute, event in at.items()]))
        command = ["whatif", "events", "--events", str(events), "--until", "6h", "--cluster", str(cluster)]
        assert main([*command, "--fail-on", "down", "-o", "json"]) == 1
        (one,) = json.loads(capsys.readouterr().out)["interruptions"]
        worst[until] = one["down"], one["most"], round(one["since"] / 60), round(one["seconds"] / 60)
    assert worst == {10.5: (2, 2, 10, 0), 13: (2, 2, 10, 3), 20: (2, 2, 10, 10), 100: (2, 2, 10, 90)}


@pytest.mark.parametrize(
    ("strategy", "grace", "counter"),
    [("Recreate", 30, " | down 1 workload completely, up to 30 s"), ("Recreate", 29, ""), ("RollingUpdate", 59, "")],
)
def test_a_restart_that_stops_all_replicas_is_an_interruption(
    strategy: str, grace: int, counter: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": grace}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    spec = {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "strategy": {"type": strategy}}
    web = Made("apps/v1", "Deployment", "web", "default").spec(template=template, **spec)
    pods = [make_pod(f"web-{n}").labels(app="web").on("n0").spec(**pod) for n in range(4)]
    cluster = tmp_path / "cluster.json"
    made = [make_node("n0"), web, *pods]
    cluster.write_text(json.dumps({"kind": "List", "items": [each.obj for each in made]}))
    assert main(["whatif", "restart", "deployment/web", "--cluster", str(cluster)]) == 0
    assert f"preempted 0 | Pending 0 | lost 0{counter}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("drains", "seconds", "times"),
    [
        (((0, 3), (3.5, 6.5)), 360, 1),
        (((0, 3), (3.5, 4)), 180, 1),
        (((0, 3), (10, 14)), 420, 2),
        (((0, 3), (10, 10.5)), 180, 1),
        (((0, 1), (10, 11)), 120, 2),
        (((0, 1.5),), 0, 0),
    ],
)
def test_several_interruptions(
    drains: Sequence[tuple[float, float]], seconds: int, times: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One interruption, if less than a minute is between."""
    cluster, events = tmp_path / "cluster.json", tmp_path / "events.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": objects_of(2, 0, nodes=2, cpu="1")}))
    at = [{"at": 60 * since, "drain": "n0"} for since, _ in drains]
    at += [{"at": 60 * until, "uncordon": "n0"} for _, until in drains]
    events.write_text(json.dumps(sorted(at, key=lambda each: (each["at"], "drain" in each))))
    command = ["whatif", "events", "--events", str(events), "--until", "6h", "--cluster", str(cluster)]
    assert main([*command, "--fail-on", "down", "-o", "json"]) == int(seconds > 0)
    found = json.loads(capsys.readouterr().out).get("interruptions", [])
    expected = [(1, seconds, times)] if seconds else []
    assert [(each["down"], each["seconds"], each["times"]) for each in found] == expected


def test_the_longest_interruption_of_any_number_of_replicas_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, events = tmp_path / "cluster.json", tmp_path / "events.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": objects_of(2, 0, nodes=2, cpu="1")}))
    at = {0: {"drain": "n0"}, 5: {"drain": "n1"}, 10: {"uncordon": "n1"}, 20: {"uncordon": "n0"}, 30: {"drain": "n0"}}
    at[40] = {"uncordon": "n0"}
    events.write_text(json.dumps([{"at": 60 * minute, **event} for minute, event in at.items()]))
    main(["whatif", "events", "--events", str(events), "--until", "6h", "--cluster", str(cluster), "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    (one,) = answer["interruptions"]
    assert (one["down"], one["since"], one["until"], one["longest"]) == (2, 300, 600, 1200)
    assert answer["counters"]["downSeconds"] == 1200


@pytest.mark.parametrize(("replicas", "away", "down"), [(3, 3, 2), (3, 2, 1), (2, 2, 1)])
def test_the_replicas_that_are_not_lost_may_be_down(
    replicas: int, away: int, down: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, events = tmp_path / "cluster.json", tmp_path / "events.yaml"
    objects = objects_of(replicas, replicas, nodes=replicas, cpu="1")
    cluster.write_text(json.dumps({"kind": "List", "items": objects}))
    lost = [{"at": 0, "lost": f"n{number}"} for number in range(away)]
    events.write_text(json.dumps(lost + [{"at": 1800, "create": node} for node in objects[1:away]]))
    main(["whatif", "events", "--events", str(events), "--until", "6h", "--cluster", str(cluster), "-o", "json"])
    answer = json.loads(capsys.readouterr().out)
    counters = answer["counters"]
    assert (counters["lost"], counters["pending"], counters["pdbsShort"], counters["down"]) == (1, 1, 1, 1)
    assert [(each["down"], each["seconds"]) for each in answer["interruptions"]] == [(down, 1800)]


@pytest.mark.parametrize(
    ("stored", "scaled", "down", "minutes", "longest"),
    [
        (2, {}, 2, 19, 19),
        (3, {0: 2}, 2, 19, 19),
        (3, {30: 1}, 3, 19, 19),
        (3, {10: 1}, 3, 9, 19),
        (3, {10: 0}, 3, 9, 9),
        (3, {0: 1, 10: 3}, 3, 10, 19),
    ],
)
def test_replicas_that_are_scaled_down_are_not_down(
    stored: int,
    scaled: Mapping[int, int],
    down: int,
    minutes: int,
    longest: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The only node is away from minute 1 to 20. `stored`, `scaled`: the number of replicas, at first and by minute."""
    cluster, events = tmp_path / "cluster.json", tmp_path / "events.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": with_replicas(stored, objects_of(3, 0, nodes=1))}))
    web = {"kind": "ReplicaSet", "namespace": "default", "name": "web"}
    at: list[Any] = [{"at": 60 * minute, "scale": {**web, "replicas": count}} for minute, count in scaled.items()]
    at += [{"at": 60, "drain": "n0"}, {"at": 1200, "uncordon": "n0"}]
    events.write_text(json.dumps(at))
    main(["whatif", "events", "--events", str(events), "--until", "2h", "--cluster", str(cluster), "-o", "json"])
    (one,) = json.loads(capsys.readouterr().out)["interruptions"]
    assert (one["down"], one["seconds"], one["longest"]) == (down, 60 * minutes, 60 * longest)


@pytest.mark.parametrize(
    ("question", "lost", "scaled_down"),
    [
        ("drain n0", 0, 1),
        ("lose node n0 n1", 1, 1),
        ("events --events events.json", 1, 0),
        ("lose --each node", 0, None),
    ],
)
def test_pods_beyond_the_replicas_at_the_start_are_not_lost(
    question: str, lost: int, scaled_down: int | None, tmp_path: Path
) -> None:
    """Each of 3 nodes has a Pod of a ReplicaSet that wants 2, and no room for another one."""
    objects = with_replicas(2, objects_of(3, 0, nodes=3, cpu="1"))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
    web = {"kind": "ReplicaSet", "namespace": "default", "name": "web", "replicas": 3}
    (tmp_path / "events.json").write_text(json.dumps([{"at": 0, "scale": web}, {"at": 60, "lost": "n0"}]))
    done = forewarn("whatif", *question.split(), "--cluster", "cluster.json", "-o", "json", cwd=tmp_path)
    found = json.loads(done.stdout)
    answers = found["cases"] if scaled_down is None else [found]
    assert {(each["counters"]["lost"], each.get("scaledDown")) for each in answers} == {(lost, scaled_down)}


def test_a_pod_that_is_preempted_at_once_does_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Pod of low priority is bound to the first upgraded node, which the other Pod needs next."""
    cluster = tmp_path / "cluster.json"
    items: list[dict[str, Any]] = []
    for name, priority in (("low", 0), ("high", 1)):
        objects: list[dict[str, Any]] = [{**obj} for obj in objects_of(1, 0, nodes=1, cpu="1")]
        for obj in objects:
            obj["metadata"]["name"] = obj["metadata"]["name"].replace("web", name).replace("n0", f"n{priority}")
            obj["metadata"]["uid"] = f"{obj['kind']}-{name}"
        spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "priority": priority}
        node, replica_set, pod, _ = objects
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": spec}
        replica_set["spec"] |= {"selector": {"matchLabels": labels}, "template": template}
        pod["metadata"] |= {
            "labels": labels,
            "ownerReferences": [pod["metadata"]["ownerReferences"][0] | {"name": name}],
        }
        pod["spec"] = spec | {"nodeName": f"n{priority}"}
        items += [node, replica_set, pod]
    classes = [
        {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": "high"}, "value": 1}
    ]
    items[4]["spec"]["template"]["spec"]["priorityClassName"] = "high"
    cluster.write_text(json.dumps({"kind": "List", "items": [*items, *classes]}))
    main(["whatif", "upgrade", "--away", "8m", "--cluster", str(cluster)])
    status, counters, *_ = capsys.readouterr().out.splitlines()
    assert status.startswith("HARM  upgrade of 2 nodes, 1 at a time: all nodes upgraded in 17 min, ")
    assert " | down 2 workloads completely, up to 17 min | upgraded 2 of 2" in counters


def test_new_nodes_replace_old_nodes_pool_by_pool() -> None:
    answer = answer_of(cluster_of(3, 2), max_surge=1)
    assert answer.after.upgrade is not None
    assert [(step.node, step.pool) for step in answer.after.upgrade.steps] == [("n1", "a"), ("n0", "b"), ("n2", "b")]
    assert sorted(answer.after.simulation.api.nodes) == ["n0-new", "n1-new", "n2-new"]
    assert answer.after.upgrade.complete
    assert answer.after.running_after == 3
    assert [(pool.pool, pool.upgraded) for pool in answer.after.upgrade.pools] == [("a", 1), ("b", 2)]
    assert sum(pool.seconds or 0 for pool in answer.after.upgrade.pools) <= answer.after.upgrade.seconds
    for step in answer.after.upgrade.steps:
        assert step.started_at is not None
        assert step.back_at is not None
        assert step.back_at - step.started_at >= 120.0


@pytest.mark.parametrize("surge", [False, True])
@pytest.mark.parametrize(("least", "force"), [(2, 0.0), (2, HOUR), (3, 0.0), (3, HOUR)])
def test_a_drain_timeout_deletes_what_a_budget_blocks_and_nothing_else(surge: bool, least: int, force: float) -> None:
    answer = answer_of(cluster_of(3, least), max_surge=int(surge), drain_timeout=force)
    assert answer.after.upgrade is not None
    blocked = least == 3
    assert answer.after.upgrade.complete == (not blocked or bool(force))
    assert bool(answer.after.upgrade.forced) == (blocked and bool(force))
    assert [each.never for each in answer.after.blocks.drains] == ([True] if blocked else [])
    if answer.after.upgrade.complete:
        assert answer.after.running_after == 3
        assert (answer.after.upgrade.seconds >= 3 * force) == (blocked or not force)


@pytest.mark.parametrize(("unblocked", "why"), [(0, " in spite of PDBs"), (1, ", 3 of them in spite of PDBs"), (3, "")])
def test_pods_that_are_deleted_in_spite_of_their_pdbs_are_counted(unblocked: int, why: str) -> None:
    answer = answer_of(cluster_of(3, 3), drain_timeout=HOUR)
    assert answer.after.upgrade is not None
    for step in answer.after.upgrade.steps[:unblocked]:
        step.forced = [each._replace(pdbs=()) for each in step.forced]
    document = document_of(Simulated(answer, None, [], []))
    assert f"4 Pods are deleted after --drain-timeout{why}" in document.warnings
    assert document.effects.pdbs_violated == int(unblocked < 3)


def test_blockers_name_pods_nodes_and_counts() -> None:
    from forewarn.policies.prediction.simulation.simulation import Simulation

    simulation = Simulation(world_of(cluster_of(3, 3), (), until=HOUR))
    (found,) = blockers_of(simulation, ["n0", "n1"])
    assert (found.budget, found.nodes) == ("default/web", ["n0", "n1"])
    assert list(found.pods) == ["default/web-0", "default/web-1"]
    assert (found.healthy, found.desired, found.expected) == (3, 3, 3)
    assert blockers_of(simulation, []) == []


@pytest.mark.parametrize(("least", "more", "overlaps"), [(1, ("web",), True), (3, (), False), (3, ("other",), False)])
def test_pdbs_that_select_the_same_pods_block_each_other(least: int, more: tuple[str, ...], overlaps: bool) -> None:
    """Eviction rejects a Pod with more than one PDB, whatever they allow."""
    cache = cluster_of(3, least)
    for app in more:
        cache.add({**budget(app, 0).obj, "metadata": {"name": f"of-{app}", "namespace": "default"}})
    _, blocking, *_ = document_of(Simulated(answer_of(cache), None, [], [])).tables
    assert {row[-1] for row in blocking.rows} == {"another PDB selects the same Pods" if overlaps else ""}


def test_all_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = cluster_of(3, 3)
    items = [*(workload.object for workload in cache.snapshot().workloads.values()), *cache.pdbs.values()]
    items += [make_node(f"n{n}").label("pool", "ba"[n % 2]).obj for n in range(3)]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
    for n in range(3):
        pod = make_pod(f"web-{n}").labels(app="web").request(cpu="1").on(f"n{n}")
        items.append(pod.metadata(ownerReferences=[owner]).status(conditions=[{"type": "Ready", "status": "True"}]).obj)
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    asked = [
        "whatif",
        "upgrade",
        "--max-surge",
        "1",
        "--drain-timeout",
        "10m",
        "--cluster",
        str(tmp_path / "cluster.json"),
    ]
    assert main([*asked, "--fail-on", "pdbs-violated"]) == 1
    out = capsys.readouterr().out
    assert "all nodes upgraded in" in out.splitlines()[0]
    assert "WARN  3 Pods are deleted after --drain-timeout in spite of PDBs" in out
    assert re.search(r"^BLOCKING PDB +HEALTHY +DESIRED +PODS +NODES\ndefault/web +3 +3 +3 +3$", out, re.MULTILINE)
    assert main([*asked, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    printed, (blocker,) = document["upgrade"], document["blocks"]["drains"]
    assert (printed["surge"], len(printed["forced"]), blocker["never"]) == (True, 3, True)
    assert json.dumps(document).count(json.dumps(blocker)) == 1
    assert [pool["pool"] for pool in printed["pools"]] == ["a", "b"]


def test_surge_and_unavailable_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["whatif", "upgrade", "--max-surge", "1", "--max-unavailable", "1", *SHOWN])
    assert ended.value.code == 2
    assert "--max-surge and --max-unavailable are given. Fix: pass one of them" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "status", "clause"),
    [
        ((), "OK", "all nodes upgraded in 1 h 46 min"),
        (("--until", "60m"), "NO ANSWER", "not finished: 1 of 3 nodes upgraded after 1 h"),
    ],
)
def test_an_upgrade_that_goes_on_is_never_blocked(
    options: Sequence[str], status: str, clause: str, tmp_path: Path
) -> None:
    """Pods that terminate for longer than expected take more simulated time."""
    cluster = tmp_path / "cluster.json"
    items = objects_of(3, 2)
    for each in items:
        if each["kind"] == "Pod":
            each["spec"]["terminationGracePeriodSeconds"] = 2000
    cluster.write_text(json.dumps({"kind": "List", "items": items}))
    result = forewarn("whatif", "upgrade", *options, "--cluster", cluster)
    assert result.stdout.startswith(f"{status}  upgrade of 3 nodes, 1 at a time: {clause}")
    assert result.returncode == (3 if status == "NO ANSWER" else 0)


def test_a_drain_that_goes_on_is_not_blocked(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.json"
    items = objects_of(3, 2)
    for each in items:
        if each["kind"] == "Pod":
            each["spec"]["terminationGracePeriodSeconds"] = 5000
    cluster.write_text(json.dumps({"kind": "List", "items": items}))
    result = forewarn("whatif", "drain", "n0", "--cluster", cluster)
    assert result.stdout.startswith("NO ANSWER  drain of node n0: not finished: 0 of 1 node drained after 1 h")
    assert result.returncode == 3


def test_a_row_has_the_longest_time_which_the_headline_counts() -> None:
    once = Interruption("a/web", 5, down=1, replicas=2, since=0, until=600, seconds=600, times=1, most=1, longest=600)
    assert _down(once) == "1 of 2 down for 10 min"
    assert _down(once._replace(seconds=1200, times=2)) == "1 of 2 down for 20 min in all, up to 10 min"
    deeper = once._replace(down=2, replicas=4, seconds=320, most=2, longest=475)
    assert _down(deeper) == "2 of 4 down for 5 min 20 s, 1 or more for up to 7 min 55 s"


def test_no_hidden_row_of_a_class_has_a_larger_counter() -> None:
    """With less room, the first rows are shown: those with the largest of the three counters."""
    counts = {"top": (2, 1, 0), "high": (9, 0, 0), "low": (0, 0, 50), "none": (60, 1, 40)}
    rows: list[list[str | int]] = [
        ["a/b", name, -place, "", *numbers, ""] for place, (name, numbers) in enumerate(counts.items())
    ]
    table = _class_table(rows)
    assert [row[0] for row in table.rows] == ["none", "low", "high", "top"]
    assert table.total[2:6] == [71, 2, 90, 4]
