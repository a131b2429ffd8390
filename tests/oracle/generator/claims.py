"""Scenarios with claims and volumes: StatefulSets with volumeClaimTemplates, and generic ephemeral volumes.

They are apart so that a number of the other kinds stays the same scenario.
"""

from __future__ import annotations

from .dice import Dice, Obj
from .gangs import GANGS, make_gang_scenario
from .scenarios import ScenarioKind, name_of
from .wider import ALL_KINDS, WiderScenario, make_any_scenario

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
CLASSES = {
    "zonal": ("WaitForFirstConsumer", "zonal.example.com"),
    "local": ("WaitForFirstConsumer", "local.example.com"),
    "anywhere": ("Immediate", "anywhere.example.com"),
    "static": ("WaitForFirstConsumer", NO_PROVISIONER),
    "static-now": ("Immediate", NO_PROVISIONER),
}
"""StorageClass -> (binding mode, provisioner)."""
TOPOLOGY = {"zonal": [ZONE], "local": [HOST], "anywhere": [], "static": [HOST], "static-now": [ZONE]}
LOSSES = {"lose-node": 3, "drain": 2, "delete-pod": 2, "add-node": 2, "cordon": 1, "uncordon": 1}

CLAIMS: dict[str, ScenarioKind] = {
    "zonal-claims": ScenarioKind(
        {"StatefulSet": 8}, {**LOSSES, "StatefulSet": 2, "grow": 2}, {"zonal": 0.8, "local": 0.3, "parallel": 0.3},
        arriving=(2, 6),
    ),
    "static-claims": ScenarioKind(
        {"StatefulSet": 8}, {**LOSSES, "StatefulSet": 3, "grow": 3},
        {"static": 0.6, "static-now": 0.5, "parallel": 0.2}, arriving=(2, 6),
    ),
    "immediate-claims": ScenarioKind(
        {"StatefulSet": 8}, {**LOSSES, "StatefulSet": 3, "grow": 2}, {"anywhere": 0.8, "zonal": 0.2}, arriving=(2, 6)
    ),
    "retention": ScenarioKind(
        {"StatefulSet": 8}, {"shrink": 5, "grow": 5, "delete-workload": 2, "lose-node": 1},
        {"zonal": 0.9, "retention": 0.9, "parallel": 0.4}, arriving=(2, 7), close=0.1,
    ),
    "ephemeral": ScenarioKind(
        arrivals={**LOSSES, "Deployment": 4, "StatefulSet": 3}, oddities={"ephemeral": 0.9, "zonal": 0.3},
        arriving=(3, 7),
    ),
    "claims-and-rollouts": ScenarioKind(
        {"StatefulSet": 6}, {"roll": 5, "lose-node": 1, "grow": 1, "shrink": 1},
        {"zonal": 0.7, "anywhere": 0.3, "parallel": 0.3, "late": 0.2}, arriving=(2, 5), close=0.1,
    ),
}  # fmt: skip
EVERY_KIND = {**ALL_KINDS, **CLAIMS, **GANGS}


