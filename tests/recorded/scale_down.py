"""The answer to a recorded case of scale-down: the unneeded, unremovable and removed nodes of each scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.cluster.cache import Cache
from forewarn.policies.kubernetes.objects.fields import at, text, timestamp
from forewarn.policies.prediction.autoscaling.cluster_autoscaler import scale_down
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.node_group import is_ready
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.pod_list import without_expendable
from forewarn.policies.prediction.autoscaling.cluster_autoscaler.scale_down import (
    GroupSize,
    ScaleDown,
    ScaleDownSettings,
    Scene,
)

if TYPE_CHECKING:
    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.objects.pod import Pod

_REASONS: Final = {
    scale_down.DISABLED: "ScaleDownDisabledAnnotation",
    scale_down.UNREADY_DISABLED: "ScaleDownUnreadyDisabled",
    scale_down.UNREADABLE: "UnexpectedError",
    scale_down.UTILIZED: "NotUnderutilized",
    scale_down.RECENT: "RecentlyUnremovable",
    scale_down.NO_PLACE: "NoPlaceToMovePods",
    scale_down.NOT_LONG_ENOUGH: "NotUnneededLongEnough",
    scale_down.NOT_UNREADY_LONG_ENOUGH: "NotUnreadyLongEnough",
    scale_down.MIN_SIZE: "NodeGroupMinSizeReached",
    scale_down.ON_COMPLETION: "BlockedByOnCompletionPod",
    scale_down.NO_CONTROLLER: "BlockedByPod:ControllerNotFound",
    scale_down.TOO_FEW_REPLICAS: "BlockedByPod:MinReplicasReached",
    scale_down.NOT_REPLICATED: "BlockedByPod:NotReplicated",
    scale_down.SYSTEM: "BlockedByPod:UnmovableKubeSystemPod",
    scale_down.NOT_SAFE: "BlockedByPod:NotSafeToEvictAnnotation",
    scale_down.LOCAL_STORAGE: "BlockedByPod:LocalStorageRequested",
    scale_down.PDB: "BlockedByPod:NotEnoughPdb",
}
_LISTS: Final = {
    "nodes": "",
    "pods": "",
    "pdbs": "",
    "pvcs": "",
    "pvs": "",
    "daemonsets": "apps/DaemonSet",
    "replicaSets": "apps/ReplicaSet",
    "statefulSets": "apps/StatefulSet",
    "replicationControllers": "/ReplicationController",
    "jobs": "batch/Job",
}
_SETTINGS: Final = {
    "threshold": "threshold",
    "unneededTime": "unneeded_time",
    "unreadyTime": "unready_time",
    "recheck": "recheck",
    "systemPodTimeout": "system_pod_timeout",
    "maxParallel": "max_parallel",
    "maxDrains": "max_drains",
    "minReplicas": "min_replicas",
    "ignoreDaemonSets": "ignores_daemon_sets",
    "ignoreMirrorPods": "ignores_mirror_pods",
}
_NEGATED: Final = {
    "noUnready": "unready_enabled",
    "anySystemPods": "skips_system_pods",
    "anyLocalStorage": "skips_local_storage",
    "anyController": "skips_custom_controllers",
}


def settings_of(case: ApiObject) -> ScaleDownSettings:
    given = case["scaleDown"]
    chosen = {ours: given[key] for key, ours in _SETTINGS.items() if key in given}
    chosen |= {ours: not given[key] for key, ours in _NEGATED.items() if key in given}
    return ScaleDownSettings(**chosen)


def answer_scans(case: ApiObject) -> list[Any]:
    """Return what each scan decides, in the form of the recordings."""
    cache, replicas, created = Cache(), dict[tuple[str, str, str], int](), dict[str, float]()
    for key, kind in _LISTS.items():
        for obj in case.get(key, ()):
            cache.add(obj)
            namespace, name = text(obj, "metadata", "namespace"), text(obj, "metadata", "name")
            count = at(obj, "spec", "replicas")
            replicas[kind, namespace, name] = count if isinstance(count, int) else 1
            if key == "pods":
                created[f"{namespace}/{name}"] = timestamp(obj, "metadata", "creationTimestamp") or 0.0
    whole = cache.snapshot().scheduling
    snapshot = without_expendable(whole, case["options"]["expendablePodsPriorityCutoff"])
    nodes = {text(node, "metadata", "name"): node for node in case["nodes"]}
    disabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
    decider, deleting, scans = ScaleDown(settings_of(case)), dict[str, bool](), []

    def created_at(pod: Pod) -> float | None:
        return created.get(pod.key)

    for at_second in case["scans"]:
        scene = Scene(
            snapshot=snapshot,
            pdbs=whole.pdbs,
            nodes=sorted(nodes),
            groups={name: group["name"] for group in case["groups"] for name in group["nodes"]},
            sizes={group["name"]: GroupSize(group["size"], group["minSize"]) for group in case["groups"]},
            disabled={name for name, node in nodes.items() if at(node, "metadata", "annotations", disabled) == "true"},
            unready={name for name, node in nodes.items() if not is_ready(node)},
            deleting=dict(deleting),
            created=created_at,
            replicas=lambda *key: replicas.get(key),
        )
        decider.update(scene, case["now"] + at_second)
        small = {name for name, why in decider.kept.items() if why == scale_down.MIN_SIZE}
        empty, drained = decider.nodes_to_delete(scene)
        deleting |= {**dict.fromkeys(empty, False), **dict.fromkeys(drained, True)}
        scans.append(
            {
                "unneeded": sorted(decider.unneeded),
                "unremovable": {name: _REASONS[why] for name, why in decider.kept.items() if name not in small},
                "empty": sorted(empty),
                "drained": sorted(drained),
            }
        )
    return scans
