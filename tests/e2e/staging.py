"""Puts the cluster of a test case on the API server, playing kubelet and controllers, and takes it away again."""

from __future__ import annotations

import copy
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from tests.e2e.api import Refused, identity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from forewarn.policies.kubernetes.releases.semantics import Semantics
    from tests.e2e.api import Api, Obj

NAMESPACES: Final = ("default", "prod", "dev")
FOREVER: Final = 3600
"""Seconds of grace: no pod ends by itself, so victims can be looked at."""
SYSTEM_CLASSES: Final = {2_000_000_000: "system-cluster-critical", 2_000_001_000: "system-node-critical"}
BEFORE_PODS: Final = {
    "csiNodes": "CSINode",
    "csiDrivers": "CSIDriver",
    "csiStorageCapacities": "CSIStorageCapacity",
    "storageClasses": "StorageClass",
    "volumeAttachments": "VolumeAttachment",
    "services": "Service",
    "replicationControllers": "ReplicationController",
    "replicaSets": "ReplicaSet",
    "statefulSets": "StatefulSet",
    "pdbs": "PodDisruptionBudget",
}
"""Lists of a case whose objects are created as they are, with their status."""
DUMPED: Final = (
    "PriorityClass",
    "Namespace",
    "Node",
    "Pod",
    "PodDisruptionBudget",
    "ResourceQuota",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
)
"""What a prediction reads."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_BOUND: Final = "pv.kubernetes.io/bind-completed"
CLEARED: Final = tuple(kind for kind in reversed(DUMPED) if kind not in ("PriorityClass", "Namespace", "Service"))


class Stage:
    """One cluster at a time on a control plane. `semantics`: what its scheduler decides by."""

    def __init__(self, api: Api, semantics: Semantics) -> None:
        self.api, self.semantics = api, semantics
        self._pool = ThreadPoolExecutor(6, thread_name_prefix="stage")
        self._known: set[str] = set()

    def put(self, case: Obj) -> None:
        """Make the API server hold the cluster of a case, all but its incoming pod. Raises Refused."""
        self._prepare(case)
        claims = case.get("pvcs", ())
        self._each(self._namespace, case["namespaces"])
        self._each(self.node, case["nodes"])
        for field, kind in BEFORE_PODS.items():
            self._each(self._plain, [typed(obj, kind) for obj in case.get(field, ())])
        bound = [pod for pod in case["pods"] if pod["spec"].get("nodeName")]
        uids = dict(self._each(self._bound, bound))
        uids |= dict(self._each(lambda claim: self._claim(claim, uids), claims))
        self._each(lambda volume: self._volume(volume, uids), case.get("pvs", ()))
        for claim in claims:
            if "deletionTimestamp" in claim["metadata"]:
                self.api.delete(claim)
        waiting = [pod for pod in case["pods"] if not pod["spec"].get("nodeName")]
        for pod in waiting:
            self.create(self.incoming(pod))
        for pod in waiting:
            self.decided(pod)

    def node(self, node: Obj) -> Obj:
        """A Node, less the not-ready taint that the API server gives to new ones."""
        made = self.api.create(typed(node, "Node"))
        made["spec"] = node.get("spec", {})
        return self.api.replace(made)

    def incoming(self, pod: Obj) -> Obj:
        """A pod of a case as a person would write it: the class instead of its number, and nothing that is status."""
        written = typed(copy.deepcopy(pod), "Pod")
        written.pop("status", None)
        metadata, spec = written["metadata"], written["spec"]
        for field in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(field, None)
        self._class(spec, spec.pop("priority", 0), spec.pop("preemptionPolicy", "PreemptLowerPriority"))
        self._runtime_class(spec)
        spec["terminationGracePeriodSeconds"] = FOREVER
        _unmerge_label_keys(spec)
        return written

    def create(self, pod: Obj, patience: float = 5, **query: str) -> Obj:
        """Create a pod; the API server may learn a moment late that its class was made."""
        deadline = time.monotonic() + patience
        while True:
            try:
                return self.api.create(pod, **query)
            except Refused as rejected:
                if "no PriorityClass with name" not in rejected.message or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def decided(self, pod: Obj, patience: float = 20) -> Obj:
        """The pod after kube-scheduler has bound it or given it up for now."""
        deadline = time.monotonic() + patience
        name, namespace = pod["metadata"]["name"], pod["metadata"].get("namespace", "default")
        while time.monotonic() < deadline:
            found = self.api.get("Pod", name, namespace)
            conditions = found["status"].get("conditions", ())
            if found["spec"].get("nodeName") or any(c["type"] == "PodScheduled" for c in conditions):
                return found
            if (
                "nominatedNodeName" in found["status"]
            ):  # chosen; only its volumes have to be bound, which nobody does here
                found["spec"]["nodeName"] = found["status"]["nominatedNodeName"]
                return found
            if not self.semantics.expected_bindings_are_announced:
                self._bind_volumes(found)
            time.sleep(0.02)
        raise AssertionError(f"kube-scheduler has not looked at {namespace}/{name} for {patience} s")

    def dump(self, *, typed_lists: Iterable[str] = DUMPED) -> list[Obj]:
        """All objects that a prediction reads, as they are stored."""
        return [obj for found in self._pool.map(self.api.list, typed_lists) for obj in found]

    def clear(self) -> None:
        """Take the cluster away; priority classes and namespaces stay."""
        for kind in CLEARED:
            for namespace in NAMESPACES if kind in ("Pod", "PersistentVolumeClaim") else ("",):
                self._clear_kind(kind, namespace)
        for service in self.api.list("Service"):
            if service["metadata"]["namespace"] in NAMESPACES and service["metadata"]["name"] != "kubernetes":
                self.api.delete(service)

    def _clear_kind(self, kind: str, namespace: str) -> None:
        if kind in ("PodDisruptionBudget", "ResourceQuota", "ReplicationController", "ReplicaSet", "StatefulSet"):
            for each in NAMESPACES:
                self.api.delete_all(kind, each)
            return
        if kind == "CSIStorageCapacity":
            self.api.delete_all(kind, "default")
            return
        if kind == "PersistentVolumeClaim":
            for claim in self.api.list(kind, namespace):
                if claim["metadata"].get("finalizers"):
                    self.api.patch(claim, {"metadata": {"finalizers": None}})
        self.api.delete_all(kind, namespace)

    def close(self) -> None:
        """End its threads and connections."""
        self._pool.shutdown()
        self.api.close()

    def _prepare(self, case: Obj) -> None:
        """Classes for the priorities, before pods are created at the same time."""
        for pod in (*case["pods"], *([case["pod"]] if "pod" in case else [])):
            self.incoming(pod)

    def _namespace(self, namespace: Obj) -> None:
        name = namespace["metadata"]["name"]
        labels = {"team": None, "env": None, **namespace["metadata"].get("labels", {})}
        try:
            self.api.patch(identity("Namespace", name), {"metadata": {"labels": labels}})
        except Refused as rejected:
            if rejected.code != 404:
                raise
            self.api.create({**identity("Namespace", name), **namespace})

    def _plain(self, obj: Obj) -> None:
        """An object with its status, which creation ignores."""
        made = self.api.create(obj)
        if obj.get("status") and obj["kind"] != "VolumeAttachment":
            made["status"] = obj["status"]
            if obj["kind"] == "PodDisruptionBudget":
                made["status"]["observedGeneration"] = made["metadata"]["generation"]
            self.api.replace(made, "status")

    def _bound(self, pod: Obj) -> tuple[str, str]:
        """A pod on its node, with the status that its kubelet would write; returns (uid in the case, real uid)."""
        made = self.create(self.incoming(pod))
        made["status"] = {**made["status"], **pod.get("status", {})}
        made["status"]["conditions"] = _conditions(pod)
        self.api.replace(made, "status")
        if "deletionTimestamp" in pod["metadata"]:
            self.api.delete(made, gracePeriodSeconds=str(FOREVER))
        return pod["metadata"].get("uid", ""), made["metadata"]["uid"]

    def _claim(self, claim: Obj, uids: dict[str, str]) -> tuple[str, str]:
        made = self.api.create(_with_uids(typed(claim, "PersistentVolumeClaim"), uids))
        if claim.get("status"):
            made["status"] = claim["status"]
            self.api.replace(made, "status")
        return claim["metadata"].get("uid", ""), made["metadata"]["uid"]

    def _volume(self, volume: Obj, uids: dict[str, str]) -> None:
        made = self.api.create(_with_uids(typed(volume, "PersistentVolume"), uids))
        if volume.get("status"):
            made["status"] = volume["status"]
            self.api.replace(made, "status")

    def _bind_volumes(self, pod: Obj) -> None:
        """Play the volume controller for a pod for which the scheduler has chosen volumes, or a node to make them on.

        For releases in which the node cannot be seen before the volumes are bound.
        """
        namespace = pod["metadata"]["namespace"]
        named = [
            v["persistentVolumeClaim"]["claimName"]
            for v in pod["spec"].get("volumes", ())
            if "persistentVolumeClaim" in v
        ]
        claims = [c for c in self.api.list("PersistentVolumeClaim", namespace) if c["metadata"]["name"] in named]
        for claim in claims:
            annotations = claim["metadata"].get("annotations", {})
            if claim["spec"].get("volumeName"):
                continue
            volume = self._chosen(claim)
            if volume is None and SELECTED_NODE in annotations:
                volume = self.api.create(self._provisioned(claim))
            if volume is not None:
                bound = {
                    "metadata": {"annotations": {_BOUND: "yes"}},
                    "spec": {"volumeName": volume["metadata"]["name"]},
                }
                self.api.patch(claim, bound)
                self.api.patch(claim, {"status": {"phase": "Bound"}}, "status")

    def _chosen(self, claim: Obj) -> Obj | None:
        """The volume that is reserved for a claim."""
        for volume in self.api.list("PersistentVolume"):
            if volume["spec"].get("claimRef", {}).get("uid") == claim["metadata"]["uid"]:
                return volume
        return None

    def _provisioned(self, claim: Obj) -> Obj:
        """A volume as the driver of a claim's class would make it, for any node."""
        metadata, spec = claim["metadata"], claim["spec"]
        storage = self.api.get("StorageClass", spec["storageClassName"])
        return {
            **identity("PersistentVolume", f"made-{metadata['uid']}"),
            "spec": {
                "capacity": spec["resources"]["requests"],
                "accessModes": spec["accessModes"],
                "storageClassName": spec["storageClassName"],
                "csi": {"driver": storage["provisioner"], "volumeHandle": metadata["uid"]},
                "claimRef": {
                    **{key: metadata[key] for key in ("name", "namespace", "uid")},
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                },
            },
        }

    def _class(self, spec: Obj, priority: int, policy: str) -> None:
        """Name the class of a priority; there is none for 0 with the default policy."""
        if priority == 0 and policy == "PreemptLowerPriority":
            return
        name = SYSTEM_CLASSES.get(priority) or f"{policy.lower()}-{priority}".replace("--", "-minus-")
        spec["priorityClassName"] = name
        if name not in self._known and priority not in SYSTEM_CLASSES:
            self._once({**identity("PriorityClass", name), "value": priority, "preemptionPolicy": policy})

    def _runtime_class(self, spec: Obj) -> None:
        """A RuntimeClass for each overhead: the API server takes the overhead from there."""
        overhead = spec.pop("overhead", None)
        spec.pop("runtimeClassName", None)
        if overhead:
            name = f"sandbox-{crc32(json.dumps(overhead, sort_keys=True).encode()):08x}"
            spec["runtimeClassName"] = name
            self._once({**identity("RuntimeClass", name), "handler": "sandbox", "overhead": {"podFixed": overhead}})

    def _once(self, obj: Obj) -> None:
        name = obj["metadata"]["name"]
        if name not in self._known:
            self._known.add(name)
            try:
                self.api.create(obj)
            except Refused as rejected:
                if rejected.code != 409:
                    raise

    def _each(self, work: Any, objects: Iterable[Obj]) -> list[Any]:
        return [*self._pool.map(work, objects)]


