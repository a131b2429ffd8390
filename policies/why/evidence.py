"""The records that explain the termination of a Pod or of a workload's Pods, collected while the cluster is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from forewarn.policies.kinds.registry import CRON_JOB, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET
from forewarn.policies.objects.fields import NOTHING, at, group_kind
from forewarn.policies.why.events import Events
from forewarn.policies.why.records import (
    JobRecord,
    NodeRecord,
    PodRecord,
    controller,
    heartbeat_of,
    job_record,
    node_record,
    pod_record,
    seconds,
)

if TYPE_CHECKING:
    from forewarn.policies.objects.fields import ApiObject

_OWNERS: Final = {DEPLOYMENT: "ReplicaSet", CRON_JOB: "Job"}
"""Workload kinds with Pods that belong to another workload in between."""


class Evidence:
    """The records of one Pod, or of the Pods of a workload (`kind`: `group/Kind`), and of related objects."""

    def __init__(self, namespace: str, name: str, kind: str = POD) -> None:
        self.namespace, self.name, self.kind = namespace, name, kind
        self.events = Events(namespace, name, of_workload=kind != POD)
        self.not_read = ""
        """Why Events could not be read."""
        self.is_live = False
        self.pod: ApiObject = NOTHING
        """The Pod as it was read."""
        self.workload: ApiObject = NOTHING
        self.pods: dict[str, PodRecord] = {}
        self.nodes: dict[str, NodeRecord] = {}
        self.jobs: dict[str, JobRecord] = {}
        self.ending: dict[str, PodRecord] = {}
        """The deleted Pods of all namespaces that still exist, by `namespace/name`."""
        self.latest = 0.0
        """The latest time in the objects; the state was read after it."""
        self._owned: dict[str, tuple[str, str]] = {}
        """ReplicaSet or Job -> kind and name of its controller."""

    def collect(self, obj: ApiObject) -> bool | None:
        """Add an object of the cluster. Returns None, or False for an Event (see `Cache`)."""
        self.latest = max(self.latest, seconds(at(obj, "metadata", "creationTimestamp")))
        if self.events.add(obj):
            return False
        kind = group_kind(obj)
        name = at(obj, "metadata", "name")
        if kind == POD and at(obj, "metadata", "deletionTimestamp"):
            record = pod_record(obj)
            self.ending[record.key] = record
        if kind == NODE:
            self.nodes[str(name)] = node_record(obj)
            self.latest = max(self.latest, heartbeat_of(obj))
        elif isinstance(name, str) and (at(obj, "metadata", "namespace") or "default") == self.namespace:
            self._add(obj, kind, name)
        return None

    def _add(self, obj: ApiObject, kind: str, name: str) -> None:
        is_itself = (kind, name) == (self.kind, self.name)
        if kind == POD:
            if is_itself or (self.kind != POD and self._may_own(controller(obj)[1])):
                self.pods[name] = pod_record(obj)
                self.pod = obj if is_itself else self.pod
            return
        if is_itself:
            self.workload = obj
        if kind in (REPLICA_SET, JOB) and (self._may_own(name) or self.name.startswith(f"{name}-")):
            self._owned[name] = controller(obj)
            if kind == JOB:
                self.jobs[name] = job_record(obj)

    def _may_own(self, name: str) -> bool:
        return name == self.name or name.startswith(f"{self.name}-")

    def owns(self, pod: str) -> bool:
        """Report whether the Pod with this name belongs to the workload.

        If the Pod no longer exists, its name decides.
        """
        record = self.pods.get(pod)
        owner = record.owner[1] if record is not None else pod.rpartition("-")[0]
        between = _OWNERS.get(self.kind)
        if between is None:
            own = self.kind.rpartition("/")[2]
            return owner == self.name and (record is None or record.owner[0] == own)
        above = self._owned.get(owner)
        return above == (self.kind.rpartition("/")[2], self.name) if above else owner.rpartition("-")[0] == self.name

    def event_names(self) -> list[str]:
        """Return the names of objects whose Events may explain the Pod; for a Pod that has terminated, also of possible
        owners.

        For a workload: [""], which means all names.
        """
        if self.kind != POD:
            return [""]
        record = self.pods.get(self.name)
        if record is not None and not record.has_terminated:
            return [self.name]
        owner = self.name.rpartition("-")[0]
        return [name for name in (self.name, owner, owner.rpartition("-")[0]) if name]

    def node(self) -> str:
        """Return the node of a Pod that has terminated, from its spec or its Events; "" if unknown, or for other
        Pods.
        """
        record = self.pods.get(self.name)
        if self.kind != POD or (record is not None and not record.has_terminated):
            return ""
        return record.node if record is not None else self.events.node_of(self.name)

    def forget(self) -> None:
        """Remove the records of Pods that do not belong to the workload."""
        self.pods = {name: pod for name, pod in self.pods.items() if self.kind == POD or self.owns(name)}

    def missing(self) -> list[str]:
        """Return sentences about inputs that are missing for an answer, with the command to get them."""
        sentences = []
        if self.not_read:
            sentences.append(f"Events not read: {self.not_read}")
        elif not self.events.read and not self.is_live:
            sentences.append(
                "no Events in the cluster snapshot. Fix: add --cluster FILE with `kubectl get events -A -o json`"
            )
        if self.events.limit:
            sentences.append(
                f"only the latest {self.events.limit} Events about Pods, and about their owners and nodes, count"
            )
        if not self.is_live and not all(pod.has_statuses for pod in self.pods.values()):
            which = f"-n {self.namespace} -o json"
            sentences.append(
                f"no statuses of Pods and containers. Fix: add --cluster FILE with `kubectl get pods {which}`"
            )
        return sentences
