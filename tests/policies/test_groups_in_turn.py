"""`headroom` of a PodGroup against the forecasts for one group after the other, on random clusters."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.kubernetes.cluster.admission import admitted
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.releases.release import semantics_of
from forewarn.policies.prediction.forecast.pod_groups import group_forecast
from forewarn.policies.questions.whatif.headroom import headroom
from tests.builders import Made, MadePod, make_node, make_pod

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.scheduling.snapshot import Snapshot

MAX = 100


def random_cluster(dice: Random) -> tuple[ClusterSnapshot, MadePod, int]:
    """A cluster with a PodGroup without Pods, a Pod of this group, and the size of the group."""
    cache = Cache(semantics=semantics_of(37, {}))
    nodes = [f"n{number}" for number in range(dice.randint(1, 4))]
    for name in nodes:
        cache.add(make_node(name).obj)
    for number in range(3):
        mode: dict[str, Any] = dice.choice(({"all": {}}, {"single": {}}))
        spec: dict[str, Any] = {
            "schedulingPolicy": {"basic": {}},
            "disruptionMode": mode,
            "priority": dice.choice((0, 50, 200)),
        }
        cache.add(Made("scheduling.k8s.io/v1beta1", "PodGroup", f"old-{number}", "default").spec(**spec).obj)
    for number in range(dice.randint(0, 8)):
        pod = make_pod(f"p{number}").request(cpu=f"{dice.randint(2, 12)}00m").priority(dice.choice((0, 50, 200)))
        named: dict[str, Any] = (
            {"schedulingGroup": {"podGroupName": f"old-{dice.randint(0, 2)}"}} if dice.random() < 0.6 else {}
        )
        cache.add(pod.spec(**named).on(dice.choice(nodes)).obj)
    size = dice.randint(1, 4)
    gang = {"gang": {"minCount": size}}
    cache.add(
        Made("scheduling.k8s.io/v1beta1", "PodGroup", "new", "default").spec(schedulingPolicy=gang, priority=100).obj
    )
    new = make_pod("new").request(cpu=f"{dice.randint(3, 20)}00m").priority(100)
    return cache.snapshot(), new.spec(schedulingGroup={"podGroupName": "new"}), size


def groups_in_turn(snapshot: Snapshot, cluster: ClusterSnapshot, new: MadePod, size: int, *, preempting: bool) -> int:
    """How many groups fit, each with new Pods; those before it run in no group, so that they do not count for it."""
    pod = admitted(new.obj, cluster)
    for number in range(MAX):
        pods = [replace(pod, name=f"g{number}-{place}", uid="") for place in range(size)]
        found = group_forecast(snapshot, pods)
        assert found is not None
        if not (found.outcome == "fits" or (preempting and found.outcome == "preempts")):
            return number
        bound = [snapshot.bound(replace(p, spec=replace(p.spec, pod_group="")), found.places[p.identity]) for p in pods]
        snapshot = snapshot.with_pods(bound, found.victims)
    return MAX


@pytest.mark.parametrize("seed", range(60))
def test_headroom_counts_as_many_groups_as_fit_in_turn(seed: int) -> None:
    cluster, new, size = random_cluster(Random(seed))
    found = headroom(cluster, new.obj).pod_group
    assert found is not None
    without = groups_in_turn(cluster.scheduling, cluster, new, size, preempting=False)
    assert (found.pods, found.without_preemption) == (size, without)
    assert found.with_preemption == groups_in_turn(cluster.scheduling, cluster, new, size, preempting=True)
