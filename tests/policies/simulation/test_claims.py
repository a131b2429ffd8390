"""Claims and volumes in a simulation, and what every command that simulates says of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from tests.builders import cluster_text, make_claim, make_node, make_pod, make_storage_class, make_volume
from tests.recorded.commands import answer_scenario as answer_case

if TYPE_CHECKING:
    from pathlib import Path

    from tests.builders import Made, MadePod

Obj = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.example.com"
NODES = {"a-1": "a", "a-2": "a", "b-1": "b"}
NOT_IN_ZONE = "node(s) didn't match PersistentVolume's node affinity"


def node(name: str, zone: str) -> Obj:
    return make_node(name).zone(zone).label("kubernetes.io/hostname", name).obj


def csi_node(name: str, *keys: str) -> Obj:
    drivers = [{"name": DRIVER, "nodeID": name, "topologyKeys": list(keys)}]
    metadata = {"name": name}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}}


def cordoned(obj: Obj) -> Obj:
    return {**obj, "spec": {**obj.get("spec", {}), "unschedulable": True}}


def claim_template(storage_class: str | None = "late", name: str = "data", **spec: Any) -> Obj:
    named = {} if storage_class is None else {"storageClassName": storage_class}
    requests = {"requests": {"storage": "1Gi"}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": requests, **named, **spec},
    }


def stateful_set(replicas: int = 1, template: Obj | None = None, **spec: Any) -> Obj:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "default", "uid": "set"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": containers, **(template or {})}},
            "volumeClaimTemplates": [claim_template()],
            **spec,
        },
    }


def at(seconds: float, op: str, obj: Obj) -> Obj:
    return {"at": seconds, "op": op, "object": obj}


def lost(name: str, seconds: float = 60) -> Obj:
    return at(seconds, "delete", node(name, NODES[name]))


def simulate(*arrivals: Obj, classes: tuple[Made, ...] = (make_storage_class("late"),), **case: Any) -> Obj:
    """The outcome of a cluster with a zonal CSI driver, unless the case says otherwise."""
    made = {
        "nodes": [node(name, zone) for name, zone in NODES.items()],
        "csiNodes": [csi_node(name, ZONE) for name in NODES],
        "storageClasses": [each.obj for each in classes],
        "arrivals": list(arrivals),
        "scalingDown": True,
        **case,
    }
    (outcome,) = answer_case(made)["outcomes"]
    return dict(outcome)


ONLY_A = [node("a-1", "a"), node("a-2", "a"), cordoned(node("b-1", "b"))]
OPENED = [at(30, "update", node("b-1", "b"))]
"""What opens the node of zone b."""


def places(outcome: Obj) -> dict[str, str]:
    return {name.removeprefix("default/"): state["node"] for name, state in outcome["final"].items()}


def bound_database(node_name: str = "a-1") -> dict[str, Any]:
    """A StatefulSet whose Pod runs on a node, with a volume of that node's zone."""
    expressions = [{"key": ZONE, "operator": "In", "values": [NODES[node_name]]}]
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    volume = make_volume("v", storageClassName="late", nodeAffinity=affinity)
    volume.spec(claimRef={"namespace": "default", "name": "data-db-0"}).status(phase="Bound")
    claim = make_claim("data-db-0", "v", storageClassName="late").status(phase="Bound")
    return {"workloads": [stateful_set()], "pods": [db_pod(node_name).obj], "pvcs": [claim.obj], "pvs": [volume.obj]}


def db_pod(node_name: str) -> MadePod:
    pod = make_pod("db-0").labels(app="db").request(cpu="1").on(node_name)
    pod.volume(persistentVolumeClaim={"claimName": "data-db-0"})
    pod.obj["spec"]["volumes"][0]["name"] = "data"
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "set", "controller": True}
    pod.metadata(ownerReferences=[owner])
    return pod


def test_a_replacement_stays_where_its_volume_is() -> None:
    assert places(simulate(lost("a-1"), **bound_database())) == {"db-0": "a-2"}


def test_a_replacement_is_pending_without_a_node_in_the_zone_of_its_volume() -> None:
    outcome = simulate(lost("a-1"), lost("a-2"), **bound_database())
    assert places(outcome) == {"db-0": ""}
    messages = [event["message"] for event in outcome["timeline"] if event["event"] == "unschedulable"]
    assert messages
    assert all(NOT_IN_ZONE in message for message in messages)


def test_a_new_set_gets_volumes_that_tie_its_pods_to_their_zone() -> None:
    outcome = simulate(at(1, "create", stateful_set(3, podManagementPolicy="Parallel")), lost("b-1"))
    scheduled = {event["pod"]: event["node"] for event in outcome["timeline"] if event["event"] == "scheduled"}
    (lost_pod,) = [pod.removeprefix("default/") for pod, where in scheduled.items() if where == "b-1"]
    assert places(outcome)[lost_pod] == ""
    assert sorted(places(outcome).values()) == ["", "a-1", "a-2"]


