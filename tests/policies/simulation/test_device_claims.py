"""Device claims (DRA) in a simulation: allocated to new Pods, released with old ones, and what is not predicted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from forewarn.policies.cli.main import main
from tests.builders import make_node, make_pod, make_priority_class

if TYPE_CHECKING:
    from pathlib import Path

Obj = dict[str, Any]
DRIVER = "gpu.example"
NO_PODS = {"apiVersion": "v1", "kind": "PodList", "items": []}


def named(kind: str, name: str, namespace: str | None = "default", uid: str = "", **rest: Any) -> Obj:
    metadata = {"name": name, "uid": uid or name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, **rest}


def request(**more: Any) -> Obj:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", **more}}]}}


def slices(node: str, devices: int) -> Obj:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    made = [{"name": f"d{number}"} for number in range(devices)]
    return named("ResourceSlice", node, None, spec={"driver": DRIVER, "nodeName": node, "pool": pool, "devices": made})


def cluster(*objects: Obj, **devices: int) -> list[Obj]:
    """Nodes of 4 cpu with devices, a DeviceClass, and the template `one` of claims for one device."""
    template = named("ResourceClaimTemplate", "one", spec={"spec": request()})
    nodes = [make_node(name).label("kubernetes.io/hostname", name).obj for name in devices]
    return [
        *nodes,
        *map(slices, devices, devices.values()),
        named("DeviceClass", "gpu", None, spec={}),
        template,
        *objects,
    ]


def workload(replicas: int, *, cpu: str = "1", **claim: str) -> Obj:
    claims = [{"name": "gpu", **(claim or {"resourceClaimTemplateName": "one"})}]
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"resourceClaims": claims, "containers": containers},
            },
            "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        },
    }


def allocated(name: str, node: str, *users: str, owner: str = "", device: str = "d0") -> Obj:
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": device}]
    only = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}
    status = {
        "allocation": {"devices": {"results": results}, "nodeSelector": only},
        "reservedFor": [{"resource": "pods", "name": user, "uid": user} for user in users],
    }
    claim = named("ResourceClaim", name, spec=request(), status=status)
    if owner:
        owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": True}]
        claim["metadata"]["ownerReferences"] = owners
    return claim


def running(name: str, node: str, **claim: str) -> list[Obj]:
    """A Pod of the Deployment `web` on a node, with its device; without `claim`, a claim from the template `one`."""
    pod = make_pod(name).request(cpu="1").labels(app="web").on(node).metadata(uid=name)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "web-1", "controller": True}
    pod.metadata(ownerReferences=[owner])
    pod.spec(resourceClaims=[{"name": "gpu", **(claim or {"resourceClaimTemplateName": "one"})}])
    if claim:
        return [pod.obj]
    pod.status(resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": f"{name}-gpu"}])
    return [pod.obj, allocated(f"{name}-gpu", node, name, owner=name)]


def listed(path: Path, *objects: Obj) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*objects]}))
    return str(path)


def simulated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, state: list[Obj], what: list[str], *given: Obj
) -> Any:
    """The answer of `forewarn whatif`: running Pods and reasons of Pending Pods by workload."""
    files = ["-f", listed(tmp_path / "given.json", *given)] if given else []
    place = listed(tmp_path / "cluster.json", *state, NO_PODS)
    assert main(["whatif", *what, *files, "--cluster", place, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def pods(answer: Any) -> tuple[int, int, str]:
    """The numbers of running and Pending Pods at the end, and the reasons of Pending Pods."""
    pending = [each for each in answer["workloads"] if each["pending"]["after"]]
    reasons = sorted(each["message"] for each in pending)
    return answer["running"]["after"], sum(each["pending"]["after"] for each in pending), " ".join(reasons)


@pytest.mark.parametrize(
    ("state", "what", "given", "runs", "pending", "reason"),
    [
        (cluster(n1=1, n2=1), ["apply"], [workload(3)], 2, 1, "2 cannot allocate all claims"),
        (
            cluster(n1=1, n2=1),
            ["apply"],
            [named("ResourceClaim", "shared", spec=request()), workload(5, resourceClaimName="shared", cpu="2")],
            2,
            3,
            "1 Insufficient cpu",
        ),
        (cluster(n1=1), ["apply"], [workload(1, resourceClaimName="none")], 0, 1, 'find ResourceClaim "default/none"'),
        (
            cluster(n1=1),
            ["apply"],
            [workload(1, resourceClaimTemplateName="none")],
            0,
            1,
            "resource claim not created yet",
        ),
        (cluster(workload(1), *running("web-a", "n1"), n1=1, n2=1), ["lose", "node", "n1"], [], 1, 0, ""),
        (
            cluster(workload(1), *running("web-a", "n1"), n1=1, n2=0),
            ["lose", "node", "n1"],
            [],
            0,
            1,
            "cannot allocate",
        ),
        (cluster(workload(1), *running("web-a", "n1"), n1=1, n2=1), ["drain", "n1"], [], 1, 0, ""),
        (
            cluster(workload(2), *running("web-a", "n1"), *running("web-b", "n2"), n1=1, n2=1),
            ["restart", "deployment/web"],
            [],
            2,
            0,
            "",
        ),
        (
            cluster(workload(1), *running("web-a", "n1"), n1=1, n2=1),
            ["scale", "deployment/web", "3"],
            [],
            2,
            1,
            "2 cannot allocate all claims",
        ),
        (
            cluster(
                workload(2, resourceClaimName="shared"),
                *running("web-a", "n1", resourceClaimName="shared"),
                *running("web-b", "n1", resourceClaimName="shared"),
                allocated("shared", "n1", "web-a", "web-b"),
                n1=1,
                n2=1,
            ),
            ["lose", "node", "n1"],
            [],
            2,
            0,
            "",
        ),
        (
            cluster(allocated("idle", "n1"), n1=1, n2=1),
            ["apply"],
            [make_pod("p").request(cpu="9").spec(resourceClaims=[{"name": "g", "resourceClaimName": "idle"}]).obj],
            0,
            1,
            "Insufficient cpu",
        ),
        (
            cluster(make_pod("full").request(cpu="4").on("n1").obj, allocated("idle", "n1"), n1=1, n2=1),
            ["apply"],
            [make_pod("p").request(cpu="1").spec(resourceClaims=[{"name": "g", "resourceClaimName": "idle"}]).obj],
            2,
            0,
            "",
        ),
    ],
)
def test_devices_are_allocated_and_released(
    state: list[Obj],
    what: list[str],
    given: list[Obj],
    runs: int,
    pending: int,
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = pods(simulated(capsys, tmp_path, state, what, *given))
    assert (found[:2], reason in found[2]) == ((runs, pending), True), found


def test_victims_release_their_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Preemption does not free devices in the preemptor's cycle; the next attempt uses those of the victims."""
    low = running("web-a", "n1")
    low[0]["spec"]["priority"] = 0
    low[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    high = make_pod("high").of_class(100).request(cpu="3").obj
    more = make_pod("more").priority(10).request(cpu="1")
    more.spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])
    state = cluster(make_priority_class(100).obj, workload(0), *low, more.obj, n1=1)
    answer = simulated(capsys, tmp_path, state, ["apply"], high)
    assert [each["victim"]["pod"] for each in answer["preempted"]] == ["default/web-a"]
    assert pods(answer)[0] == 2


def test_claims_that_are_not_modelled_are_not_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A new Pod is not predicted (exit 3). Pods that were Pending before are named, and ignored."""
    odd = named("ResourceClaimTemplate", "odd", spec={"spec": request(selectors=[{"cel": {"expression": "f(x)"}}])})
    state = listed(tmp_path / "cluster.json", *cluster(odd, NO_PODS, n1=1))
    asks = listed(tmp_path / "odd.json", workload(1, resourceClaimTemplateName="odd"))
    assert main(["whatif", "apply", "-f", asks, "--cluster", state]) == 3
    assert "not predicted: Pod default/web-" in (err := capsys.readouterr().err)
    assert "the Pod claims devices (DRA): " in err
    waiting = make_pod("waiting").spec(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "odd"}])
    found = simulated(capsys, tmp_path, cluster(odd, waiting.obj, n1=1), ["apply"], workload(1))
    assert pods(found)[:2] == (1, 1)
    assert [note for note in found["notes"] if note.startswith("1 Pending Pod ignored: the Pod claims devices (DRA): ")]
