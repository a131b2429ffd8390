"""A small random cluster that lives: controllers, kubelets that keep to grace periods, and what comes of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.e2e.api import identity
from tests.e2e.graceful_kubelet import GracefulKubelets, of_cron_job, workload_of
from tests.e2e.installation import NAMESPACE as OWN
from tests.e2e.objects import container, node, priority_class
from tests.e2e.truth import wait_until

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from tests.e2e.api import Api, Obj
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.staging import Stage
    from tests.e2e.webhook import Webhook

A_CLUSTER: Final = 3
"""Changes that one cluster lives through."""
MAX_BACK_OFF: Final = 330
"""Seconds without an event after which a Job lacks Pods for good."""
RUNS: Final = 24
"""Of a simulation, for ties and races."""
NAMESPACE: Final = "default"
CLASSES: Final = {"": 0, "mid": 100, "high": 1000, "low": -100, "gentle": 100000}
"""Values; Pods of the last one never preempt."""
CONTROLLERS: Final = (
    "deployment",
    "replicaset",
    "statefulset",
    "disruption",
    "daemonset",
    "horizontal-pod-autoscaler",
    "job",
    "cronjob",
    "resourceclaim",
    "persistentvolume-binder",
    "garbage-collector",
    "pod-garbage-collector",
    "resourcequota",
)
ZONE: Final = "topology.kubernetes.io/zone"
ZONES: Final = ("a", "b")
ZONAL: Final = "zonal"
"""The storage class of volumes that are there beforehand, each for one zone; bound when a Pod is scheduled."""
DEVICES: Final = "devices.example.com"
"""The DeviceClass, and the driver of the devices that nodes have."""
KINDS: Final = ("Deployment", "Deployment", "StatefulSet", "StatefulSet with claims", "DaemonSet", "Job")
"""What is made in clusters of every kind."""
WORKLOADS: Final = ("Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job")


class Living(NamedTuple):
    """A control plane with controllers, kubelets, one replica of forewarn, and a client that may do everything."""

    plane: ControlPlane
    webhook: Webhook
    api: Api
    stage: Stage
    kubelets: GracefulKubelets


class Ending(NamedTuple):
    """What a change comes to: pods pushed out, those that stay pending, and those that a quota refuses, by workload."""

    preempted: frozenset[tuple[str, int]]
    pending: frozenset[tuple[str, int]]
    missing: frozenset[tuple[str, int]]

    @classmethod
    def of(cls, preempted: dict[str, int], pending: dict[str, int], missing: dict[str, int]) -> Ending:
        return cls(*(frozenset(counts.items()) for counts in (preempted, pending, missing)))

    @classmethod
    def told(cls, summary: Obj) -> Ending:
        """As `forewarn whatif events` sums up a run."""
        return cls.of(summary["byWorkload"], summary["pending"], summary.get("rejectedByQuota", {}))

    @classmethod
    def seen(cls, api: Api, kubelets: GracefulKubelets, rejected: Sequence[str] = ()) -> Ending:
        """What is there now, and which Pods kube-scheduler has preempted since the last reset. `rejected`: Pods that
        somebody tried to create."""
        return cls.of(Counter(kubelets.preempted.values()), pending(api), missing(api) + Counter(rejected))

    def __str__(self) -> str:
        told = (", ".join(f"{count} of {name}" for name, count in sorted(counts)) or "nobody" for counts in self)
        return "; ".join(f"{what}: {who}" for what, who in zip(("pushed out", "pending", "missing"), told, strict=True))


def made(kind: str, name: str, rng: random.Random, class_: str) -> Obj:
    """A Deployment or StatefulSet of random size and grace."""
    spec: Obj = {
        "containers": [container(rng.choice(("500m", "1", "1500m", "2")))],
        "terminationGracePeriodSeconds": rng.randint(1, 4),
        **({"priorityClassName": class_} if class_ else {}),
    }
    labels = {"app": name}
    obj: Obj = {
        **identity(kind, name, NAMESPACE),
        "spec": {
            "replicas": rng.randint(1, 4),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    if kind == "StatefulSet":
        obj["spec"] |= {"serviceName": name, "podManagementPolicy": rng.choice(("OrderedReady", "Parallel"))}
    elif rng.random() < 0.3:
        obj["spec"]["strategy"] = {"type": "Recreate"}
    return obj


def of_any_kind(name: str, rng: random.Random, class_: str, kinds: Sequence[str] = KINDS) -> Obj:
    """A workload of a random kind, size and grace."""
    kind = rng.choice(kinds)
    obj = made(kind.partition(" ")[0], name, rng, class_)
    spec, template = obj["spec"], obj["spec"]["template"]
    if rng.random() < 0.25 and kind != "DaemonSet":
        template["spec"] |= apart(template["metadata"]["labels"], rng)
    if kind == "DaemonSet":
        del spec["replicas"]
        spec.pop("strategy", None)
        template["spec"]["containers"] = [container(rng.choice(("250m", "500m", "1")))]
    elif kind in ("Job", "CronJob"):
        obj["spec"] = {"parallelism": spec["replicas"], "template": template}
        template["spec"]["restartPolicy"] = "Never"
        if kind == "CronJob":
            job = {"spec": obj["spec"]}
            obj["spec"] = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": job}
    elif kind == "StatefulSet with claims":
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": ZONAL,
            "resources": {"requests": {"storage": "1Gi"}},
        }
        spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
        spec["persistentVolumeClaimRetentionPolicy"] = {
            "whenScaled": rng.choice(("Retain", "Delete")),
            "whenDeleted": "Delete",
        }
    return obj


def apart(labels: dict[str, str], rng: random.Random) -> Obj:
    """Fields that spread the Pods of a workload over nodes or zones, or keep them on nodes of their own."""
    key, selector = rng.choice(("kubernetes.io/hostname", ZONE)), {"matchLabels": labels}
    if rng.random() < 0.3:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


def volume(name: str, zone: str) -> Obj:
    """A volume that only nodes of one zone can use."""
    only = {"key": ZONE, "operator": "In", "values": [zone]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": ZONAL,
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": f"/mnt/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}},
    }
    return {**identity("PersistentVolume", name), "spec": spec}


def devices_of(node_name: str, count: int) -> Obj:
    """The devices of a node."""
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"d{number}"} for number in range(count)]
    spec = {"driver": DEVICES, "nodeName": node_name, "pool": pool, "devices": devices}
    return {**identity("ResourceSlice", node_name), "spec": spec}


def settled(kubelets: GracefulKubelets, quiet: float) -> None:
    """Wait until nothing has happened for so many seconds, nobody is ending, and nobody is left on a node that is
    gone."""
    wait_until(
        lambda: (
            time.monotonic() - kubelets.changed > quiet
            and not kubelets.stranded
            and not any(ending for _, _, ending, _ in kubelets.shape)
        ),
        180,
        "nothing changes",
    )


def settled_with_jobs(api: Api, kubelets: GracefulKubelets, quiet: float) -> None:
    """The same; every CronJob has created a Job, and no Job waits to replace a Pod: 10 seconds the first time, then
    twice as long, 320 the last time."""
    settled(kubelets, quiet)

    def is_complete() -> bool:
        if not all("lastScheduleTime" in each.get("status", {}) for each in api.list("CronJob", NAMESPACE)):
            return False
        jobs = api.list("Job", NAMESPACE)
        return not any(job["status"].get("active", 0) < job["spec"]["parallelism"] for job in jobs)

    def is_over() -> bool:
        return is_complete() or time.monotonic() - kubelets.changed > MAX_BACK_OFF

    while not is_complete():
        wait_until(is_over, 2 * MAX_BACK_OFF, "Jobs have their Pods")
        if not is_complete():
            return  # a quota rejects them
        kubelets.changed = time.monotonic()  # they may not have seen these yet
        settled(kubelets, quiet)


def pending(api: Api) -> Counter[str]:
    """Pods without a node, by workload."""
    return Counter(workload_of(pod) for pod in api.list("Pod") if not pod["spec"].get("nodeName"))


def missing(api: Api) -> Counter[str]:
    """Pods that a workload lacks; a StatefulSet that goes in order lacks the next one, unless a Pod before it waits."""
    found: Counter[str] = Counter()
    for each in api.list("ReplicaSet", NAMESPACE):
        (owner,) = each["metadata"]["ownerReferences"]
        found[f"{NAMESPACE}/{owner['name']}"] += each["spec"]["replicas"] - each["status"]["replicas"]
    pods = {pod["metadata"]["name"]: bool(pod["spec"].get("nodeName")) for pod in api.list("Pod", NAMESPACE)}
    for each in api.list("StatefulSet", NAMESPACE):
        name, replicas = each["metadata"]["name"], each["spec"]["replicas"]
        placed = [pods.get(f"{name}-{ordinal}") for ordinal in range(replicas)]
        if each["spec"]["podManagementPolicy"] == "OrderedReady":
            before = placed[: placed.index(False)] if False in placed else placed
            found[f"{NAMESPACE}/{name}"] += None in before
        else:
            found[f"{NAMESPACE}/{name}"] += placed.count(None)
    for each in api.list("DaemonSet", NAMESPACE):
        status = each["status"]
        found[f"{NAMESPACE}/{each['metadata']['name']}"] += (
            status["desiredNumberScheduled"] - status["currentNumberScheduled"]
        )
    for each in api.list("Job", NAMESPACE):
        found[of_cron_job(f"{NAMESPACE}/{each['metadata']['name']}")] += each["spec"]["parallelism"] - each[
            "status"
        ].get("active", 0)
    return +found


def build(stage: Stage, api: Api, rng: random.Random, *, every_kind: bool = False, wide: bool = False) -> None:
    """Nodes that are nearly full of workloads of all classes. `every_kind`: DaemonSets, Jobs, and claims on volumes of
    two zones too. `wide`: twice as many nodes and workloads, some of which wait, and autoscalers."""
    for number in range(rng.randint(7, 10) if wide else rng.randint(3, 5)):
        made_node = node(f"n{number}", cpu=str(rng.choice((3, 4))))
        if every_kind:
            made_node["metadata"]["labels"][ZONE] = ZONES[number % len(ZONES)]
        stage.node(made_node)
        if every_kind and (devices := rng.randint(0, 2)):
            api.create(devices_of(f"n{number}", devices))
    if every_kind:
        for number in range(rng.randint(3, 8)):
            api.create(volume(f"v{number}", rng.choice(ZONES)))
    classes = ("", "", "mid", "mid", "low", "gentle") if wide else ("", "", "mid")
    for number in range(rng.randint(9, 12) if wide else rng.randint(4, 6) if every_kind else rng.randint(3, 5)):
        kind = "" if every_kind else rng.choice(("Deployment", "Deployment", "StatefulSet"))
        name, class_ = f"old-{number}", "" if every_kind else rng.choice(classes)
        obj = made(kind, name, rng, class_) if kind else of_any_kind(name, rng, rng.choice(classes))
        api.create(obj)
        if rng.random() < 0.3:
            budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": f"old-{number}"}}}
            api.create({**identity("PodDisruptionBudget", f"old-{number}", NAMESPACE), "spec": budget})
        if wide and obj["kind"] in ("Deployment", "StatefulSet") and rng.random() < 0.3:
            api.create(autoscaler_of(obj, rng))


def autoscaler_of(obj: Obj, rng: random.Random) -> Obj:
    """An autoscaler without metrics: it only keeps the replicas of a workload within its bounds."""
    replicas, name = obj["spec"]["replicas"], obj["metadata"]["name"]
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": obj["kind"], "name": name},
        "minReplicas": rng.randint(1, replicas),
        "maxReplicas": replicas + rng.randint(0, 2),
    }
    return {**identity("HorizontalPodAutoscaler", name, NAMESPACE), "spec": spec}


def workloads(api: Api) -> list[Obj]:
    """Those that somebody made."""
    found = [obj for kind in WORKLOADS for obj in api.list(kind, NAMESPACE)]
    return [obj for obj in found if not obj["metadata"].get("ownerReferences")]


def clear(api: Api) -> None:
    """Take the cluster away."""
    for kind in (
        "HorizontalPodAutoscaler",
        *WORKLOADS,
        "PodDisruptionBudget",
        "ResourceQuota",
        "ResourceClaimTemplate",
    ):
        api.delete_all(kind, NAMESPACE)
    wait_until(lambda: not workloads(api), 60, "workloads are gone")

    def empty() -> bool:
        api.delete_all("Pod", NAMESPACE)
        return not api.list("Pod", NAMESPACE)

    wait_until(empty, 60, "pods are gone")
    api.delete_all("PersistentVolumeClaim", NAMESPACE)
    api.delete_all("PersistentVolume")
    api.delete_all("ResourceSlice")
    for each in api.list("PriorityClass"):
        if each["metadata"]["name"].startswith("class-"):
            api.delete(each)
    wait_until(lambda: not api.list("PersistentVolume"), 60, "volumes are gone")
    api.delete_all("Node")


def keep(directory: Path, name: str, lines: list[str]) -> None:
    """The dump and the change, and what was seen, for whoever looks for a cause."""
    if os.environ.get("EVIDENCE"):
        kept = Path(os.environ["EVIDENCE"]) / name
        shutil.copytree(directory, kept, dirs_exist_ok=True)
        (kept / "seen.txt").write_text("\n".join(lines) + "\n")


def forewarn(plane: ControlPlane, *words: str) -> str:
    """What the command prints, with the control plane's kubeconfig."""
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
    command = [sys.executable, "-m", "forewarn", *words]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def simulated(plane: ControlPlane, dump: Path, *what: str) -> set[Ending]:
    """What may come of it, by `forewarn whatif events`."""
    told = forewarn(plane, "whatif", "events", "--cluster", str(dump), *what, "--runs", str(RUNS), "-o", "json")
    return {Ending.told(each["summary"]) for each in json.loads(told)["outcomes"]}


