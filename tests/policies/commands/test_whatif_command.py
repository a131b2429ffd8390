"""`forewarn whatif`: what happens, and the state after against the state before."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
import yaml

import forewarn
from forewarn.policies.cli.commands.whatif import argument_parser
from forewarn.policies.cli.main import main
from forewarn.policies.kubernetes.objects.node import HOSTNAME, ZONE
from tests.builders import Made, cluster_text, make_budget, make_node, make_pod, make_priority_class
from tests.cases import cases
from tests.in_process import captured

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOWN = "docs/examples/whatif/cluster.yaml"
Obj = dict[str, Any]


def run(capsys: pytest.CaptureFixture[str], *arguments: str, command: str = "whatif") -> tuple[int, str, str]:
    return captured(capsys, command, *arguments)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str, cluster: str = SHOWN) -> Any:
    status, out, err = run(capsys, *arguments, "--cluster", cluster, "-o", "json")
    assert (status, err) == (0, "")
    return json.loads(out)


def workload(name: str, replicas: int, cpu: int, priority: int) -> Obj:
    """Of Pods with the class of this value, or without a class for the value 0."""
    template = make_pod(name).request(cpu=f"{cpu}m").labels(app=name)
    if priority:
        template.of_class(priority)
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template.obj["spec"]},
        },
    }


def random_cluster(seed: int) -> Iterator[Obj]:
    """A few nodes in two zones, nearly full of replicas of several priorities, some under a budget."""
    rng, values = random.Random(seed), (10, 100, 1000)
    yield from (make_priority_class(value).obj for value in values)
    nodes = [f"n{number}" for number in range(rng.randint(2, 6))]
    for number, name in enumerate(nodes):
        yield make_node(name).label("topology.kubernetes.io/zone", "ab"[number % 2]).obj
    free = dict.fromkeys(nodes, 4000)
    for number in range(rng.randint(1, 5)):
        name, cpu, priority = f"w{number}", rng.choice((500, 1000, 1500, 2000)), rng.choice((0, *values))
        placed = 0
        for _ in range(rng.randint(1, 5)):
            node = rng.choice(nodes)
            if free[node] >= cpu:
                free[node] -= cpu
                pod = make_pod(f"{name}-x{placed}").priority(priority).request(cpu=f"{cpu}m").labels(app=name).on(node)
                owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": True}
                yield pod.metadata(ownerReferences=[owner]).obj
                placed += 1
        yield workload(name, placed, cpu, priority)
        if rng.random() < 0.5:
            yield {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}},
            }


def question(seed: int, objects: list[Obj]) -> tuple[list[str], list[Obj]]:
    """What to ask, and the same as events of a simulation."""
    rng = random.Random(-seed)
    nodes = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Node"]
    sets = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "ReplicaSet"]
    kind = ("node", "zone", "drain", "scale")[seed % 4]
    if kind == "node":
        lost = rng.sample(nodes, rng.randint(1, len(nodes)))
        return ["lose", "node", *lost], [{"lost": name} for name in lost]
    if kind == "zone":
        return ["lose", "zone", "a"], [{"lost": name} for name in nodes[::2]]
    if kind == "drain":
        name = rng.choice(nodes)
        return ["drain", name], [{"drain": name}]
    name, count = rng.choice(sets), rng.randint(0, 9)
    scale = {"kind": "ReplicaSet", "namespace": "default", "name": name, "replicas": count}
    return ["scale", f"ReplicaSet/{name}", str(count)], [{"scale": scale}]


@pytest.mark.usefixtures("few_runs", "no_fixes")
@pytest.mark.parametrize("seed", range(cases(24)))
def test_the_answer_is_what_the_simulation_of_the_event_comes_to(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counted anew from the events and the end that `forewarn whatif events` tells."""
    objects = list(random_cluster(seed))
    what, events = question(seed, objects)
    cluster, told = tmp_path / "cluster.json", tmp_path / "events.json"
    cluster.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    told.write_text(json.dumps(events))
    answer = asked(capsys, *what, cluster=str(cluster))
    arguments = ("--events", str(told), "--cluster", str(cluster), "-o", "json")
    outcome, *_ = json.loads(run(capsys, "events", *arguments)[1])["outcomes"]
    gone = {name for event in events for name in [event.get("lost")] if name}
    final = {name: state for name, state in outcome["final"].items() if not state.get("terminating")}
    running = Counter(name.rpartition("-")[0] for name, state in final.items() if state["node"] not in ("", *gone))
    pending = Counter(name.rpartition("-")[0] for name, state in final.items() if not state["node"])
    assert answer["running"]["after"] == sum(running.values())
    assert answer["pending"]["byWorkload"] == dict(pending)
    for standing in answer["workloads"]:
        assert standing["running"]["after"] == running[standing["workload"]]
    first = {event["pod"]: event["t"] for event in reversed(outcome["timeline"]) if event["event"] == "preempted"}
    assert {push["victim"]["pod"]: push["t"] for push in answer["preempted"]}.keys() == first.keys()
    assert answer["steadyAt"] == outcome["summary"]["steadyAt"]


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        ("drain a b", forewarn.Drain(["a", "b"])),
        ("upgrade", forewarn.Upgrade()),
        ("upgrade --pool a=b --max-surge 2 --away 1m --drain-timeout 1h", forewarn.Upgrade("a=b", 1, 2, 60, 3600)),
        ("restart deployment/web -n shop", forewarn.Restart("deployment/web", "shop")),
        ("scale deployment/web 0", forewarn.Scale("deployment/web", 0)),
        ("hpa", forewarn.MaxReplicas()),
        ("apply -f README.md -f LICENSE -n shop", forewarn.Apply(["README.md", "LICENSE"], "shop")),
        ("delete -f README.md", forewarn.Delete(["README.md"])),
        ("events -f README.md --runs 3 --seed 7", forewarn.Events("", ["README.md"], "default", 3, 7)),
        ("class gold --value 0 --default", forewarn.ChangeClass("gold", 0, True, workloads=[], manifests=[])),
        ("class gold --preemption-policy Never", forewarn.ChangeClass("gold", None, False, "Never", False, [], [])),
        (
            "class gold --delete -f README.md",
            forewarn.ChangeClass("gold", delete=True, workloads=[], manifests=["README.md"]),
        ),
    ],
)
def test_each_field_of_a_request_is_the_option_of_its_name(words: str, request_: object) -> None:
    options = argument_parser().parse_args(words.split())
    assert options.request(options) == request_


def test_an_upgrade_takes_each_node_once_and_so_many_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    one = asked(capsys, "upgrade", "--max-unavailable", "1")
    two = asked(capsys, "upgrade", "--max-unavailable", "2", "--away", "30s")
    assert one["running"] == two["running"] == {"before": 8, "after": 8}
    assert one["steadyAt"] > two["steadyAt"] > 0
    assert one["notDrained"] == {}
    assert [step["node"] for step in one["upgrade"]["order"]] == ["a-1", "a-2", "b-1", "b-2"]
    assert all(step["startedAt"] < step["emptiedAt"] < step["backAt"] for step in one["upgrade"]["order"])
    assert (one["upgrade"]["complete"], two["upgrade"]["complete"]) == (True, True)
    assert one["upgrade"]["leastSeconds"] == 480 <= one["upgrade"]["seconds"] <= one["steadyAt"]


UNREADY = "; or set unhealthyPodEvictionPolicy: AlwaysAllow to evict Pods that are not ready"
ALLOW_A_DISRUPTION = (
    "let PodDisruptionBudget shop/web allow a disruption (lower minAvailable, more Pods, or higher maxUnavailable)"
)


def blocked_at_a_2(path: Path) -> str:
    """The cluster with a PodDisruptionBudget that lets nobody evict the Pod of the shop on a-2."""
    text = Path(SHOWN).read_text().replace("{name: web-2, namespace: shop, labels: {app: web}}", LABELLED)
    path.write_text(text.replace("{maxUnavailable: 1, selector: {matchLabels: {app: web}}}", NO_EVICTION))
    return str(path)


LABELLED = "{name: web-2, namespace: shop, labels: {app: web, own: db}}"
NO_EVICTION = "{maxUnavailable: 0, selector: {matchLabels: {own: db}}}"


def test_an_upgrade_that_a_pdb_blocks_stops_at_its_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = blocked_at_a_2(tmp_path / "cluster.yaml")
    asked_for = ("upgrade", "--cluster", cluster)
    status, out, _ = run(capsys, *asked_for, "--fail-on", "blocked")
    assert status == 1
    assert out.startswith("BLOCKED  upgrade of 4 nodes, 1 at a time: stops at a-2 (node 2); 1 PDB blocks ")
    assert {"blocked 3 (1 by PDBs)", "upgraded 1 of 4", "PDBs blocking 1"} <= {*re.split(r" \| |\n *", out)}
    told = asked(capsys, "upgrade", cluster=cluster)
    assert (told["upgrade"]["complete"], told["upgrade"]["notReached"]) == (False, ["b-1", "b-2"])
    assert told["evictionBlockedBy"] == {"shop/web-2": ["shop/web"]}
    assert run(capsys, "upgrade", "--cluster", SHOWN, "--fail-on", "blocked")[0] == 0
    assert run(capsys, "drain", "a-2", "--cluster", cluster, "--fail-on", "blocked")[0] == 1


