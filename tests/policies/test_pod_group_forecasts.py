"""The forecast for one PodGroup: which Pods it counts, and what the annotation and the JSON say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forewarn.policies.base.disclosure import OPEN, Audience, Disclose, Shown
from forewarn.policies.base.documents import json_of, to_dict
from forewarn.policies.base.metering import CutShort, metered
from forewarn.policies.kubernetes.cluster.admission import admitted
from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.kubernetes.objects.pod_group import PodGroup
from forewarn.policies.kubernetes.releases.release import semantics_of
from forewarn.policies.kubernetes.scheduling.not_predicted import CLAIMS
from forewarn.policies.kubernetes.scheduling.preemption import Victim
from forewarn.policies.prediction.forecast import pod_groups
from forewarn.policies.prediction.forecast.pod_groups import TIES, GroupForecast, group_forecast
from tests.builders import Made, MadePod, make_node, make_pod

OWN = Audience(Disclose.OWN_NAMESPACE, "team")
RANGES = Audience(Disclose.OWN_NAMESPACE, "team", shown=Shown(coarse=True))
POLICIES: dict[str, dict[str, Any]] = {"gang": {"gang": {"minCount": 3}}, "basic": {"basic": {}}}


def group_of(name: str, policy: str = "gang") -> Made:
    spec = {"schedulingPolicy": POLICIES[policy], "priority": 100}
    return Made("scheduling.k8s.io/v1beta1", "PodGroup", name, "default").spec(**spec)


def member(name: str, group: str = "new", cpu: str = "1") -> MadePod:
    return make_pod(name).priority(100).request(cpu=cpu).spec(schedulingGroup={"podGroupName": group})


def cluster_of(*made: Made) -> ClusterSnapshot:
    cache = Cache(semantics=semantics_of(37, {}))
    for obj in (make_node("n1").has(cpu="4"), group_of("new"), group_of("other"), *made):
        cache.add(obj.obj)
    return cache.snapshot()


def forecast(cluster: ClusterSnapshot, *new: MadePod) -> GroupForecast | None:
    return group_forecast(cluster.scheduling, [replace(admitted(pod.obj, cluster), uid="") for pod in new])


def terminating(pod: MadePod) -> MadePod:
    return pod.metadata(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=30)


LOW = make_pod("low").priority(1).request(cpu="2").on("n1")
WITH_ONE = "with 1 Pending Pod of the PodGroup in the cluster"


@pytest.mark.parametrize(
    ("stored", "outcome", "missing", "notes"),
    [
        ([], "pending", 2, ()),
        ([member("a")], "pending", 1, (WITH_ONE,)),
        ([member("a"), terminating(member("b"))], "pending", 0, (WITH_ONE,)),
        ([terminating(member("a")), terminating(member("b"))], "pending", 0, ()),
        ([member("a").on("n1"), member("b").on("n1")], "fits", 0, (TIES,)),
        ([member("a", "other"), member("b", "other").on("n1")], "pending", 2, ()),
        ([member("a"), member("b", cpu="9")], "pending", 0, ("with 2 Pending Pods of the PodGroup in the cluster",)),
        ([LOW, member("a").on("n1"), member("b").on("n1")], "preempts", 0, (TIES,)),
    ],
)
def test_pods_of_the_group_count_for_min_count(
    stored: list[MadePod], outcome: str, missing: int, notes: tuple[str, ...]
) -> None:
    found = forecast(cluster_of(*stored), member("new"))
    assert found is not None
    assert (found.outcome, found.missing, found.notes) == (outcome, missing, notes)
    assert [pod.name for pod in found.victims] == ["low"] * (outcome == "preempts")


def test_waiting_pods_are_tried_before_new_ones_the_oldest_first() -> None:
    times = {"a": "2026-01-02T00:00:00Z", "b": "2026-01-01T00:00:00Z"}
    cluster = cluster_of(*(member(name).metadata(creationTimestamp=time) for name, time in times.items()))
    new = admitted(member("new").obj, cluster)
    for asked, order in (([new], ["b", "a", "new"]), ([new, cluster.pods["default", "a"]], ["b", "new", "a"])):
        found = group_forecast(cluster.scheduling, asked)
        assert found is not None
        assert [pod.name for pod in found.pods] == order


def test_pods_of_no_group_or_of_several_have_no_forecast() -> None:
    cluster = cluster_of()
    assert forecast(cluster, make_pod("alone")) is None
    assert forecast(cluster, member("a"), member("b", "other")) is None
    assert forecast(cluster, member("a"), member("b"), member("c")) is not None


def test_pods_with_volumes_are_not_predicted() -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    found = forecast(cluster_of(member("a"), member("b")), member("new").spec(volumes=[volume]))
    assert found is not None
    assert (found.outcome, found.message, found.notes) == ("not-predicted", CLAIMS, ())


def test_the_size_of_a_group_is_limited_if_work_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_groups, "MAX_MEMBERS", 3)
    cluster, new = cluster_of(), [member(name) for name in "abcd"]
    with metered(lambda: False, 10**9):
        assert forecast(cluster, *new[:3]) is not None
        with pytest.raises(CutShort):
            forecast(cluster, *new)
    assert forecast(cluster, *new) is not None


def test_the_next_cycle_sees_pods_on_nodes_or_victims_that_terminate() -> None:
    low = make_pod("low").priority(1).request(cpu="4").on("n1")
    lower = make_pod("lower").priority(50).request(cpu="1").nominated("n1")  # keeps its nomination
    for stored, bound, nominated in (((), ["a", "b", "c"], []), ((low, lower), ["low"], ["a", "b", "c", "lower"])):
        cluster = cluster_of(*stored)
        found = forecast(cluster, *(member(name) for name in "abc"))
        assert found is not None
        after = found.snapshot_after(cluster.scheduling)
        (info,) = after.node_infos
        assert sorted(pod.name for pod in info.pods) == bound
        assert sorted(pod.name for pods in after.objects.nominated.values() for pod in pods) == nominated
        assert [pod.terminating for pod in info.pods if pod.name == "low"] == [True] * len(nominated[:1])
    pending = forecast(cluster, member("a", cpu="9"), member("b"), member("c"))
    assert pending is not None
    assert pending.snapshot_after(cluster.scheduling) is cluster.scheduling


def victims_of(own: int, others: int) -> tuple[Victim, ...]:
    """Victims in the namespaces `team` and `secret`; those in `secret` have the priorities 5, 6 and so on."""
    made = [make_pod(f"v{number}", "team").priority(1) for number in range(own)]
    made += [make_pod(f"s{number}", "secret").priority(5 + number) for number in range(others)]
    return tuple(Victim((Pod.from_api(pod.obj),), 0) for pod in made)


def made_of(own: int = 0, others: int = 0, missing: int = 0, message: str = "", violations: int = 2) -> GroupForecast:
    group = PodGroup.from_api(group_of("new").obj)
    pods = (Pod.from_api(member("a").obj), Pod.from_api(member("b").obj))
    outcome = "preempts" if own + others else "pending"
    return GroupForecast(group, pods, outcome, {"x": "n1"}, victims_of(own, others), violations, missing, message)


ABOUT = {"name": "new", "minCount": 3}
NAMES = [f"team/v{number}" for number in range(10)]


@pytest.mark.parametrize(
    ("given", "audience", "more"),
    [
        (made_of(missing=1), OPEN, {"outcome": "pending", "pods": 2, "missing": 1}),
        (made_of(), OPEN, {"outcome": "pending", "pods": 2}),
        (made_of(missing=1), RANGES, {"outcome": "pending"}),
        (made_of(10), OWN, {"pods": 2, "victims": NAMES, "pdbViolations": 2}),
        (made_of(12), OWN, {"pods": 2, "victims": NAMES, "moreVictims": 2, "pdbViolations": 2}),
        (made_of(1, 1), OPEN, {"pods": 2, "victims": ["team/v0", "secret/s0"], "pdbViolations": 2}),
        (
            made_of(1, 3),
            OWN,
            {"pods": 2, "victims": ["team/v0"], "pdbViolations": 2, "unnamedVictims": 3, "unnamedPriorities": [5, 7]},
        ),
        (
            made_of(1, 3),
            RANGES,
            {"victims": ["team/v0"], "pdbViolations": 1, "unnamedVictims": 1, "unnamedPriorities": [0, 999]},
        ),
        (made_of(1, violations=0), RANGES, {"victims": ["team/v0"], "pdbViolations": 0}),
    ],
)
def test_the_annotation_has_names_and_numbers_for_its_readers(
    given: GroupForecast, audience: Audience, more: dict[str, Any]
) -> None:
    assert to_dict(given.as_annotation(audience)) == {**ABOUT, "outcome": "preempts", **more}


def test_the_json_omits_what_is_empty() -> None:
    about = {"id": "PodGroup default/new", "minCount": 3, "pods": 2, "victims": [], "standing": []}
    assert json_of(made_of()) == {**about, "outcome": "pending", "nodes": {}}
    full = made_of(missing=1, message="no room")._replace(outcome="fits", notes=("a note",))
    more = {"outcome": "fits", "nodes": {"n1": 1}, "missing": 1, "message": "no room", "standing": ["a note"]}
    assert json_of(full) == {**about, **more}


@pytest.mark.parametrize(("policy", "text"), [("gang", "minCount 3"), ("basic", "policy basic")])
def test_the_policy_as_text(policy: str, text: str) -> None:
    assert GroupForecast(PodGroup.from_api(group_of("new", policy).obj), (), "fits").policy == text
