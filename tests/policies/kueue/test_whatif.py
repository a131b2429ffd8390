"""`forewarn whatif` in a cluster with Kueue."""

from __future__ import annotations

from forewarn.policies.questions.application.changes import Apply, LoseZone
from forewarn.policies.questions.application.whatif import whatif
from tests.policies.kueue.worlds import cluster, cluster_queue, job


def test_an_apply_suspends_the_job_of_the_preempted_workload() -> None:
    result = whatif(cluster(), Apply(job("ml", "urgent", 4, "2", "high")))
    counts = {each.workload: (each.before, each.after) for each in result.workloads}
    assert counts == {"ml/train-a": (4, 0), "ml/urgent": (0, 4)}
    assert result.document.clause.startswith("Kueue preempts 1 Workload and admits it (flavor on-demand); 4 of 4 new")
    assert "Kueue 0.19 without fair sharing" in result.head.assumes


def test_an_apply_of_a_job_that_waits_creates_no_pods() -> None:
    result = whatif(cluster(), Apply(job("ml", "huge", 4, "20", "high")))
    assert (result.workloads, result.counters.pending) == ([], 0)
    clause = "Kueue does not admit it: it waits in ClusterQueue ml"
    assert (result.document.status, result.document.clause) == ("PENDING", clause)


def test_an_apply_of_a_job_that_is_not_predicted() -> None:
    checked = cluster_queue("ml", admissionChecks=["provision"])
    document = whatif(cluster(checked), Apply(job("ml", "x", 1, "1"))).document
    assert (document.status, document.clause) == (
        "NO ANSWER",
        "Kueue is not predicted (admission checks (provision) not modelled)",
    )


def test_an_apply_of_a_job_that_cannot_start_names_the_fix() -> None:
    document = whatif(cluster(without="ClusterQueue/ml"), Apply(job("ml", "x", 1, "1"))).document
    assert document.status == "PENDING"
    assert any("Fix: create it" in warning for warning in document.warnings)


def test_a_lost_zone_leaves_quota_without_nodes() -> None:
    result = whatif(cluster(), LoseZone("z0"))
    assert result.counters.pending == 8
    assert "Kueue: 4 Workloads keep their quota while 8 Pods stay Pending" in result.notes