@pytest.mark.parametrize(("nodes", "away"), [(30, "2m"), (3, "40m")])
def test_an_upgrade_is_not_cut_off_by_default(
    nodes: int, away: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else happens while a node is away, however long that is."""
    (tmp_path / "nodes.json").write_text(cluster_text([*(make_node(f"n{each}").obj for each in range(nodes))]))
    told = asked(capsys, "upgrade", "--away", away, cluster=str(tmp_path / "nodes.json"))
    assert told["upgrade"]["complete"]
    assert told["upgrade"]["seconds"] >= told["upgrade"]["leastSeconds"] > 3600 - 1
    until = ("upgrade", "--away", away, "--until", "30m", "--cluster", str(tmp_path / "nodes.json"))
    assert not json.loads(run(capsys, *until, "-o", "json")[1])["upgrade"]["complete"]
    assert run(capsys, *until)[1].startswith(f"NO ANSWER  upgrade of {nodes} nodes, 1 at a time: not finished: ")


@pytest.mark.parametrize(
    ("budget", "blocking", "clause"),
    [(1, 1, "NO ANSWER  drain of 2 of 4 nodes: not finished: "), (0, 2, "BLOCKED  drain of 2 of 4 nodes: ")],
    ids=["a disruption is allowed later", "no disruption is ever allowed"],
)
def test_the_nodes_of_a_drain_that_is_cut_off_are_not_drained(
    budget: int, blocking: int, clause: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.yaml").write_text(
        Path(SHOWN).read_text().replace("maxUnavailable: 1", f"maxUnavailable: {budget}")
    )
    out = run(capsys, "drain", "a-1", "a-2", "--until", "20s", "--cluster", str(tmp_path / "cluster.yaml"))[1]
    assert out.startswith(f"{clause}0 of 2 nodes drained")
    assert sum(line.endswith("  shop/web") for line in out.splitlines()) == blocking


def test_a_drain_that_a_pdb_forbids_names_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(SHOWN).read_text().replace("maxUnavailable: 1", "maxUnavailable: 0")
    (tmp_path / "cluster.yaml").write_text(text)
    answer = asked(capsys, "drain", "a-1", cluster=str(tmp_path / "cluster.yaml"))
    assert answer["notDrained"] == {"a-1": ["shop/web-1"]}
    assert (answer["status"], answer["question"], answer["counters"]["blocked"]) == ("BLOCKED", "drain of node a-1", 1)
    assert answer["why"]["causes"] == [
        {"number": 1, "kind": "pdb", "reason": "PDB shop/web allows no disruptions"},
    ]
    assert answer["rows"] == [{"node": "a-1", "podsLeft": 1, "suchAs": "shop/web-1", "blockedByPdb": "shop/web"}]


NEW_NODE = json.dumps(make_node("a-1").has(cpu="4").obj)


@pytest.mark.parametrize(
    ("budget", "events", "drained"),
    [
        (0, "- {at: 1m, drain: a-1}", "0 of 1 node drained"),
        (0, "- {at: 0, drain: a-1}\n- {at: 10m, uncordon: a-1}", "0 of 1 node drained"),
        (0, "- {at: 0, drain: a-1}\n- {at: 10m, lost: a-1}", ""),
        (1, f"- {{at: 0, lost: a-1}}\n- {{at: 1m, create: {NEW_NODE}}}\n- {{at: 10m, drain: a-1}}", "drained 1 of 1"),
        (1, "- {at: 0, drain: a-1}\n- {at: 10m, uncordon: a-1}", "drained 1 of 1"),
    ],
)
def test_events_tell_of_drains_as_a_drain_does(
    budget: int, events: str, drained: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = Path(SHOWN).read_text().replace("maxUnavailable: 1", f"maxUnavailable: {budget}")
    (tmp_path / "cluster.yaml").write_text(text)
    (tmp_path / "events.yaml").write_text(events)
    asked_for = ("events", "--events", str(tmp_path / "events.yaml"), "--cluster", str(tmp_path / "cluster.yaml"))
    status, out, _ = run(capsys, *asked_for, "--fail-on", "blocked")
    is_blocked = drained.startswith("0")
    assert (drained in out, "drained" in out) == (True, bool(drained))
    assert (status, "shop/web allows no disruptions" in out) == (int(is_blocked), is_blocked)
    told = asked(capsys, *asked_for[:3], cluster=asked_for[4])
    assert told["notDrained"] == ({"a-1": ["shop/web-1"]} if is_blocked else {})


@pytest.mark.parametrize(
    ("version", "remaining"), [("apps/v1", {}), ("apps.kruise.io/v1alpha1", {"a-1": ["shop/agent"]})]
)
def test_a_drain_skips_only_pods_of_daemon_sets_of_kubernetes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, remaining: dict[str, list[str]]
) -> None:
    """A Pod of a DaemonSet of another API group is evicted like any other, so a PDB may block the drain."""
    (tmp_path / "cluster.yaml").write_text(
        f"""
apiVersion: v1
kind: Node
metadata: {{name: a-1}}
status: {{allocatable: {{cpu: "4", memory: 16Gi, pods: "110"}}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: agent
  namespace: shop
  labels: {{app: agent}}
  ownerReferences: [{{apiVersion: {version}, kind: DaemonSet, name: agent, uid: d, controller: true}}]
spec: {{nodeName: a-1, priority: 0, containers: [{{name: agent, image: agent}}]}}
status: {{phase: Running, conditions: [{{type: Ready, status: "True"}}]}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: agent, namespace: shop}}
spec: {{minAvailable: 1, selector: {{matchLabels: {{app: agent}}}}}}
"""
    )
    assert asked(capsys, "drain", "a-1", cluster=str(tmp_path / "cluster.yaml"))["notDrained"] == remaining


def test_a_drain_that_succeeds_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "drain", "a-1", "--cluster", SHOWN)[1].splitlines()
    assert lines[:2] == [
        "HARM  drain of node a-1: 1 Pod preempted, 2 stay Pending",
        "      preempted 1 | Pending 2 | lost 2 of 8 | drained 1 of 1 | Pods evicted 2",
    ]


NODE = """
{apiVersion: v1, kind: Node, metadata: {name: a-1, labels: {topology.kubernetes.io/zone: a, pool: %s}}, spec: {%s},
 status: {allocatable: {cpu: "4", memory: 16Gi, pods: "110"}}}"""
CHANGES = f"""
- {{at: 0, cordon: a-1}}
- {{at: 1, uncordon: a-1}}
- {{at: 2, update: {NODE % ("web", "taints: [{key: x, effect: NoSchedule}]")}}}
- {{at: 3, update: {NODE % ("web", "")}}}
- {{at: 4, update: {NODE % ("api", "")}}}
"""


def test_the_timeline_says_what_becomes_of_a_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = tmp_path / "events.yaml"
    events.write_text(CHANGES)
    _, out, _ = run(capsys, "events", "--events", str(events), "--cluster", SHOWN, "--timeline")
    assert "\nINPUT  cluster.yaml " in out.partition("\nTIMELINE from ")[0], "the answer and its input come first"
    told = [line.split("  ")[-1] for line in out.splitlines() if "node a-1" in line]
    assert [line.removeprefix("node a-1 ") for line in told[:5]] == [
        "is cordoned",
        "is uncordoned",
        "is tainted",
        "is untainted",
        "updated",
    ]


def test_markdown_and_html_begin_with_the_same_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = [
        make_priority_class(10).obj,
        make_node("n1").has(cpu="2", memory="8Gi", pods="10").obj,
        make_pod("low").priority(0).request(cpu="2").labels(app="low").on("n1").obj,
        make_budget("low", 0, app="low").obj,
    ]
    given, high = tmp_path / "cluster.json", tmp_path / "high.json"
    given.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster}))
    high.write_text(json.dumps(make_pod("high").of_class(10).request(cpu="2").obj))
    arguments = ("apply", "-f", str(high), "--cluster", str(given), "-o")
    told = run(capsys, *arguments, "markdown")[1].splitlines()[0]
    assert told == "### 🔴 HARM: Pod default/high applied: 1 of 1 new Pod runs, 1 Pod preempted"
    page = run(capsys, *arguments, "html")[1]
    assert '<h1 class="question"><span class="status harm">HARM</span> Pod default/high applied</h1>' in page
    assert '<p class="lead">1 of 1 new Pod runs, 1 Pod preempted</p>' in page


def test_a_class_that_is_deleted_refuses_what_is_made_anew(capsys: pytest.CaptureFixture[str]) -> None:
    answer = asked(capsys, "class", "gold", "--delete")
    assert answer["classChange"]["after"] is None
    (web,) = answer["classChange"]["workloads"]
    assert (web["workload"], web["newPods"]["after"], web["running"]) == ("shop/web", None, {"100000": 4})
    assert answer["running"] == {"before": 8, "after": 8}
    assert {(cell["class"], cell["workload"]): cell["after"] for cell in answer["classChange"]["mayPreempt"]} == {
        ("gold", "reports/nightly"): 0
    }


UNKNOWN_CLASS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: big, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: big}}
  template:
    metadata: {labels: {app: big}}
    spec: {priorityClassName: nope, containers: [{name: c, image: i}]}
"""
WAITS = """
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 64}}}]}
"""


@pytest.mark.parametrize("output", ["text", "markdown", "html"])
def test_every_form_says_what_is_left_undone(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node that is not drained, a PDB with too few healthy Pods, a workload that is not simulated, and what happens
    anyway.
    """

    def said(*arguments: str) -> str:
        _, out, _ = run(capsys, *arguments, "--cluster", SHOWN, "-o", output)
        return " ".join(re.sub(r"<[^>]*>", " ", out.replace("\\", "")).split())

    (tmp_path / "unknown.yaml").write_text(UNKNOWN_CLASS)
    (tmp_path / "waits.yaml").write_text(WAITS)
    out = said("lose", "node", "a-1", "--cluster", str(tmp_path / "unknown.yaml"))
    assert "not simulated: Deployment shop/big: spec.priorityClassName: no PriorityClass with name nope" in out
    out = said("lose", "node", "a-1", "a-2", "b-1", "b-2", "--cluster", str(tmp_path / "waits.yaml"))
    assert "PDBs short 1" in out
    assert "before the change: 1 Pod is Pending" in out
    assert "a-1 2" in said("drain", "a-1", "--until", "1s").replace(" | ", " ")


def test_lost_pods_and_pods_that_start_are_counted_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two Pods of `small` are preempted, three Pods of `big` start: one Pod more, but two lost."""
    node = make_node("n1").has(cpu="4", memory="8Gi", pods="50").obj
    objects: list[Obj] = [make_priority_class(10).obj, node, workload("small", 2, 1000, 0)]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "small", "controller": True}
    for name in ("small-a", "small-b"):
        pod = make_pod(name).priority(0).request(cpu="1").labels(app="small").on("n1")
        objects.append(pod.metadata(ownerReferences=[owner]).obj)
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(objects))
    (tmp_path / "big.yaml").write_text(yaml.safe_dump(workload("big", 3, 1300, 10)))
    answer = asked(capsys, "apply", "-f", str(tmp_path / "big.yaml"), cluster=str(tmp_path / "cluster.yaml"))
    assert (answer["running"], answer["counters"]["lost"]) == ({"before": 2, "after": 3}, 2)
    assert answer["clause"] == "3 of 3 new Pods run, 2 Pods preempted"


def test_where_nothing_happens_all_is_settled_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked(capsys, "class", "batch", "--delete")["steadyAt"] == 0.0


@pytest.mark.parametrize("kind", ["deploy", "Deployment", "deployments", "deployments.apps", "deployments.v1.apps"])
def test_a_kind_may_be_written_as_kubectl_takes_it(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        asked(capsys, "scale", f"{kind}/web", "3", "-n", "shop")["change"] == "Deployment shop/web scaled to 3 replicas"
    )


def test_a_default_takes_the_place_of_the_one_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(SHOWN).read_text().replace("value: 100000}", "value: 100000, globalDefault: true}")
    (tmp_path / "cluster.yaml").write_text(text)
    answer = asked(capsys, "class", "batch", "--default", cluster=str(tmp_path / "cluster.yaml"))
    assert answer["change"] == "PriorityClass batch changed (global default instead of gold)"
    assert answer["classChange"]["workloads"] == []


def test_what_is_deleted_runs_no_more(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\n")
    answer = asked(capsys, "delete", "-f", str(file))
    assert answer["running"] == {"before": 8, "after": 4}
    applied = asked(capsys, "apply", "-f", "docs/examples/headroom/cache.yaml")
    assert (applied["running"], applied["preempted"]) == ({"before": 8, "after": 10}, [])


def test_markdown_has_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "lose", "zone", "a", "--cluster", SHOWN, "-o", "markdown", "--fail-on", "preempted")
    assert status == 1
    assert "| Workload | Class | Value | Running | Lost | Pending | Preempted | Reason |" in out


def test_new_pods_of_a_deleted_class_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "class", "gold", "--delete", "--cluster", SHOWN)
    assert out.startswith("HARM  PriorityClass gold deleted: new Pods of 1 workload rejected\n")
    assert re.search(r"^shop/web +100,000 +rejected +1 +4$", out, re.MULTILINE)
    assert " | rejected 4 (when they are recreated)\n" in out


