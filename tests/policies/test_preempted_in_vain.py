"""A nominated Pod whose node violates its topology spread once the others are bound preempts again on another node."""

from __future__ import annotations

import forewarn
from tests.builders import Made, cluster, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"


def test_victims_in_vain_are_counted_and_shown_on_their_own_node() -> None:
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
    in_vain = "1 Pod is preempted in vain: the new Pods then do not fit there, and preempt on other nodes"
    assert in_vain in result.document.warnings
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


VALUES = {"a1": 1, "a2": 1, "b1": 5, "b2": 5}
