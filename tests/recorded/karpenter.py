"""The answer to a recorded case."""

from __future__ import annotations

import json
import re
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.autoscaling.autoscaler import NotPredicted
from forewarn.policies.autoscaling.karpenter.autoscaler import exceeded_limit, provision, rejection
from forewarn.policies.autoscaling.karpenter.instance_types import read_instance_types
from forewarn.policies.autoscaling.karpenter.node_pools import read_node_pools
from forewarn.policies.autoscaling.karpenter.pods import texts, untolerated
from forewarn.policies.autoscaling.karpenter.requirements import (
    CAPACITY_TYPE,
    GROUP,
    INITIALIZED,
    INSTANCE_TYPE,
    NODE_POOL,
    SIMULATED,
    Requirement,
)
from forewarn.policies.autoscaling.karpenter.scheduler import PLACEHOLDER, Options
from forewarn.policies.autoscaling.karpenter.state import (
    ClusterState,
    RunningNode,
    StateNode,
    usage_by_pool,
)
from forewarn.policies.autoscaling.karpenter.topology import Choices
from forewarn.policies.autoscaling.karpenter.volumes import Storage
from forewarn.policies.objects.fields import at, boolean, items, mapping, namespace_of, string_map, text, timestamp
from forewarn.policies.objects.namespace import Namespace
from forewarn.policies.objects.pod import Pod
from forewarn.policies.objects.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from forewarn.policies.objects.taints import NO_SCHEDULE, Taint
from forewarn.policies.scheduling.configuration.schema import seconds as seconds_of
from forewarn.policies.selectors import parse_label_selector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from forewarn.policies.autoscaling.karpenter.autoscaler import Decision
    from forewarn.policies.autoscaling.karpenter.scheduler import NewNodeClaim
    from forewarn.policies.objects.fields import ApiObject
    from forewarn.policies.objects.resources import ResourceList

RUNS: Final = 40
"""Runs of a case in which upstream's answer depends on the order of a Go map."""
_MOST_OUTCOMES: Final = 24
_SHOWN_TYPES: Final = 10
_NODE_CLASSES: Final = (("karpenter.k8s.aws", "EC2NodeClass"), ("karpenter.test.sh", "TestNodeClass"))
_NUMBER: Final = re.compile(rf"{PLACEHOLDER}-[0-9]+")
_WAITS: Final = "cluster state not synced: the provisioner waits"


def answer_case(case: ApiObject) -> ApiObject:
    """Return the decision for a case in the form of the recordings. Raises NotPredicted, InvalidObject, ValueError."""
    state, raw_pools = _state(case), [pool for pool in items(case, "nodepools") if _managed(pool, "spec", "template")]
    taken, left = _taken(case, state)
    if state.unsynced:
        return {**left, "newNodeClaims": [], "existing": [], "podErrors": {}, "error": _WAITS, "runs": 1, "distinct": 1}
    usage, options = usage_by_pool(state.nodes), mapping(case, "options")
    settings = Options(
        preferences=text(options, "preferencePolicy", default="Respect") == "Respect",
        best_effort=text(options, "minValuesPolicy", default="Strict") == "BestEffort",
    )
    cpu_requests = options.get("cpuRequests", 1000)
    if not isinstance(cpu_requests, int) or cpu_requests > 1000:
        raise NotPredicted("several workers: which NodeClaim gets a Pod depends on their timing")

    def run(choices: Choices) -> ApiObject:
        pools, types = read_node_pools(raw_pools), read_instance_types(case, "instanceTypes")
        offered = {p: [t for t in types if t.node_pools is None or p.name in t.node_pools] for p in pools}
        decision = provision(state, offered, taken, settings, choices)
        return {**_shown(decision, usage), **left}

    choices = Choices()
    first = run(choices)
    if not choices.arbitrary:
        return {**first, "runs": 1, "distinct": 1}
    return _combined([run(Choices(Random(seed))) for seed in range(RUNS)])


def _managed(obj: ApiObject, *path: str) -> bool:
    reference = mapping(obj, *path, "spec", "nodeClassRef")
    return (reference.get("group"), reference.get("kind")) in _NODE_CLASSES