def test_a_class_change_names_the_classes_of_victims(capsys: pytest.CaptureFixture[str]) -> None:
    """As many Pods as the counter says, on the first screen."""
    _, out, _ = run(capsys, "class", "best", "--value", "100001", "--workloads", "shop/web", "--cluster", SHOWN)
    assert " preempted 4 (4 of class batch" in out


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (
            ["lose", "zone", "c", "--cluster", SHOWN],
            2,
            "no node matches zone c; known: a, b",
        ),
        (["lose", "node", "x", "--cluster", SHOWN], 2, 'node "x" not found in the cluster'),
        (["lose", "pool", "web", "--cluster", SHOWN], 2, 'invalid selector "web". Fix: write LABEL=VALUE'),
        (
            ["scale", "deploy/shop/web", "3", "--cluster", SHOWN],
            2,
            'not a workload; did you mean "shop/web"?',
        ),
        (
            ["scale", "deploy/web", "3", "--cluster", SHOWN],
            2,
            "Deployment default/web not found; found in shop. Fix: pass namespace shop (-n)",
        ),
        (["scale", "deploy/web", "-1", "--cluster", SHOWN], 2, ""),
        (["scale", "deploy/web", "99999999999", "--cluster", SHOWN], 2, "must be between 0 and"),
        (["class", "gold", "--cluster", SHOWN], 2, "no change given. Fix: pass --value, --default"),
        (["class", "new", "--default", "--cluster", SHOWN], 2, "give a value"),
        (["class", "gold", "--delete", "--value", "1", "--cluster", SHOWN], 2, "--delete goes without --value"),
        (["class", "gold", "--delete", "--default", "--cluster", SHOWN], 2, "--delete goes without --value"),
        (
            ["class", "system-mine", "--value", "1", "--cluster", SHOWN],
            2,
            "PriorityClass system-mine: metadata.name: Forbidden: priority class names with 'system-' prefix are",
        ),
        (["class", "Big_One", "--value", "1", "--cluster", SHOWN], 2, "PriorityClass Big_One: metadata.name: Invalid"),
        (
            ["scale", "rc.apps/web", "1", "--cluster", SHOWN],
            2,
            '"rc.apps/web": not a workload of a supported kind. Fix: write NAMESPACE/KIND/NAME; known: deployment',
        ),
        (["scale", "DaemonSet/web", "1", "--cluster", SHOWN], 2, "a DaemonSet has no replicas"),
        (["class", "system-node-critical", "--delete", "--cluster", SHOWN], 2, "a system class"),
        (["class", "gold", "--value", "1000000001", "--cluster", SHOWN], 2, "maximum allowed value"),
        (["lose", "zone", "a"], 3, "no kubeconfig found"),
        (
            ["delete", "-f", "docs/examples/simulate/default-class.yaml", "--cluster", SHOWN],
            3,
            "use forewarn whatif class medium --delete",
        ),
        (["upgrade", "--max-unavailable", "0", "--cluster", SHOWN], 2, "Fix: pass --max-surge as well"),
    ],
)
def test_what_cannot_be_asked_is_said(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str
) -> None:
    found, _, err = run(capsys, *arguments)
    assert found == status
    assert said in err
    assert "Traceback" not in err


