"""The kinds that cluster state is made of, and where an API server has them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Resource(NamedTuple):
    """A kind in one version: `apiVersion`, kind, and the plural of its path."""

    api_version: str
    kind: str
    plural: str

    @property
    def path(self) -> str:
        """Where all of them are listed."""
        return f"/{'apis' if '/' in self.api_version else 'api'}/{self.api_version}/{self.plural}"

    @property
    def group(self) -> str:
        """The API group, empty for the core."""
        return self.api_version.rpartition("/")[0]

    @property
    def group_kind(self) -> str:
        """`group/Kind`, as `policies.cluster.Cache` names it."""
        return f"{self.group}/{self.kind}"

    @property
    def name(self) -> str:
        """As RBAC and kubectl write it: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


RESOURCES: Final = (
    Resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"),
    Resource("v1", "Namespace", "namespaces"),
    Resource("v1", "ResourceQuota", "resourcequotas"),
    Resource("v1", "LimitRange", "limitranges"),
    Resource("v1", "Node", "nodes"),
    Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    Resource("storage.k8s.io/v1", "StorageClass", "storageclasses"),
    Resource("storage.k8s.io/v1", "CSIDriver", "csidrivers"),
    Resource("storage.k8s.io/v1", "CSINode", "csinodes"),
    Resource("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities"),
    Resource("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments"),
    Resource("v1", "PersistentVolume", "persistentvolumes"),
    Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    Resource("v1", "Service", "services"),
    Resource("v1", "ReplicationController", "replicationcontrollers"),
    Resource("v1", "PodTemplate", "podtemplates"),
    Resource("apps/v1", "Deployment", "deployments"),
    Resource("apps/v1", "ReplicaSet", "replicasets"),
    Resource("apps/v1", "StatefulSet", "statefulsets"),
    Resource("apps/v1", "DaemonSet", "daemonsets"),
    Resource("batch/v1", "Job", "jobs"),
    Resource("batch/v1", "CronJob", "cronjobs"),
    Resource("v1", "Pod", "pods"),
)
"""Everything that `Cache.add` takes. Pods last: what they refer to is there before them."""
PRIORITY_CLASSES: Final = RESOURCES[0]
