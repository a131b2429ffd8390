"""A cluster that changes step by step, as a watch would tell it: objects come, change and go."""

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.policies.scheduling.random_clusters import (
    KINDS,
    ZONES,
    namespace_object,
    node_object,
    pdb_object,
    random_case,
)
from tests.policies.scheduling.random_pods import (
    FEATURES,
    NAMESPACES,
    Dice,
    Obj,
    labels,
    pod_object,
    preemptor_object,
    stamp,
)
from tests.policies.scheduling.random_storage import claim_object, csi_node, storage_class, volume_object

# What makes the order of pods invisible from outside has no place here: the order in which they came would decide.
STEADY = tuple(feature for feature in FEATURES if feature not in ("ties", "unstarted"))


class World:
    """The objects of a cluster by field of a case, namespace and name."""

    def __init__(self, seed: int | str):
        self.rng = random.Random(f"world {seed}")
        self.dice = Dice(self.rng, frozenset(self.rng.sample(STEADY, k=self.rng.randint(2, 8))), first=1000)
        start = next(case for i in range(100) if (case := random_case(f"{seed}.{i}"))["id"].startswith("random"))
        for pod in start["pods"]:
            pod["status"].setdefault("startTime", stamp(self.dice.seconds.pop()))
        self.objects: dict[tuple[str, str, str], Obj] = {}
        for field in KINDS:
            for obj in start.get(field, []):
                self._put(field, obj)
        self.gone: list[tuple[str, Obj]] = []

    def _put(self, field: str, obj: Obj) -> Obj:
        self.objects[(field, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])] = obj
        return obj

    def _of(self, field: str) -> list[Obj]:
        return [obj for (of, _, _), obj in self.objects.items() if of == field]

    def case(self) -> dict[str, Any]:
        """The cluster as it is, with a new pod that wants a place."""
        nodes = self._of("nodes")
        cpu = max((int(n["status"]["allocatable"]["cpu"].removesuffix("m")) for n in nodes), default=1000)
        named = nodes or [node_object(self.dice, "n1")]
        pod = preemptor_object(self.dice, cpu, named)
        claims = [c for c in self._of("pvcs") if c["metadata"]["namespace"] == pod["metadata"]["namespace"]]
        for i, claim in enumerate(claims[:2] if self.dice.percent(50) else []):
            source = {"persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
            pod["spec"].setdefault("volumes", []).append({"name": f"v{i}", **source})
        return copy.deepcopy({"id": "world", "pod": pod, **{field: self._of(field) for field in KINDS}})

    def change(self) -> tuple[str, Obj]:
        """Make one change: "add" (or replace) or "remove", and the object."""
        makers: list[Callable[[], Obj | None]] = [
            *[self._new_pod] * 3,
            *[self._changed_pod] * 4,
            *[self._changed_node] * 2,
            self._new_node,
            self._new_budget,
            self._new_storage,
            self._changed_namespace,
            self._returned,
        ]
        if self.objects and self.dice.percent(30):
            return "remove", self._removed()
        made = self.dice.one(makers)() or self._new_node()
        field = next(field for field, (_, kind) in KINDS.items() if kind == made["kind"])
        return "add", copy.deepcopy(self._put(field, made))

    def _removed(self) -> Obj:
        by_field = sorted({field for field, _, _ in self.objects})
        field = self.dice.one([*by_field, *["pods"] * 3])
        keys = sorted(key for key in self.objects if key[0] == field) or sorted(self.objects)
        key = self.dice.one(keys)
        obj = self.objects.pop(key)
        self.gone.append((key[0], obj))
        return copy.deepcopy(obj)

    def _returned(self) -> Obj | None:
        return self.dice.one(self.gone)[1] if self.gone else None

    def _new_pod(self) -> Obj:
        nodes = [node["metadata"]["name"] for node in self._of("nodes")]
        # Pods of a node that is not there (yet) are told of as well.
        pod, _ = pod_object(self.dice, self.dice.one([*nodes, "n9"]), 2000)
        if self.dice.percent(15):
            pod["status"] = {"phase": "Pending", "nominatedNodeName": pod["spec"].pop("nodeName")}
        return pod

    def _changed_pod(self) -> Obj | None:
        pods = self._of("pods")
        if not pods:
            return None
        pod = copy.deepcopy(self.dice.one(pods))
        status = pod["status"]
        if "nodeName" not in pod["spec"]:
            pod["spec"]["nodeName"] = status["nominatedNodeName"]
            status.update(phase="Running", startTime=stamp(self.dice.seconds.pop()))
        elif self.dice.percent(40):
            pod["metadata"]["labels"] = labels(self.dice)
        elif self.dice.percent(50):
            pod["metadata"].update(deletionTimestamp="2026-02-27T20:53:20Z", deletionGracePeriodSeconds=30)
        elif self.dice.percent(50):
            status["phase"] = "Succeeded"
        else:
            status["containerStatuses"] = []
        return pod

    def _changed_node(self) -> Obj | None:
        nodes = self._of("nodes")
        if not nodes:
            return None
        node = copy.deepcopy(self.dice.one(nodes))
        if self.dice.percent(50):
            return node_object(self.dice, node["metadata"]["name"])
        if self.dice.percent(50):
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = self.dice.one(ZONES)
        else:
            node["spec"]["unschedulable"] = not node["spec"].get("unschedulable", False)
        return node

    def _new_node(self) -> Obj:
        return node_object(self.dice, f"n{self.rng.randint(1, 9)}")

    def _new_budget(self) -> Obj:
        return pdb_object(self.dice, f"pdb{self.rng.randrange(4)}")

    def _new_storage(self) -> Obj | None:
        kind = self.dice.one(("claim", "volume", "class", "node"))
        if kind == "claim":
            return claim_object(self.dice, f"claim{self.rng.randrange(3)}", self.dice.one(list(NAMESPACES)))[0]
        if kind == "volume":
            return volume_object(self.dice, f"free{self.rng.randrange(3)}")
        if kind == "class":
            return storage_class(self.dice, self.dice.one(("late", "now")))
        nodes = self._of("nodes")
        return csi_node(self.dice, self.dice.one(nodes)) if nodes else None

    def _changed_namespace(self) -> Obj:
        namespace = namespace_object(self.dice.one(list(NAMESPACES)))
        namespace["metadata"]["labels"] = dict(self.dice.one(list(NAMESPACES.values())))
        return namespace


def objects_of(case: dict[str, Any]) -> Iterator[Obj]:
    """Everything in a case but the pod that wants a place."""
    for field, found in case.items():
        if field not in ("id", "pod"):
            yield from found