def _state(case: ApiObject) -> ClusterState:
    others, raw_pods = list(items(case, "objects")), list(items(case, "pods"))
    claims = [claim for claim in items(case, "nodeclaims") if _managed(claim)]
    pods = [Pod.from_api(pod) for pod in raw_pods]
    limits = {node.name: node.limits for node in map(CSINode.from_api, _of(others, "CSINode"))}
    nodes, unsynced = state_nodes(list(items(case, "nodes")), claims, pods, limits)
    storage = _storage(others, locates_volumes=boolean(case, "options", "locatesVolumes"))
    namespaces = {text(obj, "metadata", "name"): obj for obj in items(case, "namespaces")}
    namespaces.setdefault("default", {"metadata": {"name": "default"}})
    return ClusterState(
        nodes=nodes,
        pods=pods,
        moving=_moving(case, nodes, _of(others, "PodDisruptionBudget")),
        daemons=[_daemon(daemon_set, raw_pods) for daemon_set in items(case, "daemonsets")],
        namespaces=[Namespace.from_api(obj) for obj in namespaces.values()],
        storage=storage,
        api_nodes={node.name: node for node in map(RunningNode.of_node, items(case, "nodes"))},
        unsynced=unsynced or any(_misses_volume(pod, storage) for node in nodes for pod in node.pods),
    )


def _moving(case: ApiObject, nodes: Iterable[StateNode], pdbs: Sequence[ApiObject]) -> list[Pod]:
    """Return the Pods on nodes that are being deleted which need another node."""
    now = timestamp(case, "now") or timestamp({"now": "2026-01-01T00:00:00Z"}, "now") or 0
    leaving = {node.node.name for node in nodes if node.deleting and node.node}
    pods = (pod for pod in items(case, "pods") if at(pod, "spec", "nodeName") in leaving)
    return [_unbound(pod) for pod in pods if needs_other_node(pod, pdbs, now)]


def state_nodes(
    nodes: Sequence[ApiObject],
    claims: Sequence[ApiObject],
    pods: Sequence[Pod],
    limits: Mapping[str, Mapping[str, int]],
) -> tuple[list[StateNode], bool]:
    """Return the nodes that Karpenter tracks, and whether it waits until it can track all. Raises InvalidObject.

    `limits`: node name -> CSI driver -> most volumes.
    """
    tracked: dict[str, StateNode] = {}
    waits = False
    for obj in claims:
        claim = RunningNode.of_claim(obj)
        startup = frozenset((text(t, "key"), text(t, "effect")) for t in items(obj, "spec", "startupTaints"))
        waits = waits or not claim.provider_id
        if claim.provider_id:
            tracked[claim.provider_id] = StateNode(None, claim, startup)
    bound: dict[str, list[Pod]] = {}
    for pod in pods:
        if not pod.terminal:
            bound.setdefault(pod.node_name, []).append(pod)
    for obj in nodes:
        node = RunningNode.of_node(obj)
        managed = bool(node.labels.get(NODE_POOL))
        typed = node.labels.get(INSTANCE_TYPE) or node.labels.get(INITIALIZED)
        if managed and not (node.provider_id and typed):
            waits = True
            continue
        state = tracked.setdefault(node.provider_id or node.name, StateNode(None, None))
        state.node, state.pods, state.limits = node, bound.get(node.name, []), limits.get(node.name, {})
    return list(tracked.values()), waits


def needs_other_node(obj: ApiObject, pdbs: Sequence[ApiObject], now: int) -> bool:
    """Report whether a Pod on a node that is being deleted needs another node. Source: `IsCurrentlyReschedulable`."""
    pod = Pod.from_api(obj)
    active = not pod.terminal and not pod.terminating
    if pod.owner_kind in ("apps/DaemonSet", "/Node"):
        return False
    if not active:
        return pod.owner_kind == "apps/StatefulSet" and pod.terminating
    return not _do_not_disrupt(obj, now) and not _is_blocked(pod, obj, pdbs)


