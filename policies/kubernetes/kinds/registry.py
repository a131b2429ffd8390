"""The registry of kinds: API group, version, view and consumers of each kind in one line.

The registry determines which kinds the webhook lists and watches, with their RBAC rules; the contents of a snapshot;
the tables and decoders of the cache; the kinds that the linter reads; and the paths of Pod templates. A new kind
needs a line here and a decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from forewarn.policies.base.findings import quote
from forewarn.policies.base.light import NamedTuple


class KindSpec(NamedTuple):
    """A kind in one version: `api_version`, `kind`, and `plural` as in its API path.

    `view`: module and class in policies.objects that decode an object (`from_api`); imported with the first object,
    so that the linter starts fast. `table`: the field of `ClusterObjects` that plugins read; add new fields in
    scheduling/node_info.py. `template`: the path of the Pod template. `is_evaluated`: rules evaluate the kind
    although it has no Pod template. `is_applied`: predictions read the kind among the objects of one apply; the webhook
    does not evaluate it.
    `verbs`: the RBAC verbs of the webhook. `optional`: the webhook works without the kind if the API server does not
    serve it or denies access.
    """

    api_version: str
    kind: str
    plural: str
    view: str
    table: str = ""
    template: tuple[str, ...] = ()
    namespaced: bool = True
    is_evaluated: bool = False
    is_applied: bool = False
    verbs: tuple[str, ...] = ("list", "watch")
    optional: bool = False

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def group_kind(self) -> str:
        """`group/Kind`: the identity of a kind, regardless of its version."""
        return f"{self.group}/{self.kind}"

    @property
    def path(self) -> str:
        return f"/{'apis' if '/' in self.api_version else 'api'}/{self.api_version}/{self.plural}"

    @property
    def name(self) -> str:
        """The name in RBAC and kubectl: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _workload(api_version: str, kind: str, plural: str, *template: str) -> KindSpec:
    return KindSpec(api_version, kind, plural, "workload:Workload", template=template or ("spec", "template"))


def _storage(kind: str, plural: str, table: str, api_version: str = "storage.k8s.io/v1") -> KindSpec:
    return KindSpec(api_version, kind, plural, f"storage:{kind}", table, namespaced=False)


JOB_TEMPLATE: Final = ("spec", "jobTemplate")
KINDS: Final = (
    KindSpec("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", "priority_class:PriorityClass",
             namespaced=False, is_evaluated=True, verbs=("get", "list", "watch")),
    KindSpec("v1", "Namespace", "namespaces", "namespace:Namespace", "namespaces", namespaced=False, is_evaluated=True),
    KindSpec("v1", "ResourceQuota", "resourcequotas", "resource_quota:ResourceQuota", is_evaluated=True),
    KindSpec("v1", "LimitRange", "limitranges", "resource_quota:LimitRange", is_applied=True),
    KindSpec("v1", "Node", "nodes", "node:Node", "nodes", namespaced=False),
    KindSpec("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", "disruption_budget:PodDisruptionBudget",
             "pdbs", is_applied=True),
    _storage("StorageClass", "storageclasses", "storage_classes")._replace(is_applied=True),
    _storage("CSIDriver", "csidrivers", "csi_drivers"),
    _storage("CSINode", "csinodes", "csi_nodes"),
    _storage("CSIStorageCapacity", "csistoragecapacities", "storage_capacities")._replace(namespaced=True),
    _storage("VolumeAttachment", "volumeattachments", "attachments"),
    _storage("PersistentVolume", "persistentvolumes", "volumes", "v1")._replace(is_applied=True),
    _storage("PersistentVolumeClaim", "persistentvolumeclaims", "claims", "v1")._replace(
        namespaced=True, is_applied=True
    ),
    KindSpec("v1", "Service", "services", "pod:Service", "services"),
    _workload("v1", "ReplicationController", "replicationcontrollers"),
    _workload("v1", "PodTemplate", "podtemplates", "template"),
    _workload("apps/v1", "Deployment", "deployments"),
    _workload("apps/v1", "ReplicaSet", "replicasets"),
    _workload("apps/v1", "StatefulSet", "statefulsets"),
    _workload("apps/v1", "DaemonSet", "daemonsets"),
    _workload("batch/v1", "Job", "jobs"),
    _workload("batch/v1", "CronJob", "cronjobs", *JOB_TEMPLATE, "spec", "template"),
    KindSpec("v1", "Pod", "pods", "pod:Pod", is_evaluated=True),
)  # fmt: skip
"""All kinds that a `Cache` stores. Pods are last, after the objects that they refer to."""