def test_a_quota_that_delays_a_rollout_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Pods are created when kube-controller-manager's own code (1.36.3) creates them: each sync that fails counts,
    also one that the binding or the readiness of an earlier Pod triggers.
    """
    quota = Made("v1", "ResourceQuota", "four", "shop").spec(hard={"pods": "4"}).obj
    (tmp_path / "quota.json").write_text(json.dumps(quota))
    given = ("--cluster", SHOWN, "--cluster", str(tmp_path / "quota.json"), "--timeline")
    _, out, _ = run(capsys, "restart", "deployment/web", "-n", "shop", *given)
    rows = [line.strip() for line in out.splitlines()]
    assert [row.partition("  ")[0] for row in rows if "1 Pod bound" in row] == [
        "40 s",
        "1 min 21 s",
        "18 min",
        "35 min",
    ]
    assert "WARN  new Pods are rejected at first by quota shop/four: all run after 35 min" in rows
    assert "35 min  shop/web: retry 17 min after the last rejection by quota shop/four" in rows


def test_pods_that_a_quota_rejects_are_counted_in_every_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "shop"},
        "spec": {"hard": {"pods": "5"}},
        "status": {"hard": {"pods": "5"}, "used": {"pods": "4"}},
    }
    given = tmp_path / "cluster.yaml"
    given.write_text(f"{Path(SHOWN).read_text()}\n---\n{json.dumps(quota)}\n")
    scaled = ("scale", "deployment/web", "7", "-n", "shop", "--cluster", str(given))
    assert " | rejected 2" in run(capsys, *scaled)[1]
    assert "exceeded quota few: 5 + 1 of 5 pods" in run(capsys, *scaled, "-v")[1]
    assert "<dt>rejected</dt><dd>2</dd>" in run(capsys, *scaled, "-o", "html")[1]
    assert "rejected 2" in run(capsys, *scaled, "-o", "markdown")[1]
    answer = json.loads(run(capsys, *scaled, "-o", "json")[1])
    assert (answer["rejectedByQuota"], answer["counters"]["rejected"]) == ({"shop/web": 2}, 2)
    (tmp_path / "raised.json").write_text(json.dumps({**quota, "spec": {"hard": {"pods": "50"}}}))
    raised = run(capsys, "apply", "-f", str(tmp_path / "raised.json"), "--cluster", str(given))[1]
    assert ["shop/few", "pods", "4", "4", "5", "→", "50"] in [line.split() for line in raised.splitlines()]
    rows = [line.split() for line in run(capsys, *scaled)[1].splitlines()]
    assert rows[rows.index(["QUOTA", "RESOURCE", "USED", "AFTER", "LIMIT"]) + 1] == ["shop/few", "pods", "4", "5", "5"]


def test_predict_shows_the_usage_of_a_quota_that_rejects_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = {"hard": {"pods": "5"}, "used": {"pods": "4"}}
    quota = Made("v1", "ResourceQuota", "few", "shop").spec(hard={"pods": "5"}).status(**status).obj
    (tmp_path / "quota.json").write_text(json.dumps(quota))
    given = ("--cluster", SHOWN, "--cluster", str(tmp_path / "quota.json"))
    for replicas in ((), ("--replicas", "6")):
        _, out, _ = run(capsys, "-f", "docs/examples/headroom/cache.yaml", *replicas, *given, command="predict")
        assert "WARN  quota shop/few: pods 4 → 5 of 5\n" in out


def test_a_class_change_moves_pods_between_quotas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A quota with the scope PriorityClass counts the Pods after the restart, another one no longer does."""
    quotas = []
    for name, used in (("gold", "4"), ("best", "0")):
        only = {"scopeName": "PriorityClass", "operator": "In", "values": [name]}
        made = Made("v1", "ResourceQuota", name, "shop")
        made.spec(hard={"pods": "9"}, scopeSelector={"matchExpressions": [only]})
        quotas.append(made.status(hard={"pods": "9"}, used={"pods": used}).obj)
    (tmp_path / "quotas.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": quotas}))
    given = ("--cluster", SHOWN, "--cluster", str(tmp_path / "quotas.json"))
    out = run(capsys, "class", "best", "--value", "100001", "--workloads", "shop/web", *given)[1]
    rows = [line.split() for line in out.splitlines()]
    start = rows.index(["QUOTA", "RESOURCE", "USED", "AFTER", "LIMIT"])
    assert rows[start + 1 : start + 3] == [
        ["shop/best", "pods", "0", "4", "9"],
        ["shop/gold", "pods", "4", "0", "9"],
    ]


def test_the_reasons_of_lost_replicas_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "shop"},
        "spec": {"hard": {"pods": "1"}},
        "status": {"hard": {"pods": "1"}, "used": {"pods": "4"}},
    }
    (tmp_path / "quota.json").write_text(json.dumps(quota))
    given = ("--cluster", SHOWN, "--cluster", str(tmp_path / "quota.json"))
    lines = run(capsys, "lose", "node", "a-1", *given)[1].splitlines()
    assert lines[:8] == [
        "HARM  node a-1 lost: 2 replicas lost, 1 Pod stays Pending",
        "      preempted 0 | Pending 1 | lost 2 of 8 | rejected 1",
        "WARN  before the change: quota shop/few is exceeded (4 of 1 pods)",
        "",
        "WHY 2 REPLICAS ARE LOST",
        "    1  no capacity: 1 of class batch",
        "    1  quota shop/few rejects new Pods: shop/web",
        "",
    ]


ANYWAY = (
    "no harm by the change itself; without it as well: 1 replica of default/low lost (not recreated), 1 Pod preempted; "
    "1 Pending Pod of default/urgent now runs (also without the change): loss of node empty with 0 Pods"
)


def test_pods_of_the_older_replica_set_are_no_new_pods_of_a_blocked_rollout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Deployment scales it up first."""
    labels = {"app": "web", "pod-template-hash": "1"}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-web", "controller": True}
    of_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "uid-web-1", "controller": True}
    sizes = {"deployment.kubernetes.io/desired-replicas": "2", "deployment.kubernetes.io/max-replicas": "3"}

    def workload(kind: str, name: str, replicas: int, labels: dict[str, str], **pod: Any) -> Made:
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}], **pod}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        return Made("apps/v1", kind, name, "default").spec(**spec)

    made = [
        *(make_node("n1"), workload("Deployment", "web", 2, {"app": "web"})),
        workload("ReplicaSet", "web-1", 2, labels).metadata(labels=labels, annotations=sizes, ownerReferences=[owner]),
        *(make_pod(f"web-1-{n}").labels(**labels).metadata(ownerReferences=[of_set]).on("n1") for n in "ab"),
    ]
    (tmp_path / "cluster.json").write_text(cluster_text(made))
    changed = workload("Deployment", "web", 6, {"app": "web"}, nodeSelector={"disk": "ssd"})
    (tmp_path / "web.json").write_text(json.dumps(changed.obj))
    answer = asked(capsys, "apply", "-f", str(tmp_path / "web.json"), cluster=str(tmp_path / "cluster.json"))
    assert (answer["status"], answer["counters"]["blocked"]) == ("BLOCKED", 1)
    assert answer["clause"] == "1 rollout does not finish, 0 of 6 new Pods run"


def test_pods_that_are_created_anyway_and_run_are_no_outcome_without_the_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    created = Made("batch/v1", "Job", "import", "reports").spec(template={"spec": {"containers": []}})
    (tmp_path / "job.json").write_text(json.dumps(created.obj))
    both = ("lose", "node", "b-1", "--cluster", SHOWN, "--cluster", str(tmp_path / "job.json"))
    assert "without this change" not in run(capsys, *both)[1]
    assert "withoutChange" not in run(capsys, *both, "-o", "json")[1]


def test_what_happens_anyway_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [make_node(name).has(cpu="4", pods="110") for name in ("n1", "n2", "n3")]
    pods = [
        make_pod("low").priority(1).request(cpu="4").on("n1"),
        make_pod("same").priority(5).request(cpu="4").on("n2"),
        make_pod("lost").priority(5).request(cpu="4").on("n3"),
        make_pod("urgent").priority(5).request(cpu="4"),
    ]
    empty, cluster = make_node("empty").has(cpu="1", pods="110"), str(tmp_path / "cluster.json")
    (tmp_path / "cluster.json").write_text(cluster_text([*nodes, empty, *pods]))
    out = run(capsys, "lose", "node", "n3", "--cluster", cluster)[1]
    assert "WARN  without the change: 1 Pod preempted, 1 replica lost\n" in out
    status = run(capsys, "lose", "node", "empty", "--cluster", cluster)[1].splitlines()[0]
    assert status == "WARN  node empty lost: nothing beyond what happens without it: 1 Pod preempted"
    out = run(capsys, "lose", "--each", "node", "--cluster", cluster)[1]
    assert out.startswith("HARM  each of 4 nodes lost alone: 2 do harm; worst node n")
    assert "\nempty " not in out


@pytest.mark.parametrize(("last", "created"), [("2026-01-01T11:30:00Z", 0), ("2026-01-01T10:30:00Z", 1)])
def test_a_stored_run_of_a_cron_job_is_not_repeated(
    last: str, created: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its Job may be gone, by ttlSecondsAfterFinished or a history limit."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    cron_job = Made("batch/v1", "CronJob", "report", "default")
    cron_job.spec(schedule="30 * * * *", jobTemplate={"spec": {"template": template}}).status(lastScheduleTime=last)
    cron_job.metadata(creationTimestamp="2025-12-01T00:00:00Z")
    web = make_pod("web").request(cpu="1").on("n1").metadata(creationTimestamp="2026-01-01T12:00:00Z")
    (tmp_path / "cluster.json").write_text(cluster_text([make_node("n1"), make_node("n2"), web, cron_job]))
    _, out, _ = run(capsys, "drain", "n1", "--cluster", str(tmp_path / "cluster.json"), "--timeline")
    assert out.count("default/report: 1 Pod created") == created, out


@pytest.mark.parametrize(
    ("command", "first"),
    [
        (("whatif", "apply"), "OK  Pod default/new applied: 1 of 1 new Pod runs"),
        (("predict",), "OK  Pod default/new: the new Pod runs on n1"),
        (("headroom",), "OK  Pod default/new (priority 0; 1 nvidia.com/gpu): 1 more Pod fits"),
    ],
    ids=" ".join,
)
def test_a_limit_range_completes_a_pod(
    command: tuple[str, ...], first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kube-apiserver requires a limit of an extended resource, which may be the default of a LimitRange."""
    gpu = "nvidia.com/gpu"
    of_containers = Made("v1", "LimitRange", "gpu", "default").spec(
        limits=[{"type": "Container", "default": {gpu: "1"}}]
    )
    node = make_node("n1").has_of(gpu, "1")
    (tmp_path / "cluster.json").write_text(cluster_text([node, of_containers]))
    new = make_pod("new")
    new.container["resources"]["requests"][gpu] = "1"
    (tmp_path / "new.json").write_text(json.dumps(new.obj))
    main([*command, "-f", str(tmp_path / "new.json"), "--cluster", str(tmp_path / "cluster.json")])
    assert capsys.readouterr().out.startswith(first)