def _do_not_disrupt(obj: ApiObject, now: int) -> bool:
    value = string_map(obj, "metadata", "annotations").get(f"{GROUP}/do-not-disrupt", "")
    if value == "true" or not value:
        return bool(value)
    seconds, start = seconds_of(value), timestamp(obj, "status", "startTime")
    return seconds is not None and seconds > 0 and (start is None or now - start < seconds)


def _is_blocked(pod: Pod, obj: ApiObject, pdbs: Sequence[ApiObject]) -> bool:
    """Report whether PDBs never allow to evict a Pod. Source: `isFullyBlocked`."""
    if untolerated((Taint(f"{GROUP}/disrupted", "", NO_SCHEDULE),), pod.spec.tolerations) is None:
        return False
    own = [pdb for pdb in pdbs if namespace_of(pdb) == pod.namespace and _selects(pdb, pod)]
    if len(own) != 1:
        return len(own) > 1
    spec, conditions = mapping(own[0], "spec"), items(obj, "status", "conditions")
    unhealthy = any(c.get("type") == "Ready" and c.get("status") == "False" for c in conditions)
    if unhealthy and spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return False
    zero = spec.get("maxUnavailable")
    return (zero in (0, "0%") and zero is not False) or spec.get("minAvailable") == "100%"


def _selects(pdb: ApiObject, pod: Pod) -> bool:
    selector = parse_label_selector(at(pdb, "spec", "selector"))
    return selector is not None and selector.matches(pod.labels)


def _misses_volume(pod: Pod, storage: Storage) -> bool:
    """Report whether a claim of a Pod names a volume that is gone. Karpenter then does not track the Pod's node."""
    claims = (claim for _, claim in storage._claims_of(pod) if claim is not None)
    return any(claim.volume_name and claim.volume_name not in storage.volumes for claim in claims)


def _storage(objects: Sequence[ApiObject], *, locates_volumes: bool) -> Storage:
    return Storage(
        {claim.key: claim for claim in map(PersistentVolumeClaim.from_api, _of(objects, "PersistentVolumeClaim"))},
        {volume.name: volume for volume in map(PersistentVolume.from_api, _of(objects, "PersistentVolume"))},
        {one.name: one for one in map(StorageClass.from_api, _of(objects, "StorageClass"))},
        locates_volumes,
    )


def _of(objects: Iterable[ApiObject], kind: str) -> list[ApiObject]:
    return [obj for obj in objects if obj.get("kind") == kind]


def _unbound(pod: ApiObject) -> Pod:
    return Pod.from_api({**pod, "spec": {**mapping(pod, "spec"), "nodeName": ""}})


def _daemon(daemon_set: ApiObject, pods: Iterable[ApiObject]) -> Pod:
    """Return a Pod of a DaemonSet: its newest one, otherwise one of its template. Source: `getDaemonSetPods`."""
    template, uid = mapping(daemon_set, "spec", "template"), at(daemon_set, "metadata", "uid")
    own = [
        pod
        for pod in pods
        if namespace_of(pod) == namespace_of(daemon_set)
        and any(o.get("uid") == uid and o.get("controller") for o in items(pod, "metadata", "ownerReferences"))
    ]
    newest = max(own, key=lambda pod: timestamp(pod, "metadata", "creationTimestamp") or 0, default=None)
    spec = dict(mapping(template if newest is None else newest, "spec"))
    required = at(template, "spec", "affinity", "nodeAffinity", _REQUIRED)
    if required is not None:
        affinity = dict(mapping(spec, "affinity"))
        spec["affinity"] = {**affinity, "nodeAffinity": {**mapping(affinity, "nodeAffinity"), _REQUIRED: required}}
    return _unbound({"metadata": mapping(newest or daemon_set, "metadata"), "spec": spec})


