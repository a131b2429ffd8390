"""VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone."""

from typing import Any

import pytest

from tests.builders import Made, MadePod, ask, make_claim, make_node, make_pod, make_storage_class, make_volume, reasons

ZONE = "topology.kubernetes.io/zone"
NODES = [make_node("n1").zone("a"), make_node("n2").zone("b")]
LATE_BINDING = make_storage_class("late")


def in_zone(zone: str) -> dict[str, Any]:
    expression = {"key": ZONE, "operator": "In", "values": [zone]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ([], 'persistentvolumeclaim "data" not found'),
        ([make_claim("data")], "pod has unbound immediate PersistentVolumeClaims"),
        ([make_claim("data", storageClassName="missing")], "pod has unbound immediate PersistentVolumeClaims"),
        ([make_claim("data", "gone").status(phase="Lost")], 'persistentvolumeclaim "data" bound to non-existent'),
        (
            [make_claim("data", "v").metadata(deletionTimestamp="2026-01-01T00:00:00Z")],
            'persistentvolumeclaim "data" is being deleted',
        ),
        ([make_claim("data", "gone")], 'persistentvolume "gone" not found'),
    ],
)
def test_claims_that_cannot_be_used_reject_the_pod(made: list[Made], reason: str) -> None:
    prediction = ask(make_pod("new").claim("data"), *NODES, *made)
    assert prediction.pre_filter is not None
    assert prediction.pre_filter.reasons[0].startswith(reason)
    assert prediction.outcome == "pending"


@pytest.mark.parametrize(
    ("made", "feasible"),
    [
        ([make_claim("data", "v"), make_volume("v")], ["n1", "n2"]),
        ([make_claim("data", "v"), make_volume("v", nodeAffinity=in_zone("a"))], ["n1"]),
        ([make_claim("data", "v"), make_volume("v").label(ZONE, "b")], ["n2"]),
        ([make_claim("data", "v"), make_volume("v").label(ZONE, "a__b")], ["n1", "n2"]),
        ([make_claim("data", "v"), make_volume("v").label("failure-domain.beta.kubernetes.io/zone", "b")], ["n2"]),
        ([make_claim("data", storageClassName="late"), LATE_BINDING], ["n1", "n2"]),
        (
            [
                make_claim("data", storageClassName="late").metadata(
                    annotations={"volume.kubernetes.io/selected-node": "n2"}
                ),
                LATE_BINDING,
            ],
            ["n2"],
        ),
        (
            [
                make_claim("data", storageClassName="static", resources={"requests": {"storage": "5Gi"}}),
                make_storage_class("static", provisioner="kubernetes.io/no-provisioner"),
                make_volume("v", storageClassName="static", accessModes=["ReadWriteOnce"], nodeAffinity=in_zone("b")),
            ],
            ["n2"],
        ),
        (
            [
                make_claim("data", storageClassName="static", resources={"requests": {"storage": "50Gi"}}),
                make_storage_class("static", provisioner="kubernetes.io/no-provisioner"),
                make_volume("v", storageClassName="static", accessModes=["ReadWriteOnce"]),
            ],
            [],
        ),
    ],
)
def test_volumes_say_where_a_pod_can_run(made: list[Made], feasible: list[str]) -> None:
    assert ask(make_pod("new").claim("data"), *NODES, *made).feasible == feasible


EXCLUSIVE = make_claim("data", "v").spec(accessModes=["ReadWriteOncePod"])


def test_an_exclusive_claim_is_used_by_one_pod_in_the_cluster() -> None:
    holder = make_pod("holder").claim("data").on("n1")
    prediction = ask(make_pod("new").priority(1).claim("data"), *NODES, EXCLUSIVE, make_volume("v"), holder)
    assert prediction.feasible == []
    assert (prediction.nominated_node, [v.name for v in prediction.victims]) == ("n1", ["holder"])


def test_a_claim_of_the_same_name_elsewhere_counts_when_its_pod_goes() -> None:
    """A quirk of upstream: removals are counted by the claim's name alone."""
    holder = make_pod("holder").priority(9).claim("data").on("n1")
    stranger = make_pod("stranger", "other").claim("data").on("n2")
    prediction = ask(make_pod("new").priority(5).claim("data"), *NODES, EXCLUSIVE, make_volume("v"), holder, stranger)
    assert [v.name for v in prediction.victims] == ["stranger"]


def gce(name: str, *, read_only: bool) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def rbd(image: str, *monitors: str, read_only: bool = False) -> dict[str, Any]:
    return {"rbd": {"monitors": list(monitors), "image": image, "readOnly": read_only}}


