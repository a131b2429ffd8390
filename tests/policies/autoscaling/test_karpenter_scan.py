"""Karpenter behind the interface of autoscalers: the nodes that it launches for Pending Pods of a snapshot."""

from typing import Any

from forewarn.policies.kubernetes.objects.node import Node
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.prediction.autoscaling import Arrival
from forewarn.policies.prediction.autoscaling.karpenter.autoscaler import Karpenter
from forewarn.policies.prediction.autoscaling.karpenter.instance_types import read_instance_types
from tests.builders import Made, MadePod, cluster, make_node, make_pod

ZONE, TYPE, POOL = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type", "karpenter.sh/nodepool"


def offerings(price: float) -> list[dict[str, Any]]:
    return [
        {"zone": zone, "capacityType": kind, "price": price / 2 if kind == "spot" else price, "available": True}
        for zone in ("a", "b")
        for kind in ("on-demand", "spot")
    ]


TYPES = [
    {
        "name": f"m.{cpu}",
        "capacity": {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "20"},
        "offerings": offerings(cpu),
    }
    for cpu in (2, 4, 8)
]


def node_pool(name: str = "pool", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"team": "blue"}}, "spec": {"taints": spec.pop("taints", [])}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def arrivals(pods: list[MadePod], *made: Made, pool: Any = None, upcoming: Any = ()) -> list[Arrival]:
    karpenter = Karpenter([pool or node_pool()], read_instance_types({"types": TYPES}, "types"))
    pending = [Pod.from_api(pod.obj) for pod in pods]
    return karpenter.decide(pending, cluster(*made).scheduling, upcoming)[0]


def pods(number: int, cpu: str) -> list[MadePod]:
    return [make_pod(f"p{n}").request(cpu=cpu) for n in range(number)]


def test_the_cheapest_instance_type_arrives() -> None:
    (arrival,) = arrivals(pods(1, "3"))
    node = Node.from_api({**arrival.node, "metadata": {**arrival.node["metadata"], "name": "new"}})
    assert (arrival.group, arrival.pods, node.labels[TYPE], node.labels[ZONE]) == ("pool", ("default/p0",), "m.4", "a")
    assert (node.labels["karpenter.sh/capacity-type"], node.labels["team"]) == ("spot", "blue")
    assert (node.allocatable.milli_cpu, node.allocatable.allowed_pod_number) == (4000, 20)


def test_pods_fit_on_present_and_upcoming_nodes() -> None:
    present = make_node("n").label(POOL, "pool").status(allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"})
    assert arrivals(pods(1, "3"), present) == []
    assert arrivals(pods(1, "3"), present.spec(unschedulable=True)) != []
    first = arrivals(pods(1, "3"))
    assert arrivals(pods(1, "3"), upcoming=first) == []
    assert len(arrivals(pods(2, "3"), upcoming=first)) == 1


def test_limits_and_taints_of_the_node_pool() -> None:
    assert len(arrivals(pods(3, "7"), pool=node_pool(limits={"cpu": "16"}))) == 2
    assert arrivals(pods(1, "1"), pool=node_pool(taints=[{"key": "gpu", "effect": "NoSchedule"}])) == []


def test_pods_that_karpenter_leaves_alone() -> None:
    nominated, daemon = make_pod("n").nominated("x"), make_pod("d")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "ds", "controller": True}
    daemon.metadata(ownerReferences=[owner])
    assert arrivals([nominated, daemon]) == []


def test_daemon_set_pods_need_room_on_new_nodes() -> None:
    daemons = Made("apps/v1", "DaemonSet", "ds", "default")
    daemons.spec(selector={"matchLabels": {"a": "b"}}, template={"spec": make_pod("x").request(cpu="2").obj["spec"]})
    (arrival,) = arrivals(pods(1, "3"), daemons)
    assert arrival.node["metadata"]["labels"][TYPE] == "m.8"
