"""The pods that a workload would bring: how many are new, and where they go."""

from typing import Any

import pytest

from forewarn.policies.kubernetes.objects.fields import InvalidObject
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.linting.rules.wording.forecasts import placement_notes
from forewarn.policies.prediction.forecast.impact import WITHOUT_CLAIMS
from forewarn.policies.prediction.forecast.placement import place
from tests.builders import Made, MadePod, cluster, make_claim, make_node, make_pod, make_volume
from tests.policies.scheduling.consistency import check

CORDONED = "node.kubernetes.io/unschedulable"
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"priority": 5, "containers": [{"name": "c"}]}}
SELECTOR = {"matchLabels": {"app": "web"}}


def workload(kind: str, api_version: str = "apps/v1", **spec: Any) -> Made:
    return Made(api_version, kind, "web", "default").spec(template=TEMPLATE, **spec)


def owned(name: str, kind: str, owner: str) -> MadePod:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u", "controller": True}
    return make_pod(name).metadata(ownerReferences=[reference]).on("n1")


OWNED_SET = Made("apps/v1", "ReplicaSet", "web-abc", "default").metadata(
    ownerReferences=[{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True}]
)


def labelled(name: str, namespace: str = "default") -> MadePod:
    return make_pod(name, namespace).labels(app="web").on("n1")


@pytest.mark.parametrize(
    ("made", "there", "new", "existing"),
    [
        (workload("Deployment", replicas=3, selector=SELECTOR), [], 3, 0),
        (workload("Deployment", selector=SELECTOR), [], 1, 0),
        (workload("Deployment", replicas=3, selector=SELECTOR), [owned("a", "ReplicaSet", "web-abc"), OWNED_SET], 2, 1),
        (workload("Deployment", replicas=3, selector=SELECTOR), [labelled("a")], 2, 1),
        (workload("Deployment", replicas=1, selector=SELECTOR), [labelled("a"), labelled("b")], 0, 1),
        (workload("StatefulSet", replicas=2, selector=SELECTOR), [owned("web-0", "StatefulSet", "web")], 1, 1),
        (workload("ReplicationController", "v1", replicas=2, selector={"app": "web"}), [], 2, 0),
        (workload("Job", "batch/v1", parallelism=4), [], 4, 0),
        (workload("Job", "batch/v1", parallelism=4, suspend=True), [], 0, 0),
        (workload("Job", "batch/v1", parallelism=4, managedBy="kueue.x-k8s.io/multikueue"), [], 0, 0),
        (workload("Job", "batch/v1", parallelism=4, managedBy="kubernetes.io/job-controller"), [], 4, 0),
        (workload("CronJob", "batch/v1", suspend=True, jobTemplate={"spec": {"template": TEMPLATE}}), [], 0, 0),
        (workload("ReplicaSet", replicas=2, selector=SELECTOR), [labelled("x", "other")], 2, 0),
    ],
)
def test_only_what_is_missing_is_new(made: Made, there: list[Made], new: int, existing: int) -> None:
    placement = place(cluster(make_node("n1"), *there), made.obj)
    assert (len(placement.predictions), placement.existing) == (new, existing)


def test_each_pod_sees_those_before_it() -> None:
    anti = {"topologyKey": "kubernetes.io/hostname", "labelSelector": SELECTOR}
    pod = make_pod("x").labels(app="web").affinity("podAntiAffinity", anti).obj
    made = workload("ReplicaSet", replicas=3, selector=SELECTOR).spec(
        template={"metadata": pod["metadata"], "spec": pod["spec"]}
    )
    placement = place(cluster(make_node("n1"), make_node("n2")), made.obj)
    assert [p.node for p in placement.predictions] == ["n1", "n2", ""]


def test_a_placed_pod_carries_the_zone_of_its_node() -> None:
    """The API server copies it at binding: budgets and affinity see it."""
    pod = Pod.from_api(make_pod("x").labels(app="web").nominated("n1").obj)
    bound = pod.bound_to("n1", {"topology.kubernetes.io/zone": "a", "kubernetes.io/hostname": "n1"})
    assert bound.labels == {"app": "web", "topology.kubernetes.io/zone": "a"}
    assert (bound.node_name, bound.nominated_node_name) == ("n1", "")


