"""The objects of one apply see each other, in every command: the outcome of a new Deployment with other objects in
its file, and another outcome without them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.linting.rules.wording.forecasts import FREED
from tests.builders import (
    Made,
    make_claim,
    make_namespace,
    make_node,
    make_pod,
    make_priority_class,
    make_storage_class,
    make_volume,
)
from tests.in_process import forewarn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

GPU = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}
ON_N2 = {"required": {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}]}}  # fmt: skip
KINDS = (
    ("v1", "ResourceQuota"), ("v1", "LimitRange"), ("policy/v1", "PodDisruptionBudget"), ("v1", "PersistentVolume"),
    ("storage.k8s.io/v1", "StorageClass"), ("storage.k8s.io/v1", "CSINode"), ("storage.k8s.io/v1", "CSIDriver"),
    ("v1", "Pod"), ("scheduling.k8s.io/v1", "PriorityClass"), ("v1", "PersistentVolumeClaim"),
)  # fmt: skip
LISTED = [{"apiVersion": version, "kind": f"{kind}List", "items": []} for version, kind in KINDS]


def low(node: str, cpu: str = "3") -> Made:
    return make_pod(f"low-{node}").request(cpu=cpu).labels(app=f"low-{node}").priority(-1).on(node)


def deployment(replicas: int = 1, **pod: Any) -> Made:
    labels = {"app": "new"}
    container: dict[str, Any] = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    container["resources"] |= pod.pop("resources", {})
    spec = {"containers": [container], **pod}
    template = {"metadata": {"labels": labels}, "spec": spec}
    made = Made("apps/v1", "Deployment", "new", "default")
    return made.spec(replicas=replicas, selector={"matchLabels": labels}, template=template)


def with_claim() -> Made:
    return deployment(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])


def claim(storage_class: str) -> Made:
    return make_claim("data", storageClassName=storage_class, resources={"requests": {"storage": "1Gi"}})


def with_device(**reference: str) -> Made:
    return deployment(resourceClaims=[{"name": "gpu", **reference}], resources={"claims": [{"name": "gpu"}]})


def devices(kind: str, name: str, **spec: Any) -> Made:
    is_global = kind in ("DeviceClass", "ResourceSlice")
    return Made("resource.k8s.io/v1", kind, name, "" if is_global else "default").spec(**spec)


def gpus() -> list[Made]:
    pool = {"name": "n2", "generation": 1, "resourceSliceCount": 1}
    return [
        devices("DeviceClass", "gpu"),
        devices("ResourceSlice", "n2", driver="gpu.example.com", nodeName="n2", pool=pool, devices=[{"name": "d"}]),
    ]


def of_class(name: str, **fields: Any) -> Made:
    made = make_storage_class(name)
    made.obj.update(fields)
    return made


def quota(**hard: str) -> Made:
    return Made("v1", "ResourceQuota", "q", "default").spec(hard=hard)


def pdb(app: str) -> Made:
    made = Made("policy/v1", "PodDisruptionBudget", "protected", "default")
    return made.spec(minAvailable=1, selector={"matchLabels": {"app": app}})


def apart_from_teams() -> Made:
    """Not on a node with a Pod of a namespace with the label team."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
    }
    return deployment(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


NODES = [make_node(name).has(cpu="4").label("kubernetes.io/hostname", name).zone(name) for name in ("n1", "n2")]
IN_N2 = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["n2"]}]}]
LOCAL = make_volume("pv", storageClassName="local", accessModes=["ReadWriteOnce"], nodeAffinity=ON_N2)
LARGE = Made("v1", "LimitRange", "l", "default").spec(
    limits=[{"type": "Container", "defaultRequest": {"memory": "1Ti"}}]
)
GOLD = Made("scheduling.k8s.io/v1", "PriorityClass", "gold")
GOLD.obj["value"] = 10

