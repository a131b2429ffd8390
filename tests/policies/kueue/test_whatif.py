"""`forewarn whatif` in a cluster with Kueue."""

from __future__ import annotations

from forewarn.policies.questions.application.changes import Apply, LoseZone
from forewarn.policies.questions.application.whatif import whatif
from tests.policies.kueue.worlds import cluster, job


def test_an_apply_suspends_the_job_of_the_preempted_workload() -> None:
    result = whatif(cluster(), Apply(job("ml", "urgent", 4, "2", "high")))
    counts = {each.workload: (each.before, each.after) for each in result.workloads}
    assert counts == {"ml/train-a": (4, 0), "ml/urgent": (0, 4)}
    assert result.notes[-1].startswith("Kueue preempts 1 Workload and admits it (flavor on-demand)")


def test_an_apply_of_a_job_that_waits_creates_no_pods() -> None:
    result = whatif(cluster(), Apply(job("ml", "huge", 4, "20", "high")))
    assert (result.workloads, result.counters.pending) == ([], 0)
    assert result.notes[-1].startswith("Kueue does not admit it: it waits in ClusterQueue ml")


def test_a_lost_zone_leaves_quota_without_nodes() -> None:
    result = whatif(cluster(), LoseZone("z0"))
    assert result.counters.pending == 8
    assert "Kueue: 4 Workloads keep their quota while 8 Pods stay Pending" in result.notes
