"""For whom an autoscaler would look for nodes, as the two projects' own filters have it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from policies.controllers.view import PodState
from policies.objects.pod import Pod
from policies.simulation.simulation import Simulation
from policies.whatif.autoscalers import Autoscalers, as_dict, autoscalers
from tests.builders import MadePod, make_pod


def asked(*pods: MadePod, tried: bool = True, cutoff: int = -10) -> Autoscalers:
    """Of a simulation that ends with these pods, in a cluster with one node, `here`."""
    states = {pod.obj["metadata"]["name"]: PodState(Pod.from_api(pod.obj)) for pod in pods}
    events = [SimpleNamespace(event="unschedulable", pod=state.pod.key) for state in states.values() if tried]
    api = SimpleNamespace(pods=states, nodes={"here": None})
    simulation = SimpleNamespace(api=api, timeline=SimpleNamespace(events=events))
    return autoscalers(cast("Simulation", simulation), cutoff)


def daemon(name: str) -> MadePod:
    owner: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    return make_pod(name).metadata(ownerReferences=[owner])


@pytest.mark.parametrize(
    ("pod", "of_cluster_autoscaler", "of_karpenter"),
    [
        (make_pod("p").priority(0), {}, {}),
        (make_pod("p").priority(-10), {}, {}),
        (make_pod("p").priority(-11), {"below its cutoff -10": 1}, {}),
        (make_pod("p").priority(0).nominated("here"), {"nominated to a node": 1}, {"nominated to a node": 1}),
        (make_pod("p").priority(0).nominated("gone"), {}, {"nominated to a node": 1}),
        (daemon("p").priority(0), {"of a DaemonSet": 1}, {"of a DaemonSet": 1}),
    ],
)
def test_who_is_passed_over(pod: MadePod, of_cluster_autoscaler: Any, of_karpenter: Any) -> None:
    found = asked(pod)
    assert (found.cluster_autoscaler.others, found.karpenter.others) == (of_cluster_autoscaler, of_karpenter)
    assert found.cluster_autoscaler.counts == (0 if of_cluster_autoscaler else 1)
    assert found.karpenter.counts == (0 if of_karpenter else 1)


def test_a_pod_that_the_scheduler_has_not_tried_is_nobodys_concern_yet() -> None:
    found = asked(make_pod("p").priority(0), tried=False)
    assert found.cluster_autoscaler.others == found.karpenter.others == {"not marked Unschedulable": 1}


def test_pods_on_nodes_do_not_wait() -> None:
    assert asked(make_pod("p").on("here")).karpenter.pending == 0


def test_programs_are_told_of_both() -> None:
    assert as_dict(asked(make_pod("a").priority(-11), make_pod("b").priority(5))) == {
        "clusterAutoscaler": {"counts": 1, "passesOver": {"below its cutoff -10": 1}},
        "karpenter": {"counts": 2, "passesOver": {}},
    }
