"""Run `pytest test_cluster.py`."""

import pytest

import forewarn


@pytest.fixture(scope="session")
def cluster() -> forewarn.Cluster:
    return forewarn.load("docs/examples/whatif/cluster.yaml")


def test_a_manifest_preempts_only_batch_pods(cluster: forewarn.Cluster) -> None:
    result = forewarn.predict(cluster, "docs/examples/headroom/cache.yaml")
    assert not result.faults
    victims = [victim for prediction in result.predictions for victim in prediction.victims]
    assert {victim.priority_class_name for victim in victims} <= {"batch"}


@pytest.mark.parametrize("node", ["a-1", "b-1"])
def test_a_drain_preempts_only_batch_pods(cluster: forewarn.Cluster, node: str) -> None:
    answer = forewarn.whatif(cluster, forewarn.Drain([node]))
    assert {preemption.priority_class for preemption in answer.preemptions} <= {"batch"}


def test_the_gold_workloads_survive_the_loss_of_each_zone_and_node(cluster: forewarn.Cluster) -> None:
    risks = forewarn.risk(cluster, forewarn.Workloads(priority_class="gold"))
    assert all(not risk.loses_replicas_with for risk in risks.workloads)
