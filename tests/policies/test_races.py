"""Which of two Pods of equal priority stays Pending: compared with runs that decide ties and races at random."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

import forewarn
from forewarn.policies.cli.main import main
from forewarn.policies.questions.application import simulated
from forewarn.policies.questions.whatif.comparison import ask
from forewarn.policies.questions.whatif.questions import nodes_lost
from tests.builders import Made, cluster_text, make_node, make_pod


def of_workload(name: str, cpu: str, priority: int = 0, count: int = 1, node: str = "n1", **spec: object) -> list[Made]:
    """A ReplicaSet of `count` Pods, on one node."""
    names = [name, *(f"{name}-{number}" for number in range(1, count))]
    pods = [make_pod(n, "shop").priority(priority).request(cpu=cpu).labels(app=name).spec(**spec) for n in names]
    template = {"metadata": {"labels": {"app": name}}, "spec": {**pods[0].obj["spec"]}}
    selector = {"matchLabels": {"app": name}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{name}", "controller": True}
    set_ = Made("apps/v1", "ReplicaSet", name, "shop").metadata(uid=f"uid-{name}")
    set_.spec(replicas=count, selector=selector, template=template)
    return [set_, *(pod.metadata(ownerReferences=[owner]).on(node) for pod in pods)]


@pytest.mark.parametrize(
    ("workloads", "lost", "may"),
    [
        ([of_workload("api", "2"), of_workload("web", "2")], "shop/web", "shop/api"),
        ([of_workload("api", "1500m"), of_workload("web", "2")], "shop/web", "shop/api"),
        ([of_workload("api", "2", 5), of_workload("web", "2")], "shop/web", ""),
        ([of_workload("api", "500m"), of_workload("web", "2500m")], "shop/web", ""),
        ([of_workload("api", "2"), of_workload("web", "2", nodeSelector={"disk": "ssd"})], "shop/web", ""),
        ([of_workload("api", "2", count=2), of_workload("web", "2")], "shop/api shop/web", "shop/api"),
    ],
    ids=[
        "equal",
        "of other requests",
        "of higher priority",
        "too large anyway",
        "on no node anyway",
        "loses too",
    ],
)
def test_each_workload_that_may_stay_pending_is_named(
    workloads: list[list[Made]], lost: str, may: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Node n2 has 2 cpu for the Pods of node n1."""
    nodes = [make_node("n1").has(cpu="8"), make_node("n2").has(cpu="2")]
    (tmp_path / "cluster.json").write_text(cluster_text([*nodes, *(made for each in workloads for made in each)]))
    assert main(["whatif", "lose", "node", "n1", "--cluster", str(tmp_path / "cluster.json")]) == 0
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith("shop/") and " → " in line]
    assert sorted(line.split()[0] for line in rows) == lost.split()
    assert (f"WARN  chance decides between equal Pods: {may} may lose replicas instead\n" in out) is bool(may)
    assert bool(may) is ("chance" in out)
    cluster = forewarn.load(str(tmp_path / "cluster.json"))
    question = nodes_lost(cluster.snapshot, ["n1"])
    world = simulated.world_with(cluster.cache, question.arrivals, 3600.0)
    losers = set[str]()
    for run in range(12):
        answer = ask(question, world, without=False, random=Random(f"{run}"))
        losers |= {each.workload for each in answer.after.workloads if each.lost}
    assert losers == {*lost.split(), *may.split()}


