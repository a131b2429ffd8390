"""A nominated Pod whose node violates its topology spread once the others are bound preempts again on another node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import forewarn
from forewarn.policies.cli.render.answer import counter_text
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.releases.release import semantics_of
from tests.builders import Made, cluster, cluster_text, make_node, make_pod, make_priority_class
from tests.policies.test_rollouts import changed, deployment

if TYPE_CHECKING:
    from pathlib import Path

ZONE = "topology.kubernetes.io/zone"


def test_victims_in_vain_are_counted_and_shown_on_their_own_node(tmp_path: Path) -> None:
    """The cheapest victims are in zone a, where only one of the two Pods may run."""
    nodes = [make_node(name).label(ZONE, name[0]).has(cpu="4") for name in ("a1", "a2", "b1", "b2")]
    low = [make_pod(f"low-{name}").on(name).priority(value).request(cpu="4") for name, value in VALUES.items()]
    gold = Made("scheduling.k8s.io/v1", "PriorityClass", "gold")
    gold.obj["value"] = 10
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    spread["labelSelector"] = {"matchLabels": {"app": "web"}}
    container = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
    spec = {"priorityClassName": "gold", "containers": [container], "topologySpreadConstraints": [spread]}
    web = Made("apps/v1", "Deployment", "web", "default")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    web.spec(replicas=2, selector={"matchLabels": {"app": "web"}}, template=template)
    result = forewarn.predict(cluster(*nodes, *low, gold), [web.obj])
    assert IN_VAIN in result.document.warnings
    (tmp_path / "cluster.json").write_text(cluster_text([*nodes, *low, gold]))
    applied = forewarn.whatif(forewarn.load(tmp_path / "cluster.json"), forewarn.Apply([web.obj]))
    assert IN_VAIN in applied.document.warnings
    predicted = next(each for each in result.document.shown if each.name == "victims")
    assert counter_text(predicted) == "victims 3 (one run)"
    counter = next(each for each in applied.document.shown if each.name == "preempted")
    assert counter_text(counter) == "preempted 3 (1 in vain)"
    (victims,) = (table for table in result.document.tables if table.columns[0] == "VICTIM")
    assert [row[0] for row in victims.rows if row[-1] == "in vain"] == ["default/low-a2"]
    (pods,) = (table for table in result.document.tables if table.columns[0] == "POD")
    assert [row[3:] for row in pods.rows] == [
        ["a1", "default/low-a1"],
        ["b1", "default/low-a2 on a2, default/low-b1"],
    ]
    in_json = result.predictions[1].to_dict()
    assert (in_json["candidates"]["b1"]["victims"], in_json["inVain"]) == (
        ["default/low-b1"],
        {"a2": ["default/low-a2"]},
    )


IN_VAIN = "1 Pod is preempted in vain: no Pod of higher priority then runs there"
VALUES = {"a1": 1, "a2": 1, "b1": 5, "b2": 5}


def test_members_of_a_group_that_is_preempted_as_a_unit_are_not_in_vain() -> None:
    nodes = [make_node(name).has(cpu="4") for name in ("n1", "n2")]
    group = Made("scheduling.k8s.io/v1beta1", "PodGroup", "old", "default")
    group.spec(schedulingPolicy={"basic": {}}, disruptionMode={"all": {}}, priority=1)
    member = {"schedulingGroup": {"podGroupName": "old"}}
    old = [
        make_pod(name).on(node).priority(1).request(cpu=cpu).spec(**member)
        for name, node, cpu in (("old-1", "n1", "4"), ("old-2", "n2", "1"))
    ]
    big, gold = make_pod("big").on("n2").priority(10).request(cpu="3"), make_priority_class(10, "gold")
    cache = Cache(semantics=semantics_of(37, {"GenericWorkload": True}))
    for made in (*nodes, group, *old, big, gold):
        cache.add(made.obj)
    new = {"priorityClassName": "gold", "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]}
    pod = Made("v1", "Pod", "new", "default").spec(**new).obj
    result = forewarn.predict(cache.snapshot(), [pod])
    (prediction,) = result.predictions
    assert prediction.node == "n1"
    assert not [each for each in result.document.warnings if "in vain" in each]
    assert prediction.to_dict()["candidates"]["n1"]["victims"] == ["default/old-1", "default/old-2"]


def test_a_nominated_pod_that_then_fits_elsewhere_is_shown_there() -> None:
    """The old Pod terminates on n2 before the victim on n1, so the new Pod runs on n2."""
    made = [make_node("n1").has(cpu="2"), make_node("n2").has(cpu="2"), make_priority_class(100, "gold")]
    web = [*deployment("web", ["n2"], "2", 100, strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})]
    low = make_pod("low").on("n1").priority(0).request(cpu="2").spec(terminationGracePeriodSeconds=60)
    change = changed(web, priorityClassName="gold")
    del change["spec"]["podManagementPolicy"], change["spec"]["template"]["spec"]["priority"]
    result = forewarn.predict(cluster(*made, *web, low), [change])
    (pods,) = (table for table in result.document.tables if table.columns[0] == "POD")
    assert ([row[3:] for row in pods.rows], [*result.document.warnings][-1:]) == (
        [["n2", "default/low on n1"]],
        [IN_VAIN],
    )


def test_whatif_names_the_taint_of_the_nodes_that_the_selector_matches(tmp_path: Path) -> None:
    """kube-scheduler's message names more nodes whose labels do not match."""
    nodes = [make_node("n1"), make_node("n2"), make_node("gpu").label("pool", "gpu").taint("gpu")]
    new = make_pod("new").spec(nodeSelector={"pool": "gpu"})
    del new.obj["spec"]["priority"]
    (tmp_path / "cluster.json").write_text(cluster_text(nodes))
    state = forewarn.load(tmp_path / "cluster.json")
    reason = "fits on no node that matches its node selector or affinity: untolerated taint gpu:NoSchedule"
    for answer in (forewarn.predict(state, [new.obj]), forewarn.whatif(state, forewarn.Apply([new.obj]))):
        assert answer.document.why is not None
        assert [
            cause.reason.partition(". Fix: ")[0].removesuffix(": default/new") for cause in answer.document.why.causes
        ] == [reason]
