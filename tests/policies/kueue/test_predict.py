"""`forewarn predict` and `why` for Jobs that Kueue starts."""

from __future__ import annotations

from itertools import count, pairwise
from typing import Any

import pytest

from forewarn.policies.base.documents import json_of
from forewarn.policies.base.metering import CHECK_INTERVAL, CutShort, metered
from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.prediction.kueue import forecast
from forewarn.policies.questions.application.predict import PredictResult, predict
from forewarn.policies.questions.application.why import WhyRequest, WorkloadWhy, explain
from forewarn.policies.questions.whatif.autoscalers import Autoscaling
from tests.policies.kueue.worlds import KUEUE, cluster, cluster_queue, job, obj, objects


def answer(made: dict[str, Any], *more: dict[str, Any], without: str = "") -> PredictResult:
    return predict(cluster(*more, without=without), made)


def test_a_workload_is_preempted_and_the_pods_take_the_place_of_its_pods() -> None:
    result = answer(job("ml", "urgent", 4, "2", "high"))
    (queued,) = result.queued.jobs
    assert (queued.outcome, queued.pods, queued.flavors) == ("preempts", 4, {"cpu": "on-demand"})
    assert [tuple(each) for each in queued.preempted] == [("ml/job-train-a", "ml", 1, 4, "InClusterQueue")]
    assert result.outcomes == {"fits": 4}
    document = result.document
    assert (document.status, document.effects.victims) == ("HARM", 4)
    assert document.clause == "Kueue preempts 1 Workload and admits it (flavor on-demand); 4 of 4 new Pods run"
    assert {node.node for node in result.predictions} == {"on-demand-0", "on-demand-1"}


def test_a_job_waits_for_quota_behind_others() -> None:
    result = answer(job("ml", "small", 1, "1"))
    (queued,) = result.queued.jobs
    assert (queued.outcome, list(queued.ahead)) == ("waits", ["ml/job-waiting"])
    assert [tuple(each) for each in queued.reasons] == [
        ("on-demand", "1 more cpu needed"),
        ("spot", "1 more cpu needed"),
    ]
    assert (result.document.status, result.outcomes.total()) == ("PENDING", 0)
    assert result.document.clause == "Kueue does not admit it: it waits behind 1 Workload in ClusterQueue ml"


def test_a_job_that_exceeds_what_can_be_lent() -> None:
    (queued,) = answer(job("ml", "huge", 4, "20", "high")).queued.jobs
    assert [each.reason for each in queued.reasons] == ["80 cpu requested, at most 16 possible"] * 2