def test_a_loss_that_adds_nothing_to_what_happens_anyway(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [make_node("n1").has(cpu="4", pods="110"), make_node("empty").label(ZONE, "z").has(cpu="1", pods="110")]
    pods = make_pod("low").priority(1).request(cpu="4").on("n1"), make_pod("urgent").priority(5).request(cpu="4")
    (tmp_path / "cluster.json").write_text(cluster_text([*nodes, *pods]))
    lose = ("lose", "--each", "zone", "--fail-on", "preempted", "--cluster", str(tmp_path / "cluster.json"))
    status, out, _ = run(capsys, *lose)
    assert out.startswith("OK  each of 1 zone lost alone: no more harm than without a loss\n")
    assert status == 1


def test_each_victim_counts_for_the_first_object_that_preempts_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low = [make_pod(name).priority(1).request(cpu="2").on("n1") for name in ("low-1", "low-2")]
    node, high = make_node("n1").has(cpu="4", pods="110"), make_priority_class(9, "high")
    (tmp_path / "cluster.json").write_text(cluster_text([node, high, *low]))
    new = [
        make_pod(name).priority(9).request(cpu="2").spec(priorityClassName="high").obj for name in ("first", "second")
    ]
    (tmp_path / "new.yaml").write_text("---\n".join(json.dumps(pod) + "\n" for pod in new))
    manifest, cluster = str(tmp_path / "new.yaml"), ("--cluster", str(tmp_path / "cluster.json"))
    assert run(capsys, manifest, *cluster, command="lint")[1].count("would preempt 1 Pod on n1: ") == 2
    document = json.loads(run(capsys, "-f", manifest, *cluster, "-o", "json", command="predict")[1])
    assert document["counters"]["victims"] == 2
    assert [row["victims"] for row in document["rows"]] == [1, 1]


def test_what_many_workloads_wait_for_is_one_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = make_node("n1").has(cpu="1", memory="8Gi", pods="110").obj
    pods = [make_pod(name).request(cpu="2").obj for name in ("a", "b", "c")]
    cluster, file = tmp_path / "cluster.json", tmp_path / "pods.json"
    cluster.write_text(cluster_text([node]))
    other = make_pod("aa").request(cpu="2").spec(nodeSelector={"pool": "none"}).obj
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pods[0], other, *pods[1:]]}))
    answer = asked(capsys, "apply", "-f", str(file), cluster=str(cluster))
    assert [(each["number"], each["kind"]) for each in answer["why"]["causes"]] == [(3, "capacity"), (1, "constraint")]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    small = tmp_path / "groups.yaml"
    groups = Path("docs/examples/whatif/node-groups.yaml").read_text()
    small.write_text(groups.replace("cpu: 4,", "cpu: 1,").replace("cpu: 15500m", "cpu: 1500m"))
    asked_with = ("apply", "-f", str(file), "--cluster", str(cluster), "--expendable-pods-priority-cutoff", "-1")
    _, out, _ = run(capsys, *asked_with, "--node-templates", str(small), "-v")
    row = out.partition("\nNO NEW NODE BECAUSE")[2].splitlines()[1]
    assert row.endswith("     3  default/a and 2 more")


def test_markdown_of_a_class_has_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "class", "batch", "--value", "200000", "--cluster", SHOWN, "-o", "markdown")
    assert "| New Pods of | Value before | Value after | Workloads | Running Pods |" in out
    assert "| reports/nightly | 100, never preempts | 200,000, never preempts | 1 | 4 |" in out


def test_a_zone_and_every_zone_count_one_loss_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods of a DaemonSet are deleted with their nodes: they are no lost replicas."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "controller": True}
    agents = [
        make_pod(f"agent-{node}").labels(app="agent").on(node).metadata(ownerReferences=[owner]).obj
        for node in ("a-1", "a-2", "b-1", "b-2")
    ]
    daemons = workload("agent", 0, 0, 0) | {"kind": "DaemonSet"}
    del daemons["spec"]["replicas"]
    (tmp_path / "agents.json").write_text(json.dumps({"items": [daemons, *agents]}))
    both = ("--cluster", SHOWN, "--cluster", str(tmp_path / "agents.json"))
    zone = json.loads(run(capsys, "lose", "zone", "a", *both, "-o", "json")[1])
    every = json.loads(run(capsys, "lose", "--each", "zone", *both, "-o", "json")[1])
    (row,) = [row for row in every["cases"] if row["case"] == "zone a"]
    lost = zone["counters"]["lost"]
    assert zone["counters"] == row["counters"]
    assert lost > 0
    assert zone["daemonPodsOfLostNodes"] == 2
    assert zone["running"]["before"] - zone["running"]["after"] == lost + zone["daemonPodsOfLostNodes"]


ROLLOUT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {version: "2"}}
    spec:
      priorityClassName: gold
      containers: [{name: web, image: web, resources: {requests: {cpu: "2"}}}]
"""


def test_each_count_of_a_rollout_has_its_basis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "web.yaml").write_text(ROLLOUT)
    given = ("-f", str(tmp_path / "web.yaml"), "--cluster", SHOWN)
    applied = json.loads(run(capsys, "apply", *given, "-o", "json")[1])
    assert applied["basis"] == "settled"
    document = json.loads(run(capsys, *given, "-o", "json", command="predict")[1])
    assert document["counters"]["preempted"] == applied["counters"]["preempted"]
    assert [each["basis"] for each in document["objects"]] == ["rollout"]
    linted = run(capsys, str(tmp_path / "web.yaml"), "--cluster", SHOWN, command="lint")[1]
    assert "during its rollout, " in linted
    report = json.loads(run(capsys, str(tmp_path / "web.yaml"), "--cluster", SHOWN, "-o", "json", command="lint")[1])
    assert {each["detail"]["basis"] for each in report["findings"] if "newPods" in each.get("detail", {})} == {
        "rollout"
    }


@pytest.mark.parametrize(
    ("spec", "status", "outcome", "reason"),
    [
        ({}, 0, "fits", ""),
        (
            {"schedulerName": "volcano"},
            3,
            "not-predicted",
            'the Pod is for another scheduler, "volcano"',
        ),
    ],
)
def test_a_rollout_without_a_line_for_each_pod_says_its_basis_and_why(
    spec: dict[str, str], status: int, outcome: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = yaml.safe_load(ROLLOUT.replace('"2"}}]', '"1m"}}]').replace('cpu: "2"', "cpu: 1m"))
    changed["spec"]["template"]["spec"] |= spec
    (tmp_path / "web.yaml").write_text(json.dumps(changed))
    given = ("-f", str(tmp_path / "web.yaml"), "--cluster", SHOWN)
    told, out = run(capsys, *given, command="predict")[:2]
    assert told == status
    assert reason in out
    document = json.loads(run(capsys, *given, "-o", "json", command="predict")[1])
    assert [(outcome in each["outcomes"], each["basis"]) for each in document["objects"]] == [(True, "rollout")]


def test_a_class_whose_value_is_immutable_is_rejected_and_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gold.yaml"
    file.write_text(
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: gold}\nvalue: 50\n---\n"
        + ROLLOUT.replace("replicas: 6", "replicas: 3").replace("name: web", "name: api")
    )
    status, out, err = run(capsys, "apply", "-f", str(file), "--cluster", SHOWN, "-o", "json")
    why = f"{file}:4:8: PriorityClass gold: value: rejected: immutable, stays 100000. Fix: "
    assert (status, err.startswith(f"forewarn whatif: {why}")) == (3, True)
    answer = json.loads(out)
    assert (answer["status"], answer["question"]) == ("REJECTED", "2 objects applied")
    assert answer["why"]["causes"][0]["reason"] == "PriorityClass gold (value: immutable, stays 100000)"
    assert any(each.startswith(f"not simulated: {why}") for each in answer["notes"])
    assert {each["by"]["priority"] for each in answer["preempted"]} == {100000}


def test_a_class_that_argo_cd_recreates_has_the_new_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = '{argocd.argoproj.io/sync-options: "Force=true,Replace=true"}'
    file = tmp_path / "gold.yaml"
    file.write_text(
        f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: gold, annotations: {options}}}\n"
        "value: 50\n---\n" + ROLLOUT.replace("replicas: 6", "replicas: 3").replace("name: web", "name: api")
    )
    status, out, err = run(capsys, "apply", "-f", str(file), "--cluster", SHOWN, "-o", "json")
    assert (status, err) == (0, "")
    answer = json.loads(out)
    assert answer["question"] == "2 objects applied, with new PriorityClass gold (recreated, value 100000 → 50)"
    assert {each["by"]["priority"] for each in answer["preempted"]} <= {50}


def test_a_changed_priority_of_applied_workloads_has_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`newPods` only has workloads that do not change."""
    (tmp_path / "web.yaml").write_text(ROLLOUT.replace("replicas: 6", "replicas: 3").replace("gold", "batch"))
    answer = asked(capsys, "apply", "-f", str(tmp_path / "web.yaml"))
    assert answer["rows"] == [
        {
            "newPodsOf": "shop/web",
            "valueBefore": 100000,
            "valueAfter": "100, never preempts",
            "workloads": 1,
            "runningPods": 4,
        }
    ]
    assert "newPods" not in answer


