"""Which of two Pods of equal priority stays Pending: compared with runs that decide ties and races at random."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import forewarn
from forewarn.policies.application import simulated
from forewarn.policies.cli import main
from forewarn.policies.whatif.comparison import ask
from forewarn.policies.whatif.questions import nodes_lost
from tests.builders import Made, cluster_text, make_node, make_pod


def of_workload(name: str, cpu: str, priority: int = 0, **spec: object) -> list[Made]:
    """A ReplicaSet of one Pod, on node n1."""
    pod = make_pod(name, "shop").priority(priority).request(cpu=cpu).labels(app=name).spec(**spec)
    template = {"metadata": {"labels": {"app": name}}, "spec": {**pod.obj["spec"]}}
    selector = {"matchLabels": {"app": name}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{name}", "controller": True}
    set_ = Made("apps/v1", "ReplicaSet", name, "shop").metadata(uid=f"uid-{name}")
    return [set_.spec(replicas=1, selector=selector, template=template), pod.metadata(ownerReferences=[owner]).on("n1")]


@pytest.mark.parametrize(
    ("workloads", "lost"),
    [
        ([of_workload("api", "2"), of_workload("web", "2")], "1 replica of shop/web (or shop/api) lost (Pending)"),
        ([of_workload("api", "1500m"), of_workload("web", "2")], "1 replica of shop/web (or shop/api) lost (Pending)"),
        ([of_workload("api", "2", 5), of_workload("web", "2")], "1 replica of shop/web lost (Pending)"),
        ([of_workload("api", "500m"), of_workload("web", "2500m")], "1 replica of shop/web lost (Pending)"),
        (
            [of_workload("api", "2"), of_workload("web", "2", nodeSelector={"disk": "ssd"})],
            "1 replica of shop/web lost (Pending",
        ),
    ],
    ids=["equal", "of other requests", "of higher priority", "too large anyway", "on no node anyway"],
)
def test_each_workload_that_may_stay_pending_is_named(
    workloads: list[list[Made]], lost: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Node n2 has 2 cpu for the Pods of node n1."""
    nodes = [make_node("n1").has(cpu="8"), make_node("n2").has(cpu="2")]
    (tmp_path / "cluster.json").write_text(cluster_text([*nodes, *(made for each in workloads for made in each)]))
    assert main(["whatif", "lose", "node", "n1", "--cluster", str(tmp_path / "cluster.json")]) == 0
    line = capsys.readouterr().out.partition("\n")[0]
    assert line.startswith(lost)
    cluster = forewarn.load(str(tmp_path / "cluster.json"))
    question = nodes_lost(cluster.snapshot, ["n1"])
    world = simulated.world_with(cluster.cache, question.arrivals, 3600.0)
    losers = set[str]()
    for run in range(12):
        answer = ask(question, world, without=False, random=Random(f"{run}"))
        losers |= {each.workload for each in answer.workloads if each.missed}
    assert losers == {name for name in ("shop/api", "shop/web") if name in line}
