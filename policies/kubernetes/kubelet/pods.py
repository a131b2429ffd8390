"""Parse Pods as the kubelet sees them: requests, criticality and QoS class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from forewarn.policies.kubernetes.kube_apiserver.validation.resources import compute_pod_qos
from forewarn.policies.kubernetes.objects.fields import ApiObject, at, int32, items, mapping, text
from forewarn.policies.kubernetes.objects.pod import MIRROR_ANNOTATION
from forewarn.policies.kubernetes.objects.pod_resources import pod_level, read_pod_resources
from forewarn.policies.kubernetes.objects.resource_list import in_nano
from forewarn.policies.kubernetes.quantity import NANO

_SYSTEM_CRITICAL: Final = 2_000_000_000
CONFIG_SOURCE: Final = "kubernetes.io/config.source"


class KubeletPod(NamedTuple):
    """A Pod on a node.

    `key`: `namespace/name`. `has_priority`: false if the spec has none. `requests`: in billionths, by resource.
    `volumes`: names of volumes on the node's own disk. `grace`: termination grace period in seconds. `static`: the
    kubelet read the Pod from a file or URL. `by_claims`: extended resources that ResourceClaims provide. `os`: "" if
    the Pod names no operating system. `strict_groups`: the policy for supplemental groups is Strict.
    """

    key: str
    priority: int
    has_priority: bool
    critical: bool
    qos: str
    requests: Mapping[str, int]
    volumes: tuple[str, ...]
    grace: int
    static: bool = False
    by_claims: frozenset[str] = frozenset()
    os: str = ""
    strict_groups: bool = False

    def request(self, resource: str) -> int:
        """Return the request for a resource in units, rounded up. Source: upstream `GetResourceRequestQuantity`."""
        return -(-self.requests.get(resource, 0) // NANO)


def read_pod(obj: ApiObject) -> KubeletPod:
    """Return a Pod from its API object. Raises InvalidObject."""
    priority = int32(obj, "spec", "priority")
    annotations = mapping(obj, "metadata", "annotations")
    static = annotations.get(CONFIG_SOURCE) not in (None, "api")
    grace = at(obj, "spec", "terminationGracePeriodSeconds")
    # With Pod-level requests, containers do not count; overhead counts only for requested resources. Source:
    # pkg/api/v1/resource `GetResourceRequestQuantity`.
    resources = read_pod_resources(obj, use_status=False, accept_negative=False)
    overhead = in_nano(resources.overhead)
    total = pod_level(resources.requests) if resources.sets_pod_level else resources.container_requests()
    return KubeletPod(
        key=f"{text(obj, 'metadata', 'namespace', default='default')}/{text(obj, 'metadata', 'name')}",
        priority=priority or 0,
        has_priority=priority is not None,
        critical=is_critical_pod(priority or 0, of_node=static or MIRROR_ANNOTATION in annotations),
        qos=text(obj, "status", "qosClass") or compute_pod_qos(resources),
        requests={name: amount + overhead.get(name, 0) for name, amount in in_nano(total).items() if amount},
        volumes=tuple(text(v, "name") for v in items(obj, "spec", "volumes") if _is_local(v)),
        grace=grace if isinstance(grace, int) and grace >= 0 else 30,
        static=static,
        by_claims=frozenset(
            text(item, "resourceName")
            for item in items(obj, "status", "extendedResourceClaimStatus", "requestMappings")
        ),
        os=text(obj, "spec", "os", "name"),
        strict_groups=text(obj, "spec", "securityContext", "supplementalGroupsPolicy") == "Strict",
    )


def is_critical_pod(priority: int, *, of_node: bool) -> bool:
    """Report whether the kubelet evicts others for a Pod, and never evicts it. Source: `IsCriticalPod`."""
    return of_node or priority >= _SYSTEM_CRITICAL


def _is_local(volume: ApiObject) -> bool:
    """Return whether a volume is on the node's own disk. Source: `localVolumeNames`, `IsLocalEphemeralVolume`."""
    empty = volume.get("emptyDir")
    on_disk = isinstance(empty, dict) and not empty.get("medium")
    return on_disk or any(volume.get(kind) is not None for kind in ("hostPath", "gitRepo", "configMap"))