MISSING = ROLLOUT.replace("gold", "glod").replace("name: web", "name: api")


def test_pods_that_admission_rejects_are_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same status and message as `forewarn predict`; other objects of the same files are simulated."""
    file, both = tmp_path / "api.yaml", tmp_path / "both.yaml"
    file.write_text(MISSING)
    both.write_text(f"{MISSING}---\n{ROLLOUT}")
    path = "Deployment shop/api: spec.template.spec.priorityClassName"
    reason = f'{path}: no PriorityClass with name glod was found; did you mean "gold"?\n'
    for command in (("whatif", "apply"), ("whatif", "class", "new", "--value", "5"), ("predict",), ("headroom",)):
        status, out, err = run(capsys, *command[1:], "-f", str(file), "--cluster", SHOWN, command=command[0])
        rejected = 'Pods of Deployment shop/api: no PriorityClass with name glod was found; did you mean "gold"?'
        assert (status, out) == (3, f"REJECTED  {rejected}\n")
        assert err.startswith(f"forewarn {command[0]}: {file}:")
        assert err.endswith(reason)
    status, out, err = run(capsys, "apply", "-f", str(both), "--cluster", SHOWN)
    assert (status, err.count("\n"), err.endswith(reason)) == (3, 1, True)
    assert out.startswith("REJECTED  2 objects applied: 1 object rejected, ")
    assert "WHY 1 OBJECT IS REJECTED" in out
    assert "not simulated" in run(capsys, "apply", "-f", str(both), "--cluster", SHOWN, "-o", "json")[1]
    assert run(capsys, "class", "glod", "--value", "5", "-f", str(file), "--cluster", SHOWN)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (("gold", "--value", "7"), "PriorityClass gold deleted and recreated (value 100000 → 7)"),
        (("gold", "--preemption-policy", "Never", "--default"), "(preemptionPolicy Never, global default)"),
        (("gold", "--default"), "PriorityClass gold changed (global default)"),
        (("new", "--value", "5"), "PriorityClass new created (value 5)"),
    ],
)
def test_a_class_change_says_what_is_simulated(
    arguments: tuple[str, ...], question: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert question in asked(capsys, "class", *arguments)["question"]


def test_a_class_change_restarts_no_paused_deployment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Path(SHOWN).read_text()
    (tmp_path / "c.yaml").write_text(cluster.replace("replicas: 4", "replicas: 4\n    paused: true"))
    answer = asked(capsys, "class", "gold", "--value", "7", cluster=str(tmp_path / "c.yaml"))
    assert answer["clause"] == "new Pods of 1 workload change priority"


@pytest.mark.parametrize("change", ["apply", "events"])
def test_a_second_default_is_rejected(change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, sample = "webhook/sample/manifests/standard.yaml", "webhook/sample/cluster.yaml"
    status, out, err = run(capsys, change, "-f", file, "--cluster", sample)
    first = "REJECTED  PriorityClass standard: globalDefault: PriorityClass normal is already marked as default."
    assert (status, out.startswith(first)) == (3, True)
    why = "PriorityClass standard: globalDefault: rejected: PriorityClass normal is already marked as default. "
    assert err.startswith(f"forewarn whatif: {file}:7:16: {why}")
    both = tmp_path / "both.yaml"
    made = (
        "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {}}}\nvalue: 5\nglobalDefault: true\n"
    )
    both.write_text("---\n".join(map(made.format, ("first", "s" * 100, "t" * 250))))
    status, out, err = run(capsys, change, "-f", str(both), "--cluster", SHOWN)
    assert status == 3
    assert out.startswith("REJECTED  3 objects applied")
    assert "\nWHY 2 OBJECTS ARE REJECTED\n" in out
    assert "globalDefault: rejected: PriorityClass first is already marked as default" in err


@pytest.mark.parametrize("command", [("predict",), ("headroom",)])
@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        ("standard", "globalDefault: true", "globalDefault: rejected: PriorityClass normal is already marked as"),
        ("web", "", "value: rejected: immutable, stays 100000. Fix: delete and recreate the class"),
        (
            "system-new",
            "",
            "metadata.name: rejected: Forbidden: priority class names with 'system-' prefix are reserved",
        ),
        ("new", "preemptionPolicy: Sometimes", 'preemptionPolicy: rejected: Unsupported value: "Sometimes"'),
    ],
)
def test_other_commands_reject_the_same_classes(
    command: tuple[str, ...], name: str, more: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: 5\n{more}\n"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    file = tmp_path / "given.yaml"
    file.write_text(f"{made}---\n{json.dumps(pod)}\n")
    status = main([*command, "-f", str(file), "--cluster", "webhook/sample/cluster.yaml"])
    out, err = capsys.readouterr()
    assert (status, bool(out)) == (3, command[0] in ("predict", "headroom"))
    assert f"PriorityClass {name}: {why}" in err
    assert err.count("rejected:") == 1


def test_new_pods_that_a_quota_rejects_count_among_those_that_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": 2}}}
    template = {"metadata": {"labels": {"app": "extra"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 5, "selector": {"matchLabels": {"app": "extra"}}, "template": template}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "extra"}, "spec": spec}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "extra"}}
    (tmp_path / "given.yaml").write_text("\n---\n".join(map(json.dumps, (namespace, quota, workload))))
    out = run(capsys, "apply", "-f", str(tmp_path / "given.yaml"), "-n", "extra", "--cluster", SHOWN)[1]
    assert out.startswith("HARM  3 objects applied: 2 of 5 new Pods run, 3 Pods rejected\n")
    assert "    3  by quota extra/few\n" in out


def test_options_are_errors_of_the_change_that_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, "lose", "--each", "node", "--shard", "5/2", "--cluster", SHOWN)
    assert err.startswith("forewarn whatif lose: ")
    _, _, err = run(capsys, "upgrade", "--away", "x", "--cluster", SHOWN)
    assert "argument --away: must be seconds, or a duration in s, m or h such as 90s" in err


def test_a_rollout_that_does_not_finish_is_blocked(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "class", "web", "--value", "5", "--cluster", "webhook/sample/cluster.yaml")[1]
    assert out.startswith("BLOCKED  PriorityClass web ")
    assert "1 rollout does not finish" in " ".join(out.split())


@pytest.mark.parametrize(
    ("command", "empty"),
    [(("whatif", "apply"), "no object that can be simulated"), (("predict",), "no Pod or workload found")],
)
def test_a_misspelt_kind_is_named(
    command: tuple[str, ...], empty: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelt PriorityClass between other objects is an error, as kubectl rejects it."""
    workload = {"apiVersion": "apps/v1", "kind": "Fleet", "metadata": {"name": "web"}}
    priority_class = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriortyClass",
        "metadata": {"name": "a"},
        "value": 1,
    }
    for objects, said in (
        ([workload], f"{empty}; found only Fleet. Fix: "),
        ([workload | {"kind": "Deploymnet"}], 'no matches for kind "Deploymnet" in version "apps/v1"; did you'),
        (
            [make_pod("p").obj, priority_class],
            'no matches for kind "PriortyClass" in version "scheduling.k8s.io/v1"; did you',
        ),
    ):
        file = tmp_path / "a.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        status = main([*command, "-f", str(file), "--cluster", "docs/examples/whatif/cluster.yaml"])
        assert status == 3
        assert said in capsys.readouterr().err