def test_a_pod_is_bound_when_its_volumes_are() -> None:
    """The scheduler announces the node, and looks every second whether the claims are bound."""
    outcome = simulate(at(1, "create", stateful_set()))
    told = [(event["event"], round(event["t"])) for event in outcome["timeline"] if event.get("pod")]
    assert told == [("created", 1), ("nominated", 1), ("scheduled", 2)]


@pytest.mark.parametrize(("storage_class", "where"), [("late", ""), (None, ""), ("anywhere", "b-1")])
def test_volumes_are_of_the_class_that_the_template_names_or_the_default(storage_class: str | None, where: str) -> None:
    """Class `anywhere` is of another driver, whose volumes no label restricts. The volume is made in zone a."""
    default = make_storage_class("late").metadata(annotations={"storageclass.kubernetes.io/is-default-class": "true"})
    anywhere = make_storage_class("anywhere", provisioner="nfs.example.com")
    drivers = [{"name": DRIVER, "nodeID": "n", "topologyKeys": [ZONE]}, {"name": "nfs.example.com", "nodeID": "n"}]
    outcome = simulate(
        at(1, "create", stateful_set(volumeClaimTemplates=[claim_template(storage_class)])),
        *OPENED,
        lost("a-1"),
        lost("a-2"),
        classes=(default, anywhere),
        csiNodes=[{"metadata": {"name": name}, "spec": {"drivers": drivers}} for name in NODES],
        nodes=ONLY_A,
    )
    assert places(outcome) == {"db-0": where}


@pytest.mark.parametrize("mode", ["Immediate", "WaitForFirstConsumer"])
def test_claims_are_bound_to_the_smallest_volume_that_fits(mode: str) -> None:
    """Local volumes: the pod goes to the node of the volume, and nowhere else when that is lost."""
    static = make_storage_class("local", mode, "kubernetes.io/no-provisioner")

    def local(name: str, size: str, host: str) -> Obj:
        expressions = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
        volume = make_volume(name, storageClassName="local", accessModes=["ReadWriteOnce"], nodeAffinity=affinity)
        return volume.spec(capacity={"storage": size}).obj

    pvs = [local("large", "9Gi", "a-1"), local("fits", "2Gi", "b-1"), local("small", "1Mi", "a-2")]
    if mode == "WaitForFirstConsumer":  # the scheduler looks at nodes first
        pvs = pvs[1:]
    new = at(1, "create", stateful_set(volumeClaimTemplates=[claim_template("local")]))
    assert places(simulate(new, classes=(static,), pvs=pvs)) == {"db-0": "b-1"}
    assert places(simulate(new, lost("b-1"), classes=(static,), pvs=pvs)) == {"db-0": ""}


def retention(**policy: str) -> Obj:
    return {"persistentVolumeClaimRetentionPolicy": policy}


@pytest.mark.parametrize(
    ("policy", "where"), [({}, ""), (retention(whenScaled="Delete"), "b-1"), (retention(whenDeleted="Delete"), "")]
)
def test_scaling_down_deletes_claims_where_the_set_says_so(policy: Obj, where: str) -> None:
    """To none, and back when the zone of the first volume is lost."""
    made, none = stateful_set(1, **policy), stateful_set(0, **policy)
    arrivals = [
        at(1, "create", made),
        at(20, "update", none),
        *OPENED,
        lost("a-1"),
        lost("a-2"),
        at(200, "update", made),
    ]
    assert places(simulate(*arrivals, nodes=ONLY_A)) == {"db-0": where}


@pytest.mark.parametrize(
    ("policy", "where"), [({}, ""), (retention(whenDeleted="Delete"), "b-1"), (retention(whenScaled="Delete"), "")]
)
def test_a_deleted_set_takes_its_claims_along_where_it_says_so(policy: Obj, where: str) -> None:
    made = stateful_set(1, **policy)
    arrivals = [
        at(1, "create", made),
        at(20, "delete", made),
        *OPENED,
        lost("a-1"),
        lost("a-2"),
        at(200, "create", made),
    ]
    assert places(simulate(*arrivals, nodes=ONLY_A)) == {"db-0": where}


def test_an_ephemeral_volume_is_made_anew_for_each_pod() -> None:
    """Its claim goes with the pod, so that the replacement may be in another zone."""
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim_template()["spec"]}}}
    made = stateful_set(1, {"volumes": [volume]}, volumeClaimTemplates=[])
    outcome = simulate(at(1, "create", made), lost("a-1"), lost("a-2"))
    assert places(outcome) == {"db-0": "b-1"}
    first = next(event for event in outcome["timeline"] if event["event"] == "unschedulable")
    assert "waiting for ephemeral volume controller" in first["message"]