def _devices(kind: str, plural: str, table: str, *, namespaced: bool) -> KindSpec:
    spec = KindSpec("resource.k8s.io/v1", kind, plural, f"devices:{kind}", table, namespaced=namespaced, optional=True)
    return spec._replace(is_applied=True)


DEVICES: Final = (
    _devices("DeviceClass", "deviceclasses", "device_classes", namespaced=False),
    _devices("ResourceSlice", "resourceslices", "resource_slices", namespaced=False),
    _devices("ResourceClaim", "resourceclaims", "resource_claims", namespaced=True),
    _devices("ResourceClaimTemplate", "resourceclaimtemplates", "claim_templates", namespaced=True),
)
"""Optional kinds of the cache: devices (DRA). They are only useful together."""

DEVICE_TAINT_RULES: Final = _devices("DeviceTaintRule", "devicetaintrules", "device_taint_rules", namespaced=False)


def _groups(kind: str, plural: str, view: str, table: str) -> KindSpec:
    return KindSpec(
        "scheduling.k8s.io/v1beta1", kind, plural, f"pod_group:{view}", table, is_evaluated=True, optional=True
    )


SEPARATE_KINDS: Final = (
    DEVICE_TAINT_RULES,
    _groups("PodGroup", "podgroups", "PodGroup", "pod_groups"),
    _groups("Workload", "workloads", "GroupTemplates", "group_templates"),
)
"""Optional kinds of the cache, each independent of the others: Kubernetes 1.37 and later."""


def _kueue(kind: str, plural: str, *, namespaced: bool = False) -> KindSpec:
    return KindSpec("kueue.x-k8s.io/v1beta2", kind, plural, f"kueue:{kind}", namespaced=namespaced, optional=True)


