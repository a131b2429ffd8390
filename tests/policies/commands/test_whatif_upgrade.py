"""`forewarn whatif upgrade`: new nodes first, drain timeouts, pools, and the PDBs that block."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli import main
from forewarn.policies.objects.node import HOSTNAME
from forewarn.policies.render.drain import upgrade_tables
from forewarn.policies.render.whatif import down, effects_of, render
from forewarn.policies.simulation.dump import DumpCache, world_of
from forewarn.policies.whatif.answer import Blocks, Causes, WorkloadCount
from forewarn.policies.whatif.comparison import ask
from forewarn.policies.whatif.interruptions import Interruption
from forewarn.policies.whatif.questions import upgraded
from forewarn.policies.whatif.upgrade import UpgradedPool, UpgradeStep, blockers_of
from tests.builders import Made, make_node, make_pod
from tests.in_process import forewarn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.whatif.answer import Answer

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
    question = upgraded(cache.snapshot(), "", 1, 120.0, **options)
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
    assert "running: 0 Pods before, 1 after" in capsys.readouterr().out


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
    assert json.loads(capsys.readouterr().out)["fewer"] == lost


@pytest.mark.parametrize(
    ("away", "status", "lasts"), [("1h", 1, "1 h 35 s"), ("4m", 0, "4 min 35 s"), ("20s", 0, "55 s")]
)
def test_replicas_that_are_down_for_long_count_as_fewer(
    away: str, status: int, lasts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "items": objects_of(3, 0, nodes=1)}))
    command = ("whatif", "upgrade", "--away", away, "--cluster", str(cluster), "--fail-on", "fewer")
    assert main([*command]) == status
    out = capsys.readouterr().out
    assert f"; 3 of 3 replicas of default/web down for {lasts}: upgrade" in out
    assert f"default/web: 3 of 3 down from 0 s to {lasts}" in out
    main([*command, "-o", "json"])
    assert [each["down"] for each in json.loads(capsys.readouterr().out)["interruptions"]] == [3]


def test_an_interruption_is_the_worst_of_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One replica is down for longer than both, or both for a short time of it. The total decides about --fail-on."""
    cluster, events = tmp_path / "cluster.json", tmp_path / "events.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": objects_of(2, 0, nodes=2, cpu="1")}))
    worst = {}
    for until in (10.5, 13, 20, 100):
        at = {0: {"drain": "n0"}, 10: {"drain": "n1"}, until: {"uncordon": "n1"}, until + 10: {"uncordon": "n0"}}
        events.write_text(json.dumps([{"at": 60 * minute, **event} for minute, event in at.items()]))
        command = ["whatif", "events", "--events", str(events), "--until", "6h", "--cluster", str(cluster)]
        assert main(command) == 0
        text = "2 of 2 replicas of default/web down for 3 min (1 or more for 23 min)"
        assert (text in capsys.readouterr().out.splitlines()[0]) is (until == 13)
        assert main([*command, "--fail-on", "fewer", "-o", "json"]) == 1
        (one,) = json.loads(capsys.readouterr().out)["interruptions"]
        worst[until] = one["down"], one["most"], round(one["since"] / 60), round(one["seconds"] / 60)
    assert worst == {10.5: (2, 2, 10, 0), 13: (2, 2, 10, 3), 20: (2, 2, 10, 10), 100: (2, 2, 10, 90)}