def typed(obj: Obj, kind: str) -> Obj:
    """The object, saying what it is, without what the API server assigns."""
    metadata = {k: v for k, v in obj["metadata"].items() if k not in ("uid", "resourceVersion", "deletionTimestamp")}
    return {**identity(kind, ""), **obj, "metadata": metadata}


def _conditions(pod: Obj) -> list[Obj]:
    given = {c["type"]: c for c in pod.get("status", {}).get("conditions", ())}
    return [*({"PodScheduled": {"type": "PodScheduled", "status": "True"}} | given).values()]


def _with_uids(obj: Obj, uids: dict[str, str]) -> Obj:
    """The object with the uids that the API server gave in place of those of the case."""
    text = json.dumps(obj)
    for written, real in uids.items():
        if written:
            text = text.replace(f'"{written}"', f'"{real}"')
    found: Obj = json.loads(text)
    return found


def _unmerge_label_keys(spec: Obj) -> None:
    """Take out of selectors what the API server copies into them when it stores a pod with matchLabelKeys."""
    affinities = [spec.get("affinity", {}).get(kind, {}) for kind in ("podAffinity", "podAntiAffinity")]
    terms = [term for affinity in affinities for rules in affinity.values() for term in rules]
    terms = [term.get("podAffinityTerm", term) for term in terms] + spec.get("topologySpreadConstraints", [])
    for term in terms:
        keys = {*term.get("matchLabelKeys", ()), *term.get("mismatchLabelKeys", ())}
        selector = term.get("labelSelector", {})
        if keys and "matchExpressions" in selector:
            selector["matchExpressions"] = [e for e in selector["matchExpressions"] if e["key"] not in keys]