CASES: dict[str, tuple[Sequence[Made], Sequence[Made], Made, str, str]] = {
    # the cluster besides its nodes, the objects beside the workload, the workload, the outcome, that without them
    "ResourceClaimTemplate": (
        [*gpus(), low("n2")],
        [devices("ResourceClaimTemplate", "gpu", spec={"devices": GPU})],
        with_device(resourceClaimTemplateName="gpu"),
        "preempts low-n2",
        "pending",
    ),
    "ResourceClaim": (
        [*gpus(), low("n2")],
        [devices("ResourceClaim", "gpu", devices=GPU)],
        with_device(resourceClaimName="gpu"),
        "preempts low-n2",
        "pending",
    ),
    "ResourceSlice": (
        [gpus()[0], devices("ResourceClaim", "gpu", devices=GPU), low("n2")],
        [gpus()[1]],
        with_device(resourceClaimName="gpu"),
        "preempts low-n2",
        "pending",
    ),
    "PersistentVolumeClaim": (
        [of_class("local", provisioner="kubernetes.io/no-provisioner"), LOCAL, low("n2")],
        [claim("local")],
        with_claim(),
        "preempts low-n2",
        "pending",
    ),
    "PersistentVolumeClaim of the default class": (
        [
            of_class("fast", allowedTopologies=IN_N2).metadata(
                annotations={"storageclass.kubernetes.io/is-default-class": "true"}
            ),
            low("n2"),
        ],
        [make_claim("data", resources={"requests": {"storage": "1Gi"}})],
        with_claim(),
        "preempts low-n2",
        "pending",
    ),
    "PersistentVolumeClaim that is bound at once": (
        [of_class("local", volumeBindingMode="Immediate", provisioner="kubernetes.io/no-provisioner"), low("n2")],
        [LOCAL, claim("local")],
        with_claim(),
        "preempts low-n2",
        "pending",
    ),
    "PersistentVolumeClaim without a volume": (
        [of_class("local", volumeBindingMode="Immediate", provisioner="kubernetes.io/no-provisioner")],
        [claim("local")],
        with_claim(),
        "pending",
        "pending",
    ),
    "PersistentVolumeClaim without a StorageClass": (
        [of_class("local")],
        [claim("fast")],
        with_claim(),
        "pending",
        "pending",
    ),
    "StorageClass": (
        [claim("fast"), low("n2")],
        [of_class("fast", allowedTopologies=IN_N2)],
        with_claim(),
        "preempts low-n2",
        "pending",
    ),
    "PodDisruptionBudget": (
        [low("n1"), low("n2")],
        [pdb("low-n1")],
        deployment(priorityClassName="system-node-critical"),
        "preempts low-n2",
        "preempts low-n1",
    ),
    "ResourceQuota": ([], [quota(pods="0")], deployment(), "rejected", "fits"),
    "ResourceQuota and Pods": ([low("n1", "1")], [quota(pods="1")], deployment(), "rejected", "fits"),
    "LimitRange": (
        [low("n1"), low("n2")],
        [LARGE],
        deployment(),
        "pending",
        "preempts low-n1",
    ),
    "Namespace": (
        [make_pod("of-team", "teams").on("n1"), low("n2")],
        [make_namespace("teams", team="a")],
        apart_from_teams(),
        "preempts low-n2",
        "fits",
    ),
    "PriorityClass": (
        [low("n1"), low("n2")], [GOLD], deployment(priorityClassName="gold"), "preempts low-n1", "error",
    ),
}  # fmt: skip


def write(path: Path, objects: Sequence[Any]) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return path


def asked(directory: Path, stored: Sequence[Made], applied: Sequence[Made], command: str) -> str:
    """The outcome of the new Pod in one command's answer."""
    cluster = write(directory / "cluster.json", [*(each.obj for each in (*NODES, *stored)), *LISTED])
    new = write(directory / "new.json", [each.obj for each in applied])
    if command == "lint":
        return of_lint(forewarn("lint", new, "--cluster", cluster, "--kubernetes-version", "1.36").stdout)
    words = command.split()
    done = forewarn(*words, "-f", new, "--cluster", cluster, "-o", "json", "--kubernetes-version", "1.36")
    if done.returncode == 3:
        return "error"
    return (of_predict if command == "predict" else of_whatif)(json.loads(done.stdout))