@pytest.mark.parametrize(
    ("strategy", "grace", "text"),
    [("Recreate", 30, "4 of 4 replicas of default/web down for 30 s"), ("Recreate", 29, ""), ("RollingUpdate", 59, "")],
)
def test_a_restart_that_stops_all_replicas_is_an_interruption(
    strategy: str, grace: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
    first = capsys.readouterr().out.splitlines()[0]
    assert ("down" in first) == bool(text)
    assert text in first


@pytest.mark.parametrize(
    ("drains", "fails", "text", "in_row"),
    [
        (((0, 3), (3.5, 6.5)), 1, "for 6 min", "for 6 min from 0 s to 6 min 30 s"),
        (((0, 3), (3.5, 4)), 0, "for 3 min", "from 0 s to 3 min"),
        (
            ((0, 3), (10, 14)),
            1,
            "for 7 min (2 times, longest 4 min)",
            "for 7 min from 0 s to 14 min (2 times, ",
        ),
        (((0, 3), (10, 10.5)), 0, "for 3 min", "from 0 s to 3 min"),
        (
            ((0, 1), (10, 11)),
            0,
            "for 2 min (2 times, longest 1 min)",
            "for 2 min from 0 s to 11 min (2 times, ",
        ),
        (((0, 1.5),), 0, "", ""),
    ],
)
def test_several_interruptions(
    drains: Sequence[tuple[float, float]],
    fails: int,
    text: str,
    in_row: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One interruption, if less than a minute is between. What the line says in all decides about --fail-on."""
    cluster, events = tmp_path / "cluster.json", tmp_path / "events.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": objects_of(2, 0, nodes=2, cpu="1")}))
    at = [{"at": 60 * since, "drain": "n0"} for since, _ in drains]
    at += [{"at": 60 * until, "uncordon": "n0"} for _, until in drains]
    events.write_text(json.dumps(sorted(at, key=lambda each: (each["at"], "drain" in each))))
    command = ["whatif", "events", "--events", str(events), "--until", "6h", "--cluster", str(cluster)]
    assert main([*command, "--fail-on", "fewer"]) == fails
    first, *rows = capsys.readouterr().out.splitlines()
    assert (f"; 1 of 2 replicas of default/web down {text}: events" in first) == bool(text)
    assert any(row.startswith(f"    default/web: 1 of 2 down {in_row}") for row in rows) == bool(text)


def test_interruptions_of_any_number_of_replicas_are_added_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, events = tmp_path / "cluster.json", tmp_path / "events.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": objects_of(2, 0, nodes=2, cpu="1")}))
    at = {0: {"drain": "n0"}, 5: {"drain": "n1"}, 10: {"uncordon": "n1"}, 20: {"uncordon": "n0"}, 30: {"drain": "n0"}}
    at[40] = {"uncordon": "n0"}
    events.write_text(json.dumps([{"at": 60 * minute, **event} for minute, event in at.items()]))
    main(["whatif", "events", "--events", str(events), "--until", "6h", "--cluster", str(cluster)])
    first, *rows = capsys.readouterr().out.splitlines()
    assert "2 of 2 replicas of default/web down for 5 min (1 or more for 30 min)" in first
    assert "    default/web: 2 of 2 down from 5 min to 10 min (1 or more for 30 min)" in rows


@pytest.mark.parametrize(
    ("replicas", "away", "text"),
    [(3, 3, "the other 2 replicas down"), (3, 2, "1 of the other 2 replicas down"), (2, 2, "the other replica down")],
)
def test_the_replicas_that_are_not_lost_may_be_down(
    replicas: int, away: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What lasts comes before it: the PodDisruptionBudget has too few healthy Pods at the end."""
    cluster, events = tmp_path / "cluster.json", tmp_path / "events.yaml"
    objects = objects_of(replicas, replicas, nodes=replicas, cpu="1")
    cluster.write_text(json.dumps({"kind": "List", "items": objects}))
    lost = [{"at": 0, "lost": f"n{number}"} for number in range(away)]
    events.write_text(json.dumps(lost + [{"at": 1800, "create": node} for node in objects[1:away]]))
    main(["whatif", "events", "--events", str(events), "--until", "6h", "--cluster", str(cluster)])
    lasts = f"1 of {replicas} replicas of default/web lost (Pending), PDB default/web with too few healthy Pods"
    assert f"{lasts}, {text} for 30 min" in capsys.readouterr().out.splitlines()[0]


def test_each_of_several_workloads_that_lose_replicas_may_be_down_as_well() -> None:
    """One of them comes first, and is named."""
    outages = [Interruption(name, 0, 2, 2, 0, 60, 60, 1, 60, 2, 60) for name in ("x/a", "x/b")]
    assert down(outages[:1], ["x/a"]) == "the other 2 replicas down for 1 min"
    assert down(outages, ["x/a", "x/b"]) == (
        "the other 2 replicas of x/a down for 1 min, all replicas of x/b for 1 min"
    )


@pytest.mark.parametrize(
    ("stored", "scaled", "text"),
    [
        (2, {}, "2 of 2 replicas of default/web down for 19 min"),
        (3, {0: 2}, "2 of 2 replicas of default/web down for 19 min"),
        (3, {30: 1}, "3 of 3 replicas of default/web down for 19 min"),
        (3, {10: 1}, "3 of 3 replicas of default/web down for 9 min (1 or more for 19 min)"),
        (3, {10: 0}, "3 of 3 replicas of default/web down for 9 min"),
        (3, {0: 1, 10: 3}, "3 of 3 replicas of default/web down for 10 min (1 or more for 19 min)"),
    ],
)
def test_replicas_that_are_scaled_down_are_not_down(
    stored: int, scaled: Mapping[int, int], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The only node is away from minute 1 to 20. `stored`, `scaled`: the number of replicas, at first and by minute."""
    cluster, events = tmp_path / "cluster.json", tmp_path / "events.yaml"
    cluster.write_text(json.dumps({"kind": "List", "items": with_replicas(stored, objects_of(3, 0, nodes=1))}))
    web = {"kind": "ReplicaSet", "namespace": "default", "name": "web"}
    at: list[Any] = [{"at": 60 * minute, "scale": {**web, "replicas": count}} for minute, count in scaled.items()]
    at += [{"at": 60, "drain": "n0"}, {"at": 1200, "uncordon": "n0"}]
    events.write_text(json.dumps(at))
    main(["whatif", "events", "--events", str(events), "--until", "2h", "--cluster", str(cluster)])
    first = capsys.readouterr().out.splitlines()[0]
    assert f"; {text}: events" in first


@pytest.mark.parametrize(
    ("question", "fewer", "scaled_down"),
    [
        ("drain n0", 0, 1),
        ("lose node n0 n1", 1, 1),
        ("events --events events.json", 1, 0),
        ("lose --each node", 0, None),
    ],
)
def test_pods_beyond_the_replicas_at_the_start_are_not_lost(
    question: str, fewer: int, scaled_down: int | None, tmp_path: Path
) -> None:
    """Each of 3 nodes has a Pod of a ReplicaSet that wants 2, and no room for another one."""
    objects = with_replicas(2, objects_of(3, 0, nodes=3, cpu="1"))
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
    web = {"kind": "ReplicaSet", "namespace": "default", "name": "web", "replicas": 3}
    (tmp_path / "events.json").write_text(json.dumps([{"at": 0, "scale": web}, {"at": 60, "lost": "n0"}]))
    done = forewarn("whatif", *question.split(), "--cluster", "cluster.json", "-o", "json", cwd=tmp_path)
    found = json.loads(done.stdout)
    rows = found["rows"] if scaled_down is None else [found]
    assert {(row["fewer"], row.get("scaledDown")) for row in rows} == {(fewer, scaled_down)}


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
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("2 of 2 nodes upgraded in 17 min 10 s; 1 replica of default/low down for 17 min 10 s, ")


def test_new_nodes_replace_old_nodes_pool_by_pool() -> None:
    answer = answer_of(cluster_of(3, 2), surge=True)
    assert answer.upgrade is not None
    assert [(step.node, step.pool) for step in answer.upgrade.steps] == [("n1", "a"), ("n0", "b"), ("n2", "b")]
    assert sorted(answer.simulation.api.nodes) == ["n0-new", "n1-new", "n2-new"]
    assert answer.upgrade.complete
    assert answer.running_after == 3
    assert [(pool.pool, pool.upgraded) for pool in answer.upgrade.pools] == [("a", 1), ("b", 2)]
    assert sum(pool.seconds or 0 for pool in answer.upgrade.pools) <= answer.upgrade.seconds
    for step in answer.upgrade.steps:
        assert step.started_at is not None
        assert step.back_at is not None
        assert step.back_at - step.started_at >= 120.0


@pytest.mark.parametrize("surge", [False, True])
@pytest.mark.parametrize(("least", "force"), [(2, 0.0), (2, HOUR), (3, 0.0), (3, HOUR)])
def test_a_drain_timeout_deletes_what_a_budget_blocks_and_nothing_else(surge: bool, least: int, force: float) -> None:
    answer = answer_of(cluster_of(3, least), surge=surge, force=force)
    assert answer.upgrade is not None
    blocked = least == 3
    assert answer.upgrade.complete == (not blocked or bool(force))
    assert bool(answer.upgrade.forced) == (blocked and bool(force))
    assert [each.never for each in answer.blocks.drains] == ([True] if blocked else [])
    if answer.upgrade.complete:
        assert answer.running_after == 3
        assert (answer.upgrade.seconds >= 3 * force) == (blocked or not force)


@pytest.mark.parametrize(("unblocked", "why"), [(0, " in spite of PDBs"), (1, ", 3 of them in spite of PDBs"), (3, "")])
def test_the_first_line_counts_pods_that_are_deleted_in_spite_of_their_budgets(unblocked: int, why: str) -> None:
    answer = answer_of(cluster_of(3, 3), force=HOUR)
    assert answer.upgrade is not None
    for step in answer.upgrade.steps[:unblocked]:
        step.forced = [each._replace(blocked=False) for each in step.forced]
    assert f", 4 Pods of default/web deleted after --drain-timeout{why}; " in next(render(answer))


def test_the_first_line_of_an_incomplete_upgrade_counts_deleted_pods_too() -> None:
    first = next(render(answer_of(cluster_of(3, 3), force=4 * HOUR)))
    assert first.startswith("2 of 3 nodes upgraded, 3 Pods of default/web deleted after --drain-timeout in spite of")


def test_blockers_name_pods_nodes_and_counts() -> None:
    from forewarn.policies.simulation.simulation import Simulation

    simulation = Simulation(world_of(cluster_of(3, 3), (), until=HOUR))
    (found,) = blockers_of(simulation, ["n0", "n1"])
    assert (found.budget, found.nodes) == ("default/web", ["n0", "n1"])
    assert list(found.pods) == ["default/web-0", "default/web-1"]
    assert (found.healthy, found.desired, found.expected) == (3, 3, 3)
    assert blockers_of(simulation, []) == []


@pytest.mark.parametrize(
    ("least", "more", "needs", "fix"),
    [
        (1, ("web",), "another PDB selects the same Pods", "remove all but one of PodDisruptionBudgets {}, or narrow"),
        (3, (), "needs all 3", "let PodDisruptionBudget {} allow a disruption"),
        (3, ("other",), "needs all 3", "let PodDisruptionBudget {} allow a disruption"),
    ],
)
def test_a_drain_that_several_budgets_block_has_another_fix(
    least: int, more: tuple[str, ...], needs: str, fix: str
) -> None:
    """Eviction rejects a Pod with more than one PDB, whatever they allow."""
    cache = cluster_of(3, least)
    for app in more:
        cache.add({**budget(app, 0).obj, "metadata": {"name": f"of-{app}", "namespace": "default"}})
    text = "\n".join(render(answer_of(cache)))
    assert fix.format("default/of-web, default/web" if "web" in more else "default/web") in text
    assert needs in text
    assert ("select the same Pods: the eviction API allows one" in text) is ("web" in more)
    first, _, _ = text.partition("\n")
    assert ("PDBs default/of-web and default/web, which select the same Pods; " in first) is ("web" in more)


def test_preemptions_on_nodes_that_an_autoscaler_adds_have_a_row() -> None:
    pools = [UpgradedPool(name, [UpgradeStep(f"{name}1", name, 0.0, 1.0, 2.0, ())]) for name in "ab"]
    preempted: Any = [SimpleNamespace(node=node) for node in ("a1", "a1-new", "added", "added")]
    answer: Any = SimpleNamespace(preempted=preempted, upgrade=SimpleNamespace(pools=pools), blocks=Blocks())
    (table,) = upgrade_tables(answer)
    assert [(row[0], row[-1]) for row in table.rows] == [("a", 2), ("b", 0), ("(new nodes)", 2)]


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
    assert main([*asked, "--fail-on", "pdb"]) == 1
    out = capsys.readouterr().out
    assert "before the upgrade, 1 PDB blocks evictions, on 3 of 3 nodes:" in out
    assert "needs all 3" in out
    assert "3 of 3 nodes upgraded" in out.splitlines()[0]
    assert ", 3 Pods of default/web deleted after --drain-timeout in spite of PDBs; " in out.splitlines()[0]
    assert "deleted after --drain-timeout: 3 Pods" in out
    assert main([*asked, "-o", "markdown"]) == 0
    assert "| default/web | needs all 3 | 3 |" in capsys.readouterr().out
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


def test_lost_pods_of_failed_jobs_count_once_in_the_shortest_line() -> None:
    rows = [
        WorkloadCount(f"default/{name}", "default", "", 0, 3, 0, 0, 0, "", failure="BackoffLimitExceeded")
        for name in ("one", "two")
    ]
    answer: Any = SimpleNamespace(
        workloads=rows,
        rivals=(),
        equal_victims=(),
        has_more_rivals=False,
        placeholders=(),
        preempted=(),
        causes=Causes(0, 6, 2, 0),
        outages=(),
        over_quota=Counter(),
        summary=SimpleNamespace(violated_pdbs={}, missing=(), new_workloads=(), new_pods=0, new_pods_pending=0),
        pdbs={},
        without_change=None,
        replaced=Counter(),
        simulation=SimpleNamespace(world=SimpleNamespace(arrivals=())),
        new_nodes=None,
        until_scheduled=False,
        blocks=Blocks(),
        upgrade=None,
        has_blocked_rollouts=False,
    )
    assert effects_of(answer, most=2) == ["6 replicas of 2 workloads such as default/one lost (2 failed Jobs)"]