@pytest.mark.parametrize(
    ("wanted", "held", "shared"),
    [
        (gce("d", read_only=False), gce("d", read_only=False), False),
        (gce("d", read_only=True), gce("d", read_only=False), False),
        (gce("d", read_only=True), gce("d", read_only=True), True),
        (gce("d", read_only=False), gce("e", read_only=False), True),
        ({"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},) * 2 + (False,),
        ({"iscsi": {"iqn": "i", "readOnly": True}},) * 2 + (True,),
        (rbd("i", "m1", "m2"), rbd("i", "m2"), False),
        (rbd("i", "m1"), rbd("i", "m2"), True),
        (rbd("i", "m1", read_only=True), rbd("i", "m1", read_only=True), True),
    ],
)
def test_which_disks_pods_share(wanted: dict[str, Any], held: dict[str, Any], shared: bool) -> None:
    holder = make_pod("holder").volume(**held).on("n1")
    assert ask(make_pod("new").volume(**wanted), make_node("n1"), holder).fits is shared


def csi_node(limit: int, **annotations: str) -> Made:
    drivers = [{"name": "csi.example.com", "allocatable": {"count": limit}}]
    return Made("storage.k8s.io/v1", "CSINode", "n1").spec(drivers=drivers).metadata(annotations=annotations)


def csi_volume(name: str, handle: str) -> Made:
    return make_volume(name, csi={"driver": "csi.example.com", "volumeHandle": handle})


ATTACHED = Made("storage.k8s.io/v1", "VolumeAttachment", "a").spec(
    attacher="csi.example.com", nodeName="n1", source={"persistentVolumeName": "held"}
)
HOLDER = make_pod("holder").claim("held").on("n1")


@pytest.mark.parametrize(
    ("limit", "handle", "more", "outcome"),
    [
        (2, "new", [], "fits"),
        (1, "new", [], "preempts"),
        (1, "held", [], "fits"),
        (1, "new", [ATTACHED], "pending"),
    ],
)
def test_a_driver_attaches_only_so_many_volumes(limit: int, handle: str, more: list[Made], outcome: str) -> None:
    made = [
        make_node("n1"), csi_node(limit), HOLDER, make_claim("held", "held"), csi_volume("held", "held"),
        make_claim("data", "new"), csi_volume("new", handle), *more,
    ]  # fmt: skip
    assert ask(make_pod("new").priority(1).claim("data"), *made).outcome == outcome


def test_an_old_disk_counts_as_its_drivers() -> None:
    drivers = [{"name": "ebs.csi.aws.com", "allocatable": {"count": 1}}]
    node = Made("storage.k8s.io/v1", "CSINode", "n1").spec(drivers=drivers)
    holder = make_pod("holder").volume(awsElasticBlockStore={"volumeID": "aws://z/vol-1"}).on("n1")
    same, other = ({"awsElasticBlockStore": {"volumeID": volume_id}} for volume_id in ("vol-1", "vol-2"))
    pod: MadePod = make_pod("new").volume(**other)
    assert reasons(ask(pod, make_node("n1"), node, holder)) == {"n1": "node(s) exceed max volume count"}
    # The same disk is not one more volume, but two pods cannot have it.
    assert reasons(ask(make_pod("new").volume(**same), make_node("n1"), node, make_pod("x").on("n1"))) == {}


def test_a_migrated_volume_is_where_its_driver_says() -> None:
    migrated = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
    volume = make_volume("v", awsElasticBlockStore={"volumeID": "vol-1"}, nodeAffinity=in_zone("a"))
    node = make_node("n1").label("topology.ebs.csi.aws.com/zone", "a")
    made = [make_claim("data", "v"), volume, node]
    assert ask(make_pod("new").claim("data"), *made, csi_node(9, **migrated)).fits
    assert not ask(make_pod("new").claim("data"), *made, csi_node(9)).fits


def test_an_ephemeral_claim_must_be_the_pods_own() -> None:
    pod = make_pod("new").volume(ephemeral={})
    claim = make_claim("new-v0", storageClassName="late")
    prediction = ask(pod, make_node("n1"), LATE_BINDING, claim)
    assert prediction.pre_filter is not None
    assert prediction.pre_filter.reasons[0].endswith("(pod is not owner)")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "new", "uid": "uid-new", "controller": True}
    assert ask(pod, make_node("n1"), LATE_BINDING, claim.metadata(ownerReferences=[owner])).fits
