"""The pods that a workload's controller would make next, as far as the scheduler looks at them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policies.cluster import resolved
from policies.objects.fields import (
    ApiObject,
    InvalidObject,
    at,
    group_kind,
    int32,
    mapping,
    ref_of,
    sequence,
    string_map,
)
from policies.objects.items import items
from policies.objects.pod import Pod
from policies.objects.pod_volumes import Volume
from policies.objects.taints import untolerated_taint
from policies.options import POD_TEMPLATE_PATHS
from policies.selectors import InvalidSelector, LabelSelector, Requirement, parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.cluster import ClusterSnapshot
    from policies.objects.node import Node
    from policies.objects.workload import Workload

REVISION: Final = "deployment.kubernetes.io/revision"
DAEMON_TOLERATIONS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""What the DaemonSet controller lets its pods tolerate. Source: pkg/controller/daemon/util/daemonset_util.go."""


NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = "nodeSelectorTerms"
_NOT_READY: Final = tuple(
    {"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for state in ("not-ready", "unreachable")
)
"""What admission adds to every new pod (plugin DefaultTolerationSeconds)."""


class NewPods(NamedTuple):
    """`wanted` pods shall run, `pods` of them are missing. `without_claims`: some volumes are left out of them, because
    their claims will only be made with the pods."""

    wanted: int
    pods: tuple[Pod, ...]
    without_claims: bool = False


def new_pods(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, replicas: int | None = None) -> NewPods:
    """The pods that are missing, in the order they would come; `replicas` stands in for the object's own number.

    Raises InvalidObject: a template that cannot be read, a class that does not exist.
    """
    if group_kind(obj) == "apps/DaemonSet":
        present = {pod.node_name for pod in pods_of(cluster, obj)}
        found = list(daemons(cluster, obj, template))
        return _with_claims(cluster, obj, len(found), [p for node, p in found if node not in present])
    wanted = replicas_of(obj) if replicas is None else replicas
    present = {pod.name for pod in pods_of(cluster, obj)}
    owner = _owner(cluster, obj)
    names = (f"{ref_of(obj).name}-{number}" for number in range(wanted + len(present)))
    free = [name for name in names if name not in present][: max(wanted - len(present), 0)]
    return _with_claims(cluster, obj, wanted, [_pod(cluster, obj, template, name, owner) for name in free])


def pods_of(cluster: ClusterSnapshot, obj: ApiObject) -> list[Pod]:
    """The pods that a workload has already: by owner, else by selector."""
    ref = ref_of(obj, "default")
    owners = {(ref.kind, ref.name), *((w.ref.kind, w.ref.name) for w in _owned(cluster, obj))}
    pods = [p for p in cluster.within(ref.namespace).pods.values() if not p.terminal and not p.terminating]
    found = [p for p in pods if p.owner is not None and (p.owner.kind, p.owner.name) in owners]
    selector = _selector(obj)
    return found if found or selector.empty else [p for p in pods if selector.matches(p.labels)]


def without_missing_claims(pod: Pod, cluster: ClusterSnapshot) -> Pod:
    """The pod less its ephemeral volumes whose claims are not there yet: they are made after the pod."""
    volumes = tuple(
        v
        for v in pod.spec.volumes
        if not v.ephemeral or (pod.namespace, v.claim_of(pod.name)) in cluster.objects.claims
    )
    return pod if volumes == pod.spec.volumes else replace(pod, spec=replace(pod.spec, volumes=volumes))


def _with_claims(cluster: ClusterSnapshot, obj: ApiObject, wanted: int, pods: list[Pod]) -> NewPods:
    """The pods with the claims of a StatefulSet that exist, and without those that do not."""
    templates = [
        str(at(t, "metadata", "name") or "")
        for t in (items(obj, "spec", "volumeClaimTemplates") if group_kind(obj) == "apps/StatefulSet" else ())
    ]
    made, missing = [], False
    for pod in pods:
        names = {template: f"{template}-{pod.name}" for template in templates}
        there = {t: name for t, name in names.items() if (pod.namespace, name) in cluster.objects.claims}
        claims = tuple(Volume(template, claim_name=name) for template, name in there.items())
        whole = without_missing_claims(pod, cluster)
        missing = missing or len(there) < len(names) or whole is not pod
        made.append(replace(whole, spec=replace(whole.spec, volumes=whole.spec.volumes + claims)) if claims else whole)
    return NewPods(wanted, tuple(made), missing)


def _owned(cluster: ClusterSnapshot, obj: ApiObject) -> list[Workload]:
    """The workloads that this one controls: a Deployment's ReplicaSets, a CronJob's Jobs."""
    ref = ref_of(obj, "default")
    return [w for w in cluster.within(ref.namespace).workloads.values() if w.controller == (ref.kind, ref.name)]


def _owner(cluster: ClusterSnapshot, obj: ApiObject) -> ApiObject:
    """What controls the new pods: the object itself, a Deployment's newest ReplicaSet where there is one."""
    if group_kind(obj) != "apps/Deployment":
        return obj
    sets = [w.object for w in _owned(cluster, obj) if w.ref.kind == "ReplicaSet"]
    revisions = [(str(at(s, "metadata", "annotations", REVISION) or ""), s) for s in sets]
    return max(revisions, key=lambda pair: (len(pair[0]), pair[0]), default=("", obj))[1]


def replicas_of(obj: ApiObject) -> int:
    """How many pods run at a time; one where the object does not say."""
    job = {"batch/Job": ("spec",), "batch/CronJob": ("spec", "jobTemplate", "spec")}.get(group_kind(obj))
    if job is None:
        number = int32(obj, "spec", "replicas")
    else:
        numbers = [n for n in (int32(obj, *job, "parallelism"), int32(obj, *job, "completions")) if n is not None]
        number = min(numbers) if int32(obj, *job, "parallelism") is not None else None
    return 1 if number is None else max(number, 0)


def _selector(obj: ApiObject) -> LabelSelector:
    if group_kind(obj) == "/ReplicationController":
        labels = string_map(obj, "spec", "selector")
        return LabelSelector(tuple(Requirement(key, "In", frozenset([value])) for key, value in labels.items()))
    try:
        return parse_label_selector(at(obj, "spec", "selector")) or LabelSelector()
    except InvalidSelector as error:
        raise InvalidObject(str(error), ("spec", "selector"), ref_of(obj)) from None


def _pod(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, name: str, owner: ApiObject) -> Pod:
    """One pod, as its controller would make it and admission would leave it."""
    ref, controller = ref_of(obj, "default"), ref_of(owner)
    reference = {"apiVersion": controller.api_version, "kind": controller.kind, "name": controller.name}
    with _in_template(obj):
        labels = dict(string_map(template, "metadata", "labels"))
        if owner is not obj and (pod_hash := at(owner, "metadata", "labels", "pod-template-hash")):
            labels["pod-template-hash"] = str(pod_hash)
        tolerations = [*sequence(template, "spec", "tolerations"), *_NOT_READY]
        made = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": ref.namespace,
                "name": name,
                "labels": labels,
                "ownerReferences": [{**reference, "controller": True}],
            },
            "spec": {**mapping(template, "spec"), "tolerations": tolerations},
        }
        return resolved(Pod.from_api(made), cluster)