def test_a_claim_takes_the_place_of_the_templates_volume_of_its_name() -> None:
    """The volume of the template names a claim that does not exist: the pod would wait for it."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}
    assert places(simulate(at(1, "create", stateful_set(1, {"volumes": [volume]})))) == {"db-0": "a-1"}


# What the commands say


def write_cluster(path: Path, *more: Obj, without: tuple[str, ...] = ()) -> str:
    case = bound_database()
    pod = case["pods"][0]
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    items = [*(node(name, zone) for name, zone in NODES.items()), *(csi_node(name, ZONE) for name in NODES)]
    items += [*case["workloads"], pod, *case["pvcs"], *case["pvs"], make_storage_class("late").obj, *more]
    kept = [item for item in items if item["kind"] not in without]
    (path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": kept}))
    return str(path / "cluster.json")


NODES_OF_A = [name for name, zone in NODES.items() if zone == "a"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main([*arguments])
    out, err = capsys.readouterr()
    assert err == ("forewarn: fails on pending (--fail-on)\n" if status and "--fail-on" in arguments else "")
    return status, out


def test_whatif_says_that_a_database_waits_for_the_zone_of_its_volume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = write_cluster(tmp_path)
    status, out = run(capsys, "whatif", "lose", "zone", "a", "--cluster", cluster, "--fail-on", "pending")
    assert status == 1
    assert "default/db (no class) 1 → 0 1 1 no node is in its volume's zone (a)" in " ".join(out.split())
    status, out = run(capsys, "whatif", "lose", "node", "a-1", "--cluster", cluster, "--fail-on", "pending")
    assert (status, "1 → 0" in out) == (0, False)


@pytest.mark.parametrize(("lost", "is_advised"), [(("zone", "a"), False), (("node", *NODES_OF_A), True)])
def test_nodes_are_advised_unless_their_zone_is_lost(
    lost: tuple[str, ...], is_advised: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = run(capsys, "whatif", "lose", *lost, "--cluster", write_cluster(tmp_path))
    assert ("Fix: add nodes where its volume is available" in " ".join(out.split())) is is_advised


def test_risk_says_that_a_database_does_not_survive_its_zone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out = run(capsys, "risk", "--cluster", write_cluster(tmp_path), "-o", "json")
    (workload,) = json.loads(out)["workloads"]
    assert workload["losesReplicasWith"] == {"zone a": 1}


def test_an_expectation_that_a_database_survives_its_zone_is_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = write_cluster(tmp_path)
    expectation = {"name": "any zone", "when": {"lost": {"zone": "any"}}, "expect": {"run": {"namespace": "default"}}}
    (tmp_path / "expectations.json").write_text(json.dumps([expectation]))
    status, out = run(capsys, "test", str(tmp_path / "expectations.json"), "--cluster", cluster)
    assert status == 1
    assert "default/db: 1 → 0 running Pods" in out


@pytest.mark.parametrize("missing", ["PersistentVolumeClaim", "PersistentVolume"])
def test_claims_that_a_snapshot_lacks_are_not_modelled(
    missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = write_cluster(tmp_path, without=(missing,))
    for command in (("whatif", "lose", "zone", "a"), ("whatif", "lose", "--each", "zone"), ("risk",)):
        _, out = run(capsys, *command, "--cluster", cluster)
        assert "not modelled: 1 PersistentVolumeClaim (default/data-db-0): not in the snapshot, so Pods" in out, command


@pytest.mark.parametrize(
    ("template", "mode", "topology", "where", "said"),
    [
        (
            claim_template(),
            "WaitForFirstConsumer",
            None,
            "a-1",
            "from which nodes new volumes of StorageClass late can be mounted",
        ),
        (claim_template(), "Immediate", ZONE, "", "where StorageClass late (Immediate) creates volumes"),
        (claim_template(), "Immediate", "", "a-1", ""),
        (claim_template(), "WaitForFirstConsumer", ZONE, "a-1", ""),
        (
            claim_template(dataSource={"kind": "VolumeSnapshot", "name": "s", "apiGroup": "snapshot.storage.k8s.io"}),
            "WaitForFirstConsumer",
            ZONE,
            "",
            "volumes created from a snapshot or another claim",
        ),
    ],
)
def test_what_a_provisioner_does_and_nobody_knows_is_not_modelled(
    template: Obj,
    mode: str,
    topology: str | None,
    where: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    items = [*(node(name, zone) for name, zone in NODES.items()), make_storage_class("late", mode).obj]
    items += [] if topology is None else [csi_node(name, *filter(None, [topology])) for name in NODES]
    cluster, new = tmp_path / "cluster.json", tmp_path / "new.json"
    cluster.write_text(cluster_text(items))
    new.write_text(json.dumps(stateful_set(volumeClaimTemplates=[template])))
    _, out = run(capsys, "whatif", "events", "-f", str(new), "--cluster", str(cluster), "-o", "json")
    told = json.loads(out)
    assert {name: state["node"] for name, state in told["outcomes"][0]["final"].items()} == {"default/db-0": where}
    notes = [f"not modelled: 1 PersistentVolumeClaim (default/data-db-0): {said}"] if said else []
    assert told["notModelled"] == notes
    if said:
        _, out = run(capsys, "whatif", "apply", "-f", str(new), "--cluster", str(cluster))
        assert f"WARN {notes[0]}" in " ".join(out.split())
