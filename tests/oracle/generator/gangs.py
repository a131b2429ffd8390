"""Scenarios with PodGroups, for the feature gate GenericWorkload: what runs and what arrives may belong to groups."""

from __future__ import annotations

from typing import Any

from .dice import Dice, Obj
from .scenarios import ARRIVING, Arriving, Scenario, ScenarioKind, _named, name_of

GANGS: dict[str, ScenarioKind] = {
    "gang-fits": ScenarioKind(arrivals={"gang": 9}, arriving=(1, 2), oddities={"running-gang": 0.2}),
    "gang-preempts": ScenarioKind(arrivals={"gang": 9}, oddities={"running-gang": 0.5}, arriving=(1, 3)),
    "gang-bursts": ScenarioKind(arrivals={"gang": 9}, oddities={"running-gang": 0.4}, close=0.9, arriving=(2, 4)),
    "gang-victims": ScenarioKind({"Job": 4}, {"gang": 2}, {"running-gang": 0.9}),
    "gang-grows": ScenarioKind(
        arrivals={"gang": 8, "member": 8, "min-count": 4, "delete-pod": 4},
        oddities={"running-gang": 0.3},
        arriving=(3, 7),
    ),
    "gang-budgets": ScenarioKind(arrivals={"gang": 4}, oddities={"running-gang": 0.7}, pdbs=0.8),
    "gang-nodes": ScenarioKind(
        arrivals={"gang": 8, "add-node": 3, "cordon": 2, "uncordon": 2, "grow-node": 2, "lose-node": 1},
        oddities={"running-gang": 0.4},
        arriving=(2, 5),
    ),
    "gang-removals": ScenarioKind(
        arrivals={"gang": 8, "delete-pod": 4, "delete-workload": 3, "delete-group": 4, "grow": 3},
        oddities={"running-gang": 0.5},
        arriving=(2, 6),
    ),
    "gang-odd": ScenarioKind(
        arrivals={"gang": 8, "member": 3, "ungate": 3},
        oddities={"running-gang": 0.4, "never": 0.1, "gated": 0.1, "other-priority": 0.15, "too-few": 0.3},
        arriving=(2, 5),
    ),
    "gang-mixed": ScenarioKind(
        {"DaemonSet": 1, "Deployment": 2},
        {"gang": 8, "ReplicaSet": 2, "StatefulSet": 1, "Job": 1, "delete-pod": 2, "add-node": 1, "lose-node": 1,
         "cordon": 1, "member": 2, "min-count": 1, "delete-group": 1},
        {"running-gang": 0.4, "apart": 0.05, "spread": 0.05},
        arriving=(2, 8),
        pdbs=0.3,
    ),
}  # fmt: skip


class GangScenario(Scenario):
    """One of these kinds while it is made up."""

    def __init__(self, dice: Dice, kind: ScenarioKind) -> None:
        super().__init__(dice, kind)
        self.groups: list[Obj] = []

    def run(self, workload: Obj) -> bool:
        """Its pods, maybe in a PodGroup."""
        grouped = workload["kind"] != "DaemonSet" and self.dice.chance(self.kind.oddities.get("running-gang", 0))
        name, spec = name_of(workload), workload["spec"]
        if grouped and "ownerReferences" not in workload["metadata"]:
            spec["template"]["spec"]["schedulingGroup"] = {"podGroupName": name}
        if not super().run(workload):
            return False
        if "schedulingGroup" in spec["template"]["spec"]:
            self.groups.append(self.group(name, spec["template"]["spec"]["priority"], spec.get("replicas", 1)))
        return True

    def group(self, name: str, priority: int, size: int) -> Obj:
        """A PodGroup for so many pods."""
        dice = self.dice
        least = dice.number(1, size) if dice.chance(0.5) else size
        least += dice.chance(self.kind.oddities.get("too-few", 0))
        gang = dice.chance(0.85)
        spec: Obj = {"schedulingPolicy": {"gang": {"minCount": max(least, 1)}} if gang else {"basic": {}}}
        priority += 5 * dice.chance(self.kind.oddities.get("other-priority", 0))
        spec["priority"] = priority
        if dice.chance(0.8):
            spec["disruptionMode"] = dice.pick(({"all": {}}, {"single": {}}))
        metadata = {"name": name, "namespace": "default"}
        return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}

    def to_case(self, name: str, category: str) -> Obj:
        return {**super().to_case(name, category), "podGroups": self.groups}


def _gang(scenario: Any, _: str, name: str) -> Arriving:
    """A PodGroup and its pods: bare ones, or those of a workload."""
    dice, size = scenario.dice, scenario.dice.number(1, 6)
    priority = dice.pick(scenario.levels) + dice.pick((0, 5, 500, 2000))
    kind = dice.weighted({"Pod": 4, "Job": 2, "ReplicaSet": 2, "StatefulSet": 1})
    group = scenario.group(name, priority, size)
    made = scenario.workload(kind, name, priority)
    if kind != "Pod":
        made["spec"]["parallelism" if kind == "Job" else "replicas"] = size
        made["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": name}
        made["spec"] |= {"podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
        members = [made]
    else:
        made["spec"]["schedulingGroup"] = {"podGroupName": name}
        members = [_member_of(made, number) for number in range(1, size + 1)]
    arriving = [("create", group), *(("create", member) for member in members)]
    return [*arriving[1:], arriving[0]] if dice.chance(0.15) else arriving


def _member_of(pod: Obj, number: int) -> Obj:
    name = f"{pod['spec']['schedulingGroup']['podGroupName']}-{number}"
    return {**pod, "metadata": {**pod["metadata"], "name": name}}


def _created(scenario: Any, kind: str) -> list[Obj]:
    return [a["object"] for a in scenario.arrivals if a["op"] == "create" and a["object"]["kind"] == kind]


def _member(scenario: Any, _: str, __: str) -> Arriving:
    """One more pod of a PodGroup that has arrived."""
    pods = [pod for pod in _created(scenario, "Pod") if "schedulingGroup" in pod["spec"]]
    if not pods:
        return []
    pod = scenario.dice.pick(pods)
    return [("create", _member_of(pod, 10 + len(pods)))]


def _min_count(scenario: Any, _: str, __: str) -> Arriving:
    groups = [g for g in (*scenario.groups, *_created(scenario, "PodGroup")) if "gang" in g["spec"]["schedulingPolicy"]]
    if not groups:
        return []
    group = scenario.dice.pick(groups)
    policy = {"gang": {"minCount": scenario.dice.number(1, 6)}}
    return [("update", {**group, "spec": {**group["spec"], "schedulingPolicy": policy}})]


def _delete_group(scenario: Any, _: str, __: str) -> Arriving:
    groups = [*scenario.groups, *_created(scenario, "PodGroup")]
    return [("delete", _named(scenario.dice.pick(groups)))] if groups else []


ARRIVING.update({"gang": _gang, "member": _member, "min-count": _min_count, "delete-group": _delete_group})


def make_gang_scenario(seed: int, number: int, name: str) -> Obj:
    """One scenario of these kinds; the same seed, number and kind always give the same one."""
    scenario = GangScenario(Dice(f"{seed}/{number}/{name}"), GANGS[name])
    scenario.fill()
    scenario.arrive()
    return scenario.to_case(f"{name}-{seed}-{number}", name)