def test_free_quota() -> None:
    more = obj(KUEUE, "ClusterQueue", "research", spec={**cluster_queue("research")["spec"]})
    more["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "24"
    result = answer(job("research", "new", 2, "2"), more)
    assert result.document.status == "PENDING"  # quota does not make nodes
    assert result.document.clause == "Kueue admits it (flavor on-demand); 0 of 2 new Pods run, 2 stay Pending"


def test_fewer_pods_with_partial_admission() -> None:
    more = cluster_queue("research")
    more["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "10"
    least = {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"}}
    made = job("research", "new", 3, "1")
    made["metadata"] |= least
    (queued,) = answer(made, more).queued.jobs
    assert (queued.outcome, queued.pods, queued.wanted) == ("admitted", 2, 3)


@pytest.mark.parametrize(
    ("without", "clause"),
    [
        ("LocalQueue/team", None),
        ("ClusterQueue/ml", 'Kueue does not start it: LocalQueue ml/team: spec.clusterQueue: ClusterQueue "ml" does'),
        (
            "ResourceFlavor/spot",
            'Kueue does not start it: LocalQueue ml/team: ClusterQueue "ml" is inactive: Res',
        ),
        ("WorkloadPriorityClass/high", "Kueue does not start it: Job ml/x: metadata.labels.kueue.x-k8s.io/priority-cl"),
    ],
)
def test_an_invalid_configuration_is_named(without: str, clause: str | None) -> None:
    result = answer(job("ml", "x", 1, "1", "high"), without=without)
    if clause is None:  # without LocalQueues, the cluster has no Kueue, or its objects are not known
        assert result.kueue is None
    else:
        assert result.document.status == "PENDING"
        assert result.document.clause.startswith(clause)
        assert "Fix: " in result.document.warnings[0]


def test_a_malformed_part_is_named_with_its_object() -> None:
    made = cluster_queue("ml")
    made["spec"]["resourceGroups"][0]["flavors"][1]["name"] = 5
    with pytest.raises(InvalidObject, match=r"^ClusterQueue ml: .*name: must be a string, not number"):
        cluster(made)


def test_a_cycle_of_cohorts_is_named() -> None:
    cohorts = [
        obj(KUEUE, "Cohort", name, spec={"parentName": parent}) for name, parent in (("all", "top"), ("top", "all"))
    ]
    clause = answer(job("ml", "x", 1, "1"), *cohorts).document.clause
    assert 'is inactive: Cohort "all" is in a cycle of parents' in clause


def test_too_many_levels_of_cohorts_are_not_predicted() -> None:
    names = ["all", *map(str, range(200))]
    levels = [obj(KUEUE, "Cohort", name, spec={"parentName": parent}) for name, parent in pairwise(names)]
    (queued,) = answer(job("ml", "x", 1, "1"), *levels).queued.jobs
    assert (queued.outcome, queued.message) == ("not-predicted", 'Cohort "99" is more than 100 levels below its root')


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (cluster_queue("ml", admissionChecks=["provision"]), "admission checks (provision) not modelled"),
        (obj(KUEUE, "ResourceFlavor", "spot", spec={"topologyName": "t"}), "topology-aware scheduling not modelled"),
    ],
)
def test_what_is_not_modelled_is_not_predicted(more: dict[str, Any], reason: str) -> None:
    result = answer(job("ml", "x", 1, "1"), more)
    assert (result.document.status, result.queued.jobs[0].message) == ("NO ANSWER", reason)
    assert reason in result.document.clause


def test_a_stopped_queue() -> None:
    stopped = obj(KUEUE, "LocalQueue", "team", "ml", spec={"clusterQueue": "ml", "stopPolicy": "Hold"})
    (queued,) = answer(job("ml", "x", 1, "1"), stopped).queued.jobs
    assert (queued.outcome, queued.message) == ("waits", "LocalQueue ml/team is stopped")


def test_a_job_without_a_queue_costs_and_says_nothing_more() -> None:
    made = job("ml", "plain", 1, "1")
    del made["metadata"]["labels"]
    document = json_of(answer(made))
    assert "kueue" not in document
    assert document["outcomes"] == {"pending": 1}


def test_a_queue_of_the_same_apply() -> None:
    queue = obj(KUEUE, "LocalQueue", "other", "ml", spec={"clusterQueue": "research"})
    made = job("ml", "new", 1, "1", metadata={"labels": {"kueue.x-k8s.io/queue-name": "other"}})
    (queued,) = predict(cluster(), [queue, made]).queued.jobs
    assert (queued.cluster_queue, queued.outcome) == ("research", "waits")


def test_several_jobs_share_the_quota_in_their_order() -> None:
    result = predict(cluster(), [job("ml", name, 4, "2", "high") for name in ("one", "two", "three")])
    assert [each.outcome for each in result.queued.jobs] == ["preempts", "preempts", "waits"]
    assert result.document.clause.startswith("Kueue preempts 2 Workloads and admits 2 of 3 Jobs; ")


def test_chance_decides_between_equal_cluster_queues() -> None:
    """Both may borrow what a third one lends: one flavor each, or one of them."""
    lender = cluster_queue("lender")
    made = [job(name, "new", 1, "8", "low") for name in ("ml", "research")]
    result = predict(cluster(lender, without="Workload/job-waiting"), made)
    assert [(each.outcome, each.flavors["cpu"], each.otherwise) for each in result.queued.jobs] == [
        ("admitted", "on-demand", "Kueue admits it (flavor spot)"),
        ("admitted", "spot", "Kueue admits it (flavor on-demand)"),
    ]
    lender["spec"]["resourceGroups"][0]["flavors"].pop()
    result = predict(cluster(lender, without="Workload/job-waiting"), made)
    assert [(each.outcome, each.otherwise) for each in result.queued.jobs] == [
        ("admitted", "Kueue does not admit it: it waits in ClusterQueue ml"),
        ("waits", "Kueue admits it (flavor on-demand)"),
    ]
    assert any("chance decides between equal ClusterQueues" in warning for warning in result.document.warnings)


def test_each_of_many_jobs_has_its_cycles() -> None:
    more = cluster_queue("ml")
    more["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "1000"
    result = predict(cluster(more), [job("ml", f"job-{number}", 1, "1m") for number in range(60)])
    assert {each.outcome for each in result.queued.jobs} == {"admitted"}


def test_too_many_cycles_are_not_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "_MIN_CYCLES", 1)
    monkeypatch.setattr(forecast, "_MAX_TRIED", 1)
    (queued,) = answer(job("ml", "x", 1, "1")).queued.jobs
    assert queued.outcome == "not-predicted"
    assert "too many Workloads to try" in queued.message


def why_job(name: str, *more: dict[str, Any]) -> WorkloadWhy:
    evidence = WhyRequest(f"job/{name}", "ml").evidence()
    cache = Cache(collect=evidence.collect)
    for each in (*objects(), *more):
        cache.add(each)
    result = explain(cache.snapshot(), WhyRequest(f"job/{name}", "ml"), evidence, (), lambda: Autoscaling())
    assert isinstance(result, WorkloadWhy)
    return result


def test_why_a_job_is_suspended() -> None:
    document = why_job("waiting").document
    assert (document.status, document.clause) == (
        "PENDING",
        "Kueue does not admit it: it waits in ClusterQueue ml",
    )
    assert document.tables[0].rows == [["on-demand", "16 more cpu needed"], ["spot", "16 more cpu needed"]]


def test_why_a_job_is_suspended_by_a_queue_that_is_not_modelled() -> None:
    assert why_job("waiting", cluster_queue("ml", admissionChecks=["provision"])).document.status == "NO ANSWER"


def test_why_a_job_runs_says_nothing_about_kueue() -> None:
    assert why_job("train-a").kueue is None


def test_the_work_is_counted() -> None:
    """A deadline is looked at while Workloads are read, and in each cycle."""
    made = [obj(KUEUE, "Workload", f"w{index}", "ml", spec={"queueName": "team"}) for index in range(1000)]
    new, looks = job("ml", "urgent", 4, "2", "high"), count()
    state = cluster(*made)
    with metered(lambda: next(looks) < 0):
        predict(state, new)
    assert next(looks) > 20_000 / CHECK_INTERVAL
    with pytest.raises(CutShort), metered(lambda: True):
        predict(state, new)