def predicted(*given: str | Path) -> Any:
    """The document of a prediction."""
    return json.loads(forewarn("predict", *given, "-o", "json").stdout)


def of_predict(document: Any) -> str:
    (outcome,) = document["outcomes"]
    if outcome == "preempts":
        return f"preempts {', '.join(each['workload'] for each in document['victims']).replace('default/', '')}"
    return str(outcome)


def of_lint(text: str) -> str:
    if "unknown-priority-class" in text:
        return "error"
    if "quota-exceeded" in text:
        return "rejected"
    if "[fits-nowhere]" in text:
        return "pending"
    if "[preempts-running-pods]" in text:
        return f"preempts low-n{1 if 'default/low-n1' in text else 2}"
    return text or "fits"


def of_whatif(answer: Any) -> str:
    if answer["preempted"]:
        return f"preempts {answer['preempted'][0]['victim']['pod'].replace('default/', '')}"
    if answer["rejectedByQuota"]:
        return "rejected"
    (counts,) = [each for each in answer["workloads"] if each["workload"] == "default/new"]
    return "fits" if counts["running"]["after"] else "pending"


WITH_DEVICES = {"ResourceClaimTemplate", "ResourceClaim", "ResourceSlice"}
ASKED = [(case, command) for case in CASES for command in ("predict", "lint", "whatif apply")]


@pytest.mark.parametrize(("case", "command"), [a for a in ASKED if a[1] != "whatif apply" or a[0] not in WITH_DEVICES])
def test_objects_of_one_apply_see_each_other(case: str, command: str, tmp_path: Path) -> None:
    stored, beside, new, outcome, without = CASES[case]
    assert asked(tmp_path, stored, [*beside, new], command) == outcome
    assert asked(tmp_path, stored, [new, *beside], command) == outcome, "in the other order"
    assert asked(tmp_path, stored, [new], command) == without


@pytest.mark.parametrize("command", ["lint", "predict", "whatif apply"])
@pytest.mark.parametrize("is_template", [False, True])
def test_a_missing_storage_class_is_named(command: str, is_template: bool, tmp_path: Path) -> None:
    new, data = with_claim(), claim("fast")
    if is_template:
        new = deployment()
        new.obj["kind"] = "StatefulSet"
        new.spec(volumeClaimTemplates=[data.obj])
    stored = write(tmp_path / "cluster.json", [*(each.obj for each in NODES), of_class("local").obj, *LISTED])
    applied = write(tmp_path / "new.json", [new.obj, *([] if is_template else [data.obj])])
    files = [applied] if command == "lint" else ["-f", applied]
    done = forewarn(*command.split(), *files, "--cluster", stored)
    assert 'StorageClass "fast" not found; known: local' in done.stdout


@pytest.mark.parametrize(("command", "before"), [("predict", ""), ("whatif apply", " applied")])
def test_of_an_object_given_twice_the_last_one_counts(command: str, before: str, tmp_path: Path) -> None:
    cluster = write(tmp_path / "cluster.json", [*(each.obj for each in NODES), *LISTED])
    new = write(tmp_path / "new.json", [deployment(1).obj, deployment(2).obj])
    lines = forewarn(*command.split(), "-f", new, "--cluster", cluster).stdout.splitlines()
    assert lines[0] == f"OK  Deployment default/new{before}: 2 of 2 new Pods run"
    assert "WARN  given several times: Deployment default/new; the last one counts, as for kubectl apply" in lines


