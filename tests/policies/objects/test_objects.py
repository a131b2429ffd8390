"""What is read of objects, and how it is kept."""

from __future__ import annotations

import sys
from typing import Any
from uuid import uuid4

import pytest

from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.kubernetes.objects.node import read_tolerations
from forewarn.policies.kubernetes.objects.pod import Pod


def owned(number: int) -> dict[str, Any]:
    """A pod whose every text is an object of its own, as a JSON reader makes them."""
    reference = {"apiVersion": f"apps/v{number}", "kind": f"Replica{number}", "name": f"web-{number}"}
    controller = {**reference, "uid": f"uid-of-{number}", "controller": True}
    metadata = {"name": f"web-{number}-x", "namespace": f"team-{number}", "ownerReferences": [controller]}
    spec = {"nodeName": f"node-{number}", "priorityClassName": f"class-{number}", "preemptionPolicy": f"Policy{number}"}
    status = {"phase": f"Phase{number}", "nominatedNodeName": f"other-{number}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def texts_of(pod: Pod) -> list[str]:
    assert pod.owner is not None
    texts = [pod.namespace, pod.name, pod.phase, pod.node_name, pod.priority_class_name, pod.preemption_policy]
    return [*texts, pod.nominated_node_name, *pod.owner]


def test_nothing_that_a_pod_says_is_kept_for_the_life_of_the_process() -> None:
    for text in texts_of(Pod.from_api(owned(uuid4().int))):
        another = "".join(list(text))
        assert sys.intern(another) is another, f"{text} is interned: never freed from Python 3.12 on"


def test_what_pods_have_in_common_is_kept_once() -> None:
    first, second = (texts_of(Pod.from_api(owned(2))) for _ in range(2))
    shared = [text for text, other in zip(first, second, strict=True) if text is other]
    assert shared == [text for text in first if text != "web-2-x"]


TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}
CONSTRAINT = {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}


@pytest.mark.parametrize(
    "field",
    [
        {"hostUsers": False},
        {"hostNetwork": False},
        {"nodeSelector": {"a": "b"}},
        {"affinity": {"nodeAffinity": REQUIRED}},
        {"tolerations": [{"key": "a", "operator": "Exists"}]},
        {"topologySpreadConstraints": [CONSTRAINT]},
        {"overhead": {"cpu": "1"}},
        {"resources": {"requests": {"cpu": "1"}}},
        {"schedulerName": "mine"},
        {"schedulingGates": [{"name": "a"}]},
        {"resourceClaims": [{"name": "a"}]},
        {"terminationGracePeriodSeconds": 7},
        {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}]},
        {"initContainers": [{"name": "a", "image": "b"}]},
    ],
    ids=lambda field: next(iter(field)),
)
def test_pods_share_a_spec_only_where_all_that_is_read_of_it_is_equal(field: dict[str, Any]) -> None:
    spec = {"hostNetwork": True, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}
    without, having = (Pod.from_api(owned(3) | {"spec": given}).spec for given in (spec, spec | field))
    assert without != having
    assert Pod.from_api(owned(4) | {"spec": {**spec}}).spec is without


def test_pods_that_differ_in_node_affinity_share_the_rest_of_their_specs() -> None:
    pods = []
    for node in ("n1", "n2"):
        fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        spec = {"affinity": affinity, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}
        pods.append(Pod.from_api({"metadata": {"name": node}, "spec": spec}).spec)
    first, second = pods
    assert [spec.node_affinity.only_node for spec in pods] == ["n1", "n2"]
    assert [spec.node_affinity.node_selector for spec in pods] == [{"a": "b"}, {"a": "b"}]
    assert first.tolerations is second.tolerations, "each Pod of a DaemonSet is decoded as a whole"
    assert first.size > 0


@pytest.mark.parametrize(
    ("volume", "safe", "is_local"),
    [
        ({"name": "a", "emptyDir": {}}, "", True),
        ({"name": "a", "emptyDir": {}}, "a", False),
        ({"name": "b", "emptyDir": {}}, "a", True),
        ({"name": "b", "emptyDir": {}}, "a,b", False),
        ({"name": "a", "emptyDir": {"medium": "Memory"}}, "", False),
        ({"name": "a", "hostPath": {"path": "/x"}}, "", True),
        ({"name": "a", "configMap": {"name": "x"}}, "", False),
    ],
)
def test_local_storage_is_read_from_the_volumes_and_the_annotation(
    volume: dict[str, Any], safe: str, is_local: bool
) -> None:
    annotations = {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": safe}
    obj = {"metadata": {"name": "p", "annotations": annotations}, "spec": {"volumes": [volume]}}
    assert Pod.from_api(obj).has_local_storage is is_local


@pytest.mark.parametrize("seconds", ["300", 1.5, True, []])
def test_toleration_seconds_are_an_integer(seconds: object) -> None:
    with pytest.raises(InvalidObject, match="tolerationSeconds: must be an integer"):
        read_tolerations({"tolerations": [{"tolerationSeconds": seconds}]}, "tolerations")
