"""The answer to a recorded case."""

from __future__ import annotations

import json
import re
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, Final

from forewarn.policies.kubernetes.objects.fields import boolean, group_kind, items, mapping, text
from forewarn.policies.kubernetes.objects.pod import Pod
from forewarn.policies.prediction.autoscaling import NotPredicted
from forewarn.policies.prediction.autoscaling.karpenter.autoscaler import (
    exceeded_limit,
    provision,
    rejection,
    usage_by_pool,
)
from forewarn.policies.prediction.autoscaling.karpenter.instance_types import read_instance_types, read_node_pools
from forewarn.policies.prediction.autoscaling.karpenter.requirements import (
    CAPACITY_TYPE,
    INSTANCE_TYPE,
    SIMULATED,
    Requirement,
    texts,
)
from forewarn.policies.prediction.autoscaling.karpenter.scheduler import PLACEHOLDER, Options
from forewarn.policies.prediction.autoscaling.karpenter.topology import Choices
from tests.recorded.karpenter_state import NODE_CLAIM, NODE_POOLS, Eviction, Objects, is_unschedulable, read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from forewarn.policies.kubernetes.objects.fields import ApiObject
    from forewarn.policies.kubernetes.objects.resources import ExactAmounts
    from forewarn.policies.prediction.autoscaling.karpenter.autoscaler import ClusterState, Decision
    from forewarn.policies.prediction.autoscaling.karpenter.scheduler import NewNodeClaim

RUNS: Final = 12
"""Runs of a case in which upstream's answer depends on the order of a Go map."""
_MAX_OUTCOMES: Final = 24
_SHOWN_TYPES: Final = 10
NODE_CLASSES: Final = (("karpenter.k8s.aws", "EC2NodeClass"), ("karpenter.test.sh", "TestNodeClass"))
_KINDS: Final = {
    "nodes": "/Node",
    "nodeclaims": NODE_CLAIM,
    "pods": "/Pod",
    "pending": "/Pod",
    "daemonsets": "apps/DaemonSet",
    "nodepools": NODE_POOLS,
    "namespaces": "/Namespace",
}
_NOW: Final = 1_767_225_600.0  # 2026-01-01T00:00:00Z, as in the oracle
_NUMBER: Final = re.compile(rf"{PLACEHOLDER}-[0-9]+")
_WAITS: Final = "cluster state not synced: the provisioner waits"


def answer_case(case: ApiObject) -> ApiObject:
    """Return the decision for a case in the form of the recordings. Raises NotPredicted, InvalidObject, ValueError."""
    objects = read_objects(case)
    eviction = Eviction(objects.of("policy/PodDisruptionBudget"), _NOW)
    locates_volumes = boolean(case, "options", "locatesVolumes")
    state, moving, waits = read_state(objects, eviction, locates_volumes=locates_volumes)
    raw_pools = [pool for pool in objects.of(NODE_POOLS) if _is_managed(pool, "spec", "template")]
    taken, left = _taken(case, state)
    if waits:
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
        offered = {p: [t for t in types if t.is_of(p.name)] for p in pools}
        decision = provision(state, offered, [*taken, *moving], settings, choices)
        return {**_shown(decision, usage), **left}

    choices = Choices()
    first = run(choices)
    if not choices.arbitrary:
        return {**first, "runs": 1, "distinct": 1}
    return _combined([run(Choices(Random(seed))) for seed in range(RUNS)])


def read_objects(case: ApiObject) -> Objects:
    """Return the API objects of a case."""
    objects = Objects()
    for key, kind in _KINDS.items():
        for obj in items(case, key):
            if kind != NODE_CLAIM or _is_managed(obj):
                objects.collect(obj, kind)
    for obj in items(case, "objects"):
        if group_kind(obj) != NODE_CLAIM or _is_managed(obj):
            objects.collect(obj)
    return objects


def _is_managed(obj: ApiObject, *path: str) -> bool:
    """Report whether a NodePool or NodeClaim is Karpenter's."""
    reference = mapping(obj, *path, "spec", "nodeClassRef")
    return (reference.get("group"), reference.get("kind")) in NODE_CLASSES


def _taken(case: ApiObject, state: ClusterState) -> tuple[list[Pod], dict[str, Any]]:
    """Return the Pending Pods that Karpenter takes, and those that it leaves alone, in the form of the recordings."""
    taken, ignored, rejected = [], [], {}
    for obj in items(case, "pending"):
        pod = Pod.from_api(obj)
        if not is_unschedulable(obj):
            ignored.append(pod.name)
        elif problem := rejection(pod, state.storage):
            ignored.append(pod.name)
            rejected[pod.name] = problem
        else:
            taken.append(pod)
    return taken, {"ignored": sorted(ignored), **({"rejected": rejected} if rejected else {})}


def _shown(decision: Decision, usage: Mapping[str, ExactAmounts]) -> dict[str, Any]:
    claims = sorted((_shown_claim(claim, usage) for claim in decision.new), key=lambda claim: claim["pods"])
    errors = sorted(decision.errors.items())
    existing = [(node, sorted(pod.pod.name for pod in pods)) for node, pods in decision.existing]
    return {
        "newNodeClaims": claims,
        "existing": [{"node": node, "pods": pods} for node, pods in sorted(existing)],
        "podErrors": {key.partition("/")[2]: _NUMBER.sub(PLACEHOLDER, message) for key, message in errors},
    }


def _shown_claim(claim: NewNodeClaim, usage: Mapping[str, ExactAmounts]) -> dict[str, Any]:
    requirements, names = claim.requirements, [t.name for t in claim.instance_types]
    wanted = ((r.min_values, requirements.on(key).min_values) for key, r in claim.pool.template.items())
    is_relaxed = any(least is not None and now is not None and now < least for least, now in wanted)
    relaxed = {"minValuesRelaxed": True} if is_relaxed else {}
    usable = [o for t in claim.instance_types for o in t.offerings if o.suits(requirements)]
    requirements.add((Requirement.from_entry(INSTANCE_TYPE, "In", names),))
    capacity_types = sorted({offering.capacity_type for offering in usable})
    requirements.add((Requirement.from_entry(CAPACITY_TYPE, "In", capacity_types),))
    shown = {key: _entries(r) for key, r in sorted(requirements.items()) if key not in SIMULATED}
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
    outcomes = [by_text[key] for key, _ in counts.most_common(_MAX_OUTCOMES)]
    combined = {**outcomes[0], "runs": len(answers), "distinct": len(counts)}
    if len(counts) == 1:
        return combined
    amounts = [count for _, count in counts.most_common(_MAX_OUTCOMES)]
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


def _entries(requirement: Requirement) -> list[str]:
    """Return a requirement in the notation of recorded cases: `!v` for NotIn, `*` for Exists, `Gte 2`."""
    if requirement.gte is not None or requirement.lte is not None:
        return [f"{op} {n}" for op, n in (("Gte", requirement.gte), ("Lte", requirement.lte)) if n is not None]
    if requirement.complement:
        return [f"!{value}" for value in sorted(requirement.values)] or ["*"]
    return sorted(requirement.values)