@pytest.mark.parametrize(("first", "admitted"), [("quota", 1), ("pods", 2)])
def test_a_quota_that_is_created_later_does_not_reject_a_pod(first: str, admitted: int, tmp_path: Path) -> None:
    """A controller creates its Pods after the apply, so a later quota rejects these."""
    pods = [make_pod(name).request(cpu="1") for name in ("one", "two")]
    given = [quota(pods="1"), *pods] if first == "quota" else [*pods, quota(pods="1")]
    cluster = write(tmp_path / "cluster.json", [*(each.obj for each in NODES), *LISTED])
    new = write(tmp_path / "new.json", [each.obj for each in given])
    refused = {"rejected": 1} if admitted == 1 else {}
    assert predicted("-f", new, "--cluster", cluster)["outcomes"] == {"fits": admitted, **refused}
    answer = json.loads(forewarn("whatif", "apply", "-f", new, "--cluster", cluster, "-o", "json").stdout)
    assert answer["running"]["after"] == admitted
    assert answer["rejectedByQuota"] == ({"default/two": 1} if admitted == 1 else {})


def test_the_pods_of_earlier_objects_count_for_a_quota(tmp_path: Path) -> None:
    other = deployment(2)
    other.obj["metadata"]["name"] = "other"
    cluster = write(tmp_path / "cluster.json", [*(each.obj for each in NODES), *LISTED])
    new = write(tmp_path / "new.json", [quota(pods="3").obj, deployment(2).obj, other.obj])
    (cause,) = predicted("-f", new, "--cluster", cluster)["why"]["causes"]
    assert cause == {"number": 1, "kind": "quota", "reason": "by quota default/q"}
    answer = json.loads(forewarn("whatif", "apply", "-f", new, "--cluster", cluster, "-o", "json").stdout)
    assert (answer["running"]["after"], sum(answer["rejectedByQuota"].values())) == (3, 1)


@pytest.mark.parametrize(
    ("pods", "outcome"),
    [("1", "rejected"), ("2", "pending"), ("3", "pending")],
)
def test_an_ordered_stateful_set_whose_first_pod_preempts_stops_as_in_a_simulation(
    pods: str, outcome: str, tmp_path: Path
) -> None:
    new = deployment(4)
    new.obj["kind"] = "StatefulSet"
    old = [make_pod("low", "other").request(cpu="2").priority(-1).on("n1")]
    old += [make_pod(node, "other").request(cpu=cpu).priority(9).on(node) for node, cpu in (("n1", "2"), ("n2", "4"))]
    made = [*(each.obj for each in (*NODES, *old)), *LISTED, quota(pods=pods).obj]
    given = ("-f", write(tmp_path / "new.json", [new.obj]), "--cluster", write(tmp_path / "cluster.json", made))
    document = predicted(*given)
    assert document["outcomes"] == {"preempts": 1, outcome: 1, "later": 2}
    assert (document["counters"]["blocked"], document["objects"][0]["blocked"]) == (0, True), "no rollout is blocked"
    assert "of 4 new Pods run" in forewarn("whatif", "apply", *given).stdout.splitlines()[0]


def test_several_objects_share_a_quota_if_some_of_their_pods_preempt(tmp_path: Path) -> None:
    other = deployment(2)
    other.obj["metadata"]["name"] = "other"
    old = make_pod("old", "other").request(cpu="4").priority(-1).on("n1")
    cluster = write(tmp_path / "cluster.json", [NODES[0].obj, old.obj, *LISTED, quota(pods="1").obj])
    new = write(tmp_path / "new.json", [deployment(2).obj, other.obj])
    document = predicted("-f", new, "--cluster", cluster)
    assert document["outcomes"] == {"preempts": 1, "rejected": 3}
    assert (document["counters"]["victims"], document["counters"]["rejected"]) == (1, 3)


def test_each_of_several_quotas_that_reject_pods_is_a_reason(tmp_path: Path) -> None:
    other, second = deployment(2), quota(pods="1")
    other.obj["metadata"]["namespace"] = second.obj["metadata"]["namespace"] = "other"
    listed = [*(each.obj for each in NODES), *LISTED, quota(pods="1").obj, second.obj]
    cluster = write(tmp_path / "cluster.json", listed)
    new = write(tmp_path / "new.json", [deployment(2).obj, other.obj])
    causes = predicted("-f", new, "--cluster", cluster)["why"]["causes"]
    assert [cause["reason"] for cause in causes] == ["by quota default/q", "by quota other/q"]