def listed_in(path: Path, *objects: Any) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]}))
    return str(path)


@pytest.mark.parametrize("selects", [True, False])
def test_pods_of_a_missing_replica_set_are_replaced_if_a_deployment_selects_them(
    selects: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot without ReplicaSets: the simulation adds the ReplicaSet of a Deployment."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r", "controller": True}
    pod = make_pod("web-1-x").request(cpu="1").labels(app="web").on("n1").metadata(ownerReferences=[owner])
    labels = {"app": "web" if selects else "api"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    web = Made("apps/v1", "Deployment", "web", "default").spec(
        replicas=1, selector={"matchLabels": labels}, template=template
    )
    cluster = listed_in(tmp_path / "c.json", make_node("n1").obj, make_node("n2").obj, web.obj, pod.obj)
    _, out, _ = run(capsys, "lose", "node", "n1", "--cluster", cluster)
    assert ("not replaced: 1 workload missing from the cluster snapshot" in out) is not selects
    _, out, _ = run(capsys, "lose", "--each", "node", "--cluster", cluster)
    assert ("1 Pod is not replaced" in out) is not selects


LIVE = "tests/webhook/cases/live/spread"


def test_the_answer_is_that_of_most_runs_if_races_decide_how_long_pods_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kube-scheduler retries a Pod that loses a race after 5 minutes; a live cluster needed 10 s."""
    review = json.loads(Path(f"{LIVE}-review.json").read_text())
    (tmp_path / "web.json").write_text(json.dumps(review["request"]["object"]))
    arguments = ("apply", "-f", str(tmp_path / "web.json"), "--cluster", f"{LIVE}-cluster.json")
    out = run(capsys, *arguments, "-o", "text", "-o", f"json={tmp_path}/answer.json")[1]
    slow = "WARN 21 of 24 random runs take at most 10 s, the others up to 5 min 35 s"
    assert slow in " ".join(out.split())
    found = json.loads((tmp_path / "answer.json").read_text())
    assert (found["typicalOf"]["total"], found["typicalOf"]["alike"], int(found["steadyAt"])) == (24, 21, 10)
    with patch("forewarn.policies.questions.whatif.comparison.MAX_REPEATED", 0):
        assert asked(capsys, *arguments[:3], cluster=f"{LIVE}-cluster.json")["steadyAt"] > 660


def rewritten(path: Path, priority_class: str) -> str:
    """Write the Deployments of the sample cluster, with another class, to a file."""
    shown = next(yaml.safe_load_all(Path(SHOWN).read_text()))
    objects = [obj for obj in shown["items"] if obj["kind"] == "Deployment"]
    for obj in objects:
        obj["spec"]["template"]["spec"]["priorityClassName"] = priority_class
    return listed_in(path, *objects)


@pytest.mark.usefixtures("few_runs", "no_fixes")
@pytest.mark.parametrize("how", ["files", "namespaces", "names", "labels"])
def test_workloads_with_another_class_change_priority(
    how: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Manifests and `--workloads` give workloads the class: nothing is left to preempt once all Pods are replaced."""
    documents = [*yaml.safe_load_all(Path(SHOWN).read_text())]
    for obj in documents[0]["items"]:
        obj["metadata"]["labels"] = {**obj["metadata"].get("labels", {}), "team": "a"}
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(yaml.safe_dump_all(documents))
    arguments = {
        "files": ["-f", rewritten(tmp_path / "new.json", "vip")],
        "namespaces": ["--workloads", "namespace=shop", "--workloads", "namespace=rep*"],
        "names": ["--workloads", "deploy/nightly", "-n", "reports", "--workloads", "namespace=shop"],
        "labels": ["--workloads", "namespace=*,team=a"],
    }[how]
    change = asked(capsys, "class", "vip", "--value", "200000", *arguments, cluster=str(cluster))["classChange"]
    after = {each["workload"]: each["newPods"]["after"]["priority"] for each in change["workloads"]}
    assert after == {"reports/nightly": 200_000, "shop/web": 200_000}
    assert {
        total["class"]: (total["before"], total["duringRollout"], total["after"]) for total in change["totals"]
    } == {
        "vip": (0, 8, 0),
        "gold": (4, 4, 0),
    }


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--workloads", "namespace=shpo"], 'namespace "shpo" not found; did you mean "shop"?'),
        (
            ["--workloads", "deployment/web"],
            "Deployment default/web not found; found in shop. Fix: pass namespace shop (-n)",
        ),
        (
            ["--workloads", "job/web"],
            '"job/web": not a workload of a supported kind. Fix: pass its manifest to forewarn whatif',
        ),
        (["--workloads", "team=a", "-n", "shop"], 'no workload in namespace "shop" matches "team=a"'),
        (["--workloads", "namespace=shop", "-f", "README.md"], "--workloads and -f are given. Fix: pass one of them"),
        (["--workloads", "namespace=shop", "--delete"], "--delete goes without"),
    ],
)
def test_workloads_that_do_not_exist_are_wrong_usage(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(capsys, "class", "gold", *arguments, "--cluster", SHOWN)
    assert (status, problem in err) == (2, True), err


@pytest.mark.parametrize(
    ("schedule", "until", "pending", "simulated"),
    [
        ("*/30 * * * *", (), 1, "only the first Job (all: --until) is"),
        ("*/5 * * * *", (), 1, "only the first Job (all: --until) is"),
        ("*/30 * * * *", ("--until", "2h"), 4, "all Jobs due in 2 h are"),
        ("0 3 * * *", ("--until", "24h"), 1, "all Jobs due in 24 h are"),
        ("0 3 * * *", (), 0, ""),
    ],
)
def test_an_applied_cron_job_is_simulated_until_it_starts(
    schedule: str,
    until: tuple[str, ...],
    pending: int,
    simulated: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With --until, all its Jobs are."""
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}]
    pod = {"restartPolicy": "Never", "priorityClassName": "gold", "containers": containers}
    template = {"spec": {"template": {"spec": pod}}}
    cron_job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "report", "namespace": "reports"}}
    manifest = tmp_path / "cron.yaml"
    manifest.write_text(json.dumps({**cron_job, "spec": {"schedule": schedule, "jobTemplate": template}}))
    answer = asked(capsys, "apply", "-f", str(manifest), *until)
    assert answer["counters"]["pending"] == pending
    later = "not simulated: CronJob reports/report: next Job after 17 h 56 min"
    jobs = f"CronJob reports/report: {simulated} simulated, and Pods of Jobs are assumed not to end"
    assert any(each.startswith(jobs if pending else later) for each in answer["warnings"])


def test_an_applied_cron_job_with_an_unread_schedule_is_not_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "cron.yaml"
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
    spec = {"schedule": "@every 10m", "jobTemplate": {"spec": {"template": {"spec": pod}}}}
    cron_job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": spec}
    manifest.write_text(json.dumps(cron_job))
    answer = asked(capsys, "apply", "-f", str(manifest))
    assert answer["status"] == "WARN"
    assert any("CronJob default/tick: forewarn reads no such schedule: " in each for each in answer["warnings"])


def test_a_constraint_that_more_capacity_does_not_lift_is_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kube-scheduler names the capacity that three nodes lack, before the Pods on two of them that exclude another."""
    db = workload("db", 2, 1000, 0)
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOSTNAME}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    db["spec"]["template"]["spec"]["affinity"] = affinity
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "db", "controller": True}
    made: list[Made | Obj] = [make_pod("other").request(cpu="1").on("n2"), db]
    made += [make_node(f"n{place}").has(cpu="1").labels(**{HOSTNAME: f"n{place}"}) for place in range(3)]
    pods = (make_pod(f"db-{place}").request(cpu="1").labels(app="db").on(f"n{place}") for place in range(2))
    made += [pod.spec(affinity=affinity).metadata(ownerReferences=[owner]) for pod in pods]
    cluster = tmp_path / "cluster.json"
    cluster.write_text(cluster_text(made))
    answer = asked(capsys, "scale", "rs/db", "5", cluster=str(cluster))
    causes = [(each["number"], each["reason"]) for each in answer["why"]["causes"]]
    why = "violates its Pod anti-affinity: default/db"
    assert (answer["counters"]["pending"], causes) == (3, [(2, why), (1, "no capacity: 1 without a class")])
    assert main(["headroom", "rs/db", "--cluster", str(cluster), "-o", "json"]) == 0
    causes = json.loads(capsys.readouterr().out)["why"]["causes"]
    assert [(each["number"], each["reason"]) for each in causes] == [
        (2, "violates its Pod anti-affinity"),
        (1, "insufficient cpu"),
    ]