def test_placing_leaves_the_snapshot_as_it_was() -> None:
    snapshot = cluster(make_node("n1"), make_pod("old").request(cpu="4").on("n1"))
    pod = make_pod("new").priority(1).request(cpu="3").obj
    assert [p.outcome for p in place(snapshot, pod, 2).predictions] == ["preempts", "pending"]
    check(snapshot.scheduling)


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (Made("apps/v1", "Deployment", "web"), "no Pod template found"),
        (
            workload("Deployment").spec(template={"spec": {"containers": [{"resources": {"requests": {"cpu": "x"}}}]}}),
            r"Deployment default/web: spec.template.spec.containers\[0\].resources.requests.cpu",
        ),
        (
            workload("Deployment").spec(template={"spec": {"priorityClassName": "gold"}}),
            "no PriorityClass with name gold was found",
        ),
    ],
)
def test_what_cannot_be_placed_is_told(made: Made, error: str) -> None:
    with pytest.raises(InvalidObject, match=error):
        place(cluster(make_node("n1")), made.obj)


def test_a_daemon_runs_on_every_node_that_lets_it() -> None:
    nodes = [make_node("n1"), make_node("n2").taint("dedicated"), make_node("n3").taint(CORDONED), make_node("n4")]
    full = make_pod("full").priority(9).request(cpu="4").on("n4")
    daemon = make_pod("x").priority(5).request(cpu="1").obj
    made = workload("DaemonSet", selector=SELECTOR).spec(template={"metadata": {}, "spec": daemon["spec"]})
    placement = place(cluster(*nodes, full, owned("web-x", "DaemonSet", "web")), made.obj)
    assert [(p.pod.name, p.outcome) for p in placement.predictions] == [("web-n3", "fits"), ("web-n4", "pending")]
    assert (placement.wanted, placement.existing) == (3, 1)


def test_a_stateful_set_brings_the_claims_that_are_there() -> None:
    claims = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "late"}}]
    made = workload("StatefulSet", replicas=2, selector=SELECTOR, volumeClaimTemplates=claims)
    zoned = make_volume("v").label("topology.kubernetes.io/zone", "b")
    snapshot = cluster(make_node("n1").zone("a"), make_node("n2").zone("b"), make_claim("data-web-0", "v"), zoned)
    placement = place(snapshot, made.obj)
    assert placement.predictions[0].feasible == ["n2"]
    assert placement.predictions[1].feasible == ["n1", "n2"]
    assert WITHOUT_CLAIMS in placement_notes(placement)


@pytest.mark.parametrize("there", [(), (make_claim("v0-web-0", "v"), make_volume("v"))], ids=["new", "there"])
def test_a_claim_takes_the_place_of_the_volume_of_its_name(there: tuple[Made, ...]) -> None:
    pod = make_pod("x").volume(persistentVolumeClaim={"claimName": "data"}).obj
    claims = [{"metadata": {"name": "v0"}}]
    made = workload("StatefulSet", selector=SELECTOR, volumeClaimTemplates=claims).spec(template={"spec": pod["spec"]})
    (prediction,) = place(cluster(make_node("n1"), *there), made.obj).predictions
    assert prediction.fits
    assert [volume.claim_name for volume in prediction.pod.spec.volumes] == ["v0-web-0"][: len(there)]


def test_ephemeral_volumes_of_new_pods_are_left_out() -> None:
    pod = make_pod("new").volume(ephemeral={})
    placement = place(cluster(make_node("n1")), pod.obj)
    assert placement.predictions[0].fits
    assert placement_notes(placement) == (WITHOUT_CLAIMS,)


def test_a_deployment_spreads_with_its_newest_replica_set() -> None:
    newest = replica_set("web-new", "10", "new")
    there = [newest, replica_set("web-old", "9", "old"), labelled("a").label("pod-template-hash", "new")]
    placement = place(cluster(make_node("n1"), make_node("n2"), *there), workload("Deployment", replicas=1).obj)
    assert placement.predictions[0].best_nodes == ["n2"]


def replica_set(name: str, revision: str, pod_hash: str) -> Made:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True}
    made = Made("apps/v1", "ReplicaSet", name, "default").label("pod-template-hash", pod_hash)
    made.metadata(ownerReferences=[owner], annotations={"deployment.kubernetes.io/revision": revision})
    return made.spec(selector={"matchLabels": {"app": "web", "pod-template-hash": pod_hash}})


def test_a_pod_that_is_there_is_not_placed_again() -> None:
    pod = make_pod("p").priority(5).request(cpu="4")
    placement = place(cluster(make_node("n1"), pod.on("n1")), make_pod("p").priority(5).request(cpu="4").obj)
    assert (placement.predictions, placement.existing) == ((), 1)


def test_a_pending_pod_is_not_in_its_own_way() -> None:
    pending = make_pod("p").priority(5).request(cpu="4").nominated("n1")
    applied = make_pod("p").priority(5).request(cpu="4").metadata(uid=None)
    assert place(cluster(make_node("n1"), pending), applied.obj).predictions[0].fits
