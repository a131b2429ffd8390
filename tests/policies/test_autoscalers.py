"""For whom an autoscaler would look for nodes, as the two projects' own filters have it."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.base.documents import json_of
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.releases.semantics import Semantics
from forewarn.policies.questions.whatif.autoscalers import Autoscalers, Autoscaling, PendingPods, Waiting, autoscalers
from tests.builders import MadePod, make_claim, make_node, make_pod


def asked(*pods: MadePod, tried: bool = True, cutoff: int = -10, minor: int = 35) -> Autoscalers:
    """Of pods that wait in a cluster with one node, `here`."""
    cache = Cache()
    cache.add(make_node("here").obj)
    cache.semantics = Semantics(minor)
    waiting = [Waiting(Pod.from_api(pod.obj), tried) for pod in pods]
    return autoscalers(PendingPods(waiting, cache.snapshot().scheduling), Autoscaling(cutoff=cutoff))


DAEMON_POD = "cluster-autoscaler.kubernetes.io/daemonset-pod"


def daemon(name: str, version: str = "apps/v1") -> MadePod:
    owner: dict[str, Any] = {"apiVersion": version, "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    return make_pod(name).metadata(ownerReferences=[owner])


@pytest.mark.parametrize(
    ("pod", "of_cluster_autoscaler", "of_karpenter"),
    [
        (make_pod("p").priority(0), {}, {}),
        (make_pod("p").priority(-10), {}, {}),
        (make_pod("p").priority(-11), {"priority below cutoff -10": 1}, {}),
        (make_pod("p").priority(0).nominated("here"), {"nominated to a node": 1}, {"nominated to a node": 1}),
        (make_pod("p").priority(0).nominated("gone"), {}, {"nominated to a node": 1}),
        (daemon("p").priority(0), {"owned by a DaemonSet": 1}, {"owned by a DaemonSet": 1}),
        (daemon("p", "apps.kruise.io/v1alpha1").priority(0), {"owned by a DaemonSet": 1}, {}),
        (make_pod("p").priority(0).metadata(annotations={DAEMON_POD: "true"}), {"owned by a DaemonSet": 1}, {}),
        (make_pod("p").priority(0).metadata(annotations={DAEMON_POD: "yes"}), {}, {}),
    ],
)
def test_who_is_passed_over(pod: MadePod, of_cluster_autoscaler: Any, of_karpenter: Any) -> None:
    found = asked(pod)
    assert (found.cluster_autoscaler.ignored, found.karpenter.ignored) == (of_cluster_autoscaler, of_karpenter)
    assert found.cluster_autoscaler.considered == (0 if of_cluster_autoscaler else 1)
    assert found.karpenter.considered == (0 if of_karpenter else 1)


@pytest.mark.parametrize(("claim", "others"), [("data", {}), ("none", {"its PersistentVolumeClaim does not exist": 1})])
def test_no_new_node_helps_a_pod_without_its_claim(claim: str, others: dict[str, int]) -> None:
    cache = Cache()
    for made in (make_node("here"), make_claim("data")):
        cache.add(made.obj)
    cache.listed = {"/Node", "/PersistentVolumeClaim"}
    pod = make_pod("p").priority(0)
    pod.obj["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    found = autoscalers(PendingPods([Waiting(Pod.from_api(pod.obj))], cache.snapshot().scheduling), Autoscaling())
    assert found.cluster_autoscaler.ignored == found.karpenter.ignored == others


def test_a_pod_that_the_scheduler_has_not_tried_is_nobodys_concern_yet() -> None:
    found = asked(make_pod("p").priority(0), tried=False)
    assert found.cluster_autoscaler.ignored == found.karpenter.ignored == {"not marked Unschedulable": 1}


def test_who_is_nominated_to_a_node_that_is_gone_is_passed_over_since_1_36() -> None:
    gone = make_pod("p").priority(0).nominated("gone")
    assert asked(gone, minor=35).cluster_autoscaler.considered == 1
    assert asked(gone, minor=36).cluster_autoscaler.ignored == {"nominated to a node": 1}


def test_the_cutoff_is_as_it_is_given() -> None:
    assert asked(make_pod("p").priority(5), cutoff=6).cluster_autoscaler.ignored == {"priority below cutoff 6": 1}


def test_programs_are_told_of_both() -> None:
    assert json_of(asked(make_pod("a").priority(-11), make_pod("b").priority(5))) == {
        "clusterAutoscaler": {"considered": 1, "ignored": {"priority below cutoff -10": 1}},
        "karpenter": {"considered": 2, "ignored": {}},
    }