@pytest.mark.parametrize("claims", [(), ("data",)])
def test_anti_affinity_excludes_a_pod_with_claims_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], claims: tuple[str, ...]
) -> None:
    """Each node has too little cpu, besides the Pod that excludes another: kube-scheduler only names the cpu."""
    db, cluster, manifest = workload("db", 3, 2000, 0), tmp_path / "cluster.json", tmp_path / "db.json"
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": ZONE}
    db["spec"]["template"]["spec"]["affinity"] = {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    }
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "ssd", "resources": {"requests": {"storage": "1Gi"}}}
    db["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": name}, "spec": claim} for name in claims]
    manifest.write_text(json.dumps({**db, "kind": "StatefulSet"}))
    storage: Obj = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "ssd"}}
    nodes = (make_node(f"n{place}").has(cpu="2").labels(**{ZONE: f"z{place}"}) for place in range(2))
    late = {"provisioner": "ssd.csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.write_text(cluster_text([{**storage, **late}, *nodes]))
    _, out, _ = run(capsys, "apply", "-f", str(manifest), "--cluster", str(cluster))
    why = "violates its Pod anti-affinity"
    assert f"1  {why}: default/db" in out
    assert f"0 → 2          1  {why}" in " ".join(out.split("(no class)")[1:])


@pytest.mark.parametrize("at", ["30s", "5m", "11m", "50m"])
def test_a_last_event_has_its_effects_however_late_it_comes(
    at: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "reports", "name": "nightly"}}
    events = tmp_path / "events.json"
    events.write_text(json.dumps([{"at": at, "delete": job}]))
    cluster = "docs/examples/whatif/jobs.yaml"
    assert main(["whatif", "events", "--events", str(events), "--cluster", cluster, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["running"] == {"before": 1, "after": 0}


def test_preempted_placeholder_pods_are_counted_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pause = make_pod("pause").priority(-5).request(cpu="4").on("n1")
    pause.obj["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.10"
    new = tmp_path / "new.yaml"
    new.write_text(json.dumps(make_pod("new").request(cpu="2").obj))
    for extra, status, counters in (
        ([], "WARN", "preempted 0 | Pending 0 | lost 0 | placeholders 1 of 1"),
        (
            [make_node("n2"), make_pod("low").priority(-9).request(cpu="4").on("n2")],
            "HARM",
            "preempted 1 | Pending 0 | lost 1 of 1",
        ),
        (
            [make_pod("low").priority(-9).request(cpu="3").on("n1")],
            "HARM",
            "preempted 1 | Pending 0 | lost 1 of 1 | placeholders 1 of 1",
        ),
    ):
        (tmp_path / "cluster.json").write_text(cluster_text([make_node("n1"), pause, *extra]))
        assert main(["whatif", "apply", "-f", str(new), "--cluster", str(tmp_path / "cluster.json")]) == 0
        first, second, *_ = capsys.readouterr().out.splitlines()
        assert (first.split()[0], second.strip()) == (status, counters)


@pytest.mark.parametrize("form", ["text", "markdown", "html", "json"])
def test_each_format_has_the_number_of_runs_with_its_outcome(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two equal nodes, random ties choose one, so that another Pod is preempted."""
    nodes = [make_node(name).has(cpu="4") for name in ("n1", "n2")]
    victims = [make_pod(name).priority(-7).request(cpu="4").on(node) for name, node in (("one", "n1"), ("two", "n2"))]
    (tmp_path / "cluster.json").write_text(cluster_text([*nodes, *victims]))
    (tmp_path / "new.json").write_text(json.dumps(make_pod("new").request(cpu="4").obj))
    given = ("-f", str(tmp_path / "new.json"), "--cluster", str(tmp_path / "cluster.json"), "--runs", "9")
    status, out, err = run(capsys, "events", *given, "-o", form)
    assert (status, err) == (0, "")
    if form == "json":
        answer = json.loads(out)
        assert "runs" not in answer["change"]
        assert (sum(each["count"] for each in answer["outcomes"]), len(answer["outcomes"])) == (9, answer["runs"] - 7)
    else:
        assert " of 9 runs" in out
        assert all(f"default/{name} (1)" in out.replace("\\", "") for name in ("one", "two"))
    cluster = forewarn.load(str(tmp_path / "cluster.json"))
    change = forewarn.Events(manifests=str(tmp_path / "new.json"), runs=9)
    assert len(forewarn.whatif(cluster, change, nodes_over_time=True).outcomes) == 2


@pytest.mark.parametrize(
    ("often", "lost"),
    [(("n2", "n3"), "lost 1 of 3"), (("n2",), "lost 1 of 2")],
    ids=["most frequent", "the worst of equally frequent ones"],
)
def test_the_answer_is_the_most_frequent_outcome_of_several_runs(
    often: tuple[str, ...], lost: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first run, which decides ties by name, preempts the Pod on n1."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "two", "uid": "t", "controller": True}
    one, *twos = (make_pod(node).priority(-7).request(cpu="4").on(node) for node in ("n1", *often))
    victims = [one, *(pod.labels(app="two").metadata(ownerReferences=[owner]) for pod in twos)]
    nodes = [make_node(victim.obj["spec"]["nodeName"]).has(cpu="4") for victim in victims]
    template = {"metadata": {"labels": {"app": "two"}}, "spec": one.obj["spec"] | {"nodeName": ""}}
    two = Made("apps/v1", "ReplicaSet", "two", "default").metadata(uid="t")
    two.spec(replicas=len(often), selector={"matchLabels": {"app": "two"}}, template=template)
    (tmp_path / "cluster.json").write_text(cluster_text([*nodes, *victims, two]))
    (tmp_path / "new.json").write_text(json.dumps(make_pod("new").request(cpu="4").obj))
    given = ("-f", str(tmp_path / "new.json"), "--cluster", str(tmp_path / "cluster.json"), "--runs", "40")
    _, out, _ = run(capsys, "events", *given)
    assert lost in out.splitlines()[1]
    assert "\ndefault/two " in out
    alike = re.search(r"as in (\d+) of 40 runs", out)
    assert alike is not None
    answer = asked(capsys, "events", *given[:2], *given[4:], cluster=given[3])
    runs = [row["runs"] for row in answer["rows"]]
    assert runs == sorted(runs, reverse=True)
    assert runs[0] == int(alike[1]), "as in the rows"


def test_the_reason_of_a_gated_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = tmp_path / "new.json"
    new.write_text(json.dumps(make_pod("new").spec(schedulingGates=[{"name": "x.io/hold"}]).obj))
    answer = asked(capsys, "apply", "-f", str(new))
    (cause,) = answer["why"]["causes"]
    assert cause["reason"] == "kept out of the scheduling queue by scheduling gates: default/new"


def test_new_pods_that_replace_replacements_of_victims_count_as_new_pods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rollout of `low` deletes Pods of the old template that replaced preempted ones."""

    def deployment(name: str, value: int) -> list[Made]:
        spec = make_pod(name).of_class(name).request(cpu="1").obj["spec"]
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        web = Made("apps/v1", "Deployment", name, "default").spec(replicas=2, template=template)
        pods = (make_pod(f"{name}-{n}").labels(app=name).request(cpu="1").on("n1") for n in "ab")
        running = (pod.spec(priorityClassName=name).priority(value) for pod in pods)
        return [make_priority_class(value, name), web.spec(selector={"matchLabels": {"app": name}}), *running]

    made = [make_node("n1"), *deployment("low", 10), *deployment("mid", 1000)]
    cluster = listed_in(tmp_path / "c.json", *(each.obj for each in made))
    answer = asked(capsys, "class", "low", "--value", "2000", cluster=cluster)
    assert answer["clause"].startswith("2 of 2 new Pods run, ")


def test_removed_placeholders_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = make_pod("pause").spec(priority=-5).request(cpu="1").labels(app="pause")
    made.obj["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.10"
    template = {"metadata": {"labels": {"app": "pause"}}, "spec": made.obj["spec"]}
    pause = Made("apps/v1", "Deployment", "pause", "spare")
    pause = pause.spec(replicas=2, selector={"matchLabels": {"app": "pause"}}, template=template)
    pods = [make_pod(name, "spare").labels(app="pause").spec(**made.obj["spec"]).on("n1") for name in ("a", "b")]
    (tmp_path / "cluster.json").write_text(cluster_text([make_node("n1"), pause, *pods]))
    _, out, _ = run(capsys, "scale", "spare/pause", "1", "--cluster", str(tmp_path / "cluster.json"))
    assert out.startswith("WARN  Deployment spare/pause scaled to 1 replica: no Pod preempted")
    assert "1 of 2 placeholder Pods are removed" in out