class ClaimScenario(WiderScenario):
    """One of these kinds while it is made up."""

    def __init__(self, dice: Dice, kind: ScenarioKind) -> None:
        super().__init__(dice, kind)
        self.claims: list[Obj] = []
        self.volumes: list[Obj] = []
        self._arriving = False

    def arrive(self) -> None:
        """The pods of time 0 have no ephemeral volumes; what arrives may have."""
        self._arriving = True
        super().arrive()

    def workload(self, kind: str, name: str, priority: int) -> Obj:
        made, dice = super().workload(kind, name, priority), self.dice
        if kind == "StatefulSet":
            classes = [each for each in CLASSES if dice.chance(self.kind.oddities.get(each, 0))]
            if classes:
                made["spec"]["volumeClaimTemplates"] = [self._template(each) for each in classes]
            if classes and dice.chance(self.kind.oddities.get("retention", 0)):
                policy = {when: dice.pick(("Retain", "Delete")) for when in ("whenDeleted", "whenScaled")}
                made["spec"]["persistentVolumeClaimRetentionPolicy"] = policy
        ephemeral = self._arriving and kind in ("StatefulSet", "Deployment", "ReplicaSet")
        if ephemeral and dice.chance(self.kind.oddities.get("ephemeral", 0)):
            template = {"spec": self._template(dice.pick(("zonal", "local", "anywhere")))["spec"]}
            volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
            made["spec"]["template"]["spec"]["volumes"] = [volume]
        return made

    def _template(self, storage_class: str) -> Obj:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": f"{self.dice.number(1, 20)}Gi"}},
        }
        return {"metadata": {"name": storage_class}, "spec": spec}

    def run(self, workload: Obj) -> bool:
        before = len(self.pods)
        ran = super().run(workload)
        for template in workload["spec"].get("volumeClaimTemplates", ()):
            for pod in self.pods[before:]:
                self._mount(workload, template, pod)
        return ran

    def _mount(self, workload: Obj, template: Obj, pod: Obj) -> None:
        """A bound claim for a pod that runs."""
        storage_class = name_of(template)
        name = f"{storage_class}-{name_of(pod)}"
        volume = self._volume(
            f"pv-{name}", storage_class, pod["spec"]["nodeName"], template["spec"]["resources"]["requests"]
        )
        volume["spec"]["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
        volume["status"] = {"phase": "Bound"}
        metadata: Obj = {"name": name, "namespace": "default"}
        metadata["annotations"] = {
            "pv.kubernetes.io/bind-completed": "yes",
            "pv.kubernetes.io/bound-by-controller": "yes",
        }
        policy = workload["spec"].get("persistentVolumeClaimRetentionPolicy", {})
        if policy.get("whenDeleted") == "Delete":
            owner = {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": name_of(workload),
                "uid": "",
                "controller": True,
            }
            metadata["ownerReferences"] = [{**owner, "blockOwnerDeletion": True}]
        claim = {
            "metadata": metadata,
            "spec": {**template["spec"], "volumeName": name_of(volume)},
            "status": {"phase": "Bound"},
        }
        self.claims.append(claim)
        self.volumes.append(volume)
        mounted = {"name": storage_class, "persistentVolumeClaim": {"claimName": name}}
        pod["spec"]["volumes"] = [*pod["spec"].get("volumes", ()), mounted]

    def _volume(self, name: str, storage_class: str, node: str, size: Obj) -> Obj:
        labels = next(each for each in self.nodes if name_of(each) == node)["metadata"]["labels"]
        expressions = [{"key": key, "operator": "In", "values": [labels[key]]} for key in TOPOLOGY[storage_class]]
        required = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        provisioner = CLASSES[storage_class][1]
        driver = "static.example.com" if provisioner == NO_PROVISIONER else provisioner
        return {
            "metadata": {"name": name},
            "spec": {
                "capacity": dict(size),
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": storage_class,
                "persistentVolumeReclaimPolicy": "Retain",
                "csi": {"driver": driver, "volumeHandle": name},
                **({"nodeAffinity": {"required": required}} if expressions else {}),
            },
            "status": {"phase": "Available"},
        }

    def to_case(self, name: str, category: str) -> Obj:
        case, dice = super().to_case(name, category), self.dice
        for storage_class in ("static", "static-now"):
            if self.kind.oddities.get(storage_class):
                sizes = dice.shuffled(list(range(1, 40)))[: dice.number(1, 8)]  # no two are equal
                for size in sizes:
                    node = name_of(dice.pick(self.nodes))
                    volume = self._volume(f"{storage_class}-{size}", storage_class, node, {"storage": f"{size}Gi"})
                    self.volumes.append(volume)
        coming = [
            each["object"] for each in self.arrivals if each["op"] == "create" and each["object"]["kind"] == "Node"
        ]
        drivers = [
            {"name": provisioner, "nodeID": "n", "topologyKeys": TOPOLOGY[name] or None}
            for name, (_, provisioner) in CLASSES.items()
            if provisioner != NO_PROVISIONER
        ]
        return case | {
            "pvcs": self.claims,
            "pvs": self.volumes,
            "storageClasses": [
                {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
                for name, (mode, provisioner) in CLASSES.items()
            ],
            "csiNodes": [
                {"metadata": {"name": name_of(node)}, "spec": {"drivers": drivers}} for node in (*self.nodes, *coming)
            ],
        }


def make_scenario_of_every_kind(seed: int, number: int, name: str) -> Obj:
    """One scenario of any kind; the same seed, number and kind always give the same one."""
    if name in GANGS:
        return make_gang_scenario(seed, number, name)
    if name not in CLAIMS:
        return make_any_scenario(seed, number, name)
    scenario = ClaimScenario(Dice(f"{seed}/{number}/{name}"), CLAIMS[name])
    scenario.fill()
    scenario.arrive()
    return scenario.to_case(f"{name}-{seed}-{number}", name)