_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def _taken(case: ApiObject, state: ClusterState) -> tuple[list[Pod], dict[str, Any]]:
    """Return the Pending Pods that Karpenter takes, and those that it leaves alone, in the form of the recordings."""
    taken, ignored, rejected = [], [], {}
    for obj in items(case, "pending"):
        pod = Pod.from_api(obj)
        unschedulable = any(
            c.get("type") == "PodScheduled" and c.get("reason") == "Unschedulable"
            for c in items(obj, "status", "conditions")
        )
        owned = any(
            (o.get("apiVersion"), o.get("kind")) in (("apps/v1", "DaemonSet"), ("v1", "Node"))
            for o in items(obj, "metadata", "ownerReferences")
        )
        problem = ""
        if not unschedulable or pod.node_name or pod.nominated_node_name or owned:
            ignored.append(pod.name)
        elif problem := rejection(pod, state.storage):
            ignored.append(pod.name)
            rejected[pod.name] = problem
        else:
            taken.append(pod)
    return taken, {"ignored": sorted(ignored), **({"rejected": rejected} if rejected else {})}


def _shown(decision: Decision, usage: Mapping[str, ResourceList]) -> dict[str, Any]:
    claims = sorted((_shown_claim(claim, usage) for claim in decision.new), key=lambda claim: claim["pods"])
    errors = sorted(decision.errors.items())
    existing = [(node, sorted(pod.pod.name for pod in pods)) for node, pods in decision.existing]
    return {
        "newNodeClaims": claims,
        "existing": [{"node": node, "pods": pods} for node, pods in sorted(existing)],
        "podErrors": {key.partition("/")[2]: _NUMBER.sub(PLACEHOLDER, message) for key, message in errors},
    }


def _shown_claim(claim: NewNodeClaim, usage: Mapping[str, ResourceList]) -> dict[str, Any]:
    requirements, names = claim.requirements, [t.name for t in claim.instance_types]
    usable = [o for t in claim.instance_types for o in t.offerings if o.suits(requirements)]
    requirements.add((Requirement(INSTANCE_TYPE, names),))
    capacity_types = sorted({offering.capacity_type for offering in usable})
    requirements.add((Requirement(CAPACITY_TYPE, capacity_types),))
    shown = {key: r.entries() for key, r in sorted(requirements.items()) if key not in SIMULATED}
    relaxed = {"minValuesRelaxed": True} if claim.min_values_relaxed else {}
    error = exceeded_limit(claim.pool, usage)
    return {
        "nodepool": claim.pool.name,
        "pods": sorted(pod.pod.name for pod in claim.pods),
        "requirements": {**shown, INSTANCE_TYPE: names},
        "instanceTypes": names[:_SHOWN_TYPES],
        "instanceTypeCount": len(names),
        "zones": sorted({offering.zone for offering in usable}),
        "capacityTypes": capacity_types,
        "requests": texts(claim.requests),
        **relaxed,
        **({"createError": error} if error else {}),
    }


def _combined(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the answers of several runs: the commonest one first, and what all share."""
    counts = Counter(json.dumps({**answer, "podErrors": sorted(answer["podErrors"])}) for answer in answers)
    by_text = {json.dumps({**answer, "podErrors": sorted(answer["podErrors"])}): answer for answer in answers}
    outcomes = [by_text[key] for key, _ in counts.most_common(_MOST_OUTCOMES)]
    combined = {**outcomes[0], "runs": len(answers), "distinct": len(counts)}
    if len(counts) == 1:
        return combined
    amounts = [count for _, count in counts.most_common(_MOST_OUTCOMES)]
    return {**combined, "outcomes": outcomes, "counts": amounts, "agree": _agreement(answers)}


def _agreement(answers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what all answers share; about NodeClaims, given their Pods."""
    about: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
        "errors": lambda answer: sorted(answer["podErrors"]),
        "existing": lambda answer: answer["existing"],
        "count": lambda answer: len(answer["newNodeClaims"]),
        "groups": lambda answer: [claim["pods"] for claim in answer["newNodeClaims"]],
    }
    shared = [name for name, view in about.items() if all(view(answer) == view(answers[0]) for answer in answers)]
    by_pods: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for answer in answers:
        for claim in answer["newNodeClaims"]:
            by_pods.setdefault(tuple(claim["pods"]), []).append(claim)
    for key in ("nodepools", "instanceTypes", "zones", "capacityTypes", "requests"):
        field = key.removesuffix("s") if key == "nodepools" else key
        if all(claim[field] == claims[0][field] for claims in by_pods.values() for claim in claims):
            shared.append(key)
    return shared
