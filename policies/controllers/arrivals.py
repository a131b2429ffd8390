"""The number of Pods that a workload requests, and how many of them exist already, for the check of quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from forewarn.policies.controllers.daemon_set import surge_and_unavailable
from forewarn.policies.controllers.new_pods import count_daemons, replicas_of
from forewarn.policies.controllers.own_pods import pods_of
from forewarn.policies.controllers.replica_set_sizes import max_surge
from forewarn.policies.objects.fields import at, group_kind, int32, text

if TYPE_CHECKING:
    from forewarn.policies.cluster.cache import ClusterSnapshot
    from forewarn.policies.objects.fields import ApiObject


class Arrivals(NamedTuple):
    """The number of Pods that a workload requests. `surge`: further Pods during a rollout."""

    replicas: int = 1
    surge: int = 0


def arrivals(obj: ApiObject, template: ApiObject, old: ApiObject | None, cluster: ClusterSnapshot | None) -> Arrivals:
    """Return the number of Pods that an object with a Pod template requests. `old`: the stored object, for missing
    fields.

    A Job counts its parallelism; a CronJob, one run; a DaemonSet, one Pod for each node that should run it, or one Pod
    if no nodes are known. Raises InvalidObject.
    """
    kind = group_kind(obj)
    if kind == "apps/DaemonSet":
        replicas = _daemons(obj, template, cluster)
        return Arrivals(replicas, min(surge_and_unavailable(obj, replicas)[0], replicas))
    given = at(obj, "spec", "replicas") is not None
    replicas = replicas_of(obj if given or old is None or kind in _RUNS else old)
    return Arrivals(replicas, _surge(obj, replicas))


def present(obj: ApiObject, old: ApiObject, template: ApiObject, cluster: ClusterSnapshot | None) -> int:
    """Return how many of the Pods that an object requests exist already. `old`: the stored object.

    The number is in the status of `old`, or is counted in the cluster state; if neither has Pods, it is the number that
    `old` requests. A CronJob creates its next run in addition to active runs, unless its concurrencyPolicy forbids
    this. Raises InvalidObject.
    """
    if group_kind(obj) == "batch/CronJob" and text(obj, "spec", "concurrencyPolicy", default="Allow") == "Allow":
        return 0
    replicas = int32(old, "status", _STATUS.get(group_kind(old), "replicas"))
    if replicas is not None:
        return max(replicas, 0)
    if at(old, "status", "observedGeneration") is not None:
        return 0  # its controller has counted, and leaves a zero out
    if cluster is not None and cluster.pods:
        return len(pods_of(cluster, obj))
    return arrivals(old, template, None, cluster).replicas


_STATUS: Final = {"apps/DaemonSet": "currentNumberScheduled", "batch/Job": "active"}
_RUNS: Final = ("batch/Job", "batch/CronJob")


def _daemons(obj: ApiObject, template: ApiObject, cluster: ClusterSnapshot | None) -> int:
    if cluster is None or not cluster.objects.nodes:
        return 1
    return count_daemons(cluster, obj, template)


def _surge(obj: ApiObject, replicas: int) -> int:
    """Return the number of surge Pods of a Deployment, at most its replicas; 0 for other kinds.

    Source: deployment util `NewRSNewReplicas`.
    """
    return min(max_surge(obj, replicas), replicas) if group_kind(obj) == "apps/Deployment" else 0