@contextmanager
def kubelets_of(plane: ControlPlane) -> Iterator[GracefulKubelets]:
    """A cluster that lives: controllers and kubelets. forewarn is a process of this machine, so it has no pods here."""
    with closing(plane.api()) as client:
        own = client.list("Deployment", OWN)
        for deployment in own:
            client.patch(deployment, {"spec": {"replicas": 0}})
        flags = ("--horizontal-pod-autoscaler-sync-period=3s",)
        plane.start_controllers(*(f"{name}-controller" for name in CONTROLLERS), flags=flags)
        running = GracefulKubelets(client)
        running.start()
        yield running
        running.stop()
        plane.processes.stop("kube-controller-manager")
        for deployment in own:
            client.patch(deployment, {"spec": {"replicas": deployment["spec"]["replicas"]}})


@contextmanager
def classes_of(api: Api) -> Iterator[None]:
    """The priority classes of such clusters, and the storage class."""
    for name, value in CLASSES.items():
        if name:
            api.create(priority_class(name, value, **({"preemptionPolicy": "Never"} if name == "gentle" else {})))
    provisioner = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    api.create({**identity("StorageClass", ZONAL), **provisioner})
    api.create({**identity("DeviceClass", DEVICES), "spec": {}})
    yield
    api.delete(identity("DeviceClass", DEVICES))
    api.delete(identity("StorageClass", ZONAL))
    for name in filter(None, CLASSES):
        api.delete(identity("PriorityClass", name))
