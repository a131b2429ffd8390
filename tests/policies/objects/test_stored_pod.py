"""Pods that are too large to be kept whole: what others meet of them stays exact, and what does not says so."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.kubernetes.cluster.admission import predict
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.extent import TooLargeToRetain, bounded
from forewarn.policies.kubernetes.objects.pod import TOO_LARGE, Pod, stored_pod
from tests.builders import make_node, make_pod
from tests.policies.objects.test_bounded import terms

Obj = dict[str, Any]


def running(**spec: Any) -> Obj:
    obj: Obj = make_pod("web").request(cpu="1", memory="1Gi").obj
    obj["metadata"] |= {"namespace": "team", "uid": "u", "labels": {"app": "web"}}
    port = {"containerPort": 80, "hostPort": 80}
    obj["spec"]["containers"][0] |= {"ports": [port]}
    obj["spec"] |= {
        "nodeName": "n1",
        "priority": 7,
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
    }
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    obj["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    obj["spec"] |= spec
    return obj


WISHES: dict[str, Obj] = {
    "tolerations": {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(2000)]},
    "nodeSelector": {"nodeSelector": {f"k{n}": "v" for n in range(2000)}},
    "spread": {"topologySpreadConstraints": [{"topologyKey": f"k{n}", "maxSkew": 1} for n in range(2000)]},
}


@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("first", [bounded, lambda obj: obj], ids=["bounded", "whole"])
def test_what_others_meet_is_kept_exactly(wish: str, first: Any) -> None:
    small, large = stored_pod(running()), stored_pod(first(running(**WISHES[wish])))
    assert small == Pod.from_api(running())
    for name in ("namespace", "name", "uid", "priority", "labels", "occupies", "node_name", "owner"):
        assert getattr(small, name) == getattr(large, name)
    for name in ("resources", "request", "occupies", "host_ports", "pod_affinity", "volumes", "container_count"):
        assert getattr(small.spec, name) == getattr(large.spec, name)
    assert (large.spec.too_large, large.spec.hides) == (TOO_LARGE, False)
    assert not large.spec.tolerations


def test_its_node_affinity_is_dropped_and_its_affinity_to_pods_is_not() -> None:
    affinity = {**running()["spec"]["affinity"], **terms(9000)}
    large = stored_pod(running(affinity=affinity))
    assert large.spec.pod_affinity == stored_pod(running()).spec.pod_affinity
    assert (large.spec.node_affinity.required, large.spec.hides) == (None, False)


def test_it_is_not_predicted_itself() -> None:
    waiting = running(**WISHES["tolerations"])
    del waiting["spec"]["nodeName"]
    cache = Cache()
    for obj in (make_node("n1").obj, waiting):
        cache.add(obj)
    state = cache.snapshot()
    (pod,) = state.pods.values()
    assert predict(state, pod).not_predicted == TOO_LARGE


HIDING: dict[str, Obj] = {
    "anti-affinity": {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": f"k{n}"}} for n in range(3000)]}}},
    "containers": {"containers": [{"name": f"c{n}", "image": "i", "env": [{}] * 50} for n in range(900)]},
    "volumes": {"volumes": [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"c{n}"}} for n in range(3000)]},
}  # fmt: skip


@pytest.mark.parametrize("what", HIDING)
def test_a_namespace_with_more_than_can_be_kept_is_not_predicted(what: str) -> None:
    cache = Cache()
    large = bounded(running(**HIDING[what]))
    for obj in (make_node("n1").obj, large):
        cache.add(obj)
    state = cache.snapshot()
    (pod,) = state.pods.values()
    assert (pod.spec.hides, pod.priority, pod.node_name, pod.uid) == (True, 7, "n1", "u")
    with pytest.raises(TooLargeToRetain, match="Pod team/web exceeds what forewarn keeps"):
        state.check_retained("team")
    state.check_retained("other")
    cache.remove(large)
    cache.snapshot().check_retained("team")


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("ResourceQuota", "v1", {"hard": {f"count/r{n}": 1 for n in range(9000)}}),
        ("LimitRange", "v1", {"limits": [{"type": "Container", "default": {}} for _ in range(9000)]}),
        ("PodDisruptionBudget", "policy/v1", {"selector": {"matchLabels": {f"k{n}": "v" for n in range(9000)}}}),
        ("PersistentVolumeClaim", "v1", {"resources": {"requests": {f"k{n}": "1" for n in range(9000)}}}),
        ("Service", "v1", {"selector": {f"k{n}": "v" for n in range(9000)}}),
        ("ResourceClaim", "resource.k8s.io/v1", {"devices": {"requests": [{"name": f"r{n}"} for n in range(9000)]}}),
    ],
)
def test_other_objects_of_a_namespace_are_left_out_by_name(kind: str, version: str, spec: Obj) -> None:
    cache, metadata = Cache(), {"name": "large", "namespace": "team"}
    whole: Obj = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    for obj in (whole, bounded(whole)):
        cache.add(obj)
        assert ("team", "large") in cache.keys(f"{version.rpartition('/')[0]}/{kind}")
        with pytest.raises(TooLargeToRetain, match=f"{kind} team/large exceeds what forewarn keeps"):
            cache.snapshot().check_retained("team")
        cache.add({**whole, "spec": {}})
        cache.snapshot().check_retained("team")
    cache.add(whole)
    cache.remove(whole)
    cache.snapshot().check_retained("team")