@pytest.mark.parametrize(
    ("workloads", "lost", "text"),
    [
        ("abX", "n3", "equal Pods: shop/b may lose replicas instead"),
        ("abXY", "n3 n4", ""),
        ("abXYc", "n3 n4", "equal Pods: shop/c may lose replicas instead"),
        ("aaX", "n3", ""),
        ("abXr", "n3", "equal Pods: Pods of shop/b may be preempted instead"),
        ("abcdefXg", "n7", "equal Pods: shop/b, shop/c or others may lose replicas instead"),
    ],
    ids=["lost", "both lost", "two of three", "of one workload", "replaced", "too many to evaluate"],
)
def test_each_workload_with_an_equal_victim_is_named(
    workloads: str,
    lost: str,
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A letter stands for a node and the workload of its Pod, `r` for a reserved node. Capital ones have priority."""
    monkeypatch.setattr("forewarn.policies.prediction.simulation.scheduler_cache._MAX_EQUAL", 4)
    monkeypatch.setattr("forewarn.policies.questions.whatif.comparison.MAX_REPEATED", 0)
    nodes = [make_node(f"n{number}").has(cpu="4") for number in range(1, len(workloads) + 1)]
    taint = [{"key": "reserved", "effect": "NoSchedule"}]
    reserved = [node.spec(taints=taint * (name == "r")) for name, node in zip(workloads, nodes, strict=True)]
    made = []
    for name in dict.fromkeys(workloads.replace("r", "")):
        own = [node.name for letter, node in zip(workloads, nodes, strict=True) if letter == name]
        tolerations = [{"operator": "Exists"}] if name.islower() else []
        set_, *pods = of_workload(name.lower(), "4", 9 * name.isupper(), len(own), tolerations=tolerations)
        made += [set_, *(pod.spec(nodeName=node) for pod, node in zip(pods, own, strict=True))]
    (tmp_path / "cluster.json").write_text(cluster_text([*reserved, *made]))
    assert main(["whatif", "lose", "node", *lost.split(), "--cluster", str(tmp_path / "cluster.json")]) == 0
    out = capsys.readouterr().out
    assert (f"chance decides between {text}" in " ".join(out.split())) is bool(text)
    has_note = "chance decides between equal Pods" in " ".join(out.split())
    assert has_note is bool(text)
    (tmp_path / "lost.yaml").write_text("".join(f"- {{at: 0, lost: {name}}}\n" for name in lost.split()))
    events = "--events", str(tmp_path / "lost.yaml"), "--cluster", str(tmp_path / "cluster.json")
    assert main(["whatif", "events", *events]) == 0
    assert ("chance decides" in capsys.readouterr().out) is has_note
    cluster = forewarn.load(str(tmp_path / "cluster.json"))
    question, victims = nodes_lost(cluster.snapshot, lost.split()), set[str]()
    world = simulated.world_with(cluster.cache, question.arrivals, 3600.0)
    for run in range(24):
        answer = ask(question, world, without=False, random=Random(f"{run}"))
        victims |= {each.workload for each in answer.after.preempted}
    assert victims == {f"shop/{name}" for name in workloads if name.islower() and name != "r"}


def test_placeholder_pods_that_equal_preempted_ones_are_no_rivals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [make_node(name).has(cpu="4") for name in ("n1", "n2", "n3")]
    web = [*of_workload("web", "3", 9), *of_workload("api", "1", nodeSelector={"disk": "ssd"})]
    pause = [of_workload(f"pause-{node}", "4", -5, node=node) for node in ("n2", "n3")]
    for _, pod in pause:
        pod.obj["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.10"
    (tmp_path / "cluster.json").write_text(cluster_text([*nodes, *web, *pause[0], *pause[1]]))
    assert main(["whatif", "lose", "node", "n1", "--cluster", str(tmp_path / "cluster.json")]) == 0
    out = capsys.readouterr().out
    assert "placeholders 1" in out
    assert "chance" not in out
    assert "lost 1 of" in out


@pytest.mark.parametrize(
    ("fitting", "text", "is_complete"),
    [
        (10, "shop/w00, shop/w01 and 9 more may lose", True),
        (40, " or others may lose", False),
    ],
    ids=["all", "too many to evaluate"],
)
def test_each_race_is_evaluated_before_others_are_evaluated_again(
    fitting: int,
    text: str,
    is_complete: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On node n2, 4 of the Pods of node n1 do not fit, and on node n3, one of 2 Pods."""
    monkeypatch.setattr("forewarn.policies.questions.whatif.comparison.MAX_REPEATED", 0)
    pools = [("n2", fitting), ("n3", 1)]
    nodes = [
        make_node("n1").has(cpu="99"),
        *(make_node(name).has(cpu=str(cpu)).labels(pool=name) for name, cpu in pools),
    ]
    made = [of_workload(f"w{number:02}", "1", nodeSelector={"pool": "n2"}) for number in range(fitting + 4)]
    made += [of_workload(f"z{number}", "1", 5, nodeSelector={"pool": "n3"}) for number in range(2)]
    (tmp_path / "cluster.json").write_text(cluster_text([*nodes, *(each for pair in made for each in pair)]))
    command = ["whatif", "lose", "node", "n1", "--cluster", str(tmp_path / "cluster.json")]
    assert main(command) == 0
    assert text in " ".join(capsys.readouterr().out.split())
    assert main([*command, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    rivals = answer["rivals"]
    assert answer.get("hasMoreRivals", False) is not is_complete
    assert "shop/z0" in rivals
    assert (len(rivals) == fitting + 1) is is_complete