KUEUE: Final = (
    _kueue("ResourceFlavor", "resourceflavors"),
    _kueue("Cohort", "cohorts"),
    _kueue("ClusterQueue", "clusterqueues"),
    _kueue("WorkloadPriorityClass", "workloadpriorityclasses"),
    _kueue("LocalQueue", "localqueues", namespaced=True),
    _kueue("Workload", "workloads", namespaced=True),
)
"""Optional kinds of the cache: Kueue. They are only useful together."""
KUEUE_CONFIGURATION: Final = "config.kueue.x-k8s.io/Configuration"
"""The configuration of Kueue's manager, which only files contain."""
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""The label of objects in a LocalQueue. Source: kueue pkg/controller/constants, `QueueLabel`."""
WORKLOAD_PRIORITY_CLASS_LABEL: Final = "kueue.x-k8s.io/priority-class"
"""The label that names a WorkloadPriorityClass. Source: the same, `WorkloadPriorityClassLabel`."""
OPTIONAL: Final = (*DEVICES, *KUEUE, *SEPARATE_KINDS)

BY_GROUP_KIND: Final[Mapping[str, KindSpec]] = {spec.group_kind: spec for spec in (*KINDS, *OPTIONAL)}
POD_TEMPLATE_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    spec.group_kind: spec.template for spec in KINDS if spec.template
}
"""`group/Kind` of each built-in workload -> the path of its Pod template."""
LINTED: Final = tuple(spec.group_kind for spec in (*KINDS, *OPTIONAL) if spec.is_evaluated or spec.is_applied)
"""Kinds of the linter without a Pod template."""

FLUX_KUSTOMIZATION: Final = "kustomize.toolkit.fluxcd.io/Kustomization"
AUTOSCALER: Final = "autoscaling/HorizontalPodAutoscaler"
SCHEDULER_CONFIGURATION: Final = "kubescheduler.config.k8s.io/KubeSchedulerConfiguration"
REMOVED_SCHEDULER_FIELDS: Final = {
    "disablePreemption": "disable DefaultPreemption at profiles[].plugins.postFilter",
    "algorithmSource": "use profiles[].plugins",
}
"""Fields of KubeSchedulerConfiguration in versions before v1beta1 -> what to do instead."""
APPLICATION: Final = "argoproj.io/Application"
APPLICATION_SET: Final = "argoproj.io/ApplicationSet"
HELM_RELEASE: Final = "helm.toolkit.fluxcd.io/HelmRelease"
SCALED_OBJECT: Final = "keda.sh/ScaledObject"
VERTICAL_AUTOSCALER: Final = "autoscaling.k8s.io/VerticalPodAutoscaler"
RESOURCE_FLAVOR, COHORT, CLUSTER_QUEUE, WORKLOAD_PRIORITY_CLASS, LOCAL_QUEUE, KUEUE_WORKLOAD = (
    spec.group_kind for spec in KUEUE
)
DEPLOYERS: Final = (APPLICATION, APPLICATION_SET, HELM_RELEASE)
"""Kinds of Argo CD and Flux, besides FLUX_KUSTOMIZATION, whose objects may name directories to deploy."""
KYVERNO_POLICIES: Final = ("kyverno.io/ClusterPolicy", "kyverno.io/Policy")
WEBHOOK_CONFIGURATIONS: Final = tuple(
    f"admissionregistration.k8s.io/{kind}WebhookConfiguration" for kind in ("Mutating", "Validating")
)
ONLY_LINTED: Final = (
    FLUX_KUSTOMIZATION,
    AUTOSCALER,
    SCALED_OBJECT,
    VERTICAL_AUTOSCALER,
    RESOURCE_FLAVOR,
    COHORT,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    SCHEDULER_CONFIGURATION,
    *KYVERNO_POLICIES,
    *WEBHOOK_CONFIGURATIONS,
)
"""Kinds of files that only rules of the linter read."""

DEFAULT_NAMESPACE: Final = "default"
"""The namespace of objects of namespaced kinds that do not set it."""
RELEASE_NAMESPACE: Final = "release-namespace"
"""The namespace of a Helm release that is rendered without a namespace: the actual one is unknown."""
SYSTEM_NAMESPACES: Final = (DEFAULT_NAMESPACE, "kube-system", "kube-public", "kube-node-lease")
"""The namespaces that kube-apiserver creates."""
PRIORITY_CLASS: Final = "scheduling.k8s.io/PriorityClass"
NAMESPACE: Final = "/Namespace"
RESOURCE_QUOTA: Final = "/ResourceQuota"
LIMIT_RANGE: Final = "/LimitRange"
NODE: Final = "/Node"
POD: Final = "/Pod"
SERVICE: Final = "/Service"
POD_GROUP: Final = "scheduling.k8s.io/PodGroup"
GROUP_TEMPLATES: Final = "scheduling.k8s.io/Workload"
DISRUPTION_BUDGET: Final = "policy/PodDisruptionBudget"
CLAIM: Final = "/PersistentVolumeClaim"
VOLUME: Final = "/PersistentVolume"
RESOURCE_CLAIM: Final = "resource.k8s.io/ResourceClaim"
CLAIM_TEMPLATE: Final = "resource.k8s.io/ResourceClaimTemplate"
DEPLOYMENT: Final = "apps/Deployment"
STATEFUL_SET: Final = "apps/StatefulSet"
ROLLOUT: Final = "argoproj.io/Rollout"
DAEMON_SET: Final = "apps/DaemonSet"
ROLLED_OUT: Final = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)
REPLICA_SET: Final = "apps/ReplicaSet"
REPLICATION_CONTROLLER: Final = "/ReplicationController"
JOB: Final = "batch/Job"
CRON_JOB: Final = "batch/CronJob"
REPLICAS: Final = ("spec", "replicas")
COUNT_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys((DEPLOYMENT, STATEFUL_SET, REPLICA_SET, REPLICATION_CONTROLLER), REPLICAS),
    JOB: ("spec", "parallelism"),
    CRON_JOB: (*JOB_TEMPLATE, "spec", "parallelism"),
}
"""`group/Kind` of each workload with a number of Pods -> the path of this number."""
CONTROLLER_REVISION: Final = "apps/ControllerRevision"
"""Contains the Pod template of a StatefulSet or DaemonSet. The webhook evaluates new ones; the cache has none."""

APPLIED: Final = tuple(kind for kind in LINTED if kind not in (POD, PRIORITY_CLASS))
"""Kinds of one apply that predictions of its Pods and workloads read, besides PriorityClasses."""


def empty_list(spec: KindSpec) -> dict[str, Any]:
    """Return an empty List object, which a cluster snapshot contains for a kind that was listed and has no objects."""
    return {"apiVersion": spec.api_version, "kind": f"{spec.kind}List", "items": []}


def listed_as_empty(obj: Mapping[str, Any]) -> str:
    """Return the `group/Kind` of an empty List object; an empty string for any other object."""
    version, kind = obj.get("apiVersion"), obj.get("kind")
    if obj.get("items") != [] or not isinstance(version, str) or not isinstance(kind, str) or not kind.endswith("List"):
        return ""
    return f"{version.rpartition('/')[0]}/{kind.removesuffix('List')}"


def is_snapshot_version(obj: Mapping[str, Any]) -> bool:
    """Report whether this is the object of cluster snapshots with the version of the API server and the time of the
    read.
    """
    return obj.get("kind") == "Version" and obj.get("apiVersion") == "forewarn.dev/v1"


def incomplete_list(obj: Any) -> str | None:
    """Return the problem of a List that is one page of several, or None. Source: apimachinery `ListMeta`."""
    if not isinstance(obj, dict) or "items" not in obj or not isinstance(metadata := obj.get("metadata"), dict):
        return None
    for field in ("continue", "remainingItemCount"):
        if metadata.get(field):
            return f"incomplete list: metadata.{field} is set. Fix: write all pages into one list (kubectl get)"
    return None


def is_namespaced(kind: str) -> bool:
    """Report whether a `group/Kind` is namespaced; true for unknown kinds."""
    spec = BY_GROUP_KIND.get(kind)
    return kind not in (KYVERNO_POLICIES[0], *WEBHOOK_CONFIGURATIONS) if spec is None else spec.namespaced


def plurals(kind: str) -> tuple[str, ...]:
    """Return the possible plurals of a `group/Kind`: the exact one for known kinds, otherwise by the usual rules.

    Source: apimachinery `meta.UnsafeGuessKindToResource`.
    """
    if kind in BY_GROUP_KIND:
        return (BY_GROUP_KIND[kind].plural,)
    name = kind.rpartition("/")[2].lower()
    return tuple({f"{name}s", f"{name}es" if name.endswith("s") else f"{name.removesuffix('y')}ies", name})


class Removed(NamedTuple):
    """The version that replaces a removed one, and the first minor version of Kubernetes 1.x without the removed one.

    `also`: what else to change, as the end of the fix.
    """

    replacement: str
    minor: int
    also: str = ""

    def problem(self, api_version: object, kind: object) -> str:
        return f"no {kind} in version {quote(str(api_version))}: Kubernetes 1.{self.minor} removed it"

    @property
    def fix(self) -> str:
        return f"write apiVersion: {self.replacement}{self.also}"


_WORKLOADS: Final = ("Deployment", "ReplicaSet", "DaemonSet")
REMOVED: Final = {
    **{f"extensions/v1beta1/{kind}": Removed("apps/v1", 16) for kind in _WORKLOADS},
    **{f"apps/v1beta1/{kind}": Removed("apps/v1", 16) for kind in ("Deployment", "StatefulSet")},
    **{f"apps/v1beta2/{kind}": Removed("apps/v1", 16) for kind in (*_WORKLOADS, "StatefulSet")},
    "batch/v1beta1/CronJob": Removed("batch/v1", 25),
    "batch/v2alpha1/CronJob": Removed("batch/v1", 21),
    "policy/v1beta1/PodDisruptionBudget": Removed("policy/v1", 25),
    "autoscaling/v2beta1/HorizontalPodAutoscaler": Removed(
        "autoscaling/v2", 25, ", and metrics with target, such as target.averageUtilization"
    ),
    "autoscaling/v2beta2/HorizontalPodAutoscaler": Removed("autoscaling/v2", 26),
}
"""`apiVersion/kind` -> its replacement, for kinds that the linter reads, except PriorityClasses."""
REMOVED_BY_SUPPORTED: Final = {
    "scheduling.k8s.io/v1alpha1/Workload": Removed(
        "scheduling.k8s.io/v1alpha2", 36, ", and podGroupTemplates for podGroups"
    ),
    **{
        f"scheduling.k8s.io/v1alpha2/{kind}": Removed("scheduling.k8s.io/v1beta1", 37)
        for kind in ("PodGroup", "Workload")
    },
}
"""`apiVersion/kind` of versions that an earlier supported minor version serves -> the replacement."""


def removed_version(api_version: object, kind: object, minor: int | None = None) -> Removed | None:
    """Return the replacement of a version that `minor` (None: every supported one) lacks; None for other versions."""
    removed = REMOVED_BY_SUPPORTED.get(key := f"{api_version}/{kind}")
    if not removed or not minor or removed.minor > minor:
        return REMOVED.get(key)
    later = removed_version(removed.replacement, kind, minor)
    return removed._replace(replacement=later.replacement) if later else removed