def test_an_ordered_stateful_set_creates_no_pod_after_a_rejected_one(tmp_path: Path) -> None:
    new = deployment(4)
    new.obj["kind"] = "StatefulSet"
    cluster = write(tmp_path / "cluster.json", [*(each.obj for each in NODES), *LISTED])
    for objects in ([new], [new, deployment(0)]):
        path = write(tmp_path / "new.json", [quota(pods="2").obj, *(each.obj for each in objects)])
        assert predicted("-f", path, "--cluster", cluster)["outcomes"] == {"fits": 2, "rejected": 1, "later": 1}
    given = ("-f", write(tmp_path / "new.json", [quota(pods="2").obj, new.obj]), "--cluster", cluster)
    out = forewarn("whatif", "apply", *given).stdout
    assert out.startswith("HARM  2 objects applied: 2 of 4 new Pods run, 1 Pod rejected\n")


def test_only_lost_pods_count_as_rejected_replicas(tmp_path: Path) -> None:
    """The first new Pod preempts a Pod in another namespace, and a quota rejects the second."""
    first = make_priority_class(1000, "high")
    victim = make_pod("victim-0", "other").request(cpu="3").priority(1).on("n1")
    of = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "victim", "controller": True}
    stored = Made("apps/v1", "StatefulSet", "victim", "other").spec(
        replicas=1,
        selector={"matchLabels": {"app": "victim"}},
        template={"metadata": {"labels": {"app": "victim"}}, "spec": victim.obj["spec"] | {"nodeName": ""}},
    )
    nodes = [make_node("n1").has(cpu="4")]
    items = [*nodes, first, stored, victim.labels(app="victim").metadata(ownerReferences=[of])]
    cluster = write(tmp_path / "cluster.json", [*(each.obj for each in items), *LISTED])
    given = [quota(pods="1"), deployment(2, priorityClassName="high")]
    new = write(tmp_path / "new.json", [each.obj for each in given])
    out = forewarn("whatif", "apply", "-f", new, "--cluster", cluster).stdout
    assert out.startswith("HARM  2 objects applied: 1 of 2 new Pods run, 1 Pod preempted\n")
    assert out.splitlines()[1].strip() == "preempted 1 | Pending 1 | lost 1 of 1 | rejected 1"


def test_a_restart_that_a_quota_blocks_creates_no_pod(tmp_path: Path) -> None:
    stored = deployment(2)
    template = stored.obj["spec"]["template"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "new-1", "controller": True}
    above = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "new", "controller": True}]
    replica_set = Made("apps/v1", "ReplicaSet", "new-1", "default").metadata(ownerReferences=above)
    replica_set.spec(replicas=2, selector={"matchLabels": {"app": "new"}}, template=template)
    pods = [make_pod(f"new-1-{n}").request(cpu="2").labels(app="new").on(f"n{n + 1}") for n in range(2)]
    objects = [*NODES, stored, replica_set, quota(pods="2"), *(p.metadata(ownerReferences=[owner]) for p in pods)]
    cluster = write(tmp_path / "cluster.json", [*(each.obj for each in objects), *LISTED])
    first = forewarn("whatif", "restart", "deployment/new", "--cluster", cluster).stdout.splitlines()[0]
    blocked = "1 rollout does not finish, 0 of 1 new Pod runs"
    assert first == f"BLOCKED  Deployment default/new restarted: {blocked}"
    given = [quota(pods="1"), deployment(2, terminationGracePeriodSeconds=5)]
    new = write(tmp_path / "new.json", [each.obj for each in given])
    first, _, *warnings = forewarn("whatif", "apply", "-f", new, "--cluster", cluster).stdout.splitlines()[:6]
    assert first == f"BLOCKED  2 objects applied: {blocked}"
    cannot = "2 running Pods cannot be recreated until usage of pods falls by 1"
    assert [" ".join(each.split()) for each in " ".join(warnings).split("WARN ")[1:]] == [
        "no FIX: tried without help: quota default/q: pods 2 → 3",
        "quota default/q rejects 1 Pod",
        f"a ResourceQuota rejects new Pods of 1 workload: {cannot}",
    ]


