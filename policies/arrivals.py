"""How many pods a workload asks for, as far as quotas are concerned: they count pods, wherever those run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.new_pods import count_daemons, pods_of, replicas_of
from policies.objects.fields import InvalidObject, at, group_kind, int32, ref_of, text

if TYPE_CHECKING:
    from policies.cluster import ClusterSnapshot
    from policies.objects.fields import ApiObject

_DEFAULT_SURGE: Final = "25%"
_MOST_DIGITS: Final = 18
"""Of a percentage: what upstream's Atoi reads in 64 bits."""


class Arrivals(NamedTuple):
    """`replicas` pods shall run; a rollout brings `surge` more for a while."""

    replicas: int = 1
    surge: int = 0


def arrivals(obj: ApiObject, template: ApiObject, old: ApiObject | None, cluster: ClusterSnapshot | None) -> Arrivals:
    """What an object with a pod template asks for. `old`: the stored object that it replaces, for what it leaves out.

    Of a Job, what runs at a time, of a CronJob, one run; of a DaemonSet, a pod for each node that lets it in, or one
    where no nodes are known. Raises InvalidObject.
    """
    kind = group_kind(obj)
    if kind == "apps/DaemonSet":
        replicas = _daemons(obj, template, cluster)
        return Arrivals(replicas, _daemon_surge(obj, replicas))
    given = at(obj, "spec", "replicas") is not None
    replicas = replicas_of(obj if given or old is None or kind in _RUNS else old)
    return Arrivals(replicas, _surge(obj, replicas))


def surge_of(obj: ApiObject) -> int:
    """How many pods a rollout of a Deployment brings beside the wanted ones; 0 for others. Raises InvalidObject."""
    return _surge(obj, replicas_of(obj))


def present(obj: ApiObject, old: ApiObject, template: ApiObject, cluster: ClusterSnapshot | None) -> int:
    """How many of the pods that an object asks for are there already, as pods of the stored object.

    As its status says, else as many as the state has; where that has no pods at all, as many as it asks for. A
    CronJob's next run comes beside those that run, unless its concurrencyPolicy forbids that. Raises InvalidObject.
    """
    if group_kind(obj) == "batch/CronJob" and text(obj, "spec", "concurrencyPolicy", default="Allow") == "Allow":
        return 0
    told = int32(old, "status", _STATUS.get(group_kind(old), "replicas"))
    if told is not None:
        return max(told, 0)
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
    """Source: deployment util `ResolveFenceposts`, `NewRSNewReplicas`: never more new pods than replicas."""
    if group_kind(obj) != "apps/Deployment" or text(obj, "spec", "strategy", "type") == "Recreate":
        return 0
    given = at(obj, "spec", "strategy", "rollingUpdate", "maxSurge")
    return min(_scaled(_DEFAULT_SURGE if given is None else given, replicas, obj, "strategy"), replicas)


def _daemon_surge(obj: ApiObject, replicas: int) -> int:
    given = at(obj, "spec", "updateStrategy", "rollingUpdate", "maxSurge")
    if given is None or text(obj, "spec", "updateStrategy", "type") == "OnDelete":
        return 0
    return min(_scaled(given, replicas, obj, "updateStrategy"), replicas)


def _scaled(value: Any, total: int, obj: ApiObject, strategy: str) -> int:
    """A number, or a percentage of the total, rounded up (apimachinery intstr `GetScaledValueFromIntOrPercent`)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return max(value, 0)
    number = value.removesuffix("%") if isinstance(value, str) and value.endswith("%") else ""
    number = number.lstrip("0") or number[:1]
    if not (number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS):
        path = ("spec", strategy, "rollingUpdate", "maxSurge")
        raise InvalidObject("must be a whole number or a percentage", path, ref_of(obj))
    return -(-int(number) * total // 100)
