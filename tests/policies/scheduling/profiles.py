"""Scheduler configurations in a few words, and random ones."""

from __future__ import annotations

import random
from typing import Any

from forewarn.policies.kubernetes.cluster.cache import Cache, ClusterSnapshot
from forewarn.policies.kubernetes.releases.semantics import DEFAULT, Semantics
from forewarn.policies.kubernetes.scheduling.configuration import scheduler_configuration
from forewarn.policies.kubernetes.scheduling.plugins.registry import IN_TREE
from tests.builders import Made

Obj = dict[str, Any]


def config(*profiles: Obj, **fields: Any) -> Obj:
    """A KubeSchedulerConfiguration."""
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**header, **({"profiles": list(profiles)} if profiles else {}), **fields}


def point(*enabled: str | tuple[str, int], disabled: tuple[str, ...] = ()) -> Obj:
    """What an extension point says; a plugin may have a weight."""
    named = [{"name": e} if isinstance(e, str) else {"name": e[0], "weight": e[1]} for e in enabled]
    return {"enabled": named, "disabled": [{"name": name} for name in disabled]}


def args(**by_plugin: Obj) -> list[Obj]:
    """A pluginConfig."""
    return [{"name": name, "args": given} for name, given in by_plugin.items()]


def semantics(given: Obj, *plugins: Any, base: Semantics = DEFAULT) -> Semantics:
    """Of a scheduler with this configuration, and these plugins beside its own."""
    every = {**IN_TREE, **{plugin.name: plugin for plugin in plugins}}
    return base._replace(scheduler=scheduler_configuration(given, base, every))


def cluster(meant: Semantics, *made: Made) -> ClusterSnapshot:
    """A cluster of these objects."""
    cache = Cache(semantics=meant)
    for one in made:
        cache.add(one.obj)
    return cache.snapshot()


def random_config(rng: random.Random) -> Obj:
    """One that kube-scheduler starts with."""
    shape = [{"utilization": 0, "score": rng.randint(0, 10)}, {"utilization": 60, "score": rng.randint(0, 10)}]
    resources = [{"name": name, "weight": rng.randint(1, 5)} for name in rng.sample(_RESOURCES, rng.randint(1, 3))]
    strategy: Obj = {"type": rng.choice(_STRATEGIES), "resources": resources}
    if strategy["type"] == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    given = args(NodeResourcesFit={"scoringStrategy": strategy, "ignoredResourceGroups": rng.choice(_GROUPS)})
    if rng.random() < 0.4:
        given += args(NodeAffinity={"addedAffinity": _affinity(rng)})
    if rng.random() < 0.5:
        given += args(PodTopologySpread={"defaultingType": "List", "defaultConstraints": [_constraint(rng)]})
    plugins: Obj = {}
    if rng.random() < 0.4:
        plugins["multiPoint"] = point(disabled=tuple(rng.sample(_FILTERS, rng.randint(1, 3))))
    if rng.random() < 0.3:
        plugins["postFilter"] = point(disabled=("*",))
    if rng.random() < 0.3:
        plugins["filter"] = point(*rng.sample(_FILTERS, 3))
    return config({"plugins": plugins, "pluginConfig": given})


_RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu")
_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_GROUPS: tuple[list[str], ...] = ([], ["example.com"])
_FILTERS = ("NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "InterPodAffinity")


def _affinity(rng: random.Random) -> Obj:
    expression = {"key": rng.choice(("zone", "disk")), "operator": rng.choice(("Exists", "DoesNotExist"))}
    terms = [{"matchExpressions": [expression]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _constraint(rng: random.Random) -> Obj:
    key = rng.choice(("kubernetes.io/hostname", "zone", "topology.kubernetes.io/zone"))
    action = rng.choice(("DoNotSchedule", "ScheduleAnyway"))
    return {"maxSkew": rng.randint(1, 2), "topologyKey": key, "whenUnsatisfiable": action}