def test_pods_that_a_quota_rejects_anyway_are_no_effect(tmp_path: Path) -> None:
    """Of a restart, and of a plan that creates an unused class."""
    job = Made("batch/v1", "Job", "etl", "default").spec(**deployment().obj["spec"], parallelism=2, completions=2)
    job.obj["spec"].pop("replicas")
    other = deployment(1)
    other.obj["metadata"]["name"] = "other"
    objects = [*NODES, job, other, quota(pods="0"), make_priority_class(5, "low")]
    cluster = write(tmp_path / "cluster.json", [*(each.obj for each in objects), *LISTED])
    new = write(tmp_path / "class.json", [make_priority_class(7, "new").obj])
    first = forewarn("classes", "plan", "-f", new, "--cluster", cluster).stdout.splitlines()[0]
    assert first == "OK  change of PriorityClasses in 1 step: no Pod preempted, newly Pending or lost"
    first = forewarn("whatif", "restart", "deployment/other", "--cluster", cluster).stdout.splitlines()[0]
    assert "default/etl" not in first


@pytest.mark.parametrize(
    ("kind", "spec", "end"),
    [
        ("StatefulSet", {"updateStrategy": {"type": "OnDelete"}}, "updateStrategy: OnDelete"),
        ("StatefulSet", {"updateStrategy": {"rollingUpdate": {"partition": 2}}}, "updateStrategy: partition"),
        ("StatefulSet", {"updateStrategy": {"rollingUpdate": {"partition": 1}}}, ""),
        ("Deployment", {"paused": True}, "paused; kubectl rollout restart fails"),
        ("Deployment", {"paused": False}, ""),
    ],
)
def test_a_restart_without_effect_is_told(kind: str, spec: dict[str, Any], end: str, tmp_path: Path) -> None:
    stored = deployment(2).spec(**spec)
    stored.obj["kind"] = kind
    cluster = write(tmp_path / "cluster.json", [*(each.obj for each in (*NODES, stored)), *LISTED])
    first = forewarn("whatif", "restart", f"{kind.lower()}/new", "--cluster", cluster).stdout.splitlines()[0]
    why = f", which replaces no Pod ({end})" if end else ""
    assert f"  {kind} default/new restarted{why}: " in first


def test_a_claim_that_is_created_later_ends_the_wait(tmp_path: Path) -> None:
    stored = [of_class("local", provisioner="kubernetes.io/no-provisioner"), LOCAL]
    cluster = write(tmp_path / "cluster.json", [*(each.obj for each in (*NODES, *stored)), *LISTED])
    new = write(tmp_path / "new.json", [with_claim().obj])
    events = tmp_path / "events.json"
    events.write_text(json.dumps([{"at": 60, "create": {**claim("local").obj}}]))
    answer = forewarn("whatif", "events", "-f", new, "--events", events, "--cluster", cluster, "-o", "json").stdout
    counts = json.loads(answer)
    assert counts["steadyAt"] > 60
    assert not counts["pending"]["byWorkload"]


@pytest.mark.parametrize(
    ("namespace", "outcomes"),
    [("default", {"preempts": 1, "fits": 1}), ("other", {"preempts": 1, "rejected": 1})],
)
def test_victims_of_the_same_namespace_free_quota(namespace: str, outcomes: dict[str, int], tmp_path: Path) -> None:
    old = make_pod("old", namespace).request(cpu="4").priority(-1).on("n1")
    cluster = write(tmp_path / "cluster.json", [NODES[0].obj, old.obj, *LISTED])
    new = write(tmp_path / "new.json", [quota(pods="2" if namespace == "default" else "1").obj, deployment(2).obj])
    document = predicted("-f", new, "--cluster", cluster)
    assert document["outcomes"] == outcomes
    assert ("why" in document) is (namespace == "other")


