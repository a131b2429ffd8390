"""Random cases for Karpenter's provisioner: `generate.py SEED COUNT`, JSON lines (form: README.md)."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

ZONES = ["zone-a", "zone-b", "zone-c"]
FAMILY, CPU_LABEL = "karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-cpu"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
POOL, CAPACITY, TYPE = "karpenter.sh/nodepool", "karpenter.sh/capacity-type", "node.kubernetes.io/instance-type"
APPS = ["web", "api", "db"]
NOW = "2026-01-01T00:00:00Z"


INVALID = ("-1", "many", "+3", str(2**63), str(-(2**63)), str(10**30))
"""Values of Gt and Lt that kube-scheduler rejects. Karpenter checks only the required terms of Pending Pods."""


class Case:
    """One case; `r` is its source of randomness, and `dense` cases use every feature more often."""

    def __init__(self, seed: str) -> None:
        self.r, self.uids = random.Random(seed), 0
        self.dense = self.r.choice([0.3, 1, 2])
        self.objects: list[Any] = []

    def chance(self, probability: float) -> bool:
        return self.r.random() < min(probability * self.dense, 0.9)

    def meta(self, name: str, namespace: str = "", /, **more: Any) -> dict[str, Any]:
        self.uids += 1
        when = f"2025-12-31T{self.r.randrange(20, 24)}:{self.r.randrange(60):02}:00Z"
        uid = f"{self.r.randrange(16**8):08x}-{self.uids:04}"
        scope = {"namespace": namespace} if namespace else {}
        return {"name": name, "uid": uid, "creationTimestamp": when, **scope, **more}

    def types(self) -> list[dict[str, Any]]:
        chosen, count = [], self.r.choice([2, 5, 9])
        for family, ratio in self.r.sample([("c", 2), ("m", 4), ("r", 8)], self.r.choice([1, 2, 3])):
            for cpu in self.r.sample([1, 2, 4, 8, 16], min(count, 5)):
                capacity = {"cpu": str(cpu), "memory": f"{cpu * ratio}Gi", "pods": str(self.r.choice([4, 8, 29, 110]))}
                if self.chance(0.1):
                    capacity["nvidia.com/gpu"] = "1"
                if self.chance(0.05):
                    capacity["hugepages-2Mi"] = "512Mi"
                if self.chance(0.3):
                    capacity["ephemeral-storage"] = self.r.choice(["20Gi", "100Gi"])
                labels: dict[str, Any] = {FAMILY: family, CPU_LABEL: str(cpu)}
                if self.chance(0.15):
                    labels["kubernetes.io/arch"] = self.r.choice(["arm64", ["amd64", "arm64"]])
                if self.chance(0.03):
                    labels["kubernetes.io/os"] = self.r.choice(["windows", ["linux", "windows"]])
                chosen.append(
                    {
                        "name": f"{family}.{cpu}",
                        "capacity": capacity,
                        "requirements": labels,
                        "overhead": {"cpu": "80m", "memory": f"{self.r.choice([100, 255, 700])}Mi"},
                        "offerings": self.offerings(f"{family}.{cpu}", cpu),
                    }
                )
                if self.chance(0.08):
                    chosen[-1]["nodepools"] = ["pool-0"]
        return chosen

    def offerings(self, name: str, cpu: int) -> list[dict[str, Any]]:
        listed = [
            {
                "zone": zone,
                "capacityType": kind,
                "price": round(cpu * self.r.uniform(0.01, 0.1), 4),
                "available": not self.chance(0.15),
            }
            for zone in ZONES
            for kind in ("spot", "on-demand")
            if self.r.random() < 0.85
        ]
        if self.chance(0.12):
            reservation: dict[str, Any] = {
                "reservationId": self.r.choice([f"r-{name}", "r-shared"]),
                "reservationCapacity": self.r.choice([0, 1, 2, 5]),
            }
            listed.append(
                {
                    "zone": self.r.choice(ZONES),
                    "capacityType": "reserved",
                    "price": 0.0001,
                    "available": self.r.random() < 0.8,
                    **reservation,
                }
            )
        return listed or [{"zone": "zone-a", "capacityType": "spot", "price": 1.0, "available": True}]

    def node_pools(self) -> list[dict[str, Any]]:
        return [self.node_pool(f"pool-{n}") for n in range(self.r.choice([1, 2, 2, 3, 4]))]

    def node_pool(self, name: str) -> dict[str, Any]:
        labels: dict[str, str] = {}
        if self.chance(0.3):
            labels["tier"] = self.r.choice(["front", "back"])
        template: dict[str, Any] = {
            "requirements": [self.pool_requirement() for _ in range(self.r.choice([0, 0, 1, 2, 3]))]
        }
        template["nodeClassRef"] = {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"}
        if self.chance(0.02):
            template["nodeClassRef"]["kind"] = "OtherClass"
        if self.chance(0.2):
            template["taints"] = [self.taint() for _ in range(self.r.choice([1, 1, 2]))]
        if self.chance(0.2):
            template["startupTaints"] = [{"key": "agent", "effect": "NoExecute", "value": "off"}]
            if self.chance(0.2):
                template["startupTaints"].append(self.taint())
        spec: dict[str, Any] = {"template": {"metadata": {"labels": labels}, "spec": template}}
        if self.chance(0.3):
            spec["weight"] = self.r.choice([1, 10, 10, 50])
        if self.chance(0.15):
            spec["limits"] = self.r.choice(
                [
                    {"cpu": "8"},
                    {"cpu": "20", "memory": "64Gi"},
                    {"nodes": "2"},
                    {"nodes": "0"},
                    {"cpu": "1"},
                    {"memory": "40Gi", "nodes": "3"},
                    {"nvidia.com/gpu": self.r.choice(["0", "1"]), "cpu": "40"},
                    {"ephemeral-storage": "120Gi"},
                    {"pods": "100", "cpu": "12500m"},
                ]
            )
        if self.chance(0.02):
            spec["replicas"] = 2
        pool: dict[str, Any] = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": self.meta(name, **self.deleted(0.02)),
            "spec": spec,
        }
        if self.chance(0.03):
            kinds = ("ValidationSucceeded", "NodeClassReady", "Ready")
            pool["status"] = {
                "conditions": [
                    {"type": k, "status": "False", "reason": k, "message": "", "lastTransitionTime": NOW} for k in kinds
                ]
            }
        return pool

    def deleted(self, probability: float) -> dict[str, Any]:
        gone = {"deletionTimestamp": NOW, "finalizers": ["example.com/x"]}
        return gone if self.chance(probability) else {}

    def pool_requirement(self) -> dict[str, Any]:
        r = self.r
        minimum = {"minValues": r.choice([1, 2, 3, 6])} if self.chance(0.15) else {}
        return r.choice(
            [
                {"key": ZONE, "operator": "In", "values": r.sample(ZONES, r.choice([1, 2, 3])), **minimum},
                {"key": ZONE, "operator": "NotIn", "values": r.sample(ZONES, 1)},
                {
                    "key": CAPACITY,
                    "operator": "In",
                    "values": r.choice([["spot"], ["on-demand"], ["spot", "on-demand"], ["reserved", "spot"]]),
                    **minimum,
                },
                {"key": CAPACITY, "operator": "NotIn", "values": [r.choice(["spot", "reserved"])]},
                {
                    "key": FAMILY,
                    "operator": r.choice(["In", "NotIn"]),
                    "values": r.sample(["c", "m", "r"], r.choice([1, 2])),
                    **minimum,
                },
                {"key": FAMILY, "operator": "Exists", **minimum},
                {"key": TYPE, "operator": "Exists", **minimum},
                {
                    "key": CPU_LABEL,
                    "operator": r.choice(["Gt", "Lt", "Gte", "Lte"]),
                    "values": [r.choice(["1", "2", "4", "8"])],
                    **minimum,
                },
                {"key": "kubernetes.io/os", "operator": "In", "values": r.choice([["linux"], ["linux", "windows"]])},
                {"key": "example.com/team", "operator": "NotIn", "values": ["blue"]},
                {"key": "example.com/team", "operator": r.choice(["In", "Exists"]), "values": ["blue", "green"]},
                {"key": "kubernetes.io/arch", "operator": "In", "values": r.choice([["amd64"], ["arm64", "amd64"]])},
            ]
        )

    def taint(self) -> dict[str, Any]:
        effect = self.r.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
        return {"key": self.r.choice(["dedicated", "soft"]), "value": self.r.choice(["gpu", "5"]), "effect": effect}

    def toleration(self) -> dict[str, Any]:
        return self.r.choice(
            [
                {"operator": "Exists"},
                {"key": "dedicated", "operator": "Exists"},
                {"key": "soft", "operator": "Equal", "value": "gpu"},
                {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
                {"key": "soft", "operator": "Gt", "value": "3"},
                {"operator": "Exists", "effect": "PreferNoSchedule"},
            ]
        )

    def expression(self) -> dict[str, Any]:
        r = self.r
        choices: list[dict[str, Any]] = [
            {"key": ZONE, "operator": "In", "values": r.sample(ZONES, r.choice([1, 2]))},
            {"key": "failure-domain.beta.kubernetes.io/zone", "operator": "NotIn", "values": r.sample(ZONES, 1)},
            {"key": FAMILY, "operator": r.choice(["In", "NotIn"]), "values": [r.choice(["c", "m", "r"])]},
            {
                "key": CPU_LABEL,
                "operator": r.choice(["Gt", "Lt"]),
                "values": [r.choice(["1", "2", "4", *self.rare(*INVALID)])],
            },
            {"key": "tier", "operator": r.choice(["In", "NotIn"]), "values": [r.choice(["front", "back"])]},
            {"key": "tier", "operator": r.choice(["Exists", "DoesNotExist"])},
            {"key": "example.com/team", "operator": "In", "values": [r.choice(["blue", "green", "red"])]},
            {"key": CAPACITY, "operator": "In", "values": [r.choice(["spot", "on-demand", "reserved", "wrong"])]},
            {"key": POOL, "operator": r.choice(["In", "NotIn", "Exists"]), "values": ["pool-0"]},
            {"key": CAPACITY, "operator": "NotIn", "values": [r.choice(["spot", "on-demand"])]},
        ]
        if self.chance(0.1):
            choices.append({"key": TYPE, "operator": r.choice(["In", "NotIn"]), "values": ["m.4", "c.2"]})
            choices.append({"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]})
            choices.append({"key": "kubernetes.io/os", "operator": "In", "values": ["windows"]})
            choices.append({"key": "karpenter.sh/initialized", "operator": "In", "values": ["true"]})
            choices.append({"key": "example.com/unknown", "operator": r.choice(["Exists", "DoesNotExist"])})
        if self.chance(0.1):
            choices.append({"key": POOL, "operator": "DoesNotExist"})
            choices.append({"key": HOST, "operator": "In", "values": ["node-0"]})
        return r.choice(choices)

    def expressions(self) -> list[dict[str, Any]]:
        chosen = [self.expression() for _ in range(self.r.choice([1, 1, 2]))]
        for entry in chosen:
            if entry["operator"] in ("Exists", "DoesNotExist"):
                entry.pop("values", None)
        return chosen

    def selector(self) -> dict[str, Any]:
        return self.r.choice(
            [
                {"matchLabels": {"app": self.r.choice(APPS)}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": self.r.sample(APPS, 2)}]},
                {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [self.r.choice(APPS)]}]},
            ]
        )

    def rare(self, *values: str) -> tuple[str, ...]:
        return values if self.chance(0.1) else ()

    def term(self) -> dict[str, Any]:
        term: dict[str, Any] = {
            "labelSelector": self.selector(),
            "topologyKey": self.r.choice(
                [ZONE, HOST, HOST, "tier", CAPACITY, *self.rare(TYPE, POOL, "example.com/team")]
            ),
        }
        if self.chance(0.1):
            term["namespaces"] = ["default", "other"]
        elif self.chance(0.1):
            term["namespaceSelector"] = self.r.choice([{}, {"matchLabels": {"team": "x"}}])
        return term

    def host_port(self) -> dict[str, Any]:
        return {
            "containerPort": 80,
            "hostPort": self.r.choice([80, 81]),
            "protocol": self.r.choice(["TCP", "UDP"]),
            **({"hostIP": self.r.choice(["10.0.0.1", "10.0.0.2", "::", "0.0.0.0"])} if self.r.random() < 0.3 else {}),
        }

    def container(self) -> dict[str, Any]:
        r = self.r
        requests = {
            "cpu": r.choice(["100m", "250m", "1", "1500m", "3"]),
            "memory": r.choice(["128Mi", "1Gi", "3000Mi", "6Gi"]),
        }
        for _ in range(self.chance(0.05)):
            requests["nvidia.com/gpu"] = "1"
        if self.chance(0.05):
            requests["ephemeral-storage"] = r.choice(["1Gi", "25Gi"])
        if self.chance(0.02):
            requests["hugepages-2Mi"] = "256Mi"
        if self.chance(0.05):
            requests.pop(r.choice(["cpu", "memory"]))
        container: dict[str, Any] = {"name": "c", "image": "x", "resources": {"requests": requests}}
        if self.chance(0.1):
            container["ports"] = [self.host_port() for _ in range(r.choice([1, 1, 2]))]
        return container

    def spec(self, volumes: bool = True) -> dict[str, Any]:
        r = self.r
        spec: dict[str, Any] = {"containers": [self.container()]}
        if self.chance(0.05):
            always = {"restartPolicy": "Always"} if r.random() < 0.5 else {}
            spec["initContainers"] = [
                {"name": "i", "image": "x", "resources": {"requests": {"cpu": r.choice(["500m", "2"])}}, **always}
            ]
            if self.chance(0.2):
                spec["initContainers"][0]["ports"] = [self.host_port()]
        if self.chance(0.04):
            spec["resources"] = {"requests": {"cpu": r.choice(["2", "3500m"]), "memory": "7Gi"}}
        if self.chance(0.05):
            spec["overhead"] = {"cpu": "250m", "memory": "120Mi"}
        if self.chance(0.2):
            spec["tolerations"] = [self.toleration() for _ in range(r.choice([1, 2]))]
        if self.chance(0.12):
            entry = self.expression()
            if entry.get("values") and entry["operator"] == "In":
                spec["nodeSelector"] = {entry["key"]: entry["values"][0]}
        self.affinity(spec)
        self.spread(spec)
        if volumes and self.chance(0.12):
            spec["volumes"] = [self.volume(n) for n in range(r.choice([1, 1, 2]))]
        if self.chance(0.01):
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu"}]
        return spec

    def affinity(self, spec: dict[str, Any]) -> None:
        affinity: dict[str, Any] = {}
        if self.chance(0.15):
            affinity.setdefault("nodeAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": [
                    {"matchExpressions": self.expressions()} for _ in range(self.r.choice([1, 1, 2, 3]))
                ]
            }
        if self.chance(0.12):
            affinity.setdefault("nodeAffinity", {})["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self.r.choice([1, 50, 50, 100]), "preference": {"matchExpressions": self.expressions()}}
                for _ in range(self.r.choice([1, 2]))
            ]
        for kind in ("podAffinity", "podAntiAffinity"):
            if self.chance(0.1):
                affinity.setdefault(kind, {})["requiredDuringSchedulingIgnoredDuringExecution"] = [
                    self.term() for _ in range(self.r.choice([1, 1, 2]))
                ]
            if self.chance(0.08):
                affinity.setdefault(kind, {})["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {"weight": self.r.choice([1, 100]), "podAffinityTerm": self.term()}
                    for _ in range(self.r.choice([1, 2]))
                ]
        if affinity:
            spec["affinity"] = affinity

    def spread(self, spec: dict[str, Any]) -> None:
        for _ in range(self.r.choice([1, 1, 2]) if self.chance(0.2) else 0):
            constraint: dict[str, Any] = {
                "maxSkew": self.r.choice([1, 1, 2, 3]),
                "topologyKey": self.r.choice(
                    [ZONE, ZONE, HOST, CAPACITY, "tier", FAMILY, *self.rare(TYPE, POOL, "kubernetes.io/arch")]
                ),
                "whenUnsatisfiable": self.r.choice(["DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": self.selector(),
            }
            if constraint["whenUnsatisfiable"] == "DoNotSchedule" and self.chance(0.15):
                constraint["minDomains"] = self.r.choice([2, 3, 5])
            if self.chance(0.1):
                constraint["nodeTaintsPolicy"] = self.r.choice(["Honor", "Ignore"])
            if self.chance(0.1):
                constraint["nodeAffinityPolicy"] = self.r.choice(["Honor", "Ignore"])
            if self.chance(0.1):
                constraint["matchLabelKeys"] = ["app", "version"]
            spec.setdefault("topologySpreadConstraints", []).append(constraint)

    def zone_key(self) -> str:
        return "failure-domain.beta.kubernetes.io/zone" if self.chance(0.1) else ZONE

    def volume(self, number: int) -> dict[str, Any]:
        r, name = self.r, f"data-{len(self.objects)}"
        if self.chance(0.03):
            return {"name": f"v{number}", "persistentVolumeClaim": {"claimName": "nowhere"}}
        claim: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": self.meta(name, "default"),
        }
        if self.chance(0.03):
            claim["metadata"] |= {"deletionTimestamp": NOW, "finalizers": ["kubernetes.io/pvc-protection"]}
        claim["spec"] = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": r.choice(
                ["zonal", "anywhere", "immediate", "missing", ""] if self.chance(0.1) else ["zonal", "anywhere"]
            ),
        }
        claim["status"] = {"phase": "Pending"}
        if r.random() < 0.5:
            claim["spec"]["volumeName"] = f"pv-{name}"
            claim["status"]["phase"] = "Lost" if self.chance(0.03) else "Bound"
            if not self.chance(0.05):
                claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            source = r.choice(
                [{"csi": {"driver": "ebs.csi", "volumeHandle": name}}] * 3
                + [
                    {"local": {"path": "/x"}},
                    {"awsElasticBlockStore": {"volumeID": name}},
                    {"hostPath": {"path": "/x"}},
                ]
            )
            terms = [
                {
                    "matchExpressions": [
                        {"key": self.zone_key(), "operator": "In", "values": r.sample(ZONES, r.choice([1, 1, 2]))},
                        *([{"key": HOST, "operator": "In", "values": ["node-0"]}] if "csi" not in source else []),
                    ]
                }
                for _ in range(r.choice([1, 1, 2]))
            ]
            affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if r.random() < 0.8 else {}
            volume = {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": self.meta(f"pv-{name}", **self.deleted(0.02)),
                "spec": {**source, **affinity},
            }
            if not self.chance(0.03):
                self.objects.append(volume)
        self.objects.append(claim)
        return {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}}

    def pending(self) -> list[dict[str, Any]]:
        pods: list[dict[str, Any]] = []
        most = self.r.choice([3, 8, 15, 15, 40])
        while len(pods) < most:
            spec, app, version = self.spec(), self.r.choice(APPS), self.r.choice(["1", "2"])
            namespace = "other" if self.chance(0.05) and "volumes" not in spec else "default"
            owners = {"ownerReferences": [self.owner()]} if self.chance(0.3) else {}
            for _ in range(min(self.r.choice([1, 2, 4, 8, 20]), most - len(pods))):
                labels = {"app": app, "version": version}
                condition = {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated" if self.chance(0.03) else "Unschedulable",
                }
                metadata = self.meta(f"p-{len(pods):02}", namespace, labels=labels, **owners, **self.deleted(0.01))
                status = {
                    "phase": "Pending",
                    "conditions": [] if self.chance(0.02) else [condition],
                    **({"nominatedNodeName": self.r.choice(["node-0", "gone"])} if self.chance(0.04) else {}),
                }
                pods.append({"metadata": metadata, "spec": spec, "status": status})
        return pods

    def owner(self) -> dict[str, Any]:
        kinds = ["apps/v1/ReplicaSet"] * 4 + ["apps/v1/StatefulSet", "batch/v1/Job", "apps/v1/DaemonSet", "v1/Node"]
        version, _, kind = self.r.choice(kinds).rpartition("/")
        return {"apiVersion": version, "kind": kind, "name": "owner", "uid": "owner", "controller": True}

    def daemon_sets(self) -> list[dict[str, Any]]:
        sets = []
        for number in range(self.r.choice([0, 0, 1, 2, 3])):
            spec = {
                key: value
                for key, value in self.spec(volumes=False).items()
                if key not in ("topologySpreadConstraints", "resourceClaims")
            }
            spec["containers"][0]["resources"]["requests"] = {"cpu": self.r.choice(["50m", "200m"]), "memory": "64Mi"}
            if self.chance(0.2):
                spec["containers"][0]["resources"] = {"limits": {"cpu": "100m", "memory": "100Mi"}}
            spec.get("affinity", {}).pop("podAffinity", None)
            spec.get("affinity", {}).pop("podAntiAffinity", None)
            template = {"metadata": {"labels": {"app": f"agent-{number}"}}, "spec": spec}
            sets.append(
                {
                    "apiVersion": "apps/v1",
                    "kind": "DaemonSet",
                    "metadata": self.meta(f"agent-{number}", "kube-system"),
                    "spec": {"selector": {"matchLabels": {"app": f"agent-{number}"}}, "template": template},
                }
            )
        return sets

    def cluster(
        self, types: list[dict[str, Any]], pools: list[dict[str, Any]], daemons: list[dict[str, Any]]
    ) -> tuple[list[Any], list[Any], list[Any]]:
        nodes: list[Any] = []
        claims: list[Any] = []
        pods: list[Any] = []
        for number in range(self.node_count()):
            self.node(f"node-{number}", self.r.choice(types), self.r.choice(pools), (nodes, claims))
        for node in nodes:
            for daemon in daemons:
                if self.r.random() < 0.7:
                    owner = {
                        "apiVersion": "apps/v1",
                        "kind": "DaemonSet",
                        "name": daemon["metadata"]["name"],
                        "uid": daemon["metadata"]["uid"],
                        "controller": True,
                    }
                    spec = json.loads(json.dumps(daemon["spec"]["template"]["spec"]))
                    resources = spec["containers"][0]["resources"]
                    resources.setdefault("requests", resources.get("limits"))  # as the API server does for Pods
                    pods.append(
                        self.running(
                            f"{daemon['metadata']['name']}-{node['metadata']['name']}", node, spec, "kube-system", owner
                        )
                    )
            for _ in range(self.pod_count()):
                owner = {
                    "apiVersion": "apps/v1",
                    "kind": self.r.choice(["ReplicaSet", "StatefulSet"]),
                    "name": "rs",
                    "uid": "rs",
                    "controller": True,
                }
                pods.append(
                    self.running(
                        f"run-{len(pods)}", node, self.spec(), self.r.choice(["default", "default", "other"]), owner
                    )
                )
        return nodes, claims, pods

    def pod_count(self) -> int:
        return self.r.choice([0, 1, 2, 4])

    def node_count(self) -> int:
        return self.r.choice([0, 0, 2, 4, 7])

    def node(self, name: str, kind: dict[str, Any], pool: dict[str, Any], into: tuple[list[Any], list[Any]]) -> None:
        r, managed, template = self.r, self.r.random() < 0.85, pool["spec"]["template"]
        zone, provider = r.choice(ZONES), f"test:///{name}"
        labels = {
            ZONE: zone,
            TYPE: kind["name"],
            CAPACITY: r.choice(["spot", "on-demand"]),
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
        }
        labels |= {k: v for k, v in kind["requirements"].items() if isinstance(v, str)} | template["metadata"]["labels"]
        amounts = {
            "capacity": kind["capacity"],
            "allocatable": {**kind["capacity"], "cpu": f"{int(kind['capacity']['cpu']) * 1000 - 80}m"},
        }
        state = r.choice(["initialized"] * 5 + ["registered", "created", "launched", "deleting"])
        deleted: dict[str, Any] = (
            {"deletionTimestamp": NOW, "finalizers": ["karpenter.sh/termination"]}
            if state == "deleting" or self.chance(0.08)
            else {}
        )
        if managed:
            labels[POOL] = pool["metadata"]["name"]
            claim: dict[str, Any] = {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": self.meta(f"claim-{name}", labels=dict(labels), **deleted),
            }
            reference = {"group": "karpenter.test.sh", "kind": "TestNodeClass", "name": "default"}
            claim["spec"] = {
                "nodeClassRef": reference,
                "requirements": [],
                **{k: template["spec"][k] for k in ("taints", "startupTaints") if k in template["spec"]},
            }
            claim["status"] = {"providerID": "" if self.chance(0.004) else provider, **amounts}
            if self.chance(0.03):
                condition = {"type": "InstanceTerminating", "status": "True", "reason": "x", "message": ""}
                claim["status"]["conditions"] = [{**condition, "lastTransitionTime": NOW}]
            into[1].append(claim)
            if state == "launched":
                return
        node_labels = {**labels, **({HOST: name} if r.random() < 0.9 else {})}
        if managed and state != "created":
            node_labels["karpenter.sh/registered"] = "true"
        if managed and state in ("initialized", "deleting"):
            node_labels["karpenter.sh/initialized"] = "true"
        taints = list(template["spec"].get("taints", ())) + (
            [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
            if state in ("created", "registered") or self.chance(0.05)
            else []
        )
        if deleted and managed:
            taints.append({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"})
        if state != "initialized":
            taints += template["spec"].get("startupTaints", [])
        if self.chance(0.03):
            keys = ["readiness.k8s.io/x", "karpenter.sh/unregistered", "node.kubernetes.io/unschedulable", "dedicated"]
            taints.append({"key": r.choice(keys), "effect": r.choice(["NoSchedule", "NoExecute"])})
        if state == "created" and managed:
            amounts = {"capacity": {}, "allocatable": {**amounts["allocatable"], "memory": "0"}}
        spec = {**({"providerID": provider} if managed or r.random() < 0.5 else {}), "taints": taints}
        into[0].append({"metadata": self.meta(name, labels=node_labels, **deleted), "spec": spec, "status": amounts})
        if self.chance(0.2):
            limit = {"name": "ebs.csi", "nodeID": name, "allocatable": {"count": r.choice([0, 1, 2])}}
            self.objects.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSINode",
                    "metadata": self.meta(name),
                    "spec": {"drivers": [limit]},
                }
            )

    def running(
        self, name: str, node: Any, spec: dict[str, Any], namespace: str, owner: dict[str, Any]
    ) -> dict[str, Any]:
        more: dict[str, Any] = {"labels": {"app": self.r.choice(APPS)}, "ownerReferences": [owner]}
        if self.chance(0.08):
            more["annotations"] = {"karpenter.sh/do-not-disrupt": self.r.choice(["true", "30m", "3m", "wrong"])}
        if self.chance(0.04):
            more |= {"deletionTimestamp": NOW, "finalizers": ["example.com/x"]}
        ready = {"type": "Ready", "status": self.r.choice(["True", "False"])}
        status = {
            "phase": "Succeeded" if self.chance(0.03) else "Running",
            "startTime": "2025-12-31T23:50:00Z",
            "conditions": [ready],
        }
        if namespace != "default":
            spec = {key: value for key, value in spec.items() if key != "volumes"}
        return {
            "metadata": self.meta(name, namespace, **more),
            "spec": {**spec, "nodeName": node["metadata"]["name"]},
            "status": status,
        }

    def storage(self) -> None:
        terms = [
            {"matchLabelExpressions": [{"key": self.zone_key(), "values": self.r.sample(ZONES, 2)}]}
            for _ in range(self.r.choice([1, 2]))
        ]
        for name, mode, topologies in (
            ("zonal", "WaitForFirstConsumer", terms),
            ("anywhere", "WaitForFirstConsumer", []),
            ("immediate", "Immediate", []),
        ):
            self.objects.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "StorageClass",
                    "metadata": self.meta(name),
                    "provisioner": "ebs.csi",
                    "volumeBindingMode": mode,
                    "allowedTopologies": topologies,
                }
            )
        for number in range(self.r.choice([0, 1, 2])):
            rule: dict[str, Any] = self.r.choice(
                [{"maxUnavailable": 0}, {"maxUnavailable": "0%"}, {"minAvailable": "100%"}, {"minAvailable": 1}]
            )
            always = {"unhealthyPodEvictionPolicy": "AlwaysAllow"} if self.r.random() < 0.3 else {}
            self.objects.append(
                {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": self.meta(f"pdb-{number}", "default"),
                    "spec": {"selector": self.selector(), **rule, **always},
                    "status": {},
                }
            )

    def build(self, name: str) -> dict[str, Any]:
        types, pools, daemons = self.types(), self.node_pools(), self.daemon_sets()
        nodes, claims, pods = self.cluster(types, pools, daemons)
        pending = self.pending()
        self.storage()
        options: dict[str, Any] = {"locatesVolumes": True}
        if self.chance(0.1):
            options["preferencePolicy"] = "Ignore"
        if self.chance(0.1):
            options["minValuesPolicy"] = "BestEffort"
        namespaces = [{"metadata": self.meta("other", labels={"team": "x"})}, {"metadata": self.meta("kube-system")}]
        return {
            "id": name,
            "nodes": nodes,
            "nodeclaims": claims,
            "pods": pods,
            "pending": pending,
            "daemonsets": daemons,
            "nodepools": pools,
            "namespaces": namespaces,
            "instanceTypes": types,
            "objects": self.objects,
            "options": options,
        }


if __name__ == "__main__":
    for index in range(int(sys.argv[2])):
        print(json.dumps(Case(f"{sys.argv[1]}-{index}").build(f"{sys.argv[1]}-{index:04}")))