@contextmanager
def _in_template(obj: ApiObject) -> Iterator[None]:
    """Errors in a template name the object that holds it, and the place in there."""
    try:
        yield
    except InvalidObject as error:
        path = (*POD_TEMPLATE_PATHS[group_kind(obj)], *error.path)
        raise InvalidObject(error.problem, path, ref_of(obj, "default")) from None


def daemons(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject) -> Iterator[tuple[str, Pod]]:
    """(node, pod) for every node that shall run one. Source: pkg/controller/daemon, `NodeShouldRunDaemonPod`."""
    for (_, name), node in sorted(cluster.objects.nodes.items()):
        pod = _daemon(cluster, obj, template, "In", name)
        if _lets_in(node, name, pod):
            yield name, pod


def count_daemons(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject) -> int:
    """How many nodes shall run one, without making a pod for each."""
    nodes = cluster.objects.nodes
    if not nodes:
        return 0
    pod = _daemon(cluster, obj, template, "NotIn", "")
    return sum(_lets_in(node, name, pod) for (_, name), node in nodes.items())


def _lets_in(node: Node, name: str, pod: Pod) -> bool:
    matches = pod.spec.node_affinity.matches(node.labels, name)
    return matches and untolerated_taint(node.taints, pod.spec.tolerations) is None


def _daemon(cluster: ClusterSnapshot, obj: ApiObject, template: ApiObject, operator: str, node: str) -> Pod:
    """The pod for the nodes whose name is `In` or `NotIn` this one."""
    ref = ref_of(obj, "default")
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in DAEMON_TOLERATIONS]
    if at(template, "spec", "hostNetwork") is True:
        added.append({"key": NETWORK_UNAVAILABLE, "operator": "Exists", "effect": "NoSchedule"})
    with _in_template(obj):
        spec = {**mapping(template, "spec"), "tolerations": [*sequence(template, "spec", "tolerations"), *added]}
        affinity = mapping(template, "spec", "affinity")
        terms = [dict(term) for term in items(template, "spec", "affinity", "nodeAffinity", _REQUIRED, _TERMS)] or [{}]
    bound = {**template, "spec": {**spec, "affinity": _only_on(operator, node, affinity, terms)}}
    return _pod(cluster, obj, bound, f"{ref.name}-{node}", obj)


def _only_on(operator: str, node: str, affinity: ApiObject, terms: list[dict[str, Any]]) -> ApiObject:
    """The affinity with the node's name in every term. Source: `ReplaceDaemonSetPodNodeNameNodeAffinity`."""
    named = [{"key": "metadata.name", "operator": operator, "values": [node]}]
    required = {_TERMS: [{**term, "matchFields": named} for term in terms]}
    return {**affinity, "nodeAffinity": {**mapping(affinity, "nodeAffinity"), _REQUIRED: required}}