def test_a_note_names_the_quota_that_victims_of_several_objects_free(tmp_path: Path) -> None:
    second = deployment(2)
    second.obj["metadata"]["name"] = "second"
    old = make_pod("old").request(cpu="4").priority(-1).on("n1")
    cluster = write(tmp_path / "cluster.json", [NODES[0].obj, old.obj, *LISTED])
    new = write(tmp_path / "new.json", [quota(pods="3").obj, deployment(1).obj, second.obj])
    document = predicted("-f", new, "--cluster", cluster)
    assert (document["outcomes"]["rejected"], FREED in document["warnings"]) == (1, True)


@pytest.mark.parametrize(
    ("service", "first"),
    [
        ("db", "PENDING  StatefulSet default/new: 2 of 3 new Pods run, 1 stays Pending\n"),
        ("other", "REJECTED  2 objects: 1 object rejected, the new Pod runs on n1\n"),
    ],
)
def test_a_stateful_set_twice_is_updated(service: str, first: str, tmp_path: Path) -> None:
    sets = [deployment(replicas).obj | {"kind": "StatefulSet"} for replicas in (1, 3)]
    for each, name in zip(sets, ("db", service), strict=True):
        each["spec"]["serviceName"] = name
    cluster = write(tmp_path / "cluster.json", [make_node("n1").obj, *LISTED])
    new = write(tmp_path / "new.json", sets)
    assert forewarn("predict", "-f", new, "--cluster", cluster).stdout.startswith(first)


def test_pods_with_a_generated_name_are_several(tmp_path: Path) -> None:
    pods = [make_pod("new").metadata(name=None, generateName="new-").obj for _ in range(2)]
    cluster = write(tmp_path / "cluster.json", [make_node("n1").obj, *LISTED])
    first = forewarn("predict", "-f", write(tmp_path / "new.json", pods), "--cluster", cluster).stdout
    assert first.startswith("OK  2 objects: 2 of 2 new Pods run\n")


def test_a_pod_that_fits_after_the_victims_terminate_does_not_stay_pending(tmp_path: Path) -> None:
    """The preemptor of a priority that the second Pod does not have leaves a part of its victim's capacity."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    old = make_pod("old").request(cpu="4").priority(0).on("n1")
    cluster = write(tmp_path / "cluster.json", [NODES[0].obj, old.obj, high, *LISTED])
    first = make_pod("first").request(cpu="1").obj
    first["spec"] |= {"priorityClassName": "high", "priority": 9}
    pods = [first, *(make_pod(name).request(cpu=cpu).obj for name, cpu in (("fits", "3"), ("pending", "1")))]
    given = ("-f", write(tmp_path / "new.json", pods), "--cluster", cluster)
    document = predicted(*given)
    assert document["outcomes"] == {"preempts": 1, "waits": 1, "pending": 1}
    assert "fits only after the victims of other Pods have terminated" in document["pods"][1]["standing"]
    applied = forewarn("whatif", "apply", *given).stdout
    assert applied.startswith("HARM  3 objects applied: 2 of 3 new Pods run, ")
    assert " | Pending 1 | " in applied.splitlines()[1]


def test_a_pod_that_no_node_can_run_makes_no_preemption_uncertain(tmp_path: Path) -> None:
    sizes = {"n1": "2", "n2": "3"}  # unequal nodes that tie
    nodes = [make_node(name).has(cpu=cpu, pods="9").obj for name, cpu in sizes.items()]
    old = [make_pod(f"old-{name}").request(cpu=cpu).priority(-1).on(name).obj for name, cpu in sizes.items()]
    cluster = write(tmp_path / "cluster.json", [*nodes, *old, *LISTED])
    huge = make_pod("huge").request(cpu="5").obj
    document = predicted("-f", write(tmp_path / "new.json", [deployment(2).obj, huge]), "--cluster", cluster)
    assert (document["counters"]["victims"], document["counters"]["pending"]) == (2, 1)
    assert "at least" not in str(document["warnings"])
    assert document["why"]["causes"][0]["reason"].startswith("requests 5 cpu, more than any node has (3). Fix: ")
