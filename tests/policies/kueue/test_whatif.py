"""`forewarn whatif` in a cluster with Kueue."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.policies.kubernetes.objects.fields import InvalidInput, InvalidObject
from forewarn.policies.questions.application.changes import Apply, LoseZone
from forewarn.policies.questions.application.predict import predict
from forewarn.policies.questions.application.whatif import whatif
from tests.policies.kueue.worlds import KUEUE, cluster, cluster_queue, job, obj


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


def test_an_apply_of_a_job_with_its_queue_and_class() -> None:
    queue = cluster_queue("new")
    del queue["spec"]["cohortName"]
    local = obj(KUEUE, "LocalQueue", "new", "ml", spec={"clusterQueue": "new"})
    urgent = obj(KUEUE, "WorkloadPriorityClass", "urgent", value=1000)
    labels = {"kueue.x-k8s.io/queue-name": "new", "kueue.x-k8s.io/priority-class": "urgent"}
    made = job("ml", "first", 4, "2", metadata={"labels": labels})
    document = whatif(cluster(), Apply([queue, local, urgent, made])).document
    assert document.clause.startswith("Kueue admits it (flavor on-demand); 0 of 4 new Pods run, 4 stay Pending")


def test_an_apply_of_queues_alone_has_nothing_to_simulate() -> None:
    with pytest.raises(InvalidInput, match="only objects of Kueue"):
        whatif(cluster(), Apply(cluster_queue("new")))


def test_a_malformed_queue_of_an_apply_is_named() -> None:
    queue = cluster_queue("new", resourceGroups=[{"flavors": [{"name": 5}]}])
    with pytest.raises(InvalidObject, match=r"ClusterQueue new: .*name: must be a string"):
        whatif(cluster(), Apply([queue, job("ml", "x", 1, "1")]))


def test_a_lost_zone_leaves_quota_without_nodes() -> None:
    result = whatif(cluster(), LoseZone("z0"))
    assert result.counters.pending == 8
    assert "Kueue: 4 Workloads keep their quota while 8 Pods stay Pending" in result.notes


LABELS = {"labels": {"kueue.x-k8s.io/queue-name": "team"}}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
REPLICATED = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
OTHER_KINDS = [
    obj("v1", "Pod", "x", "ml", metadata=LABELS, spec=TEMPLATE["spec"]),
    obj("apps/v1", "Deployment", "x", "ml", metadata=LABELS, spec=REPLICATED),
    obj(
        *("batch/v1", "CronJob", "x", "ml"),
        spec={"schedule": "@daily", "jobTemplate": {"metadata": LABELS, "spec": job("ml", "x", 2, "1")["spec"]}},
    ),
]


@pytest.mark.parametrize("made", OTHER_KINDS, ids=lambda made: made["kind"])
def test_other_kinds_in_a_queue_are_not_predicted(made: dict[str, Any]) -> None:
    simulated = whatif(cluster(), Apply(made))
    assert simulated.workloads == []
    for document in (simulated.document, predict(cluster(), made).document):
        assert document.status == "NO ANSWER"
        assert document.clause.startswith(f"Kueue is not predicted ({made['kind']} not modelled)")


def test_a_daemon_set_in_a_queue_is_none_of_kueue() -> None:
    spec = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
    assert predict(cluster(), obj("apps/v1", "DaemonSet", "x", "ml", metadata=LABELS, spec=spec)).kueue is None


def test_an_apply_of_a_suspended_job_without_its_queue_is_not_predicted() -> None:
    suspended = job("ml", "x", 1, "1", spec={"suspend": True})
    document = whatif(cluster(without="LocalQueue/team"), Apply(suspended)).document
    assert (document.status, document.clause) == (
        "NO ANSWER",
        "Kueue is not predicted (its LocalQueue is not in the input)",
    )


def plain_job(namespace: str = "ml") -> dict[str, Any]:
    made = job(namespace, "plain", 1, "1")
    del made["metadata"]["labels"]
    return made


def test_a_new_job_without_a_queue_is_in_the_default_local_queue() -> None:
    default = obj(KUEUE, "LocalQueue", "default", "ml", spec={"clusterQueue": "ml"})
    clause = "Kueue does not admit it: it waits behind 1 Workload in ClusterQueue ml"
    for document in (
        predict(cluster(default), plain_job()).document,
        whatif(cluster(default), Apply(plain_job())).document,
    ):
        assert (document.status, document.clause) == ("PENDING", clause)
    assert predict(cluster(default), plain_job("research")).kueue is None
    assert predict(cluster(default, plain_job()), plain_job()).kueue is None  # only set at the creation


@pytest.mark.parametrize(
    ("fields", "namespace", "is_suspended"),
    [
        ({}, "ml", True),
        ({}, "kube-system", False),
        ({"namespace": "kube-public"}, "kube-public", False),
        ({"managedJobsNamespaceSelector": {"matchLabels": {"kueue": "yes"}}}, "ml", False),
        ({"managedJobsNamespaceSelector": {"matchLabels": {"kueue": "yes"}}}, "research", True),
        ({"manageJobsWithoutQueueName": False}, "ml", False),
    ],
)
def test_a_job_without_a_queue_that_kueue_suspends(fields: dict[str, Any], namespace: str, is_suspended: bool) -> None:
    made = obj("config.kueue.x-k8s.io/v1beta2", "Configuration", "manager", manageJobsWithoutQueueName=True) | fields
    labelled = obj("v1", "Namespace", "research", metadata={"labels": {"kueue": "yes"}})
    document = predict(cluster(made, labelled), plain_job(namespace)).document
    assert ("it has no queue" in document.clause) == is_suspended
    assert any("Fix: set the label" in warning for warning in document.warnings) == is_suspended
